#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A plugin of minor 1, which knows no sinh, trains it by its body, as this tree's plugins do.
. "$YOKE_SOURCE/tests/cts/lib.sh"
template=$YOKE_SOURCE/plugins/template/template.c
mkdir -p "$WORK/include/yoke"
cp "$YOKE_SOURCE"/include/yoke/*.h "$WORK/include/yoke"
# The header as it was: without the operations behind round8, and of minor 1.
awk '/X\(YK_OP_ROUND8,/ { sub(/ *\\$/, ""); print; skip = 1; next } skip && /^ *X\(YK_OP_/ { next } { skip = 0; print }' \
    "$YOKE_SOURCE/include/yoke/plugin.h" | sed 's/^\(#define YK_ABI_MINOR\) [0-9]*u/\1 1u/' >"$WORK/include/yoke/plugin.h"
${CC:-gcc} -std=gnu11 -O1 -g -fvisibility=hidden -fPIC -shared $SANITIZE "-DSANITIZER=\"$SANITIZER\"" "-I$WORK/include" \
    "-I$YOKE_SOURCE" -o "$WORK/yoke_template.so" "$template"
code=$?
grep -q 'YK_ABI_MINOR 1u' "$WORK/include/yoke/plugin.h" && ! grep -q YK_OP_SINH "$WORK/include/yoke/plugin.h" || code=1
result $code "the template is built with the header of minor 1"
"$CTS" --plugin "$WORK/yoke_template.so" --group abi >"$WORK/out"
grep -q '^ok.*abi/table' "$WORK/out"
result $? "it is accepted"
${CC:-gcc} -std=gnu11 -O1 -g $SANITIZE "-I$YOKE_SOURCE/include" -o "$WORK/older" "$YOKE_SOURCE/tests/cts/older.c" \
    "-L$YOKE_BUILD/.libs" "-Wl,-rpath,$YOKE_BUILD/.libs" -lyoke -lm
result $? "the program is built"
# trains NAME DEVICE LAYERS
trains()
{
    YOKE_LAYERS=$3 "$WORK/older" "$2" >"$WORK/out" 2>&1
    code=$?
    [ $code -eq 0 ] || sed 's/^/# /' "$WORK/out"
    result $code "$1"
}
trains "the CPU plugin computes sinh and trains through it" cpu:0 ""
YOKE_PLUGIN_DIR=$WORK
export YOKE_PLUGIN_DIR
chmod 755 "$WORK"
trains "so does the plugin of minor 1" template:0 ""
trains "which is sent no operation that it does not know" template:0 validate
# A binary of each released interface is kept as it was then built (kept/yoke_template-MAJOR.MINOR-MACHINE.so); a release adds its own.
for kept in "$YOKE_SOURCE"/tests/cts/kept/yoke_template-*-"$(uname -m)".so; do
    [ -z "$SANITIZE" ] && [ -e "$kept" ] || continue
    cp "$kept" "$WORK/yoke_template.so" && chmod 755 "$WORK/yoke_template.so"
    name=$(basename "$kept" .so)
    "$CTS" --plugin "$WORK/yoke_template.so" --quick --group abi --group errors --group op >"$WORK/out" 2>&1
    code=$?
    [ $code -eq 0 ] || grep -v '^ok' "$WORK/out" | sed 's/^/# /' | head -20
    result $code "$name passes the suite"
    trains "$name trains" template:0 validate
done
finish
