/* SPDX-License-Identifier: Apache-2.0 */
/* The first windows, and shares that follow the lines until they stay. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/balance/policy_inner.h"

/* ---- Settling ---------------------------------------------------------------------------------------------------- */

void yk__settle_begin(yk__policy *p)
{
    p->looks = p->calm = 0;
    p->doubted = false;
    yk__phase_begin(p, SETTLE);
}

void yk__doubt_begin(yk__policy *p)
{
    yk__settle_begin(p);
    p->doubted = true;
}

static void settle_end(yk__policy *p)
{
    if (p->before_alert > 0 && yk__times_mean(&p->wall) > COSTLY * p->before_alert)
        yk__trial_round(p);
    p->before_alert = 0;
    if (!yk__trial_next(p))
        yk__steady_begin(p);
}

/* Whether the lines say that the job would be much faster without some rank, however its rows are shared: then nothing else
 * matters first. */
static bool loss_foreseen(const yk__policy *p)
{
    bool member[YK__RANKS];
    uint64_t share[YK__RANKS];
    const uint32_t rank = yk__members_count(p) > 1 ? yk__trial_candidate(p) : p->ranks;
    double with, without;
    if (rank == p->ranks || !yk__members_flip(p, rank, false, member))
        return false;
    without = yk__set_predict(p, member, share);
    with = yk__set_predict(p, p->member, share);
    return without > 0 && without * CLEAR < with && share[rank] <= FEW;
}

bool yk__records_add(yk__policy *p)
{
    bool renewed = false, outlier = false;
    double longest = 0;
    for (uint32_t r = 0; r < p->ranks; r++) {
        const double mean = yk__samples_mean(&p->busy[r]);
        longest = fmax(longest, mean);
        if (p->busy[r].n && p->share[r])
            renewed = yk__balance_record(p->balance, r, p->share[r], mean) || renewed;
        outlier = outlier || yk__balance_off(p->balance, r);
        p->busy[r].n = 0;
    }
    yk__rest_record(p, yk__times_mean(&p->wall), longest);
    if (renewed)
        yk__trial_reweigh(p);
    return outlier;
}

/* Whether the middle one of a look's windows is off, too, of a rank or of the job. A machine that does other things delays single
 * windows all the time; shares that follow those wander, and trials that come of it cost more than what they find. */
static bool alert_holds(const yk__policy *p)
{
    bool off = p->before_alert > 0 && yk__times_median(&p->wall) > ALERT * p->before_alert;
    for (uint32_t r = 0; r < p->ranks; r++)
        off = off || yk__rank_off(p, r, yk__samples_median(&p->busy[r]));
    return off;
}

/* The windows that confirmed it are the second time that it was seen: lines are scaled at once. */
static void lines_renew(yk__policy *p)
{
    bool any = false;
    for (uint32_t r = 0; r < p->ranks; r++)
        if (yk__rank_off(p, r, yk__samples_median(&p->busy[r]))) {
            yk__balance_renew(p->balance, r, p->share[r], yk__samples_mean(&p->busy[r]));
            p->busy[r].n = 0;
            any = true;
        }
    if (any)
        yk__trial_reweigh(p);
}

/* True: it was nothing, and all goes on as before. */
static bool doubt_end(yk__policy *p)
{
    const bool holds = alert_holds(p);
    p->doubted = false;
    if (holds) {
        yk__alert_confirmed(p);
        lines_renew(p);
    } else {
        p->before_alert = 0;
        yk__phase_begin(p, STEADY);
    }
    return !holds;
}

void yk__settle_look(yk__policy *p)
{
    bool off, moved;
    if (!yk__timed_often(p, LOOK) && p->in_phase < 4ull * LOOK)
        return;
    if (p->doubted && doubt_end(p))
        return;
    p->in_phase = 0;
    off = yk__records_add(p);
    p->looks++;
    moved = p->looks < LOOKS && yk__roles_improve(p);
    if (!moved && loss_foreseen(p) && yk__trial_begin(p, yk__trial_candidate(p)))
        return;
    if (yk__shares_follow(p, p->early ? TRUST * TRUST : TRUST) || moved)
        p->calm = 0;
    else
        p->calm++;
    if ((p->calm && !off && p->looks >= SURE) || p->looks >= LOOKS)
        settle_end(p);
    else
        yk__looks_clear(p);
}

/* ---- Probing ----------------------------------------------------------------------------------------------------- */

static void probe_record(yk__policy *p)
{
    for (uint32_t r = 0; r < p->ranks; r++)
        if (p->busy[r].n)
            yk__balance_record(p->balance, r, p->share[r], yk__samples_least(&p->busy[r]));
}

/* Four times the rows for those that began with few and took less for them than the others for all the rest. */
static bool probe_grow(const yk__policy *p, uint64_t *next)
{
    const double longest = yk__balance_longest(p->balance, p->share);
    uint32_t largest = 0;
    bool any = false;
    for (uint32_t r = 1; r < p->ranks; r++)
        largest = p->share[r] > p->share[largest] ? r : largest;
    memcpy(next, p->share, p->ranks * sizeof *next);
    for (uint32_t r = 0; r < p->ranks; r++) {
        const uint64_t more = 3 * p->share[r];
        if (r == largest || !yk__begins_low(p, r) || yk__balance_predict(p->balance, r, p->share[r]) >= longest ||
            next[largest] < 2 * more || p->share[r] + more > yk__cap_of(p, r))
            continue;
        next[r] += more;
        next[largest] -= more;
        any = true;
    }
    return any;
}

/* A rank with few rows keeps the others waiting by far: one window says enough. */
static bool probe_clear(const yk__policy *p)
{
    double few = 0, many = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        if (yk__begins_low(p, r) && p->share[r] <= FEW)
            few = fmax(few, yk__samples_least(&p->busy[r]));
        else
            many = fmax(many, yk__samples_least(&p->busy[r]));
    return few > 4 * many && many > 0;
}

void yk__probe_look(yk__policy *p)
{
    uint64_t next[YK__RANKS];
    if (!yk__timed_often(p, probe_clear(p) ? 1 : 2) && p->in_phase < 12)
        return;
    probe_record(p);
    if (p->phase == PROBE && probe_grow(p, next)) {
        yk__shares_set(p, next);
        yk__phase_begin(p, GROW);
        return;
    }
    yk__roles_set(p, p->member, NULL);
    if (loss_foreseen(p) && yk__trial_begin(p, yk__trial_candidate(p)))
        return;
    if (yk__shares_split(p, p->member, 0, next))
        yk__shares_set(p, next);
    yk__settle_begin(p);
}
