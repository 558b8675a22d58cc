/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/cpu/gemm/gemm.h"

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

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t round_up(int64_t a, int64_t to)
{
    return div_up(a, to) * to;
}

/* n cut into even parts of at most `most`, each a multiple of `unit` */
static int64_t even_part(int64_t n, int64_t most, int64_t unit)
{
    int64_t parts = div_up(n, most);
    return round_up(div_up(n, parts), unit);
}

/* rows of A that a kernel reads where they lie */
static int unpacked_most(const cpu_isa *isa)
{
    return isa->vw == 16 ? UNPACKED_MR : UNPACKED_MR_FEW;
}

/* Whether scratch has room for the sums of all rows of a span, not of a strip alone. */
static bool keeps_all(const cpu_gemm *g)
{
    return g->scratch && (g->chunks > 1 || g->transposed);
}

static void choose_tile(cpu_gemm *g, const cpu_isa *isa)
{
    if (g->mode == CPU_GEMM_TILE) {
        g->mr = TILE_ROWS;
        g->nr = 32;
        return;
    }
    g->mr = g->transposed ? unpacked_most(isa) : (int)div_up(g->m, div_up(g->m, isa->mr));
    g->nr = g->n <= isa->vw ? isa->vw : 2 * isa->vw;
}

/* Words from one packed strip of A to the next, and between panels of B; `words` of k. AMX's strips of A are blocks of tiles. */
static int64_t a_panel_stride(const cpu_gemm *g, int64_t words)
{
    return words * g->mr + (g->mode == CPU_GEMM_TILE ? 0 : PAD);
}

static int64_t b_panel_stride(const cpu_gemm *g, int64_t words)
{
    return words * g->nr + PAD;
}

/* Blocks: a packed block of A takes half a MiB, of B 4 MiB, the sums of a macro block 4 MiB at most. */
static void choose_blocks(cpu_gemm *g)
{
    static const int64_t kmost[] = {384, 768, 2048}, kunit[] = {1, 2, 32};
    g->kc = even_part(g->k, kmost[g->mode], kunit[g->mode]);
    g->chunks = div_up(g->k, g->kc);
    int64_t words = g->mode == CPU_GEMM_F32 ? g->kc : g->kc / 2;
    g->mc = min64(round_up(g->m, g->mr), round_up(div_up(512 << 10, words * 4 + 1), g->mr));
    g->mc = min64(g->mc, 512 / g->mr * g->mr + g->mr);
    g->mc = even_part(g->m, g->mc, g->mr);
    g->nc = even_part(g->n, round_up(min64(4096, div_up(1 << 20, words)), g->nr), g->nr);
    g->nb = min64(g->nc, 256);
    g->mo = g->m;
    g->acc = g->pack_b = 0;
    int64_t acc = 0;
    if (g->scratch && !keeps_all(g))
        acc = g->mr * g->nb;
    if (keeps_all(g)) {
        g->nc = even_part(g->n, min64(g->nc, 1024), g->nr);
        g->nb = min64(g->nc, 256);
        g->mo = even_part(g->m, round_up(min64(g->m, (1 << 20) / g->nc + 1), g->mc), g->mc);
        acc = g->mo * (g->nc + PAD);
    }
    int64_t first = g->transposed ? TRANSPOSE_ROWS * TRANSPOSE_COLUMNS : div_up(g->mc, g->mr) * a_panel_stride(g, words);
    g->pack_b = cpu_round((size_t)first * 4 + 256, 4096) + 128;
    g->acc = g->pack_b + cpu_round((size_t)(div_up(g->nc, g->nr) * b_panel_stride(g, words) * 4) + 256, 4096) + 128;
    g->tmp = g->acc + cpu_round((size_t)acc * 4 + 256, 4096) + 128;
    size_t line = (size_t)(g->nr > g->mr ? g->nr : g->mr) * (size_t)words * 4;
    g->bytes = g->tmp + cpu_round(2 * STAGE + line + 512, 64);
}

static void init_any(cpu_gemm *g, const cpu_isa *isa, int da, int db)
{
    if (da == YK_BF16 && db == YK_BF16 && isa->bf16)
        g->mode = isa->bf16 == 2 ? CPU_GEMM_TILE : CPU_GEMM_PAIR;
    choose_tile(g, isa);
    choose_blocks(g);
}

