#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Options as users of Hugging Face's Trainer write them: both spellings, its truth values, and a reason for each that is refused.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
export YOKE_DEVICES=cpu:0
small_images "$out/images"
base="--model mlp --data idx:$out/images --overwrite-output-dir --output-dir $out/m"

hash_of() { # hash_of ARGUMENTS...: of the parameters after a short training
    # shellcheck disable=SC2086
    "$yoke" train $base --json "$@" 2>"$out/err" | python3 -c 'import json, sys; print(json.load(sys.stdin)["param_hash"])'
}

spellings() {
    a=$(hash_of --max-steps 3 --learning-rate 1e-2 --per-device-train-batch-size 16) || return 1
    b=$(hash_of --max_steps=3 --learning_rate=1e-2 --per_device-train_batch_size 16) || return 1
    c=$(hash_of --max_steps 3) || return 1
    echo "$a $b $c"
    [ "$a" = "$b" ] && [ "$a" != "$c" ]
}
ok "names with dashes and with underscores, values behind = and apart" spellings

refuses() { # refuses WORDS ARGUMENTS...: exit code 2 and one line
    words=$1
    shift
    "$yoke" "$@" >"$out/stdout" 2>"$out/err"
    code=$?
    cat "$out/err"
    [ $code = 2 ] && [ "$(wc -l <"$out/err")" = 1 ] && grep -qF -e "$words" "$out/err"
}

truth() { # each way to say it: on is one JSON line, off is the report
    for on in "--json" "--json True" "--json=true" "--no-json --json yes"; do
        # shellcheck disable=SC2086
        "$yoke" train $base --max-steps 1 $on 2>/dev/null | grep -q '^{"final": true' || { echo "not on: $on"; return 1; }
    done
    for off in "--json False" "--json=no" "--json --no-json" "--json --no_json" "--json --json 0"; do
        # shellcheck disable=SC2086
        "$yoke" train $base --max-steps 1 $off 2>/dev/null | grep -q '^{"final": true' && { echo "not off: $off"; return 1; }
    done
    return 0
}
ok "truth values of switches" truth
ok "a switch with another value" refuses '--json takes no value but true or false, but "maybe" was given' train --json=maybe
ok "an argument that looks like a truth value stays one" "$yoke" launch --devices cpu:0 --json true
defaults() { # a default that differs from Trainer's is said where it matters, and not where the line chooses
    # shellcheck disable=SC2086
    "$yoke" train $base --max-steps 2 --global-batch 7 --gradient-accumulation-steps 2 2>"$out/err" >/dev/null || return 1
    cat "$out/err"
    for way in --no-dataloader-drop-last "--save-steps 500" "--average items"; do
        [ "$(grep -c -e "Trainer .*$way" "$out/err")" = 1 ] || return 1
    done
    # shellcheck disable=SC2086
    "$yoke" train $base --max-steps 2 --global-batch 7 --gradient-accumulation-steps 2 --dataloader_drop_last True --save_strategy no \
        --average micro 2>"$out/err" >/dev/null && ! grep Trainer "$out/err"
}
ok "defaults that are not Trainer's" defaults
printf 'a day\n' >"$out/text"
ok "text for a model of images" refuses "model resnet20 and text data do not go together" train --model resnet20 --data "text:$out/text" \
    --output-dir "$out/m"
ok "a table for a model of running text" refuses "model gpt2 and csv data do not go together" train --model gpt2 --data "csv:$out/text" \
    --output-dir "$out/m"
ok "sharded_ddp" refuses "--offload state=host,params=host: each device has all parameters in this stage: --shard params" \
    train --model mlp --data idx:. --output-dir "$out/o" --sharded_ddp "zero_dp_2 offload"

helped() { # yoke help COMMAND is the command's own help
    "$yoke" help train >"$out/help" && "$yoke" train --help | cmp - "$out/help"
}
ok "yoke help train" helped

