#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# yoke predict: a line for each row of the input, in its order, the same on one and on two ranks; labels and scores against the
# saved weights, in Python.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
export YOKE_DEVICES=cpu:0
small_images "$out/images"

trained() {
    mkdir "$out/m" && : >"$out/linked" && ln -s ../linked "$out/m/predictions.jsonl" &&
        mlp "$out/m" --eval-strategy no --do-predict --max-eval-samples 150 2>/dev/null && [ -L "$out/m/predictions.jsonl" ] &&
        [ "$(wc -l <"$out/linked")" = 150 ]
}
ok "a model, and predictions at the end of its training" trained

predict() { # predict FILE ARGUMENTS...
    file=$1
    shift
    "$yoke" predict --from "$out/m" --data "idx:$out/images" --per-device-eval-batch-size 13 "$@" >"$out/$file"
}
ok "on one rank" predict one --json
ok "on two ranks" predict two --json --devices "cpu:0! cpu:0!"
ok "on two ranks, all rows at once" predict wide --json --devices "cpu:0! cpu:0!" --per-device-eval-batch-size 500
ok "as text" predict text
ok "into a file" predict nothing --json --output "$out/file"

right() {
    python3 - "$out" <<'P'
import json, math, struct, sys
d = sys.argv[1]
b = open(d + "/m/model.safetensors", "rb").read()
n, = struct.unpack("<Q", b[:8])
head = json.loads(b[8:8 + n])
def tensor(name):
    lo, hi = head[name]["data_offsets"]
    return struct.unpack("<%df" % ((hi - lo) // 4), b[8 + n + lo:8 + n + hi])
layers = [(tensor(f"fc{i}.weight"), tensor(f"fc{i}.bias")) for i in (1, 2)]
def linear(x, layer):
    w, bias = layer
    return [sum(map(lambda a, c: a * c, w[i * len(x):(i + 1) * len(x)], x)) + bias[i] for i in range(len(bias))]
x = open(d + "/images/t10k-images-idx3-ubyte", "rb").read()[16:]
names = ("/one", "/two", "/wide", "/file", "/m/predictions.jsonl")
one, two, wide, file, trained = ([json.loads(line) for line in open(d + f)] for f in names)
text = [line.rstrip("\n").split("\t") for line in open(d + "/text")]
assert len(one) == len(two) == len(wide) == len(text) == 200 and file == one and len(trained) == 150 and open(d + "/nothing").read() == ""
for r in range(200):
    z = linear([(v / 255 - 0.2860) / 0.3530 for v in x[784 * r:784 * (r + 1)]], layers[0])
    z = linear([max(0, v) for v in z], layers[1])
    e = [math.exp(v - max(z)) for v in z]
    p = [v / sum(e) for v in e]
    for got in [one[r], two[r], wide[r]] + trained[r:r + 1]:
        assert got["row"] == r + 1 and got["label"] == p.index(max(p)), (r, got, p)
        assert all(abs(a - c) < 1e-5 for a, c in zip(got["scores"], p)) and got["score"] == max(got["scores"]), (got, p)
    assert text[r] == [str(r + 1), str(one[r]["label"]), "%.6f" % one[r]["score"]], text[r]
P
}
ok "rows, labels and scores" right

names() { # names of classes, with quotes, and the lines of a file in which one row has no text
    printf 'text,label\ngood day,"a ""b"""\n"two\nlines",c\n,c\nbad day,c\ngood night,"a ""b"""\n' >"$out/rows.csv"
    "$yoke" train --model bert --model-config hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_size=32 \
        --data "csv:$out/rows.csv" --tokenizer char --global-batch 4 --max-steps 1 --output-dir "$out/b" 2>"$out/err" >"$out/stdout" &&
        "$yoke" predict --from "$out/b" --data "csv:$out/rows.csv" --json --devices "cpu:0! cpu:0!" >"$out/named" || return 1
    cat "$out/err"
    [ "$(grep -c "1 of 5 rows have no text and are dropped" "$out/err")" = 1 ] || return 1
    python3 - "$out/named" <<'P'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert [r["row"] for r in rows] == [2, 3, 6, 7], rows
assert {r["label"] for r in rows} <= {'a "b"', "c"} and all(len(r["scores"]) == 2 for r in rows), rows
P
}
ok "names of classes, lines of a file" names

without_labels() { # a csv, JSON lines and plain lines, with no labels and with labels that no model knows: the same predictions
    printf 'id,text\n1,good day\n2,"two\nlines"\n3,\n4,good night\n' >"$out/bare.csv"
    printf 'label,text\nx,good day\n0.5,"two\nlines"\n,\n,good night\n' >"$out/other.csv"
    printf '{"text": "good day"}\n{"text": "two\\nlines", "label": null}\n{"text": ""}\n{"text": "good night"}\n' >"$out/bare.jsonl"
    printf 'good day\r\n\ngood night' >"$out/bare.txt"
    for file in csv:bare.csv csv:other.csv jsonl:bare.jsonl lines:bare.txt; do
        "$yoke" predict --from "$out/b" --data "${file%%:*}:$out/${file#*:}" --json --devices "cpu:0! cpu:0!" \
            >"$out/${file#*:}.out" || return 1
    done
    python3 - "$out" <<'P'
import json, sys
csv, other, jsonl, lines = ([json.loads(line) for line in open(f"{sys.argv[1]}/{f}.out")]
                            for f in ("bare.csv", "other.csv", "bare.jsonl", "bare.txt"))
print(csv, jsonl, lines)
assert csv == other and [r["row"] for r in csv] == [2, 3, 6]
assert [r["row"] for r in jsonl] == [1, 2, 4] and [r["row"] for r in lines] == [1, 3]
assert {r["label"] for r in csv} <= {'a "b"', "c"}
rest = lambda r: (r["label"], [round(s, 6) for s in r["scores"]])
assert [rest(r) for r in csv] == [rest(r) for r in jsonl]
assert [rest(r) for r in lines] == [rest(csv[0]), rest(csv[2])]
P
}
ok "rows without labels" without_labels
needs_labels() { # evaluation does
    "$yoke" eval --from "$out/b" --data "lines:$out/bare.txt" 2>"$out/err"
    [ $? = 2 ] && grep -q "its rows have no labels, so they are for predictions" "$out/err" || return 1
    "$yoke" eval --from "$out/b" --data "csv:$out/bare.csv" 2>"$out/err"
    [ $? = 2 ] && grep -q "no column 'label' in the header" "$out/err"
}
ok "evaluation needs labels" needs_labels

# Ranks without rows do all the same: 0, 1 and N-1 rows on N ranks. A row's line does not depend on the ranks.
few() { # few KIND FROM: COUNT.KIND are the data of so many rows
    for ranks in $(instrumented || echo 2) 3; do
        devices=$(printf 'cpu:0! %.0s' $(seq $ranks))
        for rows in 0 1 $((ranks - 1)); do
            "$yoke" predict --from "$2" --data "$1:$out/few$rows.$1" --json --devices "${devices% }" >"$out/few" 2>"$out/err" &&
                [ "$(wc -l <"$out/few")" = $rows ] && head -n $rows "$out/few.$1" | diff "$out/few" - ||
                { cat "$out/err" "$out/few"; return 1; }
        done
    done
}
texts() { # texts ROWS
    printf 'good night\nbad day\n' | head -n "$1"
}
made() { # images of both kinds, a table, JSON lines and plain lines of 0 to 2 rows, and what one rank says of 2
    for rows in 0 1 2; do
        mkdir -p "$out/few$rows.idx" && python3 - "$out/images" "$out/few$rows.idx" $rows <<'P' || return 1
import sys
rows = int(sys.argv[3])
for part, n in (("train", 40), ("t10k", rows)):
    for kind, head, row in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
        name = f"/{part}-{kind}-ubyte"
        b = open(sys.argv[1] + name, "rb").read(head + n * row)
        open(sys.argv[2] + name, "wb").write(b[:4] + n.to_bytes(4, "big") + b[8:])
P
        mkdir -p "$out/few$rows.cifar10" && python3 - "$out/few$rows.cifar10" $rows <<'P' || return 1
import sys
row = lambda i: bytes([i % 10]) + bytes((i + k * 7) % 256 for k in range(3072))
for part, n in (("data_batch_1", 8), ("test_batch", int(sys.argv[2]))):
    open(f"{sys.argv[1]}/{part}.bin", "wb").write(b"".join(row(i) for i in range(n)))
P
        { printf 'text,label\n' && [ $rows = 0 ] || texts $rows | sed 's/$/,c/'; } >"$out/few$rows.csv"
        { [ $rows = 0 ] || texts $rows | sed 's/.*/{"text": "&", "label": "c"}/'; } >"$out/few$rows.jsonl"
        { [ $rows = 0 ] || texts $rows; } >"$out/few$rows.lines"
    done
    mlp "$out/colours" --data "cifar10:$out/few2.cifar10" --global-batch 4 --max-steps 1 --warmup-steps 0 >"$out/stdout" 2>&1 &&
        "$yoke" predict --from "$out/colours" --data "cifar10:$out/few2.cifar10" --json >"$out/few.cifar10" &&
        mlp "$out/whole" --data "cifar10:$out/few2.cifar10/data_batch_1.bin" --global-batch 4 --max-steps 1 --warmup-steps 0 \
            >"$out/stdout" 2>&1 &&
        grep "no evaluation: all rows of the file train" "$out/stdout" && ! grep "eval accuracy" "$out/stdout" &&
        "$yoke" predict --from "$out/m" --data "idx:$out/few2.idx" --json >"$out/few.idx" &&
        for kind in csv jsonl lines; do
            "$yoke" predict --from "$out/b" --data "$kind:$out/few2.$kind" --json >"$out/few.$kind" || return 1
        done
}
ok "data of few rows" made
ok "images: fewer rows than ranks, and none" few idx "$out/m"
plainly "images in colour" few cifar10 "$out/colours"
ok "a table" few csv "$out/b"
plainly "JSON lines" few jsonl "$out/b"
plainly "plain lines" few lines "$out/b"
few_evaluated() { # on ranks without rows a training evaluates and predicts, too, and yoke eval says the same of what is left
    for rows in 1 2; do
        mlp "$out/few.m" --devices "cpu:0! cpu:0! cpu:0!" --data "idx:$out/few$rows.idx" --global-batch $rows --max-steps 2 --eval-steps 1 \
            --do-predict --json >"$out/json" && [ "$(wc -l <"$out/few.m/predictions.jsonl")" = $rows ] || return 1
        for devices in cpu:0 "cpu:0! cpu:0! cpu:0!"; do
            "$yoke" eval --from "$out/few.m" --data "idx:$out/few$rows.idx" --devices "$devices" --json >"$out/eval" || return 1
            python3 - "$out/json" "$out/eval" $rows <<'P' || return 1
import json, sys
trained, told = (json.load(open(f)) for f in sys.argv[1:3])
assert told["total"] == int(sys.argv[3]) and abs(told["eval_loss"] - trained["eval_loss"]) < 1e-5, (trained, told)
P
        done
    done
}
ok "evaluations of fewer rows than ranks" few_evaluated
none() { # nothing to train on or to evaluate is an error, in one line whoever finds it; of all files that have no rows
    printf 'text,label\n,c\n' >"$out/filtered.csv" && : >"$out/empty.csv" || return 1
    for devices in "cpu:0! cpu:0!" cpu:0; do
        [ "$devices" = cpu:0 ] && instrumented && continue
        for file in csv:few0.csv csv:filtered.csv csv:empty.csv jsonl:few0.jsonl; do
            "$yoke" predict --from "$out/b" --data "${file%%:*}:$out/${file#*:}" --devices "$devices" >"$out/few" && [ ! -s "$out/few" ] ||
                return 1
            for command in eval "train --output-dir $out/z"; do
                # shellcheck disable=SC2086
                "$yoke" $command --from "$out/b" --data "${file%%:*}:$out/${file#*:}" --json --devices "$devices" >"$out/few" 2>"$out/err"
                [ $? = 2 ] && [ "$(grep -c found "$out/err")" = 1 ] || { cat "$out/err"; return 1; }
            done
        done
    done
}
ok "no rows at all" none
export codes="$out/code"
no_images() { # the same of images, and each rank ends with the same code
    : >"$out/none.bin" && cp -r "$out/few0.idx" "$out/none.idx" &&
        cp "$out/few0.idx/t10k-images-idx3-ubyte" "$out/none.idx/train-images-idx3-ubyte" &&
        cp "$out/few0.idx/t10k-labels-idx1-ubyte" "$out/none.idx/train-labels-idx1-ubyte" || return 1
    for data in "$out/m idx:$out/none.idx" "$out/colours cifar10:$out/none.bin"; do
        for command in "predict" "eval" "train --max-steps 1 --output-dir $out/z"; do
            [ "$command" = predict ] && code=0 || code=2
            rm -f "$out"/code.*
            # shellcheck disable=SC2016,SC2086
            "$yoke" launch --devices "cpu:0! cpu:0! cpu:0!" sh -c '"$@"; code=$?; echo $code >"$codes.$YOKE_RANK"; exit $code' each \
                "$yoke" $command --from "${data% *}" --data "${data#* }" --json >"$out/few" 2>"$out/err"
            [ $? = $code ] && [ "$(cat "$out"/code.*)" = "$(printf "$code\n$code\n$code")" ] && [ ! -s "$out/few" ] &&
                [ "$(grep -c 'expected images, found none' "$out/err")" = $((code / 2)) ] ||
                { echo "$command $data"; cat "$out/err" "$out"/code.*; return 1; }
        done
    done
}
ok "no images at all: each rank ends alike" no_images
few_trained() { # fewer rows than ranks: each number of them trains to the same bits
    for data in "idx:$out/few1.train" "cifar10:$out/one.bin"; do
        for devices in "cpu:0! cpu:0!" "cpu:0! cpu:0! cpu:0!"; do
            "$yoke" train --model mlp --model-config hidden=8 --data "$data" --global-batch 3 --no-dataloader-drop-last --max-steps 3 \
                --eval-strategy no --no-do-eval --devices "$devices" --json --overwrite-output-dir --output-dir "$out/z" >"$out/json" \
                2>"$out/err" || { cat "$out/err"; return 1; }
            sed -n 's/.*"param_hash": "\([0-9a-f]*\)".*/\1/p' "$out/json"
        done >"$out/hashes"
        [ "$(wc -l <"$out/hashes")" = 2 ] && [ "$(sort -u "$out/hashes" | wc -l)" = 1 ] || { cat "$out/hashes"; return 1; }
    done
}
mkdir "$out/few1.train" && head -c 3073 "$out/few1.cifar10/test_batch.bin" >"$out/one.bin" && for part in train t10k; do
    cp "$out/few1.idx/t10k-images-idx3-ubyte" "$out/few1.train/$part-images-idx3-ubyte"
    cp "$out/few1.idx/t10k-labels-idx1-ubyte" "$out/few1.train/$part-labels-idx1-ubyte"
done
ok "a training of one row on 2 and 3 ranks has the same bits" few_trained

running_text() {
    seq 1 400 >"$out/text.txt"
    "$yoke" train --model gpt2 --model-config n_layer=1,n_head=2,n_embd=16,n_positions=16 --data "text:$out/text.txt" --tokenizer char \
        --max-steps 1 --output-dir "$out/g" >"$out/stdout" 2>&1 || return 1
    echo kept >"$out/keep" && ln -s keep "$out/link" || return 1
    for to in keep link; do
        "$yoke" predict --from "$out/g" --data "text:$out/text.txt" --output "$out/$to" 2>"$out/err"
        [ $? = 2 ] && grep -q "these data have no classes" "$out/err" && grep -qx kept "$out/keep" || return 1
    done
}
ok "a language model names no classes, and earlier lines stay" running_text
before_training() {
    "$yoke" train --from "$out/g" --data "text:$out/text.txt" --max-steps 1 --do-predict --output-dir "$out/g2" 2>"$out/err"
    [ $? = 2 ] && cat "$out/err" && grep -q "these data have no classes" "$out/err" && [ ! -e "$out/g2" ]
}
ok "which a training says before its first step" before_training
full() {
    predict full --json --output /dev/full 2>"$out/err"
    [ $? = 1 ] && grep -q -e "--output /dev/full: " "$out/err"
}
ok "a full disk" full

# A model whose weights are no numbers names no class: lines are whole up to there, and the row is named. A file stays as it was.
no_numbers() {
    cp -r "$out/m" "$out/damaged" && python3 - "$out/damaged/model.safetensors" <<'P' || return 1
import json, struct, sys
b = bytearray(open(sys.argv[1], "rb").read())
n, = struct.unpack("<Q", b[:8])
lo, hi = json.loads(b[8:8 + n])["fc2.bias"]["data_offsets"]
b[8 + n + lo:8 + n + lo + 4] = struct.pack("<f", float("nan"))
open(sys.argv[1], "wb").write(b)
P
    for devices in cpu:0 "cpu:0! cpu:0!"; do
        "$yoke" predict --from "$out/damaged" --data "idx:$out/images" --json --devices "$devices" >"$out/nan" 2>"$out/err"
        code=$?
        cat "$out/err" "$out/nan"
        "$yoke" predict --from "$out/damaged" --data "idx:$out/images" --devices "$devices" --output "$out/keep" 2>"$out/said"
        grep -qx kept "$out/keep" && [ ! -e "$out/keep.yoke-tmp" ] || return 1
        "$yoke" eval --from "$out/damaged" --data "idx:$out/images" --devices "$devices" >"$out/poor" 2>"$out/said"
        [ $? = 1 ] && [ ! -s "$out/poor" ] && grep "the mean loss of 200 labels is -*nan: the model's weights are damaged" "$out/said" ||
            { cat "$out/poor" "$out/said"; return 1; }
        [ $code = 1 ] && valid_json "$out/nan" && grep "row 1: the model's result is -*nan: its weights are damaged" "$out/err" || return 1
    done
}
ok "results that are no numbers" no_numbers

escaped_names() {
    printf 'text,label\n' >"$out/names.csv" &&
        for i in 1 2 3 4; do printf 'row %s,"two\nlines"\nother %s,"a\ttab\\"\n' $i $i; done >>"$out/names.csv"
    "$yoke" train --model bert --model-config hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_size=16 \
        --tokenizer bytes --max-length 16 --global-batch 8 --max-steps 1 --output-dir "$out/names" \
        --data "csv:$out/names.csv,text=text,label=label" || return 1
    "$yoke" predict --from "$out/names" --tokenizer bytes --max-length 16 --data "csv:$out/names.csv,text=text,label=label" \
        >"$out/lines" 2>&1
    cat "$out/lines"
    [ "$(grep -c -e 'two\\nlines	0' -e 'a\\ttab\\\\	0' "$out/lines")" = 8 ]
}
ok "names of classes keep their line" escaped_names

# The folder has the numbers of the characters that it was trained with.
other_numbers() {
    "$yoke" eval --from "$out/g" --data "text:$out/text.txt" --tokenizer char 2>"$out/err"
    [ $? = 2 ] && grep "would number the characters anew, and $out/g/tokenizer.json has the numbers" "$out/err" &&
        "$yoke" eval --from "$out/g" --data "text:$out/text.txt"
}
ok "characters are not numbered anew beside a model" other_numbers
plan
