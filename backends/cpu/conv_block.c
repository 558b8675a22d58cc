/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct convolution on blocks of channels, for steps above 1 and for small images: forward and dx. A group of images
 * is laid out as [block of channels][remainder modulo the step][line][column][image][vector], with zeros around, so that
 * the grid points of a line, of all images of the group, see a tap at one distance and are rows of one register block
 * (kern_block.h): full strips for images of any width. dx has a phase for each remainder of the result's pixels; they
 * share the laid out gradient and are put together before the result is written, line by line.
 */
#include <string.h>

#include "conv.h"

#define MOST_TAPS 49
#define PART_BYTES (18 << 10)  /* of the weights at a time: they stay in the first cache */
#define MOST_BYTES (3 << 20)   /* of a group laid out */
#define LEAST_ROWS 12          /* grid points of a line of a group */

/* result pixels of one remainder */
typedef struct block_phase {
    int64_t gh, gw, at_y, at_x;
    int64_t taps;
    const int32_t *tap, *off; /* which taps; words from a grid point to what (block, tap) sees */
    size_t at_u, at_c;        /* words: weights in the shared, sums in the worker's scratch */
} block_phase;

typedef struct block_args {
    cpu_grouped x;
    cpu_ref w, y;
    int64_t images, results, oh, ow, ob, step_y, step_x;
    int64_t all, wo, wc;      /* taps of the kernel; words of w between results, source channels */
    int64_t source;           /* source channels */
    uint8_t dw, dy;
    int phases;
    block_phase *phase;
    size_t at_w, at_u;        /* in the shared scratch */
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
    c->isa->to_f32((float *)(void *)(c->shared + a->at_w) + lo * a->all, (const char *)cpu_at(c, a->w) + lo * a->all * 2, a->dw,
                   (size_t)((hi - lo) * a->all));
}

/* all taps of word k of a block of results, a vector each */
static void taps_of(const block_args *a, const cpu_ctx *c, int64_t block, int64_t k, uint32_t *g)
{
    int64_t vw = c->isa->vw, n = min64(vw, a->results - block * vw), ch = a->x.p.pairs ? 2 * k : k;
    const float *w = a->dw == YK_F32 ? cpu_at(c, a->w) : (const float *)(void *)(c->shared + a->at_w);
    uint32_t second[(MOST_TAPS + 1) * 16];
    memset(g, 0, (size_t)(a->all * vw) * 4);
    w += block * vw * a->wo + ch * a->wc;
    if (ch < a->source)
        c->isa->transpose(g, (size_t)vw, w, (size_t)a->wo * 4, (size_t)n, (size_t)a->all);
    if (!a->x.p.pairs)
        return;
    memset(second, 0, (size_t)(a->all * vw) * 4);
    if (ch + 1 < a->source)
        c->isa->transpose(second, (size_t)vw, w + a->wc, (size_t)a->wo * 4, (size_t)n, (size_t)a->all);
    for (int64_t i = 0; i < a->all * vw; i++)
        g[i] = g[i] >> 16 | (second[i] & 0xffff0000u);
}

/* U[phase][panel of two vectors of results][block, tap][word][results] */
static void weights_step(const void *args, const cpu_ctx *c)
{
    const block_args *a = args;
    int64_t lo, hi, vw = c->isa->vw, words = a->x.p.blocks * vw;
    uint32_t g[(MOST_TAPS + 1) * 16];
    cpu_part(a->ob * words, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t block = t / words, k = t % words, panel = block / 2, w2 = min64(2, a->ob - 2 * panel) * vw;
        taps_of(a, c, block, k, g);
        for (int i = 0; i < a->phases; i++) {
            const block_phase *p = &a->phase[i];
            uint32_t *u = (uint32_t *)(void *)(c->shared + a->at_u) + p->at_u + panel * 2 * vw * words * p->taps;
            u += (k / vw * p->taps * vw + k % vw) * w2 + block % 2 * vw;
            for (int64_t j = 0; j < p->taps; j++)
                memcpy(u + j * vw * w2, g + p->tap[j] * vw, (size_t)vw * 4);
        }
    }
}

/* ---- Running ---- */

