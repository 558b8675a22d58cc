/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: one rank's device, its parameters, gradients and optimizer state, and the cache of planned programs.
 *
 * The layer above (core/job) traces a micro batch into a yk__graph and hands it to yk__engine_run. The engine looks the trace up, or
 * differentiates, autocasts, claims, fuses, plans and compiles it (core/plan). Then it binds buffers and submits. After the last micro
 * batch of a window yk__engine_update reduces the gradients over the ranks and clips them. It updates the slices this rank owns and gathers
 * the parameters.
 *
 * Leaves of a trace are values in slots of their own. The slot's key names the bound object:
 *   YK_SLOT_PARAM  key = parameter number (from yk__engine_param), f32, dense, whole parameter
 *   YK_SLOT_STATE  key = state number (from yk__engine_state)
 *   YK_SLOT_INPUT  key = number of the input in yk__micro.input
 *
 * Thread rule: one thread, apart from threads that the engine starts itself.
 */
#ifndef YOKE_CORE_RUN_RUN_H
#define YOKE_CORE_RUN_RUN_H

#include "core/device/device.h"
#include "core/graph/graph.h"
#include "core/group/group.h"
#include "core/plan/plan.h"
#include "core/run/values/value_source.h"

#define YK__POWER_RANKS 64u /* largest rank of PowerSGD */

typedef struct yk__engine yk__engine;

typedef struct yk__engine_config {
    yk_dtype precision;      /* YK_F32, YK_BF16, YK_F16: compute format of LOWP ops */
    bool rounds8;            /* with YK_BF16: operands of linear layers' products are rounded to 8 bits */
    uint64_t memory_limit;   /* most bytes of the device; 0: no limit, see yk__engine_budget */
    uint64_t bucket_bytes;   /* size of gradients reduced together; 0: 16 MiB (YOKE_BUCKET_BYTES), or 1 GiB in a job of one rank */
    uint64_t unit_bytes;     /* replaces YOKE_BUCKET_BYTES in that rule, equal on all ranks; 0: it does not */
    uint32_t power_rank;     /* rank of PowerSGD (powersgd.h), equal on all ranks; 0: no PowerSGD */
    bool scatters;           /* gradients are summed over ranks in backward, and each rank keeps its slices; equal on all ranks. A rank
                                alone does it if its host updates */
    bool slices;             /* with it: a device with memory of its own keeps its slices of the parameters; equal on all ranks */
    bool slices_by_host;     /* each host has all parameters; else over messages ranks pull them from their owners */
    bool pulls_stay;         /* and pulls a bucket once in a run, not for forward and backward */
    uint32_t pulls_ahead;    /* buckets that are pulled early; 0 over messages without slices_by_host: 1 */
    uint64_t keep_whole;     /* elements of a bucket up to which it stays whole */
    bool local_sgd;          /* this rank updates parameters of its own, from yk__engine_average to the next; equal on all ranks */
    const struct yk__way *way; /* a way to exchange (way.h) before those of the table, by which tests bring their own; NULL for none */
    const struct yk__home *home; /* the same of homes of parameters (home.h) */
    const struct yk__action_row *action; /* the same of kinds of actions (actions.h) */
    uint64_t cache_bytes;    /* host memory for programs kept, besides programs in use; 0: 64 MiB */
    uint32_t cache_most;     /* programs kept; 0: 96 */
    bool inference;          /* no parameter has a gradient */
    const uint32_t *parts;   /* by rank: fixed parts of slices, before roles are set, and no island evens them; NULL: even parts at first */
    bool offloads;           /* ranks with memory of their own update on the host (host_device.h), which has slices of parameters, too;
                                equal on all ranks */
    double host_part;        /* with it: the part of the trained elements whose buckets the host updates, below 1; 0: all. Not with
                                all_on_host or state_dir */
    bool all_on_host;        /* with it and slices: frozen parameters lie on the host, too, and programs pull them */
    bool stores;             /* a device with memory of its own leaves activations on the host between forward and backward */
    const yk__placement *host; /* the host's device for it: a processor's; needed on such a rank */
    const char *state_dir;   /* with offloads: the optimizer's moments lie in files of this folder, a rank's in one; NULL: in memory */
    uint64_t state_block;    /* elements of a moment that a step takes from there at a time; 0: 1 Mi */
} yk__engine_config;

