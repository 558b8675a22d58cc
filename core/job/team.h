/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a job: this rank's number, the ranks' names, and the split of rows. */
#ifndef YOKE_CORE_JOB_TEAM_H
#define YOKE_CORE_JOB_TEAM_H

#include "core/group/group.h"

typedef struct yk__team {
    yk__group *group;
    uint32_t rank, world;
    char (*name)[96];        /* device spec by rank */
    struct yk__share *share; /* share.h */
} yk__team;

#endif
