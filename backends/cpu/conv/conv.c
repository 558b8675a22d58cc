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
#include "backends/cpu/isa/vec_kernels.h"
#include "plugins/kit/value.h"

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

void cpu_view_row(const conv_view_at *a, const char *plane, int64_t y, int64_t x0, int64_t n, int64_t shift, char *out,
                      bool raw)
{
    const conv_view *view = a->view;
    int64_t src = yk_dtype_bytes(view->dtype), item = raw ? 2 : 4, lo = 0, hi = 0;
    if (y >= 0 && y < view->height)
        row_inside(x0, n, view->stride_x, shift, view->width, &lo, &hi);
    memset(out, 0, (size_t)(lo * item));
    memset(out + hi * item, 0, (size_t)((n - hi) * item));
    const char *p = plane + (y * view->width + (x0 + lo) * view->stride_x + shift) * src;
    char *to = out + lo * item;
    if (hi <= lo)
        return;
    if (view->stride_x == 1 && (raw || view->dtype == YK_F32)) {
        memcpy(to, p, (size_t)((hi - lo) * item));
    } else if (view->stride_x == 1) {
        a->isa->vec->to_f32((float *)(void *)to, p, view->dtype, (size_t)(hi - lo));
    } else if (item == src) {
        stride_in(to, p, hi - lo, view->stride_x, item);
    } else { /* widened 64 at a time */
        uint16_t t[64];
        for (int64_t i = 0; i < hi - lo; i += 64) {
            int64_t m = hi - lo - i < 64 ? hi - lo - i : 64;
            stride_in((char *)t, p + i * view->stride_x * 2, m, view->stride_x, 2);
            a->isa->vec->to_f32((float *)(void *)(to + 4 * i), t, view->dtype, (size_t)m);
        }
    }
}

static void fetch_view(const void *arg, int64_t line, int64_t from, size_t n, void *out, bool raw)
{
    const conv_view_at *a = arg;
    const conv_view *view = a->view;
    int64_t c = line / view->taps, t = line % view->taps, grid = view->grid_h * view->grid_w, item = raw ? 2 : 4;
    int64_t src = yk_dtype_bytes(view->dtype), left = (int64_t)n;
    from += a->base;
    int64_t image = from / grid, q = from % grid, y = q / view->grid_w, x = q % view->grid_w;
    const char *plane = a->data + (image * view->channels + c) * view->height * view->width * src;
    for (char *to = out; left > 0;) {
        int64_t run = view->grid_w - x < left ? view->grid_w - x : left;
        cpu_view_row(a, plane, y * view->stride_y + view->shift_y[t], x, run, view->shift_x[t], to, raw);
        to += run * item;
        left -= run;
        x = 0;
        if (++y == view->grid_h) {
            y = 0;
            plane += view->channels * view->height * view->width * src;
        }
    }
}

/* ---- forward and dx: products over merged positions ---- */

void cpu_conv_put(const conv_run *r, char *row, int64_t x, const float *p, int64_t n)
{
    const conv_args *conv = r->conv;
    int64_t item = yk_dtype_bytes(conv->y_dtype);
    if (conv->stride_x == 1) {
        r->ctx->isa->vec->from_f32(row + (x + conv->first_x) * item, p, conv->y_dtype, (size_t)n);
        return;
    }
    char *to = row + (x * conv->stride_x + conv->first_x) * item;
    if (item == 4) {
        for (int64_t i = 0; i < n; i++)
            ((float *)(void *)to)[i * conv->stride_x] = p[i];
        return;
    }
    uint16_t t[64];
    for (int64_t e = 0; e < n; e += 64) {
        int64_t m = n - e < 64 ? n - e : 64;
        r->ctx->isa->vec->from_f32(t, p + e, conv->y_dtype, (size_t)m);
        for (int64_t i = 0; i < m; i++)
            ((uint16_t *)(void *)to)[(e + i) * conv->stride_x] = t[i];
    }
}

