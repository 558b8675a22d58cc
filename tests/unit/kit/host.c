/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel sources of plugins/kit compiled as plain C, in the CPU shape and (KIT_GPU_SHAPE) in the GPU shape with teams of
 * one: elementary functions and 16-bit conversions against libm and the compiler, kernels against plain loops.
 */
#include <check.h>
#include <stdlib.h>

#include "tests/support/f16.h"

#ifndef KIT_GPU_SHAPE
#define K_CPU_SHAPE
#endif
#define T f32
#define TA f32
#define TC f32
#define UNIT_MAKE
#define UNIT_FLOAT
#define UNIT_COPY
#define E uint
#include "plugins/kit/kernels/dialect.kc"
#include "plugins/kit/kernels/math.kc"
#include "plugins/kit/kernels/data.kc"
#include "plugins/kit/kernels/nn.kc"
#include "plugins/kit/kernels/parts.kc"
#include "plugins/kit/kernels/pool.kc"
#include "plugins/kit/kernels/round8.kc"
#include "plugins/kit/kernels/step.kc"
#ifndef K_CPU_SHAPE
#include "plugins/kit/kernels/eight.kc"
#endif
#ifdef K_CPU_SHAPE
#define GEMM_LOCAL
#define GEMM_PANELS
#define GEMM_NAME gemm
#define EPI_ARGS
#define EPI_BIND
#define EPI(v, z, m, n, cnt) ST_f32(c + (z)*cbs + (m)*N + (n), v, accumulate ? 0 : cnt)
#include "plugins/kit/kernels/gemm.kc"
#include "plugins/kit/kernels/gemm_dot.kc"
#define WINO_CONV
#define WINO_DW
#define TX 8
#include "plugins/kit/kernels/wino.kc"
#endif

#include "core/base/philox.h"
#include "tests/support/run.h"

static float random_float(void)
{
    static uint32_t s = 12345;
    s = s * 1664525u + 1013904223u;
    return (float)(s >> 8) / 8388608.0f - 1;
}

static void floats_fill(float *p, int n)
{
    for (int i = 0; i < n; i++)
        p[i] = random_float();
}

/* ---- Functions ---- */

static void function_check(V (*f)(V), double (*want)(double), float lo, float hi, double ulps, const char *name)
{
    for (int i = 0; i < 200000; i++) {
        float x = lo + (hi - lo) * (random_float() * 0.5f + 0.5f);
        V v = V_SPLAT(x), y = f(v);
        double w = want((double)x), tol = ulps * 0x1p-24 * fabs(w) + 1e-45;
        ck_assert_msg(fabs((double)V_GET(y, 0) - w) <= tol, "%s(%.9g) = %.9g, expected %.9g", name, (double)x,
                      (double)V_GET(y, 0), w);
    }
}

START_TEST(test_functions)
{
    function_check(k_exp, exp, -87, 88, 3, "exp");
    function_check(k_log, log, 1e-30f, 10, 3, "log");
    function_check(k_log, log, 1e-3f, 1e30f, 3, "log");
    function_check(k_tanh, tanh, -9, 9, 4, "tanh");
    function_check(k_erf, erf, -4, 4, 4, "erf");
    function_check(k_erf, erf, -1e-3f, 1e-3f, 4, "erf");
}
END_TEST

/* Every half; every float of a sample, and all ties. */
START_TEST(test_half)
{
    for (int h = 0; h < 65536; h++) {
        V v = k_f16_value(VI_SPLAT(h));
        float want = (float)f16_value((uint16_t)h), one = k_half(h);
        ck_assert(want == V_GET(v, 0) || (want != want && V_GET(v, 0) != V_GET(v, 0)));
        ck_assert(want == one || (want != want && one != one));
    }
    for (uint32_t u = 0; u < 0xfff00000u; u += 4093) {
        for (int tie = 0; tie < 2; tie++) {
            float x = k_as_f((int32_t)(tie ? (u & ~0x1fffu) | 0x1000u : u));
            uint16_t want = f16_bits(x);
            VI b = k_f16_bits(V_SPLAT(x));
            if (x == x) {
                ck_assert_msg(VI_GET(b, 0) == want, "%g: %x, expected %x", (double)x, (unsigned)VI_GET(b, 0), want);
                ck_assert_int_eq(k_half_bits(x), want);
            }
        }
    }
}
END_TEST

