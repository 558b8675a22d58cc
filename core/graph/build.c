/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short forms that append nodes to a graph: operations with broadcasting, casts, sums over ranks, values made of parts. The trace
 * (core/job/trace) makes a user's operations with it, core/grad and the bodies derivatives and definitions. Passes (core/plan), probes
 * (core/device) and yoke-cts use it too, all in the caller's thread.
 *
 * A failure stays in graph->error, and later calls do nothing and give YK_NONE. Sealing gives the nodes so far as a yk_graph to read.
 */
#include "core/graph/graph_internal.h"

#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"

/* ---- Short forms ---- */

static yk__vid apply_single(yk__graph *g, yk_op op, uint32_t n_in, const yk__vid *in, uint32_t n_attr,
                            const int64_t *attr, yk_dtype want)
{
    yk__vid y;
    for (uint32_t i = 0; i < n_in; i++)
        if (in[i] == YK_NONE)
            return YK_NONE;
    return yk__apply(g, op, n_in, in, n_attr, attr, want, 0, NULL, &y, 1) ? y : YK_NONE;
}

yk__vid yk__un(yk__graph *g, yk_op op, yk__vid x)
{
    return apply_single(g, op, 1, &x, 0, NULL, YK_DTYPE_COUNT);
}

yk__vid yk__all_reduce(yk__graph *g, yk__vid x)
{
    const int64_t how = YK_REDUCE_SUM;
    x = yk__dense(g, x);
    return apply_single(g, YK_OP_ALL_REDUCE, 1, &x, 1, &how, YK_DTYPE_COUNT);
}

yk__vid yk__all_max(yk__graph *g, yk__vid x)
{
    const int64_t how = YK_REDUCE_MAX;
    x = yk__dense(g, x);
    return apply_single(g, YK_OP_ALL_REDUCE, 1, &x, 1, &how, YK_DTYPE_COUNT);
}

/* NumPy's broadcasting of n operands, by views. A value that is neither dense nor broadcast is copied before it is
 * expanded, while it is small. */
static bool operands_broadcast(yk__graph *g, uint32_t n, yk__vid *x)
{
    int64_t dim[YK_MAX_DIMS];
    uint32_t dims = 0;
    bool equal = true;
    for (uint32_t i = 0; i < n; i++) {
        if (x[i] == YK_NONE)
            return false;
        if (g->value[x[i]].dims > dims)
            dims = g->value[x[i]].dims;
        equal = equal && yk__value_same_shape(&g->value[x[i]], &g->value[x[0]]);
    }
    if (equal)
        return true;
    for (uint32_t k = 0; k < dims; k++) {
        dim[k] = 1;
        for (uint32_t i = 0; i < n; i++) {
            const yk_value *v = &g->value[x[i]];
            if (k + v->dims >= dims && v->dim[k + v->dims - dims] != 1)
                dim[k] = v->dim[k + v->dims - dims];
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!yk__value_is_broadcast(&g->value[x[i]]))
            x[i] = yk__dense(g, x[i]);
        x[i] = yk__expand(g, x[i], dims, dim);
        if (x[i] == YK_NONE)
            return false;
    }
    return true;
}

static bool operands_broadcast_for(yk__graph *g, yk_op op, uint32_t n, yk__vid *x)
{
    bool before = g->error.status != YK_OK;
    if (operands_broadcast(g, n, x))
        return true;
    if (!before && g->error.status && yk__op_info_of(op))
        yk__fail_in(&g->error, "%s", yk__op_info_of(op)->name);
    return false;
}

yk__vid yk__bin(yk__graph *g, yk_op op, yk__vid a, yk__vid b)
{
    yk__vid x[2] = {a, b};
    return operands_broadcast_for(g, op, 2, x) ? apply_single(g, op, 2, x, 0, NULL, YK_DTYPE_COUNT) : YK_NONE;
}

yk__vid yk__cast(yk__graph *g, yk__vid x, yk_dtype dtype)
{
    if (x == YK_NONE || g->value[x].dtype == dtype)
        return x;
    return apply_single(g, YK_OP_CAST, 1, &x, 0, NULL, dtype);
}

