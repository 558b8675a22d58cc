/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes views of a value without a copy: reshape, permute, expand and slice. If the strides allow no view, yk__reshape first makes a dense
 * copy of its operand. yk__copy_into adds a node that copies a value into a part of another value.
 *
 * The builder (build.c), the trace (core/job/trace), bodies (body_*.c), gradient rules (core/grad), update_programs.c (core/run) and
 * yoke-cts call this file's functions. A graph has no lock: the thread that builds a graph makes the calls for it.
 *
 * A view has the root value as its base (never another view), composed strides and an offset. view_make returns the operand or the whole
 * root if the view equals it, so that a root's permutation and its inverse cancel. A slice's permutation and its inverse make
 * a view that equals the slice, and is another value.
 */
#include "core/graph/graph_internal.h"

#include <string.h>

static bool same_place(const yk_value *a, const yk_value *b)
{
    if (a->offset != b->offset || !yk__value_same_shape(a, b))
        return false;
    for (uint32_t i = 0; i < a->dims; i++)
        if (a->dim[i] > 1 && a->stride[i] != b->stride[i])
            return false;
    return true;
}

/* v gives dims, dim, stride and offset of a view of x; its type is that of x. Strides of a dense view are made canonical, so that
 * dimensions of length 1 do not mislead readers of strides. */
static yk__vid view_make(yk__graph *g, yk__vid x, yk_value *v)
{
    yk__vid base = g->value[x].base;
    if (yk__value_count(v) && yk__value_is_dense(v))
        yk__value_dense_strides(v);
    if (same_place(v, &g->value[x]))
        return x;
    if (same_place(v, &g->value[base]) && g->value[base].base == base)
        return base;
    return yk__alias_new(g, x, v);
}

/* Replaces a -1 and compares the numbers of elements. */
static bool shape_resolve(yk__graph *g, yk__vid x, uint32_t dims, const int64_t *dim, yk_value *v)
{
    char text[160];
    int64_t total = yk__value_count(&g->value[x]), known = 1, over;
    uint32_t open = YK_NONE;
    bool good = dims <= YK_MAX_DIMS;
    for (uint32_t i = 0; good && i < dims; i++) {
        v->dim[i] = dim[i];
        if (dim[i] == -1 && open == YK_NONE)
            open = i;
        else if (dim[i] < 0 || __builtin_mul_overflow(known, dim[i], &over))
            good = false;
        else
            known = over;
    }
    if (good && open != YK_NONE) {
        good = known > 0 && total % known == 0;
        v->dim[open] = good ? total / known : 0;
    } else if (good) {
        good = known == total;
    }
    v->dims = (uint8_t)dims;
    if (!good)
        yk__graph_fail(g, YK_E_ARG, "reshape: %s does not have the number of elements of the %u dimensions asked for",
                       yk__value_shape_text(&g->value[x], text, sizeof text), dims);
    return good;
}

/* Strides for v->dim over x's own strides, if groups of dimensions can be merged and split without a copy
 * (the rule of NumPy's reshape). */
static bool view_strides(const yk_value *x, yk_value *v)
{
    uint32_t i = 0, j = 0, n = 0;
    yk_value s; /* x without its dimensions of length 1 */
    memset(&s, 0, sizeof s);
    for (uint32_t k = 0; k < x->dims; k++)
        if (x->dim[k] != 1)
            s.dim[n] = x->dim[k], s.stride[n] = x->stride[k], n++;
    while (i < n) {
        uint32_t i1 = i + 1, j1 = j + 1;
        int64_t a = s.dim[i], b = j < v->dims ? v->dim[j] : 1, step;
        while (a != b) {
            if (a < b && i1 < n)
                a *= s.dim[i1++];
            else if (a > b && j1 < v->dims)
                b *= v->dim[j1++];
            else
                return false;
        }
        for (uint32_t k = i; k + 1 < i1; k++)
            if (s.stride[k] != s.stride[k + 1] * s.dim[k + 1])
                return false;
        step = s.stride[i1 - 1];
        for (uint32_t k = j1; k-- > j; step *= v->dim[k])
            v->stride[k] = step;
        i = i1, j = j1;
    }
    for (; j < v->dims; j++)
        v->stride[j] = 1;
    return true;
}

