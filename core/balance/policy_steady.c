/* SPDX-License-Identifier: Apache-2.0 */
/* The windows between trials: detection of deviations, and retries of excluded ranks. */
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

/* Cost of a window with the rank, from the trial that excluded it. */
static double retry_harm(const yk__policy *p, uint32_t r)
{
    return fmax(p->harm[r], 0.1 * p->usual);
}

/* True if the lines speak for an excluded rank: a disturbance of its trial may have excluded it. */
static bool lines_promise(const yk__policy *p, uint32_t rank)
{
    const double with = yk__flip_predict(p, rank);
    return with > 0 && yk__gain_counts(p, rank, yk__fit_window(p->fit, p->member, p->share) / with - 1);
}

static double retry_price(const yk__policy *p, uint32_t rank, bool promising)
{
    if (promising)
        return fmax(p->trial.compare.length * retry_harm(p, rank) + p->compiling, p->price[rank]);
    return p->retry_cost > 0 ? p->retry_cost : LOOK * yk__fit_run(p->fit, rank, 1) + p->compiling;
}

/* An excluded rank may be tried again when all tries together cost little of the elapsed time. */
static bool retry_due(yk__policy *p, bool *promising)
{
    for (uint32_t i = 1; i <= p->ranks; i++) {
        const uint32_t r = (p->retried + i) % p->ranks;
        if (!p->excluded[r] || p->member[r])
            continue;
        *promising = lines_promise(p, r);
        if (p->spent + retry_price(p, r, *promising) > RETRY_PART * p->elapsed)
            return false;
        p->retried = r;
        return true;
    }
    return false;
}

static void retry_begin(yk__policy *p)
{
    bool member[YK__RANKS];
    uint64_t share[YK__RANKS];
    double owns[YK__RANKS];
    uint32_t largest = 0;
    memcpy(member, p->member, sizeof member);
    memcpy(share, p->share, sizeof share);
    for (uint32_t r = 1; r < p->ranks; r++)
        largest = share[r] > share[largest] ? r : largest;
    if (share[largest] < 2)
        return;
    share[largest]--;
    share[p->retried]++;
    member[p->retried] = true;
    yk__excursion_begin(p, p->retried, true);
    yk__phase_begin(p, RETRY);
    yk__fit_parts(p->fit, p->member, owns); /* a rank that is only tried again owns nothing */
    yk__roles_set(p, member, owns);
    yk__shares_set(p, share);
    p->retry_cost = 0;
}

/* A record of each rank is one window of ten: five of them make a look. */
static void steady_samples(yk__policy *p, bool *off)
{
    bool whole = true;
    for (uint32_t r = 0; r < p->ranks; r++) {
        const yk__times *s = &p->busy[r];
        if (!p->member[r] || !p->share[r])
            continue;
        whole = whole && s->n >= 5;
        *off = *off || (s->n && yk__rank_off(p, r, s->seconds[s->n - 1]));
    }
    if (!whole)
        return;
    yk__records_add(p);
    yk__shares_follow(p, TRUST);
}

/* True if the device's speed calls for a trial. It is due at once if the device is clearly faster than at its last trial for that.
 * Otherwise it is due if it costs little of the elapsed time. */
static bool return_due(const yk__policy *p, uint32_t r, double faster)
{
    const bool news = faster > YK__FASTER * fmax(p->followed[r], 1);
    return p->excluded[r] && !p->member[r] && faster > YK__FASTER &&
           (news || p->spent + p->price[r] < RETRY_PART * p->elapsed);
}

/* Restores the line of a rank that is `faster`: the one of its last settled shares, else its current one, scaled. If the last exclusion
 * was from the same set with it, the remaining ranks' lines return as well. Since then they only had more rows, which says nothing about
 * fewer. */
static void lines_restore(yk__policy *p, uint32_t rank, double faster)
{
    const yk__settled *s = &p->before;
    bool same = true;
    for (uint32_t r = 0; r < p->ranks; r++)
        same = same && (s->share[r] > 0) == (r == rank || p->member[r]);
    for (uint32_t r = 0; r < p->ranks; r++)
        if (same && s->share[r])
            p->fit->rank[r].line = s->line[r];
    if (!same && p->settled.line[rank].records)
        p->fit->rank[rank].line = p->settled.line[rank];
    else if (!same)
        yk__fit_renew(p->fit, rank, 1, yk__fit_run(p->fit, rank, 1) / faster);
}

/* Begins a trial with the share that the rank had before it was slow. */
static bool return_begin(yk__policy *p, const yk__report *report)
{
    for (uint32_t r = 0; r < p->ranks; r++) {
        if (!return_due(p, r, report[r].faster))
            continue;
        p->followed[r] = report[r].faster;
        lines_restore(p, r, report[r].faster);
        if (!yk__trial_begin(p, r))
            return false;
        yk__excursion_begin(p, r, true);
        return true;
    }
    return false;
}

void yk__steady_look(yk__policy *p, const yk__report *report, bool clean, double wall)
{
    bool off = false, promising;
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
    if (p->phase == STEADY && p->usual_n >= 2 && return_begin(p, report))
        return;
    if (p->phase == STEADY && p->usual_n >= 2 && timed && retry_due(p, &promising)) {
        if (!promising)
            retry_begin(p);
        else if (yk__trial_begin(p, p->retried))
            yk__excursion_begin(p, p->retried, true);
    }
    if (p->phase == STEADY && p->usual_n >= 2 && timed && yk__trial_next(p))
        yk__excursion_begin(p, p->trial.rank, false);
}

/* ---- Retrying ---------------------------------------------------------------------------------------------------- */

/* The rank is a member until its shares are settled and its trial is over. */
static void retry_trial(yk__policy *p, uint32_t rank)
{
    p->disturbs[rank] = 0;
    p->tried[rank] = false;
    yk__settle_begin(p);
    yk__roles_set(p, p->member, NULL);
}

static void retry_end(yk__policy *p)
{
    const uint32_t r = p->retried;
    const double seen = yk__fit_run(p->fit, r, p->share[r]), now = yk__times_least(&p->busy[r]);
    bool member[YK__RANKS];
    uint64_t share[YK__RANKS];
    if (p->retry_cost < p->usual) /* not more often than every 1 / RETRY_PART windows */
        p->spent += p->usual - p->retry_cost;
    p->retry_cost = fmax(p->retry_cost, p->usual);
    memcpy(member, p->member, sizeof member);
    if (now > 0 && now * COSTLY < seen) {
        yk__fit_renew(p->fit, r, p->share[r], now);
        if (yk__fit_shares(p->fit, member, NULL, 0, share) && yk__fit_longest(p->fit, share) * YK__WORTH < p->usual) {
            yk__shares_set(p, share);
            retry_trial(p, r);
            return;
        }
    }
    member[r] = false;
    if (yk__fit_shares(p->fit, member, NULL, 0, share)) {
        yk__shares_set(p, share);
        p->away.usual = 0; /* without a trial there is no price to record */
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
    p->retry_cost += fmax(longest - p->usual, 0) + compiling;
    if (p->busy[p->retried].n >= 2 || p->in_phase >= 8)
        retry_end(p);
}
