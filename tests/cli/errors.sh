#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What is wrong is told in one line that names it, with the right exit code: 2 bad input or usage, 1 failed.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
export YOKE_DEVICES=cpu:0
small_images "$out/images"

refuses() { # refuses CODE WORDS ARGUMENTS...: the one line beside the table of devices has these words
    want=$1 words=$2
    shift 2
    "$yoke" "$@" >"$out/stdout" 2>"$out/err"
    code=$?
    grep -v -e '^rank  device spec' -e '^[0-9]* *cpu:0' -e 'compute on the same cores' "$out/err" >"$out/lines"
    cat "$out/err"
    [ $code = "$want" ] && [ "$(wc -l <"$out/lines")" = 1 ] && grep -qF -e "$words" "$out/lines"
}

train() { # train CODE WORDS ARGUMENTS...: with a sound model, data and folder, which the arguments overrule
    want=$1 words=$2
    shift 2
    refuses "$want" "$words" train --model mlp --data "idx:$out/images" --overwrite-output-dir --output-dir "$out/no" --max-steps 1 "$@"
}

ok "unknown command" refuses 2 "did you mean train?" tarin
ok "unknown option" train 2 "did you mean --learning-rate?" --learning-rte 1
ok "an option without its value" refuses 2 "--model needs a value" train --model
ok "not a whole number" train 2 "--max-steps 1x: expected a whole number" --max-steps 1x
ok "not a number" train 2 "--learning-rate fast: expected a number" --learning-rate fast
ok "a number out of range" train 2 "--global-batch 0: expected" --global-batch 0
ok "a layer that is too large" train 2 "fc1.weight: [2147483647, 784] is too large: at most 2^40 elements" --model-config hidden=2147483647
ok "unknown optimizer" train 2 "(did you mean adam?)" --optim adamx
ok "a beta out of range" train 2 "--adam-beta1 2: expected" --adam-beta1 2
ok "unknown precision" train 2 "expected one of fp32, bf16, fp16, fp8" --precision fp4
ok "unknown schedule" train 2 'there is no schedule "cosin"; there are constant, constant_with_warmup, linear, cosine, ' \
    --lr-scheduler-type cosin
ok "unknown schedule, and the last of those that there are" train 2 'LRRangeTest, OneCycle' --lr-scheduler-type cosin
ok "a schedule that never ends" train 2 "T_mult=0: expected a whole number from 1" --lr-scheduler-type CosineAnnealingWarmRestarts \
    --lr-scheduler-kwargs T_0=1,T_mult=0
ok "a warm-up that the schedule does not have" train 2 "schedule StepLR has no warm-up, and 5 steps of it are asked for" \
    --lr-scheduler-type StepLR --lr-scheduler-kwargs step_size=3 --warmup-steps 5
ok "a part of the steps to warm up, and none" train 2 "schedule constant has no warm-up, and 1 steps of it" \
    --lr-scheduler-type constant --warmup-ratio 0.1
