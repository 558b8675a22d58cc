/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A layer norm in f32 whose result is only read by a cast to 16 bits writes 16 bits itself, where the device can: one pass
 * over its rows instead of two.
 */
#include "core/plan/internal.h"

typedef struct narrowing {
    yk__work *w;
    yk__remap m;
    yk__graph g;
    yk__uses u;
} narrowing;

/* A value of its own that one node writes. */
static bool is_own(const narrowing *p, yk__vid v)
{
    const yk_value *x = &p->m.src->value[v];
    return x->base == v && x->slot == YK_NONE && p->u.writers[v] == 1;
}

/* The cast that alone reads y; NULL: there is none. */
static const yk_node *only_cast(const narrowing *p, yk__vid y)
{
    const yk__graph *s = p->m.src;
    const yk_node *n;
    if (!is_own(p, y) || p->u.readers[y] != 1 || p->u.kept[y] || s->value[y].dtype != YK_F32)
        return NULL;
    n = &s->node[p->u.last[y]];
    if (n->op != YK_OP_CAST || !yk__whole(s, yk__ins(s, n)[0]) || !is_own(p, yk__outs(s, n)[0]))
        return NULL;
    const uint32_t to = s->value[yk__outs(s, n)[0]].dtype;
    return to == YK_BF16 || to == YK_F16 ? n : NULL;
}

static void emit_node(narrowing *p, uint32_t k)
{
    const yk__graph *s = p->m.src;
    const yk_node *n = &s->node[k], *cast;
    yk__vid y, narrow;
    if (n->op == YK_OP_CAST && p->m.map[yk__outs(s, n)[0]] != YK_NONE) /* taken in */
        return;
    y = yk__outs(s, n)[0];
    cast = n->op == YK_OP_LAYER_NORM && (p->m.src_info[k].claims & YK_CLAIM_NARROW_OUT) ? only_cast(p, y) : NULL;
    if (cast) {
        const yk__vid to = yk__outs(s, cast)[0];
        narrow = yk__value_new(&p->g, (yk_dtype)s->value[to].dtype, s->value[y].dims, s->value[y].dim);
        if (narrow == YK_NONE)
            return;
        p->m.map[y] = narrow;
        p->m.map[to] = yk__value_same_shape(&s->value[to], &s->value[y]) ? narrow : yk__view_like(&p->g, narrow, &s->value[to], 0);
    }
    yk__remap_node(&p->m, k);
}

yk_status yk__plan_narrow(yk__work *w, yk_error *err)
{
    narrowing p = {.w = w};
    if (!yk__uses_new(w, &p.u, err) && !yk__remap_begin(&p.m, w, &p.g, err)) {
        for (uint32_t k = 0; k < w->g.n_node; k++)
            emit_node(&p, k);
        yk__remap_end(&p.m, w, err);
    }
    yk__uses_free(&p.u);
    return err->status;
}
