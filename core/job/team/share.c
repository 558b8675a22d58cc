/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times a rank's windows, reports the times to the other ranks, and turns the reports into shares and roles. yk_open makes the shares.
 * window.c and flush.c (core/job/loop) note times, and yk__share_update decides between windows. share_state.c (core/job/checkpoint) saves
 * and restores the shares. All calls are in the step thread. The lock is for a loader's thread, which reads `share` (share_rows.c).
 */
#include "core/job/team/share.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/job/opt.h"
#include "core/job/team/rank_pace.h"

#define PADDING (64u << 10)

/* Makes the arrays by rank, in one block. */
static bool arrays_new(yk__share *s, size_t ranks)
{
    s->seat = yk__calloc(ranks, sizeof *s->seat + sizeof *s->share + sizeof *s->total + sizeof *s->costly);
    s->share = s->seat ? (uint64_t *)(s->seat + ranks) : NULL;
    s->total = s->seat ? s->share + ranks : NULL;
    s->costly = s->seat ? (bool *)(s->total + ranks) : NULL;
    return s->seat != NULL;
}

yk_status yk__share_new(yk_job *job, const yk__rank_budget *budget, yk__fixed *fixed, yk_error *err)
{
    yk__share *s = yk__calloc(1, sizeof *s);
    if (!s || !arrays_new(s, job->team.world)) {
        yk__free(s);
        return yk__fail_mem(err, sizeof *s + job->team.world * sizeof *s->seat, "the shares");
    }
    job->team.share = s;
    pthread_mutex_init(&s->lock, NULL);
    for (uint32_t r = 0; r < job->team.world; r++) {
        s->seat[r] = (yk__seat){
            .forced = budget[r].forced, .stays = budget[r].stays, .limited = budget[r].limited, .quantum = budget[r].quantum,
            .part = job->team.parts.is_fixed ? job->team.parts.part[r] : 0};
        s->costly[r] = budget[r].costly;
        if (budget[r].cores)
            yk__seat_cores(&s->seat[r], budget[r].cores);
    }
    s->fixed = *fixed;
    *fixed = (yk__fixed){0};
    s->memory_budget = budget[job->team.rank].bytes;
    return YK_OK;
}

void yk__share_free(yk__share *s)
{
    if (!s)
        return;
    yk__policy_free(s->policy);
    pthread_mutex_destroy(&s->lock);
    yk__fixed_free(&s->fixed);
    yk__free(s->seat);
    yk__free(s);
}

/* ---- Timing ---- */

/* Notes a run's time. A run that first made its program (planning, a driver's compiler) says nothing about speed. */
void yk__share_run_noted(yk_job *job, bool train)
{
    yk__share *s = job->team.share;
    yk__engine_stats st;
    if (!train || !s || job->team.world == 1)
        return;
    yk__engine_stats_get(job->engine, &st);
    s->report.rows = job->step.empty ? 0.0 : (double)job->step.local_rows;
    s->max_rows = (uint64_t)s->report.rows > s->max_rows ? (uint64_t)s->report.rows : s->max_rows;
    if (st.compiles != s->compiles) {
        s->report.compiling += (double)(st.compiles - s->compiles) * st.plan_seconds;
        s->compiled = true;
    }
    s->compiles = st.compiles;
}

void yk__share_window(yk_job *job)
{
    yk__share *s = job->team.share;
    if (!s || job->team.world == 1 || !s->policy)
        return;
    if (!s->compiled && job->step.global_rows == (int64_t)s->n) {
        s->report.wall += yk__clock_seconds() - s->window_began;
        s->report.windows++;
    }
    s->undecided = true;
}

/* Rows that fit this rank's memory, from the memory of earlier rows: a part that grows with them and a fixed part. Later steps may have
 * more inputs in flight; PADDING covers rounding. */
static uint64_t rows_that_fit(const yk_job *job, const yk__engine_stats *st)
{
    const yk__share *s = job->team.share;
    const uint64_t fixed = st->param_bytes + st->grad_bytes + st->state_bytes + PADDING;
    const uint64_t grows = st->arena_bytes + 2 * st->input_bytes + st->scratch_bytes; /* the last term grows at most like the rows */
    double fit;
    if (!s->memory_budget || !s->max_rows || !grows)
        return 0;
    fit = s->memory_budget > fixed ? (double)s->max_rows * ((double)(s->memory_budget - fixed) / (double)grows) : 0.0;
    return fit < (double)s->max_rows ? s->max_rows : fit < 9e15 ? (uint64_t)fit : (uint64_t)9e15;
}

/* The part of the optimizer whose moments, and sums of gradients in slices, fit besides all rows that the rank may get; at least the part
 * that it has. */
static double part_that_fits(const yk_job *job, const yk__engine_stats *st, double rows)
{
    const yk__share *s = job->team.share;
    const double grows = (double)(st->arena_bytes + 2 * st->input_bytes + st->scratch_bytes);
    const double most = rows < (double)s->n ? rows : (double)s->n;
    double left, own, all;
    if (!s->memory_budget || !s->max_rows || !st->update_elements || !st->state_bytes || !st->sliced_bytes)
        return 0.0;
    left = (double)s->memory_budget - (double)(st->param_bytes + st->grad_bytes + st->state_bytes - st->sliced_bytes + PADDING) -
           grows * fmax(1.0, most / (double)s->max_rows);
    own = (double)st->update_elements / (double)st->trained_elements;
    all = (double)st->sliced_bytes / own;
    return fmax(left / all, own);
}

