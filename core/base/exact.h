/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of squares of f32 numbers that do not depend on the order or grouping in which parts of 64 are added: fixed point
 * over the whole range (as Kulisch's accumulator), so that a norm is the same bits whoever sums which part.
 */
#ifndef YOKE_CORE_BASE_EXACT_H
#define YOKE_CORE_BASE_EXACT_H

#include <stdint.h>

#define YK__EXACT_WORDS 20 /* of 32 bits: from 2^-352, below the least square's last bit, to above the largest sum */

/* Zero at first. A word takes what more than 2^30 parts add to it. */
typedef struct yk__exact {
    uint64_t word[YK__EXACT_WORDS];
    uint64_t bad; /* parts of 64 with a number that is not finite; they are not in the sum */
} yk__exact;

/* Adds x[i]^2 of n numbers, in parts of 64 that begin at x. */
void yk__exact_squares(yk__exact *sum, const float *x, uint64_t n);
/* As numbers that can be added up over ranks as doubles without rounding, and back. */
#define YK__EXACT_NUMBERS (YK__EXACT_WORDS + 1)
void yk__exact_get(const yk__exact *sum, double v[YK__EXACT_NUMBERS]);
double yk__exact_value(const double v[YK__EXACT_NUMBERS]);

#endif
