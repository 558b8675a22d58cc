/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LocalSGD: each rank updates whole parameters of its own, with moments of its own. Now and then every rank takes their mean.
 *
 * The block of parameters for exchanges holds the last mean a. The ranks exchange their distances from it: a += sum over ranks of w_r (p_r
 * - a), with the weights adding up to 1. A parameter that no rank has changed stays as it is, bit for bit, and a wire that rounds rounds a
 * change. (Accelerate 1.14, local_sgd.py: the mean of p_r, one parameter after the other.)
 */
#ifndef YOKE_CORE_RUN_VALUES_AVERAGE_H
#define YOKE_CORE_RUN_VALUES_AVERAGE_H

#include "core/run/values/params.h"

/* Averages the trained parameters. weight: of this rank. All members call it, between windows; gradients are lost. */
yk_status yk__params_average(yk__params *p, double weight, yk_error *err);
/* Averages the moments. */
yk_status yk__moments_average(yk__params *p, double weight, yk_error *err);

#endif
