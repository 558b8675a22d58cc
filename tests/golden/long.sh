#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The real jobs, in fp32 and bf16, to the figures that a single run has to reach. About an hour on two cores.
#   make check-long                all
#   make check-long LONG="mlp gpt" some of: mlp resnet gpt bert minilm mixed
. "$YOKE_SOURCE/tests/golden/lib.sh"
need_data fashion-mnist tinyshakespeare chnsenticorp banking77 models
wanted=${LONG-mlp resnet gpt bert minilm mixed}
want() {
    case " $wanted " in *" $1 "*) return 0 ;; esac
    return 1
}

train() { # train PRECISION ARGUMENTS...: log in $out/log.jsonl
    precision=$1
    shift
    "$yoke" train --precision "$precision" --overwrite-output-dir --output-dir "$out/model" --log "$out/log.jsonl" "$@"
}

best() { # best KEY FILE: the largest value over the log (evaluations)
    python3 - "$1" "$2" <<'P'
import json, sys
print(max(v[sys.argv[1]] for v in map(json.loads, open(sys.argv[2])) if sys.argv[1] in v))
P
}

mlp() {
    train "$1" --model mlp --model-config hidden=512+256 --data "idx:$data/fashion-mnist" --global-batch 128 --num-train-epochs 5 \
        --optim adamw --learning-rate 1e-3 --weight-decay 0.01 --decay-all --warmup-steps 100 --lr-scheduler-type cosine \
        --max-grad-norm 0 --devices "${2-cpu}" || return 1
    at_least "$(field eval_accuracy "$out/log.jsonl")" 0.885
}

resnet() {
    train "$1" --model resnet20 --data "idx:$data/fashion-mnist" --global-batch 128 --num-train-epochs 3 --optim sgd \
        --learning-rate 0.1 --momentum 0.9 --weight-decay 5e-4 --decay-all --warmup-steps 200 --lr-scheduler-type cosine \
        --max-grad-norm 0 --devices "${2-cpu}" || return 1
    at_least "$(field eval_accuracy "$out/log.jsonl")" 0.915
}

gpt() {
    size=n_layer=4,n_head=4,n_embd=128,n_positions=64,bias=false,activation_function=gelu
    train "$1" --model gpt2 --model-config "$size,embd_pdrop=0,attn_pdrop=0,resid_pdrop=0" \
        --data "text:$data/tinyshakespeare/input.txt" --tokenizer char --seq-len 64 --global-batch 12 --max-steps 2000 --optim adamw \
        --learning-rate 1e-3 --adam-beta2 0.99 --weight-decay 0.1 --warmup-steps 100 --lr-scheduler-type cosine_with_min_lr \
        --lr-scheduler-kwargs min_lr=1e-4 --max-grad-norm 1 --devices "${2-cpu}" || return 1
    at_least 1.93 "$(field eval_loss "$out/log.jsonl")"
}

bert() {
    train "$1" --model bert --model-config hidden_size=256,num_hidden_layers=2,num_attention_heads=4,intermediate_size=1024 \
        --data "csv:$data/chnsenticorp/ChnSentiCorp_htl_all.csv,text=review,label=label,lowercase=no" \
        --tokenizer "$data/tokenizers/bert-base-chinese" \
        --eval-rows "$data/chnsenticorp/split-seed42-valid.txt" --max-length 128 --global-batch 32 --num-train-epochs 4 --optim adamw \
        --learning-rate 5e-4 --weight-decay 0.01 --warmup-steps 100 --lr-scheduler-type linear --max-grad-norm 1 \
        --devices "${2-cpu}" || return 1
    at_least "$(best eval_accuracy "$out/log.jsonl")" 0.865
}

minilm() {
    train "$1" --from "$data/models/all-minilm-l6-v2" --data "csv:$data/banking77/train.csv,text=text,label=category" \
        --eval-data "csv:$data/banking77/test.csv,text=text,label=category" --max-length 64 --global-batch 32 --num-train-epochs 4 \
        --optim adamw --learning-rate 2e-4 --weight-decay 0.01 --warmup-steps 125 --lr-scheduler-type linear --max-grad-norm 1 \
        --devices "${2-cpu}" || return 1
    at_least "$(field eval_accuracy "$out/log.jsonl")" 0.917
}

for job in mlp resnet gpt bert minilm; do
    want $job || continue
    for p in fp32 bf16; do
        ok "$job in $p" $job $p
        tail -n 1 "$out/log.jsonl" | cut -c1-220 | sed 's/^/# /'
    done
done
if want mixed; then
    for job in mlp resnet gpt bert; do
        ok "$job on cpu:0 and opencl:0@1" $job fp32 "cpu:0! opencl:0@1!"
        tail -n 1 "$out/log.jsonl" | cut -c1-400 | sed 's/^/# /'
    done
fi
plan
