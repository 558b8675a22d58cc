#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every golden case that is built holds on the CPU plugin; those of our own subjects are not allowed to be "unsupported".
. "$YOKE_SOURCE/tests/golden/lib.sh"
need_data golden
export YOKE_DEVICES=cpu
"$yoke" test --golden "$data/golden" >"$out/all" 2>&1
code=$?
holds() { # holds PART: some of its cases are there, and none fails
    grep -E "^(ok|FAILED) +$1/" "$out/all"
    grep -qE "^ok +$1/" "$out/all" && ! grep -qE "^FAILED +$1/" "$out/all"
}
for part in curves schedules loss_scale optim layers loader; do
    ok "golden $part on cpu" holds $part
done
ok "nothing else fails" [ $code = 0 ]
built_all() { # nothing that the project names as built is reported as unsupported
    ours='layers/(linear|conv2d|max_pool2d|avg_pool2d|adaptive|batch_norm|layer_norm|embedding|attention|softmax|log_softmax'
    ours="$ours|gelu|silu|relu |tanh|sigmoid|cross_entropy_(mean|sum|none)|bce|mse)"
    ! grep '^unsupported' "$out/all" | grep -E " (curves/[^ ]* |schedules/|loss_scale/|loader|optim/(sgd|adam_|adamw)|$ours)" |
        grep -v uneven
}
ok "no built subject is unsupported" built_all
changed() { # changed PYTHON WANTED: a job file with something the runner does not know is unsupported, by name; not tried, not failed
    rm -rf "$out/g" && mkdir -p "$out/g/curves" && cp -r "$data/golden/curves/mlp_sgd_nesterov" "$out/g/curves/x" &&
        python3 - "$out/g/curves/x/job.json" "$1" <<'P' && "$yoke" test --golden "$out/g" >"$out/one"
import json, os, sys
os.chmod(sys.argv[1], 0o644)
job = json.load(open(sys.argv[1]))
exec(sys.argv[2])
json.dump(job, open(sys.argv[1], "w"))
P
    code=$?
    cat "$out/one"
    [ $code = 0 ] && grep -q "^unsupported  curves/x ($2" "$out/one"
}
ok "an unknown optimizer" changed 'job["optimizer"]["type"] = "lion"' "optimizer lion)"
ok "an unknown option of an optimizer" changed 'job["optimizer"]["centered"] = True' 'optimizer sgd: setting "centered")'
ok "an unknown schedule" changed 'job["schedule"] = {"type": "wave"}' 'there is no schedule "wave"'
ok "an unknown setting of a schedule" changed 'job["schedule"]["period"] = 3' 'schedule .* has no setting "period"'
ok "an unknown key" changed 'job["ema"] = 0.9' 'job file: setting "ema")'
ok "an unknown model" changed 'job["model"]["kind"] = "rnn"' "model rnn)"
ok "an unknown loss" changed 'job["loss"]["kind"] = "hinge"' "loss hinge)"
ok "dropout, which the table was made without" changed 'job["dropout"] = 0.1' "dropout)"
ok "an unknown clipping" changed 'job["clip"] = {"type": "agc"}' "clip agc)"
ok "two thirds of the operator vectors or more are built, and hold" "$yoke" test --vectors "$data/onnx-op-vectors"
plan
