/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of core/coll share. */
#ifndef YOKE_CORE_COLL_INTERNAL_H
#define YOKE_CORE_COLL_INTERNAL_H

#include <pthread.h>

#include "core/coll/coll.h"
#include "core/coll/comm_hosts.h"
#include "core/coll/shm.h"

/* ---- What ranks see of each other's requests (call.c) ------------------------------------------------------------- */

/* A request: which one, and from where in the user's program. */
typedef struct yk__call {
    uint32_t comm, generation, sequence;
    uint32_t order, common; /* requests so far on world and members, that a member began; that all ranks' programs reached */
    uint8_t kind, dtype, op;
    uint8_t is_common; /* the programs of all ranks, excluded ones too, make it */
    uint32_t root, rows;
    uint64_t count;
    int32_t line;
    char file[84];
} yk__call;

/* What a rank shows of itself: its last request. */
typedef struct yk__call_info {
    yk__call call;
    uint32_t excluded;
    uint32_t begun[2]; /* the last sequence numbers on world and members */
} yk__call_info;

_Static_assert(sizeof(yk__call_info) <= YK__CONTROL_INFO, "fits what a rank can show");

const char *yk__call_name(const yk__call *call);
uint64_t yk__call_bytes(const yk__call *call);
/* Fills the request's record and shows it; to be called before anything of it is seen by others. */
void yk__call_begin(yk__request *request);
bool yk__call_same(const yk__call *a, const yk__call *b);
/* The error of two ranks in unlike requests; `own` is this rank's. */
yk_status yk__call_fail(const yk__coll *coll, const yk__call *own, uint32_t peer, const yk__call *theirs, yk_error *err);
/* During a wait of `own` for that rank: an error when its request is another. */
yk_status yk__call_look(yk__coll *coll, const yk__call *own, uint32_t peer, yk_error *err);

/* ---- Requests ----------------------------------------------------------------------------------------------------- */

/* One way to run requests. Released after done and after an error. */
typedef struct yk__coll_algorithm {
    const char *name;
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
    struct yk__msg *msg;              /* over messages: msg.h */
};

/* ---- Communicators ------------------------------------------------------------------------------------------------ */

enum { YK__COMM_WORLD, YK__COMM_MEMBERS, YK__COMM_OTHERS }; /* numbers of communicators; OTHERS: from here on */

typedef struct yk__comm_shm yk__comm_shm; /* shm_comm.h */
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
    yk_dtype wire;
    uint32_t rank, size;
    yk__comm *comm; /* all; the world and the members first */
    uint32_t comms;
    void (*place)(const char **file, int *line);
    uint32_t order, common;
    const char *file; /* whose name file_name is */
    char file_name[sizeof((yk__call *)0)->file];
    const yk__call *waits;        /* the request that is waited for */
    uint32_t passed, passed_peer; /* looks at a rank that was beyond it */
    volatile int cancelled; /* of a job of one rank */
    yk_error why;           /* of a job of one rank that was aborted */

    yk__feed *feed; /* in common memory; NULL: there is none */
    uint32_t read;   /* of an excluded rank: lines of the feed */
    uint32_t unread; /* of who writes: lines since readers were woken */

    struct yk__msg_plane *plane; /* messages: msg.h; NULL: none */
};

/* comm.c */
yk_status yk__comm_make(yk__coll *coll, const bool *member, yk__comm **comm, yk_error *err);
void yk__comm_free(yk__comm *comm);
uint32_t yk__comm_lowest(const yk__comm *comm);
uint32_t yk__coll_excluded(const yk__coll *coll); /* how many ranks are */

/* request.c */
/* Completed: others are told that this rank needs no more of it. */
void yk__request_finish(yk__request *request);

/* reduce.c: over part[0..n), the members' data in the order of rank numbers */
void yk__reduce_small(const yk__coll_desc *desc, const void *const *part, uint32_t n);
/* out[i] = ((a_0[i] + a_1[i]) + a_2[i]) + .. of n numbers from `begin` on; out may be one of them. */
void yk__reduce_slice(const void *const *part, uint32_t parts, uint64_t begin, uint64_t n, float *out, yk__exact *squares);

/* feed.c */
yk_status yk__feed_new(yk__coll *coll, yk_error *err); /* in common memory; msg_feed.c is the same over messages */
/* By the lowest member, of a request that is done: its result, to excluded ranks. No-op on others. */
yk_status yk__feed_put(yk__request *request, yk_error *err);
void yk__feed_wake(yk__coll *coll); /* by the lowest member: excluded ranks are to come */
uint32_t yk__feed_written(const yk__coll *coll);
void yk__feed_resume(yk__coll *coll, uint32_t written); /* on a rank that becomes excluded */
extern const yk__coll_algorithm yk__feed_algorithm; /* of an excluded rank */

/* the algorithms */
extern const yk__coll_algorithm yk__solo_algorithm;
extern const yk__coll_algorithm yk__shm_algorithm;

/* shm_comm.c */
yk_status yk__comm_shm_new(yk__comm *comm, yk_error *err);
void yk__comm_shm_free(yk__comm *comm);
/* The counters of a request's part of the state of a communicator, for a rank that becomes a member. */
typedef struct yk__comm_state {
    uint64_t hash;
    uint64_t chunks;
    uint32_t small, sequence, order, written;
} yk__comm_state;
void yk__comm_shm_save(const yk__comm *comm, yk__comm_state *state);
void yk__comm_shm_load(yk__comm *comm, const yk__comm_state *state);
void yk__comm_shm_finish(yk__comm *comm, uint32_t sequence);

#endif
