/* SPDX-License-Identifier: Apache-2.0 */
/* Pulls over messages (core/coll/pull.h): both ends. Under the lock of the plane (msg_plane.h). */
#ifndef YOKE_CORE_COLL_MESSAGES_MSG_PULL_H
#define YOKE_CORE_COLL_MESSAGES_MSG_PULL_H

#include "core/coll/messages/msg_plane.h"

void yk__msg_pulls_step(yk__coll *coll); /* answers other ranks, and drives this rank's pulls; one that fails keeps its error */
void yk__msg_pulls_fail(yk__coll *coll, yk_status status, const yk_tr_error *error); /* the transport has failed */
void yk__msg_pulls_free(yk__coll *coll); /* before the plane is closed, with no thread on it */

#endif
