/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/isa/gemm_kernels.h"
#include "backends/cpu/isa/pack_kernels.h"
#include "backends/cpu/isa/vec_kernels.h"
#include "plugins/kit/value.h"

#include <string.h>

#define STAGE 4096   /* bytes of a staged row: 1024 f32 */
#define UNPACKED_MR 8      /* rows of A read where they lie at a time (with 16 registers ... */
#define UNPACKED_MR_FEW 6  /* so many), of ... */
#define UNPACKED_ROWS 128 /* so many at most, ... */
#define UNPACKED_COLUMNS 1024 /* against so many columns, ... */
#define UNPACKED_B_BYTES (640 << 10) /* and where sums leave by `done`, so many bytes of B, which stay in L2 meanwhile */
#define TRANSPOSE_ROWS 16 /* of C transposed back at a time, ... */
#define TRANSPOSE_COLUMNS 256 /* and columns: 16 KiB */
#define TILE_ROWS 32 /* of an AMX block: 2 tiles of 16; its columns are 32 too */
#define PAD 16 /* words between packed strips: rows go to all strips at once, and those whole pages apart would take turns in
                * few places of the first-level cache; what runs over the end of a strip is not its neighbour's either */

/* n cut into even parts of at most `most`, each a multiple of `unit` */
static int64_t even_part(int64_t n, int64_t most, int64_t unit)
{
    int64_t parts = kit_div_up(n, most);
    return kit_round_up(kit_div_up(n, parts), unit);
}

/* rows of A that a kernel reads where they lie */
static int unpacked_most(const cpu_isa *isa)
{
    return isa->vw == 16 ? UNPACKED_MR : UNPACKED_MR_FEW;
}

/* Whether scratch has room for the sums of all rows of a span, not of a strip alone. */
static bool keeps_all(const cpu_gemm *gemm)
{
    return gemm->scratch && (gemm->chunks > 1 || gemm->transposed);
}

static void choose_tile(cpu_gemm *gemm, const cpu_isa *isa)
{
    if (gemm->mode == CPU_GEMM_TILE) {
        gemm->mr = TILE_ROWS;
        gemm->nr = 32;
        return;
    }
    gemm->mr = gemm->transposed ? unpacked_most(isa) : (int)kit_div_up(gemm->m, kit_div_up(gemm->m, isa->mr));
    gemm->nr = gemm->n <= isa->vw ? isa->vw : 2 * isa->vw;
}

/* Words from one packed strip of A to the next, and between panels of B; `words` of k. AMX's strips of A are blocks of tiles. */
static int64_t a_panel_stride(const cpu_gemm *gemm, int64_t words)
{
    return words * gemm->mr + (gemm->mode == CPU_GEMM_TILE ? 0 : PAD);
}

static int64_t b_panel_stride(const cpu_gemm *gemm, int64_t words)
{
    return words * gemm->nr + PAD;
}

