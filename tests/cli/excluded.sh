#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A device that would slow the job down is excluded from it, and said to be, once; '!' keeps it, and what it costs is said.
# The slow device is the plugin tests/dist/slow.c, whose runs take a known time: a factor of its own time would multiply the moments in
# which a loaded machine runs other processes. Rows cost it some, or it would take all of them where it has to stay. Whether shares follow
# speeds is tests/unit/balance/policy.c's, without a clock.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
small_images "$out/images"
export YOKE_PLUGINS="cpu,$YOKE_BUILD/tests/dist/.libs/yoke_slow.so" YOKE_SLOW_ROW_US=2000

steps() { # steps OUT MICROSECONDS DEVICES STEPS OPTION..
    to=$1 us=$2 devices=$3 most=$4
    shift 4
    # shellcheck disable=SC2086
    YOKE_SLOW_RUN_US=$us YOKE_DEVICES=$devices "$yoke" ${LAUNCH-} train --model mlp --model-config hidden=32 --data "idx:$out/images" \
        --global-batch 64 --max-steps "$most" --learning-rate 1e-3 --logging-steps 10 --output-dir "$to" --eval-steps 100000 \
        --log "$to.log" "$@" >"$to.out" 2>&1
    code=$?
    cat "$to.out"
    return $code
}

share() { # share RANK FILE: of all rows
    python3 -c 'import json,sys; print([json.loads(l) for l in open(sys.argv[2])][-1]["shares"][int(sys.argv[1])]["share"])' "$1" "$2"
}

excluded() {
    steps "$out/a" 40000 "cpu:0 slow:0@0" 200 || return 1
    [ "$(grep -c "balance: .*excluded" "$out/a.out")" = 1 ] || return 1
    grep -q "balance: rank 1 (slow:0@0) excluded: [0-9]* samples/s without it, [0-9]* with " "$out/a.out" || return 1
    at_least 0.03 "$(share 1 "$out/a.log")"
}
ok "40 ms for each run: excluded, in one line with both rates" excluded

first() { # the rank that prints and saves may be the one
    YOKE_SLOW_FACTORS="1;1" YOKE_SLOW_ROW_US="2000;0" steps "$out/b" "40000;4000" "slow:0@0 slow:1@0" 200 || return 1
    [ -s "$out/b/model.safetensors" ] && at_least 0.03 "$(share 0 "$out/b.log")" &&
        grep -q "balance: rank 0 (slow:0@0) excluded" "$out/b.out"
}
ok "rank 0 excluded: it goes on printing and saving" first

# Steps of the other one take 4 ms at least: in shorter ones other work is a larger part.
speeds() { # the log's are the job's, which the ranks that train have measured when they excluded this one
    python3 - "$out/b.log" "$(sed -n 's/.*excluded: \([0-9]*\) samples.*/\1/p' "$out/b.out")" <<'P'
import json, statistics, sys
rows = [r for r in map(json.loads, open(sys.argv[1])) if "loss" in r]
usual, without = statistics.median(r["samples_per_s"] for r in rows), float(sys.argv[2])
assert usual < 5 * without, (usual, without)
P
}
ok "rank 0 excluded: it tells the speed of the others" speeds

metric() { # metric loss|value: a program that reads it after each step, on rank 0 too
    YOKE_SLOW_RUN_US=40000 "$yoke" launch --devices "slow:0@0 cpu:0" "$YOKE_BUILD/tests/dist/excluded" "$out/images" "$1" >"$out/m" 2>&1
    code=$?
    cat "$out/m"
    return $code
}
same_loss() {
    metric loss && grep -q "rank 0: .*, without some" "$out/m" &&
        [ "$(sed -n 's/.*rank 0: \(.*\), without.*/\1/p' "$out/m")" = "$(sed -n 's/.*rank 1: \(.*\), without.*/\1/p' "$out/m")" ]
}
ok "rank 0 excluded: it reads the loss that the others have" same_loss
all_rows() { # its loader has read ahead before the shares change
    metric rows && [ "$(grep -c "rank .: 200, without" "$out/m")" = 2 ] && grep -q "rank 0: .*, without some" "$out/m"
}
ok "rank 0 excluded between evaluations: each evaluates every row" all_rows
told() {
    metric value && return 1
    grep -q "yk_item: rank 0 is excluded from the steps at present, and this value depends on data that the other ranks exchanged" "$out/m"
}
ok "rank 0 excluded: what it cannot read it is told" told

