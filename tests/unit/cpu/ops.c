/* SPDX-License-Identifier: Apache-2.0 */
/* The primitives of the CPU plugin on every instruction set of this machine, against plain double arithmetic. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/exec/cpu_pool.h"
#include "backends/cpu/isa/pack_kernels.h"
#include "backends/cpu/isa/vec_kernels.h"
#include "tests/support/cpu_kit.h"
#include "tests/support/run.h"

#define NEAR(got, want, tol)                                                                                           \
    ck_assert_msg(fabs((got) - (want)) <= (tol), "%s, element %lld: got %.9g, expected %.9g", isa->name, (long long)i, \
                  (double)(got), (double)(want))

static const int64_t none[1];

static double op_apply(int op, double x, double y)
{
    switch (op) {
    case YK_OP_NEG: return -x;
    case YK_OP_ABS: return fabs(x);
    case YK_OP_EXP: return exp(x);
    case YK_OP_LOG: return log(x);
    case YK_OP_SQRT: return sqrt(x);
    case YK_OP_RSQRT: return 1 / sqrt(x);
    case YK_OP_RECIP: return 1 / x;
    case YK_OP_TANH: return tanh(x);
    case YK_OP_ERF: return erf(x);
    case YK_OP_ADD: return x + y;
    case YK_OP_SUB: return x - y;
    case YK_OP_MUL: return x * y;
    case YK_OP_DIV: return x / y;
    case YK_OP_MAX: return fmax(x, y);
    case YK_OP_MIN: return fmin(x, y);
    case YK_OP_LT: return x < y;
    case YK_OP_RELU: return fmax(x, 0);
    case YK_OP_RELU_BWD: return x > 0 ? y : 0;
    case YK_OP_GELU: return x / 2 * (1 + erf(x / sqrt(2)));
    case YK_OP_GELU_BWD: return y * (0.5 * (1 + erf(x / sqrt(2))) + x * exp(-x * x / 2) / sqrt(2 * M_PI));
    case YK_OP_GELU_TANH: return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case YK_OP_GELU_TANH_BWD: {
        double t = tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
        return y * (0.5 * (1 + t) + x / 2 * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x));
    }
    case YK_OP_SILU: return x / (1 + exp(-x));
    case YK_OP_SILU_BWD: return y / (1 + exp(-x)) * (1 + x * (1 - 1 / (1 + exp(-x))));
    case YK_OP_SIGMOID: return 1 / (1 + exp(-x));
    case YK_OP_SIGMOID_BWD: return y * x * (1 - x);
    case YK_OP_TANH_BWD: return y * (1 - x * x);
    default: return NAN;
    }
}

static const int unary[] = {YK_OP_NEG, YK_OP_ABS, YK_OP_EXP, YK_OP_LOG, YK_OP_SQRT, YK_OP_RSQRT, YK_OP_RECIP,
                            YK_OP_TANH, YK_OP_ERF, YK_OP_RELU, YK_OP_GELU, YK_OP_GELU_TANH, YK_OP_SILU,
                            YK_OP_SIGMOID};
static const int binary[] = {YK_OP_ADD, YK_OP_SUB, YK_OP_MUL, YK_OP_DIV, YK_OP_MAX, YK_OP_MIN, YK_OP_LT,
                             YK_OP_RELU_BWD, YK_OP_GELU_BWD, YK_OP_GELU_TANH_BWD, YK_OP_SILU_BWD, YK_OP_SIGMOID_BWD,
                             YK_OP_TANH_BWD};

static void one_elementwise(const cpu_isa *isa, int op, int dtype, unsigned mask)
{
    kit *k = kit_new();
    bool positive = op == YK_OP_LOG || op == YK_OP_SQRT || op == YK_OP_RSQRT;
    uint32_t x = KIT(k, dtype, 5, 7, 331), y = kit_broadcast(k, dtype, (int64_t[]){5, 7, 331, -1}, mask);
    uint32_t z = KIT(k, op == YK_OP_LT ? YK_BOOL : dtype, 5, 7, 331);
    kit_random(k, x, positive ? 0.01 : -4, 4);
    kit_random(k, y, -3, 3);
    bool bin = op >= YK_OP_ADD && op <= YK_OP_LT;
    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++)
        bin = bin || binary[i] == op;
    kit_node(k, op, bin ? KIT_IDS(x, y) : KIT_IDS(x), KIT_IDS(z), none, 0);
    ck_assert_int_eq(kit_run(k, isa, 2), YK_OK);
    double eps = dtype == YK_F32 ? (op >= YK_OP_RELU ? 2e-6 : 4e-7) : dtype == YK_BF16 ? 5e-3 : 6e-4;
    for (int64_t i = 0; i < 5 * 7 * 331; i++) {
        double want = op_apply(op, kit_at(k, x, i), kit_at(k, y, i));
        NEAR(kit_get(k, z, i), want, eps * (fabs(want) + 0.5));
    }
    kit_free(k);
}

START_TEST(elementwise_is_near_libm)
{
    static const int types[] = {YK_F32, YK_BF16, YK_F16};
    static const unsigned masks[] = {0, 7, 3, 4, 5, 2, 6, 1};
    for (int q = 0; kit_isa(q); q++)
        for (int t = 0; t < 3; t++) {
            for (size_t i = 0; i < sizeof unary / sizeof *unary; i++)
                one_elementwise(kit_isa(q), unary[i], types[t], 0);
            for (size_t i = 0; i < sizeof binary / sizeof *binary; i++)
                one_elementwise(kit_isa(q), binary[i], types[t], masks[i % 8]);
        }
}
END_TEST

/* y = select(x < b, exp(x) * b, float(int(x))), and x + b, as one map over a broadcast b */
START_TEST(map_chain)
{
    for (int q = 0; kit_isa(q); q++) {
        const cpu_isa *isa = kit_isa(q);
        kit *k = kit_new();
        int64_t dim[] = {6, 11, 257, -1};
        uint32_t x = kit_value(k, YK_F32, dim), b = kit_broadcast(k, YK_BF16, dim, 5);
        uint32_t y = kit_value(k, YK_F32, dim), s = kit_value(k, YK_F16, dim);
        uint32_t lt = kit_value(k, YK_BOOL, dim), e = kit_value(k, YK_F32, dim), m = kit_value(k, YK_F32, dim);
        uint32_t ti = kit_value(k, YK_I32, dim), tf = kit_value(k, YK_F32, dim), b32 = kit_value(k, YK_F32, dim);
        uint32_t sum = kit_value(k, YK_F32, dim);
        kit_random(k, x, -5, 5);
        kit_random(k, b, -5, 5);
        kit_node(k, YK_OP_CAST, KIT_IDS(b), KIT_IDS(b32), none, 0);
        kit_node(k, YK_OP_LT, KIT_IDS(x, b32), KIT_IDS(lt), none, 0);
        kit_node(k, YK_OP_EXP, KIT_IDS(x), KIT_IDS(e), none, 0);
        kit_node(k, YK_OP_MUL, KIT_IDS(e, b32), KIT_IDS(m), none, 0);
        kit_node(k, YK_OP_CAST, KIT_IDS(x), KIT_IDS(ti), none, 0);
        kit_node(k, YK_OP_CAST, KIT_IDS(ti), KIT_IDS(tf), none, 0);
        kit_node(k, YK_OP_SELECT, KIT_IDS(lt, m, tf), KIT_IDS(y), none, 0);
        kit_node(k, YK_OP_ADD, KIT_IDS(x, b32), KIT_IDS(sum), none, 0);
        kit_node(k, YK_OP_CAST, KIT_IDS(sum), KIT_IDS(s), none, 0);
        kit_wrap(k, YK_OP_MAP, 9, KIT_IDS(x, b), KIT_IDS(y, s));
        ck_assert_int_eq(kit_run(k, isa, 2), YK_OK);
        for (int64_t i = 0; i < 6 * 11 * 257; i++) {
            double u = kit_at(k, x, i), v = kit_at(k, b, i), want = u < v ? exp(u) * v : trunc(u);
            NEAR(kit_get(k, y, i), want, 1e-6 * (1 + fabs(want)));
            NEAR(kit_get(k, s, i), u + v, 5e-3);
        }
        kit_free(k);
    }
}
END_TEST

