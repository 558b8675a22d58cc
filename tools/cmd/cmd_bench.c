/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command yoke bench: times whole training steps and the host's cost of a step, here, the efficiency of a mixed job (mixed.c) and a
 * processor's peaks (peaks.c). yoke.c calls it by its table of commands, in the main thread; with several ranks each rank runs the same
 * command line. An unknown action is an error, as is an option that has no effect on the action.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/job/job.h"
#include "core/job/team/share.h"
#include "tools/bench/mixed.h"
#include "tools/bench/peaks.h"
#include "tools/bench/sample.h"
#include "tools/plan/work_count.h"

static const yk__cli_option options[] = {
    SAMPLE_OPTIONS,
    {"global-batch", "N", "128", "rows of a step over all ranks", NULL},
    {"optim", "NAME", NULL, "sgd, sgdm (momentum 0.9) or adamw; default: adamw for language models, sgdm for ResNets, sgd", NULL},
    {"max-grad-norm", "R", "0", "clip the gradient to this norm; 0: no clipping", NULL},
    {"devices", "SPECS", "cpu", "one rank each; ! behind one: never excluded; for mixed: the two to put together", "YOKE_DEVICES"},
    {"shard", "state|gradients|params", "state", "in slices over the ranks, as in yoke train", NULL},
    {"offload", "WHAT", NULL, "state=host: the host updates for devices with memory of their own, as in yoke train", NULL},
    {"iterations", "N", "10", "timed steps", NULL},
    {"save-init", "DIR", NULL, "step: no warm-up; the weights before the first step are saved, and each step's loss is printed", NULL},
    {"rounds", "N", "5", "mixed: rounds of alone, alone, together", NULL},
    {"json", NULL, NULL, "one JSON object", NULL},
};

static const yk__cli_command command = {
    .name = "bench",
    .usage = "step|peaks|mixed|step-overhead [options]",
    .summary = "measure steps, peaks, mixed efficiency and overheads",
    .text = "step: whole training steps (forward, backward, update) on random data, after warm-up steps: 2, and\n"
            "with several ranks as many as it takes for their shares to settle.\n\n"
            "peaks: multiply-adds in fp32, bf16 and int8 by each instruction set the machine has, and reading, copying and\n"
            "filling caches and memory, on one thread and on all. The least time of a step is its operations over such a peak.\n\n"
            "mixed: each of two devices alone and both together, in turn. It prints the throughput together over the sum of the\n"
            "two alone, by the least step of all rounds, by the median one, and round by round. If the clock changes or other\n"
            "programs disturb the cores, the least steps of runs that are minutes apart compare moments, not devices.\n\n"
            "step-overhead: the host thread's time for a step whose program is known.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .least = 1,
    .most = 1,
};

typedef struct bench {
    sample sample;
    double *step_ms, *loss; /* loss: of each step, or NULL */
    uint64_t n_step;
    double first_ms, settled_ms;
    double late_ms;   /* ms of a step, mean over the last third: a job that changes while it runs counts as it is at the end */
    uint32_t settled; /* steps until the ranks' shares settled */
    double wall_ms, user_ms, sys_ms; /* totals over all timed steps; CPU time of the whole process */
    double cpu_ms;                   /* user and system time of all ranks */
} bench;

static bool open_job(bench *b, const yk__cli *cli, uint32_t accumulate)
{
    bool bad = false;
    b->n_step = (uint64_t)yk__cli_int(cli, "iterations", 1, 1 << 20, &bad);
    return !bad && sample_open(&b->sample, cli, false, &(yk_config){.accumulate = accumulate});
}

