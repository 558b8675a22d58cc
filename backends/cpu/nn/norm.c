/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows and channels: layer norm, softmax, batch statistics. Rows of bf16 are read and written in place, those of f16 are
 * widened into the worker's scratch. Sums over rows (gamma, beta, statistics) go through partial results whose number
 * depends on the shape alone.
 */
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"

#define MOST_CUTS 64
#define BLOCK 2048

typedef struct row_args {
    cpu_ref in[5], out[3];
    uint8_t dtype, to; /* of all that has the shape of x; of the result */
    int64_t rows, n, cuts;
    float eps;
    bool log, gamma;
} row_args;

static float *scratch_row(const cpu_ctx *c, int64_t n, int k)
{
    return (float *)(void *)(c->thread_ws + (size_t)k * cpu_round((size_t)n * 4, 64));
}

static void *row_of(const row_args *a, const cpu_ctx *c, cpu_ref r, int64_t row)
{
    return (char *)cpu_at(c, r) + row * a->n * yk_dtype_bytes(a->dtype);
}

/* A row where it lies; of f16, in row k of the scratch. */
static const void *row_in(const row_args *a, const cpu_ctx *c, cpu_ref r, int64_t row, int k)
{
    if (a->dtype != YK_F16)
        return row_of(a, c, r, row);
    c->isa->to_f32(scratch_row(c, a->n, k), row_of(a, c, r, row), YK_F16, (size_t)a->n);
    return scratch_row(c, a->n, k);
}

/* Whether a row of the result is computed in f32 and converted to its place. */
static bool is_staged(const row_args *a)
{
    return a->dtype == YK_F16 || a->to != a->dtype;
}

/* Where to compute a row of the result; row_done moves it to its place if that is another. */
static void *row_target(const row_args *a, const cpu_ctx *c, int64_t row, int k)
{
    return is_staged(a) ? scratch_row(c, a->n, k) : row_of(a, c, a->out[0], row);
}

static void row_done(const row_args *a, const cpu_ctx *c, int64_t row, const void *y)
{
    char *to = (char *)cpu_at(c, a->out[0]) + row * a->n * yk_dtype_bytes(a->to);
    if (is_staged(a))
        c->isa->from_f32(to, y, a->to, (size_t)a->n);
}

/* ---- layer norm ---- */

static void layer_norm_step(const void *args, const cpu_ctx *c)
{
    const row_args *a = args;
    const cpu_rows *k = cpu_rows_of(c->isa, a->dtype);
    float *mean = cpu_at(c, a->out[1]), *rstd = cpu_at(c, a->out[2]);
    const float *g = cpu_at(c, a->in[1]), *b = cpu_at(c, a->in[2]);
    int64_t lo, hi;
    cpu_part(a->rows, c->tid, c->nt, &lo, &hi);
    for (int64_t r = lo; r < hi; r++) {
        const void *x = row_in(a, c, a->in[0], r, 0);
        void *y = row_target(a, c, r, 1);
        float m = k->sum(x, (size_t)a->n) / (float)a->n, s1, s2;
        k->moments(x, m, (size_t)a->n, &s1, &s2);
        float d = s1 / (float)a->n; /* what rounding left in the mean */
        m += d;
        float q = 1.0f / sqrtf(s2 / (float)a->n - d * d + a->eps);
        k->norm(y, x, m, q, g, b, (size_t)a->n);
        mean[r] = m;
        rstd[r] = q;
        row_done(a, c, r, y);
    }
}

/* gx = rstd (d - mean(d) - xhat mean(d xhat)), d = gy gamma; ggamma = sum gy xhat, gbeta = sum gy (Ba et al. 2016) */
static void layer_norm_bwd_step(const void *args, const cpu_ctx *c)
{
    const row_args *a = args;
    const cpu_rows *k = cpu_rows_of(c->isa, a->dtype);
    size_t n = (size_t)a->n;
    const float *mean = cpu_at(c, a->in[2]), *rstd = cpu_at(c, a->in[3]), *g = cpu_at(c, a->in[4]);
    int64_t lo, hi;
    cpu_part(a->cuts, c->tid, c->nt, &lo, &hi);
    for (int64_t cut = lo; cut < hi; cut++) {
        int64_t r0, r1;
        float *gg = a->gamma ? (float *)(void *)c->shared_ws + cut * 2 * a->n : NULL, *gb = gg ? gg + n : NULL;
        cpu_part(a->rows, (int)cut, (int)a->cuts, &r0, &r1);
        if (gg)
            memset(gg, 0, 2 * n * 4);
        for (int64_t r = r0; r < r1; r++) {
            const void *gy = row_in(a, c, a->in[0], r, 0), *x = row_in(a, c, a->in[1], r, 1);
            void *gx = row_target(a, c, r, 2);
            float s1, s2;
            k->norm_sums(gy, x, g, mean[r], rstd[r], n, &s1, &s2);
            k->norm_bwd(gx, gy, x, g, mean[r], rstd[r], s1 / (float)a->n, s2 / (float)a->n, gg, gb, n);
            row_done(a, c, r, gx);
        }
    }
}

