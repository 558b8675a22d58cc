/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that all ranks have the same parameters, by hashes of the values that their devices read.
 *
 * window.c (core/job/loop) calls yk__job_compare every hash_every steps, and a program calls yk_param_hash, on all ranks, in the step
 * thread. A difference is an error on all ranks. save.c and weights.c first let excluded ranks catch up.
 */
#include "core/job/checkpoint/job_hash.h"

#include <stdio.h>

#include "core/job/param.h"
#include "core/job/team/local_sgd.h"

bool yk__job_catch_up(yk_job *job)
{
    yk_error err = YK_ERROR_INIT;
    if (yk_ok(job) && yk__params_ready(job) && yk__local_sgd_average(job, false) && yk__engine_catch_up(job->engine, &err))
        yk__job_fail(job, &err);
    return yk_ok(job);
}

/* Compares with rank 0's hash, or the first member's. */
static bool compare_hashes(yk_job *job, const yk__hashes *all, bool by_all)
{
    uint32_t first = 0;
    char text[256];
    size_t n = 0;
    while (!by_all && !yk__group_member(job->team.group, first))
        first++;
    for (uint32_t r = 0; r < job->team.world && n + 64 < sizeof text; r++)
        if ((by_all || yk__group_member(job->team.group, r)) && !yk__hashes_agree(&all[r], &all[first]))
            n += (size_t)snprintf(text + n, sizeof text - n, "%srank %u (%.32s)", n ? ", " : "", r, job->team.name[r]);
    if (n)
        yk__job_failf(job, YK_E_INTERNAL, "the parameters of %s differ from those of rank %u (%.32s) after step %llu", text, first,
                      job->team.name[first], (unsigned long long)yk_steps(job->opt));
    return n == 0;
}

/* Hashes a part of the parameters, and compares the hashes of all ranks, or of the members. All ranks call it; an excluded rank hashes
 * nothing, and only gets the members' hashes. */
static bool hash_part(yk_job *job, bool by_all, yk__span part, uint64_t *hash)
{
    yk_error err = YK_ERROR_INIT;
    yk__hashes own = {0}, *all = yk__calloc(job->team.world, sizeof *all);
    const bool reads = by_all || yk__group_member(job->team.group, job->team.rank);
    bool same = false;
    if (!all)
        yk__fail_mem(&err, job->team.world * sizeof *all, "the parameters' hash");
    else if (by_all && !yk__job_catch_up(job))
        yk__job_why(job, &err);
    if (!err.status && reads)
        yk__engine_hashes(job->engine, part, &own, &err);
    if (!err.status && by_all)
        yk__group_all_gather(job->team.group, &own, sizeof own, all, &err);
    else if (!err.status)
        yk__group_gather_members(job->team.group, &own, sizeof own, all, &err);
    if (err.status)
        yk__job_fail(job, &err);
    else
        same = compare_hashes(job, all, by_all);
    yk__free(all);
    *hash = own.values;
    return same;
}

void yk__job_compare(yk_job *job, uint64_t turn)
{
    uint32_t members = 0;
    uint64_t hash;
    for (uint32_t r = 0; r < job->team.world; r++)
        members += yk__group_member(job->team.group, r);
    if (members > 1)
        hash_part(job, false, yk__engine_hash_part(job->engine, turn), &hash);
}

uint64_t yk_param_hash(yk_job *job)
{
    YK__ACT_HERE(YK__ACT_CALL);
    uint64_t hash = 0;
    return yk_ok(job) && yk__params_ready(job) && hash_part(job, true, YK__SPAN_ALL, &hash) ? hash : 0;
}