yk__vid yk__select(yk__graph *g, yk__vid c, yk__vid a, yk__vid b)
{
    yk__vid x[3] = {c, a, b};
    return operands_broadcast_for(g, YK_OP_SELECT, 3, x) ? apply_single(g, YK_OP_SELECT, 3, x, 0, NULL, YK_DTYPE_COUNT)
                                                         : YK_NONE;
}

yk__vid yk__const(yk__graph *g, double value, yk_dtype dtype)
{
    return yk__fill(g, value, dtype, 0, NULL);
}

yk__vid yk__fill(yk__graph *g, double value, yk_dtype dtype, uint32_t dims, const int64_t *dim)
{
    static const int64_t none[1];
    int64_t attr = yk_attr_of_f64(value);
    yk__vid y;
    return yk__apply(g, YK_OP_FILL, 0, NULL, 1, &attr, dtype, dims, dims ? dim : none, &y, 1) ? y : YK_NONE;
}

yk__vid yk__iota(yk__graph *g, uint32_t axis, yk_dtype dtype, uint32_t dims, const int64_t *dim)
{
    int64_t attr = axis;
    yk__vid y;
    return yk__apply(g, YK_OP_IOTA, 0, NULL, 1, &attr, dtype, dims, dim, &y, 1) ? y : YK_NONE;
}

yk__vid yk__rng(yk__graph *g, yk__vid key, yk__vid rows, uint32_t stream, uint32_t dims, const int64_t *dim)
{
    yk__vid in[2] = {key, rows}, y;
    int64_t attr = stream;
    if (key == YK_NONE || rows == YK_NONE)
        return YK_NONE;
    return yk__apply(g, YK_OP_RNG, 2, in, 1, &attr, YK_F32, dims, dim, &y, 1) ? y : YK_NONE;
}

yk__vid yk__scale(yk__graph *g, yk__vid x, double factor)
{
    if (x == YK_NONE || factor == 1)
        return x;
    return yk__bin(g, YK_OP_MUL, x, yk__const(g, factor, g->value[x].dtype));
}

/* Axes of length 1 need no reduction. */
static uint32_t long_axes(const yk__graph *g, yk__vid x, uint32_t axes)
{
    for (uint32_t i = 0; i < g->value[x].dims; i++)
        if (g->value[x].dim[i] == 1)
            axes &= ~(1u << i);
    return axes;
}

static yk__vid axes_reduce(yk__graph *g, yk_op op, yk__vid x, uint32_t axes)
{
    int64_t attr;
    if (x == YK_NONE)
        return YK_NONE;
    attr = long_axes(g, x, axes);
    return attr ? apply_single(g, op, 1, &x, 1, &attr, YK_DTYPE_COUNT) : x;
}

yk__vid yk__sum(yk__graph *g, yk__vid x, uint32_t axes)
{
    return axes_reduce(g, YK_OP_SUM, x, axes);
}

yk__vid yk__rmax(yk__graph *g, yk__vid x, uint32_t axes)
{
    return axes_reduce(g, YK_OP_RMAX, x, axes);
}

yk__vid yk__argmax(yk__graph *g, yk__vid x, uint32_t axis)
{
    int64_t attr = axis;
    return apply_single(g, YK_OP_ARGMAX, 1, &x, 1, &attr, YK_DTYPE_COUNT);
}

static yk__vid last_axes_swap(yk__graph *g, yk__vid x)
{
    uint32_t axis[YK_MAX_DIMS], r;
    if (x == YK_NONE)
        return YK_NONE;
    r = g->value[x].dims;
    for (uint32_t i = 0; i < r; i++)
        axis[i] = i;
    if (r < 2)
        return yk__graph_fail(g, YK_E_ARG, "dot: an operand has %u dimensions, not 2 or more", r);
    axis[r - 2] = r - 1, axis[r - 1] = r - 2;
    return yk__permute(g, x, axis);
}

