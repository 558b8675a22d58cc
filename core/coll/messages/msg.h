/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests over messages as a whole: beginning them, driving them, waiting. msg_piece.h describes their pieces.
 * Thread rule: under the lock of the plane (msg_plane.h), except functions that say otherwise.
 */
#ifndef YOKE_CORE_COLL_MESSAGES_MSG_H
#define YOKE_CORE_COLL_MESSAGES_MSG_H

#include "core/coll/messages/msg_plane.h"

extern const yk__coll_algorithm yk__msg_algorithm;

void yk__msg_hand_over(yk__coll *coll); /* without the lock: the step thread leaves the requests in progress to the progress thread */
/* Drives every unfinished request; a request that fails keeps its error. */
void yk__msg_step_all(yk__coll *coll);
/* Fails every request, as the transport has failed. */
void yk__msg_fail_all(yk__coll *coll, yk_status status, const yk_tr_error *error);

#endif
