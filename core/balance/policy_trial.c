/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The phase trial: windows with and without one rank run in turn, until compare.c decides. The rank stays a member only if the job is
 * faster with it. In a swap the rank takes the place of a member.
 *
 * Other phases begin a trial, and yk__policy_look (policy.c) hands it each window. Its end sets the members, lists an event, which
 * core/job/team/share.c logs, and begins settle or steady. It runs in the step thread, and is pure: all ranks decide alike.
 */
#include <math.h>
#include <string.h>

#include "core/balance/policy_inner.h"

#define SWAP_WORTH 1.03 /* required speedup of a swap: sets that are alike should not take turns */

/* ---- With and without -------------------------------------------------------------------------------------------- */

/* The members of a side; false if it has none. */
static bool side_members(const yk__policy *p, const yk__trial *t, bool without, bool *member)
{
    memcpy(member, p->now.member, p->ranks * sizeof *member);
    member[t->rank] = !without;
    if (t->instead < p->ranks)
        member[t->instead] = without;
    return yk__members_count(p->ranks, member) > 0;
}

static void trial_side(yk__policy *p, bool without)
{
    yk__trial *t = &p->trial;
    bool *member = p->work.member;
    side_members(p, t, without, member);
    yk__compare_turn(&t->compare, without ? YK__WITHOUT : YK__WITH);
    yk__roles_set(p, member, t->owns[without]);
    yk__shares_set(p, t->share[without]);
    p->skip = 1;
}

/* Gives each side its best shares. The present set keeps its shares if new ones do not earn their programs; the gain they would bring is
 * added to the measurement. */
static bool trial_shares(yk__policy *p, yk__trial *t)
{
    bool *member = p->work.member;
    double seconds[2];
    for (int side = 0; side < 2; side++) {
        double best;
        if (!side_members(p, t, side == 1, member))
            return false;
        best = yk__fit_set(p->fit, member, t->share[side]);
        if (best <= 0)
            return false;
        if (member[t->rank] == t->was_member && !yk__shares_worth(p, t->share[side]))
            memcpy(t->share[side], p->now.share, p->ranks * sizeof *p->now.share);
        if (member[t->rank] == t->was_member)
            memcpy(t->owns[side], p->now.owns, p->ranks * sizeof *p->now.owns);
        else
            yk__fit_parts(p->fit, member, t->owns[side]);
        seconds[side] = yk__fit_window(p->fit, member, t->share[side]);
        t->possible[side] = best / seconds[side];
    }
    t->expected = seconds[0] / seconds[1];
    return true;
}

/* Runs windows of each side in turn. The windows just timed count as the present set's first block if the lines predict a loss by the
 * rank, or if it is no member. */
static bool trial_begin(yk__policy *p, uint32_t rank, uint32_t instead)
{
    yk__trial *t = &p->trial;
    const double now = yk__times_mean(&p->wall);
    const yk__times seen = p->wall;
    t->rank = rank, t->instead = instead;
    t->was_member = p->now.member[t->rank];
    yk__compare_begin(&t->compare, now);
    if (!trial_shares(p, t))
        return false;
    yk__phase_begin(p, TRIAL);
    if (seen.n && !memcmp(t->share[!t->was_member], p->now.share, p->ranks * sizeof *p->now.share) &&
        (t->was_member ? t->expected > YK__CLEAR : seen.n >= 2))
        yk__compare_seed(&t->compare, t->was_member ? YK__WITH : YK__WITHOUT, &seen);
    trial_side(p, t->compare.blocks && t->was_member);
    return true;
}

bool yk__trial_begin(yk__policy *p, uint32_t rank)
{
    p->schedule->rank[rank].tried = true;
    if (!trial_begin(p, rank, p->ranks))
        return false;
    p->schedule->rank[rank].promised = fmax(0, 1 / p->trial.expected - 1);
    return true;
}

bool yk__trial_foreseen(yk__policy *p)
{
    return yk__loss_foreseen(p->schedule, &p->now, p->early) && yk__trial_begin(p, yk__schedule_candidate(p->schedule, &p->now));
}

