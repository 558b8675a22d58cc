/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows and channels: layer norm, softmax, batch statistics. 16-bit rows are widened into the worker's scratch. Sums
 * over rows (gamma, beta, statistics) go through partial results whose number depends on the shape alone.
 */
#include <math.h>
#include <string.h>

#include "cpu.h"

#define MOST_CUTS 64
#define BLOCK 2048

typedef struct row_args {
    cpu_ref in[5], out[3];
    uint8_t dx, dg, dy; /* types of x, of gy, of the first result */
    int64_t rows, n, cuts;
    float eps;
    bool log, gamma;
} row_args;

static const float *widen_row(const cpu_ctx *c, cpu_ref r, int64_t row, int64_t n, int dtype, float *buf)
{
    const char *p = (const char *)cpu_at(c, r) + row * n * yk_dtype_bytes((uint32_t)dtype);
    if (dtype == YK_F32)
        return (const float *)(const void *)p;
    c->isa->to_f32(buf, p, dtype, (size_t)n);
    return buf;
}

static void *row_out(const cpu_ctx *c, cpu_ref r, int64_t row, int64_t n, int dtype)
{
    return (char *)cpu_at(c, r) + row * n * yk_dtype_bytes((uint32_t)dtype);
}

/* where to compute a row of the result: in place, or in buf if it must be narrowed */
static float *row_target(const cpu_ctx *c, cpu_ref r, int64_t row, int64_t n, int dtype, float *buf)
{
    return dtype == YK_F32 ? row_out(c, r, row, n, dtype) : buf;
}

static float *scratch_row(const cpu_ctx *c, int64_t n, int k)
{
    return (float *)(void *)(c->mine + (size_t)k * cpu_round((size_t)n * 4, 64));
}

/* ---- layer norm ---- */

static void layer_norm_step(const void *args, const cpu_ctx *c)
{
    const row_args *a = args;
    const cpu_isa *isa = c->isa;
    float *mean = cpu_at(c, a->out[1]), *rstd = cpu_at(c, a->out[2]);
    const float *g = cpu_at(c, a->in[1]), *b = cpu_at(c, a->in[2]);
    int64_t lo, hi;
    cpu_part(a->rows, c->tid, c->nt, &lo, &hi);
    for (int64_t r = lo; r < hi; r++) {
        const float *x = widen_row(c, a->in[0], r, a->n, a->dx, scratch_row(c, a->n, 0));
        float *y = row_target(c, a->out[0], r, a->n, a->dy, scratch_row(c, a->n, 1));
        float m = isa->sum(x, (size_t)a->n) / (float)a->n, s1, s2;
        isa->moments(x, m, (size_t)a->n, &s1, &s2);
        float d = s1 / (float)a->n; /* what rounding left in the mean */
        m += d;
        float q = 1.0f / sqrtf(s2 / (float)a->n - d * d + a->eps);
        isa->norm(y, x, m, q, g, b, (size_t)a->n);
        mean[r] = m;
        rstd[r] = q;
        isa->from_f32(row_out(c, a->out[0], r, a->n, a->dy), y, a->dy, (size_t)a->n);
    }
}

/* gx = rstd (d - mean(d) - xhat mean(d xhat)), d = gy gamma; ggamma = sum gy xhat, gbeta = sum gy (Ba et al. 2016) */
static void layer_norm_bwd_step(const void *args, const cpu_ctx *c)
{
    const row_args *a = args;
    const cpu_isa *isa = c->isa;
    size_t n = (size_t)a->n;
    const float *mean = cpu_at(c, a->in[2]), *rstd = cpu_at(c, a->in[3]), *g = cpu_at(c, a->in[4]);
    int64_t lo, hi;
    cpu_part(a->cuts, c->tid, c->nt, &lo, &hi);
    for (int64_t cut = lo; cut < hi; cut++) {
        int64_t r0, r1;
        float *gg = a->gamma ? (float *)(void *)c->shared + cut * 2 * a->n : NULL, *gb = gg ? gg + n : NULL;
        cpu_part(a->rows, (int)cut, (int)a->cuts, &r0, &r1);
        if (gg)
            memset(gg, 0, 2 * n * 4);
        for (int64_t r = r0; r < r1; r++) {
            const float *gy = widen_row(c, a->in[0], r, a->n, a->dg, scratch_row(c, a->n, 0));
            const float *x = widen_row(c, a->in[1], r, a->n, a->dx, scratch_row(c, a->n, 1));
            float *gx = row_target(c, a->out[0], r, a->n, a->dy, scratch_row(c, a->n, 2)), s1, s2;
            isa->norm_sums(gy, x, g, mean[r], rstd[r], n, &s1, &s2);
            isa->norm_bwd(gx, gy, x, g, mean[r], rstd[r], s1 / (float)a->n, s2 / (float)a->n, gg, gb, n);
            isa->from_f32(row_out(c, a->out[0], r, a->n, a->dy), gx, a->dy, n);
        }
    }
}

