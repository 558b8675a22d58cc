#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a user ships: make install-strip leaves no symbols, and the core library has at most 1.25 MB, with the CPU plugin 2.5 MB.
. "$YOKE_SOURCE/tests/golden/lib.sh"
if instrumented; then
    echo "1..0 # SKIP instrumented: sizes are not those of a user"
    exit 0
fi

ok "make install-strip" env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -C "$YOKE_BUILD" -s install-strip DESTDIR="$out/root"

stripped() { # each program and shared object: no table of symbols but the dynamic one
    find "$out/root" -type f \( -path '*/bin/*' -o -name '*.so' -o -name '*.so.*' \) >"$out/files"
    [ "$(wc -l <"$out/files")" -ge 4 ] || { cat "$out/files"; return 1; }
    while read -r file; do
        readelf -S -W "$file" >"$out/sections" 2>&1 || return 1
        ! grep -q '\.symtab' "$out/sections" || { echo "$file has symbols"; return 1; }
    done <"$out/files"
}
ok "no symbols are installed" stripped

manual() { # of the user's functions, where python3 could make it
    grep -q '^PYTHON3 = *$' "$YOKE_BUILD/Makefile" && return
    [ "$(grep -c '^\.B ' "$(find "$out/root" -path '*/man3/yoke.h.3')")" -ge 150 ]
}
ok "the manual page of the functions is installed" manual

pages() { # of a single function, found by its name and with its own words
    grep -q '^PYTHON3 = *$' "$YOKE_BUILD/Makefile" && return
    at=$(dirname "$(find "$out/root" -path '*/man3/yoke.h.3')")
    grep -q '^"Collective." *collective, as in MPI' "$at/yoke.h.3" &&
        ! grep -q '\[all\]\|\[waits\]\|\[safe\]' "$at"/*.3 || return 1
    [ "$(find "$at" -name 'yk_*.3' | wc -l)" -ge 150 ] && grep -q 'reduce over ranks, clip, update' "$at/yk_step.3" || return 1
    command -v man >/dev/null 2>&1 || return 0
    man -M "$(dirname "$at")" yk_step 2>&1 | grep -q 'yk_step(yk_opt' || return 1
    ! man --warnings -E UTF-8 -l "$at/yk_step.3" 2>&1 >/dev/null | grep .
}
ok "man yk_step finds its function" pages

documents() { # each file that README, a page or a decision links to lies where the link says
    folder=$(dirname "$(find "$out/root" -path '*/doc/yoke/README.md')")
    (cd "$folder" && grep -or '](\([^)#: ]*\)' --include=*.md . | sed 's/:\](/ /' | grep -v ' $' | sort -u) >"$out/links"
    [ "$(grep -c '^./README.md ' "$out/links")" -ge 35 ] && [ "$(wc -l <"$out/links")" -ge 100 ] || return 1
    while read -r page link; do
        [ -e "$folder/$(dirname "$page")/$link" ] || echo "$page: $link is not installed"
    done <"$out/links" >"$out/dead"
    cat "$out/dead"
    [ ! -s "$out/dead" ]
}
ok "documents and examples are installed" documents

completes() { # completes EXPECTED WORD...: what bash is offered for the last word
    command -v bash >/dev/null 2>&1 || return 0
    expected=$1
    shift
    bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _yoke; echo ${COMPREPLY[*]}' bash \
        "$(find "$out/root" -path '*/bash-completion/completions/yoke')" "$@" >"$out/offered"
    cat "$out/offered"
    [ "$(cat "$out/offered")" = "$expected" ]
}
ok "bash completes a command" completes estimate-memory yoke est
ok "bash completes an option" completes "--label-smoothing-factor --label-smoothing" yoke train --label-
ok "bash completes a name of another program" completes "--model-name-or-path" yoke train --model-name-o
ok "bash completes a word" completes "steps" yoke train --eval-strategy st

small() {
    core=$(find "$out/root" -type f -name 'libyoke.so*' -exec wc -c {} + | awk '{print $1}')
    cpu=$(find "$out/root" -type f -name yoke_cpu.so -exec wc -c {} + | awk '{print $1}')
    echo "libyoke $core bytes, yoke_cpu $cpu bytes"
    [ "$core" -gt 300000 ] && [ "$core" -le 1250000 ] && [ "$((core + cpu))" -le 2500000 ]
}
ok "core library at most 1.25 MB, with the CPU plugin 2.5 MB" small

moved() { # COMMAND..: with what lies beside, wherever it was installed
    env -u YOKE_PLUGIN_DIR "$@" info --kinds >"$out/kinds" 2>&1
    cat "$out/kinds"
    grep -qx cpu "$out/kinds"
}
ok "what is installed works, in another place too" moved "$(find "$out/root" -path '*/bin/yoke')"
mv "$out/root" "$out/elsewhere" && ln -s "$(find "$out/elsewhere" -path '*/bin/yoke')" "$out/link"
ok "and over a link" moved "$out/link"
ok "what is built works before it is installed" moved "$YOKE_BUILD/yoke"

library() { # a program over libyoke.so, which lies elsewhere
    at=$(dirname "$(find "$out/elsewhere" -name libyoke.so)")
    printf '%s\n' '#include <yoke/yoke.h>' 'int main(void)' '{' \
        '    yk_job *job = yk_open(&(yk_config){.devices = "cpu"});' '    return yk_close(job);' '}' >"$out/one.c" &&
        ${CC:-cc} -o "$out/one" -I"$YOKE_SOURCE/include" "$out/one.c" -L"$at" -lyoke || return 1
    env -u YOKE_PLUGIN_DIR LD_LIBRARY_PATH="$at" "$out/one"
}
ok "a program over a library in another place" library

alone() { # WORDS COMMAND..: refused, in words that say what to do
    words=$1
    shift
    env -u YOKE_PLUGIN_DIR "$@" >"$out/said" 2>&1
    code=$?
    cat "$out/said"
    [ $code != 0 ] && grep -q "$words" "$out/said"
}
advice="'make install' puts plugins there, and YOKE_PLUGIN_DIR names another folder"
mkdir "$out/bare" && cp "$YOKE_BUILD/yoke" "$out/bare"
if "$out/bare/yoke" --help >/dev/null 2>&1 && [ ! -e "$(sed -n 's/^prefix = //p' "$YOKE_BUILD/Makefile")/lib/yoke" ]; then
    ok "a program alone says what to do" alone "there is no plugin \"cpu\" in .*; there are: none: $advice" \
        "$out/bare/yoke" launch --devices cpu true
    ok "and so where any device will do" alone "no device was found: there is no plugin in .*: $advice" "$out/bare/yoke" launch true
    ok "a folder without plugins" alone "in $out/bare; there are: none: YOKE_PLUGIN_DIR is that folder" \
        env YOKE_PLUGIN_DIR="$out/bare" "$out/bare/yoke" launch --devices cpu true
else
    skip "a program alone says what to do" "Yoke is installed on this machine"
fi
plan
