#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The house style holds in every source file; and each rule finds a file that breaks it.
grep -q '^#define YK_SANITIZER "none"' "$YOKE_BUILD/config.h" ||
    { echo "1..0 # SKIP instrumented: the plain build's, as it runs no code of this one"; exit 0; }
echo "1..2"
cd "$YOKE_SOURCE" || exit 1
if out=$(python3 scripts/style); then
    echo "ok 1 - style"
else
    printf '%s\n' "$out" | sed 's/^/# /'
    echo "not ok 1 - style"
fi
tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
cd "$tree" && mkdir -p examples transport/local bench tests/support core/io core/job/team backends/cpu plugins/kit include/yoke || exit 1
spdx='/* SPDX-License-Identifier: Apache-2.0 */\n'
{
    printf "$spdx"'#include "core/run/run.h"\n/* left out, device word: a comment may say so */\n'
    printf 'static int take(int turned_rows)\n{\n    if(turned_rows)\n        return 1; \n'
    printf '\treturn ask("the device word \\"cppu:0\\"; if( is text");\n}\nSTART_TEST(pools)\n{\n}\nEND_TEST\n'
    printf 'static void rows_add(void)\n{\n'
    yes '    add();' | head -n 61
    printf '}\n/* %0141d */\nint x_of(int mail2_face);\n' 0
} >examples/bad.c
printf '#include "core/run/run.h"\n#include "core/base/mem.h"\nint f(void)\n{\n    abort();\n}\n' >transport/local/bad.c
{
    printf "$spdx"'/* Opens everything. */\nstatic void all_open(void)\n{\n'
    printf '    f = fopen(path, again ? "ae" : "w");\n    g = fopen(path, "wbxe");\n    fd = open(path, O_RDONLY);\n'
    printf '    fd = open(path, O_RDONLY | O_CLOEXEC);\n    fd = open(path, O_RDONLY); /* kept over exec: why */\n'
    printf '    pipe(end);\n    fd = dup(0);\n    fd = accept(listener, NULL, NULL);\n    fd = socket(AF_UNIX, SOCK_STREAM, 0);\n'
    printf '    fd = eventfd(0, EFD_NONBLOCK);\n    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);\n    once->found = open();\n'
    printf '    v = json_loads(text, 0, NULL);\n'
    printf '    if (s)\n        goto out;\n    s = s ? s : list->call(s);\n    name = name ? name : name_of(s);\nout:\n}\n'
} >plugins/kit/bad_open.c
printf "$spdx"'#include "tests/unit/x.h"\n#include "tests/support/kit.h"\n' >bench/bad.c
printf "$spdx"'#include "bench/x.h"\n' >tests/support/bad.h
printf "$spdx"'#include "core/job/job.h"\nint k; /* TO%s */\nspec = "cpu/2"; /* "cpu" */\n' DO >core/io/bad.c
printf "$spdx"'/* Rooms. */\n#include "core/job/session/open.h"\n#include "core/job/job.h"\n#include "transport/local/local.h"\n' \
    >core/job/team/bad_room.c
printf "$spdx"'/* Rooms. */\n#include "core/job/team/share.h"\n' >core/job/bad_folder.c
printf "$spdx"'/* Devices. */\n#include "backends/cuda/cuda.h"\n#include "backends/cpu/cpu.h"\n' >backends/cpu/bad_other.c
printf "$spdx"'#include <CL/cl.h>\n' >plugins/kit/bad.c
printf "$spdx"'/* What it opens; where else. */\nint k; /* [safe] Of the job, (whether open). */\n/* A file and whatever it holds. */\n' \
    >include/yoke/bad.h
