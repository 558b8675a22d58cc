#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A run that was stopped within an epoch goes on bit for bit; a kill while a checkpoint is written harms no older one.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
small_images "$out/images"

same() { # same DEVICES: 30 steps at once, and 30 steps with a stop after the 13th
    rm -rf "$out/a" "$out/b"
    mlp "$out/a" --devices "$1" --save-steps 13 --log "$out/a.log" || return 1
    mkdir "$out/b" && cp -r "$out/a/checkpoint-13" "$out/b" || return 1
    mlp "$out/b" --devices "$1" --resume-from-checkpoint last --log "$out/b.log" || return 1
    python3 - "$out/a.log" "$out/b.log" <<'P'
import json, sys
a, b = ([json.loads(line) for line in open(f)] for f in sys.argv[1:])
assert b[0]["step"] == 14, b[0]
assert a[-1]["param_hash"] == b[-1]["param_hash"], (a[-1], b[-1])
losses = lambda rows: [(r["step"], r["loss"], r["lr"]) for r in rows if "loss" in r and r["step"] > 13]
assert losses(a) == losses(b)
P
}
ok "one rank: the same bits" same cpu:0

# Shares follow measured speed, and sums follow shares: the same bits on two ranks are due to a resumed run whose shares do.
two_ranks() {
    rm -rf "$out/a" "$out/b"
    mlp "$out/a" --devices "cpu:0! cpu:0!" --save-steps 13 --log "$out/a.log" || return 1
    mkdir "$out/b" && cp -r "$out/a/checkpoint-13" "$out/b" || return 1
    mlp "$out/b" --devices "cpu:0! cpu:0!" --resume-from-checkpoint last --log "$out/b.log" || return 1
    python3 - "$out/a.log" "$out/b.log" <<'P'
import json, sys
a, b = ([json.loads(line) for line in open(f)] for f in sys.argv[1:])
losses = lambda rows: {r["step"]: r["loss"] for r in rows if "loss" in r and r["step"] > 13}
la, lb = losses(a), losses(b)
assert la.keys() == lb.keys() and len(la) == 17, (la.keys(), lb.keys())
assert a[-1]["param_hash"] == b[-1]["param_hash"] or a[-1]["shares"] != b[-1]["shares"], (a[-1], b[-1])
for k in la:
    assert abs(la[k] - lb[k]) <= 1e-4 * la[k], (k, la[k], lb[k])
P
}
ok "two ranks: the same training, and the same bits where the shares are the same" two_ranks
ok "a checkpoint of two ranks goes on on one" mlp "$out/b" --devices cpu:0 --resume-from-checkpoint "$out/a/checkpoint-13"
folder_of_some() {
    mlp "$out/c" --devices cpu:0 --resume-from-checkpoint "$out/a" 2>"$out/err"
    [ $? = 2 ] && grep -q "is no checkpoint, and holds some: expected one, such as $out/a/checkpoint-" "$out/err" ||
        { cat "$out/err"; return 1; }
}
ok "the folder of checkpoints names one" folder_of_some

damaged() {
    cp -r "$out/a/checkpoint-13" "$out/damaged" || return 1
    head -c 2000 "$out/a/checkpoint-13/optimizer.safetensors" >"$out/damaged/optimizer.safetensors"
    mlp "$out/c" --devices cpu:0 --resume-from-checkpoint "$out/damaged"
    [ $? = 2 ]
}
ok "a damaged checkpoint is refused" damaged

# Each checkpoint of a run leads to the run's end, those at the end of an epoch too.
each_checkpoint() { # each_checkpoint EVERY ARGUMENTS...
    every=$1
    shift
    rm -rf "$out/a"
    mlp "$out/a" "$@" --save-steps "$every" --log "$out/a.log" || return 1
    for at in "$every" $((2 * every)) $((3 * every)); do
        [ -d "$out/a/checkpoint-$at" ] || continue
        rm -rf "$out/b"
        mlp "$out/b" "$@" --resume-from-checkpoint "$out/a/checkpoint-$at" --log "$out/b.log" || return 1
        python3 - "$out/a.log" "$out/b.log" "$at" <<'P' || { echo "from checkpoint-$at"; return 1; }
import json, sys
a, b = ([json.loads(line) for line in open(f)] for f in sys.argv[1:3])
part = lambda rows, key: {r["step"]: (r["epoch"], r[key]) for r in rows if key in r and "epoch" in r and r["step"] > int(sys.argv[3])}
for key in "loss", "eval_loss":
    x, y = part(a, key), part(b, key)
    assert x.keys() == y.keys(), (key, sorted(x.keys() ^ y.keys()))
    for k in x:
        assert x[k][0] == y[k][0] and abs(x[k][1] - y[k][1]) <= 1e-4 * x[k][1], (key, k, x[k], y[k])
assert a[-1]["param_hash"] == b[-1]["param_hash"] or len(a[-1]["shares"]) > 1 and a[-1]["shares"] != b[-1]["shares"], (a[-1], b[-1])
P
    done
}
ok "every checkpoint of a run, at the end of an epoch and within" each_checkpoint 10 --devices cpu:0
plainly "the same where windows and batches do not divide the data" each_checkpoint 5 --devices cpu:0 --global-batch 48 \
    --gradient-accumulation-steps 3 --max-steps 18
