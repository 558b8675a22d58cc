/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cheap values are made again by each of their readers instead of being stored: casts from a 16-bit format to f32
 * everywhere, in backward what forward made from one value by adding or scaling (x - mean), where that value is
 * stored anyway or is smaller, and relu's backward where both its operands are stored anyway. Each reader has a copy of
 * its own, so that fusion takes it in and nothing is written.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/plan/internal.h"

#define DEPTH 5

typedef struct remat {
    yk__work *w;
    yk__remap m;
    yk__graph g;
    yk__uses u;
    bool *hard; /* by root: a backward node that cannot be fused reads it, so that it is stored in any case */
    bool *free; /* by root: a relu's backward that only fusable nodes read and whose operands are stored in any case */
} remat;

static bool can_fuse(const yk_node *n)
{
    return yk__op_is_map(n->op) || n->op == YK_OP_SUM;
}

static const yk_node *sole_producer(const remat *a, yk__vid v)
{
    const yk__graph *s = a->m.src;
    const yk__vid r = yk__root(s, v);
    if (a->u.writers[r] != 1 || a->u.kept[r] || s->value[r].slot != YK_NONE || !yk__whole(s, v))
        return NULL;
    return &s->node[a->u.producer[r]];
}

/* The one operand of the full size; YK_NONE: there are none, or several. */
static yk__vid full_operand(const yk__graph *s, const yk_node *n)
{
    yk__vid x = YK_NONE;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const yk__vid v = yk__ins(s, n)[i];
        if (yk__value_count(&s->value[yk__root(s, v)]) < yk__value_count(&s->value[v]))
            continue;
        if (x != YK_NONE)
            return YK_NONE;
        x = v;
    }
    return x != YK_NONE && yk__whole(s, x) ? x : YK_NONE;
}

static bool is_widening(const yk__graph *s, const yk_node *n)
{
    const uint32_t from = n->op == YK_OP_CAST ? s->value[yk__ins(s, n)[0]].dtype : YK_F32;
    return (from == YK_BF16 || from == YK_F16) && s->value[yk__outs(s, n)[0]].dtype == YK_F32 &&
           yk__whole(s, yk__ins(s, n)[0]);
}

static bool is_cheap(const yk_node *n)
{
    return n->op == YK_OP_CAST || n->op == YK_OP_NEG || n->op == YK_OP_ADD || n->op == YK_OP_SUB || n->op == YK_OP_MUL;
}

/* What the chain of cheap forward nodes that makes v begins with; YK_NONE: v is not made so. */
static yk__vid chain_source(const remat *a, yk__vid v)
{
    const yk__graph *s = a->m.src;
    yk__vid from = YK_NONE;
    for (int i = 0; i < DEPTH; i++) {
        const yk_node *n = sole_producer(a, v);
        const yk__vid x = n && yk__is_forward(&a->m, n) && is_cheap(n) ? full_operand(s, n) : YK_NONE;
        if (x == YK_NONE || a->hard[yk__root(s, v)])
            break;
        from = v = x;
    }
    return from;
}

/* Nothing more is stored when v's source takes its place. */
static bool is_gain(const remat *a, yk__vid v, yk__vid from)
{
    const yk__graph *s = a->m.src;
    const yk_value *x = &s->value[from], *y = &s->value[v];
    const yk__vid r = yk__root(s, from);
    const yk_node *n = a->u.producer[r] == YK_NONE ? NULL : &s->node[a->u.producer[r]];
    if (yk__value_bytes(x) != yk__value_bytes(y))
        return yk__value_bytes(x) < yk__value_bytes(y);
    return !n || (!yk__op_is_map(n->op) && n->op != YK_OP_DOT);
}

static bool is_masked(const remat *a, yk__vid v)
{
    return a->free[yk__root(a->m.src, v)] && yk__whole(a->m.src, v);
}

/* A copy of v's maker (and of the cheap ones before it) for one reader. */
static yk__vid copy_chain(remat *a, yk__vid v, const yk_node *reader, bool chain, int depth)
{
    const yk__graph *s = a->m.src;
    const yk_node *n = sole_producer(a, v);
    const yk__vid root = yk__root(s, v);
    yk__vid in[2], out, full;
    uint32_t at;
    if (!n || n->n_in > 2 || depth == DEPTH)
        return yk__remap_value(&a->m, v);
    full = full_operand(s, n);
    if (!is_masked(a, v) &&
        (full == YK_NONE || !(chain ? yk__is_forward(&a->m, n) && is_cheap(n) && !a->hard[root] : is_widening(s, n))))
        return yk__remap_value(&a->m, v);
    for (uint32_t i = 0; i < n->n_in; i++) {
        const yk__vid x = yk__ins(s, n)[i];
        in[i] = x == full && (chain || is_masked(a, x)) ? copy_chain(a, x, reader, chain, depth + 1) : yk__remap_value(&a->m, x);
        if (in[i] == YK_NONE)
            return YK_NONE;
    }
    out = yk__value_new(&a->g, (yk_dtype)s->value[root].dtype, s->value[root].dims, s->value[root].dim);
    if (out == YK_NONE)
        return out;
    at = yk__node_new(&a->g, (yk_op)n->op, 0, n->n_in, in, 1, &out, n->n_attr, s->attr + n->attr);
    yk__remap_note(&a->m, at, *yk__info_of(&a->m, reader));
    return root == v ? out : yk__view_like(&a->g, out, &s->value[v], 0);
}

