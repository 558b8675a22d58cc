/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of gradients, one per root value (a value that is no view). grad.c adds contributions while it sweeps, and asks for the sum, in its
 * caller's thread.
 *
 * A gradient of a view is turned into the root's shape at once if the view covers the root. A permutation becomes a permutation, a reshape
 * a reshape, a broadcast a sum. The gradient of a part of the root (a slice) waits until the root's gradient is needed. Then all parts that
 * do not overlap are copied into one value. So the slices q, k, v of a joint projection become one concatenation instead of three padded
 * values and two additions.
 */
#include "core/grad/grad_internal.h"

#include <string.h>

#include "core/base/mem.h"

void yk__sums_free(yk__sums *s)
{
    yk__free(s->sum);
    yk__free(s->first);
    yk__free(s->need);
    yk__free(s->reach);
    yk__free(s->part);
}

/* Extends the arrays to all values of the graph. */
bool yk__sums_extend(yk__sums *s)
{
    size_t n = s->g->n_value;
    if (yk__grow(&s->sum, &s->cap_sum, n, sizeof *s->sum) || yk__grow(&s->first, &s->cap_first, n, sizeof *s->first) ||
        yk__grow(&s->need, &s->cap_need, n, 1) || yk__grow(&s->reach, &s->cap_reach, n, 1)) {
        yk__fail_mem(&s->g->error, n * 10, "a gradient's sums");
        return false;
    }
    for (; s->n_value < n; s->n_value++) {
        s->sum[s->n_value] = s->first[s->n_value] = YK_NONE;
        s->need[s->n_value] = s->reach[s->n_value] = 0;
    }
    return true;
}

/* ---- Adding up ---- */

static void grad_sum(yk__sums *s, yk__vid root, yk__vid grad)
{
    s->sum[root] = s->sum[root] == YK_NONE ? grad : yk__bin(s->g, YK_OP_ADD, s->sum[root], grad);
}

/* The axes of v longer than 1, by falling stride; their number. */
static uint32_t axes_by_stride(const yk_value *v, uint32_t *axis)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->dims; i++) {
        uint32_t k = n;
        if (v->dim[i] == 1)
            continue;
        for (; k > 0 && v->stride[axis[k - 1]] < v->stride[i]; k--)
            axis[k] = axis[k - 1];
        axis[k] = i;
        n++;
    }
    return n;
}

/* True if v's elements are all of the root's n elements, each once. */
static bool view_covers(const yk_value *v, int64_t n)
{
    uint32_t axis[YK_MAX_DIMS], k = axes_by_stride(v, axis);
    int64_t dense = 1;
    if (v->offset || yk__value_count(v) != n)
        return false;
    for (; k-- > 0; dense *= v->dim[axis[k]])
        if (v->stride[axis[k]] != dense)
            return false;
    return true;
}

static bool same_part(const yk_value *a, const yk_value *b)
{
    return a->offset == b->offset && yk__value_same_shape(a, b) &&
           !memcmp(a->stride, b->stride, a->dims * sizeof *a->stride);
}

static void part_wait(yk__sums *s, yk__vid root, const yk_value *where, yk__vid grad)
{
    uint32_t *at = &s->first[root];
    for (; *at != YK_NONE; at = &s->part[*at].next) {
        yk__grad_part *p = &s->part[*at];
        if (same_part(&p->where, where)) {
            p->grad = yk__bin(s->g, YK_OP_ADD, p->grad, grad);
            return;
        }
    }
    *at = (uint32_t)s->n_part; /* before the array moves */
    if (yk__grow(&s->part, &s->cap_part, s->n_part + 1, sizeof *s->part)) {
        s->first[root] = YK_NONE;
        yk__fail_mem(&s->g->error, sizeof *s->part, "a gradient's parts");
        return;
    }
    s->part[s->n_part++] = (yk__grad_part){.where = *where, .grad = grad, .next = YK_NONE};
}

