/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU plugin's common types. One device is the cores of this rank. A program is a list of steps; a step is a function that any free
 * worker calls for each piece. A result does not depend on the number of pieces and workers, as one piece computes it whole.
 */
#ifndef YOKE_BACKENDS_CPU_EXEC_CPU_H
#define YOKE_BACKENDS_CPU_EXEC_CPU_H

#include <stdatomic.h>

#include "backends/cpu/isa/isa.h"

extern const yk_host *cpu_host; /* init sets it before any other call */

/* ---- Running ---- */

typedef struct cpu_ref {
    uint32_t slot; /* YK_NONE if unused */
    uint64_t offset;
} cpu_ref;

typedef struct cpu_ctx {
    char *const *slot; /* address of each slot in this run */
    const cpu_isa *isa;
    char *shared_ws;   /* scratch of the program, shared by all workers; contents live until the node's last step */
    char *thread_ws;   /* scratch of this worker; contents live until the end of the piece */
    int piece, pieces; /* index of the piece; number of pieces */
    const atomic_int *stop; /* set by another thread to end the run; NULL: nothing ends it */
} cpu_ctx;

/* True once the run is to end. Its outputs are undefined then, so a long loop of a step leaves the rest, every few milliseconds. */
static inline bool cpu_stops(const cpu_ctx *ctx)
{
    return ctx->stop && atomic_load_explicit(ctx->stop, memory_order_relaxed);
}

typedef void (*cpu_fn)(const void *args, const cpu_ctx *ctx);

static inline void *cpu_at(const cpu_ctx *ctx, cpu_ref r)
{
    return r.slot == YK_NONE ? NULL : ctx->slot[r.slot] + r.offset;
}

/* The part [*lo, *hi) of n items of piece `piece` of `pieces`. */
static inline void cpu_part(int64_t n, int piece, int pieces, int64_t *lo, int64_t *hi)
{
    *lo = n * piece / pieces;
    *hi = n * (piece + 1) / pieces;
}

/* e[0..n) becomes the sum of `cuts` such vectors, `stride` numbers apart. It adds eight at a time, so that few terms are added to one
 * number, and destroys the vectors after e. */
void cpu_cuts_sum(const cpu_ctx *ctx, float *e, size_t stride, int64_t cuts, size_t n);

typedef struct cpu_build cpu_build;

struct cpu_build {
    const yk_graph *graph;
    const cpu_isa *isa;
    int workers;
    struct cpu_prog *prog;
    yk_status status;
    const yk_node *node;   /* being planned */
    const char *algorithm; /* name of the chosen algorithm, if there are several; NULL */
    uint32_t step;         /* steps it has so far */
    uint32_t joined;       /* later nodes that its steps include */
};

/* Zeroed memory that lives as long as the program; NULL, with build->status set, if memory is out. */
void *cpu_args(cpu_build *build, size_t bytes);
/* Adds a step of a piece for each worker. work: a guess of its nanoseconds on one core; small steps are one piece. */
void cpu_emit(cpu_build *build, cpu_fn fn, const void *args, double work);
/* The same with so many pieces. */
void cpu_emit_pieces(cpu_build *build, cpu_fn fn, const void *args, double work, int64_t pieces);
/* Scratch of this node, shared or per worker: at least this many bytes, 64-byte aligned. */
void cpu_need_shared_ws(cpu_build *build, size_t bytes);
void cpu_need_thread_ws(cpu_build *build, size_t bytes);
/* The reason a node cannot be run. */
yk_status cpu_refuse(cpu_build *build, const yk_node *n, const char *why);

static inline const yk_value *cpu_in(const cpu_build *build, const yk_node *n, uint32_t i)
{
    return &build->graph->value[build->graph->index[n->in + i]];
}

static inline const yk_value *cpu_out(const cpu_build *build, const yk_node *n, uint32_t i)
{
    return &build->graph->value[build->graph->index[n->out + i]];
}

static inline int64_t cpu_attr(const cpu_build *build, const yk_node *n, uint32_t i)
{
    return i < n->n_attr ? build->graph->attr[n->attr + i] : 0;
}

static inline cpu_ref cpu_ref_of(const yk_value *v)
{
    return (cpu_ref){v->slot, v->offset};
}

static inline bool cpu_is_float(int dtype)
{
    return dtype == YK_F32 || dtype == YK_F16 || dtype == YK_BF16;
}

#endif
