/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All exchanges of one rank's engine with other ranks: exchange.c makes every request of core/run on communicators. Pulls of slices, which
 * one rank makes alone, are those of core/coll/pull.h (values/far_slices.h).
 *
 * A rank talks if its job has other ranks and its device does not plan only. A request of a rank that does not talk does nothing. A rank
 * has two blocks for exchanges: its gradients, and the parameters as all members have updated them. Each block is laid out as the trained
 * buckets are, one after the other. Ranks with common memory read each other's gradients, and share one block of parameters, in which each
 * owner writes its slices. Without common memory gradients and parameters travel as messages.
 *
 * core/coll/coll.h says which members and excluded ranks wait for each other. Thread rule: the step thread.
 */
#ifndef YOKE_CORE_RUN_EXCHANGE_H
#define YOKE_CORE_RUN_EXCHANGE_H

#include "core/coll/slices.h"
#include "core/group/group.h"
#include "core/run/run.h"

/* The medium between this rank and the other ranks. */
typedef enum yk__medium {
    YK__NO_MEDIUM, /* the rank does not talk: no other rank, or a device that plans only */
    YK__MEMORY,    /* all ranks have memory in common */
    YK__MESSAGES
} yk__medium;

/* The ranks that a bucket's values and gradients are exchanged with. */
typedef enum yk__talks_to { YK__TO_NOBODY, YK__TO_MEMBERS } yk__talks_to;

/* A bucket's layout: the same on all ranks. */
typedef struct yk__layout {
    yk_dtype dtype;
    uint64_t n;       /* elements, with gaps */
    yk__slices slice; /* the elements that each rank updates; none in a frozen bucket */
    yk__talks_to comm;
} yk__layout;

/* Blocks for exchanges that a way needs. */
typedef enum yk__blocks {
    YK__BLOCKS_UNSAID, /* the rows behind say it */
    YK__BLOCK_GRADS = 1,
    YK__BLOCK_VALUES = 2,
    YK__BLOCKS_BOTH = YK__BLOCK_GRADS | YK__BLOCK_VALUES,
    YK__BLOCKS_NONE = 4
} yk__blocks;

/* The part this rank has in a step; it changes with the roles. */
typedef enum yk__part {
    YK__PART_ALL,      /* the only rank of its job: it updates all parameters */
    YK__PART_LOCAL,    /* LocalSGD: it updates all parameters, its own copy (average.c); all ranks are members */
    YK__PART_EXCLUDED, /* no member */
    YK__PART_SOLE,     /* the only member */
    YK__PART_MEMBER    /* one of several */
} yk__part;

typedef struct yk__exchange {
    yk__group *group;
    yk__coll *coll;
    uint32_t rank, world;
    yk__medium medium;
    yk__medium laid_for; /* the medium that values are laid out for: `medium`, unless this rank's device only plans */
    yk__part part;
    bool drives; /* exchanges that other ranks wait for go on while this rank's host waits for the device */
    bool narrows; /* parameters travel in bf16 */
    bool keeps;   /* the only rank of its job has blocks, too, in memory of its own: the host updates (host_device.h) */
    bool plans_only;
    yk__roles roles; /* a view of the next two arrays */
    bool *member;
    double *owns;
    yk__slices none; /* slices of no elements */
    yk__coll_buffer grad, value; /* blocks of the trained buckets */
    uint32_t blocks;             /* mask of yk__blocks: the blocks that are there, or would be */
    uint64_t shared_bytes;       /* bytes of these and the other blocks in common memory, or of the planned ones */
    yk__request *reduction;      /* the all-reduce on its way */
} yk__exchange;

/* All ranks are members and own even parts. */
yk_status yk__exchange_open(yk__exchange *exchange, yk__group *group, bool plans_only, bool local_sgd, yk_error *err);
void yk__exchange_close(yk__exchange *exchange);
/* This rank updates whole parameters, as a rank of a job of one does. */
static inline bool yk__exchange_updates_all(const yk__exchange *exchange)
{
    return exchange->part <= YK__PART_LOCAL;
}
/* Gradients leave the device for a block, and values come from one: for other ranks, or for the host device of an only rank. */
static inline bool yk__exchange_has_blocks(const yk__exchange *exchange)
{
    return exchange->world > 1 || exchange->keeps;
}
uint32_t yk__exchange_members(const yk__exchange *exchange); /* the number of members */
const char *yk__exchange_name(const yk__exchange *exchange, uint32_t rank);
uint32_t yk__exchange_first_member(const yk__exchange *exchange);
const volatile int *yk__exchange_cancel(const yk__exchange *exchange); /* not 0 once the job is to end; for waits */

/* ---- Blocks ---- */

/* Makes the missing blocks of `blocks`, for so many elements of gradients and of values of layout number `layout`. All ranks call it, with
 * equal numbers. */
yk_status yk__exchange_alloc(yk__exchange *exchange, uint32_t layout, uint64_t grads, uint64_t values, yk__blocks blocks, yk_error *err);
void yk__exchange_release(yk__exchange *exchange);
/* Makes one more block in common memory: `head` bytes with memory, and `bytes` behind them, whose memory ranks take range by range. All
 * ranks call it, with equal numbers. It does nothing on a rank that does not talk. */
yk_status yk__exchange_alloc_sparse(yk__exchange *exchange, const char *what, uint32_t layout, uint64_t head, uint64_t bytes,
                                    yk__coll_buffer *block, yk_error *err);
/* *mem: memory for a range of such a block. On a rank that does not talk the range is only counted, and *mem is NULL. Any rank calls it
 * alone. */
