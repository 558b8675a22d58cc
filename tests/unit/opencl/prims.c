/* SPDX-License-Identifier: Apache-2.0 */
/* The primitives on the OpenCL plugin against plain double arithmetic. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/philox.h"
#include "tests/support/opencl_kit.h"

#define NEAR(got, want, tol, what)                                                                                     \
    do {                                                                                                               \
        double got_ = (got), want_ = (want);                                                                           \
        ck_assert_msg(fabs(got_ - want_) <= (tol) || (isnan(got_) && isnan(want_)) || got_ == want_,                   \
                      "%s, element %lld: got %.9g, expected %.9g", what, (long long)i, got_, want_);                   \
    } while (0)

typedef struct one {
    int op;
    const char *name;
    double (*f)(double, double, double);
    double lo, hi;
} one;

#define F(name, expr)                                                                                                  \
    static double f_##name(double x, double y, double z)                                                               \
    {                                                                                                                  \
        (void)x, (void)y, (void)z;                                                                                     \
        return expr;                                                                                                   \
    }
F(neg, -x)
F(abs, fabs(x))
F(exp, exp(x))
F(log, log(x))
F(sqrt, sqrt(x))
F(rsqrt, 1 / sqrt(x))
F(recip, 1 / x)
F(tanh, tanh(x))
F(erf, erf(x))
F(add, x + y)
F(sub, x - y)
F(mul, x *y)
F(div, x / y)
F(max, fmax(x, y))
F(min, fmin(x, y))
F(relu, fmax(x, 0))
F(relu_bwd, x > 0 ? y : 0)
F(gelu, x / 2 * (1 + erf(x / sqrt(2))))
F(gelu_bwd, y *(0.5 * (1 + erf(x / sqrt(2))) + x * exp(-x * x / 2) / sqrt(2 * M_PI)))
F(gelu_gate, 0.5 + 0.5 * tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)))
F(gelu_tanh, x *f_gelu_gate(x, 0, 0))
F(gelu_tanh_slope, sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x))
F(gelu_tanh_bwd, y *f_gelu_gate(x, 0, 0) * (1 + 2 * x * f_gelu_gate(-x, 0, 0) * f_gelu_tanh_slope(x, 0, 0)))
F(sigmoid, 1 / (1 + exp(-x)))
F(silu, x / (1 + exp(-x)))
F(silu_bwd, y *f_sigmoid(x, 0, 0) * (1 + x * (1 - f_sigmoid(x, 0, 0))))
F(sigmoid_bwd, y *x *(1 - x))
F(tanh_bwd, y *(1 - x * x))

static const one ops[] = {
    {YK_OP_NEG, "neg", f_neg, -5, 5},
    {YK_OP_ABS, "abs", f_abs, -5, 5},
    {YK_OP_EXP, "exp", f_exp, -9, 9},
    {YK_OP_LOG, "log", f_log, 1e-6, 30},
    {YK_OP_SQRT, "sqrt", f_sqrt, 0, 30},
    {YK_OP_RSQRT, "rsqrt", f_rsqrt, 1e-3, 30},
    {YK_OP_RECIP, "recip", f_recip, 0.01, 30},
    {YK_OP_TANH, "tanh", f_tanh, -5, 5},
    {YK_OP_ERF, "erf", f_erf, -5, 5},
    {YK_OP_ADD, "add", f_add, -5, 5},
    {YK_OP_SUB, "sub", f_sub, -5, 5},
    {YK_OP_MUL, "mul", f_mul, -5, 5},
    {YK_OP_DIV, "div", f_div, 0.1, 5},
    {YK_OP_MAX, "max", f_max, -5, 5},
    {YK_OP_MIN, "min", f_min, -5, 5},
    {YK_OP_RELU, "relu", f_relu, -5, 5},
    {YK_OP_RELU_BWD, "relu_bwd", f_relu_bwd, -5, 5},
    {YK_OP_GELU, "gelu", f_gelu, -5, 5},
    {YK_OP_GELU_BWD, "gelu_bwd", f_gelu_bwd, -5, 5},
    {YK_OP_SILU, "silu", f_silu, -5, 5},
    {YK_OP_SIGMOID, "sigmoid", f_sigmoid, -5, 5},
    {YK_OP_SIGMOID_BWD, "sigmoid_bwd", f_sigmoid_bwd, -5, 5},
    {YK_OP_TANH_BWD, "tanh_bwd", f_tanh_bwd, -5, 5},
};

static bool op_is_binary(int op)
{
    return (op >= YK_OP_ADD && op <= YK_OP_MIN) || op == YK_OP_RELU_BWD || op == YK_OP_GELU_BWD ||
           op == YK_OP_SIGMOID_BWD || op == YK_OP_TANH_BWD;
}

static double eps_of(int dtype)
{
    return dtype == YK_BF16 ? 0x1p-8 : dtype == YK_F16 ? 0x1p-11 : 0;
}

/* Many operations in one graph, so that they are compiled as one program. */
static void elementwise_check(int dtype, unsigned mask)
{
    uint32_t x[64], y[64], z[64];
    size_t n = sizeof ops / sizeof *ops;
    for (size_t from = 0; from < n; from += 12) {
        kit *k = kit_new();
        size_t to = from + 12 < n ? from + 12 : n;
        for (size_t o = from; o < to; o++) {
            x[o] = KIT(k, dtype, 3, 5, 37);
            y[o] = KITB(k, dtype, mask, 3, 5, 37);
            z[o] = KIT(k, dtype, 3, 5, 37);
            kit_random(k, x[o], ops[o].lo, ops[o].hi);
            kit_random(k, y[o], ops[o].lo, ops[o].hi);
            kit_node(k, ops[o].op, op_is_binary(ops[o].op) ? KIT_IDS(x[o], y[o]) : KIT_IDS(x[o]), KIT_IDS(z[o]), NULL, 0);
        }
        ck_assert_int_eq(ok_run(k), YK_OK);
        for (size_t o = from; o < to; o++)
            for (int64_t i = 0; i < 3 * 5 * 37; i++) {
                double want = ops[o].f(kit_at(k, x[o], i), kit_at(k, y[o], i), 0);
                double tol = (eps_of(dtype) + 5e-7) * fabs(want) + (ops[o].op >= YK_OP_MAP ? 3e-7 : 1e-12);
                NEAR(kit_at(k, z[o], i), want, tol, ops[o].name);
            }
        kit_free(k);
    }
}

