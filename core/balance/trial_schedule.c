/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of the next trial, and the budgets that pay for trials (trial_schedule.h has the rule). A trial loses time: windows that are
 * slower than usual, and programs to compile. Budgets hold such seconds, and a trial is due once enough of the job's time has passed.
 *
 * The policy's phases steady, settle and trial ask it, and policy.c charges it for each window. It runs in the step thread, and is pure:
 * all ranks choose alike.
 */
#include "core/balance/trial_schedule.h"

#include <math.h>
#include <string.h>

#include "core/balance/compare.h"
#include "core/base/mem.h"

#define PART 0.005         /* each budget's part of the elapsed time: with YK__WORTH and timed windows within the 3 % */
#define AT_ONCE 2u         /* members that are tried regardless of the budget, */
#define AT_ONCE_COST 8.0   /* if windows without it are predicted longer by at most this: two of them decide, 14 windows are lost */
#define SWAP_COST 4.0      /* the same for a rank's first swap: its line was taken beside the other one and is too long */
#define FORESEEN 1.15      /* factor of predicted windows at which a trial comes before anything else, */
#define FORESEEN_ROWS 4u   /* and rows of a rank at most, for that in the first windows and for a forced rank */
#define HARM_LEAST 0.1     /* part of a window that a trial costs at least, in each of its windows */
#define ROW_WINDOWS 3u     /* windows of a rank's single row */

yk_status yk__schedule_new(const yk__fit *fit, const yk__seat *seat, yk__schedule **out, yk_error *err)
{
    yk__schedule *s = yk__calloc(1, sizeof *s + fit->ranks * sizeof *s->rank);
    if (s)
        s->arm_share = yk__calloc(fit->ranks, sizeof *s->arm_share + sizeof *s->arm_member);
    if (!s || !s->arm_share) {
        yk__free(s);
        return yk__fail_mem(err, fit->ranks * sizeof *s->rank, "batch shares");
    }
    s->arm_member = (bool *)(s->arm_share + fit->ranks);
    s->fit = fit;
    s->seat = seat;
    *out = s;
    return YK_OK;
}

void yk__schedule_free(yk__schedule *s)
{
    if (s)
        yk__free(s->arm_share);
    yk__free(s);
}

/* ---- The budgets ------------------------------------------------------------------------------------------------- */

void yk__schedule_elapse(yk__schedule *s, double seconds, double compiling)
{
    s->elapsed += seconds;
    if (compiling > 0)
        s->compiling = s->compiling > 0 ? (s->compiling + compiling) / 2 : compiling;
}

void yk__excursion_begin(yk__schedule *s, uint32_t rank, yk__budget budget, double usual)
{
    s->away = (yk__excursion){.usual = usual, .rank = rank, .budget = budget};
}

void yk__budget_charge(yk__schedule *s, uint32_t rank, yk__budget budget, double lost)
{
    s->lost[budget] += lost;
    if (budget == YK__OF_EXCLUDED)
        s->rank[rank].spent += lost;
}

void yk__excursion_charge(yk__schedule *s, double seconds, double windows, double compiling)
{
    const double lost = fmax(seconds - windows * s->away.usual, 0) + compiling;
    if (s->away.usual <= 0)
        return;
    s->away.lost += lost;
    yk__budget_charge(s, s->away.rank, s->away.budget, lost);
}

void yk__excursion_end(yk__schedule *s)
{
    if (s->away.usual > 0)
        s->rank[s->away.rank].price = s->away.lost;
    s->away.usual = 0;
}

static bool is_paid(const yk__schedule *s, yk__budget budget, double price)
{
    return s->lost[budget] + price < PART * s->elapsed;
}

/* The price of a trial in which a window of one arm is longer by so many seconds. */
static double trial_price(const yk__schedule *s, uint32_t rank, double longer)
{
    return fmax(YK__BLOCK * fmax(longer, 0) + 2 * s->compiling, s->rank[rank].price);
}

/* ---- Arms by the cost model ---------------------------------------------------------------------------------------- */

/* Seconds of a window of the set of now. */
static double now_predict(const yk__schedule *s, const yk__decision *now)
{
    return yk__fit_window(s->fit, now->member, now->share);
}

/* The same with the best shares, with `rank` a member or none; `instead` leaves, unless it is the number of ranks. 0 if impossible. Leaves
 * the shares in s->arm_share. */
static double arm_predict(const yk__schedule *s, const yk__decision *now, uint32_t rank, bool with, uint32_t instead)
{
    bool *member = s->arm_member;
    memcpy(member, now->member, s->fit->ranks * sizeof *member);
    member[rank] = with;
    if (instead < s->fit->ranks)
        member[instead] = false;
    for (uint32_t r = 0; r < s->fit->ranks; r++)
        if (member[r])
            return yk__fit_set(s->fit, member, s->arm_share);
    return 0;
}