/* A device that plans only (yk__device_plan_only) counts memory as in a run, and its reads leave the caller's values unchanged. A format
 * the device cannot compute in is an error that names the format, the device and the device's formats. */
yk_status yk__engine_new(yk__device *dev, yk__group *group, const yk__engine_config *c, yk__engine **e, yk_error *err);
/* Returns once nothing runs on the device, which then does nothing more: for a job that was cancelled. */
void yk__engine_stop(yk__engine *e);
/* Other ranks pull slices from this rank, which must take part in all steps. */
bool yk__engine_is_pulled(const yk__engine *e);
/* Returns once no rank pulls slices from this rank any more: before yk__engine_free, unless the job has failed. All ranks call it. */
yk_status yk__engine_leave(yk__engine *e, yk_error *err);
void yk__engine_free(yk__engine *e);
bool yk__engine_lost(const yk__engine *e); /* its host device hangs, and may still use memory that it was given; e may be NULL */
/* The first parts of slices follow the ranks' memory if even ones do not fit. Before the layout; on all ranks. */
void yk__engine_fit_parts(yk__engine *e);
/* Sets the bytes of the device that this rank has: plans keep to them if recomputation can. Before the first run. */
void yk__engine_budget(yk__engine *e, uint64_t bytes);
/* Adds the remedies of a job that has no memory for its rows; times: by which they are too many. */
void yk__engine_advise(yk__engine *e, uint64_t rows, uint64_t times, yk_error *err);

/* ---- Parameters and states: declared before the first run that uses them; host data is dense --------------------------- */

/* Declares a parameter. *number: its number. Values are undefined until written. */
yk_status yk__engine_param(yk__engine *e, const char *name, uint64_t n, bool trained, uint32_t *number, yk_error *err);
void yk__engine_param_rows(yk__engine *e, uint32_t number, uint64_t rows); /* the parameter is a matrix of so many rows */
yk_status yk__engine_param_trained(yk__engine *e, uint32_t number, bool trained, yk_error *err); /* before the first update */
yk_status yk__engine_state(yk__engine *e, const char *name, yk_dtype dtype, uint64_t n, uint32_t *number, yk_error *err);
yk_status yk__engine_param_write(yk__engine *e, uint32_t number, const float *data, yk_error *err);
/* Gives a parameter values that are made or read by range, when and where there is memory for them: an owner of far slices asks for its
 * slices alone. The engine takes the source, after a failure too. */
yk_status yk__engine_param_give(yk__engine *e, uint32_t number, yk__source source, yk_error *err);
yk_status yk__engine_param_read(yk__engine *e, uint32_t number, float *data, yk_error *err);
/* The same for elements [from, from + n). */
yk_status yk__engine_param_part(yk__engine *e, uint32_t number, uint64_t from, uint64_t n, float *data, yk_error *err);
yk_status yk__engine_grad_read(yk__engine *e, uint32_t number, float *data, yk_error *err); /* reduced, before clipping;
                                                                                               collective */
yk_status yk__engine_state_write(yk__engine *e, uint32_t number, const void *data, yk_error *err);
yk_status yk__engine_state_read(yk__engine *e, uint32_t number, void *data, yk_error *err);
/* Hash over all parameters in order of number, as this rank's device reads them. */
yk_status yk__engine_hash(yk__engine *e, uint64_t *hash, yk_error *err);
/* The hash of values, and of the 16-bit copies that a rank's products read: `copied` names the copies, `copies` hashes their contents. */
typedef struct yk__hashes {
    uint64_t values, copied, copies;
} yk__hashes;
/* Elements [from, to) of all parameters in order of number. */
typedef struct yk__span {
    uint64_t from, to;
} yk__span;
#define YK__SPAN_ALL ((yk__span){0, UINT64_MAX})
yk_status yk__engine_hashes(yk__engine *e, yk__span part, yk__hashes *h, yk_error *err);
/* The part that is compared in a turn, so that a comparison costs a step little even with a large model. The turns cover all parts. */
yk__span yk__engine_hash_part(const yk__engine *e, uint64_t turn);
/* Copies are compared only if both ranks have copies of the same parameters. */
bool yk__hashes_agree(const yk__hashes *a, const yk__hashes *b);