printf '[a](bad.c), [b](http://x.org/y), [c](#here), [d](gone.md#part)\n' >bench/bad.md
cat >wanted <<'L'
backends/cpu/bad_other.c:3: a plugin may not include another one's backends/cuda/cuda.h
bench/bad.c:2: benches may include tests/support, not tests/unit/x.h
bench/bad.c:2: no purpose: a comment that says what the file is for, and why this way
bench/bad.md:1: the link leads nowhere: gone.md
core/io/bad.c:2: core/io may only include layers below it, not core/job/job.h
core/io/bad.c:2: no purpose: a comment that says what the file is for, and why this way
core/io/bad.c:3: a mark of unfinished work
core/io/bad.c:4: the core names no plugin: cpu
core/job/bad_folder.c:3: a room of core/job may only include rooms before it, not core/job/team/share.h
core/job/team/bad_room.c:3: a room of core/job may only include rooms before it, not core/job/session/open.h
core/job/team/bad_room.c:5: core may not include transport/local/local.h
examples/bad.c:11: the case pools should say the behaviour it pins, in two words at least
examples/bad.c:15: function of 61 lines, at most 60
examples/bad.c:2: examples may include only yoke/yoke.h, not core/run/run.h
examples/bad.c:2: no purpose: a comment that says what the file is for, and why this way
examples/bad.c:4: turned_rows: turned is no word of the field (transposed)
examples/bad.c:5: the static function take should be object_verb
examples/bad.c:6: a blank belongs behind if, for, while and switch
examples/bad.c:6: turned_rows: turned is no word of the field (transposed)
examples/bad.c:78: 147 columns, at most 140
examples/bad.c:79: mail2_face: face is no word of the field (view)
examples/bad.c:79: mail2_face: mail is no word of the field (small message)
examples/bad.c:7: blanks at the end of the line
examples/bad.c:8: "device word" is no phrase for a user
examples/bad.c:8: a tab
include/yoke/bad.h:2: plain language in include/yoke: a subject, then a verb, instead of "What .."
include/yoke/bad.h:2: plain language in include/yoke: a subject, then a verb, instead of "What .."
include/yoke/bad.h:2: plain language in include/yoke: a subject, then a verb, instead of "where .."
include/yoke/bad.h:3: plain language in include/yoke: a subject, then a verb, instead of "Of .."
include/yoke/bad.h:3: plain language in include/yoke: a subject, then a verb, instead of "whether .."
plugins/kit/bad.c:1: has the name of core/io/bad.c: choose another one
plugins/kit/bad.c:2: the kit knows no driver: <CL/
plugins/kit/bad.c:2: no purpose: a comment that says what the file is for, and why this way
plugins/kit/bad_open.c:10: a program started meanwhile would inherit it: pipe2 with O_CLOEXEC
plugins/kit/bad_open.c:11: a program started meanwhile would inherit it: F_DUPFD_CLOEXEC
plugins/kit/bad_open.c:12: a program started meanwhile would inherit it: SOCK_CLOEXEC
plugins/kit/bad_open.c:13: a program started meanwhile would inherit it: SOCK_CLOEXEC
plugins/kit/bad_open.c:14: a program started meanwhile would inherit it: its CLOEXEC
plugins/kit/bad_open.c:17: core/io/json.h instead of json_loads(..): without memory it would lose a letter or a key
plugins/kit/bad_open.c:19: guarded calls and one way out instead: if (!s) s = g(.., err);
plugins/kit/bad_open.c:20: guarded calls and one way out instead: if (!s) s = g(.., err);
plugins/kit/bad_open.c:5: a program started meanwhile would inherit it: an e in fopen's mode
plugins/kit/bad_open.c:7: a program started meanwhile would inherit it: O_CLOEXEC
tests/support/bad.h:2: what tests share may include core, tools and plugins, not bench/x.h
transport/local/bad.c:1: a transport may include core/base and core/net, not core/run/run.h
transport/local/bad.c:1: has the name of plugins/kit/bad.c: choose another one
transport/local/bad.c:1: no SPDX line
transport/local/bad.c:5: a library must not call abort
L
# shellcheck disable=SC2046
python3 "$YOKE_SOURCE/scripts/style" $(find . -name 'bad*.*' | cut -c3-) | LC_ALL=C sort >found
if LC_ALL=C sort wanted | diff - found >difference; then
    echo "ok 2 - each rule finds its breach"
else
    sed 's/^/# /' difference
    echo "not ok 2 - each rule finds its breach"
fi
