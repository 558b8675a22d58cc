/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by all models: the forward pass and the loss by the model's kind, and the small parts (linear, norm, activation) that
 * builders put together. Everything in this folder uses yoke.h alone, as a user's program would. Start reading with mlp.c;
 * registry.c finds, loads and saves models. All of it runs in the step thread.
 */
#include "models/model.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void model_fail(yk_job *job, yk_status status, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    yk_fail(job, status, text);
}

yk_t yk_model_part(yk_model *m, const yk_batch *batch, const char *part)
{
    yk_t y = YK_NO;
    if (!m || !yk_ok(m->job))
        return y;
    y = m->kind->part(m, m->net, batch, part);
    if (!y.id && yk_ok(m->job))
        model_fail(m->job, YK_E_ARG, "model %s has no part \"%s\"", m->kind->name, part);
    return y;
}

yk_t yk_forward(yk_model *m, const yk_batch *batch)
{
    return yk_model_part(m, batch, "logits");
}

yk_t yk_model_loss(yk_model *m, const yk_batch *batch, yk_t logits)
{
    if (!m || !yk_ok(m->job))
        return YK_NO;
    if (m->regression)
        return yk_mse_loss(yk_cast(yk_reshape(logits, 1, (int64_t[]){yk_dim(batch->labels, 0)}), YK_F32), batch->labels, NULL);
    return yk_cross_entropy_with(logits, batch->labels,
                                 &(yk_cross_entropy_config){.smoothing = yk_training(m->job) ? m->smoothing : 0});
}

void yk_model_label_smoothing(yk_model *m, float smoothing)
{
    if (!m || !yk_ok(m->job))
        return;
    if (!(smoothing >= 0 && smoothing < 1))
        model_fail(m->job, YK_E_ARG, "yk_model_label_smoothing: label smoothing of %g: expected 0 to below 1",
                   (double)smoothing);
    if (m->regression && smoothing > 0)
        model_fail(m->job, YK_E_ARG, "yk_model_label_smoothing: label smoothing of %g: model %s is a regression (num_labels=1), whose "
                   "labels are numbers: expected 0", (double)smoothing, m->kind->name);
    m->smoothing = smoothing;
}

void yk_model_recompute(yk_model *m, bool on)
{
    if (!m)
        return;
    if (on && !m->kind->blocks)
        model_fail(m->job, YK_E_ARG, "yk_model_recompute: model %s has no blocks of layers that could be computed again in backward "
                   "(gradient checkpointing); GPT-2, BERT and ResNets have", m->kind->name);
    m->recompute = on;
}

const char *yk_model_name(const yk_model *m)
{
    return m ? m->kind->name : "";
}

uint64_t yk_model_num_parameters(const yk_model *m)
{
    uint64_t n = 0;
    for (uint32_t i = 0; m && i < m->count; i++) {
        yk_t p = yk_param_at(m->job, m->first + i);
        uint64_t one = 1;
        for (uint32_t k = 0; k < yk_dims(p); k++)
            one *= (uint64_t)yk_dim(p, (int32_t)k);
        n += yk_param_is_state(m->job, m->first + i) ? 0 : one;
    }
    return n;
}

double yk_model_flops(const yk_model *m, int64_t width)
{
    return m ? m->kind->flops(m->net, width) : 0;
}

/* The usual rule: matrices and kernels decay; biases and the two vectors of a norm do not. */
bool yk_model_decays(const yk_model *m, const char *param)
{
    yk_t p = m ? yk_param_find(m->job, param) : YK_NO;
    return p.id && yk_dims(p) > 1;
}

/* ---- Parts that builders share ------------------------------------------------------------------------------------ */

enum { NAME_SIZE = 512 };

/* Prints a name behind the model's prefix in the job. */
static void name_print(const yk_model *m, char name[NAME_SIZE], const char *fmt, va_list ap)
{
    const size_t n = strlen(m->own.prefix);
    if (n >= NAME_SIZE / 2)
        model_fail(m->job, YK_E_ARG, "prefix=%.40s..: expected fewer than %d bytes", m->own.prefix, NAME_SIZE / 2);
    snprintf(name, NAME_SIZE / 2, "%s", m->own.prefix);
    vsnprintf(name + strlen(name), NAME_SIZE - strlen(name), fmt, ap);
}

yk_t model_param(yk_model *m, yk_init init, uint32_t dims, const int64_t *dim, const char *fmt, ...)
{
    char name[NAME_SIZE];
    va_list ap;
    va_start(ap, fmt);
    name_print(m, name, fmt, ap);
    va_end(ap);
    return yk_param(m->job, name, dims, dim, init);
}

yk_t model_state(yk_model *m, yk_dtype dtype, uint32_t dims, const int64_t *dim, float value, const char *fmt, ...)
{
    char name[NAME_SIZE];
    va_list ap;
    va_start(ap, fmt);
    name_print(m, name, fmt, ap);
    va_end(ap);
    return yk_state(m->job, name, dtype, dims, dim, value);
}

