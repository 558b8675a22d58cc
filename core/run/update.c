/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a window: reduce, norm, clip, update of this rank's slices, gather. */
#include "core/run/update.h"

#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/run/power.h"

/* Where memory is short the arena is given up for moments: the next run is planned anew, with more recomputation. */
static yk_status free_arena_for_moments(yk__updater *u, yk_error *err)
{
    yk__exec *exec = u->exec;
    const yk__params *p = u->params;
    uint64_t need = 0;
    for (uint32_t i = 0; i < p->n_bucket; i++)
        need += (p->bucket[i].end - p->bucket[i].begin) * sizeof(float) * p->n_moment;
    if (!yk__queue_most(exec->queue) || exec->queue->held + need <= yk__queue_most(exec->queue))
        return YK_OK;
    if (yk__queue_idle(exec->queue, err))
        return err->status;
    yk__cache_clear(exec);
    yk__arena_free(&exec->arena, exec->queue);
    return YK_OK;
}

yk_status yk__updater_begin(yk__updater *u, const yk__opt_layout *layout, yk_error *err)
{
    if (yk__optim_set_layout(&u->optim, layout, err) || free_arena_for_moments(u, err) || yk__params_make_moments(u->params, err))
        return err->status;
    return u->params->n_moment ? yk__fill_zero(u->exec, true, err) : YK_OK;
}

void yk__updater_free(yk__updater *u)
{
    yk__optim_free(&u->optim);
}

/* ---- The norm ---- */

/* sum of squares and number of not finite elements of all gradients, times `scale` */
static yk_status scaled_stats(yk__updater *u, double scale, double sum[2], yk_error *err)
{
    yk__exec *exec = u->exec;
    const yk__optim_programs *optim = &u->optim;
    const float in[64] = {(float)scale};
    const void *input = in;
    const uint64_t bytes = sizeof in;
    if (yk__prog_run(exec, optim->stat_prog, 1, &input, &bytes, err) ||
        (optim->n_stat && yk__queue_get(exec->queue, exec->result, 0, optim->stats, optim->stat_prog->plan->result_bytes, err)) ||
        yk__queue_idle(exec->queue, err))
        return err->status;
    sum[0] = sum[1] = 0.0;
    for (size_t i = 0; i < optim->n_stat; i++) {
        const float *stats = optim->stats + optim->stat_prog->plan->result_offset[i] / sizeof *stats;
        sum[0] += (double)stats[0];
        sum[1] += (double)stats[1];
    }
    return YK_OK;
}

#define FEW 0x1p-90 /* a sum of squares below it may lack some: those below 2^-149 are 0 in f32 */

/* The same; squares of finite gradients that leave f32's range are taken again on another scale. */
static yk_status device_stats(yk__updater *u, double divisor, double sum[2], yk_error *err)
{
    if (scaled_stats(u, 1.0 / divisor, sum, err) || sum[1] > 0.0 || (isfinite(sum[0]) && sum[0] >= FEW))
        return err->status;
    const double scale = isfinite(sum[0]) ? 0x1p100 : 0x1p-80;
    if (scaled_stats(u, scale / divisor, sum, err))
        return err->status;
    sum[0] = sum[0] / scale / scale;
    return YK_OK;
}

/* The same of the sums over ranks, which went through the host: whoever owns which part, the bits are the same. */
static yk_status summed_stats(yk__updater *u, double divisor, double sum[2], yk_error *err)
{
    double v[YK__EXACT_NUMBERS];
    yk__exact_get(&u->params->squares, v);
    if (yk__queue_idle(u->exec->queue, err) || yk__exchange_sum(u->params->exchange, v, YK__EXACT_NUMBERS, err))
        return err->status;
    sum[0] = yk__exact_value(v) / divisor / divisor;
    sum[1] = v[YK__EXACT_WORDS];
    return YK_OK;
}

/* Nothing is to be added up: through the host an only member with memory of its own would send all gradients twice a step. PowerSGD
 * changes them on their way through the host. */
static bool is_sole(const yk__params *p)
{
    return yk__exchange_updates_all(p->exchange) || (yk__exchange_members(p->exchange) == 1 && !p->power_rank);
}

/* The norm is taken where the gradients are, as by a group of one. The devices' sums are rounded, those of the host are exact. So devices
 * that an island can hold always make them, though their gradients come through the host: with an island and without bits are the same. */
static bool stats_on_device(const yk__params *p)
{
    return is_sole(p) || (!p->power_rank && yk__island_could_hold_all(&p->island));
}

