#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# yoke trace: one JSON file of all ranks, whose lanes nest, with every bucket in every step, over memory in common, over messages, and
# with a device that has memory of its own (tests/fakes); buckets travel while backward goes on. The exit code is the program's; a program
# without a step is told so.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
need_cores 2
small_images "$out/images"
export YOKE_BUCKET_BYTES=4096 # two buckets

trace() { # trace DEVICES: two steps into $out/trace.json
    rm -f "$out/trace.json"
    "$yoke" trace --output "$out/trace.json" --steps 2 --skip 12 -- "$yoke" train --model mlp --model-config hidden=32+32 \
        --data "idx:$out/images" --devices "$1" --global-batch 32 --max-steps 20 --overwrite-output-dir --output-dir "$out/model"
}

holds() { # holds own|wrapped WIRE..: whether rank 1 has memory of its own; what is wanted of the wire lane of two ranks
    [ "$(ls "$out"/trace.json*)" = "$out/trace.json" ] && python3 - "$out/trace.json" "$@" <<'P'
import json, sys
host, compute, copies, wire = range(4)
own_memory = sys.argv[2] == "own"
with open(sys.argv[1]) as f:
    all_events = json.load(f)["traceEvents"]
events = [e for e in all_events if e["ph"] == "X"]
assert {e["pid"] for e in all_events} == {0, 1}, "two ranks"
for rank in 0, 1:
    lane = [sorted((e for e in events if (e["pid"], e["tid"]) == (rank, i)), key=lambda e: (e["ts"], -e["dur"])) for i in range(4)]
    names = {e["tid"]: e["args"]["name"] for e in all_events if e["pid"] == rank and e["name"] == "thread_name"}
    assert names == {0: "host", 1: "compute", 2: "copies", 3: "wire"}, names  # each device tells when it worked (queue_span)
    assert all(e["dur"] >= 0 for e in events)
    open_until = []
    for e in lane[host]:  # each lies within what is open, or behind it; 2 ns for the rounding of microseconds
        while open_until and e["ts"] >= open_until[-1] - 0.002:
            open_until.pop()
        assert not open_until or e["ts"] + e["dur"] <= open_until[-1] + 0.002, ("host lane", e)
        open_until.append(e["ts"] + e["dur"])
    for a, b in zip(lane[compute], lane[compute][1:]):
        assert a["ts"] + a["dur"] <= b["ts"] + 0.002, ("compute lane", a, b)
    steps = [e for e in lane[host] if e["name"] == "step"]
    assert [e["args"]["number"] for e in steps] == [12, 13], steps
    # what an iterator does between two windows has a span of its own, which ends before the first program of its step
    begins = {e["args"]["number"]: e for e in lane[host] if e["name"] == "window begin"}
    assert 13 in begins, lane[host]
    segments = [e["ts"] for e in lane[compute] if e["name"] == "segment" and e["ts"] > steps[1]["ts"]]
    assert steps[1]["ts"] <= begins[13]["ts"] < min(segments), begins
    assert any(e["name"] == "segment" for e in lane[compute]), lane[compute]
    if rank == 1 and own_memory:
        assert {e["name"] for e in lane[copies]} == {"to device", "from device"}, lane[copies]
    for what in sys.argv[3:]:
        for step in steps[:1] if what == "all_gather" else steps:  # those of the last are not done yet, and left out
            inside = [e["args"]["number"] for e in lane[wire] if e["name"] == what and step["ts"] <= e["ts"] < step["ts"] + step["dur"]]
            assert sorted(inside) == [0, 1], (what, step, inside)
assert any(e["name"] == "update" for e in events), "a slow rank may own nothing to update; some rank does"
print(len(events), "events")
P
}

over() { # over TRANSPORT DEVICES own|wrapped WIRE..
    # shellcheck disable=SC2030
    export YOKE_TRANSPORT="$1"
    devices=$2
    shift 2
    trace "$devices" && holds "$@"
}

# Messages of the first bucket begin before the segment does that ends backward. Products of tens of milliseconds lie between, and one step
# of six is enough: a machine that lets a thread wait so long in all of them is not to be believed.
overlaps() {
    rm -f "$out/trace.json"
    YOKE_TRANSPORT=local "$yoke" trace --output "$out/trace.json" --steps 6 --skip 2 -- \
        "$yoke" launch --devices "cpu:0! cpu:0!" -- "$YOKE_BUILD/tests/dist/buckets" && python3 - "$out/trace.json" <<'P'
import json, sys
with open(sys.argv[1]) as f:
    events = [e for e in json.load(f)["traceEvents"] if e["ph"] == "X"]
for rank in 0, 1:
    own = [e for e in events if e["pid"] == rank]
    steps = [e for e in own if e["name"] == "step"]
    assert len(steps) == 6, steps
    before = 0
    for step in steps:
        inside = [e for e in own if step["ts"] <= e["ts"] < step["ts"] + step["dur"]]
        last = max((e for e in inside if e["name"] == "segment"), key=lambda e: e["args"]["number"])
        first = [e for e in inside if e["name"] == "reduce_scatter" and e["args"]["number"] == 0]
        assert len(first) == 1 and last["args"]["number"] >= 4, inside
        before += first[0]["ts"] < last["ts"]
    print("rank", rank, "overlaps in", before, "of", len(steps))
    assert before
P
}

