/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of an accumulation window: reduce, norm, judge, step, publish.
 *
 * yk__engine_update (api.c) calls yk__updater_run for yk_step, in the step thread, once for each window, on all ranks, excluded ones too.
 * yk__engine_optimizer calls yk__updater_begin once, before the first update or an earlier checkpoint. The columns reduce, norm and publish
 * of the rank's way (way.h) do the exchanges.
 */
#include "core/run/update.h"

#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/run/ways/powersgd.h"

/* Frees the arena for moments if memory is short: the next run is planned anew, with more recomputation. */
static yk_status free_arena_for_moments(yk__updater *u, yk_error *err)
{
    yk__exec *exec = u->exec;
    const yk__params *p = u->params;
    uint64_t need = 0;
    for (uint32_t i = 0; i < p->n_bucket; i++)
        need += yk__bucket_keeps_moments(p, &p->bucket[i]) ? yk__bucket_own_bytes(&p->bucket[i]) * p->n_moment : 0;
    if (!need || !yk__queue_most(exec->queue) || exec->queue->held + need <= yk__queue_most(exec->queue))
        return YK_OK;
    if (yk__queue_idle(exec->queue, err))
        return err->status;
    yk__cache_clear(exec);
    yk__arena_free(&exec->instance.arena, exec->queue);
    return YK_OK;
}

yk_status yk__updater_begin(yk__updater *u, const yk__opt_layout *layout, yk_error *err)
{
    for (uint32_t k = 0; k < u->n_optim; k++)
        if (yk__optim_set_layout(&u->optim[k], layout, err))
            return err->status;
    if (free_arena_for_moments(u, err) || yk__params_make_moments(u->params, err) || !u->params->n_moment || !u->params->state_home->clear)
        return err->status;
    for (uint32_t k = 0; k < u->n_optim; k++)
        if (u->params->state_home->clear(u->optim[k].exec, err))
            return err->status;
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
        const yk__range own = yk__range_meet(q->at, q->n, b->begin, b->end);
        const uint64_t n = own.to - own.from;
        float *x;
        if (!q->trained || !n)
            continue;
        x = yk__malloc(n * sizeof *x);
        if (!x)
            return yk__fail_mem(err, n * sizeof *x, q->name);
        if (!yk__queue_read(b->updates, yk__bucket_sums(b), yk__grad_at(p, b, own.from), x, n * sizeof *x, err) && has_bad(x, n))
            *bad = (uint32_t)i;
        yk__free(x);
        if (err->status)
            return err->status;
    }
    return YK_OK;
}

/* The first such parameter in all ranks' slices; all ranks get it. */
static yk_status find_bad(yk__params *p, uint32_t *bad, yk_error *err)
{
    return find_own_bad(p, bad, err) ? err->status : yk__exchange_least(p->exchange, bad, err);
}

/* Without loss scaling a gradient that is not finite would only spread: the job ends, and the error names the parameter. */
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

/* ---- The update ---- */

static void fill_hyper(yk__optim_programs *optim, const yk__update *update, double factor)
{
    for (uint32_t i = 0; i < optim->layout.n_group; i++) {
        float *h = optim->hyper + i * 64ull;
        memcpy(h, update->hyper[i], sizeof update->hyper[i]);
        h[YK_HYPER_GRAD_SCALE] = (float)(factor / update->divisor);
        h[YK_HYPER_CLIP] = update->clip_value > 0.0 ? (float)update->clip_value : INFINITY;
    }
}

/* Devices update at once, each its part of this rank's slices. */
static yk_status step_devices(yk__updater *u, yk_error *err)
{
    for (uint32_t k = 0; k < u->n_optim; k++) {
        const void *input = u->optim[k].hyper;
        const uint64_t bytes = u->optim[k].layout.n_group * 256ull;
        if (u->params->state_home->step(&u->optim[k], (yk__inputs){1, &input, &bytes}, err))
            return err->status;
    }
    return YK_OK;
}