yk__vid yk__reshape(yk__graph *g, yk__vid x, uint32_t dims, const int64_t *dim)
{
    yk_value v;
    if (x == YK_NONE)
        return YK_NONE;
    memset(&v, 0, sizeof v);
    if (!shape_resolve(g, x, dims, dim, &v))
        return YK_NONE;
    if (!yk__value_is_dense(&g->value[x]) && !view_strides(&g->value[x], &v)) {
        x = yk__dense(g, x);
        if (x == YK_NONE)
            return YK_NONE;
    }
    if (yk__value_is_dense(&g->value[x]))
        yk__value_dense_strides(&v);
    v.offset = g->value[x].offset;
    return view_make(g, x, &v);
}

yk__vid yk__permute(yk__graph *g, yk__vid x, const uint32_t *axis)
{
    yk_value v;
    const yk_value *p;
    uint32_t seen = 0;
    if (x == YK_NONE)
        return YK_NONE;
    p = &g->value[x];
    v = *p;
    for (uint32_t i = 0; i < p->dims; i++) {
        if (axis[i] >= p->dims || (seen & 1u << axis[i]))
            return yk__graph_fail(g, YK_E_ARG, "permute: axis %u at place %u; every one of 0..%d is needed once",
                                  axis[i], i, p->dims - 1);
        seen |= 1u << axis[i];
        v.dim[i] = p->dim[axis[i]];
        v.stride[i] = p->stride[axis[i]];
    }
    return view_make(g, x, &v);
}

yk__vid yk__expand(yk__graph *g, yk__vid x, uint32_t dims, const int64_t *dim)
{
    char text[160], want[160];
    yk_value v;
    const yk_value *p;
    uint32_t lead;
    if (x == YK_NONE)
        return YK_NONE;
    p = &g->value[x];
    memset(&v, 0, sizeof v);
    v.dtype = p->dtype;
    v.dims = (uint8_t)(dims <= YK_MAX_DIMS ? dims : 0);
    v.offset = p->offset;
    if (v.dims)
        memcpy(v.dim, dim, v.dims * sizeof *dim);
    lead = dims - p->dims;
    for (uint32_t i = 0; i < p->dims && p->dims <= v.dims; i++) {
        bool whole = p->dim[i] == dim[lead + i];
        if (!whole && p->dim[i] != 1)
            lead = YK_NONE;
        if (lead == YK_NONE)
            break;
        v.stride[lead + i] = whole ? p->stride[i] : 0;
    }
    if (p->dims > v.dims || lead == YK_NONE || v.dims != dims)
        return yk__graph_fail(g, YK_E_ARG, "expand: %s cannot be broadcast to %s",
                              yk__value_shape_text(p, text, sizeof text), yk__value_shape_text(&v, want, sizeof want));
    return view_make(g, x, &v);
}

yk__vid yk__slice(yk__graph *g, yk__vid x, uint32_t axis, int64_t begin, int64_t end, int64_t step)
{
    char text[160];
    yk_value v;
    if (x == YK_NONE)
        return YK_NONE;
    v = g->value[x];
    if (axis >= v.dims || begin < 0 || end < begin || end > v.dim[axis] || step < 1)
        return yk__graph_fail(g, YK_E_ARG, "slice: %lld..%lld by %lld on axis %u does not lie in %s", (long long)begin,
                              (long long)end, (long long)step, axis, yk__value_shape_text(&v, text, sizeof text));
    v.dim[axis] = end > begin ? (end - begin - 1) / step + 1 : 0;
    if (v.dim[axis])
        v.offset += (uint64_t)(begin * v.stride[axis]) * yk_dtype_bytes(v.dtype);
    if (v.dim[axis] > 1)
        v.stride[axis] *= step;
    return view_make(g, x, &v);
}

/* Adds a node that copies x into a part of base, and returns that part as a view. v gives the part's lengths, strides and offset. */
yk__vid yk__copy_into(yk__graph *g, yk__vid x, yk__vid base, const yk_value *v)
{
    yk__vid in[2] = {x, base}, out;
    if (x == YK_NONE || base == YK_NONE)
        return YK_NONE;
    out = yk__alias_new(g, base, v);
    if (out == YK_NONE || yk__node_new(g, YK_OP_COPY, 0, 2, in, 1, &out, 0, NULL) == YK_NONE)
        return YK_NONE;
    return out;
}
