/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimizers (yk_sgd, yk_adam, yk_adamw): settings, parameter groups, rates, clipping and accumulation, and their layout in the engine
 * (core/run), which does the arithmetic.
 *
 * The user's program calls it in the step thread. window.c (core/job/loop) asks yk__opt_made before a job's first update, and
 * checkpoint/save.c before it saves or loads. The job owns the optimizer.
 */
#include "core/job/opt.h"

#include <math.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/job/config_size.h"
#include "core/job/param.h"
#include "core/run/stage.h"

#define PRESET_LR 1e-3 /* PyTorch's, of sgd, adam and adamw alike */

static yk_opt *opt_new(yk_job *job, yk__optim rule, double lr, double decay)
{
    yk_error err = YK_ERROR_INIT;
    if (!yk_ok(job) || !yk__job_trains(job, "an optimizer"))
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
    *opt = (yk_opt){.job = job, .rule = rule, .lr = lr, .base_lr = lr, .n_group = 1, .grad_norm = NAN, .window_loss = NAN,
                    .since = yk__clock_seconds()};
    opt->group[0] = (yk__optim_group){1.0, decay};
    job->opt = opt;
    yk__engine_expect(job->engine, &(yk__opt_layout){.kind = rule.kind,
                                                     .flags = rule.flags,
                                                     .momentum = rule.kind == YK_OPT_SGD && rule.beta1 != 0.0});
    return opt;
}

yk_opt *(yk_sgd)(yk_job *job, const yk_sgd_config *c, size_t size)
{
    yk_sgd_config whole;
    c = yk__config_take(job, "yk_sgd", c, size, &whole, sizeof whole);
    if (!c)
        return NULL;
    uint32_t flags = (c->nesterov ? YK_OPT_NESTEROV : 0u) | (c->maximize ? YK_OPT_MAXIMIZE : 0u);
    return opt_new(job, (yk__optim){YK_OPT_SGD, flags, c->momentum, c->dampening, 0.0},
                   yk__setting_or(c->lr, PRESET_LR), c->weight_decay);
}

static yk_opt *adam_new(yk_job *job, const char *name, const yk_adam_config *c, size_t size, uint32_t flags)
{
    yk_adam_config whole;
    c = yk__config_take(job, name, c, size, &whole, sizeof whole);
    if (!c)
        return NULL;
    flags |= (c->amsgrad ? YK_OPT_AMSGRAD : 0u) | (c->maximize ? YK_OPT_MAXIMIZE : 0u);
    const yk__optim rule = {YK_OPT_ADAM, flags, yk__setting_or(c->beta1, 0.9), yk__setting_or(c->beta2, 0.999),
                            yk__setting_or(c->eps, 1e-8)};
    return opt_new(job, rule, yk__setting_or(c->lr, PRESET_LR), c->weight_decay);
}

yk_opt *(yk_adam)(yk_job *job, const yk_adam_config *c, size_t size)
{
    return adam_new(job, "yk_adam", c, size, 0);
}

yk_opt *(yk_adamw)(yk_job *job, const yk_adam_config *c, size_t size)
{
    return adam_new(job, "yk_adamw", c, size, YK_OPT_DECOUPLED);
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
    if (group >= opt->n_group || p->state || opt->job->params_fixed)
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
double yk_step_loss(yk_opt *opt)
{
    yk_error err = YK_ERROR_INIT;
    if (!opt || !yk_ok(opt->job))
        return (double)NAN;
    if (!opt->window_known && opt->job->team.world > 1 &&
        yk__group_sum_members(opt->job->team.group, &opt->window_loss, 1, &err)) {
        yk__job_fail(opt->job, &err);
        return (double)NAN;
    }
    opt->window_known = true;
    return opt->window_loss;
}

/* The most of what members give; of a rank that is excluded they get 0. */
static double longest_of(yk_job *job, double own, yk_error *err)
{
    double *all = yk__calloc(job->team.world, sizeof *all), most = own;
    if (!all)
        yk__fail_mem(err, job->team.world * sizeof *all, "the ranks' times");
    else if (!yk__group_gather_members(job->team.group, &own, sizeof own, all, err))
        most = 0.0;
    for (uint32_t r = 0; !err->status && r < job->team.world; r++)
        most = all[r] > most ? all[r] : most;
    yk__free(all);
    return most;
}

double yk_step_seconds(yk_opt *opt)
{
    yk_error err = YK_ERROR_INIT;
    double seconds;
    if (!opt || !yk_ok(opt->job))
        return (double)NAN;
    seconds = yk__clock_seconds() - opt->since;
    if (opt->job->team.world > 1)
        seconds = longest_of(opt->job, seconds, &err);
    opt->since = yk__clock_seconds();
    if (err.status)
        yk__job_fail(opt->job, &err);
    return seconds;
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
        job->clip.norm = (double)max;
}

void yk_clip_value(yk_job *job, float max)
{
    if (limit_ok(job, "yk_clip_value", max))
        job->clip.value = (double)max;
}

void yk_accumulate_end(yk_job *job)
{
    if (job) {
        job->step.window_end = true;
        job->step.window_open = false;
    }
}

void yk_accumulate_on(yk_job *job)
{
    if (job)
        job->step.window_open = true;
}

bool yk_sync_gradients(const yk_job *job)
{
    const uint32_t done = job && job->opt ? job->opt->micro : 0;
    return job && !job->step.window_open && (job->step.window_end || done + 1 >= job->config.accumulate);
}

/* A step reads the state from the disk, and writes it back, and written bytes wear a drive. The host's part of the state is as many buckets
 * as come nearest to the part that the user gave. */
static void offload_report(const yk_job *job)
{
    yk__engine_stats s;
    if (job->team.rank != 0 || job->config.quiet || job->config.plan_only)
        return;
    yk__engine_stats_get(job->engine, &s);
    if (yk__offload_part(job->config.offload) < 1 && s.trained_elements && job->team.cards)
        yk__log_line("offload: the host updates %.1f %% of the trained parameters%s",
                     100.0 * (double)s.host_elements / (double)s.trained_elements,
                     s.host_elements < s.trained_elements ? "" : ", which are one bucket: a smaller YOKE_BUCKET_BYTES makes several");
    if (s.disk_bytes)
        yk__log_line("offload: %.1f MB of the optimizer's state on disk for this rank: 1,000 steps write %.1f GB",
                     (double)s.disk_bytes / 1e6, (double)s.disk_bytes / 1e6);
}

/* Tells the engine kind and groups, once. Each parameter is a group of its own there, with a step count of its own. A parameter that no
 * loss of a window depends on rests in it (PyTorch's rule for a gradient that is None). */
static bool layout_make(yk_opt *opt)
{
    yk_job *job = opt->job;
    yk_error err = YK_ERROR_INIT;
    if (opt->job->params_fixed)
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
    if (err.status) {
        yk__job_fail(job, &err);
    } else {
        opt->job->params_fixed = true;
        offload_report(job);
    }
    return opt->job->params_fixed;
}

bool yk__opt_made(yk_opt *opt)
{
    return yk__params_ready(opt->job) && layout_make(opt);
}

bool yk__opt_window_ended(yk_job *job, const char *call, const char *why)
{
    const uint32_t n = job->opt ? job->opt->micro + job->step.loss_sent : 0;
    if (n)
        yk__job_failf(job, YK_E_ARG, "%s: %u micro batches of an accumulation window are done and their gradients %s: call it after the "
                                     "step that ends the window (yk_stepped)", call, n, why);
    return !n;
}