static void one_reduce(const cpu_isa *isa, int op, const int64_t *dim, unsigned mask, int dtype, unsigned bcast)
{
    kit *k = kit_new();
    uint32_t x = kit_broadcast(k, dtype, dim, bcast);
    int64_t out[9], n = 1, m = 1;
    int d = 0;
    for (; dim[d] >= 0; d++) {
        out[d] = mask >> d & 1 ? 1 : dim[d];
        n *= dim[d];
        m *= out[d];
    }
    out[d] = -1;
    uint32_t y = kit_value(k, YK_F32, out);
    kit_random(k, x, -1, 1);
    kit_node(k, op, KIT_IDS(x), KIT_IDS(y), (int64_t[]){mask}, 1);
    float *first = NULL;
    for (int nt = 1; nt <= 3; nt++) {
        ck_assert_int_eq(kit_run(k, isa, nt), YK_OK);
        if (!first) {
            first = malloc((size_t)m * 4);
            memcpy(first, k->data[y], (size_t)m * 4);
        }
        ck_assert_msg(!memcmp(first, k->data[y], (size_t)m * 4), "%s: %d threads give other bits", isa->name, nt);
    }
    double *want = calloc((size_t)m, sizeof *want);
    for (int64_t o = 0; o < m; o++)
        want[o] = op == YK_OP_RMAX ? -INFINITY : 0;
    for (int64_t e = 0; e < n; e++) {
        int64_t rest = e, to = 0, step = 1;
        for (int i = d - 1; i >= 0; i--) {
            int64_t at = rest % dim[i];
            rest /= dim[i];
            to += mask >> i & 1 ? 0 : at * step;
            step *= out[i];
        }
        double v = kit_at(k, x, e);
        want[to] = op == YK_OP_RMAX ? fmax(want[to], v) : want[to] + v;
    }
    for (int64_t i = 0; i < m; i++)
        NEAR(kit_get(k, y, i), want[i], op == YK_OP_RMAX ? 0 : 1e-6 * sqrt((double)(n / m)) * 4);
    free(want);
    free(first);
    kit_free(k);
}

