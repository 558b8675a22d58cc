/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of the weights by Winograd's F(3x3, 4x4): E[e] = sum over tiles of X[e, tile, c] G[e, tile, o], X and G the
 * transformed tiles of the input and of the result's gradient; then each E[., c, o] back to nine taps.
 * Few channels: the images are cut into fixed parts, a worker keeps a part's E; the parts are added in order.
 * Many channels: all tiles are transformed first, then workers take squares of E, all elements, and finish them.
 */
#include <string.h>

#include "backends/cpu/conv/conv_wino.h"

#define GROUP_BYTES (768 << 10) /* X and G of a group of tiles */
#define LEAST_TILES 48          /* E is read and written once for each group */
#define MOST_CUTS 16
#define CUT_TILES 64 /* at least: E of a part is written and added as a whole */
#define SUMS_BYTES (20 << 20)   /* E of all parts */
#define FEW (128 * 128)         /* channels times results that are few */
#define ALL_BYTES (96 << 20)    /* X and G of all tiles */
#define SQUARE_C 2              /* blocks of a square of E */
#define SQUARE_O 4
#define KC 128 /* tiles at a time: a block of X and two of G in the first cache */

typedef struct dw_wino {
    wino_source x, gy;
    wino_grid g;
    wino_scratch t;
    cpu_ref gw;
    int64_t c, o, cb, ob;
    int64_t cuts, rows;            /* parts of the images; rows of tiles in a group */
    size_t e_stride, e_cut_stride; /* words from one element, one part to the next */
    size_t at_g;                   /* behind X, in the worker's or the shared scratch */
    size_t at_taps;                /* in the worker's scratch */
    uint8_t dtype;
    bool accumulate;
} dw_wino;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- E back to taps ---- */

/* channels c0 .. c0 + nc - 1 (a block at most) of result block `block`; e: their first vector, rows ld apart */
static void sums_finish(const dw_wino *d, const cpu_ctx *c, const float *e, size_t stride, int64_t ld, int64_t c0, int64_t nc,
                   int64_t block)
{
    int64_t vw = c->isa->vw;
    float *taps = (float *)(void *)(c->thread_ws + d->at_taps);
    for (int64_t i = 0; i < nc; i++)
        c->isa->wino->sums(taps + i * 9 * vw, e + i * ld, stride);
    cpu_taps_out(c, taps, 9, nc, min64(vw, d->o - block * vw), taps + 9 * vw * vw,
                 (char *)cpu_at(c, d->gw) + (block * vw * d->c + c0) * 9 * yk_dtype_bytes(d->dtype), d->c * 9, d->dtype,
                 d->accumulate);
}

/* ---- Few channels ---- */

static void add_products(const dw_wino *d, const cpu_ctx *c, const float *x, const float *gy, int64_t tiles, float *e, bool add)
{
    int64_t vw = c->isa->vw;
    size_t xs = cpu_wino_stride(c->isa, d->cb, tiles), gs = cpu_wino_stride(c->isa, d->ob, tiles);
    for (int64_t i = 0; i < WINO_ELEMENTS; i++, x += xs, gy += gs, e += d->e_stride)
        for (int64_t b = 0; b < d->cb; b++)
            for (int64_t o = 0; o < d->ob; o += 2)
                c->isa->f32_outer[min64(2, d->ob - o)](1, (size_t)tiles, x + b * tiles * vw, 0, gy + o * tiles * vw, 0,
                                                       (size_t)(tiles * vw), e + (b * vw * d->ob + o) * vw,
                                                       (size_t)(d->ob * vw), add);
}

static void part_step(const void *args, const cpu_ctx *c)
{
    const dw_wino *d = args;
    int64_t lo, hi, r0, r1;
    float *x = (float *)(void *)c->thread_ws, *gy = (float *)(void *)(c->thread_ws + d->at_g);
    cpu_part(d->cuts, c->tid, c->nt, &lo, &hi);
    for (int64_t p = lo; p < hi; p++) {
        cpu_part(d->g.images * d->g.th, (int)p, (int)d->cuts, &r0, &r1);
        for (int64_t r = r0; r < r1; r += d->rows) {
            int64_t to = min64(r1, r + d->rows), tiles = (to - r) * d->g.tw;
            wino_place px = {x, cpu_wino_stride(c->isa, d->cb, tiles), tiles};
            wino_place pg = {gy, cpu_wino_stride(c->isa, d->ob, tiles), tiles};
            cpu_wino_in(&d->x, &d->g, &d->t, c, r, to, &px);
            cpu_wino_in(&d->gy, &d->g, &d->t, c, r, to, &pg);
            add_products(d, c, x, gy, tiles, (float *)(void *)c->shared_ws + (size_t)p * d->e_cut_stride, r > r0);
        }
    }
}

