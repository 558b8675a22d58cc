/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The row of the table of ways (core/run/way.h) for ranks without memory in common. Gradients are summed, and updated parameters sent,
 * bucket by bucket as messages. Parameters still travel while the next step begins.
 *
 * The update (core/run/update.c) calls `reduce` and `publish` on all members, and the action `all_gather` calls `await` before the segment
 * that reads a bucket. The step thread calls all of them.
 */
#include "core/run/ways/ways.h"

static bool messages_fit(const yk__params *p)
{
    (void)p;
    return true;
}

/* Ends the exchange of the next bucket on its way. */
static yk_status end_gather(yk__params *p, yk_error *err)
{
    yk__bucket *b = &p->bucket[p->n_bucket - 1 - p->gathered];
    if (yk__bucket_await(p, b, "all_gather", err) || yk__values_take(p, b, err))
        return err->status;
    p->gathered++;
    return YK_OK;
}

/* Sends the last bucket first, as the next forward reads it first. All exchanges begin here, so their order among other requests is the
 * same on all ranks. With many buckets the first have come before the last begin. */
static yk_status send_buckets(yk__params *p, yk_error *err)
{
    p->gathered = 0;
    for (uint32_t i = 0; i < p->n_bucket; i++) {
        yk__bucket *b = &p->bucket[p->n_bucket - 1 - i];
        if (i >= p->gathered + yk__exchange_depth(p->exchange) && end_gather(p, err))
            return err->status;
        b->begun_ns = yk__clock_ns();
        if (yk__exchange_all_gather(p->exchange, b->shared_at, &b->layout, p->values == YK__VALUES_ROUNDED, &b->done_ns, &b->request, err))
            return err->status;
    }
    return YK_OK;
}

static yk_status gather_messages(yk__params *p, yk_error *err)
{
    return yk__values_spread(p, err) ? err->status : send_buckets(p, err);
}

static yk_status await_bucket(yk__params *p, uint32_t bucket, yk_error *err)
{
    while (p->gathered < p->n_bucket && p->n_bucket - 1 - p->gathered >= bucket)
        if (end_gather(p, err))
            return err->status;
    return YK_OK;
}

const yk__way yk__way_messages = {.name = "messages",
                                  .fits = messages_fit,
                                  .blocks = YK__BLOCKS_BOTH,
                                  .reduce = yk__way_reduce_buckets,
                                  .norm = yk__way_norm_exact,
                                  .publish = yk__way_publish_through,
                                  .gather = gather_messages,
                                  .await = await_bucket,
                                  .read = yk__params_read_device};
