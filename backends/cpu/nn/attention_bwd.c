/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of attention (Dao et al. 2022, appendix B): P = exp(S - lse), D_i = sum_d gO O,
 *
 *   gV = drop(P)^T gO;  dP = drop'(gO V^T);  dS = P (dP - D);  gQ = scale dS K;  gK = scale dS^T Q;  gbias = dS.
 *
 * attention_fwd.c emits the step, which runs on the workers. One worker computes a whole key head, query blocks in order, so sums do not
 * depend on the number of workers.
 */
#include <math.h>
#include <string.h>

#include "backends/cpu/isa/row_kernels.h"
#include "backends/cpu/isa/vec_kernels.h"
#include "backends/cpu/nn/cpu_attention.h"

/* Replaces dP of one row by dS, and the scores by dropped probabilities. */
static void grad_row(att_head *head, int64_t i, float *p, float *dp, float lse, float delta, int64_t seen)
{
    const att_args *att = head->att;
    const cpu_isa *isa = head->ctx->isa;
    size_t n = (size_t)seen;
    if (lse == -INFINITY) {
        memset(p, 0, n * 4);
        memset(dp, 0, n * 4);
        return;
    }
    isa->vec->exp_scaled(p, p, head->exp_scale, lse, n);
    if (att->drop) {
        att_uniform(head, i, seen);
        isa->vec->dropout(dp, dp, head->uniform, att->drop_prob, att->keep_prob, n);
    }
    isa->vec->softmax_grad(dp, dp, p, delta, n); /* p (dp - delta) */
    if (att->drop)
        isa->vec->dropout(p, p, head->uniform, att->drop_prob, att->keep_prob, n);
}

static void grad_bias(att_head *head, int64_t i, const float *ds, int64_t seen)
{
    const att_args *att = head->att;
    float *out = cpu_at(head->ctx, att->gbias);
    if (!out)
        return;
    out += ((head->b * att->h + head->h) * att->tq + i) * att->tk;
    memcpy(out, ds, (size_t)seen * 4);
    memset(out + seen, 0, (size_t)(att->tk - seen) * 4);
}

static float delta_of(att_head *head, int64_t i, float *buf)
{
    const att_args *att = head->att;
    const cpu_isa *isa = head->ctx->isa;
    const void *gout = att_row(head->ctx, &att->gout, head->b, head->h, i), *out = att_row(head->ctx, &att->out, head->b, head->h, i);
    if (att->gout.dtype == att->out.dtype && att->out.dtype != YK_F16)
        return cpu_rows_of(isa, att->out.dtype)->dot(gout, out, (size_t)att->d);
    isa->vec->to_f32(buf, gout, att->gout.dtype, (size_t)att->d);
    isa->vec->to_f32(buf + att->d, out, att->out.dtype, (size_t)att->d);
    return isa->rows->dot(buf, buf + att->d, (size_t)att->d);
}

/* P and dS of a block of queries from S and gO V^T */
static void grad_scores(att_head *head, int64_t i0, int64_t n, int64_t most)
{
    const att_args *att = head->att;
    const cpu_isa *isa = head->ctx->isa;
    const float *lse = (const float *)cpu_at(head->ctx, att->lse) + (head->b * att->h + head->h) * att->tq + i0;
    for (int64_t r = 0; r < n; r++) {
        float *p = head->scores + r * att->tk, *dp = head->dprobs + r * att->tk;
        int64_t seen = att_seen(head, i0 + r);
        memset(dp + seen, 0, (size_t)(most - seen) * 4);
        grad_row(head, i0 + r, p, dp, lse[r], delta_of(head, i0 + r, head->out), seen);
        grad_bias(head, i0 + r, dp, seen);
        if (att->bf16) {
            isa->vec->from_f32(head->probs16 + r * att->tk, p, YK_BF16, (size_t)most);
            isa->vec->from_f32(head->dscores16 + r * att->tk, dp, YK_BF16, (size_t)most);
        }
    }
}

/* gK += dS^T Q, gV += P^T gO for the keys seen */
static void grad_keys(att_head *head, int64_t i0, int64_t n, int64_t most)
{
    const att_args *att = head->att;
    cpu_gemm gemm = att->back_k;
    gemm.k = n;
    cpu_src ds = att_probs(head, head->dprobs, head->dscores16, false), q = att_plain(head->ctx, &att->q, head->b, head->h, i0, false);
    cpu_src p = att_probs(head, head->scores, head->probs16, false), go = att_plain(head->ctx, &att->gout, head->b, head->h, i0, false);
    cpu_sink gk = {(float *)(void *)(head->ctx->thread_ws + att->at_gk), att->d, true, NULL, NULL, NULL};
    cpu_sink gv = {(float *)(void *)(head->ctx->thread_ws + att->at_gv), att->d, true, NULL, NULL, NULL};
    cpu_gemm_run(&gemm, head->ctx, &ds, &q, 0, most, 0, att->d, &gk);
    cpu_gemm_run(&gemm, head->ctx, &p, &go, 0, most, 0, att->d, &gv);
}

