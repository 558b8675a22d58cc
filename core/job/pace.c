/* SPDX-License-Identifier: Apache-2.0 */
/* How fast the ranks' devices are beside each other, before a job's own runs tell: a product on each, ranks that share cores in turn,
 * as of those that run at once the faster one can seem several times the slower. */
#include "core/job/pace.h"

#include "core/base/log.h"
#include "core/job/share.h"

typedef struct turns {
    yk_job *job;
    yk_error *err;
    uint32_t turn[YK__RANKS];
    uint32_t passed, until; /* barriers: those that this rank has been at, those before its turn */
} turns;

/* Before the first turn all have made their programs, which takes cores, too. */
static void turn_await(void *arg)
{
    turns *t = arg;
    for (; t->passed < t->until && !t->err->status; t->passed++)
        yk__group_barrier(t->job->team.group, t->err);
}

yk_status yk__paces_measure(yk_job *job, yk_error *err)
{
    turns t = {.job = job, .err = err};
    double own, pace[YK__RANKS];
    uint32_t host[YK__RANKS], n;
    yk__seat *seat = job->team.share->seat;
    if (job->team.world == 1 || job->config.plan_only || job->team.share->fixed.is_fixed)
        return YK_OK;
    for (uint32_t r = 0; r < job->team.world; r++)
        for (host[r] = 0; !yk__group_same_host(job->team.group, host[r], r);)
            host[r]++;
    n = yk__seats_turns(job->team.world, seat, host, t.turn);
    t.until = n > 1 ? t.turn[job->team.rank] + 1 : 0;
    own = yk__device_pace(job->device, turn_await, &t);
    t.until = n > 1 ? n : 0;
    turn_await(&t);
    if (err->status || yk__group_all_gather(job->team.group, &own, sizeof own, pace, err))
        return err->status;
    yk__log(YK_LOG_DEBUG, "device", "a product takes %.3f ms (turn %u of %u)", 1e3 * own, t.turn[job->team.rank] + 1, n);
    for (uint32_t r = 0; r < job->team.world; r++)
        seat[r].pace = pace[r];
    return YK_OK;
}
