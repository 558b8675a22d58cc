#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Names of labels: saved as id2label and label2id, and what evaluation numbers by, whatever the order in its file; and a
# text that is its own evaluation data is evaluated whole.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data models tinyshakespeare banking77
export YOKE_DEVICES=cpu:0
for class in card_arrival exchange_rate pin_blocked top_up_failed; do
    tr -d '\r' <"$data/banking77/train.csv" | grep -v '"' | grep ",$class\$" | head -n 12
done >"$out/body"
{ echo text,category && cat "$out/body"; } >"$out/all.csv"
{ echo category,text && grep -e ,top_up_failed -e ,exchange_rate "$out/body" | sed 's/\(.*\),\(.*\)/\2,"\1"/' | sort -r; } >"$out/two.csv"
{ cat "$out/two.csv" && echo 'card_lost,"Where is it?"'; } >"$out/unknown.csv"

bert() { # bert COMMAND FILE ARGUMENTS...
    command=$1 rows=$2
    shift 2
    "$yoke" "$command" --data "csv:$rows,text=text,label=category" --tokenizer bytes --max-length 48 --json "$@"
}

learn() {
    bert train "$out/all.csv" --model bert --model-config \
        hidden_size=64,num_hidden_layers=1,num_attention_heads=2,intermediate_size=64,max_position_embeddings=64,hidden_dropout_prob=0 \
        --global-batch 16 --max-steps 90 --learning-rate 3e-3 --output-dir "$out/m" >"$out/train.json"
}

saved() {
    python3 - "$out/m/config.json" <<'P'
import json, sys
c = json.load(open(sys.argv[1]))
names = ["card_arrival", "exchange_rate", "pin_blocked", "top_up_failed"]
assert c["id2label"] == {str(i): n for i, n in enumerate(names)}, c
assert c["label2id"] == {n: i for i, n in enumerate(names)} and c["num_labels"] == 4, c
P
}

right() { # right DIR FILE LEAST: what it got right, of all rows of the file
    bert eval "$2" --from "$1" >"$out/eval.json" && cat "$out/eval.json" && python3 - "$out/eval.json" "$2" "$3" <<'P'
import json, sys
r, rows = json.load(open(sys.argv[1])), len(open(sys.argv[2]).readlines()) - 1
assert r["total"] == rows and r["eval_accuracy"] >= float(sys.argv[3]), (r, rows)
P
}

refused() { # refused PATTERN COMMAND...: exit code 2 and one line
    pattern=$1
    shift
    "$@" >"$out/refused" 2>&1
    code=$?
    cat "$out/refused"
    test $code -eq 2 && test "$(grep -vc "texts are cut to 48 tokens" "$out/refused")" -eq 1 && grep -q "$pattern" "$out/refused"
}

# The same classifier as another program may have saved it: classes in another order, no num_labels.
turned() {
    mkdir -p "$out/turned" && python3 - "$out/m" "$out/turned" <<'P'
import json, struct, sys
src, dst = sys.argv[1:]
c = json.load(open(src + "/config.json"))
del c["num_labels"]
names = [c["id2label"][str(i)] for i in range(4)][::-1]
c["id2label"], c["label2id"] = dict((str(i), n) for i, n in enumerate(names)), dict((n, str(i)) for i, n in enumerate(names))
json.dump(c, open(dst + "/config.json", "w"))
b = open(src + "/model.safetensors", "rb").read()
n = struct.unpack("<Q", b[:8])[0]
head, data = json.loads(b[8:8 + n]), bytearray(b[8 + n:])
for k in ("classifier.weight", "classifier.bias"):
    lo, hi = head[k]["data_offsets"]
    row = (hi - lo) // 4
    data[lo:hi] = b"".join(bytes(data[lo + i * row:lo + (i + 1) * row]) for i in (3, 2, 1, 0))
open(dst + "/model.safetensors", "wb").write(b[:8 + n] + data)
P
}

