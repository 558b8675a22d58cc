/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds an ONNX operator of a vector case with yoke.h: a function for each family of operators, which returns that the operator is not in
 * its family. vectors.c calls vector_build for each case, in the main thread.
 */
#include "tools/check/vectors_ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/convert.h"

/* ---- Operands and attributes ---- */

static yk_t operand_at(vector_case *c, int k)
{
    const yk__safetensor *t = k < c->n_in ? c->in_tensor[k] : NULL;
    yk_error err = YK_ERROR_INIT;
    const void *data;
    void *host;
    yk_t v;
    bool whole = t && (t->dtype == YK_I64 || t->dtype == YK_I32);
    if (!t || yk__safetensors_data(c->file, t, &data, &err))
        return YK_NO;
    if (t->dtype == YK_BOOL)
        return yk_input(c->job, YK_BOOL, (uint32_t)t->rank, t->shape, data);
    host = calloc((size_t)t->elements + 1, 4);
    if (!host || (!whole && yk__array_to_f32(t->dtype, data, (size_t)t->elements, host))) {
        free(host);
        return YK_NO;
    }
    for (int64_t i = 0; whole && i < t->elements; i++)
        ((int32_t *)host)[i] = t->dtype == YK_I32 ? ((const int32_t *)data)[i] : (int32_t)((const int64_t *)data)[i];
    v = yk_input(c->job, whole ? YK_I32 : YK_F32, (uint32_t)t->rank, t->shape, host);
    free(host);
    return v;
}

static bool is_f32(const vector_case *c, int k)
{
    return k < c->n_in && c->in_tensor[k] && c->in_tensor[k]->dtype == YK_F32;
}

/* Whole numbers of an operand; -1 where it is absent. */
static int operand_ints(vector_case *c, int k, int64_t *v, int most)
{
    const yk__safetensor *t = k < c->n_in ? c->in_tensor[k] : NULL;
    yk_error err = YK_ERROR_INIT;
    const void *data;
    if (!t || t->dtype != YK_I64 || t->elements > most || yk__safetensors_data(c->file, t, &data, &err))
        return -1;
    memcpy(v, data, (size_t)t->elements * sizeof *v);
    return (int)t->elements;
}

static double attr_number(const vector_case *c, const char *key, double preset)
{
    json_t *v = json_object_get(c->attrs, key);
    return json_is_number(v) ? json_number_value(v) : preset;
}

static int attr_list(const vector_case *c, const char *key, int64_t *v, int most)
{
    json_t *a = json_object_get(c->attrs, key);
    int n = (int)json_array_size(a);
    for (int i = 0; i < n && i < most; i++)
        v[i] = json_integer_value(json_array_get(a, (size_t)i));
    return json_is_array(a) && n <= most ? n : -1;
}

static const char *attr_text(const vector_case *c, const char *key, const char *preset)
{
    const char *s = json_string_value(json_object_get(c->attrs, key));
    return s ? s : preset;
}

static bool case_done(vector_case *c, yk_t y)
{
    c->out[0] = y;
    return y.id != 0;
}

static yk_t constant_of(vector_case *c, double v)
{
    return yk_constant(c->job, (float)v);
}

static uint32_t all_axes(yk_t x)
{
    return (1u << yk_dims(x)) - 1;
}

/* ---- Elementwise ---- */

