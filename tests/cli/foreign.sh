#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Settings files as users of other programs keep them: the batch over several files, keys without an effect, notes, and what counts by
# distributed_type and stage. config.sh has the files of shared/data, and one key each.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
export YOKE_DEVICES=cpu:0 YOKE_CONFIG_FILE=none
small_images "$out/images"
yaml=yes
printf 'yoke: 1\n' >"$out/empty.yaml"
"$yoke" config --dry-run --config-file "$out/empty.yaml" >/dev/null 2>&1 || yaml= # a build without libyaml reads JSON alone

dry() { # dry CODE ARGUMENTS..: yoke train --dry-run; $out/shown and $out/err
    expected=$1
    shift
    "$yoke" train --dry-run --model mlp --data "idx:$out/images" --output-dir "$out/never" "$@" >"$out/shown" 2>"$out/err"
    code=$?
    [ $code = "$expected" ] || { echo "$*: code $code, expected $expected"; cat "$out/shown" "$out/err"; return 1; }
}
made() { # the options that the files made, sorted, in one line
    sed -n 's/^yoke train: --//p' "$out/shown" | sort | tr '\n' ' '
}

rows='"train_batch_size"' micro='"train_micro_batch_size_per_gpu"' steps='"gradient_accumulation_steps"'
orders() { # numbers of one batch in two files, by either option: one result, or an error that names both (ONE and TWO)
    while IFS='|' read -r one two want second; do # second: in the other order, if it is not the same there
        for first in 1 2; do
            printf '%s' "$one" >"$out/order$first.json"
            printf '%s' "$two" >"$out/order$((3 - first)).json"
            [ $first = 1 ] || want=${second:-$want}
            end=$(case $want in *:*) echo 2 ;; *) echo 0 ;; esac)
            dry "$end" --config-file "$out/order1.json" --deepspeed "$out/order2.json" || return 1
            got=$(made)
            [ "$end" = 0 ] || got=$(sed -E "s|[^ (]*/order$first.json|ONE|g; s|[^ (]*/order[12].json|TWO|g" "$out/err")
            [ "${got% }" = "$([ "$end" = 0 ] || echo 'yoke train: ')$want" ] && continue
            echo "$one $two, order $first: expected $want, got $got"
            return 1
        done
    done <<T
{$rows: 16}|{$steps: 4}|global-batch 4 gradient-accumulation-steps 4
{$rows: 16}|{$micro: 4}|global-batch 4 gradient-accumulation-steps 4
{$rows: 16, $steps: 2}|{$micro: 8}|global-batch 8 gradient-accumulation-steps 2
{$rows: 16, $micro: 4}|{$rows: 16}|global-batch 4 gradient-accumulation-steps 4
{$rows: 16}|{$steps: 3}|ONE, line 1: train_batch_size: 16 is no multiple of gradient_accumulation_steps 3 \
(TWO, line 1): expected a multiple of 3
{$rows: 16}|{$rows: 32}|TWO, line 1: train_batch_size: 32, and ONE, line 1 has 16: leave one\
|ONE, line 1: train_batch_size: 16, and TWO, line 1 has 32: leave one
{$micro: 4}|{$micro: 8}|TWO, line 1: train_micro_batch_size_per_gpu: 8, and ONE, line 1 has 4: leave one\
|ONE, line 1: train_micro_batch_size_per_gpu: 4, and TWO, line 1 has 8: leave one
{$rows: 16, $steps: 2}|{$micro: 4}|ONE, line 1: train_batch_size: 16 is not train_micro_batch_size_per_gpu 4 \
(TWO, line 1) x gradient_accumulation_steps 2 x 1 rank: expected 8
T
    for one in 4 8; do
        printf '{%s: %s}' "$micro" $one >"$out/micro$one.json"
    done
    dry 0 --config-file "$out/micro4.json" --deepspeed "$out/micro8.json" --global-batch 16 && # one meaning, so neither file counts
        grep -q '8.json.*: 8: not needed: the command line takes the place' "$out/shown" || { cat "$out/shown"; return 1; }
    dry 0 --config-file "$out/order1.json" --deepspeed '{"train_batch_size": 8}' --gradient-accumulation-steps 2 || return 1
    printf '{"train_batch_size": 16, "train_micro_batch_size_per_gpu": 4}' >"$out/order.json"
    dry 0 --deepspeed "$out/order.json" --accelerator-config '{"gradient_accumulation_kwargs": {"num_steps": 4}}' &&
        [ "$(made)" = "global-batch 4 gradient-accumulation-steps 4 " ] || { made; return 1; }
    ACCELERATE_GRADIENT_ACCUMULATION_STEPS=3 dry 2 --deepspeed '{"train_batch_size": 16}' &&
        grep -q 'multiple of ACCELERATE_GRADIENT_ACCUMULATION_STEPS 3' "$out/err" || { cat "$out/err"; return 1; }
    [ -n "$yaml" ] || return 0
    printf 'yoke: 1\ntrain:\n  per-device-train-batch-size: 8\n' >"$out/eight.yaml"
    dry 2 --config-file "$out/eight.yaml" --deepspeed "$out/order.json" &&
        grep -q 'per_gpu: --per-device-train-batch-size would be 4, and .*eight.yaml, line 3 makes it 8' "$out/err" || return 1
    printf 'yoke: 1\ntrain:\n  per-device-train-batch-size: 4\n' >"$out/four.yaml"
    dry 0 --config-file "$out/four.yaml" --deepspeed "$out/order.json" &&
        [ "$(made)" = "gradient-accumulation-steps 4 per-device-train-batch-size 4 " ] || { made; return 1; }
    printf 'yoke: 1\ntrain:\n  batch-size: 4\n' >"$out/four.yaml" # another spelling of it
    dry 0 --config-file "$out/four.yaml" --deepspeed '{"train_batch_size": 16}' &&
        [ "$(made)" = "batch-size 4 gradient-accumulation-steps 4 " ] || { made; return 1; }
}
ok "numbers of one batch in two files, in either order" orders

