/* SPDX-License-Identifier: Apache-2.0 */
/* Windows with and without a rank, the windows between such trials, and ranks that are tried again. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/balance/policy_inner.h"

/* The rank that a trial is about: the one with the fewest rows of those that may go, or a forced one that seems to cost. */
uint32_t yk__candidate_of(const yk__policy *p)
{
    uint32_t which = p->ranks;
    for (uint32_t r = 0; r < p->ranks; r++) {
        const double now = yk__balance_longest(p->balance, p->share);
        const double without = p->seat[r].forced && p->member[r] && !p->said_costs[r] ? yk__time_without(p, r) : 0;
        if (!p->member[r] || p->tried[r] || (p->seat[r].forced && !(without > 0 && without * COSTLY < now)))
            continue;
        if (which == p->ranks || p->share[r] < p->share[which])
            which = r;
    }
    return which;
}

static void trial_side(yk__policy *p, bool without)
{
    yk__trial *t = &p->trial;
    bool member[YK__RANKS];
    memcpy(member, p->member, sizeof member);
    member[t->rank] = !without;
    t->without = without;
    t->in_block = 0;
    yk__roles_set(p, member);
    yk__shares_set(p, t->share[without]);
    p->skip = 1;
}

/* Windows of both sides in turn. Where the lines say that the rank is a loss, the windows just timed are its first block. */
bool yk__trial_begin(yk__policy *p)
{
    yk__trial *t = &p->trial;
    bool member[YK__RANKS];
    const uint32_t rank = yk__candidate_of(p);
    const double with = yk__walls_mean(&p->wall), without = rank < p->ranks ? yk__time_without(p, rank) : 0;
    const yk__walls seen = p->wall;
    if (rank == p->ranks || yk__members_count(p) < 2) {
        p->try_all = false;
        return false;
    }
    memset(t, 0, sizeof *t);
    t->rank = rank;
    p->tried[rank] = true;
    p->trial_cost += 2 * BLOCK * (with > without ? with - without : without - with);
    if (!yk__without_rank(p, rank, member) || !yk__shares_split(p, member, 0, t->share[1]))
        return false;
    memcpy(t->share[0], p->share, sizeof p->share);
    t->length = with > 0 ? (uint32_t)fmin(BLOCK, fmax(2, ceil(BLOCK_SECONDS / with))) : BLOCK;
    yk__phase_begin(p, TRIAL);
    if (seen.n && without > 0 && without * CLEAR < with) {
        t->side[0] = seen;
        t->blocks = 1;
        trial_side(p, true);
    } else {
        p->skip = 1;
    }
    return true;
}

/* The weakest goes through its trial at once; others too where that is not likely to cost much, or when all trials together
 * cost little. */
bool yk__trial_due(const yk__policy *p)
{
    const uint32_t rank = yk__candidate_of(p);
    const double with = yk__balance_longest(p->balance, p->share), without = rank < p->ranks ? yk__time_without(p, rank) : 0;
    uint32_t tried = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        tried += p->member[r] && p->tried[r];
    if (!p->try_all || !tried || (tried < AT_ONCE && without < AT_ONCE_COST * with))
        return p->try_all;
    return p->trial_cost + BLOCK * fmax(without - with, 0) < TRIAL_PART * p->elapsed;
}

void yk__trial_round(yk__policy *p)
{
    p->try_all = true;
    memset(p->tried, 0, sizeof p->tried);
}

/* ---- With and without -------------------------------------------------------------------------------------------- */

static void trial_end(yk__policy *p, bool given_up)
{
    yk__trial *t = &p->trial;
    const uint32_t rank = t->rank;
    const double with = yk__walls_mean(&t->side[0]), without = yk__walls_mean(&t->side[1]);
    const bool stays = given_up || p->seat[rank].forced || with * WORTH < without;
    if (!stays) {
        trial_side(p, true);
        yk__event_add(p, YK_POLICY_EXCLUDED, rank, with, without);
        p->excluded[rank] = true;
        p->harm[rank] = with - without;
        yk__trial_round(p);
        yk__settle_begin(p);
        return;
    }
    trial_side(p, false);
    if (p->seat[rank].forced && !given_up && without * COSTLY < with) {
        p->said_costs[rank] = true;
        yk__event_add(p, YK_POLICY_COSTS, rank, with, without);
    }
    if (p->excluded[rank])
        yk__event_add(p, YK_POLICY_BACK, rank, with, without);
    p->excluded[rank] = false;
    if (!yk__trial_due(p) || !yk__trial_begin(p))
        yk__steady_begin(p);
}

