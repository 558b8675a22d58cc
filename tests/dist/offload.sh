#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --offload state=host, state=host:R, params=host: a device with memory of its own (the CPU plugin, which copies what goes in and out) has
# the bits of a job that offloads nothing, alone and among others, in each stage; goes on from either's checkpoint; takes what yoke
# estimate-memory says; and a rank that is killed ends the job.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist
small_images "$out/images"
export YOKE_PLUGINS="cpu,$YOKE_BUILD/tests/dist/.libs/yoke_slow.so" YOKE_SLOW_OWN=1 YOKE_SLOW_FACTORS="1;1"

train() { # train OUT OPTION...: its last line in OUT.json
    to=$1
    shift
    "$yoke" train --model mlp --model-config hidden=32 --data "idx:$out/images" --global-batch 32 --max-steps 12 --learning-rate 1e-3 \
        --warmup-steps 5 --json --overwrite-output-dir --output-dir "$out/$to" "$@" >"$out/$to.json" 2>"$out/$to.err" ||
        { cat "$out/$to.err"; return 1; }
}
same() { cmp "$out/$1/model.safetensors" "$out/$2/model.safetensors"; }
host_bytes() { [ "$(field host_bytes "$out/on.json")" $1 0 ]; }
pair() { # pair SIGN OPTION...: with and without; rank 0 has bytes on the host if SIGN is -gt
    sign=$1
    shift
    train off "$@" && train on "$@" --offload state=host && same off on && host_bytes "$sign"
}

ok "one rank, AdamW, as on a processor" pair -gt --devices slow:0! --max-grad-norm 0.5
as_cpu() { train cpu --devices cpu:0 --max-grad-norm 0.5 && same cpu on; }
ok "and the bits of a processor's own" as_cpu
smaller() { # the two moments are gone from the device: 8 bytes a parameter
    few=$((15 * (785 * 32 + 33 * 10) / 2)) # less what rounds a bucket to pages
    [ $(($(field peak_bytes "$out/off.json") - $(field peak_bytes "$out/on.json"))) -ge $few ]
}
ok "the device has no moments" smaller
pulls="--shard params --keep-whole 0"
one_bucket() { # parameters in slices: the host has them, and the device pulls a bucket; the bits of a job that slices nothing
    # shellcheck disable=SC2086
    train pulled --devices slow:0! --max-grad-norm 0.5 --offload state=host $pulls && same pulled cpu
}
ok "one rank, whose parameters lie on the host" one_bucket
named() { # params=host by itself, and beside state=host: the host updates what it holds
    for places in params=host params=host,state=host; do
        # shellcheck disable=SC2086
        train named --devices slow:0! --max-grad-norm 0.5 --offload $places $pulls && same named cpu || return 1
    done
    # shellcheck disable=SC2086
    "$yoke" train --model mlp --data "idx:$out/images" --max-steps 1 --output-dir "$out/one" --devices slow:0! --offload params=host \
        $pulls 2>&1 | grep 'offload: the host holds the parameters, and updates them, for 1 of 1 ranks'
}
ok "by the words of DeepSpeed's and FSDP's offload" named
many_buckets() { # a processor alone with the same options has the same buckets, and with them the norm's bits; without a norm all agree
    export YOKE_BUCKET_BYTES=8192
    # shellcheck disable=SC2086
    train pulled --devices slow:0! --max-grad-norm 0.5 --offload state=host $pulls --precision bf16 &&
        train cpu --devices cpu:0 --max-grad-norm 0.5 --offload state=host $pulls --precision bf16 && same pulled cpu &&
        pair -gt --devices slow:0! --max-grad-norm 0 $pulls
    code=$?
    unset YOKE_BUCKET_BYTES
    return $code
}
ok "and in several buckets" many_buckets
hidden() { # a rank alone returns from a step before the host's update is over, which a lane of the trace shows
    YOKE_BUCKET_BYTES=8192 "$yoke" trace --output "$out/trace.json" --steps 2 --skip 2 -- "$yoke" train --model mlp \
        --model-config hidden=32+32+32 --data "idx:$out/images" --devices slow:0! --shard gradients --offload state=host --global-batch 32 \
        --max-steps 6 --overwrite-output-dir --output-dir "$out/traced" && python3 - "$out/trace.json" <<'P'
import json, sys
with open(sys.argv[1]) as f:
    events = json.load(f)["traceEvents"]
host, update = 0, 4
assert "host's update" in [e["args"]["name"] for e in events if e["name"] == "thread_name" and e["tid"] == update]
steps = [e["ts"] for e in events if e["name"] == "step" and e["tid"] == host]
updates = [e for e in events if e["tid"] == update and e["ph"] == "X"]
buckets = {e["args"]["number"] for e in updates}
assert len(steps) == 2 and len(buckets) > 1 and len(updates) == 2 * len(buckets), (steps, updates)
for e in updates:  # a step begins when the one before returns; the span ends where the step thread sees the end
    assert any(e["ts"] <= begin < e["ts"] + e["dur"] for begin in steps), (steps, e)
P
}
ok "the update is over after its step" hidden
ok "16-bit copies" pair -gt --devices slow:0! --precision bf16
ok "skipped steps, several micro batches" pair -gt --devices slow:0! --precision fp16 --loss-scaling init=16777216 \
    --gradient-accumulation-steps 2