static void gamma_step(const void *args, const cpu_ctx *c)
{
    const row_args *a = args;
    const float *part = (const float *)(const void *)c->shared_ws;
    int64_t lo, hi;
    cpu_part(a->n, c->tid, c->nt, &lo, &hi);
    for (int k = 0; k < 2; k++) {
        float *to = (float *)cpu_at(c, a->out[1 + k]) + lo;
        memcpy(to, part + k * a->n + lo, (size_t)(hi - lo) * 4);
        for (int64_t cut = 1; cut < a->cuts; cut++)
            c->isa->add(to, part + (cut * 2 + k) * a->n + lo, (size_t)(hi - lo));
    }
}

/* ---- softmax ---- */

static void softmax_step(const void *args, const cpu_ctx *c)
{
    const row_args *a = args;
    const cpu_rows *k = cpu_rows_of(c->isa, a->dtype);
    float *exps = scratch_row(c, a->n, 2);
    int64_t lo, hi;
    cpu_part(a->rows, c->tid, c->nt, &lo, &hi);
    for (int64_t r = lo; r < hi; r++) {
        void *y = row_target(a, c, r, 1);
        k->softmax(y, row_in(a, c, a->in[0], r, 0), exps, a->log, (size_t)a->n);
        row_done(a, c, r, y);
    }
}

static void softmax_bwd_step(const void *args, const cpu_ctx *c)
{
    const row_args *a = args;
    const cpu_rows *k = cpu_rows_of(c->isa, a->dtype);
    size_t n = (size_t)a->n;
    int64_t lo, hi;
    cpu_part(a->rows, c->tid, c->nt, &lo, &hi);
    for (int64_t r = lo; r < hi; r++) {
        const void *gy = row_in(a, c, a->in[0], r, 0), *y = row_in(a, c, a->in[1], r, 1);
        void *gx = row_target(a, c, r, 2);
        k->softmax_bwd(gx, gy, y, a->log, n);
        row_done(a, c, r, gx);
    }
}

/* ---- batch statistics: x [N,C,inner] ---- */

typedef struct stats_args {
    cpu_ref x, shift, y;
    uint8_t dtype;
    int64_t n, c, inner, cuts, groups;
} stats_args;

static void stats_line(const stats_args *a, const cpu_ctx *c, const char *p, float shift, double *s1, double *s2)
{
    float buf[BLOCK], t1, t2;
    int64_t item = yk_dtype_bytes(a->dtype);
    for (int64_t i = 0; i < a->inner; i += BLOCK) {
        size_t m = (size_t)(a->inner - i < BLOCK ? a->inner - i : BLOCK);
        const void *x = p + i * item;
        if (a->dtype == YK_F16) {
            c->isa->to_f32(buf, x, YK_F16, m);
            x = buf;
        }
        cpu_rows_of(c->isa, a->dtype)->moments(x, shift, m, &t1, &t2);
        *s1 += (double)t1;
        *s2 += (double)t2;
    }
}

/* One cut of the rows, a group of neighbouring channels: in the order of memory. */
static void bn_stats_step(const void *args, const cpu_ctx *c)
{
    const stats_args *a = args;
    const float *shift = cpu_at(c, a->shift);
    double *part = (double *)(void *)c->shared_ws;
    int64_t lo, hi, item = yk_dtype_bytes(a->dtype);
    cpu_part(a->groups * a->cuts, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t cut = t % a->cuts, c0, c1, n0, n1;
        cpu_part(a->c, (int)(t / a->cuts), (int)a->groups, &c0, &c1);
        cpu_part(a->n, (int)cut, (int)a->cuts, &n0, &n1);
        for (int64_t ch = c0; ch < c1; ch++)
            part[2 * (ch * a->cuts + cut)] = part[2 * (ch * a->cuts + cut) + 1] = 0.0;
        for (int64_t i = n0 * a->c; i < n1 * a->c; i += a->c)
            for (int64_t ch = c0; ch < c1; ch++) {
                double *s = part + 2 * (ch * a->cuts + cut);
                stats_line(a, c, (const char *)cpu_at(c, a->x) + (i + ch) * a->inner * item, shift[ch], &s[0], &s[1]);
            }
    }
}

