/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/cpu/exec/program.h"

#include <string.h>

#include "backends/cpu/exec/pace.h"
#include "backends/cpu/exec/profile.h"
#include "backends/cpu/exec/steal.h"

#define SERIAL_NS 6000.0 /* below this a step is not worth sharing */
#define CHUNK (64 << 10)

typedef struct step {
    cpu_fn fn;
    const void *args;
    cpu_line *line; /* where its time is counted, or NULL */
    double work;    /* as in cpu_emit */
    int pieces;     /* 1: not shared */
} step;

typedef struct chunk {
    struct chunk *next;
    size_t used, size;
} chunk;

struct cpu_prog {
    step *steps;
    uint32_t n, room;
    chunk *chunks;
    size_t mine, shared;
    bool serial;
    double work;
    uint32_t n_slot;
    uint8_t *uses;
    cpu_pace pace;
};

void *cpu_args(cpu_build *b, size_t bytes)
{
    cpu_prog *p = b->p;
    bytes = cpu_round(bytes, 64);
    chunk *c = p->chunks;
    if (!c || c->size - c->used < bytes) {
        size_t size = bytes + 64 > CHUNK ? bytes + 64 : CHUNK;
        c = cpu_host->alloc(size, 64);
        if (!c) {
            b->status = YK_E_MEM;
            cpu_host->fail("cpu", "no memory for a program (%zu bytes)", size);
            return NULL;
        }
        *c = (chunk){p->chunks, 64, size};
        p->chunks = c;
    }
    void *at = (char *)c + c->used;
    c->used += bytes;
    return memset(at, 0, bytes);
}

static bool steps_grow(cpu_build *b)
{
    cpu_prog *p = b->p;
    uint32_t room = p->room ? 2 * p->room : 64;
    step *s;
    if (p->n < p->room)
        return true;
    s = cpu_host->alloc(room * sizeof *s, 64);
    if (!s) {
        b->status = YK_E_MEM;
        cpu_host->fail("cpu", "no memory for a program of %u steps", (unsigned)room);
        return false;
    }
    if (p->n)
        memcpy(s, p->steps, p->n * sizeof *s);
    cpu_host->free(p->steps);
    p->steps = s;
    p->room = room;
    return true;
}

void cpu_emit_pieces(cpu_build *b, cpu_fn fn, const void *args, double work, int64_t pieces)
{
    cpu_prog *p = b->p;
    if (b->status != YK_OK || !steps_grow(b))
        return;
    if (b->nt == 1 || work < SERIAL_NS)
        pieces = 1;
    pieces = pieces > CPU_PIECES_MOST ? CPU_PIECES_MOST : pieces;
    p->steps[p->n++] = (step){fn, args, b->node ? cpu_profile_line(b, b->node, ++b->part) : NULL, work, (int)pieces};
    p->serial = p->serial && pieces == 1;
    p->work += work;
}

void cpu_emit(cpu_build *b, cpu_fn fn, const void *args, double work)
{
    cpu_emit_pieces(b, fn, args, work, b->nt);
}

void cpu_need_shared(cpu_build *b, size_t bytes)
{
    bytes = cpu_round(bytes, 64);
    b->p->shared = b->p->shared > bytes ? b->p->shared : bytes;
}

void cpu_need_mine(cpu_build *b, size_t bytes)
{
    bytes = cpu_round(bytes, 64);
    b->p->mine = b->p->mine > bytes ? b->p->mine : bytes;
}

static const char *const op_names[] = {
#define NAME(e, number, name, kind, prec, tol, least, most, outs, attrs) [number] = name,
    YK_OP_TABLE(NAME)
#undef NAME
};

const char *cpu_op_name(uint32_t op)
{
    return op < YK_OP_COUNT ? op_names[op] : "?";
}

