/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of core/graph: for each op its inference, body, evaluation and layout, and the helpers under the
 * builder.
 */
#ifndef YOKE_CORE_GRAPH_INTERNAL_H
#define YOKE_CORE_GRAPH_INTERNAL_H

#include "core/graph/graph.h"

#define YK_MAX_OPERANDS 24
#define YK_MAX_OUTPUTS 4

/* One call of a shape inference: operands and attributes in, outputs or an error out. Only dtype, dims and dim of out[]
 * are filled. alias[i]: the operand whose memory output i uses, or YK_NONE. */
typedef struct yk__shape {
    uint32_t op, n_in, n_attr, n_out;
    const yk_value *x[YK_MAX_OPERANDS];
    const int64_t *attr;
    uint32_t want_dtype; /* requested dtype; YK_DTYPE_COUNT: the op's own rule */
    uint32_t dims; /* requested shape, for an op whose operands do not determine it; dim NULL: none given */
    const int64_t *dim;
    yk_value out[YK_MAX_OUTPUTS];
    uint32_t alias[YK_MAX_OUTPUTS];
    yk_error *err;
} yk__shape;

typedef bool yk__infer_fn(yk__shape *s);

/* Strides that an op accepts. */
typedef enum yk__layout {
    YK_LAYOUT_DENSE,     /* row-major */
    YK_LAYOUT_BROADCAST, /* also stride 0 */
    YK_LAYOUT_DOT,       /* the last two may be swapped, the batch broadcast */
    YK_LAYOUT_ATTENTION, /* q, k, v, out, gout: any strides but a dense last dimension; the planner copies for a plugin
                            that does not claim them */
    YK_LAYOUT_ANY        /* copy */
} yk__layout;

/* The composite to replace: operands in `in` (values of g), outputs to `out`. x and y hold copies of their shapes.
 */
typedef struct yk__inline {
    yk__graph *g;
    uint32_t op, n_in, n_out, n_attr;
    const yk__vid *in;
    yk__vid out[YK_MAX_OUTPUTS];
    const int64_t *attr;
    const yk_value *x[YK_MAX_OPERANDS], *y[YK_MAX_OUTPUTS]; /* shapes in the source graph */
} yk__inline;

typedef void yk__body_fn(yk__inline *b); /* failures stay in g->error */

/* One node in double precision: all operands dense row-major in x[], results into y[]. */
typedef struct yk__eval {
    uint32_t op, n_in, n_out;
    const yk_value *x_value[YK_MAX_OPERANDS], *y_value[YK_MAX_OUTPUTS]; /* dims and dtypes; strides mean nothing here */
    double *x[YK_MAX_OPERANDS], *y[YK_MAX_OUTPUTS];
    const int64_t *attr;
    yk_error *err;
} yk__eval;

typedef yk_status yk__eval_fn(yk__eval *e);

/* ---- Parts of each op ----
 *
 * Enumerator, inference (shape_*.c), body (body*.c), evaluation (eval_*.c), layout of operands; `none`: a primitive has no body, and
 * a map runs its own. The files that run the parts make an array each of their column. */
#define YK_IMPL_TABLE(X)                                                                 \
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
    X(ALL_REDUCE, all_reduce, none, copy, DENSE)                                         \
    X(ROUND8, round8, round8, round8, DENSE)

/* ---- Values (value.c) */
void yk__value_dense_strides(yk_value *v);
bool yk__value_is_dot_operand(const yk_value *v);
/* The layout (yk__layout) that operand i of an op must have. */
uint32_t yk__operand_layout(uint32_t op, uint32_t i, const int64_t *attr);
bool yk__value_fits_layout(const yk_value *v, uint32_t layout);
/* True if v is a matrix of 16 bits whose rows (columns if transposed) are dense, side by side or further apart. */
bool yk__value_is_padded(const yk_value *v, bool transposed);
/* True if every offset of a dim/stride pair lies inside the dense value `base` of the same type. */
bool yk__value_view_inside(const yk_value *v, const yk_value *base);
/* Stores the first failure of a builder call; returns YK_NONE. */
yk__vid yk__graph_fail(yk__graph *g, yk_status status, const char *fmt, ...) YK_PRINTF(3, 4);

