/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules and loss scaling against the golden tables; optimizer settings and hyper vectors. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "core/io/json.h"
#include "core/nn/optim.h"
#include "core/nn/scaler.h"
#include "core/nn/sched.h"
#include "tests/unit/suite.h"

static json_t *golden(const char *name)
{
    json_t *j = NULL;
    yk_error err = YK_ERROR_INIT;
    if (suite_there("golden"))
        ck_assert_msg(yk__json_load(suite_path("golden", name), 0, &j, &err) == YK_OK, "%s", err.text);
    return j;
}

/* {"a": 1, "b": [2, 3]} as "a=1,b=2+3". */
static void params_text(json_t *params, char *text, size_t n)
{
    const char *key;
    json_t *v;
    size_t at = 0;
    text[0] = 0;
    json_object_foreach(params, key, v) {
        at += (size_t)snprintf(text + at, n - at, "%s%s=", at ? "," : "", key);
        if (json_is_array(v))
            for (size_t i = 0; i < json_array_size(v); i++)
                at += (size_t)snprintf(text + at, n - at, "%s%.17g", i ? "+" : "", json_number_value(json_array_get(v, i)));
        else if (json_is_string(v))
            at += (size_t)snprintf(text + at, n - at, "%s", json_string_value(v));
        else if (json_is_boolean(v) || json_is_null(v))
            at += (size_t)snprintf(text + at, n - at, "%s", json_is_true(v) ? "true" : json_is_null(v) ? "null" : "false");
        else
            at += (size_t)snprintf(text + at, n - at, "%.17g", json_number_value(v));
    }
}

static double off(double got, double want)
{
    return want == 0.0 ? fabs(got) : fabs(got - want) / fabs(want);
}

START_TEST(schedules)
{
    json_t *j = golden("schedules.json"), *c;
    size_t i, n = 0;
    if (!j)
        return;
    json_array_foreach(json_object_get(j, "cases"), i, c) {
        const char *name = json_string_value(json_object_get(c, "name"));
        json_t *lr = json_object_get(c, "lr"), *mom = json_object_get(c, "momentum"), *metrics = json_object_get(c, "metrics");
        char text[2048];
        yk_error err = YK_ERROR_INIT;
        yk__sched *s = NULL;
        params_text(json_object_get(c, "params"), text, sizeof text);
        yk__sched_new(json_string_value(json_object_get(c, "type")), 0, 0, text,
                      json_number_value(json_object_get(c, "base_lr")), &s, &err);
        ck_assert_msg(err.status == YK_OK, "%s: %s", name, err.text);
        for (size_t k = 0; k < json_array_size(lr); k++) {
            double got, m;
            yk__sched_at(s, k, &got, &m);
            double want = json_number_value(json_array_get(lr, k));
            ck_assert_msg(off(got, want) <= 1e-12, "%s step %zu: %.17g, not %.17g", name, k, got, want);
            if (mom) {
                want = json_number_value(json_array_get(mom, k));
                ck_assert_msg(off(m, want) <= 1e-12, "%s step %zu: momentum %.17g, not %.17g", name, k, m, want);
            }
            if (metrics && k < json_array_size(metrics))
                yk__sched_metric(s, json_number_value(json_array_get(metrics, k)));
        }
        yk__sched_free(s);
        n++;
    }
    ck_assert_uint_ge(n, 48);
    json_decref(j);
}
END_TEST