/* ---- One micro batch ------------------------------------------------------------------------------------------------------ */

typedef struct yk__micro {
    yk__graph *trace;          /* the caller's; not changed; may be cleared after the call */
    yk__vid loss;              /* scalar f32 to differentiate, or YK_NONE: forward only */
    yk__vid seed;              /* scalar f32 leaf: gradient of the loss (holds the loss scale) */
    bool first;                /* first of its window: gradients are written, else added to */
    bool empty;                /* this rank has no rows: only a trace with sums over ranks runs; else, with first, gradients become zero */
    uint64_t rows;             /* rows in this rank's batch, for messages; 0: unknown */
    uint32_t n_input;
    const void *const *input;  /* host data per input number, copied before the call returns */
    const uint64_t *input_bytes;
    uint32_t n_result;
    const yk__vid *result;     /* values whose contents the host wants, dense */
    void *const *result_host;  /* destinations: f32 (16-bit floats are widened), i32 or bool; valid after yk__engine_wait */
    uint32_t n_assign;
    const yk__assign *assign;
    uint32_t n_recompute;
    const yk__recompute *recompute;
    uint32_t n_full;
    const yk__full *full;
} yk__micro;

/* Submits. *ticket: for yk__engine_wait. Collective when the trace holds an all_reduce (all ranks run the same ops). */
yk_status yk__engine_run(yk__engine *e, const yk__micro *m, uint64_t *ticket, yk_error *err);

typedef enum yk__prepared {
    YK__PREPARED,   /* it is there */
    YK__PREPARING,  /* it, or another program, is being made */
    YK__UNPREPARED, /* it could not be made: the run makes it */
} yk__prepared;
/* Makes the program of a later micro batch in a thread of its own, while this thread runs others, for a step of so many members. It takes
 * m->trace, and leaves it initialised; of inputs and results it reads the numbers alone. One program is made at a time, so the caller asks
 * again later. */
yk__prepared yk__engine_prepare(yk__engine *e, yk__micro *m, uint32_t members);
bool yk__engine_prepares(yk__engine *e); /* a program is being made so */
/* Waits until the results of that ticket are in host memory (0: until all commands are done). */
yk_status yk__engine_wait(yk__engine *e, uint64_t ticket, yk_error *err);

/* ---- Timelines (tracer.h) ------------------------------------------------------------------------------------------------- */

/* Adds a span of the step thread from begin_ns (yk__clock_ns) until now. `what` is a string that stays. Does nothing without a trace. */
void yk__engine_trace_span(yk__engine *e, const char *what, uint64_t number, int64_t begin_ns);
/* Does nothing if YOKE_TRACE asks for a trace of the whole process: that trace has its own steps, and *text stays NULL. */
yk_status yk__engine_trace_begin(yk__engine *e, yk_error *err);
/* Waits for the device. *text: this rank's events, JSON objects with commas between; the caller's to free. */
yk_status yk__engine_trace_end(yk__engine *e, char **text, yk_error *err);

/* ---- The end of a window ----------------------------------------------------------------------------------------------------- */

typedef enum yk__opt_kind { YK_OPT_NONE, YK_OPT_SGD, YK_OPT_ADAM } yk__opt_kind;

typedef struct yk__opt_layout {
    yk__opt_kind kind;
    uint32_t flags;           /* YK_OPT_* of plugin.h */
    bool momentum;            /* sgd keeps a buffer */
    uint32_t n_group;
    const uint32_t *group_of; /* by parameter number */
} yk__opt_layout;

/* Says the optimizer early, so that a layout knows its memory. group_of is not read. On all ranks. */
void yk__engine_expect(yk__engine *e, const yk__opt_layout *layout);
/* Makes memory for the state of this rank's slices. Once, before the first update. */
yk_status yk__engine_optimizer(yk__engine *e, const yk__opt_layout *layout, yk_error *err);

