#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# yoke launch: what the ranks find in their environment, exit codes, messages, JSON.
yoke=$YOKE_BUILD/yoke
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
echo "1..11"
n=0
check() { # NAME: the last command's status decides
    if [ $? -eq 0 ]; then r=ok; else r="not ok"; sed 's/^/# /' "$tmp/out" "$tmp/err"; fi
    n=$((n + 1))
    echo "$r $n - $1"
}
run() {
    "$yoke" launch "$@" >"$tmp/out" 2>"$tmp/err"
    code=$?
}
if [ ! -x "$yoke" ]; then
    while [ $n -lt 11 ]; do n=$((n + 1)); echo "ok $n # SKIP yoke is not built"; done
    exit 0
fi
two="cpu:0 cpu:0"

run --devices "$two" -- sh -c 'echo "$YOKE_RANK $YOKE_LOCAL_RANK $YOKE_WORLD_SIZE ${YOKE_DEVICES%%:*} ${YOKE_JOB_FD:+fd}"'
[ $code -eq 0 ] && [ "$(sort "$tmp/out")" = "0 0 2 cpu fd
1 1 2 cpu fd" ]
check "each rank finds its number"

run --devices "cpu:0! cpu:0" -- sh -c 'echo "$YOKE_DEVICES"'
[ $code -eq 0 ] && [ "$(LC_ALL=C sort "$tmp/out")" = "cpu:0
cpu:0!" ]
check "a rank that is forced finds it in its device spec"

run --devices "$two" sh -c 'test $YOKE_RANK = 0 && exec sleep 20; exit 3'
[ $code -eq 1 ] && grep -q "^yoke launch: rank 1 (cpu:0.*) ended with exit code 3$" "$tmp/err"
check "a failing rank is named"

run --devices "$two" --json sh -c 'test $YOKE_RANK = 0 && exec sleep 20; exit 2'
[ $code -eq 2 ] && tail -n 1 "$tmp/out" | python3 -c '
import json, sys
j = json.load(sys.stdin)
assert len(j["ranks"]) == 2 and j["exit_code"] == 2 and "exit code 2" in j["error"], j'
check "bad input keeps its exit code; --json"

YOKE_DEVICES="cpu:0" run --json -- true
[ $code -eq 0 ] && grep -q '"exit_code": 0, "error": null' "$tmp/out"
check "devices from the environment"

run --device cpu:0 true
[ $code -eq 2 ] && grep -q "did you mean --devices" "$tmp/err"
check "an unknown option names the nearest"

run --devices "nosuch:0" true
[ $code -eq 2 ] && grep -q "nosuch" "$tmp/err"
check "a word that matches nothing"

run --devices "$two" /nonexistent/program
[ $code -eq 2 ] && grep -q "cannot start '/nonexistent/program'" "$tmp/err"
check "a program that is not there"

run --devices cpu:0
[ $code -eq 2 ]
check "no program"

# What ranks log must not go where the job's memory is. libtool's script before a program would be open in that place.
train=$YOKE_BUILD/tests/dist/.libs/fifty
[ -x "$train" ] || train=$YOKE_BUILD/tests/dist/fifty
export YOKE_LOG=debug LD_LIBRARY_PATH="$YOKE_BUILD/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
"$yoke" launch --devices "cpu:0! cpu:0!" -- "$train" >"$tmp/out" 2>&-
code=$?
[ $code -eq 0 ] && grep -q "^ranks 2 parameters" "$tmp/out"
check "a closed standard error"

run --devices "cpu:0! cpu:0!" -- sh -c 'exec "$0" 2>&-' "$train"
[ $code -eq 0 ] && grep -q "^ranks 2 parameters" "$tmp/out"
check "ranks that close their standard error"
