/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums over rows whose columns are too few to keep a GPU busy: rows are cut into parts, each part's sums go to scratch memory, and a second
 * launch adds the parts up in their order; and sums of neighbours that are too few. The parts are of the shape alone, so that a sum is the
 * same on each GPU.
 */
#include "plugins/kit/lower/internal.h"

#include <stdio.h>

#define GROUPS 1024   /* that the parts of a sum shall be together */
#define ROWS_LEAST 64 /* of a part */
#define COLUMNS 64    /* of a group of the second launch */
#define TERMS_LEAST 2048 /* of a part of a row */
#define JOIN_TEAM 64     /* of a row's parts */

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

void kit_parts_join(kit_lowering *ctx, const kit_parts *parts, int64_t count, bool most, uint64_t at, uint32_t value)
{
    char defines[64];
    snprintf(defines, sizeof defines, "-DT=%s", kit_type(ctx->graph->value[value].dtype));
    kit_launch_add(ctx, "parts", defines, "parts_join", kit_div_up(count, COLUMNS), 1, 1, COLUMNS);
    kit_arg_scratch(ctx, at, (uint64_t)(parts->n * count) * 4, 4);
    kit_arg_value(ctx, value);
    kit_arg_i64(ctx, parts->n);
    kit_arg_i64(ctx, count);
    kit_arg_i64(ctx, COLUMNS);
    kit_arg_i32(ctx, most);
}
