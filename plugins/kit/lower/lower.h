/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph as launches: the kernels of its nodes, their grids, arguments and scratch memory. These are the same for every device that
 * computes in groups of work-items, so the kit decides them. A backend compiles a unit's text (C with a few macros: kernels/dialect.kc),
 * allocates memory, and enqueues the launches in order. A launch may read the results of any earlier one. The backend knows no operation,
 * and the kit knows no driver.
 *
 * A backend keeps one kit_target per device and one kit_program per yk_program (kit_program.h):
 *
 *     kit_program_make(&target, graph, &k);
 *     for each k.unit:   its code (kit_units_get of units.h, which compiles the code that the device lacks)
 *     once:              copy k.meta to the device; reserve k.scratch_bytes of memory that queues do not share
 *     for each k.launch: groups x local work-items of kernel `launch.kernel` of its unit, over launch.n_arg arguments
 *
 * Thread rule: one thread per object; targets are only read. No state elsewhere.
 */
#ifndef YOKE_PLUGINS_KIT_LOWER_LOWER_H
#define YOKE_PLUGINS_KIT_LOWER_LOWER_H

#include "plugins/kit/kit_program.h"

/*
 * YK_E_UNSUPPORTED for a node that claims would not have allowed, YK_E_ARG for a value without a slot, YK_E_MEM. Each failure is explained
 * to the host; *program then is empty. The graph need not outlive the call; the target must outlive the program.
 */
yk_status kit_program_make(const kit_target *target, const yk_graph *graph, kit_program *program);

/* Serves yk_plugin.claims: 0, or YK_CLAIM_RUN with further flags. */
uint32_t kit_claims(const kit_target *target, const yk_graph *graph, uint32_t node);

/* Serves yk_plugin.graph_scratch: memory that a program of the graph needs besides slots and meta. Fails as kit_program_make does. */
yk_status kit_scratch_bytes(const kit_target *target, const yk_graph *graph, uint64_t *bytes);

#endif
