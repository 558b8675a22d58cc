/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yk_step and yk_end: the end of a micro batch, and of an accumulation window, the micro batches of one optimizer step. At a window's end:
 * the update by the engine (core/run), the window's loss, checks and the next window's shares.
 *
 * The user's program calls them in the step thread, on all ranks. yk_data_next and yk_sampler_next call yk__batch_leave before the next
 * batch, and then yk__window_begin, but not for evaluation; a sampler does so only if it is by_speed. yk_step returns while the device may
 * still compute.
 */
#include "core/job/loop/window.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/job/checkpoint/emergency.h"
#include "core/job/checkpoint/job_hash.h"
#include "core/job/loop/flush.h"
#include "core/job/loop/job_log.h"
#include "core/job/loop/read.h"
#include "core/job/opt.h"
#include "core/job/team/local_sgd.h"
#include "core/job/team/share.h"
#include "core/job/trace/agree.h"
#include "core/job/trace/blame.h"

static void fill_hyper(yk_opt *opt)
{
    for (size_t i = 0; i < opt->job->n_param; i++) {
        const yk__job_param *p = &opt->job->param[i];
        const yk__optim_group *g = &opt->group[p->group];
        if (p->state)
            continue;
        if (p->used)
            yk__optim_hyper(&opt->rule, opt->lr * g->lr_factor, g->weight_decay, p->steps + 1, opt->hyper[p->number]);
        else
            yk__optim_hyper_identity(opt->hyper[p->number]);
    }
}

static void count_update(yk_opt *opt)
{
    opt->stepped = true;
    opt->steps++;
    for (size_t i = 0; i < opt->job->n_param; i++)
        opt->job->param[i].steps += opt->job->param[i].used;
}

/* Remembers this micro batch's loss for the window's loss. */
static bool add_part(yk_opt *opt)
{
    yk_job *job = opt->job;
    yk__kept *k = yk__kept_find(&job->values, job->gen, job->step.loss);
    if (!k || yk__grow(&opt->part, &opt->cap_part, opt->n_part + 1, sizeof *opt->part)) {
        yk__job_failf(job, YK_E_MEM, "out of memory in yk_step");
        return false;
    }
    k->pinned = true;
    opt->part[opt->n_part++] = (yk__loss_part){.weight = job->step.loss_weight, .gen = job->gen, .vid = job->step.loss};
    opt->weight += job->step.loss_weight;
    opt->window_rows.local += job->step.empty ? 0 : job->step.local_rows - job->step.padding;
    opt->window_rows.global += job->step.global_rows;
    opt->micro++;
    return true;
}

/* Reads this rank's part of the window's loss, and releases its values. */
static void read_parts(yk_opt *opt)
{
    yk_job *job = opt->job;
    double sum = 0.0;
    for (size_t i = 0; i < opt->n_part; i++)
        for (size_t j = 0; j < job->values.n_kept; j++) {
            yk__kept *k = &job->values.kept[j];
            if (k->gen != opt->part[i].gen || k->vid != opt->part[i].vid || !k->pinned || !yk__kept_fetch(job, k))
                continue;
            k = &job->values.kept[j];
            float f;
            memcpy(&f, k->host, sizeof f);
            if (k->factor != 0.0 && opt->part[i].weight > 0.0)
                sum += opt->part[i].weight * (double)f * k->factor;
            k->pinned = false;
        }
    opt->window_loss = opt->weight > 0.0 ? sum / opt->weight : 0.0;
    opt->window_known = false;
    opt->n_part = 0;
}

static void fail_overflow(yk_job *job, uint32_t bad)
{
    const char *name = NULL;
    for (size_t i = 0; i < job->n_param && bad != UINT32_MAX; i++)
        if (!job->param[i].state && job->param[i].number == bad)
            name = job->param[i].name;
    char why[YK__NONFINITE_TEXT];
    yk__job_failf(job, YK_E_NUMERIC,
                  "the loss scale has come down to %g%s, and gradients are still not finite, %u times in a row; the first such "
                  "tensor is %s. Lower the learning rate, or train in bf16 or fp32 (stay_at_floor goes on all the same)%s",
                  job->scaler.scale, job->scaler.scale == job->scaler.floor ? ", its floor" : "", job->scaler.skips,
                  name ? name : "none: it is between parameters", yk__nonfinite_text(job, why));
}

