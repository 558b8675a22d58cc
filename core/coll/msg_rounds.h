/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records and small data of all members in few messages. In round k a rank sends the records that it has, 2^k or what is left, to the
 * member 2^k before it, and gets as many from the one 2^k after it: ceil(log2 n) rounds of one message a rank bring all records to all
 * (Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems", 1997), where a direct exchange
 * takes one round of n - 1. Each rank then computes in the order of rank numbers, so the bits are those of the direct exchange.
 *
 * Rounds go on beside the pieces of data: the first piece is finished when all records are here. Under the lock of the plane (msg_plane.h).
 */
#ifndef YOKE_CORE_COLL_MSG_ROUNDS_H
#define YOKE_CORE_COLL_MSG_ROUNDS_H

#include "core/coll/msg_piece.h"

enum { YK__MSG_ROUNDS_LEAST = 4 }; /* members; fewer have as many messages in a direct exchange */

/* Whether the records of this request, with so many bytes of small data, go so: the plan (plan.h) says below how many bytes. */
bool yk__msg_rounds_fit(const yk__request *request, uint64_t bytes);
/* request->msg->round. */
yk_status yk__msg_rounds_new(yk__request *request, yk_error *err);
/* Goes on as far as it can. Nothing where records do not go in rounds. */
yk_status yk__msg_rounds_step(yk__request *request, yk_error *err);

#endif