fates() { # KEYS..|FATE of the last key; the file is taken unless a line says that it is refused
    while IFS='|' read -r text want; do
        printf '%s' "$text" >"$out/fate.json"
        "$yoke" config --dry-run --config-file "$out/fate.json" >"$out/shown" 2>"$out/err"
        code=$?
        cat "$out/err" >>"$out/shown"
        refused=$(case $want in *switch* | *says* | *"a schedule begins"* | *": refused: "*) echo 2 ;; *) echo 0 ;; esac)
        grep -q -e "$want" "$out/shown" && [ $code = "$refused" ] && continue
        echo "$text: expected $want, got code $code"
        cat "$out/shown"
        return 1
    done <<'T'
{"bf16": {"enabled": true, "loss_scale": 0}}|bf16.loss_scale: 0: not needed: bf16 has no loss scale
{"bf16": {"enabled": "auto", "initial_scale_power": 16}}|bf16.initial_scale_power: 16: not needed: bf16 has no loss scale
{"bf16": {"enabled": true, "loss_scale_window": 1000, "hysteresis": 2, "min_loss_scale": 1}}|bf16.min_loss_scale: 1: not needed
{"fp16": {"enabled": true, "opt_level": "O2"}}|fp16.opt_level: O2: not needed
{"_comment": "of the lab", "train_batch_size": 4}|_comment: of the lab: not needed: a comment
{"zero_optimization": {"stage": 2, "//": "as before"}}|zero_optimization.//: as before: not needed: a comment
{"bfloat16": {"enabled": true}}|yoke train: --precision bf16
{"bf16": {"enabled": false}, "bfloat16": {"enabled": true}}|bfloat16.enabled: true: not needed: DeepSpeed reads it only where bf16
{"bfloat16": {"enabled": true, "loss_scale": 0, "check_grad_overflow": false}}|bfloat16.loss_scale: 0: not needed: bf16 has no
{"scheduler": {"type": "WarmupLR", "params": {"last_batch_iteration": -1}}}|last_batch_iteration: -1: not needed: asks for nothing
{"scheduler": {"type": "WarmupLR", "params": {"last_batch_iteration": 0}}}|last_batch_iteration: a schedule begins with the run
{"scheduler": {"type": "WarmupLR", "params": {"_comment": "slow", "warmup_max_lr": 0.01}}}|--lr-scheduler-kwargs warmup_max_lr=0.01
{"zero_optimization": {"stage": 3, "cpu_offload_param": true}}|yoke train: --offload params=host
{"zero_optimization": {"stage": 2, "cpu_offload_params": true}}|cpu_offload_params: true: not needed: DeepSpeed reads it in stage 3
{"zero_optimization": {"stage": 0, "cpu_offload": true}}|cpu_offload: true: not needed: DeepSpeed reads it in stages 1 to 3
{"seq_parallel_comm_data_type": null, "use_data_before_expert_parallelism": false}|parallelism: false: not needed: asks for nothing
{"steps_per_print": 20000000000000000}|yoke train: --logging-steps 1073741824
{"steps_per_print": 2e16}|yoke train: --logging-steps 1073741824
{"tensorboard": {"enabled": true, "output_path": "", "job_name": "a"}}|tensorboard.output_path: : not needed: nothing is set
{"optimizer": {"type": "Adam", "params": {"max_grad_norm": 1.0}}}|max_grad_norm: the key is gradient_clipping, as DeepSpeed itself says
{"optimizer": {"type": "Adam", "params": {"max_grad_norm": 0.0}}}|max_grad_norm: 0.0: not needed: asks for nothing
{"bf16": {"enabled": true, "bf16_master_weights_and_grads": true}}|bf16.bf16_master_weights_and_grads: true: refused: masters are f32
{"bfloat16": {"enabled": true, "bf16_master_weights_and_grads": true}}|bfloat16.bf16_master_weights_and_grads: true: refused: masters
{"bfloat16": {"enabled": true, "bf16_optimizer_states": true}}|bfloat16.bf16_optimizer_states: true: not built yet
{"bf16": {"enabled": true, "amp_dtype": 1}}|bf16.amp_dtype: 1: refused: unknown key
{"bfloat16": {"enabled": false, "amp_dtype": {"a": 1}}}|bfloat16.amp_dtype: ..: refused: unknown key
{"fp16": {"enabled": true, "losscale": 0}}|fp16.losscale: 0: refused: unknown key of DeepSpeed's JSON: did you mean loss_scale?
{"fp16": {"enabled": "yes please"}}|fp16.enabled: yes please: refused: expected true or false, got text
{"fp16": true}|fp16: true: refused: expected a map of keys, got true
{"fp16": {"initial_scale_power": "zz"}}|fp16.initial_scale_power: zz: refused: expected a whole number, got text
{"fp16": {"enabled": false, "loss_scale": -7}}|fp16.loss_scale: -7: refused: expected a number from 0
{"tensorboard": {"output_path": {"q": 1}}}|tensorboard.output_path: ..: refused: expected a text, got a map
{"zero_optimization": {"offload_optimizer": {"ratio": "x"}}}|offload_optimizer.ratio: x: refused: expected a number, got text
{"zero_optimization": {"offload_param": {"nvme_path": [1]}}}|offload_param.nvme_path: ..: refused: expected a text, got a list
{"fp16": {}}|fp16: {}: not needed: nothing is set
T
}
ok "keys of real files that DeepSpeed does not read, notes and large numbers" fates