static double flip_predict(const yk__schedule *s, const yk__decision *now, uint32_t rank)
{
    return arm_predict(s, now, rank, !now->member[rank], s->fit->ranks);
}

bool yk__gain_counts(const yk__schedule *s, const yk__decision *now, uint32_t rank, double gain)
{
    double given = 0;
    for (uint32_t r = 0; r < s->fit->ranks; r++)
        given += r != rank && now->excluded[r] ? s->rank[r].adds : 0;
    return gain > 0 && gain + given > YK__WORTH - 1;
}

/* ---- Members ------------------------------------------------------------------------------------------------------- */

static bool forced_costs(const yk__schedule *s, const yk__decision *now, uint32_t rank)
{
    const double without = s->rank[rank].said_costs ? 0 : flip_predict(s, now, rank);
    return without > 0 && without * YK__COSTLY < now_predict(s, now);
}

/* The member with the fewest rows that may go, or a forced one that seems to cost. */
uint32_t yk__schedule_candidate(const yk__schedule *s, const yk__decision *now)
{
    const uint32_t ranks = s->fit->ranks;
    uint32_t which = ranks;
    for (uint32_t r = 0; r < ranks && yk__members_count(s->fit->ranks, now->member) > 1; r++) {
        const bool weighed = s->rank[r].tried && !now->excluded[r]; /* a checkpoint of a retry has an excluded member */
        if (!now->member[r] || weighed || s->seat[r].stays || (s->seat[r].forced && !forced_costs(s, now, r)))
            continue;
        if (which == ranks || now->share[r] < now->share[which])
            which = r;
    }
    return which;
}

bool yk__loss_foreseen(const yk__schedule *s, const yk__decision *now, bool early)
{
    const uint32_t rank = yk__schedule_candidate(s, now);
    double with, without;
    if (rank == s->fit->ranks)
        return false;
    without = arm_predict(s, now, rank, false, s->fit->ranks);
    with = arm_predict(s, now, rank, true, s->fit->ranks);
    if (early || s->seat[rank].forced)
        return without > 0 && without * YK__CLEAR < with && s->arm_share[rank] <= FORESEEN_ROWS;
    return without > 0 && without * FORESEEN < with;
}

/* The weakest member goes through its trial at once. Further members follow if that is unlikely to cost much, or if the budget has it. */
static bool member_due(const yk__schedule *s, const yk__decision *now, uint32_t rank)
{
    const double with = now_predict(s, now), without = flip_predict(s, now, rank);
    uint32_t tried = 0;
    for (uint32_t r = 0; r < s->fit->ranks; r++)
        tried += now->member[r] && s->rank[r].tried;
    return !tried || (tried < AT_ONCE && without < AT_ONCE_COST * with) ||
           is_paid(s, YK__OF_MEMBERS, YK__BLOCK * fmax(without - with, 0));
}

/* ---- Excluded ranks ------------------------------------------------------------------------------------------------ */

/* The addition to the rate that the model promises of an excluded rank, whose windows it takes `factor` times as long. */
static double gain_promised(const yk__schedule *s, const yk__decision *now, uint32_t rank, double factor)
{
    const double with = flip_predict(s, now, rank) * factor;
    return with > 0 ? now_predict(s, now) / with - 1 : 0;
}

/* True if the model speaks for the rank and is not refuted: it was weighed beside other ranks, or it promises more than before. */
static bool returner_promises(const yk__schedule *s, const yk__decision *now, uint32_t rank)
{
    const yk__results *results = &s->rank[rank];
    const double gain = gain_promised(s, now, rank, results->disturbs > 0 ? results->disturbs : 1);
    return yk__gain_counts(s, now, rank, gain) && (!results->tried || gain > results->promised + YK__WORTH - 1);
}

static bool is_out(const yk__decision *now, uint32_t rank)
{
    return now->excluded[rank] && !now->member[rank];
}

static uint32_t returner_due(const yk__schedule *s, const yk__decision *now)
{
    for (uint32_t r = 0; r < s->fit->ranks; r++)
        if (is_out(now, r) && is_paid(s, YK__OF_MEMBERS, trial_price(s, r, s->rank[r].harm)) && returner_promises(s, now, r))
            return r;
    return s->fit->ranks;
}

/* The member that the rank is to replace; the number of ranks for none. If two ranks share cores, the weaker is excluded first, by its time
 * beside the other; alone it may be the better one. The first swap of a rank is due up to SWAP_COST. */
