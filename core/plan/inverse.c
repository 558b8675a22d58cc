/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of a look-up adds rows up. Where each row was looked up once at most, and the trace has the inverse of the
 * row numbers (yk__graph_inverse), it is a look-up too: nothing to clear and nothing to add.
 */
#include "core/plan/internal.h"

/* The leaf of input `number`; YK_NONE: this graph does not read it. */
static yk__vid leaf_of(const yk__graph *g, uint32_t number)
{
    for (yk__vid v = 0; v < g->n_value; v++) {
        const yk_value *x = &g->value[v];
        if (x->base == v && x->slot != YK_NONE && g->slot[x->slot].kind == YK_SLOT_INPUT && g->slot[x->slot].key == number)
            return v;
    }
    return YK_NONE;
}

static void invert_scatter(yk__graph *g, yk_node *n)
{
    const yk_value *index = &g->value[g->index[n->in + 1]];
    const yk__vid inverse = index->reserved ? leaf_of(g, index->reserved - 1) : YK_NONE;
    if (inverse == YK_NONE || g->value[inverse].dim[0] != g->value[g->index[n->out]].dim[0])
        return;
    n->op = YK_OP_GATHER;
    g->index[n->in + 1] = inverse;
}

yk_status yk__plan_inverse(yk__work *w, yk_error *err)
{
    for (size_t k = 0; k < w->g.n_node; k++)
        if (w->g.node[k].op == YK_OP_SCATTER_ADD)
            invert_scatter(&w->g, &w->g.node[k]);
    for (yk__vid v = 0; v < w->g.n_value; v++)
        w->g.value[v].reserved = 0;
    return err->status;
}
