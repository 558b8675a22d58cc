/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small programs in which values meet as in few models: a parameter added to a product of itself, two operands of one sum that need each
 * other's neighbours, a maximum of 16-bit sums, attention whose result is read in another order. Each plan was once wrong. Results and
 * gradients are compared with float64.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include <yoke/yoke.h>

#include "tests/support/run.h"

enum { ROWS = 8, COLUMNS = 24, N = ROWS * COLUMNS };

static yk_job *job;
static float value[2][N], got[2][N];

static void job_open(void)
{
    job = yk_open(&(yk_config){.quiet = true, .seed = 1, .devices = "cpu:0"});
    ck_assert(yk_ok(job));
    for (int i = 0; i < N; i++)
        value[0][i] = (float)((i * 17 % 13) - 6) / 10, value[1][i] = (float)((i * 29 % 19) - 9) / 10;
}

static void job_close(void)
{
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 0);
}

static yk_t param_make(const char *name, int64_t rows, int64_t columns, const float *v)
{
    const yk_t p = yk_param(job, name, 2, (const int64_t[]){rows, columns}, (yk_init){.kind = YK_INIT_ZEROS});
    yk_param_write(p, v, (size_t)(rows * columns));
    return p;
}

static void step_take(yk_t loss)
{
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 1e-9});
    yk_backward(loss);
    yk_step(opt);
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
}

static void assert_near(const double *want, const float *is, int n)
{
    for (int i = 0; i < n; i++)
        ck_assert_msg(fabs(want[i] - (double)is[i]) <= 2e-6 * (1 + fabs(want[i])), "%d: %g, expected %g", i, (double)is[i], want[i]);
}

/* The gradient's second part is a product that reads the first part: sum((p + A p)^2), 2 (1 + A)^T (p + A p). */
START_TEST(a_parameter_meets_its_product)
{
    enum { SIDE = ROWS, SQUARE = SIDE * SIDE };
    float in[SIDE * SIDE];
    double z[SIDE][SIDE], want[SQUARE];
    for (int i = 0; i < SIDE * SIDE; i++)
        in[i] = (float)((i * 37 % 11) - 5) / 10;
    const yk_t p = param_make("p", SIDE, SIDE, value[0]);
    const yk_t sum = yk_add(p, yk_matmul(yk_replicated(yk_input(job, YK_F32, 2, (const int64_t[]){SIDE, SIDE}, in)), p));
    step_take(yk_sum(yk_mul(sum, sum), 3, false));
    yk_grad_read(p, got[0], SQUARE);
    for (int i = 0; i < SQUARE; i++) {
        z[i / SIDE][i % SIDE] = 2.0 * (double)value[0][i];
        for (int k = 0; k < SIDE; k++)
            z[i / SIDE][i % SIDE] += 2.0 * (double)in[i / SIDE * SIDE + k] * (double)value[0][k * SIDE + i % SIDE];
    }
    for (int i = 0; i < SQUARE; i++) {
        want[i] = z[i / SIDE][i % SIDE];
        for (int k = 0; k < SIDE; k++)
            want[i] += (double)in[k * SIDE + i / SIDE] * z[k][i % SIDE];
    }
    assert_near(want, got[0], SQUARE);
}
END_TEST

/* The second part is a table's gradient: sum((p + p[ids])^2). */
START_TEST(a_parameter_meets_its_rows)
{
    const int32_t id[ROWS] = {3, 1, 7, 7, 0, 2, 5, 3};
    double want[N];
    const yk_t p = param_make("p", ROWS, COLUMNS, value[0]);
    const yk_t ids = yk_replicated(yk_input(job, YK_I32, 1, (const int64_t[]){ROWS}, id));
    const yk_t sum = yk_add(p, yk_embedding(ids, p, -1));
    step_take(yk_sum(yk_mul(sum, sum), 3, false));
    yk_grad_read(p, got[0], N);
    for (int i = 0; i < N; i++) {
        const int r = i / COLUMNS, c = i % COLUMNS;
        want[i] = 2.0 * ((double)value[0][i] + (double)value[0][id[r] * COLUMNS + c]);
        for (int k = 0; k < ROWS; k++)
            want[i] += id[k] == r ? 2.0 * ((double)value[0][k * COLUMNS + c] + (double)value[0][i]) : 0;
    }
    assert_near(want, got[0], N);
}
END_TEST

