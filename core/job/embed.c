/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job inside another program: any of its threads can end the job (yk_cancel), and log lines go to the program's own log (yk_set_log).
 *
 * yk_cancel may come from any thread while the job is open. The job's own thread notices at its next wait or yk_ok, and fails with
 * YK_E_CANCELLED on all ranks.
 */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "core/base/log.h"
#include "core/job/job.h"

#define CANCELLED "cancelled by yk_cancel"

/* Ends the job from any thread. The step thread notices in its waits, and between them in yk_ok. This call informs the other ranks, as
 * this rank may compute for long. */
static void job_cancel(yk_job *job)
{
    yk_error why = YK_ERROR_INIT;
    if (yk__job_is_parents(job) || atomic_exchange(&job->cancelling, true))
        return;
    if (job->team.world > 1)
        snprintf(job->cancel_text, sizeof job->cancel_text, "rank %u: " CANCELLED, job->team.rank);
    else
        snprintf(job->cancel_text, sizeof job->cancel_text, CANCELLED);
    atomic_store(&job->cancelled, true);
    yk__fail(&why, YK_E_CANCELLED, CANCELLED);
    if (job->team.group)
        yk__group_abort(job->team.group, &why);
    if (job->device)
        yk__device_abort(job->device, YK_E_CANCELLED);
}

void yk_cancel(yk_job *job)
{
    yk__job_while_open(job, job_cancel);
}

void yk__cancel_noticed(yk_job *job)
{
    yk_error why = YK_ERROR_INIT;
    if (job->error.status || !atomic_load(&job->cancelled))
        return;
    yk__fail(&why, YK_E_CANCELLED, CANCELLED);
    yk__job_fail(job, &why); /* adds the rank's name */
}

void yk_warn(yk_job *job, const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    if (!yk_is_main(job))
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    yk__log_line("yoke: %s", yk__printable(line));
}

void yk_set_log(void (*write)(void *user, const char *line), void *user)
{
    yk__log_set_writer(write, user);
}
