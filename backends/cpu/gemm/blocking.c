/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sizes of a matrix product's blocks, by its shape and the caches of today's processors, and rectangles of C for the workers.
 * blocking.h has the figure, in BLIS's names.
 *
 * cpu_dot.c, cpu_conv.c and attention ask while a program is compiled. Pure arithmetic: sizes depend on the shape and the instruction set,
 * so bits do not depend on the workers.
 */
#include "backends/cpu/gemm/blocking.h"

#include "backends/cpu/exec/cpu.h"
#include "plugins/kit/value.h"

#define TOTALS (1 << 17) /* sums of a macro block that are kept in double, about: 1 MiB */
#define UNPACKED_MR_FEW 6 /* rows of A read in place at a time, with 16 registers */

/* n cut into even parts of at most `most`, each a multiple of `unit` */
static int64_t even_part(int64_t n, int64_t most, int64_t unit)
{
    int64_t parts = kit_div_up(n, most);
    return kit_round_up(kit_div_up(n, parts), unit);
}

int cpu_gemm_unpacked_rows(const cpu_isa *isa)
{
    return isa->vw == 16 ? CPU_GEMM_UNPACKED_MR : UNPACKED_MR_FEW;
}

bool cpu_gemm_keeps_all(const cpu_gemm *gemm)
{
    return gemm->scratch && (gemm->k_parts > 1 || gemm->transposed);
}

static void choose_registers(cpu_gemm *gemm, const cpu_isa *isa)
{
    if (gemm->mode == CPU_GEMM_TILE) {
        gemm->mr = CPU_GEMM_TILE_ROWS;
        gemm->nr = 32;
        return;
    }
    gemm->mr = gemm->transposed ? cpu_gemm_unpacked_rows(isa) : (int)kit_div_up(gemm->m, kit_div_up(gemm->m, isa->mr));
    gemm->nr = gemm->n <= isa->vw ? isa->vw : 2 * isa->vw;
}

/* AMX's of A are blocks of tiles. */
int64_t cpu_gemm_a_stride(const cpu_gemm *gemm, int64_t words)
{
    return words * gemm->mr + (gemm->mode == CPU_GEMM_TILE ? 0 : CPU_GEMM_PAD);
}

int64_t cpu_gemm_b_stride(const cpu_gemm *gemm, int64_t words)
{
    return words * gemm->nr + CPU_GEMM_PAD;
}

/* Blocks: a packed block of A takes half a MiB, of B 4 MiB, the sums of a macro block 4 MiB at most. */
static void choose_blocks(cpu_gemm *gemm)
{
    static const int64_t kmost[] = {384, 768, 2048}, kunit[] = {1, 2, 32};
    gemm->kc = even_part(gemm->k, kmost[gemm->mode], kunit[gemm->mode]);
    gemm->k_parts = kit_div_up(gemm->k, gemm->kc);
    int64_t words = gemm->mode == CPU_GEMM_F32 ? gemm->kc : gemm->kc / 2;
    gemm->mc = kit_min(kit_round_up(gemm->m, gemm->mr), kit_round_up(kit_div_up(512 << 10, words * 4 + 1), gemm->mr));
    gemm->mc = kit_min(gemm->mc, 512 / gemm->mr * gemm->mr + gemm->mr);
    gemm->mc = even_part(gemm->m, gemm->mc, gemm->mr);
    gemm->nc = even_part(gemm->n, kit_round_up(kit_min(4096, kit_div_up(1 << 20, words)), gemm->nr), gemm->nr);
    gemm->nc_inner = kit_min(gemm->nc, 256);
    gemm->mc_outer = gemm->m;
    gemm->acc = gemm->pack_b = 0;
    int64_t acc = 0;
    if (gemm->scratch && !cpu_gemm_keeps_all(gemm))
        acc = gemm->mr * gemm->nc_inner;
    gemm->totals = gemm->k_parts > CPU_GEMM_PARTS;
    if (cpu_gemm_keeps_all(gemm) || gemm->totals) {
        const int64_t most = gemm->totals ? TOTALS : 1 << 20;
        gemm->nc = even_part(gemm->n, kit_min(gemm->nc, 1024), gemm->nr);
        gemm->nc_inner = kit_min(gemm->nc, 256);
        if (gemm->totals)
            gemm->mc = kit_min(gemm->mc, kit_round_up(kit_div_up(most, gemm->nc), gemm->mr));
        gemm->mc_outer = even_part(gemm->m, kit_round_up(kit_min(gemm->m, most / gemm->nc + 1), gemm->mc), gemm->mc);
        acc = cpu_gemm_keeps_all(gemm) ? gemm->mc_outer * (gemm->nc + CPU_GEMM_PAD) : 0;
    }
    int64_t first = gemm->transposed ? CPU_GEMM_TRANSPOSE_ROWS * CPU_GEMM_TRANSPOSE_COLUMNS
                                     : kit_div_up(gemm->mc, gemm->mr) * cpu_gemm_a_stride(gemm, words);
    gemm->pack_b = kit_round_bytes((size_t)first * 4 + 256, 4096) + 128;
    gemm->acc = gemm->pack_b +
                kit_round_bytes((size_t)(kit_div_up(gemm->nc, gemm->nr) * cpu_gemm_b_stride(gemm, words) * 4) + 256, 4096) + 128;
    gemm->tmp = gemm->acc + kit_round_bytes((size_t)acc * 4 + 256, 4096) + 128;
    size_t line = (size_t)(gemm->nr > gemm->mr ? gemm->nr : gemm->mr) * (size_t)words * 4;
    gemm->total = gemm->tmp + kit_round_bytes(2 * CPU_GEMM_STAGE + line + 512, 64);
    gemm->bytes = gemm->total + (gemm->totals ? (size_t)(gemm->mc_outer * gemm->nc) * sizeof(double) : 0);
}

