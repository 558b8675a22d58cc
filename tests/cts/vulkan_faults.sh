#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a user reads when a Vulkan device fails in training: one error that names rank, device, operation and shapes, and a process that
# ends. The failures are those of a library before the loader (tests/unit/vulkan/lost.c).
. "$YOKE_SOURCE/tests/cts/lib.sh"
PLUGIN=$YOKE_BUILD/.libs/yoke_vulkan.so
LOST=$YOKE_BUILD/tests/unit/vulkan/.libs/lost.so
[ -e "$PLUGIN" ] || skip_all "the Vulkan plugin is not built"
[ "$SANITIZER" = none ] || skip_all "a sanitizer's library must be the first one that is loaded"
export VK_DRIVER_FILES="$LAVAPIPE" YOKE_PLUGIN_DIR="$YOKE_BUILD/.libs" LP_NUM_THREADS=0
export YOKE_VULKAN_PROBE=none # the helper would fail as the device does, and its verdict be kept
"$CTS" --plugin "$PLUGIN" --only abi/devices >"$WORK/out" 2>&1
grep -q 'the plugin has no devices' "$WORK/out" && skip_all "no Vulkan device here"
[ -e "$LOST" ] || skip_all "the library that makes devices fail is not built"

# fails NAME DEVICES HIDDEN SETTING WORDS..: with that variable set an MLP's training ends with code 1 and one error that has the words
fails()
{
    name=$1
    devices=$2
    hidden=$3
    setting=$4
    shift 4
    env LD_PRELOAD="$LOST" "$setting" timeout -k 5 200 "$YOKE_BUILD/yoke" bench step --devices "$devices" --iterations 10 --model mlp \
        --model-config "hidden=$hidden" --global-batch 16 >"$WORK/out" 2>"$WORK/err"
    code=$?
    grep -e 'error: ' -e 'launch: rank' "$WORK/err" >"$WORK/said"
    failed=0
    [ $code = 1 ] && [ "$(grep -c . "$WORK/said")" = 1 ] || failed=1
    for word in "$@"; do grep -q -e "$word" "$WORK/said" || failed=1; done
    [ $failed = 0 ] || { echo "# exit code $code"; sed 's/^/# /' "$WORK/err" | tail -20; }
    result $failed "$name"
}

nan="vulkan:0 (llvmpipe.*) computes wrongly: .*element 0 of dot, .* is nan, expected "
fails "products that are NaN" vulkan:0 48 YOKE_TEST_VULKAN_NAN=1 "$nan"
fails "products that are NaN beside a CPU" "cpu:0! vulkan:0!" 48 YOKE_TEST_VULKAN_NAN=1 "rank 1 (vulkan:0!): $nan"
# past the probe: what finds them in a gradient looks for the operation
export YOKE_PROBE=off
nan="the first value that is not finite is that of dot (f32\[[0-9]*, 784\] f32\[784, 48\] -> f32\[[0-9]*, 48\]) on vulkan:0 (llvmpipe"
# alone, or beside a CPU: rank and device are put before the same words as above
[ -z "${YOKE_TEST_LONG-}" ] ||
    fails "products that are NaN, without a probe" vulkan:0 48 YOKE_TEST_VULKAN_NAN=1 'the gradient of "fc1.weight" is not finite' "$nan"
fails "products that are NaN beside a CPU, without a probe" "cpu:0! vulkan:0!" 48 YOKE_TEST_VULKAN_NAN=1 "on rank 1 (vulkan:0!) $nan"
unset YOKE_PROBE
# memory in place: only programs are submitted
lost="llvmpipe.*: VK_ERROR_DEVICE_LOST in "
fails "a device that is lost in a step" vulkan:0 48 YOKE_TEST_VULKAN_LOST=12 "vulkan: .*$lost" " -> \["
[ -z "${YOKE_TEST_LONG-}" ] ||
    fails "a device that is lost beside a CPU" "cpu:0! vulkan:0!" 48 YOKE_TEST_VULKAN_LOST=12 "rank 1 (vulkan:0!): vulkan: .*$lost" " -> \["
fails "a device that is lost while it is waited for" vulkan:0 48 YOKE_TEST_VULKAN_LOST_WAIT=12 "vulkan: .*$lost" " -> \["
export YOKE_VULKAN_STAGING=1
fails "a device that is lost in a copy" vulkan:0 48 YOKE_TEST_VULKAN_LOST=1 "vulkan: .*${lost}a copy of [0-9]* bytes"
# enough for every buffer of this model, so that only the 4 MiB of copies, which are made beside them, are refused
fails "no memory for copies" vulkan:0 48 YOKE_TEST_VULKAN_MEMORY=1000000 "no memory for copies .*bytes)"
fails "memory that is full" vulkan:0 2048 YOKE_TEST_VULKAN_MEMORY=12000000 "a buffer of [0-9]* bytes: VK_ERROR_OUT_OF_DEVICE_MEMORY"
# 784 x 2048 weights and more, where an allocation has 4 MiB
large="parameter \"fc1.weight\" has 6422528 bytes; the device's largest buffer has 4194304"
[ -z "${YOKE_TEST_LONG-}" ] ||
    fails "a parameter larger than an allocation" vulkan:0 2048 YOKE_VULKAN_LIMITS=alloc=4194304 "llvmpipe.*: $large"
