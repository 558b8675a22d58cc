/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs whole steps of a sample and keeps the least time, which another program's load disturbs least. cmd_bench.c and cmd_estimate.c
 * (tools/cmd) call it in the main thread of each rank.
 */
#include "tools/bench/sample_time.h"

#include <math.h>
#include <sys/resource.h>

#include "core/job/job.h"
#include "core/job/team/share.h"

enum { WARM_LEAST = 2, WARM_MOST = 40, STEPS_LEAST = 2, STEPS_MOST = 400, LONG = 5 }; /* a step of LONG times `seconds` is timed once */

static double processor_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static double step_seconds(sample *s, uint32_t micros)
{
    const double began = train_seconds();
    for (uint32_t i = 0; i < micros && yk_ok(s->job); i++)
        sample_micro(s);
    yk_grad_norm(s->opt); /* waits for the step */
    return train_seconds() - began;
}

/* Rank 0's number, on each rank. */
static double number_share(yk_job *job, double v)
{
    double all = yk_is_main(job) ? v : 0;
    yk_all_reduce_sum(job, &all, 1);
    return all;
}

/* Steps until programs and kernels are there and the ranks' shares have settled, for at most `seconds`; returns the last one's time. */
static double steps_settle(sample *s, uint32_t micros, double seconds)
{
    double last = 0, spent = 0;
    for (int i = 0; i < WARM_MOST && yk_ok(s->job) && (i < WARM_LEAST || (spent < seconds && !yk__share_settled(s->job)));) {
        last = number_share(s->job, step_seconds(s, micros));
        if (yk__share_is_waiting(s->job))
            continue;
        spent += i++ ? last : 0; /* the first one compiles */
    }
    return last;
}

timed timed_steps(sample *s, uint32_t micros, double seconds)
{
    const double last = steps_settle(s, micros, seconds);
    const int steps = (int)fmin(STEPS_MOST, fmax(last > LONG * seconds ? 1 : STEPS_LEAST, seconds / fmax(last, 1e-6)));
    timed t = {.seconds = INFINITY, .steps = steps};
    yk_barrier(s->job);
    const double began = train_seconds(), worked = processor_seconds();
    for (int i = 0; i < steps && yk_ok(s->job); i++)
        t.seconds = fmin(t.seconds, step_seconds(s, micros));
    yk_barrier(s->job); /* an excluded rank's own times say nothing about a step */
    if (!s->rows)
        t.seconds = (train_seconds() - began) / steps;
    t.seconds = number_share(s->job, t.seconds);
    t.processor = (processor_seconds() - worked) / steps;
    yk_all_reduce_sum(s->job, &t.processor, 1);
    return t;
}
