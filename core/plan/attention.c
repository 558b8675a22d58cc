/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two passes of the planner about the memory order of attention's operands and results. Models have heads as views of rows of tokens
 * ([B,H,T,D] in the order [B,T,H,D]). A product wants whole rows.
 *
 * "operands", before composites are claimed: a device that accepts only dense operands of attention gets copies. "results", afterwards, if
 * the device claims YK_CLAIM_STRIDED_OUT: results are written in the order that a copy would give them, and the copy goes away. So do
 * copies of gradients into parts of one value. passes.c runs both once for each plan, in the step thread.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/plan/plan_internal.h"

#define MOST_VIEWS 8 /* views of one result; a result with more stays as it is */

static bool is_attention(const yk_node *n)
{
    return n->op == YK_OP_ATTENTION || n->op == YK_OP_ATTENTION_BWD;
}

/* True for operands that may be strided: q, k, v; out and its gradient. */
static bool may_stride(const yk_node *n, uint32_t i)
{
    return n->op == YK_OP_ATTENTION ? i < 3 : n->op == YK_OP_ATTENTION_BWD && i < 6 && i != 2;
}

/* ---- Operands -------------------------------------------------------------------------------------------------- */

typedef struct operands {
    yk__work *work;
    yk__remap remap;
    yk__graph g;
    yk__vid *dense; /* by value of the old graph: its copy, YK_NONE if absent */
} operands;

static bool is_asked_for(const operands *ops, const yk_node *n)
{
    const yk__graph *src = ops->remap.src;
    bool strided = false;
    for (uint32_t i = 0; i < n->n_in; i++)
        strided |= may_stride(n, i) && !yk__value_is_dense(&src->value[yk__ins(src, n)[i]]);
    return strided && !(yk__plan_ask(ops->work->request, src, n, src->body + n->body) & YK_CLAIM_RUN);
}

/* Gives the last node, `at`, dense operands; `fresh` gets the new values, by operand. */
static void use_dense(operands *ops, const yk_node *n, uint32_t at, yk__vid *fresh)
{
    const yk__graph *src = ops->remap.src;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const yk__vid v = yk__ins(src, n)[i];
        const yk_value *x = &src->value[v];
        fresh[i] = YK_NONE;
        if (!may_stride(n, i) || yk__value_is_dense(x))
            continue;
        if (ops->dense[v] == YK_NONE)
            fresh[i] = ops->dense[v] = yk__value_new(&ops->g, (yk_dtype)x->dtype, x->dims, x->dim);
        if (ops->dense[v] != YK_NONE)
            ops->g.index[ops->g.node[at].in + i] = ops->dense[v];
    }
}

/* Inserts copies to the new values before the node. */
static void add_copies(operands *ops, const yk_node *n, uint32_t at, const yk__vid *fresh)
{
    yk__graph *g = &ops->g;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const yk__vid x = yk__remap_value(&ops->remap, yk__ins(ops->remap.src, n)[i]);
        if (fresh[i] == YK_NONE || yk__node_new(g, YK_OP_COPY, 0, 1, &x, 1, &fresh[i], 0, NULL) == YK_NONE)
            continue;
        yk__remap_move_last(&ops->remap, at);
        yk__remap_note(&ops->remap, at++, yk__info_from(yk__info_of(&ops->remap, n)));
    }
}

static void emit_dense(operands *ops, uint32_t k)
{
    const yk_node *n = &ops->remap.src->node[k];
    const uint32_t at = yk__remap_node(&ops->remap, k);
    yk__vid fresh[32];
    if (at == YK_NONE)
        return;
    use_dense(ops, n, at, fresh);
    if (ops->g.error.status)
        return;
    if (yk__plan_ask(ops->work->request, &ops->g, &ops->g.node[at], NULL) & YK_CLAIM_RUN) {
        add_copies(ops, n, at, fresh);
        return;
    }
    for (uint32_t i = 0; i < n->n_in; i++) { /* its body takes views */
        if (fresh[i] != YK_NONE)
            ops->dense[yk__ins(ops->remap.src, n)[i]] = YK_NONE;
        ops->g.index[ops->g.node[at].in + i] = yk__remap_value(&ops->remap, yk__ins(ops->remap.src, n)[i]);
    }
}

yk_status yk__plan_operands(yk__work *work, yk_error *err)
{
    const size_t n = work->g.n_value + 1;
    operands ops = {.work = work, .dense = yk__malloc(n * sizeof *ops.dense)};
    if (!ops.dense)
        return yk__fail_mem(err, n * sizeof *ops.dense, "a plan");
    memset(ops.dense, 0xff, n * sizeof *ops.dense);
    if (!yk__remap_begin(&ops.remap, work, &ops.g, err)) {
        for (uint32_t k = 0; k < work->g.n_node; k++)
            if (is_attention(&work->g.node[k]) && is_asked_for(&ops, &work->g.node[k]))
                emit_dense(&ops, k);
            else
                yk__remap_node(&ops.remap, k);
        yk__remap_end(&ops.remap, work, err);
    }
    yk__free(ops.dense);
    return err->status;
}

