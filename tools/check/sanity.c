/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `yoke test` without arguments: checks that this machine's devices train right, together. After `accelerate test`: the model y = a x + b
 * from a = b = 0 on x ~ N(0, 1), y = 2x + 3 + noise. Every split of the work must end at the same numbers as plain float64 on the host.
 * cmd_test.c calls it in the main thread; sanity_ranks.c checks the other parts of a loop.
 */
#include "tools/check/sanity.h"
#include "tools/check/sanity_model.h"
#include "tools/check/sanity_ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 96, BATCH = 24, EPOCHS = 3 };

typedef struct line {
    double a, b;
} line;

typedef struct sample {
    float x[ROWS], y[ROWS];
} sample;

/* A small fixed generator: the data only have to be the same everywhere. */
static void make_data(sample *s)
{
    uint32_t state = 42;
    for (int i = 0; i < ROWS; i++) {
        double u = 0;
        for (int k = 0; k < 12; k++) { /* the sum of 12 uniform numbers is nearly normal */
            state = state * 1664525u + 1013904223u;
            u += (double)(state >> 8) / 16777216.0;
        }
        s->x[i] = (float)(u - 6);
        s->y[i] = (float)(2 * (u - 6) + 3 + 0.1 * sin(i));
    }
}

/* Gradient descent in float64; the loss is the mean of the squared errors of a batch. */
static line reference_train(const sample *s)
{
    line l = {0, 0};
    for (int e = 0; e < EPOCHS; e++)
        for (int at = 0; at < ROWS; at += BATCH) {
            double ga = 0, gb = 0;
            for (int i = at; i < at + BATCH; i++) {
                const double d = l.a * (double)s->x[i] + l.b - (double)s->y[i];
                ga += 2 * d * (double)s->x[i] / BATCH;
                gb += 2 * d / BATCH;
            }
            l.a -= 0.1 * ga;
            l.b -= 0.1 * gb;
        }
    return l;
}

/* One micro batch: rows at..at+n of the data; this rank takes a part of them. part is 0 for even parts, 1 for all on the last rank. */
static void micro_run(yk_job *job, yk_opt *opt, const sample *s, int at, int n, int part, yk_t a, yk_t b)
{
    const int rank = (int)yk_rank(job), world = (int)yk_world_size(job);
    const int first = part ? (rank == world - 1 ? 0 : n) : n * rank / world, end = part ? n : n * (rank + 1) / world;
    const int64_t rows = end > first ? end - first : 0;
    int32_t row[BATCH];
    yk_t x, y;
    for (int i = 0; i < rows; i++)
        row[i] = first + i;
    yk_set_rows(job, rows, row, n);
    x = yk_input(job, YK_F32, 1, &rows, s->x + at + first);
    y = yk_input(job, YK_F32, 1, &rows, s->y + at + first);
    yk_backward(yk_mse_loss(yk_add(yk_mul(x, a), b), y, NULL));
    yk_step(opt);
}

static line job_train(yk_job *job, const sample *s, int accumulate, int part)
{
    yk_t a = yk_param(job, "a", 0, NULL, (yk_init){YK_INIT_ZEROS, 0, 0});
    yk_t b = yk_param(job, "b", 0, NULL, (yk_init){YK_INIT_ZEROS, 0, 0});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
    float got[2] = {NAN, NAN};
    for (int e = 0; e < EPOCHS; e++)
        for (int at = 0; at < ROWS && yk_ok(job); at += BATCH / accumulate)
            micro_run(job, opt, s, at, BATCH / accumulate, part, a, b);
    yk_param_read(a, got, 1);
    yk_param_read(b, got + 1, 1);
    yk_param_hash(job); /* fails the job where ranks differ */
    return (line){(double)got[0], (double)got[1]};
}

typedef struct check {
    const char *name;
    yk_dtype precision;
    uint32_t accumulate;
    int part;
} check;

static const check checks[] = {
    {"training equals float64 on the host", YK_F32, 1, 0},
    {"accumulation over 2 micro batches changes nothing", YK_F32, 2, 0},
    {"accumulation over 4 micro batches changes nothing", YK_F32, 4, 0},
    {"a rank without rows changes nothing", YK_F32, 1, 1},
    {"bf16 changes nothing where only elementwise ops are", YK_BF16, 1, 0},
    {"fp16 with loss scaling changes nothing there", YK_F16, 1, 0},
};

static void run_check(sanity *s, const check *c, const sample *data, line want)
{
    yk_job *job = yk_open(&(yk_config){.devices = s->devices, .precision = c->precision, .allow_substitute = true,
                                       .accumulate = c->accumulate, .quiet = true, .scale = {.init = 1024}});
    char text[512] = "";
    line got = {NAN, NAN};
    double worst;
    if (job && yk_ok(job))
        got = job_train(job, data, (int)c->accumulate, c->part);
    if (!job || !yk_ok(job))
        snprintf(text, sizeof text, "%s", job ? yk_error_text(job) : "out of memory");
    worst = fmax(fabs(got.a - want.a), fabs(got.b - want.b));
    if (!text[0])
        snprintf(text, sizeof text, "off by %.1e", worst);
    s->world = job ? yk_world_size(job) : 1;
    s->speak = !job || yk_is_main(job);
    sanity_report(s, worst <= 4e-6, c->name, text);
    if (job)
        yk_close(job);
}

/* A dropout mask must not depend on the rank that holds the row. */
static void check_dropout(sanity *s, yk_job *job)
{
    double sum = 0, summed;
    const int64_t n = 64;
    float ones[64], y[64] = {0};
    for (int i = 0; i < 64; i++)
        ones[i] = 1;
    yk_set_rows(job, 64, NULL, 64);
    yk_read(yk_dropout(yk_input(job, YK_F32, 1, &n, ones), 0.5f), y, sizeof y);
    yk_end(job);
    for (int i = 0; i < 64; i++)
        sum += (double)y[i] * (i + 1);
    summed = sum;
    yk_all_reduce_sum(job, &summed, 1);
    sanity_report(s, summed == sum * (double)yk_world_size(job) && sum > 0, "the same dropout mask on every rank", yk_error_text(job));
}

void sanity_run(sanity *s)
{
    sample data;
    line want;
    make_data(&data);
    want = reference_train(&data);
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        run_check(s, &checks[i], &data, want);
    sanity_model(s);
    yk_job *job = yk_open(&(yk_config){.devices = s->devices, .quiet = true, .seed = 7});
    if (!job)
        return;
    check_dropout(s, job);
    sanity_ranks(s, job);
    yk_close(job);
}
