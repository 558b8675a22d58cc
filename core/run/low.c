/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 16-bit copies of the parameters that products read, kept between steps. A group of one writes them while it updates
 * (optim.c); what other ranks updated, and what the host wrote, is cast before the next program that reads it.
 */
#include "core/base/mem.h"
#include "core/run/inner.h"

static yk__eparam *held_by(const yk__engine *e, const yk_slot *s)
{
    const uint32_t number = s->key & ~YK__HELD_LOW;
    return s->kind == YK_SLOT_PARAM && !(s->key & YK__PACKED) && (s->key & YK__HELD_LOW) && number < e->n_param
               ? &e->param[number]
               : NULL;
}

static uint64_t low_bytes(const yk__engine *e, const yk__eparam *p)
{
    return p->n * yk_dtype_bytes(e->config.precision);
}

static void drop_programs(yk__engine *e)
{
    yk__prog_free(e, e->low_prog[0]);
    yk__prog_free(e, e->low_prog[1]);
    e->low_prog[0] = e->low_prog[1] = NULL;
}

yk_status yk__low_make(yk__engine *e, yk__prog *p, yk_error *err)
{
    bool grown = false;
    for (size_t i = 1; i < p->plan->graph.n_slot; i++) {
        yk__eparam *q = held_by(e, &p->plan->graph.slot[i]);
        p->reads_low |= q != NULL;
        if (!q || q->low)
            continue;
        if (yk__engine_buffer(e, low_bytes(e, q), &q->low, &e->stats.param_bytes, err))
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
    e->low_stale = YK__STALE_ALL;
    return YK_OK;
}

void yk__low_cast(const yk__engine *e, yk__graph *g, uint32_t number, yk__vid value)
{
    const yk__eparam *p = &e->param[number];
    const int64_t n = (int64_t)p->n;
    const uint32_t slot = yk__slot_new(g, YK_SLOT_PARAM, low_bytes(e, p), number | YK__HELD_LOW);
    const yk__vid low = yk__leaf(g, slot, 0, e->config.precision, 1, &n);
    if (value != YK_NONE && low != YK_NONE)
        yk__node_new(g, YK_OP_CAST, 0, 1, &value, 1, &low, 0, NULL);
}

static yk_status make_program(yk__engine *e, bool all, yk_error *err)
{
    yk__plan_request r;
    yk__graph g;
    yk__graph_init(&g);
    for (uint32_t i = 0; i < e->n_param; i++) {
        const yk__eparam *p = &e->param[i];
        const int64_t n = (int64_t)p->n;
        if (p->low && (all || p->trained))
            yk__low_cast(e, &g, i, yk__leaf(&g, yk__slot_new(&g, YK_SLOT_PARAM, p->n * sizeof(float), i), 0, YK_F32, 1, &n));
    }
    yk__prog_request(e, &g, &r);
    r.alone = true;
    if (g.error.status)
        *err = g.error;
    else
        yk__prog_new(e, &r, &e->low_prog[all], err);
    yk__graph_free(&g);
    return err->status;
}

yk_status yk__low_refresh(yk__engine *e, yk_error *err)
{
    const bool all = e->low_stale == YK__STALE_ALL;
    if (e->low_stale == YK__FRESH)
        return YK_OK;
    if ((!e->low_prog[all] && make_program(e, all, err)) || yk__prog_run(e, e->low_prog[all], 0, NULL, NULL, err))
        return err->status;
    e->low_stale = YK__FRESH;
    return YK_OK;
}

void yk__low_free(yk__engine *e)
{
    drop_programs(e);
    for (size_t i = 0; i < e->n_param; i++)
        yk__engine_unbuffer(e, &e->param[i].low, low_bytes(e, &e->param[i]), &e->stats.param_bytes);
}
