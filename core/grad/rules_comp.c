/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The derivatives of composites that have a backward composite, such as conv2d or attention. Each rule appends that composite to the
 * graph.
 *
 * grad.c calls them through the table of operations (op_table.h), in the thread that plans. The composite's body handles the uses that the
 * backward composite does not cover (the gradient of a saved statistic).
 */
#include "core/grad/grad_internal.h"

#include <string.h>

#define GY (r->gy[0])

/* One node over the given operands, with the node's own attributes. */
static yk__vid node_like(yk__rule *r, yk_op op, yk__vid a, yk__vid b, yk__vid like)
{
    yk__vid in[2] = {a, b}, y = YK_NONE;
    yk_value v = r->g->value[like];
    yk__apply(r->g, op, b == YK_NONE ? 1 : 2, in, r->n_attr, r->attr, YK_DTYPE_COUNT, v.dims, v.dim, &y, 1);
    return y;
}

/* y = conv(x, w) is linear in each: conv2d_dx and conv2d_dw are its adjoints. */
void yk__rule_conv2d(yk__rule *r)
{
    if (r->need[0])
        yk__grad_add(r, 0, node_like(r, YK_OP_CONV2D_DX, GY, r->in[1], r->in[0]));
    if (r->need[1])
        yk__grad_add(r, 1, node_like(r, YK_OP_CONV2D_DW, GY, r->in[0], r->in[1]));
}

/* gx = dx(gy, w), G arrives at gx: ggy = conv(G, w), gw = dw(gy, G). */
void yk__rule_conv2d_dx(yk__rule *r)
{
    if (r->need[0])
        yk__grad_add(r, 0, node_like(r, YK_OP_CONV2D, GY, r->in[1], r->in[0]));
    if (r->need[1])
        yk__grad_add(r, 1, node_like(r, YK_OP_CONV2D_DW, r->in[0], GY, r->in[1]));
}

/* gw = dw(gy, x), G arrives at gw: ggy = conv(x, G), gx = dx(gy, G). */
void yk__rule_conv2d_dw(yk__rule *r)
{
    if (r->need[0])
        yk__grad_add(r, 0, node_like(r, YK_OP_CONV2D, r->in[1], GY, r->in[0]));
    if (r->need[1])
        yk__grad_add(r, 1, node_like(r, YK_OP_CONV2D_DX, r->in[0], GY, r->in[1]));
}

void yk__rule_max_pool(yk__rule *r)
{
    yk__grad_add(r, 0, node_like(r, YK_OP_MAX_POOL_BWD, r->in[0], GY, r->in[0]));
}

void yk__rule_avg_pool(yk__rule *r)
{
    yk__grad_add(r, 0, node_like(r, YK_OP_AVG_POOL_BWD, GY, YK_NONE, r->in[0]));
}

void yk__rule_avg_pool_bwd(yk__rule *r) /* linear: the adjoint of the adjoint */
{
    yk__grad_add(r, 0, node_like(r, YK_OP_AVG_POOL, GY, YK_NONE, r->in[0]));
}

/* m = mean(x), M = sum((x - m)^2) of n numbers: gx = gm / n + 2 (x - m) gM, in elementwise nodes that fuse with their
 * neighbours. all_stats: m, M and n are of all ranks' rows, gm and gM are summed over the ranks. The shift gets no gradient,
 * since the result does not depend on it. */
void yk__rule_bn_stats(yk__rule *r)
{
    yk__graph *g = r->g;
    const yk_value x = g->value[r->in[0]];
    const yk_dtype widened = (yk_dtype)g->value[GY].dtype;
    const yk__vid gy = r->op == YK_OP_ALL_STATS ? yk__all_reduce(g, GY) : GY;
    yk__vid row[3][2]; /* rows of the gradient, of the result */
    for (int64_t i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++)
            row[i][k] = yk__reshape(g, yk__slice(g, k ? r->out[0] : gy, 0, i, i + 1, 1), 3, (const int64_t[]){1, x.dim[1], 1});
    yk__vid gx = yk__bin(g, YK_OP_SUB, yk__cast(g, r->in[0], widened), row[0][1]);
    gx = yk__bin(g, YK_OP_MUL, gx, yk__scale(g, row[1][0], 2));
    gx = yk__bin(g, YK_OP_ADD, gx, yk__bin(g, YK_OP_DIV, row[0][0], row[2][1]));
    if (r->need[0])
        yk__grad_add(r, 0, yk__cast(g, gx, (yk_dtype)x.dtype));
}

