/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of core/group share. */
#ifndef YOKE_CORE_GROUP_INNER_H
#define YOKE_CORE_GROUP_INNER_H

#include <yoke/transport.h>

#include "core/group/group.h"

_Static_assert(YK__RANKS == YK_TR_RANKS, "as many ranks as the transport has");

/* Counters of the transport that the operations use. */
enum {
    YK__FLAG_SMALL,     /* small operations of members entered */
    YK__FLAG_BUCKET,   /* gradient buckets written */
    YK__FLAG_SLICES,   /* parameter slices written */
    YK__FLAG_SMALL_ALL, /* small operations of all ranks entered */
    YK__FLAG_FEED      /* lines of the feed that an excluded rank has read */
};

/* Who takes part in an operation, and who learns its result. */
typedef enum yk__scope {
    YK__BY_MEMBERS, /* members; others do not call it */
    YK__FOR_ALL,    /* members; an excluded rank that calls it gets the result */
    YK__BY_ALL      /* all ranks */
} yk__scope;

enum {
    YK__CALL_NONE,
    YK__CALL_BARRIER,
    YK__CALL_GATHER,
    YK__CALL_SUM,
    YK__CALL_BROADCAST,
    YK__CALL_COLUMNS,
    YK__CALL_BUCKET,
    YK__CALL_SLICES,
    YK__CALL_SHARED,
    YK__CALL_MEMBERS
};

/* An operation of one rank: which one, and from where in the user's program. */
typedef struct yk__group_call {
    uint32_t sequence, common; /* operations so far that a member entered; that all ranks' programs reached */
    uint32_t kind, detail;     /* detail: the root, or rows */
    uint64_t bytes;
    int32_t line;
    char file[84];
} yk__group_call;

/* What the others see of it. Odd stamp: it is being written. */
typedef struct yk__rank_info {
    _Alignas(64) uint32_t stamp;
    uint32_t excluded;
    yk__group_call call;
} yk__rank_info;

/* A rank's message of one small operation. */
typedef struct yk__small_message {
    _Alignas(64) yk__group_call call;
    _Alignas(64) uint8_t data[YK__SMALL_BYTES];
} yk__small_message;

/* Of one rank, in shared memory: of members and of all ranks two messages each, used in turn. */
typedef struct yk__group_area {
    yk__rank_info info;
    yk__small_message message[2][2];
} yk__group_area;

typedef struct yk__feed yk__feed;

struct yk__group {
    const yk_transport *table; /* NULL: a group of one */
    yk_tr *tr;
    uint32_t rank, size;
    char *name;             /* of a group of one */
    volatile int cancelled; /* of a group of one */
    yk_error why;           /* of a group of one that was aborted */
    void **block;           /* of a group of one */
    size_t blocks, block_cap;

    bool *member;              /* by rank */
    uint32_t excluded, lowest; /* how many are; the first member */
    yk__group_area *area;      /* [size] */
    uint32_t messages[2];         /* small operations of members, of all */
    uint32_t marked, reduced, slices;

    yk__group_call call; /* the last operation */
    void (*place)(const char **file, int *line);
    const char *file;             /* whose name call.file is */
    uint32_t passed, passed_peer; /* looks at a rank that was beyond it */

    yk__feed *feed;
    uint32_t read;   /* of an excluded rank: lines */
    uint32_t unread; /* of who writes: lines since readers were woken */
};

/* group.c */
yk_status yk__group_wait(yk__group *g, uint32_t peer, uint32_t flag, uint32_t value, const char *what, yk_error *err);
yk_status yk__group_check(yk__group *g, yk_error *err); /* the error of a group of one that was aborted */

/* call.c */
const char *yk__call_name(uint32_t kind);
/* Enters an operation: to be called before anything of it is seen by others. */
void yk__call_begin(yk__group *g, yk__scope scope, uint32_t kind, uint32_t detail, uint64_t bytes);
bool yk__call_same(const yk__group_call *a, const yk__group_call *b);
/* The error of two ranks in unlike operations. */
yk_status yk__call_fail(const yk__group *g, uint32_t peer, const yk__group_call *theirs, yk_error *err);
/* During a wait for that rank: an error when its operation is another than this one's. */
yk_status yk__call_look(yk__group *g, uint32_t peer, yk_error *err);
yk_status yk__call_watch(void *group, uint32_t peer, yk_tr_error *why); /* the same for the transport */

/* collect.c: out[r * bytes ..] of all ranks, as an operation of this kind */
yk_status yk__gather_all(yk__group *g, uint32_t kind, const void *in, uint64_t bytes, void *out, yk_error *err);

/* feed.c: results for excluded ranks */
uint64_t yk__feed_bytes(void);
void yk__feed_wake(yk__group *g); /* by the lowest member: excluded ranks are to come */
/* The result of the operation that was entered last: from the lowest member (no-op on others); to an excluded rank. */
yk_status yk__feed_put(yk__group *g, const void *data, uint64_t bytes, yk_error *err);
yk_status yk__feed_take(yk__group *g, void *data, uint64_t bytes, yk_error *err);
void yk__group_count_members(yk__group *g);

#endif
