/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution as products whose second operand is never stored: its panels are packed straight from the image.
 *   forward   y[o, (n,q)]    = sum_(c,t) w[o, (c,t)]  x[n, c, at(q,t)]
 *   dw        gw[o, (c,t)]   = sum_(n,q) gy[o, (n,q)] x[n, c, at(q,t)]
 *   dx        the forward form over gy, one product for each phase of the stride: input pixels of one remainder modulo
 *             the stride see the same subset of taps, gx[c, (n,q)] = sum_(o,t) w'[c, (o,t)] gy[n, o, at'(q,t)].
 * q are positions of a grid, t taps; at(q,t) = q * step + shift(t).
 */
#include <string.h>

#include "backends/cpu/conv/conv.h"

#define MOST_CUTS 64

/* the part of a grid row x0 .. x0 + n - 1 that lies inside the source row */
static void row_inside(int64_t x0, int64_t n, int64_t stride, int64_t shift, int64_t width, int64_t *lo, int64_t *hi)
{
    int64_t first = x0 * stride + shift;
    *lo = first < 0 ? (-first + stride - 1) / stride : 0;
    *hi = first >= width ? 0 : (width - 1 - first) / stride + 1;
    *lo = *lo < n ? *lo : n;
    *hi = *hi < *lo ? *lo : *hi > n ? n : *hi;
}

/* every step-th number */
static void stride_in(char *to, const char *from, int64_t n, int64_t stride, int64_t item)
{
    if (item == 4)
        for (int64_t i = 0; i < n; i++)
            ((uint32_t *)(void *)to)[i] = ((const uint32_t *)(const void *)from)[i * stride];
    else
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)(void *)to)[i] = ((const uint16_t *)(const void *)from)[i * stride];
}

void cpu_view_row(const view_at *a, const char *plane, int64_t y, int64_t x0, int64_t n, int64_t shift, char *out,
                      bool raw)
{
    const view *v = a->v;
    int64_t src = yk_dtype_bytes(v->dtype), item = raw ? 2 : 4, lo = 0, hi = 0;
    if (y >= 0 && y < v->height)
        row_inside(x0, n, v->stride_x, shift, v->width, &lo, &hi);
    memset(out, 0, (size_t)(lo * item));
    memset(out + hi * item, 0, (size_t)((n - hi) * item));
    const char *p = plane + (y * v->width + (x0 + lo) * v->stride_x + shift) * src;
    char *to = out + lo * item;
    if (hi <= lo)
        return;
    if (v->stride_x == 1 && (raw || v->dtype == YK_F32)) {
        memcpy(to, p, (size_t)((hi - lo) * item));
    } else if (v->stride_x == 1) {
        a->isa->to_f32((float *)(void *)to, p, v->dtype, (size_t)(hi - lo));
    } else if (item == src) {
        stride_in(to, p, hi - lo, v->stride_x, item);
    } else { /* widened 64 at a time */
        uint16_t t[64];
        for (int64_t i = 0; i < hi - lo; i += 64) {
            int64_t m = hi - lo - i < 64 ? hi - lo - i : 64;
            stride_in((char *)t, p + i * v->stride_x * 2, m, v->stride_x, 2);
            a->isa->to_f32((float *)(void *)(to + 4 * i), t, v->dtype, (size_t)m);
        }
    }
}

static void fetch_view(const void *arg, int64_t line, int64_t from, size_t n, void *out, bool raw)
{
    const view_at *a = arg;
    const view *v = a->v;
    int64_t c = line / v->taps, t = line % v->taps, grid = v->gh * v->gw, item = raw ? 2 : 4;
    int64_t src = yk_dtype_bytes(v->dtype), left = (int64_t)n;
    from += a->base;
    int64_t image = from / grid, q = from % grid, y = q / v->gw, x = q % v->gw;
    const char *plane = a->p + (image * v->channels + c) * v->height * v->width * src;
    for (char *to = out; left > 0;) {
        int64_t run = v->gw - x < left ? v->gw - x : left;
        cpu_view_row(a, plane, y * v->stride_y + v->dy[t], x, run, v->dx[t], to, raw);
        to += run * item;
        left -= run;
        x = 0;
        if (++y == v->gh) {
            y = 0;
            plane += v->channels * v->height * v->width * src;
        }
    }
}

/* ---- forward and dx: products over merged positions ---- */

