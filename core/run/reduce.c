/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks exchange at the end of a window: sums of gradients, to each rank its slices, and updated parameters, from
 * each rank its slices. Buckets go in the order of their numbers on all ranks; bucket k is summed while the device still
 * computes those after it.
 */
#include "core/run/internal.h"

/* This rank's gradients of a bucket are in shared memory. */
static yk_status to_shared(yk__engine *e, yk__bucket *p, yk_error *err)
{
    if (!p->is_wrapped && yk__engine_get(e, p->grad, 0, p->shared, p->n * sizeof(float), err))
        return err->status;
    return yk__engine_wait_point(e, p->is_wrapped ? p->point : e->last_point, err);
}

static yk_status to_device(yk__engine *e, yk__bucket *p, yk_error *err)
{
    if (p->is_wrapped || p->begin == p->end)
        return YK_OK;
    return yk__engine_put(e, p->grad, p->begin * sizeof(float), p->shared + p->begin, (p->end - p->begin) * sizeof(float), err);
}

yk_status yk__reduce(yk__engine *e, yk_error *err)
{
    if (e->reduced)
        return YK_OK;
    e->squares = (yk__exact){{0}, 0};
    for (uint32_t i = 0; i < e->n_bucket && e->talks && !e->excluded; i++) {
        yk__bucket *p = &e->bucket[i];
        if (to_shared(e, p, err) ||
            yk__group_reduce_slice(e->group, e->grad_base + p->flat, e->flat * sizeof(float), &p->slice,
                                   p->shared + p->begin, &e->squares, err) ||
            to_device(e, p, err))
            return err->status;
    }
    e->reduced = true;
    e->slices_changed = false;
    return YK_OK;
}

/* A copy of its own takes the other ranks' slices. */
static yk_status put_others(yk__engine *e, const yk__bucket *p, yk_error *err)
{
    const float *all = e->param_base + p->flat;
    if (p->begin && yk__engine_put(e, p->value, 0, all, p->begin * sizeof(float), err))
        return err->status;
    if (p->end < p->n)
        yk__engine_put(e, p->value, p->end * sizeof(float), all + p->end, (p->n - p->end) * sizeof(float), err);
    return err->status;
}

static yk_status get_own(yk__engine *e, const yk__bucket *p, yk_error *err)
{
    if (p->begin == p->end)
        return YK_OK;
    return yk__engine_get(e, p->value, p->begin * sizeof(float), e->param_base + p->flat + p->begin,
                          (p->end - p->begin) * sizeof(float), err);
}

/* What this rank updated is in shared memory. */
static yk_status publish_own(yk__engine *e, yk_error *err)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < e->n_bucket; i++) {
        n += e->bucket[i].end - e->bucket[i].begin;
        if (!e->bucket[i].is_common && get_own(e, &e->bucket[i], err))
            return err->status;
    }
    if (yk__engine_idle(e, err))
        return err->status;
    e->stats.update_seconds = yk__seconds() - e->update_started;
    e->stats.update_elements = n;
    return YK_OK;
}

yk_status yk__refresh_params(yk__engine *e, yk_error *err)
{
    for (uint32_t i = 0; i < e->n_bucket && e->params_behind && e->talks; i++) {
        const yk__bucket *p = &e->bucket[i];
        if (!p->is_common && yk__engine_put(e, p->value, 0, e->param_base + p->flat, p->n * sizeof(float), err))
            return err->status;
    }
    e->params_behind = false;
    return yk__engine_idle(e, err);
}

/* The transfers go on behind; they are waited for where they are timed. */
static yk_status take_others(yk__engine *e, yk_error *err)
{
    const double begin = yk__seconds();
    uint64_t n = 0;
    for (uint32_t i = 0; i < e->n_bucket; i++) {
        const yk__bucket *p = &e->bucket[i];
        if (p->is_common)
            continue;
        n += p->n - (p->end - p->begin);
        if (put_others(e, p, err))
            return err->status;
    }
    if (!n || !e->measure)
        return YK_OK;
    if (yk__engine_idle(e, err))
        return err->status;
    e->stats.copy_seconds = yk__seconds() - begin;
    e->stats.copy_elements = n;
    return YK_OK;
}

/* The shared copy is written again in the next update, after all ranks have added their norms: each waits for its device
 * before it does, and so for the transfers that begin here. */
yk_status yk__gather_params(yk__engine *e, yk_error *err)
{
    e->version++;
    e->compute_stale = e->world > 1 && e->compute_stale == YK__FRESH ? YK__STALE_TRAINED : e->compute_stale;
    e->params_behind = e->excluded;
    if (!e->talks || e->excluded)
        return YK_OK;
    if (publish_own(e, err) || yk__group_slices_ready(e->group, err))
        return err->status;
    return take_others(e, err);
}
