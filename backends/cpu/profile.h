/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YOKE_CPU_PROFILE=1: where the time of programs goes. Worker 0's clock is read around every step (the wait for the others
 * at its end included); steps of the same op and shapes are one line. Printed to stderr when the plugin ends. `own` instead
 * of 1: the seconds worker 0's thread ran, whatever else the machine did (waiting that sleeps is not in them).
 */
#ifndef CPU_PROFILE_H
#define CPU_PROFILE_H

#include "cpu.h"

typedef struct cpu_line cpu_line;

void cpu_profile_begin(void);
void cpu_profile_end(void);
/* The line of a node's step (1, 2, ..); NULL when nothing is measured (or memory is gone). */
cpu_line *cpu_profile_line(const cpu_build *b, const yk_node *n, uint32_t part);
uint64_t cpu_profile_now(void);
/* Adds the time from `since` until now to the line and returns now. */
uint64_t cpu_profile_add(cpu_line *line, uint64_t since);

#endif
