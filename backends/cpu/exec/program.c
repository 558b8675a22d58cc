/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/cpu/exec/program.h"

#include <string.h>

#include "backends/cpu/exec/pace.h"
#include "backends/cpu/exec/profile.h"
#include "backends/cpu/exec/steal.h"

#define SERIAL_NS 6000.0 /* below this a step is not worth sharing */
#define CHUNK (64 << 10)

typedef struct prog_step {
    cpu_fn fn;
    const void *args;
    cpu_profile_entry *entry; /* where its time is counted, or NULL */
    double work;              /* as in cpu_emit */
    int pieces;               /* 1: not shared */
} prog_step;

typedef struct arg_chunk {
    struct arg_chunk *next;
    size_t used, size;
} arg_chunk;

struct cpu_prog {
    prog_step *steps;
    uint32_t n_step, cap;
    arg_chunk *chunks;
    size_t thread_ws, shared_ws;
    bool serial;
    double work;
    uint32_t n_slot;
    uint8_t *uses;
    cpu_pace pace;
};

void *cpu_args(cpu_build *build, size_t bytes)
{
    cpu_prog *prog = build->prog;
    bytes = cpu_round(bytes, 64);
    arg_chunk *chunk = prog->chunks;
    if (!chunk || chunk->size - chunk->used < bytes) {
        size_t size = bytes + 64 > CHUNK ? bytes + 64 : CHUNK;
        chunk = cpu_host->alloc(size, 64);
        if (!chunk) {
            build->status = YK_E_MEM;
            cpu_host->fail("cpu", "no memory for a program (%zu bytes)", size);
            return NULL;
        }
        *chunk = (arg_chunk){prog->chunks, 64, size};
        prog->chunks = chunk;
    }
    void *at = (char *)chunk + chunk->used;
    chunk->used += bytes;
    return memset(at, 0, bytes);
}

static bool steps_grow(cpu_build *build)
{
    cpu_prog *prog = build->prog;
    uint32_t cap = prog->cap ? 2 * prog->cap : 64;
    prog_step *step;
    if (prog->n_step < prog->cap)
        return true;
    step = cpu_host->alloc(cap * sizeof *step, 64);
    if (!step) {
        build->status = YK_E_MEM;
        cpu_host->fail("cpu", "no memory for a program of %u steps", (unsigned)cap);
        return false;
    }
    if (prog->n_step)
        memcpy(step, prog->steps, prog->n_step * sizeof *step);
    cpu_host->free(prog->steps);
    prog->steps = step;
    prog->cap = cap;
    return true;
}

void cpu_emit_pieces(cpu_build *build, cpu_fn fn, const void *args, double work, int64_t pieces)
{
    cpu_prog *prog = build->prog;
    if (build->status != YK_OK || !steps_grow(build))
        return;
    if (build->workers == 1 || work < SERIAL_NS)
        pieces = 1;
    pieces = pieces > CPU_PIECES_MOST ? CPU_PIECES_MOST : pieces;
    prog->steps[prog->n_step++] =
        (prog_step){fn, args, build->node ? cpu_profile_entry_of(build, build->node, ++build->step) : NULL, work, (int)pieces};
    prog->serial = prog->serial && pieces == 1;
    prog->work += work;
}

void cpu_emit(cpu_build *build, cpu_fn fn, const void *args, double work)
{
    cpu_emit_pieces(build, fn, args, work, build->workers);
}

void cpu_need_shared_ws(cpu_build *build, size_t bytes)
{
    bytes = cpu_round(bytes, 64);
    build->prog->shared_ws = build->prog->shared_ws > bytes ? build->prog->shared_ws : bytes;
}

void cpu_need_thread_ws(cpu_build *build, size_t bytes)
{
    bytes = cpu_round(bytes, 64);
    build->prog->thread_ws = build->prog->thread_ws > bytes ? build->prog->thread_ws : bytes;
}

static const char *const op_names[] = {
#define NAME(e, name, kind, prec, tol, least, most, outs, attrs) name,
    YK_OP_TABLE(NAME)
#undef NAME
};

const char *cpu_op_name(uint32_t op)
{
    return op < YK_OP_COUNT ? op_names[op] : "?";
}

yk_status cpu_refuse(cpu_build *build, const yk_node *node, const char *why)
{
    if (build->status == YK_OK) {
        build->status = YK_E_UNSUPPORTED;
        cpu_host->fail("cpu", "node %u (%s): %s", (unsigned)node->stream, cpu_op_name(node->op), why);
    }
    return build->status;
}

bool cpu_is_dense(const yk_value *v)
{
    int64_t want = 1;
    for (int i = v->dims - 1; i >= 0; i--) {
        if (v->dim[i] != 1 && v->stride[i] != want)
            return false;
        want *= v->dim[i];
    }
    return true;
}

/* ---- Operations ---- */

typedef void (*planner)(cpu_build *build, const yk_node *node);