START_TEST(test_brain)
{
    for (uint32_t u = 0; u < 0xfff00000u; u += 8191) {
        float x = k_as_f((int32_t)u);
        uint32_t want = (u + 0x7fff + (u >> 16 & 1)) >> 16;
        VI b = k_bf16_bits(V_SPLAT(x));
        if (x != x)
            continue;
        ck_assert_uint_eq((uint32_t)VI_GET(b, 0), want);
        ck_assert_int_eq(k_brain_bits(x), (int)want);
    }
}
END_TEST

START_TEST(test_philox)
{
    static const long from[] = {0, 1, 2, 3, 4093, (1L << 34) - 7, (1L << 34) - 64};
    const int key[4] = {99, -5, 31, 0};
    for (int c = 0; c < 7; c++) {
        V u = k_uniforms(key, 8, from[c]);
        for (int i = 0; i < VW; i++) {
            uint64_t n = (uint64_t)(from[c] + i);
            uint32_t w[4];
            yk__philox((uint32_t[]){(uint32_t)(n / 4), (uint32_t)(n / 4 >> 32), 8, 31}, (uint32_t[]){99, (uint32_t)-5}, w);
            ck_assert(V_GET(u, i) == (float)(w[n % 4] >> 8) * 0x1p-24f);
        }
    }
}
END_TEST

#ifdef K_CPU_SHAPE
START_TEST(test_philox_many)
{
    static const long from[] = {0, 4, 4092, (1L << 34) - 64, (1L << 34) - 128, (1L << 34) - 132, 1L << 40};
    const int key[4] = {99, -5, 31, 0};
    for (int c = 0; c < 7; c++) {
        V u[4];
        k_uniforms_many(key, 8, from[c], u);
        for (int i = 0; i < 4 * VW; i++)
            ck_assert(V_GET(u[i / VW], i % VW) == k_uniform(key, 8, from[c] + i));
    }
}
END_TEST
#endif

/* ---- Kernels: a loop over groups is the device ---- */

START_TEST(test_softmax)
{
    enum { R = 7, C = 45 };
    float x[R * C], y[R * C];
    floats_fill(x, R * C);
    for (k_host_gid[0] = 0; k_host_gid[0] < 4; k_host_gid[0]++)
        softmax_fwd(x, 0, y, 0, R, C, 2, 0);
    for (int r = 0; r < R; r++) {
        double sum = 0;
        for (int c = 0; c < C; c++)
            sum += exp((double)x[r * C + c]);
        for (int c = 0; c < C; c++)
            ck_assert_double_eq_tol((double)y[r * C + c], exp((double)x[r * C + c]) / sum, 1e-7);
    }
}
END_TEST

/* y [vocab, width]: the sums of the rows x[k] of each index, by groups of 16 columns */
static void table_run(const float *x, const int *index, float *y, long vocab, long n, long width)
{
    const long groups = (width + 15) / 16;
#ifdef K_CPU_SHAPE
    int *list = malloc((size_t)(vocab + n) * 4);
    scatter_lists(index, 0, list, 0, vocab, n);
    for (k_host_gid[0] = 0; k_host_gid[0] < groups; k_host_gid[0]++)
        scatter_rows(x, 0, list, 0, y, 0, vocab, n, width, 16);
    free(list);
#else
    float *lost = calloc((size_t)(vocab * width), 4);
    k_host_gid[0] = 0;
    zeros_f32(y, 0, vocab * width, vocab * width);
    for (k_host_gid[0] = 0; k_host_gid[0] < groups; k_host_gid[0]++)
        scatter_rows(x, 0, index, 0, y, 0, lost, 0, vocab, n, width, 16);
    free(lost);
#endif
    k_host_gid[0] = 0;
}

START_TEST(test_rows_of_a_table)
{
    enum { V_ = 9, D = 21, N = 30 };
    float x[N * D], y[V_ * D], want[V_ * D] = {0};
    int index[N];
    floats_fill(x, N * D);
    for (int i = 0; i < N; i++)
        index[i] = i * 7 % 11 - 1;
    for (int i = 0; i < V_ * D; i++)
        y[i] = 7;
    table_run(x, index, y, V_, N, D);
    for (int i = 0; i < N * D; i++)
        if (index[i / D] >= 0 && index[i / D] < V_)
            want[index[i / D] * D + i % D] += x[i];
    for (int i = 0; i < V_ * D; i++)
        ck_assert(y[i] == want[i]);
}
END_TEST

