/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A home: the memory of a bucket's values for this rank's device. The rows of the table stand in home.c; a bucket lives in the first home
 * that fits and can be made (docs/decisions/0070). Only yk__params_bind knows the buffer, so a new home is a new row. The step thread.
 */
#ifndef YOKE_CORE_RUN_VALUES_HOME_H
#define YOKE_CORE_RUN_VALUES_HOME_H

#include "core/coll/slices.h"
#include "core/run/queue.h"

struct yk__params;
struct yk__bucket;

/* No row has the kind FILE yet. */
typedef enum yk__home_kind {
    YK__HOME_DEVICE, /* whole, in a buffer of the rank's device */
    YK__HOME_HOST,   /* once for all ranks of the host, in memory that they have in common */
    YK__HOME_BLOCK,  /* none on the device: the host's block has the values, and the host updates there; a frozen bucket has memory
                        of its own on the host */
    YK__HOME_SLICE,  /* this rank's slice alone, on its device */
    YK__HOME_MEMORY, /* whole, in host memory of the rank's own */
    YK__HOME_FILE    /* whole, in a file */
} yk__home_kind;

#define YK__RANGE_ALL ((yk__range){0, UINT64_MAX}) /* for bind only, not for copies */

typedef struct yk__home {
    yk__home_kind kind;
    const char *name;
    bool in_block; /* values lie in the block for exchanges: an update leaves them there, and no fetch follows */
    bool pulled;   /* programs pull the bucket to a lane (core/plan/pulls.c) */
    bool (*fits)(const struct yk__params *p, const struct yk__bucket *b);
    /* Makes b->values, with undefined contents, or those of the block. False without an error if this home cannot be made here. NULL, as
     * drop and bind may be: the device has no values. */
    bool (*make)(struct yk__params *p, struct yk__bucket *b, yk_error *err);
    void (*drop)(struct yk__params *p, struct yk__bucket *b);
    /* point: of the queue; commands submitted behind it use the values. */
    yk__bound (*bind)(const struct yk__bucket *b, yk__range range, uint64_t point);
} yk__home;

/* Chooses the first row that fits and can be made. */
yk_status yk__home_choose(struct yk__params *p, struct yk__bucket *b, yk_error *err);
/* The first row that fits, which is the bucket's home if it can be made. */
const yk__home *yk__home_expect(const struct yk__params *p, const struct yk__bucket *b);
void yk__home_leave(struct yk__params *p, struct yk__bucket *b);
uint64_t yk__home_frozen_bytes(const struct yk__params *p); /* of frozen buckets on the host, beside a device with memory of its own */

/* ---- Columns of several rows ---- */

/* drop: for a buffer over memory that is not its own. */
void yk__home_unwrap(struct yk__params *p, struct yk__bucket *b);
/* bind: b->values holds the whole bucket. */
yk__bound yk__home_bind_whole(const struct yk__bucket *b, yk__range range, uint64_t point);

#endif
