/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of an epoch's order for each rank: Accelerate's laws, as one. The order is cut into rounds of `global_batch` rows; in each round
 * every rank takes a run of neighbours, rank by rank. So the ranks' rows, joined in rank order, round by round, are the order itself.
 * Behind its end, the order from its beginning, again and again, fills up the last round.
 *
 * Places count rows of the order; `origin` is the place that begins an epoch, 0 but after a resume. Batches of any size (a sampler without
 * a batch size) follow the same law with batches as the rows. Pure, thread-safe, O(1) a row.
 */
#ifndef YOKE_CORE_DATA_SHARD_H
#define YOKE_CORE_DATA_SHARD_H

#include <stdbool.h>
#include <stdint.h>

/* The last round, if rows do not fill it. */
typedef enum yk__shard_tail {
    YK__TAIL_DROP,  /* dropped */
    YK__TAIL_SHORT, /* each rank has the existing rows of its part, from some rank on nothing (even_batches=False) */
    YK__TAIL_FILL,  /* filled up from the order's beginning (even_batches=True) */
    YK__TAIL_SPREAD /* filled up to a multiple of the ranks and shared out evenly (dispatch_batches) */
} yk__shard_tail;

typedef struct yk__shard {
    int64_t rows;         /* rows of the epoch's order */
    int64_t global_batch; /* rows of a round, 1 or more */
    int64_t origin;       /* 0..rows */
    uint32_t ranks;
    yk__shard_tail tail;
} yk__shard;

typedef struct yk__shard_round {
    int64_t place;  /* place of its first row */
    int64_t rows;   /* rows of all ranks, repeated ones too */
    int64_t unique; /* its first rows, without repeated ones */
    bool full;
} yk__shard_round;

int64_t yk__shard_rounds(const yk__shard *s);
/* Round i; rows 0 if there is no such round. */
yk__shard_round yk__shard_at(const yk__shard *s, int64_t i);
/* The rank's part of a round. On entry rows *first to *first + *count - 1 are its part of a full round; on return they are its part of
 * this one. */
void yk__shard_part(const yk__shard *s, const yk__shard_round *round, uint32_t rank, int64_t *first, int64_t *count);
/* even_batches=True: one process takes the existing rows. */
yk__shard_tail yk__shard_even(uint32_t ranks);
/* The row number, within the order, at a place; valid behind the end too. */
int64_t yk__shard_row(const yk__shard *s, int64_t place);
/* Part r of n items in `parts` equal runs; the first n % parts have one more. */
void yk__shard_split(int64_t n, uint32_t parts, uint32_t r, int64_t *first, int64_t *count);

#endif
