/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 3x3 convolutions of step 1, forward and dx, by Winograd's F(4x4, 3x3) (kern_wino.h): 36 products of matrices
 * M[e] = V[e] U[e], e an element of the transformed tiles, V [tile, channel], U [channel, result channel]. Everything is
 * kept in blocks of one vector of channels (kern_block.h), so that the transforms work on whole vectors whatever the
 * size of the images. A worker takes a group of neighbouring rows of tiles, all channels: transforms them, multiplies
 * with the weights (transformed once for all), transforms back. V and M of a group live in its second cache.
 */
#include <string.h>

#include "conv.h"

#define GROUP_BYTES (1 << 20) /* V and M of a group of tiles */
#define LEAST_TILES 48        /* the transformed weights are read once for each group */

typedef struct wino_args {
    cpu_ref w, x, y;
    int64_t images, channels, height, width, results, oh, ow; /* as the product sees them: dx swaps the roles */
    int64_t py, px;          /* padding above and left */
    int64_t wo, wc;          /* words of w from one result (source) channel to the next */
    bool back;               /* taps in reverse order */
    uint8_t dw, dx, dy;
    int64_t th, tw;          /* tiles of an image */
    int64_t cb, ob;          /* blocks of channels, of results */
    int64_t rows;            /* of tiles in a group */
    size_t at_w, at_u;       /* in the shared scratch: widened weights, U */
    size_t v_step, m_step;   /* words from one element to the next */
    size_t at_m, at_plane, at_zero, at_stage; /* in a worker's scratch; V at 0 */
    const int32_t *off;      /* of each block of V in whole groups */
} wino_args;

/* a part of a group that lies in one image */
typedef struct piece {
    int64_t image, from, to; /* rows of tiles */
    int64_t tile;            /* its first tile's place in the group */
} piece;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- Weights ---- */

static void widen_step(const void *args, const cpu_ctx *c)
{
    const wino_args *a = args;
    int64_t lo, hi;
    cpu_part(a->channels * a->results, c->tid, c->nt, &lo, &hi);
    c->isa->to_f32((float *)(void *)(c->shared + a->at_w) + lo * 9, (const char *)cpu_at(c, a->w) + lo * 18, a->dw,
                   (size_t)(hi - lo) * 9);
}

/* U[e][panel of two vectors of results][channel][results] */
static void weights_step(const void *args, const cpu_ctx *c)
{
    const wino_args *a = args;
    int64_t lo, hi, vw = c->isa->vw, padded = a->cb * vw;
    float *u = (float *)(void *)(c->shared + a->at_u), g[9 * 16 + 16];
    const float *w = a->dw == YK_F32 ? cpu_at(c, a->w) : (const float *)(void *)(c->shared + a->at_w);
    size_t step = (size_t)(a->ob * vw * padded);
    cpu_part(a->ob * padded, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t block = t / padded, ch = t % padded, panel = block / 2, w2 = min64(2, a->ob - 2 * panel) * vw;
        int64_t n = min64(vw, a->results - block * vw);
        if (ch < a->channels)
            c->isa->transpose((uint32_t *)(void *)g, (size_t)vw, w + block * vw * a->wo + ch * a->wc, (size_t)a->wo * 4,
                              (size_t)n, 9);
        else
            memset(g, 0, sizeof g);
        c->isa->wino->taps(u + panel * 2 * vw * padded + ch * w2 + block % 2 * vw, step, g, a->back);
    }
}

/* ---- Input ---- */

/* A block of channels of some lines of an image, to words of one vector a pixel; channels past the last are 0. */
static void plane_in(const cpu_ctx *c, const char *plane, int dtype, int64_t size, int64_t channels, int64_t pixels, float *tmp,
                     float *to)
{
    size_t vw = (size_t)c->isa->vw, apart = (size_t)size * 4;
    const char *from = plane;
    if (dtype != YK_F32) {
        apart = (size_t)pixels * 4;
        for (int64_t i = 0; i < channels; i++)
            c->isa->to_f32(tmp + i * pixels, plane + i * size * 2, dtype, (size_t)pixels);
        from = (const char *)tmp;
    }
    c->isa->transpose((uint32_t *)(void *)to, vw, from, apart, (size_t)channels, (size_t)pixels);
}

static void tiles_in(const wino_args *a, const cpu_ctx *c, const piece *p, int64_t block, float *v)
{
    int64_t vw = c->isa->vw, size = a->height * a->width, item = yk_dtype_bytes(a->dx);
    int64_t y0 = 4 * p->from - a->py, y1 = min64(4 * p->to + 2 - a->py, a->height), first = y0 < 0 ? 0 : y0;
    float *plane = (float *)(void *)(c->mine + a->at_plane), *zero = (float *)(void *)(c->mine + a->at_zero);
    const char *x = (const char *)cpu_at(c, a->x) + ((p->image * a->channels + block * vw) * size + first * a->width) * item;
    if (y1 > first)
        plane_in(c, x, a->dx, size, min64(vw, a->channels - block * vw), (y1 - first) * a->width,
                 (float *)(void *)(c->mine + a->at_stage), plane);
    for (int64_t t = p->from; t < p->to; t++) {
        const float *row[6];
        for (int64_t i = 0; i < 6; i++) {
            int64_t y = 4 * t - a->py + i;
            row[i] = y < 0 || y >= a->height ? zero : plane + (y - first) * a->width * vw;
        }
        c->isa->wino->in(v + (p->tile + (t - p->from) * a->tw) * vw, a->v_step, row, -a->px, a->width, (size_t)a->tw);
    }
}

