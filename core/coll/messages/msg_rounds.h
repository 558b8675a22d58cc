/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records and small data of all members in few messages. In round k a rank sends its records, 2^k or the remaining ones, to the member 2^k
 * before it. It receives as many from the member 2^k after it. ceil(log2 n) rounds of one message a rank bring every record to every member
 * (Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems", 1997). A direct exchange takes
 * one round of n - 1 messages. Each rank then computes in the order of rank numbers, so both give the same bits.
 *
 * Rounds run in parallel to the pieces of data; the first piece finishes once all records are here. Short slices need no such pieces: a
 * slice to gather is small data. The parts of a reduce-scatter follow the records of a round, those whose way has bit k set; a part for the
 * member d before travels the bits of d. It is on its way log2(n) / 2 times as often as on the direct one. Under the lock of the plane
 * (msg_plane.h).
 */
#ifndef YOKE_CORE_COLL_MESSAGES_MSG_ROUNDS_H
#define YOKE_CORE_COLL_MESSAGES_MSG_ROUNDS_H

#include "core/coll/messages/msg_piece.h"

enum { YK__MSG_ROUNDS_LEAST = 4 }; /* members; with fewer a direct exchange needs no more messages */

/* True if the plan (tune.h) sends the records of this request, with so many bytes of small data, in rounds. */
bool yk__msg_rounds_fit(const yk__request *request, uint64_t bytes);
/* Bytes of each slice of this request that goes in rounds with the records; 0 if its slices go directly. */
uint64_t yk__msg_rounds_slice(const yk__request *request);
/* Makes request->msg->round, and the buffers of a reduce-scatter in rounds. */
yk_status yk__msg_rounds_new(yk__request *request, yk_error *err);
/* Puts the first bytes that the round has received to their place among the records. */
void yk__msg_rounds_unpack(const yk__msg *m, uint64_t bytes);
/* Continues as far as possible. No-op for a request without rounds. */
yk_status yk__msg_rounds_step(yk__request *request, yk_error *err);

#endif
