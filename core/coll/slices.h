/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices of a vector: rank r owns [begin[r], begin[r + 1]) of n elements, boundaries at multiples of 64 elements.
 * Zeroed they are none; they have memory once they are cut, which yk__slices_free gives back. The caller's thread.
 */
#ifndef YOKE_CORE_COLL_SLICES_H
#define YOKE_CORE_COLL_SLICES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

typedef struct yk__slices {
    uint32_t ranks;
    uint64_t *begin; /* [ranks + 1]; begin[ranks] = n */
} yk__slices;

/* Cuts n elements for any number of ranks, anew where they were cut before; on failure they stay as they were. */
yk_status yk__slices_even(yk__slices *s, uint64_t n, uint32_t ranks, yk_error *err);
/* In proportion to part[r], 0 or more, some above 0; where it is 0 the slice is empty. */
yk_status yk__slices_by(yk__slices *s, uint64_t n, uint32_t ranks, const double *part, yk_error *err);
yk_status yk__slices_copy(yk__slices *to, const yk__slices *from, yk_error *err);
bool yk__slices_same(const yk__slices *a, const yk__slices *b);
void yk__slices_free(yk__slices *s);

#endif
