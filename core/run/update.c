/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a window: reduce, norm, clip, update of this rank's slices, gather. */
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/run/internal.h"

/* Under a memory limit the arena gives way: the next run is planned anew, with more recomputation. */
static yk_status free_arena_for_moments(yk__engine *e, yk_error *err)
{
    uint64_t need = 0;
    for (uint32_t i = 0; i < e->n_bucket; i++)
        need += (e->bucket[i].end - e->bucket[i].begin) * sizeof(float) * e->n_moment;
    if (!e->config.memory_limit || e->held + need <= e->config.memory_limit)
        return YK_OK;
    if (yk__engine_idle(e, err))
        return err->status;
    yk__cache_clear(e);
    yk__engine_unbuffer(e, &e->arena, e->arena_bytes, &e->stats.arena_bytes);
    e->arena_bytes = 0;
    return YK_OK;
}

static yk_status make_moments(yk__engine *e, yk_error *err)
{
    if (free_arena_for_moments(e, err))
        return err->status;
    for (uint32_t i = 0; i < e->n_bucket; i++) {
        yk__bucket *p = &e->bucket[i];
        const uint64_t bytes = (p->end - p->begin) * sizeof(float);
        for (uint32_t k = 0; k < e->n_moment && bytes; k++)
            if (yk__engine_buffer(e, bytes, &p->moment[k], &e->stats.state_bytes, err))
                return err->status;
    }
    return e->n_moment ? yk__store_zero(e, true, err) : YK_OK;
}

yk_status yk__engine_optimizer(yk__engine *e, const yk__opt_layout *o, yk_error *err)
{
    if (e->has_opt)
        return yk__fail(err, YK_E_ARG, "the engine has its optimizer already");
    if (yk__store_lay_out(e, err))
        return err->status;
    e->opt = *o;
    e->opt.n_group = o->n_group ? o->n_group : 1;
    e->n_moment = o->kind == YK_OPT_ADAM ? ((o->flags & YK_OPT_AMSGRAD) ? 3 : 2) : o->kind == YK_OPT_SGD && o->momentum;
    e->group_of = yk__calloc(e->n_param + 1, sizeof *e->group_of);
    if (!e->group_of)
        return yk__fail_mem(err, e->n_param * 4, "an optimizer");
    for (size_t i = 0; o->group_of && i < e->n_param; i++)
        e->group_of[i] = o->group_of[i] < e->opt.n_group ? o->group_of[i] : 0;
    e->opt.group_of = e->group_of;
    e->has_opt = true;
    return make_moments(e, err);
}

/* sum of squares and number of not finite elements of all gradients, times `scale` */
static yk_status scaled_stats(yk__engine *e, double scale, double sum[2], yk_error *err)
{
    const float in[64] = {(float)scale};
    const void *input = in;
    const uint64_t bytes = sizeof in;
    if (yk__prog_run(e, e->stat_prog, 1, &input, &bytes, err))
        return err->status;
    for (uint32_t i = 0; i < e->n_stat; i++)
        if (yk__engine_get(e, e->result, e->stat_prog->plan->result_offset[i], e->stats_host + (size_t)i * 2,
                           2 * sizeof(float), err))
            return err->status;
    if (yk__engine_idle(e, err))
        return err->status;
    sum[0] = sum[1] = 0.0;
    for (size_t i = 0; i < e->n_stat; i++) {
        sum[0] += (double)e->stats_host[2 * i];
        sum[1] += (double)e->stats_host[2 * i + 1];
    }
    return YK_OK;
}

/* The same of the sums over ranks, which went through the host: whoever owns which part, the bits are the same. */
static yk_status summed_stats(yk__engine *e, double divisor, double sum[2], yk_error *err)
{
    double v[YK__EXACT_NUMBERS];
    yk__exact_get(&e->squares, v);
    if (yk__engine_idle(e, err) || (e->talks && yk__group_sum_members(e->group, v, YK__EXACT_NUMBERS, err)))
        return err->status;
    sum[0] = yk__exact_value(v) / divisor / divisor;
    sum[1] = v[YK__EXACT_WORDS];
    return YK_OK;
}

/* The same over `divisor`. Squares of finite gradients that pass f32's range are taken again on a smaller scale. */
static yk_status grad_stats(yk__engine *e, double divisor, double sum[2], yk_error *err)
{
    if (e->world > 1)
        return summed_stats(e, divisor, sum, err);
    if (scaled_stats(e, 1.0 / divisor, sum, err) || isfinite(sum[0]) || sum[1] > 0.0)
        return err->status;
    if (scaled_stats(e, 0x1p-80 / divisor, sum, err))
        return err->status;
    sum[0] *= 0x1p160;
    return YK_OK;
}