/* rows of C are result channels, columns are positions: runs along the grid's rows */
static void conv_done(void *arg, int64_t i, int64_t ni, int64_t j, int64_t nj, float *acc, int64_t ld)
{
    const conv_run *r = arg;
    const conv_args *conv = r->conv;
    int64_t grid = conv->view.grid_h * conv->view.grid_w, item = yk_dtype_bytes(conv->y_dtype), plane = conv->oh * conv->ow * item;
    bool whole = conv->stride_x == 1 && conv->stride_y == 1 && conv->ow == conv->view.grid_w;
    char *base = (char *)cpu_at(r->ctx, conv->y_ref) + r->group * conv->gemm.m * plane;
    for (int64_t m = 0; m < ni; m++)
        for (int64_t k = 0; k < nj;) {
            int64_t image = (j + k) / grid, q = (j + k) % grid, x = q % conv->view.grid_w;
            int64_t run = whole ? grid - q : conv->view.grid_w - x;
            run = run < nj - k ? run : nj - k;
            char *p = base + (image * conv->out_channels + i + m) * plane;
            p += (q / conv->view.grid_w * conv->stride_y + conv->first_y) * conv->ow * item;
            cpu_conv_put(r, p, x, acc + m * ld + k, run);
            k += run;
        }
}

static void conv_empty(const conv_args *conv, const cpu_ctx *ctx)
{
    static const float zero[256];
    int64_t n = conv->images * conv->view.grid_h * conv->view.grid_w, lo, hi;
    cpu_part((n + 255) / 256, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t g = 0; g < conv->groups; g++) {
        conv_run r = {conv, ctx, g};
        for (int64_t m = 0; m < conv->gemm.m; m++)
            for (int64_t j = lo * 256; j < hi * 256 && j < n; j += 256)
                conv_done(&r, m, 1, j, n - j < 256 ? n - j : 256, (float *)(uintptr_t)zero, 256);
    }
}

static void conv_step(const void *args, const cpu_ctx *ctx)
{
    const conv_args *conv = args;
    if (conv->empty) {
        conv_empty(conv, ctx);
        return;
    }
    int64_t lo, hi, rects = conv->grid_m * conv->grid_n;
    const char *w = conv->ws_w >= 0 ? ctx->shared_ws + conv->ws_w : cpu_at(ctx, conv->w_ref);
    cpu_part(conv->groups * rects, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t i0, i1, j0, j1, plane = conv->view.height * conv->view.width * yk_dtype_bytes(conv->view.dtype);
        conv_run r = {conv, ctx, t / rects};
        conv_view_at at = {&conv->view, ctx->isa, (const char *)cpu_at(ctx, conv->x_ref) + r.group * conv->x_planes * plane, 0};
        cpu_src sa = {w + r.group * conv->w_stride * yk_dtype_bytes(conv->w_dtype), conv->gemm.k, conv->w_dtype, 1, NULL, NULL, NULL};
        cpu_src sb = {NULL, 0, conv->view.dtype, 0, fetch_view, &at, NULL};
        cpu_sink sink = {NULL, 0, false, conv_done, NULL, &r};
        cpu_gemm_part(&conv->gemm, conv->grid_m, conv->grid_n, (int)(t % rects), &i0, &i1, &j0, &j1);
        if (i0 < i1 && j0 < j1)
            cpu_gemm_run(&conv->gemm, ctx->isa, ctx->thread_ws, &sa, &sb, i0, i1, j0, j1, &sink);
    }
}

/* ---- dw ---- */

