/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lowering of convolutions for the CPU shape, in which a work-item is a group by itself (kernels/conv.kc, wino.kc). It makes blocks of
 * rows that fit local memory, and launches.
 *
 * lower.c calls this rule for each convolution and gradient while a plugin makes a program, in any thread. Nodes of the GPU shape go on to
 * conv_gpu.c.
 */
#include "plugins/kit/lower/conv_gpu.h"

#include <stdio.h>

#define CONV_LOCAL 126976 /* floats of local memory for a kernel of kernels/conv.kc, if available; */
#define CONV_X 65536      /* more of the source than these, */
#define CONV_G 49152      /* more of the results' gradients, */
#define CONV_TAPS 8192    /* and more taps do not pay */
#define CONV_TILE 256     /* 16 * VW: results on their way, */
#define CONV_LONG 1024    /* K_LONG of kernels/math.kc: three times as many where a result has more terms */
#define DW_LONG 4096      /* DW_LONG of kernels/conv.kc: pixels of a chunk before its sums are moved away, */
#define WINO_LONG 128     /* and of kernels/wino.kc: blocks */
#define WINO_PIXELS 64 /* pixels of a block of kernels/wino.kc */
#define WINO_MOST 128 /* channels */
#define WINO_CHUNKS (KIT_CONV_CHUNKS / 2) /* chunks of a gradient; they are 16 / 9 as large */

static int64_t conv_local(const kit_target *target)
{
    return kit_local_floats(target) < CONV_LOCAL ? kit_local_floats(target) : CONV_LOCAL;
}

/* Places of the parts in local memory with r rows of results in an item; false if they do not fit. */
static bool conv_rows_fit(const kit_target *target, kit_conv_plan *conv, bool dw, int64_t r)
{
    int64_t *m = conv->meta, beyond = 4 * m[G_SH] * m[G_LEN] + 32; /* read beyond the last row, and not used */
    int64_t gradients = r * m[G_OW] * m[G_PAD];
    m[G_R] = r;
    m[G_ROWS] = (r - 1) * m[G_SH] + (m[G_KH] - 1) * m[G_DH] + 1;
    m[G_X] = kit_round_up(m[G_C] * m[G_KH] * m[G_KW], 16);
    int64_t source = m[G_C] * m[G_ROWS] * m[G_LEN];
    m[G_REST] = kit_round_up(m[G_X] + source + beyond, 16);
    const int64_t tile = m[G_C] * m[G_KH] * m[G_KW] > CONV_LONG ? 3 * CONV_TILE : CONV_TILE;
    return source <= CONV_X && gradients <= CONV_G && m[G_REST] + (dw ? gradients : tile) <= conv_local(target);
}

/* Layout of the local copy, rows of an item; false if not even one row fits. */
static bool conv_blocks(const kit_target *target, kit_conv_plan *conv, bool dw)
{
    int64_t *m = conv->meta, width;
    conv->seg = m[G_OW] > 8 ? 16 : m[G_OW] > 4 ? 8 : 4;
    width = kit_round_up(m[G_OW], conv->seg);
    conv->nv = m[G_M] > 16 ? 2 : 1;
    m[G_PHASE] = width + ((m[G_KW] - 1) * m[G_DW]) / m[G_SW] + 1;
    m[G_LEN] = m[G_PHASE] * m[G_SW];
    m[G_PAD] = kit_round_up(m[G_M], 16 * conv->nv);
    if (m[G_C] * m[G_KH] * m[G_KW] > CONV_TAPS)
        return false;
    for (int64_t r = m[G_OH]; r > 0; r = r > 4 ? (r + 1) / 2 : r - 1)
        if (conv_rows_fit(target, conv, dw, r))
            return true;
    return false;
}

static bool conv_of(const kit_target *target, const yk_graph *graph, const yk_node *n, kit_conv_plan *conv)
{
    if (!kit_conv_plan_make(graph, n, conv))
        return false;
    return target->cpu_shape ? conv_blocks(target, conv, n->op == YK_OP_CONV2D_DW) : kit_conv_gpu_fits(target, graph, n, conv);
}

static bool op_is_conv(uint32_t op)
{
    return op == YK_OP_CONV2D || op == YK_OP_CONV2D_DX || op == YK_OP_CONV2D_DW;
}

