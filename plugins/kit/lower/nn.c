/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lowering of composites other than maps, convolutions and attention (norms, softmax, losses, pools, dropout, optimizer steps): their
 * claims and launches. lower.c calls this rule while a plugin makes a program, in any thread.
 *
 * A composite is claimed if its operands are dense and of the types of its kernel; the core runs the body of any other.
 */
#include "plugins/kit/kit_source.h"
#include "plugins/kit/lower/lower_internal.h"
#include "plugins/kit/lower/steps.h"

#include <stdio.h>

#define TEAM 128
#define BLOCK 8192
#define STEP_GPU 1024    /* elements of a group of an optimizer's step: many groups, as each element is one read and one write */
#define GRAD_PARTS 8192  /* elements of a partial sum of grad_stats: fixed, so that results do not depend on the device */

#define LONG_ROW 512        /* elements that keep a group of kernels/xent.kc busy */
#define LONG_ROW_TEAM 256
#define LONG_ROW_TEAM_BACK 512 /* few groups: their rows stay in the caches for the second time */

/* True if kernels/xent.kc computes the node: a loss, or its gradient, without weights and smoothing. */
static bool cross_entropy_is_long(const kit_target *target, const yk_graph *graph, const yk_node *n)
{
    const bool back = n->op == YK_OP_CROSS_ENTROPY_BWD;
    if (!back && n->op != YK_OP_CROSS_ENTROPY)
        return false;
    const int64_t columns = kit_node_in(graph, n, back ? 1 : 0)->dim[1];
    return target->four && target->mma && n->n_in == (back ? 4 : 2) && yk_attr_f64(kit_node_attr(graph, n, 1)) == 0 &&
           columns >= LONG_ROW && columns <= INT32_MAX - LONG_ROW_TEAM_BACK * 64;
}

/* ---- Operand types of each kernel: a letter per operand: T the type of the unit, f f32, i i32; the last letter repeats ---- */

static const struct {
    uint16_t op;
    const char *in, *out;
} operands[] = {
    {YK_OP_LAYER_NORM, "Tff", "Tff"},
    {YK_OP_LAYER_NORM_BWD, "TTfff", "Tff"},
    {YK_OP_SOFTMAX, "T", "T"},
    {YK_OP_SOFTMAX_BWD, "TT", "T"},
    {YK_OP_CROSS_ENTROPY, "Tif", "ff"},
    {YK_OP_CROSS_ENTROPY_BWD, "fTiff", "T"},
    {YK_OP_BN_STATS, "Tf", "f"},
    {YK_OP_DROPOUT, "Tii", "T"},
    {YK_OP_MAX_POOL, "T", "T"},
    {YK_OP_MAX_POOL_BWD, "TT", "T"},
    {YK_OP_AVG_POOL, "T", "T"},
    {YK_OP_AVG_POOL_BWD, "T", "T"},
    {YK_OP_ADAM_STEP, "ffffff", "ffff"},
    {YK_OP_SGD_STEP, "ffff", "ff"},
    {YK_OP_GRAD_STATS, "ff", "f"},
};

/* True if the values match their letters; *type gets the type that T stands for. padded: values of T may have rows further apart. */
static bool operands_fit(const yk_graph *graph, const uint32_t *value, uint32_t n, const char *letters, bool padded, uint32_t *type)
{
    if (n > strlen(letters))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const yk_value *v = &graph->value[value[i]];
        uint32_t want = letters[i] == 'f' ? YK_F32 : letters[i] == 'i' ? YK_I32 : *type;
        if (letters[i] == 'T' && *type == YK_DTYPE_COUNT)
            *type = want = v->dtype;
        if (v->dtype != want || !(kit_value_dense(v) || (padded && letters[i] == 'T' && kit_value_is_padded(v))))
            return false;
    }
    return true;
}