void cpu_gemm_init(cpu_gemm *g, const cpu_isa *isa, int64_t m, int64_t n, int64_t k, int da, int db, bool scratch)
{
    *g = (cpu_gemm){.m = m, .n = n, .k = k, .scratch = scratch};
    init_any(g, isa, da, db);
}

void cpu_gemm_init_transposed(cpu_gemm *g, const cpu_isa *isa, int64_t m, int64_t n, int64_t k, int da, int db)
{
    *g = (cpu_gemm){.m = m, .n = n, .k = k, .scratch = true, .transposed = true};
    init_any(g, isa, da, db);
}

/* 32-bit words that kc elements of k take when packed */
static int64_t words_of(const cpu_gemm *g, int64_t kc)
{
    return g->mode == CPU_GEMM_F32 ? kc : g->mode == CPU_GEMM_PAIR ? (kc + 1) / 2 : round_up(kc, 32) / 2;
}

int64_t cpu_gemm_strips(const cpu_gemm *g)
{
    return div_up(g->m, g->mr);
}

int64_t cpu_gemm_panels(const cpu_gemm *g)
{
    return div_up(g->n, g->nr);
}

/* ---- Packing ---- */

typedef struct packer {
    const cpu_isa *isa;
    const cpu_src *s;
    int64_t w, k0, kc; /* strip width; part of k */
    bool raw;          /* 16-bit numbers in pairs, else f32 */
    int64_t words;     /* kc in 32-bit words, rounded up for tiles */
    char *tmp;
    int64_t pad;       /* words between strips */
} packer;

/* from one strip to the next */
static int64_t panel_stride(const packer *p)
{
    return p->words * p->w + p->pad;
}

static bool is_direct(const packer *p)
{
    return !p->s->fetch && p->s->dtype == (p->raw ? YK_BF16 : YK_F32);
}

/* n elements along the contiguous direction; a pointer into the source where it can be read as it is */
static const void *source_line(const packer *p, int64_t line, int64_t from, size_t n, void *out)
{
    const cpu_src *s = p->s;
    if (s->fetch) {
        s->fetch(s->arg, line, from, n, out, p->raw);
        return out;
    }
    const char *at = (const char *)s->p + (line * s->ld + from) * (s->dtype == YK_F32 ? 4 : 2);
    if (is_direct(p))
        return at;
    p->isa->to_f32(out, at, s->dtype, n);
    return out;
}

/* x contiguous: rows of x, a chunk of strips at a time */
static void pack_rows(const packer *p, int64_t x0, int64_t nx, uint32_t *dst)
{
    int64_t chunk = 1024 / p->w * p->w;
    size_t stride = (size_t)panel_stride(p);
    for (int64_t x = 0; x < nx; x += chunk) {
        size_t n = (size_t)min64(chunk, nx - x);
        uint32_t *to = dst + x / p->w * (int64_t)stride;
        for (int64_t k = 0; k < p->words; k++, to += p->w) {
            int64_t at = p->raw ? 2 * k : k;
            if (at >= p->kc) {
                for (size_t i = 0; i * (size_t)p->w < n; i++)
                    memset(to + i * stride, 0, (size_t)p->w * 4);
                continue;
            }
            const void *r0 = source_line(p, p->k0 + at, x0 + x, n, p->tmp);
            if (!p->raw) {
                p->isa->strips(to, (size_t)p->w, stride, r0, n);
                continue;
            }
            const void *r1 = at + 1 < p->kc ? source_line(p, p->k0 + at + 1, x0 + x, n, p->tmp + STAGE) : NULL;
            p->isa->strip_pairs(to, (size_t)p->w, stride, r0, r1, n);
        }
    }
}

/* k contiguous: the lines of a strip, in place or staged; returns where they are and how many bytes they are apart */
static const char *stage_lines(const packer *p, int64_t x0, int64_t nx, size_t *pitch)
{
    size_t item = p->raw ? 2 : 4;
    bool whole = p->words * 4 == p->kc * (int64_t)item;
    if (is_direct(p) && whole) {
        *pitch = (size_t)p->s->ld * item;
        return (const char *)p->s->p + (size_t)(x0 * p->s->ld + p->k0) * item;
    }
    char *out = p->tmp + 2 * STAGE;
    *pitch = (size_t)p->words * 4;
    for (int64_t i = 0; i < nx; i++) {
        char *to = out + (size_t)i * *pitch;
        const void *at = source_line(p, x0 + i, p->k0, (size_t)p->kc, to);
        if (at != to)
            memcpy(to, at, (size_t)p->kc * item);
        memset(to + (size_t)p->kc * item, 0, *pitch - (size_t)p->kc * item);
    }
    return out;
}