static void gamma_step(const void *args, const cpu_ctx *c)
{
    const row_args *a = args;
    const float *part = (const float *)(const void *)c->shared;
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
    const cpu_isa *isa = c->isa;
    size_t n = (size_t)a->n;
    int64_t lo, hi;
    cpu_part(a->rows, c->tid, c->nt, &lo, &hi);
    for (int64_t r = lo; r < hi; r++) {
        const float *x = widen_row(c, a->in[0], r, a->n, a->dx, scratch_row(c, a->n, 0));
        float *y = row_target(c, a->out[0], r, a->n, a->dy, scratch_row(c, a->n, 1));
        float m = isa->max(x, n);
        if (a->log) {
            float s = isa->exp_sum(NULL, x, m, n);
            isa->norm(y, x, m, 1.0f, NULL, NULL, n); /* apart: log(s) would be lost beside a huge m */
            isa->norm(y, y, logf(s), 1.0f, NULL, NULL, n);
        } else {
            float s = isa->exp_sum(y, x, m, n);
            isa->scale(y, y, 1.0f / s, n);
        }
        isa->from_f32(row_out(c, a->out[0], r, a->n, a->dy), y, a->dy, n);
    }
}

static void softmax_bwd_step(const void *args, const cpu_ctx *c)
{
    const row_args *a = args;
    const cpu_isa *isa = c->isa;
    size_t n = (size_t)a->n;
    int64_t lo, hi;
    cpu_part(a->rows, c->tid, c->nt, &lo, &hi);
    for (int64_t r = lo; r < hi; r++) {
        const float *gy = widen_row(c, a->in[0], r, a->n, a->dg, scratch_row(c, a->n, 0));
        const float *y = widen_row(c, a->in[1], r, a->n, a->dx, scratch_row(c, a->n, 1));
        float *gx = row_target(c, a->out[0], r, a->n, a->dy, scratch_row(c, a->n, 2));
        isa->softmax_bwd(gx, gy, y, a->log ? isa->sum(gy, n) : isa->dot(gy, y, n), a->log, n);
        isa->from_f32(row_out(c, a->out[0], r, a->n, a->dy), gx, a->dy, n);
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
        const float *x = (const float *)(const void *)(p + i * item);
        if (a->dtype != YK_F32) {
            c->isa->to_f32(buf, p + i * item, a->dtype, m);
            x = buf;
        }
        c->isa->moments(x, shift, m, &t1, &t2);
        *s1 += (double)t1;
        *s2 += (double)t2;
    }
}

/* One cut of the rows, a group of neighbouring channels: in the order of memory. */
static void bn_stats_step(const void *args, const cpu_ctx *c)
{
    const stats_args *a = args;
    const float *shift = cpu_at(c, a->shift);
    double *part = (double *)(void *)c->shared;
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
    const double *part = (const double *)(const void *)c->shared;
    float *y = cpu_at(c, a->y);
    for (int64_t ch = 0; ch < a->c && c->tid == 0; ch++) {
        double s1 = 0.0, s2 = 0.0;
        for (int64_t k = ch * a->cuts; k < (ch + 1) * a->cuts; k++) {
            s1 += part[2 * k];
            s2 += part[2 * k + 1];
        }
        y[ch] = (float)s1;
        y[a->c + ch] = (float)s2;
        y[2 * a->c + ch] = (float)(a->n * a->inner);
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
    cpu_need_shared(b, (size_t)(a->c * a->cuts) * 16);
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
    bool bwd = n->op == YK_OP_LAYER_NORM_BWD || n->op == YK_OP_SOFTMAX_BWD;
    const yk_value *x = cpu_in(b, n, bwd ? 1 : 0), *y = cpu_out(b, n, 0);
    row_args *a = cpu_args(b, sizeof *a);
    if (!a)
        return;
    for (uint32_t i = 0; i < 5; i++)
        a->in[i] = i < n->n_in ? cpu_ref_of(cpu_in(b, n, i)) : (cpu_ref){YK_NONE, 0};
    for (uint32_t i = 0; i < 3; i++)
        a->out[i] = i < n->n_out ? cpu_ref_of(cpu_out(b, n, i)) : (cpu_ref){YK_NONE, 0};
    a->dx = x->dtype;
    a->dg = cpu_in(b, n, 0)->dtype;
    a->dy = y->dtype;
    a->n = x->dims ? x->dim[x->dims - 1] : 1;
    a->rows = cpu_count(x) / a->n;
    a->cuts = a->rows < 16 * MOST_CUTS ? (a->rows + 15) / 16 : MOST_CUTS;
    a->gamma = n->op == YK_OP_LAYER_NORM_BWD && n->n_in > 4;
    a->log = cpu_attr(b, n, 0) != 0;
    a->eps = n->op == YK_OP_LAYER_NORM ? (float)yk_attr_f64(cpu_attr(b, n, 0)) : 0.0f;
    cpu_need_mine(b, 3 * cpu_round((size_t)a->n * 4, 64) + 64);
    double count = (double)cpu_count(x);
    if (n->op == YK_OP_LAYER_NORM)
        cpu_emit(b, layer_norm_step, a, count * 0.25);
    else if (n->op == YK_OP_SOFTMAX)
        cpu_emit(b, softmax_step, a, count * 0.4);
    else if (n->op == YK_OP_SOFTMAX_BWD)
        cpu_emit(b, softmax_bwd_step, a, count * 0.4);
    else {
        if (a->gamma)
            cpu_need_shared(b, (size_t)(a->cuts * 2 * a->n) * 4);
        cpu_emit(b, layer_norm_bwd_step, a, count * 0.4);
        if (a->gamma)
            cpu_emit(b, gamma_step, a, (double)(a->cuts * 2 * a->n) * 0.2);
    }
}