ok "the same on two ranks" each_checkpoint 10 --devices "cpu:0! cpu:0!"

# Nothing that differs from what the checkpoint was made with passes without a word.
changed() { # changed CODE PATTERN ARGUMENTS...: resumes the checkpoint of step 13, batches of 32 rows
    want=$1 pattern=$2
    shift 2
    rm -rf "$out/c"
    mkdir "$out/c" && cp -r "$out/s/checkpoint-13" "$out/c" || return 1
    mlp "$out/c" --devices cpu:0 --max-steps 14 --resume-from-checkpoint last "$@" 2>"$out/err"
    code=$?
    cat "$out/err"
    [ $code = "$want" ] && grep -q -e "$pattern" "$out/err"
}
ok "a checkpoint to change settings on" mlp "$out/s" --devices cpu:0 --save-steps 13 --max-steps 14
unchanged() { # and the last line says which steps this run made
    changed 0 . >"$out/said" || { cat "$out/said"; return 1; }
    cat "$out/said"
    ! grep -q "resume:" "$out/err" && grep -qx "yoke train: goes on from $out/c/checkpoint-13 (step 13)" "$out/err" &&
        grep -q ' after 14 steps (14 to 14 in this run) in .* samples/s$' "$out/said" &&
        changed 0 . --max-steps 13 >"$out/said" && grep -q ' after 13 steps (none in this run) in [0-9.]* s$' "$out/said" &&
        changed 0 . --log "$out/one.log" && grep -q '"final": true, "step": 14, "steps": 1, ' "$out/one.log"
}
ok "the same settings: no word" unchanged
ok "another beta is told, and rules" changed 0 "the present ones hold: beta1 0.5, not 0.9" --adam-beta1 0.5
plainly "another epsilon and decay" changed 0 "epsilon 0.001, not 1e-08; weight decay 0.3, not" --adam-epsilon 1e-3 --weight-decay 0.3
ok "another precision" changed 0 "precision bf16, not f32" --precision bf16
plainly "another rate, with both values" changed 0 "ones hold: learning rate 0.0005, not 0.001; another schedule" --learning-rate 5e-4
plainly "another schedule" changed 0 "another schedule or learning rate" --lr-scheduler-type cosine
ok "batches that add up to the same place" \
    changed 0 "made with batches of 32 rows; this job's have 16, and go on at batch 26" --global-batch 16
ok "batches that do not" changed 2 "do not add up to the 416 rows that were used" --global-batch 48

ok "another order of rows within an epoch" changed 2 "were shuffled by seed 42, this job's are by 7" --data-seed 7
ok "more rows" changed 0 "was made with 640 rows, these data have 600: the epoch under way goes on" --max-train-samples 600
ok "too few rows" changed 2 "was made with 640 rows, after batch 13 of an epoch; these data have 96, an epoch of 3 batches: give" \
    --max-train-samples 96
