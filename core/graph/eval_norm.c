/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference evaluation of normalisations, softmax and cross entropy in float64. Tests and the conformance suite compare devices with it.
 *
 * eval.c calls it through the table of operations (op_table.h), with operands read into dense arrays of doubles; any thread. The formulas
 * are the ones of YK_OP_TABLE in plugin.h.
 */
#include "core/graph/graph_internal.h"

#include <math.h>

yk_status yk__eval_bn_stats(yk__eval *e)
{
    const int64_t n = e->x_value[0]->dim[0], c = e->x_value[0]->dim[1], inner = e->x_value[0]->dim[2];
    double *mean = e->y[0], *square = mean + c, *count = square + c;
    for (int64_t i = 0; i < n * c * inner; i++)
        mean[i / inner % c] += e->x[0][i] / (double)(n * inner);
    for (int64_t i = 0; i < n * c * inner; i++) {
        const double d = e->x[0][i] - mean[i / inner % c];
        square[i / inner % c] += d * d;
    }
    for (int64_t k = 0; k < c; k++)
        count[k] = (double)(n * inner);
    return YK_OK;
}

yk_status yk__eval_layer_norm(yk__eval *e)
{
    const int64_t rows = e->x_value[0]->dim[0], c = e->x_value[0]->dim[1];
    for (int64_t r = 0; r < rows; r++) {
        const double *x = e->x[0] + r * c;
        double mean = 0, var = 0, rstd;
        for (int64_t k = 0; k < c; k++)
            mean += x[k] / (double)c;
        for (int64_t k = 0; k < c; k++)
            var += (x[k] - mean) * (x[k] - mean) / (double)c;
        rstd = 1 / sqrt(var + yk_attr_f64(e->attr[0]));
        for (int64_t k = 0; k < c; k++)
            e->y[0][r * c + k] = (x[k] - mean) * rstd * (e->n_in > 1 ? e->x[1][k] : 1) + (e->n_in > 2 ? e->x[2][k] : 0);
        e->y[1][r] = mean;
        e->y[2][r] = rstd;
    }
    return YK_OK;
}

yk_status yk__eval_layer_norm_bwd(yk__eval *e)
{
    const int64_t rows = e->x_value[0]->dim[0], c = e->x_value[0]->dim[1];
    const bool affine = e->n_in == 5;
    for (int64_t r = 0; r < rows; r++) {
        const double *gy = e->x[0] + r * c, *x = e->x[1] + r * c, mean = e->x[2][r], rstd = e->x[3][r];
        double mu = 0, muh = 0; /* means of u and u h */
        for (int64_t k = 0; k < c; k++) {
            double u = gy[k] * (affine ? e->x[4][k] : 1), h = (x[k] - mean) * rstd;
            mu += u / (double)c;
            muh += u * h / (double)c;
            if (affine) {
                e->y[1][k] += gy[k] * h;
                e->y[2][k] += gy[k];
            }
        }
        for (int64_t k = 0; k < c; k++) {
            double u = gy[k] * (affine ? e->x[4][k] : 1), h = (x[k] - mean) * rstd;
            e->y[0][r * c + k] = rstd * (u - mu - h * muh);
        }
    }
    return YK_OK;
}

/* Returns the maximum (NaN if x has one); sum gets the sum of e^(x - max). */
static double max_and_sum(const double *x, int64_t n, double *sum)
{
    double m = -INFINITY;
    for (int64_t k = 0; k < n; k++)
        m = x[k] > m || isnan(x[k]) ? x[k] : m;
    *sum = 0;
    for (int64_t k = 0; k < n; k++)
        *sum += exp(x[k] - m);
    return m;
}