/* The optimizer on this rank's slices. */
static yk_status step_slices(yk__updater *u, const yk__update *update, double factor, yk_error *err)
{
    if (u->params->exchange->part == YK__PART_EXCLUDED || yk__copies_adopt(u->params, err))
        return err->status;
    for (uint32_t k = 0; k < u->n_optim; k++) {
        if (yk__optim_make_step(&u->optim[k], err))
            return err->status;
        fill_hyper(&u->optim[k], update, factor);
    }
    u->started = yk__clock_seconds();
    if (yk__params_restore(u->params, err))
        return err->status;
    if (yk__params_offload(u->params) && (yk__params_settle(u->params, err) || yk__queue_idle(u->params->queue, err)))
        return err->status; /* the device reads the block no more, in which the host now writes */
    return yk__far_withdraw(u->params, err) ? err->status : step_devices(u, err);
}

static yk_status publish_values(yk__updater *u, yk_error *err)
{
    u->params->version++;
    return u->params->way.publish(u, err);
}

static bool signs_agree(const double sum[YK__SIGN_NUMBERS])
{
    return (uint64_t)sum[0] * (uint64_t)sum[2] == (uint64_t)sum[1] * (uint64_t)sum[1]; /* below 2^60 */
}

/* Judges the update by the sums. *factor: of clipping. done->skipped: the update must change nothing. */
static yk_status judge_gradients(yk__updater *u, const yk__update *update, yk__updated *done, double *factor, yk_error *err)
{
    double sum[2];
    *factor = 1.0;
    u->signs[0] = 1.0;
    u->signs[1] = update->sign;
    u->signs[2] = (double)update->sign * update->sign;
    if (u->params->way.norm(u, update->divisor, sum, err))
        return err->status;
    done->unlike = !signs_agree(u->signs);
    if (done->unlike)
        return yk__fail(err, YK_E_ARG, "ranks are about to update differently: every rank must run the same program with the same "
                        "settings");
    u->divisor = update->divisor;
    done->grad_norm = sum[1] > 0.0 ? INFINITY : sqrt(sum[0]); /* ways to add up differ in their sums of values that are not finite */
    done->skipped = update->check_finite && sum[1] > 0.0;
    if (done->skipped) {
        yk__exchange_clear_residual(u->params->exchange); /* its errors belong to another loss scale */
        yk__power_drop(u->params);
        return find_bad(u->params, &done->bad_param, err);
    }
    if (sum[1] > 0.0)
        return fail_not_finite(u->params, &done->not_finite, err);
    if (update->clip_norm > 0.0 && done->grad_norm + 1e-6 > update->clip_norm)
        *factor = update->clip_norm / (done->grad_norm + 1e-6);
    return YK_OK;
}

/* Reduce, norm, judge, step, publish: the chosen way defines each of them. */
yk_status yk__updater_run(yk__updater *u, const yk__update *update, yk__updated *out, yk_error *err)
{
    const bool moves = u->optim->layout.kind != YK_OPT_NONE && !update->rests;
    yk__params *p = u->params;
    yk__updated done = {.bad_param = UINT32_MAX};
    double factor;
    yk__exchange_updating(p->exchange, true);
    if (yk__params_reduce(p, err) || judge_gradients(u, update, &done, &factor, err)) {
        out->not_finite = done.not_finite;
        out->unlike = done.unlike;
        if (done.unlike && p->values != YK__VALUES_UNPUBLISHED)
            yk__exchange_updating(p->exchange, false); /* an excluded rank that reads comes to the comparison too */
        return err->status;
    }
    yk__exchange_updating(p->exchange, true); /* a wait for excluded ranks within reduce or norm published the update before */
    if (moves && !done.skipped && (step_slices(u, update, factor, err) || publish_values(u, err))) {
        out->not_finite = done.not_finite;
        return err->status;
    }
    if (p->values != YK__VALUES_UNPUBLISHED)
        yk__exchange_updating(p->exchange, false);
    p->has_updated = true;
    *out = done;
    return YK_OK;
}
