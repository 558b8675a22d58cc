/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy: members of a job, their numbers of rows, and their parts of the optimizer. Its phases:
 *
 *   probe    the first shares: even among ranks of like pace, a few rows for slower ones; timed twice
 *   grow     four times the rows for ranks that had few, so that the cost of a run and of a row come apart
 *   settle   shares follow the fitted lines (seconds over rows, line.h) until they stay
 *   trial    windows with and without the weakest rank in turn: it stays only if the job is faster with it
 *   steady   one window of ten is timed; a deviation of 15 % (windows) or 20 % (a rank) leads back to settle
 *   retry    an excluded rank gets a row for a few windows, as often as that costs no more than 0.5 % of the time
 *
 * An excluded rank whose device alone has become faster has a trial at once (policy_steady.c, recovery.c).
 *
 * Trials measure a rank's help; lines never decide it: ranks disturb each other in ways that no line knows of.
 *
 * core/job/team/share.c calls it in the step thread: yk__policy_pass after each window, and yk__policy_look with all ranks' reports. Every
 * rank computes the same decision from equal reports. core/job/checkpoint/share_state.c saves the state as numbers.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/balance/policy_inner.h"

/* ---- Objects ------------------------------------------------------------------------------------------------------ */

/* The arrays of the decision, of the trial's arms, and of calls, in one block. */
static bool arrays_new(yk__policy *p)
{
    enum { ROWS = 5, PARTS = 5, FLAGS = 3 };
    const size_t n = p->ranks;
    uint64_t *rows = p->arrays = yk__calloc(n, ROWS * sizeof(uint64_t) + PARTS * sizeof(double) + FLAGS * sizeof(bool));
    double *parts = (double *)(rows + ROWS * n);
    bool *flags = (bool *)(parts + PARTS * n);
    if (!rows)
        return false;
    p->work = (yk__policy_work){.member = flags + 2 * n, .share = rows + 3 * n, .best = rows + 4 * n, .owns = parts + 3 * n,
                                .best_parts = parts + 4 * n};
    p->now = (yk__decision){.share = rows, .owns = parts, .member = flags, .excluded = flags + n};
    for (size_t i = 0; i < 2; i++) {
        p->trial.share[i] = rows + (i + 1) * n;
        p->trial.owns[i] = parts + (i + 1) * n;
    }
    return true;
}

static yk_status policy_fill(yk__policy *p, const yk__seat *seat, yk_error *err)
{
    p->seat = yk__calloc(p->ranks, sizeof *p->seat);
    if (!p->seat || !arrays_new(p))
        return yk__fail_mem(err, p->ranks * sizeof *p->rank, "batch shares");
    memcpy(p->seat, seat, p->ranks * sizeof *seat);
    if (yk__fit_new(p->ranks, p->n, seat, &p->fit, err) || yk__schedule_new(p->fit, p->seat, &p->schedule, err))
        return err->status;
    for (uint32_t r = 0; r < p->ranks; r++)
        p->now.member[r] = true;
    p->early = true;
    p->skip = 1;
    yk__shares_first(p);
    return YK_OK;
}

yk_status yk__policy_new(uint32_t ranks, const yk__seat *seat, uint64_t n, yk__policy **out, yk_error *err)
{
    yk__policy *p = yk__calloc(1, sizeof *p + ranks * sizeof *p->rank);
    if (!p)
        return yk__fail_mem(err, ranks * sizeof *p->rank, "batch shares");
    p->ranks = ranks;
    p->n = n;
    if (policy_fill(p, seat, err)) {
        yk__policy_free(p);
        return err->status;
    }
    *out = p;
    return YK_OK;
}

void yk__policy_free(yk__policy *p)
{
    if (!p)
        return;
    yk__schedule_free(p->schedule);
    yk__fit_free(p->fit);
    yk__free(p->arrays);
    yk__free(p->seat);
    yk__free(p);
}

/* ---- Reports of the ranks ---------------------------------------------------------------------------------------- */

