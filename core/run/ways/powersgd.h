/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PowerSGD (Vogels, Karimireddy and Jaggi, "PowerSGD: practical low-rank gradient compression for distributed optimization", 2019): members
 * exchange two thin factors of a matrix's gradient M. P = sum of M Q over members, made orthonormal; Q = sum of M' P; P Q' stands for the
 * sum of the gradients. Q is kept and begins the next step's iteration (warm start). Error feedback: a rank's gradient minus its share of P
 * Q' is added to its next gradient. Vectors, and matrices whose factors would not be less than half, are added up as they are.
 *
 * All members have the same P and Q, so any member can own any part. Errors and factors begin anew when members or owners change, when a
 * step is skipped, and on both sides of a checkpoint. The step thread.
 */
#ifndef YOKE_CORE_RUN_WAYS_POWERSGD_H
#define YOKE_CORE_RUN_WAYS_POWERSGD_H

#include "core/run/ways/powersgd_math.h"
#include "core/run/values/params.h"

/* Replaces this rank's gradients in its block by the sums over members, or their approximation, and adds the squares of its slices to
 * p->squares. */
yk_status yk__power_reduce(yk__params *p, yk_error *err);
uint64_t yk__power_bytes(const yk__params *p); /* bytes of this rank's memory for PowerSGD, from the first sums on; 0 if it is not used */
void yk__power_drop(yk__params *p); /* errors and factors begin anew */
void yk__power_scale(yk__params *p, float factor); /* gradients will be `factor` times as large */

#endif
