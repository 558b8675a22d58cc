/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's pass that computes cheap values at each of their readers instead of storing them. passes.c runs it once for each plan, in
 * the step thread. Everywhere: casts from a 16-bit format to f32. In backward: forward's results of adding to or scaling one value (x -
 * mean), if that value is stored anyway or is smaller. Also relu's backward, if both its operands are stored anyway. Each reader has a
 * separate copy, so that fusion includes it and nothing is written.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/plan/plan_internal.h"

#define DEPTH 5

typedef struct remat {
    yk__work *work;
    yk__remap remap;
    yk__graph g;
    yk__uses uses;
    bool *hard; /* by root: a backward node that cannot be fused reads it, so it is stored in any case */
    bool *free; /* by root: a relu's backward with fusable readers only, whose operands are stored in any case */
} remat;

static bool can_fuse(const yk_node *n)
{
    return yk__op_is_map(n->op) || n->op == YK_OP_SUM;
}

static const yk_node *sole_producer(const remat *state, yk__vid v)
{
    const yk__graph *src = state->remap.src;
    const yk__vid r = yk__root(src, v);
    if (state->uses.writers[r] != 1 || state->uses.kept[r] || src->value[r].slot != YK_NONE || !yk__whole(src, v))
        return NULL;
    return &src->node[state->uses.producer[r]];
}

/* The one operand of the full size; YK_NONE for none or several. */
static yk__vid full_operand(const yk__graph *src, const yk_node *n)
{
    yk__vid x = YK_NONE;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const yk__vid v = yk__ins(src, n)[i];
        if (yk__value_count(&src->value[yk__root(src, v)]) < yk__value_count(&src->value[v]))
            continue;
        if (x != YK_NONE)
            return YK_NONE;
        x = v;
    }
    return x != YK_NONE && yk__whole(src, x) ? x : YK_NONE;
}

static bool is_widening(const yk__graph *src, const yk_node *n)
{
    const uint32_t from = n->op == YK_OP_CAST ? src->value[yk__ins(src, n)[0]].dtype : YK_F32;
    return (from == YK_BF16 || from == YK_F16) && src->value[yk__outs(src, n)[0]].dtype == YK_F32 &&
           yk__whole(src, yk__ins(src, n)[0]);
}

static bool is_cheap(const yk_node *n)
{
    return yk__op_traits_of(n->op)->linear != YK_LINEAR_NO;
}

/* The first value of the chain of cheap forward nodes that makes v; YK_NONE if there is no such chain. */
static yk__vid chain_source(const remat *state, yk__vid v)
{
    const yk__graph *src = state->remap.src;
    yk__vid from = YK_NONE;
    for (int i = 0; i < DEPTH; i++) {
        const yk_node *n = sole_producer(state, v);
        const yk__vid x = n && yk__is_forward(&state->remap, n) && is_cheap(n) ? full_operand(src, n) : YK_NONE;
        if (x == YK_NONE || state->hard[yk__root(src, v)])
            break;
        from = v = x;
    }
    return from;
}

/* True if v's source can replace v without storing more. */
static bool is_gain(const remat *state, yk__vid v, yk__vid from)
{
    const yk__graph *src = state->remap.src;
    const yk_value *x = &src->value[from], *y = &src->value[v];
    const yk__vid r = yk__root(src, from);
    const yk_node *n = state->uses.producer[r] == YK_NONE ? NULL : &src->node[state->uses.producer[r]];
    if (yk__value_bytes(x) != yk__value_bytes(y))
        return yk__value_bytes(x) < yk__value_bytes(y);
    return !n || (!yk__op_is_map(n->op) && n->op != YK_OP_DOT);
}

static bool is_masked(const remat *state, yk__vid v)
{
    return state->free[yk__root(state->remap.src, v)] && yk__whole(state->remap.src, v);
}

/* Copies v's maker (and the cheap nodes before it) for one reader. */
static yk__vid copy_chain(remat *state, yk__vid v, const yk_node *reader, bool chain, int depth)
{
    const yk__graph *src = state->remap.src;
    const yk_node *n = sole_producer(state, v);
    const yk__vid root = yk__root(src, v);
    yk__vid in[2], out, full;
    uint32_t at;
    if (!n || n->n_in > 2 || depth == DEPTH)
        return yk__remap_value(&state->remap, v);
    full = full_operand(src, n);
    if (!is_masked(state, v) &&
        (full == YK_NONE || !(chain ? yk__is_forward(&state->remap, n) && is_cheap(n) && !state->hard[root] : is_widening(src, n))))
        return yk__remap_value(&state->remap, v);
    for (uint32_t i = 0; i < n->n_in; i++) {
        const yk__vid x = yk__ins(src, n)[i];
        in[i] = x == full && (chain || is_masked(state, x)) ? copy_chain(state, x, reader, chain, depth + 1)
                                                                 : yk__remap_value(&state->remap, x);
        if (in[i] == YK_NONE)
            return YK_NONE;
    }
    out = yk__value_new(&state->g, (yk_dtype)src->value[root].dtype, src->value[root].dims, src->value[root].dim);
    if (out == YK_NONE)
        return out;
    at = yk__node_new(&state->g, (yk_op)n->op, 0, n->n_in, in, 1, &out, n->n_attr, src->attr + n->attr);
    yk__remap_note(&state->remap, at, *yk__info_of(&state->remap, reader));
    return root == v ? out : yk__view_like(&state->g, out, &src->value[v], 0);
}