static void dw_step(const void *args, const cpu_ctx *ctx)
{
    const dw_args *dw = args;
    int64_t lo, hi, rects = dw->grid_m * dw->grid_n, m = dw->gemm.m, n = dw->gemm.n;
    cpu_part(dw->groups * dw->cuts * rects, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t i0, i1, j0, j1, cut = t / rects % dw->cuts, group = t / rects / dw->cuts;
        int64_t gp = dw->grad_view.height * dw->grad_view.width * yk_dtype_bytes(dw->grad_view.dtype);
        int64_t xp = dw->view.height * dw->view.width * yk_dtype_bytes(dw->view.dtype);
        conv_view_at ga = {&dw->grad_view, ctx->isa, (const char *)cpu_at(ctx, dw->gy_ref) + group * m * gp, cut * dw->cut_positions};
        conv_view_at xa = {&dw->view, ctx->isa, (const char *)cpu_at(ctx, dw->x_ref) + group * (n / dw->view.taps) * xp,
                           cut * dw->cut_positions};
        cpu_src sa = {NULL, 0, dw->grad_view.dtype, 1, fetch_view, &ga, NULL};
        cpu_src sb = {NULL, 0, dw->view.dtype, 1, fetch_view, &xa, NULL};
        float *out = dw->direct ? cpu_at(ctx, dw->gw_ref) : (float *)(void *)ctx->shared_ws + cut * dw->groups * m * n;
        cpu_sink sink = {out + group * m * n, n, dw->direct && dw->accumulate, NULL, NULL, NULL};
        cpu_gemm gemm = dw->gemm;
        gemm.k = dw->positions - cut * dw->cut_positions < dw->cut_positions ? dw->positions - cut * dw->cut_positions
                                                                             : dw->cut_positions;
        cpu_gemm_part(&gemm, dw->grid_m, dw->grid_n, (int)(t % rects), &i0, &i1, &j0, &j1);
        if (i0 < i1 && j0 < j1 && gemm.k > 0)
            cpu_gemm_run(&gemm, ctx->isa, ctx->thread_ws, &sa, &sb, i0, i1, j0, j1, &sink);
    }
}

static void dw_combine_step(const void *args, const cpu_ctx *ctx)
{
    const dw_args *dw = args;
    const float *part = (const float *)(const void *)ctx->shared_ws;
    int64_t lo, hi, n = dw->groups * dw->gemm.m * dw->gemm.n, item = yk_dtype_bytes(dw->dtype);
    float sum[1024], old[1024];
    cpu_part(n, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t j = lo; j < hi; j += 1024) {
        size_t m = (size_t)(hi - j < 1024 ? hi - j : 1024);
        char *to = (char *)cpu_at(ctx, dw->gw_ref) + j * item;
        memcpy(sum, part + j, m * 4);
        for (int64_t cut = 1; cut < dw->cuts; cut++)
            ctx->isa->vec->add(sum, part + cut * n + j, m);
        if (dw->accumulate) {
            ctx->isa->vec->to_f32(old, to, dw->dtype, m);
            ctx->isa->vec->add(sum, old, m);
        }
        ctx->isa->vec->from_f32(to, sum, dw->dtype, m);
    }
}

/* ---- dx: w' of each phase ---- */

typedef struct filter_args {
    cpu_ref w;
    int64_t groups, out_channels, in_channels, taps, kernel_taps; /* channels of a group; taps of the phase; of the kernel */
    const int32_t *tap;                                           /* which taps */
    int64_t ws_offset;
    uint8_t dtype;
} filter_args;

/* w'[g][c][o][t] = w[g][o][c][tap t] */
static void transpose_filter_step(const void *args, const cpu_ctx *ctx)
{
    const filter_args *filter = args;
    int64_t lo, hi, item = yk_dtype_bytes(filter->dtype);
    cpu_part(filter->groups * filter->in_channels, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t r = lo; r < hi; r++) {
        const char *w = (const char *)cpu_at(ctx, filter->w) +
                        (r / filter->in_channels * filter->out_channels * filter->in_channels + r % filter->in_channels) *
                            filter->kernel_taps * item;
        char *to = ctx->shared_ws + filter->ws_offset + r * filter->out_channels * filter->taps * item;
        for (int64_t o = 0; o < filter->out_channels; o++, w += filter->in_channels * filter->kernel_taps * item)
            for (int64_t t = 0; t < filter->taps; t++, to += item)
                memcpy(to, w + filter->tap[t] * item, (size_t)item);
    }
}

