/* SPDX-License-Identifier: Apache-2.0 */
/* Small graphs run by the CPU plugin's own functions, on any instruction set and number of workers. */
#ifndef YOKE_TESTS_SUPPORT_CPU_KIT_H
#define YOKE_TESTS_SUPPORT_CPU_KIT_H

#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/exec/cpu.h"
#include "tests/support/kit.h"

void kit_host(void); /* the plugin's host: malloc, stderr */
/* Runs all nodes with nt workers; status of planning. Guard bytes are checked (aborts the test when broken). */
yk_status kit_run(kit *k, const cpu_isa *isa, int nt);
/* The same `times` times; the least seconds of one run, or -1. */
double kit_time(kit *k, const cpu_isa *isa, int nt, int times);
const cpu_isa *kit_isa(int i); /* NULL past the last */

#endif
