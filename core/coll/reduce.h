/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of collectives. No state. */
#ifndef YOKE_CORE_COLL_REDUCE_H
#define YOKE_CORE_COLL_REDUCE_H

#include "core/coll/desc.h"

/* Over part[0..n), the members' data in the order of rank numbers. */
void yk__reduce_small(const yk__coll_desc *desc, const void *const *part, uint32_t n);
/* out[i] = ((a_0[i] + a_1[i]) + a_2[i]) + .. of n numbers from `begin` on, by 32 members each, whose sums are added up in the same way; out
 * may be one of them. */
void yk__reduce_slice(const void *const *part, uint32_t parts, uint64_t begin, uint64_t n, float *out, yk__exact *squares);

#endif
