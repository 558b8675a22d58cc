/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layer norm, softmax and batch statistics, over rows or channels. cpu_ops.c calls cpu_plan_norm for a node while a program is compiled;
 * the emitted steps run on the workers.
 *
 * Rows of f32 and bf16 are read and written in place. Rows of f16, and results of another type than x, pass through the worker's scratch.
 * Sums over rows (gamma, beta, statistics) use partial results whose number depends on the shape alone, so bits do not depend on the
 * workers.
 */
#include <math.h>
#include <string.h>

#include "backends/cpu/isa/row_kernels.h"
#include "backends/cpu/isa/vec_kernels.h"
#include "backends/cpu/nn/nn.h"
#include "plugins/kit/value.h"

#define MOST_CUTS 64
#define BLOCK 2048
#define FLUSH 32 /* rows whose gradients are added up in f32, before double */

typedef struct row_args {
    cpu_ref in[5], out[3];
    uint8_t dtype, y_dtype; /* type of operands with x's shape; type of the result */
    int64_t rows, length, cuts;
    float eps;
    bool log, gamma;
} row_args;

static float *scratch_row(const cpu_ctx *ctx, int64_t n, int k)
{
    return (float *)(void *)(ctx->thread_ws + (size_t)k * kit_round_bytes((size_t)n * 4, 64));
}

static void *row_of(const row_args *rows, const cpu_ctx *ctx, cpu_ref r, int64_t row)
{
    return (char *)cpu_at(ctx, r) + row * rows->length * yk_dtype_bytes(rows->dtype);
}

/* Address of a row: in place, or for f16 widened in row k of the scratch. */
static const void *row_in(const row_args *rows, const cpu_ctx *ctx, cpu_ref r, int64_t row, int k)
{
    if (rows->dtype != YK_F16)
        return row_of(rows, ctx, r, row);
    ctx->isa->vec->to_f32(scratch_row(ctx, rows->length, k), row_of(rows, ctx, r, row), YK_F16, (size_t)rows->length);
    return scratch_row(ctx, rows->length, k);
}

/* True if a row of the result is computed in f32 and converted afterwards. */
static bool is_staged(const row_args *rows)
{
    return rows->dtype == YK_F16 || rows->y_dtype != rows->dtype;
}

/* Address at which to compute a row of the result; row_done moves it to its place if necessary. */
static void *row_target(const row_args *rows, const cpu_ctx *ctx, int64_t row, int k)
{
    return is_staged(rows) ? scratch_row(ctx, rows->length, k) : row_of(rows, ctx, rows->out[0], row);
}

static void row_done(const row_args *rows, const cpu_ctx *ctx, int64_t row, const void *y)
{
    char *to = (char *)cpu_at(ctx, rows->out[0]) + row * rows->length * yk_dtype_bytes(rows->y_dtype);
    if (is_staged(rows))
        ctx->isa->vec->from_f32(to, y, rows->y_dtype, (size_t)rows->length);
}

/* ---- layer norm ---- */

static void layer_norm_step(const void *args, const cpu_ctx *ctx)
{
    const row_args *rows = args;
    const cpu_row_kernels *k = cpu_rows_of(ctx->isa, rows->dtype);
    float *mean = cpu_at(ctx, rows->out[1]), *rstd = cpu_at(ctx, rows->out[2]);
    const float *g = cpu_at(ctx, rows->in[1]), *b = cpu_at(ctx, rows->in[2]);
    int64_t lo, hi;
    cpu_part(rows->rows, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t r = lo; r < hi; r++) {
        const void *x = row_in(rows, ctx, rows->in[0], r, 0);
        void *y = row_target(rows, ctx, r, 1);
        float m = k->sum(x, (size_t)rows->length) / (float)rows->length, s1, s2;
        k->moments(x, m, (size_t)rows->length, &s1, &s2);
        float d = s1 / (float)rows->length; /* rounding error of the mean */
        m += d;
        float q = 1.0f / sqrtf(s2 / (float)rows->length - d * d + rows->eps);
        k->norm(y, x, m, q, g, b, (size_t)rows->length);
        mean[r] = m;
        rstd[r] = q;
        row_done(rows, ctx, r, y);
    }
}