ok "in one line" test "$(grep -c -e rows -e batch "$out/err")" = 1
other_rows() {
    mkdir "$out/inverted" && cp "$out/images"/* "$out/inverted" && python3 - "$out/inverted/train-images-idx3-ubyte" <<'P' || return 1
import sys
b = open(sys.argv[1], "rb").read()
open(sys.argv[1], "wb").write(b[:16] + bytes(255 - v for v in b[16:]))
P
    changed 0 "was made with other data of as many rows; the present data are used" --data "idx:$out/inverted"
}
ok "as many other rows" other_rows

# The rows that were trained on say how far a schedule is, in whatever steps a run counts them: linear from 1e-3 to 0, here without warm-up.
rates_go_on() { # rates_go_on STEP TOTAL CHECKPOINT ARGUMENTS...
    at=$1 total=$2 from=$3
    shift 3
    rm -rf "$out/r" "$out/r.log" && mkdir "$out/r" && cp -r "$from" "$out/r" || return 1
    mlp "$out/r" --warmup-steps 0 --num-train-epochs 2 --max-steps -1 --resume-from-checkpoint last --log "$out/r.log" "$@" || return 1
    python3 - "$out/r.log" "$at" "$total" <<'P'
import json, sys
rows = {r["step"]: r["lr"] for r in map(json.loads, open(sys.argv[1])) if "loss" in r}
at, total = int(sys.argv[2]), int(sys.argv[3])
want = {step: 1e-3 * (total - step) / total for step in range(at + 1, total + 1)}
assert rows.keys() == want.keys() and all(abs(rows[k] - want[k]) < 1e-9 for k in want), (rows, want)
P
}
two_epochs() { # two_epochs FOLDER ARGUMENTS...
    folder=$1
    shift
    mlp "$folder" --devices cpu:0 --warmup-steps 0 --num-train-epochs 2 --max-steps -1 "$@"
}
ok "a checkpoint in the middle of two epochs" two_epochs "$out/h" --save-steps 20
plainly "the same batches" rates_go_on 20 40 "$out/h/checkpoint-20" --devices cpu:0
plainly "smaller batches" rates_go_on 40 80 "$out/h/checkpoint-20" --devices cpu:0 --global-batch 16
ok "larger steps" rates_go_on 10 20 "$out/h/checkpoint-20" --devices cpu:0 --gradient-accumulation-steps 2
ok "more ranks, each with as many rows" rates_go_on 10 20 "$out/h/checkpoint-20" --devices "cpu:0! cpu:0!" --global-batch 64
ok "a checkpoint within the second of two short epochs" two_epochs "$out/g" --save-steps 15 --max-train-samples 320
ok "more rows in an epoch" rates_go_on 25 40 "$out/g/checkpoint-15" --devices cpu:0

# 70 rows are batches of 32, 32 and 6. Behind the short one the epoch is over, on any number of ranks and for batches of any size.
short_epochs() { # short_epochs FOLDER ARGUMENTS...
    folder=$1
    shift
    mlp "$folder" --warmup-steps 0 --max-steps -1 --num-train-epochs 2 --max-train-samples 70 --no-dataloader-drop-last "$@"
}
behind_short_batch() { # behind_short_batch DEVICES OTHERS: made on DEVICES; goes on there and on OTHERS, as the run that was not stopped
    rm -rf "$out/j" "$out/k" "$out/l" "$out/j.log" "$out/k.log" "$out/l.log"
    short_epochs "$out/j" --devices "$1" --save-steps 3 --log "$out/j.log" || return 1
    for one in k l; do
        mkdir "$out/$one" && cp -r "$out/j/checkpoint-3" "$out/$one" || return 1
    done
    short_epochs "$out/k" --devices "$1" --resume-from-checkpoint last --log "$out/k.log" &&
        short_epochs "$out/l" --devices "$2" --resume-from-checkpoint last --log "$out/l.log" && python3 - "$out" <<'P'
import json, sys
j, k, l = ([json.loads(line) for line in open(f"{sys.argv[1]}/{name}.log")] for name in "jkl")
losses = lambda rows: {r["step"]: r["loss"] for r in rows if "loss" in r and "final" not in r and r["step"] > 3}
assert losses(k).keys() == losses(l).keys() == losses(j).keys() == {4, 5, 6}, (j, k, l)
assert j[-1]["param_hash"] == k[-1]["param_hash"] or j[-1]["shares"] != k[-1]["shares"], (j[-1], k[-1])
for other in (losses(k), losses(l)):
    assert all(abs(other[i] - loss) <= 1e-4 * loss for i, loss in losses(j).items()), (losses(j), other)
P
}
ok "the end of an epoch behind a short batch, on one rank and then on two" behind_short_batch cpu:0 "cpu:0! cpu:0!"
plainly "on two ranks and then on one" behind_short_batch "cpu:0! cpu:0!" cpu:0
ok "such an end" short_epochs "$out/e" --devices cpu:0 --save-steps 1
end_in_batches() { # end_in_batches ROWS STEP TOTAL: goes on in batches of ROWS
    rates_go_on "$2" "$3" "$out/e/checkpoint-3" --devices cpu:0 --max-train-samples 70 --no-dataloader-drop-last --global-batch "$1"
}
ok "behind it smaller batches begin with the next epoch" end_in_batches 16 5 10
ok "batches that do not add up to the rows of whole ones begin there too" end_in_batches 20 4 8
ok "and larger ones" end_in_batches 70 1 2
seed_in_short() { # seed_in_short CODE STEP: goes on there with another order of rows
    rm -rf "$out/c" && mkdir "$out/c" && cp -r "$out/e/checkpoint-$2" "$out/c" || return 1
    short_epochs "$out/c" --devices cpu:0 --resume-from-checkpoint last --data-seed 7
    [ $? = "$1" ]
}
ok "another order of rows is for the next epoch" seed_in_short 0 3
ok "and refused before the short batch" seed_in_short 2 2

short_change() { # short_change CODE PATTERN FROM ROWS STEP ARGUMENTS...: goes on from FROM/checkpoint-STEP with ROWS of the images
    want=$1 pattern=$2 from=$3 samples=$4 at=$5
    shift 5
    rm -rf "$out/c" "$out/c.log" && mkdir "$out/c" && cp -r "$from/checkpoint-$at" "$out/c" || return 1
    mlp "$out/c" --devices cpu:0 --warmup-steps 0 --max-steps -1 --num-train-epochs 2 --max-train-samples "$samples" \
        --resume-from-checkpoint last --log "$out/c.log" "$@" 2>"$out/err"
    code=$?
    cat "$out/err"
    [ $code = "$want" ] && grep -q -e "$pattern" "$out/err"
}
untold() { # untold COMMAND...: from the same checkpoints by an earlier version, whose places do not tell the number of batches
    rm -rf "$out/untold" && cp -r "$out/e" "$out/untold" && sed -i '/"batches"/d' "$out/untold"/checkpoint-*/trainer_state.json && "$@"
}
ok "the rows behind the short batch of a larger one are no end of the epoch" short_change 2 "do not add up to the 32 rows" "$out/e" 70 1 \
    --global-batch 40