/* h = x W, g = x V: h + g, and g softmax(h). A map of both sums would need the softmax, which needs the map. */
START_TEST(two_products_meet_in_two_maps)
{
    double h[COLUMNS], g[COLUMNS], want[2][N];
    float x[ROWS * ROWS];
    for (int i = 0; i < ROWS * ROWS; i++)
        x[i] = (float)((i * 37 % 11) - 5) / 10;
    const yk_t in = yk_input(job, YK_F32, 2, (const int64_t[]){ROWS, ROWS}, x);
    const yk_t a = yk_matmul(in, param_make("w", ROWS, COLUMNS, value[0])), soft = yk_softmax(a);
    const yk_t b = yk_matmul(in, param_make("v", ROWS, COLUMNS, value[1])), both = yk_add(a, b), product = yk_mul(b, soft);
    yk_keep(both);
    yk_keep(product);
    yk_read(both, got[0], sizeof got[0]);
    yk_read(product, got[1], sizeof got[1]);
    for (int r = 0; r < ROWS; r++) {
        double sum = 0;
        for (int c = 0; c < COLUMNS; c++) {
            h[c] = g[c] = 0;
            for (int k = 0; k < ROWS; k++) {
                h[c] += (double)x[r * ROWS + k] * (double)value[0][k * COLUMNS + c];
                g[c] += (double)x[r * ROWS + k] * (double)value[1][k * COLUMNS + c];
            }
            sum += exp(h[c]);
        }
        for (int c = 0; c < COLUMNS; c++) {
            want[0][r * COLUMNS + c] = h[c] + g[c];
            want[1][r * COLUMNS + c] = g[c] * exp(h[c]) / sum;
        }
    }
    assert_near(want[0], got[0], N);
    assert_near(want[1], got[1], N);
}
END_TEST

/* Attention of one sequence, whose result is read as [heads, width, tokens]. */
START_TEST(attention_is_read_in_another_order)
{
    enum { H = 2, T = 8, D = 4 };
    const double *v;
    double q[H * T * D], want[H * T * D];
    for (int i = 0; i < H * T * D; i++)
        q[i] = (double)(value[0][i] *= 2);
    const yk_t x = yk_input(job, YK_F32, 4, (const int64_t[]){1, H, T, D}, value[0]);
    const yk_t y = yk_permute(yk_attention(x, x, x, NULL), (const uint32_t[]){1, 3, 2, 0});
    yk_read(yk_shift(yk_reshape(y, 2, (const int64_t[]){H * D, T}), 0), got[0], sizeof(float) * H * T * D);
    for (int i = 0; i < H * T; i++) {
        double p[T], sum = 0;
        v = q + i / T * T * D;
        for (int k = 0; k < T; k++) {
            p[k] = 0;
            for (int c = 0; c < D; c++)
                p[k] += q[i * D + c] * v[k * D + c];
            sum += p[k] = exp(p[k] / sqrt(D));
        }
        for (int c = 0; c < D; c++) {
            want[(i / T * D + c) * T + i % T] = 0;
            for (int k = 0; k < T; k++)
                want[(i / T * D + c) * T + i % T] += p[k] / sum * v[k * D + c];
        }
    }
    assert_near(want, got[0], H * T * D);
}
END_TEST

