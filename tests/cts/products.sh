#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A device whose products keep fewer bits of f32 (yk_device_caps.product_bits), from the template of a library: it passes if it says so, and
# the suite, the start-up probe and yoke test find it if it does not, or says more bits than it keeps.
. "$YOKE_SOURCE/tests/cts/lib.sh"
case $SANITIZER in thread) skip_all "template.sh has the kit's device with a library" ;; esac
mkdir "$WORK/plugins"
cp "$YOKE_BUILD/.libs/yoke_cpu.so" "$WORK/plugins/"
export YOKE_PLUGIN_DIR="$WORK/plugins"
# Operands are cut off, which loses twice as much as rounding to nearest.
sed -e '/^\/\* ---- The library/i\
static float operand_cut(float x)\
{\
    uint32_t u;\
    memcpy(\&u, \&x, sizeof u);\
    u \&= UINT32_MAX << (24 - KEPT);\
    memcpy(\&x, \&u, sizeof x);\
    return x;\
}\
' -e 's/part += \(a\[.*\]\) \* \(b\[.*\]\);/part += operand_cut(\1) * operand_cut(\2);/' -e 's/^    caps->mem_total = MEMORY;/&\
    caps->product_bits = SAID;/' "$YOKE_SOURCE/plugins/template/blas.c" >"$WORK/cut.c"
grep -q 'operand_cut(b' "$WORK/cut.c" && grep -q 'SAID' "$WORK/cut.c"
result $? "the template's products are made shorter"

# device KEPT SAID: the plugin blas of that kind
device()
{
    compile "$WORK/plugins/yoke_blas.so" "$WORK/cut.c" "$YOKE_BUILD/.libs/libkit.a" -pthread "-DKEPT=$1" "-DSAID=$2"
}

# found NAME WORDS: the suite, asked for products alone, fails and says WORDS
found()
{
    "$CTS" --plugin "$WORK/plugins/yoke_blas.so" --group op --only 'op/dot.f32*' --quick >"$WORK/out" 2>"$WORK/err"
    [ $? -eq 1 ] && grep -A1 '^not ok' "$WORK/out" | grep -q "$2"
    result $? "$1"
}

# tested CODE NAME PATTERN: the exit code of yoke test, and a line of it
tested()
{
    "$YOKE_BUILD/yoke" test --devices blas:0 >"$WORK/out" 2>&1
    code=$?
    [ $code -eq "$1" ] && grep -q "$3" "$WORK/out"
    good=$?
    [ $good -eq 0 ] || sed 's/^/# /' "$WORK/out"
    result $good "$2"
}

device 11 11
run_cts "11 bits, which it says" "$WORK/plugins/yoke_blas.so" --quick --group abi,op,body,rebind,random,gradients --count 20 \
    --report "$WORK/report"
grep -q '"product_bits": "11"' "$WORK/report"
result $? "the report names the bits"
run_cts "11 bits in long sums" "$WORK/plugins/yoke_blas.so" --quick --group long --only 'long/dot.f32*'
run_cts "11 bits in a chain of products" "$WORK/plugins/yoke_blas.so" --group queue --only "queue/*_after_run"
"$YOKE_BUILD/yoke" info >"$WORK/out" 2>&1 && grep -q 'blas:0 .*(products of f32 keep 11 of 24 bits)' "$WORK/out" &&
    "$YOKE_BUILD/yoke" info --json | grep -q '"spec": "blas:0".*"product_bits": 11.*"spec": "cpu:0".*"product_bits": 24'
result $? "yoke info names them"
tested 0 "yoke test allows for them" '^ok .*in fp32: blas:0 beside the CPU plugin'
device 11 0
found "11 bits, and it says nothing" 'allowed error [0-9.e-]*$'
tested 1 "the start-up probe refuses it" 'blas:0 (library of loops 0) computes wrongly: in the start-up probe'
device 8 11
found "8 bits, and it says 11" 'allowed error .*; it says that products keep 11 bits (product_bits)'
if [ "$SANITIZER" = none ]; then # a sanitizer sees the same ways above
    tested 1 "yoke test finds it" '^FAILED .*in fp32: blas:0 beside the CPU plugin'
    device 8 8
    run_cts "8 bits, which it says" "$WORK/plugins/yoke_blas.so" --quick --group op,rebind,random --count 20
fi
device 24 7
tested 1 "7 bits are refused" 'device 0 says that products keep 7 bits of f32; expected 8 to 24'
finish
