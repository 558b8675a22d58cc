/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Means over the ranks' own parameters and moments, for LocalSGD, in which each rank updates whole parameters of its own. The block of
 * parameters for exchanges holds the last mean a. The ranks exchange their distances from it: a += sum over ranks of w_r (p_r - a), with
 * the weights adding up to 1. A parameter that no rank has changed stays as it is, bit for bit, and a wire that rounds rounds a change.
 * (Accelerate 1.14, local_sgd.py: the mean of p_r, one parameter after the other.)
 *
 * core/job/team/local_sgd.c calls it through api.c (core/run), in the step thread, on all ranks after the same step. Parameters travel by
 * buckets, as gradients do, because they are many and averaged often. Moments, which only a checkpoint needs, travel one vector after the
 * other.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/run/values/params.h"

/* Writes this rank's part of the changes to the block from which exchanges take gradients. */
static yk_status put_change(yk__params *p, const yk__bucket *b, double weight, yk_error *err)
{
    const float *last = yk__params_host(p, b, 0);
    if (yk__params_get(p, b, (yk__range){0, b->layout.n}, b->shared, err) || yk__queue_idle(p->queue, err))
        return err->status;
    for (uint64_t i = 0; i < b->layout.n; i++)
        b->shared[i] = (float)(weight * ((double)b->shared[i] - (double)last[i]));
    return YK_OK;
}

/* Adds the changes to this rank's slice. */
static void add_changes(yk__params *p, const yk__bucket *b)
{
    float *last = yk__params_host(p, b, 0);
    for (uint64_t i = b->layout.slice.begin[p->exchange->rank]; i < b->layout.slice.begin[p->exchange->rank + 1]; i++)
        last[i] += b->shared[i];
}

static yk_status sum_changes(yk__params *p, yk__bucket *b, double weight, yk_error *err)
{
    yk__exact squares = {{0}, 0};
    if (put_change(p, b, weight, err) ||
        yk__exchange_reduce_scatter(p->exchange, b->shared_at, &b->layout, &squares, &b->done_ns, &b->request, err) ||
        yk__exchange_wait(&b->request, err))
        return err->status;
    add_changes(p, b);
    return YK_OK;
}

/* Takes the mean as parameters, and clears the gradients: one that the next window does not produce must be zero. */
static yk_status take_mean(yk__params *p, yk__bucket *b, yk_error *err)
{
    if (p->exchange->medium == YK__MESSAGES &&
        (yk__exchange_all_gather(p->exchange, b->shared_at, &b->layout, false, &b->done_ns, &b->request, err) ||
         yk__exchange_wait(&b->request, err)))
        return err->status;
    memset(b->shared, 0, b->is_wrapped ? b->layout.n * sizeof(float) : 0);
    return yk__params_put_shared(p, b, (yk__range){0, b->layout.n}, err);
}

yk_status yk__params_average(yk__params *p, double weight, yk_error *err)
{
    if (!p->exchange->medium)
        return YK_OK;
    for (uint32_t i = 0; i < p->n_bucket; i++)
        if (sum_changes(p, &p->bucket[i], weight, err))
            return err->status;
    if (yk__exchange_all_written(p->exchange, err))
        return err->status;
    for (uint32_t i = 0; i < p->n_bucket; i++)
        if (take_mean(p, &p->bucket[i], err))
            return err->status;
    p->version++;
    yk__copies_changed(p);
    return yk__queue_idle(p->queue, err); /* the device must have read the block of parameters before the next write */
}

static yk_status average_moment(yk__params *p, const yk__bucket *b, uint32_t k, double weight, float *all, yk_error *err)
{
    if (yk__moment_read(p, b, k, (yk__range){0, b->layout.n}, all, err))
        return err->status;
    for (uint64_t i = 0; i < b->layout.n; i++)
        all[i] = (float)(weight * (double)all[i]);
    if (yk__exchange_sum_vector(p->exchange, all, b->layout.n, err))
        return err->status;
    return yk__moment_write(p, b, k, (yk__range){0, b->layout.n}, all, err);
}

static yk_status average_bucket(yk__params *p, const yk__bucket *b, double weight, yk_error *err)
{
    float *all = yk__malloc(b->layout.n * sizeof *all);
    if (!all)
        return yk__fail_mem(err, b->layout.n * sizeof *all, "the mean of the ranks' moments");
    for (uint32_t k = 0; k < p->n_moment && !err->status; k++)
        average_moment(p, b, k, weight, all, err);
    yk__free(all);
    return err->status;
}

yk_status yk__moments_average(yk__params *p, double weight, yk_error *err)
{
    for (uint32_t i = 0; i < p->n_bucket && p->exchange->medium; i++)
        if (average_bucket(p, &p->bucket[i], weight, err))
            return err->status;
    return YK_OK;
}
