/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference evaluation of convolutions and pools in float64: plain loops over every pair of pixel and kernel element. Tests and the
 * conformance suite compare devices with it.
 *
 * eval.c calls it through the table of operations (op_table.h), with operands read into dense arrays of doubles; any thread. One function
 * serves a convolution and both its gradients, as they have the same triples of input, weight and result.
 */
#include "core/graph/graph_internal.h"

#include <math.h>

/* ---- Convolution ---- */

typedef struct conv {
    const int64_t *x, *w, *y; /* dims */
    const int64_t *attr;      /* sh sw ph pw dh dw groups */
    const double *from, *other;
    double *to;
    uint32_t op;
} conv;

/* Adds the taps of one row of the kernel, which begin at weight wi, to output pixel yi; x0 is the input's index at column 0. */
static void row_taps(const conv *c, int64_t q, int64_t x0, int64_t wi, int64_t yi)
{
    for (int64_t kw = 0, v = q * c->attr[1] - c->attr[3]; kw < c->w[3]; kw++, wi++, v += c->attr[5]) {
        if (v < 0 || v >= c->x[3])
            continue;
        if (c->op == YK_OP_CONV2D)
            c->to[yi] += c->from[x0 + v] * c->other[wi];
        else if (c->op == YK_OP_CONV2D_DX)
            c->to[x0 + v] += c->from[yi] * c->other[wi];
        else
            c->to[wi] += c->from[yi] * c->other[x0 + v];
    }
}

/* Adds all taps of output pixel (n, o, p, q); yi is its index. */
static void pixel_taps(const conv *c, int64_t n, int64_t o, int64_t p, int64_t q, int64_t yi)
{
    const int64_t plane = n * c->x[1] + o / (c->w[0] / c->attr[6]) * c->w[1];
    for (int64_t ch = 0; ch < c->w[1]; ch++)
        for (int64_t kh = 0, h = p * c->attr[0] - c->attr[2]; kh < c->w[2]; kh++, h += c->attr[4])
            if (h >= 0 && h < c->x[2])
                row_taps(c, q, ((plane + ch) * c->x[2] + h) * c->x[3], ((o * c->w[1] + ch) * c->w[2] + kh) * c->w[3], yi);
}

yk_status yk__eval_conv2d(yk__eval *e)
{
    conv c = {.attr = e->attr, .from = e->x[0], .other = e->x[1], .to = e->y[0], .op = e->op};
    const int64_t *in0 = e->x_value[0]->dim, *in1 = e->x_value[1]->dim, *out = e->y_value[0]->dim;
    int64_t yi = 0;
    c.x = e->op == YK_OP_CONV2D ? in0 : e->op == YK_OP_CONV2D_DX ? out : in1;
    c.w = e->op == YK_OP_CONV2D_DW ? out : in1;
    c.y = e->op == YK_OP_CONV2D ? out : in0;
    for (int64_t n = 0; n < c.y[0]; n++)
        for (int64_t o = 0; o < c.y[1]; o++)
            for (int64_t p = 0; p < c.y[2]; p++)
                for (int64_t q = 0; q < c.y[3]; q++)
                    pixel_taps(&c, n, o, p, q, yi++);
    return YK_OK;
}

/* ---- Pools ---- */

typedef struct pool_window {
    int64_t h0, w0, kh, kw, dh, dw, h, w; /* first pixel (may be outside), size, distance, image */
    const double *image;
} pool_window;

/* Index in the image of element k of the window; -1: padding. */
static int64_t window_pixel(const pool_window *v, int64_t k)
{
    const int64_t y = v->h0 + k / v->kw * v->dh, x = v->w0 + k % v->kw * v->dw;
    return y < 0 || y >= v->h || x < 0 || x >= v->w ? -1 : y * v->w + x;
}

/* The window of output pixel i over images of shape x. */
static pool_window window_at(const yk_value *x, const yk_value *y, const int64_t *a, bool dilated, int64_t i)
{
    const int64_t q = i % y->dim[3], p = i / y->dim[3] % y->dim[2];
    pool_window v = {.kh = a[0], .kw = a[1], .dh = dilated ? a[6] : 1, .dw = dilated ? a[7] : 1};
    v.h0 = p * a[2] - a[4];
    v.w0 = q * a[3] - a[5];
    v.h = x->dim[2];
    v.w = x->dim[3];
    return v;
}

static int64_t plane_of(const yk_value *x, const yk_value *y, int64_t i)
{
    return i / (y->dim[2] * y->dim[3]) * x->dim[2] * x->dim[3];
}

/* Index of the first maximum of a window; -1 if it is all padding. A NaN is larger than every number. */
static int64_t first_max(const pool_window *v, const double *image)
{
    int64_t best = -1;
    for (int64_t k = 0; k < v->kh * v->kw; k++) {
        int64_t at = window_pixel(v, k);
        if (at >= 0 && (best < 0 || image[at] > image[best] || (isnan(image[at]) && !isnan(image[best]))))
            best = at;
    }
    return best;
}

yk_status yk__eval_max_pool(yk__eval *e)
{
    const bool bwd = e->op == YK_OP_MAX_POOL_BWD;
    const yk_value *x = e->x_value[0], *y = bwd ? e->x_value[1] : e->y_value[0];
    for (int64_t i = 0; i < yk__value_count(y); i++) {
        pool_window v = window_at(x, y, e->attr, true, i);
        int64_t plane = plane_of(x, y, i), at = first_max(&v, e->x[0] + plane);
        if (bwd && at >= 0)
            e->y[0][plane + at] += e->x[1][i];
        else if (!bwd)
            e->y[0][i] = at < 0 ? -INFINITY : e->x[0][plane + at];
    }
    return YK_OK;
}

yk_status yk__eval_avg_pool(yk__eval *e)
{
    const bool bwd = e->op == YK_OP_AVG_POOL_BWD;
    const yk_value *x = bwd ? e->y_value[0] : e->x_value[0], *y = bwd ? e->x_value[0] : e->y_value[0];
    for (int64_t i = 0; i < yk__value_count(y); i++) {
        pool_window v = window_at(x, y, e->attr, false, i);
        int64_t plane = plane_of(x, y, i), n = 0, at;
        for (int64_t k = 0; k < v.kh * v.kw; k++)
            n += e->attr[6] || window_pixel(&v, k) >= 0;
        for (int64_t k = 0; k < v.kh * v.kw; k++) {
            at = window_pixel(&v, k);
            if (at >= 0 && bwd)
                e->y[0][plane + at] += e->x[0][i] / (double)n;
            else if (at >= 0)
                e->y[0][i] += e->x[0][plane + at] / (double)n;
        }
    }
    return YK_OK;
}
