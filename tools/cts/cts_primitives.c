/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts, group op: the primitives that are not elementwise (sums, products, copies, look-ups), in many shapes and the float types that
 * the device computes in. cts_group_op runs the whole group, with elementwise.c's tests.
 *
 * main.c runs each group in a child process with the device under test open; cts_check.c compares with the reference.
 */
#include "tools/cts/cts_ops.h"

#include <math.h>
#include <string.h>

#define DILATED 3 /* the window that --quick has: with padding that is not 0, and dilated */

/* Numbers for operations that only move them; each must arrive unchanged. */
static cts_dist moved_dist(yk_dtype dtype)
{
    return dtype == YK_BOOL ? CTS_MASK : dtype == YK_I32 ? CTS_WHOLE : CTS_MOVED;
}

static void check_run(cts *c, cts_check *k, yk__vid want)
{
    cts_want(k, want);
    cts_check_run(c, k);
    cts_check_free(k);
}

/* ---- Sources --------------------------------------------------------------------------------------------------------------- */

/* A fill of 8 rows consists of whole vectors on any device. */
static void test_fill(cts *c, yk_dtype dtype, double value, int64_t rows)
{
    const int64_t dim[] = {rows, 67};
    cts_check k;
    if (!cts_begin(c, "fill.%s.%g", yk__dtype_name(dtype), value))
        return;
    cts_check_init(&k, c);
    check_run(c, &k, yk__fill(&k.g, value, dtype, 2, dim));
}

static void test_iota(cts *c, yk_dtype dtype, uint32_t axis)
{
    static const int64_t dim[] = {3, 5, 300};
    cts_check k;
    if (!cts_begin(c, "iota.%s.axis%u", yk__dtype_name(dtype), axis))
        return;
    cts_check_init(&k, c);
    check_run(c, &k, yk__iota(&k.g, axis, dtype, 3, dim));
}

/* The vector has more elements than 16 bits count. */
static void long_iota(cts *c, yk_dtype dtype)
{
    static const int64_t dim[] = {70001};
    cts_check k;
    if (!cts_begin(c, "iota.%s.70001", yk__dtype_name(dtype)))
        return;
    cts_check_init(&k, c);
    check_run(c, &k, yk__iota(&k.g, 0, dtype, 1, dim));
}

static void test_rng(cts *c, int64_t rows, int64_t width, uint32_t stream)
{
    const int64_t dim[] = {rows, width}, four[] = {4};
    cts_check k;
    if (!cts_begin(c, "rng.%lldx%lld", (long long)rows, (long long)width))
        return;
    cts_check_init(&k, c);
    check_run(c, &k, yk__rng(&k.g, cts_leaf(&k.g, YK_I32, CTS_KEY, 0, 1, four), cts_leaf(&k.g, YK_I32, CTS_ROWS, 0, 1, dim), stream, 2,
                       dim));
}

void cts_ops_source(cts *c)
{
    static const double values[] = {0.1, 0, 1, -0.5, 1000.25, -0.0}; /* the first of each list is the one that --quick has */
    yk_dtype types[4];
    uint32_t n = cts_float_types(c, types);
    for (uint32_t t = 0; t < n; t++)
        for (int i = 0; i < 6; i++)
            test_fill(c, types[t], values[i], i ? 3 : 8);
    test_fill(c, YK_I32, -7, 3);
    test_fill(c, YK_I32, 16777217, 3); /* f32 does not hold it */
    test_fill(c, YK_F32, 0.75, 4099);  /* more than a MiB */
    test_fill(c, YK_BOOL, 1, 8);
    for (uint32_t a = 0; a < 3; a++) {
        test_iota(c, YK_I32, (a + 1) % 3);
        test_iota(c, YK_F32, (a + 1) % 3);
    }
    long_iota(c, YK_I32);
    long_iota(c, YK_F32);
    test_rng(c, 5, 7, 3);
    test_rng(c, 1, 1, 0);
    test_rng(c, 16, 64, 77);
    test_rng(c, 3, 1001, 0x80000001u);
}

/* ---- Reductions ------------------------------------------------------------------------------------------------------------ */

typedef struct reduction {
    uint32_t dims, axes;
    int64_t dim[YK_MAX_DIMS];
} reduction;

static const reduction reductions[] = {
    {3, 2, {4, 50, 7}},   {1, 1, {1000}},           {2, 1, {33, 65}},         {2, 2, {33, 65}},      {2, 3, {33, 65}},
    {2, 1, {700, 3}},     {2, 2, {3, 70001}},       {1, 1, {1}},           {3, 5, {4, 50, 7}},    {4, 13, {8, 5, 6, 7}},
    {2, 1, {70003, 2}},   {2, 1, {2, 70001}},       {5, 21, {2, 3, 4, 5, 6}}, {5, 10, {2, 3, 4, 5, 6}},
    {2, 2, {1, 9}},       {4, 1, {64, 2, 3, 5}},   {3, 5, {6, 3, 1501}},
    {2, 1, {300, 136}},   {4, 5, {140, 2, 9, 8}}, /* lines of whole vectors, in parts */
    {2, 2, {70001, 3}},   {8, 0xaa, {2, 3, 2, 1, 3, 2, 2, 3}}, {8, 0x55, {3, 3, 2, 1, 3, 2, 2, 3}},
};

