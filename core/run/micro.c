/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a micro batch: looks the program up (cache.c plans and compiles a new one), runs it, starts the copies of its results to the host.
 *
 * flush.c (core/job/loop) calls yk__engine_run in three places: in yk_step, at a read of a value before yk_step, and in yk_end. yk_end
 * runs the values that are still wanted and the assignments that no step has run. blame.c (core/job/trace) calls it for a second run with
 * probes. yk__engine_run returns while the device may still run, except after a timed run; yk__engine_wait takes its *ticket.
 *
 * rows_ahead.c (core/job/loop) calls yk__engine_prepare: a thread of ahead.c then makes the program of a later micro batch. rows_ahead.c
 * and share_wait.c (core/job/team) call yk__engine_prepares, which is true while such a thread works. The step thread makes all calls.
 *
 * A window is the micro batches whose gradients are summed for one update. m->first marks its first micro batch.
 */
#include "core/run/engine.h"

static uint64_t result_bytes(const yk_value *v)
{
    const uint32_t each = v->dtype == YK_BF16 || v->dtype == YK_F16 ? 4 : yk_dtype_bytes(v->dtype);
    return (uint64_t)yk__value_count(v) * each;
}

static yk_status fetch_results(yk__engine *e, const yk__prog *p, const yk__micro *m, yk_error *err)
{
    for (uint32_t i = 0; i < m->n_result; i++) {
        const uint64_t bytes = result_bytes(&m->trace->value[m->result[i]]);
        if (bytes && yk__fetches_add(&e->fetches, &e->queue, e->exec.instance.result, p->plan->result_offset[i], m->result_host[i], bytes,
                                     err))
            return err->status;
    }
    return YK_OK;
}

/* Keeps the queue points of the last YK__TICKETS runs, for yk__engine_wait. */
static void note_ticket(yk__engine *e, uint64_t *ticket)
{
    e->ticket++;
    e->ticket_point[e->ticket % YK__TICKETS] = e->queue.last_point;
    *ticket = e->ticket;
}

static bool has_sums(const yk__graph *t)
{
    for (size_t i = 0; i < t->n_node; i++)
        if (yk__op_over_ranks(t->node[i].op))
            return true;
    return false;
}

/* A program may read copies of parameters in the compute format; yk__compute_refresh (values/compute.c) first casts the stale copies. If
 * p->settles is set, it also waits for each bucket of parameters that is on its way from another rank. */
static yk_status run_micro(yk__engine *e, const yk__micro *m, yk_error *err)
{
    yk__prog *p;
    if (yk__cache_find(&e->exec, m, &p, err) || (p->reads_compute && yk__compute_refresh(&e->exec, p->settles, err)) ||
        yk__prog_run(&e->exec, p, (yk__inputs){m->n_input, m->input, m->input_bytes}, err))
        return err->status;
    return fetch_results(e, p, m, err);
}

/* Refuses a micro batch with rows on an excluded rank, which runs nothing. */
static yk_status check_excluded(const yk__engine *e, const yk__micro *m, yk_error *err)
{
    if (m->empty)
        return YK_OK;
    return yk__fail(
        err, YK_E_ARG,
        "%s is excluded from the steps at present, and was given rows: rows are shared out by the data's loader or by "
        "yk_split",
        yk__exchange_name(&e->exchange, e->exchange.rank));
}

/* A rank without rows runs the trace only if it has sums over ranks, as the other ranks wait for them. Without such sums the rank gives
 * zeros to the gradients. If each rank keeps the sum of its own slice alone (params.scatters), yk__sums_nothing takes this rank's part in
 * these sums. Otherwise the window's first micro batch runs the cache's program that writes zeros to the gradient buckets. */
static yk_status run_empty(yk__engine *e, const yk__micro *m, yk_error *err)
{
    yk__prog *p;
    if (m->trace && e->exchange.world > 1 && has_sums(m->trace))
        return run_micro(e, m, err);
    if (m->loss == YK_NONE)
        return YK_OK;
    if (e->params.scatters)
        return yk__sums_nothing(&e->params, err);
    if (!m->first)
        return YK_OK;
    if (yk__cache_find(&e->exec, NULL, &p, err))
        return err->status;
    return yk__prog_run(&e->exec, p, (yk__inputs){0}, err);
}

/* A timed run measures busy_seconds, this rank's computing; share.c (core/job/team) divides the rows by it. yk__engine_run waits for the
 * device before queue.started is set and after the run, so that earlier commands do not count. It awaits parameters on their way first: a
 * sender's delay is not this rank's computing. In a job of one rank the time ends when the host next waits for queue.timed_point. */
static bool is_timed(const yk__engine *e, const yk__micro *m)
{
    return m->loss != YK_NONE && e->exchange.world > 1 && e->updater.measure;
}

/* yk__params_publish_late writes the newest parameters to the memory that ranks share, if an excluded rank reads them there.
 * summing.adds is false in a window's first run; in later runs slice_sums.c adds the run's pieces to the window's sums. YK__SUMS_DUE says
 * that window_reduce.c still has to sum the window's gradients, YK__SUMS_MADE that no sum is left to do. */
yk_status yk__engine_run(yk__engine *e, const yk__micro *m, uint64_t *ticket, yk_error *err)
{
    const bool timed = is_timed(e, m) && e->exchange.part != YK__PART_EXCLUDED;
    if (yk__exchange_is_read(&e->exchange) && yk__params_publish_late(&e->params, err))
        return err->status;
    if (yk__engine_lay_out(e, err) || (timed && (yk__params_settle(&e->params, err) || yk__queue_idle(&e->queue, err))))
        return err->status;
    e->queue.started = yk__clock_seconds();
    e->queue.exchanging = 0.0;
    e->params.summing.adds = !m->first;
    if (m->loss != YK_NONE)
        e->params.sums = yk__exchange_has_blocks(&e->exchange) ? YK__SUMS_DUE : YK__SUMS_MADE;
    if (e->exchange.part == YK__PART_EXCLUDED ? check_excluded(e, m, err) : m->empty ? run_empty(e, m, err) : run_micro(e, m, err))
        return err->status;
    note_ticket(e, ticket);
    e->queue.timed_point = timed || e->exchange.world == 1 ? e->queue.last_point : 0;
    return timed ? yk__queue_idle(&e->queue, err) : YK_OK;
}

yk__prepared yk__engine_prepare(yk__engine *e, yk__micro *m, uint32_t members)
{
    return yk__ahead_prepare(&e->exec, m, members);
}

bool yk__engine_prepares(yk__engine *e)
{
    return yk__ahead_runs(&e->exec);
}
