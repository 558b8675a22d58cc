/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy's changes of the decision that all ranks apply. Shares are a rank's rows of a micro batch; roles are the members and their
 * parts of the optimizer.
 *
 * The phases (policy_*.c) call it, in the step thread. New shares take effect with the next window. New roles cost a collective, so parts
 * change only if they save more than moving the optimizer's moments costs.
 */
#include <math.h>
#include <string.h>

#include "core/balance/policy_inner.h"

/* ---- Small helpers ----------------------------------------------------------------------------------------------- */

/* True if every member with rows was timed so often. */
bool yk__timed_often(const yk__policy *p, uint32_t times)
{
    for (uint32_t r = 0; r < p->ranks; r++)
        if (p->now.member[r] && p->now.share[r] && p->rank[r].busy.n < times)
            return false;
    return true;
}

bool yk__rank_off(const yk__policy *p, uint32_t rank, double seconds)
{
    return p->now.member[rank] && yk__fit_off(p->fit, rank, p->now.share[rank], seconds);
}

void yk__event_add(yk__policy *p, int kind, uint32_t rank, double with, double without)
{
    if (p->n_event == p->ranks)
        return;
    p->rank[p->n_event].event.kind = kind;
    p->rank[p->n_event].event.rank = rank;
    p->rank[p->n_event].event.with = with;
    p->rank[p->n_event++].event.without = without;
}

/* Sets new shares; the first window with them carries no information. */
bool yk__shares_set(yk__policy *p, const uint64_t *share)
{
    if (!memcmp(p->now.share, share, p->ranks * sizeof *share))
        return false;
    memcpy(p->now.share, share, p->ranks * sizeof *share);
    p->skip = 1;
    yk__looks_clear(p);
    return true;
}

/* ---- Shares ------------------------------------------------------------------------------------------------------ */

/* True if new shares gain enough in the remaining windows to pay for making their programs. */
bool yk__shares_worth(const yk__policy *p, const uint64_t *next)
{
    const double now = yk__fit_longest(p->fit, p->now.share), then = yk__fit_longest(p->fit, next);
    const double horizon = p->left > 0 ? p->left : fmax((double)p->windows, HORIZON);
    for (uint32_t r = 0; r < p->ranks; r++)
        if (p->now.share[r] > yk__fit_cap(p->fit, r))
            return true;
    return now - then > DEAD_BAND * now && (now - then) * horizon > p->schedule->compiling;
}

/* Weighs the whole way to the best shares: for a rank that may only double its one row, a single step is never worth it. */
bool yk__shares_follow(yk__policy *p, double trust)
{
    uint64_t *best = p->work.best, *next = p->work.share;
    return yk__fit_shares(p->fit, p->now.member, NULL, 0, best) && yk__shares_worth(p, best) &&
           yk__fit_shares(p->fit, p->now.member, p->now.share, trust, next) && yk__shares_set(p, next);
}

/* ---- Roles ------------------------------------------------------------------------------------------------------- */

bool yk__roles_improve(yk__policy *p)
{
    double *owns = p->work.owns;
    yk__fit_parts(p->fit, p->now.member, owns);
    if (yk__fit_parts_fixed(p->fit)
            ? !memcmp(owns, p->now.owns, p->ranks * sizeof *owns)
            : yk__fit_update(p->fit, p->now.member, p->now.owns) - yk__fit_update(p->fit, p->now.member, owns) <
                  PARTS_WORTH * yk__fit_longest(p->fit, p->now.share))
        return false;
    memcpy(p->now.owns, owns, p->ranks * sizeof *owns);
    p->now.generation++;
    p->skip = 1;
    yk__looks_clear(p);
    return true;
}

void yk__roles_set(yk__policy *p, const bool *member, const double *owns)
{
    double *best = p->work.best_parts;
    if (!owns)
        yk__fit_parts(p->fit, member, best);
    owns = owns ? owns : best;
    if (!memcmp(member, p->now.member, p->ranks * sizeof *member) && !memcmp(owns, p->now.owns, p->ranks * sizeof *owns))
        return;
    memcpy(p->now.member, member, p->ranks * sizeof *member);
    memcpy(p->now.owns, owns, p->ranks * sizeof *owns);
    p->now.generation++;
}
