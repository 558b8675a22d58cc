#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A CPU rank and an OpenCL rank together train as one CPU does with the same global batch: the loss of each of 50 steps in
# fp32, with dropout and batch norm; bit-identical parameters (the trainer fails otherwise); no rank left out.
. "$YOKE_SOURCE/tests/golden/lib.sh"
need_data fashion-mnist cifar10-part banking77
need_opencl
need_cores 2

train() { # train NAME DEVICES OPTION...: log in $out/NAME.jsonl
    log=$out/$1.jsonl
    devices=$2
    shift 2
    "$yoke" train "$@" --devices "$devices" --max-steps 50 --logging-steps 1 --json --log "$log" --output-dir "$out/model" \
        >"$out/json" || return 1
}

same() { # same NAME OPTION...
    name=$1
    shift
    train "$name-alone" cpu:0 "$@" || return 1
    train "$name-mixed" "cpu:0 opencl:0@1" "$@" || return 1
    python3 - "$out/$name-alone.jsonl" "$out/$name-mixed.jsonl" <<'EOF'
import json, sys
logs = [[json.loads(line) for line in open(path)] for path in sys.argv[1:]]
loss = [[x["loss"] for x in log if "loss" in x] for log in logs]
worst = max(abs(a - b) / abs(a) for a, b in zip(*loss))
norm = [[x["grad_norm"] for x in log if "loss" in x][:5] for log in logs]
norms = max(abs(a - b) / abs(a) for a, b in zip(*norm))
shares = [r["share"] for r in logs[1][-1]["shares"]]
print("worst relative difference %.2e (first gradients' norms %.2e) over %d and %d steps, from %.4f to %.4f; shares %s"
      % (worst, norms, len(loss[0]), len(loss[1]), loss[0][0], loss[0][-1], shares))
sys.exit(not (len(loss[0]) == len(loss[1]) == 50 and worst < 1e-4 and norms < 1e-3 and min(shares) > 0.02 and len(shares) == 2))
EOF
    code=$?
    tail -n 1 "$out/log" | sed 's/^/# /' >&3
    return $code
}

exec 3>&1
ok "mlp with dropout" same mlp --model mlp --model-config hidden=128,dropout=0.1 --data "idx:$data/fashion-mnist" \
    --global-batch 128 --optim sgd --learning-rate 0.05
# A small rate: the sign of some of five million activations next to zero depends on the order of sums, and training
# amplifies that (two CPU ranks and one differ as much). The norm of the gradients, which the rate does not touch, shows a
# wrong weight of a rank in the first step.
ok "resnet20" same resnet20 --model resnet20 --data "cifar10:$data/cifar10-part" --global-batch 64 --optim sgd \
    --learning-rate 1e-4
ok "bert with dropout" same bert --model bert --data "csv:$data/banking77/train.csv,text=text,label=category" --tokenizer bytes \
    --max-length 48 \
    --model-config hidden_size=128,num_hidden_layers=2,num_attention_heads=4,intermediate_size=256,max_position_embeddings=64 \
    --global-batch 32 --learning-rate 1e-3
plan
