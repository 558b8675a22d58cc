/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lowering of layer norms with rows in registers (kernels/norms.kc). It is for CUDA alone, and for rows of whole lines of 16 bytes that
 * a few warps hold. nn.c offers each layer norm here first, while a program is made, in any thread; false leaves it to the general kernel.
 *
 * The cut of the sums over rows depends on the shape alone, so bits do not depend on the card.
 */
#include "plugins/kit/kit_source.h"
#include "plugins/kit/lower/lower_internal.h"

#include <stdio.h>

#define LINE_BYTES 16
#define LANE_MOST 24      /* most elements of a work-item: with the sums of both parameters, and g and x, they fit in 128 registers */
#define BACK_TEAM 256     /* NORM_TEAM of the kernels */
#define FORWARD_TEAM 128
#define BACK_GROUPS 264   /* groups of the backward kernel: two for each multiprocessor of the largest cards, ... */
#define BACK_CHAIN 32     /* or more, so that a work-item adds at most so many rows */

typedef struct norm_rows {
    int64_t n_row, n_col, each; /* each: rows of a group of the backward kernel */
    uint32_t lines, warps;      /* lines of a work-item; warps of a row */
} norm_rows;

/* True if an operand consists of whole lines; one number per row need not. */
static bool value_in_lines(const yk_value *v)
{
    return v->offset % LINE_BYTES == 0;
}

/* False: rows of this node are not for these kernels. */
static bool norm_rows_of(const kit_lowering *ctx, const yk_node *n, const yk_value *x, norm_rows *rows)
{
    const int64_t element = yk_dtype_bytes(x->dtype), each = LINE_BYTES / element;
    *rows = (norm_rows){.n_col = x->dims ? x->dim[x->dims - 1] : 1};
    rows->n_row = kit_value_count(x) / rows->n_col;
    if (!ctx->target->four || rows->n_col % each || rows->n_row > INT32_MAX)
        return false;
    for (uint32_t i = 0; i < n->n_in + n->n_out; i++) {
        const yk_value *v = i < n->n_in ? kit_node_in(ctx->graph, n, i) : kit_node_out(ctx->graph, n, i - n->n_in);
        if (kit_value_count(v) % rows->n_col == 0 && !value_in_lines(v))
            return false;
    }
    for (rows->warps = 1; rows->warps <= BACK_TEAM / 32; rows->warps *= 2) {
        rows->lines = (uint32_t)kit_div_up(rows->n_col / each, 32 * rows->warps);
        if (rows->lines * each <= LANE_MOST)
            break;
    }
    const int64_t at_once = BACK_TEAM / 32 / rows->warps;
    if (at_once)
        rows->each = kit_min(kit_div_up(kit_div_up(rows->n_row, BACK_GROUPS), at_once), BACK_CHAIN) * at_once;
    return at_once != 0;
}

static void norm_launch(kit_lowering *ctx, const norm_rows *rows, uint32_t type, uint32_t to, const char *kernel, int64_t groups,
                        uint32_t team)
{
    char defines[96], narrow[16] = "";
    if (to != type)
        snprintf(narrow, sizeof narrow, " -DTO=%s", kit_type(to));
    snprintf(defines, sizeof defines, "-DT=%s%s -DNV=%u -DNW=%u%s", kit_type(type), narrow, rows->lines, rows->warps,
             kit_row_macros(ctx->target));
    kit_launch_add(ctx, "norms", defines, kernel, groups, 1, 1, team);
}

static void arg_lines(kit_lowering *ctx, uint32_t value)
{
    kit_arg_wide(ctx, value, LINE_BYTES);
}

/* An absent operand is not read: the first stands in. */
static void arg_in_lines(kit_lowering *ctx, const yk_node *n, uint32_t i)
{
    arg_lines(ctx, ctx->graph->index[n->in + (i < n->n_in ? i : 0)]);
}

bool kit_norms_forward(kit_lowering *ctx, const yk_node *n, uint32_t type)
{
    norm_rows rows;
    if (!norm_rows_of(ctx, n, kit_node_in(ctx->graph, n, 0), &rows))
        return false;
    const uint32_t to = kit_node_out(ctx->graph, n, 0)->dtype, team = 32 * rows.warps > FORWARD_TEAM ? 32 * rows.warps : FORWARD_TEAM;
    norm_launch(ctx, &rows, type, to, "norms_forward", kit_div_up(rows.n_row, team / 32 / rows.warps), team);
    for (uint32_t i = 0; i < 3; i++)
        arg_in_lines(ctx, n, i);
    kit_arg_wide(ctx, ctx->graph->index[n->out], LINE_BYTES / yk_dtype_bytes(type) * yk_dtype_bytes(to));
    kit_arg_out(ctx, n, 1);
    kit_arg_out(ctx, n, 2);
    kit_arg_i32(ctx, rows.n_row);
    kit_arg_i32(ctx, rows.n_col);
    kit_arg_i32(ctx, (int64_t)n->n_in - 1);
    kit_arg_f32(ctx, yk_attr_f64(kit_node_attr(ctx->graph, n, 0)));
    return true;
}

bool kit_norms_backward(kit_lowering *ctx, const yk_node *n, uint32_t type)
{
    norm_rows rows;
    if (!norm_rows_of(ctx, n, kit_node_in(ctx->graph, n, 1), &rows))
        return false;
    const kit_parts parts = {kit_div_up(rows.n_row, rows.each), rows.each};
    const bool sums = n->n_out > 2, cut = sums && parts.n > 1;
    const uint64_t bytes = (uint64_t)(parts.n * rows.n_col) * 4;
    norm_launch(ctx, &rows, type, type, "norms_backward", parts.n, BACK_TEAM);
    arg_in_lines(ctx, n, 0);
    arg_in_lines(ctx, n, 1);
    kit_arg_in(ctx, n, 2);
    kit_arg_in(ctx, n, 3);
    arg_in_lines(ctx, n, 4);
    arg_lines(ctx, ctx->graph->index[n->out]);
    for (uint32_t i = 1; i < 3; i++)
        if (cut)
            kit_arg_scratch(ctx, (i - 1) * kit_parts_stride(bytes), bytes, LINE_BYTES);
        else
            arg_lines(ctx, ctx->graph->index[n->out + (sums ? i : 0)]);
    kit_arg_i32(ctx, rows.n_row);
    kit_arg_i32(ctx, rows.n_col);
    kit_arg_i32(ctx, rows.each);
    kit_arg_i32(ctx, n->n_in > 4);
    kit_arg_i32(ctx, sums);
    if (cut)
        kit_parts_join(ctx, &parts, rows.n_col, false, 0, 2, &ctx->graph->index[n->out + 1]);
    return true;
}
