/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cross entropy over logits [R,C], a block of columns at a time: one pass for the running maximum and sum, one for the
 * gradient. loss = w[y](1-s)(lse - z[y]) + s/C sum_c w[c](lse - z[c]).
 */
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"

#define BLOCK 2048

typedef struct loss_args {
    cpu_ref gloss, logits, labels, lse, weight, out; /* out: loss, or glogits */
    int64_t rows, n, gloss_stride;                   /* gstep: stride of gloss, 0 or 1 */
    int64_t ignore;
    float smooth;
    uint8_t dtype; /* of the logits and their gradient */
} loss_args;

static const void *logits_at(const loss_args *a, const cpu_ctx *c, int64_t r, int64_t j)
{
    return (const char *)cpu_at(c, a->logits) + (r * a->n + j) * yk_dtype_bytes(a->dtype);
}

/* as the row kernels read it: f16 widened */
static const void *block_of(const loss_args *a, const cpu_ctx *c, int64_t r, int64_t j, size_t n, float *buf)
{
    if (a->dtype != YK_F16)
        return logits_at(a, c, r, j);
    c->isa->to_f32(buf, logits_at(a, c, r, j), YK_F16, n);
    return buf;
}

static float logit_at(const loss_args *a, const cpu_ctx *c, int64_t r, int64_t j)
{
    float z;
    c->isa->to_f32(&z, logits_at(a, c, r, j), a->dtype, 1);
    return z;
}

static float weight_sum(const loss_args *a, const cpu_ctx *c)
{
    const float *w = cpu_at(c, a->weight);
    return w ? c->isa->rows->sum(w, (size_t)a->n) : (float)a->n;
}

typedef struct row_sums {
    float max, sum;
    double wz; /* sum of w z */
} row_sums;

static row_sums scan_row(const loss_args *a, const cpu_ctx *c, int64_t r)
{
    const cpu_rows *k = cpu_rows_of(c->isa, a->dtype);
    const float *w = cpu_at(c, a->weight);
    row_sums s = {-INFINITY, 0.0f, 0.0};
    float buf[BLOCK];
    for (int64_t j = 0; j < a->n; j += BLOCK) {
        size_t n = (size_t)(a->n - j < BLOCK ? a->n - j : BLOCK);
        const void *x = block_of(a, c, r, j, n, buf);
        float m = k->max(x, n);
        if (m > s.max || m != m) {
            s.sum *= s.max > -INFINITY ? expf(s.max - m) : 0.0f;
            s.max = m;
        }
        if (s.max > -INFINITY || s.max != s.max)
            s.sum += k->exp_sum(x, s.max, n);
        if (a->smooth > 0.0f)
            s.wz += (double)(w ? k->weigh(x, w + j, n) : k->sum(x, n));
    }
    return s;
}

static void loss_step(const void *args, const cpu_ctx *c)
{
    const loss_args *a = args;
    const int32_t *label = cpu_at(c, a->labels);
    const float *w = cpu_at(c, a->weight);
    float *loss = cpu_at(c, a->out), *lse = cpu_at(c, a->lse), total = weight_sum(a, c);
    int64_t lo, hi;
    cpu_part(a->rows, c->tid, c->nt, &lo, &hi);
    for (int64_t r = lo; r < hi; r++) {
        row_sums s = scan_row(a, c, r);
        float log_sum = logf(s.sum);
        lse[r] = s.max + log_sum;
        if (label[r] == a->ignore) {
            loss[r] = 0.0f;
        } else if (label[r] < 0 || label[r] >= a->n) {
            loss[r] = NAN;
        } else {
            loss[r] = (w ? w[label[r]] : 1.0f) * (1.0f - a->smooth) * (s.max - logit_at(a, c, r, label[r]) + log_sum);
            if (a->smooth > 0.0f)
                loss[r] += (float)((double)a->smooth / (double)a->n * ((double)total * ((double)s.max + (double)log_sum) - s.wz));
        }
    }
}

/* Above this the rounding of lse itself would show in exp(z - lse): the row is scanned again. */
#define LSE_EXACT 32.0f

