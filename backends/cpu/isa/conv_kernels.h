/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of convolutions and pools. Some products read their operands in an image, not packed: through taps (kern_gemm.inc), on blocks of
 * channels (kern_block.inc), with positions in the lanes (kern_span.inc). The table also has Winograd's transforms (kern_wino.inc) and
 * windows (kern_pool.inc). Words are 32 bits: a number of f32 or a pair of bf16. Included from conv/.
 */
#ifndef YOKE_BACKENDS_CPU_ISA_CONV_KERNELS_H
#define YOKE_BACKENDS_CPU_ISA_CONV_KERNELS_H

#include "backends/cpu/isa/isa.h"

/* C[mr, 2 vectors] (+)= A B, A packed as for a product. Row k of B is at b + off[k] words, its second vector b_stride words on. */
typedef void (*cpu_taps_kernel)(size_t kc, const void *a, const void *b, size_t b_stride, const int32_t *off, float *c, size_t ldc,
                                int add);

/* C (+)= sum over parts s of a block, its first `words` words. A's rows are at a + off[s], a vector of words apart; vectors of C are
 * c_stride words apart. */
typedef void (*cpu_rows_kernel)(size_t parts, size_t words, const void *a, const int32_t *off, const void *b, float *c,
                                size_t c_stride, int add);

/* C[vw, vectors] (+)= sum over lines of n positions of a block of A times vectors of B. These vectors are b_stride apart. a_line, b_line:
 * words from one line to the next. */
typedef void (*cpu_outer_kernel)(size_t lines, size_t n, const float *a, size_t a_line, const float *b, size_t b_line,
                                 size_t b_stride, float *c, size_t ldc, int add);

/* Lines of positions: how many, words of each; bytes from one to the next, and from one of G's results to the next. */
typedef struct cpu_spans {
    size_t lines, words, x_row_pitch, g_row_pitch, g_plane_pitch;
} cpu_spans;

/* C[row, result] += a vector of sums: X's rows at x[i], C's rows ldc numbers apart. */
typedef void (*cpu_spans_kernel)(const cpu_spans *a, const char *const *x, const char *g, float *c, size_t ldc);

typedef struct cpu_conv_kernels {
    const cpu_taps_kernel *taps;         /* [rows] */
    const cpu_rows_kernel (*rows)[3];    /* [rows][vectors] */
    const cpu_outer_kernel *outer;       /* [vectors] */
    const cpu_spans_kernel (*spans)[2];  /* [rows, at most span_rows][0: one result, 1: four] */
    int span_rows;
} cpu_conv_kernels;

/* Winograd's transforms of tiles of 6 x 6. Element e of a transformed tile lies at e * stride. */
typedef struct cpu_wino_kernels {
    void (*in)(float *v, size_t stride, const float *const *row, int64_t x, int64_t width, size_t tiles);
    void (*grad)(float *v, size_t stride, const float *const *row, int64_t x, int64_t width, size_t tiles);
    void (*out)(float *y, size_t row_stride, const float *m, size_t stride, size_t tiles);
    void (*taps)(float *u, size_t stride, const float *g, bool flip);
    void (*sums)(float *g, const float *m, size_t stride);
} cpu_wino_kernels;

/* Windows of a row that are cut alike. Distances in words. */
typedef struct cpu_window {
    size_t rows, cols, row_stride, col_stride; /* terms, and how far they are apart */
    size_t stride;                             /* from one window to the next */
    float count;                               /* divisor of a mean */
} cpu_window;

typedef struct cpu_pool_kernels {
    void (*max)(float *y, const float *x, const cpu_window *w, size_t n);
    void (*max_bwd)(float *sum, const float *x, const float *g, const cpu_window *w, size_t n); /* sum += */
    void (*avg)(float *y, const float *x, const cpu_window *w, size_t n);
    void (*avg_bwd)(float *sum, const float *g, const cpu_window *w, size_t n);
} cpu_pool_kernels;

/* isa_avx512.c; the larger sets use it too */
extern const cpu_conv_kernels cpu_avx512_f32_conv;
extern const cpu_wino_kernels cpu_avx512_wino_kernels;
extern const cpu_pool_kernels cpu_avx512_pool_kernels;

#endif
