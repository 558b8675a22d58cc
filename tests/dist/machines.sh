#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Short trainings of an MLP, a convolutional net and a transformer on machines this is not: every instruction set forced in
# turn, OpenCL devices with 32 KiB to 1 MiB of local memory and 1 or 8 units, devices that are slow, become slow, recover, or
# compile for seconds (tests/unit/opencl/fake_icd.c). Each gives the losses the CPU gives.
. "$YOKE_SOURCE/tests/cli/lib.sh"
export YOKE_PLUGIN_DIR="$YOKE_BUILD/.libs"

losses() { # losses NAME DEVICE MODEL [OPTION...]: of four steps, in $out/NAME; the first step comes from the same weights
    to=$out/$1 device=$2 model=$3
    shift 3
    case $model in
    mlp) set -- --model mlp --model-config hidden=64+64 --global-batch 16 "$@" ;;
    net) set -- --model resnet20 --global-batch 4 "$@" ;;
    transformer) set -- --model gpt2 --global-batch 2 "$@" --model-config \
        n_embd=32,n_layer=2,n_head=2,vocab_size=100,n_positions=32,seq_len=16 ;;
    esac
    "$yoke" bench step --devices "$device" --iterations 4 --save-init "$out/init" --json "$@" >"$to"
}

alike() { # alike LIMIT NAME NAME: relative
    python3 -c '
import json, sys
a, b = (json.load(open(f))["losses"] for f in sys.argv[2:])
print(a, b)
assert len(a) == len(b) == 4
assert all(abs(x - y) <= float(sys.argv[1]) * abs(x) for x, y in zip(a, b))' "$1" "$out/$2" "$out/$3"
}

once() { # once NAME DEVICE MODEL [OPTION...]: losses, where they are not there yet
    [ -s "$out/$1" ] || losses "$@"
}

on_isa() { # on_isa ISA MODEL LIMIT [OPTION...]: as by portable C
    isa=$1 model=$2 limit=$3
    shift 3
    YOKE_CPU_ISA=portable once "portable.$model$2" cpu:0 "$model" "$@" && YOKE_CPU_ISA=$isa losses other cpu:0 "$model" "$@" &&
        alike "$limit" "portable.$model$2" other
}

has_isa() { # has_isa ISA: whether this machine computes with it
    YOKE_CPU_ISA=$1 "$yoke" info 2>/dev/null | grep -q "cpu:0 .*, $1, "
}

# Winograd's sums and batch norm over 4 rows move ResNet's losses by some 1e-5.
for isa in avx2 avx512 avx512bf16 amx; do
    for case in "mlp 1e-5" "net 5e-4" "transformer 1e-5" "transformer 5e-3 --precision bf16"; do
        instrumented && [ "$case" = "transformer 1e-5" ] && continue # the products of mlp; the rest is in bf16's
        if has_isa $isa; then
            # shellcheck disable=SC2086
            ok "$isa: $case" on_isa $isa $case
        else
            skip "$isa: $case" "this machine has no $isa"
        fi
    done
done

if ! [ -r /etc/OpenCL/vendors/pocl.icd ] || ! [ -e "$YOKE_BUILD/.libs/yoke_opencl.so" ]; then
    skip "OpenCL devices of all kinds" "needs the OpenCL plugin and PoCL"
    plan
    exit 0
fi
echo "$YOKE_BUILD/tests/unit/opencl/.libs/fake_icd.so" >"$out/fake.icd"
export OCL_ICD_VENDORS="$out/fake.icd" YOKE_OPENCL_FAMILY=cpu

on_device() { # on_device KIB UNITS MODEL LIMIT: as on the CPU
    once "cpu.$3" cpu:0 "$3" && OCL_FAKE_LOCAL_KB=$1 OCL_FAKE_UNITS=$2 losses other opencl:0 "$3" && alike "$4" "cpu.$3" other
}

for case in "32 1" "64 8" "256 1" "1024 8"; do
    # shellcheck disable=SC2086
    ok "mlp in KiB, units $case" on_device $case mlp 1e-5
    case $case in 64*|256*) [ -n "${YOKE_TEST_LONG-}" ] || continue ;; esac # between the least and the most
    # shellcheck disable=SC2086
    ok "transformer in KiB, units $case" on_device $case transformer 1e-5
done
ok "net in KiB, units 32 1" on_device 32 1 net 5e-4
instrumented || ok "net in KiB, units 256 8" on_device 256 8 net 5e-4

# mixed NAME SETTING...: 30 steps of cpu:0 and such a device give the losses of cpu:0
mixed() {
    env "$@" YOKE_OPENCL_PROBE=none "$yoke" train --model mlp --model-config hidden=32 --data "idx:$out/images" --global-batch 32 \
        --max-steps 30 --learning-rate 1e-3 --warmup-steps 5 --logging-steps 1 --output-dir "$out/mix" --overwrite-output-dir \
        --devices "cpu:0 opencl:0" --json --log "$out/mix.jsonl" >"$out/json" || return 1
    python3 -c '
import json, sys
a, b = ([row["loss"] for row in map(json.loads, open(f)) if "loss" in row] for f in sys.argv[1:])
assert len(a) == len(b) == 30, (len(a), len(b))
print("largest relative difference", max(abs(x - y) / x for x, y in zip(a, b)))
assert all(abs(x - y) <= 1e-4 * x for x, y in zip(a, b))' "$out/alone.jsonl" "$out/mix.jsonl"
}

# slowed FACTOR: and it ends with so few rows that it cannot cost much, or none; the first steps, which measure it, have more
slowed() {
    mixed OCL_FAKE_SLOW="$1" YOKE_LOG=debug 2>"$out/said" || return 1
    last=$(sed -n 's/.*shares (parts of the optimizer): [0-9]* ([0-9.]*) \([0-9]*\) .*/\1/p' "$out/said" | tail -n 1)
    echo "$last of 32 rows"
    at_least 4 "$last"
}

if [ -e "$data/fashion-mnist" ]; then
    small_images "$out/images"
    ok "one device alone" mlp "$out/model" --devices cpu:0 --json --log "$out/alone.jsonl"
    ok "beside a device 3 times slower" mixed OCL_FAKE_SLOW=3
    ok "beside a device 10 times slower: right, and with few rows" slowed 10
    ok "beside one 100 times slower: right, and with few rows" slowed 100
    ok "beside one that becomes 50 times slower" mixed OCL_FAKE_SLOW=50 OCL_FAKE_SLOW_FROM=300
    ok "beside one that recovers" mixed OCL_FAKE_SLOW=50 OCL_FAKE_SLOW_UNTIL=300
    ok "beside one that compiles for 4 s" mixed OCL_FAKE_BUILD_MS=4000 OCL_FAKE_BUILD_UNTIL=2
    ok "beside one that sees host memory as it was at first" mixed OCL_FAKE_SNAPSHOT=1
else
    skip "a mixed job" "no fashion-mnist in YOKE_TEST_DATA ($data)"
fi
plan