/* what exp(z - *shift) * *factor needs to be the softmax of a row */
static void softmax_terms(const loss_args *a, const cpu_ctx *c, int64_t r, float *shift, float *factor)
{
    *shift = ((const float *)cpu_at(c, a->lse))[r];
    *factor = 1.0f;
    if (fabsf(*shift) > LSE_EXACT) {
        row_sums s = scan_row(a, c, r);
        *shift = s.max;
        *factor = 1.0f / s.sum;
    }
}

/* g w[y] (1-s); NaN for a label that is none */
static float one_hot_part(const loss_args *a, const cpu_ctx *c, int64_t y, float g)
{
    const float *w = cpu_at(c, a->weight);
    return y < 0 || y >= a->n ? NAN : g * (w ? w[y] : 1.0f) * (1.0f - a->smooth);
}

/* glogits = g ((w[y](1-s) + s/C W) softmax - w[y](1-s) onehot(y) - s/C w) */
static void grad_row(const loss_args *a, const cpu_ctx *c, int64_t r, float total)
{
    const cpu_rows *k = cpu_rows_of(c->isa, a->dtype);
    const float *w = a->smooth > 0.0f ? cpu_at(c, a->weight) : NULL;
    int64_t y = ((const int32_t *)cpu_at(c, a->labels))[r], item = yk_dtype_bytes(a->dtype);
    float g = ((const float *)cpu_at(c, a->gloss))[r * a->gloss_stride], buf[BLOCK];
    char *out = (char *)cpu_at(c, a->out) + r * a->n * item;
    cpu_loss_row row;
    if (y == a->ignore) {
        memset(out, 0, (size_t)(a->n * item));
        return;
    }
    softmax_terms(a, c, r, &row.shift, &row.factor);
    row.one_hot = one_hot_part(a, c, y, g);
    row.uniform = g * a->smooth / (float)a->n;
    row.factor *= row.one_hot + row.uniform * total;
    for (int64_t j = 0; j < a->n; j += BLOCK) {
        size_t n = (size_t)(a->n - j < BLOCK ? a->n - j : BLOCK);
        const void *x = block_of(a, c, r, j, n, buf);
        row.w = w ? w + j : NULL;
        row.at = y < j ? n : (size_t)(y - j);
        k->loss_grad(a->dtype == YK_F16 ? buf : (void *)(out + j * item), x, &row, n);
        if (a->dtype == YK_F16)
            c->isa->from_f32(out + j * item, buf, YK_F16, n);
    }
}

static void loss_bwd_step(const void *args, const cpu_ctx *c)
{
    const loss_args *a = args;
    float total = weight_sum(a, c);
    int64_t lo, hi;
    cpu_part(a->rows, c->tid, c->nt, &lo, &hi);
    for (int64_t r = lo; r < hi; r++)
        grad_row(a, c, r, total);
}

void cpu_plan_loss(cpu_build *b, const yk_node *n)
{
    bool bwd = n->op == YK_OP_CROSS_ENTROPY_BWD;
    uint32_t first = bwd ? 1 : 0, w = bwd ? 4 : 2;
    const yk_value *x = cpu_in(b, n, first), *y = cpu_out(b, n, 0);
    loss_args *a = cpu_args(b, sizeof *a);
    if (!a)
        return;
    a->logits = cpu_ref_of(x);
    a->labels = cpu_ref_of(cpu_in(b, n, first + 1));
    a->gloss = bwd ? cpu_ref_of(cpu_in(b, n, 0)) : (cpu_ref){YK_NONE, 0};
    a->gloss_stride = bwd ? cpu_in(b, n, 0)->stride[0] : 0;
    a->lse = cpu_ref_of(bwd ? cpu_in(b, n, 3) : cpu_out(b, n, 1));
    a->weight = n->n_in > w ? cpu_ref_of(cpu_in(b, n, w)) : (cpu_ref){YK_NONE, 0};
    a->out = cpu_ref_of(y);
    a->rows = x->dim[0];
    a->n = x->dim[1];
    a->ignore = cpu_attr(b, n, 0);
    a->smooth = (float)yk_attr_f64(cpu_attr(b, n, 1));
    a->dtype = x->dtype;
    cpu_emit(b, bwd ? loss_bwd_step : loss_step, a, (double)(a->rows * a->n) * 0.35);
}
