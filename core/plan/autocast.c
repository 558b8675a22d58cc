/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixed precision: which values are held in the 16-bit format, by the precision class of the operations.
 *
 * LOWP  16-bit operands (casts are made once per value and shared by forward and backward), 16-bit result; f32 where
 *       it is a gradient of a parameter, or where only FULL operations read it.
 * FULL  f32 operands and results.
 * WIDE  16-bit if every operand of the full shape is. Operands that are broadcast (biases, statistics, constants) do not
 *       widen the result; where such a one is f32 the operation is computed in f32 and its result rounded once, and a
 *       following operation of the same kind takes the value before rounding.
 * KEEP  the format of the first float operand.
 * Losses and all that follows them are f32: cross entropy gives f32 whatever its logits are.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/plan/internal.h"

typedef struct casting {
    yk__work *w;
    yk__remap m;
    yk__graph g;
    yk_dtype low;
    yk__vid *lowered, *widened; /* by value of the old graph: its versions, YK_NONE where not made yet */
    uint8_t *full_only;        /* by root: read only by operations that want f32 */
    uint8_t *is_grad;          /* by root: a gradient contribution that nothing reads */
    const yk_node *node;
} casting;

static bool is_float(const yk_value *v)
{
    return v->dtype == YK_F32 || v->dtype == YK_BF16 || v->dtype == YK_F16;
}

static yk__vid value_native(casting *c, yk__vid v)
{
    return yk__remap_value(&c->m, v);
}

static bool is_lowered(casting *c, yk__vid v)
{
    const yk__vid x = value_native(c, v);
    return x != YK_NONE && c->g.value[x].dtype == c->low;
}

static yk__vid new_cast(casting *c, yk__vid x, yk_dtype dtype, bool leaf)
{
    yk__vid y = yk__value_new(&c->g, dtype, c->g.value[x].dims, c->g.value[x].dim);
    uint32_t at;
    if (y == YK_NONE)
        return y;
    at = yk__node_new(&c->g, YK_OP_CAST, 0, 1, &x, 1, &y, 0, NULL);
    if (c->node && !leaf)
        yk__remap_note(&c->m, at, *yk__info_of(&c->m, c->node));
    return y;
}

/* A parameter in 16 bits, or another leaf cast. */
static yk__vid leaf_as(casting *c, yk__vid x, yk_dtype dtype)
{
    const yk_value *v = &c->g.value[x];
    const yk_slot *s = v->slot == YK_NONE ? NULL : &c->g.slot[v->slot];
    int64_t dim[YK_MAX_DIMS];
    uint32_t slot;
    if (!c->w->r->keep_compute || dtype != c->low || !s || s->kind != YK_SLOT_PARAM)
        return new_cast(c, x, dtype, true);
    memcpy(dim, v->dim, sizeof dim);
    slot = yk__slot_new(&c->g, YK_SLOT_PARAM, (uint64_t)yk__value_count(v) * yk_dtype_bytes(dtype), s->key | YK__KEY_COMPUTE);
    return yk__leaf(&c->g, slot, 0, dtype, c->g.value[x].dims, dim);
}

/* The value in a format; views are views of the cast root. */
static yk__vid value_as(casting *c, yk__vid v, yk_dtype dtype)
{
    const yk__graph *s = c->m.src;
    yk__vid *memo = dtype == YK_F32 ? c->widened : c->lowered;
    const yk__vid x = value_native(c, v), r = s->value[v].base;
    if (x == YK_NONE || !is_float(&s->value[v]) || c->g.value[x].dtype == dtype)
        return x;
    if (memo[v] != YK_NONE)
        return memo[v];
    if (r == v) {
        memo[v] = s->value[v].flags & YK_VALUE_INPUT ? leaf_as(c, x, dtype) : new_cast(c, x, dtype, false);
    } else {
        const yk__vid base = value_as(c, r, dtype);
        const uint64_t at = (s->value[v].offset - s->value[r].offset) / yk_dtype_bytes(s->value[v].dtype);
        memo[v] = yk__view_like(&c->g, base, &s->value[v], at * yk_dtype_bytes(dtype));
    }
    return memo[v];
}

/* Makes the outputs: roots of the given formats, or views of what is there. */
static void make_outputs(casting *c, const yk_node *n, const yk_dtype *dtype, yk__vid *out)
{
    const yk__graph *s = c->m.src;
    for (uint32_t i = 0; i < n->n_out; i++) {
        const yk__vid v = yk__outs(s, n)[i];
        if (s->value[v].base == v && c->m.map[v] == YK_NONE && is_float(&s->value[v]))
            c->m.map[v] = yk__value_new(&c->g, dtype[i], s->value[v].dims, s->value[v].dim);
        out[i] = value_native(c, v);
    }
}