/* True for a layer norm of f32 with y of 16 bits (YK_CLAIM_NARROW_OUT). */
static bool out_is_narrow(const yk_graph *graph, const yk_node *n)
{
    const uint32_t y = kit_node_out(graph, n, 0)->dtype;
    return n->op == YK_OP_LAYER_NORM && kit_node_in(graph, n, 0)->dtype == YK_F32 && (y == YK_BF16 || y == YK_F16) &&
           kit_value_dense(kit_node_out(graph, n, 0));
}

/* False: not for the kit's kernels. */
static bool nn_type(const kit_target *target, const yk_graph *graph, const yk_node *n, uint32_t *type)
{
    const bool padded = cross_entropy_is_long(target, graph, n);
    const uint32_t narrow = out_is_narrow(graph, n); /* that is not looked at again */
    *type = YK_DTYPE_COUNT;
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
        if (operands[i].op == n->op)
            return operands_fit(graph, graph->index + n->in, n->n_in, operands[i].in, padded, type) &&
                   operands_fit(graph, graph->index + n->out + narrow, n->n_out - narrow, operands[i].out + narrow, padded, type) &&
                   (*type == YK_DTYPE_COUNT || kit_is_float(*type));
    return false;
}

static bool op_is_composite(uint32_t op)
{
    return !yk_op_is_primitive(op);
}

#define POOL_PIXELS_MOST (1 << 30) /* pixels of a plane that ints count */

/* True if the planes of images and windows have few enough pixels for max_pool_gather. */
static bool planes_are_counted(const yk_value *x, const yk_value *y)
{
    const int64_t most = POOL_PIXELS_MOST;
    return x->dim[2] * x->dim[3] <= most && y->dim[2] * y->dim[3] <= most;
}

static uint32_t claim_nn(const kit_target *target, const yk_graph *graph, uint32_t node)
{
    uint32_t type;
    const yk_node *n = &graph->node[node];
    if (n->op == YK_OP_BN_STATS &&
        kit_value_count(kit_node_in(graph, n, 0)) / kit_node_in(graph, n, 0)->dim[0] / kit_node_in(graph, n, 0)->dim[1] < 8)
        return 0; /* the body runs over channels side by side */
    if (!nn_type(target, graph, n, &type))
        return 0;
    if (n->op == YK_OP_MAX_POOL_BWD && type != YK_F32 && !planes_are_counted(kit_node_out(graph, n, 0), kit_node_in(graph, n, 1)))
        return 0; /* the body adds in f32, too */
    if (type != YK_F32 && cross_entropy_is_long(target, graph, n))
        return YK_CLAIM_RUN | YK_CLAIM_STRIDED_OUT;
    return n->op == YK_OP_LAYER_NORM && type == YK_F32 ? YK_CLAIM_RUN | YK_CLAIM_NARROW_OUT : YK_CLAIM_RUN;
}

static void nn_launch_parts(kit_lowering *ctx, const char *unit, uint32_t type, const char *kernel, int64_t groups, int64_t parts,
                            uint32_t local)
{
    char defines[64];
    snprintf(defines, sizeof defines, "-DT=%s%s", kit_type(type == YK_DTYPE_COUNT ? YK_F32 : type),
             strcmp(unit, "pool") != 0 ? kit_row_macros(ctx->target) : "");
    kit_launch_add(ctx, unit, defines, kernel, groups, parts, 1, local);
}

static void nn_launch(kit_lowering *ctx, const char *unit, uint32_t type, const char *kernel, int64_t groups, uint32_t local)
{
    nn_launch_parts(ctx, unit, type, kernel, groups, 1, local);
}

/* ---- Rows ---- */

typedef struct row_blocks {
    int64_t n_row, n_col, block_rows, groups;
} row_blocks;

static row_blocks row_blocks_of(const kit_lowering *ctx, const yk_value *x)
{
    row_blocks rows = {.n_col = x->dims ? x->dim[x->dims - 1] : 1};
    rows.n_row = kit_value_count(x) / rows.n_col;
    rows.block_rows = ctx->target->cpu_shape ? kit_div_up(BLOCK, rows.n_col) : 1;
    rows.groups = kit_div_up(rows.n_row, rows.block_rows);
    return rows;
}

