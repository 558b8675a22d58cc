/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that lay data out for products: transposition, panels, planes of images (kern_pack.inc). */
#ifndef YOKE_BACKENDS_CPU_ISA_PACK_KERNELS_H
#define YOKE_BACKENDS_CPU_ISA_PACK_KERNELS_H

#include "backends/cpu/isa/isa.h"

typedef struct cpu_pack_kernels {
    /* dst[c*ldd + r] = word c of row r. Rows of src are `pitch` bytes apart. Rows of dst are written in order and may run over by vw - 1
     * words. */
    void (*transpose)(uint32_t *dst, size_t ldd, const void *src, size_t pitch, size_t rows, size_t cols);
    /* the same of bf16, widened to f32 */
    void (*transpose_bf16)(uint32_t *dst, size_t ldd, const void *src, size_t pitch, size_t rows, size_t cols);
    /* At most vw rows of words, each a pair of a number of both operands. The second operand has `n_second` rows, then zeros. Source rows
     * are `stride` numbers apart, rows of dst are whole vectors. */
    void (*transpose_pairs)(uint32_t *dst, size_t ldd, const uint16_t *first, const uint16_t *second, size_t stride, size_t rows,
                            size_t n_second, size_t cols);
    /* a row of n words to panels of w words, `stride` words apart, the same slack */
    void (*strips)(uint32_t *dst, size_t w, size_t stride, const uint32_t *row, size_t n);
    /* two rows of n 16-bit numbers, interleaved, to panels; r1 NULL: zeros */
    void (*strip_pairs)(uint32_t *dst, size_t w, size_t stride, const uint16_t *r0, const uint16_t *r1, size_t n);
    /* pairs of two rows of n 16-bit numbers (r1 NULL: zeros), separated into pairs of even numbers and of odd ones */
    void (*split_pairs)(uint32_t *even, uint32_t *odd, const uint16_t *r0, const uint16_t *r1, size_t n);
    void (*spread)(float *to, size_t stride, const float *from, size_t from_stride, size_t n); /* n vectors, copied */
    /* planes of bf16, `stride` numbers apart, to pixels of a vector, a plane in each lane; vec_kernels.h has the way back */
    void (*planes_in)(float *to, const uint16_t *from, size_t stride, size_t planes, size_t pixels);
} cpu_pack_kernels;

extern const cpu_pack_kernels cpu_avx512_pack_kernels; /* isa_avx512.c; the larger sets use it too */

#endif
