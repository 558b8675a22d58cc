/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy's computations on times, without decisions. Inputs are means of measured times. Results are shares, the rows of each rank,
 * within its memory and in steps; and roles: members and their parts of the optimizer. A prediction gives a window's seconds with other
 * members, shares and parts. The phases (policy_inner.h) compare these and set their choice.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/balance/policy_inner.h"

/* ---- Small helpers ----------------------------------------------------------------------------------------------- */

/* True if every member with rows was timed so often. */
bool yk__timed_often(const yk__policy *p, uint32_t times)
{
    for (uint32_t r = 0; r < p->ranks; r++)
        if (p->member[r] && p->share[r] && p->busy[r].n < times)
            return false;
    return true;
}

bool yk__rank_off(const yk__policy *p, uint32_t rank, double seconds)
{
    const double seen = yk__balance_predict(p->balance, rank, p->share[rank]);
    return p->member[rank] && seen > 0 && seconds > 0 && (seconds > 1.2 * seen || seconds < seen / 1.2);
}

static uint32_t flags_count(const bool *flag, uint32_t n)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += flag[i];
    return sum;
}

uint32_t yk__members_count(const yk__policy *p)
{
    return flags_count(p->member, p->ranks);
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

/* Sets new shares; the first window with them carries no information. */
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

/* Bounds of each member: at least a row if there are rows for every rank, at most its memory. It gets no more than `trust` times more or
 * less than it has (0 for any change). */
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

/* The largest power of two up to 1/64 of the share: rounding to it is at most 0.8 % of its rows, about the dead band. */
static uint64_t share_step(uint64_t share)
{
    uint64_t step = 1;
    while (128 * step <= share)
        step *= 2;
    return step;
}

/* A share in whole blocks (the nearest, or down); in steps if it is less than one or block is 0. */
static uint64_t share_near(uint64_t share, uint64_t block, bool down)
{
    const uint64_t step = share_step(share);
    return block > step && share >= block ? (share + (down ? 0 : block / 2)) / block * block : (share + step / 2) / step * step;
}

/* The largest share takes the rest. False if the shares exceed a rank's memory, or with a block the bounds. */
static bool shares_near(const yk__policy *p, const yk__bounds *bounds, const uint64_t *share, uint64_t block, bool down, uint64_t *near)
{
    uint64_t sum = 0;
    uint32_t largest = 0;
    for (uint32_t r = 1; r < p->ranks; r++)
        largest = share[r] > share[largest] ? r : largest;
    for (uint32_t r = 0; r < p->ranks; r++) {
        near[r] = r == largest ? 0 : share_near(share[r], block, down);
        near[r] = near[r] > yk__cap_of(p, r) ? share[r] : near[r];
        sum += near[r];
    }
    if (sum >= p->n || p->n - sum > yk__cap_of(p, largest))
        return false;
    near[largest] = p->n - sum;
    for (uint32_t r = 0; r < p->ranks && block; r++)
        if (near[r] < bounds[r].least || near[r] > bounds[r].most)
            return false;
    return true;
}

/* Rounds to whole blocks if the lines predict a small cost. A kernel computes rows by blocks, so one row more may cost as much as
 * several. Lines through whole blocks describe the useful numbers of rows. Else rounds in steps, as each number of rows is a program of
 * its own. */
static void shares_round(const yk__policy *p, const yk__bounds *bounds, uint64_t *share)
{
    const double most = ROWS_WORTH * yk__balance_longest(p->balance, share);
    uint64_t near[YK__RANKS];
    for (uint64_t block = ROWS_MOST; block >= ROWS_LEAST; block /= 2)
        for (int down = 0; down < 2; down++)
            if (shares_near(p, bounds, share, block, down, near) && yk__balance_longest(p->balance, near) <= most) {
                memcpy(share, near, p->ranks * sizeof *share);
                return;
            }
    if (shares_near(p, bounds, share, 0, false, near))
        memcpy(share, near, p->ranks * sizeof *share);
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
    shares_round(p, bounds, share);
    return true;
}

/* True if new shares gain enough in the remaining windows to pay for making their programs. */
bool yk__shares_worth(const yk__policy *p, const uint64_t *next)
{
    const double now = yk__balance_longest(p->balance, p->share), then = yk__balance_longest(p->balance, next);
    const double horizon = p->left > 0 ? p->left : fmax((double)p->windows, HORIZON);
    for (uint32_t r = 0; r < p->ranks; r++)
        if (p->share[r] > yk__cap_of(p, r))
            return true;
    return now - then > DEAD_BAND * now && (now - then) * horizon > p->compiling;
}

/* Weighs the whole way to the best shares: for a rank that may only double its one row, a single step is never worth it. */
bool yk__shares_follow(yk__policy *p, double trust)
{
    uint64_t best[YK__RANKS], next[YK__RANKS];
    return yk__shares_split(p, p->member, 0, best) && yk__shares_worth(p, best) && yk__shares_split(p, p->member, trust, next) &&
           yk__shares_set(p, next);
}

/* ---- Roles ------------------------------------------------------------------------------------------------------- */

/* Seconds that each rank would take to update all parameters: as measured, else by its pace relative to measured ranks. */
static void updates_of(const yk__policy *p, double *update)
{
    for (uint32_t r = 0; r < p->ranks; r++) {
        update[r] = p->update[r];
        for (uint32_t k = 0; k < p->ranks && p->update[r] <= 0 && p->seat[r].pace > 0; k++)
            if (p->update[k] > 0 && p->seat[k].pace > 0)
                update[r] = fmax(update[r], p->update[k] * p->seat[r].pace / p->seat[k].pace);
    }
}

/* Moments are memory too. */
static double part_most(const yk__policy *p, uint32_t r)
{
    return p->part[r] > 0 ? fmin(p->part[r], 1) : p->seat[r].limited ? 1.0 / p->ranks : 1;
}

/* True if these members' memory holds the whole optimizer. */
static bool parts_fit(const yk__policy *p, const bool *member)
{
    double most = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        most += member[r] ? part_most(p, r) : 0;
    return most > 1 - 1e-9;
}

/* The parts of these members; a rank that is only tried again owns nothing. */
void yk__parts_best(const yk__policy *p, const bool *member, double *owns)
{
    double most[YK__RANKS], update[YK__RANKS];
    bool owner[YK__RANKS];
    updates_of(p, update);
    for (uint32_t r = 0; r < p->ranks; r++) {
        owner[r] = member[r] && !(p->phase == RETRY && r == p->retried);
        most[r] = part_most(p, r);
    }
    yk__owner_parts(p->ranks, owner, update, p->copy, most, owns);
}

/* Seconds until each of these has updated its parts and copied the rest. */
static double parts_time(const yk__policy *p, const bool *member, const double *owns)
{
    double longest = 0, sum = 0, update[YK__RANKS];
    updates_of(p, update);
    for (uint32_t r = 0; r < p->ranks; r++)
        sum += owns[r];
    for (uint32_t r = 0; r < p->ranks && sum > 0; r++)
        if (member[r])
            longest = fmax(longest, (update[r] * owns[r] + p->copy[r] * (sum - owns[r])) / sum);
    return longest;
}

bool yk__roles_improve(yk__policy *p)
{
    double owns[YK__RANKS];
    yk__parts_best(p, p->member, owns);
    if (parts_time(p, p->member, p->owns) - parts_time(p, p->member, owns) < PARTS_WORTH * yk__balance_longest(p->balance, p->share))
        return false;
    memcpy(p->owns, owns, p->ranks * sizeof *owns);
    p->generation++;
    p->skip = 1;
    yk__looks_clear(p);
    return true;
}

void yk__roles_set(yk__policy *p, const bool *member, const double *owns)
{
    double best[YK__RANKS];
    if (!owns)
        yk__parts_best(p, member, best);
    owns = owns ? owns : best;
    if (!memcmp(member, p->member, p->ranks * sizeof *member) && !memcmp(owns, p->owns, p->ranks * sizeof *owns))
        return;
    memcpy(p->member, member, p->ranks * sizeof *member);
    memcpy(p->owns, owns, p->ranks * sizeof *owns);
    p->generation++;
}

bool yk__members_flip(const yk__policy *p, uint32_t rank, bool with, bool *member)
{
    bool any = false;
    memcpy(member, p->member, p->ranks * sizeof *member);
    member[rank] = with;
    for (uint32_t r = 0; r < p->ranks; r++)
        any = any || member[r];
    return any;
}

/* ---- Seconds of a window ----------------------------------------------------------------------------------------- */

/* Seconds of the members' joint work: a + b (members - 1). */
static double rest_predict(const yk__policy *p, uint32_t members)
{
    return members > 1 ? yk__line_predict(&p->rest, members - 1) : p->rest.a;
}

/* T = max_r (a_r + b_r n_r) + max_r (update_r s_r + copy_r (1 - s_r)) + rest(members): runs, the optimizer, and the rest of measured
 * windows: sums over ranks, latencies, the host. */
double yk__window_predict(const yk__policy *p, const bool *member, const uint64_t *share)
{
    double owns[YK__RANKS];
    yk__parts_best(p, member, owns);
    return yk__balance_longest(p->balance, share) + parts_time(p, member, owns) +
           rest_predict(p, flags_count(member, p->ranks));
}

double yk__set_predict(const yk__policy *p, const bool *member, uint64_t *share)
{
    return parts_fit(p, member) && yk__shares_split(p, member, 0, share) ? yk__window_predict(p, member, share) : 0;
}

void yk__rest_record(yk__policy *p, double window, double longest)
{
    const double rest = window - longest - parts_time(p, p->member, p->owns);
    if (longest > 0 && rest > 1e-9 && yk__members_count(p) > 1)
        yk__line_record(&p->rest, yk__members_count(p) - 1, rest);
}
