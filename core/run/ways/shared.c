/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that have memory in common: each adds its slices up from the others' blocks of gradients, and writes them into the one block of
 * parameters, which processors read as it is. The block is written again in the next update, after all ranks have added their norms: each
 * waits for its device before it does, and so for the transfers that begin here.
 */
#include "core/run/ways/ways.h"

static bool memory_fits(const yk__params *p)
{
    return p->exchange->medium == YK__MEMORY;
}

static yk_status gather_shared(yk__params *p, yk_error *err)
{
    if (yk__values_spread(p, err))
        return err->status;
    for (uint32_t i = 0; i < p->n_bucket; i++)
        if (yk__values_take(p, &p->bucket[i], err))
            return err->status;
    return YK_OK;
}

static yk_status await_nothing(yk__params *p, uint32_t bucket, yk_error *err)
{
    (void)p;
    (void)bucket;
    (void)err;
    return YK_OK;
}

const yk__way yk__way_shared = {.name = "shared",
                                .fits = memory_fits,
                                .blocks = YK__BLOCKS_BOTH,
                                .reduce = yk__way_reduce_buckets,
                                .norm = yk__way_norm_exact,
                                .publish = yk__way_publish_through,
                                .gather = gather_shared,
                                .await = await_nothing,
                                .read = yk__params_read_device};
