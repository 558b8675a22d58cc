/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the relative speeds of the ranks' devices by the time of one product on each. All calls are in the step thread.
 *
 * yk_open calls yk__paces_measure on all ranks, before the job's own steps tell the speeds. Ranks that share cores take turns, as in
 * parallel the faster one can seem several times slower.
 *
 * share.c calls yk__recovery_watch between windows. An excluded rank times the product now and then, and shows its recovery to the members.
 */
#include "core/job/team/rank_pace.h"

#include <math.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/job/team/share.h"

typedef struct turns {
    yk_job *job;
    yk_error *err;
    uint32_t *turn; /* by rank */
    uint32_t passed, until; /* barriers that this rank has passed; barriers before its turn */
} turns;

/* Waits for this rank's turn. All ranks make their programs before the first turn, as that takes cores too. */
static void turn_await(void *arg)
{
    turns *t = arg;
    for (; t->passed < t->until && !t->err->status; t->passed++)
        yk__group_barrier(t->job->team.group, t->err);
}

/* Finds each rank's turn. host: memory for an entry by rank. Returns the number of turns. */
static uint32_t turns_find(const yk_job *job, uint32_t *host, uint32_t *turn)
{
    for (uint32_t r = 0; r < job->team.world; r++)
        for (host[r] = 0; !yk__group_same_host(job->team.group, host[r], r);)
            host[r]++;
    return yk__seats_turns(job->team.world, job->team.share->seat, host, turn);
}

/* pace: by rank. */
static yk_status paces_take(turns *t, uint32_t n, double *pace)
{
    const yk_job *job = t->job;
    double own;
    t->until = n > 1 ? t->turn[job->team.rank] + 1 : 0;
    own = yk__device_pace(job->device, turn_await, t);
    t->until = n > 1 ? n : 0;
    turn_await(t);
    if (t->err->status || yk__group_all_gather(job->team.group, &own, sizeof own, pace, t->err))
        return t->err->status;
    yk__log(YK_LOG_DEBUG, "device", "a product takes %.3f ms (turn %u of %u)", 1e3 * own, t->turn[job->team.rank] + 1, n);
    for (uint32_t r = 0; r < job->team.world; r++)
        job->team.share->seat[r].pace = pace[r];
    return YK_OK;
}

yk_status yk__paces_measure(yk_job *job, yk_error *err)
{
    const size_t world = job->team.world;
    turns t = {.job = job, .err = err};
    double *pace;
    if (world == 1 || job->config.plan_only || job->team.share->fixed.is_fixed)
        return YK_OK;
    pace = yk__calloc(world, sizeof *pace + 2 * sizeof *t.turn);
    if (!pace)
        return yk__fail_mem(err, world * sizeof *pace, "the ranks' speeds");
    t.turn = (uint32_t *)(pace + world);
    paces_take(&t, turns_find(job, t.turn + world, t.turn), pace);
    yk__free(pace);
    return err->status;
}

/* ---- An excluded rank alone ---- */

#define PART 2.0          /* rest, in multiples of the shortest look's time, as a late look took no more of the device, */
#define SHARED_PART 200.0 /* and with members on its cores, so that looks cost as little as trials of excluded ranks */
#define LATE 32.0         /* a recovery is seen within this part of the time since the exclusion */

static bool cores_shared(const yk_job *job)
{
    const yk__share *s = job->team.share;
    const uint32_t own = job->team.rank;
    bool shared = false;
    for (uint32_t r = 0; r < job->team.world; r++)
        shared = shared || (yk__policy_decision(s->policy)->member[r] && yk__group_same_host(job->team.group, own, r) &&
                            yk__seats_overlap(&s->seat[own], &s->seat[r]));
    return shared;
}

/* Looks at the device, and publishes the result. */
static void device_look(yk_job *job)
{
    yk__watch *w = &job->team.share->watch;
    const double began = yk__clock_seconds(), product = yk__device_pace_mean(job->device);
    if (product > 0)
        yk__group_show(job->team.group, (float)yk__recovery_look(&w->seen, product));
    yk__log(YK_LOG_DEBUG, "balance", "a product takes %.3f ms by itself; %.3f when excluded, %.3f at best since it was faster (0: not yet)",
            1e3 * product, 1e3 * w->seen.slow, 1e3 * w->seen.fast);
    w->shortest = w->shortest > 0 ? fmin(w->shortest, yk__clock_seconds() - began) : yk__clock_seconds() - began;
}

void yk__recovery_watch(yk_job *job)
{
    yk__watch *w = &job->team.share->watch;
    const double now = yk__clock_seconds();
    if (!yk__policy_decision(job->team.share->policy)->excluded[job->team.rank]) {
        *w = (yk__watch){0};
        yk__group_show(job->team.group, 0);
    } else if (!yk__policy_decision(job->team.share->policy)->member[job->team.rank] && now >= w->next) {
        device_look(job);
        w->began = w->began > 0 ? w->began : now;
        w->next = yk__clock_seconds() + fmax((cores_shared(job) ? SHARED_PART : PART) * w->shortest, (now - w->began) / LATE);
    }
}
