#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A second backend over the kit's lowering, whose compiler is the C compiler (cjit.c): it passes the suite, and trains as the CPU does.
. "$YOKE_SOURCE/tests/cts/lib.sh"
case $SANITIZER in thread) skip_all "what it compiles is not instrumented" ;; esac
compile "$WORK/yoke_cjit.so" "$YOKE_SOURCE/tests/cts/cjit.c" "$YOKE_SOURCE/plugins/kit/kit_queue.c" \
    "$YOKE_BUILD/.libs/libkit.a" -pthread -ldl
result $? "it is built"
chmod 755 "$WORK"
[ "$SANITIZER" = none ] || QUICK="--quick --group abi,composite,random" # what it compiles is not instrumented; the lowering is
run_cts "cjit" "$WORK/yoke_cjit.so" $QUICK --timeout 300

for device in cpu:0 "$WORK/yoke_cjit.so:0"; do
    YOKE_PLUGIN_DIR=$YOKE_BUILD/.libs "$YOKE_BUILD/yoke" bench step --devices "$device" --iterations 3 --json --save-init "$WORK/init" \
        --model mlp --global-batch 16 --model-config hidden=64+64 >"$WORK/$(basename "$device").json" 2>"$WORK/err" ||
        tail -3 "$WORK/err" | sed 's/^/# /'
done
python3 -c '
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
print("# losses", a["losses"], b["losses"])
assert len(a["losses"]) == len(b["losses"]) >= 3
assert all(abs(x - y) <= 1e-5 * abs(x) for x, y in zip(a["losses"], b["losses"]))' "$WORK/cpu:0.json" "$WORK/yoke_cjit.so:0.json"
result $? "an MLP trains as on the CPU"
finish
