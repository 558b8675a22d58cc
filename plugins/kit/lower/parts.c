/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts sums over rows with too few columns to keep a GPU busy. Each part's sums go to scratch memory, and a second launch adds the parts in
 * a fixed order. Sums of too few rows of neighbours are cut likewise.
 *
 * chain.c, nn.c and norms.c call it while a program is made, in any thread. The parts depend on the shape alone, so a sum is the same on
 * each card.
 */
#include "plugins/kit/lower/lower_internal.h"

#include <stdio.h>

#define GROUPS 1024   /* groups of all parts of a sum, about */
#define ROWS_LEAST 64 /* rows of a part */
#define SLICES 32     /* slices of a column's parts in the second launch, at most: work-items that add them in parallel */
#define SLICE_PARTS 4 /* parts that one slice adds, at least */
#define TERMS_LEAST 2048 /* terms of a part of a row */
#define JOIN_TEAM 64     /* work-items for a row's parts */

kit_parts kit_parts_of(const kit_target *target, int64_t groups, int64_t outer, int64_t rows)
{
    int64_t n = kit_div_up(GROUPS, groups);
    n = kit_min(kit_min(n, rows / ROWS_LEAST), outer);
    if (target->cpu_shape || target->lanes || n < 2)
        return (kit_parts){1, outer};
    const int64_t rows_each = kit_div_up(outer, n);
    return (kit_parts){kit_div_up(outer, rows_each), rows_each};
}

/* 1 where a part would be too small to pay for the second launch. */
int64_t kit_parts_of_rows(const kit_target *target, int64_t rows, int64_t terms)
{
    const int64_t n = kit_min(kit_div_up(GROUPS, rows), terms / TERMS_LEAST);
    return target->cpu_shape || target->lanes || n < 2 ? 1 : n;
}

void kit_parts_join_rows(kit_lowering *ctx, int64_t parts, int64_t count, bool most, uint64_t at, uint32_t value)
{
    char defines[64];
    snprintf(defines, sizeof defines, "-DT=%s", kit_type(ctx->graph->value[value].dtype));
    kit_launch_add(ctx, "parts", defines, "parts_join_rows", count, 1, 1, JOIN_TEAM);
    kit_arg_scratch(ctx, at, (uint64_t)(parts * count) * 4, 4);
    kit_arg_value(ctx, value);
    kit_arg_i32(ctx, parts);
    kit_arg_i32(ctx, most);
}

/* The least power of two that is n or more, but not above `most`. */
static int64_t power_of_two(int64_t n, int64_t most)
{
    int64_t p = 1;
    while (p < n && p < most)
        p *= 2;
    return p;
}

/* One value, or two of one type with their parts `stride` bytes apart. */
static void parts_launch(kit_lowering *ctx, const kit_parts *parts, int64_t count, bool most, uint64_t at, uint64_t stride, uint32_t n,
                         const uint32_t *value)
{
    char defines[64];
    const uint32_t team = kit_gpu_team(ctx->target);
    const int64_t slices = power_of_two(kit_div_up(parts->n, SLICE_PARTS), SLICES);
    snprintf(defines, sizeof defines, "-DT=%s", kit_type(ctx->graph->value[value[0]].dtype));
    kit_launch_add(ctx, "parts", defines, "parts_join", kit_div_up(count, team / slices), n, 1, team);
    kit_arg_scratch(ctx, at, stride * (n - 1) + (uint64_t)(parts->n * count) * 4, 4);
    kit_arg_value(ctx, value[0]);
    kit_arg_value(ctx, value[n - 1]);
    kit_arg_i32(ctx, parts->n);
    kit_arg_i32(ctx, count);
    kit_arg_i32(ctx, slices);
    kit_arg_i64(ctx, (int64_t)stride / 4);
    kit_arg_i32(ctx, most);
}

uint64_t kit_parts_stride(uint64_t bytes)
{
    return kit_round_bytes(bytes, KIT_PRODUCT_ALIGN);
}

void kit_parts_join(kit_lowering *ctx, const kit_parts *parts, int64_t count, bool most, uint64_t at, uint32_t n, const uint32_t *value)
{
    const uint64_t stride = kit_parts_stride((uint64_t)(parts->n * count) * 4);
    for (uint32_t i = 0, each; i < n; i += each) {
        each = i + 1 < n && ctx->graph->value[value[i]].dtype == ctx->graph->value[value[i + 1]].dtype ? 2 : 1;
        parts_launch(ctx, parts, count, most, at + i * stride, stride, each, value + i);
    }
}
