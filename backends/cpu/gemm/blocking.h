/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a product C[m,n] (+)= A[m,k] B[k,n] is cut so that each level of memory is used many times before it is left, with the
 * names of BLIS (Van Zee and van de Geijn 2015, after Goto and van de Geijn 2008):
 *
 *              nc                       for jc: columns in blocks of nc                                       (gemm.c: cpu_gemm_run)
 *        +------------+                   for io: rows in macro blocks of mc_outer, if sums are kept apart from C
 *     kc |  B packed  |                     for pc: k in parts of kc        pack B[kc, nc]: L3                  (pack.c)
 *        +------------+                       for ic: rows in blocks of mc  pack A[mc, kc]: L2                  (ic_loop)
 *           |nr|                                for jb: columns in blocks of nc_inner, whose panels stay in L2 (macro_kernel)
 *   kc                                            for ir: mr rows           a micro-panel of A: L1
 *  +----+  +--+-----+-----+                         for jr: nr columns      a micro-panel of B: L1               (jr_loop)
 *  | A  |  |  |     |     | mr                        micro-kernel          mr x nr sums in registers, kc rank-1 updates
 *  |pack|  +--+ C   |     |                                                                        (isa/kern_gemm.inc)
 *  | ed |  |        |     | mc
 *  +----+  +--------+-----+
 *
 * BLIS has ir inside jr; here a micro-panel of A, which is packed last, passes the panels of B of a block of 256 columns. Packed, a
 * micro-panel has k as its slow direction: word k of row i of A at k * mr + i, of column j of B at k * nr + j. k is cut by its
 * length alone, so that the bits of a sum do not depend on the rectangle of C it is computed in.
 */
#ifndef YOKE_BACKENDS_CPU_GEMM_BLOCKING_H
#define YOKE_BACKENDS_CPU_GEMM_BLOCKING_H

#include "backends/cpu/isa/isa.h"

#define CPU_GEMM_UNPACKED_MR 8 /* rows of A read in place at a time, at most */
#define CPU_GEMM_STAGE 4096 /* bytes of a staged row: 1024 f32 */
#define CPU_GEMM_TILE_ROWS 32 /* rows of an AMX block: 2 tiles of 16; it has 32 columns too */
#define CPU_GEMM_PAD 16 /* words between micro-panels. Whole pages apart, micro-panels would compete for few places of the first-level
                         * cache when a row goes to all of them. Writes beyond the end of one hit the padding, not its neighbour */
#define CPU_GEMM_PARTS 16 /* parts of k whose sums are added in f32; with more parts, sums go to double after each so many */
#define CPU_GEMM_TRANSPOSE_ROWS 16     /* rows of C transposed back at a time, ... */
#define CPU_GEMM_TRANSPOSE_COLUMNS 256 /* and columns: 16 KiB */

typedef enum cpu_gemm_mode { CPU_GEMM_F32 = CPU_WORDS_F32, CPU_GEMM_PAIR = CPU_WORDS_PAIRS, CPU_GEMM_TILE } cpu_gemm_mode;

/* Shape and blocking, chosen once. */
typedef struct cpu_gemm {
    int64_t m, n, k;
    cpu_gemm_mode mode;
    int mr, nr;          /* rows of a micro-panel of A, columns of one of B */
    int64_t kc, k_parts; /* elements of k at a time, and how many times */
    int64_t mc, nc;      /* rows of A, columns of B that are packed at a time */
    int64_t mc_outer;    /* rows whose sums are kept from one part of k to the next: the macro block */
    int64_t nc_inner;    /* columns whose micro-panels of B stay in L2 while A's pass */
    bool scratch;        /* sums are kept in scratch, not in C */
    bool transposed;     /* computes C^T: m and n, a and b are swapped; `done` gets blocks of C, at most 256 wide */
    bool totals;         /* k has so many parts that sums go to double now and then */
    size_t pack_b, acc, tmp, total; /* offsets in the worker's scratch: a at 0, then b, acc, tmp; totals of a macro block */
    size_t bytes;
} cpu_gemm;

void cpu_gemm_init(cpu_gemm *gemm, const cpu_isa *isa, int64_t m, int64_t n, int64_t k, int a_dtype, int b_dtype, bool scratch);
/* Plans C^T = B^T A^T: m, n and the types are the transposed product's; see cpu_gemm_prefers_transposed. */
void cpu_gemm_init_transposed(cpu_gemm *gemm, const cpu_isa *isa, int64_t m, int64_t n, int64_t k, int a_dtype, int b_dtype);

int64_t cpu_gemm_words(const cpu_gemm *gemm, int64_t kc); /* 32-bit words that kc elements of k take when packed */
int64_t cpu_gemm_a_panels(const cpu_gemm *gemm);          /* micro-panels of A, mr rows each */
int64_t cpu_gemm_b_panels(const cpu_gemm *gemm);          /* micro-panels of B, nr columns each */
/* Words from one micro-panel to the next; `words` of k. */
int64_t cpu_gemm_a_stride(const cpu_gemm *gemm, int64_t words);
int64_t cpu_gemm_b_stride(const cpu_gemm *gemm, int64_t words);
int cpu_gemm_unpacked_rows(const cpu_isa *isa); /* rows of A that a kernel reads in place */
/* True if scratch holds the sums of all rows of a macro block, and not of a micro-panel alone. */
bool cpu_gemm_keeps_all(const cpu_gemm *gemm);

/* How workers share `batch` products: a grid of grid_m x grid_n rectangles each; and rectangle r of the grid. */
void cpu_gemm_grid(const cpu_gemm *gemm, int64_t batch, int workers, int *grid_m, int *grid_n);
void cpu_gemm_rect(const cpu_gemm *gemm, int grid_m, int grid_n, int r, int64_t *i0, int64_t *i1, int64_t *j0, int64_t *j1);

#endif
