/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A compiled graph: steps with their arguments. A step worth sharing is a phase of several pieces; the worker that ended a phase runs
 * the serial steps after it.
 */
#ifndef YOKE_BACKENDS_CPU_EXEC_CPU_PROGRAM_H
#define YOKE_BACKENDS_CPU_EXEC_CPU_PROGRAM_H

#include "backends/cpu/exec/cpu.h"
#include "backends/cpu/exec/cpu_pool.h"

typedef struct cpu_prog cpu_prog;

/* ---- cpu_build.c: a program of a graph, node by node ---- */

yk_status cpu_build_begin(cpu_build *build, const yk_graph *graph, const cpu_isa *isa, int workers);
/* Adds the node by its planner; returns the number of nodes added: the planner may include later nodes. */
uint32_t cpu_build_node(cpu_build *build, const yk_node *node, void (*plan)(cpu_build *build, const yk_node *node));
yk_status cpu_build_end(cpu_build *build, cpu_prog **out); /* frees it after a failure, and returns that failure's status */

/* ---- cpu_program.c ---- */

void cpu_prog_free(cpu_prog *prog);
size_t cpu_prog_thread_ws(const cpu_prog *prog);            /* scratch a worker needs */
size_t cpu_prog_shared_ws(const cpu_prog *prog);            /* scratch shared by all workers */
size_t cpu_prog_scratch(const cpu_prog *prog, int workers); /* both kinds, on so many workers */
bool cpu_prog_is_serial(const cpu_prog *prog);              /* only worker 0 has work */
double cpu_prog_work(const cpu_prog *prog);                 /* a guess, ns on one core */
bool cpu_prog_uses(const cpu_prog *prog, uint32_t slot);
uint32_t cpu_prog_slots(const cpu_prog *prog);
uint64_t cpu_prog_slot_bytes(const cpu_prog *prog, uint32_t slot);

/* Bindings of a run. */
typedef struct cpu_bound {
    char *const *slot; /* address of each slot */
    const cpu_isa *isa;
    char *scratch; /* cpu_prog_scratch bytes */
} cpu_bound;
/* Runs it on the pool's workers, or on fewer if that is faster (cpu_pace.h), or on the calling thread if it is serial. One run at a time.
 * */
/* If another thread sets *stop, the run ends within its current step, and its outputs are undefined. */
void cpu_prog_run(cpu_prog *prog, const cpu_bound *bound, cpu_pool *pool, const atomic_int *stop);

#endif
