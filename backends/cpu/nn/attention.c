/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/cpu/nn/attention.h"

#include <math.h>
#include <string.h>

char *att_row(const cpu_ctx *c, const att_mat *m, int64_t b, int64_t h, int64_t t)
{
    return (char *)cpu_at(c, m->ref) + (b * m->sb + h * m->sh + t * m->st) * yk_dtype_bytes(m->dtype);
}

cpu_src att_plain(const cpu_ctx *c, const att_mat *m, int64_t b, int64_t h, int64_t t, bool kcontig)
{
    return (cpu_src){.p = att_row(c, m, b, h, t), .ld = m->st, .dtype = m->dtype, .kcontig = kcontig};
}

cpu_src att_probs(const att_head *h, const float *s, const uint16_t *bf16, bool kcontig)
{
    const att_args *a = h->a;
    return (cpu_src){.p = a->bf16 ? (const void *)bf16 : (const void *)s, .ld = a->tk,
                     .dtype = a->bf16 ? YK_BF16 : YK_F32, .kcontig = kcontig};
}

att_head att_open(const att_args *a, const cpu_ctx *c, int64_t b, int64_t h)
{
    bool plain = a->bias.slot == YK_NONE && a->scale > 0.0f; /* the scale can wait for the exponential */
    att_head t = {a,
                  c,
                  b,
                  h,
                  a->tk,
                  plain ? a->scale : 1.0f,
                  (float *)(void *)(c->thread_ws + a->at_s),
                  (float *)(void *)(c->thread_ws + a->at_dp),
                  (float *)(void *)(c->thread_ws + a->at_mask),
                  (float *)(void *)(c->thread_ws + a->at_u),
                  (float *)(void *)(c->thread_ws + a->at_o),
                  (uint16_t *)(void *)(c->thread_ws + a->at_p16),
                  (uint16_t *)(void *)(c->thread_ws + a->at_ds16)};
    const float *keep = cpu_at(c, a->keep);
    for (int64_t j = 0; keep && j < a->tk; j++)
        t.mask[j] = keep[b * a->tk + j] == 0.0f ? -INFINITY : 0.0f;
    while (keep && t.keys && t.mask[t.keys - 1] != 0.0f)
        t.keys--;
    return t;
}

int64_t att_seen(const att_head *h, int64_t i)
{
    const att_args *a = h->a;
    int64_t n = a->causal ? i + a->tk - a->tq + 1 : a->tk;
    return n < 0 ? 0 : n > h->keys ? h->keys : n;
}

static void add_bias(att_head *h, int64_t i, float *row, int64_t n)
{
    const att_args *a = h->a;
    const float *bias = cpu_at(h->c, a->bias);
    if (!bias)
        return;
    bias += h->b * a->bias_stride[0] + h->h * a->bias_stride[1] + i * a->bias_stride[2];
    if (a->bias_stride[3] == 1)
        h->c->isa->add(row, bias, (size_t)n);
    else
        for (int64_t j = 0; j < n; j++)
            row[j] += bias[j * a->bias_stride[3]];
}

int64_t att_scores(att_head *h, int64_t i0, int64_t n, const void *packed_k)
{
    const att_args *a = h->a;
    const cpu_isa *isa = h->c->isa;
    int64_t most = att_seen(h, i0 + n - 1), panel = 2 * isa->vw;
    if (most == 0)
        return 0;
    most = (most + panel - 1) / panel * panel;
    most = most < a->tk ? most : a->tk;
    cpu_src q = att_plain(h->c, &a->q, h->b, h->h, i0, true);
    cpu_src k = {.packed = packed_k, .ld = a->d, .dtype = a->k.dtype};
    cpu_sink s = {h->s, a->tk, false, NULL, NULL, NULL};
    cpu_gemm_run(&a->scores, isa, h->c->thread_ws, &q, &k, 0, n, 0, most, &s);
    for (int64_t r = 0; r < n; r++) {
        float *row = h->s + r * a->tk;
        int64_t seen = att_seen(h, i0 + r);
        if (h->exp_scale != a->scale)
            isa->scale(row, row, a->scale, (size_t)seen);
        add_bias(h, i0 + r, row, seen);
        if (a->keep.slot != YK_NONE)
            isa->add(row, h->mask, (size_t)seen);
        memset(row + seen, 0, (size_t)(most - seen) * 4);
    }
    return most;
}

void att_uniform(att_head *h, int64_t i, int64_t n)
{
    const att_args *a = h->a;
    uint32_t key[3];
    int32_t row = ((const int32_t *)cpu_at(h->c, a->rows))[h->b];
    memcpy(key, cpu_at(h->c, a->key), sizeof key);
    uint64_t per = (uint64_t)(a->h * a->tq * a->tk);
    h->c->isa->uniform(h->u, key, a->stream, (uint64_t)row * per + (uint64_t)((h->h * a->tq + i) * a->tk), (size_t)n);
}

