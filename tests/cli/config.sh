#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Files of settings: real ones of Accelerate and DeepSpeed, and ones with a fault, end as their tables say; a file trains the bits of the
# same options; what is not built is refused by name; yoke config writes what the commands read.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
export YOKE_DEVICES=cpu:0
small_images "$out/images"
yaml=yes
printf 'yoke: 1\n' >"$out/empty.yaml"
"$yoke" config --dry-run --config-file "$out/empty.yaml" >/dev/null 2>&1 || yaml= # a build without libyaml reads JSON alone

shown() { # shown FILE: what becomes of it; $code, $out/shown and $out/err
    "$yoke" config --dry-run --config-file "$1" >"$out/shown" 2>"$out/err"
    code=$?
}

real() { # each file of configs; of those that are refused each key that the note names has a line
    tail -n +2 "$data/configs/index.tsv" >"$out/index"
    while IFS='	' read -r file _ expect note; do
        [ -n "$yaml" ] || case $file in *.json) ;; *) continue ;; esac
        shown "$data/configs/$file"
        case $expect/$code in
        take/0 | either/[02]) ;;
        refuse/2)
            for key in $(echo "$note" | grep -oE '[a-z]+_[a-z_]+[a-z]|eigenvalue|compile' | grep -v deepspeed_config_file); do
                case $file in *sagemaker*) continue ;; esac # its key 'debug' stands twice
                grep -q "line [0-9]*: .*$key" "$out/err" || { echo "$file: no line for $key"; cat "$out/err"; return 1; }
            done
            ;;
        *) echo "$file: exit code $code, expected: $expect"; cat "$out/err"; return 1 ;;
        esac
        [ "$code" = 2 ] || ! grep -q ': refused' "$out/shown" || { echo "$file: taken with a refused key"; return 1; }
    done <"$out/index"
}

hosts() { # hosts FILE: read as a host file; no host is reached
    YOKE_LAUNCHER=none "$yoke" launch --dry-run --ssh false --hostfile "$data/configs-bad/$1" true >"$out/shown" 2>"$out/err"
    code=$?
}

faulty() { # each file of configs-bad
    tail -n +2 "$data/configs-bad/index.tsv" >"$out/index"
    while IFS='	' read -r file expect _; do
        case $file in
        hostfile-ok.txt)
            hosts "$file"
            grep -q 'node-[ab] cannot be reached' "$out/err" || { cat "$out/err"; return 1; }
            continue ;;
        hostfile*) hosts "$file" ;;
        *.yaml) [ -n "$yaml" ] || continue
            shown "$data/configs-bad/$file" ;;
        *) shown "$data/configs-bad/$file" ;;
        esac
        case $expect/$code in
        accept/0 | either/[02]) ;;
        reject/2) grep -q "$file" "$out/err" || { echo "$file: not named"; cat "$out/err"; return 1; } ;;
        *) echo "$file: exit code $code, expected: $expect"; cat "$out/err"; return 1 ;;
        esac
    done <"$out/index"
}
[ -e "$data/configs" ] && ok "real files of Accelerate and DeepSpeed are taken or refused as their table says" real
[ -e "$data/configs-bad" ] && ok "files with a fault are refused, and named" faulty

cat >"$out/ds.json" <<'J'
{"train_batch_size": 64, "gradient_accumulation_steps": 2, "gradient_clipping": 0.5,
 "optimizer": {"type": "Adam", "params": {"lr": "auto", "betas": [0.8, 0.99], "eps": 1e-7, "weight_decay": 0.01}},
 "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 1e-5, "warmup_max_lr": 2e-3,
  "warmup_num_steps": 7, "warmup_type": "linear"}},
 "fp16": {"enabled": true, "initial_scale_power": 10, "loss_scale_window": 5, "hysteresis": 1, "min_loss_scale": 2},
 "zero_optimization": {"stage": 1, "overlap_comm": true}}
J
unbuilt() { # unbuilt WORDS ARGUMENTS..: a value of a file that only the command can refuse
    words=$1
    shift
    "$yoke" train --model mlp --data "idx:$out/images" --output-dir "$out/m" "$@" >"$out/stdout" 2>"$out/err"
    code=$?
    cat "$out/err"
    [ $code = 2 ] && grep -qF -e "$words" "$out/err"
}
printf '{"train_micro_batch_size_per_gpu": 4,\n "zero_optimization":\n {"stage": 3, %s}}\n' \
    '"offload_param": {"device": "nvme", "nvme_path": "/d"}' >"$out/three.json"
for option in --config-file --deepspeed; do
    ok "parameters on a disk name their file, line and key ($option)" unbuilt \
        "[--offload: $out/three.json, line 2: zero_optimization]" $option "$out/three.json"
done
ok "and so in the text of an option" unbuilt "[--offload: --deepspeed, line 1: zero_optimization]" \
    --deepspeed '{"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/d"}}}'
ok "and of FSDP" unbuilt "[--keep-whole-params: --fsdp-config, line 1: ignored_modules]" \
    --fsdp-config '{"reshard_after_forward": "full_shard", "ignored_modules": "norm"}'
ok "words of an option" unbuilt "[--offload: --fsdp" --fsdp "no_shard offload"
printf '{"zero_optimization": {"stage": 1,\n "offload_optimizer": {"device": "nvme", "nvme_path": "/d", "ratio": 0.5}}}\n' >"$out/off.json"
ok "a place that is not built" unbuilt "[--offload: $out/off.json, line 1: zero_optimization]" --deepspeed "$out/off.json"
typed() { # an option that is typed is of no file
    ! unbuilt "[--offload:" --offload params=nvme:/e --deepspeed "$out/three.json" && [ $code = 2 ] &&
        grep -q "^yoke train: --offload params=nvme:/e" "$out/err"
}
ok "what is typed names no file" typed
plain() { # plain DIR ARGUMENTS...
    to=$1
    shift
    "$yoke" train --model mlp --model-config hidden=32 --data "idx:$out/images" --max-steps 8 --output-dir "$to" \
        --learning-rate 2e-3 --json "$@" >"$out/stdout" 2>"$out/err" || { cat "$out/err"; return 1; }
    grep -o '"param_hash": "[0-9a-f]*"' "$out/stdout"
}
same() { # DeepSpeed's file as options; AdamW, as DeepSpeed's Adam is
    want=$(plain "$out/a" --global-batch 32 --gradient-accumulation-steps 2 --max-grad-norm 0.5 --optim adamw \
        --adam-beta1 0.8 --adam-beta2 0.99 --adam-epsilon 1e-7 --weight-decay 0.01 --lr-scheduler-type WarmupLR \
        --lr-scheduler-kwargs warmup_min_lr=1e-5,warmup_max_lr=2e-3,warmup_num_steps=7,warmup_type=linear --precision fp16 \
        --loss-scaling rule=deepspeed,init=1024,interval=5,hysteresis=1,floor=2 --shard zero1) || { echo "$want"; return 1; }
    for form in "--config-file $out/ds.json" "--deepspeed --deepspeed_config $out/ds.json --local_rank=0"\
        "--deepspeed=$out/ds.json"; do
        # shellcheck disable=SC2086
        got=$(plain "$out/b" --overwrite-output-dir $form) && [ "$got" = "$want" ] || { echo "$form: $got, expected $want"; return 1; }
        grep -q 'not needed here: zero_optimization.overlap_comm' "$out/err" || { cat "$out/err"; return 1; }
    done
    got=$(YOKE_CONFIG_FILE=$out/ds.json plain "$out/b" --overwrite-output-dir) && [ "$got" = "$want" ] ||
        { echo "variable: $got"; return 1; }
    got=$(plain "$out/b" --overwrite-output-dir --config-file "$out/ds.json" --adam_epsilon 1e-3) && [ "$got" != "$want" ] || return 1
    grep -q "the command line takes the place of --adam-epsilon of $out/ds.json, line 2" "$out/err"
}
ok "a file trains the bits of the same options" same

