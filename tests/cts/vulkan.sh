#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The Vulkan plugin on Mesa's lavapipe: the suite under the validation layer, with memory that is copied, with other widths of vectors;
# trainings beside the CPU plugin; drivers that abort, hang or are not there.
. "$YOKE_SOURCE/tests/cts/lib.sh"
PLUGIN=$YOKE_BUILD/.libs/yoke_vulkan.so
XFAIL="--xfail $YOKE_SOURCE/tests/cts/vulkan.xfail"
[ -e "$PLUGIN" ] || skip_all "the Vulkan plugin is not built"
# Under sanitizers: the driver leaks, from where it has been unloaded, so that no suppression names it; leaks of ours are looked for by
# the suite's group in the plain build.
export VK_DRIVER_FILES="$LAVAPIPE" ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0"
# lavapipe: kernels run in the thread that submits, and new memory is not zero
export YOKE_PLUGIN_DIR="$YOKE_BUILD/.libs" LP_NUM_THREADS=0 LVP_POISON_MEMORY=1
"$CTS" --plugin "$PLUGIN" --only abi/devices >"$WORK/out" 2>&1
grep -q 'the plugin has no devices' "$WORK/out" && skip_all "no Vulkan device here"

if [ "$SANITIZER" = thread ]; then
    run_cts "vulkan's queues" "$PLUGIN" --group buffer,queue --timeout 300
    finish
fi

# suite NAME CODE OPTIONS: scripts/vulkan-suite, with the validation layer, ends with that code; its last line is shown
suite()
{
    name=$1
    wanted=$2
    shift 2
    "$YOKE_SOURCE/scripts/vulkan-suite" --build "$YOKE_BUILD" --quick "$@" >"$WORK/out" 2>&1
    code=$?
    [ $code = "$wanted" ]
    failed=$?
    [ $failed = 0 ] && tail -n 1 "$WORK/out" | sed 's/^/# /' || sed 's/^/# /' "$WORK/out"
    result $failed "$name"
}

ALL= # groups of the suite without the layer
if [ "$SANITIZER" != none ]; then # with the layer in the plain build
    for group in buffer queue rebind; do
        YOKE_VULKAN_STAGING=1 run_cts "vulkan with memory of its own: $group" "$PLUGIN" --timeout 300 --group $group
    done
elif [ -e /usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json ]; then
    suite "vulkan with memory of its own, validated" 0 --part staging --group buffer,queue,rebind,random,composite
    # the same kernels as below, where the group body has each composite in memory of the host's
    [ -n "${YOKE_TEST_LONG-}" ] ||
        ALL="--group abi,buffer,queue,extension,op,body,random,gradients,guard,rebind,leak,offsets,processes,errors"
    VK_LAYER_ENABLES=VK_VALIDATION_FEATURE_ENABLE_BEST_PRACTICES_EXT suite "a message of the validation layer is a failure" 1 \
        --part staging --group buffer
    grep -q '^vulkan-suite: [1-9][0-9]* passed, 0 failed, [1-9][0-9]* messages' "$WORK/out"
    result $? "and counted"
    VK_DRIVER_FILES=/nonexistent.json suite "without a device nothing passes" 2 --part staging --group buffer
fi

# claims FILE PLUGIN: the composites, with their types, that a plugin claims; FILE.none: those it does not
claims()
{
    "$CTS" --plugin "$YOKE_BUILD/.libs/yoke_$2.so" --group composite --claims >"$WORK/out" 2>"$WORK/err" || return 1
    sed -n 's/^ok [0-9]* - \([^ ]*\)$/\1/p' "$WORK/out" | sort >"$WORK/$1"
    [ "$(wc -l <"$WORK/$1")" -gt 500 ]
}

# beside_opencl NAME VULKAN OPENCL: what OpenCL claims, Vulkan claims too
beside_opencl()
{
    comm -13 "$WORK/$2" "$WORK/$3" >"$WORK/lacks"
    [ -s "$WORK/$2" ] && [ -s "$WORK/$3" ] && [ ! -s "$WORK/lacks" ]
    failed=$?
    [ $failed = 0 ] || sed 's/^/# lacks /' "$WORK/lacks"
    result $failed "$1"
}

