/* SPDX-License-Identifier: Apache-2.0 */
/* The feed of excluded ranks: the results of the members' steps, in common memory. msg_feed.h does the same over messages. The step
 * thread. */
#ifndef YOKE_CORE_COLL_FEED_H
#define YOKE_CORE_COLL_FEED_H

#include "core/coll/coll_state.h"

yk_status yk__feed_new(yk__coll *coll, yk_error *err);
/* The lowest member puts the result of a finished request into the feed. No-op on other ranks. */
yk_status yk__feed_put(yk__request *request, yk_error *err);
yk_status yk__feed_meet(yk__coll *coll, yk_error *err); /* calls the function of yk__coll_before_meeting if ranks are excluded */
void yk__feed_wake(yk__coll *coll); /* the lowest member wakes the excluded ranks */
uint32_t yk__feed_written(const yk__coll *coll);
void yk__feed_resume(yk__coll *coll, uint32_t written); /* called on a rank that becomes excluded */
extern const yk__coll_algorithm yk__feed_algorithm;     /* runs requests of an excluded rank */

/* See yk__coll_updating and the functions after it (coll.h). */
void yk__feed_updating(yk__coll *coll, bool on);
uint32_t yk__feed_read_begin(const yk__coll *coll);
bool yk__feed_read_end(yk__coll *coll, uint32_t begun);
void yk__feed_reading(yk__coll *coll, bool on);
bool yk__feed_is_read(const yk__coll *coll);

#endif
