#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A program of the library that handles SIGUSR1 itself, with and without yoke launch: it goes on, with the bits of an undisturbed run,
# each signal to the launcher reaches it, and its later failure is its own.
. "$YOKE_SOURCE/tests/cli/lib.sh"
own=$YOKE_BUILD/tests/fault/own_signal
head -c 32 /dev/urandom >"$out/secret" && chmod 600 "$out/secret" || exit 1
export YOKE_LOG=error
unset YOKE_DEVICES

until_said() { # COUNT WORDS: a minute at most, while the process lives
    i=0
    until [ "$(grep -c "$2" "$out/said")" -ge "$1" ]; do
        i=$((i + 1))
        if ! [ $i -lt 1200 ] || ! kill -0 $job; then
            kill -9 $job
            wait $job
            echo "after $i looks, exit code $?"
            cat "$out/said"
            return 1
        fi
        sleep 0.05
    done
}
begin() { # COMMAND..: $job. The shell goes on before the command truncates said: the last one's words would be taken for its
    rm -f "$out/said" && : >"$out/said"
    "$@" >"$out/said" 2>&1 &
    job=$!
}
end() { # CODE: the one of its end, within a minute
    timeout 60 tail -s 0.1 -f /dev/null --pid=$job || kill -9 $job
    wait $job
    code=$?
    cat "$out/said"
    echo "exit code $code"
    [ $code = "$1" ]
}
pair() { # MODE: two ranks by hand, whose connections are of TCP
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    for rank in 0 1; do
        YOKE_RANK=$rank YOKE_SIZE=2 YOKE_ADDR=127.0.0.1 YOKE_PORT=$port YOKE_SECRET_FILE="$out/secret" YOKE_DEVICES=cpu:0 \
            YOKE_HOST_ID=h$rank timeout 120 "$own" "$1" >"$out/pair$rank" 2>&1 &
        eval "pair$rank=$!"
    done
    wait $pair0 && wait $pair1 && code=0 || code=1
    cat "$out/pair0" "$out/pair1"
    return $code
}

storm() { # PREFIX..: how it is started
    timeout 120 "$@" calm >"$out/calm" 2>&1 && timeout 120 "$@" storm >"$out/storm" 2>&1
    code=$?
    cat "$out/calm" "$out/storm"
    echo "exit code $code"
    [ $code = 0 ] && grep -q 'parameters' "$out/calm" && cmp "$out/calm" "$out/storm"
}
ok "10000 signals a second disturb no job of one rank" storm env YOKE_DEVICES=cpu:0 "$own"
ok "nor two ranks of one host" storm "$yoke" launch --devices "cpu:0! cpu:0!" -- "$own"
connected() {
    pair calm >"$out/calm" && pair storm >"$out/storm"
    code=$?
    cat "$out/calm" "$out/storm"
    [ $code = 0 ] && grep -q 'parameters' "$out/calm" && cmp "$out/calm" "$out/storm"
}
if [ -e "$YOKE_BUILD/.libs/transport_sock.so" ]; then
    ok "nor two hosts" connected
else
    skip "nor two hosts" "the sock transport is not built"
fi

alone() {
    begin env YOKE_DEVICES=cpu:0 "$own" await 2 0
    until_said 1 ready && kill -USR1 $job && until_said 1 'taken 1' && kill -USR1 $job && end 0
}
ok "without a launcher the program goes on until its second signal" alone

launched() { # CODE WORDS..: of the launcher; two signals to it reach both ranks, and no other
    want=$1
    shift
    begin "$yoke" launch "$@" --devices "cpu:0! cpu:0!" -- sh -c '[ "$YOKE_RESTART_COUNT" != 1 ] || exit 0; exec "$@"' - \
        "$own" await 2 "$last"
    until_said 2 ready && kill -USR1 $job && until_said 2 'taken 1' || return 1
    sleep 0.6 # two signals within half a second may be one
    kill -USR1 $job && end "$want" && [ "$(grep -c '^taken 1' "$out/said")" = 2 ] && ! grep 'taken 3' "$out/said"
}
last=0
ok "the launcher passes each signal on, and the job ends well" launched 0
fails() {
    last=3
    launched 1 && grep -q '^yoke launch: rank [01] (cpu:0!) ended with exit code 3 (signal 10 came before)$' "$out/said" &&
        launched 0 --max-restarts 1 &&
        grep -q '^yoke launch: rank [01] (cpu:0!) ended with exit code 3 (signal 10 came before): restart 1 of 1$' "$out/said"
}
ok "a later failure is the program's own, and counts for a restart" fails
ended() {
    begin "$yoke" launch --max-restarts 1 --devices "cpu:0! cpu:0!" -- "$own" await 9 0
    until_said 2 ready && kill -USR1 $job && until_said 2 'taken 1' && sleep 0.6 && kill -TERM $job && end 143 &&
        [ "$(grep '^yoke launch' "$out/said")" = "yoke launch: interrupted by signal 15 (Terminated)" ]
}
ok "SIGTERM behind it ends the job as ever" ended
plan
