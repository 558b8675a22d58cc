/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packing of a product's operands into panels, the order in which the micro-kernel reads them. gemm.c packs blocks, cpu_dot.c whole
 * operands that all workers share; on a worker, into memory of the caller.
 *
 * An operand's lines are read once, in the direction in which they are contiguous, and written k by k. If that direction is k, squares of
 * words are transposed in registers; 16-bit numbers are widened or paired on the way.
 */
#include "backends/cpu/gemm/pack.h"

#include <string.h>

#include "backends/cpu/isa/pack_kernels.h"
#include "backends/cpu/isa/vec_kernels.h"
#include "plugins/kit/value.h"

/* from one micro-panel to the next */
static int64_t panel_stride(const cpu_gemm_packer *packer)
{
    return packer->words * packer->width + packer->pad;
}

static bool is_direct(const cpu_gemm_packer *packer)
{
    return !packer->src->fetch && packer->src->dtype == (packer->raw ? YK_BF16 : YK_F32);
}

/* n elements along the contiguous direction; a pointer into the source if its numbers need no change */
static const void *source_line(const cpu_gemm_packer *packer, int64_t line, int64_t from, size_t n, void *out)
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

/* x contiguous: rows of x, a chunk of micro-panels at a time */
static void pack_rows(const cpu_gemm_packer *packer, int64_t x0, int64_t nx, uint32_t *dst)
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
            const void *r1 =
                at + 1 < packer->kc ? source_line(packer, packer->k0 + at + 1, x0 + x, n, packer->tmp + CPU_GEMM_STAGE) : NULL;
            packer->isa->pack->strip_pairs(to, (size_t)packer->width, stride, r0, r1, n);
        }
    }
}

