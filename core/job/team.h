/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of a job: which one this is, what the others are called, and how rows are shared out among them.
 */
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
