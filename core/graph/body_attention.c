/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of attention and its gradient, with all scores in memory: their definition in primitives, for devices that do not run them.
 * body.c finds them through the table of operations (op_table.h), in the thread that plans.
 *
 * S = scale q k^T + bias, masked with -inf; P = softmax(S); out = P v. A query that sees no key has P = 0. (Vaswani et al. 2017; the
 * backward pass as in Dao et al. 2022, appendix B.)
 */
#include <math.h>

#include "core/graph/body.h"

typedef struct attention {
    int64_t b, h, hk, tq, tk, d;
    yk__vid q, k, v; /* [B*H, T, D], wide */
    yk__vid keep, bias, key, rows;
    bool causal;
    double scale, p;
    uint32_t stream, flags;
} attention;

static yk__vid heads_to_batch(yk__inline *b, yk__vid x, const attention *att, int64_t t)
{
    return yk__reshape(b->g, x, 3, (const int64_t[]){att->b * att->h, t, att->d});
}

/* Repeats keys and values with fewer heads: each serves H/Hk neighbouring query heads. */
static yk__vid heads_repeat(yk__inline *b, yk__vid x, const attention *att)
{
    const int64_t group = att->h / att->hk;
    if (group == 1)
        return heads_to_batch(b, x, att, att->tk);
    x = yk__reshape(b->g, x, 5, (const int64_t[]){att->b, att->hk, 1, att->tk, att->d});
    x = yk__expand(b->g, x, 5, (const int64_t[]){att->b, att->hk, group, att->tk, att->d});
    return heads_to_batch(b, yk__dense(b->g, x), att, att->tk);
}

/* `at`: position of q among the operands. */
static attention attention_of(yk__inline *b, uint32_t at)
{
    const yk_value *q = b->x[at], *k = b->x[at + 1];
    uint32_t next = at + 3;
    attention att = {q->dim[0],
                     q->dim[1],
                     k->dim[1],
                     q->dim[2],
                     k->dim[2],
                     q->dim[3],
                     0,
                     0,
                     0,
                     YK_NONE,
                     YK_NONE,
                     YK_NONE,
                     YK_NONE,
                     b->attr[0] != 0,
                     yk_attr_f64(b->attr[1]),
                     yk_attr_f64(b->attr[2]),
                     (uint32_t)b->attr[3],
                     (uint32_t)b->attr[4]};
    att.q = heads_to_batch(b, yk__dense(b->g, yk__body_widen(b, at)), &att, att.tq);
    att.k = heads_repeat(b, yk__dense(b->g, yk__body_widen(b, at + 1)), &att);
    att.v = heads_repeat(b, yk__dense(b->g, yk__body_widen(b, at + 2)), &att);
    if (att.flags & YK_ATT_KEEP)
        att.keep = b->in[next++];
    if (att.flags & YK_ATT_BIAS)
        att.bias = b->in[next++];
    if (att.flags & YK_ATT_DROP) {
        att.key = b->in[next];
        att.rows = b->in[next + 1];
    }
    return att;
}

static yk__vid scores_4d(yk__inline *b, yk__vid x, const attention *att)
{
    return yk__reshape(b->g, x, 4, (const int64_t[]){att->b, att->h, att->tq, att->tk});
}

static yk__vid scores_3d(yk__inline *b, yk__vid x, const attention *att)
{
    return yk__reshape(b->g, x, 3, (const int64_t[]){att->b * att->h, att->tq, att->tk});
}

/* Masked scores [B, H, Tq, Tk]. */
static yk__vid masked_scores(yk__inline *b, const attention *att)
{
    yk__graph *g = b->g;
    const int64_t dim[4] = {1, 1, att->tq, att->tk};
    const yk__vid never = yk__body_number(b, -INFINITY);
    yk__vid s = scores_4d(b, yk__scale(g, yk__dot(g, att->q, att->k, false, true), att->scale), att);
    if (att->bias != YK_NONE)
        s = yk__bin(g, YK_OP_ADD, s, yk__cast(g, att->bias, yk__body_dtype(b)));
    if (att->keep != YK_NONE) {
        yk__vid keep = yk__reshape(g, att->keep, 4, (const int64_t[]){att->b, 1, 1, att->tk});
        yk__vid zero = yk__cast(g, yk__const(g, 0, YK_F32), (yk_dtype)g->value[keep].dtype);
        s = yk__select(g, yk__bin(g, YK_OP_EQ, keep, zero), never, s);
    }
    if (att->causal) { /* j < i + Tk - Tq + 1 */
        yk__vid end = yk__bin(g, YK_OP_ADD, yk__iota(g, 2, YK_I32, 4, dim),
                              yk__const(g, (double)(att->tk - att->tq + 1), YK_I32));
        s = yk__select(g, yk__bin(g, YK_OP_LT, yk__iota(g, 3, YK_I32, 4, dim), end), s, never);
    }
    return s;
}