/* exp(score - maximum) of one row, dropped, over its scores; *sum of all of them before dropping; returns their lse */
static float softmax_row(att_head *h, int64_t i, float *row, int64_t seen, float *sum)
{
    const att_args *a = h->a;
    const cpu_isa *isa = h->c->isa;
    float m = seen ? isa->rows->max(row, (size_t)seen) : -INFINITY;
    *sum = 1.0f;
    if (m == -INFINITY) {
        memset(row, 0, (size_t)seen * 4);
        return -INFINITY;
    }
    m *= h->exp_scale;
    *sum = isa->exp_scaled(row, row, h->exp_scale, m, (size_t)seen);
    if (a->drop) {
        att_uniform(h, i, seen);
        isa->drop(row, row, h->u, a->p, a->keep_prob, (size_t)seen);
    }
    return m + logf(*sum);
}

static void store_rows(att_head *h, const att_mat *m, int64_t i0, int64_t n, const float *o)
{
    const att_args *a = h->a;
    for (int64_t r = 0; r < n; r++)
        h->c->isa->from_f32(att_row(h->c, m, h->b, h->h, i0 + r), o + r * a->d, m->dtype, (size_t)a->d);
}

static void forward_block(att_head *h, int64_t i0, int64_t n)
{
    const att_args *a = h->a;
    const cpu_isa *isa = h->c->isa;
    float *lse = (float *)cpu_at(h->c, a->lse) + (h->b * a->h + h->h) * a->tq + i0, sum[ATT_BLOCK];
    int64_t most = att_scores(h, i0, n, h->c->thread_ws + a->at_kt);
    for (int64_t r = 0; r < n; r++) {
        float *row = h->s + r * a->tk;
        lse[r] = softmax_row(h, i0 + r, row, att_seen(h, i0 + r), &sum[r]);
        if (a->bf16)
            isa->from_f32(h->p16 + r * a->tk, row, YK_BF16, (size_t)most);
    }
    if (most == 0) {
        memset(h->o, 0, (size_t)(n * a->d) * 4);
    } else {
        cpu_gemm g = a->mix;
        cpu_src p = att_probs(h, h->s, h->p16, true);
        cpu_src v = {.packed = h->c->thread_ws + a->at_vt, .ld = a->tk, .dtype = a->v.dtype};
        cpu_sink s = {h->o, a->d, false, NULL, NULL, NULL};
        g.k = most;
        cpu_gemm_run(&g, isa, h->c->thread_ws, &p, &v, 0, n, 0, a->d, &s);
        for (int64_t r = 0; r < n; r++)
            isa->scale(h->o + r * a->d, h->o + r * a->d, 1.0f / sum[r], (size_t)a->d);
    }
    store_rows(h, &a->out, i0, n, h->o);
}

