/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside a job: what the files of core/job share. The user's view is yoke.h.
 *
 * Handles. yk_t.id = job serial (16 bits) | generation (16) | index (32). Generation 0: a parameter or state, index its
 * number here. Else the generation of a step, index the value number in that step's trace. A step's end moves the job to
 * the next generation, so that every handle of the step is dead but for those in the table of kept values.
 *
 * Numbers that may change from step to step (factors, constants, 1/count, the seed) are elements of f32 input vectors, so
 * that the trace, and with it the program found for it, stays the same.
 *
 * Thread rule: a job belongs to one thread; the table of jobs may be used from any.
 */
#ifndef YOKE_CORE_JOB_JOB_H
#define YOKE_CORE_JOB_JOB_H

#define YK_NO_HERE
#include <yoke/yoke.h>

#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/device/device.h"
#include "core/graph/graph.h"
#include "core/group/group.h"
#include "core/nn/optim.h"
#include "core/nn/scaler.h"
#include "core/nn/sched.h"
#include "core/run/run.h"

#define YK__POISON ((yk_t){0})
#define YK__SCALARS 256 /* elements of one vector of scalars */
#define YK__COUNTS 16   /* counted losses in one micro batch */

/* A number of a configuration struct: 0 is the default, YK_ZERO is 0. */
static inline double yk__setting(double given, double preset)
{
    return given == YK_ZERO ? 0.0 : given != 0.0 ? given : preset;
}

/* A parameter or state. */
typedef struct yk__jparam {
    char *name;
    bool state, frozen, pending; /* pending: its first value is not on the device yet */
    yk_dtype dtype;
    uint32_t dims, number, group; /* number: the engine's */
    int64_t dim[YK_MAX_DIMS];
    uint64_t n;
    yk_init init;
    yk__vid leaf;       /* in the trace of generation leaf_gen */
    uint32_t slot;
    uint16_t leaf_gen;
    uint16_t assigned;  /* generation of the last yk_assign */
    bool used;          /* a loss of the window under way depends on it */
    uint64_t steps;     /* updates it had */
} yk__jparam;

/* How a value of the step lies over the ranks (DTensor's words); see sharding.c. */
typedef enum yk__spread { YK__UNSET, YK__REPLICATED, YK__SHARDED, YK__PARTIAL, YK__LOCAL } yk__spread;

typedef struct yk__sharding {
    uint8_t spread, axis; /* axis: along which its rows lie (SHARDED) */
    bool guess;           /* SHARDED by its first length alone: an input, or a view of one */
    bool met;             /* follows from what the ranks exchange in this step */
    uint16_t why;         /* LOCAL: number of its reason */
    uint32_t sign;        /* of how it was made, equal on all ranks */
    uint32_t whole;       /* PARTIAL: its sum over the ranks + 1, once there is one */
    int64_t inner;        /* SHARDED: neighbouring entries along the axis that are of one row; 0: rows of yk_pack_tokens */
} yk__sharding;

/* The reciprocal of the number of entries that a mean over rows counts: 1 / (each * rows of all ranks). */
typedef struct yk__row_mean {
    double each;
    uint32_t scalar;
    yk__vid leaf;
} yk__row_mean;

/* Host data of one input slot of the step; the memory is used again by the next step. */
typedef struct yk__jinput {
    void *data;
    uint64_t bytes;
    size_t cap;
    yk__vid leaf;
    bool scalars; /* a vector of scalars: leaf is its slot */
    bool fed;     /* by yk_input: its sharding is found out or said */
} yk__jinput;

/* A value that the host wants or has. */
typedef struct yk__kept {
    uint16_t gen;
    uint8_t age;       /* steps that ended since */
    bool loss;         /* went through yk_backward: the sum over ranks is its value */
    bool hold;         /* outlives its step */
    bool sent, ready;  /* its run was submitted; the data is here */
    bool summed;
    bool absent;       /* follows from what the members exchanged in a step that this excluded rank took no part in */
    bool pinned, dead; /* its number is still wanted by the window; its handle is over */
    yk__vid vid, source; /* source: the dense value that is read */
    double factor;     /* of a loss that all ranks have alike: local / global rows */
    uint64_t ticket, bytes;
    yk_value value;    /* type and shape */
    void *host;
    uint64_t room;     /* bytes of that memory */
    double sum;
} yk__kept;

