/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A compiled graph: steps with their arguments. A step that is worth sharing is a phase of several pieces; what lies between
 * two of them is done by whoever ended the first.
 */
#ifndef YOKE_BACKENDS_CPU_EXEC_PROGRAM_H
#define YOKE_BACKENDS_CPU_EXEC_PROGRAM_H

#include "backends/cpu/exec/cpu.h"
#include "backends/cpu/exec/pool.h"

typedef struct cpu_prog cpu_prog;

/* ---- build.c: a program of a graph, node by node ---- */

yk_status cpu_build_begin(cpu_build *build, const yk_graph *graph, const cpu_isa *isa, int workers);
/* Adds the node by its planner; returns how many nodes that did: those behind it that it could take along, too. */
uint32_t cpu_build_node(cpu_build *build, const yk_node *node, void (*plan)(cpu_build *build, const yk_node *node));
yk_status cpu_build_end(cpu_build *build, cpu_prog **out); /* frees it after a failure, whose status it returns */

/* ---- program.c ---- */

void cpu_prog_free(cpu_prog *prog);
size_t cpu_prog_thread_ws(const cpu_prog *prog);            /* scratch a worker needs */
size_t cpu_prog_shared_ws(const cpu_prog *prog);            /* scratch of all */
size_t cpu_prog_scratch(const cpu_prog *prog, int workers); /* both, on so many workers */
bool cpu_prog_is_serial(const cpu_prog *prog);              /* only worker 0 has work */
double cpu_prog_work(const cpu_prog *prog);                 /* a guess, ns on one core */
bool cpu_prog_uses(const cpu_prog *prog, uint32_t slot);
uint32_t cpu_prog_slots(const cpu_prog *prog);
uint64_t cpu_prog_slot_bytes(const cpu_prog *prog, uint32_t slot);

/* What a run is bound to. */
typedef struct cpu_bound {
    char *const *slot; /* where each slot lies */
    const cpu_isa *isa;
    char *scratch; /* cpu_prog_scratch bytes */
} cpu_bound;
/* Runs it on the pool's workers, of which it was made for as many, or on some of them where that is faster (pace.h), or on the
 * calling thread if it is serial. One run at a time. */
/* Where *stop is not 0, by another thread, it ends with the step under way, and what it was to write is undefined. */
void cpu_prog_run(cpu_prog *prog, const cpu_bound *bound, cpu_pool *pool, const atomic_int *stop);

#endif