static uint32_t claim_conv(const kit_target *target, const yk_graph *graph, uint32_t node)
{
    kit_conv_plan conv;
    const yk_node *n = &graph->node[node];
    if (!conv_of(target, graph, n, &conv))
        return 0;
    return YK_CLAIM_RUN | (n->op == YK_OP_CONV2D_DW ? YK_CLAIM_ACCUMULATE : 0u);
}

static void conv_defines(const kit_target *target, const yk_graph *graph, const yk_node *n, const kit_conv_plan *conv, char *text,
                         size_t size)
{
    bool dw = n->op == YK_OP_CONV2D_DW;
    snprintf(text, size, "-D%s -DCONV_LOCAL=%d -DT=%s -DTC=%s -DSEG=%u -DNV=%u%s", dw ? "CONV_DW" : "CONV_DIRECT",
             (int)conv_local(target), kit_type(graph->value[graph->index[n->in]].dtype),
             kit_type(graph->value[graph->index[n->out]].dtype), dw ? 16 : conv->seg, dw ? conv->nv : 1,
             conv->meta[G_YS] != conv->meta[G_OW] ? " -DSTRIDED" : "");
}

static void lower_direct(kit_lowering *ctx, const yk_node *n, const kit_conv_plan *conv)
{
    char defines[128];
    const int64_t *m = conv->meta;
    conv_defines(ctx->target, ctx->graph, n, conv, defines, sizeof defines);
    int64_t K = m[G_C] * m[G_KH] * m[G_KW], tiles = kit_div_up(m[G_M], 8);
    uint64_t bytes = (uint64_t)(m[G_GROUPS] * tiles * K * 8) * 4;
    kit_launch_add(ctx, "conv", defines, "conv_filter", tiles, m[G_GROUPS], 1, 1);
    kit_arg_value(ctx, ctx->graph->index[n->in + 1]);
    kit_arg_scratch(ctx, 0, bytes, 4);
    kit_arg_meta(ctx, m, G_COUNT);
    kit_launch_add(ctx, "conv", defines, "conv_direct", kit_div_up(m[G_OH], m[G_R]), m[G_N], m[G_GROUPS], 1);
    kit_arg_value(ctx, ctx->graph->index[n->in]);
    kit_arg_scratch(ctx, 0, bytes, 4);
    kit_arg_value(ctx, ctx->graph->index[n->out]);
    kit_arg_meta(ctx, m, G_COUNT);
}

/* Vectors of outputs in a gradient's sums */
static int wino_vectors(const kit_conv_plan *conv)
{
    return conv->meta[G_M] > 16 ? 2 : 1;
}

/*
 * Channels and outputs to transform at a time. Local memory holds 1 KiB for each of twice as many and one more, and 8 KiB of a
 * gradient's stage. NULL if even the least part does not fit: transforming again and again would not pay.
 */
typedef struct wino_part {
    int kib, channels, outputs;
} wino_part;

static const wino_part *wino_fit(const kit_target *target, bool dw)
{
    static const wino_part whole[] = {{386, 128, 64}, {194, 32, 64}, {98, 16, 32}};
    static const wino_part gradient[] = {{522, 128, 128}, {394, 128, 64}, {202, 64, 32}, {106, 16, 32}};
    const wino_part *part = dw ? gradient : whole;
    for (size_t i = 0; i < (dw ? sizeof gradient : sizeof whole) / sizeof *part; i++)
        if ((int64_t)part[i].kib * 256 <= kit_local_floats(target))
            return &part[i];
    return NULL;
}

/* True if kernels/wino.kc takes it; few channels do not pay for the transforms. */
static bool wino_suits(const kit_target *target, const yk_graph *graph, const yk_node *n, const kit_conv_plan *conv)
{
    const int64_t *a = &graph->attr[n->attr], *m = conv->meta;
    bool three = m[G_KH] == 3 && m[G_KW] == 3 && a[0] == 1 && a[1] == 1 && a[4] == 1 && a[5] == 1;
    bool same = a[2] == 1 && a[3] == 1 && m[G_GROUPS] == 1;
    bool plane = (m[G_OW] == 8 || m[G_OW] == 16 || m[G_OW] == 32) && m[G_OH] * m[G_OW] % WINO_PIXELS == 0;
    bool dw = n->op == YK_OP_CONV2D_DW;
    bool channels = m[G_C] >= 16 && m[G_C] <= WINO_MOST && m[G_C] % (dw ? 16 / wino_vectors(conv) : 2) == 0;
    return three && same && plane && channels && m[G_M] >= 16 && (!dw || m[G_M] <= WINO_MOST) && wino_fit(target, dw);
}

