#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The suite for transports: sock, ofi and loopback pass it, and every one of the loopback's faults is found by the test that looks for it.
. "$YOKE_SOURCE/tests/cts/lib.sh"
LOOPBACK=$YOKE_BUILD/tests/cts/.libs/transport_loopback.so
YOKE_PLUGIN_DIR=$YOKE_BUILD/.libs
export YOKE_PLUGIN_DIR

# passes TRANSPORT LEAST [OPTIONS]: all tests pass, and so many of them are no skips
passes()
{
    name=$1
    least=$2
    shift 2
    "$CTS" --transport "$name" "$@" >"$WORK/out" 2>"$WORK/err"
    code=$?
    grep -A1 '^not ok' "$WORK/out" | sed 's/^/# /'
    [ $code -eq 0 ] || tail -5 "$WORK/err" | sed 's/^/# /'
    echo "# $name: $(tail -1 "$WORK/out" | sed 's/^# //')"
    [ $code -eq 0 ] && [ "$(grep '^ok' "$WORK/out" | grep -vc SKIP)" -ge "$least" ]
    result $? "${name##*/} passes"
}

COUNT=0

# found FAULT TEST WORDS; under a sanitizer one fault in four: the suite goes the same ways with each
found()
{
    COUNT=$((COUNT + 1))
    [ "$SANITIZER" = none ] || [ $((COUNT % 4)) -eq 1 ] || return 0
    YOKE_TEST_FAULT=$1 "$CTS" --transport "$LOOPBACK" --group "${2%%/*}" --only "$2" --timeout 1 >"$WORK/out" 2>"$WORK/err"
    code=$?
    [ $code -eq 1 ] && grep -A1 "^not ok.*$2" "$WORK/out" | grep -q "$3"
    found=$?
    [ $found -eq 0 ] || { echo "# exit code $code"; cat "$WORK/out" "$WORK/err" | tail -8 | sed 's/^/# /'; }
    result $found "$1 is found by $2"
}

passes "$LOOPBACK" 54
if [ -e "$YOKE_PLUGIN_DIR/transport_sock.so" ]; then passes sock 52; else echo "# the sock transport is not built"; fi
# libfabric takes its time to be loaded, in each process: the groups that say most
if [ -e "$YOKE_PLUGIN_DIR/transport_ofi.so" ]; then
    passes ofi 20 --group abi,order,sizes,cancel,threads,death,close
else
    echo "# the ofi transport is not built"
fi
found NAME abi/table 'its name is "Another One"'
found MAJOR abi/query 'that does not exist yet'
found HOST connect/hosts 'is said to run on host'
found OPEN connect/lost 'did not end within'
found REORDER order/one_tag 'expected'
found LOSE many/posted 'wait_any: none of 1 messages'
found DUPLICATE match/once 'that nobody has sent anything for'
found CORRUPT sizes/small 'contents: byte'
found CUT sizes/longest 'contents: byte'
found RARE_BIT many/rounds 'message [0-9]* of 400: byte'
found SWAP many/one_tag 'message [0-9]* of 400: byte'
found UNASKED many/unasked 'wait_any: none of 1 messages'
found OVERRUN sizes/small 'beside it was written'
found LENGTH sizes/small 'bytes were moved, expected'
found TAGS match/tags 'a receive with tag .* took message'
found FORGET many/posted 'wait_any: none of 1 messages'
found HANG wait/times_out 'did not end within'
found TIMEOUT wait/times_out 'YK_OK, expected YK_E_TIMEOUT\|YK_E_TIMEOUT'
found INDEX wait/names_the_done 'wait_any names operation 0, expected 2'
found EVENTS wait/counts_events 'events as before'
found OVERSLEEP wait/progress_wakes 'progress slept for'
found CANCEL cancel/receive 'given up\|wait_any\|did not come within'
found CANCEL cancel/half_sent 'given up\|bytes were moved\|the next message\|did not come within'
found THREAD cancel/thread 'given up\|wait_any\|did not come within'
found KIND memory/refused 'memory of kind 99'
found STALE memory/released 'a block at the address of an earlier one'
found HALF put/arrives 'a put: byte\|bytes were moved'
found NOTICE put/arrives 'puts with notice'
found STATUS arguments/ranks 'YK_E_INTERNAL, expected YK_E_ARG'
found SILENT arguments/ranks 'is not one line'
found CLIP arguments/too_long 'expected YK_E_ARG'
found WAIT death/while_they_wait 'did not end within'
found LATE close/flushes 'wait_any: none of 1 messages'
found LEAK leak/messages 'each round keeps bytes'
found FILES leak/messages 'each round keeps open files'
"$CTS" --transport "$LOOPBACK" --group abi,wait --json | python3 -c '
import json, sys
lines = [json.loads(l) for l in sys.stdin]
assert lines[-1]["failed"] == 0 and lines[-1]["passed"] + lines[-1]["unsupported"] == len(lines) - 1 > 5, lines[-1]'
result $? "--json is JSON, line by line"
"$CTS" --transport "$LOOPBACK" --group wiat 2>"$WORK/err"
[ $? -eq 2 ] && grep -q 'did you mean wait' "$WORK/err"
result $? "an unknown group names the nearest"
"$CTS" --transport "$LOOPBACK" --plugin cpu 2>"$WORK/err"
[ $? -eq 2 ] && grep -q 'name the one to test' "$WORK/err"
result $? "a plugin and a transport at once are an error"
"$CTS" --transport "$WORK/transport_none.so" 2>"$WORK/err"
[ $? -eq 2 ] && grep -q 'cannot be read' "$WORK/err"
result $? "a file that is not there: exit code 2"
"$CTS" --transport pigeon 2>"$WORK/err"
code=$?
there=$(cd "$YOKE_PLUGIN_DIR" && ls transport_*.so 2>/dev/null | sed 's/transport_//; s/\.so//' | paste -sd, | sed 's/,/, /g')
[ $code -eq 2 ] && grep -q "there is no transport \"pigeon\".*; there are: ${there:-none.*}\$" "$WORK/err"
result $? "a name that is not there: the error lists those that are"
finish
