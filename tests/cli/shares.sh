#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Shares of two ranks: a rank whose memory is limited gets the rows that fit it; a resumed run goes on with the shares it had; fixed shares
# hold, or are refused.
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
    for change in 'del s["policy"]; s["balance"] = [1.0] * 38' 's["policy"] = "none"' 's["total"] = [1]' 's["policy"][0] = 1e300'; do
        instrumented && [ "$change" != 's["policy"][0] = 1e300' ] && continue # the reader of JSON has its own tests
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
plainly "shares of other devices are measured anew" other "cpu:0! cpu:0" 256
ok "shares of another batch are measured anew" other "cpu:0! cpu:0!" 128

small_device() { # what a card of 64 MiB has free is its limit, though nobody says so: rows that do not fit otherwise are computed again
    (
        . "$YOKE_SOURCE/tests/fakes/use.sh"
        export FAKE_CUDA_DEVICES=1 FAKE_CUDA_MEMORY=67108864
        python3 -c 'print("abcdefgh.\n" * 1000)' >"$out/text"
        "$yoke" train --model gpt2 --model-config n_layer=4,n_embd=256,n_head=4,n_positions=64 --data "text:$out/text,tokenizer=bytes" \
            --seq-len 64 --global-batch 16 --shares equal --max-steps 2 --eval-strategy no --no-do-eval --devices "cpu:0 cuda:0!" \
            --output-dir "$out/s" --log "$out/s.log" || return 1
        python3 - "$out/s.log" <<'P'
import json, sys
last = json.loads(open(sys.argv[1]).read().splitlines()[-1])
print(last)
assert last["step"] == 2 and last["shares"][1]["share"] == 0.5 and 50 << 20 < last["shares"][1]["peak_bytes"] <= 64 << 20
P
    )
}
if instrumented; then
    skip "a device of 64 MiB takes part in a mixed job" "instrumented: mixed jobs and limits are in tests/dist, and it compiles kernels"
elif [ "$(uname -m)" = x86_64 ] && [ -e "$YOKE_BUILD/tests/fakes/.libs/fake_cuda.so" ]; then
    ok "a device of 64 MiB takes part in a mixed job" small_device
else
    skip "a device of 64 MiB takes part in a mixed job" "the fake driver runs kernels on x86-64 only"
fi

nothing_fits() {
    two "$out/c" 100K
    code=$?
    grep -q "no parts of the slices fit: rank [01] .* needs [0-9]* bytes with an even part, and its memory limit is 102400" "$out/log" &&
        [ $code = 1 ]
}
ok "where nothing fits it is said" nothing_fits

odd() {
    two "$out/d" "0,much"
    [ $? = 2 ] && grep -q "YOKE_MEMORY_LIMIT=0,much" "$out/log"
}
ok "a limit that is no number is refused" odd

# Fixed shares: 24 and 8 rows of 32.

fixed() { # fixed OUT OPTION..: 6 steps
    to=$1
    shift
    mlp "$to" --devices "cpu:0 cpu:0" --max-steps 6 --save-steps 3 --per-device-eval-batch-size 4 "$@"
}

holds() { # as option and as variable, over two transports; nobody is excluded
    fixed "$out/f" --shares 3:1 --log "$out/f.log" && YOKE_SHARES=3:1 YOKE_TRANSPORT=local fixed "$out/g" --log "$out/g.log" || return 1
    python3 - "$out/f.log" "$out/g.log" "$out/f/checkpoint-3/trainer_state.json" <<'P'
import json, sys
f, g = (json.loads(open(log).read().splitlines()[-1]) for log in sys.argv[1:3])
shares = json.load(open(sys.argv[3]))["shares"]
print(f, g, shares)
assert [s["share"] for s in f["shares"]] == [s["share"] for s in g["shares"]] == [0.75, 0.25]
assert shares["fixed"] == "3:1" and shares["total"] == [72, 24] and "policy" not in shares
assert f["param_hash"] == g["param_hash"] and f["eval_loss"] == g["eval_loss"]
P
}
ok "fixed shares hold, by option and by variable" holds

