/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reverse sweep. Gradients are kept per root value (a value that is nobody's view). What arrives at a view is
 * turned into the root's shape at once where the view covers the root (a permutation becomes a permutation, a reshape a
 * reshape, a broadcast a sum); what arrives at a part of the root (a slice) waits until the root's gradient is needed,
 * and then all parts that do not overlap are copied into one value: the slices q, k, v of a joint projection become one
 * concatenation instead of three padded values and two additions.
 */
#include "core/grad/internal.h"

#include <string.h>

#include "core/base/mem.h"

#define NO_USE UINT32_MAX

/* A gradient waiting at a part of a root. */
typedef struct part {
    yk_value where; /* dims, dim, stride; offset from the root's first byte */
    yk__vid grad;
    uint32_t next; /* in the root's list; YK_NONE ends it */
} part;

struct yk__sweep {
    yk__graph *g;
    size_t n_value;  /* values the arrays below know */
    yk__vid *sum;    /* gradient of each root so far */
    uint32_t *first; /* its waiting parts */
    uint8_t *need, *reach;
    size_t cap_sum, cap_first, cap_need, cap_reach;
    part *part;
    size_t n_part, cap_part;
};

static void sweep_free(struct yk__sweep *s)
{
    yk__free(s->sum);
    yk__free(s->first);
    yk__free(s->need);
    yk__free(s->reach);
    yk__free(s->part);
}

/* Makes the arrays know all values that there are. */
static bool arrays_extend(struct yk__sweep *s)
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

static void grad_sum(struct yk__sweep *s, yk__vid root, yk__vid grad)
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

/* Whether v's elements are all of the root's n elements, each once. */
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

