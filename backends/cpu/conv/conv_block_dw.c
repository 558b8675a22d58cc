/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of the weights on blocks of channels, for steps above 1: E[t, c, o] = sum over grid points of x[c, what tap t
 * sees] gy[o, grid point], with the input laid out as in conv_block.c, so that a line's grid points are neighbours in both.
 * Where there are products of bf16 pairs, a word holds the numbers of two images: half the words, half the products.
 * The images are cut into fixed parts, each with sums of its own, added in order; result channels into ranges that keep
 * more workers busy.
 */
#include <string.h>

#include "backends/cpu/conv/conv.h"

#define MOST_TAPS 49
#define MOST_CUTS 16
#define LEAST_TASKS 32
#define SUMS_BYTES (20 << 20) /* of all parts */
#define MOST_BYTES (3 << 20)  /* of a group laid out */
#define LEAST_POSITIONS 256   /* grid points of a group, where it fits: the sums are read and written once for each */
#define STRETCH 128           /* grid points at a time: two vectors of each in the first cache */

/* grid points first .. end - 1 */
typedef struct dw_span {
    int64_t first, end;
} dw_span;

typedef struct dw_tap {
    int64_t off;        /* words from a grid point to what the tap sees */
    dw_span down, across; /* what of it is no padding */
} dw_tap;

/* A part's sums lie as [block of channels][panel: two blocks of results][tap][channel][results]. */
typedef struct dw_block {
    cpu_grouped x, gy;
    cpu_ref gw;
    int64_t images, c, o, taps; /* images: or pairs of them */
    int64_t cuts, ranges;       /* of images, of blocks of results */
    size_t cut_stride;          /* words of one part's sums */
    const dw_tap *tap;
    size_t at_gy, at_plane, at_tmp;
    uint8_t dtype;
    bool accumulate;
} dw_block;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* words from the sums' start to those of a block of channels and a panel */
static int64_t sums_at(const dw_block *d, int64_t vw, int64_t block, int64_t panel)
{
    return (block * d->gy.p.blocks + 2 * panel) * d->taps * vw * vw;
}

/* the images of the next group */
typedef struct dw_prefetch {
    cpu_prefetch x, gy;
} dw_prefetch;

static cpu_prefetch images_prefetch(const cpu_ctx *c, const cpu_planes *p, int64_t image, int64_t end)
{
    int64_t bytes = p->channels * p->height * p->width * yk_dtype_bytes(p->dtype);
    const char *from = cpu_at(c, p->at);
    if (p->image_pairs)
        image = min64(2 * image, p->image_pairs), end = min64(2 * end, p->image_pairs);
    return (cpu_prefetch){from + image * bytes, from + end * bytes, 0};
}

/* Lines y0 .. y1 - 1 of a group: one block of channels, nv vectors of results, all taps. */
static void add_lines(const dw_block *d, const cpu_ctx *c, int64_t nv, int64_t y0, int64_t y1, const float *x, const float *gy,
                      float *e, dw_prefetch *prefetch)
{
    int64_t vw = c->isa->vw, g = d->x.g, x_row = d->x.pad.wp * g * vw, row = d->gy.pad.wp * g * vw;
    const cpu_outer_kernel *kernel = d->x.p.image_pairs ? c->isa->pair_outer : c->isa->f32_outer;
    for (int64_t t = 0; t < d->taps; t++, e += vw * nv * vw) {
        const dw_tap *tap = &d->tap[t];
        cpu_prefetch_read(&prefetch->x);
        cpu_prefetch_read(&prefetch->gy);
        int64_t lo = max64(y0, tap->down.first), hi = min64(y1, tap->down.end), at = tap->across.first * g * vw;
        if (lo < hi && tap->across.first < tap->across.end)
            kernel[nv]((size_t)(hi - lo), (size_t)((tap->across.end - tap->across.first) * g), x + tap->off + lo * x_row + at,
                       (size_t)x_row, gy + lo * row + at, (size_t)row, (size_t)(d->gy.pad.hp * row), e, (size_t)(nv * vw), 1);
    }
}

