/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `yoke test --golden DIR`, files schedules.json and loss_scale.json: compares the pure functions of core/nn with whole tables of other
 * libraries' numbers. cmd_test.c calls it in the main thread.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/nn/scaler.h"
#include "core/nn/sched.h"
#include "tools/check/golden/golden.h"

/* The settings of a case as yk__sched_new reads them. */
static void settings_text(json_t *params, char *buf, size_t n)
{
    const char *key;
    json_t *v;
    size_t used = 0;
    buf[0] = 0;
    json_object_foreach(params, key, v)
    {
        char one[256] = "null";
        if (json_is_string(v))
            snprintf(one, sizeof one, "%s", json_string_value(v));
        else if (json_is_boolean(v))
            snprintf(one, sizeof one, "%s", json_is_true(v) ? "true" : "false");
        else if (json_is_number(v))
            snprintf(one, sizeof one, "%.17g", json_number_value(v));
        else if (json_is_array(v)) {
            one[0] = 0;
            for (size_t i = 0; i < json_array_size(v); i++)
                snprintf(one + strlen(one), sizeof one - strlen(one), "%s%.17g", i ? "+" : "",
                         json_number_value(json_array_get(v, i)));
        }
        used += (size_t)snprintf(buf + used, n - used, "%s%s=%s", used ? "," : "", key, one);
        if (used >= n)
            return;
    }
}

static double relative_difference(double got, json_t *want)
{
    const double w = json_number_value(want), d = fabs(got - w);
    return d == 0 ? 0 : d / fabs(w);
}

static void schedule_case(golden *g, json_t *c, double limit)
{
    const char *name = json_string_value(json_object_get(c, "name")), *type = json_string_value(json_object_get(c, "type"));
    json_t *lr = json_object_get(c, "lr"), *mom = json_object_get(c, "momentum"), *metrics = json_object_get(c, "metrics");
    golden_worst w = {-1, 0, ""};
    yk_error err = YK_ERROR_INIT;
    yk__sched *s = NULL;
    char params[2048], label[160];
    if (!name || !type)
        return;
    snprintf(label, sizeof label, "schedules/%s", name);
    if (!golden_wanted(g, label))
        return;
    settings_text(json_object_get(c, "params"), params, sizeof params);
    if (yk__sched_new(type, 0, 0, params, json_number_value(json_object_get(c, "base_lr")), &s, &err)) {
        golden_report(g, err.status == YK_E_UNSUPPORTED ? GOLDEN_UNSUPPORTED : GOLDEN_FAIL, label, NAN, limit, err.text);
        return;
    }
    for (size_t k = 0; k < json_array_size(lr); k++) {
        double got, got_mom;
        yk__sched_at(s, k, &got, &got_mom);
        golden_note(&w, relative_difference(got, json_array_get(lr, k)), limit, "lr");
        if (mom)
            golden_note(&w, relative_difference(got_mom, json_array_get(mom, k)), limit, "momentum");
        if (metrics)
            yk__sched_metric(s, json_number_value(json_array_get(metrics, k)));
    }
    yk__sched_free(s);
    golden_report(g, golden_judge(&w), label, w.error, w.limit, w.what);
}

static double setting_number(json_t *s, const char *key)
{
    return json_number_value(json_object_get(s, key));
}

static bool make_scaler(const char *rule, json_t *s, yk__scaler *out)
{
    const bool torch = !strcmp(rule, "torch"), deepspeed = !strcmp(rule, "deepspeed");
    if (!torch && !deepspeed && strcmp(rule, "megatron"))
        return false;
    yk__scaler_init(out,
                    torch       ? YK_SCALER_TORCH
                    : deepspeed ? YK_SCALER_DEEPSPEED
                                : YK_SCALER_MEGATRON,
                    setting_number(s, "init_scale"), setting_number(s, "growth_factor"), setting_number(s, "backoff_factor"),
                    setting_number(s, "min_scale"), (uint32_t)setting_number(s, deepspeed ? "scale_window" : "growth_interval"),
                    (uint32_t)setting_number(s, "hysteresis"));
    out->consecutive = json_is_true(json_object_get(s, "consecutive_hysteresis"));
    out->stay_at_floor = deepspeed && json_is_false(json_object_get(s, "raise_at_floor"));
    return true;
}

static bool step_overflows(json_t *sequence, int64_t step)
{
    for (size_t i = 0; i < json_array_size(sequence); i++) {
        json_t *run = json_array_get(sequence, i);
        const int64_t first = json_integer_value(json_array_get(run, 0));
        if (step >= first && step < first + json_integer_value(json_array_get(run, 1)))
            return true;
    }
    return false;
}

/* Number of steps whose scale after the update differs from the table, or a wrong end. */
static double compare_run(json_t *r, json_t *sequence, int64_t steps, yk__scaler *s)
{
    json_t *changes = json_object_get(r, "changes"), *raises = json_object_get(r, "raises_at");
    double want = s->scale, wrong = 0;
    size_t next = 0;
    for (int64_t k = 0; k < steps; k++) {
        const bool go_on = yk__scaler_update(s, step_overflows(sequence, k));
        if (!go_on || (json_is_integer(raises) && json_integer_value(raises) == k))
            return wrong + !(!go_on && json_is_integer(raises) && json_integer_value(raises) == k);
        json_t *c = json_array_get(changes, next);
        if (c && json_integer_value(json_array_get(c, 0)) == k) {
            want = json_number_value(json_array_get(c, 1));
            next++;
        }
        wrong += s->scale != want;
    }
    return wrong;
}

static void scale_run(golden *g, json_t *table, json_t *r, size_t number)
{
    const char *rule = json_string_value(json_object_get(r, "rule")), *sequence = json_string_value(json_object_get(r, "sequence"));
    char label[160];
    yk__scaler s;
    double wrong;
    if (!rule || !sequence)
        return;
    snprintf(label, sizeof label, "loss_scale/%zu-%s-%s", number, rule, sequence);
    if (!golden_wanted(g, label))
        return;
    if (!make_scaler(rule, json_object_get(r, "settings"), &s)) {
        golden_report(g, GOLDEN_UNSUPPORTED, label, NAN, 0, "a rule that is not built");
        return;
    }
    wrong = compare_run(r, json_object_get(json_object_get(table, "sequences"), sequence),
                        json_integer_value(json_object_get(table, "steps")), &s);
    golden_report(g, wrong == 0 ? GOLDEN_PASS : GOLDEN_FAIL, label, wrong, 0, "steps with another scale");
}

void golden_tables(golden *g)
{
    json_t *t = golden_json(g, "schedules.json"), *cases = json_object_get(t, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++)
        schedule_case(g, json_array_get(cases, i), json_number_value(json_object_get(t, "tolerance_rel")));
    json_decref(t);
    t = golden_json(g, "loss_scale.json");
    cases = json_object_get(t, "runs");
    for (size_t i = 0; i < json_array_size(cases); i++)
        scale_run(g, t, json_array_get(cases, i), i);
    json_decref(t);
}
