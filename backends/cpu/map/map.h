/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elementwise programs: the body of a map becomes a list of vector operations on registers of one block (a few KiB). The list runs over the
 * linear range of the output's elements. Operands are loaded (converted, broadcast) a block at a time, or read in place.
 */
#ifndef YOKE_BACKENDS_CPU_MAP_MAP_H
#define YOKE_BACKENDS_CPU_MAP_MAP_H

#include "backends/cpu/exec/cpu.h"

#define CPU_MAP_MAX_BLOCK 2048
#define CPU_MAP_STREAMS 36

void cpu_plan_map(cpu_build *build, const yk_node *node); /* elementwise, select, cast, map, activations, dropout */
void cpu_plan_map_sum(cpu_build *build, const yk_node *node);
void cpu_plan_reduce(cpu_build *build, const yk_node *node); /* sum, rmax, argmax */

typedef struct cpu_map cpu_map;

/* The state of one worker's evaluation; lives in its scratch. */
typedef struct cpu_map_run {
    const cpu_map *map;
    const cpu_ctx *ctx;
    char *regs;
    const void **at; /* present address of each register's contents */
} cpu_map_run;

/*
 * Compiles nodes [first, first + count) of the graph over the elements of the shape of `shape` (a value). `special` is the
 * value that cpu_map_eval is handed (YK_NONE: none). The `n_out` values in `out` are the results; with store, they are
 * written to memory, else they stay in registers (cpu_map_result). NULL with build->status set on failure.
 */
cpu_map *cpu_map_compile(cpu_build *build, uint32_t first, uint32_t count, const yk_value *shape, uint32_t special,
                         const uint32_t *out, uint32_t n_out, bool store);
size_t cpu_map_scratch(const cpu_map *map); /* bytes a run needs */
int64_t cpu_map_block(const cpu_map *map);  /* most elements of one cpu_map_eval */
double cpu_map_cost(const cpu_map *map);    /* about how many ns an element takes */
void cpu_map_begin(cpu_map_run *run, const cpu_map *map, const cpu_ctx *ctx, void *scratch);
/* The memory that an element's own position reads or writes: address of element 0, bytes of an element; returns their number. */
size_t cpu_map_streams(const cpu_map_run *run, const char *from[CPU_MAP_STREAMS], size_t item[CPU_MAP_STREAMS]);
/* Elements [pos, pos + n), n at most a block. */
void cpu_map_eval(cpu_map_run *run, int64_t pos, size_t n, const float *special);
/*
 * True if the map's two results can be summed without being stored. cpu_map_sums then adds the sums over elements [pos, pos + n) to
 * sum[0], sum[1]. By rows each element adds to its own entry of two rows of n. By planes of len elements each plane adds to its own entry
 * of two rows, one entry per plane; n may exceed a block. The elements of such a plane, and no more, share the broadcast operand's number.
 */
bool cpu_map_sums_rows(const cpu_map *map);
bool cpu_map_sums_planes(const cpu_map *map, int64_t len);
void cpu_map_sums(cpu_map_run *run, int64_t pos, size_t n, float *sum[2]);
const float *cpu_map_result(const cpu_map_run *run, uint32_t k);

#endif
