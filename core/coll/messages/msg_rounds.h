/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records and small data of all members in few messages. In round k a rank sends the records that it has, 2^k or the remaining ones, to
 * the member 2^k before it, and receives as many from the member 2^k after it. ceil(log2 n) rounds of one message a rank bring every
 * record to every member (Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems",
 * 1997). A direct exchange takes one round of n - 1 messages. Each rank then computes in the order of rank numbers, so both give the
 * same bits.
 *
 * Rounds run in parallel to the pieces of data; the first piece finishes once all records are here. Under the lock of the plane
 * (msg_plane.h).
 */
#ifndef YOKE_CORE_COLL_MESSAGES_MSG_ROUNDS_H
#define YOKE_CORE_COLL_MESSAGES_MSG_ROUNDS_H

#include "core/coll/messages/msg_piece.h"

enum { YK__MSG_ROUNDS_LEAST = 4 }; /* members; with fewer a direct exchange needs no more messages */

/* True if the plan (tune.h) sends the records of this request, with so many bytes of small data, in rounds. */
bool yk__msg_rounds_fit(const yk__request *request, uint64_t bytes);
/* Makes request->msg->round. */
yk_status yk__msg_rounds_new(yk__request *request, yk_error *err);
/* Continues as far as possible. No-op for a request without rounds. */
yk_status yk__msg_rounds_step(yk__request *request, yk_error *err);

#endif
