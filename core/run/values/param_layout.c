/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares parameters, and decides when their layout, the cut into buckets with buffers, is made. That is before the first program, and
 * again after a parameter that comes later.
 *
 * core/job/param.c declares parameters by yk__engine_param. Each function that needs buffers (api.c and micro.c in core/run, and files of
 * this folder) calls yk__engine_lay_out first, in the step thread. A layout that is dropped keeps all values on the host until the next
 * one.
 */
#include "core/run/engine.h"

/* Finds the island that this rank's device is in, once; a rank that offloads has no use for one. */
static yk_status open_island(yk__params *p, yk_error *err)
{
    if (p->offloads || p->island.asked || yk__island_open(&p->island, p->queue, p->exchange, err))
        return err->status;
    return yk__island_probe(&p->island, err);
}

yk_status yk__engine_lay_out(yk__engine *e, yk_error *err)
{
    if (e->params.laid_out)
        return YK_OK;
    if (yk__params_list(&e->params, err) || open_island(&e->params, err))
        return err->status;
    yk__params_choose_way(&e->params); /* there is an island now */
    if (yk__params_lay_out(&e->params, err))
        return err->status;
    if (yk__fill_zero(&e->exec, false, err))
        return err->status;
    e->params.laid_out = true;
    return yk__params_flush(&e->params, err);
}

/* Drops the layout and keeps values on the host: a parameter came late, or is frozen now. */
static yk_status drop_layout(yk__engine *e, yk_error *err)
{
    if (e->updater.optim->has_layout)
        return yk__fail(err, YK_E_ARG,
                        "a parameter was added or frozen after the optimizer's state was made; do it before "
                        "the first step");
    if (e->params.far) /* other ranks may still pull, and this call waits for none */
        return yk__fail(err, YK_E_UNSUPPORTED,
                        "a parameter was added or frozen after the first program ran, where ranks read slices by messages: do it before, "
                        "or keep all parameters on each host (yk_config.shard_within \"host\")");
    if (yk__params_unflush(&e->params, err))
        return err->status;
    yk__cache_clear(&e->exec);
    yk__compute_drop(&e->exec);
    yk__power_drop(&e->params);
    yk__params_drop_layout(&e->params);
    return YK_OK;
}

yk_status yk__engine_param(yk__engine *e, const char *name, uint64_t n, bool trained, uint32_t *number, yk_error *err)
{
    if (!n)
        return yk__fail(err, YK_E_ARG, "parameter %s has no elements", name);
    if (e->params.laid_out && drop_layout(e, err))
        return err->status;
    return yk__params_declare(&e->params, name, n, trained, number, err);
}

void yk__engine_param_rows(yk__engine *e, uint32_t number, uint64_t rows)
{
    e->params.param[number].rows = rows;
}

yk_status yk__engine_param_trained(yk__engine *e, uint32_t number, bool trained, yk_error *err)
{
    if (number >= e->params.n_param)
        return yk__fail(err, YK_E_INTERNAL, "there is no parameter %u", number);
    if (e->params.param[number].trained == trained)
        return YK_OK;
    if (e->params.laid_out && drop_layout(e, err))
        return err->status;
    e->params.param[number].trained = trained;
    return YK_OK;
}
