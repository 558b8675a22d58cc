/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests over messages as a whole: beginning them, driving them, waiting. msg_piece.h describes their pieces.
 * Thread rule: under the lock of the plane (msg_plane.h), except functions that say otherwise.
 */
#ifndef YOKE_CORE_COLL_MESSAGES_MSG_H
#define YOKE_CORE_COLL_MESSAGES_MSG_H

#include "core/coll/messages/msg_plane.h"

/* A wait of the step thread, which drives all requests meanwhile. */
typedef struct yk__msg_wait {
    yk__coll *coll;
    const void *of;
    bool (*is_open)(const void *of);
    uint32_t (*peer)(const void *of); /* a rank that delays it; UINT32_MAX if none */
    bool polls;           /* it is short: the thread polls at first, and sleeps for short times */
    const char *what;     /* for errors */
    const yk__call *call; /* the request, which peers must make, too; NULL for none */
} yk__msg_wait;

extern const yk__coll_algorithm yk__msg_algorithm;

void yk__msg_hand_over(yk__coll *coll); /* without the lock: the step thread leaves the requests in progress to the progress thread */
/* Returns once `wait` is not open, or with the error that ends it: of the transport, a lost rank, or one that does nothing. */
yk_status yk__msg_wait_done(const yk__msg_wait *wait, yk_error *err);
/* Drives every unfinished request and pull; one that fails keeps its error. */
void yk__msg_step_all(yk__coll *coll);
/* Fails every request and pull, as the transport has failed. */
void yk__msg_fail_all(yk__coll *coll, yk_status status, const yk_tr_error *error);

#endif
