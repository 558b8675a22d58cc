/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a trace to programs for one device: differentiate, autocast, claim or inline, fuse, recompute, memory plan,
 * segments. Pure computation over graphs: the device is asked only through `claims`.
 *
 * docs/architecture.md describes the order of the passes and the result of each.
 */
#ifndef YOKE_CORE_PLAN_PLAN_H
#define YOKE_CORE_PLAN_PLAN_H

#include "core/graph/graph.h"

/* A parameter and the place of its gradient. */
typedef struct yk__plan_param {
    yk__vid leaf;          /* leaf in the trace; YK_NONE if the trace does not use it: its gradient is zero */
    int64_t n;             /* elements */
    uint32_t bucket;       /* number of the gradient bucket; YK_NONE if frozen */
    uint64_t grad_offset;  /* bytes in the bucket */
    uint32_t values;       /* number of the bucket of its values, frozen or not; read if buckets are pulled */
} yk__plan_param;

/* A state that gets a new value at the program's end. */
typedef struct yk__assign {
    uint32_t state; /* state number */
    yk__vid value;  /* has the state's dtype and size */
} yk__assign;

/* Nodes [begin, end) of the trace: a block whose values are recomputed in backward. */
typedef struct yk__recompute {
    uint32_t begin, end;
} yk__recompute;

/* Operations first..last, by the stream numbers of their nodes: a block that is computed in f32 in every precision, with its
 * gradients. */
typedef struct yk__full {
    uint32_t first, last;
} yk__full;

/* Flag in the key of a PARAM slot with the parameter's copy in the compute format, which lives between steps. */
#define YK__KEY_COMPUTE 0x40000000u
/* A bit of a slot's key. PARAM: a whole bucket; STATE: moment (bits 24..) of a bucket; GRAD: sums of this rank's slice of a bucket. */
#define YK__KEY_BUCKET 0x80000000u

typedef struct yk__plan_request {
    const yk__graph *trace;
    yk__vid loss, seed;                  /* loss YK_NONE: forward only */
    bool accumulate;                     /* add to the buckets instead of writing */
    bool scatters;                       /* buckets are summed over ranks in this run: each has its memory, a lane, for a time */
    const bool *pulls;                   /* by bucket, n_pulled of them: its parameters lie in slices or on the host, and are pulled to a
                                            lane for a time; NULL: none */
    bool pulls_stay;                     /* a bucket is pulled once, and stays in its lane to its last reader */
    uint32_t pulls_ahead;                /* a pull starts so many pulls early */
    bool zero;                           /* no loss: write zeros to the buckets */
    bool single_rank;                    /* one rank: all_reduce is the identity, and no bucket is waited for before the end */
    bool gathers;                        /* updates still gather parameters: a reader of a bucket waits for its gather */
    uint32_t n_updated;                  /* buckets whose values the plan updates: it is cut behind each; 0: it need not be */
    yk_dtype precision;
    bool rounds8;                        /* fp8: precision is bf16, and linear layers' products have operands of 8 bits (eight.c) */
    bool keep_compute;                   /* read 16-bit operands that are whole parameters from the copies that
                                            core/run/values/compute.c keeps, instead of casting them in the program */
    bool keep_cheap;                     /* store results of activation functions and layer norms for backward, do not recompute */
    const yk_device_caps *caps;
    uint32_t (*claims)(void *arg, const yk_graph *g, uint32_t node); /* the plugin's function, or a test's */
    void *claims_arg;
    uint32_t n_param, n_bucket, n_pulled, n_result, n_assign, n_recompute, n_full;
    const yk__plan_param *param;
    const uint64_t *bucket_bytes;        /* of n_bucket buckets of gradients; with pulls of n_pulled, the same ones first */
    const yk__vid *result;
    const yk__assign *assign;
    const yk__recompute *recompute;
    const yk__full *full;
    uint64_t arena_limit;                /* recompute more until the arena is below; 0: no limit */
    uint64_t *least;                     /* where none is below: bytes of the smallest arena; NULL: not wanted */
    bool stores;                         /* large values that forward leaves for backward lie on the host meanwhile (away.c) */
    uint64_t large;                      /* bytes from which they do, and from which backward recomputes a value of one pass
                                            instead of storing it; 0: 64 KiB */
} yk__plan_request;

/* ---- Actions between segments, most of them of the ranks together (docs/decisions/0018) ---- */

typedef enum yk__action_kind {
    YK__ACTION_ALL_REDUCE,     /* sums a vector of f32 of a slot over the members, in place */
    YK__ACTION_REDUCE_SCATTER, /* sums a bucket of gradients, in the last micro batch of a window: each owner gets its slice */
    YK__ACTION_SUM_BUCKET,     /* sums a bucket of gradients in this run: each owner adds its slice to its sums of the window */
    YK__ACTION_PULL,           /* brings a bucket of parameters from the ranks' block to a lane, before a segment */
    YK__ACTION_ALL_GATHER,     /* collects a bucket of parameters, a slice from each owner: the update before the plan started it */
    YK__ACTION_UPDATE,         /* a bucket of parameters has its new values: the next plan's ALL_GATHER waits for it */
    YK__ACTION_STORE,          /* takes a value from the arena to the host, behind the last segment of forward that touches it */
    YK__ACTION_LOAD,           /* brings it back, before a segment */
} yk__action_kind;

