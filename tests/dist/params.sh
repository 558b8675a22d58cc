#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Parameters in slices (--shard params) train the bits of --shard state on devices with memory of their own: CUDA's driver without a GPU
# (tests/fakes), OpenCL, Vulkan, where the host updates, and where ranks exchange messages, on processors, too. Checkpoints resume in any
# stage; an estimate is the run's bytes; a killed or stopped rank ends the job.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data fashion-mnist cifar10-part banking77
need_cores 2
small_images "$out/images"
seq 3000 | tr -d '\n' >"$out/text"
head -n 200 "$data/banking77/train.csv" >"$out/rows.csv"
export YOKE_BUCKET_BYTES=65536 # several buckets in a small model

mlp="--model mlp --model-config hidden=64 --data idx:$out/images --global-batch 32"
layers="n_layer=2,n_head=2,n_embd=64,n_positions=32,attn_pdrop=0.1"
gpt2="--model gpt2 --model-config $layers --data text:$out/text --tokenizer bytes --seq-len 32 --global-batch 4 --eval-strategy no"
bert="--model bert --model-config num_hidden_layers=2,hidden_size=64,num_attention_heads=2,intermediate_size=128,max_position_embeddings=32"
bert="$bert --data csv:$out/rows.csv,text=text,label=category --tokenizer bytes --max-length 32 --global-batch 4 --eval-strategy no"
resnet="--model resnet20 --data cifar10:$data/cifar10-part --global-batch 16 --optim sgd --eval-strategy no"

train() { # train NAME DEVICES OPTION..: the model in $out/NAME
    to=$1 devices=$2
    shift 2
    # shellcheck disable=SC2086
    "$yoke" train --devices "$devices" --shares equal --max-steps 4 --overwrite-output-dir --output-dir "$out/$to" --json "$@" \
        >"$out/$to.json" || return 1
}