/* ---- Inference (shape_*.c) */
bool yk__shape_bad(yk__shape *s, const char *fmt, ...) YK_PRINTF(2, 3); /* always false */
/* Runs the table's checks and the op's inference. */
bool yk__infer(yk__shape *s);

yk__infer_fn yk__infer_unary, yk__infer_cast, yk__infer_binary, yk__infer_compare, yk__infer_select, yk__infer_float2;
yk__infer_fn yk__infer_fill, yk__infer_iota, yk__infer_rng, yk__infer_reduce, yk__infer_argmax, yk__infer_copy;
yk__infer_fn yk__infer_gather, yk__infer_scatter_add, yk__infer_unfold, yk__infer_fold, yk__infer_dot;
yk__infer_fn yk__infer_map, yk__infer_conv2d, yk__infer_conv2d_dx, yk__infer_conv2d_dw, yk__infer_max_pool;
yk__infer_fn yk__infer_max_pool_bwd, yk__infer_avg_pool, yk__infer_avg_pool_bwd, yk__infer_bn_stats;
yk__infer_fn yk__infer_all_reduce;
yk__infer_fn yk__infer_layer_norm, yk__infer_layer_norm_bwd, yk__infer_softmax, yk__infer_softmax_bwd;
yk__infer_fn yk__infer_attention, yk__infer_attention_bwd, yk__infer_cross_entropy, yk__infer_cross_entropy_bwd;
yk__infer_fn yk__infer_dropout, yk__infer_adam_step, yk__infer_sgd_step, yk__infer_grad_stats, yk__infer_round8;

/* ---- Evaluation (eval_*.c) */
yk__eval_fn yk__eval_unary, yk__eval_unary_bwd, yk__eval_cast, yk__eval_copy, yk__eval_binary, yk__eval_select;
yk__eval_fn yk__eval_fill, yk__eval_iota, yk__eval_rng, yk__eval_reduce, yk__eval_argmax, yk__eval_gather;
yk__eval_fn yk__eval_scatter_add, yk__eval_unfold, yk__eval_fold, yk__eval_dot, yk__eval_conv2d, yk__eval_max_pool;
yk__eval_fn yk__eval_avg_pool, yk__eval_bn_stats, yk__eval_layer_norm, yk__eval_layer_norm_bwd, yk__eval_softmax;
yk__eval_fn yk__eval_softmax_bwd, yk__eval_attention, yk__eval_attention_bwd, yk__eval_cross_entropy;
yk__eval_fn yk__eval_cross_entropy_bwd, yk__eval_dropout, yk__eval_adam_step, yk__eval_sgd_step, yk__eval_grad_stats, yk__eval_round8;
/* Random number e of n, spread over `rows`, of a stream (rng in plugin.h). */
double yk__eval_uniform(const double *key, const double *rows, int64_t n_rows, int64_t n, uint32_t stream, int64_t e);
/* Reads and writes one element of a type in memory. */
double yk__eval_load(uint32_t dtype, const void *p);
void yk__eval_store(uint32_t dtype, void *p, double x);

/* Helpers of the inferences. */
bool yk__shape_is(yk__shape *s, uint32_t operand, uint32_t dtype, uint32_t dims, const int64_t *dim);
bool yk__shape_float(yk__shape *s, uint32_t operand);
bool yk__shape_stat(yk__shape *s, uint32_t operand, uint32_t like, int64_t n); /* f32 [n]; f64 beside f64 */
void yk__shape_out(yk__shape *s, uint32_t i, uint32_t dtype, uint32_t dims, const int64_t *dim);
uint32_t yk__shape_dtype(yk__shape *s, uint32_t own); /* own, or f32 if requested */
/* Length of an output of a window op; -1 if the window does not fit. */
int64_t yk__window_out(int64_t in, int64_t k, int64_t stride, int64_t pad, int64_t dil);

#endif