static void pack_cols(const packer *p, int64_t x0, int64_t nx, uint32_t *dst)
{
    for (int64_t x = 0; x < nx; x += p->w, dst += panel_stride(p)) {
        int64_t n = min64(p->w, nx - x);
        size_t pitch;
        if (!p->raw && !p->s->fetch && p->s->dtype == YK_BF16) {
            const uint16_t *line = (const uint16_t *)p->s->p + (x0 + x) * p->s->ld + p->k0;
            p->isa->transpose_bf16(dst, (size_t)p->w, line, (size_t)p->s->ld * 2, (size_t)n, (size_t)p->kc);
            continue;
        }
        const char *src = stage_lines(p, x0 + x, n, &pitch);
        p->isa->transpose(dst, (size_t)p->w, src, pitch, (size_t)n, (size_t)p->words);
    }
}

/* An AMX strip of A: 32 rows of 32 k lie together */
static void pack_tiles(const packer *p, int64_t x0, int64_t nx, uint32_t *dst)
{
    int64_t blocks = p->words / 16;
    for (int64_t x = 0; x < nx; x += TILE_ROWS, dst += p->words * TILE_ROWS) {
        int64_t n = min64(TILE_ROWS, nx - x);
        if (p->s->kcontig) {
            size_t pitch;
            const char *src = stage_lines(p, x0 + x, n, &pitch);
            for (int64_t i = 0; i < n; i++)
                for (int64_t b = 0; b < blocks; b++)
                    memcpy(dst + b * 512 + i * 16, src + (size_t)i * pitch + (size_t)b * 64, 64);
            continue;
        }
        uint32_t *pairs = (uint32_t *)(void *)(p->tmp + 2 * STAGE);
        pack_rows(p, x0 + x, n, pairs);
        for (int64_t b = 0; b < blocks; b++)
            p->isa->transpose(dst + b * 512, 16, pairs + b * 512, 32 * 4, 16, (size_t)n);
    }
}

/* B: panels of full width. A: the last strip is as narrow as its rows, for its own register kernel. */
static void pack_any(packer *p, bool tiles, bool narrow, int64_t x0, int64_t nx, uint32_t *dst)
{
    if (tiles) {
        pack_tiles(p, x0, nx, dst);
        return;
    }
    void (*pack)(const packer *, int64_t, int64_t, uint32_t *) = p->s->kcontig ? pack_cols : pack_rows;
    int64_t full = narrow ? nx / p->w * p->w : nx;
    if (full)
        pack(p, x0, full, dst);
    if (full < nx) {
        packer last = *p;
        last.w = nx - full;
        pack(&last, x0 + full, nx - full, dst + full / p->w * panel_stride(p));
    }
}

/* ---- A packed as a whole ---- */

/* strip s of the part of k that begins at k0: parts in order, in each all strips */
static uint32_t *strip_of(const cpu_gemm *g, const void *packed, int64_t k0, int64_t kc, int64_t s)
{
    const int64_t parts = k0 / g->kc, before = parts * a_panel_stride(g, words_of(g, g->kc)) * cpu_gemm_strips(g);
    return (uint32_t *)packed + before + s * a_panel_stride(g, words_of(g, kc));
}

/* the same of B's panels */
static uint32_t *panel_of(const cpu_gemm *g, const void *packed, int64_t k0, int64_t kc, int64_t p)
{
    const int64_t parts = k0 / g->kc, before = parts * b_panel_stride(g, words_of(g, g->kc)) * cpu_gemm_panels(g);
    return (uint32_t *)packed + before + p * b_panel_stride(g, words_of(g, kc));
}

/* ---- The loops ---- */

typedef struct run {
    const cpu_gemm *g;
    const cpu_isa *isa;
    const cpu_src *a, *b;
    const cpu_sink *s;
    char *thread_ws;
    int64_t words, panel_stride;              /* of this part of k; from one panel of packed B to the next */
    int64_t prefetch_row;                     /* the row of C whose strip's last sums are made, or -1 */
    bool direct;                              /* B is read where it lies: few rows, no packing worth its while */
    const cpu_unpacked_kernel (*unpacked)[3]; /* not NULL: A is read where it lies, for the same reason */
} run;