typedef struct yk__update {
    const float (*hyper)[YK_HYPER_COUNT]; /* per group; GRAD_SCALE and CLIP are filled in by the engine */
    double divisor;        /* the gradients' sum is divided by this (items or micro batches x loss scale) */
    double clip_norm;      /* 0: none */
    double clip_value;     /* 0: none */
    bool check_finite;     /* skip the update if any rank has a gradient that is not finite */
    bool rests;            /* LocalSGD: this rank has no gradients, its parameters stay */
    uint32_t sign;         /* of the update's settings, 20 bits; an update of ranks with unlike signs fails */
} yk__update;

typedef struct yk__updated {
    double grad_norm;      /* L2 after division, before clipping */
    bool skipped;          /* not finite; nothing was changed */
    uint32_t bad_param;    /* then: first parameter with such a gradient, or UINT32_MAX */
    bool not_finite;       /* the error says that gradients are not finite, on all ranks */
    bool unlike;           /* the error says that signs differ, on all ranks; nothing was changed */
} yk__updated;

/* Collective. After an error only out->not_finite and out->unlike are set. */
yk_status yk__engine_update(yk__engine *e, const yk__update *u, yk__updated *out, yk_error *err);

/* The loss scale is `factor` times the last one: scales the rounding errors that are added to the next gradients. */
void yk__engine_scale_errors(yk__engine *e, double factor);

/* LocalSGD: parameters, or moments, become the mean over all ranks, weighted by each rank's `weight` (rows, say; equal weights if all are
 * 0). Collective, between windows; gradients are lost. Does nothing without LocalSGD or other ranks. */
yk_status yk__engine_average(yk__engine *e, double weight, yk_error *err);
yk_status yk__engine_average_moments(yk__engine *e, double weight, yk_error *err);

/* The rank that updates element `at` of a trained parameter, and has its moments. *to: the end of that rank's elements. YK_NONE for a
 * parameter that no rank updates, and before there is a layout: each rank has all values. */
uint32_t yk__engine_owner(const yk__engine *e, uint32_t number, uint64_t at, uint64_t *to);
/* Elements [from, from + n) of the optimizer's state by parameter, or those up to its end (kinds 0..n-1: sgd momentum; adam m, v, vmax).
 * single: this rank owns them, and calls alone. Else all ranks call, and each gets them. In LocalSGD each rank gets its own moments, so
 * average them first. */
uint32_t yk__engine_moments(const yk__engine *e);
yk_status yk__engine_moment_read(yk__engine *e, uint32_t kind, uint32_t number, uint64_t from, uint64_t n, bool single, float *data,
                                 yk_error *err);
/* Reads this rank's slice of a moment from the source, which stays the caller's. */
yk_status yk__engine_moment_give(yk__engine *e, uint32_t kind, uint32_t number, const yk__source *source, yk_error *err);
/* All ranks call it before a checkpoint is written. Parameters that travel rounded become exact on all ranks, as their owners have them.
 * Rounding errors of gradients, which are in no checkpoint, are dropped. So a job that resumes has the bits of the job that wrote the
 * checkpoint. */
yk_status yk__engine_whole(yk__engine *e, yk_error *err);

/* ---- The last whole step: the part of a rank that dies stays for the ranks that are left (docs/decisions/0027) ------------- */

bool yk__engine_can_snapshot(const yk__engine *e);   /* several ranks, which have memory in common */
bool yk__engine_snapshot_packs(const yk__engine *e); /* this rank is the first member, whose bytes are kept */
/* Keeps parameters, states and moments as they are now, with `bytes` of the caller's (the first member's count), `capacity` at most. All
 * ranks call it between windows, with equal capacity. The first call waits for the other ranks, later calls only for the device. */
yk_status yk__engine_snapshot(yk__engine *e, const void *host, uint64_t bytes, uint64_t capacity, yk_error *err);

typedef struct yk__kept_step {
    uint64_t bytes;
    const void *host; /* the caller's bytes; valid as long as the engine */
    int copy;
} yk__kept_step;

/* After the job has failed: the newest state that all members have kept. False if there is none, or another rank asked first. */
bool yk__engine_snapshot_claim(yk__engine *e, yk__kept_step *kept);
const float *yk__engine_snapshot_param(const yk__engine *e, const yk__kept_step *kept, uint32_t number);
const float *yk__engine_snapshot_moment(const yk__engine *e, const yk__kept_step *kept, uint32_t kind, uint32_t number);
const void *yk__engine_snapshot_state(const yk__engine *e, const yk__kept_step *kept, uint32_t number);

