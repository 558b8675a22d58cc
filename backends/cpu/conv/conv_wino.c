/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 3x3 convolutions of step 1, forward and dx, by Winograd's F(4x4, 3x3) (kern_wino.inc): 36 products of matrices
 * M[e] = V[e] U[e], e an element of the transformed tiles, V [tile, channel], U [channel, result channel]. Everything is
 * kept in blocks of one vector of channels (kern_block.inc), so that the transforms work on whole vectors whatever the
 * size of the images. A worker takes a group of neighbouring rows of tiles, all channels: transforms them, multiplies
 * with the weights (transformed once for all), transforms back. V and M of a group live in its second cache.
 * Where there are more channels than tiles, the transformed weights, 36 words for nine, would pass through memory for each
 * group. There all tiles are transformed first; then a worker takes a panel of two blocks of results, all tiles: it
 * transforms its weights, multiplies and transforms back.
 */
#include <string.h>

#include "backends/cpu/conv/conv_wino.h"

#define GROUP_BYTES (1 << 20) /* V and M of a group of tiles */
#define LEAST_TILES 48        /* the transformed weights are read once for each group */
#define AHEAD 4                /* lots of channels ahead of which weights are fetched */
#define LOT 3                 /* channels whose weights are transposed at once, at most */
#define PANEL_BYTES (1 << 20)  /* of transformed weights that pass a panel at a time */

typedef struct wino_args {
    wino_source x; /* as the product sees it: dx swaps the roles */
    wino_grid g;
    cpu_ref w, y;
    int64_t results, oh, ow, ob; /* result channels, size, blocks of channels */
    int64_t wo, wc;              /* words of w from one result (source) channel to the next */
    bool back;                   /* taps in reverse order */
    uint8_t dw, dy;
    int64_t rows;              /* of tiles in a group */
    size_t v_stride, m_stride; /* words from one element to the next */
    size_t at_m;               /* in a worker's scratch; V at 0 */
    wino_scratch t;
    const int32_t *off; /* of each block of V in whole groups, then in the last one */
    bool by_panel;      /* V of all tiles in the shared scratch, U of a panel in a worker's; else U in the shared one */
    size_t u_stride;
    int64_t ranges; /* of tiles: more than one keeps more workers busy */
} wino_args;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- Weights ---- */

/* Channels whose taps are transposed at once: in bf16, where they lie one after the other, a vector of words holds three. */
static int64_t lot_of(const wino_args *a)
{
    return a->dw == YK_BF16 && a->wc == 9 ? LOT : 1;
}

