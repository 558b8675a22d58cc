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
grep -q 'it has 0' "$WORK/out" && skip_all "rusticl has no device here"

run_cts "rusticl" "$PLUGIN" --timeout 300 --quick --xfail "$YOKE_SOURCE/tests/cts/rusticl.xfail"

# bench DEVICE OPTIONS: three steps
bench()
{
    device=$1
    shift
    for try in 1 2 3; do
        "$YOKE_BUILD/yoke" bench step --devices "$device" --iterations 3 --save-init "$WORK/init" --json "$@" \
            >"$WORK/$device.out" 2>"$WORK/err" && return 0
        leaks_doubted "$WORK/err" || return 1
        echo "# try $try: leaks that are none of this code, or none that LeakSanitizer could look for"
    done
    return 1
}

# train NAME OPTIONS: the losses of some steps, alike on the CPU plugin and on rusticl
train()
{
    name=$1
    shift
    for d in cpu:1 opencl:0; do
        bench $d "$@" || { tail -3 "$WORK/err" | sed 's/^/# /'; result 1 "$name on $d"; return; }
    done
    python3 -c '
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
print("# losses", a["losses"], b["losses"])
assert len(a["losses"]) == len(b["losses"]) >= 3
assert all(abs(x - y) <= 1e-4 * abs(x) for x, y in zip(a["losses"], b["losses"]))' "$WORK/cpu:1.out" "$WORK/opencl:0.out"
    result $? "$name trains as on the CPU"
}

train "an MLP" --model mlp --model-config hidden=64+64 --global-batch 16
train "a BERT" --model bert --global-batch 4 --model-config \
    hidden_size=32,num_hidden_layers=1,num_attention_heads=2,intermediate_size=64,vocab_size=100,seq_len=16
finish