static const planner planners[YK_OP_COUNT] = {
    [YK_OP_NEG ... YK_OP_SELECT] = cpu_plan_map,
    [YK_OP_FILL] = cpu_plan_data,
    [YK_OP_IOTA] = cpu_plan_data,
    [YK_OP_RNG] = cpu_plan_data,
    [YK_OP_SUM] = cpu_plan_reduce,
    [YK_OP_RMAX] = cpu_plan_reduce,
    [YK_OP_ARGMAX] = cpu_plan_reduce,
    [YK_OP_COPY ... YK_OP_SCATTER_ADD] = cpu_plan_data,
    [YK_OP_UNFOLD] = cpu_plan_pool,
    [YK_OP_FOLD] = cpu_plan_pool,
    [YK_OP_DOT] = cpu_plan_dot,
    [YK_OP_MAP] = cpu_plan_map,
    [YK_OP_DOT_MAP] = cpu_plan_dot,
    [YK_OP_MAP_SUM] = cpu_plan_map_sum,
    [YK_OP_CONV2D ... YK_OP_CONV2D_DW] = cpu_plan_conv,
    [YK_OP_MAX_POOL ... YK_OP_AVG_POOL_BWD] = cpu_plan_pool,
    [YK_OP_BN_STATS ... YK_OP_SOFTMAX_BWD] = cpu_plan_norm,
    [YK_OP_ATTENTION] = cpu_plan_attention,
    [YK_OP_ATTENTION_BWD] = cpu_plan_attention,
    [YK_OP_CROSS_ENTROPY] = cpu_plan_loss,
    [YK_OP_CROSS_ENTROPY_BWD] = cpu_plan_loss,
    [YK_OP_DROPOUT] = cpu_plan_map,
    [YK_OP_RELU ... YK_OP_TANH_BWD] = cpu_plan_map,
    [YK_OP_ADAM_STEP ... YK_OP_GRAD_STATS] = cpu_plan_optim,
};

static bool all_dense(const yk_graph *graph, const yk_node *node, uint32_t from)
{
    for (uint32_t i = from; i < node->n_in; i++)
        if (!cpu_is_dense(&graph->value[graph->index[node->in + i]]))
            return false;
    return true;
}

static bool last_dense(const yk_graph *graph, const yk_node *node, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        const yk_value *v = &graph->value[graph->index[node->in + i]];
        if (v->dim[3] != 1 && v->stride[3] != 1)
            return false;
    }
    for (uint32_t i = to; i < node->n_in; i++) { /* keep; bias may have any strides */
        const yk_value *v = &graph->value[graph->index[node->in + i]];
        if (v->dims < 4 && !cpu_is_dense(v))
            return false;
    }
    return true;
}

static bool all_types(const yk_graph *graph, const yk_node *node)
{
    for (uint32_t i = 0; i < node->n_in + (uint32_t)node->n_out; i++) {
        uint32_t v = i < node->n_in ? graph->index[node->in + i] : graph->index[node->out + i - node->n_in];
        int t = graph->value[v].dtype;
        if (!cpu_is_float(t) && t != YK_I32 && t != YK_BOOL && t != YK_U8)
            return false;
    }
    return true;
}

uint32_t cpu_op_claims(const yk_graph *graph, uint32_t number)
{
    const yk_node *node = &graph->node[number];
    if (node->op >= YK_OP_COUNT || !planners[node->op] || !all_types(graph, node))
        return 0;
    switch (node->op) {
    case YK_OP_MAP:
        return node->n_out <= 4 && node->n_in <= 24 && node->n_body <= 200;
    case YK_OP_MAP_SUM:
    case YK_OP_DOT_MAP:
        return node->n_out <= 4 && node->n_in <= 24 && node->n_body <= 200;
    case YK_OP_SCATTER_ADD: /* a primitive: asked only whether it can add */
        return all_dense(graph, node, 0) && graph->value[graph->index[node->out]].dtype == YK_F32 ? 3 : 0;
    case YK_OP_CONV2D_DW:
        return all_dense(graph, node, 0) ? 3 : 0;
    case YK_OP_LAYER_NORM:
        return all_dense(graph, node, 0) ? 1 | 4 : 0;
    case YK_OP_ATTENTION:
        return last_dense(graph, node, 0, 3);
    case YK_OP_ATTENTION_BWD:
        return last_dense(graph, node, 0, 2) && cpu_is_dense(&graph->value[graph->index[node->in + 2]]) &&
               last_dense(graph, node, 3, 6);
    case YK_OP_CROSS_ENTROPY_BWD: /* the gradient of a mean is one number for all rows */
        return all_dense(graph, node, 1);
    default:
        return (node->op >= YK_OP_RELU && node->op <= YK_OP_TANH_BWD) || all_dense(graph, node, 0);
    }
}

static void note_slots(cpu_prog *prog, const yk_graph *graph, const yk_node *node)
{
    for (uint32_t i = 0; i < node->n_in; i++) {
        uint32_t s = graph->value[graph->index[node->in + i]].slot;
        if (s < prog->n_slot)
            prog->uses[s] = 1;
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        uint32_t s = graph->value[graph->index[node->out + i]].slot;
        if (s < prog->n_slot)
            prog->uses[s] = 1;
    }
}