plateau_table() {
    printf 'text,label\na,0\nb,1\nc,0\nd,1\n' >"$out/t.csv"
    "$yoke" train --model bert --tokenizer bytes --data "csv:$out/t.csv" \
        --model-config hidden_size=8,num_hidden_layers=1,num_attention_heads=1,intermediate_size=8 --global-batch 2 --max-length 8 \
        --overwrite-output-dir --output-dir "$out/no" --max-steps 1 --lr-scheduler-type reduce_lr_on_plateau 2>"$out/err"
    [ $? = 2 ] && grep "error: .*reduce_lr_on_plateau follows the loss of evaluations" "$out/err"
}
ok "reduce_lr_on_plateau without evaluations" plateau_table
validated() { # the validating layer has nothing against our own plugin
    YOKE_LAYERS=validate "$yoke" train --model gpt2 --tokenizer bytes --data "text:$YOKE_SOURCE/README.md" --seq-len 8 --max-steps 2 \
        --model-config n_embd=8,n_layer=1,n_head=2,n_positions=8 --global-batch 2 --output-dir "$out/valid" >"$out/all" 2>&1 &&
        ! grep "claims answers" "$out/all"
}
ok "the validating layer knows every answer of claims" validated
diverged_rows() { # the rows that a gradient was made of are named
    mlp "$out/diverged" --optim sgd --learning-rate 1e10 --max-grad-norm 0 --global-batch 4 2>"$out/err"
    [ $? = 1 ] && grep "is not finite: .*; its last rows on this rank are $out/images: image [0-9]* (from 0), image [0-9]*" "$out/err"
}
ok "a gradient that is not finite tells the rows" diverged_rows
ok "no output folder" refuses 2 "--output-dir is missing" train --model mlp --data "idx:$out/images"
ok "no data" refuses 2 "--data is missing" train --model mlp --output-dir "$out/no"
ok "no model" refuses 2 "neither --model NAME nor --from DIR" train --data "idx:$out/images" --output-dir "$out/no"
ok "unknown model" train 2 'there is no model "mpl"' --model mpl
ok "unknown model setting" train 2 '(did you mean "hidden"?); there are dropout, hidden, hidden_act, ' --model-config hiden=3
ok "unknown kind of data" train 2 "did you mean 'idx'" --data "ixd:$out/images"
ok "data that is not there" train 2 "/nonexistent/train-images-idx3-ubyte: cannot be opened" --data idx:/nonexistent
ok "a batch larger than the data" train 2 "lower --global-batch" --global-batch 1000
ok "unknown device spec" train 2 "did you mean cpu?" --devices cppu:0
ok "a file's device spec that is no path" train 2 "a path begins with ./ or /" --devices open/yoke_tin.so:0
ok "a file's name for a plugin's" train 2 "(a file is ./yoke_tin.so)" --devices yoke_tin.so:0
ok "unknown device spec among good ones" train 2 'there is no plugin "nosuch"' --devices "cpu:0! nosuch:0"
ok "an output folder that cannot be made" train 1 "/proc/no/out: cannot make the folder" --output-dir /proc/no/out
ok "a log that cannot be written" train 1 "--log" --log /proc/no/log
refused_env() { # refused_env NAME=VALUE WORDS: by every command
    (export "${1?}" && train 2 "$2") && (export "${1?}" && refuses 2 "$1" eval --from no) && (export "${1?}" && refuses 2 "$1" info)
}
ok "YOKE_BUCKET_BYTES in unknown units" refused_env YOKE_BUCKET_BYTES=16MB "16MB: expected bytes, at least 4096"
ok "YOKE_LOG with an unknown value" refused_env YOKE_LOG=debg "did you mean debug?"
ok "YOKE_CUT with an unknown value" refused_env YOKE_CUT=nodes "did you mean node?"
ok "YOKE_PROBE with an unknown value" refused_env YOKE_PROBE=no "expected one of on, off"
ok "YOKE_LIVENESS_MS that is no number" refused_env YOKE_LIVENESS_MS=soon "expected a whole number from 0 to 3600000"
ok "YOKE_MEMORY_LIMIT without a number" refused_env YOKE_MEMORY_LIMIT=, "expected bytes"
ok "YOKE_MEMORY_LIMIT out of range" refused_env YOKE_MEMORY_LIMIT=1e15T "expected bytes"
ok "YOKE_PORT that is no number" refused_env YOKE_PORT=http "expected a whole number from 1 to 65535"
refused_train() { # refused_train NAME=VALUE WORDS: what is known once devices are looked for
    (export "${1?}" && train 2 "$2")
}
ok "an option of the CPU plugin with an unknown value" refused_train YOKE_CPU_PROFILE=all "YOKE_CPU_PROFILE=all: expected 0, 1 or own"
ok "an unknown option of the CPU plugin" refused_train YOKE_CPU_ISO=avx2 "there is no such option; there are YOKE_CPU_CORES, YOKE_CPU_ISA"
ok "a transport that is not there, for one rank" refused_train YOKE_TRANSPORT=pigeon 'there is no transport "pigeon"'
listed_env() { # a bad value is shown, and still exit code 2
    YOKE_CUT=nodes YOKE_CPU_ISA=avx2 YOKE_MEMORY_LIMITS=1G "$yoke" info --env >"$out/env" 2>"$out/err"
    [ $? = 2 ] && grep -q "^YOKE_CUT *nodes *(environment; default: bucket)" "$out/env" && grep -q "did you mean node?" "$out/err" &&
        grep -q "did you mean YOKE_MEMORY_LIMIT?" "$out/env" && grep -q "^YOKE_CPU_ISA *avx2 *(environment)" "$out/env" &&
        "$yoke" info --env --json | python3 -c 'import json,sys; e = json.load(sys.stdin)["environment"]; assert len(e) > 15' &&
        for name in $(sed -n "s/^\(YOKE_[A-Z_]*\) .*default.*/\1/p" "$out/env"); do "$yoke" --man | grep -q "^.B $name" || return 1; done
}
ok "yoke info --env lists all names, as the manual page does" listed_env
warned_env() { # once, by one rank, and not for what a plugin reads
    YOKE_MEMORY_LIMITS=1G YOKE_CPU_PROFILE=0 mlp "$out/warned" --devices "cpu:0! cpu:0!" --max-steps 1 2>"$out/err" >/dev/null &&
        [ "$(grep -c "YOKE_MEMORY_LIMITS is not known (did you mean YOKE_MEMORY_LIMIT?)" "$out/err")" = 1 ] &&
        ! grep -q YOKE_CPU_PROFILE "$out/err"
}
ok "an unknown name is warned of once" warned_env
idle_info() { # what has no effect is no part of a line that works
    refuses 2 "--json has no effect beside --kinds" info --kinds --json &&
        refuses 2 "--json has no effect beside --gpus" info --gpus --json &&
        refuses 2 "--gpus has no effect beside --kinds" info --kinds --gpus &&
        refuses 2 "--precision has no effect without --describe" info --precision junk &&
        refuses 2 "--devices has no effect without --describe" info --devices cpu:0 --json
}
ok "yoke info refuses options that it does not read" idle_info
numbers() {
    for number in 1e1 0x2 2. +2 ' 2' -1; do
        refuses 2 "expected a whole number from 1 to 65536" config "--num-processes=$number" --config-file "$out/number.yaml" &&
            [ ! -e "$out/number.yaml" ] || return 1
    done
    for option in num-processes node-rank nnodes max-restarts; do
        refuses 2 "expected a whole number from" config "--$option=" --config-file "$out/number.yaml" &&
            [ ! -e "$out/number.yaml" ] || return 1
    done
    "$yoke" config --num-processes 10 --config-file "$out/number.yaml" && grep -q "10" "$out/number.yaml"
}
ok "yoke config writes whole numbers alone" numbers
foreign() { # foreign EXPECTED VARIABLE=VALUE..: what another program asks for is named, and nothing runs
    expected=$1
    shift
    env "$@" "$yoke" estimate-memory --model mlp >"$out/said" 2>"$out/err"
    code=$?
    cat "$out/err"
    [ $code = 2 ] && [ ! -s "$out/said" ] && grep -qF "$expected" "$out/err"
}
ok "sharding that is asked for by a variable" foreign "FSDP_SHARDING_STRATEGY" ACCELERATE_USE_FSDP=true FSDP_SHARDING_STRATEGY=FULL_SHARD
ok "a stage of DeepSpeed" foreign "ACCELERATE_DEEPSPEED_ZERO_STAGE=3" ACCELERATE_DEEPSPEED_ZERO_STAGE=3
ok "a compiler" foreign "ACCELERATE_DYNAMO_BACKEND=inductor" ACCELERATE_DYNAMO_BACKEND=inductor
ok "parallel layers" foreign "PARALLELISM_CONFIG_TP_SIZE=2" PARALLELISM_CONFIG_TP_SIZE=2
ok "a precision that there is not" foreign "ACCELERATE_MIXED_PRECISION=int4: expected one of no" ACCELERATE_MIXED_PRECISION=int4
others() { # those of devices and of the host's memory, each with the word that accelerate launch sets
    for words in ACCELERATE_USE_MPS_DEVICE=true ACCELERATE_USE_XPU=true ACCELERATE_USE_IPEX=true ACCELERATE_USE_TP=true \
        ACCELERATE_USE_TPU=true ACCELERATE_TPU=true FSDP_CPU_OFFLOAD=true FSDP_OFFLOAD_PARAMS=true FSDP_ACTIVATION_CPU_OFFLOAD=true; do
        foreign "$words is not followed" "$words" || { echo "$words"; return 1; }
    done
}
ok "other devices and the host's memory" others
# as accelerate launch sets them where nothing of it is asked for
ok "variables that ask for nothing" env ACCELERATE_USE_CPU=True ACCELERATE_MIXED_PRECISION=no ACCELERATE_DYNAMO_BACKEND=no \
    ACCELERATE_DYNAMO_MODE=default ACCELERATE_DYNAMO_USE_FULLGRAPH=False ACCELERATE_DYNAMO_USE_DYNAMIC=False \
    ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION=False ACCELERATE_USE_FSDP=false ACCELERATE_USE_IPEX=false \
    ACCELERATE_USE_XPU=none ACCELERATE_USE_MPS_DEVICE=False FSDP_OFFLOAD_PARAMS=false FSDP_MIN_NUM_PARAMS=0 \
    FSDP_AUTO_WRAP_POLICY=NO_WRAP FSDP_USE_ORIG_PARAMS=true ACCELERATE_DEEPSPEED_ZERO_STAGE=1 ACCELERATE_CPU_AFFINITY=1 \
    "$yoke" estimate-memory --model mlp

