/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference evaluation of attention and its gradient in float64, one query row at a time. Tests and the conformance suite compare devices
 * with its numbers.
 *
 * eval.c calls it through the table of operations (op_table.h), with operands read into dense arrays of doubles; any thread. A key that
 * mask or causality hides has weight 0, and so has each key of a row that sees none.
 */
#include "core/graph/graph_internal.h"

#include <math.h>

#include "core/base/mem.h"

typedef struct attention {
    int64_t b, h, tq, d, hk, tk;
    int64_t flags;
    bool causal;
    double scale, p;
    uint32_t stream;
    const double *q, *k, *v, *keep, *bias, *key, *rows;
} attention;

static attention attention_of(const yk__eval *e, uint32_t first)
{
    const int64_t *q = e->x_value[first]->dim, *k = e->x_value[first + 1]->dim;
    uint32_t at = first + 3;
    attention att = {.b = q[0], .h = q[1], .tq = q[2], .d = q[3], .hk = k[1], .tk = k[2]};
    att.causal = e->attr[0] != 0;
    att.scale = yk_attr_f64(e->attr[1]);
    att.p = yk_attr_f64(e->attr[2]);
    att.stream = (uint32_t)e->attr[3];
    att.flags = e->attr[4];
    att.q = e->x[first], att.k = e->x[first + 1], att.v = e->x[first + 2];
    if (att.flags & YK_ATT_KEEP)
        att.keep = e->x[at++];
    if (att.flags & YK_ATT_BIAS)
        att.bias = e->x[at++];
    if (att.flags & YK_ATT_DROP)
        att.key = e->x[at], att.rows = e->x[at + 1];
    return att;
}

/* Index of key row j for the head of query row `row`. */
static int64_t key_row(const attention *att, int64_t row, int64_t j)
{
    const int64_t h = row / att->tq % att->h, b = row / att->tq / att->h;
    return (b * att->hk + h / (att->h / att->hk)) * att->tk + j;
}

/* Scores of query row `row` (over B, H, Tq); -inf where the key is not seen. */
static void row_scores(const attention *att, int64_t row, double *s)
{
    const int64_t i = row % att->tq, b = row / att->tq / att->h;
    for (int64_t j = 0; j < att->tk; j++) {
        const double *q = att->q + row * att->d, *k = att->k + key_row(att, row, j) * att->d;
        s[j] = 0;
        for (int64_t c = 0; c < att->d; c++)
            s[j] += q[c] * k[c];
        s[j] *= att->scale;
        if (att->bias)
            s[j] += att->bias[row * att->tk + j];
        if ((att->keep && att->keep[b * att->tk + j] == 0) || (att->causal && j > i + att->tk - att->tq))
            s[j] = -INFINITY;
    }
}

/* Dropout's factor of probability j of the row. */
static double dropout_factor(const attention *att, int64_t row, int64_t j)
{
    double u;
    if (!(att->flags & YK_ATT_DROP))
        return 1;
    u = yk__eval_uniform(att->key, att->rows, att->b, att->b * att->h * att->tq * att->tk, att->stream,
                         row * att->tk + j);
    return u >= att->p ? 1 / (1 - att->p) : 0;
}

static double row_lse(const double *s, int64_t n)
{
    double m = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++)
        m = s[j] > m || isnan(s[j]) ? s[j] : m;
    if (m == -INFINITY)
        return m;
    for (int64_t j = 0; j < n; j++)
        sum += exp(s[j] - m);
    return m + log(sum);
}

yk_status yk__eval_attention(yk__eval *e)
{
    attention att = attention_of(e, 0);
    double *s = yk__malloc((size_t)att.tk * sizeof *s);
    if (!s)
        return yk__fail_mem(e->err, (uint64_t)att.tk * 8, "evaluation");
    for (int64_t row = 0; row < att.b * att.h * att.tq; row++) {
        double lse;
        row_scores(&att, row, s);
        lse = row_lse(s, att.tk);
        e->y[1][row] = lse;
        for (int64_t j = 0; j < att.tk && lse != -INFINITY; j++) {
            double p = exp(s[j] - lse) * dropout_factor(&att, row, j);
            for (int64_t c = 0; c < att.d; c++)
                e->y[0][row * att.d + c] += p * att.v[key_row(&att, row, j) * att.d + c];
        }
    }
    yk__free(s);
    return YK_OK;
}

static double dot_product(const double *x, const double *y, int64_t n)
{
    double s = 0;
    for (int64_t c = 0; c < n; c++)
        s += x[c] * y[c];
    return s;
}

/* Row by row: p = softmax, gv += p gout, gp = gout v, gs = p (gp - gout out), gq += gs k, gk += gs q. */
static void backward_row(const yk__eval *e, const attention *att, int64_t row, const double *s)
{
    const double *gout = e->x[0] + row * att->d, *q = att->q + row * att->d, lse = e->x[2][row];
    const double sum = dot_product(gout, e->x[1] + row * att->d, att->d);
    for (int64_t j = 0; j < att->tk; j++) {
        const int64_t at = key_row(att, row, j) * att->d;
        const double p = exp(s[j] - lse), m = dropout_factor(att, row, j);
        const double gs = p * (dot_product(gout, att->v + at, att->d) * m - sum);
        for (int64_t c = 0; c < att->d; c++) {
            e->y[0][row * att->d + c] += gs * att->scale * att->k[at + c];
            e->y[1][at + c] += gs * att->scale * q[c];
            e->y[2][at + c] += p * m * gout[c];
        }
        if (att->flags & YK_ATT_GBIAS)
            e->y[3][row * att->tk + j] = gs;
    }
}

yk_status yk__eval_attention_bwd(yk__eval *e)
{
    attention att = attention_of(e, 3);
    double *s = yk__malloc((size_t)att.tk * sizeof *s);
    if (!s)
        return yk__fail_mem(e->err, (uint64_t)att.tk * 8, "evaluation");
    for (int64_t row = 0; row < att.b * att.h * att.tq; row++) {
        row_scores(&att, row, s);
        if (e->x[2][row] != -INFINITY)
            backward_row(e, &att, row, s);
    }
    yk__free(s);
    return YK_OK;
}