/* ---- Planning ---- */

static conv_shape shape_of(cpu_build *build, const yk_node *node)
{
    const yk_value *x, *y, *w;
    if (node->op == YK_OP_CONV2D) {
        x = cpu_in(build, node, 0), w = cpu_in(build, node, 1), y = cpu_out(build, node, 0);
    } else if (node->op == YK_OP_CONV2D_DX) {
        y = cpu_in(build, node, 0), w = cpu_in(build, node, 1), x = cpu_out(build, node, 0);
    } else {
        y = cpu_in(build, node, 0), x = cpu_in(build, node, 1), w = cpu_out(build, node, 0);
    }
    conv_shape shape = {x->dim[0],
                        x->dim[1],
                        x->dim[2],
                        x->dim[3],
                        y->dim[1],
                        y->dim[2],
                        y->dim[3],
                        w->dim[2],
                        w->dim[3],
                        cpu_attr(build, node, 0),
                        cpu_attr(build, node, 1),
                        cpu_attr(build, node, 2),
                        cpu_attr(build, node, 3),
                        cpu_attr(build, node, 4),
                        cpu_attr(build, node, 5),
                        cpu_attr(build, node, 6)};
    return shape;
}

/* all taps of the kernel over x, one grid point for each result pixel */
static conv_view input_view(cpu_build *build, const conv_shape *shape, int dtype)
{
    int32_t *d = cpu_args(build, (size_t)(2 * shape->kh * shape->kw) * sizeof *d);
    conv_view view = {shape->c,
                      shape->h,
                      shape->w,
                      shape->oh,
                      shape->ow,
                      shape->sh,
                      shape->sw,
                      (int32_t)(shape->kh * shape->kw),
                      d,
                      d ? d + shape->kh * shape->kw : d,
                      (uint8_t)dtype};
    for (int64_t t = 0; d && t < shape->kh * shape->kw; t++) {
        d[t] = (int32_t)(t / shape->kw * shape->dil_h - shape->ph);
        d[shape->kh * shape->kw + t] = (int32_t)(t % shape->kw * shape->dil_w - shape->pw);
    }
    return view;
}

static double conv_work(const conv_shape *shape)
{
    return 2.0 * (double)(shape->n * shape->o * shape->oh * shape->ow * shape->kh * shape->kw) *
           (double)(shape->c / shape->groups) / 60.0;
}

static void emit_conv(cpu_build *build, conv_args *conv, double work)
{
    if (!conv->empty && cpu_conv_direct(build, conv, work))
        return;
    if (!conv->empty)
        cpu_gemm_grid(&conv->gemm, conv->groups, build->workers, &conv->grid_m, &conv->grid_n);
    cpu_need_thread_ws(build, conv->gemm.bytes);
    cpu_emit(build, conv_step, conv, work);
}

static void plan_forward(cpu_build *build, const yk_node *node, const conv_shape *shape)
{
    const yk_value *x = cpu_in(build, node, 0), *w = cpu_in(build, node, 1), *y = cpu_out(build, node, 0);
    conv_args *conv = cpu_args(build, sizeof *conv);
    if (!conv)
        return;
    int64_t cg = shape->c / shape->groups, og = shape->o / shape->groups, taps = shape->kh * shape->kw;
    *conv = (conv_args){.view = input_view(build, shape, x->dtype),
                        .w_ref = cpu_ref_of(w),
                        .x_ref = cpu_ref_of(x),
                        .y_ref = cpu_ref_of(y),
                        .groups = shape->groups,
                        .images = shape->n,
                        .w_stride = og * cg * taps,
                        .x_planes = cg,
                        .out_channels = shape->o,
                        .oh = shape->oh,
                        .ow = shape->ow,
                        .stride_y = 1,
                        .stride_x = 1,
                        .w_dtype = w->dtype,
                        .y_dtype = y->dtype,
                        .ws_w = -1};
    if (build->status != YK_OK)
        return;
    cpu_gemm_init(&conv->gemm, build->isa, og, shape->n * shape->oh * shape->ow, cg * taps, w->dtype, x->dtype, true);
    emit_conv(build, conv, conv_work(shape));
}

