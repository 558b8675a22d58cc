#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --offload state=nvme:DIR: the optimizer's state in files has the bits of state=host, on processors and on a device with memory of its own
# (the CPU plugin, which copies what goes in and out); takes what yoke estimate-memory says, in memory and on the disk; a disk that is full,
# or fails in a step, ends the job and leaves the older checkpoint whole; and no file stays, of a killed job neither.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
small_images "$out/images"
export YOKE_PLUGINS="cpu,$YOKE_BUILD/tests/dist/.libs/yoke_slow.so" YOKE_SLOW_OWN=1 YOKE_SLOW_FACTORS="1;1"
disk="$out/nvme"
mkdir "$disk"

options="--model mlp --model-config hidden=32 --global-batch 32 --learning-rate 1e-3 --warmup-steps 5 --overwrite-output-dir"
train() { # train OUT OPTION...: its last line in OUT.json
    to=$1
    shift
    # shellcheck disable=SC2086
    "$yoke" train $options --data "idx:$out/images" --max-steps 12 --eval-strategy no --json --output-dir "$out/$to" "$@" \
        >"$out/$to.json" 2>"$out/$to.err" || { cat "$out/$to.err"; return 1; }
}
same() { cmp "$out/$1/model.safetensors" "$out/$2/model.safetensors"; }
empty() { [ -z "$(ls -A "$disk")" ] || { ls -A "$disk"; return 1; }; }
pair() { # pair OPTION...: in memory and on the disk
    train memory "$@" --offload state=host && train disk "$@" --offload "state=nvme:$disk" && same memory disk && empty &&
        [ "$(field disk_bytes "$out/disk.json")" -gt 0 ] && [ "$(field disk_bytes "$out/memory.json")" = 0 ]
}

for transport in shm sock; do
    export YOKE_TRANSPORT=$transport
    ok "two processors, skipped steps, $transport" pair --devices "cpu:0! cpu:1!" --shares 3:1 --max-grad-norm 0.5 --precision fp16 \
        --loss-scaling init=16777216 --gradient-accumulation-steps 2
done
unset YOKE_TRANSPORT
ok "a device with memory of its own, whose parameters lie on the host" pair --devices slow:0! --shard params --keep-whole 0
YOKE_BUCKET_BYTES=8192 ok "among others, in many buckets" pair --devices "cpu:0! slow:0!" --shares equal --shard gradients \
    --precision bf16 --optim sgd --momentum 0.9

goes_on() { # a checkpoint of one home goes on in the other
    for home in "state=nvme:$disk none" "none state=nvme:$disk"; do
        # shellcheck disable=SC2086
        set -- $home
        train whole --devices "cpu:0! cpu:1!" --shares equal --save-steps 6 --offload "$1" || return 1
        train rest --devices "cpu:0! cpu:1!" --shares equal --offload "$2" --resume-from-checkpoint "$out/whole/checkpoint-6" &&
            same whole rest || return 1
    done
}
ok "a checkpoint goes on without, and the other way" goes_on

estimate() { # to the byte; the estimate makes no file, so its folder need not exist
    # shellcheck disable=SC2086
    "$yoke" estimate-memory --model mlp --model-config hidden=32 --global-batch 32 --eval-strategy no --data "idx:$out/images" "$@" \
        --offload state=nvme:/no/such/folder --json >"$out/plan" && train run "$@" --offload "state=nvme:$disk" || return 1
    for key in peak_bytes host_bytes disk_bytes; do
        [ "$(field ranks "$out/plan" | python3 -c "print(eval(input())[0]['$key'])")" = "$(field $key "$out/run.json")" ] ||
            { echo $key; return 1; }
    done
}
ok "the estimate of a processor" estimate --devices cpu:0
ok "the estimate of two ranks" estimate --devices "slow:0! cpu:0!" --shares equal --precision bf16

