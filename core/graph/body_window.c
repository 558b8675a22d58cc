/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of convolutions and pools, for devices that do not run them. Unfold lays the windows of an image side by side, then comes a
 * product or a reduction. Gradients end in fold, which adds windows back.
 *
 * body.c finds them through the table of operations (op_table.h), in the thread that plans. A body appends nodes to the caller's graph.
 */
#include <math.h>
#include <string.h>

#include "core/graph/body.h"

/* x [N,C,H,W] as columns [N, C*kh*kw, L]. attr: kh kw sh sw ph pw dh dw. */
static yk__vid cols_unfold(yk__inline *b, yk__vid x, const int64_t attr[8], double pad)
{
    int64_t a[9];
    yk__vid out = YK_NONE;
    memcpy(a, attr, 8 * sizeof *a);
    a[8] = yk_attr_of_f64(pad);
    yk__apply(b->g, YK_OP_UNFOLD, 1, &x, 9, a, YK_DTYPE_COUNT, 0, NULL, &out, 1);
    return out;
}

static yk__vid cols_fold(yk__inline *b, yk__vid x, const int64_t attr[8], const int64_t dim[4])
{
    yk__vid out = YK_NONE;
    yk__apply(b->g, YK_OP_FOLD, 1, &x, 8, attr, YK_DTYPE_COUNT, 4, dim, &out, 1);
    return out;
}

/* The product in f32 (f64). */
static yk__vid dot_widened(yk__inline *b, yk__vid x, yk__vid y)
{
    const yk__vid in[2] = {x, y};
    yk__vid out = YK_NONE;
    yk__apply(b->g, YK_OP_DOT, 2, in, 0, NULL, yk__body_dtype(b), 0, NULL, &out, 1);
    return out;
}

static yk__vid matrix_transpose(yk__graph *g, yk__vid x)
{
    return yk__permute(g, x, (const uint32_t[]){0, 2, 1});
}

/* ---- Convolution ---- */

typedef struct conv {
    int64_t n, c, h, w, o, oh, ow, kh, kw, groups, cg, og;
    int64_t win[8]; /* attributes of unfold */
} conv;

static conv conv_of(const yk__inline *b, const yk_value *x, const yk_value *w, const yk_value *y)
{
    conv c = {x->dim[0], x->dim[1], x->dim[2],  x->dim[3], w->dim[0], y->dim[2], y->dim[3],
              w->dim[2], w->dim[3], b->attr[6], 0,         0,         {0}};
    c.cg = c.c / c.groups;
    c.og = c.o / c.groups;
    c.win[0] = c.kh;
    c.win[1] = c.kw;
    memcpy(c.win + 2, b->attr, 6 * sizeof *b->attr);
    return c;
}

/*
 * With one group the images are the batch of the product, and the kernels are broadcast over it. With several groups the groups are the
 * batch, and the images lie side by side. Dot has one batch dimension, and a node per group would be many nodes.
 */

/* [N, groups*rows, L] as [groups, rows, N*L] */
static yk__vid group_major(yk__inline *b, const conv *c, yk__vid x, int64_t rows)
{
    const int64_t l = c->oh * c->ow;
    x = yk__reshape(b->g, x, 4, (const int64_t[]){c->n, c->groups, rows, l});
    x = yk__permute(b->g, x, (const uint32_t[]){1, 2, 0, 3});
    return yk__reshape(b->g, x, 3, (const int64_t[]){c->groups, rows, c->n * l});
}

/* The inverse of group_major. */
static yk__vid image_major(yk__inline *b, const conv *c, yk__vid x, int64_t rows)
{
    const int64_t l = c->oh * c->ow;
    x = yk__reshape(b->g, x, 4, (const int64_t[]){c->groups, rows, c->n, l});
    x = yk__permute(b->g, x, (const uint32_t[]){2, 0, 1, 3});
    return yk__reshape(b->g, x, 3, (const int64_t[]){c->n, c->groups * rows, l});
}

/* Kernels as matrices: [groups, O/groups, C/groups*kh*kw], or one matrix for all images with stride 0. */
static yk__vid kernel_matrices(yk__inline *b, const conv *c, yk__vid w)
{
    const int64_t k = c->cg * c->kh * c->kw;
    w = yk__reshape(b->g, w, 3, (const int64_t[]){c->groups, c->og, k});
    return c->groups > 1 ? w : yk__expand(b->g, w, 3, (const int64_t[]){c->n, c->og, k});
}

static yk__vid rows_of(yk__inline *b, const conv *c, yk__vid gy)
{
    return yk__reshape(b->g, gy, 3, (const int64_t[]){c->n, c->o, c->oh * c->ow});
}

void yk__body_conv2d(yk__inline *b)
{
    const conv c = conv_of(b, b->x[0], b->x[1], b->y[0]);
    yk__vid cols = cols_unfold(b, b->in[0], c.win, 0), y;
    if (c.groups > 1)
        cols = group_major(b, &c, cols, c.cg * c.kh * c.kw);
    y = dot_widened(b, kernel_matrices(b, &c, b->in[1]), cols);
    if (c.groups > 1)
        y = image_major(b, &c, y, c.og);
    yk__body_output(b, 0, yk__reshape(b->g, y, 4, (const int64_t[]){c.n, c.o, c.oh, c.ow}));
}