/* One counted loss: its number of items and where its reciprocal lies. */
typedef struct yk__counted {
    uint32_t scalar;
    double local, global; /* global: after yk_backward */
} yk__counted;

/* Host memory of a value that was read, to be used again. */
typedef struct yk__spare {
    void *memory;
    uint64_t bytes;
} yk__spare;

#define YK__SPARES 8

/* Lists that a step needs for a moment; their memory stays for the next. */
typedef struct yk__room {
    yk__vid *value;       /* that the engine is to read, and where to */
    void **host;
    const void **input;   /* what the engine gets */
    uint64_t *input_bytes;
    uint8_t *need;        /* per value: the loss depends on it */
    double *label;        /* host values of labels, and of which tokens count */
    uint64_t *leaf;       /* per value: hash of the parameter it is */
    size_t cap_value, cap_host, cap_input, cap_input_bytes, cap_need, cap_label, cap_leaf;
} yk__room;

/* What a micro batch adds to the loss of its window. */
typedef struct yk__part {
    double weight, loss; /* loss: this rank's part */
    uint16_t gen;
    yk__vid vid;
} yk__part;

typedef struct yk__log_entry {
    char *name;
    yk_t value;
    uint64_t step;
} yk__log_entry;

typedef struct yk__owned {
    void *object;
    void (*release)(void *object);
} yk__owned;

/* Writes further files of a checkpoint. */
typedef struct yk__companion {
    void *object;
    void (*write)(void *object, const char *dir);
} yk__companion;

struct yk_opt {
    yk_job *job;
    yk__optim rule;       /* kind and settings */
    double lr, base_lr;   /* rate now; the one it was made with */
    uint32_t n_group;
    yk__optim_group group[16];
    bool made;            /* the engine has its layout */
    uint32_t n_hyper;     /* its groups there: one per parameter */
    float (*hyper)[YK_HYPER_COUNT];
    bool stepped;         /* the last yk_step really updated */
    uint64_t steps;       /* updates done */
    double grad_norm, window_loss;
    bool window_known;
    uint32_t micro;       /* micro batches of the window under way */
    double weight, unit;  /* of the window under way: sum of weights; what its seeds are divided by */
    yk__part *part;
    size_t n_part, cap_part;
    yk_sched *sched;
};

struct yk_sched {
    yk_opt *opt;
    yk__sched *rule;
    uint64_t step;
    double total; /* steps it is made for; 0: not known */
};

/* Tokens of a step without padding (op_pack.c). */
typedef struct yk__packing {
    yk__vid keep;           /* by what */
    int64_t rows, width, n; /* of keep; packed rows */
    yk__vid token, row;     /* i32: of each packed row its token, of each token its packed row; -1: none */
    yk__vid number;         /* i32 [n], for dropout; YK_NONE: not made yet */
    uint32_t token_input;
} yk__packing;

struct yk_job {
    uint16_t serial, gen;
    yk_error error;         /* the first failure, with the user's place in front */
    bool reported;
    yk_config config;
    yk_dtype precision;
    yk__topology *topology;
    yk__device *device;
    yk__group *group;
    yk__engine *engine;
    uint32_t rank, world;
    yk__placement *place;   /* of all ranks */
    char (*rank_name)[96];

    yk__jparam *param;
    size_t n_param, cap_param;
    bool training;

