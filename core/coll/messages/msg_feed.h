/* SPDX-License-Identifier: Apache-2.0 */
/* Results for excluded ranks over messages, from the lowest member. Under the lock of the plane (msg_plane.h), except functions that say
 * otherwise. */
#ifndef YOKE_CORE_COLL_MESSAGES_MSG_FEED_H
#define YOKE_CORE_COLL_MESSAGES_MSG_FEED_H

#include "core/coll/messages/msg_piece.h"

uint64_t yk__msg_result_bytes(const yk__request *request);
yk_status yk__msg_feed_take(yk__request *request, const uint8_t *record, yk_error *err);
/* Waits, without the lock, while too many results are on their way. */
yk_status yk__msg_feed_reserve(yk__request *request, yk_error *err);
yk_status yk__msg_feed_put(yk__request *request, yk_error *err);
void yk__msg_feed_reap(yk__coll *coll); /* frees finished sends, and sends results that were held for long enough */
void yk__msg_feed_send(yk__coll *coll); /* without the lock: sends every held result, as excluded ranks are needed */
void yk__msg_feed_finish(yk__coll *coll); /* without the lock, at the end of the job: waits for the results to arrive while ranks take
                                           * them */
void yk__msg_feed_free(yk__coll *coll); /* before the plane is closed, with no thread on it */

#endif
