/* SPDX-License-Identifier: Apache-2.0 */
/* What the policy makes of times: means, shares within bounds, roles. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/balance/policy_inner.h"

/* ---- Small helpers ----------------------------------------------------------------------------------------------- */

static int double_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void yk__walls_add(yk__walls *w, double seconds)
{
    w->seconds[w->n % WALLS] = seconds;
    w->n++;
}

/* Mean of all but the longest quarter: a hiccup of the machine does not count, a rank that is off its core in two windows of
 * five does. */
double yk__walls_mean(const yk__walls *w)
{
    double v[WALLS], sum = 0;
    const uint32_t n = w->n < WALLS ? w->n : WALLS, kept = n - n / 4;
    memcpy(v, w->seconds, n * sizeof *v);
    qsort(v, n, sizeof *v, double_order);
    for (uint32_t i = 0; i < kept; i++)
        sum += v[i];
    return kept ? sum / kept : 0;
}

/* Mean, with what is more than four times the median counted as that. */
double yk__samples_mean(const yk__samples *s)
{
    double v[8], sum = 0;
    memcpy(v, s->seconds, s->n * sizeof *v);
    qsort(v, s->n, sizeof *v, double_order);
    for (uint32_t i = 0; i < s->n; i++)
        sum += fmin(v[i], 4 * v[s->n / 2]);
    return s->n ? sum / s->n : 0;
}

double yk__samples_least(const yk__samples *s)
{
    double least = s->n ? s->seconds[0] : 0;
    for (uint32_t i = 1; i < s->n; i++)
        least = fmin(least, s->seconds[i]);
    return least;
}

uint32_t yk__members_count(const yk__policy *p)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        n += p->member[r];
    return n;
}

void yk__event_add(yk__policy *p, int kind, uint32_t rank, double with, double without)
{
    if (p->n_event == YK__RANKS)
        return;
    p->event[p->n_event].kind = kind;
    p->event[p->n_event].rank = rank;
    p->event[p->n_event].with = with;
    p->event[p->n_event++].without = without;
}

void yk__looks_clear(yk__policy *p)
{
    for (uint32_t r = 0; r < p->ranks; r++)
        p->busy[r].n = 0;
    p->wall.n = 0;
}

void yk__phase_begin(yk__policy *p, yk__phase to)
{
    p->phase = to;
    p->in_phase = 0;
    p->untold = 0;
    yk__looks_clear(p);
}

/* New shares; the first window with them says nothing. */
bool yk__shares_set(yk__policy *p, const uint64_t *share)
{
    if (!memcmp(p->share, share, p->ranks * sizeof *share))
        return false;
    memcpy(p->share, share, p->ranks * sizeof *share);
    p->skip = 1;
    yk__looks_clear(p);
    return true;
}

/* ---- Shares ------------------------------------------------------------------------------------------------------ */

uint64_t yk__cap_of(const yk__policy *p, uint32_t r)
{
    return p->cap[r] && p->cap[r] < p->n ? p->cap[r] : p->n;
}

/* What a member may have: a row at least as long as there are rows for all, within its memory, and no more than `trust`
 * times more or less than it has (0: no matter what it has). */
static void bounds_of(const yk__policy *p, const bool *member, double trust, yk__bounds *bounds)
{
    const bool enough = p->n >= p->ranks;
    for (uint32_t r = 0; r < p->ranks; r++) {
        const double has = (double)p->share[r];
        bounds[r] = (yk__bounds){0, 0};
        if (!member[r])
            continue;
        bounds[r] = (yk__bounds){enough, yk__cap_of(p, r)};
        if (trust > 0 && p->share[r]) {
            bounds[r].least = (uint64_t)fmax((double)bounds[r].least, ceil(has / trust));
            bounds[r].most = (uint64_t)fmin((double)bounds[r].most, has * trust);
            bounds[r].least = bounds[r].least < bounds[r].most ? bounds[r].least : bounds[r].most;
        }
    }
}

/* Shares in steps of 1/128 of the batch, about what the dead band leaves open: each number of rows is a program of its own. A
 * share below one step stays what it is; the largest takes the rest. */
static void shares_round(const yk__policy *p, uint64_t *share)
{
    const uint64_t step = p->n / 128 ? p->n / 128 : 1;
    uint64_t sum = 0, rounded[YK__RANKS];
    uint32_t largest = 0;
    for (uint32_t r = 1; r < p->ranks; r++)
        largest = share[r] > share[largest] ? r : largest;
    for (uint32_t r = 0; r < p->ranks; r++) {
        const uint64_t near = (share[r] + step / 2) / step * step;
        rounded[r] = r == largest ? 0 : share[r] < step || near > yk__cap_of(p, r) ? share[r] : near;
        sum += rounded[r];
    }
    if (sum >= p->n || p->n - sum > yk__cap_of(p, largest))
        return;
    rounded[largest] = p->n - sum;
    memcpy(share, rounded, p->ranks * sizeof *share);
}

