/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cooperative matrices: which of those that a device lists a product uses (kernels/gemm_coop.kc), and how its tile is shared out. Pure
 * functions, no state: any thread.
 */
#ifndef YOKE_PLUGINS_KIT_COOP_H
#define YOKE_PLUGINS_KIT_COOP_H

#include "plugins/kit/program.h"

#define KIT_COOP_TILE 64u  /* rows and columns that a group of .. */
#define KIT_COOP_TEAM 128u /* .. work-items makes, .. */
#define KIT_COOP_TERMS 32u /* .. so many terms at a time */
#define KIT_COOP_WHY 96

/* A tile's matrices: down * across subgroups have rows * cols of them each. */
typedef struct kit_coop_share {
    uint32_t down, across, rows, cols;
} kit_coop_share;

/* Whether a tile can be made of matrices of this size by subgroups of `lanes`, and how; false: *share is zeroed. */
bool kit_coop_shared(const kit_coop *size, uint32_t lanes, kit_coop_share *share);

/*
 * The largest size of n that a tile can be made of, the first one of equals. If none can be, rows 0, and `why` tells what the list has. A
 * size of 0 or one that does not divide the tile is passed over, as a list is a driver's word.
 */
kit_coop kit_coop_choose(const kit_coop *size, size_t n, uint32_t lanes, char why[KIT_COOP_WHY]);

/* What products of operands of this type use on the target; NULL: none. */
const kit_coop *kit_coop_of(const kit_target *target, uint32_t dtype);

#endif
