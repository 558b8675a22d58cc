/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's pass for mixed precision: selects the values in the 16-bit format, by the precision class of the operations, and inserts
 * casts. passes.c runs it in the step thread, once for each plan with a 16-bit format.
 *
 * LOWP: 16-bit operands (each value is cast once, for forward and backward) and a 16-bit result. The result is f32 if it is a parameter's
 * gradient that no operation reads, or if only FULL operations read it. Attention's bias, its gradient, masks and lse stay f32; its other
 * results are 16-bit, whatever reads them.
 *
 * FULL: f32 operands and results.
 *
 * WIDE: 16-bit if every operand of the full shape is. Broadcast operands (biases, statistics, constants) do not widen the result. If such
 * an operand is f32, the operation computes in f32 and rounds its result once. A following operation in f32 takes the value before
 * rounding.
 *
 * KEEP: the format of the leading operand: the logits of cross_entropy_bwd, the base of a copy with one, else operand 0. Results of
 * bn_stats and cross_entropy are f32.
 *
 * NONE: no casts. Results keep the type that they have in the old graph. An all_reduce is FULL, and a fill takes the low format if each
 * part copied into it has that format.
 *
 * Blocks of f32 (yk__full): every operation and gradient in them is FULL; inputs are widened, outputs are f32. In a job of fp8 the low
 * format is bf16. Operands of some products (eight.h) are rounded to 8 bits, once per value and format.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/plan/eight.h"

typedef struct casting {
    yk__work *work;
    yk__remap remap;
    yk__graph g;
    yk_dtype low;
    yk__vid *lowered, *widened; /* by value of the old graph: its versions, YK_NONE if absent */
    uint8_t *full_only;        /* by root: only FULL operations read it, and no result of the plan (work->keep) is it */
    uint8_t *is_grad;          /* by root: a gradient contribution that nothing reads */
    const yk_node *node;
    yk__eight *eight;          /* by node of the old graph; NULL if no node has operands of 8 bits */
    bool marks_eight;          /* the device claims round8, so products may carry the marks */
    yk__vid *rounded[YK__EIGHT_FORMATS]; /* by value, as lowered */
} casting;

static bool is_float(const yk_value *v)
{
    return v->dtype == YK_F32 || v->dtype == YK_BF16 || v->dtype == YK_F16;
}

static yk__vid value_native(casting *state, yk__vid v)
{
    return yk__remap_value(&state->remap, v);
}

static bool is_lowered(casting *state, yk__vid v)
{
    const yk__vid x = value_native(state, v);
    return x != YK_NONE && state->g.value[x].dtype == state->low;
}

/* Casts x. leaf: the cast gets no origin, so recompute.c computes it once. Else it has its reader's origin, and may be repeated. */
static yk__vid new_cast(casting *state, yk__vid x, yk_dtype dtype, bool leaf)
{
    yk__vid y = yk__value_new(&state->g, dtype, state->g.value[x].dims, state->g.value[x].dim);
    uint32_t at;
    if (y == YK_NONE)
        return y;
    at = yk__node_new(&state->g, YK_OP_CAST, 0, 1, &x, 1, &y, 0, NULL);
    if (state->node && !leaf)
        yk__remap_note(&state->remap, at, *yk__info_of(&state->remap, state->node));
    return y;
}

/* A leaf in another format: a parameter's own 16-bit copy, or a cast. */
static yk__vid leaf_as(casting *state, yk__vid x, yk_dtype dtype)
{
    const yk_value *v = &state->g.value[x];
    const yk_slot *s = v->slot == YK_NONE ? NULL : &state->g.slot[v->slot];
    int64_t dim[YK_MAX_DIMS];
    uint32_t slot;
    if (s && yk__plan_pulled(state->work->request, s) != YK_NONE) /* recompute.c repeats this cast in backward, when the pull is gone */
        return new_cast(state, x, dtype, false);
    if (!state->work->request->keep_compute || dtype != state->low || !s || s->kind != YK_SLOT_PARAM)
        return new_cast(state, x, dtype, true);
    memcpy(dim, v->dim, sizeof dim);
    slot = yk__slot_new(&state->g, YK_SLOT_PARAM, (uint64_t)yk__value_count(v) * yk_dtype_bytes(dtype), s->key | YK__KEY_COMPUTE);
    return yk__leaf(&state->g, slot, 0, dtype, state->g.value[x].dims, dim);
}

/* The view v over `whole`, the new version of v's root. */
static yk__vid view_as(casting *state, yk__vid v, yk__vid whole, yk_dtype dtype)
{
    const yk_value *x = &state->remap.src->value[v], *r = &state->remap.src->value[x->base];
    return yk__view_like(&state->g, whole, x, (x->offset - r->offset) / yk_dtype_bytes(x->dtype) * yk_dtype_bytes(dtype));
}

