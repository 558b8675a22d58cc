/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugin's table asks about graphs. */
#ifndef YOKE_BACKENDS_CPU_OPS_H
#define YOKE_BACKENDS_CPU_OPS_H

#include "backends/cpu/exec/program.h"

/* As yk_plugin.claims asks. */
uint32_t cpu_op_claims(const yk_graph *graph, uint32_t number);
/* A program of the graph for so many workers; cpu_prog_free. The graph need not outlive the call. */
yk_status cpu_prog_new(const yk_graph *graph, const cpu_isa *isa, int workers, cpu_prog **out);

#endif