#ifndef K_CPU_SHAPE
/* Groups of `each` rows; the indices of none are among them, 1 row of y may take all. */
static void scatter_check(int vocab, int rows, int each)
{
    enum { D = 21 };
    const int groups = (rows + each - 1) / each;
    float *x = malloc(rows * D * 4), *rest = malloc(groups * D * 4), *y = calloc(vocab * D, 4), *want = calloc(vocab * D, 4);
    int *index = malloc(rows * 4), *order = malloc(rows * 4);
    for (int i = 0; i < rows; i++)
        index[i] = rows % 2 ? vocab - 1 : i % 5 == 4 ? -1 - i : i * 7 % (vocab + 2); /* odd: all are one row's */
    for (int i = 0; i < rows * D; i++)
        x[i] = (float)(i % 13 - 6); /* exact in any order */
    for (k_host_gid[0] = 0; k_host_gid[0] < (rows + SORT_EACH - 1) / SORT_EACH; k_host_gid[0]++)
        rows_sort(index, 0, order, 0, vocab, rows);
    for (k_host_gid[0] = 0; k_host_gid[0] < groups; k_host_gid[0]++)
        for (k_host_gid[1] = 0; k_host_gid[1] < D; k_host_gid[1]++)
            scatter_runs(x, 0, index, 0, order, 0, y, 0, rest, 0, vocab, rows, D, each, 0);
    for (k_host_gid[0] = 0; k_host_gid[0] < groups - 1; k_host_gid[0]++)
        for (k_host_gid[1] = 0; k_host_gid[1] < D; k_host_gid[1]++)
            scatter_rest(index, 0, order, 0, rest, 0, y, 0, vocab, rows, D, each);
    k_host_gid[1] = 0;
    for (int i = 0; i < rows * D; i++)
        if (index[i / D] >= 0 && index[i / D] < vocab)
            want[index[i / D] * D + i % D] += x[i];
    for (int i = 0; i < vocab * D; i++)
        ck_assert_msg(y[i] == want[i], "%d of %d x %d, %d rows by %d: %g, not %g", i, vocab, D, rows, each, (double)y[i], (double)want[i]);
    free(x), free(rest), free(y), free(want), free(index), free(order);
}

START_TEST(test_rows_added_in_groups)
{
    static const int vocabs[] = {1, 2, 9, 700}, counts[] = {1, 2, 31, 64, 130, 1001, 1000}, by[] = {1, 4, 32, 256};
    for (int v = 0; v < 4; v++)
        for (int n = 0; n < 7; n++)
            for (int e = 0; e < 4; e++)
                scatter_check(vocabs[v], counts[n], by[e]);
}
END_TEST

START_TEST(test_division)
{
    for (long d = 1; d < 1L << 30; d += d < 5000 ? 1 : d / 3) {
        int shift = 0;
        while (1L << shift < d)
            shift++;
        const uint mul = (uint)(((1L << (31 + shift)) + d - 1) / d);
        const long at[] = {0, 1, d - 1, d, d + 1, 2 * d - 1, 1000003, (1L << 31) / d * d - 1, (1L << 31) / d * d, (1L << 31) - 1};
        for (int i = 0; i < 10; i++)
            if (at[i] < 1L << 31)
                ck_assert_msg(k_divided((int)at[i], mul, shift) == at[i] / d, "%ld / %ld", at[i], d);
    }
}
END_TEST
#endif

START_TEST(test_pooling)
{
    float x[36], y[9];
    floats_fill(x, 36);
    k_host_gid[0] = 0;
    max_pool(x, 0, y, 0, 6, 6, 3, 3, 2, 2, 2, 2, 0, 0, 1, 1, 0);
    for (int i = 0; i < 9; i++) {
        const float *p = x + i / 3 * 12 + i % 3 * 2;
        ck_assert(y[i] == fmaxf(fmaxf(p[0], p[1]), fmaxf(p[6], p[7])));
    }
}
END_TEST

/* Equal terms, whose sum equals the sum of absolute terms: returns the loss as a share of it. */
static double share_lost(double got, double value, long n)
{
    return fabs(got - value * (double)n) / (fabs(value) * (double)n);
}

enum { LONG_ = 300000 };

