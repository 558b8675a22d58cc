/* SPDX-License-Identifier: Apache-2.0 */
/* Sliding windows over images: unfold, fold, max_pool, avg_pool and their backward forms. */
#include <string.h>

#include "backends/cpu/conv/conv.h"

typedef struct window_args {
    cpu_ref x, g, y;
    int64_t n, c, h, w, oh, ow;
    int64_t kh, kw, sh, sw, ph, pw, dh, dw;
    uint8_t dtype;
    uint16_t op;
    float pad;
    bool include_pad;
} window_args;

static const char *plane_at(const cpu_ctx *c, cpu_ref r, int64_t p, int64_t size, int dtype)
{
    return (const char *)cpu_at(c, r) + p * size * yk_dtype_bytes((uint32_t)dtype);
}

/* a plane as f32: where it lies, or converted into buf */
static const float *as_f32(const cpu_ctx *c, const char *p, int dtype, int64_t n, float *buf)
{
    if (dtype == YK_F32)
        return (const float *)(const void *)p;
    c->isa->to_f32(buf, p, dtype, (size_t)n);
    return buf;
}

static void unfold_row(const window_args *a, const float *x, int64_t ky, int64_t kx, int64_t oy, float *out)
{
    int64_t iy = oy * a->sh - a->ph + ky * a->dh;
    for (int64_t ox = 0; ox < a->ow; ox++) {
        int64_t ix = ox * a->sw - a->pw + kx * a->dw;
        out[ox] = iy >= 0 && iy < a->h && ix >= 0 && ix < a->w ? x[iy * a->w + ix] : a->pad;
    }
}

static void unfold_step(const void *args, const cpu_ctx *c)
{
    const window_args *a = args;
    float *buf = (float *)(void *)c->thread_ws, *row = buf + a->h * a->w;
    int64_t lo, hi, taps = a->kh * a->kw, item = yk_dtype_bytes(a->dtype);
    cpu_part(a->n * a->c, c->tid, c->nt, &lo, &hi);
    for (int64_t p = lo; p < hi; p++) {
        const float *x = as_f32(c, plane_at(c, a->x, p, a->h * a->w, a->dtype), a->dtype, a->h * a->w, buf);
        char *y = (char *)cpu_at(c, a->y) + p * taps * a->oh * a->ow * item;
        for (int64_t t = 0; t < taps; t++)
            for (int64_t oy = 0; oy < a->oh; oy++, y += a->ow * item) {
                unfold_row(a, x, t / a->kw, t % a->kw, oy, row);
                c->isa->from_f32(y, row, a->dtype, (size_t)a->ow);
            }
    }
}

