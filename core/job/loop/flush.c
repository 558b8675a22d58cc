/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the traced part of the current step, and ends the step, in the step thread. window.c calls both parts in yk_step and yk_end. A
 * user's read of a value runs the step earlier (read.c), so a step may run more than once. read.c waits for a run by its ticket.
 */
#include "core/job/loop/flush.h"

#include "core/base/log.h"
#include "core/job/loop/rows_ahead.h"
#include "core/job/opt.h"
#include "core/job/param.h"
#include "core/job/team/share.h"
#include "core/job/trace/count.h"
#include "core/job/trace/sharding.h"

/* Lists the step's values that the host wants; false after a failure. */
static bool gather_wanted(yk_job *job, uint32_t *n)
{
    yk__step_lists *r = &job->step.lists;
    *n = 0;
    if (yk__grow(&r->value, &r->cap_value, job->values.n_kept, sizeof *r->value) ||
        yk__grow(&r->host, &r->cap_host, job->values.n_kept, sizeof *r->host) ||
        yk__grow(&r->input, &r->cap_input, job->step.n_input, sizeof *r->input) ||
        yk__grow(&r->input_bytes, &r->cap_input_bytes, job->step.n_input, sizeof *r->input_bytes)) {
        yk__job_failf(job, YK_E_MEM, "out of memory for a step");
        return false;
    }
    for (size_t i = 0; i < job->values.n_kept; i++) {
        const yk__kept *k = &job->values.kept[i];
        if (k->gen != job->gen || k->sent)
            continue;
        r->value[*n] = k->source;
        r->host[(*n)++] = k->host;
    }
    return true;
}

static void mark_sent(yk_job *job, uint64_t ticket, bool assigns)
{
    yk__step *step = &job->step;
    for (size_t i = 0; i < job->values.n_kept; i++) {
        yk__kept *k = &job->values.kept[i];
        if (k->gen != job->gen || k->sent)
            continue;
        k->sent = true;
        k->own_counts = !step->counted_ranks;
        k->ticket = ticket;
        k->ready = step->empty && !yk__sharding_of(job, k->vid).exchanged;
        k->absent = !k->loss && yk__sharding_of(job, k->vid).exchanged && job->team.world > 1 &&
                    !yk__group_member(job->team.group, job->team.rank);
    }
    step->loss_sent = step->loss != YK_NONE;
    step->assign_sent = assigns ? step->n_assign : step->assign_sent;
}

#define WARM_UP 8 /* runs in which new programs are expected */

/* Logs once that a program was made in the middle of training, and the input with the new shape. */
static void compile_noted(yk_job *job)
{
    yk__step *step = &job->step;
    yk__engine_stats st;
    char was[96], is[96], where[160];
    yk__engine_stats_get(job->engine, &st);
    bool made = ++job->watch.runs > WARM_UP && st.compiles != job->watch.compiles && !job->watch.reported;
    uint32_t n = step->n_input < 8 ? (uint32_t)step->n_input : 8;
    for (uint32_t i = 0; i < n; i++) {
        yk__vid leaf = step->input[i].leaf;
        if (leaf >= step->trace.n_value || step->input[i].scalars)
            continue;
        const yk_value *x = &step->trace.value[leaf];
        if (made && i < job->watch.n_last && !job->watch.reported && !yk__value_same_shape(x, &job->watch.last_input[i])) {
            yk__log(YK_LOG_INFO, "job", "%s: a program was made again after the start: input %u was %s and is %s",
                    yk__here_text(where, sizeof where), i, yk__value_shape_text(&job->watch.last_input[i], was, sizeof was),
                    yk__value_shape_text(x, is, sizeof is));
            job->watch.reported = true;
        }
        job->watch.last_input[i] = *x;
    }
    job->watch.n_last = n;
    job->watch.compiles = st.compiles;
}

static bool trace_run(yk_job *job, uint32_t n_wanted, bool train, bool assigns)
{
    yk__step *step = &job->step;
    yk_error err = YK_ERROR_INIT;
    uint64_t ticket = 0;
    for (size_t i = 0; i < step->n_input; i++) {
        step->lists.input[i] = step->input[i].data;
        step->lists.input_bytes[i] = step->input[i].bytes;
    }
    uint32_t done = job->opt ? job->opt->micro : 0;
    const yk__micro m = {.trace = &step->trace,
                         .loss = train ? step->loss : YK_NONE,
                         .seed = train ? step->seed : YK_NONE,
                         .first = done == 0,
                         .empty = step->empty,
                         .rows = (uint64_t)step->local_rows,
                         .n_input = (uint32_t)step->n_input,
                         .input = step->lists.input,
                         .input_bytes = step->lists.input_bytes,
                         .n_result = n_wanted,
                         .result = step->lists.value,
                         .result_host = step->lists.host,
                         .n_assign = assigns ? (uint32_t)(step->n_assign - step->assign_sent) : 0,
                         .assign = assigns ? step->assign + step->assign_sent : NULL,
                         .n_recompute = (uint32_t)step->n_recompute,
                         .recompute = step->recompute,
                         .n_full = (uint32_t)step->n_full,
                         .full = step->full};
    if (yk__engine_run(job->engine, &m, &ticket, &err)) {
        yk__share_explain(job, &err);
        yk__job_fail(job, &err);
        return false;
    }
    if (train) {
        yk__rows_prepare(job, &m);
        compile_noted(job);
    }
    yk__share_run_noted(job, train);
    mark_sent(job, ticket, assigns);
    return true;
}