ok "an unknown name with underscores" refuses "did you mean --learning-rate?" train --learning_rat 1

together() { # together COMMAND 'ARGUMENTS' NAME..: exit code 2, and a line with words behind each of these names, and no other
    of=$1
    # shellcheck disable=SC2086
    "$yoke" $of $2 >"$out/stdout" 2>"$out/err"
    code=$?
    shift 2
    cat "$out/err"
    [ $code = 2 ] && [ "$(wc -l <"$out/err")" = $# ] || return 1
    for name; do grep -Eq -e "^yoke $of: (unknown option )?$name: ...+" "$out/err" || { echo "$name"; return 1; }; done
}
ok "all that is unknown or refused has its line" together train \
    "--learning-rte 1e-3 --task_name sst2 --nosuchthing --max-steps 1 --ddp_backend x --weight-dcay -0.5 --bf16 --lora_r=8 --json=maybe" \
    --learning-rte --task_name --nosuchthing --ddp_backend --weight-dcay --lora_r \
    "--json takes no value but true or false, but \"maybe\" was given|.*"
ok "where a program follows, too" together launch "--gpu_ids 0,1 --use_fsdp --max-restart 1 --zero_stage=2 true --nosuch" \
    --gpu_ids --use_fsdp --max-restart --zero_stage
elsewhere() { # commands of other programs: one line, which says more than that there is none
    for other in sft generate export merge-weights serve evaluate; do
        refuses "unknown command \"$other\": " "$other" --in out || return 1
        grep -Eq '(use yoke |there is no |not needed)' "$out/err" || return 1
    done
}
ok "commands of other programs" elsewhere
environment() { "$yoke" env >"$out/env" && grep -q '^rank\|^machine\|cpu' "$out/env" && grep -q YOKE_DEVICES "$out/env" &&
    grep -A1 '^YOKE_STUCK_MS ' "$out/env" | grep -q '; 0: never (core/base)$'; }
ok "yoke env" environment

same_names() { # names of other programs give the same bits as ours, and a line where there is something to say; two that differ are refused
    a=$(hash_of --max-steps 3 --learning-rate 1e-2 --per-device-train-batch-size 16 --max-grad-norm 0.5 --precision bf16) || return 1
    b=$(hash_of --max_train_steps 3 --lr 1e-2 --batch_size=16 --gradient_clipping 0.5 --torch_dtype torch.bfloat16 --no_ddp_static_graph \
        --dataloader_num_workers 2 --ddp_find_unused_parameters False --device cpu:0 --epochs 1) || return 1
    cat "$out/err"
    [ "$a" = "$b" ] && [ -n "$a" ] || { echo "$a $b"; return 1; }
    for said in "--batch_size is rows of each rank" "--torch_dtype sets the format of products" \
        "--dataloader_num_workers changes nothing here: " \
        "--ddp_find_unused_parameters changes nothing here: " "--no_ddp_static_graph changes nothing here: "; do
        [ "$(grep -cF -e "$said" "$out/err")" = 1 ] || { echo "$said"; return 1; }
    done
}
ok "names of other programs" same_names
ok "rows are not left in their order" refuses "--no-shuffle: expected shuffled rows, as there is no other order" train --no-shuffle
ok "nor by a value" refuses "--shuffle: expected shuffled rows" train --shuffle false
ok "batch norms have no moments of one rank" refuses "--sync-bn: expected the moments of all ranks' rows" train --sync-bn no
ok "line breaks are not left out" refuses "--no_keep_linebreaks: expected line breaks kept" eval --no_keep_linebreaks
ok "ranks have no means of their own" refuses "--average_tokens_across_devices: expected one mean over the rows of all ranks" train \
    --average_tokens_across_devices False
ok "numbers of ranks are devices here" refuses "--num_processes: --devices names the devices, one rank each" train --num_processes 2
no_reader() { # one that ends early is no fault of a plugin
    "$yoke" env 2>"$out/err" | true
    [ ! -s "$out/err" ] || { cat "$out/err"; return 1; }
}
ok "a closed pipe ends without a word" no_reader
ok "weights have one form" refuses "--save_safetensors: expected model.safetensors" train --save_safetensors False
defaults() { # Trainer's own are no reason to stop, and off is said as well
    for value in True False; do
        # shellcheck disable=SC2086
        "$yoke" train $base --max-steps 1 --remove_unused_columns $value --log_on_each_node $value --logging_nan_inf_filter $value \
            --skip_memory_metrics $value >/dev/null 2>"$out/err" && [ "$(grep -c "changes nothing here: " "$out/err")" = 4 ] ||
            { cat "$out/err"; return 1; }
    done
}
ok "switches that are on in Trainer" defaults
ok "a classifier's width is a number" refuses "--num-classes 0: expected a whole number above 0" train --num-classes 0
wide() { # as in timm, of any width that the data fit
    # shellcheck disable=SC2086
    hash_of --max-steps 1 --num-classes 12 && "$yoke" train $base --max-steps 1 --num-classes 9 >/dev/null 2>"$out/err"
    [ $? = 2 ] && grep -qF "10 classes, but model mlp has 9 (num_labels)" "$out/err" || { cat "$out/err"; return 1; }
}
ok "a classifier's width is the one that is given" wide
split_rows() { # --eval-split keeps a quarter of the rows, rounded up, others by another seed, and a .csv needs no kind
    { echo text,label; seq 1 30 | awk '{print "a text " $1 "," $1 % 2}'; } >"$out/rows.csv"
    for seed in 42 43; do
        "$yoke" eval --model bert --model-config hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_size=16 \
            --tokenizer bytes --data "$out/rows.csv" --eval_split "0.25,seed=$seed" --json 2>"$out/err" >"$out/seed$seed" ||
            { cat "$out/err"; return 1; }
        grep -q '"total": 8}' "$out/seed$seed" || { cat "$out/seed$seed"; return 1; }
    done
    ! cmp -s "$out/seed42" "$out/seed43"
}
ok "a part of the rows evaluates" split_rows
ok "rows of a file that do not evaluate" refuses "--eval-rows has no effect beside --eval-data" eval --from "$out" \
    --data "csv:$out/rows.csv" --eval-data "csv:$out/rows.csv" --eval-rows "$out/rows.csv"
ok "a length that the spec overrules" refuses "--max-length 32 contradicts max-length=8 of the data: give one of them" \
    eval --from "$out" --data "csv:$out/rows.csv,max-length=8" --max-length 32
ok "a tokenizer" refuses "--tokenizer char contradicts tokenizer=bytes of the data" \
    eval --from "$out" --data "csv:$out/rows.csv,tokenizer=bytes" --tokenizer char
ok "a window" refuses "--seq-len 4 contradicts seq-len=8 of the data" \
    eval --from "$out" --data "text:$out/rows.csv,seq-len=8" --seq-len 4
ok "two names with two values" \
    refuses '--lr and --learning-rate are one option, --learning-rate, and say "1" and "2"' \
    train --lr 1 --learning-rate 2
ok "a type that there is not" refuses '--dtype int8: expected bfloat16, float16, float32, fp8 or no' train --dtype int8
ok "settings that are no JSON" refuses "expected a JSON object" train --lr_scheduler_kwargs '{"num_cycles":' --max-steps 1
ok "a seed beyond 64 bits" refuses "--eval-split 0.2,seed=99999999999999999999: expected a part" train $base --output-dir "$out/m" \
    --eval-split 0.2,seed=99999999999999999999
ok "the k best checkpoints" refuses "save-top-k" train $base --output-dir "$out/m" --save-top-k 3
ok "a part that is none" refuses "--eval-split 1.5: expected a part between 0 and 1" train $base --output-dir "$out/m" --eval-split 1.5
ok "launch: more hosts than one need more" \
    refuses "--nnodes 2 needs --node-rank (which host this is), --master-addr (where rank 0 listens), \
YOKE_SECRET_FILE" launch --nnodes 2 --nproc_per_node 1 true
ok "launch: ranks of all hosts, and of one" refuses "--num-processes 3 is of all hosts" launch --num_machines 2 --num_processes 3 true
nodes() { # two launchers, each of one of two hosts: one job; srun's containers pass on a number, and no variable of the step
    head -c 32 /dev/urandom >"$out/secret" && chmod 600 "$out/secret" || return 1
    for node in 0 1; do
        YOKE_SECRET_FILE=$out/secret SLURM_PROCID=$node SLURM_NTASKS=2 timeout -k 5 300 "$yoke" launch --nnodes 2 --node_rank $node \
            --nproc_per_node 1 --master_addr 127.0.0.1 --master_port "$((20000 + $$ % 9000))" \
            "$yoke" train --model mlp --data "idx:$out/images" --max-steps 2 --shares equal --json \
            --output-dir "$out/nodes" >"$out/node$node" 2>"$out/node$node.err" &
    done
    wait %1 && wait %2
    code=$?
    cat "$out/node0.err" "$out/node1.err"
    [ $code = 0 ] && [ "$(grep -c '"rank": 1' "$out/node0")" = 1 ] && [ ! -s "$out/node1" ]
}
ok "launch: a launcher on each host" nodes
counted() { # counted N ARGUMENTS..: so many ranks
    ranks=$1
    shift
    "$yoke" launch --dry-run "$@" true >"$out/dry" 2>"$out/err"
    cat "$out/dry" "$out/err"
    [ "$(grep -c '^rank ' "$out/dry")" = "$ranks" ]
}
ok "launch -n" counted 2 -n 2
ok "launch --nproc_per_node, --num_machines 1 and --cpu" counted 3 --nproc_per_node 3 --num_machines 1 --machine_rank 0 --cpu --standalone
words() { # torchrun's: the accelerators, the cores, what there is, each with a line
    refuses "--nproc-per-node gpu: there is no accelerator among the devices (cpu:0)" launch --devices cpu:0 --nproc_per_node=gpu true &&
        refuses "gpu counts the devices of this host: give a number" launch --hosts a,b --nproc_per_node=gpu true &&
        YOKE_PLUGIN_DIR=$YOKE_BUILD/.libs YOKE_PLUGINS="cpu,$YOKE_BUILD/tests/dist/.libs/yoke_slow.so" YOKE_SLOW_FACTORS='1;1' \
            counted 2 --devices 'cpu:0 slow:0 slow:1' --nproc_per_node=gpu && ! grep -q 'rank .: cpu' "$out/dry" &&
        YOKE_DEVICES='' counted "$("$yoke" info --json | cores)" --nproc_per_node=cpu &&
        grep -q 'cpu: [0-9]* ranks* here: cpu/' "$out/err" &&
        counted 1 --devices cpu:0 --nproc_per_node=auto && grep -q 'auto: 1 rank here: cpu:0$' "$out/err"
}
cores() { python3 -c 'import json, sys; print(json.load(sys.stdin)["cores"])'; }
ok "launch --nproc_per_node gpu, cpu and auto" words
printf 'localhost slots=2\n' >"$out/hosts"
ok "launch: localhost is this host" counted 2 --hostfile "$out/hosts"
printf 'localhost slots=4\n' >"$out/hosts"
mpirun() { # lines of mpirun, mpiexec, srun and torchrun that mean the same here: one row a line, its ranks first
    while read -r ranks line; do
        # shellcheck disable=SC2086
        counted "$ranks" $line || { echo "$line"; return 1; }
    done <<T
2 -np 2
2 -n2
2 --hostfile $out/hosts -np 2
4 -hostfile $out/hosts
3 -machinefile $out/hosts -n 3
2 -f $out/hosts -ppn 2
1 -H localhost:2 -npernode 1
2 --host localhost:2
2 --ntasks 2 --ntasks-per-node=2 --nodes 1
2 --allow-run-as-root --oversubscribe --bind-to none --map-by slot -np 2
2 --nnodes=1 --nproc-per-node=2 --rdzv-backend=c10d --rdzv-id=1 --rdzv-endpoint=localhost:0
T
    "$yoke" launch -np 2 -x GIVEN=yes -x HOME sh -c 'echo "$GIVEN $*"' sh -np 3 -x --mca a b >"$out/dry" &&
        [ "$(grep -c '^yes -np 3 -x --mca a b$' "$out/dry")" = 2 ] # the program's words stay its own
}
ok "launch: lines of mpirun, srun and torchrun" mpirun
ok "launch: what they have and there is not" together launch \
    "-mca btl tcp --map-by core --bind-to core -N 2 --rdzv-backend etcd --rdzv-endpoint far:1 -x NOSUCH --tee 3 --genv A 1 -np 2 true" \
    --mca "--map-by core" --bind-to -N "--rdzv-backend etcd" "--rdzv-endpoint far:1" "-x NOSUCH" --tee --genv
ok "launch: more ranks than a list has" refuses "the list of hosts has room for 4 ranks" launch --hostfile "$out/hosts" -np 5 true
ok "launch: no even part" refuses "2 hosts have no even part of it" launch --hosts a,b -np 3 true
shared() { # ranks on the same cores are said, by whatever option; a list of this host alone puts no [RANK] in front
    counted 3 --devices cpu:0 -n 3 && grep -q 'cpu:0 and cpu:0 compute on the same cores, as does 1 more rank$' "$out/err" &&
        YOKE_DEVICES='' counted 999 -n 999 && [ "$(grep -c 'compute on the same cores' "$out/err")" = 1 ] &&
        [ "$("$yoke" launch --hosts localhost:2 --devices cpu:0 echo here | grep -c '^here$')" = 2 ]
}
ok "launch: ranks that share cores" shared
own_name() { # as mpirun's files of one host have it, with a domain too; an address without brackets
    for name in "$(uname -n)" "$(uname -n).domain" ::1; do
        printf '%s slots=2\n' "$name" >"$out/hosts"
        counted 2 --hostfile "$out/hosts" || return 1
    done
    counted 2 --ssh false --hosts "$(uname -n):2" | grep -q "is this host and starts without ssh: write USER@"
}
ok "launch: so is its own name" own_name
told_precision() { # a program over yoke.h finds it where accelerate launch leaves it
    "$yoke" launch --devices cpu:0 --mixed_precision bf16 sh -c 'echo "in $ACCELERATE_MIXED_PRECISION"' | grep -q 'in bf16'
}
ok "launch: precision for another program" told_precision
ok "launch: a precision that there is not" refuses "expected one of" launch --devices cpu:0 --precision int4 "$yoke" estimate-memory

reasons() { # each refused name says why, the way help does; turned off it is let pass
    "$yoke" train --man | sed -n '/^.SH REFUSED/,/^.SH EXIT/p' | sed -n 's/^\.B //p' | tr -d '\\,' | tr ' ' '\n' >"$out/refused"
    instrumented && sed -i -n '1~8p' "$out/refused" && set -- 5 # rows of one table
    [ "$(wc -l <"$out/refused")" -gt "${1-40}" ] || return 1
    while read -r option; do
        refuses "yoke train: $option: " train "$option" 7 || { echo "$option"; return 1; }
    done <"$out/refused"
    # shellcheck disable=SC2086
    "$yoke" train $base --max-steps 1 --fsdp "none" --deepspeed=None --push_to_hub False --no-torch-compile
}
ok "an option that is refused says why" reasons
ok "with its reason" refuses "--tf32: products compute in the format of --precision" train --tf32 True
plan
