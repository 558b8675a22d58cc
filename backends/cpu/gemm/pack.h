/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of products, and their packing into micro-panels (blocking.h). A worker packs for itself; no state elsewhere. */
#ifndef YOKE_BACKENDS_CPU_GEMM_PACK_H
#define YOKE_BACKENDS_CPU_GEMM_PACK_H

#include "backends/cpu/gemm/blocking.h"

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
    const void *packed; /* the whole operand, packed as below; ld is its k, for A the product's k; p and fetch are unused */
} cpu_src;

/* A part of k of an operand on its way into micro-panels. */
typedef struct cpu_gemm_packer {
    const cpu_isa *isa;
    const cpu_src *src;
    int64_t width, k0, kc; /* rows or columns of a micro-panel; part of k */
    bool raw;              /* 16-bit numbers in pairs, else f32 */
    int64_t words;         /* kc in 32-bit words, rounded up for tiles */
    char *tmp;
    int64_t pad; /* words between micro-panels */
} cpu_gemm_packer;

/* Rows or columns x0 .. x0 + nx - 1. tiles: as AMX wants A; narrow: the last micro-panel has its own width, else the full one. */
void cpu_gemm_pack(cpu_gemm_packer *packer, bool tiles, bool narrow, int64_t x0, int64_t nx, uint32_t *dst);
/* Address of micro-panel p of the part of k at k0, kc long, in an operand that is packed as a whole. */
uint32_t *cpu_gemm_a_panel(const cpu_gemm *gemm, const void *packed, int64_t k0, int64_t kc, int64_t p);
uint32_t *cpu_gemm_b_panel(const cpu_gemm *gemm, const void *packed, int64_t k0, int64_t kc, int64_t p);

/* All of B packed once, for several products with it (of any part of its rows: a smaller gemm->k). `thread_ws` as for run. Micro-panels
 * `from` to end - 1: several workers may pack some each. */
size_t cpu_gemm_packed_b_bytes(const cpu_gemm *gemm); /* bytes */
void cpu_gemm_pack_b(const cpu_gemm *gemm, const cpu_isa *isa, void *thread_ws, const cpu_src *b, void *to);
void cpu_gemm_pack_b_panels(const cpu_gemm *gemm, const cpu_isa *isa, void *thread_ws, const cpu_src *b, int64_t from, int64_t end,
                            void *to);
/* The same for A. Its rectangles begin at a micro-panel. */
size_t cpu_gemm_packed_a_bytes(const cpu_gemm *gemm);
void cpu_gemm_pack_a_panels(const cpu_gemm *gemm, const cpu_isa *isa, void *thread_ws, const cpu_src *a, int64_t from, int64_t end,
                            void *to);
/* A (k contiguous) in f32 micro-panels of mr rows, the last one narrower; `tmp` holds mr * k words and 8 KiB more. */
void cpu_gemm_pack_rows(const cpu_isa *isa, const cpu_src *a, int mr, int64_t m, int64_t k, void *to, void *tmp);

#endif
