/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a trace to programs for one device: differentiate, autocast, claim or inline, fuse, recompute, memory plan,
 * segments. Pure computation over graphs: the device is asked only through `claims`.
 *
 * Order of the passes and what each leaves behind is described in docs/architecture.md.
 */
#ifndef YOKE_CORE_PLAN_PLAN_H
#define YOKE_CORE_PLAN_PLAN_H

#include "core/graph/graph.h"

/* Where the gradient of a parameter goes. */
typedef struct yk__plan_param {
    yk__vid leaf;          /* in the trace; YK_NONE: the trace does not use it, its gradient is zero */
    int64_t n;             /* elements */
    uint32_t bucket;       /* number of the gradient bucket; YK_NONE: frozen */
    uint64_t grad_offset;  /* bytes in the bucket */
} yk__plan_param;

/* A state that gets a new value when the program has run. */
typedef struct yk__assign {
    uint32_t state; /* state number */
    yk__vid value;  /* of the state's dtype and size */
} yk__assign;

/* Nodes [begin, end) of the trace: a block whose values are recomputed in backward. */
typedef struct yk__recompute {
    uint32_t begin, end;
} yk__recompute;

/* Set in the key of a PARAM slot that holds the parameter's copy in the compute format, which lives between steps. */
#define YK__KEY_COMPUTE 0x40000000u

typedef struct yk__plan_request {
    const yk__graph *trace;
    yk__vid loss, seed;                  /* loss YK_NONE: forward only */
    bool accumulate;                     /* add to the buckets instead of writing */
    bool zero;                           /* no loss: write zeros to the buckets */
    bool single_rank;                    /* a group of one: all_reduce is the identity */
    yk_dtype precision;
    bool keep_compute;                   /* 16-bit operands that are whole parameters are read from copies that somebody
                                            keeps (YK__HELD_LOW), not cast by the program */
    const yk_device_caps *caps;
    uint32_t (*claims)(void *arg, const yk_graph *g, uint32_t node); /* the plugin's, or a test's */
    void *claims_arg;
    uint32_t n_param, n_bucket, n_result, n_assign, n_recompute;
    const yk__plan_param *param;
    const uint64_t *bucket_bytes;
    const yk__vid *result;
    const yk__assign *assign;
    const yk__recompute *recompute;
    uint64_t arena_limit;                /* recompute more until the arena is below; 0: no limit */
    uint64_t large;                      /* bytes from which a value that one pass makes again is not stored for backward;
                                            0: 64 KiB */
} yk__plan_request;

/* What happens at the end of a segment. */
typedef enum yk__boundary { YK_BOUND_NONE, YK_BOUND_BUCKET, YK_BOUND_ALL_REDUCE } yk__boundary;

typedef struct yk__segment {
    yk_graph graph;                /* ready for program_new; no nodes: nothing to run */
    yk__graph own;                 /* its arrays */
    yk__boundary boundary;
    bool overlapped;               /* runs while the sum of the all_reduce before it is on its way */
    uint32_t first_done, n_done;   /* YK_BOUND_BUCKET: plan->done[first_done ..] are complete */
    uint32_t slot;                 /* YK_BOUND_ALL_REDUCE: f32 vector to reduce over ranks, in place */
    uint64_t offset, count;
    bool moments, max;             /* not the sum: the moments of [3, count / 3]; the largest */
} yk__segment;

typedef struct yk__plan {
    yk__graph graph;               /* slots: 0 arena; those of the trace; one per bucket; one for results; one for each
                                      assigned state the trace does not read */
    uint32_t n_segment;
    yk__segment *segment;
    uint32_t *done;                /* all buckets, in the order in which they are completed */
    uint32_t bucket_slot;          /* slot of bucket 0 */
    uint32_t result_slot;          /* results lie there, at result_offset[i] */
    uint64_t *result_offset;
    uint64_t arena_bytes, result_bytes;
    uint64_t kept_bytes;           /* part of the arena that is alive between forward and backward */
    uint32_t nodes_before, nodes_after; /* of fusion, for reports */
    uint32_t number;               /* of the plans of this process, in logs and dumps */
} yk__plan;

yk_status yk__plan_new(const yk__plan_request *r, yk__plan **p, yk_error *err);
void yk__plan_free(yk__plan *p);

#endif