static yk__vid operand_for(remat *a, const yk_node *n, yk__vid v)
{
    const yk_node *made = can_fuse(n) ? sole_producer(a, v) : NULL;
    yk__vid from;
    if (!made)
        return yk__remap_value(&a->m, v);
    from = yk__is_forward(&a->m, made) && !yk__is_forward(&a->m, n) ? chain_source(a, v) : YK_NONE;
    if (from != YK_NONE && is_gain(a, v, from))
        return copy_chain(a, v, n, true, 0);
    if (is_masked(a, v) || (is_widening(a->m.src, made) && a->u.readers[yk__root(a->m.src, v)] > 1))
        return copy_chain(a, v, n, false, 0);
    if (is_widening(a->m.src, made) && is_masked(a, yk__ins(a->m.src, made)[0]))
        return copy_chain(a, v, n, false, 0);
    return yk__remap_value(&a->m, v);
}

static void emit_node(remat *a, uint32_t k)
{
    const yk__graph *s = a->m.src;
    const yk_node *n = &s->node[k];
    yk__vid in[32];
    uint32_t at;
    if (n->n_in > 32)
        return;
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = operand_for(a, n, yk__ins(s, n)[i]);
    at = yk__remap_node(&a->m, k);
    for (uint32_t i = 0; at != YK_NONE && i < n->n_in; i++)
        a->g.index[a->g.node[at].in + i] = in[i];
}

/* Made by a node that stores its result: what fusion would take in is not sure to be there. */
static bool is_stored(const remat *a, yk__vid v)
{
    const yk__graph *s = a->m.src;
    const yk__vid r = yk__root(s, v);
    if (!yk__whole(s, v) || a->u.writers[r] > 1)
        return false;
    return a->hard[r] || a->u.producer[r] == YK_NONE || !can_fuse(&s->node[a->u.producer[r]]);
}

/* Which results of relu_bwd need not be stored, see above. In a sum's chain the copies cost arithmetic only. */
static void find_masked(remat *a)
{
    const yk__graph *s = a->m.src;
    for (uint32_t k = 0; k < s->n_node; k++) {
        const yk_node *n = &s->node[k];
        const yk__vid o = n->n_out ? yk__outs(s, n)[0] : 0;
        if (n->op == YK_OP_RELU_BWD && sole_producer(a, o) == n && a->u.readers[o] > 1 && !a->hard[o])
            a->free[o] = is_stored(a, yk__ins(s, n)[0]) && is_stored(a, yk__ins(s, n)[1]);
    }
    for (uint32_t k = 0; k < s->n_node; k++)
        for (uint32_t i = 0; i < s->node[k].n_in && !can_fuse(&s->node[k]); i++)
            a->free[yk__root(s, yk__ins(s, &s->node[k])[i])] = false;
}

yk_status yk__plan_remat(yk__work *w, yk_error *err)
{
    const size_t nv = w->g.n_value + 1;
    remat a = {.w = w, .hard = yk__calloc(nv, 1), .free = yk__calloc(nv, 1)};
    if (!a.hard || !a.free)
        yk__fail_mem(err, nv, "a plan");
    if (!err->status && !yk__uses_new(w, &a.u, err) && !yk__remap_begin(&a.m, w, &a.g, err)) {
        for (size_t k = 0; k < w->g.n_node; k++)
            for (uint32_t i = 0; i < w->g.node[k].n_in; i++)
                if (!yk__is_forward(&a.m, &w->g.node[k]) && !can_fuse(&w->g.node[k]))
                    a.hard[yk__root(&w->g, yk__ins(&w->g, &w->g.node[k])[i])] = true;
        find_masked(&a);
        for (uint32_t k = 0; k < w->g.n_node; k++)
            emit_node(&a, k);
        yk__remap_end(&a.m, w, err);
    }
    yk__uses_free(&a.u);
    yk__free(a.free);
    yk__free(a.hard);
    return err->status;
}