void cpu_conv_put(const conv_run *r, char *row, int64_t x, const float *p, int64_t n)
{
    const conv_args *a = r->a;
    int64_t item = yk_dtype_bytes(a->dy);
    if (a->stride_x == 1) {
        r->c->isa->from_f32(row + (x + a->first_x) * item, p, a->dy, (size_t)n);
        return;
    }
    char *to = row + (x * a->stride_x + a->first_x) * item;
    if (item == 4) {
        for (int64_t i = 0; i < n; i++)
            ((float *)(void *)to)[i * a->stride_x] = p[i];
        return;
    }
    uint16_t t[64];
    for (int64_t e = 0; e < n; e += 64) {
        int64_t m = n - e < 64 ? n - e : 64;
        r->c->isa->from_f32(t, p + e, a->dy, (size_t)m);
        for (int64_t i = 0; i < m; i++)
            ((uint16_t *)(void *)to)[(e + i) * a->stride_x] = t[i];
    }
}

/* rows of C are result channels, columns are positions: runs along the grid's rows */
static void conv_done(void *arg, int64_t i, int64_t ni, int64_t j, int64_t nj, float *acc, int64_t ld)
{
    const conv_run *r = arg;
    const conv_args *a = r->a;
    int64_t grid = a->v.gh * a->v.gw, item = yk_dtype_bytes(a->dy), plane = a->oh * a->ow * item;
    bool whole = a->stride_x == 1 && a->stride_y == 1 && a->ow == a->v.gw;
    char *base = (char *)cpu_at(r->c, a->y) + r->group * a->g.m * plane;
    for (int64_t m = 0; m < ni; m++)
        for (int64_t k = 0; k < nj;) {
            int64_t image = (j + k) / grid, q = (j + k) % grid, x = q % a->v.gw;
            int64_t run = whole ? grid - q : a->v.gw - x;
            run = run < nj - k ? run : nj - k;
            char *p = base + (image * a->out_channels + i + m) * plane;
            p += (q / a->v.gw * a->stride_y + a->first_y) * a->ow * item;
            cpu_conv_put(r, p, x, acc + m * ld + k, run);
            k += run;
        }
}

static void conv_empty(const conv_args *a, const cpu_ctx *c)
{
    static const float zero[256];
    int64_t n = a->images * a->v.gh * a->v.gw, lo, hi;
    cpu_part((n + 255) / 256, c->tid, c->nt, &lo, &hi);
    for (int64_t g = 0; g < a->groups; g++) {
        conv_run r = {a, c, g};
        for (int64_t m = 0; m < a->g.m; m++)
            for (int64_t j = lo * 256; j < hi * 256 && j < n; j += 256)
                conv_done(&r, m, 1, j, n - j < 256 ? n - j : 256, (float *)(uintptr_t)zero, 256);
    }
}

static void conv_step(const void *args, const cpu_ctx *c)
{
    const conv_args *a = args;
    if (a->empty) {
        conv_empty(a, c);
        return;
    }
    int64_t lo, hi, rects = a->gm * a->gn;
    const char *w = a->ws_w >= 0 ? c->shared_ws + a->ws_w : cpu_at(c, a->w);
    cpu_part(a->groups * rects, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t i0, i1, j0, j1, plane = a->v.height * a->v.width * yk_dtype_bytes(a->v.dtype);
        conv_run r = {a, c, t / rects};
        view_at at = {&a->v, c->isa, (const char *)cpu_at(c, a->x) + r.group * a->x_planes * plane, 0};
        cpu_src sa = {w + r.group * a->w_stride * yk_dtype_bytes(a->dw), a->g.k, a->dw, 1, NULL, NULL, NULL};
        cpu_src sb = {NULL, 0, a->v.dtype, 0, fetch_view, &at, NULL};
        cpu_sink s = {NULL, 0, false, conv_done, NULL, &r};
        cpu_gemm_part(&a->g, a->gm, a->gn, (int)(t % rects), &i0, &i1, &j0, &j1);
        if (i0 < i1 && j0 < j1)
            cpu_gemm_run(&a->g, c->isa, c->thread_ws, &sa, &sb, i0, i1, j0, j1, &s);
    }
}

/* ---- dw ---- */