/* ---- Results --------------------------------------------------------------------------------------------------- */

typedef struct results {
    yk__work *work;
    yk__remap remap;
    yk__graph g;
    yk__uses uses;
    bool *rows; /* by value of the old graph: a view whose order its root is written in, so that copies of it go away */
    bool *gone; /* by node of the old graph: it is no longer needed */
} results;

/* The readers of one result. */
typedef struct readers {
    yk__vid view[MOST_VIEWS];
    uint32_t n;
    yk__vid order; /* the view that is copied; YK_NONE if absent */
} readers;

/* The dimension of the dense value x along which dimension i of its view v runs; x->dims if there is no such dimension. */
static uint32_t dimension_along(const yk_value *x, const yk_value *v, uint32_t i)
{
    uint32_t j = 0;
    while (j < x->dims && (x->dim[j] != v->dim[i] || x->stride[j] != v->stride[i]))
        j++;
    return j;
}

/* True if v is all of the dense value x with permuted dimensions. */
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

/* True if the node copies the whole view to a separate value that nothing else writes. */
static bool is_plain_copy(const results *list, const yk_node *n)
{
    const yk__graph *src = list->remap.src;
    const yk__vid y = yk__outs(src, n)[0];
    return n->op == YK_OP_COPY && n->n_in == 1 && src->value[y].base == y && src->value[y].slot == YK_NONE &&
           list->uses.writers[y] == 1;
}

static bool add_view(readers *all, yk__vid v)
{
    for (uint32_t i = 0; i < all->n; i++)
        if (all->view[i] == v)
            return true;
    if (all->n == MOST_VIEWS)
        return false;
    all->view[all->n++] = v;
    return true;
}

/* True if the innermost dimension that is longer than 1 is dense, as attention needs it of its operands and results. */
static bool ends_dense(const yk_value *v)
{
    uint32_t d = v->dims;
    while (d && v->dim[d - 1] == 1)
        d--;
    return !d || v->stride[d - 1] == 1;
}

/* Notes a reader of result o; false if the node cannot read it permuted. */
static bool note_reader(const results *list, const yk_node *n, yk__vid o, readers *all)
{
    const yk__graph *src = list->remap.src;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const yk__vid v = yk__ins(src, n)[i];
        const yk_value *x = &src->value[o], *view = &src->value[v];
        if (yk__root(src, v) != o)
            continue;
        if (!takes_strides(n, i) || !is_permuted(x, view) || !add_view(all, v))
            return false;
        if (all->order == YK_NONE && is_plain_copy(list, n) && !same_order(view, x) && ends_dense(view))
            all->order = v;
    }
    return true;
}

/* True if only nodes of this graph depend on the value's place. */
static bool is_free(const results *list, yk__vid v)
{
    const yk_value *x = &list->remap.src->value[v];
    return x->base == v && x->slot == YK_NONE && !list->uses.kept[v];
}

/* True if result o of node k may lie in another order, which goes to *all. */
static bool find_order(const results *list, uint32_t k, yk__vid o, readers *all)
{
    const yk__graph *src = list->remap.src;
    *all = (readers){.order = YK_NONE};
    if (!is_free(list, o) || list->uses.writers[o] != 1)
        return false;
    for (uint32_t j = k + 1; list->uses.last[o] != YK_NONE && j <= list->uses.last[o]; j++)
        if (!note_reader(list, &src->node[j], o, all))
            return false;
    return all->order != YK_NONE;
}

/* A view of `rows` in the place of view v of the old dense value x. */
static yk__vid view_reordered(results *list, yk__vid rows, const yk_value *order, const yk_value *x, const yk_value *v)
{
    yk_value view = *v;
    for (uint32_t i = 0; i < v->dims; i++) {
        if (v->dim[i] == 1)
            continue;
        const uint32_t j = dimension_along(x, v, i);
        for (uint32_t k = 0; k < order->dims; k++)
            if (order->dim[k] > 1 && dimension_along(x, order, k) == j)
                view.stride[i] = list->g.value[rows].stride[k];
    }
    return yk__view_like(&list->g, rows, &view, 0);
}

/* Gives result o its new order: translates all its views before any reader is emitted. */
static void reorder_result(results *list, yk__vid o, const readers *all)
{
    const yk__graph *src = list->remap.src;
    const yk_value *x = &src->value[o], *order = &src->value[all->order];
    const yk__vid rows = yk__value_new(&list->g, (yk_dtype)x->dtype, order->dims, order->dim);
    if (rows == YK_NONE)
        return;
    list->remap.map[o] = view_reordered(list, rows, order, x, x);
    for (uint32_t i = 0; i < all->n; i++) {
        const yk__vid v = all->view[i];
        list->rows[v] = same_order(&src->value[v], order);
        if (v != o)
            list->remap.map[v] = list->rows[v] ? rows : view_reordered(list, rows, order, x, &src->value[v]);
    }
}

