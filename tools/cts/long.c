/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts, group long: sums of up to millions of terms, with --long of a hundred million. main.c runs the group in a child process with
 * the device under test open.
 *
 * An accumulator of 32 bits that adds them in turn loses digits: with equal terms each addition rounds in the same direction. plugin.h
 * bounds a sum's error by a share of the sum of its absolute terms. All terms have one sign here, so that sum is the result itself.
 *
 * cts_check_run compares each result with the reference in float64 (core/graph/eval.c). The allowed error is a share of the reference. A
 * device with YK_CAP_LONG_SUMS has a fixed share; any other has 2^-24 per addition if that is more.
 */
#include <math.h>
#include <string.h>

#include "tools/cts/cts.h"

#define MOST 2000000
#define SUM_SHARE 1e-6     /* share of a sum's absolute terms */
#define PRODUCT_SHARE 2e-6 /* share of a product's */
#define FUNCTION_SHARE 1e-4 /* share of a 16-bit function's result before its rounding: as for CTS_ULP */
#define CONV_SHARE 1e-5    /* share of a convolution's: Winograd's transforms alone lose as much as a product may */

typedef struct long_sum {
    uint32_t dims, axes;
    int64_t dim[4];
} long_sum;

static const long_sum sums[] = {
    {2, 1, {MOST, 3}},     {1, 1, {MOST}},            {2, 2, {3, MOST}},        {2, 1, {30000, 64}}, {2, 1, {5000, 700}},
    {3, 2, {2, 300000, 2}}, {3, 5, {300, 3, 700}},    {4, 13, {64, 5, 56, 56}}, {3, 5, {70000, 3, 5}}, {2, 1, {600, 5000}},
    {2, 2, {5, 131072}},   {2, 3, {1500, 1500}},
};

/* In bf16, so that two sides of a test and a device's copy of one stay below 1 GiB. */
static const long_sum sums_of_option_long[] = {{1, 1, {100000000}}, {2, 1, {50000000, 2}}, {2, 2, {2, 50000000}}};

typedef struct long_product {
    int64_t rows, cols, terms;
    bool strided; /* terms are far apart in both operands, as in the gradient of a weight */
} long_product;

static const long_product products[] = {
    {8, 8, 1000000, true},    {3, 5, 1000000, false}, {70, 40, 60000, true},
    {16, 33, 100000, false}, {1, 1, MOST, false},    {1, 300, 50000, true},
};

static bool sums_promised(const cts *c)
{
    return (c->dev->caps.flags & YK_CAP_LONG_SUMS) != 0;
}

/* terms: the additions in f32 of one result, or more. */
static void check_share(cts *c, cts_check *k, double share, int64_t terms)
{
    const double serial = 0x1p-24 * (double)terms;
    k->tol = CTS_SHARE;
    k->n = sums_promised(c) || serial < share ? share : serial;
    k->advice = sums_promised(c) ? "YK_CAP_LONG_SUMS (plugin.h) promises this bound for any number of terms: take at most 32 "
                                   "terms in f32 and add those sums in double, or use Kahan's sum; or leave the bit out, and n "
                                   "terms may lose n 2^-24"
                                 : "without YK_CAP_LONG_SUMS n terms may lose n 2^-24 (plugin.h): accumulate in f32 at least";
    cts_check_run(c, k);
    cts_check_free(k);
}

/* Passes with YK_CAP_LONG_SUMS, and is unsupported, with the reason, without it. */
static void test_bound(cts *c)
{
    if (!cts_begin(c, "bound"))
        return;
    if (sums_promised(c))
        cts_pass(c);
    else
        cts_unsupported(c, "the device has no YK_CAP_LONG_SUMS (plugin.h): a sum of n terms may lose n 2^-24 of them here, so two million "
                           "may lose %.2g; add at most 32 terms in f32 and then in double, or by Kahan's sum, to hold 1e-6 at any length, "
                           "and set the bit", 0x1p-24 * MOST);
}

static int64_t terms_of(const long_sum *s)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < s->dims; d++)
        n *= s->axes >> d & 1 ? s->dim[d] : 1;
    return n;
}

