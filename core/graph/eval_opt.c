/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference evaluation of optimizer steps and gradient statistics in float64. Tests and the conformance suite compare devices with it.
 *
 * eval.c calls it through the table of operations (op_table.h), with operands read into dense arrays of doubles; any thread. The numbers
 * of a step (rate, corrections, factor) are an operand, as core/nn/optim.c makes them.
 */
#include "core/graph/graph_internal.h"

#include <math.h>

/* g' of plugin.h: scaled, clipped, negated. */
static double grad_prepare(const yk__eval *e, const double *hyper, int64_t i)
{
    double g = e->x[0][i] * hyper[YK_HYPER_GRAD_SCALE], clip = hyper[YK_HYPER_CLIP];
    g = g > clip ? clip : g < -clip ? -clip : g;
    return e->attr[0] & YK_OPT_MAXIMIZE ? -g : g;
}

yk_status yk__eval_adam_step(yk__eval *e)
{
    const double *hy = e->x[4], lr = hy[YK_HYPER_LR], b1 = hy[YK_HYPER_B1], b2 = hy[YK_HYPER_B2];
    const bool amsgrad = e->attr[0] & YK_OPT_AMSGRAD;
    for (int64_t i = 0; i < yk__value_count(e->x_value[0]); i++) {
        double g = grad_prepare(e, hy, i), p = e->x[1][i], m, v, used;
        if (e->attr[0] & YK_OPT_DECOUPLED)
            p *= 1 - lr * hy[YK_HYPER_DECAY];
        else
            g += hy[YK_HYPER_DECAY] * p;
        m = b1 * e->x[2][i] + (1 - b1) * g;
        v = b2 * e->x[3][i] + (1 - b2) * g * g;
        used = amsgrad && !(v > e->x[5][i] || isnan(v)) ? e->x[5][i] : v;
        e->y[0][i] = p - lr / hy[YK_HYPER_C1] * m / (sqrt(used) / hy[YK_HYPER_SQRT_C2] + hy[YK_HYPER_EPS]);
        e->y[1][i] = m;
        e->y[2][i] = v;
        if (amsgrad)
            e->y[3][i] = used;
    }
    return YK_OK;
}

yk_status yk__eval_sgd_step(yk__eval *e)
{
    const double *hy = e->x[e->n_in - 1];
    const bool momentum = e->n_in == 4;
    for (int64_t i = 0; i < yk__value_count(e->x_value[0]); i++) {
        double g = grad_prepare(e, hy, i) + hy[YK_HYPER_DECAY] * e->x[1][i], b = g, b1 = hy[YK_HYPER_B1];
        if (momentum) {
            if (hy[YK_HYPER_FIRST] == 0)
                b = b1 * e->x[2][i] + (1 - hy[YK_HYPER_B2]) * g;
            e->y[1][i] = b;
            if (e->attr[0] & YK_OPT_NESTEROV)
                b = g + b1 * b;
        }
        e->y[0][i] = e->x[1][i] - hy[YK_HYPER_LR] * b;
    }
    return YK_OK;
}

yk_status yk__eval_grad_stats(yk__eval *e)
{
    for (int64_t i = 0; i < yk__value_count(e->x_value[0]); i++) {
        double g = e->x[0][i];
        e->y[0][0] += g * e->x[1][0] * (g * e->x[1][0]);
        e->y[0][1] += !isfinite(g);
    }
    return YK_OK;
}