/* [.., M, K] x [K, N] as one product of two matrices. */
static yk__vid dot_rows(yk__graph *g, yk__vid a, yk__vid b)
{
    yk_value v = g->value[a];
    yk__vid in[2] = {YK_NONE, b}, y;
    int64_t k = v.dim[v.dims - 1], rows = 1;
    for (uint32_t i = 0; i + 1 < v.dims; i++)
        rows *= v.dim[i];
    in[0] = yk__reshape(g, a, 2, (int64_t[]){rows, k});
    y = apply_single(g, YK_OP_DOT, 2, in, 0, NULL, YK_DTYPE_COUNT);
    if (y == YK_NONE)
        return YK_NONE;
    v.dim[v.dims - 1] = g->value[y].dim[1];
    return yk__reshape(g, y, v.dims, v.dim);
}

/* Broadcasts the leading dimensions of a and b against each other and merges them into one. */
static yk__vid dot_many(yk__graph *g, yk__vid a, yk__vid b)
{
    yk__vid in[2] = {a, b}, flat[2], y;
    int64_t dim[YK_MAX_DIMS], batch = 1;
    uint32_t r = g->value[a].dims > g->value[b].dims ? g->value[a].dims : g->value[b].dims;
    for (uint32_t i = 0; i + 2 < r; i++) {
        dim[i] = 1;
        for (uint32_t k = 0; k < 2; k++) {
            const yk_value *v = &g->value[in[k]];
            if (i + v->dims >= r && v->dim[i + v->dims - r] != 1)
                dim[i] = v->dim[i + v->dims - r];
        }
        batch *= dim[i];
    }
    for (uint32_t k = 0; k < 2; k++) {
        const yk_value *v = &g->value[in[k]];
        dim[r - 2] = v->dim[v->dims - 2], dim[r - 1] = v->dim[v->dims - 1];
        flat[k] = yk__expand(g, in[k], r, dim);
        flat[k] = yk__reshape(g, flat[k], 3, (int64_t[]){batch, dim[r - 2], dim[r - 1]});
    }
    y = apply_single(g, YK_OP_DOT, 2, flat, 0, NULL, YK_DTYPE_COUNT);
    if (y == YK_NONE)
        return YK_NONE;
    dim[r - 2] = g->value[y].dim[1], dim[r - 1] = g->value[y].dim[2];
    return yk__reshape(g, y, r, dim);
}

yk__vid yk__dot(yk__graph *g, yk__vid a, yk__vid b, bool ta, bool tb)
{
    yk__vid in[2];
    uint32_t ra, rb;
    in[0] = ta ? last_axes_swap(g, a) : a;
    in[1] = tb ? last_axes_swap(g, b) : b;
    if (in[0] == YK_NONE || in[1] == YK_NONE)
        return YK_NONE;
    ra = g->value[in[0]].dims, rb = g->value[in[1]].dims;
    if (ra > 2 && rb == 2 && yk__value_is_dense(&g->value[in[0]]))
        return dot_rows(g, in[0], in[1]);
    if (ra >= 2 && rb >= 2 && (ra > 3 || rb > 3 || ra != rb))
        return dot_many(g, in[0], in[1]);
    return apply_single(g, YK_OP_DOT, 2, in, 0, NULL, YK_DTYPE_COUNT);
}

yk__vid yk__gather(yk__graph *g, yk__vid table, yk__vid index)
{
    yk_value t, k;
    yk__vid in[2] = {table, index}, y;
    if (table == YK_NONE || index == YK_NONE)
        return YK_NONE;
    t = g->value[table], k = g->value[index];
    in[1] = yk__reshape(g, index, 1, (int64_t[]){yk__value_count(&k)});
    y = apply_single(g, YK_OP_GATHER, 2, in, 0, NULL, YK_DTYPE_COUNT);
    if (y == YK_NONE || k.dims == 1)
        return y;
    if (k.dims + t.dims - 1u > YK_MAX_DIMS)
        return yk__graph_fail(g, YK_E_ARG, "gather: %d index and %d table dimensions are too many", k.dims, t.dims);
    memcpy(k.dim + k.dims, t.dim + 1, (t.dims - 1u) * sizeof *t.dim);
    return yk__reshape(g, y, k.dims + t.dims - 1u, k.dim);
}