static void bn_combine_step(const void *args, const cpu_ctx *c)
{
    const stats_args *a = args;
    const double *part = (const double *)(const void *)c->shared_ws;
    const float *shift = cpu_at(c, a->shift);
    float *y = cpu_at(c, a->y);
    for (int64_t ch = 0; ch < a->c && c->tid == 0; ch++) {
        double s1 = 0.0, s2 = 0.0;
        for (int64_t k = ch * a->cuts; k < (ch + 1) * a->cuts; k++) {
            s1 += part[2 * k];
            s2 += part[2 * k + 1];
        }
        const double n = (double)(a->n * a->inner), square = s2 - s1 * s1 / n;
        y[ch] = (float)((double)shift[ch] + s1 / n);
        y[a->c + ch] = square > 0.0 || square != square ? (float)square : 0.0f;
        y[2 * a->c + ch] = (float)n;
    }
}

static void plan_bn_stats(cpu_build *b, const yk_node *n)
{
    const yk_value *x = cpu_in(b, n, 0);
    stats_args *a = cpu_args(b, sizeof *a);
    if (!a)
        return;
    *a = (stats_args){cpu_ref_of(x), cpu_ref_of(cpu_in(b, n, 1)), cpu_ref_of(cpu_out(b, n, 0)), x->dtype, x->dim[0],
                      x->dim[1], 1, 1, 1};
    for (int i = 2; i < x->dims; i++)
        a->inner *= x->dim[i];
    a->cuts = a->n < MOST_CUTS ? a->n : MOST_CUTS;
    a->groups = MOST_CUTS / a->cuts < a->c ? MOST_CUTS / a->cuts : a->c;
    cpu_need_shared_ws(b, (size_t)(a->c * a->cuts) * 16);
    cpu_emit(b, bn_stats_step, a, (double)(a->n * a->c) * (8.0 + 0.15 * (double)a->inner));
    cpu_emit(b, bn_combine_step, a, 0.0);
}

/* ---- Planning ---- */

void cpu_plan_norm(cpu_build *b, const yk_node *n)
{
    if (n->op == YK_OP_BN_STATS) {
        plan_bn_stats(b, n);
        return;
    }
    const yk_value *x = cpu_in(b, n, 0);
    row_args *a = cpu_args(b, sizeof *a);
    if (!a)
        return;
    for (uint32_t i = 0; i < 5; i++)
        a->in[i] = i < n->n_in ? cpu_ref_of(cpu_in(b, n, i)) : (cpu_ref){YK_NONE, 0};
    for (uint32_t i = 0; i < 3; i++)
        a->out[i] = i < n->n_out ? cpu_ref_of(cpu_out(b, n, i)) : (cpu_ref){YK_NONE, 0};
    a->dtype = x->dtype;
    a->to = cpu_out(b, n, 0)->dtype;
    a->n = x->dims ? x->dim[x->dims - 1] : 1;
    a->rows = cpu_count(x) / a->n;
    a->cuts = a->rows < 16 * MOST_CUTS ? (a->rows + 15) / 16 : MOST_CUTS;
    a->gamma = n->op == YK_OP_LAYER_NORM_BWD && n->n_in > 4;
    a->log = cpu_attr(b, n, 0) != 0;
    a->eps = n->op == YK_OP_LAYER_NORM ? (float)yk_attr_f64(cpu_attr(b, n, 0)) : 0.0f;
    cpu_need_thread_ws(b, 3 * cpu_round((size_t)a->n * 4, 64) + 64);
    double count = (double)cpu_count(x);
    if (n->op == YK_OP_LAYER_NORM)
        cpu_emit(b, layer_norm_step, a, count * 0.25);
    else if (n->op == YK_OP_SOFTMAX)
        cpu_emit(b, softmax_step, a, count * 0.4);
    else if (n->op == YK_OP_SOFTMAX_BWD)
        cpu_emit(b, softmax_bwd_step, a, count * 0.4);
    else {
        if (a->gamma)
            cpu_need_shared_ws(b, (size_t)(a->cuts * 2 * a->n) * 4);
        cpu_emit(b, layer_norm_bwd_step, a, count * 0.4);
        if (a->gamma)
            cpu_emit(b, gamma_step, a, (double)(a->cuts * 2 * a->n) * 0.2);
    }
}
