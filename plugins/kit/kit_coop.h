/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cooperative matrices: chooses a product's matrix size from a device's list (kernels/gemm_coop.kc), and divides its tile among
 * subgroups. Pure functions, no state: any thread.
 */
#ifndef YOKE_PLUGINS_KIT_KIT_COOP_H
#define YOKE_PLUGINS_KIT_KIT_COOP_H

#include "plugins/kit/kit_program.h"

#define KIT_COOP_TILE 64u  /* rows and columns that a group of .. */
#define KIT_COOP_TEAM 128u /* .. work-items makes, .. */
#define KIT_COOP_TERMS 32u /* .. in steps of so many terms */
#define KIT_COOP_WHY 96

/* A tile's matrices: down * across subgroups have rows * cols of them each. */
typedef struct kit_coop_share {
    uint32_t down, across, rows, cols;
} kit_coop_share;

/* True if subgroups of `lanes` can make a tile of such matrices; *share: the division, or zeros. */
bool kit_coop_shared(const kit_coop *size, uint32_t lanes, kit_coop_share *share);

/*
 * The largest of n sizes that can make a tile, the first of equal ones. If none can, rows is 0 and `why` describes the list. Skips sizes
 * of 0 and sizes that do not divide the tile, as the list comes from a driver.
 */
kit_coop kit_coop_choose(const kit_coop *size, size_t n, uint32_t lanes, char why[KIT_COOP_WHY]);

/* The matrices for products of this operand type on the target; NULL without them. */
const kit_coop *kit_coop_of(const kit_target *target, uint32_t dtype);

#endif
