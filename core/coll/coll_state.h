/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a rank's collectives: records, requests, communicators. Only structs, below all other files of core/coll.
 * Thread rule: the step thread, or the plane's lock for members marked so (msg_plane.h).
 */
#ifndef YOKE_CORE_COLL_COLL_STATE_H
#define YOKE_CORE_COLL_COLL_STATE_H

#include "core/base/error.h"
#include "core/coll/comm_hosts.h"
#include "core/coll/desc.h"
#include "core/coll/shm/shm.h"
#include "core/coll/wire.h"
#include "core/control/control.h"

typedef struct yk__coll yk__coll;
typedef struct yk__comm yk__comm;
typedef struct yk__request yk__request;

/* The record of a request: its identity, and its place in the user's program. */
typedef struct yk__call {
    uint32_t comm, generation, sequence;
    uint32_t order, common; /* requests so far on world and members: begun by a member; reached by all ranks' programs */
    uint8_t kind, dtype, op;
    uint8_t is_common; /* excluded ranks' programs make it too */
    uint32_t root; /* of a broadcast; of a request on a buffer: its place there, in 64 elements, as members read each other's blocks */
    uint32_t rows;
    uint64_t count;
    int32_t line;
    char file[82];
    uint8_t use;     /* a yk__coll_use */
    uint8_t no_rows; /* the rank has no rows in the step */
} yk__call;

/* A way to run requests. release follows completion and errors. */
typedef struct yk__coll_algorithm {
    const char *name;
    bool (*fits)(const yk__comm *comm, const yk__coll_desc *desc); /* true if it can run this request of this rank */
    yk_status (*start)(yk__request *request, yk_error *err);
    /* Continues as far as possible; with `wait` until the request is done. */
    yk_status (*advance)(yk__request *request, bool wait, yk_error *err);
    void (*release)(yk__request *request); /* NULL if nothing needs a release */
} yk__coll_algorithm;

struct yk__request {
    yk__comm *comm;
    yk__request *next; /* the request begun after it */
    const yk__coll_algorithm *algorithm;
    yk__coll_desc desc;
    yk__call call;
    bool used, done;
    uint32_t lane;    /* shm: lane of its small data */
    uint64_t chunk, chunks, chunk_at; /* shm, broadcast: number of its first chunk; its chunks; finished chunks */
    struct yk__msg *msg;              /* state over messages: msg_piece.h */
};

enum { YK__COMM_WORLD, YK__COMM_MEMBERS, YK__COMM_OTHERS }; /* numbers of communicators; OTHERS is the first free one */

typedef struct yk__comm_shm yk__comm_shm; /* shm_slot.h */
typedef struct yk__feed yk__feed;         /* feed.c */

struct yk__comm {
    yk__coll *coll;
    yk__comm *next;
    uint32_t id, generation;
    bool *has;        /* [world]: true for members */
    uint32_t *member; /* [size], ascending */
    uint32_t size;
    yk__comm_hosts hosts; /* over messages: its members by host */
    bool joined;       /* this rank is a member */
    bool broken;       /* a request was cancelled */
    uint32_t sequence; /* number of the last request */
    yk__request *first; /* requests in progress, in the order of their begin */
    yk__request pool[YK__COLL_REQUESTS];
    const void **part; /* [world]: scratch, one pointer to each member's data */
    yk__comm_shm *shm; /* NULL over messages */
};

struct yk__coll {
    yk__control *control; /* NULL for one rank */
    yk__shm *shm;      /* common memory of all ranks; NULL if they use messages */
    yk__shm *host_shm; /* with messages: common memory of this host's ranks; NULL if unused */
    uint32_t *local;   /* [size], with host_shm: yk__shm_index of each rank */
    uint64_t *host_id; /* [size], over messages: equal for ranks with common memory */
    bool by_host;
    yk__wire wire;
    bool narrow_params;
    uint64_t columns_from; /* least bytes of an all-reduce over messages by columns: tune.h */
    uint64_t slices_below; /* parts of fewer bytes of a reduce-scatter go in rounds, too */
    uint64_t rounds_below; /* small data of fewer bytes goes in rounds with the records (msg_rounds.h); 0 for never */
    uint32_t rank, size;
    yk__comm *comm; /* list of all; the world and the members come first */
    uint32_t comms;
    void (*place)(const char **file, int *line);
    const bool *no_rows; /* yk__coll_rows; NULL if unknown */
    yk__coll_use use;    /* of the requests on the world that begin */
    yk_status (*meeting)(void *arg, yk_error *err); /* yk__coll_before_meeting */
    void *meeting_arg;
    uint32_t order, common;
    const char *file; /* source of the copy in file_name */
    char file_name[sizeof((yk__call *)0)->file];
    const yk__call *waits;        /* the request that the step thread waits for */
    uint32_t passed, passed_peer; /* successive looks that found this peer beyond the request */
    volatile int cancelled; /* job of one rank: non-zero once it must end */
    float shown;            /* yk__coll_show */
    int ending;            /* job of one rank: a thread is writing `why` */
    yk_error why;           /* job of one rank: the error that ended it */

    yk__feed *feed; /* feed in common memory; NULL without one */
    uint32_t read;   /* excluded rank: lines of the feed that it has read */
    uint32_t unread; /* writer: lines since it last woke the readers */

    struct yk__msg_plane *plane; /* plane of messages (msg_plane.h); NULL without one */
};

#endif
