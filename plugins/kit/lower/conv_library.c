/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions and their gradients by a vendor's library. conv_gpu.c offers each node first to kit_conv_by_library, while a program is
 * made, in any thread; false if the library does not take it.
 *
 * The request has results of the operands' type only, as libraries have fast kernels of 16 bits for no other. A filter's gradient in f32
 * is computed in 16 bits in scratch memory, and a kernel widens it (kernels/widen.kc). That rounds once more than the kit's kernels, whose
 * sums stay f32. The kit computes other convolutions with results wider than the operands.
 */
#include "plugins/kit/lower/conv_library.h"

#include <stdio.h>

#define WORK (1ll << 26) /* multiplications from which on it is asked: a plan takes time, and the kit's one kernel is quick then, too */
#define ALIGN 16         /* bytes that operands' places are multiples of */
#define WIDEN_TEAM 256   /* work-items of a group that widens, */
#define WIDEN_BLOCK 1024 /* and elements */

static kit_convolution convolution_of(const yk_graph *graph, const yk_node *n, const kit_conv_plan *conv)
{
    const int64_t *a = &graph->attr[n->attr];
    const yk_value *x = conv->x, *w = conv->w, *y = conv->y;
    return (kit_convolution){.images = x->dim[0],
                             .channels = x->dim[1],
                             .height = x->dim[2],
                             .width = x->dim[3],
                             .filters = w->dim[0],
                             .tall = w->dim[2],
                             .wide = w->dim[3],
                             .rows = y->dim[2],
                             .cols = y->dim[3],
                             .groups = a[6],
                             .stride = {a[0], a[1]},
                             .zeros = {a[2], a[3]},
                             .dilation = {a[4], a[5]},
                             .kind = n->op == YK_OP_CONV2D ? KIT_CONV_FORWARD : n->op == YK_OP_CONV2D_DX ? KIT_CONV_DATA : KIT_CONV_FILTER,
                             .dtype = kit_node_in(graph, n, 0)->dtype};
}

/* True if the result is widened from 16 bits. */
static bool result_widens(const yk_graph *graph, const yk_node *n)
{
    return n->op == YK_OP_CONV2D_DW && kit_node_out(graph, n, 0)->dtype != kit_node_in(graph, n, 0)->dtype;
}

static bool library_suits(const kit_target *target, const yk_graph *graph, const yk_node *n, const kit_conv_plan *conv)
{
    const yk_value *in0 = kit_node_in(graph, n, 0), *in1 = kit_node_in(graph, n, 1), *out = kit_node_out(graph, n, 0);
    const int64_t terms = conv->w->dim[1] * conv->w->dim[2] * conv->w->dim[3];
    return target->convolution && kit_value_count(conv->y) * terms >= WORK && (in0->offset | in1->offset | out->offset) % ALIGN == 0 &&
           (out->dtype == in0->dtype || result_widens(graph, n));
}

/* From scratch memory, `bytes` from `at` on. */
static void result_widen(kit_lowering *ctx, const yk_node *n, uint64_t at, uint64_t bytes)
{
    char defines[32];
    const uint32_t dtype = kit_node_in(ctx->graph, n, 0)->dtype;
    const int64_t total = kit_value_count(kit_node_out(ctx->graph, n, 0));
    snprintf(defines, sizeof defines, "-DT=%s", kit_type(dtype));
    kit_launch_add(ctx, "widen", defines, "widen", kit_div_up(total, WIDEN_BLOCK), 1, 1, WIDEN_TEAM);
    kit_arg_scratch(ctx, at, bytes, yk_dtype_bytes(dtype));
    kit_arg_out(ctx, n, 0);
    kit_arg_i32(ctx, total);
    kit_arg_i32(ctx, WIDEN_BLOCK);
    kit_arg_i32(ctx, n->flags & YK_NODE_ACCUMULATE ? 1 : 0);
}

bool kit_conv_by_library(kit_lowering *ctx, const yk_node *n, const kit_conv_plan *conv)
{
    const yk_graph *graph = ctx->graph;
    uint64_t scratch = 0;
    if (!library_suits(ctx->target, graph, n, conv))
        return false;
    const bool widens = result_widens(graph, n);
    kit_convolution convolution = convolution_of(graph, n, conv);
    convolution.accumulate = n->flags & YK_NODE_ACCUMULATE && !widens;
    if (!ctx->target->convolution(ctx->target->dev, &convolution, &scratch))
        return false;
    const uint32_t element = yk_dtype_bytes(convolution.dtype);
    const uint64_t at = kit_round_bytes(scratch, KIT_PRODUCT_ALIGN), bytes = (uint64_t)kit_value_count(conv->w) * element;
    kit_launch_add_convolution(ctx, &convolution);
    kit_arg_in(ctx, n, 0);
    kit_arg_in(ctx, n, 1);
    if (widens)
        kit_arg_scratch(ctx, at, bytes, element);
    else
        kit_arg_out(ctx, n, 0);
    kit_arg_scratch(ctx, 0, scratch, 1);
    if (widens)
        result_widen(ctx, n, at, bytes);
    return true;
}
