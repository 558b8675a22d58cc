#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# CUDA ranks, on the driver without a GPU (tests/fakes), alone and with a CPU and an OpenCL rank, train as one CPU does with the same
# global batch: the loss of each step in fp32; bit-identical parameters (the trainer fails otherwise); no rank excluded.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
need_cores 2
[ "$(uname -m)" = x86_64 ] || { echo "1..0 # SKIP the fake driver runs kernels on x86-64 only"; exit 0; }
. "$YOKE_SOURCE/tests/fakes/use.sh"
small_images "$out/images"
trained=20
instrumented && trained=8 # numbers are the plain build's

train() { # train NAME DEVICES: log in $out/NAME.jsonl
    "$yoke" train --model mlp --model-config hidden=32,dropout=0.1 --data "idx:$out/images" --devices "$2" --global-batch 32 \
        --max-steps $trained --optim sgd --learning-rate 0.02 --max-grad-norm 0 --logging-steps 1 --log "$out/$1.jsonl" \
        --overwrite-output-dir --output-dir "$out/model"
}

same() { # same DEVICES: as the CPU alone, to 1e-4
    train mixed "$1" && python3 - "$out/alone.jsonl" "$out/mixed.jsonl" $trained <<'P'
import json, sys
a, b = ([r["loss"] for r in map(json.loads, open(f)) if "loss" in r] for f in sys.argv[1:3])
worst = max(abs(x - y) / abs(x) for x, y in zip(a, b))
print("largest relative difference of", len(a), "losses:", worst)
assert len(a) == len(b) == int(sys.argv[3]) and worst <= 1e-4
P
}

# What a step copies between host and device is in registered memory: twenty steps more bring fewer than twenty other copies. A few there
# are: parts of the optimizer move between ranks as their speeds are learnt.
registered() { # DEVICES
    for steps in 5 25; do
        FAKE_CUDA_PAGEABLE="$out/pageable-$steps" "$yoke" train --model mlp --model-config hidden=64 --data "idx:$out/images" \
            --devices "$1" --global-batch 64 --max-steps $steps --overwrite-output-dir --output-dir "$out/model" || return 1
    done
    echo "copies of memory that is not registered, in 5 and in 25 steps: $(cat "$out/pageable-5" "$out/pageable-25" | tr '\n' ' ')"
    [ "$(cat "$out/pageable-25")" -lt $(($(cat "$out/pageable-5") + 20)) ]
}

# Gradients in slices: the bits of whole ones.
sliced() { # sliced DEVICES
    for stage in state gradients; do
        "$yoke" train --model mlp --model-config hidden=64 --data "idx:$out/images" --devices "$1" --shares equal --shard $stage \
            --global-batch 64 --max-steps 6 --overwrite-output-dir --output-dir "$out/$stage" || return 1
    done
    cmp "$out/state/model.safetensors" "$out/gradients/model.safetensors"
}

# A kernel of the card never ends: the job does, and says which device hangs.
hang_is_noticed() {
    FAKE_CUDA_HANG=300 YOKE_STUCK_MS=2000 timeout 60 "$yoke" train --model mlp --model-config hidden=64 --data "idx:$out/images" \
        --devices cuda:0 --global-batch 64 --max-steps 1000 --overwrite-output-dir --output-dir "$out/model" 2>&1 | tee "$out/hang"
    grep -q "cuda:0 .* has finished nothing for .* (YOKE_STUCK_MS)" "$out/hang"
}

# A card whose slow neighbour is excluded makes the driver's calls of a card alone in its steps, and no more: gradients are clipped on the
# card, nothing leaves it. With the neighbour in, each step has other calls. Exclusion comes within 50 steps and trials take the neighbour
# in again; clocks add a copy now and then. So the two usual lists of calls are compared, and most graphs have one of them. The neighbour
# sleeps half a second in each run: a factor of its own time would multiply the moments in which a loaded machine runs other processes.
calls() { # calls NAME STEPS DEVICES
    FAKE_CUDA_CALLS="$out/calls-$1" YOKE_PLUGINS="cpu,cuda,$YOKE_BUILD/tests/dist/.libs/yoke_slow.so" YOKE_SLOW_RUN_US=500000 \
        "$yoke" train --model mlp --model-config hidden=64 --data "idx:$out/images" --devices "$3" --global-batch 32 --max-steps "$2" \
        --max-grad-norm 0.1 --overwrite-output-dir --output-dir "$out/model"
}