yk_status yk__exchange_fill(yk__exchange *exchange, const yk__coll_buffer *block, uint64_t at, uint64_t bytes, void **mem, yk_error *err);
void yk__exchange_release_sparse(yk__exchange *exchange, yk__coll_buffer *block);
/* Drops the rounding errors of sent gradients, which error feedback would add to the next ones (core/coll/wire.h). Not while a sum is
 * made. */
void yk__exchange_clear_residual(yk__exchange *exchange);
void yk__exchange_scale_residual(yk__exchange *exchange, float factor);
/* Memory for snapshot.h that all ranks have in common; YK_E_UNSUPPORTED if they have none. Collective. */
yk_status yk__exchange_alloc_snapshot(yk__exchange *exchange, uint64_t bytes, yk__coll_buffer *block, yk_error *err);
void yk__exchange_release_snapshot(yk__exchange *exchange, yk__coll_buffer *block);
/* Element `at` of this rank's gradients, or of the parameters, in their block; NULL if there is no such block. */
float *yk__exchange_grads(const yk__exchange *exchange, uint64_t at);
float *yk__exchange_values(const yk__exchange *exchange, uint64_t at);
/* Copies n of the newest values to an excluded rank that shares memory. They belong to one update, though members may begin the next one
 * during the copy. */
yk_status yk__exchange_read(yk__exchange *exchange, uint64_t at, uint64_t n, float *data, yk_error *err);
void yk__exchange_before_meeting(const yk__exchange *exchange, yk_status (*meeting)(void *arg, yk_error *err), void *arg); /* coll.h */
bool yk__exchange_is_read(const yk__exchange *exchange); /* on a member: an excluded rank reads values, or waits until it can */
/* Members announce the begin of their writes to values (before an exchange that precedes the writes) and the end of all members' writes. */
void yk__exchange_updating(yk__exchange *exchange, bool on);

/* ---- By members ---- */

/* The number of buckets that may be on their way at once. */
uint32_t yk__exchange_depth(const yk__exchange *exchange);
/* Sums the bucket, or a piece of one, that begins at element `at` of the block of gradients over the layout's ranks: this rank's slice of
 * it, in place. It adds the slice's squares to *squares, unless squares is NULL. *r: the request to wait for; NULL on a rank that does not
 * talk. *done_ns: after the wait, the time of its end in ns of CLOCK_MONOTONIC. */
yk_status yk__exchange_reduce_scatter(yk__exchange *exchange, uint64_t at, const yk__layout *layout, yk__exact *squares, int64_t *done_ns,
                                      yk__request **r, yk_error *err);
/* Brings every member's slice of the parameters of that bucket: each member has written its own before. */
yk_status yk__exchange_all_gather(yk__exchange *exchange, uint64_t at, const yk__layout *layout, bool narrow, int64_t *done_ns,
                                  yk__request **r, yk_error *err);
/* The same for all buckets at once if ranks have memory in common; does nothing over messages. */
yk_status yk__exchange_all_written(yk__exchange *exchange, yk_error *err);
yk_status yk__exchange_wait(yk__request **r, yk_error *err); /* sets *r to NULL; does nothing if *r is NULL */
void yk__exchange_drop(yk__request **r);                     /* the same for a job that failed, before its blocks go */
/* Reduces a vector over the members in two calls: begin reads it, end writes the result over it. op: YK_REDUCE_*. No other exchange may
 * happen between the calls. *waited: end adds the seconds that it waited. */
yk_status yk__exchange_all_reduce_begin(yk__exchange *exchange, float *v, uint64_t n, uint32_t op, yk_error *err);
yk_status yk__exchange_all_reduce_end(yk__exchange *exchange, float *v, uint64_t n, uint32_t op, double *waited, yk_error *err);

/* The sum of both calls at once. */
yk_status yk__exchange_sum_vector(yk__exchange *exchange, float *v, uint64_t n, yk_error *err);

/* ---- For all: members take part, excluded ranks get the results ---- */

yk_status yk__exchange_sum(yk__exchange *exchange, double *v, uint32_t n, yk_error *err);
/* The least of the members' numbers. */
yk_status yk__exchange_least(yk__exchange *exchange, uint32_t *v, yk_error *err);

/* ---- By all ranks ---- */

/* The largest of all ranks' numbers, for each of the n. */
yk_status yk__exchange_largest(yk__exchange *exchange, uint32_t n, uint32_t *v, yk_error *err);
/* *alike: all ranks give the same number. It works on devices that plan only, too. */
yk_status yk__exchange_alike(yk__exchange *exchange, uint32_t number, bool *alike, yk_error *err);
/* *rank: the first rank whose number differs from rank 0's; YK_NONE if all numbers are equal. */
yk_status yk__exchange_compare(yk__exchange *exchange, uint64_t number, uint32_t *rank, yk_error *err);
yk_status yk__exchange_broadcast(yk__exchange *exchange, uint32_t root, void *data, uint64_t bytes, yk_error *err);
/* Fetches elements [at, at + n), each from the owner of its slice. */
yk_status yk__exchange_spread(yk__exchange *exchange, const yk__slices *s, uint64_t at, uint64_t n, float *data, yk_error *err);
/* Moves elements of `all` from old owners to new ones, apart from elements whose owner stays. */
yk_status yk__exchange_move(yk__exchange *exchange, const yk__slices *was, const yk__slices *now, float *all, yk_error *err);
bool yk__exchange_excludes(const yk__exchange *exchange); /* some rank is excluded */
yk_status yk__exchange_barrier(yk__exchange *exchange, yk_error *err);
yk_status yk__exchange_set_members(yk__exchange *exchange, const bool *member, yk_error *err);
/* Sets the roles' members from here on, and this rank's part with them. */
void yk__exchange_note_members(yk__exchange *exchange, const bool *member);

#endif
