/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command yoke trace: runs a program whose ranks trace some steps each (core/run/tracer.c), and joins the traces to one file. yoke.c
 * calls it by its table of commands, in the main thread; the exit code is the program's.
 */
#include "tools/cli.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/nearest.h"

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
        "Only ranks that write to this machine's files are joined: each writes FILE.RANK (YOKE_TRACE, YOKE_TRACE_STEPS, YOKE_TRACE_SKIP). "
        "The exit code is the program's, or 1 if no rank has written a trace.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .least = 1,
    .most = -1,
    .rest = true,
};

/* ---- The program ---- */

/* Returns the program's exit code. A signal from the terminal ends the program, and this command after it. */
static int run_program(char **argv)
{
    int status = 0;
    pid_t child;
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    child = fork();
    if (child == 0) {
        signal(SIGINT, SIG_DFL);
        signal(SIGQUIT, SIG_DFL);
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

/* Joins rank r's part, if it exists, and removes it. */
static bool join_part(const char *output, unsigned rank, json_t *events)
{
    char *path = yk__format("%s.%u", output, rank);
    json_t *part = path ? json_load_file(path, 0, NULL) : NULL;
    const bool there = part && !json_array_extend(events, json_object_get(part, "traceEvents"));
    if (there)
        unlink(path);
    json_decref(part);
    yk__free(path);
    return there;
}

static void remove_parts(const char *output)
{
    for (unsigned rank = 0;; rank++) {
        char *path = yk__format("%s.%u", output, rank);
        const bool gone = path && !unlink(path);
        yk__free(path);
        if (!gone)
            return;
    }
}

static int join_parts(const char *output)
{
    json_t *events = json_array(), *whole;
    unsigned ranks = 0;
    int failed;
    while (join_part(output, ranks, events))
        ranks++;
    whole = json_pack("{s:o, s:s}", "traceEvents", events, "displayTimeUnit", "ms");
    failed = !ranks || json_dump_file(whole, output, JSON_COMPACT);
    if (!ranks)
        fprintf(stderr, "yoke trace: the program has written no trace: it made no step with Yoke, or ended before\n");
    else if (failed)
        fprintf(stderr, "yoke trace: %s: %s\n", output, strerror(errno));
    else
        fprintf(stderr, "yoke trace: %s holds %zu events of %u rank%s\n", output, json_array_size(events), ranks, ranks > 1 ? "s" : "");
    json_decref(whole);
    return failed ? YK_EXIT_FAILED : YK_EXIT_OK;
}

int yk__cmd_trace(int argc, char **argv)
{
    yk__cli cli;
    bool bad = false;
    const int done = yk__cli_parse(&command, argc, argv, &cli);
    int code, joined;
    if (done >= 0)
        return done;
    yk__cli_int(&cli, "steps", 1, 1000, &bad);
    yk__cli_int(&cli, "skip", 0, INT64_C(1) << 40, &bad);
    if (bad)
        return YK_EXIT_USAGE;
    setenv("YOKE_TRACE", yk__cli_text(&cli, "output"), 1);
    setenv("YOKE_TRACE_STEPS", yk__cli_text(&cli, "steps"), 1);
    setenv("YOKE_TRACE_SKIP", yk__cli_text(&cli, "skip"), 1);
    remove_parts(yk__cli_text(&cli, "output"));
    code = run_program(cli.positional);
    joined = join_parts(yk__cli_text(&cli, "output"));
    return code ? code : joined;
}