/* True if the node compares: it has to read a value as it was stored. A map that computes the value again does not round it to 16 bits, and
 * a maximum's gradient would find no element that equals the maximum. */
static bool is_comparison(const yk_node *n)
{
    return n->op == YK_OP_EQ || n->op == YK_OP_LT;
}

static yk__vid operand_for(remat *state, const yk_node *n, yk__vid v)
{
    const yk_node *made = can_fuse(n) ? sole_producer(state, v) : NULL;
    yk__vid from;
    if (!made)
        return yk__remap_value(&state->remap, v);
    from = yk__is_forward(&state->remap, made) && !yk__is_forward(&state->remap, n) && !is_comparison(n) ? chain_source(state, v) : YK_NONE;
    if (from != YK_NONE && is_gain(state, v, from))
        return copy_chain(state, v, n, true, 0);
    if (is_masked(state, v) || (is_widening(state->remap.src, made) && state->uses.readers[yk__root(state->remap.src, v)] > 1))
        return copy_chain(state, v, n, false, 0);
    if (is_widening(state->remap.src, made) && is_masked(state, yk__ins(state->remap.src, made)[0]))
        return copy_chain(state, v, n, false, 0);
    return yk__remap_value(&state->remap, v);
}

static void emit_node(remat *state, uint32_t k)
{
    const yk__graph *src = state->remap.src;
    const yk_node *n = &src->node[k];
    yk__vid in[32];
    uint32_t at;
    if (n->n_in > 32)
        return;
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = operand_for(state, n, yk__ins(src, n)[i]);
    at = yk__remap_node(&state->remap, k);
    for (uint32_t i = 0; at != YK_NONE && i < n->n_in; i++)
        state->g.index[state->g.node[at].in + i] = in[i];
}

/* True if a node that stores its result makes v: a value that fusion takes in may never exist in memory. */
static bool is_stored(const remat *state, yk__vid v)
{
    const yk__graph *src = state->remap.src;
    const yk__vid r = yk__root(src, v);
    if (!yk__whole(src, v) || state->uses.writers[r] > 1)
        return false;
    return state->hard[r] || state->uses.producer[r] == YK_NONE || !can_fuse(&src->node[state->uses.producer[r]]);
}

/* Finds the results of relu_bwd that need not be stored, see above. In a sum's chain the copies cost arithmetic only. */
static void find_masked(remat *state)
{
    const yk__graph *src = state->remap.src;
    for (uint32_t k = 0; k < src->n_node; k++) {
        const yk_node *n = &src->node[k];
        const yk__vid o = n->n_out ? yk__outs(src, n)[0] : 0;
        if (n->op == YK_OP_RELU_BWD && sole_producer(state, o) == n && state->uses.readers[o] > 1 && !state->hard[o])
            state->free[o] = is_stored(state, yk__ins(src, n)[0]) && is_stored(state, yk__ins(src, n)[1]);
    }
    for (uint32_t k = 0; k < src->n_node; k++)
        for (uint32_t i = 0; i < src->node[k].n_in && !can_fuse(&src->node[k]); i++)
            state->free[yk__root(src, yk__ins(src, &src->node[k])[i])] = false;
}

yk_status yk__plan_remat(yk__work *work, yk_error *err)
{
    const size_t nv = work->g.n_value + 1;
    remat state = {.work = work, .hard = yk__calloc(nv, 1), .free = yk__calloc(nv, 1)};
    if (!state.hard || !state.free)
        yk__fail_mem(err, nv, "a plan");
    if (!err->status && !yk__uses_new(work, &state.uses, err) && !yk__remap_begin(&state.remap, work, &state.g, err)) {
        for (size_t k = 0; k < work->g.n_node; k++)
            for (uint32_t i = 0; i < work->g.node[k].n_in; i++)
                if (!yk__is_forward(&state.remap, &work->g.node[k]) && !can_fuse(&work->g.node[k]))
                    state.hard[yk__root(&work->g, yk__ins(&work->g, &work->g.node[k])[i])] = true;
        find_masked(&state);
        for (uint32_t k = 0; k < work->g.n_node; k++)
            emit_node(&state, k);
        yk__remap_end(&state.remap, work, err);
    }
    yk__uses_free(&state.uses);
    yk__free(state.free);
    yk__free(state.hard);
    return err->status;
}
