/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While new shares wait, each micro batch's trace is rewritten to this rank's next rows, and the engine makes its program in a thread. The
 * windows' first and later micro batches, and those whose values the host reads, have programs of their own. flush.c calls it behind each
 * training run, in the step thread. A trace that cannot be rewritten, or a program that cannot be made ahead, does not delay the shares.
 */
#include "core/job/loop/rows_ahead.h"

#include "core/base/log.h"
#include "core/job/team/share.h"
#include "core/job/trace/other_rows.h"

void yk__rows_prepare(yk_job *job, const yk__micro *m)
{
    const uint64_t rows = yk__share_next_rows(job);
    yk__share *s = job->team.share;
    yk__micro next = *m;
    yk__graph trace;
    if (!rows || job->step.global_rows != (int64_t)s->n || (uint64_t)job->step.local_rows != s->share[job->team.rank])
        return;
    s->waiting.seen = true;
    if (yk__engine_prepares(job->engine)) {
        s->waiting.missing = true;
        return;
    }
    yk__graph_init(&trace);
    next.trace = &trace;
    next.rows = rows;
    if (!yk__trace_with_rows(job, (int64_t)rows, &trace))
        yk__log(YK_LOG_DEBUG, "job", "the program of %llu rows is made when its batch comes: not all axes of rows are known in the trace",
                (unsigned long long)rows);
    else if (yk__engine_prepare(job->engine, &next, yk__share_next_members(job)) == YK__PREPARING)
        s->waiting.missing = true;
    yk__graph_free(&trace);
}