/* What lies further away than the first-level cache and is read or written when the sums of a panel are made. */
static void prefetch_of(const run *r, int64_t mb, int64_t j, int64_t n, const float *c, int64_t ldc, cpu_prefetch_list *list)
{
    list->n = 0;
    if (!r->g->scratch || r->g->chunks > 1)
        cpu_prefetch_add(list, c, (size_t)n * 4, (size_t)ldc * 4, (size_t)mb);
    if (r->prefetch_row >= 0)
        r->s->prefetch(r->s->arg, r->prefetch_row, mb, j, n, list);
}

static void block_kernel(const run *r, const uint32_t *a, int64_t mb, const uint32_t *b, size_t b_stride, int64_t nb, float *c,
                         int64_t ldc, int add, const cpu_prefetch_list *list)
{
    const cpu_gemm *g = r->g;
    const size_t n_prefetch = g->mode == CPU_GEMM_TILE ? 0 : list->n < (size_t)r->words ? list->n : (size_t)r->words;
    for (size_t i = n_prefetch; i < list->n; i++)
        __builtin_prefetch(list->at[i], 1);
    if (g->mode == CPU_GEMM_TILE) {
        r->isa->tile((size_t)r->words / 16, a, b, c, (size_t)ldc, (size_t)mb, (size_t)nb, add);
        return;
    }
    const cpu_gemm_kernel(*k)[3] = g->mode == CPU_GEMM_PAIR ? r->isa->pair : r->isa->f32;
    k[mb][g->nr / r->isa->vw]((size_t)r->words, a, b, b_stride, c, (size_t)ldc, (size_t)nb, add, list->at, n_prefetch);
}

/* C[mb, nb] of one packed strip and the panels of a block of B, which stay in L2 for the strips to come */
static void strip_kernel(const run *r, const uint32_t *pa, int64_t mb, int64_t j0, int64_t nb, int64_t k0,
                         const uint32_t *pb, float *c, int64_t ldc, int add)
{
    const cpu_gemm *g = r->g;
    cpu_prefetch_list list;
    for (int64_t j = 0; j < nb; j += g->nr, pb += r->panel_stride) {
        int64_t n = min64(g->nr, nb - j);
        const uint32_t *b = pb;
        size_t b_stride = (size_t)g->nr;
        if (r->direct && n == g->nr) {
            b = (const uint32_t *)r->b->p + k0 * r->b->ld + j0 + j;
            b_stride = (size_t)r->b->ld;
        }
        prefetch_of(r, mb, j0 + j, n, c + j, ldc, &list);
        block_kernel(r, pa, mb, b, b_stride, n, c + j, ldc, add, &list);
    }
}

typedef struct span {
    int64_t i0, ni, j0, nj; /* macro block of C */
} span;

typedef struct part {
    int64_t k0;
    bool first, last;   /* of the parts of k */
    const uint32_t *pb; /* packed B of the span */
} part;

/* where sums of row i, column j of the span go, the rows *ldc apart */
static float *target_of(const run *r, const span *t, int64_t i, int64_t j, int64_t *ldc)
{
    const cpu_gemm *g = r->g;
    float *acc = (float *)(void *)(r->thread_ws + g->acc);
    *ldc = !g->scratch ? r->s->ld : keeps_all(g) ? g->nc + PAD : g->nb;
    return !g->scratch ? r->s->f32 + (t->i0 + i) * *ldc + t->j0 + j : keeps_all(g) ? acc + i * *ldc + j : acc;
}

/* rows i .. i+ni-1 of the span, packed in strips `stride` words apart, times all of its columns */
static void packed_rows(run *r, const span *t, const part *p, const uint32_t *pa, int64_t stride, int64_t i, int64_t ni)
{
    const cpu_gemm *g = r->g;
    const cpu_sink *s = r->s;
    int add = !p->first || (s->add && !g->scratch);
    for (int64_t j = 0; j < t->nj; j += g->nb) {
        int64_t nb = min64(g->nb, t->nj - j);
        for (int64_t q = 0; q < ni; q += g->mr) {
            int64_t mb = min64(g->mr, ni - q), ldc;
            float *c = target_of(r, t, i + q, j, &ldc);
            r->prefetch_row = p->last && s->prefetch ? t->i0 + i + q : -1;
            strip_kernel(r, pa + q / g->mr * stride, mb, t->j0 + j, nb, p->k0, p->pb + j / g->nr * r->panel_stride, c, ldc, add);
            if (p->last && s->done)
                s->done(s->arg, t->i0 + i + q, mb, t->j0 + j, nb, c, ldc);
        }
    }
}

