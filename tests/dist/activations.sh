#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --offload activations=host: a device with memory of its own has the bits of a run that keeps them, with less memory on the device, and as
# many bytes on the host as yoke estimate-memory says: the fake CUDA, and the plugins for CPU, OpenCL and Vulkan within one that copies.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data banking77 cifar10-part fashion-mnist
small_images "$out/images"
seq 1 4000 >"$out/text"
head -n 200 "$data/banking77/train.csv" >"$out/rows.csv"
mlp="--model mlp --model-config hidden=256+256+256+256,dropout=0.1 --data idx:$out/images --global-batch 128"
gpt2="--model gpt2 --model-config n_layer=4,n_embd=64,n_head=2,vocab_size=256,n_positions=64,seq_len=64 --global-batch 8"
gpt2="$gpt2 --data text:$out/text --tokenizer bytes --seq-len 64"
bert="--model bert --model-config num_hidden_layers=4,hidden_size=64,num_attention_heads=2,intermediate_size=128,max_position_embeddings=32"
bert="$bert --data csv:$out/rows.csv,text=text,label=category --tokenizer bytes --max-length 32 --global-batch 16"
resnet="--model resnet20 --data cifar10:$data/cifar10-part --global-batch 16 --optim sgd"

train() { # train OUT OPTION...: its last line in OUT.json
    to=$1
    shift
    "$yoke" train --max-steps 3 --learning-rate 1e-3 --eval-strategy no --json --overwrite-output-dir --output-dir "$out/$to" "$@" \
        >"$out/$to.json" 2>"$out/$to.err" || { cat "$out/$to.err"; return 1; }
}
same() { cmp "$out/$1/model.safetensors" "$out/$2/model.safetensors"; }
less() { # the host has bytes, and the device fewer
    on=$(field peak_bytes "$out/on.json") off=$(field peak_bytes "$out/off.json") host=$(field host_bytes "$out/on.json")
    echo "the device has $off bytes without, $on with, the host $host"
    [ "$host" -gt 0 ] && [ "$on" -lt "$off" ]
}
pair() { # pair OPTION...: with and without
    train off "$@" && train on "$@" --offload activations=host && same off on && less
}
estimate() { # estimate OPTION...: to the byte, on the device and on the host
    set -- --eval-strategy no --offload "${places-activations=host}" "$@"
    "$yoke" estimate-memory "$@" --json >"$out/plan" && train on "$@" || return 1
    for key in peak_bytes host_bytes; do
        planned=$(field ranks "$out/plan" | python3 -c "print(eval(input())[0]['$key'])")
        echo "$key: $planned planned, $(field $key "$out/on.json") in the run"
        [ "$planned" = "$(field $key "$out/on.json")" ] || return 1
    done
}
each_model() { # each_model DEVICE MODEL...: all of them with YOKE_TEST_LONG
    device=$1
    shift
    [ -z "${YOKE_TEST_LONG-}" ] || set -- mlp gpt2 bert resnet
    # shellcheck disable=SC2086
    for model; do
        case $model in
        mlp) options=$mlp ;;
        gpt2) options=$gpt2 ;;
        bert) options=$bert ;;
        resnet) options=$resnet ;;
        esac
        ok "$model on $device" pair $options --devices "$device"
    done
    # shellcheck disable=SC2086
    ok "blocks of gpt2 on $device" pair $gpt2 --devices "$device" --gradient-checkpointing
}