told() { # the options and variables that --dry-run names, and its lines on standard error
    sed -n '/^yoke \(train\|launch\): \|^variable: /p' "$out/shown" | sort
    sed "s|$out/[a-z]*\.[a-z]*|F|g; /not needed here/d" "$out/err"
}
nulls() { # null is as if the key were absent, in each format and of each key: WITH NULL|WITHOUT
    while IFS='|' read -r one two; do
        for text in "$one" "$two"; do
            printf '%s' "$text" >"$out/null.json"
            dry 0 --deepspeed "$out/null.json" --max-steps 9 || { echo "$text"; return 1; }
            mv "$out/told" "$out/told.before" 2>/dev/null
            told >"$out/told"
        done
        diff "$out/told.before" "$out/told" || { echo "$one"; return 1; }
    done <<'T'
{"optimizer": {"type": "AdamW", "params": {"lr": null}}}|{"optimizer": {"type": "AdamW", "params": {}}}
{"optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": null}}}|{"optimizer": {"type": "SGD", "params": {"lr": 0.1}}}
{"gradient_clipping": null, "steps_per_print": 5}|{"steps_per_print": 5}
{"bf16": null, "bfloat16": {"enabled": true}}|{"bfloat16": {"enabled": true}}
{"fp16": {"enabled": true, "loss_scale": null, "hysteresis": null}}|{"fp16": {"enabled": true}}
{"flops_profiler": {"enabled": null, "profile_step": 1}}|{"flops_profiler": {"enabled": false, "profile_step": 1}}
{"scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": null}}}|{"scheduler": {"type": "WarmupLR", "params": {}}}
T
    "$yoke" config --keys deepspeed | sed -n 's/^| \(`[^|]*`\) |.*/\1/p' | tr -d '` ' | tr ',' '\n' >"$out/names"
    python3 - "$out/names" >"$out/null.json" <<'P'
import json, sys
tree = {}
for path in open(sys.argv[1]).read().split():
    at, parts = tree, path.split(".")
    for part in parts[:-1]:
        at[part] = at.get(part) or {}
        at = at[part]
    at.setdefault(parts[-1])
