#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# scripts/timed-test ends a test that hangs, with all that it started, says where each process waited, and leaves a quick test alone.
grep -q '^#define YK_SANITIZER "none"' "$YOKE_BUILD/config.h" ||
    { echo "1..0 # SKIP instrumented: the plain build's, as it runs no code of this one"; exit 0; }
echo "1..5"
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
cat >hangs.sh <<'END'
echo 1..2
echo ok 1
(setsid sh -c 'trap "" TERM; echo $$ >pid; sleep 300; :' &)
wait
sleep 300
END
printf 'echo 1..1\necho ok 1\n' >quick.sh
run() { # run NAME: as automake does, with a limit that the quick one does not reach
    YOKE_TEST_LIMIT=4 sh "$YOKE_SOURCE/scripts/timed-test" "$YOKE_SOURCE/build-aux/tap-driver.sh" --test-name "$1" --log-file "$1.log" \
        --trs-file "$1.trs" --color-tests no --enable-hard-errors yes --expect-failure no -- sh "./$1.sh" >"$1.out" 2>&1
}
say() { # say TEXT: with the state of the command before it
    if [ $? = 0 ]; then echo "ok - $1"; else
        sed 's/^/# /' ./*.log ./*.trs ./*.out
        echo "not ok - $1"
    fi
}
run hangs
grep -q '^:global-test-result: ERROR' hangs.trs && grep -q '^Bail out! not ended after 4 s' hangs.log
say "a test that hangs is an error"
[ "$(grep -c '^# process [0-9].*sleep 300' hangs.log)" -ge 2 ] && grep -q 'sh ./hangs.sh' hangs.log
say "its log has the processes that it had left"
! grep -qs '^State:.[RSD]' "/proc/$(cat pid)/status"
say "a process of a session of its own is ended with it"
run quick
grep -q '^:global-test-result: PASS' quick.trs && ! grep -q 'not ended' quick.log
say "a quick test passes"
grep -q '^:seconds: [0-9.]* [0-9.]*$' quick.trs && grep -q '^:: [0-9.]* [0-9.]* quick$' quick.out
say "its seconds are noted and printed"
