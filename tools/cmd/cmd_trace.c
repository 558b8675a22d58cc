/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command yoke trace: runs a program whose ranks trace some steps each (core/run/tracer.c), and joins the traces to one file. yoke.c
 * calls it by its table of commands, in the main thread; the exit code is the program's.
 */
#define _GNU_SOURCE /* memmem */
#include "tools/cli.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/nearest.h"
#include "core/control/control.h" /* YK__RANKS */
#include "core/io/folder.h"
#include "core/io/json.h"

static const yk__cli_option options[] = {
    {"output", "FILE", "trace.json", "where the trace goes", NULL},
    {"steps", "N", "3", "steps that are traced", NULL},
    {"skip", "N", "10", "steps before them: programs are compiled and shares settle in the first ones", NULL},
};

static const yk__cli_command command = {
    .name = "trace",
    .usage = "[--output FILE] [--steps N] [--skip N] [--] PROGRAM [ARGUMENTS]",
    .summary = "run a program and write a timeline of some of its steps",
    .text =
        "PROGRAM is run as it is given ('yoke trace -- yoke train --model mlp ..') and starts its ranks itself. The trace is in the "
        "Chrome trace format, for chrome://tracing or ui.perfetto.dev. Each rank is a process with four lanes: host (steps, and the "
        "step thread's waits for other ranks), compute (the device's programs: the segments of a step, and its update), copies "
        "(between device and host), and wire (the exchange of each bucket, from its begin until it is done, whoever drives it: "
        "reduce_scatter of gradients, all_gather of parameters, all_reduce inside a step).\n"
        "\n"
        "The trace makes no rank wait. Programs and copies are shown as the device's own clock has them. If a device has no clock, its "
        "compute lane says so, and shows when work was submitted and when it was seen to be done. A step is shown from "
        "the end of the last update's submission to that of its own. Times of ranks of one host are of one clock; those of other hosts are "
        "not compared.\n"
        "\n"
        "Only ranks that write to this machine's files are joined: each writes FILE.part-NUMBER.RANK, which is removed once FILE has it "
        "(YOKE_TRACE, YOKE_TRACE_STEPS, YOKE_TRACE_SKIP). "
        "SIGTERM, SIGHUP and SIGUSR1 are passed on to PROGRAM, and what its ranks have written is joined. "
        "The exit code is the program's, or 1 if no rank has written a trace.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .least = 1,
    .most = -1,
    .rest = true,
};

/* ---- The program ---- */

static volatile sig_atomic_t program; /* process id */

/* A sender to the whole process group, as timeout(1) is, reaches the program itself. So the signal is marked as passed on (SI_QUEUE), which
 * is no second one to yoke train and yoke launch. */
static void signal_pass(int sig)
{
    sigqueue((pid_t)program, sig, (union sigval){0});
}