only_the_card() {
    calls alone 40 cuda:0 && calls mixed 300 "cuda:0! slow:0@0" || return 1
    python3 - "$out" <<'P'
import collections, glob, sys
questions = {"cuEventElapsedTime", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"}
def between_graphs(name):
    ranks = [open(f).read().split() for f in glob.glob(f"{sys.argv[1]}/calls-{name}.*")]
    return " ".join(n for n in max(ranks, key=len) if n not in questions).split(" cuGraphLaunch ")
alone, mixed = between_graphs("alone"), between_graphs("mixed")
# from the graph of gradients to the optimizer's, and the other way round
usual = [calls for calls, times in collections.Counter(alone).most_common(2)]
common = [calls for calls, times in collections.Counter(mixed).most_common(2)]
parts = [sum(one in usual for one in calls) / len(calls) for calls in (alone, mixed)]
print("alone:", len(alone), usual, "mixed:", len(mixed), common, "usual:", parts)
assert sorted(common) == sorted(usual) and min(parts) > 0.5
P
}

# The start-up probe is no reason to refuse it; products are rounded, so that losses are near those without, and others.
tf32() {
    for on in 0 1; do
        YOKE_CUDA_TF32=$on "$yoke" train --model mlp --model-config hidden=64 --data "idx:$out/images" --devices cuda:0 --global-batch 64 \
            --max-steps 10 --logging-steps 1 --log "$out/tf32-$on.jsonl" --overwrite-output-dir --output-dir "$out/model" || return 1
    done
    python3 - "$out/tf32-0.jsonl" "$out/tf32-1.jsonl" <<'P'
import json, sys
a, b = ([r["loss"] for r in map(json.loads, open(f)) if "loss" in r] for f in sys.argv[1:])
worst = max(abs(x - y) / abs(x) for x, y in zip(a, b))
print("largest relative difference of", len(a), "losses:", worst)
assert len(a) == len(b) == 10 and 1e-6 < worst < 1e-2
P
}

# A library that is named and cannot be opened is warned of: the training is slower without it.
named() { # named LIBRARY MODEL OPTION..
    library=$1
    shift
    env "YOKE_CUDA_$library=/etc/passwd" "$yoke" train --model "$@" --devices cuda:0 --global-batch 2 --max-steps 1 \
        --overwrite-output-dir --output-dir "$out/model" 2>&1 | tee "$out/named" | grep "no .* (/etc/passwd: .*the plugin's own kernels"
}
not_opened() {
    named CUBLASLT mlp --model-config hidden=32 --data "idx:$out/images" &&
        named CUDNN gpt2 --model-config n_layer=1,n_head=2,n_embd=32,n_positions=64,attn_pdrop=0,resid_pdrop=0,embd_pdrop=0 \
            --data "text:$YOKE_SOURCE/README.md" --tokenizer bytes --seq-len 64 --precision bf16 --eval-strategy no
}

# A batch that a card has no room for as it is: what is free is the limit, and activations are computed again. Where that does not help
# the message names the ways out.
room() { # room BYTES
    FAKE_CUDA_MEMORY=$1 YOKE_LOG=info "$yoke" bench step --model gpt2 --devices cuda:0 --global-batch 16 --iterations 1 \
        --model-config n_layer=4,n_head=2,n_embd=32,vocab_size=64,n_positions=32,seq_len=32 >"$out/room" 2>&1
    code=$?
    echo "exit code $code, $1 bytes"
    cat "$out/room"
    return $code
}
no_room() {
    room 3000000 && grep -q "a step takes [0-9]*: some are computed again" "$out/room" && ! room 500000 &&
        grep "; remedies: .*--gradient-accumulation-steps" "$out/room" | grep -q -e "--offload activations=host" &&
        ! grep "; remedies:" "$out/room" | grep -e YOKE_MEMORY_LIMIT -e --gradient-checkpointing # it is done already
}

ok "cpu:0 alone" train alone cpu:0
ok "cuda:0 alone" same cuda:0
ok "cpu:0 and cuda:0" same "cpu:0! cuda:0!"
ok "cuda:0 in TF32" tf32
ok "libraries that are named and cannot be opened" not_opened
ok "a card without room" no_room
ok "what a step copies is registered" registered "cpu:0! cuda:0!"
ok "so is what a card alone copies" registered cuda:0
ok "gradients in slices, on a card and a processor" sliced "cpu:0! cuda:0!"
ok "gradients in slices, on two cards" sliced "cuda:0! cuda:1!"
ok "a card alone that hangs is noticed" hang_is_noticed
ok "an excluded neighbour adds nothing to a card's steps" only_the_card
if "$yoke" info --kinds 2>/dev/null | grep -q '^opencl$'; then
    ok "cuda:0, cuda:1 and opencl:0" same "cuda:0! cuda:1! opencl:0!"
else
    skip "cuda:0, cuda:1 and opencl:0" "no OpenCL device here"
fi
plan
