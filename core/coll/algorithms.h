/* SPDX-License-Identifier: Apache-2.0 */
/* The algorithms that run requests, in one table. No state. */
#ifndef YOKE_CORE_COLL_ALGORITHMS_H
#define YOKE_CORE_COLL_ALGORITHMS_H

#include "core/coll/state.h"

/* The first of the table that can run that request of this rank; NULL: none, it is of the members and this rank is excluded. */
const yk__coll_algorithm *yk__algorithms_find(const yk__comm *comm, const yk__coll_desc *desc);

#endif
