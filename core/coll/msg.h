/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests over messages as a whole: beginning them, going on with all that are under way, waiting. How they are made of pieces:
 * msg_piece.h. Thread rule: under the lock of the plane (msg_plane.h) but where it says else.
 */
#ifndef YOKE_CORE_COLL_MSG_H
#define YOKE_CORE_COLL_MSG_H

#include "core/coll/msg_plane.h"

extern const yk__coll_algorithm yk__msg_algorithm;

void yk__msg_hand_over(yk__coll *coll); /* without the lock. The step thread goes on: what is under way is the progress thread's */
/* Goes on with all requests that are not done; those that fail keep their error. */
void yk__msg_step_all(yk__coll *coll);
/* The transport has failed: so have all requests. */
void yk__msg_fail_all(yk__coll *coll, yk_status status, const yk_tr_error *error);

#endif
