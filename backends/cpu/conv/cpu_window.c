/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sliding windows over images: unfold, fold, max_pool, avg_pool and their backward forms. cpu_ops.c (backends/cpu) calls cpu_plan_pool for
 * a node while a program is compiled, in any thread; the emitted steps run on the workers.
 *
 * A worker computes whole planes or rows of the output, so sums do not depend on the number of workers.
 */
#include <string.h>

#include "backends/cpu/conv/conv_plane.h"
#include "backends/cpu/conv/cpu_conv.h"
#include "backends/cpu/isa/conv_kernels.h"
#include "backends/cpu/isa/vec_kernels.h"
#include "plugins/kit/value.h"

typedef struct window_args {
    cpu_ref x, g, y;
    int64_t n, c, h, w, oh, ow;
    int64_t kh, kw, sh, sw, ph, pw, dil_h, dil_w;
    uint8_t dtype;
    uint16_t op;
    float pad;
    bool include_pad;
} window_args;

static const char *plane_at(const cpu_ctx *ctx, cpu_ref r, int64_t p, int64_t size, int dtype)
{
    return (const char *)cpu_at(ctx, r) + p * size * yk_dtype_bytes((uint32_t)dtype);
}

/* a plane as f32: in place, or converted into buf */
static const float *as_f32(const cpu_ctx *ctx, const char *p, int dtype, int64_t n, float *buf)
{
    if (dtype == YK_F32)
        return (const float *)(const void *)p;
    ctx->isa->vec->to_f32(buf, p, dtype, (size_t)n);
    return buf;
}

static void unfold_row(const window_args *win, const float *x, int64_t ky, int64_t kx, int64_t oy, float *out)
{
    int64_t iy = oy * win->sh - win->ph + ky * win->dil_h;
    for (int64_t ox = 0; ox < win->ow; ox++) {
        int64_t ix = ox * win->sw - win->pw + kx * win->dil_w;
        out[ox] = iy >= 0 && iy < win->h && ix >= 0 && ix < win->w ? x[iy * win->w + ix] : win->pad;
    }
}

static void unfold_step(const void *args, const cpu_ctx *ctx)
{
    const window_args *win = args;
    float *buf = (float *)(void *)ctx->thread_ws, *row = buf + win->h * win->w;
    int64_t lo, hi, taps = win->kh * win->kw, item = yk_dtype_bytes(win->dtype);
    cpu_part(win->n * win->c, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t p = lo; p < hi; p++) {
        const float *x = as_f32(ctx, plane_at(ctx, win->x, p, win->h * win->w, win->dtype), win->dtype, win->h * win->w, buf);
        char *y = (char *)cpu_at(ctx, win->y) + p * taps * win->oh * win->ow * item;
        for (int64_t t = 0; t < taps; t++)
            for (int64_t oy = 0; oy < win->oh; oy++, y += win->ow * item) {
                unfold_row(win, x, t / win->kw, t % win->kw, oy, row);
                ctx->isa->vec->from_f32(y, row, win->dtype, (size_t)win->ow);
            }
    }
}

static void fold_step(const void *args, const cpu_ctx *ctx)
{
    const window_args *win = args;
    int64_t lo, hi, taps = win->kh * win->kw, size = win->h * win->w, outs = win->oh * win->ow;
    float *sum = (float *)(void *)ctx->thread_ws, *buf = sum + size;
    cpu_part(win->n * win->c, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t p = lo; p < hi; p++) {
        memset(sum, 0, (size_t)size * 4);
        for (int64_t t = 0; t < taps; t++) {
            const float *x = as_f32(ctx, plane_at(ctx, win->x, p * taps + t, outs, win->dtype), win->dtype, outs, buf);
            for (int64_t o = 0; o < outs; o++) {
                int64_t iy = o / win->ow * win->sh - win->ph + t / win->kw * win->dil_h;
                int64_t ix = o % win->ow * win->sw - win->pw + t % win->kw * win->dil_w;
                if (iy >= 0 && iy < win->h && ix >= 0 && ix < win->w)
                    sum[iy * win->w + ix] += x[o];
            }
        }
        ctx->isa->vec->from_f32((char *)cpu_at(ctx, win->y) + p * size * yk_dtype_bytes(win->dtype), sum, win->dtype, (size_t)size);
    }
}

/* The range of taps of one window that lie inside: k from *lo to *hi - 1. */
static void taps_inside(int64_t o, int64_t s, int64_t p, int64_t d, int64_t k, int64_t size, int64_t *lo, int64_t *hi)
{
    int64_t from = o * s - p;
    *lo = from < 0 ? (-from + d - 1) / d : 0;
    *hi = from >= size ? 0 : (size - 1 - from) / d + 1;
    *hi = *hi < k ? *hi : k;
}

