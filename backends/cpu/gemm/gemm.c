/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The matrix product of one worker: the five loops around the micro-kernel (figure in blocking.h). Also products of operands that are read
 * in place, without packing.
 *
 * The steps of products, convolutions and attention call cpu_gemm_run on a worker, with packing memory of that worker. cpu_dot.c asks
 * cpu_gemm_in_place and cpu_gemm_prefers_transposed while it compiles. C may be overwritten or added to. Sums are f32, those of a long k go
 * to double now and then (blocking.h). Shape, types and instruction set decide their order, and no rectangle or worker.
 */
#include "backends/cpu/gemm/gemm.h"

#include <string.h>

#include "backends/cpu/isa/gemm_kernels.h"
#include "backends/cpu/isa/pack_kernels.h"
#include "backends/cpu/isa/vec_kernels.h"
#include "plugins/kit/value.h"

#define UNPACKED_ROWS 128            /* most rows of A that are read in place, ... */
#define UNPACKED_COLUMNS 1024        /* against so many columns, ... */
#define UNPACKED_B_BYTES (640 << 10) /* and with `done` so many bytes of B, which stay in L2 meanwhile */

typedef struct gemm_run {
    const cpu_gemm *gemm;
    const cpu_ctx *ctx;
    const cpu_isa *isa;
    const cpu_src *a, *b;
    const cpu_sink *sink;
    char *thread_ws;
    int64_t words, panel_stride;              /* words of this part of k; words from one micro-panel of B to the next */
    int64_t prefetch_row;                     /* the row of C whose last sums are being made, or -1 */
    bool direct;                              /* B is read in place: few rows do not repay packing */
    const cpu_unpacked_kernel (*unpacked)[3]; /* not NULL: A is read in place, for the same reason */
} gemm_run;

/* Lists memory beyond the first-level cache that is read or written when a panel's sums are done. */
static void prefetch_of(const gemm_run *run, int64_t mb, int64_t j, int64_t n, const float *c, int64_t ldc, cpu_prefetch_list *list)
{
    list->n = 0;
    if (!run->gemm->scratch || run->gemm->k_parts > 1)
        cpu_prefetch_add(list, c, (size_t)n * 4, (size_t)ldc * 4, (size_t)mb);
    if (run->prefetch_row >= 0)
        run->sink->prefetch(run->sink->arg, run->prefetch_row, mb, j, n, list);
}

static void micro_kernel(const gemm_run *run, const uint32_t *a, int64_t mb, const uint32_t *b, size_t b_stride, int64_t nb, float *c,
                         int64_t ldc, int add, const cpu_prefetch_list *list)
{
    const cpu_gemm *gemm = run->gemm;
    const size_t n_prefetch = gemm->mode == CPU_GEMM_TILE ? 0 : list->n < (size_t)run->words ? list->n : (size_t)run->words;
    for (size_t i = n_prefetch; i < list->n; i++)
        __builtin_prefetch(list->at[i], 1);
    if (gemm->mode == CPU_GEMM_TILE) {
        run->isa->tiles->block((size_t)run->words / 16, a, b, c, (size_t)ldc, (size_t)mb, (size_t)nb, add);
        return;
    }
    const cpu_packed_kernel(*k)[3] = run->isa->gemm[gemm->mode]->packed;
    k[mb][gemm->nr / run->isa->vw]((size_t)run->words, a, b, b_stride, c, (size_t)ldc, (size_t)nb, add, list->at, n_prefetch);
}

/* Loop jr: C[mb, nb] of one micro-panel of A and a block's micro-panels of B, which stay in L2 for the next ones of A */
static void jr_loop(const gemm_run *run, const uint32_t *a_panel, int64_t mb, int64_t j0, int64_t nb, int64_t k0,
                    const uint32_t *b_panel, float *c, int64_t ldc, int add)
{
    const cpu_gemm *gemm = run->gemm;
    cpu_prefetch_list list;
    for (int64_t j = 0; j < nb; j += gemm->nr, b_panel += run->panel_stride) {
        int64_t n = kit_min(gemm->nr, nb - j);
        const uint32_t *b = b_panel;
        size_t b_stride = (size_t)gemm->nr;
        if (run->direct && n == gemm->nr) {
            b = (const uint32_t *)run->b->p + k0 * run->b->ld + j0 + j;
            b_stride = (size_t)run->b->ld;
        }
        prefetch_of(run, mb, j0 + j, n, c + j, ldc, &list);
        micro_kernel(run, a_panel, mb, b, b_stride, n, c + j, ldc, add, &list);
    }
}

