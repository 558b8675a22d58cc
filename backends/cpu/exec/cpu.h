/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU plugin's common types. One device is the cores this rank was given; a program is a list of steps, each a
 * function that is called for each of its pieces, by whichever worker is free; work is divided by shape alone so that
 * results do not depend on how many pieces and workers there are.
 */
#ifndef YOKE_BACKENDS_CPU_EXEC_CPU_H
#define YOKE_BACKENDS_CPU_EXEC_CPU_H

#include "backends/cpu/isa/isa.h"

extern const yk_host *cpu_host; /* set by init, before anything else runs */

/* ---- Running ---- */

typedef struct cpu_ref {
    uint32_t slot; /* YK_NONE: nothing */
    uint64_t offset;
} cpu_ref;

typedef struct cpu_ctx {
    char *const *slot; /* where each slot lies for this run */
    const cpu_isa *isa;
    char *shared_ws;   /* scratch of the program, seen by all workers; contents live until the node's last step */
    char *thread_ws;   /* scratch of this worker; nothing in it outlives the piece */
    int piece, pieces; /* the piece, and of how many */
} cpu_ctx;

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

/* e[0..n) gets the sum of `cuts` such vectors, `stride` numbers apart, eight of them at a time, so that few are added to one: what lies
 * behind e is lost. */
void cpu_cuts_sum(const cpu_ctx *ctx, float *e, size_t stride, int64_t cuts, size_t n);

typedef struct cpu_build cpu_build;

struct cpu_build {
    const yk_graph *graph;
    const cpu_isa *isa;
    int workers;
    struct cpu_prog *prog;
    yk_status status;
    const yk_node *node;   /* being planned */
    const char *algorithm; /* by which it is run, where there are several; NULL */
    uint32_t step;         /* steps it has so far */
    uint32_t joined;       /* nodes behind it that its steps do as well */
};

/* Memory that lives as long as the program, zeroed; NULL (and build->status) when there is none. */
void *cpu_args(cpu_build *build, size_t bytes);
/* Adds a step of a piece for each worker. work: a guess of its nanoseconds on one core; small steps are one piece. */
void cpu_emit(cpu_build *build, cpu_fn fn, const void *args, double work);
/* The same of so many pieces. */
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