followed() { # a job takes them where the command line does not say
    set -- estimate-memory --model mlp --model-config hidden=64 --json
    ACCELERATE_MIXED_PRECISION=bf16 "$yoke" "$@" >"$out/told" && "$yoke" "$@" --precision bf16 >"$out/typed" || return 1
    ACCELERATE_MIXED_PRECISION=bf16 "$yoke" "$@" --precision fp32 >"$out/over" && "$yoke" "$@" >"$out/plain" || return 1
    cmp "$out/told" "$out/typed" && cmp "$out/over" "$out/plain" && ! cmp -s "$out/told" "$out/plain" || return 1
    ACCELERATE_GRADIENT_ACCUMULATION_STEPS=2 "$yoke" "$@" >"$out/told" && "$yoke" "$@" --gradient-accumulation-steps 2 >"$out/typed" &&
        cmp "$out/told" "$out/typed" && ! cmp -s "$out/told" "$out/plain"
}
ok "ACCELERATE_MIXED_PRECISION and ACCELERATE_GRADIENT_ACCUMULATION_STEPS" followed

report() { # yoke env: all of it as text and as JSON, also where a variable is refused
    ACCELERATE_USE_CPU=1 YOKE_DEVICES='' YOKE_WIRE=bf16 YOKE_CUT=nodes "$yoke" env --shares equal --json >"$out/env" 2>"$out/err"
    [ $? = 2 ] && grep -q "YOKE_CUT=nodes: expected" "$out/err" || return 1
    ACCELERATE_USE_CPU=1 YOKE_DEVICES='' YOKE_WIRE=bf16 YOKE_CUT=nodes "$yoke" env --shares equal >"$out/text" 2>/dev/null
    python3 - "$out/env" "$out/text" <<'P'
import json, sys
env, text = json.load(open(sys.argv[1])), open(sys.argv[2]).read()
says = {e["name"]: (e["value"], e["from"]) for e in env["environment"]}
assert env["version"] and env["system"] and env["libraries"] and any(p["name"] == "cpu" for p in env["plugins"])
assert says["YOKE_WIRE"] == ("bf16", "environment") and says["YOKE_SHARES"] == ("equal", "option")
assert says["YOKE_LOG"] == ("warn", "default")
assert says["YOKE_DEVICES"] == ("cpu", "environment, ACCELERATE_USE_CPU")
missing = [n for n in list(says) + [env["version"], env["system"]] + [p["name"] for p in env["plugins"]] if n not in text]
assert not missing, missing
P
}
ok "yoke env" report

