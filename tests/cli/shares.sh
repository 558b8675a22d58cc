#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Shares of two ranks: a rank whose memory is limited gets the rows that fit it; a resumed run goes on with the shares it had.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
small_images "$out/images"

# What 64 rows take of a rank's memory, and a little; half of the 256 rows would take more.
limit=$("$yoke" estimate-memory --model mlp --model-config hidden=512 --global-batch 128 --devices "cpu:0! cpu:0!" --optim adamw \
    --json 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["ranks"][1]["peak_bytes"] + 100000)')

two() { # two OUT LIMIT OPTION...: 14 steps, saved after 11
    to=$1 limits=$2
    shift 2
    YOKE_MEMORY_LIMIT=$limits mlp "$to" --devices "cpu:0! cpu:0!" --max-steps 14 --save-steps 11 --per-device-eval-batch-size 4 \
        --model-config hidden=512 --global-batch 256 "$@"
}

capped() {
    two "$out/a" "0,$limit" --log "$out/a.log" || return 1
    python3 - "$out/a.log" "$out/a/checkpoint-11/trainer_state.json" "$limit" <<'P'
import json, sys
last = [json.loads(line) for line in open(sys.argv[1])][-1]
shares, limit = json.load(open(sys.argv[2]))["shares"], int(sys.argv[3])
print(last["shares"], shares, limit)
assert shares["rows"] == 256 and sum(shares["share"]) == 256
# how many rows fit goes by what else the rank holds (its part of the optimizer): its bytes stay below, and half would not
assert 0 < last["shares"][1]["peak_bytes"] <= limit < last["shares"][0]["peak_bytes"]
assert 0 < shares["share"][1] < 128
P
}
ok "a limit that half of the rows do not fit leaves the rest to the other rank" capped

resumed() {
    mkdir "$out/b" && cp -r "$out/a/checkpoint-11" "$out/b" || return 1
    two "$out/b" "0,$limit" --resume-from-checkpoint last --log "$out/b.log" || return 1
    python3 - "$out/a.log" "$out/b.log" "$limit" <<'P'
import json, sys
a, b = ([json.loads(line) for line in open(f)] for f in sys.argv[1:3])
print(a[-1], b[-1])
assert b[0]["step"] == 12 and b[-1]["shares"][1]["share"] < 0.5
assert b[-1]["shares"][1]["peak_bytes"] <= int(sys.argv[3])
# shares follow measured speed, and sums follow shares: the same bits are due where they were the same to the end
assert a[-1]["param_hash"] == b[-1]["param_hash"] or a[-1]["shares"] != b[-1]["shares"]
P
}
ok "resumed with its shares: the same bits" resumed

older() { # what an older version wrote, and what somebody made of it, is measured anew
    for change in 'del s["policy"]; s["balance"] = [1.0] * 38' 's["policy"][0] = 1e300' 's["policy"] = "none"' \
        's["total"] = [1]'; do
        rm -rf "$out/o" && mkdir "$out/o" && cp -r "$out/a/checkpoint-11" "$out/o" || return 1
        python3 - "$out/o/checkpoint-11/trainer_state.json" "$change" <<'P' || return 1
import json, sys
state = json.load(open(sys.argv[1]))
exec(sys.argv[2], {"s": state["shares"]})
json.dump(state, open(sys.argv[1], "w"))
P
        two "$out/o" "0,$limit" --resume-from-checkpoint last --log "$out/o.log" || return 1
        [ "$(field step "$out/o.log")" = 14 ] || return 1
    done
}
ok "shares of another version or hand are measured anew" older

other() { # other DEVICES BATCH: goes on with the first run's checkpoint; the shares of its own last one
    rm -rf "$out/o" && mkdir "$out/o" && cp -r "$out/a/checkpoint-11" "$out/o" || return 1
    mlp "$out/o" --devices "$1" --max-steps 40 --save-steps 40 --per-device-eval-batch-size 4 --model-config hidden=512 \
        --global-batch "$2" --resume-from-checkpoint last || return 1
    python3 - "$out/o/checkpoint-40/trainer_state.json" "$1" "$2" <<'P'
import json, sys
shares = json.load(open(sys.argv[1]))["shares"]
print(shares)
assert " ".join(shares["devices"]) == sys.argv[2]
assert shares["rows"] == int(sys.argv[3]) == sum(shares["share"]), shares
# the rows of the first 11 steps belong to the devices that had them
assert shares["rows"] != 256 or sum(shares["total"]) == 256 * 29, shares
P
}
ok "shares of other devices are measured anew" other "cpu:0! cpu:0" 256
ok "shares of another batch are measured anew" other "cpu:0! cpu:0!" 128

nothing_fits() {
    two "$out/c" 100K
    code=$?
    grep -q "a step needs .* bytes .* the memory limit leaves" "$out/log" && [ $code = 1 ]
}
ok "where nothing fits it is said" nothing_fits

odd() {
    two "$out/d" "0,much"
    [ $? = 2 ] && grep -q "YOKE_MEMORY_LIMIT=0,much" "$out/log"
}
ok "a limit that is no number is refused" odd
plan
