/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks see of each other's requests. Thread rule: the step thread, or under the lock of the plane (msg_plane.h).
 */
#ifndef YOKE_CORE_COLL_CALL_H
#define YOKE_CORE_COLL_CALL_H

#include "core/coll/state.h"

const char *yk__call_name(const yk__call *call);
uint64_t yk__call_bytes(const yk__call *call);
/* Fills the request's record and shows it; to be called before anything of it is seen by others. */
void yk__call_begin(yk__request *request);
bool yk__call_same(const yk__call *a, const yk__call *b);
/* The error of two ranks in unlike requests; `own` is this rank's. */
yk_status yk__call_fail(const yk__coll *coll, const yk__call *own, uint32_t peer, const yk__call *theirs, yk_error *err);
/* During a wait of `own` for that rank: an error when its request is another. */
yk_status yk__call_look(yk__coll *coll, const yk__call *own, uint32_t peer, yk_error *err);

#endif
