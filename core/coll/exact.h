/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of squares of f32 numbers, independent of the order and grouping of their parts of 64: fixed point over the whole
 * range (as Kulisch's accumulator). So a norm has the same bits for every distribution of parts over ranks.
 */
#ifndef YOKE_CORE_COLL_EXACT_H
#define YOKE_CORE_COLL_EXACT_H

#include <stdint.h>

#define YK__EXACT_WORDS 20 /* words of 32 bits: from 2^-352, below the last bit of the least square, to above the largest sum */

/* Zero at first. A word overflows only after more than 2^30 parts. */
typedef struct yk__exact {
    uint64_t word[YK__EXACT_WORDS];
    uint64_t bad; /* number of parts of 64 with a number that is not finite; the sum leaves them out */
} yk__exact;

/* Adds x[i]^2 of n numbers, in parts of 64 that begin at x. */
void yk__exact_squares(yk__exact *sum, const float *x, uint64_t n);
/* The sum as doubles that ranks can add without rounding; the value of such numbers. */
#define YK__EXACT_NUMBERS (YK__EXACT_WORDS + 1)
void yk__exact_get(const yk__exact *sum, double v[YK__EXACT_NUMBERS]);
double yk__exact_value(const double v[YK__EXACT_NUMBERS]);

#endif
