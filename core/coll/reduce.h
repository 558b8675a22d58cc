/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of collectives. No state. */
#ifndef YOKE_CORE_COLL_REDUCE_H
#define YOKE_CORE_COLL_REDUCE_H

#include "core/coll/desc.h"

/* Reduces part[0..n), the members' data in the order of rank numbers. */
void yk__reduce_small(const yk__coll_desc *desc, const void *const *part, uint32_t n);
/* out[i] = ((a_0[i] + a_1[i]) + a_2[i]) + .. for n numbers from `begin` on. Groups of 32 members are summed first, and their sums added
 * in the same way. `out` may be one of the parts. */
void yk__reduce_slice(const void *const *part, uint32_t parts, uint64_t begin, uint64_t n, float *out, yk__exact *squares);

#endif
