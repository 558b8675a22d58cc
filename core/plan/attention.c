/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How attention's operands and results lie. Models have heads as views of rows of tokens ([B,H,T,D] in the order
 * [B,T,H,D]), and a product wants whole rows.
 *
 * Before composites are claimed: a device that takes attention with dense operands only gets copies of them.
 * Afterwards, where the device claims YK_CLAIM_STRIDED_OUT: results are written in the order in which a copy would have put
 * them, and the copy falls away; so do gradients that are copied into parts of one value.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/plan/internal.h"

#define MOST_VIEWS 8 /* of one result; with more it stays as it is */

static bool is_attention(const yk_node *n)
{
    return n->op == YK_OP_ATTENTION || n->op == YK_OP_ATTENTION_BWD;
}

/* q, k, v; out and its gradient: the operands that may be strided */
static bool may_stride(const yk_node *n, uint32_t i)
{
    return n->op == YK_OP_ATTENTION ? i < 3 : n->op == YK_OP_ATTENTION_BWD && i < 6 && i != 2;
}

/* ---- Operands -------------------------------------------------------------------------------------------------- */

typedef struct operands {
    yk__work *w;
    yk__remap m;
    yk__graph g;
    yk__vid *dense; /* by value of the old graph: its copy, YK_NONE: none yet */
} operands;

static bool is_asked_for(const operands *p, const yk_node *n)
{
    const yk__graph *s = p->m.src;
    bool strided = false;
    for (uint32_t i = 0; i < n->n_in; i++)
        strided |= may_stride(n, i) && !yk__value_is_dense(&s->value[yk__ins(s, n)[i]]);
    return strided && !(yk__plan_ask(p->w->r, s, n, s->body + n->body) & YK_CLAIM_RUN);
}

/* The node `at`, the last one, with dense operands: new values are listed in `fresh`, by operand. */
static void use_dense(operands *p, const yk_node *n, uint32_t at, yk__vid *fresh)
{
    const yk__graph *s = p->m.src;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const yk__vid v = yk__ins(s, n)[i];
        const yk_value *x = &s->value[v];
        fresh[i] = YK_NONE;
        if (!may_stride(n, i) || yk__value_is_dense(x))
            continue;
        if (p->dense[v] == YK_NONE)
            fresh[i] = p->dense[v] = yk__value_new(&p->g, (yk_dtype)x->dtype, x->dims, x->dim);
        if (p->dense[v] != YK_NONE)
            p->g.index[p->g.node[at].in + i] = p->dense[v];
    }
}

/* Copies to the new values, before the node. */
static void add_copies(operands *p, const yk_node *n, uint32_t at, const yk__vid *fresh)
{
    yk__graph *g = &p->g;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const yk__vid x = yk__remap_value(&p->m, yk__ins(p->m.src, n)[i]);
        if (fresh[i] == YK_NONE || yk__node_new(g, YK_OP_COPY, 0, 1, &x, 1, &fresh[i], 0, NULL) == YK_NONE)
            continue;
        yk__remap_move_last(&p->m, at);
        yk__remap_note(&p->m, at++, yk__info_from(yk__info_of(&p->m, n)));
    }
}

static void emit_dense(operands *p, uint32_t k)
{
    const yk_node *n = &p->m.src->node[k];
    const uint32_t at = yk__remap_node(&p->m, k);
    yk__vid fresh[32];
    if (at == YK_NONE)
        return;
    use_dense(p, n, at, fresh);
    if (p->g.error.status)
        return;
    if (yk__plan_ask(p->w->r, &p->g, &p->g.node[at], NULL) & YK_CLAIM_RUN) {
        add_copies(p, n, at, fresh);
        return;
    }
    for (uint32_t i = 0; i < n->n_in; i++) { /* its body takes views */
        if (fresh[i] != YK_NONE)
            p->dense[yk__ins(p->m.src, n)[i]] = YK_NONE;
        p->g.index[p->g.node[at].in + i] = yk__remap_value(&p->m, yk__ins(p->m.src, n)[i]);
    }
}

yk_status yk__plan_operands(yk__work *w, yk_error *err)
{
    const size_t n = w->g.n_value + 1;
    operands p = {.w = w, .dense = yk__malloc(n * sizeof *p.dense)};
    if (!p.dense)
        return yk__fail_mem(err, n * sizeof *p.dense, "a plan");
    memset(p.dense, 0xff, n * sizeof *p.dense);
    if (!yk__remap_begin(&p.m, w, &p.g, err)) {
        for (uint32_t k = 0; k < w->g.n_node; k++)
            if (is_attention(&w->g.node[k]) && is_asked_for(&p, &w->g.node[k]))
                emit_dense(&p, k);
            else
                yk__remap_node(&p.m, k);
        yk__remap_end(&p.m, w, err);
    }
    yk__free(p.dense);
    return err->status;
}

/* ---- Results --------------------------------------------------------------------------------------------------- */

