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
ok "the same where windows and batches do not divide the data" each_checkpoint 5 --devices cpu:0 --global-batch 48 \
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
unchanged() {
    changed 0 . && ! grep -q "resume:" "$out/err"
}
ok "the same settings: no word" unchanged
ok "another beta is told, and rules" changed 0 "those of now rule: beta1 0.5, not 0.9" --adam-beta1 0.5
ok "another epsilon and decay" changed 0 "epsilon 0.001, not 1e-08; weight decay 0.3, not" --adam-epsilon 1e-3 --weight-decay 0.3
ok "another precision" changed 0 "precision bf16, not f32" --precision bf16
ok "another rate, with both values" changed 0 "those of now rule: learning rate 0.0005, not 0.001; another schedule" --learning-rate 5e-4
ok "another schedule" changed 0 "another schedule or learning rate" --lr-scheduler-type cosine
ok "batches that add up to the same place" \
    changed 0 "made with batches of 32 rows; this job's have 16, and go on at batch 26" --global-batch 16
ok "batches that do not" changed 2 "do not add up to the 416 rows that were used" --global-batch 48

# A checkpoint after every step, and SIGKILL at some moments: the newest that is there must load.
killed() {
    for moment in 0.50 0.61 0.72 0.83 0.94 1.05 1.16 1.27; do
        rm -rf "$out/k"
        instead=exec mlp "$out/k" --devices cpu:0 --model-config hidden=512+512 --max-steps 100000 --save-steps 1 \
            --save-total-limit 2 >/dev/null 2>&1 &
        pid=$!
        sleep $moment
        for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do # on a busy machine: until there is a whole one
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