/* The sums of a cut's rows for gamma and beta, [2, length], in memory that all workers see. */
static float *cut_sums(const row_args *rows, const cpu_ctx *ctx, int64_t cut)
{
    return (float *)(void *)ctx->shared_ws + cut * 2 * rows->length;
}

/* gx = rstd (d - mean(d) - xhat mean(d xhat)), d = gy gamma; ggamma = sum gy xhat, gbeta = sum gy (Ba et al. 2016) */
static void layer_norm_bwd_step(const void *args, const cpu_ctx *ctx)
{
    const row_args *rows = args;
    const cpu_row_kernels *k = cpu_rows_of(ctx->isa, rows->dtype);
    size_t n = (size_t)rows->length;
    const float *mean = cpu_at(ctx, rows->in[2]), *rstd = cpu_at(ctx, rows->in[3]), *g = cpu_at(ctx, rows->in[4]);
    double *sums = rows->gamma ? (double *)(void *)scratch_row(ctx, rows->length, 5) : NULL;
    int64_t lo, hi;
    cpu_part(rows->cuts, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t cut = lo; cut < hi; cut++) {
        int64_t r0, r1;
        cpu_part(rows->rows, (int)cut, (int)rows->cuts, &r0, &r1);
        const bool few = r1 - r0 <= FLUSH;
        float *gg = !sums ? NULL : few ? cut_sums(rows, ctx, cut) : scratch_row(ctx, rows->length, 3), *gb = gg ? gg + n : NULL;
        if (gg)
            memset(gg, 0, 2 * n * 4);
        if (gg && !few)
            memset(sums, 0, 2 * n * sizeof *sums);
        for (int64_t r = r0; r < r1; r++) {
            const void *gy = row_in(rows, ctx, rows->in[0], r, 0), *x = row_in(rows, ctx, rows->in[1], r, 1);
            void *gx = row_target(rows, ctx, r, 2);
            float s1, s2;
            k->norm_sums(gy, x, g, mean[r], rstd[r], n, &s1, &s2);
            k->norm_bwd(gx, gy, x, g, mean[r], rstd[r], s1 / (float)rows->length, s2 / (float)rows->length, gg, gb, n);
            row_done(rows, ctx, r, gx);
            if (gg && !few && (r + 1 == r1 || (r - r0) % FLUSH == FLUSH - 1))
                ctx->isa->vec->drain(sums, gg, 2 * n);
        }
        for (size_t i = 0; gg && !few && i < 2 * n; i++)
            cut_sums(rows, ctx, cut)[i] = (float)sums[i];
    }
}

static void gamma_step(const void *args, const cpu_ctx *ctx)
{
    const row_args *rows = args;
    int64_t lo, hi;
    cpu_part(rows->length, ctx->piece, ctx->pieces, &lo, &hi);
    for (int k = 0; k < 2; k++) {
        float *sum = cut_sums(rows, ctx, 0) + k * rows->length + lo;
        cpu_cuts_sum(ctx, sum, 2 * (size_t)rows->length, rows->cuts, (size_t)(hi - lo));
        memcpy((float *)cpu_at(ctx, rows->out[1 + k]) + lo, sum, (size_t)(hi - lo) * 4);
    }
}

/* ---- softmax ---- */

static void softmax_step(const void *args, const cpu_ctx *ctx)
{
    const row_args *rows = args;
    const cpu_row_kernels *k = cpu_rows_of(ctx->isa, rows->dtype);
    float *exps = scratch_row(ctx, rows->length, 2);
    int64_t lo, hi;
    cpu_part(rows->rows, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t r = lo; r < hi; r++) {
        void *y = row_target(rows, ctx, r, 1);
        k->softmax(y, row_in(rows, ctx, rows->in[0], r, 0), exps, rows->log, (size_t)rows->length);
        row_done(rows, ctx, r, y);
    }
}