json.dump(tree, sys.stdout)
P
    dry 0 --deepspeed "$out/null.json" && [ "$(wc -l <"$out/names")" -gt 200 ] && ! grep '^yoke \|^variable' "$out/shown" || return 1
    printf '{"devices": [{"name": null, "products": 1}]}' >"$out/null.json"
    "$yoke" plan --model mlp --data "idx:$out/images" --device-file "$out/null.json" >"$out/shown" 2>&1
    grep -q 'name null: expected a short text' "$out/shown" || { cat "$out/shown"; return 1; }
    [ -n "$yaml" ] || return 0
    for command in train launch; do
        printf 'yoke: ~\n%s:\n' $command >"$out/null.yaml"
        "$yoke" $command --options | sed '/^--help/d; s/^--\([^ ]*\).*/  \1: null/' >>"$out/null.yaml"
        "$yoke" config --dry-run --config-file "$out/null.yaml" >"$out/shown" 2>"$out/err" && [ ! -s "$out/shown" ] ||
            { cat "$out/shown" "$out/err"; return 1; }
    done
    for key in tf32 half_precision_backend group_by_length push_to_hub config-file; do # ours or another program's, refused or a switch
        printf 'yoke: 1\ntrain:\n  %s: null\n' $key >"$out/null.yaml"
        "$yoke" config --dry-run --config-file "$out/null.yaml" >"$out/shown" 2>"$out/err" && [ ! -s "$out/shown" ] ||
            { echo $key; cat "$out/shown" "$out/err"; return 1; }
    done
    printf 'yoke: 1\ntrain:\n  tf33: null\n  lr: 0.5\n' >"$out/null.yaml"
    "$yoke" config --dry-run --config-file "$out/null.yaml" >"$out/shown" 2>"$out/err"
    [ $? = 2 ] && grep -q 'line 3: train.tf33: yoke train has no such option' "$out/err"
}
ok "null is as absent in each format, and an unknown key is refused with it" nulls