ok "SGD with momentum" pair -gt --devices slow:0! --optim sgd --momentum 0.9
for transport in shm local; do
    YOKE_TRANSPORT=$transport
    export YOKE_TRANSPORT
    ok "two such ranks, $transport" pair -gt --devices "slow:0! slow:1!" --shares equal --max-grad-norm 0.5
    ok "gradients in slices, $transport" pair -gt --devices "slow:0! slow:1!" --shares 3:1 --shard gradients --precision bf16
    # shellcheck disable=SC2086
    ok "parameters in slices, $transport" pair -gt --devices "slow:0! slow:1!" --shares 3:1 --precision bf16 $pulls --shard-within host
    ok "with a processor, $transport" pair -eq --devices "cpu:0! slow:0!" --shares equal --shard gradients --gradient-accumulation-steps 2
done
rounded() { # rounded OPTION..: and other bits than parameters that travel in f32
    YOKE_WIRE_PARAMS=bf16 pair -gt --devices "slow:0! slow:1!" --shares equal "$@" &&
        train exact --devices "slow:0! slow:1!" --shares equal "$@" && ! same exact on >"$out/differ" 2>&1
}
ok "parameters that travel in bf16" rounded
# shellcheck disable=SC2086
ok "and lie in slices" rounded $pulls --shard-within host
unset YOKE_TRANSPORT

goes_on() { # goes_on FROM TO: a run with --offload FROM goes on with --offload TO
    train whole --devices slow:0! --save-steps 6 --offload "$1" && rm -rf "$out/rest" && mkdir "$out/rest" &&
        cp -r "$out/whole/checkpoint-6" "$out/rest" &&
        train rest --devices slow:0! --save-steps 6 --offload "$2" --resume-from-checkpoint last && same whole rest
}
to_lanes() { # a checkpoint of parameters on the host goes on with whole ones, on two ranks, and the reverse
    # shellcheck disable=SC2086
    {
        train whole --devices "slow:0! slow:1!" --shares equal && mkdir -p "$out/rest" || return 1
        train half --devices "slow:0! slow:1!" --shares equal --save-steps 6 --offload state=host $pulls --max-steps 6 &&
            train rest --devices "slow:0! slow:1!" --shares equal --resume-from-checkpoint "$out/half/checkpoint-6" && same whole rest &&
            train half --devices "slow:0! slow:1!" --shares equal --save-steps 6 --max-steps 6 &&
            train rest --devices "slow:0! slow:1!" --shares equal --resume-from-checkpoint "$out/half/checkpoint-6" --offload state=host \
                $pulls && same whole rest || return 1
        train rest --devices slow:0! --resume-from-checkpoint "$out/half/checkpoint-6" --offload state=host $pulls &&
            "$yoke" predict --from "$out/rest" --eval-data "idx:$out/images" --devices slow:0! >"$out/answers" && [ -s "$out/answers" ]
    }
}
ok "a checkpoint goes on in another stage, with other ranks" to_lanes
ok "a checkpoint goes on without" goes_on state=host none
ok "and the other way" goes_on none state=host

