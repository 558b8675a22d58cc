#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Metrics over one and two ranks, against the formulas of scikit-learn and scipy on the scores of the saved weights, in Python.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist models
small_images "$out/images"
export YOKE_DEVICES=cpu:0
two() { # images of classes 0 and 1 alone, as a set of two classes
    mkdir -p "$out/two" && python3 - "$out/images" "$out/two" <<'P'
import sys
for part in ("train", "t10k"):
    x, y = (open(sys.argv[1] + f"/{part}-{kind}-ubyte", "rb").read() for kind in ("images-idx3", "labels-idx1"))
    rows = [i for i in range(len(y) - 8) if y[8 + i] in (0, 6)]
    n = len(rows).to_bytes(4, "big")
    pixels = b"".join(x[16 + 784 * i:800 + 784 * i] for i in rows)
    open(sys.argv[2] + f"/{part}-images-idx3-ubyte", "wb").write(x[:4] + n + x[8:16] + pixels)
    open(sys.argv[2] + f"/{part}-labels-idx1-ubyte", "wb").write(y[:4] + n + bytes(y[8 + i] // 6 for i in rows))
P
}
ok "a set of two classes" two

learn() { # learn NAME DATA
    "$yoke" train --model mlp --model-config hidden=16 --data "$2" --global-batch 16 --max-steps 12 --learning-rate 3e-3 \
        --eval-strategy no --output-dir "$out/$1" 2>/dev/null
}
ok "a model of ten classes" learn ten "idx:$out/images"
ok "a model of two" learn pair "idx:$out/two,classes=2"

check() { # check NAME DATA FOLDER METRICS DEVICES
    "$yoke" eval --from "$out/$1" --data "$2" --metrics "$4" --devices "$5" --per-device-eval-batch-size 7 --json 2>/dev/null \
        >"$out/json" || return 1
    python3 - "$out/json" "$out/$3" "$out/$1/model.safetensors" <<'P'
import json, math, struct, sys
b = open(sys.argv[3], "rb").read()
n, = struct.unpack("<Q", b[:8])
head = json.loads(b[8:8 + n])
def tensor(name):
    lo, hi = head[name]["data_offsets"]
    return struct.unpack("<%df" % ((hi - lo) // 4), b[8 + n + lo:8 + n + hi]), head[name]["shape"]
layers = [(tensor(f"fc{i}.weight"), tensor(f"fc{i}.bias")[0]) for i in (1, 2)]
def linear(x, layer):
    (w, (rows, cols)), bias = layer
    return [sum(map(lambda a, c: a * c, w[i * cols:(i + 1) * cols], x)) + bias[i] for i in range(rows)]
x, y = (open(sys.argv[2] + "/t10k-" + f, "rb").read() for f in ("images-idx3-ubyte", "labels-idx1-ubyte"))
y = list(y[8:])
p, loss = [], 0
for r in range(len(y)):
    z = linear([(v / 255 - 0.2860) / 0.3530 for v in x[16 + 784 * r:800 + 784 * r]], layers[0])
    z = linear([max(0, v) for v in z], layers[1])
    p.append(z.index(max(z)))
    loss += max(z) + math.log(sum(math.exp(v - max(z)) for v in z)) - z[y[r]]
m, rows = len(z), len(y)
# sklearn.metrics.f1_score(average=None), over the labels that occur in either
def f1(k):
    tp = sum(a == k == c for a, c in zip(y, p))
    fp, fn = p.count(k) - tp, y.count(k) - tp
    return 2 * tp / (2 * tp + fp + fn)
present = sorted(set(y) | set(p))
my, mp = sum(y) / rows, sum(p) / rows
want = {"loss": loss / rows, "accuracy": sum(a == c for a, c in zip(y, p)) / rows, "perplexity": math.exp(loss / rows),
        "f1_macro": sum(map(f1, present)) / len(present), "mse": sum((a - c) ** 2 for a, c in zip(y, p)) / rows,
        "pearson": sum((a - my) * (c - mp) for a, c in zip(y, p))
        / math.sqrt(sum((a - my) ** 2 for a in y) * sum((c - mp) ** 2 for c in p))}  # scipy.stats.pearsonr
if m == 2:
    want["f1"] = f1(1)  # average="binary"
got = json.load(open(sys.argv[1]))
print(got, want, present)
assert len(got) == len(want) + 2 and got["total"] == rows
for key, v in want.items():
    assert abs(got["eval_" + key] - v) <= (1e-5 if key in ("loss", "perplexity") else 1e-9) * abs(v), (key, v)
P
}
for devices in cpu:0 "cpu:0! cpu:0!"; do
    ok "ten classes on $devices" check ten "idx:$out/images" images all "$devices"
    ok "two classes on $devices" check pair "idx:$out/two,classes=2" two all,f1 "$devices"
done
many() { # as many classes as a vocabulary has words, on two ranks and on one
    seq 1 30 >"$out/text"
    for devices in cpu:0 "cpu:0! cpu:0!"; do
        "$yoke" eval --from "$data/models/fake-gpt2" --eval-data "text:$out/text" --seq-len 16 --metrics all --devices "$devices" --json \
            2>/dev/null || return 1
    done >"$out/many"
    python3 -c 'import json, sys
a, b = map(json.loads, open(sys.argv[1]))
assert a["total"] == b["total"] > 40 and all(abs((a[k] or 0) - (b[k] or 0)) <= 1e-5 * abs(a[k] or 0) for k in a), (a, b)' "$out/many"
}
ok "50,257 classes" many
refused() {
    "$yoke" eval --from "$out/ten" --data "idx:$out/images" --metrics f1 >"$out/stdout" 2>"$out/err"
    [ $? = 2 ] && grep -q -e "--metrics f1 is of two classes, and there are 10" "$out/err"
}
ok "f1 of ten classes" refused
plan