static void forward_step(const void *args, const cpu_ctx *c)
{
    const att_args *a = args;
    int64_t lo, hi, blocks = (a->tq + ATT_BLOCK - 1) / ATT_BLOCK;
    cpu_part(a->b * a->h * a->split, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t head = t / a->split, b0, b1, kv = head % a->h / (a->h / a->hk);
        att_head h = att_open(a, c, head / a->h, head % a->h);
        cpu_src k = att_plain(c, &a->k, h.b, kv, 0, true), v = att_plain(c, &a->v, h.b, kv, 0, false);
        cpu_gemm_pack(&a->scores, c->isa, c->thread_ws, &k, c->thread_ws + a->at_kt);
        cpu_gemm_pack(&a->mix, c->isa, c->thread_ws, &v, c->thread_ws + a->at_vt);
        cpu_part(blocks, (int)(t % a->split), (int)a->split, &b0, &b1);
        for (int64_t i = b0 * ATT_BLOCK; i < b1 * ATT_BLOCK && i < a->tq; i += ATT_BLOCK)
            forward_block(&h, i, a->tq - i < ATT_BLOCK ? a->tq - i : ATT_BLOCK);
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

/* the common operands, from input `first` on */
static bool set_operands(cpu_build *b, const yk_node *n, att_args *a, uint32_t first)
{
    const yk_value *q = cpu_in(b, n, first), *k = cpu_in(b, n, first + 1), *v = cpu_in(b, n, first + 2);
    int64_t flags = cpu_attr(b, n, 4);
    uint32_t next = first + 3;
    a->q = mat_of(q);
    a->k = mat_of(k);
    a->v = mat_of(v);
    a->b = q->dim[0], a->h = q->dim[1], a->tq = q->dim[2], a->d = q->dim[3];
    a->hk = k->dim[1], a->tk = k->dim[2];
    a->causal = cpu_attr(b, n, 0) != 0;
    a->scale = (float)yk_attr_f64(cpu_attr(b, n, 1));
    double p = yk_attr_f64(cpu_attr(b, n, 2));
    a->p = (float)p;
    a->keep_prob = (float)(1.0 - p);
    a->stream = (uint32_t)cpu_attr(b, n, 3);
    a->keep = a->bias = a->key = a->rows = a->gbias = (cpu_ref){YK_NONE, 0};
    if (flags & YK_ATT_KEEP)
        a->keep = cpu_ref_of(cpu_in(b, n, next++));
    if (flags & YK_ATT_BIAS) {
        const yk_value *bias = cpu_in(b, n, next++);
        a->bias = cpu_ref_of(bias);
        for (int i = 0; i < 4; i++)
            a->bias_stride[i] = bias->dim[i] > 1 ? bias->stride[i] : 0;
    }
    if (flags & YK_ATT_DROP) {
        a->drop = true;
        a->key = cpu_ref_of(cpu_in(b, n, next));
        a->rows = cpu_ref_of(cpu_in(b, n, next + 1));
    }
    a->bf16 = b->isa->bf16 && q->dtype == YK_BF16 && k->dtype == YK_BF16 && v->dtype == YK_BF16;
    return last_is_dense(q) && last_is_dense(k) && last_is_dense(v);
}

static size_t ws_place(size_t *at, int64_t bytes)
{
    size_t here = *at;
    *at += cpu_round((size_t)bytes + 128, 64);
    return here;
}

static void set_scratch(cpu_build *b, att_args *a, bool bwd)
{
    int t = a->bf16 ? YK_BF16 : YK_F32; /* in f32, 16-bit operands are widened as they are packed */
    int64_t block = a->tq < ATT_BLOCK ? a->tq : ATT_BLOCK, s = block * a->tk * 4;
    cpu_gemm_init(&a->scores, b->isa, block, a->tk, a->d, t, t, false);
    cpu_gemm_init(&a->mix, b->isa, block, a->d, a->tk, t, t, false);
    cpu_gemm_init(&a->back_q, b->isa, block, a->d, a->tk, t, t, false);
    cpu_gemm_init(&a->back_k, b->isa, a->tk, a->d, block, t, t, false);
    size_t at = a->scores.bytes;
    at = at > a->mix.bytes ? at : a->mix.bytes;
    at = at > a->back_k.bytes ? at : a->back_k.bytes;
    at = cpu_round(at, 4096);
    a->at_s = ws_place(&at, s);
    a->at_p16 = ws_place(&at, a->bf16 ? s / 2 : 0);
    a->at_mask = ws_place(&at, a->tk * 4);
    a->at_u = ws_place(&at, a->tk * 4);
    a->at_o = ws_place(&at, (block + 2) * a->d * 4);
    a->at_kt = ws_place(&at, (int64_t)cpu_gemm_packed(&a->scores));
    a->at_vt = ws_place(&at, (int64_t)cpu_gemm_packed(bwd ? &a->scores : &a->mix));
    if (bwd) {
        a->at_dp = ws_place(&at, s);
        a->at_ds16 = ws_place(&at, a->bf16 ? s / 2 : 0);
        a->at_kn = ws_place(&at, (int64_t)cpu_gemm_packed(&a->back_q));
        a->at_gk = ws_place(&at, a->tk * a->d * 4);
        a->at_gv = ws_place(&at, a->tk * a->d * 4);
    }
    cpu_need_thread_ws(b, at);
}

void cpu_plan_attention(cpu_build *b, const yk_node *n)
{
    att_args *a = cpu_args(b, sizeof *a);
    bool bwd = n->op == YK_OP_ATTENTION_BWD, fine = true;
    if (!a)
        return;
    fine = set_operands(b, n, a, bwd ? 3 : 0);
    if (bwd) {
        a->gout = mat_of(cpu_in(b, n, 0));
        a->out = mat_of(cpu_in(b, n, 1));
        a->lse = cpu_ref_of(cpu_in(b, n, 2));
        a->gq = mat_of(cpu_out(b, n, 0));
        a->gk = mat_of(cpu_out(b, n, 1));
        a->gv = mat_of(cpu_out(b, n, 2));
        if (n->n_out > 3)
            a->gbias = cpu_ref_of(cpu_out(b, n, 3));
        a->bf16 = a->bf16 && a->gout.dtype == YK_BF16;
        fine = fine && last_is_dense(cpu_in(b, n, 0)) && last_is_dense(cpu_in(b, n, 1));
        for (uint32_t i = 0; i < 3; i++)
            fine = fine && last_is_dense(cpu_out(b, n, i));
    } else {
        a->out = mat_of(cpu_out(b, n, 0));
        a->lse = cpu_ref_of(cpu_out(b, n, 1));
        fine = fine && last_is_dense(cpu_out(b, n, 0));
    }
    if (!fine) {
        cpu_refuse(b, n, "an operand or result whose last dimension is not dense");
        return;
    }
    set_scratch(b, a, bwd);
    int64_t heads = a->b * a->h, blocks = (a->tq + ATT_BLOCK - 1) / ATT_BLOCK;
    a->split = heads >= 4 * b->nt || heads % b->nt == 0 ? 1 : blocks;
    double work = (double)heads * (double)a->tq * (double)a->tk * ((double)a->d * 0.04 + 1.0) * (bwd ? 2.5 : 1.0);
    cpu_emit(b, bwd ? cpu_attention_bwd_step : forward_step, a, work);
}
