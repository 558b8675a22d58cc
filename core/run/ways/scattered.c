/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the table of ways (core/run/way.h) for gradients in slices (`--shard gradients`), in front of other rows. The sums were made in
 * backward (values/slice_sums.h), and the update finds them.
 *
 * choose.c picks a row, and the update (core/run/update.c) calls `reduce` in the step thread, once a window. The rows have that column, and
 * the one for several ranks says the blocks; rows behind them give the rest.
 */
#include "core/run/ways/ways.h"

static bool scattered_fits(const yk__params *p)
{
    return p->scatters;
}

/* The only rank of a job that offloads: its sums came to the host. Programs of the devices that update take their norm. */
static bool single_fits(const yk__params *p)
{
    return p->scatters && yk__exchange_updates_all(p->exchange);
}

const yk__way yk__way_scattered_single = {.name = "scattered, alone", .fits = single_fits, .reduce = yk__sums_to_devices};

const yk__way yk__way_scattered = {
    .name = "scattered", .fits = scattered_fits, .blocks = YK__BLOCKS_BOTH, .reduce = yk__sums_finish};
