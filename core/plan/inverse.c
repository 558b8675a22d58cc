/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's pass for gradients of look-ups, rows gathered from a table. Such a gradient is a sum of rows. op_pack.c marks a pair of
 * inputs by yk__graph_mark_inverse: row numbers, each looked up at most once, and their inverse, which has -1 for a row that is not
 * looked up.
 *
 * The gradient is then a look-up by the inverse, which clears nothing and adds nothing: it gives zeros for -1 (plugin.h, gather).
 * passes.c runs the pass once for each plan, in the step thread.
 */
#include "core/plan/plan_internal.h"

/* The leaf of input `number`; YK_NONE if this graph does not read it. */
static yk__vid leaf_of(const yk__graph *g, uint32_t number)
{
    for (yk__vid v = 0; v < g->n_value; v++) {
        const yk_value *x = &g->value[v];
        if (x->base == v && x->slot != YK_NONE && g->slot[x->slot].kind == YK_SLOT_INPUT && g->slot[x->slot].key == number)
            return v;
    }
    return YK_NONE;
}

/* The inverse of the row numbers v; YK_NONE if absent. */
static yk__vid find_inverse(const yk__work *work, yk__vid v)
{
    const yk__graph *g = &work->g;
    const yk_value *x = &g->value[v];
    if (x->base != v || x->slot == YK_NONE || g->slot[x->slot].kind != YK_SLOT_INPUT)
        return YK_NONE;
    for (size_t i = 0; i < work->request->trace->n_inverse; i++)
        for (int k = 0; k < 2; k++)
            if (work->request->trace->inverse[i].input[k] == g->slot[x->slot].key)
                return leaf_of(g, work->request->trace->inverse[i].input[1 - k]);
    return YK_NONE;
}

static void invert_scatter(yk__work *work, yk_node *n)
{
    yk__graph *g = &work->g;
    const yk__vid inverse = find_inverse(work, g->index[n->in + 1]);
    if (inverse == YK_NONE || g->value[inverse].dim[0] != g->value[g->index[n->out]].dim[0])
        return;
    n->op = YK_OP_GATHER;
    g->index[n->in + 1] = inverse;
}

yk_status yk__plan_inverse(yk__work *work, yk_error *err)
{
    for (size_t k = 0; k < work->g.n_node; k++)
        if (work->g.node[k].op == YK_OP_SCATTER_ADD)
            invert_scatter(work, &work->g.node[k]);
    return err->status;
}
