/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers: settings, parameter groups, the end of a window. */
#include <math.h>
#include <string.h>

#include "core/job/data.h"
#include "core/job/job.h"
#include "core/job/share.h"

static yk_opt *opt_new(yk_job *job, yk__optim rule, double lr, double decay)
{
    yk_error err = YK_ERROR_INIT;
    if (!yk_ok(job))
        return NULL;
    if (job->opt) {
        yk__job_failf(job, YK_E_ARG, "a job has one optimizer, and this one has it already");
        return NULL;
    }
    if (yk__optim_check(&rule, lr, decay, &err)) {
        yk__job_fail(job, &err);
        return NULL;
    }
    yk_opt *opt = yk__calloc(1, sizeof *opt);
    if (!opt) {
        yk__job_failf(job, YK_E_MEM, "out of memory for an optimizer");
        return NULL;
    }
    *opt = (yk_opt){.job = job, .rule = rule, .lr = lr, .base_lr = lr, .n_group = 1, .grad_norm = NAN, .window_loss = NAN};
    opt->group[0] = (yk__optim_group){1.0, decay};
    job->opt = opt;
    return opt;
}

yk_opt *yk_sgd(yk_job *job, const yk_sgd_config *c)
{
    static const yk_sgd_config none = {0};
    c = c ? c : &none;
    uint32_t flags = (c->nesterov ? YK_OPT_NESTEROV : 0u) | (c->maximize ? YK_OPT_MAXIMIZE : 0u);
    return opt_new(job, (yk__optim){YK_OPT_SGD, flags, c->momentum, c->dampening, 0.0}, c->lr, c->weight_decay);
}

static yk_opt *adam_new(yk_job *job, const yk_adam_config *c, uint32_t flags)
{
    static const yk_adam_config none = {.lr = 1e-3};
    c = c ? c : &none;
    flags |= (c->amsgrad ? YK_OPT_AMSGRAD : 0u) | (c->maximize ? YK_OPT_MAXIMIZE : 0u);
    const yk__optim rule = {YK_OPT_ADAM, flags, yk__setting_or(c->beta1, 0.9), yk__setting_or(c->beta2, 0.999),
                            yk__setting_or(c->eps, 1e-8)};
    return opt_new(job, rule, c->lr, c->weight_decay);
}

yk_opt *yk_adam(yk_job *job, const yk_adam_config *c)
{
    return adam_new(job, c, 0);
}

yk_opt *yk_adamw(yk_job *job, const yk_adam_config *c)
{
    return adam_new(job, c, YK_OPT_DECOUPLED);
}

void yk__opt_free(yk_opt *opt)
{
    if (!opt)
        return;
    if (opt->sched)
        yk__sched_free(opt->sched->rule);
    yk__free(opt->sched);
    yk__free(opt->part);
    yk__free(opt->hyper);
    yk__free(opt);
}

uint32_t yk_opt_group(yk_opt *opt, double lr_factor, double weight_decay)
{
    if (!opt || !yk_ok(opt->job))
        return 0;
    if (opt->n_group == sizeof opt->group / sizeof opt->group[0] || !(lr_factor >= 0.0) || !(weight_decay >= 0.0)) {
        yk__job_failf(opt->job, YK_E_ARG, "yk_opt_group: at most %zu groups, rate factor and decay 0 or more (%g, %g)",
                      sizeof opt->group / sizeof opt->group[0], lr_factor, weight_decay);
        return 0;
    }
    opt->group[opt->n_group] = (yk__optim_group){lr_factor, weight_decay};
    return opt->n_group++;
}

void yk_opt_move(yk_opt *opt, uint32_t group, yk_t param)
{
    yk__job_param *p = opt ? yk__param_of(opt->job, "yk_opt_move", param) : NULL;
    if (!p)
        return;
    if (group >= opt->n_group || p->state || opt->made)
        yk__job_failf(opt->job, YK_E_ARG, "yk_opt_move of %s to group %u: %s", p->name, group,
                      p->state             ? "it is a state"
                      : group >= opt->n_group ? "there is no such group"
                                              : "the optimizer has stepped already");
    else
        p->group = group;
}

double yk_lr(const yk_opt *opt)
{
    return opt ? opt->lr : (double)NAN;
}

void yk_set_lr(yk_opt *opt, double lr)
{
    if (!opt || !yk_ok(opt->job))
        return;
    if (!(lr >= 0.0) || isinf(lr))
        yk__job_failf(opt->job, YK_E_ARG, "yk_set_lr: %g, expected a finite number, 0 or more", lr);
    else
        opt->lr = lr;
}

bool yk_stepped(const yk_opt *opt)
{
    return opt && opt->stepped;
}

double yk_grad_norm(const yk_opt *opt)
{
    return opt ? opt->grad_norm : (double)NAN;
}

uint64_t yk_steps(const yk_opt *opt)
{
    return opt ? opt->steps : 0;
}

