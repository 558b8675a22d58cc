/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The current step: the trace since the last step ended. Each op of the user's appends to it; yk__step_clear empties it, and its memory
 * stays for the next step.
 *
 * Numbers that may change from step to step (factors, constants, 1/count, the seed) are elements of f32 input vectors. So the trace and its
 * program stay the same.
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
#define YK__COUNTS 16   /* counted losses in one micro batch, at most */

/* The placement of a step's value over the ranks (DTensor's words); see sharding.c. */
typedef enum yk__shard_kind { YK__UNSET, YK__REPLICATED, YK__SHARDED, YK__PARTIAL, YK__LOCAL } yk__shard_kind;

typedef struct yk__sharding {
    uint8_t kind, axis;   /* yk__shard_kind; axis of its rows (SHARDED) */
    bool guessed;         /* SHARDED by its first length alone: an input, or a view of one */
    bool exchanged;       /* depends on data that the ranks exchange in this step */
    uint16_t reason;      /* LOCAL: number of its reason */
    uint64_t sign;        /* sign of its recipe, equal on all ranks; 0 for a value that is no result of a call */
    uint32_t sum_plus_1;  /* PARTIAL: number of its sum over the ranks + 1; 0 before there is one */
    uint32_t guess_plus_1; /* guessed: number of the value whose first length was taken for rows + 1 */
    int64_t inner;        /* SHARDED: neighbouring entries along the axis in one row; 0 for rows of yk_pack_tokens */
} yk__sharding;

/* The reciprocal of the number of entries that a mean over rows counts: 1 / (each * rows of all ranks). */
typedef struct yk__row_mean {
    double each;
    uint32_t scalar;
    yk__vid leaf;
} yk__row_mean;

/* A value that yk_expand made of one that is equal on all ranks: rows, or again equal. */
#define YK__EXPANDED 8 /* compared values in a step, at most */
typedef struct yk__expanded {
    yk__vid value;
    uint32_t call;
} yk__expanded;

/* Host data of one input slot; the next step reuses the memory. */
typedef struct yk__step_input {
    void *data;
    uint64_t bytes;
    size_t cap;
    yk__vid leaf;
    bool scalars;   /* a vector of scalars; leaf is its slot */
    bool from_user; /* from yk_input: its placement is guessed or given */
    bool is_alike;  /* no rows, though its first length may be a multiple of theirs: declared so, or used so */
    bool of_data;   /* a field of a data set's batch: its first axis is that of the rows */
    uint64_t like;  /* hash of its type, and of its shape without the first length */
} yk__step_input;

/* A counted loss: its number of items, and the scalar with the reciprocal. */
typedef struct yk__counted {
    uint32_t scalar;
    double local, global; /* global: valid after yk_backward */
} yk__counted;

/* A sampler's state when it gave the step its rows; the part that ranks share. */
typedef struct yk__sampled {
    bool used;
    uint64_t epoch, seed;
    int64_t row, rows, global_batch;
} yk__sampled;

/* Tokens of a step without padding (op_pack.c). */
typedef struct yk__packing {
    yk__vid keep;           /* the mask */
    int64_t rows, width, n; /* shape of keep; packed rows */
    yk__vid token, row;     /* i32: each packed row's token, each token's packed row; -1 for none */
    yk__vid number;         /* i32 [n], for dropout; YK_NONE before its first use */
    uint32_t token_input;
} yk__packing;

/* Scratch lists; the next step reuses their memory. */
typedef struct yk__step_lists {
    yk__vid *value;       /* values for the engine to read; their targets */
    void **host;
    const void **input;   /* inputs for the engine */
    uint64_t *input_bytes;
    uint8_t *need;        /* per value: the loss depends on it */
    double *label;        /* host values of labels and token masks */
    size_t cap_value, cap_host, cap_input, cap_input_bytes, cap_need, cap_label;
} yk__step_lists;

typedef struct yk__step {
    yk__graph trace;
    uint32_t n_call;        /* operations so far: the stream number of their nodes */
    const char *op_name;    /* name of the current operation */

    /* the host's data */
    yk__step_input *input;
    size_t n_input, cap_input;
    uint32_t n_scalar;      /* scalars in use */
    uint32_t *scalar_input; /* input number of each vector of scalars */
    uint32_t *scalar_slot;
    size_t n_vector, cap_vector, cap_vector_slot;

    /* rows, and dropout's inputs */
    int64_t local_rows, global_rows;
    int64_t padding;        /* the last of the local rows: copies of the row before, which count for nothing */
    int32_t *row_number;    /* global numbers of this rank's rows */
    size_t cap_row_number;
    bool rows_set, rows_default;
    bool empty;             /* this rank has no rows */
    uint32_t key_input, rows_input; /* YK_NONE if this step does not use it */
    yk__vid key_leaf, rows_leaf;
    uint32_t n_dropout;
    yk__packing *packing;
    size_t n_packing, cap_packing;
    yk__sampled sampled;
    yk_data *batch_source;  /* data set of its batch, if from_loader */
    bool from_loader;
    bool window_end;        /* ends an accumulation window */
    bool window_open;       /* does not end a window, even if other flags say so */

    /* the loss and its counts */
    yk__vid loss, seed;     /* YK_NONE before yk_backward */
    double loss_weight;
    bool loss_sent;
    bool any_empty;         /* some rank has no rows */
    yk__counted counted[YK__COUNTS];
    uint32_t n_counted;

    /* the batch norm in training with the fewest values per channel */
    uint32_t norm_call;     /* number of its call; 0 without a batch norm */
    double norm_values;     /* this rank's values per channel */

    /* work besides the loss */
    yk__assign *assign;
    size_t n_assign, cap_assign, assign_sent;
    yk__recompute *recompute;
    size_t n_recompute, cap_recompute;
    bool recomputing;
    yk__full *full;
    size_t n_full, cap_full;
    bool is_full;           /* within a block whose end is not known yet */

    /* placement of values; only with several ranks */
    yk__recipes recipes;    /* recipes of its values */
    yk__sharding *sharding; /* by value */
    size_t cap_sharding;
    char (*reason)[320];    /* reasons for LOCAL values */
    size_t n_reason, cap_reason;
    yk__row_mean *row_mean;
    size_t n_row_mean, cap_row_mean;
    yk__vid share_leaf;     /* local / global rows; YK_NONE if this step does not use it */
    uint32_t share_scalar;
    yk__expanded expanded[YK__EXPANDED];
    uint32_t n_expanded;
    double row_share;       /* the same as a number, once counted */
    bool counted_ranks;     /* counts, shares and means are over all ranks */
    bool assigns_exchanged; /* a state gets data that the ranks exchanged */

    yk__step_lists lists;
} yk__step;

/* The root of the views that v belongs to, or v. */
static inline yk__vid yk__trace_root(const yk__graph *g, yk__vid v)
{
    while (g->value[v].base != v && g->value[v].base < g->n_value)
        v = g->value[v].base;
    return v;
}

void yk__step_init(yk__step *s);
bool yk__step_open(const yk__step *s); /* true once an op was traced */
void yk__step_clear(yk__step *s);
void yk__step_free(yk__step *s);

#endif
