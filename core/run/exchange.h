/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that one rank's engine says to others: all requests of core/run on communicators are made in exchange.c.
 *
 * A rank talks where there are others and its device does not plan only; a request of one that does not talk does nothing. It has two
 * blocks for exchanges, laid out as the trained buckets are, one after the other: its gradients, and the parameters as all members
 * have updated them. Where ranks have memory in common they read each other's gradients, and the parameters are one
 * block for all, which each slice's owner writes. Where they have not, both travel as messages.
 *
 * Who waits for whom (members, excluded ranks) is told in core/coll/coll.h. Thread rule: the step thread.
 */
#ifndef YOKE_CORE_RUN_EXCHANGE_H
#define YOKE_CORE_RUN_EXCHANGE_H

#include "core/group/group.h"
#include "core/run/run.h"
#include "core/run/values/home.h"

/* The medium between this rank and the others. */
typedef enum yk__medium {
    YK__NO_MEDIUM, /* no other rank, or a device that plans only: the rank does not talk */
    YK__MEMORY,    /* all ranks have memory in common */
    YK__MESSAGES
} yk__medium;

/* Whom a bucket's values and gradients are exchanged with. */
typedef enum yk__talks_to { YK__TO_NOBODY, YK__TO_MEMBERS } yk__talks_to;

/* How a bucket lies: the same on all ranks. */
typedef struct yk__layout {
    yk_dtype dtype;
    uint64_t n;       /* elements, with gaps */
    yk__slices slice; /* which rank updates which of them; none in a frozen bucket */
    yk__talks_to comm;
} yk__layout;

/* Blocks for exchanges that a way needs. */
typedef enum yk__blocks {
    YK__BLOCKS_UNSAID, /* what the rows behind need */
    YK__BLOCK_GRADS = 1,
    YK__BLOCK_VALUES = 2,
    YK__BLOCKS_BOTH = YK__BLOCK_GRADS | YK__BLOCK_VALUES,
    YK__BLOCKS_NONE = 4
} yk__blocks;

/* The part this rank has in a step; it changes with the roles. */
typedef enum yk__part {
    YK__PART_ALL,      /* the only rank of its job: it updates all parameters */
    YK__PART_LOCAL,    /* LocalSGD: it updates all parameters, its own copy (average.h); all ranks are members */
    YK__PART_EXCLUDED, /* no member */
    YK__PART_SOLE,     /* the only member */
    YK__PART_MEMBER    /* one of several */
} yk__part;

typedef struct yk__exchange {
    yk__group *group;
    yk__coll *coll;
    uint32_t rank, world;
    bool shares; /* there are other ranks, and all have memory in common, whether this rank's device computes or only plans */
    yk__medium medium;
    yk__part part;
    bool drives; /* what others need of this rank goes on while its host waits for the device */
    bool narrows; /* parameters travel in bf16 */
    yk__roles roles;
    yk__slices none; /* of no elements */
    yk__coll_buffer grad, value; /* of the trained buckets */
    uint32_t blocks;             /* of yk__blocks: those that are there, or would be */
    uint64_t shared_bytes;       /* of these and of the other blocks in common memory, or what they would have */
    yk__request *reduction;      /* the all-reduce on its way */
} yk__exchange;

/* All ranks are members and own even parts. */
yk_status yk__exchange_open(yk__exchange *exchange, yk__group *group, bool plans_only, bool local_sgd, yk_error *err);
void yk__exchange_close(yk__exchange *exchange);
/* This rank updates whole parameters, as one that is alone does. */
static inline bool yk__exchange_updates_all(const yk__exchange *exchange)
{
    return exchange->part <= YK__PART_LOCAL;
}
uint32_t yk__exchange_members(const yk__exchange *exchange); /* how many */
const char *yk__exchange_name(const yk__exchange *exchange, uint32_t rank);
uint32_t yk__exchange_first_member(const yk__exchange *exchange);
const volatile int *yk__exchange_cancel(const yk__exchange *exchange); /* not 0 once the job is to end; for waits */

/* ---- Blocks ---- */

/* For n elements of the layout of this number, those blocks that are not there; by all ranks, with equal blocks. */
yk_status yk__exchange_alloc(yk__exchange *exchange, uint32_t layout, uint64_t n, yk__blocks blocks, yk_error *err);
void yk__exchange_release(yk__exchange *exchange);
/* One more in common memory, of `head` bytes, which are there, and so many behind, whose memory ranks take range by range; by all ranks
 * with equal numbers. Nothing where this rank does not talk. */
yk_status yk__exchange_alloc_sparse(yk__exchange *exchange, const char *what, uint32_t layout, uint64_t head, uint64_t bytes,
                                    yk__coll_buffer *block, yk_error *err);
