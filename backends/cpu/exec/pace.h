/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many workers run a program, by what its runs take. More are faster on cores of one's own; where other programs or a
 * hypervisor take cores away, workers that wait for each other can be slower than one alone. So a level with half or twice
 * as many workers is tried now and then, in the midst of the work, in turn with the one in force: what disturbs them disturbs
 * both. It is kept if the sum of its mean and its median is 5 % lower: the mean is what a long run takes, the median what a step
 * usually takes, and neither may be bought with the other. Pure logic: the caller measures. Results do not depend on it.
 */
#ifndef YOKE_BACKENDS_CPU_EXEC_PACE_H
#define YOKE_BACKENDS_CPU_EXEC_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define CPU_PACE_LEVELS 11 /* level k: n >> k workers, at least one; for up to 1024 */
#define CPU_PACE_TRIAL 6   /* runs of either level in a trial */

/* All zero at first. */
typedef struct cpu_pace {
    double ns[CPU_PACE_LEVELS]; /* of a run at each level, running mean; 0: never tried */
    double settled;             /* ns at the level when it was last compared with another */
    int level, other;           /* in force; the one being tried */
    uint32_t runs;              /* since the last trial ended */
    uint32_t wait;              /* runs until the next one */
    uint32_t tried;             /* runs of the trial so far: of the other level, of the one in force, and so on */
    bool trying;                /* a trial is going on */
    bool up;                    /* the next one is of more workers */
    double trial[2][CPU_PACE_TRIAL]; /* ns of its runs: of the level in force, of the other one */
} cpu_pace;

/* Workers for the next run, of n. */
int cpu_pace_workers(cpu_pace *pace, int n);
/* What that run took. */
void cpu_pace_record(cpu_pace *pace, int n, double ns);

#endif
