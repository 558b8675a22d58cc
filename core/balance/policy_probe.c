/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The phases probe and grow: a job's first windows, before any rank has a fitted line. Ranks of like pace get even shares. Slower ranks,
 * and ranks of limited memory, get a few rows, and then four times as many.
 *
 * yk__policy_new (policy.c) asks for the first shares, and yk__policy_look hands each timed window to yk__probe_look. It ends with a
 * settling, or with the trial of a rank that seems to cost more than it adds. It runs in the step thread, and is pure: all ranks decide
 * alike.
 */
#include <math.h>
#include <string.h>

#include "core/balance/policy_inner.h"

/* ---- The first windows ------------------------------------------------------------------------------------------- */

static double pace_least(const yk__policy *p)
{
    double least = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        if (p->seat[r].pace > 0 && !p->seat[r].limited && (least <= 0 || p->seat[r].pace < least))
            least = p->seat[r].pace;
    return least;
}

/* True for a rank that begins with few rows: its memory is limited, or it is much slower than another rank without that limit. */
static bool begins_low(const yk__policy *p, uint32_t r)
{
    return p->seat[r].limited || (p->seat[r].pace > 0 && p->seat[r].pace > ALIKE * pace_least(p));
}

void yk__shares_first(yk__policy *p)
{
    const uint64_t part = p->n / (4ull * p->ranks);
    uint64_t rest = p->n;
    uint32_t low = 0, seen = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        low += begins_low(p, r);
    low = low == p->ranks || !part ? 0 : low;
    for (uint32_t r = 0; r < p->ranks && low; r++)
        if (begins_low(p, r)) {
            p->now.share[r] = p->seat[r].limited ? part : p->seat[r].pace > FAR * pace_least(p) ? 1 : part < FEW ? part : FEW;
            rest -= p->now.share[r];
        }
    for (uint32_t r = 0; r < p->ranks; r++)
        if (!low || !begins_low(p, r)) {
            p->now.share[r] = rest / (p->ranks - low) + (seen < rest % (p->ranks - low));
            seen++;
        }
    yk__fit_whole(p->fit, p->now.share);
    for (uint32_t r = 0; r < p->ranks; r++)
        p->now.owns[r] = low && begins_low(p, r) && !p->seat[r].limited ? 0 : 1;
    if (yk__fit_parts_fixed(p->fit))
        yk__fit_parts(p->fit, p->now.member, p->now.owns);
}

/* ---- Probing ----------------------------------------------------------------------------------------------------- */

static void probe_record(yk__policy *p)
{
    for (uint32_t r = 0; r < p->ranks; r++)
        if (p->rank[r].busy.n)
            yk__fit_record(p->fit, r, p->now.share[r], yk__times_least(&p->rank[r].busy));
}

/* Gives four times the rows to ranks that began with few and took less time for them than the slowest rank. */
static bool probe_grow(const yk__policy *p, uint64_t *next)
{
    const double longest = yk__fit_longest(p->fit, p->now.share);
    uint32_t largest = 0;
    bool any = false;
    for (uint32_t r = 1; r < p->ranks; r++)
        largest = p->now.share[r] > p->now.share[largest] ? r : largest;
    memcpy(next, p->now.share, p->ranks * sizeof *next);
    for (uint32_t r = 0; r < p->ranks; r++) {
        const uint64_t more = 3 * p->now.share[r];
        if (r == largest || !begins_low(p, r) || yk__fit_run(p->fit, r, p->now.share[r]) >= longest ||
            next[largest] < 2 * more || p->now.share[r] + more > yk__fit_cap(p->fit, r))
            continue;
        next[r] += more;
        next[largest] -= more;
        any = true;
    }
    yk__fit_whole(p->fit, next);
    return any;
}

/* True if a rank with few rows takes by far the longest: one window is then enough. */
static bool probe_clear(const yk__policy *p)
{
    double few = 0, many = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        if (begins_low(p, r) && p->now.share[r] <= (p->seat[r].quantum > FEW ? p->seat[r].quantum : FEW))
            few = fmax(few, yk__times_least(&p->rank[r].busy));
        else
            many = fmax(many, yk__times_least(&p->rank[r].busy));
    return few > 4 * many && many > 0;
}

void yk__probe_look(yk__policy *p)
{
    uint64_t *next = p->work.share;
    if (!yk__timed_often(p, probe_clear(p) ? 1 : 2) && p->in_phase < 12)
        return;
    probe_record(p);
    if (p->phase == PROBE && probe_grow(p, next)) {
        yk__shares_set(p, next);
        yk__phase_begin(p, GROW);
        return;
    }
    yk__roles_set(p, p->now.member, NULL);
    if (yk__trial_foreseen(p))
        return;
    if (yk__fit_shares(p->fit, p->now.member, NULL, 0, next))
        yk__shares_set(p, next);
    yk__settle_begin(p);
}