/* Takes the numbers; true if they are of whole windows with these shares and no compile. *mean: seconds of such a window. */
static bool report_take(yk__policy *p, const yk__report *report, double *mean)
{
    double longest = 0, windows = 0, compiling = 0;
    bool clean = !p->skip;
    *mean = 0;
    yk__fit_report(p->fit, p->now.member, report);
    for (uint32_t r = 0; r < p->ranks; r++) {
        const bool as_shared = report[r].rows == (double)p->now.share[r];
        p->left = p->now.member[r] ? report[r].left : p->left;
        longest = fmax(longest, report[r].wall);
        windows = fmax(windows, report[r].windows);
        compiling = fmax(compiling, report[r].compiling);
        *mean = fmax(*mean, report[r].windows > 0 ? report[r].wall / report[r].windows : 0);
        clean = clean && (!p->now.member[r] || (report[r].windows > 0 && as_shared));
        if (!p->skip && report[r].busy > 0 && as_shared && p->rank[r].busy.n < 8)
            yk__times_add(&p->rank[r].busy, report[r].busy);
    }
    yk__schedule_elapse(p->schedule, longest, compiling);
    yk__excursion_charge(p->schedule, longest, windows, compiling);
    p->skip -= p->skip > 0;
    return clean && compiling <= 0;
}

/* ---- The window's end -------------------------------------------------------------------------------------------- */

bool yk__policy_timed(const yk__policy *p)
{
    return p->phase == STEADY ? (p->in_phase + 1) % EVERY == 0 : p->phase != TRIAL;
}

bool yk__policy_pass(yk__policy *p)
{
    p->windows++;
    p->in_phase++;
    p->unreported++;
    if (p->phase == STEADY && p->unreported < TELL)
        return false;
    p->unreported = 0;
    return true;
}

uint64_t yk__policy_capacity(const yk__policy *p)
{
    uint64_t capacity = 0;
    for (uint32_t r = 0; r < p->ranks && capacity < p->n; r++)
        capacity += yk__fit_cap(p->fit, r) < p->n - capacity ? yk__fit_cap(p->fit, r) : p->n - capacity;
    return capacity;
}

static yk_status caps_check(const yk__policy *p, yk_error *err)
{
    const uint64_t capacity = yk__policy_capacity(p);
    if (capacity < p->n)
        return yk__fail(err, YK_E_MEM, "a batch of %llu rows does not fit: the devices' memory holds %llu", (unsigned long long)p->n,
                        (unsigned long long)capacity);
    return YK_OK;
}

/* Reduces shares that exceed the memory at once, in any phase. */
static void caps_hold(yk__policy *p)
{
    uint64_t *share = p->work.share;
    bool over = false;
    for (uint32_t r = 0; r < p->ranks; r++)
        over = over || p->now.share[r] > yk__fit_cap(p->fit, r);
    if (over && yk__fit_shares(p->fit, p->now.member, NULL, 0, share) && yk__shares_set(p, share) && p->phase != PROBE)
        yk__settle_begin(p);
}

yk_status yk__policy_look(yk__policy *p, const yk__report *report, yk_error *err)
{
    double wall;
    const bool clean = report_take(p, report, &wall);
    if (caps_check(p, err))
        return err->status;
    if (clean && p->phase != TRIAL)
        yk__times_add(&p->wall, wall);
    caps_hold(p);
    switch (p->phase) {
    case PROBE:
    case GROW: yk__probe_look(p); break;
    case SETTLE: yk__settle_look(p); break;
    case TRIAL: yk__trial_look(p, clean, wall); break;
    case STEADY: yk__steady_look(p, report, clean, wall); break;
    default: yk__retry_look(p, report); break;
    }
    return YK_OK;
}

const yk__decision *yk__policy_decision(const yk__policy *p)
{
    return &p->now;
}

bool yk__policy_event_next(yk__policy *p, yk__policy_event *e)
{
    if (!p->n_event)
        return false;
    *e = p->rank[0].event;
    p->n_event--;
    for (uint32_t i = 0; i < p->n_event; i++)
        p->rank[i].event = p->rank[i + 1].event;
    return true;
}

/* ---- Numbers for checkpoints ------------------------------------------------------------------------------------- */

enum { OF_JOB = 7, OF_RANK = 9 };