static int64_t floor_mod(int64_t a, int64_t m)
{
    return (a % m + m) % m;
}

/* One phase of dx: pixels iy = qy*sh + py; taps with (py + ph - ky*dh) divisible by sh reach them. */
static void plan_phase(cpu_build *build, const yk_node *node, const conv_shape *shape, int64_t py, int64_t px, int64_t *ws_bytes)
{
    const yk_value *gy = cpu_in(build, node, 0), *w = cpu_in(build, node, 1), *gx = cpu_out(build, node, 0);
    int64_t cg = shape->c / shape->groups, og = shape->o / shape->groups, all = shape->kh * shape->kw, item = yk_dtype_bytes(w->dtype);
    conv_args *conv = cpu_args(build, sizeof *conv);
    filter_args *filter = cpu_args(build, sizeof *filter);
    int32_t *d = cpu_args(build, (size_t)(3 * all) * sizeof *d);
    int64_t gh = (shape->h - py + shape->sh - 1) / shape->sh, gw = (shape->w - px + shape->sw - 1) / shape->sw;
    if (build->status != YK_OK || gh <= 0 || gw <= 0)
        return;
    int32_t taps = 0;
    for (int64_t t = 0; t < all; t++) {
        int64_t ey = py + shape->ph - t / shape->kw * shape->dil_h, ex = px + shape->pw - t % shape->kw * shape->dil_w;
        if (floor_mod(ey, shape->sh) || floor_mod(ex, shape->sw))
            continue;
        d[taps] = (int32_t)(ey / shape->sh);
        d[all + taps] = (int32_t)(ex / shape->sw);
        d[2 * all + taps++] = (int32_t)t;
    }
    conv_view view = {shape->o, shape->oh, shape->ow, gh, gw, 1, 1, taps, d, d + all, gy->dtype};
    *conv = (conv_args){.view = view, .w_ref = cpu_ref_of(w), .x_ref = cpu_ref_of(gy), .y_ref = cpu_ref_of(gx), .groups = shape->groups,
                     .images = shape->n, .w_stride = og * cg * taps, .x_planes = og, .out_channels = shape->c, .oh = shape->h,
                     .ow = shape->w, .stride_y = shape->sh, .stride_x = shape->sw, .first_y = py, .first_x = px, .w_dtype = w->dtype,
                     .y_dtype = gx->dtype, .empty = taps == 0, .ws_w = *ws_bytes};
    conv->gemm.m = cg;
    if (taps) {
        *filter = (filter_args){cpu_ref_of(w), shape->groups, og, cg, taps, all, d + 2 * all, *ws_bytes, w->dtype};
        *ws_bytes += (int64_t)kit_round_bytes((size_t)(shape->groups * og * cg * taps * item), 64);
        cpu_need_shared_ws(build, (size_t)*ws_bytes);
        cpu_emit(build, transpose_filter_step, filter, (double)(shape->groups * og * cg * taps) * 1.5);
        cpu_gemm_init(&conv->gemm, build->isa, cg, shape->n * gh * gw, og * taps, w->dtype, gy->dtype, true);
    }
    emit_conv(build, conv, conv_work(shape) / (double)(shape->sh * shape->sw));
}