"$CTS" --plugin "$YOKE_BUILD/.libs/yoke_opencl.so" --only abi/devices >"$WORK/out" 2>&1
if ! grep -q 'the plugin has no devices' "$WORK/out"; then
    YOKE_OPENCL_FAMILY=gpu claims opencl.gpu opencl
    YOKE_OPENCL_FAMILY=cpu claims opencl.cpu opencl
    YOKE_VULKAN_SHAPE=groups claims vulkan.groups vulkan
    claims vulkan.lanes vulkan
    beside_opencl "a GPU's kernels are claimed as OpenCL's" vulkan.groups opencl.gpu
    beside_opencl "they are claimed where OpenCL has a CPU's" vulkan.groups opencl.cpu
    # heads of more than 64 elements: llvmpipe compiles such a kernel for minutes, so that their body is what runs
    grep -v 'attention.*\.heads128' "$WORK/opencl.cpu" >"$WORK/opencl.lanes"
    beside_opencl "a software driver claims them all, but large heads" vulkan.lanes opencl.lanes
fi

"$CTS" --plugin "$PLUGIN" --only buffer/wrap >"$WORK/out" 2>&1
grep -q '^ok [0-9]* - buffer/wrap$' "$WORK/out"
result $? "memory of the host's is a buffer where the device computes in it"
YOKE_VULKAN_STAGING=1 "$CTS" --plugin "$PLUGIN" --only buffer/wrap >"$WORK/out" 2>&1
grep -q 'it does not wrap host memory' "$WORK/out"
result $? "and none where it does not"

# random graphs: three of the 60 that the processor's plugin runs
if [ "$SANITIZER" = none ]; then
    # shellcheck disable=SC2086
    run_cts "vulkan" "$PLUGIN" --timeout 300 $QUICK $FEW $ALL $XFAIL
else # the other groups are above, or have their kernels
    # shellcheck disable=SC2086
    run_cts "vulkan" "$PLUGIN" --timeout 300 --quick --unsupported "$WORK/narrow" $FEW $XFAIL \
        --group abi,op,composite,random,errors,extension
fi
if [ "$SANITIZER" = none ]; then # other kernels, which no sanitizer sees
    # shellcheck disable=SC2086
    run_cts "long sums" "$PLUGIN" --group long --timeout 300 $QUICK $XFAIL
    # a GPU's kernels, in groups as small as a phone's, with as little memory
    export YOKE_VULKAN_SHAPE=groups YOKE_VULKAN_LIMITS=phone
    if [ -n "$YOKE_TEST_LONG" ]; then
        # shellcheck disable=SC2086
        YOKE_VULKAN_STAGING=1 run_cts "vulkan as a small phone" "$PLUGIN" --timeout 300 $XFAIL
    else
        # in 16 bits rusticl has these kernels in bf16, the fake card in each type, and the run above their translation
        YOKE_VULKAN_STAGING=1 run_cts "vulkan as a small phone" "$PLUGIN" --timeout 300 --unsupported "$WORK/narrow" \
            --group composite,random --count 20 --quick
    fi
    unset YOKE_VULKAN_SHAPE YOKE_VULKAN_LIMITS
    for width in 128 512; do # optimized, as users' drivers do
        GALLIVM_PERF='' LP_NATIVE_VECTOR_WIDTH=$width run_cts "vulkan in vectors of $width bits" "$PLUGIN" --group random \
            --count 3 --timeout 300
    done
fi

# Cooperative matrices, where the driver has them: Mesa 22.3's has not.
none="products of f16 by cooperative matrices"
YOKE_LOG=debug YOKE_VULKAN_MMA=1 "$CTS" --plugin "$PLUGIN" --only 'op/dot.f16.2x65x64x33' >"$WORK/out" 2>&1
if grep -q 'computes by cooperative matrices' "$WORK/out"; then
    YOKE_VULKAN_MMA=1 run_cts "$none" "$PLUGIN" --only 'op/dot.*f16*' --timeout 300
    YOKE_VULKAN_MMA=1 run_cts "gradients by cooperative matrices" "$PLUGIN" --group gradients --timeout 300
else
    why=$(sed -n 's/.*no cooperative matrices: //p' "$WORK/out" | head -n 1)
    [ -n "$why" ]
    result $? "$none # SKIP this driver has none: $why"
fi
YOKE_LOG=debug YOKE_VULKAN_MMA=0 "$CTS" --plugin "$PLUGIN" --only 'op/dot.f16.2x65x64x33' >"$WORK/out" 2>&1
grep -q 'no cooperative matrices: MMA=0' "$WORK/out" && ! grep -q 'by cooperative matrices' "$WORK/out"
result $? "MMA=0 takes none"