static void dw_step(const void *args, const cpu_ctx *c)
{
    const dw_args *a = args;
    int64_t lo, hi, rects = a->gm * a->gn, m = a->g.m, n = a->g.n;
    cpu_part(a->groups * a->cuts * rects, c->tid, c->nt, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t i0, i1, j0, j1, cut = t / rects % a->cuts, group = t / rects / a->cuts;
        int64_t gp = a->gv.height * a->gv.width * yk_dtype_bytes(a->gv.dtype);
        int64_t xp = a->v.height * a->v.width * yk_dtype_bytes(a->v.dtype);
        view_at ga = {&a->gv, c->isa, (const char *)cpu_at(c, a->gy) + group * m * gp, cut * a->cut};
        view_at xa = {&a->v, c->isa, (const char *)cpu_at(c, a->x) + group * (n / a->v.taps) * xp, cut * a->cut};
        cpu_src sa = {NULL, 0, a->gv.dtype, 1, fetch_view, &ga, NULL};
        cpu_src sb = {NULL, 0, a->v.dtype, 1, fetch_view, &xa, NULL};
        float *out = a->direct ? cpu_at(c, a->gw) : (float *)(void *)c->shared_ws + cut * a->groups * m * n;
        cpu_sink s = {out + group * m * n, n, a->direct && a->accumulate, NULL, NULL, NULL};
        cpu_gemm g = a->g;
        g.k = a->length - cut * a->cut < a->cut ? a->length - cut * a->cut : a->cut;
        cpu_gemm_part(&g, a->gm, a->gn, (int)(t % rects), &i0, &i1, &j0, &j1);
        if (i0 < i1 && j0 < j1 && g.k > 0)
            cpu_gemm_run(&g, c->isa, c->thread_ws, &sa, &sb, i0, i1, j0, j1, &s);
    }
}

static void dw_combine_step(const void *args, const cpu_ctx *c)
{
    const dw_args *a = args;
    const float *part = (const float *)(const void *)c->shared_ws;
    int64_t lo, hi, n = a->groups * a->g.m * a->g.n, item = yk_dtype_bytes(a->dtype);
    float sum[1024], old[1024];
    cpu_part(n, c->tid, c->nt, &lo, &hi);
    for (int64_t j = lo; j < hi; j += 1024) {
        size_t m = (size_t)(hi - j < 1024 ? hi - j : 1024);
        char *to = (char *)cpu_at(c, a->gw) + j * item;
        memcpy(sum, part + j, m * 4);
        for (int64_t cut = 1; cut < a->cuts; cut++)
            c->isa->add(sum, part + cut * n + j, m);
        if (a->accumulate) {
            c->isa->to_f32(old, to, a->dtype, m);
            c->isa->add(sum, old, m);
        }
        c->isa->from_f32(to, sum, a->dtype, m);
    }
}

/* ---- dx: w' of each phase ---- */

typedef struct filter_args {
    cpu_ref w;
    int64_t groups, o, c, taps, all; /* channels of a group; taps of the phase; of the kernel */
    const int32_t *tap;              /* which taps */
    int64_t to;
    uint8_t dtype;
} filter_args;

/* w'[g][c][o][t] = w[g][o][c][tap t] */
static void transpose_filter_step(const void *args, const cpu_ctx *c)
{
    const filter_args *a = args;
    int64_t lo, hi, item = yk_dtype_bytes(a->dtype);
    cpu_part(a->groups * a->c, c->tid, c->nt, &lo, &hi);
    for (int64_t r = lo; r < hi; r++) {
        const char *w = (const char *)cpu_at(c, a->w) + (r / a->c * a->o * a->c + r % a->c) * a->all * item;
        char *to = c->shared_ws + a->to + r * a->o * a->taps * item;
        for (int64_t o = 0; o < a->o; o++, w += a->c * a->all * item)
            for (int64_t t = 0; t < a->taps; t++, to += item)
                memcpy(to, w + a->tap[t] * item, (size_t)item);
    }
}

/* ---- Planning ---- */

static conv_shape shape_of(cpu_build *b, const yk_node *n)
{
    const yk_value *x, *y, *w;
    if (n->op == YK_OP_CONV2D) {
        x = cpu_in(b, n, 0), w = cpu_in(b, n, 1), y = cpu_out(b, n, 0);
    } else if (n->op == YK_OP_CONV2D_DX) {
        y = cpu_in(b, n, 0), w = cpu_in(b, n, 1), x = cpu_out(b, n, 0);
    } else {
        y = cpu_in(b, n, 0), x = cpu_in(b, n, 1), w = cpu_out(b, n, 0);
    }
    conv_shape s = {x->dim[0], x->dim[1], x->dim[2], x->dim[3], y->dim[1], y->dim[2], y->dim[3], w->dim[2], w->dim[3],
                    cpu_attr(b, n, 0), cpu_attr(b, n, 1), cpu_attr(b, n, 2), cpu_attr(b, n, 3), cpu_attr(b, n, 4),
                    cpu_attr(b, n, 5), cpu_attr(b, n, 6)};
    return s;
}

