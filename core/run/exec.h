/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Execution: planned graphs as programs of the device, their cache, and the run of a program's list of instructions.
 */
#ifndef YOKE_CORE_RUN_EXEC_H
#define YOKE_CORE_RUN_EXEC_H

#include "core/run/instance.h"
#include "core/run/list.h"
#include "core/run/values/params.h"

/* A planned and compiled graph. */
typedef struct yk__prog {
    yk__plan *plan;
    yk__list list;
    yk_program **program; /* per segment; NULL if the segment has nothing to run */
    uint32_t n_slot, n_input;
    yk_buffer **slot;     /* buffers that the segment to submit touches */
    uint64_t *slot_offset, *slot_version, *input_offset, *input_size;
    uint64_t input_bytes;
    uint64_t key, used;   /* for the cache: its key, and `runs` at its last use */
    uint64_t bytes;       /* host memory of the plan */
    uint64_t least_bytes;      /* a planning that failed: the least arena, if it passes the limit; else 0 */
    uint64_t scratch_bytes;    /* the plugin's memory beside the slots */
    uint64_t accounts;         /* its segments whose compiler said their memory */
    yk_program_memory largest; /* the account of the one among them that takes most */
    double compile_seconds;
    bool reads_compute;   /* copies of parameters in the compute format */
    bool settles;         /* the run waits for parameters on their way before it begins, instead of its segments */
    bool is_update;       /* its inputs are few numbers, and occupy no stage of a micro batch */
} yk__prog;

/* Programs that a thread was asked to make for one number of rows, by key. */
typedef struct yk__tried {
    uint64_t rows;
    uint32_t n;
    bool reported; /* a failure of one is in the log */
    uint64_t key[8];
} yk__tried;

typedef struct yk__exec {
    yk__queue *queue;
    yk__exchange *exchange;
    yk__params *params;
    const yk__action_row *first_action; /* a row before the table of kinds of actions; NULL for none */
    bool stores;                     /* programs leave activations on the host between forward and backward */
    uint64_t cache_bytes;            /* host memory for programs kept, besides programs in use */
    uint32_t cache_most;             /* programs kept */
    yk__instance instance;           /* the memory of the programs' runs */
    uint64_t runs;                   /* number of runs so far: the version of slots that a run writes */
    yk__prog **prog;                 /* the cache */
    size_t n_prog, cap_prog;
    uint64_t prog_bytes;             /* host memory of the cached plans */
    yk__prog *zero_prog;             /* writes zeros to the buckets */
    yk__prog *cast_prog[2];          /* casts trained parameters, all parameters */
    yk__prog **bucket_cast;          /* [n_bucket]: casts that bucket; NULL before one is needed */
    /* Called after a segment has waited for a bucket of parameters; may be NULL. */
    yk_status (*bucket_came)(struct yk__exec *exec, uint32_t bucket, yk_error *err);
    uint32_t n_cast;                 /* parameters with a copy when the casts were made */
    struct yk__ahead *ahead;         /* a program that another thread makes; NULL for none */
    yk__tried tried;                 /* programs that it was asked to make */
    uint64_t compiles, hits;         /* counts of the cache */
    double plan_seconds;             /* seconds of the last compile */
    uint64_t accounts;               /* programs whose compiler said their memory (yk_plugin.program_memory) */
    yk_program_memory largest;       /* the account of the one among them that takes most */
    double compile_seconds;          /* seconds in compilations so far */
    uint64_t kept_bytes;             /* part of the arena that forward leaves for backward, at most */
} yk__exec;

/* ---- prog.c: making programs ---- */

/* Fills the part of a request that all plans of this engine have in common. */
void yk__prog_request(const yk__exec *exec, const yk__graph *trace, yk__plan_request *r);
/* Changes a request to one for a step of so many members. */
void yk__prog_for_members(const yk__exec *exec, uint32_t members, yk__plan_request *r);
/* Plans and compiles; step thread. */
yk_status yk__prog_new(yk__exec *exec, const yk__plan_request *r, yk__prog **p, yk_error *err);
/* The results of a program that exchanges nothing, and the buckets behind each of which it is cut (0: it is not). */
typedef struct yk__prog_ends {
    uint32_t n_updated, n_result;
    const yk__vid *result;
} yk__prog_ends;
/* Makes a program that exchanges nothing, and frees its graph. Fails with the graph's error if it has one. */
yk_status yk__prog_of_graph(yk__exec *exec, yk__graph *g, yk__prog_ends ends, yk__prog **p, yk_error *err);
void yk__prog_free(const yk__device *dev, yk__prog *p);