yk__vid yk__scatter_add(yk__graph *g, yk__vid src, yk__vid index, int64_t rows)
{
    yk_value s, k;
    yk__vid in[2], y;
    int64_t dim[YK_MAX_DIMS + 1], n = 1;
    uint32_t dims;
    if (src == YK_NONE || index == YK_NONE)
        return YK_NONE;
    s = g->value[src], k = g->value[index];
    if (s.dims < k.dims)
        return yk__graph_fail(g, YK_E_ARG, "scatter_add: the index has %d dimensions, its source %d", k.dims, s.dims);
    n = yk__value_count(&k);
    dims = s.dims - k.dims + 1u;
    dim[0] = n;
    memcpy(dim + 1, s.dim + k.dims, (dims - 1) * sizeof *dim);
    in[0] = yk__reshape(g, src, dims, dim);
    in[1] = yk__reshape(g, index, 1, &n);
    if (in[0] == YK_NONE || in[1] == YK_NONE)
        return YK_NONE;
    dim[0] = rows;
    return yk__apply(g, YK_OP_SCATTER_ADD, 2, in, 0, NULL, YK_DTYPE_COUNT, dims, dim, &y, 1) ? y : YK_NONE;
}

/* ---- Values made of parts ---- */

yk__vid yk__pad(yk__graph *g, yk__vid x, uint32_t dims, const int64_t *dim, const int64_t *begin, const int64_t *step,
                double value)
{
    char text[160];
    yk_value v, all;
    yk__vid base;
    if (x == YK_NONE)
        return YK_NONE;
    if (dims != g->value[x].dims)
        return yk__graph_fail(g, YK_E_ARG, "pad: %s padded to %u dimensions",
                              yk__value_shape_text(&g->value[x], text, sizeof text), dims);
    base = yk__fill(g, value, g->value[x].dtype, dims, dim);
    if (base == YK_NONE)
        return YK_NONE;
    v = g->value[x];
    all = g->value[base];
    v.offset = 0;
    for (uint32_t i = 0; i < dims; i++) {
        int64_t by = step ? step[i] : 1;
        if (begin[i] < 0 || by < 1 || (v.dim[i] && begin[i] + (v.dim[i] - 1) * by >= dim[i]))
            return yk__graph_fail(g, YK_E_ARG, "pad: %s from %lld by %lld does not lie in the %lld of axis %u",
                                  yk__value_shape_text(&v, text, sizeof text), (long long)begin[i], (long long)by,
                                  (long long)dim[i], i);
        v.offset += (uint64_t)(begin[i] * all.stride[i]) * yk_dtype_bytes(v.dtype);
        v.stride[i] = by * all.stride[i];
    }
    return yk__copy_into(g, x, base, &v) == YK_NONE ? YK_NONE : base;
}

/* Writes the shape of a concatenation to v; false after an error. */
static bool concat_shape(yk__graph *g, uint32_t n, const yk__vid *x, uint32_t axis, yk_value *v)
{
    char a[160], b[160];
    for (uint32_t i = 0; i < n; i++) {
        const yk_value *p = x[i] == YK_NONE ? NULL : &g->value[x[i]];
        yk_value w;
        if (!p)
            return false;
        if (!i) {
            *v = *p;
            v->dim[axis < p->dims ? axis : 0] = 0;
        }
        w = *p;
        if (axis < w.dims)
            w.dim[axis] = v->dim[axis];
        if (axis >= p->dims || w.dtype != v->dtype || !yk__value_same_shape(&w, v)) {
            yk__graph_fail(g, YK_E_ARG, "concat on axis %u: %s does not fit to %s", axis,
                           yk__value_shape_text(p, a, sizeof a), yk__value_shape_text(&g->value[x[0]], b, sizeof b));
            return false;
        }
        v->dim[axis] += p->dim[axis];
    }
    return true;
}

