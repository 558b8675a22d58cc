/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of the parameters that products read in the compute format, kept between steps, and the programs that write them. A
 * group of one writes them while it updates (optim.c); what other ranks updated, and what the host wrote, is cast before the
 * next program that reads it.
 */
#include "core/base/mem.h"
#include "core/run/exec.h"

/* The parameter whose copy is bound to the slot; NULL: none is. */
static yk__param *param_of_slot(const yk__params *p, const yk_slot *s)
{
    const uint32_t number = s->key & ~YK__KEY_COMPUTE;
    return s->kind == YK_SLOT_PARAM && !(s->key & YK__KEY_BUCKET) && (s->key & YK__KEY_COMPUTE) && number < p->n_param
               ? &p->param[number]
               : NULL;
}

void yk__compute_drop(yk__exec *x)
{
    yk__prog_free(x, x->cast_prog[0]);
    yk__prog_free(x, x->cast_prog[1]);
    x->cast_prog[0] = x->cast_prog[1] = NULL;
}

yk_status yk__compute_make(yk__exec *x, yk__prog *p, yk_error *err)
{
    bool grown = false;
    for (size_t i = 1; i < p->plan->graph.n_slot; i++) {
        yk__param *q = param_of_slot(x->params, &p->plan->graph.slot[i]);
        p->reads_compute |= q != NULL;
        if (!q || q->compute)
            continue;
        if (yk__params_make_compute(x->params, q, err))
            return err->status;
        grown = true;
    }
    if (!grown)
        return YK_OK;
    if (yk__queue_idle(x->queue, err))
        return err->status;
    yk__compute_drop(x);
    return YK_OK;
}

void yk__compute_cast(const yk__params *p, yk__graph *g, uint32_t number, yk__vid value)
{
    const yk__param *q = &p->param[number];
    const int64_t n = (int64_t)q->n;
    const uint32_t slot = yk__slot_new(g, YK_SLOT_PARAM, yk__params_compute_bytes(p, q), number | YK__KEY_COMPUTE);
    const yk__vid copy = yk__leaf(g, slot, 0, p->precision, 1, &n);
    if (value != YK_NONE && copy != YK_NONE)
        yk__node_new(g, YK_OP_CAST, 0, 1, &value, 1, &copy, 0, NULL);
}

static yk_status make_cast(yk__exec *x, bool all, yk_error *err)
{
    const yk__params *p = x->params;
    yk__plan_request r;
    yk__graph g;
    yk__graph_init(&g);
    for (uint32_t i = 0; i < p->n_param; i++) {
        const yk__param *q = &p->param[i];
        const int64_t n = (int64_t)q->n;
        if (q->compute && (all || q->trained))
            yk__compute_cast(p, &g, i, yk__leaf(&g, yk__slot_new(&g, YK_SLOT_PARAM, q->n * sizeof(float), i), 0, YK_F32, 1, &n));
    }
    yk__prog_request(x, &g, &r);
    r.single_rank = true;
    if (g.error.status)
        *err = g.error;
    else
        yk__prog_new(x, &r, &x->cast_prog[all], err);
    yk__graph_free(&g);
    return err->status;
}

yk_status yk__compute_refresh(yk__exec *x, yk_error *err)
{
    const bool all = x->params->compute_stale == YK__STALE_ALL;
    if (x->params->compute_stale == YK__FRESH)
        return YK_OK;
    if ((!x->cast_prog[all] && make_cast(x, all, err)) || yk__prog_run(x, x->cast_prog[all], 0, NULL, NULL, err))
        return err->status;
    x->params->compute_stale = YK__FRESH;
    return YK_OK;
}
