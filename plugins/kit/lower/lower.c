/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowers a graph to launches: each node in turn goes to the rule for its operation. A rule is a file of this folder, and adds launches to
 * the program.
 *
 * Plugins over the kit call kit_program_make while a program is made, kit_claims and kit_scratch_bytes while the host plans; in any
 * thread. A device with a library or without a compiler says by kit_target.place that a node runs elsewhere. A rule may cover the nodes
 * behind its own, too (steps.c).
 */
#include "plugins/kit/lower/lower.h"

#include "plugins/kit/lower/lower_internal.h"
#include "plugins/kit/plugin.h"

/* The first that covers an operation has it. */
static const kit_rule *const rules[] = {&kit_rule_dot, &kit_rule_chain, &kit_rule_conv, &kit_rule_attention,
                                        &kit_rule_round8, &kit_rule_nn, &kit_rule_data};

static const kit_rule *rule_of(uint32_t op)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i]->covers(op))
            return rules[i];
    return NULL;
}

static void node_lower(kit_lowering *ctx, uint32_t node)
{
    const yk_node *n = &ctx->graph->node[node];
    const kit_rule *rule = rule_of(n->op);
    const uint32_t place = ctx->target->place ? ctx->target->place(ctx->target->dev, ctx->graph, node) : KIT_PLACE_KERNELS;
    ctx->node = node;
    ctx->further = 0;
    if (place == KIT_PLACE_LIBRARY || place == KIT_PLACE_HOST)
        kit_launch_add_elsewhere(ctx, n, place);
    else if (rule && place == KIT_PLACE_KERNELS)
        rule->lower(ctx, n);
    else
        kit_lower_fail(ctx, YK_E_UNSUPPORTED);
    if (ctx->failed == YK_E_UNSUPPORTED)
        KIT_FAIL_NODE(ctx->target->host, ctx->target->plugin, n->stream,
                      "node %u (%s): operands of a type or layout this plugin does not run", n->stream, kit_op_name(n->op));
}

yk_status kit_program_make(const kit_target *target, const yk_graph *graph, kit_program *program)
{
    kit_program_init(program, target->host);
    kit_lowering ctx = {.target = target, .graph = graph, .program = program};
    for (uint32_t i = 0; i < graph->n_node && ctx.failed == YK_OK; i += 1 + ctx.further)
        node_lower(&ctx, i);
    if (ctx.failed != YK_OK)
        kit_program_free(program);
    return ctx.failed;
}

uint32_t kit_claims(const kit_target *target, const yk_graph *graph, uint32_t node)
{
    const kit_rule *rule = rule_of(graph->node[node].op);
    return rule && rule->claims ? rule->claims(target, graph, node) : 0;
}

yk_status kit_scratch_bytes(const kit_target *target, const yk_graph *graph, uint64_t *bytes)
{
    kit_program program;
    const yk_status s = kit_program_make(target, graph, &program);
    if (s)
        return s;
    *bytes = program.scratch_bytes;
    kit_program_free(&program);
    return YK_OK;
}
