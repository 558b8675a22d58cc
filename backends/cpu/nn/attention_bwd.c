/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of attention (Dao et al. 2022, appendix B): P = exp(S - lse), D_i = sum_d gO O,
 *   gV = drop(P)^T gO;  dP = drop'(gO V^T);  dS = P (dP - D);  gQ = scale dS K;  gK = scale dS^T Q;  gbias = dS.
 * One worker does all of a key head, query blocks in order, so sums do not depend on the number of workers.
 */
#include <math.h>
#include <string.h>

#include "backends/cpu/nn/attention.h"

/* dS of one row over dP, probabilities (dropped) over the scores */
static void grad_row(att_head *h, int64_t i, float *p, float *dp, float lse, float delta, int64_t seen)
{
    const att_args *a = h->a;
    const cpu_isa *isa = h->c->isa;
    size_t n = (size_t)seen;
    if (lse == -INFINITY) {
        memset(p, 0, n * 4);
        memset(dp, 0, n * 4);
        return;
    }
    isa->exp_scaled(p, p, h->exp_scale, lse, n);
    if (a->drop) {
        att_uniform(h, i, seen);
        isa->drop(dp, dp, h->u, a->p, a->keep_prob, n);
    }
    isa->softmax_grad(dp, dp, p, delta, n); /* p (dp - delta) */
    if (a->drop)
        isa->drop(p, p, h->u, a->p, a->keep_prob, n);
}

static void grad_bias(att_head *h, int64_t i, const float *ds, int64_t seen)
{
    const att_args *a = h->a;
    float *out = cpu_at(h->c, a->gbias);
    if (!out)
        return;
    out += ((h->b * a->h + h->h) * a->tq + i) * a->tk;
    memcpy(out, ds, (size_t)seen * 4);
    memset(out + seen, 0, (size_t)(a->tk - seen) * 4);
}

static float delta_of(att_head *h, int64_t i, float *buf)
{
    const att_args *a = h->a;
    const cpu_isa *isa = h->c->isa;
    const void *gout = att_row(h->c, &a->gout, h->b, h->h, i), *out = att_row(h->c, &a->out, h->b, h->h, i);
    if (a->gout.dtype == a->out.dtype && a->out.dtype != YK_F16)
        return cpu_rows_of(isa, a->out.dtype)->dot(gout, out, (size_t)a->d);
    isa->to_f32(buf, gout, a->gout.dtype, (size_t)a->d);
    isa->to_f32(buf + a->d, out, a->out.dtype, (size_t)a->d);
    return isa->rows->dot(buf, buf + a->d, (size_t)a->d);
}

/* P and dS of a block of queries from S and gO V^T */
static void grad_scores(att_head *h, int64_t i0, int64_t n, int64_t most)
{
    const att_args *a = h->a;
    const cpu_isa *isa = h->c->isa;
    const float *lse = (const float *)cpu_at(h->c, a->lse) + (h->b * a->h + h->h) * a->tq + i0;
    for (int64_t r = 0; r < n; r++) {
        float *p = h->s + r * a->tk, *dp = h->dp + r * a->tk;
        int64_t seen = att_seen(h, i0 + r);
        memset(dp + seen, 0, (size_t)(most - seen) * 4);
        grad_row(h, i0 + r, p, dp, lse[r], delta_of(h, i0 + r, h->o), seen);
        grad_bias(h, i0 + r, dp, seen);
        if (a->bf16) {
            isa->from_f32(h->p16 + r * a->tk, p, YK_BF16, (size_t)most);
            isa->from_f32(h->ds16 + r * a->tk, dp, YK_BF16, (size_t)most);
        }
    }
}

/* gK += dS^T Q, gV += P^T gO for the keys seen */
static void grad_keys(att_head *h, int64_t i0, int64_t n, int64_t most)
{
    const att_args *a = h->a;
    const cpu_isa *isa = h->c->isa;
    cpu_gemm g = a->back_k;
    g.k = n;
    cpu_src ds = att_probs(h, h->dp, h->ds16, false), q = att_plain(h->c, &a->q, h->b, h->h, i0, false);
    cpu_src p = att_probs(h, h->s, h->p16, false), go = att_plain(h->c, &a->gout, h->b, h->h, i0, false);
    cpu_sink gk = {(float *)(void *)(h->c->thread_ws + a->at_gk), a->d, true, NULL, NULL, NULL};
    cpu_sink gv = {(float *)(void *)(h->c->thread_ws + a->at_gv), a->d, true, NULL, NULL, NULL};
    cpu_gemm_run(&g, isa, h->c->thread_ws, &ds, &q, 0, most, 0, a->d, &gk);
    cpu_gemm_run(&g, isa, h->c->thread_ws, &p, &go, 0, most, 0, a->d, &gv);
}