/* Gives every rank the state of rank `root`. */
static yk_status broadcast_state(yk_job *job, const yk__job_param *p, uint32_t root, yk_error *err)
{
    const uint64_t bytes = p->n * yk_dtype_bytes(p->dtype);
    void *v = yk__malloc(bytes);
    if (!v)
        return yk__fail_mem(err, bytes, p->name);
    if (!yk__engine_state_read(job->engine, p->number, v, err) &&
        !yk__group_broadcast_members(job->team.group, root, v, bytes, err) && job->step.empty)
        yk__engine_state_write(job->engine, p->number, v, err);
    yk__free(v);
    return err->status;
}

/* The first member with rows. Collective. */
static uint32_t rank_with_rows(const yk_job *job, yk_error *err)
{
    double *with = yk__calloc(job->team.world, sizeof *with);
    uint32_t first = 0;
    if (!with) {
        yk__fail_mem(err, job->team.world * sizeof *with, "the ranks with rows");
        return 0;
    }
    with[job->team.rank] = job->step.empty ? 0.0 : 1.0;
    yk__group_sum_members(job->team.group, with, job->team.world, err);
    while (first + 1 < job->team.world && with[first] == 0.0)
        first++;
    yk__free(with);
    return first;
}

/* A rank without rows computed no running statistics, so it takes them from the first rank with rows. */
static bool broadcast_states(yk_job *job, size_t from)
{
    yk_error err = YK_ERROR_INIT;
    const uint32_t root = rank_with_rows(job, &err);
    for (size_t i = from; i < job->step.n_assign && yk__group_member(job->team.group, job->team.rank); i++)
        for (size_t k = 0; k < job->n_param && !err.status; k++)
            if (job->param[k].state && job->param[k].number == job->step.assign[i].state)
                broadcast_state(job, &job->param[k], root, &err);
    if (err.status)
        yk__job_fail(job, &err);
    return yk_ok(job);
}

/* True if a wanted or assigned value depends on an exchange: all ranks are here then, and it needs their counts. */
static bool needs_counts(const yk_job *job)
{
    bool met = job->step.assigns_exchanged;
    if (job->team.world == 1 || job->step.counted_ranks)
        return false;
    for (size_t i = 0; i < job->values.n_kept && !met; i++)
        met = job->values.kept[i].gen == job->gen && !job->values.kept[i].sent && yk__sharding_of(job, job->values.kept[i].vid).exchanged;
    return met;
}

bool yk__step_flush(yk_job *job, bool ends)
{
    YK__ACT_HERE(YK__ACT_CALL);
    yk__step *step = &job->step;
    uint32_t wanted;
    bool train = step->loss != YK_NONE && !step->loss_sent;
    const size_t assigned = step->assign_sent;
    const bool assigns = (train || ends) && step->n_assign > assigned;
    if (!yk__job_alive(job))
        return false;
    if (step->recomputing) {
        yk__job_failf(job, YK_E_ARG, "yk_recompute_begin without its yk_recompute_end");
        return false;
    }
    if (step->is_full) {
        yk__job_failf(job, YK_E_ARG, "yk_full_precision_begin without its yk_full_precision_end");
        return false;
    }
    if (!gather_wanted(job, &wanted))
        return false;
    if (!train && !wanted && !assigns)
        return true;
    if (job->training && job->emergency.keep && !job->emergency.keep(job))
        return false;
    if (needs_counts(job) && !yk__count_ranks(job))
        return false;
    if (!yk__params_ready(job) || !trace_run(job, wanted, train, assigns))
        return false;
    bool without = job->team.world > 1 && step->any_empty && assigns;
    return !without || broadcast_states(job, assigned);
}

void yk__step_end(yk_job *job)
{
    if (++job->gen == 0) {
        job->gen = 1;
        for (size_t i = 0; i < job->n_param; i++)
            job->param[i].leaf_gen = job->param[i].assigned = 0;
    }
    yk__step_clear(&job->step);
    yk__call_sites_clear(&job->sites);
    yk__values_age(&job->values, job->engine);
}