/* ---- Products ---- */

static void products(const wino_args *a, const cpu_ctx *c, int64_t tiles, const int32_t *off)
{
    int64_t vw = c->isa->vw, strips = (tiles + c->isa->mr - 1) / c->isa->mr;
    const float *u = (const float *)(void *)(c->shared + a->at_u), *v = (const float *)(void *)c->mine;
    float *m = (float *)(void *)(c->mine + a->at_m);
    for (int64_t e = 0; e < 36; e++, v += a->v_step, m += a->m_step)
        for (int64_t o = 0; o < a->ob; o += 2) {
            int nv = a->ob - o < 2 ? 1 : 2;
            for (int64_t s = 0; s < strips; s++) {
                int64_t i = tiles * s / strips, n = tiles * (s + 1) / strips - i;
                c->isa->f32_rows[n][nv]((size_t)a->cb, v + i * vw, off, u, m + (o * tiles + i) * vw, (size_t)(tiles * vw), 0);
            }
            u += nv * vw * a->cb * vw;
        }
}

/* ---- Result ---- */

/* pixels of whole tiles to those of the image, in place */
static void crop(float *y, int64_t lines, int64_t from, int64_t to)
{
    for (int64_t i = 1; i < lines; i++)
        memmove(y + i * to, y + i * from, (size_t)to * 4);
}

/* lines of one vector a pixel to planes of the result; t: room for as many words, and a vector */
static void plane_out(const cpu_ctx *c, const float *from, int64_t pixels, int64_t channels, char *to, int dtype, int64_t size, float *t)
{
    size_t vw = (size_t)c->isa->vw;
    if (dtype == YK_F32 && pixels >= c->isa->vw) {
        c->isa->transpose((uint32_t *)(void *)to, (size_t)size, from, vw * 4, (size_t)pixels, (size_t)channels);
        return;
    }
    c->isa->transpose((uint32_t *)(void *)t, (size_t)pixels, from, vw * 4, (size_t)pixels, (size_t)channels);
    for (int64_t i = 0; i < channels; i++)
        c->isa->from_f32(to + i * size * yk_dtype_bytes((yk_dtype)dtype), t + i * pixels, dtype, (size_t)pixels);
}

static void tiles_out(const wino_args *a, const cpu_ctx *c, const piece *p, int64_t tiles, int64_t block)
{
    int64_t vw = c->isa->vw, size = a->oh * a->ow, line = a->tw * 4 * vw, y0 = 4 * p->from, lines = min64(4 * p->to, a->oh) - y0;
    float *plane = (float *)(void *)(c->mine + a->at_plane);
    const float *m = (const float *)(void *)(c->mine + a->at_m) + (block * tiles + p->tile) * vw;
    for (int64_t t = p->from; t < p->to; t++, m += a->tw * vw)
        c->isa->wino->out(plane + (t - p->from) * 4 * line, (size_t)line, m, a->m_step, (size_t)a->tw);
    if (a->tw * 4 != a->ow)
        crop(plane, lines, line, a->ow * vw);
    char *y = cpu_at(c, a->y);
    y += ((p->image * a->results + block * vw) * size + y0 * a->ow) * yk_dtype_bytes(a->dy);
    plane_out(c, plane, lines * a->ow, min64(vw, a->results - block * vw), y, a->dy, size,
              (float *)(void *)(c->mine + a->at_stage));
}

/* ---- A group ---- */

typedef void (*piece_fn)(const wino_args *a, const cpu_ctx *c, const piece *p, int64_t tiles, int64_t block);

static void one_in(const wino_args *a, const cpu_ctx *c, const piece *p, int64_t tiles, int64_t block)
{
    tiles_in(a, c, p, block, (float *)(void *)c->mine + block * tiles * c->isa->vw);
}

static void each_piece(const wino_args *a, const cpu_ctx *c, int64_t r0, int64_t r1, int64_t blocks, piece_fn f)
{
    for (int64_t b = 0; b < blocks; b++)
        for (int64_t r = r0; r < r1;) {
            piece p = {r / a->th, r % a->th, min64(a->th, r % a->th + r1 - r), (r - r0) * a->tw};
            f(a, c, &p, (r1 - r0) * a->tw, b);
            r += p.to - p.from;
        }
}

static void wino_step(const void *args, const cpu_ctx *c)
{
    const wino_args *a = args;
    int64_t lo, hi, all = a->images * a->th;
    memset(c->mine + a->at_zero, 0, (size_t)(a->width * c->isa->vw) * 4);
    cpu_part((all + a->rows - 1) / a->rows, c->tid, c->nt, &lo, &hi);
    for (int64_t g = lo; g < hi; g++) {
        int64_t r0 = g * a->rows, r1 = min64(all, r0 + a->rows), tiles = (r1 - r0) * a->tw;
        each_piece(a, c, r0, r1, a->cb, one_in);
        products(a, c, tiles, a->off + (r1 - r0 < a->rows ? a->cb : 0));
        each_piece(a, c, r0, r1, a->ob, tiles_out);
    }
}

