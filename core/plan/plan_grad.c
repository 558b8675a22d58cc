/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two passes of the planner, which passes.c runs once for each plan, in the step thread. "grad" differentiates the trace by the rules of
 * core/grad, and lists the contributions to each parameter's gradient; place.c later writes them to the buckets. "relu" takes relu's
 * gradient from its result, so that its operand need not be stored. A trained parameter that the trace does not use gets a zero gradient.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/grad/grad.h"
#include "core/plan/plan_internal.h"

static yk_status differentiate_loss(yk__work *work, uint32_t n, const uint32_t *which, yk_error *err)
{
    yk__vid *wrt = yk__malloc((n + 1) * sizeof *wrt), *grad = yk__malloc((n + 1) * sizeof *grad);
    if (!wrt || !grad)
        yk__fail_mem(err, n * 8ull, "a plan");
    for (uint32_t i = 0; i < n && !err->status; i++) {
        wrt[i] = work->param[which[i]];
        grad[i] = YK_NONE;
    }
    if (!err->status && !yk__grad(&work->g, work->loss[0], work->loss[1], n, wrt, grad, NULL, NULL, err) &&
        !yk__work_extend_info(work, err)) {
        for (uint32_t i = 0; i < n; i++) {
            work->grad[i] = grad[i];
            work->grad_param[i] = which[i];
        }
        work->n_grad = n;
        work->n_keep += n;
    }
    yk__free(grad);
    yk__free(wrt);
    return err->status;
}

/* Splits a gradient that is a sum of two full contributions without other readers: each goes to the bucket by itself. */
static bool split_sum(yk__work *work, const yk__uses *uses, uint32_t i)
{
    const yk__graph *g = &work->g;
    const yk__vid v = work->grad[i];
    const yk_node *n;
    if (v == YK_NONE || work->n_grad == work->cap_grad || !yk__whole(g, v))
        return false;
    if (uses->readers[yk__root(g, v)] || uses->producer[yk__root(g, v)] == YK_NONE)
        return false;
    n = &g->node[uses->producer[yk__root(g, v)]];
    if (n->op != YK_OP_ADD || !yk__whole(g, yk__ins(g, n)[0]) || !yk__whole(g, yk__ins(g, n)[1]))
        return false;
    if (yk__root(g, yk__ins(g, n)[0]) == yk__root(g, yk__ins(g, n)[1]))
        return false;
    work->grad[i] = yk__ins(g, n)[0];
    work->grad[work->n_grad] = yk__ins(g, n)[1];
    work->grad_param[work->n_grad++] = work->grad_param[i];
    work->n_keep++;
    return true;
}

/* Gives trained parameters that the trace does not use a zero gradient. */
static void add_unused(yk__work *work)
{
    for (uint32_t i = 0; i < work->request->n_param; i++) {
        if (work->request->param[i].bucket == YK_NONE || (work->request->loss != YK_NONE && work->request->param[i].leaf != YK_NONE))
            continue;
        work->grad[work->n_grad] = YK_NONE;
        work->grad_param[work->n_grad++] = i;
        work->n_keep++;
    }
}

yk_status yk__plan_grad(yk__work *work, yk_error *err)
{
    uint32_t n = 0, *which;
    yk__uses uses;
    if (work->request->loss == YK_NONE) { /* zeros for all */
        add_unused(work);
        return YK_OK;
    }
    which = yk__malloc((work->request->n_param + 1) * sizeof *which);
    if (!which)
        return yk__fail_mem(err, work->request->n_param * 4ull, "a plan");
    for (uint32_t i = 0; i < work->request->n_param; i++)
        if (work->request->param[i].bucket != YK_NONE && work->param[i] != YK_NONE)
            which[n++] = i;
    differentiate_loss(work, n, which, err);
    yk__free(which);
    if (err->status)
        return err->status;
    add_unused(work);
    if (yk__uses_new(work, &uses, err))
        return err->status;
    for (uint32_t i = 0; i < work->n_grad; i++)
        while (split_sum(work, &uses, i))
            ;
    yk__uses_free(&uses);
    work->loss[0] = work->loss[1] = YK_NONE;
    return YK_OK;
}

/* Takes relu's gradient from its result, so that x need not be stored: x > 0 exactly if relu(x) > 0. */
yk_status yk__plan_relu(yk__work *work, yk_error *err)
{
    yk__graph *g = &work->g;
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
