#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The compiler refuses an operation with a column left out, or without a row, as no test would notice a trait that is missing: copies of
# the two tables get an operation more, whole at first, then with each column left out.
grep -q '^#define YK_SANITIZER "none"' "$YOKE_BUILD/config.h" ||
    { echo "1..0 # SKIP instrumented: the plain build's, as it runs no code of this one"; exit 0; }
. "$YOKE_SOURCE/tests/golden/lib.sh"
table=$out/core/graph/op_table.h
public=$out/include/yoke/plugin.h
mkdir -p "${table%/*}" "${public%/*}"

# The last row of a table ends without a backslash: `row` follows it.
with_row() { # with_row FILE FIRST ROW
    awk -v first="$2" -v row="$3" '
        index($0, first) { inside = 1 }
        inside && !/\\$/ && index($0, first) == 0 { print $0 " \\"; print row; inside = 0; next }
        { print }' "$1"
}

operation='    X(YK_OP_TWICE, YK_OP_ROW_NUMBER, "twice", COMP, WIDE, EXACT, 1, 1, 1, 0)'
row='TWICE, unary, twice, twice, twice, BROADCAST, 0, MAP, NO, SCALE, OWN, NONE'

make_tables() { # make_tables ROW, of the public table whole
    number=$(grep -c '^    X(YK_OP_' "$YOKE_SOURCE/include/yoke/plugin.h")
    with_row "$YOKE_SOURCE/include/yoke/plugin.h" '#define YK_OP_TABLE(X)' "${operation%%YK_OP_ROW*}$number${operation##*NUMBER}" >"$public"
    if [ "$1" ]; then
        with_row "$YOKE_SOURCE/core/graph/op_table.h" '#define YK_IMPL_TABLE(X)' "    X($1)" >"$table"
    else
        cp "$YOKE_SOURCE/core/graph/op_table.h" "$table"
    fi
}

compiled() { # compiled FILE..: with the copies in front of the sources
    for file in "$@"; do # a copy, as a quoted include looks beside its file first
        mkdir -p "$out/${file%/*}"
        cp "$YOKE_SOURCE/$file" "$out/$file"
        ${CC:-gcc} -std=gnu11 -D_GNU_SOURCE -Werror=switch -fsyntax-only "-I$out" "-I$out/include" "-I$YOKE_SOURCE" \
            "-I$YOKE_SOURCE/include" "-I$YOKE_BUILD" "$out/$file" >"$out/log" 2>&1 || return 1
    done
}

whole() { make_tables "$row" && compiled core/graph/op_names.c core/graph/body.c core/graph/eval.c core/grad/rules_prim.c; }
ok "an operation with a whole row compiles" whole

refused() { # refused WORDS FILE..: it does not compile, and the compiler says why
    words=$1
    shift
    ! compiled "$@" || { echo "it compiles"; return 1; }
    grep -q "$words" "$out/log" || { cat "$out/log"; return 1; }
}

lacks="macro .*X.* requires 1[02] arguments\|too few arguments provided to function-like macro"

each_column() {
    columns=$(echo "$row" | tr -d ' ' | tr ',' ' ')
    column=0
    for left_out in $columns; do
        column=$((column + 1))
        make_tables "$(echo "$row" | cut -d, --complement -f$column)" && refused "$lacks" core/graph/op_names.c ||
            { echo "column $column, $left_out"; return 1; }
    done
    [ $column -eq 12 ]
}
ok "a row that lacks a column is refused, whichever" each_column

no_row() { make_tables "" && refused 'has no row in YK_IMPL_TABLE' core/graph/op_names.c; }
ok "an operation without a row is refused" no_row

strange() { make_tables "$(echo "$row" | sed 's/ SCALE/ SOMEHOW/')" && refused 'YK_LINEAR_SOMEHOW' core/graph/op_names.c; }
ok "a trait that is none is refused" strange

public_column() {
    make_tables "$row" && sed -i '/YK_OP_TWICE/s/ 1, 0)/ 1)/' "$public" && refused "$lacks" core/graph/op_names.c
}
ok "a row of the public table that lacks a column is refused" public_column

plugin() { make_tables "$row" && refused 'YK_OP_TWICE.* not handled in switch' backends/cpu/cpu_ops.c; }
ok "a plugin of this tree that forgets it is refused" plugin

# The five steps of "Places to add" name all that sinh took: the files that know it, apart from its own tests and this page's decision.
named() {
    sed -n '/^An operation takes five steps/,/^A way is/p' "$YOKE_SOURCE/docs/architecture.md" | tr '`' '\n' |
        grep '^[a-z]*/[^ ]*\.[a-z*]*$' | grep -v '^tests/unit\|^tools\|minors' >"$out/patterns" # which name no map
    (cd "$YOKE_SOURCE" && grep -rliw 'sinh\|yk_op_sinh\|yk_sinh' include core models plugins backends/*/*.[ch] tests/dist \
        tests/cts/*.txt) >"$out/files"
    while read -r file; do
        found=
        while read -r pattern; do
            case $file in $pattern) found=1 ;; esac
        done <"$out/patterns"
        [ "$found" ] || { echo "architecture.md does not name $file"; return 1; }
    done <"$out/files"
    while read -r pattern; do
        found=
        while read -r file; do
            case $file in $pattern) found=1 ;; esac
        done <"$out/files"
        [ "$found" ] || { echo "architecture.md names $pattern, which sinh did not need"; return 1; }
    done <"$out/patterns"
    [ "$(wc -l <"$out/files")" -ge 10 ]
}
ok "the list of files that an operation takes is that of sinh" named
plan