/* Adds the gradient of the view v of root: sums broadcast axes, permutes axes into the root's order. */
static void grad_contribute_view(yk__sums *s, yk_value v, yk__vid root, yk__vid grad)
{
    yk__graph *g = s->g;
    yk_value r = g->value[root];
    uint32_t axis[YK_MAX_DIMS], n, broadcast_axes = 0;
    v.offset -= r.offset;
    for (uint32_t i = 0; i < v.dims; i++)
        if (v.stride[i] == 0 && v.dim[i] != 1)
            broadcast_axes |= 1u << i, v.dim[i] = 1;
    if (broadcast_axes)
        grad = yk__sum(g, grad, broadcast_axes);
    if (yk__value_count(&v) == 0) { /* a rank without rows, or an empty slice */
        if (yk__value_count(&r) == 0)
            grad_sum(s, root, yk__reshape(g, grad, r.dims, r.dim));
        return;
    }
    if (!view_covers(&v, yk__value_count(&r))) {
        part_wait(s, root, &v, grad);
        return;
    }
    n = axes_by_stride(&v, axis);
    for (uint32_t i = 0; i < v.dims; i++)
        if (v.dim[i] == 1)
            axis[n++] = i;
    grad = yk__reshape(g, yk__permute(g, grad, axis), r.dims, r.dim);
    if (grad != YK_NONE)
        grad_sum(s, root, grad);
}

void yk__sums_add(yk__sums *s, yk__vid v, yk__vid grad)
{
    yk__vid root = s->g->value[v].base;
    if (grad == YK_NONE || root >= s->n_value || !s->need[root])
        return;
    if (root == v)
        grad_sum(s, v, grad);
    else
        grad_contribute_view(s, s->g->value[v], root, grad);
}

void yk__grad_add(yk__rule *r, uint32_t i, yk__vid grad)
{
    if (r->need[i])
        yk__sums_add(r->sums, r->in[i], grad);
}

/* ---- Parts into one value ---- */

/* Describes a part as columns [begin, end) of the root, a matrix with rows of `width`; false if it is no such part. */
static bool part_columns(const yk_value *v, int64_t n, int64_t *width, int64_t *begin, int64_t *end)
{
    uint32_t axis[YK_MAX_DIMS], k = axes_by_stride(v, axis);
    int64_t run = 1, rows;
    while (k > 0 && v->stride[axis[k - 1]] == run)
        run *= v->dim[axis[--k]];
    *width = n;
    if (k > 0) {
        *width = v->stride[axis[k - 1]];
        for (rows = 1; k > 0 && v->stride[axis[k - 1]] == *width * rows; k--)
            rows *= v->dim[axis[k - 1]];
        if (k > 0 || rows * *width != n)
            return false;
    }
    *begin = (int64_t)(v->offset / yk_dtype_bytes(v->dtype));
    *end = *begin + run;
    return *end <= *width;
}

bool yk__parts_disjoint(const yk_value *a, const yk_value *b, int64_t n)
{
    int64_t wa, wb, ba, bb, ea, eb;
    return part_columns(a, n, &wa, &ba, &ea) && part_columns(b, n, &wb, &bb, &eb) && wa == wb && (ea <= bb || eb <= ba);
}

/* Removes from the root's list the first part and all parts that overlap no removed one; returns their joint value. */
static yk__vid parts_join(yk__sums *s, yk__vid root)
{
    yk__graph *g = s->g;
    yk_value r = g->value[root];
    uint32_t taken = YK_NONE, *at = &s->first[root];
    yk__vid all = yk__fill(g, 0, (yk_dtype)r.dtype, r.dims, r.dim);
    while (*at != YK_NONE && all != YK_NONE) {
        uint32_t i = *at, k = taken;
        while (k != YK_NONE && yk__parts_disjoint(&s->part[k].where, &s->part[i].where, yk__value_count(&r)))
            k = s->part[k].next;
        if (k != YK_NONE) {
            at = &s->part[i].next;
            continue;
        }
        *at = s->part[i].next;
        s->part[i].next = taken;
        taken = i;
        if (yk__copy_into(g, s->part[i].grad, all, &s->part[i].where) == YK_NONE)
            return YK_NONE;
    }
    return all;
}

/* The whole gradient of a root; YK_NONE if it has none. */
yk__vid yk__sums_total(yk__sums *s, yk__vid root)
{
    while (s->first[root] != YK_NONE && !s->g->error.status) {
        yk__vid all = parts_join(s, root);
        if (all != YK_NONE)
            grad_sum(s, root, all);
    }
    return s->sum[root];
}
