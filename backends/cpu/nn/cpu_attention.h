/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention a block of queries at a time: at most the scores of 64 queries with their visible keys are in memory.
 * Each task packs the keys and values of its head. Products of bf16 operands run in bf16 if the instruction set has them;
 * packing widens other 16-bit operands to f32. Scores, exponentials and sums are f32.
 */
#ifndef YOKE_BACKENDS_CPU_NN_CPU_ATTENTION_H
#define YOKE_BACKENDS_CPU_NN_CPU_ATTENTION_H

#include "backends/cpu/exec/cpu.h"
#include "backends/cpu/gemm/gemm.h"

#define ATT_BLOCK 64

typedef struct att_mat { /* [B,H,T,D], any strides but the last */
    cpu_ref ref;
    int64_t stride_b, stride_h, stride_t;
    uint8_t dtype;
} att_mat;

typedef struct att_args {
    att_mat q, k, v, out, gout, gq, gk, gv;
    cpu_ref lse, keep, key, rows, gbias, bias; /* keep: key_keep, the keys that may be seen. key, rows: of dropout's random numbers */
    int64_t bias_stride[4];
    int64_t b, h, hk, tq, tk, d, split; /* split: tasks of one head (forward) */
    bool causal, drop, bf16;            /* bf16: products in bf16 */
    float scale, drop_prob, keep_prob;  /* keep_prob = 1 - drop_prob */
    uint32_t stream;
    cpu_gemm scores, mix, back_q, back_k; /* [block,D]x[D,Tk]; [block,Tk]x[Tk,D]; the same; [Tk,block]x[block,D] */
    /* Offsets in the scratch. at_kt, at_kn: K packed for Q K^T and dS K. at_vt: V packed for P V, in the gradient for gO V^T. */
    size_t at_s, at_dp, at_p16, at_ds16, at_mask, at_u, at_o, at_kt, at_vt, at_kn, at_gk, at_gv;
} att_args;

/* One worker's view of one head. */
typedef struct att_head {
    const att_args *att;
    const cpu_ctx *ctx;
    int64_t b, h, keys; /* keys: number of leading keys that key_keep allows; none behind them is kept */
    float exp_scale;    /* factor still to apply to the scores in s */
    float *scores, *dprobs, *mask, *uniform, *out;
    uint16_t *probs16, *dscores16;
} att_head;

void cpu_attention_bwd_step(const void *args, const cpu_ctx *ctx);
att_head att_open(const att_args *att, const cpu_ctx *ctx, int64_t b, int64_t h);
char *att_row(const cpu_ctx *ctx, const att_mat *mat, int64_t b, int64_t h, int64_t t);
cpu_src att_plain(const cpu_ctx *ctx, const att_mat *mat, int64_t b, int64_t h, int64_t t, bool kcontig);
/* Number n of keys that query i sees: 0 .. n-1. */
int64_t att_seen(const att_head *head, int64_t i);
/* Writes biased and masked scores of queries i0 .. i0+n-1 to head->scores (rows of tk). Returns the keys that the last query sees,
 * rounded up to whole panels. */
int64_t att_scores(att_head *head, int64_t i0, int64_t n, const void *packed_k);
/* Random numbers u of row i for the first n keys */
void att_uniform(att_head *head, int64_t i, int64_t n);
/* The rows of s as an operand: in f32, or as `bf16`, which the caller has filled. */
cpu_src att_probs(const att_head *head, const float *s, const uint16_t *bf16, bool kcontig);

#endif