double yk_loss_scale(const yk_opt *opt)
{
    return opt && opt->job->scaling ? opt->job->scaler.scale : 1.0;
}

/* The parts of the ranks are added up when first asked for, so every rank must ask. */
double yk_window_loss(const yk_opt *opt)
{
    yk_error err = YK_ERROR_INIT;
    yk_opt *o = (yk_opt *)(uintptr_t)opt;
    if (!o || !yk_ok(o->job))
        return (double)NAN;
    if (!o->window_known && o->job->world > 1 && yk__group_sum_members(o->job->group, &o->window_loss, 1, &err)) {
        yk__job_fail(o->job, &err);
        return (double)NAN;
    }
    o->window_known = true;
    return o->window_loss;
}

static bool limit_ok(yk_job *job, const char *name, float max)
{
    if (!yk_ok(job))
        return false;
    if (max > 0.0f)
        return true;
    yk__job_failf(job, YK_E_ARG, "%s: the limit %g must be above 0", name, (double)max);
    return false;
}

void yk_clip_norm(yk_job *job, float max)
{
    if (limit_ok(job, "yk_clip_norm", max))
        job->clip_norm = (double)max;
}

void yk_clip_value(yk_job *job, float max)
{
    if (limit_ok(job, "yk_clip_value", max))
        job->clip_value = (double)max;
}

void yk_window_end(yk_job *job)
{
    if (yk_ok(job))
        job->window_end = true;
}

/* ---- The end of a micro batch and of a window ---- */

/* Tells the engine kind and groups, once. Each parameter is a group of its own there, because one that no loss of a window
 * depends on rests in it, with a step count of its own (PyTorch's rule for a gradient that is None). */
static bool layout_make(yk_opt *opt)
{
    yk_job *job = opt->job;
    yk_error err = YK_ERROR_INIT;
    if (opt->made)
        return true;
    for (size_t i = 0; i < job->n_param; i++)
        if (!job->param[i].state && job->param[i].number >= opt->n_hyper)
            opt->n_hyper = job->param[i].number + 1;
    uint32_t *group_of = yk__calloc((size_t)opt->n_hyper + 1, sizeof *group_of);
    opt->hyper = yk__calloc((size_t)opt->n_hyper + 1, sizeof *opt->hyper);
    if (!group_of || !opt->hyper)
        yk__fail_mem(&err, opt->n_hyper * sizeof *opt->hyper, "an optimizer");
    for (uint32_t i = 0; i < opt->n_hyper && group_of; i++)
        group_of[i] = i;
    const yk__opt_layout layout = {.kind = opt->rule.kind,
                                   .flags = opt->rule.flags,
                                   .momentum = opt->rule.kind == YK_OPT_SGD && opt->rule.beta1 != 0.0,
                                   .n_group = opt->n_hyper,
                                   .group_of = group_of};
    if (!err.status)
        yk__engine_optimizer(job->engine, &layout, &err);
    yk__free(group_of);
    if (err.status)
        yk__job_fail(job, &err);
    else
        opt->made = true;
    return opt->made;
}

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
            yk__optim_rest(opt->hyper[p->number]);
    }
}

static void count_update(yk_opt *opt)
{
    opt->stepped = true;
    opt->steps++;
    for (size_t i = 0; i < opt->job->n_param; i++)
        opt->job->param[i].steps += opt->job->param[i].used;
}

bool yk__opt_made(yk_opt *opt)
{
    return yk__params_ready(opt->job) && layout_make(opt);
}

/* Remembers this micro batch's loss for the loss of the window. */
static bool add_part(yk_opt *opt)
{
    yk_job *job = opt->job;
    yk__kept *k = yk__kept_find(job, (yk_t){(uint64_t)job->gen << 32 | job->loss});
    if (!k || yk__grow(&opt->part, &opt->cap_part, opt->n_part + 1, sizeof *opt->part)) {
        yk__job_failf(job, YK_E_MEM, "out of memory in yk_step");
        return false;
    }
    k->pinned = true;
    opt->part[opt->n_part++] = (yk__loss_part){.weight = job->loss_weight, .gen = job->gen, .vid = job->loss};
    opt->weight += job->loss_weight;
    opt->micro++;
    return true;
}

