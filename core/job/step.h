/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step under way: what was traced since the last one ended. Each op of the user's appends to it; yk__step_clear empties it
 * whole, and its memory stays for the next.
 *
 * Numbers that may change from step to step (factors, constants, 1/count, the seed) are elements of f32 input vectors, so
 * that the trace, and with it the program found for it, stays the same.
 *
 * Thread rule: that of the job it belongs to.
 */
#ifndef YOKE_CORE_JOB_STEP_H
#define YOKE_CORE_JOB_STEP_H

#define YK_NO_HERE
#include <yoke/yoke.h>

#include "core/graph/graph.h"
#include "core/job/recipe.h"
#include "core/plan/plan.h"

#define YK__SCALARS 256 /* elements of one vector of scalars */
#define YK__COUNTS 16   /* counted losses in one micro batch */

/* How a value of the step lies over the ranks (DTensor's words); see sharding.c. */
typedef enum yk__shard_kind { YK__UNSET, YK__REPLICATED, YK__SHARDED, YK__PARTIAL, YK__LOCAL } yk__shard_kind;

typedef struct yk__sharding {
    uint8_t kind, axis;   /* yk__shard_kind; axis: along which its rows lie (SHARDED) */
    bool guessed;         /* SHARDED by its first length alone: an input, or a view of one */
    bool exchanged;       /* follows from what the ranks exchange in this step */
    uint16_t reason;      /* LOCAL: number of its reason */
    uint64_t sign;        /* of its recipe, equal on all ranks; 0: the value is no result of a call */
    uint32_t sum_plus_1;  /* PARTIAL: number of its sum over the ranks + 1, once there is one */
    int64_t inner;        /* SHARDED: neighbouring entries along the axis that are of one row; 0: rows of yk_pack_tokens */
} yk__sharding;

/* The reciprocal of the number of entries that a mean over rows counts: 1 / (each * rows of all ranks). */
typedef struct yk__row_mean {
    double each;
    uint32_t scalar;
    yk__vid leaf;
} yk__row_mean;

/* What yk_expand made of a value that is the same on all ranks: rows, or the same again. */
#define YK__EXPANDED 8 /* so many in a step are compared */
typedef struct yk__expanded {
    yk__vid value;
    uint32_t call;
} yk__expanded;

/* Host data of one input slot; the memory is used again by the next step. */
typedef struct yk__step_input {
    void *data;
    uint64_t bytes;
    size_t cap;
    yk__vid leaf;
    bool scalars;   /* a vector of scalars: leaf is its slot */
    bool from_user; /* by yk_input: its sharding is found out or said */
    uint64_t like;  /* hash of its type, and of its shape but for the first length */
} yk__step_input;

/* One counted loss: its number of items and where its reciprocal lies. */
typedef struct yk__counted {
    uint32_t scalar;
    double local, global; /* global: after yk_backward */
} yk__counted;

/* Where a sampler was when it gave the step its rows; what ranks have in common of it. */
typedef struct yk__sampled {
    bool used;
    uint64_t epoch, seed;
    int64_t row, rows, global_batch;
} yk__sampled;

/* Tokens of a step without padding (op_pack.c). */
typedef struct yk__packing {
    yk__vid keep;           /* by what */
    int64_t rows, width, n; /* of keep; packed rows */
    yk__vid token, row;     /* i32: of each packed row its token, of each token its packed row; -1: none */
    yk__vid number;         /* i32 [n], for dropout; YK_NONE: not made yet */
    uint32_t token_input;
} yk__packing;

/* Lists that are needed for a moment; their memory stays for the next step. */
typedef struct yk__step_lists {
    yk__vid *value;       /* that the engine is to read, and where to */
    void **host;
    const void **input;   /* what the engine gets */
    uint64_t *input_bytes;
    uint8_t *need;        /* per value: the loss depends on it */
    double *label;        /* host values of labels, and of which tokens count */
    size_t cap_value, cap_host, cap_input, cap_input_bytes, cap_need, cap_label;
} yk__step_lists;

typedef struct yk__step {
    yk__graph trace;
    uint32_t n_call;        /* operations so far: the stream number of their nodes */
    const char *op_name;    /* of the operation under way */

    /* what the host gives it */
    yk__step_input *input;
    size_t n_input, cap_input;
    uint32_t n_scalar;      /* scalars in use */
    uint32_t *scalar_input; /* input number of each vector of scalars */
    uint32_t *scalar_slot;
    size_t n_vector, cap_vector, cap_vector_slot;

    /* rows, and what dropout needs of them */
    int64_t local_rows, global_rows;
    int32_t *row_number;    /* global row numbers of this rank's rows */
    size_t cap_row_number;
    bool rows_set, rows_default;
    bool empty;             /* this rank has no rows */
    uint32_t key_input, rows_input; /* YK_NONE: not used in this step */
    yk__vid key_leaf, rows_leaf;
    uint32_t n_dropout;
    yk__packing *packing;
    size_t n_packing, cap_packing;
    yk__sampled sampled;
    yk_data *batch_source;  /* whose batch it is made of, while from_loader */
    bool from_loader;
    bool window_end;        /* it ends an accumulation window */
    bool window_open;       /* it does not, whatever else says so */

    /* the loss, and what it counts */
    yk__vid loss, seed;     /* YK_NONE before yk_backward */
    double loss_weight;
    bool loss_sent;
    bool any_empty;         /* some rank has no rows */
    yk__counted counted[YK__COUNTS];
    uint32_t n_counted;

    /* the batch norm in training with the fewest values of a channel */
    uint32_t norm_call;     /* its call; 0: the step has none */
    double norm_values;     /* this rank's values */

    /* what runs beside it */
    yk__assign *assign;
    size_t n_assign, cap_assign, assign_sent;
    yk__recompute *recompute;
    size_t n_recompute, cap_recompute;
    bool recomputing;
    yk__full *full;
    size_t n_full, cap_full;
    bool is_full;           /* in such a block, whose end is not known yet */

    /* how values lie over the ranks; kept where there are several */
    yk__recipes recipes;    /* of the values */
    yk__sharding *sharding; /* by value */
    size_t cap_sharding;
    char (*reason)[320];    /* why values are LOCAL */
    size_t n_reason, cap_reason;
    yk__row_mean *row_mean;
    size_t n_row_mean, cap_row_mean;
    yk__vid share_leaf;     /* local / global rows; YK_NONE: not used in this step */
    uint32_t share_scalar;
    yk__expanded expanded[YK__EXPANDED];
    uint32_t n_expanded;
    double row_share;       /* the same, once counted */
    bool counted_ranks;     /* counts, shares and means are those of all ranks */
    bool assigns_exchanged; /* a state gets what the ranks exchanged */

    yk__step_lists lists;
} yk__step;

/* The value that v is a view of, or v. */
static inline yk__vid yk__trace_root(const yk__graph *g, yk__vid v)
{
    while (g->value[v].base != v && g->value[v].base < g->n_value)
        v = g->value[v].base;
    return v;
}

void yk__step_init(yk__step *s);
bool yk__step_open(const yk__step *s); /* something was traced */
void yk__step_clear(yk__step *s);
void yk__step_free(yk__step *s);

#endif