rates() { # rates ARGUMENTS..: the learning rates of four steps
    "$yoke" train --model mlp --model-config hidden=8 --data "idx:$out/images" --global-batch 32 --max-steps 4 --logging-steps 1 \
        --eval-strategy no --learning-rate 2e-3 --output-dir "$out/w" --overwrite-output-dir --log "$out/w.log" "$@" \
        >"$out/stdout" 2>"$out/err" || { cat "$out/err"; return 1; }
    grep -o '"lr": [0-9.e-]*' "$out/w.log" | head -n 4 | tr '\n' ' '
}
warmups() { # auto is the command's own number or 0, which DeepSpeed makes 2; a typed number takes the file's place
    for t in WarmupLR WarmupDecayLR WarmupCosineLR; do
        printf '{"scheduler": {"type": "%s", "params": {"warmup_num_steps": "auto", "total_num_steps": "auto", "warmup_max_lr": "auto"}}}' \
            $t >"$out/w.json"
        for k in 0 3; do
            want=$(rates --lr-scheduler-type $t --lr-scheduler-kwargs warmup_num_steps=$k) && [ -n "$want" ] || { echo "$want"; return 1; }
            got=$(rates --deepspeed "$out/w.json" --warmup-steps $k) && [ "$got" = "$want" ] ||
                { echo "$t $k: $got, expected $want"; return 1; }
            [ $k = 3 ] || got=$(rates --deepspeed "$out/w.json") && [ "$got" = "$want" ] ||
                { echo "$t: $got, expected $want"; return 1; }
            sed -i 's/"warmup_num_steps": "auto"/"warmup_num_steps": 4/' "$out/w.json"
        done
    done
}
ok "the warm-up of DeepSpeed's schedules" warmups

made() { # made FILE WANT...: the options that a file becomes
    file=$1
    shift
    shown "$file"
    [ "$code" = 0 ] || { cat "$out/err"; return 1; }
    for want; do
        grep -q -x -e "$want" "$out/shown" || { echo "$file: no $want"; cat "$out/shown"; return 1; }
    done
}
beside() { # beside CODE ARGUMENTS..: yoke train --dry-run of files beside other files and what is typed
    want=$1
    shift
    "$yoke" train --dry-run --model mlp --data "idx:$out/images" --output-dir "$out/never" "$@" >"$out/shown" 2>"$out/err"
    code=$?
    [ $code = "$want" ] || { echo "$*: $code"; cat "$out/shown" "$out/err"; return 1; }
}
has() { # has OPTION..: a file made it
    for want; do
        grep -qx -e "yoke train: $want" "$out/shown" || { echo "no $want"; cat "$out/shown" "$out/err"; return 1; }
    done
}
absent() { # a key that is not there has DeepSpeed's number; where that differs by version, a line says which one holds
    printf '{"optimizer": {"type": "SGD"}, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 5}}}' >"$out/absent.json"
    made "$out/absent.json" 'yoke train: --learning-rate 0.001' 'yoke train: --momentum 0' \
        'yoke train: --lr-scheduler-kwargs warmup_max_lr=0.001' || return 1
    printf '{"optimizer": {"type": "SGD", "params": {"lr": "auto"}}, "scheduler": {"type": "WarmupDecayLR", "params": %s}}' \
        '{"warmup_max_lr": "auto"}' >"$out/auto.json"
    made "$out/auto.json" 'yoke train: --optim sgd' && ! grep -q -e --learning-rate -e 0.001 "$out/shown" || { cat "$out/shown"; return 1; }
    "$yoke" train --dry-run --deepspeed "$out/absent.json" --learning-rate 2e-3 >"$out/shown" 2>"$out/err" &&
        ! grep -q warmup_max_lr "$out/shown" || { cat "$out/shown"; return 1; }
    line='has no gradient_clipping: gradients are clipped at norm 1'
    rates --deepspeed "$out/auto.json" >"$out/said" && grep -q "auto.json $line" "$out/err" || { cat "$out/said" "$out/err"; return 1; }
    rates --deepspeed "$out/auto.json" --max-grad-norm 1 >"$out/said" && ! grep "$line" "$out/err" &&
        rates --deepspeed '{"gradient_clipping": "auto"}' >"$out/said" && ! grep "$line" "$out/err" || { cat "$out/said"; return 1; }
}
ok "absent keys of a DeepSpeed file have its defaults" absent

presets() { # the number of an absent key gives way, without a word, to what is typed and to what another file says
    printf '{"optimizer": {"type": "SGD"}, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}}, %s}' \
        '"fp16": {"enabled": true}, "gradient_clipping": 1' >"$out/preset.json"
    made "$out/preset.json" 'yoke train: --learning-rate 0.001' 'yoke train: --momentum 0' 'yoke train: --warmup-steps 0' \
        'yoke train: --loss-scaling rule=deepspeed,.*' 'yoke train: --lr-scheduler-kwargs warmup_max_lr=0.001' || return 1
    beside 0 --deepspeed "$out/preset.json" --learning-rate 3e-4 --momentum 0.5 --warmup-steps 7 --loss-scaling fixed=8 &&
        ! grep -e 'takes the place' -e 'not needed' "$out/shown" "$out/err" || return 1
    beside 2 --deepspeed "$out/preset.json" --learning-rate -1 && ! grep 'preset.json.*learning-rate' "$out/err" || return 1
    printf '{"optimizer": {"type": "SGD", "params": {"lr": 3e-4, "momentum": 0.9}}, "scheduler": {"type": "WarmupLR", "params": %s}, %s}' \
        '{"warmup_num_steps": 7, "warmup_max_lr": 1}' '"fp16": {"enabled": true, "loss_scale": 8}' >"$out/says.json"
    for files in "--config-file $out/preset.json --deepspeed $out/says.json" "--config-file $out/says.json --deepspeed $out/preset.json"; do
        # shellcheck disable=SC2086
        beside 0 $files && has '--learning-rate 3e-4' '--momentum 0.9' '--warmup-steps 7' '--loss-scaling fixed=8' \
            '--lr-scheduler-kwargs warmup_max_lr=1' || return 1
    done
    warm='"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 3'
    printf '{"optimizer": {"type": "SGD"}, %s}}}' "$warm" >"$out/warm.json"
    printf '{"optimizer": {"type": "SGD"}, %s, "warmup_type": "linear"}}}' "$warm" >"$out/linear.json"
    printf '{"optimizer": {"type": "SGD", "params": {"lr": 0.1}}, "gradient_clipping": 2}' >"$out/rate.json"
    printf '{"optimizer": {"type": "SGD", "params": {"lr": 0.1}}, %s}}}' "$warm" >"$out/both.json"
    while IFS='|' read -r one two rate most; do # each order: another file's rate holds, and that of a file of such a warm-up does not
        for files in "--config-file $out/$one --deepspeed $out/$two" "--config-file $out/$two --deepspeed $out/$one"; do
            # shellcheck disable=SC2086
            beside 0 $files && has "--learning-rate $rate" || return 1
            got=$(sed -n 's/^yoke train: --lr-scheduler-kwargs //p' "$out/shown")
            [ "$got" = "$most" ] || { echo "$files: $got, expected $most"; return 1; }
            # shellcheck disable=SC2086
            rates $files >"$out/said" || { cat "$out/said" "$out/err"; return 1; }
            case "$one$two" in *rate.json*) ! grep 'has no gradient_clipping' "$out/err" || return 1 ;; esac
        done
    done <<'T'