planned() { # planned OPTION...: to the byte, on the device and on the host
    set -- --eval-strategy no "$@"
    "$yoke" estimate-memory --model mlp --model-config hidden=32 --data "idx:$out/images" --global-batch 32 "$@" --json >"$out/plan" &&
        train on "$@" || return 1
    for key in peak_bytes host_bytes; do
        [ "$(field ranks "$out/plan" | python3 -c "print(eval(input())[0]['$key'])")" = "$(field $key "$out/on.json")" ] || return 1
    done
}
estimate() { planned "$@" && host_bytes -gt; }
ok "the estimate of one rank" estimate --devices slow:0! --offload state=host
# shellcheck disable=SC2086
{
    ok "the estimate of one rank with parameters in slices" estimate --devices slow:0! --offload state=host --precision bf16 $pulls
    ok "and with params=host" estimate --devices slow:0! --offload params=host --precision bf16 $pulls
    ok "and of two" estimate --devices "slow:0! slow:1!" --shares equal --offload state=host $pulls --prefetch-units 1
}
ok "the estimate of two ranks" estimate --devices "slow:0! cpu:0!" --shares equal --shard gradients --precision bf16 --offload state=host

files() { # files STAGE: of DeepSpeed and Accelerate, and a single device's rank 0
    printf '{"zero_optimization": {"stage": %s, "offload_optimizer": {"device": "cpu", "pin_memory": true, "ratio": 1.0}}}' "$1" \
        >"$out/ds.json"
    printf 'distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: %s\n  offload_optimizer_device: cpu\n' "$1" >"$out/ac.yaml"
    train off --devices slow:0! --max-grad-norm 0 && train on --devices slow:0! --deepspeed "$out/ds.json" --max-grad-norm 0 &&
        same off on && host_bytes -gt || return 1
    "$yoke" config --dry-run --config-file "$out/ac.yaml" >"$out/log" 2>&1 || return 0 # a build without libyaml
    train on --devices slow:0! --config-file "$out/ac.yaml" --max-grad-norm 0 && same off on && host_bytes -gt
}
ok "files of DeepSpeed and Accelerate" files 2
ok "and of stage 3" files 3
all_files() { # parameters on the host by DeepSpeed's file, by FSDP's words and by Accelerate's file of FSDP
    printf '{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}}}' \
        >"$out/ds.json"
    printf 'distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n  fsdp_offload_params: true\n' >"$out/ac.yaml"
    train off --devices slow:0! --max-grad-norm 0 || return 1
    set -- "--deepspeed=$out/ds.json" '--fsdp=full_shard offload' '--sharded_ddp=zero_dp_3 offload'
    ! "$yoke" config --dry-run --config-file "$out/ac.yaml" >"$out/log" 2>&1 || set -- "$@" "--config-file=$out/ac.yaml"
    for form; do
        train on --devices slow:0! "$form" --max-grad-norm 0 && same off on && host_bytes -gt || { echo "$form"; return 1; }
    done
}
ok "files and words with parameters on the host" all_files

