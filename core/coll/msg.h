/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives over the messages of a transport, for ranks that have no memory in common. Every member sends what another one needs
 * directly to it; what is computed from it is reduce.c's, in the order of rank numbers.
 *
 * A request goes in pieces; two are under way at once, so that one travels while the other is summed. Each piece is some sends and
 * receives; the first carries the record of the request, which is compared.
 *
 * Thread rule: all state of requests over messages is under the plane's lock, as the progress thread (progress.c) drives them too.
 */
#ifndef YOKE_CORE_COLL_MSG_H
#define YOKE_CORE_COLL_MSG_H

#include <sys/types.h>

#include "core/coll/internal.h"

enum { YK__MSG_WINDOW = 2 };

/* Sends and receives of one piece. */
typedef struct yk__msg_piece {
    yk_tr_op **op;     /* [most]; NULL: it is done */
    uint64_t *bytes;   /* [most]; what has to come, of a receive; UINT64_MAX: of a send */
    uint32_t *peer;    /* [most] */
    uint32_t n, open;  /* operations; how many are not done */
    uint64_t number;   /* of the piece */
} yk__msg_piece;

/* What a request over messages has beyond its description. */
typedef struct yk__msg {
    uint64_t pieces, posted, finished;
    yk__msg_piece piece[YK__MSG_WINDOW];
    uint8_t *record; /* own record and small data; then those of the other members, each record_bytes */
    uint64_t record_bytes;
    float *scratch; /* reduce-scatter: [window][members - 1][YK__MSG_PIECE] */
    uint32_t *peer; /* the other members, in the order of rank numbers */
    uint32_t peers;
    bool counted; /* in the plane's `active` */
    yk_error err; /* what a progress thread met */
} yk__msg;

#define YK__MSG_PIECE (256u << 10) /* numbers of a reduce-scatter's piece */

/* The low 16 bits of a message's tag; pieces of data count on from STEP_DATA. */
enum { YK__MSG_STEP_RECORD = 0, YK__MSG_STEP_DATA = 1, YK__MSG_STEPS = 0x7fff, YK__MSG_STEP_FEED = 0xffff };

/* A result on its way to an excluded rank. */
typedef struct yk__msg_feed {
    struct yk__msg_feed *next;
    yk_tr_op *op;
    uint8_t data[];
} yk__msg_feed;

typedef struct yk__msg_plane {
    const yk_transport *table;
    yk_tr *tr;
    yk__shm *shm; /* where the transport makes use of common memory */
    uint64_t *host;
    pthread_mutex_t lock;
    pthread_cond_t begun, done; /* a request was */
    pthread_t thread;
    bool threaded, stop;
    pid_t pid; /* of the process that has the thread */
    uint32_t active; /* requests that are not done */
    yk__msg_feed *feed;
    uint32_t feeds;
} yk__msg_plane;

yk_status yk__msg_open(yk__coll *coll, const yk__coll_config *config, yk_error *err);
void yk__msg_close(yk__coll *coll);
/* The lists of requests of a communicator over messages, and of communicators. Nothing for one in common memory. */
void yk__msg_lock(yk__comm *comm);
void yk__msg_unlock(yk__comm *comm);
bool yk__msg_done(yk__request *request);
yk_status yk__msg_register(yk__coll *coll, yk__coll_buffer *buffer, yk_error *err);
void yk__msg_unregister(yk__coll *coll, yk__coll_buffer *buffer);

extern const yk__coll_algorithm yk__msg_algorithm;

/* ---- Between the files msg*.c and progress.c, under the lock ---- */

/* Goes on with all requests that are not done; those that fail keep their error. */
void yk__msg_step_all(yk__coll *coll);
/* The transport has failed: so have all requests. */
void yk__msg_fail_all(yk__coll *coll, yk_status status, const yk_tr_error *error);
yk_status yk__msg_fail(yk_error *err, yk_status status, const yk_tr_error *error, const yk__coll *coll);

/* msg_pieces.c: what the pieces of each kind are */
uint64_t yk__msg_count_pieces(const yk__request *request);
uint64_t yk__msg_scratch_numbers(const yk__request *request);
yk_status yk__msg_post_piece(yk__request *request, yk__msg_piece *piece, yk_error *err);
yk_status yk__msg_finish_piece(yk__request *request, const yk__msg_piece *piece, yk_error *err);
/* An error when a member's record that is here is not that of this request. */
yk_status yk__msg_check_records(const yk__request *request, yk_error *err);
yk_status yk__msg_post(yk__request *request, yk__msg_piece *piece, bool send, uint32_t peer, uint32_t step,
                       const yk_tr_range *range, yk_error *err);

uint64_t yk__msg_tag(const yk__call *call, uint32_t step);

/* msg_feed.c: results for excluded ranks, from the lowest member */
uint64_t yk__msg_result_bytes(const yk__request *request);
yk_status yk__msg_feed_take(yk__request *request, const uint8_t *record, yk_error *err);
/* Waits, without the lock, while too many are on their way. */
yk_status yk__msg_feed_reserve(yk__request *request, yk_error *err);
yk_status yk__msg_feed_put(yk__request *request, yk_error *err);
void yk__msg_feed_reap(yk__coll *coll);
void yk__msg_feed_free(yk__coll *coll);

/* progress.c */
yk_status yk__msg_start_thread(yk__coll *coll, yk_error *err);
void yk__msg_stop(yk__coll *coll); /* before the communicators go */

#endif