static void arg_row_blocks(kit_lowering *ctx, const row_blocks *rows)
{
    kit_arg_i64(ctx, rows->n_row);
    kit_arg_i64(ctx, rows->n_col);
    kit_arg_i64(ctx, rows->block_rows);
}

static void lower_layer_norm(kit_lowering *ctx, const yk_node *n, uint32_t type)
{
    if (kit_norms_forward(ctx, n, type))
        return;
    row_blocks rows = row_blocks_of(ctx, kit_node_in(ctx->graph, n, 0));
    char defines[64];
    snprintf(defines, sizeof defines, "-DT=%s -DTO=%s%s", kit_type(type), kit_type(kit_node_out(ctx->graph, n, 0)->dtype),
             kit_row_macros(ctx->target));
    if (out_is_narrow(ctx->graph, n))
        kit_launch_add(ctx, "nn", defines, "layer_norm", rows.groups, 1, 1, TEAM);
    else
        nn_launch(ctx, "nn", type, "layer_norm", rows.groups, TEAM);
    for (uint32_t i = 0; i < 3; i++)
        kit_arg_in(ctx, n, i);
    for (uint32_t i = 0; i < 3; i++)
        kit_arg_out(ctx, n, i);
    arg_row_blocks(ctx, &rows);
    kit_arg_i32(ctx, (int64_t)n->n_in - 1);
    kit_arg_f32(ctx, yk_attr_f64(kit_node_attr(ctx->graph, n, 0)));
}

#define PARAM_TEAM 64

/* Gradients of gamma and beta: sums over the rows, in parts if columns are few. */
static void layer_norm_params(kit_lowering *ctx, const yk_node *n, uint32_t type, const row_blocks *rows)
{
    const int64_t columns = PARAM_TEAM * kit_lane_elements(ctx->target), groups = kit_div_up(rows->n_col, columns);
    const kit_parts parts = kit_parts_of(ctx->target, groups, rows->n_row, rows->n_row);
    const uint64_t bytes = (uint64_t)(parts.n * rows->n_col) * 4;
    nn_launch_parts(ctx, "nn", type, "layer_norm_params", groups, parts.n, PARAM_TEAM);
    for (uint32_t i = 0; i < 4; i++)
        kit_arg_in(ctx, n, i);
    for (uint32_t i = 0; i < 2; i++)
        if (parts.n > 1)
            kit_arg_scratch(ctx, i * kit_parts_stride(bytes), bytes, 4);
        else
            kit_arg_out(ctx, n, i + 1);
    kit_arg_i64(ctx, rows->n_row);
    kit_arg_i64(ctx, rows->n_col);
    kit_arg_i64(ctx, columns);
    kit_arg_i64(ctx, parts.rows);
    if (parts.n > 1)
        kit_parts_join(ctx, &parts, rows->n_col, false, 0, 2, &ctx->graph->index[n->out + 1]);
}

static void lower_layer_norm_bwd(kit_lowering *ctx, const yk_node *n, uint32_t type)
{
    if (kit_norms_backward(ctx, n, type))
        return;
    row_blocks rows = row_blocks_of(ctx, kit_node_in(ctx->graph, n, 1));
    nn_launch(ctx, "nn", type, "layer_norm_bwd", rows.groups, TEAM);
    for (uint32_t i = 0; i < 5; i++)
        kit_arg_in(ctx, n, i);
    kit_arg_out(ctx, n, 0);
    arg_row_blocks(ctx, &rows);
    kit_arg_i32(ctx, n->n_in > 4);
    if (n->n_out < 3)
        return;
    layer_norm_params(ctx, n, type, &rows);
}

