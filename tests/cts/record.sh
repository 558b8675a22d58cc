#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The binary interface is the recorded one: sizes, offsets, types and numbers of the plugin headers (abi.txt) and of yoke.h (api.txt), a
# minor for each addition to a plugin header (minors.txt), symbols of the library (symbols.txt). An intended change changes the file in the
# same commit; decisions 0020 and 0079 have the rules.
. "$YOKE_SOURCE/tests/cts/lib.sh"
command -v python3 >"$WORK/log" || skip_all "python3 is not here"
[ "$SANITIZER" = none ] || skip_all "instrumented: the plain build's, as it runs no code of this one"
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
result $? "sizes, offsets, types and numbers of the plugin headers"
"$YOKE_SOURCE/scripts/abi-record" yoke/yoke.h yoke/builder.h >"$WORK/api" &&
    same api.txt "$WORK/api" "scripts/abi-record yoke/yoke.h yoke/builder.h"
result $? "sizes, offsets, types and numbers of yoke.h"
nm -D --defined-only "$YOKE_BUILD/.libs/libyoke.so" | sed -n 's/.* [A-Z] \(yk_\)/\1/p' | LC_ALL=C sort >"$WORK/symbols" &&
    same symbols.txt "$WORK/symbols" "nm -D --defined-only build/.libs/libyoke.so | sed -n 's/.* [A-Z] \(yk_\)/\1/p' | LC_ALL=C sort"
result $? "symbols of the library"
# A minor for each addition: its line, with a digest of the record, is written once.
# raised FILE: whether minors.txt has this record's line
raised()
{
    "$YOKE_SOURCE/scripts/abi-record" --include "$1" --minor $HEADERS >"$WORK/minor" || return 1
    grep -qxF "$(cat "$WORK/minor")" "$YOKE_SOURCE/tests/cts/minors.txt" && return 0
    echo "# the interface is not that of minors.txt: raise YK_ABI_MINOR, then add the line $(cat "$WORK/minor")"
    return 1
}
raised "$YOKE_SOURCE/include"
result $? "this interface has a minor of its own"

# Changes that break plugins, and additions without a new minor: the record differs, and so does the digest.
# seen NAME HEADER SED-SCRIPT
seen()
{
    rm -rf "$WORK/include"
    cp -r "$YOKE_SOURCE/include" "$WORK/include"
    sed -i "$3" "$WORK/include/yoke/$2"
    ! cmp -s "$YOKE_SOURCE/include/yoke/$2" "$WORK/include/yoke/$2" || echo "# $1: the header did not change"
    "$YOKE_SOURCE/scripts/abi-record" --include "$WORK/include" $HEADERS >"$WORK/changed" &&
        ! same abi.txt "$WORK/changed" "" >"$WORK/log" && ! raised "$WORK/include" >"$WORK/log"
    result $? "$1 is seen"
}
seen "another parameter of a function" plugin.h 's/(\*queue_poll)(/&uint32_t kind, /'
seen "another type of a parameter" plugin.h '/(\*queue_abort)/s/yk_status/int64_t/'
seen "another result of a function" plugin.h 's/void (\*queue_free)/yk_status (*queue_free)/'
seen "a function of a transport" transport.h 's/void (\*cancel)/int (*cancel)/'
seen "the type of a member of equal size" plugin.h 's/uint64_t max_bind;/int64_t max_bind;/'
seen "a member that moves" plugin.h 's/uint64_t mem_total/uint64_t other; &/'
seen "a member at the end of the table" plugin.h 's/^} yk_plugin;/    void (*more)(void);\n&/'
seen "the kind of an operation" plugin.h 's/"neg", UN/"neg", PRIM/'
seen "the tolerance of an operation" plugin.h 's/"dot", PRIM, LOWP, ACCUM/"dot", PRIM, LOWP, TRANS/'
seen "the attributes of an operation" plugin.h 's/"conv2d", COMP, LOWP, ACCUM, 2, 2, 1, 7/"conv2d", COMP, LOWP, ACCUM, 2, 2, 1, 8/'
seen "the bytes of a type" dtype.h 's/X(YK_I8, 8, "i8", "I8", 1)/X(YK_I8, 8, "i8", "I8", 2)/'
seen "the name of an extension" extension.h 's/"yk.coll.1"/"yk.coll.2"/'
seen "the name of the one symbol" plugin.h 's/"yk_plugin_query"/"yk_plugin_ask"/'
seen "a renumbered operation" plugin.h 's/X(YK_OP_SINH, 68,/X(YK_OP_SINH, 69,/'

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