static void grad_block(att_head *head, int64_t i0, int64_t n)
{
    const att_args *att = head->att;
    const cpu_isa *isa = head->ctx->isa;
    int64_t most = att_scores(head, i0, n, head->ctx->thread_ws + att->at_kt);
    memset(head->out, 0, (size_t)(n * att->d) * 4);
    if (most) {
        cpu_src go = att_plain(head->ctx, &att->gout, head->b, head->h, i0, true);
        cpu_src v = {.packed = head->ctx->thread_ws + att->at_vt, .ld = att->d, .dtype = att->v.dtype};
        cpu_sink dp = {head->dprobs, att->tk, false, NULL, NULL, NULL};
        cpu_gemm_run(&att->scores, head->ctx, &go, &v, 0, n, 0, most, &dp);
        grad_scores(head, i0, n, most);
        grad_keys(head, i0, n, most);
        cpu_gemm gemm = att->back_q;
        cpu_src ds = att_probs(head, head->dprobs, head->dscores16, true);
        cpu_src k = {.packed = head->ctx->thread_ws + att->at_kn, .ld = att->tk, .dtype = att->k.dtype};
        cpu_sink gq = {head->out, att->d, false, NULL, NULL, NULL};
        gemm.k = most;
        cpu_gemm_run(&gemm, head->ctx, &ds, &k, 0, n, 0, att->d, &gq);
        isa->vec->scale(head->out, head->out, att->scale, (size_t)(n * att->d));
    } else if (att->gbias.slot != YK_NONE) {
        for (int64_t r = 0; r < n; r++)
            grad_bias(head, i0 + r, head->dprobs, 0);
    }
    for (int64_t r = 0; r < n; r++)
        isa->vec->from_f32(att_row(head->ctx, &att->gq, head->b, head->h, i0 + r), head->out + r * att->d, att->gq.dtype,
                           (size_t)att->d);
}

static void store_keys(const att_args *att, const cpu_ctx *ctx, const att_mat *mat, int64_t b, int64_t kv, size_t at, float f)
{
    float *g = (float *)(void *)(ctx->thread_ws + at);
    ctx->isa->vec->scale(g, g, f, (size_t)(att->tk * att->d));
    for (int64_t t = 0; t < att->tk; t++)
        ctx->isa->vec->from_f32(att_row(ctx, mat, b, kv, t), g + t * att->d, mat->dtype, (size_t)att->d);
}

void cpu_attention_bwd_step(const void *args, const cpu_ctx *ctx)
{
    const att_args *att = args;
    int64_t lo, hi, group = att->h / att->hk;
    cpu_part(att->b * att->hk, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t t = lo; t < hi && !cpu_stops(ctx); t++) {
        int64_t b = t / att->hk, kv = t % att->hk;
        cpu_src k = att_plain(ctx, &att->k, b, kv, 0, true), v = att_plain(ctx, &att->v, b, kv, 0, true);
        cpu_src kn = att_plain(ctx, &att->k, b, kv, 0, false);
        cpu_gemm_pack_b(&att->scores, ctx->isa, ctx->thread_ws, &k, ctx->thread_ws + att->at_kt);
        cpu_gemm_pack_b(&att->scores, ctx->isa, ctx->thread_ws, &v, ctx->thread_ws + att->at_vt);
        cpu_gemm_pack_b(&att->back_q, ctx->isa, ctx->thread_ws, &kn, ctx->thread_ws + att->at_kn);
        memset(ctx->thread_ws + att->at_gk, 0, (size_t)(att->tk * att->d) * 4);
        memset(ctx->thread_ws + att->at_gv, 0, (size_t)(att->tk * att->d) * 4);
        for (int64_t number = kv * group; number < (kv + 1) * group; number++) {
            att_head head = att_open(att, ctx, b, number);
            for (int64_t i = 0; i < att->tq && !cpu_stops(ctx); i += ATT_BLOCK)
                grad_block(&head, i, att->tq - i < ATT_BLOCK ? att->tq - i : ATT_BLOCK);
        }
        store_keys(att, ctx, &att->gk, b, kv, att->at_gk, att->scale);
        store_keys(att, ctx, &att->gv, b, kv, att->at_gv, 1.0f);
    }
}