typedef struct results {
    yk__work *w;
    yk__remap m;
    yk__graph g;
    yk__uses u;
    bool *rows; /* by value of the old graph: a view in whose order its root is written: copies of it fall away */
    bool *gone; /* by node of the old graph: it has nothing to do any more */
} results;

/* The readers of one result. */
typedef struct readers {
    yk__vid view[MOST_VIEWS];
    uint32_t n;
    yk__vid order; /* the view that is copied; YK_NONE: none is */
} readers;

/* The dimension of the dense value x along which dimension i of its view v runs; x->dims: none. */
static uint32_t dimension_along(const yk_value *x, const yk_value *v, uint32_t i)
{
    uint32_t j = 0;
    while (j < x->dims && (x->dim[j] != v->dim[i] || x->stride[j] != v->stride[i]))
        j++;
    return j;
}

/* v is all of the dense value x, its dimensions in any order. */
static bool is_permuted(const yk_value *x, const yk_value *v)
{
    for (uint32_t i = 0; i < v->dims; i++)
        if (v->dim[i] > 1 && dimension_along(x, v, i) == x->dims)
            return false;
    return v->dims == x->dims && yk__value_tiles(&v, 1, x);
}

static bool same_order(const yk_value *a, const yk_value *b)
{
    for (uint32_t i = 0; i < a->dims; i++)
        if (a->dim[i] != b->dim[i] || (a->dim[i] > 1 && a->stride[i] != b->stride[i]))
            return false;
    return a->dims == b->dims;
}

static bool takes_strides(const yk_node *n, uint32_t i)
{
    return (n->op == YK_OP_COPY && i == 0) || may_stride(n, i);
}

/* A copy of all of the view to a value of its own, which nothing else writes. */
static bool is_plain_copy(const results *p, const yk_node *n)
{
    const yk__graph *s = p->m.src;
    const yk__vid y = yk__outs(s, n)[0];
    return n->op == YK_OP_COPY && n->n_in == 1 && s->value[y].base == y && s->value[y].slot == YK_NONE &&
           p->u.writers[y] == 1;
}

static bool add_view(readers *r, yk__vid v)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->view[i] == v)
            return true;
    if (r->n == MOST_VIEWS)
        return false;
    r->view[r->n++] = v;
    return true;
}

/* False: somebody reads result o who cannot take it permuted. */
static bool note_reader(const results *p, const yk_node *n, yk__vid o, readers *r)
{
    const yk__graph *s = p->m.src;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const yk__vid v = yk__ins(s, n)[i];
        const yk_value *x = &s->value[o], *view = &s->value[v];
        if (yk__root(s, v) != o)
            continue;
        if (!takes_strides(n, i) || !is_permuted(x, view) || !add_view(r, v))
            return false;
        if (r->order == YK_NONE && is_plain_copy(p, n) && !same_order(view, x) &&
            (view->dim[view->dims - 1] == 1 || view->stride[view->dims - 1] == 1))
            r->order = v;
    }
    return true;
}

/* Nobody but nodes knows where it lies. */
static bool is_free(const results *p, yk__vid v)
{
    const yk_value *x = &p->m.src->value[v];
    return x->base == v && x->slot == YK_NONE && !p->u.kept[v];
}

/* Whether result o of node k may lie in another order, and in which. */
static bool find_order(const results *p, uint32_t k, yk__vid o, readers *r)
{
    const yk__graph *s = p->m.src;
    *r = (readers){.order = YK_NONE};
    if (!is_free(p, o) || p->u.writers[o] != 1)
        return false;
    for (uint32_t j = k + 1; p->u.last[o] != YK_NONE && j <= p->u.last[o]; j++)
        if (!note_reader(p, &s->node[j], o, r))
            return false;
    return r->order != YK_NONE;
}

/* A view of `rows` that stands where the view v of the old dense value x did. */
static yk__vid view_reordered(results *p, yk__vid rows, const yk_value *order, const yk_value *x, const yk_value *v)
{
    yk_value view = *v;
    for (uint32_t i = 0; i < v->dims; i++) {
        if (v->dim[i] == 1)
            continue;
        const uint32_t j = dimension_along(x, v, i);
        for (uint32_t k = 0; k < order->dims; k++)
            if (order->dim[k] > 1 && dimension_along(x, order, k) == j)
                view.stride[i] = p->g.value[rows].stride[k];
    }
    return yk__view_like(&p->g, rows, &view, 0);
}

/* Gives result o its new place: all that reads it is translated before any of it is. */
static void reorder_result(results *p, yk__vid o, const readers *r)
{
    const yk__graph *s = p->m.src;
    const yk_value *x = &s->value[o], *order = &s->value[r->order];
    const yk__vid rows = yk__value_new(&p->g, (yk_dtype)x->dtype, order->dims, order->dim);
    if (rows == YK_NONE)
        return;
    p->m.map[o] = view_reordered(p, rows, order, x, x);
    for (uint32_t i = 0; i < r->n; i++) {
        const yk__vid v = r->view[i];
        p->rows[v] = same_order(&s->value[v], order);
        if (v != o)
            p->m.map[v] = p->rows[v] ? rows : view_reordered(p, rows, order, x, &s->value[v]);
    }
}

