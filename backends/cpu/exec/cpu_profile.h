/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YOKE_CPU_PROFILE=1: times the steps of programs by the clock, including the wait for the last worker at a step's end. Steps of the same
 * op and shapes share one line. The plugin prints the lines to stderr at its end. `own` instead of 1 counts the seconds that the thread
 * ran, or with several workers the process, without sleeping waits. Other programs on the machine do not change these seconds.
 */
#ifndef YOKE_BACKENDS_CPU_EXEC_CPU_PROFILE_H
#define YOKE_BACKENDS_CPU_EXEC_CPU_PROFILE_H

#include "backends/cpu/exec/cpu.h"

typedef struct cpu_profile_entry cpu_profile_entry;

void cpu_profile_begin(void);
void cpu_profile_end(void);
/* Notes that a device of so many workers was opened: with several, no single thread's seconds are the run's. */
void cpu_profile_workers(int n);
/* The line of a node's step (1, 2, ..); NULL without profiling or memory. */
cpu_profile_entry *cpu_profile_entry_of(const cpu_build *build, const yk_node *node, uint32_t part);
uint64_t cpu_profile_now(void);
/* Adds the time from `since` until now to the line and returns now. */
uint64_t cpu_profile_add(cpu_profile_entry *entry, uint64_t since);

#endif