static void softmax_bwd_step(const void *args, const cpu_ctx *ctx)
{
    const row_args *rows = args;
    const cpu_row_kernels *k = cpu_rows_of(ctx->isa, rows->dtype);
    size_t n = (size_t)rows->length;
    int64_t lo, hi;
    cpu_part(rows->rows, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t r = lo; r < hi; r++) {
        const void *gy = row_in(rows, ctx, rows->in[0], r, 0), *y = row_in(rows, ctx, rows->in[1], r, 1);
        void *gx = row_target(rows, ctx, r, 2);
        k->softmax_bwd(gx, gy, y, rows->log, n);
        row_done(rows, ctx, r, gx);
    }
}

/* ---- batch statistics: x [N,C,inner] ---- */

typedef struct stats_args {
    cpu_ref x, shift, y;
    uint8_t dtype;
    int64_t images, channels, pixels, cuts, groups;
} stats_args;

static void stats_line(const stats_args *stats, const cpu_ctx *ctx, const char *p, float shift, double *s1, double *s2)
{
    float buf[BLOCK], t1, t2;
    int64_t item = yk_dtype_bytes(stats->dtype);
    for (int64_t i = 0; i < stats->pixels; i += BLOCK) {
        size_t m = (size_t)(stats->pixels - i < BLOCK ? stats->pixels - i : BLOCK);
        const void *x = p + i * item;
        if (stats->dtype == YK_F16) {
            ctx->isa->vec->to_f32(buf, x, YK_F16, m);
            x = buf;
        }
        cpu_rows_of(ctx->isa, stats->dtype)->moments(x, shift, m, &t1, &t2);
        *s1 += (double)t1;
        *s2 += (double)t2;
    }
}

/* Statistics of one cut of the rows for a group of neighbouring channels, in the order of memory. */
static void bn_stats_step(const void *args, const cpu_ctx *ctx)
{
    const stats_args *stats = args;
    const float *shift = cpu_at(ctx, stats->shift);
    double *part = (double *)(void *)ctx->shared_ws;
    int64_t lo, hi, item = yk_dtype_bytes(stats->dtype);
    cpu_part(stats->groups * stats->cuts, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t cut = t % stats->cuts, c0, c1, n0, n1;
        cpu_part(stats->channels, (int)(t / stats->cuts), (int)stats->groups, &c0, &c1);
        cpu_part(stats->images, (int)cut, (int)stats->cuts, &n0, &n1);
        for (int64_t ch = c0; ch < c1; ch++)
            part[2 * (ch * stats->cuts + cut)] = part[2 * (ch * stats->cuts + cut) + 1] = 0.0;
        for (int64_t i = n0 * stats->channels; i < n1 * stats->channels; i += stats->channels)
            for (int64_t ch = c0; ch < c1; ch++) {
                double *s = part + 2 * (ch * stats->cuts + cut);
                stats_line(stats, ctx, (const char *)cpu_at(ctx, stats->x) + (i + ch) * stats->pixels * item, shift[ch], &s[0], &s[1]);
            }
    }
}

static void bn_combine_step(const void *args, const cpu_ctx *ctx)
{
    const stats_args *stats = args;
    const double *part = (const double *)(const void *)ctx->shared_ws;
    const float *shift = cpu_at(ctx, stats->shift);
    float *y = cpu_at(ctx, stats->y);
    for (int64_t ch = 0; ch < stats->channels && ctx->piece == 0; ch++) {
        double s1 = 0.0, s2 = 0.0;
        for (int64_t k = ch * stats->cuts; k < (ch + 1) * stats->cuts; k++) {
            s1 += part[2 * k];
            s2 += part[2 * k + 1];
        }
        const double n = (double)(stats->images * stats->pixels), square = s2 - s1 * s1 / n;
        y[ch] = (float)((double)shift[ch] + s1 / n);
        y[stats->channels + ch] = square > 0.0 || square != square ? (float)square : 0.0f;
        y[2 * stats->channels + ch] = (float)n;
    }
}

