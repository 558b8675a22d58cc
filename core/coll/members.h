/* SPDX-License-Identifier: Apache-2.0 */
/* Who is a member of a communicator. Under the lock of the plane (msg_plane.h) where there is one. */
#ifndef YOKE_CORE_COLL_MEMBERS_H
#define YOKE_CORE_COLL_MEMBERS_H

#include "core/coll/state.h"

/* From here on the ranks r with member[r]. */
void yk__members_set(yk__comm *comm, const bool *member);
uint32_t yk__members_lowest(const yk__comm *comm);
uint32_t yk__members_excluded(const yk__coll *coll); /* how many ranks are not in the members (coll.h) */

#endif