/* Rows i .. i+n-1 of A as the kernels that read them in place want them: bf16 for products of f32 is widened. */
static void unpacked_at(const run *r, int64_t k0, int64_t i, int64_t n, const char **a_row)
{
    const cpu_gemm *g = r->g;
    const int64_t item = r->a->dtype == YK_F32 ? 4 : 2;
    const int64_t some = r->a->ld == r->words ? n : 1; /* rows that follow each other are widened at once */
    float *widened = (float *)(void *)(r->thread_ws + g->tmp + 2 * STAGE);
    for (int64_t q = 0; q < n; q++) {
        a_row[q] = (const char *)r->a->p + ((i + q) * r->a->ld + k0) * item;
        if (g->mode != CPU_GEMM_F32 || item == 4)
            continue;
        if (q % some == 0)
            r->isa->to_f32(widened + q * r->words, a_row[q], YK_BF16, (size_t)(some * r->words));
        a_row[q] = (const char *)(widened + q * r->words);
    }
}

/* the same, A's rows where they lie; sums are those of the packed kernels, bit for bit */
static void unpacked_rows(run *r, const span *t, const part *p)
{
    const cpu_gemm *g = r->g;
    const cpu_sink *s = r->s;
    int64_t most = min64(unpacked_most(r->isa), g->scratch || r->a->dtype == YK_BF16 ? g->mr : UNPACKED_MR);
    for (int64_t i = 0; i < t->ni; i += most) {
        const char *a_row[UNPACKED_MR];
        int64_t mb = min64(most, t->ni - i), width = g->scratch ? g->nb : t->nj;
        unpacked_at(r, p->k0, t->i0 + i, mb, a_row);
        for (int64_t j = 0; j < t->nj; j += width) {
            int64_t nb = min64(width, t->nj - j), ldc;
            float *c = target_of(r, t, i, j, &ldc);
            for (int64_t q = 0; q < mb && p->first && (g->scratch || !s->add); q++)
                memset(c + q * ldc, 0, (size_t)nb * 4);
            const uint32_t *b = p->pb + j / g->nr * r->panel_stride;
            for (int64_t n = 0; n < nb; n += g->nr, b += r->panel_stride)
                r->unpacked[mb][g->nr / r->isa->vw]((size_t)r->words, a_row, b, c + n, (size_t)ldc);
            if (p->last && s->done && !g->transposed)
                s->done(s->arg, t->i0 + i, mb, t->j0 + j, nb, c, ldc);
        }
    }
}

/* A span's finished sums, transposed back into rows of C. */
static void transposed_rows(run *r, const span *t)
{
    uint32_t *rows = (uint32_t *)(void *)r->thread_ws;
    for (int64_t j = 0; j < t->nj; j += TRANSPOSE_ROWS)
        for (int64_t i = 0; i < t->ni; i += TRANSPOSE_COLUMNS) {
            int64_t n = min64(TRANSPOSE_ROWS, t->nj - j), width = min64(TRANSPOSE_COLUMNS, t->ni - i), ld;
            const float *sums = target_of(r, t, i, j, &ld);
            r->isa->transpose(rows, (size_t)width, sums, (size_t)ld * 4, (size_t)width, (size_t)n);
            r->s->done(r->s->arg, t->j0 + j, n, t->i0 + i, width, (float *)(void *)rows, width);
        }
}

