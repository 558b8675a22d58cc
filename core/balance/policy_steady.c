/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The phases steady and retry. In steady, one window of EVERY is timed; longer windows or a slower rank raise an alert, which leads back to
 * settle. In retry, an excluded rank gets a row for some windows, and its time is compared with its line.
 *
 * yk__policy_look (policy.c) hands each window's reports to these phases. Trials that are due begin here, within the budgets of
 * trial_schedule.c. They run in the step thread, and are pure: all ranks decide alike.
 */
#include <math.h>
#include <string.h>

#include "core/balance/policy_inner.h"

/* ---- Steady ------------------------------------------------------------------------------------------------------ */

/* Settles again if the deviation is confirmed. If windows remain longer than before, and the lines do not explain it, every rank gets a
 * trial (settle_end). */
static void steady_alert(yk__policy *p)
{
    if (p->windows < p->alert_after)
        return;
    p->alert_after = p->windows + EVERY;
    p->before_alert = p->usual;
    yk__doubt_begin(p);
}

/* Gives the rank one row, or one quantum of rows. */
static void retry_begin(yk__policy *p)
{
    bool *member = p->work.member;
    uint64_t *share = p->work.share;
    double *owns = p->work.owns;
    uint32_t largest = 0;
    memcpy(member, p->now.member, p->ranks * sizeof *member);
    memcpy(share, p->now.share, p->ranks * sizeof *share);
    for (uint32_t r = 1; r < p->ranks; r++)
        largest = share[r] > share[largest] ? r : largest;
    if (share[largest] < 2)
        return;
    share[largest]--;
    share[p->schedule->retried]++;
    yk__fit_whole(p->fit, share);
    member[p->schedule->retried] = true;
    yk__excursion_begin(p->schedule, p->schedule->retried, YK__OF_EXCLUDED, p->usual);
    yk__phase_begin(p, RETRY);
    yk__fit_parts(p->fit, p->now.member, owns); /* a rank that is only tried again owns nothing */
    yk__roles_set(p, member, owns);
    yk__shares_set(p, share);
    p->schedule->rank[p->schedule->retried].retry_cost = 0;
}

/* A record of each rank is one window of ten: five of them make a look. */
static void steady_samples(yk__policy *p, bool *off)
{
    bool whole = true;
    for (uint32_t r = 0; r < p->ranks; r++) {
        const yk__times *s = &p->rank[r].busy;
        if (!p->now.member[r] || !p->now.share[r])
            continue;
        whole = whole && s->n >= 5;
        *off = *off || (s->n && yk__rank_off(p, r, s->seconds[s->n - 1]));
    }
    if (!whole)
        return;
    yk__records_add(p);
    yk__shares_follow(p, TRUST);
}

/* Restores the line of a rank that is `faster`: the one of its last settled shares, else its current one, scaled. If the last exclusion
 * was from the same set with it, the remaining ranks' lines return as well. Since then they only had more rows, which says nothing about
 * fewer. */
static void lines_restore(yk__policy *p, uint32_t rank, double faster)
{
    const yk__line *own = &p->rank[rank].settled.line;
    bool same = true;
    for (uint32_t r = 0; r < p->ranks; r++)
        same = same && (p->rank[r].before.share > 0) == (r == rank || p->now.member[r]);
    for (uint32_t r = 0; r < p->ranks; r++)
        if (same && p->rank[r].before.share)
            p->fit->rank[r].line = p->rank[r].before.line;
    if (!same && own->records)
        p->fit->rank[rank].line = *own;
    else if (!same)
        yk__fit_renew(p->fit, rank, 1, yk__fit_run(p->fit, rank, 1) / faster);
}

/* Begins a trial with the share that the rank had before it was slow. */
static bool return_begin(yk__policy *p, const yk__report *report)
{
    for (uint32_t r = 0; r < p->ranks; r++) {
        if (!yk__schedule_return(p->schedule, &p->now, r, report[r].faster))
            continue;
        p->schedule->rank[r].followed = report[r].faster;
        lines_restore(p, r, report[r].faster);
        if (!yk__trial_begin(p, r))
            return false;
        yk__excursion_begin(p->schedule, r, YK__OF_EXCLUDED, p->usual);
        return true;
    }
    return false;
}

