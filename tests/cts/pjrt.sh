#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The PJRT plugin on the CPU plugin that a wheel of PyPI holds: a selection of the suite; trainings alone and beside CPU and OpenCL ranks;
# vendors' plugins that train wrong, hang or abort. The wheel is fetched once into the test cache.
. "$YOKE_SOURCE/tests/cts/lib.sh"
PLUGIN=$YOKE_BUILD/.libs/yoke_pjrt.so
WHEEL=lammps_jax_pjrt_cpu-0.11.2-py3-none-manylinux_2_27_x86_64.whl
HASH=1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1
[ "$SANITIZER" != thread ] || skip_all "what runs the programs is not instrumented"
[ "$(uname -m)" = x86_64 ] || skip_all "the wheel is for x86_64"
export YOKE_PLUGIN_DIR="$YOKE_BUILD/.libs" YOKE_CACHE_DIR="$WORK"
# a vendor's library leaks at its end; the suite's own group looks for leaks of ours
export ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0"

# info NAME SAYS DEVICES: what `yoke info` says, and how many devices it lists, within 15 s
info()
{
    YOKE_LOG=info timeout 60 "$YOKE_BUILD/yoke" info >"$WORK/info" 2>&1
    code=$?
    found=$(grep -c '^ *pjrt:[0-9]' "$WORK/info")
    [ $code = 0 ] && grep -q "$2" "$WORK/info" && [ "$found" = "$3" ]
    failed=$?
    [ $failed = 0 ] || sed 's/^/# /' "$WORK/info"
    result $failed "$1"
}

YOKE_PJRT=/nonexistent.so info "a file that is not there is left out in one line" "/nonexistent.so is not used: .*can be loaded here" 0
VIRTUAL_ENV='' info "without a vendor's plugin there is no device, and it says why" "no vendor's plugin is there: YOKE_PJRT=FILE" 0

cache=${YOKE_TEST_CACHE:-$YOKE_BUILD/tests}/pjrt
VENDOR=$cache/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so
if [ ! -e "$cache/$HASH" ]; then
    if ! timeout 300 python3 -m pip download -q --no-deps --dest "$WORK" lammps-jax-pjrt-cpu==0.11.2 >"$WORK/pip" 2>&1; then
        sed 's/^/# /' "$WORK/pip"
        # where PyPI answers the wheel has to come
        if python3 -c 'import urllib.request; urllib.request.urlopen("https://pypi.org/simple/pip/", timeout=20)' 2>/dev/null; then
            result 1 "the wheel is fetched"
            finish
        fi
        result 0 "the rest # SKIP the wheel cannot be fetched: $(tail -n 1 "$WORK/pip")"
        finish
    fi
    mkdir -p "$cache" && echo "$HASH  $WORK/$WHEEL" | sha256sum -c --quiet &&
        python3 -m zipfile -e "$WORK/$WHEEL" "$cache" && : >"$cache/$HASH"
    result $? "the wheel is the one that is known"
fi
export YOKE_PJRT="$VENDOR"

# op, body: each primitive and each composite's body against float64
for group in ${YOKE_TEST_LONG:+all} abi,op,buffer,queue,rebind,random; do
    if [ "$group" = all ]; then
        run_cts "pjrt, all" "$PLUGIN" --timeout 300
    else
        run_cts "pjrt: $group" "$PLUGIN" --quick --group "$group" --count 4 --timeout 300
    fi
done

# bench DEVICES FILE OPTIONS: three steps from the same weights
bench()
{
    devices=$1
    file=$2
    shift 2
    "$YOKE_BUILD/yoke" bench step --devices "$devices" --iterations 3 --save-init "$WORK/init" --json "$@" >"$WORK/$file" 2>"$WORK/err"
}

# train NAME OPTIONS: the losses of some steps, alike on the CPU plugin, on PJRT, and on them with OpenCL in one job
train()
{
    name=$1
    shift
    for file in cpu pjrt all; do
        case $file in cpu) devices=cpu:0 ;; pjrt) devices=pjrt:0 ;; *) devices=$MIXED ;; esac
        bench "$devices" $file "$@" || { tail -3 "$WORK/err" | sed 's/^/# /'; result 1 "$name on $devices"; return; }
    done
    python3 -c '
import json, sys
a, *rest = (json.load(open(f))["losses"] for f in sys.argv[1:])
print("# losses", a, *rest)
assert len(a) >= 3
for b in rest:
    assert len(a) == len(b) and all(abs(x - y) <= 1e-4 * abs(x) for x, y in zip(a, b))' "$WORK/cpu" "$WORK/pjrt" "$WORK/all"
    result $? "$name trains as on the CPU, alone and beside others"
}

MIXED="cpu:0! pjrt:0!"
"$YOKE_BUILD/yoke" info --kinds 2>/dev/null | grep -q '^opencl$' && MIXED="cpu:0! opencl:0! pjrt:0!"
train "an MLP" --model mlp --model-config hidden=64+64 --global-batch 16
if [ "$SANITIZER" = none ]; then
    # batch norm's moments are summed up between programs
    train "a ResNet" --model resnet20 --global-batch 6
    # tied embeddings: two gradients lie in one place
    train "a GPT-2" --model gpt2 --global-batch 4 --model-config n_layer=1,n_head=2,n_embd=32,vocab_size=100,seq_len=16
fi

if [ -e "$cache/pjrt_c_api.h" ]; then # of the wheel xla-cpu-pjrt 0.0.1; a file that somebody has put there
    # shellcheck disable=SC2086
    ${CC:-gcc} -std=gnu11 -fsyntax-only -I"$cache" -I"$YOKE_SOURCE" "$YOKE_SOURCE/tests/cts/pjrt_layout.c"
    result $? "our prototypes are laid out as the vendor's header says"
else
    result 0 "our prototypes are laid out as the vendor's header says # SKIP no $cache/pjrt_c_api.h"
fi

# shellcheck disable=SC2086
${CC:-gcc} -std=gnu11 -O1 -fPIC -shared -I"$YOKE_SOURCE" -o "$WORK/shim.so" "$YOKE_SOURCE/tests/cts/pjrt_shim.c" -ldl
result $? "a shim around it is built"
export PJRT_SHIM_REAL="$VENDOR" YOKE_PJRT="$WORK/shim.so:shim"
PJRT_SHIM=none info "a shim that changes nothing is a device, by the name it was given" "pjrt:0 *shim (cpu)" 1
touch "$WORK/shim.so"
PJRT_SHIM=spoil info "one that spoils a donated result from the third step on is left out" "shim.so.*is not used: .*wrong numbers" 0
touch "$WORK/shim.so"
PJRT_SHIM=exit info "one that aborts at its end is left out" "shim.so.*is not used: its driver died of signal 6" 0
touch "$WORK/shim.so"
YOKE_PJRT_PROBE_MS=3000 PJRT_SHIM=hang info "one that hangs in a compile is left out" "shim.so.*is not used: .*no answer within 3000 ms" 0
YOKE_PJRT="$WORK/shim.so, $VENDOR" PJRT_SHIM=spoil info "and the others of the list stay" "shim.so is not used" 1
finish