ok "nor in another order" short_change 2 "were shuffled by seed 42, this job's are by 7" "$out/e" 70 1 --global-batch 40 --data-seed 7
ok "nor in a checkpoint of an earlier version" untold short_change 2 "do not add up to the 32 rows" "$out/untold" 70 1 --global-batch 40
ok "one batch of nearly an epoch" short_change 2 "do not add up to the 416 rows" "$out/s" 640 13 --global-batch 610
ok "a short batch that is due, in smaller ones that drop theirs" short_change 0 "have 4, and go on at batch 16 of" "$out/e" 70 2 \
    --global-batch 4
ok "the same from an earlier version" untold short_change 0 "have 4, and go on at batch 16 of" "$out/untold" 70 2 --global-batch 4
dropping_now() { # dropping_now FOLDER: the end behind the short batch is the end of the epoch that has none
    short_change 0 . "$1" 70 3 || return 1
    python3 - "$out/c.log" <<'P'
import json, sys
rows = [r for r in map(json.loads, open(sys.argv[1])) if "loss" in r and "final" not in r]
assert [(r["step"], r["epoch"]) for r in rows] == [(3, 1), (4, 1)], rows # steps count from 1, epochs from 0
assert all(abs(r["lr"] - want) < 1e-9 for r, want in zip(rows, (2.5e-4, 0))), rows
P
}
ok "the end of an epoch, in the same batches without a short one" dropping_now "$out/e"
ok "that from an earlier version" untold dropping_now "$out/untold"

# A checkpoint after an odd number of batches, and windows of two: what is left of the window is a step, which a checkpoint can follow.
within_a_window() {
    rm -rf "$out/i" && two_epochs "$out/i" --save-steps 13 --max-steps 14 &&
        rates_go_on 6 20 "$out/i/checkpoint-13" --devices cpu:0 --gradient-accumulation-steps 2 --save-steps 1
}
ok "a checkpoint within a larger window" within_a_window

