/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a checkpoint's settings with the job's: optimizer, schedule, momentum, precision, loss scaling, shares. The job's settings hold
 * from there on; one log line names the differences.
 *
 * save.c calls it while it loads a checkpoint (yk_load), in the step thread.
 */
#include "core/job/checkpoint/resume.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/job/opt.h"
#include "core/job/team/precision.h"
#include "core/job/team/share.h"

typedef struct differences {
    char text[600];
    size_t used;
} differences;

static void note_text(differences *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void note_text(differences *d, const char *fmt, ...)
{
    va_list ap;
    const size_t space = sizeof d->text - d->used;
    int n = snprintf(d->text + d->used, space, "%s", d->used ? "; " : "");
    va_start(ap, fmt);
    n += vsnprintf(d->text + d->used + n, space - (size_t)n, fmt, ap);
    va_end(ap);
    d->used = d->used + (size_t)n < sizeof d->text - 3 ? d->used + (size_t)n : sizeof d->text - 3;
}

static void note_number(differences *d, const char *name, const json_t *was, double is)
{
    if (json_is_number(was) && json_number_value(was) != is)
        note_text(d, "%s %g, not %g", name, is, json_number_value(was));
}

/* NULL if unknown: a schedule of a version that did not save it. */
static const json_t *base_rate(const json_t *o)
{
    const json_t *base = json_object_get(o, "base_lr");
    return base || json_object_get(o, "schedule") ? base : json_object_get(o, "lr");
}

bool yk__resume_same_rate(const yk_opt *opt, const json_t *optimizer)
{
    const json_t *base = base_rate(optimizer);
    return !json_is_number(base) || json_number_value(base) == opt->base_lr;
}

bool yk__resume_same_schedule(const yk_opt *opt, const json_t *optimizer)
{
    const json_t *s = json_object_get(optimizer, "schedule");
    const char *was = json_string_value(json_object_get(s, "hash"));
    char hash[20];
    if (!s || !opt->sched)
        return !s == !opt->sched;
    return !was || !strcmp(was, yk__resume_schedule(opt, hash, sizeof hash));
}

static void note_optimizer(differences *d, const yk_opt *opt, const json_t *o)
{
    const bool adam = opt->rule.kind == YK_OPT_ADAM;
    note_number(d, "learning rate", base_rate(o), opt->base_lr);
    if (!yk__resume_momentum(opt))
        note_number(d, adam ? "beta1" : "momentum", json_object_get(o, "beta1"), opt->rule.beta1);
    note_number(d, adam ? "beta2" : "dampening", json_object_get(o, "beta2"), opt->rule.beta2);
    note_number(d, "epsilon", json_object_get(o, "eps"), opt->rule.eps);
    note_number(d, "weight decay", json_object_get(o, "weight_decay"), opt->group[0].weight_decay);
    if (!yk__resume_same_schedule(opt, o))
        note_text(d, "%s", !opt->sched                       ? "no schedule, which it had"
                      : !json_object_get(o, "schedule") ? "a schedule, which it had not"
                                                        : "another schedule or learning rate (its name, rate, warm-up, total steps "
                                                          "or settings)");
}

bool yk__resume_momentum(const yk_opt *opt)
{
    double lr, momentum = (double)NAN;
    if (opt->sched)
        yk__sched_at(opt->sched->rule, opt->sched->step, &lr, &momentum);
    return !isnan(momentum);
}

const char *yk__resume_schedule(const yk_opt *opt, char *buf, size_t n)
{
    snprintf(buf, n, "%016" PRIx64, yk__sched_hash(opt->sched->rule, 0));
    return buf;
}

/* A checkpoint of one rank, or from before the first shares, has none to compare. */
static void note_shares(differences *d, const yk_job *job, const json_t *shares)
{
    const char *was = json_string_value(json_object_get(shares, "fixed"));
    const char *now = job->team.share->fixed.text;
    if (!was)
        was = json_object_get(shares, "policy") ? "speed" : now;
    if (job->team.world > 1 && strcmp(was, now) != 0)
        note_text(d, "shares %.80s, not %.80s", now, was);
}

const char *yk__resume_scaling(yk__scaler_rule rule)
{
    static const char *const text[] = {
        [YK_SCALER_TORCH] = "torch", [YK_SCALER_DEEPSPEED] = "deepspeed", [YK_SCALER_MEGATRON] = "megatron", [YK_SCALER_FIXED] = "fixed"};
    return text[rule];
}

static void note_scaler(differences *d, const yk__scaler *s, const json_t *o)
{
    const char *was = json_string_value(json_object_get(o, "rule")), *now = yk__resume_scaling(s->rule);
    if (was && strcmp(was, now) != 0)
        note_text(d, "loss scaling %s, not %.20s", now, was);
    if (s->rule == YK_SCALER_FIXED)
        note_number(d, "loss scale", json_object_get(o, "scale"), s->scale);
    if (s->rule == YK_SCALER_FIXED || !was || strcmp(was, now) != 0)
        return;
    note_number(d, "growth of the loss scale", json_object_get(o, "growth"), s->growth);
    note_number(d, "backoff of the loss scale", json_object_get(o, "backoff"), s->backoff);
    note_number(d, "least loss scale", json_object_get(o, "floor"), s->floor);
    note_number(d, "interval of the loss scale", json_object_get(o, "interval"), s->interval);
    note_number(d, "hysteresis of the loss scale", json_object_get(o, "hysteresis"), s->hysteresis);
    note_number(d, "consecutive hysteresis", json_object_get(o, "consecutive"), s->consecutive);
}

void yk__resume_notes(const yk_job *job, const char *dir, const json_t *state)
{
    const char *precision = json_string_value(json_object_get(state, "precision")), *now = yk__precision_text(job);
    differences d = {"", 0};
    if (job->team.rank)
        return;
    if (precision && strcmp(precision, now) != 0)
        note_text(&d, "precision %s, not %s", now, precision);
    note_number(&d, "micro batches in an accumulation window", json_object_get(state, "accumulate"), job->config.accumulate);
    if (job->scaling)
        note_scaler(&d, &job->scaler, json_object_get(state, "scaler"));
    note_shares(&d, job, json_object_get(state, "shares"));
    if (job->opt)
        note_optimizer(&d, job->opt, json_object_get(state, "optimizer"));
    if (d.used)
        yk__log(YK_LOG_WARN, "resume", "%s was made with other settings; the present ones hold: %s", dir, d.text);
}