schedules() { # a file takes each setting of each schedule of DeepSpeed, as the command's message lists them
    for type in WarmupLR WarmupDecayLR WarmupCosineLR LRRangeTest OneCycle; do
        dry 2 --deepspeed '{}' --lr-scheduler-type $type --lr-scheduler-kwargs total_num_steps=9,cycle_min_lr=0,bogus=1 --max-steps 9
        keys=$(sed -n 's/.*it has: //p' "$out/err")
        [ -n "$keys" ] || { echo "$type"; cat "$out/err"; return 1; }
        for key in $keys; do
            value=1
            case $key in
            warmup_type) value='"log"' ;;
            *staircase) value=true ;;
            *mom) value=0.5 ;;
            esac
            case $type in
            OneCycle) needed='"cycle_min_lr": 0, "cycle_momentum": true, ' ;;
            *) needed= ;;
            esac
            [ $key != cycle_min_lr ] || needed=
            printf '{"scheduler": {"type": "%s", "params": {%s"last_batch_iteration": -1, "%s": %s}}}' \
                "$type" "$needed" "$key" "$value" >"$out/schedule.json"
            dry 0 --deepspeed "$out/schedule.json" --max-steps 9 || return 1
            # --warmup-steps has its number, and cycle_min_lr and warmup_max_lr, DeepSpeed's own, come with each of the rest
            more=$(case $type.$key in OneCycle.cycle_min_lr) ;; OneCycle.*) echo cycle_min_lr=0, ;; esac)
            far=$(case $type.$key in Warmup*LR.warmup_max_lr | WarmupCosineLR.*) ;; Warmup*) echo ,warmup_max_lr=0.001 ;; esac)
            list=$more$key=$(echo "$value" | tr -d '"')$far steps=
            [ $key != warmup_num_steps ] || { list=${far#,} steps='warmup-steps 1 '; }
            want="$([ $type != OneCycle ] || echo 'adam-beta2 0.99 ')${list:+lr-scheduler-kwargs $list }lr-scheduler-type $type $steps"
            [ "$(made)" = "$want" ] || { echo "$type, $key: expected $want, got $(made)"; return 1; }
        done
    done
    printf '{"scheduler": {"params": {"warmup_type": "linear", "warmup_max_lr": 0.5, "warmup_min_lr": 0.25}, "type": "WarmupLR"}}' \
        >"$out/schedule.json"
    dry 0 --deepspeed "$out/schedule.json" --max-steps 9 && # in the file's order
        [ "$(made)" = 'lr-scheduler-kwargs warmup_type=linear,warmup_max_lr=0.5,warmup_min_lr=0.25 lr-scheduler-type WarmupLR ' ] &&
        [ "$(sed -n 's/.*: scheduler.\([a-z_.]*\): .*/\1/p' "$out/shown" | tr '\n' ' ')" = \
            'params.warmup_type params.warmup_max_lr params.warmup_min_lr type ' ] || { cat "$out/shown"; return 1; }
    printf '{"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0, "cycle_momentum": false}}}' >"$out/schedule.json"
    dry 2 --deepspeed "$out/schedule.json" && grep -q 'cycle_momentum: the momentum follows the cycle' "$out/err"
}
ok "settings of DeepSpeed's schedules" schedules

rates() { # TYPE|PARAMS|the learning rates of six steps of a run, by the formulas of deepspeed/runtime/lr_schedules.py
    while IFS='|' read -r type params want; do
        printf '{"optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, "scheduler": {"type": "%s", "params": {%s}}}' \
            "$type" "$params" >"$out/rates.json"
        "$yoke" train --model mlp --model-config hidden=8 --data "idx:$out/images" --global-batch 8 --max-steps 6 --logging-steps 1 \
            --deepspeed "$out/rates.json" --overwrite-output-dir --output-dir "$out/rates" >"$out/shown" 2>"$out/err"
        got=$(cat "$out/shown" "$out/err" | sed -n 's|^step [1-6]/6 .* lr \([^ ]*\) .*|\1|p' | tr '\n' ' ')
        [ "$got" = "$want " ] && continue
        echo "$type, $params: expected $want, got $got"
        cat "$out/shown" "$out/err"
        return 1
    done <<T
WarmupLR|"warmup_min_lr": 0.001, "warmup_max_lr": 0.01, "warmup_num_steps": 4, "warmup_type": "linear"\
|0.001 0.00325 0.0055 0.00775 0.01 0.01
WarmupLR|"warmup_min_lr": 0, "warmup_max_lr": 0.01, "warmup_num_steps": 4|0 0.005 0.00792 0.01 0.01 0.01
WarmupDecayLR|"total_num_steps": 6, "warmup_max_lr": 0.01, "warmup_num_steps": 2, "warmup_type": "linear"|0 0.005 0.01 0.0075 0.005 0.0025
WarmupCosineLR|"total_num_steps": 6, "cos_min_ratio": 0, "warmup_num_steps": 2, "warmup_type": "linear"|0 0.005 0.00854 0.005 0.00146 0
LRRangeTest|"lr_range_test_min_lr": 0.001, "lr_range_test_step_size": 2|0.0015 0.002 0.0025 0.003 0.0035 0.004
LRRangeTest|"lr_range_test_min_lr": 0.001, "lr_range_test_step_size": 2, "lr_range_test_staircase": true|0.001 0.002 0.002 0.003 0.003 0.004
OneCycle|"cycle_min_lr": 0.001, "cycle_max_lr": 0.01, "cycle_first_step_size": 2, "decay_step_size": 1, "decay_lr_rate": 1\
|0.0055 0.01 0.0055 0.001 0.0005 0.000333
T
}
ok "a run of a DeepSpeed file has the learning rates of DeepSpeed's schedule" rates

cycles() { # OPTIMIZER|MORE OF THE SCHEDULE|TYPED|what the run has, or refuses
    while IFS='|' read -r optimizer more typed want; do
        printf '{"optimizer": %s, "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0%s}}}' "$optimizer" "$more" \
            >"$out/cycle.json"
        # shellcheck disable=SC2086
        dry "$(case $want in *:*) echo 2 ;; *) echo 0 ;; esac)" --deepspeed "$out/cycle.json" --max-steps 9 $typed || return 1
        case "$(made) $(cat "$out/err")" in
        *"$want"*) continue ;;
        esac
        echo "$optimizer $more $typed: expected $want, got $(made)"
        cat "$out/err"
        return 1
    done <<'T'
{"type": "SGD", "params": {"momentum": 0.5}}|||of SGD as it is: expected cycle_min_mom and cycle_max_mom 0.5
{"type": "SGD"}|, "cycle_min_mom": 0, "cycle_max_mom": 0.9||as it is: expected cycle_min_mom and cycle_max_mom 0, its
{"type": "SGD", "params": {"momentum": 0.5}}|, "cycle_min_mom": 0.5, "cycle_max_mom": 0.5||momentum 0.5 optim sgd
{"type": "SGD"}|, "cycle_min_mom": 0.5, "cycle_max_mom": 0.5|--momentum 0.5|optim sgd
{"type": "SGD"}|, "cycle_min_mom": 0.5, "cycle_max_mom": 0.5, "decay_mom_rate": 1|--momentum 0.5|scheduler.type: DeepSpeed's OneCycle leaves
{"type": "Adam"}|||adam-beta2 0.99 learning-rate
{"type": "Adam", "params": {"betas": [0.8, 0.99]}}|||adam-beta2 0.99 learning-rate
{"type": "Adam", "params": {"betas": [0.8, 0.999]}}|||params.betas: DeepSpeed's OneCycle has 0.99 for the second
{"type": "Adam", "params": {"betas": [0.8, 0.999]}}||--adam-beta2 0.999|optim adamw
T
}
ok "OneCycle of DeepSpeed has the second beta 0.99 for Adam, and no momentum for SGD" cycles

