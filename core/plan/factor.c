/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's pass for sums of scaled values: sum(-x) = -sum(x), and sum(x * c) = c * sum(x) if c is constant along the summed axes.
 * Batch norm's mean and beta, a shift and a scale, broadcast over the same axes. Their gradients then share one sum, which saves one pass
 * over the gradient. passes.c runs it once for each plan, in the step thread.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/plan/plan_internal.h"

#define MOST_FACTORS 4

typedef struct factoring {
    yk__remap remap;
    yk__graph g;
    yk__uses uses;
    uint32_t *sums; /* by value of the old graph: its latest emitted sum, a node of the new graph + 1 */
} factoring;

static const yk_node *sole_producer(const factoring *state, yk__vid v)
{
    const yk__graph *src = state->remap.src;
    return src->value[v].base == v && src->value[v].slot == YK_NONE && state->uses.writers[v] == 1 ? &src->node[state->uses.producer[v]]
                                                                                                   : NULL;
}

static bool is_constant(const yk_value *v, uint64_t axes)
{
    for (uint32_t i = 0; i < v->dims; i++)
        if ((axes >> i & 1) && v->dim[i] != 1 && v->stride[i] != 0)
            return false;
    return true;
}

/* A sum reads dense values alone: a gradient that is broadcast or permuted stays under its factor. */
static yk__vid dense_or_none(const factoring *state, yk__vid v)
{
    return yk__value_is_dense(&state->remap.src->value[v]) ? v : YK_NONE;
}

/* True if v has one writer, so that it can be read later. */
static bool is_single_written(const factoring *state, yk__vid v)
{
    return state->uses.writers[yk__root(state->remap.src, v)] <= 1;
}

/* The summed operand of the node that makes v; *factor gets the other one (YK_NONE: the sign). YK_NONE for another node. */
static yk__vid summed_operand(const factoring *state, yk__vid v, uint64_t axes, yk__vid *factor)
{
    const yk__graph *src = state->remap.src;
    const yk_node *n = sole_producer(state, v);
    *factor = YK_NONE;
    if (!n || yk__op_traits_of(n->op)->linear != YK_LINEAR_SCALE || src->value[v].dtype != YK_F32)
        return YK_NONE;
    if (!is_single_written(state, yk__ins(src, n)[0]) || !is_single_written(state, yk__ins(src, n)[n->n_in - 1]))
        return YK_NONE;
    if (n->n_in == 1)
        return dense_or_none(state, yk__ins(src, n)[0]);
    for (uint32_t i = 0; i < 2; i++)
        if (is_constant(&src->value[yk__ins(src, n)[i]], axes)) {
            *factor = yk__ins(src, n)[i];
            return dense_or_none(state, yk__ins(src, n)[1 - i]);
        }
    return YK_NONE;
}

static yk__vid sum_of(factoring *state, yk__vid v, const yk_node *sum)
{
    const yk__graph *src = state->remap.src;
    const int64_t axes = src->attr[sum->attr];
    const yk_value *like = &src->value[yk__outs(src, sum)[0]];
    yk__vid x = yk__remap_value(&state->remap, v), y;
    uint32_t at = state->sums[v];
    if (at && state->g.attr[state->g.node[at - 1].attr] == axes)
        return yk__outs(&state->g, &state->g.node[at - 1])[0];
    y = yk__value_new(&state->g, (yk_dtype)like->dtype, like->dims, like->dim);
    if (x == YK_NONE || y == YK_NONE)
        return YK_NONE;
    at = yk__node_new(&state->g, YK_OP_SUM, 0, 1, &x, 1, &y, 1, &axes);
    if (at == YK_NONE)
        return YK_NONE;
    yk__remap_note(&state->remap, at, *yk__info_of(&state->remap, sum));
    state->sums[v] = at + 1;
    return y;
}

/* y * factor, or -y. */
static yk__vid apply_factor(factoring *state, yk__vid y, yk__vid factor, const yk_node *sum)
{
    const yk_value like = state->g.value[y];
    yk__vid in[2] = {y, YK_NONE}, out = yk__value_new(&state->g, (yk_dtype)like.dtype, like.dims, like.dim);
    uint32_t at;
    if (factor != YK_NONE) {
        yk_value small = state->remap.src->value[factor];
        memcpy(small.dim, like.dim, sizeof small.dim);
        in[1] = yk__view_like(&state->g, yk__remap_value(&state->remap, factor), &small, 0);
        if (in[1] == YK_NONE)
            return YK_NONE;
    }
    if (out == YK_NONE)
        return out;
    at = yk__node_new(&state->g, factor == YK_NONE ? YK_OP_NEG : YK_OP_MUL, 0, factor == YK_NONE ? 1 : 2, in, 1, &out, 0, NULL);
    yk__remap_note(&state->remap, at, *yk__info_of(&state->remap, sum));
    return out;
}

static void emit_sum(factoring *state, const yk_node *n)
{
    const yk__graph *src = state->remap.src;
    const yk__vid out = yk__outs(src, n)[0];
    const uint64_t axes = (uint64_t)src->attr[n->attr];
    yk__vid factor[MOST_FACTORS], v = yk__ins(src, n)[0], x, y;
    uint32_t k = 0;
    while (k < MOST_FACTORS && (x = summed_operand(state, v, axes, &factor[k])) != YK_NONE) {
        v = x;
        k++;
    }
    state->g.stream = n->stream;
    y = sum_of(state, v, n);
    while (k-- > 0 && y != YK_NONE)
        y = apply_factor(state, y, factor[k], n);
    state->remap.map[out] = y;
}

static bool own_sum(const factoring *state, const yk_node *n)
{
    const yk__graph *src = state->remap.src;
    const yk__vid o = n->n_out ? yk__outs(src, n)[0] : YK_NONE;
    return n->op == YK_OP_SUM && sole_producer(state, o) == n && state->remap.map[o] == YK_NONE && src->value[o].dtype == YK_F32;
}

yk_status yk__plan_factor(yk__work *work, yk_error *err)
{
    factoring state = {.sums = yk__calloc(work->g.n_value + 1, sizeof *state.sums)};
    if (!state.sums)
        return yk__fail_mem(err, work->g.n_value * sizeof *state.sums, "a plan");
    if (!yk__uses_new(work, &state.uses, err) && !yk__remap_begin(&state.remap, work, &state.g, err)) {
        for (uint32_t k = 0; k < work->g.n_node; k++)
            if (own_sum(&state, &work->g.node[k]))
                emit_sum(&state, &work->g.node[k]);
            else
                yk__remap_node(&state.remap, k);
        yk__remap_end(&state.remap, work, err);
    }
    yk__uses_free(&state.uses);
    yk__free(state.sums);
    return err->status;
}
