/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Public bug reports of other trainers, in programs of ours: sums over many rows, and over two ranks parameters that only some micro
 * batches use (on one rank: tests/unit/job/sampler.c).
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/run.h"
#include <yoke/yoke.h>

/* ---- Sums over many rows ---- */

/* loss = mean of 0.3 (x W' + b). The gradient of each number of b is 0.1, whatever x is. The mean of equal numbers is one of them. */
static void sums_check(const char *devices, int64_t n)
{
    const int64_t dim[2] = {n, 2};
    yk_job *job = yk_open(&(yk_config){.devices = devices, .quiet = true});
    if (!yk_ok(job) && strncmp(devices, "cpu", 3)) {
        printf("# skipped: %s: %s\n", devices, yk_error_text(job));
        yk_close(job);
        return;
    }
    float *x = malloc((size_t)n * 2 * sizeof *x), g[3] = {0};
    for (int64_t i = 0; i < n * 2; i++)
        x[i] = 9991;
    yk_t w = yk_param(job, "w", 2, (const int64_t[]){3, 2}, (yk_init){YK_INIT_ONES, 0, 0});
    yk_t b = yk_param(job, "b", 1, (const int64_t[]){3}, (yk_init){YK_INIT_ZEROS, 0, 0});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 1e-3});
    yk_set_lr(opt, 0);
    yk_t in = yk_input(job, YK_F32, 2, dim, x), mean = yk_keep(yk_mean(in, 3, false));
    yk_backward(yk_mean(yk_scale(yk_linear(in, w, b), 0.3f), 3, false));
    yk_step(opt);
    yk_grad_read(b, g, 3);
    const double bias = fabs((double)g[0] / 0.1 - 1), same = fabs(yk_item(mean) / 9991.0 - 1);
    ck_assert_msg(yk_ok(job), "%s: %s", devices, yk_error_text(job));
    ck_assert_msg(bias <= 2e-6 && same <= 2e-6, "%s, %lld rows: relative errors %.2g of a bias gradient, %.2g of a mean", devices,
                  (long long)n, bias, same);
    free(x);
    ck_assert_int_eq(yk_close(job), 0);
}

START_TEST(sums_of_many_rows)
{
    sums_check("cpu:0", 60000);
    sums_check("cpu:0", 2000000);
    sums_check("opencl:0@0", 60000);
}
END_TEST

/* ---- Parameters that only some micro batches use ---- */

/* Two micro batches a step: a and b are used by every other one, c never. AdamW's values after six micro batches are PyTorch 2.15's. */
static int now_and_then(void *argument)
{
    const char *devices = argument;
    const yk_init one = {YK_INIT_ONES, 0, 0};
    const int64_t dim[1] = {1};
    float v[3] = {0};
    yk_job *job = yk_open(&(yk_config){.accumulate = 2, .quiet = true, .devices = devices});
    yk_t a = yk_param(job, "a", 1, dim, one), b = yk_param(job, "b", 1, dim, one), c = yk_param(job, "c", 1, dim, one);
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.1, .weight_decay = 0.1});
    for (int step = 0; step < 6; step++) {
        uint64_t first, n;
        float x[4];
        int32_t row[4];
        yk_split(job, 4, &first, &n);
        for (uint64_t i = 0; i < n; i++) {
            row[i] = (int32_t)(first + i);
            x[i] = (float)(first + i + 1) * (step % 2 ? 1 : 2);
        }
        const int64_t rows = (int64_t)n;
        yk_set_rows(job, rows, row, 4);
        yk_backward(yk_mean(yk_mul(yk_input(job, YK_F32, 1, &rows, x), step % 2 ? b : a), 1, false));
        yk_step(opt);
    }
    yk_param_read(a, &v[0], 1);
    yk_param_read(b, &v[1], 1);
    yk_param_read(c, &v[2], 1);
    const bool right = yk_ok(job) && fabsf(v[0] - 0.673289f) < 1e-6f && fabsf(v[1] - 0.673289f) < 1e-6f && v[2] == 1;
    if (!right)
        fprintf(stderr, "# %s: a %.7f b %.7f c %.7f %s\n", devices, v[0], v[1], v[2], yk_error_text(job));
    return yk_close(job) || !right ? 9 : 0;
}

START_TEST(parameters_used_now_and_then)
{
    char *const devices = "cpu:0 cpu:0";
    ck_assert_int_eq(yk_launch_ranks(2, devices, now_and_then, devices), 0);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("reported");
    tcase_add_test(t, sums_of_many_rows);
    tcase_add_test(t, parameters_used_now_and_then);
    return suite_run("job_reported", t);
}
