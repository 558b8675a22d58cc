/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules of the learning rate (yk_schedule): the optimizer takes the rate, and perhaps the momentum, of each step. core/nn has the
 * rules.
 *
 * The user's program calls yk_sched_step after yk_step, in the step thread; only a step that ended a window counts. save.c
 * (core/job/checkpoint) stores and restores the place.
 */
#include <math.h>

#include "core/job/config_size.h"
#include "core/job/opt.h"

void yk__opt_follow(yk_sched *s)
{
    double momentum;
    yk__sched_at(s->rule, s->step, &s->opt->lr, &momentum);
    if (!isnan(momentum))
        s->opt->rule.beta1 = momentum;
}

yk_sched *(yk_schedule)(yk_opt *opt, const yk_sched_config *c, size_t size)
{
    yk_sched_config whole;
    yk_error err = YK_ERROR_INIT;
    if (!opt || !yk_ok(opt->job))
        return NULL;
    c = yk__config_take(opt->job, "yk_schedule", c, size, &whole, sizeof whole);
    if (!c)
        return NULL;
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

void yk_sched_seek(yk_sched *s, uint64_t step)
{
    if (!s || !yk_ok(s->opt->job))
        return;
    s->step = step;
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