fails() { # fails CODE TEXT OPTION...
    wanted=$1 text=$2
    shift 2
    # shellcheck disable=SC2086
    "$yoke" train $options --data "idx:$out/images" --max-steps 2 --devices cpu:0 --output-dir "$out/none" "$@" >"$out/log" 2>&1
    [ $? = "$wanted" ] && grep -q -e "$text" "$out/log" || { cat "$out/log"; return 1; }
}
refused() {
    fails 2 'not built yet: a disk holds the optimizer' --shard params --offload "params=nvme:$disk" &&
        fails 2 'not built yet: a disk holds the optimizer' --offload "state+masters=nvme:$disk" &&
        fails 2 'not built yet: the disk holds the whole of a slice' --offload "state=nvme:$disk:0.5" &&
        fails 2 'the state lies in one place: expected host or nvme:DIR, got both' --offload "state=host,state=nvme:$disk" &&
        fails 2 'with LocalSGD' --offload "state=nvme:$disk" --local-sgd-steps 4 &&
        fails 1 "/no/such/folder: expected a folder" --offload state=nvme:/no/such/folder
}
ok "refused by name" refused
file="{\"zero_optimization\": {\"stage\": 1, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"$disk\"}}}"
of_file() { # DeepSpeed's words, and the line about what the disk writes
    train plain --devices cpu:0 --max-grad-norm 0 && train disk --devices cpu:0 --max-grad-norm 0 --deepspeed "$file" && same plain disk &&
        [ "$(field disk_bytes "$out/disk.json")" -gt 0 ] &&
        fails 0 'offload: 0.2 MB of the optimizer.s state on disk for this rank: 1,000 steps write 0.2 GB' --offload "state=nvme:$disk"
}
ok "DeepSpeed's offload_optimizer" of_file

small="$out/small"
full() { # a file system of 100 KiB
    # shellcheck disable=SC2016,SC2086
    unshare -rm sh -c 'mount -t tmpfs -o size=100k tmpfs "$1" && shift && exec "$@"' sh "$small" "$yoke" train $options \
        --data "idx:$out/images" --max-steps 2 --devices cpu:0 --output-dir "$out/none" --offload "state=nvme:$small" >"$out/log" 2>&1
    [ $? = 1 ] && grep -q "expected 204800 bytes free in $small, got 102400: free space" "$out/log" || { cat "$out/log"; return 1; }
}
mkdir "$small"
if unshare -rm mount -t tmpfs tmpfs "$small" 2>/dev/null; then
    ok "a full disk is named before the first step" full
else
    skip "a full disk is named before the first step" "no mount in a user namespace: tests/unit/io/tier.c has the disk that is full"
fi

begin() { # begin NAME: a job that does not end, with a checkpoint, in the background; its process in $job
    # shellcheck disable=SC2086
    "$yoke" train $options --data "idx:$out/images" --max-steps 1000000 --save-steps 5 --save-total-limit 1 --devices cpu:0 \
        --output-dir "$out/$1" --offload "state=nvme:$disk" >"$out/said" 2>&1 &
    job=$!
    i=0
    until ls "$out/$1" 2>/dev/null | grep -qx 'checkpoint-[0-9]*' || [ $i -ge 300 ]; do i=$((i + 1)) && sleep 0.1; done
}
resumes() { # its newest checkpoint is whole; a save that the end cut off has another name
    last=$(ls "$out/$1" | sed -n 's/^checkpoint-\([0-9]*\)$/\1/p' | sort -n | tail -n 1)
    train rest --devices cpu:0 --resume-from-checkpoint "$out/$1/checkpoint-$last" --max-steps $((last + 1))
}
cut_file() { # the file loses its end; right before a write of a step, which brings all back, that has no effect
    begin cut
    i=0
    while kill -0 $job 2>/dev/null && [ $i -lt 300 ]; do
        for fd in /proc/$job/fd/*; do
            case $(readlink "$fd") in "$disk/.yoke-state-"*deleted*) true >"$fd" ;; esac
        done
        i=$((i + 1)) && sleep 0.1
    done
    [ $i -lt 300 ] || kill -KILL $job
    wait $job
    [ $? = 1 ] && grep -q "$disk: expected to read .* bytes of the state on disk at .*, got " "$out/said" && resumes cut ||
        { tail -n 5 "$out/said"; return 1; }
}
ok "a file that is cut in a step ends the job, and the checkpoint stays" cut_file
killed() { # no file stays; a name of an older kill goes, and another job of the folder goes on
    begin killed
    true >"$disk/.yoke-state-$(uname -n)-killed"
    train beside --devices cpu:0 --offload "state=nvme:$disk" && train plain --devices cpu:0 && same plain beside && kill -0 $job ||
        return 1
    kill -KILL $job
    wait $job
    empty && resumes killed
}
ok "a killed job leaves no file" killed
plan
