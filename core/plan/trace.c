/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's passes "trace", "stats" and "empty", which passes.c runs once for each plan, in the step thread. "trace" copies the trace
 * to a graph that later passes may change. "stats" makes batch statistics sums over ranks. "empty" removes values without elements,
 * of a rank without rows that takes part in sums over ranks. Behind some passes passes.c calls yk__plan_prune, which drops unneeded nodes.
 */
#include "core/base/mem.h"
#include "core/plan/plan_internal.h"

/* With one rank an all_reduce is its operand, and all ranks' rows are this rank's. */
static uint32_t emit_single_rank(yk__remap *remap, uint32_t k)
{
    const yk__graph *src = remap->src;
    const yk_node *n = &src->node[k];
    uint32_t at;
    if (n->op == YK_OP_ALL_REDUCE) {
        remap->map[yk__outs(src, n)[0]] = yk__dense(remap->dst, yk__remap_value(remap, yk__ins(src, n)[0]));
        return YK_NONE;
    }
    at = yk__remap_node(remap, k);
    if (at != YK_NONE && n->op == YK_OP_ALL_STATS)
        remap->dst->node[at].op = YK_OP_BN_STATS;
    return at;
}

yk_status yk__plan_trace(yk__work *work, yk_error *err)
{
    const yk__graph *t = work->request->trace;
    yk__graph g;
    yk__remap remap;
    if (yk__remap_copy(&remap, t, &g, err))
        return err->status;
    for (uint32_t k = 0; k < t->n_node; k++) {
        const uint32_t at = work->request->single_rank ? emit_single_rank(&remap, k) : yk__remap_node(&remap, k);
        yk__remap_note(&remap, at, (yk__node_info){.origin = k + 1});
    }
    return yk__remap_end(&remap, work, err);
}

/* Expands all_stats: this rank's statistics, then an all_reduce of them. */
static void gather_stats(yk__remap *remap, uint32_t k)
{
    const yk__vid out = yk__outs(remap->src, &remap->src->node[k])[0];
    const int64_t how = YK_REDUCE_MOMENTS;
    const uint32_t at = yk__remap_node(remap, k);
    yk__vid own, all = YK_NONE;
    if (at == YK_NONE)
        return;
    remap->dst->node[at].op = YK_OP_BN_STATS;
    own = remap->map[out];
    yk__apply(remap->dst, YK_OP_ALL_REDUCE, 1, &own, 1, &how, YK_DTYPE_COUNT, 0, NULL, &all, 1);
    if (all == YK_NONE)
        return;
    yk__remap_note(remap, (uint32_t)remap->dst->n_node - 1, remap->src_info[k]);
    remap->map[out] = all;
}

yk_status yk__plan_stats(yk__work *work, yk_error *err)
{
    yk__graph g;
    yk__remap remap;
    if (yk__remap_begin(&remap, work, &g, err))
        return err->status;
    for (uint32_t k = 0; k < work->g.n_node; k++)
        if (work->g.node[k].op == YK_OP_ALL_STATS)
            gather_stats(&remap, k);
        else
            yk__remap_node(&remap, k);
    return yk__remap_end(&remap, work, err);
}

/* A node is needed if the memory of one of its outputs is, or if it writes memory that outlives the program. With sums_stay every
 * all_reduce is needed, as other ranks wait for it. */
static bool is_needed(const yk__work *work, const yk_node *n, const bool *need)
{
    const yk__graph *g = &work->g;
    if (n->op == YK_OP_ALL_REDUCE && work->sums_stay)
        return true;
    for (uint32_t i = 0; i < n->n_out; i++) {
        const yk__vid r = yk__root(g, yk__outs(g, n)[i]);
        if (need[r] || (g->value[r].flags & YK_VALUE_INPUT))
            return true;
    }
    return false;
}

static void mark_live(const yk__work *work, bool *need, bool *live)
{
    const yk__graph *g = &work->g;
    for (uint32_t i = 0; i < work->n_keep; i++)
        if (work->keep[i] != YK_NONE)
            need[yk__root(g, work->keep[i])] = true;
    for (size_t k = g->n_node; k-- > 0;) {
        const yk_node *n = &g->node[k];
        live[k] = is_needed(work, n, need);
        for (uint32_t i = 0; live[k] && i < n->n_in; i++)
            need[yk__root(g, yk__ins(g, n)[i])] = true;
    }
}

yk_status yk__plan_prune(yk__work *work, yk_error *err)
{
    const size_t nv = work->g.n_value + 1, nn = work->g.n_node + 1;
    bool *need = yk__calloc(nv, 1), *live = yk__calloc(nn, 1);
    yk__graph g;
    yk__remap remap;
    if (!need || !live) {
        yk__fail_mem(err, nv + nn, "a plan");
    } else if (!yk__remap_begin(&remap, work, &g, err)) {
        mark_live(work, need, live);
        for (uint32_t k = 0; k < work->g.n_node; k++)
            if (live[k])
                yk__remap_node(&remap, k);
        yk__remap_end(&remap, work, err);
    }
    yk__free(live);
    yk__free(need);
    return err->status;
}

static bool is_empty(const yk__graph *g, yk__vid v)
{
    return yk__value_count(&g->value[v]) == 0;
}

/* Drops a node without elements; results that sum no elements become fills of 0. */
static void without_rows(yk__remap *remap, uint32_t k)
{
    const yk__graph *src = remap->src;
    const yk_node *n = &src->node[k];
    const int64_t zero = yk_attr_of_f64(0.0);
    bool empty = false, all = true;
    for (uint32_t i = 0; i < n->n_in; i++)
        empty |= is_empty(src, yk__ins(src, n)[i]);
    for (uint32_t i = 0; i < n->n_out; i++)
        all &= is_empty(src, yk__outs(src, n)[i]);
    if (!empty && !all) {
        yk__remap_node(remap, k);
        return;
    }
    for (uint32_t i = 0; i < n->n_out && !all; i++) { /* sums of no elements */
        const yk__vid o = yk__remap_value(remap, yk__outs(src, n)[i]);
        if (o != YK_NONE && remap->dst->value[o].base == o)
            yk__node_new(remap->dst, YK_OP_FILL, 0, 0, NULL, 1, &o, 1, &zero);
    }
}

yk_status yk__plan_empty(yk__work *work, yk_error *err)
{
    bool any = false;
    yk__graph g;
    yk__remap remap;
    for (yk__vid v = 0; v < work->g.n_value && !any; v++)
        any = is_empty(&work->g, v);
    if (!any)
        return YK_OK;
    if (yk__remap_begin(&remap, work, &g, err))
        return err->status;
    for (uint32_t k = 0; k < work->g.n_node; k++)
        without_rows(&remap, k);
    return yk__remap_end(&remap, work, err);
}