/* This rank's part of the window's loss; releases the values it is made of. */
static void read_parts(yk_opt *opt)
{
    yk_job *job = opt->job;
    double sum = 0.0;
    for (size_t i = 0; i < opt->n_part; i++)
        for (size_t j = 0; j < job->n_kept; j++) {
            yk__kept *k = &job->kept[j];
            if (k->gen != opt->part[i].gen || k->vid != opt->part[i].vid || !k->pinned || !yk__kept_fetch(job, k))
                continue;
            k = &job->kept[j];
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
    char why[400];
    yk__job_failf(job, YK_E_NUMERIC,
                  "the loss scale has come down to %g%s, and gradients are still not finite, %u times in a row; the first such "
                  "tensor is %s. Lower the learning rate, or train in bf16 or fp32 (stay_at_floor goes on all the same)%s",
                  job->scaler.scale, job->scaler.scale == job->scaler.floor ? ", its floor" : "", job->scaler.skips,
                  name ? name : "none: it is between parameters", yk__nonfinite_text(job, why, sizeof why));
}

static bool window_update(yk_opt *opt)
{
    yk_job *job = opt->job;
    yk_error err = YK_ERROR_INIT;
    yk__updated done = {0};
    double items = opt->weight > 0.0 ? opt->weight / opt->unit : 1.0;
    fill_hyper(opt);
    const yk__update u = {.hyper = (const float(*)[YK_HYPER_COUNT])opt->hyper,
                          .divisor = items * (job->scaling ? job->scaler.scale : 1.0),
                          .clip_norm = job->clip_norm,
                          .clip_value = job->clip_value,
                          .check_finite = job->scaling};
    if (yk__engine_update(job->engine, &u, &done, &err)) {
        if (err.status == YK_E_NUMERIC) {
            char why[400], text[sizeof err.text];
            memcpy(text, err.text, sizeof text);
            yk__fail(&err, YK_E_NUMERIC, "%.360s%s", text, yk__nonfinite_text(job, why, sizeof why));
        }
        yk__job_fail(job, &err);
        return false;
    }
    job->clipped_norm = job->clip_norm, job->clipped_value = job->clip_value;
    job->clip_norm = job->clip_value = 0.0;
    opt->grad_norm = done.grad_norm;
    if (job->scaling && (!yk__scaler_update(&job->scaler, done.skipped) || yk__scaler_lost(&job->scaler))) {
        fail_overflow(job, done.bad_param);
        return false;
    }
    if (!done.skipped)
        count_update(opt);
    for (size_t i = 0; i < job->n_param; i++)
        job->param[i].used = false;
    return true;
}

static void window_finish(yk_opt *opt)
{
    yk_job *job = opt->job;
    uint64_t hash;
    if (!layout_make(opt) || !window_update(opt))
        return;
    yk__share_window(job);
    read_parts(opt);
    opt->micro = 0;
    opt->weight = opt->unit = 0.0;
    if (job->world > 1 && opt->stepped && opt->steps % job->config.hash_every == 0)
        yk__job_hash(job, false, &hash);
}

void yk_step(yk_opt *opt)
{
    yk_job *job = opt ? opt->job : NULL;
    if (!yk__job_alive(job))
        return;
    if (job->loss == YK_NONE) {
        yk__job_failf(job, YK_E_ARG, "yk_step without yk_backward: this micro batch has no gradient");
        return;
    }
    bool last = job->window_end || opt->micro + 1 >= job->config.accumulate;
    opt->stepped = false;
    if (!yk__step_flush(job) || !add_part(opt))
        return;
    job->micro_step++;
    if (last)
        window_finish(opt);
    if (!yk_ok(job))
        return;
    yk__log_flush(job, false);
    yk__step_end(job);
}

/* ---- Schedules ---- */

void yk__opt_follow(yk_sched *s)
{
    double momentum;
    yk__sched_at(s->rule, s->step, &s->opt->lr, &momentum);
    if (!isnan(momentum))
        s->opt->rule.beta1 = momentum;
}

yk_sched *yk_schedule(yk_opt *opt, const yk_sched_config *c)
{
    static const yk_sched_config none = {0};
    yk_error err = YK_ERROR_INIT;
    if (!opt || !yk_ok(opt->job))
        return NULL;
    c = c ? c : &none;
    yk_sched *s = opt->sched ? NULL : yk__calloc(1, sizeof *s);
    if (!s) {
        yk__job_failf(opt->job, opt->sched ? YK_E_ARG : YK_E_MEM, "yk_schedule: %s",
                      opt->sched ? "the optimizer has a schedule already" : "out of memory");
        return NULL;
    }
    s->opt = opt;
    s->total = (double)c->total_steps;
    if (yk__sched_new(c->name, c->warmup_steps, c->total_steps, c->params, opt->lr, &s->rule, &err)) {
        yk__free(s);
        yk__job_fail(opt->job, &err);
        return NULL;
    }
    opt->sched = s;
    yk__opt_follow(s);
    return s;
}

void yk_sched_step(yk_sched *s)
{
    if (!s || !yk_ok(s->opt->job) || !s->opt->stepped)
        return;
    s->step++;
    yk__opt_follow(s);
}

void yk_sched_metric(yk_sched *s, double metric)
{
    if (!s || !yk_ok(s->opt->job) || !yk__sched_wants_metric(s->rule))
        return;
    yk__sched_metric(s->rule, metric);
    yk__opt_follow(s);
}

bool yk_sched_by_metric(const yk_sched *s)
{
    return s && yk__sched_wants_metric(s->rule);
}