START_TEST(test_elementwise)
{
    elementwise_check(YK_F32, 0);
    elementwise_check(YK_F32, 2);
}
END_TEST

START_TEST(test_elementwise_16)
{
    elementwise_check(YK_BF16, 5);
    elementwise_check(YK_F16, 4);
}
END_TEST

/* Special values: infinities, NaN, denormals, the ends of the range. */
START_TEST(test_special)
{
    static const double in[] = {0, -0.0, INFINITY, -INFINITY, NAN, 1e-42, -1e-42, 88.5, 89.5, -87.5, -100, -103.5, 3e38, 1e-38};
    enum { N = sizeof in / sizeof *in };
    static const int list[] = {YK_OP_EXP, YK_OP_LOG, YK_OP_TANH, YK_OP_ERF, YK_OP_SQRT, YK_OP_RECIP};
    static double (*const f[])(double) = {exp, log, tanh, erf, sqrt};
    kit *k = kit_new();
    uint32_t x = KIT(k, YK_F32, N), y[6];
    kit_set(k, x, in);
    for (int o = 0; o < 6; o++) {
        y[o] = KIT(k, YK_F32, N);
        kit_node(k, list[o], KIT_IDS(x), KIT_IDS(y[o]), NULL, 0);
    }
    ck_assert_int_eq(ok_run(k), YK_OK);
    for (int o = 0; o < 6; o++)
        for (int64_t i = 0; i < N; i++) {
            double v = kit_at(k, x, i), want = (double)(float)(o < 5 ? f[o](v) : 1 / v);
            NEAR(kit_at(k, y[o], i), want, 4e-7 * fabs(want) + 3e-45, o == 5 ? "recip" : ops[2 + o].name);
        }
    kit_free(k);
}
END_TEST

