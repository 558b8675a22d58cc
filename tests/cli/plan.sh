#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# yoke plan: its option line trains, its choice fits where others do not, described ranks, bad files of devices, and the prediction in the
# log of a run.
. "$YOKE_SOURCE/tests/cli/lib.sh"
export YOKE_CACHE_DIR="$out/cache"
mkdir -m 700 "$out/cache"
seq 10000 | tr -d '\n' >"$out/text"
gpt2="--model gpt2 --model-config n_layer=3,n_embd=64,n_head=2,vocab_size=256,n_positions=32,seq_len=32"
text="--data text:$out/text,tokenizer=bytes,seq-len=32"

described() { # described COUNT MEMORY: a file of ranks of one device
    printf '{"format": "yoke-devices", "line": 1e-10, "step": 1e-4,\n "devices": [{"name": "a", "count": %s, "memory": %s,\n' "$1" "$2"
    printf '  "products": 1e-10, "attention": 2e-10, "moved": 2e-10, "special": 1e-9, "nodes": 1e-6, "update": 2e-9}]}\n'
}
chosen() { sed -n 's/^use: //p' "$out/plan"; } # the options of the last plan

measured() { # the devices' own times, kept for the run that plans itself and for the plans below
    "$yoke" info --describe --devices "cpu:0! cpu:0!" >"$out/here.json" 2>"$out/err" || { cat "$out/err"; return 1; }
    cat "$out/here.json"
    python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
assert d["format"] == "yoke-devices" and d["devices"][0]["count"] == 2 and d["devices"][0]["products"] > 0 and d["together"] >= 1' \
        "$out/here.json" || return 1
    # shellcheck disable=SC2086
    "$yoke" train $gpt2 $text --devices "cpu:0! cpu:0!" --shard state --no-gradient-checkpointing --global-batch 8 --plan auto \
        --measure-seconds 1 --max-steps 6 --output-dir "$out/auto" >"$out/said" 2>&1 || { cat "$out/said"; return 1; }
    cat "$out/said"
    grep -q 'plan: --shard state --global-batch ' "$out/said" && [ "$(grep -c 'ms predicted, .* measured' "$out/said")" = 1 ]
}
ok "times of the devices that are there, and --plan auto" measured

line_runs() {
    described 1 0 >"$out/one.json"
    # shellcheck disable=SC2086
    "$yoke" plan $gpt2 $text --global-batch 8 --device-file "$out/one.json" >"$out/plan" || return 1
    cat "$out/plan"
    grep -q '^rank 0  a  bound by ' "$out/plan" || return 1
    # shellcheck disable=SC2046,SC2086
    "$yoke" train $gpt2 $text --devices cpu:0! $(chosen) --max-steps 2 --output-dir "$out/run" >"$out/said" 2>&1 ||
        { cat "$out/said"; return 1; }
}
ok "the option line of a plan trains" line_runs

whole_line() { # what is given stands in the line too, which a shell runs as it is, under the limit of the plan; other names for it as well
    described 1 0 >"$out/one.json"
    # shellcheck disable=SC2086
    "$yoke" plan $gpt2 $text --per_device_train_batch_size 8 --devices "cpu:0! cpu:0!" --gradient_checkpointing --limit 12M --lr 1e-4 \
        --offload "state=nvme:$out/a disk" --measure-seconds 0 --shard zero1 --output_dir "$out/a run" >"$out/plan" || return 1
    chosen
    echo "exec \"$yoke\" train $(chosen) --max-steps 2 --log \"$out/whole\"" >"$out/line.sh"
    sh "$out/line.sh" >"$out/said" 2>&1 || { cat "$out/said"; return 1; }
    for given in --gradient-checkpointing "--memory-limit 12M" "--learning-rate 1e-4" "--shard zero1" "--devices 'cpu:0! cpu:0!'"; do
        chosen | grep -qF -e "$given" || { echo "no $given"; return 1; }
    done
    grep -q "offload: a file of each rank holds its part" "$out/said" &&
        ! "$yoke" train $gpt2 $text --devices cpu:0 --memory-limit 1M --max-steps 1 --output-dir "$out/none" >"$out/said" 2>&1 &&
        grep -q 'memory limit: .* remedies: raise the limit' "$out/said" || { cat "$out/said"; return 1; }
}
ok "the option line of a plan runs as it is printed" whole_line

