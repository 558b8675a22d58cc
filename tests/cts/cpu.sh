#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The CPU plugin passes the suite.
. "$YOKE_SOURCE/tests/cts/lib.sh"
PLUGIN=$YOKE_BUILD/.libs/yoke_cpu.so
[ -e "$PLUGIN" ] || skip_all "the CPU plugin is not built"
run_cts "cpu" "$PLUGIN"
YOKE_LAYERS=validate run_cts "cpu under the validating layer" "$PLUGIN" --group buffer,queue,guard,rebind,gradients
finish
