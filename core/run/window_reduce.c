/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchanges at the end of a window, the micro batches of one optimizer step. Each rank gets its slices of the sums of gradients, and
 * gives its slices of the updated parameters. The rank's way (way.h) says by which memory or messages.
 *
 * update.c calls yk__params_reduce, the ways call yk__params_publish, and readers of parameters yk__params_settle, in the step thread.
 * Buckets go in the order of their numbers on all ranks. Bucket k travels, or is summed, while the device still computes the buckets after
 * it.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/run/values/params.h"

#define SPREAD (1u << 20) /* elements of the parameters that go at once to ranks that were excluded */

yk_status yk__params_reduce(yk__params *p, yk_error *err)
{
    if (p->sums != YK__SUMS_DUE || yk__params_settle(p, err))
        return err->status;
    p->squares = (yk__exact){{0}, 0};
    if (p->way.reduce(p, err))
        return err->status;
    p->sums = YK__SUMS_MADE;
    return YK_OK;
}

yk_status yk__params_publish(yk__params *p, yk_error *err)
{
    for (uint32_t i = 0; i < p->n_bucket; i++) {
        const yk__bucket *b = &p->bucket[i];
        if (yk__bucket_offloads(p, b)) /* the host has written it there */
            continue;
        if (!b->home->in_block && yk__params_get(p, b, (yk__range){b->begin, b->end}, yk__params_host(p, b, b->begin), err))
            return err->status;
    }
    return yk__queue_idle(p->updates, err) ? err->status : yk__queue_idle(p->queue, err);
}

yk_status yk__params_publish_late(yk__params *p, yk_error *err)
{
    if (p->values != YK__VALUES_UNPUBLISHED || !(p->exchange->blocks & YK__BLOCK_VALUES))
        return YK_OK;
    if (yk__params_publish(p, err))
        return err->status;
    p->values = YK__VALUES_PUBLISHED;
    yk__exchange_updating(p->exchange, false);
    return YK_OK;
}

yk_status yk__params_put_shared(yk__params *p, const yk__bucket *b, yk__range range, yk_error *err)
{
    return b->home->in_block ? YK_OK : yk__params_put(p, b, range, yk__params_host(p, b, range.from), err);
}

yk_status yk__params_await(yk__params *p, uint32_t bucket, yk_error *err)
{
    return p->way.await(p, bucket, err);
}

yk_status yk__params_settle(yk__params *p, yk_error *err)
{
    return p->way.await(p, 0, err);
}

/* ---- Ranks that were excluded ---- */

/* Sends one bucket as messages. A member that is not the root gets the values it already has. */
static yk_status spread_bucket(yk__params *p, const yk__bucket *b, uint32_t root, bool take, float *scratch, yk_error *err)
{
    for (uint64_t at = 0; at < b->layout.n; at += SPREAD) {
        const uint64_t n = b->layout.n - at < SPREAD ? b->layout.n - at : SPREAD;
        float *values = yk__params_host(p, b, at);
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
    for (uint32_t i = 0; i < p->n_bucket && p->values == YK__VALUES_BEHIND; i++)
        if (yk__params_put_shared(p, &p->bucket[i], (yk__range){0, p->bucket[i].layout.n}, err))
            return err->status;
    p->values = YK__VALUES_PUBLISHED;
    return yk__queue_idle(p->queue, err);
}
