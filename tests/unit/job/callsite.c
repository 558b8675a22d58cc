/* SPDX-License-Identifier: Apache-2.0 */
/* A late failure names the line of its operation: on the device, in planning, in numbers. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include <yoke/yoke.h>

#include "core/job/callsite.h"
#include "tests/support/refplugin.h"
#include "tests/support/run.h"

static yk_job *open_job(int checks)
{
    yk_error err = YK_ERROR_INIT;
    ref.checks = checks;
    ck_assert_msg(ref_register(&err) == YK_OK, "%s", err.text);
    yk_job *job = yk_open(&(yk_config){.devices = "ref", .quiet = true});
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    return job;
}

/* The error begins with the line, names the operation and says where it was noticed. */
static void expect_site(yk_job *job, int line, const char *operation, int noticed)
{
    const char *text = yk_error_text(job);
    char begin[64], end[64];
    snprintf(begin, sizeof begin, "callsite.c:%d: ", line);
    snprintf(end, sizeof end, "callsite.c:%d)", noticed);
    const char *at = strstr(text, begin);
    ck_assert_msg(at && strstr(at, operation) && strstr(at, "(noticed at ") && strstr(at, end), "expected %s%s .. %s: %s", begin, operation,
                  end, text);
    ck_assert_ptr_null(strstr(at + 1, begin));
    yk_close(job);
}

/* Not an input as it came, whose ids would be looked at on the host: the device is to find them. */
static yk_t computed_id(yk_job *job, int32_t id)
{
    const int64_t n = 1;
    const yk_t x = yk_input(job, YK_I32, 1, &n, &id);
    return yk_maximum(x, x);
}

/* A step that looks row `id` of a table of 4 up; the line of the look-up. */
static int look_up(yk_job *job, yk_t table, yk_opt *opt, int32_t id)
{
    const yk_t ids = computed_id(job, id);
    const int line = __LINE__ + 1;
    yk_t x = yk_embedding(ids, table, -1);
    yk_backward(yk_mean(yk_mul(x, x), 3, false));
    yk_step(opt);
    return line;
}

static yk_opt *make_table(yk_job *job, yk_t *table)
{
    const int64_t dim[2] = {4, 3};
    *table = yk_param(job, "table", 2, dim, (yk_init){YK_INIT_NORMAL, 0, 1});
    return yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
}

START_TEST(an_index_that_the_device_finds_names_the_look_up)
{
    yk_job *job = open_job(1);
    yk_t table;
    yk_opt *opt = make_table(job, &table);
    look_up(job, table, opt, 3);
    yk_sync(job);
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    const int line = look_up(job, table, opt, 4);
    yk_sync(job);
    const char *text = yk_error_text(job);
    char begin[64];
    snprintf(begin, sizeof begin, "callsite.c:%d: ", line);
    ck_assert_msg(strstr(text, begin) && strstr(text, "(gather): row 4 of a table of 4") && strstr(text, "(noticed at "), "%s", text);
    ck_assert_int_eq(yk_close(job), 2);
}
END_TEST

START_TEST(a_failure_of_the_step_before_names_its_line)
{
    yk_job *job = open_job(1);
    yk_t table;
    make_table(job, &table);
    const int64_t dim[1] = {1};
    const float one = 1;
    const yk_t ids = computed_id(job, 9);
    const int line = __LINE__ + 1;
    yk_t x = yk_neg(yk_embedding(ids, table, -1));
    yk_keep(x);
    yk_end(job); /* submitted; nobody has waited */
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    yk_t y = yk_input(job, YK_F32, 1, dim, &one);
    float row[3];
    const int noticed = __LINE__ + 1;
    yk_read(x, row, sizeof row);
    (void)y;
    expect_site(job, line, "(gather): row 9 of a table of 4", noticed);
}
END_TEST

