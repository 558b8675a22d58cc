/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The phase settle: shares follow the fitted lines until they change no more. After an alert, a deviation from the usual times, it first
 * confirms that the deviation lasts.
 *
 * yk__policy_look (policy.c) hands it each timed window; three windows make a look. It ends with the next trial, or with the phase steady.
 * It runs in the step thread, and is pure: all ranks decide alike from equal reports.
 */
#include <math.h>

#include "core/balance/policy_inner.h"

/* ---- Settling ---------------------------------------------------------------------------------------------------- */

static void settle_end(yk__policy *p)
{
    if (p->before_alert > 0 && yk__times_mean(&p->wall) > YK__COSTLY * p->before_alert)
        yk__schedule_round(p->schedule);
    p->before_alert = 0;
    if (!yk__trial_next(p))
        yk__steady_begin(p);
}

bool yk__records_add(yk__policy *p)
{
    bool renewed = false, outlier = false, whole = true;
    double longest = 0;
    for (uint32_t r = 0; r < p->ranks; r++) {
        const double mean = yk__times_median(&p->rank[r].busy);
        longest = fmax(longest, mean);
        whole = whole && (mean > 0 || !p->now.share[r]); /* a line that was just renewed has used up its times */
        if (p->rank[r].busy.n && p->now.share[r])
            renewed = yk__fit_record(p->fit, r, p->now.share[r], mean) || renewed;
        outlier = outlier || p->fit->rank[r].line.outlier != 0;
        p->rank[r].busy.n = 0;
    }
    if (whole)
        yk__fit_rest(p->fit, p->now.member, p->now.owns, yk__times_mean(&p->wall), longest);
    if (renewed)
        yk__schedule_reweigh(p->schedule, &p->now);
    return outlier;
}

/* Factor by which a look's windows exceed the prediction: the shortest one's if that is beyond SHIFT, else the median's, up to SHIFT.
 * Two late windows of three are no change of speed: a busy machine often has them. */
static double delay_size(double least, double median, double seen)
{
    return least > SHIFT * seen ? least / seen : fmin(median / seen, SHIFT);
}

/* Factor by which a look's windows exceed the prediction, for a rank or for the job. It is 1 without a deviation, and infinity if a rank
 * is faster, as no delay makes a machine faster. */
static double alert_size(const yk__policy *p)
{
    const double wall = yk__times_median(&p->wall);
    double size = 1;
    if (p->before_alert > 0 && wall > ALERT * p->before_alert)
        size = delay_size(yk__times_least(&p->wall), wall, p->before_alert);
    for (uint32_t r = 0; r < p->ranks; r++) {
        const double seconds = yk__times_median(&p->rank[r].busy), seen = yk__fit_run(p->fit, r, p->now.share[r]);
        if (yk__rank_off(p, r, seconds))
            size = fmax(size, seconds < seen ? INFINITY : delay_size(yk__times_least(&p->rank[r].busy), seconds, seen));
    }
    return size;
}

/* Scales lines at once: the confirming windows are the second sighting of the deviation. */
static void lines_renew(yk__policy *p)
{
    bool any = false;
    for (uint32_t r = 0; r < p->ranks; r++)
        if (yk__rank_off(p, r, yk__times_median(&p->rank[r].busy))) {
            yk__fit_renew(p->fit, r, p->now.share[r], yk__times_median(&p->rank[r].busy));
            p->rank[r].busy.n = 0;
            any = true;
        }
    if (!any)
        return;
    p->before_alert = 0; /* longer windows are explained */
    yk__schedule_reweigh(p->schedule, &p->now);
}

/* Other work on a machine delays single windows all the time, and at times some in a row. Shares that follow them wander, and the
 * resulting trials cost more than they gain. So a small deviation must be found HINTS times. */
static bool alert_holds(yk__policy *p)
{
    const double size = alert_size(p);
    p->hints = size > 1 ? p->hints + 1 : 0;
    return size > SHIFT || p->hints >= HINTS;
}

/* True for a false or still uncertain alert: everything goes on as before. */
static bool doubt_end(yk__policy *p)
{
    const bool holds = alert_holds(p);
    p->doubted = false;
    if (holds) {
        p->hints = 0;
        yk__alert_confirmed(p);
        lines_renew(p);
    } else {
        if (!p->hints) {
            yk__records_add(p);
            yk__shares_follow(p, TRUST);
        }
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
    if (!moved && yk__trial_foreseen(p))
        return;
    if (yk__shares_follow(p, p->early || p->looks > 2 ? TRUST * TRUST : TRUST) || moved)
        p->calm = 0;
    else
        p->calm++;
    if ((p->calm && !off && p->looks >= SURE) || p->looks >= LOOKS)
        settle_end(p);
    else
        yk__looks_clear(p);
}
