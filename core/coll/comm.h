/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators: lists of ranks that compute together. Two exist from the start, the world and the members.
 * Thread rule: the step thread.
 */
#ifndef YOKE_CORE_COLL_COMM_H
#define YOKE_CORE_COLL_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

typedef struct yk__coll yk__coll; /* all communicators of this rank; owns them */
typedef struct yk__comm yk__comm; /* lives as long as its yk__coll */

yk__comm *yk__coll_world(yk__coll *coll);
yk__comm *yk__coll_members(yk__coll *coll);
/* Makes a communicator of the ranks r with member[r]. All ranks of the job call it in equal order, with equal arrays. */
yk_status yk__comm_new(yk__coll *coll, const bool *member, yk__comm **comm, yk_error *err);
/* Replaces the members and increments the generation. All ranks of the job call it while the communicator has no request; at least one
 * old member must stay. A failure changes nothing. */
yk_status yk__comm_set_members(yk__comm *comm, const bool *member, yk_error *err);
uint32_t yk__comm_size(const yk__comm *comm); /* number of members */
uint32_t yk__comm_generation(const yk__comm *comm);
bool yk__comm_has(const yk__comm *comm, uint32_t rank);

/* Makes a communicator of all ranks. */
yk_status yk__comm_make(yk__coll *coll, yk__comm **comm, yk_error *err);
void yk__comm_free(yk__comm *comm);

#endif
