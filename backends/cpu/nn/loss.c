/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cross entropy over logits [R,C] and its gradient, a block of columns at a time: one pass for the running maximum and sum, one for the
 * gradient. loss = w[y](1-s)(lse - z[y]) + s/C sum_c w[c](lse - z[c]), s the label smoothing.
 *
 * cpu_ops.c calls cpu_plan_loss for a node while a program is compiled; the emitted steps run on the workers, each on whole rows.
 */
#include <math.h>
#include <string.h>

#include "backends/cpu/isa/row_kernels.h"
#include "backends/cpu/isa/vec_kernels.h"
#include "backends/cpu/nn/nn.h"

#define BLOCK 2048

typedef struct loss_args {
    cpu_ref gloss, logits, labels, lse, weight, out; /* out: loss, or glogits */
    int64_t rows, classes, gloss_stride;             /* gloss_stride: 0 or 1 */
    int64_t ignore;
    float smooth;
    uint8_t dtype; /* type of the logits and their gradient */
} loss_args;

static const void *logits_at(const loss_args *loss, const cpu_ctx *ctx, int64_t r, int64_t j)
{
    return (const char *)cpu_at(ctx, loss->logits) + (r * loss->classes + j) * yk_dtype_bytes(loss->dtype);
}

/* A block in the row kernels' format: f16 is widened. */
static const void *block_of(const loss_args *loss, const cpu_ctx *ctx, int64_t r, int64_t j, size_t n, float *buf)
{
    if (loss->dtype != YK_F16)
        return logits_at(loss, ctx, r, j);
    ctx->isa->vec->to_f32(buf, logits_at(loss, ctx, r, j), YK_F16, n);
    return buf;
}

static float logit_at(const loss_args *loss, const cpu_ctx *ctx, int64_t r, int64_t j)
{
    float z;
    ctx->isa->vec->to_f32(&z, logits_at(loss, ctx, r, j), loss->dtype, 1);
    return z;
}

static float weight_sum(const loss_args *loss, const cpu_ctx *ctx)
{
    const float *w = cpu_at(ctx, loss->weight);
    return w ? ctx->isa->rows->sum(w, (size_t)loss->classes) : (float)loss->classes;
}

typedef struct row_sums {
    float max;
    double sum, wz; /* sums of exp(z - max) and of w z */
} row_sums;

static row_sums scan_row(const loss_args *loss, const cpu_ctx *ctx, int64_t r)
{
    const cpu_row_kernels *k = cpu_rows_of(ctx->isa, loss->dtype);
    const float *w = cpu_at(ctx, loss->weight);
    row_sums s = {-INFINITY, 0.0, 0.0};
    float buf[BLOCK];
    for (int64_t j = 0; j < loss->classes; j += BLOCK) {
        size_t n = (size_t)(loss->classes - j < BLOCK ? loss->classes - j : BLOCK);
        const void *x = block_of(loss, ctx, r, j, n, buf);
        float m = k->max(x, n);
        if (m > s.max || m != m) {
            s.sum *= s.max > -INFINITY ? (double)expf(s.max - m) : 0.0;
            s.max = m;
        }
        if (s.max > -INFINITY || s.max != s.max)
            s.sum += (double)k->exp_sum(x, s.max, n);
        if (loss->smooth > 0.0f)
            s.wz += (double)(w ? k->weigh(x, w + j, n) : k->sum(x, n));
    }
    return s;
}

static void loss_step(const void *args, const cpu_ctx *ctx)
{
    const loss_args *loss = args;
    const int32_t *label = cpu_at(ctx, loss->labels);
    const float *w = cpu_at(ctx, loss->weight);
    float *loss_of_row = cpu_at(ctx, loss->out), *lse = cpu_at(ctx, loss->lse), total = weight_sum(loss, ctx);
    int64_t lo, hi;
    cpu_part(loss->rows, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t r = lo; r < hi; r++) {
        row_sums s = scan_row(loss, ctx, r);
        float log_sum = logf((float)s.sum);
        lse[r] = s.max + log_sum;
        if (label[r] == loss->ignore) {
            loss_of_row[r] = 0.0f;
        } else if (label[r] < 0 || label[r] >= loss->classes) {
            loss_of_row[r] = NAN;
        } else {
            loss_of_row[r] = (w ? w[label[r]] : 1.0f) * (1.0f - loss->smooth) * (s.max - logit_at(loss, ctx, r, label[r]) + log_sum);
            if (loss->smooth > 0.0f)
                loss_of_row[r] += (float)((double)loss->smooth / (double)loss->classes *
                                          ((double)total * ((double)s.max + (double)log_sum) - s.wz));
        }
    }
}

