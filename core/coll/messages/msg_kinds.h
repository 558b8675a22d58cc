/* SPDX-License-Identifier: Apache-2.0 */
/* The pieces of each kind of collective over messages. Under the lock of the plane (msg_plane.h). */
#ifndef YOKE_CORE_COLL_MESSAGES_MSG_KINDS_H
#define YOKE_CORE_COLL_MESSAGES_MSG_KINDS_H

#include "core/coll/messages/msg_piece.h"

yk_status yk__msg_plan_pieces(yk__request *request, yk_error *err);
yk_status yk__msg_post_piece(yk__request *request, yk__msg_piece *piece, yk_error *err);
/* Called once every operation of the piece is done. */
yk_status yk__msg_finish_piece(yk__request *request, const yk__msg_piece *piece, yk_error *err);

#endif
