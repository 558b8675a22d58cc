/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages with a seal, for a transport that does not check its messages itself (YK_TR_EXT_CHECKED): most transports from outside. Each
 * message travels with a head: its tag, its number between these two ranks, the number of the message before it on its tag, its length,
 * and a checksum of everything. So a receive finds changed bytes, a message of another tag, a doubled message and an overtaken one.
 *
 * A lost message is one that its sender sent and that never comes. A receive that waits asks the sender, in a message of a tag of its
 * own, whether the message has been sent. If so, and the sender is silent for lost_ms from the answer on, the message is lost. Silence
 * counts in bounded steps, so that a job that was stopped as a whole loses nothing. A sender that does not answer computes, or is stuck:
 * core/control/stuck.c.
 *
 * Thread rule: under the lock of the plane (msg_plane.h).
 */
#ifndef YOKE_CORE_COLL_MESSAGES_SEALED_H
#define YOKE_CORE_COLL_MESSAGES_SEALED_H

#include <stdbool.h>

#include <yoke/transport.h>

typedef struct yk__sealed yk__sealed;

typedef struct yk__sealed_config {
    const yk_transport *table;
    yk_tr *tr; /* open; closed after yk__sealed_free */
    uint32_t rank, ranks;
    uint64_t question_tag; /* a tag that no message has */
    int64_t lost_ms;       /* 0: nothing counts as lost */
} yk__sealed_config;

yk_status yk__sealed_new(const yk__sealed_config *config, yk__sealed **sealed, yk_tr_error *error);
/* Operations that the caller has not ended must be cancelled before. NULL is fine. */
void yk__sealed_free(yk__sealed *s);

/* As the transport's functions; an operation is one of the seal's own. */
yk_status yk__sealed_send(yk__sealed *s, uint32_t peer, uint64_t tag, const yk_tr_range *from, yk_tr_op **op, yk_tr_error *error);
yk_status yk__sealed_recv(yk__sealed *s, uint32_t peer, uint64_t tag, const yk_tr_range *to, yk_tr_op **op, yk_tr_error *error);
yk_status yk__sealed_test(yk__sealed *s, yk_tr_op *op, int *done, uint64_t *bytes, yk_tr_error *error);
void yk__sealed_cancel(yk__sealed *s, yk_tr_op *op);

/* Answers the questions of other ranks, and reads their answers. Call it often; now: ms of yk__clock_ms. */
void yk__sealed_serve(yk__sealed *s, int64_t now);
/* Asks about receives that have waited, and fails with YK_E_IO if a message is lost. Call it after yk__sealed_serve while waiting. */
yk_status yk__sealed_look(yk__sealed *s, int64_t now, yk_tr_error *error);
/* True if operations of the caller were done since the last call: questions are no progress. */
bool yk__sealed_moved(yk__sealed *s);

#endif
