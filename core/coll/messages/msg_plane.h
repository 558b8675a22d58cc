/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plane of messages: a transport for ranks without common memory, its lock, and its registered memory.
 * Thread rule: the lock guards all state of requests over messages, as the progress thread (progress.h) drives them too.
 */
#ifndef YOKE_CORE_COLL_MESSAGES_MSG_PLANE_H
#define YOKE_CORE_COLL_MESSAGES_MSG_PLANE_H

#include <pthread.h>
#include <sys/types.h>

#include <yoke/transport.h>

#include "core/coll/coll_state.h"

#include "core/coll/messages/sealed.h"

typedef struct yk__msg_feed yk__msg_feed; /* msg_feed.c */
typedef struct yk__msg_pulls yk__msg_pulls; /* msg_pull.c */

/* No message of a request has these tags: steps (msg_piece.h) end at 0x8000, or are 0xffff. */
#define YK__MSG_TAG_QUESTION 0xfffeull
#define YK__MSG_TAG_ASK 0xfffdull /* pulls */
#define YK__MSG_TAG_ANSWER 0xfffcull

typedef struct yk__msg_plane {
    const yk_transport *table;
    yk_tr *tr;
    yk__sealed *sealed; /* NULL: messages travel as they are */
    yk__shm *shm; /* common memory for the transport's use; NULL if it uses none */
    uint64_t *host; /* [world] */
    uint64_t sent_far; /* bytes sent to other hosts */
    pthread_mutex_t lock;
    pthread_cond_t begun; /* signals a request whose rank now does something else */
    pthread_t thread;
    bool threaded, stop;
    bool waiting; /* the step thread waits and drives every request itself, so no wake-up is needed */
    pid_t pid; /* process that has the thread */
    uint32_t active; /* requests and pulls in progress */
    yk__msg_pulls *pulls; /* NULL before the first */
    bool serves; /* this rank offers slices: its threads listen to other ranks' asks */
    yk__msg_feed *feed; /* results on their way */
    uint32_t feeds;
    yk__msg_feed *held, *held_last; /* results not sent yet (msg_feed.c), oldest first */
    uint32_t holds, held_requests;
    uint64_t held_bytes;
    int64_t held_until; /* ns of yk__clock_ns at which the held results are sent */
    bool watched;       /* the progress thread wakes at held_until */
} yk__msg_plane;

/* Opens the transport; coll->plane is set after a failure too. */
yk_status yk__msg_open(yk__coll *coll, const yk_transport *transport, yk__seal seal, yk_error *err);
void yk__msg_close(yk__coll *coll);
/* True if this process opened the plane: after a fork the lock's holder may be a thread that the child does not have. */
bool yk__msg_plane_is_own(const yk__msg_plane *plane);
/* Locks the communicators' lists of requests over messages, and the list of communicators. No-op without a plane. */
void yk__msg_lock(yk__coll *coll);
void yk__msg_unlock(yk__coll *coll);
uint64_t yk__msg_sent_far(yk__coll *coll);
yk_status yk__msg_register(yk__coll *coll, yk__coll_buffer *buffer, yk_error *err);
void yk__msg_unregister(yk__coll *coll, yk__coll_buffer *buffer);
/* ---- Messages, with a seal or without: the transport's functions of the same names. Under the lock. ---- */

yk_status yk__msg_send(yk__msg_plane *plane, uint32_t peer, uint64_t tag, const yk_tr_range *from, yk_tr_op **op, yk_tr_error *error);
yk_status yk__msg_recv(yk__msg_plane *plane, uint32_t peer, uint64_t tag, const yk_tr_range *to, yk_tr_op **op, yk_tr_error *error);
yk_status yk__msg_test(yk__msg_plane *plane, yk_tr_op *op, int *done, uint64_t *bytes, yk_tr_error *error);
void yk__msg_cancel(yk__msg_plane *plane, yk_tr_op *op);
/* Serves the questions of other ranks about messages. */
void yk__msg_serve(yk__msg_plane *plane);
/* Fails if a message that this rank waits for is lost. Call it now and then while waiting. */
yk_status yk__msg_look(yk__coll *coll, yk_error *err);
/* True if the rank got on: messages of requests were done, not only questions. events: the transport's number has changed. */
bool yk__msg_moved(yk__msg_plane *plane, bool events);

/* Fails with an error that names this rank and the transport. */
yk_status yk__msg_fail(yk_error *err, yk_status status, const yk_tr_error *error, const yk__coll *coll);

#endif
