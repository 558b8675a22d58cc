/* SPDX-License-Identifier: Apache-2.0 */
/* The planners of convolutions and of sliding windows; each adds a node's steps. */
#ifndef YOKE_BACKENDS_CPU_CONV_CPU_CONV_H
#define YOKE_BACKENDS_CPU_CONV_CPU_CONV_H

#include "backends/cpu/exec/cpu.h"

void cpu_plan_conv(cpu_build *build, const yk_node *node);
void cpu_plan_pool(cpu_build *build, const yk_node *node); /* unfold, fold, max_pool, avg_pool and backward */

#endif
