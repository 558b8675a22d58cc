/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of core/run share.
 *
 * Layout. Trained parameters stand in reverse order of creation (the gradients of the last layers come first) in buckets
 * of about bucket_bytes; a bucket of parameters is the bucket of their gradients too. Values, gradients and moments of a bucket are laid
 * out alike: element i of one belongs to element i of the others; each parameter begins at a multiple of 64 elements, and
 * the gaps hold zeros. Frozen parameters stand in buckets behind, without gradients. Of every trained bucket each rank owns
 * a slice by its role (roles.c): it holds the moments of that slice alone, and updates it.
 *
 * The layout is made when it is first needed; values written before that wait on the host. A parameter that comes later
 * makes it new.
 */
#ifndef YOKE_CORE_RUN_INTERNAL_H
#define YOKE_CORE_RUN_INTERNAL_H

#include "core/plan/plan.h"
#include "core/run/run.h"

#define YK__MOMENTS 3
#define YK__KEY_BUCKET 0x80000000u /* of a slot's key: PARAM, a whole bucket; STATE, moment (bits 24..) of a bucket */
#define YK__STAGES 4           /* input areas of micro batches under way at once */
#define YK__TICKETS 64

typedef struct yk__eparam {
    char *name;
    uint64_t n, at; /* elements; where in its bucket */
    uint32_t bucket;
    bool trained;
    float *pending; /* host values until there is a layout */
    yk_buffer *compute; /* the copy in the compute format, when a program reads one */
} yk__eparam;

typedef struct yk__estate {
    char *name;
    yk_dtype dtype;
    uint64_t n;
    yk_buffer *buffer;
} yk__estate;

typedef struct yk__bucket {
    bool trained;
    uint64_t n;           /* elements, with gaps */
    uint64_t flat;        /* elements of the trained buckets before it */
    yk_buffer *value, *grad, *moment[YK__MOMENTS];
    float *shared;        /* this rank's gradients in shared memory; NULL in a group of one */
    bool is_wrapped;         /* grad is that memory */
    bool is_common;       /* value is shared memory: the ranks' one copy, written by each slice's owner */
    yk__slices slice;
    yk__slices summed;    /* whose slices hold the sums of gradients, where the roles changed since they were made */
    uint64_t begin, end;  /* this rank's slice */
    uint64_t point;       /* when the gradients of the last micro batch are there */
} yk__bucket;

/* A planned and compiled graph. */
typedef struct yk__prog {
    yk__plan *plan;
    yk_program **program; /* per segment; NULL where there is nothing to run */
    uint32_t n_slot, n_input;
    yk_buffer **slot;
    uint64_t *slot_offset, *slot_version, *input_offset, *input_size;
    uint64_t input_bytes;
    uint64_t key, used;   /* of the cache */
    uint64_t bytes;       /* host memory of the plan */
    bool reads_compute;       /* 16-bit copies of parameters */
} yk__prog;

/* Host memory that inputs wait in, and of which a device that can compute on host memory reads them (buffer). */
typedef struct yk__stage {
    void *host;
    yk_buffer *buffer;
    uint64_t bytes, point; /* point: until then it is read */
} yk__stage;

/* An all_reduce: where the vector lies, and where the host works on it: there, where it sees it, else on a copy of its own. */
typedef struct yk__reduction {
    yk_buffer *buffer;
    uint64_t offset;
    float *vector;
    float *copy;
    uint64_t copy_bytes;
} yk__reduction;

/* Which compute-format copies are not what the parameters are. */
typedef enum yk__stale { YK__FRESH, YK__STALE_TRAINED, YK__STALE_ALL } yk__stale;

struct yk__engine {
    yk__device *dev;
    yk__group *group;
    yk__engine_config config;
    uint32_t rank, world;
    bool talks;                /* with other ranks: there are some, and the device does not plan only */
    yk__eparam *param;
    yk__estate *state;
    size_t n_param, cap_param, n_state, cap_state;
    bool laid_out;
    uint32_t layouts;          /* made so far */
    yk__bucket *bucket;
    uint32_t n_all_bucket, n_bucket; /* trained buckets are the first n_bucket */
    uint64_t flat;             /* elements of all trained buckets */
    float *grad_base, *param_base; /* shared: rank 0's gradients; updated parameters */
    uint64_t version;          /* of the parameters */
    uint64_t runs;

    yk_buffer *arena, *input, *result;
    uint64_t arena_bytes, input_bytes, result_bytes;
    yk__stage stage[YK__STAGES + 1]; /* the last is the update's: its few numbers hold up no micro batch's area */
    yk__reduction reduction;   /* the all_reduce on its way: one at a time */

    yk__prog **prog;           /* the cache */
    size_t n_prog, cap_prog;
    uint64_t prog_bytes;       /* of their plans */
    yk__prog *zero;            /* writes zeros to the buckets */
    yk__prog *cast_prog[2];     /* cast trained parameters, all parameters */
    yk__stale compute_stale;
    uint64_t ticket, ticket_point[YK__TICKETS], last_point;
    uint64_t waited;           /* a point that is known to be done */
    double started, idle;      /* of the last run: when it was submitted, seconds it waited for other ranks */
    uint64_t busy_point;       /* the end of a run that is timed; 0: none */
    bool measure;              /* time the runs that follow */
    bool reduced;              /* the buckets hold sums over ranks in this rank's slices */
    bool slices_changed;            /* since then slices have changed: bucket.summed says whose hold the sums */
    yk__exact squares;         /* of these sums, in a group of more than one */
    yk__roles roles;
    bool excluded;             /* this rank is no member */
    bool params_behind;            /* others updated parameters since this device's own copies of them were taken */

