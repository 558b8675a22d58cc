/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank keeps of its collectives: the record of a request, requests, communicators, and all of them together. Structures alone,
 * below all files of core/coll. Thread rule: the step thread, but for what is under the lock of the plane (msg_plane.h).
 */
#ifndef YOKE_CORE_COLL_STATE_H
#define YOKE_CORE_COLL_STATE_H

#include "core/base/error.h"
#include "core/coll/comm_hosts.h"
#include "core/coll/desc.h"
#include "core/coll/shm.h"
#include "core/coll/wire.h"
#include "core/control/control.h"

typedef struct yk__coll yk__coll;
typedef struct yk__comm yk__comm;
typedef struct yk__request yk__request;

/* A request: which one, and from where in the user's program. */
typedef struct yk__call {
    uint32_t comm, generation, sequence;
    uint32_t order, common; /* requests so far on world and members, that a member began; that all ranks' programs reached */
    uint8_t kind, dtype, op;
    uint8_t is_common; /* the programs of all ranks, excluded ones too, make it */
    uint32_t root, rows;
    uint64_t count;
    int32_t line;
    char file[83];
    uint8_t no_rows; /* the rank has no rows of the step */
} yk__call;

/* One way to run requests. Released after done and after an error. */
typedef struct yk__coll_algorithm {
    const char *name;
    bool (*fits)(const yk__comm *comm, const yk__coll_desc *desc); /* whether it can run this request of this rank */
    yk_status (*start)(yk__request *request, yk_error *err);
    /* Goes on as far as it can. wait: until it is done, else it returns at once. */
    yk_status (*advance)(yk__request *request, bool wait, yk_error *err);
    void (*release)(yk__request *request); /* NULL: nothing to release */
} yk__coll_algorithm;

struct yk__request {
    yk__comm *comm;
    yk__request *next; /* begun after it */
    const yk__coll_algorithm *algorithm;
    yk__coll_desc desc;
    yk__call call;
    bool used, done;
    uint32_t lane;    /* shm: where its small data lies */
    uint64_t chunk, chunks, chunk_at; /* shm, broadcast: number of its first chunk; how many; how many are done */
    struct yk__msg *msg;              /* over messages: msg_piece.h */
};

enum { YK__COMM_WORLD, YK__COMM_MEMBERS, YK__COMM_OTHERS }; /* numbers of communicators; OTHERS: from here on */

typedef struct yk__comm_shm yk__comm_shm; /* shm_slot.h */
typedef struct yk__feed yk__feed;         /* feed.c */

struct yk__comm {
    yk__coll *coll;
    yk__comm *next;
    uint32_t id, generation;
    bool *has;        /* [world]: that rank is a member */
    uint32_t *member; /* [size], ascending */
    uint32_t size;
    yk__comm_hosts hosts; /* over messages; of its members */
    bool joined;       /* this rank is a member */
    bool broken;       /* a request was cancelled */
    uint32_t sequence; /* of the last request */
    yk__request *first; /* under way, in the order they were begun */
    yk__request pool[YK__COLL_REQUESTS];
    const void **part; /* [world]: scratch, a member's data each */
    yk__comm_shm *shm; /* NULL: over messages */
};

struct yk__coll {
    yk__control *control; /* NULL: one rank */
    yk__shm *shm;      /* of all ranks; NULL: they talk by messages */
    yk__shm *host_shm; /* beside messages: of the ranks of this host; NULL: there are no others, or it is not to be used */
    uint32_t *local;   /* [size], with host_shm: yk__shm_index of each rank */
    uint64_t *host_id; /* [size], over messages: equal for ranks that have memory in common */
    bool by_host;
    yk__wire wire;
    bool narrow_params;
    uint64_t columns_from; /* bytes of an all-reduce over messages from which on it goes by columns: plan.h */
    uint64_t rounds_below; /* bytes of a rank's small data over messages below which records go in rounds (msg_rounds.h); 0: never */
    uint32_t rank, size;
    yk__comm *comm; /* all; the world and the members first */
    uint32_t comms;
    void (*place)(const char **file, int *line);
    const bool *no_rows; /* yk__coll_rows; NULL: not known */
    yk_status (*meeting)(void *arg, yk_error *err); /* yk__coll_before_meeting */
    void *meeting_arg;
    uint32_t order, common;
    const char *file; /* whose name file_name is */
    char file_name[sizeof((yk__call *)0)->file];
    const yk__call *waits;        /* the request that is waited for */
    uint32_t passed, passed_peer; /* looks at a rank that was beyond it */
    volatile int cancelled; /* of a job of one rank */
    float shown;            /* yk__coll_show */
    int ending;            /* of a job of one rank: somebody writes `why` */
    yk_error why;           /* of a job of one rank that was aborted */

    yk__feed *feed; /* in common memory; NULL: there is none */
    uint32_t read;   /* of an excluded rank: lines of the feed */
    uint32_t unread; /* of who writes: lines since readers were woken */

    struct yk__msg_plane *plane; /* messages: msg_plane.h; NULL: none */
};

#endif