START_TEST(schedule_refusals)
{
    static const char *const bad[][3] = {{"cosin", "", "cosin"},
                                         {"cosine", "num_cycle=1", "num_cycle"},
                                         {"cosine", "num_cycles=x", "num_cycles=x"},
                                         {"cosine", "num_cycles", "key=value"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        yk_error err = YK_ERROR_INIT;
        yk__sched *s = NULL;
        ck_assert_int_eq(yk__sched_new(bad[i][0], 1, 10, bad[i][1], 0.1, &s, &err), YK_E_ARG);
        ck_assert_ptr_nonnull(strstr(err.text, bad[i][2]));
        ck_assert_ptr_null(s);
    }
}
END_TEST

static bool overflows(json_t *runs, int64_t step)
{
    size_t i;
    json_t *r;
    json_array_foreach(runs, i, r) {
        int64_t from = json_integer_value(json_array_get(r, 0));
        if (step >= from && step < from + json_integer_value(json_array_get(r, 1)))
            return true;
    }
    return false;
}

static double setting(json_t *s, const char *a, const char *b)
{
    json_t *v = json_object_get(s, a);
    return json_number_value(v ? v : json_object_get(s, b));
}

static void make_scaler(json_t *run, yk__scaler *s)
{
    json_t *set = json_object_get(run, "settings");
    const char *rule = json_string_value(json_object_get(run, "rule"));
    yk__scaler_init(s, !strcmp(rule, "torch") ? YK_SCALER_TORCH : !strcmp(rule, "deepspeed") ? YK_SCALER_DEEPSPEED : YK_SCALER_MEGATRON,
                    setting(set, "init_scale", ""), setting(set, "growth_factor", ""), setting(set, "backoff_factor", ""),
                    setting(set, "min_scale", ""), (uint32_t)setting(set, "growth_interval", "scale_window"),
                    (uint32_t)setting(set, "hysteresis", ""));
    s->consecutive = json_is_true(json_object_get(set, "consecutive_hysteresis"));
    s->stay_at_floor = json_is_false(json_object_get(set, "raise_at_floor"));
}

START_TEST(loss_scaling)
{
    json_t *j = golden("loss_scale.json"), *run;
    size_t i, n = 0;
    if (!j)
        return;
    int64_t steps = json_integer_value(json_object_get(j, "steps"));
    json_array_foreach(json_object_get(j, "runs"), i, run) {
        yk__scaler s;
        json_t *runs = json_object_get(json_object_get(j, "sequences"), json_string_value(json_object_get(run, "sequence")));
        json_t *changes = json_object_get(run, "changes"), *raises = json_object_get(run, "raises_at");
        int64_t at = 0, raised = -1;
        make_scaler(run, &s);
        for (int64_t k = 0; k < steps && raised < 0; k++) {
            double before = s.scale;
            if (!yk__scaler_update(&s, overflows(runs, k))) {
                raised = k;
                break;
            }
            if (s.scale != before) {
                json_t *c = json_array_get(changes, (size_t)at++);
                ck_assert_msg(c && json_integer_value(json_array_get(c, 0)) == k &&
                                  json_number_value(json_array_get(c, 1)) == s.scale,
                              "run %zu step %lld: scale %g", i, (long long)k, s.scale);
            }
        }
        ck_assert_msg(at == (int64_t)json_array_size(changes), "run %zu: %lld changes", i, (long long)at);
        ck_assert_msg(json_is_null(raises) ? raised < 0 : raised == json_integer_value(raises), "run %zu raised at %lld", i,
                      (long long)raised);
        ck_assert(json_number_value(json_object_get(json_object_get(run, "end"), "scale")) == s.scale);
        n++;
    }
    ck_assert_uint_eq(n, 160);
    json_decref(j);
}
END_TEST

START_TEST(hyper)
{
    const yk__optim adam = {YK_OPT_ADAM, 0, 0.9, 0.999, 1e-8};
    float h[YK_HYPER_COUNT];
    yk__optim_hyper(&adam, 0.1, 0.01, 3, h);
    ck_assert_float_eq_tol(h[YK_HYPER_C1], 1.0f - 0.9f * 0.9f * 0.9f, 1e-6f);
    ck_assert_float_eq_tol(h[YK_HYPER_SQRT_C2], (float)sqrt(1.0 - pow((double)0.999f, 3)), 1e-8f);
    ck_assert_float_eq(h[YK_HYPER_FIRST], 0.0f);
    ck_assert_float_eq(h[YK_HYPER_DECAY], 0.01f);
}
END_TEST

START_TEST(optimizer_refusals)
{
    yk_error err = YK_ERROR_INIT;
    ck_assert_int_eq(yk__optim_check(&(yk__optim){YK_OPT_ADAM, 0, 1.0, 0.9, 0.0}, 0.1, 0.0, &err), YK_E_ARG);
    ck_assert_int_eq(yk__optim_check(&(yk__optim){YK_OPT_SGD, YK_OPT_NESTEROV, 0.0, 0.0, 0.0}, 0.1, 0.0, &err), YK_E_ARG);
    ck_assert_int_eq(yk__optim_check(&(yk__optim){YK_OPT_SGD, 0, 0.0, 0.0, 0.0}, (double)NAN, 0.0, &err), YK_E_ARG);
    ck_assert_int_eq(yk__optim_check(&(yk__optim){YK_OPT_SGD, 0, 0.9, 0.0, 0.0}, 0.1, 0.1, &err), YK_OK);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("nn_tables");
    TCase *t = tcase_create("nn");
    tcase_add_test(t, schedules);
    tcase_add_test(t, schedule_refusals);
    tcase_add_test(t, loss_scaling);
    tcase_add_test(t, hyper);
    tcase_add_test(t, optimizer_refusals);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_set_tap(r, "-");
    srunner_run_all(r, CK_SILENT);
    srunner_free(r);
    return 0;
}