static void lower_softmax(kit_lowering *ctx, const yk_node *n, uint32_t type)
{
    bool back = n->op == YK_OP_SOFTMAX_BWD;
    row_blocks rows = row_blocks_of(ctx, kit_node_in(ctx->graph, n, 0));
    nn_launch(ctx, "nn", type, back ? "softmax_bwd" : "softmax_fwd", rows.groups, TEAM);
    kit_arg_in(ctx, n, 0);
    if (back)
        kit_arg_in(ctx, n, 1);
    kit_arg_out(ctx, n, 0);
    arg_row_blocks(ctx, &rows);
    kit_arg_i32(ctx, kit_node_attr(ctx->graph, n, 0));
}

static void lower_long_cross_entropy(kit_lowering *ctx, const yk_node *n, uint32_t type)
{
    const bool back = n->op == YK_OP_CROSS_ENTROPY_BWD;
    const yk_value *z = kit_node_in(ctx->graph, n, back ? 1 : 0);
    const uint32_t team = back ? LONG_ROW_TEAM_BACK : LONG_ROW_TEAM;
    char defines[64];
    snprintf(defines, sizeof defines, "-DT=%s -DXE_EACH=%d -DXE_TEAM=%u%s", kit_type(type), type == YK_F32 ? 4 : 8, team,
             back ? " -DXE_BACK" : "");
    kit_launch_add(ctx, "xent", defines, back ? "cross_entropy_bwd_row" : "cross_entropy_row", z->dim[0], 1, 1, team);
    for (uint32_t i = 0; i < (back ? 3u : 2u); i++)
        kit_arg_in(ctx, n, i);
    kit_arg_out(ctx, n, 0);
    if (!back)
        kit_arg_out(ctx, n, 1);
    kit_arg_i32(ctx, z->dim[1]);
    kit_arg_i64(ctx, z->stride[0]);
    if (back)
        kit_arg_i64(ctx, kit_node_out(ctx->graph, n, 0)->stride[0]);
    kit_arg_i64(ctx, kit_node_attr(ctx->graph, n, 0));
}

static void lower_cross_entropy(kit_lowering *ctx, const yk_node *n, uint32_t type)
{
    bool back = n->op == YK_OP_CROSS_ENTROPY_BWD;
    if (cross_entropy_is_long(ctx->target, ctx->graph, n)) {
        lower_long_cross_entropy(ctx, n, type);
        return;
    }
    row_blocks rows = row_blocks_of(ctx, kit_node_in(ctx->graph, n, back ? 1 : 0));
    nn_launch(ctx, "nn", type, back ? "cross_entropy_bwd" : "cross_entropy", rows.groups, TEAM);
    for (uint32_t i = 0; i < (back ? 5u : 3u); i++)
        kit_arg_in(ctx, n, i);
    kit_arg_out(ctx, n, 0);
    if (!back)
        kit_arg_out(ctx, n, 1);
    arg_row_blocks(ctx, &rows);
    kit_arg_i32(ctx, n->n_in > (back ? 4 : 2));
    kit_arg_i64(ctx, kit_node_attr(ctx->graph, n, 0));
    kit_arg_f32(ctx, yk_attr_f64(kit_node_attr(ctx->graph, n, 1)));
}

#define STATS_LEAST 2048      /* elements of a channel that pay for a second launch */
#define STATS_MOST (1 << 30) /* elements of a channel whose parts an int counts */
#define STATS_JOIN 64         /* work-items of a channel's parts */