/* `taps` numbers from w on, the n results of a block in the lanes */
static void transpose_taps(const wino_args *a, const cpu_ctx *c, const char *w, int64_t n, size_t taps, float *g)
{
    float widened[9 * 16];
    uint32_t *to = (uint32_t *)(void *)g;
    const size_t vw = (size_t)c->isa->vw, pitch = (size_t)(a->wo * yk_dtype_bytes(a->dw));
    if (a->dw == YK_BF16) {
        c->isa->transpose_bf16(to, vw, w, pitch, (size_t)n, taps);
        return;
    }
    if (a->dw == YK_F32) {
        c->isa->transpose(to, vw, w, pitch, (size_t)n, taps);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        c->isa->to_f32(widened + i * 9, w + i * (int64_t)pitch, a->dw, 9);
    c->isa->transpose(to, vw, widened, 9 * 4, (size_t)n, 9);
}

/* the 36 vectors of a block of results and of each of `lot` channels, `stride` words apart, the channels' `channel_stride` */
static void taps_in(const wino_args *a, const cpu_ctx *c, int64_t block, int64_t ch, int64_t lot, float *u, size_t stride,
                    int64_t channel_stride)
{
    float g[LOT * 9 * 16 + 16];
    int64_t vw = c->isa->vw, n = min64(vw, a->results - block * vw), item = yk_dtype_bytes(a->dw);
    int64_t there = ch < a->x.p.channels ? min64(lot, a->x.p.channels - ch) : 0;
    const char *w = (const char *)cpu_at(c, a->w) + (block * vw * a->wo + ch * a->wc) * item;
    for (int64_t i = 0; i < n; i++)
        __builtin_prefetch(w + (i * a->wo + lot * AHEAD * a->wc) * item);
    if (there)
        transpose_taps(a, c, w, n, (size_t)there * 9, g);
    memset(g + there * 9 * vw, 0, (size_t)((lot - there) * 9 * vw) * 4);
    for (int64_t i = 0; i < lot; i++)
        c->isa->wino->taps(u + i * channel_stride, stride, g + i * 9 * vw, a->back);
}

/* U[e][panel of two vectors of results][channel][results] */
static void weights_step(const void *args, const cpu_ctx *c)
{
    const wino_args *a = args;
    int64_t lo, hi, vw = c->isa->vw, padded = a->x.p.blocks * vw;
    float *u = (float *)(void *)c->shared_ws;
    cpu_part(a->ob * padded, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo, lot; t < hi; t += lot) {
        int64_t block = t / padded, ch = t % padded, panel = block / 2, w2 = min64(2, a->ob - 2 * panel) * vw;
        lot = min64(min64(lot_of(a), hi - t), padded - ch);
        taps_in(a, c, block, ch, lot, u + panel * 2 * vw * padded + ch * w2 + block % 2 * vw, a->u_stride, w2);
    }
}

/* ---- Input ---- */

static void piece_in(const wino_source *s, const wino_grid *g, const wino_scratch *t, const cpu_ctx *c, const wino_piece *p,
                     int64_t block, float *v, size_t stride)
{
    int64_t vw = c->isa->vw, lines = s->grad ? 4 : 6;
    int64_t y0 = 4 * p->from - s->py, y1 = min64(4 * (p->to - 1) + lines - s->py, s->p.height), first = y0 < 0 ? 0 : y0;
    float *plane = (float *)(void *)(c->thread_ws + t->plane), *zero = (float *)(void *)(c->thread_ws + t->zero);
    if (y1 > first)
        cpu_plane_in(c, &s->p, p->image, block, first, y1 - first, c->thread_ws + t->stage, plane);
    for (int64_t r = p->from; r < p->to; r++, v += g->tw * vw) {
        const float *row[6];
        for (int64_t i = 0; i < lines; i++) {
            int64_t y = 4 * r - s->py + i;
            row[i] = y < 0 || y >= s->p.height ? zero : plane + (y - first) * s->p.width * vw;
        }
        (s->grad ? c->isa->wino->grad : c->isa->wino->in)(v, stride, row, -s->px, s->p.width, (size_t)g->tw);
    }
}

wino_piece cpu_wino_piece(const wino_grid *g, int64_t r0, int64_t r, int64_t r1)
{
    return (wino_piece){r / g->th, r % g->th, min64(g->th, r % g->th + r1 - r), (r - r0) * g->tw};
}

void cpu_wino_in(const wino_source *s, const wino_grid *g, const wino_scratch *t, const cpu_ctx *c, int64_t r0, int64_t r1,
                 const wino_place *to)
{
    memset(c->thread_ws + t->zero, 0, t->zeros);
    for (int64_t b = 0; b < s->p.blocks; b++)
        for (int64_t r = r0; r < r1;) {
            wino_piece p = cpu_wino_piece(g, r0, r, r1);
            piece_in(s, g, t, c, &p, b, to->v + (b * to->tiles + p.tile) * c->isa->vw, to->stride);
            r += p.to - p.from;
        }
}

/* ---- Products ---- */

/* One element and panel: M[block][tile] from V, whose blocks begin at off, and U[channel][results]. */
static void panel_product(const wino_args *a, const cpu_ctx *c, const float *v, const int32_t *off, const float *u, float *m,
                          int64_t tiles, int nv)
{
    int64_t vw = c->isa->vw, strips = (tiles + c->isa->mr - 1) / c->isa->mr;
    for (int64_t s = 0; s < strips; s++) {
        int64_t i = tiles * s / strips, n = tiles * (s + 1) / strips - i;
        c->isa->f32_rows[n][nv]((size_t)a->x.p.blocks, (size_t)vw, v + i * vw, off, u, m + i * vw, (size_t)(tiles * vw), 0);
    }
}

static void group_products(const wino_args *a, const cpu_ctx *c, int64_t tiles, const int32_t *off)
{
    int64_t vw = c->isa->vw, words = a->x.p.blocks * vw;
    const float *u = (const float *)(void *)c->shared_ws, *v = (const float *)(void *)c->thread_ws;
    float *m = (float *)(void *)(c->thread_ws + a->at_m);
    for (int64_t e = 0; e < WINO_ELEMENTS; e++, v += a->v_stride, u += a->u_stride, m += a->m_stride)
        for (int64_t o = 0; o < a->ob; o += 2)
            panel_product(a, c, v, off, u + o * vw * words, m + o * tiles * vw, tiles, a->ob - o < 2 ? 1 : 2);
}

/* ---- Result ---- */

/* pixels of whole tiles to those of the image, in place */
static void plane_crop(float *y, int64_t lines, int64_t from, int64_t to)
{
    for (int64_t i = 1; i < lines; i++)
        memmove(y + i * to, y + i * from, (size_t)to * 4);
}

/* m: the block's products */
static void piece_out(const wino_args *a, const cpu_ctx *c, const wino_piece *p, const float *m, int64_t block)
{
    int64_t vw = c->isa->vw, size = a->oh * a->ow, line = a->g.tw * 4 * vw, y0 = 4 * p->from;
    int64_t lines = min64(4 * p->to, a->oh) - y0;
    float *plane = (float *)(void *)(c->thread_ws + a->t.plane);
    m += p->tile * vw;
    for (int64_t t = p->from; t < p->to; t++, m += a->g.tw * vw)
        c->isa->wino->out(plane + (t - p->from) * 4 * line, (size_t)line, m, a->m_stride, (size_t)a->g.tw);
    if (a->g.tw * 4 != a->ow)
        plane_crop(plane, lines, line, a->ow * vw);
    char *y = cpu_at(c, a->y);
    y += ((p->image * a->results + block * vw) * size + y0 * a->ow) * yk_dtype_bytes(a->dy);
    cpu_plane_out(c, plane, lines * a->ow, min64(vw, a->results - block * vw), y, a->dy, size,
                  (float *)(void *)(c->thread_ws + a->t.stage));
}

/* blocks b0 .. b1 - 1 of results, rows r0 .. r1 - 1 of tiles */
static void blocks_out(const wino_args *a, const cpu_ctx *c, int64_t b0, int64_t b1, int64_t r0, int64_t r1)
{
    const float *m = (const float *)(void *)(c->thread_ws + a->at_m);
    for (int64_t b = b0; b < b1; b++, m += (r1 - r0) * a->g.tw * c->isa->vw)
        for (int64_t r = r0; r < r1;) {
            wino_piece p = cpu_wino_piece(&a->g, r0, r, r1);
            piece_out(a, c, &p, m, b);
            r += p.to - p.from;
        }
}

static void wino_step(const void *args, const cpu_ctx *c)
{
    const wino_args *a = args;
    int64_t lo, hi, all = a->g.images * a->g.th;
    cpu_part((all + a->rows - 1) / a->rows, c->tid, c->nt, &lo, &hi);
    for (int64_t g = lo; g < hi; g++) {
        int64_t r0 = g * a->rows, r1 = min64(all, r0 + a->rows), tiles = (r1 - r0) * a->g.tw;
        wino_place v = {(float *)(void *)c->thread_ws, a->v_stride, tiles};
        cpu_wino_in(&a->x, &a->g, &a->t, c, r0, r1, &v);
        group_products(a, c, tiles, a->off + (r1 - r0 < a->rows ? a->x.p.blocks : 0));
        blocks_out(a, c, 0, a->ob, r0, r1);
    }
}

/* ---- More channels than tiles ---- */

static void tiles_in_step(const void *args, const cpu_ctx *c)
{
    const wino_args *a = args;
    int64_t lo, hi, all = a->g.images * a->g.th;
    cpu_part(all, c->tid, c->nt, &lo, &hi);
    wino_place v = {(float *)(void *)c->shared_ws + lo * a->g.tw * c->isa->vw, a->v_stride, all * a->g.tw};
    cpu_wino_in(&a->x, &a->g, &a->t, c, lo, hi, &v);
}

/* U of a panel: [e][channel][results] */
static void panel_weights(const wino_args *a, const cpu_ctx *c, int64_t panel, int nv)
{
    int64_t vw = c->isa->vw, padded = a->x.p.blocks * vw;
    for (int i = 0; i < nv; i++)
        for (int64_t ch = 0, lot; ch < padded; ch += lot) {
            lot = min64(lot_of(a), padded - ch);
            taps_in(a, c, 2 * panel + i, ch, lot, (float *)(void *)c->thread_ws + (ch * nv + i) * vw, a->u_stride, nv * vw);
        }
}

static void panel_step(const void *args, const cpu_ctx *c)
{
    const wino_args *a = args;
    int64_t lo, hi, made = -1, vw = c->isa->vw;
    cpu_part((a->ob + 1) / 2 * a->ranges, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t r0, r1, panel = t / a->ranges;
        int nv = a->ob - 2 * panel < 2 ? 1 : 2;
        cpu_part(a->g.images * a->g.th, (int)(t % a->ranges), (int)a->ranges, &r0, &r1);
        if (panel != made)
            panel_weights(a, c, made = panel, nv);
        const float *v = (const float *)(void *)c->shared_ws + r0 * a->g.tw * vw, *u = (const float *)(void *)c->thread_ws;
        float *m = (float *)(void *)(c->thread_ws + a->at_m);
        for (int64_t e = 0; e < WINO_ELEMENTS; e++, v += a->v_stride, u += a->u_stride, m += a->m_stride)
            panel_product(a, c, v, a->off, u, m, (r1 - r0) * a->g.tw, nv);
        blocks_out(a, c, 2 * panel, 2 * panel + nv, r0, r1);
    }
}

/* ---- Planning ---- */

/* Depends on the shape and the instruction set alone. Tiles over the edge must not eat the gain; AMX multiplies bf16
 * many times faster than f32. */
bool cpu_wino_suits(const cpu_isa *isa, const conv_shape *s, int dtype)
{
    int64_t tiles = (s->oh + 3) / 4 * ((s->ow + 3) / 4), back = (s->h + 3) / 4 * ((s->w + 3) / 4);
    bool form = s->kh == 3 && s->kw == 3 && s->sh == 1 && s->sw == 1 && s->dh == 1 && s->dw == 1 && s->groups == 1 &&
                s->ph <= 2 && s->pw <= 2;
    return form && !(isa->bf16 == 2 && dtype == YK_BF16) && s->n >= 4 && s->c >= 8 && s->o >= 8 && s->n * tiles >= 64 &&
           tiles * 16 <= 2 * s->oh * s->ow && back * 16 <= 2 * s->h * s->w && s->oh * s->ow >= isa->vw &&
           s->h * s->w >= isa->vw;
}

int64_t cpu_wino_rows(const wino_grid *g, int64_t tile_bytes, int64_t bytes, int64_t least, int64_t nt)
{
    int64_t all = g->images * g->th, most = bytes / tile_bytes < least ? least : bytes / tile_bytes;
    int64_t rows = most / g->tw < 1 ? 1 : min64(most / g->tw, all), groups = (all + rows - 1) / rows;
    groups = (groups + nt - 1) / nt * nt;
    return (all + groups - 1) / groups;
}

size_t cpu_wino_stride(const cpu_isa *isa, int64_t blocks, int64_t tiles)
{
    return (size_t)((blocks * tiles + 1) * isa->vw); /* one line more: elements do not meet in one set of the cache */
}

wino_scratch cpu_wino_scratch(const cpu_isa *isa, size_t from, const wino_grid *g, int64_t rows, int64_t width)
{
    size_t vw = (size_t)isa->vw, in = (size_t)((min64(rows, g->th) * 4 + 2) * width);
    size_t out = (size_t)(min64(rows, g->th) * g->tw * 16), bytes = ((in > out ? in : out) + vw) * vw * 4;
    wino_scratch t = {.plane = cpu_round(from, 4096) + 128, .zeros = (size_t)width * vw * 4};
    t.zero = t.plane + cpu_round(bytes, 4096) + 128;
    t.stage = t.zero + cpu_round(t.zeros, 4096) + 128;
    t.end = t.stage + bytes;
    return t;
}

static void set_groups(cpu_build *b, wino_args *a)
{
    int64_t vw = b->isa->vw, all = a->g.images * a->g.th;
    a->rows = cpu_wino_rows(&a->g, WINO_ELEMENTS * 4 * (a->x.p.blocks + a->ob) * vw, GROUP_BYTES, LEAST_TILES, b->nt);
    int32_t *off = cpu_args(b, (size_t)(2 * a->x.p.blocks) * sizeof *off);
    for (int64_t i = 0; off && i < 2 * a->x.p.blocks; i++) {
        int64_t last = all % a->rows ? all % a->rows : a->rows;
        off[i] = (int32_t)(i % a->x.p.blocks * (i < a->x.p.blocks ? a->rows : last) * a->g.tw * vw);
    }
    a->off = off;
    a->u_stride = (size_t)(a->x.p.blocks * a->ob * vw * vw);
    a->v_stride = cpu_wino_stride(b->isa, a->x.p.blocks, a->rows * a->g.tw);
    a->m_stride = cpu_wino_stride(b->isa, a->ob, a->rows * a->g.tw);
    a->at_m = cpu_round(WINO_ELEMENTS * a->v_stride * 4, 4096) + 128;
    a->t = cpu_wino_scratch(b->isa, a->at_m + WINO_ELEMENTS * a->m_stride * 4, &a->g, a->rows, a->x.p.width);
    cpu_need_thread_ws(b, a->t.end);
    cpu_need_shared_ws(b, (size_t)(WINO_ELEMENTS * a->x.p.blocks * a->ob * vw * vw) * 4);
}

/* Depends on the shape; only the number of ranges on the workers. */
static bool set_by_panel(cpu_build *b, wino_args *a)
{
    int64_t vw = b->isa->vw, all = a->g.images * a->g.th, tiles = all * a->g.tw, panels = (a->ob + 1) / 2;
    if (tiles > a->results || WINO_ELEMENTS * 4 * a->x.p.blocks * a->ob * vw * vw <= PANEL_BYTES)
        return false;
    int32_t *off = cpu_args(b, (size_t)a->x.p.blocks * sizeof *off);
    for (int64_t i = 0; off && i < a->x.p.blocks; i++)
        off[i] = (int32_t)(i * tiles * vw);
    a->off = off;
    a->by_panel = true;
    a->ranges = min64((b->nt + panels - 1) / panels, all);
    a->rows = (all + a->ranges - 1) / a->ranges;
    a->u_stride = (size_t)((2 * vw * a->x.p.blocks + 1) * vw); /* an odd number of lines, like cpu_wino_stride */
    a->v_stride = cpu_wino_stride(b->isa, a->x.p.blocks, tiles);
    a->m_stride = cpu_wino_stride(b->isa, 2, a->rows * a->g.tw);
    a->at_m = cpu_round(WINO_ELEMENTS * a->u_stride * 4, 4096) + 128;
    a->t = cpu_wino_scratch(b->isa, a->at_m + WINO_ELEMENTS * a->m_stride * 4, &a->g, all, a->x.p.width);
    cpu_need_thread_ws(b, a->t.end);
    cpu_need_shared_ws(b, WINO_ELEMENTS * a->v_stride * 4);
    return true;
}

bool cpu_conv_wino(cpu_build *b, const yk_node *n, const conv_shape *s)
{
    bool dx = n->op == YK_OP_CONV2D_DX;
    const yk_value *x = cpu_in(b, n, 0), *w = cpu_in(b, n, 1), *y = cpu_out(b, n, 0);
    int64_t vw = b->isa->vw;
    if (!cpu_wino_suits(b->isa, s, x->dtype))
        return false;
    wino_args *a = cpu_args(b, sizeof *a);
    if (!a)
        return true;
    *a = (wino_args){
        .x = {{cpu_ref_of(x), x->dim[1], x->dim[2], x->dim[3], (x->dim[1] + vw - 1) / vw, x->dtype, false, 0},
              dx ? 2 - s->ph : s->ph, dx ? 2 - s->pw : s->pw, false},
        .g = {s->n, (y->dim[2] + 3) / 4, (y->dim[3] + 3) / 4}, .w = cpu_ref_of(w), .y = cpu_ref_of(y), .results = y->dim[1],
        .oh = y->dim[2], .ow = y->dim[3], .ob = (y->dim[1] + vw - 1) / vw, .wo = dx ? 9 : 9 * s->c,
        .wc = dx ? 9 * s->c : 9, .back = dx, .dw = w->dtype, .dy = y->dtype};
    if (!set_by_panel(b, a))
        set_groups(b, a);
    double weights = (double)(s->c * s->o);
    cpu_emit(b, a->by_panel ? tiles_in_step : weights_step, a, weights * 10);
    cpu_emit(b, a->by_panel ? panel_step : wino_step, a, (double)(s->n * a->oh * a->ow) * weights * 18 / 180);
    return true;
}