/* Sums of a group of images: panels p0 .. p1 - 1 of results, which gy holds. */
static void group_sums(const dw_block *d, const cpu_ctx *c, int64_t p0, int64_t p1, float *e, dw_prefetch *prefetch)
{
    int64_t vw = c->isa->vw, row = d->gy.pad.wp * d->gy.g, lines = d->gy.pad.hp, stretch = max64(STRETCH / row, 1);
    const float *gy = (const float *)(const void *)(c->thread_ws + d->at_gy), *x = (const float *)(const void *)c->thread_ws;
    int64_t calls = d->x.p.blocks * (p1 - p0) * ((lines + stretch - 1) / stretch) * d->taps;
    cpu_prefetch_over(&prefetch->x, calls);
    cpu_prefetch_over(&prefetch->gy, calls);
    for (int64_t b = 0; b < d->x.p.blocks; b++, x += cpu_grouped_block(&d->x, c->isa->vw))
        for (int64_t p = p0; p < p1; p++)
            for (int64_t y = 0; y < lines; y += stretch)
                add_lines(d, c, min64(2, d->gy.p.blocks - 2 * p), y, min64(y + stretch, lines), x,
                          gy + (p - p0) * 2 * lines * row * vw, e + sums_at(d, vw, b, p), prefetch);
}

