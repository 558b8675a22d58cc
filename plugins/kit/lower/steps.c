/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adam's steps of neighbouring nodes as one launch: most parameters of a model have some thousand elements, and a launch takes longer than
 * their step. The same launch writes casts of the results (the copies in 16 bits that products read).
 *
 * nn.c calls it at the first step while a program is made, in any thread, and the lowering skips the nodes that it took.
 */
#include "plugins/kit/lower/lower_internal.h"
#include "plugins/kit/lower/steps.h"

#define STEPS_MOST 32 /* steps of a launch */
#define COPIES 8      /* parameters of adam_steps */
#define BLOCK 8192    /* elements of a group */
#define BLOCK_GPU 1024
#define TEAM 128
#define FIELDS 8      /* STEPS_FIELDS: fields of a step in the kernel's table */

enum { GRAD, VALUE, FIRST, SECOND, HYPER, TOP, OPERANDS }; /* a node's inputs, in order */
enum { COPY_BF16 = 16 };                                   /* flag of the kernel, besides YK_OP_ADAM_STEP's own */

typedef struct steps {
    const yk_graph *graph;
    const yk_node *first;
    uint32_t node[STEPS_MOST], copy[STEPS_MOST]; /* copy: the parameter of the kernel, or YK_NONE */
    uint32_t copy_value[COPIES];
    uint32_t n, n_copy, nodes; /* nodes: of the graph, casts included */
} steps;

static const yk_value *operand_at(const steps *s, uint32_t i, uint32_t which)
{
    return kit_node_in(s->graph, &s->graph->node[s->node[i]], which);
}

static bool same_place(const yk_value *a, const yk_value *b)
{
    return a->slot == b->slot && a->offset == b->offset && a->dtype == b->dtype;
}

/* True if all operands are f32, dense, each in its own slot, and written where they were read. */
static bool step_is_plain(const yk_graph *graph, const yk_node *n)
{
    static const uint32_t from[] = {VALUE, FIRST, SECOND, TOP};
    for (uint32_t i = 0; i < n->n_in; i++) {
        const yk_value *v = kit_node_in(graph, n, i);
        if (v->dtype != YK_F32 || !kit_value_dense(v))
            return false;
        for (uint32_t k = 0; k < i; k++)
            if (kit_node_in(graph, n, k)->slot == v->slot)
                return false;
    }
    for (uint32_t i = 0; i < n->n_out; i++)
        if (i >= sizeof from / sizeof *from || from[i] >= n->n_in || !kit_value_dense(kit_node_out(graph, n, i)) ||
            !same_place(kit_node_in(graph, n, from[i]), kit_node_out(graph, n, i)))
            return false;
    return true;
}

/* True if two dense values share no byte. */
static bool values_disjoint(const yk_value *a, const yk_value *b)
{
    const uint64_t a_end = a->offset + (uint64_t)kit_value_count(a) * yk_dtype_bytes(a->dtype);
    const uint64_t b_end = b->offset + (uint64_t)kit_value_count(b) * yk_dtype_bytes(b->dtype);
    return a->slot != b->slot || a_end <= b->offset || b_end <= a->offset;
}

/* True if the node is a step in the same slots as the earlier ones, without overlap. */
static bool step_joins(const steps *s, const yk_node *n)
{
    const yk_node *first = s->first;
    if (n->n_in != first->n_in || n->n_out != first->n_out || s->n == STEPS_MOST || !step_is_plain(s->graph, n) ||
        kit_node_attr(s->graph, n, 0) != kit_node_attr(s->graph, first, 0))
        return false;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const yk_value *v = kit_node_in(s->graph, n, i);
        if (v->slot != kit_node_in(s->graph, first, i)->slot)
            return false;
        for (uint32_t k = 0; k < s->n && i != HYPER; k++)
            if (!values_disjoint(v, operand_at(s, k, i)))
                return false;
    }
    return true;
}

