/* SPDX-License-Identifier: Apache-2.0 */
/* yoke bench: times whole training steps on random data, the efficiency of a mixed job, and the host's cost of a step. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tools/bench_mixed.h"
#include "tools/bench_peaks.h"
#include "tools/train.h"

static const yk__cli_option options[] = {
    {"model", "NAME", "mlp", "mlp, resnet20, resnet32, resnet18, gpt2, bert, bert-mlm", NULL},
    {"model-config", "KEY=VALUE,..", NULL, "as in yoke train; seq_len= for language models, hidden=512+256 for the MLP", NULL},
    {"global-batch", "N", "128", "rows of a step over all ranks", NULL},
    {"precision", "P", "fp32", "fp32, bf16 or fp16", NULL},
    {"data", "SPEC", NULL, "step: batches from this data's loader (idx:DIR, csv:FILE ..), not one batch held in memory", NULL},
    {"optim", "NAME", NULL, "sgd, sgdm (momentum 0.9) or adamw; default: adamw for language models, sgdm for ResNets, sgd", NULL},
    {"threads", "N", NULL, "the CPU's first N cores, instead of --devices", NULL},
    {"devices", "WORDS", "cpu", "one rank each; for mixed: the two to put together", "YOKE_DEVICES"},
    {"iterations", "N", "10", "timed steps", NULL},
    {"save-init", "DIR", NULL, "step: no warm-up; the weights before the first step are saved, and each step's loss is printed", NULL},
    {"rounds", "N", "3", "mixed: rounds of alone, alone, together", NULL},
    {"allow-substitute", NULL, NULL, "a device without that format computes in fp32", NULL},
    {"seed", "N", "42", "of weights and data", NULL},
    {"json", NULL, NULL, "one JSON object", NULL},
};

static const yk__cli_command command = {
    .name = "bench",
    .usage = "step|peaks|mixed|step-overhead [options]",
    .summary = "measure steps, peaks, mixed efficiency and overheads",
    .text = "step: whole training steps (forward, backward, update) on random data, after warm-up steps: 2, and\n"
            "with several ranks as many as it takes for their shares to rest.\n"
            "peaks: multiply-adds in fp32, bf16 and int8 by each instruction set the machine has, and reading, copying and\n"
            "filling caches and memory, on one thread and on all; the floor of a step is its operations over such a peak.\n"
            "mixed: each of two devices alone and both together, in turn; prints the throughput together over the sum of the\n"
            "two alone.\n"
            "step-overhead: what a step whose program is known costs the host's own thread.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .least = 1,
    .most = 1,
};

typedef struct bench {
    const yk__cli *cli;
    yk_job *job;
    yk_model *model;
    yk_opt *opt;
    yk_data *data;
    const char *name;
    int64_t batch, rows, first, width, classes, channels, side;
    double *ms, *loss; /* loss: of each step, or NULL */
    uint64_t n;
    double first_ms;
    double wall, user, sys; /* of all timed steps together, in ms; CPU time of the whole process */
    float *x;
    int32_t *ids, *mask, *types, *labels, *row;
} bench;

