/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs of the fake cuDNN: their rules, and computing them on the host in float, one head of a batch after the other. Virtual tensors
 * exist for one head, and are rounded to their type.
 */
#include "tests/fakes/libcudnn_graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cudnn.h"
#include "tests/fakes/beside.h"
#include "tests/support/f16.h"

/* Rules */

int fake_type_bytes(int type)
{
    switch (type) {
    case CUDNN_DATA_FLOAT:
    case CUDNN_DATA_INT32: return 4;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16: return 2;
    case CUDNN_DATA_BOOLEAN: return 1;
    default: return 0;
    }
}

int fake_graph_tensor(fake_dnn_graph *graph, const fake_tensor *tensor)
{
    int i = 0;
    while (i < graph->n_tensor && graph->tensor[i].uid != tensor->uid)
        i++;
    if (i == FAKE_TENSORS)
        return -1;
    fake_tensor *own = &graph->tensor[i];
    if (i == graph->n_tensor) {
        *own = *tensor;
        graph->n_tensor++;
    }
    return memcmp(own->dim, tensor->dim, sizeof own->dim) || memcmp(own->stride, tensor->stride, sizeof own->stride) ||
                   own->type != tensor->type || own->is_virtual != tensor->is_virtual || own->is_value != tensor->is_value
               ? -1
               : i;
}

/* Each dimension that of y, or 1. */
static bool tensor_spreads(const fake_tensor *x, const fake_tensor *y)
{
    bool fits = true;
    for (int d = 0; d < 4; d++)
        fits = fits && (x->dim[d] == y->dim[d] || x->dim[d] == 1);
    return fits;
}

static bool dims_are(const fake_tensor *x, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return x->dim[0] == a && x->dim[1] == b && x->dim[2] == c && x->dim[3] == d;
}

static const char *pointwise_wrong(const fake_step *s, const fake_tensor *x, const fake_tensor *b, const fake_tensor *t,
                                   const fake_tensor *y)
{
    const bool one = s->mode == CUDNN_POINTWISE_EXP || s->mode == CUDNN_POINTWISE_LOG || s->mode == CUDNN_POINTWISE_GEN_INDEX;
    const bool test = s->mode == CUDNN_POINTWISE_BINARY_SELECT;
    if (!b != one || !t == test)
        return "operands of a pointwise operation";
    if (!tensor_spreads(x, y) || (b && !tensor_spreads(b, y)) || (t && !tensor_spreads(t, y)))
        return "shapes of a pointwise operation";
    if ((t && t->type != CUDNN_DATA_BOOLEAN) || (s->mode == CUDNN_POINTWISE_CMP_GE) != (y->type == CUDNN_DATA_BOOLEAN) ||
        (s->mode == CUDNN_POINTWISE_GEN_INDEX) != (y->type == CUDNN_DATA_INT32))
        return "types of a pointwise operation";
    if (s->mode == CUDNN_POINTWISE_GEN_INDEX && (s->axis < 2 || s->axis > 3 || !dims_are(x, y->dim[0], y->dim[1], y->dim[2], y->dim[3])))
        return "the axis of an index";
    return NULL;
}

static const char *matmul_wrong(const fake_tensor *a, const fake_tensor *b, const fake_tensor *c)
{
    return a->dim[3] == b->dim[2] && dims_are(a, c->dim[0], c->dim[1], c->dim[2], a->dim[3]) &&
                   dims_are(b, c->dim[0], c->dim[1], b->dim[2], c->dim[3])
               ? NULL
               : "shapes of a product";
}

static const char *reshape_wrong(const fake_tensor *x, const fake_tensor *y)
{
    return dims_are(y, x->dim[0], x->dim[1], x->dim[3], x->dim[2]) && y->stride[0] == x->stride[0] && y->stride[1] == x->stride[1] &&
                   y->stride[2] == x->stride[3] && y->stride[3] == x->stride[2]
               ? NULL
               : "a reshape that does not swap the last two dimensions";
}

static const char *step_wrong(const fake_step *s, const fake_tensor *const in[3], const fake_tensor *y)
{
    switch (s->kind) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: return matmul_wrong(in[0], in[1], y);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return dims_are(y, in[0]->dim[0], in[0]->dim[1], in[0]->dim[2], 1) ? NULL : "shapes of a reduction";
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: return reshape_wrong(in[0], y);
    default: return pointwise_wrong(s, in[0], in[1], in[2], y);
    }
}

