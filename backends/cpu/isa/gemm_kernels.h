/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Micro-kernels of matrix products, C[mr, nr] (+)= A[mr, kc] B[kc, nr] with all sums in registers (kern_gemm.inc, kern_amx.inc). kc counts
 * 32-bit words along k: numbers of f32, or pairs of bf16. There are one or two vectors of columns; each number of rows has its own kernel,
 * so that no row is computed in vain. Included from gemm/.
 */
#ifndef YOKE_BACKENDS_CPU_ISA_GEMM_KERNELS_H
#define YOKE_BACKENDS_CPU_ISA_GEMM_KERNELS_H

#include "backends/cpu/isa/isa.h"

#define CPU_UNPACKED_MR 9 /* rows at most of a kernel that reads A in place */

/* A packed: word k of row i at a[k * mr + i]. B packed: word k of column j at b[k * b_stride + j]. The first nb columns of C are written,
 * or if `add` is set added to C's numbers. The kernel fetches n_prefetch (at most kc) lines of the cache on the way, one for each word of
 * k. More at once would wait for each other. */
typedef void (*cpu_packed_kernel)(size_t kc, const void *a, const void *b, size_t b_stride, float *c, size_t ldc, size_t nb,
                                  int add, const char *const *prefetch, size_t n_prefetch);

/* C += A B with row i of A at a_row[i], not packed, a word for each k at any address. B is packed, in whole vectors of columns. */
typedef void (*cpu_unpacked_kernel)(size_t kc, const char *const *a_row, const void *b, float *c, size_t ldc);

typedef struct cpu_gemm_kernels {
    const cpu_packed_kernel (*packed)[3];     /* [rows, at most cpu_isa.mr][vectors] */
    const cpu_unpacked_kernel (*unpacked)[3]; /* [rows, at most CPU_UNPACKED_MR][vectors] */
} cpu_gemm_kernels;

/* AMX: a block of 32 x 32, A in tiles of 16 x 32 (two for each 32 of k), B a panel of pairs of k by 32 columns. Between begin and
 * end, on the same thread. */
typedef struct cpu_tile_kernels {
    void (*block)(size_t kblocks, const void *a, const void *b, float *c, size_t ldc, size_t mb, size_t nb, int add);
    void (*begin)(void);
    void (*end)(void);
} cpu_tile_kernels;

extern const cpu_gemm_kernels cpu_avx512_f32_gemm; /* isa_avx512.c; the larger sets use it too */
extern const cpu_tile_kernels cpu_amx_tiles;          /* isa_amx.c; on processors with AMX */
extern const cpu_tile_kernels cpu_amx_emulated_tiles; /* isa_amx_emu.c: tiles in memory, on any machine, for tests */

#endif
