/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prefetching: a thread fills the next batches of an epoch into a ring of host buffers while the step runs. The caller itself fills batches
 * that take only microseconds, on demand.
 *
 * Batch b of an epoch is places [b * global_batch, ...) of the epoch's order (core/data/order.h, or 0..n-1). If rows differ in width, a
 * shuffled batch is arranged so that each rank gets short and long ones (yk__order_even_out). With by_length the order's rows are sorted by
 * width in groups of 50 batches, the widest first, so that a batch has little padding. Every rank computes the same global batch, its width
 * included, and fills only its part, as given by `share`. The functions open, rewind and flush call share on the caller's thread, and its
 * result holds for all later batches. So the ranks agree as long as they call these after the same batch. When the shares change, every
 * rank calls yk__loader_flush.
 *
 * The ring's batches take `max_bytes` at most, at any depth: as many as fit are made ahead, but always one beside the caller's.
 *
 * Thread rule: one thread calls these functions; the data set must outlive the loader.
 */
#ifndef YOKE_CORE_DATA_LOADER_H
#define YOKE_CORE_DATA_LOADER_H

#include "core/data/dataset.h"

typedef struct yk__loader yk__loader;

/* This rank's part [*first, *first + *count) of a global batch of n rows; count may be 0. */
typedef void (*yk__loader_share)(void *user, int64_t n, int64_t *first, int64_t *count);

typedef struct yk__loader_options {
    int64_t global_batch; /* rows over all ranks, at least 1 */
    uint64_t seed, epoch;
    int64_t start; /* first batch of the epoch */
    bool shuffle, drop_last;
    bool fill_last;         /* without drop_last: the last batch is filled up from the order's beginning (yk__shard) */
    bool by_length; /* with shuffle: batches of rows of like width */
    int depth;              /* buffers; 0 for 4 */
    size_t max_bytes;       /* bytes of all batches; 0 for 256 MiB */
    yk__loader_share share; /* NULL for all rows */
    void *user;
} yk__loader_options;

typedef struct yk__loader_batch {
    uint64_t epoch;
    int64_t index;           /* the batch's number in its epoch */
    int64_t global_rows;     /* rows of the whole batch */
    int64_t unique_rows;     /* its first rows, without those that only fill it up */
    int64_t first, rows;     /* this rank's part */
    int64_t width;           /* width of the whole batch */
    const int64_t *row;      /* row numbers of the whole batch: global_rows entries */
    void *field[YK__FIELDS]; /* this rank's rows, as yk__dataset_fields; 64-byte aligned */
    bool last;               /* last of the epoch */
} yk__loader_batch;

yk_status yk__loader_open(const yk__dataset *set, const yk__loader_options *options, yk__loader **out, yk_error *err);
void yk__loader_close(yk__loader *loader); /* takes NULL; stops the thread */

size_t yk__loader_bytes(yk__loader *loader);          /* bytes that its batches take now */
int64_t yk__loader_batches(const yk__loader *loader); /* batches of an epoch */

/* The next batch, valid until the next call of any function here; NULL at the end of the epoch. */
yk_status yk__loader_next(yk__loader *loader, const yk__loader_batch **out, yk_error *err);
/* Continues at this place. */
yk_status yk__loader_rewind(yk__loader *loader, uint64_t epoch, int64_t batch, yk_error *err);
/* Fills the batches after the one handed out last again, with the current shares. */
yk_status yk__loader_flush(yk__loader *loader, yk_error *err);

#endif
