#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# scripts/count on a small tree whose figures were counted by hand.
grep -q '^#define YK_SANITIZER "none"' "$YOKE_BUILD/config.h" ||
    { echo "1..0 # SKIP instrumented: the plain build's, as it runs no code of this one"; exit 0; }
echo "1..2"
tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
mkdir "$tree/low" "$tree/high"
cat >"$tree/low/a.h" <<'C'
/* One line of comment. */
int low_add(int a, int b); // and another
C
cat >"$tree/low/a.c" <<'C'
#include "low/a.h"
#include "high/b.h"

static int take(int x)
{
    const char *brace = "{ /* no comment, no brace";
    return x + (brace[0] == '{');
}

int low_add(int a, int b)
{
    return take(a) + high_mul(b);
}
C
cat >"$tree/high/b.h" <<'C'
int high_mul(int a);
C
cat >"$tree/high/b.c" <<'C'
#include "high/b.h"
#include "low/a.h"

int high_mul(int a)
{
    return low_add(a, a) + low_add(a, 1);
}

START_TEST(pools)
{
    high_mul(1);
}
END_TEST
C
{ echo "static int long_one(void)"; echo "{"; yes '    ;' | head -61; echo "}"; } >"$tree/low/long.c"
out=$(python3 "$YOKE_SOURCE/scripts/count" --json "$tree") || exit 1
said() { printf '%s' "$out" | python3 -c "import json, sys; d = json.load(sys.stdin); a = d['folders']['all']; print($1)"; }
is() { # NUMBER NAME EXPRESSION WANTED
    got=$(said "$3")
    if [ "$got" = "$4" ]; then echo "ok $1 - $2"; else echo "not ok $1 - $2: $got, expected $4"; fi
}
is 1 figures "a['functions'], a['one_word'], a['cases'], a['over_60'], a['commented'], d['folders']['high']['one_word_percent']" \
    "5 2 1 1 2 50.0"
# high calls low three times and low calls high twice (each include is one): the weaker arrow is the one that runs back up
is 2 "arrows and circles" "d['upward'], d['circles']" "[['low', 'high', 2]] [['high/b', 'low/a']]"