/* fused: terms are products of two operands, as one node. */
static void sum_of_alike(cts *c, yk_dtype dtype, const long_sum *s, bool fused)
{
    cts_check k;
    yk__vid in[2], y = YK_NONE;
    const int64_t axes = s->axes;
    if (!cts_begin(c, "%s.%s.%ud.axes%u.%lld", fused ? "map_sum" : "sum", yk__dtype_name(dtype), s->dims, s->axes, (long long)terms_of(s)))
        return;
    cts_check_init(&k, c);
    in[0] = cts_leaf(&k.g, dtype, CTS_SAME, 1, s->dims, s->dim);
    if (fused) {
        in[1] = cts_leaf(&k.g, dtype, CTS_POSITIVE, 0, s->dims, s->dim);
        const size_t first = k.g.n_node;
        yk__vid x[2] = {in[0], in[1]}; /* products of 16 bits would be rounded each */
        for (int i = 0; i < 2 && dtype != YK_F32; i++)
            x[i] = yk__cast(&k.g, in[i], YK_F32);
        y = yk__sum(&k.g, yk__bin(&k.g, YK_OP_MUL, x[0], x[1]), s->axes);
        cts_make_body(&k.g, YK_OP_MAP_SUM, first, 2, in, 1, &y);
    } else {
        yk__apply(&k.g, YK_OP_SUM, 1, in, 1, &axes, YK_F32, YK_NONE, NULL, &y, 1);
    }
    cts_want(&k, y);
    check_share(c, &k, SUM_SHARE, terms_of(s));
}

/* Most rows go to one row of the table, as for a frequent word. */
static void rows_added_to_one(cts *c, yk_dtype dtype, int64_t n, int64_t width, int64_t table)
{
    const int64_t src[] = {n, width}, dim[] = {table, width};
    cts_check k;
    yk__vid in[2], y = YK_NONE;
    if (!cts_begin(c, "scatter_add.%s.%lldx%lld.%lld", yk__dtype_name(dtype), (long long)table, (long long)width, (long long)n))
        return;
    cts_check_init(&k, c);
    in[0] = cts_leaf(&k.g, dtype, CTS_SAME, 1, 2, src);
    in[1] = cts_leaf(&k.g, YK_I32, CTS_INDEX, 1, 1, src);
    yk__apply(&k.g, YK_OP_SCATTER_ADD, 2, in, 0, NULL, YK_F32, 2, dim, &y, 1);
    cts_want(&k, y);
    check_share(c, &k, SUM_SHARE, n);
}

/* second: 0 gives operand 1 different positive numbers; another number is the seed of the one value of its elements. */
static void product_of_alike(cts *c, yk_dtype dtype, const long_product *p, uint32_t second)
{
    static const uint32_t turn[] = {1, 0};
    const int64_t a[2][2] = {{p->rows, p->terms}, {p->terms, p->rows}}, b[2][2] = {{p->cols, p->terms}, {p->terms, p->cols}};
    cts_check k;
    yk__vid in[2], y = YK_NONE;
    if (!cts_begin(c, "dot.%s.%lldx%lldx%lld%s.%u", yk__dtype_name(dtype), (long long)p->rows, (long long)p->terms, (long long)p->cols,
                   p->strided ? ".strided" : "", second))
        return;
    cts_check_init(&k, c);
    in[0] = cts_leaf(&k.g, dtype, CTS_SAME, 1, 2, a[p->strided]);
    in[1] = cts_leaf(&k.g, dtype, second ? CTS_SAME : CTS_POSITIVE, second, 2, b[p->strided]);
    in[p->strided ? 0 : 1] = yk__permute(&k.g, in[p->strided ? 0 : 1], turn);
    yk__apply(&k.g, YK_OP_DOT, 2, in, 0, NULL, YK_F32, YK_NONE, NULL, &y, 1);
    cts_want(&k, y);
    check_share(c, &k, PRODUCT_SHARE, p->terms + 1);
}

static int64_t elements_of(uint32_t dims, const int64_t *dim)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < dims; d++)
        n *= dim[d];
    return n;
}

