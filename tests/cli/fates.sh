#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The fate that --dry-run names for each key of a settings file is that of a run: real files, and each key alone with values of each kind.
. "$YOKE_SOURCE/tests/cli/lib.sh"
instrumented && { echo "1..0 # SKIP instrumented: thousands of starts; config.sh has the same readers"; exit 0; }
need_data fashion-mnist
need_data configs
need_data configs-bad
export YOKE_CONFIG_FILE=none OMP_NUM_THREADS=1
small_images "$out/images"
yaml=
printf 'yoke: 1\n' >"$out/own.yaml"
"$yoke" config --dry-run --config-file "$out/own.yaml" >/dev/null 2>&1 || yaml=no-yaml # a build without libyaml reads JSON alone

fates() {
    # shellcheck disable=SC2086
    python3 "$YOKE_SOURCE/tests/cli/fates.py" "$yoke" "$out/images" "$out" "$data/configs" "$data/configs-bad" $yaml "$@"
}
ok "a run does what --dry-run says of each key" fates

shown() { # shown TEXT WANT: --dry-run of this DeepSpeed file has the line
    printf '%s\n' "$1" >"$out/one.json"
    "$yoke" config --dry-run --config-file "$out/one.json" >"$out/shown" 2>"$out/err"
    code=$?
    grep -qE -e "$2" "$out/shown" "$out/err" || { cat "$out/shown" "$out/err"; return 1; }
}
named() { # what a run refuses names its key alone
    shown '{"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/d"}}}' \
        'offload_param.device: nvme: not built yet: --offload params=nvme:/d: not built yet' && [ $code = 0 ] &&
        grep -q 'offload_param.nvme_path: /d: not built yet' "$out/shown" || return 1
    shown '{"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu", "ratio": 0.5}}}' \
        'offload_optimizer.ratio: 0.5: honoured' && grep -q 'offload_optimizer.device: cpu: honoured' "$out/shown" || return 1
    shown '{"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "nvme", "nvme_path": "/d", "ratio": 0.5}}}' \
        'offload_optimizer.ratio: 0.5: not built yet: --offload state=nvme:/d:0.5: not built yet' || return 1
    shown '{"scheduler": {"type": "WarmupLR", "params": {"warmup_type": "linear", "cos_min_ratio": 1}}}' \
        'scheduler.params.cos_min_ratio: 1: refused: --lr-scheduler-kwargs .*has no setting "cos_min_ratio"' && [ $code = 2 ] &&
        grep -q 'scheduler.params.warmup_type: linear: honoured' "$out/shown" || return 1
    shown '{"zero_optimization": {"stage": 2, "zero_quantized_gradients": true}}' \
        'zero_quantized_gradients: true: refused: YOKE_WIRE=int8 keeps' && [ $code = 2 ] || return 1
    "$yoke" train --dry-run --deepspeed '{"gradient_clipping": 2}' --max-grad-norm 1 2>"$out/err" |
        grep -q 'gradient_clipping: 2: not needed: the command line takes the place of --max-grad-norm'
}
ok "--dry-run names the key that a run refuses" named

dry() { # dry CODE COMMAND OPTION..: its lines are in shown and err
    want=$1
    shift
    "$yoke" "$@" --dry-run >"$out/shown" 2>"$out/err"
    code=$?
    [ $code = "$want" ] || { echo "$code"; cat "$out/shown" "$out/err"; return 1; }
}
says() { # says TEXT..: in shown or err
    for text in "$@"; do
        cat "$out/shown" "$out/err" | grep -qF -e "$text" || { echo "no $text"; cat "$out/shown" "$out/err"; return 1; }
    done
}
clip='{"gradient_clipping": 2}'
typed() { # a key whose option is replaced has no part in a fault of the replacement, or of another word
    dry 2 train --deepspeed "$clip" --max-grad-norm -1 &&
        says 'gradient_clipping: 2: not needed' 'yoke train: --max-grad-norm -1: expected' && ! grep -q refused "$out/shown" || return 1
    YOKE_WIRE=int8 dry 2 train --deepspeed '{"communication_data_type": "bf16"}' --shard gradients &&
        says 'communication_data_type: bf16: not needed' 'yoke train: YOKE_WIRE=int8 keeps' && ! grep -q refused "$out/shown" || return 1
    dry 2 train --deepspeed "$clip" --seq-len x --optim x &&
        says 'gradient_clipping: 2: honoured' '--seq-len x: expected' '--optim x: ' && ! grep -q refused "$out/shown" || return 1
    for word in 'seq-len x' 'optim x'; do
        [ "$(grep -cF -e "--$word: " "$out/err")" = 1 ] || { echo "$word"; cat "$out/err"; return 1; }
    done
    dry 2 train --deepspeed "$clip" --precison bf16 && says '--precison' && [ "$(grep -c precison "$out/err")" = 1 ]
}
ok "a fault of the command line or environment is not the file's" typed
meant() { # a refusal that begins with a variable, and names a file's option as a run does
    YOKE_WIRE=int8 dry 2 train --deepspeed '{"zero_optimization": {"stage": 2}}' &&
        says 'zero_optimization.stage: 2: refused: YOKE_WIRE=int8 keeps'
}
ok "a key in the midst of a refusal is named" meant
rows() { # of devices that cannot be counted; no line has the name of what is no option
    printf '{"train_batch_size": 16, "train_micro_batch_size_per_gpu": 4}\n' >"$out/rows.json"
    dry 0 train --config-file "$out/rows.json" --devices bogus && says 'train_batch_size: 16: not built yet: ' &&
        ! cat "$out/shown" "$out/err" | grep -e '--window-rows' || return 1
    dry 0 eval --config-file "$out/rows.json" --devices bogus && says 'train_batch_size: 16: not needed: this command does not train' &&
        ! cat "$out/shown" "$out/err" | grep -e '--window-rows'
}
ok "rows of a step are no option" rows
plan