/* More than a million elements: in one sum, in columns, in rows. */
static const reduction larges[] = {{1, 1, {1100003}}, {2, 1, {550003, 2}}, {2, 2, {2, 550003}}};

static double reduce_apply(const reduction *r)
{
    double n = 1;
    for (uint32_t d = 0; d < r->dims; d++)
        n *= r->axes >> d & 1 ? (double)r->dim[d] : 1;
    return n;
}

static void test_reduce(cts *c, uint32_t op, yk_dtype dtype, const reduction *r)
{
    cts_check k;
    yk__vid x, y = YK_NONE;
    int64_t axes = r->axes;
    if (!cts_begin(c, "%s.%s.%ud.axes%u.%lld", yk__op_info_of(op)->name, yk__dtype_name(dtype), r->dims, r->axes,
                   (long long)r->dim[0]))
        return;
    cts_check_init(&k, c);
    k.tol = op == YK_OP_SUM ? CTS_ABSSUM : CTS_EXACT;
    k.n = reduce_apply(r);
    x = cts_leaf(&k.g, dtype, op == YK_OP_SUM ? CTS_WIDE : CTS_UNIT, 0, r->dims, r->dim);
    yk__apply(&k.g, op, 1, &x, 1, &axes, YK_DTYPE_COUNT, YK_NONE, NULL, &y, 1);
    check_run(c, &k, y);
}

static void test_argmax(cts *c, yk_dtype dtype, cts_dist dist, uint32_t axis)
{
    static const int64_t dim[] = {5, 37, 11};
    cts_check k;
    if (!cts_begin(c, "argmax.%s.axis%u%s", yk__dtype_name(dtype), axis, dist == CTS_TIES ? ".ties" : ""))
        return;
    cts_check_init(&k, c);
    check_run(c, &k, yk__argmax(&k.g, cts_leaf(&k.g, dtype, dist, 0, 3, dim), axis));
}

/* Rows of -infinity: no other number may replace it, and the first of equal elements wins. */
static void rows_of_lowest(cts *c, yk_dtype dtype, bool arg)
{
    static const int64_t dim[] = {40, 9};
    cts_check k;
    yk__vid x;
    if (!cts_begin(c, "%s.%s.lowest", arg ? "argmax" : "rmax", yk__dtype_name(dtype)))
        return;
    cts_check_init(&k, c);
    x = cts_leaf(&k.g, dtype, CTS_LOWEST, 0, 2, dim);
    check_run(c, &k, arg ? yk__argmax(&k.g, x, 1) : yk__rmax(&k.g, x, 2));
}

/* The axis is so long that devices join parts. With ties the first part has the answer, otherwise any part. */
static void argmax_long(cts *c, yk_dtype dtype, cts_dist dist, uint32_t axis)
{
    const int64_t dim[] = {axis ? 2 : 70001, axis ? 70001 : 2};
    cts_check k;
    if (!cts_begin(c, "argmax.%s.70001.axis%u%s", yk__dtype_name(dtype), axis, dist == CTS_TIES ? ".ties" : ""))
        return;
    cts_check_init(&k, c);
    check_run(c, &k, yk__argmax(&k.g, cts_leaf(&k.g, dtype, dist, 0, 2, dim), axis));
}

static void rmax_nan(cts *c, yk_dtype dtype)
{
    static const int64_t dim[] = {40, 9};
    cts_check k;
    if (!cts_begin(c, "rmax.%s.nan", yk__dtype_name(dtype)))
        return;
    cts_check_init(&k, c);
    k.any_zero = true;
    check_run(c, &k, yk__rmax(&k.g, cts_leaf(&k.g, dtype, CTS_SPECIAL, 0, 2, dim), 2));
}

void cts_ops_reduce(cts *c)
{
    yk_dtype types[4];
    uint32_t n = cts_float_types(c, types);
    for (uint32_t t = 0; t < n; t++) {
        for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++) {
            test_reduce(c, YK_OP_SUM, types[t], &reductions[i]);
            test_reduce(c, YK_OP_RMAX, types[t], &reductions[i]);
        }
        for (size_t i = 0; i < sizeof larges / sizeof *larges && types[t] == YK_F32; i++)
            test_reduce(c, YK_OP_SUM, types[t], &larges[i]);
        for (uint32_t a = 0; a < 3; a++) {
            test_argmax(c, types[t], CTS_WIDE, a);
            test_argmax(c, types[t], CTS_TIES, a);
        }
        rmax_nan(c, types[t]);
        for (uint32_t a = 0; a < 2; a++) {
            rows_of_lowest(c, types[t], a);
            argmax_long(c, types[t], CTS_UNIT, a);
            argmax_long(c, types[t], CTS_TIES, a);
        }
    }
}