/* Maximum and logarithm of the sum stay apart: added to a maximum of 1e30 the logarithm would be lost. */
yk_status yk__eval_softmax(yk__eval *e)
{
    const int64_t rows = e->x_value[0]->dim[0], c = e->x_value[0]->dim[1];
    for (int64_t r = 0; r < rows; r++) {
        double s, m = max_and_sum(e->x[0] + r * c, c, &s);
        for (int64_t k = r * c; k < (r + 1) * c; k++)
            e->y[0][k] = e->attr[0] ? e->x[0][k] - m - log(s) : exp(e->x[0][k] - m) / s;
    }
    return YK_OK;
}

yk_status yk__eval_softmax_bwd(yk__eval *e)
{
    const int64_t rows = e->x_value[0]->dim[0], c = e->x_value[0]->dim[1];
    for (int64_t r = 0; r < rows; r++) {
        const double *gy = e->x[0] + r * c, *y = e->x[1] + r * c;
        double sum = 0;
        for (int64_t k = 0; k < c; k++)
            sum += gy[k] * (e->attr[0] ? 1 : y[k]);
        for (int64_t k = 0; k < c; k++)
            e->y[0][r * c + k] = e->attr[0] ? gy[k] - exp(y[k]) * sum : y[k] * (gy[k] - sum);
    }
    return YK_OK;
}

/* ---- Cross entropy ---- */

enum { LABEL_COUNTS, LABEL_IGNORED, LABEL_WRONG };

static int label_kind(const yk__eval *e, double label, int64_t classes)
{
    if ((int64_t)label == e->attr[0])
        return LABEL_IGNORED;
    return label >= 0 && label < (double)classes ? LABEL_COUNTS : LABEL_WRONG;
}

yk_status yk__eval_cross_entropy(yk__eval *e)
{
    const int64_t rows = e->x_value[0]->dim[0], c = e->x_value[0]->dim[1];
    const double s = yk_attr_f64(e->attr[1]), *w = e->n_in > 2 ? e->x[2] : NULL;
    for (int64_t r = 0; r < rows; r++) {
        const double *z = e->x[0] + r * c;
        const int kind = label_kind(e, e->x[1][r], c);
        double sum, m = max_and_sum(z, c, &sum);
        e->y[1][r] = m == -INFINITY ? m : m + log(sum);
        e->y[0][r] = kind == LABEL_IGNORED ? 0 : (double)NAN;
        if (kind == LABEL_COUNTS) {
            int64_t y = (int64_t)e->x[1][r];
            double loss = (w ? w[y] : 1) * (1 - s) * (m - z[y] + log(sum));
            for (int64_t k = 0; s != 0 && k < c; k++)
                loss += s / (double)c * (w ? w[k] : 1) * (m - z[k] + log(sum));
            e->y[0][r] = loss;
        }
    }
    return YK_OK;
}

/* The probabilities come from the logits again: lse, stored in f32, is too coarse for large logits. */
yk_status yk__eval_cross_entropy_bwd(yk__eval *e)
{
    const int64_t rows = e->x_value[1]->dim[0], c = e->x_value[1]->dim[1];
    const double s = yk_attr_f64(e->attr[1]), *w = e->n_in > 4 ? e->x[4] : NULL;
    double all = 0;
    for (int64_t k = 0; k < c; k++)
        all += w ? w[k] : 1;
    for (int64_t r = 0; r < rows; r++) {
        const double *z = e->x[1] + r * c;
        const int kind = label_kind(e, e->x[2][r], c);
        const int64_t y = (int64_t)e->x[2][r];
        double sum, m = max_and_sum(z, c, &sum);
        for (int64_t k = 0; k < c; k++) {
            double p = exp(z[k] - m) / sum, g = kind == LABEL_IGNORED ? 0 : (double)NAN;
            if (kind == LABEL_COUNTS)
                g = e->x[0][r] *
                    ((w ? w[y] : 1) * (1 - s) * (p - (k == y)) + s / (double)c * (p * all - (w ? w[k] : 1)));
            e->y[0][r * c + k] = g;
        }
    }
    return YK_OK;
}
