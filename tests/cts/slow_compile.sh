#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A compilation in which the process computes nothing, as where a service compiles, ends a job of several ranks after YOKE_STUCK_MS; not
# where the device's estimate allows for it (yk_device_caps.compile_ms). It is said how far a long one is. Such a device gets multiples of
# its row_quantum, and its usual rows of a short batch, or none.
. "$YOKE_SOURCE/tests/cts/lib.sh"
mkdir "$WORK/plugins"
cp "$YOKE_BUILD/.libs/yoke_cpu.so" "$WORK/plugins/"
export YOKE_PLUGIN_DIR="$WORK/plugins"
# The start-up probe's program takes 6 s, and the first with parameters 13 s.
cat >"$WORK/sleeps" <<'END'
    static int probed, trained;
    bool trains = false;
    for (uint32_t i = 0; i < g->n_slot; i++)
        trains |= g->slot[i].kind == YK_SLOT_PARAM;
    if (NAPS && !probed++)
        sleep(6);
    if (NAPS && trains && !trained++)
        sleep(13);
END
sed -e "/^    p->graph = g;\$/r $WORK/sleeps" -e 's/\.isa = "c"}/.isa = "c", .compile_ms = ESTIMATE, .row_quantum = QUANTUM}/' \
    "$YOKE_SOURCE/plugins/template/template.c" >"$WORK/slow.c"
grep -q 'sleep(13)' "$WORK/slow.c" && grep -q ESTIMATE "$WORK/slow.c"
result $? "the template is made slow"

# job ESTIMATE QUANTUM NAPS ITERATIONS ROWS: exit code of a job beside a rank of the CPU plugin; its words in $WORK/out
job()
{
    compile "$WORK/plugins/yoke_template.so" "$WORK/slow.c" -pthread "-DESTIMATE=$1" "-DQUANTUM=$2" "-DNAPS=$3" -lm &&
        YOKE_STUCK_MS=$STUCK_MS YOKE_LOG=debug "$YOKE_BUILD/yoke" bench step --devices "cpu:0! template:0!" --iterations "$4" --model mlp \
            --model-config hidden=16 --global-batch "$5" >"$WORK/out" 2>&1
    code=$?
}

# said NAME CODE PATTERN...: the last job ended with that code, 0 or 1, and each pattern is in its words
said()
{
    name=$1
    failed=0
    [ $((code != 0)) = "$2" ] || failed=1
    shift 2
    for pattern in "$@"; do
        grep -q "$pattern" "$WORK/out" || { echo "# not said: $pattern"; failed=1; }
    done
    [ $failed = 0 ] || sed 's/^/# /' "$WORK/out"
    result $failed "$name"
}

STUCK_MS=4000
job 0 0 1 1 4
said "a compilation that takes longer than YOKE_STUCK_MS ends the job" 1 'made no progress in compiling a program for 4.*(YOKE_STUCK_MS)'
job 3000 0 1 1 4
said "not where the device's estimate allows for it, nor in the start-up probe; that it compiles is said" 0 \
    'has been in compiling a program for .*the job ends when it has been so for 60 s, which its device allows' \
    'template:0 compiles segment 1 of 1, 10 s so far'
STUCK_MS=60000
job 0 24 0 12 72 # alone in a trial it has all rows, three quanta
said "a job with a quantum runs" 0 'shares (parts of the optimizer): [1-9]'
# rows of rank 1 in each line of shares
sed -n 's/.*shares (parts of the optimizer): [0-9]* ([0-9.]*) \([0-9]*\) .*/\1/p' "$WORK/out" >"$WORK/rows"
echo "# rows: $(tr '\n' ' ' <"$WORK/rows")"
[ -s "$WORK/rows" ] && awk '$1 % 24 { exit 1 }' "$WORK/rows"
result $? "its device gets multiples of it"

# An evaluation's batches of 72 rows and its last one of 20: the device has the usual rows or none, as the other rank can take 20.
python3 - "$WORK" <<'P'
import sys
for part, rows in (("train", 72), ("t10k", 92)):
    size = lambda *n: b"".join(k.to_bytes(4, "big") for k in n)
    with open(f"{sys.argv[1]}/{part}-images-idx3-ubyte", "wb") as file:
        file.write(b"\0\0\x08\x03" + size(rows, 28, 28) + bytes(i % 251 for i in range(rows * 784)))
    with open(f"{sys.argv[1]}/{part}-labels-idx1-ubyte", "wb") as file:
        file.write(b"\0\0\x08\x01" + size(rows) + bytes(i % 10 for i in range(rows)))
