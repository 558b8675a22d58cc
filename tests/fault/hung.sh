#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A file system that stops to answer (hung_io.c): reads of data and of the optimizer's state, and syncs of saves, of one
# rank and of two, end in one line.
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
offload="state=nvme:$out/disk"
ok "the state on a disk that hangs, of one rank" hung 'no progress in reading or writing a file for 2.[0-9] s' cpu:0 \
    HUNG_READ=.yoke-state-,40
ok "the state on a disk that hangs, of one of two" hung '(cpu:0!) has made no progress in reading or writing a file' "cpu:0! cpu:0!" \
    HUNG_READ=.yoke-state-,40 HUNG_RANK=1
offload=none
ok "a sync that hangs, of one rank" hung 'no progress in waiting for a disk for 2.[0-9] s' cpu:0 HUNG_SYNC=checkpoint,2
ok "the sync of a lock" hung 'no progress in waiting for a disk for 2.[0-9] s' cpu:0 HUNG_SYNC=yoke-lock,0
ok "a sync that hangs, of one of two" hung '(cpu:0!) has made no progress in waiting for a disk' "cpu:0! cpu:0!" HUNG_SYNC=checkpoint,2

asked() { # a signal asks for a save, whose first sync hangs
    rm -rf "$out/run"
    LD_PRELOAD=$shim YOKE_STUCK_MS=2000 HUNG_SYNC=checkpoint,0 timeout -s KILL 40 "$yoke" train --model gpt2 --model-config \
        n_layer=1,n_embd=32,n_head=2,vocab_size=64,n_positions=16,seq_len=16 --data "tokens:$out/ids.bin" --devices "$1" \
        --shares equal --global-batch 8 --max-steps 100000 --logging-steps 1 --log "$out/log" --output-dir "$out/run" \
        >"$out/stdout" 2>"$out/err" &
    watchdog=$!
    for i in $(seq 300); do
        [ "$(wc -l 2>/dev/null <"$out/log" || echo 0)" -ge 3 ] && break
        sleep 0.1
    done
    begun=$(date +%s)
    kill -TERM "$(pgrep -P $watchdog)"
    wait $watchdog
    code=$?
    took=$(($(date +%s) - begun))
    [ $code != 0 ] && grep -q 'no progress in waiting for a disk' "$out/err" && [ $took -le 20 ] ||
        { echo "exit code $code after $took s"; cat "$out/err"; return 1; }
}
ok "a signal to a rank alone whose save hangs" asked cpu:0
ok "a signal to a launcher whose ranks' save hangs" asked "cpu:0! cpu:0!"
plan