/* Excluded ranks get what members found. In LocalSGD each rank has its own norm; what is not finite on one stops all. */
static yk_status own_stats(yk__updater *u, double divisor, double sum[2], yk_error *err)
{
    const yk__exchange *exchange = u->params->exchange;
    sum[0] = sum[1] = 0.0;
    if (exchange->part != YK__PART_EXCLUDED && device_stats(u, divisor, sum, err))
        return err->status;
    return exchange->part == YK__PART_LOCAL ? yk__exchange_sum(u->params->exchange, &sum[1], 1, err)
                               : yk__exchange_sum(u->params->exchange, sum, 2, err);
}

/* All ranks go the same way, by numbers that all have. */
static yk_status grad_stats(yk__updater *u, double divisor, double sum[2], yk_error *err)
{
    return stats_on_device(u->params) ? own_stats(u, divisor, sum, err) : summed_stats(u, divisor, sum, err);
}

static yk_status reduce_grads(yk__params *p, yk_error *err)
{
    if (p->is_reduced || !is_sole(p))
        return yk__params_reduce(p, err);
    p->is_reduced = true;
    p->slices_changed = false;
    return YK_OK;
}

/* ---- Gradients that are not finite ---- */

static bool has_bad(const float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return true;
    return false;
}

/* The first parameter with a gradient in this rank's slices that is not finite. */
static yk_status find_own_bad(yk__params *p, uint32_t *bad, yk_error *err)
{
    *bad = UINT32_MAX;
    for (size_t i = 0; i < p->n_param && *bad == UINT32_MAX; i++) {
        const yk__param *q = &p->param[i];
        const yk__bucket *b = &p->bucket[q->bucket];
        const uint64_t from = q->at > b->begin ? q->at : b->begin;
        const uint64_t to = q->at + q->n < b->end ? q->at + q->n : b->end;
        float *x;
        if (!q->trained || from >= to)
            continue;
        x = yk__malloc((to - from) * sizeof *x);
        if (!x)
            return yk__fail_mem(err, (to - from) * sizeof *x, q->name);
        if (!yk__queue_read(p->queue, b->grad, from * sizeof *x, x, (to - from) * sizeof *x, err) && has_bad(x, to - from))
            *bad = (uint32_t)i;
        yk__free(x);
        if (err->status)
            return err->status;
    }
    return YK_OK;
}

/* The first of all ranks' slices, on all ranks. */
static yk_status find_bad(yk__params *p, uint32_t *bad, yk_error *err)
{
    return find_own_bad(p, bad, err) ? err->status : yk__exchange_least(p->exchange, bad, err);
}

/* Without loss scaling a gradient that is not finite would only spread: the job ends, and names it. */
static yk_status fail_not_finite(yk__params *p, bool *not_finite, yk_error *err)
{
    uint32_t bad;
    if (find_bad(p, &bad, err))
        return err->status;
    *not_finite = true;
    if (bad == UINT32_MAX)
        return yk__fail(err, YK_E_NUMERIC, "a gradient between parameters is not finite");
    return yk__fail(err, YK_E_NUMERIC, "the gradient of \"%s\" is not finite: lower the learning rate, clip, or look at the data",
                    p->param[bad].name);
}

/* ---- Parameters to all ---- */

static void note_update(yk__updater *u)
{
    u->update_seconds = yk__seconds() - u->started;
    u->update_elements = 0;
    for (uint32_t i = 0; i < u->params->n_bucket; i++)
        u->update_elements += u->params->bucket[i].end - u->params->bucket[i].begin;
}

/* What this rank updated is where exchanges take it. */
static yk_status publish_own(yk__updater *u, yk_error *err)
{
    if (yk__params_publish(u->params, err) || (u->params->exchange->narrows && yk__params_round(u->params, err)))
        return err->status;
    note_update(u);
    return YK_OK;
}

/* Messages and transfers go on behind; they are waited for where they are timed. */
static yk_status take_others(yk__updater *u, yk_error *err)
{
    const uint64_t n = yk__params_taken(u->params);
    double begin;
    if (yk__params_written(u->params, err))
        return err->status;
    begin = yk__seconds();
    if (yk__params_gather(u->params, err) || !n || !u->measure || yk__params_settle(u->params, err) ||
        yk__queue_idle(u->exec->queue, err))
        return err->status;
    u->copy_seconds = yk__seconds() - begin;
    u->copy_elements = n;
    return YK_OK;
}

/* An only member's device goes on with the next step at once, and nothing leaves it, until another rank asks; so what its update takes
 * stays what was timed among others. Not where the host rounds it. */
static bool publishes_late(const yk__updater *u)
{
    const yk__exchange *exchange = u->params->exchange;
    return yk__exchange_members(exchange) == 1 && !exchange->narrows && !yk__exchange_is_read(exchange);
}