/* y = conv(x) + linear(u), rounded to 16 bits and read again by a maximum's gradient: its row sums are rows times channels. */
START_TEST(a_maximum_finds_its_element)
{
    enum { B = 4, C = 8, S = 6 };
    static const yk_dtype precision[] = {YK_F32, YK_BF16, YK_F16};
    float u[B * 8], x[B * 2 * S * S], filter[C * 2 * 9], sum = 0;
    yk_close(job);
    job = yk_open(&(yk_config){.quiet = true, .seed = 1, .devices = "cpu:0", .precision = precision[_i], .scale = {.fixed = 1}});
    for (int i = 0; i < B * 2 * S * S; i++)
        x[i] = (float)((i * 37 % 101) - 50) / 77;
    for (int i = 0; i < C * 2 * 9; i++)
        filter[i] = (float)((i * 17 % 131) - 60) / 77;
    for (int i = 0; i < B * 8; i++)
        u[i] = 1;
    const yk_t k = yk_param(job, "k", 4, (const int64_t[]){C, 2, 3, 3}, (yk_init){.kind = YK_INIT_ZEROS});
    yk_param_write(k, filter, C * 2 * 9);
    const yk_t w = param_make("w", 8, C, value[1]);
    const yk_t h = yk_conv2d(yk_input(job, YK_F32, 4, (const int64_t[]){B, 2, S, S}, x), k, YK_NO,
                             &(yk_conv2d_config){.padding = {1, 1}});
    const yk_t v = yk_matmul(yk_input(job, YK_F32, 2, (const int64_t[]){B, 8}, u), w);
    const yk_t y = yk_add(h, yk_reshape(v, 4, (const int64_t[]){B, C, 1, 1}));
    step_take(yk_sum(yk_max(y, 12, true), 15, false));
    yk_grad_read(w, got[0], 8 * C);
    for (int i = 0; i < C; i++)
        sum += got[0][i];
    ck_assert_msg(sum == B * C, "%g, expected %d", (double)sum, B * C);
}
END_TEST

/* max(gelu(x w)) in a block that backward computes again from x w, which is stored rounded to 16 bits. The forward gelu was not: the
 * second one has other bits than the maximum. The gradient's sum is that of gelu'(maximum) times the row's sum. */
START_TEST(a_maximum_is_found_in_a_block)
{
    static const yk_dtype precision[] = {YK_F32, YK_BF16, YK_F16};
    float x[ROWS * ROWS];
    double want = 0, sum = 0;
    yk_close(job);
    job = yk_open(&(yk_config){.quiet = true, .seed = 1, .devices = "cpu:0", .precision = precision[_i], .scale = {.fixed = 1}});
    for (int i = 0; i < ROWS * ROWS; i++)
        x[i] = (float)((i * 37 % 101) - 30) / 77;
    const yk_t w = param_make("w", ROWS, COLUMNS, value[1]);
    const yk_t z = yk_matmul(yk_input(job, YK_F32, 2, (const int64_t[]){ROWS, ROWS}, x), w);
    yk_recompute_begin(job);
    const yk_t most = yk_max(yk_gelu(z), 2, true);
    yk_recompute_end(job);
    step_take(yk_sum(most, 3, false));
    yk_grad_read(w, got[0], N);
    for (int r = 0; r < ROWS; r++) {
        double largest = 0, row = 0;
        for (int k = 0; k < ROWS; k++)
            row += (double)x[r * ROWS + k];
        for (int c = 0; c < COLUMNS; c++) {
            double product = 0;
            for (int k = 0; k < ROWS; k++)
                product += (double)x[r * ROWS + k] * (double)value[1][k * COLUMNS + c];
            largest = fmax(largest, product);
        }
        want += row * (0.5 * erfc(-largest / sqrt(2)) + largest * exp(-largest * largest / 2) / sqrt(2 * acos(-1)));
    }
    for (int i = 0; i < N; i++)
        sum += (double)got[0][i];
    ck_assert_msg(fabs(sum - want) <= 0.02 * fabs(want), "%g, expected %g", sum, want);
}
END_TEST

START_TEST(one_element_is_sliced_by_any_step)
{
    const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const yk_t in = yk_replicated(yk_input(job, YK_F32, 1, (const int64_t[]){8}, x));
    yk_read(yk_sum(yk_slice(in, 0, 1, 7, INT64_MAX), 1, false), got[0], sizeof(float));
    ck_assert_msg(got[0][0] == 2, "%g %s", (double)got[0][0], yk_error_text(job));
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("planned");
    tcase_add_checked_fixture(t, job_open, job_close);
    tcase_add_test(t, a_parameter_meets_its_product);
    tcase_add_test(t, a_parameter_meets_its_rows);
    tcase_add_test(t, two_products_meet_in_two_maps);
    tcase_add_test(t, attention_is_read_in_another_order);
    tcase_add_loop_test(t, a_maximum_finds_its_element, 0, 3);
    tcase_add_loop_test(t, a_maximum_is_found_in_a_block, 0, 3);
    tcase_add_test(t, one_element_is_sliced_by_any_step);
    return suite_run("planned", t);
}
