/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules and loss scaling against the golden tables; optimizer settings and hyper vectors. */
#include <check.h>
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "core/io/json.h"
#include "core/nn/optim.h"
#include "core/nn/scaler.h"
#include "core/nn/sched.h"
#include "tests/support/suite.h"

static json_t *golden_table(const char *name)
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

static double relative_error(double got, double want)
{
    return want == 0.0 ? fabs(got) : fabs(got - want) / fabs(want);
}

START_TEST(schedules_equal_the_golden_table)
{
    json_t *j = golden_table("schedules.json"), *c;
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
            ck_assert_msg(relative_error(got, want) <= 1e-12, "%s step %zu: %.17g, not %.17g", name, k, got, want);
            if (mom) {
                want = json_number_value(json_array_get(mom, k));
                ck_assert_msg(relative_error(m, want) <= 1e-12, "%s step %zu: momentum %.17g, not %.17g", name, k, m, want);
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
                                         {"cosine", "num_cycles=x", "num_cycles=x"}, {"WarmupLR", "warmup_type= log", "one of log"},
                                         {"cosine", "num_cycles", "key=value"}, {"cosine", " num_cycles=1", " num_cycles"},
                                         {"cosine", "num_cycles=1e300", "num_cycles=1e300: expected a number from 0"},
                                         {"cosine", "num_cycles=-1", "num_cycles=-1: expected"},
                                         {"linear", "num_warmup_steps=-3", "num_warmup_steps=-3: expected"},
                                         {"cosine_with_min_lr", "min_lr=0.2", "min_lr=0.2: expected a number from 0 and at most 0.1"},
                                         {"cosine_with_min_lr", "min_lr=0.01,min_lr_rate=0.1", "give one of them"},
                                         {"polynomial", "lr_end=0.2", "lr_end=0.2: expected a number from 0 and at most 0.1"},
                                         {"polynomial", "lr_end=0.1", "must be below the learning rate, 0.1"},
                                         {"polynomial", "power=0", "power=0: expected a number above 0"},
                                         {"inverse_sqrt", "timescale=0", "timescale=0: expected a number above 0"},
                                         {"warmup_stable_decay", "num_decay_steps=-1", "num_decay_steps=-1: expected"},
                                         {"warmup_stable_decay", "warmup_type=log", "warmup_type=log: expected one of linear"},
                                         {"warmup_stable_decay", "decay_type=", "decay_type=: expected one of"}, {"StepLR", "=5", "\"\""},
                                         {"StepLR", "step_size=0", "step_size=0: expected a whole number from 1"},
                                         {"StepLR", "step_size=2.5", "expected a whole number"},
                                         {"MultiStepLR", "milestones=3+x", "milestones=3+x: expected numbers of steps"},
                                         {"MultiStepLR", "milestones=3+", "expected numbers of steps"},
                                         {"CosineAnnealingLR", "T_max=0", "T_max=0: expected a number from 1"},
                                         {"CosineAnnealingWarmRestarts", "T_0=1,T_mult=0", "T_mult=0: expected a whole number from 1"},
                                         {"CosineAnnealingWarmRestarts", "T_0=1,T_mult=0.5", "T_mult=0.5: expected"},
                                         {"CosineAnnealingWarmRestarts", "T_0=-1,T_mult=2", "T_0=-1: expected"},
                                         {"CosineAnnealingWarmRestarts", "T_0=0", "T_0=0: expected"},
                                         {"LinearLR", "total_iters=0", "total_iters=0: expected"},
                                         {"LinearLR", "start_factor=0", "start_factor=0: expected"},
                                         {"PolynomialLR", "total_iters=0", "total_iters=0: expected"},
                                         {"OneCycleLR", "pct_start=1.5", "pct_start=1.5: expected"},
                                         {"OneCycleLR", "anneal_strategy=log", "expected one of cos linear"},
                                         {"OneCycleLR", "three_phase=maybe", "expected true or false"},
                                         {"ReduceLROnPlateau", "factor=1", "factor=1: expected"},
                                         {"reduce_lr_on_plateau", "mode=least", "expected one of min max"},
                                         {"WarmupLR", "warmup_type=foo", "warmup_type=foo: expected one of log linear"},
                                         {"WarmupLR", "warmup_num_steps=-7", "warmup_num_steps=-7: expected"},
                                         {"LRRangeTest", "lr_range_test_step_size=0", "expected a whole number from 1"},
                                         {"OneCycle", "cycle_first_step_size=0", "expected a whole number from 1"},
                                         {"constant", NULL, "schedule constant has no warm-up, and 1 steps of it are asked for"},
                                         {"StepLR", NULL, "schedule StepLR has no warm-up"},
                                         {"MultiStepLR", "milestones=3", "has no warm-up"},
                                         {"ExponentialLR", NULL, "has no warm-up"},
                                         {"CosineAnnealingLR", NULL, "has no warm-up"},
                                         {"CosineAnnealingWarmRestarts", NULL, "has no warm-up"},
                                         {"LinearLR", NULL, "has no warm-up"},
                                         {"PolynomialLR", NULL, "has no warm-up"},
                                         {"OneCycleLR", NULL, "has no warm-up"},
                                         {"reduce_lr_on_plateau", NULL, "has no warm-up"},
                                         {"LRRangeTest", NULL, "has no warm-up"},
                                         {"OneCycle", NULL, "has no warm-up"},
                                         {"linear", "num_warmup_steps=2", "num_warmup_steps=2 beside 1 warm-up steps"},
                                         {"WarmupLR", "warmup_num_steps=2", "warmup_num_steps=2 beside 1 warm-up steps"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        yk_error err = YK_ERROR_INIT;
        yk__sched *s = NULL;
        ck_assert_int_eq(yk__sched_new(bad[i][0], 1, 10, bad[i][1], 0.1, &s, &err), YK_E_ARG);
        ck_assert_msg(strstr(err.text, bad[i][2]), "%s", err.text);
        ck_assert_ptr_null(s);
    }
}
END_TEST

/* Settings without a default in transformers, PyTorch or DeepSpeed. A run of unknown length supplies no number of steps either. */
START_TEST(a_schedule_names_the_setting_that_it_lacks)
{
    static const struct {
        const char *name, *params;
        double total;
        const char *missing;
    } lacks[] = {
        {"cosine_with_min_lr", "", 10, "min_lr|min_lr_rate"}, {"cosine_warmup_with_min_lr", "num_cycles=1", 10, "min_lr|min_lr_rate"},
        {"warmup_stable_decay", "", 10, "num_decay_steps"},   {"warmup_stable_decay", "num_decay_steps=null", 10, "num_decay_steps"},
        {"StepLR", "gamma=0.5", 10, "step_size"},             {"MultiStepLR", "", 10, "milestones"},
        {"torch_multistep", "gamma=0.5", 10, "milestones"},   {"ExponentialLR", "", 10, "gamma"},
        {"CosineAnnealingWarmRestarts", "", 10, "T_0"},       {"OneCycle", "", 10, "cycle_min_lr"},
        {"linear", "", 0, "num_training_steps"},              {"cosine", "", 0, "num_training_steps"},
        {"polynomial", "", 0, "num_training_steps"},          {"CosineAnnealingLR", "", 0, "T_max"},
        {"OneCycleLR", "max_lr=1", 0, "total_steps"},         {"WarmupDecayLR", "", 0, "total_num_steps"},
        {"WarmupCosineLR", "", 0, "total_num_steps"},         {"warmup_stable_decay", "num_decay_steps=1", 0, "num_stable_steps|num"},
    };
    for (size_t i = 0; i < sizeof lacks / sizeof lacks[0]; i++) {
        yk_error err = YK_ERROR_INIT;
        yk__sched *s = NULL;
        char text[128];
        snprintf(text, sizeof text, "schedule %s: setting %s", lacks[i].name, lacks[i].missing);
        ck_assert_int_eq(yk__sched_new(lacks[i].name, 0, lacks[i].total, lacks[i].params, 0.1, &s, &err), YK_E_ARG);
        ck_assert_msg(strstr(err.text, text) == err.text, "%s, expected %s", err.text, text);
    }
}
END_TEST

/* At the ends of what each setting may be, early and late, a rate is finite and not negative; and it is told at once. */
START_TEST(schedules_at_the_ends_of_their_ranges)
{
    static const char *const right[][2] = {
        {"linear", "num_warmup_steps=10"}, {"linear", "num_training_steps=0"}, {"cosine", "num_cycles=1000000"},
        {"cosine", "num_warmup_steps=20"}, {"cosine_with_restarts", "num_cycles=0"}, {"cosine_with_min_lr", "min_lr=0.1"},
        {"cosine_warmup_with_min_lr", "min_lr_rate=1,warmup_lr_rate=1"}, {"polynomial", "num_warmup_steps=10,lr_end=0"},
        {"polynomial", "power=1000"}, {"inverse_sqrt", "timescale=1e-300"}, {"inverse_sqrt", "num_warmup_steps=0"},
        {"warmup_stable_decay", "num_decay_steps=100"}, {"warmup_stable_decay", "num_warmup_steps=0,warmup_type=1-sqrt,num_decay_steps=2"},
        {"StepLR", "step_size=1"}, {"StepLR", "step_size=9007199254740992,gamma=0"}, {"MultiStepLR", "milestones=0+0+9"},
        {"CosineAnnealingLR", "T_max=1"}, {"CosineAnnealingWarmRestarts", "T_0=1,T_mult=1000000"},
        {"CosineAnnealingWarmRestarts", "T_0=1,T_mult=2"}, {"CosineAnnealingWarmRestarts", "T_0=3,T_mult=3"},
        {"LinearLR", "total_iters=1,end_factor=0"}, {"PolynomialLR", "total_iters=1"},
        {"OneCycleLR", "pct_start=0"}, {"OneCycleLR", "pct_start=1"}, {"OneCycleLR", "pct_start=0.1,three_phase=true"},
        {"OneCycleLR", "total_steps=1"}, {"OneCycleLR", "total_steps=2,pct_start=0.5"}, {"WarmupLR", "warmup_num_steps=0"},
        {"WarmupDecayLR", "warmup_num_steps=0"}, {"WarmupCosineLR", "warmup_num_steps=100"},
        {"LRRangeTest", "lr_range_test_step_size=1"}, {"OneCycle", "cycle_min_lr=0,cycle_first_step_size=1,decay_step_size=0"},
    };
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        yk_error err = YK_ERROR_INIT;
        yk__sched *s = NULL;
        const bool warms = islower((unsigned char)right[i][0][0]) || !strncmp(right[i][0], "Warmup", 6);
        const double warmup = warms && !strstr(right[i][1], "warmup_steps") && !strstr(right[i][1], "warmup_num") ? 1 : 0;
        ck_assert_msg(!yk__sched_new(right[i][0], warmup, 10, right[i][1], 0.1, &s, &err), "%s", err.text);
        for (uint64_t k = 0; k < 1ull << 53; k = k < 40 ? k + 1 : k * 3) {
            double lr = -1.0;
            yk__sched_at(s, k, &lr, NULL);
            ck_assert_msg(isfinite(lr) && lr >= 0.0, "%s %s: %g at step %llu", right[i][0], right[i][1], lr, (unsigned long long)k);
        }
        yk__sched_free(s);
    }
}
END_TEST

