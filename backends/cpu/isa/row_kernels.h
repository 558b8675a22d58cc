/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels on a row of numbers of one type, in place: kern_rows.inc for f32, kern_bf16_rows.inc for bf16. */
#ifndef YOKE_BACKENDS_CPU_ISA_ROW_KERNELS_H
#define YOKE_BACKENDS_CPU_ISA_ROW_KERNELS_H

#include "backends/cpu/isa/isa.h"

/* The gradient of a row of logits: factor exp(x - shift) - uniform w, less `one_hot` at `at`. */
typedef struct cpu_loss_row {
    float shift, factor, uniform, one_hot;
    const float *w; /* NULL means ones */
    size_t at;      /* beyond the row for none */
} cpu_loss_row;

/* The 8-bit format for x. largest: its largest number, least: its least normal one, both times `up`; down: 1 / up. */
typedef struct cpu_round8 {
    float up, down, largest, least;
    float shift; /* 2^(bits that f32 has more) */
} cpu_round8;

/* x, y, gx, gy, a, b have the row's type; every other operand is f32. */
typedef struct cpu_row_kernels {
    float (*sum)(const void *x, size_t n);
    float (*max)(const void *x, size_t n);
    float (*dot)(const void *a, const void *b, size_t n);
    void (*add)(float *d, const void *x, size_t n);                              /* d += x */
    void (*vmax)(float *d, const void *x, size_t n);                             /* d = max(d, x) */
    float (*exp_sum)(const void *x, float m, size_t n);                          /* sum of exp(x - m) */
    void (*moments)(const void *x, float shift, size_t n, float *s1, float *s2); /* sums of x-shift and its square */
    void (*norm)(void *y, const void *x, float mean, float rstd, const float *g, const float *b, size_t n);
    /* sums over the row of d = gy*g and of d*xhat */
    void (*norm_sums)(const void *gy, const void *x, const float *g, float mean, float rstd, size_t n, float *s1, float *s2);
    void (*norm_bwd)(void *gx, const void *gy, const void *x, const float *g, float mean, float rstd, float m1, float m2,
                     float *gg, float *gb, size_t n);
    void (*softmax)(void *y, const void *x, float *e, int log, size_t n); /* e: as much as a row of f32 */
    void (*softmax_bwd)(void *gx, const void *gy, const void *y, int log, size_t n);
    void (*loss_grad)(void *y, const void *x, const cpu_loss_row *a, size_t n);
    float (*weigh)(const void *x, const float *w, size_t n); /* sum of w x */
    int32_t (*size)(const void *x, size_t n);                /* the bits of the largest |x| in f32; a NaN's bits are larger than any
                                                              * number's */
    void (*round8)(void *y, const void *x, const cpu_round8 *to, size_t n); /* y may be x */
} cpu_row_kernels;

static inline const cpu_row_kernels *cpu_rows_of(const cpu_isa *isa, int dtype)
{
    return isa->rows + (dtype == YK_BF16);
}

#endif
