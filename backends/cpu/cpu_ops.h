/* SPDX-License-Identifier: Apache-2.0 */
/* The graph functions of the plugin's table. */
#ifndef YOKE_BACKENDS_CPU_CPU_OPS_H
#define YOKE_BACKENDS_CPU_CPU_OPS_H

#include "backends/cpu/exec/cpu_program.h"

/* Serves yk_plugin.claims. */
uint32_t cpu_op_claims(const yk_graph *graph, uint32_t number);
/* Makes a program of the graph for so many workers; free it by cpu_prog_free. The graph need not outlive the call. */
yk_status cpu_prog_new(const yk_graph *graph, const cpu_isa *isa, int workers, cpu_prog **out);

#endif
