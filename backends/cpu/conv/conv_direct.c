/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution without packed panels, for many images whose rows are not too short. An image is copied once with zeros
 * around it, its pixels sorted by their remainder modulo the stride. Then the grid points of the whole image, counted
 * along padded rows, see any tap at one constant distance, so a panel's row k is 2 vectors at base + off[k]. Columns
 * that fall between two rows are computed and dropped; there are none where a row of the grid is whole vectors (dense).
 */
#include <string.h>

#include "backends/cpu/conv/conv.h"

#define PANELS 4 /* columns of a block of sums: PANELS * nr */
#define KC 512   /* words of k at a time */

/* a word of k in bf16: numbers of a row of the weights, -1: none */
typedef struct direct_pair {
    int32_t first, second;
} direct_pair;

typedef struct direct_args {
    conv_args a;
    bool pairs;        /* bf16 pairs: channels two by two; of an odd last one, a pixel and that `beside` it */
    int64_t neighbour; /* from a tap to its neighbour in the line, source pixels; 0: there is none */
    const direct_pair *pair;
    int mr, nr;
    bool dense;     /* panels are whole lines of the grid, or whole parts of a line */
    int64_t second; /* words from a panel's first vector to the second one */
    padding pad;
    int64_t planes, words; /* planes of an image (channels or pairs, times remainders); words of k */
    const int32_t *off;
    size_t at_a, at_acc, at_tmp; /* in the scratch: the image, packed weights, sums, rows */
} direct_args;

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* ---- Running ---- */

/* w[m][c][t] as strips of words */
static void pack_pairs(const direct_args *d, const uint16_t *w, uint32_t *to)
{
    int64_t m = d->a.g.m;
    for (int64_t s = 0; s < m; s += d->mr) {
        int64_t rows = m - s < d->mr ? m - s : d->mr;
        for (int64_t k = 0; k < d->words; k++)
            for (int64_t i = 0; i < rows; i++) {
                const uint16_t *row = w + (s + i) * d->a.g.k;
                *to++ = row[d->pair[k].first] | (d->pair[k].second < 0 ? 0 : (uint32_t)row[d->pair[k].second] << 16);
            }
    }
}

static void pack_weights(const direct_args *d, const cpu_ctx *c, int64_t group)
{
    const conv_args *a = &d->a;
    const char *w = a->ws_w >= 0 ? c->shared_ws + a->ws_w : cpu_at(c, a->w);
    w += group * a->w_stride * yk_dtype_bytes(a->dw);
    if (d->pairs) {
        pack_pairs(d, (const uint16_t *)(const void *)w, (uint32_t *)(void *)(c->thread_ws + d->at_a));
        return;
    }
    cpu_src s = {.p = w, .ld = a->g.k, .dtype = a->dw, .kcontig = 1};
    cpu_gemm_pack_rows(c->isa, &s, d->mr, a->g.m, a->g.k, c->thread_ws + d->at_a, c->thread_ws + d->at_tmp);
}

/* one padded plane, or a pair of them, of remainder (ry, rx) */
static void pad_plane(const direct_args *d, const view_at *at, int64_t c, int64_t ry, int64_t rx, char *tmp, char *to)
{
    const view *v = &d->a.v;
    int64_t size = v->height * v->width * yk_dtype_bytes(v->dtype), cg = d->a.g.k / v->taps;
    const char *plane = at->p + c * size;
    for (int64_t y = 0; y < d->pad.hp; y++, to += d->pad.wp * 4) {
        int64_t sy = (y + d->pad.miny) * v->stride_y + ry, shift = d->pad.minx * v->stride_x + rx;
        if (!d->pairs) {
            cpu_view_row(at, plane, sy, 0, d->pad.wp, shift, to, false);
            continue;
        }
        bool next = c + 1 < cg, two = next || d->neighbour;
        char *second = tmp + cpu_round((size_t)d->pad.wp * 2, 64);
        cpu_view_row(at, plane, sy, 0, d->pad.wp, shift, tmp, true);
        if (two)
            cpu_view_row(at, next ? plane + size : plane, sy, 0, d->pad.wp, next ? shift : shift + d->neighbour, second, true);
        at->isa->strip_pairs((uint32_t *)(void *)to, (size_t)d->pad.wp, 0, (const uint16_t *)(const void *)tmp,
                             two ? (const uint16_t *)(const void *)second : NULL, (size_t)d->pad.wp);
    }
}

