/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's part of an optimizer step: the vector of run-time numbers that the device's adam_step and sgd_step read (YK_HYPER_* of
 * plugin.h). Bias corrections are computed in double. Pure functions.
 */
#ifndef YOKE_CORE_NN_OPTIM_H
#define YOKE_CORE_NN_OPTIM_H

#include <yoke/plugin.h>

#include "core/base/error.h"
#include "core/run/run.h"

typedef struct yk__optim {
    yk__opt_kind kind;
    uint32_t flags;            /* YK_OPT_* of plugin.h */
    double beta1, beta2, eps;  /* Adam; SGD has momentum, dampening in beta1, beta2 */
} yk__optim;

typedef struct yk__optim_group {
    double lr_factor, weight_decay;
} yk__optim_group;

/* Fails with YK_E_ARG on a setting outside its range, and names it. */
yk_status yk__optim_check(const yk__optim *optim, double lr, double weight_decay, yk_error *err);
/* Writes the numbers of update t (from 1). GRAD_SCALE and CLIP are 0, as only the engine knows them. */
void yk__optim_hyper(const yk__optim *optim, double lr, double weight_decay, uint64_t t, float hyper[YK_HYPER_COUNT]);
/* Writes the numbers that leave value and moments as they are, bit for bit, for a gradient of zero. */
void yk__optim_hyper_identity(float hyper[YK_HYPER_COUNT]);

#endif
