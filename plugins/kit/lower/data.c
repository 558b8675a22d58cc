/* SPDX-License-Identifier: Apache-2.0 */
/* Primitives that make or move data: copy, gather, scatter_add, unfold, fold, iota, rng, argmax. */
#include "plugins/kit/lower/internal.h"

#include <stdio.h>

#define TEAM 64
#define BLOCK 8192

static const char *move_defines(uint32_t dtype)
{
    switch (yk_dtype_bytes(dtype)) {
    case 1:
        return "-DUNIT_COPY -DE=uchar";
    case 2:
        return "-DUNIT_COPY -DE=ushort";
    case 4:
        return "-DUNIT_COPY -DE=uint";
    default:
        return "-DUNIT_COPY -DE=ulong";
    }
}

static bool float_defines(kit_lowering *ctx, uint32_t dtype, char *text, size_t n)
{
    if (!kit_is_float(dtype)) {
        kit_lower_fail(ctx, YK_E_UNSUPPORTED);
        return false;
    }
    snprintf(text, n, "-DUNIT_FLOAT -DT=%s", kit_type(dtype));
    return true;
}

/* ---- copy ---- */

typedef struct copy_space {
    uint32_t dims;
    int64_t dim[YK_MAX_DIMS], sx[YK_MAX_DIMS], sy[YK_MAX_DIMS];
} copy_space;

/* Merges dimensions that both sides walk through without a break. */
static void copy_merge(const yk_value *x, const yk_value *y, copy_space *s)
{
    s->dims = 0;
    for (uint32_t d = 0; d < y->dims; d++) {
        uint32_t k = s->dims - 1;
        if (y->dim[d] == 1)
            continue;
        if (s->dims && s->sx[k] == x->stride[d] * y->dim[d] && s->sy[k] == y->stride[d] * y->dim[d]) {
            s->dim[k] *= y->dim[d];
            s->sx[k] = x->stride[d];
            s->sy[k] = y->stride[d];
        } else {
            s->dim[s->dims] = y->dim[d];
            s->sx[s->dims] = x->stride[d];
            s->sy[s->dims++] = y->stride[d];
        }
    }
    if (!s->dims) {
        s->dims = 1;
        s->dim[0] = s->sx[0] = s->sy[0] = 1;
    }
}

static void lower_copy(kit_lowering *ctx, const yk_node *n)
{
    const yk_value *x = kit_node_in(ctx->graph, n, 0), *y = kit_node_out(ctx->graph, n, 0);
    copy_space s;
    int64_t meta[6 + 3 * YK_MAX_DIMS];
    uint32_t k = 6;
    copy_merge(x, y, &s);
    int64_t total = 1;
    for (uint32_t d = 0; d < s.dims; d++)
        total *= s.dim[d];
    uint32_t last = s.dims - 1;
    meta[0] = total;
    meta[1] = s.dim[last];
    meta[2] = BLOCK;
    meta[3] = last;
    meta[4] = s.sx[last];
    meta[5] = s.sy[last];
    for (uint32_t d = last; d-- > 0;) {
        meta[k++] = s.dim[d];
        meta[k++] = s.sx[d];
        meta[k++] = s.sy[d];
    }
    kit_launch_add(ctx, "data", move_defines(y->dtype), "copy_any", kit_div_up(total, BLOCK), 1, 1, TEAM);
    kit_arg_in(ctx, n, 0);
    kit_arg_out(ctx, n, 0);
    kit_arg_meta(ctx, meta, k);
}

/* ---- gather, scatter_add ---- */

static void lower_gather(kit_lowering *ctx, const yk_node *n)
{
    const yk_value *table = kit_node_in(ctx->graph, n, 0), *y = kit_node_out(ctx->graph, n, 0);
    int64_t rows = kit_value_count(kit_node_in(ctx->graph, n, 1)), width = kit_value_count(y) / rows, block = kit_div_up(BLOCK, width);
    if (table->dim[0] * width != kit_value_count(table))
        kit_lower_fail(ctx, YK_E_UNSUPPORTED);
    kit_launch_add(ctx, "data", move_defines(y->dtype), "gather_rows", kit_div_up(rows, block), 1, 1, TEAM);
    kit_arg_in(ctx, n, 0);
    kit_arg_in(ctx, n, 1);
    kit_arg_out(ctx, n, 0);
    kit_arg_i64(ctx, table->dim[0]);
    kit_arg_i64(ctx, rows);
    kit_arg_i64(ctx, width);
    kit_arg_i64(ctx, block);
}

static void scatter_sizes(kit_lowering *ctx, const yk_value *y, int64_t rows, int64_t width)
{
    kit_arg_i64(ctx, y->dim[0]);
    kit_arg_i64(ctx, rows);
    kit_arg_i64(ctx, width);
}

