#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The template plugin, built out of tree against installed headers, passes the suite; so it does under the validating
# layer.
. "$YOKE_SOURCE/tests/cts/lib.sh"
ROOT=$WORK/root
make -s -C "$YOKE_BUILD" install-yokeincludeHEADERS install-pkgconfigDATA DESTDIR="$ROOT" >"$WORK/log" 2>&1 ||
    { tail -5 "$WORK/log" | sed 's/^/# /'; result 1 "headers are installed"; finish; }
PC=$(find "$ROOT" -name yoke-plugin.pc)
mkdir "$WORK/src" && cp "$YOKE_SOURCE"/plugins/template/* "$WORK/src" || exit 1
if (cd "$WORK/src" && autoreconf --version) >/dev/null 2>&1; then
    case $SANITIZER in none) flag= ;; *) flag=--enable-sanitize=$SANITIZER ;; esac
    (cd "$WORK/src" && autoreconf -i &&
        PKG_CONFIG_PATH=$(dirname "$PC") PKG_CONFIG_SYSROOT_DIR=$ROOT ./configure --prefix=/usr/local $flag && make) >"$WORK/log" 2>&1
    code=$?
    [ $code -eq 0 ] || tail -15 "$WORK/log" | sed 's/^/# /'
    result $code "its own configure and make"
    PLUGIN=$WORK/src/.libs/yoke_template.so
else
    PLUGIN=$WORK/yoke_template.so
    ${CC:-gcc} -std=gnu11 -O1 -fvisibility=hidden -fPIC -shared $SANITIZE "-DSANITIZER=\"$SANITIZER\"" \
        $(PKG_CONFIG_PATH=$(dirname "$PC") PKG_CONFIG_SYSROOT_DIR=$ROOT pkg-config --cflags yoke-plugin) \
        -o "$PLUGIN" "$WORK/src/template.c"
    result $? "built with the installed header (no autoreconf here)"
fi
symbols=$(nm -D --defined-only "$PLUGIN" 2>/dev/null | grep -vc ' yk_plugin_query$')
result "$symbols" "it exports one symbol"
run_cts "the suite" "$PLUGIN"
YOKE_LAYERS=validate run_cts "the suite under the validating layer" "$PLUGIN" --group buffer,queue,guard,rebind,gradients
finish