/* Windows that the schedule still has; 0 if unknown. */
static double windows_left(const yk_job *job)
{
    const yk_sched *sched = job->opt ? job->opt->sched : NULL;
    return sched && sched->total > (double)sched->step ? sched->total - (double)sched->step : 0.0;
}

static void report_complete(yk_job *job)
{
    yk__report *t = &job->team.share->report;
    yk__engine_stats st;
    yk__engine_stats_get(job->engine, &st);
    t->busy = job->team.share->timed && !job->team.share->compiled && t->rows > 0.0 ? st.busy_seconds : 0.0;
    t->cap = (double)rows_that_fit(job, &st);
    t->part = part_that_fits(job, &st, t->cap);
    if (st.update_elements)
        t->update = st.update_seconds / (double)st.update_elements * (double)st.trained_elements;
    if (st.copy_elements)
        t->copy = st.copy_seconds / (double)st.copy_elements * (double)st.trained_elements;
    t->left = windows_left(job);
}

/* ---- Deciding ---- */

yk_status yk__share_policy(yk_job *job, uint64_t n, yk_error *err)
{
    yk__share *s = job->team.share;
    yk__policy *p;
    if (yk__policy_new(job->team.world, s->seat, n, &p, err))
        return err->status;
    yk__policy_free(s->policy);
    s->policy = p;
    s->n = n;
    s->generation = UINT32_MAX;
    return YK_OK;
}

bool yk__share_follow(yk_job *job)
{
    yk__share *s = job->team.share;
    const uint64_t *share = yk__policy_decision(s->policy)->share;
    const size_t bytes = job->team.world * sizeof *share;
    bool differs;
    pthread_mutex_lock(&s->lock);
    differs = memcmp(s->share, share, bytes) != 0;
    memcpy(s->share, share, bytes);
    pthread_mutex_unlock(&s->lock);
    s->changes += differs;
    return differs;
}

/* Logs new shares and parts of the optimizer (YOKE_LOG=debug). */
static void shares_log(const yk_job *job)
{
    const yk__share *s = job->team.share;
    const double *owns = yk__policy_decision(s->policy)->owns;
    char text[400];
    size_t used = 0;
    double all = 0;
    if (job->team.rank != 0 || yk__log_level() < YK_LOG_DEBUG)
        return;
    for (uint32_t r = 0; r < job->team.world; r++)
        all += owns[r];
    for (uint32_t r = 0; r < job->team.world && used + 40 < sizeof text; r++)
        used += (size_t)snprintf(text + used, sizeof text - used, " %llu (%.2f)", (unsigned long long)s->share[r], owns[r] / all);
    yk__log(YK_LOG_DEBUG, "balance", "step %llu: shares (parts of the optimizer):%s",
            (unsigned long long)(job->opt ? job->opt->steps : 0), text);
}

static yk_status roles_take(yk_job *job, yk_error *err)
{
    yk__share *s = job->team.share;
    const yk__decision *now = yk__policy_decision(s->policy);
    if (s->generation == now->generation)
        return YK_OK;
    s->generation = now->generation;
    if (job->config.local_sgd_steps) /* every rank takes part and updates every parameter */
        return YK_OK;
    return yk__engine_set_roles(job->engine, &(yk__roles){now->member, now->owns}, err);
}

static void events_log(yk_job *job)
{
    yk__policy_event e;
    while (yk__policy_event_next(job->team.share->policy, &e)) {
        const double rows = (double)job->team.share->n * job->config.accumulate, with = rows / e.with, without = rows / e.without;
        const char *name = job->team.name[e.rank];
        if (job->team.rank != 0)
            continue;
        if (e.kind == YK_POLICY_EXCLUDED)
            yk__log(YK_LOG_WARN, "balance", "rank %u (%s) excluded: %.0f samples/s without it, %.0f with ('!' behind its device spec "
                                            "keeps it in)", e.rank, name, without, with);
        else if (e.kind == YK_POLICY_BACK)
            yk__log(YK_LOG_WARN, "balance", "rank %u (%s) takes part again: %.0f samples/s with it, %.0f without", e.rank, name, with,
                    without);
        else
            yk__log(YK_LOG_WARN, "balance", "rank %u (%s) slows the job down: %.0f samples/s with it, %.0f without; it is kept for %s",
                    e.rank, name, with, without, job->config.local_sgd_steps ? "LocalSGD" : "the '!' behind its device spec");
    }
}

/* Reports a recovery of excluded ranks, which take no part in the members' exchange. A member reports one rank after another; the first
 * member's report counts. */
