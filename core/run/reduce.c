/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks exchange at the end of a window: sums of gradients, to each rank its slices, and updated parameters, from
 * each rank its slices. Buckets go in the order of their numbers on all ranks; bucket k is summed while the device still
 * computes those after it.
 */
#include "core/run/params.h"

/* ---- Gradients ---- */

/* This rank's gradients of a bucket are in shared memory. */
static yk_status grads_to_shared(yk__params *p, yk__bucket *b, yk_error *err)
{
    if (!b->is_wrapped && yk__queue_get(p->queue, b->grad, 0, b->shared, b->n * sizeof(float), err))
        return err->status;
    return yk__queue_wait(p->queue, b->is_wrapped ? b->point : p->queue->last_point, err);
}

static yk_status sums_to_device(yk__params *p, yk__bucket *b, yk_error *err)
{
    if (b->is_wrapped || b->begin == b->end)
        return YK_OK;
    return yk__queue_put(p->queue, b->grad, b->begin * sizeof(float), b->shared + b->begin, (b->end - b->begin) * sizeof(float),
                         err);
}

yk_status yk__params_reduce(yk__params *p, yk_error *err)
{
    if (p->is_reduced)
        return YK_OK;
    p->squares = (yk__exact){{0}, 0};
    for (uint32_t i = 0; i < p->n_bucket && p->exchange->talks && !p->exchange->excluded; i++) {
        yk__bucket *b = &p->bucket[i];
        if (grads_to_shared(p, b, err) ||
            yk__exchange_reduce_scatter(p->exchange, b->shared_at, &b->slice, b->shared + b->begin, &p->squares, err) ||
            sums_to_device(p, b, err))
            return err->status;
    }
    p->is_reduced = true;
    p->slices_changed = false;
    return YK_OK;
}

/* ---- Parameters ---- */

static yk_status get_own(yk__params *p, const yk__bucket *b, yk_error *err)
{
    if (b->is_common || b->begin == b->end)
        return YK_OK;
    return yk__queue_get(p->queue, b->value, b->begin * sizeof(float), yk__exchange_values(p->exchange, b->shared_at + b->begin),
                         (b->end - b->begin) * sizeof(float), err);
}

yk_status yk__params_publish(yk__params *p, yk_error *err)
{
    for (uint32_t i = 0; i < p->n_bucket; i++)
        if (get_own(p, &p->bucket[i], err))
            return err->status;
    return yk__queue_idle(p->queue, err);
}

/* Elements [from, to) of the shared copy. */
static yk_status put_shared(yk__params *p, const yk__bucket *b, uint64_t from, uint64_t to, yk_error *err)
{
    if (from == to)
        return YK_OK;
    return yk__queue_put(p->queue, b->value, from * sizeof(float), yk__exchange_values(p->exchange, b->shared_at + from),
                         (to - from) * sizeof(float), err);
}

yk_status yk__params_take(yk__params *p, uint64_t *n, yk_error *err)
{
    *n = 0;
    for (uint32_t i = 0; i < p->n_bucket; i++) {
        const yk__bucket *b = &p->bucket[i];
        if (b->is_common)
            continue;
        *n += b->n - (b->end - b->begin);
        if (put_shared(p, b, 0, b->begin, err) || put_shared(p, b, b->end, b->n, err))
            return err->status;
    }
    return YK_OK;
}

yk_status yk__params_refresh(yk__params *p, yk_error *err)
{
    for (uint32_t i = 0; i < p->n_bucket && p->is_behind && p->exchange->talks; i++)
        if (!p->bucket[i].is_common && put_shared(p, &p->bucket[i], 0, p->bucket[i].n, err))
            return err->status;
    p->is_behind = false;
    return yk__queue_idle(p->queue, err);
}
