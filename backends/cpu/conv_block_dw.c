/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of the weights on blocks of channels, for steps above 1: E[t, c, o] = sum over grid points of x[c, what tap t
 * sees] gy[o, grid point], with the input laid out as in conv_block.c, so that a line's grid points are neighbours in both.
 * Where there are products of bf16 pairs, a word holds the numbers of two images: half the words, half the products.
 * The images are cut into fixed parts, each with sums of its own, added in order; result channels into ranges that keep
 * more workers busy.
 */
#include <string.h>

#include "conv.h"

#define MOST_TAPS 49
#define MOST_CUTS 16
#define LEAST_TASKS 32
#define SUMS_BYTES (20 << 20) /* of all parts */
#define MOST_BYTES (3 << 20)  /* of a group laid out */
#define LEAST_POSITIONS 64    /* grid points of a group: the sums are read and written once for each */
#define STRETCH 128           /* grid points at a time: two vectors of each in the first cache */

typedef struct dw_block {
    cpu_grouped x, gy;
    cpu_ref gw;
    int64_t images, c, o, taps; /* images: or pairs of them */
    int64_t cuts, ranges;  /* of images, of blocks of results */
    size_t cut;            /* words of one part's sums */
    const int32_t *off;    /* of each tap, words */
    size_t at_gy, at_plane, at_tmp;
    uint8_t dtype;
    bool accumulate;
} dw_block;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Sums of a group of images: blocks o0 .. o1 - 1 of results, which gy holds. */
static void group_sums(const dw_block *d, const cpu_ctx *c, int64_t o0, int64_t o1, float *e)
{
    int64_t vw = c->isa->vw, row = d->gy.pad.wp * d->gy.g * vw, area = d->gy.pad.hp * row, line = d->x.pad.wp * d->x.g * vw;
    int64_t lines = d->gy.pad.hp, stretch = STRETCH * vw / row < 1 ? 1 : STRETCH * vw / row, ld = d->gy.p.blocks * vw;
    const cpu_outer_kernel *kernel = d->x.p.twins ? c->isa->pair_outer : c->isa->f32_outer;
    const float *gy = (const float *)(const void *)(c->mine + d->at_gy), *x = (const float *)(const void *)c->mine;
    for (int64_t o = o0; o < o1; o += 2)
        for (int64_t y = 0; y < lines; y += stretch)
            for (int64_t k = 0; k < d->x.p.blocks * d->taps; k++) {
                int64_t b = k / d->taps, t = k % d->taps;
                const float *a = x + b * cpu_grouped_block(&d->x, c->isa->vw) + d->off[t] + y * line;
                kernel[min64(2, o1 - o)]((size_t)min64(stretch, lines - y), (size_t)(row / vw), a, (size_t)line,
                                         gy + (o - o0) * area + y * row, (size_t)row, (size_t)area,
                                         e + (t * d->x.p.blocks + b) * vw * ld + o * vw, (size_t)ld, 1);
            }
}

static void part_step(const void *args, const cpu_ctx *c)
{
    const dw_block *d = args;
    int64_t lo, hi, n0, n1, o0, o1, vw = c->isa->vw, g = d->x.g, ld = d->gy.p.blocks * vw;
    float *plane = (float *)(void *)(c->mine + d->at_plane);
    cpu_part(d->cuts * d->ranges, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        float *e = (float *)(void *)c->shared + (size_t)(t / d->ranges) * d->cut;
        cpu_part((d->images + g - 1) / g, (int)(t / d->ranges), (int)d->cuts, &n0, &n1);
        cpu_part(d->gy.p.blocks, (int)(t % d->ranges), (int)d->ranges, &o0, &o1);
        for (int64_t r = 0; r < d->taps * d->x.p.blocks * vw; r++)
            memset(e + r * ld + o0 * vw, 0, (size_t)((o1 - o0) * vw) * 4);
        for (int64_t i = n0; i < n1; i++) {
            int64_t n = min64(g, d->images - i * g);
            cpu_grouped_in(c, &d->x, i * g, n, 0, d->x.p.blocks, plane, c->mine + d->at_tmp, (float *)(void *)c->mine);
            cpu_grouped_in(c, &d->gy, i * g, n, o0, o1, plane, c->mine + d->at_tmp, (float *)(void *)(c->mine + d->at_gy));
            group_sums(d, c, o0, o1, e);
        }
    }
}

/* the parts' sums in order, a block of channels of one tap at a time */
static void sum_step(const void *args, const cpu_ctx *c)
{
    const dw_block *d = args;
    int64_t lo, hi;
    size_t n = (size_t)(c->isa->vw * d->gy.p.blocks * c->isa->vw);
    cpu_part(d->taps * d->x.p.blocks, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        float *e = (float *)(void *)c->shared + (size_t)t * n;
        for (int64_t p = 1; p < d->cuts; p++)
            c->isa->add(e, e + (size_t)p * d->cut, n);
    }
}