static void set_up(bench *b)
{
    b->step_ms = calloc(b->n_step, sizeof *b->step_ms);
    if (!b->step_ms)
        yk_fail(b->sample.job, YK_E_MEM, "out of memory for the timings");
    sample_make(&b->sample);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ", "losses": [..]", for comparison with a peer that starts from the saved weights. */
static void print_losses(const bench *b)
{
    for (uint64_t i = 0; b->loss && i < b->n_step; i++)
        printf("%s%.9g%s", i ? ", " : ", \"losses\": [", b->loss[i], i + 1 == b->n_step ? "]" : "");
}

/* Peak memory of this process, including a device's memory on the host. */
static unsigned long long peak_rss(void)
{
    char line[128];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/self/status", "re"); /* getrusage's figure still includes the program that started this one */
    while (f && !kib && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %llu", &kib) != 1)
            kib = 0;
    if (f)
        fclose(f);
    return kib * 1024;
}

static void print_step(bench *b, double loss)
{
    const double flops = sample_flops(&b->sample);
    const work counted = work_count(b->sample.job);
    double least, median;
    qsort(b->step_ms, b->n_step, sizeof *b->step_ms, by_size);
    least = b->step_ms[0];
    median = b->step_ms[b->n_step / 2];
    if (yk__cli_on(b->sample.cli, "json")) {
        printf("{\"min_ms\": %.6g, \"median_ms\": %.6g, \"samples_per_s\": %.6g, \"tokens_per_s\": %.6g, \"peak_bytes\": %llu, "
               "\"peak_rss_bytes\": %llu, \"gflops\": %.6g, \"first_step_ms\": %.6g, \"loss\": %.9g",
               least, median, 1e3 * (double)b->sample.batch / median,
               b->sample.width > 1 ? 1e3 * (double)(b->sample.batch * b->sample.width) / median : 0,
               (unsigned long long)yk_peak_bytes(b->sample.job), peak_rss(), flops / median / 1e6, b->first_ms, loss);
        printf(", \"wall_ms\": %.6g, \"user_ms\": %.6g, \"sys_ms\": %.6g, \"cpu_ms\": %.6g", b->wall_ms / (double)b->n_step,
               b->user_ms / (double)b->n_step, b->sys_ms / (double)b->n_step, b->cpu_ms / (double)b->n_step);
        printf(", \"settled_steps\": %u, \"settled_ms\": %.6g, \"late_samples_per_s\": %.6g", b->settled, b->settled_ms,
               1e3 * (double)b->sample.batch / b->late_ms);
        print_losses(b);
        printf(", \"work\": ");
        work_print((const double *)&counted);
        printf("}\n");
    } else {
        printf("least %.3f ms  median %.3f ms  %.1f samples/s  %.1f GFLOP/s  peak %.1f MiB (RSS %.1f)  first step %.1f ms\n", least,
               median, 1e3 * (double)b->sample.batch / median, flops / median / 1e6, (double)yk_peak_bytes(b->sample.job) / 1048576.0,
               (double)peak_rss() / 1048576.0, b->first_ms);
    }
}

static void bench_free(bench *b)
{
    free(b->step_ms);
    free(b->loss);
    sample_free(&b->sample);
}

static void whole_step(bench *b)
{
    sample_micro(&b->sample);
    yk_grad_norm(b->sample.opt); /* waits for the step */
}

/* Runs steps until programs and kernels are there, and the members and their shares have settled. */
static void warm_up(bench *b)
{
    const double began = train_seconds();
    for (b->settled = 0; b->settled < 400 && yk_ok(b->sample.job) && (b->settled < 2 || !yk__share_settled(b->sample.job));
         b->settled += !yk__share_is_waiting(b->sample.job)) {
        const double at = train_seconds();
        whole_step(b);
        if (b->settled == 0)
            b->first_ms = 1e3 * (train_seconds() - at);
    }
    b->settled_ms = 1e3 * (train_seconds() - began);
}

/* Instead of warming up: saves the model before the first step, and allocates each step's loss. */
static void save_init(bench *b)
{
    b->loss = calloc(b->n_step, sizeof *b->loss);
    if (!b->loss)
        yk_fail(b->sample.job, YK_E_MEM, "out of memory for the losses");
    if (yk_ok(b->sample.job))
        yk_model_save(b->sample.model, yk__cli_text(b->sample.cli, "save-init"));
}

static double ms_of(struct timeval t)
{
    return 1e3 * (double)t.tv_sec + 1e-3 * (double)t.tv_usec;
}

/* The time at which all ranks are here, as an excluded rank may hear of steps late. */
static double seconds_of_all(const bench *b)
{
    yk_barrier(b->sample.job);
    return train_seconds();
}

static void timed_steps(bench *b)
{
    struct rusage from, to;
    const double began = seconds_of_all(b);
    const uint64_t last = (b->n_step + 2) / 3;
    double late = began;
    getrusage(RUSAGE_SELF, &from);
    for (uint64_t i = 0; i < b->n_step && yk_ok(b->sample.job); i++) {
        double at;
        if (i == b->n_step - last)
            late = seconds_of_all(b);
        at = train_seconds();
        whole_step(b);
        b->step_ms[i] = 1e3 * (train_seconds() - at);
        if (b->loss)
            b->loss[i] = yk_step_loss(b->sample.opt);
    }
    getrusage(RUSAGE_SELF, &to);
    b->wall_ms = 1e3 * (seconds_of_all(b) - began);
    b->late_ms = 1e3 * (train_seconds() - late) / (double)last;
    /* an excluded rank's own times say nothing about a step */
    for (uint64_t i = 0; i < b->n_step && yk_world_size(b->sample.job) > 1 && !b->sample.rows; i++)
        b->step_ms[i] = b->wall_ms / (double)b->n_step;
    b->user_ms = ms_of(to.ru_utime) - ms_of(from.ru_utime);
    b->sys_ms = ms_of(to.ru_stime) - ms_of(from.ru_stime);
    b->cpu_ms = b->user_ms + b->sys_ms;
    yk_all_reduce_sum(b->sample.job, &b->cpu_ms, 1);
}

static int run_step(const yk__cli *cli)
{
    bench b = {0};
    double loss;
    if (!open_job(&b, cli, 1))
        return YK_EXIT_USAGE;
    set_up(&b);
    if (yk_ok(b.sample.job) && yk__cli_text(cli, "save-init"))
        save_init(&b);
    else
        warm_up(&b);
    timed_steps(&b);
    loss = yk_ok(b.sample.job) ? yk_step_loss(b.sample.opt) : 0; /* all ranks sum it */
    if (yk_ok(b.sample.job) && b.n_step && yk_is_main(b.sample.job))
        print_step(&b, loss);
    bench_free(&b);
    return yk_close(b.sample.job);
}

static void print_overhead(bench *b, bool json)
{
    yk__engine_stats st;
    yk__engine_stats_get(b->sample.job->engine, &st);
    qsort(b->step_ms, b->n_step, sizeof *b->step_ms, by_size);
    printf(json ? "{\"host_us_min\": %.6g, \"host_us_median\": %.6g, \"plan_ms\": %.6g}\n"
                : "host: least %.1f us, median %.1f us a step; planning %.1f ms\n",
           1e3 * b->step_ms[0], 1e3 * b->step_ms[b->n_step / 2], 1e3 * st.plan_seconds);
}

/* Micro batches of a window that does not end: this thread only traces, looks up, binds and submits. */
static int run_overhead(const yk__cli *cli)
{
    bench b = {0};
    if (!open_job(&b, cli, 1u << 30))
        return YK_EXIT_USAGE;
    set_up(&b);
    for (uint64_t i = 0; i < b.n_step + 2 && yk_ok(b.sample.job); i++) {
        const double at = train_seconds();
        sample_micro(&b.sample);
        b.step_ms[i % b.n_step] = 1e3 * (train_seconds() - at);
        yk_barrier(b.sample.job);
        yk_sync(b.sample.job);
    }
    if (yk_ok(b.sample.job))
        print_overhead(&b, yk__cli_on(cli, "json"));
    bench_free(&b);
    return yk_close(b.sample.job);
}

/* For each action, the options that it ignores; peaks takes only --json. */
static bool refuse_idle(const yk__cli *cli, const char *what)
{
    static const char *const rows[][2] = {
        {"step", "rounds"}, {"step-overhead", "rounds save-init"}, {"mixed", "threads data save-init shard offload max-grad-norm"}};
    bool bad = false;
    char why[32], list[64];
    snprintf(why, sizeof why, "with bench %s", what);
    for (size_t i = 0; i < sizeof options / sizeof *options && !strcmp(what, "peaks"); i++)
        if (strcmp(options[i].name, "json"))
            yk__cli_refuse_idle(cli, options[i].name, why, &bad);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(list, sizeof list, "%s", strcmp(what, rows[i][0]) ? "" : rows[i][1]);
        for (char *rest, *name = strtok_r(list, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
            yk__cli_refuse_idle(cli, name, why, &bad);
    }
    if (!bad && yk__cli_typed(cli, "threads"))
        yk__cli_refuse_idle(cli, "devices", "beside --threads: give one of them", &bad);
    return bad;
}

int yk__cmd_bench(int argc, char **argv)
{
    char **args = train_arguments(argc, argv);
    yk__cli cli;
    int code = yk__cli_parse(&command, argc, argv, &cli);
    const char *what = code < 0 ? cli.positional[0] : "";
    static const char *const actions[] = {"step", "peaks", "mixed", "step-overhead"};
    if (code < 0 && refuse_idle(&cli, what)) {
        code = YK_EXIT_USAGE;
    } else if (code < 0 && !strcmp(what, "mixed")) {
        code = bench_mixed(&cli, args);
    } else if (code < 0 && !strcmp(what, "peaks")) {
        code = bench_peaks(&cli);
    } else if (code < 0 && !strcmp(what, "step")) {
        code = yk__cli_given(&cli, "threads") ? -1 : train_launch(&cli, args);
        code = code < 0 ? run_step(&cli) : code;
    } else if (code < 0 && !strcmp(what, "step-overhead")) {
        code = run_overhead(&cli);
    } else if (code < 0) {
        const char *near = yk__nearest_word(what, actions, 4);
        code = yk__cli_usage(&command, "unknown action \"%s\"; there are step, peaks, mixed, step-overhead%s%s%s", what,
                             near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
    }
    free(args);
    return code;
}
