#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# yoke launch --nnodes, a launcher on each of two "hosts" of this one: a signal to a launcher or to a rank leaves a checkpoint and exit
# code 75 on both, the launchers wait for what the ranks save, a second signal ends the ranks at once, a rank that dies is named on both.
. "$YOKE_SOURCE/tests/cli/lib.sh"
job0= job1=
trap 'kill -9 $job0 $job1 2>/dev/null; rm -rf "$out"' EXIT
head -c 32 /dev/urandom >"$out/secret" && chmod 600 "$out/secret" || exit 1
export YOKE_SECRET_FILE="$out/secret"

host() { # host NUMBER RANKS WORDS..: its launcher, which becomes this process
    number=$1 ranks=$2
    shift 2
    export YOKE_HOST_ID="h$number"
    exec "$yoke" launch --nnodes 2 --node-rank "$number" --nproc-per-node "$ranks" --devices cpu:0 --master-addr 127.0.0.1 \
        --master-port "$port" "$@"
}
hosts() { # hosts RANKS WORDS..: $job0, $job1; what they print in said0, said1
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    rm -f "$out"/said? "$out"/pid.* "$out"/saved.*
    host 0 "$@" >"$out/said0" 2>&1 &
    job0=$!
    host 1 "$@" >"$out/said1" 2>&1 &
    job1=$!
}
end() { # $code0, $code1; launchers that do not end within a minute are killed
    timeout 60 sh -c 'for p; do tail -s 0.1 -f /dev/null --pid=$p; done' - $job0 $job1 || kill -9 $job0 $job1
    wait $job0
    code0=$?
    wait $job1
    code1=$?
    job0= job1=
    cat "$out/said0" "$out/said1"
    echo "exit codes $code0 $code1"
}
await() { # await COMMAND..: until it succeeds, a minute at most, while both launchers live
    i=0
    until "$@"; do
        i=$((i + 1))
        [ $i -lt 1200 ] && { [ -z "$job0" ] || kill -0 $job0 $job1; } || { cat "$out"/said?; return 1; }
        sleep 0.05
    done
}
lines() { # lines HOST LINE: all that its launcher has said
    [ "$(grep "^yoke launch: " "$out/said$1")" = "yoke launch: $2" ]
}
dead() { # each rank's process that has left its number has ended
    for file in "$out"/pid.*; do
        ! kill -0 "$(cat "$file")" 2>/dev/null || return 1
    done
}
left() { # left RANK: its launcher has seen it end
    ! kill -0 "$(cat "$out/pid.$1")" 2>/dev/null
}
rank='echo $$ >"$0/pid.$YOKE_RANK"; ' # behind its traps: a signal may come at once
both() { [ -e "$out/pid.0" ] && [ -e "$out/pid.1" ]; }
all() { both && [ -e "$out/pid.2" ] && [ -e "$out/pid.3" ]; }
left_line="the ranks have left with exit code 75, to be started again"

# ---- Programs that save as slowly as they like ----

slow() { # slow SIGNAL NUMBER NAME: rank 0 leaves at once, rank 1 of its host has seven seconds of work
    hosts 2 sh -c 'trap "[ \$YOKE_RANK != 1 ] || sleep 7; >\$0/saved.\$YOKE_RANK; exit 75" TERM USR1
        '"$rank"'while :; do sleep 0.05; done' "$out"
    await all && kill -"$1" $job0 $job1
    end
    [ "$code0 $code1" = "75 75" ] && [ "$(ls "$out"/saved.* | wc -l)" = 4 ] && dead &&
        lines 0 "interrupted by signal $2 ($3): $left_line" && lines 1 "interrupted by signal $2 ($3): $left_line"
}
ok "SIGUSR1 is passed on, and the slowest of a host's ranks has the time to save" slow USR1 10 "User defined signal 1"

second() { # at once: the ranks ignore all but SIGKILL
    hosts 1 sh -c 'trap "" TERM USR1; '"$rank"'while :; do sleep 0.05; done' "$out"
    await both && kill -TERM $job0 && sleep 0.3 && heard $job0 && kill -TERM $job0 && kill -TERM $job1 && sleep 0.3 && heard $job1 &&
        kill -USR1 $job1
    end
    [ "$code0 $code1" = "143 143" ] && dead && lines 0 "interrupted by signal 15 (Terminated)"
}
ok "a second signal ends ranks that do not leave" second

