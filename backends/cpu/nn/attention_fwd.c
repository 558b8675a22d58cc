/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention forward, and the preparation of the forward and gradient steps: arguments, scratch memory, cost.
 *
 * cpu_ops.c (backends/cpu) calls cpu_plan_attention for a node while it compiles a program, in any thread. cpu_program.c
 * (backends/cpu/exec) runs the emitted step once for each piece, a range of tasks: on several workers if the work is large, else in one
 * thread.
 *
 * A task takes the blocks of queries of one head, or a part of them (att->split). It packs the head's whole K and V into its worker's
 * scratch memory, even after another task of the same head.
 *
 * A block's scores are S = Q K^T plus bias and mask. Each row becomes P = exp(S - max), then dropout. exp applies the scale (exp_scale) if
 * there is no bias and the scale is above 0; else S has it already. The output is O = P V, divided by each row's sum. The gradient reads
 * lse = max + log(sum).
 */
#include <math.h>
#include <string.h>

#include "backends/cpu/isa/row_kernels.h"
#include "backends/cpu/isa/vec_kernels.h"
#include "backends/cpu/nn/cpu_attention.h"
#include "backends/cpu/nn/nn.h"
#include "plugins/kit/value.h"

/* Replaces the scores of one row's visible keys, the first `seen`, by exp(score - maximum), then applies dropout. *sum gets their sum
 * before dropout. Returns lse. A row without keys, or with masked keys alone, becomes zeros with lse -infinity; its sum is 1, as
 * forward_block divides by it. */
static float softmax_row(att_head *head, int64_t i, float *row, int64_t seen, float *sum)
{
    const att_args *att = head->att;
    const cpu_isa *isa = head->ctx->isa;
    float m = seen ? isa->rows->max(row, (size_t)seen) : -INFINITY;
    *sum = 1.0f;
    if (m == -INFINITY) {
        memset(row, 0, (size_t)seen * 4);
        return -INFINITY;
    }
    m *= head->exp_scale;
    *sum = isa->vec->exp_scaled(row, row, head->exp_scale, m, (size_t)seen);
    if (att->drop) {
        att_uniform(head, i, seen);
        isa->vec->dropout(row, row, head->uniform, att->drop_prob, att->keep_prob, (size_t)seen);
    }
    return m + logf(*sum);
}

/* Writes n rows of f32 to queries i0 .. i0+n-1 of a tensor, in its format. */
static void store_rows(att_head *head, const att_mat *mat, int64_t i0, int64_t n, const float *o)
{
    const att_args *att = head->att;
    for (int64_t r = 0; r < n; r++)
        head->ctx->isa->vec->from_f32(att_row(head->ctx, mat, head->b, head->h, i0 + r), o + r * att->d, mat->dtype, (size_t)att->d);
}

/* A block has n queries, at most ATT_BLOCK. Products use the first `most` keys: the count that its last query sees, rounded up to whole
 * panels but to no more keys than there are. att_scores has set scores behind a row's visible keys to 0. */
static void forward_block(att_head *head, int64_t i0, int64_t n)
{
    const att_args *att = head->att;
    const cpu_isa *isa = head->ctx->isa;
    float *lse = (float *)cpu_at(head->ctx, att->lse) + (head->b * att->h + head->h) * att->tq + i0, sum[ATT_BLOCK];
    int64_t most = att_scores(head, i0, n, head->ctx->thread_ws + att->at_kt);
    for (int64_t r = 0; r < n; r++) {
        float *row = head->scores + r * att->tk;
        lse[r] = softmax_row(head, i0 + r, row, att_seen(head, i0 + r), &sum[r]);
        if (att->bf16)
            isa->vec->from_f32(head->probs16 + r * att->tk, row, YK_BF16, (size_t)most);
    }
    if (most == 0) {
        memset(head->out, 0, (size_t)(n * att->d) * 4);
    } else {
        cpu_gemm gemm = att->mix;
        cpu_src p = att_probs(head, head->scores, head->probs16, true);
        cpu_src v = {.packed = head->ctx->thread_ws + att->at_vt, .ld = att->tk, .dtype = att->v.dtype};
        cpu_sink sink = {head->out, att->d, false, NULL, NULL, NULL};
        gemm.k = most;
        cpu_gemm_run(&gemm, head->ctx, &p, &v, 0, n, 0, att->d, &sink);
        for (int64_t r = 0; r < n; r++)
            isa->vec->scale(head->out + r * att->d, head->out + r * att->d, 1.0f / sum[r], (size_t)att->d);
    }
    store_rows(head, &att->out, i0, n, head->out);
}

