/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of a communicator: a fixed pool, so that a step allocates nothing, and a list in the order in which they were begun.
 * Thread rule: in a job with a plane, under its lock (msg_plane.h).
 */
#ifndef YOKE_CORE_COLL_POOL_H
#define YOKE_CORE_COLL_POOL_H

#include "core/coll/coll_state.h"

yk__request *yk__pool_take(yk__comm *comm); /* NULL if all requests are in use. The step thread */
void yk__pool_append(yk__request *request);
/* Marks a request as done and tells other ranks that this rank needs no more of it. */
void yk__pool_finish(yk__request *request);
bool yk__pool_done(yk__request *request); /* takes the lock */
void yk__pool_release(yk__request *request); /* takes the lock. The step thread */

#endif