copies() { # a limit parts the 16-bit copies that processors share, so the bytes without a limit are not those under it
    set -- --model gpt2 --model-config n_layer=2,n_embd=128,n_head=2,vocab_size=8192,n_positions=32,seq_len=32 --precision bf16 \
        --global-batch 8 --devices "cpu/2" --eval-strategy no
    limit=$("$yoke" estimate-memory "$@" --json | python3 -c 'import json, sys
print(max(r["peak_bytes"] for r in json.load(sys.stdin)["ranks"]) * 26 // 25)') || return 1
    "$yoke" plan "$@" --limit "$limit" --measure-seconds 0 >"$out/plan" || { cat "$out/plan"; return 1; }
    cat "$out/plan"
    grep -q '^ -  state      no             8      1  rank [01] .* the memory limit leaves ' "$out/plan" || return 1
    echo "exec \"$yoke\" train $text $(chosen) --max-steps 1 --output-dir \"$out/copies\"" >"$out/line.sh"
    sh "$out/line.sh" >"$out/said" 2>&1 || { cat "$out/said"; return 1; }
}
if instrumented; then
    skip "a plan under a limit is made under it" "instrumented: it has limits above and below, and the times of bf16 take it a minute"
else
    ok "a plan under a limit is made under it" copies
fi

no_blocks() { # a model without blocks is planned without recomputing, and a line says so
    "$yoke" plan --model mlp --model-config input_size=8,hidden=8 --global-batch 8 --device-file "$out/one.json" >"$out/plan" 2>"$out/err"
    code=$?
    cat "$out/plan" "$out/err"
    [ $code = 0 ] && grep -q '^use: --shard state --global-batch 8' "$out/plan" && ! grep -q ' blocks ' "$out/plan" &&
        [ "$(grep -c '^yoke plan: --gradient-checkpointing is no candidate: ' "$out/err")" = 1 ]
}
ok "a model without blocks to compute again" no_blocks

fits() { # under a limit that no whole batch keeps to, even with its activations computed again
    limit=3500000
    described 1 $limit >"$out/small.json"
    # shellcheck disable=SC2086
    "$yoke" plan $gpt2 --global-batch 16 --eval-strategy no --device-file "$out/small.json" >"$out/plan" || { cat "$out/plan"; return 1; }
    cat "$out/plan"
    grep -q '^ -  .* needs .* of 3.3 MiB on a: activations ' "$out/plan" || return 1
    # shellcheck disable=SC2046,SC2086
    YOKE_MEMORY_LIMIT=$limit "$yoke" train $gpt2 $text --devices cpu:0! $(chosen) --eval-strategy no --max-steps 2 --json \
        --output-dir "$out/limited" >"$out/said" 2>"$out/err" || { cat "$out/err"; return 1; }
    python3 -c 'import json, sys
assert 0 < json.loads(open(sys.argv[1]).read().splitlines()[-1])["peak_bytes"] <= int(sys.argv[2])' "$out/said" $limit || return 1
    # shellcheck disable=SC2086
    YOKE_MEMORY_LIMIT=$limit "$yoke" train $gpt2 $text --devices cpu:0! --global-batch 16 --eval-strategy no --max-steps 2 \
        --output-dir "$out/large" >"$out/said" 2>&1 && return 1
    grep 'remedies: raise the limit, or a .*--global-batch .*--gradient-accumulation-steps' "$out/said" | grep -q 'yoke plan' &&
        ! grep 'remedies:' "$out/said" | grep -e --gradient-checkpointing -e activations=host || # what the limit does already, and a card's
        { cat "$out/said"; return 1; }
    # shellcheck disable=SC2086
    YOKE_MEMORY_LIMIT=300K "$yoke" train $gpt2 $text --devices "cpu:0! cpu:0!" --global-batch 2 --max-steps 1 \
        --offload "state=nvme:$out/nvme" --output-dir "$out/large" >"$out/said" 2>&1 && return 1 # beside what is used already
    grep 'remedies: raise the limit' "$out/said" | grep -q 'yoke plan' && # blocks of the state fill it: no rows, no slices of parameters
        ! grep 'remedies: ' "$out/said" | grep -e state=nvme -e --shard -e --global-batch || { cat "$out/said"; return 1; }
}
ok "the choice trains under a limit where the given batch does not" fits

none_fits() {
    described 1 1000 >"$out/tiny.json"
    # shellcheck disable=SC2086
    "$yoke" plan $gpt2 --global-batch 4 --device-file "$out/tiny.json" >"$out/plan" 2>"$out/err"
    [ $? = 1 ] && grep -q 'no candidate fits: .*--disk DIR' "$out/err" && ! grep -q '^use:' "$out/plan"
}
ok "without a candidate that fits, the exit code is 1" none_fits

many_ranks() { # a cluster that is not there; slices are of its size
    for count in 2 4096; do
        described $count 0 >"$out/many.json"
        # shellcheck disable=SC2086
        timeout 120 "$yoke" plan $gpt2 --shard gradients --no-gradient-checkpointing --global-batch $count --json \
            --device-file "$out/many.json" >"$out/$count" || return 1
    done
    python3 - "$out/2" "$out/4096" <<'P'
import json, sys
two, many = (json.load(open(f))["candidates"][0] for f in sys.argv[1:])
assert many["ranks"][0]["count"] == 4096 and two["shard"] == many["shard"] == "gradients"
assert 0 < many["rank_bytes"] < two["rank_bytes"], (two, many)
assert many["wire_bytes"] > two["wire_bytes"] > 0 and many["step_s"] > 0
P
}
ok "4,096 described ranks" many_ranks

no_candidate() { # no_candidate TEXT OPTION..: the run refuses --shard params beside these, so the plan has the other stages, and says why
    wanted=$1
    shift
    # shellcheck disable=SC2086
    "$yoke" plan $gpt2 --no-gradient-checkpointing --global-batch 2 --json --device-file "$out/2.json" "$@" >"$out/plan" 2>"$out/err" ||
        { cat "$out/err"; return 1; }
    grep -q -e "^yoke plan: --shard params is no candidate: .*$wanted" "$out/err" &&
        [ "$(grep -vc "^yoke plan: plans the memory" "$out/err")" = 1 ] &&
        python3 -c 'import json, sys
assert [c["shard"] for c in json.load(open(sys.argv[1]))["candidates"]] == ["state", "gradients"]' "$out/plan"
}
stages() {
    described 2 0 >"$out/2.json"
    no_candidate 'not built together' --offload state=host || return 1
    # shellcheck disable=SC2086
    YOKE_WIRE_PARAMS=bf16 "$yoke" plan $gpt2 --global-batch 2 --device-file "$out/2.json" --shard params >"$out/plan" 2>"$out/err"
    [ $? = 2 ] && [ ! -s "$out/plan" ]
}
ok "a stage that the run refuses is no candidate" stages

objectives() { # least memory is another choice than least time; a given option is not varied
    described 2 0 >"$out/two.json"
    for objective in time memory; do
        # shellcheck disable=SC2086
        "$yoke" plan $gpt2 --shard state --global-batch 16 --objective $objective --json --device-file "$out/two.json" >"$out/$objective" ||
            return 1
    done
    python3 - "$out/time" "$out/memory" <<'P'
import json, sys
time, memory = (json.load(open(f))["candidates"] for f in sys.argv[1:])
assert len(time) == len(memory) == 8 and {c["shard"] for c in time} == {"state"}
assert {c["global_batch"] * c["gradient_accumulation_steps"] for c in time} == {16}
assert time[0]["step_s"] == min(c["step_s"] for c in time) < memory[0]["step_s"]
assert memory[0]["rank_bytes"] == min(c["rank_bytes"] for c in time) < time[0]["rank_bytes"]
P
}
ok "objectives" objectives

refused() { # refused TEXT OPTION...: one line and exit code 2
    wanted=$1
    shift
    "$yoke" plan --model mlp "$@" >"$out/plan" 2>"$out/err"
    [ $? = 2 ] && grep -q -e "$wanted" "$out/err" && [ "$(wc -l <"$out/err")" = 1 ] || { cat "$out/err"; return 1; }
}
bad_file() { # bad_file TEXT LINE...: a file of these lines
    expected=$1
    shift
    printf '%s\n' "$@" >"$out/bad.json"
    refused "$expected" --device-file "$out/bad.json"
}
bad_files() {
    refused 'there is no such file' --device-file "$out/nowhere" &&
        bad_file 'line 1: no "devices"' '{}' &&
        bad_file 'line 2: count 0: expected a number of ranks' '{"devices": [' '{"name": "a", "products": 1e-9, "count": 0}]}' &&
        bad_file 'line 2: count 1.5: expected a whole number' '{"devices": [' '{"name": "a", "products": 1e-9, "count": 1.5}]}' &&
        bad_file 'line 3: moved -1: expected seconds' '{"devices": [' '{"name": "a", "products": 1e-9,' '"moved": -1}]}' &&
        bad_file 'line 2: device a has no time of products' '{"devices": [' '{"name": "a"}]}' &&
        bad_file 'line 2: a device without a name' '{"devices": [' '{"products": 1}]}' &&
        bad_file 'line 2: colour red: expected name' '{"devices": [' '{"colour": "red"}]}' &&
        bad_file 'line 1: devices: expected a list' '{"devices": {}}' &&
        bad_file 'expected 65536 ranks at most' '{"devices": [{"name": "a", "products": 1, "count": 65536},' \
            '{"name": "b", "products": 1}]}' &&
        bad_file 'its times are of bf16' '{"precision": "bf16", "devices": [{"name": "a", "products": 1}]}' &&
        bad_file 'not JSON' '{"devices": [{"name": "a",'
}
ok "bad files of devices, by line" bad_files

usage() {
    described 4 0 >"$out/four.json"
    refused '4 ranks need a row each' --global-batch 2 --device-file "$out/four.json" &&
        refused 'did you mean time' --objective tim && refused 'nosuch' --devices nosuch:0 &&
        refused 'expected auto, none, or the milliseconds' --plan best || return 1
    "$yoke" train --model mlp --device-file "$out/four.json" --data "text:$out/text" --output-dir "$out/no" >"$out/said" 2>&1
    [ $? = 2 ] && grep -q 'a run takes devices that are there' "$out/said"
}
ok "usage" usage

offloads() { # a device with memory of its own whose optimizer's state has no room: the plan has the host update, and its line trains
    export YOKE_PLUGINS="cpu,$YOKE_BUILD/tests/dist/.libs/yoke_slow.so" YOKE_SLOW_OWN=1 YOKE_SLOW_FACTORS=1
    set -- $gpt2 --devices slow:0 --global-batch 8 --no-gradient-checkpointing --eval-strategy no
    "$yoke" plan "$@" --measure-seconds 0 --objective memory --json >"$out/free" &&
        ! grep -q '"offload": "state=host"' "$out/free" || return 1
    limit=$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["candidates"][0]["rank_bytes"] - 100000)' "$out/free")
    "$yoke" plan "$@" --limit "$limit" --measure-seconds 0 >"$out/plan" || { cat "$out/plan"; return 1; }
    cat "$out/plan"
    grep -q '^ 1  [a-z]* *state=host ' "$out/plan" && grep -q '^ -  state      no         .* needs ' "$out/plan" || return 1
    # shellcheck disable=SC2046
    YOKE_MEMORY_LIMIT=$limit "$yoke" train "$@" $text $(chosen) --max-steps 2 --output-dir "$out/offloads" >"$out/said" 2>&1 ||
        { cat "$out/said"; return 1; }
    unset YOKE_PLUGINS YOKE_SLOW_OWN YOKE_SLOW_FACTORS
}
update_of() { # update_of OFFLOAD: seconds of the best candidate's update, on devices for which the host takes 500 times as long
    # shellcheck disable=SC2086
    "$yoke" plan $gpt2 --device-file "$out/slow_host.json" --global-batch 8 --shard gradients --no-gradient-checkpointing --offload "$1" \
        --json >"$out/plan" && python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["candidates"][0]["ranks"][0]["update_s"])' "$out/plan"
}
host_times() { # a typed --offload counts if it moves the state, and as much of it as the buckets come to: here one, or several
    described 2 0 | sed 's/"update": 2e-9/"update": 2e-9, "offload": 1e-6/' >"$out/slow_host.json"
    python3 - "$(update_of none)" "$(update_of activations=host)" "$(update_of state=host)" "$(update_of state=host:0.1)" \
        "$(YOKE_BUCKET_BYTES=64K update_of state=host:0.1)" <<'P'
import sys
print(sys.argv[1:])
none, activations, whole, bucket, tenth = map(float, sys.argv[1:])
assert activations == none and abs(whole / none - 500) < 1 and bucket == whole and none < tenth < 0.2 * whole
P
}
keeps_away() { # no candidate without it fits: the plan leaves activations on the host, and its line trains
    export YOKE_PLUGINS="cpu,$YOKE_BUILD/tests/dist/.libs/yoke_slow.so" YOKE_SLOW_OWN=1 YOKE_SLOW_FACTORS=1
    set -- --model gpt2 --model-config n_layer=8,n_embd=64,n_head=2,vocab_size=256,n_positions=512,seq_len=512 --devices slow:0 \
        --shard state --global-batch 1 --eval-strategy no
    "$yoke" plan "$@" --limit 7000000 --measure-seconds 0 >"$out/plan" || { cat "$out/plan"; return 1; }
    cat "$out/plan"
    grep -q '^ 1  state      state=host,activations=host ' "$out/plan" && grep -q '^ -  state      activations=host ' "$out/plan" &&
        grep -q '^ -  state      state=host ' "$out/plan" && ! grep -q '^ [1-9]  state      \(no\|state=host\) ' "$out/plan" || return 1
    # shellcheck disable=SC2046
    YOKE_MEMORY_LIMIT=7000000 "$yoke" train "$@" --data "text:$out/text,tokenizer=bytes,seq-len=512" $(chosen) --max-steps 2 \
        --output-dir "$out/keeps" >"$out/said" 2>&1 || { cat "$out/said"; return 1; }
    "$yoke" plan $gpt2 --devices slow:0 --global-batch 8 --measure-seconds 0 >"$out/plan" && ! grep activations= "$out/plan" || return 1
    unset YOKE_PLUGINS YOKE_SLOW_OWN YOKE_SLOW_FACTORS
}
pretend() { # pretend SECONDS: the kept times of cpu:0! become those of a device whose products alone take time, SECONDS of the large step
    python3 - "$1" "$out"/steps/devices-*.json "$out/model" <<'P'
import json, sys
kept = json.load(open(sys.argv[2]))
device = kept["devices"][0]
work = max(c["ranks"][0]["compute_s"] for c in json.load(open(sys.argv[3]))["candidates"]) / device["products"]
row = {k: device[k] for k in ("name", "model", "count", "memory", "host")}
kept["devices"] = [{**row, "products": float(sys.argv[1]) / work}]
json.dump(kept, open(sys.argv[2], "w"))
P
}
steps() { # wrong times of a device are corrected by steps: whole ones, or of a few rows where a whole one would take too long
    mkdir -p -m 700 "$out/steps"
    # shellcheck disable=SC2086
    set -- $gpt2 --devices cpu:0! --global-batch 128 --gradient-accumulation-steps 1 --no-gradient-checkpointing --json
    YOKE_CACHE_DIR="$out/steps" "$yoke" plan "$@" --measure-seconds 0 >"$out/model" 2>"$out/err" || return 1
    [ "$(grep -c '^yoke plan: measures 1 device by small models' "$out/err")" = 1 ] && # off a terminal, a line for each stage
        [ "$(grep -c '^yoke plan: plans the memory of [0-9]* candidates$' "$out/err")" = 1 ] && [ "$(wc -l <"$out/err")" = 2 ] ||
        { cat "$out/err"; return 1; }
    cp "$out"/steps/devices-*.json "$out/cache" || return 1 # for the plans below
    for seconds in 1e-6 20; do
        pretend $seconds || return 1
        YOKE_CACHE_DIR="$out/steps" "$yoke" plan "$@" --measure-seconds 0 >"$out/model" || return 1
        YOKE_CACHE_DIR="$out/steps" "$yoke" plan "$@" --measure-seconds 6 >"$out/$seconds" 2>"$out/err" || return 1
        grep 'times of [0-9]* candidates are measured, of [0-9]* scaled' "$out/err" &&
            grep -q '^yoke plan: measures candidate 1 of [0-9]*, .* ms predicted: --shard state --global-batch ' "$out/err" ||
            { cat "$out/err"; return 1; }
    done
    python3 - "$out/1e-6" "$out/20" <<'P'
import json, sys
fast, slow = (json.load(open(f))["candidates"] for f in sys.argv[1:])
assert len(fast) == len(slow) == 4 and any(c["times"] == "measured" for c in fast), fast
assert any(c["times"] == "scaled" for c in slow) and not any(c["times"] == "model" for c in slow), slow
for c in fast + slow:
    assert 1e-4 < c["step_s"] < 10, c # 128 rows take a core about 0.1 s
    parts = sum(v for k, v in c["ranks"][0].items() if k.endswith("_s"))
    assert abs(parts / c["step_s"] - 1) < 1e-4, c
P
}
if instrumented; then
    skip "measured steps correct a plan's times" "instrumented: devices, and steps for --plan auto, are measured above"