/* Begins a trial that is due: of an excluded rank, else of any. */
static void steady_try(yk__policy *p)
{
    const yk__try again = yk__schedule_retry(p->schedule, &p->now, p->usual, p->trial.compare.length);
    if (again.rank < p->ranks && again.one_row)
        retry_begin(p);
    else if (again.rank < p->ranks && yk__trial_begin(p, again.rank))
        yk__excursion_begin(p->schedule, again.rank, YK__OF_EXCLUDED, p->usual);
    if (p->phase == STEADY && yk__trial_next(p))
        yk__excursion_begin(p->schedule, p->trial.rank, YK__OF_MEMBERS, p->usual);
}

void yk__steady_look(yk__policy *p, const yk__report *report, bool clean, double wall)
{
    bool off = false;
    const bool timed = p->in_phase % EVERY == 0;
    if (timed)
        steady_samples(p, &off);
    if (clean && p->usual_n < 2) {
        p->usual = p->usual_n++ ? (p->usual + wall) / 2 : wall;
    } else if (clean) {
        off = off || wall > ALERT * p->usual;
        p->usual = off ? p->usual : 0.9 * p->usual + 0.1 * wall;
    }
    if (off)
        steady_alert(p);
    else if (p->pause && p->windows > p->alert_after + p->pause)
        p->pause = 0;
    if (p->phase == STEADY && p->usual_n >= 2 && !return_begin(p, report) && p->phase == STEADY && timed)
        steady_try(p);
}

/* ---- Retrying ---------------------------------------------------------------------------------------------------- */

/* The rank is a member until its shares are settled and its trial is over. */
static void retry_trial(yk__policy *p, uint32_t rank)
{
    p->schedule->rank[rank].disturbs = 0;
    p->schedule->rank[rank].tried = false;
    yk__settle_begin(p);
    yk__roles_set(p, p->now.member, NULL);
}

static void retry_end(yk__policy *p)
{
    const uint32_t r = p->schedule->retried;
    const double seen = yk__fit_run(p->fit, r, p->now.share[r]), now = yk__times_least(&p->rank[r].busy);
    bool *member = p->work.member;
    uint64_t *share = p->work.share;
    double *cost = &p->schedule->rank[r].retry_cost;
    if (*cost < p->usual) /* not more often than every 1 / RETRY_PART windows */
        yk__budget_charge(p->schedule, r, YK__OF_EXCLUDED, p->usual - *cost);
    *cost = fmax(*cost, p->usual);
    memcpy(member, p->now.member, p->ranks * sizeof *member);
    if (now > 0 && now * YK__COSTLY < seen) {
        yk__fit_renew(p->fit, r, p->now.share[r], now);
        if (yk__fit_shares(p->fit, member, NULL, 0, share) && yk__fit_longest(p->fit, share) * YK__WORTH < p->usual) {
            yk__shares_set(p, share);
            retry_trial(p, r);
            return;
        }
    }
    member[r] = false;
    if (yk__fit_shares(p->fit, member, NULL, 0, share)) {
        yk__shares_set(p, share);
        p->schedule->away.usual = 0; /* without a trial there is no price to record */
        yk__phase_begin(p, STEADY);
        yk__roles_set(p, member, NULL);
        p->usual_n = 0;
    }
}

void yk__retry_look(yk__policy *p, const yk__report *report)
{
    double longest = 0, compiling = 0;
    for (uint32_t r = 0; r < p->ranks; r++) {
        longest = fmax(longest, report[r].wall);
        compiling = fmax(compiling, report[r].compiling);
    }
    p->schedule->rank[p->schedule->retried].retry_cost += fmax(longest - p->usual, 0) + compiling;
    if (p->rank[p->schedule->retried].busy.n >= 2 || p->in_phase >= 8)
        retry_end(p);
}