# A run that ended and is made longer is one long run: its parameters, losses, evaluations, early stop, and what is the best.
longer() { # longer FIRST ARGUMENTS...: FIRST steps, then 60; an evaluation that is due at the first run's end alone is none of the long run
    first=$1
    shift
    rm -rf "$out/once" "$out/twice" "$out/once.log" "$out/twice.log"
    set -- --devices cpu:0 --lr-scheduler-type constant --warmup-steps 0 --learning-rate 2e-2 --max-eval-samples 60 "$@"
    mlp "$out/once" "$@" --max-steps 60 --log "$out/once.log" &&
        mlp "$out/twice" "$@" --max-steps "$first" --log "$out/twice.log" &&
        mlp "$out/twice" "$@" --max-steps 60 --log "$out/twice.log" --resume-from-checkpoint last 2>"$out/err" ||
        { cat "$out/err"; return 1; }
    ! grep "made with other settings" "$out/err" || return 1 # none of these schedules knows the end
    python3 - "$out" "$first" <<'P'
import json, os, sys
out, first = sys.argv[1], int(sys.argv[2])
once, twice = ([json.loads(line) for line in open(f"{out}/{name}.log")] for name in ("once", "twice"))
for key in ("loss", "lr"):
    a, b = ([(r["step"], r[key]) for r in rows if key in r] for rows in (once, twice))
    assert a == b, (key, a, b)
a, b = ([(r["step"], r["eval_loss"]) for r in rows if "eval_loss" in r and "final" not in r] for rows in (once, twice))
assert a == [e for i, e in enumerate(b) if e in a and e not in b[:i]] and {e[0] for e in b if e not in a} <= {first}, (a, b)
ends = [{k: r[k] for k in r if k in ("step", "param_hash", "eval_loss", "eval_accuracy")} for r in (once[-1], twice[-1])]
assert ends[0] == ends[1] and "final" in once[-1], ends
best = [json.load(open(f"{out}/{name}/checkpoint-best/best.json")) if os.path.exists(f"{out}/{name}/checkpoint-best") else None
        for name in ("once", "twice")]
assert best[0] == best[1], best
P
}
ok "a longer run: the best one is before the last step" longer 20 --eval-steps 10 --save-steps 10 --greater-is-better \
    --load-best-model-at-end
plainly "the best one is the last step" longer 20 --eval-steps 10 --save-steps 10 --load-best-model-at-end
ok "an end between two evaluations is none of the candidates" longer 25 --eval-steps 10 --save-steps 5 --load-best-model-at-end \
    --early-stopping-patience 2 --early-stopping-threshold 0.05
plainly "evaluations and checkpoints by epochs" longer 40 --save-strategy epoch --load-best-model-at-end
ok "evaluations without a better one add up" longer 20 --eval-steps 10 --save-steps 10 --early-stopping-patience 2 --greater-is-better
plainly "a run that was stopped early stays so" longer 40 --eval-steps 10 --save-steps 10 --early-stopping-patience 2 --greater-is-better
plainly "evaluations that are equal to the last digit" longer 20 --eval-steps 10 --save-steps 10 --early-stopping-patience 3 \
    --learning-rate 0
plainly "in the other direction" longer 20 --eval-steps 10 --save-steps 10 --early-stopping-patience 3 --learning-rate 0 --greater-is-better
ok "reduce_lr_on_plateau" longer 20 --eval-steps 10 --save-steps 10 --lr-scheduler-type reduce_lr_on_plateau \
    --lr-scheduler-kwargs patience=1,factor=0.5,threshold=0.5
plainly "an evaluation at the start of each run" longer 20 --eval-steps 10 --save-steps 10 --lr-scheduler-type reduce_lr_on_plateau \
    --lr-scheduler-kwargs patience=0,factor=0.5,threshold=0.3 --eval-on-start
plainly "a schedule whose end is given" longer 20 --save-steps 20 --lr-scheduler-type cosine \
    --lr-scheduler-kwargs num_training_steps=80
ok "with LocalSGD" longer 20 --eval-steps 10 --save-steps 10 --load-best-model-at-end --local-sgd-steps 3

# A run that was stopped early between two checkpoints has one of its last step, and trains no more; with more patience it does.
stopped_early() {
    rm -rf "$out/e" "$out"/e[123].log
    set -- --devices cpu:0 --lr-scheduler-type constant --warmup-steps 0 --learning-rate 2e-2 --max-eval-samples 60 --eval-steps 10 \
        --save-steps 20 --greater-is-better --max-steps 60
    mlp "$out/e" "$@" --early-stopping-patience 2 --log "$out/e1.log" && [ -d "$out/e/checkpoint-30" ] &&
        mlp "$out/e" "$@" --early-stopping-patience 2 --eval-on-start --log "$out/e2.log" --resume-from-checkpoint last 2>"$out/err" &&
        [ "$(grep -c 'stopped early, at step 30: nothing is left to train' "$out/err")" = 1 ] || { cat "$out/err"; return 1; }
    python3 - "$out" <<'P' || return 1
import json, sys
first, again = ([json.loads(line) for line in open(f"{sys.argv[1]}/{name}.log")] for name in ("e1", "e2"))
ends = [{k: r[k] for k in ("step", "param_hash", "eval_loss", "eval_accuracy")} for r in (first[-1], again[-1])]
assert ends[0] == ends[1] and not [r for r in again if "loss" in r] and len([r for r in again if "eval_loss" in r]) == 2, (ends, again)
P
    mlp "$out/e" "$@" --early-stopping-patience 9 --log "$out/e3.log" --resume-from-checkpoint last && grep -q '"step": 40, ' "$out/e3.log"
}
ok "a run that was stopped early ends where it did" stopped_early

