#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# From training to evaluation: the log and its last line, --json, the saved model, how many checkpoints stay.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
export YOKE_DEVICES=cpu:0
small_images "$out/images"

ok "a short training" mlp "$out/a" --log "$out/a.log" --save-steps 10 --save-total-limit 2 --json
cp "$out/log" "$out/a.json"
ok "--json alone is on standard output, and parses" valid_json "$out/a.json"
ok "every line of the log parses" valid_json "$out/a.log"

last_line() {
    python3 - "$out/a.log" <<'P'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
last = rows[-1]
assert last["final"] is True and last["step"] == 30, last
assert 0 < last["eval_loss"] < 2.3 and 0.2 < last["eval_accuracy"] <= 1, last
assert last["peak_bytes"] > 100000 and len(last["param_hash"]) == 16 and last["samples_per_s"] > 0, last
assert abs(sum(s["share"] for s in last["shares"]) - 1) < 1e-3 and last["shares"][0]["device"], last
steps = [r for r in rows if "loss" in r]
assert [r["step"] for r in steps] == list(range(1, 31)), steps
assert all(r["lr"] >= 0 and r["samples_per_s"] > 0 for r in steps)
assert steps[4]["lr"] > steps[0]["lr"] and steps[-1]["loss"] < steps[0]["loss"], steps
P
}
ok "the last line has all keys; the loss falls" last_line

zeros() { # a 0 of the command line is a 0, not the default
    hash=
    for option in "--adam-beta1 0.9" "--adam-beta1 0" "--adam-beta2 0" "--adam-epsilon 0"; do
        rm -rf "$out/z"
        # shellcheck disable=SC2086
        mlp "$out/z" --max-steps 3 --log "$out/z.log" $option >/dev/null || return 1
        hash="$hash$(field param_hash "$out/z.log")
"
    done
    echo "$hash"
    [ "$(echo "$hash" | grep . | sort -u | wc -l)" = 4 ]
}
ok "a beta and an epsilon of 0" zeros

plateau() { # the rate of each step as its evaluations had it: in mode max a falling loss gets worse
    mlp "$out/p" --log "$out/p.log" --lr-scheduler-type reduce_lr_on_plateau --lr-scheduler-kwargs mode=max,patience=0,factor=0.5 \
        --eval-steps 10 --warmup-steps 0 && python3 - "$out/p.log" <<'P'
import json, sys
rates = [r["lr"] for r in map(json.loads, open(sys.argv[1])) if "loss" in r]
assert rates == [1e-3] * 20 + [5e-4] * 10, rates
P
}
ok "reduce_lr_on_plateau goes by evaluations" plateau

rising() { # the rate follows the metric of the best model in its direction: an accuracy that rises lowers no rate
    mlp "$out/p" --log "$out/p.log" --lr-scheduler-type reduce_lr_on_plateau --lr-scheduler-kwargs patience=0,factor=0.5 \
        --eval-steps 10 --warmup-steps 0 --metric-for-best-model accuracy --load-best-model-at-end && python3 - "$out/p.log" <<'P'
import json, sys
lines = [r for r in map(json.loads, open(sys.argv[1])) if "final" not in r]
rates = [r["lr"] for r in lines if "loss" in r]
one, two, _ = [r["eval_accuracy"] for r in lines if "eval_accuracy" in r]
assert two > one and rates == [1e-3] * 30, (one, two, rates)
P
}
ok "and by a metric that rises" rising

no_plateau() {
    mlp "$out/p" --lr-scheduler-type reduce_lr_on_plateau --eval-strategy no --do-eval --warmup-steps 0 2>"$out/err"
    [ $? = 2 ] && cat "$out/err" && grep -q "follows evaluations during the training, and there are none" "$out/err"
}
ok "and not without evaluations during the training" no_plateau

kept() {
    [ "$(echo "$out"/a/checkpoint-*)" = "$out/a/checkpoint-20 $out/a/checkpoint-30" ] || { ls "$out/a"; return 1; }
}
ok "--save-total-limit 2 keeps the newest two" kept

evaluated() {
    "$yoke" eval --from "$out/a" --data "idx:$out/images" --per-device-eval-batch-size 32 --json >"$out/eval" 2>/dev/null || return 1
    valid_json "$out/eval" && [ "$(field total "$out/eval")" = 200 ] || return 1
    echo "$(field eval_loss "$out/eval") $(field eval_loss "$out/a.log")"
    [ "$(field eval_loss "$out/eval")" = "$(field eval_loss "$out/a.log")" ]
}
ok "yoke eval of the saved model gives the loss that training ended with" evaluated

windows() { # the length of windows of running text, by the option and by the spec, and in a further training that names none
    seq 1 400 >"$out/lines.txt"
    for kept in "text:$out/lines.txt --seq-len 8" "text:$out/lines.txt,seq-len=8" "text:$out/lines.txt"; do
        set -- --model gpt2 --model-config n_layer=1,n_head=2,n_embd=16,n_positions=64 --tokenizer char
        [ "$kept" = "text:$out/lines.txt" ] && set -- --from "$out/w"
        # shellcheck disable=SC2086
        "$yoke" train "$@" --data $kept --global-batch 8 --max-steps 3 --json --overwrite-output-dir --output-dir "$out/w" \
            >"$out/w.json" && "$yoke" eval --from "$out/w" --data "text:$out/lines.txt" --per-device-eval-batch-size 8 --json \
            >"$out/eval" || return 1
        cat "$out/w.json" "$out/eval"
        grep '"yoke_seq_len": 8' "$out/w/config.json" &&
            [ "$(field eval_loss "$out/eval")" = "$(field eval_loss "$out/w.json")" ] || return 1
    done
}
ok "so it does for windows of running text" windows

report() {
    mlp "$out/b" >"$out/report" 2>&1 || return 1
    cat "$out/report"
    grep -q '^accuracy 0\.[0-9]*, loss [0-9.]* after 30 steps in .* samples/s$' "$out/report" &&
        grep -q '^  rank 0  cpu:0 .*share 100.0 %$' "$out/report" && grep -q "^saved in $out/b$" "$out/report"
}
ok "the report for people" report

whole_lines() { # each write to standard error ends a line: a rank that is killed leaves no half one for the next writer
    python3 - "$yoke" --model mlp --model-config hidden=32 --data "idx:$out/images" --max-steps 5 --logging-steps 1 \
        --overwrite-output-dir --output-dir "$out/b" <<'P'
import socket, subprocess, sys
mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
job = subprocess.Popen([sys.argv[1], "train"] + sys.argv[2:], stderr=its, stdout=subprocess.DEVNULL)
its.close()
writes = list(iter(lambda: mine.recv(1 << 16), b""))
assert job.wait() == 0, writes
assert sum(w.startswith(b"step ") for w in writes) == 5, writes
assert all(w.endswith(b"\n") for w in writes), [w for w in writes if not w.endswith(b"\n")]
P
}
ok "each line on standard error is one write" whole_lines
plan