/* Above this, rounding of lse would show in exp(z - lse), so the row is scanned again. */
#define LSE_EXACT 32.0f

/* Finds shift and factor with softmax = exp(z - *shift) * *factor for a row. */
static void softmax_terms(const loss_args *loss, const cpu_ctx *ctx, int64_t r, float *shift, float *factor)
{
    *shift = ((const float *)cpu_at(ctx, loss->lse))[r];
    *factor = 1.0f;
    if (fabsf(*shift) > LSE_EXACT) {
        row_sums s = scan_row(loss, ctx, r);
        *shift = s.max;
        *factor = (float)(1.0 / s.sum);
    }
}

/* g w[y] (1-s); NaN for a label outside the classes */
static float one_hot_part(const loss_args *loss, const cpu_ctx *ctx, int64_t y, float g)
{
    const float *w = cpu_at(ctx, loss->weight);
    return y < 0 || y >= loss->classes ? NAN : g * (w ? w[y] : 1.0f) * (1.0f - loss->smooth);
}

/* glogits = g ((w[y](1-s) + s/C W) softmax - w[y](1-s) onehot(y) - s/C w) */
static void grad_row(const loss_args *loss, const cpu_ctx *ctx, int64_t r, float total)
{
    const cpu_row_kernels *k = cpu_rows_of(ctx->isa, loss->dtype);
    const float *w = loss->smooth > 0.0f ? cpu_at(ctx, loss->weight) : NULL;
    int64_t y = ((const int32_t *)cpu_at(ctx, loss->labels))[r], item = yk_dtype_bytes(loss->dtype);
    float g = ((const float *)cpu_at(ctx, loss->gloss))[r * loss->gloss_stride], buf[BLOCK];
    char *out = (char *)cpu_at(ctx, loss->out) + r * loss->classes * item;
    cpu_loss_row row;
    if (y == loss->ignore) {
        memset(out, 0, (size_t)(loss->classes * item));
        return;
    }
    softmax_terms(loss, ctx, r, &row.shift, &row.factor);
    row.one_hot = one_hot_part(loss, ctx, y, g);
    row.uniform = g * loss->smooth / (float)loss->classes;
    row.factor *= row.one_hot + row.uniform * total;
    for (int64_t j = 0; j < loss->classes; j += BLOCK) {
        size_t n = (size_t)(loss->classes - j < BLOCK ? loss->classes - j : BLOCK);
        const void *x = block_of(loss, ctx, r, j, n, buf);
        row.w = w ? w + j : NULL;
        row.at = y < j ? n : (size_t)(y - j);
        k->loss_grad(loss->dtype == YK_F16 ? buf : (void *)(out + j * item), x, &row, n);
        if (loss->dtype == YK_F16)
            ctx->isa->vec->from_f32(out + j * item, buf, YK_F16, n);
    }
}

static void loss_bwd_step(const void *args, const cpu_ctx *ctx)
{
    const loss_args *loss = args;
    float total = weight_sum(loss, ctx);
    int64_t lo, hi;
    cpu_part(loss->rows, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t r = lo; r < hi; r++)
        grad_row(loss, ctx, r, total);
}

void cpu_plan_loss(cpu_build *build, const yk_node *node)
{
    bool bwd = node->op == YK_OP_CROSS_ENTROPY_BWD;
    uint32_t first = bwd ? 1 : 0, w = bwd ? 4 : 2;
    const yk_value *x = cpu_in(build, node, first), *y = cpu_out(build, node, 0);
    loss_args *loss = cpu_args(build, sizeof *loss);
    if (!loss)
        return;
    loss->logits = cpu_ref_of(x);
    loss->labels = cpu_ref_of(cpu_in(build, node, first + 1));
    loss->gloss = bwd ? cpu_ref_of(cpu_in(build, node, 0)) : (cpu_ref){YK_NONE, 0};
    loss->gloss_stride = bwd ? cpu_in(build, node, 0)->stride[0] : 0;
    loss->lse = cpu_ref_of(bwd ? cpu_in(build, node, 3) : cpu_out(build, node, 1));
    loss->weight = node->n_in > w ? cpu_ref_of(cpu_in(build, node, w)) : (cpu_ref){YK_NONE, 0};
    loss->out = cpu_ref_of(y);
    loss->rows = x->dim[0];
    loss->classes = x->dim[1];
    loss->ignore = cpu_attr(build, node, 0);
    loss->smooth = (float)yk_attr_f64(cpu_attr(build, node, 1));
    loss->dtype = x->dtype;
    cpu_emit(build, bwd ? loss_bwd_step : loss_step, loss, (double)(loss->rows * loss->classes) * 0.35);
}