/* Everything that a program is made of besides its request: constant while the engine lives. */
typedef struct yk__prog_maker {
    yk__device *dev;
    const yk__action_row *first_action;
    const volatile int *cancel, *stop; /* the job's end; the thread's, NULL for none */
    uint64_t arena_most; /* a larger plan is refused before it is compiled; 0: none is */
} yk__prog_maker;

/* yk__prog_new in two, for a program that another thread makes while the step thread runs others. The first half plans and compiles in any
 * thread: nothing that it reads through the request changes meanwhile. The second half gives it memory in the step thread, before its first
 * run; after a failure the caller frees the program. */
yk__prog_maker yk__prog_maker_of(const yk__exec *exec);
yk_status yk__prog_make(const yk__prog_maker *maker, const yk__plan_request *r, yk__prog **p, yk_error *err);
yk_status yk__prog_adopt(yk__exec *exec, yk__prog *p, yk_error *err);
/* YK_E_MEM if its plan has a larger arena; arena_most 0: none is. */
yk_status yk__prog_fits(const yk__prog *p, uint64_t arena_most, yk_error *err);

/* ---- exec.c: running them ---- */

/* Copies the inputs and executes the list. The program's commands may still run when it returns. */
yk_status yk__prog_run(yk__exec *exec, yk__prog *p, yk__inputs inputs, yk_error *err);

/* ---- micro_request.c ---- */

/* The request for the program of a micro batch. Its lists are its own, or the micro batch's. */
typedef struct yk__micro_request {
    yk__plan_request plan;
    yk__plan_param *param;
    uint64_t *bucket_bytes;
    bool *pulls; /* by bucket: a program pulls it */
} yk__micro_request;
yk_status yk__micro_request_make(const yk__exec *exec, const yk__micro *m, bool zero, yk__micro_request *r, yk_error *err);
void yk__micro_request_free(yk__micro_request *r);
/* Bytes left for the arena: the device's memory less all other buffers, and less the memory that inputs and results will need. 0 if the
 * size of the memory is unknown. */
uint64_t yk__micro_arena_most(const yk__exec *exec, const yk__micro *m);

/* ---- cache.c ---- */

/* Finds or makes the program of a micro batch; with m NULL, the program that writes zeros to the buckets. */
yk_status yk__cache_find(yk__exec *exec, const yk__micro *m, yk__prog **p, yk_error *err);
/* Frees all programs, also one that is being made. */
void yk__cache_clear(yk__exec *exec);
/* For ahead.c: the key of a program in a step of so many members, room for one more program, and its entry. */
typedef struct yk__cache_entry {
    yk__prog *prog; /* the cache takes it, but not after a failure */
    uint64_t key;
    bool trains;
    double seconds; /* that it took to make */
} yk__cache_entry;
uint64_t yk__cache_key(const yk__exec *exec, const yk__micro *m, uint32_t members);
bool yk__cache_has(yk__exec *exec, uint64_t key);
yk_status yk__cache_reserve(yk__exec *exec, yk_error *err);
yk_status yk__cache_add(yk__exec *exec, const yk__cache_entry *entry, yk_error *err);

/* ---- ahead.c: a program that another thread makes (run.h) ---- */

yk__prepared yk__ahead_prepare(yk__exec *exec, yk__micro *m, uint32_t members);
/* True while a program is being made; gives a finished one to the cache. */
bool yk__ahead_runs(yk__exec *exec);
/* Waits for the program of that key, if it is being made, and gives it to the cache. */
void yk__ahead_await(yk__exec *exec, uint64_t key);
/* Waits for the thread, and frees its program. */
void yk__ahead_end(yk__exec *exec);

/* ---- compute.c: copies of parameters in the compute format ---- */

/* Renews the copies before a program reads them. If parameters come as messages and `whole` is false, each segment renews the copies of the
 * buckets it waits for. */
yk_status yk__compute_refresh(yk__exec *exec, bool whole, yk_error *err);
/* Appends the cast of n of a parameter's values, f32, in one dimension, to elements from `at` on of its copy. */
void yk__compute_cast(const yk__params *p, yk__graph *g, uint32_t number, uint64_t at, uint64_t n, yk__vid value);
void yk__compute_drop(yk__exec *exec); /* the programs */

/* ---- fill.c ---- */

/* Writes zeros to all parameters and gradients (the gaps must be zero), or to this rank's moments only. */
yk_status yk__fill_zero(yk__exec *exec, bool moments, yk_error *err);

#endif
