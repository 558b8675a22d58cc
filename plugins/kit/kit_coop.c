/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses a device's cooperative matrices, small matrices that a subgroup of work-items multiplies at once, and divides a product's tile
 * among subgroups.
 *
 * vk_coop.c chooses a size from the driver's list when it opens a device. lower/lower_dot.c asks for it in each product of 16 bits. Pure;
 * any thread.
 */
#include "plugins/kit/kit_coop.h"

#include <stdio.h>

/* A row or column of 4 numbers of 16 bits at least: fewer are no whole 8 bytes, to which loads are aligned. */
static bool size_fits(const kit_coop *s)
{
    return s->rows >= 4 && s->cols >= 4 && s->terms >= 4 && KIT_COOP_TILE % s->rows == 0 && KIT_COOP_TILE % s->cols == 0 &&
           KIT_COOP_TERMS % s->terms == 0;
}

/* Chooses the squarest even division, as a subgroup loads its rows and its columns for each term. */
bool kit_coop_shared(const kit_coop *size, uint32_t lanes, kit_coop_share *share)
{
    *share = (kit_coop_share){0};
    if (!size_fits(size) || !lanes || KIT_COOP_TEAM % lanes)
        return false;
    const uint32_t teams = KIT_COOP_TEAM / lanes, rows = KIT_COOP_TILE / size->rows, cols = KIT_COOP_TILE / size->cols;
    uint32_t least = UINT32_MAX;
    for (uint32_t down = 1; down <= teams; down++) {
        const uint32_t across = teams / down;
        if (teams % down || rows % down || cols % across)
            continue;
        const uint32_t loads = KIT_COOP_TILE / down + KIT_COOP_TILE / across;
        if (loads < least) {
            least = loads;
            *share = (kit_coop_share){down, across, rows / down, cols / across};
        }
    }
    return least != UINT32_MAX;
}

static uint32_t size_volume(const kit_coop *s)
{
    return s->rows * s->cols * s->terms;
}

kit_coop kit_coop_choose(const kit_coop *size, size_t n, uint32_t lanes, char why[KIT_COOP_WHY])
{
    kit_coop best = {0};
    kit_coop_share share;
    for (size_t i = 0; i < n; i++)
        if (kit_coop_shared(&size[i], lanes, &share) && size_volume(&size[i]) > size_volume(&best))
            best = size[i];
    if (best.rows || !n)
        snprintf(why, KIT_COOP_WHY, best.rows ? "" : "it lists none of subgroups with sums in fp32");
    else
        snprintf(why, KIT_COOP_WHY, "%zu listed, the first %ux%ux%u: no tile of %ux%u by subgroups of %u", n, size->rows, size->cols,
                 size->terms, KIT_COOP_TILE, KIT_COOP_TILE, lanes);
    return best;
}

const kit_coop *kit_coop_of(const kit_target *target, uint32_t dtype)
{
    const kit_coop *own = &target->coop[dtype == YK_BF16 ? KIT_COOP_BF16 : KIT_COOP_F16];
    const bool fits = !target->cpu_shape && (dtype == YK_BF16 || dtype == YK_F16);
    return fits && own->rows ? own : NULL;
}
