/* SPDX-License-Identifier: Apache-2.0 */
/* The job's log: values are written a step after they were named, so that nobody waits for them. */
#include <string.h>

#include "core/io/tracker.h"
#include "core/job/job.h"

void yk_track_open(yk_job *job, const char *path)
{
    yk_error err = YK_ERROR_INIT;
    if (!yk_ok(job))
        return;
    if (job->logging) {
        yk__job_failf(job, YK_E_ARG, "yk_track_open %s: the job tracks into a file already", path);
        return;
    }
    job->logging = true;
    if (job->rank == 0 && yk__tracker_open(path, &job->tracker, &err))
        yk__job_fail(job, &err);
}

void yk_track(yk_job *job, const char *name, yk_t x)
{
    if (!yk_ok(job) || !job->logging)
        return;
    x = yk_keep(x);
    if (!x.id)
        return;
    yk__log_entry e = {yk__strdup(name), x, job->opt ? job->opt->steps : job->micro_step};
    if (!e.name || yk__grow(&job->log, &job->cap_log, job->n_log + 1, sizeof e)) {
        yk__free(e.name);
        yk__job_failf(job, YK_E_MEM, "out of memory in yk_track");
        return;
    }
    job->log[job->n_log++] = e;
}

/* Writes entries [from, to), all of one step. */
static void write_line(yk_job *job, size_t from, size_t to)
{
    const char *name[32];
    double value[32];
    uint32_t n = 0;
    for (size_t i = from; i < to && n < 32; i++, n++) {
        name[n] = job->log[i].name;
        value[n] = yk_item(job->log[i].value); /* summed where it is a loss, so every rank comes here */
    }
    if (job->tracker)
        yk__tracker_line(job->tracker, job->log[from].step, n, name, value);
}

void yk__log_flush(yk_job *job, bool all)
{
    size_t done = 0;
    while (done < job->n_log && yk_ok(job)) {
        size_t to = done;
        bool now = (uint16_t)(job->log[done].value.id >> 32) == job->gen;
        if (now && !all)
            break;
        while (to < job->n_log && job->log[to].step == job->log[done].step && to - done < 32 &&
               (all || (uint16_t)(job->log[to].value.id >> 32) != job->gen))
            to++;
        write_line(job, done, to);
        done = to;
    }
    for (size_t i = 0; i < done; i++)
        yk__free(job->log[i].name);
    if (done)
        memmove(job->log, job->log + done, (job->n_log - done) * sizeof *job->log);
    job->n_log -= done;
}

void yk__log_close(yk_job *job)
{
    yk_error err = YK_ERROR_INIT;
    for (size_t i = 0; i < job->n_log; i++)
        yk__free(job->log[i].name);
    job->n_log = 0;
    if (yk__tracker_close(job->tracker, &err))
        yk__job_fail(job, &err);
    job->tracker = NULL;
}