/* kv: the head of K and V, which h / hk heads of queries share (grouped queries). */
static void forward_step(const void *args, const cpu_ctx *ctx)
{
    const att_args *att = args;
    int64_t lo, hi, blocks = (att->tq + ATT_BLOCK - 1) / ATT_BLOCK;
    cpu_part(att->b * att->h * att->split, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t t = lo; t < hi && !cpu_stops(ctx); t++) {
        int64_t number = t / att->split, b0, b1, kv = number % att->h / (att->h / att->hk);
        att_head head = att_open(att, ctx, number / att->h, number % att->h);
        cpu_src k = att_plain(ctx, &att->k, head.b, kv, 0, true), v = att_plain(ctx, &att->v, head.b, kv, 0, false);
        cpu_gemm_pack_b(&att->scores, ctx->isa, ctx->thread_ws, &k, ctx->thread_ws + att->at_kt);
        cpu_gemm_pack_b(&att->mix, ctx->isa, ctx->thread_ws, &v, ctx->thread_ws + att->at_vt);
        cpu_part(blocks, (int)(t % att->split), (int)att->split, &b0, &b1);
        for (int64_t i = b0 * ATT_BLOCK; i < b1 * ATT_BLOCK && i < att->tq && !cpu_stops(ctx); i += ATT_BLOCK)
            forward_block(&head, i, att->tq - i < ATT_BLOCK ? att->tq - i : ATT_BLOCK);
    }
}

/* ---- Planning ---- */

static att_mat mat_of(const yk_value *v)
{
    return (att_mat){cpu_ref_of(v), v->stride[0], v->stride[1], v->stride[2], v->dtype};
}

static bool last_is_dense(const yk_value *v)
{
    return v->dim[3] == 1 || v->stride[3] == 1;
}

/* Sets the operands that the forward and gradient steps have in common, from input `first` on. The gradient's first three are gout, out and
 * lse. False if the last dimension of Q, K or V is not dense: products and row kernels read each row as adjacent elements. */
static bool set_operands(cpu_build *build, const yk_node *node, att_args *att, uint32_t first)
{
    const yk_value *q = cpu_in(build, node, first), *k = cpu_in(build, node, first + 1), *v = cpu_in(build, node, first + 2);
    int64_t flags = cpu_attr(build, node, 4);
    uint32_t next = first + 3;
    att->q = mat_of(q);
    att->k = mat_of(k);
    att->v = mat_of(v);
    att->b = q->dim[0], att->h = q->dim[1], att->tq = q->dim[2], att->d = q->dim[3];
    att->hk = k->dim[1], att->tk = k->dim[2];
    att->causal = cpu_attr(build, node, 0) != 0;
    att->scale = (float)yk_attr_f64(cpu_attr(build, node, 1));
    double p = yk_attr_f64(cpu_attr(build, node, 2));
    att->drop_prob = (float)p;
    att->keep_prob = (float)(1.0 - p);
    att->stream = (uint32_t)cpu_attr(build, node, 3);
    att->keep = att->bias = att->key = att->rows = att->gbias = (cpu_ref){YK_NONE, 0};
    if (flags & YK_ATT_KEEP)
        att->keep = cpu_ref_of(cpu_in(build, node, next++));
    if (flags & YK_ATT_BIAS) {
        const yk_value *bias = cpu_in(build, node, next++);
        att->bias = cpu_ref_of(bias);
        for (int i = 0; i < 4; i++)
            att->bias_stride[i] = bias->dim[i] > 1 ? bias->stride[i] : 0;
    }
    if (flags & YK_ATT_DROP) {
        att->drop = true;
        att->key = cpu_ref_of(cpu_in(build, node, next));
        att->rows = cpu_ref_of(cpu_in(build, node, next + 1));
    }
    att->bf16 = build->isa->bf16 && q->dtype == YK_BF16 && k->dtype == YK_BF16 && v->dtype == YK_BF16;
    return last_is_dense(q) && last_is_dense(k) && last_is_dense(v);
}

/* Reserves bytes behind the first *at bytes of the scratch memory, and returns their offset. */
static size_t ws_place(size_t *at, int64_t bytes)
{
    size_t here = *at;
    *at += kit_round_bytes((size_t)bytes + 128, 64);
    return here;
}