# A part of the state. The device's kernels are a processor's here, so a job of several ranks has the bits of one that offloads nothing, and
# a rank alone those of a processor alone with the same options, whose norm is of the same buckets.
part="--offload state=host:0.5"
wide="--model-config hidden=32+784+32"
export YOKE_BUCKET_BYTES=8192
bytes_of() { field $1 "$out/$2.json"; }
divided() { # divided OPTION...: and device and host have each a part of the state: 3 matrices of 25,088 elements, of which the host has two
    # shellcheck disable=SC2086
    train half $wide $part --devices slow:0! "$@" && train all $wide --offload state=host --devices slow:0! "$@" &&
        train cpu $wide $part --devices cpu:0 "$@" && same half cpu || return 1
    echo "host bytes: $(bytes_of host_bytes half) of $(bytes_of host_bytes all)"
    [ "$(bytes_of host_bytes half)" -lt "$(bytes_of host_bytes all)" ] && [ "$(bytes_of host_bytes half)" -gt 0 ] &&
        [ "$(bytes_of peak_bytes half)" -gt "$(bytes_of peak_bytes all)" ]
}
ok "a part of the state, one rank" divided --max-grad-norm 0.5
ok "and with 16-bit copies" divided --max-grad-norm 0.5 --precision bf16
ok "skipped steps, several micro batches" divided --precision fp16 --loss-scaling init=16777216 --gradient-accumulation-steps 2
# shellcheck disable=SC2086
{
    ok "a rank that sums in slices" divided --max-grad-norm 0.5 --shard gradients
    ok "and pulls parameters, the host's part of them" divided --max-grad-norm 0.5 $pulls
}
unclipped() { # without a norm the cut of a lone rank's buckets does not matter
    # shellcheck disable=SC2086
    train off $wide --devices slow:0! --max-grad-norm 0 && train on $wide $part --devices slow:0! --max-grad-norm 0 && same off on
}
ok "the bits of no offload" unclipped
part_pair() { # part_pair OPTION...: several ranks with and without
    # shellcheck disable=SC2086
    train off $wide --max-grad-norm 0.5 "$@" && train on $wide $part --max-grad-norm 0.5 "$@" && same off on && host_bytes -gt
}
for transport in shm local; do
    YOKE_TRANSPORT=$transport
    export YOKE_TRANSPORT
    ok "two ranks, $transport" part_pair --devices "slow:0! slow:1!" --shares 3:1
    ok "gradients in slices, $transport" part_pair --devices "slow:0! cpu:0!" --shares equal --shard gradients --precision bf16
    # shellcheck disable=SC2086
    ok "parameters in slices, $transport" part_pair --devices "slow:0! slow:1!" --shares 3:1 --precision bf16 $pulls --shard-within host
done
unset YOKE_TRANSPORT
YOKE_WIRE_PARAMS=bf16 ok "parameters that travel in bf16" part_pair --devices "slow:0! slow:1!" --shares equal
other_part() { # a checkpoint of a part goes on with another, all or none, which ends as the run that did not stop
    # shellcheck disable=SC2086
    train whole $wide $part --devices slow:0! --max-grad-norm 0 --save-steps 6 || return 1
    for next in state=host:0.9 state=host none; do
        rm -rf "$out/rest" && mkdir "$out/rest" && cp -r "$out/whole/checkpoint-6" "$out/rest" &&
            train rest $wide --devices slow:0! --max-grad-norm 0 --save-steps 6 --offload $next --resume-from-checkpoint last &&
            same whole rest || { echo "$next"; return 1; }
    done
    train whole $wide --devices slow:0! --max-grad-norm 0 --save-steps 6 --offload none && rm -rf "$out/rest" && mkdir "$out/rest" &&
        cp -r "$out/whole/checkpoint-6" "$out/rest" &&
        train rest $wide $part --devices slow:0! --max-grad-norm 0 --save-steps 6 --resume-from-checkpoint last && same whole rest
}
ok "a checkpoint goes on with another part" other_part
# shellcheck disable=SC2086
{
    ok "the estimate of a part" estimate $wide $part --devices slow:0!
    ok "of a part with parameters in slices" estimate $wide $part --devices slow:0! --precision bf16 $pulls
    ok "of two ranks" estimate $wide $part --devices "slow:0! cpu:0!" --shares equal --shard gradients
}
for offload in none state=host:0.5; do # over messages a program waits for its parameters, so it has other segments
    YOKE_TRANSPORT=local ok "of ranks that exchange messages, $offload" planned $wide --devices "slow:0! slow:1!" --shares equal \
        --offload $offload
