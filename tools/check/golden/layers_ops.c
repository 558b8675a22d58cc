/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the operations of the golden cases in layers/index.json, through the public interface. golden_layers.c calls it for each case, in
 * the main thread. A new layer gets a row here.
 */
#include <math.h>
#include <string.h>

#include "tools/check/golden/golden.h"

static yk_t input_named(golden_layer *l, const char *name)
{
    return l->in(l->arg, name);
}

static double attr_real(golden_layer *l, const char *key)
{
    return json_number_value(json_object_get(l->attrs, key));
}

static bool attr_flag(golden_layer *l, const char *key)
{
    return json_is_true(json_object_get(l->attrs, key));
}

static int32_t attr_at(golden_layer *l, const char *key, size_t i)
{
    return (int32_t)json_integer_value(json_array_get(json_object_get(l->attrs, key), i));
}

static yk_reduction attr_reduction(golden_layer *l)
{
    const char *r = json_string_value(json_object_get(l->attrs, "reduction"));
    return r && !strcmp(r, "sum") ? YK_SUM : r && !strcmp(r, "none") ? YK_EACH : YK_MEAN;
}

static yk_t layer_linear(golden_layer *l)
{
    return yk_linear(input_named(l, "x"), input_named(l, "weight"), input_named(l, "bias"));
}

static yk_t linear_in_out(golden_layer *l)
{
    return yk_linear_io(input_named(l, "x"), input_named(l, "weight"), input_named(l, "bias"));
}

static yk_t layer_conv2d(golden_layer *l)
{
    const yk_conv2d_config c = {.stride = {attr_at(l, "stride", 0), attr_at(l, "stride", 1)},
                                .padding = {attr_at(l, "padding", 0), attr_at(l, "padding", 1)},
                                .dilation = {attr_at(l, "dilation", 0), attr_at(l, "dilation", 1)},
                                .groups = (int32_t)attr_real(l, "groups")};
    return yk_conv2d(input_named(l, "x"), input_named(l, "weight"), input_named(l, "bias"), &c);
}

static yk_pool2d_config pool_config(golden_layer *l)
{
    yk_pool2d_config c = {.kernel = {attr_at(l, "kernel", 0), attr_at(l, "kernel", 1)},
                          .stride = {attr_at(l, "stride", 0), attr_at(l, "stride", 1)},
                          .padding = {attr_at(l, "padding", 0), attr_at(l, "padding", 1)},
                          .ceil_mode = attr_flag(l, "ceil_mode")};
    if (json_is_array(json_object_get(l->attrs, "dilation"))) {
        c.dilation[0] = attr_at(l, "dilation", 0);
        c.dilation[1] = attr_at(l, "dilation", 1);
    }
    c.exclude_padding = json_is_false(json_object_get(l->attrs, "count_include_pad"));
    return c;
}

static yk_t max_pool2d(golden_layer *l)
{
    const yk_pool2d_config c = pool_config(l);
    return yk_max_pool2d(input_named(l, "x"), &c);
}

static yk_t avg_pool2d(golden_layer *l)
{
    const yk_pool2d_config c = pool_config(l);
    return yk_avg_pool2d(input_named(l, "x"), &c);
}

static yk_t layer_adaptive(golden_layer *l)
{
    return yk_adaptive_avg_pool2d(input_named(l, "x"), attr_at(l, "output", 0), attr_at(l, "output", 1));
}

static yk_t batch_norm(golden_layer *l)
{
    const yk_t x = input_named(l, "x");
    /* momentum null: a cumulative average over three batches so far */
    const bool mean = json_is_null(json_object_get(l->attrs, "momentum"));
    const float momentum = mean ? -1.0f : (float)attr_real(l, "momentum");
    const yk_t count = mean ? yk_state(l->job, "num_batches_tracked", YK_I32, 0, NULL, 3) : YK_NO;
    yk_train(l->job, attr_flag(l, "training"));
    return yk_batch_norm(x, input_named(l, "weight"), input_named(l, "bias"), (yk_batch_norm_state){l->running_mean, l->running_var, count},
                         momentum, (float)attr_real(l, "eps"));
}

