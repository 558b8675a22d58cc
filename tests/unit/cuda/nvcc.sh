#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Units of the kit compile by NVIDIA's nvcc for each chip, where it is here (NVCC, or of PATH and /usr/local/cuda/bin), as a build
# --with-nvcc has them in the plugin: one of them, for three chips; all, which takes minutes, with YOKE_TEST_LONG=1. Chips that an nvcc does
# not know are left out by configure.
grep -q '^#define YK_SANITIZER "none"' "$YOKE_BUILD/config.h" ||
    { echo "1..0 # SKIP instrumented: the plain build's, as it runs no code of this one"; exit 0; }
units=$YOKE_BUILD/backends/cuda/fatbin-units
out=$(mktemp -d "${TMPDIR:-/tmp}/yoke-test.XXXXXX")
trap 'rm -rf "$out"' EXIT
nvcc=${NVCC:-$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc)}
only=step chips="75 90 120"
[ -z "${YOKE_TEST_LONG-}" ] || only='' chips="75 80 86 89 90 100 103 120"

# Every image has code for all chips (kind 2), and the last one's PTX (kind 1): the head of a fatbin and those of its entries.
images_whole() {
    python3 - "$out" "$chips" <<'P'
import glob, struct, sys
want = [(2, int(chip)) for chip in sys.argv[2].split()]
want.append((1, want[-1][1]))
images = glob.glob(sys.argv[1] + "/fatbins/*.fatbin")
for path in images:
    data = open(path, "rb").read()
    magic, version, head, size = struct.unpack_from("<IHHQ", data)
    assert magic == 0xBA55ED50 and head + size == len(data), path
    have, at = [], head
    while at < head + size:
        kind, _, entry, payload = struct.unpack_from("<HHIQ", data, at)
        have.append((kind, struct.unpack_from("<I", data, at + 28)[0]))
        at += entry + payload
    assert sorted(have) == sorted(want), (path, have)
print(len(images), "images")
assert images
P
}

compiles() {
    "$YOKE_SOURCE/backends/cuda/fatbins.sh" "$nvcc" "$chips" "$out/fatbins" "$units" "$out/fatbins.inc" $only && images_whole &&
        [ "$(grep -c '^    {0x' "$out/fatbins.inc")" = "$(find "$out/fatbins" -name '*.fatbin' | wc -l)" ]
}

names() { # no unit twice, and text for each
    mkdir -p "$out/text" && "$units" "$out/text" >"$out/list" && [ "$(wc -l <"$out/list")" -ge 30 ] &&
        [ "$(cut -d ' ' -f 1 "$out/list" | sort -u | wc -l)" = "$(wc -l <"$out/list")" ] &&
        [ "$(find "$out/text" -name '*.cu' | wc -l)" = "$(wc -l <"$out/list")" ]
}

# An nvcc that knows the chips KNOWN: configure leaves out the others, and refuses one that knows none.
chips_known() {
    mkdir "$out/conf" && cat >"$out/nvcc" <<'P' && chmod +x "$out/nvcc" || return 1
#!/bin/sh
case $* in --version) exit 0 ;; esac
for chip in $KNOWN; do case $* in *code=sm_$chip*) exit 0 ;; esac; done
echo "nvcc fatal: Unsupported gpu architecture" >&2
exit 1
P
    (cd "$out/conf" && KNOWN="75 80 90" "$YOKE_SOURCE/configure" -q --with-nvcc="$out/nvcc" >conf.out 2>&1) || return 1
    grep "chips that .* does not know: 100 120" "$out/conf/conf.out" && grep "^NVCC_CHIPS = 75 80 90\$" "$out/conf/Makefile" || return 1
    (cd "$out/conf" && KNOWN= "$YOKE_SOURCE/configure" -q --with-nvcc="$out/nvcc" >conf.out 2>&1) && return 1
    grep "compiles for none of NVCC_CHIPS" "$out/conf/conf.out"
}

result() { # result N NAME COMMAND
    if $3 >"$out/said" 2>&1; then
        echo "ok $1 - $2"
    else
        sed 's/^/# /' "$out/said"
        echo "not ok $1 - $2"
    fi
}

result 1 "units and their texts" names
if [ -x "$nvcc" ]; then
    result 2 "nvcc compiles them for each chip" compiles
else
    echo "ok 2 - nvcc compiles them for each chip # SKIP no nvcc here"
fi
result 3 "configure leaves out chips that nvcc does not know" chips_known
echo 1..3
