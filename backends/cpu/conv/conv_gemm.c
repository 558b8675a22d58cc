/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution as products whose second operand is never stored: its panels are packed straight from the image. Any problem fits, so
 * cpu_conv.c takes it last, while a program is compiled, in any thread; its steps run on the workers.
 *
 *   forward   y[o, (n,q)]    = sum_(c,t) w[o, (c,t)]  x[n, c, at(q,t)]
 *   dw        gw[o, (c,t)]   = sum_(n,q) gy[o, (n,q)] x[n, c, at(q,t)]
 *
 * q are positions of a grid, t taps; at(q,t) = q * stride + shift(t). dx is the forward form over gy (cpu_conv.c). dw packs both operands
 * from images. cpu_conv.c cuts its positions by the shape alone; each cut has a partial result, which a second step adds in order.
 */
#include <string.h>

#include "backends/cpu/conv/conv_shape.h"
#include "backends/cpu/isa/vec_kernels.h"

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
        cpu_gemm_rect(&conv->gemm, conv->grid_m, conv->grid_n, (int)(t % rects), &i0, &i1, &j0, &j1);
        if (i0 < i1 && j0 < j1)
            cpu_gemm_run(&conv->gemm, ctx, &sa, &sb, i0, i1, j0, j1, &sink);
    }
}

static bool gemm_fits(const cpu_isa *isa, const conv_problem *problem)
{
    (void)isa, (void)problem;
    return true;
}

static void gemm_plan(cpu_build *build, const conv_problem *problem)
{
    conv_args *conv = cpu_args(build, sizeof *conv);
    if (!conv)
        return;
    *conv = *problem->product;
    if (!conv->empty)
        cpu_gemm_grid(&conv->gemm, conv->groups, build->workers, &conv->grid_m, &conv->grid_n);
    cpu_need_thread_ws(build, conv->gemm.bytes);
    cpu_emit(build, conv_step, conv, problem->work);
}

const conv_algorithm cpu_conv_gemm = {"gemm", gemm_fits, gemm_plan};

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
        cpu_gemm_rect(&gemm, dw->grid_m, dw->grid_n, (int)(t % rects), &i0, &i1, &j0, &j1);
        if (i0 < i1 && j0 < j1 && gemm.k > 0)
            cpu_gemm_run(&gemm, ctx, &sa, &sb, i0, i1, j0, j1, &sink);
    }
}

static void dw_combine_step(const void *args, const cpu_ctx *ctx)
{
    const dw_args *dw = args;
    float *part = (float *)(void *)ctx->shared_ws;
    int64_t lo, hi, n = dw->groups * dw->gemm.m * dw->gemm.n, item = yk_dtype_bytes(dw->dtype);
    float old[1024];
    cpu_part(n, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t j = lo; j < hi; j += 1024) {
        size_t m = (size_t)(hi - j < 1024 ? hi - j : 1024);
        char *to = (char *)cpu_at(ctx, dw->gw_ref) + j * item;
        cpu_cuts_sum(ctx, part + j, (size_t)n, dw->cuts, m);
        if (dw->accumulate) {
            ctx->isa->vec->to_f32(old, to, dw->dtype, m);
            ctx->isa->vec->add(part + j, old, m);
        }
        ctx->isa->vec->from_f32(to, part + j, dw->dtype, m);
    }
}

static void gemm_dw_plan(cpu_build *build, const conv_problem *problem)
{
    dw_args *dw = cpu_args(build, sizeof *dw);
    if (!dw)
        return;
    *dw = *problem->dw;
    dw->direct = dw->cuts == 1 && dw->dtype == YK_F32;
    cpu_gemm_grid(&dw->gemm, dw->groups * dw->cuts, build->workers, &dw->grid_m, &dw->grid_n);
    cpu_need_thread_ws(build, dw->gemm.bytes);
    int64_t count = dw->groups * dw->gemm.m * dw->gemm.n;
    if (!dw->direct)
        cpu_need_shared_ws(build, (size_t)(dw->cuts * count) * 4);
    cpu_emit(build, dw_step, dw, problem->work);
    if (!dw->direct)
        cpu_emit(build, dw_combine_step, dw, (double)(dw->cuts * count) * 0.1);
}

const conv_algorithm cpu_conv_gemm_dw = {"gemm", gemm_fits, gemm_dw_plan};
