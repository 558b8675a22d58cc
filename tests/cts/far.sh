#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A device with memory of its own and a thread that drives it, over the kit's queue: it passes the suite, and trains beside the CPU.
. "$YOKE_SOURCE/tests/cts/lib.sh"
compile "$WORK/yoke_far.so" "$YOKE_SOURCE/plugins/template/far.c" "$YOKE_SOURCE/plugins/kit/kit_queue.c" -pthread -Wall -Wextra -Werror
result $? "it is built"
chmod 755 "$WORK"
# its operations are those of the template, where the suite has each; here random graphs, gradients and a BERT have them
few="--quick --group abi,buffer,queue,extension,random,gradients,guard,rebind,leak,offsets,processes,errors"
[ -z "${YOKE_TEST_LONG-}" ] || few=--quick
# shellcheck disable=SC2086
run_cts "far" "$WORK/yoke_far.so" $few
run_cts "its second device" "$WORK/yoke_far.so" --device 1 --group buffer,rebind # queue/two_devices is above
YOKE_LAYERS=validate run_cts "far under the validating layer" "$WORK/yoke_far.so" --group buffer,queue,guard,rebind
compile "$WORK/yoke_island.so" "$YOKE_SOURCE/tests/cts/island.c" "$YOKE_SOURCE/plugins/kit/kit_queue.c" -pthread -Wall -Wextra -Werror
result $? "far with both extensions is built"
run_cts "its collectives and shared buffers" "$WORK/yoke_island.so" --group buffer,extension
grep -q '^ok .* - extension/coll.all_reduce.3$' "$WORK/out" && grep -q '^ok .* - extension/share$' "$WORK/out"
result $? "three members added up, a buffer was shared"
YOKE_LAYERS=validate run_cts "its collectives under the validating layer" "$WORK/yoke_island.so" --quick --group extension
grep -q '^ok .* - extension/coll.all_reduce.3$' "$WORK/out"
result $? "three members added up there"

bench() # bench DEVICES: losses of three steps of a small BERT
{
    YOKE_PLUGIN_DIR=$YOKE_BUILD/.libs "$YOKE_BUILD/yoke" bench step --devices "$1" --iterations 3 --json --save-init "$WORK/init" \
        --model bert --global-batch 4 --model-config \
        hidden_size=32,num_hidden_layers=1,num_attention_heads=2,intermediate_size=64,vocab_size=100,seq_len=16 >"$2" 2>"$WORK/err"
}
alike() # losses to 1e-4; what a run that failed said is shown
{
    bench cpu:0 "$WORK/cpu.json" && bench "$WORK/yoke_far.so:0" "$WORK/far.json" || {
        echo "# exit code $?"
        tail -n 10 "$WORK/err" | sed 's/^/# /'
        return 1
    }
    python3 -c '
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
print("# losses", a["losses"], b["losses"])
assert len(a["losses"]) == len(b["losses"]) >= 3
assert all(abs(x - y) <= 1e-4 * abs(x) for x, y in zip(a["losses"], b["losses"]))' "$WORK/cpu.json" "$WORK/far.json"
}
alike
result $? "a BERT trains as on the CPU"
finish
