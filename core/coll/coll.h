/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives: what ranks compute together. A communicator is a list of ranks; a collective on it is begun as a request on a
 * described buffer, and waited for.
 *
 * Order. All members of a communicator begin the same requests in the same order. Several may be under way at once. Every request
 * carries its communicator, generation and sequence number, kind, dtype, operation and count, and the place of the call in the
 * user's program; where two ranks differ, both end with YK_E_INTERNAL, which names both ranks, both requests and both places.
 *
 * Sums are taken in the order of rank numbers, so a result depends neither on timing nor on the algorithm: ranks of one host
 * compute in shared memory (shm_*.c), others over the messages of a transport (msg_*.c), and get the same bits. A job may ask for
 * what gives that up for fewer bytes between hosts: sums of each host first, and numbers of 16 bits on the way (yk__coll_config). All
 * ranks still have the same bits, and every run with the same ranks on the same hosts gives them again.
 *
 * Members and excluded ranks. There are two communicators from the start: the world, and the members, who are all ranks at first
 * and are changed by yk__comm_set_members. A rank that is not in the members is excluded: no member waits for it, and what members
 * do costs it nothing. A request of the members with `feeds` set is made by excluded ranks too; they take no part and get the
 * result from the feed (at most some 0.5 s late).
 *
 * Every wait ends with YK_E_CANCELLED or YK_E_DEVICE_LOST and the name of the rank at fault within two seconds of a death.
 * Ranks are named by their number in the job everywhere.
 * Thread rule: one thread per job (the step thread). A progress thread of its own (yk__coll_config) drives requests over messages.
 */
#ifndef YOKE_CORE_COLL_COLL_H
#define YOKE_CORE_COLL_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <yoke/dtype.h>
#include <yoke/transport.h>

#include "core/base/error.h"
#include "core/base/exact.h"
#include "core/coll/slices.h"
#include "core/control/control.h"

typedef struct yk__coll yk__coll;       /* all communicators of this rank */
typedef struct yk__comm yk__comm;       /* one of them; lives as long as its yk__coll */
typedef struct yk__request yk__request; /* a collective under way */

typedef struct yk__coll_config {
    yk__control *control;          /* NULL: a job of one rank */
    const yk_transport *transport; /* between ranks without common memory; NULL: there is none */
    bool messages_only;            /* not even ranks of one host compute in shared memory */
    bool by_host;                  /* reduce-scatter: each host's sum first, then those in the order of the hosts' lowest ranks */
    bool bf16_wire;                /* reduce-scatter: what goes to another host is rounded to bf16; the same on all ranks, both */
    bool progress;                 /* a thread drives requests over messages while the step thread computes */
    void (*place)(const char **file, int *line); /* where in the user's program a request is begun; NULL: not known */
} yk__coll_config;

/* By all ranks of the job. */
yk_status yk__coll_new(const yk__coll_config *config, yk__coll **coll, yk_error *err);
/* What is under way is given up. The control plane stays. */
void yk__coll_free(yk__coll *coll);
void yk__coll_place(yk__coll *coll, void (*place)(const char **file, int *line)); /* file: NULL or a string that stays */
/* Ends the job for all ranks with this error; every wait returns it. */
void yk__coll_abort(yk__coll *coll, const yk_error *why);
/* Non-zero once the job is to end. Another process or thread writes it: read it by __atomic_load_n(p, __ATOMIC_ACQUIRE). */
const volatile int *yk__coll_cancelled(const yk__coll *coll);

/* ---- Communicators ----------------------------------------------------------------------------------------------- */

yk__comm *yk__coll_world(yk__coll *coll);
yk__comm *yk__coll_members(yk__coll *coll);
/* One more, of the ranks r with member[r]. By all ranks of the job, in equal order, with equal members. */
yk_status yk__comm_new(yk__coll *coll, const bool *member, yk__comm **comm, yk_error *err);
/* Other members from here on: the generation grows by one. By all ranks of the job, with no request under way on it; some rank
 * stays. A failure leaves it as it was. */
yk_status yk__comm_set_members(yk__comm *comm, const bool *member, yk_error *err);
uint32_t yk__comm_size(const yk__comm *comm); /* members */
uint32_t yk__comm_generation(const yk__comm *comm);
bool yk__comm_has(const yk__comm *comm, uint32_t rank);

/* ---- Buffers ----------------------------------------------------------------------------------------------------- */

typedef enum yk__coll_mode {
    YK__COLL_PRIVATE, /* a block per rank */
    YK__COLL_COMMON   /* one block for all ranks, where all have memory in common; else a copy per rank */
} yk__coll_mode;

/* Registered memory. Page aligned, zero at first. */
typedef struct yk__coll_buffer {
    void *mem;        /* this rank's block */
    void *base;       /* the first block of those that this rank sees; NULL: it sees none but its own */
    const uint32_t *local; /* [world]: the place of each rank's block there, UINT32_MAX: none; NULL: the rank's number */
    uint64_t stride;  /* bytes from one rank's block to the next; 0: all have one */
    uint64_t bytes;   /* of a block */
    void *registered; /* yk_tr_mem of it; NULL: none */
} yk__coll_buffer;

