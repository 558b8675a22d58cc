/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a plan's predicted time of a step (--plan MS) with the measured one, and logs both once. cmd_train.c (tools/cmd) reads the
 * option. loop.c calls the rest in the main thread of every rank, at the end of a window.
 *
 * Each window is timed by itself, so logs, evaluations and checkpoints between windows do not count. Until the line is logged, each
 * window's end waits for the device and for all ranks.
 */
#include "tools/train/prediction.h"

#include <stdlib.h>

#include "core/base/number.h"

prediction prediction_read(const yk__cli *cli)
{
    const char *plan = yk__cli_text(cli, "plan");
    const double ms = plan ? yk__number_read(plan, NULL) : 0; /* a word reads as 0 */
    return (prediction){.expected = ms > 0 ? ms : 0};
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void prediction_say(prediction *p, yk_job *job, progress *bar)
{
    const uint32_t n = p->windows - PREDICTION_FIRST;
    qsort(p->ms, n, sizeof p->ms[0], by_size);
    p->said = true;
    if (yk_is_main(job))
        progress_say(bar, "plan: %.4g ms predicted, %.4g measured", p->expected, p->ms[n / 2]);
}

void prediction_end(prediction *p, yk_job *job, progress *bar, bool last)
{
    if (!(p->expected > 0) || p->said)
        return;
    yk_sync(job);
    yk_barrier(job); /* a rank without rows hears of the step's end late */
    if (p->begun > 0 && p->windows >= PREDICTION_FIRST)
        p->ms[p->windows - PREDICTION_FIRST] = 1e3 * (train_seconds() - p->begun);
    p->windows++;
    if (p->windows == PREDICTION_FIRST + PREDICTION_WINDOWS || (last && p->windows > PREDICTION_FIRST))
        prediction_say(p, job, bar);
}

void prediction_begin(prediction *p)
{
    p->begun = train_seconds();
}
