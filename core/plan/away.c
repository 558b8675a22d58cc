/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's pass for `--offload activations=host`: large values that forward leaves for backward lie on the host meanwhile. passes.c
 * runs it once a plan, in the step thread. Readers in backward get a second value, of another place in the arena, so memory.c sees two
 * short lives. segment.c cuts the plan behind the last forward node that touches a value, and at the place of its return. A value returns
 * one reader early: at the first reader of the values listed before it, even if these stay. memory.c and segment.c call
 * yk__plan_away_lives, and memory.c also calls yk__forward_end.
 *
 * A value whose way there and back is short stays. With recomputation the blocks' inputs are left, and go (docs/decisions/0097).
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/round.h"
#include "core/plan/plan_internal.h"

#define LARGE (64u << 10) /* least bytes that leave, if the request gives no number */
#define LONG 16u          /* a value is away during a sixteenth of the plan's nodes, or stays */
#define ALIGN 256u

typedef struct leaving {
    yk__work *work;
    yk__uses uses;
    uint32_t end;    /* nodes from here on are backward's */
    uint32_t *last;  /* by root: the last node before `end` that touches it; YK_NONE if absent */
    uint32_t *again; /* by root: the first node from `end` on that reads it; YK_NONE if absent */
    bool *goes;      /* by root */
} leaving;

uint32_t yk__forward_end(const yk__work *work)
{
    uint32_t end = (uint32_t)work->g.n_node;
    while (end > 0 && (!work->info[end - 1].origin || work->info[end - 1].is_recomputed))
        end--;
    return end;
}

void yk__plan_away_lives(const yk__work *work, uint32_t lead, yk__uses *uses, uint32_t *first)
{
    for (uint32_t i = 0; i < work->plan->n_away; i++) {
        const yk__away *v = &work->plan->away[i];
        uses->last[v->from] = v->after + 1;
        first[v->to] = v->before - lead;
    }
}

/* A value that backward writes, too, stays. So does a sum over ranks, which may still be under way behind its node. */
static void find_touches(leaving *state)
{
    const yk__graph *g = &state->work->g;
    for (uint32_t k = 0; k < g->n_node; k++) {
        const yk_node *n = &g->node[k];
        const bool leaves = k < state->end && n->op != YK_OP_ALL_REDUCE;
        for (uint32_t i = 0; i < n->n_in; i++) {
            const yk__vid r = yk__root(g, yk__ins(g, n)[i]);
            if (k >= state->end)
                state->again[r] = state->again[r] == YK_NONE ? k : state->again[r];
            else if (state->last[r] != YK_NONE)
                state->last[r] = k;
        }
        for (uint32_t i = 0; i < n->n_out; i++)
            state->last[yk__root(g, yk__outs(g, n)[i])] = leaves ? k : YK_NONE;
    }
}

static bool may_leave(const leaving *state, yk__vid v)
{
    const yk_value *x = &state->work->g.value[v];
    const uint64_t large = state->work->request->large ? state->work->request->large : LARGE;
    return x->base == v && x->slot == YK_NONE && state->last[v] != YK_NONE && state->again[v] != YK_NONE && state->uses.writers[v] &&
           !state->uses.kept[v] && yk__value_bytes(x) >= large;
}

static int by_reader(const void *a, const void *b)
{
    const yk__away *x = a, *y = b;
    return x->before != y->before ? (x->before < y->before ? -1 : 1) : x->from < y->from ? -1 : x->from > y->from;
}

/* Lists the values by their readers, and moves each one's return to the reader before. */
static void list_values(leaving *state)
{
    yk__plan *plan = state->work->plan;
    const yk__graph *g = &state->work->g;
    const uint32_t least = (uint32_t)(g->n_node / LONG);
    uint32_t n = 0, reader = YK_NONE, before = YK_NONE;
    for (yk__vid v = 0; v < g->n_value; v++)
        if (may_leave(state, v))
            plan->away[n++] = (yk__away){.from = v, .after = state->last[v], .before = state->again[v],
                                         .bytes = yk__value_bytes(&g->value[v])};
    qsort(plan->away, n, sizeof *plan->away, by_reader);
    for (uint32_t i = 0; i < n; i++) {
        yk__away v = plan->away[i];
        if (v.before != reader) {
            before = reader == YK_NONE ? v.before : reader;
            reader = v.before;
        }
        v.before = before;
        if (v.before <= v.after + 1 || v.before - v.after < least)
            continue;
        v.offset = plan->away_bytes;
        plan->away_bytes += yk__round_up(v.bytes, ALIGN);
        state->goes[v.from] = true;
        plan->away[plan->n_away++] = v;
    }
}

/* From here on readers get the values that came back, and views of them. */
static void turn_back(leaving *state, yk__remap *remap)
{
    const yk__graph *src = remap->src;
    for (uint32_t i = 0; i < state->work->plan->n_away; i++) {
        yk__away *v = &state->work->plan->away[i];
        const yk__vid r = v->from;
        v->from = remap->map[r];
        remap->map[r] = YK_NONE;
        v->to = yk__remap_value(remap, r);
    }
    for (yk__vid v = 0; v < src->n_value; v++)
        if (src->value[v].base != v && state->goes[yk__root(src, v)])
            remap->map[v] = YK_NONE;
}

static yk_status give_two_values(leaving *state, yk_error *err)
{
    yk__remap remap;
    yk__graph g;
    const uint32_t n = (uint32_t)state->work->g.n_node;
    if (yk__remap_begin(&remap, state->work, &g, err))
        return err->status;
    for (uint32_t k = 0; k < n; k++) {
        if (k == state->end)
            turn_back(state, &remap);
        yk__remap_node(&remap, k);
    }
    return yk__remap_end(&remap, state->work, err);
}

yk_status yk__plan_away(yk__work *work, yk_error *err)
{
    const size_t n = work->g.n_value + 1;
    leaving state = {.work = work, .end = yk__forward_end(work)};
    state.last = yk__malloc(n * sizeof *state.last);
    state.again = yk__malloc(n * sizeof *state.again);
    state.goes = yk__calloc(n, sizeof *state.goes);
    work->plan->away = yk__calloc(n, sizeof *work->plan->away);
    if (!state.last || !state.again || !state.goes || !work->plan->away) {
        yk__fail_mem(err, n * sizeof *work->plan->away, "a plan");
    } else if (!yk__uses_new(work, &state.uses, err)) {
        memset(state.last, 0xff, n * sizeof *state.last);
        memset(state.again, 0xff, n * sizeof *state.again);
        find_touches(&state);
        list_values(&state);
        if (work->plan->n_away)
            give_two_values(&state, err);
    }
    yk__uses_free(&state.uses);
    yk__free(state.goes);
    yk__free(state.again);
    yk__free(state.last);
    return err->status;
}