P
# short NAME DEVICES RANK: programs of that rank
short()
{
    YOKE_LOG=debug "$YOKE_BUILD/yoke" train --devices "$2" --model mlp --model-config hidden=16 --data "idx:$WORK" --global-batch 72 \
        --max-steps 1 --overwrite-output-dir --output-dir "$WORK/model" >"$WORK/out" 2>&1
    failed=$?
    programs=$(grep -c "^yoke$3: engine: program [0-9]*: " "$WORK/out")
    [ $failed = 0 ] && grep -q 'step 1: eval loss' "$WORK/out" && [ "$programs" = 2 ]
    failed=$?
    [ $failed = 0 ] || sed 's/^/# /' "$WORK/out"
    result $failed "$1 is no program more: $programs, one of training and one of evaluation"
}
short "a short last batch" "cpu:0! template:0!" '\[1\]'
short "one of a rank alone, with padding," template:0 '[][0-9]*'

# stopped NAME WORDS COMMAND..: the command ends within 20 s with exit code 1 and one line, which has the words
stopped()
{
    name=$1
    words=$2
    shift 2
    begun=$(date +%s)
    YOKE_STUCK_MS=2000 timeout -s KILL 60 "$@" >"$WORK/out" 2>&1
    code=$?
    [ $code -eq 1 ] && [ $(($(date +%s) - begun)) -le 20 ] && grep -q "no progress in $words" "$WORK/out" &&
        [ "$(wc -l <"$WORK/out")" -eq 1 ]
    stopped=$?
    [ $stopped = 0 ] || { echo "# exit code $code"; sed 's/^/# /' "$WORK/out"; }
    result $stopped "a rank alone, $words: $name"
}
cat >"$WORK/hangs" <<'END'
    if (HANGS)
        for (;;)
            sleep(1);
END
# hung BEGIN: a plugin that hangs at the beginning of that function
hung()
{
    awk -v begin="^static yk_status $1" -v file="$WORK/hangs" '{ print } $0 ~ begin { inside = 1 }
        inside && /^{/ { while ((getline line < file) > 0) print line; inside = 0 }' \
        "$YOKE_SOURCE/plugins/template/template.c" >"$WORK/hung.c"
    compile "$WORK/plugins/yoke_template.so" "$WORK/hung.c" -pthread -DHANGS=1 -lm
    result $? "a plugin that hangs in $1 is built"
}
# A program of ours. With an argument its log takes the line: "log", or never returns: "held".
cat >"$WORK/program.c" <<'END'
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <yoke/yoke.h>

static void line_take(void *held, const char *line)
{
    while (held)
        sleep(1);
    printf("log: %s\n", line);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const float v[2] = {1, 2};
    if (argc > 1)
        yk_set_log(line_take, strcmp(argv[1], "held") ? NULL : argv[1]);
    for (int i = 0; i < 2; i++) { /* with the second job the watch begins anew */
        yk_job *job = yk_open(&(yk_config){.devices = i ? "template:0" : "cpu:0", .quiet = true});
        yk_t w = yk_param(job, "w", 1, (const int64_t[]){2}, (yk_init){YK_INIT_ONES, 0, 0});
        yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
        yk_backward(yk_mean(yk_mul(w, yk_input(job, YK_F32, 1, (const int64_t[]){2}, v)), 1, false));
        yk_step(opt);
        if (yk_close(job))
            return 3;
    }
    return 0;
}
END
${CC:-gcc} $SANITIZE -o "$WORK/program" -I"$YOKE_SOURCE/include" "$WORK/program.c" -L"$YOKE_BUILD/.libs" -lyoke \
    "-Wl,-rpath,$YOKE_BUILD/.libs"
result $? "a program is built"
yoke=$YOKE_BUILD/yoke
hung device_count
stopped "a program" 'opening its device for 2.*driver' "$WORK/program"
hung device_open
stopped "yoke bench" 'opening its device for 2.*driver' "$yoke" bench step --devices template:0 --model mlp --model-config hidden=16
stopped "yoke test" 'opening its device for 2.*driver' "$yoke" test --devices template:0
stopped "a program of one launched rank" 'opening its device for 2.*driver' env YOKE_RANK=0 YOKE_SIZE=1 "$WORK/program"
hung program_new
stopped "yoke bench" 'compiling a program for 2.*compiler' "$yoke" bench step --devices template:0 --model mlp --model-config hidden=16
stopped "yoke test" 'compiling a program for 2.*compiler' "$yoke" test --devices template:0
stopped "a program, in a step" 'compiling a program for 2.*compiler' env YOKE_PROBE=off "$WORK/program"
stopped "a program with a log of its own" 'compiling a program for 2.*compiler' "$WORK/program" log
sed 's/^/# /' "$WORK/out"
grep -q '^log: yoke: no progress' "$WORK/out"
result $? "its log takes the line"
stopped "a program whose log never returns" 'compiling a program for 2.*compiler' "$WORK/program" held
YOKE_STUCK_MS=0 timeout 4 "$WORK/program" >"$WORK/out" 2>&1
[ $? -eq 124 ] && [ ! -s "$WORK/out" ]
result $? "YOKE_STUCK_MS=0: nobody ends it"
finish