/* Activations and their slopes up to the largest numbers: 0, x or 1 there. */
START_TEST(test_far)
{
    enum { EXPONENTS = 127, N = 2 * EXPONENTS, MAPS = 6 };
    static const one map[MAPS] = {{YK_OP_SILU, "silu", f_silu, 0, 0}, {YK_OP_SILU_BWD, "silu_bwd", f_silu_bwd, 0, 0},
                                  {YK_OP_GELU, "gelu", f_gelu, 0, 0}, {YK_OP_GELU_BWD, "gelu_bwd", f_gelu_bwd, 0, 0},
                                  {YK_OP_GELU_TANH, "gelu_tanh", f_gelu_tanh, 0, 0},
                                  {YK_OP_GELU_TANH_BWD, "gelu_tanh_bwd", f_gelu_tanh_bwd, 0, 0}};
    const int dtype = _i ? YK_F32 : YK_BF16;
    static double in[N];
    kit *k = kit_new();
    const uint32_t x = KIT(k, dtype, N), ones = KIT(k, dtype, N);
    uint32_t y[MAPS];
    for (int n = 0; n < N; n++)
        in[n] = ldexp(n % 2 ? -1.5 : 1.5, n / 2);
    kit_set(k, x, in);
    kit_random_int(k, ones, 1, 1);
    for (int o = 0; o < MAPS; o++) {
        y[o] = KIT(k, dtype, N);
        kit_node(k, map[o].op, o % 2 ? KIT_IDS(x, ones) : KIT_IDS(x), KIT_IDS(y[o]), NULL, 0);
    }
    ck_assert_int_eq(ok_run(k), YK_OK);
    for (int o = 0; o < MAPS; o++)
        for (int64_t i = 0; i < N; i++) {
            const double want = map[o].f(in[i], 1, 0);
            NEAR(kit_at(k, y[o], i), want, (_i ? 1e-6 : 0x1p-8) * fabs(want) + 1e-6, map[o].name);
        }
    kit_free(k);
}
END_TEST

START_TEST(test_integers)
{
    kit *k = kit_new();
    uint32_t a = KIT(k, YK_I32, 77), b = KIT(k, YK_I32, 77), z[8], c = KIT(k, YK_BOOL, 77), e = KIT(k, YK_BOOL, 77);
    static const int list[] = {YK_OP_ADD, YK_OP_SUB, YK_OP_MUL, YK_OP_DIV, YK_OP_MAX, YK_OP_MIN};
    kit_random_int(k, a, -1000, 1000);
    kit_random_int(k, b, -4, 4);
    for (int o = 0; o < 6; o++) {
        z[o] = KIT(k, YK_I32, 77);
        kit_node(k, list[o], KIT_IDS(a, b), KIT_IDS(z[o]), NULL, 0);
    }
    z[6] = KIT(k, YK_I32, 77);
    kit_node(k, YK_OP_LT, KIT_IDS(a, b), KIT_IDS(c), NULL, 0);
    kit_node(k, YK_OP_EQ, KIT_IDS(b, b), KIT_IDS(e), NULL, 0);
    kit_node(k, YK_OP_SELECT, KIT_IDS(c, a, b), KIT_IDS(z[6]), NULL, 0);
    ck_assert_int_eq(ok_run(k), YK_OK);
    for (int64_t i = 0; i < 77; i++) {
        int x = (int)kit_at(k, a, i), y = (int)kit_at(k, b, i);
        const int want[] = {x + y, x - y, x * y, y ? x / y : 0, x > y ? x : y, x < y ? x : y, x < y ? x : y};
        for (int o = 0; o < 7; o++)
            NEAR(kit_at(k, z[o], i), want[o], 0, "integer");
        ck_assert_int_eq((int)kit_at(k, c, i), x < y);
        ck_assert_int_eq((int)kit_at(k, e, i), 1);
    }
    kit_free(k);
}
END_TEST

START_TEST(test_cast)
{
    static const int from[] = {YK_F32, YK_F16, YK_BF16, YK_I32, YK_U8, YK_BOOL};
    kit *k = kit_new();
    uint32_t x[6], y[6][6];
    for (int a = 0; a < 6; a++) {
        x[a] = KIT(k, from[a], 50);
        if (from[a] == YK_BOOL || from[a] == YK_U8)
            kit_random_int(k, x[a], 0, from[a] == YK_BOOL ? 1 : 200);
        else
            kit_random(k, x[a], 0, 200);
        for (int b = 0; b < 6; b++) {
            y[a][b] = KIT(k, from[b], 50);
            kit_node(k, YK_OP_CAST, KIT_IDS(x[a]), KIT_IDS(y[a][b]), NULL, 0);
        }
    }
    ck_assert_int_eq(ok_run(k), YK_OK);
    for (int a = 0; a < 6; a++)
        for (int b = 0; b < 6; b++)
            for (int64_t i = 0; i < 50; i++) {
                double v = kit_at(k, x[a], i);
                double want = from[b] == YK_BOOL ? v != 0 : from[b] == YK_I32 || from[b] == YK_U8 ? trunc(v) : v;
                NEAR(kit_at(k, y[a][b], i), want, eps_of(from[b]) * fabs(want), "cast");
            }
    kit_free(k);
}
END_TEST