const char *model_file_name(const yk_model *m, uint32_t i)
{
    return yk_param_name(m->job, m->first + i) + strlen(m->own.prefix);
}

void model_put_int(yk_model *m, const char *key, int64_t v)
{
    char number[32];
    snprintf(number, sizeof number, "%lld", (long long)v);
    yk_settings_put(m->settings, key, number);
}

static void label_names_copy(yk_model *m, const yk_data *data, uint32_t n)
{
    const char **name = calloc(n, sizeof *name);
    for (uint32_t i = 0; name && i < n; i++)
        name[i] = yk_data_class_name(data, i);
    if (name)
        yk_settings_labels(m->settings, n, name);
    else
        model_fail(m->job, YK_E_MEM, "out of memory for label names");
    free(name);
}

int64_t model_classes(yk_model *m, const yk_data *data, int64_t preset)
{
    const uint32_t n = yk_data_classes(data);
    const int64_t own = yk_settings_int(m->settings, "num_labels", 0);
    if (n && yk_data_class_name(data, 0))
        label_names_copy(m, data, n);
    const int64_t classes = yk_settings_int(m->settings, "num_labels", n ? n : preset);
    m->own.classes = own != classes ? own : 0;
    model_put_int(m, "num_labels", classes);
    return classes;
}

void model_block_begin(const yk_model *m)
{
    if (m->recompute && yk_training(m->job))
        yk_recompute_begin(m->job);
}

void model_block_end(const yk_model *m)
{
    if (m->recompute && yk_training(m->job))
        yk_recompute_end(m->job);
}

yk_init model_normal(double std)
{
    return (yk_init){YK_INIT_NORMAL, 0, (float)std};
}

model_linear model_linear_new(yk_model *m, const char *prefix, int64_t in, int64_t out, bool bias, const yk_init *init)
{
    const float bound = in > 0 ? 1.0f / sqrtf((float)in) : 0;
    const yk_init plain = {YK_INIT_UNIFORM, -bound, bound}, zeros = {YK_INIT_ZEROS, 0, 0};
    model_linear l;
    l.weight = model_param(m, init ? *init : plain, 2, (int64_t[]){out, in}, "%s.weight", prefix);
    l.bias = bias ? model_param(m, init ? zeros : plain, 1, &out, "%s.bias", prefix) : YK_NO;
    return l;
}

model_linear model_head_new(yk_model *m, const char *prefix, int64_t in, int64_t classes, const yk_init *init)
{
    snprintf(m->head, sizeof m->head, "%s.", prefix);
    return model_linear_new(m, prefix, in, classes, true, init);
}

yk_t model_linear_on(model_linear l, yk_t x)
{
    return yk_linear(x, l.weight, l.bias);
}

model_norm model_norm_new(yk_model *m, const char *prefix, int64_t width, bool bias, float eps)
{
    model_norm n = {YK_NO, YK_NO, eps};
    n.weight = model_param(m, (yk_init){YK_INIT_ONES, 0, 0}, 1, &width, "%s.weight", prefix);
    if (bias)
        n.bias = model_param(m, (yk_init){YK_INIT_ZEROS, 0, 0}, 1, &width, "%s.bias", prefix);
    return n;
}

yk_t model_norm_on(model_norm n, yk_t x)
{
    return yk_layer_norm(x, n.weight, n.bias, n.eps);
}

const char *model_word(yk_settings *s, const char *key, const char *preset)
{
    return yk_settings_text(s, key, yk_settings_has(s, key) ? "(an object or a list)" : preset);
}

float model_eps(yk_model *m, const char *key, double preset)
{
    const double eps = yk_settings_real(m->settings, key, preset);
    if (!(eps >= 0 && eps <= 1e30))
        model_fail(m->job, YK_E_ARG, "%s=%g: expected 0 or a positive number", key, eps);
    return (float)eps;
}

model_activation *model_activation_of(yk_model *m, const char *key, const char *preset)
{
    static const struct {
        const char *name;
        model_activation *f;
    } table[] = {{"relu", yk_relu},
                 {"gelu", yk_gelu},
                 {"gelu_python", yk_gelu},
                 {"gelu_new", yk_gelu_tanh},
                 {"gelu_pytorch_tanh", yk_gelu_tanh},
                 {"gelu_python_tanh", yk_gelu_tanh},
                 {"gelu_tanh", yk_gelu_tanh},
                 {"gelu_fast", yk_gelu_tanh},
                 {"gelu_accurate", yk_gelu_tanh},
                 {"silu", yk_silu},
                 {"swish", yk_silu},
                 {"tanh", yk_tanh},
                 {"sigmoid", yk_sigmoid}};
    const char *name = model_word(m->settings, key, preset);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (!strcmp(table[i].name, name))
            return table[i].f;
    model_fail(m->job, YK_E_ARG, "%s: expected relu, gelu, gelu_new, silu, tanh or sigmoid, got \"%.100s\": choose one of these", key,
               name);
    return yk_relu;
}
