/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct convolution on blocks of channels, for steps above 1 and for small images: forward and dx. A group of images
 * is laid out as [block of channels][remainder modulo the step][line][column][image][vector], with zeros around, so that
 * the grid points of a line, of all images of the group, see a tap at one distance and are rows of one register block
 * (kern_block.inc): full strips for images of any width. dx has a phase for each remainder of the result's pixels; they
 * share the laid out gradient and are put together before the result is written, line by line.
 */
#include <string.h>

#include "backends/cpu/conv/conv.h"

#define MOST_TAPS 49
#define PART_BYTES (54 << 10)  /* of the weights at a time: they stay in the second cache */
#define MOST_BYTES (3 << 20)   /* of a group laid out */
#define LEAST_ROWS 12          /* grid points of a line of a group */
#define SHORT_LINE 8           /* grid points: ends of a line are strips of their own, rows of four images */
#define EDGE_ROWS 4
#define EDGE_BYTES (768 << 10) /* of such a group */

/* Taps lo .. hi - 1 of a row or a column of the kernel. */
typedef struct block_taps {
    int32_t lo, hi;
} block_taps;

/* grid points of a line, all images, that are multiplied at once; the taps across that see pixels from some of them */
typedef struct block_strip {
    int64_t at, rows;
    block_taps across;
} block_strip;

/* result pixels of one remainder */
typedef struct block_phase {
    int64_t gh, gw, first_y, first_x;
    int64_t taps, across;     /* all, and those of one line */
    const int32_t *tap, *off; /* which taps; words from a grid point to what (tap, block) sees */
    const int32_t *dy, *dx;   /* shifts of each */
    block_taps *down;         /* of each line: what sees lines of the image */
    block_strip *strip;
    int64_t strips;
    size_t at_u, at_c; /* words: weights in the shared, sums in the worker's scratch */
} block_phase;

typedef struct block_args {
    cpu_grouped x;
    cpu_ref w, y;
    int64_t images, results, oh, ow, ob, stride_y, stride_x;
    int64_t all, wo, wc;   /* taps of the kernel; words of w between results, source channels */
    int64_t source, words; /* source channels; words of a block that hold some */
    uint8_t dw, dy;
    bool widened; /* the weights, to fp32 beforehand */
    int phases;
    block_phase *phase;
    size_t at_w, at_u; /* in the shared scratch */
    size_t at_c, at_plane, at_tmp;
} block_args;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- Weights ---- */

static void widen_step(const void *args, const cpu_ctx *c)
{
    const block_args *a = args;
    int64_t lo, hi;
    cpu_part(a->source * a->results, c->tid, c->nt, &lo, &hi);
    c->isa->to_f32((float *)(void *)(c->shared_ws + a->at_w) + lo * a->all, (const char *)cpu_at(c, a->w) + lo * a->all * 2, a->dw,
                   (size_t)((hi - lo) * a->all));
}

/* all taps of word k of a block of results, a vector each */
static void taps_of(const block_args *a, const cpu_ctx *c, int64_t block, int64_t k, uint32_t *g)
{
    int64_t vw = c->isa->vw, n = min64(vw, a->results - block * vw), ch = a->x.p.pairs ? 2 * k : k;
    int64_t at = block * vw * a->wo + ch * a->wc;
    memset(g, 0, (size_t)(a->all * vw) * 4);
    if (ch >= a->source)
        return;
    if (a->x.p.pairs) {
        const uint16_t *w = (const uint16_t *)cpu_at(c, a->w) + at;
        bool two = ch + 1 < a->source;
        c->isa->transpose_pairs(g, (size_t)vw, w, two ? w + a->wc : w, (size_t)a->wo, (size_t)n, two ? (size_t)n : 0, (size_t)a->all);
        return;
    }
    const float *w = a->widened ? (const float *)(void *)(c->shared_ws + a->at_w) : cpu_at(c, a->w);
    c->isa->transpose(g, (size_t)vw, w + at, (size_t)a->wo * 4, (size_t)n, (size_t)a->all);
}

/* U[phase][panel of two vectors of results][tap, block][word][results] */
static void weights_step(const void *args, const cpu_ctx *c)
{
    const block_args *a = args;
    int64_t lo, hi, vw = c->isa->vw, blocks = a->x.p.blocks, words = blocks * a->words;
    uint32_t g[(MOST_TAPS + 1) * 16];
    cpu_part(a->ob * words, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t block = t / words, k = t % words, panel = block / 2, w2 = min64(2, a->ob - 2 * panel) * vw;
        taps_of(a, c, block, k, g);
        for (int i = 0; i < a->phases; i++) {
            const block_phase *p = &a->phase[i];
            uint32_t *u = (uint32_t *)(void *)(c->shared_ws + a->at_u) + p->at_u + panel * 2 * vw * words * p->taps;
            u += k * w2 + block % 2 * vw;
            for (int64_t j = 0; j < p->taps; j++)
                memcpy(u + j * words * w2, g + p->tap[j] * vw, (size_t)vw * 4);
        }
    }
}

