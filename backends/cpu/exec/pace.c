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
static int level_next(cpu_pace *p, int n)
{
    const int last = level_last(n);
    p->up = p->level == last || (p->level > 0 && !p->up);
    return p->up ? p->level - 1 : p->level + 1;
}

int cpu_pace_workers(cpu_pace *p, int n)
{
    if (n == 1)
        return 1;
    p->wait = p->wait ? p->wait : FIRST;
    if (!p->tried && p->runs >= p->wait) {
        p->other = level_next(p, n);
        p->ns[p->other] = 0.0;
        p->tried = 1;
    }
    return n >> (p->tried ? p->other : p->level);
}

static void level_add(double *mean, double ns)
{
    if (*mean > 0.0 && ns > OUTLIER * *mean)
        ns = OUTLIER * *mean;
    *mean = *mean > 0.0 ? KEEP * *mean + (1.0 - KEEP) * ns : ns;
}

/* Won: the next comparison comes soon, for two levels away may be better still. Lost: later and later. */
static void trial_end(cpu_pace *p)
{
    const bool won = p->ns[p->other] < BETTER * p->ns[p->level];
    if (won)
        p->level = p->other;
    p->wait = won ? RETRY : p->wait < SELDOM / 4 ? 4 * p->wait : SELDOM;
    p->settled = p->ns[p->level];
    p->runs = p->tried = 0;
}

static void trial_add(cpu_pace *p, double ns)
{
    double *mean = &p->ns[p->other];
    *mean += (ns - *mean) / p->tried; /* a plain mean of the few */
    if (p->tried == TRIAL || *mean * p->tried > TRIAL * p->ns[p->level])
        trial_end(p);
    else
        p->tried++;
}

void cpu_pace_record(cpu_pace *p, int n, double ns)
{
    if (n == 1 || !(ns > 0.0))
        return;
    if (p->tried) {
        trial_add(p, ns);
        return;
    }
    level_add(&p->ns[p->level], ns);
    p->runs++;
    if (p->settled == 0.0 && p->runs == RETRY)
        p->settled = p->ns[p->level];
    if (p->settled > 0.0 && p->ns[p->level] > CHANGED * p->settled) {
        p->settled = p->ns[p->level];
        p->wait = p->runs + RETRY < p->wait ? p->runs + RETRY : p->wait;
    }
}
