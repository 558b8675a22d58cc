/* SPDX-License-Identifier: Apache-2.0 */
/* The members of a communicator. In a job with a plane, under its lock (msg_plane.h). */
#ifndef YOKE_CORE_COLL_MEMBERS_H
#define YOKE_CORE_COLL_MEMBERS_H

#include "core/coll/coll_state.h"

/* Makes the ranks r with member[r] the members. */
void yk__members_set(yk__comm *comm, const bool *member);
uint32_t yk__members_lowest(const yk__comm *comm);
uint32_t yk__members_excluded(const yk__coll *coll); /* number of ranks outside the members (coll.h) */

#endif