else
    ok "measured steps correct a plan's times" steps
fi
drive="$out/a&d'r\$ive" # a shell reads its name in quotes alone
disk() { # moments that no micro batch has room for: the plan has them on the disk, its line trains, and its line of the disk adds up
    mkdir "$drive"
    set -- --model gpt2 --model-config n_layer=8,n_embd=256,n_head=2,vocab_size=256,n_positions=32,seq_len=32 --devices cpu:0! \
        --global-batch 8 --no-gradient-checkpointing --eval-strategy no
    "$yoke" plan "$@" --disk "$drive" --objective memory --measure-seconds 0 --json >"$out/free" && ! grep -q 'nvme' "$out/free" || return 1
    limit=$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["candidates"][0]["rank_bytes"] - 10000000)' "$out/free")
    "$yoke" plan "$@" --limit "$limit" --measure-seconds 0 >"$out/plan" 2>"$out/err" && return 1
    "$yoke" plan "$@" --limit "$limit" --disk "$drive" --measure-seconds 0 --json >"$out/json" || { cat "$out/json"; return 1; }
    "$yoke" plan "$@" --limit "$limit" --disk "$drive" --measure-seconds 0 >"$out/plan" || { cat "$out/plan"; return 1; }
    cat "$out/plan"
    grep -q '^ 1  state      state=nvme ' "$out/plan" && grep -q '^ -  state      no         .* needs ' "$out/plan" &&
        grep -q '^rank 0  cpu:0!* .*, disk [0-9]* %$' "$out/plan" &&
        grep -q '^disk: reads and writes [0-9.]* [KM]iB a step at [0-9.]* [KMG]iB/s: [0-9.]* ms, beside the update$' "$out/plan" || return 1
    echo "exec \"$yoke\" train $text $(chosen) --max-steps 2 --json --output-dir \"$out/on-disk\"" >"$out/line.sh"
    sh "$out/line.sh" >"$out/said" 2>"$out/err" || { cat "$out/err"; return 1; }
    python3 - "$out/json" "$out/said" <<'P' && [ -z "$(ls -A "$drive")" ]
