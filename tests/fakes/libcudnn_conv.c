/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of the fake cuDNN and their gradients: their rules, and computing them on the host in float. */
#include "tests/fakes/libcudnn_conv.h"

#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cudnn.h"
#include "tests/fakes/beside.h"

/* x, w and y of a convolution, whichever of them is the result; lengths of what is in a group. */
typedef struct conv {
    const fake_step *step;
    const fake_tensor *x, *w, *y;
    float *xs, *ws, *ys;
    int64_t groups, channels, filters; /* channels, filters: of a group */
} conv;

bool fake_step_is_conv(const fake_step *s)
{
    return s->kind >= CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR &&
           s->kind <= CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
}

/* Its tensors' numbers, as x, w, y. */
static void conv_order(const fake_step *s, int at[3])
{
    const bool data = s->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
    const bool filter = s->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
    at[0] = data ? s->out : s->in[0];
    at[1] = filter ? s->out : s->in[1];
    at[2] = data || filter ? s->in[2] : s->out;
}

static conv conv_of(const fake_dnn_graph *g)
{
    int at[3];
    conv_order(&g->step[0], at);
    conv c = {.step = &g->step[0], .x = &g->tensor[at[0]], .w = &g->tensor[at[1]], .y = &g->tensor[at[2]]};
    c.groups = c.x->dim[1] / c.w->dim[1];
    c.channels = c.w->dim[1];
    c.filters = c.groups ? c.w->dim[0] / c.groups : 0;
    return c;
}

static const char *conv_wrong(const fake_dnn_graph *g)
{
    const conv c = conv_of(g);
    const fake_step *s = c.step;
    if (g->n_step != 1 || c.x->is_virtual || c.w->is_virtual || c.y->is_virtual || c.x->is_value || c.w->is_value || c.y->is_value)
        return "a convolution that is not alone";
    if (c.x->dim[0] != c.y->dim[0] || c.x->dim[1] % c.w->dim[1] || c.w->dim[0] != c.y->dim[1] || c.w->dim[0] % c.groups)
        return "images, channels or groups of a convolution";
    for (int d = 0; d < 2; d++) {
        const int64_t taps = s->conv.dilation[d] * (c.w->dim[2 + d] - 1) + 1, all = c.x->dim[2 + d] + 2 * s->conv.zeros[d];
        if (s->conv.stride[d] < 1 || s->conv.dilation[d] < 1 || s->conv.zeros[d] < 0 || all < taps ||
            c.y->dim[2 + d] != (all - taps) / s->conv.stride[d] + 1)
            return "rows or columns of a convolution";
    }
    return s->conv.alpha != 1 || (s->conv.beta != 0 && s->conv.beta != 1) ? "alpha or beta of a convolution" : NULL;
}

const char *fake_conv_add(fake_dnn_graph *graph, const fake_step *step)
{
    const char *why = fake_graph_put(graph, step);
    return why ? why : conv_wrong(graph);
}

bool fake_conv_types(const fake_dnn_graph *g)
{
    const conv c = conv_of(g);
    return c.x->type == c.y->type && c.w->type == c.y->type;
}

/* ---- Computing ---- */

static int64_t count_of(const fake_tensor *t)
{
    return t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
}

static char *place_of(const fake_tensor *t, char *memory, int64_t i)
{
    int64_t at = 0;
    for (int d = 3; d >= 0; d--) {
        at += i % t->dim[d] * t->stride[d];
        i /= t->dim[d];
    }
    return memory + at * fake_type_bytes(t->type);
}

/* To 10 bits of mantissa, as tensor cores take an f32. */
static float number_tf32(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
    memcpy(&f, &bits, sizeof bits);
    return f;
}

TEST_LOOPS static float *numbers_load(const fake_tensor *t, char *memory, bool rounds)
{
    const int64_t n = count_of(t);
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        x[i] = fake_number_load(place_of(t, memory, i), t->type);
        if (rounds)
            x[i] = number_tf32(x[i]);
    }
    return x;
}

TEST_LOOPS static void numbers_store(const fake_tensor *t, char *memory, const float *x)
{
    const int64_t n = count_of(t);
    for (int64_t i = 0; i < n; i++)
        fake_number_store(place_of(t, memory, i), t->type, x[i]);
}

/* A tap of a filter over the planes that it is between; one of x, w, y is added to. */
TEST_LOOPS static void tap_run(const conv *c, float *x, float *w, float *y, int64_t tap_row, int64_t tap_col)
{
    const fake_conv *of = &c->step->conv;
    const int64_t height = c->x->dim[2], width = c->x->dim[3], cols = c->y->dim[3];
    const int64_t right = tap_col * of->dilation[1] - of->zeros[1], step = of->stride[1];
    const int64_t from = right < 0 ? (-right + step - 1) / step : 0, beyond = width - right > 0 ? (width - right + step - 1) / step : 0;
    const int64_t to = beyond < cols ? beyond : cols;
    const int kind = c->step->kind;
    for (int64_t i = 0; i < c->y->dim[2]; i++) {
        const int64_t row = i * of->stride[0] + tap_row * of->dilation[0] - of->zeros[0];
        float *xr = x + row * width + right, *yr = y + i * cols, sum = 0;
        if (row < 0 || row >= height)
            continue;
        if (kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
            for (int64_t j = from; j < to; j++)
                yr[j] += *w * xr[j * step];
        else if (kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
            for (int64_t j = from; j < to; j++)
                xr[j * step] += *w * yr[j];
        else
            for (int64_t j = from; j < to; j++)
                sum += xr[j * step] * yr[j];
        if (kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
            *w += sum;
    }
}

/* All taps between an image's channel and a filter of the same group. */
static void planes_run(const conv *c, int64_t image, int64_t channel, int64_t filter)
{
    const int64_t of_group = channel % c->channels, tall = c->w->dim[2], wide = c->w->dim[3];
    float *x = c->xs + (image * c->x->dim[1] + channel) * c->x->dim[2] * c->x->dim[3];
    float *y = c->ys + (image * c->y->dim[1] + filter) * c->y->dim[2] * c->y->dim[3];
    float *w = c->ws + (filter * c->channels + of_group) * tall * wide;
    for (int64_t tap = 0; tap < tall * wide; tap++)
        tap_run(c, x, w + tap, y, tap / wide, tap % wide);
}

void fake_conv_run(const fake_dnn_graph *g, char *const at[FAKE_TENSORS], bool rounds)
{
    int order[3];
    conv c = conv_of(g);
    float *numbers[3];
    conv_order(c.step, order);
    for (int i = 0; i < 3; i++) {
        const fake_tensor *t = &g->tensor[order[i]];
        numbers[i] = numbers_load(t, at[order[i]], rounds && order[i] != c.step->out);
        if (order[i] == c.step->out && c.step->conv.beta == 0)
            memset(numbers[i], 0, (size_t)count_of(t) * sizeof **numbers);
    }
    c.xs = numbers[0], c.ws = numbers[1], c.ys = numbers[2];
    for (int64_t image = 0; image < c.x->dim[0]; image++)
        for (int64_t filter = 0; filter < c.w->dim[0]; filter++)
            for (int64_t i = 0; i < c.channels; i++)
                planes_run(&c, image, filter / c.filters * c.channels + i, filter);
    for (int i = 0; i < 3; i++) {
        if (order[i] == c.step->out)
            numbers_store(&g->tensor[order[i]], at[order[i]], numbers[i]);
        free(numbers[i]);
    }
}
