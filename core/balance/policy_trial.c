/* SPDX-License-Identifier: Apache-2.0 */
/* Trials: the choice of the next rank, and windows with and without it in turn. */
#include <math.h>
#include <string.h>

#include "core/balance/policy_inner.h"

/* Gain in rate that justifies a rank: YK__WORTH, less the measured additions of excluded ranks. */
bool yk__gain_counts(const yk__policy *p, uint32_t rank, double gain)
{
    double given = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        given += r != rank && p->excluded[r] ? p->adds[r] : 0;
    return gain > 0 && gain + given > YK__WORTH - 1;
}

double yk__flip_predict(const yk__policy *p, uint32_t rank)
{
    bool member[YK__RANKS];
    uint64_t share[YK__RANKS];
    return yk__members_flip(p, rank, !p->member[rank], member) ? yk__fit_set(p->fit, member, share) : 0;
}

/* ---- With and without -------------------------------------------------------------------------------------------- */

/* The members of a side; false if it has none. */
static bool side_members(const yk__policy *p, const yk__trial *t, bool without, bool *member)
{
    bool any = yk__members_flip(p, t->rank, !without, member);
    if (t->instead < p->ranks) {
        member[t->instead] = without;
        any = true; /* one of the two is in it */
    }
    return any;
}

static void trial_side(yk__policy *p, bool without)
{
    yk__trial *t = &p->trial;
    bool member[YK__RANKS];
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
    bool member[YK__RANKS];
    double seconds[2];
    for (int side = 0; side < 2; side++) {
        double best;
        if (!side_members(p, t, side == 1, member))
            return false;
        best = yk__fit_set(p->fit, member, t->share[side]);
        if (best <= 0)
            return false;
        if (member[t->rank] == t->was_member && !yk__shares_worth(p, t->share[side]))
            memcpy(t->share[side], p->share, sizeof p->share);
        if (member[t->rank] == t->was_member)
            memcpy(t->owns[side], p->owns, sizeof p->owns);
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
static bool trial_begin(yk__policy *p, yk__trial what)
{
    yk__trial *t = &p->trial;
    const double now = yk__times_mean(&p->wall);
    const yk__times seen = p->wall;
    *t = what;
    t->was_member = p->member[t->rank];
    if (!trial_shares(p, t))
        return false;
    yk__compare_begin(&t->compare, now);
    yk__phase_begin(p, TRIAL);
    if (seen.n && !memcmp(t->share[!t->was_member], p->share, sizeof p->share) && (t->was_member ? t->expected > YK__CLEAR : seen.n >= 2))
        yk__compare_seed(&t->compare, t->was_member ? YK__WITH : YK__WITHOUT, &seen);
    trial_side(p, t->compare.blocks && t->was_member);
    return true;
}

bool yk__trial_begin(yk__policy *p, uint32_t rank)
{
    p->tried[rank] = true;
    if (!trial_begin(p, (yk__trial){.rank = rank, .instead = p->ranks}))
        return false;
    p->promised[rank] = fmax(0, 1 / p->trial.expected - 1);
    return true;
}

/* ---- The choice of the next trial -------------------------------------------------------------------------------- */

static bool forced_costs(const yk__policy *p, uint32_t rank)
{
    const double without = p->said_costs[rank] ? 0 : yk__flip_predict(p, rank);
    return without > 0 && without * COSTLY < yk__fit_window(p->fit, p->member, p->share);
}

/* The member with the fewest rows among those that may go, or a forced one that seems to cost. */
uint32_t yk__trial_candidate(const yk__policy *p)
{
    uint32_t which = p->ranks;
    for (uint32_t r = 0; r < p->ranks; r++) {
        if (!p->member[r] || p->tried[r] || (p->seat[r].forced && !forced_costs(p, r)))
            continue;
        if (which == p->ranks || p->share[r] < p->share[which])
            which = r;
    }
    return which;
}

/* True if the lines predict a much faster job without some rank, for any shares of its rows: then its trial comes first. */
bool yk__loss_foreseen(const yk__policy *p)
{
    bool member[YK__RANKS];
    uint64_t share[YK__RANKS];
    const uint32_t rank = yk__members_count(p) > 1 ? yk__trial_candidate(p) : p->ranks;
    double with, without;
    if (rank == p->ranks || !yk__members_flip(p, rank, false, member))
        return false;
    without = yk__fit_set(p->fit, member, share);
    with = yk__fit_set(p->fit, p->member, share);
    return without > 0 && (p->early || p->seat[rank].forced ? without * YK__CLEAR < with && share[rank] <= FEW : without * ALERT < with);
}

/* The weakest member goes through its trial at once. Further members follow if that is unlikely to cost much, or if all trials together
 * cost little. */
static bool member_due(const yk__policy *p, uint32_t rank)
{
    const double with = yk__fit_window(p->fit, p->member, p->share), without = yk__flip_predict(p, rank);
    uint32_t tried = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        tried += p->member[r] && p->tried[r];
    return !tried || (tried < AT_ONCE && without < AT_ONCE_COST * with) ||
           p->trial_cost + YK__BLOCK * fmax(without - with, 0) < TRIAL_PART * p->elapsed;
}

/* True if the lines speak for an excluded rank and are not refuted: it was weighed beside other ranks, or they promise more than before. */
static bool returner_promises(const yk__policy *p, uint32_t rank)
{
    const double with = yk__flip_predict(p, rank) * (p->disturbs[rank] > 0 ? p->disturbs[rank] : 1);
    const double gain = with > 0 ? yk__fit_window(p->fit, p->member, p->share) / with - 1 : 0;
    return yk__gain_counts(p, rank, gain) && (!p->tried[rank] || gain > p->promised[rank] + YK__WORTH - 1);
}

/* The first excluded rank that is worth another trial, if that costs little of the elapsed time. */
static uint32_t returner_due(const yk__policy *p)
{
    for (uint32_t r = 0; r < p->ranks; r++) {
        const double cost = fmax(YK__BLOCK * fmax(p->harm[r], 0) + 2 * p->compiling, p->price[r]);
        if (p->excluded[r] && !p->member[r] && p->trial_cost + cost < TRIAL_PART * p->elapsed && returner_promises(p, r))
            return r;
    }
    return p->ranks;
}

static double swap_predict(const yk__policy *p, uint32_t rank, uint32_t instead)
{
    bool member[YK__RANKS];
    uint64_t share[YK__RANKS];
    memcpy(member, p->member, sizeof member);
    member[instead] = false, member[rank] = true;
    return yk__fit_set(p->fit, member, share);
}

/* The first swap of a rank is due if its prediction is below SWAP_COST times the present. A later one is due if it costs little of the
 * elapsed time. */
static bool swap_due(const yk__policy *p, uint32_t rank, double now, double then)
{
    const double cost = fmax(YK__BLOCK * fmax(then - now, 0) + 2 * p->compiling, p->price[rank]);
    return p->swapped_once[rank] ? p->trial_cost + cost < TRIAL_PART * p->elapsed : then < SWAP_COST * now;
}

/* Begins a swap. If two ranks share cores, the weaker is excluded first, by its time beside the other; alone it may be the better one. */
static bool swap_begin(yk__policy *p, uint32_t rank)
{
    const double now = yk__fit_window(p->fit, p->member, p->share);
    for (uint32_t r = 0; r < p->ranks; r++) {
        double then;
        if (!p->member[r] || p->seat[r].forced || !yk__seats_overlap(&p->seat[r], &p->seat[rank]))
            continue;
        then = swap_predict(p, rank, r);
        if (then > 0 && !swap_due(p, rank, now, then))
            continue;
        p->swapped[rank] = true;
        if (then > 0) {
            p->swapped_once[rank] = true;
            return trial_begin(p, (yk__trial){.rank = rank, .instead = r});
        }
    }
    return false;
}

bool yk__trial_next(yk__policy *p)
{
    uint32_t rank = yk__members_count(p) > 1 ? yk__trial_candidate(p) : p->ranks;
    if (rank < p->ranks && !member_due(p, rank))
        return false;
    if (rank == p->ranks)
        rank = returner_due(p);
    if (rank < p->ranks)
        return yk__trial_begin(p, rank);
    for (uint32_t r = 0; r < p->ranks; r++)
        if (p->excluded[r] && !p->member[r] && !p->swapped[r] && swap_begin(p, r))
            return true;
    return false;
}

void yk__trial_round(yk__policy *p)
{
    memset(p->tried, 0, sizeof p->tried);
    memset(p->swapped, 0, sizeof p->swapped);
}

/* A measured clear gain that the lines still predict needs no new trial. */
void yk__trial_reweigh(yk__policy *p)
{
    const double with = yk__fit_window(p->fit, p->member, p->share);
    bool clear[YK__RANKS];
    for (uint32_t r = 0; r < p->ranks; r++)
        clear[r] = p->tried[r] && p->member[r] && p->adds[r] > YK__CLEAR - 1 && yk__flip_predict(p, r) > YK__CLEAR * with;
    yk__trial_round(p);
    memcpy(p->tried, clear, p->ranks * sizeof *clear);
}

/* ---- The verdict ------------------------------------------------------------------------------------------------- */

/* Earlier trials were beside another set of ranks; a clear gain stays one. */
static void set_changed(yk__policy *p, uint32_t rank)
{
    for (uint32_t r = 0; r < p->ranks; r++)
        p->tried[r] = p->tried[r] && (r == rank || p->adds[r] > YK__CLEAR - 1);
}

/* Seconds that the slower side has cost. */
static double trial_price(const yk__trial *t, double with, double without)
{
    return with > without ? t->compare.times[YK__WITH].n * (with - without) : t->compare.times[YK__WITHOUT].n * (without - with);
}

static void rank_exclude(yk__policy *p, uint32_t rank, double with, double without)
{
    if (!p->excluded[rank]) {
        yk__event_add(p, YK_POLICY_EXCLUDED, rank, with, without);
        p->before = p->settled;
    }
    p->excluded[rank] = true;
    p->adds[rank] = fmax(0, without / with - 1);
    p->disturbs[rank] = with / without / p->trial.expected;
    p->harm[rank] = with - without;
    set_changed(p, rank);
    trial_side(p, true);
    yk__settle_begin(p);
}

static void rank_keep(yk__policy *p, uint32_t rank, double with, double without)
{
    p->adds[rank] = fmax(0, without / with - 1);
    if (p->seat[rank].forced && without * COSTLY < with) {
        p->said_costs[rank] = true;
        yk__event_add(p, YK_POLICY_COSTS, rank, with, without);
    }
    if (p->excluded[rank]) {
        yk__event_add(p, YK_POLICY_BACK, rank, with, without);
        set_changed(p, rank);
    }
    p->excluded[rank] = false;
    p->followed[rank] = 0;
    trial_side(p, false);
}

/* Keeps the set with the rank, without the other. */
static void swap_take(yk__policy *p, double with, double without)
{
    const uint32_t rank = p->trial.rank, instead = p->trial.instead;
    p->excluded[instead] = true;
    p->adds[instead] = 0;
    p->disturbs[instead] = p->disturbs[rank];
    p->harm[instead] = p->harm[rank];
    p->swapped[instead] = p->swapped_once[instead] = true;
    p->tried[instead] = true;
    yk__event_add(p, YK_POLICY_EXCLUDED, instead, without, with);
    rank_keep(p, rank, with, without);
    yk__settle_begin(p);
}

static void trial_end(yk__policy *p, bool given_up)
{
    const yk__trial *t = &p->trial;
    const double with = yk__times_mean(&t->compare.times[YK__WITH]), without = yk__times_mean(&t->compare.times[YK__WITHOUT]);
    if (p->away.usual <= 0) /* else its windows were charged one by one */
        p->trial_cost += trial_price(t, with, without);
    if (given_up || (t->instead < p->ranks && with * SWAP_WORTH > without)) {
        trial_side(p, !t->was_member);
    } else if (t->instead < p->ranks) {
        swap_take(p, with, without);
        return;
    } else if (!p->seat[t->rank].forced &&
               !yk__gain_counts(p, t->rank, without * t->possible[1] / (with * t->possible[0]) - 1)) {
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