fails "a parameter larger than an allocation beside a CPU" "cpu:0! vulkan:0!" 2048 YOKE_VULKAN_LIMITS=alloc=4194304 \
    "rank 1 (vulkan:0!): llvmpipe.*: $large"

# sizes NAME OPTION...: of allocations, of a training that succeeds, in $WORK/sizes
sizes()
{
    env LD_PRELOAD="$LOST" YOKE_TEST_VULKAN_SIZES=1 "$@" "$YOKE_BUILD/yoke" bench step --devices vulkan:0 --iterations 2 --model mlp \
        --model-config hidden=1000 --global-batch 16 >"$WORK/out" 2>"$WORK/err" &&
        sed -n 's/^lost: an allocation of \([0-9]*\) bytes/\1/p' "$WORK/err" >"$WORK/sizes"
}

# odd: how many sizes in $WORK/sizes are not k 2^j of 8 <= k < 16, or whole pages
odd()
{
    awk '{ step = 4096; while ($1 / step >= 16) step *= 2; n += $1 % step != 0 } END { print (NR > 10) ? n + 0 : "too few" }' "$WORK/sizes"
}

sizes && [ "$(odd)" = 0 ]
result $? "allocations come in few sizes"
sizes YOKE_TEST_VULKAN_MEMORY=$(($(awk '{ s += $1 } END { print s }' "$WORK/sizes") - 1)) && [ "$(odd)" = 1 ]
result $? "but in what is needed where there is no more"
unset YOKE_VULKAN_STAGING

# free BYTES: what yoke info says of the device where other programs leave so much of its memory; asked anew each time
free()
{
    env LD_PRELOAD="$LOST" YOKE_TEST_VULKAN_BUDGET="$1" YOKE_CACHE_DIR="$WORK/cache" \
        "$YOKE_BUILD/yoke" info --json >"$WORK/out" 2>"$WORK/err"
    grep -q "\"name\": \"llvmpipe[^}]*\"mem_free\": $1," "$WORK/out"
    failed=$?
    [ $failed = 0 ] || sed 's/^/# /' "$WORK/out" "$WORK/err"
    result $failed "$1 bytes of its memory are free"
}

free 123456789
free 55555555

# cached NAME SAYS: a program in a process of its own says that of the pipelines that are kept, and one file of them is there at its end
cached()
{
    env LD_PRELOAD="$LOST" YOKE_TEST_VULKAN_CACHE=1000 YOKE_CACHE_DIR="$WORK/pipelines" YOKE_LOG=debug "$CTS" --plugin "$PLUGIN" \
        --only 'op/dot.f32*' --quick >"$WORK/out" 2>"$WORK/err" && [ "$(ls "$WORK/pipelines" | grep -c '^vulkan-.*[.]bin$')" = 1 ] &&
        grep -e ' a cache begins with' -e 'pipelines' -e damaged "$WORK/err" | head -n 1 | grep -q -e "$2"
    failed=$?
    [ $failed = 0 ] || sed 's/^/# /' "$WORK/out" "$WORK/err"
    result $failed "$1"
}

# spoil BYTE: of what is kept, behind the kit's header; that has the checksum of what it is then, as if the driver had written it so
spoil()
{
    python3 - "$1" "$WORK"/pipelines/vulkan-*.bin <<'P'
import struct, sys
at, name = int(sys.argv[1]), sys.argv[2]
magic, key, n, _ = struct.unpack("<4Q", open(name, "rb").read(32))
data = bytearray(open(name, "rb").read()[32:])
assert len(data) == n
data[at] ^= 1
h = 0xcbf29ce484222325
for byte in data:
    h = (h ^ byte) * 0x100000001b3 % 2**64
open(name, "wb").write(struct.pack("<4Q", magic, key, n, h) + data)
P
}

mkdir "$WORK/pipelines"
cached "the first process keeps its pipelines" "1032 bytes of pipelines are kept"
cached "the next one has them" "a cache begins with 1032 bytes"
truncate -s 700 "$WORK"/pipelines/vulkan-*.bin
cached "a file that is cut is none" "is damaged: built anew"
spoil 8
cached "nor is one of another vendor's device" "the kept pipelines are not of llvmpipe.*: compiled anew"
spoil 16
cached "nor is one of another driver" "the kept pipelines are not of llvmpipe.*: compiled anew"
cached "what was written anew is used" "a cache begins with 1032 bytes"
finish
