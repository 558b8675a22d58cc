/* SPDX-License-Identifier: Apache-2.0 */
/* PowerSGD's products: what has the rank comes back whole, columns are orthonormal, and errors bring what was left out. */
#include "core/run/ways/powersgd_math.h"

#include <check.h>
#include <math.h>
#include <string.h>

#include "tests/support/run.h"

enum { ROWS = 37, COLS = 23, MOST = 4 };

static const yk__power_shape shape = {ROWS, COLS, MOST};
static float m[ROWS * COLS], was[ROWS * COLS], error[ROWS * COLS], left[ROWS * MOST], right[COLS * MOST];

/* A sum of so many products of a column and a row. */
static void fill_matrix(int rank)
{
    memset(m, 0, sizeof m);
    for (int k = 0; k < rank; k++)
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLS; j++)
                m[i * COLS + j] += (float)(sin(1.0 + i * (k + 1.3)) * cos(0.7 * j * (k + 1) + k));
    memcpy(was, m, sizeof m);
}

static void run_step(void)
{
    yk__power_fill(&shape, 3, right);
    yk__power_left(&shape, m, right, left);
    yk__power_orthonormal(&shape, left);
    yk__power_right(&shape, m, left, right);
    yk__power_restore(&shape, left, right, 1.0f, m, error);
}

static double find_distance(const float *a, const float *b)
{
    double sum = 0, all = 0;
    for (int i = 0; i < ROWS * COLS; i++) {
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        all += (double)b[i] * (double)b[i];
    }
    return sqrt(sum / all);
}

START_TEST(what_has_the_rank_comes_back)
{
    memset(right, 0, sizeof right);
    fill_matrix(_i);
    run_step();
    ck_assert_msg(find_distance(m, was) < 1e-5, "a matrix of rank %d is off by %g", _i, find_distance(m, was));
}
END_TEST

START_TEST(columns_are_orthonormal)
{
    fill_matrix(9);
    memset(right, 0, sizeof right);
    run_step();
    for (int a = 0; a < MOST; a++)
        for (int b = 0; b <= a; b++) {
            double sum = 0;
            for (int i = 0; i < ROWS; i++)
                sum += (double)left[i * MOST + a] * (double)left[i * MOST + b];
            ck_assert_msg(fabs(sum - (a == b)) < 1e-5, "columns %d and %d: %g", a, b, sum);
        }
}
END_TEST

/* Of rank 9 a step of rank 4 leaves out much; with errors the mean over steps comes to all of it, without it does not. */
START_TEST(errors_bring_what_was_left_out)
{
    enum { STEPS = 60 };
    for (int feedback = 0; feedback < 2; feedback++) {
        static float sum[ROWS * COLS];
        double off;
        memset(sum, 0, sizeof sum);
        memset(right, 0, sizeof right);
        memset(error, 0, sizeof error);
        for (int s = 0; s < STEPS; s++) {
            fill_matrix(9);
            for (int i = 0; i < ROWS * COLS && feedback; i++)
                m[i] += error[i];
            run_step();
            for (int i = 0; i < ROWS * COLS; i++)
                sum[i] += m[i] / STEPS;
        }
        off = find_distance(sum, was);
        ck_assert_msg(feedback ? off < 0.1 : off > 0.2, "%s feedback: off by %g", feedback ? "with" : "without", off);
    }
}
END_TEST

START_TEST(a_gradient_of_zeros_is_no_end)
{
    memset(right, 0, sizeof right);
    memset(m, 0, sizeof m);
    run_step();
    for (int i = 0; i < ROWS * COLS; i++)
        ck_assert(m[i] == 0.0f && error[i] == 0.0f);
    fill_matrix(2);
    run_step();
    ck_assert_msg(find_distance(m, was) < 1e-5, "after zeros off by %g", find_distance(m, was));
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("power");
    tcase_add_loop_test(t, what_has_the_rank_comes_back, 1, MOST + 1);
    tcase_add_test(t, columns_are_orthonormal);
    tcase_add_test(t, errors_bring_what_was_left_out);
    tcase_add_test(t, a_gradient_of_zeros_is_no_end);
    return suite_run("power", t);
}