/* All ranks are one island: nobody takes parameters from the host. What the update takes is timed without a way there. */
static bool stays_on_devices(const yk__params *p)
{
    return p->exchange->medium == YK__MEMORY && !p->exchange->narrows && !p->power_rank && yk__island_holds_all(&p->island) &&
           !yk__exchange_excludes(p->exchange);
}

static yk_status spread_params(yk__updater *u, yk_error *err)
{
    u->params->is_unpublished = true;
    if (u->measure && yk__queue_idle(u->exec->queue, err))
        return err->status;
    if (u->measure)
        note_update(u);
    return yk__params_spread(u->params, err);
}

/* In common memory the copy is written again in the next update, after all ranks have added their norms: each waits for its device
 * before it does, and so for the transfers that begin here. */
static yk_status gather_params(yk__updater *u, yk_error *err)
{
    yk__params *p = u->params;
    const yk__exchange *exchange = p->exchange;
    p->version++;
    if (yk__exchange_updates_all(exchange))
        return YK_OK;
    p->compute_stale = p->compute_stale == YK__FRESH ? YK__STALE_TRAINED : p->compute_stale;
    p->is_behind = exchange->part == YK__PART_EXCLUDED;
    if (!exchange->medium || exchange->part == YK__PART_EXCLUDED)
        return YK_OK;
    if (stays_on_devices(p))
        return spread_params(u, err);
    p->is_unpublished = publishes_late(u);
    if (p->is_unpublished)
        return YK_OK;
    return publish_own(u, err) ? err->status : take_others(u, err);
}

/* ---- The update ---- */

static yk_status run_optimizer(yk__updater *u, const yk__update *update, double factor, yk_error *err)
{
    const uint64_t bytes = u->optim.layout.n_group * 256ull;
    const void *input = u->optim.hyper;
    if (u->optim.layout.kind == YK_OPT_NONE || update->rests)
        return YK_OK;
    if (u->params->exchange->part == YK__PART_EXCLUDED)
        return gather_params(u, err);
    for (uint32_t i = 0; i < u->optim.layout.n_group; i++) {
        float *h = u->optim.hyper + i * 64ull;
        memcpy(h, update->hyper[i], sizeof update->hyper[i]);
        h[YK_HYPER_GRAD_SCALE] = (float)(factor / update->divisor);
        h[YK_HYPER_CLIP] = update->clip_value > 0.0 ? (float)update->clip_value : INFINITY;
    }
    u->started = yk__seconds();
    if (yk__params_restore(u->params, err) || yk__prog_run(u->exec, u->optim.step_prog, 1, &input, &bytes, err))
        return err->status;
    return gather_params(u, err);
}

/* What of the sums decides about the update; *factor: of clipping. Skipped: nothing is to be changed. */
static yk_status judge_gradients(yk__updater *u, const yk__update *update, yk__updated *done, double *factor, yk_error *err)
{
    double sum[2];
    *factor = 1.0;
    if (grad_stats(u, update->divisor, sum, err))
        return err->status;
    u->divisor = update->divisor;
    done->grad_norm = sum[1] > 0.0 ? INFINITY : sqrt(sum[0]); /* ways to add up differ in what they make of what is not finite */
    done->skipped = update->check_finite && sum[1] > 0.0;
    if (done->skipped) {
        yk__exchange_clear_residual(u->params->exchange); /* of another loss scale */
        yk__power_drop(u->params);
        return find_bad(u->params, &done->bad_param, err);
    }
    if (sum[1] > 0.0)
        return fail_not_finite(u->params, &done->not_finite, err);
    if (update->clip_norm > 0.0 && done->grad_norm + 1e-6 > update->clip_norm)
        *factor = update->clip_norm / (done->grad_norm + 1e-6);
    return YK_OK;
}

yk_status yk__updater_run(yk__updater *u, const yk__update *update, yk__updated *out, yk_error *err)
{
    yk__params *p = u->params;
    yk__updated done = {.bad_param = UINT32_MAX};
    double factor;
    yk__exchange_updating(p->exchange, true);
    if (reduce_grads(p, err) ||
        (p->exchange->part != YK__PART_EXCLUDED && yk__optim_make(&u->optim, stats_on_device(p), err)) ||
        judge_gradients(u, update, &done, &factor, err) || (!done.skipped && run_optimizer(u, update, factor, err))) {
        out->not_finite = done.not_finite;
        return err->status;
    }
    if (!p->is_unpublished)
        yk__exchange_updating(p->exchange, false);
    *out = done;
    return YK_OK;
}