/* ---- Data ------------------------------------------------------------------------------------------------------------------ */

/* Ways to see a [4,6,10] value; the copy makes them dense. */
static yk__vid view_of(yk__graph *g, yk__vid x, uint32_t number)
{
    static const uint32_t turn[] = {2, 0, 1}, swap[] = {0, 2, 1};
    static const int64_t wide[] = {3, 4, 6, 10};
    switch (number) {
    case 0:
        return yk__permute(g, x, turn);
    case 1:
        return yk__permute(g, x, swap);
    case 2:
        return yk__slice(g, x, 2, 1, 10, 2);
    case 3:
        return yk__slice(g, yk__slice(g, x, 1, 2, 5, 1), 0, 1, 4, 2);
    case 4:
        return yk__expand(g, x, 4, wide);
    default:
        return yk__slice(g, yk__permute(g, x, turn), 1, 1, 3, 1);
    }
}

static void test_copy(cts *c, yk_dtype dtype, uint32_t number)
{
    static const int64_t dim[] = {4, 6, 10};
    cts_check k;
    yk__vid x, y = YK_NONE;
    if (!cts_begin(c, "copy.%s.view%u", yk__dtype_name(dtype), number))
        return;
    cts_check_init(&k, c);
    x = view_of(&k.g, cts_leaf(&k.g, dtype, moved_dist(dtype), 0, 3, dim), number);
    yk__apply(&k.g, YK_OP_COPY, 1, &x, 0, NULL, YK_DTYPE_COUNT, YK_NONE, NULL, &y, 1);
    check_run(c, &k, y);
}

/* [5,40,40] as rows of `width` from element `from` of its last dimension on, its first two dimensions changed over: elements that devices
 * may move by several, or may not. */
static void test_copy_rows(cts *c, yk_dtype dtype, int64_t from, int64_t width)
{
    static const int64_t dim[] = {5, 40, 40};
    static const uint32_t turn[] = {1, 0, 2};
    cts_check k;
    yk__vid x, y = YK_NONE;
    if (!cts_begin(c, "copy.%s.rows%lld.%lld", yk__dtype_name(dtype), (long long)from, (long long)width))
        return;
    cts_check_init(&k, c);
    x = cts_leaf(&k.g, dtype, moved_dist(dtype), 0, 3, dim);
    x = yk__permute(&k.g, yk__slice(&k.g, x, 2, from, from + width, 1), turn);
    yk__apply(&k.g, YK_OP_COPY, 1, &x, 0, NULL, YK_DTYPE_COUNT, YK_NONE, NULL, &y, 1);
    check_run(c, &k, y);
}

/* [3,37,70] with its last two dimensions changed over, or its first and its last: tiles that are not whole. */
static void test_copy_transposed(cts *c, yk_dtype dtype, bool far)
{
    static const int64_t dim[] = {3, 37, 70}, back[] = {21, 9, 40};
    static const uint32_t near_turn[] = {0, 2, 1}, far_turn[] = {2, 1, 0};
    cts_check k;
    yk__vid x, y = YK_NONE;
    if (!cts_begin(c, "copy.%s.transposed%u", yk__dtype_name(dtype), far))
        return;
    cts_check_init(&k, c);
    x = cts_leaf(&k.g, dtype, moved_dist(dtype), 0, 3, far ? back : dim);
    x = yk__permute(&k.g, x, far ? far_turn : near_turn);
    yk__apply(&k.g, YK_OP_COPY, 1, &x, 0, NULL, YK_DTYPE_COUNT, YK_NONE, NULL, &y, 1);
    check_run(c, &k, y);
}

/* Every dimension there may be, in reverse order. */
static void copy_all_dims(cts *c, yk_dtype dtype)
{
    static const int64_t dim[YK_MAX_DIMS] = {2, 3, 1, 2, 3, 2, 2, 5};
    static const uint32_t turn[YK_MAX_DIMS] = {7, 6, 5, 4, 3, 2, 1, 0};
    cts_check k;
    if (!cts_begin(c, "copy.%s.8d", yk__dtype_name(dtype)))
        return;
    cts_check_init(&k, c);
    check_run(c, &k, yk__dense(&k.g, yk__permute(&k.g, cts_leaf(&k.g, dtype, moved_dist(dtype), 0, YK_MAX_DIMS, dim), turn)));
}