/* gw[o][c][t] from E[t][c][o], a block of channels and of results at a time */
static void finish_step(const void *args, const cpu_ctx *c)
{
    const dw_block *d = args;
    int64_t lo, hi, vw = c->isa->vw, ob = d->gy.p.blocks, cb = d->x.p.blocks;
    float *taps = (float *)(void *)c->mine;
    cpu_part(cb * ob, c->tid, c->nt, &lo, &hi);
    for (int64_t i = lo; i < hi; i++) {
        int64_t b = i / ob, o = i % ob, nc = min64(vw, d->c - b * vw);
        const float *e = (const float *)(const void *)c->shared + (b * vw * ob + o) * vw;
        for (int64_t t = 0; t < d->taps; t++, e += cb * vw * ob * vw)
            c->isa->spread(taps + t * vw, (size_t)(d->taps * vw), e, (size_t)(ob * vw), (size_t)nc);
        cpu_taps_out(c, taps, d->taps, nc, min64(vw, d->o - o * vw), taps + d->taps * vw * vw,
                     (char *)cpu_at(c, d->gw) + (o * vw * d->c + b * vw) * d->taps * yk_dtype_bytes(d->dtype), d->c * d->taps,
                     d->dtype, d->accumulate);
    }
}

/* ---- Planning ---- */

static void set_scratch(cpu_build *b, dw_block *d)
{
    int64_t vw = b->isa->vw, pixels = d->x.p.height * d->x.p.width, result = d->gy.p.height * d->gy.p.width;
    size_t plane = (size_t)(((pixels > result ? pixels : result) + vw) * vw) * 4;
    d->cut = (size_t)(d->taps * d->x.p.blocks * d->gy.p.blocks * vw * vw);
    d->cuts = min64(min64(MOST_CUTS, (d->images + d->x.g - 1) / d->x.g), SUMS_BYTES / (int64_t)(d->cut * 4));
    d->cuts = d->cuts < 1 ? 1 : d->cuts;
    d->ranges = min64((LEAST_TASKS + d->cuts - 1) / d->cuts, (d->gy.p.blocks + 3) / 4);
    d->at_gy = cpu_round((size_t)(cpu_grouped_block(&d->x, b->isa->vw) * d->x.p.blocks) * 4, 4096) + 128;
    d->at_plane = d->at_gy + cpu_round((size_t)(cpu_grouped_block(&d->gy, b->isa->vw) * d->gy.p.blocks) * 4, 4096) + 128;
    d->at_tmp = d->at_plane + cpu_round(plane, 4096) + 128;
    size_t taps = (size_t)((2 * d->taps * vw + 1) * vw) * 4;
    cpu_need_mine(b, d->at_tmp + plane > taps ? d->at_tmp + plane : taps);
    cpu_need_shared(b, (size_t)d->cuts * d->cut * 4);
}

bool cpu_conv_dw_block(cpu_build *b, const yk_node *n, const conv_shape *s, const view *v)
{
    const yk_value *gy = cpu_in(b, n, 0), *x = cpu_in(b, n, 1), *gw = cpu_out(b, n, 0);
    int64_t vw = b->isa->vw, g = (LEAST_POSITIONS + s->oh * s->ow - 1) / (s->oh * s->ow);
    if (s->groups != 1 || s->n < 4 || s->c < 8 || s->o < 8 || s->kh * s->kw > MOST_TAPS || (s->sh == 1 && s->sw == 1) ||
        (b->isa->bf16 == 2 && x->dtype == YK_BF16))
        return false;
    dw_block *d = cpu_args(b, sizeof *d);
    int32_t *off = cpu_args(b, (size_t)v->taps * sizeof *off);
    if (!d || !off)
        return true;
    int64_t twins = b->isa->bf16 == 1 && x->dtype == YK_BF16 && gy->dtype == YK_BF16 ? s->n : 0;
    *d = (dw_block){
        .x = {{cpu_ref_of(x), s->c, s->h, s->w, (s->c + vw - 1) / vw, x->dtype, false, twins}, s->sh, s->sw, cpu_padding_of(v), g},
        .gy = {{cpu_ref_of(gy), s->o, s->oh, s->ow, (s->o + vw - 1) / vw, gy->dtype, false, twins}, 1, 1,
               {0, 0, s->oh, s->ow, s->oh * s->ow}, g},
        .gw = cpu_ref_of(gw), .images = twins ? (s->n + 1) / 2 : s->n, .c = s->c, .o = s->o,
        .taps = v->taps, .off = off, .dtype = gw->dtype, .accumulate = n->flags & YK_NODE_ACCUMULATE};
    if (cpu_grouped_block(&d->x, b->isa->vw) * d->x.p.blocks * 4 > MOST_BYTES)
        return false;
    for (int32_t t = 0; t < v->taps; t++)
        off[t] = (int32_t)(cpu_padding_offset(v, &d->x.pad, 0, t) * g * vw);
    set_scratch(b, d);
    cpu_emit(b, part_step, d, (double)(s->n * s->oh * s->ow) * (double)(s->c * s->o * v->taps) * 2 / 80);
    if (d->cuts > 1)
        cpu_emit(b, sum_step, d, (double)((size_t)d->cuts * d->cut) * 0.2);
    cpu_emit(b, finish_step, d, (double)d->cut);
    return true;
}