/* The value in a format; views are views of the cast root. */
static yk__vid value_as(casting *state, yk__vid v, yk_dtype dtype)
{
    const yk__graph *src = state->remap.src;
    yk__vid *memo = dtype == YK_F32 ? state->widened : state->lowered;
    const yk__vid x = value_native(state, v), r = src->value[v].base;
    if (x == YK_NONE || !is_float(&src->value[v]) || state->g.value[x].dtype == dtype)
        return x;
    if (memo[v] != YK_NONE)
        return memo[v];
    if (r == v) {
        memo[v] = src->value[v].flags & YK_VALUE_INPUT ? leaf_as(state, x, dtype) : new_cast(state, x, dtype, false);
    } else {
        memo[v] = view_as(state, v, value_as(state, r, dtype), dtype);
    }
    return memo[v];
}

/*
 * The value in the low format, rounded to 8 bits; views are views of the rounded root. An f32 version is rounded directly, and
 * to the low format without loss: otherwise the result would depend on a device's fusion.
 */
static yk__vid value_rounded(casting *state, yk__vid v, uint32_t format)
{
    const int64_t attr = format == YK__EIGHT_E5M2 ? YK_ROUND8_E5M2 : YK_ROUND8_E4M3;
    const yk_value *old = &state->remap.src->value[v];
    const bool is_leaf = old->flags & YK_VALUE_INPUT;
    yk__vid *memo = state->rounded[format], x, y;
    uint32_t at;
    if (memo[v] != YK_NONE)
        return memo[v];
    if (old->base != v)
        return memo[v] = view_as(state, v, value_rounded(state, old->base, format), state->low);
    x = state->widened[v] != YK_NONE ? state->widened[v] : value_native(state, v);
    y = x == YK_NONE ? YK_NONE : yk__value_new(&state->g, (yk_dtype)state->g.value[x].dtype, old->dims, old->dim);
    if (y == YK_NONE)
        return y;
    at = yk__node_new(&state->g, YK_OP_ROUND8, 0, 1, &x, 1, &y, 1, &attr);
    state->marks_eight |= at != YK_NONE && yk__plan_ask(state->work->request, &state->g, &state->g.node[at], NULL);
    if (!is_leaf)
        yk__remap_note(&state->remap, at, *yk__info_of(&state->remap, state->node));
    if (state->g.value[y].dtype != state->low)
        y = new_cast(state, y, state->low, is_leaf);
    return memo[v] = y;
}

/* Makes the outputs: roots of the given formats, or views of existing values. */
static void make_outputs(casting *state, const yk_node *n, const yk_dtype *dtype, yk__vid *out)
{
    const yk__graph *src = state->remap.src;
    for (uint32_t i = 0; i < n->n_out; i++) {
        const yk__vid v = yk__outs(src, n)[i];
        if (src->value[v].base == v && state->remap.map[v] == YK_NONE && is_float(&src->value[v]))
            state->remap.map[v] = yk__value_new(&state->g, dtype[i], src->value[v].dims, src->value[v].dim);
        out[i] = value_native(state, v);
    }
}

static void emit_node(casting *state, const yk_node *n, const yk__vid *in, const yk_dtype *dtype)
{
    yk__vid out[8];
    uint32_t at;
    make_outputs(state, n, dtype, out);
    for (uint32_t i = 0; i < n->n_in; i++)
        if (in[i] == YK_NONE)
            return;
    state->g.stream = n->stream;
    at = yk__node_new(&state->g, (yk_op)n->op, n->flags, n->n_in, in, n->n_out, out, n->n_attr, state->remap.src->attr + n->attr);
    yk__remap_note(&state->remap, at, *yk__info_of(&state->remap, n));
}

/* True for operands of a LOWP operation that are factors of a product; its other operands stay f32. */
static bool is_factor(const yk_node *n, uint32_t i)
{
    if (n->op == YK_OP_ATTENTION)
        return i < 3;
    if (n->op == YK_OP_ATTENTION_BWD)
        return i < 6 && i != 2;
    return true;
}