/* Starts the program, to which signals but those of a terminal are passed on; signals that were ignored are still so. */
static pid_t start_program(void)
{
    static const int passed[] = {SIGTERM, SIGHUP, SIGUSR1};
    sigset_t set, before;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        sigaddset(&set, passed[i]);
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    sigprocmask(SIG_BLOCK, &set, &before);
    const pid_t child = fork();
    program = child;
    for (size_t i = 0; i < sizeof passed / sizeof *passed && child > 0; i++)
        if (signal(passed[i], signal_pass) == SIG_IGN)
            signal(passed[i], SIG_IGN);
    if (child == 0) {
        signal(SIGINT, SIG_DFL);
        signal(SIGQUIT, SIG_DFL);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return child;
}

/* Returns the program's exit code. A signal ends the program, and this command after it, which joins what there is. */
static int run_program(char **argv)
{
    int status = 0;
    const pid_t child = start_program();
    if (child == 0) {
        execvp(argv[0], argv);
        fprintf(stderr, "yoke trace: %s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (child < 0)
        fprintf(stderr, "yoke trace: starting %s: %s\n", argv[0], strerror(errno));
    return child < 0 ? YK_EXIT_FAILED : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- The files ---- */

/* False if the rank has written no part, or not a whole one. */
static bool join_part(const char *parts, unsigned rank, json_t *events)
{
    char *path = yk__format("%s.%u", parts, rank);
    yk_error why = YK_ERROR_INIT;
    const bool there = path && !access(path, F_OK);
    json_t *part = NULL;
    if (there)
        yk__json_load(path, 0, &part, &why);
    const bool joined = part && !json_array_extend(events, json_object_get(part, "traceEvents"));
    if (there && !joined)
        fprintf(stderr, "yoke trace: %s%s: the trace lacks rank %u\n", part ? path : why.text, part ? ": it holds no events" : "", rank);
    json_decref(part);
    yk__free(path);
    return joined;
}

static void remove_parts(const char *parts, const bool *joined)
{
    for (unsigned rank = 0; rank < YK__RANKS; rank++) {
        char *path = joined[rank] ? yk__format("%s.%u", parts, rank) : NULL;
        if (path)
            unlink(path);
        yk__free(path);
    }
}

static int join_parts(const char *output, const char *parts)
{
    json_t *events = json_array(), *whole;
    bool joined[YK__RANKS];
    unsigned ranks = 0;
    yk_error err = YK_ERROR_INIT;
    for (unsigned rank = 0; rank < YK__RANKS; rank++) /* some may write on other hosts */
        ranks += joined[rank] = join_part(parts, rank, events);
    whole = json_pack("{s:o, s:s}", "traceEvents", events, "displayTimeUnit", "ms");
    char *text = ranks ? yk__json_dump(whole, JSON_COMPACT) : NULL;
    if (ranks && !text)
        yk__fail_mem(&err, 0, output);
    else if (ranks)
        yk__folder_write_file(output, text, strlen(text), &err);
    const bool failed = !ranks || err.status;
    if (!ranks)
        fprintf(stderr, "yoke trace: the program has written no trace: it made no step with Yoke, or ended before\n");
    else if (failed)
        fprintf(stderr, "yoke trace: %s; the ranks' traces stay in %s.*\n", err.text, parts);
    else
        fprintf(stderr, "yoke trace: %s holds %zu events of %u rank%s\n", output, json_array_size(events), ranks, ranks > 1 ? "s" : "");
    if (!failed)
        remove_parts(parts, joined);
    yk__free(text);
    json_decref(whole);
    return failed ? YK_EXIT_FAILED : YK_EXIT_OK;
}

/* No other file has this name: a name such as FILE.0 may be the user's. Parts of a trace for a device or an open file, such as /dev/stdout,
 * lie in the current folder. */
static char *parts_name(const char *output)
{
    char real[PATH_MAX];
    const char *base = yk__folder_file(output, real) && !yk__folder_keeps(real) ? output : "trace.json";
    return yk__format("%s.part-%llx%x", base, (unsigned long long)time(NULL), (unsigned)getpid());
}

/* False after a message if the trace would replace a file that is no trace: PROGRAM may read it, by whatever option, variable or folder. */
static bool target_check(const char *output)
{
    char real[PATH_MAX], head[4097] = "";
    struct stat st;
    FILE *f = yk__folder_file(output, real) && !stat(real, &st) && S_ISREG(st.st_mode) ? fopen(real, "re") : NULL;
    const size_t n = f ? fread(head, 1, sizeof head - 1, f) : 0;
    if (f)
        fclose(f);
    if (!n || memmem(head, n, "\"traceEvents\"", 13))
        return true;
    yk__cli_usage(&command, "--output %s: is there and is no trace, and would be lost: name another file, or remove it", output);
    return false;
}

int yk__cmd_trace(int argc, char **argv)
{
    yk__cli cli;
    bool bad = false;
    const int done = yk__cli_parse(&command, argc, argv, &cli);
    int code, joined;
    char *parts;
    if (done >= 0)
        return done;
    yk__cli_int(&cli, "steps", 1, 1000, &bad);
    yk__cli_int(&cli, "skip", 0, INT64_C(1) << 40, &bad);
    if (bad || !target_check(yk__cli_text(&cli, "output")))
        return YK_EXIT_USAGE;
    parts = parts_name(yk__cli_text(&cli, "output"));
    if (!parts || setenv("YOKE_TRACE", parts, 1)) {
        fprintf(stderr, "yoke trace: out of memory\n");
        yk__free(parts);
        return YK_EXIT_FAILED;
    }
    setenv("YOKE_TRACE_STEPS", yk__cli_text(&cli, "steps"), 1);
    setenv("YOKE_TRACE_SKIP", yk__cli_text(&cli, "skip"), 1);
    code = run_program(cli.positional);
    joined = join_parts(yk__cli_text(&cli, "output"), parts);
    yk__free(parts);
    return code ? code : joined;
}
