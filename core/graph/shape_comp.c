/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shape inference of all_reduce, all_stats (yk__infer_bn_stats) and most composites; each row of op_table.h names its function.
 * shape_prim.c infers dropout and the elementwise composites; round8.c infers round8. yk__infer (shape.c) calls a function after the
 * number of operands and attributes was checked, both for the builder and for the checker (check.c). A function trusts no attribute, as
 * tests and yoke-cts also give the checker graphs that the builder did not make. Lengths count elements; an attribute list is written in
 * the order of plugin.h. A function writes s->out, and an optimizer's step also s->alias; a failure sets s->err. Any thread. yk__infer sets
 * n_out from the table first: a function with optional outputs sets it anew.
 */
#include "core/graph/graph_internal.h"

#include <string.h>

/* ---- Convolution: attr sh sw ph pw dh dw groups ---- */

/* Writes the shape y of x convolved with w; conv_grad compares y with operand 0. */
static bool conv_out(yk__shape *s, const int64_t x[4], const int64_t w[4], int64_t y[4])
{
    const int64_t *a = s->attr, groups = a[6];
    if (groups < 1 || x[1] % groups || w[0] % groups || w[1] != x[1] / groups)
        return yk__shape_bad(
            s, "%lld groups do not fit: x [N, C, H, W] has C = %lld, w [O, C/groups, kh, kw] is [%lld, %lld, ..]",
            (long long)groups, (long long)x[1], (long long)w[0], (long long)w[1]);
    y[0] = x[0];
    y[1] = w[0];
    y[2] = yk__window_out(x[2], w[2], a[0], a[2], a[4]);
    y[3] = yk__window_out(x[3], w[3], a[1], a[3], a[5]);
    if (y[2] < 0 || y[3] < 0)
        return yk__shape_bad(
            s, "a kernel of %lldx%lld, stride %lldx%lld, padding %lldx%lld, dilation %lldx%lld does not fit",
            (long long)w[2], (long long)w[3], (long long)a[0], (long long)a[1], (long long)a[2], (long long)a[3],
            (long long)a[4], (long long)a[5]);
    return true;
}

static bool conv_operands(yk__shape *s)
{
    if (!yk__shape_float(s, 0))
        return false;
    if (s->x[0]->dims != 4 || s->x[1]->dims != 4 || s->x[0]->dtype != s->x[1]->dtype)
        return yk__shape_bad(s, "needs two operands of 4 dimensions and one type");
    return true;
}

bool yk__infer_conv2d(yk__shape *s)
{
    int64_t y[4];
    if (!conv_operands(s) || !conv_out(s, s->x[0]->dim, s->x[1]->dim, y))
        return false;
    yk__shape_out(s, 0, yk__shape_dtype(s, s->x[0]->dtype), 4, y);
    return true;
}

static bool conv_grad(yk__shape *s, const int64_t *x, const int64_t *w)
{
    int64_t y[4];
    if (!conv_out(s, x, w, y))
        return false;
    if (memcmp(y, s->x[0]->dim, sizeof y))
        return yk__shape_bad(s, "operand 0 has to be [%lld, %lld, %lld, %lld]", (long long)y[0], (long long)y[1],
                             (long long)y[2], (long long)y[3]);
    yk__shape_out(s, 0, yk__shape_dtype(s, s->x[0]->dtype), 4, s->dim);
    return true;
}

static bool output_4d_required(yk__shape *s)
{
    if (s->dim && s->dims == 4)
        return true;
    return yk__shape_bad(s, "needs the 4 dimensions of its output");
}

bool yk__infer_conv2d_dx(yk__shape *s)
{
    return conv_operands(s) && output_4d_required(s) && conv_grad(s, s->dim, s->x[1]->dim);
}

bool yk__infer_conv2d_dw(yk__shape *s)
{
    return conv_operands(s) && output_4d_required(s) && conv_grad(s, s->x[1]->dim, s->dim);
}

/* ---- Pools ---- */

