/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients in slices in front of another way: the sums were made in backward (values/sums.h), and the update finds them. */
#include "core/run/ways/ways.h"

static bool scattered_fits(const yk__params *p)
{
    return p->scatters;
}

const yk__way yk__way_scattered = {
    .name = "scattered", .fits = scattered_fits, .blocks = YK__BLOCKS_BOTH, .reduce = yk__sums_finish};