/* ---- Sources ---- */

START_TEST(test_sources)
{
    kit *k = kit_new();
    uint32_t f = KIT(k, YK_F32, 3, 41), it = KIT(k, YK_I32, 3, 41, 2), ft = KIT(k, YK_F32, 3, 5);
    uint32_t key = KIT(k, YK_I32, 4), rows = KIT(k, YK_I32, 6), u = KIT(k, YK_F32, 6, 35);
    kit_set(k, key, (double[]){1234567, 99, 17, 0});
    kit_set(k, rows, (double[]){5, 4, 100, 7, 123456, 0});
    kit_node(k, YK_OP_FILL, KIT_NONE, KIT_IDS(f), KIT_ATTR(yk_attr_of_f64(2.5)));
    kit_node(k, YK_OP_IOTA, KIT_NONE, KIT_IDS(it), KIT_ATTR(1));
    kit_node(k, YK_OP_IOTA, KIT_NONE, KIT_IDS(ft), KIT_ATTR(0));
    kit_node(k, YK_OP_RNG, KIT_IDS(key, rows), KIT_IDS(u), KIT_ATTR(3));
    ck_assert_int_eq(ok_run(k), YK_OK);
    for (int64_t i = 0; i < 3 * 41; i++)
        NEAR(kit_at(k, f, i), 2.5, 0, "fill");
    for (int64_t i = 0; i < 3 * 41 * 2; i++)
        NEAR(kit_at(k, it, i), (double)(i / 2 % 41), 0, "iota");
    for (int64_t i = 0; i < 15; i++)
        NEAR(kit_at(k, ft, i), (double)(i / 5), 0, "iota f32");
    for (int64_t i = 0; i < 6 * 35; i++) {
        uint64_t c = (uint64_t)kit_get(k, rows, i / 35) * 35 + (uint64_t)(i % 35);
        uint32_t w[4];
        yk__philox((uint32_t[]){(uint32_t)(c / 4), (uint32_t)(c / 4 >> 32), 3, 17}, (uint32_t[]){1234567, 99}, w);
        NEAR(kit_at(k, u, i), (w[c % 4] >> 8) * 0x1p-24, 0, "rng");
    }
    kit_free(k);
}
END_TEST

/* ---- Reductions ---- */

static void reduce_check(int op, int dtype, const int64_t *dim, unsigned axes, unsigned broadcast)
{
    kit *k = kit_new();
    int64_t out[5] = {dim[0], dim[1], dim[2], dim[3], -1}, at[4];
    uint32_t x = kit_broadcast(k, dtype, dim, broadcast), y;
    double *want, *size;
    for (int d = 0; d < 4; d++)
        out[d] = axes >> d & 1 ? 1 : dim[d];
    y = kit_value(k, dtype, out);
    kit_random_int(k, x, -9, 9);
    if ((dtype == YK_F32 || dtype == YK_F16 || dtype == YK_BF16))
        kit_random(k, x, -1, 1);
    kit_node(k, op, KIT_IDS(x), KIT_IDS(y), KIT_ATTR((int64_t)axes));
    want = calloc((size_t)kit_count(k, y) * 2, sizeof *want);
    size = want + kit_count(k, y);
    for (int64_t i = 0; i < kit_count(k, y); i++)
        want[i] = op == YK_OP_SUM ? 0 : -INFINITY;
    for (int64_t i = 0; i < kit_count(k, x); i++) {
        int64_t r = i, o = 0;
        for (int d = 3; d >= 0; d--) {
            at[d] = axes >> d & 1 ? 0 : r % dim[d];
            r /= dim[d];
        }
        for (int d = 0; d < 4; d++)
            o = o * out[d] + at[d];
        double v = kit_at(k, x, i);
        want[o] = op == YK_OP_SUM ? want[o] + v : fmax(want[o], v);
        size[o] += fabs(v);
    }
    ck_assert_int_eq(ok_run(k), YK_OK);
    for (int64_t i = 0; i < kit_count(k, y); i++)
        NEAR(kit_at(k, y, i), want[i], op == YK_OP_SUM ? size[i] * (2e-6 + eps_of(dtype)) : 0, "reduction");
    free(want);
    kit_free(k);
}

