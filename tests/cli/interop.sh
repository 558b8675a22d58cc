#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Hugging Face folders: what is opened with --from and saved again has the tensors of the original, under their names;
# a classifier has its own head in place of the one for masked words ("cls.").
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data models tinyshakespeare banking77
export YOKE_DEVICES=cpu:0
head -c 8000 "$data/tinyshakespeare/input.txt" >"$out/text"
{ # two rows of each sixth class
    echo text,category
    grep -v '"' "$data/banking77/train.csv" | awk 'NR % 120 == 20 || NR % 120 == 21'
} >"$out/rows.csv"

same_tensors() { # same_tensors ORIGINAL SAVED [equal]: names and shapes; what only one side has is shown
    python3 - "$@" <<'P'
import json, struct, sys
def head(d):
    with open(d + "/model.safetensors", "rb") as f:
        h = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    h.pop("__metadata__", None)
    return {k: (v["shape"], v["dtype"]) for k, v in h.items()}
a, b = head(sys.argv[1]), head(sys.argv[2])
new = {k for k in b if k.split(".")[0] in ("classifier", "score", "lm_head") or ".pooler." in k or k.startswith("pooler.")}
strip = lambda h, skip: {k: v for k, v in h.items() if k not in skip and not k.endswith(("position_ids", "attn.bias", "masked_bias"))}
x, y = strip(a, {k for k in a if k.startswith("cls.")}), strip(b, new - set(a))
ok = x.keys() == y.keys() and all(x[k][0] == y[k][0] for k in x)
for k in sorted(x.keys() ^ y.keys()):
    print("only in", sys.argv[1] if k in x else sys.argv[2], k)
sys.exit(not ok)
P
}

round_trip() { # round_trip MODEL DATA ARGUMENTS...: no learning, saved, opened again: the same loss
    from=$data/models/$1 rows=$2
    shift 2
    rm -rf "$out/m"
    "$yoke" train --from "$from" --data "$rows" --learning-rate 0 --max-steps 1 --global-batch 4 \
        --overwrite-output-dir --output-dir "$out/m" "$@" || return 1
    "$yoke" eval --from "$out/m" --data "$rows" --json "$@" >"$out/one" &&
        "$yoke" eval --from "$out/m" --data "$rows" --json "$@" >"$out/two" &&
        cmp "$out/one" "$out/two" && valid_json "$out/one" && same_tensors "$from" "$out/m"
}

before_after() { # GPT-2 has no new head: the original and the saved one evaluate alike
    "$yoke" eval --from "$data/models/fake-gpt2" --data "text:$out/text" --seq-len 32 --json >"$out/before" || return 1
    "$yoke" eval --from "$out/m" --data "text:$out/text" --seq-len 32 --json >"$out/after" && cat "$out/before" "$out/after" &&
        cmp "$out/before" "$out/after"
}

ok "GPT-2: saved with the names and shapes of the original" round_trip fake-gpt2 "text:$out/text" --seq-len 32
ok "GPT-2: evaluates alike before and after" before_after
ok "BERT: saved with the names and shapes of the original" round_trip bert-tiniest "csv:$out/rows.csv,text=text,label=category"
plan