/* The step whose result the node copies in 16 bits, outside the steps' slots; YK_NONE if none. */
static uint32_t copied_step(const steps *s, const yk_node *n)
{
    const yk_value *from = kit_node_in(s->graph, n, 0), *to = kit_node_out(s->graph, n, 0);
    if (s->n_copy == COPIES || (to->dtype != YK_BF16 && to->dtype != YK_F16) || !kit_value_dense(from) || !kit_value_dense(to))
        return YK_NONE;
    for (uint32_t i = 0; i < s->n_copy; i++) {
        const yk_value *other = &s->graph->value[s->copy_value[i]];
        if (!values_disjoint(other, to) || other->dtype != to->dtype)
            return YK_NONE;
    }
    for (uint32_t i = 0; i < s->first->n_in; i++)
        if (operand_at(s, 0, i)->slot == to->slot)
            return YK_NONE;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->copy[i] == YK_NONE && same_place(operand_at(s, i, VALUE), from) &&
            kit_value_count(operand_at(s, i, VALUE)) == kit_value_count(from))
            return i;
    return YK_NONE;
}

/* The nodes from ctx->node on that are one launch. */
static void steps_find(const kit_lowering *ctx, steps *s)
{
    const yk_graph *graph = ctx->graph;
    *s = (steps){.graph = graph, .first = &graph->node[ctx->node]};
    for (uint32_t i = ctx->node; i < graph->n_node; i++, s->nodes++) {
        const yk_node *n = &graph->node[i];
        if (n->op == YK_OP_ADAM_STEP && step_joins(s, n)) {
            s->copy[s->n] = YK_NONE;
            s->node[s->n++] = i;
            continue;
        }
        const uint32_t of = n->op == YK_OP_CAST && s->n ? copied_step(s, n) : YK_NONE;
        if (of == YK_NONE)
            return;
        s->copy[of] = s->n_copy;
        s->copy_value[s->n_copy++] = graph->index[n->out];
    }
}

/* The table has the first group of each step, then each step's fields: elements, its copy or -1, its operands' distances from the first
 * step's. Distances count f32 elements. */
static void steps_table(kit_lowering *ctx, const steps *s, int64_t block)
{
    static const uint32_t field[FIELDS - 2] = {GRAD, VALUE, FIRST, SECOND, HYPER, TOP};
    int64_t table[STEPS_MOST * (1 + FIELDS)], groups = 0, *at = table + s->n;
    for (uint32_t i = 0; i < s->n; i++) {
        const int64_t count = kit_value_count(operand_at(s, i, VALUE));
        table[i] = groups;
        groups += kit_div_up(count, block);
        *at++ = count;
        *at++ = s->copy[i] == YK_NONE ? -1 : (int64_t)s->copy[i];
        for (uint32_t k = 0; k < FIELDS - 2; k++) {
            const uint32_t which = field[k] < s->first->n_in ? field[k] : GRAD;
            *at++ = ((int64_t)operand_at(s, i, which)->offset - (int64_t)operand_at(s, 0, which)->offset) / 4;
        }
    }
    kit_arg_meta(ctx, table, (uint32_t)(at - table));
}

static int64_t steps_groups(const steps *s, int64_t block)
{
    int64_t groups = 0;
    for (uint32_t i = 0; i < s->n; i++)
        groups += kit_div_up(kit_value_count(operand_at(s, i, VALUE)), block);
    return groups;
}

uint32_t kit_steps_lower(kit_lowering *ctx, const char *macros)
{
    steps s;
    const int64_t block = ctx->target->cpu_shape || ctx->target->lanes ? BLOCK : BLOCK_GPU;
    steps_find(ctx, &s);
    if (s.nodes < 2)
        return 0;
    kit_launch_add(ctx, "step", macros, "adam_steps", steps_groups(&s, block), 1, 1, TEAM);
    for (uint32_t i = 0; i < OPERANDS; i++)
        kit_arg_in(ctx, s.first, i);
    steps_table(ctx, &s, block);
    for (uint32_t i = 0; i < COPIES; i++)
        if (i < s.n_copy)
            kit_arg_value(ctx, s.copy_value[i]);
        else
            kit_arg_wide(ctx, ctx->graph->index[s.first->in + VALUE], 2); /* not written */
    const bool brain = s.n_copy && ctx->graph->value[s.copy_value[0]].dtype == YK_BF16;
    kit_arg_i32(ctx, s.n);
    kit_arg_i64(ctx, block);
    kit_arg_i32(ctx, kit_node_attr(ctx->graph, s.first, 0) | (brain ? COPY_BF16 : 0));
    return s.nodes;
}
