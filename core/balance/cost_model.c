/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost model of a job's ranks: seconds of a window by members, rows and parts of the optimizer (the formula is in cost_model.h).
 *
 * policy.c makes the model. The phases (policy_*.c) add measured seconds to it, and ask it for predictions and the best parts; split.c
 * finds the best rows. It has no clock and no messages, and runs in the step thread, so equal reports give equal models on all ranks.
 */
#include "core/balance/cost_model.h"

#include <math.h>

#include "core/base/mem.h"

#define OFF 1.2 /* factor off the prediction that is a deviation */

static bool work_new(yk__fit_work *work, size_t n)
{
    work->line = yk__calloc(n, sizeof *work->line + sizeof *work->bounds + 2 * sizeof *work->near + sizeof *work->owner +
                                   4 * sizeof *work->owns);
    if (!work->line)
        return false;
    work->bounds = (yk__bounds *)(work->line + n);
    work->near = (uint64_t *)(work->bounds + n);
    work->whole = work->near + n;
    work->owner = (yk__owner_line *)(work->whole + n);
    work->most = (double *)(work->owner + n);
    work->update = work->most + n;
    work->copy = work->update + n;
    work->owns = work->copy + n;
    return true;
}

yk_status yk__fit_new(uint32_t ranks, uint64_t n, const yk__seat *seat, yk__fit **out, yk_error *err)
{
    yk__fit *f;
    if (!ranks || !n)
        return yk__fail(err, YK_E_ARG, "shares of %llu rows for %u ranks", (unsigned long long)n, ranks);
    f = yk__calloc(1, sizeof *f + ranks * sizeof *f->rank);
    if (!f || !work_new(&f->work, ranks)) {
        yk__free(f);
        return yk__fail_mem(err, ranks * sizeof *f->rank, "batch shares");
    }
    f->ranks = ranks;
    f->n = n;
    for (uint32_t r = 0; r < ranks && seat; r++) {
        f->rank[r].pace = seat[r].pace;
        f->rank[r].limited = seat[r].limited;
        f->rank[r].quantum = seat[r].quantum;
        f->rank[r].fixed = seat[r].part;
    }
    *out = f;
    return YK_OK;
}

void yk__fit_free(yk__fit *f)
{
    if (f)
        yk__free(f->work.line);
    yk__free(f);
}

uint32_t yk__members_count(uint32_t ranks, const bool *member)
{
    uint32_t sum = 0;
    for (uint32_t r = 0; r < ranks; r++)
        sum += member[r];
    return sum;
}

/* ---- Records --------------------------------------------------------------------------------------------------------- */

static bool record_holds(const yk__fit *f, uint32_t r, uint64_t rows, double seconds)
{
    return r < f->ranks && rows && seconds > 1e-9 && isfinite(seconds);
}

bool yk__fit_record(yk__fit *f, uint32_t r, uint64_t rows, double seconds)
{
    return record_holds(f, r, rows, seconds) && yk__line_record(&f->rank[r].line, (double)rows, seconds);
}

void yk__fit_renew(yk__fit *f, uint32_t r, uint64_t rows, double seconds)
{
    if (record_holds(f, r, rows, seconds))
        yk__line_renew(&f->rank[r].line, (double)rows, seconds);
}

void yk__fit_rest(yk__fit *f, const bool *member, const double *owns, double window, double longest)
{
    const double rest = window - longest - yk__fit_update(f, member, owns);
    const uint32_t members = yk__members_count(f->ranks, member);
    if (longest > 0 && rest > 1e-9 && members > 1)
        yk__line_record(&f->rest, members - 1, rest);
}

/* Disturbances only add to a time: so it moves down fast, and up by little. */
static double time_follow(double was, double is)
{
    return is <= 0 ? was : was <= 0 ? is : is < was ? (was + is) / 2 : was + (fmin(is, 2 * was) - was) / 8;
}

