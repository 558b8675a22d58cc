#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --shard-parts: slices by fixed parts. With rows and slices fixed alike, unlike devices have one result in every stage, over every
# transport: a processor beside OpenCL, Vulkan, a CUDA driver without a GPU (tests/fakes), and a device with memory of its own. A
# checkpoint goes on with other parts. An estimate is the run's bytes. Malformed parts are refused by name.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
small_images "$out/images"
export YOKE_PLUGINS="cpu,opencl,vulkan,cuda,$YOKE_BUILD/tests/dist/.libs/yoke_slow.so" YOKE_SLOW_OWN=1 YOKE_SLOW_FACTORS="1;1"
export YOKE_BUCKET_BYTES=32768

train() { # train OUT OPTION...: its last line in OUT.json
    to=$1
    shift
    "$yoke" train --model mlp --model-config hidden=32 --data "idx:$out/images" --global-batch 32 --max-steps 6 --learning-rate 1e-3 \
        --max-grad-norm 0.5 --eval-strategy no --json --overwrite-output-dir --output-dir "$out/$to" "$@" >"$out/$to.json" \
        2>"$out/$to.err" || { cat "$out/$to.err"; return 1; }
}
same() { cmp "$out/$1/model.safetensors" "$out/$2/model.safetensors"; }

stages() { # stages DEVICES FORM...: each form, TRANSPORT:STAGE with further options behind it, has the bits of `state` over shm
    devices=$1
    shift
    # shellcheck disable=SC2086
    train whole --devices "$devices" --shares 2:1:1 --shard-parts 1:2:1 --shard state ${first-} || return 1
    for form; do
        # shellcheck disable=SC2086
        YOKE_TRANSPORT=${form%%:*} train other --devices "$devices" --shares 2:1:1 --shard-parts 1:2:1 --shard ${form#*:} &&
            same whole other || { echo "$devices, $form"; return 1; }
    done
}
here() { "$yoke" info --kinds 2>/dev/null | grep -q "^$1\$"; }

kinds=
! here opencl || kinds="$kinds opencl:0@1!"
! here vulkan || kinds="$kinds vulkan:0!"
if [ "$(uname -m)" = x86_64 ]; then
    . "$YOKE_SOURCE/tests/fakes/use.sh"
    kinds="$kinds cuda:0!"
fi
# shellcheck disable=SC2086
set -- $kinds
far="--keep-whole 0"
messages=local
[ ! -e "$YOKE_BUILD/.libs/transport_sock.so" ] || messages=sock
if [ $# -ge 2 ]; then
    ok "unlike devices, every stage ($1 $2)" stages "cpu:0! $1 $2" shm:gradients "shm:params $far" "$messages:gradients" \
        "$messages:params $far" "local:params $far --shard-within host"
else
    skip "unlike devices" "two of OpenCL, Vulkan and CUDA are needed: $kinds"
fi
if [ -e "$YOKE_BUILD/.libs/transport_ofi.so" ] && [ -n "${YOKE_TEST_LONG-}" ]; then
    ok "over ofi" stages "cpu:0! slow:0! cpu:0!" ofi:gradients "ofi:params $far"
else
    skip "over ofi" "the ofi transport is not built, or YOKE_TEST_LONG is not set"
fi
ok "the host updates" stages "cpu:0! slow:0! slow:1!" "shm:state --offload state=host" "local:gradients --offload state=host" \
    "shm:params $far --offload params=host"
first="--model-config hidden=32+784+32" # three buckets: the host has two, and the device of each rank the last
part="$first --offload state=host:0.5"
ok "the host updates a part" stages "cpu:0! slow:0! slow:1!" "shm:state $part" "local:gradients $part"
if [ $# -ge 2 ]; then
    first=$part
    ok "and of unlike devices in every stage" stages "cpu:0! $1 $2" "$messages:state $part" "shm:gradients $part" \
        "local:params $far --shard-within host $part"
fi
first=

moved() { # parts that differ from a checkpoint's: processors' bits do not depend on the owner
    train whole --devices "cpu:0! cpu:0!" --shares equal --shard-parts 1:3 --save-steps 3 &&
        train rest --devices "cpu:0! cpu:0!" --shares equal --shard-parts 5:2 --shard gradients \
            --resume-from-checkpoint "$out/whole/checkpoint-3" && same whole rest
}
ok "a checkpoint goes on with other parts" moved

estimated() { # to the byte, and the state of rank 1 is twice that of rank 0
    set -- --devices "cpu:0! slow:0! cpu:0!" --shares equal --shard-parts 1:2:1 --shard gradients
    "$yoke" estimate-memory --model mlp --model-config hidden=32 --data "idx:$out/images" --global-batch 32 --max-grad-norm 0.5 \
        --eval-strategy no --json "$@" >"$out/plan" && train run "$@" || return 1
    python3 - "$out/plan" "$out/run.json" <<'P'
import json, sys
plan = json.load(open(sys.argv[1]))["ranks"]
run = json.loads(open(sys.argv[2]).read().splitlines()[-1])["shares"]
state = [rank["state_bytes"] for rank in plan]
print(state, [(a["peak_bytes"], b["peak_bytes"]) for a, b in zip(plan, run)])
assert [a["peak_bytes"] for a in plan] == [b["peak_bytes"] for b in run]
assert 1.9 < state[1] / state[0] < 2.1 and 0.95 < state[2] / state[0] < 1.05
P
}
ok "an estimate is the run's bytes" estimated

refused() { # refused TEXT OPTION...: with exit code 2
    text=$1
    shift
    "$yoke" train --model mlp --data "idx:$out/images" --output-dir "$out/none" "$@" >"$out/log" 2>&1
    [ $? = 2 ] && grep -q -e "$text" "$out/log" || { cat "$out/log"; return 1; }
}
bad() {
    two="--devices cpu/2"
    # shellcheck disable=SC2086
    refused '(--shard-parts) is "1:2:1", 3 parts, for 2 ranks: expected one for each' $two --shard-parts 1:2:1 &&
        refused '(--shard-parts) is "1:0": rank 1 would have no slices' $two --shard-parts 1:0 &&
        refused '(--shard-parts) is "memory": expected equal, speed, or a number' $two --shard-parts memory &&
        refused '(--shard-parts) is "1:1000001": expected equal' $two --shard-parts 1:1000001 &&
        refused 'with LocalSGD' $two --shard-parts 1:2 --local-sgd-steps 4
}
ok "other parts are refused by name" bad
plan
