/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that have memory in common. Each rank adds its slices up from all blocks of gradients. It writes its parameters into the one common
 * block, which processors read as it is. The next update writes the block again, after all ranks have added their norms. Each rank waits
 * for its device before it adds, and so for the transfers that begin here.
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