slow() { export YOKE_PLUGINS="cpu,$YOKE_BUILD/tests/dist/.libs/yoke_slow.so" YOKE_SLOW_OWN=1 YOKE_SLOW_FACTORS="1;1"; }
slow
# under a sanitizer the models, stages and files whose ways through the code differ: the plain build has the bits of each
models="mlp gpt2 resnet" stages="state gradients params"
instrumented && models="mlp gpt2" stages=params
# shellcheck disable=SC2086
each_model slow:0! $models
# shellcheck disable=SC2086
{
    ok "several micro batches in fp16" pair $gpt2 --devices slow:0! --precision fp16 --gradient-accumulation-steps 2
    ok "bf16" pair $gpt2 --devices slow:0! --precision bf16 --gradient-checkpointing
    for stage in $stages; do
        ok "two ranks, --shard $stage" pair $gpt2 --devices "slow:0! slow:1!" --shares equal --shard $stage --global-batch 16
    done
    ok "the estimate" estimate $gpt2 --devices slow:0!
    ok "and with blocks" estimate $gpt2 --devices slow:0! --gradient-checkpointing --precision bf16
    ok "and of two ranks" estimate $gpt2 --devices "slow:0! slow:1!" --shares equal --shard params --global-batch 16
}
says() { # says DEVICE PLACES WORDS...: one line each
    device=$1 to=$2
    shift 2
    # shellcheck disable=SC2086
    "$yoke" train $gpt2 --devices "$device" --offload "$to" --max-steps 1 --overwrite-output-dir --output-dir "$out/says" >"$out/said" 2>&1
    for words; do
        [ "$(grep -c "$words" "$out/said")" = 1 ] || { echo "not once: $words"; cat "$out/said"; return 1; }
    done
}
beside() { # the state on the host as well: bits and bytes of both
    # shellcheck disable=SC2086
    train off $gpt2 --devices slow:0! --offload state=host && train on $gpt2 --devices slow:0! --offload state=host,activations=host &&
        same off on && [ "$(field peak_bytes "$out/on.json")" -lt "$(field peak_bytes "$out/off.json")" ] &&
        [ "$(field host_bytes "$out/on.json")" -gt "$(field host_bytes "$out/off.json")" ] &&
        says slow:0! state=host,activations=host 'offload: the host updates for 1 of 1 ranks' \
            'offload: the host keeps activations from forward to backward for 1 of 1 ranks$' &&
        (places=activations=host,state=host && estimate $gpt2 --devices slow:0!)
}
ok "beside the state on the host" beside
still() { # a processor computes in the host's memory: one line, and no bytes
    # shellcheck disable=SC2086
    train off $gpt2 --devices cpu:0 && train on $gpt2 --devices cpu:0 --offload activations=host && same off on &&
        [ "$(field peak_bytes "$out/on.json")" = "$(field peak_bytes "$out/off.json")" ] && [ "$(field host_bytes "$out/on.json")" = 0 ] &&
        says cpu:0 activations=host 'for 0 of 1 ranks; the devices of the other ranks compute in its memory, so nothing moves'
}
ok "a processor stays as it is" still
evaluated() { # forward alone leaves nothing behind: the same losses
    # shellcheck disable=SC2086
    for places in none activations=host; do
        "$yoke" train $gpt2 --devices slow:0! --max-steps 2 --eval-strategy steps --eval-steps 1 --eval-data "text:$out/text" \
            --logging-steps 1 --log "$out/$places.jsonl" --offload $places --overwrite-output-dir --output-dir "$out/evaluated" || return 1
    done
    python3 - "$out/none.jsonl" "$out/activations=host.jsonl" <<'P'
import json, sys
a, b = ([(k, v) for r in map(json.loads, open(f)) for k, v in r.items() if "loss" in k] for f in sys.argv[1:])
print(a)
assert a == b and any("eval" in k for k, v in a)
P
}
ok "evaluations" evaluated
files() { # of DeepSpeed and FSDP
    printf '{"zero_optimization": {"stage": 1}, "activation_checkpointing": {"cpu_checkpointing": true}}' >"$out/ds.json"
    # shellcheck disable=SC2086
    train off $gpt2 --devices slow:0! || return 1
    for form in "--deepspeed=$out/ds.json" '--fsdp-config={"reshard_after_forward": "no_shard", "activation_cpu_offload": true}'; do
        # shellcheck disable=SC2086
        train on $gpt2 --devices slow:0! "$form" && same off on && less || { echo "$form"; return 1; }
    done
}
ok "files of DeepSpeed and FSDP" files
killed() { # a rank that dies among copies ends the job
    # shellcheck disable=SC2086
    timeout 60 "$yoke" train $gpt2 --devices "slow:0! slow:1!" --max-steps 100000 --overwrite-output-dir --output-dir "$out/killed" \
        --logging-steps 2 --log "$out/killed.jsonl" --offload activations=host 2>"$out/err" &
    job=$!
    for _ in $(seq 300); do
        [ -s "$out/killed.jsonl" ] && break
        sleep 0.1
    done
    kill -KILL "$(rank_pid 1 "$out/killed")" || kill $job
    wait $job
    code=$?
    cat "$out/err"
    [ $code = 1 ] && grep -q "rank 1.*killed by signal 9" "$out/err"
}
ok "a killed rank ends the job" killed

unset YOKE_PLUGINS
if [ "$(uname -m)" = x86_64 ]; then
    . "$YOKE_SOURCE/tests/fakes/use.sh"
    each_model cuda:0! gpt2
    # shellcheck disable=SC2086
    ok "the estimate of a card" estimate $gpt2 --devices cuda:0!
    # shellcheck disable=SC2086
    ok "a card and a processor" pair $gpt2 --devices "cuda:0! cpu:0!" --shares equal --shard gradients
else
    skip "cards" "the fake driver runs kernels on x86-64 only"
fi
# Drivers without a card compute in the host's memory, so they stay as they are, but for a plugin around theirs that copies.
for driver in opencl vulkan; do
    if ! "$yoke" info --kinds 2>/dev/null | grep -q "^$driver$"; then
        skip "$driver" "no such device here"
        continue
    fi
    # shellcheck disable=SC2086
    {
        ok "$driver stays as it is" says $driver:0! activations=host '; the devices of the other ranks compute in its memory'
        slow
        export YOKE_SLOW_PLUGIN=$driver
        ok "mlp on $driver" pair $mlp --devices slow:0!
        [ $driver = vulkan ] || instrumented || ok "gpt2 on $driver" pair $gpt2 --devices slow:0!
        [ -z "${YOKE_TEST_LONG-}" ] || each_model slow:0!
    }
    unset YOKE_PLUGINS YOKE_SLOW_PLUGIN
done
plan