yk__vid yk__concat(yk__graph *g, uint32_t n, const yk__vid *x, uint32_t axis)
{
    yk_value all;
    yk__vid base;
    int64_t at = 0;
    if (!n)
        return yk__graph_fail(g, YK_E_ARG, "concat: no operand");
    if (!concat_shape(g, n, x, axis, &all))
        return YK_NONE;
    if (n == 1)
        return x[0];
    base = yk__fill(g, 0, all.dtype, all.dims, all.dim);
    for (uint32_t i = 0; i < n && base != YK_NONE; i++) {
        yk_value v = g->value[base];
        v.dim[axis] = g->value[x[i]].dim[axis];
        v.offset = (uint64_t)(at * v.stride[axis]) * yk_dtype_bytes(v.dtype);
        at += v.dim[axis];
        if (yk__copy_into(g, x[i], base, &v) == YK_NONE) /* also an empty copy: gradients pass it on a rank without rows */
            return YK_NONE;
    }
    return base;
}

/* ---- Sealing ---- */

static uint64_t sealed_hash(const yk_graph *s)
{
    uint64_t h = YK_HASH_SEED;
    for (uint32_t i = 0; i < s->n_value; i++) {
        const yk_value *v = &s->value[i];
        h = yk__hash_u64(h, (uint64_t)v->flags << 16 | (uint64_t)v->dims << 8 | v->dtype);
        h = yk__hash_u64(h, (uint64_t)v->base << 32 | v->slot);
        h = yk__hash_u64(h, v->offset);
        h = yk__hash_bytes(h, v->dim, v->dims * sizeof *v->dim);
        h = yk__hash_bytes(h, v->stride, v->dims * sizeof *v->stride);
    }
    for (uint32_t i = 0; i < s->n_all_node; i++) {
        const yk_node *n = &s->node[i];
        h = yk__hash_u64(h, (uint64_t)n->n_out << 48 | (uint64_t)n->n_in << 32 | (uint64_t)n->flags << 16 | n->op);
        h = yk__hash_bytes(h, s->index + n->in, n->n_in * sizeof *s->index);
        h = yk__hash_bytes(h, s->index + n->out, n->n_out * sizeof *s->index);
        h = yk__hash_bytes(h, s->attr + n->attr, n->n_attr * sizeof *s->attr);
        h = yk__hash_u64(h, (uint64_t)n->body << 32 | n->n_body);
    }
    for (uint32_t i = 0; i < s->n_slot; i++)
        h = yk__hash_u64(h, (uint64_t)s->slot[i].kind << 32 | s->slot[i].key);
    return h;
}

/* The sealed nodes lie behind the nodes under construction, in the spare part of the same array, so that sealing leaves
 * g as it was. */
yk_status yk__graph_seal(yk__graph *g, yk_graph *out, yk_error *err)
{
    yk_node *node = g->node;
    yk_graph s;
    if (g->error.status) {
        *err = g->error;
        return err->status;
    }
    if (g->n_body) {
        if (yk__grow(&g->node, &g->cap_node, 2 * g->n_node + g->n_body, sizeof *g->node))
            return yk__fail_mem(err, (2 * g->n_node + g->n_body) * sizeof *g->node, "a sealed graph");
        node = g->node + g->n_node;
        memcpy(node, g->node, g->n_node * sizeof *node);
        memcpy(node + g->n_node, g->body, g->n_body * sizeof *node);
        for (size_t i = 0; i < g->n_node; i++)
            if (node[i].n_body)
                node[i].body += (uint32_t)g->n_node;
    }
    memset(&s, 0, sizeof s);
    s.size = sizeof s;
    s.n_value = (uint32_t)g->n_value, s.n_node = (uint32_t)g->n_node;
    s.n_all_node = (uint32_t)(g->n_node + g->n_body);
    s.n_index = (uint32_t)g->n_index, s.n_attr = (uint32_t)g->n_attr, s.n_slot = (uint32_t)g->n_slot;
    s.value = g->value, s.node = node, s.index = g->index, s.attr = g->attr, s.slot = g->slot;
    s.hash = sealed_hash(&s);
    *out = s;
    return YK_OK;
}