# The same with names in label2id alone.
numbered() { # numbered PYTHON: a change of that config.json c
    mkdir -p "$out/numbered" && cp "$out/turned"/* "$out/numbered" && python3 -c 'import json, sys
c = json.load(open(sys.argv[1]))
exec(sys.argv[2])
json.dump(c, open(sys.argv[1], "w"))' "$out/numbered/config.json" "$1" && right "$out/numbered" "$out/two.csv" 0.9
}

# The classes' names become NAMES, in the model and in the rows: a list of the model stands above what the names look like.
named() { # named NAMES...
    mkdir -p "$out/named" && cp "$out/m"/* "$out/named" && python3 - "$out/named/config.json" "$out/all.csv" "$out/named.csv" "$@" <<'P'
import csv, json, sys
config, rows, to, *names = sys.argv[1:]
c = json.load(open(config))
new = dict(zip((c["id2label"][str(i)] for i in range(4)), names))
c["id2label"], c["label2id"] = {str(i): n for i, n in enumerate(names)}, {n: i for i, n in enumerate(names)}
json.dump(c, open(config, "w"))
with open(to, "w", newline="") as f: # the first class has no row
    for text, label in csv.reader(open(rows)):
        if new.get(label) != names[0]:
            csv.writer(f, lineterminator="\n").writerow([text, new.get(label, label)])
P
}
named_other() { # a whole number that is no name, though the model has that many classes
    named 1 2 3 4 && sed 's/,2$/,0/' "$out/named.csv" >"$out/other.csv" &&
        refused "label '0', expected one of the names in the model's id2label" bert eval "$out/other.csv" --from "$out/named"
}
named_right() { named "$@" && right "$out/named" "$out/named.csv" 0.9; }

# Further training keeps the numbers of names it knows. Other ones need a new head: the old one's rows stand for other classes.
further() {
    bert train "$out/two.csv" --from "$out/m" --max-steps 1 --learning-rate 0 --global-batch 8 \
        --overwrite-output-dir --output-dir "$out/further" >"$out/json" &&
        cmp "$out/m/config.json" "$out/further/config.json" || return 1
    sed 's/exchange_rate/rate/' "$out/all.csv" >"$out/renamed.csv"
    refused "is of classes of other names than the data's: --new-head" bert train "$out/renamed.csv" --from "$out/m" \
        --max-steps 1 --global-batch 8 --eval-strategy no --overwrite-output-dir --output-dir "$out/further" || return 1
    bert train "$out/renamed.csv" --from "$out/m" --new-head --max-steps 1 --learning-rate 0 --global-batch 8 \
        --overwrite-output-dir --output-dir "$out/further" \
        >"$out/json" && grep -q '"3": "top_up_failed"' "$out/further/config.json" && grep -q '"2": "rate"' "$out/further/config.json"
}

total() { # total ARGUMENTS...: how many characters were evaluated
    "$yoke" eval --from "$out/text" --seq-len 32 --json "$@" | python3 -c 'import json, sys; print(json.load(sys.stdin)["total"])'
}

whole_text() {
    head -c 4000 "$data/tinyshakespeare/input.txt" >"$out/a.txt"
    tail -c 1500 "$out/a.txt" >"$out/b.txt"
    gpt="--model gpt2 --model-config n_layer=1,n_head=2,n_embd=32,n_positions=32 --tokenizer char --seq-len 32 --global-batch 4"
    for i in "a.txt" "a.txt --eval-data text:$out/b.txt"; do
        # shellcheck disable=SC2086
        "$yoke" train $gpt --data text:$out/$i --num-train-epochs 1 \
            --overwrite-output-dir --output-dir "$out/text" --json >>"$out/steps" || return 1
    done
    test "$(total --data "text:$out/a.txt")" -eq 399 && test "$(total --eval-data "text:$out/b.txt")" -eq 1499 &&
        test "$(total --data "text:$out/b.txt,split=0")" -eq 1499 || return 1
    python3 -c 'import json, sys
a, b = (json.loads(l)["step"] for l in open(sys.argv[1]))
assert (a, b) == (28, 31), (a, b)' "$out/steps" # windows of 3,600 and of 4,000 characters by fours
}

ok "a classifier of four named classes" learn
ok "config.json has the names both ways" saved
ok "it knows its training rows" right "$out/m" "$out/all.csv" 0.9
ok "two of the classes, in another order: the same numbers" right "$out/m" "$out/two.csv" 0.9
ok "a name that the model does not have is one clear error" \
    refused "line 26: label 'card_lost'.*id2label: 'card_arrival', 'exchange_rate', " bert eval "$out/unknown.csv" \
    --from "$out/m"
ok "the same classes in another order, as another program saves them" turned
ok "are told apart as well" right "$out/turned" "$out/two.csv" 0.9
ok "so are they by label2id alone" numbered 'del c["id2label"]'
ok "and by label2id beside names of transformers" numbered 'c["id2label"] = {str(i): f"LABEL_{i}" for i in range(4)}'
ok "classes that the model names by other whole numbers than their own" named_right 1 2 3 4
ok "in any order" named_right 3 0 2 1
ok "names that transformers gives to classes without any" named_right LABEL_0 LABEL_1 LABEL_2 LABEL_3
ok "a whole number that the model does not name" named_other
ok "further training keeps known names, and takes other ones with a new head alone" further
ok "a text of its own is evaluated whole, and then all of the other trains" whole_text

# Other classes than the model's: the rest of the model is kept, the head is new, and says the new names.
head_of() { # head_of FOLDER NAMES SAME: its classes, and which of its tensors are those of $out/m: all, or all but the classifier's
    python3 - "$out/m" "$1" "$2" "$3" <<'P'
import json, struct, sys
def tensors(folder):
    b = open(folder + "/model.safetensors", "rb").read()
    n, = struct.unpack("<Q", b[:8])
    return {k: b[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]] for k, v in json.loads(b[8:8 + n]).items() if k[0] != "_"}
old, new, names = tensors(sys.argv[1]), tensors(sys.argv[2]), sys.argv[3].split()
c = json.load(open(sys.argv[2] + "/config.json"))
assert c["num_labels"] == len(names) and list(c["id2label"].values()) == names and list(c["label2id"]) == names, c
assert len(new["classifier.bias"]) == 4 * len(names)
differ = {k for k in old if old[k] != new[k]}
assert old.keys() == new.keys() and differ == (set() if sys.argv[4] == "all" else {"classifier.weight", "classifier.bias"}), differ
P
}
head_new() { # head_new FILE LINE NAMES SAME ARGUMENTS...
    rows=$1 line=$2 names=$3 same=$4
    shift 4
    bert train "$rows" --from "$out/m" --max-steps 1 --learning-rate 0 --global-batch 2 --eval-strategy no --overwrite-output-dir \
        --output-dir "$out/head" "$@" 2>"$out/err" >"$out/json"
    code=$?
    cat "$out/err"
    [ $code = 0 ] && [ "$(grep -c classifier "$out/err")" = 1 ] && grep -q "$line" "$out/err" && head_of "$out/head" "$names" "$same"
}
four="card_arrival exchange_rate pin_blocked top_up_failed"
{ echo text,category && printf 'a,yes\nb,no\n'; } >"$out/yes.csv"
sed 's/exchange_rate/rate/' "$out/all.csv" >"$out/renamed.csv"
ok "other classes without the option" refused "of 4 classes, and there are 2: --new-head" bert train "$out/yes.csv" --from "$out/m" \
    --max-steps 1 --global-batch 2 --eval-strategy no --output-dir "$out/z"
ok "a new head for two other classes" head_new "$out/yes.csv" "of 4 classes is not taken: it starts new, of 2" "no yes" rest --new-head
ok "for some of the classes" head_new "$out/two.csv" "of 4 classes is not" "exchange_rate top_up_failed" rest --ignore_mismatched_sizes
ok "for as many of other names" head_new "$out/renamed.csv" "have other names" "card_arrival pin_blocked rate top_up_failed" rest --new-head
ok "none for the same classes" head_new "$out/all.csv" "its classes are those of the data" "$four" all --new-head
head_ranks() { # of all ranks alike, and the checkpoint goes on
    head_new "$out/yes.csv" "starts new" "no yes" rest --new-head --devices "cpu:0! cpu:0!" --save-steps 1 &&
        bert train "$out/yes.csv" --from "$out/m" --new-head --max-steps 2 --global-batch 2 --eval-strategy no --output-dir "$out/head" \
            --resume-from-checkpoint last >"$out/json" 2>"$out/err" || { cat "$out/err"; return 1; }
    ! grep "starts new" "$out/err" # the checkpoint brings the classifier
}
ok "on two ranks, and gone on with" head_ranks
ok "more classes as numbers" sh -c 'printf "text,category\na,0\nb,5\n" >"$1"' sh "$out/numbers.csv"
ok "are refused by name, too" refused "6 classes, but model bert has 4 (num_labels): --new-head" bert train "$out/numbers.csv" \
    --from "$out/m" --max-steps 1 --global-batch 2 --eval-strategy no --output-dir "$out/z"
head_of_images() { # the last layer of any classifier
    mkdir "$out/i" && python3 - "$out/i" <<'P' || return 1
import sys
for part in ("train", "t10k"):
    open(f"{sys.argv[1]}/{part}-images-idx3-ubyte", "wb").write(b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (6, 28, 28)) +
                                                                bytes(i * 7 % 251 for i in range(6 * 784)))
    open(f"{sys.argv[1]}/{part}-labels-idx1-ubyte", "wb").write(b"\0\0\x08\x01" + (6).to_bytes(4, "big") + bytes((0, 1, 2, 0, 1, 2)))
P
    for model in mlp resnet20; do
        set -- --max-steps 1 --global-batch 6 --learning-rate 0 --eval-strategy no --overwrite-output-dir
        "$yoke" train --model $model --data "idx:$out/i" --output-dir "$out/$model" "$@" || return 1
        "$yoke" train --from "$out/$model" --data "idx:$out/i,classes=3" --new-head --output-dir "$out/$model.3" "$@" 2>"$out/err" &&
            grep "of 10 classes is not taken: it starts new, of 3" "$out/err" && grep '"num_labels": 3' "$out/$model.3/config.json" &&
            "$yoke" eval --from "$out/$model.3" --data "idx:$out/i,classes=3" || return 1
    done
}
ok "classifiers of images" head_of_images
headless() { # 3 classes in config.json, no classifier, and labels of 2 names: a line says so, and an option keeps the 3
    rm -rf "$out/bare" && cp -r "$out/m" "$out/bare" && python3 - "$out/bare" <<'P' || return 1
import json, struct, sys
config = json.load(open(sys.argv[1] + "/config.json"))
config = {k: v for k, v in config.items() if k not in ("id2label", "label2id")} | {"num_labels": 3}
json.dump(config, open(sys.argv[1] + "/config.json", "w"))
file = open(sys.argv[1] + "/model.safetensors", "rb").read()
n = struct.unpack("<Q", file[:8])[0]
header, data = json.loads(file[8:8 + n]), b""
for name in [k for k in header if k.startswith("classifier.")]:
    del header[name]
for tensor in [t for k, t in header.items() if k != "__metadata__"]:
    begin, end = tensor["data_offsets"]
    tensor["data_offsets"] = [len(data), len(data) + end - begin]
    data += file[8 + n + begin:8 + n + end]
header = json.dumps(header).encode()
open(sys.argv[1] + "/model.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + data)
P
    set -- train "$out/yes.csv" --from "$out/bare" --max-steps 1 --global-batch 2 --eval-strategy no --overwrite-output-dir \
        --output-dir "$out/head"
    said="has num_labels 3, and the data's labels are 2 names: the classifier has 2"
    bert "$@" 2>"$out/err" >"$out/json" && [ "$(grep -c "$said" "$out/err")" = 1 ] && grep -q '"num_labels": 2' "$out/head/config.json" &&
        bert "$@" --num_classes 3 2>"$out/err" >"$out/json" && ! grep -q "$said" "$out/err" &&
        grep -q '"num_labels": 3' "$out/head/config.json" || { cat "$out/err"; return 1; }
}
ok "another number of classes without a classifier is said" headless
ok "a language model has none" refused "model gpt2 has no classifier" "$yoke" train --from "$out/text" --new-head --data "text:$out/a.txt" \
    --max-steps 1 --output-dir "$out/z" --json
ok "without a model to start from it has no effect" refused "new-head has no effect without --from" bert train "$out/yes.csv" --model bert \
    --new-head --output-dir "$out/z"
# A model of more classes than its data name keeps their names. One that keeps none is evaluated by a guess, which is said.
tiny=hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_size=16
wider() {
    bert train "$out/all.csv" --model bert --model-config $tiny,num_labels=6 --global-batch 16 --max-steps 1 --output-dir "$out/wider" \
        >"$out/json" && bert eval "$out/two.csv" --from "$out/wider" 2>"$out/said" >"$out/eval.json" && cat "$out/said" || return 1
    ! grep "names no classes" "$out/said" && python3 - "$out/wider/config.json" <<'P' || return 1
import json, sys
c = json.load(open(sys.argv[1]))
names = ["card_arrival", "exchange_rate", "pin_blocked", "top_up_failed", "LABEL_4", "LABEL_5"]
assert c["id2label"] == {str(i): n for i, n in enumerate(names)} and c["label2id"] == {n: i for i, n in enumerate(names)}, c
c = {k: v for k, v in c.items() if k not in ("id2label", "label2id")}
json.dump(c, open(sys.argv[1], "w"))
P
    bert eval "$out/two.csv" --from "$out/wider" --model-config num_labels=6 2>"$out/said" >"$out/eval.json" ||
        { cat "$out/said"; return 1; }
    grep "the model names no classes: 'exchange_rate' is taken for class 0" "$out/said"
}
ok "more classes than names" wider
# Rows are as long for an evaluation as they were for the training, and one line tells of what is cut.
as_long() {
    python3 - "$out/long.csv" <<'P' || return 1
import sys
with open(sys.argv[1], "w") as f:
    print("text,category", file=f)
    for i in range(48):
        print("once more " * 15 + chr(97 + i % 4) * 20, "abcd"[i % 4], sep=",", file=f)
P
    rows="csv:$out/long.csv,text=text,label=category"
    set -- "$yoke" train --model bert --model-config $tiny,max_position_embeddings=192 --tokenizer bytes --global-batch 16 --max-steps 1 \
        --json
    "$@" --data "$rows" --eval-data "$rows" --max-length 190 --output-dir "$out/long" >"$out/run" 2>"$out/said" &&
        "$yoke" eval --from "$out/long" --data "$rows" --per-device-eval-batch-size 16 --tokenizer bytes --json >"$out/eval.json" &&
        "$@" --data "$rows,max-length=190" --eval-data "$rows,max-length=190" --output-dir "$out/keyed" >/dev/null 2>&1 &&
        cat "$out/said" "$out/run" "$out/eval.json" || return 1
    ! grep "texts are cut" "$out/said" && [ "$(field eval_loss "$out/run")" = "$(field eval_loss "$out/eval.json")" ] &&
        cmp "$out/long/config.json" "$out/keyed/config.json" || return 1
    "$yoke" eval --from "$out/long" --data "$rows" --tokenizer bytes --max-length 32 2>&1 >/dev/null |
        grep "long.csv: 48 of 48 texts are cut to 32 tokens"
}
ok "rows as long as in training" as_long
# Of two ranks one says what each of them reads.
once() {
    YOKE_DEVICES="cpu:0 cpu:0" bert train "$out/all.csv" --model bert --model-config $tiny,max_position_embeddings=64 --global-batch 16 \
        --max-steps 1 --max-length 16 --output-dir "$out/once" 2>&1 >/dev/null | tee "$out/said" && cat "$out/said"
    [ "$(grep -c "all.csv: 48 of 48 texts are cut to 16 tokens" "$out/said")" = 1 ]
}
ok "one line tells a job of two ranks what is cut" once
# transformers' scripts number a data set's names by label2id, and ours by id2label.
contradicts() {
    mkdir -p "$out/contradicts" && cp "$out/m"/* "$out/contradicts" && sed -i 's/"card_arrival": *0/"card_arrival": 1/' \
        "$out/contradicts/config.json" && ! cmp -s "$out/m/config.json" "$out/contradicts/config.json" &&
        refused 'config.json: id2label names class 0 "card_arrival", and label2id gives that name another number' \
            bert eval "$out/all.csv" --from "$out/contradicts"
}
ok "label2id against id2label" contradicts
plan
