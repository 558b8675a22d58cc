/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of the parameters that products read in the compute format, kept between steps, and the programs that write them. A
 * group of one writes them while it updates (optim.c); what other ranks updated, and what the host wrote, is cast before the
 * next program that reads it.
 */
#include "core/base/mem.h"
#include "core/run/exec.h"

void yk__compute_drop(yk__exec *exec)
{
    yk__prog_free(exec, exec->cast_prog[0]);
    yk__prog_free(exec, exec->cast_prog[1]);
    exec->cast_prog[0] = exec->cast_prog[1] = NULL;
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

static yk_status make_cast(yk__exec *exec, bool all, yk_error *err)
{
    const yk__params *p = exec->params;
    yk__plan_request r;
    yk__graph g;
    yk__graph_init(&g);
    for (uint32_t i = 0; i < p->n_param; i++) {
        const yk__param *q = &p->param[i];
        const int64_t n = (int64_t)q->n;
        if (q->compute && (all || q->trained))
            yk__compute_cast(p, &g, i, yk__leaf(&g, yk__slot_new(&g, YK_SLOT_PARAM, q->n * sizeof(float), i), 0, YK_F32, 1, &n));
    }
    yk__prog_request(exec, &g, &r);
    r.single_rank = true;
    r.gathers = false;
    if (g.error.status)
        *err = g.error;
    else
        yk__prog_new(exec, &r, &exec->cast_prog[all], err);
    yk__graph_free(&g);
    return err->status;
}

/* Programs that were made before some of the copies were. */
static yk_status drop_outdated(yk__exec *exec, yk_error *err)
{
    if (exec->n_cast == exec->params->n_compute)
        return YK_OK;
    if (yk__queue_idle(exec->queue, err))
        return err->status;
    yk__compute_drop(exec);
    exec->n_cast = exec->params->n_compute;
    return YK_OK;
}

yk_status yk__compute_refresh(yk__exec *exec, yk_error *err)
{
    const bool all = exec->params->compute_stale == YK__STALE_ALL;
    if (exec->params->compute_stale == YK__FRESH)
        return YK_OK;
    if (drop_outdated(exec, err) || (!exec->cast_prog[all] && make_cast(exec, all, err)) ||
        yk__prog_run(exec, exec->cast_prog[all], 0, NULL, NULL, err))
        return err->status;
    exec->params->compute_stale = YK__FRESH;
    return YK_OK;
}