done
says_part() { # says_part DEVICE PART LINE: one line says the part that the buckets come to; none does where nothing moves
    # shellcheck disable=SC2086
    "$yoke" train --model mlp $wide --offload state=host:$2 --data "idx:$out/images" --max-steps 1 --devices $1 \
        --output-dir "$out/said_part" --overwrite-output-dir >"$out/said" 2>&1
    code=$?
    grep -c 'offload: the host updates.*% of the trained' "$out/said"
    [ $code = 0 ] && [ "$(sed -n 's/.*offload: the host updates \([0-9.]*\) % of the trained parameters/\1/p' "$out/said")" = "$3" ] ||
        { cat "$out/said"; return 1; }
}
ok "a line says the part" says_part slow:0! 0.5 67.1
ok "and names the remedy where one bucket is all" eval 'YOKE_BUCKET_BYTES=16M says_part slow:0! 0.1 \
    "100.0, which are one bucket: a smaller YOKE_BUCKET_BYTES makes several"'
ok "a processor alone has none" says_part cpu:0! 0.5 ""
close_parts() { # parts of R that six digits do not tell apart
    "$yoke" launch --devices "slow:0! slow:1!" -- sh -c '"$0" train --model mlp --data "idx:$1" --max-steps 1 --output-dir "$2" \
        --offload state=host:0.12345670$YOKE_RANK' "$yoke" "$out/images" "$out/close" >"$out/said" 2>&1
    [ $? != 0 ] && grep 'is state=host:0.1234567 on rank 0 (.*) and state=host:0.123456701 on rank 1' "$out/said" ||
        { cat "$out/said"; return 1; }
}
ok "parts that differ in a late digit are named so" close_parts
ratio() { # DeepSpeed's
    printf '{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "ratio": 0.5}}}' >"$out/ds.json"
    # shellcheck disable=SC2086
    train on $wide --devices slow:0! --max-grad-norm 0.5 --deepspeed "$out/ds.json" &&
        train half $wide $part --devices slow:0! --max-grad-norm 0.5 --shard gradients && same on half &&
        [ "$(bytes_of host_bytes on)" = "$(bytes_of host_bytes half)" ]
}
ok "by DeepSpeed's ratio" ratio
unset YOKE_BUCKET_BYTES

refused() { # refused TEXT OPTION...: with exit code 2
    text=$1
    shift
    "$yoke" train --model mlp --data "idx:$out/images" --devices slow:0! --output-dir "$out/none" "$@" >"$out/log" 2>&1
    [ $? = 2 ] && grep -q -e "$text" "$out/log"
}
ok "LocalSGD is refused" refused 'yk_config.offload is "state=host", with LocalSGD' --offload state=host --local-sgd-steps 4

killed() { # in its steps
    instead=exec mlp "$out/killed" --devices "slow:0! slow:1!" --max-steps 1000000 --offload state=host >"$out/said" 2>&1 &
    job=$!
    i=0
    until grep -qs 'step.* 3' "$out/said" || [ $i -ge 300 ]; do i=$((i + 1)) && sleep 0.1; done
    kill -KILL "$(rank_pid 1 "$out/killed")" || kill $job
    wait $job
    code=$?
    tail -n 5 "$out/said"
    [ $code != 0 ] && grep -q "killed" "$out/said"
}
ok "a killed rank ends the job" killed
plan