/* all strips of a phase, some parts of the sums of a panel */
static void strips(const block_args *a, const cpu_ctx *c, const block_phase *p, int64_t panel, int64_t part, int64_t parts)
{
    const cpu_rows_kernel(*kernel)[3] = a->x.p.pairs ? c->isa->pair_rows : c->isa->f32_rows;
    int64_t vw = c->isa->vw, row = p->gw * a->x.g, n = (row + c->isa->mr - 1) / c->isa->mr, area = p->gh * row;
    int nv = a->ob - 2 * panel < 2 ? 1 : 2;
    const float *x = (const float *)(const void *)c->mine;
    const float *u = (const float *)(const void *)(c->shared + a->at_u) + p->at_u;
    float *sums = (float *)(void *)(c->mine + a->at_c) + p->at_c + 2 * panel * area * vw;
    u += 2 * panel * vw * vw * p->taps * a->x.p.blocks + part * nv * vw * vw;
    for (int64_t y = 0; y < p->gh; y++, x += a->x.pad.wp * a->x.g * vw, sums += row * vw)
        for (int64_t s = 0; s < n; s++) {
            int64_t i = row * s / n, rows = row * (s + 1) / n - i;
            kernel[rows][nv]((size_t)parts, x + i * vw, p->off + part, u, sums + i * vw, (size_t)(area * vw), part > 0);
        }
}

static void group_products(const block_args *a, const cpu_ctx *c)
{
    int64_t vw = c->isa->vw, most = PART_BYTES / (2 * vw * vw * 4);
    for (int i = 0; i < a->phases; i++) {
        int64_t parts = a->phase[i].taps * a->x.p.blocks, cuts = (parts + most - 1) / most;
        for (int64_t panel = 0; panel < (a->ob + 1) / 2; panel++)
            for (int64_t k = 0; k < cuts; k++)
                strips(a, c, &a->phase[i], panel, parts * k / cuts, parts * (k + 1) / cuts - parts * k / cuts);
    }
}

/* a block of results of image j of the group, all phases */
static void image_out(const block_args *a, const cpu_ctx *c, int64_t image, int64_t j, int64_t block)
{
    const float zero[16] = {0};
    int64_t vw = c->isa->vw, g = a->x.g, size = a->oh * a->ow;
    float *plane = (float *)(void *)(c->mine + a->at_plane);
    for (int i = 0; i < a->phases; i++) {
        const block_phase *p = &a->phase[i];
        const float *sums = (const float *)(void *)(c->mine + a->at_c) + p->at_c + (block * p->gh * p->gw * g + j) * vw;
        for (int64_t y = 0; y < p->gh; y++)
            c->isa->spread(plane + ((y * a->step_y + p->at_y) * a->ow + p->at_x) * vw, (size_t)(a->step_x * vw),
                           p->taps ? sums + y * p->gw * g * vw : zero, p->taps ? (size_t)(g * vw) : 0, (size_t)p->gw);
    }
    char *y = cpu_at(c, a->y);
    y += (image * a->results + block * vw) * size * yk_dtype_bytes(a->dy);
    cpu_plane_out(c, plane, size, min64(vw, a->results - block * vw), y, a->dy, size, (float *)(void *)(c->mine + a->at_tmp));
}

static void block_step(const void *args, const cpu_ctx *c)
{
    const block_args *a = args;
    int64_t lo, hi, g = a->x.g;
    cpu_part((a->images + g - 1) / g, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t n = min64(g, a->images - t * g);
        cpu_grouped_in(c, &a->x, t * g, n, 0, a->x.p.blocks, (float *)(void *)(c->mine + a->at_plane), c->mine + a->at_tmp,
                       (float *)(void *)c->mine);
        group_products(a, c);
        for (int64_t b = 0; b < a->ob; b++)
            for (int64_t j = 0; j < n; j++)
                image_out(a, c, t * g + j, j, b);
    }
}

/* ---- Planning ---- */

static int64_t wrap(int64_t a, int64_t m)
{
    return (a % m + m) % m;
}

