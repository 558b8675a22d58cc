/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job's log (yk_track): values of the program, one line of JSON for each step, which rank 0 writes to a file. They are written one
 * step after they were named, so no rank waits for them.
 *
 * All ranks call it alike in the step thread, as it sums values over the ranks. yk_step and yk_end write the entries of earlier steps
 * (window.c), and yk_close the rest (core/job/session/open.c).
 */
#include "core/job/loop/job_log.h"

#include <string.h>

#include "core/io/tracker.h"
#include "core/job/loop/read.h"
#include "core/job/opt.h"

#define LINE_VALUES 32 /* values in one line, at most */

typedef struct log_entry {
    char *name;
    yk_t value;
    uint64_t step;
} log_entry;

struct yk__job_log {
    struct yk__tracker *tracker; /* on rank 0; NULL on other ranks */
    log_entry *entry;
    size_t n_entry, cap_entry;
};

void yk_track_open(yk_job *job, const char *path)
{
    yk_error err = YK_ERROR_INIT;
    if (!yk_ok(job) || !yk__job_given(job, "yk_track_open", "path", path))
        return;
    if (job->log) {
        yk__job_failf(job, YK_E_ARG, "yk_track_open %s: the job tracks into a file already", path);
        return;
    }
    job->log = yk__calloc(1, sizeof *job->log);
    if (!job->log)
        yk__fail_mem(&err, sizeof *job->log, "a log");
    else if (job->team.rank == 0)
        yk__tracker_open(path, &job->log->tracker, &err);
    if (err.status)
        yk__job_fail(job, &err);
}

void yk_track(yk_job *job, const char *name, yk_t x)
{
    if (!yk_ok(job) || !job->log)
        return;
    x = yk_keep(x);
    if (!x.id)
        return;
    struct yk__job_log *log = job->log;
    const log_entry e = {yk__strdup(name), x, job->opt ? job->opt->steps : job->micro_step};
    if (!e.name || yk__grow(&log->entry, &log->cap_entry, log->n_entry + 1, sizeof e)) {
        yk__free(e.name);
        yk__job_failf(job, YK_E_MEM, "out of memory in yk_track");
        return;
    }
    log->entry[log->n_entry++] = e;
}

/* value[at[i]] = part i combined over all ranks. If a part has counts of each rank's own (own), excluded ranks add theirs too. */
static void parts_sum(yk_job *job, const yk__part *part, const uint32_t *at, uint32_t n, double *value)
{
    yk_error err = YK_ERROR_INIT;
    double sum[3 * LINE_VALUES];
    bool own = false;
    for (uint32_t i = 0; i < n; i++) {
        memcpy(sum + 3 * i, (const double[3]){part[i].sum, part[i].weighted, part[i].items}, 3 * sizeof *sum);
        own = own || part[i].own;
    }
    if (own ? yk__group_sum_f64(job->team.group, sum, 3 * n, &err) : yk__group_sum_members(job->team.group, sum, 3 * n, &err))
        yk__job_fail(job, &err);
    for (uint32_t i = 0; i < n; i++)
        value[at[i]] = sum[3 * i] + (sum[3 * i + 2] > 0.0 ? sum[3 * i + 1] / sum[3 * i + 2] : 0.0);
}

/* Writes entries [from, to), all of one step. Collective, as values are summed over the ranks. */
static void write_line(yk_job *job, size_t from, size_t to)
{
    const log_entry *entry = job->log->entry;
    const char *name[LINE_VALUES];
    double value[LINE_VALUES];
    yk__part part[LINE_VALUES];
    uint32_t n = 0, n_part = 0, at[LINE_VALUES];
    for (size_t i = from; i < to && n < LINE_VALUES; i++, n++) {
        name[n] = entry[i].name;
        if (yk__kept_part(job, entry[i].value, &part[n_part]))
            at[n_part++] = n;
        else
            value[n] = yk_item(entry[i].value);
    }
    if (n_part && yk_ok(job))
        parts_sum(job, part, at, n_part, value);
    if (job->log->tracker && yk_ok(job))
        yk__tracker_line(job->log->tracker, entry[from].step, n, name, value);
}

/* True if the entry is of the current step. */
static bool is_current(const yk_job *job, const log_entry *e)
{
    return (uint16_t)(e->value.id >> 32) == job->gen;
}

void yk__log_flush(yk_job *job, bool all)
{
    struct yk__job_log *log = job->log;
    size_t done = 0;
    while (log && done < log->n_entry && yk_ok(job)) {
        const log_entry *first = &log->entry[done];
        size_t to = done;
        if (is_current(job, first) && !all)
            break;
        while (to < log->n_entry && log->entry[to].step == first->step && to - done < LINE_VALUES &&
               (all || !is_current(job, &log->entry[to])))
            to++;
        write_line(job, done, to);
        done = to;
    }
    for (size_t i = 0; i < done; i++)
        yk__free(log->entry[i].name);
    if (done)
        memmove(log->entry, log->entry + done, (log->n_entry - done) * sizeof *log->entry);
    if (done)
        log->n_entry -= done;
}

void yk__log_close(yk_job *job)
{
    yk_error err = YK_ERROR_INIT;
    struct yk__job_log *log = job->log;
    if (!log)
        return;
    for (size_t i = 0; i < log->n_entry; i++)
        yk__free(log->entry[i].name);
    if (yk__tracker_close(log->tracker, &err))
        yk__job_fail(job, &err);
    yk__free(log->entry);
    yk__free(log);
    job->log = NULL;
}
