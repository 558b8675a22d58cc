/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YOKE_CPU_PROFILE=1: where the time of programs goes. The clock is read around every step (the wait for the last worker
 * at its end included); steps of the same op and shapes are one line. Printed to stderr when the plugin ends. `own` instead
 * of 1: the seconds that the thread ran, or with several workers the process (waiting that sleeps is not in them), whatever
 * else the machine did.
 */
#ifndef YOKE_BACKENDS_CPU_EXEC_PROFILE_H
#define YOKE_BACKENDS_CPU_EXEC_PROFILE_H

#include "backends/cpu/exec/cpu.h"

typedef struct cpu_profile_entry cpu_profile_entry;

void cpu_profile_begin(void);
void cpu_profile_end(void);
/* A device of so many workers is opened: with several, no one thread's seconds are the run's. */
void cpu_profile_workers(int n);
/* The line of a node's step (1, 2, ..); NULL when nothing is measured (or memory is gone). */
cpu_profile_entry *cpu_profile_entry_of(const cpu_build *build, const yk_node *node, uint32_t part);
uint64_t cpu_profile_now(void);
/* Adds the time from `since` until now to the line and returns now. */
uint64_t cpu_profile_add(cpu_profile_entry *entry, uint64_t since);

#endif