/* Lines of all remainders of a pair of channels at a step of 2: each is read once, even pixels and odd ones parted. */
static void split_planes(const direct_args *d, const view_at *at, int64_t c, uint32_t *to)
{
    const view *v = &d->a.v;
    int64_t size = v->height * v->width, wp = d->pad.wp, area = d->pad.hp * wp, left = -d->pad.minx;
    int64_t n = v->width < 2 * (wp - left) ? v->width : 2 * (wp - left);
    const uint16_t *plane = (const uint16_t *)(const void *)at->p + c * size;
    bool two = c + 1 < d->a.g.k / v->taps;
    for (int64_t r = 0; r < 2; r++)
        for (int64_t y = 0; y < d->pad.hp; y++) {
            int64_t sy = (y + d->pad.miny) * 2 + r;
            uint32_t *even = to + 2 * r * area + y * wp, *odd = even + area;
            memset(even, 0, (size_t)wp * 4);
            memset(odd, 0, (size_t)wp * 4);
            if (sy < 0 || sy >= v->height)
                continue;
            const uint16_t *row = plane + sy * v->width;
            at->isa->split_pairs(even + left, odd + left, row, two ? row + size : NULL, (size_t)n);
        }
}

/* Lines of a pair of channels at a step of 1, with zeros around them. */
static void join_planes(const direct_args *d, const view_at *at, int64_t c, uint32_t *to)
{
    const view *v = &d->a.v;
    int64_t size = v->height * v->width, wp = d->pad.wp, left = -d->pad.minx;
    int64_t n = v->width < wp - left ? v->width : wp - left;
    const uint16_t *plane = (const uint16_t *)(const void *)at->p + c * size;
    for (int64_t y = 0; y < d->pad.hp; y++, to += wp) {
        int64_t sy = y + d->pad.miny;
        if (sy < 0 || sy >= v->height) {
            memset(to, 0, (size_t)wp * 4);
            continue;
        }
        const uint16_t *row = plane + sy * v->width;
        memset(to, 0, (size_t)left * 4);
        memset(to + left + n, 0, (size_t)(wp - left - n) * 4);
        at->isa->strip_pairs(to + left, (size_t)n, 0, row, c + 1 < d->a.g.k / v->taps ? row + size : NULL, (size_t)n);
    }
}

static void pad_image(const direct_args *d, const view_at *at, const cpu_ctx *c)
{
    const view *v = &d->a.v;
    char *to = c->thread_ws;
    int64_t channel_step = d->pairs ? 2 : 1, cg = d->a.g.k / v->taps, planes = 0;
    if (d->pairs && !d->neighbour && v->stride_y == 2 && v->stride_x == 2)
        planes = 4;
    else if (d->pairs && !d->neighbour && v->stride_y == 1 && v->stride_x == 1 && d->pad.minx <= 0 && d->pad.wp + d->pad.minx > 0)
        planes = 1;
    for (int64_t ch = 0; planes && ch < cg; ch += 2, to += planes * d->pad.hp * d->pad.wp * 4)
        (planes == 4 ? split_planes : join_planes)(d, at, ch, (uint32_t *)(void *)to);
    for (int64_t ch = 0; !planes && ch < cg; ch += channel_step)
        for (int64_t r = 0; r < v->stride_y * v->stride_x; r++, to += d->pad.hp * d->pad.wp * 4)
            pad_plane(d, at, ch, r / v->stride_x, r % v->stride_x, c->thread_ws + d->at_tmp, to);
}

/* sums of a block of columns go to their rows of the result; columns between rows are dropped */
static void put_block(const direct_args *d, const conv_run *r, int64_t image, int64_t p0, int64_t n, const float *acc)
{
    const conv_args *a = &d->a;
    int64_t item = yk_dtype_bytes(a->dy), plane = a->oh * a->ow * item, ld = PANELS * d->nr;
    char *base = (char *)cpu_at(r->c, a->y) + (image * a->out_channels + r->group * a->g.m) * plane;
    void (*from_f32)(void *, const float *, int, size_t) = r->c->isa->from_f32;
    for (int64_t m = 0; d->dense && m < a->g.m; m++)
        from_f32(base + m * plane + p0 * item, acc + m * ld, a->dy, (size_t)n);
    if (d->dense)
        return;
    for (int64_t p = p0; p < p0 + n;) {
        int64_t y = p / d->pad.wp, x = p % d->pad.wp, left = d->pad.wp - x < p0 + n - p ? d->pad.wp - x : p0 + n - p;
        int64_t run = a->v.gw - x < left ? a->v.gw - x : left;
        char *row = base + (y * a->stride_y + a->first_y) * a->ow * item;
        for (int64_t m = 0; run > 0 && m < a->g.m; m++) {
            const float *from = acc + m * ld + p - p0;
            if (a->stride_x == 1)
                from_f32(row + m * plane + (x + a->first_x) * item, from, a->dy, (size_t)run);
            else
                cpu_conv_put(r, row + m * plane, x, from, run);
        }
        p += left;
    }
}