const char *fake_graph_put(fake_dnn_graph *graph, const fake_step *step)
{
    fake_tensor *y = step->out < 0 ? NULL : &graph->tensor[step->out];
    if (graph->n_step == FAKE_STEPS || !y)
        return "too many operations or tensors, or two tensors of one number";
    for (int i = 0; i < 3; i++)
        if (step->in[i] >= 0 && graph->tensor[step->in[i]].is_virtual && !graph->tensor[step->in[i]].is_made)
            return "a virtual tensor that nobody made before it is read";
    if (y->is_made || y->is_value)
        return y->is_value ? "a number as a result" : "a tensor that is written twice";
    y->is_made = true;
    graph->step[graph->n_step++] = *step;
    return NULL;
}

const char *fake_graph_add(fake_dnn_graph *graph, const fake_step *step)
{
    const fake_tensor *in[3] = {NULL, NULL, NULL};
    const char *why = fake_graph_put(graph, step);
    for (int i = 0; i < 3 && !why; i++)
        in[i] = step->in[i] < 0 ? NULL : &graph->tensor[step->in[i]];
    return why ? why : step_wrong(step, in, &graph->tensor[step->out]);
}

int64_t fake_graph_head(const fake_dnn_graph *graph)
{
    for (int i = 0; i < graph->n_step; i++)
        if (graph->step[i].kind == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
            return graph->tensor[graph->step[i].in[0]].dim[3];
    return 0;
}

/* ---- Numbers ---- */

static uint16_t brain_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)(isnan(f) ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float brain_value(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static float number_round(float f, int type)
{
    switch (type) {
    case CUDNN_DATA_HALF: return (float)f16_value(f16_bits(f));
    case CUDNN_DATA_BFLOAT16: return brain_value(brain_bits(f));
    case CUDNN_DATA_INT32: return truncf(f);
    case CUDNN_DATA_BOOLEAN: return f != 0.0f;
    default: return f;
    }
}

float fake_number_load(const char *at, int type)
{
    uint16_t half;
    float f;
    if (type == CUDNN_DATA_FLOAT) {
        memcpy(&f, at, sizeof f);
        return f;
    }
    memcpy(&half, at, sizeof half);
    return type == CUDNN_DATA_HALF ? (float)f16_value(half) : brain_value(half);
}

void fake_number_store(char *at, int type, float f)
{
    const uint16_t half = type == CUDNN_DATA_HALF ? f16_bits(f) : brain_bits(f);
    if (type == CUDNN_DATA_FLOAT)
        memcpy(at, &f, sizeof f);
    else
        memcpy(at, &half, sizeof half);
}

/* ---- Computing a head; x: by tensor, its rows and columns side by side ---- */

static int64_t head_count(const fake_tensor *t)
{
    return t->dim[2] * t->dim[3];
}

/* Between memory and a head's numbers. */
TEST_LOOPS static void head_move(const fake_tensor *t, char *memory, float *x, int64_t batch, int64_t head, bool store)
{
    const int64_t from = batch * t->stride[0] + head * t->stride[1];
    for (int64_t i = 0; i < t->dim[2]; i++)
        for (int64_t j = 0; j < t->dim[3]; j++) {
            char *at = memory + (from + i * t->stride[2] + j * t->stride[3]) * fake_type_bytes(t->type);
            if (store)
                fake_number_store(at, t->type, x[i * t->dim[3] + j]);
            else
                x[i * t->dim[3] + j] = fake_number_load(at, t->type);
        }
}

TEST_LOOPS static void matmul_run(const fake_tensor *ta, const float *a, const fake_tensor *tb, const float *b, float *c)
{
    const int64_t rows = ta->dim[2], terms = ta->dim[3], cols = tb->dim[3];
    memset(c, 0, (size_t)(rows * cols) * sizeof *c);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < terms; k++)
            for (int64_t j = 0; j < cols; j++)
                c[i * cols + j] += a[i * terms + k] * b[k * cols + j];
}

TEST_LOOPS static void reduction_run(int mode, const fake_tensor *tx, const float *x, float *y)
{
    for (int64_t i = 0; i < tx->dim[2]; i++) {
        y[i] = mode == CUDNN_REDUCE_TENSOR_MAX ? -INFINITY : 0;
        for (int64_t j = 0; j < tx->dim[3]; j++) {
            const float f = x[i * tx->dim[3] + j];
            y[i] = mode == CUDNN_REDUCE_TENSOR_MAX ? fmaxf(y[i], f) : y[i] + f;
        }
    }
}

static float pointwise_value(const fake_step *s, float x, float b, float t, const int64_t at[2])
{
    switch (s->mode) {
    case CUDNN_POINTWISE_ADD: return x + b;
    case CUDNN_POINTWISE_MUL: return x * b;
    case CUDNN_POINTWISE_DIV: return x / b;
    case CUDNN_POINTWISE_SUB: return x - b;
    case CUDNN_POINTWISE_EXP: return expf(x);
    case CUDNN_POINTWISE_LOG: return logf(x);
    case CUDNN_POINTWISE_GEN_INDEX: return (float)at[s->axis - 2];
    case CUDNN_POINTWISE_CMP_GE: return x >= b;
    default: return t != 0.0f ? x : b;
    }
}

/* Element (i, j) of an operand, whose dimensions may be 1; 0: there is none. */
static float operand_at(const fake_dnn_graph *g, float *const *x, int which, int64_t i, int64_t j)
{
    if (which < 0)
        return 0;
    const fake_tensor *t = &g->tensor[which];
    return x[which][(t->dim[2] == 1 ? 0 : i) * t->dim[3] + (t->dim[3] == 1 ? 0 : j)];
}

TEST_LOOPS static void pointwise_run(const fake_dnn_graph *g, const fake_step *s, float *const *x)
{
    const fake_tensor *y = &g->tensor[s->out];
    for (int64_t i = 0; i < y->dim[2]; i++)
        for (int64_t j = 0; j < y->dim[3]; j++)
            x[s->out][i * y->dim[3] + j] = pointwise_value(s, operand_at(g, x, s->in[0], i, j), operand_at(g, x, s->in[1], i, j),
                                                           operand_at(g, x, s->in[2], i, j), (const int64_t[]){i, j});
}

TEST_LOOPS static void step_run(const fake_dnn_graph *g, const fake_step *s, float *const *x)
{
    const fake_tensor *in = &g->tensor[s->in[0]], *y = &g->tensor[s->out];
    if (s->kind == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
        matmul_run(in, x[s->in[0]], &g->tensor[s->in[1]], x[s->in[1]], x[s->out]);
    else if (s->kind == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
        reduction_run(s->mode, in, x[s->in[0]], x[s->out]);
    else if (s->kind == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
        pointwise_run(g, s, x);
    else
        for (int64_t i = 0; i < head_count(in); i++)
            x[s->out][i % in->dim[3] * in->dim[2] + i / in->dim[3]] = x[s->in[0]][i];
    for (int64_t i = 0; i < head_count(y); i++)
        x[s->out][i] = number_round(x[s->out][i], y->type);
}

static void head_run(const fake_dnn_graph *g, char *const *at, float *const *x, int64_t batch, int64_t head)
{
    for (int i = 0; i < g->n_tensor; i++)
        if (!g->tensor[i].is_virtual && !g->tensor[i].is_value && !g->tensor[i].is_made)
            head_move(&g->tensor[i], at[i], x[i], batch, head, false);
    for (int i = 0; i < g->n_step; i++)
        step_run(g, &g->step[i], x);
    for (int i = 0; i < g->n_tensor; i++)
        if (!g->tensor[i].is_virtual && g->tensor[i].is_made)
            head_move(&g->tensor[i], at[i], x[i], batch, head, true);
}

void fake_graph_run(const fake_dnn_graph *g, char *const at[FAKE_TENSORS], const float value[FAKE_TENSORS])
{
    float *x[FAKE_TENSORS];
    int64_t batch = 0, heads = 0;
    for (int i = 0; i < g->n_tensor; i++) {
        x[i] = calloc((size_t)head_count(&g->tensor[i]), sizeof *x[i]);
        if (g->tensor[i].is_value)
            x[i][0] = value[i];
        batch = batch < g->tensor[i].dim[0] ? g->tensor[i].dim[0] : batch;
        heads = heads < g->tensor[i].dim[1] ? g->tensor[i].dim[1] : heads;
    }
    for (int64_t z = 0; z < batch * heads; z++)
        head_run(g, at, x, z / heads, z % heads);
    for (int i = 0; i < g->n_tensor; i++)
        free(x[i]);
}
