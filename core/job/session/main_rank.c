/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that one rank does before or for other ranks: the first rank of the job or host (yk_main_first_begin), and lines in rank order
 * (yk_print_in_order). Also a flag that all ranks learn of (yk_set_trigger).
 *
 * The user's program calls it in the step thread; calls that wait for other ranks are made by all of them.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/job/team/coll_use.h"

uint32_t yk_local_rank(const yk_job *job)
{
    uint32_t n = 0;
    for (uint32_t r = 0; job && job->team.group && r < job->team.rank; r++)
        n += yk__group_host(job->team.group, r) == yk__group_host(job->team.group, job->team.rank);
    return n;
}

uint32_t yk_local_world_size(const yk_job *job)
{
    uint32_t n = 0;
    for (uint32_t r = 0; job && job->team.group && r < job->team.world; r++)
        n += yk__group_host(job->team.group, r) == yk__group_host(job->team.group, job->team.rank);
    return n ? n : 1;
}

bool yk_is_local_main(const yk_job *job)
{
    return yk_local_rank(job) == 0;
}

bool yk_is_last(const yk_job *job)
{
    return yk_rank(job) + 1 == yk_world_size(job);
}

static bool comes_first(const yk_job *job, bool local)
{
    return local ? yk_is_local_main(job) : yk_is_main(job);
}

void yk_main_first_begin(yk_job *job, bool local)
{
    YK__USE_HERE(job, YK__USE_MAIN_FIRST);
    if (yk_ok(job) && !comes_first(job, local))
        yk_barrier(job);
}

void yk_main_first_end(yk_job *job, bool local)
{
    YK__USE_HERE(job, YK__USE_MAIN_FIRST);
    if (yk_ok(job) && comes_first(job, local))
        yk_barrier(job);
}

void yk_set_trigger(yk_job *job)
{
    if (job)
        job->trigger = true;
}

bool yk_check_trigger(yk_job *job)
{
    YK__USE_HERE(job, YK__USE_TRIGGER);
    double raised = job && job->trigger;
    if (!yk_ok(job))
        return false;
    yk_all_reduce_sum(job, &raised, 1);
    job->trigger = false;
    return yk_ok(job) && raised > 0.0;
}

void yk_print_in_order(yk_job *job, const char *fmt, ...)
{
    YK__USE_HERE(job, YK__USE_PRINT);
    char line[1024];
    const size_t *size;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    const char *all = yk_gather_object(job, line, strlen(line), &size);
    for (uint32_t r = 0; all && yk_is_main(job) && r < job->team.world; all += size[r++])
        printf("[RANK %u] %.*s%s", r, (int)size[r], all, size[r] && all[size[r] - 1] == '\n' ? "" : "\n");
    fflush(stdout);
}