START_TEST(reductions_over_any_axes)
{
    static const int64_t shapes[][6] = {{300000, -1}, {1000, 10, -1}, {64, 3000, -1}, {7, 33, 65, -1},
                                        {4, 3, 5, 9, -1}, {128, 16, 64, -1}, {1, 1, -1}, {2, 5000, 3, -1}};
    for (int q = 0; kit_isa(q); q++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            int d = 0;
            while (shapes[s][d] >= 0)
                d++;
            for (unsigned mask = 1; mask < 1u << d; mask++) {
                one_reduce(kit_isa(q), YK_OP_SUM, shapes[s], mask, YK_F32, 0);
                one_reduce(kit_isa(q), YK_OP_RMAX, shapes[s], mask, YK_BF16, mask % 3 ? 0 : 1);
            }
        }
}
END_TEST

START_TEST(argmax_first_of_equals)
{
    kit *k = kit_new();
    uint32_t x = KIT(k, YK_F32, 2, 4, 3), y = KIT(k, YK_I32, 2, 1, 3);
    static const double v[] = {1, 2, 3, 5, 2, 1, 5, 9, 0, 0, 9, 3, -1, -2, -3, -1, -2, -3, -4, -1, -3, -1, -1, 0};
    static const int want[] = {1, 2, 0, 0, 2, 3};
    kit_set(k, x, v);
    kit_node(k, YK_OP_ARGMAX, KIT_IDS(x), KIT_IDS(y), (int64_t[]){1}, 1);
    ck_assert_int_eq(kit_run(k, kit_isa(0), 2), YK_OK);
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq((int)kit_get(k, y, i), want[i]);
    kit_free(k);
}
END_TEST

START_TEST(gather_and_scatter)
{
    for (int q = 0; kit_isa(q); q++) {
        const cpu_isa *isa = kit_isa(q);
        for (int64_t w = 3; w < 300; w += 290) {
            kit *k = kit_new();
            uint32_t t = KIT(k, YK_BF16, 50, w), ix = KIT(k, YK_I32, 80), g = KIT(k, YK_BF16, 80, w);
            uint32_t s = KIT(k, YK_F32, 50, w);
            kit_random(k, t, -1, 1);
            kit_random(k, ix, -3, 53);
            kit_node(k, YK_OP_GATHER, KIT_IDS(t, ix), KIT_IDS(g), none, 0);
            kit_node(k, YK_OP_SCATTER_ADD, KIT_IDS(g, ix), KIT_IDS(s), none, 0);
            ck_assert_int_eq(kit_run(k, isa, 2), YK_OK);
            double *want = calloc((size_t)(50 * w), sizeof *want);
            for (int64_t i = 0; i < 80 * w; i++) {
                int64_t row = (int64_t)kit_get(k, ix, i / w);
                double v = row >= 0 && row < 50 ? kit_get(k, t, row * w + i % w) : 0;
                NEAR(kit_get(k, g, i), v, 0);
                if (row >= 0 && row < 50)
                    want[row * w + i % w] += v;
            }
            for (int64_t i = 0; i < 50 * w; i++)
                NEAR(kit_get(k, s, i), want[i], 1e-5);
            free(want);
            kit_free(k);
        }
    }
}
END_TEST

/* a transposing copy, and one into part of a larger value */
START_TEST(copies_of_any_strides)
{
    const cpu_isa *isa = kit_isa(0);
    kit *k = kit_new();
    uint32_t x = KIT(k, YK_F32, 4, 5, 6), y = KIT(k, YK_F32, 4, 6, 5), base = KIT(k, YK_F32, 4, 9, 6);
    kit_random(k, x, -1, 1);
    kit_random(k, base, 5, 6);
    uint32_t xt = k->g.n_value++, view = k->g.n_value++;
    k->value[xt] = k->value[x];
    k->value[xt].dim[1] = 6, k->value[xt].dim[2] = 5, k->value[xt].stride[1] = 1, k->value[xt].stride[2] = 6;
    k->value[view] = k->value[base];
    k->value[view].dim[1] = 5, k->value[view].offset = 2 * 6 * 4;
    kit_node(k, YK_OP_COPY, KIT_IDS(xt), KIT_IDS(y), none, 0);
    kit_node(k, YK_OP_COPY, KIT_IDS(x, base), KIT_IDS(view), none, 0);
    ck_assert_int_eq(kit_run(k, isa, 2), YK_OK);
    for (int64_t i = 0; i < 120; i++) {
        int64_t n = i / 30, r = i / 6 % 5, c = i % 6;
        NEAR(kit_get(k, y, n * 30 + c * 5 + r), kit_get(k, x, i), 0);
        NEAR(kit_get(k, base, n * 54 + (r + 2) * 6 + c), kit_get(k, x, i), 0);
        ck_assert(kit_get(k, base, n * 54 + c) >= 5 && kit_get(k, base, n * 54 + 48 + c) >= 5);
    }
    kit_free(k);
}
END_TEST

