/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of a communicator: a fixed pool, so that a step allocates nothing, and a list in the order in which they were begun.
 * Thread rule: under the lock of the plane (msg_plane.h) where there is one.
 */
#ifndef YOKE_CORE_COLL_POOL_H
#define YOKE_CORE_COLL_POOL_H

#include "core/coll/state.h"

yk__request *yk__pool_take(yk__comm *comm); /* NULL: all are in use. The step thread */
void yk__pool_append(yk__request *request);
/* It is done: others are told that this rank needs no more of it. */
void yk__pool_finish(yk__request *request);
bool yk__pool_done(yk__request *request); /* takes the lock */
void yk__pool_release(yk__request *request); /* takes the lock. The step thread */

#endif