same() { # same DEVICES OPTION.. [-- OPTION.. of the sliced run]
    devices=$1 own='' both=''
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        both="$both $1"
        shift
    done
    [ $# = 0 ] || shift
    own=$*
    # shellcheck disable=SC2086
    train whole "$devices" $both --shard state && train sliced "$devices" $both --shard params --keep-whole 0 $own || return 1
    cmp "$out/whole/model.safetensors" "$out/sliced/model.safetensors"
}

by_messages() { # by_messages TRANSPORT DEVICES OPTION.. [-- OPTION..], with slices of all hosts unless --shard-within host is among them
    export YOKE_TRANSPORT=$1
    shift
    same "$@"
    code=$?
    unset YOKE_TRANSPORT
    return $code
}
refused() { # refused VARIABLE=VALUE WORDS
    # shellcheck disable=SC2086
    ! (export "$1" YOKE_TRANSPORT=local && train none "cpu:0! cpu:0!" $mlp --shard params) 2>"$out/err" &&
        grep -q -e "$2.*--shard-within host" "$out/err"
}
refused_by_messages() {
    refused YOKE_PROGRESS=off "YOKE_PROGRESS=off" && refused YOKE_WIRE_PARAMS=bf16 "YOKE_WIRE_PARAMS=bf16"
}
slow_stays() { # shares by speed leave out a rank that costs as much, also for a trial; here the other rank reads from it
    # shellcheck disable=SC2086
    (export YOKE_TRANSPORT=local YOKE_PLUGINS="cpu,$YOKE_BUILD/tests/dist/.libs/yoke_slow.so" YOKE_SLOW_FACTORS="1;1" \
        YOKE_SLOW_RUN_US="1000;20000" &&
        "$yoke" train --devices "slow:0 slow:1" $mlp --shard params --max-steps 60 --eval-strategy no --overwrite-output-dir \
            --output-dir "$out/slow")
}
noted() { # an option without effect has its line
    # shellcheck disable=SC2086
    YOKE_TRANSPORT=local train noted "cpu:0! cpu:0!" $mlp --shard params --keep-whole 5000 2>"$out/err" &&
        grep -q "keep_whole 5000" "$out/err"
}

unit_bytes() { # unit_bytes BUCKET OPTION..: rank 0's peak by an estimate
    bucket=$1
    shift
    # shellcheck disable=SC2086
    YOKE_BUCKET_BYTES=$bucket "$yoke" estimate-memory --model gpt2 --global-batch 4 \
        --model-config n_layer=8,n_embd=128,n_head=2,vocab_size=256,seq_len=32 --devices "cpu:0! cpu:0!" --shares equal \
        --shard params --json "$@" |
        sed -n 's/.*"ranks": \[{[^}]*"peak_bytes": \([0-9]*\).*/\1/p'
}
unit_is_bucket() { # the norm depends on the cut into buckets
    # shellcheck disable=SC2086
    {
        train cut "cpu:0! cpu:0!" $mlp --max-grad-norm 0.01 --shard params &&
            YOKE_BUCKET_BYTES=16M train unit "cpu:0! cpu:0!" $mlp --max-grad-norm 0.01 --shard params --shard-unit 64K || return 1
    }
    cmp "$out/cut/model.safetensors" "$out/unit/model.safetensors" || return 1
    small=$(unit_bytes 16M --shard-unit 256K) same_cut=$(unit_bytes 256K) large=$(unit_bytes 16M)
    echo "# $small bytes with units of 256K, $same_cut with such buckets, $large with the preset"
    [ "$small" -lt "$large" ] && [ "$small" = "$same_cut" ]
}
unit_differs() { # ranks that were told unlike sizes
    # shellcheck disable=SC2016,SC2086
    ! "$yoke" launch --devices "cpu:0! cpu:0!" sh -c 'exec "$@" --shard-unit $((65536 + 4096 * YOKE_RANK))' each \
        "$yoke" train $mlp --max-steps 1 --shard params --output-dir "$out/none" >"$out/err" 2>&1 &&
        grep -q "shard-unit.* is 65536 on rank 0 (.*) and 69632 on rank 1 (.*): expected the same on all ranks" "$out/err"
}

# Two steps in one stage, two in the other: the bits of four in one.
resumed() { # resumed "STAGE STAGE"..
    # shellcheck disable=SC2086
    train straight "cuda:0! cuda:1!" $gpt2 --shard state || return 1
    for stages; do
        first=${stages% *} second=${stages#* }
        [ "$first" = params ] && first="params --keep-whole 0"
        [ "$second" = params ] && second="params --keep-whole 0"
        train half "cuda:0! cuda:1!" $gpt2 --shard $first --save-steps 2 &&
            train rest "cuda:0! cuda:1!" $gpt2 --shard $second --resume-from-checkpoint "$out/half/checkpoint-2" &&
            cmp "$out/straight/model.safetensors" "$out/rest/model.safetensors" || return 1
    done
    train fewer cpu:0 $gpt2 --resume-from-checkpoint "$out/half/checkpoint-2" # another number and kind of ranks
}

estimated() { # estimated DEVICES
    devices=$1
    set -- --devices "$devices" --shares equal --shard params --keep-whole 0 --prefetch-units 1
    # shellcheck disable=SC2086
    "$yoke" estimate-memory --model gpt2 --model-config $layers,vocab_size=256,seq_len=32 --global-batch 4 --eval-strategy no "$@" --json \
        >"$out/plan" && train run "$devices" $gpt2 "$@" || return 1
    python3 -c 'import json, sys
plan, run = (json.loads(open(f).read().splitlines()[-1]) for f in sys.argv[1:3])
print(plan, run)
assert plan["ranks"][0]["peak_bytes"] == run["peak_bytes"] > 0
assert plan["ranks"][0]["host_bytes"] == run["host_bytes"]
assert (run["host_bytes"] > 0) == bool(sys.argv[3])' "$out/plan" "$out/run.json" "${YOKE_TRANSPORT-}"
}
estimated_by_messages() { # a card's slice and the host's part of its lanes are counted
    (export YOKE_TRANSPORT=local && estimated "cuda:0! cpu:0!")
}

killed() { # killed SIGNAL DEVICES: one clear error, and no process stays
    rm -f "$out/killed.jsonl"
    # shellcheck disable=SC2086
    timeout 60 "$yoke" train --devices "$2" $gpt2 --shares equal --shard params --keep-whole 0 --max-steps 100000 \
        --overwrite-output-dir --output-dir "$out/killed" --logging-steps 5 --log "$out/killed.jsonl" 2>"$out/err" &
    job=$!
    for _ in $(seq 300); do
        [ -s "$out/killed.jsonl" ] && break
        sleep 0.1
    done
    victim=$(rank_pid 1 "$out/killed")
    begin=$(date +%s%N)
    kill "-$1" "$victim" || kill $job
    wait $job
    code=$?
    echo "# $((($(date +%s%N) - begin) / 1000000)) ms from the signal to the end"
    cat "$out/err"
    [ $code = 1 ] && grep -q "rank 1.*\(died\|signal\|stopped\)" "$out/err"
}
killed_by_messages() {
    (export YOKE_TRANSPORT=sock && killed KILL "cpu:0! cpu:0!" && killed STOP "cpu:0! cpu:0!")
}

long() { [ -n "${YOKE_TEST_LONG-}" ]; } # tests/dist/sliced.c has most of these on cards, too, with another model

more() {
    # shellcheck disable=SC2086
    {
        for devices in "cpu:0! cuda:0!" "cuda:0! cuda:1!"; do
            ok "$devices: gpt2" same "$devices" $gpt2
            ok "$devices: gpt2 in bf16" same "$devices" $gpt2 --precision bf16
        done
        ok "bert" same "cpu:0! cuda:0!" $bert
        ok "resnet20 in bf16" same "cuda:0! cuda:1!" $resnet --precision bf16
        ok "fp16, with skipped steps" same "cuda:0! cuda:1!" $gpt2 --precision fp16 --loss-scaling init=1e7
        ok "units that stay for backward" same "cuda:0! cuda:1!" $gpt2 --precision bf16 -- --reshard-after-forward off
        ok "units that come early" same "cuda:0! cuda:1!" $gpt2 -- --prefetch-units 2
        ok "by messages, each host with all parameters, in bf16" by_messages local "cuda:0! cuda:1!" $gpt2 --precision bf16 \
            -- --shard-within host
        ok "by messages, bert" by_messages sock "cpu:0! cuda:0!" $bert
        ok "by messages, resnet20 in bf16" by_messages local "cuda:0! cpu:0!" $resnet --precision bf16
        ok "by messages, fp16, with skipped steps" by_messages local "cuda:0! cpu:0! cuda:1!" $gpt2 --precision fp16 --loss-scaling init=1e7
        ok "by messages, units that stay and come early" by_messages local "cuda:0! cuda:1!" $gpt2 --precision bf16 \
            -- --reshard-after-forward off --prefetch-units 3
        ok "all stages resume each other's checkpoints" resumed "state params" "params state" "params gradients"
    }
}

if [ "$(uname -m)" = x86_64 ]; then
    . "$YOKE_SOURCE/tests/fakes/use.sh"
    # shellcheck disable=SC2086
    {
        ok "mlp with evaluation" same "cuda:0! cuda:1!" $mlp
        ok "gpt2 in bf16, whose activations are computed again, and units come early" same "cpu:0! cuda:0!" $gpt2 --precision bf16 \
            --gradient-checkpointing -- --prefetch-units 1
        instrumented || ok "by messages, each host with all parameters" by_messages local "cpu:0! cuda:0!" $gpt2 -- --shard-within host
        ok "by messages, gpt2 in bf16" by_messages local "cpu:0! cuda:0!" $gpt2 --precision bf16
        ok "by messages, an estimate is the run's bytes" estimated_by_messages
        instrumented || ok "a stage resumes another one's checkpoint" resumed "params state"
        ! long || more
        offloads="--offload state=host --max-grad-norm 0" # the norm of one rank alone is taken by bucket
        ok "one card whose host has the parameters" same "cuda:0!" $gpt2 --precision bf16 $offloads
        ok "two of them, with skipped steps" same "cuda:0! cuda:1!" $gpt2 --precision fp16 --loss-scaling init=1e7 $offloads
        offloads="--offload state=host:0.5 --max-grad-norm 0"
        ok "one card, whose host has a part" same "cuda:0!" $gpt2 --precision bf16 $offloads
        ok "two of them, with a part each" same "cuda:0! cuda:1!" $gpt2 --precision fp16 --loss-scaling init=1e7 $offloads
        ok "an estimate is the run's bytes" estimated "cuda:0! cuda:1!"
        ok "a killed card ends the job" killed KILL "cuda:0! cuda:1!"
    }
else
    skip "cards" "the fake driver runs kernels on x86-64 only"
fi
if [ -e "$YOKE_BUILD/.libs/transport_sock.so" ]; then
    # shellcheck disable=SC2086
    {
        ok "by messages, mlp with evaluation" by_messages sock "cpu:0! cpu:0! cpu:0!" $mlp
        ok "by messages, a killed or stopped rank ends the job" killed_by_messages
    }
else
    skip "by messages of sock" "the sock transport is not built"
fi
if long && [ -e "$YOKE_BUILD/.libs/transport_ofi.so" ]; then
    # shellcheck disable=SC2086
    ok "by messages of ofi" by_messages ofi "cpu:0! cpu:0! cpu:0!" $gpt2 --precision bf16
else
    skip "by messages of ofi" "the ofi transport is not built, or YOKE_TEST_LONG is not set"
fi
ok "by messages, what is not built is refused" refused_by_messages
ok "by messages, an option without effect is named" noted
ok "by messages, a slow rank stays" slow_stays
export YOKE_TRANSPORT=local
ok "by messages, --shard-unit is the most bytes of a bucket" unit_is_bucket
ok "and equal on all ranks" unit_differs
unset YOKE_TRANSPORT
if "$yoke" info --kinds 2>/dev/null | grep -q '^opencl$'; then
    # shellcheck disable=SC2086
    ok "OpenCL: gpt2 in bf16" same "cpu:0! opencl:0@1!" $gpt2 --precision bf16
else
    skip "OpenCL" "no OpenCL device here"
fi
if "$yoke" info --kinds 2>/dev/null | grep -q '^vulkan$'; then
    # shellcheck disable=SC2086
    ok "Vulkan: mlp" same "cpu:0! vulkan:0!" $mlp
else
    skip "Vulkan" "no Vulkan device here"
fi
plan