static uint32_t philox_word(const uint32_t key[3], uint32_t stream, uint64_t c)
{
    uint32_t w[4] = {(uint32_t)(c / 4), (uint32_t)(c / 4 >> 32), stream, key[2]}, k0 = key[0], k1 = key[1];
    for (int r = 0; r < 10; r++, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
        uint64_t p0 = 0xd2511f53ull * w[0], p1 = 0xcd9e8d57ull * w[2];
        uint32_t n[4] = {(uint32_t)(p1 >> 32) ^ w[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ w[3] ^ k1, (uint32_t)p0};
        memcpy(w, n, sizeof w);
    }
    return w[c % 4];
}

START_TEST(random_numbers)
{
    for (int q = 0; kit_isa(q); q++) {
        const cpu_isa *isa = kit_isa(q);
        kit *k = kit_new();
        uint32_t key = KIT(k, YK_I32, 4), rows = KIT(k, YK_I32, 7), u = KIT(k, YK_F32, 7, 331);
        uint32_t x = KIT(k, YK_F32, 7, 331), y = KIT(k, YK_F32, 7, 331), xh = KIT(k, YK_BF16, 7, 331), yh = KIT(k, YK_BF16, 7, 331);
        kit_set(k, key, (double[]){12345, -99, 17, 0});
        kit_set(k, rows, (double[]){3, 0, 1000000000, 8, 2, 2147483647, 5});
        kit_random(k, x, 1, 2);
        kit_random(k, xh, 1, 2);
        kit_node(k, YK_OP_RNG, KIT_IDS(key, rows), KIT_IDS(u), (int64_t[]){42}, 1);
        kit_node(k, YK_OP_DROPOUT, KIT_IDS(x, key, rows), KIT_IDS(y), (int64_t[]){yk_attr_of_f64(0.3), 42}, 2);
        kit_node(k, YK_OP_DROPOUT, KIT_IDS(xh, key, rows), KIT_IDS(yh), (int64_t[]){yk_attr_of_f64(0.3), 42}, 2);
        ck_assert_int_eq(kit_run(k, isa, 2), YK_OK);
        for (int64_t i = 0; i < 7 * 331; i++) {
            uint32_t kk[3] = {12345, (uint32_t)-99, 17};
            uint64_t c = (uint64_t)kit_get(k, rows, i / 331) * 331 + (uint64_t)(i % 331);
            double want = (double)(philox_word(kk, 42, c) >> 8) * 0x1p-24;
            NEAR(kit_get(k, u, i), want, 0);
            NEAR(kit_get(k, y, i), want >= (double)0.3f ? kit_get(k, x, i) / 0.7 : 0, 4e-7);
            NEAR(kit_get(k, yh, i), want >= (double)0.3f ? kit_get(k, xh, i) / 0.7 : 0, 0x1.02p-7); /* half a unit in the last place */
        }
        kit_free(k);
    }
}
END_TEST

static void one_dot(const cpu_isa *isa, int t, int dtype, int64_t batch, bool bcast, int out)
{
    kit *k = kit_new();
    int64_t m = 37, n = 70, kk = 45;
    uint32_t a = KIT(k, dtype, batch, m, kk), b = kit_broadcast(k, dtype, (int64_t[]){batch, kk, n, -1}, bcast ? 1 : 0);
    uint32_t c = KIT(k, out, batch, m, n);
    if (t & 1)
        k->value[a].stride[1] = 1, k->value[a].stride[2] = m;
    if (t & 2)
        k->value[b].stride[1] = 1, k->value[b].stride[2] = kk;
    kit_random(k, a, -1, 1);
    kit_random(k, b, -1, 1);
    kit_random(k, c, -1, 1);
    double *old = malloc((size_t)(batch * m * n) * sizeof *old);
    for (int64_t i = 0; i < batch * m * n; i++)
        old[i] = kit_get(k, c, i);
    kit_node(k, YK_OP_DOT, KIT_IDS(a, b), KIT_IDS(c), none, 0)->flags = out == YK_F32 ? YK_NODE_ACCUMULATE : 0;
    ck_assert_int_eq(kit_run(k, isa, 2), YK_OK);
    for (int64_t i = 0; i < batch * m * n; i++) {
        double want = out == YK_F32 ? old[i] : 0;
        for (int64_t p = 0; p < kk; p++)
            want += kit_at(k, a, i / n * kk + p) * kit_at(k, b, i / (m * n) * kk * n + p * n + i % n);
        NEAR(kit_get(k, c, i), want, out == YK_F32 ? 2e-5 : 4e-2);
    }
    free(old);
    kit_free(k);
}

START_TEST(products_of_any_strides)
{
    for (int q = 0; kit_isa(q); q++)
        for (int t = 0; t < 4; t++) {
            one_dot(kit_isa(q), t, YK_F32, 1, false, YK_F32);
            one_dot(kit_isa(q), t, YK_F32, 3, t & 1, YK_F32);
            one_dot(kit_isa(q), t, YK_BF16, 3, t & 2, YK_BF16);
            one_dot(kit_isa(q), t, YK_F16, 3, true, YK_F32);
        }
}
END_TEST

/* gelu(a b + bias) + residual, with the product itself as a second result */
START_TEST(dot_with_epilogue)
{
    for (int q = 0; kit_isa(q); q++) {
        const cpu_isa *isa = kit_isa(q);
        kit *k = kit_new();
        int64_t m = 45, n = 300, kk = 33, dim[] = {m, n, -1};
        uint32_t a = KIT(k, YK_BF16, m, kk), b = KIT(k, YK_BF16, kk, n), c = kit_value(k, YK_F32, dim);
        uint32_t bias = kit_broadcast(k, YK_F32, dim, 1), res = kit_value(k, YK_BF16, dim);
        uint32_t t = kit_value(k, YK_F32, dim), g = kit_value(k, YK_F32, dim), r = kit_value(k, YK_F32, dim);
        uint32_t y = kit_value(k, YK_BF16, dim), s = kit_value(k, YK_F32, dim);
        kit_random(k, a, -1, 1);
        kit_random(k, b, -1, 1);
        kit_random(k, bias, -1, 1);
        kit_random(k, res, -1, 1);
        kit_node(k, YK_OP_DOT, KIT_IDS(a, b), KIT_IDS(c), none, 0);
        kit_node(k, YK_OP_ADD, KIT_IDS(c, bias), KIT_IDS(t), none, 0);
        kit_node(k, YK_OP_GELU_TANH, KIT_IDS(t), KIT_IDS(g), none, 0);
        kit_node(k, YK_OP_CAST, KIT_IDS(res), KIT_IDS(r), none, 0);
        kit_node(k, YK_OP_ADD, KIT_IDS(g, r), KIT_IDS(s), none, 0);
        kit_node(k, YK_OP_CAST, KIT_IDS(s), KIT_IDS(y), none, 0);
        kit_wrap(k, YK_OP_DOT_MAP, 6, KIT_IDS(a, b, bias, res), KIT_IDS(y, c));
        ck_assert_int_eq(kit_run(k, isa, 2), YK_OK);
        for (int64_t i = 0; i < m * n; i++) {
            double z = 0;
            for (int64_t p = 0; p < kk; p++)
                z += kit_at(k, a, i / n * kk + p) * kit_at(k, b, p * n + i % n);
            NEAR(kit_get(k, c, i), z, 1e-5);
            double want = op_apply(YK_OP_GELU_TANH, z + kit_at(k, bias, i), 0) + kit_at(k, res, i);
            NEAR(kit_get(k, y, i), want, 4e-3 * (1 + fabs(want)));
        }
        kit_free(k);
    }
}
END_TEST

START_TEST(map_then_sum)
{
    for (int q = 0; kit_isa(q); q++) {
        const cpu_isa *isa = kit_isa(q);
        kit *k = kit_new();
        int64_t dim[] = {6, 5, 70, -1}, out[] = {1, 5, 1, -1};
        uint32_t x = kit_value(k, YK_F32, dim), b = kit_broadcast(k, YK_F32, dim, 5), m = kit_value(k, YK_F32, dim);
        uint32_t s1 = kit_value(k, YK_F32, out), s2 = kit_value(k, YK_F32, out);
        kit_random(k, x, -1, 1);
        kit_random(k, b, -1, 1);
        kit_node(k, YK_OP_MUL, KIT_IDS(x, b), KIT_IDS(m), none, 0);
        kit_node(k, YK_OP_SUM, KIT_IDS(m), KIT_IDS(s1), (int64_t[]){5}, 1);
        kit_node(k, YK_OP_SUM, KIT_IDS(x), KIT_IDS(s2), (int64_t[]){5}, 1);
        kit_wrap(k, YK_OP_MAP_SUM, 3, KIT_IDS(x, b), KIT_IDS(s1, s2));
        ck_assert_int_eq(kit_run(k, isa, 2), YK_OK);
        for (int64_t i = 0; i < 5; i++) {
            double w1 = 0, w2 = 0;
            for (int64_t e = 0; e < 6 * 70; e++) {
                int64_t at = e / 70 * 350 + i * 70 + e % 70;
                w1 += kit_at(k, x, at) * kit_at(k, b, at);
                w2 += kit_at(k, x, at);
            }
            NEAR(kit_get(k, s1, i), w1, 1e-5);
            NEAR(kit_get(k, s2, i), w2, 1e-5);
        }
        kit_free(k);
    }
}
END_TEST

/* Sums of what a body widens, negates, or widens of a broadcast operand: only the first are of rows that lie so. */
START_TEST(bf16_then_sum)
{
    for (int q = 0; kit_isa(q); q++)
        for (int which = 0; which < 3; which++) {
            const cpu_isa *isa = kit_isa(q);
            kit *k = kit_new();
            int64_t dim[] = {9, 70, -1}, out[] = {1, 70, -1};
            uint32_t x = which == 2 ? kit_broadcast(k, YK_BF16, dim, 1) : kit_value(k, YK_BF16, dim);
            uint32_t m = kit_value(k, which == 1 ? YK_BF16 : YK_F32, dim), s = kit_value(k, YK_F32, out);
            kit_random(k, x, -1, 1);
            kit_node(k, which == 1 ? YK_OP_NEG : YK_OP_CAST, KIT_IDS(x), KIT_IDS(m), none, 0);
            kit_node(k, YK_OP_SUM, KIT_IDS(m), KIT_IDS(s), (int64_t[]){1}, 1);
            kit_wrap(k, YK_OP_MAP_SUM, 2, KIT_IDS(x), KIT_IDS(s));
            ck_assert_int_eq(kit_run(k, isa, 2), YK_OK);
            for (int64_t i = 0; i < 70; i++) {
                double want = 0;
                for (int64_t e = 0; e < 9; e++)
                    want += (which == 1 ? -1 : 1) * kit_at(k, x, which == 2 ? i : e * 70 + i);
                NEAR(kit_get(k, s, i), want, 1e-5);
            }
            kit_free(k);
        }
}
END_TEST

/* gelu and its backward in one map share most of their work; the bits are those of each alone. */
START_TEST(gelu_with_its_backward)
{
    for (int q = 0; kit_isa(q); q++)
        for (int op = YK_OP_GELU; op <= YK_OP_GELU_TANH; op += YK_OP_GELU_TANH - YK_OP_GELU) {
            kit *k = kit_new();
            uint32_t x = KIT(k, YK_F32, 7, 333), g = KIT(k, YK_F32, 7, 333), made[2], both[2];
            for (int i = 0; i < 2; i++) {
                made[i] = KIT(k, YK_F32, 7, 333);
                both[i] = KIT(k, YK_F32, 7, 333);
            }
            kit_random(k, x, -6, 6);
            kit_random(k, g, -1, 1);
            kit_node(k, op, KIT_IDS(x), KIT_IDS(made[0]), none, 0);
            kit_node(k, op + 1, KIT_IDS(x, g), KIT_IDS(made[1]), none, 0);
            kit_node(k, op + 1, KIT_IDS(x, g), KIT_IDS(both[1]), none, 0);
            kit_node(k, op, KIT_IDS(x), KIT_IDS(both[0]), none, 0);
            kit_wrap(k, YK_OP_MAP, 2, KIT_IDS(x, g), KIT_IDS(both[0], both[1]));
            ck_assert_int_eq(kit_run(k, kit_isa(q), 2), YK_OK);
            for (int64_t i = 0; i < 7 * 333; i++)
                for (int o = 0; o < 2; o++)
                    ck_assert_msg(kit_get(k, both[o], i) == kit_get(k, made[o], i), "%s, result %d of x = %g: %.9g, alone %.9g",
                                  kit_isa(q)->name, o, kit_at(k, x, i), kit_get(k, both[o], i), kit_get(k, made[o], i));
            kit_free(k);
        }
}
END_TEST

/* The dtype's value of x. */
static uint32_t cast_to(kit *k, uint32_t x, int dtype, const int64_t *dim)
{
    if (k->value[x].dtype == dtype)
        return x;
    uint32_t y = kit_value(k, dtype, dim);
    kit_node(k, YK_OP_CAST, KIT_IDS(x), KIT_IDS(y), none, 0);
    return y;
}

/* gelu (or its backward, with gelu again) at the end of a product has the bits of one node after the other. */
static void one_gelu(const cpu_isa *isa, int op, int dtype, int64_t n, bool back)
{
    kit *k = kit_new();
    const int64_t m = 150, kk = 5, dim[] = {m, n, -1};
    uint32_t a = KIT(k, dtype, m, kk), b = KIT(k, dtype, kk, n), x = back ? kit_value(k, dtype, dim) : kit_broadcast(k, YK_F32, dim, 1);
    uint32_t f[5], want[2], got[2] = {kit_value(k, dtype, dim), kit_value(k, dtype, dim)};
    for (int i = 0; i < 5; i++)
        f[i] = kit_value(k, YK_F32, dim);
    kit_random(k, a, -2, 2);
    kit_random(k, b, -1, 1);
    kit_random(k, x, -4, 4);
    kit_node(k, YK_OP_DOT, KIT_IDS(a, b), KIT_IDS(f[0]), none, 0);
    uint32_t of = back ? cast_to(k, x, YK_F32, dim) : f[1];
    kit_node(k, back ? op + 1 : YK_OP_ADD, back ? KIT_IDS(of, f[0]) : KIT_IDS(f[0], x), KIT_IDS(f[1]), none, 0);
    kit_node(k, op, KIT_IDS(of), KIT_IDS(f[2]), none, 0);
    for (int i = 0; i < 2; i++)
        want[i] = cast_to(k, f[1 + i], dtype, dim);
    kit_node(k, YK_OP_DOT, KIT_IDS(a, b), KIT_IDS(f[3]), none, 0);
    if (back) {
        kit_node(k, op + 1, KIT_IDS(x, f[3]), KIT_IDS(got[0]), none, 0);
    } else {
        kit_node(k, YK_OP_ADD, KIT_IDS(f[3], x), KIT_IDS(f[4]), none, 0);
        kit_node(k, YK_OP_CAST, KIT_IDS(f[4]), KIT_IDS(got[0]), none, 0);
    }
    kit_node(k, op, back ? KIT_IDS(x) : KIT_IDS(got[0]), KIT_IDS(got[1]), none, 0);
    kit_wrap(k, YK_OP_DOT_MAP, back ? 3 : 4, KIT_IDS(a, b, x), KIT_IDS(got[0], got[1]));
    ck_assert_int_eq(kit_run(k, isa, 2), YK_OK);
    for (int64_t i = 0; i < 2 * m * n; i++)
        ck_assert_msg(kit_get(k, got[i & 1], i / 2) == kit_get(k, want[i & 1], i / 2),
                      "%s op %d dtype %d n %d back %d, result %d: %.9g, alone %.9g", isa->name, op, dtype, (int)n, back,
                      (int)(i & 1), kit_get(k, got[i & 1], i / 2), kit_get(k, want[i & 1], i / 2));
    kit_free(k);
}

START_TEST(gelu_of_a_product)
{
    for (int q = 0; kit_isa(q); q++)
        for (int c = 0; c < 16; c++) /* rows that are spread out, and rows read where they lie */
            one_gelu(kit_isa(q), c & 1 ? YK_OP_GELU : YK_OP_GELU_TANH, c & 2 ? YK_F32 : YK_BF16, c & 4 ? 70 : 601, c & 8);
}
END_TEST

/* fold is the adjoint of unfold: <unfold x, y> = <x, fold y> */
START_TEST(unfold_and_fold)
{
    for (int q = 0; kit_isa(q); q++) {
        const cpu_isa *isa = kit_isa(q);
        kit *k = kit_new();
        const int64_t attr[] = {3, 2, 2, 1, 1, 2, 1, 2, yk_attr_of_f64(0.0)};
        int64_t oh = (9 + 2 - 2 - 1) / 2 + 1, ow = 8 + 4 - 2 - 1 + 1;
        uint32_t x = KIT(k, YK_F32, 2, 3, 9, 8), u = KIT(k, YK_F32, 2, 18, oh * ow);
        uint32_t y = KIT(k, YK_F32, 2, 18, oh * ow), f = KIT(k, YK_F32, 2, 3, 9, 8);
        kit_random(k, x, -1, 1);
        kit_random(k, y, -1, 1);
        kit_node(k, YK_OP_UNFOLD, KIT_IDS(x), KIT_IDS(u), attr, 9);
        kit_node(k, YK_OP_FOLD, KIT_IDS(y), KIT_IDS(f), attr, 8);
        ck_assert_int_eq(kit_run(k, isa, 2), YK_OK);
        double a = 0, b = 0;
        for (int64_t i = 0; i < 2 * 18 * oh * ow; i++)
            a += kit_get(k, u, i) * kit_get(k, y, i);
        for (int64_t i = 0; i < 2 * 3 * 72; i++)
            b += kit_get(k, x, i) * kit_get(k, f, i);
        ck_assert_msg(fabs(a - b) < 1e-4 * fabs(a) + 1e-4, "%g and %g", a, b);
        for (int64_t i = 0; i < 2 * 18 * oh * ow; i++) {
            int64_t p = i % (oh * ow), row = i / (oh * ow), t = row % 6;
            int64_t iy = p / ow * 2 - 1 + t / 2, ix = p % ow - 2 + t % 2 * 2;
            double want = iy >= 0 && iy < 9 && ix >= 0 && ix < 8 ? kit_get(k, x, row / 6 * 72 + iy * 8 + ix) : 0;
            NEAR(kit_get(k, u, i), want, 0);
        }
        kit_free(k);
    }
}
END_TEST

/* All halves there and back, in the mode programs run in: those below the normal halves are normal as f32. */
START_TEST(every_f16)
{
    static uint16_t half[65536], back[65536];
    static float x[65536];
    const cpu_isa *list[5];
    const int n = cpu_isa_list(list);
    for (uint32_t i = 0; i < 65536; i++)
        half[i] = (uint16_t)i;
    for (int k = 0; k < n; k++) {
        uint64_t before = cpu_float_begin();
        list[k]->vec->to_f32(x, half, YK_F16, 65536);
        list[k]->vec->from_f32(back, x, YK_F16, 65536);
        cpu_float_end(before);
        for (uint32_t i = 0; i < 65536; i++) {
            const int e = (int)(i >> 10 & 31), m = (int)(i & 1023);
            const double want = (i >> 15 ? -1.0 : 1.0) * (e ? ldexp(1024 + m, e - 25) : ldexp(m, -24));
            if (e < 31)
                ck_assert_msg((double)x[i] == want && back[i] == half[i], "%s: half %04x", list[k]->name, i);
        }
    }
}
END_TEST

/* A NaN stays one when it is rounded, whatever its payload and wherever it lies; its neighbours do not notice. */
START_TEST(every_nan)
{
    enum { N = 64 };
    static const uint32_t nans[] = {0x7fffffff, 0xffffffff, 0x7f800001, 0xff808000, 0x7fc00000};
    const cpu_isa *list[5];
    const int n = cpu_isa_list(list);
    for (int t = 0; t < n * 5 * N; t++) {
        const cpu_isa *isa = list[t / N / 5];
        const size_t at = (size_t)t % N, vw = (size_t)isa->vw;
        float x[N];
        uint16_t row[N], plane[N];
        for (size_t i = 0; i < N; i++)
            x[i] = (float)i;
        memcpy(&x[at], &nans[t / N % 5], 4);
        isa->vec->from_f32(row, x, YK_BF16, N);
        isa->vec->planes_out(plane, N / vw, x, N / vw, vw);
        for (size_t i = 0; i < N; i++) {
            const uint16_t transposed = plane[i % vw * (N / vw) + i / vw];
            ck_assert_msg(row[i] == transposed || i == at, "%s: %zu: %04x in a row, %04x in a plane", isa->name, i, row[i], transposed);
            ck_assert_msg(((row[i] & 0x7fff) > 0x7f80) == (i == at), "%s: NaN %08x at %zu: %04x at %zu", isa->name,
                          nans[t / N % 5], at, row[i], i);
            ck_assert_msg(((transposed & 0x7fff) > 0x7f80) == (i == at), "%s: planes, NaN %08x at %zu: %04x at %zu", isa->name,
                          nans[t / N % 5], at, transposed, i);
        }
    }
}
END_TEST

/* Roots of every bf16 that has one, zero and infinity included: rounded right, but for what f32 cannot tell from a tie, and
 * alike wherever in a vector. */
START_TEST(every_root)
{
    enum { N = 2 * (0x7f80 + 1 - 0x7f) }; /* without numbers below the normal ones; each of them twice */
    static double x[N];
    for (uint32_t i = 2; i < N; i++) {
        uint32_t word = (i / 2 + 0x7f) << 16;
        float f;
        memcpy(&f, &word, 4);
        x[i] = (double)f;
    }
    for (int q = 0; kit_isa(q); q++) {
        kit *k = kit_new();
        uint32_t in = KIT(k, YK_BF16, N), root = KIT(k, YK_BF16, N), inverse = KIT(k, YK_BF16, N);
        kit_set(k, in, x);
        kit_node(k, YK_OP_SQRT, KIT_IDS(in), KIT_IDS(root), none, 0);
        kit_node(k, YK_OP_RSQRT, KIT_IDS(in), KIT_IDS(inverse), none, 0);
        ck_assert_int_eq(kit_run(k, kit_isa(q), 1), YK_OK);
        for (int64_t i = 0; i < N; i++) {
            const double a = kit_get(k, root, i), b = kit_get(k, inverse, i), want = sqrt(x[i]);
            ck_assert_msg(a == want || fabs(a - want) <= want * 0x1.0004p-8, "%s: sqrt(%g) = %g", kit_isa(q)->name, x[i], a);
            ck_assert_msg(b == 1 / want || fabs(b * want - 1) <= 0x1.0004p-8, "%s: rsqrt(%g) = %g", kit_isa(q)->name, x[i], b);
            ck_assert_msg(a == kit_get(k, root, i / 2 * 2), "%s: sqrt(%g) is %g at %d", kit_isa(q)->name, x[i], a, (int)i);
            ck_assert_msg(b == kit_get(k, inverse, i / 2 * 2), "%s: rsqrt(%g) is %g at %d", kit_isa(q)->name, x[i], b, (int)i);
        }
        kit_free(k);
    }
}
END_TEST

/* Activations and their slopes, in bf16 and f32, at every normal bf16, up to 3.4e38: far from 0 they are 0, x or 1. */
START_TEST(activations_of_every_bf16)
{
    const int dtype = _i ? YK_F32 : YK_BF16;
    enum { N = 2 * (0x7f80 - 0x80) };
    static const int ops[] = {YK_OP_SILU, YK_OP_GELU, YK_OP_GELU_TANH, YK_OP_SIGMOID, YK_OP_TANH, YK_OP_ERF, YK_OP_SILU_BWD,
                              YK_OP_GELU_BWD, YK_OP_GELU_TANH_BWD};
    static double x[N];
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t word = (i / 2 + 0x80) << 16 | i << 31;
        float f;
        memcpy(&f, &word, 4);
        x[i] = (double)f;
    }
    for (int q = 0; kit_isa(q); q++)
        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
            kit *k = kit_new();
            const uint32_t in = KIT(k, dtype, N), one = KIT(k, dtype, N), y = KIT(k, dtype, N);
            const bool slope = o > 5;
            kit_set(k, in, x);
            kit_random_int(k, one, 1, 1);
            kit_node(k, ops[o], slope ? KIT_IDS(in, one) : KIT_IDS(in), KIT_IDS(y), none, 0);
            ck_assert_int_eq(kit_run(k, kit_isa(q), 1), YK_OK);
            for (int64_t i = 0; i < N; i++) {
                const double a = kit_get(k, y, i), want = op_apply(ops[o], x[i], 1);
                ck_assert_msg(fabs(a - want) <= fabs(want) * 0x1p-7 + 1e-5, "%s: op %d of %g: %g, not %g", kit_isa(q)->name, ops[o], x[i],
                              a, want);
            }
            kit_free(k);
        }
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("all");
    tcase_add_test(t, elementwise_is_near_libm);
    tcase_add_test(t, every_f16);
    tcase_add_test(t, every_nan);
    tcase_add_test(t, every_root);
    tcase_add_loop_test(t, activations_of_every_bf16, 0, 2);
    tcase_add_test(t, map_chain);
    tcase_add_test(t, reductions_over_any_axes);
    tcase_add_test(t, argmax_first_of_equals);
    tcase_add_test(t, gather_and_scatter);
    tcase_add_test(t, copies_of_any_strides);
    tcase_add_test(t, random_numbers);
    tcase_add_test(t, products_of_any_strides);
    tcase_add_test(t, dot_with_epilogue);
    tcase_add_test(t, map_then_sum);
    tcase_add_test(t, bf16_then_sum);
    tcase_add_test(t, gelu_with_its_backward);
    tcase_add_test(t, gelu_of_a_product);
    tcase_add_test(t, unfold_and_fold);
    return suite_run("cpu_ops all", t);
}
