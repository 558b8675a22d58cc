#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Words of a plugin, which may have line ends, commands for a terminal, bytes that are no UTF-8, 100 KB, or other memory by the time that
# they are printed: name, architecture, version, log lines, reasons. Each output is UTF-8 without control characters, and JSON is JSON.
. "$YOKE_SOURCE/tests/cts/lib.sh"
mkdir "$WORK/plugins"
export YOKE_PLUGIN_DIR="$WORK/plugins"
cat >"$WORK/words.h" <<'END'
#define HOSTILE "a\033]0;pwn\007\nb\r\x9b" "31m\xc2\x9b\xff\xfe\xc3"
static char long_words[100001], version_words[4096];
static void words_make(void) /* the version changes after the start */
{
    memset(long_words, 'x', sizeof long_words - 1);
    memcpy(long_words, HOSTILE, sizeof HOSTILE - 1);
    memset(version_words, '\x9b', sizeof version_words); /* not terminated */
}
__attribute__((constructor)) static void words_begin(void)
{
    memcpy(version_words, "1.0" HOSTILE, sizeof HOSTILE + 3);
}
END
sed -e "/^#include <string.h>/r $WORK/words.h" -e 's/\.version = "1"/.version = version_words/' -e 's/\.isa = "c"}/.isa = HOSTILE}/' \
    -e 's/\.name = "one core, reference kernels"/.name = HOSTILE/' \
    -e '/^    host = h;$/a words_make(); host->log(0, long_words, "%s", long_words); host->log(0, "word", "%s", HOSTILE);' \
    -e '/^    p->graph = g;$/a host->fail(WHO, "%s", long_words + (g->n_node > 1)); if (FAILS) return YK_E_IO;' \
    "$YOKE_SOURCE/plugins/template/template.c" >"$WORK/words.c"
compile "$WORK/plugins/yoke_template.so" "$WORK/words.c" -pthread -DFAILS=1 -lm
result $? "a plugin with such words is built"

# clean CODE COMMAND..: it ends with that code; its output is UTF-8 of short lines without control characters
clean()
{
    wanted=$1
    shift
    "$YOKE_BUILD/$1" $2 $3 $4 $5 $6 $7 $8 $9 >"$WORK/out" 2>"$WORK/err"
    code=$?
    cat "$WORK/out" "$WORK/err" | python3 -c '
import sys
text = sys.stdin.buffer.read().decode("utf-8")
lines = text.split("\n")
assert lines and "pwn" in text, text
assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for line in lines for c in line), text
assert max(map(len, lines)) < 4096, max(map(len, lines))'
    clean=$?
    [ $clean -eq 0 ] && [ $code -eq "$wanted" ]
    clean=$?
    [ $clean = 0 ] || { echo "# exit code $code"; cat -v "$WORK/out" "$WORK/err" | cut -c1-400 | tail -5 | sed 's/^/# /'; }
    result $clean "$*"
}
clean 0 yoke info
clean 0 yoke info --json
python3 -m json.tool "$WORK/out" >"$WORK/pretty"
result $? "its JSON is JSON"
clean 1 yoke test --devices template:0
clean 1 yoke bench step --model mlp --devices template:0
clean 1 yoke-cts --plugin "$WORK/plugins/yoke_template.so" --group rebind
finish
