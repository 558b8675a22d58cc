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

typedef struct yk__msg_feed yk__msg_feed; /* msg_feed.c */

typedef struct yk__msg_plane {
    const yk_transport *table;
    yk_tr *tr;
    yk__shm *shm; /* common memory for the transport's use; NULL if it uses none */
    uint64_t *host; /* [world] */
    uint64_t sent_far; /* bytes sent to other hosts */
    pthread_mutex_t lock;
    pthread_cond_t begun; /* signals a request whose rank now does something else */
    pthread_t thread;
    bool threaded, stop;
    bool waiting; /* the step thread waits and drives every request itself, so no wake-up is needed */
    pid_t pid; /* process that has the thread */
    uint32_t active; /* requests in progress */
    yk__msg_feed *feed; /* results on their way */
    uint32_t feeds;
    yk__msg_feed *held, *held_last; /* results not sent yet (msg_feed.c), oldest first */
    uint32_t holds, held_requests;
    uint64_t held_bytes;
    int64_t held_until; /* ns of yk__clock_ns at which the held results are sent */
    bool watched;       /* the progress thread wakes at held_until */
} yk__msg_plane;

/* Opens the transport; coll->plane is set after a failure too. */
yk_status yk__msg_open(yk__coll *coll, const yk_transport *transport, yk_error *err);
void yk__msg_close(yk__coll *coll);
/* True if this process opened the plane: after a fork the lock's holder may be a thread that the child does not have. */
bool yk__msg_plane_is_own(const yk__msg_plane *plane);
/* Locks the communicators' lists of requests over messages, and the list of communicators. No-op without a plane. */
void yk__msg_lock(yk__coll *coll);
void yk__msg_unlock(yk__coll *coll);
uint64_t yk__msg_sent_far(yk__coll *coll);
yk_status yk__msg_register(yk__coll *coll, yk__coll_buffer *buffer, yk_error *err);
void yk__msg_unregister(yk__coll *coll, yk__coll_buffer *buffer);
/* Fails with an error that names this rank and the transport. */
yk_status yk__msg_fail(yk_error *err, yk_status status, const yk_tr_error *error, const yk__coll *coll);

#endif
