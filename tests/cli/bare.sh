#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A distribution on a machine that has what configure requires and no more: nothing optional, whose headers cannot be included. It has each
# file of the repository, builds and installs by the README's commands, says what it lacks, and trains on two ranks. Objects whose sources
# and headers know nothing of what is hidden are those of the build that is there; YOKE_TEST_LONG=1 compiles them, too.
. "$YOKE_SOURCE/tests/cli/lib.sh"
if instrumented; then
    echo "1..0 # SKIP instrumented: the build that is made here is not"
    exit 0
fi
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

# The archive has each file of the repository, and each header and file that sources and pages name; make knows how to make all.
whole() {
    includes "$out/yoke" && packed "$out/yoke" && (cd "$out/yoke" && python3 scripts/pages) &&
        make -C "$out/yoke/build" -n all test-libraries >"$out/make.all"
}

packed() { # packed FOLDER: it has each file of the repository without a dot in front; without a repository only pages tell
    git -C "$YOKE_SOURCE" ls-files 2>/dev/null | grep -v '^\.' >"$out/tracked"
    while read -r file; do
        [ -e "$1/$file" ] && { [ ! -x "$YOKE_SOURCE/$file" ] || [ -x "$1/$file" ]; } || echo "the archive lacks $file"
    done <"$out/tracked" | grep . && return 1
    return 0
}

includes() { # includes FOLDER: but for what is made in a build
    python3 - "$1" <<'P'
import os, re, sys
top, gone = sys.argv[1], set()
for folder, _, files in os.walk(top):
    for file in [f for f in files if f.endswith((".c", ".h", ".inc"))]:
        for name in re.findall(r'^ *# *include "([^"]+)"', open(os.path.join(folder, file)).read(), re.M):
            made = name == "config.h" or name.endswith((".kch", "fatbins.inc"))
            places = top, top + "/include", folder, top + "/plugins/template"
            if not made and not any(os.path.exists(os.path.join(place, name)) for place in places):
                gone.add(name)
print(*sorted(gone))
sys.exit(1 if gone else 0)
P
}

reused() { # compiles to the same: no macro that differs is in its source or its headers, and none of them is hidden
    # shellcheck disable=SC2046
    make -s -C "$out/yoke/build" $(cd "$YOKE_BUILD" && find backends plugins -name '*.kch') >"$out/make.out" 2>&1 &&
        python3 - "$YOKE_BUILD" "$out/yoke/build" "$out/hidden" <<'P'
import functools, os, re, shutil, sys
there, here, hidden = map(os.path.abspath, sys.argv[1:])
macros = lambda build: set(re.findall(r"^#define (\w+) ?(.*)$", open(build + "/config.h").read(), re.M))
differ = {name for name, _ in macros(there) ^ macros(here)} | {"YK_PLUGIN_DIR", "YK_BIN_DIR"}
assert {"HAVE_HWLOC", "HAVE_SODIUM", "HAVE_YAML", "HAVE_OFI"} <= differ, differ
word = re.compile(r"\b(%s)\b" % "|".join(differ))
banned = tuple("/" + os.path.relpath(os.path.join(folder, file), hidden) for folder, _, files in os.walk(hidden) for file in files)
@functools.cache
def unlike(path):
    if path.endswith(banned):
        return True
    return path != there + "/config.h" and not path.startswith("/usr/") and word.search(open(path).read()) is not None
kept, made = [], 0
for folder, _, files in os.walk(there):
    for file in files if os.path.basename(folder) == ".deps" and not folder.startswith(there + "/tests") else ():
        target, _, needs = open(os.path.join(folder, file)).read().replace("\\\n", " ").split("\n")[0].partition(": ")
        if any(unlike(os.path.normpath(os.path.join(there, path))) for path in needs.split()):
            made += 1
        elif needs:
            kept.append(target)
            if target.endswith(".lo"):
                kept.append(f"{os.path.dirname(target)}/.libs/{os.path.basename(target)[:-2]}o")
for path in kept:  # make takes an object to be new if the stamps of its folders are older
    folder = os.path.dirname(f"{here}/{path}")
    for stamped in [] if path.endswith(".o") and os.path.basename(folder) == ".libs" else [folder, folder + "/.deps"]:
        os.makedirs(stamped, exist_ok=True)
        open(stamped + "/.dirstamp", "a").close()
    os.makedirs(folder, exist_ok=True)
for path in kept:
    shutil.copyfile(f"{there}/{path}", f"{here}/{path}")
print(len(kept), "files of objects are kept, objects to make:", made)
assert len(kept) > 500 and made > 10
P
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
ok "it is whole" whole
[ -n "${YOKE_TEST_LONG-}" ] || ok "objects that are the same without what is hidden" reused
ok "it builds and installs" installed
ok "it says what it lacks" says_what_it_lacks
if [ -e "$data/fashion-mnist" ]; then ok "it trains on two ranks" trains; else skip "it trains on two ranks" "no fashion-mnist"; fi
plan
