/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluation of the primitives, activations and dropout in float64, a small function each. Tests, yoke-cts and the start-up probe compare
 * devices with it. A plugin calls it by host->eval_node for an operation that its device lacks.
 *
 * eval.c calls it through the table of operations (op_table.h), with operands read into dense arrays of doubles; any thread. It passes
 * results y filled with zeros, and rounds each result to its type when it writes it to memory. eval_attention.c also calls
 * yk__eval_uniform, for dropout. Sums add in order, and random numbers come from core/base/philox.c.
 */
#include "core/graph/graph_internal.h"

#include <math.h>
#include <string.h>

#include "core/base/philox.h"

#define PI 3.14159265358979323846

static double sigmoid_of(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

static yk_status unary_run(yk__eval *e, double (*value)(double))
{
    for (int64_t i = 0; i < yk__value_count(e->y_value[0]); i++)
        e->y[0][i] = value(e->x[0][i]);
    return YK_OK;
}

/* The evaluation of y = f(x). */
#define UNARY(name, f)                        \
    static double value_##name(double x)      \
    {                                         \
        return f;                             \
    }                                         \
    yk_status yk__eval_##name(yk__eval *e)    \
    {                                         \
        return unary_run(e, value_##name);    \
    }

UNARY(neg, -x)
UNARY(abs, fabs(x))
UNARY(exp, exp(x))
UNARY(log, log(x))
UNARY(sqrt, sqrt(x))
UNARY(rsqrt, 1 / sqrt(x))
UNARY(recip, 1 / x)
UNARY(tanh, tanh(x))
UNARY(erf, erf(x))
UNARY(relu, x > 0 || isnan(x) ? x : 0)
UNARY(gelu, 0.5 * x * erfc(-x / sqrt(2)))
UNARY(gelu_tanh, 0.5 * x * (1 + tanh(sqrt(2 / PI) * (x + 0.044715 * x * x * x))))
UNARY(silu, x * sigmoid_of(x))
UNARY(sigmoid, sigmoid_of(x))
UNARY(sinh, sinh(x))

yk_status yk__eval_relu_bwd(yk__eval *e) /* no product with 0: an infinite or NaN gy must not reach gx where x is at most 0 */
{
    for (int64_t i = 0; i < yk__value_count(e->y_value[0]); i++)
        e->y[0][i] = e->x[0][i] > 0 ? e->x[1][i] : 0;
    return YK_OK;
}

static yk_status slope_run(yk__eval *e, double (*slope)(double))
{
    for (int64_t i = 0; i < yk__value_count(e->y_value[0]); i++)
        e->y[0][i] = e->x[1][i] * slope(e->x[0][i]);
    return YK_OK;
}

/* The evaluation of gx = gy f'(x). */
#define SLOPE(name, f)                        \
    static double slope_##name(double x)      \
    {                                         \
        return f;                             \
    }                                         \
    yk_status yk__eval_##name(yk__eval *e)    \
    {                                         \
        return slope_run(e, slope_##name);    \
    }

static double gelu_tanh_slope(double x)
{
    const double t = tanh(sqrt(2 / PI) * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / PI) * (1 + 3 * 0.044715 * fmin(x * x, 1e36)); /* fmin avoids 0 * infinity */
}

SLOPE(gelu_bwd, 0.5 * erfc(-x / sqrt(2)) + x * exp(-0.5 * x * x) / sqrt(2 * PI))
SLOPE(gelu_tanh_bwd, gelu_tanh_slope(x))
SLOPE(silu_bwd, sigmoid_of(x) * (1 + x * (1 - sigmoid_of(x))))
SLOPE(sigmoid_bwd, x * (1 - x)) /* operand 0 of sigmoid_bwd and tanh_bwd is the result f(x), not x */
SLOPE(tanh_bwd, 1 - x * x)

/* Integers wrap as the machine's do. A float is truncated and clamped to the type's range; NaN gives 0. */
static double to_int(double x, bool from_float, double low, double high, double span)
{
    if (!from_float) {
        x = fmod(x - low, span);
        return (x < 0 ? x + span : x) + low;
    }
    x = trunc(x);
    return isnan(x) ? 0 : x < low ? low : x > high ? high : x + 0.0;
}

yk_status yk__eval_cast(yk__eval *e)
{
    const uint32_t to = e->y_value[0]->dtype;
    const bool from_float = yk__dtype_is_float(e->x_value[0]->dtype);
    for (int64_t i = 0; i < yk__value_count(e->y_value[0]); i++) {
        double x = e->x[0][i];
        if (to == YK_BOOL)
            x = x != 0;
        else if (to == YK_I32)
            x = to_int(x, from_float, INT32_MIN, INT32_MAX, 4294967296.0);
        else if (to == YK_U8)
            x = to_int(x, from_float, 0, 255, 256);
        e->y[0][i] = x;
    }
    return YK_OK;
}

yk_status yk__eval_copy(yk__eval *e)
{
    memcpy(e->y[0], e->x[0], (size_t)yk__value_count(e->y_value[0]) * sizeof(double));
    return YK_OK;
}

/* i32 arithmetic wraps around. */
static double wrap_int(int64_t x)
{
    return (double)(int32_t)(uint32_t)(uint64_t)x;
}

static yk_status binary_run(yk__eval *e, double (*on_float)(double, double), double (*on_int)(int64_t, int64_t))
{
    const bool whole = e->x_value[0]->dtype == YK_I32;
    for (int64_t i = 0; i < yk__value_count(e->y_value[0]); i++) {
        const double a = e->x[0][i], b = e->x[1][i];
        e->y[0][i] = whole ? on_int((int64_t)a, (int64_t)b) : on_float(a, b);
    }
    return YK_OK;
}

/* BINARY evaluates y = f(a, b): on_i32 for i32, f for every other type. */
#define BINARY(name, f, on_i32)                              \
    static double float_##name(double a, double b)           \
    {                                                        \
        return f;                                            \
    }                                                        \
    static double int_##name(int64_t a, int64_t b)           \
    {                                                        \
        return on_i32;                                       \
    }                                                        \
    yk_status yk__eval_##name(yk__eval *e)                   \
    {                                                        \
        return binary_run(e, float_##name, int_##name);      \
    }

BINARY(add, a + b, wrap_int(a + b))
BINARY(sub, a - b, wrap_int(a - b))
BINARY(mul, a * b, wrap_int(a * b))
BINARY(div, a / b, wrap_int(b ? a / b : 0)) /* i32 division truncates, and gives 0 for a divisor of 0 */
BINARY(max, isnan(a) ? a : isnan(b) ? b : a > b ? a : b, (double)(a > b ? a : b))
BINARY(min, isnan(a) ? a : isnan(b) ? b : a < b ? a : b, (double)(a < b ? a : b))
BINARY(lt, a < b, a < b)
BINARY(eq, a == b, a == b)

yk_status yk__eval_select(yk__eval *e)
{
    for (int64_t i = 0; i < yk__value_count(e->y_value[0]); i++)
        e->y[0][i] = e->x[0][i] != 0 ? e->x[1][i] : e->x[2][i];
    return YK_OK;
}

yk_status yk__eval_fill(yk__eval *e)
{
    for (int64_t i = 0; i < yk__value_count(e->y_value[0]); i++)
        e->y[0][i] = yk_attr_f64(e->attr[0]);
    return YK_OK;
}

/* Product of the lengths behind an axis: the distance of two neighbours along it. */
static int64_t inner_length(const yk_value *v, int64_t axis)
{
    int64_t n = 1;
    for (uint32_t i = (uint32_t)axis + 1; i < v->dims; i++)
        n *= v->dim[i];
    return n;
}

yk_status yk__eval_iota(yk__eval *e)
{
    const int64_t step = inner_length(e->y_value[0], e->attr[0]), n = e->y_value[0]->dim[e->attr[0]];
    for (int64_t i = 0; i < yk__value_count(e->y_value[0]); i++)
        e->y[0][i] = (double)(i / step % n);
    return YK_OK;
}

double yk__eval_uniform(const double *key, const double *rows, int64_t n_rows, int64_t n, uint32_t stream, int64_t e)
{
    const int64_t width = n / n_rows;
    const uint64_t c = (uint64_t)((int64_t)rows[e / width] * width + e % width);
    const uint32_t counter[4] = {(uint32_t)(c / 4), (uint32_t)(c / 4 >> 32), stream, (uint32_t)(int32_t)key[2]};
    const uint32_t k[2] = {(uint32_t)(int32_t)key[0], (uint32_t)(int32_t)key[1]};
    uint32_t w[4];
    yk__philox(counter, k, w);
    return (w[c % 4] >> 8) * 0x1p-24;
}

yk_status yk__eval_rng(yk__eval *e)
{
    const int64_t n = yk__value_count(e->y_value[0]);
    for (int64_t i = 0; i < n; i++)
        e->y[0][i] = yk__eval_uniform(e->x[0], e->x[1], e->x_value[1]->dim[0], n, (uint32_t)e->attr[0], i);
    return YK_OK;
}

yk_status yk__eval_dropout(yk__eval *e)
{
    const int64_t n = yk__value_count(e->y_value[0]);
    const double p = yk_attr_f64(e->attr[0]);
    for (int64_t i = 0; i < n; i++) {
        double u = yk__eval_uniform(e->x[1], e->x[2], e->x_value[2]->dim[0], n, (uint32_t)e->attr[1], i);
        e->y[0][i] = u >= p ? e->x[0][i] / (1 - p) : 0;
    }
    return YK_OK;
}

/* Index in y of element i of x; y has length 1 on the masked axes. */
static int64_t reduced_index(const yk_value *x, int64_t mask, int64_t i)
{
    int64_t o = 0, step = 1;
    for (uint32_t a = x->dims; a-- > 0; i /= x->dim[a]) {
        if (mask >> a & 1)
            continue;
        o += i % x->dim[a] * step;
        step *= x->dim[a];
    }
    return o;
}

yk_status yk__eval_reduce(yk__eval *e)
{
    const bool max = e->op == YK_OP_RMAX;
    for (int64_t i = 0; max && i < yk__value_count(e->y_value[0]); i++)
        e->y[0][i] = -INFINITY;
    for (int64_t i = 0; i < yk__value_count(e->x_value[0]); i++) {
        double *y = &e->y[0][reduced_index(e->x_value[0], e->attr[0], i)];
        *y = max ? float_max(*y, e->x[0][i]) : *y + e->x[0][i];
    }
    return YK_OK;
}

yk_status yk__eval_argmax(yk__eval *e)
{
    const int64_t step = inner_length(e->x_value[0], e->attr[0]), n = e->x_value[0]->dim[e->attr[0]];
    for (int64_t i = 0; i < yk__value_count(e->y_value[0]); i++) {
        const double *x = e->x[0] + i / step * step * n + i % step;
        int64_t best = 0;
        for (int64_t k = 1; k < n; k++)
            if (x[k * step] > x[best * step] || (isnan(x[k * step]) && !isnan(x[best * step])))
                best = k;
        e->y[0][i] = (double)best;
    }
    return YK_OK;
}

yk_status yk__eval_gather(yk__eval *e)
{
    const int64_t width = inner_length(e->x_value[0], 0), rows = e->x_value[0]->dim[0];
    for (int64_t i = 0; i < e->x_value[1]->dim[0]; i++) {
        int64_t k = (int64_t)e->x[1][i];
        if (k >= 0 && k < rows)
            memcpy(e->y[0] + i * width, e->x[0] + k * width, (size_t)width * sizeof(double));
    }
    return YK_OK;
}

yk_status yk__eval_scatter_add(yk__eval *e)
{
    const int64_t width = inner_length(e->x_value[0], 0), rows = e->y_value[0]->dim[0];
    for (int64_t i = 0; i < e->x_value[1]->dim[0]; i++) {
        int64_t k = (int64_t)e->x[1][i];
        for (int64_t j = 0; k >= 0 && k < rows && j < width; j++)
            e->y[0][k * width + j] += e->x[0][i * width + j];
    }
    return YK_OK;
}

/* The pixel of image `v` that entry i of the unfolded form stands for; -1 for padding. */
static int64_t unfold_pixel(const yk_value *v, const int64_t *a, int64_t i)
{
    const int64_t h = v->dim[2], w = v->dim[3];
    const int64_t oh = yk__window_out(h, a[0], a[2], a[4], a[6]), ow = yk__window_out(w, a[1], a[3], a[5], a[7]);
    const int64_t q = i % ow, p = i / ow % oh, kw = i / ow / oh % a[1], kh = i / ow / oh / a[1] % a[0];
    const int64_t plane = i / ow / oh / a[1] / a[0];
    const int64_t y = p * a[2] - a[4] + kh * a[6], x = q * a[3] - a[5] + kw * a[7];
    return y < 0 || y >= h || x < 0 || x >= w ? -1 : (plane * h + y) * w + x;
}

yk_status yk__eval_unfold(yk__eval *e)
{
    for (int64_t i = 0; i < yk__value_count(e->y_value[0]); i++) {
        int64_t at = unfold_pixel(e->x_value[0], e->attr, i);
        e->y[0][i] = at < 0 ? yk_attr_f64(e->attr[8]) : e->x[0][at];
    }
    return YK_OK;
}

yk_status yk__eval_fold(yk__eval *e)
{
    for (int64_t i = 0; i < yk__value_count(e->x_value[0]); i++) {
        int64_t at = unfold_pixel(e->y_value[0], e->attr, i);
        if (at >= 0)
            e->y[0][at] += e->x[0][i];
    }
    return YK_OK;
}

/* y += a x, of n numbers */
static void row_add(int64_t n, double *restrict y, double a, const double *restrict x)
{
    for (int64_t j = 0; j < n; j++)
        y[j] += a * x[j];
}

yk_status yk__eval_dot(yk__eval *e)
{
    const uint32_t r = e->x_value[0]->dims;
    const int64_t m = e->x_value[0]->dim[r - 2], k = e->x_value[0]->dim[r - 1], n = e->x_value[1]->dim[r - 1];
    const int64_t batch = r == 3 ? e->x_value[0]->dim[0] : 1;
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t l = 0; l < k; l++)
                row_add(n, e->y[0] + (b * m + i) * n, e->x[0][(b * m + i) * k + l], e->x[1] + (b * k + l) * n);
    return YK_OK;
}