yk_status cpu_refuse(cpu_build *b, const yk_node *n, const char *why)
{
    if (b->status == YK_OK) {
        b->status = YK_E_UNSUPPORTED;
        cpu_host->fail("cpu", "node %u (%s): %s", (unsigned)n->stream, cpu_op_name(n->op), why);
    }
    return b->status;
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

typedef void (*planner)(cpu_build *b, const yk_node *n);

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

static bool all_dense(const yk_graph *g, const yk_node *n, uint32_t from)
{
    for (uint32_t i = from; i < n->n_in; i++)
        if (!cpu_is_dense(&g->value[g->index[n->in + i]]))
            return false;
    return true;
}

static bool last_dense(const yk_graph *g, const yk_node *n, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        const yk_value *v = &g->value[g->index[n->in + i]];
        if (v->dim[3] != 1 && v->stride[3] != 1)
            return false;
    }
    for (uint32_t i = to; i < n->n_in; i++) { /* keep; bias may have any strides */
        const yk_value *v = &g->value[g->index[n->in + i]];
        if (v->dims < 4 && !cpu_is_dense(v))
            return false;
    }
    return true;
}

static bool all_types(const yk_graph *g, const yk_node *n)
{
    for (uint32_t i = 0; i < n->n_in + (uint32_t)n->n_out; i++) {
        uint32_t v = i < n->n_in ? g->index[n->in + i] : g->index[n->out + i - n->n_in];
        int t = g->value[v].dtype;
        if (!cpu_is_float(t) && t != YK_I32 && t != YK_BOOL && t != YK_U8)
            return false;
    }
    return true;
}

uint32_t cpu_op_claims(const yk_graph *g, uint32_t node)
{
    const yk_node *n = &g->node[node];
    if (n->op >= YK_OP_COUNT || !planners[n->op] || !all_types(g, n))
        return 0;
    switch (n->op) {
    case YK_OP_MAP:
        return n->n_out <= 4 && n->n_in <= 24 && n->n_body <= 200 ? YK_CLAIM_RUN : 0;
    case YK_OP_MAP_SUM:
    case YK_OP_DOT_MAP:
        return n->n_out <= 4 && n->n_in <= 24 && n->n_body <= 200 ? YK_CLAIM_RUN : 0;
    case YK_OP_SCATTER_ADD: /* a primitive: asked only whether it can add */
        return all_dense(g, n, 0) && g->value[g->index[n->out]].dtype == YK_F32 ? YK_CLAIM_RUN | YK_CLAIM_ACCUMULATE : 0;
    case YK_OP_CONV2D_DW:
        return all_dense(g, n, 0) ? YK_CLAIM_RUN | YK_CLAIM_ACCUMULATE : 0;
    case YK_OP_LAYER_NORM:
        return all_dense(g, n, 0) ? YK_CLAIM_RUN | YK_CLAIM_NARROW_OUT : 0;
    case YK_OP_ATTENTION:
        return last_dense(g, n, 0, 3) ? YK_CLAIM_RUN | YK_CLAIM_STRIDED_OUT : 0;
    case YK_OP_ATTENTION_BWD:
        return last_dense(g, n, 0, 2) && cpu_is_dense(&g->value[g->index[n->in + 2]]) && last_dense(g, n, 3, 6)
                   ? YK_CLAIM_RUN | YK_CLAIM_STRIDED_OUT
                   : 0;
    case YK_OP_CROSS_ENTROPY_BWD: /* the gradient of a mean is one number for all rows */
        return all_dense(g, n, 1) ? YK_CLAIM_RUN : 0;
    default:
        return (n->op >= YK_OP_RELU && n->op <= YK_OP_TANH_BWD) || all_dense(g, n, 0) ? YK_CLAIM_RUN : 0;
    }
}

static void note_slots(cpu_prog *p, const yk_graph *g, const yk_node *n)
{
    for (uint32_t i = 0; i < n->n_in; i++) {
        uint32_t s = g->value[g->index[n->in + i]].slot;
        if (s < p->n_slot)
            p->uses[s] = 1;
    }
    for (uint32_t i = 0; i < n->n_out; i++) {
        uint32_t s = g->value[g->index[n->out + i]].slot;
        if (s < p->n_slot)
            p->uses[s] = 1;
    }
}

static yk_status plan_all(cpu_build *b)
{
    const yk_graph *g = b->g;
    for (uint32_t i = 0; i < g->n_node && b->status == YK_OK; i++) {
        const yk_node *n = &g->node[i];
        if (n->op >= YK_OP_COUNT || !planners[n->op])
            return cpu_refuse(b, n, "this plugin does not run it");
        if (!all_types(g, n))
            return cpu_refuse(b, n, "a type this plugin does not have (f32, f16, bf16, i32, u8, bool)");
        note_slots(b->p, g, n);
        b->node = n;
        b->part = b->joined = 0;
        planners[n->op](b, n);
        for (; b->joined; b->joined--)
            note_slots(b->p, g, &g->node[++i]);
    }
    return b->status;
}

