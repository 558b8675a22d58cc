/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that attention (attention_fwd.c) and its gradient (attention_bwd.c) share: a head's operands, a block's scores with bias and mask,
 * and dropout's random numbers. Both call it within their steps, on a worker, with that worker's scratch memory.
 */
#include "backends/cpu/nn/cpu_attention.h"

#include <math.h>
#include <string.h>

#include "backends/cpu/isa/vec_kernels.h"

char *att_row(const cpu_ctx *ctx, const att_mat *mat, int64_t b, int64_t h, int64_t t)
{
    return (char *)cpu_at(ctx, mat->ref) + (b * mat->stride_b + h * mat->stride_h + t * mat->stride_t) * yk_dtype_bytes(mat->dtype);
}

cpu_src att_plain(const cpu_ctx *ctx, const att_mat *mat, int64_t b, int64_t h, int64_t t, bool kcontig)
{
    return (cpu_src){.p = att_row(ctx, mat, b, h, t), .ld = mat->stride_t, .dtype = mat->dtype, .kcontig = kcontig};
}

cpu_src att_probs(const att_head *head, const float *s, const uint16_t *bf16, bool kcontig)
{
    const att_args *att = head->att;
    return (cpu_src){.p = att->bf16 ? (const void *)bf16 : (const void *)s, .ld = att->tk,
                     .dtype = att->bf16 ? YK_BF16 : YK_F32, .kcontig = kcontig};
}

att_head att_open(const att_args *att, const cpu_ctx *ctx, int64_t b, int64_t h)
{
    bool plain = att->bias.slot == YK_NONE && att->scale > 0.0f; /* the exponential can apply the scale */
    att_head t = {att,
                  ctx,
                  b,
                  h,
                  att->tk,
                  plain ? att->scale : 1.0f,
                  (float *)(void *)(ctx->thread_ws + att->at_s),
                  (float *)(void *)(ctx->thread_ws + att->at_dp),
                  (float *)(void *)(ctx->thread_ws + att->at_mask),
                  (float *)(void *)(ctx->thread_ws + att->at_u),
                  (float *)(void *)(ctx->thread_ws + att->at_o),
                  (uint16_t *)(void *)(ctx->thread_ws + att->at_p16),
                  (uint16_t *)(void *)(ctx->thread_ws + att->at_ds16)};
    const float *keep = cpu_at(ctx, att->keep);
    for (int64_t j = 0; keep && j < att->tk; j++)
        t.mask[j] = keep[b * att->tk + j] == 0.0f ? -INFINITY : 0.0f;
    while (keep && t.keys && t.mask[t.keys - 1] != 0.0f)
        t.keys--;
    return t;
}

int64_t att_seen(const att_head *head, int64_t i)
{
    const att_args *att = head->att;
    int64_t n = att->causal ? i + att->tk - att->tq + 1 : att->tk;
    return n < 0 ? 0 : n > head->keys ? head->keys : n;
}

static void add_bias(att_head *head, int64_t i, float *row, int64_t n)
{
    const att_args *att = head->att;
    const float *bias = cpu_at(head->ctx, att->bias);
    if (!bias)
        return;
    bias += head->b * att->bias_stride[0] + head->h * att->bias_stride[1] + i * att->bias_stride[2];
    if (att->bias_stride[3] == 1)
        head->ctx->isa->vec->add(row, bias, (size_t)n);
    else
        for (int64_t j = 0; j < n; j++)
            row[j] += bias[j * att->bias_stride[3]];
}

int64_t att_scores(att_head *head, int64_t i0, int64_t n, const void *packed_k)
{
    const att_args *att = head->att;
    const cpu_isa *isa = head->ctx->isa;
    int64_t most = att_seen(head, i0 + n - 1), panel = 2 * isa->vw;
    if (most == 0)
        return 0;
    most = (most + panel - 1) / panel * panel;
    most = most < att->tk ? most : att->tk;
    cpu_src q = att_plain(head->ctx, &att->q, head->b, head->h, i0, true);
    cpu_src k = {.packed = packed_k, .ld = att->d, .dtype = att->k.dtype};
    cpu_sink sink = {head->scores, att->tk, false, NULL, NULL, NULL};
    cpu_gemm_run(&att->scores, head->ctx, &q, &k, 0, n, 0, most, &sink);
    for (int64_t r = 0; r < n; r++) {
        float *row = head->scores + r * att->tk;
        int64_t seen = att_seen(head, i0 + r);
        if (head->exp_scale != att->scale)
            isa->vec->scale(row, row, att->scale, (size_t)seen);
        add_bias(head, i0 + r, row, seen);
        if (att->keep.slot != YK_NONE)
            isa->vec->add(row, head->mask, (size_t)seen);
        memset(row + seen, 0, (size_t)(most - seen) * 4);
    }
    return most;
}

void att_uniform(att_head *head, int64_t i, int64_t n)
{
    const att_args *att = head->att;
    uint32_t key[3];
    int32_t row = ((const int32_t *)cpu_at(head->ctx, att->rows))[head->b];
    memcpy(key, cpu_at(head->ctx, att->key), sizeof key);
    uint64_t per = (uint64_t)(att->h * att->tq * att->tk);
    head->ctx->isa->random->uniform(head->uniform, key, att->stream,
                                    (uint64_t)row * per + (uint64_t)((head->h * att->tq + i) * att->tk), (size_t)n);
}
