/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 16-bit copies of the parameters that products read, kept between steps. A group of one writes them while it updates
 * (optim.c); what other ranks updated, and what the host wrote, is cast before the next program that reads it.
 */
#include "core/base/mem.h"
#include "core/run/internal.h"

static yk__eparam *weight_of_slot(const yk__engine *e, const yk_slot *s)
{
    const uint32_t number = s->key & ~YK__KEY_COMPUTE;
    return s->kind == YK_SLOT_PARAM && !(s->key & YK__KEY_BUCKET) && (s->key & YK__KEY_COMPUTE) && number < e->n_param
               ? &e->param[number]
               : NULL;
}

static uint64_t copy_bytes(const yk__engine *e, const yk__eparam *p)
{
    return p->n * yk_dtype_bytes(e->config.precision);
}

static void drop_programs(yk__engine *e)
{
    yk__prog_free(e, e->cast_prog[0]);
    yk__prog_free(e, e->cast_prog[1]);
    e->cast_prog[0] = e->cast_prog[1] = NULL;
}

yk_status yk__compute_make(yk__engine *e, yk__prog *p, yk_error *err)
{
    bool grown = false;
    for (size_t i = 1; i < p->plan->graph.n_slot; i++) {
        yk__eparam *q = weight_of_slot(e, &p->plan->graph.slot[i]);
        p->reads_compute |= q != NULL;
        if (!q || q->compute)
            continue;
        if (yk__engine_buffer(e, copy_bytes(e, q), &q->compute, &e->stats.param_bytes, err))
            return err->status;
        grown = true;
    }
    if (!grown)
        return YK_OK;
    if (yk__engine_idle(e, err))
        return err->status;
    drop_programs(e);
    yk__prog_free(e, e->opt_prog); /* it is to write them, too */
    e->opt_prog = NULL;
    e->compute_stale = YK__STALE_ALL;
    return YK_OK;
}

void yk__compute_cast(const yk__engine *e, yk__graph *g, uint32_t number, yk__vid value)
{
    const yk__eparam *p = &e->param[number];
    const int64_t n = (int64_t)p->n;
    const uint32_t slot = yk__slot_new(g, YK_SLOT_PARAM, copy_bytes(e, p), number | YK__KEY_COMPUTE);
    const yk__vid copy = yk__leaf(g, slot, 0, e->config.precision, 1, &n);
    if (value != YK_NONE && copy != YK_NONE)
        yk__node_new(g, YK_OP_CAST, 0, 1, &value, 1, &copy, 0, NULL);
}

static yk_status make_cast(yk__engine *e, bool all, yk_error *err)
{
    yk__plan_request r;
    yk__graph g;
    yk__graph_init(&g);
    for (uint32_t i = 0; i < e->n_param; i++) {
        const yk__eparam *p = &e->param[i];
        const int64_t n = (int64_t)p->n;
        if (p->compute && (all || p->trained))
            yk__compute_cast(e, &g, i, yk__leaf(&g, yk__slot_new(&g, YK_SLOT_PARAM, p->n * sizeof(float), i), 0, YK_F32, 1, &n));
    }
    yk__prog_request(e, &g, &r);
    r.single_rank = true;
    if (g.error.status)
        *err = g.error;
    else
        yk__prog_new(e, &r, &e->cast_prog[all], err);
    yk__graph_free(&g);
    return err->status;
}

yk_status yk__compute_refresh(yk__engine *e, yk_error *err)
{
    const bool all = e->compute_stale == YK__STALE_ALL;
    if (e->compute_stale == YK__FRESH)
        return YK_OK;
    if ((!e->cast_prog[all] && make_cast(e, all, err)) || yk__prog_run(e, e->cast_prog[all], 0, NULL, NULL, err))
        return err->status;
    e->compute_stale = YK__FRESH;
    return YK_OK;
}

void yk__compute_free(yk__engine *e)
{
    drop_programs(e);
    for (size_t i = 0; i < e->n_param; i++)
        yk__engine_unbuffer(e, &e->param[i].compute, copy_bytes(e, &e->param[i]), &e->stats.param_bytes);
}
