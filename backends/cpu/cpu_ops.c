/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns a graph into a program of the CPU plugin: a table of planners, one for each operation. cpu_plugin.c calls cpu_op_claims and
 * cpu_prog_new for the host, in any thread.
 *
 * A planner adds the steps of one operation to a program. cpu_op_claims tells the core whether the plugin runs a node with these operands,
 * and which extras (YK_CLAIM_*) it offers. A primitive runs without a claim. The core replaces a composite without a claim by its body,
 * its definition in simpler operations.
 */
#include "backends/cpu/conv/cpu_conv.h"
#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/gemm/cpu_dot.h"
#include "backends/cpu/map/map.h"
#include "backends/cpu/nn/nn.h"
#include "plugins/kit/value.h"

typedef void (*planner)(cpu_build *build, const yk_node *node);

/* The planner of an operation; NULL for a composite that runs by its body, and for an operation of the core. A switch over ops, so that
 * the compiler reports a missing one. */
static planner planner_of(uint32_t op)
{
    switch ((yk_op)op) {
    case YK_OP_NEG: case YK_OP_ABS: case YK_OP_EXP: case YK_OP_LOG: case YK_OP_SQRT: case YK_OP_RSQRT:
    case YK_OP_RECIP: case YK_OP_TANH: case YK_OP_ERF: case YK_OP_CAST: case YK_OP_ADD: case YK_OP_SUB:
    case YK_OP_MUL: case YK_OP_DIV: case YK_OP_MAX: case YK_OP_MIN: case YK_OP_LT: case YK_OP_EQ: case YK_OP_SELECT:
    case YK_OP_MAP: case YK_OP_DROPOUT: case YK_OP_RELU: case YK_OP_RELU_BWD: case YK_OP_GELU: case YK_OP_GELU_BWD:
    case YK_OP_GELU_TANH: case YK_OP_GELU_TANH_BWD: case YK_OP_SILU: case YK_OP_SILU_BWD: case YK_OP_SIGMOID:
    case YK_OP_SIGMOID_BWD: case YK_OP_TANH_BWD:
        return cpu_plan_map;
    case YK_OP_FILL: case YK_OP_IOTA: case YK_OP_RNG: case YK_OP_COPY: case YK_OP_GATHER: case YK_OP_SCATTER_ADD:
        return cpu_plan_data;
    case YK_OP_SUM: case YK_OP_RMAX: case YK_OP_ARGMAX:
        return cpu_plan_reduce;
    case YK_OP_UNFOLD: case YK_OP_FOLD: case YK_OP_MAX_POOL: case YK_OP_MAX_POOL_BWD: case YK_OP_AVG_POOL:
    case YK_OP_AVG_POOL_BWD:
        return cpu_plan_pool;
    case YK_OP_DOT: case YK_OP_DOT_MAP:
        return cpu_plan_dot;
    case YK_OP_MAP_SUM:
        return cpu_plan_map_sum;
    case YK_OP_CONV2D: case YK_OP_CONV2D_DX: case YK_OP_CONV2D_DW:
        return cpu_plan_conv;
    case YK_OP_BN_STATS: case YK_OP_LAYER_NORM: case YK_OP_LAYER_NORM_BWD: case YK_OP_SOFTMAX: case YK_OP_SOFTMAX_BWD:
        return cpu_plan_norm;
    case YK_OP_ATTENTION: case YK_OP_ATTENTION_BWD:
        return cpu_plan_attention;
    case YK_OP_CROSS_ENTROPY: case YK_OP_CROSS_ENTROPY_BWD:
        return cpu_plan_loss;
    case YK_OP_ADAM_STEP: case YK_OP_SGD_STEP: case YK_OP_GRAD_STATS:
        return cpu_plan_optim;
    case YK_OP_ROUND8:
        return cpu_plan_round8;
    case YK_OP_SINH: case YK_OP_ALL_STATS: case YK_OP_ALL_REDUCE: case YK_OP_COUNT:
        break;
    }
    return NULL;
}

/* True if the inputs from number `from` on are dense. */
static bool all_dense(const yk_graph *graph, const yk_node *node, uint32_t from)
{
    for (uint32_t i = from; i < node->n_in; i++)
        if (!kit_value_dense(&graph->value[graph->index[node->in + i]]))
            return false;
    return true;
}

/* For attention. True if the last dimension of inputs from .. to-1 is dense, and every later input of fewer than 4 dimensions is dense. */
static bool last_dense(const yk_graph *graph, const yk_node *node, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        const yk_value *v = &graph->value[graph->index[node->in + i]];
        if (v->dim[3] != 1 && v->stride[3] != 1)
            return false;
    }
    for (uint32_t i = to; i < node->n_in; i++) { /* keep, key and rows; bias has 4 dimensions and any strides */
        const yk_value *v = &graph->value[graph->index[node->in + i]];
        if (v->dims < 4 && !kit_value_dense(v))
            return false;
    }
    return true;
}