    /* the step under way */
    yk__graph g;
    uint32_t calls;         /* operations of the step so far: the stream number of their nodes */
    yk__jinput *input;
    size_t n_input, cap_input;
    uint32_t n_scalar;      /* scalars in use */
    uint32_t *scalar_input; /* input number of each vector of scalars */
    uint32_t *scalar_slot;
    size_t n_vector, cap_vector, cap_vector_slot;
    uint32_t key_input, rows_input; /* YK_NONE: not used in this step */
    yk__vid key, rows;
    uint32_t dropouts;
    yk__packing *packing;
    size_t n_packing, cap_packing;
    int32_t *row;           /* global row numbers of this rank's rows */
    size_t cap_row;
    bool rows_set, rows_default, from_loader, empty, window_end;
    int64_t local, global;
    yk__counted counted[YK__COUNTS];
    uint32_t n_counted;
    yk__sharding *sharding; /* by value; kept where there are several ranks */
    size_t cap_sharding;
    char (*reason)[320];    /* why values are LOCAL */
    size_t n_reason, cap_reason;
    const char *call;       /* name of the operation under way */
    yk__row_mean *row_mean;
    size_t n_row_mean, cap_row_mean;
    yk__vid share_leaf;     /* local / global rows; YK_NONE: not used in this step */
    uint32_t share_scalar;
    double row_share;       /* the same, once counted */
    bool counted_ranks;     /* counts, shares and means are those of all ranks */
    bool assigns_met;       /* a state gets what the ranks exchanged */
    yk__vid loss, seed;
    uint32_t seed_scalar;
    bool loss_sent, any_empty;
    double loss_weight;
    yk__assign *assign;
    size_t n_assign, cap_assign;
    size_t assign_sent;
    yk__recompute *recompute;
    size_t n_recompute, cap_recompute;
    bool recomputing;
    double saved_at;        /* when the last checkpoint was written or, of the one gone on from, had been; seconds since 1970 */
    uint64_t micro_step;    /* of the whole run: part of the random key */

    yk__kept *kept;
    size_t n_kept, cap_kept;
    void **limbo;           /* host memory a run may still write to */
    size_t n_limbo, cap_limbo;
    yk__spare spare[YK__SPARES];
    yk__room room;

    yk_opt *opt;
    double clip_norm, clip_value;
    double clipped_norm, clipped_value; /* those of the window before */
    yk__scaler scaler;
    bool scaling;

    yk_data **data;
    yk_data *fed_by;         /* whose batch the step is made of, while from_loader */
    size_t n_data, cap_data;
    struct yk__share *share;

    uint64_t runs, compiles; /* of training; programs made */
    bool told_compile;
    yk_value last_input[8];  /* types and shapes of the first inputs of the last training run */
    uint32_t n_last;

    struct yk__tracker *tracker; /* rank 0 */
    bool logging;
    yk__log_entry *log;
    size_t n_log, cap_log;
    yk__owned *owned;
    size_t n_owned, cap_owned;
    yk__companion *companion;
    size_t n_companion, cap_companion;
    char *scratch; /* text handed to the user */
};

/* ---- handle.c ------------------------------------------------------------------------------------------------------ */
yk_status yk__job_register(yk_job *job, yk_error *err); /* gives it a serial */
void yk__job_unregister(yk_job *job);
yk_job *yk__job_of(yk_t x); /* NULL: no such job */
/* Keeps the first failure, with the place of the user's call; err is reset. */
void yk__job_fail(yk_job *job, yk_error *err);
void yk__job_failf(yk_job *job, yk_status status, const char *fmt, ...) YK_PRINTF(3, 4);
void yk__here_place(const char **file, int *line); /* of the user's last call; file: NULL where it is not known */
const char *yk__here_text(char *buf, size_t n); /* "FILE:LINE" of the user's last call */
bool yk__job_alive(yk_job *job); /* yk_ok, after taking over a failure of the graph */
/* The job of the operands if all of it may go on; the required operands come first. NULL: return a poisoned handle. */
yk_job *yk__enter(const char *name, uint32_t n, const yk_t *x);
/* The value in the step's trace; YK_NONE after a failure (the job has it). */
yk__vid yk__use(yk_job *job, const char *name, yk_t x);
yk_t yk__handle(yk_job *job, yk__vid v);  /* takes over a failure of the graph */
const yk_value *yk__peek(const yk_job *job, yk_t x, yk_value *buf); /* type and shape of any living handle; NULL */
bool yk__is_no(yk_t x);

