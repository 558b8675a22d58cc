/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row of the table of ways (core/run/way.h) for `--shard params`, in front of other rows. It says the blocks and how to publish: an
 * update leaves the new values in the block for exchanges, host memory from which programs pull buckets. yk__way_publish_through stands in
 * place of the rows behind (an only member's, an island's), as no device keeps another rank's slices.
 *
 * choose.c picks the row in the step thread. An only member publishes too, and an island, cards that exchange by NCCL, passes nothing from
 * device to device.
 */
#include "core/run/ways/ways.h"

static bool sliced_fits(const yk__params *p)
{
    return p->slices;
}

const yk__way yk__way_sliced = {.name = "sliced", .fits = sliced_fits, .blocks = YK__BLOCKS_BOTH, .publish = yk__way_publish_through};