static void rows_of_block(run *r, const span *t, int64_t k0, int64_t kc, bool first, bool last)
{
    const cpu_gemm *g = r->g;
    const int64_t stride = a_panel_stride(g, r->words);
    packer a = {r->isa, r->a, g->mr, k0, kc, g->mode != CPU_GEMM_F32, r->words, r->thread_ws + g->tmp, PAD};
    part p = {k0, first, last, (const uint32_t *)(const void *)(r->thread_ws + g->pack_b)};
    if (r->b->packed)
        p.pb = panel_of(g, r->b->packed, k0, min64(g->kc, r->b->ld - k0), t->j0 / g->nr);
    if (r->unpacked) {
        unpacked_rows(r, t, &p);
        if (last && g->transposed)
            transposed_rows(r, t);
        return;
    }
    if (r->a->packed) {
        packed_rows(r, t, &p, strip_of(g, r->a->packed, k0, kc, t->i0 / g->mr), stride, 0, t->ni);
        return;
    }
    for (int64_t i = 0; i < t->ni; i += g->mc) {
        int64_t mb = min64(g->mc, t->ni - i);
        pack_any(&a, g->mode == CPU_GEMM_TILE, true, t->i0 + i, mb, (uint32_t *)(void *)r->thread_ws);
        packed_rows(r, t, &p, (const uint32_t *)(const void *)r->thread_ws, stride, i, mb);
    }
}

static void pack_panel(run *r, const span *t, int64_t k0, int64_t kc)
{
    const cpu_gemm *g = r->g;
    uint32_t *pb = (uint32_t *)(void *)(r->thread_ws + g->pack_b);
    packer p = {r->isa, r->b, g->nr, k0, kc, g->mode != CPU_GEMM_F32, r->words, r->thread_ws + g->tmp, PAD};
    int64_t skip = r->direct ? t->nj / g->nr * g->nr : 0;
    if (skip < t->nj)
        pack_any(&p, false, false, t->j0 + skip, t->nj - skip, pb + skip / g->nr * r->panel_stride);
}

size_t cpu_gemm_packed(const cpu_gemm *g)
{
    return (size_t)(g->chunks * b_panel_stride(g, words_of(g, g->kc)) * cpu_gemm_panels(g)) * 4 + 256;
}

size_t cpu_gemm_packed_a(const cpu_gemm *g)
{
    return (size_t)(g->chunks * a_panel_stride(g, words_of(g, g->kc)) * cpu_gemm_strips(g)) * 4 + 256;
}

void cpu_gemm_pack_panels(const cpu_gemm *g, const cpu_isa *isa, void *thread_ws, const cpu_src *b, int64_t from, int64_t end,
                          void *to)
{
    int64_t j = from * g->nr, nj = min64(end * g->nr, g->n) - j;
    for (int64_t k = 0; k < g->k && nj > 0; k += g->kc) {
        int64_t kc = min64(g->kc, g->k - k);
        packer p = {isa, b, g->nr, k, kc, g->mode != CPU_GEMM_F32, words_of(g, kc), (char *)thread_ws + g->tmp, PAD};
        pack_any(&p, false, false, j, nj, panel_of(g, to, k, kc, from));
    }
}

void cpu_gemm_pack(const cpu_gemm *g, const cpu_isa *isa, void *thread_ws, const cpu_src *b, void *to)
{
    cpu_gemm_pack_panels(g, isa, thread_ws, b, 0, cpu_gemm_panels(g), to);
}

void cpu_gemm_pack_strips(const cpu_gemm *g, const cpu_isa *isa, void *thread_ws, const cpu_src *a, int64_t from, int64_t end,
                          void *to)
{
    int64_t i = from * g->mr, ni = min64(end * g->mr, g->m) - i;
    for (int64_t k = 0; k < g->k && ni > 0; k += g->kc) {
        int64_t kc = min64(g->kc, g->k - k);
        packer p = {isa, a, g->mr, k, kc, g->mode != CPU_GEMM_F32, words_of(g, kc), (char *)thread_ws + g->tmp, PAD};
        pack_any(&p, g->mode == CPU_GEMM_TILE, true, i, ni, strip_of(g, to, k, kc, from));
    }
}

void cpu_gemm_pack_rows(const cpu_isa *isa, const cpu_src *a, int mr, int64_t m, int64_t k, void *to, void *tmp)
{
    packer p = {isa, a, mr, 0, k, false, k, tmp, 0};
    pack_any(&p, false, true, 0, m, to);
}

bool cpu_gemm_in_place(const cpu_gemm *g, const cpu_src *a, int64_t rows, int64_t cols, bool done)
{
    const bool bf16_pairs = g->mode == CPU_GEMM_PAIR, widened = g->mode == CPU_GEMM_F32 && a->dtype == YK_BF16;
    if (g->mode == CPU_GEMM_TILE || a->packed || a->fetch || !a->kcontig || (bf16_pairs && (g->k & 1)))
        return false;
    if (!widened && a->dtype != (bf16_pairs ? YK_BF16 : YK_F32))
        return false;
    if (g->transposed)
        return true;
    if (rows > UNPACKED_ROWS || cols > UNPACKED_COLUMNS || (cols % g->nr && !g->scratch))
        return false;
    return widened || !(g->scratch || done) || cols * words_of(g, g->kc) * 4 <= UNPACKED_B_BYTES;
}

