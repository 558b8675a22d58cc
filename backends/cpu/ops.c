/* SPDX-License-Identifier: Apache-2.0 */
/* Which operations the plugin runs, by whose planner, with which operands; and the program that a graph becomes. */
#include "backends/cpu/conv/conv.h"
#include "backends/cpu/gemm/dot.h"
#include "backends/cpu/map/map.h"
#include "backends/cpu/nn/nn.h"
#include "backends/cpu/ops.h"
#include "plugins/kit/value.h"

typedef void (*planner)(cpu_build *build, const yk_node *node);

static const planner planners[YK_OP_COUNT] = {
    [YK_OP_NEG ... YK_OP_SELECT] = cpu_plan_map,
    [YK_OP_FILL] = cpu_plan_data,
    [YK_OP_IOTA] = cpu_plan_data,
    [YK_OP_RNG] = cpu_plan_data,
    [YK_OP_SUM] = cpu_plan_reduce,
    [YK_OP_RMAX] = cpu_plan_reduce,
    [YK_OP_ARGMAX] = cpu_plan_reduce,
    [YK_OP_COPY ... YK_OP_SCATTER_ADD] = cpu_plan_data,
    [YK_OP_UNFOLD] = cpu_plan_pool,
    [YK_OP_FOLD] = cpu_plan_pool,
    [YK_OP_DOT] = cpu_plan_dot,
    [YK_OP_MAP] = cpu_plan_map,
    [YK_OP_DOT_MAP] = cpu_plan_dot,
    [YK_OP_MAP_SUM] = cpu_plan_map_sum,
    [YK_OP_CONV2D ... YK_OP_CONV2D_DW] = cpu_plan_conv,
    [YK_OP_MAX_POOL ... YK_OP_AVG_POOL_BWD] = cpu_plan_pool,
    [YK_OP_BN_STATS ... YK_OP_SOFTMAX_BWD] = cpu_plan_norm,
    [YK_OP_ATTENTION] = cpu_plan_attention,
    [YK_OP_ATTENTION_BWD] = cpu_plan_attention,
    [YK_OP_CROSS_ENTROPY] = cpu_plan_loss,
    [YK_OP_CROSS_ENTROPY_BWD] = cpu_plan_loss,
    [YK_OP_DROPOUT] = cpu_plan_map,
    [YK_OP_RELU ... YK_OP_TANH_BWD] = cpu_plan_map,
    [YK_OP_ADAM_STEP ... YK_OP_GRAD_STATS] = cpu_plan_optim,
    [YK_OP_ROUND8] = cpu_plan_round8,
};

static bool all_dense(const yk_graph *graph, const yk_node *node, uint32_t from)
{
    for (uint32_t i = from; i < node->n_in; i++)
        if (!kit_value_dense(&graph->value[graph->index[node->in + i]]))
            return false;
    return true;
}

static bool last_dense(const yk_graph *graph, const yk_node *node, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        const yk_value *v = &graph->value[graph->index[node->in + i]];
        if (v->dim[3] != 1 && v->stride[3] != 1)
            return false;
    }
    for (uint32_t i = to; i < node->n_in; i++) { /* keep; bias may have any strides */
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

uint32_t cpu_op_claims(const yk_graph *graph, uint32_t number)
{
    const yk_node *node = &graph->node[number];
    if (node->op >= YK_OP_COUNT || !planners[node->op] || !all_types(graph, node))
        return 0;
    switch (node->op) {
    case YK_OP_MAP:
    case YK_OP_MAP_SUM:
    case YK_OP_DOT_MAP:
        return node->n_out <= 4 && node->n_in <= 24 && node->n_body <= 200 ? YK_CLAIM_RUN : 0;
    case YK_OP_SCATTER_ADD: /* a primitive: asked only whether it can add */
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
    case YK_OP_ROUND8: /* f16 holds not all of its numbers, as the body scales them */
        return all_dense(graph, node, 0) && graph->value[graph->index[node->in]].dtype != YK_F16 ? YK_CLAIM_RUN : 0;
    case YK_OP_CROSS_ENTROPY_BWD: /* the gradient of a mean is one number for all rows */
        return all_dense(graph, node, 1) ? YK_CLAIM_RUN : 0;
    default:
        return (node->op >= YK_OP_RELU && node->op <= YK_OP_TANH_BWD) || all_dense(graph, node, 0) ? YK_CLAIM_RUN : 0;
    }
}

yk_status cpu_prog_new(const yk_graph *graph, const cpu_isa *isa, int workers, cpu_prog **out)
{
    cpu_build build;
    yk_status s = cpu_build_begin(&build, graph, isa, workers);
    if (s != YK_OK)
        return s;
    for (uint32_t i = 0; i < graph->n_node && build.status == YK_OK;) {
        const yk_node *node = &graph->node[i];
        if (node->op >= YK_OP_COUNT || !planners[node->op])
            cpu_refuse(&build, node, "this plugin does not run it");
        else if (!all_types(graph, node))
            cpu_refuse(&build, node, "a type this plugin does not have (f32, f16, bf16, i32, u8, bool)");
        else
            i += cpu_build_node(&build, node, planners[node->op]);
    }
    return cpu_build_end(&build, out);
}