/* x with -inf replaced by 0 */
static yk__vid inf_to_zero(yk__inline *b, yk__vid x)
{
    const yk__vid none = yk__bin(b->g, YK_OP_EQ, x, yk__body_number(b, -INFINITY));
    return yk__select(b->g, none, yk__body_number(b, 0), x);
}

static yk__vid probs_dropout(yk__inline *b, const attention *att, yk__vid p)
{
    const yk__vid in[3] = {yk__dense(b->g, p), att->key, att->rows};
    const int64_t attr[2] = {yk_attr_of_f64(att->p), att->stream};
    yk__vid out = YK_NONE;
    if (att->key == YK_NONE)
        return p;
    yk__apply(b->g, YK_OP_DROPOUT, 3, in, 2, attr, YK_DTYPE_COUNT, 0, NULL, &out, 1);
    return out;
}

void yk__body_attention(yk__inline *b)
{
    yk__graph *g = b->g;
    const attention att = attention_of(b, 0);
    const yk__vid s = masked_scores(b, &att), top = inf_to_zero(b, yk__rmax(g, s, 1u << 3));
    const yk__vid e = yk__un(g, YK_OP_EXP, yk__bin(g, YK_OP_SUB, s, top)), sum = yk__sum(g, yk__dense(g, e), 1u << 3);
    const yk__vid zero = yk__body_number(b, 0), empty = yk__bin(g, YK_OP_EQ, sum, zero);
    const yk__vid inverse = yk__select(g, empty, zero, yk__un(g, YK_OP_RECIP, sum));
    const yk__vid p = probs_dropout(b, &att, yk__bin(g, YK_OP_MUL, e, inverse));
    const yk__vid out = yk__dot(g, scores_3d(b, p, &att), att.v, false, false);
    const yk__vid lse = yk__bin(g, YK_OP_ADD, top, yk__un(g, YK_OP_LOG, sum));
    yk__body_output(b, 0, yk__reshape(g, out, 4, (const int64_t[]){att.b, att.h, att.tq, att.d}));
    yk__body_output(b, 1, yk__reshape(g, lse, 3, (const int64_t[]){att.b, att.h, att.tq}));
}

/* Stores gradients of keys and values, summed over the query heads they serve. */
static void grad_put_shared(yk__inline *b, uint32_t i, yk__vid x, const attention *att)
{
    const int64_t group = att->h / att->hk;
    x = yk__reshape(b->g, x, 5, (const int64_t[]){att->b, att->hk, group, att->tk, att->d});
    if (group > 1)
        x = yk__sum(b->g, x, 1u << 2);
    yk__body_output(b, i, yk__reshape(b->g, x, 4, (const int64_t[]){att->b, att->hk, att->tk, att->d}));
}

/* dV = P'^T dO; dP = drop(dO V^T); dS = P (dP - sum(dO O)); dQ = scale dS K; dK = scale dS^T Q */
void yk__body_attention_bwd(yk__inline *b)
{
    yk__graph *g = b->g;
    const attention att = attention_of(b, 3);
    const yk__vid go = yk__dense(g, yk__body_widen(b, 0)), out = yk__dense(g, yk__body_widen(b, 1));
    const yk__vid lse =
        inf_to_zero(b, yk__reshape(g, yk__body_widen(b, 2), 4, (const int64_t[]){att.b, att.h, att.tq, 1}));
    const yk__vid p = yk__un(g, YK_OP_EXP, yk__bin(g, YK_OP_SUB, masked_scores(b, &att), lse));
    const yk__vid total = yk__sum(g, yk__bin(g, YK_OP_MUL, go, out), 1u << 3);
    const yk__vid go3 = heads_to_batch(b, go, &att, att.tq);
    const yk__vid dp = probs_dropout(b, &att, scores_4d(b, yk__dot(g, go3, att.v, false, true), &att));
    const yk__vid ds = yk__bin(g, YK_OP_MUL, p, yk__bin(g, YK_OP_SUB, dp, total));
    const yk__vid ds3 = scores_3d(b, yk__scale(g, ds, att.scale), &att), gq = yk__dot(g, ds3, att.k, false, false);
    yk__body_output(b, 0, yk__reshape(g, gq, 4, (const int64_t[]){att.b, att.h, att.tq, att.d}));
    grad_put_shared(b, 1, yk__dot(g, ds3, att.q, true, false), &att);
    grad_put_shared(b, 2, yk__dot(g, scores_3d(b, probs_dropout(b, &att, p), &att), go3, true, false), &att);
    if (b->n_out > 3)
        yk__body_output(b, 3, ds);
}