static bool pool_out(yk__shape *s, const int64_t *x, const int64_t *a, int64_t dh, int64_t dw, int64_t y[4])
{
    y[0] = x[0], y[1] = x[1];
    y[2] = yk__window_out(x[2], a[0], a[2], a[4], dh);
    y[3] = yk__window_out(x[3], a[1], a[3], a[5], dw);
    if (y[2] < 0 || y[3] < 0)
        return yk__shape_bad(
            s, "a window of %lldx%lld, stride %lldx%lld, padding %lldx%lld, dilation %lldx%lld does not fit",
            (long long)a[0], (long long)a[1], (long long)a[2], (long long)a[3], (long long)a[4], (long long)a[5],
            (long long)dh, (long long)dw);
    return true;
}

static bool images_required(yk__shape *s)
{
    if (s->x[0]->dims != 4)
        return yk__shape_bad(s, "needs [N, C, H, W]");
    return yk__shape_float(s, 0);
}

bool yk__infer_max_pool(yk__shape *s)
{
    int64_t y[4];
    if (!images_required(s) || !pool_out(s, s->x[0]->dim, s->attr, s->attr[6], s->attr[7], y))
        return false;
    yk__shape_out(s, 0, s->x[0]->dtype, 4, y);
    return true;
}

bool yk__infer_max_pool_bwd(yk__shape *s)
{
    int64_t y[4];
    if (!images_required(s) || !pool_out(s, s->x[0]->dim, s->attr, s->attr[6], s->attr[7], y) ||
        !yk__shape_is(s, 1, s->x[0]->dtype, 4, y))
        return false;
    yk__shape_out(s, 0, s->x[0]->dtype, 4, s->x[0]->dim);
    return true;
}

bool yk__infer_avg_pool(yk__shape *s)
{
    int64_t y[4];
    if (!images_required(s) || !pool_out(s, s->x[0]->dim, s->attr, 1, 1, y))
        return false;
    yk__shape_out(s, 0, s->x[0]->dtype, 4, y);
    return true;
}

bool yk__infer_avg_pool_bwd(yk__shape *s)
{
    int64_t y[4];
    if (!images_required(s) || !output_4d_required(s) || !pool_out(s, s->dim, s->attr, 1, 1, y) ||
        !yk__shape_is(s, 0, s->x[0]->dtype, 4, y))
        return false;
    yk__shape_out(s, 0, s->x[0]->dtype, 4, s->dim);
    return true;
}

/* ---- Normalisation ---- */

static uint32_t stat_type(const yk_value *x)
{
    return x->dtype == YK_F64 ? YK_F64 : YK_F32;
}

bool yk__infer_bn_stats(yk__shape *s)
{
    const yk_value *x = s->x[0];
    if (x->dims != 3)
        return yk__shape_bad(s, "needs [N, C, inner]");
    if (!yk__shape_float(s, 0) || !yk__shape_stat(s, 1, x->dtype, x->dim[1]))
        return false;
    yk__shape_out(s, 0, stat_type(x), 2, (int64_t[]){3, x->dim[1]});
    return true;
}

bool yk__infer_all_reduce(yk__shape *s)
{
    const yk_value *x = s->x[0];
    if (s->attr[0] != YK_REDUCE_SUM && s->attr[0] != YK_REDUCE_MAX && (s->attr[0] != YK_REDUCE_MOMENTS || x->dims != 2 || x->dim[0] != 3))
        return yk__shape_bad(s, "attribute how is %lld: expected 0 (sum), 1 (moments, of [3, C] alone) or 2 (maximum)",
                             (long long)s->attr[0]);
    yk__shape_out(s, 0, x->dtype, x->dims, x->dim);
    return true;
}

static bool rows_required(yk__shape *s)
{
    if (s->x[0]->dims != 2 || s->x[0]->dim[1] < 1)
        return yk__shape_bad(s, "needs [R, C], C at least 1");
    return yk__shape_float(s, 0);
}

bool yk__infer_layer_norm(yk__shape *s)
{
    const yk_value *x = s->x[0];
    if (!rows_required(s))
        return false;
    for (uint32_t i = 1; i < s->n_in; i++)
        if (!yk__shape_stat(s, i, x->dtype, x->dim[1]))
            return false;
    yk__shape_out(
        s, 0, x->dtype == YK_F32 && (s->want_dtype == YK_BF16 || s->want_dtype == YK_F16) ? s->want_dtype : x->dtype, 2,
        x->dim);
    yk__shape_out(s, 1, stat_type(x), 1, x->dim);
    yk__shape_out(s, 2, stat_type(x), 1, x->dim);
    return true;
}

