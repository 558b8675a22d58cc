/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients in slices (--shard gradients): a rank holds sums of the window's gradients for its own slices alone. Each micro batch sums its
 * buckets over the members in backward, piece by piece: the gradients of a piece come from the device to a part of the block for exchanges,
 * a reduce-scatter makes this rank's slice of it, and the slice is added to the sums. Three parts take turns, so that one piece leaves the
 * device, one is on its way, and one is added, at a time.
 *
 * A member posts a piece when it has added the piece before the last one. So a part is written again only when all members have read it:
 * this rank has added the next piece by then, which every member posted after it had added the first.
 * The step thread.
 */
#ifndef YOKE_CORE_RUN_VALUES_SLICE_SUMS_H
#define YOKE_CORE_RUN_VALUES_SLICE_SUMS_H

#include "core/run/exchange.h"
#include "core/run/queue.h"

#define YK__SUM_PARTS 3u

struct yk__params;
struct yk__bucket;

/* A piece of a bucket that is summed at once: elements [from, from + layout.n). */
typedef struct yk__piece {
    uint64_t from;
    yk__layout layout;
} yk__piece;

/* A piece on its way. */
typedef struct yk__sum_part {
    struct yk__bucket *bucket; /* NULL: none */
    const yk__piece *piece;
    const bool *written;       /* by parameter: the device wrote its gradient; NULL: it wrote none */
    uint64_t point;            /* queue point that completes its way from the device, and the update before */
    bool posted;
    yk__request *request;
    int64_t begun_ns, done_ns;
} yk__sum_part;

typedef struct yk__sums_state {
    uint64_t elements;                 /* of a part of the block */
    uint64_t count;                    /* pieces since roles changed: the same on all members, as it chooses the part of the block */
    bool adds;                         /* the window has sums: a piece is added, else written */
    yk__sum_part part[YK__SUM_PARTS];
} yk__sums_state;

/* Makes a bucket's pieces and memory for this rank's slice of its sums, with zeros. */
yk_status yk__sums_make(struct yk__params *p, struct yk__bucket *b, yk_error *err);
void yk__sums_drop(struct yk__bucket *b);
uint64_t yk__sums_bytes(const struct yk__params *p); /* of this rank's slices, on its device; 0 if gradients lie whole */
/* Begins to sum a bucket of this run. lane: the device's buffer with its gradients; NULL if it has none. written: by parameter; it stays
 * until yk__sums_wait. */
yk_status yk__sums_start(struct yk__params *p, struct yk__bucket *b, yk_buffer *lane, const bool *written, yk_error *err);
/* Ends the sums of a bucket, and of the buckets before it. */
yk_status yk__sums_wait(struct yk__params *p, const struct yk__bucket *b, yk_error *err);
/* Begins the count anew. All ranks call it when roles may change, behind a meeting, with no sum under way: an excluded rank has counted no
 * pieces. */
void yk__sums_restart(struct yk__params *p);
/* Before the layout goes, after a failure too: ends the requests under way. */
void yk__sums_cancel(struct yk__params *p);
/* Takes part in the sums of all buckets with zeros: this rank has no rows. */
yk_status yk__sums_nothing(struct yk__params *p, yk_error *err);
/* The end of a window: brings the sums to the devices that update, and adds their squares to p->squares. */
yk_status yk__sums_finish(struct yk__params *p, yk_error *err);
yk_status yk__sums_to_devices(struct yk__params *p, yk_error *err); /* the first half alone */

#endif