static yk_status plan_all(cpu_build *build)
{
    const yk_graph *graph = build->graph;
    for (uint32_t i = 0; i < graph->n_node && build->status == YK_OK; i++) {
        const yk_node *node = &graph->node[i];
        if (node->op >= YK_OP_COUNT || !planners[node->op])
            return cpu_refuse(build, node, "this plugin does not run it");
        if (!all_types(graph, node))
            return cpu_refuse(build, node, "a type this plugin does not have (f32, f16, bf16, i32, u8, bool)");
        note_slots(build->prog, graph, node);
        build->node = node;
        build->step = build->joined = 0;
        planners[node->op](build, node);
        for (; build->joined; build->joined--)
            note_slots(build->prog, graph, &graph->node[++i]);
    }
    return build->status;
}

yk_status cpu_prog_new(const yk_graph *graph, const cpu_isa *isa, int nt, cpu_prog **out)
{
    cpu_prog *prog = cpu_host->alloc(sizeof *prog, 64);
    if (!prog)
        return YK_E_MEM;
    *prog = (cpu_prog){.serial = true, .n_slot = graph->n_slot};
    prog->uses = cpu_host->alloc(graph->n_slot + 1, 64);
    cpu_build build = {graph, isa, nt, prog, prog->uses ? YK_OK : YK_E_MEM, NULL, 0, 0};
    if (prog->uses) {
        memset(prog->uses, 0, graph->n_slot + 1);
        plan_all(&build);
    }
    if (build.status != YK_OK) {
        cpu_prog_free(prog);
        return build.status;
    }
    *out = prog;
    return YK_OK;
}

void cpu_prog_free(cpu_prog *prog)
{
    if (!prog)
        return;
    for (arg_chunk *chunk = prog->chunks; chunk;) {
        arg_chunk *next = chunk->next;
        cpu_host->free(chunk);
        chunk = next;
    }
    cpu_host->free(prog->steps);
    cpu_host->free(prog->uses);
    cpu_host->free(prog);
}

size_t cpu_prog_thread_ws(const cpu_prog *prog)
{
    return cpu_round(prog->thread_ws, 4096) + 64;
}

size_t cpu_prog_shared_ws(const cpu_prog *prog)
{
    return cpu_round(prog->shared_ws, 4096);
}

size_t cpu_prog_scratch(const cpu_prog *prog, int nt)
{
    return cpu_prog_shared_ws(prog) + (prog->serial ? 1 : (size_t)nt) * cpu_prog_thread_ws(prog);
}

bool cpu_prog_is_serial(const cpu_prog *prog)
{
    return prog->serial;
}

double cpu_prog_work(const cpu_prog *prog)
{
    return prog->work;
}

bool cpu_prog_uses(const cpu_prog *prog, uint32_t slot)
{
    return slot < prog->n_slot && prog->uses[slot];
}

uint32_t cpu_prog_slots(const cpu_prog *prog)
{
    return prog->n_slot;
}

/* ---- A run ---- */

typedef struct prog_run {
    const cpu_prog *prog;
    const cpu_bound *bound;
    uint32_t steps; /* that are begun */
    uint64_t begun; /* when the last of them was */
} prog_run;

static void run_piece(void *arg, int worker, int piece, int pieces)
{
    const prog_run *run = arg;
    const cpu_prog *prog = run->prog;
    const prog_step *step = &prog->steps[run->steps - 1];
    const cpu_ctx ctx = {run->bound->slot, run->bound->isa, run->bound->scratch,
                       run->bound->scratch + cpu_prog_shared_ws(prog) + (size_t)worker * cpu_prog_thread_ws(prog), piece, pieces};
    step->fn(step->args, &ctx);
}

/* Does what is not shared, up to the next step that is. */
static cpu_phase run_next(void *arg, int worker)
{
    prog_run *run = arg;
    const cpu_prog *prog = run->prog;
    if (run->steps)
        run->begun = cpu_profile_add(prog->steps[run->steps - 1].entry, run->begun);
    while (run->steps < prog->n_step) {
        const prog_step *step = &prog->steps[run->steps++];
        if (step->pieces > 1)
            return (cpu_phase){step->pieces, step->work};
        run_piece(run, worker, 0, 1);
        run->begun = cpu_profile_add(step->entry, run->begun);
    }
    return (cpu_phase){0, 0.0};
}

void cpu_prog_run(cpu_prog *prog, const cpu_bound *bound, cpu_pool *pool)
{
    prog_run run = {prog, bound, 0, cpu_profile_now()};
    const int n = cpu_pool_size(pool);
    if (prog->serial) {
        run_next(&run, 0);
        return;
    }
    const uint64_t begun = cpu_now_ns();
    cpu_pool_run(pool, &(cpu_work){run_piece, run_next, &run}, cpu_pace_workers(&prog->pace, n));
    cpu_pace_record(&prog->pace, n, (double)(cpu_now_ns() - begun));
}