/* ---- Pools: blocks of planes, one in each lane (conv_plane.c) ---- */

typedef struct pool_run {
    const window_args *win;
    const cpu_ctx *ctx;
    float *x, *y, *tmp; /* the image, the windows' numbers, room to convert; the gradient of max_pool's image in `sum` */
    float *sum;
} pool_run;

static cpu_planes planes_of(const cpu_ctx *ctx, const window_args *win, cpu_ref at, int64_t h, int64_t w)
{
    int64_t n = win->n * win->c;
    return (cpu_planes){at, n, h, w, (n + ctx->isa->vw - 1) / ctx->isa->vw, win->dtype, false, 0};
}

static pool_run pool_of(const window_args *win, const cpu_ctx *ctx)
{
    int64_t vw = ctx->isa->vw, image = win->h * win->w * vw, outs = win->oh * win->ow * vw;
    float *x = (float *)(void *)ctx->thread_ws, *y = x + image + vw * vw, *tmp = y + outs + vw * vw;
    return (pool_run){win, ctx, x, y, tmp, tmp + (image > outs ? image : outs) + vw * vw};
}

/* floats of a worker's scratch */
static int64_t pool_scratch(const window_args *win, int64_t vw)
{
    int64_t image = win->h * win->w * vw, outs = win->oh * win->ow * vw;
    return 2 * image + outs + (image > outs ? image : outs) + 4 * vw * vw;
}

static void planes_in(const pool_run *r, cpu_ref at, int64_t block, int64_t h, int64_t w, float *to)
{
    cpu_planes planes = planes_of(r->ctx, r->win, at, h, w);
    cpu_plane_in(r->ctx, &planes, 0, block, 0, h, r->tmp, to);
}

static void planes_out(const pool_run *r, int64_t block, int64_t h, int64_t w, const float *from)
{
    int64_t vw = r->ctx->isa->vw, left = r->win->n * r->win->c - block * vw, size = h * w;
    char *y = (char *)cpu_at(r->ctx, r->win->y) + block * vw * size * yk_dtype_bytes(r->win->dtype);
    cpu_plane_out(r->ctx, from, size, left < vw ? left : vw, y, r->win->dtype, size, r->tmp);
}

/* all windows of a row of outputs, equally cut ones together; the image is at x or at sum */
static void pool_row(const pool_run *r, int op, int64_t oy)
{
    const window_args *win = r->win;
    const cpu_pool_kernels *k = r->ctx->isa->pool;
    int64_t vw = r->ctx->isa->vw, y0, y1, x0, x1, b0, b1, n;
    taps_inside(oy, win->sh, win->ph, win->dil_h, win->kh, win->h, &y0, &y1);
    for (int64_t ox = 0; ox < win->ow; ox += n) {
        taps_inside(ox, win->sw, win->pw, win->dil_w, win->kw, win->w, &x0, &x1);
        for (n = 1; ox + n < win->ow; n++) {
            taps_inside(ox + n, win->sw, win->pw, win->dil_w, win->kw, win->w, &b0, &b1);
            if (b0 != x0 || b1 != x1)
                break;
        }
        bool empty = y1 <= y0 || x1 <= x0;
        int64_t count = win->include_pad ? win->kh * win->kw : (y1 - y0) * (x1 - x0);
        int64_t at = empty ? 0 : ((oy * win->sh - win->ph + y0 * win->dil_h) * win->w + ox * win->sw - win->pw + x0 * win->dil_w) * vw;
        float *y = r->y + (oy * win->ow + ox) * vw;
        const cpu_window w = {empty ? 0 : (size_t)(y1 - y0), empty ? 0 : (size_t)(x1 - x0), (size_t)(win->dil_h * win->w * vw),
                              (size_t)(win->dil_w * vw), (size_t)(win->sw * vw), !empty && count > 0 ? (float)count : 1.0f};
        if (op == YK_OP_MAX_POOL && empty)
            r->ctx->isa->vec->fill32(y, 0xff800000u, (size_t)(n * vw));
        else if (op == YK_OP_MAX_POOL)
            k->max(y, r->x + at, &w, (size_t)n);
        else if (op == YK_OP_AVG_POOL)
            k->avg(y, r->x + at, &w, (size_t)n);
        else if (op == YK_OP_MAX_POOL_BWD && !empty)
            k->max_bwd(r->sum + at, r->x + at, y, &w, (size_t)n);
        else if (op == YK_OP_AVG_POOL_BWD)
            k->avg_bwd(r->sum + at, y, &w, (size_t)n);
    }
}