START_TEST(test_reduce)
{
    static const int64_t dim[] = {3, 5, 7, 37, -1}, wide[] = {1, 1, 40, 1000, -1};
    for (unsigned axes = 0; axes < 16; axes++)
        reduce_check(YK_OP_SUM, YK_F32, dim, axes, 0);
    for (unsigned axes = 1; axes < 16; axes += 3)
        reduce_check(YK_OP_RMAX, YK_F32, dim, axes, 0);
    reduce_check(YK_OP_SUM, YK_F32, wide, 12, 0);
    reduce_check(YK_OP_SUM, YK_F32, wide, 4, 0);
    reduce_check(YK_OP_SUM, YK_F32, dim, 5, 6);
    reduce_check(YK_OP_SUM, YK_BF16, dim, 8, 0);
    reduce_check(YK_OP_RMAX, YK_F16, dim, 8, 0);
    reduce_check(YK_OP_SUM, YK_I32, dim, 10, 0);
    reduce_check(YK_OP_RMAX, YK_I32, dim, 4, 0);
}
END_TEST

START_TEST(test_argmax)
{
    for (int axis = 0; axis < 3; axis++) {
        kit *k = kit_new();
        int64_t dim[] = {4, 6, 21, -1}, out[] = {4, 6, 21, -1}, s[] = {126, 21, 1};
        out[axis] = 1;
        uint32_t x = kit_value(k, YK_F32, dim), y = kit_value(k, YK_I32, out), xi = kit_value(k, YK_I32, dim);
        uint32_t yi = kit_value(k, YK_I32, out);
        kit_random_int(k, x, 0, 5);
        kit_random_int(k, xi, 0, 5);
        kit_node(k, YK_OP_ARGMAX, KIT_IDS(x), KIT_IDS(y), KIT_ATTR(axis));
        kit_node(k, YK_OP_ARGMAX, KIT_IDS(xi), KIT_IDS(yi), KIT_ATTR(axis));
        ck_assert_int_eq(ok_run(k), YK_OK);
        for (int64_t i = 0; i < kit_count(k, y); i++) {
            int64_t first = i / s[axis] * s[axis] * dim[axis] + i % s[axis], best = 0, besti = 0;
            for (int64_t j = 1; j < dim[axis]; j++) {
                best = kit_get(k, x, first + j * s[axis]) > kit_get(k, x, first + best * s[axis]) ? j : best;
                besti = kit_get(k, xi, first + j * s[axis]) > kit_get(k, xi, first + besti * s[axis]) ? j : besti;
            }
            NEAR(kit_get(k, y, i), (double)best, 0, "argmax");
            NEAR(kit_get(k, yi, i), (double)besti, 0, "argmax i32");
        }
        kit_free(k);
    }
}
END_TEST

/* ---- Movement ---- */

START_TEST(test_copy)
{
    static const int types[] = {YK_F32, YK_BF16, YK_U8};
    for (int t = 0; t < 3; t++) {
        kit *k = kit_new();
        uint32_t x = KIT(k, types[t], 6, 8, 10), p = KIT(k, types[t], 10, 6, 8), base = KIT(k, types[t], 12, 20), s, v, w;
        kit_random_int(k, x, 0, 200);
        kit_random_int(k, base, 0, 200);
        uint32_t xt = kit_view(k, x, 3, (int64_t[]){10, 6, 8}, (int64_t[]){1, 80, 10}, 0);
        kit_node(k, YK_OP_COPY, KIT_IDS(xt), KIT_IDS(p), NULL, 0);
        s = kit_view(k, x, 2, (int64_t[]){6, 5}, (int64_t[]){-80, 2}, 5 * 80 + 1);
        v = kit_view(k, base, 2, (int64_t[]){6, 5}, (int64_t[]){40, 3}, 2);
        kit_node(k, YK_OP_COPY, KIT_IDS(s, base), KIT_IDS(v), NULL, 0);
        w = kit_value(k, types[t], (int64_t[]){-1});
        kit_node(k, YK_OP_COPY, KIT_IDS(kit_view(k, x, 0, NULL, NULL, 7)), KIT_IDS(w), NULL, 0);
        double before[240];
        for (int i = 0; i < 240; i++)
            before[i] = kit_get(k, base, i);
        ck_assert_int_eq(ok_run(k), YK_OK);
        for (int64_t i = 0; i < 480; i++)
            NEAR(kit_at(k, p, i), kit_at(k, xt, i), 0, "permute");
        for (int64_t i = 0; i < 30; i++) {
            NEAR(kit_at(k, v, i), kit_at(k, s, i), 0, "slice");
            before[2 + i / 5 * 40 + i % 5 * 3] = kit_at(k, s, i);
        }
        for (int64_t i = 0; i < 240; i++)
            NEAR(kit_get(k, base, i), before[i], 0, "base");
        ck_assert(kit_get(k, w, 0) == kit_get(k, x, 7));
        kit_free(k);
    }
}
END_TEST