/* ---- Roles: the members of a step, and each owner's part of the parameters ------------------------------------------------- */

/*
 * A member takes part in the collectives of every step, with rows or without. An owner updates part of the trained parameters and holds the
 * moments of that part. Rank r owns owns[r] / (sum of owns) of each bucket, in whole multiples of 64 elements. A rank with 0 owns nothing.
 * Only a member can own. At first all ranks are members and own even parts.
 */
typedef struct yk__roles {
    const bool *member; /* by rank */
    const double *owns;
} yk__roles;

/*
 * Collective over all ranks, excluded ones too, with equal roles (else all ranks get an error). Call it between accumulation windows, that
 * is before the first micro batch of one. Before yk__engine_optimizer it only lays out; later moments move to their new owners, once (as
 * slow as in a checkpoint). Results have the same bits with any roles.
 */
yk_status yk__engine_set_roles(yk__engine *e, const yk__roles *roles, yk_error *err);
const yk__roles *yk__engine_roles(const yk__engine *e); /* its arrays change with the next roles */
/*
 * A rank that is no member is excluded. Its runs must be empty and run nothing; its updates return the members' results, each at the rank's
 * own time (see core/coll/coll.h). Before all ranks read or save parameters or states, this call brings excluded ranks up to date.
 * Collective over all ranks.
 */
yk_status yk__engine_catch_up(yk__engine *e, yk_error *err);

/* ---- Reports -------------------------------------------------------------------------------------------------------------------- */

typedef struct yk__engine_stats {
    uint64_t peak_bytes;      /* device memory held: parameters, gradients, state, arena, inputs, scratch */
    uint64_t param_bytes, grad_bytes, state_bytes, arena_bytes, input_bytes;
    uint64_t sliced_bytes;    /* part of these that grows with the elements that this rank owns: state, sums and values in slices */
    uint64_t kept_bytes;      /* largest part of the arena that a loss's forward leaves behind for its backward */
    uint64_t scratch_bytes;   /* the plugin's memory beside the slots, if it reports it */
    uint64_t shared_bytes;    /* host memory shared by the ranks, beside the above: gradients and updated parameters */
    uint64_t host_bytes;      /* this rank's memory on the host, if the host updates: moments, sums in slices, and, on an only rank,
                                 gradients and parameters; and activations between forward and backward */
    uint64_t disk_bytes;      /* this rank's file of moments */
    double busy_seconds;      /* a yk__engine_run's own computing time, without waits for other ranks. In a group of one it is
                                 the last run's, else that of the last timed run with a loss */
    uint64_t compiles, hits;  /* counts of the program cache */
    /* Seconds of the last update, for the roles, in a group of more than one. update_seconds: this rank's time for the elements it owns
     * (the optimizer, and on a device with memory of its own the way to shared memory). copy_seconds: such a device's time to take the
     * elements that other ranks updated. It is timed, as runs are, if yk__engine_measure asks for it; it stays 0 on a device that reads
     * shared memory. */
    double update_seconds, copy_seconds;
    uint64_t update_elements, copy_elements; /* elements that were timed; 0: none yet */
    uint64_t trained_elements; /* elements of all ranks' parts together */
    uint64_t host_elements;    /* in buckets that the host updates for ranks with memory of their own, if the job offloads */
    double plan_seconds;      /* seconds of the last compile */
    uint64_t plans, plan_bytes; /* in the cache now; host memory of these plans */
    uint64_t accounts;          /* programs made so far whose compiler said their memory (yk_plugin.program_memory) */
    yk_program_memory largest;  /* the account of the one among them that takes most */
    double compile_seconds;     /* seconds in compilations so far */
} yk__engine_stats;
void yk__engine_stats_get(const yk__engine *e, yk__engine_stats *s);
/* Shows each plan in the cache, for a count of its work. The plans stay the engine's, and are valid during the call. */
void yk__engine_each_plan(const yk__engine *e, void (*see)(void *arg, const yk__plan *plan), void *arg);
/* Times the runs that follow (in a group of more than one), or no longer: timed runs wait for the device before and after. */
void yk__engine_measure(yk__engine *e, bool on);

#endif
