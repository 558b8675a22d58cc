/* SPDX-License-Identifier: Apache-2.0 */
/* The planner of products: dot, dot_map. */
#ifndef YOKE_BACKENDS_CPU_GEMM_CPU_DOT_H
#define YOKE_BACKENDS_CPU_GEMM_CPU_DOT_H

#include "backends/cpu/exec/cpu.h"

void cpu_plan_dot(cpu_build *build, const yk_node *node);

#endif