static void emit_node(casting *c, const yk_node *n, const yk__vid *in, const yk_dtype *dtype)
{
    yk__vid out[8];
    uint32_t at;
    make_outputs(c, n, dtype, out);
    for (uint32_t i = 0; i < n->n_in; i++)
        if (in[i] == YK_NONE)
            return;
    c->g.stream = n->stream;
    at = yk__node_new(&c->g, (yk_op)n->op, n->flags, n->n_in, in, n->n_out, out, n->n_attr, c->m.src->attr + n->attr);
    yk__remap_note(&c->m, at, *yk__info_of(&c->m, n));
}

/* Which operands of a LOWP operation are products' factors; the others stay f32. */
static bool is_factor(const yk_node *n, uint32_t i)
{
    if (n->op == YK_OP_ATTENTION)
        return i < 3;
    if (n->op == YK_OP_ATTENTION_BWD)
        return i < 6 && i != 2;
    return true;
}

static void cast_lowp(casting *c, const yk_node *n)
{
    const yk__graph *s = c->m.src;
    const yk__vid r = yk__root(s, yk__outs(s, n)[0]);
    const bool attention = n->op == YK_OP_ATTENTION || n->op == YK_OP_ATTENTION_BWD;
    const yk_dtype y = !attention && (c->is_grad[r] || c->full_only[r]) ? YK_F32 : c->low;
    yk_dtype dtype[8] = {y, y, y, YK_F32};
    yk__vid in[32];
    if (n->op == YK_OP_ATTENTION)
        dtype[1] = YK_F32;
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = value_as(c, yk__ins(s, n)[i], is_factor(n, i) ? c->low : YK_F32);
    emit_node(c, n, in, dtype);
}

static void cast_full(casting *c, const yk_node *n)
{
    const yk_dtype dtype[8] = {YK_F32, YK_F32, YK_F32, YK_F32, YK_F32, YK_F32, YK_F32, YK_F32};
    yk__vid in[32];
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = value_as(c, yk__ins(c->m.src, n)[i], YK_F32);
    emit_node(c, n, in, dtype);
}

static bool is_spread(const yk__graph *s, yk__vid v)
{
    return yk__value_count(&s->value[yk__root(s, v)]) < yk__value_count(&s->value[v]);
}

static void cast_widest(casting *c, const yk_node *n)
{
    const yk__graph *s = c->m.src;
    const yk__vid *x = yk__ins(s, n), o = yk__outs(s, n)[0];
    bool any = false, low = true, mixed = false;
    yk_dtype dtype, d[1];
    yk__vid in[32];
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (!is_float(&s->value[x[i]]))
            continue;
        mixed |= !is_lowered(c, x[i]);
        if (is_spread(s, x[i]))
            continue;
        any = true;
        low &= is_lowered(c, x[i]);
    }
    low &= any || !mixed;
    dtype = low && !mixed ? c->low : YK_F32;
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = value_as(c, x[i], dtype);
    d[0] = dtype;
    emit_node(c, n, in, d);
    if (low && mixed && is_float(&s->value[o]) && s->value[o].base == o && value_native(c, o) != YK_NONE) {
        c->widened[o] = c->m.map[o];
        c->m.map[o] = new_cast(c, c->widened[o], c->low, false);
    }
}

/* A buffer that parts are copied into has the low format if all the parts have. */
static yk_dtype base_format(casting *c, uint32_t k)
{
    const yk__graph *s = c->m.src;
    const yk__vid r = yk__outs(s, &s->node[k])[0];
    bool copies = false;
    for (uint32_t i = k + 1; i < s->n_node; i++) {
        const yk_node *n = &s->node[i];
        if (n->op != YK_OP_COPY || n->n_in != 2 || yk__ins(s, n)[1] != r)
            break;
        copies = true;
        if (!is_lowered(c, yk__ins(s, n)[0]))
            return YK_F32;
    }
    return copies ? c->low : YK_F32;
}