static void rows_check(int dtype)
{
    enum { V = 11, D = 70, N = 40 };
    kit *k = kit_new();
    uint32_t table = KIT(k, dtype, V, D), index = KIT(k, YK_I32, N), y = KIT(k, dtype, N, D), z = KIT(k, dtype, V, D);
    double want[V * D] = {0};
    if (dtype == YK_I32)
        kit_random_int(k, table, -50, 50);
    else
        kit_random(k, table, -1, 1);
    kit_random_int(k, index, -1, V);
    kit_node(k, YK_OP_GATHER, KIT_IDS(table, index), KIT_IDS(y), NULL, 0);
    kit_node(k, YK_OP_SCATTER_ADD, KIT_IDS(y, index), KIT_IDS(z), NULL, 0);
    ck_assert_int_eq(ok_run(k), YK_OK);
    for (int64_t i = 0; i < N * D; i++) {
        int v = (int)kit_get(k, index, i / D);
        bool in = v >= 0 && v < V;
        NEAR(kit_get(k, y, i), in ? kit_get(k, table, v * D + i % D) : 0, 0, "gather");
        if (in)
            want[v * D + i % D] += kit_get(k, y, i);
    }
    for (int64_t i = 0; i < V * D; i++)
        NEAR(kit_get(k, z, i), want[i], (2e-6 + eps_of(dtype)) * 10, "scatter_add");
    kit_free(k);
}

START_TEST(test_rows)
{
    rows_check(YK_F32);
    rows_check(YK_BF16);
    rows_check(YK_I32);
}
END_TEST

START_TEST(test_unfold)
{
    enum { N = 2, C = 3, H = 9, W = 11, KH = 3, KW = 2, SH = 2, SW = 1, PH = 1, PW = 2, DH = 1, DW = 3 };
    enum { OH = (H + 2 * PH - DH * (KH - 1) - 1) / SH + 1, OW = (W + 2 * PW - DW * (KW - 1) - 1) / SW + 1 };
    kit *k = kit_new();
    uint32_t x = KIT(k, YK_F32, N, C, H, W), y = KIT(k, YK_F32, N, C * KH * KW, OH * OW), z = KIT(k, YK_F32, N, C, H, W);
    double want[N * C * H * W] = {0};
    kit_random(k, x, -1, 1);
    kit_node(k, YK_OP_UNFOLD, KIT_IDS(x), KIT_IDS(y), KIT_ATTR(KH, KW, SH, SW, PH, PW, DH, DW, yk_attr_of_f64(-3)));
    kit_node(k, YK_OP_FOLD, KIT_IDS(y), KIT_IDS(z), KIT_ATTR(KH, KW, SH, SW, PH, PW, DH, DW));
    ck_assert_int_eq(ok_run(k), YK_OK);
    for (int64_t i = 0; i < N * C * KH * KW * OH * OW; i++) {
        int64_t ox = i % OW, oy = i / OW % OH, kx = i / (OW * OH) % KW, ky = i / (OW * OH * KW) % KH;
        int64_t plane = i / (OW * OH * KW * KH), iy = oy * SH - PH + ky * DH, ix = ox * SW - PW + kx * DW;
        bool in = iy >= 0 && iy < H && ix >= 0 && ix < W;
        int64_t at = plane * H * W + iy * W + ix;
        NEAR(kit_get(k, y, i), in ? kit_get(k, x, at) : -3, 0, "unfold");
        if (in)
            want[at] += kit_get(k, y, i);
    }
    for (int64_t i = 0; i < N * C * H * W; i++)
        NEAR(kit_get(k, z, i), want[i], 1e-5, "fold");
    kit_free(k);
}
END_TEST

