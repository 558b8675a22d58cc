/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The row of the table of ways (core/run/way.h) for ranks that have memory in common. Each rank has a block of gradients there; the owner
 * of a slice adds it up from the blocks of all ranks. Owners write updated parameters to one common block. Devices whose parameters lie in
 * that block read them there; other devices copy the slices of other ranks. The update (core/run/update.c) calls its columns in the step
 * thread, on all members.
 *
 * The next update overwrites the common block, while a slow rank's device might still copy from it. The next update's norm prevents that.
 * Each rank waits for its device before the ranks add their norms (yk__way_norm_exact), and no rank writes before every rank has added.
 */
#include "core/run/ways/ways.h"

static bool memory_fits(const yk__params *p)
{
    return p->exchange->medium == YK__MEMORY;
}

/* Every owner has written its slices before. The ranks of an island first copy slices between their devices (spread). Each
 * device then takes the remaining slices from the common block. The transfers to the device go on when it returns. */
static yk_status gather_shared(yk__params *p, yk_error *err)
{
    if (yk__values_spread(p, err))
        return err->status;
    for (uint32_t i = 0; i < p->n_bucket; i++)
        if (yk__values_take(p, &p->bucket[i], err))
            return err->status;
    return YK_OK;
}

/* No message brings the values. The queue runs later programs behind the transfers that gather_shared has begun. */
yk_status yk__way_awaits_nothing(yk__params *p, uint32_t bucket, yk_error *err)
{
    (void)p;
    (void)bucket;
    (void)err;
    return YK_OK;
}

/* publish: this rank's slices go to the common block, and gather follows. read: from this rank's device, which has every slice. */
const yk__way yk__way_shared = {.name = "shared",
                                .fits = memory_fits,
                                .blocks = YK__BLOCKS_BOTH,
                                .reduce = yk__way_reduce_buckets,
                                .norm = yk__way_norm_exact,
                                .publish = yk__way_publish_through,
                                .gather = gather_shared,
                                .await = yk__way_awaits_nothing,
                                .read = yk__params_read_device};
