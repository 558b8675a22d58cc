/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rows of an epoch's order go to which rank: Accelerate's laws, as one. The order is cut into rounds of `global_batch` rows; in
 * each round every rank takes a run of neighbours, rank by rank. So what the ranks have, put together in their order, round by round, is
 * the order itself, and behind its end what fills up the last round: the order from its beginning, again and again.
 *
 * Places count rows of the order; `origin` is the one an epoch begins at, 0 but after a resume. Batches of any size (a sampler
 * without a batch size) follow the same law with batches as the rows. Pure, thread-safe, O(1) a row.
 */
#ifndef YOKE_CORE_DATA_SHARD_H
#define YOKE_CORE_DATA_SHARD_H

#include <stdbool.h>
#include <stdint.h>

/* The last round, where rows do not fill it. */
typedef enum yk__shard_tail {
    YK__TAIL_DROP,  /* there is none */
    YK__TAIL_SHORT, /* each rank has what there is of its part, from some rank on nothing (even_batches=False) */
    YK__TAIL_FILL,  /* filled up from the order's beginning (even_batches=True) */
    YK__TAIL_SPREAD /* filled up to a multiple of the ranks and shared out evenly (dispatch_batches) */
} yk__shard_tail;

typedef struct yk__shard {
    int64_t rows;         /* of the epoch's order */
    int64_t global_batch; /* rows of a round, 1 or more */
    int64_t origin;       /* 0..rows */
    uint32_t ranks;
    yk__shard_tail tail;
} yk__shard;

typedef struct yk__shard_round {
    int64_t place;  /* of its first row */
    int64_t rows;   /* of all ranks, repeated ones too */
    int64_t unique; /* those of them that were not there before: the first ones */
    bool full;
} yk__shard_round;

int64_t yk__shard_rounds(const yk__shard *s);
/* Round i; rows 0: there is none. */
yk__shard_round yk__shard_at(const yk__shard *s, int64_t i);
/* What the rank has of it, where a full round gives it rows *first to *first + *count - 1; both become those of this round. */
void yk__shard_part(const yk__shard *s, const yk__shard_round *round, uint32_t rank, int64_t *first, int64_t *count);
/* even_batches=True: one process takes what there is. */
yk__shard_tail yk__shard_even(uint32_t ranks);
/* The number in the order of what stands at a place, behind the end too. */
int64_t yk__shard_row(const yk__shard *s, int64_t place);
/* Part r of n items in `parts` equal runs; the first n % parts have one more. */
void yk__shard_split(int64_t n, uint32_t parts, uint32_t r, int64_t *first, int64_t *count);

#endif