static bool has_bad(const float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return true;
    return false;
}

/* The first parameter with a gradient in this rank's slices that is not finite. */
static yk_status find_own_bad(yk__engine *e, uint32_t *bad, yk_error *err)
{
    *bad = UINT32_MAX;
    for (size_t i = 0; i < e->n_param && *bad == UINT32_MAX; i++) {
        const yk__eparam *q = &e->param[i];
        const yk__bucket *p = &e->bucket[q->bucket];
        const uint64_t from = q->at > p->begin ? q->at : p->begin;
        const uint64_t to = q->at + q->n < p->end ? q->at + q->n : p->end;
        float *x;
        if (!q->trained || from >= to)
            continue;
        x = yk__malloc((to - from) * sizeof *x);
        if (!x)
            return yk__fail_mem(err, (to - from) * sizeof *x, q->name);
        if (!yk__store_io(e, p->grad, from * sizeof *x, x, (to - from) * sizeof *x, false, err) && has_bad(x, to - from))
            *bad = (uint32_t)i;
        yk__free(x);
        if (err->status)
            return err->status;
    }
    return YK_OK;
}

/* The first of all ranks' slices, on all ranks. */
static yk_status find_bad(yk__engine *e, uint32_t *bad, yk_error *err)
{
    uint32_t mine, *all = yk__calloc(e->world, sizeof *all);
    if (!all)
        return yk__fail_mem(err, e->world * sizeof *all, "a gradient that is not finite");
    *bad = UINT32_MAX;
    if (!find_own_bad(e, &mine, err) && !yk__group_gather_members(e->group, &mine, sizeof mine, all, err))
        for (uint32_t r = 0; r < e->world; r++)
            *bad = e->roles.member[r] && all[r] < *bad ? all[r] : *bad;
    yk__free(all);
    return err->status;
}

/* Without loss scaling a gradient that is not finite would only spread: the job ends, and names it. */
static yk_status not_finite(yk__engine *e, yk_error *err)
{
    uint32_t bad;
    if (find_bad(e, &bad, err))
        return err->status;
    if (bad == UINT32_MAX)
        return yk__fail(err, YK_E_NUMERIC, "a gradient between parameters is not finite");
    return yk__fail(err, YK_E_NUMERIC, "the gradient of \"%s\" is not finite: lower the learning rate, clip, or look at the data",
                    e->param[bad].name);
}

static yk_status run_optimizer(yk__engine *e, const yk__update *u, double factor, yk_error *err)
{
    const uint64_t bytes = e->opt.n_group * 256ull;
    const void *input = e->hyper;
    if (e->opt.kind == YK_OPT_NONE)
        return YK_OK;
    if (e->excluded)
        return yk__gather_params(e, err);
    for (uint32_t i = 0; i < e->opt.n_group; i++) {
        float *h = e->hyper + i * 64ull;
        memcpy(h, u->hyper[i], sizeof u->hyper[i]);
        h[YK_HYPER_GRAD_SCALE] = (float)(factor / u->divisor);
        h[YK_HYPER_CLIP] = u->clip_value > 0.0 ? (float)u->clip_value : INFINITY;
    }
    e->update_started = yk__seconds();
    if (yk__prog_run(e, e->opt_prog, 1, &input, &bytes, err))
        return err->status;
    return yk__gather_params(e, err);
}

yk_status yk__engine_update(yk__engine *e, const yk__update *u, yk__updated *out, yk_error *err)
{
    yk__updated done = {.bad_param = UINT32_MAX};
    double sum[2], factor = 1.0;
    if (!e->has_opt)
        return yk__fail(err, YK_E_INTERNAL, "an update before yk__engine_optimizer");
    yk__group_updating(e->group, true);
    if (yk__reduce(e, err) || (!e->excluded && yk__optim_programs(e, err)) || grad_stats(e, u->divisor, sum, err))
        return err->status;
    e->divisor = u->divisor;
    done.grad_norm = sqrt(sum[0]);
    if (u->check_finite && sum[1] > 0.0) {
        done.skipped = true;
        if (find_bad(e, &done.bad_param, err))
            return err->status;
        yk__group_updating(e->group, false);
        *out = done;
        return YK_OK;
    }
    if (sum[1] > 0.0)
        return not_finite(e, err);
    if (u->clip_norm > 0.0 && done.grad_norm + 1e-6 > u->clip_norm)
        factor = u->clip_norm / (done.grad_norm + 1e-6);
    if (run_optimizer(e, u, factor, err))
        return err->status;
    yk__group_updating(e->group, false);
    *out = done;
    return YK_OK;
}
