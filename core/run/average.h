/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LocalSGD: each rank has updated parameters of its own, whole, with moments of its own; now and then their mean becomes everybody's.
 *
 * The block of parameters for exchanges holds the last mean a, and what ranks exchange is how far they have come from it:
 * a += sum over ranks of w_r (p_r - a), with the weights adding up to 1. What no rank has changed stays as it is, bit for bit, and where
 * a wire rounds, it rounds a change. (Accelerate 1.14, local_sgd.py: the mean of p_r, one parameter after the other.)
 */
#ifndef YOKE_CORE_RUN_AVERAGE_H
#define YOKE_CORE_RUN_AVERAGE_H

#include "core/run/values/params.h"

/* The trained parameters. weight: this rank's. By all members, between windows: gradients are lost. */
yk_status yk__params_average(yk__params *p, double weight, yk_error *err);
/* The moments. */
yk_status yk__moments_average(yk__params *p, double weight, yk_error *err);

#endif