/* By all ranks of the job, in equal order, with equal bytes. what: for errors. */
yk_status yk__coll_alloc(yk__coll *coll, const char *what, uint64_t bytes, yk__coll_mode mode, yk__coll_buffer *buffer,
                         yk_error *err);
/* By all ranks in equal order beside what they make; others may go on to use theirs. */
void yk__coll_release(yk__coll *coll, yk__coll_buffer *buffer);
/* All ranks have memory in common, so that each sees others' blocks. */
bool yk__coll_shares(const yk__coll *coll);
/* That rank's block, in memory that it shares with this rank; NULL over a wire. */
void *yk__coll_peer_view(const yk__coll_buffer *buffer, uint32_t rank);
uint64_t yk__coll_sent(yk__coll *coll); /* bytes of requests so far, from this rank to other hosts */

/* ---- Requests ---------------------------------------------------------------------------------------------------- */

typedef enum yk__coll_kind {
    YK__COLL_NONE,
    YK__COLL_BARRIER,
    YK__COLL_BROADCAST,      /* out[0..count) of the root goes to all */
    YK__COLL_ALL_GATHER,     /* out[r * count ..] = rank r's in[0..count); zeros for ranks that are not in the communicator. Small */
    YK__COLL_ALL_REDUCE,     /* rows * count numbers of f32 or f64 at out, row by row `pitch` apart, become the sum, .. Small */
    YK__COLL_REDUCE_SCATTER, /* out = the sum of this rank's slice (parts) of all members' buffer[offset .. + count), f32 */
    YK__COLL_ALL_GATHERV,    /* each member has written its slice of buffer[offset .. + count); then all slices are there */
    YK__COLL_ALLOC,          /* by yk__coll_alloc and the like: no requests */
    YK__COLL_MEMBERS
} yk__coll_kind;

typedef enum yk__coll_op {
    YK__COLL_SUM,
    YK__COLL_MAX, /* a NaN of any rank stays one, as in a maximum over the rows of one */
    /* Three rows of f32: each column is the moments of a part of some numbers, mean, sum((x - mean)^2) and count, and becomes those
     * of all of them (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
     * 1979); parts without numbers are no parts. */
    YK__COLL_MOMENTS
} yk__coll_op;

#define YK__COLL_SMALL 65536u /* bytes of one rank's part of a small collective */
#define YK__COLL_REQUESTS 16u /* under way at once on a communicator */

typedef struct yk__coll_desc {
    yk__coll_kind kind;
    yk_dtype dtype; /* YK_U8 for bytes */
    yk__coll_op op;
    bool feeds;    /* excluded ranks make the same call and get the result. All-gather and all-reduce, at most 256 KiB */
    uint32_t root; /* of a broadcast */
    const void *in;
    void *out;
    uint64_t count;
    uint32_t rows;  /* of an all-reduce; 0: one */
    uint64_t pitch; /* elements from row to row */
    const yk__coll_buffer *buffer; /* of reduce-scatter and all-gatherv */
    uint64_t offset;               /* elements */
    const yk__slices *parts;       /* of `count` elements */
    yk__exact *squares; /* of reduce-scatter: the squares of what was written to out are added to it; NULL: they are not */
    int64_t *done_ns;   /* when it was done, in ns of CLOCK_MONOTONIC; NULL: nobody asks */
    const char *file;   /* of the call; NULL: as yk__coll_config.place says */
    int line;
} yk__coll_desc;

/* The data belongs to the request until it is done; but what an all-reduce or all-gather takes in it has read when begin returns.
 * A member's block of a reduce-scatter's or all-gatherv's buffer may be written again, by requests too, when a later request that all
 * began after waiting for this one is done. */
yk_status yk__coll_begin(yk__comm *comm, const yk__coll_desc *desc, yk__request **request, yk_error *err);
/* Whether it is done, without waiting; then, and after an error, it is released. */
yk_status yk__coll_test(yk__request *request, bool *done, yk_error *err);
/* Returns when it is done, and releases it, after an error too. */
yk_status yk__coll_wait(yk__request *request, yk_error *err);
/* Gives it up and releases it: its data is the caller's again. The others' request may never end, so the communicator takes no more
 * requests until its members are set anew. */
void yk__coll_cancel(yk__request *request);
/* Begin and wait. */
yk_status yk__coll_run(yk__comm *comm, const yk__coll_desc *desc, yk_error *err);

/* ---- Parameters that an excluded rank reads while members go on --------------------------------------------------- */

/* Members tell when they begin to write slices (each before an exchange that precedes it) and when all have; an excluded rank
 * that reads them meanwhile does so between begin and end, and again until end says that nothing was written. In common memory
 * alone. */
void yk__coll_updating(yk__coll *coll, bool on);
uint32_t yk__coll_read_begin(const yk__coll *coll);
bool yk__coll_read_end(yk__coll *coll, uint32_t begun);

#endif
