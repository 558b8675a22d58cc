#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Plugins with one fault each, made from the template: the suite finds every one, in the group that looks for it.
. "$YOKE_SOURCE/tests/cts/lib.sh"
BROKEN=$YOKE_SOURCE/tests/cts/broken.c

# broken FAULT GROUP WORDS: compiled with -DBREAK_FAULT, the suite fails and says WORDS
broken()
{
    compile "$WORK/yoke_bad.so" "$BROKEN" -DBREAK_"$1" || { result 1 "$1 is built"; return; }
    "$CTS" --plugin "$WORK/yoke_bad.so" --group "$2" --timeout 1 >"$WORK/out" 2>"$WORK/err"
    code=$?
    [ $code -eq 1 ] && grep -A1 '^not ok' "$WORK/out" | grep -q "$3"
    found=$?
    [ $found -eq 0 ] || { echo "# exit code $code"; cat "$WORK/out" "$WORK/err" | tail -8 | sed 's/^/# /'; }
    result $found "$1 is found by $2"
}

compile "$WORK/yoke_good.so" "$BROKEN" && run_cts "without a fault" "$WORK/yoke_good.so" --group abi,queue,guard,rebind
broken RESULT op 'expected'
broken END guard 'lies between values'
broken END op 'lies between values'
broken POINT queue 'points grow by one\|never reached\|is not reached'
broken SIZE abi 'wrong or short table'
broken SYMBOL abi 'exports more than'
broken VERSION rebind 'new weights'
case $SANITIZER in none) broken CRASH op 'killed by signal 11' ;; esac

# The lists: an expected failure is none, and one that passes is one with --verify.
compile "$WORK/yoke_bad.so" "$BROKEN" -DBREAK_SYMBOL
echo 'abi/symbols   # a helper leaks out' >"$WORK/list"
"$CTS" --plugin "$WORK/yoke_bad.so" --group abi --xfail "$WORK/list" >"$WORK/out"
result $? "an expected failure does not fail the run"
"$CTS" --plugin "$WORK/yoke_bad.so" --group abi --unsupported "$WORK/list" | grep -q '1 unsupported'
result $? "a listed test is not run"
compile "$WORK/yoke_good.so" "$BROKEN"
"$CTS" --plugin "$WORK/yoke_good.so" --group abi --xfail "$WORK/list" --verify >"$WORK/out"
[ $? -eq 1 ]
result $? "with --verify an expected failure that passes fails the run"
"$CTS" --plugin "$WORK/yoke_good.so" --group abi,queue --json | python3 -c '
import json, sys
lines = [json.loads(l) for l in sys.stdin]
assert lines[-1]["failed"] == 0 and lines[-1]["passed"] == len(lines) - 1 > 5, lines[-1]'
result $? "--json is JSON, line by line"
"$CTS" --plugin "$WORK/none.so" 2>"$WORK/err"
[ $? -eq 2 ]
result $? "a file that is not there: exit code 2"
"$CTS" --plugin "$WORK/yoke_good.so" --group quue 2>"$WORK/err"
[ $? -eq 2 ] && grep -q 'did you mean queue' "$WORK/err"
result $? "an unknown group names the nearest"
finish