/* ---- Planning ---- */

/* Whether it pays; depends on the shape and the instruction set alone. Tiles over the edge must not eat the gain. */
static bool suits(const cpu_build *b, const wino_args *a)
{
    return a->images >= 4 && a->channels >= 8 && a->results >= 8 && a->images * a->th * a->tw >= 64 &&
           a->th * a->tw * 16 <= 2 * a->oh * a->ow && a->oh * a->ow >= b->isa->vw;
}

/* V, M, a block of channels of a group's pixels, zeros, the same as numbers to convert */
static void set_scratch(cpu_build *b, wino_args *a)
{
    size_t vw = (size_t)b->isa->vw, tiles = (size_t)(a->rows * a->tw);
    size_t in = (size_t)(min64(a->rows, a->th) * 4 + 2) * (size_t)a->width, out = tiles * 16;
    size_t plane = ((in > out ? in : out) + vw) * vw * 4;
    a->v_step = (size_t)a->cb * tiles * vw + vw;
    a->m_step = (size_t)a->ob * tiles * vw + vw;
    a->at_m = cpu_round(36 * a->v_step * 4, 4096) + 128;
    a->at_plane = a->at_m + cpu_round(36 * a->m_step * 4, 4096) + 128;
    a->at_zero = a->at_plane + cpu_round(plane, 4096) + 128;
    a->at_stage = a->at_zero + cpu_round((size_t)a->width * vw * 4, 4096) + 128;
    cpu_need_mine(b, a->at_stage + plane);
    a->at_u = a->dw == YK_F32 ? 0 : cpu_round((size_t)(a->channels * a->results) * 36, 64);
    cpu_need_shared(b, a->at_u + (size_t)(36 * a->cb * a->ob) * vw * vw * 4);
}

static void set_groups(cpu_build *b, wino_args *a)
{
    int64_t vw = b->isa->vw, bytes = 36 * 4 * (a->cb + a->ob) * vw, all = a->images * a->th;
    int64_t most = GROUP_BYTES / bytes < LEAST_TILES ? LEAST_TILES : GROUP_BYTES / bytes;
    int64_t rows = most / a->tw < 1 ? 1 : min64(most / a->tw, all), groups = (all + rows - 1) / rows;
    groups = (groups + b->nt - 1) / b->nt * b->nt;
    a->rows = (all + groups - 1) / groups;
    int32_t *off = cpu_args(b, (size_t)(2 * a->cb) * sizeof *off);
    for (int64_t i = 0; off && i < 2 * a->cb; i++) {
        int64_t last = all % a->rows ? all % a->rows : a->rows;
        off[i] = (int32_t)(i % a->cb * (i < a->cb ? a->rows : last) * a->tw * vw);
    }
    a->off = off;
}

bool cpu_conv_wino(cpu_build *b, const yk_node *n, const conv_shape *s)
{
    bool dx = n->op == YK_OP_CONV2D_DX;
    const yk_value *x = cpu_in(b, n, 0), *w = cpu_in(b, n, 1), *y = cpu_out(b, n, 0);
    if (s->kh != 3 || s->kw != 3 || s->sh != 1 || s->sw != 1 || s->dh != 1 || s->dw != 1 || s->groups != 1 || s->ph > 2 ||
        s->pw > 2 || (b->isa->bf16 == 2 && x->dtype == YK_BF16))
        return false;
    wino_args *a = cpu_args(b, sizeof *a);
    if (!a)
        return true;
    *a = (wino_args){.w = cpu_ref_of(w), .x = cpu_ref_of(x), .y = cpu_ref_of(y), .images = s->n, .channels = x->dim[1],
                     .height = x->dim[2], .width = x->dim[3], .results = y->dim[1], .oh = y->dim[2], .ow = y->dim[3],
                     .py = dx ? 2 - s->ph : s->ph, .px = dx ? 2 - s->pw : s->pw, .wo = dx ? 9 : 9 * s->c,
                     .wc = dx ? 9 * s->c : 9, .back = dx, .dw = w->dtype, .dx = x->dtype, .dy = y->dtype};
    a->th = (a->oh + 3) / 4;
    a->tw = (a->ow + 3) / 4;
    a->cb = (a->channels + b->isa->vw - 1) / b->isa->vw;
    a->ob = (a->results + b->isa->vw - 1) / b->isa->vw;
    if (!suits(b, a))
        return false;
    set_groups(b, a);
    set_scratch(b, a);
    double weights = (double)(a->channels * a->results);
    if (a->dw != YK_F32)
        cpu_emit(b, widen_step, a, weights * 1.5);
    cpu_emit(b, weights_step, a, weights * 10);
    cpu_emit(b, wino_step, a, (double)(a->images * a->oh * a->ow) * weights * 18 / 180);
    return true;
}
