/* SPDX-License-Identifier: Apache-2.0 */
/* Planners of operations other than products, convolutions and elementwise ones; each adds a node's steps. */
#ifndef YOKE_BACKENDS_CPU_NN_NN_H
#define YOKE_BACKENDS_CPU_NN_NN_H

#include "backends/cpu/exec/cpu.h"

void cpu_plan_data(cpu_build *build, const yk_node *node); /* fill iota rng copy gather scatter_add */
void cpu_plan_norm(cpu_build *build, const yk_node *node); /* bn_stats, layer_norm, softmax and backward */
void cpu_plan_loss(cpu_build *build, const yk_node *node); /* cross_entropy and backward */
void cpu_plan_attention(cpu_build *build, const yk_node *node);
void cpu_plan_round8(cpu_build *build, const yk_node *node);
void cpu_plan_optim(cpu_build *build, const yk_node *node);

#endif
