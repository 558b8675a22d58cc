/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks exchange at the end of a window: sums of gradients, to each rank its slices, and updated parameters, from
 * each rank its slices. Buckets go in the order of their numbers on all ranks; bucket k travels, or is summed, while the device still
 * computes those after it.
 */
#include "core/run/power.h"

#include <string.h>

#include "core/base/mem.h"

#define SPREAD (1u << 20) /* elements of the parameters that go to ranks that were excluded at once */

/* ---- Gradients ---- */

/* The island adds the bucket up, and this rank passes a part of that on; the rest of its block counts nothing, as others pass it on. */
static yk_status island_to_shared(yk__params *p, yk__bucket *b, yk_error *err)
{
    uint64_t from = 0, to = 0;
    if (yk__island_reduce(&p->island, b->grad, b->n, (uint32_t)(b - p->bucket), b->point, &from, &to, err))
        return err->status;
    if (b->is_part) /* the last sums went to the device from there, which the norm waited for */
        memset(b->shared + b->begin, 0, (b->end - b->begin) * sizeof *b->shared);
    else
        memset(b->shared, 0, b->n * sizeof *b->shared);
    b->is_part = true;
    if (yk__queue_get_overlapped(p->queue, b->grad, from * sizeof *b->shared, b->shared + from, (to - from) * sizeof *b->shared, b->point,
                                 err))
        return err->status;
    return yk__queue_idle_overlapped(p->queue, err);
}

/* This rank's gradients of a bucket are where exchanges take them; a device with memory of its own sends them while it computes those
 * of the buckets behind. */
static yk_status grads_to_shared(yk__params *p, yk__bucket *b, yk_error *err)
{
    if (yk__island_sums(&p->island))
        return island_to_shared(p, b, err);
    b->is_part = false;
    if (!b->is_wrapped && (yk__queue_get_overlapped(p->queue, b->grad, 0, b->shared, b->n * sizeof(float), b->point, err) ||
                           yk__queue_idle_overlapped(p->queue, err)))
        return err->status;
    return yk__queue_wait(p->queue, b->point, err);
}

static yk_status sums_to_device(yk__params *p, yk__bucket *b, yk_error *err)
{
    if (b->is_wrapped || b->begin == b->end)
        return YK_OK;
    return yk__queue_put(p->queue, b->grad, b->begin * sizeof(float), b->shared + b->begin, (b->end - b->begin) * sizeof(float),
                         err);
}

static yk_status begin_sums(yk__params *p, yk__bucket *b, yk_error *err)
{
    if (grads_to_shared(p, b, err))
        return err->status;
    b->begun_ns = yk__clock_ns();
    return yk__exchange_reduce_scatter(p->exchange, b->shared_at, &b->slice, &p->squares, &b->done_ns, &b->request, err);
}

/* Waits for a bucket's exchange, and traces it and the wait. */
static yk_status await_exchange(yk__params *p, yk__bucket *b, const char *what, yk_error *err)
{
    const int64_t begin = yk__clock_ns();
    const uint64_t number = (uint64_t)(b - p->bucket);
    const bool was = b->request != NULL;
    if (yk__exchange_wait(&b->request, err) || !was)
        return err->status;
    yk__tracer_span(p->queue->tracer, YK__LANE_WIRE, what, number, b->begun_ns, b->done_ns);
    yk__tracer_span(p->queue->tracer, YK__LANE_HOST, "wait", number, begin, yk__clock_ns());
    return YK_OK;
}

static yk_status end_sums(yk__params *p, yk__bucket *b, yk_error *err)
{
    return await_exchange(p, b, "reduce_scatter", err) ? err->status : sums_to_device(p, b, err);
}

/* All buckets in order, as many under way at once as are of use. */
static yk_status sum_buckets(yk__params *p, yk_error *err)
{
    const uint32_t depth = yk__exchange_depth(p->exchange), n = p->n_bucket;
    for (uint32_t i = 0; i < n + depth - 1; i++) {
        if (i < n && begin_sums(p, &p->bucket[i], err))
            return err->status;
        if (i + 1 >= depth && end_sums(p, &p->bucket[i + 1 - depth], err))
            return err->status;
    }
    return YK_OK;
}