static void bn_stats_in_parts(kit_lowering *ctx, const yk_node *n, uint32_t type, int64_t inner, int64_t parts)
{
    const yk_value *x = kit_node_in(ctx->graph, n, 0);
    const uint64_t bytes = (uint64_t)(2 * x->dim[1] * parts) * 4;
    nn_launch_parts(ctx, "nn", type, "bn_stats_part", x->dim[1], parts, TEAM);
    kit_arg_in(ctx, n, 0);
    kit_arg_in(ctx, n, 1);
    kit_arg_scratch(ctx, 0, bytes, 4);
    kit_arg_i32(ctx, x->dim[0]);
    kit_arg_i32(ctx, x->dim[1]);
    kit_arg_i32(ctx, inner);
    kit_arg_i32(ctx, parts);
    nn_launch(ctx, "nn", type, "bn_stats_join", x->dim[1], STATS_JOIN);
    kit_arg_scratch(ctx, 0, bytes, 4);
    kit_arg_in(ctx, n, 1);
    kit_arg_out(ctx, n, 0);
    kit_arg_i32(ctx, x->dim[1]);
    kit_arg_i32(ctx, parts);
    kit_arg_f32(ctx, (double)(x->dim[0] * inner));
}

static void lower_bn_stats(kit_lowering *ctx, const yk_node *n, uint32_t type)
{
    const yk_value *x = kit_node_in(ctx->graph, n, 0);
    const int64_t inner = kit_value_count(x) / x->dim[0] / x->dim[1], count = x->dim[0] * inner;
    const int64_t parts = kit_parts_of_rows(ctx->target, x->dim[1], count);
    const bool gpu = !ctx->target->cpu_shape && !ctx->target->lanes;
    if (gpu && count >= STATS_LEAST && count <= STATS_MOST) {
        bn_stats_in_parts(ctx, n, type, inner, parts);
        return;
    }
    nn_launch(ctx, "nn", type, "bn_stats", x->dim[1], TEAM);
    kit_arg_in(ctx, n, 0);
    kit_arg_in(ctx, n, 1);
    kit_arg_out(ctx, n, 0);
    kit_arg_i64(ctx, x->dim[0]);
    kit_arg_i64(ctx, x->dim[1]);
    kit_arg_i64(ctx, inner);
}

static void lower_dropout(kit_lowering *ctx, const yk_node *n, uint32_t type)
{
    char defines[64];
    int64_t total = kit_value_count(kit_node_out(ctx->graph, n, 0));
    const int64_t block = kit_move_block(ctx->target, total);
    double drop = yk_attr_f64(kit_node_attr(ctx->graph, n, 0));
    snprintf(defines, sizeof defines, "-DUNIT_FLOAT -DT=%s", kit_type(type));
    kit_launch_add(ctx, "data", defines, "dropout_rows", kit_div_up(total, block), 1, 1, TEAM);
    for (uint32_t i = 0; i < 3; i++)
        kit_arg_in(ctx, n, i);
    kit_arg_out(ctx, n, 0);
    kit_arg_i64(ctx, total);
    kit_arg_i64(ctx, total / kit_value_count(kit_node_in(ctx->graph, n, 2)));
    kit_arg_i64(ctx, kit_node_attr(ctx->graph, n, 1));
    kit_arg_i64(ctx, block);
    kit_arg_f32(ctx, drop);
    kit_arg_f32(ctx, drop < 1 ? 1 / (1 - drop) : 0);
}

/* ---- Pools ---- */

static void pool_args(kit_lowering *ctx, const yk_node *n, const yk_value *x, const yk_value *y)
{
    const bool average = n->op == YK_OP_AVG_POOL || n->op == YK_OP_AVG_POOL_BWD;
    kit_arg_i64(ctx, x->dim[2]);
    kit_arg_i64(ctx, x->dim[3]);
    kit_arg_i64(ctx, y->dim[2]);
    kit_arg_i64(ctx, y->dim[3]);
    for (uint32_t i = 0; i < 6; i++)
        kit_arg_i32(ctx, kit_node_attr(ctx->graph, n, i));
    kit_arg_i32(ctx, average ? 1 : kit_node_attr(ctx->graph, n, 6));
    kit_arg_i32(ctx, average ? 1 : kit_node_attr(ctx->graph, n, 7));
    kit_arg_i32(ctx, average ? kit_node_attr(ctx->graph, n, 6) : 0);
}