bool yk__shares_split(const yk__policy *p, const bool *member, double trust, uint64_t *share)
{
    yk__bounds bounds[YK__RANKS];
    bounds_of(p, member, trust, bounds);
    if (!yk__balance_split(p->balance, p->n, bounds, share)) {
        bounds_of(p, member, 0, bounds);
        if (!yk__balance_split(p->balance, p->n, bounds, share))
            return false;
    }
    shares_round(p, share);
    return true;
}

/* Where new shares gain enough in the windows that are left to earn the making of their programs. */
bool yk__shares_worth(const yk__policy *p, const uint64_t *next)
{
    const double now = yk__balance_longest(p->balance, p->share), then = yk__balance_longest(p->balance, next);
    const double horizon = p->left > 0 ? p->left : fmax((double)p->windows, HORIZON);
    for (uint32_t r = 0; r < p->ranks; r++)
        if (p->share[r] > yk__cap_of(p, r))
            return true;
    return now - then > DEAD_BAND * now && (now - then) * horizon > p->compiling;
}

/* ---- Roles ------------------------------------------------------------------------------------------------------- */

/* Seconds that updating all would take each rank: as measured, else by its pace beside those that were. */
static void updates_of(const yk__policy *p, double *update)
{
    for (uint32_t r = 0; r < p->ranks; r++) {
        update[r] = p->update[r];
        for (uint32_t k = 0; k < p->ranks && p->update[r] <= 0 && p->seat[r].pace > 0; k++)
            if (p->update[k] > 0 && p->seat[k].pace > 0)
                update[r] = fmax(update[r], p->update[k] * p->seat[r].pace / p->seat[k].pace);
    }
}

/* The parts of these members; a rank that is only tried again owns nothing. */
static void parts_of(const yk__policy *p, const bool *member, double *owns)
{
    double most[YK__RANKS], update[YK__RANKS];
    bool owner[YK__RANKS];
    updates_of(p, update);
    for (uint32_t r = 0; r < p->ranks; r++) {
        owner[r] = member[r] && !(p->phase == RETRY && r == p->retried);
        most[r] = p->seat[r].limited ? 1.0 / p->ranks : 1; /* moments are memory too */
    }
    yk__owner_parts(p->ranks, owner, update, p->copy, most, owns);
}

/* Seconds until all have updated and copied. */
static double parts_time(const yk__policy *p, const double *owns)
{
    double longest = 0, sum = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        sum += owns[r];
    for (uint32_t r = 0; r < p->ranks; r++)
        if (p->member[r])
            longest = fmax(longest, (p->update[r] * owns[r] + p->copy[r] * (sum - owns[r])) / sum);
    return longest;
}

bool yk__roles_improve(yk__policy *p)
{
    double owns[YK__RANKS];
    parts_of(p, p->member, owns);
    if (parts_time(p, p->owns) - parts_time(p, owns) < (WORTH - 1) * yk__balance_longest(p->balance, p->share))
        return false;
    memcpy(p->owns, owns, p->ranks * sizeof *owns);
    p->generation++;
    p->skip = 1;
    yk__looks_clear(p);
    return true;
}

void yk__roles_set(yk__policy *p, const bool *member)
{
    double owns[YK__RANKS];
    parts_of(p, member, owns);
    if (!memcmp(member, p->member, p->ranks * sizeof *member) && p->phase == TRIAL)
        return;
    memcpy(p->member, member, p->ranks * sizeof *member);
    memcpy(p->owns, owns, p->ranks * sizeof *owns);
    p->generation++;
}

bool yk__without_rank(const yk__policy *p, uint32_t rank, bool *member)
{
    memcpy(member, p->member, p->ranks * sizeof *member);
    member[rank] = false;
    for (uint32_t r = 0; r < p->ranks; r++)
        if (member[r])
            return true;
    return false;
}

/* Predicted seconds of a window without the rank; 0: it cannot be done. */
double yk__time_without(const yk__policy *p, uint32_t rank)
{
    bool member[YK__RANKS];
    uint64_t share[YK__RANKS];
    if (!yk__without_rank(p, rank, member) || !yk__shares_split(p, member, 0, share))
        return 0;
    return yk__balance_longest(p->balance, share);
}
