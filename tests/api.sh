#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The public header, what is made of it, and the library are one: every exported function is declared, described, and noted with the
# caller's line if it may fail; what its tags say is what the sources do.
grep -q '^#define YK_SANITIZER "none"' "$YOKE_BUILD/config.h" ||
    { echo "1..0 # SKIP instrumented: the plain build's, as it runs no code of this one"; exit 0; }
. "$YOKE_SOURCE/tests/golden/lib.sh"
api=$YOKE_SOURCE/scripts/api
library=$(find "$YOKE_BUILD/.libs" -name 'libyoke.so*' -type f)

current() { # current NAME
    python3 "$api" "$1" >"$out/$1.h" || return 1
    diff "$YOKE_SOURCE/include/yoke/$1.h" "$out/$1.h" || { echo "run: scripts/api $1 >include/yoke/$1.h"; return 1; }
}
for name in here cxx_names cxx; do
    ok "$name.h is what scripts/api makes of yoke.h" current "$name"
done

exported() { # apart from scripts/api: the names that the library gives a program
    nm -D --defined-only "$library" | awk '$2 == "T" && $3 ~ /^yk_[a-z]/ { print $3 }' | sort -u >"$out/exported"
    [ "$(wc -l <"$out/exported")" -ge 150 ]
}
ok "the library exports functions" exported

declared() {
    python3 "$api" list | awk '{ print $1 }' | sort | diff "$out/exported" -
}
ok "yoke.h declares what is exported and nothing else" declared

described() { # each line .B has a text below it, of its own or of those it stands with
    python3 "$api" man >"$out/yoke.h.3" || return 1
    awk '/^\.B / { name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name); names = names name "\n"; next }
        /^\.T[PQ]$/ { next }
        names { if (length($0) > 3) printf "%s", names; names = "" }' "$out/yoke.h.3" | sort | diff "$out/exported" -
}
ok "the manual page describes every one" described

rendered() {
    command -v groff >"$out/log" || return 0
    groff -man -Tutf8 -k -ww -z "$out/yoke.h.3" 2>"$out/warnings"
    ! grep . "$out/warnings"
}
ok "the manual page has no faults" rendered

noted() { # a program's call of a function that may fail goes through yk_here, and none of a safe one
    python3 "$api" list | awk '$NF != "[safe]" { print $1 }' >"$out/may_fail"
    { echo '#include <yoke/yoke.h>'; sed 's/.*/CALL &(1)/' "$out/exported"; } >"$out/calls.c"
    "${CC:-cc}" -I"$YOKE_SOURCE/include" -E -P "$out/calls.c" |
        sed -n 's/^CALL (yk_here(.*), (\(yk_[a-z0-9_]*\))(1\(, sizeof([a-z0-9_]*)\)\{0,1\}))$/\1/p' | sort >"$out/noted"
    sort "$out/may_fail" | diff - "$out/noted"
}
ok "calls that may fail note the caller's line" noted

# Apart from scripts/api: a function that takes a struct of settings, or fills one, takes its size last, and its macro passes that.
sized() {
    "${CC:-cc}" -I"$YOKE_SOURCE/include" -DYK_NO_HERE -E -P -x c - <<'C' | tr -d '\n' | tr ';' '\n' >"$out/declared"
#include <yoke/yoke.h>
C
    sed -n 's/.*[ *]\(yk_[a-z0-9_]*\)(.*\(yk_[a-z0-9_]*config\|yk_memory\) \*[a-z]*\(.*\))$/\1 \2 \3/p' "$out/declared" |
        sort >"$out/takes"
    [ "$(wc -l <"$out/takes")" -ge 17 ] || return 1
    ! grep -v ' ,\(.*,\)\{0,1\} *size_t size$' "$out/takes" || return 1
    { echo '#include <yoke/yoke.h>'; sed 's/ .*//; s/.*/CALL &(1)/' "$out/takes"; } >"$out/calls.c"
    "${CC:-cc}" -I"$YOKE_SOURCE/include" -DYK_NO_HERE -E -P "$out/calls.c" | grep '^CALL ' >"$out/passes"
    sed 's/^\([^ ]*\) \([^ ]*\) .*/CALL (\1)(1, sizeof(\2))/' "$out/takes" | diff - "$out/passes"
}
ok "each struct travels with its size" sized

called() { # by a program of the tree; yk_data_each is called by yk_each, yk_here by every macro
    (
        cd "$YOKE_SOURCE" || exit 1
        find tools models examples bench tests -name '*.c' -exec cat {} +
        cat include/yoke/here.h
        sed -n '/^#define yk_each/,$p' include/yoke/yoke.h
    ) | grep -o 'yk_[a-z0-9_]*)\{0,1\}(' | tr -d '()' | sort -u >"$out/called"
    comm -23 "$out/exported" "$out/called" >"$out/uncalled"
    ! grep . "$out/uncalled"
}
ok "a program calls every function" called

whole_objects() { # a plugin or transport that is loaded needs no function of ours beside those that libyoke.so exports
    for object in "$YOKE_BUILD"/.libs/yoke_*.so "$YOKE_BUILD"/.libs/transport_*.so; do
        [ ! -f "$object" ] || nm -D --undefined-only "$object" | awk -v of="${object##*/}" '$2 ~ /^yk__/ { print of, $2 }'
    done >"$out/needs"
    ! grep . "$out/needs"
}
ok "no plugin or transport lacks a function of the core" whole_objects

ok "tags are what the sources do" python3 "$api" check

mkdir "$out/tree" && cp -r "$YOKE_SOURCE/scripts" "$YOKE_SOURCE/include" "$YOKE_SOURCE/core" "$YOKE_SOURCE/models" "$out/tree"
wrong() { # wrong FUNCTION TAGS TEXT: with such a comment above it the check fails with the text
    cp "$YOKE_SOURCE/include/yoke/yoke.h" "$out/tree/include/yoke/yoke.h"
    sed -i "s|^YK_API .*[ *]$1(|\n/* $2 x */\n&|" "$out/tree/include/yoke/yoke.h"
    ! python3 "$out/tree/scripts/api" check >"$out/said" && cat "$out/said" && grep -q "^$1 $3" "$out/said"
}
ok "a function that fails is not safe" wrong yk_relu "[safe]" "is \[safe\] and reaches"
ok "a collective is tagged" wrong yk_barrier "[waits]" "is not \[all\] and reaches"
ok "what talks to nobody is not" wrong yk_rank "[all] [waits] [safe]" "is \[all\] and reaches no collective"
plan
