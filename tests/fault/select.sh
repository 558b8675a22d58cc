#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The launcher dies while a driver that hangs is being tried: neither the process that selects devices nor the probe stays.
yoke=$YOKE_BUILD/yoke
driver=$YOKE_BUILD/tests/unit/opencl/.libs/hang_icd.so
tmp=$(mktemp -d) || exit 1
mark=yoke-select-$$
trap 'for p in $(marked); do kill -9 $p; done; rm -rf "$tmp"' EXIT
echo "1..2"
skip() { echo "ok 1 # SKIP $1"; echo "ok 2 # SKIP $1"; exit 0; }
marked() { # the processes that the launcher started, itself included
    for p in /proc/[0-9]*; do
        tr '\0' '\n' 2>/dev/null <"$p/environ" | grep -qx "YOKE_TEST_MARK=$mark" || continue
        read -r _ _ state _ 2>/dev/null <"$p/stat" && [ "$state" != Z ] && echo "${p#/proc/}"
    done
}
check() { # NAME: the last command's status decides
    if [ $? -eq 0 ]; then echo "ok $1"; else echo "not ok $1"; marked | xargs -r ps -o pid,args -p | sed 's/^/# /'; fi
}
[ -x "$yoke" ] || skip "yoke is not built"
[ -e "$driver" ] && [ -x "$YOKE_BUILD/yoke-probe-opencl" ] || skip "no OpenCL plugin"
mkdir "$tmp/vendors"
echo "$driver" >"$tmp/vendors/hang.icd"

YOKE_TEST_MARK=$mark OCL_ICD_VENDORS=$tmp/vendors YOKE_CACHE_DIR=$tmp/cache "$yoke" launch --devices opencl:0 true \
    >"$tmp/out" 2>&1 &
launcher=$!
i=0
while ! marked | xargs -r ps -o args= -p | grep -q yoke-probe-opencl && [ $i -lt 200 ]; do
    i=$((i + 1))
    sleep 0.05
done
[ "$(marked | wc -l)" -ge 3 ]
check "1 - a driver hangs while it is tried"
kill -9 $launcher
wait $launcher 2>/dev/null
i=0
while [ -n "$(marked)" ] && [ $i -lt 20 ]; do
    i=$((i + 1))
    sleep 0.1
done
[ -z "$(marked)" ]
check "2 - nothing stays behind a killed launcher"
