/* SPDX-License-Identifier: Apache-2.0 */
/* States that a step assigns (yk_assign): values of the step read them as they were before it. */
#include <stdlib.h>

#include <yoke/yoke.h>

#include "tests/support/run.h"

START_TEST(a_state_takes_the_old_value_of_another)
{
    const int64_t dim[2] = {2, 3}, transposed[2] = {3, 2};
    const uint32_t axis[2] = {1, 0};
    float was[6] = {1, 2, 3, 4, 5, 6}, a[6], b[6], c[6];
    yk_job *job = yk_open(&(yk_config){.devices = "cpu:0", .quiet = true});
    yk_t x = yk_state(job, "x", YK_F32, 2, dim, 0), y = yk_state(job, "y", YK_F32, 2, dim, 7);
    yk_t z = yk_state(job, "z", YK_F32, 2, transposed, 0);
    yk_assign(x, yk_input(job, YK_F32, 2, dim, was));
    yk_end(job);
    for (int step = 0; step < 3; step++) {
        float old[6];
        yk_read(x, old, sizeof old);
        yk_read(y, b, sizeof b);
        /* made in the step; swapped; the last one */
        yk_assign(step == 2 ? y : x, step == 0 ? yk_add(x, x) : step == 1 ? y : yk_scale(x, 3));
        if (step < 2)
            yk_assign(y, x);
        yk_assign(z, yk_permute(x, axis));
        yk_end(job);
        yk_read(x, a, sizeof a);
        yk_read(y, c, sizeof c);
        for (int i = 0; i < 6; i++) {
            ck_assert_float_eq(a[i], step == 0 ? 2 * old[i] : step == 1 ? b[i] : old[i]);
            ck_assert_float_eq(c[i], step == 2 ? 3 * old[i] : old[i]);
        }
        yk_read(z, c, sizeof c);
        for (int i = 0; i < 6; i++)
            ck_assert_float_eq(c[i], old[i % 2 * 3 + i / 2]);
        yk_end(job);
    }
    ck_assert_int_eq(yk_close(job), 0);
}
END_TEST

/* A node that reads a part of a state for each of its elements, such as s * s[0:1], must not write the state meanwhile. */
START_TEST(a_state_is_made_from_a_part_of_itself)
{
    enum { ROWS = 3, WIDTH = 1500 };
    const int64_t dim[2] = {ROWS, WIDTH};
    const uint32_t axis = (uint32_t)_i % 2;
    const bool quotient = _i / 2;
    float *was = malloc(ROWS * WIDTH * sizeof *was), *is = malloc(ROWS * WIDTH * sizeof *is);
    yk_job *job = yk_open(&(yk_config){.devices = "cpu:0", .quiet = true});
    yk_t s = yk_state(job, "s", YK_F32, 2, dim, 0);
    for (int i = 0; i < ROWS * WIDTH; i++)
        was[i] = (float)(2 + i % 5);
    yk_assign(s, yk_input(job, YK_F32, 2, dim, was));
    yk_end(job);
    yk_assign(s, quotient ? yk_div(s, yk_slice(s, axis, 0, 1, 1)) : yk_mul(s, yk_slice(s, axis, 0, 1, 1)));
    yk_end(job);
    yk_read(s, is, ROWS * WIDTH * sizeof *is);
    for (int i = 0; i < ROWS * WIDTH; i++) {
        const float part = was[axis ? i / WIDTH * WIDTH : i % WIDTH];
        ck_assert_float_eq_tol(is[i], quotient ? was[i] / part : was[i] * part, 1e-5f);
    }
    yk_end(job);
    ck_assert_int_eq(yk_close(job), 0);
    free(was);
    free(is);
}
END_TEST

/* A read runs the part of the step that is traced so far, and later values of the step read the old state nevertheless. */
START_TEST(a_read_in_the_step_assigns_nothing)
{
    const float one = 1;
    yk_job *job = yk_open(&(yk_config){.devices = "cpu:0", .quiet = true});
    yk_t s = yk_state(job, "s", YK_F32, 0, NULL, 1);
    yk_t w = yk_param(job, "w", 0, NULL, (yk_init){.kind = YK_INIT_ONES});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 1});
    float value;
    yk_assign(s, yk_shift(s, 1));
    ck_assert_float_eq(yk_item(yk_scale(s, 10)), 10);
    ck_assert_float_eq(yk_item(yk_scale(s, 100)), 100);
    yk_end(job);
    ck_assert_float_eq(yk_item(yk_scale(s, 1)), 2);
    yk_end(job);
    /* the gradient of w is the old s */
    yk_t loss = yk_mul(yk_mul(w, s), yk_input(job, YK_F32, 0, NULL, &one));
    yk_assign(s, yk_shift(s, 1));
    ck_assert_float_eq(yk_item(yk_scale(s, 10)), 20);
    yk_backward(loss);
    yk_step(opt);
    yk_read(w, &value, sizeof value);
    ck_assert_float_eq(value, 1 - 2);
    yk_read(s, &value, sizeof value);
    ck_assert_float_eq(value, 3);
    ck_assert_int_eq(yk_close(job), 0);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("states");
    tcase_add_test(t, a_state_takes_the_old_value_of_another);
    tcase_add_loop_test(t, a_state_is_made_from_a_part_of_itself, 0, 4);
    tcase_add_test(t, a_read_in_the_step_assigns_nothing);
    return suite_run("states", t);
}