warm.json|rate.json|0.1|
linear.json|rate.json|0.1|warmup_type=linear
both.json|rate.json|0.1|
warm.json|both.json|0.1|warmup_max_lr=0.001
linear.json|both.json|0.1|warmup_type=linear,warmup_max_lr=0.001
both.json|both.json|0.1|warmup_max_lr=0.001
warm.json|linear.json|0.001|warmup_type=linear,warmup_max_lr=0.001
T
    [ -n "$yaml" ] || return 0
    printf 'yoke: 1\ntrain:\n  warmup-ratio: 0.5\n' >"$out/ratio.yaml"
    beside 0 --config-file "$out/ratio.yaml" --deepspeed "$out/preset.json" && has '--warmup-ratio 0.5' || return 1
    printf 'yoke: 1\ntrain:\n  learning-rate: 3e-4\n  momentum: 0.5\n  loss-scaling: fixed=8\n  warmup-steps: 7\n' >"$out/says.yaml"
    beside 0 --config-file "$out/says.yaml" --deepspeed "$out/preset.json" &&
        has '--learning-rate 3e-4' '--momentum 0.5' '--loss-scaling fixed=8' '--warmup-steps 7' && ! grep warmup_max_lr "$out/shown"
}
ok "the number of an absent key gives way to one that is said" presets

belongings() { # settings of the file that belong to a value of it that the command line replaces
    while IFS='|' read -r file typed dropped kept; do
        # shellcheck disable=SC2086
        beside 0 --deepspeed "$file" $typed || return 1
        for key in $dropped; do
            grep -q "$key: .*: not needed: the command line's .* has no use for" "$out/shown" ||
                { echo "$typed: $key"; cat "$out/shown"; return 1; }
        done
        for key in $kept; do
            grep -q "$key: .*: \(honoured\|mapped\)" "$out/shown" || { echo "$typed: $key"; cat "$out/shown"; return 1; }
        done
        [ -n "$dropped" ] || ! grep 'has no use for' "$out/shown" "$out/err" || return 1
    done <<'T'
{"scheduler":{"type":"WarmupLR","params":{"warmup_num_steps":10}}}|--lr-scheduler-type linear||warmup_num_steps
{"scheduler":{"type":"WarmupLR","params":{"warmup_max_lr":1,"warmup_type":"log"}}}|--lr-scheduler-type linear|max_lr warmup_type|
{"scheduler":{"type":"WarmupLR","params":{"warmup_max_lr":1}}}|--lr-scheduler-type WarmupLR||warmup_max_lr
{"optimizer":{"type":"AdamW","params":{"lr":1,"betas":[0.9,0.99],"eps":1e-8}}}|--optim sgd|betas eps|lr
{"optimizer":{"type":"AdamW","params":{"lr":1,"betas":[0.9,0.99],"eps":1e-8}}}|--optim adam||betas eps lr
{"optimizer":{"type":"SGD","params":{"momentum":0.5}}}|--optim adamw_torch|momentum|
{"optimizer":{"type":"SGD"}}|--optim adamw||
{"fp16":{"enabled":true,"loss_scale":8}}|--precision bf16|loss_scale|
{"fp16":{"enabled":true}}|--bf16||
{"fp16":{"enabled":true,"loss_scale":8}}|--fp16||loss_scale
{"fp16":{"enabled":true,"loss_scale":8}}|--bf16 False --fp16 True||loss_scale
{"fp16":{"enabled":true,"loss_scale":8}}|--fp16 --bf16=false||loss_scale
{"fp16":{"enabled":true,"loss_scale":8}}|--bf16 --fp16 False|loss_scale|
{"fp16":{"enabled":true,"loss_scale":8}}|--bf16 False||enabled loss_scale
{"fp16":{"enabled":true,"loss_scale":8}}|--no-bf16||enabled loss_scale
{"fp16":{"enabled":true,"loss_scale":8}}|--fp16 false|loss_scale|
{"fp16":{"enabled":true,"loss_scale":8}}|--no_fp16|loss_scale|
{"fp16":{"enabled":true}}|--fp16 false||
{"fp16":{"enabled":true,"loss_scale":8}}|--precision fp16,fp32||loss_scale
{"fp16":{"enabled":true,"loss_scale":8}}|--precision fp32,half||loss_scale
{"fp16":{"enabled":true,"loss_scale":8}}|--precision fp32,bf16|loss_scale|
{"fp16":{"enabled":true,"loss_scale":8}}|--precision 16-mixed||loss_scale
{"fp16":{"enabled":true,"loss_scale":8}}|--torch_dtype torch.float16||loss_scale
{"fp16":{"enabled":true,"loss_scale":8}}|--mixed-precision no|loss_scale|
{"fp16":{"enabled":true,"loss_scale":8}}|--amp||loss_scale
{"fp16":{"enabled":true,"loss_scale":8}}|--native-amp=True||loss_scale
{"fp16":{"enabled":true,"loss_scale":8}}|--amp false||enabled loss_scale
{"zero_optimization":{"stage":3,"param_persistence_threshold":5,"zero_hpz_partition_size":2}}|--shard zero2|threshold partition_size|
{"zero_optimization":{"stage":3,"param_persistence_threshold":5}}|--shard FULL_SHARD||threshold
{"tensorboard":{"enabled":true,"output_path":"a","job_name":"x"}}|--report-to none|output_path job_name|
{"tensorboard":{"enabled":true,"output_path":"a","job_name":"x"}}|--report-to none,jsonl||output_path job_name
T
    beside 0 --fsdp-config '{"sharding_strategy": "SHARD_GRAD_OP"}' --shard zero2 || return 1
    while IFS='|' read -r typed scale; do # which a checkpoint has
        # shellcheck disable=SC2086
        plain "$out/b" --overwrite-output-dir --max-steps 1 --save-strategy steps --save-steps 1 $typed \
            --deepspeed '{"fp16":{"enabled":true,"loss_scale":8}}' >"$out/said" || { cat "$out/said"; return 1; }
        got=$(sed -n 's/^ *"scale": \([0-9.]*\).*/\1/p' "$out/b/checkpoint-1/trainer_state.json")
        [ "$got" = "$scale" ] || { echo "$typed: scale $got"; cat "$out/err"; return 1; }
    done <<'T'
--bf16 False|8.0
--bf16 False --fp16 True|8.0
--amp|8.0
--fp16 False|
T
    [ -n "$yaml" ] || return 0
    printf 'yoke: 1\ntrain:\n  batch-size: 4\n  mixed_precision: fp16\n' >"$out/half.yaml" # names of other programs, with a line each
    beside 0 --config-file "$out/half.yaml" && ! grep 'no effect here' "$out/err" || { cat "$out/err"; return 1; }
    for own in 'fp16: true' 'precision: half' 'mixed_precision: fp16' 'amp: true'; do
        printf 'yoke: 1\ntrain:\n  %s\n  loss-scaling: fixed=8\n' "$own" >"$out/half.yaml"
        beside 0 --config-file "$out/half.yaml" --bf16 False && ! grep -e 'has no' -e 'takes the place' "$out/err" &&
            beside 0 --config-file "$out/half.yaml" --fp16 False &&
            grep 'has no use for --loss-scaling' "$out/err" && beside 0 --config-file "$out/half.yaml" --precision bf16 &&
            grep 'has no use for --loss-scaling' "$out/err" || { echo "$own"; cat "$out/err"; return 1; }
    done
    printf 'yoke: 1\ntrain:\n  dataloader-drop-last: true\n  gradient-checkpointing: false\n' >"$out/half.yaml"
    for off in '--dataloader_drop_last False' --no-dataloader-drop-last; do
        # shellcheck disable=SC2086
        beside 0 --config-file "$out/half.yaml" $off --gradient-checkpointing &&
            [ "$(grep -c 'takes the place of --\(dataloader-drop-last\|no-gradient-checkpointing\) of' "$out/err")" = 2 ] ||
            { echo "$off"; cat "$out/err"; return 1; }
    done
}
ok "settings of a replaced value of the file go with it" belongings

