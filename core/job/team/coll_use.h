/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks the requests of a function of yoke.h on the user's memory, so that ranks compare the function too (yk__coll_used_by). A sum and a
 * mean, or a maximum and a gather, make equal requests. The outermost of nested functions counts. Thread rule: that of the job.
 */
#ifndef YOKE_CORE_JOB_TEAM_COLL_USE_H
#define YOKE_CORE_JOB_TEAM_COLL_USE_H

#include "core/job/job.h"

typedef struct yk__use_mark {
    yk__coll *coll; /* NULL: an outer function has marked them, or there are no other ranks */
} yk__use_mark;

static inline yk__use_mark yk__use_begun(const yk_job *job, yk__coll_use use)
{
    yk__coll *coll = yk_ok(job) && job->team.world > 1 ? yk__group_coll(job->team.group) : NULL;
    const yk__coll_use outer = coll ? yk__coll_used_by(coll, use) : YK__USE_NONE;
    if (outer)
        yk__coll_used_by(coll, outer);
    return (yk__use_mark){outer ? NULL : coll};
}

static inline void yk__use_ended(const yk__use_mark *mark)
{
    if (mark->coll)
        yk__coll_used_by(mark->coll, YK__USE_NONE);
}

/* From here to the end of the block. */
#define YK__USE_HERE(job, use) const yk__use_mark use_here __attribute__((cleanup(yk__use_ended), unused)) = yk__use_begun(job, use)

#endif
