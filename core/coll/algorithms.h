/* SPDX-License-Identifier: Apache-2.0 */
/* The algorithms that run requests, in one table. No state. */
#ifndef YOKE_CORE_COLL_ALGORITHMS_H
#define YOKE_CORE_COLL_ALGORITHMS_H

#include "core/coll/coll_state.h"

/* The first algorithm in the table that can run this request of this rank; NULL for a request of the members on an excluded rank. */
const yk__coll_algorithm *yk__algorithms_find(const yk__comm *comm, const yk__coll_desc *desc);

#endif