stage3() { # each name of it trains, and processors say that they share one copy
    for form in "--deepspeed={\"zero_optimization\":{\"stage\":3},\"train_micro_batch_size_per_gpu\":16}" "--fsdp=full_shard auto_wrap" \
        "--sharded_ddp=zero_dp_3" "--fsdp-config={\"sharding_strategy\":\"FULL_SHARD\",\"min_num_params\":100}" "--shard=Hybrid-Shard" \
        "--shard=zero3"; do
        plain "$out/b" --overwrite-output-dir --devices "cpu:0! cpu:0!" --max-steps 1 "$form" || return 1
        grep -q 'read one copy of the parameters of their host: nothing is left to slice' "$out/err" || { cat "$out/err"; return 1; }
    done
}
ok "stage 3 by each of its names" stage3

refused() { # refused TEXT COMMAND...
    text=$1
    shift
    "$yoke" "$@" >"$out/stdout" 2>"$out/err"
    [ $? = 2 ] && grep -q -e "$text" "$out/err" || { cat "$out/err"; return 1; }
}
small="train --model mlp --data idx:$out/images --max-steps 1 --output-dir $out/none"
later() { # what has a meaning and is not built says so, by whatever name it came
    # shellcheck disable=SC2086
    refused "--shard-unit block: not built yet: a unit is a bucket" $small --shard zero3 --shard-unit block &&
        refused "--shard-unit all: not built yet: a unit is a bucket" $small --shard zero3 --shard-unit all &&
        refused "--shard-unit 1K: expected bytes, from 4096" $small --shard zero3 --shard-unit 1K &&
        refused "--shard-unit 4M and --bucket-bytes 8M: .*choose one" $small --shard zero3 --shard-unit 4M --bucket-bytes 8M &&
        refused "--keep-whole-params norm: not built yet" $small --shard params --keep-whole-params norm &&
        refused "--reduce window: not built yet: gradients in slices are summed in each micro batch" $small --shard zero2 --reduce window &&
        refused "--tied-gradients twice: not built yet" $small --shard gradients --tied-gradients twice &&
        refused "--reduce has no effect with --shard state: gradients are whole" $small --reduce micro &&
        refused "--offload state=host,params=host: each device has all parameters in this stage: --shard params" $small --fsdp \
            "no_shard offload" && refused "--offload params=host: each device has all parameters" $small --offload params=host &&
        refused "--parallel tensor=2: not built yet: ranks share the rows" $small --parallel data,tensor=2 &&
        refused "--parallel PIPE=2: not built yet: ranks share the rows" $small --parallel PIPE=2 &&
        refused "--keep-whole 0.5: expected a whole number" $small --shard params --keep-whole 0.5 &&
        refused "--prefetch-units 5000000000: expected a whole number" $small --shard params --prefetch-units 5000000000 &&
        refused "tp_size: tensor parallel is not built yet" $small --parallelism_config '{"tp_size": 2}' &&
        refused "load_from_fp32_weights: masters are loaded in f32" $small --deepspeed \
            '{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"load_from_fp32_weights": false}}' &&
        refused "split_batches: --global-batch is of all ranks" $small --accelerator_config '{"split_batches": true}' &&
        refused "--shard zero4: expected state, gradients or params: did you mean" $small --shard zero4 &&
        refused "--shard-unit has no effect with --shard state" $small --shard-unit all &&
        refused "--prefetch-units has no effect with --shard gradients: parameters are whole" $small --shard gradients --prefetch-units 2 &&
        refused "--loss-scaling has no effect but in fp16" $small --loss-scaling fixed=8
}
ok "what is not built yet is refused by name" later

written() { # what yoke config writes is read by launch and train, and shown
    HOME=$out/home YOKE_CONFIG_FILE='' "$yoke" config --use_cpu --num_processes 2 --mixed_precision bf16 \
        --gradient_accumulation_steps 2 >"$out/stdout" || return 1
    grep -q "written to $out/home/.config/yoke/config.yaml" "$out/stdout" || return 1
    HOME=$out/home "$yoke" config --devices cpu 2>"$out/err"
    [ $? = 2 ] && grep -q 'is there already' "$out/err" || return 1
    HOME=$out/home YOKE_CONFIG_FILE='' "$yoke" launch --dry-run true >"$out/shown" 2>"$out/err" &&
        [ "$(grep -c '^rank [01]: cpu' "$out/shown")" = 2 ] ||
        { cat "$out/shown" "$out/err"; return 1; }
    grep -q 'has settings of yoke train, which true makes by itself: --gradient-accumulation-steps' "$out/err" || return 1
    HOME=$out/home YOKE_CONFIG_FILE='' "$yoke" train --dry-run >"$out/shown" &&
        refused 'expected such a file (--config-file, --deepspeed)' train --dry-run --precison bf16 &&
        grep -q 'yoke train: --precision bf16' "$out/shown" || return 1
    refused "train.precison: yoke train has no such option: did you mean precision" config --dry-run --config-file "$out/wrong.yaml" &&
        refused "no terminal to ask in" config </dev/null || return 1
    for word in gpu "4 --hosts a:4"; do # what launch takes together
        # shellcheck disable=SC2086
        "$yoke" config --nproc-per-node $word --config-file "$out/word.yaml" --dry-run >"$out/shown" 2>&1 &&
            grep -q "nproc-per-node: ${word%% *}" "$out/shown" || { cat "$out/shown"; return 1; }
    done
    refused "--nproc-per-node gpu counts the devices of this host" config --nproc-per-node gpu --hosts a,b --dry-run
}
printf 'yoke: 1\ntrain:\n  precison: bf16\n' >"$out/wrong.yaml"
[ -z "$yaml" ] || ok "yoke config writes what launch and train read" written

launched() { # launch hands the file on: two ranks train by it
    cat >"$out/two.yaml" <<'Y'
distributed_type: MULTI_CPU
num_processes: 2
mixed_precision: bf16
Y
    "$yoke" launch --config-file "$out/two.yaml" -- "$yoke" train --model mlp --data "idx:$out/images" --max-steps 2 \
        --output-dir "$out/two" --json >"$out/stdout" 2>"$out/err" || { cat "$out/err"; return 1; }
    grep -q '"rank": 1' "$out/stdout"
}
[ -z "$yaml" ] || ok "launch hands a file on to train" launched
private() { # private NAME FILE: a checkpoint of ranks' files is called by its name
    rm -rf "$out/private"
    mkdir -p "$out/private/$(dirname "$2")"
    : >"$out/private/$2"
    "$yoke" train --model mlp --from "$out/private" --data "idx:$out/images" --max-steps 1 --output-dir "$out/none" 2>"$out/err"
    [ $? != 0 ] && grep -q "$out/private: $1, which Yoke does not read: " "$out/err" || { cat "$out/err"; return 1; }
}
ok "a checkpoint of DeepSpeed is named" private "a checkpoint of DeepSpeed" zero_to_fp32.py
ok "a sharded checkpoint of FSDP is named" private "a sharded checkpoint of FSDP" pytorch_model_fsdp_0/.metadata