/* Blocks: a packed block of A takes half a MiB, of B 4 MiB, the sums of a macro block 4 MiB at most. */
static void choose_blocks(cpu_gemm *gemm)
{
    static const int64_t kmost[] = {384, 768, 2048}, kunit[] = {1, 2, 32};
    gemm->kc = even_part(gemm->k, kmost[gemm->mode], kunit[gemm->mode]);
    gemm->chunks = kit_div_up(gemm->k, gemm->kc);
    int64_t words = gemm->mode == CPU_GEMM_F32 ? gemm->kc : gemm->kc / 2;
    gemm->mc = kit_min(kit_round_up(gemm->m, gemm->mr), kit_round_up(kit_div_up(512 << 10, words * 4 + 1), gemm->mr));
    gemm->mc = kit_min(gemm->mc, 512 / gemm->mr * gemm->mr + gemm->mr);
    gemm->mc = even_part(gemm->m, gemm->mc, gemm->mr);
    gemm->nc = even_part(gemm->n, kit_round_up(kit_min(4096, kit_div_up(1 << 20, words)), gemm->nr), gemm->nr);
    gemm->nb = kit_min(gemm->nc, 256);
    gemm->mo = gemm->m;
    gemm->acc = gemm->pack_b = 0;
    int64_t acc = 0;
    if (gemm->scratch && !keeps_all(gemm))
        acc = gemm->mr * gemm->nb;
    if (keeps_all(gemm)) {
        gemm->nc = even_part(gemm->n, kit_min(gemm->nc, 1024), gemm->nr);
        gemm->nb = kit_min(gemm->nc, 256);
        gemm->mo = even_part(gemm->m, kit_round_up(kit_min(gemm->m, (1 << 20) / gemm->nc + 1), gemm->mc), gemm->mc);
        acc = gemm->mo * (gemm->nc + PAD);
    }
    int64_t first =
        gemm->transposed ? TRANSPOSE_ROWS * TRANSPOSE_COLUMNS : kit_div_up(gemm->mc, gemm->mr) * a_panel_stride(gemm, words);
    gemm->pack_b = kit_round_bytes((size_t)first * 4 + 256, 4096) + 128;
    gemm->acc = gemm->pack_b +
                kit_round_bytes((size_t)(kit_div_up(gemm->nc, gemm->nr) * b_panel_stride(gemm, words) * 4) + 256, 4096) + 128;
    gemm->tmp = gemm->acc + kit_round_bytes((size_t)acc * 4 + 256, 4096) + 128;
    size_t line = (size_t)(gemm->nr > gemm->mr ? gemm->nr : gemm->mr) * (size_t)words * 4;
    gemm->bytes = gemm->tmp + kit_round_bytes(2 * STAGE + line + 512, 64);
}

static void init_any(cpu_gemm *gemm, const cpu_isa *isa, int da, int db)
{
    if (da == YK_BF16 && db == YK_BF16 && isa->bf16)
        gemm->mode = isa->bf16 == CPU_BF16_TILES ? CPU_GEMM_TILE : CPU_GEMM_PAIR;
    choose_tile(gemm, isa);
    choose_blocks(gemm);
}

void cpu_gemm_init(cpu_gemm *gemm, const cpu_isa *isa, int64_t m, int64_t n, int64_t k, int da, int db, bool scratch)
{
    *gemm = (cpu_gemm){.m = m, .n = n, .k = k, .scratch = scratch};
    init_any(gemm, isa, da, db);
}

void cpu_gemm_init_transposed(cpu_gemm *gemm, const cpu_isa *isa, int64_t m, int64_t n, int64_t k, int da, int db)
{
    *gemm = (cpu_gemm){.m = m, .n = n, .k = k, .scratch = true, .transposed = true};
    init_any(gemm, isa, da, db);
}

/* 32-bit words that kc elements of k take when packed */
static int64_t words_of(const cpu_gemm *gemm, int64_t kc)
{
    return gemm->mode == CPU_GEMM_F32 ? kc : gemm->mode == CPU_GEMM_PAIR ? (kc + 1) / 2 : kit_round_up(kc, 32) / 2;
}

int64_t cpu_gemm_strips(const cpu_gemm *gemm)
{
    return kit_div_up(gemm->m, gemm->mr);
}

int64_t cpu_gemm_panels(const cpu_gemm *gemm)
{
    return kit_div_up(gemm->n, gemm->nr);
}

/* ---- Packing ---- */

typedef struct gemm_packer {
    const cpu_isa *isa;
    const cpu_src *src;
    int64_t width, k0, kc; /* strip width; part of k */
    bool raw;              /* 16-bit numbers in pairs, else f32 */
    int64_t words;         /* kc in 32-bit words, rounded up for tiles */
    char *tmp;
    int64_t pad; /* words between strips */
} gemm_packer;

/* from one strip to the next */
static int64_t panel_stride(const gemm_packer *packer)
{
    return packer->words * packer->width + packer->pad;
}