uint32_t yk__policy_count(const yk__policy *p)
{
    return OF_JOB + p->ranks * OF_RANK + (p->ranks + 1) * YK__LINE_NUMBERS;
}

/* The current state, as if no trial were under way. */
void yk__policy_get(const yk__policy *p, double *v)
{
    const yk__trial *t = &p->trial;
    const yk__schedule *s = p->schedule;
    const bool in_trial = p->phase == TRIAL;
    const uint64_t *share = in_trial ? t->share[!t->was_member] : p->now.share;
    const double *owns = in_trial ? t->owns[!t->was_member] : p->now.owns;
    const double job[OF_JOB] = {(double)p->n, (double)p->windows, s->elapsed, s->compiling, s->lost[YK__OF_EXCLUDED],
                                s->lost[YK__OF_MEMBERS], p->phase == STEADY};
    memcpy(v, job, sizeof job);
    v += OF_JOB;
    for (uint32_t r = 0; r < p->ranks; r++, v += OF_RANK) {
        const bool tries = in_trial && r == t->rank, member = tries ? t->was_member : (in_trial && r == t->instead) || p->now.member[r];
        const yk__results *results = &s->rank[r];
        const double rank[OF_RANK] = {(double)share[r], member, owns[r], p->now.excluded[r], p->fit->rank[r].update, p->fit->rank[r].copy,
                                      results->adds, results->disturbs, results->tried && !tries};
        memcpy(v, rank, sizeof rank);
    }
    yk__line_get(&p->fit->rest, v);
    for (uint32_t r = 0; r < p->ranks; r++)
        yk__line_get(&p->fit->rank[r].line, v += YK__LINE_NUMBERS);
}

static bool numbers_fit(const yk__policy *p, const double *v)
{
    double sum = 0, owns = 0;
    uint32_t members = 0;
    for (uint32_t i = 0; i < yk__policy_count(p); i++)
        if (!isfinite(v[i]) || v[i] < 0 || v[i] > 1e15)
            return false;
    for (uint32_t r = 0; r < p->ranks; r++) {
        const double *rank = v + OF_JOB + (size_t)r * OF_RANK;
        sum += rank[0];
        owns += rank[2];
        members += rank[1] != 0;
        if (rank[0] != floor(rank[0]) || (rank[1] == 0 && (rank[0] > 0 || rank[2] > 0 || p->seat[r].stays)))
            return false;
    }
    return v[0] == (double)p->n && sum == v[0] && members && owns > 0;
}

bool yk__policy_set(yk__policy *p, const double *v)
{
    if (!numbers_fit(p, v))
        return false;
    p->windows = (uint64_t)v[1];
    p->schedule->elapsed = v[2], p->schedule->compiling = v[3];
    p->schedule->lost[YK__OF_EXCLUDED] = v[4], p->schedule->lost[YK__OF_MEMBERS] = v[5];
    p->early = false;
    yk__phase_begin(p, v[6] != 0 ? STEADY : SETTLE);
    p->usual_n = p->looks = p->calm = 0;
    p->skip = 1;
    v += OF_JOB;
    for (uint32_t r = 0; r < p->ranks; r++, v += OF_RANK) {
        p->now.share[r] = (uint64_t)v[0];
        p->now.member[r] = v[1] != 0;
        p->now.owns[r] = v[2];
        p->now.excluded[r] = v[3] != 0;
        p->fit->rank[r].update = v[4], p->fit->rank[r].copy = v[5];
        p->schedule->rank[r].adds = v[6], p->schedule->rank[r].disturbs = v[7];
        p->schedule->rank[r].tried = v[8] != 0;
        p->schedule->rank[r].spent = p->now.excluded[r] ? p->schedule->lost[YK__OF_EXCLUDED] / p->ranks : 0;
    }
    yk__line_set(&p->fit->rest, v);
    for (uint32_t r = 0; r < p->ranks; r++)
        yk__line_set(&p->fit->rank[r].line, v += YK__LINE_NUMBERS);
    if (yk__fit_parts_fixed(p->fit)) /* the numbers may be of a job with other parts */
        yk__fit_parts(p->fit, p->now.member, p->now.owns);
    p->now.generation++;
    return true;
}