whole() { # a path of any length, secrets that are not shown, and keys whose meaning a table must not lose
    deep=$out/$(printf '%0200d/%0200d/%0200d/%0200d/%0200d/%0200d' 1 2 3 4 5 6)
    mkdir -p "$deep" && echo '{"zero_optimization": {"bogus": 1}}' >"$deep/ds.json"
    refused 'bogus: unknown key' config --dry-run --config-file "$deep/ds.json" || return 1
    cat >"$out/keys.json" <<'J'
{"train_micro_batch_size_per_gpu": 4, "dataloader_drop_last": false, "comet": {"enabled": false, "api_key": "hunter2"},
 "tensorboard": {"enabled": true}, "csv_monitor": {"enabled": true},
 "optimizer": {"type": "Adam", "params": {"bias_correction": false}}}
J
    "$yoke" config --dry-run --config-file "$out/keys.json" >"$out/shown" || return 1
    ! grep -q hunter2 "$out/shown" && grep -q -e '--no-dataloader-drop-last' "$out/shown" &&
        grep -q -e '--report-to tensorboard,csv' "$out/shown" || { cat "$out/shown"; return 1; }
    ! YOKE_SECRET=hunter2 "$yoke" env 2>&1 | grep hunter2 || return 1
    printf 'yoke: 1\ntrain:\n  deepspeed: other.json\n' >"$out/nested.yaml"
    printf 'compute_environment: LOCAL_MACHINE\ngpu_ids: [0, 1]\n' >"$out/ids.yaml"
    # shellcheck disable=SC2086
    refused 'an Adam without bias correction is not built yet' $small --config-file "$out/keys.json" &&
        refused 'LOCAL_STATE_DICT keeps private files' $small --fsdp no_shard --fsdp-config '{"state_dict_type": "LOCAL_STATE_DICT"}' &&
        refused 'fp16.enabled: unknown key' $small --deepspeed '{"fp16.enabled": true}' || return 1
    [ -z "$yaml" ] || { refused 'a file of settings names no other' config --dry-run --config-file "$out/nested.yaml" &&
        refused 'gpu_ids: expected a text, got a list' config --dry-run --config-file "$out/ids.yaml"; }
}
ok "no key loses its meaning, and no secret shows" whole

alike() { # a typed option takes the place of each that says the same; help shows beside a broken file
    printf 'yoke: 1\ntrain:\n  precision: bf16\n  global-batch: 16\n' >"$out/alike.yaml"
    # shellcheck disable=SC2086
    refused 'no evaluation\|train-images' $small --config-file "$out/alike.yaml" --data idx:/nowhere --fp16 --per-device-train-batch-size 4
    ! grep -q contradicts "$out/err" && ! grep -q 'no effect' "$out/err" || return 1
    echo '{' >"$out/broken.json"
    YOKE_CONFIG_FILE=$out/broken.json "$yoke" train --help >"$out/stdout" && grep -q '^usage: yoke train' "$out/stdout"
}
[ -z "$yaml" ] || ok "what is typed takes the place of what a file says" alike

parts() { # a part of the state: its number, and the places that have one
    # shellcheck disable=SC2086
    refused '--offload PARAMS=CPU:0.5: not built yet: the host holds the whole of a slice' $small --shard params --offload PARAMS=CPU:0.5 &&
        refused '--offload STATE=CPU:0.5,params=host: not built yet: the host updates all' $small --shard params \
            --offload STATE=CPU:0.5,params=host &&
        refused '--offload state=host:0.5,STATE=cpu:0.6: the state has one part' $small --offload state=host:0.5,STATE=cpu:0.6 &&
        refused '--offload state=nvme:/d:0.5: not built yet: the disk holds the whole' $small --offload state=nvme:/d:0.5 || return 1
    for part in 0 1 1.0 1.5 -0.5 nan inf x 0.5x ''; do
        refused "--offload state=host:$part: expected a part between 0 and 1, got $part:" $small --offload "state=host:$part" || return 1
    done
}
ok "a part of the state" parts
words() { # any spelling that is taken has the meaning of the word, and whole numbers reach the option as digits
    cat >"$out/words.json" <<'J'
{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "NVME", "nvme_path": "/d"}, "offload_param": {"device": "None"}},
 "steps_per_print": 1e2, "optimizer": {"type": "adamw"}, "scheduler": {"type": "warmuplr"}, "bf16": {"enabled": "True"}}
J
    made "$out/words.json" 'yoke train: --offload state=nvme:/d' 'yoke train: --logging-steps 100' \
        'yoke train: --lr-scheduler-type WarmupLR' 'yoke train: --precision bf16' || return 1
    # shellcheck disable=SC2086
    refused '--offload params=nvme:/d: not built yet: a disk' $small --shard params --offload params=nvme:/d &&
        refused '--offload ACTIVATIONS=Host:0.5: not built yet: activations lie' $small --offload ACTIVATIONS=Host:0.5 &&
        refused '--offload activations=nvme:/d: not built yet: activations lie' $small --offload activations=nvme:/d &&
        refused '--offload state=gpu: expected state, params or activations' $small --offload state=gpu &&
        refused 'YOKE_BUCKET_BYTES=1049: expected bytes, at least 4096' $small --ddp_bucket_cap_mb 0.001 || return 1
    "$yoke" train --model mlp --data "idx:$out/images" --max-steps 1 --output-dir "$out/case" --overwrite-output-dir --precision BF16 \
        --optim AdamW --eval-strategy NO --shares EQUAL --shard ZeRO1 --offload STATE=CPU,Activations=Host --metrics LOSS \
        2>"$out/err" >"$out/stdout" ||
        { cat "$out/err"; return 1; }
    [ -n "$yaml" ] || return 0
    for strategy in FULL_SHARD full_shard 1; do
        for prefix in fsdp_ ''; do
            printf 'distributed_type: fsdp\nmixed_precision: BF16\nfsdp_config:\n  %ssharding_strategy: %s\n  %soffload_params: True\n' \
                "$prefix" $strategy "$prefix" >"$out/fsdp.yaml"
            made "$out/fsdp.yaml" 'yoke train: --shard params' 'yoke train: --offload state=host,params=host' \
                'yoke train: --precision bf16' || return 1
        done
    done
    for prefix in megatron_lm_ ''; do
        printf 'distributed_type: MEGATRON_LM\nmegatron_lm_config:\n  %suse_custom_fsdp: true\n  %scalculate_per_token_loss: true\n' \
            "$prefix" "$prefix" >"$out/megatron.yaml"
        made "$out/megatron.yaml" 'yoke train: --shard params' 'yoke train: --average items' || return 1
    done
    printf 'distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n  version: 1\n' >"$out/twin.yaml"
    refused 'line 3: fsdp_config.fsdp_version: version (line 4) is the same key' config --dry-run --config-file "$out/twin.yaml"
}
ok "a word has one meaning in each of its spellings" words

others() { # commands besides train and launch read files too; a bucket's size comes from the command line as well
    printf '{"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}' >"$out/two.json"
    refused '--plan best: expected auto, none, or' estimate-memory --plan best --model mlp &&
        refused '--device-file /nowhere: there is no such file' estimate-memory --device-file /nowhere --model mlp || return 1
    "$yoke" estimate-memory --dry-run --config-file "$out/two.json" | grep -q 'yoke train: --shard gradients' || return 1
    printf '{"bf16": {"enabled": true}, "steps_per_print": 7}' >"$out/one.json"
    "$yoke" estimate-memory --model resnet20 --precision bf16 --json >"$out/want" || return 1
    "$yoke" estimate-memory --model resnet20 --config-file "$out/one.json" --json >"$out/got" 2>"$out/err" &&
        diff "$out/want" "$out/got" || return 1
    ! "$yoke" estimate-memory --model resnet20 --json | diff -q "$out/want" - >"$out/log" || return 1
    "$yoke" eval --from "$out/a" --data "idx:$out/images" --config-file "$out/one.json" >"$out/stdout" 2>"$out/err" &&
        grep -q 'settings of training have no effect here: --logging-steps' "$out/err" && grep -q ' bf16$' "$out/err" ||
        { cat "$out/err"; return 1; }
}
ok "estimate-memory and eval read files of settings" others