/* The taps that reach result pixels of remainder (py, px); shifts of each to d (dy, then dx from `all` on). */
static void set_phase(const conv_shape *s, bool dx, int64_t py, int64_t px, block_phase *p, int32_t *tap, int32_t *d)
{
    int64_t all = s->kh * s->kw;
    *p = (block_phase){s->oh, s->ow, py, px, 0, tap, NULL, 0, 0};
    if (dx)
        p->gh = (s->h - py + s->sh - 1) / s->sh, p->gw = (s->w - px + s->sw - 1) / s->sw;
    for (int64_t t = 0; t < all; t++) {
        int64_t ky = t / s->kw * s->dh, kx = t % s->kw * s->dw, ey = dx ? py + s->ph - ky : ky - s->ph;
        int64_t ex = dx ? px + s->pw - kx : kx - s->pw;
        if (dx && (wrap(ey, s->sh) || wrap(ex, s->sw)))
            continue;
        d[p->taps] = (int32_t)(dx ? ey / s->sh : ey);
        d[all + p->taps] = (int32_t)(dx ? ex / s->sw : ex);
        tap[p->taps++] = (int32_t)t;
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
    view v = {.sy = a->x.sy, .sx = a->x.sx, .dy = joined, .dx = joined + 2 * all};
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
    return true;
}

/* where each part of each phase lies */
static void set_offsets(cpu_build *b, block_args *a, int64_t all, const int32_t *d)
{
    int64_t vw = b->isa->vw, blocks = a->x.p.blocks;
    size_t u = 0, sums = 0;
    for (int i = 0; i < a->phases; i++, d += 2 * all) {
        block_phase *p = &a->phase[i];
        int32_t *off = cpu_args(b, (size_t)(p->taps * blocks + 1) * sizeof *off);
        view v = {.sy = a->x.sy, .sx = a->x.sx, .dy = d, .dx = d + all};
        for (int64_t k = 0; off && k < p->taps * blocks; k++)
            off[k] = (int32_t)(k / p->taps * cpu_grouped_block(&a->x, b->isa->vw) +
                               cpu_padding_offset(&v, &a->x.pad, 0, k % p->taps) * a->x.g * vw);
        p->off = off;
        p->at_u = u;
        p->at_c = sums;
        u += (size_t)(p->taps * blocks * a->ob * vw * vw);
        sums += (size_t)(p->gh * p->gw * a->x.g * a->ob * vw);
    }
    int64_t pixels = a->oh * a->ow > a->x.p.height * a->x.p.width ? a->oh * a->ow : a->x.p.height * a->x.p.width;
    size_t plane = (size_t)((pixels + vw) * vw) * 4;
    a->at_u = a->dw == YK_F32 ? 0 : cpu_round((size_t)(a->source * a->results * all) * 4, 64);
    cpu_need_shared(b, a->at_u + u * 4);
    a->at_c = cpu_round((size_t)(cpu_grouped_block(&a->x, b->isa->vw) * blocks) * 4, 4096) + 128;
    a->at_plane = a->at_c + cpu_round(sums * 4, 4096) + 128;
    a->at_tmp = a->at_plane + cpu_round(plane, 4096) + 128;
    cpu_need_mine(b, a->at_tmp + plane);
}

/* Depends on the shape and the instruction set alone. A block of channels is multiplied whole. */
static bool suits(const cpu_isa *isa, const conv_shape *s, int dtype)
{
    return s->groups == 1 && s->n >= 4 && s->c >= 8 && s->o >= 8 && s->kh * s->kw <= MOST_TAPS && (s->sh > 1 || s->sw > 1) &&
           !(isa->bf16 == 2 && dtype == YK_BF16);
}

bool cpu_conv_block(cpu_build *b, const yk_node *n, const conv_shape *s)
{
    bool dx = n->op == YK_OP_CONV2D_DX;
    const yk_value *x = cpu_in(b, n, 0), *w = cpu_in(b, n, 1), *y = cpu_out(b, n, 0);
    int64_t vw = b->isa->vw, all = s->kh * s->kw;
    if (!suits(b->isa, s, x->dtype))
        return false;
    block_args *a = cpu_args(b, sizeof *a);
    int32_t *d = cpu_args(b, (size_t)(2 * all * s->sh * s->sw) * sizeof *d);
    if (!a || !d)
        return true;
    bool pairs = b->isa->bf16 == 1 && x->dtype == YK_BF16 && w->dtype == YK_BF16;
    *a = (block_args){.x = {.p = {cpu_ref_of(x), x->dim[1], x->dim[2], x->dim[3],
                                  (x->dim[1] + (vw << pairs) - 1) / (vw << pairs), x->dtype, pairs},
                            .sy = dx ? 1 : s->sh, .sx = dx ? 1 : s->sw},
                      .w = cpu_ref_of(w), .y = cpu_ref_of(y), .images = s->n, .results = y->dim[1], .oh = y->dim[2],
                      .ow = y->dim[3], .ob = (y->dim[1] + vw - 1) / vw, .step_y = dx ? s->sh : 1, .step_x = dx ? s->sw : 1,
                      .all = all, .wo = dx ? all : all * s->c, .wc = dx ? all * s->c : all, .source = x->dim[1],
                      .dw = w->dtype, .dy = y->dtype};
    if (!set_phases(b, a, s, dx, d))
        return true;
    if (cpu_grouped_block(&a->x, b->isa->vw) * a->x.p.blocks * 4 > MOST_BYTES)
        return false;
    set_offsets(b, a, all, d);
    double weights = (double)(s->c * s->o * all);
    if (a->dw != YK_F32)
        cpu_emit(b, widen_step, a, weights * 0.2);
    cpu_emit(b, weights_step, a, weights);
    cpu_emit(b, block_step, a, (double)(s->n * s->oh * s->ow) * weights * 2 / 80);
    return true;
}
