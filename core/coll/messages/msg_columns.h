/* SPDX-License-Identifier: Apache-2.0 */
/* All-reduces over messages by columns. Under the lock of the plane (msg_plane.h). */
#ifndef YOKE_CORE_COLL_MESSAGES_MSG_COLUMNS_H
#define YOKE_CORE_COLL_MESSAGES_MSG_COLUMNS_H

#include "core/coll/messages/msg_piece.h"

/* True if the plan (tune.h) sends a request of this size by columns. */
bool yk__msg_columns_fit(const yk__request *request);
/* Makes request->msg->columns with this rank's numbers, and sets the request's lag. */
yk_status yk__msg_columns_new(yk__request *request, yk_error *err);
void yk__msg_columns_free(yk__msg_columns *columns);
yk_status yk__msg_columns_post(yk__request *request, yk__msg_piece *piece, yk_error *err);
void yk__msg_columns_finish(yk__request *request, const yk__msg_piece *piece);

#endif
