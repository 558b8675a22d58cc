/* SPDX-License-Identifier: Apache-2.0 */
/* Trials of more and fewer workers, seldom enough to cost little. */
#include "backends/cpu/exec/pace.h"

#define FIRST 64        /* runs before the first trial: one costs about two runs */
#define RETRY 16         /* runs before the next one where something has changed */
#define SELDOM 1024     /* runs between trials, at most */
#define TRIAL 4         /* runs of a trial, fewer where these take as long already */
#define BETTER 0.95     /* a level this much faster is kept */
#define CHANGED 1.3     /* a level that has become so much slower is compared again soon */
#define KEEP 0.875      /* weight of what was known beside a new run */
#define OUTLIER 4.0     /* a run counts as no more than so many times what was known */

static int level_last(int n)
{
    int last = 0;
    while (n >> last > 1 && last < CPU_PACE_LEVELS - 1)
        last++;
    return last;
}

/* The neighbour to try: fewer and more workers in turn, where there are both. */
static int level_next(cpu_pace *pace, int n)
{
    const int last = level_last(n);
    pace->up = pace->level == last || (pace->level > 0 && !pace->up);
    return pace->up ? pace->level - 1 : pace->level + 1;
}

int cpu_pace_workers(cpu_pace *pace, int n)
{
    if (n == 1)
        return 1;
    pace->wait = pace->wait ? pace->wait : FIRST;
    if (!pace->tried && pace->runs >= pace->wait) {
        pace->other = level_next(pace, n);
        pace->ns[pace->other] = 0.0;
        pace->tried = 1;
    }
    return n >> (pace->tried ? pace->other : pace->level);
}

static void level_add(double *mean, double ns)
{
    if (*mean > 0.0 && ns > OUTLIER * *mean)
        ns = OUTLIER * *mean;
    *mean = *mean > 0.0 ? KEEP * *mean + (1.0 - KEEP) * ns : ns;
}

/* Won: the next comparison comes soon, for two levels away may be better still. Lost: later and later. */
static void trial_end(cpu_pace *pace)
{
    const bool won = pace->ns[pace->other] < BETTER * pace->ns[pace->level];
    if (won)
        pace->level = pace->other;
    pace->wait = won ? RETRY : pace->wait < SELDOM / 4 ? 4 * pace->wait : SELDOM;
    pace->settled = pace->ns[pace->level];
    pace->runs = pace->tried = 0;
}

static void trial_add(cpu_pace *pace, double ns)
{
    double *mean = &pace->ns[pace->other];
    *mean += (ns - *mean) / pace->tried; /* a plain mean of the few */
    if (pace->tried == TRIAL || *mean * pace->tried > TRIAL * pace->ns[pace->level])
        trial_end(pace);
    else
        pace->tried++;
}

void cpu_pace_record(cpu_pace *pace, int n, double ns)
{
    if (n == 1 || !(ns > 0.0))
        return;
    if (pace->tried) {
        trial_add(pace, ns);
        return;
    }
    level_add(&pace->ns[pace->level], ns);
    pace->runs++;
    if (pace->settled == 0.0 && pace->runs == RETRY)
        pace->settled = pace->ns[pace->level];
    if (pace->settled > 0.0 && pace->ns[pace->level] > CHANGED * pace->settled) {
        pace->settled = pace->ns[pace->level];
        pace->wait = pace->runs + RETRY < pace->wait ? pace->runs + RETRY : pace->wait;
    }
}
