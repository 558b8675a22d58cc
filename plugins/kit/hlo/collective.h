/* SPDX-License-Identifier: Apache-2.0 */
/* A collective of yk.coll.1 as one StableHLO function, whose replicas are the members. One thread. */
#ifndef YOKE_PLUGINS_KIT_HLO_COLLECTIVE_H
#define YOKE_PLUGINS_KIT_HLO_COLLECTIVE_H

#include "plugins/kit/hlo/tensor.h"

typedef struct hlo_collective {
    uint32_t kind;       /* yk_coll_kind */
    uint32_t type, wire; /* dtypes, as in yk_coll_op */
    uint32_t root, ranks;
    int64_t count; /* elements, as in yk_coll_op; at least 1 */
} hlo_collective;

/* Elements of a member's operand, and of its result: both are vectors of `type`. */
int64_t hlo_collective_in(const hlo_collective *c);
int64_t hlo_collective_out(const hlo_collective *c);
/* Adds the module. Replica i is member i. Sums are in the order of members, of f32 for floats, so that they have the same bits on each
 * member and each time. */
void hlo_collective_put(hlo_text *p, const hlo_collective *c);

#endif
