#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# yoke launch --max-restarts: a rank of a training is killed after a checkpoint, the job starts anew, goes on from there, and ends with the
# parameters of a training that nobody disturbed, byte for byte; how often it may; what is not restarted; whose folder it is.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
small_images "$out/images"
shared=$(ls /dev/shm 2>/dev/null | grep yoke) # objects that another build left there
job=
trap 'kill -9 $job 2>/dev/null; rm -rf "$out"' EXIT

# Each attempt writes its number down; $code, what was printed in said.
launch() { # launch WORDS...
    rm -f "$out/attempts"
    "$yoke" launch "$@" >"$out/said" 2>&1
    code=$?
    cat "$out/said"
}
note='echo "$YOKE_RESTART_COUNT $YOKE_RUN_ID" >>"$0"'
attempts() { # attempts NUMBER...: these there were, all of one run
    [ "$(cut -d' ' -f1 "$out/attempts" | tr '\n' ' ')" = "$(printf '%s ' "$@")" ] || { cat "$out/attempts"; return 1; }
}

limited() {
    launch --max-restarts 2 --devices cpu:0 --json sh -c "$note; exit 3" "$out/attempts"
    [ $code = 1 ] && attempts 0 1 2 && [ "$(cut -d' ' -f2 "$out/attempts" | uniq | grep -c '^[0-9a-f]\{32\}$')" = 1 ] &&
        [ "$(grep '^yoke launch' "$out/said")" = "yoke launch: rank 0 (cpu:0) ended with exit code 3: restart 1 of 2
yoke launch: rank 0 (cpu:0) ended with exit code 3: restart 2 of 2
yoke launch: rank 0 (cpu:0) ended with exit code 3, after 2 restarts" ]
}
ok "so many restarts and no more; the last line says how many there were" limited

once() {
    YOKE_RUN_ID=stale YOKE_RESTART_COUNT=7 launch --devices cpu:0 sh -c "$note; exit 3" "$out/attempts"
    [ $code = 1 ] && [ "$(cat "$out/attempts")" = "0 " ] && grep -qx "yoke launch: rank 0 (cpu:0) ended with exit code 3" "$out/said"
}
ok "no restart where none is asked for, and no number of a run" once

well() { # the second attempt
    YOKE_MAX_RESTARTS=5 launch --devices "cpu:0 cpu:0" sh -c "$note; "'[ $YOKE_RANK.$YOKE_RESTART_COUNT != 1.0 ] || kill -9 $$' \
        "$out/attempts"
    [ $code = 0 ] && grep -q "^yoke launch: rank 1 (cpu:0) was killed by signal 9 (Killed).*: restart 1 of 5$" "$out/said" &&
        [ "$(grep -c '^1 ' "$out/attempts")" = 2 ] && ! grep -q '^2' "$out/attempts"
}
ok "a job that ends well is not restarted" well

usage() {
    launch --max-restarts 2 --devices cpu:0 sh -c "$note; exit 2" "$out/attempts"
    [ $code = 2 ] && attempts 0 && grep -qx "yoke launch: rank 0 (cpu:0) ended with exit code 2" "$out/said" || return 1
    launch --max-restarts 2 --devices cpu:0 /nonexistent/program
    [ $code = 2 ] && ! grep -q restart "$out/said" || return 1
    launch --max-restarts some --devices cpu:0 true
    [ $code = 2 ] && grep -q "max-restarts" "$out/said"
}
ok "wrong input is not restarted" usage

interrupted() {
    launch --max-restarts 2 --devices cpu:0 sh -c "$note; "'kill -TERM $PPID; exec sleep 20' "$out/attempts"
    [ $code = 143 ] && attempts 0 && grep -qx "yoke launch: interrupted by signal 15 (Terminated)" "$out/said"
}
ok "a signal to the launcher ends the job" interrupted

# A program that handles a signal ends later for a reason of its own.
answers() { # answers SIGNAL WORDS..: the program takes the signal first, in its first attempt
    signal=$1
    shift
    launch "$@" --devices cpu:0 sh -c "$note; "'[ "$YOKE_RESTART_COUNT" != 1 ] || exit 0; trap "got=1" '"$signal; kill -$signal"' $PPID
        until [ "${got-}" ]; do sleep 0.05; done; exit 3' "$out/attempts"
}
later() {
    answers USR1 --max-restarts 1
    [ $code = 0 ] && attempts 0 1 && grep -qx "yoke launch: rank 0 (cpu:0) ended with exit code 3 (signal 10 came before): restart 1 of 1" \
        "$out/said" || return 1
    answers USR1
    [ $code = 1 ] && grep -qx "yoke launch: rank 0 (cpu:0) ended with exit code 3 (signal 10 came before)" "$out/said" || return 1
    answers TERM --max-restarts 1
    [ $code = 143 ] && attempts 0 &&
        grep -qx "yoke launch: interrupted by signal 15 (Terminated), then rank 0 (cpu:0) ended with exit code 3" "$out/said" || return 1
    launch --devices cpu:0 sh -c 'kill -USR1 $PPID; exec sleep 20'
    [ $code = 138 ] && grep -qx "yoke launch: interrupted by signal 10 (User defined signal 1)" "$out/said"
}
ok "a later failure is reported and not the signal that the program handled" later

# A SIGUSR1 that a program handles is no request to end: the next signal is the first one.
next() { # next SECOND: the program answers a first SIGUSR1, and gets the second signal
    launch --devices cpu:0 sh -c 'n=0; trap "n=\$((n + 1))" USR1; trap "exit 200" TERM INT; kill -USR1 $PPID
        until [ $n = 1 ]; do sleep 0.05; done; sleep 0.2; kill -'"$1"' $PPID; until [ $n = 2 ]; do sleep 0.05; done; echo "again"'
}
after() {
    next USR1
    [ $code = 0 ] && grep -qx again "$out/said" || return 1
    for signal in TERM:143:15:Terminated INT:130:2:Interrupt; do
        next ${signal%%:*}
        words=${signal#*:*:}
        [ $code = "$(echo $signal | cut -d: -f2)" ] && grep -qx "yoke launch: interrupted by signal ${words%:*} (${words#*:}), then \
rank 0 (cpu:0) ended with exit code 200" "$out/said" || return 1
    done
}
ok "a signal after a SIGUSR1 that the program handled is passed on, and an exit code beyond 128 is named" after

# ---- A training ----

train() { # train DEVICES OUT WORDS...: 60 steps, checkpoints at 20, 40 and 60
    devices=$1 to=$2
    shift 2
    ${instead-} "$yoke" launch --max-restarts 3 --devices "$devices" -- \
        sh -c 'echo $$ >"$0.$YOKE_RANK.$YOKE_RESTART_COUNT"; '"${wrap:-exec}"' "$@"; exit $?' "$out/pid" \
        "$yoke" train --model mlp --model-config hidden=32 --data "idx:$out/images" --global-batch 4 --max-steps 60 \
        --save-steps 20 --logging-steps 1 --eval-strategy no --report-to csv --output-dir "$to" "$@"
}

# Rank 0 cannot write its log any further than a page: the training waits there, between step 20 and step 40,
# for a signal.
begin() { # begin DEVICES OUT: $job
    rm -f "$out/fifo" && mkfifo "$out/fifo" && exec 3<>"$out/fifo" && python3 -c 'import fcntl; fcntl.fcntl(3, 1031, 4096)' || return 1
    instead=exec train "$1" "$2" --log "$out/fifo" >"$out/said" 2>&1 3>&- &
    job=$!
    i=0
    until [ -e "$2/checkpoint-20/trainer_state.json" ]; do
        i=$((i + 1))
        [ $i -lt 1200 ] && kill -0 $job || { cat "$out/said"; return 1; }
        sleep 0.02
    done
}
held_up() { # until the log takes no more
    python3 -c 'import fcntl, sys, termios, time
held, still = 0, 0
while still < 20:
    now = int.from_bytes(fcntl.ioctl(3, termios.FIONREAD, b"\0" * 4), sys.byteorder)
    still = still + 1 if now == held > 3500 else 0
    held = now
    time.sleep(0.01)'
}
end() { # the training is not held up any longer; $code
    cat "$out/fifo" >/dev/null &
    reader=$!
    wait $job
    code=$?
    job=
    exec 3>&-
    kill $reader 2>/dev/null # it waits for a program that writes if it came late
    cat "$out/said"
}
killed() { # killed DEVICES VICTIM OUT
    begin "$1" "$3" && kill -9 "$(cat "$out/pid.$2.0")" || return 1
    end
    [ $code = 0 ] && [ "$(grep -c "^yoke launch" "$out/said")" = 1 ] &&
        grep -q "^yoke launch: rank $2 (cpu:0) was killed by signal 9 (Killed).*: restart 1 of 3$" "$out/said" &&
        grep -q "^yoke train: restart 1 goes on from $3/checkpoint-20$" "$out/said"
}
ok "a killed rank: the job starts anew and goes on from its checkpoint" killed cpu:0 0 "$out/a"
ok "and so where it is one of two" killed "cpu:0 cpu:0" 1 "$out/two"

same() { # of several ranks sums follow measured shares: tests/dist/function.c compares those
    train cpu:0 "$out/b" || return 1
    for file in model.safetensors checkpoint-40/model.safetensors checkpoint-40/optimizer.safetensors checkpoint-60/model.safetensors; do
        cmp "$out/a/$file" "$out/b/$file" || return 1
    done
    ls -A "$out/a" "$out/b" && [ "$(ls -A "$out/a")" = "$(ls -A "$out/b")" ]
}
ok "byte for byte the training that nobody disturbed" same

# A pre-emption: SIGTERM and SIGUSR1 leave a checkpoint of the step that ends.
asked() { # asked DEVICES RANK SIGNAL OUT: one rank is
    begin "$1" "$4" && held_up && kill -"$3" "$(cat "$out/pid.$2.0")" || return 1 # or it leaves after step 20 itself
    end
    at=$(sed -n 's/^yoke train: restart 1 goes on from .*checkpoint-//p' "$out/said")
    [ $code = 0 ] && [ "$at" -gt 20 ] && [ "$at" -le 60 ] &&
        [ "$(grep "^yoke launch" "$out/said")" = \
            "yoke launch: the ranks have left with exit code 75, to be started again: restart 1 of 3" ] &&
        [ "$(grep -c "checkpoint-$at holds the training after step $at of 60: --resume" "$out/said")" = 1 ]
}
asked_alone() {
    asked cpu:0 0 USR1 "$out/asked" && cmp "$out/a/model.safetensors" "$out/asked/model.safetensors"
}
ok "a rank that is asked to leave saves its step; the next attempt ends where an undisturbed one does" asked_alone
ok "the other rank leaves with it" asked "cpu:0 cpu:0" 1 TERM "$out/other"

asked_launcher() {
    begin cpu:0 "$out/stopped" && kill -TERM $job && end
    [ $code = 75 ] && [ "$(grep "^yoke launch" "$out/said")" = \
        "yoke launch: interrupted by signal 15 (Terminated): the ranks have left with exit code 75, to be started again" ] &&
        train cpu:0 "$out/stopped" --resume-from-checkpoint last && cmp "$out/a/model.safetensors" "$out/stopped/model.safetensors"
}
ok "a launcher that is asked passes it on, waits for the checkpoint, and starts nothing" asked_launcher

unsaved() { # a file is in the way of its checkpoint, as a full disk would be
    begin cpu:0 "$out/unsaved" && held_up && mv "$out/unsaved" "$out/moved" && : >"$out/unsaved" && kill -USR1 $job || return 1
    end
    [ $code = 138 ] && ! grep -q "restart" "$out/said" && grep -q "^yoke launch: .*Not a directory" "$out/said"
}
ok "so it does where the checkpoint cannot be written" unsaved

single() { # yoke train has a launcher of its own then, on one device too; said is made anew: the shell is ahead of the command
    : >"$out/said"
    YOKE_MAX_RESTARTS=1 "$yoke" train --devices cpu:0 --model mlp --model-config hidden=32 --data "idx:$out/images" --global-batch 4 \
        --max-steps 10000000 --logging-steps 200 --eval-strategy no --overwrite-output-dir --output-dir "$out/single" >"$out/said" 2>&1 &
    job=$!
    for words in "^step " "^yoke launch: rank 0 (cpu:0) was killed by signal 9 (Killed).*: restart 1 of 1$"; do
        i=0
        until grep -q "$words" "$out/said"; do
            i=$((i + 1))
            if ! [ $i -lt 1200 ] || ! kill -0 $job; then
                kill -9 $job
                wait $job
                echo "no \"$words\" after $i looks, exit code $?"
                grep -av "^step" "$out/said"
                return 1
            fi
            sleep 0.05
        done
        [ "$words" != "^step " ] || kill -9 "$(rank_pid 0 "$out/single")" || { kill -9 $job; return 1; }
    done
    kill -TERM $job
    wait $job
    job=
}
ok "YOKE_MAX_RESTARTS holds for yoke train on one device" single

asked_wrapped() {
    wrap=env begin cpu:0 "$out/wrapped" && kill -TERM $job && end
    [ $code = 143 ] && [ "$(grep -c "holds the training after step .* of 60: --resume" "$out/said")" = 1 ] &&
        train cpu:0 "$out/wrapped" --resume-from-checkpoint last && cmp "$out/a/model.safetensors" "$out/wrapped/model.safetensors"
}
ok "a shell in between dies of the signal, and the checkpoint is waited for" asked_wrapped

# A launcher that inherits orphans, as process 1 of a container does: it sees the end of a rank whose shell has died. A launcher that does
# not waits for YOKE_STUCK_MS.
inherited() {
    : >"$out/said"
    YOKE_STUCK_MS=60000 python3 -c 'import ctypes, os, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
os.execv(sys.argv[1], sys.argv[1:])' "$yoke" launch --devices cpu:0 -- sh -c '"$@"; exit $?' - \
        "$yoke" train --model mlp --model-config hidden=32 --data "idx:$out/images" --global-batch 4 --max-steps 10000000 \
        --logging-steps 1 --eval-strategy no --overwrite-output-dir --output-dir "$out/inner" >"$out/said" 2>&1 &
    job=$!
    i=0
    until grep -q "^step " "$out/said"; do
        i=$((i + 1))
        [ $i -lt 1200 ] && kill -0 $job || { cat "$out/said"; return 1; }
        sleep 0.05
    done
    from=$(date +%s)
    kill -USR1 $job && wait $job
    code=$?
    took=$(($(date +%s) - from))
    job=
    grep -v "^step" "$out/said"
    echo "exit code $code after $took s"
    [ $code = 138 ] && [ $took -lt 45 ] && grep -q "holds the training after step" "$out/said"
}
ok "and where the launcher inherits the rank" inherited

twice() { # twice COMMAND..: the training waits, and ends without a checkpoint of its step
    begin cpu:0 "$out/twice" && held_up || return 1
    "$@" && wait $job
    [ $? = 143 ] && [ "$(ls -d "$out/twice"/checkpoint-*)" = "$out/twice/checkpoint-20" ]
    code=$?
    job=
    exec 3>&-
    rm -rf "$out/twice"
    return $code
}
twice_launcher() {
    kill -TERM $job && sleep 0.1 && heard $job && kill -0 $job && kill -TERM $job
}
ok "a second signal to the launcher ends the job at once" twice twice_launcher

deaf() { # deaf SIGNAL CODE: ranks that hear no signal end with the second one to their launcher, before any grace has passed (1.6 s)
    rm -f "$out"/deaf.*
    "$yoke" launch --devices "cpu:0 cpu:0" -- sh -c 'trap "" INT TERM USR1; echo $$ >"$0.$YOKE_RANK"; while :; do sleep 0.05; done' \
        "$out/deaf" &
    job=$!
    i=0
    until [ -s "$out/deaf.0" ] && [ -s "$out/deaf.1" ]; do
        i=$((i + 1))
        [ $i -lt 3000 ] && kill -0 $job || return 1
        sleep 0.02
    done
    kill -"$1" $job && sleep 0.2 && heard $job && from=$(date +%s%N) && kill -"$1" $job && wait $job
    code=$?
    took=$((($(date +%s%N) - from) / 1000000))
    echo "exit code $code after $took ms"
    job=
    [ $code = "$2" ] && [ $took -lt 1500 ] && ! kill -0 "$(cat "$out/deaf.0")" && ! kill -0 "$(cat "$out/deaf.1")"
}
deaf_both() {
    deaf INT 130 && deaf TERM 143
}
ok "so it does where the ranks hear none: Ctrl-C twice, SIGTERM twice" deaf_both

logs() { # of both attempts, each step once, whether it was logged before the kill or not; the head stands once
    [ "$(head -n 1 "$out/a/runs/log.csv")" = step,epoch,tag,value ] && [ "$(grep -c step, "$out/a/runs/log.csv")" = 1 ] &&
        [ "$(grep -c '^1,.*,train/loss,' "$out/a/runs/log.csv")" = 1 ] && [ "$(grep -c '^21,.*,train/loss,' "$out/a/runs/log.csv")" = 1 ] &&
        [ "$(grep -c '^60,.*,train/loss,' "$out/a/runs/log.csv")" = 1 ]
}
ok "logs go on behind what was written" logs

nothing_left() {
    ! ls /dev/shm 2>/dev/null | grep yoke | grep -vxF "${shared:-.}"
}
ok "no shared object is left" nothing_left

# What stands in a folder that is not this launch's is not gone on from, whenever the first attempt dies.
foreign() { # foreign SCRIPT CODE WORDS...: what an attempt is, the launcher's exit code
    attempt=$1 want=$2
    shift 2
    mkdir "$out/f" && cp -r "$out/b/checkpoint-20" "$out/f" || return 1
    launch --max-restarts 2 --devices cpu:0 -- sh -c "$attempt" - \
        "$yoke" train --model mlp --model-config hidden=32 --data "idx:$out/images" --global-batch 2 --max-steps 20 \
        --eval-strategy no --output-dir "$out/f" "$@"
    [ $code = "$want" ] && grep -q "restart 1 of 2" "$out/said" && ! grep -q "restart 2\|restart 1 goes on" "$out/said"
}
ok "a folder that was used before is refused" foreign '[ $YOKE_RESTART_COUNT != 0 ] || kill -9 $$; exec "$@"' 2
grep -q "there is a training's output already" "$out/said" || { n=$((n + 1)); echo "not ok $n - by what is in it"; }
rm -rf "$out/f"
export YOKE_EMERGENCY_CHECKPOINT="$out/b/checkpoint-20"
ok "and begun anew in where it may be overwritten; an emergency checkpoint of before is not taken" foreign \
    '"$@" && [ $YOKE_RESTART_COUNT != 0 ]' 0 --overwrite-output-dir
grep -q "restart 1: no checkpoint of an earlier attempt" "$out/said" || { n=$((n + 1)); echo "not ok $n - and that is said"; }

# The emergency checkpoint, here the one checkpoint of the first attempt, whose log was cut off within a line.
emergency() {
    export YOKE_EMERGENCY_CHECKPOINT="$out/e"
    launch --max-restarts 1 --devices cpu:0 -- sh -c '"$@" && [ $YOKE_RESTART_COUNT != 0 ] ||
        { mv "$0/checkpoint-2" "$YOKE_EMERGENCY_CHECKPOINT"; printf "{\"ste" >>"$0.log"; exit 1; }' \
        "$out/g" "$yoke" train --model mlp --model-config hidden=8 --data "idx:$out/images" --global-batch 32 --max-steps 3 \
        --save-steps 2 --logging-steps 1 --log "$out/g.log" --eval-strategy no --output-dir "$out/g"
    unset YOKE_EMERGENCY_CHECKPOINT
    [ $code = 0 ] && grep -q "restart 1 goes on from $out/e$" "$out/said" && [ ! -e "$out/g/checkpoint-2" ] &&
        valid_json "$out/g.log" && [ "$(grep -c '"step": 3, "epoch"' "$out/g.log")" = 1 ] &&
        [ "$(grep -c '"step": 3, "epoch"' "$out/g.log.cut")" = 1 ]
}
ok "the emergency checkpoint is gone on from where it is the newest; a torn line of the log is cut off" emergency

# A wall clock that goes back leaves checkpoints that seem older than the launch, and newer ones that seem older than those before them.
clock_back() {
    back='import json, sys
for i, path in enumerate(sys.argv[1:]):
    with open(path) as f: state = json.load(f)
    state["saved_at"] -= 3600 * (i + 1)
    with open(path, "w") as f: json.dump(state, f)'
    export BACK="$back"
    launch --max-restarts 1 --devices cpu:0 -- sh -c '"$@" && [ $YOKE_RESTART_COUNT != 0 ] ||
        { python3 -c "$BACK" "$0/checkpoint-1/trainer_state.json" "$0/checkpoint-2/trainer_state.json"; exit 1; }' \
        "$out/h" "$yoke" train --model mlp --model-config hidden=8 --data "idx:$out/images" --global-batch 32 --max-steps 2 \
        --save-steps 1 --eval-strategy no --output-dir "$out/h"
    [ $code = 0 ] && grep -q "restart 1 goes on from $out/h/checkpoint-2$" "$out/said" || return 1
    "$yoke" train --model mlp --model-config hidden=8 --data "idx:$out/images" --global-batch 32 --max-steps 3 --save-steps 1 \
        --save-total-limit 2 --eval-strategy no --output-dir "$out/h" --resume-from-checkpoint last >"$out/said" 2>&1 ||
        { cat "$out/said"; return 1; }
    [ "$(ls -d "$out/h"/checkpoint-? | sed 's/.*-//' | tr '\n' ' ')" = "2 3 " ]
}
ok "a clock that goes back changes neither the restart nor what is newest" clock_back
plan
