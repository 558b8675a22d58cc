/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row per operation: its parts and its traits. YK_OP_TABLE (yoke/plugin.h) has the facts that plugins know. The files that use a
 * column make an array of it. A row that lacks a column does not compile, nor does an operation that lacks a row (op_names.c).
 */
#ifndef YOKE_CORE_GRAPH_OP_TABLE_H
#define YOKE_CORE_GRAPH_OP_TABLE_H

#include <yoke/plugin.h>

/* Strides that an op accepts. */
typedef enum yk__layout {
    YK_LAYOUT_DENSE,     /* row-major */
    YK_LAYOUT_BROADCAST, /* also stride 0 */
    YK_LAYOUT_DOT,       /* the last two may be swapped, the batch broadcast */
    YK_LAYOUT_ANY,       /* copy */
    /* From here on the layout differs by operand. */
    YK_LAYOUT_ATTENTION, /* q, k, v, out, gout: any strides but a dense last dimension; the planner copies for a plugin
                            that does not claim them */
    YK_LAYOUT_ATTENTION_BWD, /* a column's word, as the next one: yk__operand_layout never returns it */
    YK_LAYOUT_DOT_MAP
} yk__layout;

/* Elementwise operations. */
typedef enum yk__op_map {
    YK_MAP_NO,
    YK_MAP_BODY, /* only inside the body of a map, beside operands of other shapes (dropout) */
    YK_MAP_MAP   /* each element of the result is a function of the same element of each operand, or a constant */
} yk__op_map;

/* Backward computes the result again instead of reading a stored one (core/plan/recompute.c). */
typedef enum yk__op_cheap {
    YK_CHEAP_NO,
    YK_CHEAP_CAST, /* in another format; a parameter's only where memory is short */
    YK_CHEAP_COPY, /* in another order: a copy without a base */
    YK_CHEAP_AGAIN /* one pass over memory, unless the request keeps cheap values */
} yk__op_cheap;

/* Elementwise operations that are linear, and cost as little as a read. */
typedef enum yk__op_linear {
    YK_LINEAR_NO,
    YK_LINEAR_SAME,  /* the operand itself, in another type */
    YK_LINEAR_SUM,   /* a sum or a difference of the operands */
    YK_LINEAR_SCALE  /* one operand times the other, or times -1 */
} yk__op_linear;

/* Rows that a result follows from, in a job of several ranks. */
typedef enum yk__op_ranks {
    YK_RANKS_OWN, /* this rank's rows: ranks may differ in them (decision 0016), and a rank without rows has nothing to run */
    YK_RANKS_ALL  /* rows of all ranks, who run the operation together */
} yk__op_ranks;

/*
 * The columns:
 *   1  the enumerator without YK_OP_
 *   2  inference, yk__infer_* (shape_*.c, round8.c)
 *   3  body in primitives, yk__body_* (body*.c); none: a primitive has no body, and a map runs its own
 *   4  evaluation in double, yk__eval_* (eval_*.c); none: a map, evaluated by its own body
 *   5  derivative, yk__rule_* (core/grad/rules_*.c); body: the body's; none: no gradient passes comparisons, indices and constants;
 *      in_place: the operation overwrites its operands, and a gradient through it is an error
 *   6  layout of its operands, yk__layout
 *   7  bit mask of the attributes that hold a double
 *   8  yk__op_map
 *   9  yk__op_cheap
 *  10  yk__op_linear
 *  11  yk__op_ranks
 *  12  backward composite of x and gy for an activation of x, without YK_OP_; NONE for any other operation
 */
