/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the largest batch that fits without running out of memory (yk_find_batch_size). Each attempt opens a job that plans steps and
 * counts their memory, without running them.
 *
 * The user's program calls it on all ranks, in the thread that opens the jobs. The ranks reduce the batch together until every rank's
 * count is within its budget.
 */
#include "core/job/config_size.h"
#include "core/job/session/open.h"
#include "core/job/team/share.h"

/* 1 if this rank lacks the memory for the job, else 0. */
static double lacks_memory(const yk_job *job)
{
    const uint64_t budget = job->team.share->memory_budget;
    return budget && yk_peak_bytes(job) > budget;
}

/* 1 if the batch fits on all ranks, 0 if not, -1 if `step` failed. */
static int try_batch(const yk_config *config, uint32_t batch, void (*step)(yk_job *job, uint32_t batch, void *user), void *user)
{
    yk_job *job = yk__open_uncapped(config, sizeof *config);
    double lacking = 0.0;
    if (yk_ok(job))
        step(job, batch, user);
    if (yk_ok(job))
        lacking = lacks_memory(job);
    yk_all_reduce_max(job, &lacking, 1);
    const bool ok = yk_ok(job);
    yk_close(job);
    return ok ? lacking == 0.0 : -1;
}

uint32_t (yk_find_batch_size)(const yk_config *config, uint32_t start, void (*step)(yk_job *job, uint32_t batch, void *user), void *user,
                              size_t size)
{
    yk_error err = YK_ERROR_INIT;
    yk_config c;
    int fits = 0;
    uint32_t batch = start;
    const yk_config *given = yk__config_read("yk_find_batch_size", config, size, &c, sizeof c, &err);
    if (!given) {
        yk_close(yk__open_uncapped(config, size)); /* fails by the same error, and reports it */
        return 0;
    }
    if (given != &c)
        c = *given;
    c.plan_only = true;
    while (batch > 0 && (fits = try_batch(&c, batch, step, user)) == 0)
        batch = (uint32_t)((uint64_t)batch * 9 / 10);
    return fits > 0 ? batch : 0;
}