/* A longer run has another hash if its rates differ, and the same hash if they do not. */
START_TEST(a_schedule_that_knows_no_end_is_the_same_in_a_longer_run)
{
    static const struct {
        const char *name, *params;
        double warmup;
        bool other;
    } rows[] = {{"constant", "", 0, false}, {"constant_with_warmup", "", 5, false}, {"inverse_sqrt", "", 5, false},
                {"reduce_lr_on_plateau", "patience=2", 0, false}, {"StepLR", "step_size=30", 0, false}, {"WarmupLR", "", 0, false},
                {"cosine", "num_training_steps=50", 0, false}, {"CosineAnnealingLR", "T_max=50", 0, false},
                {"warmup_stable_decay", "num_decay_steps=2,num_stable_steps=9", 1, false}, {"linear", "", 0, true},
                {"linear", "", 900, true},
                {"cosine", "", 3, true}, {"polynomial", "", 0, true}, {"warmup_stable_decay", "num_decay_steps=2", 1, true},
                {"CosineAnnealingLR", "", 0, true}, {"OneCycleLR", "max_lr=1", 0, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t hash[2];
        for (int k = 0; k < 2; k++) {
            yk_error err = YK_ERROR_INIT;
            yk__sched *s = NULL;
            ck_assert_msg(!yk__sched_new(rows[i].name, rows[i].warmup, k ? 2020 : 1000, rows[i].params, 0.1, &s, &err), "%s", err.text);
            hash[k] = yk__sched_hash(s, 0);
            yk__sched_free(s);
        }
        ck_assert_msg((hash[0] != hash[1]) == rows[i].other, "%s %s", rows[i].name, rows[i].params);
    }
}
END_TEST

/* The closed form against torch's definition, restart by restart. */
START_TEST(warm_restarts_begin_where_torch_has_them)
{
    for (int mult = 2; mult < 6; mult++)
        for (int first = 1; first < 9; first++) {
            yk_error err = YK_ERROR_INIT;
            yk__sched *s = NULL;
            char text[64];
            snprintf(text, sizeof text, "T_0=%d,T_mult=%d", first, mult);
            ck_assert_int_eq(yk__sched_new("CosineAnnealingWarmRestarts", 0, 0, text, 1.0, &s, &err), YK_OK);
            uint64_t at = 0, len = (uint64_t)first;
            for (uint64_t k = 0; k < 20000; k++, at++) {
                double lr;
                if (at == len)
                    at = 0, len *= (uint64_t)mult;
                yk__sched_at(s, k, &lr, NULL);
                ck_assert_double_eq_tol(lr, (1.0 + cos(3.14159265358979323846 * (double)at / (double)len)) / 2.0, 1e-12);
            }
            yk__sched_free(s);
        }
}
END_TEST

static bool step_overflows(json_t *runs, int64_t step)
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

static double setting_of(json_t *s, const char *a, const char *b)
{
    json_t *v = json_object_get(s, a);
    return json_number_value(v ? v : json_object_get(s, b));
}

static void make_scaler(json_t *run, yk__scaler *s)
{
    json_t *set = json_object_get(run, "settings");
    const char *rule = json_string_value(json_object_get(run, "rule"));
    yk__scaler_init(s,
                    !strcmp(rule, "torch")       ? YK_SCALER_TORCH
                    : !strcmp(rule, "deepspeed") ? YK_SCALER_DEEPSPEED
                                                 : YK_SCALER_MEGATRON,
                    setting_of(set, "init_scale", ""), setting_of(set, "growth_factor", ""), setting_of(set, "backoff_factor", ""),
                    setting_of(set, "min_scale", ""), (uint32_t)setting_of(set, "growth_interval", "scale_window"),
                    (uint32_t)setting_of(set, "hysteresis", ""));
    s->consecutive = json_is_true(json_object_get(set, "consecutive_hysteresis"));
    s->stay_at_floor = json_is_false(json_object_get(set, "raise_at_floor"));
}

START_TEST(loss_scaling)
{
    json_t *j = golden_table("loss_scale.json"), *run;
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
            if (!yk__scaler_update(&s, step_overflows(runs, k))) {
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

START_TEST(hyper_numbers_are_of_the_step)
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
    TCase *t = tcase_create("nn");
    tcase_add_test(t, schedules_equal_the_golden_table);
    tcase_add_test(t, schedule_refusals);
    tcase_add_test(t, a_schedule_names_the_setting_that_it_lacks);
    tcase_add_test(t, schedules_at_the_ends_of_their_ranges);
    tcase_add_test(t, a_schedule_that_knows_no_end_is_the_same_in_a_longer_run);
    tcase_add_test(t, warm_restarts_begin_where_torch_has_them);
    tcase_add_test(t, loss_scaling);
    tcase_add_test(t, hyper_numbers_are_of_the_step);
    tcase_add_test(t, optimizer_refusals);
    return suite_run("nn_tables", t);
}
