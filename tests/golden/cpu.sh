#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every golden case that is built holds on the CPU plugin; those of our own subjects are not allowed to be "unsupported".
. "$YOKE_SOURCE/tests/golden/lib.sh"
need_data golden
export YOKE_DEVICES=cpu
for part in curves schedules loss_scale optim layers; do
    ok "golden $part on cpu" "$yoke" test --golden "$data/golden" --only "$part/"
done
"$yoke" test --golden "$data/golden" >"$out/all" 2>&1
built_all() { # nothing that the project names as built is reported as unsupported
    ours='layers/(linear|conv2d|max_pool2d|avg_pool2d|adaptive|batch_norm|layer_norm|embedding|attention|softmax|log_softmax'
    ours="$ours|gelu|silu|relu |tanh|sigmoid|cross_entropy_(mean|sum|none)|bce|mse)"
    ! grep '^unsupported' "$out/all" | grep -E " (curves/[^ ]* |schedules/|loss_scale/|optim/(sgd|adam_|adamw)|$ours)" |
        grep -v uneven
}
ok "no built subject is unsupported" built_all
ok "two thirds of the operator vectors or more are built, and hold" "$yoke" test --vectors "$data/onnx-op-vectors"
plan
