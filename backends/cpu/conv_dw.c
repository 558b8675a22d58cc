/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The weight gradient from padded images (see conv_direct.c): gw'[(c,t), o] = sum_q x[c, q + off(t)] gy[q, o]. The rows
 * of the first operand are read in the image itself; gy is transposed once an image, with zeros between its rows. Sums
 * of a fixed share of the images are kept apart and added in order.
 */
#include <string.h>

#include "conv.h"

#define MOST_CUTS 16
#define KC 256 /* words of k at a time: the panel of gy stays in the first cache */

typedef struct lines_args {
    dw_args a;
    padding pad;
    bool pairs;
    int64_t images, cuts, rows, cg; /* rows: (c,t) of a group */
    int64_t item, words, outs;      /* bytes of an image's number; words of k; o rounded up to whole vectors */
    int mr;
    const int32_t *off;             /* of each row, numbers */
    size_t at_gy, at_tmp;           /* in the scratch: the image, gy', staged lines */
} lines_args;

static void pad_planes(const lines_args *d, const view_at *at, char *to)
{
    const view *v = &d->a.v;
    for (int64_t c = 0; c < d->cg; c++)
        for (int64_t r = 0; r < v->sy * v->sx; r++)
            for (int64_t y = 0; y < d->pad.hp; y++, to += d->pad.wp * d->item)
                cpu_view_row(at, at->p + c * v->height * v->width * yk_dtype_bytes(v->dtype),
                             (y + d->pad.miny) * v->sy + r / v->sx, 0, d->pad.wp, d->pad.minx * v->sx + r % v->sx, to,
                             d->pairs);
    memset(to, 0, 256);
}

/* one line of gy with zeros where the image has padding */
static void stage_line(const lines_args *d, const view_at *at, int64_t o, char *to)
{
    const view *v = &d->a.gv;
    const char *plane = at->p + o * v->height * v->width * yk_dtype_bytes(v->dtype);
    char *end = to + d->words * 4;
    for (int64_t y = 0; y < v->gh; y++) {
        cpu_view_row(at, plane, y, 0, v->gw, 0, to, d->pairs);
        to += v->gw * d->item;
        int64_t gap = y + 1 < v->gh ? (d->pad.wp - v->gw) * d->item : end - to;
        memset(to, 0, (size_t)gap);
        to += gap;
    }
}

/* columns o0 .. o0 + w - 1 of gy', k-major */
static void pack_gy(const lines_args *d, const view_at *at, const cpu_ctx *c, int64_t o0, int64_t w, uint32_t *to)
{
    int64_t n = d->a.g.m - o0 < w ? d->a.g.m - o0 : w;
    char *tmp = c->mine + d->at_tmp;
    for (int64_t i = 0; i < n; i++)
        stage_line(d, at, o0 + i, tmp + i * d->words * 4);
    c->isa->transpose(to, (size_t)w, tmp, (size_t)d->words * 4, (size_t)n, (size_t)d->words);
}

static void one_image(const lines_args *d, const cpu_ctx *c, const view_at *x, const view_at *gy, float *sums)
{
    const cpu_isa *isa = c->isa;
    const cpu_lines_kernel(*kernel)[3] = d->pairs ? isa->pair_lines : isa->f32_lines;
    uint32_t *pb = (uint32_t *)(void *)(c->mine + d->at_gy);
    pad_planes(d, x, c->mine);
    for (int64_t o = 0, w; o < d->outs; o += w) {
        w = d->outs - o < 2 * isa->vw ? isa->vw : 2 * isa->vw;
        pack_gy(d, gy, c, o, w, pb);
        for (int64_t k = 0; k < d->words; k += KC) {
            size_t kc = (size_t)(d->words - k < KC ? d->words - k : KC);
            for (int64_t r = 0; r < d->rows; r += d->mr) {
                int64_t n = d->rows - r < d->mr ? d->rows - r : d->mr;
                const char *line[9];
                for (int64_t i = 0; i < n; i++)
                    line[i] = c->mine + d->off[r + i] * d->item + k * 4;
                kernel[n][w / isa->vw](kc, line, pb + k * w, sums + r * d->outs + o, (size_t)d->outs);
            }
        }
    }
}

static void lines_step(const void *args, const cpu_ctx *c)
{
    const lines_args *d = args;
    const dw_args *a = &d->a;
    int64_t lo, hi, xp = a->v.height * a->v.width * yk_dtype_bytes(a->v.dtype);
    int64_t gp = a->gv.height * a->gv.width * yk_dtype_bytes(a->gv.dtype), size = d->rows * d->outs;
    cpu_part(a->groups * d->cuts, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t group = t / d->cuts, n0, n1;
        float *sums = (float *)(void *)c->shared + t * size;
        memset(sums, 0, (size_t)size * 4);
        cpu_part(d->images, (int)(t % d->cuts), (int)d->cuts, &n0, &n1);
        for (int64_t n = n0; n < n1; n++) {
            view_at x = {&a->v, c->isa, (const char *)cpu_at(c, a->x) + (n * a->v.channels + group * d->cg) * xp, 0};
            view_at gy = {&a->gv, c->isa, (const char *)cpu_at(c, a->gy) + (n * a->gv.channels + group * a->g.m) * gp, 0};
            one_image(d, c, &x, &gy, sums);
        }
    }
}

/* gw[g][o][(c,t)] = the cuts' sums in order */
static void lines_combine_step(const void *args, const cpu_ctx *c)
{
    const lines_args *d = args;
    const dw_args *a = &d->a;
    const float *part = (const float *)(const void *)c->shared;
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

bool cpu_conv_dw_direct(cpu_build *b, const dw_args *a, int64_t images, double work)
{
    lines_args *d = cpu_args(b, sizeof *d);
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
    d->words = d->pairs ? (d->pad.cols + 1) / 2 : d->pad.cols;
    d->outs = (int64_t)cpu_round((size_t)a->g.m, (size_t)b->isa->vw);
    int64_t most = b->isa->vw == 16 ? 9 : 6, strips = (d->rows + most - 1) / most;
    d->mr = (int)((d->rows + strips - 1) / strips);
    int64_t pixels = d->cg * v->sy * v->sx * d->pad.hp * d->pad.wp;
    if (images < 4 || a->g.mode == CPU_GEMM_TILE || d->rows * d->outs * a->groups > 160 << 10 || pixels > 512 << 10 ||
        d->pad.cols * 10 > v->gh * v->gw * 17 || d->words > 64 << 10)
        return false;
    int32_t *off = cpu_args(b, (size_t)d->rows * sizeof *off);
    if (!off)
        return true;
    for (int64_t r = 0; r < d->rows; r++)
        off[r] = (int32_t)cpu_padding_offset(v, &d->pad, r / v->taps, r % v->taps);
    d->off = off;
    d->at_gy = cpu_round((size_t)(pixels * d->item) + 512, 4096) + 128;
    d->at_tmp = d->at_gy + cpu_round((size_t)(d->words * 2 * b->isa->vw) * 4 + 256, 4096) + 128;
    cpu_need_mine(b, d->at_tmp + (size_t)(d->words * 2 * b->isa->vw) * 4 + 256);
    cpu_need_shared(b, (size_t)(d->cuts * a->groups * d->rows * d->outs) * 4);
    cpu_emit(b, lines_step, d, work);
    cpu_emit(b, lines_combine_step, d, (double)(d->cuts * a->groups * d->rows * d->outs) * 1.5);
    return true;
}
