#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The templates, as they are installed, build out of tree against the installed headers and kit, and pass the suite; so the first
# does under the validating layer. The whole kit and the builder of graphs compile from where they are installed.
. "$YOKE_SOURCE/tests/cts/lib.sh"
ROOT=$WORK/root
make -s -C "$YOKE_BUILD" install-yokeincludeHEADERS install-pkgconfigDATA install-nobase_dist_sdkDATA \
    install-nobase_nodist_sdkDATA install-kitlibDATA DESTDIR="$ROOT" >"$WORK/log" 2>&1 ||
    { tail -5 "$WORK/log" | sed 's/^/# /'; result 1 "headers are installed"; finish; }
PC=$(find "$ROOT" -name yoke-plugin.pc)
SDK=$(find "$ROOT" -path '*/yoke/plugins/kit/kit_queue.h' | sed 's,/plugins/kit/kit_queue.h,,')
HEADERS=$(PKG_CONFIG_PATH=$(dirname "$PC") PKG_CONFIG_SYSROOT_DIR=$ROOT pkg-config --cflags yoke-plugin)
mkdir "$WORK/src" && cp "$SDK"/plugins/template/* "$WORK/src" || exit 1
if (cd "$WORK/src" && autoreconf --version) >/dev/null 2>&1; then
    case $SANITIZER in none) flag= ;; *) flag=--enable-sanitize=$SANITIZER ;; esac
    export PKG_CONFIG_PATH=$(dirname "$PC") PKG_CONFIG_SYSROOT_DIR=$ROOT
    (cd "$WORK/src" && autoreconf -i && ./configure --prefix=/usr/local $flag && make) >"$WORK/log" 2>&1
    code=$?
    [ $code -eq 0 ] || tail -15 "$WORK/log" | sed 's/^/# /'
    result $code "its own configure and make"
    PLUGIN=$WORK/src/.libs/yoke_template.so
    cp "$WORK/src/.libs/yoke_far.so" "$WORK/src/.libs/yoke_cc.so" "$WORK/src/.libs/yoke_blas.so" "$WORK"
else
    PLUGIN=$WORK/yoke_template.so
    ${CC:-gcc} -std=gnu11 -O1 -fvisibility=hidden -fPIC -shared $SANITIZE "-DSANITIZER=\"$SANITIZER\"" \
        $HEADERS -o "$PLUGIN" "$WORK/src/template.c" &&
        ${CC:-gcc} -std=gnu11 -O1 -fvisibility=hidden -fPIC -shared -pthread $SANITIZE "-DSANITIZER=\"$SANITIZER\"" \
            $HEADERS -o "$WORK/yoke_far.so" "$WORK/src/far.c" "$SDK/plugins/kit/kit_queue.c" &&
        for name in cc blas; do
            ${CC:-gcc} -std=gnu11 -O1 -fvisibility=hidden -fPIC -shared $SANITIZE $HEADERS -o "$WORK/yoke_$name.so" "$WORK/src/$name.c" \
                $(PKG_CONFIG_PATH=$(dirname "$PC") PKG_CONFIG_SYSROOT_DIR=$ROOT pkg-config --libs yoke-plugin) || exit 1
        done
    result $? "built with the installed header (no autoreconf here)"
fi
symbols=$(nm -D --defined-only "$PLUGIN" 2>/dev/null | grep -vc ' yk_plugin_query$')
result "$symbols" "it exports one symbol"
synopsis() { # the command of yoke-plugin(7), word for word
    command=$(sed -n '/^cc \$(pkg-config/{s/\\f[A-Z]//g;s/\\-/-/g;p;}' "$YOKE_SOURCE/docs/yoke-plugin.7")
    [ -n "$command" ] && mkdir -p "$WORK/synopsis" && cd "$WORK/synopsis" && cp "$SDK/plugins/template/template.c" plugin.c &&
        PKG_CONFIG_PATH=$(dirname "$PC") PKG_CONFIG_SYSROOT_DIR=$ROOT sh -c "$command" &&
        nm -D --defined-only yoke_NAME.so | grep -q ' yk_plugin_query$'
}
(synopsis) >"$WORK/log" 2>&1
code=$?
[ $code -eq 0 ] || sed 's/^/# /' "$WORK/log"
result $code "the manual page's command builds it"
run_cts "the suite" "$PLUGIN" $QUICK
validated "the suite under the validating layer" "$PLUGIN" --group buffer,queue,guard,rebind,gradients
run_cts "the second one" "$WORK/yoke_far.so" --group abi,buffer,leak # its queues: far.sh
run_cts "the text device" "$WORK/yoke_cc.so" --group abi,buffer
run_cts "the device with a library" "$WORK/yoke_blas.so" --group abi,buffer # device.sh
[ "$SANITIZER" = none ] || finish # no flag of a sanitizer is there in what follows
code=0
for file in "$SDK"/plugins/kit/*.c "$SDK"/plugins/kit/lower/*.c "$SDK"/tests/support/kit.c; do
    ${CC:-gcc} -std=gnu11 $HEADERS -fsyntax-only "$file" 2>"$WORK/err" || { code=1; sed 's/^/# /' "$WORK/err"; }
done
result $code "the kit and the builder of graphs compile"
finish
