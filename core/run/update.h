/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a window: sums of gradients, norm, clip, the optimizer on this rank's slices, and publication of the parameters to all ranks.
 */
#ifndef YOKE_CORE_RUN_UPDATE_H
#define YOKE_CORE_RUN_UPDATE_H

#include "core/run/update_programs.h"

#define YK__SIGN_NUMBERS 3 /* 1, a sign and its square: ranks with equal signs have n sum(s^2) = sum(s)^2 */

typedef struct yk__updater {
    yk__optim_programs optim[2];         /* one for each device that updates, the host's first */
    uint32_t n_optim;
    yk__exec *exec;
    yk__params *params;
    double divisor;                      /* divisor of the last update */
    double signs[YK__SIGN_NUMBERS];      /* the update's sign; once the norm is taken, the members' */
    double started;                      /* begin of its optimizer's program, in seconds; the device was idle */
    bool measure;                        /* time runs and the copies of updated parameters */
    double update_seconds, copy_seconds; /* yk__engine_stats */
    uint64_t update_elements, copy_elements;
} yk__updater;

yk_status yk__updater_begin(yk__updater *u, const yk__opt_layout *layout, yk_error *err); /* yk__engine_optimizer */
yk_status yk__updater_run(yk__updater *u, const yk__update *update, yk__updated *out, yk_error *err);

#endif