static void wino_defines(const kit_target *target, const yk_graph *graph, const yk_node *n, const kit_conv_plan *conv, char *text,
                         size_t size)
{
    const bool dw = n->op == YK_OP_CONV2D_DW;
    const wino_part *part = wino_fit(target, dw);
    snprintf(text, size, "-D%s -DWINO_CHANNELS=%d -DWINO_OUT=%d -DT=%s -DTC=%s -DTX=%d -DWINO_NV=%d", dw ? "WINO_DW" : "WINO_CONV",
             part->channels, part->outputs, kit_type(graph->value[graph->index[n->in]].dtype),
             kit_type(graph->value[graph->index[n->out]].dtype), (int)conv->meta[G_OW] / 2, dw ? wino_vectors(conv) : 2);
}

static void lower_wino(kit_lowering *ctx, const yk_node *n, const kit_conv_plan *conv)
{
    const int64_t *m = conv->meta;
    int64_t tiles = kit_div_up(m[G_M], 8), of_image = m[G_OH] * m[G_OW] / WINO_PIXELS, blocks = m[G_N] * of_image;
    uint64_t bytes = (uint64_t)(16 * tiles * m[G_C] * 8) * 4;
    char defines[128];
    wino_defines(ctx->target, ctx->graph, n, conv, defines, sizeof defines);
    kit_launch_add(ctx, "wino", defines, "wino_filter", tiles, 1, 1, 1);
    kit_arg_value(ctx, ctx->graph->index[n->in + 1]);
    kit_arg_scratch(ctx, 0, bytes, 4);
    kit_arg_i64(ctx, m[G_C]);
    kit_arg_i64(ctx, m[G_M]);
    kit_arg_i32(ctx, n->op == YK_OP_CONV2D_DX);
    kit_launch_add(ctx, "wino", defines, "wino_conv", kit_div_up(blocks, 2), 1, 1, 1);
    kit_arg_value(ctx, ctx->graph->index[n->in]);
    kit_arg_scratch(ctx, 0, bytes, 4);
    kit_arg_value(ctx, ctx->graph->index[n->out]);
    kit_arg_i64(ctx, m[G_C]);
    kit_arg_i64(ctx, m[G_M]);
    kit_arg_i64(ctx, blocks);
    kit_arg_i64(ctx, of_image);
}

static void lower_wino_dw(kit_lowering *ctx, const yk_node *n, const kit_conv_plan *conv)
{
    const int64_t *m = conv->meta;
    int64_t of_image = m[G_OH] * m[G_OW] / WINO_PIXELS, blocks = m[G_N] * of_image;
    int64_t chunk = 2 * kit_div_up(blocks, 2 * WINO_CHUNKS), chunks = kit_div_up(blocks, chunk);
    int64_t pad = 16 * wino_vectors(conv);
    uint64_t bytes = (uint64_t)(chunks * 16 * m[G_C] * kit_round_up(m[G_M], pad)) * (chunk > WINO_LONG ? 3 : 1) * 4;
    char defines[128];
    wino_defines(ctx->target, ctx->graph, n, conv, defines, sizeof defines);
    kit_launch_add(ctx, "wino", defines, "wino_dw", chunks, 1, 1, 1);
    kit_arg_value(ctx, ctx->graph->index[n->in + 1]);
    kit_arg_value(ctx, ctx->graph->index[n->in]);
    kit_arg_scratch(ctx, 0, bytes, 4);
    kit_arg_i64(ctx, m[G_C]);
    kit_arg_i64(ctx, m[G_M]);
    kit_arg_i64(ctx, blocks);
    kit_arg_i64(ctx, of_image);
    kit_arg_i64(ctx, chunk);
    kit_launch_add(ctx, "wino", defines, "wino_dw_sum", m[G_C], 1, 1, 1);
    kit_arg_scratch(ctx, 0, bytes, 4);
    kit_arg_value(ctx, ctx->graph->index[n->out]);
    kit_arg_i64(ctx, m[G_C]);
    kit_arg_i64(ctx, m[G_M]);
    kit_arg_i64(ctx, chunks);
    kit_arg_i32(ctx, n->flags & YK_NODE_ACCUMULATE ? 1 : 0);
}