static bool run_unary(vector_case *c)
{
    static const struct {
        const char *op;
        yk_t (*f)(yk_t);
    } table[] = {{"Abs", yk_abs}, {"Neg", yk_neg}, {"Exp", yk_exp}, {"Log", yk_log}, {"Sqrt", yk_sqrt}, {"Tanh", yk_tanh},
                 {"Erf", yk_erf}, {"Relu", yk_relu}, {"Sigmoid", yk_sigmoid}, {"Identity", yk_keep}, {"Swish", yk_silu}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (!strcmp(table[i].op, c->op))
            return is_f32(c, 0) && (i < 10 || attr_number(c, "alpha", 1) == 1) && case_done(c, table[i].f(operand_at(c, 0)));
    if (!strcmp(c->op, "Reciprocal"))
        return is_f32(c, 0) && case_done(c, yk_div(constant_of(c, 1), operand_at(c, 0)));
    if (!strcmp(c->op, "Gelu"))
        return case_done(c, (strcmp(attr_text(c, "approximate", "none"), "tanh") ? yk_gelu : yk_gelu_tanh)(operand_at(c, 0)));
    return false;
}

static bool run_binary(vector_case *c)
{
    static const struct {
        const char *op;
        yk_t (*f)(yk_t, yk_t);
    } table[] = {{"Add", yk_add}, {"Sub", yk_sub}, {"Mul", yk_mul}, {"Div", yk_div}, {"Less", yk_less}, {"Equal", yk_equal}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (!strcmp(table[i].op, c->op))
            return is_f32(c, 0) && case_done(c, table[i].f(operand_at(c, 0), operand_at(c, 1)));
    if (!strcmp(c->op, "Greater"))
        return is_f32(c, 0) && case_done(c, yk_less(operand_at(c, 1), operand_at(c, 0)));
    if (!strcmp(c->op, "Where"))
        return is_f32(c, 1) && case_done(c, yk_where(operand_at(c, 0), operand_at(c, 1), operand_at(c, 2)));
    return false;
}

static bool run_variadic(vector_case *c)
{
    const bool mean = !strcmp(c->op, "Mean"), most = !strcmp(c->op, "Max"), least = !strcmp(c->op, "Min");
    yk_t y;
    if (!(mean || most || least || !strcmp(c->op, "Sum")) || !is_f32(c, 0))
        return false;
    y = operand_at(c, 0);
    for (int i = 1; i < c->n_in; i++)
        y = most ? yk_maximum(y, operand_at(c, i)) : least ? yk_minimum(y, operand_at(c, i)) : yk_add(y, operand_at(c, i));
    return case_done(c, mean ? yk_scale(y, 1.0f / (float)c->n_in) : c->n_in == 1 ? yk_scale(y, 1) : y);
}

/* x where it is not below 0, else f(x) */
static yk_t at_zero_select(vector_case *c, yk_t x, yk_t below)
{
    return yk_where(yk_less(x, constant_of(c, 0)), below, x);
}

static bool run_piecewise(vector_case *c)
{
    const yk_t x = is_f32(c, 0) ? operand_at(c, 0) : YK_NO;
    if (!x.id)
        return false;
    if (!strcmp(c->op, "LeakyRelu"))
        return case_done(c, at_zero_select(c, x, yk_scale(x, (float)attr_number(c, "alpha", 0.01))));
    if (!strcmp(c->op, "PRelu"))
        return case_done(c, at_zero_select(c, x, yk_mul(x, operand_at(c, 1))));
    if (!strcmp(c->op, "Elu"))
        return case_done(c, at_zero_select(c, x, yk_scale(yk_shift(yk_exp(x), -1), (float)attr_number(c, "alpha", 1))));
    if (!strcmp(c->op, "HardSigmoid"))
        return case_done(
            c, yk_minimum(yk_maximum(yk_shift(yk_scale(x, (float)attr_number(c, "alpha", 0.2)), (float)attr_number(c, "beta", 0.5)),
                                     constant_of(c, 0)),
                          constant_of(c, 1)));
    if (!strcmp(c->op, "Clip")) {
        yk_t y = x;
        if (is_f32(c, 1))
            y = yk_maximum(y, operand_at(c, 1));
        if (is_f32(c, 2))
            y = yk_minimum(y, operand_at(c, 2));
        return case_done(c, yk_scale(y, 1));
    }
    return false;
}

static bool run_cast(vector_case *c)
{
    const int to = (int)attr_number(c, "to", 0); /* onnx's number 1: float; 16-bit formats are the job's choice here */
    const yk__safetensor *t = c->in_tensor[0];
    if (strcmp(c->op, "Cast") || !t || t->dtype < 0 || t->dtype > YK_F64 || to != 1)
        return false;
    return case_done(c, yk_cast(operand_at(c, 0), YK_F32));
}

/* ---- Reductions ---- */

static uint32_t axes_of(vector_case *c, yk_t x, int operand)
{
    int64_t v[8];
    int n = operand_ints(c, operand, v, 8);
    uint32_t mask = 0;
    if (n < 0)
        n = attr_list(c, "axes", v, 8);
    for (int i = 0; i < n; i++)
        mask |= 1u << (v[i] < 0 ? v[i] + (int64_t)yk_dims(x) : v[i]);
    return n > 0 ? mask : attr_number(c, "noop_with_empty_axes", 0) != 0 ? 0 : all_axes(x);
}

static bool run_reduce(vector_case *c)
{
    const yk_t x = is_f32(c, 0) ? operand_at(c, 0) : YK_NO;
    const bool keep = attr_number(c, "keepdims", 1) != 0;
    uint32_t axes;
    if (strncmp(c->op, "Reduce", 6) || !x.id)
        return false;
    for (uint32_t i = 0; i < yk_dims(x); i++)
        if (!yk_dim(x, (int32_t)i))
            return false; /* empty operands */
    axes = axes_of(c, x, 1);
    if (!axes)
        return false;
    if (!strcmp(c->op, "ReduceSum"))
        return case_done(c, yk_sum(x, axes, keep));
    if (!strcmp(c->op, "ReduceMean"))
        return case_done(c, yk_mean(x, axes, keep));
    if (!strcmp(c->op, "ReduceMax"))
        return case_done(c, yk_max(x, axes, keep));
    if (!strcmp(c->op, "ReduceMin"))
        return case_done(c, yk_neg(yk_max(yk_neg(x), axes, keep)));
    if (!strcmp(c->op, "ReduceSumSquare"))
        return case_done(c, yk_sum(yk_mul(x, x), axes, keep));
    if (!strcmp(c->op, "ReduceL1"))
        return case_done(c, yk_sum(yk_abs(x), axes, keep));
    if (!strcmp(c->op, "ReduceL2"))
        return case_done(c, yk_sqrt(yk_sum(yk_mul(x, x), axes, keep)));
    if (!strcmp(c->op, "ReduceLogSumExp"))
        return case_done(c, yk_log(yk_sum(yk_exp(x), axes, keep)));
    return false;
}

static bool run_argmax(vector_case *c)
{
    const yk_t x = is_f32(c, 0) ? operand_at(c, 0) : YK_NO;
    const int axis = (int)attr_number(c, "axis", 0);
    yk_t y;
    int64_t dim[8];
    if (strcmp(c->op, "ArgMax") || !x.id || attr_number(c, "select_last_index", 0) != 0)
        return false;
    y = yk_argmax(x, axis);
    if (attr_number(c, "keepdims", 1) == 0)
        return case_done(c, y);
    for (uint32_t i = 0; i < yk_dims(x); i++)
        dim[i] = yk_dim(x, (int32_t)i);
    dim[axis < 0 ? axis + (int)yk_dims(x) : axis] = 1;
    return case_done(c, yk_reshape(y, yk_dims(x), dim));
}

/* ---- Products, windows, norms ---- */

static bool run_products(vector_case *c)
{
    yk_t a, b, y;
    if (!strcmp(c->op, "MatMul"))
        return is_f32(c, 0) && c->in_tensor[0]->rank > 1 && c->in_tensor[1]->rank > 1 &&
               case_done(c, yk_matmul(operand_at(c, 0), operand_at(c, 1)));
    if (strcmp(c->op, "Gemm"))
        return false;
    a = operand_at(c, 0);
    b = operand_at(c, 1);
    if (attr_number(c, "transA", 0) != 0)
        a = yk_permute(a, (const uint32_t[]){1, 0});
    if (attr_number(c, "transB", 0) != 0)
        b = yk_permute(b, (const uint32_t[]){1, 0});
    y = yk_scale(yk_matmul(a, b), (float)attr_number(c, "alpha", 1));
    return case_done(c, is_f32(c, 2) ? yk_add(y, yk_scale(operand_at(c, 2), (float)attr_number(c, "beta", 1))) : y);
}

static bool attr_pair(const vector_case *c, const char *key, int32_t v[2], int32_t preset)
{
    int64_t list[2] = {preset, preset};
    if (json_object_get(c->attrs, key) && attr_list(c, key, list, 2) != 2)
        return false;
    v[0] = (int32_t)list[0];
    v[1] = (int32_t)list[1];
    return true;
}

/* Symmetric padding only. */
static bool attr_padding(const vector_case *c, int32_t v[2])
{
    int64_t p[4] = {0, 0, 0, 0};
    if (strcmp(attr_text(c, "auto_pad", "NOTSET"), "NOTSET") || (json_object_get(c->attrs, "pads") && attr_list(c, "pads", p, 4) != 4))
        return false;
    v[0] = (int32_t)p[0];
    v[1] = (int32_t)p[1];
    return p[0] == p[2] && p[1] == p[3];
}

static bool run_windows(vector_case *c)
{
    yk_conv2d_config conv = {.groups = (int32_t)attr_number(c, "group", 1)};
    yk_pool2d_config pool = {.ceil_mode = attr_number(c, "ceil_mode", 0) != 0,
                             .exclude_padding = attr_number(c, "count_include_pad", 0) == 0};
    const bool most = !strcmp(c->op, "MaxPool"), average = !strcmp(c->op, "AveragePool");
    if (!is_f32(c, 0) || c->in_tensor[0]->rank != 4)
        return false;
    if (!strcmp(c->op, "GlobalAveragePool"))
        return case_done(c, yk_mean(operand_at(c, 0), 12, true));
    if (!strcmp(c->op, "GlobalMaxPool"))
        return case_done(c, yk_max(operand_at(c, 0), 12, true));
    if (!strcmp(c->op, "Conv") && attr_pair(c, "strides", conv.stride, 1) && attr_pair(c, "dilations", conv.dilation, 1) &&
        attr_padding(c, conv.padding))
        return case_done(c, yk_conv2d(operand_at(c, 0), operand_at(c, 1), operand_at(c, 2), &conv));
    if (!(most || average) || !attr_pair(c, "kernel_shape", pool.kernel, 1) || !attr_pair(c, "strides", pool.stride, 1) ||
        !attr_pair(c, "dilations", pool.dilation, 1) || !attr_padding(c, pool.padding))
        return false;
    if (average && (pool.dilation[0] > 1 || pool.dilation[1] > 1))
        return false;
    return case_done(c, most ? yk_max_pool2d(operand_at(c, 0), &pool) : yk_avg_pool2d(operand_at(c, 0), &pool));
}

static bool batch_norm(vector_case *c)
{
    const float eps = (float)attr_number(c, "epsilon", 1e-5);
    yk_batch_norm_state s = {YK_NO, YK_NO, YK_NO};
    float mean[64], var[64];
    const yk__safetensor *t = c->n_in > 4 ? c->in_tensor[3] : NULL;
    yk_error err = YK_ERROR_INIT;
    const void *data[2];
    if (strcmp(c->op, "BatchNormalization") || !t || t->elements > 64 || attr_number(c, "training_mode", 0) != 0 ||
        yk__safetensors_data(c->file, t, &data[0], &err) || yk__safetensors_data(c->file, c->in_tensor[4], &data[1], &err))
        return false;
    memcpy(mean, data[0], (size_t)t->elements * sizeof *mean);
    memcpy(var, data[1], (size_t)t->elements * sizeof *var);
    s.mean = yk_state(c->job, "mean", YK_F32, 1, t->shape, 0);
    s.var = yk_state(c->job, "var", YK_F32, 1, t->shape, 1);
    yk_param_write(s.mean, mean, (size_t)t->elements);
    yk_param_write(s.var, var, (size_t)t->elements);
    yk_train(c->job, false);
    return case_done(c, yk_batch_norm(operand_at(c, 0), operand_at(c, 1), operand_at(c, 2), s, 0.1f, eps));
}

static bool layer_norm(vector_case *c)
{
    const yk_t x = is_f32(c, 0) ? operand_at(c, 0) : YK_NO;
    int axis = (int)attr_number(c, "axis", -1);
    int64_t dim[8];
    yk_t y;
    if (strcmp(c->op, "LayerNormalization") || !x.id)
        return false;
    axis = axis < 0 ? axis + (int)yk_dims(x) : axis;
    for (uint32_t i = 0; i < yk_dims(x); i++)
        dim[i] = yk_dim(x, (int32_t)i);
    y = yk_layer_norm(yk_flatten(x, axis), yk_flatten(operand_at(c, 1), 0), is_f32(c, 2) ? yk_flatten(operand_at(c, 2), 0) : YK_NO,
                      (float)attr_number(c, "epsilon", 1e-5));
    return case_done(c, yk_reshape(y, yk_dims(x), dim));
}

/* f over an axis: brought to the end and back. */
static bool run_softmax(vector_case *c)
{
    yk_t (*f)(yk_t) = !strcmp(c->op, "Softmax") ? yk_softmax : !strcmp(c->op, "LogSoftmax") ? yk_log_softmax : NULL;
    const yk_t x = f && is_f32(c, 0) ? operand_at(c, 0) : YK_NO;
    uint32_t order[8], n, axis;
    if (!x.id)
        return false;
    n = yk_dims(x);
    axis = (uint32_t)((int)attr_number(c, "axis", -1) + (int)n) % n;
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    order[axis] = n - 1;
    order[n - 1] = axis;
    return case_done(c, yk_permute(f(yk_permute(x, order)), order));
}

static bool cross_entropy(vector_case *c)
{
    const char *r = attr_text(c, "reduction", "mean");
    const int32_t ignore = (int32_t)attr_number(c, "ignore_index", -100);
    yk_cross_entropy_config k = {.ignore_index = ignore ? ignore : YK_ZERO,
                                 .reduction = !strcmp(r, "sum") ? YK_SUM : !strcmp(r, "none") ? YK_EACH : YK_MEAN};
    yk_t x;
    uint32_t order[8], n;
    if (strcmp(c->op, "SoftmaxCrossEntropyLoss") || !is_f32(c, 0))
        return false;
    x = operand_at(c, 0);
    k.weight = operand_at(c, 2);
    n = yk_dims(x);
    for (uint32_t i = 0; i < n; i++) /* classes from axis 1 to the end */
        order[i] = i == 0 ? 0 : i + 1 < n ? i + 1 : 1;
    return case_done(c, yk_cross_entropy_with(n > 2 ? yk_permute(x, order) : x, operand_at(c, 1), &k));
}

/* Four-dimensional operands, a float or boolean mask, causal aligned to the first key only where both are equally long. */
static bool run_attention(vector_case *c)
{
    yk_attention_config a = {.causal = attr_number(c, "is_causal", 0) != 0, .scale = (float)attr_number(c, "scale", 0)};
    if (strcmp(c->op, "Attention") || !is_f32(c, 0) || c->in_tensor[0]->rank != 4 || c->n_in > 4 || attr_number(c, "softcap", 0) != 0 ||
        attr_number(c, "qk_matmul_output_mode", 0) != 0 || c->in_tensor[2]->shape[3] != c->in_tensor[0]->shape[3])
        return false;
    for (int64_t i = 0; i < yk__safetensors_count(c->file); i++)
        if (!strncmp(yk__safetensors_at(c->file, i)->name, "out.1", 5) || !strncmp(yk__safetensors_at(c->file, i)->name, "out.3", 5))
            return false;
    if (a.causal && c->in_tensor[0]->shape[2] != c->in_tensor[1]->shape[2])
        return false;
    if (c->n_in > 3 && c->in_tensor[3])
        a.bias =
            c->in_tensor[3]->dtype == YK_BOOL ? yk_where(operand_at(c, 3), constant_of(c, 0), constant_of(c, -INFINITY)) : operand_at(c, 3);
    return case_done(c, yk_attention(operand_at(c, 0), operand_at(c, 1), operand_at(c, 2), &a));
}

/* ---- Shapes ---- */

static bool run_gather(vector_case *c)
{
    int64_t v[64];
    int n = operand_ints(c, 1, v, 64);
    if (strcmp(c->op, "Gather") || attr_number(c, "axis", 0) != 0 || !is_f32(c, 0) || n < 0)
        return false;
    for (int i = 0; i < n; i++)
        if (v[i] < 0)
            return false;
    return c->in_tensor[0]->rank == 2 && case_done(c, yk_embedding(operand_at(c, 1), operand_at(c, 0), -1));
}

static bool run_reshapes(vector_case *c)
{
    int64_t v[8];
    uint32_t order[8];
    const yk__safetensor *t = NULL;
    if (!is_f32(c, 0))
        return false;
    for (int64_t i = 0; i < yk__safetensors_count(c->file); i++)
        if (!strncmp(yk__safetensors_at(c->file, i)->name, "out.0.", 6))
            t = yk__safetensors_at(c->file, i);
    if (!t || t->elements == 0)
        return false;
    if (!strcmp(c->op, "Reshape") || !strcmp(c->op, "Flatten") || !strcmp(c->op, "Squeeze") || !strcmp(c->op, "Unsqueeze"))
        return case_done(c, yk_scale(yk_reshape(operand_at(c, 0), (uint32_t)t->rank, t->shape), 1));
    if (!strcmp(c->op, "Expand"))
        return case_done(c, yk_scale(yk_expand(operand_at(c, 0), (uint32_t)t->rank, t->shape), 1));
    if (strcmp(c->op, "Transpose"))
        return false;
    if (attr_list(c, "perm", v, 8) != t->rank)
        for (int i = 0; i < t->rank; i++)
            v[i] = t->rank - 1 - i;
    for (int i = 0; i < t->rank; i++)
        order[i] = (uint32_t)v[i];
    return case_done(c, yk_permute(operand_at(c, 0), order));
}

static bool run_concat(vector_case *c)
{
    yk_t x[VECTOR_MOST];
    if (strcmp(c->op, "Concat") || !is_f32(c, 0))
        return false;
    for (int i = 0; i < c->n_in; i++)
        x[i] = operand_at(c, i);
    return case_done(c, yk_concat(x, (uint32_t)c->n_in, (int32_t)attr_number(c, "axis", 0)));
}

static bool run_slice(vector_case *c)
{
    int64_t begin[8], end[8], axis[8], step[8];
    int n = operand_ints(c, 1, begin, 8), has_axes, has_steps;
    yk_t x;
    if (strcmp(c->op, "Slice") || n < 0 || operand_ints(c, 2, end, 8) != n || !is_f32(c, 0))
        return false;
    x = operand_at(c, 0);
    has_axes = operand_ints(c, 3, axis, 8);
    has_steps = operand_ints(c, 4, step, 8);
    for (int i = 0; i < n; i++) {
        const int64_t a = has_axes == n ? axis[i] : i, length = yk_dim(x, (int32_t)a), s = has_steps == n ? step[i] : 1;
        int64_t b = begin[i] < 0 ? begin[i] + length : begin[i], e = end[i] < 0 ? end[i] + length : end[i];
        e = e > length ? length : e;
        if (s < 1 || b >= e)
            return false;
        x = yk_slice(x, (int32_t)a, b, e, s);
    }
    return case_done(c, yk_scale(x, 1));
}

static bool run_pad(vector_case *c)
{
    int64_t v[16];
    int n = operand_ints(c, 1, v, 16);
    yk_t x;
    if (strcmp(c->op, "Pad") || strcmp(attr_text(c, "mode", "constant"), "constant") || !is_f32(c, 0) || c->n_in > 3)
        return false;
    x = operand_at(c, 0);
    if (n != 2 * (int)yk_dims(x))
        return false;
    for (int i = 0; i < n / 2; i++) {
        const yk__safetensor *t = c->n_in > 2 ? c->in_tensor[2] : NULL;
        yk_error err = YK_ERROR_INIT;
        const void *value = NULL;
        if (v[i] < 0 || v[i + n / 2] < 0 || (t && yk__safetensors_data(c->file, t, &value, &err)))
            return false;
        if (v[i] || v[i + n / 2])
            x = yk_pad(x, i, v[i], v[i + n / 2], value ? *(const float *)value : 0);
    }
    return case_done(c, x);
}

bool vector_build(vector_case *c)
{
    static bool (*const families[])(vector_case *c) = {
        run_unary,  run_binary,  run_variadic,  run_piecewise, run_cast,   run_reduce,   run_argmax, run_products, run_windows, batch_norm,
        layer_norm, run_softmax, cross_entropy, run_attention, run_gather, run_reshapes, run_concat, run_slice,    run_pad};
    for (size_t i = 0; i < sizeof families / sizeof families[0] && yk_ok(c->job); i++)
        if (families[i](c))
            return true;
    return false;
}