/* ---- Running ---- */

typedef struct block_prefetch {
    cpu_prefetch from, to; /* images of the next group, results of this one */
} block_prefetch;

/* Parts k0 .. k1 - 1 of a panel's sums of one strip: runs of those that see pixels. */
static void add_strip(const block_args *a, const cpu_ctx *c, const block_phase *p, int nv, const block_taps *down,
                      const block_strip *strip, const float *x, const float *u, float *sums, int64_t k0, int64_t k1)
{
    int64_t vw = c->isa->vw, blocks = a->x.p.blocks, row = p->across * blocks, from = 0, to = 0;
    int64_t first = down->lo * row + strip->across.lo * blocks, area = p->gh * p->gw * a->x.g;
    cpu_rows_kernel kernel = (a->x.p.pairs ? c->isa->pair_rows : c->isa->f32_rows)[strip->rows][nv];
    for (int64_t y = down->lo; y <= down->hi; y++) {
        int64_t k = y * row + strip->across.lo * blocks, end = min64(y * row + strip->across.hi * blocks, k1);
        k = k > k0 ? k : k0;
        if (y < down->hi && k == to && k < end) {
            to = end;
            continue;
        }
        if (from < to)
            kernel((size_t)(to - from), (size_t)a->words, x, p->off + from, u + from * a->words * nv * vw, sums,
                   (size_t)(area * vw), from > first);
        from = k, to = end;
    }
}

/* all strips of a phase, some parts of the sums of a panel */
static void add_phase_strips(const block_args *a, const cpu_ctx *c, const block_phase *p, int64_t panel, int64_t k0, int64_t k1,
                   block_prefetch *prefetch)
{
    int64_t vw = c->isa->vw, row = p->gw * a->x.g;
    int nv = a->ob - 2 * panel < 2 ? 1 : 2;
    const float *x = (const float *)(const void *)c->thread_ws;
    const float *u = (const float *)(const void *)(c->shared_ws + a->at_u) + p->at_u;
    float *sums = (float *)(void *)(c->thread_ws + a->at_c) + p->at_c + 2 * panel * p->gh * row * vw;
    u += 2 * panel * vw * p->taps * a->x.p.blocks * a->words;
    for (int64_t y = 0; y < p->gh; y++, x += a->x.pad.wp * a->x.g * vw, sums += row * vw) {
        cpu_prefetch_read(&prefetch->from);
        cpu_prefetch_write(&prefetch->to);
        for (int64_t s = 0; s < p->strips; s++)
            add_strip(a, c, p, nv, &p->down[y], &p->strip[s], x + p->strip[s].at * vw, u, sums + p->strip[s].at * vw, k0, k1);
    }
}

/* The sums of a phase in parts of the weights: some taps, all blocks; where there are many of these, some of one tap. */
static int64_t phase_cuts(const block_args *a, const block_phase *p, int64_t most)
{
    int64_t blocks = a->x.p.blocks;
    return blocks > most ? p->taps * ((blocks + most - 1) / most) : (p->taps + most / blocks - 1) / (most / blocks);
}

static int64_t cut_begin(const block_args *a, const block_phase *p, int64_t most, int64_t k)
{
    int64_t blocks = a->x.p.blocks, pieces = (blocks + most - 1) / most;
    return blocks > most ? k / pieces * blocks + k % pieces * blocks / pieces : p->taps * k / phase_cuts(a, p, most) * blocks;
}

static void group_products(const block_args *a, const cpu_ctx *c, block_prefetch *prefetch)
{
    int64_t most = PART_BYTES / (2 * c->isa->vw * a->words * 4), calls = 0;
    for (int i = 0; i < a->phases; i++)
        calls += phase_cuts(a, &a->phase[i], most) * a->phase[i].gh * ((a->ob + 1) / 2);
    cpu_prefetch_over(&prefetch->from, calls);
    cpu_prefetch_over(&prefetch->to, calls);
    for (int i = 0; i < a->phases; i++) {
        const block_phase *p = &a->phase[i];
        for (int64_t panel = 0; panel < (a->ob + 1) / 2; panel++)
            for (int64_t k = 0, n = phase_cuts(a, p, most); k < n; k++)
                add_phase_strips(a, c, p, panel, cut_begin(a, p, most, k), cut_begin(a, p, most, k + 1), prefetch);
    }
}

