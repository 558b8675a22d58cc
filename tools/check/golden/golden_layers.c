/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `yoke test --golden DIR`, folder layers/: single layers and losses, forward and backward, against numbers of PyTorch. cmd_test.c calls it
 * in the main thread of a job of one rank. Inputs with an expected gradient are parameters, those named running_* states, the other ones
 * host inputs; the gradient of sum(gout * out) comes by yk_backward.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/check/golden/golden.h"

enum { MOST = 12 };

typedef struct layer_case {
    yk_job *job;
    yk__safetensors *file;
    golden_worst worst;
    double abs, rel, of_max; /* tolerance; of_max is 0 if abs and rel hold */
    struct {
        char name[32];
        yk_t value;
    } in[MOST];
    int n;
} layer_case;

static bool has_grad(const layer_case *c, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "grad.%s", name);
    return yk__safetensors_find(c->file, key) != NULL;
}

/* A tensor of the file as a parameter, a state or an input. */
static yk_t make_input(layer_case *c, const char *name, const yk__safetensor *t)
{
    char key[64];
    float *f;
    int32_t *ids;
    yk_t v = YK_NO;
    snprintf(key, sizeof key, "in.%s", name);
    f = golden_f32(c->file, key, NULL);
    ids = golden_i32(c->file, key, NULL);
    if (!f || !ids) {
        yk_fail(c->job, YK_E_FORMAT, "a tensor of the case cannot be read");
    } else if (!strncmp(name, "running_", 8)) {
        v = yk_state(c->job, name, YK_F32, (uint32_t)t->rank, t->shape, 0);
        yk_param_write(v, f, (size_t)t->elements);
    } else if (t->dtype != YK_F32) {
        v = yk_input(c->job, YK_I32, (uint32_t)t->rank, t->shape, ids);
    } else if (has_grad(c, name)) {
        v = yk_param(c->job, name, (uint32_t)t->rank, t->shape, (yk_init){YK_INIT_ZEROS, 0, 0});
        yk_param_write(v, f, (size_t)t->elements);
    } else {
        v = yk_input(c->job, YK_F32, (uint32_t)t->rank, t->shape, f);
    }
    free(f);
    free(ids);
    return v;
}

static void make_inputs(layer_case *c)
{
    for (int64_t i = 0; i < yk__safetensors_count(c->file) && c->n < MOST; i++) {
        const yk__safetensor *t = yk__safetensors_at(c->file, i);
        if (strncmp(t->name, "in.", 3))
            continue;
        snprintf(c->in[c->n].name, sizeof c->in[c->n].name, "%s", t->name + 3);
        c->in[c->n].value = make_input(c, t->name + 3, t);
        c->n++;
    }
}

static yk_t find_input(void *arg, const char *name)
{
    const layer_case *c = arg;
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->in[i].name, name))
            return c->in[i].value;
    return YK_NO;
}

static void tensor_compare(layer_case *c, const char *key, const float *got, size_t n)
{
    size_t want_n = 0;
    double *want = golden_f64(c->file, key, &want_n), most = 0;
    if (!want || want_n != n) {
        golden_note(&c->worst, INFINITY, c->abs, "wrong shape");
        free(want);
        return;
    }
    for (size_t i = 0; i < n; i++)
        most = isfinite(want[i]) && fabs(want[i]) > most ? fabs(want[i]) : most;
    if (c->of_max > 0) {
        golden_note(&c->worst, golden_abs(got, want, n), c->of_max * most, key);
    } else {
        for (size_t i = 0; i < n; i++)
            golden_note(&c->worst, golden_abs(got + i, want + i, 1), c->abs + c->rel * (isfinite(want[i]) ? fabs(want[i]) : 0), key);
    }
    free(want);
}

static size_t element_count(yk_t x)
{
    size_t n = 1;
    for (uint32_t i = 0; i < yk_dims(x); i++)
        n *= (size_t)yk_dim(x, (int32_t)i);
    return n;
}