typed() { # typed FILE TEXT [OPTION]: yoke config in a terminal that gets this text, then the end of input
    python3 - "$yoke" "$@" <<'P'
import os, pty, sys
command = [sys.argv[1], "config", "--config-file", sys.argv[2], *sys.argv[4:]]
child, fd = pty.fork()
if child == 0:
    os.execv(command[0], command)
os.write(fd, sys.argv[3].encode().decode("unicode_escape").encode() + b"\x04")
try:
    while os.read(fd, 4096):
        pass
except OSError:
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
P
}
asked() { # nothing is written but what was answered to the end, into a file that is not there or may be replaced
    typed "$out/ended.yaml" '1\ncpu\n'
    [ $? = 2 ] && [ ! -e "$out/ended.yaml" ] || { echo "the input ended"; return 1; }
    typed "$out/full.yaml" "1\ncpu/2\n\nBF16\nZERO1\nparams=host\nstate=cpu\nmaybe\nYes\n$(printf '%0300d' 7)\n2\n\n" &&
        made "$out/full.yaml" 'yoke launch: --devices cpu/2' 'yoke train: --precision bf16' 'yoke train: --shard state' \
            'yoke train: --offload state=cpu' 'yoke train: --gradient-checkpointing' 'yoke train: --gradient-accumulation-steps 2' ||
        return 1
    cp "$out/full.yaml" "$out/before"
    typed "$out/full.yaml" '1\ncpu\n\nfp16\n\n\n\n\n\n'
    [ $? = 2 ] && cmp "$out/before" "$out/full.yaml" || { echo "replaced without --force"; return 1; }
    typed "$out/full.yaml" '1\ncpu\n\nfp16\n\n\n\n\n\n' --force && made "$out/full.yaml" 'yoke train: --precision fp16' || return 1
    mkfifo "$out/pipe.yaml"
    mkdir -p "$out/folder"
    refused 'is no file but a device or pipe' config --config-file "$out/pipe.yaml" --force --devices cpu &&
        refused 'is no file but a folder' config --config-file "$out/folder" --force --devices cpu &&
        refused 'is a named pipe or a device, expected a file or a pipe of the shell' \
            config --dry-run --config-file "$out/pipe.yaml" || return 1
    "$yoke" config --config-file "$out/full.yaml/x.yaml" --devices cpu 2>"$out/err"
    [ $? != 0 ] && grep -q "full.yaml/x.yaml: Not a directory" "$out/err" || { cat "$out/err"; return 1; }
    ln -s full.yaml "$out/link.yaml"
    "$yoke" config --config-file "$out/link.yaml" --force --devices cpu/3 >"$out/stdout" && [ -L "$out/link.yaml" ] &&
        made "$out/full.yaml" 'yoke launch: --devices cpu/3' || return 1
    ln -s aimed.yaml "$out/loose.yaml" # its target is not there yet
    "$yoke" config --config-file "$out/loose.yaml" --devices cpu/3 >"$out/stdout" && [ -L "$out/loose.yaml" ] &&
        made "$out/aimed.yaml" 'yoke launch: --devices cpu/3'
}
[ -z "$yaml" ] || ok "yoke config writes complete answers alone" asked
written_all() { # each option of the table about a job's form, written, read back, and refused by train's own rules before a file is there
    set -- --precision fp16 --shard zero3 --offload "state=nvme:$out/disk,params=host" --gradient-checkpointing --shard-within host \
        --shard-parts 3:1 --shard-unit 4M --reshard-after-forward off --prefetch-units 2 --keep-whole 7 --shares 2:1 --global-batch 12 \
        --gradient-accumulation-steps 3 --average items --memory-limit 6G,2G --max-grad-norm 0.5 --loss-scaling init=8 \
        --hosts localhost:2 --max-restarts 1
    "$yoke" config --config-file "$out/all.yaml" "$@" >"$out/stdout" 2>"$out/err" || { cat "$out/err"; return 1; }
    "$yoke" config --dry-run "$@" | diff - "$out/all.yaml" && shown "$out/all.yaml" || return 1
    sed -n 's/^yoke [a-z]*: //p' "$out/shown" | sort >"$out/back"
    printf '%s\n' "$@" | sed 's/^zero3$/params/' | paste -sd ' ' | sed 's/ --/\n--/g' | sort | diff - "$out/back" || return 1
    refused "--offload params=host: each device has all parameters in this stage" \
        config --config-file "$out/none.yaml" --shard gradients --offload params=host &&
        refused "--shard-within has no effect with --shard state" config --config-file "$out/none.yaml" --shard state --shard-within host &&
        refused "--offload state=nowhere" config --config-file "$out/none.yaml" --offload state=nowhere &&
        refused "--nnodes has no effect beside --hosts" config --config-file "$out/none.yaml" --hosts a --nnodes 2 &&
        [ ! -e "$out/none.yaml" ] && "$yoke" config --dry-run -n 2 | grep -q 'num-processes: 2' &&
        "$yoke" config --dry-run --bucket-bytes 16M | grep -q "bucket-bytes: '16M'"
}
[ -z "$yaml" ] || ok "yoke config writes what a file of settings can hold about a job's form" written_all

piped() { # a pipe of the shell is read, by one process
    train="train --model mlp --data idx:$out/images --max-steps 1 --output-dir $out/piped --overwrite-output-dir --dry-run"
    printf '{"gradient_clipping": 0.5}' >"$out/clip.json"
    printf '{"train": {"max-grad-norm": 0.5}}' >"$out/own.json"
    # shellcheck disable=SC2086
    cat "$out/clip.json" | "$yoke" $train --deepspeed /dev/stdin >"$out/stdout" 2>&1
    cat "$out/stdout"
    grep -q -e '--max-grad-norm 0.5' "$out/stdout" || return 1
    if command -v bash >/dev/null; then
        bash -c '"$1" $2 --config-file <(cat "$3")' bash "$yoke" "$train" "$out/own.json" >"$out/stdout" 2>&1
        cat "$out/stdout"
        grep -q -e '--max-grad-norm 0.5' "$out/stdout" || return 1
    fi
    # shellcheck disable=SC2086
    cat "$out/own.json" | "$yoke" launch --config-file /dev/stdin -- "$yoke" $train >"$out/stdout" 2>&1
    code=$?
    cat "$out/stdout"
    [ $code = 2 ] && grep -q "/dev/stdin: is a pipe, which each rank would have to read: expected a file" "$out/stdout"
}
ok "a pipe of the shell is a file of settings" piped

lines() { # as users write files: each ends in lines with the file, and the line and key where there is one
    while IFS='|' read -r name text want; do
        printf %b "$text" >"$out/$name"
        case $name in *.yaml) [ -n "$yaml" ] || continue ;; esac
        refused "$want" config --dry-run --config-file "$out/$name" && grep -q "$name" "$out/err" || { echo "$name"; return 1; }
    done <<'T'
axolotl.yaml|base_model: m\ndeepspeed: zero3.json\n|line 1: base_model: a trainer's file .* --deepspeed zero3.json
factory.yaml|model_name_or_path: m\nstage: sft\nfinetuning_type: lora\n|line 1: model_name_or_path: a trainer's file
comments.json|{\n // stage\n "zero_optimization": {}}|line 2, column .*not JSON
comma.json|{"train_batch_size": 32,}|line 1, column .*not JSON
twice.json|{"zero_optimization": {"stage": 1, "stage": 2}}|duplicate object key near '"stage"'
quoted.json|{"gradient_clipping": "1.0"}|line 1: gradient_clipping: expected a number, got text in quotes: 1.0
stage.json|{"zero_optimization":\n {"stage": "3"}}|line 2: zero_optimization.stage: expected a whole number
huge.json|{"train_batch_size": 99999999999999999999}|line 1: train_batch_size: expected a whole number from 1 to 16777216
bucket.json|{"zero_optimization": {"reduce_bucket_size": 1e30}}|reduce_bucket_size: expected a whole number from 1 to 274877906944
switch.json|{"bf16": true}|line 1: bf16: expected a map of keys, got true
card.json|{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "gpu"}}}|device: expected one of none|cpu|nvme, got gpu
anchor.yaml|a: &d 1\nfsdp_config: *d\n|line 1: an anchor
tab.yaml|distributed_type: FSDP\nfsdp_config:\n\tfsdp_version: 2\n|line 3: a tab as indentation
list.yaml|- a\n- b\n|line 1: expected a map of keys, got a list
reshard.yaml|distributed_type: FSDP\nfsdp_config:\n  fsdp_reshard_after_forward: 4\n|line 3: .*fsdp_reshard_after_forward: expected one of
disk.yaml|distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\n  offload_param_device: NVMe\n|line 4: .*offload_param_nvme_path
empty.json||line 1, column 0: not JSON
T
    printf '\357\273\277compute_environment: LOCAL_MACHINE\r\ndistributed_type: "NO"\r\nmixed_precision: "no"\r\n' >"$out/crlf.yaml"
    [ -z "$yaml" ] || made "$out/crlf.yaml" 'yoke train: --precision fp32'
}
ok "files as users write them end in one clear line" lines

