#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A distribution on a machine that has what configure requires and no more: nothing optional, whose headers cannot be included. All of it
# builds and installs by the README's commands, says what it lacks, and trains on two ranks.
. "$YOKE_SOURCE/tests/cli/lib.sh"
if instrumented; then
    echo "1..0 # SKIP instrumented: the build that is made here is not"
    exit 0
fi
need_data fashion-mnist
unset MAKEFLAGS MFLAGS MAKELEVEL

hidden() { # hidden HEADER...: whoever includes one fails
    for header in "$@"; do
        mkdir -p "$out/hidden/$(dirname "$header")" && echo "#error $header is not here" >"$out/hidden/$header" || return 1
    done
}

configured() {
    make -s -C "$YOKE_BUILD" distdir distdir="$out/yoke" && chmod -R u+w "$out/yoke" && mkdir "$out/yoke/build" &&
        hidden check.h hwloc.h sodium.h yaml.h CL/cl.h vulkan/vulkan.h rdma/fabric.h && cd "$out/yoke/build" &&
        CONFIG_SHELL="$(command -v dash || echo /bin/sh)" ../configure --prefix="$out/usr" --without-hwloc --without-opencl \
            --without-sodium --without-yaml --without-ofi --without-vulkan --without-check \
            CPPFLAGS="-I$out/hidden" CFLAGS=-O0 >configure.out 2>&1 || { tail -n 5 configure.out; return 1; }
    for part in hwloc opencl sodium ofi vulkan yaml check; do
        grep "^ *$part: switched off by --without-$part" configure.out || return 1
    done
}

installed() {
    make -C "$out/yoke/build" -j2 install >"$out/make.out" 2>&1 || { tail -n 15 "$out/make.out"; return 1; }
    [ -x "$out/usr/bin/yoke" ] && [ -x "$out/usr/bin/yoke-cts" ] && [ ! -e "$out/usr/lib/yoke/transport_sock.so" ]
}

without_plugin_dir() { # where it was installed is where it looks
    env -u YOKE_PLUGIN_DIR "$out/usr/bin/yoke" "$@"
}

says_what_it_lacks() {
    without_plugin_dir info >"$out/info" && grep -q "hwloc .*not built in" "$out/info" &&
        grep "none that reaches another host is installed" "$out/info" || { cat "$out/info"; return 1; }
}

trains() {
    small_images "$out/images" && yoke=without_plugin_dir mlp "$out/model" --devices "cpu:0! cpu:0!" >"$out/train" 2>&1 &&
        grep "bit-identical on all ranks" "$out/train" || { cat "$out/train"; return 1; }
}

ok "a distribution is configured with nothing optional" configured
ok "it builds and installs" installed
ok "it says what it lacks" says_what_it_lacks
ok "it trains on two ranks" trains
plan