static void part_step(const void *args, const cpu_ctx *c)
{
    const dw_block *d = args;
    int64_t lo, hi, n0, n1, p0, p1, vw = c->isa->vw, g = d->x.g;
    float *plane = (float *)(void *)(c->thread_ws + d->at_plane);
    cpu_part(d->cuts * d->ranges, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        float *e = (float *)(void *)c->shared_ws + (size_t)(t / d->ranges) * d->cut_stride;
        cpu_part((d->images + g - 1) / g, (int)(t / d->ranges), (int)d->cuts, &n0, &n1);
        cpu_part((d->gy.p.blocks + 1) / 2, (int)(t % d->ranges), (int)d->ranges, &p0, &p1);
        int64_t o0 = 2 * p0, o1 = min64(2 * p1, d->gy.p.blocks);
        for (int64_t b = 0; b < d->x.p.blocks; b++)
            memset(e + sums_at(d, vw, b, p0), 0, (size_t)((o1 - o0) * d->taps * vw * vw) * 4);
        for (int64_t i = n0; i < n1; i++) {
            int64_t n = min64(g, d->images - i * g);
            cpu_grouped_in(c, &d->x, i * g, n, 0, d->x.p.blocks, plane, c->thread_ws + d->at_tmp, (float *)(void *)c->thread_ws);
            cpu_grouped_in(c, &d->gy, i * g, n, o0, o1, plane, c->thread_ws + d->at_tmp, (float *)(void *)(c->thread_ws + d->at_gy));
            int64_t next = (i + 1) * g, end = i + 1 < n1 ? min64(next + g, d->images) : next;
            dw_prefetch prefetch = {images_prefetch(c, &d->x.p, next, end), images_prefetch(c, &d->gy.p, next, end)};
            group_sums(d, c, p0, p1, e, &prefetch);
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
        float *e = (float *)(void *)c->shared_ws + (size_t)t * n;
        for (int64_t p = 1; p < d->cuts; p++)
            c->isa->add(e, e + (size_t)p * d->cut_stride, n);
    }
}

/* gw[o][c][t] from the sums, a block of channels and of results at a time */
static void finish_step(const void *args, const cpu_ctx *c)
{
    const dw_block *d = args;
    int64_t lo, hi, vw = c->isa->vw, ob = d->gy.p.blocks, cb = d->x.p.blocks;
    float *taps = (float *)(void *)c->thread_ws;
    cpu_part(cb * ob, c->tid, c->nt, &lo, &hi);
    for (int64_t i = lo; i < hi; i++) {
        int64_t b = i / ob, o = i % ob, nc = min64(vw, d->c - b * vw), panel_width = min64(2, ob - o / 2 * 2) * vw;
        const float *e = (const float *)(const void *)c->shared_ws + sums_at(d, vw, b, o / 2) + o % 2 * vw;
        for (int64_t t = 0; t < d->taps; t++, e += vw * panel_width)
            c->isa->spread(taps + t * vw, (size_t)(d->taps * vw), e, (size_t)panel_width, (size_t)nc);
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
    d->cut_stride = (size_t)(d->taps * d->x.p.blocks * d->gy.p.blocks * vw * vw);
    d->cuts = min64(min64(MOST_CUTS, (d->images + d->x.g - 1) / d->x.g), SUMS_BYTES / (int64_t)(d->cut_stride * 4));
    d->cuts = d->cuts < 1 ? 1 : d->cuts;
    d->ranges = min64((LEAST_TASKS + d->cuts - 1) / d->cuts, (d->gy.p.blocks + 3) / 4);
    d->at_gy = cpu_round((size_t)(cpu_grouped_block(&d->x, b->isa->vw) * d->x.p.blocks) * 4, 4096) + 128;
    d->at_plane = d->at_gy + cpu_round((size_t)(cpu_grouped_block(&d->gy, b->isa->vw) * d->gy.p.blocks) * 4, 4096) + 128;
    d->at_tmp = d->at_plane + cpu_round(plane, 4096) + 128;
    size_t taps = (size_t)((2 * d->taps * vw + 1) * vw) * 4;
    cpu_need_thread_ws(b, d->at_tmp + plane > taps ? d->at_tmp + plane : taps);
    cpu_need_shared_ws(b, (size_t)d->cuts * d->cut_stride * 4);
}

/* Which of n grid points, `stride` pixels apart, see one of `size` pixels at distance d. */
static dw_span seen_at(int64_t d, int64_t n, int64_t stride, int64_t size)
{
    dw_span s = {0, n};
    while (s.first < n && s.first * stride + d < 0)
        s.first++;
    while (s.end > s.first && (s.end - 1) * stride + d >= size)
        s.end--;
    return s;
}

/* Images of a group: enough grid points where they fit. */
static int64_t group_of(const conv_shape *s, int64_t image)
{
    int64_t size = s->oh * s->ow, wanted = (LEAST_POSITIONS + size - 1) / size;
    return max64(min64(wanted, MOST_BYTES / image), 1);
}

bool cpu_conv_dw_block(cpu_build *b, const yk_node *n, const conv_shape *s, const view *v)
{
    const yk_value *gy = cpu_in(b, n, 0), *x = cpu_in(b, n, 1), *gw = cpu_out(b, n, 0);
    int64_t vw = b->isa->vw;
    if (s->groups != 1 || s->n < 4 || s->c < 8 || s->o < 8 || s->kh * s->kw > MOST_TAPS || (s->sh == 1 && s->sw == 1) ||
        (b->isa->bf16 == 2 && x->dtype == YK_BF16))
        return false;
    dw_block *d = cpu_args(b, sizeof *d);
    dw_tap *tap = cpu_args(b, (size_t)v->taps * sizeof *tap);
    if (!d || !tap)
        return true;
    int64_t twins = b->isa->bf16 == 1 && x->dtype == YK_BF16 && gy->dtype == YK_BF16 ? s->n : 0;
    *d = (dw_block){
        .x = {{cpu_ref_of(x), s->c, s->h, s->w, (s->c + vw - 1) / vw, x->dtype, false, twins}, s->sh, s->sw, cpu_padding_of(v), 1},
        .gy = {{cpu_ref_of(gy), s->o, s->oh, s->ow, (s->o + vw - 1) / vw, gy->dtype, false, twins}, 1, 1,
               {0, 0, s->oh, s->ow, s->oh * s->ow}, 1},
        .gw = cpu_ref_of(gw), .images = twins ? (s->n + 1) / 2 : s->n, .c = s->c, .o = s->o,
        .taps = v->taps, .tap = tap, .dtype = gw->dtype, .accumulate = n->flags & YK_NODE_ACCUMULATE};
    int64_t image = cpu_grouped_block(&d->x, b->isa->vw) * d->x.p.blocks * 4;
    if (image > MOST_BYTES)
        return false;
    d->x.g = d->gy.g = group_of(s, image);
    for (int32_t t = 0; t < v->taps; t++)
        tap[t] = (dw_tap){cpu_padding_offset(v, &d->x.pad, 0, t) * d->x.g * vw, seen_at(v->dy[t], s->oh, s->sh, s->h),
                          seen_at(v->dx[t], s->ow, s->sw, s->w)};
    set_scratch(b, d);
    cpu_emit(b, part_step, d, (double)(s->n * s->oh * s->ow) * (double)(s->c * s->o * v->taps) * 2 / 80);
    if (d->cuts > 1)
        cpu_emit(b, sum_step, d, (double)((size_t)d->cuts * d->cut_stride) * 0.2);
    cpu_emit(b, finish_step, d, (double)d->cut_stride);
    return true;
}