static void cast_lowp(casting *state, const yk_node *n)
{
    const yk__graph *src = state->remap.src;
    const yk__vid r = yk__root(src, yk__outs(src, n)[0]);
    const yk__eight *eight = state->eight ? &state->eight[n - src->node] : NULL;
    const bool attention = n->op == YK_OP_ATTENTION || n->op == YK_OP_ATTENTION_BWD;
    const yk_dtype y = !attention && (state->is_grad[r] || state->full_only[r]) ? YK_F32 : state->low;
    yk_dtype dtype[8] = {y, y, y, YK_F32};
    yk__vid in[32];
    if (n->op == YK_OP_ATTENTION)
        dtype[1] = YK_F32;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const uint32_t format = eight && i < 2 ? eight->format[i] : YK__EIGHT_NONE;
        in[i] = format ? value_rounded(state, yk__ins(src, n)[i], format)
                       : value_as(state, yk__ins(src, n)[i], is_factor(n, i) ? state->low : YK_F32);
    }
    const size_t before = state->g.n_node;
    emit_node(state, n, in, dtype);
    if (eight && state->marks_eight && state->g.n_node > before)
        state->g.node[before].flags |= yk__eight_flags(eight);
}

static void cast_full(casting *state, const yk_node *n)
{
    const yk_dtype dtype[8] = {YK_F32, YK_F32, YK_F32, YK_F32, YK_F32, YK_F32, YK_F32, YK_F32};
    yk__vid in[32];
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = value_as(state, yk__ins(state->remap.src, n)[i], YK_F32);
    emit_node(state, n, in, dtype);
}

static bool is_spread(const yk__graph *src, yk__vid v)
{
    return yk__value_count(&src->value[yk__root(src, v)]) < yk__value_count(&src->value[v]);
}

static void cast_widest(casting *state, const yk_node *n)
{
    const yk__graph *src = state->remap.src;
    const yk__vid *x = yk__ins(src, n), o = yk__outs(src, n)[0];
    bool any = false, low = true, mixed = false;
    yk_dtype dtype, d[1];
    yk__vid in[32];
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (!is_float(&src->value[x[i]]))
            continue;
        mixed |= !is_lowered(state, x[i]);
        if (is_spread(src, x[i]))
            continue;
        any = true;
        low &= is_lowered(state, x[i]);
    }
    low &= any || !mixed;
    dtype = low && !mixed ? state->low : YK_F32;
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = value_as(state, x[i], dtype);
    d[0] = dtype;
    emit_node(state, n, in, d);
    if (low && mixed && is_float(&src->value[o]) && src->value[o].base == o && value_native(state, o) != YK_NONE) {
        state->widened[o] = state->remap.map[o];
        state->remap.map[o] = new_cast(state, state->widened[o], state->low, false);
    }
}

/* Class of a node: FULL in a block of f32, but NONE everywhere if its operation is. */
static yk__op_prec precision_class(const yk__plan_request *request, const yk_node *n)
{
    const yk__op_prec prec = (yk__op_prec)yk__op_info_of(n->op)->prec;
    for (uint32_t i = 0; i < request->n_full && prec != YK_PREC_NONE; i++)
        if (n->stream >= request->full[i].first && n->stream <= request->full[i].last)
            return YK_PREC_FULL;
    return prec;
}

/* Format of a buffer of copied parts: the low format if all parts have it. */
static yk_dtype base_format(casting *state, uint32_t k)
{
    const yk__graph *src = state->remap.src;
    const yk__vid r = yk__outs(src, &src->node[k])[0];
    bool copies = false;
    for (uint32_t i = k + 1; i < src->n_node; i++) {
        const yk_node *n = &src->node[i];
        if (n->op != YK_OP_COPY || n->n_in != 2 || yk__ins(src, n)[1] != r)
            break;
        copies = true;
        if (precision_class(state->work->request, n) == YK_PREC_FULL || !is_lowered(state, yk__ins(src, n)[0]))
            return YK_F32;
    }
    return copies ? state->low : YK_F32;
}

static void keep_format(casting *state, const yk_node *n)
{
    const yk__graph *src = state->remap.src;
    const uint32_t leads = n->op == YK_OP_CROSS_ENTROPY_BWD ? 1 : n->op == YK_OP_COPY && n->n_in == 2 ? 1 : 0;
    const yk_dtype dtype = is_lowered(state, yk__ins(src, n)[leads]) ? state->low : YK_F32;
    yk_dtype out[8];
    yk__vid in[32];
    for (uint32_t i = 0; i < 8; i++)
        out[i] = n->op == YK_OP_BN_STATS || n->op == YK_OP_CROSS_ENTROPY ? YK_F32 : dtype;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const bool data = i <= leads && !(n->op == YK_OP_CROSS_ENTROPY_BWD && i == 0);
        const bool pair = n->op == YK_OP_MAX_POOL_BWD && i == 1;
        in[i] = value_as(state, yk__ins(src, n)[i], data || pair ? dtype : YK_F32);
    }
    emit_node(state, n, in, out);
}

