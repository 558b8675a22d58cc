#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The efficiency of a mix as yoke bench mixed prints it: figures that follow from each other.
. "$YOKE_SOURCE/tests/golden/lib.sh"
mixed() { # mixed FILE ARGUMENTS...
    file=$1
    shift
    "$yoke" bench mixed --model mlp --model-config input_size=64,hidden=64 --global-batch 64 --iterations 3 --rounds 2 \
        --devices "cpu:0 cpu:0" "$@" >"$out/$file"
}
refused() {
    for devices in cpu:0 "cpu:0 cpu:0 cpu:0"; do
        "$yoke" bench mixed --model mlp --devices "$devices" --iterations 1 --rounds 1 2>&1 | grep -q "two devices" || return 1
    done
}
ok "runs" mixed json --json
ok "figures fit" python3 - "$out/json" <<'P'
import json, sys
m = json.load(open(sys.argv[1]))
near = lambda a, b: abs(a - b) <= 1e-3 * b + 1e-4  # efficiencies have four decimals
for f in (m, m["median"]):
    assert len(f["alone"]) == 2 and near(f["eta"], f["together"] / sum(f["alone"])), f
assert m["median"]["together"] <= m["together"], m
each = m["rounds"]["each"]
assert len(each) == 2 and all(0 < e < float("inf") for e in each) and near(m["rounds"]["eta"], sum(each) / 2), m
P
ok "runs as text" mixed text
ok "text" grep -q "^of a round  *[0-9.]*  ([0-9.]* [0-9.]*)$" "$out/text"
ok "one device, three" refused
if instrumented; then
    skip "a device fifty times slower is no loss" "instrumented: rates are not those of a user"
    skip "shares follow a slower and a faster device in 20 steps" "instrumented: as above"
else
    ok "shares follow a slower and a faster device in 20 steps" \
        python3 "$YOKE_SOURCE/bench/mixed" --known --short --build "$YOKE_BUILD"
    ok "a device fifty times slower is no loss" \
        python3 "$YOKE_SOURCE/bench/mixed" --short --bound 0.9 --iterations 200 --build "$YOKE_BUILD"
fi
plan
