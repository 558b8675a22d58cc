/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators: lists of ranks that compute together, and changing them. Two are there from the start, the world and the members.
 * Thread rule: the step thread.
 */
#ifndef YOKE_CORE_COLL_COMM_H
#define YOKE_CORE_COLL_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

typedef struct yk__coll yk__coll; /* all communicators of this rank */
typedef struct yk__comm yk__comm; /* one of them; lives as long as its yk__coll */

yk__comm *yk__coll_world(yk__coll *coll);
yk__comm *yk__coll_members(yk__coll *coll);
/* One more, of the ranks r with member[r]. By all ranks of the job, in equal order, with equal members. */
yk_status yk__comm_new(yk__coll *coll, const bool *member, yk__comm **comm, yk_error *err);
/* Other members from here on: the generation grows by one. By all ranks of the job, with no request under way on it; some rank
 * stays. A failure leaves it as it was. */
yk_status yk__comm_set_members(yk__comm *comm, const bool *member, yk_error *err);
uint32_t yk__comm_size(const yk__comm *comm); /* members */
uint32_t yk__comm_generation(const yk__comm *comm);
bool yk__comm_has(const yk__comm *comm, uint32_t rank);

/* One of all ranks at first. */
yk_status yk__comm_make(yk__coll *coll, yk__comm **comm, yk_error *err);
void yk__comm_free(yk__comm *comm);

#endif
