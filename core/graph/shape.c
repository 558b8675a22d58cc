/* SPDX-License-Identifier: Apache-2.0 */
/* Shape inference: what is common to all operations. The builder and the checker both go through yk__infer. */
#include "core/graph/body.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool yk__shape_bad(yk__shape *s, const char *fmt, ...)
{
    char text[256], list[384], one[96];
    size_t at = 0;
    va_list ap;
    if (s->err->status)
        return false;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    list[0] = 0;
    for (uint32_t i = 0; i < s->n_in && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "",
                               yk__value_shape_text(s->x[i], one, sizeof one));
    yk__fail(s->err, YK_E_ARG, "%s(%s): %s", yk__op_info_of(s->op)->name, list, text);
    return false;
}

bool yk__infer(yk__shape *s)
{
    const yk__op_info *info = yk__op_info_of(s->op);
    if (s->n_in < info->in_min || s->n_in > info->in_max)
        return yk__shape_bad(s, "has %u operands; %u to %u are needed", s->n_in, info->in_min, info->in_max);
    if (s->n_attr != info->n_attr)
        return yk__shape_bad(s, "has %u attributes; %u are needed", s->n_attr, info->n_attr);
    s->n_out = info->n_out;
    for (uint32_t i = 0; i < YK_MAX_OUTPUTS; i++)
        s->alias[i] = YK_NONE;
    return yk__op_impl_of(s->op)->infer(s);
}

void yk__shape_out(yk__shape *s, uint32_t i, uint32_t dtype, uint32_t dims, const int64_t *dim)
{
    s->out[i].dtype = (uint8_t)dtype;
    s->out[i].dims = (uint8_t)dims;
    memcpy(s->out[i].dim, dim, dims * sizeof *dim);
}

bool yk__shape_is(yk__shape *s, uint32_t operand, uint32_t dtype, uint32_t dims, const int64_t *dim)
{
    char want[160];
    yk_value v;
    const yk_value *x = s->x[operand];
    v.dtype = (uint8_t)dtype;
    v.dims = (uint8_t)dims;
    memcpy(v.dim, dim, dims * sizeof *dim);
    if (x->dtype == dtype && yk__value_same_shape(x, &v))
        return true;
    return yk__shape_bad(s, "operand %u has to be %s", operand, yk__value_shape_text(&v, want, sizeof want));
}

bool yk__shape_float(yk__shape *s, uint32_t operand)
{
    if (yk__dtype_is_float(s->x[operand]->dtype))
        return true;
    return yk__shape_bad(s, "operand %u has to be of a float type", operand);
}

bool yk__shape_stat(yk__shape *s, uint32_t operand, uint32_t like, int64_t n)
{
    uint32_t dtype = s->x[operand]->dtype == YK_F64 && like == YK_F64 ? YK_F64 : YK_F32;
    return yk__shape_is(s, operand, dtype, 1, &n);
}

uint32_t yk__shape_dtype(yk__shape *s, uint32_t own)
{
    return s->want_dtype == YK_F32 && yk__dtype_is_float(own) ? YK_F32 : own;
}

int64_t yk__window_out(int64_t in, int64_t k, int64_t stride, int64_t pad, int64_t dil)
{
    const int64_t most = 1 << 28; /* products of two results stay below 2^63 */
    int64_t span;
    if (k < 1 || stride < 1 || dil < 1 || pad < 0 || in < 0 || k > most || stride > most || dil > most || pad > most ||
        in > most)
        return -1;
    span = dil * (k - 1) + 1;
    return in + 2 * pad < span ? -1 : (in + 2 * pad - span) / stride + 1;
}

/* ---- One line per operation ---- */

