#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every command explains each of its options, as text and as a manual page; the two scripts explain themselves.
. "$YOKE_SOURCE/tests/golden/lib.sh"

helps() { # helps PROGRAM [COMMAND]: each option has a line with words behind it
    "$@" --help >"$out/help" && head -n 1 "$out/help" | grep -q '^usage: yoke' || return 1
    ! grep -E '^  --[a-z0-9-]+( [^ ]+)? *$' "$out/help" && ! grep -n '.\{150,\}' "$out/help"
}

manual() { # manual PROGRAM [COMMAND]: it has the sections of a page, and every option of --help
    "$@" --help | sed -n 's/^  --\([a-z0-9-]*\).*/\1/p' | grep -vx help >"$out/options"
    "$@" --man >"$out/page" || return 1
    for section in NAME SYNOPSIS DESCRIPTION; do grep -q "^.SH $section" "$out/page" || { echo "no $section"; return 1; }; done
    while read -r option; do
        grep -qF "$(printf '%s' "\\-\\-$option" | sed 's/\([a-z0-9]\)-/\1\\-/g')" "$out/page" || { echo "no --$option"; return 1; }
    done <"$out/options"
    command -v man >/dev/null 2>&1 || return 0
    MANROFFSEQ='' MANWIDTH=100 man --warnings -E UTF-8 -l "$out/page" 2>&1 >/dev/null | grep . && return 1
    return 0
}

for command in train eval predict info launch estimate-memory bench test plugin inspect tokenize; do
    ok "yoke $command --help" helps "$yoke" $command
    ok "yoke $command --man" manual "$yoke" $command
done
page() { # docs/from-huggingface.md: what it calls taken is taken, what it calls refused is refused, and all of that
    python3 - "$YOKE_SOURCE/docs/from-huggingface.md" "$yoke" <<'P'
import re, subprocess, sys
man = subprocess.run([sys.argv[2], "train", "--man"], capture_output=True, text=True, check=True).stdout.replace("\\-", "-")
options, refused = man.split(".SH REFUSED")
names = lambda text: {n for line in re.findall(r"^\.B (--.*)", text, re.M) for n in re.findall(r"--[a-z0-9-]+", line)}
taken, refused = names(options), names(refused)
page = open(sys.argv[1]).read()
table, _, rest = page.partition("## Taken")[2].partition("## Refused")
said = {n for row in re.findall(r"^\| (`--.*?) \|", table, re.M) for n in re.findall(r"--[a-z0-9-]+", row)}
no = set(re.findall(r"--[a-z0-9-]+", rest))
assert len(said) > 50 and said <= taken, said - taken
assert no == refused and len(no) > 80, no ^ refused
for name in set(re.findall(r"--[a-z][a-z0-9_-]*", page.split("```")[1])) - {"--json"}:
    assert name.replace("_", "-") in taken, name
P
}
ok "the page for users of Hugging Face names what there is" page
ok "yoke --help" "$yoke" --help
ok "yoke-cts --help" helps "$YOKE_BUILD/yoke-cts"
ok "yoke-cts --man" manual "$YOKE_BUILD/yoke-cts"
ok "./quickstart --help" sh "$YOKE_SOURCE/quickstart" --help
ok "./check --help" sh "$YOKE_SOURCE/check" --help
usage() {
    sh "$YOKE_SOURCE/$1" --nosuch
    [ $? = 2 ]
}
ok "./quickstart refuses what it does not know" usage quickstart
ok "./check refuses what it does not know" usage check
plan