static void grad_block(att_head *h, int64_t i0, int64_t n)
{
    const att_args *a = h->a;
    const cpu_isa *isa = h->c->isa;
    int64_t most = att_scores(h, i0, n, h->c->thread_ws + a->at_kt);
    memset(h->o, 0, (size_t)(n * a->d) * 4);
    if (most) {
        cpu_src go = att_plain(h->c, &a->gout, h->b, h->h, i0, true);
        cpu_src v = {.packed = h->c->thread_ws + a->at_vt, .ld = a->d, .dtype = a->v.dtype};
        cpu_sink dp = {h->dp, a->tk, false, NULL, NULL, NULL};
        cpu_gemm_run(&a->scores, isa, h->c->thread_ws, &go, &v, 0, n, 0, most, &dp);
        grad_scores(h, i0, n, most);
        grad_keys(h, i0, n, most);
        cpu_gemm g = a->back_q;
        cpu_src ds = att_probs(h, h->dp, h->ds16, true);
        cpu_src k = {.packed = h->c->thread_ws + a->at_kn, .ld = a->tk, .dtype = a->k.dtype};
        cpu_sink gq = {h->o, a->d, false, NULL, NULL, NULL};
        g.k = most;
        cpu_gemm_run(&g, isa, h->c->thread_ws, &ds, &k, 0, n, 0, a->d, &gq);
        isa->scale(h->o, h->o, a->scale, (size_t)(n * a->d));
    } else if (a->gbias.slot != YK_NONE) {
        for (int64_t r = 0; r < n; r++)
            grad_bias(h, i0 + r, h->dp, 0);
    }
    for (int64_t r = 0; r < n; r++)
        isa->from_f32(att_row(h->c, &a->gq, h->b, h->h, i0 + r), h->o + r * a->d, a->gq.dtype, (size_t)a->d);
}

static void store_keys(const att_args *a, const cpu_ctx *c, const att_mat *m, int64_t b, int64_t kv, size_t at, float f)
{
    float *g = (float *)(void *)(c->thread_ws + at);
    c->isa->scale(g, g, f, (size_t)(a->tk * a->d));
    for (int64_t t = 0; t < a->tk; t++)
        c->isa->from_f32(att_row(c, m, b, kv, t), g + t * a->d, m->dtype, (size_t)a->d);
}

void cpu_attention_bwd_step(const void *args, const cpu_ctx *c)
{
    const att_args *a = args;
    int64_t lo, hi, group = a->h / a->hk;
    cpu_part(a->b * a->hk, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t b = t / a->hk, kv = t % a->hk;
        cpu_src k = att_plain(c, &a->k, b, kv, 0, true), v = att_plain(c, &a->v, b, kv, 0, true);
        cpu_src kn = att_plain(c, &a->k, b, kv, 0, false);
        cpu_gemm_pack(&a->scores, c->isa, c->thread_ws, &k, c->thread_ws + a->at_kt);
        cpu_gemm_pack(&a->scores, c->isa, c->thread_ws, &v, c->thread_ws + a->at_vt);
        cpu_gemm_pack(&a->back_q, c->isa, c->thread_ws, &kn, c->thread_ws + a->at_kn);
        memset(c->thread_ws + a->at_gk, 0, (size_t)(a->tk * a->d) * 4);
        memset(c->thread_ws + a->at_gv, 0, (size_t)(a->tk * a->d) * 4);
        for (int64_t head = kv * group; head < (kv + 1) * group; head++) {
            att_head h = att_open(a, c, b, head);
            for (int64_t i = 0; i < a->tq; i += ATT_BLOCK)
                grad_block(&h, i, a->tq - i < ATT_BLOCK ? a->tq - i : ATT_BLOCK);
        }
        store_keys(a, c, &a->gk, b, kv, a->at_gk, a->scale);
        store_keys(a, c, &a->gv, b, kv, a->at_gv, 1.0f);
    }
}