/* words from the image's start to the panel of columns p and on */
static int64_t panel_at(const direct_args *d, int64_t p)
{
    return d->dense ? p / d->a.v.gw * d->pad.wp + p % d->a.v.gw : p;
}

static void direct_image(const direct_args *d, const conv_run *r, int64_t image)
{
    const cpu_ctx *c = r->c;
    const cpu_taps_kernel *kernel = d->pairs ? c->isa->pair_taps : c->isa->f32_taps;
    const uint32_t *pa = (const uint32_t *)(const void *)(c->thread_ws + d->at_a);
    const uint32_t *img = (const uint32_t *)(const void *)c->thread_ws;
    float *acc = (float *)(void *)(c->thread_ws + d->at_acc);
    int64_t width = PANELS * d->nr, m = d->a.g.m, all = d->dense ? d->a.v.gh * d->a.v.gw : d->pad.cols;
    for (int64_t p = 0; p < all; p += width) {
        int64_t n = all - p < width ? all - p : width;
        for (int64_t k = 0; k < d->words; k += KC) {
            size_t kc = (size_t)(d->words - k < KC ? d->words - k : KC);
            for (int64_t i = 0; i < m; i += d->mr) {
                int64_t rows = m - i < d->mr ? m - i : d->mr;
                const uint32_t *a = pa + i * d->words + k * rows;
                for (int64_t j = 0; j < n; j += d->nr)
                    kernel[rows](kc, a, img + panel_at(d, p + j), (size_t)d->second, d->off + k, acc + i * width + j,
                                 (size_t)width, k > 0);
            }
        }
        put_block(d, r, image, p, n, acc);
    }
}

static void direct_step(const void *args, const cpu_ctx *c)
{
    const direct_args *d = args;
    const conv_args *a = &d->a;
    int64_t lo, hi, packed = -1, size = a->v.height * a->v.width * yk_dtype_bytes(a->v.dtype);
    cpu_part(a->groups * a->images, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t group = t / a->images, image = t % a->images;
        conv_run r = {a, c, group};
        view_at at = {&a->v, c->isa, (const char *)cpu_at(c, a->x), 0};
        at.p += (image * a->v.channels + group * a->x_planes) * size;
        if (group != packed)
            pack_weights(d, c, packed = group);
        pad_image(d, &at, c);
        direct_image(d, &r, image);
    }
}

/* ---- Planning ---- */

padding cpu_padding_of(const view *v)
{
    padding p = {.miny = INT32_MAX, .minx = INT32_MAX};
    int64_t maxy = INT32_MIN, maxx = INT32_MIN;
    for (int32_t t = 0; t < v->taps; t++) {
        int64_t fy = floor_div(v->dy[t], v->stride_y), fx = floor_div(v->dx[t], v->stride_x);
        p.miny = fy < p.miny ? fy : p.miny;
        p.minx = fx < p.minx ? fx : p.minx;
        maxy = fy > maxy ? fy : maxy;
        maxx = fx > maxx ? fx : maxx;
    }
    p.hp = v->gh + maxy - p.miny;
    p.wp = v->gw + maxx - p.minx;
    p.cols = (v->gh - 1) * p.wp + v->gw;
    return p;
}

int64_t cpu_padding_offset(const view *v, const padding *p, int64_t c, int64_t t)
{
    int64_t fy = floor_div(v->dy[t], v->stride_y), fx = floor_div(v->dx[t], v->stride_x);
    int64_t rest = (v->dy[t] - fy * v->stride_y) * v->stride_x + v->dx[t] - fx * v->stride_x;
    return ((c * v->stride_y * v->stride_x + rest) * p->hp + fy - p->miny) * p->wp + fx - p->minx;
}

/* The words of k in bf16, their number; off, pair: NULL to count. Taps of an odd last channel go by twos where neighbours
 * in a line are all equally far apart. */