yk_status cpu_prog_new(const yk_graph *g, const cpu_isa *isa, int nt, cpu_prog **out)
{
    cpu_prog *p = cpu_host->alloc(sizeof *p, 64);
    if (!p)
        return YK_E_MEM;
    *p = (cpu_prog){.serial = true, .n_slot = g->n_slot};
    p->uses = cpu_host->alloc(g->n_slot + 1, 64);
    cpu_build b = {g, isa, nt, p, p->uses ? YK_OK : YK_E_MEM, NULL, 0, 0};
    if (p->uses) {
        memset(p->uses, 0, g->n_slot + 1);
        plan_all(&b);
    }
    if (b.status != YK_OK) {
        cpu_prog_free(p);
        return b.status;
    }
    *out = p;
    return YK_OK;
}

void cpu_prog_free(cpu_prog *p)
{
    if (!p)
        return;
    for (chunk *c = p->chunks; c;) {
        chunk *next = c->next;
        cpu_host->free(c);
        c = next;
    }
    cpu_host->free(p->steps);
    cpu_host->free(p->uses);
    cpu_host->free(p);
}

size_t cpu_prog_mine(const cpu_prog *p)
{
    return cpu_round(p->mine, 4096) + 64;
}

size_t cpu_prog_shared(const cpu_prog *p)
{
    return cpu_round(p->shared, 4096);
}

size_t cpu_prog_scratch(const cpu_prog *p, int nt)
{
    return cpu_prog_shared(p) + (p->serial ? 1 : (size_t)nt) * cpu_prog_mine(p);
}

bool cpu_prog_is_serial(const cpu_prog *p)
{
    return p->serial;
}

double cpu_prog_work(const cpu_prog *p)
{
    return p->work;
}

bool cpu_prog_uses(const cpu_prog *p, uint32_t slot)
{
    return slot < p->n_slot && p->uses[slot];
}

uint32_t cpu_prog_slots(const cpu_prog *p)
{
    return p->n_slot;
}

/* ---- A run ---- */

typedef struct run {
    const cpu_prog *prog;
    const cpu_bound *bound;
    uint32_t steps;  /* that are begun */
    uint64_t begun;  /* when the last of them was */
} run;

static void run_piece(void *arg, int worker, int piece, int pieces)
{
    const run *r = arg;
    const cpu_prog *p = r->prog;
    const step *s = &p->steps[r->steps - 1];
    const cpu_ctx c = {r->bound->slot, r->bound->isa, r->bound->scratch,
                       r->bound->scratch + cpu_prog_shared(p) + (size_t)worker * cpu_prog_mine(p), piece, pieces};
    s->fn(s->args, &c);
}

/* Does what is not shared, up to the next step that is. */
static cpu_phase run_next(void *arg, int worker)
{
    run *r = arg;
    const cpu_prog *p = r->prog;
    if (r->steps)
        r->begun = cpu_profile_add(p->steps[r->steps - 1].line, r->begun);
    while (r->steps < p->n) {
        const step *s = &p->steps[r->steps++];
        if (s->pieces > 1)
            return (cpu_phase){s->pieces, s->work};
        run_piece(r, worker, 0, 1);
        r->begun = cpu_profile_add(s->line, r->begun);
    }
    return (cpu_phase){0, 0.0};
}

void cpu_prog_run(cpu_prog *p, const cpu_bound *bound, cpu_pool *pool)
{
    run r = {p, bound, 0, cpu_profile_now()};
    const int n = cpu_pool_size(pool);
    if (p->serial) {
        run_next(&r, 0);
        return;
    }
    const uint64_t begun = cpu_now_ns();
    cpu_pool_run(pool, &(cpu_work){run_piece, run_next, &r}, cpu_pace_workers(&p->pace, n));
    cpu_pace_record(&p->pace, n, (double)(cpu_now_ns() - begun));
}
