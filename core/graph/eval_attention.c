/* SPDX-License-Identifier: Apache-2.0 */
/* Reference evaluation of attention: one query row at a time. */
#include "core/graph/internal.h"

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
    attention a = {.b = q[0], .h = q[1], .tq = q[2], .d = q[3], .hk = k[1], .tk = k[2]};
    a.causal = e->attr[0] != 0;
    a.scale = yk_attr_f64(e->attr[1]);
    a.p = yk_attr_f64(e->attr[2]);
    a.stream = (uint32_t)e->attr[3];
    a.flags = e->attr[4];
    a.q = e->x[first], a.k = e->x[first + 1], a.v = e->x[first + 2];
    if (a.flags & YK_ATT_KEEP)
        a.keep = e->x[at++];
    if (a.flags & YK_ATT_BIAS)
        a.bias = e->x[at++];
    if (a.flags & YK_ATT_DROP)
        a.key = e->x[at], a.rows = e->x[at + 1];
    return a;
}

/* Index of key row j for the head of query row `row`. */
static int64_t key_row(const attention *a, int64_t row, int64_t j)
{
    const int64_t h = row / a->tq % a->h, b = row / a->tq / a->h;
    return (b * a->hk + h / (a->h / a->hk)) * a->tk + j;
}

/* Scores of query row `row` (over B, H, Tq); -inf where the key is not seen. */
static void row_scores(const attention *a, int64_t row, double *s)
{
    const int64_t i = row % a->tq, b = row / a->tq / a->h;
    for (int64_t j = 0; j < a->tk; j++) {
        const double *q = a->q + row * a->d, *k = a->k + key_row(a, row, j) * a->d;
        s[j] = 0;
        for (int64_t c = 0; c < a->d; c++)
            s[j] += q[c] * k[c];
        s[j] *= a->scale;
        if (a->bias)
            s[j] += a->bias[row * a->tk + j];
        if ((a->keep && a->keep[b * a->tk + j] == 0) || (a->causal && j > i + a->tk - a->tq))
            s[j] = -INFINITY;
    }
}

/* What dropout multiplies probability j of the row with. */
static double dropout_factor(const attention *a, int64_t row, int64_t j)
{
    double u;
    if (!(a->flags & YK_ATT_DROP))
        return 1;
    u = yk__eval_uniform(a->key, a->rows, a->b, a->b * a->h * a->tq * a->tk, a->stream, row * a->tk + j);
    return u >= a->p ? 1 / (1 - a->p) : 0;
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
    attention a = attention_of(e, 0);
    double *s = yk__malloc((size_t)a.tk * sizeof *s);
    if (!s)
        return yk__fail_mem(e->err, (uint64_t)a.tk * 8, "evaluation");
    for (int64_t row = 0; row < a.b * a.h * a.tq; row++) {
        double lse;
        row_scores(&a, row, s);
        lse = row_lse(s, a.tk);
        e->y[1][row] = lse;
        for (int64_t j = 0; j < a.tk && lse != -INFINITY; j++) {
            double p = exp(s[j] - lse) * dropout_factor(&a, row, j);
            for (int64_t c = 0; c < a.d; c++)
                e->y[0][row * a.d + c] += p * a.v[key_row(&a, row, j) * a.d + c];
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
static void backward_row(const yk__eval *e, const attention *a, int64_t row, const double *s)
{
    const double *gout = e->x[0] + row * a->d, *q = a->q + row * a->d, lse = e->x[2][row];
    const double sum = dot_product(gout, e->x[1] + row * a->d, a->d);
    for (int64_t j = 0; j < a->tk; j++) {
        const int64_t at = key_row(a, row, j) * a->d;
        const double p = exp(s[j] - lse), m = dropout_factor(a, row, j);
        const double gs = p * (dot_product(gout, a->v + at, a->d) * m - sum);
        for (int64_t c = 0; c < a->d; c++) {
            e->y[0][row * a->d + c] += gs * a->scale * a->k[at + c];
            e->y[1][at + c] += gs * a->scale * q[c];
            e->y[2][at + c] += p * m * gout[c];
        }
        if (a->flags & YK_ATT_GBIAS)
            e->y[3][row * a->tk + j] = gs;
    }
}

yk_status yk__eval_attention_bwd(yk__eval *e)
{
    attention a = attention_of(e, 3);
    double *s = yk__malloc((size_t)a.tk * sizeof *s);
    if (!s)
        return yk__fail_mem(e->err, (uint64_t)a.tk * 8, "evaluation");
    for (int64_t row = 0; row < a.b * a.h * a.tq; row++) {
        row_scores(&a, row, s);
        if (e->x[2][row] != -INFINITY)
            backward_row(e, &a, row, s);
    }
    yk__free(s);
    return YK_OK;
}