/* Divides a worker's scratch memory. The products take turns in the first part, as only one runs at a time. back_q has the shape of mix, so
 * it needs no more. delta_of converts a row of gO and one of O to f32 in the first two rows at at_o; a block of one query has too few, so
 * at_o gets two more. at_vt has V packed for P V, or in the gradient for gO V^T, a product of the shape of Q K^T. */
static void set_scratch(cpu_build *build, att_args *att, bool bwd)
{
    int t = att->bf16 ? YK_BF16 : YK_F32; /* with f32, packing widens 16-bit operands */
    int64_t block = att->tq < ATT_BLOCK ? att->tq : ATT_BLOCK, s = block * att->tk * 4;
    cpu_gemm_init(&att->scores, build->isa, block, att->tk, att->d, t, t, false);
    cpu_gemm_init(&att->mix, build->isa, block, att->d, att->tk, t, t, false);
    cpu_gemm_init(&att->back_q, build->isa, block, att->d, att->tk, t, t, false);
    cpu_gemm_init(&att->back_k, build->isa, att->tk, att->d, block, t, t, false);
    size_t at = att->scores.bytes;
    at = at > att->mix.bytes ? at : att->mix.bytes;
    at = at > att->back_k.bytes ? at : att->back_k.bytes;
    at = kit_round_bytes(at, 4096);
    att->at_s = ws_place(&at, s);
    att->at_p16 = ws_place(&at, att->bf16 ? s / 2 : 0);
    att->at_mask = ws_place(&at, att->tk * 4);
    att->at_u = ws_place(&at, att->tk * 4);
    att->at_o = ws_place(&at, (block + 2) * att->d * 4);
    att->at_kt = ws_place(&at, (int64_t)cpu_gemm_packed_b_bytes(&att->scores));
    att->at_vt = ws_place(&at, (int64_t)cpu_gemm_packed_b_bytes(bwd ? &att->scores : &att->mix));
    if (bwd) {
        att->at_dp = ws_place(&at, s);
        att->at_ds16 = ws_place(&at, att->bf16 ? s / 2 : 0);
        att->at_kn = ws_place(&at, (int64_t)cpu_gemm_packed_b_bytes(&att->back_q));
        att->at_gk = ws_place(&at, att->tk * att->d * 4);
        att->at_gv = ws_place(&at, att->tk * att->d * 4);
    }
    cpu_need_thread_ws(build, at);
}

void cpu_plan_attention(cpu_build *build, const yk_node *node)
{
    att_args *att = cpu_args(build, sizeof *att);
    bool bwd = node->op == YK_OP_ATTENTION_BWD, fine = true;
    if (!att)
        return;
    fine = set_operands(build, node, att, bwd ? 3 : 0);
    if (bwd) {
        att->gout = mat_of(cpu_in(build, node, 0));
        att->out = mat_of(cpu_in(build, node, 1));
        att->lse = cpu_ref_of(cpu_in(build, node, 2));
        att->gq = mat_of(cpu_out(build, node, 0));
        att->gk = mat_of(cpu_out(build, node, 1));
        att->gv = mat_of(cpu_out(build, node, 2));
        if (node->n_out > 3)
            att->gbias = cpu_ref_of(cpu_out(build, node, 3));
        att->bf16 = att->bf16 && att->gout.dtype == YK_BF16;
        fine = fine && last_is_dense(cpu_in(build, node, 0)) && last_is_dense(cpu_in(build, node, 1));
        for (uint32_t i = 0; i < 3; i++)
            fine = fine && last_is_dense(cpu_out(build, node, i));
    } else {
        att->out = mat_of(cpu_out(build, node, 0));
        att->lse = cpu_ref_of(cpu_out(build, node, 1));
        fine = fine && last_is_dense(cpu_out(build, node, 0));
    }
    if (!fine) {
        cpu_refuse(build, node, "an operand or result whose last dimension is not dense");
        return;
    }
    set_scratch(build, att, bwd);
    /* a head is one forward task if heads alone keep all workers busy; else each block is one, and packs K and V again */
    int64_t heads = att->b * att->h, blocks = (att->tq + ATT_BLOCK - 1) / ATT_BLOCK;
    att->split = heads >= 4 * build->workers || heads % build->workers == 0 ? 1 : blocks;
    /* a score takes 1 ns for its exponential, 0.04 ns per element of a row for its two products; the gradient takes 2.5 times as long */
    double work = (double)heads * (double)att->tq * (double)att->tk * ((double)att->d * 0.04 + 1.0) * (bwd ? 2.5 : 1.0);
    cpu_emit(build, bwd ? cpu_attention_bwd_step : forward_step, att, work);
}