#define YK_IMPL_TABLE(X)                                                                                                 \
    X(NEG, unary, none, neg, neg, BROADCAST, 0, MAP, NO, SCALE, OWN, NONE)                                               \
    X(ABS, unary, none, abs, abs, BROADCAST, 0, MAP, NO, NO, OWN, NONE)                                                  \
    X(EXP, unary, none, exp, exp, BROADCAST, 0, MAP, NO, NO, OWN, NONE)                                                  \
    X(LOG, unary, none, log, log, BROADCAST, 0, MAP, NO, NO, OWN, NONE)                                                  \
    X(SQRT, unary, none, sqrt, sqrt, BROADCAST, 0, MAP, NO, NO, OWN, NONE)                                               \
    X(RSQRT, unary, none, rsqrt, rsqrt, BROADCAST, 0, MAP, NO, NO, OWN, NONE)                                            \
    X(RECIP, unary, none, recip, recip, BROADCAST, 0, MAP, NO, NO, OWN, NONE)                                            \
    X(TANH, unary, none, tanh, tanh, BROADCAST, 0, MAP, NO, NO, OWN, NONE)                                               \
    X(ERF, unary, none, erf, erf, BROADCAST, 0, MAP, NO, NO, OWN, NONE)                                                  \
    X(CAST, cast, none, cast, cast, BROADCAST, 0, MAP, CAST, SAME, OWN, NONE)                                            \
    X(ADD, binary, none, add, add, BROADCAST, 0, MAP, NO, SUM, OWN, NONE)                                                \
    X(SUB, binary, none, sub, sub, BROADCAST, 0, MAP, NO, SUM, OWN, NONE)                                                \
    X(MUL, binary, none, mul, mul, BROADCAST, 0, MAP, NO, SCALE, OWN, NONE)                                              \
    X(DIV, binary, none, div, div, BROADCAST, 0, MAP, NO, NO, OWN, NONE)                                                 \
    X(MAX, binary, none, max, extreme, BROADCAST, 0, MAP, NO, NO, OWN, NONE)                                             \
    X(MIN, binary, none, min, extreme, BROADCAST, 0, MAP, NO, NO, OWN, NONE)                                             \
    X(LT, compare, none, lt, none, BROADCAST, 0, MAP, NO, NO, OWN, NONE)                                                 \
    X(EQ, compare, none, eq, none, BROADCAST, 0, MAP, NO, NO, OWN, NONE)                                                 \
    X(SELECT, select, none, select, select, BROADCAST, 0, MAP, NO, NO, OWN, NONE)                                        \
    X(FILL, fill, none, fill, none, BROADCAST, 1, MAP, NO, NO, OWN, NONE)                                                \
    X(IOTA, iota, none, iota, none, DENSE, 0, NO, NO, NO, OWN, NONE)                                                     \
    X(RNG, rng, none, rng, none, DENSE, 0, NO, NO, NO, OWN, NONE)                                                        \
    X(SUM, reduce, none, reduce, sum, DENSE, 0, NO, NO, NO, OWN, NONE)                                                   \
    X(RMAX, reduce, none, reduce, rmax, DENSE, 0, NO, NO, NO, OWN, NONE)                                                 \
    X(ARGMAX, argmax, none, argmax, none, DENSE, 0, NO, NO, NO, OWN, NONE)                                               \
    X(COPY, copy, none, copy, copy, ANY, 0, NO, COPY, NO, OWN, NONE)                                                     \
    X(GATHER, gather, none, gather, gather, DENSE, 0, NO, NO, NO, OWN, NONE)                                             \
    X(SCATTER_ADD, scatter_add, none, scatter_add, scatter_add, DENSE, 0, NO, NO, NO, OWN, NONE)                         \
    X(UNFOLD, unfold, none, unfold, unfold, DENSE, 1 << 8, NO, NO, NO, OWN, NONE)                                        \
    X(FOLD, fold, none, fold, fold, DENSE, 0, NO, NO, NO, OWN, NONE)                                                     \
    X(DOT, dot, none, dot, dot, DOT, 0, NO, NO, NO, OWN, NONE)                                                           \
    X(MAP, map, none, none, body, BROADCAST, 0, NO, NO, NO, OWN, NONE)                                                   \
    X(DOT_MAP, map, none, none, body, DOT_MAP, 0, NO, NO, NO, OWN, NONE)                                                 \
    X(MAP_SUM, map, none, none, body, BROADCAST, 0, NO, NO, NO, OWN, NONE)                                               \
    X(CONV2D, conv2d, conv2d, conv2d, conv2d, DENSE, 0, NO, NO, NO, OWN, NONE)                                           \
    X(CONV2D_DX, conv2d_dx, conv2d_dx, conv2d, conv2d_dx, DENSE, 0, NO, NO, NO, OWN, NONE)                               \
    X(CONV2D_DW, conv2d_dw, conv2d_dw, conv2d, conv2d_dw, DENSE, 0, NO, NO, NO, OWN, NONE)                               \
    X(MAX_POOL, max_pool, max_pool, max_pool, max_pool, DENSE, 0, NO, NO, NO, OWN, NONE)                                 \
    X(MAX_POOL_BWD, max_pool_bwd, max_pool_bwd, max_pool, body, DENSE, 0, NO, NO, NO, OWN, NONE)                         \
    X(AVG_POOL, avg_pool, avg_pool, avg_pool, avg_pool, DENSE, 0, NO, NO, NO, OWN, NONE)                                 \
    X(AVG_POOL_BWD, avg_pool_bwd, avg_pool_bwd, avg_pool, avg_pool_bwd, DENSE, 0, NO, NO, NO, OWN, NONE)                 \
    X(BN_STATS, bn_stats, bn_stats, bn_stats, bn_stats, DENSE, 0, NO, NO, NO, OWN, NONE)                                 \
    X(LAYER_NORM, layer_norm, layer_norm, layer_norm, layer_norm, DENSE, 1, NO, AGAIN, NO, OWN, NONE)                    \
    X(LAYER_NORM_BWD, layer_norm_bwd, layer_norm_bwd, layer_norm_bwd, body, DENSE, 1, NO, NO, NO, OWN, NONE)             \
    X(SOFTMAX, softmax, softmax, softmax, softmax, DENSE, 0, NO, NO, NO, OWN, NONE)                                      \
    X(SOFTMAX_BWD, softmax_bwd, softmax_bwd, softmax_bwd, body, DENSE, 0, NO, NO, NO, OWN, NONE)                         \
    X(ATTENTION, attention, attention, attention, attention, ATTENTION, 6, NO, NO, NO, OWN, NONE)                        \
    X(ATTENTION_BWD, attention_bwd, attention_bwd, attention_bwd, body, ATTENTION_BWD, 6, NO, NO, NO, OWN, NONE)         \
    X(CROSS_ENTROPY, cross_entropy, cross_entropy, cross_entropy, cross_entropy, DENSE, 2, NO, NO, NO, OWN, NONE)        \
    X(CROSS_ENTROPY_BWD, cross_entropy_bwd, cross_entropy_bwd, cross_entropy_bwd, body, DENSE, 2, NO, NO, NO, OWN, NONE) \
    X(DROPOUT, dropout, dropout, dropout, dropout, DENSE, 1, BODY, NO, NO, OWN, NONE)                                    \
    X(RELU, unary, relu, relu, activation, BROADCAST, 0, MAP, NO, NO, OWN, RELU_BWD)                                     \
    X(RELU_BWD, float2, relu_bwd, relu_bwd, body, BROADCAST, 0, MAP, NO, NO, OWN, NONE)                                  \
    X(GELU, unary, gelu, gelu, activation, BROADCAST, 0, MAP, AGAIN, NO, OWN, GELU_BWD)                                  \
    X(GELU_BWD, float2, gelu_bwd, gelu_bwd, body, BROADCAST, 0, MAP, NO, NO, OWN, NONE)                                  \
    X(GELU_TANH, unary, gelu_tanh, gelu_tanh, activation, BROADCAST, 0, MAP, AGAIN, NO, OWN, GELU_TANH_BWD)              \
    X(GELU_TANH_BWD, float2, gelu_tanh_bwd, gelu_tanh_bwd, body, BROADCAST, 0, MAP, NO, NO, OWN, NONE)                   \
    X(SILU, unary, silu, silu, activation, BROADCAST, 0, MAP, AGAIN, NO, OWN, SILU_BWD)                                  \
    X(SILU_BWD, float2, silu_bwd, silu_bwd, body, BROADCAST, 0, MAP, NO, NO, OWN, NONE)                                  \
    X(SIGMOID, unary, sigmoid, sigmoid, sigmoid, BROADCAST, 0, MAP, NO, NO, OWN, NONE)                                   \
    X(SIGMOID_BWD, float2, sigmoid_bwd, sigmoid_bwd, body, BROADCAST, 0, MAP, NO, NO, OWN, NONE)                         \
    X(TANH_BWD, float2, tanh_bwd, tanh_bwd, body, BROADCAST, 0, MAP, NO, NO, OWN, NONE)                                  \
    X(ADAM_STEP, adam_step, adam_step, adam_step, in_place, DENSE, 0, NO, NO, NO, OWN, NONE)                             \
    X(SGD_STEP, sgd_step, sgd_step, sgd_step, in_place, DENSE, 0, NO, NO, NO, OWN, NONE)                                 \
    X(GRAD_STATS, grad_stats, grad_stats, grad_stats, body, DENSE, 0, NO, NO, NO, OWN, NONE)                             \
    X(ALL_STATS, bn_stats, none, bn_stats, bn_stats, DENSE, 0, NO, NO, NO, ALL, NONE)                                    \
    X(ALL_REDUCE, all_reduce, none, copy, all_reduce, DENSE, 0, NO, NO, NO, ALL, NONE)                                   \
    X(ROUND8, round8, round8, round8, copy, DENSE, 0, NO, NO, NO, OWN, NONE)                                             \
    X(SINH, unary, sinh, sinh, sinh, BROADCAST, 0, MAP, NO, NO, OWN, NONE)

#define YK_OP_NONE YK_OP_COUNT /* column 12: no operation */

#endif
