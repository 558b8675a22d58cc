#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Short batches with padding, on devices with a quantum of 16 rows: losses, norms, metrics and predictions of 1, 7, 8 and 15 rows equal
# those of devices without one (decision 0006; ./check --long tries 1 to 15), and no batch has a program of its
# own. A model whose rows depend on each other has no padding.
. "$YOKE_SOURCE/tests/cli/lib.sh"
export YOKE_PLUGINS="cpu,$YOKE_BUILD/tests/dist/.libs/yoke_slow.so" YOKE_SLOW_OWN=1 YOKE_SLOW_FACTORS="1;1" YOKE_PROBE=off

# A whole batch of 16 rows and a short one, of training and of evaluation: images, pictures in colours, rows of text, running text.
python3 - "$out" <<'P'
import os, random, sys
r = random.Random(1)
def idx(name, dims, data):
    with open(name, "wb") as f:
        f.write(bytes([0, 0, 8, len(dims)]) + b"".join(n.to_bytes(4, "big") for n in dims) + data)
for n in range(1, 16):
    rows = 16 + n
    os.makedirs(f"{sys.argv[1]}/images{n}")
    for part in ("train", "t10k"):
        labels = [r.randrange(10) for _ in range(rows)]
        idx(f"{sys.argv[1]}/images{n}/{part}-labels-idx1-ubyte", [rows], bytes(labels))
        idx(f"{sys.argv[1]}/images{n}/{part}-images-idx3-ubyte", [rows, 28, 28],
            bytes(min(255, r.randrange(200) + 5 * k) for k in labels for _ in range(784)))
    for part in ("train", "eval"):
        for name, least in ((part, 5), (part + "-unlike", 1)): # words of a row; of unlike numbers BERT packs tokens
            with open(f"{sys.argv[1]}/{name}{n}.csv", "w") as f:
                f.write("text,label\n")
                for _ in range(rows):
                    k = r.randrange(3)
                    words = [r.choice(["ab", "cd", "ef"][k:] + ["gh", "ij"]) for _ in range(r.randrange(least, 6))]
                    f.write(" ".join(words) + f",{k}\n")
        with open(f"{sys.argv[1]}/{part}{n}.txt", "w") as f:
            f.write("".join(r.choice("abcdeabc ") for _ in range(8 * rows + 1)))
P

# trained DIR QUANTUM N MODEL: two epochs; the log in DIR.log, the number of all ranks' programs in DIR.programs
trained() {
    to=$1 quantum=$2 rows=$3 model=$4
    shift 4
    case $model in
    mlp) set -- --model-config hidden=16 --data "idx:$out/images$rows" "$@" ;;
    bert*) set -- --tokenizer bytes --max-length 20 --data "csv:$out/train${model#bert}$rows.csv" --eval-data \
        "csv:$out/eval${model#bert}$rows.csv" --model-config \
        num_hidden_layers=2,hidden_size=16,num_attention_heads=2,intermediate_size=32,max_position_embeddings=32${labels:-} "$@" ;;
    gpt2) set -- --tokenizer bytes --seq-len 8 --data "text:$out/train$rows.txt" --eval-data "text:$out/eval$rows.txt" \
        --model-config n_layer=2,n_head=2,n_embd=16,n_positions=32 "$@" ;;
    resnet20) set -- --data "idx:$out/images$rows" "$@" ;;
    esac
    YOKE_SLOW_QUANTUM=$quantum YOKE_LOG=debug "$yoke" train --model "${model%-*}" --global-batch 16 --per-device-eval-batch-size 16 \
        --max-steps 4 --learning-rate 1e-2 --logging-steps 1 --no-dataloader-drop-last --log "$to.log" --output-dir "$to" \
        "$@" >"$to.out" 2>&1 || { tail -5 "$to.out"; return 1; }
    grep -c '^yoke[][0-9]*: engine: program [0-9]*: ' "$to.out" >"$to.programs"
    rm -rf "$to"
}

# alike A B: the two logs, to the limits of decision 0006
alike() {
    python3 - "$1.log" "$2.log" <<'P'
import json, sys
a, b = ([json.loads(line) for line in open(name)] for name in sys.argv[1:])
steps = [[(r["loss"], r["grad_norm"]) for r in log if "loss" in r] for log in (a, b)]
assert len(steps[0]) == len(steps[1]) == 4, steps
for x, y in zip(*steps):
    assert abs(x[0] - y[0]) < 1e-4 * abs(y[0]) and abs(x[1] - y[1]) < 1e-3 * abs(y[1]), steps
ends = [log[-1] for log in (a, b)]
assert ends[0]["eval_loss"] > 0 and abs(ends[0]["eval_loss"] - ends[1]["eval_loss"]) < 1e-4 * ends[1]["eval_loss"], ends
assert ends[0]["eval_accuracy"] == ends[1]["eval_accuracy"], ends
P
}

