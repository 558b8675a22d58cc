/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `yoke test --golden DIR`, folder optim/: trajectories of optimizers under given gradients, and clipping. cmd_test.c calls it in the main
 * thread. A given gradient G reaches the parameter P as the gradient of sum(P * G).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/check/golden/golden.h"

static const char *const names[] = {"w", "b", "s"};

typedef struct trajectory {
    yk_job *job;
    yk_opt *opt;
    yk_t param[3];
    float *grad[3];
    double *want[3];
    size_t n[3];
} trajectory;

static double hyper_number(json_t *c, const char *key)
{
    return json_number_value(json_object_get(json_object_get(c, "hyper"), key));
}

static double hyper_beta(json_t *c, size_t i)
{
    return json_number_value(json_array_get(json_object_get(json_object_get(c, "hyper"), "betas"), i));
}

static bool hyper_flag(json_t *c, const char *key)
{
    return json_is_true(json_object_get(json_object_get(c, "hyper"), key));
}

static double zero_is_meant(double v)
{
    return v == 0 ? YK_ZERO : v;
}

static yk_opt *optimizer_new(yk_job *job, const char *type, json_t *c)
{
    const double lr = zero_is_meant(hyper_number(c, "lr"));
    const yk_sgd_config sgd = {lr, hyper_number(c, "momentum"), hyper_number(c, "dampening"), hyper_number(c, "weight_decay"),
                               hyper_flag(c, "nesterov"), hyper_flag(c, "maximize")};
    const yk_adam_config adam = {.lr = lr,
                                 .beta1 = zero_is_meant(hyper_beta(c, 0)),
                                 .beta2 = zero_is_meant(hyper_beta(c, 1)),
                                 .eps = zero_is_meant(hyper_number(c, "eps")),
                                 .weight_decay = hyper_number(c, "weight_decay"),
                                 .amsgrad = hyper_flag(c, "amsgrad"),
                                 .maximize = hyper_flag(c, "maximize")};
    if (!strcmp(type, "sgd"))
        return yk_sgd(job, &sgd);
    return !strcmp(type, "adam") ? yk_adam(job, &adam) : yk_adamw(job, &adam);
}

static void make_params(trajectory *t, yk__safetensors *init)
{
    for (int i = 0; i < 3; i++) {
        const yk__safetensor *s = yk__safetensors_find(init, names[i]);
        float *v = golden_f32(init, names[i], &t->n[i]);
        if (!s || !v) {
            yk_fail(t->job, YK_E_FORMAT, "init.safetensors lacks a parameter");
            return;
        }
        t->param[i] = yk_param(t->job, names[i], (uint32_t)s->rank, s->shape, (yk_init){YK_INIT_ZEROS, 0, 0});
        yk_param_write(t->param[i], v, t->n[i]);
        free(v);
    }
}

/* The gradient of step k for parameter i, as an input of the parameter's shape. */
static yk_t grad_input(trajectory *t, int i, size_t k)
{
    int64_t dim[8];
    for (uint32_t d = 0; d < yk_dims(t->param[i]); d++)
        dim[d] = yk_dim(t->param[i], (int32_t)d);
    return yk_input(t->job, YK_F32, yk_dims(t->param[i]), dim, t->grad[i] + k * t->n[i]);
}

static void trajectory_step(trajectory *t, size_t k, double lr)
{
    yk_t loss = YK_NO;
    for (int i = 0; i < 3; i++) {
        yk_t one = yk_mul(t->param[i], grad_input(t, i, k));
        one = yk_sum(one, (1u << yk_dims(t->param[i])) - 1, false);
        loss = i ? yk_add(loss, one) : one;
    }
    yk_set_lr(t->opt, lr);
    yk_backward(loss);
    yk_step(t->opt);
}

