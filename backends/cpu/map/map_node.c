/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner of elementwise nodes, single operations or fused ones (map): compiles the node's elementwise program (map_plan.c) and emits
 * one step. cpu_ops.c calls cpu_plan_map while it compiles a program, in any thread. In a run, each worker that takes a piece evaluates the
 * piece's blocks of elements (map.c).
 */
#include "backends/cpu/map/map.h"
#include "backends/cpu/map/map_internal.h"
#include "plugins/kit/value.h"

#define SHARE 2048 /* elements: a worker's smallest share has at most so many, but at least one block of the map */

typedef struct map_args {
    const cpu_map *map;
    int64_t count, block; /* elements: of the result; of a worker's smallest share */
} map_args;

static void map_step(const void *args, const cpu_ctx *ctx)
{
    const map_args *work = args;
    int64_t lo, hi;
    cpu_part((work->count + work->block - 1) / work->block, ctx->piece, ctx->pieces, &lo, &hi);
    cpu_map_run run;
    cpu_map_begin(&run, work->map, ctx, ctx->thread_ws);
    int64_t end = hi * work->block < work->count ? hi * work->block : work->count;
    for (int64_t pos = lo * work->block; pos < end && !cpu_stops(ctx); pos += work->map->block)
        cpu_map_eval(&run, pos, (size_t)kit_min(end - pos, work->map->block), NULL);
}

void cpu_plan_map(cpu_build *build, const yk_node *node)
{
    uint32_t first = (uint32_t)(node - build->graph->node), count = 1;
    if (node->op == YK_OP_MAP) {
        first = node->body;
        count = node->n_body;
    }
    const yk_value *shape = cpu_out(build, node, 0);
    map_args *work = cpu_args(build, sizeof *work);
    if (!work || node->n_out > CPU_MAP_OUT) {
        cpu_refuse(build, node, "too many results of one map");
        return;
    }
    cpu_map *map = cpu_map_compile(build, first, count, shape, YK_NONE, &build->graph->index[node->out], node->n_out, true);
    if (!map)
        return;
    work->map = map;
    work->count = kit_value_count(shape);
    work->block = map->block < SHARE ? SHARE / map->block * map->block : map->block;
    cpu_need_thread_ws(build, cpu_map_scratch(map));
    cpu_emit(build, map_step, work, (double)work->count * cpu_map_cost(map));
}