static uint32_t swap_due(yk__schedule *s, const yk__decision *now, uint32_t rank)
{
    const double usual = now_predict(s, now);
    yk__results *results = &s->rank[rank];
    for (uint32_t r = 0; r < s->fit->ranks; r++) {
        double then;
        if (!now->member[r] || s->seat[r].forced || !yk__seats_overlap(&s->seat[r], &s->seat[rank]))
            continue;
        then = arm_predict(s, now, rank, true, r);
        if (then > 0 && !(results->swapped_once ? is_paid(s, YK__OF_MEMBERS, trial_price(s, rank, then - usual))
                                                : then < SWAP_COST * usual))
            continue;
        results->swapped = true;
        if (then > 0) {
            results->swapped_once = true;
            return r;
        }
    }
    return s->fit->ranks;
}

yk__try yk__schedule_next(yk__schedule *s, const yk__decision *now)
{
    const uint32_t none = s->fit->ranks;
    yk__try next = {yk__schedule_candidate(s, now), none, false};
    if (next.rank < none && !member_due(s, now, next.rank))
        return (yk__try){none, none, false};
    if (next.rank == none)
        next.rank = returner_due(s, now);
    for (uint32_t r = 0; r < none && next.rank == none; r++)
        if (is_out(now, r) && !s->rank[r].swapped && (next.instead = swap_due(s, now, r)) < none)
            next.rank = r;
    return next;
}

static double retry_price(const yk__schedule *s, uint32_t rank, bool one_row, double usual, uint32_t block)
{
    if (!one_row)
        return fmax(block * fmax(s->rank[rank].harm, HARM_LEAST * usual) + s->compiling, s->rank[rank].price);
    return s->rank[rank].retry_cost > 0 ? s->rank[rank].retry_cost : ROW_WINDOWS * yk__fit_run(s->fit, rank, 1) + s->compiling;
}

/* A retry of one row, unless a disturbance of its trial may have excluded the rank. */
static bool retry_is_small(const yk__schedule *s, const yk__decision *now, uint32_t rank)
{
    return !yk__gain_counts(s, now, rank, gain_promised(s, now, rank, 1));
}

/* While a dear rank waits for the budget, each cheaper one spends no more than an even part of it. */
yk__try yk__schedule_retry(yk__schedule *s, const yk__decision *now, double usual, uint32_t block)
{
    const uint32_t none = s->fit->ranks;
    const double budget = PART * s->elapsed;
    uint32_t out = 0;
    bool waits = false;
    for (uint32_t r = 0; r < none; r++)
        if (is_out(now, r)) {
            out++;
            waits = waits || s->lost[YK__OF_EXCLUDED] + retry_price(s, r, retry_is_small(s, now, r), usual, block) > budget;
        }
    for (uint32_t i = 1; i <= none; i++) {
        const uint32_t r = (s->retried + i) % none;
        if (!is_out(now, r))
            continue;
        const bool one_row = retry_is_small(s, now, r);
        const double price = retry_price(s, r, one_row, usual, block);
        if (s->lost[YK__OF_EXCLUDED] + price > budget || (waits && s->rank[r].spent + price > budget / out))
            continue;
        s->retried = r;
        return (yk__try){r, none, one_row};
    }
    return (yk__try){none, none, false};
}

/* A trial is due at once if the device is clearly faster than at its last trial for that, else if the budget has it. */
bool yk__schedule_return(const yk__schedule *s, const yk__decision *now, uint32_t rank, double faster)
{
    const bool news = faster > YK__FASTER * fmax(s->rank[rank].followed, 1);
    return is_out(now, rank) && faster > YK__FASTER && (news || is_paid(s, YK__OF_EXCLUDED, s->rank[rank].price));
}

/* ---- Rounds of trials ---------------------------------------------------------------------------------------------- */

void yk__schedule_round(yk__schedule *s)
{
    for (uint32_t r = 0; r < s->fit->ranks; r++)
        s->rank[r].tried = s->rank[r].swapped = false;
}

/* A measured clear gain that the model still predicts needs no new trial. */
void yk__schedule_reweigh(yk__schedule *s, const yk__decision *now)
{
    const double with = now_predict(s, now);
    for (uint32_t r = 0; r < s->fit->ranks; r++) {
        yk__results *results = &s->rank[r];
        results->swapped = false;
        results->tried = results->tried && now->member[r] && results->adds > YK__CLEAR - 1 && flip_predict(s, now, r) > YK__CLEAR * with;
    }
}

/* Earlier trials were beside another set of ranks; a clear gain stays one. */
void yk__schedule_set_changed(yk__schedule *s, uint32_t rank)
{
    for (uint32_t r = 0; r < s->fit->ranks; r++)
        s->rank[r].tried = s->rank[r].tried && (r == rank || s->rank[r].adds > YK__CLEAR - 1);
}