void yk__fit_report(yk__fit *f, const bool *member, const yk__report *report)
{
    for (uint32_t r = 0; r < f->ranks; r++) {
        yk__fit_rank *rank = &f->rank[r];
        rank->cap = member[r] ? (uint64_t)report[r].cap : rank->cap;
        rank->part = member[r] && report[r].part > 0 ? report[r].part : rank->part;
        rank->update = time_follow(rank->update, report[r].update);
        rank->copy = time_follow(rank->copy, report[r].copy);
    }
}

/* ---- The best parts of the optimizer ------------------------------------------------------------------------------ */

/* Seconds that a rank would take to update all parameters: as measured, else by its pace relative to measured ranks. */
static double update_of(const yk__fit *f, uint32_t r)
{
    const yk__fit_rank *own = &f->rank[r];
    double update = own->update;
    for (uint32_t k = 0; k < f->ranks && own->update <= 0 && own->pace > 0; k++)
        if (f->rank[k].update > 0 && f->rank[k].pace > 0)
            update = fmax(update, f->rank[k].update * own->pace / f->rank[k].pace);
    return update;
}

/* Moments are memory too. */
static double part_most(const yk__fit *f, uint32_t r)
{
    return f->rank[r].part > 0 ? fmin(f->rank[r].part, 1) : f->rank[r].limited ? 1.0 / f->ranks : 1;
}

/* True if these members' memory holds the whole optimizer. */
static bool parts_fit(const yk__fit *f, const bool *member)
{
    double most = 0;
    for (uint32_t r = 0; r < f->ranks; r++)
        most += member[r] ? part_most(f, r) : 0;
    return most > 1 - 1e-9;
}

bool yk__fit_parts_fixed(const yk__fit *f)
{
    return f->rank[0].fixed > 0;
}

void yk__fit_parts(const yk__fit *f, const bool *owner, double *owns)
{
    const yk__fit_work *work = &f->work;
    for (uint32_t r = 0; r < f->ranks; r++)
        owns[r] = owner[r] ? f->rank[r].fixed : 0;
    if (yk__fit_parts_fixed(f))
        return;
    for (uint32_t r = 0; r < f->ranks; r++) {
        work->update[r] = update_of(f, r);
        work->copy[r] = f->rank[r].copy;
        work->most[r] = part_most(f, r);
    }
    yk__owner_parts(f->ranks, owner, work->update, work->copy, work->most, work->owner, owns);
}

/* ---- Predictions -------------------------------------------------------------------------------------------------- */

double yk__fit_run(const yk__fit *f, uint32_t r, uint64_t rows)
{
    return r < f->ranks ? yk__line_predict(&f->rank[r].line, (double)rows) : 0;
}

bool yk__fit_off(const yk__fit *f, uint32_t r, uint64_t rows, double seconds)
{
    const double seen = yk__fit_run(f, r, rows);
    return seen > 0 && seconds > 0 && (seconds > OFF * seen || seconds < seen / OFF);
}

double yk__fit_longest(const yk__fit *f, const uint64_t *share)
{
    double longest = 0;
    for (uint32_t r = 0; r < f->ranks; r++)
        longest = fmax(longest, yk__fit_run(f, r, share[r]));
    return longest;
}

double yk__fit_update(const yk__fit *f, const bool *member, const double *owns)
{
    double longest = 0, sum = 0;
    for (uint32_t r = 0; r < f->ranks; r++)
        sum += owns[r];
    for (uint32_t r = 0; r < f->ranks && sum > 0; r++)
        if (member[r])
            longest = fmax(longest, (update_of(f, r) * owns[r] + f->rank[r].copy * (sum - owns[r])) / sum);
    return longest;
}

double yk__fit_window(const yk__fit *f, const bool *member, const uint64_t *share)
{
    const uint32_t members = yk__members_count(f->ranks, member);
    double *owns = f->work.owns;
    yk__fit_parts(f, member, owns);
    return yk__fit_longest(f, share) + yk__fit_update(f, member, owns) +
           (members > 1 ? yk__line_predict(&f->rest, members - 1) : f->rest.a);
}

double yk__fit_set(const yk__fit *f, const bool *member, uint64_t *share)
{
    return parts_fit(f, member) && yk__fit_shares(f, member, NULL, 0, share) ? yk__fit_window(f, member, share) : 0;
}
