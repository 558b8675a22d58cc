#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two plugins over the kit's whole device (plugins/kit/kit_device.h): one whose compiler is the C compiler, one with a library of
# operators and nothing else. They pass the suite, and train as the CPU does.
. "$YOKE_SOURCE/tests/cts/lib.sh"
case $SANITIZER in thread) skip_all "what it compiles is not instrumented" ;; esac
chmod 755 "$WORK"
for name in cc blas; do
    compile "$WORK/yoke_$name.so" "$YOKE_SOURCE/plugins/template/$name.c" "$YOKE_BUILD/.libs/libkit.a" -pthread -Wall -Wextra -Werror
    result $? "$name is built"
    lines=$(wc -l <"$YOKE_SOURCE/plugins/template/$name.c")
    [ "$lines" -le 150 ]
    result $? "$name has $lines lines, at most 150"
done
# guide.sh runs all groups on the same sources, but in the plain build alone; what cc compiles is not instrumented, the lowering is
if [ "$SANITIZER" = none ] && [ -z "${YOKE_TEST_LONG-}" ]; then
    run_cts "cc" "$WORK/yoke_cc.so" --group abi,buffer
    run_cts "blas" "$WORK/yoke_blas.so" --group abi,buffer,rebind,leak
else
    # shellcheck disable=SC2086
    run_cts "cc" "$WORK/yoke_cc.so" $QUICK --group abi,composite,random ${FEW:---count 8} --timeout 300 \
        --unsupported "$WORK/narrow"
    # shellcheck disable=SC2086
    run_cts "blas" "$WORK/yoke_blas.so" $QUICK $FEW
fi
validated "cc under the validating layer" "$WORK/yoke_cc.so" --group buffer,queue,guard,rebind,leak

for device in cpu:0 "$WORK/yoke_cc.so:0" "$WORK/yoke_blas.so:0"; do
    YOKE_BLAS_PROFILE=1 YOKE_PLUGIN_DIR=$YOKE_BUILD/.libs "$YOKE_BUILD/yoke" bench step --devices "$device" --iterations 3 --json \
        --save-init "$WORK/init" --model mlp --global-batch 16 --model-config hidden=64+64 \
        >"$WORK/$(basename "$device").json" 2>"$WORK/err" ||
        tail -3 "$WORK/err" | sed 's/^/# /'
done
# of the last one: us, runs, us of the first run, then operation, place and shape
grep -q '^yoke: [^:]*: *[0-9.]* *[0-9]* *[0-9.]*  dot library \[[0-9]*,[0-9]*\] .* -> \[' "$WORK/err" &&
    grep -q '  [a-z_]* host \[.* -> \[' "$WORK/err"
result $? "YOKE_BLAS_PROFILE=1 has the time of each operation, in the library and by the host"
YOKE_BLAS_PROFILE=all "$YOKE_BUILD/yoke" bench step --devices "$WORK/yoke_blas.so:0" --model mlp >"$WORK/out" 2>"$WORK/err"
[ $? -ne 0 ] && grep -q 'YOKE_BLAS_PROFILE=all: expected 0 or 1' "$WORK/err"
result $? "another value of it is refused"
# each call takes 200 ms: an aborted program of many calls ends with the call under way, and no queue is left behind
cat >"$WORK/left.c" <<'C'
static void stream_left(void *device, void *stream)
{
    (void)device, (void)stream;
    abort();
}
C
{
    echo '#include <unistd.h>'
    sed -n '1,/^static const kit_device device/p' "$YOKE_SOURCE/plugins/template/blas.c" |
        sed -e '$d' -e 's/ float \*at\[3\] = .*/&\n    usleep(200000);/'
    cat "$WORK/left.c"
    sed -n '/^static const kit_device device/,$p' "$YOKE_SOURCE/plugins/template/blas.c" | sed '1s/$/\n    .left = stream_left,/'
} >"$WORK/slow.c"
compile "$WORK/yoke_slow.so" "$WORK/slow.c" "$YOKE_BUILD/.libs/libkit.a" -pthread &&
    run_cts "a device whose calls take 200 ms" "$WORK/yoke_slow.so" --group queue --only 'queue/abort*'
for name in cc blas; do
    python3 -c '
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
print("# losses", a["losses"], b["losses"])
assert len(a["losses"]) == len(b["losses"]) >= 3
assert all(abs(x - y) <= 1e-5 * abs(x) for x, y in zip(a["losses"], b["losses"]))' "$WORK/cpu:0.json" "$WORK/yoke_$name.so:0.json"
    result $? "an MLP trains on $name as on the CPU"
done
finish
