/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a job: this rank's number, the ranks' names, and the split of rows and slices. */
#ifndef YOKE_CORE_JOB_TEAM_H
#define YOKE_CORE_JOB_TEAM_H

#include "core/balance/fixed.h"

typedef struct yk__team {
    yk__group *group;
    uint32_t rank, world;
    uint32_t cards;          /* ranks whose devices have memory of their own */
    char (*name)[96];        /* device spec by rank */
    uint32_t *product_bits;  /* by rank: yk__product_bits of its device */
    struct yk__share *share; /* share.h */
    yk__fixed parts;         /* of slices, yk_config.shard_parts; not fixed: by speed, and what fits */
} yk__team;

#endif
