/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LocalSGD: each rank steps on its own gradients, and all ranks average their parameters every k steps (local_sgd.h). The file decides when
 * they average, and weighs each rank by its rows.
 *
 * window.c (core/job/loop) calls it at a window's end, save.c and job_hash.c (core/job/checkpoint) before they read parameters, and a
 * program by yk_average_params. All ranks do so in the step thread. core/run/values/average.c adds up the parameters.
 */
#include "core/job/team/local_sgd.h"

bool yk__local_sgd_on(const yk_job *job)
{
    return job->config.local_sgd_steps && job->team.world > 1;
}

double yk__local_sgd_share(const yk_opt *opt)
{
    if (!yk__local_sgd_on(opt->job))
        return 1.0;
    return opt->window_rows.global > 0 ? (double)opt->window_rows.local / (double)opt->window_rows.global : 0.0;
}

static bool average_params(yk_job *job)
{
    yk_error err = YK_ERROR_INIT;
    if (yk__engine_average(job->engine, job->local_sgd.rows, &err))
        yk__job_fail(job, &err);
    job->local_sgd.steps = 0;
    job->local_sgd.rows = 0.0;
    return yk_ok(job);
}

static bool average_moments(yk_job *job)
{
    yk_error err = YK_ERROR_INIT;
    if (yk__engine_average_moments(job->engine, job->local_sgd.moment_rows, &err))
        yk__job_fail(job, &err);
    job->local_sgd.moment_steps = 0;
    job->local_sgd.moment_rows = 0.0;
    return yk_ok(job);
}

void yk__local_sgd_stepped(yk_opt *opt)
{
    yk__local_sgd *local = &opt->job->local_sgd;
    if (!yk__local_sgd_on(opt->job))
        return;
    local->steps++;
    local->moment_steps++;
    local->rows += (double)opt->window_rows.local;
    local->moment_rows += (double)opt->window_rows.local;
    if (local->steps >= opt->job->config.local_sgd_steps)
        average_params(opt->job);
}

bool yk__local_sgd_average(yk_job *job, bool moments)
{
    if (!yk__local_sgd_on(job) || !yk_ok(job))
        return yk_ok(job);
    if (job->local_sgd.steps && !yk__opt_window_ended(job, "yk_average_params, or a call that averages", "belong to other values"))
        return false;
    return (!job->local_sgd.steps || average_params(job)) && (!moments || !job->local_sgd.moment_steps || average_moments(job));
}

void yk_average_params(yk_job *job)
{
    YK__ACT_HERE(YK__ACT_CALL);
    if (yk_ok(job))
        yk__local_sgd_average(job, false);
}
