/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of an all-gather of slices and of a broadcast over messages beyond the records. Under the lock of the plane (msg_plane.h). */
#ifndef YOKE_CORE_COLL_MESSAGES_MSG_GATHER_H
#define YOKE_CORE_COLL_MESSAGES_MSG_GATHER_H

#include "core/coll/messages/msg_piece.h"

void yk__msg_gather_pack(const yk__request *request, uint8_t *to); /* writes the own slice, with slices in rounds */
yk_status yk__msg_gather_new(yk__request *request, yk_error *err); /* sets the request's lag, and makes its buffers */
yk_status yk__msg_gather_post(yk__request *request, yk__msg_piece *piece, yk_error *err);
void yk__msg_gather_finish(yk__request *request, const yk__msg_piece *piece);
uint32_t yk__msg_broadcast_lag(const yk__request *request);
yk_status yk__msg_broadcast_post(yk__request *request, yk__msg_piece *piece, yk_error *err);

#endif
