/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reverse-mode differentiation of a graph: visits forward nodes from last to first, each by its rule, its body, or as a copy.
 * core/plan/plan_grad.c calls yk__grad once a plan, in the step thread; yoke-cts does for its tests.
 *
 * The nodes are appended to the same graph. A requested value is reported once its gradient is complete; sums.c adds up contributions.
 */
#include "core/grad/grad.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/grad/grad_internal.h"

#define NO_USE UINT32_MAX

/* ---- Nodes that take part ---- */

static bool node_takes_part(const yk__sums *s, const yk_node *n)
{
    const uint32_t *index = s->g->index;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const yk_value *v = &s->g->value[index[n->in + i]];
        if (s->need[v->base] && yk__dtype_is_float(v->dtype))
            return true;
    }
    return false;
}

/* need: the value depends on a wrt; visits nodes [begin, end) in order. */
static void mark_need(yk__sums *s, size_t begin, size_t end)
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

static bool node_reached(const yk__sums *s, const yk_node *n)
{
    for (uint32_t k = 0; k < n->n_out; k++)
        if (s->reach[s->g->value[s->g->index[n->out + k]].base])
            return true;
    return false;
}

/* reach: the root depends on the value. */
static void mark_reach(yk__sums *s, size_t end)
{
    for (size_t i = end; i-- > 0;) {
        const yk_node *n = &s->g->node[i];
        if (!node_reached(s, n))
            continue;
        for (uint32_t k = 0; k < n->n_in; k++)
            s->reach[s->g->value[s->g->index[n->in + k]].base] = 1;
    }
}

static void load_rule(yk__sums *s, const yk_node *n, yk__rule *r)
{
    memset(r, 0, sizeof *r);
    r->sums = s, r->g = s->g;
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

/* x was copied over a view of base: x gets the gradient that arrives there, and base's earlier contents get none. Copies
 * into a constant (pad, concat) need no clearing, because the constant's gradient is never read. */
static void reverse_copy_into(yk__sums *s, yk__rule *r, bool clear)
{
    yk__graph *g = s->g;
    yk_value v = g->value[r->out[0]], gv;
    yk__vid root = v.base, gb = yk__sums_total(s, root), gx;
    if (gb == YK_NONE)
        return;
    gb = yk__dense(g, gb);
    if (gb == YK_NONE)
        return;
    gv = g->value[gb];
    v.offset = v.offset - g->value[root].offset + gv.offset;
    gx = yk__alias_new(g, gb, &v);
    if (gx != YK_NONE && r->need[0])
        yk__sums_add(s, r->in[0], gx);
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

/* True if copy number `at` may leave the base's gradient as it is. Then the base came from a fill, and no earlier copy into it touches the
 * same place. */
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
        if (m->op != YK_OP_COPY || m->n_in != 2 || !yk__parts_disjoint(&v, &w, yk__value_count(&g->value[root])))
            return false;
    }
    return false;
}

static void sweep_range(yk__sums *s, size_t begin, size_t end);

/* Differentiates a node through its body, which is computed again at the end of the graph. */
static void reverse_body(yk__sums *s, size_t at, yk__rule *r)
{
    yk__graph *g = s->g;
    yk__vid out[YK_RULE_OUT];
    yk_graph src;
    size_t begin = g->n_node;
    if (yk__graph_seal(g, &src, &g->error) || yk__body_append(g, &src, (uint32_t)at, r->in, out, &g->error) ||
        !yk__sums_extend(s))
        return;
    mark_need(s, begin, g->n_node);
    for (uint32_t k = 0; k < r->n_out; k++)
        if (r->gy[k] != YK_NONE)
            yk__sums_add(s, out[k], r->gy[k]);
    sweep_range(s, begin, g->n_node);
}

static void reverse_node(yk__sums *s, size_t at)
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
        r.gy[k] = yk__sums_total(s, g->value[r.out[k]].base); /* base == itself, except for a node that overwrites */
        any = any || r.gy[k] != YK_NONE;
    }
    if (!any || g->error.status)
        return;
    rule(&r);
    if (r.by_body && !g->error.status)
        reverse_body(s, at, &r);
}

static void sweep_range(yk__sums *s, size_t begin, size_t end)
{
    for (size_t i = end; i-- > begin && !s->g->error.status;)
        reverse_node(s, i);
}

/* ---- Completion of wrt values ---- */

typedef struct wrt_list {
    uint32_t n_wrt;
    const yk__vid *value;
    uint32_t
        *complete_at; /* the first node after whose reversal the gradient is complete; NO_USE: no contribution at all */
    uint32_t *head, *next; /* lists by node */
    yk__vid *grad;
    yk__grad_ready *ready;
    void *arg;
} wrt_list;

static void ready_report(yk__sums *s, wrt_list *w, uint32_t node)
{
    for (uint32_t i = w->head[node]; i != YK_NONE && !s->g->error.status; i = w->next[i]) {
        w->grad[i] = yk__dense(s->g, yk__sums_total(s, w->value[i]));
        if (w->grad[i] != YK_NONE && w->ready)
            w->ready(w->arg, i, w->grad[i]);
    }
}

/* Finds the first use of each value among nodes that take part. A node's output is complete before that node. */
static void find_uses(yk__sums *s, wrt_list *w, size_t n_node, uint32_t *first_use)
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

static void sweep_run(yk__sums *s, wrt_list *w, yk__vid root, yk__vid seed, size_t n_node)
{
    yk__graph *g = s->g;
    yk_value r = g->value[root];
    uint32_t stream = g->stream;
    yk__sums_add(s, root, yk__expand(g, seed, r.dims, r.dim));
    for (size_t i = n_node; i-- > 0 && !g->error.status;) {
        if (node_reached(s, &g->node[i]))
            reverse_node(s, i);
        ready_report(s, w, (uint32_t)i);
    }
    for (uint32_t i = 0; i < w->n_wrt && !g->error.status; i++) {
        if (w->complete_at[i] != NO_USE || w->value[i] != r.base)
            continue;
        w->grad[i] = yk__dense(g, yk__sums_total(s, w->value[i])); /* the root itself */
        if (w->ready)
            w->ready(w->arg, i, w->grad[i]);
    }
    g->stream = stream;
}

yk_status yk__grad(yk__graph *g, yk__vid root, yk__vid seed, uint32_t n_wrt, const yk__vid *wrt, yk__vid *grad,
                   yk__grad_ready *on_ready, void *arg, yk_error *err)
{
    yk__sums s = {.g = g};
    const size_t n_node = g->n_node, n_value = g->n_value;
    wrt_list w = {.n_wrt = n_wrt, .value = wrt, .grad = grad, .ready = on_ready, .arg = arg};
    uint32_t *scratch = NULL;
    if (!g->error.status && check_wrt(g, root, seed, n_wrt, wrt, err))
        return err->status;
    scratch = g->error.status ? NULL : yk__malloc((n_value + n_node + 1 + 2 * (size_t)n_wrt) * sizeof *scratch);
    if (!g->error.status && (!scratch || !yk__sums_extend(&s)))
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
    yk__sums_free(&s);
    if (g->error.status)
        *err = g->error;
    return g->error.status;
}