static void lower_scatter_int(kit_lowering *ctx, const yk_node *n, int64_t rows, int64_t width)
{
    kit_launch_add(ctx, "data", "-DUNIT_MAKE", "scatter_i32", kit_div_up(width, kit_team(ctx->target, TEAM)), 1, 1,
                   TEAM);
    kit_arg_in(ctx, n, 0);
    kit_arg_in(ctx, n, 1);
    kit_arg_out(ctx, n, 0);
    scatter_sizes(ctx, kit_node_out(ctx->graph, n, 0), rows, width);
}

/* Columns of a group: on a processor as many as keep each core busy, whole lines if there is one. */
static int64_t scatter_columns(const kit_target *target, int64_t width)
{
    const int64_t each = kit_div_up(kit_div_up(width, target->units), 16) * 16;
    return target->cpu_shape && each > 64 ? each : 64;
}

/* The f32 sums: the result, or scratch memory from which it is rounded. */
static void scatter_sums(kit_lowering *ctx, const yk_node *n)
{
    const yk_value *y = kit_node_out(ctx->graph, n, 0);
    if (y->dtype == YK_F32)
        kit_arg_out(ctx, n, 0);
    else
        kit_arg_scratch(ctx, 0, (uint64_t)kit_value_count(y) * 4, 4);
}

/* A GPU's groups own few columns each: others zero the table for them. */
static void scatter_zeros(kit_lowering *ctx, const yk_node *n)
{
    const int64_t total = kit_value_count(kit_node_out(ctx->graph, n, 0));
    kit_launch_add(ctx, "data", "-DUNIT_MAKE", "zeros_f32", kit_div_up(total, BLOCK), 1, 1, TEAM);
    scatter_sums(ctx, n);
    kit_arg_i64(ctx, total);
    kit_arg_i64(ctx, BLOCK);
}

/* Sums in f32; a 16-bit result is rounded from scratch memory at the end. */
static void lower_scatter(kit_lowering *ctx, const yk_node *n)
{
    const yk_value *x = kit_node_in(ctx->graph, n, 0), *y = kit_node_out(ctx->graph, n, 0);
    int64_t rows = kit_value_count(kit_node_in(ctx->graph, n, 1)), width = kit_value_count(x) / rows, total = kit_value_count(y);
    int64_t cols = scatter_columns(ctx->target, width);
    char defines[64];
    if (y->dtype == YK_I32 && x->dtype == YK_I32) {
        lower_scatter_int(ctx, n, rows, width);
        return;
    }
    if (!float_defines(ctx, x->dtype, defines, sizeof defines))
        return;
    if (!ctx->target->cpu_shape)
        scatter_zeros(ctx, n);
    kit_launch_add(ctx, "data", defines, "scatter_rows", kit_div_up(width, cols), 1, 1, TEAM);
    kit_arg_in(ctx, n, 0);
    kit_arg_in(ctx, n, 1);
    scatter_sums(ctx, n);
    scatter_sizes(ctx, y, rows, width);
    kit_arg_i64(ctx, cols);
    if (y->dtype == YK_F32 || !float_defines(ctx, y->dtype, defines, sizeof defines))
        return;
    kit_launch_add(ctx, "data", defines, "narrow_f32", kit_div_up(total, BLOCK), 1, 1, TEAM);
    kit_arg_scratch(ctx, 0, (uint64_t)total * 4, 4);
    kit_arg_out(ctx, n, 0);
    kit_arg_i64(ctx, total);
    kit_arg_i64(ctx, BLOCK);
}

/* ---- unfold, fold ---- */

static void lower_unfold(kit_lowering *ctx, const yk_node *n)
{
    bool fold = n->op == YK_OP_FOLD;
    const yk_value *col = fold ? kit_node_in(ctx->graph, n, 0) : kit_node_out(ctx->graph, n, 0);
    const yk_value *image = fold ? kit_node_out(ctx->graph, n, 0) : kit_node_in(ctx->graph, n, 0);
    char defines[64];
    int64_t a[8];
    for (uint32_t i = 0; i < 8; i++)
        a[i] = kit_node_attr(ctx->graph, n, i);
    int64_t H = image->dim[2], W = image->dim[3], kh = a[0], kw = a[1];
    int64_t OH = (H + 2 * a[4] - a[6] * (kh - 1) - 1) / a[2] + 1, OW = (W + 2 * a[5] - a[7] * (kw - 1) - 1) / a[3] + 1;
    if (!float_defines(ctx, image->dtype, defines, sizeof defines) || col->dtype != image->dtype) {
        kit_lower_fail(ctx, YK_E_UNSUPPORTED);
        return;
    }
    kit_launch_add(ctx, "data", defines, fold ? "fold_image" : "unfold_image",
                   image->dim[0] * image->dim[1] * (fold ? 1 : kh * kw), 1, 1, TEAM);
    kit_arg_in(ctx, n, 0);
    kit_arg_out(ctx, n, 0);
    kit_arg_i64(ctx, H);
    kit_arg_i64(ctx, W);
    kit_arg_i64(ctx, OH);
    kit_arg_i64(ctx, OW);
    for (uint32_t i = 0; i < 8; i++)
        kit_arg_i32(ctx, a[i]);
    if (!fold)
        kit_arg_f32(ctx, yk_attr_f64(kit_node_attr(ctx->graph, n, 8)));
}

