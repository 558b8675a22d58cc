/* SPDX-License-Identifier: Apache-2.0 */
/* The ops of layers/index.json, built through the public interface. */
#include <math.h>
#include <string.h>

#include "tools/check/golden/golden.h"

static yk_t in(golden_layer *l, const char *name)
{
    return l->in(l->arg, name);
}

static double real(golden_layer *l, const char *key)
{
    return json_number_value(json_object_get(l->attrs, key));
}

static bool on(golden_layer *l, const char *key)
{
    return json_is_true(json_object_get(l->attrs, key));
}

static int32_t at(golden_layer *l, const char *key, size_t i)
{
    return (int32_t)json_integer_value(json_array_get(json_object_get(l->attrs, key), i));
}

static yk_reduction reduction(golden_layer *l)
{
    const char *r = json_string_value(json_object_get(l->attrs, "reduction"));
    return r && !strcmp(r, "sum") ? YK_SUM : r && !strcmp(r, "none") ? YK_EACH : YK_MEAN;
}

static yk_t linear(golden_layer *l)
{
    return yk_linear(in(l, "x"), in(l, "weight"), in(l, "bias"));
}

static yk_t linear_in_out(golden_layer *l)
{
    return yk_linear_io(in(l, "x"), in(l, "weight"), in(l, "bias"));
}

static yk_t conv2d(golden_layer *l)
{
    const yk_conv2d_config c = {.stride = {at(l, "stride", 0), at(l, "stride", 1)},
                                .padding = {at(l, "padding", 0), at(l, "padding", 1)},
                                .dilation = {at(l, "dilation", 0), at(l, "dilation", 1)},
                                .groups = (int32_t)real(l, "groups")};
    return yk_conv2d(in(l, "x"), in(l, "weight"), in(l, "bias"), &c);
}

static yk_pool2d_config pool(golden_layer *l)
{
    yk_pool2d_config c = {.kernel = {at(l, "kernel", 0), at(l, "kernel", 1)},
                          .stride = {at(l, "stride", 0), at(l, "stride", 1)},
                          .padding = {at(l, "padding", 0), at(l, "padding", 1)},
                          .ceil_mode = on(l, "ceil_mode")};
    if (json_is_array(json_object_get(l->attrs, "dilation"))) {
        c.dilation[0] = at(l, "dilation", 0);
        c.dilation[1] = at(l, "dilation", 1);
    }
    c.exclude_padding = json_is_false(json_object_get(l->attrs, "count_include_pad"));
    return c;
}

static yk_t max_pool2d(golden_layer *l)
{
    const yk_pool2d_config c = pool(l);
    return yk_max_pool2d(in(l, "x"), &c);
}

static yk_t avg_pool2d(golden_layer *l)
{
    const yk_pool2d_config c = pool(l);
    return yk_avg_pool2d(in(l, "x"), &c);
}

static yk_t adaptive(golden_layer *l)
{
    return yk_adaptive_avg_pool2d(in(l, "x"), at(l, "output", 0), at(l, "output", 1));
}

static yk_t batch_norm(golden_layer *l)
{
    const yk_t x = in(l, "x");
    /* momentum null: a cumulative average over three batches so far */
    const bool mean = json_is_null(json_object_get(l->attrs, "momentum"));
    const float momentum = mean ? -1.0f : (float)real(l, "momentum");
    const yk_t count = mean ? yk_state(l->job, "num_batches_tracked", YK_I32, 0, NULL, 3) : YK_NO;
    yk_train(l->job, on(l, "training"));
    return yk_batch_norm(x, in(l, "weight"), in(l, "bias"),
                         (yk_batch_norm_state){l->running_mean, l->running_var, count}, momentum, (float)real(l, "eps"));
}