# A program that traces two steps itself: those alone, of both ranks in one file, all of them with their ends; under yoke trace it leaves
# that to it.
by_itself() {
    YOKE_TRANSPORT=local "$yoke" launch --devices "cpu:0! cpu:0!" -- "$YOKE_BUILD/tests/dist/buckets" 768 "$out/own.json" &&
        python3 - "$out/own.json" <<'P' || return 1
import json, sys
with open(sys.argv[1]) as f:
    events = json.load(f)["traceEvents"]
spans = [e for e in events if e["ph"] == "X"]
for rank in 0, 1:
    own = [e for e in spans if e["pid"] == rank]
    assert [e["args"]["number"] for e in own if e["name"] == "step"] == [0, 1], own
    assert sum(e["name"] == "update" for e in own) == 2 and sum(e["name"] == "segment" for e in own) >= 4, own
    assert [e["args"]["name"] for e in events if e["ph"] == "M" and e["pid"] == rank][1:] == ["host", "compute", "copies", "wire"]
P
    rm "$out/own.json"
    YOKE_TRANSPORT=local "$yoke" trace --output "$out/trace.json" --steps 2 --skip 2 -- \
        "$yoke" launch --devices "cpu:0! cpu:0!" -- "$YOKE_BUILD/tests/dist/buckets" 768 "$out/own.json" && [ ! -e "$out/own.json" ] &&
        [ -s "$out/trace.json" ]
}

# A bucket's copy begins while segments behind it still run: in one queue it would be behind them all.
leaves() {
    rm -f "$out/trace.json"
    YOKE_TRANSPORT=local "$yoke" trace --output "$out/trace.json" --steps 4 --skip 2 -- \
        "$yoke" launch --devices "cuda:0! cuda:1!" -- "$YOKE_BUILD/tests/dist/buckets" 96 && python3 - "$out/trace.json" <<'P'
import json, sys
with open(sys.argv[1]) as f:
    own = [e for e in json.load(f)["traceEvents"] if e["ph"] == "X" and e["pid"] == 1]
steps, early = [e for e in own if e["name"] == "step"], 0
assert len(steps) == 4, steps
for step in steps:
    inside = [e for e in own if step["ts"] <= e["ts"] < step["ts"] + step["dur"]]
    last = max((e for e in inside if e["name"] == "segment"), key=lambda e: e["args"]["number"])
    bucket = [e for e in inside if e["name"] == "from device" and e["args"]["number"] >= 4 * 96]
    assert len(bucket) >= 4 and last["args"]["number"] >= 4, inside
    early += min(e["ts"] for e in bucket) < last["ts"] + last["dur"]
print("a bucket left during backward in", early, "of", len(steps))
assert early
P
}

# Members compare their parameters after step 100.
compared() {
    rm -f "$out/trace.json"
    "$yoke" trace --output "$out/trace.json" --steps 4 --skip 97 -- "$yoke" train --model mlp --model-config hidden=32 \
        --data "idx:$out/images" --devices "cpu:0! cpu:0!" --global-batch 32 --max-steps 110 --overwrite-output-dir \
        --output-dir "$out/model" && grep -c '"name":"hash"' "$out/trace.json"
}

# Whoever is left when all others are excluded cuts nothing for them: one segment, as of a rank alone, and compares nothing after step 200.
# One step of four is enough: an excluded rank is tried again at times.
only_member() {
    rm -f "$out/trace.json"
    YOKE_PLUGINS="cpu,$YOKE_BUILD/tests/dist/.libs/yoke_slow.so" YOKE_SLOW_RUN_US=40000 YOKE_SLOW_ROW_US=2000 "$yoke" trace \
        --output "$out/trace.json" --steps 4 --skip 197 -- "$yoke" train --model mlp --model-config hidden=32+32 --data "idx:$out/images" \
        --devices "cpu:0 slow:0@0" --global-batch 32 --max-steps 210 --overwrite-output-dir --output-dir "$out/model" || return 1
    python3 - "$out/trace.json" <<'P'
import json, sys
with open(sys.argv[1]) as f:
    own = [e for e in json.load(f)["traceEvents"] if e["ph"] == "X" and e["pid"] == 0]
steps = [e for e in own if e["name"] == "step"]
segments = [max(e["args"]["number"] for e in own if e["name"] == "segment" and s["ts"] <= e["ts"] < s["ts"] + s["dur"]) for s in steps]
hashes = sum(e["name"] == "hash" for e in own)
print(segments, hashes, "hashes")
assert 0 in segments and (not hashes or set(segments) != {0})
P
}

