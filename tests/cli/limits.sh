#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A file size limit, few descriptors, no /proc, a recorded machine that cannot be read, plugins in folders that others can write.
. "$YOKE_SOURCE/tests/cli/made.sh"
hidden=64
plan 9

YOKE_DEVICES=cpu:0 train sh -c 'ulimit -f 2; exec "$@"' x
[ $code -eq 1 ] && grep -q "File too large" "$tmp/err"
check "a file size limit is an error of the write"

YOKE_DEVICES="cpu:0 cpu:0" train sh -c 'ulimit -f 2; exec "$@"' x
[ $code -eq 1 ] && grep -q "File too large" "$tmp/err"
check "with two ranks too"

few() { # few N COMMAND...: it ends well, or names the remedy
    limit=$1
    shift
    YOKE_DEVICES=cpu:0 sh -c 'exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n "$1"; shift; exec "$@"' x \
        "$limit" "$yoke" "$@" >"$tmp/out" 2>"$tmp/err"
    code=$?
    [ "$code" = 0 ] || { grep -q "Too many open files: this process may have $limit descriptors: raise the limit (ulimit -n)" "$tmp/err" &&
        refused=$((refused + 1)); } || { echo "# $limit $*: $code"; sed 's/^/# /' "$tmp/err"; return 1; }
}
refused=0
few 4 info && few 5 info && few 4 plan --model mlp --global-batch 8 && few 5 plan --model mlp --global-batch 8 && [ $refused -ge 2 ]
check "too few descriptors are an error with a remedy"

echo garbage >"$tmp/machine.xml"
HWLOC_THISSYSTEM=1 HWLOC_XMLFILE=$tmp/machine.xml YOKE_DEVICES=cpu:0 train env
[ $code -ne 0 ] && grep -q "could not read HWLOC_XMLFILE=$tmp/machine.xml" "$tmp/err"
check "a recorded machine that cannot be read"

plugin=$(find "$YOKE_BUILD/.libs" -name yoke_cpu.so | head -n 1)
if [ -n "$plugin" ]; then
    mkdir -p "$tmp/above/plugins" && cp "$plugin" "$tmp/above/plugins/" && chmod 755 "$tmp" "$tmp/above" "$tmp/above/plugins"
    info() { YOKE_PLUGINS=$tmp/above/plugins/yoke_cpu.so "$yoke" plugin list >"$tmp/out" 2>"$tmp/err"; code=$?; }
    info
    ! grep -q "other users can write" "$tmp/out" "$tmp/err"
    check "a plugin in folders of one's own"
    chmod 777 "$tmp/above"
    info
    grep -q "other users can write $tmp/above, a folder above it" "$tmp/out" "$tmp/err"
    check "a folder above it that all can write"
    chmod 1777 "$tmp/above"
    info
    ! grep -q "other users can write" "$tmp/out" "$tmp/err"
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
