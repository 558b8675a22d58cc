#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What Hugging Face's Trainer calls strategies and the like: when a training evaluates, saves, logs and stops, what is best, and
# options that change the training itself, each against a calculation of its own.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist models
export YOKE_DEVICES=cpu:0
small_images "$out/images"
run=0

train() { # train ARGUMENTS...: 30 steps, 1.5 epochs of 20; log in $log
    run=$((run + 1))
    log=$out/log.$run
    mlp "$out/run.$run" --log "$log" "$@" >"$out/stdout" 2>"$out/err" || { cat "$out/err"; return 1; }
}

steps() { # steps KEY LIST: the steps whose lines of the log have the key
    got=$(python3 -c 'import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
print(*[r["step"] for r in rows if sys.argv[2] in r and "final" not in r])' "$log" "$1")
    [ "$got" = "$2" ] || { echo "$1: $got, expected $2"; return 1; }
}

evaluations() { # evaluations LIST ARGUMENTS...
    want=$1
    shift
    train "$@" && steps eval_loss "$want"
}
ok "no evaluation" evaluations "" --eval-strategy no
plainly "no evaluation, said the other way" evaluations "" --do_eval False
plainly "by epochs, and at the end" evaluations "20 30" --evaluation_strategy epoch
plainly "by epochs if nothing is said" evaluations "20 30"
ok "by steps, the last of which is the end: once" evaluations "10 20 30" --eval-steps 10
plainly "by steps, and at the end" evaluations "12 24 30" --eval-strategy steps --eval-steps 12
plainly "by part of all steps" evaluations "15 30" --eval-steps 0.5
plainly "at the end alone" evaluations "30" --eval-strategy no --do-eval
ok "before the first step" evaluations "0 20 30" --eval-on-start
ok "not before a number of steps" evaluations "20 30" --eval-steps 5 --eval-delay 20 --eval_steps 10
plainly "not before a number of epochs" evaluations "30" --eval-delay 1.2
fewer() {
    train --max-eval-samples 50 --eval-strategy no --do-eval --json && "$yoke" eval --from "$out/run.$run" \
        --per-device-eval-batch-size 32 --data "idx:$out/images" \
        --max-eval-samples 50 --json >"$out/few" 2>/dev/null && [ "$(field total "$out/few")" = 50 ] &&
        [ "$(field eval_loss "$out/few")" = "$(field eval_loss "$out/stdout")" ]
}
ok "on the first rows alone" fewer

lines() { # lines LIST ARGUMENTS...
    want=$1
    shift
    train "$@" && steps loss "$want"
}
plainly "logging by steps" lines "10 20 30" --logging-steps 10
ok "the first step has a line too" lines "1 20 30" --logging-strategy epoch --logging-steps 0 --logging-first-step
plainly "no logging" lines "" --logging-strategy no --logging-steps 0

kept() { # kept LIST ARGUMENTS...: checkpoints that are left
    want=$1
    shift
    train "$@" || return 1
    got=$(cd "$out/run.$run" && echo checkpoint-*)
    [ "$got" = "$want" ] || { echo "$got"; return 1; }
}
ok "a checkpoint by epochs" kept checkpoint-20 --save-strategy epoch
plainly "a checkpoint by part of all steps" kept "checkpoint-15 checkpoint-30" --save-steps 0.5
plainly "no checkpoint" kept "checkpoint-*" --save-strategy no
ok "the best alone" kept checkpoint-best --save-strategy best --eval-steps 10

# The loss falls: where more of it is better, the first evaluation is the best.
best() {
    train --eval-steps 5 --load_best_model_at_end True --metric_for_best_model eval_loss --greater-is-better --json || return 1
    "$yoke" eval --from "$out/run.$run" --data "idx:$out/images" --per-device-eval-batch-size 32 --json >"$out/eval" 2>/dev/null || return 1
    python3 - "$log" "$out/eval" "$out/stdout" <<'P'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
evals = {r["step"]: r["eval_loss"] for r in rows if "eval_loss" in r and "final" not in r}
saved, final = (json.load(open(f))["eval_loss"] for f in sys.argv[2:])
assert max(evals.values()) == evals[5] and saved == evals[5] and final == evals[5], (evals, saved, final)
P
}
ok "the model of the best evaluation is the one that is left" best
ok "stopped early after two without a better one" evaluations "5 10 15" --eval-steps 5 --early-stopping-patience 2 --greater-is-better
plainly "it takes no threshold as long as it falls" evaluations "10 20 30" --eval-steps 10 --early-stopping-patience 1
ok "what is gained is below the threshold" evaluations "10 20" --eval-steps 10 --early-stopping-patience 1 --early-stopping-threshold 5
resumed() { # what a checkpoint knew of the best counts on
    set -- --eval-steps 5 --early-stopping-patience 3 --greater-is-better
    train "$@" --save-steps 10 && steps eval_loss "5 10 15 20" || return 1
    from=$out/run.$run/checkpoint-10
    train "$@" --resume-from-checkpoint "$from" && steps eval_loss "15 20" || return 1
    for last in last True; do
        mkdir "$out/run.$((run + 1))" && cp -r "$from" "$out/run.$((run + 1))" &&
            train "$@" --resume-from-checkpoint $last && steps eval_loss "15 20" || return 1
    done
}
ok "a resumed training waits as long in all" resumed

# Steps that were given up had a better model, which is not the one that is left where the training goes on otherwise.
resumed_best() { # resumed_best FOLDER CHECKPOINT STEP: at a rate that spoils the model; the best one is that of STEP
    "$yoke" train --model mlp --model-config hidden=32 --data "idx:$out/images" --global-batch 32 --max-steps 30 --eval-steps 10 \
        --load-best-model-at-end --learning-rate 3 --output-dir "$1" --resume-from-checkpoint "$2" --log "$out/best.log" --json \
        --save-steps 20 >"$out/stdout" 2>"$out/err" && "$yoke" eval --from "$1" --data "idx:$out/images" --json \
        --per-device-eval-batch-size 32 >"$out/eval" 2>/dev/null ||
        { cat "$out/err"; return 1; }
    python3 - "$out/best.log" "$out/stdout" "$out/eval" "$out/first.log" "$3" <<'P'
import json, sys
rows = lambda k: [r for r in map(json.loads, open(sys.argv[k])) if "eval_loss" in r and "final" not in r]
second, first = ({r["step"]: r["eval_loss"] for r in rows(k)} for k in (1, 4))
told, left = (json.load(open(sys.argv[k]))["eval_loss"] for k in (2, 3))
step = int(sys.argv[5])
assert told == left == {**first, **second}[step] and told <= min(second.values()), (first, second, told, left)
P
}
given_up() {
    train --eval-steps 10 --save-steps 10 --load-best-model-at-end && cp "$log" "$out/first.log" || return 1
    from=$out/run.$run
    cp -r "$from" "$out/again" && resumed_best "$out/again" "$out/again/checkpoint-20" 20 &&
        resumed_best "$out/new" "$from/checkpoint-20" 20
}
ok "the best model is that of the steps which led to it" given_up
looked_for() { # the checkpoint is not itself the best, which is not there
    train --eval-steps 10 --save-steps 15 --load-best-model-at-end && resumed_best "$out/other" "$out/run.$run/checkpoint-15" 30 || return 1
    grep "the best model so far, of step 10, is not in $out/other/checkpoint-best: the best one is looked for from here on" "$out/err"
}
ok "a best model that is nowhere is looked for anew, and said so" looked_for
taken_along() { # the steps behind it are worse, in another output folder; a further run finds the best one there
    train --eval-steps 10 --save-steps 15 --max-steps 15 --load-best-model-at-end && cp "$log" "$out/first.log" || return 1
    from=$out/run.$run
    resumed_best "$out/elsewhere" "$from/checkpoint-15" 10 &&
        grep "the best model so far, of step 10, is $from/checkpoint-best" "$out/err" &&
        cmp "$out/elsewhere/model.safetensors" "$from/checkpoint-best/model.safetensors" &&
        ln -s "$from/checkpoint-15" "$out/latest" && resumed_best "$out/linked" "$out/latest" 10 &&
        rm -r "$out/linked/checkpoint-best" && # as after a run that was interrupted
        resumed_best "$out/linked" "$out/linked/checkpoint-20" 10 && rm -r "$from" &&
        resumed_best "$out/elsewhere" "$out/elsewhere/checkpoint-20" 10 && ! grep "looked for" "$out/err"
}
ok "a run that goes on in another folder finds the best model in its checkpoint's" taken_along

# A run with larger batches counts steps otherwise: 4 an epoch, then 2. A step's number alone says nothing about a best model of before.
counted_otherwise() { # counted_otherwise FIRST SECOND ARGUMENTS...: FIRST steps, then on to SECOND, at a rate that spoils the model
    first=$1 second=$2
    shift 2
    set -- --max-train-samples 128 --warmup-steps 0 "$@"
    rm -rf "$out/first" "$out/second"
    mlp "$out/first" --save-steps "$first" "$@" --max-steps "$first" && cp -r "$out/first" "$out/second" &&
        mlp "$out/second" --save-steps "$second" "$@" --global-batch 64 --learning-rate 3 --max-steps "$second" \
            --resume-from-checkpoint "$out/first/checkpoint-$first" 2>"$out/err" || { cat "$out/err"; return 1; }
}
best_of_before() { # its step has the number of the new run's last one
    counted_otherwise 8 8 --max-eval-samples 60 --eval-steps 2 --load-best-model-at-end &&
        grep "the best model is that of step 8" "$out/err" && cmp "$out/first/model.safetensors" "$out/second/model.safetensors"
}
ok "the best model is that of a run which counted otherwise" best_of_before
not_this_one() { # the best one's step has the number at which the new run goes on, and that model is gone
    set -- --max-train-samples 128 --eval-steps 2 --max-steps 4 --warmup-steps 0 --load-best-model-at-end --greater-is-better
    mlp "$out/first" "$@" --save-steps 4 2>"$out/err" && grep "the best model is that of step 2" "$out/err" &&
        rm -r "$out/first/checkpoint-best" &&
        mlp "$out/third" "$@" --global-batch 64 --resume-from-checkpoint "$out/first/checkpoint-4" 2>"$out/err" && cat "$out/err" &&
        grep "the best model so far, of step 2, is not in $out/third/checkpoint-best: the best one is looked for from here on" "$out/err"
}
ok "a model at the number of the best one's step is another" not_this_one
logged_otherwise() { # each way of going on keeps the lines that led to its checkpoint
    log=$out/otherwise.log
    counted_otherwise 12 8 --eval-strategy no --no-do-eval --log "$log" && steps loss "1 2 3 4 5 6 7 8 9 10 11 12 7 8" &&
        mlp "$out/second" --max-train-samples 128 --global-batch 64 --max-steps 9 --eval-strategy no --no-do-eval --log "$log" \
            --resume-from-checkpoint "$out/second/checkpoint-8" && steps loss "1 2 3 4 5 6 7 8 9 10 11 12 7 8 9" && [ ! -e "$log.cut" ] &&
        mlp "$out/second" --max-train-samples 128 --global-batch 64 --max-steps 9 --eval-strategy no --no-do-eval --log "$log" \
            --resume-from-checkpoint "$out/second/checkpoint-8" && steps loss "1 2 3 4 5 6 7 8 9 10 11 12 7 8 9" && [ -e "$log.cut" ]
}
ok "the log of runs that counted otherwise" logged_otherwise

# What evaluates takes the mean and deviation of what trains, and so does the saved folder.
scaled() {
    train --data "idx:$out/images,mean=0.5,std=0.1" --max-steps 2 --max-eval-samples 60 --json && cp "$out/stdout" "$out/own" &&
        train --data "idx:$out/images,mean=0.5,std=0.1" --eval-data "idx:$out/images" --max-steps 2 --max-eval-samples 60 --json &&
        "$yoke" eval --from "$out/run.$run" --data "idx:$out/images" --max-eval-samples 60 --per-device-eval-batch-size 32 --json \
            >"$out/eval" 2>/dev/null || return 1
    cat "$out/own" "$out/stdout" "$out/eval"
    [ "$(field eval_loss "$out/own")" = "$(field eval_loss "$out/stdout")" ] &&
        [ "$(field eval_loss "$out/own")" = "$(field eval_loss "$out/eval")" ]
}
ok "mean and deviation of the training's images" scaled

rate_of_all() { # rate_of_all ARGUMENTS...: the report knows a speed, whatever was logged
    train --json "$@" && at_least "$(field samples_per_s "$out/stdout")" 1
}
ok "a speed without lines of a log" rate_of_all --logging-strategy no --logging-steps 0
early_end() { # the last step has a line where it was not known to be the last
    train --json --logging-steps 50 --eval-steps 10 --early-stopping-patience 1 --early-stopping-threshold 5 && steps loss 20 &&
        at_least "$(field samples_per_s "$out/stdout")" 1
}
ok "a training that stops early logs its last step" early_end

smoothing() { # the loss of the weights that were saved (rate 0), over all 32 rows, in Python's numbers
    mlp "$out/smooth" --max-train-samples 32 --max-steps 1 --learning-rate 0 --label-smoothing-factor 0.3 --log "$out/smooth.log" \
        --eval-strategy no >/dev/null 2>&1 || return 1
    python3 - "$out/images" "$out/smooth/model.safetensors" "$out/smooth.log" <<'P'
import json, math, struct, sys
b = open(sys.argv[2], "rb").read()
n, = struct.unpack("<Q", b[:8])
head = json.loads(b[8:8 + n])
def tensor(name):
    lo, hi = head[name]["data_offsets"]
    return struct.unpack("<%df" % ((hi - lo) // 4), b[8 + n + lo:8 + n + hi]), head[name]["shape"]
def linear(x, name):
    (w, (rows, cols)), (bias, _) = tensor(name + ".weight"), tensor(name + ".bias")
    return [sum(w[i * cols + j] * x[j] for j in range(cols)) + bias[i] for i in range(rows)]
images, labels = (open(sys.argv[1] + "/train-" + f, "rb").read() for f in ("images-idx3-ubyte", "labels-idx1-ubyte"))
total = 0
for r in range(32):
    x = [(p / 255 - 0.2860) / 0.3530 for p in images[16 + 784 * r:16 + 784 * (r + 1)]]
    z = linear([max(0, v) for v in linear(x, "fc1")], "fc2")
    log_sum = max(z) + math.log(sum(math.exp(v - max(z)) for v in z))
    total += 0.7 * (log_sum - z[labels[8 + r]]) + 0.3 * (log_sum - sum(z) / len(z))
got = [json.loads(line) for line in open(sys.argv[3])][0]["loss"]
print(got, total / 32)
assert abs(got - total / 32) < 2e-5 * got
P
}
ok "label smoothing" smoothing

rates() { # rates ARGUMENTS...: 30 steps, of which 0.1 warm up; the rate that is logged is the next step's
    "$yoke" train --model mlp --data "idx:$out/images" --global-batch 32 --max-steps 30 --logging-steps 1 --learning-rate 0.01 \
        --lr-scheduler-type constant_with_warmup --eval-strategy no --overwrite-output-dir --output-dir "$out/warm" "$@" \
        --log "$out/warm.log" 2>&1 || return 1
    python3 - "$out/warm.log" <<'P'
import json, sys
lr = [r["lr"] for r in map(json.loads, open(sys.argv[1])) if "loss" in r]
want = [0.01 * min(1, k / 3) for k in range(1, 31)]
assert len(lr) == 30 and all(abs(a - b) < 1e-9 for a, b in zip(lr, want)), lr
P
}
ok "a part of all steps warms up" rates --warmup-ratio 0.1
plainly "the same by the name that Trainer 5 has left" rates --warmup_steps 0.1

steps_of() { # steps_of N ARGUMENTS...: one epoch takes so many
    want=$1
    shift
    "$yoke" train --model mlp --data "idx:$out/images" --global-batch 32 --num-train-epochs 1 --eval-strategy no --json \
        --output-dir "$out/part" --overwrite-output-dir "$@" >"$out/json" 2>/dev/null && [ "$(field step "$out/json")" = "$want" ]
}
plainly "the last, shorter batch is dropped" steps_of 1 --max-train-samples 50
ok "or trained on" steps_of 2 --max-train-samples 50 --no-dataloader-drop-last
plainly "or trained on, as in Python" steps_of 2 --max_train_samples 50 --dataloader_drop_last False

epochs() { # 9 rows in batches of 2, 2 batches a step: 3 steps an epoch, and the rate is 0 behind the last
    steps_of 9 --max-train-samples 9 --global-batch 2 --gradient-accumulation-steps 2 --num-train-epochs 3 --no-dataloader-drop-last \
        --learning-rate 0.1 --lr-scheduler-type linear --logging-steps 1 --log "$out/epochs.log" || { cat "$out/json"; return 1; }
    python3 - "$out/epochs.log" <<'P'
import json, sys
lr = [r["lr"] for r in map(json.loads, open(sys.argv[1])) if "loss" in r]
print(lr)
assert len(lr) == 9 and all(abs(rate - 0.1 * (8 - i) / 9) < 1e-9 for i, rate in enumerate(lr)) and lr[-1] == 0
P
}
ok "the steps of epochs that end in a short batch" epochs

orders() { # the same weights, other rows first
    for seed in "1" "2" "1 --data-seed 1" "1 --data-seed 2"; do
        # shellcheck disable=SC2086
        mlp "$out/seed" --learning-rate 0 --max-steps 1 --eval-strategy no --seed $seed --json 2>/dev/null >"$out/json" || return 1
        # shellcheck disable=SC2086
        mlp "$out/seed" --max-steps 2 --eval-strategy no --seed $seed --log "$out/log.seed" >/dev/null 2>&1 || return 1
        echo "$(field param_hash "$out/json") $(head -n 1 "$out/log.seed" | cut -d, -f3)"
    done >"$out/seeds"
    cat "$out/seeds"
    python3 - "$out/seeds" <<'P'
import sys
one, two, same, other = (line.split(None, 1) for line in open(sys.argv[1]))
assert one == same and one[0] == other[0] and one[1] != other[1] and one[0] != two[0]
P
}
plainly "a seed of the order alone" orders

recompute() { # the same bits, in less memory
    python3 -c 'print("text,label\n" + "\n".join("word " * 40 + ",%d" % (i % 2) for i in range(64)))' >"$out/rows.csv"
    for more in "" --gradient-checkpointing; do
        # shellcheck disable=SC2086
        "$yoke" train --model bert --model-config num_hidden_layers=6,hidden_size=64,num_attention_heads=2,intermediate_size=256 \
            --data "csv:$out/rows.csv" --tokenizer bytes --global-batch 32 --max-steps 2 --output-dir "$out/re$more" --json $more \
            2>/dev/null >"$out/json$more" || return 1
    done
    python3 - "$out/json" "$out/json--gradient-checkpointing" <<'P'
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
print(a["peak_bytes"], b["peak_bytes"])
assert a["param_hash"] == b["param_hash"] and b["peak_bytes"] < 0.6 * a["peak_bytes"]
P
}
plainly "gradient checkpointing" recompute
ok "gradient checkpointing of a ResNet" "$yoke" train --model resnet20 --data "idx:$out/images" --max-steps 2 --gradient-checkpointing \
    --max-eval-samples 8 --output-dir "$out/resnet" --overwrite-output-dir
without_effect() { # without_effect WORDS OPTION...: it fails and says so
    words=$1
    shift
    mlp "$out/idle" "$@" >"$out/said" 2>&1 && return 1
    cat "$out/said"
    grep -q "$words" "$out/said"
}
ok "gradient checkpointing of a model without blocks" without_effect "model mlp has no blocks of layers" --gradient-checkpointing
wire_of_local_sgd() {
    YOKE_WIRE_PARAMS=bf16 without_effect 'YOKE_WIRE_PARAMS is "bf16", but in LocalSGD' --local-sgd-steps 2 --devices "cpu:0! cpu:0!"
}
ok "parameters in bf16 where none travel" wire_of_local_sgd
formats() { # each way to say it gives the same training, and another than fp32
    a=$(hash_of --precision bf16) && b=$(hash_of --bf16) && c=$(hash_of --bf16 True --bf16_full_eval) && d=$(hash_of) || return 1
    echo "$a $b $c $d"
    [ "$a" = "$b" ] && [ "$a" = "$c" ] && [ "$a" != "$d" ]
}
hash_of() {
    mlp "$out/format" --max-steps 3 --allow-substitute --json "$@" 2>/dev/null >"$out/json" && field param_hash "$out/json"
}
ok "precision by flags" formats
zeros() { # 0 is 0, not the default: other parameters than with it, and those of a number next to 0
    default=$(hash_of)
    for option in --adam-beta1 --adam-beta2 --adam-epsilon; do
        zero=$(hash_of $option 0) && near=$(hash_of $option 1e-30) || return 1
        echo "$option: $default $zero $near"
        [ "$zero" != "$default" ] && [ "$zero" = "$near" ] || return 1
    done
}
plainly "a beta or an epsilon of 0" zeros
evaluated_in_bf16() {
    for more in "" "--precision bf16" --bf16-full-eval; do
        # shellcheck disable=SC2086
        "$yoke" eval --from "$out/format" --data "idx:$out/images" --allow-substitute --json $more 2>/dev/null || return 1
    done >"$out/evals"
    cat "$out/evals"
    [ "$(sed -n 2p "$out/evals")" = "$(sed -n 3p "$out/evals")" ] && [ "$(sed -n 1p "$out/evals")" != "$(sed -n 2p "$out/evals")" ]
}
ok "evaluation in bf16" evaluated_in_bf16
plainly "names of optimizers" train --optim adamw_torch --max-steps 1

refuses() { # refuses WORDS ARGUMENTS...: exit code 2 and one line, before a device is opened
    words=$1
    shift
    mlp "$out/no" "$@" >"$out/stdout" 2>"$out/err"
    code=$?
    cat "$out/err"
    [ $code = 2 ] && [ "$(wc -l <"$out/err")" = 1 ] && grep -qF -e "$words" "$out/err"
}
ok "steps that no strategy reads" refuses "--eval-steps has no effect with --eval-strategy epoch" --eval-strategy epoch --eval-steps 5
ok "a word for a number of checkpoints" refuses "got a strategy: write --save-strategy epoch" --checkpointing_steps epoch
ok "of evaluations" refuses "got a strategy: write --eval-strategy epoch" --eval_steps epoch
ok "of lines" refuses "got a strategy: write --logging-strategy epoch" --logging_steps epoch
ok "best without evaluations" refuses "--load-best-model-at-end needs evaluations" --load-best-model-at-end --eval-strategy no
named() { # a metric that is named for the best model is computed, whatever --metrics names
    mlp "$out/named" --metric-for-best-model f1_macro --load-best-model-at-end --max-steps 2 --json 2>/dev/null |
        grep -q '"eval_f1_macro": 0'
}
ok "a metric for the best model is computed" named
ok "a metric that there is not" refuses "--metric-for-best-model rouge: expected loss, accuracy, f1, " --metric-for-best-model rouge \
    --load-best-model-at-end
ok "a metric for nothing" refuses "--metric-for-best-model has no effect without" --metric-for-best-model loss
ok "an unknown metric" refuses "(did you mean accuracy?)" --metrics acuracy
ok "formats by rank, and one for all" refuses "--bf16 contradicts --precision fp32,bf16" --precision fp32,bf16 --bf16
ok "formats of more ranks than there are" refuses "is of 2 ranks, and the job has 1" --precision fp32,bf16
ok "two precisions" refuses "--fp16 contradicts bf16" --bf16 --fp16
ok "another precision for evaluation" refuses "an evaluation computes in the training's precision, which is fp32" --bf16-full-eval
ok "momentum without sgd" refuses "--momentum has no effect without --optim sgd" --momentum 0.5
ok "betas with sgd" refuses "--adam-beta2 has no effect with --optim sgd" --optim sgd --adam_beta2 0.5
ok "two batch sizes" refuses "--per-device-train-batch-size has no effect beside --global-batch" --per-device-train-batch-size 8
ok "decay of everything by nothing" refuses "--decay-all has no effect without --weight-decay" --decay-all
ok "half an epoch" refuses "--num-train-epochs 2.5: expected a whole number from 1 on; --max-steps ends" --num-train-epochs 2.5
ok "half a step of warm-up" refuses "expected a whole number of steps, or below 1 a part of all" --warmup-steps 2.5
ok "two warm-ups" refuses "--warmup-steps has no effect beside --warmup-ratio" --warmup-ratio 0.1
idle_limit() {
    mlp "$out/limit" --save-total-limit 2 --max-steps 2 2>"$out/err" &&
        grep -q 'save-total-limit changes nothing: no checkpoints' "$out/err"
}
ok "a limit of no checkpoints is told" idle_limit
ok "a delay of no evaluations" refuses "--eval-delay has no effect where nothing is evaluated" --eval-strategy no --eval-delay 3
ok "rows of no evaluation" refuses "--max-eval-samples has no effect where nothing is evaluated" --eval-strategy no --max_eval_samples 9
: >"$out/rows" && : >"$out/text"
ok "evaluation rows of images" refuses "--eval-rows has no effect with images" --eval-rows "$out/rows"
ok "a wrong value is told once, not by each rank" refuses "--learning-rate fast: expected" --devices "cpu:0! cpu:0!" --learning-rate fast
ok "a contradiction is told once, not by each rank" refuses "--logging-dir has no effect" --devices "cpu:0! cpu:0!" --logging-dir "$out/x"
ok "no devices" refuses "--devices is empty" --devices ""
ok "a name of the hub" refuses "nothing is downloaded: hf download google/no-such --local-dir" --from google/no-such
mkdir -p "$out/whale" && printf '{"model_type": "whale"}' >"$out/whale/config.json"
ok "a folder beside a model, and text" refuses "--from $out/whale beside --model bert-mlm gives weights alone" --from "$out/whale" \
    --model bert-mlm --data "lines:$out/text"
plainly "no limit, in Trainer's word" evaluations "20 40" --max-steps -1 --num-train-epochs 2
plainly "epochs as Trainer prints them" evaluations "20 40" --max-steps -1 --num_train_epochs 2.0
resumed() { # Trainer.train(resume_from_checkpoint=True)
    train --max-steps 10 --save-steps 5 && run=$((run - 1)) && train --max-steps 10 --resume-from-checkpoint True &&
        grep -q "nothing is left" "$out/err"
}
ok "resuming as Trainer says it" resumed
ok "no training" refuses "yoke eval evaluates" --do-train False
ok "an unknown tracker" refuses "--report-to wandb: expected names out of" --report-to wandb
ok "a folder for no tracker" refuses "--logging-dir has no effect without --report-to" --logging-dir "$out/x"
plan