/* a block of results of image j of the group, all phases */
static void image_out(const block_args *a, const cpu_ctx *c, int64_t image, int64_t j, int64_t block)
{
    const float zero[16] = {0};
    int64_t vw = c->isa->vw, g = a->x.g, size = a->oh * a->ow;
    float *plane = (float *)(void *)(c->thread_ws + a->at_plane);
    for (int i = 0; i < a->phases; i++) {
        const block_phase *p = &a->phase[i];
        const float *sums = (const float *)(void *)(c->thread_ws + a->at_c) + p->at_c + (block * p->gh * p->gw * g + j) * vw;
        for (int64_t y = 0; y < p->gh; y++)
            c->isa->spread(plane + ((y * a->stride_y + p->first_y) * a->ow + p->first_x) * vw, (size_t)(a->stride_x * vw),
                           p->taps ? sums + y * p->gw * g * vw : zero, p->taps ? (size_t)(g * vw) : 0, (size_t)p->gw);
    }
    char *y = cpu_at(c, a->y);
    y += (image * a->results + block * vw) * size * yk_dtype_bytes(a->dy);
    cpu_plane_out(c, plane, size, min64(vw, a->results - block * vw), y, a->dy, size, (float *)(void *)(c->thread_ws + a->at_tmp));
}

static void block_step(const void *args, const cpu_ctx *c)
{
    const block_args *a = args;
    int64_t lo, hi, g = a->x.g;
    cpu_part((a->images + g - 1) / g, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t n = min64(g, a->images - t * g);
        cpu_grouped_in(c, &a->x, t * g, n, 0, a->x.p.blocks, (float *)(void *)(c->thread_ws + a->at_plane), c->thread_ws + a->at_tmp,
                       (float *)(void *)c->thread_ws);
        int64_t from = a->source * a->x.p.height * a->x.p.width * yk_dtype_bytes(a->x.p.dtype);
        int64_t to = a->results * a->oh * a->ow * yk_dtype_bytes(a->dy), next = t * g + n;
        int64_t end = t + 1 < hi ? min64(next + g, a->images) : next;
        const char *x = cpu_at(c, a->x.p.at), *y = cpu_at(c, a->y);
        block_prefetch prefetch = {{x + next * from, x + end * from, 0}, {y + t * g * to, y + next * to, 0}};
        group_products(a, c, &prefetch);
        for (int64_t b = 0; b < a->ob; b++)
            for (int64_t j = 0; j < n; j++)
                image_out(a, c, t * g + j, j, b);
    }
}

/* ---- Planning ---- */

static int64_t floor_mod(int64_t a, int64_t m)
{
    return (a % m + m) % m;
}

/* The taps that reach result pixels of remainder (py, px); shifts of each to d (dy, then dx from `all` on). */
static void set_phase(const conv_shape *s, bool dx, int64_t py, int64_t px, block_phase *p, int32_t *tap, int32_t *d)
{
    int64_t all = s->kh * s->kw;
    *p = (block_phase){.gh = s->oh, .gw = s->ow, .first_y = py, .first_x = px, .tap = tap, .dy = d, .dx = d + all};
    if (dx)
        p->gh = (s->h - py + s->sh - 1) / s->sh, p->gw = (s->w - px + s->sw - 1) / s->sw;
    for (int64_t t = 0; t < all; t++) {
        int64_t ky = t / s->kw * s->dh, kx = t % s->kw * s->dw, ey = dx ? py + s->ph - ky : ky - s->ph;
        int64_t ex = dx ? px + s->pw - kx : kx - s->pw;
        if (dx && (floor_mod(ey, s->sh) || floor_mod(ex, s->sw)))
            continue;
        d[p->taps] = (int32_t)(dx ? ey / s->sh : ey);
        d[all + p->taps] = (int32_t)(dx ? ex / s->sw : ex);
        p->across += d[p->taps] == d[0];
        tap[p->taps++] = (int32_t)t;
    }
}

/* Which of n taps, d shifts `stride` entries apart, see one of `size` pixels from grid point q; all: none does. */
static block_taps seen_from(const int32_t *d, int64_t n, int64_t stride, int64_t at, int64_t size)
{
    block_taps t = {0, (int32_t)n};
    while (t.lo < n && (at + d[t.lo * stride] < 0 || at + d[t.lo * stride] >= size))
        t.lo++;
    while (t.hi > t.lo && (at + d[(t.hi - 1) * stride] < 0 || at + d[(t.hi - 1) * stride] >= size))
        t.hi--;
    return t.lo < t.hi ? t : (block_taps){0, (int32_t)n};
}

