/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fourth plugin to copy: a device with a library of operators and no compiler (plugins/kit/kit_device.h). `node_known` says which nodes
 * the library computes; the kit gives each other primitive to the host's reference kernels. Here a few loops play the library: products,
 * and elementwise operations on dense f32.
 *
 * The functions of this device work at once. An asynchronous device makes its queue in stream_new; put, get and call enqueue and return;
 * `wait` drains the queue. A late failure is returned by `wait`, after kit_device_say in the thread that calls `wait`.
 *
 * Change these functions, in this order: device_describe, memory_take to memory_get, then node_known and node_call, one operation after
 * another. Run `yoke-cts --plugin ./yoke_blas.so` after each.
 */
#include <stdio.h>
#include <stdlib.h>

#include "plugins/kit/kit_device.h"
#include "plugins/kit/value.h"

#define MEMORY (1ull << 30) /* bytes of a device; the kit refuses buffers beyond them */
#define TERMS 32            /* of a sum in f32, before it goes to a double (YK_CAP_LONG_SUMS) */

static void device_describe(uint32_t i, yk_device_caps *caps, kit_target *target)
{
    /* YK_CAP_CPU: it computes on the host's cores. A device with its own chip must not set it. */
    (void)target;
    caps->flags = YK_CAP_DETERMINISTIC | YK_CAP_CPU | YK_CAP_LONG_SUMS;
    caps->mem_total = MEMORY;
    snprintf(caps->name, sizeof caps->name, "library of loops %u", i);
    snprintf(caps->isa, sizeof caps->isa, "loops");
}

/* ---- Memory: handles that the kit only passes on ---- */

static void *memory_take(void *device, uint64_t bytes)
{
    (void)device;
    return malloc(bytes);
}

static void memory_give(void *device, void *memory)
{
    (void)device;
    free(memory);
}

static yk_status memory_put(void *stream, void *memory, uint64_t at, const void *from, uint64_t bytes)
{
    (void)stream;
    memcpy((char *)memory + at, from, bytes);
    return YK_OK;
}

static yk_status memory_get(void *stream, void *memory, uint64_t at, void *to, uint64_t bytes)
{
    (void)stream;
    memcpy(to, (const char *)memory + at, bytes);
    return YK_OK;
}

/* ---- The library ---- */

/* c [m, n] = a x b, or added to it; steps between neighbours of a row and of a column, in elements */
static void product_compute(int64_t m, int64_t n, int64_t terms, const float *a, const int64_t a_step[2], const float *b,
                            const int64_t b_step[2], float *c, bool add)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = add ? c[i * n + j] : 0;
            for (int64_t k = 0; k < terms; k += TERMS) {
                float part = 0;
                for (int64_t t = k; t < terms && t < k + TERMS; t++)
                    part += a[i * a_step[0] + t * a_step[1]] * b[t * b_step[0] + j * b_step[1]];
                sum += part;
            }
            c[i * n + j] = (float)sum;
        }
}

static const yk_value *operand_value(const yk_graph *g, const yk_node *n, uint32_t i)
{
    return &g->value[g->index[i < n->n_in ? n->in + i : n->out + i - n->n_in]];
}

/* True only if node_call obeys the node's types, strides, attributes and n->flags (YK_NODE_ACCUMULATE: add to the output).
 * Operations of the library on f32; a product has two dimensions and an output that is dense, and may add to it. */
static bool node_known(void *device, const yk_graph *g, uint32_t node)
{
    const yk_node *n = &g->node[node];
    const bool product = n->op == YK_OP_DOT;
    (void)device;
    if (!product && n->op != YK_OP_ADD && n->op != YK_OP_MUL && n->op != YK_OP_RELU)
        return false;
    for (uint32_t i = 0; i < (uint32_t)n->n_in + n->n_out; i++) {
        const yk_value *v = operand_value(g, n, i);
        if (v->dtype != YK_F32 || (product && v->dims != 2) || (!kit_value_dense(v) && !(product && i < n->n_in)))
            return false;
    }
    return true;
}

static yk_status node_call(void *stream, const yk_graph *g, uint32_t node, const kit_argument *operand)
{
    const yk_node *n = &g->node[node];
    const yk_value *first = operand_value(g, n, 0), *out = operand_value(g, n, n->n_in);
    float *at[3] = {NULL, NULL, NULL};
    (void)stream;
    for (uint32_t i = 0; i < (uint32_t)n->n_in + n->n_out; i++)
        at[i] = (float *)((char *)operand[i].memory + operand[i].number.i64);
    if (n->op == YK_OP_DOT) {
        product_compute(out->dim[0], out->dim[1], first->dim[1], at[0], first->stride, at[1], operand_value(g, n, 1)->stride, at[2],
                        n->flags & YK_NODE_ACCUMULATE);
        return YK_OK;
    }
    float *y = at[n->n_in];
    for (int64_t i = 0; i < kit_value_count(out); i++)
        y[i] = n->op == YK_OP_ADD   ? at[0][i] + at[1][i]
               : n->op == YK_OP_MUL ? at[0][i] * at[1][i]
               : at[0][i] < 0       ? 0
                                    : at[0][i];
    return YK_OK;
}

static const kit_device device = {
    .name = "blas",
    .version = "1",
    .describe = device_describe,
    .alloc = memory_take,
    .free = memory_give,
    .put = memory_put,
    .get = memory_get,
    .has = node_known,
    .call = node_call,
};

KIT_DEVICE_EXPORT(device)