static bool is_direct(const gemm_packer *packer)
{
    return !packer->src->fetch && packer->src->dtype == (packer->raw ? YK_BF16 : YK_F32);
}

/* n elements along the contiguous direction; a pointer into the source where it can be read as it is */
static const void *source_line(const gemm_packer *packer, int64_t line, int64_t from, size_t n, void *out)
{
    const cpu_src *src = packer->src;
    if (src->fetch) {
        src->fetch(src->arg, line, from, n, out, packer->raw);
        return out;
    }
    const char *at = (const char *)src->p + (line * src->ld + from) * (src->dtype == YK_F32 ? 4 : 2);
    if (is_direct(packer))
        return at;
    packer->isa->vec->to_f32(out, at, src->dtype, n);
    return out;
}

/* x contiguous: rows of x, a chunk of strips at a time */
static void pack_rows(const gemm_packer *packer, int64_t x0, int64_t nx, uint32_t *dst)
{
    int64_t chunk = 1024 / packer->width * packer->width;
    size_t stride = (size_t)panel_stride(packer);
    for (int64_t x = 0; x < nx; x += chunk) {
        size_t n = (size_t)kit_min(chunk, nx - x);
        uint32_t *to = dst + x / packer->width * (int64_t)stride;
        for (int64_t k = 0; k < packer->words; k++, to += packer->width) {
            int64_t at = packer->raw ? 2 * k : k;
            if (at >= packer->kc) {
                for (size_t i = 0; i * (size_t)packer->width < n; i++)
                    memset(to + i * stride, 0, (size_t)packer->width * 4);
                continue;
            }
            const void *r0 = source_line(packer, packer->k0 + at, x0 + x, n, packer->tmp);
            if (!packer->raw) {
                packer->isa->pack->strips(to, (size_t)packer->width, stride, r0, n);
                continue;
            }
            const void *r1 = at + 1 < packer->kc ? source_line(packer, packer->k0 + at + 1, x0 + x, n, packer->tmp + STAGE) : NULL;
            packer->isa->pack->strip_pairs(to, (size_t)packer->width, stride, r0, r1, n);
        }
    }
}

/* k contiguous: the lines of a strip, in place or staged; returns where they are and how many bytes they are apart */
static const char *stage_lines(const gemm_packer *packer, int64_t x0, int64_t nx, size_t *pitch)
{
    size_t item = packer->raw ? 2 : 4;
    bool whole = packer->words * 4 == packer->kc * (int64_t)item;
    if (is_direct(packer) && whole) {
        *pitch = (size_t)packer->src->ld * item;
        return (const char *)packer->src->p + (size_t)(x0 * packer->src->ld + packer->k0) * item;
    }
    char *out = packer->tmp + 2 * STAGE;
    *pitch = (size_t)packer->words * 4;
    for (int64_t i = 0; i < nx; i++) {
        char *to = out + (size_t)i * *pitch;
        const void *at = source_line(packer, x0 + i, packer->k0, (size_t)packer->kc, to);
        if (at != to)
            memcpy(to, at, (size_t)packer->kc * item);
        memset(to + (size_t)packer->kc * item, 0, *pitch - (size_t)packer->kc * item);
    }
    return out;
}

static void pack_cols(const gemm_packer *packer, int64_t x0, int64_t nx, uint32_t *dst)
{
    for (int64_t x = 0; x < nx; x += packer->width, dst += panel_stride(packer)) {
        int64_t n = kit_min(packer->width, nx - x);
        size_t pitch;
        if (!packer->raw && !packer->src->fetch && packer->src->dtype == YK_BF16) {
            const uint16_t *line = (const uint16_t *)packer->src->p + (x0 + x) * packer->src->ld + packer->k0;
            packer->isa->pack->transpose_bf16(dst, (size_t)packer->width, line, (size_t)packer->src->ld * 2, (size_t)n,
                                              (size_t)packer->kc);
            continue;
        }
        const char *src = stage_lines(packer, x0 + x, n, &pitch);
        packer->isa->pack->transpose(dst, (size_t)packer->width, src, pitch, (size_t)n, (size_t)packer->words);
    }
}