static bool window_update(yk_opt *opt)
{
    yk_job *job = opt->job;
    yk_error err = YK_ERROR_INIT;
    yk__updated done = {0};
    const double items = opt->weight > 0.0 ? opt->weight / opt->unit : 1.0, share = yk__local_sgd_share(opt);
    const double scale = job->scaling ? job->scaler.scale : 1.0;
    fill_hyper(opt);
    const yk__update u = {.hyper = (const float(*)[YK_HYPER_COUNT])opt->hyper,
                          .divisor = items * (share > 0.0 ? share : 1.0) * scale,
                          .clip_norm = job->clip.norm,
                          .clip_value = job->clip.value,
                          .check_finite = job->scaling,
                          .rests = !(share > 0.0),
                          .sign = job->team.world > 1 ? yk__agree_update_sign(job) : 0};
    if (yk__engine_update(job->engine, &u, &done, &err)) {
        if (done.unlike) {
            yk__agree_update_tell(job);
            return false;
        }
        if (done.not_finite) {
            char why[YK__NONFINITE_TEXT], text[sizeof err.text];
            memcpy(text, err.text, sizeof text);
            yk__fail(&err, YK_E_NUMERIC, "%.240s%s", text, yk__nonfinite_text(job, why));
        }
        yk__share_explain(job, &err);
        yk__job_fail(job, &err);
        return false;
    }
    job->clip.last_norm = job->clip.norm, job->clip.last_value = job->clip.value;
    job->clip.norm = job->clip.value = 0.0;
    opt->grad_norm = done.grad_norm;
    if (job->scaling && (!yk__scaler_update(&job->scaler, done.skipped) || yk__scaler_exhausted(&job->scaler))) {
        fail_overflow(job, done.bad_param);
        return false;
    }
    if (job->scaling && job->scaler.scale != scale)
        yk__engine_scale_errors(job->engine, job->scaler.scale / scale);
    if (!done.skipped)
        count_update(opt);
    for (size_t i = 0; i < job->n_param; i++)
        job->param[i].used = false;
    return true;
}

/* Compares the ranks' parameters; in LocalSGD the next time that they should be equal. */
static void compare_params(yk_opt *opt)
{
    yk_job *job = opt->job;
    opt->compare = opt->compare || (job->team.world > 1 && opt->stepped && opt->steps % job->config.hash_every == 0);
    if (!opt->compare || job->local_sgd.steps || !yk_ok(job))
        return;
    opt->compare = false;
    yk__job_compare(job, opt->steps / job->config.hash_every);
}

static void window_finish(yk_opt *opt)
{
    yk_job *job = opt->job;
    if (!yk__opt_made(opt) || !window_update(opt))
        return;
    yk__share_window(job);
    yk__local_sgd_stepped(opt);
    read_parts(opt);
    opt->micro = 0;
    opt->weight = opt->unit = 0.0;
    opt->window_rows.local = opt->window_rows.global = 0;
    yk__emergency_stepped(job);
    compare_params(opt);
}

void yk_step(yk_opt *opt)
{
    YK__ACT_HERE(YK__ACT_CALL);
    yk_job *job = opt ? opt->job : yk__job_last();
    if (!yk__job_alive(job) || !yk__job_trains(job, "yk_step"))
        return;
    if (!opt) {
        yk__job_failf(job, YK_E_ARG, "yk_step: the optimizer is NULL: expected the result of yk_sgd, yk_adam or yk_adamw");
        return;
    }
    if (job->step.loss == YK_NONE) {
        yk__job_failf(job, YK_E_ARG, "yk_step without yk_backward: this micro batch has no gradient");
        return;
    }
    const bool last = yk_sync_gradients(job);
    opt->stepped = false;
    job->has_stepped = true;
    if (!yk__step_flush(job, true) || !add_part(opt))
        return;
    job->micro_step++;
    if (last)
        window_finish(opt);
    if (!yk_ok(job))
        return;
    yk__log_flush(job, false);
    yk__step_end(job);
}

void yk__batch_leave(yk_job *job)
{
    if (job->step.from_loader)
        yk__step_end(job);
}

bool yk__window_begin(yk_job *job, int64_t n, bool *changed)
{
    const int64_t began = yk__clock_ns();
    const bool within = job->opt && job->opt->micro;
    *changed = false;
    if (!yk__emergency_keep(job) || !yk__share_update(job, n, changed))
        return false;
    if (!within)
        yk__engine_trace_span(job->engine, "window begin", job->opt ? job->opt->steps : 0, began);
    return true;
}

static bool holds_pending(const yk_job *job)
{
    for (size_t i = 0; i < job->values.n_kept; i++)
        if (job->values.kept[i].gen == job->gen && job->values.kept[i].outlives_step && !job->values.kept[i].sent)
            return true;
    return job->step.n_assign > job->step.assign_sent;
}

void yk_end(yk_job *job)
{
    YK__ACT_HERE(YK__ACT_CALL);
    if (!job || !yk__step_open(&job->step))
        return;
    if (yk__job_alive(job) && holds_pending(job))
        yk__step_flush(job, true);
    yk__log_flush(job, false);
    yk__step_end(job);
}
