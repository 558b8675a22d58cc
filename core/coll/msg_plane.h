/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plane of messages: the transport that a job's collectives go over where ranks have no memory in common, its lock, and memory
 * registered with it. Thread rule: all state of requests over messages is under the lock, as the progress thread (progress.h) drives
 * them too.
 */
#ifndef YOKE_CORE_COLL_MSG_PLANE_H
#define YOKE_CORE_COLL_MSG_PLANE_H

#include <pthread.h>
#include <sys/types.h>

#include <yoke/transport.h>

#include "core/coll/state.h"

typedef struct yk__msg_feed yk__msg_feed; /* msg_feed.c */

typedef struct yk__msg_plane {
    const yk_transport *table;
    yk_tr *tr;
    yk__shm *shm; /* where the transport makes use of common memory */
    uint64_t *host; /* [world] */
    uint64_t sent_far; /* bytes to other hosts */
    pthread_mutex_t lock;
    pthread_cond_t begun; /* a request was, and its rank does something else now */
    pthread_t thread;
    bool threaded, stop;
    bool waiting; /* the step thread waits, and drives all requests itself: nobody has to wake it */
    pid_t pid; /* of the process that has the thread */
    uint32_t active; /* requests that are not done */
    yk__msg_feed *feed; /* on their way */
    uint32_t feeds;
    yk__msg_feed *held, *held_last; /* not sent yet (msg_feed.c), from the oldest on */
    uint32_t holds, held_requests;
    uint64_t held_bytes;
    int64_t held_until; /* ns of yk__clock_ns: then all are sent */
    bool watched;       /* by the progress thread, which wakes then */
} yk__msg_plane;

/* Opens the transport; coll->plane is there after a failure too. */
yk_status yk__msg_open(yk__coll *coll, const yk_transport *transport, yk_error *err);
void yk__msg_close(yk__coll *coll);
/* This process opened it: in a fork the lock may be held by a thread that is not there. */
bool yk__msg_plane_is_own(const yk__msg_plane *plane);
/* The lists of requests of a communicator over messages, and of communicators. Nothing where there is no plane. */
void yk__msg_lock(yk__coll *coll);
void yk__msg_unlock(yk__coll *coll);
uint64_t yk__msg_sent_far(yk__coll *coll);
yk_status yk__msg_register(yk__coll *coll, yk__coll_buffer *buffer, yk_error *err);
void yk__msg_unregister(yk__coll *coll, yk__coll_buffer *buffer);
/* Names this rank and the transport. */
yk_status yk__msg_fail(yk_error *err, yk_status status, const yk_tr_error *error, const yk__coll *coll);

#endif