typedef struct macro_block {
    int64_t i0, ni, j0, nj; /* macro block of C */
} macro_block;

typedef struct k_part {
    int64_t k0;
    bool first, last;         /* first, last part of k */
    const uint32_t *b_packed; /* packed B of the macro block */
} k_part;

/* address of the sum of row i, column j of the macro block; its rows are *ldc apart */
static float *target_of(const gemm_run *run, const macro_block *block, int64_t i, int64_t j, int64_t *ldc)
{
    const cpu_gemm *gemm = run->gemm;
    float *acc = (float *)(void *)(run->thread_ws + gemm->acc);
    *ldc = !gemm->scratch ? run->sink->ld : cpu_gemm_keeps_all(gemm) ? gemm->nc + CPU_GEMM_PAD : gemm->nc_inner;
    return !gemm->scratch             ? run->sink->f32 + (block->i0 + i) * *ldc + block->j0 + j
           : cpu_gemm_keeps_all(gemm) ? acc + i * *ldc + j
                                      : acc;
}

/* The macro-kernel, loop ir within blocks of nb columns: rows i .. i+ni-1 of the macro block, packed in micro-panels `stride` words apart,
 * times all of its columns */
static void macro_kernel(gemm_run *run, const macro_block *block, const k_part *part, const uint32_t *a_panel, int64_t stride,
                         int64_t i, int64_t ni)
{
    const cpu_gemm *gemm = run->gemm;
    const cpu_sink *sink = run->sink;
    int add = !part->first || (sink->add && !gemm->scratch);
    for (int64_t j = 0; j < block->nj && !cpu_stops(run->ctx); j += gemm->nc_inner) {
        int64_t nb = kit_min(gemm->nc_inner, block->nj - j);
        for (int64_t q = 0; q < ni; q += gemm->mr) {
            int64_t mb = kit_min(gemm->mr, ni - q), ldc;
            float *c = target_of(run, block, i + q, j, &ldc);
            run->prefetch_row = part->last && sink->prefetch ? block->i0 + i + q : -1;
            jr_loop(run, a_panel + q / gemm->mr * stride, mb, block->j0 + j, nb, part->k0,
                    part->b_packed + j / gemm->nr * run->panel_stride, c, ldc, add);
            if (part->last && sink->done)
                sink->done(sink->arg, block->i0 + i + q, mb, block->j0 + j, nb, c, ldc);
        }
    }
}

/* Rows i .. i+n-1 of A as the kernels that read them in place want them: bf16 for products of f32 is widened. */
static void unpacked_at(const gemm_run *run, int64_t k0, int64_t i, int64_t n, const char **a_row)
{
    const cpu_gemm *gemm = run->gemm;
    const int64_t item = run->a->dtype == YK_F32 ? 4 : 2;
    const int64_t some = run->a->ld == run->words ? n : 1; /* contiguous rows are widened at once */
    float *widened = (float *)(void *)(run->thread_ws + gemm->tmp + 2 * CPU_GEMM_STAGE);
    for (int64_t q = 0; q < n; q++) {
        a_row[q] = (const char *)run->a->p + ((i + q) * run->a->ld + k0) * item;
        if (gemm->mode != CPU_GEMM_F32 || item == 4)
            continue;
        if (q % some == 0)
            run->isa->vec->to_f32(widened + q * run->words, a_row[q], YK_BF16, (size_t)(some * run->words));
        a_row[q] = (const char *)(widened + q * run->words);
    }
}

/* the same with A's rows in place; its sums equal the packed kernels', bit for bit */
static void macro_kernel_unpacked(gemm_run *run, const macro_block *block, const k_part *part)
{
    const cpu_gemm *gemm = run->gemm;
    const cpu_sink *sink = run->sink;
    int64_t most =
        kit_min(cpu_gemm_unpacked_rows(run->isa), gemm->scratch || run->a->dtype == YK_BF16 ? gemm->mr : CPU_GEMM_UNPACKED_MR);
    for (int64_t i = 0; i < block->ni && !cpu_stops(run->ctx); i += most) {
        const char *a_row[CPU_GEMM_UNPACKED_MR];
        int64_t mb = kit_min(most, block->ni - i), width = gemm->scratch ? gemm->nc_inner : block->nj;
        unpacked_at(run, part->k0, block->i0 + i, mb, a_row);
        for (int64_t j = 0; j < block->nj; j += width) {
            int64_t nb = kit_min(width, block->nj - j), ldc;
            float *c = target_of(run, block, i, j, &ldc);
            for (int64_t q = 0; q < mb && part->first && (gemm->scratch || !sink->add); q++)
                memset(c + q * ldc, 0, (size_t)nb * 4);
            const uint32_t *b = part->b_packed + j / gemm->nr * run->panel_stride;
            for (int64_t n = 0; n < nb; n += gemm->nr, b += run->panel_stride)
                run->unpacked[mb][gemm->nr / run->isa->vw]((size_t)run->words, a_row, b, c + n, (size_t)ldc);
            if (part->last && sink->done && !gemm->transposed)
                sink->done(sink->arg, block->i0 + i, mb, block->j0 + j, nb, c, ldc);
        }
    }
}