START_TEST(what_only_planning_finds_names_its_line)
{
    yk_job *job = open_job(2);
    const int64_t dim[1] = {2};
    const float v[2] = {1, 2};
    yk_t x = yk_exp(yk_input(job, YK_F32, 1, dim, v));
    const int line = __LINE__ + 1;
    yk_t y = yk_log(yk_shift(x, 1));
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    const int noticed = __LINE__ + 1;
    yk_item(yk_sum(yk_neg(y), 1, false));
    expect_site(job, line, "this plugin has no logarithm", noticed);
}
END_TEST

START_TEST(the_first_value_that_is_no_number_names_its_operation)
{
    yk_job *job = open_job(0);
    const int64_t dim[1] = {2};
    const float v[2] = {1, -1};
    yk_t w = yk_param(job, "w", 1, dim, (yk_init){YK_INIT_ONES, 0, 0});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
    yk_t x = yk_mul(yk_input(job, YK_F32, 1, dim, v), w);
    const int line = __LINE__ + 1;
    yk_t y = yk_sqrt(x);
    yk_backward(yk_mean(yk_mul(yk_exp(y), y), 1, false));
    yk_step(opt);
    char where[64];
    snprintf(where, sizeof where, "callsite.c:%d", line);
    ck_assert_int_eq(yk_error_status(job), YK_E_NUMERIC);
    ck_assert_msg(strstr(yk_error_text(job), "that of sqrt, called at ") && strstr(yk_error_text(job), where), "%s", yk_error_text(job));
    ck_assert_msg(strstr(yk_error_text(job), "(f32[2] -> f32[2]) on ref:0 (reference)") != NULL, "%s", yk_error_text(job));
    yk_close(job);
}
END_TEST

START_TEST(a_gradient_that_is_no_number_blames_no_operation)
{
    yk_job *job = open_job(0);
    const int64_t dim[1] = {2};
    const float v[2] = {1, 0};
    yk_t w = yk_param(job, "w", 1, dim, (yk_init){YK_INIT_ONES, 0, 0});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
    yk_backward(yk_mean(yk_sqrt(yk_mul(yk_input(job, YK_F32, 1, dim, v), w)), 1, false)); /* its slope at 0 is infinite */
    yk_step(opt);
    ck_assert_int_eq(yk_error_status(job), YK_E_NUMERIC);
    ck_assert_msg(!strstr(yk_error_text(job), "called at"), "%s", yk_error_text(job));
    yk_close(job);
}
END_TEST

START_TEST(places_by_number)
{
    yk__call_sites s = {.now = {0}};
    for (uint32_t i = 1; i <= 100; i++)
        yk__call_sites_add(&s, i, "a.c", (int)i);
    yk__call_sites_clear(&s);
    yk__call_sites_add(&s, 1, "b.c", 7);
    yk__call_sites_add(&s, 2, NULL, 0);
    ck_assert_int_eq(yk__call_sites_find(&s, 1)->line, 7);
    ck_assert_ptr_null(yk__call_sites_find(&s, 2)); /* the caller did not say */
    ck_assert_str_eq(yk__call_sites_find(&s, 3)->file, "a.c");
    ck_assert_int_eq(yk__call_sites_find(&s, 100)->line, 100);
    ck_assert_ptr_null(yk__call_sites_find(&s, 101));
    ck_assert_ptr_null(yk__call_sites_find(&s, 0));
    yk__call_sites_add(&s, 4, "c.c", 9); /* one was lost: those that follow have no place, rather than a wrong one */
    ck_assert_str_eq(yk__call_sites_find(&s, 4)->file, "a.c");
    yk__call_sites_free(&s);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("callsite");
    tcase_add_test(t, an_index_that_the_device_finds_names_the_look_up);
    tcase_add_test(t, a_failure_of_the_step_before_names_its_line);
    tcase_add_test(t, what_only_planning_finds_names_its_line);
    tcase_add_test(t, the_first_value_that_is_no_number_names_its_operation);
    tcase_add_test(t, a_gradient_that_is_no_number_blames_no_operation);
    tcase_add_test(t, places_by_number);
    return suite_run("callsite", t);
}