import json, sys
plan, run = json.load(open(sys.argv[1]))["candidates"][0], json.loads(open(sys.argv[2]).read().splitlines()[-1])
assert plan["disk_step_bytes"] == 2 * run["disk_bytes"] > 0, (plan, run)
P
}
if instrumented; then
    mkdir "$drive"
    skip "a plan takes the disk where nothing else fits" "instrumented: its plans are above and below, its run above"
else
    ok "a plan takes the disk where nothing else fits" disk
fi
described_disk() { # a slower disk in the file is a longer step; a file without one is refused
    for rate in 1e-9 1e-7; do
        printf '{"disk": %s, "devices": [{"name": "a", "memory": 0, "products": 1e-10, "moved": 2e-10, "update": 1e-9}]}\n' $rate \
            >"$out/$rate.json"
        # shellcheck disable=SC2086
        "$yoke" plan $gpt2 --no-gradient-checkpointing --global-batch 8 --offload "state=nvme:$drive" --device-file "$out/$rate.json" \
            --json >"$out/$rate" || return 1
    done
    python3 - "$out/1e-9" "$out/1e-7" <<'P' || return 1
import json, sys
fast, slow = (json.load(open(f))["candidates"][0] for f in sys.argv[1:])
moved = slow["disk_step_bytes"]
assert moved > 0 and abs(slow["ranks"][0]["disk_s"] - max(0, 1e-7 * moved - slow["ranks"][0]["update_s"])) < 1e-6, slow
assert fast["step_s"] < slow["step_s"]
P
    refused 'has no time of a disk' --disk "$drive" --device-file "$out/one.json" &&
        refused 'expected a folder of at most 2048 bytes, got 2101' --disk "/$(printf '%02100d' 0)" --device-file "$out/one.json" &&
        refused 'expected a folder without blanks' --disk "$out/a b" && refused 'expected a folder' --disk /no/such/folder --devices cpu:0
}
ok "a described disk" described_disk