/* ---- param.c ------------------------------------------------------------------------------------------------------- */
yk__jparam *yk__param_of(yk_job *job, const char *name, yk_t x); /* NULL after a failure */
yk__vid yk__param_leaf(yk_job *job, yk__jparam *p);
bool yk__params_ready(yk_job *job);                   /* first values are on the device */
yk_t yk__param_handle(const yk_job *job, size_t i);
yk__jparam *yk__param_named(const yk_job *job, const char *name); /* NULL */
bool yk__param_put(yk_job *job, yk__jparam *p, const void *data); /* f32, or a state's i32 */
bool yk__param_get(yk_job *job, yk__jparam *p, void *data);
/* As files have it: f32; a state of i32 is i64 there (a batch norm's count of batches), and exact all the way. */
yk_dtype yk__param_file_type(const yk__jparam *p);
bool yk__param_put_file(yk_job *job, yk__jparam *p, void *data); /* data is changed */
bool yk__param_get_file(yk_job *job, yk__jparam *p, void *data);

/* ---- input.c ------------------------------------------------------------------------------------------------------- */
/* Number of a new input of the step with room for bytes; YK_NONE after a failure. */
uint32_t yk__input_new(yk_job *job, yk_dtype dtype, uint32_t dims, const int64_t *dim, uint64_t bytes);
uint32_t yk__scalar_new(yk_job *job, double value, yk__vid *leaf);
void yk__scalar_set(yk_job *job, uint32_t scalar, double value);
bool yk__random(yk_job *job, yk__vid x, yk__vid *key, yk__vid *rows); /* inputs of dropout of x along its first axis */
bool yk__random_key(yk_job *job, yk__vid *key);
void yk__inputs_clear(yk_job *job);
int64_t yk__local_rows(const yk_job *job);
void yk__rows_from(yk_job *job, int64_t local, int64_t first, int64_t global); /* yk_set_rows of first, first + 1, .. */

/* ---- count.c ------------------------------------------------------------------------------------------------------- */
/* Host value of element i of a trace value that follows from inputs; false with the graph's or job's error filled. */
bool yk__host_values(yk_job *job, yk__vid v, double *out, int64_t n);
/* The short way for labels that are an input as it came: how many are not `other_than`; *bad: the first of these that is none of
 * `classes`, or -1; false: not such a value. */
bool yk__host_labels(yk_job *job, yk__vid v, int64_t other_than, int64_t classes, double *n, int64_t *bad);
uint32_t yk__counted_new(yk_job *job, double local, yk__vid *inverse);
bool yk__count_ranks(yk_job *job); /* collective: fills global, rows, scalars */
bool yk__weigh(yk_job *job);       /* of the loss: its micro batch's weight, which parameters it trains */