ranks() { # processors of a file count as ranks in the batch of another
    [ -n "$yaml" ] || return 0
    printf 'distributed_type: MULTI_CPU\nnum_processes: 2\n' >"$out/two.yaml"
    printf '{"train_batch_size": 16, "train_micro_batch_size_per_gpu": 4}' >"$out/batch.json"
    (
        unset YOKE_DEVICES
        dry 0 --config-file "$out/two.yaml" --deepspeed "$out/batch.json"
    ) && [ "$(made)" = "global-batch 8 gradient-accumulation-steps 2 " ] || { made; return 1; }
    printf 'distributed_type: MULTI_CPU\nnum_processes: 40\n' >"$out/forty.yaml" # more than there are cores
    (
        unset YOKE_DEVICES
        dry 0 --config-file "$out/forty.yaml" --deepspeed '{"train_batch_size": 160, "train_micro_batch_size_per_gpu": 4}'
    ) && [ "$(made)" = "global-batch 160 gradient-accumulation-steps 1 " ] || { made; return 1; }
    printf '{"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2}' >"$out/batch.json"
    printf 'distributed_type: DEEPSPEED\nnum_processes: 4\ndeepspeed_config:\n  deepspeed_config_file: %s\n' "$out/batch.json" \
        >"$out/four.yaml"
    YOKE_DEVICES=cpu/2 dry 0 --config-file "$out/four.yaml" && # devices that count take the place of the file's number
        [ "$(made)" = "global-batch 4 gradient-accumulation-steps 4 " ] || { made; return 1; }
    "$yoke" config --dry-run --config-file "$out/four.yaml" >"$out/shown" && # nobody counts: the file's number
        grep -q -e '--gradient-accumulation-steps 2$' "$out/shown" || { cat "$out/shown"; return 1; }
    printf '{"train_batch_size": 16, "train_micro_batch_size_per_gpu": 8}' >"$out/batch.json"
    for of in '-n 2' '--nproc-per-node 2'; do
        # shellcheck disable=SC2086
        "$yoke" launch --dry-run $of --config-file "$out/four.yaml" -- "$yoke" train >"$out/shown" 2>"$out/err" ||
            { echo "$of"; cat "$out/shown" "$out/err"; return 1; }
    done
}
ok "ranks of a file in the batch of another" ranks

types() { # lines of Accelerate's YAML, with ; between|a line of the dry run
    [ -n "$yaml" ] || return 0
    while IFS='|' read -r type text want; do
        case $type in
        DEEPSPEED) text="deepspeed_config:;   $text" ;;
        esac
        printf 'distributed_type: %s; %s\n' "$type" "$text" | sed 's/; /\n/g' >"$out/type.yaml"
        "$yoke" config --dry-run --config-file "$out/type.yaml" >"$out/shown" 2>"$out/err"
        code=$?
        [ $code = 0 ] && grep -q -e "$want" "$out/shown" && continue
        echo "$type, $text: expected $want, got code $code"
        cat "$out/shown" "$out/err"
        return 1
    done <<'T'
DEEPSPEED|zero_stage: 2;   offload_param_device: cpu|offload_param_device: cpu: not needed: DeepSpeed reads it in stage 3
DEEPSPEED|zero_stage: 2;   offload_param_device: cpu;   offload_optimizer_device: cpu|yoke train: --offload state=host$
DEEPSPEED|zero_stage: 0;   offload_optimizer_device: cpu|offload_optimizer_device: cpu: not needed: DeepSpeed reads it
DEEPSPEED|zero_stage: 3;   offload_param_device: cpu|yoke train: --offload params=host$
DEEPSPEED|zero_stage: 2;   offload_param_device: nvme|offload_param_device: nvme: not needed: DeepSpeed reads it in stage 3
DEEPSPEED|gradient_clipping: 1|yoke train: --shard gradients
DEEPSPEED|deepspeed_hostfile: ''|deepspeed_hostfile: : not needed: nothing is set
MULTI_NPU|num_processes: 2; gpu_ids: 0,1|gpu_ids: 0,1: not needed: distributed_type has no CUDA cards
MULTI_GPU|num_processes: 2; gpu_ids: 0,1|yoke launch: --devices cuda:0 cuda:1
MULTI_GPU|num_machines: 2; main_process_ip: a; deepspeed_config:;   deepspeed_hostfile: h|h: not needed: distributed_type is another
MULTI_GPU|fp8_config:;   amax_history_length: 1024|fp8_config.amax_history_length: 1024: not needed
MULTI_GPU|downcast_bf16: true; tpu_use_sudo: true|downcast_bf16: true: not needed: of TPUs alone
MULTI_CPU|num_processes: 2; mpirun_config:;   mpirun_hostfile: h|mpirun_hostfile: h: not needed: one host
MULTI_CPU|num_processes: 4; num_machines: 2; mpirun_config:;   mpirun_hostfile: h|yoke launch: --num-processes 4
MULTI_CPU|num_machines: 2; main_process_port: 9; mpirun_config:;   mpirun_hostfile: h|main_process_port: 9: not needed: the host file
T
}
ok "what distributed_type and the stage leave out in Accelerate's files" types

