/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's pass "lines". It pads matrices of 16 bits whose rows are no multiple of 16 bytes, as the logits of 50257 words and their
 * gradient. Fast products of libraries and wide loads of kernels need rows that begin at such multiples.
 *
 * The matrix becomes a view of one with longer rows, if all its writers and readers accept padded rows. They do by YK_CLAIM_STRIDED_OUT of
 * a dot, of cross_entropy and of its gradient. passes.c runs it once for each plan, in the step thread.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/plan/plan_internal.h"

#define UNIT_BYTES 16  /* rows of a multiple of it are fast, */
#define LINE_BYTES 128 /* and of this faster */
#define LEAST 1024     /* elements of a row: shorter rows would grow by more than a sixteenth */

typedef struct lines {
    yk__work *work;
    yk__remap remap;
    yk__graph g;
    yk__uses uses;
    bool *stays; /* by value of the old graph: a node needs its rows side by side */
} lines;

static bool is_plain(const yk_value *v, const yk_value *x)
{
    return v->dim[0] == x->dim[0] && v->dim[1] == x->dim[1] && v->stride[0] == x->dim[1] && v->stride[1] == 1;
}

static bool is_transposed(const yk_value *v, const yk_value *x)
{
    return v->dim[0] == x->dim[1] && v->dim[1] == x->dim[0] && v->stride[0] == 1 && v->stride[1] == x->dim[1];
}

/* True if v is all of x, or x transposed. */
static bool is_all(const yk_value *v, const yk_value *x)
{
    return v->dims == 2 && v->offset == x->offset && v->dtype == x->dtype && (is_plain(v, x) || is_transposed(v, x));
}

/* True if only nodes of this graph depend on the place of x, and padded rows would be faster. */
static bool is_odd(const lines *list, yk__vid v)
{
    const yk_value *x = &list->remap.src->value[v];
    return x->base == v && x->slot == YK_NONE && x->dims == 2 && (x->dtype == YK_BF16 || x->dtype == YK_F16) && x->dim[0] > 1 &&
           x->dim[1] >= LEAST && x->dim[1] * (int64_t)yk_dtype_bytes(x->dtype) % UNIT_BYTES && !list->uses.kept[v] &&
           list->uses.writers[v] == 1;
}

/* Notes the odd matrices that the node writes or reads and does not accept with padded rows. */
static void note_node(lines *list, const yk_node *n)
{
    const yk__graph *src = list->remap.src;
    int takes = -1; /* not asked yet */
    for (uint32_t i = 0; i < n->n_in + (uint32_t)n->n_out; i++) {
        const bool out = i >= n->n_in;
        const uint32_t at = out ? i - n->n_in : i;
        const yk__vid v = out ? yk__outs(src, n)[at] : yk__ins(src, n)[at], root = yk__root(src, v);
        const yk_value *view = &src->value[v], *x = &src->value[root];
        if (!is_odd(list, root) || list->stays[root])
            continue;
        if (takes < 0)
            takes = yk__has_padded_rows(n->op) && (yk__plan_ask(list->work->request, src, n, src->body + n->body) & YK_CLAIM_STRIDED_OUT);
        list->stays[root] = !takes || !is_all(view, x) || !yk__takes_padded_rows(n->op, at, out, is_transposed(view, x));
    }
}

/* Makes v a view of a matrix with longer rows. */
static void lengthen_rows(lines *list, yk__vid v)
{
    const yk_value *x = &list->remap.src->value[v];
    const int64_t unit = LINE_BYTES / yk_dtype_bytes(x->dtype), dim[] = {x->dim[0], (x->dim[1] + unit - 1) / unit * unit};
    const yk__vid longer = yk__value_new(&list->g, (yk_dtype)x->dtype, 2, dim);
    yk_value view = *x;
    view.stride[0] = dim[1];
    list->remap.map[v] = yk__view_like(&list->g, longer, &view, 0);
}

/* Moves v, a view of a matrix that has longer rows now. */
static void move_view(lines *list, yk__vid v, yk__vid root, int64_t line)
{
    yk_value view = list->remap.src->value[v];
    view.stride[is_transposed(&view, &list->remap.src->value[root])] = line;
    list->remap.map[v] = yk__view_like(&list->g, yk__root(&list->g, list->remap.map[root]), &view, 0);
}

/* Moves all values; roots come before their views. */
static void move_values(lines *list)
{
    const yk__graph *src = list->remap.src;
    for (yk__vid v = 0; v < src->n_value && !list->g.error.status; v++) {
        const yk__vid root = yk__root(src, v);
        if (!is_odd(list, root) || list->stays[root])
            continue;
        if (list->remap.map[root] == YK_NONE)
            lengthen_rows(list, root);
        if (v != root && list->remap.map[root] != YK_NONE)
            move_view(list, v, root, list->g.value[list->remap.map[root]].stride[0]);
    }
}

static bool any_moves(const lines *list)
{
    for (yk__vid v = 0; v < list->remap.src->n_value; v++)
        if (is_odd(list, v) && !list->stays[v])
            return true;
    return false;
}

yk_status yk__plan_lines(yk__work *work, yk_error *err)
{
    lines list = {.work = work};
    list.stays = yk__calloc(work->g.n_value + 1, sizeof *list.stays);
    if (!list.stays)
        yk__fail_mem(err, work->g.n_value + 1, "a plan");
    if (!err->status && !yk__uses_new(work, &list.uses, err) && !yk__remap_begin(&list.remap, work, &list.g, err)) {
        for (uint32_t k = 0; k < work->g.n_node; k++)
            note_node(&list, &work->g.node[k]);
        if (any_moves(&list)) {
            move_values(&list);
            for (uint32_t k = 0; k < work->g.n_node; k++)
                yk__remap_node(&list.remap, k);
            yk__remap_end(&list.remap, work, err);
        } else {
            yk__remap_drop(&list.remap);
            yk__graph_free(&list.g);
        }
    }
    yk__uses_free(&list.uses);
    yk__free(list.stays);
    return err->status;
}