# bench DEVICES FILE OPTIONS: three steps from the same weights
bench()
{
    devices=$1
    file=$2
    shift 2
    "$YOKE_BUILD/yoke" bench step --devices "$devices" --iterations 3 --save-init "$WORK/init" --json "$@" >"$WORK/$file" 2>"$WORK/err"
}

# train NAME PLACES OPTIONS: the losses of some steps, alike on the CPU plugin and on each place: vulkan, or both in one job
train()
{
    name=$1
    places=$2
    shift 2
    for file in cpu $places; do
        case $file in cpu) devices=cpu:0 ;; vulkan) devices=vulkan:0 ;; *) devices="cpu:0! vulkan:0!" ;; esac
        bench "$devices" $file "$@" || { tail -3 "$WORK/err" | sed 's/^/# /'; result 1 "$name on $devices"; return; }
    done
    python3 -c '
import json, sys
a, *rest = (json.load(open(f))["losses"] for f in sys.argv[1:])
print("# losses", a, *rest)
assert len(a) >= 3 and rest
for b in rest:
    assert len(a) == len(b) and all(abs(x - y) <= 1e-4 * abs(x) for x, y in zip(a, b))' "$WORK/cpu" $(printf "$WORK/%s " $places)
    result $? "$name trains as on the CPU ($places)"
}

train "an MLP" "vulkan both" --model mlp --model-config hidden=64+64 --global-batch 16
train "a BERT" vulkan --model bert --global-batch 4 --model-config \
    hidden_size=32,num_hidden_layers=1,num_attention_heads=2,intermediate_size=64,vocab_size=100,seq_len=16
# 4.1 MB of embeddings in a bucket with others, and logits as large beside other temporaries
export YOKE_VULKAN_LIMITS=alloc=4194304
[ "$SANITIZER" != none ] || train "a GPT-2 larger than an allocation" vulkan --model gpt2 --global-batch 4 --model-config \
    n_layer=1,n_head=2,n_embd=64,vocab_size=16000,seq_len=16
export YOKE_VULKAN_STAGING=1
train "a GPT-2 larger than an allocation, copied," both --model gpt2 --global-batch 4 --model-config \
    n_layer=1,n_head=2,n_embd=64,vocab_size=16000,seq_len=16
unset YOKE_VULKAN_LIMITS YOKE_VULKAN_STAGING

# manifest NAME: of a driver that is a test's
manifest()
{
    printf '{"file_format_version": "1.0.0", "ICD": {"library_path": "%s/tests/unit/vulkan/.libs/%s_icd.so", "api_version": "1.2.0"}}\n' \
        "$YOKE_BUILD" "$1" >"$WORK/$1.json"
}

# driver NAME DRIVERS SAYS DEVICES: what is said, and how many devices are left
driver()
{
    VK_DRIVER_FILES=$2 YOKE_LOG=info timeout 120 "$YOKE_BUILD/yoke" info >"$WORK/info" 2>&1
    code=$?
    [ $code = 0 ] && grep -q "$3" "$WORK/info" && [ "$(grep -c '^ *vulkan:[0-9]' "$WORK/info")" = "$4" ]
    failed=$?
    [ $failed = 0 ] || sed 's/^/# /' "$WORK/info"
    result $failed "$1"
}

manifest bad
manifest hang
driver "a driver that aborts is left out" "$WORK/bad.json:$VK_DRIVER_FILES" "bad.json is not used: its driver died of signal 6" 1
export YOKE_VULKAN_PROBE_MS=3000
driver "a driver that hangs is left out" "$WORK/hang.json" \
    "hang.json is not used: its driver gave no answer within 3000 ms" 0
unset YOKE_VULKAN_PROBE_MS
mkdir "$WORK/bad"
echo '{"file_format_version": "1.0.0", "ICD": {"library_path":' >"$WORK/bad/cut.json"
for name in none cut; do # no library is there, and one that is none
    printf '{"file_format_version": "1.0.0", "ICD": {"library_path": "%s/bad/%s.json", "api_version": "1.2.0"}}\n' "$WORK" $name \
        >"$WORK/bad/library_$name.json"
done
: >"$WORK/bad/empty.json"
driver "manifests that are cut, empty, or name no library hide no driver" "$WORK/bad:$VK_DRIVER_FILES" \
    "cut.json is not used: its driver failed when tried" 1
driver "no driver is no device" /nonexistent.json "vulkan .*0 devices" 0
finish
