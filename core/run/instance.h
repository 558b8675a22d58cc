/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a run beside the parameters: the arena, inputs on their way to the device, results, and the sum under way. Programs take
 * turns in an instance. The step thread.
 */
#ifndef YOKE_CORE_RUN_INSTANCE_H
#define YOKE_CORE_RUN_INSTANCE_H

#include "core/coll/pull.h"
#include "core/plan/plan.h"
#include "core/run/stored.h"

#define YK__STAGINGS 4 /* input areas of micro batches under way at once */

struct yk__prog;

/* Host memory in which inputs wait; a device that can compute on host memory reads them there (buffer). */
typedef struct yk__staging {
    void *host;
    yk_pin *pin;
    yk_buffer *buffer;
    uint64_t bytes, point; /* point: the device reads the area until then */
} yk__staging;

/* An all_reduce: the place of the vector on the device, and the host's place of work. The host works on the vector itself if it sees it,
 * else on a copy. */
typedef struct yk__reduction {
    yk_buffer *buffer;
    uint64_t offset;
    float *vector;
    float *copy;
    yk_pin *pin; /* pins the copy */
    uint64_t copy_bytes;
    int64_t begun_ns; /* for traces */
} yk__reduction;

/* Memory in which buckets take turns (core/plan/lanes.c), or the temporaries of programs: a part of the arena (plan.h). */
typedef struct yk__lane_buffer {
    yk_buffer *buffer;
    uint64_t bytes;
    /* For pulls of far slices alone: */
    yk__pulling *pulling; /* under way to the lane; NULL: none */
    int64_t begun_ns;     /* its begin, for traces */
    float *host;          /* they put the bucket there: a processor's lane itself, or another device's source of a copy to the lane */
    yk_pin *pin;          /* for that memory */
    uint64_t point;       /* the last copy from there; 0: the lane itself, or no copy yet */
} yk__lane_buffer;

typedef struct yk__lane_set {
    bool far; /* pulls of far slices come to the lanes */
    yk__lane_buffer *lane;
    size_t cap;
    uint32_t n;
} yk__lane_set;

typedef struct yk__instance {
    yk__lane_set arena; /* each part is as large as the greediest program needs */
    yk__lane_set grads; /* a run that sums them uses these */
    yk__lane_set pulls; /* for parameters that lie in slices */
    yk__stored stored;  /* values of the arena on the host */
    yk_buffer *input, *result;
    uint64_t input_bytes, result_bytes;
    yk__staging staging[YK__STAGINGS + 1]; /* the last is the update's */
    yk__reduction reduction;         /* the all_reduce on its way: a plan has one at a time */
} yk__instance;

/* Host data by input number. */
typedef struct yk__inputs {
    uint32_t n;
    const void *const *data;
    const uint64_t *bytes;
} yk__inputs;

/* Makes the arena of a plan, before a program of it runs. It waits for the device before it frees a buffer. */
yk_status yk__arena_reserve(yk__lane_set *arena, yk__queue *q, const yk__plan *plan, yk_error *err);
void yk__arena_free(yk__lane_set *arena, yk__queue *q); /* the device is idle */
/* Makes the lanes of a plan. It waits for the device before it frees a buffer. */
yk_status yk__instance_lanes(yk__instance *instance, yk__queue *q, const yk__plan *plan, yk_error *err);
uint64_t yk__instance_lane_bytes(const yk__instance *instance, const yk__queue *q); /* host memory beside the lanes */
/* Makes room for a program's temporaries, inputs and results. */
yk_status yk__instance_reserve(yk__instance *instance, yk__queue *q, const struct yk__prog *p, yk_error *err);
/* Brings inputs to the buffer that the program reads. *staging: the area that the program itself reads, whose point its caller sets; else
 * NULL, and the program reads instance->input. */
yk_status yk__instance_upload(yk__instance *instance, yk__queue *q, const struct yk__prog *p, yk__inputs inputs, yk__staging **staging,
                              yk_error *err);
void yk__instance_free(yk__instance *instance, yk__queue *q); /* the device is idle */

#endif