setuid_env() { # a program with more rights than its caller takes no paths from the environment; numbers it may
    cp "$yoke" "$out/privileged" && chmod 4755 "$out/privileged" && chmod 755 "$out" || return 1
    python3 - "$out/privileged" <<'P' >"$out/env"
import os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
os.execve(sys.argv[1], ["yoke", "info", "--env"], {"YOKE_PLUGIN_DIR": "/mine", "YOKE_CACHE_DIR": "/mine", "YOKE_JOIN_MS": "77"})
P
    grep -q "^YOKE_JOIN_MS *77 *(environment" "$out/env" && ! grep -q /mine "$out/env"
}
if [ "$(id -u)" = 0 ] && ! findmnt -no OPTIONS -T "$out" 2>/dev/null | grep -q nosuid; then
    ok "a setuid program takes no paths from the environment" setuid_env
else
    skip "a setuid program takes no paths from the environment" "that takes root and a file system with setuid"
fi

ok "a part of the built-in tests" refuses 2 "--only has no effect without --golden or --vectors" test --only sgd
ok "two folders of tests" refuses 2 "--vectors has no effect beside --golden" test --golden "$out/a" --vectors "$out/b"
for option in --threads=1 --devices=nothere:0 --model=gpt2 --precision=bf16 --optim=sgd --rounds=2 --global-batch=4 --allow-substitute; do
    ok "peaks of a step: $option" refuses 2 "${option%=*} has no effect with bench peaks" bench peaks "$option"
done
ok "threads beside devices" refuses 2 "--devices has no effect beside --threads: give one of them" bench step --threads 1 --devices cpu:0-1
ok "rounds of a step" refuses 2 "--rounds has no effect with bench step" bench step --rounds 3
ok "rounds of an overhead" refuses 2 "--rounds has no effect with bench step-overhead" bench step-overhead --rounds 7
ok "weights of an overhead" refuses 2 "--save-init has no effect with bench step-overhead" bench step-overhead --save-init "$out/no"
ok "data of a mix" refuses 2 "--data has no effect with bench mixed" bench mixed --devices "cpu:0 cpu:0" --data "idx:$out/images"
estimates="estimate-memory --model mlp"
# shellcheck disable=SC2086
{
    ok "a momentum of adamw, estimated" refuses 2 "--momentum has no effect without --optim sgd" $estimates --momentum 0.3
    ok "threads beside devices, estimated" refuses 2 "--devices has no effect beside --threads: give one of them" \
        $estimates --threads 1 --devices cpu:0
    ok "two batch sizes, estimated" refuses 2 "--per-device-train-batch-size has no effect beside --global-batch" $estimates \
        --global-batch 4 --per-device-train-batch-size 2
    ok "a batch of no evaluation, estimated" refuses 2 "--per-device-eval-batch-size has no effect where nothing is evaluated" $estimates \
        --no-do-eval --per-device-eval-batch-size 7
}
ok "steps of no evaluation" train 2 "--eval-steps has no effect where nothing is evaluated during training" --no-do-eval --eval-steps 7
ok "steps of no evaluation, told once" train 2 "--eval-steps has no effect with --eval-strategy no" --eval-strategy no --eval-steps 7
ok "a batch of no evaluation" train 2 "--per-device-eval-batch-size has no effect where nothing is evaluated" --no-do-eval \
    --per-device-eval-batch-size 7
no_predictions() { # before the first step, and before the output folder is there
    printf 'text,label\na,0\nb,1\nc,0\nd,1\n' >"$out/t.csv"
    "$yoke" train --model bert --tokenizer bytes --data "csv:$out/t.csv" --global-batch 2 --max-length 8 --max-steps 1 --do-predict \
        --model-config hidden_size=8,num_hidden_layers=1,num_attention_heads=1,intermediate_size=8 --output-dir "$out/no-rows" 2>"$out/err"
    [ $? = 2 ] && grep "error: .*--do-predict: there is no evaluation data" "$out/err" && ! grep "^step " "$out/err" &&
        [ ! -e "$out/no-rows" ]
}
ok "predictions for no rows" no_predictions
ok "no checkpoint to go on from" train 2 "there is no checkpoint" --resume-from-checkpoint last
ok "an output folder without a name" train 2 "--output-dir is empty" --output-dir ""
ok "a checkpoint that is not there" train 2 "no/such/trainer_state.json: cannot be opened" --resume-from-checkpoint no/such
ok "a log in a folder that is not there" train 1 "--log /proc/no/log: No such file or directory" --log /proc/no/log
ok "a tokenizer with images" train 2 "--tokenizer has no effect with images" --tokenizer bytes
ok "a length of rows with images" train 2 "--max-length has no effect with images" --max-length 5
ok "a length of windows with images" train 2 "--seq-len has no effect with images" --seq-len 5
ok "rows of like length with images" train 2 "--group-by-length has no effect but with rows of text" --group-by-length
in_rank() { # beside the launcher's line about the rank
    "$yoke" launch -- "$yoke" train --model mlp --data "idx:$out/images" --output-dir "$out/no" --devices cpu:0 2>"$out/err"
    [ $? = 2 ] && grep -q -e "--devices has no effect in a rank of a job" "$out/err" && [ "$(wc -l <"$out/err")" = 2 ]
}
ok "devices in a rank" in_rank
ok "an evaluation batch of nothing, told once" refuses 2 "--per-device-eval-batch-size 0: expected" eval --from "$out/no" \
    --data "idx:$out/images" --per-device-eval-batch-size 0