static void part_wait(struct yk__sweep *s, yk__vid root, const yk_value *where, yk__vid grad)
{
    uint32_t *at = &s->first[root];
    for (; *at != YK_NONE; at = &s->part[*at].next) {
        part *p = &s->part[*at];
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
    s->part[s->n_part++] = (part){.where = *where, .grad = grad, .next = YK_NONE};
}

/* grad arrives at the view v of root: sum what was broadcast, put the axes into the root's order. */
static void grad_contribute_view(struct yk__sweep *s, yk_value v, yk__vid root, yk__vid grad)
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
    if (yk__value_count(&v) == 0) { /* of a rank without rows, or an empty slice */
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

static void grad_contribute(struct yk__sweep *s, yk__vid v, yk__vid grad)
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
        grad_contribute(r->sweep, r->in[i], grad);
}

/* ---- Parts into one value ---- */

/* A part seen as columns [begin, end) of the root as a matrix with rows of `width`; false if it is none. */
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

static bool parts_disjoint(const yk_value *a, const yk_value *b, int64_t n)
{
    int64_t wa, wb, ba, bb, ea, eb;
    return part_columns(a, n, &wa, &ba, &ea) && part_columns(b, n, &wb, &bb, &eb) && wa == wb && (ea <= bb || eb <= ba);
}

/* Takes from the root's list the first part and all that overlap none of those taken; their value. */
static yk__vid parts_join(struct yk__sweep *s, yk__vid root)
{
    yk__graph *g = s->g;
    yk_value r = g->value[root];
    uint32_t taken = YK_NONE, *at = &s->first[root];
    yk__vid all = yk__fill(g, 0, (yk_dtype)r.dtype, r.dims, r.dim);
    while (*at != YK_NONE && all != YK_NONE) {
        uint32_t i = *at, k = taken;
        while (k != YK_NONE && parts_disjoint(&s->part[k].where, &s->part[i].where, yk__value_count(&r)))
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

/* The whole gradient of a root; YK_NONE: none arrived. */
static yk__vid grad_total(struct yk__sweep *s, yk__vid root)
{
    while (s->first[root] != YK_NONE && !s->g->error.status) {
        yk__vid all = parts_join(s, root);
        if (all != YK_NONE)
            grad_sum(s, root, all);
    }
    return s->sum[root];
}

/* ---- The sweep ---- */

static bool node_takes_part(const struct yk__sweep *s, const yk_node *n)
{
    const uint32_t *index = s->g->index;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const yk_value *v = &s->g->value[index[n->in + i]];
        if (s->need[v->base] && yk__dtype_is_float(v->dtype))
            return true;
    }
    return false;
}

/* need: depends on a wrt; by nodes [begin, end) in order. */
static void mark_need(struct yk__sweep *s, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        const yk_node *n = &s->g->node[i];
        if (yk__rule_is_none(n->op) || !node_takes_part(s, n))
            continue;
        for (uint32_t k = 0; k < n->n_out; k++) {
            const yk_value *v = &s->g->value[s->g->index[n->out + k]];
            if (yk__dtype_is_float(v->dtype))
                s->need[v->base] = 1;
        }
    }
}

static bool node_reached(const struct yk__sweep *s, const yk_node *n)
{
    for (uint32_t k = 0; k < n->n_out; k++)
        if (s->reach[s->g->value[s->g->index[n->out + k]].base])
            return true;
    return false;
}

/* reach: the root depends on it. */
static void mark_reach(struct yk__sweep *s, size_t end)
{
    for (size_t i = end; i-- > 0;) {
        const yk_node *n = &s->g->node[i];
        if (!node_reached(s, n))
            continue;
        for (uint32_t k = 0; k < n->n_in; k++)
            s->reach[s->g->value[s->g->index[n->in + k]].base] = 1;
    }
}

static void load_rule(struct yk__sweep *s, const yk_node *n, yk__rule *r)
{
    memset(r, 0, sizeof *r);
    r->sweep = s, r->g = s->g;
    r->op = n->op, r->n_in = n->n_in, r->n_out = n->n_out, r->n_attr = n->n_attr;
    memcpy(r->in, s->g->index + n->in, n->n_in * sizeof *r->in);
    memcpy(r->out, s->g->index + n->out, n->n_out * sizeof *r->out);
    if (n->n_attr)
        memcpy(r->attr, s->g->attr + n->attr, n->n_attr * sizeof *r->attr);
    for (uint32_t i = 0; i < r->n_in; i++) {
        const yk_value *v = &s->g->value[r->in[i]];
        r->need[i] = s->need[v->base] && yk__dtype_is_float(v->dtype);
    }
}

/* x was copied over a view of base: x gets what arrives there, and what base held there before gets nothing. Copies
 * into a constant (pad, concat) need no clearing, because nobody wants the constant's gradient. */
static void reverse_copy_into(struct yk__sweep *s, yk__rule *r, bool clear)
{
    yk__graph *g = s->g;
    yk_value v = g->value[r->out[0]], gv;
    yk__vid root = v.base, gb = grad_total(s, root), gx;
    if (gb == YK_NONE)
        return;
    gb = yk__dense(g, gb);
    if (gb == YK_NONE)
        return;
    gv = g->value[gb];
    v.offset = v.offset - g->value[root].offset + gv.offset;
    gx = yk__alias_new(g, gb, &v);
    if (gx != YK_NONE && r->need[0])
        grad_contribute(s, r->in[0], gx);
    s->sum[root] = gb;
    if (clear && gx != YK_NONE) {
        yk__vid in = gb, kept = YK_NONE;
        yk__apply(g, YK_OP_COPY, 1, &in, 0, NULL, YK_DTYPE_COUNT, 0, NULL, &kept, 1);
        v.offset -= gv.offset;
        gx = yk__expand(g, yk__const(g, 0, (yk_dtype)v.dtype), v.dims, v.dim);
        yk__copy_into(g, gx, kept, &v);
        s->sum[root] = kept;
    }
}

/* Whether copy number `at` may leave the base's gradient as it is: the base came from a fill, and no earlier copy into
 * it touches the same place. */
static bool copy_is_clean(const yk__graph *g, size_t at)
{
    const yk_node *n = &g->node[at];
    yk_value v = g->value[g->index[n->out]];
    yk__vid root = v.base;
    v.offset -= g->value[root].offset;
    for (size_t i = at; i-- > 0;) {
        const yk_node *m = &g->node[i];
        yk_value w;
        if (m->n_out < 1)
            continue;
        w = g->value[g->index[m->out]];
        if (w.base != root)
            continue;
        if (m->op == YK_OP_FILL)
            return true;
        w.offset -= g->value[root].offset;
        if (m->op != YK_OP_COPY || m->n_in != 2 || !parts_disjoint(&v, &w, yk__value_count(&g->value[root])))
            return false;
    }
    return false;
}

static void sweep_range(struct yk__sweep *s, size_t begin, size_t end);

/* The node through its body, computed again behind everything that is there. */
static void reverse_body(struct yk__sweep *s, size_t at, yk__rule *r)
{
    yk__graph *g = s->g;
    yk__vid out[YK_RULE_OUT];
    yk_graph src;
    size_t begin = g->n_node;
    if (yk__graph_seal(g, &src, &g->error) || yk__body_append(g, &src, (uint32_t)at, r->in, out, &g->error) ||
        !arrays_extend(s))
        return;
    mark_need(s, begin, g->n_node);
    for (uint32_t k = 0; k < r->n_out; k++)
        if (r->gy[k] != YK_NONE)
            grad_contribute(s, out[k], r->gy[k]);
    sweep_range(s, begin, g->n_node);
}

static void reverse_node(struct yk__sweep *s, size_t at)
{
    yk__graph *g = s->g;
    const yk_node *n = &g->node[at];
    yk__rule_fn *rule = yk__rule_of(n->op);
    yk__rule r;
    bool any = false;
    if (yk__rule_is_none(n->op) || !node_takes_part(s, n))
        return;
    load_rule(s, n, &r);
    g->stream = n->stream;
    if (n->op == YK_OP_COPY && n->n_in == 2) {
        reverse_copy_into(s, &r, !copy_is_clean(g, at));
        return;
    }
    for (uint32_t k = 0; k < r.n_out; k++) {
        r.gy[k] = grad_total(s, g->value[r.out[k]].base); /* its own base, but for a node that overwrites */
        any = any || r.gy[k] != YK_NONE;
    }
    if (!any || g->error.status)
        return;
    if (!rule)
        yk__fail(&g->error, YK_E_UNSUPPORTED, "%s has no derivative: it overwrites its operands",
                 yk__op_info_of(r.op)->name);
    else
        rule(&r);
    if (r.by_body && !g->error.status)
        reverse_body(s, at, &r);
}

static void sweep_range(struct yk__sweep *s, size_t begin, size_t end)
{
    for (size_t i = end; i-- > begin && !s->g->error.status;)
        reverse_node(s, i);
}

/* ---- wrt values: when they are complete ---- */

typedef struct wrt_list {
    uint32_t n_wrt;
    const yk__vid *value;
    uint32_t
        *complete_at; /* the first node after whose reversal nothing more arrives; NO_USE: nothing arrives at all */
    uint32_t *head, *next; /* lists by node */
    yk__vid *grad;
    yk__grad_ready *ready;
    void *arg;
} wrt_list;

static void ready_report(struct yk__sweep *s, wrt_list *w, uint32_t node)
{
    for (uint32_t i = w->head[node]; i != YK_NONE && !s->g->error.status; i = w->next[i]) {
        w->grad[i] = yk__dense(s->g, grad_total(s, w->value[i]));
        if (w->grad[i] != YK_NONE && w->ready)
            w->ready(w->arg, i, w->grad[i]);
    }
}

/* first use of each value among nodes that matter; a value computed by a node is complete before that node. */
static void find_uses(struct yk__sweep *s, wrt_list *w, size_t n_node, uint32_t *first_use)
{
    yk__graph *g = s->g;
    for (size_t i = n_node; i-- > 0;) {
        const yk_node *n = &g->node[i];
        if (!node_takes_part(s, n) || !node_reached(s, n))
            continue;
        for (uint32_t k = 0; k < n->n_in; k++)
            first_use[g->value[g->index[n->in + k]].base] = (uint32_t)i;
    }
    for (uint32_t i = w->n_wrt; i-- > 0;) {
        w->complete_at[i] = first_use[w->value[i]];
        if (w->complete_at[i] == NO_USE)
            continue;
        w->next[i] = w->head[w->complete_at[i]];
        w->head[w->complete_at[i]] = i;
    }
}

static yk_status check_wrt(const yk__graph *g, yk__vid root, yk__vid seed, uint32_t n, const yk__vid *v, yk_error *err)
{
    if (root >= g->n_value || seed >= g->n_value)
        return yk__fail(err, YK_E_ARG, "gradient: root %u or seed %u is no value of the graph", root, seed);
    if (!yk__dtype_is_float(g->value[root].dtype))
        return yk__fail(err, YK_E_ARG, "gradient: the root is %s; only a float value can be differentiated",
                        yk__dtype_name(g->value[root].dtype));
    for (uint32_t i = 0; i < n; i++) {
        if (v[i] >= g->n_value || g->value[v[i]].base != v[i])
            return yk__fail(err, YK_E_ARG, "gradient: value %u (number %u) is no value of the graph, or a view", v[i],
                            i);
        if (!yk__dtype_is_float(g->value[v[i]].dtype))
            return yk__fail(err, YK_E_ARG, "gradient: value %u is %s, which has no gradient", v[i],
                            yk__dtype_name(g->value[v[i]].dtype));
    }
    return YK_OK;
}

static void sweep_run(struct yk__sweep *s, wrt_list *w, yk__vid root, yk__vid seed, size_t n_node)
{
    yk__graph *g = s->g;
    yk_value r = g->value[root];
    uint32_t stream = g->stream;
    grad_contribute(s, root, yk__expand(g, seed, r.dims, r.dim));
    for (size_t i = n_node; i-- > 0 && !g->error.status;) {
        if (node_reached(s, &g->node[i]))
            reverse_node(s, i);
        ready_report(s, w, (uint32_t)i);
    }
    for (uint32_t i = 0; i < w->n_wrt && !g->error.status; i++) {
        if (w->complete_at[i] != NO_USE || w->value[i] != r.base)
            continue;
        w->grad[i] = yk__dense(g, grad_total(s, w->value[i])); /* the root itself */
        if (w->ready)
            w->ready(w->arg, i, w->grad[i]);
    }
    g->stream = stream;
}

yk_status yk__grad(yk__graph *g, yk__vid root, yk__vid seed, uint32_t n_wrt, const yk__vid *wrt, yk__vid *grad,
                   yk__grad_ready *on_ready, void *arg, yk_error *err)
{
    struct yk__sweep s = {.g = g};
    const size_t n_node = g->n_node, n_value = g->n_value;
    wrt_list w = {.n_wrt = n_wrt, .value = wrt, .grad = grad, .ready = on_ready, .arg = arg};
    uint32_t *scratch = NULL;
    if (!g->error.status && check_wrt(g, root, seed, n_wrt, wrt, err))
        return err->status;
    scratch = g->error.status ? NULL : yk__malloc((n_value + n_node + 1 + 2 * (size_t)n_wrt) * sizeof *scratch);
    if (!g->error.status && (!scratch || !arrays_extend(&s)))
        yk__fail_mem(&g->error, n_value * 14, "a gradient's sums");
    if (!g->error.status) {
        memset(scratch, 0xff, (n_value + n_node + 1 + 2 * (size_t)n_wrt) * sizeof *scratch);
        w.head = scratch + n_value, w.next = w.head + n_node + 1, w.complete_at = w.next + n_wrt;
        for (uint32_t i = 0; i < n_wrt; i++)
            s.need[wrt[i]] = 1, grad[i] = YK_NONE;
        s.reach[g->value[root].base] = 1;
        mark_need(&s, 0, n_node);
        mark_reach(&s, n_node);
        find_uses(&s, &w, n_node, scratch);
        sweep_run(&s, &w, root, seed, n_node);
    }
    yk__free(scratch);
    sweep_free(&s);
    if (g->error.status)
        *err = g->error;
    return g->error.status;
}