/* A macro block's finished sums, transposed back into rows of C. */
static void store_transposed(gemm_run *run, const macro_block *block)
{
    uint32_t *rows = (uint32_t *)(void *)run->thread_ws;
    for (int64_t j = 0; j < block->nj; j += CPU_GEMM_TRANSPOSE_ROWS)
        for (int64_t i = 0; i < block->ni; i += CPU_GEMM_TRANSPOSE_COLUMNS) {
            int64_t n = kit_min(CPU_GEMM_TRANSPOSE_ROWS, block->nj - j), width = kit_min(CPU_GEMM_TRANSPOSE_COLUMNS, block->ni - i), ld;
            const float *sums = target_of(run, block, i, j, &ld);
            run->isa->pack->transpose(rows, (size_t)width, sums, (size_t)ld * 4, (size_t)width, (size_t)n);
            run->sink->done(run->sink->arg, block->j0 + j, n, block->i0 + i, width, (float *)(void *)rows, width);
        }
}

static void ic_loop(gemm_run *run, const macro_block *block, int64_t k0, int64_t kc, bool first, bool last)
{
    const cpu_gemm *gemm = run->gemm;
    const int64_t stride = cpu_gemm_a_stride(gemm, run->words);
    cpu_gemm_packer a = {run->isa,    run->a, gemm->mr, k0, kc, gemm->mode != CPU_GEMM_F32, run->words, run->thread_ws + gemm->tmp,
                         CPU_GEMM_PAD};
    k_part part = {k0, first, last, (const uint32_t *)(const void *)(run->thread_ws + gemm->pack_b)};
    if (run->b->packed)
        part.b_packed = cpu_gemm_b_panel(gemm, run->b->packed, k0, kit_min(gemm->kc, run->b->ld - k0), block->j0 / gemm->nr);
    if (run->unpacked) {
        macro_kernel_unpacked(run, block, &part);
        if (last && gemm->transposed)
            store_transposed(run, block);
        return;
    }
    if (run->a->packed) {
        macro_kernel(run, block, &part, cpu_gemm_a_panel(gemm, run->a->packed, k0, kc, block->i0 / gemm->mr), stride, 0, block->ni);
        return;
    }
    for (int64_t i = 0; i < block->ni && !cpu_stops(run->ctx); i += gemm->mc) {
        int64_t mb = kit_min(gemm->mc, block->ni - i);
        cpu_gemm_pack(&a, gemm->mode == CPU_GEMM_TILE, true, block->i0 + i, mb, (uint32_t *)(void *)run->thread_ws);
        macro_kernel(run, block, &part, (const uint32_t *)(const void *)run->thread_ws, stride, i, mb);
    }
}

/* The sums of the macro block go to double; back: they come from there, rounded, for the last part of k. */
static void totals_take(gemm_run *run, const macro_block *block, bool back)
{
    double *total = (double *)(void *)(run->thread_ws + run->gemm->total);
    for (int64_t i = 0; i < block->ni; i++, total += block->nj) {
        int64_t ld;
        float *sums = target_of(run, block, i, 0, &ld);
        run->isa->vec->drain(total, sums, (size_t)block->nj);
        for (int64_t j = 0; j < block->nj && back; j++)
            sums[j] = (float)total[j];
    }
}

static void pack_b_block(gemm_run *run, const macro_block *block, int64_t k0, int64_t kc)
{
    const cpu_gemm *gemm = run->gemm;
    uint32_t *b_panel = (uint32_t *)(void *)(run->thread_ws + gemm->pack_b);
    cpu_gemm_packer packer = {
        run->isa, run->b, gemm->nr, k0, kc, gemm->mode != CPU_GEMM_F32, run->words, run->thread_ws + gemm->tmp, CPU_GEMM_PAD};
    int64_t skip = run->direct ? block->nj / gemm->nr * gemm->nr : 0;
    if (skip < block->nj)
        cpu_gemm_pack(&packer, false, false, block->j0 + skip, block->nj - skip, b_panel + skip / gemm->nr * run->panel_stride);
}

