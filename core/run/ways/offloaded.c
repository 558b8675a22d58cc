/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the table of ways (core/run/way.h) for a rank that offloads. They stand in front of other rows: the host updates its slices in
 * the block for exchanges, and the device then fetches them from there with those of other owners (docs/decisions/0077).
 *
 * choose.c picks the row, and the update (core/run/update.c) calls its columns in the step thread.
 */
#include "core/run/ways/ways.h"

static bool offloaded_fits(const yk__params *p)
{
    return yk__params_offload(p);
}

static bool single_fits(const yk__params *p)
{
    return yk__params_offload(p) && yk__exchange_updates_all(p->exchange);
}

static bool sole_fits(const yk__params *p)
{
    return yk__params_offload(p) && yk__exchange_members(p->exchange) == 1;
}

/* A rank without another member has nothing to add up: gradients only come to the host if it updates. */
static yk_status grads_to_host(yk__params *p, yk_error *err)
{
    for (uint32_t i = 0; i < p->n_bucket; i++)
        if (yk__bucket_offloads(p, &p->bucket[i]) && yk__grads_to_host(p, &p->bucket[i], err))
            return err->status;
    return YK_OK;
}

/* A device that plans only has no values on the host. */
static yk_status publish_offloaded(yk__updater *u, yk_error *err)
{
    const int64_t begin = yk__clock_ns();
    if (u->params->queue->dev->plans_only)
        return yk__way_publishes_nothing(u, err);
    if (yk__queue_idle(u->params->updates, err))
        return err->status;
    yk__tracer_span(u->params->queue->tracer, YK__LANE_HOST, "update", u->params->version, begin, yk__clock_ns());
    return yk__way_publish_through(u, err);
}

/* The only rank: it has blocks of its own, and the rows behind measure its norm. */
const yk__way yk__way_offloaded_single = {.name = "offloaded, alone",
                                          .fits = single_fits,
                                          .blocks = YK__BLOCKS_BOTH,
                                          .reduce = grads_to_host,
                                          .publish = publish_offloaded};

const yk__way yk__way_offloaded_sole = {.name = "offloaded, sole", .fits = sole_fits, .blocks = YK__BLOCKS_BOTH, .reduce = grads_to_host};

const yk__way yk__way_offloaded = {.name = "offloaded", .fits = offloaded_fits, .blocks = YK__BLOCKS_BOTH, .publish = publish_offloaded};