# padded MODEL PROGRAMS ARGUMENTS..: with a quantum as without, by that many programs
padded() {
    model=$1 programs=$2
    shift 2
    for few in $short; do
        trained "$out/a" 16 "$few" "$model" "$@" && trained "$out/b" 0 "$few" "$model" "$@" || return 1
        alike "$out/a" "$out/b" || { echo "$model, $few rows"; return 1; }
        [ "$programs" = any ] && continue
        [ "$(cat "$out/a.programs")" = "$programs" ] && [ "$(cat "$out/b.programs")" -gt "$programs" ] ||
            { echo "$model, $few rows: $(cat "$out/a.programs") programs, without a quantum $(cat "$out/b.programs")"; return 1; }
    done
}

# predicted MODEL: scores of each row with a quantum and without
predicted() {
    for quantum in 16 0; do
        YOKE_SLOW_QUANTUM=$quantum "$yoke" predict --from "$out/model" --data "idx:$out/images7" --devices slow:0 --json \
            --per-device-eval-batch-size 16 >"$out/$quantum.json" || return 1
    done
    python3 - "$out/16.json" "$out/0.json" <<'P'
import json, sys
a, b = ([json.loads(line) for line in open(name)] for name in sys.argv[1:])
assert len(a) == len(b) == 23, (len(a), len(b))
for x, y in zip(a, b):
    assert x["row"] == y["row"] and all(abs(p - q) < 1e-5 for p, q in zip(x["scores"], y["scores"])), (x, y)
P
}

# numbers: labels have no class to ignore, so that a loss of them has no padding
numbers() {
    for part in train eval; do
        sed '2,$s/$/.5/' "$out/$part""7.csv" >"$out/$part-numbers7.csv"
    done
    labels=,num_labels=1
    trained "$out/a" 16 7 bert-numbers --devices slow:0 && trained "$out/b" 0 7 bert-numbers --devices slow:0 || return 1
    python3 - "$out/a.log" "$out/b.log" <<'P' || return 1
import json, sys
a, b = ([json.loads(line) for line in open(name)][-1] for name in sys.argv[1:])
assert a["eval_mse"] > 0 and abs(a["eval_mse"] - b["eval_mse"]) < 1e-4 * b["eval_mse"], (a, b)
P
    [ "$(grep -c 'gets no padding to 16.*labels that are numbers' "$out/a.out")" = 2 ]
}

# resnet: an evaluation has padding; a training has none, as its batch norm counts rows, and says so once
resnet() {
    trained "$out/a" 16 7 resnet20 --devices slow:0 && trained "$out/b" 0 7 resnet20 --devices slow:0 && alike "$out/a" "$out/b" || return 1
    grep 'gets no padding' "$out/a.out"
    [ "$(grep -c 'a short batch of 7 rows gets no padding to 16.*yk_batch_norm' "$out/a.out")" = 1 ] &&
        [ "$(cat "$out/a.programs")" = 3 ] && [ "$(cat "$out/b.programs")" = 4 ]
}

# A quantum pads each number of rows by the same code: the ends, a number below and the half are tried. --long tries each number.
short=${YOKE_PADDING_ROWS:-1 7 8 15}
[ -z "${YOKE_TEST_LONG-}" ] || short=$(seq 15)
instrumented && short="1 15"
for model in mlp gpt2 bert; do
    ok "$model" padded $model 2 --devices slow:0
done
short="3 15"
instrumented && short=15
ok "texts of unlike lengths" padded bert-unlike any --devices slow:0
ok "two ranks with a quantum" padded mlp 4 --devices "slow:0! slow:1!" --shares equal
ok "ranks that step by themselves" padded mlp any --devices "slow:0! slow:1!" --shares equal --local-sgd-steps 2
ok "ResNet" resnet
ok "labels that are numbers" numbers
ok "a model is trained" env YOKE_SLOW_QUANTUM=16 "$yoke" train --model mlp --data "idx:$out/images7" --devices slow:0 --max-steps 1 \
    --model-config hidden=16 --output-dir "$out/model"
ok "predictions" predicted
plan