static void trajectory_compare(trajectory *t, size_t k, double limit, golden_worst *w)
{
    for (int i = 0; i < 3; i++) {
        float *got = calloc(t->n[i], sizeof *got);
        char what[48];
        snprintf(what, sizeof what, "%s after step %zu", names[i], k + 1);
        if (got) {
            yk_param_read(t->param[i], got, t->n[i]);
            golden_note(w, golden_abs(got, t->want[i] + k * t->n[i], t->n[i]), limit, what);
        }
        free(got);
    }
}

static bool load_tables(golden *g, trajectory *t, json_t *c, yk__safetensors *grads, const char *name)
{
    yk__safetensors *want = golden_open(g, "optim/%s.safetensors", name);
    bool all = want != NULL;
    for (int i = 0; i < 3; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s.%s", json_string_value(json_object_get(c, "grads")), names[i]);
        t->grad[i] = golden_f32(grads, key, NULL);
        t->want[i] = golden_f64(want, names[i], NULL);
        all &= t->grad[i] && t->want[i];
    }
    yk__safetensors_close(want);
    return all;
}

static void case_run(golden *g, json_t *table, json_t *c, yk__safetensors *init, yk__safetensors *grads)
{
    const char *name = json_string_value(json_object_get(c, "name")), *type = json_string_value(json_object_get(c, "type"));
    const double limit = json_number_value(json_object_get(c, "tolerance_float32_abs"));
    const size_t steps = (size_t)json_integer_value(json_object_get(table, "steps"));
    json_t *lrs = json_object_get(c, "lr_per_step");
    golden_worst w = {-1, 0, ""};
    trajectory t = {0};
    char label[160], text[512];
    snprintf(label, sizeof label, "optim/%s", name ? name : "?");
    if (!name || !type || !golden_wanted(g, label))
        return;
    if (!golden_known("optimizer", type, json_object_get(c, "hyper"), text, sizeof text)) {
        golden_report(g, GOLDEN_UNSUPPORTED, label, NAN, 0, text);
        return;
    }
    t.job = golden_job(g, (yk_config){0});
    if (!load_tables(g, &t, c, grads, name))
        yk_fail(t.job, YK_E_FORMAT, "the case's tensors are not all there");
    make_params(&t, init);
    t.opt = yk_ok(t.job) ? optimizer_new(t.job, type, c) : NULL;
    for (size_t k = 0; k < steps && yk_ok(t.job); k++) {
        trajectory_step(&t, k, json_is_array(lrs) ? json_number_value(json_array_get(lrs, k)) : hyper_number(c, "lr"));
        trajectory_compare(&t, k, limit, &w);
    }
    if (golden_close(t.job, text, sizeof text))
        golden_report(g, golden_judge(&w), label, w.error, w.limit, w.what);
    else
        golden_report(g, GOLDEN_FAIL, label, NAN, limit, text);
    for (int i = 0; i < 3; i++) {
        free(t.grad[i]);
        free(t.want[i]);
    }
}

/* ---- Clipping: one step of plain SGD with rate 1 moves a parameter by minus the clipped gradient ------------------------ */

static void clip_step(trajectory *t, json_t *c, golden_worst *w, double want_norm)
{
    double got;
    t->opt = yk_sgd(t->job, &(yk_sgd_config){.lr = 1});
    if (!strcmp(json_string_value(json_object_get(c, "kind")), "norm"))
        yk_clip_norm(t->job, (float)json_number_value(json_object_get(c, "max_norm")));
    else
        yk_clip_value(t->job, (float)json_number_value(json_object_get(c, "max_value")));
    trajectory_step(t, 0, 1);
    got = yk_grad_norm(t->opt);
    if (isfinite(want_norm) && want_norm > 0)
        golden_note(w, fabs(got - want_norm) / want_norm, 1e-5, "norm");
    for (int i = 0; i < 3; i++) {
        float *p = calloc(t->n[i], sizeof *p);
        double most = 0;
        if (!p)
            return;
        yk_param_read(t->param[i], p, t->n[i]);
        for (size_t k = 0; k < t->n[i]; k++) {
            p[k] = -p[k];
            most = fabs(t->want[i][k]) > most ? fabs(t->want[i][k]) : most;
        }
        golden_note(w, golden_abs(p, t->want[i], t->n[i]), 1e-6 * (most > 1 ? most : 1), names[i]);
        free(p);
    }
}

