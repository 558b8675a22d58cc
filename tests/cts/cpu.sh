#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The CPU plugin passes the suite.
. "$YOKE_SOURCE/tests/cts/lib.sh"
PLUGIN=$YOKE_BUILD/.libs/yoke_cpu.so
[ -e "$PLUGIN" ] || skip_all "the CPU plugin is not built"
# shellcheck disable=SC2086
run_cts "cpu" "$PLUGIN" $LESS ${YOKE_TEST_LONG:+--long}
# sums of any length, by each instruction set that the machine has and the run above did not take: the same source in other vectors
[ "$SANITIZER" != none ] || for isa in portable avx2; do
    # shellcheck disable=SC2086
    YOKE_CPU_ISA=$isa run_cts "long sums by $isa" "$PLUGIN" --group long --only "long/*f32*" $QUICK
    # each form of a sum, of which --quick has two
    [ -n "${YOKE_TEST_LONG-}" ] || YOKE_CPU_ISA=$isa run_cts "each long sum by $isa" "$PLUGIN" --group long --only "long/sum.f32*"
done
YOKE_LAYERS=validate run_cts "cpu under the validating layer" "$PLUGIN" --group buffer,queue,guard,rebind,gradients
finish