# What a class is called is what the model's outputs mean.
other_names() {
    printf 'text,label\n' >"$out/abc.csv" && cp "$out/abc.csv" "$out/bcd.csv" || return 1
    for row in 1 2 3 4 5 6 7 8; do
        for letter in a b c d; do
            [ $letter = d ] || echo "row $row of $letter,$letter" >>"$out/abc.csv"
            [ $letter = a ] || echo "row $row of $letter,$letter" >>"$out/bcd.csv"
        done
    done
    set -- --model bert --model-config hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_size=16 --tokenizer bytes \
        --max-length 16 --devices cpu:0 --global-batch 8 --max-steps 4 --output-dir "$out/t"
    "$yoke" train --data "csv:$out/abc.csv,text=text,label=label" --save-steps 2 "$@" || return 1
    "$yoke" train --data "csv:$out/bcd.csv,text=text,label=label" --resume-from-checkpoint "$out/t/checkpoint-2" "$@" 2>"$out/err"
    code=$?
    cat "$out/err"
    [ $code = 2 ] && grep 'class 0 was "a" in the data it was made with, in these it is "b"' "$out/err"
}
ok "classes of other names" other_names

# The newest one whose files are whole, and what an interrupted save left is gone.
newest_whole() {
    rm -rf "$out/w" && mlp "$out/w" --devices cpu:0 --save-steps 10 --max-steps 29 || return 1
    mkdir "$out/w/checkpoint-24.yoke-tmp" "$out/w/checkpoint-25.yoke-tmp" && echo 1 >"$out/w/checkpoint-24.yoke-tmp/model.safetensors" &&
        echo 1 >"$out/w/checkpoint-25.yoke-tmp/mine" && truncate -s 1000 "$out/w/checkpoint-20/model.safetensors" || return 1
    mlp "$out/w" --devices cpu:0 --resume-from-checkpoint last --log "$out/w.log" 2>"$out/err"
    code=$?
    cat "$out/err"
    [ $code = 0 ] && grep "checkpoint-20/model.safetensors: 1000 bytes, expected .*: an older one is taken" "$out/err" &&
        [ "$(head -n 1 "$out/w.log" | grep -o '"step": [0-9]*')" = '"step": 11' ] && [ ! -e "$out/w/checkpoint-24.yoke-tmp" ] &&
        [ -e "$out/w/checkpoint-25.yoke-tmp/mine" ]
}
ok "the newest checkpoint that is whole" newest_whole

# A checkpoint after every step, and SIGKILL at some moments: the newest that is there must load.
killed() {
    for moment in 0.50 $(instrumented || echo 0.61 0.72 0.83 0.94) 1.05 1.16 1.27; do
        rm -rf "$out/k"
        instead=exec mlp "$out/k" --devices cpu:0 --model-config hidden=512+512 --max-steps 100000 --save-steps 1 \
            --save-total-limit 2 >/dev/null 2>&1 &
        pid=$!
        sleep $moment
        for i in $(seq 120); do # on a busy machine: until there is a whole one
            find "$out/k" -name 'checkpoint-*' 2>/dev/null | grep -q 'checkpoint-[0-9]*$' && break
            sleep 0.5
        done
        kill -9 $pid
        wait $pid 2>/dev/null
        last=$(find "$out/k" -name 'checkpoint-*' | sed 's/.*checkpoint-//' | grep -x '[0-9]*' | sort -n | tail -n 1)
        mlp "$out/k" --devices cpu:0 --model-config hidden=512+512 --max-steps $((last + 1)) --resume-from-checkpoint last ||
            { echo "killed after $moment s:"; ls -l "$out/k"/*; return 1; }
    done
}
ok "the newest checkpoint loads after SIGKILL at any moment" killed
plan
