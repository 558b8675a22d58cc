/* SPDX-License-Identifier: Apache-2.0 */
/* Differentiation of the trace, and what each gradient is the sum of. */
#include <string.h>

#include "core/base/mem.h"
#include "core/grad/grad.h"
#include "core/plan/internal.h"

static yk_status differentiate_loss(yk__work *w, uint32_t n, const uint32_t *which, yk_error *err)
{
    yk__vid *wrt = yk__malloc((n + 1) * sizeof *wrt), *grad = yk__malloc((n + 1) * sizeof *grad);
    if (!wrt || !grad) {
        yk__fail_mem(err, n * 8ull, "a plan");
        goto free_lists;
    }
    for (uint32_t i = 0; i < n; i++) {
        wrt[i] = w->param[which[i]];
        grad[i] = YK_NONE;
    }
    if (yk__grad(&w->g, w->loss[0], w->loss[1], n, wrt, grad, NULL, NULL, err) || yk__work_extend_info(w, err))
        goto free_lists;
    for (uint32_t i = 0; i < n; i++) {
        w->grad[i] = grad[i];
        w->grad_param[i] = which[i];
    }
    w->n_grad = n;
    w->n_keep += n;
free_lists:
    yk__free(grad);
    yk__free(wrt);
    return err->status;
}

/* A gradient that is a sum of two full contributions, which nothing else reads: each goes to the bucket by itself. */
static bool split_sum(yk__work *w, const yk__uses *u, uint32_t i)
{
    const yk__graph *g = &w->g;
    const yk__vid v = w->grad[i];
    const yk_node *n;
    if (v == YK_NONE || w->n_grad == w->cap_grad || !yk__whole(g, v))
        return false;
    if (u->readers[yk__root(g, v)] || u->producer[yk__root(g, v)] == YK_NONE)
        return false;
    n = &g->node[u->producer[yk__root(g, v)]];
    if (n->op != YK_OP_ADD || !yk__whole(g, yk__ins(g, n)[0]) || !yk__whole(g, yk__ins(g, n)[1]))
        return false;
    if (yk__root(g, yk__ins(g, n)[0]) == yk__root(g, yk__ins(g, n)[1]))
        return false;
    w->grad[i] = yk__ins(g, n)[0];
    w->grad[w->n_grad] = yk__ins(g, n)[1];
    w->grad_param[w->n_grad++] = w->grad_param[i];
    w->n_keep++;
    return true;
}

/* Trained parameters that the trace does not use have a gradient all the same: zero. */
static void add_unused(yk__work *w)
{
    for (uint32_t i = 0; i < w->r->n_param; i++) {
        if (w->r->param[i].bucket == YK_NONE || (w->r->loss != YK_NONE && w->r->param[i].leaf != YK_NONE))
            continue;
        w->grad[w->n_grad] = YK_NONE;
        w->grad_param[w->n_grad++] = i;
        w->n_keep++;
    }
}

yk_status yk__plan_grad(yk__work *w, yk_error *err)
{
    uint32_t n = 0, *which;
    yk__uses u;
    if (w->r->loss == YK_NONE) { /* zeros for all */
        add_unused(w);
        return YK_OK;
    }
    which = yk__malloc((w->r->n_param + 1) * sizeof *which);
    if (!which)
        return yk__fail_mem(err, w->r->n_param * 4ull, "a plan");
    for (uint32_t i = 0; i < w->r->n_param; i++)
        if (w->r->param[i].bucket != YK_NONE && w->param[i] != YK_NONE)
            which[n++] = i;
    differentiate_loss(w, n, which, err);
    yk__free(which);
    if (err->status)
        return err->status;
    add_unused(w);
    if (yk__uses_new(w, &u, err))
        return err->status;
    for (uint32_t i = 0; i < w->n_grad; i++)
        while (split_sum(w, &u, i))
            ;
    yk__uses_free(&u);
    w->loss[0] = w->loss[1] = YK_NONE;
    return YK_OK;
}

/* x > 0 exactly where relu(x) > 0: its gradient is taken from the result, so that x need not be stored. */
yk_status yk__plan_relu(yk__work *w, yk_error *err)
{
    yk__graph *g = &w->g;
    yk__vid *result = yk__malloc((g->n_value + 1) * sizeof *result);
    if (!result)
        return yk__fail_mem(err, g->n_value * sizeof *result, "a plan");
    memset(result, 0xff, (g->n_value + 1) * sizeof *result);
    for (size_t k = 0; k < g->n_node; k++) {
        const yk_node *n = &g->node[k];
        if (n->op == YK_OP_RELU)
            result[yk__ins(g, n)[0]] = yk__outs(g, n)[0];
        else if (n->op == YK_OP_RELU_BWD && result[g->index[n->in]] != YK_NONE)
            g->index[n->in] = result[g->index[n->in]];
    }
    yk__free(result);
    return YK_OK;
}