/* Operations whose results come from sums over x of 1 to 4 dimensions. bn_stats has a second operand, the shift; grad_stats has the
 * scale. */
static void sums_within(cts *c, yk_op op, yk_dtype dtype, cts_dist dist, uint32_t dims, const int64_t *dim, uint32_t n_attr,
                        const int64_t *attr, uint32_t from, uint32_t wanted)
{
    cts_check k;
    yk__vid in[2], out[4] = {YK_NONE, YK_NONE, YK_NONE, YK_NONE};
    uint32_t n_in = 1;
    if (!cts_begin(c, "%s.%s.%lldx%lld.%s", yk__op_info_of(op)->name, yk__dtype_name(dtype), (long long)dim[0], (long long)dim[dims - 1],
                   dist == CTS_SAME ? "alike" : "positive"))
        return;
    cts_check_init(&k, c);
    in[0] = cts_leaf(&k.g, dtype, dist, 1, dims, dim);
    if (op == YK_OP_BN_STATS || op == YK_OP_GRAD_STATS)
        in[n_in++] = cts_leaf(&k.g, YK_F32, CTS_SAME, 1, 1, op == YK_OP_BN_STATS ? dim + 1 : (const int64_t[]){1});
    const uint32_t n = yk__apply(&k.g, op, n_in, in, n_attr, attr, YK_DTYPE_COUNT, YK_NONE, NULL, out, 4);
    for (uint32_t i = from; i < n && i < from + wanted; i++)
        cts_want(&k, out[i]);
    check_share(c, &k, op == YK_OP_SOFTMAX && dtype != YK_F32 ? FUNCTION_SHARE : PRODUCT_SHARE, elements_of(dims, dim));
}

/* gbeta of a layer norm: a sum over rows. */
static void norm_gradient(cts *c, yk_dtype dtype, int64_t rows, int64_t cols)
{
    const int64_t dim[] = {rows, cols};
    const int64_t attr = yk_attr_of_f64(1e-5);
    cts_check k;
    yk__vid x[3], y[3], in[5], out[3];
    if (!cts_begin(c, "layer_norm_bwd.%s.%lldx%lld", yk__dtype_name(dtype), (long long)rows, (long long)cols))
        return;
    cts_check_init(&k, c);
    x[0] = cts_leaf(&k.g, dtype, CTS_WIDE, 0, 2, dim);
    x[1] = cts_leaf(&k.g, YK_F32, CTS_SAME, 9, 1, dim + 1);
    x[2] = cts_leaf(&k.g, YK_F32, CTS_SAME, 9, 1, dim + 1);
    yk__apply(&k.g, YK_OP_LAYER_NORM, 3, x, 1, &attr, YK_DTYPE_COUNT, YK_NONE, NULL, y, 3);
    in[0] = cts_leaf(&k.g, dtype, CTS_SAME, 1, 2, dim);
    in[1] = x[0], in[2] = y[1], in[3] = y[2], in[4] = x[1];
    yk__apply(&k.g, YK_OP_LAYER_NORM_BWD, 5, in, 1, &attr, YK_DTYPE_COUNT, YK_NONE, NULL, out, 3);
    cts_want(&k, out[2]);
    check_share(c, &k, SUM_SHARE, rows);
}

/* The gradient of a convolution's weight: a sum over pictures and their points. */
static void conv_gradient(cts *c, yk_dtype dtype, int64_t images, int64_t channels, int64_t side, int64_t kernel, int64_t stride)
{
    const int64_t pad = kernel / 2, points = (side + 2 * pad - kernel) / stride + 1;
    const int64_t x[] = {images, channels, side, side}, y[] = {images, 4, points, points}, w[] = {4, channels, kernel, kernel};
    const int64_t attr[] = {stride, stride, pad, pad, 1, 1, 1};
    cts_check k;
    yk__vid in[2], out = YK_NONE;
    if (!cts_begin(c, "conv2d_dw.%s.%lldx%lld.%lldx%lld.%lld", yk__dtype_name(dtype), (long long)images, (long long)channels,
                   (long long)side, (long long)kernel, (long long)stride))
        return;
    cts_check_init(&k, c);
    in[0] = cts_leaf(&k.g, dtype, CTS_SAME, 1, 4, y);
    in[1] = cts_leaf(&k.g, dtype, CTS_SAME, 7, 4, x);
    yk__apply(&k.g, YK_OP_CONV2D_DW, 2, in, 7, attr, YK_F32, 4, w, &out, 1);
    cts_want(&k, out);
    check_share(c, &k, CONV_SHARE, images * points * points);
}

