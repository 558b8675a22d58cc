#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Real weights: ResNet-20 gets exactly 915 of 1,000 images, MiniLM, tiny BERT and tiny GPT-2 give their expected outputs.
. "$YOKE_SOURCE/tests/golden/lib.sh"
need_data models cifar10-part
export YOKE_DEVICES=cpu
exactly_915() { # exactly_915 DEVICES
    "$yoke" eval --model resnet20 --from "$data/models/resnet20/resnet20-12fca82f.safetensors" \
        --data "cifar10:$data/cifar10-part" --devices "$1" --json >"$out/eval" || return 1
    cat "$out/eval"
    [ "$(field correct "$out/eval")" = 915 ] && [ "$(field total "$out/eval")" = 1000 ]
}
ok "resnet20 on cpu: 915 of 1000" exactly_915 cpu
if "$yoke" info --kinds 2>/dev/null | grep -q '^opencl$'; then
    ok "resnet20 on opencl: 915 of 1000" exactly_915 opencl:0
else
    skip "resnet20 on opencl" "no OpenCL device here"
fi
for m in all-minilm-l6-v2 bert-tiniest fake-gpt2; do
    ok "expected outputs of $m" "$YOKE_BUILD/tests/golden/expected" "$data/models/$m"
done
plan
