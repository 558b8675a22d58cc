/* SPDX-License-Identifier: Apache-2.0 */
/* States that a step assigns (yk_assign): values of the step read them as they were before it. */
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

int main(void)
{
    TCase *t = tcase_create("states");
    tcase_add_test(t, a_state_takes_the_old_value_of_another);
    return suite_run("states", t);
}
