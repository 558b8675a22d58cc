#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two ranks train as one does: over the first steps the loss in fp32 is the same to 1e-4, however the rows are split.
# (tests/dist/mixed.sh does the same with an OpenCL rank.)
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
small_images "$out/images"

train() { # train MODEL DEVICES LOG RATE
    "$yoke" train --model "$1" --data "idx:$out/images" --devices "$2" --global-batch 32 --max-steps 50 --optim sgd \
        --learning-rate "$4" --logging-steps 1 --log "$3" --output-dir "$out/m"
}

alike() { # alike MODEL DEVICES RATE: against cpu:0
    train "$1" cpu:0 "$out/one" "$3" && train "$1" "$2" "$out/two" "$3" || return 1
    python3 - "$out/one" "$out/two" <<'P'
import json, sys
a, b = ([json.loads(line) for line in open(f)] for f in sys.argv[1:])
la, lb = ([r["loss"] for r in x if "loss" in r] for x in (a, b))
assert len(la) == len(lb) == 50, (len(la), len(lb))
worst = max(abs(x - y) / x for x, y in zip(la, lb))
print("largest relative difference", worst, "shares", b[-1]["shares"])
assert worst <= 1e-4
ga, gb = ([r["grad_norm"] for r in x if "loss" in r][:5] for x in (a, b))
worst = max(abs(x - y) / x for x, y in zip(ga, gb))
print("largest relative difference of the first gradients' norms", worst)
assert worst <= 1e-3
P
}

ok "mlp on two CPU ranks" alike mlp "cpu:0! cpu:0!" 0.02
# A small rate: the sign of activations next to zero depends on the order of sums, and training amplifies that. The norm
# of the gradients, which the rate does not touch, shows a wrong weight of a rank in the first step.
ok "resnet20 on two CPU ranks" alike resnet20 "cpu:0! cpu:0!" 1e-4
plan
