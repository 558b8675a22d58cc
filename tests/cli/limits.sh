#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A file size limit, no /proc, a recorded machine that cannot be read, plugins in folders that others can write.
yoke=$YOKE_BUILD/yoke
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
echo "1..8"
n=0
check() { # NAME: the last command's status decides
    if [ $? -eq 0 ]; then r=ok; else r="not ok"; echo "# exit code $code"; sed 's/^/# /' "$tmp/out" "$tmp/err"; fi
    n=$((n + 1))
    echo "$r $n - $1"
}
skip() { # WHY NUMBER
    for i in $(seq "$2"); do n=$((n + 1)); echo "ok $n # SKIP $1"; done
}
if [ ! -x "$yoke" ]; then
    skip "yoke is not built" 8
    exit 0
fi
mkdir "$tmp/images" && python3 - "$tmp/images" <<'P'
import sys
for part in ("train", "t10k"):
    with open(f"{sys.argv[1]}/{part}-images-idx3-ubyte", "wb") as f:
        f.write(bytes.fromhex("00000803") + b"".join(n.to_bytes(4, "big") for n in (64, 8, 8)))
        f.write(bytes(i * 7 % 256 for i in range(64 * 64)))
    with open(f"{sys.argv[1]}/{part}-labels-idx1-ubyte", "wb") as f:
        f.write(bytes.fromhex("00000801") + (64).to_bytes(4, "big") + bytes(i % 10 for i in range(64)))
P
train() { # BEFORE...: yoke train behind these words
    rm -rf "$tmp/model"
    timeout 60 "$@" "$yoke" train --model mlp --model-config hidden=64 --data "idx:$tmp/images" --global-batch 8 \
        --max-steps 2 --output-dir "$tmp/model" >"$tmp/out" 2>"$tmp/err"
    code=$?
}

YOKE_DEVICES=cpu:0 train sh -c 'ulimit -f 2; exec "$@"' x
[ $code -eq 1 ] && grep -q "File too large" "$tmp/err"
check "a file size limit is an error of the write"

YOKE_DEVICES="cpu:0 cpu:0" train sh -c 'ulimit -f 2; exec "$@"' x
[ $code -eq 1 ] && grep -q "File too large" "$tmp/err"
check "with two ranks too"

echo garbage >"$tmp/machine.xml"
HWLOC_THISSYSTEM=1 HWLOC_XMLFILE=$tmp/machine.xml YOKE_DEVICES=cpu:0 train env
[ $code -ne 0 ] && grep -q "could not read HWLOC_XMLFILE=$tmp/machine.xml" "$tmp/err"
check "a recorded machine that cannot be read"

plugin=$(find "$YOKE_BUILD/.libs" -name yoke_cpu.so | head -n 1)
if [ -n "$plugin" ]; then
    mkdir -p "$tmp/above/plugins" && cp "$plugin" "$tmp/above/plugins/" && chmod 755 "$tmp" "$tmp/above" "$tmp/above/plugins"
    info() { YOKE_PLUGINS=$tmp/above/plugins/yoke_cpu.so "$yoke" plugin list >"$tmp/out" 2>"$tmp/err"; code=$?; }
    info
    ! grep -q "others can write" "$tmp/out" "$tmp/err"
    check "a plugin in folders of one's own"
    chmod 777 "$tmp/above"
    info
    grep -q "others can write $tmp/above, a folder above it" "$tmp/out" "$tmp/err"
    check "a folder above it that all can write"
    chmod 1777 "$tmp/above"
    info
    ! grep -q "others can write" "$tmp/out" "$tmp/err"
    check "all can write, but only owners rename"
else
    skip "no CPU plugin as a file" 3
fi

if ! grep -q '^SANITIZE_CFLAGS = *$' "$YOKE_BUILD/Makefile"; then
    skip "a sanitizer reads /proc itself" 2
elif unshare -m sh -c 'mount -t tmpfs none /proc' 2>/dev/null; then
    YOKE_DEVICES=cpu:0 train unshare -m sh -c 'mount -t tmpfs none /proc; exec "$@"' x
    [ $code -eq 0 ]
    check "without /proc, one rank"
    YOKE_DEVICES="cpu:0 cpu:0" train unshare -m sh -c 'mount -t tmpfs none /proc; exec "$@"' x
    [ $code -eq 2 ] && grep -q "cannot start '/proc/self/exe'" "$tmp/err"
    check "without /proc, two ranks: the error names it"
else
    skip "mounts are not allowed here" 2
fi