/* all taps of the kernel over x, one grid point for each result pixel */
static view input_view(cpu_build *b, const conv_shape *s, int dtype)
{
    int32_t *d = cpu_args(b, (size_t)(2 * s->kh * s->kw) * sizeof *d);
    view v = {s->c, s->h, s->w, s->oh, s->ow, s->sh, s->sw, (int32_t)(s->kh * s->kw), d, d ? d + s->kh * s->kw : d,
              (uint8_t)dtype};
    for (int64_t t = 0; d && t < s->kh * s->kw; t++) {
        d[t] = (int32_t)(t / s->kw * s->dh - s->ph);
        d[s->kh * s->kw + t] = (int32_t)(t % s->kw * s->dw - s->pw);
    }
    return v;
}

static double conv_work(const conv_shape *s)
{
    return 2.0 * (double)(s->n * s->o * s->oh * s->ow * s->kh * s->kw) * (double)(s->c / s->groups) / 60.0;
}

static void emit_conv(cpu_build *b, conv_args *a, double work)
{
    if (!a->empty && cpu_conv_direct(b, a, work))
        return;
    if (!a->empty)
        cpu_gemm_grid(&a->g, a->groups, b->nt, &a->gm, &a->gn);
    cpu_need_thread_ws(b, a->g.bytes);
    cpu_emit(b, conv_step, a, work);
}

static void plan_forward(cpu_build *b, const yk_node *n, const conv_shape *s)
{
    const yk_value *x = cpu_in(b, n, 0), *w = cpu_in(b, n, 1), *y = cpu_out(b, n, 0);
    conv_args *a = cpu_args(b, sizeof *a);
    if (!a)
        return;
    int64_t cg = s->c / s->groups, og = s->o / s->groups, taps = s->kh * s->kw;
    *a = (conv_args){.v = input_view(b, s, x->dtype), .w = cpu_ref_of(w), .x = cpu_ref_of(x), .y = cpu_ref_of(y),
                     .groups = s->groups, .images = s->n, .w_stride = og * cg * taps, .x_planes = cg,
                     .out_channels = s->o, .oh = s->oh, .ow = s->ow, .stride_y = 1, .stride_x = 1, .dw = w->dtype,
                     .dy = y->dtype, .ws_w = -1};
    if (b->status != YK_OK)
        return;
    cpu_gemm_init(&a->g, b->isa, og, s->n * s->oh * s->ow, cg * taps, w->dtype, x->dtype, true);
    emit_conv(b, a, conv_work(s));
}

static int64_t floor_mod(int64_t a, int64_t m)
{
    return (a % m + m) % m;
}

/* One phase of dx: pixels iy = qy*sh + py; taps with (py + ph - ky*dh) divisible by sh reach them. */
static void plan_phase(cpu_build *b, const yk_node *n, const conv_shape *s, int64_t py, int64_t px, int64_t *ws_bytes)
{
    const yk_value *gy = cpu_in(b, n, 0), *w = cpu_in(b, n, 1), *gx = cpu_out(b, n, 0);
    int64_t cg = s->c / s->groups, og = s->o / s->groups, all = s->kh * s->kw, item = yk_dtype_bytes(w->dtype);
    conv_args *a = cpu_args(b, sizeof *a);
    filter_args *filter = cpu_args(b, sizeof *filter);
    int32_t *d = cpu_args(b, (size_t)(3 * all) * sizeof *d);
    int64_t gh = (s->h - py + s->sh - 1) / s->sh, gw = (s->w - px + s->sw - 1) / s->sw;
    if (b->status != YK_OK || gh <= 0 || gw <= 0)
        return;
    int32_t taps = 0;
    for (int64_t t = 0; t < all; t++) {
        int64_t ey = py + s->ph - t / s->kw * s->dh, ex = px + s->pw - t % s->kw * s->dw;
        if (floor_mod(ey, s->sh) || floor_mod(ex, s->sw))
            continue;
        d[taps] = (int32_t)(ey / s->sh);
        d[all + taps] = (int32_t)(ex / s->sw);
        d[2 * all + taps++] = (int32_t)t;
    }
    view v = {s->o, s->oh, s->ow, gh, gw, 1, 1, taps, d, d + all, gy->dtype};
    *a = (conv_args){.v = v, .w = cpu_ref_of(w), .x = cpu_ref_of(gy), .y = cpu_ref_of(gx), .groups = s->groups,
                     .images = s->n, .w_stride = og * cg * taps, .x_planes = og, .out_channels = s->c, .oh = s->h,
                     .ow = s->w, .stride_y = s->sh, .stride_x = s->sw, .first_y = py, .first_x = px, .dw = w->dtype,
                     .dy = gx->dtype, .empty = taps == 0, .ws_w = *ws_bytes};
    a->g.m = cg;
    if (taps) {
        *filter = (filter_args){cpu_ref_of(w), s->groups, og, cg, taps, all, d + 2 * all, *ws_bytes, w->dtype};
        *ws_bytes += (int64_t)cpu_round((size_t)(s->groups * og * cg * taps * item), 64);
        cpu_need_shared_ws(b, (size_t)*ws_bytes);
        cpu_emit(b, transpose_filter_step, filter, (double)(s->groups * og * cg * taps) * 1.5);
        cpu_gemm_init(&a->g, b->isa, cg, s->n * gh * gw, og * taps, w->dtype, gy->dtype, true);
    }
    emit_conv(b, a, conv_work(s) / (double)(s->sh * s->sw));
}