batches() { # train_batch_size = micro batch x accumulation x ranks, each given, typed, "auto" or contradictory, for ranks of --devices
    while IFS='|' read -r all micro steps devices want typed; do
        printf '{"train_batch_size": %s, "train_micro_batch_size_per_gpu": %s, "gradient_accumulation_steps": %s}' \
            "$all" "$micro" "$steps" >"$out/batch.json"
        # shellcheck disable=SC2086
        "$yoke" train --dry-run --model mlp --data "idx:$out/images" --output-dir "$out/never" --deepspeed "$out/batch.json" \
            --devices "$devices" $typed >"$out/stdout" 2>"$out/err"
        code=$?
        case $want in
        *:*) got=$(cat "$out/err") ;;
        *) got=$(sed -n 's/^yoke train: --//p' "$out/stdout" | sort | tr '\n' ' ') ;;
        esac
        case $got in
        *"$want"*) [ $code = "$(case $want in *:*) echo 2 ;; *) echo 0 ;; esac)" ] && continue ;;
        esac
        echo "$all $micro $steps $devices: expected $want, got code $code, $got"
        return 1
    done <<'T'
"auto"|4|"auto"|cpu:0! cpu:0!|per-device-train-batch-size 4
"auto"|4|2|cpu:0! cpu:0!|gradient-accumulation-steps 2 per-device-train-batch-size 4
"auto"|"auto"|2|cpu:0! cpu:0!|gradient-accumulation-steps 2
16|"auto"|"auto"|cpu:0! cpu:0!|global-batch 16
16|"auto"|2|cpu:0! cpu:0!|global-batch 8 gradient-accumulation-steps 2
16|"auto"|3|cpu:0! cpu:0!|train_batch_size: 16 is no multiple of gradient_accumulation_steps 3
16|4|"auto"|cpu:0!|global-batch 4 gradient-accumulation-steps 4
16|4|"auto"|cpu:0! cpu:0!|global-batch 8 gradient-accumulation-steps 2
16|4|"auto"|cpu/2|global-batch 8 gradient-accumulation-steps 2
16|3|"auto"|cpu:0! cpu:0!|train_batch_size: 16 is no multiple of train_micro_batch_size_per_gpu 3 x 2 ranks: expected a multiple of 6
16|4|2|cpu:0! cpu:0!|global-batch 8 gradient-accumulation-steps 2
16|4|4|cpu:0! cpu:0!|16 is not train_micro_batch_size_per_gpu 4 x gradient_accumulation_steps 4 x 2 ranks: expected 32
16|4|2|cpu:0!|16 is not train_micro_batch_size_per_gpu 4 x gradient_accumulation_steps 2 x 1 rank: expected 8
16|"auto"|4|cpu:0!|global-batch 8 gradient-accumulation-steps 4|--gradient-accumulation-steps 2
16|"auto"|4|cpu:0!|train_batch_size: 16 is no multiple of --gradient-accumulation-steps 3|--gradient-accumulation-steps 3
16|4|4|cpu:0!|_per_gpu 4 x --gradient-accumulation-steps 2 x 1 rank: expected 8|--gradient-accumulation-steps 2
16|4|"auto"|cpu:0!|global-batch 8 gradient-accumulation-steps 2|--per-device-train-batch-size 8
16|"auto"|"auto"|cpu:0!|gradient-accumulation-steps 4|--per-device-train-batch-size 4
16|"auto"|"auto"|cpu:0! cpu:0!|gradient-accumulation-steps 2|--per_device_train_batch_size=4
16|"auto"|"auto"|cpu:0!|16 is no multiple of --per-device-train-batch-size 5 x 1 rank: expected a multiple of 5|--batch-size 5
16|"auto"|4|cpu:0!|16 is not --per-device-train-batch-size 2 x gradient_accumulation_steps 4 x 1 rank: expected 8|--batch-size 2
16|4|4|cpu:0!|16 is not --per-device-train-batch-size 2 x gradient_accumulation_steps 4 x 1 rank: expected 8|--batch-size 2
16|4|4|cpu:0!|global-batch 2 gradient-accumulation-steps 4|--per-device-train-batch-size 2 --gradient-accumulation-steps 8
16|"auto"|"auto"|cpu:0!|global-batch 8 grad|--accelerator-config {"gradient_accumulation_kwargs":{"num_steps":2}}
16|4|2|cpu:0! cpu:0! cpu:0!|16 is not train_micro_batch_size_per_gpu 4 x gradient_accumulation_steps 2 x 3 ranks: expected 24
T
    printf '{"train_batch_size": 16}' >"$out/batch.json"
    ACCELERATE_GRADIENT_ACCUMULATION_STEPS=2 beside 0 --deepspeed "$out/batch.json" && has '--global-batch 8' || return 1
    ACCELERATE_GRADIENT_ACCUMULATION_STEPS=2 beside 0 --deepspeed '{"train_batch_size": 16, "train_micro_batch_size_per_gpu": 4}' &&
        has '--gradient-accumulation-steps 4' || return 1
    [ -n "$yaml" ] || return 0
    printf 'yoke: 1\ntrain:\n  gradient-accumulation-steps: 2\n' >"$out/two.yaml"
    printf 'yoke: 1\ntrain:\n  per-device-train-batch-size: 4\n' >"$out/four.yaml"
    beside 0 --deepspeed "$out/batch.json" --config-file "$out/two.yaml" && has '--global-batch 8' &&
        beside 0 --deepspeed "$out/batch.json" --config-file "$out/four.yaml" && has '--gradient-accumulation-steps 4' &&
        ! grep global-batch "$out/shown"
}
ok "the batch of a DeepSpeed file, for the ranks of --devices" batches

