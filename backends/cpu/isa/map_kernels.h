/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of elementwise programs on blocks of 32-bit elements. They are single operations (kern_map.inc; of bf16 in one pass:
 * kern_bf16.inc), batch norm's chains (kern_chain.inc), and gelu at the end of a product (kern_gelu.inc). Included from map/.
 */
#ifndef YOKE_BACKENDS_CPU_ISA_MAP_KERNELS_H
#define YOKE_BACKENDS_CPU_ISA_MAP_KERNELS_H

#include "backends/cpu/isa/isa.h"

typedef enum cpu_mapop {
    CPU_M_NEG, CPU_M_ABS, CPU_M_EXP, CPU_M_LOG, CPU_M_SQRT, CPU_M_RSQRT, CPU_M_RECIP, CPU_M_TANH, CPU_M_ERF,
    CPU_M_ADD, CPU_M_SUB, CPU_M_MUL, CPU_M_DIV, CPU_M_MAX, CPU_M_MIN, CPU_M_LT, CPU_M_EQ, CPU_M_AND, CPU_M_SELECT,
    CPU_M_INEG, CPU_M_IABS, CPU_M_IADD, CPU_M_ISUB, CPU_M_IMUL, CPU_M_IDIV, CPU_M_IMAX, CPU_M_IMIN, CPU_M_ILT, CPU_M_IEQ,
    CPU_M_F2I, CPU_M_I2F, CPU_M_F2B, CPU_M_I2B, CPU_M_I2U8, CPU_M_ROUND_BF16, CPU_M_ROUND_F16, CPU_M_MOVE,
    CPU_M_RELU, CPU_M_RELU_BWD, CPU_M_GELU, CPU_M_GELU_BWD, CPU_M_GELU_TANH, CPU_M_GELU_TANH_BWD, CPU_M_SILU,
    CPU_M_SILU_BWD, CPU_M_SIGMOID, CPU_M_SIGMOID_BWD, CPU_M_TANH_BWD,
    /* gelu and gelu_bwd of one x: bell(x); its distribution by (x, bell); the slope by (x, bell, distribution) */
    CPU_M_BELL, CPU_M_CDF, CPU_M_GELU_SLOPE,
    CPU_M_GELU_GATE, CPU_M_GELU_TANH_SLOPE, /* gelu_tanh: the factor of x; the slope by (x, gate) */
    CPU_M_FMA, CPU_M_FMA_B, CPU_M_FMA_C, CPU_M_FMA_BC, /* a*b + c; with one element for b, c, both */
    CPU_M_SPREAD,                                      /* one element for all */
    /* one element for b; in the same order, for a */
    CPU_M_ADD_S, CPU_M_SUB_S, CPU_M_MUL_S, CPU_M_DIV_S, CPU_M_MAX_S, CPU_M_MIN_S, CPU_M_LT_S, CPU_M_EQ_S,
    CPU_M_S_ADD, CPU_M_S_SUB, CPU_M_S_MUL, CPU_M_S_DIV, CPU_M_S_MAX, CPU_M_S_MIN, CPU_M_S_LT, CPU_M_S_EQ,
    CPU_M_COUNT
} cpu_mapop;

/* d = op(a, b, c) on n 32-bit elements; d may be a, b or c, unless that is one element for all */
typedef void (*cpu_map_kernel)(void *d, const void *a, const void *b, const void *c, size_t n);

/* Batch norm's chains. */
typedef enum cpu_chain_kind { CPU_CHAIN_FORWARD, CPU_CHAIN_BACKWARD, CPU_CHAIN_SUMS, CPU_CHAIN_KINDS } cpu_chain_kind;
enum { CPU_CHAIN_RELU = 1, CPU_CHAIN_ADD = 2 };

typedef struct cpu_chain {
    void *y;
    const void *x, *r, *h; /* r: residual, or the gradient; h: relu's result */
    const float *number[4];
    float *sum[2];
} cpu_chain;

typedef void (*cpu_chain_kernel)(const cpu_chain *a, size_t n);

/* gelu at the end of a product v; a result that is not wanted is NULL: forward's first, backward's second */
typedef void (*cpu_gelu_kernel)(void *const y[2], const float *v, const void *x, size_t n);

typedef struct cpu_map_kernels {
    const cpu_map_kernel *f32;                /* by cpu_mapop */
    const cpu_map_kernel *bf16;               /* the same from bf16 to bf16; NULL if there is none */
    cpu_map_kernel bf16_dropout;              /* a number, the mask of 32-bit numbers, one divisor */
    const cpu_chain_kernel (*chain)[2][2][4]; /* [kind][bf16][a number for each element][form] */
    const cpu_gelu_kernel (*gelu)[2][2];      /* [backward][tanh][bf16] */
} cpu_map_kernels;

#endif