static void cast_none(casting *state, uint32_t k)
{
    const yk_node *n = &state->remap.src->node[k];
    const yk__graph *src = state->remap.src;
    yk_dtype out[8];
    yk__vid in[32];
    if (n->op == YK_OP_ALL_REDUCE) {
        cast_full(state, n);
        return;
    }
    for (uint32_t i = 0; i < n->n_out && i < 8; i++)
        out[i] = n->op == YK_OP_FILL ? base_format(state, k) : (yk_dtype)src->value[yk__outs(src, n)[i]].dtype;
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = value_native(state, yk__ins(src, n)[i]);
    emit_node(state, n, in, out);
}

static void cast_node(casting *state, uint32_t k)
{
    const yk_node *n = &state->remap.src->node[k];
    state->node = n;
    switch (precision_class(state->work->request, n)) {
    case YK_PREC_LOWP:
        cast_lowp(state, n);
        break;
    case YK_PREC_FULL:
        cast_full(state, n);
        break;
    case YK_PREC_WIDE:
        cast_widest(state, n);
        break;
    case YK_PREC_KEEP:
        keep_format(state, n);
        break;
    default:
        cast_none(state, k);
    }
}

static void find_readers(casting *state, const yk__uses *uses)
{
    const yk__graph *src = state->remap.src;
    for (yk__vid v = 0; v < src->n_value; v++)
        state->full_only[v] = uses->readers[v] > 0 && !uses->kept[v];
    for (size_t k = 0; k < src->n_node; k++)
        for (uint32_t i = 0; i < src->node[k].n_in; i++)
            if (precision_class(state->work->request, &src->node[k]) != YK_PREC_FULL)
                state->full_only[yk__root(src, yk__ins(src, &src->node[k])[i])] = 0;
    for (uint32_t i = 0; i < state->work->n_grad; i++)
        if (state->work->grad[i] != YK_NONE && !uses->readers[yk__root(src, state->work->grad[i])])
            state->is_grad[yk__root(src, state->work->grad[i])] = 1;
}

/* A gradient takes its f32 version if it has one: that before rounding, or a cast for a reader. place.c widens the remaining gradients.
 * Assigned values are cast to f32. */
static void cast_kept(casting *state)
{
    yk__work *work = state->work;
    state->node = NULL;
    for (uint32_t i = 0; i < work->n_grad; i++)
        if (work->grad[i] != YK_NONE && state->widened[work->grad[i]] != YK_NONE)
            state->remap.map[work->grad[i]] = state->widened[work->grad[i]];
    for (uint32_t i = 0; i < work->request->n_assign; i++)
        if (is_float(&state->remap.src->value[work->assign[i]]))
            state->remap.map[work->assign[i]] = value_as(state, work->assign[i], YK_F32);
}

static void free_lists(casting *state)
{
    yk__free(state->eight);
    yk__free(state->is_grad);
    yk__free(state->full_only);
    yk__free(state->lowered);
}

/* Allocates the tables by value, by root and by node, and selects the operands of 8 bits. */
static yk_status make_lists(casting *state, yk_error *err)
{
    const yk__work *work = state->work;
    const size_t n = work->g.n_value + 1, lists = work->request->rounds8 ? 4 : 2;
    state->lowered = yk__malloc(n * lists * sizeof *state->lowered);
    state->full_only = yk__calloc(n, 1);
    state->is_grad = yk__calloc(n, 1);
    state->eight = work->request->rounds8 ? yk__calloc(work->g.n_node + 1, sizeof *state->eight) : NULL;
    if (!state->lowered || !state->full_only || !state->is_grad || (work->request->rounds8 && !state->eight))
        return yk__fail_mem(err, n * 10, "a plan");
    memset(state->lowered, 0xff, n * lists * sizeof *state->lowered);
    state->widened = state->lowered + n;
    for (uint32_t f = 1; f < YK__EIGHT_FORMATS && state->eight; f++)
        state->rounded[f] = state->widened + n * f;
    return state->eight ? yk__eight_choose(work, state->eight, err) : YK_OK;
}

yk_status yk__plan_autocast(yk__work *work, yk_error *err)
{
    casting state = {.work = work, .low = work->request->precision};
    yk__uses uses = {0};
    if (!make_lists(&state, err) && !yk__uses_new(work, &uses, err) && !yk__remap_begin(&state.remap, work, &state.g, err)) {
        find_readers(&state, &uses);
        for (uint32_t k = 0; k < work->g.n_node; k++)
            cast_node(&state, k);
        cast_kept(&state);
        yk__remap_end(&state.remap, work, err);
    }
    yk__uses_free(&uses);
    free_lists(&state);
    return err->status;
}