other() { # an exit code that is no request
    hosts 2 sh -c 'trap "exit 3" TERM; '"$rank"'[ $YOKE_RANK != 3 ] || exit 7; while :; do sleep 0.05; done' "$out"
    await all && await left 3 && kill -INT $job0
    end
    [ "$code0 $code1" = "130 1" ] && dead && lines 1 "rank 3 (cpu:0) ended with exit code 7" &&
        lines 0 "interrupted by signal 2 (Interrupt)"
}
ok "the first rank at fault is named, and an interruption is none" other

no_program() {
    hosts 1 "$out/nothing"
    end
    [ "$code0 $code1" = "2 2" ] && grep -q "cannot start '$out/nothing' for rank 1" "$out/said1"
}
ok "a program that there is not" no_program

killed_launcher() {
    hosts 2 sh -c "$rank"'while :; do sleep 0.05; done' "$out"
    await all && kill -KILL $job0 $job1
    end
    await dead
}
ok "ranks end with their launcher" killed_launcher

json() { # of one host
    hosts 1 --json sh -c '[ $YOKE_RANK = 0 ] || exit 3'
    end
    tail -n 1 "$out/said0" >"$out/json0" && tail -n 1 "$out/said1" >"$out/json1" &&
        python3 -c 'import json, sys
one, two = (json.load(open(f)) for f in sys.argv[1:])
assert one["ranks"] == two["ranks"] == ["cpu:0"] and (one["exit_code"], two["exit_code"]) == (0, 1), (one, two)
assert one["error"] is None and two["error"] == "rank 1 (cpu:0) ended with exit code 3", (one, two)' "$out/json0" "$out/json1"
}
ok "--json, of one host each" json

# ---- A training ----

if [ ! -d "$data/fashion-mnist" ] || [ ! -e "$YOKE_BUILD/.libs/transport_sock.so" ]; then
    skip "a training" "no data, or no transport between hosts"
    plan
fi
small_images "$out/images"
train() { # train WORDS..
    rm -rf "$out/to" "$out/steps"
    hosts 1 sh -c "$rank"'exec "$@"' "$out" "$yoke" train --model mlp --model-config hidden=32 --data "idx:$out/images" \
        --global-batch 4 --shares equal --max-steps 100000000 --logging-steps 50 --log "$out/steps" --eval-strategy no \
        --overwrite-output-dir --output-dir "$out/to" "$@"
    await test -s "$out/steps"
}
asked() { # asked SIGNAL PROCESS: to one launcher, or one rank
    train || return 1
    eval "kill -$1 $2"
    end
    [ "$code0 $code1" = "75 75" ] && [ "$(ls -d "$out/to"/checkpoint-* | wc -l)" = 1 ] && dead &&
        grep -q "holds the training after step" "$out/said0"
}
asked_launcher() {
    asked USR1 '$job1' && lines 1 "interrupted by signal 10 (User defined signal 1): $left_line" && lines 0 "$left_line"
}
ok "SIGUSR1 to the launcher of one host: both leave with a checkpoint" asked_launcher
asked_first_launcher() {
    asked TERM '$job0' && lines 0 "interrupted by signal 15 (Terminated): $left_line" && lines 1 "$left_line"
}
ok "SIGTERM to the one of rank 0's host, as well" asked_first_launcher
asked_rank() {
    asked TERM '$(cat "$out/pid.1")' && lines 0 "$left_line" && lines 1 "$left_line"
}
ok "SIGTERM to one rank, as well" asked_rank

killed() {
    train && kill -KILL "$(cat "$out/pid.1")"
    end
    [ "$code0 $code1" = "1 1" ] && lines 1 "rank 1 (cpu:0) was killed by signal 9 (Killed)" &&
        [ "$(grep -c "^yoke launch: rank 1 (.*" "$out/said0")" = 1 ] && dead
}
ok "a killed rank is named on both hosts" killed
plan
