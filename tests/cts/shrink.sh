#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A random graph that fails is printed with six nodes at most, and the command beside it finds the failure again.
. "$YOKE_SOURCE/tests/cts/lib.sh"

# nodes: of the graphs in $WORK/err, as the graph's text says, with those of bodies; one line for each graph
nodes()
{
    awk '/^graph /{ if (n != "") print n; n = 0 } /^ *%[0-9]+ .* = / && !/ = (leaf|view) /{ n++ } END { if (n != "") print n }' "$WORK/err"
}

# small FAULT SOURCE WORDS: every graph that is printed has six nodes at most, and WORDS is said of one of them
small()
{
    fault=$1 words=$3
    compile "$WORK/yoke_bad.so" "$YOKE_SOURCE/tests/cts/$2" -pthread -DBREAK_"$fault" -lm || { result 1 "$fault is built"; return; }
    "$CTS" --plugin "$WORK/yoke_bad.so" --group random --count 24 --seed 7 >"$WORK/out" 2>"$WORK/err"
    [ $? -eq 1 ] && nodes >"$WORK/nodes" && [ -s "$WORK/nodes" ] && ! awk '$1 > 6 || $1 < 1' "$WORK/nodes" | grep -q . &&
        grep -q "random/graph.* of --seed 7, shrunk from [0-9]* to [1-6] nodes in [0-9]* runs" "$WORK/err" && grep -q "$words" "$WORK/err"
    found=$?
    [ $found -eq 0 ] || tail -30 "$WORK/err" | sed 's/^/# /'
    result $found "$fault: graphs of $(tr '\n' ' ' <"$WORK/nodes")nodes"
    sed -n 's/^yoke-cts: random.* again: yoke-cts //p' "$WORK/err" | head -1 >"$WORK/again"
    name=$(sed "s/.*--only '\([^']*\)'.*/\1/" "$WORK/again")
    cp "$WORK/err" "$WORK/before"
    eval "\"$CTS\" $(cat "$WORK/again")" >"$WORK/out" 2>"$WORK/err"
    [ $? -eq 1 ] && [ -n "$name" ] && grep -qF -- "- $name" "$WORK/out" && ! grep -q '^ok' "$WORK/out" &&
        [ "$(sed -n '/^graph/,/^yoke-cts/p' "$WORK/err")" = "$(sed -n '/^graph/,/^yoke-cts/p' "$WORK/before" | sed '/^yoke-cts/q')" ]
    result $? "$fault: the command that is printed gives that graph again ($name)"
}

small END broken.c '^%[0-9]* .* = '
small ARENA broken.c 'two arenas'
small CHAIN broken_graph.c '^%[0-9]* .* = '
small PAIR broken_graph.c ' = tanh('
small TURNED broken_graph.c ' = copy('

# Graphs of some 30 nodes, each of which takes 20 ms: 24 graphs would take minutes, were they all shrunk without an end.
compile "$WORK/yoke_bad.so" "$YOKE_SOURCE/tests/cts/broken_graph.c" -pthread -DBREAK_SLOW -lm || result 1 "SLOW is built"
"$CTS" --plugin "$WORK/yoke_bad.so" --group random --count 24 --timeout 1 >"$WORK/out" 2>"$WORK/err"
[ $? -eq 1 ] && [ "$(grep -c '^not ok.* - random/graph' "$WORK/out")" -eq 24 ] && ! grep -q killed "$WORK/out"
result $? "a slow device: the suite gets to its end, and shrinks for no longer than a point may take"
[ "$(grep -c ' again: ' "$WORK/err")" -eq 24 ] && [ "$(grep -c shrunk "$WORK/err")" -eq 3 ]
result $? "three graphs of a process are shrunk; a command is printed for each"
finish
