/* SPDX-License-Identifier: Apache-2.0 */
/* What excluded ranks learn of the members' steps, in common memory; msg_feed.h is the same over messages. The step thread. */
#ifndef YOKE_CORE_COLL_FEED_H
#define YOKE_CORE_COLL_FEED_H

#include "core/coll/state.h"

yk_status yk__feed_new(yk__coll *coll, yk_error *err);
/* By the lowest member, of a request that is done: its result, to excluded ranks. No-op on others. */
yk_status yk__feed_put(yk__request *request, yk_error *err);
yk_status yk__feed_meet(yk__coll *coll, yk_error *err); /* a member may wait for excluded ranks from here on */
void yk__feed_wake(yk__coll *coll); /* by the lowest member: excluded ranks are to come */
uint32_t yk__feed_written(const yk__coll *coll);
void yk__feed_resume(yk__coll *coll, uint32_t written); /* on a rank that becomes excluded */
extern const yk__coll_algorithm yk__feed_algorithm;     /* of an excluded rank */

/* See yk__coll_updating and those beside it (coll.h). */
void yk__feed_updating(yk__coll *coll, bool on);
uint32_t yk__feed_read_begin(const yk__coll *coll);
bool yk__feed_read_end(yk__coll *coll, uint32_t begun);
void yk__feed_reading(yk__coll *coll, bool on);
bool yk__feed_is_read(const yk__coll *coll);

#endif
