/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lowering of attention and its gradient: the claim, blocks of queries and keys that fit a device's local memory, and the launches.
 * The kernels are kernels/attn.kc, attn_gpu.kc and attn_mma.kc.
 *
 * lower.c calls this rule for each such node while a plugin makes a program, in any thread. A device with a library that takes the request
 * (kit_target.attention) gets one launch of that instead.
 */
#include "plugins/kit/lower/lower_internal.h"

#include <stdio.h>

#define TEAM 128         /* work-items of data.kc's kernels */
#define BLOCK 8192
#define ATT_MOST 128     /* elements of a head */
#define GPU_TEAM 64      /* queries or keys of a group on a GPU, whose rows are in registers, ... */
#define GPU_ROWS 32      /* and rows of the other side in local memory, at most ... */
#define GPU_ROWS_LEAST 4 /* and at least */
#define LANES_MOST 64    /* elements of a head on lanes of a processor's vector; */
#define LANES_TWICE 32   /* with no more of them a work-item has two queries */
#define LANES_ROUNDS 60000 /* llvmpipe ends loops after 65535 rounds */

/* ---- The CPU shape ---- */

/* Blocks of queries and keys, and room for the elements of a head, as kernels/attn.kc has them in local memory. */
typedef struct att_blocks {
    int queries, keys, head;
} att_blocks;

static int64_t attention_floats(const att_blocks *b, bool back)
{
    const int64_t q = b->queries, k = b->keys, d = b->head;
    return back ? 2 * q * d + k * d + 2 * k * q + 8 * q + 256 + 2 * q : 2 * q * d + k * d + k * q + 3 * q;
}

/* The largest that the device's local memory holds; false if it does not hold the least. */
static bool attention_blocks(const kit_target *target, int64_t head, bool back, att_blocks *out)
{
    static const int side[][2] = {{64, 128}, {64, 64}, {32, 64}, {32, 32}, {32, 16}, {32, 8}};
    *out = (att_blocks){side[0][0], side[0][1], ATT_MOST};
    for (size_t i = 0; i < sizeof side / sizeof *side && attention_floats(out, back) > kit_local_floats(target); i++)
        *out = (att_blocks){side[i][0], side[i][1], (int)kit_round_up(head, 32)};
    return head <= ATT_MOST && attention_floats(out, back) <= kit_local_floats(target);
}

/* ---- The GPU shape ---- */

/* Rows in local memory; 0: not even the least. */
static int gpu_rows(const kit_target *target, int64_t head)
{
    int rows = GPU_ROWS;
    while (rows >= GPU_ROWS_LEAST && 2 * rows * head > kit_local_floats(target))
        rows /= 2;
    return rows < GPU_ROWS_LEAST ? 0 : rows;
}

static bool rows_fit(const kit_target *target, const yk_graph *graph, const yk_node *n)
{
    const uint32_t first = n->op == YK_OP_ATTENTION_BWD ? 3 : 0;
    const yk_value *q = kit_node_in(graph, n, first), *k = kit_node_in(graph, n, first + 1);
    if (q->dim[2] > INT32_MAX / 2 || k->dim[2] > INT32_MAX / 2 || q->dim[0] > UINT16_MAX)
        return false;
    if (target->lanes)
        return q->dim[3] <= LANES_MOST && q->dim[2] <= LANES_ROUNDS && k->dim[2] <= LANES_ROUNDS;
    return q->dim[3] <= ATT_MOST && gpu_rows(target, q->dim[3]) > 0;
}

/* ---- Tensor cores ---- */

/* Rows of the other side in local memory. Their scores are in registers, in backward with their gradients. */
static int mma_rows(int64_t head, bool back)
{
    return !back ? 64 : head <= 64 ? 32 : 16;
}

/* True if a head's elements are contiguous, and its other strides are multiples of `unit`. */
static bool head_lies(const yk_value *v, int64_t unit)
{
    if (v->dim[3] != 1 && v->stride[3] != 1)
        return false;
    for (int d = 0; d < 3; d++)
        if (v->dim[d] != 1 && v->stride[d] % unit)
            return false;
    return true;
}

