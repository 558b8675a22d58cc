/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the table of ways (core/run/way.h) for members that are all one island, cards of one host that exchange by NCCL
 * (docs/decisions/0053). Sums are made on the devices, and parameters go from device to device.
 *
 * Also for devices that could form an island: their norm is made as an island makes it, so joining does not change bits (0055). choose.c
 * picks the row; the update (core/run/update.c) calls its columns in the step thread, on all members.
 */
#include "core/run/ways/ways.h"

static bool island_fits(const yk__params *p)
{
    return yk__island_holds_all(&p->island);
}

/* Gradients stay on the devices: each device gets the sums of its slices, in its gradients. */
static yk_status sum_on_devices(yk__params *p, yk_error *err)
{
    for (uint32_t i = 0; i < p->n_bucket; i++) {
        const yk__bucket *b = &p->bucket[i];
        if (yk__island_reduce_slices(&p->island, b->grad, &b->layout.slice, i, b->point, err))
            return err->status;
    }
    return yk__queue_idle_overlapped(p->queue, err);
}

const yk__way yk__way_island = {.name = "island", .fits = island_fits, .reduce = sum_on_devices, .norm = yk__way_norm_on_device};

/* While no rank is excluded no rank takes parameters from the host; over messages other memory holds copies of them. PowerSGD changes
 * gradients on the host, in blocks. */
static bool kept_fits(const yk__params *p)
{
    return !p->power_rank && yk__island_keeps_values(&p->island);
}

/* Spreads the values between devices; the measured time of the update has no transfers to the host. */
static yk_status spread_kept(yk__updater *u, yk_error *err)
{
    yk__params *p = u->params;
    yk__copies_changed(p);
    p->values = YK__VALUES_UNPUBLISHED;
    if (u->measure && yk__queue_idle(p->queue, err))
        return err->status;
    if (u->measure)
        yk__update_note(u);
    return yk__values_spread(p, err);
}

const yk__way yk__way_kept = {.name = "kept by an island", .fits = kept_fits, .blocks = YK__BLOCKS_NONE, .publish = spread_kept};

static bool joinable_fits(const yk__params *p)
{
    return yk__island_could_hold_all(&p->island);
}

const yk__way yk__way_joinable = {.name = "joinable", .fits = joinable_fits, .norm = yk__way_norm_on_device};
