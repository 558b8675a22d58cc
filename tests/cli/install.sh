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

small() {
    core=$(find "$out/root" -type f -name 'libyoke.so*' -exec wc -c {} + | awk '{print $1}')
    cpu=$(find "$out/root" -type f -name yoke_cpu.so -exec wc -c {} + | awk '{print $1}')
    echo "libyoke $core bytes, yoke_cpu $cpu bytes"
    [ "$core" -gt 300000 ] && [ "$core" -le 1250000 ] && [ "$((core + cpu))" -le 2500000 ]
}
ok "core library at most 1.25 MB, with the CPU plugin 2.5 MB" small

works() { # from where it was installed, with what lies beside
    plugins=$(dirname "$(find "$out/root" -name yoke_cpu.so)")
    YOKE_PLUGIN_DIR=$plugins "$(find "$out/root" -path '*/bin/yoke')" info --kinds >"$out/kinds" && grep -qx cpu "$out/kinds"
}
ok "what is installed works" works
plan
