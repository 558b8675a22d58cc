/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of the lowering has a node, and which nodes a device of the kit claims. */
#include "plugins/kit/lower/lower.h"

static bool op_is_dot(uint32_t op)
{
    return op == YK_OP_DOT || op == YK_OP_DOT_MAP;
}

static bool op_is_conv(uint32_t op)
{
    return op == YK_OP_CONV2D || op == YK_OP_CONV2D_DX || op == YK_OP_CONV2D_DW;
}

void kit_lower_node(kit_lowering *ctx, uint32_t node)
{
    const yk_node *n = &ctx->graph->node[node];
    ctx->node = node;
    if (op_is_dot(n->op))
        kit_lower_dot(ctx, n);
    else if (kit_op_is_chain(n->op))
        kit_lower_chain(ctx, node);
    else if (op_is_conv(n->op))
        kit_lower_conv(ctx, n);
    else if (!yk_op_is_primitive(n->op))
        kit_lower_nn(ctx, n);
    else
        kit_lower_data(ctx, n);
    if (ctx->failed == YK_E_UNSUPPORTED)
        ctx->target->host->fail(ctx->target->plugin, "node %u (%s): operands of a type or layout this plugin does not run", n->stream,
                                kit_op_name(n->op));
}

uint32_t kit_claims(const kit_target *target, const yk_graph *graph, uint32_t node)
{
    const yk_node *n = &graph->node[node];
    if (n->op == YK_OP_DOT_MAP)
        return kit_claims_dot_map(graph, n);
    if (op_is_conv(n->op))
        return kit_claims_conv(target, graph, n);
    if (kit_op_is_chain(n->op))
        return kit_claims_chain(graph, node);
    return kit_claims_nn(target, graph, n);
}
