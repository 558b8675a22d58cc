#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Devices of one PJRT client are an island (yk.coll.1), on the CPU plugin that a wheel of PyPI holds. The suite's collectives: odd lengths,
# more than a MiB, in place; among two members, and with YOKE_TEST_LONG all of them, among up to four. A fault of one member is one failure
# of all.
. "$YOKE_SOURCE/tests/cts/lib.sh"
. "$YOKE_SOURCE/tests/cts/pjrt_wheel.sh"
cpu_fetch || finish
export YOKE_PJRT="$VENDOR"
export YOKE_PJRT_PROBE_MS=60000 # pjrt.sh tests the trial; it took more than 12 s on a machine with a load of 19
kept_executables
shim_build

# collectives DEVICES PATTERN TESTS: all of them have run
collectives()
{
    YOKE_PJRT_CLIENT_DEVICES=$1 run_cts "pjrt: collectives of $1 devices of one client" "$PLUGIN" --only "extension/$2" --timeout 300
    [ "$(grep -c '^ok' "$WORK/out")" = "$3" ] && ! grep -q SKIP "$WORK/out"
    result $? "and none of the $3 tests was left out"
}
if [ "$SANITIZER" = none ]; then # no sanitizer sees XLA's numbers; tests/unit/kit/island.c runs under all of them
    if [ -n "${YOKE_TEST_LONG-}" ]; then
        collectives 4 'coll.*' 33
    else
        collectives 2 'coll.*.2' 4
        collectives 2 'coll.abort' 1
    fi
fi

export YOKE_CACHE_DIR="$WORK"
# members_fail CASE WORDS NAME: the fault of one member is one failure of all, with these words, and no hang
members_fail()
{
    timeout 60 "$YOKE_BUILD/tests/cts/pjrt_members" "$1" "$2" >"$WORK/out" 2>&1
    failed=$?
    [ $failed = 0 ] || tail -n 3 "$WORK/out" | sed 's/^/# /'
    result $failed "an island fails as one: $3"
}
members_fail shape '(f32 as f32, root 0) as member' "a member gives another length"
members_fail queue 'the queue of member 0 of 2 was aborted' "a member's queue is aborted"
members_fail twice 'got one device as members 0 and 1' "a device joins twice"
members_fail types 'expected f32, f16, bf16, i32 or u8' "a type that is not added"
PJRT_SHIM=bare PJRT_SHIM_REAL="$VENDOR" YOKE_PJRT="$WORK/shim.so:bare" members_fail execute \
    'all_reduce of 1000 elements over 2 members' "the vendor refuses to run"

YOKE_PJRT_CLIENT_DEVICES=65 "$YOKE_BUILD/yoke" info >"$WORK/out" 2>&1
grep -q 'YOKE_PJRT_CLIENT_DEVICES=65: expected devices, 1 to 64' "$WORK/out"
result $? "a wrong number of devices is refused"
YOKE_PJRT_CLIENT_DEVICES=3 "$YOKE_BUILD/yoke" info >"$WORK/out" 2>&1
[ "$(grep -c '^ *pjrt:[0-9]' "$WORK/out")" = 3 ]
result $? "a client of three devices has three"
PJRT_SHIM=one PJRT_SHIM_REAL="$VENDOR" YOKE_PJRT="$WORK/shim.so:one" YOKE_PJRT_CLIENT_DEVICES=2 "$CTS" --plugin "$PLUGIN" \
    --only 'extension/coll.broadcast.*' >"$WORK/out" 2>&1
[ $? = 0 ] && grep -q '^ok 1 - extension/coll.broadcast.1$' "$WORK/out"
result $? "a client that has one device of the two asked for is an island of one"
"$CTS" --plugin "$PLUGIN" --only 'extension/coll*' >"$WORK/out" 2>&1
[ "$(grep -c '^ok.*SKIP.*yk.coll.1 is not offered' "$WORK/out")" = 1 ]
result $? "a client of one device joins none"

# Two ranks of a job, whose clients have both devices, exchange over the host: the losses are those of one rank.
bench()
{
    "$YOKE_BUILD/yoke" bench step --devices "$1" --iterations 2 --global-batch 16 --model mlp --model-config hidden=8 \
        --save-init "$WORK/init" --json 2>"$WORK/err" >"$WORK/json" && sed -n 's/.*"losses": \(\[[^]]*\]\).*/\1/p' "$WORK/json"
}
bench pjrt:0 >"$WORK/one"
YOKE_PJRT_CLIENT_DEVICES=2 bench "pjrt:0! pjrt:1!" >"$WORK/two"
python3 -c '
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
print("# losses", a, b)
assert len(a) == len(b) >= 2 and all(abs(x - y) <= 1e-4 * abs(x) for x, y in zip(a, b))' "$WORK/one" "$WORK/two"
result $? "ranks whose clients have two devices train as one rank does"
finish
