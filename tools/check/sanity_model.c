/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A check of `yoke test`: a network with parts that the line of sanity.c lacks. It has look-ups, batch norm, attention, and products with
 * either operand transposed. It also has a table whose gradient comes from two places, micro batches that add up, and 16-bit products.
 * sanity.c calls it on all ranks.
 *
 * All rows are one rank's in turn, so that each device computes every gradient. Each tensor is compared with the CPU plugin's for the same
 * rows. In a job of several ranks that is the first rank of that plugin, as ranks cannot open other devices than their own; without one it
 * is rank 0.
 */
#include "tools/check/sanity_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/device.h"
#include "core/job/job.h"

enum { N = 6, T = 8, D = 16, HEADS = 2, WORDS = 37, STEPS = 2, MICRO = 3, MOST = 16, NUMBERS = 16384 };

typedef struct net {
    yk_t table, gamma, beta, query, key, value, out, bias;
    yk_batch_norm_state running;
} net;

typedef struct grads {
    char name[MOST][32];
    size_t at[MOST + 1];
    uint32_t n;
    float x[NUMBERS];
} grads;

static net net_make(yk_job *job)
{
    static const int64_t words[] = {WORDS, D}, square[] = {D, D}, channels[] = {D};
    const yk_init uniform = {YK_INIT_UNIFORM, -0.4f, 0.4f};
    net m = {.table = yk_param(job, "table", 2, words, uniform),
             .gamma = yk_param(job, "norm.weight", 1, channels, (yk_init){YK_INIT_UNIFORM, 0.5f, 1.5f}),
             .beta = yk_param(job, "norm.bias", 1, channels, uniform),
             .query = yk_param(job, "query", 2, square, uniform),
             .key = yk_param(job, "key", 2, square, uniform),
             .value = yk_param(job, "value", 2, square, uniform),
             .out = yk_param(job, "out", 2, square, uniform),
             .bias = yk_param(job, "bias", 1, channels, uniform)};
    m.running.mean = yk_state(job, "norm.mean", YK_F32, 1, channels, 0);
    m.running.var = yk_state(job, "norm.var", YK_F32, 1, channels, 1);
    return m;
}

/* [n, T, D]: [n, HEADS, T, D / HEADS] */
static yk_t heads_of(yk_t x, int64_t n)
{
    const int64_t split[] = {n, T, HEADS, D / HEADS};
    return yk_permute(yk_reshape(x, 4, split), (uint32_t[]){0, 2, 1, 3});
}

static yk_t net_loss(const net *m, yk_t ids, yk_t labels, int64_t n)
{
    static const uint32_t turn[] = {0, 2, 1};
    const int64_t whole[] = {n, T, D};
    yk_t x = yk_embedding(ids, m->table, -1), h = yk_permute(x, turn);
    h = yk_permute(yk_batch_norm(h, m->gamma, m->beta, m->running, 0, 1e-3f), turn);
    yk_t y = yk_attention(heads_of(yk_linear(h, m->query, YK_NO), n), heads_of(yk_linear_io(h, m->key, YK_NO), n),
                          heads_of(yk_linear(h, m->value, YK_NO), n), &(yk_attention_config){.causal = true});
    y = yk_reshape(yk_permute(y, (uint32_t[]){0, 2, 1, 3}), 3, whole);
    y = yk_add(x, yk_gelu(yk_linear_io(y, m->out, m->bias)));
    return yk_cross_entropy(yk_linear(y, m->table, YK_NO), labels);
}

/* Micro batch number `micro`, all of it on rank `owner`. */
static void micro_run(yk_job *job, yk_opt *opt, const net *m, uint32_t micro, uint32_t owner)
{
    const int64_t n = yk_rank(job) == owner ? N : 0, dim[] = {n, T};
    int32_t ids[N * T], labels[N * T], row[N];
    for (int i = 0; i < N * T; i++) {
        ids[i] = (int32_t)((uint32_t)i * 7u + micro * 11u + (uint32_t)(i * i) % 5u) % WORDS;
        labels[i] = (int32_t)((uint32_t)i * 5u + micro * 3u) % WORDS;
    }
    for (int i = 0; i < N; i++)
        row[i] = i;
    yk_set_rows(job, n, row, N);
    yk_backward(net_loss(m, yk_input(job, YK_I32, 2, dim, ids), yk_input(job, YK_I32, 2, dim, labels), n));
    yk_step(opt);
}

static void grads_read(yk_job *job, grads *g)
{
    for (uint32_t i = 0; i < yk_param_count(job) && g->n < MOST && yk_ok(job); i++) {
        const char *name = yk_param_name(job, i);
        const size_t n = !strcmp(name, "table") ? WORDS * D : strchr(name, '.') || !strcmp(name, "bias") ? D : D * D;
        if (yk_param_is_state(job, i))
            continue;
        snprintf(g->name[g->n], sizeof g->name[0], "%s", name);
        yk_grad_read(yk_param_at(job, i), g->x + g->at[g->n], n);
        g->at[g->n + 1] = g->at[g->n] + n;
        g->n++;
    }
}

