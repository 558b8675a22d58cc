#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A CPU rank and an OpenCL rank together train as one CPU does with the same global batch: the loss of each of 50 steps in
# fp32 (of 10 or 15 with a ResNet that has ReLU), with dropout and batch norm; bit-identical parameters (the trainer fails
# otherwise); no rank excluded.
. "$YOKE_SOURCE/tests/golden/lib.sh"
need_data fashion-mnist cifar10-part banking77
need_opencl
need_cores 2

steps=50
instrumented && steps=10 # what a sanitizer sees is in the first ones
full=$steps

train() { # train NAME DEVICES OPTION...: log in $out/NAME.jsonl
    log=$out/$1.jsonl
    devices=$2
    shift 2
    "$yoke" train "$@" --devices "$devices" --max-steps $steps --logging-steps 1 --json --log "$log" \
        --overwrite-output-dir --output-dir "$out/model" \
        >"$out/json" || return 1
}

same() { # same MOST EARLY LATE OPTION...: as tests/cli/alike.py says, of $steps
    most=$1 early=$2 late=$3
    shift 3
    train alone cpu:0 "$@" && YOKE_SHARES=$shares train mixed "cpu:0! opencl:0@1!" "$@" || return 1
    python3 "$YOKE_SOURCE/tests/cli/alike.py" $steps "$out/alone.jsonl" "$out/mixed.jsonl" "$most" "$early" "$late"
    code=$?
    [ $code != 0 ] || tail -n 1 "$out/log" | sed 's/^/# /' >&3
    return $code
}

exec 3>&1
images="--model resnet20 --data cifar10:$data/cifar10-part --global-batch 32 --optim sgd --max-grad-norm 0"
rate="--learning-rate 0.1 --lr-scheduler-type cosine --warmup-steps 200 --weight-decay 5e-4"
# A fast processor leaves OpenCL two rows of 128 of so small a net: measured shares come with the nets below.
shares=3:1
ok "mlp with dropout" same 50 1e-4 1e-4 --model mlp --model-config hidden=128,dropout=0.1 --data "idx:$data/fashion-mnist" \
    --global-batch 128 --optim sgd --learning-rate 0.05
shares=speed
# Why the reference job's rate is tested with and without kinks: tests/cli/ranks.sh and docs/decisions/0006.
if instrumented; then
    skip "resnet20 at the reference rate" "instrumented: the same steps as at a small rate; numbers are the plain build's"
else
    # shellcheck disable=SC2086
    ok "resnet20 without kinks at the reference rate" same 50 1e-5 1e-5 $images $rate --model-config hidden_act=silu
    # shellcheck disable=SC2086
    [ -n "${YOKE_TEST_LONG-}" ] || steps=10 # the first 5 are compared; later ones only stay in the neighbourhood
    # shellcheck disable=SC2086
    ok "resnet20 at the reference rate" same 5 1e-4 0.5 $images $rate
    [ -n "${YOKE_TEST_LONG-}" ] || steps=15 # 50 without kinks, above, add up more
fi
# shellcheck disable=SC2086
ok "resnet20 at a small rate" same 50 1e-4 1e-4 $images --learning-rate 5e-5
steps=$full
ok "bert with dropout" same 50 1e-4 1e-4 --model bert --data "csv:$data/banking77/train.csv,text=text,label=category" \
    --tokenizer bytes --max-length 48 \
    --model-config hidden_size=128,num_hidden_layers=2,num_attention_heads=4,intermediate_size=256,max_position_embeddings=64 \
    --global-batch 32 --learning-rate 1e-3
plan