twins() { # keys of one meaning: each is read, and two that differ are refused; so is a second file
    printf '{"zero_optimization": {"stage": 3, "param_persistence_threshold": 7}}' >"$out/twin.json"
    made "$out/twin.json" 'yoke train: --keep-whole 7' || return 1
    printf '{"zero_optimization": {"stage": 3, "param_persistence_threshold": 7, "stage3_param_persistence_threshold": 8}}' \
        >"$out/twin.json"
    refused 'param_persistence_threshold: 7, and .*stage3_param_persistence_threshold (line 1) is 8: expected one' config --dry-run \
        --config-file "$out/twin.json" || return 1
    board='"tensorboard": {"enabled": true, "output_path": "a"}'
    printf '{%s, "csv_monitor": {"enabled": true, "output_path": "a", "job_name": "n"}}' "$board" >"$out/twin.json"
    made "$out/twin.json" 'yoke train: --report-to tensorboard,csv' 'yoke train: --logging-dir a' 'yoke train: --run-name n' || return 1
    printf '{%s, "csv_monitor": {"enabled": true, "output_path": "b"}}' "$board" >"$out/twin.json"
    refused 'csv_monitor.output_path: b, and tensorboard.output_path (line 1) is a: expected one value, or --logging-dir' config --dry-run \
        --config-file "$out/twin.json" || return 1
    beside 0 --deepspeed "$out/twin.json" --logging-dir c &&
        [ "$(grep -c 'output_path: .: not needed: the command line takes' "$out/shown")" = 2 ] || { cat "$out/shown"; return 1; }
    while IFS='|' read -r typed folder kept; do # of two monitors the command line reads one or none
        beside 0 --deepspeed "$out/twin.json" --report-to "$typed" && has "--logging-dir $folder" || return 1
        got=$(sed -n 's/^.*: \(.*\).output_path: .: mapped.*/\1/p' "$out/shown")
        left=$(grep -c '\(output_path\|enabled\): .*: not needed' "$out/shown")
        [ "$got" = "$kept" ] && [ "$left" = "$([ "$got" ] && echo 3 || echo 4)" ] ||
            { echo "$typed: $got"; cat "$out/shown"; return 1; }
    done <<'T'
none|.|
tensorboard|a|tensorboard
jsonl,csv|b|csv_monitor
T
    for typed in all csv,tensorboard jsonl; do
        refused 'csv_monitor.output_path: b, and tensorboard.output_path (line 1) is a' train --dry-run --deepspeed "$out/twin.json" \
            --report-to $typed || return 1
    done
    for form in zero2 zero3; do
        printf '{"zero_optimization": {"stage": 3, "param_persistence_threshold": 7, "stage3_param_persistence_threshold": 8}}' \
            >"$out/twin.json"
        if [ $form = zero3 ]; then
            refused 'param_persistence_threshold: 7, and' train --dry-run --deepspeed "$out/twin.json" --shard $form || return 1
        else
            beside 0 --deepspeed "$out/twin.json" --shard $form && [ "$(grep -c 'threshold: .: not needed' "$out/shown")" = 2 ] || return 1
        fi
    done
    prefetch='{"backward_prefetch": "BACKWARD_PRE", "backward_prefetch_policy": "NO_PREFETCH"}'
    for typed in '--shard zero2' '--prefetch-units 3'; do
        # shellcheck disable=SC2086
        beside 0 --fsdp-config "$prefetch" $typed && [ "$(grep -c 'prefetch_policy: .*: not needed' "$out/shown")" = 1 ] || return 1
    done
    refused 'backward_prefetch_policy: no_prefetch, and' train --dry-run --fsdp-config "$prefetch" --shard zero3 || return 1
    for stage in 2 3; do # thresholds of stage 3
        printf '{"zero_optimization": {"stage": %s, "param_persistence_threshold": 7, "stage3_param_persistence_threshold": 8}}' $stage \
            >"$out/twin.json"
        beside 0 --deepspeed "$out/twin.json" $([ $stage = 2 ] || echo --keep-whole 9) &&
            [ "$(grep -c 'threshold: .: not needed' "$out/shown")" = 2 ] || { cat "$out/shown"; return 1; }
    done
    clip='{"gradient_clipping": 2}'
    printf '{"gradient_clipping": 3, "fp16": {"enabled": true}}' >"$out/clips.json"
    refused 'max-grad-norm would be 2' train --dry-run --deepspeed "$clip" --config-file "$out/clips.json" &&
        beside 0 --deepspeed "$clip" --config-file "$out/clips.json" --max-grad-norm 1 &&
        [ "$(grep -c 'gradient_clipping: .: not needed' "$out/shown")" = 2 ] || { cat "$out/shown"; return 1; }
    refused 'precision would be bf16' train --dry-run --deepspeed '{"bf16": {"enabled": true}}' --config-file "$out/clips.json" &&
        beside 0 --deepspeed '{"bf16": {"enabled": true}}' --config-file "$out/clips.json" --bf16 &&
        [ "$(grep -c 'enabled: true: not needed' "$out/shown")" = 2 ] || { cat "$out/shown"; return 1; }
    beside 0 --deepspeed '{"zero_optimization": {"stage": 0, "offload_optimizer": {"device": "nvme"}}}' &&
        grep -q 'device: nvme: not needed' "$out/shown" || { cat "$out/shown"; return 1; }
    beside 0 --config-file "$out/ds.json" --config-file "$out/./ds.json" && beside 0 --config-file none --config-file "$out/ds.json" &&
        has '--max-grad-norm 0.5' && beside 0 --deepspeed "$clip" --config-file "$out/ds.json" --config-file none &&
        ! grep 'max-grad-norm 0.5' "$out/shown" || return 1
    refused 'ds.json is given already, and one of them counts' train --config-file "$out/ds.json" --config-file "$out/twin.json" &&
        refused 'ds.json is given already' train --deepspeed "$out/ds.json" --deepspeed-config "$out/twin.json" || return 1
    [ -n "$yaml" ] || return 0
    printf 'distributed_type: FSDP\nfsdp_config:\n  fsdp_backward_prefetch_policy: NO_PREFETCH\n' >"$out/twin.yaml"
    made "$out/twin.yaml" 'yoke train: --prefetch-units 0' || return 1
    printf '  fsdp_backward_prefetch: BACKWARD_PRE\n' >>"$out/twin.yaml"
    refused 'fsdp_backward_prefetch_policy: no_prefetch, and fsdp_backward_prefetch (line 4)' config --dry-run \
        --config-file "$out/twin.yaml" || return 1
    printf 'distributed_type: MEGATRON_LM\nmegatron_lm_config:\n  megatron_lm_recompute_granularity: full\n' >"$out/twin.yaml"
    made "$out/twin.yaml" 'yoke train: --gradient-checkpointing'
}
ok "each of two keys of one meaning is read" twins

devices() { # devices in the words of other programs, beside a file that counts them, and in a file
    printf '{"train_batch_size": 16, "train_micro_batch_size_per_gpu": 4}' >"$out/count.json"
    for words in '--devices cpu' '--device CPU' --use_cpu; do
        # shellcheck disable=SC2086
        "$yoke" train --dry-run --deepspeed "$out/count.json" $words >"$out/shown" 2>"$out/err"
        grep -qx -e 'yoke train: --gradient-accumulation-steps 4' "$out/shown" || { echo "$words"; cat "$out/shown" "$out/err"; return 1; }
    done
    [ -n "$yaml" ] || return 0
    printf 'yoke: 1\nlaunch:\n  use_cpu: true\n  n: 2\ntrain:\n  lr: 0.5\n' >"$out/foreign.yaml"
    made "$out/foreign.yaml" 'yoke launch: --devices cpu' 'yoke launch: --num-processes 2' 'yoke train: --learning-rate 0.5' || return 1
    "$yoke" train --dry-run --config-file "$out/foreign.yaml" >"$out/shown" 2>"$out/err" || { cat "$out/err"; return 1; }
    printf 'use_cpu: true\ndistributed_type: MULTI_CPU\n' >"$out/use.yaml"
    "$yoke" train --dry-run --config-file "$out/use.yaml" --use_cpu=false >"$out/shown" 2>"$out/err" &&
        ! grep -q 'takes the place' "$out/err" || { cat "$out/err"; return 1; }
}
ok "devices in words of other programs count as ours" devices

seconds() { # --measure-seconds is of --plan auto, typed or in a file
    refused '--measure-seconds has no effect without --plan auto' train --model mlp --data "idx:$out/images" --output-dir "$out/never" \
        --measure-seconds 2 &&
        refused '--measure-seconds -1: ' train --model mlp --data "idx:$out/images" --output-dir "$out/never" --plan auto \
            --measure-seconds -1 || return 1
    [ -z "$yaml" ] && return
    printf 'yoke: 1\ntrain:\n  plan: auto\n  measure-seconds: 0\n' >"$out/seconds.yaml"
    "$yoke" train --dry-run --config-file "$out/seconds.yaml" --model mlp | grep -qx -e 'yoke train: --measure-seconds 0'
}
ok "--measure-seconds of --plan auto" seconds

page() { # docs/from-deepspeed.md has the fate of every key of the table
    "$yoke" config --keys deepspeed >"$out/keys" && [ "$(wc -l <"$out/keys")" -gt 60 ] &&
        sed -n '/^| key /,/^$/p' "$YOKE_SOURCE/docs/from-deepspeed.md" | sed '/^$/d' | diff - "$out/keys"
}
ok "the page for users of DeepSpeed has each key of the table" page
plan