bool yk__trial_next(yk__policy *p)
{
    yk__try next;
    while (next = yk__schedule_next(p->schedule, &p->now), next.rank < p->ranks) {
        if (next.instead == p->ranks)
            return yk__trial_begin(p, next.rank);
        if (trial_begin(p, next.rank, next.instead))
            return true;
    }
    return false;
}

/* ---- The verdict ------------------------------------------------------------------------------------------------- */

/* Seconds that the slower side has cost. */
static double trial_price(const yk__trial *t, double with, double without)
{
    return with > without ? t->compare.times[YK__WITH].n * (with - without) : t->compare.times[YK__WITHOUT].n * (without - with);
}

static void rank_exclude(yk__policy *p, uint32_t rank, double with, double without)
{
    yk__results *results = &p->schedule->rank[rank];
    if (!p->now.excluded[rank]) {
        yk__event_add(p, YK_POLICY_EXCLUDED, rank, with, without);
        for (uint32_t r = 0; r < p->ranks; r++)
            p->rank[r].before = p->rank[r].settled;
    }
    p->now.excluded[rank] = true;
    results->adds = fmax(0, without / with - 1);
    results->disturbs = with / without / p->trial.expected;
    results->harm = with - without;
    yk__schedule_set_changed(p->schedule, rank);
    trial_side(p, true);
    yk__settle_begin(p);
}

static void rank_keep(yk__policy *p, uint32_t rank, double with, double without)
{
    yk__results *results = &p->schedule->rank[rank];
    results->adds = fmax(0, without / with - 1);
    if (p->seat[rank].forced && without * YK__COSTLY < with) {
        results->said_costs = true;
        yk__event_add(p, YK_POLICY_COSTS, rank, with, without);
    }
    if (p->now.excluded[rank]) {
        yk__event_add(p, YK_POLICY_BACK, rank, with, without);
        yk__schedule_set_changed(p->schedule, rank);
    }
    p->now.excluded[rank] = false;
    results->followed = 0;
    trial_side(p, false);
}

/* Keeps the set with the rank, without the other. */
static void swap_take(yk__policy *p, double with, double without)
{
    const uint32_t rank = p->trial.rank, instead = p->trial.instead;
    yk__results *left = &p->schedule->rank[instead];
    const yk__results *results = &p->schedule->rank[rank];
    p->now.excluded[instead] = true;
    *left = (yk__results){.tried = true, .swapped = true, .swapped_once = true, .disturbs = results->disturbs, .harm = results->harm,
                          .said_costs = left->said_costs, .promised = left->promised, .followed = left->followed, .price = left->price};
    yk__event_add(p, YK_POLICY_EXCLUDED, instead, without, with);
    rank_keep(p, rank, with, without);
    yk__settle_begin(p);
}

static void trial_end(yk__policy *p, bool given_up)
{
    const yk__trial *t = &p->trial;
    const double with = yk__times_mean(&t->compare.times[YK__WITH]), without = yk__times_mean(&t->compare.times[YK__WITHOUT]);
    if (p->schedule->away.usual <= 0) /* else its windows were charged one by one */
        p->schedule->lost[YK__OF_MEMBERS] += trial_price(t, with, without);
    if (given_up || (t->instead < p->ranks && with * SWAP_WORTH > without)) {
        trial_side(p, !t->was_member);
    } else if (t->instead < p->ranks) {
        swap_take(p, with, without);
        return;
    } else if (!p->seat[t->rank].forced &&
               !yk__gain_counts(p->schedule, &p->now, t->rank, without * t->possible[1] / (with * t->possible[0]) - 1)) {
        rank_exclude(p, t->rank, with, without);
        return;
    } else {
        rank_keep(p, t->rank, with, without);
        if (!t->was_member) {
            yk__settle_begin(p);
            return;
        }
    }
    if (!yk__trial_next(p))
        yk__steady_begin(p);
}

void yk__trial_look(yk__policy *p, bool clean, double wall)
{
    yk__compare *c = &p->trial.compare;
    const yk__verdict verdict = yk__compare_window(c, clean, wall);
    if (verdict == YK__NEXT_ARM)
        trial_side(p, c->arm == YK__WITH);
    else if (verdict != YK__RUNS_ON)
        trial_end(p, verdict == YK__GIVEN_UP);
}