/* An AMX strip of A: 32 rows of 32 k lie together */
static void pack_tiles(const gemm_packer *packer, int64_t x0, int64_t nx, uint32_t *dst)
{
    int64_t blocks = packer->words / 16;
    for (int64_t x = 0; x < nx; x += TILE_ROWS, dst += packer->words * TILE_ROWS) {
        int64_t n = kit_min(TILE_ROWS, nx - x);
        if (packer->src->kcontig) {
            size_t pitch;
            const char *src = stage_lines(packer, x0 + x, n, &pitch);
            for (int64_t i = 0; i < n; i++)
                for (int64_t b = 0; b < blocks; b++)
                    memcpy(dst + b * 512 + i * 16, src + (size_t)i * pitch + (size_t)b * 64, 64);
            continue;
        }
        uint32_t *pairs = (uint32_t *)(void *)(packer->tmp + 2 * STAGE);
        pack_rows(packer, x0 + x, n, pairs);
        for (int64_t b = 0; b < blocks; b++)
            packer->isa->pack->transpose(dst + b * 512, 16, pairs + b * 512, 32 * 4, 16, (size_t)n);
    }
}

/* B: panels of full width. A: the last strip is as narrow as its rows, for its own register kernel. */
static void pack_any(gemm_packer *packer, bool tiles, bool narrow, int64_t x0, int64_t nx, uint32_t *dst)
{
    if (tiles) {
        pack_tiles(packer, x0, nx, dst);
        return;
    }
    void (*pack)(const gemm_packer *, int64_t, int64_t, uint32_t *) = packer->src->kcontig ? pack_cols : pack_rows;
    int64_t full = narrow ? nx / packer->width * packer->width : nx;
    if (full)
        pack(packer, x0, full, dst);
    if (full < nx) {
        gemm_packer last = *packer;
        last.width = nx - full;
        pack(&last, x0 + full, nx - full, dst + full / packer->width * panel_stride(packer));
    }
}

/* ---- A packed as a whole ---- */

/* strip s of the part of k that begins at k0: parts in order, in each all strips */
static uint32_t *strip_of(const cpu_gemm *gemm, const void *packed, int64_t k0, int64_t kc, int64_t s)
{
    const int64_t parts = k0 / gemm->kc, before = parts * a_panel_stride(gemm, words_of(gemm, gemm->kc)) * cpu_gemm_strips(gemm);
    return (uint32_t *)packed + before + s * a_panel_stride(gemm, words_of(gemm, kc));
}

/* the same of B's panels */
static uint32_t *panel_of(const cpu_gemm *gemm, const void *packed, int64_t k0, int64_t kc, int64_t p)
{
    const int64_t parts = k0 / gemm->kc, before = parts * b_panel_stride(gemm, words_of(gemm, gemm->kc)) * cpu_gemm_panels(gemm);
    return (uint32_t *)packed + before + p * b_panel_stride(gemm, words_of(gemm, kc));
}

/* ---- The loops ---- */

typedef struct gemm_run {
    const cpu_gemm *gemm;
    const cpu_isa *isa;
    const cpu_src *a, *b;
    const cpu_sink *sink;
    char *thread_ws;
    int64_t words, panel_stride;              /* of this part of k; from one panel of packed B to the next */
    int64_t prefetch_row;                     /* the row of C whose strip's last sums are made, or -1 */
    bool direct;                              /* B is read where it lies: few rows, no packing worth its while */
    const cpu_unpacked_kernel (*unpacked)[3]; /* not NULL: A is read where it lies, for the same reason */
} gemm_run;