/* the parts' sums in order, a row of blocks of one element at a time */
static void sum_step(const void *args, const cpu_ctx *c)
{
    const dw_wino *d = args;
    int64_t lo, hi, vw = c->isa->vw;
    size_t n = (size_t)(vw * vw * d->ob);
    cpu_part(WINO_ELEMENTS * d->cb, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        float *e = (float *)(void *)c->shared_ws + (size_t)(t / d->cb) * d->e_stride + (size_t)(t % d->cb) * n;
        for (int64_t p = 1; p < d->cuts; p++)
            c->isa->add(e, e + (size_t)p * d->e_cut_stride, n);
    }
}

static void finish_step(const void *args, const cpu_ctx *c)
{
    const dw_wino *d = args;
    int64_t lo, hi, vw = c->isa->vw;
    cpu_part(d->cb * d->ob, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t b = t / d->ob, o = t % d->ob;
        const float *e = (const float *)(const void *)c->shared_ws + (b * vw * d->ob + o) * vw;
        sums_finish(d, c, e, d->e_stride, d->ob * vw, b * vw, min64(vw, d->c - b * vw), o);
    }
}

/* ---- Many channels ---- */

static void transform_step(const void *args, const cpu_ctx *c)
{
    const dw_wino *d = args;
    int64_t lo, hi, all = d->g.images * d->g.th, vw = c->isa->vw;
    cpu_part((all + d->rows - 1) / d->rows, c->tid, c->nt, &lo, &hi);
    for (int64_t i = lo; i < hi; i++) {
        int64_t r = i * d->rows, to = min64(all, r + d->rows), tiles = all * d->g.tw;
        float *x = (float *)(void *)c->shared_ws + r * d->g.tw * vw;
        float *gy = (float *)(void *)(c->shared_ws + d->at_g) + r * d->g.tw * vw;
        wino_place px = {x, cpu_wino_stride(c->isa, d->cb, tiles), tiles};
        wino_place pg = {gy, cpu_wino_stride(c->isa, d->ob, tiles), tiles};
        cpu_wino_in(&d->x, &d->g, &d->t, c, r, to, &px);
        cpu_wino_in(&d->gy, &d->g, &d->t, c, r, to, &pg);
    }
}

/* blocks c0 .. c0 + nc - 1 of channels, o0 .. o0 + no - 1 of results, all elements */
static void square_products(const dw_wino *d, const cpu_ctx *c, int64_t c0, int64_t nc, int64_t o0, int64_t no)
{
    int64_t vw = c->isa->vw, tiles = d->g.images * d->g.th * d->g.tw;
    size_t xs = cpu_wino_stride(c->isa, d->cb, tiles), gs = cpu_wino_stride(c->isa, d->ob, tiles);
    float *e = (float *)(void *)c->thread_ws;
    const float *x = (const float *)(const void *)c->shared_ws + c0 * tiles * vw;
    const float *gy = (const float *)(const void *)(c->shared_ws + d->at_g) + o0 * tiles * vw;
    for (int64_t i = 0; i < WINO_ELEMENTS; i++, x += xs, gy += gs, e += d->e_stride)
        for (int64_t k = 0; k < tiles; k += KC)
            for (int64_t b = 0; b < nc; b++)
                for (int64_t o = 0; o < no; o += 2)
                    c->isa->f32_outer[min64(2, no - o)](1, (size_t)min64(KC, tiles - k), x + (b * tiles + k) * vw, 0,
                                                        gy + (o * tiles + k) * vw, 0, (size_t)(tiles * vw),
                                                        e + (b * vw * no + o) * vw, (size_t)(no * vw), k > 0);
    e = (float *)(void *)c->thread_ws;
    for (int64_t b = 0; b < nc; b++)
        for (int64_t o = 0; o < no; o++)
            sums_finish(d, c, e + (b * vw * no + o) * vw, d->e_stride, no * vw, (c0 + b) * vw, min64(vw, d->c - (c0 + b) * vw),
                   o0 + o);
}

static void square_step(const void *args, const cpu_ctx *c)
{
    const dw_wino *d = args;
    int64_t lo, hi, across = (d->ob + SQUARE_O - 1) / SQUARE_O, down = (d->cb + SQUARE_C - 1) / SQUARE_C;
    cpu_part(across * down, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t c0 = t / across * SQUARE_C, o0 = t % across * SQUARE_O;
        square_products(d, c, c0, min64(SQUARE_C, d->cb - c0), o0, min64(SQUARE_O, d->ob - o0));
    }
}

/* ---- Planning ---- */