/* True if the kernels of kernels/attn_mma.kc take the node, operands and results in any order of heads and rows (YK_CLAIM_STRIDED_OUT). */
static bool mma_fits(const kit_target *target, const yk_graph *graph, const yk_node *n)
{
    const bool back = n->op == YK_OP_ATTENTION_BWD;
    const uint32_t first = back ? 3 : 0;
    const yk_value *q = kit_node_in(graph, n, first);
    const int64_t head = q->dim[3];
    if (!kit_mma_takes(target, q->dtype) || head % 16 || 2 * mma_rows(head, back) * (head + 8) * 2 > target->max_local)
        return false;
    for (uint32_t i = 0; i < first + 3; i++)
        if (!(back && i == 2) && !head_lies(kit_node_in(graph, n, i), 8))
            return false;
    for (uint32_t i = 0; i < (back ? 3u : 1u); i++)
        if (!head_lies(kit_node_out(graph, n, i), 1))
            return false;
    return true;
}

/* ---- A library of the vendor's ---- */

#define LIBRARY_SCORES 4096 /* scores of a head from which the library is asked: making a plan takes long, and small ones are quick
                             * anyway */

static kit_heads heads_of(const yk_value *v)
{
    int64_t stride[3];
    for (int d = 0; d < 3; d++) /* one that is never taken must not lie across another's */
        stride[d] = v->dim[d] == 1 ? v->dim[3] : v->stride[d];
    return (kit_heads){stride[0], stride[1], stride[2]};
}

/* The request to the library. False for masks, dropout or another layout. */
static bool library_attention(const yk_graph *graph, const yk_node *n, kit_attention *a)
{
    const bool back = n->op == YK_OP_ATTENTION_BWD;
    const uint32_t first = back ? 3 : 0;
    const yk_value *q = kit_node_in(graph, n, first), *k = kit_node_in(graph, n, first + 1), *v = kit_node_in(graph, n, first + 2);
    const yk_value *out = back ? kit_node_in(graph, n, 1) : kit_node_out(graph, n, 0);
    const yk_value *const all[] = {q, k, v, out, kit_node_in(graph, n, 0), kit_node_out(graph, n, 0), kit_node_out(graph, n, back ? 1 : 0),
                                   kit_node_out(graph, n, back ? 2 : 0)};
    const yk_value *lse = back ? kit_node_in(graph, n, 2) : kit_node_out(graph, n, 1);
    const bool causal = kit_node_attr(graph, n, 0) != 0;
    if (kit_node_attr(graph, n, 4) || lse->offset % 16 || k->dim[1] != q->dim[1] || (causal && q->dim[2] != k->dim[2]) ||
        q->dim[2] * k->dim[2] < LIBRARY_SCORES)
        return false;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!head_lies(all[i], 8) || all[i]->offset % 16)
            return false;
    *a = (kit_attention){.batch = q->dim[0], .heads = q->dim[1], .queries = q->dim[2], .keys = k->dim[2], .size = q->dim[3],
                         .q = heads_of(q), .k = heads_of(k), .v = heads_of(v), .out = heads_of(out), .dtype = q->dtype, .causal = causal,
                         .backward = back, .scale = (float)yk_attr_f64(kit_node_attr(graph, n, 1))};
    if (back) {
        a->gout = heads_of(all[4]);
        a->gq = heads_of(all[5]);
        a->gk = heads_of(all[6]);
        a->gv = heads_of(all[7]);
    }
    return true;
}

/* Adds the library's launch if it computes this node; only nodes that fit the kit's tensor-core kernels are asked for. */
static bool library_lower(kit_lowering *ctx, const yk_node *n)
{
    kit_attention a;
    uint64_t scratch = 0, at = 0;
    if (!ctx->target->attention || !mma_fits(ctx->target, ctx->graph, n) || !library_attention(ctx->graph, n, &a) ||
        !ctx->target->attention(ctx->target->dev, &a, &scratch))
        return false;
    kit_launch_add_attention(ctx, &a);
    for (uint32_t i = 0; i < (a.backward ? 6u : 3u); i++)
        kit_arg_in(ctx, n, i);
    for (uint32_t i = 0; i < (a.backward ? 3u : 2u); i++)
        kit_arg_out(ctx, n, i);
    if (a.backward) {
        at = (uint64_t)(a.batch * a.heads * a.queries) * 4;
        kit_arg_scratch(ctx, 0, at, 4);
        at = (uint64_t)kit_round_up((int64_t)at, KIT_PRODUCT_ALIGN);
    }
    kit_arg_scratch(ctx, at, scratch, 1);
    return true;
}

/* ---- Claims ---- */