static uint32_t random_u32(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* A key of --model-config, which the model reads itself as well. */
static int64_t config_int(const bench *b, const char *key, int64_t preset)
{
    yk_settings *s = yk_settings_new(b->job, yk__cli_text(b->cli, "model-config"));
    const int64_t v = yk_settings_int(s, key, preset);
    yk_settings_free(s);
    return v;
}

static bool is(const bench *b, const char *family)
{
    return !strncmp(b->name, family, strlen(family));
}

static void sizes(bench *b)
{
    const bool text = is(b, "gpt2") || is(b, "bert");
    b->width = text ? config_int(b, "seq_len", is(b, "gpt2") ? 256 : 128) : 1;
    b->channels = is(b, "resnet") ? config_int(b, "num_channels", 3) : config_int(b, "input_size", 784);
    b->side = is(b, "resnet") ? config_int(b, "image_size", 32) : 1;
    b->classes = is(b, "gpt2")       ? config_int(b, "vocab_size", 50257)
                 : is(b, "bert-mlm") ? config_int(b, "vocab_size", 30522)
                                     : config_int(b, "num_labels", is(b, "bert") ? 2 : 10);
    b->rows = b->batch;
}

/* Random data for the whole batch; every rank makes the same and takes its part. */
static void make_data(bench *b)
{
    const int64_t pixels = b->channels * b->side * b->side, tokens = b->batch * b->width;
    const int64_t vocab = is(b, "gpt2") ? b->classes : config_int(b, "vocab_size", 30522);
    const bool per_token = is(b, "gpt2") || is(b, "bert-mlm");
    uint32_t s = 1;
    b->x = calloc((size_t)(b->batch * pixels) + 1, sizeof *b->x);
    b->ids = calloc(4 * (size_t)tokens + 1, sizeof *b->ids);
    b->row = calloc((size_t)b->batch + 1, sizeof *b->row);
    if (!b->x || !b->ids || !b->row) {
        yk_fail(b->job, YK_E_MEM, "out of memory for the data");
        return;
    }
    b->mask = b->ids + tokens;
    b->types = b->mask + tokens;
    b->labels = b->types + tokens;
    for (int64_t i = 0; i < b->batch * pixels && b->width == 1; i++)
        b->x[i] = (float)random_u32(&s) / 8388608.0f - 1;
    for (int64_t i = 0; i < tokens; i++) {
        const int64_t length = b->width / 2 + (int64_t)((i / b->width * 37) % (b->width / 2 + 1)); /* half to full */
        b->ids[i] = (int32_t)(random_u32(&s) % (uint32_t)vocab);
        b->mask[i] = is(b, "gpt2") || i % b->width < length;
    }
    for (int64_t i = 0; i < (per_token ? tokens : b->batch); i++)
        b->labels[i] = (int32_t)(random_u32(&s) % (uint32_t)b->classes);
}

/* This rank's part by measured speed is the loader's business; here the split is even unless the job says otherwise. */
static void share(bench *b)
{
    uint64_t n = 0, first = 0;
    yk_split(b->job, (uint64_t)b->batch, &first, &n);
    b->first = (int64_t)first;
    b->rows = (int64_t)n;
    for (int64_t i = 0; i < b->rows; i++)
        b->row[i] = (int32_t)(b->first + i);
    yk_rows(b->job, b->rows, b->row, b->batch);
}

static yk_t ids(const bench *b, const int32_t *v)
{
    return yk_input(b->job, YK_I32, 2, (int64_t[]){b->rows, b->width}, v + b->first * b->width);
}

static yk_batch inputs(const bench *b)
{
    const bool per_token = is(b, "gpt2") || is(b, "bert-mlm");
    const int64_t pixels = b->channels * b->side * b->side;
    yk_batch batch = {.rows = b->rows, .global_rows = b->batch, .width = b->width};
    if (is(b, "gpt2") || is(b, "bert")) {
        batch.input_ids = ids(b, b->ids);
        batch.attention_mask = is(b, "bert") ? ids(b, b->mask) : YK_NO;
        batch.token_type_ids = is(b, "bert") ? ids(b, b->types) : YK_NO;
    } else {
        batch.x = yk_input(b->job, YK_F32, is(b, "resnet") ? 4 : 2, (int64_t[]){b->rows, b->channels, b->side, b->side},
                           b->x + b->first * pixels);
    }
    batch.labels = per_token ? ids(b, b->labels)
                             : yk_input(b->job, YK_I32, 1, (int64_t[]){b->rows}, b->labels + b->first);
    return batch;
}

/* The loader's next batch, over the end of an epoch. */
static yk_batch loaded(bench *b)
{
    yk_batch batch = {0};
    while (yk_ok(b->job) && !yk_data_next(b->data, &batch))
        ;
    b->rows = batch.rows;
    return batch;
}

static void micro(bench *b)
{
    yk_batch batch;
    if (!b->data)
        share(b);
    batch = b->data ? loaded(b) : inputs(b);
    yk_backward(yk_model_loss(b->model, &batch, yk_forward(b->model, &batch)));
    yk_step(b->opt);
}

static yk_opt *optimizer(const bench *b)
{
    static const char *const words[] = {"sgd", "sgdm", "adamw"};
    bool bad = false;
    int k = yk__cli_word(b->cli, "optim", words, 3, &bad);
    if (bad)
        yk_fail(b->job, YK_E_ARG, "unknown optimizer (see above)");
    if (k < 0)
        k = is(b, "gpt2") || is(b, "bert") ? 2 : is(b, "resnet") ? 1 : 0;
    if (k == 2)
        return yk_adamw(b->job, &(yk_adam_config){.lr = 1e-4, .weight_decay = 0.01});
    return yk_sgd(b->job, &(yk_sgd_config){.lr = 0.01, .momentum = k ? 0.9 : 0});
}

static bool open_job(bench *b, uint32_t accumulate)
{
    static const char *const words[] = {"fp32", "bf16", "fp16"};
    static const yk_dtype types[] = {YK_F32, YK_BF16, YK_F16};
    bool bad = false;
    int k = yk__cli_word(b->cli, "precision", words, 3, &bad);
    char cores[64];
    const int64_t threads = yk__cli_int(b->cli, "threads", 1, 4096, &bad);
    yk_config c = {.devices = yk__cli_text(b->cli, "devices"), .quiet = true, .accumulate = accumulate,
                   .allow_substitute = yk__cli_on(b->cli, "allow-substitute")};
    b->batch = yk__cli_int(b->cli, "global-batch", 1, 1 << 20, &bad);
    b->n = (uint64_t)yk__cli_int(b->cli, "iterations", 1, 1 << 20, &bad);
    c.seed = (uint64_t)yk__cli_int(b->cli, "seed", 0, INT64_MAX, &bad);
    b->name = yk__cli_text(b->cli, "model");
    if (bad)
        return false;
    c.precision = types[k];
    if (threads) {
        snprintf(cores, sizeof cores, threads == 1 ? "cpu:0" : "cpu:0-%lld", (long long)threads - 1);
        c.devices = cores;
    }
    b->job = yk_open(&c);
    return b->job != NULL;
}

static void set_up(bench *b)
{
    b->ms = calloc(b->n, sizeof *b->ms);
    if (!b->ms)
        yk_fail(b->job, YK_E_MEM, "out of memory for the timings");
    if (yk_ok(b->job))
        sizes(b);
    if (yk_ok(b->job))
        make_data(b);
    if (yk_ok(b->job) && yk__cli_text(b->cli, "data"))
        b->data = yk_data_open(b->job, yk__cli_text(b->cli, "data"),
                               &(yk_data_config){.global_batch = (uint32_t)b->batch, .seq_len = (uint32_t)b->width});
    if (yk_ok(b->job))
        b->model = yk_model_new(b->job, b->name, yk__cli_text(b->cli, "model-config"), NULL);
    if (yk_ok(b->job))
        b->opt = optimizer(b);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ", "losses": [..]": what a peer that starts from the saved weights is compared with. */
static void print_losses(const bench *b)
{
    for (uint64_t i = 0; b->loss && i < b->n; i++)
        printf("%s%.9g%s", i ? ", " : ", \"losses\": [", b->loss[i], i + 1 == b->n ? "]" : "");
}

static void print_step(bench *b, double loss)
{
    const double flops = yk_model_flops(b->model, b->width) * (double)b->batch;
    double least, median;
    qsort(b->ms, b->n, sizeof *b->ms, by_size);
    least = b->ms[0];
    median = b->ms[b->n / 2];
    if (yk__cli_on(b->cli, "json")) {
        printf("{\"min_ms\": %.6g, \"median_ms\": %.6g, \"samples_per_s\": %.6g, \"tokens_per_s\": %.6g, \"peak_bytes\": %llu, "
               "\"gflops\": %.6g, \"first_step_ms\": %.6g, \"loss\": %.9g",
               least, median, 1e3 * (double)b->batch / median, b->width > 1 ? 1e3 * (double)(b->batch * b->width) / median : 0,
               (unsigned long long)yk_peak_bytes(b->job), flops / median / 1e6, b->first_ms, loss);
        printf(", \"wall_ms\": %.6g, \"user_ms\": %.6g, \"sys_ms\": %.6g", b->wall / (double)b->n, b->user / (double)b->n,
               b->sys / (double)b->n);
        print_losses(b);
        printf("}\n");
    } else {
        printf("least %.3f ms  median %.3f ms  %.1f samples/s  %.1f GFLOP/s  peak %.1f MiB  first step %.1f ms\n", least, median,
               1e3 * (double)b->batch / median, flops / median / 1e6, (double)yk_peak_bytes(b->job) / 1048576.0, b->first_ms);
    }
}

static void release(bench *b)
{
    free(b->ms);
    free(b->loss);
    free(b->x);
    free(b->ids);
    free(b->row);
}

static void whole_step(bench *b)
{
    micro(b);
    yk_grad_norm(b->opt); /* waits for the step */
}

/* Steps until programs and kernels are there and the ranks' shares have not changed for eleven steps: they are looked at
 * again every ten. */
static void warm_up(bench *b)
{
    const int least = yk_world(b->job) > 1 ? 11 : 2;
    int64_t rows = -1;
    for (int i = 0, same = 0; i < 80 && same < least && yk_ok(b->job); i++) {
        double moved;
        const double at = train_seconds();
        whole_step(b);
        if (i == 0)
            b->first_ms = 1e3 * (train_seconds() - at);
        moved = b->rows != rows;
        yk_sum_ranks(b->job, &moved, 1);
        same = moved > 0 ? 1 : same + 1;
        rows = b->rows;
    }
}

/* Instead of warming up: the model as it is before the first step, and room for each step's loss. */
static void save_init(bench *b)
{
    b->loss = calloc(b->n, sizeof *b->loss);
    if (!b->loss)
        yk_fail(b->job, YK_E_MEM, "out of memory for the losses");
    if (yk_ok(b->job))
        yk_model_save(b->model, yk__cli_text(b->cli, "save-init"));
}

static double ms_of(struct timeval t)
{
    return 1e3 * (double)t.tv_sec + 1e-3 * (double)t.tv_usec;
}

static void timed_steps(bench *b)
{
    struct rusage from, to;
    const double began = train_seconds();
    getrusage(RUSAGE_SELF, &from);
    for (uint64_t i = 0; i < b->n && yk_ok(b->job); i++) {
        const double at = train_seconds();
        whole_step(b);
        b->ms[i] = 1e3 * (train_seconds() - at);
        if (b->loss)
            b->loss[i] = yk_window_loss(b->opt);
    }
    getrusage(RUSAGE_SELF, &to);
    b->wall = 1e3 * (train_seconds() - began);
    b->user = ms_of(to.ru_utime) - ms_of(from.ru_utime);
    b->sys = ms_of(to.ru_stime) - ms_of(from.ru_stime);
}

static int run_step(const yk__cli *cli)
{
    bench b = {.cli = cli};
    double loss;
    if (!open_job(&b, 1))
        return YK_EXIT_USAGE;
    set_up(&b);
    if (yk_ok(b.job) && yk__cli_text(cli, "save-init"))
        save_init(&b);
    else
        warm_up(&b);
    timed_steps(&b);
    loss = yk_ok(b.job) ? yk_window_loss(b.opt) : 0; /* all ranks sum it */
    if (yk_ok(b.job) && b.n && yk_is_main(b.job))
        print_step(&b, loss);
    release(&b);
    return yk_close(b.job);
}

/* Micro batches of a window that does not end: nothing but trace, look-up, binding and submission happens on this thread. */
static int run_overhead(const yk__cli *cli)
{
    bench b = {.cli = cli};
    if (!open_job(&b, 1u << 30))
        return YK_EXIT_USAGE;
    set_up(&b);
    for (uint64_t i = 0; i < b.n + 2 && yk_ok(b.job); i++) {
        const double at = train_seconds();
        micro(&b);
        b.ms[i % b.n] = 1e3 * (train_seconds() - at);
        yk_barrier(b.job);
        yk_sync(b.job);
    }
    if (yk_ok(b.job)) {
        qsort(b.ms, b.n, sizeof *b.ms, by_size);
        printf(yk__cli_on(cli, "json") ? "{\"host_us_min\": %.6g, \"host_us_median\": %.6g}\n"
                                       : "host: least %.1f us, median %.1f us a step\n",
               1e3 * b.ms[0], 1e3 * b.ms[b.n / 2]);
    }
    release(&b);
    return yk_close(b.job);
}

int yk__cmd_bench(int argc, char **argv)
{
    char **args = train_arguments(argc, argv);
    yk__cli cli;
    int code = yk__cli_parse(&command, argc, argv, &cli);
    const char *what = code < 0 ? cli.positional[0] : "";
    static const char *const actions[] = {"step", "peaks", "mixed", "step-overhead"};
    if (code < 0 && !strcmp(what, "mixed")) {
        code = bench_mixed(&cli, args);
    } else if (code < 0 && !strcmp(what, "peaks")) {
        code = bench_peaks(&cli);
    } else if (code < 0 && !strcmp(what, "step")) {
        code = yk__cli_given(&cli, "threads") ? -1 : train_launch(&cli, args);
        code = code < 0 ? run_step(&cli) : code;
    } else if (code < 0 && !strcmp(what, "step-overhead")) {
        code = run_overhead(&cli);
    } else if (code < 0) {
        const char *near = yk__nearest(what, actions, 4);
        code = yk__cli_usage(&command, "unknown action \"%s\"; there are step, peaks, mixed, step-overhead%s%s%s", what,
                             near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
    }
    free(args);
    return code;
}
