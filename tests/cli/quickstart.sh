#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ./quickstart from the end of the build on, in a copy of the tree with what is built here: it trains, says what is a demonstration
# and which set is the fastest, and fails where the training does.
. "$YOKE_SOURCE/tests/cli/lib.sh"
instrumented && { echo "1..0 # SKIP instrumented: the plain build's, as it tests a script"; exit 0; }
need_data fashion-mnist
. "$YOKE_SOURCE/scripts/packages.sh"
# shellcheck disable=SC2086
missing=$(missing_packages $PACKAGES_BUILD $PACKAGES_OPENCL)
[ -z "$missing" ] || {
    echo "1..0 # SKIP it would install $missing"
    exit 0
}
tree=$out/tree
mkdir -p "$tree/build" "$tree/scripts"
cp "$YOKE_SOURCE/quickstart" "$tree/"
cp "$YOKE_SOURCE/scripts/packages.sh" "$tree/scripts/"
printf '#!/bin/sh\n' >"$tree/configure"
printf 'programs:\n\t@echo "  CC       x.o"; echo "a warning" >&2; test ! -e broken\n' >"$tree/build/Makefile"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$yoke" >"$tree/build/yoke"
chmod +x "$tree/configure" "$tree/build/yoke"
ln -s "$YOKE_BUILD/.libs" "$tree/build/.libs"
small_images "$out/images"

start() { # start OPTION...: what it says is in $out/said
    YOKE_QUICKSTART_DATA=${images-$out/images} YOKE_QUICKSTART_OUT=$out/model "$tree/quickstart" "$@" >"$out/said" 2>&1
    code=$?
    cat "$out/said"
    return $code
}

says() { # says PATTERN
    grep -q "$1" "$out/said" || { echo "nothing like '$1' in what it said"; return 1; }
}

ends_with_installing() {
    tail -n 1 "$out/said" | grep -q 'make -C build install'
}

cpu_alone() {
    start --cpu && says 'training ran at' && [ -s "$out/model/model.safetensors" ] && ! says demonstration && ends_with_installing
}

build_quiet() { # but for what a compiler has to say
    start --cpu && says 'a warning' && ! says ' CC '
}

build_broken() {
    : >"$tree/build/broken"
    ! start --cpu && says 'a warning' && ! says 'training ran at'
    code=$?
    rm "$tree/build/broken"
    return $code
}

both() {
    start && says 'bit-identical on all ranks' || return 1
    ends_with_installing || return 1
    [ "$("$yoke" info --gpus)" != 0 ] || { says demonstration && fastest_named; }
}

# The rates and the verdict are of the same line: the largest rate is the one that is named.
fastest_named() {
    python3 -c '
import re, sys
said = open(sys.argv[1]).read()
of = r"CPU plugin alone (\d+) samples/s, the OpenCL plugin alone (\d+), both (\d+); the fastest here: (cpu alone|opencl alone|both)$"
cpu, opencl, both, name = re.search(of, said, re.M).groups()
rates = {"cpu alone": int(cpu), "opencl alone": int(opencl), "both": int(both)}
assert min(rates.values()) > 0 and rates[name] == max(rates.values()), (rates, name)' "$out/said"
}

fails_with_the_training() {
    mkdir -p "$out/nothing"
    ! images="$out/nothing" start --cpu && says nothing
}

ok "--cpu trains on the CPU alone" cpu_alone
if "$yoke" info --kinds 2>/dev/null | grep -q '^opencl$'; then
    ok "two kinds of devices train, and the fastest set is named" both
else
    skip "two kinds of devices train, and the fastest set is named" "no OpenCL device here"
fi
ok "a build is quiet but for warnings" build_quiet
ok "a build that fails fails it" build_broken
ok "a training that fails fails it" fails_with_the_training
plan