#define POOL_BLOCK 1024 /* pixels or windows of a group */

/* A launch over the pixels of all planes, with the kernel's `block` and `parts`. */
static void pool_launch(kit_lowering *ctx, uint32_t type, const char *kernel, int64_t planes, int64_t pixels)
{
    nn_launch(ctx, "pool", type, kernel, planes * kit_div_up(pixels, POOL_BLOCK), TEAM);
}

static void pool_args_blocks(kit_lowering *ctx, int64_t pixels)
{
    kit_arg_i32(ctx, POOL_BLOCK);
    kit_arg_i32(ctx, kit_div_up(pixels, POOL_BLOCK));
}

/* Windows store the places of their maxima, and pixels look these up: on a GPU, and for 16 bits, as a pixel's sum is rounded once. */
static void max_pool_gather(kit_lowering *ctx, const yk_node *n, uint32_t type, const yk_value *x, const yk_value *y)
{
    const int64_t planes = x->dim[0] * x->dim[1], pixels = x->dim[2] * x->dim[3], windows = y->dim[2] * y->dim[3];
    const uint64_t bytes = (uint64_t)(planes * windows) * 4;
    pool_launch(ctx, type, "max_pool_places", planes, windows);
    kit_arg_in(ctx, n, 0);
    kit_arg_scratch(ctx, 0, bytes, 4);
    pool_args(ctx, n, x, y);
    pool_args_blocks(ctx, windows);
    pool_launch(ctx, type, "max_pool_take", planes, pixels);
    kit_arg_scratch(ctx, 0, bytes, 4);
    kit_arg_in(ctx, n, 1);
    kit_arg_out(ctx, n, 0);
    pool_args(ctx, n, x, y);
    pool_args_blocks(ctx, pixels);
}

static void lower_pool(kit_lowering *ctx, const yk_node *n, uint32_t type)
{
    static const char *const kernel[] = {"max_pool", "max_pool_bwd", "avg_pool", "avg_pool_bwd"};
    const bool back = n->op == YK_OP_MAX_POOL_BWD || n->op == YK_OP_AVG_POOL_BWD;
    const yk_value *x = back ? kit_node_out(ctx->graph, n, 0) : kit_node_in(ctx->graph, n, 0);
    const yk_value *y = back ? kit_node_in(ctx->graph, n, n->n_in - 1u) : kit_node_out(ctx->graph, n, 0);
    if (n->op == YK_OP_MAX_POOL_BWD && (!ctx->target->cpu_shape || type != YK_F32) && planes_are_counted(x, y)) {
        max_pool_gather(ctx, n, type, x, y);
        return;
    }
    nn_launch(ctx, "pool", type, kernel[n->op - YK_OP_MAX_POOL], x->dim[0] * x->dim[1], n->op == YK_OP_MAX_POOL_BWD ? 1 : TEAM);
    for (uint32_t i = 0; i < n->n_in; i++)
        kit_arg_in(ctx, n, i);
    kit_arg_out(ctx, n, 0);
    pool_args(ctx, n, x, y);
}

/* ---- Optimizers ---- */

static int64_t step_block(const kit_target *target)
{
    return target->cpu_shape || target->lanes ? BLOCK : STEP_GPU;
}

static void lower_adam(kit_lowering *ctx, const yk_node *n)
{
    char macros[64];
    snprintf(macros, sizeof macros, "-DT=f32%s", kit_row_macros(ctx->target));
    const uint32_t nodes = kit_steps_lower(ctx, macros);
    if (nodes) {
        ctx->further = nodes - 1;
        return;
    }
    const int64_t total = kit_value_count(kit_node_in(ctx->graph, n, 0)), block = step_block(ctx->target);
    nn_launch(ctx, "step", YK_F32, "adam_step", kit_div_up(total, block), TEAM);
    for (uint32_t i = 0; i < 6; i++)
        kit_arg_in(ctx, n, i);
    for (uint32_t i = 0; i < 4; i++)
        kit_arg_out(ctx, n, i);
    kit_arg_i64(ctx, total);
    kit_arg_i64(ctx, block);
    kit_arg_i32(ctx, kit_node_attr(ctx->graph, n, 0));
}

