#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A card that OpenCL and Vulkan both show is one device, which the faster of them has. The card is PoCL behind a driver that says it is one
# (tests/unit/opencl/fake_icd.c) and lavapipe behind a library that does (tests/unit/vulkan/lost.c), with the same number.
. "$YOKE_SOURCE/tests/golden/lib.sh"
unset POCL_EXTRA_BUILD_FLAGS # the speeds of kernels decide here
LOST=$YOKE_BUILD/tests/unit/vulkan/.libs/lost.so
if instrumented; then echo "1..0 # SKIP a sanitizer's library must be the first one that is loaded"; exit 0; fi
for file in /etc/OpenCL/vendors/pocl.icd "$LAVAPIPE" "$LOST" "$YOKE_BUILD/.libs/yoke_opencl.so" "$YOKE_BUILD/.libs/yoke_vulkan.so"; do
    [ -e "$file" ] || { echo "1..0 # SKIP no $file"; exit 0; }
done
echo "$YOKE_BUILD/tests/unit/opencl/.libs/fake_icd.so" >"$out/fake.icd"
export OCL_ICD_VENDORS="$out/fake.icd" VK_DRIVER_FILES="$LAVAPIPE" YOKE_PLUGIN_DIR="$YOKE_BUILD/.libs" LP_NUM_THREADS=0
export YOKE_VULKAN_PROBE=none YOKE_OPENCL_PROBE=none YOKE_OPENCL_FAMILY=gpu YOKE_LOG=info YOKE_PLUGINS=opencl,vulkan YOKE_PROBE=off

taken() { # taken TEXT SETTINGS...: what is said when devices are selected; ranks say that they were started, and no more
    text=$1
    shift
    env LD_PRELOAD="$LOST" "$@" timeout 60 "$yoke" launch --devices auto echo started >"$out/said" 2>&1
    cat "$out/said"
    [ "$(grep -c started "$out/said")" = "${ranks-1}" ] && grep -q -e "$text" "$out/said"
}

apart() { # apart SETTINGS...: two devices, and nothing is measured
    ranks=2 taken started "$@" && ! grep -q "are one device" "$out/said"
}

one="opencl:0 and vulkan:0 are one device: a product takes [0-9.e+-]* and [0-9.e+-]* ms (0: it could not be run);"
ok "one device by its own number, which the faster has" taken "$one opencl has it" OCL_FAKE_UUID=7 VK_FAKE_UUID=7
ok "and Vulkan where OpenCL is slower" taken "$one vulkan has it" OCL_FAKE_UUID=7 VK_FAKE_UUID=7 OCL_FAKE_SLOW=150
ok "by its place on the bus" taken "$one" OCL_FAKE_BUS=7 VK_FAKE_BUS=7
ok "as AMD tells it" taken "$one" OCL_FAKE_BUS_AMD=7 VK_FAKE_BUS=7
ok "as NVIDIA tells it" taken "$one" OCL_FAKE_BUS_NV=7 VK_FAKE_BUS=7
ok "two places are two devices" apart OCL_FAKE_BUS=7 VK_FAKE_BUS=8
plan