disks() { # device nvme without its folder, in each format and stage: refused where the stage reads it, else not needed, by the key's name
    for of in 0optimizer 1optimizer 2optimizer 3optimizer 0param 1param 2param 3param; do
        stage=${of%"${of#?}"} what=${of#?}
        case $of in 0* | 1param | 2param) end=0 fate='not needed' ;; *) end=2 fate=refused ;; esac
        printf '{"zero_optimization": {"stage": %s, "offload_%s": {"device": "nvme"}}}' "$stage" "$what" >"$out/disk.json"
        printf 'distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: %s\n  offload_%s_device: nvme\n' "$stage" "$what" \
            >"$out/disk.yaml"
        for form in "json offload_$what.device" ${yaml:+"yaml offload_${what}_device"}; do
            "$yoke" config --dry-run --config-file "$out/disk.${form% *}" >"$out/shown" 2>"$out/err"
            code=$?
            said=$(grep -c "${form#* }: nvme needs .*nvme_path, its folder" "$out/err")
            [ $code = $end ] && [ "$said" = $((end / 2)) ] && grep -q "${form#* }: nvme: $fate" "$out/shown" && continue
            echo "$form, stage $stage: expected $fate, got code $code"
            cat "$out/shown" "$out/err"
            return 1
        done
    done
}
ok "device nvme without its folder" disks

lists() { # TYPE|MORE LINES|what yoke launch gets of a host file whose lines have 4 slots each: as many ranks a host as Accelerate starts
    [ -n "$yaml" ] || return 0
    printf 'localhost slots=4\n127.0.0.1 slots=4\n' >"$out/list"
    while IFS='|' read -r type text want; do
        printf 'distributed_type: %s; num_machines: 2; %s\n' "$type" "$text" | sed "s/; /\n/g; s|LIST|$out/list|" >"$out/list.yaml"
        "$yoke" config --dry-run --config-file "$out/list.yaml" >"$out/shown" 2>"$out/err"
        code=$?
        got=$(sed -n 's/^yoke launch: --//p' "$out/shown" | grep -v '^devices' | sed "s|$out/||" | sort | tr '\n' ' ')
        [ $code = 0 ] && [ "$got" = "$want " ] && continue
        echo "$type, $text: expected $want, got code $code, $got"
        cat "$out/shown" "$out/err"
        return 1
    done <<T
MULTI_CPU|num_processes: 4; mpirun_config:;   mpirun_hostfile: LIST|hostfile list nproc-per-node 2 num-processes 4
MULTI_CPU|mpirun_config:;   mpirun_hostfile: LIST|hostfile list nproc-per-node 1 num-processes 2
DEEPSPEED|num_processes: 4; main_process_ip: a; deepspeed_config:;   deepspeed_hostfile: LIST\
|hostfile list nproc-per-node 2 num-processes 4
DEEPSPEED|num_processes: 4; deepspeed_config:;   deepspeed_multinode_launcher: pdsh;   deepspeed_hostfile: LIST\
|hostfile list nproc-per-node 2 num-processes 4
DEEPSPEED|num_processes: 4; main_process_ip: a; deepspeed_config:;   deepspeed_multinode_launcher: standard;   deepspeed_hostfile: LIST\
|master-addr a nnodes 2 num-processes 4
T
    grep -q 'deepspeed_hostfile: .*: not needed: this launcher' "$out/shown" || { cat "$out/shown"; return 1; }
    printf 'distributed_type: MULTI_CPU\nnum_machines: 2\nnum_processes: 4\nmpirun_config:\n  mpirun_hostfile: %s\n' "$out/list" \
        >"$out/list.yaml"
    for lines in 'localhost slots=4' 'localhost slots=4\n127.0.0.1 slots=1'; do
        # shellcheck disable=SC2059
        printf "$lines\n" >"$out/list"
        YOKE_LAUNCHER=none "$yoke" launch --dry-run --ssh false --config-file "$out/list.yaml" true >"$out/shown" 2>"$out/err"
        code=$?
        [ $code = 2 ] && grep -q -e '--nproc-per-node 2.*list.yaml, line 2: num_machines' "$out/err" && continue
        echo "$lines: code $code"
        cat "$out/shown" "$out/err"
        return 1
    done
}
ok "ranks of a host of Accelerate's files" lists