/* Squared standard error of the mean of a side's windows. */
static double side_error(const yk__walls *w)
{
    const uint32_t n = w->n < WALLS ? w->n : WALLS;
    double mean = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        mean += w->seconds[i] / n;
    for (uint32_t i = 0; i < n; i++)
        sum += (w->seconds[i] - mean) * (w->seconds[i] - mean);
    return n > 1 ? sum / (n - 1) / n : INFINITY;
}

static double side_least(const yk__walls *w, double sign)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < w->n && i < WALLS; i++)
        least = fmin(least, sign * w->seconds[i]);
    return sign * least;
}

/* Every window of one side is longer than all of the other, by far; by twice as far where there is but one. */
static bool sides_apart(const yk__trial *t)
{
    for (int k = 0; k < 2; k++) {
        const yk__walls *longer = &t->side[k], *shorter = &t->side[!k];
        if (longer->n >= 1 && shorter->n >= 2 &&
            side_least(longer, 1) > (longer->n >= 2 ? 2 : 4) * side_least(shorter, -1))
            return true;
    }
    return false;
}

/* Enough was seen: at once where the sides are far apart, after a block of each where the difference is clear, after two where
 * it is beyond the noise, at last after MOST_BLOCKS. */
static bool trial_decided(const yk__trial *t, bool block_over)
{
    const double with = yk__walls_mean(&t->side[0]), without = yk__walls_mean(&t->side[1]);
    const double noise = sqrt(side_error(&t->side[0]) + side_error(&t->side[1]));
    if (!block_over)
        return sides_apart(t);
    if (t->blocks >= 2 && (with > CLEAR * without || without > CLEAR * with) && fabs(with - without) > 3 * noise)
        return true;
    return t->blocks >= MOST_BLOCKS || (t->blocks >= 4 && fabs(with * WORTH - without) > 2 * noise);
}

void yk__trial_look(yk__policy *p, bool clean, double wall)
{
    yk__trial *t = &p->trial;
    bool over;
    if (!clean) {
        if (++t->unclean > UNCLEAN)
            trial_end(p, true);
        return;
    }
    yk__walls_add(&t->side[t->without], wall);
    over = ++t->in_block >= t->length;
    t->blocks += over;
    if (trial_decided(t, over))
        trial_end(p, false);
    else if (over)
        trial_side(p, !t->without);
}

/* ---- Steady ------------------------------------------------------------------------------------------------------ */

void yk__steady_begin(yk__policy *p)
{
    p->early = false;
    p->usual = 0;
    p->usual_n = 0;
    yk__phase_begin(p, STEADY);
}

static void alert(yk__policy *p)
{
    if (p->windows < p->alert_after)
        return;
    p->pause = p->pause ? (p->pause < 160 ? 2 * p->pause : p->pause) : 10;
    p->alert_after = p->windows + p->pause;
    yk__settle_begin(p);
}