bool cpu_gemm_in_place(const cpu_gemm *gemm, const cpu_src *a, int64_t rows, int64_t cols, bool done)
{
    const bool bf16_pairs = gemm->mode == CPU_GEMM_PAIR, widened = gemm->mode == CPU_GEMM_F32 && a->dtype == YK_BF16;
    if (gemm->mode == CPU_GEMM_TILE || a->packed || a->fetch || !a->kcontig || (bf16_pairs && (gemm->k & 1)))
        return false;
    if (!widened && a->dtype != (bf16_pairs ? YK_BF16 : YK_F32))
        return false;
    if (gemm->transposed)
        return true;
    if (rows > UNPACKED_ROWS || cols > UNPACKED_COLUMNS || (cols % gemm->nr && !gemm->scratch))
        return false;
    return widened || !(gemm->scratch || done) || cols * cpu_gemm_words(gemm, gemm->kc) * 4 <= UNPACKED_B_BYTES;
}

bool cpu_gemm_prefers_transposed(const cpu_isa *isa, int64_t m, int64_t n, int64_t k, const cpu_src *a, const cpu_src *b)
{
    cpu_gemm gemm;
    cpu_gemm_init_transposed(&gemm, isa, n, m, k, b->dtype, a->dtype);
    int64_t lanes = kit_round_up(m, gemm.nr) - m; /* computed in vain */
    return a->dtype == YK_F32 && a->kcontig && m <= UNPACKED_ROWS && 8 * lanes <= m && n >= 2 * m && k >= 128 &&
           cpu_gemm_in_place(&gemm, b, n, m, true);
}

static const cpu_unpacked_kernel (*unpacked_kernels(const cpu_gemm *gemm, const cpu_isa *isa, const cpu_src *a, const cpu_sink *sink,
                                                    int64_t rows, int64_t cols))[3]
{
    if (!cpu_gemm_in_place(gemm, a, rows, cols, sink->done))
        return NULL;
    return isa->gemm[gemm->mode]->unpacked;
}

void cpu_gemm_run(const cpu_gemm *gemm, const cpu_ctx *ctx, const cpu_src *a, const cpu_src *b, int64_t i0, int64_t i1,
                  int64_t j0, int64_t j1, const cpu_sink *sink)
{
    const cpu_isa *isa = ctx->isa;
    gemm_run run = {gemm, ctx, isa, a, b, sink, ctx->thread_ws, 0, 0, -1, false, unpacked_kernels(gemm, isa, a, sink, i1 - i0, j1 - j0)};
    run.direct = !run.unpacked && gemm->mode == CPU_GEMM_F32 && i1 - i0 <= 2 * gemm->mr && !b->fetch && !b->packed && !b->kcontig &&
               b->dtype == YK_F32;
    if (gemm->mode == CPU_GEMM_TILE)
        isa->tiles->begin();
    for (int64_t j = j0; j < j1; j += gemm->nc)
        for (int64_t i = i0; i < i1; i += gemm->mc_outer) {
            macro_block block = {i, kit_min(gemm->mc_outer, i1 - i), j, kit_min(gemm->nc, j1 - j)};
            if (gemm->totals)
                memset(run.thread_ws + gemm->total, 0, (size_t)(block.ni * block.nj) * sizeof(double));
            for (int64_t k = 0; k < gemm->k && !cpu_stops(ctx); k += gemm->kc) {
                int64_t kc = kit_min(gemm->kc, gemm->k - k);
                const bool last = k + kc >= gemm->k;
                if (gemm->totals && k && (last || k / gemm->kc % CPU_GEMM_PARTS == 0))
                    totals_take(&run, &block, last);
                run.words = cpu_gemm_words(gemm, kc);
                run.panel_stride = cpu_gemm_b_stride(gemm, cpu_gemm_words(gemm, b->packed ? kit_min(gemm->kc, b->ld - k) : kc));
                if (!b->packed)
                    pack_b_block(&run, &block, k, kc);
                ic_loop(&run, &block, k, kc, k == 0, last);
            }
        }
    if (gemm->mode == CPU_GEMM_TILE)
        isa->tiles->end();
}