static void choose_cuts(dw_args *dw)
{
    int64_t tiles = dw->groups * ((dw->gemm.m + dw->gemm.mr - 1) / dw->gemm.mr) * ((dw->gemm.n + dw->gemm.nr - 1) / dw->gemm.nr);
    int64_t want = tiles >= 256 ? 1 : (256 + tiles - 1) / tiles, fit = dw->positions / 1024;
    int64_t room = (4 << 20) / (dw->groups * dw->gemm.m * dw->gemm.n);
    want = want > MOST_CUTS ? MOST_CUTS : want;
    want = want > fit ? fit : want;
    want = want > room ? room : want;
    want = want < 1 ? 1 : want;
    dw->cut_positions = (int64_t)kit_round_bytes((size_t)((dw->positions + want - 1) / want), 64);
    dw->cuts = (dw->positions + dw->cut_positions - 1) / dw->cut_positions;
}

static void plan_dw(cpu_build *build, const yk_node *node, const conv_shape *shape)
{
    const yk_value *gy = cpu_in(build, node, 0), *x = cpu_in(build, node, 1), *gw = cpu_out(build, node, 0);
    dw_args *dw = cpu_args(build, sizeof *dw);
    static const int32_t none[1];
    if (!dw)
        return;
    dw->view = input_view(build, shape, x->dtype);
    if (build->status != YK_OK || cpu_conv_dw_block(build, node, shape, &dw->view))
        return;
    dw->grad_view = (conv_view){shape->o, shape->oh, shape->ow, shape->oh, shape->ow, 1, 1, 1, none, none, gy->dtype};
    dw->gy_ref = cpu_ref_of(gy);
    dw->x_ref = cpu_ref_of(x);
    dw->gw_ref = cpu_ref_of(gw);
    dw->groups = shape->groups;
    dw->positions = shape->n * shape->oh * shape->ow;
    dw->dtype = gw->dtype;
    dw->accumulate = node->flags & YK_NODE_ACCUMULATE;
    int64_t m = shape->o / shape->groups, nn = shape->c / shape->groups * shape->kh * shape->kw;
    cpu_gemm_init(&dw->gemm, build->isa, m, nn, dw->positions, gy->dtype, x->dtype, false);
    choose_cuts(dw);
    cpu_gemm_init(&dw->gemm, build->isa, m, nn, dw->cut_positions, gy->dtype, x->dtype, false);
    if (cpu_conv_dw_direct(build, dw, shape->n, conv_work(shape)))
        return;
    dw->direct = dw->cuts == 1 && gw->dtype == YK_F32;
    cpu_gemm_grid(&dw->gemm, dw->groups * dw->cuts, build->workers, &dw->grid_m, &dw->grid_n);
    cpu_need_thread_ws(build, dw->gemm.bytes);
    int64_t count = dw->groups * m * nn;
    if (!dw->direct)
        cpu_need_shared_ws(build, (size_t)(dw->cuts * count) * 4);
    cpu_emit(build, dw_step, dw, conv_work(shape));
    if (!dw->direct)
        cpu_emit(build, dw_combine_step, dw, (double)(dw->cuts * count) * 0.1);
}

void cpu_plan_conv(cpu_build *build, const yk_node *node)
{
    conv_shape shape = shape_of(build, node);
    int64_t ws_bytes = 0;
    if (node->op == YK_OP_CONV2D_DW ? cpu_conv_dw_wino(build, node, &shape)
                                    : cpu_conv_wino(build, node, &shape) || cpu_conv_block(build, node, &shape))
        return;
    if (node->op == YK_OP_CONV2D)
        plan_forward(build, node, &shape);
    else if (node->op == YK_OP_CONV2D_DW)
        plan_dw(build, node, &shape);
    else
        for (int64_t p = 0; p < shape.sh * shape.sw && build->status == YK_OK; p++)
            plan_phase(build, node, &shape, p / shape.sw, p % shape.sw, &ws_bytes);
}
