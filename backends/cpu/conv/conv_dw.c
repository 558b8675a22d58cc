/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The weight gradient from padded images (see conv_direct.c): gw'[(c,t), o] = sum_q x[c, q + off(t)] gy[q, o]. The rows
 * of the first operand are read in the image itself. Where lines of gy fill vectors and results are few, so is gy, with
 * positions in the lanes (kern_span.inc; widened a few planes at a time where its type is not the kernel's); else it is
 * transposed, with zeros between its rows. Sums of a fixed share of the images are kept apart and added in order.
 */
#include <string.h>

#include "backends/cpu/conv/conv.h"

#define MOST_CUTS 16
#define SPAN_ROWS 6            /* (c,t) at a time at most, positions in the lanes */
#define SPAN_OUTS 4            /* results at a time */
#define SPAN_BYTES (128 << 10) /* of all sums, a vector each */
#define KC 256 /* words of k at a time, in whole lines: the panel of gy stays in the first cache */

typedef struct row_dw {
    dw_args a;
    padding pad;
    bool pairs, spans;              /* spans: positions in the lanes */
    int64_t images, cuts, rows, cg; /* rows: (c,t) of a group */
    int64_t item, outs;             /* bytes of an image's number; o rounded up to whole vectors */
    int64_t line, gap, lines;       /* words of k of a padded line, those of its padding; lines at a time */
    int mr;
    const int32_t *off;   /* of each row, numbers */
    size_t at_gy, at_tmp; /* in the scratch: the image, gy' or spans' sums, a line of gy' */
} row_dw;

/* whether the kernels take gy's numbers as they are; else they are widened */
static bool reads_gy(const row_dw *d)
{
    return d->pairs || d->a.gv.dtype == YK_F32;
}

static void pad_planes(const row_dw *d, const view_at *at, char *to)
{
    const view *v = &d->a.v;
    for (int64_t c = 0; c < d->cg; c++)
        for (int64_t r = 0; r < v->stride_y * v->stride_x; r++)
            for (int64_t y = 0; y < d->pad.hp; y++, to += d->pad.wp * d->item)
                cpu_view_row(at, at->p + c * v->height * v->width * yk_dtype_bytes(v->dtype),
                             (y + d->pad.miny) * v->stride_y + r / v->stride_x, 0, d->pad.wp,
                             d->pad.minx * v->stride_x + r % v->stride_x, to, d->pairs);
    memset(to, 0, 256);
}

/* Line y of columns o0 .. o0 + n - 1 of gy', k-major, w words apart, with zeros where the image has padding. */
static void pack_line(const row_dw *d, const view_at *at, const cpu_ctx *c, int64_t o0, int64_t n, int64_t w, int64_t y,
                      uint32_t *to)
{
    const view *v = &d->a.gv;
    int64_t item = yk_dtype_bytes(v->dtype), size = v->height * v->width * item, words = d->pairs ? v->gw / 2 : v->gw;
    const char *from = at->p + o0 * size + y * v->gw * item;
    int64_t ahead = d->lines * v->gw * item + (y + d->lines < v->gh ? 0 : (v->channels - 1) * size); /* of the next image, then */
    char *tmp = c->thread_ws + d->at_tmp;
    for (int64_t i = 0; i < n; i++) /* planes lie pages apart: no processor fetches their lines by itself */
        for (int64_t k = 0; k < v->gw * item; k += 64)
            __builtin_prefetch(from + i * size + ahead + k, 0, 2);
    if (reads_gy(d)) {
        c->isa->transpose(to, (size_t)w, from, (size_t)size, (size_t)n, (size_t)words);
    } else if (v->dtype == YK_BF16) {
        c->isa->transpose_bf16(to, (size_t)w, from, (size_t)size, (size_t)n, (size_t)words);
    } else {
        for (int64_t i = 0; i < n; i++)
            c->isa->to_f32((float *)(void *)tmp + i * words, from + i * size, v->dtype, (size_t)words);
        c->isa->transpose(to, (size_t)w, tmp, (size_t)words * 4, (size_t)n, (size_t)words);
    }
    memset(to + words * w, 0, (size_t)((d->line - words) * w) * 4);
    for (int64_t i = 0; d->pairs && v->gw % 2 && i < n; i++)
        to[words * w + i] = ((const uint16_t *)(const void *)(from + i * size))[v->gw - 1];
}

/* lines y0 .. y1 - 1 of columns o .. o + w - 1 */
static void add_lines(const row_dw *d, const cpu_ctx *c, const view_at *gy, int64_t o, int64_t w, int64_t y0, int64_t y1,
                      float *sums)
{
    const cpu_unpacked_kernel(*kernel)[3] = d->pairs ? c->isa->pair_unpacked : c->isa->f32_unpacked;
    uint32_t *pb = (uint32_t *)(void *)(c->thread_ws + d->at_gy);
    int64_t n = d->a.g.m - o < w ? d->a.g.m - o : w, gap = y1 == d->a.gv.gh ? d->gap : 0;
    for (int64_t y = y0; y < y1; y++)
        pack_line(d, gy, c, o, n, w, y, pb + (y - y0) * d->line * w);
    for (int64_t r = 0; r < d->rows; r += d->mr) {
        int64_t rows = d->rows - r < d->mr ? d->rows - r : d->mr;
        const char *x_row[9];
        for (int64_t i = 0; i < rows; i++)
            x_row[i] = c->thread_ws + d->off[r + i] * d->item + y0 * d->line * 4;
        kernel[rows][w / c->isa->vw]((size_t)((y1 - y0) * d->line - gap), x_row, pb, sums + r * d->outs + o, (size_t)d->outs);
    }
}

/* n planes of gy from `o` on, as the kernel takes them: those that it cannot read where they lie are widened */
static const char *span_planes(const row_dw *d, const cpu_ctx *c, const char *gy, int64_t o, int64_t n)
{
    const view *v = &d->a.gv;
    int64_t size = v->height * v->width;
    gy += o * size * yk_dtype_bytes(v->dtype);
    if (reads_gy(d))
        return gy;
    c->isa->to_f32((float *)(void *)(c->thread_ws + d->at_tmp), gy, v->dtype, (size_t)(n * size));
    return c->thread_ws + d->at_tmp;
}

/* An image with positions in the lanes; sums[(c,t)][o] are vectors. */
static void add_spans(const row_dw *d, const cpu_ctx *c, const char *gy, cpu_prefetch *prefetch, float *sums)
{
    const view *v = &d->a.gv;
    const cpu_spans_kernel(*kernel)[2] = d->pairs ? c->isa->pair_spans : c->isa->f32_spans;
    int64_t m = d->a.g.m, vw = c->isa->vw, strips = (d->rows + c->isa->span_rows - 1) / c->isa->span_rows;
    size_t row_pitch = (size_t)(v->gw * d->item), plane_pitch = row_pitch * (size_t)v->gh;
    cpu_spans s = {(size_t)v->gh, row_pitch / 4, (size_t)(d->pad.wp * d->item), row_pitch, plane_pitch};
    cpu_prefetch_over(prefetch, strips * (m / SPAN_OUTS + m % SPAN_OUTS));
    for (int64_t o = 0, n; o < m; o += n) {
        n = m - o < SPAN_OUTS ? 1 : SPAN_OUTS;
        const char *planes = span_planes(d, c, gy, o, n);
        for (int64_t i = 0; i < strips; i++) {
            int64_t r = d->rows * i / strips, rows = d->rows * (i + 1) / strips - r;
            const char *x[SPAN_ROWS];
            for (int64_t j = 0; j < rows; j++)
                x[j] = c->thread_ws + d->off[r + j] * d->item;
            cpu_prefetch_read(prefetch);
            kernel[rows][n > 1](&s, x, planes, sums + (r * m + o) * vw, (size_t)(m * vw));
        }
    }
}

/* images n0 .. n1 - 1 of a group, lanes added up in the end */
static void span_images(const row_dw *d, const cpu_ctx *c, view_at x, const char *gy, int64_t n0, int64_t n1, float *to)
{
    const dw_args *a = &d->a;
    int64_t xp = a->v.channels * a->v.height * a->v.width * yk_dtype_bytes(a->v.dtype), vw = c->isa->vw, m = a->g.m;
    int64_t plane = a->gv.height * a->gv.width * yk_dtype_bytes(a->gv.dtype), gp = a->gv.channels * plane;
    float *sums = (float *)(void *)(c->thread_ws + d->at_gy);
    memset(sums, 0, (size_t)(d->rows * m * vw) * 4);
    for (int64_t n = n0; n < n1; n++, x.p += xp, gy += gp) {
        cpu_prefetch prefetch = {gy + gp, n + 1 < n1 ? gy + gp + m * plane : gy + gp, 0};
        pad_planes(d, &x, c->thread_ws);
        add_spans(d, c, gy, &prefetch, sums);
    }
    for (int64_t r = 0; r < d->rows; r++)
        for (int64_t o = 0; o < m; o++, sums += vw)
            to[r * d->outs + o] = cpu_rows_of(c->isa, YK_F32)->sum(sums, (size_t)vw);
}

static void one_image(const row_dw *d, const cpu_ctx *c, const view_at *x, const view_at *gy, float *sums)
{
    int64_t vw = c->isa->vw, gh = d->a.gv.gh;
    pad_planes(d, x, c->thread_ws);
    for (int64_t o = 0, w; o < d->outs; o += w) {
        w = d->outs - o < 2 * vw ? vw : 2 * vw;
        for (int64_t y = 0; y < gh; y += d->lines)
            add_lines(d, c, gy, o, w, y, gh - y < d->lines ? gh : y + d->lines, sums);
    }
}

static void row_dw_step(const void *args, const cpu_ctx *c)
{
    const row_dw *d = args;
    const dw_args *a = &d->a;
    int64_t lo, hi, xp = a->v.height * a->v.width * yk_dtype_bytes(a->v.dtype);
    int64_t gp = a->gv.height * a->gv.width * yk_dtype_bytes(a->gv.dtype), size = d->rows * d->outs;
    cpu_part(a->groups * d->cuts, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t group = t / d->cuts, n0, n1;
        float *sums = (float *)(void *)c->shared_ws + t * size;
        memset(sums, 0, (size_t)size * 4);
        cpu_part(d->images, (int)(t % d->cuts), (int)d->cuts, &n0, &n1);
        view_at x = {&a->v, c->isa, (const char *)cpu_at(c, a->x) + (n0 * a->v.channels + group * d->cg) * xp, 0};
        view_at gy = {&a->gv, c->isa, (const char *)cpu_at(c, a->gy) + (n0 * a->gv.channels + group * a->g.m) * gp, 0};
        if (d->spans)
            span_images(d, c, x, gy.p, n0, n1, sums);
        for (int64_t n = n0; !d->spans && n < n1; n++, x.p += a->v.channels * xp, gy.p += a->gv.channels * gp)
            one_image(d, c, &x, &gy, sums);
    }
}

/* gw[g][o][(c,t)] = the cuts' sums in order */
static void row_dw_combine_step(const void *args, const cpu_ctx *c)
{
    const row_dw *d = args;
    const dw_args *a = &d->a;
    const float *part = (const float *)(const void *)c->shared_ws;
    int64_t lo, hi, item = yk_dtype_bytes(a->dtype), m = a->g.m, size = d->rows * d->outs;
    cpu_part(a->groups * m, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++)
        for (int64_t r = 0; r < d->rows; r++) {
            char *to = (char *)cpu_at(c, a->gw) + (t * d->rows + r) * item;
            const float *p = part + t / m * d->cuts * size + r * d->outs + t % m;
            float sum = *p, old;
            for (int64_t cut = 1; cut < d->cuts; cut++)
                sum += p[cut * size];
            if (a->accumulate) {
                c->isa->to_f32(&old, to, a->dtype, 1);
                sum += old;
            }
            c->isa->from_f32(to, &sum, a->dtype, 1);
        }
}

/* Whether lines of gy fill vectors nearly, and all sums the scratch. */
static bool suits_spans(const cpu_isa *isa, const row_dw *d)
{
    int64_t bytes = d->a.gv.gw * d->item, vector = isa->vw * 4, whole = (bytes + vector - 1) / vector * vector;
    return bytes % 4 == 0 && whole * 10 <= bytes * 12 && d->rows * d->a.g.m * vector <= SPAN_BYTES;
}

bool cpu_conv_dw_direct(cpu_build *b, const dw_args *a, int64_t images, double work)
{
    row_dw *d = cpu_args(b, sizeof *d);
    if (!d)
        return true;
    const view *v = &a->v;
    d->a = *a;
    d->pad = cpu_padding_of(v);
    d->pairs = a->g.mode == CPU_GEMM_PAIR;
    d->item = d->pairs ? 2 : 4;
    d->images = images;
    d->cuts = images < MOST_CUTS ? images : MOST_CUTS;
    d->cg = a->g.n / v->taps;
    d->rows = a->g.n;
    d->pad.wp += d->pairs && d->pad.wp % 2; /* every line begins with a word */
    d->line = d->pad.wp * d->item / 4;
    d->gap = d->line - (a->gv.gw * d->item + 3) / 4;
    d->lines = d->line < KC ? KC / d->line : 1;
    d->outs = (int64_t)cpu_round((size_t)a->g.m, (size_t)b->isa->vw);
    int64_t most = b->isa->vw == 16 ? 9 : 6, strips = (d->rows + most - 1) / most;
    d->mr = (int)((d->rows + strips - 1) / strips);
    int64_t pixels = d->cg * v->stride_y * v->stride_x * d->pad.hp * d->pad.wp;
    if (images < 4 || a->g.mode == CPU_GEMM_TILE || d->rows * d->outs * a->groups > 160 << 10 || pixels > 512 << 10 ||
        d->pad.cols * 10 > v->gh * v->gw * 17)
        return false;
    int32_t *off = cpu_args(b, (size_t)d->rows * sizeof *off);
    if (!off)
        return true;
    for (int64_t r = 0; r < d->rows; r++)
        off[r] = (int32_t)cpu_padding_offset(v, &d->pad, r / v->taps, r % v->taps);
    d->off = off;
    d->at_gy = cpu_round((size_t)(pixels * d->item) + 512, 4096) + 128;
    d->spans = suits_spans(b->isa, d);
    int64_t vectors = d->spans ? d->rows * a->g.m : d->lines * d->line * 2;
    d->at_tmp = d->at_gy + cpu_round((size_t)(vectors * b->isa->vw) * 4 + 256, 4096) + 128;
    int64_t widened = reads_gy(d) ? 0 : d->spans ? a->gv.height * a->gv.width * SPAN_OUTS : v->gw * 2 * b->isa->vw;
    cpu_need_thread_ws(b, d->at_tmp + (size_t)widened * 4 + 256);
    cpu_need_shared_ws(b, (size_t)(d->cuts * a->groups * d->rows * d->outs) * 4);
    cpu_emit(b, row_dw_step, d, work);
    cpu_emit(b, row_dw_combine_step, d, (double)(d->cuts * a->groups * d->rows * d->outs) * 1.5);
    return true;
}