static bool attention_fits(const kit_target *target, const yk_graph *graph, const yk_node *n)
{
    bool back = n->op == YK_OP_ATTENTION_BWD;
    int64_t flags = graph->attr[n->attr + 4];
    uint32_t first = back ? 3 : 0, k = first + 3;
    const yk_value *q = kit_node_in(graph, n, first);
    const bool any = !target->cpu_shape && mma_fits(target, graph, n); /* else all is dense */
    for (uint32_t i = 0; i < k; i++)
        if ((!(any && !(back && i == 2)) && !kit_value_dense(kit_node_in(graph, n, i))) ||
            kit_node_in(graph, n, i)->dtype != (back && i == 2 ? YK_F32 : q->dtype))
            return false;
    for (uint32_t i = 0; i < n->n_out; i++)
        if (!(any && i < (back ? 3 : 1)) && !kit_value_dense(kit_node_out(graph, n, i)))
            return false;
    if (flags & YK_ATT_KEEP && !kit_value_dense(kit_node_in(graph, n, k++)))
        return false;
    if (flags & YK_ATT_BIAS && kit_node_in(graph, n, k)->dtype != YK_F32)
        return false;
    for (uint32_t i = 0; i < (back ? 3u : 1u); i++)
        if (kit_node_out(graph, n, i)->dtype != q->dtype)
            return false;
    att_blocks blocks;
    return kit_is_float(q->dtype) && (!back || kit_node_in(graph, n, first + 1)->dim[1] == q->dim[1]) &&
           (target->cpu_shape ? attention_blocks(target, q->dim[3], back, &blocks) : rows_fit(target, graph, n));
}

static bool op_is_attention(uint32_t op)
{
    return op == YK_OP_ATTENTION || op == YK_OP_ATTENTION_BWD;
}

static uint32_t claim_attention(const kit_target *target, const yk_graph *graph, uint32_t node)
{
    const yk_node *n = &graph->node[node];
    if (!attention_fits(target, graph, n))
        return 0;
    return !target->cpu_shape && mma_fits(target, graph, n) ? YK_CLAIM_RUN | YK_CLAIM_STRIDED_OUT : YK_CLAIM_RUN;
}

/* ---- Launches: the common part of both shapes ---- */

/* Heads, heads of keys, queries, keys, elements of a head, causal, flags, stream; strides of the bias */
static void attention_sizes(const yk_graph *graph, const yk_node *n, uint32_t first, int64_t meta[12])
{
    const yk_value *q = kit_node_in(graph, n, first), *k = kit_node_in(graph, n, first + 1);
    const int64_t flags = kit_node_attr(graph, n, 4), causal = kit_node_attr(graph, n, 0), stream = kit_node_attr(graph, n, 3);
    const int64_t m[] = {q->dim[1], k->dim[1], q->dim[2], k->dim[2], q->dim[3], causal, flags, stream};
    memcpy(meta, m, sizeof m);
    for (uint32_t d = 0; d < 4; d++) {
        const yk_value *bias = flags & YK_ATT_BIAS ? kit_node_in(graph, n, first + 3 + (flags & YK_ATT_KEEP ? 1 : 0)) : NULL;
        meta[8 + d] = bias && bias->dim[d] > 1 ? bias->stride[d] : 0;
    }
}

/* Sizes, scale and the rate of dropout: as numbers in memory, or as ATT_SIZES. */
static void arg_sizes(kit_lowering *ctx, const yk_node *n, uint32_t first)
{
    int64_t m[12];
    attention_sizes(ctx->graph, n, first, m);
    if (ctx->target->cpu_shape)
        kit_arg_meta(ctx, m, 12);
    for (uint32_t i = 0; i < 8 && !ctx->target->cpu_shape; i++)
        if (i != 4) /* a macro has it */
            kit_arg_i32(ctx, m[i]);
    for (uint32_t i = 8; i < 12 && !ctx->target->cpu_shape; i++)
        kit_arg_i64(ctx, m[i]);
    kit_arg_f32(ctx, yk_attr_f64(kit_node_attr(ctx->graph, n, 1)));
    kit_arg_f32(ctx, yk_attr_f64(kit_node_attr(ctx->graph, n, 2)));
}

/* Operands from `from` on up to queries, keys and values at `first`; then keep, bias, key, rows. The first operand stands in for an
 * absent one. */
static void arg_operands(kit_lowering *ctx, const yk_node *n, uint32_t from, uint32_t first)
{
    const int64_t flags = kit_node_attr(ctx->graph, n, 4);
    uint32_t at = first + 3;
    for (uint32_t i = from; i < at; i++)
        kit_arg_in(ctx, n, i);
    kit_arg_in(ctx, n, flags & YK_ATT_KEEP ? at++ : 0);
    kit_arg_in(ctx, n, flags & YK_ATT_BIAS ? at++ : 0);
    kit_arg_in(ctx, n, flags & YK_ATT_DROP ? at++ : 0);
    kit_arg_in(ctx, n, flags & YK_ATT_DROP ? at++ : 0);
}

