#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The optimizer's state of two ranks on a disk that breaks in the midst of a run (broken_disk.c): a rank that dies in a write, a disk that
# fills up, a file that ends. The other rank ends with it, with one line that names the fault; no process and no file is left, and the last
# checkpoint goes on. Requests that move a part alone, and a file system without O_DIRECT, change no bit.
. "$YOKE_SOURCE/tests/cli/lib.sh"
instrumented && { echo "1..0 # SKIP a preloaded library comes before the sanitizer's"; exit 0; }
need_data fashion-mnist
small_images "$out/images"
shim=$YOKE_BUILD/tests/fault/.libs/broken_disk.so
disk=$out/drive mark=yoke-broken-$$
mkdir "$disk"

train() { # train OUT STEPS OPTION..: two ranks with their state on the disk, in more blocks than there is memory for
    to=$1 steps=$2
    shift 2
    YOKE_BUCKET_BYTES=4096 "$yoke" train --model mlp --model-config hidden=96+96+96+96+96 --data "idx:$out/images" --global-batch 32 \
        --learning-rate 1e-3 --devices "cpu:0! cpu:0!" --shares 1:1 --eval-strategy no --max-steps "$steps" --save-steps 5 \
        --save-total-limit 1 --overwrite-output-dir \
        --offload "state=nvme:$disk" --output-dir "$out/$to" "$@" >"$out/$to.said" 2>"$out/$to.err"
}
marked() { # processes of the job that live
    for process in /proc/[0-9]*; do
        tr '\0' '\n' 2>/dev/null <"$process/environ" | grep -qx "YOKE_TEST_MARK=$mark" || continue
        read -r _ _ state _ 2>/dev/null <"$process/stat" && [ "$state" != Z ] && echo "${process#/proc/}"
    done
}
left() { # nothing is left of the job
    for i in $(seq 60); do
        [ -z "$(marked)" ] && break
        sleep 0.05
    done
    [ -z "$(marked)$(ls -A "$disk")" ] || { echo "left: $(marked) $(ls -A "$disk")"; return 1; }
}

breaks() { # breaks FAULT TRANSPORT LINE: rank 1 breaks from its 301st request on, about in its 13th step
    rm -rf "$out/run" "$out/stamp"
    LD_PRELOAD=$shim BROKEN_DISK=$1 BROKEN_RANK=1 BROKEN_AFTER=300 BROKEN_STAMP=$out/stamp YOKE_TEST_MARK=$mark YOKE_TRANSPORT=$2 \
        train run 100000
    code=$?
    took=$(($(date +%s%N) / 1000000 - $(date -r "$out/stamp" +%s%N) / 1000000))
    echo "$took ms from the fault to the end"
    cat "$out/run.err"
    [ $code = 1 ] && [ $took -lt 4000 ] && [ "$(grep -c '^yoke launch: ' "$out/run.err")" = 1 ] &&
        grep -q "^yoke launch: rank 1 (cpu:0!).*$3" \
        "$out/run.err" && left || return 1
    last=$(ls "$out/run" | sed -n 's/^checkpoint-\([0-9]*\)$/\1/p' | sort -n | tail -n 1)
    [ "$last" -ge 5 ] && train rest $((last + 1)) --resume-from-checkpoint "$out/run/checkpoint-$last" || { cat "$out/rest.err"; return 1; }
}
for transport in shm sock; do
    ok "a rank dies in a write of its state, $transport" breaks kill $transport 'killed by signal 9'
done
ok "the disk fills up in a step" breaks full shm "$disk: expected to write .* No space left on device: free space there, or take another"
ok "the file ends in a step" breaks end sock "$disk: expected to read .* bytes of the state on disk at .*, got .*, the file's end"

same() { # same FAULT: the bits of a whole disk
    LD_PRELOAD=$shim BROKEN_DISK=$1 YOKE_LOG=info train "$1" 12 && cmp "$out/whole/model.safetensors" "$out/$1/model.safetensors" && left ||
        { cat "$out/$1.err"; return 1; }
}
plain() {
    same plain && [ "$(grep -c "$disk: no O_DIRECT on this file system" "$out/plain.err")" -ge 1 ]
}
train whole 12
ok "requests that move a part" same part
ok "a file system without O_DIRECT" plain
plan
