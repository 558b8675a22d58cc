/* SPDX-License-Identifier: Apache-2.0 */
/* The bodies of composites: one function each, and their helpers. Included by core/graph alone. */
#ifndef YOKE_CORE_GRAPH_BODY_H
#define YOKE_CORE_GRAPH_BODY_H

#include "core/graph/internal.h"

/* Operand i in f32 (f64 stays f64): a composite computes wide and rounds once, at its end. */
yk__vid yk__body_widen(yk__inline *b, uint32_t i);
yk_dtype yk__body_dtype(const yk__inline *b);            /* f32, or f64 if an operand is f64 */
yk__vid yk__body_number(yk__inline *b, double value);    /* a constant of one element of that type */
void yk__body_output(yk__inline *b, uint32_t i, yk__vid v); /* output i, cast to its type */

yk__body_fn yk__body_relu, yk__body_relu_bwd, yk__body_gelu, yk__body_gelu_bwd, yk__body_gelu_tanh,
    yk__body_gelu_tanh_bwd;
yk__body_fn yk__body_silu, yk__body_silu_bwd, yk__body_sigmoid, yk__body_sigmoid_bwd, yk__body_tanh_bwd,
    yk__body_dropout;
yk__body_fn yk__body_conv2d, yk__body_conv2d_dx, yk__body_conv2d_dw, yk__body_max_pool, yk__body_max_pool_bwd;
yk__body_fn yk__body_avg_pool, yk__body_avg_pool_bwd, yk__body_bn_stats, yk__body_layer_norm, yk__body_layer_norm_bwd;
yk__body_fn yk__body_softmax, yk__body_softmax_bwd, yk__body_attention, yk__body_attention_bwd, yk__body_cross_entropy;
yk__body_fn yk__body_cross_entropy_bwd, yk__body_adam_step, yk__body_sgd_step, yk__body_grad_stats, yk__body_round8;

#endif
