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

/* Cuts n elements evenly for any number of ranks, and replaces earlier slices. A failure keeps the earlier ones. */
yk_status yk__slices_even(yk__slices *s, uint64_t n, uint32_t ranks, yk_error *err);
/* Cuts in proportion to part[r] >= 0, at least one above 0; part 0 gives an empty slice. */
yk_status yk__slices_by(yk__slices *s, uint64_t n, uint32_t ranks, const double *part, yk_error *err);
yk_status yk__slices_copy(yk__slices *to, const yk__slices *from, yk_error *err);
bool yk__slices_same(const yk__slices *a, const yk__slices *b);
void yk__slices_free(yk__slices *s);

#endif
