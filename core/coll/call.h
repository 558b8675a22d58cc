/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks' view of each other's requests. Thread rule: the step thread, or under the lock of the plane (msg_plane.h). */
#ifndef YOKE_CORE_COLL_CALL_H
#define YOKE_CORE_COLL_CALL_H

#include "core/coll/coll_state.h"

const char *yk__call_name(const yk__call *call);
uint64_t yk__call_bytes(const yk__call *call);
/* Fills the request's record and shows it. Call it before other ranks can see any part of the request. */
void yk__call_begin(yk__request *request);
bool yk__call_same(const yk__call *a, const yk__call *b);
/* The error for two ranks in different requests; `own` is this rank's. */
yk_status yk__call_fail(const yk__coll *coll, const yk__call *own, uint32_t peer, const yk__call *theirs, yk_error *err);
/* Called while `own` waits for that rank: fails if the rank is in a different request. */
yk_status yk__call_look(yk__coll *coll, const yk__call *own, uint32_t peer, yk_error *err);

#endif