/* Over the last dimensions given by normalized_shape: flattened, and the result shaped back. */
static yk_t layer_norm(golden_layer *l)
{
    yk_t x = in(l, "x"), w = in(l, "weight"), b = in(l, "bias"), y;
    const size_t over = json_array_size(json_object_get(l->attrs, "normalized_shape"));
    int64_t dim[8];
    for (uint32_t i = 0; i < yk_dims(x); i++)
        dim[i] = yk_dim(x, (int32_t)i);
    if (over == 1)
        return yk_layer_norm(x, w, b, (float)real(l, "eps"));
    w = w.id ? yk_flatten(w, 0) : w;
    b = b.id ? yk_flatten(b, 0) : b;
    y = yk_layer_norm(yk_flatten(x, (int32_t)(yk_dims(x) - over)), w, b, (float)real(l, "eps"));
    return yk_reshape(y, yk_dims(x), dim);
}

static yk_t embedding(golden_layer *l)
{
    json_t *p = json_object_get(l->attrs, "padding_idx");
    return yk_embedding(in(l, "ids"), in(l, "weight"), json_is_integer(p) ? (int32_t)json_integer_value(p) : -1);
}

static yk_t attention(golden_layer *l)
{
    return yk_attention(in(l, "q"), in(l, "k"), in(l, "v"),
                        &(yk_attention_config){.causal = on(l, "causal"),
                                               .scale = (float)real(l, "scale"),
                                               .key_keep = in(l, "key_keep"),
                                               .bias = in(l, "bias")});
}

static yk_t softmax_along(golden_layer *l, yk_t (*f)(yk_t))
{
    const yk_t x = in(l, "x");
    const int dim = (int)real(l, "dim");
    if (dim == -1 || dim == (int)yk_dims(x) - 1)
        return f(x);
    if (yk_dims(x) != 2)
        return YK_NO;
    return yk_permute(f(yk_permute(x, (uint32_t[]){1, 0})), (uint32_t[]){1, 0});
}

static yk_t softmax(golden_layer *l)
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
    const int32_t ignore = (int32_t)real(l, "ignore_index");
    const yk_cross_entropy_config c = {.smoothing = (float)real(l, "label_smoothing"),
                                       .ignore_index = ignore ? ignore : YK_ZERO,
                                       .weight = in(l, "weight"),
                                       .reduction = reduction(l)};
    yk_t x = in(l, "x");
    if (yk_dims(x) == 4)
        x = yk_permute(x, (uint32_t[]){0, 2, 3, 1});
    return yk_cross_entropy_with(x, in(l, "target"), &c);
}

static yk_t bce(golden_layer *l)
{
    return yk_bce_with_logits(in(l, "x"), in(l, "target"),
                              &(yk_loss_config){reduction(l), in(l, "weight"), in(l, "pos_weight")});
}

static yk_t mse(golden_layer *l)
{
    return yk_mse_loss(in(l, "x"), in(l, "target"), &(yk_loss_config){.reduction = reduction(l)});
}

#define UNARY(name)                                                                                                    \
    static yk_t one_##name(golden_layer *l)                                                                            \
    {                                                                                                                  \
        return yk_##name(in(l, "x"));                                                                                  \
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
    } table[] = {{"linear", linear},           {"linear_in_out", linear_in_out}, {"conv2d", conv2d},
                 {"max_pool2d", max_pool2d},   {"avg_pool2d", avg_pool2d},       {"adaptive_avg_pool2d", adaptive},
                 {"batch_norm", batch_norm},   {"layer_norm", layer_norm},       {"embedding", embedding},
                 {"attention", attention},     {"softmax", softmax},             {"log_softmax", log_softmax},
                 {"gelu", one_gelu},           {"gelu_tanh", one_gelu_tanh},     {"silu", one_silu},
                 {"relu", one_relu},           {"tanh", one_tanh},               {"sigmoid", one_sigmoid},
                 {"bce_with_logits", bce},     {"mse", mse},                     {"cross_entropy", cross_entropy}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (!strcmp(table[i].op, l->op))
            return table[i].build(l);
    return YK_NO;
}
