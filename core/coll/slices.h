/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices of a vector: rank r owns [begin(r), begin(r+1)) of n elements, boundaries at multiples of 64 elements.
 * Plain data; the caller's thread.
 */
#ifndef YOKE_CORE_COLL_SLICES_H
#define YOKE_CORE_COLL_SLICES_H

#include <stdint.h>

#define YK__RANKS 256u /* of one job at most */

typedef struct yk__slices {
    uint64_t begin[YK__RANKS + 1]; /* begin[ranks] = n */
} yk__slices;

void yk__slices_even(yk__slices *s, uint64_t n, uint32_t ranks);
/* In proportion to part[r], 0 or more, some above 0; where it is 0 the slice is empty. */
void yk__slices_by(yk__slices *s, uint64_t n, uint32_t ranks, const double *part);

#endif
