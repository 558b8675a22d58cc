/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocked matrix products: C[M,N] (+)= A[M,K] B[K,N] with f32 accumulation. A worker computes any rectangle of C by
 * itself; K is cut by its length alone, so an element's bits do not depend on the rectangle it is computed in.
 */
#ifndef YOKE_BACKENDS_CPU_GEMM_GEMM_H
#define YOKE_BACKENDS_CPU_GEMM_GEMM_H

#include "backends/cpu/exec/cpu.h"

/*
 * A virtual matrix with rows k and columns x (x is m for A, n for B). Plain: element (x,k) at p[k*ld + x], or, if
 * kcontig, p[x*ld + k]. With fetch: n consecutive elements along the contiguous direction from `from` in line `line`
 * (line is k, or x if kcontig), written as f32 or, for raw, as the stored 16-bit numbers.
 */
typedef struct cpu_src {
    const void *p;
    int64_t ld;
    uint8_t dtype, kcontig;
    void (*fetch)(const void *arg, int64_t line, int64_t from, size_t n, void *out, bool raw);
    const void *arg;
    const void *packed; /* the whole of it, as below; ld is its k, of A that of the product; p and fetch are not read */
} cpu_src;

typedef enum cpu_gemm_mode { CPU_GEMM_F32 = CPU_WORDS_F32, CPU_GEMM_PAIR = CPU_WORDS_PAIRS, CPU_GEMM_TILE } cpu_gemm_mode;

/* Shape and blocking, chosen once. */
typedef struct cpu_gemm {
    int64_t m, n, k;
    cpu_gemm_mode mode;
    int mr, nr;         /* rows of a strip, columns of a panel */
    int64_t kc, chunks; /* elements of k at a time, and how many times */
    int64_t mc, nc, mo, nb;
    bool scratch;    /* sums are kept in scratch, not in C */
    bool transposed; /* m and n, a and b have changed places: `done` gets blocks of the other way round, at most 256 wide */
    size_t pack_a, pack_b, acc, tmp; /* offsets in the worker's scratch: a at 0, then b, acc, tmp */
    size_t bytes;
} cpu_gemm;

#define CPU_PREFETCH_MOST 128

/* Where a rectangle goes. f32: straight into C (unless `scratch`). done (may be NULL without scratch) gets each
 * finished block: acc is its first element, at row i, column j of C. prefetch (may be NULL) adds the lines of the cache that
 * `done` will read and write for a panel of a block, so that they are on their way while its last sums are made. */
typedef struct cpu_prefetch_list {
    size_t n;
    const char *at[CPU_PREFETCH_MOST];
} cpu_prefetch_list;

/* `rows` times `bytes` from p on, `pitch` bytes apart; what is too much is not fetched. */
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

void cpu_gemm_init(cpu_gemm *gemm, const cpu_isa *isa, int64_t m, int64_t n, int64_t k, int da, int db, bool scratch);
void cpu_gemm_run(const cpu_gemm *gemm, const cpu_isa *isa, void *thread_ws, const cpu_src *a, const cpu_src *b,
                  int64_t i0, int64_t i1, int64_t j0, int64_t j1, const cpu_sink *sink);
/* Whether a product C[m,n] of so few rows is better made as C^T = B^T A^T: B's lines, the many, are read where they lie, and A's
 * are transposed in their place. The caller lets a and b, m and n change places, cuts rectangles of C^T, and gets blocks of C; A,
 * which was B, is one that can be read in place. */
bool cpu_gemm_prefers_transposed(const cpu_isa *isa, int64_t m, int64_t n, int64_t k, const cpu_src *a, const cpu_src *b);
void cpu_gemm_init_transposed(cpu_gemm *gemm, const cpu_isa *isa, int64_t m, int64_t n, int64_t k, int da, int db);
/* Whether a run reads A where it lies: a few rows against few columns would be packed for little use. `done`: the sink has one. */
bool cpu_gemm_in_place(const cpu_gemm *gemm, const cpu_src *a, int64_t rows, int64_t cols, bool done);
int64_t cpu_gemm_strips(const cpu_gemm *gemm); /* of rows of A */
int64_t cpu_gemm_panels(const cpu_gemm *gemm); /* of columns of B */
/* All of B packed once, for several products with it (of any part of its rows: a smaller g->k). `thread_ws` as for run. Panels
 * `from` to end - 1: several workers may pack some each. */
size_t cpu_gemm_packed(const cpu_gemm *gemm); /* bytes */
void cpu_gemm_pack(const cpu_gemm *gemm, const cpu_isa *isa, void *thread_ws, const cpu_src *b, void *to);
void cpu_gemm_pack_panels(const cpu_gemm *gemm, const cpu_isa *isa, void *thread_ws, const cpu_src *b, int64_t from, int64_t end,
                          void *to);
/* The same for A and its strips. Rectangles of it begin at a strip. */
size_t cpu_gemm_packed_a(const cpu_gemm *gemm);
void cpu_gemm_pack_strips(const cpu_gemm *gemm, const cpu_isa *isa, void *thread_ws, const cpu_src *a, int64_t from, int64_t end,
                          void *to);
/* A (k contiguous) in f32 strips of mr rows, the last one narrower; `tmp` has room for mr * k words and 8 KiB more. */
void cpu_gemm_pack_rows(const cpu_isa *isa, const cpu_src *a, int mr, int64_t m, int64_t k, void *to, void *tmp);
/* How nt workers share `batch` products: a grid of gm x gn rectangles each. */
void cpu_gemm_grid(const cpu_gemm *gemm, int64_t batch, int nt, int *gm, int *gn);
/* Rectangle r of the grid. */
void cpu_gemm_part(const cpu_gemm *gemm, int gm, int gn, int r, int64_t *i0, int64_t *i1, int64_t *j0, int64_t *j1);

/* ---- dot.c ---- */

void cpu_plan_dot(cpu_build *build, const yk_node *node); /* dot, dot_map */

#endif