if instrumented; then
    skip "a plan offloads where nothing else fits" "instrumented: the plain build plans alike, and steps are measured"
else
    ok "a plan offloads where nothing else fits" offloads
    ok "and leaves activations on the host" keeps_away
    ok "times have the host update what the options and buckets leave to it" host_times
fi

page() { # the blocks of commands, in order, with `yoke` the one of this build
    sed -n '/^```sh$/,/^```$/p' "$YOKE_SOURCE/docs/plan.md" | sed -e '/^```/d' -e "s|^yoke plan |&--measure-seconds 1 |" \
        -e "s|^yoke |\"\$YOKE\" |" >"$out/page.sh"
    [ "$(grep -c '"$YOKE"' "$out/page.sh")" = 5 ] || { cat "$out/page.sh"; return 1; }
    OUT=$out YOKE=$yoke sh -e "$out/page.sh" >"$out/said" 2>"$out/err" || { cat "$out/err"; return 1; }
    cat "$out/said"
    [ "$(grep -c '^use: --shard ' "$out/said")" = 4 ]
}
if instrumented; then
    skip "the commands of docs/plan.md" "instrumented: the same commands on smaller models are above and below"
else
    ok "the commands of docs/plan.md" page
fi

exact() { # a plan's bytes are the estimate's
    set -- $gpt2 --devices "cpu:0! cpu:0!" --global-batch 8
    "$yoke" plan "$@" --no-gradient-checkpointing --measure-seconds 0 --json >"$out/plan" &&
        "$yoke" estimate-memory "$@" --shard gradients --json >"$out/estimate" || return 1
    python3 - "$out/plan" "$out/estimate" <<'P'
import json, sys
plan, estimate = (json.load(open(f)) for f in sys.argv[1:])
same = [c for c in plan["candidates"] if c["shard"] == "gradients" and c["global_batch"] == 8][0]
assert same["rank_bytes"] == max(r["peak_bytes"] for r in estimate["ranks"]) and same["shared_bytes"] == estimate["shared_bytes"]
P
}
ok "a plan's memory is the estimate's" exact