static void keep_format(casting *c, const yk_node *n)
{
    const yk__graph *s = c->m.src;
    const uint32_t leads = n->op == YK_OP_CROSS_ENTROPY_BWD ? 1 : n->op == YK_OP_COPY && n->n_in == 2 ? 1 : 0;
    const yk_dtype dtype = is_lowered(c, yk__ins(s, n)[leads]) ? c->low : YK_F32;
    yk_dtype out[8];
    yk__vid in[32];
    for (uint32_t i = 0; i < 8; i++)
        out[i] = n->op == YK_OP_BN_STATS || n->op == YK_OP_CROSS_ENTROPY ? YK_F32 : dtype;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const bool data = i <= leads && !(n->op == YK_OP_CROSS_ENTROPY_BWD && i == 0);
        const bool pair = n->op == YK_OP_MAX_POOL_BWD && i == 1;
        in[i] = value_as(c, yk__ins(s, n)[i], data || pair ? dtype : YK_F32);
    }
    emit_node(c, n, in, out);
}

static void cast_none(casting *c, uint32_t k)
{
    const yk_node *n = &c->m.src->node[k];
    const yk__graph *s = c->m.src;
    yk_dtype out[8];
    yk__vid in[32];
    if (n->op == YK_OP_ALL_REDUCE) {
        cast_full(c, n);
        return;
    }
    for (uint32_t i = 0; i < n->n_out && i < 8; i++)
        out[i] = n->op == YK_OP_FILL ? base_format(c, k) : (yk_dtype)s->value[yk__outs(s, n)[i]].dtype;
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = value_native(c, yk__ins(s, n)[i]);
    emit_node(c, n, in, out);
}

static void cast_node(casting *c, uint32_t k)
{
    const yk_node *n = &c->m.src->node[k];
    c->node = n;
    switch (yk__op_info_of(n->op)->prec) {
    case YK_PREC_LOWP:
        cast_lowp(c, n);
        break;
    case YK_PREC_FULL:
        cast_full(c, n);
        break;
    case YK_PREC_WIDE:
        cast_widest(c, n);
        break;
    case YK_PREC_KEEP:
        keep_format(c, n);
        break;
    default:
        cast_none(c, k);
    }
}

static void find_readers(casting *c, const yk__uses *u)
{
    const yk__graph *s = c->m.src;
    for (yk__vid v = 0; v < s->n_value; v++)
        c->full_only[v] = u->readers[v] > 0 && !u->kept[v];
    for (size_t k = 0; k < s->n_node; k++)
        for (uint32_t i = 0; i < s->node[k].n_in; i++)
            if (yk__op_info_of(s->node[k].op)->prec != YK_PREC_FULL)
                c->full_only[yk__root(s, yk__ins(s, &s->node[k])[i])] = 0;
    for (uint32_t i = 0; i < c->w->n_grad; i++)
        if (c->w->grad[i] != YK_NONE && !u->readers[yk__root(s, c->w->grad[i])])
            c->is_grad[yk__root(s, c->w->grad[i])] = 1;
}

/* Gradients and assigned values leave as f32: before rounding, where there is such a version. */
static void cast_kept(casting *c)
{
    yk__work *w = c->w;
    c->node = NULL;
    for (uint32_t i = 0; i < w->n_grad; i++)
        if (w->grad[i] != YK_NONE && c->widened[w->grad[i]] != YK_NONE)
            c->m.map[w->grad[i]] = c->widened[w->grad[i]];
    for (uint32_t i = 0; i < w->r->n_assign; i++)
        if (is_float(&c->m.src->value[w->assign[i]]))
            c->m.map[w->assign[i]] = value_as(c, w->assign[i], YK_F32);
}

yk_status yk__plan_autocast(yk__work *w, yk_error *err)
{
    const size_t n = w->g.n_value + 1;
    casting c = {.w = w, .low = w->r->precision};
    yk__uses u = {0};
    c.lowered = yk__malloc(n * sizeof *c.lowered);
    c.widened = yk__malloc(n * sizeof *c.widened);
    c.full_only = yk__calloc(n, 1);
    c.is_grad = yk__calloc(n, 1);
    if (!c.lowered || !c.widened || !c.full_only || !c.is_grad)
        yk__fail_mem(err, n * 10, "a plan");
    if (!err->status && !yk__uses_new(w, &u, err) && !yk__remap_begin(&c.m, w, &c.g, err)) {
        memset(c.lowered, 0xff, n * sizeof *c.lowered);
        memset(c.widened, 0xff, n * sizeof *c.widened);
        find_readers(&c, &u);
        for (uint32_t k = 0; k < w->g.n_node; k++)
            cast_node(&c, k);
        cast_kept(&c);
        yk__remap_end(&c.m, w, err);
    }
    yk__uses_free(&u);
    yk__free(c.is_grad);
    yk__free(c.full_only);
    yk__free(c.widened);
    yk__free(c.lowered);
    return err->status;
}