/* ---- Gradients copied into one value, as for a joint projection to q, k and v ---- */

/* The node that copies the gradient o into a part of a value, if o has no other reader; YK_NONE if absent. */
static uint32_t part_copy(const results *list, yk__vid o)
{
    const yk_node *n;
    if (!is_free(list, o) || list->uses.writers[o] != 1 || list->uses.readers[o] != 1)
        return YK_NONE;
    n = &list->remap.src->node[list->uses.last[o]];
    return n->op == YK_OP_COPY && n->n_in == 2 && yk__ins(list->remap.src, n)[0] == o ? list->uses.last[o] : YK_NONE;
}

/* True if the value is only filled until all three copies are made, after node k. *fill gets the fill. */
static bool only_parts(const results *list, uint32_t k, const uint32_t copy[3], yk__vid base, uint32_t *fill)
{
    const yk__graph *src = list->remap.src;
    uint32_t uses = 0;
    *fill = YK_NONE;
    for (uint32_t j = k + 1; uses < 4 && j < src->n_node; j++) {
        const yk_node *n = &src->node[j];
        bool touches = false;
        for (uint32_t i = 0; i < n->n_in + (uint32_t)n->n_out; i++)
            touches |= yk__root(src, i < n->n_in ? yk__ins(src, n)[i] : yk__outs(src, n)[i - n->n_in]) == base;
        if (!touches)
            continue;
        if (n->op == YK_OP_FILL && !uses)
            *fill = j;
        else if (j != copy[0] && j != copy[1] && j != copy[2])
            return false;
        uses++;
    }
    return *fill != YK_NONE && uses == 4 && list->uses.writers[base] == 4;
}

/* Lets node k write its three gradients to the copies' targets. */
static bool join_gradients(results *list, uint32_t k)
{
    const yk__graph *src = list->remap.src;
    const yk_value *view[3];
    uint32_t copy[3], fill;
    yk__vid base = YK_NONE;
    for (uint32_t i = 0; i < 3; i++) {
        copy[i] = part_copy(list, yk__outs(src, &src->node[k])[i]);
        if (copy[i] == YK_NONE)
            return false;
        const yk__vid part = yk__outs(src, &src->node[copy[i]])[0], root = yk__root(src, part);
        if (i && root != base)
            return false;
        base = root;
        view[i] = &src->value[part];
        if (view[i]->dim[3] > 1 && view[i]->stride[3] != 1)
            return false;
    }
    if (!is_free(list, base) || !yk__value_tiles(view, 3, &src->value[base]) || !only_parts(list, k, copy, base, &fill))
        return false;
    list->gone[fill] = true;
    for (uint32_t i = 0; i < 3; i++) {
        list->gone[copy[i]] = true;
        list->remap.map[yk__outs(src, &src->node[k])[i]] = yk__remap_value(&list->remap, yk__outs(src, &src->node[copy[i]])[0]);
    }
    return true;
}

/* The number of leading results that the node may write as views. */
static uint32_t strided_results(const yk__work *work, const yk__graph *g, const yk_node *n)
{
    const uint32_t many = is_attention(n) ? yk__strided_results(n->op) : 0;
    return many && yk__plan_ask(work->request, g, n, g->body + n->body) & YK_CLAIM_STRIDED_OUT ? many : 0;
}

static void emit_result(results *list, uint32_t k)
{
    const yk__graph *src = list->remap.src;
    const yk_node *n = &src->node[k];
    uint32_t many = strided_results(list->work, src, n);
    readers all;
    if (list->gone[k])
        return;
    if (many == 3 && join_gradients(list, k))
        many = 0;
    for (uint32_t i = 0; i < many; i++)
        if (find_order(list, k, yk__outs(src, n)[i], &all))
            reorder_result(list, yk__outs(src, n)[i], &all);
    if (is_plain_copy(list, n) && list->rows[yk__ins(src, n)[0]])
        list->remap.map[yk__outs(src, n)[0]] = list->remap.map[yk__ins(src, n)[0]];
    else
        yk__remap_node(&list->remap, k);
}

yk_status yk__plan_results(yk__work *work, yk_error *err)
{
    results list = {.work = work};
    bool any = false;
    for (uint32_t k = 0; k < work->g.n_node; k++)
        any = any || strided_results(work, &work->g, &work->g.node[k]);
    if (!any)
        return YK_OK;
    list.rows = yk__calloc(work->g.n_value + 1, 1);
    list.gone = yk__calloc(work->g.n_node + 1, 1);
    if (!list.rows || !list.gone)
        yk__fail_mem(err, work->g.n_value + 1, "a plan");
    if (!err->status && !yk__uses_new(work, &list.uses, err) && !yk__remap_begin(&list.remap, work, &list.g, err)) {
        for (uint32_t k = 0; k < work->g.n_node; k++)
            emit_result(&list, k);
        yk__remap_end(&list.remap, work, err);
    }
    yk__uses_free(&list.uses);
    yk__free(list.gone);
    yk__free(list.rows);
    return err->status;
}