/* enumerator, inference, body, evaluation, layout */
#define IMPL_TABLE(X)                                                                    \
    X(NEG, unary, none, unary, BROADCAST)                                                \
    X(ABS, unary, none, unary, BROADCAST)                                                \
    X(EXP, unary, none, unary, BROADCAST)                                                \
    X(LOG, unary, none, unary, BROADCAST)                                                \
    X(SQRT, unary, none, unary, BROADCAST)                                               \
    X(RSQRT, unary, none, unary, BROADCAST)                                              \
    X(RECIP, unary, none, unary, BROADCAST)                                              \
    X(TANH, unary, none, unary, BROADCAST)                                               \
    X(ERF, unary, none, unary, BROADCAST)                                                \
    X(CAST, cast, none, cast, BROADCAST)                                                 \
    X(ADD, binary, none, binary, BROADCAST)                                              \
    X(SUB, binary, none, binary, BROADCAST)                                              \
    X(MUL, binary, none, binary, BROADCAST)                                              \
    X(DIV, binary, none, binary, BROADCAST)                                              \
    X(MAX, binary, none, binary, BROADCAST)                                              \
    X(MIN, binary, none, binary, BROADCAST)                                              \
    X(LT, compare, none, binary, BROADCAST)                                              \
    X(EQ, compare, none, binary, BROADCAST)                                              \
    X(SELECT, select, none, select, BROADCAST)                                           \
    X(FILL, fill, none, fill, BROADCAST)                                                 \
    X(IOTA, iota, none, iota, DENSE)                                                     \
    X(RNG, rng, none, rng, DENSE)                                                        \
    X(SUM, reduce, none, reduce, DENSE)                                                  \
    X(RMAX, reduce, none, reduce, DENSE)                                                 \
    X(ARGMAX, argmax, none, argmax, DENSE)                                               \
    X(COPY, copy, none, copy, ANY)                                                       \
    X(GATHER, gather, none, gather, DENSE)                                               \
    X(SCATTER_ADD, scatter_add, none, scatter_add, DENSE)                                \
    X(UNFOLD, unfold, none, unfold, DENSE)                                               \
    X(FOLD, fold, none, fold, DENSE)                                                     \
    X(DOT, dot, none, dot, DOT)                                                          \
    X(MAP, map, none, none, BROADCAST)                                                   \
    X(DOT_MAP, map, none, none, ANY)                                                     \
    X(MAP_SUM, map, none, none, BROADCAST)                                               \
    X(CONV2D, conv2d, conv2d, conv2d, DENSE)                                             \
    X(CONV2D_DX, conv2d_dx, conv2d_dx, conv2d, DENSE)                                    \
    X(CONV2D_DW, conv2d_dw, conv2d_dw, conv2d, DENSE)                                    \
    X(MAX_POOL, max_pool, max_pool, max_pool, DENSE)                                     \
    X(MAX_POOL_BWD, max_pool_bwd, max_pool_bwd, max_pool, DENSE)                         \
    X(AVG_POOL, avg_pool, avg_pool, avg_pool, DENSE)                                     \
    X(AVG_POOL_BWD, avg_pool_bwd, avg_pool_bwd, avg_pool, DENSE)                         \
    X(BN_STATS, bn_stats, bn_stats, bn_stats, DENSE)                                     \
    X(LAYER_NORM, layer_norm, layer_norm, layer_norm, DENSE)                             \
    X(LAYER_NORM_BWD, layer_norm_bwd, layer_norm_bwd, layer_norm_bwd, DENSE)             \
    X(SOFTMAX, softmax, softmax, softmax, DENSE)                                         \
    X(SOFTMAX_BWD, softmax_bwd, softmax_bwd, softmax_bwd, DENSE)                         \
    X(ATTENTION, attention, attention, attention, ATTENTION)                             \
    X(ATTENTION_BWD, attention_bwd, attention_bwd, attention_bwd, ATTENTION)             \
    X(CROSS_ENTROPY, cross_entropy, cross_entropy, cross_entropy, DENSE)                 \
    X(CROSS_ENTROPY_BWD, cross_entropy_bwd, cross_entropy_bwd, cross_entropy_bwd, DENSE) \
    X(DROPOUT, dropout, dropout, dropout, DENSE)                                         \
    X(RELU, unary, relu, unary, BROADCAST)                                               \
    X(RELU_BWD, float2, relu_bwd, unary_bwd, BROADCAST)                                  \
    X(GELU, unary, gelu, unary, BROADCAST)                                               \
    X(GELU_BWD, float2, gelu_bwd, unary_bwd, BROADCAST)                                  \
    X(GELU_TANH, unary, gelu_tanh, unary, BROADCAST)                                     \
    X(GELU_TANH_BWD, float2, gelu_tanh_bwd, unary_bwd, BROADCAST)                        \
    X(SILU, unary, silu, unary, BROADCAST)                                               \
    X(SILU_BWD, float2, silu_bwd, unary_bwd, BROADCAST)                                  \
    X(SIGMOID, unary, sigmoid, unary, BROADCAST)                                         \
    X(SIGMOID_BWD, float2, sigmoid_bwd, unary_bwd, BROADCAST)                            \
    X(TANH_BWD, float2, tanh_bwd, unary_bwd, BROADCAST)                                  \
    X(ADAM_STEP, adam_step, adam_step, adam_step, DENSE)                                 \
    X(SGD_STEP, sgd_step, sgd_step, sgd_step, DENSE)                                     \
    X(GRAD_STATS, grad_stats, grad_stats, grad_stats, DENSE)                             \
    X(ALL_STATS, bn_stats, none, bn_stats, DENSE)                                        \
    X(ALL_REDUCE, all_reduce, none, copy, DENSE)

/* `none` is NULL: a primitive has no body, and a map runs its own. */
#define yk__body_none NULL
#define yk__eval_none NULL

static const yk__op_impl impls[YK_OP_COUNT] = {
#define X(e, infer, body, eval, layout) \
    [YK_OP_##e] = {yk__infer_##infer, yk__body_##body, yk__eval_##eval, YK_LAYOUT_##layout},
    IMPL_TABLE(X)
#undef X
};

const yk__op_impl *yk__op_impl_of(uint32_t op)
{
    return op < YK_OP_COUNT ? &impls[op] : NULL;
}