bool yk__infer_layer_norm_bwd(yk__shape *s)
{
    const yk_value *gy = s->x[0];
    if (!rows_required(s) || !yk__shape_is(s, 1, gy->dtype, 2, gy->dim) ||
        !yk__shape_stat(s, 2, gy->dtype, gy->dim[0]) || !yk__shape_stat(s, 3, gy->dtype, gy->dim[0]))
        return false;
    if (s->n_in == 5 && !yk__shape_stat(s, 4, gy->dtype, gy->dim[1]))
        return false;
    s->n_out = s->n_in == 5 ? 3 : 1;
    yk__shape_out(s, 0, gy->dtype, 2, gy->dim);
    yk__shape_out(s, 1, stat_type(gy), 1, gy->dim + 1);
    yk__shape_out(s, 2, stat_type(gy), 1, gy->dim + 1);
    return true;
}

bool yk__infer_softmax(yk__shape *s)
{
    if (!rows_required(s))
        return false;
    yk__shape_out(s, 0, s->x[0]->dtype, 2, s->x[0]->dim);
    return true;
}

bool yk__infer_softmax_bwd(yk__shape *s)
{
    return yk__infer_softmax(s) && yk__shape_is(s, 1, s->x[0]->dtype, 2, s->x[0]->dim);
}

/* ---- Attention: attr causal scale p stream flags ---- */

/* Checks q, k, v from operand `first` on, then the operands that the flags name. */
static bool attention_operands(yk__shape *s, uint32_t first)
{
    const int64_t flags = s->attr[4];
    const yk_value *q = s->x[first], *k = s->x[first + 1];
    uint32_t at = first + 3;
    const uint32_t need = at + !!(flags & YK_ATT_KEEP) + !!(flags & YK_ATT_BIAS) + 2 * !!(flags & YK_ATT_DROP);
    const double p = yk_attr_f64(s->attr[2]);
    if (flags < 0 || flags > 15 || s->n_in != need)
        return yk__shape_bad(s, "flags %lld, %u operands: expected flags of 0..15, and %u operands with these", (long long)flags, s->n_in,
                             need);
    if (q->dims != 4 || k->dims != 4 || k->dim[0] != q->dim[0] || k->dim[1] < 1 || q->dim[1] % k->dim[1] ||
        k->dim[3] != q->dim[3] || k->dtype != q->dtype || !yk__dtype_is_float(q->dtype) || q->dim[3] < 1)
        return yk__shape_bad(s,
                             "q has to be [B, H, Tq, D] and k, v [B, Hk, Tk, D] of one float type, Hk a divisor of H");
    if (!yk__shape_is(s, first + 2, q->dtype, 4, k->dim))
        return false;
    if ((flags & YK_ATT_DROP) && !(p >= 0 && p <= 1))
        return yk__shape_bad(s, "the probability %g is not in 0..1", p);
    if (flags & YK_ATT_KEEP && !yk__shape_is(s, at++, stat_type(q), 2, (int64_t[]){q->dim[0], k->dim[2]}))
        return false;
    if (flags & YK_ATT_BIAS &&
        !yk__shape_is(s, at++, stat_type(q), 4, (int64_t[]){q->dim[0], q->dim[1], q->dim[2], k->dim[2]}))
        return false;
    if (flags & YK_ATT_DROP)
        return yk__shape_is(s, at, YK_I32, 1, (int64_t[]){4}) && yk__shape_is(s, at + 1, YK_I32, 1, q->dim);
    return true;
}

bool yk__infer_attention(yk__shape *s)
{
    if (!attention_operands(s, 0))
        return false;
    yk__shape_out(s, 0, yk__shape_dtype(s, s->x[0]->dtype), 4, s->x[0]->dim);
    yk__shape_out(s, 1, stat_type(s->x[0]), 3, s->x[0]->dim);
    return true;
}

