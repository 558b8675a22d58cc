#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A file system that stops to answer (hung_io.c): reads of data and of the optimizer's state, and writes, opens, renames and syncs of
# saves, of one rank, of one of two and of each of two, end in one line; after a signal, too.
. "$YOKE_SOURCE/tests/cli/lib.sh"
instrumented && { echo "1..0 # SKIP a preloaded library comes before the sanitizer's"; exit 0; }
shim=$YOKE_BUILD/tests/fault/.libs/hung_io.so
python3 -c 'import struct, sys; sys.stdout.buffer.write(b"".join(struct.pack("<H", (i * 7919 >> 3) % 50) for i in range(400000)))' \
    >"$out/ids.bin" || exit 1

offload=none
hung() { # hung LINE DEVICES VARIABLE..: exit code 1 within 20 s, and that line
    line=$1 devices=$2
    shift 2
    rm -rf "$out/run"
    begun=$(date +%s)
    timeout -s KILL 30 env LD_PRELOAD="$shim" YOKE_STUCK_MS=2000 "$@" "$yoke" train --model gpt2 --model-config \
        n_layer=1,n_embd=32,n_head=2,vocab_size=64,n_positions=16,seq_len=16 --data "tokens:$out/ids.bin" --devices "$devices" \
        --shares equal --global-batch 8 --max-steps 100000 --save-steps 5 --offload "$offload" --output-dir "$out/run" \
        >"$out/stdout" 2>"$out/err"
    code=$?
    took=$(($(date +%s) - begun))
    [ $code = 1 ] && grep -q "$line" "$out/err" && [ $took -le 20 ] || { echo "exit code $code after $took s"; cat "$out/err"; return 1; }
}
ok "a read that hangs, of one rank" hung 'no progress in reading or writing a file for 2.[0-9] s' cpu:0 HUNG_READ=ids.bin,40
ok "a read that hangs, of one of two" hung '(cpu:0!) has made no progress in reading or writing a file' "cpu:0! cpu:0!" \
    HUNG_READ=ids.bin,40 HUNG_RANK=1
ok "a driver that hangs before the ranks meet" hung 'no progress in opening its device for 2.[0-9] s' "cpu:0! cpu:0!" \
    HUNG_LOAD=yoke_cpu,0 HUNG_RANK=1
offload="state=nvme:$out/disk"
ok "the state on a disk that hangs, of one rank" hung 'no progress in reading or writing a file for 2.[0-9] s' cpu:0 \
    HUNG_READ=.yoke-state-,40
ok "the state on a disk that hangs, of one of two" hung '(cpu:0!) has made no progress in reading or writing a file' "cpu:0! cpu:0!" \
    HUNG_READ=.yoke-state-,40 HUNG_RANK=1
offload=none
ok "a sync that hangs, of one rank" hung 'no progress in waiting for a disk for 2.[0-9] s' cpu:0 HUNG_SYNC=checkpoint,2
ok "the sync of a lock" hung 'no progress in waiting for a disk for 2.[0-9] s' cpu:0 HUNG_SYNC=yoke-lock,0
ok "a sync that hangs, of one of two" hung '(cpu:0!) has made no progress in waiting for a disk' "cpu:0! cpu:0!" HUNG_SYNC=checkpoint,2

# Nobody waits for a rank, as each one hangs.
line='(cpu:0!) has made no progress in waiting for a disk for 3.[0-9] s'
ok "a sync that hangs, of each of two" hung "$line" "cpu:0! cpu:0!" HUNG_SYNC=tensors,0
ok "the same with an emergency checkpoint" hung "$line" "cpu:0! cpu:0!" HUNG_SYNC=tensors,0 \
    YOKE_EMERGENCY_CHECKPOINT="$out/emergency/x"
ok "a read that hangs, of each of two" hung '(cpu:0!) has made no progress in reading or writing a file' "cpu:0! cpu:0!" \
    HUNG_READ=ids.bin,40
offload="state=nvme:$out/disk"
ok "the state on a disk that hangs, of each of two" hung '(cpu:0!) has made no progress in reading or writing a file' "cpu:0! cpu:0!" \
    HUNG_READ=.yoke-state-,40
