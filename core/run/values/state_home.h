/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The home of the optimizer's moments: the memory of this rank's slices of them, and the way in which the optimizer's step reaches it. The
 * table stands in state_buffers.c; the first row that fits is the home of all of a rank's moments (docs/decisions/0091). Other code calls
 * the columns, so a new home is a new row. The step thread.
 */
#ifndef YOKE_CORE_RUN_VALUES_STATE_HOME_H
#define YOKE_CORE_RUN_VALUES_STATE_HOME_H

#include "core/coll/slices.h"
#include "core/run/queue.h"

struct yk__bucket;
struct yk__exec;
struct yk__inputs;
struct yk__optim_programs;
struct yk__params;

/* k: number of a moment. range: elements of the bucket, within this rank's slice as it was when the moment was made. */
typedef struct yk__state_home {
    const char *name;
    bool (*fits)(const struct yk__params *p);
    /* Stands before the moments are made; close, behind the last of them, undoes it, and does nothing a second time. NULL: nothing to
     * do. */
    yk_status (*open)(struct yk__params *p, yk_error *err);
    void (*close)(struct yk__params *p);
    /* Makes a moment of the slice, with undefined contents. drop also takes one that was not made. */
    yk_status (*make)(struct yk__params *p, struct yk__bucket *b, uint32_t k, yk_error *err);
    void (*drop)(struct yk__params *p, struct yk__bucket *b, uint32_t k);
    /* For the program of the step that is about to run. */
    yk__bound (*bind)(const struct yk__params *p, const struct yk__bucket *b, uint32_t k);
    /* Transfers to and from the host. The last point of b->updates completes them; src and dst stay until then. */
    yk_status (*get)(const struct yk__params *p, const struct yk__bucket *b, uint32_t k, yk__range range, float *dst, yk_error *err);
    yk_status (*put)(const struct yk__params *p, const struct yk__bucket *b, uint32_t k, yk__range range, const float *src, yk_error *err);
    /* Writes zeros to all moments, which were just made, of the buckets that exec's device updates; NULL: they are zero. */
    yk_status (*clear)(struct yk__exec *exec, yk_error *err);
    /* Elements of a bucket that a program of the step takes at most, at multiples of it; NULL, or 0: one program takes all. */
    uint64_t (*block)(const struct yk__params *p);
    /* Runs the programs of the optimizer's step on one device. */
    yk_status (*step)(struct yk__optim_programs *optim, struct yk__inputs inputs, yk_error *err);
} yk__state_home;

/* The first row that fits. */
const yk__state_home *yk__state_home_choose(const struct yk__params *p);
/* A transfer with a wait for its end; on a range without elements it does nothing. */
yk_status yk__moment_read(const struct yk__params *p, const struct yk__bucket *b, uint32_t k, yk__range range, float *dst, yk_error *err);
yk_status yk__moment_write(const struct yk__params *p, const struct yk__bucket *b, uint32_t k, yk__range range, const float *src,
                           yk_error *err);

#endif
