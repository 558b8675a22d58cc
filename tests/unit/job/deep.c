/* SPDX-License-Identifier: Apache-2.0 */
/* Nets of very many elementwise operations, like the trace of a loop over time steps, layers or parameters. */
#include <check.h>
#include <math.h>

#include "core/job/job.h"
#include "tests/support/run.h"

enum { ROWS = 2, COLS = 3, N = ROWS * COLS };

static const float numbers[N] = {1, 2, 3, 4, 5, 6};

static yk_job *open_job(void)
{
    yk_job *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true});
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    return job;
}

static yk_t input_numbers(yk_job *job)
{
    return yk_input(job, YK_F32, 2, (int64_t[]){ROWS, COLS}, numbers);
}

static yk_t param_ones(yk_job *job)
{
    return yk_param(job, "weight", 1, (int64_t[]){COLS}, (yk_init){YK_INIT_ONES, 0, 0});
}

static void close_job(yk_job *job)
{
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 0);
}

/* h <- h * sigmoid(h * w): two ways from each value to the one before, 2^80 from the last to the first. */
static yk_t gate_often(yk_t h, yk_t w, int times)
{
    for (int i = 0; i < times; i++)
        h = yk_mul(h, yk_sigmoid(yk_mul(h, w)));
    return yk_mean(h, 3, false);
}

static double gated_mean(int times)
{
    double sum = 0;
    for (int i = 0; i < N; i++) {
        double h = numbers[i];
        for (int k = 0; k < times; k++)
            h /= 1 + exp(-h);
        sum += h / N;
    }
    return sum;
}

START_TEST(every_value_is_read_twice)
{
    static const int times[] = {1, 7, 8, 9, 16, 17, 80};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        const double want = gated_mean(times[i]);
        yk_job *job = open_job();
        yk_t w = param_ones(job);
        yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = YK_ZERO});
        yk_backward(gate_often(input_numbers(job), w, times[i]));
        yk_step(opt);
        ck_assert_double_eq_tol(yk_step_loss(opt), want, 1e-5 * want);
        yk_train(job, false);
        ck_assert_double_eq_tol(yk_item(gate_often(input_numbers(job), w, times[i])), want, 1e-5 * want);
        close_job(job);
    }
}
END_TEST

/* The mean of (x + w + times / 2)^2, and of its slope. */
START_TEST(a_long_chain_that_only_a_mean_reads)
{
    static const int times[] = {14, 15, 16, 17, 18, 60, 199, 200, 201, 1000};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        double want = 0, slope = 0;
        float gradient[COLS];
        yk_job *job = open_job();
        yk_t w = param_ones(job), h = yk_add(input_numbers(job), w);
        yk_opt *opt = yk_sgd(job, NULL);
        for (int k = 0; k < times[i]; k++)
            h = yk_shift(h, 0.5f);
        for (int k = 0; k < N; k++) {
            const double y = numbers[k] + 1 + 0.5 * times[i];
            want += y * y / N;
            slope += k % COLS ? 0 : 2 * y / N;
        }
        yk_backward(yk_mean(yk_mul(h, h), 3, false));
        yk_step(opt);
        ck_assert_double_eq_tol(yk_step_loss(opt), want, 1e-4 * want);
        yk_grad_read(w, gradient, COLS);
        ck_assert_double_eq_tol(gradient[0], slope, 1e-4 * slope);
        close_job(job);
    }
}
END_TEST

/* An average over time steps, evaluated: each of its steps is three operations. */
START_TEST(an_average_over_many_steps)
{
    double want = 0;
    yk_job *job = open_job();
    yk_t in = input_numbers(job), h = yk_scale(in, 0);
    for (int k = 0; k < 300; k++)
        h = yk_add(yk_scale(h, 0.9f), yk_scale(in, 0.1f));
    for (int i = 0; i < N; i++)
        want += numbers[i] * (1 - pow(0.9, 300)) / N;
    yk_train(job, false);
    ck_assert_double_eq_tol(yk_item(yk_mean(h, 3, false)), want, 1e-4);
    close_job(job);
}
END_TEST

START_TEST(one_parameter_many_times)
{
    float gradient[COLS];
    yk_job *job = open_job();
    yk_t w = param_ones(job), h = input_numbers(job);
    yk_opt *opt = yk_sgd(job, NULL);
    for (int k = 0; k < 1000; k++)
        h = yk_add(h, w);
    yk_backward(yk_mean(h, 3, false));
    yk_step(opt);
    ck_assert_double_eq_tol(yk_step_loss(opt), 3.5 + 1000, 1e-2);
    yk_grad_read(w, gradient, COLS);
    for (int k = 0; k < COLS; k++)
        ck_assert_double_eq_tol(gradient[k], 1000.0 / COLS, 1e-3);
    close_job(job);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("deep");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, every_value_is_read_twice);
    tcase_add_test(t, a_long_chain_that_only_a_mean_reads);
    tcase_add_test(t, an_average_over_many_steps);
    tcase_add_test(t, one_parameter_many_times);
    return suite_run("deep", t);
}