crowded() { # another program of the container has most of its memory: no step runs that would end that program
    group=/sys/fs/cgroup/memory/yk$$
    [ -d /sys/fs/cgroup/memory ] || group=/sys/fs/cgroup/yk$$
    # shellcheck disable=SC2016
    if ! mkdir "$group" 2>/dev/null || ! sh -c 'for file in memory.limit_in_bytes memory.max; do
        [ ! -f "$0/$file" ] || { echo 600000000 >"$0/$file" && exit; }; done; exit 1' "$group" 2>/dev/null; then
        rmdir "$group" 2>/dev/null
        skip "memory of a container" "no group of memory (cgroup) can be made here"
        return
    fi
    # shellcheck disable=SC2016
    sh -c 'echo $$ >"$0/cgroup.procs" && exec python3 -c "$1"' "$group" 'import time
memory = b"1" * 350000000
print(1, flush=True)
time.sleep(300)' >"$out/other" &
    other=$!
    until [ -s "$out/other" ]; do kill -0 $other && sleep 0.1 || break; done
    ok "memory of a container" crowded_plan
    ok "and the host's part of it" crowded_host
    ok "its source in yoke info and yoke env" crowded_source
    kill $other 2>/dev/null
    wait $other 2>/dev/null
    rmdir "$group"
}
crowded_plan() { # 19 million parameters take 306 MB, of 600 that another program has 350 of
    # shellcheck disable=SC2016
    sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$yoke" plan --model mlp --model-config hidden=4000+4000 --devices cpu:0! \
        --global-batch 1 --gradient-accumulation-steps 1 --measure-seconds 2 --json >"$out/plan" 2>"$out/err" ||
        { cat "$out/err"; return 1; }
    cat "$out/plan" "$out/err"
    kill -0 $other && ! grep -q '"times": "measured"' "$out/plan" && grep -q '"fits": true' "$out/plan"
}
crowded_host() { # the state of 41 million parameters has 652 MB on the host, of the container's 600
    # shellcheck disable=SC2016
    YOKE_PLUGINS="cpu,$YOKE_BUILD/tests/dist/.libs/yoke_slow.so" YOKE_SLOW_OWN=1 YOKE_SLOW_FACTORS=1 \
        sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$yoke" plan --model mlp --model-config hidden=6000+6000 \
        --devices slow:0 --limit 500000000 --global-batch 1 --gradient-accumulation-steps 1 --offload state=host --shard state \
        --measure-seconds 0 --json >"$out/plan" 2>"$out/err"
    cat "$out/plan" "$out/err"
    grep -q '"fits": false' "$out/plan" && ! grep -q '"fits": true' "$out/plan"
}
in_group() {
    # shellcheck disable=SC2016
    sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$yoke" "$@"
}
crowded_source() {
    for command in info env; do
        YOKE_PLUGINS=cpu in_group $command >"$out/said" && grep -q ' memory 0.6 GiB, limit of the cgroup' "$out/said" &&
            YOKE_PLUGINS=cpu in_group $command --json | grep -q '"mem_source": "cgroup"' || { cat "$out/said"; return 1; }
        YOKE_PLUGINS=cpu "$yoke" $command >"$out/said" && ! grep ' memory 0.6 GiB, limit of the cgroup' "$out/said" || return 1
    done
}
instrumented || crowded

