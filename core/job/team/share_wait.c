/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New shares wait for their programs where a device's compiler is costly (docs/decisions/0095). The policy has decided, and the old shares
 * stay in force. Each such rank makes the program of its new rows in a thread (core/job/loop/rows_ahead.c). Every rank's windows say
 * whether it is ready, and all adopt the decision in the same window.
 *
 * share.c calls these functions between windows, rows_ahead.c (core/job/loop) within them, in the step thread. A rank's rows that were in
 * force before have their program, so they wait for none.
 */
#include "core/job/team/share.h"

/* From here on a compilation takes longer than a window or two of the old shares cost; devices of ours that say an estimate say minutes. */
#define COSTLY_MS 1000

bool yk__share_costly(uint64_t compile_ms)
{
    return compile_ms >= COSTLY_MS;
}

static bool rows_known(const yk__share *s, uint32_t rank, uint64_t rows)
{
    for (uint32_t i = 0; i < YK__SHARES_KNOWN && i < s->n_known; i++)
        if (s->known[i].rank == rank && s->known[i].rows == rows)
            return true;
    return false;
}

void yk__share_known(yk_job *job)
{
    yk__share *s = job->team.share;
    for (uint32_t r = 0; r < job->team.world; r++)
        if (s->costly[r] && !rows_known(s, r, s->share[r]))
            s->known[s->n_known++ % YK__SHARES_KNOWN] = (yk__rows_known){r, s->share[r]};
}

/* Windows in a row that may have short batches alone before a rank no longer waits for its programs. */
#define UNSEEN 2

/* True if that rank is to make a program before the decision is adopted. A program of no row, or of one, is not made ahead. */
static bool rank_awaited(const yk__share *s, uint32_t rank)
{
    const uint64_t rows = yk__policy_decision(s->policy)->share[rank];
    return s->costly[rank] && rows != s->share[rank] && rows > 1 && s->share[rank] > 1 && !rows_known(s, rank, rows);
}

bool yk__share_waits(const yk_job *job)
{
    bool waits = false;
    for (uint32_t r = 0; r < job->team.world; r++)
        waits = waits || rank_awaited(job->team.share, r);
    return waits;
}

bool yk__share_is_waiting(const yk_job *job)
{
    return job->team.share && job->team.share->waiting.on;
}

uint64_t yk__share_next_rows(const yk_job *job)
{
    const yk__share *s = job->team.share;
    if (!yk__share_is_waiting(job) || !rank_awaited(s, job->team.rank))
        return 0;
    return yk__policy_decision(s->policy)->share[job->team.rank];
}

uint32_t yk__share_next_members(const yk_job *job)
{
    const bool *member = yk__policy_decision(job->team.share->policy)->member;
    uint32_t n = 0;
    for (uint32_t r = 0; r < job->team.world; r++)
        n += member[r] || job->config.local_sgd_steps;
    return n;
}

yk_status yk__share_wait(yk_job *job, bool *over, yk_error *err)
{
    yk__waiting *w = &job->team.share->waiting;
    w->unseen = w->seen ? 0 : w->unseen + 1;
    const bool early = w->unseen && w->unseen <= UNSEEN;
    double missing = yk__share_next_rows(job) && (early || w->missing || yk__engine_prepares(job->engine));
    yk__group_sum_members(job->team.group, &missing, 1, err);
    w->windows++;
    w->missing = w->seen = false;
    *over = missing == 0.0;
    w->on = w->on && !*over;
    return err->status;
}