# FILE.0 and its like are the user's.
user_files() {
    for rank in 0 1 2; do echo "mine $rank" >"$out/trace.json.$rank"; done
    "$yoke" trace --output "$out/trace.json" -- true 2>"$out/err"
    [ "$(cat "$out"/trace.json.*)" = "$(printf 'mine 0\nmine 1\nmine 2')" ] || return 1
    trace "cpu:0! cpu:0!" && [ "$(cat "$out"/trace.json.*)" = "$(printf 'mine 0\nmine 1\nmine 2')" ] || return 1
    rm "$out"/trace.json.[012]
    [ "$(ls "$out"/trace.json*)" = "$out/trace.json" ]
}

# The program is a rank of which the lower ones write elsewhere; a part that is cut off is named.
some_parts() {
    "$yoke" trace --output "$out/some.json" -- sh -c 'echo "{\"traceEvents\":[{\"pid\":2}]}" >"$YOKE_TRACE.2"; echo "{" >"$YOKE_TRACE.3"' \
        2>"$out/err" && grep -q '"pid":2' "$out/some.json" && grep -q "some.json.part-.*the trace lacks rank 3" "$out/err" &&
        [ "$(cat "$out"/some.json.part-*)" = "{" ] || return 1
    mkdir "$out/full.json"
    ! "$yoke" trace --output "$out/full.json" -- sh -c 'echo "{\"traceEvents\":[]}" >"$YOKE_TRACE.0"' 2>"$out/err" &&
        grep -q "full.json: .*traces stay in $out/full.json.part-" "$out/err" && ls "$out"/full.json.part-*.0
}

# timeout signals the process and its group, so that a training hears of it twice: from timeout, and from yoke trace.
in_group() {
    rm -rf "$out/group" "$out/group.json"
    timeout -s USR1 3 "$yoke" trace --output "$out/group.json" -- "$yoke" train --model mlp --data "idx:$out/images" --devices cpu:0 \
        --max-steps 10000000 --save-strategy steps --save-steps 10000000 --output-dir "$out/group" >"$out/group.log" 2>&1
    cat "$out/group.log"
    ls "$out/group"/checkpoint-*/model.safetensors && ! ls -d "$out/group"/*.yoke-tmp
}
# As timeout and Slurm end it: the program hears of it, and what there is by then is joined.
ended() {
    for signal in TERM HUP USR1; do
        rm -f "$out"/ended*
        "$yoke" trace --output "$out/ended.json" -- sh -c 'trap "exit 9" TERM HUP USR1
            echo "{\"traceEvents\":[{\"pid\":0}]}" >"$YOKE_TRACE.0"
            echo >"$0"; i=0; while [ $i -lt 400 ]; do i=$((i + 1)); sleep 0.05; done' "$out/ended" &
        i=0
        until [ -e "$out/ended" ]; do
            i=$((i + 1))
            [ $i -lt 1200 ] || return 1
            sleep 0.05
        done
        kill -$signal $!
        wait $!
        [ $? = 9 ] && [ "$(ls "$out"/ended.json*)" = "$out/ended.json" ] && grep -q '"pid":0' "$out/ended.json" || return 1
    done
}

codes() {
    "$yoke" trace --output "$out/none.json" -- sh -c 'exit 7' 2>"$out/err"
    [ $? = 7 ] && grep -q "has written no trace" "$out/err" || return 1
    "$yoke" trace --output "$out/none.json" -- true 2>"$out/err"
    [ $? = 1 ] && [ ! -e "$out/none.json" ]
}

ok "memory in common" over shm "cpu:0! cpu:0!" wrapped reduce_scatter
ok "buckets travel while backward goes on" overlaps
ok "a program traces steps of its own" by_itself
ok "messages" over local "cpu:0! cpu:0!" wrapped reduce_scatter all_gather
fake="$YOKE_BUILD/tests/fakes/.libs/fake_cuda.so"
if [ -e "$fake" ] && [ "$(uname -m)" = x86_64 ]; then
    . "$YOKE_SOURCE/tests/fakes/use.sh"
    YOKE_CUDA_NCCL=0
    ok "a device with memory of its own" over local "cuda:0! cuda:1!" own reduce_scatter all_gather
    ok "buckets leave it while backward goes on" leaves
else
    skip "a device with memory of its own" "the fake driver runs kernels on x86-64 only"
    skip "buckets leave it while backward goes on" "the fake driver runs kernels on x86-64 only"
fi
ok "members compare their parameters" compared
ok "an only member's step is one segment" only_member
ok "files that are not its own stay" user_files
ok "each part there is joined, and stays if the whole cannot be written" some_parts
ok "a signal to the whole group is one, and leaves a checkpoint" in_group
ok "a signal ends the program, and its trace is joined" ended
ok "exit codes" codes
plan