static void fold_step(const void *args, const cpu_ctx *c)
{
    const window_args *a = args;
    int64_t lo, hi, taps = a->kh * a->kw, size = a->h * a->w, outs = a->oh * a->ow;
    float *sum = (float *)(void *)c->thread_ws, *buf = sum + size;
    cpu_part(a->n * a->c, c->tid, c->nt, &lo, &hi);
    for (int64_t p = lo; p < hi; p++) {
        memset(sum, 0, (size_t)size * 4);
        for (int64_t t = 0; t < taps; t++) {
            const float *x = as_f32(c, plane_at(c, a->x, p * taps + t, outs, a->dtype), a->dtype, outs, buf);
            for (int64_t o = 0; o < outs; o++) {
                int64_t iy = o / a->ow * a->sh - a->ph + t / a->kw * a->dh;
                int64_t ix = o % a->ow * a->sw - a->pw + t % a->kw * a->dw;
                if (iy >= 0 && iy < a->h && ix >= 0 && ix < a->w)
                    sum[iy * a->w + ix] += x[o];
            }
        }
        c->isa->from_f32((char *)cpu_at(c, a->y) + p * size * yk_dtype_bytes(a->dtype), sum, a->dtype, (size_t)size);
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
    const window_args *a;
    const cpu_ctx *c;
    float *x, *y, *tmp; /* the image, the windows' numbers, room to convert; the gradient of max_pool's image in `sum` */
    float *sum;
} pool_run;

static cpu_planes planes_of(const cpu_ctx *c, const window_args *a, cpu_ref at, int64_t h, int64_t w)
{
    int64_t n = a->n * a->c;
    return (cpu_planes){at, n, h, w, (n + c->isa->vw - 1) / c->isa->vw, a->dtype, false, 0};
}

static pool_run pool_of(const window_args *a, const cpu_ctx *c)
{
    int64_t vw = c->isa->vw, image = a->h * a->w * vw, outs = a->oh * a->ow * vw;
    float *x = (float *)(void *)c->thread_ws, *y = x + image + vw * vw, *tmp = y + outs + vw * vw;
    return (pool_run){a, c, x, y, tmp, tmp + (image > outs ? image : outs) + vw * vw};
}

/* floats of a worker's scratch */
static int64_t pool_scratch(const window_args *a, int64_t vw)
{
    int64_t image = a->h * a->w * vw, outs = a->oh * a->ow * vw;
    return 2 * image + outs + (image > outs ? image : outs) + 4 * vw * vw;
}

static void planes_in(const pool_run *r, cpu_ref at, int64_t block, int64_t h, int64_t w, float *to)
{
    cpu_planes s = planes_of(r->c, r->a, at, h, w);
    cpu_plane_in(r->c, &s, 0, block, 0, h, r->tmp, to);
}

static void planes_out(const pool_run *r, int64_t block, int64_t h, int64_t w, const float *from)
{
    int64_t vw = r->c->isa->vw, left = r->a->n * r->a->c - block * vw, size = h * w;
    char *y = (char *)cpu_at(r->c, r->a->y) + block * vw * size * yk_dtype_bytes(r->a->dtype);
    cpu_plane_out(r->c, from, size, left < vw ? left : vw, y, r->a->dtype, size, r->tmp);
}

/* all windows of a row of outputs, those that are cut alike together; the image lies at x or at sum */
static void pool_row(const pool_run *r, int op, int64_t oy)
{
    const window_args *a = r->a;
    const cpu_windows *k = r->c->isa->pool;
    int64_t vw = r->c->isa->vw, y0, y1, x0, x1, b0, b1, n;
    taps_inside(oy, a->sh, a->ph, a->dh, a->kh, a->h, &y0, &y1);
    for (int64_t ox = 0; ox < a->ow; ox += n) {
        taps_inside(ox, a->sw, a->pw, a->dw, a->kw, a->w, &x0, &x1);
        for (n = 1; ox + n < a->ow; n++) {
            taps_inside(ox + n, a->sw, a->pw, a->dw, a->kw, a->w, &b0, &b1);
            if (b0 != x0 || b1 != x1)
                break;
        }
        bool empty = y1 <= y0 || x1 <= x0;
        int64_t count = a->include_pad ? a->kh * a->kw : (y1 - y0) * (x1 - x0);
        int64_t at = empty ? 0 : ((oy * a->sh - a->ph + y0 * a->dh) * a->w + ox * a->sw - a->pw + x0 * a->dw) * vw;
        float *y = r->y + (oy * a->ow + ox) * vw;
        const cpu_window w = {empty ? 0 : (size_t)(y1 - y0), empty ? 0 : (size_t)(x1 - x0), (size_t)(a->dh * a->w * vw),
                              (size_t)(a->dw * vw), (size_t)(a->sw * vw), !empty && count > 0 ? (float)count : 1.0f};
        if (op == YK_OP_MAX_POOL && empty)
            r->c->isa->fill32(y, 0xff800000u, (size_t)(n * vw));
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

static void pool_step(const void *args, const cpu_ctx *c)
{
    const window_args *a = args;
    int64_t lo, hi, vw = c->isa->vw;
    bool bwd = a->op == YK_OP_MAX_POOL_BWD || a->op == YK_OP_AVG_POOL_BWD;
    pool_run r = pool_of(a, c);
    cpu_part((a->n * a->c + vw - 1) / vw, c->tid, c->nt, &lo, &hi);
    for (int64_t b = lo; b < hi; b++) {
        if (a->op != YK_OP_AVG_POOL_BWD)
            planes_in(&r, a->x, b, a->h, a->w, r.x);
        if (bwd) {
            planes_in(&r, a->g, b, a->oh, a->ow, r.y);
            memset(r.sum, 0, (size_t)(a->h * a->w * vw) * 4);
        }
        for (int64_t oy = 0; oy < a->oh; oy++)
            pool_row(&r, a->op, oy);
        if (bwd)
            planes_out(&r, b, a->h, a->w, r.sum);
        else
            planes_out(&r, b, a->oh, a->ow, r.y);
    }
}

/* ---- Planning ---- */

static void window_attrs(cpu_build *b, const yk_node *n, window_args *a, const yk_value *image)
{
    a->n = image->dim[0];
    a->c = image->dim[1];
    a->h = image->dim[2];
    a->w = image->dim[3];
    int64_t *at[] = {&a->kh, &a->kw, &a->sh, &a->sw, &a->ph, &a->pw, &a->dh, &a->dw};
    bool avg = n->op == YK_OP_AVG_POOL || n->op == YK_OP_AVG_POOL_BWD;
    for (uint32_t i = 0; i < 8; i++)
        *at[i] = avg && i > 5 ? 1 : cpu_attr(b, n, i);
    a->include_pad = avg && cpu_attr(b, n, 6);
    a->pad = n->op == YK_OP_UNFOLD ? (float)yk_attr_f64(cpu_attr(b, n, 8)) : 0.0f;
    a->oh = (a->h + 2 * a->ph - a->dh * (a->kh - 1) - 1) / a->sh + 1;
    a->ow = (a->w + 2 * a->pw - a->dw * (a->kw - 1) - 1) / a->sw + 1;
}

void cpu_plan_pool(cpu_build *b, const yk_node *n)
{
    static const struct {
        uint16_t op, image_out, has_g;
        cpu_fn fn;
    } forms[] = {
        {YK_OP_UNFOLD, 0, 0, unfold_step},           {YK_OP_FOLD, 1, 0, fold_step},
        {YK_OP_MAX_POOL, 0, 0, pool_step},       {YK_OP_MAX_POOL_BWD, 0, 1, pool_step},
        {YK_OP_AVG_POOL, 0, 0, pool_step},       {YK_OP_AVG_POOL_BWD, 1, 0, pool_step},
    };
    window_args *a = cpu_args(b, sizeof *a);
    if (!a)
        return;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (forms[i].op != n->op)
            continue;
        for (uint32_t k = 0; k < n->n_in; k++)
            if (!cpu_is_dense(cpu_in(b, n, k)) || !cpu_is_float(cpu_in(b, n, k)->dtype)) {
                cpu_refuse(b, n, "an operand that is not a dense float image");
                return;
            }
        window_attrs(b, n, a, forms[i].image_out ? cpu_out(b, n, 0) : cpu_in(b, n, 0));
        a->x = cpu_ref_of(cpu_in(b, n, 0));
        a->g = cpu_ref_of(cpu_in(b, n, forms[i].has_g));
        if (n->op == YK_OP_AVG_POOL_BWD)
            a->g = a->x;
        a->y = cpu_ref_of(cpu_out(b, n, 0));
        a->dtype = cpu_out(b, n, 0)->dtype;
        a->op = n->op;
        int64_t rows = 2 * a->h * a->w + 2 * a->oh * a->ow + 64, pool = pool_scratch(a, b->isa->vw);
        cpu_need_thread_ws(b, (size_t)(rows > pool ? rows : pool) * 4);
        cpu_emit(b, forms[i].fn, a, 3.0 * (double)(a->n * a->c * a->oh * a->ow * a->kh * a->kw));
    }
}
