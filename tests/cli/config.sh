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

refused() { # refused TEXT COMMAND...
    text=$1
    shift
    "$yoke" "$@" >"$out/stdout" 2>"$out/err"
    [ $? = 2 ] && grep -q -e "$text" "$out/err" || { cat "$out/err"; return 1; }
}
small="train --model mlp --data idx:$out/images --max-steps 1 --output-dir $out/none"
later() { # what has a meaning and is not built says so, by whatever name it came
    for words in zero2 gradients; do
        # shellcheck disable=SC2086
        refused "--shard $words: not built yet: gradients are whole on each rank; --shard state is" $small --shard $words || return 1
    done
    # shellcheck disable=SC2086
    refused "--shard params: not built yet" $small --fsdp "full_shard auto_wrap" &&
        refused "--shard params: not built yet" $small --sharded_ddp zero_dp_3 &&
        refused "--offload state=host,params=host: not built yet" $small --fsdp "no_shard offload" &&
        refused "--parallel tensor=2: not built yet" $small --parallel data,tensor=2 &&
        refused "tp_size: tensor parallel is not built yet" $small --parallelism_config '{"tp_size": 2}' &&
        refused "split_batches: --global-batch is of all ranks" $small --accelerator_config '{"split_batches": true}' &&
        refused "--shard zero4: expected state, gradients or params: did you mean" $small --shard zero4 &&
        refused "--shard-unit has no effect with --shard state" $small --shard-unit all &&
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
        grep -q 'yoke train: --precision bf16' "$out/shown" || return 1
    refused "train.precison: yoke train has no such option: did you mean precision" config --dry-run --config-file "$out/wrong.yaml" &&
        refused "no terminal to ask in" config </dev/null
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
        refused '--shard params: not built yet' $small --fsdp-config '{"sharding_strategy": "FULL_SHARD"}' &&
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

page() { # docs/from-deepspeed.md has the fate of every key of the table
    "$yoke" config --keys deepspeed >"$out/keys" && [ "$(wc -l <"$out/keys")" -gt 60 ] &&
        sed -n '/^| key /,/^$/p' "$YOKE_SOURCE/docs/from-deepspeed.md" | sed '/^$/d' | diff - "$out/keys"
}
ok "the page for users of DeepSpeed has each key of the table" page
plan