/* ---- dot ---- */

static void dot_check(int dtype, int out, int64_t B, int64_t M, int64_t N, int64_t K, int ta, int tb, unsigned mask, int acc)
{
    kit *k = kit_new();
    uint32_t a = KITB(k, dtype, mask & 1, B, ta ? K : M, ta ? M : K), b = KITB(k, dtype, mask >> 1 & 1, B, tb ? N : K, tb ? K : N);
    uint32_t c = KIT(k, out, B, M, N);
    if (ta)
        a = kit_view(k, a, 3, (int64_t[]){B, M, K}, (int64_t[]){mask & 1 ? 0 : M * K, 1, M}, 0);
    if (tb)
        b = kit_view(k, b, 3, (int64_t[]){B, K, N}, (int64_t[]){mask >> 1 & 1 ? 0 : N * K, 1, K}, 0);
    kit_random(k, a, -1, 1);
    kit_random(k, b, -1, 1);
    kit_random(k, c, -1, 1);
    double *was = malloc((size_t)(B * M * N) * sizeof *was);
    for (int64_t i = 0; i < B * M * N; i++)
        was[i] = acc ? kit_get(k, c, i) : 0;
    kit_node(k, YK_OP_DOT, KIT_IDS(a, b), KIT_IDS(c), NULL, 0)->flags = acc ? YK_NODE_ACCUMULATE : 0;
    ck_assert_int_eq(ok_run(k), YK_OK);
    for (int64_t i = 0; i < B * M * N; i++) {
        int64_t z = i / (M * N), m = i / N % M, n = i % N;
        double want = was[i], size = fabs(was[i]);
        for (int64_t q = 0; q < K; q++) {
            double v = kit_at(k, a, (z * M + m) * K + q) * kit_at(k, b, (z * K + q) * N + n);
            want += v;
            size += fabs(v);
        }
        NEAR(kit_get(k, c, i), want, size * 1e-6 + eps_of(out) * fabs(want), "dot");
    }
    free(was);
    kit_free(k);
}

START_TEST(test_dot)
{
    for (int t = 0; t < 4; t++) {
        dot_check(YK_F32, YK_F32, 1, 37, 75, 300, t & 1, t >> 1, 0, 0);
        dot_check(YK_F32, YK_F32, 3, 9, 33, 17, t & 1, t >> 1, t == 1 ? 1 : t == 2 ? 2 : 0, t == 3);
    }
    dot_check(YK_F32, YK_F32, 1, 1, 1, 1, 0, 0, 0, 0);
    dot_check(YK_F32, YK_F32, 1, 300, 290, 40, 0, 1, 0, 1);
    dot_check(YK_F32, YK_F32, 2, 1, 130, 64, 0, 1, 0, 0);
    dot_check(YK_BF16, YK_F32, 1, 40, 50, 70, 0, 1, 0, 1);
    dot_check(YK_BF16, YK_BF16, 1, 40, 50, 600, 1, 0, 0, 0);
    dot_check(YK_F16, YK_F16, 2, 20, 30, 70, 0, 0, 0, 0);
}
END_TEST

/* ---- Chains ---- */

START_TEST(test_map)
{
    kit *k = kit_new();
    uint32_t x = KIT(k, YK_BF16, 4, 6, 50), s = KITB(k, YK_F32, 5, 4, 6, 50), b = KITB(k, YK_F32, 7, 4, 6, 50);
    uint32_t t[4], y = KIT(k, YK_F32, 4, 6, 50), m = KIT(k, YK_BOOL, 4, 6, 50);
    for (int i = 0; i < 4; i++)
        t[i] = KIT(k, YK_F32, 4, 6, 50);
    kit_random(k, x, -2, 2);
    kit_random(k, s, -1, 1);
    kit_random(k, b, -1, 1);
    kit_node(k, YK_OP_CAST, KIT_IDS(x), KIT_IDS(t[0]), NULL, 0);
    kit_node(k, YK_OP_MUL, KIT_IDS(t[0], s), KIT_IDS(t[1]), NULL, 0);
    kit_node(k, YK_OP_ADD, KIT_IDS(t[1], b), KIT_IDS(t[2]), NULL, 0);
    kit_node(k, YK_OP_TANH, KIT_IDS(t[2]), KIT_IDS(y), NULL, 0);
    kit_node(k, YK_OP_FILL, KIT_NONE, KIT_IDS(t[3]), KIT_ATTR(yk_attr_of_f64(0.25)));
    kit_node(k, YK_OP_LT, KIT_IDS(t[3], y), KIT_IDS(m), NULL, 0);
    kit_wrap(k, YK_OP_MAP, 6, KIT_IDS(x, s, b), KIT_IDS(y, m));
    ck_assert_uint_eq(ok_claims(k, 0), 1);
    ck_assert_int_eq(ok_run(k), YK_OK);
    for (int64_t i = 0; i < 1200; i++) {
        double want = tanh(kit_at(k, x, i) * kit_at(k, s, i) + kit_at(k, b, i));
        NEAR(kit_at(k, y, i), want, 1e-6, "map");
        ck_assert_int_eq((int)kit_at(k, m, i), kit_at(k, y, i) > 0.25);
    }
    kit_free(k);
}
END_TEST