idle() { # a rank that has no row of any batch is named, once; one row of 32 is a share like any other
    fixed "$out/i" --shares 1000000:1 >"$out/said" 2>&1 || return 1
    cat "$out/said"
    line='(--shares) "1000000:1" gives rank 1 (cpu:0) none of the 32 rows of a batch: give a larger part or batch'
    [ "$(grep -c -F "$line" "$out/said")" = 1 ] || return 1
    fixed "$out/i" --shares 31:1 >"$out/said" 2>&1 && ! grep "of the 32 rows" "$out/said"
}
ok "shares that leave a rank without rows" idle

goes_on() { # with the shares of before to the same bits and without a word; with others it says so
    rm -rf "$out/h" && mkdir "$out/h" && cp -r "$out/f/checkpoint-3" "$out/h" || return 1
    fixed "$out/h" --shares 3:1 --resume-from-checkpoint last --log "$out/h.log" >"$out/said" 2>&1 || return 1
    ! grep "other settings" "$out/said" && [ "$(tail -n 1 "$out/f.log" | grep -o '"param_hash": "[^"]*"')" = \
        "$(tail -n 1 "$out/h.log" | grep -o '"param_hash": "[^"]*"')" ] || return 1
    for now in speed equal; do
        rm -rf "$out/h" && mkdir "$out/h" && cp -r "$out/f/checkpoint-3" "$out/h" || return 1
        fixed "$out/h" --shares $now --resume-from-checkpoint last >"$out/said" 2>&1 || return 1
        grep "made with other settings; the present ones hold: shares $now, not 3:1" "$out/said" || { cat "$out/said"; return 1; }
    done
}
ok "a checkpoint of fixed shares" goes_on

refused() { # refused CODE WORDS OPTION..: by yoke estimate-memory, which plans what yoke train does
    want=$1 words=$2
    shift 2
    "$yoke" estimate-memory --model mlp --devices "cpu:0 cpu:0" "$@" >"$out/said" 2>&1
    code=$?
    cat "$out/said"
    [ $code -eq "$want" ] && grep -q -e "$words" "$out/said"
}
wrong() {
    for shares in 3 3:1:2 0:1 x 3: ""; do
        refused 2 "(--shares) is \"$shares\"" --shares "$shares" || return 1
    done
    refused 2 "2 parts, for 1 rank:" --shares 3:1 --devices cpu:0 && refused 2 "3 parts, for 2 ranks:" --shares 3:1:2 &&
        "$yoke" estimate-memory --model mlp --devices cpu:0 --shares equal
}
ok "shares that are none are refused" wrong

short() { # memory is never made to do by other shares
    refused 1 "the fixed share of rank 1 (cpu:0) is 2304 of 2560 rows.* smaller part" --shares 1:9 --global-batch 2560 \
        --memory-limit 100M,5M && refused 1 "rank 1 .*memory" --shares speed --global-batch 2560 --memory-limit 100M,100K &&
        ! grep "fixed share" "$out/said"
}
ok "a share that does not fit names its rank" short

unlike() { # each rank with its own
    head -c 32 /dev/urandom >"$out/secret" && chmod 600 "$out/secret"
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    export YOKE_ADDR=127.0.0.1 YOKE_PORT="$port" YOKE_SECRET_FILE="$out/secret" YOKE_SIZE=2
    YOKE_RANK=1 YOKE_SHARES=1:3 YOKE_DEVICES=cpu:0 mlp "$out/u1" >"$out/u1.said" 2>&1 &
    YOKE_RANK=0 YOKE_SHARES=3:1 YOKE_DEVICES=cpu:0 mlp "$out/u0" >"$out/u0.said" 2>&1
    code=$?
    wait $!
    other=$?
    cat "$out"/u?.said
    [ $code -eq 2 ] && [ $other -eq 2 ] && grep -q "are 3:1 on rank 0 (cpu:0) and 1:3 on rank 1 (cpu:0)" "$out/u0.said"
}
ok "ranks with unlike shares are told so" unlike
plan
