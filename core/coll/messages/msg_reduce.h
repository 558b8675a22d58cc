/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of a reduce-scatter over messages beyond the records. Under the lock of the plane (msg_plane.h). */
#ifndef YOKE_CORE_COLL_MESSAGES_MSG_REDUCE_H
#define YOKE_CORE_COLL_MESSAGES_MSG_REDUCE_H

#include "core/coll/messages/msg_piece.h"

yk_status yk__msg_sum_new(yk__request *request, yk_error *err); /* makes request->msg->sum and sets the request's lag */
void yk__msg_sum_free(yk__msg_sum *sum);
yk_status yk__msg_sum_post(yk__request *request, yk__msg_piece *piece, yk_error *err);
void yk__msg_sum_finish(yk__request *request, const yk__msg_piece *piece);

#endif