/* A range of it, *mem; counted, and NULL, where this rank does not talk. By any rank alone. */
yk_status yk__exchange_fill(yk__exchange *exchange, const yk__coll_buffer *block, uint64_t at, uint64_t bytes, void **mem, yk_error *err);
void yk__exchange_release_sparse(yk__exchange *exchange, yk__coll_buffer *block);
/* What rounding took from gradients that travelled, and is to go with the next, is lost (core/coll/wire.h). Not while a sum is made. */
void yk__exchange_clear_residual(yk__exchange *exchange);
void yk__exchange_scale_residual(yk__exchange *exchange, float factor);
/* Memory for snapshot.h, which all ranks have in common; YK_E_UNSUPPORTED where they have none. Collective. */
yk_status yk__exchange_alloc_snapshot(yk__exchange *exchange, uint64_t bytes, yk__coll_buffer *block, yk_error *err);
void yk__exchange_release_snapshot(yk__exchange *exchange, yk__coll_buffer *block);
/* Element `at` of this rank's gradients, of the parameters; NULL where there are none. */
float *yk__exchange_grads(const yk__exchange *exchange, uint64_t at);
float *yk__exchange_values(const yk__exchange *exchange, uint64_t at);
/* On an excluded rank that shares memory: n of the newest values, of one update, though members may go on to the next while they are
 * copied. */
yk_status yk__exchange_read(yk__exchange *exchange, uint64_t at, uint64_t n, float *data, yk_error *err);
void yk__exchange_before_meeting(const yk__exchange *exchange, yk_status (*meeting)(void *arg, yk_error *err), void *arg); /* coll.h */
bool yk__exchange_is_read(const yk__exchange *exchange); /* on a member: an excluded rank does, or waits until it can */
/* Members say when they begin to write values (before an exchange that precedes it) and when all have. */
void yk__exchange_updating(yk__exchange *exchange, bool on);

/* ---- By members ---- */

/* How many buckets may be on their way at once. */
uint32_t yk__exchange_depth(const yk__exchange *exchange);
/* The sum over the layout's ranks of the bucket that begins at element `at`, this rank's slice of it, in place; its squares are added.
 * *r: to be waited for; NULL where the rank does not talk. *done_ns: then, when it was done, in ns of CLOCK_MONOTONIC. */
yk_status yk__exchange_reduce_scatter(yk__exchange *exchange, uint64_t at, const yk__layout *layout, yk__exact *squares, int64_t *done_ns,
                                      yk__request **r, yk_error *err);
/* Every member has written its slice of the parameters of that bucket: they are all there. */
yk_status yk__exchange_all_gather(yk__exchange *exchange, uint64_t at, const yk__layout *layout, bool narrow, int64_t *done_ns,
                                  yk__request **r, yk_error *err);
/* The same of all buckets at once, where ranks have memory in common; over messages nothing. */
yk_status yk__exchange_all_written(yk__exchange *exchange, yk_error *err);
yk_status yk__exchange_wait(yk__request **r, yk_error *err); /* sets it to NULL; NULL: nothing */
void yk__exchange_drop(yk__request **r);                     /* of a job that failed, before its blocks go; the same */
/* A vector over the members, in two parts: begin takes it along, end writes the result over it. op: YK_REDUCE_*. Between them
 * nothing else is exchanged. *waited: seconds are added that end waited. */
yk_status yk__exchange_all_reduce_begin(yk__exchange *exchange, float *v, uint64_t n, uint32_t op, yk_error *err);
yk_status yk__exchange_all_reduce_end(yk__exchange *exchange, float *v, uint64_t n, uint32_t op, double *waited, yk_error *err);

/* ---- For all: members take part, excluded ranks get the results ---- */

yk_status yk__exchange_sum(yk__exchange *exchange, double *v, uint32_t n, yk_error *err);
/* Least of the members' numbers. */
yk_status yk__exchange_least(yk__exchange *exchange, uint32_t *v, yk_error *err);

/* ---- By all ranks ---- */

/* The largest of their numbers, each of n of them. */
yk_status yk__exchange_largest(yk__exchange *exchange, uint32_t n, uint32_t *v, yk_error *err);
/* All ranks give the same number; on devices that plan only, too. */
yk_status yk__exchange_alike(yk__exchange *exchange, uint32_t number, bool *alike, yk_error *err);
/* *rank: the first whose number is another than rank 0's; YK_NONE: all have the same. */
yk_status yk__exchange_compare(yk__exchange *exchange, uint64_t number, uint32_t *rank, yk_error *err);
yk_status yk__exchange_broadcast(yk__exchange *exchange, uint32_t root, void *data, uint64_t bytes, yk_error *err);
/* Elements [at, at + n), each from the owner of its slice. */
yk_status yk__exchange_spread(yk__exchange *exchange, const yk__slices *s, uint64_t at, uint64_t n, float *data, yk_error *err);
/* `all`: what of the old slices is not in its owner's new one, from the old owners. */
yk_status yk__exchange_move(yk__exchange *exchange, const yk__slices *was, const yk__slices *now, float *all, yk_error *err);
bool yk__exchange_excludes(const yk__exchange *exchange); /* some rank is excluded */
yk_status yk__exchange_barrier(yk__exchange *exchange, yk_error *err);
yk_status yk__exchange_set_members(yk__exchange *exchange, const bool *member, yk_error *err);
/* The roles have these members from here on, and this rank's part follows. */
void yk__exchange_note_members(yk__exchange *exchange, const bool *member);

#endif
