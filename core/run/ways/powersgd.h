/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PowerSGD (Vogels, Karimireddy and Jaggi, "PowerSGD: practical low-rank gradient compression for distributed optimization", 2019): of
 * a matrix's gradient M members exchange two thin factors. P = sum of M Q over members, made orthonormal; Q = sum of M' P; the sum of
 * the gradients is taken for P Q'. Q is kept and begins the next step's iteration (warm start); what a rank's gradient is more than its
 * share of P Q' is added to its next one (error feedback). Vectors, and matrices of which factors would not be less than half, are added
 * up as they are.
 *
 * All members have the same P and Q, so that any of them can own any part. Errors and factors begin anew where members or owners
 * change, when a step is skipped, and on both sides of a checkpoint. The step thread.
 */
#ifndef YOKE_CORE_RUN_WAYS_POWERSGD_H
#define YOKE_CORE_RUN_WAYS_POWERSGD_H

#include "core/run/ways/powersgd_math.h"
#include "core/run/values/params.h"

/* The sums of gradients, or what stands for them, to this rank's block, from its own that lie there; the squares of its slices are added
 * to p->squares. */
yk_status yk__power_reduce(yk__params *p, yk_error *err);
uint64_t yk__power_bytes(const yk__params *p); /* of this rank's memory for it, from the first sums on; 0: it is not used */
void yk__power_drop(yk__params *p); /* it begins anew */
void yk__power_scale(yk__params *p, float factor); /* gradients will be so many times as large */

#endif
