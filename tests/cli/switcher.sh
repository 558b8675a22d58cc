#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Command lines that users of other trainers type: each runs, or one message says at once all that is not there. Those that are told all go;
# of those that run every third, under a sanitizer every ninth, and all with YOKE_TEST_LONG=1.
. "$YOKE_SOURCE/tests/cli/lib.sh"
need_data switcher models
lines=$data/switcher
mkdir -p "$out/switcher" || exit 1
cp "$lines/try.py" "$out/switcher" || exit 1

goes() { # goes LINES: try.py finds no fault in them
    cp "$1" "$out/switcher/lines.txt" && YOKE=$YOKE_BUILD/yoke YOKE_TEST_DATA=$data python3 "$out/switcher/try.py"
}
grep '^told' "$lines/lines.txt" >"$out/told"
every=$([ "${YOKE_TEST_LONG:-0}" = 1 ] && echo 1 || { instrumented && echo 9 || echo 3; })
grep '^run' "$lines/lines.txt" | awk -v every="$every" 'NR % every == 0 || /estimate-memory/' >"$out/run"
knows() { # each option of switcher.txt has its equivalent here or the reason, none is unknown
    grep -v '^#' "$YOKE_SOURCE/tests/cli/switcher.txt" >"$out/other"
    (cd "$out/switcher" && while read -r line; do
        # shellcheck disable=SC2086
        "$yoke" $line >"$out/said" 2>&1 </dev/null
        code=$?
        if [ $code != 2 ] || grep -qE "unknown|are one option" "$out/said"; then
            echo "$line: exit code $code"
            cat "$out/said"
            return 1
        fi
    done <"$out/other")
}
ok "every option is known, if only by the reason against it" knows
ok "what is not there is told at once, all of it" goes "$out/told"
ok "what is there runs" goes "$out/run"
plan