bool yk__infer_attention_bwd(yk__shape *s)
{
    const yk_value *q, *k;
    if (!attention_operands(s, 3))
        return false;
    q = s->x[3], k = s->x[4];
    if (!yk__shape_is(s, 0, s->x[0]->dtype, 4, q->dim) || !yk__shape_is(s, 1, s->x[1]->dtype, 4, q->dim) ||
        !yk__shape_is(s, 2, stat_type(q), 3, q->dim) || !yk__shape_float(s, 0) || !yk__shape_float(s, 1))
        return false;
    s->n_out = s->attr[4] & YK_ATT_GBIAS ? 4 : 3;
    yk__shape_out(s, 0, yk__shape_dtype(s, q->dtype), 4, q->dim);
    yk__shape_out(s, 1, yk__shape_dtype(s, q->dtype), 4, k->dim);
    yk__shape_out(s, 2, yk__shape_dtype(s, q->dtype), 4, k->dim);
    yk__shape_out(s, 3, stat_type(q), 4, (int64_t[]){q->dim[0], q->dim[1], q->dim[2], k->dim[2]});
    return true;
}

/* ---- Losses ---- */

bool yk__infer_cross_entropy(yk__shape *s)
{
    const yk_value *z = s->x[0];
    if (!rows_required(s) || !yk__shape_is(s, 1, YK_I32, 1, z->dim))
        return false;
    if (s->n_in == 3 && !yk__shape_stat(s, 2, z->dtype, z->dim[1]))
        return false;
    yk__shape_out(s, 0, stat_type(z), 1, z->dim);
    yk__shape_out(s, 1, stat_type(z), 1, z->dim);
    return true;
}

bool yk__infer_cross_entropy_bwd(yk__shape *s)
{
    const yk_value *z = s->x[1];
    if (z->dims != 2 || z->dim[1] < 1 || !yk__dtype_is_float(z->dtype))
        return yk__shape_bad(s, "operand 1, the logits, has to be float [R, C]");
    if (!yk__shape_stat(s, 0, z->dtype, z->dim[0]) || !yk__shape_is(s, 2, YK_I32, 1, z->dim) ||
        !yk__shape_stat(s, 3, z->dtype, z->dim[0]))
        return false;
    if (s->n_in == 5 && !yk__shape_stat(s, 4, z->dtype, z->dim[1]))
        return false;
    yk__shape_out(s, 0, z->dtype, 2, z->dim);
    return true;
}

/* ---- Optimizers: outputs lie in their operands ---- */

static bool flat_operands(yk__shape *s, uint32_t hyper)
{
    const yk_value *g = s->x[0];
    if (g->dims != 1)
        return yk__shape_bad(s, "needs flat f32 operands [n]");
    for (uint32_t i = 0; i < s->n_in; i++) {
        int64_t n = i == hyper ? YK_HYPER_COUNT : g->dim[0];
        if (!yk__shape_stat(s, i, s->x[i]->dtype, n))
            return false;
    }
    return true;
}

static void output_in_place(yk__shape *s, uint32_t i, uint32_t operand)
{
    yk__shape_out(s, i, s->x[operand]->dtype, 1, s->x[operand]->dim);
    s->alias[i] = operand;
}

bool yk__infer_adam_step(yk__shape *s)
{
    const bool amsgrad = s->attr[0] & YK_OPT_AMSGRAD;
    if (s->n_in != (amsgrad ? 6u : 5u))
        return yk__shape_bad(s, "flags %lld need %d operands", (long long)s->attr[0], amsgrad ? 6 : 5);
    if (!flat_operands(s, 4))
        return false;
    s->n_out = amsgrad ? 4 : 3;
    output_in_place(s, 0, 1);
    output_in_place(s, 1, 2);
    output_in_place(s, 2, 3);
    if (amsgrad)
        output_in_place(s, 3, 5);
    return true;
}

bool yk__infer_sgd_step(yk__shape *s)
{
    if (!flat_operands(s, s->n_in - 1))
        return false;
    s->n_out = s->n_in - 2;
    output_in_place(s, 0, 1);
    if (s->n_out == 2)
        output_in_place(s, 1, 2);
    return true;
}

bool yk__infer_grad_stats(yk__shape *s)
{
    if (s->x[0]->dims != 1)
        return yk__shape_bad(s, "operand 0 has to be f32 [n]");
    if (!yk__shape_stat(s, 0, s->x[0]->dtype, s->x[0]->dim[0]) || !yk__shape_stat(s, 1, s->x[1]->dtype, 1))
        return false;
    yk__shape_out(s, 0, s->x[0]->dtype, 1, (int64_t[]){2});
    return true;
}