static bool all_types(const yk_graph *graph, const yk_node *node)
{
    for (uint32_t i = 0; i < node->n_in + (uint32_t)node->n_out; i++) {
        uint32_t v = i < node->n_in ? graph->index[node->in + i] : graph->index[node->out + i - node->n_in];
        int t = graph->value[v].dtype;
        if (!cpu_is_float(t) && t != YK_I32 && t != YK_BOOL && t != YK_U8)
            return false;
    }
    return true;
}

/* A composite of no elements runs by its body. */
static bool any_empty(const yk_graph *graph, const yk_node *node)
{
    for (uint32_t i = 0; i < node->n_in; i++)
        if (!kit_value_count(&graph->value[graph->index[node->in + i]]))
            return true;
    return false;
}

/* YK_CLAIM_RUN: the device runs the node. The other bits (plugin.h) let the core ask for a sum onto the output (ACCUMULATE), an output of
 * 16 bits (NARROW_OUT), or an output that is a view (STRIDED_OUT). */
uint32_t cpu_op_claims(const yk_graph *graph, uint32_t number)
{
    const yk_node *node = &graph->node[number];
    const planner plan = planner_of(node->op);
    if (!plan || !all_types(graph, node) || any_empty(graph, node))
        return 0;
    switch (node->op) {
    case YK_OP_MAP:
    case YK_OP_MAP_SUM:
    case YK_OP_DOT_MAP:
        return node->n_out <= 4 && node->n_in <= 24 && node->n_body <= 200 ? YK_CLAIM_RUN : 0;
    case YK_OP_SCATTER_ADD: /* a primitive: the question is only if it can add */
        return all_dense(graph, node, 0) && graph->value[graph->index[node->out]].dtype == YK_F32
                   ? YK_CLAIM_RUN | YK_CLAIM_ACCUMULATE
                   : 0;
    case YK_OP_CONV2D_DW:
        return all_dense(graph, node, 0) ? YK_CLAIM_RUN | YK_CLAIM_ACCUMULATE : 0;
    case YK_OP_LAYER_NORM:
        return all_dense(graph, node, 0) ? YK_CLAIM_RUN | YK_CLAIM_NARROW_OUT : 0;
    case YK_OP_ATTENTION:
        return last_dense(graph, node, 0, 3) ? YK_CLAIM_RUN | YK_CLAIM_STRIDED_OUT : 0;
    case YK_OP_ATTENTION_BWD:
        return last_dense(graph, node, 0, 2) && kit_value_dense(&graph->value[graph->index[node->in + 2]]) &&
                       last_dense(graph, node, 3, 6)
                   ? YK_CLAIM_RUN | YK_CLAIM_STRIDED_OUT
                   : 0;
    case YK_OP_DROPOUT:
        return all_dense(graph, node, 0) ? YK_CLAIM_RUN : 0;
    case YK_OP_ROUND8: /* cpu_round8.c has kernels of f32 and bf16 alone; f16 runs by the body */
        return all_dense(graph, node, 0) && graph->value[graph->index[node->in]].dtype != YK_F16 ? YK_CLAIM_RUN : 0;
    case YK_OP_CROSS_ENTROPY_BWD: /* the gradient of a mean is one number for all rows */
        return all_dense(graph, node, 1) ? YK_CLAIM_RUN : 0;
    default:
        return plan == cpu_plan_map || all_dense(graph, node, 0) ? YK_CLAIM_RUN : 0;
    }
}

/* A planner may take later nodes into its step, so the loop goes on behind the last node taken. */
yk_status cpu_prog_new(const yk_graph *graph, const cpu_isa *isa, int workers, cpu_prog **out)
{
    cpu_build build;
    yk_status s = cpu_build_begin(&build, graph, isa, workers);
    if (s != YK_OK)
        return s;
    for (uint32_t i = 0; i < graph->n_node && build.status == YK_OK;) {
        const yk_node *node = &graph->node[i];
        const planner plan = planner_of(node->op);
        if (!plan)
            cpu_refuse(&build, node, "this plugin does not run it");
        else if (!all_types(graph, node))
            cpu_refuse(&build, node, "a type this plugin does not have (f32, f16, bf16, i32, u8, bool)");
        else
            i += cpu_build_node(&build, node, plan);
    }
    return cpu_build_end(&build, out);
}
