#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A second implementation of OpenCL, and the GPU-shaped kernels: Mesa's rusticl on llvmpipe, in small cases.
. "$YOKE_SOURCE/tests/cts/lib.sh"
PLUGIN=$YOKE_BUILD/.libs/yoke_opencl.so
ICD=/etc/OpenCL/vendors/rusticl.icd
[ -e "$PLUGIN" ] || skip_all "the OpenCL plugin is not built"
[ -e "$ICD" ] || skip_all "rusticl (package mesa-opencl-icd) is not installed"
case $SANITIZER in thread) skip_all "rusticl's locks are unknown to TSan" ;; esac
export RUSTICL_ENABLE=llvmpipe YOKE_OPENCL_FAMILY=gpu OCL_ICD_VENDORS=$ICD YOKE_PLUGIN_DIR="$YOKE_BUILD/.libs"
"$CTS" --plugin "$PLUGIN" --only abi/devices >"$WORK/out" 2>&1
grep -q 'the plugin has no devices' "$WORK/out" && skip_all "rusticl has no device here"

# Under sanitizers: the driver's kernels are not instrumented and its threads lose memory, now and then; what the plugin does for each
# kernel, and what it leaks, is looked for on PoCL (opencl.sh).
if [ "$SANITIZER" = none ]; then
    # the groups body and gradients have the same kernels on the fake card, which compiles in less time; bf16 runs here alone as a GPU's
    # OpenCL C, and f16 differs from it in its loads and stores, which PoCL has
    grep '\.f16' "$WORK/narrow" >"$WORK/f16"
    few="--quick --group abi,buffer,queue,extension,op,composite,random,guard,rebind,leak,offsets,processes,errors"
    few="$few --unsupported $WORK/f16"
    [ -z "${YOKE_TEST_LONG-}" ] || few=--quick
    # shellcheck disable=SC2086
    run_cts "rusticl" "$PLUGIN" --timeout 300 $few $FEW --xfail "$YOKE_SOURCE/tests/cts/rusticl.xfail"
else
    export ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0"
    run_cts "rusticl" "$PLUGIN" --timeout 300 --quick --group abi,buffer,rebind --xfail "$YOKE_SOURCE/tests/cts/rusticl.xfail"
fi

# bench DEVICES OUT OPTIONS: three steps
bench()
{
    devices=$1
    out=$2
    shift 2
    "$YOKE_BUILD/yoke" bench step --devices "$devices" --iterations 3 --save-init "$WORK/init" --json "$@" >"$WORK/$out" 2>"$WORK/err"
}

# train NAME DEVICES OPTIONS: the losses of some steps, alike on the CPU plugin and on these devices
train()
{
    name=$1
    asked=$2
    shift 2
    bench cpu:1 cpu.out "$@" && bench "$asked" other.out "$@" || {
        tail -3 "$WORK/err" | sed 's/^/# /'
        result 1 "$name"
        return
    }
    python3 -c '
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
print("# losses", a["losses"], b["losses"])
assert len(a["losses"]) == len(b["losses"]) >= 3
assert all(abs(x - y) <= 1e-4 * abs(x) for x, y in zip(a["losses"], b["losses"]))' "$WORK/cpu.out" "$WORK/other.out"
    result $? "$name trains as on the CPU"
}

# a job of several devices, below, does the same and more
[ "$SANITIZER" != none ] || train "an MLP" opencl:0 --model mlp --model-config hidden=64+64 --global-batch 16
# a sanitizer sees the same of it on PoCL (golden/opencl.sh), and this driver compiles its kernels for half a minute
[ "$SANITIZER" != none ] || train "a BERT" opencl:0 --model bert --global-batch 4 --model-config \
    hidden_size=32,num_hidden_layers=1,num_attention_heads=2,intermediate_size=64,vocab_size=100,seq_len=16
# It wants parameters to begin at multiples of 512 bytes, the CPU at smaller ones.
export VK_DRIVER_FILES="$LAVAPIPE" LP_NUM_THREADS=0
if "$YOKE_BUILD/yoke" info 2>/dev/null | grep -q '^ *vulkan:0 '; then
    train "an MLP beside a CPU and a Vulkan device" "cpu:0! opencl:0! vulkan:0!" --model mlp --model-config hidden=16 --global-batch 9
else
    train "an MLP beside a CPU" "cpu:0! opencl:0!" --model mlp --model-config hidden=16 --global-batch 6
    result 0 "an MLP beside a CPU and a Vulkan device # SKIP no Vulkan device here"
fi
finish