/* Columns x0 .. x1 - 1 of a line in strips. */
static void add_strips(cpu_build *b, const block_args *a, block_phase *p, int64_t x0, int64_t x1)
{
    int64_t rows = (x1 - x0) * a->x.g, n = (rows + b->isa->mr - 1) / b->isa->mr;
    block_taps all = {(int32_t)p->across, 0};
    for (int64_t x = x0; x < x1; x++) {
        block_taps t = seen_from(p->dx, p->across, 1, x * a->x.stride_x, a->x.p.width);
        all.lo = t.lo < all.lo ? t.lo : all.lo;
        all.hi = t.hi > all.hi ? t.hi : all.hi;
    }
    for (int64_t s = 0; s < n; s++)
        p->strip[p->strips++] = (block_strip){x0 * a->x.g + rows * s / n, rows * (s + 1) / n - rows * s / n, all};
}

/* What each line and each strip of a line sees; columns at the ends of short lines that see less are strips of their own. */
static void set_strips(cpu_build *b, const block_args *a, block_phase *p)
{
    int64_t across = p->across ? p->across : 1;
    p->down = cpu_args(b, (size_t)p->gh * sizeof *p->down);
    p->strip = cpu_args(b, (size_t)(p->gw * a->x.g) * sizeof *p->strip);
    for (int64_t y = 0; b->status == YK_OK && y < p->gh; y++)
        p->down[y] = seen_from(p->dy, p->taps / across, across, y * a->x.stride_y, a->x.p.height);
    for (int64_t x = 0, end; b->status == YK_OK && x < p->gw; x = end) {
        block_taps first = seen_from(p->dx, p->across, 1, x * a->x.stride_x, a->x.p.width);
        for (end = x + 1; end < p->gw; end++) {
            block_taps t = seen_from(p->dx, p->across, 1, end * a->x.stride_x, a->x.p.width);
            if (a->x.g >= EDGE_ROWS && p->gw <= SHORT_LINE && (t.lo != first.lo || t.hi != first.hi))
                break;
        }
        add_strips(b, a, p, x, end);
    }
}

/* all phases and the padding that they need together */
static bool set_phases(cpu_build *b, block_args *a, const conv_shape *s, bool dx, int32_t *d)
{
    int64_t all = s->kh * s->kw, nx = dx ? s->sw : 1;
    a->phases = (int)(dx ? s->sh * s->sw : 1);
    a->phase = cpu_args(b, (size_t)a->phases * sizeof *a->phase);
    int32_t *tap = cpu_args(b, (size_t)(a->phases * all) * sizeof *tap), *joined = cpu_args(b, (size_t)(4 * all) * sizeof *tap);
    if (b->status != YK_OK)
        return false;
    view v = {.stride_y = a->x.stride_y, .stride_x = a->x.stride_x, .dy = joined, .dx = joined + 2 * all};
    for (int i = 0; i < a->phases; i++) {
        block_phase *p = &a->phase[i];
        set_phase(s, dx, i / nx, i % nx, p, tap + i * all, d + 2 * i * all);
        memcpy(joined + v.taps, d + 2 * i * all, (size_t)p->taps * 4);
        memcpy(joined + 2 * all + v.taps, d + (2 * i + 1) * all, (size_t)p->taps * 4);
        v.taps += (int32_t)p->taps;
        v.gh = v.gh > p->gh ? v.gh : p->gh;
        v.gw = v.gw > p->gw ? v.gw : p->gw;
    }
    a->x.pad = cpu_padding_of(&v);
    a->x.g = (LEAST_ROWS + v.gw - 1) / v.gw;
    int64_t image = a->x.stride_y * a->x.stride_x * a->x.pad.hp * a->x.pad.wp * a->x.p.blocks * b->isa->vw * 4;
    if (v.gw <= SHORT_LINE && a->x.g < EDGE_ROWS && image * EDGE_ROWS <= EDGE_BYTES)
        a->x.g = EDGE_ROWS;
    for (int i = 0; i < a->phases; i++)
        set_strips(b, a, &a->phase[i]);
    return b->status == YK_OK;
}

