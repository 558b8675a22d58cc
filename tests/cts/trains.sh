#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# yoke test: a device whose faults leave the line that it trains untouched is found by the gradients of a small network, by tensor.
. "$YOKE_SOURCE/tests/cts/lib.sh"
mkdir "$WORK/plugins"
cp "$YOKE_BUILD/.libs/yoke_cpu.so" "$WORK/plugins/"
export YOKE_PLUGIN_DIR="$WORK/plugins" YOKE_PROBE=off

# trains FLAGS DEVICES: yoke test on the template, compiled so
trains()
{
    # shellcheck disable=SC2086
    compile "$WORK/plugins/yoke_template.so" "$YOKE_SOURCE/tests/cts/broken.c" -pthread $1 -lm &&
        "$YOKE_BUILD/yoke" test --devices "$2" >"$WORK/out" 2>&1
}

# said CODE NAME PATTERN...: the exit code, and lines of the output
said()
{
    name=$2
    [ "$code" = "$1" ]
    good=$?
    shift 2
    for pattern; do
        grep -q "$pattern" "$WORK/out" || { echo "# not said: $pattern"; good=1; }
    done
    [ $good -eq 0 ] || sed 's/^/# /' "$WORK/out"
    result $good "$name"
}

trains "" template:0
code=$?
said 0 "without a fault, alone" '^ok .*in fp32: template:0 beside the CPU plugin (.* is off by [0-9.]*e-0[6-9])' \
    '^ok .*in bf16: template:0' '^18 passed'
trains "" cpu:0,template:0
code=$?
said 0 "without a fault, beside a rank of the CPU plugin" '^ok .*in fp32: template:0 beside cpu:0' '^18 passed'
# under a sanitizer each way once: alone, beside a rank, with a fault, and without the CPU plugin
if [ "$SANITIZER" = none ]; then
    trains "" template:0,cpu:0
    code=$?
    said 0 "that rank need not be the first" '^ok .*in fp32: template:0 beside cpu:0' '^18 passed'
fi
trains -DBREAK_SCATTER template:0
code=$?
said 1 "sums of rows that overwrite: the table of the look-ups" '^FAILED .*in fp32: template:0 beside .*(table is off' \
    '^16 passed, 2 failed'
if [ "$SANITIZER" = none ]; then
    trains -DBREAK_ADD_TRANSPOSED cpu:0,template:0
    code=$?
    said 1 "a transposed product that is added wrong" '^FAILED .*in fp32: template:0 beside cpu:0 (.* is off' '^FAILED .*in bf16' \
        '^16 passed, 2 failed'
    trains -DBREAK_RESULT template:0
    code=$?
    said 1 "one element that is a thousandth off" '^FAILED .*in fp32: template:0 beside .*(.* is off by [0-9.]*e-0[345])' \
        '^17 passed, 1 failed'
    "$YOKE_BUILD/yoke" test --devices cpu:0 >"$WORK/out" 2>&1
    code=$?
    said 0 "the CPU plugin alone has nothing to stand beside" '^16 passed'
fi
rm "$WORK/plugins/yoke_cpu.so"
trains "" template:0
code=$?
said 0 "in a folder without the CPU plugin" '^unsupported .*there is no CPU plugin to compare template:0 with' \
    '^16 passed, 0 failed, 2 unsupported'
finish
