/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocked matrix products: C[M,N] (+)= A[M,K] B[K,N] with f32 accumulation. A single worker computes any rectangle of C; blocking.h
 * describes its way through the caches.
 */
#ifndef YOKE_BACKENDS_CPU_GEMM_GEMM_H
#define YOKE_BACKENDS_CPU_GEMM_GEMM_H

#include "backends/cpu/exec/cpu.h"
#include "backends/cpu/gemm/pack.h"

#define CPU_PREFETCH_MOST 128

/* The sink of a rectangle. f32: straight into C, unless `scratch`. done (may be NULL without scratch) gets each finished block: acc is
 * its first element, at row i, column j of C. prefetch (may be NULL) lists the cache lines that `done` will access for a panel, so that
 * they arrive while its last sums are made. */
typedef struct cpu_prefetch_list {
    size_t n;
    const char *at[CPU_PREFETCH_MOST];
} cpu_prefetch_list;

/* Adds `rows` runs of `bytes` from p on, `pitch` bytes apart; drops them if the list is full. */
static inline void cpu_prefetch_add(cpu_prefetch_list *list, const void *p, size_t bytes, size_t pitch, size_t rows)
{
    for (size_t e = 0; e < bytes && list->n + rows <= CPU_PREFETCH_MOST; e += 64, list->n += rows) {
        const char *from = (const char *)p + e;
        for (size_t q = 0; q < rows; q++, from += pitch)
            list->at[list->n + q] = from;
    }
}

typedef struct cpu_sink {
    float *f32;
    int64_t ld;
    bool add;
    void (*done)(void *arg, int64_t i, int64_t ni, int64_t j, int64_t nj, float *acc, int64_t ld);
    void (*prefetch)(void *arg, int64_t i, int64_t ni, int64_t j, int64_t nj, cpu_prefetch_list *list);
    void *arg;
} cpu_sink;

void cpu_gemm_run(const cpu_gemm *gemm, const cpu_ctx *ctx, const cpu_src *a, const cpu_src *b, int64_t i0, int64_t i1,
                  int64_t j0, int64_t j1, const cpu_sink *sink);
/* True if a product C[m,n] of so few rows is better made as C^T = B^T A^T. B's many lines are read in place then, and A's are transposed.
 * The caller swaps a and b, m and n, cuts rectangles of C^T, and gets blocks of C. A, formerly B, is then readable in place. */
bool cpu_gemm_prefers_transposed(const cpu_isa *isa, int64_t m, int64_t n, int64_t k, const cpu_src *a, const cpu_src *b);
/* True if a run reads A in place, as packing few rows against few columns does not pay. `done`: the sink has one. */
bool cpu_gemm_in_place(const cpu_gemm *gemm, const cpu_src *a, int64_t rows, int64_t cols, bool done);

#endif
