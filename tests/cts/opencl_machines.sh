#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The OpenCL plugin on other machines than this one, which a fake driver before PoCL makes (tests/unit/opencl/fake_icd.c):
# local memory of 32 KiB to 1 MiB, which family of kernels a device gets and why, options that mean nothing.
. "$YOKE_SOURCE/tests/golden/lib.sh"
if ! [ -r /etc/OpenCL/vendors/pocl.icd ] || ! [ -e "$YOKE_BUILD/.libs/yoke_opencl.so" ]; then
    echo "1..0 # SKIP needs the OpenCL plugin and PoCL"
    exit 0
fi
echo "$YOKE_BUILD/tests/unit/opencl/.libs/fake_icd.so" >"$out/fake.icd"
# exit codes are looked at, and LeakSanitizer gives up where a driver's thread ends beside it; opencl.sh looks for leaks
export ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0"
export OCL_ICD_VENDORS="$out/fake.icd" YOKE_PLUGIN_DIR="$YOKE_BUILD/.libs"

local_ops() { # local_ops KIB: convolutions and attention in the CPU shape, with blocks that fit
    OCL_FAKE_LOCAL_KB=$1 YOKE_TEST_LOCAL=1 YOKE_TEST_FAMILY=cpu "$YOKE_BUILD/tests/unit/opencl/nn.test" >"$out/tap" 2>&1
    cat "$out/tap"
    [ "$(grep -c '^ok' "$out/tap")" = 2 ] && ! grep -q '^not ok' "$out/tap"
}

shape_is() { # shape_is TEXT SETTINGS...: what yoke info says of the device
    text=$1
    shift
    env YOKE_CACHE_DIR="$out/cache" "$@" "$yoke" info >"$out/info" 2>&1
    cat "$out/info"
    grep -q "opencl:0 .*$text" "$out/info"
}

refused() { # refused TEXT SETTINGS...: exit code 2, with these words
    text=$1
    shift
    env "$@" "$yoke" info --kinds
    code=$?
    env "$@" "$yoke" info --kinds 2>&1 | grep "$text" && [ $code = 2 ]
}

verdicts() { # how many answers about devices are kept
    find "$out/kept" -name 'ocl-devices-*' 2>/dev/null | wc -l
}

rebuilt() { # another build of the plugin does not go by the first one's verdict
    for build in first second; do
        mkdir "$out/$build" && cp "$YOKE_PLUGIN_DIR/yoke_opencl.so" "$out/$build" || return 1
    done
    echo >>"$out/second/yoke_opencl.so"
    for build in first first second; do
        YOKE_CACHE_DIR="$out/kept" YOKE_OPENCL_PROBE=none YOKE_PLUGIN_DIR="$out/$build" "$yoke" info >/dev/null || return 1
        echo "$build: $(verdicts) kept"
        [ $build != first ] || [ "$(verdicts)" = 1 ] || return 1
    done
    [ "$(verdicts)" = 2 ]
}

compile_line() { # compile_line N MS: in how many lines a compile that takes so much longer is spoken of
    OCL_FAKE_BUILD_MS=$2 YOKE_OPENCL_FAMILY=gpu YOKE_LOG=info "$yoke" bench step --devices opencl:0 --iterations 1 --global-batch 8 \
        --model-config hidden=16 >"$out/bench" 2>&1 || { cat "$out/bench"; return 1; }
    grep 'compiling kernels for .*once per driver' "$out/bench" >"$out/lines"
    cat "$out/bench"
    [ "$(wc -l <"$out/lines")" = "$1" ]
}

cache_refused() { # a folder into which another group may put kernels
    mkdir -m 770 "$out/shared" && chgrp 65534 "$out/shared" && YOKE_CACHE_DIR="$out/shared" "$yoke" info --kinds >/dev/null 2>"$out/err"
    cat "$out/err"
    grep -q "cache folder $out/shared is not used" "$out/err" && [ -z "$(ls "$out/shared")" ]
}

measured="(measured: [0-9.]* against [0-9.]* GFLOP/s)"
sizes="32 48 64 256 512 1024"
instrumented && sizes="32 256" # kernels are not instrumented; what chooses them is
for kb in $sizes; do
    ok "convolutions and attention in $kb KiB" local_ops $kb
done
ok "a processor with 256 KiB gets the CPU's kernels" shape_is "cpu kernels $measured" OCL_FAKE_LOCAL_KB=256
ok "and where those are slow the GPU's" shape_is "gpu kernels $measured" OCL_FAKE_LOCAL_KB=256 OCL_FAKE_SLOW=500 OCL_FAKE_SLOW_GROUP=1
ok "another build judges anew" rebuilt
ok "16 KiB are too few for a choice" shape_is "gpu kernels (16 KiB of local memory)" OCL_FAKE_LOCAL_KB=16
ok "the option rules, one way" shape_is "cpu kernels (YOKE_OPENCL_FAMILY)" OCL_FAKE_LOCAL_KB=32 YOKE_OPENCL_FAMILY=cpu
ok "and the other" shape_is "gpu kernels (YOKE_OPENCL_FAMILY)" YOKE_OPENCL_FAMILY=gpu
ok "what it cannot ask" refused "YOKE_OPENCL_FAMILY=cpu: .* has 16 KiB of local memory, and they need 32 KiB" OCL_FAKE_LOCAL_KB=16 \
    YOKE_OPENCL_FAMILY=cpu
ok "an unknown family" refused "YOKE_OPENCL_FAMILY=fast: expected auto, cpu or gpu" YOKE_OPENCL_FAMILY=fast
ok "a time limit that is none" refused "YOKE_OPENCL_PROBE_MS=-1: expected milliseconds, 1 to" YOKE_OPENCL_PROBE_MS=-1
ok "a helper that is none" refused "YOKE_OPENCL_PROBE=/none/such: expected none, or a program" YOKE_OPENCL_PROBE=/none/such
untried() { # a helper that is executable and no program
    printf 'no program' >"$out/helper" && chmod +x "$out/helper"
    YOKE_PLUGINS=cpu,opencl YOKE_OPENCL_PROBE="$out/helper" YOKE_CACHE_DIR="$out/untried" "$yoke" info --kinds >"$out/kinds" 2>"$out/err"
    cat "$out/kinds" "$out/err"
    grep -q opencl "$out/kinds" && grep -q 'is used untried: .* cannot be started: ' "$out/err" && ! ls "$out/untried" | grep tried
}
ok "a helper that cannot be started: a driver is used untried" untried
ok "a list of cores that is none" refused "YOKE_OPENCL_CORES=x: expected a list of cores such as" YOKE_OPENCL_CORES=x
ok "an unknown option" refused "YOKE_OPENCL_FAMLY=cpu: there is no such option; there are .*YOKE_OPENCL_FAMILY" YOKE_OPENCL_FAMLY=cpu
ok "one of more than 2 s is, once" compile_line 1 1500
if [ "$(id -u)" = 0 ]; then
    ok "a cache folder others can write is not used" cache_refused
else
    skip "a cache folder others can write is not used" "needs root, to give it to another group"
fi
plan