bool cpu_gemm_prefers_transposed(const cpu_isa *isa, int64_t m, int64_t n, int64_t k, const cpu_src *a, const cpu_src *b)
{
    cpu_gemm g;
    cpu_gemm_init_transposed(&g, isa, n, m, k, b->dtype, a->dtype);
    int64_t lanes = round_up(m, g.nr) - m; /* computed in vain */
    return a->dtype == YK_F32 && a->kcontig && m <= UNPACKED_ROWS && 8 * lanes <= m && n >= 2 * m && k >= 128 &&
           cpu_gemm_in_place(&g, b, n, m, true);
}

static const cpu_unpacked_kernel (*unpacked_kernels(const cpu_gemm *g, const cpu_isa *isa, const cpu_src *a, const cpu_sink *s,
                                          int64_t rows, int64_t cols))[3]
{
    if (!cpu_gemm_in_place(g, a, rows, cols, s->done))
        return NULL;
    return g->mode == CPU_GEMM_PAIR ? isa->pair_unpacked : isa->f32_unpacked;
}

void cpu_gemm_run(const cpu_gemm *g, const cpu_isa *isa, void *thread_ws, const cpu_src *a, const cpu_src *b, int64_t i0,
                  int64_t i1, int64_t j0, int64_t j1, const cpu_sink *s)
{
    run r = {g, isa, a, b, s, thread_ws, 0, 0, -1, false, unpacked_kernels(g, isa, a, s, i1 - i0, j1 - j0)};
    r.direct = !r.unpacked && g->mode == CPU_GEMM_F32 && i1 - i0 <= 2 * g->mr && !b->fetch && !b->packed && !b->kcontig &&
               b->dtype == YK_F32;
    if (g->mode == CPU_GEMM_TILE)
        isa->tile_begin();
    for (int64_t j = j0; j < j1; j += g->nc)
        for (int64_t i = i0; i < i1; i += g->mo) {
            span t = {i, min64(g->mo, i1 - i), j, min64(g->nc, j1 - j)};
            for (int64_t k = 0; k < g->k; k += g->kc) {
                int64_t kc = min64(g->kc, g->k - k);
                r.words = words_of(g, kc);
                r.panel_stride = b_panel_stride(g, words_of(g, b->packed ? min64(g->kc, b->ld - k) : kc));
                if (!b->packed)
                    pack_panel(&r, &t, k, kc);
                rows_of_block(&r, &t, k, kc, k == 0, k + kc >= g->k);
            }
        }
    if (g->mode == CPU_GEMM_TILE)
        isa->tile_end();
}

/* ---- Sharing out ---- */

void cpu_gemm_grid(const cpu_gemm *g, int64_t batch, int nt, int *gm, int *gn)
{
    *gm = *gn = 1;
    if (nt <= 1 || batch >= 4 * (int64_t)nt || batch % nt == 0)
        return;
    int64_t strips = cpu_gemm_strips(g), panels = cpu_gemm_panels(g), best = INT64_MAX;
    for (int d = 1; d <= nt; d++) {
        int64_t m = div_up(strips, d) * g->mr, n = div_up(panels, nt / d) * g->nr;
        int64_t cost = m * n * 64 + (m + n) * 64; /* the largest rectangle, then what it packs */
        if (cost < best) {
            best = cost;
            *gm = d;
            *gn = nt / d;
        }
    }
}

void cpu_gemm_part(const cpu_gemm *g, int gm, int gn, int r, int64_t *i0, int64_t *i1, int64_t *j0, int64_t *j1)
{
    int64_t strips = cpu_gemm_strips(g), panels = cpu_gemm_panels(g);
    cpu_part(strips, r / gn, gm, i0, i1);
    cpu_part(panels, r % gn, gn, j0, j1);
    *i0 *= g->mr;
    *i1 = min64(*i1 * g->mr, g->m);
    *j0 *= g->nr;
    *j1 = min64(*j1 * g->nr, g->n);
}