static void blocking_choose(cpu_gemm *gemm, const cpu_isa *isa, int a_dtype, int b_dtype)
{
    if (a_dtype == YK_BF16 && b_dtype == YK_BF16 && isa->bf16)
        gemm->mode = isa->bf16 == CPU_BF16_TILES ? CPU_GEMM_TILE : CPU_GEMM_PAIR;
    choose_registers(gemm, isa);
    choose_blocks(gemm);
}

void cpu_gemm_init(cpu_gemm *gemm, const cpu_isa *isa, int64_t m, int64_t n, int64_t k, int a_dtype, int b_dtype, bool scratch)
{
    *gemm = (cpu_gemm){.m = m, .n = n, .k = k, .scratch = scratch};
    blocking_choose(gemm, isa, a_dtype, b_dtype);
}

void cpu_gemm_init_transposed(cpu_gemm *gemm, const cpu_isa *isa, int64_t m, int64_t n, int64_t k, int a_dtype, int b_dtype)
{
    *gemm = (cpu_gemm){.m = m, .n = n, .k = k, .scratch = true, .transposed = true};
    blocking_choose(gemm, isa, a_dtype, b_dtype);
}

int64_t cpu_gemm_words(const cpu_gemm *gemm, int64_t kc)
{
    return gemm->mode == CPU_GEMM_F32 ? kc : gemm->mode == CPU_GEMM_PAIR ? (kc + 1) / 2 : kit_round_up(kc, 32) / 2;
}

int64_t cpu_gemm_a_panels(const cpu_gemm *gemm)
{
    return kit_div_up(gemm->m, gemm->mr);
}

int64_t cpu_gemm_b_panels(const cpu_gemm *gemm)
{
    return kit_div_up(gemm->n, gemm->nr);
}

/* ---- Sharing out ---- */

void cpu_gemm_grid(const cpu_gemm *gemm, int64_t batch, int workers, int *grid_m, int *grid_n)
{
    *grid_m = *grid_n = 1;
    if (workers <= 1 || batch >= 4 * (int64_t)workers || batch % workers == 0)
        return;
    int64_t strips = cpu_gemm_a_panels(gemm), panels = cpu_gemm_b_panels(gemm), best = INT64_MAX;
    for (int d = 1; d <= workers; d++) {
        int64_t m = kit_div_up(strips, d) * gemm->mr, n = kit_div_up(panels, workers / d) * gemm->nr;
        int64_t cost = m * n * 64 + (m + n) * 64; /* the largest rectangle, then its packing */
        if (cost < best) {
            best = cost;
            *grid_m = d;
            *grid_n = workers / d;
        }
    }
}

void cpu_gemm_rect(const cpu_gemm *gemm, int grid_m, int grid_n, int r, int64_t *i0, int64_t *i1, int64_t *j0, int64_t *j1)
{
    int64_t strips = cpu_gemm_a_panels(gemm), panels = cpu_gemm_b_panels(gemm);
    cpu_part(strips, r / grid_n, grid_m, i0, i1);
    cpu_part(panels, r % grid_n, grid_n, j0, j1);
    *i0 *= gemm->mr;
    *i1 = kit_min(*i1 * gemm->mr, gemm->m);
    *j0 *= gemm->nr;
    *j1 = kit_min(*j1 * gemm->nr, gemm->n);
}