static void lower_sgd(kit_lowering *ctx, const yk_node *n)
{
    const int64_t total = kit_value_count(kit_node_in(ctx->graph, n, 0)), block = step_block(ctx->target);
    bool momentum = n->n_in == 4;
    nn_launch(ctx, "step", YK_F32, "sgd_step", kit_div_up(total, block), TEAM);
    kit_arg_in(ctx, n, 0);
    kit_arg_in(ctx, n, 1);
    kit_arg_in(ctx, n, momentum ? 2 : 0);
    kit_arg_in(ctx, n, momentum ? 3 : 2);
    kit_arg_out(ctx, n, 0);
    kit_arg_out(ctx, n, 1);
    kit_arg_i64(ctx, total);
    kit_arg_i64(ctx, block);
    kit_arg_i32(ctx, kit_node_attr(ctx->graph, n, 0));
    kit_arg_i32(ctx, momentum);
}

static void lower_grad_stats(kit_lowering *ctx, const yk_node *n)
{
    int64_t total = kit_value_count(kit_node_in(ctx->graph, n, 0)), parts = kit_div_up(total, GRAD_PARTS);
    uint64_t bytes = (uint64_t)parts * 8;
    nn_launch(ctx, "step", YK_F32, "grad_part", parts, TEAM);
    kit_arg_in(ctx, n, 0);
    kit_arg_in(ctx, n, 1);
    kit_arg_scratch(ctx, 0, bytes, 4);
    kit_arg_i64(ctx, total);
    kit_arg_i64(ctx, GRAD_PARTS);
    kit_arg_i64(ctx, parts);
    nn_launch(ctx, "step", YK_F32, "grad_sum", 1, TEAM);
    kit_arg_scratch(ctx, 0, bytes, 4);
    kit_arg_out(ctx, n, 0);
    kit_arg_i64(ctx, parts);
}

/* switch over ops */
static void lower_nn(kit_lowering *ctx, const yk_node *n)
{
    uint32_t type = YK_DTYPE_COUNT;
    if (!nn_type(ctx->target, ctx->graph, n, &type)) {
        kit_lower_fail(ctx, YK_E_UNSUPPORTED);
        return;
    }
    switch (n->op) {
    case YK_OP_LAYER_NORM:
        lower_layer_norm(ctx, n, type);
        break;
    case YK_OP_LAYER_NORM_BWD:
        lower_layer_norm_bwd(ctx, n, type);
        break;
    case YK_OP_SOFTMAX:
    case YK_OP_SOFTMAX_BWD:
        lower_softmax(ctx, n, type);
        break;
    case YK_OP_CROSS_ENTROPY:
    case YK_OP_CROSS_ENTROPY_BWD:
        lower_cross_entropy(ctx, n, type);
        break;
    case YK_OP_BN_STATS:
        lower_bn_stats(ctx, n, type);
        break;
    case YK_OP_DROPOUT:
        lower_dropout(ctx, n, type);
        break;
    case YK_OP_ADAM_STEP:
        lower_adam(ctx, n);
        break;
    case YK_OP_SGD_STEP:
        lower_sgd(ctx, n);
        break;
    case YK_OP_GRAD_STATS:
        lower_grad_stats(ctx, n);
        break;
    case YK_OP_MAX_POOL:
    case YK_OP_MAX_POOL_BWD:
    case YK_OP_AVG_POOL:
    case YK_OP_AVG_POOL_BWD:
        lower_pool(ctx, n, type);
        break;
    default:
        kit_lower_fail(ctx, YK_E_UNSUPPORTED);
        break;
    }
}

const kit_rule kit_rule_nn = {op_is_composite, claim_nn, lower_nn};
