#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two ranks train as one does: over the first 50 steps the loss in fp32 is the same to 1e-4, however the rows are split. A ResNet with
# ReLU trains 10 steps at the reference rate, the first 5 to 1e-4; ./check --long has 50.
# (tests/dist/mixed.sh does the same with an OpenCL rank.)
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
small_images "$out/images"

steps=50
instrumented && steps=4 # what a sanitizer sees is in the first ones

train() { # train DEVICES LOG OPTION...
    devices=$1 log=$2
    shift 2
    "$yoke" train "$@" --data "idx:$out/images" --devices "$devices" --global-batch 32 --max-steps $steps --optim sgd \
        --max-grad-norm 0 --logging-steps 1 --log "$log" --overwrite-output-dir --output-dir "$out/m"
}

alike() { # alike MOST EARLY LATE OPTION...: the loss to EARLY in the first MOST steps and to LATE in all
    most=$1 early=$2 late=$3
    shift 3
    train cpu:0 "$out/one" "$@" && train "cpu:0! cpu:0!" "$out/two" "$@" || return 1
    python3 "$YOKE_SOURCE/tests/cli/alike.py" $steps "$out/one" "$out/two" "$most" "$early" "$late"
}

# The reference job's rate: SGD, momentum 0.9, up to 0.1 in 200 steps. With ReLU the sign of activations next to zero depends
# on the order of sums, and training at such a rate amplifies each that turns, in any program (docs/decisions/0006): there
# the first steps must agree, and the others as far as PyTorch with itself. A smooth activation shows all else.
rate="--learning-rate 0.1 --lr-scheduler-type cosine --warmup-steps 200 --weight-decay 5e-4"
ok "mlp on two CPU ranks" alike 50 1e-4 1e-4 --model mlp --learning-rate 0.02
if instrumented; then
    ok "resnet20 at a small rate on two CPU ranks" alike 50 1e-4 1e-4 --model resnet20 --learning-rate 5e-5
    skip "resnet20 at the reference rate on two CPU ranks" "instrumented: the same steps as at a small rate; numbers are the plain build's"
else
    # shellcheck disable=SC2086
    ok "resnet20 without kinks at the reference rate on two CPU ranks" alike 50 1e-5 1e-5 --model resnet20 \
        --model-config hidden_act=silu $rate
    if [ -n "${YOKE_TEST_LONG-}" ]; then
        ok "resnet20 at a small rate on two CPU ranks" alike 50 1e-4 1e-4 --model resnet20 --learning-rate 5e-5
    else
        steps=10 # a rank's rows that are wrong show in the first five
    fi
    # shellcheck disable=SC2086
    ok "resnet20 at the reference rate on two CPU ranks" alike 5 1e-4 0.5 --model resnet20 $rate
fi
plan
