#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The peaks that floors are computed from: there, of a sane size, and in the order that hardware has.
. "$YOKE_SOURCE/tests/golden/lib.sh"
ok "runs" sh -c '"$1" bench peaks --json >"$2/peaks.json"' sh "$yoke" "$out"
ok "sane" python3 - "$out/peaks.json" <<'P'
import json, sys
rows = json.load(open(sys.argv[1]))["peaks"]
best = {(r["what"], r["name"], n): v for r in rows for n, v in r["giga"].items()}
for key, v in best.items():
    assert 0 < v["median"] <= v["best"], (key, v)
fp32 = max(r["giga"]["1"]["best"] for r in rows if r["name"] == "fp32")
assert 0.5 < fp32 < 2000, fp32  # 2 to 64 results a cycle at 1 to 6 GHz, with room for emulators and busy machines
for r in rows:
    g = r["giga"]["1"]["best"]
    if r["what"] == "math":
        assert r["isa"] and (r["name"] == "fp32" or g > fp32 / 4), r  # short formats are there to be faster
    else:
        assert 0.05 < g < 2000, r
names = {(r["what"], r["name"]) for r in rows}
for level in ("l2", "l3", "dram"):
    assert {(level, k) for k in ("read", "copy", "fill")} <= names, names
P
plainly "text" sh -c '"$1" bench peaks | grep -q "^dram *read"' sh "$yoke"
plan