static void plan_bn_stats(cpu_build *build, const yk_node *node)
{
    const yk_value *x = cpu_in(build, node, 0);
    stats_args *stats = cpu_args(build, sizeof *stats);
    if (!stats)
        return;
    *stats = (stats_args){cpu_ref_of(x), cpu_ref_of(cpu_in(build, node, 1)), cpu_ref_of(cpu_out(build, node, 0)), x->dtype, x->dim[0],
                      x->dim[1], 1, 1, 1};
    for (int i = 2; i < x->dims; i++)
        stats->pixels *= x->dim[i];
    stats->cuts = stats->images < MOST_CUTS ? stats->images : MOST_CUTS;
    stats->groups = MOST_CUTS / stats->cuts < stats->channels ? MOST_CUTS / stats->cuts : stats->channels;
    cpu_need_shared_ws(build, (size_t)(stats->channels * stats->cuts) * 16);
    cpu_emit(build, bn_stats_step, stats, (double)(stats->images * stats->channels) * (8.0 + 0.15 * (double)stats->pixels));
    cpu_emit(build, bn_combine_step, stats, 0.0);
}

/* ---- Planning ---- */

void cpu_plan_norm(cpu_build *build, const yk_node *node)
{
    if (node->op == YK_OP_BN_STATS) {
        plan_bn_stats(build, node);
        return;
    }
    const yk_value *x = cpu_in(build, node, 0);
    row_args *rows = cpu_args(build, sizeof *rows);
    if (!rows)
        return;
    for (uint32_t i = 0; i < 5; i++)
        rows->in[i] = i < node->n_in ? cpu_ref_of(cpu_in(build, node, i)) : (cpu_ref){YK_NONE, 0};
    for (uint32_t i = 0; i < 3; i++)
        rows->out[i] = i < node->n_out ? cpu_ref_of(cpu_out(build, node, i)) : (cpu_ref){YK_NONE, 0};
    rows->dtype = x->dtype;
    rows->y_dtype = cpu_out(build, node, 0)->dtype;
    rows->length = x->dims ? x->dim[x->dims - 1] : 1;
    rows->rows = kit_value_count(x) / rows->length;
    rows->cuts = rows->rows < 16 * MOST_CUTS ? (rows->rows + 15) / 16 : MOST_CUTS;
    rows->gamma = node->op == YK_OP_LAYER_NORM_BWD && node->n_in > 4;
    rows->log = cpu_attr(build, node, 0) != 0;
    rows->eps = node->op == YK_OP_LAYER_NORM ? (float)yk_attr_f64(cpu_attr(build, node, 0)) : 0.0f;
    cpu_need_thread_ws(build, (rows->gamma ? 9 : 3) * kit_round_bytes((size_t)rows->length * 4, 64) + 64);
    double count = (double)kit_value_count(x);
    if (node->op == YK_OP_LAYER_NORM)
        cpu_emit(build, layer_norm_step, rows, count * 0.25);
    else if (node->op == YK_OP_SOFTMAX)
        cpu_emit(build, softmax_step, rows, count * 0.4);
    else if (node->op == YK_OP_SOFTMAX_BWD)
        cpu_emit(build, softmax_bwd_step, rows, count * 0.4);
    else {
        if (rows->gamma)
            cpu_need_shared_ws(build, (size_t)(rows->cuts * 2 * rows->length) * 4);
        cpu_emit(build, layer_norm_bwd_step, rows, count * 0.4);
        if (rows->gamma)
            cpu_emit(build, gamma_step, rows, (double)(rows->cuts * 2 * rows->length) * 0.2);
    }
}
