/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run-time numbers of an optimizer step, as core/run hands them to the device's program. window.c (core/job/loop) asks for them once a
 * step, in the step thread; opt.c (core/job) checks an optimizer's settings by it. The host computes Adam's bias corrections (Kingma and Ba
 * 2015, algorithm 1) in double, so that no device computes them for each element.
 */
#include "core/nn/optim.h"

#include <math.h>

/* The device has it in f32, in which it must be below 1, too. */
static bool is_beta(double beta)
{
    return beta >= 0.0 && (float)beta < 1.0f;
}

yk_status yk__optim_check(const yk__optim *optim, double lr, double weight_decay, yk_error *err)
{
    if (!(lr >= 0.0) || isinf(lr))
        return yk__fail(err, YK_E_ARG, "learning rate %g: expected a finite number, 0 or more", lr);
    if (!(weight_decay >= 0.0) || isinf(weight_decay))
        return yk__fail(err, YK_E_ARG, "weight decay %g: expected a finite number, 0 or more", weight_decay);
    if (optim->kind == YK_OPT_ADAM) {
        if (!is_beta(optim->beta1) || !is_beta(optim->beta2))
            return yk__fail(err, YK_E_ARG, "betas %.9g, %.9g: expected 0 <= beta < 1 (numbers above 0.99999997 are 1 in f32)",
                            optim->beta1, optim->beta2);
        if (!(optim->eps >= 0.0) || isinf(optim->eps))
            return yk__fail(err, YK_E_ARG, "eps %g: expected a finite number, 0 or more", optim->eps);
        return YK_OK;
    }
    if (!(optim->beta1 >= 0.0) || isinf(optim->beta1))
        return yk__fail(err, YK_E_ARG, "momentum %g: expected a finite number, 0 or more", optim->beta1);
    if (!isfinite(optim->beta2))
        return yk__fail(err, YK_E_ARG, "dampening %g: expected a finite number", optim->beta2);
    if ((optim->flags & YK_OPT_NESTEROV) && (optim->beta1 == 0.0 || optim->beta2 != 0.0))
        return yk__fail(err, YK_E_ARG, "nesterov needs a momentum and no dampening (momentum %g, dampening %g)",
                        optim->beta1, optim->beta2);
    return YK_OK;
}

void yk__optim_hyper(const yk__optim *optim, double lr, double weight_decay, uint64_t t, float hyper[YK_HYPER_COUNT])
{
    for (int i = 0; i < YK_HYPER_COUNT; i++)
        hyper[i] = 0.0f;
    hyper[YK_HYPER_LR] = (float)lr;
    hyper[YK_HYPER_B1] = (float)optim->beta1;
    hyper[YK_HYPER_B2] = (float)optim->beta2;
    hyper[YK_HYPER_EPS] = (float)optim->eps;
    hyper[YK_HYPER_DECAY] = (float)weight_decay;
    hyper[YK_HYPER_FIRST] = t == 1 ? 1.0f : 0.0f;
    if (optim->kind == YK_OPT_ADAM) {
        /* from the betas as the device has them: 1 - 0.999f differs from 0.001 by 1.3e-5, and must cancel */
        hyper[YK_HYPER_C1] = (float)(1.0 - pow((double)hyper[YK_HYPER_B1], (double)t));
        hyper[YK_HYPER_SQRT_C2] = (float)sqrt(1.0 - pow((double)hyper[YK_HYPER_B2], (double)t));
    }
}

void yk__optim_hyper_identity(float hyper[YK_HYPER_COUNT])
{
    for (int i = 0; i < YK_HYPER_COUNT; i++)
        hyper[i] = 0.0f;
    hyper[YK_HYPER_B1] = hyper[YK_HYPER_B2] = hyper[YK_HYPER_EPS] = 1.0f;
    hyper[YK_HYPER_C1] = hyper[YK_HYPER_SQRT_C2] = 1.0f;
}
