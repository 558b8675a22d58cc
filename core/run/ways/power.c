/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row of the table of ways (core/run/way.h) for PowerSGD, in front of other rows: members add up factors (powersgd.h), on the host. The
 * row has only the columns `reduce` and `norm`; the rows behind it in choose.c give the rest.
 *
 * The step thread of every member calls `reduce` once for each accumulation window (core/run/window_reduce.c), not for each micro batch.
 */
#include "core/run/ways/powersgd.h"
#include "core/run/ways/ways.h"

/* Brings all buckets to the host, sums the factors of the whole block at once, and takes this rank's slices to its device. The block then
 * holds sums from end to end, on a member of an island too, so no bucket is only a part (is_part). */
static yk_status reduce_block(yk__params *p, yk_error *err)
{
    for (uint32_t i = 0; i < p->n_bucket; i++)
        if (yk__grads_to_host(p, &p->bucket[i], err))
            return err->status;
    if (yk__power_reduce(p, err))
        return err->status;
    for (uint32_t i = 0; i < p->n_bucket; i++) {
        p->bucket[i].is_part = false;
        if (yk__sums_to_device(p, &p->bucket[i], err))
            return err->status;
    }
    return YK_OK;
}

static bool power_fits(const yk__params *p)
{
    return p->power_rank;
}

const yk__way yk__way_power = {.name = "PowerSGD", .fits = power_fits, .reduce = reduce_block, .norm = yk__way_norm_exact};