/* Returns how many queries a block has. */
static int64_t blocks_defines(const kit_target *target, const yk_value *q, bool back, char *text, size_t size)
{
    att_blocks b;
    attention_blocks(target, q->dim[3], back, &b);
    snprintf(text, size, "-D%s -DGEMM_LOCAL -DBQ=%d -DBK=%d -DAD=%d -DT=%s -DTA=%s", back ? "ATT_BACKWARD" : "ATT_FORWARD",
             b.queries, b.keys, b.head, kit_type(q->dtype), kit_type(q->dtype));
    return b.queries;
}

/* Queries, or keys, of a work-item. */
static int rows_each(const kit_target *target, int64_t head, bool back)
{
    return target->lanes && !back && head <= LANES_TWICE ? 2 : 1;
}

/* Returns how many rows a group has. */
static int64_t rows_defines(const kit_target *target, const yk_value *q, bool back, char *text, size_t size)
{
    const int head = (int)q->dim[3], lanes = (int)target->lanes, each = rows_each(target, head, back);
    const uint32_t team = kit_team(target, GPU_TEAM);
    const int at = snprintf(text, size, "-D%s -DT=%s -DAD=%d -DATT_TEAM=%u -DQL=%d", back ? "ATT_BACKWARD" : "ATT_FORWARD",
                            kit_type(q->dtype), head, team, each);
    if (lanes)
        snprintf(text + at, size - (size_t)at, " -DATT_LANES=%d -DATT_KEPT=%d", lanes, (head + lanes - 1) / lanes);
    else
        snprintf(text + at, size - (size_t)at, " -DKT=%d", gpu_rows(target, head));
    return (int64_t)team * each;
}

/* Returns how many rows a group has: 16 for each warp. */
static int64_t mma_defines(const kit_target *target, const yk_value *q, bool back, char *text, size_t size)
{
    const int head = (int)q->dim[3];
    snprintf(text, size, "-D%s -DT=%s -DAD=%d -DATT_TEAM=%u -DATT_OTHER=%d -DMMA_TERMS=%u", back ? "ATT_BACKWARD" : "ATT_FORWARD",
             kit_type(q->dtype), head, KIT_MMA_TEAM, mma_rows(head, back), target->mma);
    return KIT_MMA_TEAM / 32 * 16;
}

/* Groups for blocks of `rows` queries or keys, heads, batch; the CPU shape's gradient has a group for all rows of a head. */
static void attention_launch(kit_lowering *ctx, const yk_node *n, const yk_value *q, const char *kernel, int64_t rows)
{
    char defines[KIT_MACROS];
    const bool back = n->op == YK_OP_ATTENTION_BWD;
    if (ctx->target->cpu_shape) {
        const int64_t block = blocks_defines(ctx->target, q, back, defines, sizeof defines);
        if (back)
            kit_launch_add(ctx, "attn", defines, kernel, q->dim[1], q->dim[0], 1, 1);
        else
            kit_launch_add(ctx, "attn", defines, kernel, kit_div_up(rows, block), q->dim[1], q->dim[0], 1);
        return;
    }
    const bool mma = mma_fits(ctx->target, ctx->graph, n);
    const int64_t block = (mma ? mma_defines : rows_defines)(ctx->target, q, back, defines, sizeof defines);
    kit_mma_note(ctx, q->dtype, mma);
    kit_launch_add(ctx, mma ? "attn_mma" : "attn_gpu", defines, kernel, kit_div_up(rows, block), q->dim[1], q->dim[0],
                   mma ? KIT_MMA_TEAM : GPU_TEAM);
}

/* ---- Launches ---- */

/* Strides of batch, head and row of operands and results, for kernels/attn_mma.kc; the other kernels take dense ones. */
static void arg_lie(kit_lowering *ctx, const yk_node *n, const yk_value *const *value, uint32_t count)
{
    int64_t meta[18];
    uint32_t k = 0;
    if (ctx->target->cpu_shape || !mma_fits(ctx->target, ctx->graph, n))
        return;
    for (uint32_t i = 0; i < count; i++)
        for (int d = 0; d < 3; d++)
            meta[k++] = value[i]->dim[d] == 1 ? 0 : value[i]->stride[d];
    kit_arg_meta(ctx, meta, k);
}