static void choose_cuts(dw_args *a)
{
    int64_t tiles = a->groups * ((a->g.m + a->g.mr - 1) / a->g.mr) * ((a->g.n + a->g.nr - 1) / a->g.nr);
    int64_t want = tiles >= 256 ? 1 : (256 + tiles - 1) / tiles, fit = a->length / 1024;
    int64_t room = (4 << 20) / (a->groups * a->g.m * a->g.n);
    want = want > MOST_CUTS ? MOST_CUTS : want;
    want = want > fit ? fit : want;
    want = want > room ? room : want;
    want = want < 1 ? 1 : want;
    a->cut = (int64_t)cpu_round((size_t)((a->length + want - 1) / want), 64);
    a->cuts = (a->length + a->cut - 1) / a->cut;
}

static void plan_dw(cpu_build *b, const yk_node *n, const conv_shape *s)
{
    const yk_value *gy = cpu_in(b, n, 0), *x = cpu_in(b, n, 1), *gw = cpu_out(b, n, 0);
    dw_args *a = cpu_args(b, sizeof *a);
    static const int32_t none[1];
    if (!a)
        return;
    a->v = input_view(b, s, x->dtype);
    if (b->status != YK_OK || cpu_conv_dw_block(b, n, s, &a->v))
        return;
    a->gv = (view){s->o, s->oh, s->ow, s->oh, s->ow, 1, 1, 1, none, none, gy->dtype};
    a->gy = cpu_ref_of(gy);
    a->x = cpu_ref_of(x);
    a->gw = cpu_ref_of(gw);
    a->groups = s->groups;
    a->length = s->n * s->oh * s->ow;
    a->dtype = gw->dtype;
    a->accumulate = n->flags & YK_NODE_ACCUMULATE;
    int64_t m = s->o / s->groups, nn = s->c / s->groups * s->kh * s->kw;
    cpu_gemm_init(&a->g, b->isa, m, nn, a->length, gy->dtype, x->dtype, false);
    choose_cuts(a);
    cpu_gemm_init(&a->g, b->isa, m, nn, a->cut, gy->dtype, x->dtype, false);
    if (cpu_conv_dw_direct(b, a, s->n, conv_work(s)))
        return;
    a->direct = a->cuts == 1 && gw->dtype == YK_F32;
    cpu_gemm_grid(&a->g, a->groups * a->cuts, b->nt, &a->gm, &a->gn);
    cpu_need_thread_ws(b, a->g.bytes);
    int64_t count = a->groups * m * nn;
    if (!a->direct)
        cpu_need_shared_ws(b, (size_t)(a->cuts * count) * 4);
    cpu_emit(b, dw_step, a, conv_work(s));
    if (!a->direct)
        cpu_emit(b, dw_combine_step, a, (double)(a->cuts * count) * 0.1);
}

void cpu_plan_conv(cpu_build *b, const yk_node *n)
{
    conv_shape s = shape_of(b, n);
    int64_t ws_bytes = 0;
    if (n->op == YK_OP_CONV2D_DW ? cpu_conv_dw_wino(b, n, &s) : cpu_conv_wino(b, n, &s) || cpu_conv_block(b, n, &s))
        return;
    if (n->op == YK_OP_CONV2D)
        plan_forward(b, n, &s);
    else if (n->op == YK_OP_CONV2D_DW)
        plan_dw(b, n, &s);
    else
        for (int64_t p = 0; p < s.sh * s.sw && b->status == YK_OK; p++)
            plan_phase(b, n, &s, p / s.sw, p % s.sw, &ws_bytes);
}
