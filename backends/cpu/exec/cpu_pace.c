/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number of workers for a program, by measured times. A trial takes half or twice as many, seldom enough to cost little (cpu_pace.h has
 * the rule).
 *
 * cpu_program.c asks before each run and records its time after it, in the thread that runs the queue. Pure arithmetic: results of programs
 * do not depend on it.
 */
#include "backends/cpu/exec/cpu_pace.h"

#define FIRST 64        /* runs before the first trial: one costs about two runs */
#define RETRY 16         /* runs before the next one if something has changed */
#define SELDOM 1024     /* runs between trials, at most */
#define COST 0.005      /* part of the time that trials of more workers may cost, while fewer are in force */
#define BETTER 0.95     /* a level this much faster is kept */
#define CHANGED 1.3     /* a level that has become so much slower is compared again soon */
#define FREED 0.87      /* the same for a level of few workers that became this much faster: another program has left its cores */
#define KEEP 0.875      /* weight of the earlier mean against a new run */
#define OUTLIER 4.0     /* a run counts as at most so many times the earlier mean */

static int level_last(int n)
{
    int last = 0;
    while (n >> last > 1 && last < CPU_PACE_LEVELS - 1)
        last++;
    return last;
}

/* The neighbour to try: fewer and more workers in turn, if both exist. */
static int level_next(cpu_pace *pace, int n)
{
    const int last = level_last(n);
    pace->up = pace->level == last || (pace->level > 0 && !pace->up);
    return pace->up ? pace->level - 1 : pace->level + 1;
}

/* True if the current run of a trial is at the other level. */
static bool trial_has_other(const cpu_pace *pace)
{
    return pace->trying && pace->tried % 2 == 0;
}

int cpu_pace_workers(cpu_pace *pace, int n)
{
    if (n == 1)
        return 1;
    pace->wait = pace->wait ? pace->wait : FIRST;
    if (!pace->trying && pace->runs >= pace->wait) {
        pace->other = level_next(pace, n);
        pace->trying = true;
        pace->tried = 0;
    }
    return n >> (trial_has_other(pace) ? pace->other : pace->level);
}

static double level_clip(const cpu_pace *pace, double ns)
{
    const double most = OUTLIER * pace->ns[pace->level];
    return most > 0.0 && ns > most ? most : ns;
}

static void level_add(double *mean, double ns)
{
    *mean = *mean > 0.0 ? KEEP * *mean + (1.0 - KEEP) * ns : ns;
}

static double trial_sum(const double *ns, uint32_t n)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++)
        sum += ns[i];
    return sum;
}

/* Mean and median together. Sorts. */
static double trial_score(double *ns)
{
    for (int i = 1; i < CPU_PACE_TRIAL; i++)
        for (int k = i; k && ns[k - 1] > ns[k]; k--) {
            const double later = ns[k];
            ns[k] = ns[k - 1];
            ns[k - 1] = later;
        }
    return trial_sum(ns, CPU_PACE_TRIAL) / CPU_PACE_TRIAL + 0.5 * (ns[CPU_PACE_TRIAL / 2] + ns[(CPU_PACE_TRIAL - 1) / 2]);
}

/* Runs until the next trial after a lost one: more and more. But another program, such as another rank, may free its cores any time; few
 * workers are a loss from then on. So at few workers trials come as often as COST allows. */
static uint32_t trial_wait(const cpu_pace *pace)
{
    const uint32_t later = pace->wait < SELDOM / 4 ? 4 * pace->wait : SELDOM, n = (pace->tried + 1) / 2;
    const double runs = trial_sum(pace->trial[1], n) / pace->ns[pace->level] - n;
    if (!pace->level || pace->other > pace->level || runs >= COST * later)
        return later;
    return runs > COST * FIRST ? (uint32_t)(runs / COST) : FIRST;
}

/* Won: the next comparison comes soon, for two levels away may be better still. */
static void trial_end(cpu_pace *pace)
{
    const bool all = pace->tried == 2 * CPU_PACE_TRIAL, won = all && trial_score(pace->trial[1]) < BETTER * trial_score(pace->trial[0]);
    if (won) {
        pace->level = pace->other;
        pace->ns[pace->level] = trial_sum(pace->trial[1], CPU_PACE_TRIAL) / CPU_PACE_TRIAL;
    }
    pace->wait = won ? RETRY : trial_wait(pace);
    pace->settled = pace->ns[pace->level];
    pace->runs = 0;
    pace->trying = false;
}

/* Adds a run to the trial. Ends it once the other level has taken the time that all its runs should. */
static void trial_add(cpu_pace *pace, double ns)
{
    const bool other = trial_has_other(pace);
    const uint32_t turn = pace->tried / 2;
    pace->trial[other][turn] = ns;
    pace->tried++;
    const bool lost = other && turn + 1 < CPU_PACE_TRIAL && trial_sum(pace->trial[1], turn + 1) >= CPU_PACE_TRIAL * pace->ns[pace->level];
    if (lost || pace->tried == 2 * CPU_PACE_TRIAL)
        trial_end(pace);
}

static bool level_changed(const cpu_pace *pace)
{
    const double now = pace->ns[pace->level];
    return pace->settled > 0.0 && (now > CHANGED * pace->settled || (pace->level > 0 && now < FREED * pace->settled));
}

void cpu_pace_record(cpu_pace *pace, int n, double ns)
{
    if (n == 1 || !(ns > 0.0))
        return;
    ns = level_clip(pace, ns);
    if (pace->trying) {
        trial_add(pace, ns);
        return;
    }
    level_add(&pace->ns[pace->level], ns);
    pace->runs++;
    if (pace->settled == 0.0 && pace->runs == RETRY)
        pace->settled = pace->ns[pace->level];
    if (level_changed(pace)) {
        pace->settled = pace->ns[pace->level];
        pace->wait = pace->runs + RETRY < pace->wait ? pace->runs + RETRY : pace->wait;
    }
}
