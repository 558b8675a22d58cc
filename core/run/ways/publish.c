/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns `publish` and `gather` that several ways share (core/run/way.h): updated parameters through the block for exchanges. This rank's
 * slices go there from its device, and the other ranks' slices come from there.
 *
 * Rows for shared memory, messages, islands and offload use them, in the step thread, after an update. A device that reads its parameters
 * in that block copies nothing.
 */
#include "core/run/ways/ways.h"

void yk__update_note(yk__updater *u)
{
    u->update_seconds = yk__clock_seconds() - u->started;
    u->update_elements = 0;
    for (uint32_t i = 0; i < u->params->n_bucket; i++)
        u->update_elements += u->params->bucket[i].end - u->params->bucket[i].begin;
}

/* Copies the slices of each owner in the island to the other members' devices. All members do it right after their update, before any other
 * exchange. A member that did it later, after messages have brought other slices, might wait for a rank whose device waits for this
 * one's. */
static yk_status spread_island(yk__params *p, const yk__bucket *b, yk_error *err)
{
    for (uint32_t r = 0; r < p->exchange->world && yk__island_spreads(&p->island); r++) {
        const uint64_t from = b->layout.slice.begin[r], n = b->layout.slice.begin[r + 1] - from;
        const uint32_t place = yk__island_place(&p->island, r);
        const yk__bound at = yk__params_bind(b, (yk__range){from, from + n}, p->queue->last_point);
        if (place != UINT32_MAX && yk__island_broadcast(&p->island, at, n, place, (uint32_t)(b - p->bucket), err))
            return err->status;
    }
    return YK_OK;
}

yk_status yk__values_spread(yk__params *p, yk_error *err)
{
    for (uint32_t i = p->n_bucket; i-- > 0 && !p->slices;) /* no device has another's slices */
        if (spread_island(p, &p->bucket[i], err))
            return err->status;
    return YK_OK;
}

/* The owner's slice comes to this device without the host. */
static bool is_spread(const yk__params *p, const yk__bucket *b, uint32_t owner)
{
    if (owner == p->exchange->rank)
        return !yk__bucket_offloads(p, b);
    return yk__island_spreads(&p->island) && !p->slices && yk__island_place(&p->island, owner) != UINT32_MAX;
}

/* Copies the other ranks' updates to a device's own copy; adjacent slices go at once. */
yk_status yk__values_take(yk__params *p, const yk__bucket *b, yk_error *err)
{
    uint64_t from = 0;
    for (uint32_t r = 0; r < p->exchange->world && !b->home->in_block; r++) {
        if (!is_spread(p, b, r))
            continue;
        if (yk__params_put_shared(p, b, (yk__range){from, b->layout.slice.begin[r]}, err))
            return err->status;
        from = b->layout.slice.begin[r + 1];
    }
    return yk__params_put_shared(p, b, (yk__range){from, b->layout.n}, err);
}

/* Elements that other ranks, or the host, update and that this device's own copies take. */
static uint64_t count_taken(const yk__params *p)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->n_bucket; i++) {
        const yk__bucket *b = &p->bucket[i];
        const yk__range held = yk__params_held(b);
        const uint64_t own = yk__bucket_offloads(p, b) ? 0 : b->end - b->begin;
        n += b->home->in_block ? 0 : held.to - held.from - own;
    }
    return n;
}

/* Messages and transfers go on after it returns; if they are timed, it waits for them. */
yk_status yk__values_take_others(yk__updater *u, yk_error *err)
{
    const uint64_t n = count_taken(u->params);
    double begin;
    if (yk__exchange_all_written(u->params->exchange, err))
        return err->status;
    begin = yk__clock_seconds();
    if (u->params->way.gather(u->params, err) || !n || !u->measure || yk__params_settle(u->params, err) ||
        yk__queue_idle(u->exec->queue, err))
        return err->status;
    u->copy_seconds = yk__clock_seconds() - begin;
    u->copy_elements = n;
    return YK_OK;
}

yk_status yk__way_publish_through(yk__updater *u, yk_error *err)
{
    yk__copies_changed(u->params);
    u->params->values = YK__VALUES_PUBLISHED;
    if (yk__params_publish(u->params, err))
        return err->status;
    yk__update_note(u);
    return yk__values_take_others(u, err);
}

yk_status yk__way_publishes_nothing(yk__updater *u, yk_error *err)
{
    (void)err;
    yk__copies_changed(u->params);
    return YK_OK;
}