named() { # deepspeed_config_file: as Accelerate finds it, and with the precision that counts there
    [ -n "$yaml" ] || return 0
    mkdir -p "$out/here/configs"
    (
        cd "$out/here" || exit 1
        printf '{"gradient_clipping": 0.25, "fp16": {"enabled": true}}' >configs/ds.json
        for precision in '' 'mixed_precision: "no"\n' 'mixed_precision: fp16\n'; do
            # shellcheck disable=SC2059
            printf "distributed_type: DEEPSPEED\n${precision}deepspeed_config:\n  deepspeed_config_file: ds.json\n" >configs/a.yaml
            rm -f ds.json
            "$yoke" config --dry-run --config-file configs/a.yaml >"$out/shown" 2>"$out/err" &&
                grep -qx 'yoke train: --max-grad-norm 0.25' "$out/shown" && grep -qx 'yoke train: --precision fp16' "$out/shown" &&
                printf '{"gradient_clipping": 0.5}' >ds.json &&
                "$yoke" config --dry-run --config-file configs/a.yaml >"$out/shown" 2>"$out/err" &&
                grep -qx 'yoke train: --max-grad-norm 0.5' "$out/shown" || { cat "$out/shown" "$out/err"; exit 1; }
        done
        printf 'distributed_type: DEEPSPEED\nmixed_precision: bf16\ndeepspeed_config:\n  deepspeed_config_file: configs/ds.json\n' >b.yaml
        "$yoke" config --dry-run --config-file b.yaml >"$out/shown" 2>"$out/err"
        [ $? = 2 ] && grep -q 'fp16.enabled: --precision would be fp16, and b.yaml, line 2 makes it bf16' "$out/err" || exit 1
    )
}
ok "a deepspeed_config_file is found as Accelerate finds it, and has the precision unless both name one" named

alike() { # one number in two spellings, and a switch that is off where it has no effect
    dry 0 --deepspeed '{}' --group_by_length False && dry 0 --deepspeed '{}' --no-decay-all &&
        dry 2 --deepspeed '{}' --group_by_length True && dry 0 --deepspeed '{}' --lr 1e-3 --learning-rate 0.001 &&
        dry 2 --deepspeed '{}' --lr 1e-3 --learning-rate 0.002 || return 1
    dry 0 --deepspeed '{}' --half_precision_backend auto --fp16_backend auto --past_index -1 --ray_scope last --log_level passive \
        --hub_strategy every_save --length_column_name length --mp_parameters "" --optim_args= \
        --fp16_opt_level O1 --project huggingface --trackio_space_id trackio &&
        dry 2 --deepspeed '{}' --half_precision_backend apex --past_index 2 --log_level error &&
        grep -q 'half_precision_backend: there' "$out/err" && grep -q 'past_index: there' "$out/err" && grep -q log_level: "$out/err" ||
        return 1
    printf '{"gradient_clipping": 1.0}' >"$out/clip.json"
    dry 0 --deepspeed "$out/clip.json" --config-file "$out/clip.json" || return 1
    [ -z "$yaml" ] || {
        printf 'yoke: 1\ntrain:\n  tf32: false\n  half_precision_backend: auto\n  group_by_length: false\n  max-grad-norm: 1\n' \
            >"$out/clip.yaml"
        dry 0 --deepspeed "$out/clip.json" --config-file "$out/clip.yaml" || return 1
    }
    printf 'text,label\na,0\nb,1\n' >"$out/rows.csv"
    for length in 016 17; do
        "$yoke" train --dry-run --deepspeed '{}' --model bert --data "csv:$out/rows.csv,text=text,label=label,max-length=16" \
            --tokenizer char --output-dir "$out/never" --max-length $length >"$out/shown" 2>"$out/err"
        [ $? = "$(case $length in 17) echo 2 ;; *) echo 0 ;; esac)" ] || { echo "$length"; cat "$out/err"; return 1; }
    done
}
ok "numbers are compared as numbers; a switch that is off and the default of another program ask for nothing" alike
plan