static void excluded_seen(yk_job *job)
{
    yk__share *s = job->team.share;
    for (uint32_t i = 1; i <= job->team.world && s->report.faster <= 0; i++) {
        const uint32_t r = ((uint32_t)s->report.whose + i) % job->team.world;
        s->report.faster = yk__policy_decision(s->policy)->member[r] ? 0 : yk__group_shown(job->team.group, r);
        s->report.whose = r;
    }
}

static void excluded_take(const yk_job *job, yk__report *all)
{
    const bool *member = yk__policy_decision(job->team.share->policy)->member;
    for (uint32_t r = 0; r < job->team.world; r++)
        if (member[r] && all[r].faster > 0 && all[r].whose < job->team.world) {
            all[(uint32_t)all[r].whose].faster = all[r].faster;
            return;
        }
}

/* Advises the fewest equal parts of a batch that fit. */
static void rows_advise(const yk_job *job, yk_error *err)
{
    const uint64_t capacity = yk__policy_capacity(job->team.share->policy), rows = job->team.share->n;
    uint64_t times = 2;
    while (times < rows && (rows % times || rows / times > capacity))
        times++;
    yk__engine_advise(job->engine, rows, capacity ? times : 0, err);
}

/* Brings the policy's decision into force. *changed: the shares have changed. */
static yk_status decision_adopt(yk_job *job, bool *changed, yk_error *err)
{
    yk__share *s = job->team.share;
    *changed = yk__share_follow(job);
    roles_take(job, err);
    if (*changed)
        shares_log(job);
    yk__share_known(job);
    events_log(job);
    s->report = (yk__report){.whose = s->report.whose};
    return err->status;
}

static yk_status window_decide(yk_job *job, bool *changed, yk_error *err)
{
    yk__share *s = job->team.share;
    yk__report *all = yk__calloc(job->team.world, sizeof *all);
    if (!all)
        return yk__fail_mem(err, job->team.world * sizeof *all, "the shares");
    report_complete(job);
    excluded_seen(job);
    if (!yk__group_gather_members(job->team.group, &s->report, sizeof s->report, all, err)) {
        excluded_take(job, all);
        if (yk__policy_look(s->policy, all, err) == YK_E_MEM)
            rows_advise(job, err);
    }
    yk__free(all);
    s->waiting = (yk__waiting){.on = !err->status && yk__share_waits(job), .missing = true};
    return err->status || s->waiting.on ? err->status : decision_adopt(job, changed, err);
}

/* The end of a window under shares that wait for others. The policy does not see it: its decision was not in force. */
static yk_status window_wait(yk_job *job, bool *changed, yk_error *err)
{
    bool over;
    const yk__waiting *w = &job->team.share->waiting;
    if (yk__share_wait(job, &over, err) || !over)
        return err->status;
    if (job->team.rank == 0)
        yk__log(YK_LOG_DEBUG, "balance", "%u windows under the old shares, until programs for the new ones were made", w->windows);
    return decision_adopt(job, changed, err);
}

static yk_status window_ended(yk_job *job, bool *changed, yk_error *err)
{
    yk__share *s = job->team.share;
    if (!s->undecided || job->config.plan_only)
        return YK_OK;
    if (s->waiting.on)
        return window_wait(job, changed, err);
    return yk__policy_pass(s->policy) ? window_decide(job, changed, err) : YK_OK;
}

static void window_begin(yk_job *job)
{
    yk__share *s = job->team.share;
    s->timed = !s->waiting.on && yk__policy_timed(s->policy);
    s->compiled = false;
    yk__engine_measure(job->engine, s->timed);
    s->window_began = yk__clock_seconds();
}

static bool first_shares(yk_job *job, int64_t n, bool *changed)
{
    yk_error err = YK_ERROR_INIT;
    if (yk__share_policy(job, (uint64_t)n, &err) || roles_take(job, &err)) {
        yk__job_fail(job, &err);
        return false;
    }
    job->team.share->resumed = false;
    job->team.share->waiting = (yk__waiting){0};
    yk__share_follow(job);
    shares_log(job);
    yk__share_known(job);
    *changed = true; /* an existing loader split evenly so far */
    window_begin(job);
    return true;
}

bool yk__share_update(yk_job *job, int64_t n, bool *changed)
{
    yk__share *s = job->team.share;
    yk_error err = YK_ERROR_INIT;
    *changed = false;
    if (job->team.world == 1 || n <= 0)
        return true;
    if (s->fixed.is_fixed) {
        if (!s->began)
            yk__share_tell_idle(job, n);
        s->began = true;
        return true;
    }
    if (!s->policy || (s->resumed && s->n != (uint64_t)n))
        return first_shares(job, n, changed);
    if (s->resumed)
        yk__share_known(job);
    s->resumed = false;
    if (job->opt && job->opt->micro) /* within a window */
        return true;
    if (s->generation == UINT32_MAX && roles_take(job, &err)) { /* from a checkpoint */
        yk__job_fail(job, &err);
        return false;
    }
    if (!job->config.plan_only && !s->waiting.on)
        yk__recovery_watch(job);
    if (window_ended(job, changed, &err)) {
        yk__job_fail(job, &err);
        return false;
    }
    s->undecided = false;
    window_begin(job);
    return true;
}