static int64_t set_pairs(direct_args *d, int32_t *off, direct_pair *pair)
{
    const view *v = &d->a.v;
    int64_t cg = d->a.g.k / v->taps, n = 0;
    d->neighbour = 0;
    for (int64_t c = 0; c < cg; c += 2)
        for (int32_t t = 0, used; t < v->taps; t += used, n++) {
            int64_t tap_distance = t + 1 < v->taps && v->dy[t] == v->dy[t + 1] ? v->dx[t + 1] - v->dx[t] : 0;
            bool two = c + 1 == cg && tap_distance && (!d->neighbour || d->neighbour == tap_distance);
            if (two)
                d->neighbour = tap_distance;
            used = two ? 2 : 1;
            if (!off)
                continue;
            off[n] = (int32_t)cpu_padding_offset(v, &d->pad, c / 2, t);
            pair[n].first = (int32_t)(c * v->taps + t);
            pair[n].second = c + 1 < cg ? pair[n].first + v->taps : two ? pair[n].first + 1 : -1;
        }
    return n;
}

static void set_geometry(direct_args *d)
{
    const view *v = &d->a.v;
    int64_t cg = d->a.g.k / v->taps, channels = d->pairs ? (cg + 1) / 2 : cg;
    d->pad = cpu_padding_of(v);
    d->planes = channels * v->stride_y * v->stride_x;
    d->words = d->pairs ? set_pairs(d, NULL, NULL) : channels * v->taps;
}

/* Whether panels of two vectors are lines of the grid or parts of one, and these the result's. */
static bool is_dense(const cpu_isa *isa, int64_t gh, int64_t gw)
{
    int64_t vw = isa->vw;
    return gw % (2 * vw) == 0 || (gw == vw && gh % 2 == 0);
}

bool cpu_conv_prefers_direct(const cpu_isa *isa, const conv_shape *s)
{
    int64_t pairs = (s->c + 1) / 2;
    return 2 * pairs <= isa->vw && s->sh == 2 && s->sw == 2 && s->o * pairs * s->kh * s->kw <= 64 << 10 &&
           is_dense(isa, s->oh, s->ow) && pairs * (s->h + 2 * s->ph + 4) * (s->w + 2 * s->pw + 4) <= 64 << 10;
}

/* Whether it pays; depends on the shape and the instruction set alone. */
static bool direct_suits(const direct_args *d)
{
    const conv_args *a = &d->a;
    int64_t wanted = a->v.gh * a->v.gw, computed = d->dense ? wanted : (d->pad.cols + d->nr - 1) / d->nr * d->nr;
    return a->images >= 4 && computed * 10 <= wanted * 17 && d->planes * d->pad.hp * d->pad.wp <= 512 << 10 &&
           a->g.m * d->words <= 256 << 10 && a->g.mode != CPU_GEMM_TILE;
}

bool cpu_conv_direct(cpu_build *b, const conv_args *a, double work)
{
    direct_args *d = cpu_args(b, sizeof *d);
    if (!d)
        return true;
    d->a = *a;
    d->pairs = a->g.mode == CPU_GEMM_PAIR;
    d->mr = a->g.mr;
    d->nr = 2 * b->isa->vw;
    set_geometry(d);
    d->dense = a->stride_y == 1 && a->stride_x == 1 && a->oh == a->v.gh && a->ow == a->v.gw && is_dense(b->isa, a->oh, a->ow);
    d->second = d->dense && a->ow == b->isa->vw ? d->pad.wp : b->isa->vw;
    if (!direct_suits(d))
        return false;
    int32_t *off = cpu_args(b, (size_t)d->words * sizeof *off);
    direct_pair *pair = cpu_args(b, (size_t)d->words * sizeof *pair);
    if (!off || !pair)
        return true;
    d->pair = pair;
    if (d->pairs)
        set_pairs(d, off, pair);
    for (int64_t k = 0; !d->pairs && k < d->words; k++)
        off[k] = (int32_t)cpu_padding_offset(&d->a.v, &d->pad, k / d->a.v.taps, k % d->a.v.taps);
    d->off = off;
    size_t line = cpu_round((size_t)d->pad.wp * 4, 64) * 2, strip = (size_t)(d->mr * d->words) * 4 + 16384;
    d->at_a = cpu_round((size_t)(d->planes * d->pad.hp * d->pad.wp + 64) * 4, 4096) + 128;
    d->at_acc = d->at_a + cpu_round((size_t)(a->g.m * d->words) * 4 + 256, 4096) + 128;
    d->at_tmp = d->at_acc + cpu_round((size_t)(a->g.m * PANELS * d->nr) * 4, 4096) + 128;
    cpu_need_thread_ws(b, d->at_tmp + (line > strip ? line : strip) + 128);
    cpu_emit(b, direct_step, d, work);
    return true;
}