/* ---- sharding.c (of several ranks; in a group of one all is REPLICATED and nothing is kept) ------------------------------- */
yk__sharding yk__sharding_of(const yk_job *job, yk__vid v);
yk_t yk__give(yk_job *job, yk__vid v, yk__sharding s); /* the handle of a result; a folded view becomes a value of its own */
yk__vid yk__like(yk_job *job, yk__vid from, yk__vid v); /* v lies as `from` does (a cast) */
/* PARTIAL: its sum over the ranks, while training; else v. */
yk__vid yk__all_ranks(yk_job *job, yk__vid v);
yk__vid yk__operand(yk_job *job, const char *name, yk_t x); /* yk__all_ranks of yk__use */
yk__vid yk__partial(yk_job *job, yk__vid v); /* REPLICATED: times the rank's share of the rows */
/* LOCAL, with the user's place as the reason's. v names the shape. */
yk__sharding yk__shard_local(yk_job *job, yk__vid v, const char *why);
/* Of results: of an elementwise op (YK_NONE operands are skipped); of one whose last axes each row computes by itself. */
yk__sharding yk__shard_map(yk_job *job, uint32_t n, const yk__vid *in);
yk__sharding yk__shard_rowwise(yk_job *job, yk__vid x, uint32_t mixed, uint32_t n_rest, const yk__vid *rest);
yk__sharding yk__shard_sum(yk_job *job, yk__vid v, uint32_t axes, bool keep);
yk__sharding yk__shard_drop(yk_job *job, yk__vid v, uint32_t axes, bool keep); /* axes that the rows do not lie along */
yk__sharding yk__shard_reshape(yk_job *job, yk__vid v, uint32_t dims, const int64_t *dim);
yk__sharding yk__shard_matmul(yk_job *job, yk__vid a, yk__vid b);
yk__sharding yk__shard_max(yk_job *job, yk__vid v, uint32_t axes, bool keep);
yk__sharding yk__shard_expand(yk_job *job, yk__vid v, uint32_t dims, const int64_t *dim);
yk__sharding yk__shard_concat(yk_job *job, uint32_t n, const yk__vid *in, uint32_t axis);
yk__sharding yk__shard_gather(yk_job *job, yk__vid table, yk__vid index);
yk__sharding yk__shard_labels(yk_job *job, yk__vid logits, yk__vid labels); /* of the items of a cross entropy */
yk__sharding yk__shard_total(yk__sharding items, bool mean);                /* of the sum or the mean of a loss's items */
bool yk__over_rows(const yk_job *job, yk__vid v, uint32_t axes); /* SHARDED, and the axes hold its rows */
yk__vid yk__row_mean_of(yk_job *job, yk__vid v, uint32_t axes);  /* the reciprocal, a scalar */
yk__vid yk__row_max(yk_job *job, yk__vid v, uint32_t axes);      /* over all ranks, axes kept */
yk__vid yk__row_softmax(yk_job *job, yk__vid v, bool logarithm); /* over the last axis and all ranks */
yk__vid yk__share_leaf(yk_job *job);
void yk__sharding_input(yk_job *job, uint32_t number);
void yk__sharding_constant(yk_job *job, yk__vid leaf, float value);
void yk__sharding_clear(yk_job *job);
void yk__sharding_free(yk_job *job);
/* What the counts' exchange carries of it: room for YK__SHARD_WORDS numbers; check: after they were added up. */
#define YK__SHARD_INPUTS 8
#define YK__SHARD_WORDS (2 + 2 * YK__SHARD_INPUTS)
void yk__sharding_words(const yk_job *job, double *word);
bool yk__sharding_check(yk_job *job, const double *word, const double *sum);
void yk__sharding_counts(yk_job *job, double ranks); /* shares and means, now that the rows of all ranks are known */
bool yk__sharding_loss(yk_job *job, yk__vid loss); /* false: it cannot be split; the job has the error */

/* ---- step.c -------------------------------------------------------------------------------------------------------- */
yk__kept *yk__kept_find(yk_job *job, yk_t x);
yk__kept *yk__kept_add(yk_job *job, yk__vid v);
bool yk__flush(yk_job *job);                  /* runs what the step has so far */
bool yk__kept_fetch(yk_job *job, yk__kept *k); /* its data is in host memory */
double yk__kept_number(yk_job *job, yk__kept *k);
void yk__step_end(yk_job *job);               /* the trace and its handles die */
bool yk__step_open(const yk_job *job);        /* something was traced */
void yk__kept_clear(yk_job *job, bool all);

/* ---- op_layer.c ---------------------------------------------------------------------------------------------------- */
bool yk__dropout_wanted(yk_job *job, const char *name, float p); /* false in evaluation, and after a failure */
yk__vid yk__dropout(yk_job *job, yk__vid x, float p, yk__vid rows);

/* ---- elsewhere ----------------------------------------------------------------------------------------------------- */
void yk__opt_free(yk_opt *opt);
void yk__opt_follow(yk_sched *s); /* the optimizer takes the rate (and momentum) of the schedule's step */
void yk__share_note(yk_job *job, bool train);   /* the engine ran: time and rows for the balance */
void yk__log_flush(yk_job *job, bool all);
void yk__log_close(yk_job *job);
void yk__data_free(yk_data *d);
/* What the shares need to know of a rank. */
typedef struct yk__rank_room {
    uint64_t bytes;       /* of memory it may use; 0: not known */
    bool limited, forced; /* by the user; never excluded */
    double pace;          /* of the start-up probe; 0: not known */
} yk__rank_room;
yk_status yk__share_new(yk_job *job, const yk__rank_room *room, yk_error *err);
void yk__share_free(struct yk__share *s);
bool yk__opt_made(yk_opt *opt);                 /* the engine knows the optimizer */
/* Compares over ranks: all, or those that take part in steps. */
bool yk__job_hash(yk_job *job, bool all, uint64_t *hash);
bool yk__job_catch_up(yk_job *job); /* collective: excluded ranks get parameters and states as they are */
yk__vid yk__float(yk_job *job, yk__vid v);      /* cast to f32 where it is not float */

#endif