/* An excluded rank may be tried again when all tries together cost little of the time that has passed. */
static bool retry_due(yk__policy *p)
{
    const double cost = p->retry_cost > 0 ? p->retry_cost : 0;
    for (uint32_t i = 1; i <= p->ranks; i++) {
        const uint32_t r = (p->retried + i) % p->ranks;
        if (!p->excluded[r] || p->member[r])
            continue;
        if (p->spent + (cost > 0 ? cost : LOOK * yk__balance_predict(p->balance, r, 1) + p->compiling) > RETRY_PART * p->elapsed)
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
    yk__phase_begin(p, RETRY);
    yk__roles_set(p, member);
    yk__shares_set(p, share);
    p->retry_cost = 0;
}

/* A record of each rank is one window of ten: five of them make a look. */
static void steady_samples(yk__policy *p, bool *off)
{
    bool whole = true;
    uint64_t next[YK__RANKS];
    for (uint32_t r = 0; r < p->ranks; r++) {
        const yk__samples *s = &p->busy[r];
        const double seen = yk__balance_predict(p->balance, r, p->share[r]);
        const double last = s->n ? s->seconds[s->n - 1] : 0;
        if (!p->member[r] || !p->share[r])
            continue;
        whole = whole && s->n >= 5;
        *off = *off || (s->n && seen > 0 && (last > 1.2 * seen || last < seen / 1.2));
    }
    if (*off) /* the first of two */
        yk__records_add(p);
    else if (whole) {
        yk__records_add(p);
        if (yk__shares_split(p, p->member, TRUST, next) && yk__shares_worth(p, next))
            yk__shares_set(p, next);
    }
}

void yk__steady_look(yk__policy *p, bool clean, double wall)
{
    bool off = false;
    const bool timed = p->in_phase % EVERY == 0;
    if (timed)
        steady_samples(p, &off);
    if (clean && p->usual_n < 2) {
        p->usual = p->usual_n++ ? (p->usual + wall) / 2 : wall;
    } else if (clean) {
        off = off || wall > ALERT * p->usual;
        if (wall > COSTLY * p->usual)
            yk__trial_round(p);
        p->usual = off ? p->usual : 0.9 * p->usual + 0.1 * wall;
    }
    if (off)
        alert(p);
    else if (p->pause && p->windows > p->alert_after + p->pause)
        p->pause = 0;
    if (p->phase == STEADY && p->usual_n >= 2 && retry_due(p))
        retry_begin(p);
    else if (p->phase == STEADY && p->usual_n >= 2 && yk__trial_due(p))
        yk__trial_begin(p);
}

/* ---- Retrying ---------------------------------------------------------------------------------------------------- */

/* What a window with the rank costs, from the trial that excluded it. */
static double harm_of(const yk__policy *p, uint32_t r)
{
    return fmax(p->harm[r], 0.1 * p->usual);
}

/* What excluded it may have been a disturbance of the trial: where the lines still say that it helps it may have another. */
static bool trial_again(const yk__policy *p, uint32_t r)
{
    uint64_t share[YK__RANKS];
    return p->share[r] && yk__shares_split(p, p->member, 0, share) &&
           yk__balance_longest(p->balance, share) * WORTH < yk__balance_longest(p->balance, p->share) &&
           p->spent + 2 * BLOCK * harm_of(p, r) < RETRY_PART * p->elapsed;
}

static void retry_end(yk__policy *p)
{
    const uint32_t r = p->retried;
    const double seen = yk__balance_predict(p->balance, r, p->share[r]), now = yk__samples_least(&p->busy[r]);
    bool member[YK__RANKS];
    uint64_t share[YK__RANKS];
    p->retry_cost = fmax(p->retry_cost, p->usual); /* not more often than every 1 / RETRY_PART windows */
    p->spent += p->retry_cost;
    memcpy(member, p->member, sizeof member);
    if (now > 0 && now * COSTLY < seen) {
        yk__balance_renew(p->balance, r, p->share[r], now);
        if (yk__shares_split(p, member, 0, share) && yk__balance_longest(p->balance, share) * WORTH < p->usual) {
            yk__shares_set(p, share);
            yk__trial_round(p);
            yk__settle_begin(p);
            return;
        }
    }
    if (trial_again(p, r)) {
        p->spent += 2 * BLOCK * harm_of(p, r);
        yk__trial_round(p);
        yk__settle_begin(p);
        return;
    }
    member[r] = false;
    if (yk__shares_split(p, member, 0, share)) {
        yk__shares_set(p, share);
        yk__phase_begin(p, STEADY);
        yk__roles_set(p, member);
        p->usual_n = 0;
    }
}

void yk__retry_look(yk__policy *p, const yk__told *told)
{
    double longest = 0, compiling = 0;
    for (uint32_t r = 0; r < p->ranks; r++) {
        longest = fmax(longest, told[r].wall);
        compiling = fmax(compiling, told[r].compiling);
    }
    p->retry_cost += fmax(longest - p->usual, 0) + compiling;
    if (p->busy[p->retried].n >= 2 || p->in_phase >= 8)
        retry_end(p);
}
