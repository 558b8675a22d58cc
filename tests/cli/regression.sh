#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A regression (num_labels=1): labels are numbers, the loss is the squared error; trained, evaluated, predicted and opened again.
. "$YOKE_SOURCE/tests/cli/lib.sh"
export YOKE_DEVICES=cpu:0
python3 - "$out" <<'P'
import json, random, sys
random.seed(1)
rows = []
for i in range(160):
    good = random.randint(0, 12)
    words = ["a"] * good + ["z"] * (12 - good)
    random.shuffle(words)
    rows.append(("".join(words), good / 8 - 0.5))
with open(sys.argv[1] + "/rows.csv", "w") as f:
    f.write("text,score\n" + "".join(f"{t},{y}\n" for t, y in rows))
with open(sys.argv[1] + "/rows.jsonl", "w") as f:
    f.writelines(json.dumps({"text": t, "label": y}) + "\n" for t, y in rows)
with open(sys.argv[1] + "/new.csv", "w") as f:
    f.write("text\n" + "".join(f"{t}\n" for t, y in rows))
P
small="hidden_size=32,num_hidden_layers=1,num_attention_heads=2,intermediate_size=64,max_position_embeddings=16,hidden_dropout_prob=0"

learn() { # learn OUT ARGUMENTS...
    to=$1
    shift
    "$yoke" train --model bert --model-config "$small,num_labels=1" --data "csv:$out/rows.csv,label=score" --tokenizer bytes \
        --global-batch 32 --max-steps 120 --learning-rate 3e-3 --json --overwrite-output-dir --output-dir "$to" "$@"
}

learned() {
    learn "$out/m" --eval-data "csv:$out/rows.csv,label=score" >"$out/run" && cat "$out/run" &&
        at_least "$(field eval_pearson "$out/run")" 0.95 && ! grep -q accuracy "$out/run"
}
ok "it learns" learned
large_labels() { # whose squared errors are beyond float's range: the loss is undefined, and the weights are sound
    printf 'text,score\naazz,1e30\nzzaa,-1e30\n' >"$out/large.csv" &&
        "$yoke" eval --from "$out/m" --data "csv:$out/large.csv,label=score" --json >"$out/run" && cat "$out/run" &&
        grep -q '"eval_loss": null, .*"total": 2}' "$out/run"
}
ok "labels of any size are evaluated" large_labels

saved() { # what transformers reads: num_labels, and with it the loss
    python3 - "$out/m/config.json" <<'P'
import json, sys
c = json.load(open(sys.argv[1]))
assert c["num_labels"] == 1 and c["problem_type"] == "regression", c
assert c["architectures"] == ["BertForSequenceClassification"] and "id2label" not in c, c
P
}
ok "config.json says what it is" saved

evaluated() { # the loss is the mean squared error of what is predicted, also for rows of jsonl
    for rows in "csv:$out/rows.csv,label=score" "jsonl:$out/rows.jsonl"; do
        "$yoke" eval --from "$out/m" --data "$rows" --tokenizer bytes --json >"$out/eval" &&
            "$yoke" predict --from "$out/m" --data "csv:$out/new.csv" --tokenizer bytes --json >"$out/numbers" || return 1
        python3 - "$out/eval" "$out/numbers" "$out/rows.csv" <<'P' || return 1
import json, sys
r = json.load(open(sys.argv[1]))
got = [json.loads(line) for line in open(sys.argv[2])]
want = [float(line.split(",")[1]) for line in open(sys.argv[3]).readlines()[1:]]
mse = sum((g["number"] - y) ** 2 for g, y in zip(got, want)) / len(want)
print(r, mse)
assert [g["row"] for g in got] == list(range(2, len(want) + 2)) and r["total"] == len(want)
assert abs(r["eval_loss"] - mse) < 1e-5 and abs(r["eval_mse"] - mse) < 1e-5, (r, mse)
P
    done
}
ok "loss, predictions and labels agree" evaluated

line() {
    "$yoke" predict --from "$out/m" --data "csv:$out/new.csv" --tokenizer bytes >"$out/lines" && head -n 1 "$out/lines" &&
        head -n 1 "$out/lines" | grep -Eq '^2	-?[0-9.e-]+$'
}
ok "a line for a row without --json" line