static void pool_step(const void *args, const cpu_ctx *ctx)
{
    const window_args *win = args;
    int64_t lo, hi, vw = ctx->isa->vw;
    bool bwd = win->op == YK_OP_MAX_POOL_BWD || win->op == YK_OP_AVG_POOL_BWD;
    pool_run r = pool_of(win, ctx);
    cpu_part((win->n * win->c + vw - 1) / vw, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t b = lo; b < hi; b++) {
        if (win->op != YK_OP_AVG_POOL_BWD)
            planes_in(&r, win->x, b, win->h, win->w, r.x);
        if (bwd) {
            planes_in(&r, win->g, b, win->oh, win->ow, r.y);
            memset(r.sum, 0, (size_t)(win->h * win->w * vw) * 4);
        }
        for (int64_t oy = 0; oy < win->oh; oy++)
            pool_row(&r, win->op, oy);
        if (bwd)
            planes_out(&r, b, win->h, win->w, r.sum);
        else
            planes_out(&r, b, win->oh, win->ow, r.y);
    }
}

/* ---- Planning ---- */

static void window_attrs(cpu_build *build, const yk_node *node, window_args *win, const yk_value *image)
{
    win->n = image->dim[0];
    win->c = image->dim[1];
    win->h = image->dim[2];
    win->w = image->dim[3];
    int64_t *at[] = {&win->kh, &win->kw, &win->sh, &win->sw, &win->ph, &win->pw, &win->dil_h, &win->dil_w};
    bool avg = node->op == YK_OP_AVG_POOL || node->op == YK_OP_AVG_POOL_BWD;
    for (uint32_t i = 0; i < 8; i++)
        *at[i] = avg && i > 5 ? 1 : cpu_attr(build, node, i);
    win->include_pad = avg && cpu_attr(build, node, 6);
    win->pad = node->op == YK_OP_UNFOLD ? (float)yk_attr_f64(cpu_attr(build, node, 8)) : 0.0f;
    win->oh = (win->h + 2 * win->ph - win->dil_h * (win->kh - 1) - 1) / win->sh + 1;
    win->ow = (win->w + 2 * win->pw - win->dil_w * (win->kw - 1) - 1) / win->sw + 1;
}

void cpu_plan_pool(cpu_build *build, const yk_node *node)
{
    static const struct {
        uint16_t op, image_out, has_g;
        cpu_fn fn;
    } forms[] = {
        {YK_OP_UNFOLD, 0, 0, unfold_step},           {YK_OP_FOLD, 1, 0, fold_step},
        {YK_OP_MAX_POOL, 0, 0, pool_step},       {YK_OP_MAX_POOL_BWD, 0, 1, pool_step},
        {YK_OP_AVG_POOL, 0, 0, pool_step},       {YK_OP_AVG_POOL_BWD, 1, 0, pool_step},
    };
    window_args *win = cpu_args(build, sizeof *win);
    if (!win)
        return;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (forms[i].op != node->op)
            continue;
        for (uint32_t k = 0; k < node->n_in; k++)
            if (!kit_value_dense(cpu_in(build, node, k)) || !cpu_is_float(cpu_in(build, node, k)->dtype)) {
                cpu_refuse(build, node, "an operand that is not a dense float image");
                return;
            }
        if (node->op == YK_OP_FOLD && cpu_in(build, node, 0)->dtype != cpu_out(build, node, 0)->dtype) {
            cpu_refuse(build, node, "a result of another type than the operand's");
            return;
        }
        window_attrs(build, node, win, forms[i].image_out ? cpu_out(build, node, 0) : cpu_in(build, node, 0));
        win->x = cpu_ref_of(cpu_in(build, node, 0));
        win->g = cpu_ref_of(cpu_in(build, node, forms[i].has_g));
        if (node->op == YK_OP_AVG_POOL_BWD)
            win->g = win->x;
        win->y = cpu_ref_of(cpu_out(build, node, 0));
        win->dtype = cpu_out(build, node, 0)->dtype;
        win->op = node->op;
        int64_t rows = 2 * win->h * win->w + 2 * win->oh * win->ow + 64, pool = pool_scratch(win, build->isa->vw);
        cpu_need_thread_ws(build, (size_t)(rows > pool ? rows : pool) * 4);
        cpu_emit(build, forms[i].fn, win, 3.0 * (double)(win->n * win->c * win->oh * win->ow * win->kh * win->kw));
    }
}