hanging() { # hanging SECONDS: a plan whose only candidate never ends its first step, on a device whose times are known
    # shellcheck disable=SC2086
    YOKE_PLUGINS="cpu,$YOKE_BUILD/tests/dist/.libs/yoke_slow.so" YOKE_SLOW_OWN=1 YOKE_SLOW_RUN_US=$1 \
        ${instead-} "$yoke" plan $gpt2 --devices slow:0 --global-batch 1 --shard state --no-gradient-checkpointing --offload none "$2" "$3"
}
hangs() {
    hanging 0 --measure-seconds 0 >"$out/plan" 2>"$out/err" || { cat "$out/err"; return 1; } # its times are known from "offloads"
    YOKE_STUCK_MS=5000 hanging 1000000000 --measure-seconds 0.1 >"$out/plan" 2>"$out/err"
    code=$?
    cat "$out/plan" "$out/err"
    [ $code = 1 ] && grep -q '^ -  state .* failed: .*YOKE_STUCK_MS' "$out/plan"
}
no_child() { # a plan that is killed leaves no child
    (instead=exec; hanging 1000000000 --measure-seconds 3) >"$out/plan" 2>"$out/err" &
    plan=$!
    child=
    until child=$(cat "/proc/$plan/task/$plan/children" 2>/dev/null) && [ -n "$child" ] && grep -q 'measures candidate' "$out/err"; do
        kill -0 $plan 2>/dev/null || { cat "$out/err"; return 1; }
        sleep 0.05
    done
    child=${child%% *}
    kill -9 $plan
    wait $plan 2>/dev/null
    for wait in $(seq 100); do
        [ -d "/proc/$child" ] && ! grep -q '^State:.*Z' "/proc/$child/status" || return 0
        sleep 0.05
    done
    echo "process $child is still there after $wait looks"
    kill -9 "$child"
    return 1
}
if instrumented; then
    skip "a candidate that hangs fails" "instrumented: its device's times take half a minute; a child fails in \"usage\""
else
    ok "a candidate that hangs fails" hangs
    ok "and a plan that is killed leaves none" no_child
fi
plan