typedef struct yk__action {
    yk__action_kind kind;
    uint32_t op;            /* ALL_REDUCE: YK_REDUCE_*; moments are [3, count / 3] */
    uint32_t target;        /* ALL_REDUCE: the slot; PULL: plan->pull; STORE, LOAD: plan->away; otherwise the bucket */
    uint64_t offset, count; /* bytes from the start of the slot or bucket; elements */
    uint32_t start_after;   /* the segment that makes its input; YK_NONE: made before this plan */
    uint32_t needed_by;     /* the segment that reads its result; n_segment: read after this plan */
} yk__action;

typedef struct yk__segment {
    yk_graph graph;                  /* ready for program_new; without nodes there is nothing to run */
    yk__graph own;                   /* its arrays */
    uint32_t first_use, n_use;       /* plan->use[first_use ..]: slots that it touches */
    uint32_t first_before, n_before; /* plan->before[first_before ..]: actions that must end before it runs */
    uint32_t first_after, n_after;   /* plan->action[first_after ..]: actions that start after its submission, in this order */
} yk__segment;

/* A bucket of parameters is whole in a lane (pulls.c). begin, end, start: nodes until the plan is cut, then segments. */
typedef struct yk__pull {
    uint32_t bucket, lane;
    uint32_t begin, end; /* the first and the last that read it there */
    uint32_t start;      /* the one before which the pull starts */
} yk__pull;

/* A value that lies on the host between forward and backward (away.c). after, before: nodes until the plan is cut, then segments. */
typedef struct yk__away {
    yk__vid from, to;       /* its roots in forward and in backward: two places in the arena */
    uint32_t after, before; /* it leaves behind the first, and comes back before the second */
    uint64_t bytes, offset; /* offset: on the host, in bytes from the start of away_bytes */
} yk__away;

/* Ranges of device memory in which buckets take turns. */
typedef struct yk__lanes {
    uint32_t n;
    uint64_t *bytes; /* by lane */
} yk__lanes;

typedef struct yk__plan {
    yk__graph graph;               /* slots: 0 arena; the trace's slots; one per bucket; one for results; one for each
                                      assigned state that the trace does not read; further parts of the arena */
    uint32_t n_segment;
    yk__segment *segment;
    uint32_t n_action, n_use;
    yk__action *action;            /* by start_after, actions started before the plan last; at most one all_reduce runs at any time */
    uint32_t *before;              /* numbers of all actions, by needed_by */
    uint32_t first_at_end;         /* before[first_at_end ..]: actions that the plan's successor needs, and no segment */
    uint32_t *use;                 /* slots that a segment touches, by segment */
    uint32_t bucket_slot;          /* slot of bucket 0 */
    uint32_t result_slot;          /* slot of the results; result i lies at result_offset[i] */
    uint64_t *result_offset;
    yk__lanes grad_lanes;          /* memory of gradients if the run sums them */
    uint32_t *lane;                /* by bucket: its lane; YK_NONE if the plan writes no gradient there */
    yk__lanes pull_lanes;          /* memory of parameters that lie in slices */
    yk__pull *pull;
    uint32_t n_pull;
    yk__away *away;                /* by the segment before which they come back */
    uint32_t n_away;
    uint64_t away_bytes;           /* of the host: all of them lie there at once */
    bool *written;                 /* by parameter: the plan writes its gradient */
    uint32_t n_arena, arena_slot;  /* number of parts of the arena (one, unless the device's largest buffer is too small), and the
                                      slot of the second part: yk__arena_slot */
    uint64_t arena_bytes, result_bytes; /* arena: sum of all parts */
    uint64_t kept_bytes;           /* part of the arena that is alive between forward and backward */
    uint32_t nodes_before, nodes_after; /* number of nodes before and after fusion, for reports */
    uint32_t number;               /* number of the plan in this process, for logs and dumps */
} yk__plan;

/* The slot of a part of the arena. */
static inline uint32_t yk__arena_slot(uint32_t second, uint32_t part)
{
    return part ? second + part - 1 : 0;
}

/* The lane in which a segment reads a bucket; YK_NONE if the bucket is not in a lane then. */
uint32_t yk__plan_pull_lane(const yk__plan *plan, uint32_t segment, uint32_t bucket);

yk_status yk__plan_new(const yk__plan_request *request, yk__plan **p, yk_error *err);
void yk__plan_free(yk__plan *plan);
bool yk__plan_dumps(void); /* YOKE_DUMP names a folder */
/* With it: writes the plan's instructions to list-N.txt. Frees text; NULL means that memory was short. */
void yk__plan_dump_list(const yk__plan *plan, char *text);

#endif