static void lower_forward(kit_lowering *ctx, const yk_node *n)
{
    const yk_value *q = kit_node_in(ctx->graph, n, 0);
    attention_launch(ctx, n, q, "attention_fwd", q->dim[2]);
    arg_operands(ctx, n, 0, 0);
    kit_arg_out(ctx, n, 0);
    kit_arg_out(ctx, n, 1);
    const yk_value *const value[] = {q, kit_node_in(ctx->graph, n, 1), kit_node_in(ctx->graph, n, 2), kit_node_out(ctx->graph, n, 0)};
    arg_lie(ctx, n, value, 4);
    arg_sizes(ctx, n, 0);
}

/* The gradients are summed in f32: in the outputs themselves, or in scratch memory and rounded at the end. */
static void lower_cpu_bwd(kit_lowering *ctx, const yk_node *n)
{
    char defines[32];
    uint64_t at[3], end = 0;
    const yk_value *q = kit_node_in(ctx->graph, n, 3);
    const bool direct = q->dtype == YK_F32;
    attention_launch(ctx, n, q, "attention_bwd", q->dim[2]);
    arg_operands(ctx, n, 0, 3);
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t bytes = (uint64_t)kit_value_count(kit_node_out(ctx->graph, n, i)) * 4;
        at[i] = end;
        end += (uint64_t)kit_round_up((int64_t)bytes, 64);
        if (direct)
            kit_arg_out(ctx, n, i);
        else
            kit_arg_scratch(ctx, at[i], bytes, 4);
    }
    kit_arg_out(ctx, n, 3);
    arg_sizes(ctx, n, 3);
    snprintf(defines, sizeof defines, "-DUNIT_FLOAT -DT=%s", kit_type(q->dtype));
    for (uint32_t i = 0; i < 3 && !direct; i++) {
        int64_t total = kit_value_count(kit_node_out(ctx->graph, n, i));
        kit_launch_add(ctx, "data", defines, "narrow_f32", kit_div_up(total, BLOCK), 1, 1, TEAM);
        kit_arg_scratch(ctx, at[i], (uint64_t)total * 4, 4);
        kit_arg_out(ctx, n, i);
        kit_arg_i64(ctx, total);
        kit_arg_i64(ctx, BLOCK);
    }
}

/* delta, a number for each query, lies in scratch memory between the two kernels */
static void lower_gpu_bwd(kit_lowering *ctx, const yk_node *n)
{
    const yk_value *q = kit_node_in(ctx->graph, n, 3), *k = kit_node_in(ctx->graph, n, 4), *v = kit_node_in(ctx->graph, n, 5);
    const yk_value *const go = kit_node_in(ctx->graph, n, 0), *const o = kit_node_in(ctx->graph, n, 1);
    const yk_value *const for_queries[] = {go, o, q, k, v, kit_node_out(ctx->graph, n, 0)};
    const yk_value *const for_keys[] = {go, q, k, v, kit_node_out(ctx->graph, n, 1), kit_node_out(ctx->graph, n, 2)};
    const uint64_t bytes = (uint64_t)(q->dim[0] * q->dim[1] * q->dim[2]) * 4;
    attention_launch(ctx, n, q, "attention_queries", q->dim[2]);
    arg_operands(ctx, n, 0, 3);
    kit_arg_out(ctx, n, 0);
    kit_arg_out(ctx, n, 3);
    kit_arg_scratch(ctx, 0, bytes, 4);
    arg_lie(ctx, n, for_queries, 6);
    arg_sizes(ctx, n, 3);
    attention_launch(ctx, n, q, "attention_keys", k->dim[2]);
    kit_arg_in(ctx, n, 0);
    kit_arg_in(ctx, n, 2);
    kit_arg_scratch(ctx, 0, bytes, 4);
    arg_operands(ctx, n, 3, 3);
    kit_arg_out(ctx, n, 1);
    kit_arg_out(ctx, n, 2);
    arg_lie(ctx, n, for_keys, 6);
    arg_sizes(ctx, n, 3);
}

static void lower_attention(kit_lowering *ctx, const yk_node *n)
{
    const bool back = n->op == YK_OP_ATTENTION_BWD;
    if (!attention_fits(ctx->target, ctx->graph, n))
        kit_lower_fail(ctx, YK_E_UNSUPPORTED);
    else if (library_lower(ctx, n))
        return;
    else if (!back)
        lower_forward(ctx, n);
    else if (ctx->target->cpu_shape)
        lower_cpu_bwd(ctx, n);
    else
        lower_gpu_bwd(ctx, n);
}

const kit_rule kit_rule_attention = {op_is_attention, claim_attention, lower_attention};
