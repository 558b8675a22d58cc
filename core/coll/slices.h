/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices of a vector: rank r owns [begin[r], begin[r + 1]) of n elements, boundaries at multiples of 64 elements.
 * A zeroed struct has no slices. Cutting allocates memory; yk__slices_free frees it. The caller's thread.
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

/* Elements [from, to) of a vector. */
typedef struct yk__range {
    uint64_t from, to;
} yk__range;

/* The elements in [from, to) of `n` that begin at `at`; from == to if there are none. */
static inline yk__range yk__range_meet(uint64_t at, uint64_t n, uint64_t from, uint64_t to)
{
    const yk__range r = {at > from ? at : from, at + n < to ? at + n : to};
    return r.from < r.to ? r : (yk__range){from, from};
}

/* Cuts n elements evenly for any number of ranks, and replaces earlier slices. A failure keeps the earlier ones. */
yk_status yk__slices_even(yk__slices *s, uint64_t n, uint32_t ranks, yk_error *err);
/* Cuts in proportion to part[r] >= 0, at least one above 0; part 0 gives an empty slice. */
yk_status yk__slices_by(yk__slices *s, uint64_t n, uint32_t ranks, const double *part, yk_error *err);
yk_status yk__slices_copy(yk__slices *to, const yk__slices *from, yk_error *err);
bool yk__slices_same(const yk__slices *a, const yk__slices *b);
void yk__slices_free(yk__slices *s);

#endif