/* Over the last dimensions given by normalized_shape: flattened, and the result shaped back. */
static yk_t layer_norm(golden_layer *l)
{
    yk_t x = input_named(l, "x"), w = input_named(l, "weight"), b = input_named(l, "bias"), y;
    const size_t over = json_array_size(json_object_get(l->attrs, "normalized_shape"));
    int64_t dim[8];
    for (uint32_t i = 0; i < yk_dims(x); i++)
        dim[i] = yk_dim(x, (int32_t)i);
    if (over == 1)
        return yk_layer_norm(x, w, b, (float)attr_real(l, "eps"));
    w = w.id ? yk_flatten(w, 0) : w;
    b = b.id ? yk_flatten(b, 0) : b;
    y = yk_layer_norm(yk_flatten(x, (int32_t)(yk_dims(x) - over)), w, b, (float)attr_real(l, "eps"));
    return yk_reshape(y, yk_dims(x), dim);
}

static yk_t layer_embedding(golden_layer *l)
{
    json_t *p = json_object_get(l->attrs, "padding_idx");
    return yk_embedding(input_named(l, "ids"), input_named(l, "weight"), json_is_integer(p) ? (int32_t)json_integer_value(p) : -1);
}

static yk_t layer_attention(golden_layer *l)
{
    return yk_attention(input_named(l, "q"), input_named(l, "k"), input_named(l, "v"),
                        &(yk_attention_config){.causal = attr_flag(l, "causal"),
                                               .scale = (float)attr_real(l, "scale"),
                                               .key_keep = input_named(l, "key_keep"),
                                               .bias = input_named(l, "bias")});
}

static yk_t softmax_along(golden_layer *l, yk_t (*f)(yk_t))
{
    const yk_t x = input_named(l, "x");
    const int dim = (int)attr_real(l, "dim");
    if (dim == -1 || dim == (int)yk_dims(x) - 1)
        return f(x);
    if (yk_dims(x) != 2)
        return YK_NO;
    return yk_permute(f(yk_permute(x, (uint32_t[]){1, 0})), (uint32_t[]){1, 0});
}

static yk_t layer_softmax(golden_layer *l)
{
    return softmax_along(l, yk_softmax);
}

static yk_t log_softmax(golden_layer *l)
{
    return softmax_along(l, yk_log_softmax);
}

/* Classes stand on axis 1 there; ours on the last. */
static yk_t cross_entropy(golden_layer *l)
{
    const int32_t ignore = (int32_t)attr_real(l, "ignore_index");
    const yk_cross_entropy_config c = {.smoothing = (float)attr_real(l, "label_smoothing"),
                                       .ignore_index = ignore ? ignore : YK_ZERO,
                                       .weight = input_named(l, "weight"),
                                       .reduction = attr_reduction(l)};
    yk_t x = input_named(l, "x");
    if (yk_dims(x) == 4)
        x = yk_permute(x, (uint32_t[]){0, 2, 3, 1});
    return yk_cross_entropy_with(x, input_named(l, "target"), &c);
}

static yk_t loss_bce(golden_layer *l)
{
    return yk_bce_with_logits(input_named(l, "x"), input_named(l, "target"),
                              &(yk_loss_config){attr_reduction(l), input_named(l, "weight"), input_named(l, "pos_weight")});
}

static yk_t loss_mse(golden_layer *l)
{
    return yk_mse_loss(input_named(l, "x"), input_named(l, "target"), &(yk_loss_config){.reduction = attr_reduction(l)});
}

#define UNARY(name)                            \
    static yk_t one_##name(golden_layer *l)    \
    {                                          \
        return yk_##name(input_named(l, "x")); \
    }
UNARY(gelu)
UNARY(gelu_tanh)
UNARY(silu)
UNARY(relu)
UNARY(tanh)
UNARY(sigmoid)

yk_t golden_layer_build(golden_layer *l)
{
    static const struct {
        const char *op;
        yk_t (*build)(golden_layer *l);
    } table[] = {{"linear", layer_linear},           {"linear_in_out", linear_in_out},       {"conv2d", layer_conv2d},
                 {"max_pool2d", max_pool2d},         {"avg_pool2d", avg_pool2d},             {"adaptive_avg_pool2d", layer_adaptive},
                 {"batch_norm", batch_norm},         {"layer_norm", layer_norm},             {"embedding", layer_embedding},
                 {"attention", layer_attention},     {"softmax", layer_softmax},             {"log_softmax", log_softmax},
                 {"gelu", one_gelu},                 {"gelu_tanh", one_gelu_tanh},           {"silu", one_silu},
                 {"relu", one_relu},                 {"tanh", one_tanh},                     {"sigmoid", one_sigmoid},
                 {"bce_with_logits", loss_bce},      {"mse", loss_mse},                      {"cross_entropy", cross_entropy}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (!strcmp(table[i].op, l->op))
            return table[i].build(l);
    return YK_NO;
}