unlike() { # the ranks in the step compare why they differ with all ranks, and the one that reads waits for the step
    YOKE_SLOW_RUN_US=40000 timeout 60 "$yoke" launch --devices "slow:0@0 cpu:0! cpu:0!" "$YOKE_BUILD/tests/dist/excluded" \
        "$out/images" unlike >"$out/m" 2>&1
    code=$?
    cat "$out/m"
    [ $code != 0 ] && [ $code != 124 ] && grep -q "an excluded rank comes to read" "$out/m" && grep -q "largest norm 2, not 1" "$out/m"
}
ok "rank 0 excluded: it reads while the others find that they update differently" unlike

forced() {
    steps "$out/c" 40000 "cpu:0 slow:0@0!" 100 || return 1
    grep -q "excluded" "$out/c.out" && return 1
    grep -q "balance: rank 1 (slow:0@0!) slows the job down: [0-9]* samples/s with it, [0-9]* without" "$out/c.out" || return 1
    at_least "$(share 1 "$out/c.log")" 0.001
}
ok "forced: it stays, and what it costs is said" forced

own_memory() {
    export YOKE_SLOW_OWN=1 YOKE_SLOW_FACTORS="1;1" YOKE_SLOW_ROW_US="0;2000"
    steps "$out/d" "0;40000" "slow:0@0 slow:1@0" 200
    code=$?
    unset YOKE_SLOW_OWN YOKE_SLOW_FACTORS
    export YOKE_SLOW_ROW_US=2000
    [ $code = 0 ] && grep -q "balance: rank 1 (slow:1@0) excluded" "$out/d.out"
}
ok "devices with memory of their own" own_memory

# The rows between two lines of a log are their speed times their time, within 10 % over a run: a rank's own clock or own rows would be
# off by a factor. An excluded rank 0 writes lines late, two at once.
speeds_add_up() { # speeds_add_up LOG LEAST: of so many pairs of lines at least
    python3 - "$@" <<'P'
import json, sys
rows = told = pairs = 0
last = None
for r in map(json.loads, open(sys.argv[1])):
    if "loss" in r and last and r["step"] > last["step"] and r["seconds"] > last["seconds"]:
        rows += 64 * (r["step"] - last["step"])
        told += r["samples_per_s"] * (r["seconds"] - last["seconds"])
        pairs += 1
    last = r if "loss" in r else None if r.get("final") else last
print(f"{pairs} pairs of lines, {told / rows:.3f} of {rows} rows")
assert abs(told / rows - 1) < 0.1 and pairs >= int(sys.argv[2])
P
}
ok "rank 1 excluded: the log's speeds add up to the rows" speeds_add_up "$out/a.log" 19
ok "rank 0 excluded: the log's speeds add up to the rows" speeds_add_up "$out/b.log" 19
again() { # with a slow rank that stays: a run that was resumed, and one that a lost rank began again
    steps "$out/f" 40000 "cpu:0 slow:0@0!" 40 --save-steps 20 &&
        steps "$out/f" 40000 "cpu:0 slow:0@0!" 80 --save-steps 20 --resume-from-checkpoint last && speeds_add_up "$out/f.log" 6 || return 1
    LAUNCH="launch --max-restarts 1 $yoke"
    steps "$out/g" 40000 "cpu:0 slow:0@0!" 120 --save-steps 20 >/dev/null &
    training=$!
    until [ "$(wc -l 2>/dev/null <"$out/g.log" || echo 0)" -ge 2 ]; do
        kill -0 $training || return 1
        sleep 0.1
    done
    kill -KILL "$(rank_pid 1 "$out/g")"
    wait $training || { cat "$out/g.out"; return 1; }
    grep -q restart "$out/g.out" && ! grep -q "ran at 0 samples" "$out/g.out" && speeds_add_up "$out/g.log" 6
}
ok "the log's speeds add up after a resume and after a restart" again

stands_still() { # a compiler that hangs while the device is opened: the launcher ends its ranks, and no signal asked for that
    YOKE_STUCK_MS=1000 YOKE_SLOW_COMPILE_MS=100000 steps "$out/e" 0 "cpu:0! slow:0!" 20
    [ $code = 1 ] && grep -q "rank 1 (slow:0!) has made no progress in compiling a program for 1.[0-9] s (YOKE_STUCK_MS)" "$out/e.out"
}
ok "a device that never opens is an error, exit code 1" stands_still
plan