offload=none
head -c 32 /dev/urandom >"$out/secret" && chmod 600 "$out/secret" || exit 1
two() { # two WORDS..: a process per rank, started by these words, and what the environment says
    export YOKE_SECRET_FILE="$out/secret" MASTER_ADDR=127.0.0.1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 YOKE_STUCK_MS=2000 HUNG_SYNC=tensors,0
    export MASTER_PORT="$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
    rm -rf "$out/run"
    for number in 0 1; do
        RANK=$number LOCAL_RANK=$number LD_PRELOAD=$shim timeout -s KILL 30 "$@" "$yoke" train --model gpt2 --model-config \
            n_layer=1,n_embd=32,n_head=2,vocab_size=64,n_positions=16,seq_len=16 --data "tokens:$out/ids.bin" $place \
            --shares equal --global-batch 8 --max-steps 100000 --save-steps 5 --output-dir "$out/run" >"$out/said$number" 2>&1 &
        pid=$first_pid first_pid=$!
    done
    wait $pid
    codes=$?
    wait $first_pid
    codes=$codes,$?
    unset MASTER_ADDR MASTER_PORT WORLD_SIZE LOCAL_WORLD_SIZE YOKE_STUCK_MS HUNG_SYNC
    [ $codes = 1,1 ] && grep -q 'rank [01] (.*) has made no progress in waiting for a disk for 3.[0-9] s' "$out/said0" "$out/said1" ||
        { echo "exit codes $codes"; cat "$out/said0" "$out/said1"; return 1; }
}
hosts() {
    two sh -c 'node=$RANK port=$MASTER_PORT && unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT && \
        YOKE_HOST_ID=h$node exec "$0" launch --nnodes 2 --node-rank $node --nproc-per-node 1 --devices cpu:0 --master-addr 127.0.0.1 \
        --master-port $port -- "$@"' "$yoke"
}
place="--devices cpu:0"
ok "a sync that hangs, of each rank of another launcher" two env
place=
ok "a sync that hangs, of each of two hosts" hosts

asked() { # asked SIGNALS DEVICES LINE VARIABLE..: they ask for a save, which hangs
    signals=$1 devices=$2 line=$3
    shift 3
    rm -rf "$out/run"
    env LD_PRELOAD="$shim" YOKE_STUCK_MS=2000 "$@" timeout -s KILL 40 "$yoke" train --model gpt2 --model-config \
        n_layer=1,n_embd=32,n_head=2,vocab_size=64,n_positions=16,seq_len=16 --data "tokens:$out/ids.bin" --devices "$devices" \
        --shares equal --global-batch 8 --max-steps 100000 --logging-steps 1 --log "$out/log" --output-dir "$out/run" \
        >"$out/stdout" 2>"$out/err" &
    watchdog=$!
    for i in $(seq 300); do
        [ "$(wc -l 2>/dev/null <"$out/log" || echo 0)" -ge 3 ] && break
        sleep 0.1
    done
    begun=$(date +%s)
    for i in $(seq "$signals"); do
        kill -TERM "$(pgrep -P $watchdog)"
        sleep 1
    done
    wait $watchdog
    code=$?
    took=$(($(date +%s) - begun))
    rm -f "$out/log"
    [ $code != 0 ] && [ $code != 137 ] && grep -q "$line" "$out/err" && [ $took -le 20 ] ||
        { echo "exit code $code after $took s"; cat "$out/err"; return 1; }
}
disk='no progress in waiting for a disk' file='no progress in reading or writing a file'
ok "a signal to a rank alone whose save hangs" asked 1 cpu:0 "$disk" HUNG_SYNC=checkpoint,0
ok "a signal to a launcher whose ranks' save hangs" asked 1 "cpu:0! cpu:0!" "$disk" HUNG_SYNC=checkpoint,0
ok "the same in each rank's sync" asked 1 "cpu:0! cpu:0!" "$disk" HUNG_SYNC=tensors,0
ok "in an open" asked 1 "cpu:0! cpu:0!" "$file" HUNG_OPEN=tensors,0
ok "in a write" asked 1 "cpu:0! cpu:0!" "$file" HUNG_WRITE=tensors,0
ok "in a rename" asked 1 "cpu:0! cpu:0!" 'no progress in a call of Yoke' HUNG_RENAME=checkpoint-,0
ok "a second signal" asked 2 "cpu:0! cpu:0!" 'interrupted by signal 15' YOKE_STUCK_MS=60000 HUNG_SYNC=tensors,0

deaf() { # ranks that take no notice of a signal to the launcher
    YOKE_STUCK_MS=1000 timeout -s KILL 40 "$yoke" launch --devices "cpu:0! cpu:0!" -- \
        sh -c "trap '' TERM; touch '$out'/deaf.\$YOKE_RANK; while :; do sleep 1; done" 2>"$out/err" &
    watchdog=$!
    for i in $(seq 300); do
        [ -e "$out/deaf.0" ] && [ -e "$out/deaf.1" ] && break
        sleep 0.1
    done
    kill -TERM "$(pgrep -P $watchdog)"
    wait $watchdog
    code=$?
    [ $code = 143 ] && grep -q 'interrupted by signal 15 (Terminated), and rank [01] (cpu:0!) has made no progress since' "$out/err" ||
        { echo "exit code $code"; cat "$out/err"; return 1; }
}
ok "a signal to a launcher whose ranks take no notice" deaf
plan