/* With h = (x - mean) rstd and u = gy gamma: gx = rstd (u - mean(u) - h mean(u h)), ggamma = sum gy h, gbeta = sum gy
 * (Ba et al., "Layer normalization", 2016; the usual backward). */
void yk__rule_layer_norm(yk__rule *r)
{
    yk__vid in[5] = {GY, r->in[0], r->out[1], r->out[2], r->n_in > 1 ? r->in[1] : YK_NONE};
    yk__vid out[3] = {YK_NONE, YK_NONE, YK_NONE};
    if (r->gy[1] != YK_NONE || r->gy[2] != YK_NONE) {
        r->by_body = true;
        return;
    }
    yk__apply(r->g, YK_OP_LAYER_NORM_BWD, r->n_in > 1 ? 5 : 4, in, r->n_attr, r->attr, YK_DTYPE_COUNT, 0, NULL, out, 3);
    yk__grad_add(r, 0, out[0]);
    for (uint32_t i = 1; i < r->n_in; i++)
        yk__grad_add(r, i, out[i]);
}

/* gx = y (gy - sum gy y); of log softmax: gy - e^y sum gy. */
void yk__rule_softmax(yk__rule *r)
{
    yk__grad_add(r, 0, node_like(r, YK_OP_SOFTMAX_BWD, GY, r->out[0], r->in[0]));
}

/* P = softmax(S): gv = P' gout, gP = gout v', gS = P (gP - rowsum(gout out)), gq = scale gS k, gk = scale gS' q (Dao et
 * al., "FlashAttention", 2022, section B.2). */
void yk__rule_attention(yk__rule *r)
{
    yk__vid in[YK_RULE_IN] = {GY, r->out[0], r->out[1]}, out[4] = {YK_NONE, YK_NONE, YK_NONE, YK_NONE};
    const int64_t flags = r->attr[4];
    const uint32_t bias = 3 + !!(flags & YK_ATT_KEEP);
    const bool want = (flags & YK_ATT_BIAS) && r->need[bias];
    if (r->gy[1] != YK_NONE || GY == YK_NONE) {
        r->by_body = true;
        return;
    }
    memcpy(in + 3, r->in, r->n_in * sizeof *in);
    r->attr[4] = (flags & ~(int64_t)YK_ATT_GBIAS) | (want ? YK_ATT_GBIAS : 0);
    yk__apply(r->g, YK_OP_ATTENTION_BWD, r->n_in + 3, in, r->n_attr, r->attr, YK_DTYPE_COUNT, 0, NULL, out, 4);
    for (uint32_t i = 0; i < 3; i++)
        yk__grad_add(r, i, out[i]);
    if (want)
        yk__grad_add(r, bias, out[3]);
}

/* With p = softmax(z): gz[c] = gloss (w[y] (1-s) (p[c] - [c = y]) + s/C (p[c] sum w - w[c])). */
void yk__rule_cross_entropy(yk__rule *r)
{
    yk__vid in[5] = {GY, r->in[0], r->in[1], r->out[1], r->n_in > 2 ? r->in[2] : YK_NONE}, y = YK_NONE;
    if (r->gy[1] != YK_NONE || GY == YK_NONE || (r->n_in > 2 && r->need[2])) {
        r->by_body = true;
        return;
    }
    yk__apply(r->g, YK_OP_CROSS_ENTROPY_BWD, r->n_in + 2, in, r->n_attr, r->attr, YK_DTYPE_COUNT, 0, NULL, &y, 1);
    yk__grad_add(r, 0, y);
}

void yk__rule_dropout(yk__rule *r) /* linear and diagonal: the same mask from the same stream */
{
    yk__vid in[3] = {GY, r->in[1], r->in[2]}, y = YK_NONE;
    yk__apply(r->g, YK_OP_DROPOUT, 3, in, r->n_attr, r->attr, YK_DTYPE_COUNT, 0, NULL, &y, 1);
    yk__grad_add(r, 0, y);
}
