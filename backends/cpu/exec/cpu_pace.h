/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number of workers for a program, by measured times. More workers are faster on free cores. If other programs or a hypervisor take
 * cores away, workers that wait for each other can be slower than one worker. So now and then a trial runs half or twice as many workers,
 * in turn with the level in force, so that disturbances hit both. The trial wins if the sum of its mean and its median is 5 % lower. The
 * mean stands for a long run, the median for a usual step; neither may get worse for the other. Pure logic: the caller measures. Results do
 * not depend on it.
 */
#ifndef YOKE_BACKENDS_CPU_EXEC_CPU_PACE_H
#define YOKE_BACKENDS_CPU_EXEC_CPU_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define CPU_PACE_LEVELS 11 /* level k: n >> k workers, at least one; for up to 1024 */
#define CPU_PACE_TRIAL 6   /* runs of either level in a trial */

/* All zero at first. */
typedef struct cpu_pace {
    double ns[CPU_PACE_LEVELS]; /* running mean of a run at each level; 0 before the first */
    double settled;             /* ns at the level at its last comparison with another */
    int level, other;           /* in force; the one being tried */
    uint32_t runs;              /* since the last trial ended */
    uint32_t wait;              /* runs until the next one */
    uint32_t tried;             /* runs of the trial so far: at the other level, at the one in force, and so on in turn */
    bool trying;                /* a trial is in progress */
    bool up;                    /* the next trial has more workers */
    double trial[2][CPU_PACE_TRIAL]; /* ns of its runs: at the level in force, at the other one */
} cpu_pace;

/* Workers for the next run, of n. */
int cpu_pace_workers(cpu_pace *pace, int n);
/* Records the time of a run. */
void cpu_pace_record(cpu_pace *pace, int n, double ns);

#endif