/* What lies further away than the first-level cache and is read or written when the sums of a panel are made. */
static void prefetch_of(const gemm_run *run, int64_t mb, int64_t j, int64_t n, const float *c, int64_t ldc, cpu_prefetch_list *list)
{
    list->n = 0;
    if (!run->gemm->scratch || run->gemm->chunks > 1)
        cpu_prefetch_add(list, c, (size_t)n * 4, (size_t)ldc * 4, (size_t)mb);
    if (run->prefetch_row >= 0)
        run->sink->prefetch(run->sink->arg, run->prefetch_row, mb, j, n, list);
}

static void block_kernel(const gemm_run *run, const uint32_t *a, int64_t mb, const uint32_t *b, size_t b_stride, int64_t nb, float *c,
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

/* C[mb, nb] of one packed strip and the panels of a block of B, which stay in L2 for the strips to come */
static void strip_kernel(const gemm_run *run, const uint32_t *pa, int64_t mb, int64_t j0, int64_t nb, int64_t k0,
                         const uint32_t *pb, float *c, int64_t ldc, int add)
{
    const cpu_gemm *gemm = run->gemm;
    cpu_prefetch_list list;
    for (int64_t j = 0; j < nb; j += gemm->nr, pb += run->panel_stride) {
        int64_t n = kit_min(gemm->nr, nb - j);
        const uint32_t *b = pb;
        size_t b_stride = (size_t)gemm->nr;
        if (run->direct && n == gemm->nr) {
            b = (const uint32_t *)run->b->p + k0 * run->b->ld + j0 + j;
            b_stride = (size_t)run->b->ld;
        }
        prefetch_of(run, mb, j0 + j, n, c + j, ldc, &list);
        block_kernel(run, pa, mb, b, b_stride, n, c + j, ldc, add, &list);
    }
}

typedef struct macro_block {
    int64_t i0, ni, j0, nj; /* macro block of C */
} macro_block;

typedef struct k_part {
    int64_t k0;
    bool first, last;         /* of the parts of k */
    const uint32_t *b_packed; /* packed B of the span */
} k_part;

/* where sums of row i, column j of the span go, the rows *ldc apart */
static float *target_of(const gemm_run *run, const macro_block *span, int64_t i, int64_t j, int64_t *ldc)
{
    const cpu_gemm *gemm = run->gemm;
    float *acc = (float *)(void *)(run->thread_ws + gemm->acc);
    *ldc = !gemm->scratch ? run->sink->ld : keeps_all(gemm) ? gemm->nc + PAD : gemm->nb;
    return !gemm->scratch ? run->sink->f32 + (span->i0 + i) * *ldc + span->j0 + j : keeps_all(gemm) ? acc + i * *ldc + j : acc;
}

/* rows i .. i+ni-1 of the span, packed in strips `stride` words apart, times all of its columns */
static void packed_rows(gemm_run *run, const macro_block *span, const k_part *part, const uint32_t *pa, int64_t stride, int64_t i,
                        int64_t ni)
{
    const cpu_gemm *gemm = run->gemm;
    const cpu_sink *sink = run->sink;
    int add = !part->first || (sink->add && !gemm->scratch);
    for (int64_t j = 0; j < span->nj; j += gemm->nb) {
        int64_t nb = kit_min(gemm->nb, span->nj - j);
        for (int64_t q = 0; q < ni; q += gemm->mr) {
            int64_t mb = kit_min(gemm->mr, ni - q), ldc;
            float *c = target_of(run, span, i + q, j, &ldc);
            run->prefetch_row = part->last && sink->prefetch ? span->i0 + i + q : -1;
            strip_kernel(run, pa + q / gemm->mr * stride, mb, span->j0 + j, nb, part->k0,
                         part->b_packed + j / gemm->nr * run->panel_stride, c, ldc, add);
            if (part->last && sink->done)
                sink->done(sink->arg, span->i0 + i + q, mb, span->j0 + j, nb, c, ldc);
        }
    }
}

/* Rows i .. i+n-1 of A as the kernels that read them in place want them: bf16 for products of f32 is widened. */
static void unpacked_at(const gemm_run *run, int64_t k0, int64_t i, int64_t n, const char **a_row)
{
    const cpu_gemm *gemm = run->gemm;
    const int64_t item = run->a->dtype == YK_F32 ? 4 : 2;
    const int64_t some = run->a->ld == run->words ? n : 1; /* rows that follow each other are widened at once */
    float *widened = (float *)(void *)(run->thread_ws + gemm->tmp + 2 * STAGE);
    for (int64_t q = 0; q < n; q++) {
        a_row[q] = (const char *)run->a->p + ((i + q) * run->a->ld + k0) * item;
        if (gemm->mode != CPU_GEMM_F32 || item == 4)
            continue;
        if (q % some == 0)
            run->isa->vec->to_f32(widened + q * run->words, a_row[q], YK_BF16, (size_t)(some * run->words));
        a_row[q] = (const char *)(widened + q * run->words);
    }
}

/* the same, A's rows where they lie; sums are those of the packed kernels, bit for bit */
static void unpacked_rows(gemm_run *run, const macro_block *span, const k_part *part)
{
    const cpu_gemm *gemm = run->gemm;
    const cpu_sink *sink = run->sink;
    int64_t most = kit_min(unpacked_most(run->isa), gemm->scratch || run->a->dtype == YK_BF16 ? gemm->mr : UNPACKED_MR);
    for (int64_t i = 0; i < span->ni; i += most) {
        const char *a_row[UNPACKED_MR];
        int64_t mb = kit_min(most, span->ni - i), width = gemm->scratch ? gemm->nb : span->nj;
        unpacked_at(run, part->k0, span->i0 + i, mb, a_row);
        for (int64_t j = 0; j < span->nj; j += width) {
            int64_t nb = kit_min(width, span->nj - j), ldc;
            float *c = target_of(run, span, i, j, &ldc);
            for (int64_t q = 0; q < mb && part->first && (gemm->scratch || !sink->add); q++)
                memset(c + q * ldc, 0, (size_t)nb * 4);
            const uint32_t *b = part->b_packed + j / gemm->nr * run->panel_stride;
            for (int64_t n = 0; n < nb; n += gemm->nr, b += run->panel_stride)
                run->unpacked[mb][gemm->nr / run->isa->vw]((size_t)run->words, a_row, b, c + n, (size_t)ldc);
            if (part->last && sink->done && !gemm->transposed)
                sink->done(sink->arg, span->i0 + i, mb, span->j0 + j, nb, c, ldc);
        }
    }
}

/* A span's finished sums, transposed back into rows of C. */
static void transposed_rows(gemm_run *run, const macro_block *span)
{
    uint32_t *rows = (uint32_t *)(void *)run->thread_ws;
    for (int64_t j = 0; j < span->nj; j += TRANSPOSE_ROWS)
        for (int64_t i = 0; i < span->ni; i += TRANSPOSE_COLUMNS) {
            int64_t n = kit_min(TRANSPOSE_ROWS, span->nj - j), width = kit_min(TRANSPOSE_COLUMNS, span->ni - i), ld;
            const float *sums = target_of(run, span, i, j, &ld);
            run->isa->pack->transpose(rows, (size_t)width, sums, (size_t)ld * 4, (size_t)width, (size_t)n);
            run->sink->done(run->sink->arg, span->j0 + j, n, span->i0 + i, width, (float *)(void *)rows, width);
        }
}

static void rows_of_block(gemm_run *run, const macro_block *span, int64_t k0, int64_t kc, bool first, bool last)
{
    const cpu_gemm *gemm = run->gemm;
    const int64_t stride = a_panel_stride(gemm, run->words);
    gemm_packer a = {run->isa, run->a, gemm->mr, k0, kc, gemm->mode != CPU_GEMM_F32, run->words, run->thread_ws + gemm->tmp, PAD};
    k_part part = {k0, first, last, (const uint32_t *)(const void *)(run->thread_ws + gemm->pack_b)};
    if (run->b->packed)
        part.b_packed = panel_of(gemm, run->b->packed, k0, kit_min(gemm->kc, run->b->ld - k0), span->j0 / gemm->nr);
    if (run->unpacked) {
        unpacked_rows(run, span, &part);
        if (last && gemm->transposed)
            transposed_rows(run, span);
        return;
    }
    if (run->a->packed) {
        packed_rows(run, span, &part, strip_of(gemm, run->a->packed, k0, kc, span->i0 / gemm->mr), stride, 0, span->ni);
        return;
    }
    for (int64_t i = 0; i < span->ni; i += gemm->mc) {
        int64_t mb = kit_min(gemm->mc, span->ni - i);
        pack_any(&a, gemm->mode == CPU_GEMM_TILE, true, span->i0 + i, mb, (uint32_t *)(void *)run->thread_ws);
        packed_rows(run, span, &part, (const uint32_t *)(const void *)run->thread_ws, stride, i, mb);
    }
}

static void pack_panel(gemm_run *run, const macro_block *span, int64_t k0, int64_t kc)
{
    const cpu_gemm *gemm = run->gemm;
    uint32_t *pb = (uint32_t *)(void *)(run->thread_ws + gemm->pack_b);
    gemm_packer packer = {run->isa, run->b, gemm->nr, k0, kc, gemm->mode != CPU_GEMM_F32, run->words, run->thread_ws + gemm->tmp, PAD};
    int64_t skip = run->direct ? span->nj / gemm->nr * gemm->nr : 0;
    if (skip < span->nj)
        pack_any(&packer, false, false, span->j0 + skip, span->nj - skip, pb + skip / gemm->nr * run->panel_stride);
}

size_t cpu_gemm_packed(const cpu_gemm *gemm)
{
    return (size_t)(gemm->chunks * b_panel_stride(gemm, words_of(gemm, gemm->kc)) * cpu_gemm_panels(gemm)) * 4 + 256;
}

size_t cpu_gemm_packed_a(const cpu_gemm *gemm)
{
    return (size_t)(gemm->chunks * a_panel_stride(gemm, words_of(gemm, gemm->kc)) * cpu_gemm_strips(gemm)) * 4 + 256;
}

void cpu_gemm_pack_panels(const cpu_gemm *gemm, const cpu_isa *isa, void *thread_ws, const cpu_src *b, int64_t from, int64_t end,
                          void *to)
{
    int64_t j = from * gemm->nr, nj = kit_min(end * gemm->nr, gemm->n) - j;
    for (int64_t k = 0; k < gemm->k && nj > 0; k += gemm->kc) {
        int64_t kc = kit_min(gemm->kc, gemm->k - k);
        gemm_packer packer = {
            isa, b, gemm->nr, k, kc, gemm->mode != CPU_GEMM_F32, words_of(gemm, kc), (char *)thread_ws + gemm->tmp, PAD};
        pack_any(&packer, false, false, j, nj, panel_of(gemm, to, k, kc, from));
    }
}

void cpu_gemm_pack(const cpu_gemm *gemm, const cpu_isa *isa, void *thread_ws, const cpu_src *b, void *to)
{
    cpu_gemm_pack_panels(gemm, isa, thread_ws, b, 0, cpu_gemm_panels(gemm), to);
}

void cpu_gemm_pack_strips(const cpu_gemm *gemm, const cpu_isa *isa, void *thread_ws, const cpu_src *a, int64_t from, int64_t end,
                          void *to)
{
    int64_t i = from * gemm->mr, ni = kit_min(end * gemm->mr, gemm->m) - i;
    for (int64_t k = 0; k < gemm->k && ni > 0; k += gemm->kc) {
        int64_t kc = kit_min(gemm->kc, gemm->k - k);
        gemm_packer packer = {
            isa, a, gemm->mr, k, kc, gemm->mode != CPU_GEMM_F32, words_of(gemm, kc), (char *)thread_ws + gemm->tmp, PAD};
        pack_any(&packer, gemm->mode == CPU_GEMM_TILE, true, i, ni, strip_of(gemm, to, k, kc, from));
    }
}

void cpu_gemm_pack_rows(const cpu_isa *isa, const cpu_src *a, int mr, int64_t m, int64_t k, void *to, void *tmp)
{
    gemm_packer packer = {isa, a, mr, 0, k, false, k, tmp, 0};
    pack_any(&packer, false, true, 0, m, to);
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
    return widened || !(gemm->scratch || done) || cols * words_of(gemm, gemm->kc) * 4 <= UNPACKED_B_BYTES;
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

void cpu_gemm_run(const cpu_gemm *gemm, const cpu_isa *isa, void *thread_ws, const cpu_src *a, const cpu_src *b, int64_t i0,
                  int64_t i1, int64_t j0, int64_t j1, const cpu_sink *sink)
{
    gemm_run run = {gemm, isa, a, b, sink, thread_ws, 0, 0, -1, false, unpacked_kernels(gemm, isa, a, sink, i1 - i0, j1 - j0)};
    run.direct = !run.unpacked && gemm->mode == CPU_GEMM_F32 && i1 - i0 <= 2 * gemm->mr && !b->fetch && !b->packed && !b->kcontig &&
               b->dtype == YK_F32;
    if (gemm->mode == CPU_GEMM_TILE)
        isa->tiles->begin();
    for (int64_t j = j0; j < j1; j += gemm->nc)
        for (int64_t i = i0; i < i1; i += gemm->mo) {
            macro_block span = {i, kit_min(gemm->mo, i1 - i), j, kit_min(gemm->nc, j1 - j)};
            for (int64_t k = 0; k < gemm->k; k += gemm->kc) {
                int64_t kc = kit_min(gemm->kc, gemm->k - k);
                run.words = words_of(gemm, kc);
                run.panel_stride = b_panel_stride(gemm, words_of(gemm, b->packed ? kit_min(gemm->kc, b->ld - k) : kc));
                if (!b->packed)
                    pack_panel(&run, &span, k, kc);
                rows_of_block(&run, &span, k, kc, k == 0, k + kc >= gemm->k);
            }
        }
    if (gemm->mode == CPU_GEMM_TILE)
        isa->tiles->end();
}

/* ---- Sharing out ---- */

void cpu_gemm_grid(const cpu_gemm *gemm, int64_t batch, int nt, int *gm, int *gn)
{
    *gm = *gn = 1;
    if (nt <= 1 || batch >= 4 * (int64_t)nt || batch % nt == 0)
        return;
    int64_t strips = cpu_gemm_strips(gemm), panels = cpu_gemm_panels(gemm), best = INT64_MAX;
    for (int d = 1; d <= nt; d++) {
        int64_t m = kit_div_up(strips, d) * gemm->mr, n = kit_div_up(panels, nt / d) * gemm->nr;
        int64_t cost = m * n * 64 + (m + n) * 64; /* the largest rectangle, then what it packs */
        if (cost < best) {
            best = cost;
            *gm = d;
            *gn = nt / d;
        }
    }
}

void cpu_gemm_part(const cpu_gemm *gemm, int gm, int gn, int r, int64_t *i0, int64_t *i1, int64_t *j0, int64_t *j1)
{
    int64_t strips = cpu_gemm_strips(gemm), panels = cpu_gemm_panels(gemm);
    cpu_part(strips, r / gn, gm, i0, i1);
    cpu_part(panels, r % gn, gn, j0, j1);
    *i0 *= gemm->mr;
    *i1 = kit_min(*i1 * gemm->mr, gemm->m);
    *j0 *= gemm->nr;
    *j1 = kit_min(*j1 * gemm->nr, gemm->n);
}
