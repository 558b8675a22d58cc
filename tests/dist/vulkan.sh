#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A CPU, an OpenCL and a Vulkan rank (lavapipe) train as one CPU does with the same global batch: the loss of each step in fp32, and in
# bf16 to what that format holds; bit-identical parameters (the trainer fails otherwise); no rank excluded. YOKE_STEPS=50 trains longer.
. "$YOKE_SOURCE/tests/golden/lib.sh"
need_data cifar10-part banking77
need_opencl
instrumented && { echo "1..0 # SKIP a Vulkan driver leaks; its plugin under sanitizers: tests/cts/vulkan.sh"; exit 0; }
export VK_DRIVER_FILES="$LAVAPIPE" LP_NUM_THREADS=0
"$yoke" info --kinds 2>/dev/null | grep -q '^vulkan$' || { echo "1..0 # SKIP no Vulkan device here"; exit 0; }

train() { # train NAME DEVICES OPTION...: log in $out/NAME.jsonl
    log=$out/$1.jsonl
    devices=$2
    shift 2
    "$yoke" train "$@" --devices "$devices" --max-steps "${YOKE_STEPS-$steps}" --logging-steps 1 --log "$log" --overwrite-output-dir \
        --output-dir "$out/model"
}

same() { # same STEPS MOST OPTION...: each loss of $ranks is that of one CPU, to MOST of it
    steps=$1 most=$2
    shift 2
    train alone cpu:0 "$@" && train ranks "$ranks" "$@" || return 1
    python3 - "$out/alone.jsonl" "$out/ranks.jsonl" "$most" "${YOKE_STEPS-$steps}" <<'P'
import json, sys
a, b = ([r["loss"] for r in map(json.loads, open(f)) if "loss" in r] for f in sys.argv[1:3])
worst = max(abs(x - y) / abs(x) for x, y in zip(a, b))
print("largest relative difference of", len(a), "losses:", worst)
assert len(a) == len(b) == int(sys.argv[4]) and worst <= float(sys.argv[3])
P
}

bf16_and_fp16() { # bf16_and_fp16 STEPS OPTION...: one rank computes in bf16, one in fp16: losses are within noise of fp32's
    steps=$1
    shift
    train alone cpu:0 "$@" && train formats "cpu:0! opencl:0! vulkan:0!" "$@" --precision bf16,fp32,fp16 || return 1
    python3 - "$out/alone.jsonl" "$out/formats.jsonl" "${YOKE_STEPS-$steps}" <<'P'
import json, sys
a, b = ([r["loss"] for r in map(json.loads, open(f)) if "loss" in r] for f in sys.argv[1:3])
worst = max(abs(x - y) / abs(x) for x, y in zip(a, b))
print("largest relative difference of", len(a), "losses:", worst)
assert len(a) == len(b) == int(sys.argv[3]) and 0 < worst <= 2e-2
P
}

images="--model resnet20 --model-config hidden_act=silu --data cifar10:$data/cifar10-part --global-batch 12 --optim sgd --max-grad-norm 0"
text="--model bert --tokenizer bytes --max-length 24 --global-batch 12 --learning-rate 1e-3"
ranks="cpu:0! opencl:0! vulkan:0!"
sizes=hidden_size=32,num_hidden_layers=2,num_attention_heads=2,intermediate_size=64,max_position_embeddings=32
# shellcheck disable=SC2086
ok "resnet20 on three kinds of devices" same 3 1e-4 $images --learning-rate 0.02
# shellcheck disable=SC2086
ok "bert on three kinds of devices" same 5 1e-4 $text --model-config $sizes \
    --data "csv:$data/banking77/train.csv,text=text,label=category"
# shellcheck disable=SC2086
ok "bert in bf16 on three kinds of devices" same 3 2e-2 $text --model-config $sizes --precision bf16 \
    --data "csv:$data/banking77/train.csv,text=text,label=category"
# A software driver takes seconds to compile convolutions of another type: where it was asked to train longer.
# shellcheck disable=SC2086
[ -z "$YOKE_STEPS" ] || ok "resnet20 with one rank in bf16 and one in fp16" bf16_and_fp16 "$YOKE_STEPS" $images --learning-rate 0.02
# shellcheck disable=SC2086
ok "bert with one rank in bf16 and one in fp16" bf16_and_fp16 4 $text --model-config $sizes \
    --data "csv:$data/banking77/train.csv,text=text,label=category"
# Such a driver runs each subgroup of a group on a stack of its own: where it was asked to train longer, too.
ranks=vulkan:0
export YOKE_VULKAN_SHAPE=groups
# shellcheck disable=SC2086
[ -z "$YOKE_STEPS" ] || ok "resnet20 by a GPU's kernels" same "$YOKE_STEPS" 1e-4 $images --learning-rate 0.02
plan