/* ---- Gradients that are copied into one value, as of a joint projection to q, k and v ---- */

/* The node that copies the gradient o, and does nothing else with it, into a part of a value; YK_NONE: there is none. */
static uint32_t part_copy(const results *p, yk__vid o)
{
    const yk_node *n;
    if (!is_free(p, o) || p->u.writers[o] != 1 || p->u.readers[o] != 1)
        return YK_NONE;
    n = &p->m.src->node[p->u.last[o]];
    return n->op == YK_OP_COPY && n->n_in == 2 && yk__ins(p->m.src, n)[0] == o ? p->u.last[o] : YK_NONE;
}

/* Until all three copies are made, the value is only filled, and that after node k. The fill goes to *fill. */
static bool only_parts(const results *p, uint32_t k, const uint32_t copy[3], yk__vid base, uint32_t *fill)
{
    const yk__graph *s = p->m.src;
    uint32_t uses = 0;
    *fill = YK_NONE;
    for (uint32_t j = k + 1; uses < 4 && j < s->n_node; j++) {
        const yk_node *n = &s->node[j];
        bool touches = false;
        for (uint32_t i = 0; i < n->n_in + (uint32_t)n->n_out; i++)
            touches |= yk__root(s, i < n->n_in ? yk__ins(s, n)[i] : yk__outs(s, n)[i - n->n_in]) == base;
        if (!touches)
            continue;
        if (n->op == YK_OP_FILL && !uses)
            *fill = j;
        else if (j != copy[0] && j != copy[1] && j != copy[2])
            return false;
        uses++;
    }
    return *fill != YK_NONE && uses == 4 && p->u.writers[base] == 4;
}

/* The three gradients of node k are written where the copies would have put them. */
static bool join_gradients(results *p, uint32_t k)
{
    const yk__graph *s = p->m.src;
    const yk_value *view[3];
    uint32_t copy[3], fill;
    yk__vid base = YK_NONE;
    for (uint32_t i = 0; i < 3; i++) {
        copy[i] = part_copy(p, yk__outs(s, &s->node[k])[i]);
        if (copy[i] == YK_NONE)
            return false;
        const yk__vid part = yk__outs(s, &s->node[copy[i]])[0], root = yk__root(s, part);
        if (i && root != base)
            return false;
        base = root;
        view[i] = &s->value[part];
        if (view[i]->dim[3] > 1 && view[i]->stride[3] != 1)
            return false;
    }
    if (!is_free(p, base) || !yk__value_tiles(view, 3, &s->value[base]) || !only_parts(p, k, copy, base, &fill))
        return false;
    p->gone[fill] = true;
    for (uint32_t i = 0; i < 3; i++) {
        p->gone[copy[i]] = true;
        p->m.map[yk__outs(s, &s->node[k])[i]] = yk__remap_value(&p->m, yk__outs(s, &s->node[copy[i]])[0]);
    }
    return true;
}

/* How many results of a node, the first, may be written as views. */
static uint32_t strided_results(const yk__work *w, const yk__graph *g, const yk_node *n)
{
    const uint32_t many = yk__strided_results(n->op);
    return many && yk__plan_ask(w->r, g, n, g->body + n->body) & YK_CLAIM_STRIDED_OUT ? many : 0;
}

static void emit_result(results *p, uint32_t k)
{
    const yk__graph *s = p->m.src;
    const yk_node *n = &s->node[k];
    uint32_t many = strided_results(p->w, s, n);
    readers r;
    if (p->gone[k])
        return;
    if (many == 3 && join_gradients(p, k))
        many = 0;
    for (uint32_t i = 0; i < many; i++)
        if (find_order(p, k, yk__outs(s, n)[i], &r))
            reorder_result(p, yk__outs(s, n)[i], &r);
    if (is_plain_copy(p, n) && p->rows[yk__ins(s, n)[0]])
        p->m.map[yk__outs(s, n)[0]] = p->m.map[yk__ins(s, n)[0]];
    else
        yk__remap_node(&p->m, k);
}

yk_status yk__plan_results(yk__work *w, yk_error *err)
{
    results p = {.w = w};
    bool any = false;
    for (uint32_t k = 0; k < w->g.n_node; k++)
        any = any || strided_results(w, &w->g, &w->g.node[k]);
    if (!any)
        return YK_OK;
    p.rows = yk__calloc(w->g.n_value + 1, 1);
    p.gone = yk__calloc(w->g.n_node + 1, 1);
    if (!p.rows || !p.gone)
        yk__fail_mem(err, w->g.n_value + 1, "a plan");
    if (!err->status && !yk__uses_new(w, &p.u, err) && !yk__remap_begin(&p.m, w, &p.g, err)) {
        for (uint32_t k = 0; k < w->g.n_node; k++)
            emit_result(&p, k);
        yk__remap_end(&p.m, w, err);
    }
    yk__uses_free(&p.u);
    yk__free(p.gone);
    yk__free(p.rows);
    return err->status;
}
