/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels on n contiguous numbers: conversions (kern_convert.inc), sums, exponentials, dropout (kern_rows.inc). */
#ifndef YOKE_BACKENDS_CPU_ISA_VEC_KERNELS_H
#define YOKE_BACKENDS_CPU_ISA_VEC_KERNELS_H

#include "backends/cpu/isa/isa.h"

typedef struct cpu_vec_kernels {
    void (*to_f32)(float *d, const void *s, int dtype, size_t n); /* f32, f16, bf16 */
    void (*from_f32)(void *d, const float *s, int dtype, size_t n);
    void (*fill32)(void *d, uint32_t v, size_t n);
    void (*add)(float *d, const void *x, size_t n); /* d += x, both f32 */
    void (*drain)(double *d, float *x, size_t n);   /* d += x, then x = 0 */
    void (*scale)(float *d, const float *x, float a, size_t n);
    float (*exp_scaled)(float *y, const float *x, float a, float m, size_t n);             /* y = exp(a x - m), and their sum; y may be x */
    void (*softmax_grad)(float *gx, const float *gy, const float *y, float s, size_t n);   /* y (gy - s) */
    void (*dropout)(float *y, const float *x, const float *u, float p, float q, size_t n); /* u >= p ? x / q : 0 */
    /* pixels of a vector, a plane in each lane, rounded to planes of bf16, `stride` numbers apart */
    void (*planes_out)(uint16_t *to, size_t stride, const float *from, size_t pixels, size_t planes);
} cpu_vec_kernels;

/* Random numbers of Philox, by row of the stream; first: the number in the row. */
typedef struct cpu_random_kernels {
    void (*uniform)(float *d, const uint32_t key[3], uint32_t stream, uint64_t first, size_t n);
    /* from uniform's numbers: all bits set if u 2^24 >= least, else none */
    void (*keep)(int32_t *d, const uint32_t key[3], uint32_t stream, uint64_t first, int32_t least, size_t n);
} cpu_random_kernels;

#endif
