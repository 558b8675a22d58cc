#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The binary interface is the recorded one: sizes, offsets and numbers of the plugin headers (abi.txt) and of yoke.h (api.txt), symbols of
# the library (symbols.txt). Who means to change it changes the file in the same commit; docs/decisions/0020 and 0079 say what may change.
. "$YOKE_SOURCE/tests/cts/lib.sh"
command -v python3 >"$WORK/log" || skip_all "python3 is not here"
[ "$(getconf LONG_BIT)" = 64 ] || skip_all "the record is of 64-bit machines"

# same RECORD FOUND HOW
same()
{
    diff -u "$YOKE_SOURCE/tests/cts/$1" "$2" >"$WORK/diff"
    code=$?
    [ $code -eq 0 ] || { sed 's/^/# /' "$WORK/diff" | head -40; echo "# if this is meant: $3 >tests/cts/$1"; }
    return $code
}

HEADERS="yoke/status.h yoke/dtype.h yoke/plugin.h yoke/extension.h yoke/transport.h"
"$YOKE_SOURCE/scripts/abi-record" $HEADERS >"$WORK/abi" && same abi.txt "$WORK/abi" "scripts/abi-record $HEADERS"
result $? "sizes, offsets and numbers of the plugin headers"
"$YOKE_SOURCE/scripts/abi-record" yoke/yoke.h >"$WORK/api" && same api.txt "$WORK/api" "scripts/abi-record yoke/yoke.h"
result $? "sizes, offsets and numbers of yoke.h"
nm -D --defined-only "$YOKE_BUILD/.libs/libyoke.so" | sed -n 's/.* [A-Z] \(yk_\)/\1/p' | LC_ALL=C sort >"$WORK/symbols" &&
    same symbols.txt "$WORK/symbols" "nm -D --defined-only build/.libs/libyoke.so | sed -n 's/.* [A-Z] \(yk_\)/\1/p' | LC_ALL=C sort"
result $? "symbols of the library"
sed 's/offset 16 8/offset 24 8/' "$WORK/abi" >"$WORK/moved"
! same abi.txt "$WORK/moved" "" >"$WORK/log"
result $? "a member that moved is found"

# The annex of decision 0020: who is said to use an addition has its name, and broken.sh runs each fault.
annex=$YOKE_SOURCE/docs/decisions/0020-the-plugin-abi-is-two.md
sed -n 's/^| \(`.*\) |$/\1/p' "$annex" >"$WORK/rows"
code=0
rows=0
while IFS='|' read -r names users tests faults; do
    rows=$((rows + 1))
    for name in $(echo "$names" | tr -d '\140,'); do
        for user in $(echo "$users" | tr -d '\140'); do
            grep -qw "$name" "$YOKE_SOURCE/$user" || { echo "# $user does not use $name"; code=1; }
        done
    done
    for fault in $faults; do
        grep -q "^ *broken[a-z_]* $fault " "$YOKE_SOURCE/tests/cts/broken.sh" || { echo "# broken.sh does not run $fault"; code=1; }
    done
    echo "$tests" | grep -q . || code=1
done <"$WORK/rows"
[ $code -eq 0 ] && [ $rows -ge 20 ]
result $? "each addition has its users and its faults"
finish