    bool has_opt;
    yk__opt_layout opt;
    uint32_t *group_of;
    uint32_t n_moment;
    yk__prog *opt_prog, *stat_prog;
    uint32_t n_stat;
    float *hyper, *stats_host;
    double divisor;            /* of the last update */
    double update_started;     /* its optimizer's program; the device was idle */

    yk__engine_stats stats;
    uint64_t held;             /* device bytes now */
};

/* engine.c */
yk_status yk__engine_buffer(yk__engine *e, uint64_t bytes, yk_buffer **b, uint64_t *account, yk_error *err);
/* The device computes on host memory as it is: inputs need no transfer. */
bool yk__engine_wraps(const yk__engine *e);
yk_status yk__engine_wrap(yk__engine *e, void *host, uint64_t bytes, yk_buffer **b, uint64_t *account, yk_error *err);
void yk__engine_unbuffer(yk__engine *e, yk_buffer **b, uint64_t bytes, uint64_t *account);
/* Adds bytes to an account of the statistics and to what is held. */
void yk__engine_count(yk__engine *e, uint64_t bytes, uint64_t *account);
/* Room for at least `bytes` in a shared scratch buffer; waits for the device before an old one goes. */
yk_status yk__engine_reserve(yk__engine *e, yk_buffer **b, uint64_t *have, uint64_t bytes, uint64_t *account, yk_error *err);
/* Transfers; the point that completes them is then e->last_point. */
yk_status yk__engine_put(yk__engine *e, yk_buffer *b, uint64_t offset, const void *src, uint64_t bytes, yk_error *err);
yk_status yk__engine_get(yk__engine *e, yk_buffer *b, uint64_t offset, void *dst, uint64_t bytes, yk_error *err);
yk_status yk__engine_idle(yk__engine *e, yk_error *err);
yk_status yk__engine_wait_point(yk__engine *e, uint64_t point, yk_error *err);
double yk__seconds(void);

/* store.c */
yk_status yk__store_lay_out(yk__engine *e, yk_error *err); /* if it is not */
/* Writes zeros to all parameters and gradients (the gaps must be zero), or to this rank's moments. */
yk_status yk__store_zero(yk__engine *e, bool moments, yk_error *err);
void yk__store_free(yk__engine *e);
yk_status yk__store_io(yk__engine *e, yk_buffer *b, uint64_t offset, void *data, uint64_t bytes, bool write,
                       yk_error *err);
yk_status yk__store_param(yk__engine *e, uint32_t number, float *data, yk_error *err); /* reads it */

/* prog.c */
yk_status yk__prog_new(yk__engine *e, const yk__plan_request *r, yk__prog **p, yk_error *err);
void yk__prog_free(yk__engine *e, yk__prog *p);
/* What every plan of this engine has in common. */
void yk__prog_request(yk__engine *e, const yk__graph *trace, yk__plan_request *r);
/* Copies the inputs, binds, submits all segments; sums at boundaries. */
yk_status yk__prog_run(yk__engine *e, yk__prog *p, uint32_t n_input, const void *const *input, const uint64_t *bytes,
                       yk_error *err);

void yk__stage_free(yk__engine *e, yk__stage *s); /* nothing reads it any more */

/* cache.c */
yk_status yk__cache_find(yk__engine *e, const yk__micro *m, yk__prog **p, yk_error *err);
void yk__cache_clear(yk__engine *e);

/* compute.c: 16-bit copies of parameters */
yk_status yk__compute_make(yk__engine *e, yk__prog *p, yk_error *err); /* those that the program reads */
yk_status yk__compute_refresh(yk__engine *e, yk_error *err);           /* before it runs */
/* Appends the cast of a parameter's values, f32, n elements in one dimension, to its copy. */
void yk__compute_cast(const yk__engine *e, yk__graph *g, uint32_t number, yk__vid value);
void yk__compute_free(yk__engine *e);

/* optim.c: the programs of an update */
yk_status yk__optim_programs(yk__engine *e, yk_error *err);
void yk__optim_drop(yk__engine *e);

/* roles.c */
void yk__roles_begin(yk__engine *e);                    /* all are members and own even parts */
void yk__roles_cut(const yk__engine *e, yk__bucket *p);   /* the slices of a bucket */
uint32_t yk__roles_first(const yk__engine *e);          /* the first member */

/* state.c: each rank's part of a parameter, by slices of its bucket, goes to all others */
yk_status yk__state_spread(yk__engine *e, const yk__slices *s, uint64_t at, uint64_t n, float *data, yk_error *err);

/* reduce.c */
yk_status yk__reduce(yk__engine *e, yk_error *err);        /* the buckets over the ranks, once per window */
yk_status yk__gather_params(yk__engine *e, yk_error *err); /* after the owners updated their slices */
/* A device's own copies of trained parameters take what other ranks wrote while this one was excluded. No rank may be in an
 * update meanwhile. */
yk_status yk__refresh_params(yk__engine *e, yk_error *err);

#endif