/* columns of gx = W^T gy, then fold */
void yk__body_conv2d_dx(yk__inline *b)
{
    const conv c = conv_of(b, b->y[0], b->x[1], b->x[0]);
    const int64_t dim[4] = {c.n, c.c, c.h, c.w};
    yk__vid gy = rows_of(b, &c, b->in[0]), cols;
    if (c.groups > 1)
        gy = group_major(b, &c, gy, c.og);
    cols = dot_widened(b, matrix_transpose(b->g, kernel_matrices(b, &c, b->in[1])), gy);
    if (c.groups > 1)
        cols = image_major(b, &c, cols, c.cg * c.kh * c.kw);
    yk__body_output(b, 0, cols_fold(b, cols, c.win, dim));
}

/* gw = gy columns^T over all pixels of all images */
void yk__body_conv2d_dw(yk__inline *b)
{
    const conv c = conv_of(b, b->x[1], b->y[0], b->x[0]);
    const yk__vid gy = group_major(b, &c, rows_of(b, &c, b->in[0]), c.og);
    const yk__vid cols = group_major(b, &c, cols_unfold(b, b->in[1], c.win, 0), c.cg * c.kh * c.kw);
    yk__body_output(b, 0, yk__reshape(b->g, dot_widened(b, gy, matrix_transpose(b->g, cols)), 4, b->y[0]->dim));
}

/* ---- Pools: each channel is a separate image ---- */

static yk__vid channel_planes(yk__inline *b, yk__vid x, const yk_value *v)
{
    return yk__reshape(b->g, x, 4, (const int64_t[]){v->dim[0] * v->dim[1], 1, v->dim[2], v->dim[3]});
}

static void output_put(yk__inline *b, yk__vid x)
{
    yk__body_output(b, 0, yk__reshape(b->g, x, 4, b->y[0]->dim));
}

void yk__body_max_pool(yk__inline *b)
{
    const yk__vid cols = cols_unfold(b, channel_planes(b, yk__body_widen(b, 0), b->x[0]), b->attr, -INFINITY);
    output_put(b, yk__rmax(b->g, cols, 1u << 1));
}

/* The gradient goes to the first maximum of the window in row-major order, as argmax takes the first of equal maxima. */
void yk__body_max_pool_bwd(yk__inline *b)
{
    yk__graph *g = b->g;
    const yk_value *x = b->x[0], *gy = b->x[1];
    const int64_t n = x->dim[0] * x->dim[1], k = b->attr[0] * b->attr[1], l = gy->dim[2] * gy->dim[3];
    const int64_t cols_dim[3] = {n, k, l}, plane[4] = {n, 1, x->dim[2], x->dim[3]};
    const yk__vid cols = cols_unfold(b, channel_planes(b, yk__body_widen(b, 0), x), b->attr, -INFINITY);
    const yk__vid hit = yk__bin(g, YK_OP_EQ, yk__iota(g, 1, YK_I32, 3, cols_dim), yk__argmax(g, cols, 1));
    const yk__vid grad = yk__reshape(g, yk__body_widen(b, 1), 3, (const int64_t[]){n, 1, l});
    output_put(b, cols_fold(b, yk__dense(g, yk__select(g, hit, grad, yk__body_number(b, 0))), b->attr, plane));
}

/* attr of avg_pool: kh kw sh sw ph pw include_pad */
static void pool_window(const yk__inline *b, int64_t win[8])
{
    memcpy(win, b->attr, 6 * sizeof *win);
    win[6] = win[7] = 1;
}

/* Divisor of a window's sum: [1, 1, L], or one element. */
static yk__vid pool_divisor(yk__inline *b, const int64_t win[8], const yk_value *x)
{
    const int64_t one[4] = {1, 1, x->dim[2], x->dim[3]};
    if (b->attr[6])
        return yk__body_number(b, (double)(win[0] * win[1]));
    return yk__sum(b->g, cols_unfold(b, yk__fill(b->g, 1, yk__body_dtype(b), 4, one), win, 0), 1u << 1);
}

void yk__body_avg_pool(yk__inline *b)
{
    int64_t win[8];
    yk__vid sum;
    pool_window(b, win);
    sum = yk__sum(b->g, cols_unfold(b, channel_planes(b, yk__body_widen(b, 0), b->x[0]), win, 0), 1u << 1);
    output_put(b, yk__bin(b->g, YK_OP_DIV, sum, pool_divisor(b, win, b->x[0])));
}

void yk__body_avg_pool_bwd(yk__inline *b)
{
    const yk_value *gy = b->x[0], *x = b->y[0];
    const int64_t n = x->dim[0] * x->dim[1], l = gy->dim[2] * gy->dim[3], plane[4] = {n, 1, x->dim[2], x->dim[3]};
    int64_t win[8];
    yk__vid g;
    pool_window(b, win);
    g = yk__reshape(b->g, yk__body_widen(b, 0), 3, (const int64_t[]){n, 1, l});
    g = yk__bin(b->g, YK_OP_DIV, g, pool_divisor(b, win, x));
    g = yk__expand(b->g, g, 3, (const int64_t[]){n, win[0] * win[1], l});
    output_put(b, cols_fold(b, yk__dense(b->g, g), win, plane));
}