two() { # the same on two ranks
    learn "$out/two" --devices "cpu:0! cpu:0!" --eval-data "csv:$out/rows.csv,label=score" >"$out/run2" || return 1
    cat "$out/run" "$out/run2"
    at_least "$(field eval_pearson "$out/run2")" 0.95
}
ok "on two ranks" two

refused() { # refused WORDS COMMAND...: exit code 2 and the words
    words=$1
    shift
    "$@" >"$out/refused" 2>&1
    code=$?
    cat "$out/refused"
    [ $code = 2 ] && grep -q -e "$words" "$out/refused"
}
sed '5s/,.*/,often/' "$out/rows.csv" >"$out/word.csv"
constant() { # of labels that are all alike there is no correlation: no evaluation is the best
    sed '2,$s/,.*/,1/' "$out/rows.csv" >"$out/constant.csv" && "$yoke" train --model bert --model-config "$small,num_labels=1" \
        --data "csv:$out/rows.csv,label=score" --tokenizer bytes --global-batch 16 --output-dir "$out/constant" \
        --eval-data "csv:$out/constant.csv,label=score" --max-eval-samples 32 --metric-for-best-model pearson --eval-steps 2 \
        --max-steps 10 --early-stopping-patience 2 --load-best-model-at-end >"$out/said" 2>&1 && cat "$out/said" || return 1
    grep "step 4: eval" "$out/said" && ! grep "step 6: eval" "$out/said" && grep "stopped early: pearson" "$out/said" &&
        grep "no evaluation that was due gave a finite pearson: the last model is the one that is left" "$out/said"
}
ok "a metric that no evaluation gives is waited for as for one that gets no better" constant
fractions() { # a constant that is no binary fraction: rounding is no correlation
    for label in 3.3 0.1 1.1; do
        { echo text,score; for i in $(seq 1 1000); do echo "good,$label"; done; } >"$out/same.csv"
        "$yoke" eval --from "$out/m" --data "csv:$out/same.csv,label=score" --tokenizer bytes --json >"$out/eval" || return 1
        cat "$out/eval"
        grep '"eval_pearson": null' "$out/eval" || return 1
        sed 's/good,.*/good,'"$label"'/; 3~7s/good/bad/' "$out/same.csv" >"$out/one.csv"
        "$yoke" eval --from "$out/m" --data "csv:$out/one.csv,label=score" --tokenizer bytes --json >"$out/eval" || return 1
        grep '"eval_pearson": null' "$out/eval" || { cat "$out/eval"; return 1; }
    done
}
ok "nor is there one of a constant with a fraction" fractions
ok "a label that is no number" refused "word.csv: line 5: label 'often', expected a number" "$yoke" eval --from "$out/m" \
    --data "csv:$out/word.csv,label=score" --tokenizer bytes
classes() { # the words lead to a classifier, which begins from the regression
    awk -F, 'NR == 1 { print; next } { print $1 ",c" NR % 3 }' "$out/rows.csv" >"$out/classes.csv"
    refused "line 2: label 'c2', expected a number, .* --model-config num_labels=N, with --new-head" "$yoke" train --from "$out/m" \
        --data "csv:$out/classes.csv,label=score" --output-dir "$out/classes" || return 1
    "$yoke" train --from "$out/m" --new-head --model-config num_labels=3 --data "csv:$out/classes.csv,label=score" --max-steps 1 \
        --global-batch 8 --save-steps 1 --output-dir "$out/classes" >"$out/said" 2>&1 || { cat "$out/said"; return 1; }
    grep 'of 1 classes is not taken: it starts new, of 3' "$out/said" && "$yoke" eval --from "$out/classes" \
        --data "csv:$out/classes.csv,label=score" | grep accuracy
}
ok "classes from a regression" classes
ok "metrics of classes" refused "accuracy, f1, f1_macro and perplexity are of classes" "$yoke" eval --from "$out/m" \
    --data "csv:$out/rows.csv,label=score" --tokenizer bytes --metrics accuracy
ok "label smoothing" refused "is a regression" learn "$out/x" --label-smoothing-factor 0.1
ok "another problem" refused "problem_type=multi_label_classification" learn "$out/x" --model-config \
    "$small,num_labels=1,problem_type=multi_label_classification"
plan