/* k contiguous: the lines of a micro-panel, in place or staged; returns their address, and in *pitch the bytes between them */
static const char *stage_lines(const cpu_gemm_packer *packer, int64_t x0, int64_t nx, size_t *pitch)
{
    size_t item = packer->raw ? 2 : 4;
    bool whole = packer->words * 4 == packer->kc * (int64_t)item;
    if (is_direct(packer) && whole) {
        *pitch = (size_t)packer->src->ld * item;
        return (const char *)packer->src->p + (size_t)(x0 * packer->src->ld + packer->k0) * item;
    }
    char *out = packer->tmp + 2 * CPU_GEMM_STAGE;
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

static void pack_cols(const cpu_gemm_packer *packer, int64_t x0, int64_t nx, uint32_t *dst)
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

/* An AMX panel of A: 32 rows of 32 k lie together */
static void pack_tiles(const cpu_gemm_packer *packer, int64_t x0, int64_t nx, uint32_t *dst)
{
    int64_t blocks = packer->words / 16;
    for (int64_t x = 0; x < nx; x += CPU_GEMM_TILE_ROWS, dst += packer->words * CPU_GEMM_TILE_ROWS) {
        int64_t n = kit_min(CPU_GEMM_TILE_ROWS, nx - x);
        if (packer->src->kcontig) {
            size_t pitch;
            const char *src = stage_lines(packer, x0 + x, n, &pitch);
            for (int64_t i = 0; i < n; i++)
                for (int64_t b = 0; b < blocks; b++)
                    memcpy(dst + b * 512 + i * 16, src + (size_t)i * pitch + (size_t)b * 64, 64);
            continue;
        }
        uint32_t *pairs = (uint32_t *)(void *)(packer->tmp + 2 * CPU_GEMM_STAGE);
        pack_rows(packer, x0 + x, n, pairs);
        for (int64_t b = 0; b < blocks; b++)
            packer->isa->pack->transpose(dst + b * 512, 16, pairs + b * 512, 32 * 4, 16, (size_t)n);
    }
}

/* B: micro-panels of full width. A: the last one is as narrow as its rows, for its own register kernel. */
void cpu_gemm_pack(cpu_gemm_packer *packer, bool tiles, bool narrow, int64_t x0, int64_t nx, uint32_t *dst)
{
    if (tiles) {
        pack_tiles(packer, x0, nx, dst);
        return;
    }
    void (*pack)(const cpu_gemm_packer *, int64_t, int64_t, uint32_t *) = packer->src->kcontig ? pack_cols : pack_rows;
    int64_t full = narrow ? nx / packer->width * packer->width : nx;
    if (full)
        pack(packer, x0, full, dst);
    if (full < nx) {
        cpu_gemm_packer last = *packer;
        last.width = nx - full;
        pack(&last, x0 + full, nx - full, dst + full / packer->width * panel_stride(packer));
    }
}

/* ---- Packed as a whole ---- */

/* micro-panel p of the part of k that begins at k0: parts in order, in each all micro-panels */
uint32_t *cpu_gemm_a_panel(const cpu_gemm *gemm, const void *packed, int64_t k0, int64_t kc, int64_t s)
{
    const int64_t parts = k0 / gemm->kc,
                  before = parts * cpu_gemm_a_stride(gemm, cpu_gemm_words(gemm, gemm->kc)) * cpu_gemm_a_panels(gemm);
    return (uint32_t *)packed + before + s * cpu_gemm_a_stride(gemm, cpu_gemm_words(gemm, kc));
}

/* the same of B's */
uint32_t *cpu_gemm_b_panel(const cpu_gemm *gemm, const void *packed, int64_t k0, int64_t kc, int64_t p)
{
    const int64_t parts = k0 / gemm->kc,
                  before = parts * cpu_gemm_b_stride(gemm, cpu_gemm_words(gemm, gemm->kc)) * cpu_gemm_b_panels(gemm);
    return (uint32_t *)packed + before + p * cpu_gemm_b_stride(gemm, cpu_gemm_words(gemm, kc));
}

size_t cpu_gemm_packed_b_bytes(const cpu_gemm *gemm)
{
    return (size_t)(gemm->k_parts * cpu_gemm_b_stride(gemm, cpu_gemm_words(gemm, gemm->kc)) * cpu_gemm_b_panels(gemm)) * 4 + 256;
}

size_t cpu_gemm_packed_a_bytes(const cpu_gemm *gemm)
{
    return (size_t)(gemm->k_parts * cpu_gemm_a_stride(gemm, cpu_gemm_words(gemm, gemm->kc)) * cpu_gemm_a_panels(gemm)) * 4 + 256;
}

void cpu_gemm_pack_b_panels(const cpu_gemm *gemm, const cpu_isa *isa, void *thread_ws, const cpu_src *b, int64_t from, int64_t end,
                            void *to)
{
    int64_t j = from * gemm->nr, nj = kit_min(end * gemm->nr, gemm->n) - j;
    for (int64_t k = 0; k < gemm->k && nj > 0; k += gemm->kc) {
        int64_t kc = kit_min(gemm->kc, gemm->k - k);
        cpu_gemm_packer packer = {
            isa, b, gemm->nr, k, kc, gemm->mode != CPU_GEMM_F32, cpu_gemm_words(gemm, kc), (char *)thread_ws + gemm->tmp, CPU_GEMM_PAD};
        cpu_gemm_pack(&packer, false, false, j, nj, cpu_gemm_b_panel(gemm, to, k, kc, from));
    }
}

void cpu_gemm_pack_b(const cpu_gemm *gemm, const cpu_isa *isa, void *thread_ws, const cpu_src *b, void *to)
{
    cpu_gemm_pack_b_panels(gemm, isa, thread_ws, b, 0, cpu_gemm_b_panels(gemm), to);
}

void cpu_gemm_pack_a_panels(const cpu_gemm *gemm, const cpu_isa *isa, void *thread_ws, const cpu_src *a, int64_t from, int64_t end,
                            void *to)
{
    int64_t i = from * gemm->mr, ni = kit_min(end * gemm->mr, gemm->m) - i;
    for (int64_t k = 0; k < gemm->k && ni > 0; k += gemm->kc) {
        int64_t kc = kit_min(gemm->kc, gemm->k - k);
        cpu_gemm_packer packer = {
            isa, a, gemm->mr, k, kc, gemm->mode != CPU_GEMM_F32, cpu_gemm_words(gemm, kc), (char *)thread_ws + gemm->tmp, CPU_GEMM_PAD};
        cpu_gemm_pack(&packer, gemm->mode == CPU_GEMM_TILE, true, i, ni, cpu_gemm_a_panel(gemm, to, k, kc, from));
    }
}

void cpu_gemm_pack_rows(const cpu_isa *isa, const cpu_src *a, int mr, int64_t m, int64_t k, void *to, void *tmp)
{
    cpu_gemm_packer packer = {isa, a, mr, 0, k, false, k, tmp, 0};
    cpu_gemm_pack(&packer, false, true, 0, m, to);
}