static void plan_few(cpu_build *b, dw_wino *d, double work)
{
    int64_t vw = b->isa->vw, all = d->g.images * d->g.th;
    d->e_stride = (size_t)(d->cb * d->ob * vw * vw);
    d->e_cut_stride = WINO_ELEMENTS * d->e_stride;
    d->cuts = MOST_CUTS; /* halved, so that two workers, or four, have equal parts */
    while (d->cuts > 1 &&
           (d->cuts > all || all * d->g.tw < d->cuts * CUT_TILES || d->cuts * (int64_t)(d->e_cut_stride * 4) > SUMS_BYTES))
        d->cuts /= 2;
    wino_grid part = {1, (all + d->cuts - 1) / d->cuts, d->g.tw};
    d->rows = cpu_wino_rows(&part, WINO_ELEMENTS * 4 * (d->cb + d->ob) * vw, GROUP_BYTES, LEAST_TILES, 1);
    int64_t tiles = d->rows * d->g.tw;
    d->at_g = cpu_round(WINO_ELEMENTS * cpu_wino_stride(b->isa, d->cb, tiles) * 4, 4096) + 128;
    d->t = cpu_wino_scratch(b->isa, d->at_g + WINO_ELEMENTS * cpu_wino_stride(b->isa, d->ob, tiles) * 4, &d->g, d->rows,
                            d->x.p.width + 4);
    d->at_taps = d->t.plane;
    cpu_need_thread_ws(b, d->t.end + (size_t)(20 * vw * vw) * 4);
    cpu_need_shared_ws(b, (size_t)d->cuts * d->e_cut_stride * 4);
    cpu_emit(b, part_step, d, work);
    if (d->cuts > 1)
        cpu_emit(b, sum_step, d, (double)((size_t)d->cuts * d->e_cut_stride) * 0.2);
    cpu_emit(b, finish_step, d, (double)d->e_cut_stride);
}

static void plan_many(cpu_build *b, dw_wino *d, double work)
{
    int64_t vw = b->isa->vw, tiles = d->g.images * d->g.th * d->g.tw;
    size_t x = WINO_ELEMENTS * cpu_wino_stride(b->isa, d->cb, tiles) * 4,
           gy = WINO_ELEMENTS * cpu_wino_stride(b->isa, d->ob, tiles) * 4;
    d->e_stride = (size_t)(SQUARE_C * SQUARE_O * vw * vw + vw);
    d->at_g = cpu_round(x, 4096) + 128;
    d->rows = cpu_wino_rows(&d->g, WINO_ELEMENTS * 4 * (d->cb + d->ob) * vw, GROUP_BYTES, 1, b->nt);
    d->t = cpu_wino_scratch(b->isa, WINO_ELEMENTS * d->e_stride * 4, &d->g, d->rows, d->x.p.width + 4);
    d->at_taps = d->t.plane;
    cpu_need_thread_ws(b, d->t.end + (size_t)(20 * vw * vw) * 4);
    cpu_need_shared_ws(b, d->at_g + gy);
    cpu_emit(b, transform_step, d, work / 4);
    cpu_emit(b, square_step, d, work);
}

bool cpu_conv_dw_wino(cpu_build *b, const yk_node *n, const conv_shape *s)
{
    const yk_value *gy = cpu_in(b, n, 0), *x = cpu_in(b, n, 1), *gw = cpu_out(b, n, 0);
    int64_t vw = b->isa->vw;
    if (!cpu_wino_suits(b->isa, s, x->dtype))
        return false;
    dw_wino *d = cpu_args(b, sizeof *d);
    if (!d)
        return true;
    *d = (dw_wino){.c = s->c, .o = s->o, .cb = (s->c + vw - 1) / vw, .ob = (s->o + vw - 1) / vw, .gw = cpu_ref_of(gw),
                   .g = {s->n, (s->oh + 3) / 4, (s->ow + 3) / 4}, .dtype = gw->dtype,
                   .accumulate = n->flags & YK_NODE_ACCUMULATE};
    d->x = (wino_source){{cpu_ref_of(x), s->c, s->h, s->w, d->cb, x->dtype, false, 0}, s->ph, s->pw, false};
    d->gy = (wino_source){{cpu_ref_of(gy), s->o, s->oh, s->ow, d->ob, gy->dtype, false, 0}, 0, 0, true};
    int64_t all = d->g.images * d->g.th * d->g.tw * WINO_ELEMENTS * (d->cb + d->ob) * vw * 4;
    double work = (double)(s->n * s->oh * s->ow) * (double)(s->c * s->o) * 18 / 180;
    if (d->cb * d->ob * vw * vw <= FEW || all > ALL_BYTES)
        plan_few(b, d, work);
    else
        plan_many(b, d, work);
    return true;
}