ok "data that is not there, on two ranks" train 2 "/nonexistent/" --data idx:/nonexistent --devices "cpu:0! cpu:0!"

# A rate that throws a run out of fp16's range: every later update is skipped, and no scale brings it back.
diverges() {
    timeout 120 "$yoke" train --model mlp --data "idx:$out/images" --output-dir "$out/diverged" --global-batch 32 --precision fp16 \
        --optim sgd --learning-rate 1e4 --max-grad-norm 0 --max-steps 500 --eval-steps 1000
    [ $? = 1 ] && [ ! -e "$out/diverged/model.safetensors" ]
}
ok "fp16 that diverges ends" diverges

mlp "$out/model" --max-steps 1 >/dev/null 2>&1
mkdir "$out/cut" "$out/short"
cp "$out/model/config.json" "$out/cut"
head -c 3000 "$out/model/model.safetensors" >"$out/cut/model.safetensors"
ok "a safetensors file cut short" refuses 2 "cut/model.safetensors: byte" eval --from "$out/cut" --data "idx:$out/images"
cp "$out"/images/* "$out/short"
head -c 5000 "$out/images/t10k-images-idx3-ubyte" >"$out/short/t10k-images-idx3-ubyte"
other_shape() { # as many pixels in other places
    cp -r "$out/images" "$out/wide" && python3 - "$out/wide/t10k-images-idx3-ubyte" <<'P' || return 1
import sys
b = open(sys.argv[1], "rb").read()
open(sys.argv[1], "wb").write(b[:8] + (14).to_bytes(4, "big") + (56).to_bytes(4, "big") + b[16:])
P
    train 2 "the images of the idx data are 1x14x56, those that model mlp was made for 1x28x28: expected" --data "idx:$out/wide"
}
ok "images to evaluate of another shape" other_shape
ok "an IDX file cut short" refuses 2 "short/t10k-images-idx3-ubyte: byte" eval --from "$out/model" --data "idx:$out/short"
ok "a model that is not there" refuses 2 "no/config.json: cannot be opened" eval --from "$out/no" --data "idx:$out/images"

# A disk that is full when the last of the output is written: the exit code says so, and one line.
full() { # full WORDS ARGUMENTS...
    words=$1
    shift
    "$yoke" "$@" >/dev/full 2>"$out/err"
    code=$?
    grep -v -e '^rank  device spec' -e '^[0-9]* *cpu:0' -e '^step ' -e 'eval loss' "$out/err" >"$out/lines"
    cat "$out/err"
    [ $code = 1 ] && [ "$(wc -l <"$out/lines")" = 1 ] && grep -qF -e "$words" "$out/lines" &&
        grep -q "No space left\|a write failed" "$out/lines"
}
printf 'one line\n' >"$out/text"
seq 1 20000 >"$out/long"
short="--model mlp --data idx:$out/images --overwrite-output-dir --output-dir $out/full --max-steps 1"
ok "a full disk behind tokenize" full "yoke tokenize: standard output" tokenize --tokenizer bytes "$out/text"
ok "a full disk behind much of tokenize" full "yoke tokenize: standard output" tokenize --tokenizer bytes "$out/long"
ok "a full disk behind inspect" full "yoke inspect: standard output" inspect "$out/model/model.safetensors"
ok "a full disk behind inspect --json" full "yoke inspect: standard output" inspect --json "$out/model/model.safetensors"
ok "a full disk behind --help" full "yoke train: standard output" train --help
ok "a full disk behind the list of commands" full "yoke: standard output" --help
# shellcheck disable=SC2086
ok "a full disk behind train --json" full "yoke train: standard output" train $short --json
full_log() {
    # shellcheck disable=SC2086
    refuses 1 "--log /dev/full: " train $short --json --log /dev/full && [ -s "$out/full/model.safetensors" ]
}
ok "a full disk behind --log: the model is saved all the same" full_log
no_output() { # it writes nothing there and does not miss it
    "$yoke" tokenize --tokenizer bytes "$out/empty" >&- 2>"$out/err"
}
: >"$out/empty"
ok "no standard output, and nothing to write" no_output

# What stands at the place of a result stays what it is: a pipe, a device, a link, the input itself, a file under a near name.
kept_kinds() (
    cd "$out" && "$yoke" tokenize --tokenizer bytes text --output ids && mkfifo pipe && ln -s old link && ln -s /dev/full full.bin &&
        ln -s /dev/null null.bin && ln -s new dangling && echo old | tee old ids.yoke >ids.tmp && exec 3<>pipe || return 1
    for to in pipe link null.bin dangling ids; do
        "$yoke" tokenize --tokenizer bytes text --output "$to" || return 1
    done
    head -c "$(wc -c <ids)" <&3 | cmp - ids && exec 3>&- && [ -p pipe ] && [ -L link ] && [ -L null.bin ] && [ -c /dev/null ] &&
        cmp old ids && cmp new ids && cmp ids.yoke ids.tmp &&
        refuses 1 "full.bin: writing failed" tokenize --tokenizer bytes text --output full.bin && [ -L full.bin ] &&
        refuses 1 "pipe: is a FIFO that no program reads: start its reader first" tokenize --tokenizer bytes text --output pipe
)
ok "a pipe, a device and a link take the result, and stay what they are" kept_kinds
kept_open() ( # a name of an open file: what is there before and comes after stays
    cd "$out" && ln -s /dev/stdout standing && "$yoke" tokenize --tokenizer bytes text --output ids || return 1
    for to in /dev/stdout /dev/fd/1 /proc/self/fd/1 standing; do
        { echo head; "$yoke" tokenize --tokenizer bytes text --output $to; echo tail; } >opened || return 1
        { echo head; cat ids; echo tail; } | cmp - opened || return 1
    done
    { echo head; "$yoke" config --config-file /dev/stdout --devices cpu --force; echo tail; } >opened || return 1
    "$yoke" config --config-file settings.yaml --devices cpu && { echo head; cat settings.yaml; echo tail; } | cmp - opened || return 1
    # shellcheck disable=SC2086
    { echo head; "$yoke" trace --steps 1 --skip 0 --output /dev/stdout -- "$yoke" train $short --json; echo; echo tail; } >opened ||
        return 1
    [ "$(sed -n '1p;$p' opened | xargs)" = "head tail" ] && grep -q '^{"traceEvents".*}$' opened || return 1
    { echo head; "$yoke" predict --from model --data idx:images --output /dev/stdout; echo tail; } >opened || return 1
    [ "$(sed -n '1p;$p' opened | xargs)" = "head tail" ] && [ "$(wc -l <opened)" = 202 ] || return 1
    # shellcheck disable=SC2086
    { echo head; "$yoke" train $short --log /dev/stdout; echo tail; } >opened || return 1
    cat opened
    [ "$(sed -n '1p;$p' opened | xargs)" = "head tail" ] && grep -q '"final": true' opened
)
ok "a result behind /dev/stdout stands between the lines before and after" kept_open
kept_input() (
    cd "$out" && printf 'one line\n' | tee rows.txt >rows && ln rows.txt hard && ln -s rows.txt soft || return 1
    for to in rows.txt hard soft; do
        refuses 2 "which would be lost" tokenize --tokenizer bytes rows.txt --output $to &&
            refuses 2 "which would be lost" predict --from model --data lines:rows.txt --output $to &&
            refuses 2 "which would be lost" train --model bert --tokenizer bytes --data csv:rows.txt --log $to --output-dir no &&
            cmp rows rows.txt || return 1
    done
    mkdir tok && printf '[UNK]\na\n' >tok/vocab.txt && echo 1 | tee er a.bin >b.bin && cp rows c+d.txt &&
        echo '{"train_batch_size": 4, "gradient_clipping": 1.0}' | tee ds.json >cat.json || return 1
    stays() { # stays FILE ARGUMENTS...
        file=$1
        shift
        cp "$file" same && refuses 2 "would be lost" "$@" && cmp same "$file" || { echo "$file: $*"; return 1; }
    }
    kept() { # kept FILE ARGUMENTS...: with the file behind them
        stays "$@" "$1"
    }
    new="train --output-dir no --model bert --tokenizer bytes --data"
    # shellcheck disable=SC2086
    kept b.bin train --output-dir no --model gpt2 --data tokens:a.bin+b.bin --log && kept c+d.txt $new csv:c+d.txt --log &&
        kept er $new csv:rows.txt --eval-rows er --log && kept ds.json $new csv:rows.txt --deepspeed ds.json --log &&
        kept cat.json $new csv:rows.txt,text=one,categories=cat.json --log &&
        kept images/t10k-labels-idx1-ubyte train --output-dir no --model mlp --data idx:images --log &&
        kept model/config.json predict --from model --data idx:images --output &&
        kept model/model.safetensors train --from model --data idx:images --output-dir no --log &&
        kept tok/vocab.txt tokenize --tokenizer tok text --output &&
        "$yoke" predict --from model --data idx:images --output model/config.json.txt || return 1
    mkdir tk o8 && cp rows.txt o8 && cp rows.txt o8/predictions.jsonl && cp cat.json o8/categories.json &&
        printf 'yoke: 1\ntrain:\n  log: ds.json\n' >in.yaml &&
        head -c 64 /dev/zero | tee tk/a2.bin >tk/part.u16 || return 1
    # shellcheck disable=SC2086
    kept tk/a2.bin train --output-dir no --model gpt2 --data 'tokens:tk/*.bin' --log &&
        kept tk/part.u16 train --output-dir no --model gpt2 --data tokens:tk --log &&
        kept o8/categories.json $new csv:o8/rows.txt,text=one --log && kept ds.json $new csv:rows.txt --config-file in.yaml --deepspeed &&
        stays o8/predictions.jsonl train --output-dir o8 --model bert --tokenizer bytes --data csv:rows.txt --do-predict --eval-data \
            jsonl:o8/predictions.jsonl &&
        stays ds.json trace --output ds.json -- "$yoke" $new csv:rows.txt --deepspeed ds.json
)
ok "a result in the place of its input is refused" kept_input
kept_settings() ( # files that no argument names
    cd "$out" && mkdir -p home/yoke && printf 'yoke: 1\ntrain:\n  learning-rate: 0.1\n' | tee home/yoke/config.yaml >env.yaml || return 1
    new="train --output-dir no --model bert --tokenizer bytes --data csv:rows.txt --log"
    # shellcheck disable=SC2030,SC2086
    (export YOKE_CONFIG_FILE=env.yaml && refuses 2 "which would be lost" $new env.yaml) && cmp env.yaml home/yoke/config.yaml || return 1
    # shellcheck disable=SC2086
    (unset YOKE_CONFIG_FILE && export XDG_CONFIG_HOME="$PWD/home" && ! "$yoke" $new home/yoke/config.yaml 2>err) && cat err &&
        grep -q "home/yoke/config.yaml: is a file of the settings, which would be lost" err && cmp env.yaml home/yoke/config.yaml
)
ok "so is one in the place of settings that no argument names" kept_settings
again() ( # each twice: an earlier result is no input
    cd "$out" && mkdir again && printf '[UNK]\n[CLS]\n[SEP]\na\n' >again/vocab.txt && echo 'a a' >again/text || return 1
    twice() { # twice ARGUMENTS...
        "$yoke" "$@" && "$yoke" "$@" || { echo "twice: $*"; return 1; }
    }
    # shellcheck disable=SC2086
    twice tokenize --tokenizer again again/text --output again/ids.bin && twice train $short --log images/log.gz &&
        twice train $short --run-name exp1 --report-to tensorboard --log exp1 &&
        twice train $short --log run.jsonl --log run.jsonl &&
        twice trace --steps 1 --skip 0 --output t.json -- "$yoke" train $short || return 1
    (cd again && twice tokenize --tokenizer . text --output train.bin) && rm images/log.gz || return 1
    mkdir logged && cp tk/a2.bin logged && echo '{"step": 1}' >logged/log.jsonl && # which fails for its few rows
        ! "$yoke" train --output-dir no --model gpt2 --data tokens:logged --log logged/log.jsonl 2>err && ! grep "would be lost" err
)
ok "a result takes the place of an earlier one beside inputs" again
weak() { # weak ARGUMENTS...: without root's right to write anywhere
    if [ "$(id -u)" = 0 ]; then
        setpriv --bounding-set=-dac_override,-dac_read_search "$@"
    else
        "$@"
    fi
}
no_folder() ( # a file that may be written, in a folder that may not
    cd "$out" && mkdir ro && echo old | tee ro/rows >ro/ids && echo a much longer old text >>ro/ids && chmod 555 ro || return 1
    ! weak touch ro/new && weak "$yoke" predict --from model --data idx:images --output ro/rows && [ "$(wc -l <ro/rows)" = 200 ] &&
        weak "$yoke" tokenize --tokenizer bytes text --output ro/ids && cmp ids ro/ids &&
        weak "$yoke" config --config-file ro/rows --devices cpu --force && cmp settings.yaml ro/rows || return 1
    ! weak "$yoke" predict --from model --data idx:images --output ro/new 2>err && grep -q -e "--output ro/new: Permission denied" err
)
mounted() ( # a file that a bind put there
    cd "$out" && echo old | tee bound >place && unshare -rm sh -c 'mount --bind bound place && "$@" --output place' sh \
        "$yoke" predict --from model --data idx:images && [ "$(wc -l <bound)" = 200 ] &&
        unshare -rm sh -c 'mount --bind bound place && "$@" --output place' sh "$yoke" tokenize --tokenizer bytes text && cmp ids bound
)
if [ "$(id -u)" != 0 ] || setpriv --bounding-set=-dac_override,-dac_read_search true 2>/dev/null; then
    ok "a file whose folder takes no new one is written itself" no_folder
    chmod 755 "$out/ro"
else
    skip "a file whose folder takes no new one is written itself" "no right to drop a right"
fi
if : >"$out/bound" && : >"$out/place" && unshare -rm mount --bind "$out/bound" "$out/place" 2>/dev/null; then
    ok "a file that is a mount point is written itself" mounted
else
    skip "a file that is a mount point is written itself" "no right to mount"
fi

# An input that is missing or not to be read is 2 in every command.
missing() {
    mkdir -p "$out/bare" && printf '{"model_type": "whale"}' >"$out/bare/config.json" || return 1
    for arguments in "tokenize --tokenizer bytes $out/nosuch" "tokenize --tokenizer $out/nosuch $out/text" "inspect $out/nosuch" \
        "eval --from $out/nosuch --data idx:$out/images" "eval --from $out/model --data idx:$out/nosuch" \
        "eval --from $out/model --data csv:$out/nosuch --tokenizer bytes" "eval --from $out/bare --data idx:$out/images" \
        "eval --from $out/model --data csv:$out/text --tokenizer $out/nosuch" "eval --from $out/model --data idx:$out/text" \
        "train --from $out/nosuch --data idx:$out/images --output-dir $out/x" "eval --from $out/model --data cifar10:$out/bare"; do
        # shellcheck disable=SC2086
        refuses 2 "$out/" $arguments || { echo "$arguments: exit code $code"; return 1; }
    done
}
ok "an input that is not there" missing

# What other programs take for missing, too long or cut is none of that.
words_count() { # NA, null and None are classes; a field of 360 kB is one; a word has up to 100 characters
    printf 'text,label\nNA,null\nnull,NA\nnan,None\nNone,null\n' >"$out/na.csv" && mkdir -p "$out/words" || return 1
    python3 -c '
import sys
open(sys.argv[1] + "/big.csv", "w").write("text,label\n\"" + "word " * 72000 + "\",1\nb,0\n")
open(sys.argv[1] + "/words/vocab.txt", "w").write("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\n")
open(sys.argv[1] + "/long", "w").write("a" * 100 + "\n" + "a" * 101 + "\n")' "$out"
    "$yoke" inspect "$out/na.csv" --as csv,text=text,label=label | grep -q '^class names: *NA, None, null$' &&
        "$yoke" inspect "$out/big.csv" --as csv,text=text,label=label | grep -q '^rows: *2$' &&
        "$yoke" tokenize --tokenizer "$out/words" "$out/long" 2>/dev/null >"$out/ids" &&
        [ "$(head -n 1 "$out/ids")" = "2 5 $(printf '6 %.0s' $(seq 99))3" ] && [ "$(tail -n 1 "$out/ids")" = "2 1 3" ]
}
ok "words that are no missing values, long fields, long words" words_count
printf 'abcd' >"$out/few"
ok "running text that is shorter than a window" refuses 2 "3 ids to train: expected at least 33" train --model gpt2 --model-config \
    n_layer=1,n_head=1,n_embd=8,n_positions=32 --data "text:$out/few,tokenizer=bytes" --seq-len 32 --max-steps 1 --output-dir "$out/no"
twice_named() { # a key that is there twice is no guess: a line's, an array element's, and a key that is not read
    printf '{"text": "a", "label": 1, "label": 0}\n' >"$out/twice.jsonl"
    printf '[{"text": "a", "text": "b", "label": 0}]\n' >"$out/twice.json"
    for file in twice.jsonl twice.json; do
        "$yoke" inspect "$out/$file" --as jsonl,text=text,label=label >"$out/err" 2>&1
        [ $? = 2 ] && grep -q "$file: .*duplicate object key" "$out/err" || { cat "$out/err"; return 1; }
    done
    printf 'text,label\na\0b,1\nb,0\n' >"$out/nul.csv"
    "$yoke" inspect "$out/nul.csv" --as csv,text=text,label=label >"$out/err" 2>&1
    [ $? = 2 ] && grep -qi "NUL" "$out/err" || { cat "$out/err"; return 1; }
}
ok "a key twice in JSON lines, a NUL in CSV" twice_named
# Each of them waited without a word, and one SIGTERM did not end it.
fifos() {
    mkfifo "$out/fifo" || return 1
    set -- train --model gpt2 --model-config n_layer=1,n_head=1,n_embd=8,n_positions=32 --seq-len 32 --devices cpu:0 --max-steps 1 \
        --global-batch 4 --eval-strategy no --no-do-eval --output-dir "$out/fo"
    head -c 4000 /dev/zero | tr '\0' a >"$out/running"
    timeout -s KILL 60 "$yoke" "$@" --data "text:$out/running,tokenizer=bytes" --log "$out/fifo" >"$out/err" 2>&1
    grep -q "fifo: is a FIFO that no program reads" "$out/err" || { cat "$out/err"; return 1; }
    YOKE_STUCK_MS=1500 timeout -s KILL 60 "$yoke" "$@" --data "text:$out/fifo,tokenizer=bytes" >"$out/err" 2>&1
    [ $? -eq 1 ] && grep -q "no progress in reading or writing a file" "$out/err" || { cat "$out/err"; return 1; }
    (exec >"$out/fifo"; sleep 3; cat "$out/running") & # a producer that thinks is no disk that hangs
    YOKE_STUCK_MS=1500 timeout -s KILL 60 "$yoke" "$@" --data "text:$out/fifo,tokenizer=bytes" >"$out/err" 2>&1
    [ $? -eq 0 ] || { cat "$out/err"; return 1; }
    wait
}
ok "a FIFO that is slow, and one without another program, as log and as data" fifos
no_places() { # a command's error ends in no line of the command's own source, as no call of its files notes one
    find "$YOKE_BUILD/tools" -name 'yoke-*.o' >"$out/objects"
    [ "$(wc -l <"$out/objects")" -ge 50 ] && xargs nm -A <"$out/objects" >"$out/symbols" && grep -q ' U yk_step$' "$out/symbols" || return 1
    ! grep ' U yk_here$' "$out/symbols"
}
ok "no call of a command notes its line" no_places
plan