START_TEST(test_long_rows_of_a_table)
{
    enum { D = 3 };
    float *x = malloc(LONG_ * D * 4), y[2 * D];
    int *index = calloc(LONG_, 4);
    for (long i = 0; i < LONG_ * D; i++)
        x[i] = 0.7f + (float)(i % D);
    table_run(x, index, y, 2, LONG_, D);
    for (int c = 0; c < D; c++)
        ck_assert_msg(share_lost((double)y[c], (double)x[c], LONG_) <= 1e-6, "column %d: %g", c, (double)y[c]);
    free(x), free(index);
}
END_TEST

START_TEST(test_long_rows)
{
    float *x = malloc(LONG_ * 4), *z = malloc(LONG_ * 4), one[2] = {1.0f, 1.0f}, y, mean, rstd, total[3];
    for (long i = 0; i < LONG_; i++)
        x[i] = 0.7f;
    k_host_gid[0] = 0;
    layer_norm(x, 0, one, 0, one, 0, z, 0, &mean, 0, &rstd, 0, 1, LONG_, 1, 0, 1e-5f);
    ck_assert_double_le(share_lost((double)mean * LONG_, (double)x[0], LONG_), 1e-6);
    softmax_fwd(x, 0, z, 0, 1, LONG_, 1, 0);
    ck_assert_double_le(fabs((double)z[0] * LONG_ - 1), 2e-6);
    avg_pool(x, 0, &y, 0, 500, LONG_ / 500, 1, 1, 500, LONG_ / 500, 1, 1, 0, 0, 1, 1, 1);
    ck_assert_double_le(share_lost((double)y * LONG_, (double)x[0], LONG_), 1e-6);
    grad_part(x, 0, one, 0, total, 0, LONG_, LONG_, 1);
    ck_assert_double_le(share_lost((double)total[0], (double)(x[0] * x[0]), LONG_), 1e-6);
    parts_join_rows(x, 0, &y, 0, LONG_, 0);
    ck_assert_double_le(share_lost((double)y, (double)x[0], LONG_), 1e-6);
    free(x), free(z);
}
END_TEST

/* A sum beyond the largest number is infinite, and stays so. */
START_TEST(test_sums_beyond)
{
    const float x[3][64] = {{2e38f, [16] = 2e38f, [32] = 2e38f, [48] = 1.0f}, {K_INF, [32] = 1.0f}, {K_INF, [16] = -K_INF}};
    for (int i = 0; i < 3; i++) {
        float y, want = i < 2 ? K_INF : K_NAN;
        parts_join_rows(x[i], 0, &y, 0, 64, 0);
        ck_assert_msg(y == want || (y != y && want != want), "%d: %g", i, (double)y);
    }
}
END_TEST

#ifdef K_CPU_SHAPE
START_TEST(test_long_product)
{
    enum { K = 1000000 };
    float *pa = malloc(K * 8 * 4), *pb = malloc(K * 32L * 4), c[8 * 32];
    for (long i = 0; i < K * 32L; i++)
        pb[i] = i < K * 8L ? pa[i] = 0.7f, 1.3f : 1.3f;
    k_host_gid[0] = k_host_gid[1] = 0;
    gemm(pa, 0, pb, 0, c, 0, 32, K, 0, 8, 0, 32, 0, 0, 0, 8 * 32, 8, 32, 0);
    ck_assert_double_le(share_lost((double)c[0], (double)pa[0] * (double)pb[0], K), 2e-6);
    free(pa), free(pb);
}
END_TEST

START_TEST(test_gemm)
{
    enum { M = 45, N = 70, K = 700, MP = 48, NP = 96 };
    float *a = malloc(M * K * 4), *b = malloc(K * N * 4), *c = malloc(M * N * 4);
    float *pa = malloc(MP * K * 4), *pb = malloc(NP * K * 4);
    floats_fill(a, M * K);
    floats_fill(b, K * N);
    for (int t = 0; t < 4; t++) {
        const long ars = t & 1 ? 1 : K, acs = t & 1 ? M : 1, brs = t & 2 ? 1 : N, bcs = t & 2 ? K : 1;
        k_host_gid[1] = 0;
        for (k_host_gid[0] = 0; k_host_gid[0] < MP / 8; k_host_gid[0]++)
            gemm_panels(a, 0, pa, 0, 0, M, K, ars, acs, 0, 0, 8);
        for (k_host_gid[0] = 0; k_host_gid[0] < NP / 32; k_host_gid[0]++)
            gemm_panels(b, 0, pb, 0, 0, N, K, bcs, brs, 0, 0, 32);
        for (k_host_gid[1] = 0; k_host_gid[1] < 2; k_host_gid[1]++)
            for (k_host_gid[0] = 0; k_host_gid[0] < 2; k_host_gid[0]++)
                gemm(pa, 0, pb, 0, c, 0, N, K, 0, M, 0, N, 0, 0, 0, M * N, 32, 64, 0);
        for (int i = 0; i < M * N; i++) {
            double want = 0;
            for (int k = 0; k < K; k++)
                want += (double)a[i / N * ars + k * acs] * (double)b[k * brs + i % N * bcs];
            ck_assert_double_eq_tol((double)c[i], want, 1e-4);
        }
    }
    k_host_gid[0] = k_host_gid[1] = 0;
    free(a), free(b), free(c), free(pa), free(pb);
}
END_TEST

