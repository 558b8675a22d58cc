/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns `reduce` that several ways share (core/run/way.h). Gradients go from the device to the host's block for exchanges, are summed
 * over the members, and go back to the device.
 *
 * The rows for shared memory and for messages use them, and offloaded.c and power.c use parts. They run in the step thread at the end of a
 * window, bucket by bucket: a bucket travels while the device still computes the next. Counts are elements of f32.
 */
#include <string.h>

#include "core/run/ways/ways.h"

/* The island adds the bucket up, and this rank passes its part of the sum on. The rest of its block is zero, as other members pass that
 * on. */
static yk_status island_to_shared(yk__params *p, yk__bucket *b, yk_error *err)
{
    uint64_t from = 0, to = 0;
    if (yk__island_reduce(&p->island, b->grad, b->layout.n, (uint32_t)(b - p->bucket), b->point, &from, &to, err))
        return err->status;
    if (b->is_part) /* the transfer of the last sums from there to the device is over: the norm waited for it */
        memset(b->shared + b->begin, 0, (b->end - b->begin) * sizeof *b->shared);
    else
        memset(b->shared, 0, b->layout.n * sizeof *b->shared);
    b->is_part = true;
    if (yk__queue_get_overlapped(p->queue, b->grad, from * sizeof *b->shared, b->shared + from, (to - from) * sizeof *b->shared, b->point,
                                 err))
        return err->status;
    return yk__queue_idle_overlapped(p->queue, err);
}

/* Brings this rank's gradients of a bucket to the block for exchanges. A device with memory of its own sends them while it computes the
 * gradients of later buckets. */
yk_status yk__grads_to_host(yk__params *p, yk__bucket *b, yk_error *err)
{
    if (yk__island_sums(&p->island))
        return island_to_shared(p, b, err);
    b->is_part = false;
    if (!b->is_wrapped && (yk__queue_get_overlapped(p->queue, b->grad, 0, b->shared, b->layout.n * sizeof(float), b->point, err) ||
                           yk__queue_idle_overlapped(p->queue, err)))
        return err->status;
    return yk__queue_wait(p->queue, b->point, err);
}

yk_status yk__sums_to_device(yk__params *p, yk__bucket *b, yk_error *err)
{
    if (b->is_wrapped || b->begin == b->end || yk__bucket_offloads(p, b))
        return YK_OK;
    return yk__queue_put(p->queue, b->grad, b->begin * sizeof(float), b->shared + b->begin, (b->end - b->begin) * sizeof(float),
                         err);
}

static yk_status begin_sums(yk__params *p, yk__bucket *b, yk_error *err)
{
    if (yk__grads_to_host(p, b, err))
        return err->status;
    b->begun_ns = yk__clock_ns();
    return yk__exchange_reduce_scatter(p->exchange, b->shared_at, &b->layout, &p->squares, &b->done_ns, &b->request, err);
}

yk_status yk__bucket_await(yk__params *p, yk__bucket *b, const char *what, yk_error *err)
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
    return yk__bucket_await(p, b, "reduce_scatter", err) ? err->status : yk__sums_to_device(p, b, err);
}

/* Reduces all buckets in order, with as many under way at once as are of use. */
yk_status yk__way_reduce_buckets(yk__params *p, yk_error *err)
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