/* ---- iota, rng, argmax ---- */

static void lower_iota(kit_lowering *ctx, const yk_node *n)
{
    const yk_value *y = kit_node_out(ctx->graph, n, 0);
    int64_t axis = kit_node_attr(ctx->graph, n, 0), stride = 1, total = kit_value_count(y);
    if (y->dtype != YK_I32 && y->dtype != YK_F32)
        kit_lower_fail(ctx, YK_E_UNSUPPORTED);
    for (uint32_t d = (uint32_t)axis + 1; d < y->dims; d++)
        stride *= y->dim[d];
    kit_launch_add(ctx, "data", "-DUNIT_MAKE", y->dtype == YK_I32 ? "iota_i32" : "iota_f32", kit_div_up(total, BLOCK), 1, 1, TEAM);
    kit_arg_out(ctx, n, 0);
    kit_arg_i64(ctx, total);
    kit_arg_i64(ctx, stride);
    kit_arg_i64(ctx, y->dims ? y->dim[axis] : 1);
    kit_arg_i64(ctx, BLOCK);
}

static void lower_rng(kit_lowering *ctx, const yk_node *n)
{
    const yk_value *y = kit_node_out(ctx->graph, n, 0);
    int64_t total = kit_value_count(y), rows = kit_value_count(kit_node_in(ctx->graph, n, 1));
    kit_launch_add(ctx, "data", "-DUNIT_MAKE", "rng_rows", kit_div_up(total, BLOCK), 1, 1, TEAM);
    kit_arg_in(ctx, n, 0);
    kit_arg_in(ctx, n, 1);
    kit_arg_out(ctx, n, 0);
    kit_arg_i64(ctx, total);
    kit_arg_i64(ctx, total / rows);
    kit_arg_i64(ctx, kit_node_attr(ctx->graph, n, 0));
    kit_arg_i64(ctx, BLOCK);
}

static void lower_argmax(kit_lowering *ctx, const yk_node *n)
{
    const yk_value *x = kit_node_in(ctx->graph, n, 0);
    int64_t axis = kit_node_attr(ctx->graph, n, 0), stride = 1, length = x->dims ? x->dim[axis] : 1,
            lines = kit_value_count(x) / length;
    int64_t block = kit_div_up(BLOCK, length);
    char defines[64] = "-DUNIT_ARGMAX_I";
    for (uint32_t d = (uint32_t)axis + 1; d < x->dims; d++)
        stride *= x->dim[d];
    bool whole = x->dtype == YK_I32;
    if (!whole && !float_defines(ctx, x->dtype, defines, sizeof defines))
        return;
    kit_launch_add(ctx, "data", defines, whole ? "argmax_i32" : "argmax_line", kit_div_up(lines, block), 1, 1, TEAM);
    kit_arg_in(ctx, n, 0);
    kit_arg_out(ctx, n, 0);
    kit_arg_i64(ctx, lines);
    kit_arg_i64(ctx, length);
    kit_arg_i64(ctx, stride);
    kit_arg_i64(ctx, block);
}

static void lower_data(kit_lowering *ctx, const yk_node *n)
{
    switch (n->op) {
    case YK_OP_COPY:
        lower_copy(ctx, n);
        break;
    case YK_OP_GATHER:
        lower_gather(ctx, n);
        break;
    case YK_OP_SCATTER_ADD:
        lower_scatter(ctx, n);
        break;
    case YK_OP_UNFOLD:
    case YK_OP_FOLD:
        lower_unfold(ctx, n);
        break;
    case YK_OP_IOTA:
        lower_iota(ctx, n);
        break;
    case YK_OP_RNG:
        lower_rng(ctx, n);
        break;
    case YK_OP_ARGMAX:
        lower_argmax(ctx, n);
        break;
    default:
        kit_lower_fail(ctx, YK_E_UNSUPPORTED);
        break;
    }
}

static bool op_is_primitive(uint32_t op)
{
    return yk_op_is_primitive(op);
}

const kit_rule kit_rule_data = {op_is_primitive, NULL, lower_data};