/* where each part of each phase lies */
static void set_offsets(cpu_build *b, block_args *a, int64_t all, const int32_t *d)
{
    int64_t vw = b->isa->vw, blocks = a->x.p.blocks;
    size_t u = 0, sums = 0;
    for (int i = 0; i < a->phases; i++, d += 2 * all) {
        block_phase *p = &a->phase[i];
        int32_t *off = cpu_args(b, (size_t)(p->taps * blocks + 1) * sizeof *off);
        view v = {.stride_y = a->x.stride_y, .stride_x = a->x.stride_x, .dy = d, .dx = d + all};
        for (int64_t k = 0; off && k < p->taps * blocks; k++)
            off[k] = (int32_t)(k % blocks * cpu_grouped_block(&a->x, b->isa->vw) +
                               cpu_padding_offset(&v, &a->x.pad, 0, k / blocks) * a->x.g * vw);
        p->off = off;
        p->at_u = u;
        p->at_c = sums;
        u += (size_t)(p->taps * blocks * a->ob * a->words * vw);
        sums += (size_t)(p->gh * p->gw * a->x.g * a->ob * vw);
    }
    int64_t pixels = a->oh * a->ow > a->x.p.height * a->x.p.width ? a->oh * a->ow : a->x.p.height * a->x.p.width;
    size_t plane = (size_t)((pixels + vw) * vw) * 4;
    a->at_u = a->widened ? cpu_round((size_t)(a->source * a->results * all) * 4, 64) : 0;
    cpu_need_shared_ws(b, a->at_u + u * 4);
    a->at_c = cpu_round((size_t)(cpu_grouped_block(&a->x, b->isa->vw) * blocks) * 4, 4096) + 128;
    a->at_plane = a->at_c + cpu_round(sums * 4, 4096) + 128;
    a->at_tmp = a->at_plane + cpu_round(plane, 4096) + 128;
    cpu_need_thread_ws(b, a->at_tmp + plane);
}

/* Depends on the shape and the instruction set alone. A block of channels is multiplied whole. */
static bool block_suits(const cpu_isa *isa, const conv_shape *s, int dtype)
{
    return s->groups == 1 && s->n >= 4 && s->c >= 8 && s->o >= 8 && s->kh * s->kw <= MOST_TAPS && (s->sh > 1 || s->sw > 1) &&
           !(isa->bf16 == 2 && dtype == YK_BF16);
}

bool cpu_conv_block(cpu_build *b, const yk_node *n, const conv_shape *s)
{
    bool dx = n->op == YK_OP_CONV2D_DX;
    const yk_value *x = cpu_in(b, n, 0), *w = cpu_in(b, n, 1), *y = cpu_out(b, n, 0);
    int64_t vw = b->isa->vw, all = s->kh * s->kw;
    bool pairs = b->isa->bf16 == 1 && x->dtype == YK_BF16 && w->dtype == YK_BF16;
    if (!block_suits(b->isa, s, x->dtype) || (pairs && !dx && cpu_conv_prefers_direct(b->isa, s)))
        return false;
    block_args *a = cpu_args(b, sizeof *a);
    int32_t *d = cpu_args(b, (size_t)(2 * all * s->sh * s->sw) * sizeof *d);
    if (!a || !d)
        return true;
    *a = (block_args){.x = {.p = {cpu_ref_of(x), x->dim[1], x->dim[2], x->dim[3],
                                  (x->dim[1] + (vw << pairs) - 1) / (vw << pairs), x->dtype, pairs, 0},
                            .stride_y = dx ? 1 : s->sh, .stride_x = dx ? 1 : s->sw},
                      .w = cpu_ref_of(w), .y = cpu_ref_of(y), .images = s->n, .results = y->dim[1], .oh = y->dim[2],
                      .ow = y->dim[3], .ob = (y->dim[1] + vw - 1) / vw, .stride_y = dx ? s->sh : 1, .stride_x = dx ? s->sw : 1,
                      .all = all, .wo = dx ? all : all * s->c, .wc = dx ? all * s->c : all, .source = x->dim[1],
                      .dw = w->dtype, .dy = y->dtype, .widened = !pairs && w->dtype != YK_F32};
    a->words = a->x.p.blocks > 1 ? vw : pairs ? (a->source + 1) / 2 : a->source;
    if (!set_phases(b, a, s, dx, d))
        return true;
    if (cpu_grouped_block(&a->x, b->isa->vw) * a->x.p.blocks * 4 > MOST_BYTES)
        return false;
    set_offsets(b, a, all, d);
    double weights = (double)(s->c * s->o * all);
    if (a->widened)
        cpu_emit(b, widen_step, a, weights * 0.2);
    cpu_emit(b, weights_step, a, weights);
    cpu_emit(b, block_step, a, (double)(s->n * s->oh * s->ow) * weights * 2 / 80);
    return true;
}