START_TEST(test_map_sum)
{
    for (int axes = 5; axes <= 6; axes++) {
        kit *k = kit_new();
        uint32_t x = KIT(k, YK_F32, 4, 6, 50), s = KITB(k, YK_F32, 5, 4, 6, 50), t = KIT(k, YK_F32, 4, 6, 50), y[2];
        y[0] = axes == 5 ? KIT(k, YK_F32, 1, 6, 1) : KIT(k, YK_F32, 4, 1, 1);
        y[1] = axes == 5 ? KIT(k, YK_F32, 1, 6, 1) : KIT(k, YK_F32, 4, 1, 1);
        double want[2][6] = {{0}};
        kit_random(k, x, -2, 2);
        kit_random(k, s, -1, 1);
        kit_node(k, YK_OP_MUL, KIT_IDS(x, s), KIT_IDS(t), NULL, 0);
        kit_node(k, YK_OP_SUM, KIT_IDS(t), KIT_IDS(y[0]), KIT_ATTR(axes));
        kit_node(k, YK_OP_SUM, KIT_IDS(x), KIT_IDS(y[1]), KIT_ATTR(axes));
        kit_wrap(k, YK_OP_MAP_SUM, 3, KIT_IDS(x, s), KIT_IDS(y[0], y[1]));
        ck_assert_uint_eq(ok_claims(k, 0), 1);
        ck_assert_int_eq(ok_run(k), YK_OK);
        for (int64_t i = 0; i < 1200; i++) {
            int64_t o = axes == 5 ? i / 50 % 6 : i / 300;
            want[0][o] += kit_at(k, x, i) * kit_at(k, s, i);
            want[1][o] += kit_at(k, x, i);
        }
        for (int64_t i = 0; i < kit_count(k, y[0]); i++) {
            NEAR(kit_at(k, y[0], i), want[0][i], 1e-4, "map_sum");
            NEAR(kit_at(k, y[1], i), want[1][i], 1e-4, "map_sum");
        }
        kit_free(k);
    }
}
END_TEST

static void case_start(void)
{
    static const char *device;
    device = getenv("YOKE_TEST_FAMILY");
    if (device) {
        plugin_host_option("FAMILY", device);
    }
    plugin_host_cache = getenv("YOKE_CACHE_DIR");
    ck_assert_int_ge(ok_start(0), 1);
}

int main(void)
{
    Suite *s = suite_create("opencl_prims");
    TCase *t = tcase_create("prims");
    tcase_add_unchecked_fixture(t, case_start, ok_stop);
    tcase_set_timeout(t, 300);
    tcase_add_test(t, test_elementwise);
    tcase_add_test(t, test_elementwise_16);
    tcase_add_test(t, test_special);
    tcase_add_loop_test(t, test_far, 0, 2);
    tcase_add_test(t, test_integers);
    tcase_add_test(t, test_cast);
    tcase_add_test(t, test_sources);
    tcase_add_test(t, test_reduce);
    tcase_add_test(t, test_argmax);
    tcase_add_test(t, test_copy);
    tcase_add_test(t, test_rows);
    tcase_add_test(t, test_unfold);
    tcase_add_test(t, test_dot);
    tcase_add_test(t, test_map);
    tcase_add_test(t, test_map_sum);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_set_fork_status(r, CK_NOFORK); /* a driver does not survive a fork */
    srunner_set_tap(r, "-");
    srunner_run_all(r, CK_SILENT);
    srunner_free(r);
    return 0;
}
