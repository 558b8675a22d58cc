/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This rank's rows of a batch: the first row and the count, by fixed shares or by the policy's. Also counts each rank's rows over all
 * batches.
 *
 * data.c, row_padding.c and sampler.c (core/job/loop) ask for each batch. A loader's thread asks ahead, so `share` is under a lock. A
 * program without a loader asks by yk_split, and yk_share tells a rank's part of all rows.
 */
#include "core/job/team/share.h"

static void fixed_part(const yk_job *job, int64_t n, int64_t *first, int64_t *count)
{
    uint64_t before, rows;
    yk__fixed_part(&job->team.share->fixed, (uint64_t)n, job->team.rank, &before, &rows);
    *first = (int64_t)before;
    *count = (int64_t)rows;
}

static yk__cut cut_of(const yk_job *job, int64_t usual, int64_t n)
{
    const yk__share *s = job->team.share;
    yk__cut cut = {.seat = s->seat, .share = s->share, .of = s->n, .ranks = job->team.world};
    yk__cut_begin(&cut, (uint64_t)usual, (uint64_t)n);
    return cut;
}

void yk__share_part(const yk_job *job, int64_t usual, int64_t n, int64_t *first, int64_t *count)
{
    yk__share *s = job->team.share;
    *first = 0;
    *count = n;
    if (job->team.world == 1)
        return;
    if (s->fixed.is_fixed) {
        fixed_part(job, n, first, count);
        return;
    }
    pthread_mutex_lock(&s->lock);
    if (s->n) {
        yk__cut cut = cut_of(job, usual, n);
        for (uint32_t r = 0; r < job->team.rank; r++)
            *first += (int64_t)yk__cut_next(&cut, r);
        *count = (int64_t)yk__cut_next(&cut, job->team.rank);
    } else {
        *first = n * job->team.rank / job->team.world;
        *count = n * (job->team.rank + 1) / job->team.world - *first;
    }
    pthread_mutex_unlock(&s->lock);
}

void yk__share_count(yk_job *job, int64_t usual, int64_t n)
{
    yk__share *s = job->team.share;
    if (job->team.world > 1 && s->fixed.is_fixed)
        yk__fixed_count(&s->fixed, (uint64_t)n, s->total);
    if (job->team.world == 1 || !s->n)
        return;
    yk__cut cut = cut_of(job, usual, n);
    for (uint32_t r = 0; r < job->team.world; r++)
        s->total[r] += yk__cut_next(&cut, r);
}

bool yk__share_settled(const yk_job *job)
{
    const yk__share *s = job->team.share;
    return job->team.world == 1 || s->fixed.is_fixed || (s->policy && !s->waiting.on && yk__policy_decision(s->policy)->settled);
}

void yk_split(yk_job *job, uint64_t n, uint64_t *first, uint64_t *count)
{
    bool changed;
    int64_t begin = 0, part = 0;
    *first = *count = 0;
    if (yk_ok(job) && n > INT32_MAX)
        yk__job_failf(job, YK_E_ARG, "yk_split of %llu rows: expected a global micro batch of at most 2^31 - 1", (unsigned long long)n);
    if (!yk_ok(job) || !yk__share_update(job, (int64_t)n, &changed))
        return;
    yk__share_part(job, (int64_t)n, (int64_t)n, &begin, &part);
    yk__share_count(job, (int64_t)n, (int64_t)n);
    *first = (uint64_t)begin;
    *count = (uint64_t)part;
}

double yk_share(const yk_job *job, uint32_t rank)
{
    uint64_t all = 0;
    if (!job || rank >= job->team.world)
        return 0.0;
    if (job->team.world == 1 || !job->team.share)
        return 1.0;
    for (uint32_t r = 0; r < job->team.world; r++)
        all += job->team.share->total[r];
    return all ? (double)job->team.share->total[rank] / (double)all : 1.0 / (double)job->team.world;
}