/* Nothing leaves the devices: each has the sums of its slices, in its gradients. */
static yk_status sum_on_devices(yk__params *p, yk_error *err)
{
    for (uint32_t i = 0; i < p->n_bucket; i++) {
        const yk__bucket *b = &p->bucket[i];
        if (yk__island_reduce_slices(&p->island, b->grad, &b->slice, i, b->point, err))
            return err->status;
    }
    return yk__queue_idle_overlapped(p->queue, err);
}

/* The whole block at once, which then holds sums from end to end. */
static yk_status sum_factors(yk__params *p, yk_error *err)
{
    for (uint32_t i = 0; i < p->n_bucket; i++)
        if (grads_to_shared(p, &p->bucket[i], err))
            return err->status;
    if (yk__power_reduce(p, err))
        return err->status;
    for (uint32_t i = 0; i < p->n_bucket; i++) {
        p->bucket[i].is_part = false;
        if (sums_to_device(p, &p->bucket[i], err))
            return err->status;
    }
    return YK_OK;
}

static yk_status sum_grads(yk__params *p, yk_error *err)
{
    if (!p->exchange->medium || p->exchange->part == YK__PART_EXCLUDED)
        return YK_OK;
    return p->power_rank ? sum_factors(p, err) : yk__island_holds_all(&p->island) ? sum_on_devices(p, err) : sum_buckets(p, err);
}

yk_status yk__params_reduce(yk__params *p, yk_error *err)
{
    if (p->is_reduced || yk__params_settle(p, err))
        return err->status;
    p->squares = (yk__exact){{0}, 0};
    if (sum_grads(p, err))
        return err->status;
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

yk_status yk__params_publish_late(yk__params *p, yk_error *err)
{
    if (!p->is_unpublished)
        return YK_OK;
    if (yk__params_publish(p, err))
        return err->status;
    p->is_unpublished = false;
    yk__exchange_updating(p->exchange, false);
    return YK_OK;
}

/* Elements [from, to) of what exchanges left. */
static yk_status put_shared(yk__params *p, const yk__bucket *b, uint64_t from, uint64_t to, yk_error *err)
{
    if (from == to)
        return YK_OK;
    return yk__queue_put(p->queue, b->value, from * sizeof(float), yk__exchange_values(p->exchange, b->shared_at + from),
                         (to - from) * sizeof(float), err);
}

/* From each owner in the island to the others' devices. All members do it where they have just updated, before anything else comes: who
 * did it later, when messages have brought other slices, might wait meanwhile for a rank whose device waits for this one's. */
static yk_status spread_island(yk__params *p, const yk__bucket *b, yk_error *err)
{
    for (uint32_t r = 0; r < p->exchange->world && yk__island_spreads(&p->island); r++) {
        const uint64_t from = b->slice.begin[r], n = b->slice.begin[r + 1] - from;
        const uint32_t place = yk__island_place(&p->island, r);
        if (place != UINT32_MAX && yk__island_broadcast(&p->island, b->value, from, n, place, (uint32_t)(b - p->bucket), err))
            return err->status;
    }
    return YK_OK;
}

/* It comes to this device without the host. */
static bool is_spread(const yk__params *p, uint32_t owner)
{
    return owner == p->exchange->rank || (yk__island_spreads(&p->island) && yk__island_place(&p->island, owner) != UINT32_MAX);
}

/* What others updated, to a device's own copy: of slices in a row at once. */
static yk_status take_bucket(yk__params *p, const yk__bucket *b, yk_error *err)
{
    uint64_t from = 0;
    for (uint32_t r = 0; r < p->exchange->world && !b->is_common; r++) {
        if (!is_spread(p, r))
            continue;
        if (put_shared(p, b, from, b->slice.begin[r], err))
            return err->status;
        from = b->slice.begin[r + 1];
    }
    return b->is_common ? YK_OK : put_shared(p, b, from, b->n, err);
}

uint64_t yk__params_taken(const yk__params *p)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->n_bucket; i++)
        n += p->bucket[i].is_common ? 0 : p->bucket[i].n - (p->bucket[i].end - p->bucket[i].begin);
    return n;
}

