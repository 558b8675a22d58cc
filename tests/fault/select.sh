#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The launcher dies while a driver that hangs is being tried: neither the process that selects devices nor the probe stays.
yoke=$YOKE_BUILD/yoke
tmp=$(mktemp -d) || exit 1
mark=yoke-select-$$
trap 'for p in $(marked); do kill -9 $p; done; rm -rf "$tmp"' EXIT
echo "1..4"
n=0
marked() { # the processes that the launcher started, itself included
    for p in /proc/[0-9]*; do
        tr '\0' '\n' 2>/dev/null <"$p/environ" | grep -qx "YOKE_TEST_MARK=$mark" || continue
        read -r _ _ state _ 2>/dev/null <"$p/stat" && [ "$state" != Z ] && echo "${p#/proc/}"
    done
}
check() { # NAME: the last command's status decides
    if [ $? -eq 0 ]; then result="ok"; else result="not ok"; fi
    n=$((n + 1))
    echo "$result $n - $1"
    [ "$result" = ok ] || marked | xargs -r ps -o pid,args -p | sed 's/^/# /'
}
hangs() { # hangs KIND SETTING: with which a driver of this kind hangs
    if ! [ -e "$YOKE_BUILD/tests/unit/$1/.libs/hang_icd.so" ] || ! [ -x "$YOKE_BUILD/yoke-probe-$1" ]; then
        for i in 1 2; do n=$((n + 1)); echo "ok $n # SKIP no $1 plugin"; done
        return
    fi
    env YOKE_TEST_MARK=$mark "$2" YOKE_CACHE_DIR="$tmp/cache" "$yoke" launch --devices "$1:0" true >"$tmp/out" 2>&1 &
    launcher=$!
    i=0
    while ! marked | xargs -r ps -o args= -p | grep -q "yoke-probe-$1" && kill -0 $launcher && [ $i -lt 1200 ]; do
        i=$((i + 1))
        sleep 0.05
    done
    [ "$(marked | wc -l)" -ge 3 ]
    check "a driver of $1 hangs while it is tried"
    kill -9 $launcher
    wait $launcher 2>/dev/null
    i=0
    while [ -n "$(marked)" ] && [ $i -lt 100 ]; do
        i=$((i + 1))
        sleep 0.1
    done
    [ -z "$(marked)" ]
    check "nothing stays behind a killed launcher"
}
mkdir "$tmp/vendors"
echo "$YOKE_BUILD/tests/unit/opencl/.libs/hang_icd.so" >"$tmp/vendors/hang.icd"
printf '{"file_format_version": "1.0.0", "ICD": {"library_path": "%s/tests/unit/vulkan/.libs/hang_icd.so", "api_version": "1.2.0"}}\n' \
    "$YOKE_BUILD" >"$tmp/hang.json"
hangs opencl "OCL_ICD_VENDORS=$tmp/vendors"
hangs vulkan "VK_DRIVER_FILES=$tmp/hang.json"
