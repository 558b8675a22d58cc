/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's pass that lets a layer norm in f32 write 16 bits itself. It does so if only a cast to 16 bits reads the result and the
 * device can: one pass over its rows instead of two. passes.c runs it once for each plan, in the step thread.
 */
#include "core/plan/plan_internal.h"

typedef struct narrowing {
    yk__work *work;
    yk__remap remap;
    yk__graph g;
    yk__uses uses;
} narrowing;

/* True for a root that one node writes. */
static bool is_own(const narrowing *state, yk__vid v)
{
    const yk_value *x = &state->remap.src->value[v];
    return x->base == v && x->slot == YK_NONE && state->uses.writers[v] == 1;
}

/* The cast that is the only reader of y; NULL if absent. */
static const yk_node *only_cast(const narrowing *state, yk__vid y)
{
    const yk__graph *src = state->remap.src;
    const yk_node *n;
    if (!is_own(state, y) || state->uses.readers[y] != 1 || state->uses.kept[y] || src->value[y].dtype != YK_F32)
        return NULL;
    n = &src->node[state->uses.last[y]];
    if (n->op != YK_OP_CAST || !yk__whole(src, yk__ins(src, n)[0]) || !is_own(state, yk__outs(src, n)[0]))
        return NULL;
    const uint32_t to = src->value[yk__outs(src, n)[0]].dtype;
    return to == YK_BF16 || to == YK_F16 ? n : NULL;
}

static void emit_node(narrowing *state, uint32_t k)
{
    const yk__graph *src = state->remap.src;
    const yk_node *n = &src->node[k], *cast;
    yk__vid y, narrow;
    if (n->op == YK_OP_CAST && state->remap.map[yk__outs(src, n)[0]] != YK_NONE) /* merged into its layer norm */
        return;
    y = yk__outs(src, n)[0];
    cast = n->op == YK_OP_LAYER_NORM && (state->remap.src_info[k].claims & YK_CLAIM_NARROW_OUT) ? only_cast(state, y) : NULL;
    if (cast) {
        const yk__vid to = yk__outs(src, cast)[0];
        narrow = yk__value_new(&state->g, (yk_dtype)src->value[to].dtype, src->value[y].dims, src->value[y].dim);
        if (narrow == YK_NONE)
            return;
        state->remap.map[y] = narrow;
        state->remap.map[to] = yk__value_same_shape(&src->value[to], &src->value[y])
                                  ? narrow
                                  : yk__view_like(&state->g, narrow, &src->value[to], 0);
    }
    yk__remap_node(&state->remap, k);
}

yk_status yk__plan_narrow(yk__work *work, yk_error *err)
{
    narrowing state = {.work = work};
    if (!yk__uses_new(work, &state.uses, err) && !yk__remap_begin(&state.remap, work, &state.g, err)) {
        for (uint32_t k = 0; k < work->g.n_node; k++)
            emit_node(&state, k);
        yk__remap_end(&state.remap, work, err);
    }
    yk__uses_free(&state.uses);
    return err->status;
}