/* The supported part of clip.json: the 2-norm and clipping by value, on finite gradients. */
static const char *clip_unsupported(json_t *c, const trajectory *t)
{
    const char *kind = json_string_value(json_object_get(c, "kind"));
    for (int i = 0; i < 3; i++)
        for (size_t k = 0; k < t->n[i]; k++)
            if (!isfinite((double)t->grad[i][k]))
                return "gradients that are not finite end the step before clipping";
    if (kind && !strcmp(kind, "norm") && json_number_value(json_object_get(c, "norm_type")) != 2)
        return "clipping by another norm than the 2-norm";
    return NULL;
}

static void clip_case(golden *g, json_t *c, yk__safetensors *f)
{
    const char *name = json_string_value(json_object_get(c, "name")), *reason;
    golden_worst w = {-1, 0, ""};
    trajectory t = {0};
    char label[160], key[128], text[512];
    double *norm;
    snprintf(label, sizeof label, "optim/clip/%s", name ? name : "?");
    if (!name || !golden_wanted(g, label))
        return;
    snprintf(key, sizeof key, "%s.norm", name);
    norm = golden_f64(f, key, NULL);
    t.job = golden_job(g, (yk_config){0});
    for (int i = 0; i < 3; i++) {
        const yk__safetensor *s;
        snprintf(key, sizeof key, "%s.in.%s", name, names[i]);
        s = yk__safetensors_find(f, key);
        t.grad[i] = golden_f32(f, key, &t.n[i]);
        snprintf(key, sizeof key, "%s.out.%s", name, names[i]);
        t.want[i] = golden_f64(f, key, NULL);
        if (!s || !t.grad[i] || !t.want[i])
            yk_fail(t.job, YK_E_FORMAT, "clip.safetensors lacks a tensor");
        else
            t.param[i] = yk_param(t.job, names[i], (uint32_t)s->rank, s->shape, (yk_init){YK_INIT_ZEROS, 0, 0});
    }
    reason = yk_ok(t.job) ? clip_unsupported(c, &t) : NULL;
    if (yk_ok(t.job) && !reason)
        clip_step(&t, c, &w, norm ? norm[0] : NAN);
    if (!golden_close(t.job, text, sizeof text))
        golden_report(g, GOLDEN_FAIL, label, NAN, 1e-6, text);
    else if (reason)
        golden_report(g, GOLDEN_UNSUPPORTED, label, NAN, 0, reason);
    else
        golden_report(g, golden_judge(&w), label, w.error, w.limit, w.what);
    for (int i = 0; i < 3; i++) {
        free(t.grad[i]);
        free(t.want[i]);
    }
    free(norm);
}

void golden_optim(golden *g)
{
    json_t *table = golden_json(g, "optim/cases.json"), *clip = golden_json(g, "optim/clip.json");
    json_t *cases = json_object_get(table, "cases"), *clips = json_object_get(clip, "cases");
    yk__safetensors *init = golden_open(g, "optim/init.safetensors"), *grads = golden_open(g, "optim/grads.safetensors");
    yk__safetensors *f = clip ? golden_open(g, "optim/clip.safetensors") : NULL;
    for (size_t i = 0; init && grads && i < json_array_size(cases); i++)
        case_run(g, table, json_array_get(cases, i), init, grads);
    for (size_t i = 0; f && i < json_array_size(clips); i++)
        clip_case(g, json_array_get(clips, i), f);
    yk__safetensors_close(init);
    yk__safetensors_close(grads);
    yk__safetensors_close(f);
    json_decref(table);
    json_decref(clip);
}
