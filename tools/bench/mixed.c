/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `yoke bench mixed`: compares a job of two devices with each device alone. Each round starts `yoke bench step` three times (one device,
 * the other, both), reads its JSON and keeps rates by round. cmd_bench.c (tools/cmd) calls bench_mixed in the main thread, and gets the
 * exit code.
 */
#include "config.h"

#include "tools/bench/mixed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/control/start/origin.h"
#include "core/io/json.h"
#include "tools/plan/child.h"

enum { MOST_ROUNDS = 99, MOST_ARGS = 64 };

static const char *const passed_on[] = {"model", "model-config", "global-batch", "precision", "optim", "iterations", "seed"};

/* argv for one `yoke bench step` run. */
static void step_arguments(const yk__cli *cli, char *program, char *devices, char **argv)
{
    int n = 0;
    argv[n++] = program;
    argv[n++] = (char *)(uintptr_t) "bench";
    argv[n++] = (char *)(uintptr_t) "step";
    argv[n++] = (char *)(uintptr_t) "--json";
    argv[n++] = (char *)(uintptr_t) "--devices";
    argv[n++] = devices;
    if (yk__cli_on(cli, "allow-substitute"))
        argv[n++] = (char *)(uintptr_t) "--allow-substitute";
    for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++) {
        static char names[sizeof passed_on / sizeof passed_on[0]][40];
        if (!yk__cli_text(cli, passed_on[i]))
            continue;
        snprintf(names[i], sizeof names[i], "--%s", passed_on[i]);
        argv[n++] = names[i];
        argv[n++] = (char *)(uintptr_t)yk__cli_text(cli, passed_on[i]);
    }
    argv[n] = NULL;
}

/* Samples per second of one run, at its least and at its median step. */
typedef struct speed {
    double best, median;
} speed;

static bool throughput_measure(const yk__cli *cli, char *program, char *devices, speed *v)
{
    char *argv[MOST_ARGS], out[8192];
    double least, median, rate;
    json_t *o = NULL;
    yk_error why = YK_ERROR_INIT;
    step_arguments(cli, program, devices, argv);
    if (child_run(argv, INFINITY, NULL, out, sizeof out))
        return false;
    yk__json_parse("yoke bench", out, strlen(out), 0, &o, &why);
    least = json_number_value(json_object_get(o, "min_ms"));
    median = json_number_value(json_object_get(o, "median_ms"));
    rate = json_number_value(json_object_get(o, "samples_per_s"));
    json_decref(o);
    *v = (speed){rate * median / least, rate}; /* the rate of a run is that of its median step */
    return least > 0.0 && median > 0.0 && rate > 0.0;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(const double *v, int n)
{
    double sorted[MOST_ROUNDS];
    memcpy(sorted, v, (size_t)n * sizeof *v);
    qsort(sorted, (size_t)n, sizeof *v, by_size);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* Over the rounds: the best of the best, the median of the medians. */
static speed over_rounds(const speed *v, int rounds)
{
    double median[MOST_ROUNDS];
    speed all = {0};
    for (int r = 0; r < rounds; r++) {
        all.best = v[r].best > all.best ? v[r].best : all.best;
        median[r] = v[r].median;
    }
    all.median = median_of(median, rounds);
    return all;
}

/* The two devices alone and together: rates over all rounds, and each round's efficiency. */
typedef struct figures {
    char spec[3][257];
    speed run[3][MOST_ROUNDS], all[3];
    double eta[MOST_ROUNDS];
    int rounds;
} figures;

static void sum_up(figures *f)
{
    for (int k = 0; k < 3; k++)
        f->all[k] = over_rounds(f->run[k], f->rounds);
    for (int r = 0; r < f->rounds; r++)
        f->eta[r] = f->run[2][r].median / (f->run[0][r].median + f->run[1][r].median);
}

static void print_json(const figures *f, double best, double median)
{
    const speed *v = f->all;
    printf("{\"alone\": [%.6g, %.6g], \"together\": %.6g, \"eta\": %.4f, ", v[0].best, v[1].best, v[2].best, best);
    printf("\"median\": {\"alone\": [%.6g, %.6g], \"together\": %.6g, \"eta\": %.4f}, ", v[0].median, v[1].median, v[2].median,
           median);
    printf("\"rounds\": {\"eta\": %.4f, \"each\": [", median_of(f->eta, f->rounds));
    for (int r = 0; r < f->rounds; r++)
        printf("%s%.4f", r ? ", " : "", f->eta[r]);
    printf("]}}\n");
}

static void figures_print(const yk__cli *cli, const figures *f)
{
    const speed *v = f->all;
    const double best = v[2].best / (v[0].best + v[1].best), median = v[2].median / (v[0].median + v[1].median);
    if (yk__cli_on(cli, "json")) {
        print_json(f, best, median);
        return;
    }
    printf("%-16s %12s %12s\n", "samples/s of", "least step", "median step");
    for (int k = 0; k < 3; k++)
        printf("%-16s %12.1f %12.1f\n", k < 2 ? f->spec[k] : "together", v[k].best, v[k].median);
    printf("%-16s %12.3f %12.3f\n", "efficiency", best, median);
    printf("%-16s %12s %12.3f  (", "of a round", "", median_of(f->eta, f->rounds));
    for (int r = 0; r < f->rounds; r++)
        printf("%s%.3f", r ? " " : "", f->eta[r]);
    printf(")\n");
}

int bench_mixed(const yk__cli *cli, char *const *args)
{
    static figures f;
    const char *devices = yk__cli_text(cli, "devices");
    char more[2];
    bool bad = false;
    f.rounds = (int)yk__cli_int(cli, "rounds", 1, MOST_ROUNDS, &bad);
    if (bad)
        return YK_EXIT_USAGE;
    if (!devices || sscanf(devices, "%127s %127s %1s", f.spec[0], f.spec[1], more) != 2)
        return yk__cli_usage(cli->command, "mixed needs two devices, as in --devices \"cpu:0 opencl:0@1\"");
    if (yk__launched())
        return yk__cli_usage(cli->command, "mixed starts ranks on the devices of --devices itself, and this process is a rank of a job "
                             "already: run it without that launcher, or set YOKE_LAUNCHER=none");
    snprintf(f.spec[2], sizeof f.spec[2], "%.127s %.127s", f.spec[0], f.spec[1]);
    for (int r = 0; r < f.rounds; r++)
        for (int k = 0; k < 3; k++)
            if (!throughput_measure(cli, args[0], f.spec[k], &f.run[k][r]))
                return fprintf(stderr, "yoke bench: the run on %s failed\n", f.spec[k]), YK_EXIT_FAILED;
    sum_up(&f);
    figures_print(cli, &f);
    return YK_EXIT_OK;
}