/* Three blocks of one image: the plane's first and last, and one without a partner. */
enum { WC = 16, WM = 20, WH = 12, WW = 16, WPLANE = WH * WW, WBLOCKS = WPLANE / 64 };
static float wx[WC * WPLANE], wy[WM * WPLANE], ww[WM * WC * 9], wu[16 * 24 * WC], wpart[3 * 2 * 16 * WC * 32];

static double pixel_at(const float *plane, int y, int x)
{
    return y < 0 || y >= WH || x < 0 || x >= WW ? 0 : (double)plane[y * WW + x];
}

static double result_at(int o, int y, int x)
{
    double sum = 0;
    for (int c = 0; c < WC; c++)
        for (int k = 0; k < 9; k++)
            sum += (double)ww[(o * WC + c) * 9 + k] * pixel_at(wx + c * WPLANE, y + k / 3 - 1, x + k % 3 - 1);
    return sum;
}

static double filter_at(int o, int c, int k)
{
    double sum = 0;
    for (int i = 0; i < WPLANE; i++)
        sum += (double)wy[o * WPLANE + i] * pixel_at(wx + c * WPLANE, i / WW + k / 3 - 1, i % WW + k % 3 - 1);
    return sum;
}

START_TEST(test_winograd)
{
    floats_fill(wx, WC * WPLANE);
    floats_fill(ww, WM * WC * 9);
    for (k_host_gid[0] = 0; k_host_gid[0] < 3; k_host_gid[0]++)
        wino_filter(ww, 0, wu, 0, WC, WM, 0);
    for (k_host_gid[0] = 0; k_host_gid[0] < 2; k_host_gid[0]++)
        wino_conv(wx, 0, wu, 0, wy, 0, WC, WM, WBLOCKS, WBLOCKS);
    for (int i = 0; i < WM * WPLANE; i++)
        ck_assert_double_eq_tol((double)wy[i], result_at(i / WPLANE, i % WPLANE / WW, i % WW), 2e-5);
    for (k_host_gid[0] = 0; k_host_gid[0] < 2; k_host_gid[0]++)
        wino_dw(wx, 0, wy, 0, wpart, 0, WC, WM, WBLOCKS, WBLOCKS, 2);
    for (k_host_gid[0] = 0; k_host_gid[0] < WC; k_host_gid[0]++)
        wino_dw_sum(wpart, 0, ww, 0, WC, WM, 2, 0);
    k_host_gid[0] = 0;
    for (int i = 0; i < WM * WC * 9; i++)
        ck_assert_double_eq_tol((double)ww[i], filter_at(i / 9 / WC, i / 9 % WC, i % 9), 1e-3);
}
END_TEST
#endif

int main(void)
{
    TCase *t = tcase_create("kernels");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, test_functions);
    tcase_add_test(t, test_half);
    tcase_add_test(t, test_brain);
    tcase_add_test(t, test_philox);
    tcase_add_test(t, test_softmax);
    tcase_add_test(t, test_rows_of_a_table);
    tcase_add_test(t, test_long_rows_of_a_table);
    tcase_add_test(t, test_long_rows);
    tcase_add_test(t, test_sums_beyond);
#ifndef K_CPU_SHAPE
    tcase_add_test(t, test_rows_added_in_groups);
    tcase_add_test(t, test_division);
#endif
    tcase_add_test(t, test_pooling);
#ifdef K_CPU_SHAPE
    tcase_add_test(t, test_philox_many);
    tcase_add_test(t, test_long_product);
    tcase_add_test(t, test_gemm);
    tcase_add_test(t, test_winograd);
#endif
    return suite_run("kit_host", t);
}