/* A gradient by steps, taken apart. */
static void lower_phases(kit_lowering *ctx, const yk_node *n, const kit_conv_plan *conv)
{
    const int64_t *a = &ctx->graph->attr[n->attr];
    for (int64_t row = 0; row < a[0] && row < conv->meta[G_OH]; row++)
        for (int64_t column = 0; column < a[1] && column < conv->meta[G_OW]; column++) {
            kit_conv_plan part = *conv;
            kit_conv_phase(&part, a, row, column);
            if (conv_blocks(ctx->target, &part, false)) /* smaller than the whole, which fits */
                lower_direct(ctx, n, &part);
            else
                kit_lower_fail(ctx, YK_E_INTERNAL);
        }
}

static void lower_dw(kit_lowering *ctx, const yk_node *n, kit_conv_plan *conv)
{
    char defines[128];
    conv_defines(ctx->target, ctx->graph, n, conv, defines, sizeof defines);
    int64_t *m = conv->meta, K = m[G_C] * m[G_KH] * m[G_KW];
    m[G_CHUNK] = kit_div_up(m[G_N], KIT_CONV_CHUNKS);
    int64_t chunks = kit_div_up(m[G_N], m[G_CHUNK]);
    uint64_t bytes = (uint64_t)(chunks * m[G_GROUPS] * K * m[G_PAD]) * (m[G_CHUNK] * m[G_OH] * m[G_OW] > DW_LONG ? 3 : 1) * 4;
    kit_launch_add(ctx, "conv", defines, "conv_dw", chunks, m[G_GROUPS], 1, 1);
    kit_arg_value(ctx, ctx->graph->index[n->in + 1]);
    kit_arg_value(ctx, ctx->graph->index[n->in]);
    kit_arg_scratch(ctx, 0, bytes, 4);
    kit_arg_meta(ctx, m, G_COUNT);
    kit_launch_add(ctx, "conv", defines, "conv_dw_sum", K, m[G_GROUPS], 1, 1);
    kit_arg_scratch(ctx, 0, bytes, 4);
    kit_arg_value(ctx, ctx->graph->index[n->out]);
    kit_arg_i64(ctx, m[G_M]);
    kit_arg_i64(ctx, K);
    kit_arg_i64(ctx, m[G_PAD]);
    kit_arg_i64(ctx, chunks);
    kit_arg_i64(ctx, m[G_GROUPS]);
    kit_arg_i32(ctx, n->flags & YK_NODE_ACCUMULATE ? 1 : 0);
}

static void lower_cpu(kit_lowering *ctx, const yk_node *n, kit_conv_plan *conv)
{
    const bool wino = wino_suits(ctx->target, ctx->graph, n, conv);
    if (n->op == YK_OP_CONV2D_DW && wino)
        lower_wino_dw(ctx, n, conv);
    else if (n->op == YK_OP_CONV2D_DW)
        lower_dw(ctx, n, conv);
    else if (kit_conv_has_phases(ctx->graph, n))
        lower_phases(ctx, n, conv);
    else if (wino)
        lower_wino(ctx, n, conv);
    else
        lower_direct(ctx, n, conv);
}

static void lower_conv(kit_lowering *ctx, const yk_node *n)
{
    kit_conv_plan conv;
    if (!conv_of(ctx->target, ctx->graph, n, &conv)) {
        kit_lower_fail(ctx, YK_E_UNSUPPORTED);
        return;
    }
    if (ctx->target->cpu_shape)
        lower_cpu(ctx, n, &conv);
    else
        kit_conv_gpu_lower(ctx, n, &conv);
}

const kit_rule kit_rule_conv = {op_is_conv, claim_conv, lower_conv};
