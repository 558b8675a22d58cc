#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The OpenCL plugin passes the suite on its first device.
. "$YOKE_SOURCE/tests/cts/lib.sh"
PLUGIN=$YOKE_BUILD/.libs/yoke_opencl.so
[ -e "$PLUGIN" ] || skip_all "the OpenCL plugin is not built"
"$CTS" --plugin "$PLUGIN" --only abi/devices >"$WORK/out" 2>&1
grep -q 'the plugin has no devices' "$WORK/out" && skip_all "no OpenCL device here"
# under sanitizers without the group body: it compares numbers of kernels, which the other groups make and run in the same way
[ "$SANITIZER" = none ] || ALL="--group abi,buffer,queue,extension,op,composite,random,gradients,guard,rebind,leak,offsets,processes,errors"
# shellcheck disable=SC2086
run_cts "opencl" "$PLUGIN" --timeout 300 $QUICK $FEW ${ALL-}
# PoCL's first run of a program ends within queue_run, so the next one is aborted: 8 s of each core
[ -n "${YOKE_TEST_LONG-}" ] || { echo 'queue/abort_endless' >"$WORK/endless" && LEFT="--unsupported $WORK/endless"; }
# shellcheck disable=SC2086
validated "opencl under the validating layer" "$PLUGIN" --group buffer,queue,rebind --timeout 300 ${LEFT-}
# LLVM's optimizations, as users have kernels, take half of the time of this test: the sums have them, tests/golden/opencl.sh, and --long.
unset POCL_EXTRA_BUILD_FLAGS
[ "$SANITIZER" != none ] || run_cts "long sums" "$PLUGIN" --group long --timeout 300 $QUICK
finish
