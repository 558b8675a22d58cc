/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lowering of round8, which rounds a value to 8 bits with one scale, and the 8-bit operands of a library's product. lower.c calls the
 * rule and lower_dot.c the rest, while a program is made, in any thread. Three launches that cannot be joined first make a value's scale,
 * in scratch memory.
 */
#include "plugins/kit/lower/lower_internal.h"

#include <math.h>
#include <stdio.h>

#define TEAM 128
#define BLOCK 8192
#define TILE 32       /* TILE of eight_transposed */
#define SCALE_ROOM 64 /* bytes from a scale to the sizes of blocks that it comes from */

static const struct {
    int mantissa, least, most; /* mantissa bits; exponents of the least normal and of the largest number */
    int top, infinity;         /* bits of the largest number, and of the value beyond it */
} formats[] = {[YK_ROUND8_E4M3] = {3, -6, 8, 0x7e, 0x7f}, [YK_ROUND8_E5M2] = {2, -14, 15, 0x7b, 0x7c}};

static void eight_launch(kit_lowering *ctx, const char *file, uint32_t dtype, const char *kernel, int64_t x, int64_t y)
{
    char defines[32];
    snprintf(defines, sizeof defines, "-DT=%s", kit_type(dtype));
    kit_launch_add(ctx, file, defines, kernel, x, y, 1, TEAM);
}

static uint64_t scale_bytes(int64_t count)
{
    return SCALE_ROOM + (uint64_t)kit_div_up(count, BLOCK) * 4;
}

/* The scale of a dense value, and its inverse, to scratch memory at `at`. */
static void scale_make(kit_lowering *ctx, uint32_t value, uint32_t format, uint64_t at)
{
    const yk_value *x = &ctx->graph->value[value];
    const int64_t count = kit_value_count(x), parts = kit_div_up(count, BLOCK);
    eight_launch(ctx, "round8", x->dtype, "round8_size", parts, 1);
    kit_arg_value(ctx, value);
    kit_arg_scratch(ctx, at + SCALE_ROOM, (uint64_t)parts * 4, 4);
    kit_arg_i64(ctx, count);
    kit_arg_i64(ctx, BLOCK);
    eight_launch(ctx, "round8", x->dtype, "round8_scale", 1, 1);
    kit_arg_scratch(ctx, at + SCALE_ROOM, (uint64_t)parts * 4, 4);
    kit_arg_scratch(ctx, at, KIT_EIGHT_INVERSE + 4, 4);
    kit_arg_i64(ctx, parts);
    kit_arg_i32(ctx, formats[format].most);
}

/* ---- round8 ---- */

static bool op_is_round8(uint32_t op)
{
    return op == YK_OP_ROUND8;
}

/* f16 holds not all of its results' scaled numbers, and keeps the body. */
static uint32_t claim_round8(const kit_target *target, const yk_graph *graph, uint32_t node)
{
    const yk_node *n = &graph->node[node];
    const yk_value *x = kit_node_in(graph, n, 0), *y = kit_node_out(graph, n, 0);
    (void)target;
    if ((x->dtype != YK_F32 && x->dtype != YK_BF16) || y->dtype != x->dtype || !kit_value_dense(x) || !kit_value_dense(y))
        return 0;
    return YK_CLAIM_RUN;
}

static void lower_round8(kit_lowering *ctx, const yk_node *n)
{
    const yk_value *x = kit_node_in(ctx->graph, n, 0);
    const int64_t count = kit_value_count(x), format = kit_node_attr(ctx->graph, n, 0);
    if (!claim_round8(ctx->target, ctx->graph, ctx->node)) {
        kit_lower_fail(ctx, YK_E_UNSUPPORTED);
        return;
    }
    scale_make(ctx, ctx->graph->index[n->in], (uint32_t)format, 0);
    eight_launch(ctx, "round8", x->dtype, "round8", kit_div_up(count, BLOCK), 1);
    kit_arg_in(ctx, n, 0);
    kit_arg_scratch(ctx, 0, scale_bytes(count), 4);
    kit_arg_out(ctx, n, 0);
    kit_arg_i64(ctx, count);
    kit_arg_i64(ctx, BLOCK);
    kit_arg_i32(ctx, formats[format].least);
    kit_arg_i32(ctx, formats[format].mantissa);
    kit_arg_f32(ctx, ldexp(1.75, formats[format].most));
}

const kit_rule kit_rule_round8 = {op_is_round8, claim_round8, lower_round8};

/* ---- Operands of products ---- */

void kit_eight_make(kit_lowering *ctx, const kit_eight *e)
{
    const uint32_t dtype = ctx->graph->value[e->value].dtype;
    const int64_t words = e->rows * e->terms / 4;
    scale_make(ctx, e->value, e->format, e->scale_at);
    if (e->transposed)
        eight_launch(ctx, "eight", dtype, "eight_transposed", kit_div_up(e->rows, TILE), kit_div_up(e->terms, TILE));
    else
        eight_launch(ctx, "eight", dtype, "eight_same", kit_div_up(words, BLOCK / 4), 1);
    kit_arg_value(ctx, e->value);
    kit_arg_scratch(ctx, e->scale_at, 4, 4);
    kit_arg_scratch(ctx, e->at, (uint64_t)words * 4, 4);
    kit_arg_i64(ctx, e->transposed ? e->rows : words);
    kit_arg_i64(ctx, e->transposed ? e->terms : BLOCK / 4);
    kit_arg_i32(ctx, formats[e->format].least);
    kit_arg_i32(ctx, formats[e->format].mantissa);
    kit_arg_i32(ctx, formats[e->format].top);
    kit_arg_i32(ctx, formats[e->format].infinity);
}

uint64_t kit_eight_place(kit_eight *e, uint64_t from)
{
    e->at = kit_round_bytes(from, KIT_PRODUCT_ALIGN);
    e->scale_at = kit_round_bytes(e->at + (uint64_t)(e->rows * e->terms), KIT_PRODUCT_ALIGN);
    return e->scale_at + scale_bytes(e->rows * e->terms);
}