static void net_train(yk_job *job, uint32_t owner, grads *g)
{
    const net m = net_make(job);
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.05});
    for (uint32_t i = 0; i < STEPS * MICRO && yk_ok(job); i++)
        micro_run(job, opt, &m, i, owner);
    grads_read(job, g);
}

/* A training on these devices; false, with the job's error in text. */
static bool grads_take(const char *devices, yk_dtype precision, uint32_t owner, grads *g, char *text, size_t n)
{
    yk_job *job = yk_open(&(yk_config){.devices = devices, .precision = precision, .allow_substitute = true, .accumulate = MICRO, .seed = 5,
                                       .quiet = true});
    bool ok;
    g->n = 0;
    if (job && yk_ok(job))
        net_train(job, owner % yk_world_size(job), g);
    ok = job && yk_ok(job);
    if (!ok)
        snprintf(text, n, "%s: %s", devices, job ? yk_error_text(job) : "out of memory");
    if (job)
        yk_close(job);
    return ok && g->n > 0;
}

/* The tensor that differs most, by the norm of its difference over its own. */
static double grads_worst(const grads *got, const grads *want, uint32_t *which)
{
    double worst = got->n == want->n ? 0 : INFINITY;
    for (uint32_t i = 0; i < want->n && got->n == want->n; i++) {
        double off = 0, all = 0;
        for (size_t k = want->at[i]; k < want->at[i + 1]; k++) {
            off += ((double)got->x[k] - (double)want->x[k]) * ((double)got->x[k] - (double)want->x[k]);
            all += (double)want->x[k] * (double)want->x[k];
        }
        off = all > 0 ? sqrt(off / all) : INFINITY;
        if (!(off <= worst)) /* NaN, too */
            worst = isnan(off) ? INFINITY : off, *which = i;
    }
    return worst;
}

/* One side of the comparison: all rows on rank `owner` of the devices. */
typedef struct side {
    const char *devices;
    uint32_t owner;
    char device[64]; /* the owner's name */
    uint32_t product_bits; /* of its f32 products */
} side;

/* How far a gradient in fp32 may be off for a device whose products keep fewer bits, by the norm of the tensor; 0 for whole operands. */
static double products_lose(const side *a)
{
    return 4 * yk__product_loss(&(yk_device_caps){.product_bits = a->product_bits});
}

static void model_check(sanity *s, yk_dtype precision, double most, const side *a, const side *b)
{
    static grads got, want; /* 64 KiB each */
    char name[256], text[512] = "";
    uint32_t which = 0;
    double off = INFINITY;
    if (grads_take(b->devices, precision, b->owner, &want, text, sizeof text) &&
        grads_take(a->devices, precision, a->owner, &got, text, sizeof text)) {
        off = grads_worst(&got, &want, &which);
        snprintf(text, sizeof text, "%s is off by %.1e", want.name[which], off);
    }
    snprintf(name, sizeof name, "gradients of a small network in %s: %s beside %s", precision == YK_BF16 ? "bf16" : "fp32", a->device,
             b->device);
    sanity_report(s, off <= most, name, text);
}

static bool is_reference(const side *a)
{
    return !strncmp(a->device, "cpu:", 4);
}

/* The devices' names; false: the job does not start, which the checks before this one have said. */
static bool sides_name(const sanity *s, side *a)
{
    yk_job *job = yk_open(&(yk_config){.devices = s->devices, .quiet = true});
    const bool ok = job && yk_ok(job);
    for (uint32_t r = 0; r < s->world && ok; r++) {
        a[r] = (side){.devices = s->devices, .owner = r};
        snprintf(a[r].device, sizeof a[r].device, "%s", yk_device_name(job, r));
        a[r].product_bits = job->team.product_bits[r];
    }
    if (job)
        yk_close(job);
    return ok;
}

/* True if a job on the CPU plugin opens; a plugin's author may have no other plugin in the folder. */
static bool reference_opens(void)
{
    yk_job *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true});
    const bool ok = job && yk_ok(job);
    if (job)
        yk_close(job);
    return ok;
}

void sanity_model(sanity *s)
{
    side *a = calloc(s->world, sizeof *a), cpu = {.devices = "cpu", .device = "the CPU plugin"};
    uint32_t first = 0;
    const bool ok = a && sides_name(s, a);
    while (ok && first < s->world && !is_reference(&a[first]))
        first++;
    first = first == s->world ? 0 : first;
    for (uint32_t r = 0; ok && r < s->world; r++) {
        const side *by = s->world > 1 ? &a[first] : &cpu;
        if (s->world > 1 ? r == first : is_reference(&a[r])) /* nothing differs from itself */
            continue;
        if (s->world == 1 && !reference_opens()) {
            s->unsupported += 2;
            printf("unsupported  gradients of a small network: there is no CPU plugin to compare %s with\n", a[r].device);
            continue;
        }
        model_check(s, YK_F32, 1e-5 + products_lose(&a[r]) + products_lose(by), &a[r], by);
        model_check(s, YK_BF16, 2e-2, &a[r], by);
    }
    free(a);
}