/* Both copies. */
static void copy_rows_of_type(cts *c, yk_dtype dtype)
{
    test_copy_transposed(c, dtype, false);
    test_copy_transposed(c, dtype, true);
    static const int64_t rows[][2] = {{0, 40}, {0, 16}, {4, 16}, {2, 16}, {1, 16}, {0, 6}, {8, 7}, {3, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        test_copy_rows(c, dtype, rows[i][0], rows[i][1]);
}

/* A dimension in the middle is broadcast. */
static void copy_spread(cts *c, yk_dtype dtype)
{
    static const int64_t from[] = {5, 1, 7}, to[] = {5, 6, 7};
    cts_check k;
    yk__vid x, y = YK_NONE;
    if (!cts_begin(c, "copy.%s.spread", yk__dtype_name(dtype)))
        return;
    cts_check_init(&k, c);
    x = yk__expand(&k.g, cts_leaf(&k.g, dtype, moved_dist(dtype), 0, 3, from), 3, to);
    yk__apply(&k.g, YK_OP_COPY, 1, &x, 0, NULL, YK_DTYPE_COUNT, YK_NONE, NULL, &y, 1);
    check_run(c, &k, y);
}

/* More than a MiB, from four dimensions. */
static void copy_large(cts *c)
{
    static const int64_t dim[] = {3, 40, 50, 70};
    static const uint32_t turn[] = {0, 2, 3, 1};
    cts_check k;
    if (!cts_begin(c, "copy.f32.large"))
        return;
    cts_check_init(&k, c);
    check_run(c, &k, yk__dense(&k.g, yk__permute(&k.g, cts_leaf(&k.g, YK_F32, CTS_MOVED, 0, 4, dim), turn)));
}

static void test_pad(cts *c, yk_dtype dtype, bool stepped)
{
    static const int64_t dim[] = {4, 6}, to[] = {9, 17}, begin[] = {2, 3}, step[] = {1, 2};
    cts_check k;
    if (!cts_begin(c, "copy.%s.%s", yk__dtype_name(dtype), stepped ? "into_steps" : "into"))
        return;
    cts_check_init(&k, c);
    check_run(c, &k, yk__pad(&k.g, cts_leaf(&k.g, dtype, CTS_MOVED, 0, 2, dim), 2, to, begin, stepped ? step : NULL, -2));
}

static void test_concat(cts *c, yk_dtype dtype, uint32_t axis)
{
    static const int64_t a[2][3] = {{2, 5, 7}, {3, 4, 7}}, b[2][3] = {{4, 5, 7}, {3, 2, 7}};
    cts_check k;
    yk__vid x[2];
    if (!cts_begin(c, "copy.%s.concat%u", yk__dtype_name(dtype), axis))
        return;
    cts_check_init(&k, c);
    x[0] = cts_leaf(&k.g, dtype, CTS_MOVED, 0, 3, a[axis]);
    x[1] = cts_leaf(&k.g, dtype, CTS_MOVED, 0, 3, b[axis]);
    check_run(c, &k, yk__concat(&k.g, 2, x, axis));
}

static void test_gather(cts *c, yk_dtype dtype, int64_t rows, int64_t width, int64_t n)
{
    const int64_t table[] = {rows, width}, index[] = {n};
    cts_check k;
    if (!cts_begin(c, "gather.%s.%lldx%lld.%lld", yk__dtype_name(dtype), (long long)rows, (long long)width, (long long)n))
        return;
    cts_check_init(&k, c);
    check_run(c, &k, yk__gather(&k.g, cts_leaf(&k.g, dtype, moved_dist(dtype), 0, width ? 2 : 1, table),
                          cts_leaf(&k.g, YK_I32, CTS_INDEX, (uint32_t)rows, 1, index)));
}

/* Adds to an output, if the device claims that. */
static void scatter_added(cts *c, yk_dtype dtype)
{
    static const int64_t src[] = {33, 7}, index[] = {33}, to[] = {10, 7};
    yk_error err = YK_ERROR_INIT;
    yk_graph g;
    cts_check k;
    yk__vid in[2], y;
    if (!cts_begin(c, "scatter_add.%s.accumulate", yk__dtype_name(dtype)))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_ABSSUM;
    k.n = 33;
    in[0] = cts_leaf(&k.g, dtype, CTS_UNIT, 0, 2, src);
    in[1] = cts_leaf(&k.g, YK_I32, CTS_INDEX, 10, 1, index);
    y = cts_state(&k.g, YK_F32, CTS_UNIT, 2, 2, to);
    yk__node_new(&k.g, YK_OP_SCATTER_ADD, YK_NODE_ACCUMULATE, 2, in, 1, &y, 0, NULL);
    yk__graph_seal(&k.g, &g, &err);
    if (cts_error(c, &err) && yk__device_claims(c->dev, &g, 0) & YK_CLAIM_ACCUMULATE)
        check_run(c, &k, y);
    else {
        cts_unsupported(c, "not claimed");
        cts_check_free(&k);
    }
}

static void test_scatter(cts *c, yk_dtype dtype, int64_t rows, int64_t width, int64_t n)
{
    const int64_t src[] = {n, width}, index[] = {n};
    cts_check k;
    if (!cts_begin(c, "scatter_add.%s.%lldx%lld.%lld", yk__dtype_name(dtype), (long long)rows, (long long)width, (long long)n))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_ABSSUM;
    k.n = (double)n;
    check_run(c, &k, yk__scatter_add(&k.g, cts_leaf(&k.g, dtype, CTS_UNIT, 0, 2, src),
                               cts_leaf(&k.g, YK_I32, CTS_INDEX, (uint32_t)rows, 1, index), rows));
}

typedef struct window {
    int64_t n, c, h, w, kh, kw, sh, sw, ph, pw, dh, dw;
} window;

static const window windows[] = {
    {1, 1, 5, 5, 3, 3, 1, 1, 0, 0, 1, 1}, {2, 3, 8, 7, 3, 3, 1, 1, 1, 1, 1, 1}, {2, 3, 9, 9, 3, 2, 2, 1, 1, 0, 1, 1},
    {1, 2, 11, 12, 3, 3, 2, 3, 2, 1, 2, 2}, {2, 4, 6, 6, 1, 1, 1, 1, 0, 0, 1, 1}, {1, 3, 7, 7, 7, 7, 1, 1, 3, 3, 1, 1},
    {33, 2, 4, 3, 2, 2, 1, 1, 0, 0, 1, 1}, {2, 2, 9, 10, 3, 3, 1, 2, 1, 2, 2, 1}, {2, 3, 9, 8, 2, 2, 3, 3, 0, 0, 1, 1},
    {257, 257, 2, 1, 2, 1, 2, 1, 0, 0, 1, 1}, /* more pictures of a channel than 16 bits count */
    {2, 12, 41, 40, 3, 3, 1, 1, 1, 1, 1, 1},
};
#define LARGE_WINDOW (sizeof windows / sizeof *windows - 1)

static int64_t window_out(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation)
{
    return (in + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
}

static void test_unfold(cts *c, yk_dtype dtype, uint32_t number, double padding)
{
    const window *w = &windows[number];
    const int64_t dim[] = {w->n, w->c, w->h, w->w};
    int64_t attr[9] = {w->kh, w->kw, w->sh, w->sw, w->ph, w->pw, w->dh, w->dw, yk_attr_of_f64(padding)};
    cts_check k;
    yk__vid x, y = YK_NONE;
    if (!cts_begin(c, "unfold.%s.%u.pad%g", yk__dtype_name(dtype), number, padding))
        return;
    cts_check_init(&k, c);
    x = cts_leaf(&k.g, dtype, CTS_UNIT, 0, 4, dim);
    yk__apply(&k.g, YK_OP_UNFOLD, 1, &x, 9, attr, YK_DTYPE_COUNT, YK_NONE, NULL, &y, 1);
    check_run(c, &k, y);
}

static void test_fold(cts *c, yk_dtype dtype, uint32_t number)
{
    const window *w = &windows[number];
    int64_t oh = window_out(w->h, w->kh, w->sh, w->ph, w->dh), ow = window_out(w->w, w->kw, w->sw, w->pw, w->dw);
    const int64_t dim[] = {w->n, w->c * w->kh * w->kw, oh * ow}, to[] = {w->n, w->c, w->h, w->w};
    int64_t attr[8] = {w->kh, w->kw, w->sh, w->sw, w->ph, w->pw, w->dh, w->dw};
    cts_check k;
    yk__vid x, y = YK_NONE;
    if (!cts_begin(c, "fold.%s.%u", yk__dtype_name(dtype), number))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_ABSSUM;
    k.n = (double)(w->kh * w->kw);
    x = cts_leaf(&k.g, dtype, CTS_UNIT, 0, 3, dim);
    yk__apply(&k.g, YK_OP_FOLD, 1, &x, 8, attr, YK_DTYPE_COUNT, 4, to, &y, 1);
    check_run(c, &k, y);
}

static void data_of_type(cts *c, yk_dtype dtype)
{
    for (uint32_t i = 0; i < 6; i++)
        test_copy(c, dtype, i);
    for (uint32_t i = 0; i < 2; i++) {
        test_pad(c, dtype, i);
        test_concat(c, dtype, i);
    }
    test_gather(c, dtype, 10, 7, 33);
    test_gather(c, dtype, 50, 64, 5);
    test_gather(c, dtype, 9, 0, 20);
    test_gather(c, dtype, 30, 6, 50);
    test_gather(c, dtype, 20, 24, 700);
    test_gather(c, dtype, 70001, 2, 33); /* more rows than 16 bits count, in the table and in the result */
    test_gather(c, dtype, 7, 2, 70001);
    copy_rows_of_type(c, dtype);
    copy_all_dims(c, dtype);
    copy_spread(c, dtype);
    test_scatter(c, dtype, 10, 7, 33);
    test_scatter(c, dtype, 3, 64, 200);
    test_scatter(c, dtype, 1, 5, 3000); /* a row that takes all */
    test_scatter(c, dtype, 2, 130, 1100);
    test_scatter(c, dtype, 900, 33, 1500);
    test_scatter(c, dtype, 70001, 2, 33);
    scatter_added(c, dtype);
    if (dtype == YK_F32) {
        test_scatter(c, dtype, 4100, 128, 50); /* more than caches hold */
        test_scatter(c, dtype, 7, 2, 70001);
        test_scatter(c, dtype, 30, 901, 301); /* sources and rows of more than a MiB */
        test_gather(c, dtype, 30, 901, 301);
        copy_large(c);
        test_scatter(c, dtype, 70003, 4, 20);  /* more rows than some drivers' loops have rounds */
    }
    if (dtype == YK_F32) { /* more than a MiB */
        test_unfold(c, dtype, LARGE_WINDOW, 0);
        test_fold(c, dtype, LARGE_WINDOW);
    }
    for (uint32_t i = 0; i < LARGE_WINDOW; i++) {
        const uint32_t w = (i + DILATED) % (uint32_t)LARGE_WINDOW;
        test_unfold(c, dtype, w, w % 2 ? -1 : 0);
        test_unfold(c, dtype, w, (double)-INFINITY); /* as a maximum over windows has it */
        test_fold(c, dtype, w);
    }
}

void cts_ops_data(cts *c)
{
    yk_dtype types[4];
    uint32_t n = cts_float_types(c, types);
    for (uint32_t t = 0; t < n; t++)
        data_of_type(c, types[t]);
    for (uint32_t i = 0; i < 6; i++) {
        test_copy(c, YK_I32, i);
        test_copy(c, YK_BOOL, i);
    }
    copy_rows_of_type(c, YK_I32);
    copy_rows_of_type(c, YK_BOOL);
    test_gather(c, YK_I32, 10, 7, 33);
}

/* ---- dot ------------------------------------------------------------------------------------------------------------------- */

typedef struct product {
    int64_t batch, m, k, n; /* batch 0: two dimensions */
} product;

static const product products[] = {
    {0, 1, 1, 1},   {0, 7, 13, 5},   {0, 64, 64, 64}, {0, 33, 129, 65}, {0, 1, 300, 1}, {0, 128, 1, 17}, {0, 3, 1000, 2},
    {0, 200, 96, 31}, {0, 1, 50, 257}, {1, 4, 5, 6},    {3, 7, 13, 5},    {8, 17, 32, 9}, {2, 65, 64, 33},
    {0, 1025, 3, 2}, {0, 2, 3, 1025},  {0, 2, 8193, 3},  {65, 3, 4, 5},    {0, 3, 0, 5},
    {0, 256, 384, 128}, {0, 63, 40, 96}, {0, 601, 17, 701}, /* whole tiles; almost whole ones; a result of more than a MiB */
};

/* More rows, columns, terms and batches than 16 bits count. */
static const product large_products[] = {{0, 70001, 2, 3}, {0, 3, 2, 70001}, {0, 2, 70001, 3}, {65541, 1, 2, 1}};

static yk__vid dot_operand(yk__graph *g, yk_dtype dtype, int64_t batch, int64_t rows, int64_t cols)
{
    const int64_t dim[] = {batch, rows, cols};
    return cts_leaf(g, dtype, CTS_UNIT, 0, batch ? 3 : 2, batch ? dim : dim + 1);
}

static void test_dot(cts *c, yk_dtype dtype, const product *p, uint32_t transposed)
{
    bool ta = transposed & 1, tb = transposed & 2;
    cts_check k;
    yk__vid a, b;
    if (!cts_begin(c, "dot.%s.%lldx%lldx%lldx%lld%s%s", yk__dtype_name(dtype), (long long)p->batch, (long long)p->m,
                   (long long)p->k, (long long)p->n, ta ? ".ta" : "", tb ? ".tb" : ""))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_ABSSUM;
    k.n = (double)p->k;
    a = dot_operand(&k.g, dtype, p->batch, ta ? p->k : p->m, ta ? p->m : p->k);
    b = dot_operand(&k.g, dtype, p->batch, tb ? p->n : p->k, tb ? p->k : p->n);
    check_run(c, &k, yk__dot(&k.g, a, b, ta, tb));
}

/* One operand has no batch dimension: stride 0. */
static void dot_batch(cts *c, yk_dtype dtype, bool first)
{
    static const int64_t a[] = {5, 9, 16}, b[] = {5, 16, 11};
    cts_check k;
    yk__vid x, y, in[2], z = YK_NONE;
    if (!cts_begin(c, "dot.%s.batch_of_%s", yk__dtype_name(dtype), first ? "a" : "b"))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_ABSSUM;
    k.n = 16;
    x = dot_operand(&k.g, dtype, first ? 1 : 5, 9, 16);
    y = dot_operand(&k.g, dtype, first ? 5 : 1, 16, 11);
    in[0] = first ? yk__expand(&k.g, x, 3, a) : x;
    in[1] = first ? y : yk__expand(&k.g, y, 3, b);
    yk__apply(&k.g, YK_OP_DOT, 2, in, 0, NULL, YK_DTYPE_COUNT, YK_NONE, NULL, &z, 1);
    check_run(c, &k, z);
}

/* Finite operands give products and sums beyond 16 bits; a device must return infinity, never the largest finite number. */
static void range_passed(cts *c, yk_dtype dtype, bool is_dot)
{
    static const int64_t left[] = {9, 8}, right[] = {8, 50}, rows[] = {70, 96};
    cts_check k;
    if (!cts_begin(c, "%s.%s.range", is_dot ? "dot" : "sum", yk__dtype_name(dtype)))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_ABSSUM;
    k.n = is_dot ? 8 : 96;
    const yk__vid x = cts_leaf(&k.g, dtype, CTS_LARGE, is_dot ? 6 : 9, 2, is_dot ? left : rows);
    check_run(c, &k, is_dot ? yk__dot(&k.g, x, cts_leaf(&k.g, dtype, CTS_LARGE, 6, 2, right), false, false) : yk__sum(&k.g, x, 2));
}

/* The product of 16-bit operands goes into an f32 output. */
static void dot_wide(cts *c, yk_dtype dtype)
{
    cts_check k;
    yk__vid in[2], y = YK_NONE;
    if (!cts_begin(c, "dot.%s.to_f32", yk__dtype_name(dtype)))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_ABSSUM;
    k.n = 70;
    in[0] = dot_operand(&k.g, dtype, 0, 19, 70);
    in[1] = dot_operand(&k.g, dtype, 0, 70, 23);
    yk__apply(&k.g, YK_OP_DOT, 2, in, 0, NULL, YK_F32, YK_NONE, NULL, &y, 1);
    check_run(c, &k, y);
}

/* An operand times itself, or its transpose. */
static void dot_same(cts *c, bool transposed)
{
    static const int64_t dim[] = {37, 37};
    cts_check k;
    if (!cts_begin(c, "dot.f32.same%s", transposed ? ".tb" : ""))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_ABSSUM;
    k.n = 37;
    const yk__vid x = cts_leaf(&k.g, YK_F32, CTS_UNIT, 0, 2, dim);
    check_run(c, &k, yk__dot(&k.g, x, x, false, transposed));
}

/* Adds a product of many terms to an output of more than 65536 elements: devices split the terms, or the output. */
static void dot_added_large(cts *c, int64_t m, int64_t terms, int64_t n)
{
    const int64_t to[] = {m, n};
    cts_check k;
    yk__vid in[2], y;
    if (!cts_begin(c, "dot.f32.accumulate.%lldx%lldx%lld", (long long)m, (long long)terms, (long long)n))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_ABSSUM;
    k.n = (double)terms;
    in[0] = dot_operand(&k.g, YK_F32, 0, m, terms);
    in[1] = dot_operand(&k.g, YK_F32, 0, terms, n);
    y = cts_state(&k.g, YK_F32, CTS_UNIT, 2, 2, to);
    yk__node_new(&k.g, YK_OP_DOT, YK_NODE_ACCUMULATE, 2, in, 1, &y, 0, NULL);
    check_run(c, &k, y);
}

/* Adds to an output, in every form. */
static void dot_added(cts *c, yk_dtype dtype, int64_t batch, uint32_t transposed)
{
    const bool ta = transposed & 1, tb = transposed & 2;
    const int64_t to[] = {batch, 19, 23};
    cts_check k;
    yk__vid in[2], y;
    if (!cts_begin(c, "dot.%s.accumulate%s%s%s", yk__dtype_name(dtype), batch ? ".batch" : "", ta ? ".ta" : "", tb ? ".tb" : ""))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_ABSSUM;
    k.n = 70;
    in[0] = dot_operand(&k.g, dtype, batch, ta ? 70 : 19, ta ? 19 : 70);
    in[1] = dot_operand(&k.g, dtype, batch, tb ? 23 : 70, tb ? 70 : 23);
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t swap[] = {batch ? 0 : 1, batch ? 2 : 0, 1};
        in[i] = (i ? tb : ta) ? yk__permute(&k.g, in[i], swap) : in[i];
    }
    y = cts_state(&k.g, YK_F32, CTS_UNIT, 2, batch ? 3 : 2, batch ? to : to + 1);
    yk__node_new(&k.g, YK_OP_DOT, YK_NODE_ACCUMULATE, 2, in, 1, &y, 0, NULL);
    check_run(c, &k, y);
}

/* Zero times a number that is not finite is NaN, in a sum that ends or begins with such a term; sums without one are numbers. */
static void dot_not_finite(cts *c, yk_dtype dtype, bool longer, uint32_t transposed)
{
    static const int64_t few[] = {2, 33}, more[] = {63, 33}, left[] = {40, 65}, left_transposed[] = {65, 40};
    static const uint32_t swap[] = {1, 0};
    const bool ta = transposed & 1, tb = transposed & 2;
    cts_check k;
    yk__vid b[2], y, x;
    if (!cts_begin(c, "dot.%s.not_finite%s%s%s", yk__dtype_name(dtype), longer ? ".long" : "", ta ? ".ta" : "", tb ? ".tb" : ""))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_ABSSUM;
    k.n = longer ? 65 : 2;
    b[longer] = cts_leaf(&k.g, dtype, CTS_SPECIAL, 0, 2, few);
    if (longer)
        b[0] = cts_leaf(&k.g, dtype, CTS_TIES, 1, 2, more);
    y = longer ? yk__concat(&k.g, 2, b, 0) : b[0];
    x = cts_leaf(&k.g, dtype, CTS_MASK, 0, 2, ta ? left_transposed : left);
    if (!longer)
        x = yk__dense(&k.g, yk__slice(&k.g, x, ta ? 0 : 1, 0, 2, 1));
    check_run(c, &k, yk__dot(&k.g, x, tb ? yk__dense(&k.g, yk__permute(&k.g, y, swap)) : y, ta, tb));
}

/* Operands that 8 bits hold, in the formats of layers; a device may use that or not. */
static void dot_eight(cts *c, yk_dtype dtype, uint32_t formats, uint32_t transposed)
{
    static const uint16_t flags[] = {YK_NODE_A_E4M3 | YK_NODE_B_E4M3, YK_NODE_A_E5M2 | YK_NODE_B_E4M3, YK_NODE_A_E4M3 | YK_NODE_B_E5M2};
    static const int64_t m = 48, n = 32, terms = 80;
    const bool ta = transposed & 1, tb = transposed & 2;
    cts_check k;
    yk__vid a, b;
    if (c->t->n_op <= YK_OP_ROUND8) /* a plugin without round8 in its table gets no such flags */
        return;
    if (!cts_begin(c, "dot.%s.eight%u%s%s", yk__dtype_name(dtype), formats, ta ? ".ta" : "", tb ? ".tb" : ""))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_ABSSUM;
    k.n = (double)terms;
    a = cts_leaf(&k.g, dtype, CTS_TIES, 0, 2, (int64_t[]){ta ? terms : m, ta ? m : terms});
    b = cts_leaf(&k.g, dtype, CTS_TIES, 0, 2, (int64_t[]){tb ? n : terms, tb ? terms : n});
    const yk__vid y = yk__dot(&k.g, a, b, ta, tb);
    for (size_t i = 0; i < k.g.n_node; i++)
        if (k.g.node[i].op == YK_OP_DOT)
            k.g.node[i].flags |= flags[formats];
    check_run(c, &k, y);
}

void cts_ops_dot(cts *c)
{
    yk_dtype types[4];
    uint32_t n = cts_float_types(c, types);
    for (uint32_t t = 0; t < n; t++) {
        for (size_t i = 0; i < sizeof products / sizeof *products; i++)
            for (uint32_t transposed = 0; transposed < (i % 2 ? 3 : 4); transposed++)
                test_dot(c, types[t], &products[i], transposed);
        for (uint32_t i = 0; i < sizeof large_products / sizeof *large_products; i++)
            test_dot(c, types[t], &large_products[i], i);
        dot_batch(c, types[t], true);
        dot_batch(c, types[t], false);
        dot_wide(c, types[t]);
        if (types[t] == YK_F16) {
            range_passed(c, types[t], true);
            range_passed(c, types[t], false);
        }
        for (uint32_t transposed = 0; transposed < 4; transposed++) {
            dot_added(c, types[t], 0, transposed);
            dot_added(c, types[t], 3, transposed);
            dot_not_finite(c, types[t], false, transposed);
            dot_not_finite(c, types[t], true, transposed);
            for (uint32_t formats = 0; formats < 3; formats++)
                dot_eight(c, types[t], formats, transposed);
        }
    }
    dot_same(c, false);
    dot_same(c, true);
    dot_added_large(c, 5, 8195, 7);
    dot_added_large(c, 301, 20, 307);
}

/* Many leaves in separate slots, added in turn. */
static void many_slots(cts *c)
{
    static const int64_t dim[] = {5, 13};
    cts_check k;
    yk__vid sum;
    if (!cts_begin(c, "add.f32.slots40"))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_ABSSUM;
    k.n = 40;
    sum = cts_leaf(&k.g, YK_F32, CTS_UNIT, 0, 2, dim);
    for (uint32_t i = 1; i < 40; i++)
        sum = yk__bin(&k.g, YK_OP_ADD, sum, cts_leaf(&k.g, YK_F32, CTS_UNIT, i, 2, dim));
    check_run(c, &k, sum);
}

/* More nodes than a table of a driver may have, such as one of 256 descriptors. */
static void many_nodes(cts *c)
{
    static const int64_t dim[] = {5, 13};
    cts_check k;
    if (!cts_begin(c, "add.f32.nodes600"))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_ABSSUM;
    k.n = 600;
    const yk__vid x = cts_leaf(&k.g, YK_F32, CTS_UNIT, 0, 2, dim);
    yk__vid sum = cts_leaf(&k.g, YK_F32, CTS_UNIT, 1, 2, dim);
    for (uint32_t i = 0; i < 600; i++)
        sum = yk__bin(&k.g, YK_OP_ADD, sum, x);
    check_run(c, &k, sum);
}

void cts_group_op(cts *c)
{
    cts_ops_elementwise(c);
    cts_ops_source(c);
    cts_ops_reduce(c);
    cts_ops_data(c);
    cts_ops_dot(c);
    many_slots(c);
    many_nodes(c);
}