/* Parameters and states after the step: gradients and running statistics. */
static void compare_inputs(layer_case *c)
{
    for (int i = 0; i < c->n && yk_ok(c->job); i++) {
        const bool running = !strncmp(c->in[i].name, "running_", 8);
        const size_t n = element_count(c->in[i].value);
        char key[64];
        float *got = calloc(n + 1, sizeof *got);
        snprintf(key, sizeof key, "%s.%s", running ? "out" : "grad", c->in[i].name);
        if (got && yk__safetensors_find(c->file, key)) {
            if (running)
                yk_param_read(c->in[i].value, got, n);
            else
                yk_grad_read(c->in[i].value, got, n);
            tensor_compare(c, key, got, n);
        }
        free(got);
    }
}

static void run_step(layer_case *c, yk_t y)
{
    const yk__safetensor *t = yk__safetensors_find(c->file, "gout.y");
    float *gout = golden_f32(c->file, "gout.y", NULL), *out;
    const size_t n = element_count(y);
    yk_opt *opt;
    if (!t || !gout || !(out = calloc(n + 1, sizeof *out))) {
        free(gout);
        yk_fail(c->job, YK_E_FORMAT, "the case has no gout.y");
        return;
    }
    y = yk_keep(y);
    opt = yk_sgd(c->job, &(yk_sgd_config){.lr = YK_ZERO});
    yk_backward(t->elements == 1 && gout[0] == 1
                    ? yk_reshape(y, 0, NULL)
                    : yk_sum(yk_mul(y, yk_input(c->job, YK_F32, (uint32_t)t->rank, t->shape, gout)), (1u << yk_dims(y)) - 1, false));
    yk_step(opt);
    yk_read(y, out, n * sizeof *out);
    if (yk_ok(c->job))
        tensor_compare(c, "out.y", out, n);
    compare_inputs(c);
    free(gout);
    free(out);
}

static void case_tolerance(layer_case *c, json_t *index, json_t *entry)
{
    json_t *t = json_object_get(entry, "tolerance_float32");
    if (!t)
        t = json_object_get(index, "tolerance_float32");
    c->abs = json_number_value(json_object_get(t, "abs"));
    c->rel = json_number_value(json_object_get(t, "rel"));
    c->of_max = json_number_value(json_object_get(t, "of_max"));
}

static void case_run(golden *g, json_t *index, json_t *entry)
{
    const char *name = json_string_value(json_object_get(entry, "name")), *op = json_string_value(json_object_get(entry, "op"));
    layer_case c = {.worst = {-1, 0, ""}};
    golden_layer l = {.op = op, .attrs = json_object_get(entry, "attrs"), .in = find_input, .arg = &c};
    char label[160], text[512];
    bool built = true;
    yk_t y;
    snprintf(label, sizeof label, "layers/%s", name ? name : "?");
    if (!name || !op || !golden_wanted(g, label))
        return;
    c.file = golden_open(g, "layers/%s.safetensors", name);
    if (!c.file) {
        golden_report(g, GOLDEN_FAIL, label, NAN, 0, "its file cannot be read");
        return;
    }
    case_tolerance(&c, index, entry);
    c.job = l.job = golden_job(g, (yk_config){0});
    make_inputs(&c);
    l.running_mean = find_input(&c, "running_mean");
    l.running_var = find_input(&c, "running_var");
    y = golden_layer_build(&l);
    built = y.id || !yk_ok(c.job);
    if (y.id)
        run_step(&c, y);
    if (!golden_close(c.job, text, sizeof text))
        golden_report(g, GOLDEN_FAIL, label, NAN, c.abs, text);
    else if (!built)
        golden_report(g, GOLDEN_UNSUPPORTED, label, NAN, 0, op);
    else
        golden_report(g, golden_judge(&c.worst), label, c.worst.error, c.worst.limit, c.worst.what);
    yk__safetensors_close(c.file);
}

void golden_layers(golden *g)
{
    json_t *index = golden_json(g, "layers/index.json"), *cases = json_object_get(index, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++)
        case_run(g, index, json_array_get(cases, i));
    json_decref(index);
}
