/* SPDX-License-Identifier: Apache-2.0 */
/* A training step and a checkpoint in which the n-th allocation fails, for every n: an error, never a crash. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/job/job.h"

static char dir[] = "/tmp/yoke-memory-XXXXXX";

static void one_step(yk_job *job, yk_t w, yk_t b, yk_opt *opt)
{
    const int64_t xd[2] = {4, 3}, yd = 4;
    const float x[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    const int32_t y[4] = {0, 1, -100, 1};
    yk_t h = yk_layer_norm(yk_input(job, YK_F32, 2, xd, x), YK_NO, YK_NO, 1e-5f);
    yk_t loss = yk_cross_entropy(yk_dropout(yk_linear(h, w, b), 0.1f), yk_input(job, YK_I32, 1, &yd, y));
    yk_backward(loss);
    yk_step(opt);
    yk_item(loss);
}

/* Whether all went well with the n-th allocation failing. */
static bool attempt(long n)
{
    const int64_t wd[2] = {2, 3}, bd = 2;
    yk_job *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true});
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    yk__mem_fail_after(n);
    yk_t w = yk_param(job, "w", 2, wd, (yk_init){YK_INIT_NORMAL, 0, 1}), b = yk_param(job, "b", 1, &bd, (yk_init){0});
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.1});
    for (int i = 0; i < 2 && yk_ok(job); i++)
        one_step(job, w, b, opt);
    yk_save(job, dir);
    yk__mem_fail_after(-1);
    bool ok = yk_ok(job);
    if (!ok)
        ck_assert_msg(yk_error_status(job) == YK_E_MEM, "allocation %ld: %s", n, yk_error_text(job));
    ck_assert_int_eq(yk_close(job), ok ? 0 : 1);
    return ok;
}

START_TEST(every_allocation)
{
    long n = 0;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    fclose(stderr); /* each failure is told there */
    while (n < 20000 && !attempt(n))
        n++;
    ck_assert_int_gt(n, 50);
    ck_assert_int_lt(n, 20000);
    char cmd[96];
    snprintf(cmd, sizeof cmd, "rm -rf %s %s.tmp %s.old", dir, dir, dir);
    ck_assert_int_eq(system(cmd), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("job_memory");
    TCase *t = tcase_create("memory");
    tcase_add_test(t, every_allocation);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_set_tap(r, "-");
    srunner_run_all(r, CK_SILENT);
    srunner_free(r);
    return 0;
}
