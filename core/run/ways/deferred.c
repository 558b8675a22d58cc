/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row of the table of ways (core/run/way.h) for the only rank of a job that offloads. The update returns when the host has its programs,
 * a segment for each bucket. The device fetches a bucket at its first reader (docs/decisions/0096).
 *
 * The update (core/run/update.c) calls `reduce` and `publish`; actions between segments, and readers of parameters, call `await`: the step
 * thread.
 */
#include "core/run/ways/ways.h"

static bool deferred_fits(const yk__params *p)
{
    return yk__params_defer(p);
}

/* The update of the next bucket on its way ends, and the device fetches it behind its commands so far. The device's own updates stand in
 * its queue before all of them. */
static yk_status end_update(yk__params *p, yk_error *err)
{
    yk__bucket *b = &p->bucket[p->n_bucket - 1 - p->gathered];
    const uint64_t number = (uint64_t)(b - p->bucket);
    const int64_t begin = yk__clock_ns();
    if (!yk__bucket_offloads(p, b)) {
        p->gathered++;
        return YK_OK;
    }
    if (yk__queue_wait(p->updates, b->updated, err))
        return err->status;
    yk__tracer_span(p->queue->tracer, YK__LANE_HOST, "wait", number, begin, yk__clock_ns());
    yk__tracer_span(p->queue->tracer, YK__LANE_UPDATE, "update", number, b->begun_ns, yk__clock_ns());
    if (yk__values_take(p, b, err))
        return err->status;
    p->gathered++;
    return YK_OK;
}

static yk_status await_update(yk__params *p, uint32_t bucket, yk_error *err)
{
    while (p->gathered < p->n_bucket && p->n_bucket - 1 - p->gathered >= bucket)
        if (end_update(p, err))
            return err->status;
    return YK_OK;
}

/* No exchange follows, so the host writes to the block while the next forward begins. A job of one rank times no update. */
static yk_status publish_deferred(yk__updater *u, yk_error *err)
{
    yk__params *p = u->params;
    const int64_t now = yk__clock_ns();
    if (p->queue->dev->plans_only) /* it has no values on the host */
        return yk__way_publishes_nothing(u, err);
    yk__copies_changed(p);
    p->values = YK__VALUES_PUBLISHED;
    p->gathered = 0;
    for (uint32_t i = 0; i < p->n_bucket; i++)
        p->bucket[i].begun_ns = now;
    return YK_OK;
}

const yk__way yk__way_deferred = {
    .name = "deferred", .fits = deferred_fits, .blocks = YK__BLOCKS_BOTH, .publish = publish_deferred, .await = await_update};