/* The next of the buckets that are on their way. */
static yk_status end_gather(yk__params *p, yk_error *err)
{
    yk__bucket *b = &p->bucket[p->n_bucket - 1 - p->gathered];
    if (await_exchange(p, b, "all_gather", err) || take_bucket(p, b, err))
        return err->status;
    p->gathered++;
    return YK_OK;
}

/* The last bucket first, as the next forward reads them. All are begun here, in the same order beside other requests on all ranks; of
 * many the first have come before the last begin. */
static yk_status send_buckets(yk__params *p, yk_error *err)
{
    p->gathered = 0;
    for (uint32_t i = 0; i < p->n_bucket; i++) {
        yk__bucket *b = &p->bucket[p->n_bucket - 1 - i];
        if (i >= p->gathered + yk__exchange_depth(p->exchange) && end_gather(p, err))
            return err->status;
        b->begun_ns = yk__clock_ns();
        if (yk__exchange_all_gather(p->exchange, b->shared_at, &b->slice, p->is_rounded, &b->done_ns, &b->request, err))
            return err->status;
    }
    return YK_OK;
}

yk_status yk__params_written(yk__params *p, yk_error *err)
{
    return p->exchange->medium == YK__MEMORY ? yk__exchange_all_written(p->exchange, err) : YK_OK;
}

yk_status yk__params_spread(yk__params *p, yk_error *err)
{
    for (uint32_t i = p->n_bucket; i-- > 0;)
        if (spread_island(p, &p->bucket[i], err))
            return err->status;
    return YK_OK;
}

yk_status yk__params_gather(yk__params *p, yk_error *err)
{
    if (yk__params_spread(p, err))
        return err->status;
    if (p->exchange->medium == YK__MESSAGES)
        return send_buckets(p, err);
    for (uint32_t i = 0; i < p->n_bucket; i++)
        if (take_bucket(p, &p->bucket[i], err))
            return err->status;
    return YK_OK;
}

yk_status yk__params_await(yk__params *p, uint32_t bucket, yk_error *err)
{
    while (p->gathered < p->n_bucket && p->n_bucket - 1 - p->gathered >= bucket)
        if (end_gather(p, err))
            return err->status;
    return YK_OK;
}

yk_status yk__params_settle(yk__params *p, yk_error *err)
{
    return yk__params_await(p, 0, err);
}

/* One bucket as messages. A member that is not the root gets again what it has. */
static yk_status spread_bucket(yk__params *p, const yk__bucket *b, uint32_t root, bool take, float *scratch, yk_error *err)
{
    for (uint64_t at = 0; at < b->n; at += SPREAD) {
        const uint64_t n = b->n - at < SPREAD ? b->n - at : SPREAD;
        float *values = yk__exchange_values(p->exchange, b->shared_at + at);
        if (yk__exchange_broadcast(p->exchange, root, take || p->exchange->rank == root ? values : scratch, n * sizeof *values, err))
            return err->status;
    }
    return YK_OK;
}

static yk_status spread_values(yk__params *p, uint32_t root, bool take, yk_error *err)
{
    float *scratch = yk__malloc(SPREAD * sizeof *scratch);
    if (!scratch)
        return yk__fail_mem(err, SPREAD * sizeof *scratch, "parameters for ranks that were excluded");
    for (uint32_t i = 0; i < p->n_bucket && !err->status; i++)
        spread_bucket(p, &p->bucket[i], root, take, scratch, err);
    yk__free(scratch);
    return err->status;
}

yk_status yk__params_refresh(yk__params *p, uint32_t root, bool take, yk_error *err)
{
    if (!p->exchange->medium || yk__params_settle(p, err) || yk__queue_idle(p->queue, err) ||
        (p->exchange->medium == YK__MESSAGES && spread_values(p, root, take, err)))
        return err->status;
    if (!take)
        return YK_OK;
    for (uint32_t i = 0; i < p->n_bucket && p->is_behind; i++)
        if (!p->bucket[i].is_common && put_shared(p, &p->bucket[i], 0, p->bucket[i].n, err))
            return err->status;
    p->is_behind = false;
    return yk__queue_idle(p->queue, err);
}
