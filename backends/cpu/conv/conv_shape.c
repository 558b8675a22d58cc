/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that the algorithms of convolution share: a row of an image as a tap sees it, rows of results, and planes padded with zeros.
 *
 * The steps of conv_*.c call it on a worker; the planning half (cpu_padding_of and so on) runs while a program is compiled. Lengths are
 * elements. Pure functions on the caller's memory.
 */
#include "backends/cpu/conv/conv_shape.h"

#include <string.h>

#include "backends/cpu/isa/vec_kernels.h"

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

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

conv_padding cpu_padding_of(const conv_view *view)
{
    conv_padding p = {.min_y = INT32_MAX, .min_x = INT32_MAX};
    int64_t maxy = INT32_MIN, maxx = INT32_MIN;
    for (int32_t t = 0; t < view->taps; t++) {
        int64_t fy = floor_div(view->shift_y[t], view->stride_y), fx = floor_div(view->shift_x[t], view->stride_x);
        p.min_y = fy < p.min_y ? fy : p.min_y;
        p.min_x = fx < p.min_x ? fx : p.min_x;
        maxy = fy > maxy ? fy : maxy;
        maxx = fx > maxx ? fx : maxx;
    }
    p.height = view->grid_h + maxy - p.min_y;
    p.width = view->grid_w + maxx - p.min_x;
    p.columns = (view->grid_h - 1) * p.width + view->grid_w;
    return p;
}

int64_t cpu_padding_offset(const conv_view *view, const conv_padding *p, int64_t c, int64_t t)
{
    int64_t fy = floor_div(view->shift_y[t], view->stride_y), fx = floor_div(view->shift_x[t], view->stride_x);
    int64_t rest = (view->shift_y[t] - fy * view->stride_y) * view->stride_x + view->shift_x[t] - fx * view->stride_x;
    return ((c * view->stride_y * view->stride_x + rest) * p->height + fy - p->min_y) * p->width + fx - p->min_x;
}

bool cpu_grid_is_dense(const cpu_isa *isa, int64_t gh, int64_t gw)
{
    int64_t vw = isa->vw;
    return gw % (2 * vw) == 0 || (gw == vw && gh % 2 == 0);
}

bool cpu_conv_few_channels(const cpu_isa *isa, const conv_shape *shape)
{
    int64_t pairs = (shape->c + 1) / 2;
    return 2 * pairs <= isa->vw && shape->sh == 2 && shape->sw == 2 && shape->o * pairs * shape->kh * shape->kw <= 64 << 10 &&
           cpu_grid_is_dense(isa, shape->oh, shape->ow) &&
           pairs * (shape->h + 2 * shape->ph + 4) * (shape->w + 2 * shape->pw + 4) <= 64 << 10;
}