static void composites_of_type(cts *c, yk_dtype dtype)
{
    static const int64_t rows[] = {2, 1000000}, words[] = {3, 50257}, planes[] = {1, 2, 1000, 1000};
    static const int64_t few[] = {100000, 3, 5}, many[] = {3, 2, 300000};
    static const int64_t softmax = 0, pool[] = {1000, 1000, 1, 1, 0, 0, 0};
    const int64_t eps = yk_attr_of_f64(1e-5);
    sums_within(c, YK_OP_SOFTMAX, dtype, CTS_SAME, 2, rows, 1, &softmax, 0, 1);
    sums_within(c, YK_OP_SOFTMAX, dtype, CTS_POSITIVE, 2, words, 1, &softmax, 0, 1);
    sums_within(c, YK_OP_LAYER_NORM, dtype, CTS_POSITIVE, 2, rows, 1, &eps, 1, 2);
    sums_within(c, YK_OP_AVG_POOL, dtype, CTS_SAME, 4, planes, 7, pool, 0, 1);
    sums_within(c, YK_OP_BN_STATS, dtype, CTS_POSITIVE, 3, few, 0, NULL, 0, 1);
    sums_within(c, YK_OP_BN_STATS, dtype, CTS_POSITIVE, 3, many, 0, NULL, 0, 1);
    norm_gradient(c, dtype, 300000, 4);
    norm_gradient(c, dtype, 3000, 300);
    conv_gradient(c, dtype, 64, 3, 56, 3, 1);
    conv_gradient(c, dtype, 64, 3, 56, 1, 1);
    conv_gradient(c, dtype, 64, 3, 56, 3, 2);
    conv_gradient(c, dtype, 512, 4, 8, 3, 1);
    conv_gradient(c, dtype, 2, 3, 300, 3, 1);
    conv_gradient(c, dtype, 16, 3, 112, 7, 2);
}

/* In f32 alone run the first three sums, the first two products, products with a positive second operand, and the largest scatter_add.
 * Kernels of 16 bits sum as those of f32 do, so the other cases suffice for them. f16 has no fused sums and no composites. bf16 alone runs
 * sums_of_option_long, with --long. */
static void long_of_type(cts *c, yk_dtype dtype)
{
    const bool wide = dtype == YK_F32;
    for (uint32_t i = wide ? 0 : 3; i < sizeof sums / sizeof *sums; i++)
        for (int fused = 0; fused < (dtype == YK_F16 ? 1 : 2); fused++)
            sum_of_alike(c, dtype, &sums[i], fused);
    if (wide)
        rows_added_to_one(c, dtype, 500000, 3, 2);
    rows_added_to_one(c, dtype, 30000, 160, 5);
    for (uint32_t i = wide ? 0 : 2; i < sizeof products / sizeof *products; i++)
        for (uint32_t second = wide ? 0 : 1; second < 2; second++)
            product_of_alike(c, dtype, &products[i], second * 7);
    if (dtype != YK_F16)
        composites_of_type(c, dtype);
    for (uint32_t i = 0; c->longest && dtype == YK_BF16 && i < sizeof sums_of_option_long / sizeof *sums_of_option_long; i++)
        sum_of_alike(c, dtype, &sums_of_option_long[i], false);
}

void cts_group_long(cts *c)
{
    static const int64_t flat[] = {MOST};
    yk_dtype types[4];
    const uint32_t n = cts_float_types(c, types);
    test_bound(c);
    for (uint32_t t = 0; t < n; t++)
        long_of_type(c, types[t]);
    sums_within(c, YK_OP_GRAD_STATS, YK_F32, CTS_SAME, 1, flat, 0, NULL, 0, 1);
}
