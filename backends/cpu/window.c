/* SPDX-License-Identifier: Apache-2.0 */
/* Sliding windows over images: unfold, fold, max_pool, avg_pool and their backward forms. */
#include <math.h>
#include <string.h>

#include "cpu.h"

typedef struct window_args {
    cpu_ref x, g, y;
    int64_t n, c, h, w, oh, ow;
    int64_t kh, kw, sh, sw, ph, pw, dh, dw;
    uint8_t dtype;
    float pad;
    bool include_pad;
} window_args;

static const char *plane(const cpu_ctx *c, cpu_ref r, int64_t p, int64_t size, int dtype)
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
    float *buf = (float *)(void *)c->mine, *row = buf + a->h * a->w;
    int64_t lo, hi, taps = a->kh * a->kw, item = yk_dtype_bytes(a->dtype);
    cpu_part(a->n * a->c, c->tid, c->nt, &lo, &hi);
    for (int64_t p = lo; p < hi; p++) {
        const float *x = as_f32(c, plane(c, a->x, p, a->h * a->w, a->dtype), a->dtype, a->h * a->w, buf);
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
    float *sum = (float *)(void *)c->mine, *buf = sum + size;
    cpu_part(a->n * a->c, c->tid, c->nt, &lo, &hi);
    for (int64_t p = lo; p < hi; p++) {
        memset(sum, 0, (size_t)size * 4);
        for (int64_t t = 0; t < taps; t++) {
            const float *x = as_f32(c, plane(c, a->x, p * taps + t, outs, a->dtype), a->dtype, outs, buf);
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
static void inside(int64_t o, int64_t s, int64_t p, int64_t d, int64_t k, int64_t size, int64_t *lo, int64_t *hi)
{
    int64_t from = o * s - p;
    *lo = from < 0 ? (-from + d - 1) / d : 0;
    *hi = from >= size ? 0 : (size - 1 - from) / d + 1;
    *hi = *hi < k ? *hi : k;
}

/* where the first maximum (or NaN) of a window lies; -1 if the window is all padding */
static int64_t max_of(const window_args *a, const float *x, int64_t oy, int64_t ox)
{
    int64_t y0, y1, x0, x1, best = -1;
    inside(oy, a->sh, a->ph, a->dh, a->kh, a->h, &y0, &y1);
    inside(ox, a->sw, a->pw, a->dw, a->kw, a->w, &x0, &x1);
    for (int64_t ky = y0; ky < y1; ky++)
        for (int64_t kx = x0; kx < x1; kx++) {
            int64_t at = (oy * a->sh - a->ph + ky * a->dh) * a->w + ox * a->sw - a->pw + kx * a->dw;
            if (best < 0 || x[at] > x[best] || (x[at] != x[at] && x[best] == x[best]))
                best = at;
        }
    return best;
}

static void max_pool_step(const void *args, const cpu_ctx *c)
{
    const window_args *a = args;
    int64_t lo, hi, size = a->h * a->w, outs = a->oh * a->ow;
    float *buf = (float *)(void *)c->mine, *out = buf + size;
    cpu_part(a->n * a->c, c->tid, c->nt, &lo, &hi);
    for (int64_t p = lo; p < hi; p++) {
        const float *x = as_f32(c, plane(c, a->x, p, size, a->dtype), a->dtype, size, buf);
        for (int64_t o = 0; o < outs; o++) {
            int64_t at = max_of(a, x, o / a->ow, o % a->ow);
            out[o] = at < 0 ? -INFINITY : x[at];
        }
        c->isa->from_f32((char *)cpu_at(c, a->y) + p * outs * yk_dtype_bytes(a->dtype), out, a->dtype, (size_t)outs);
    }
}

static void max_pool_bwd_step(const void *args, const cpu_ctx *c)
{
    const window_args *a = args;
    int64_t lo, hi, size = a->h * a->w, outs = a->oh * a->ow;
    float *buf = (float *)(void *)c->mine, *sum = buf + size, *gbuf = sum + size;
    cpu_part(a->n * a->c, c->tid, c->nt, &lo, &hi);
    for (int64_t p = lo; p < hi; p++) {
        const float *x = as_f32(c, plane(c, a->x, p, size, a->dtype), a->dtype, size, buf);
        const float *g = as_f32(c, plane(c, a->g, p, outs, a->dtype), a->dtype, outs, gbuf);
        memset(sum, 0, (size_t)size * 4);
        for (int64_t o = 0; o < outs; o++) {
            int64_t at = max_of(a, x, o / a->ow, o % a->ow);
            if (at >= 0)
                sum[at] += g[o];
        }
        c->isa->from_f32((char *)cpu_at(c, a->y) + p * size * yk_dtype_bytes(a->dtype), sum, a->dtype, (size_t)size);
    }
}

/* rows and columns a window covers, and the number it is divided by */
static float avg_window(const window_args *a, int64_t o, int64_t *y0, int64_t *y1, int64_t *x0, int64_t *x1)
{
    int64_t oy = o / a->ow, ox = o % a->ow;
    inside(oy, a->sh, a->ph, 1, a->kh, a->h, y0, y1);
    inside(ox, a->sw, a->pw, 1, a->kw, a->w, x0, x1);
    int64_t n = a->include_pad ? a->kh * a->kw : (*y1 - *y0) * (*x1 - *x0);
    int64_t top = oy * a->sh - a->ph, left = ox * a->sw - a->pw;
    *y0 += top, *y1 += top, *x0 += left, *x1 += left;
    return n > 0 ? (float)n : 1.0f;
}

static void avg_pool_step(const void *args, const cpu_ctx *c)
{
    const window_args *a = args;
    int64_t lo, hi, size = a->h * a->w, outs = a->oh * a->ow, y0, y1, x0, x1;
    float *buf = (float *)(void *)c->mine, *out = buf + size;
    cpu_part(a->n * a->c, c->tid, c->nt, &lo, &hi);
    for (int64_t p = lo; p < hi; p++) {
        const float *x = as_f32(c, plane(c, a->x, p, size, a->dtype), a->dtype, size, buf);
        for (int64_t o = 0; o < outs; o++) {
            float n = avg_window(a, o, &y0, &y1, &x0, &x1), sum = 0.0f;
            for (int64_t y = y0; y < y1; y++)
                for (int64_t i = x0; i < x1; i++)
                    sum += x[y * a->w + i];
            out[o] = sum / n;
        }
        c->isa->from_f32((char *)cpu_at(c, a->y) + p * outs * yk_dtype_bytes(a->dtype), out, a->dtype, (size_t)outs);
    }
}

static void avg_pool_bwd_step(const void *args, const cpu_ctx *c)
{
    const window_args *a = args;
    int64_t lo, hi, size = a->h * a->w, outs = a->oh * a->ow, y0, y1, x0, x1;
    float *sum = (float *)(void *)c->mine, *gbuf = sum + size;
    cpu_part(a->n * a->c, c->tid, c->nt, &lo, &hi);
    for (int64_t p = lo; p < hi; p++) {
        const float *g = as_f32(c, plane(c, a->g, p, outs, a->dtype), a->dtype, outs, gbuf);
        memset(sum, 0, (size_t)size * 4);
        for (int64_t o = 0; o < outs; o++) {
            float v = g[o] / avg_window(a, o, &y0, &y1, &x0, &x1);
            for (int64_t y = y0; y < y1; y++)
                for (int64_t i = x0; i < x1; i++)
                    sum[y * a->w + i] += v;
        }
        c->isa->from_f32((char *)cpu_at(c, a->y) + p * size * yk_dtype_bytes(a->dtype), sum, a->dtype, (size_t)size);
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
        {YK_OP_MAX_POOL, 0, 0, max_pool_step},       {YK_OP_MAX_POOL_BWD, 0, 1, max_pool_bwd_step},
        {YK_OP_AVG_POOL, 0, 0, avg_pool_step},       {YK_OP_AVG_POOL_BWD, 1, 0, avg_pool_bwd_step},
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
        cpu_need_mine(b, (size_t)(2 * a->h * a->w + 2 * a->oh * a->ow + 64) * 4);
        cpu_emit(b, forms[i].fn, a, 3.0 * (double)(a->n * a->c * a->oh * a->ow * a->kh * a->kw));
    }
}
