/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lowering of maps, sums and single elementwise nodes: a generated kernel each (emit.h), over blocks of elements or of results.
 *
 * lower.c calls this rule for each such node while a plugin makes a program, in any thread. lower_dot.c launches a chain here that no
 * product takes in. Sums over rows with few columns are cut into parts (parts.c).
 */
#include "plugins/kit/kit_source.h"
#include "plugins/kit/lower/lower_internal.h"

#include <stdio.h>

/* Elements of an elementwise group, outputs and columns of a reduction's group: enough work to hide a start. */
#define BLOCK_CPU_SHAPE 8192
#define BLOCK_GPU 1024
#define COLUMNS_CPU 64
#define TEAM_GPU 64
#define TEAM_WIDE 128      /* work-items of a map with a vector each */
#define TEAM_LONG 128      /* work-items of a sum over a row of */
#define LONG 1024          /* so many elements, or more */
#define TERMS_MOST (1 << 30) /* terms of a row that a team sums, at most */

typedef struct chain {
    kit_chain nodes;
    kit_space space;
    kit_parts parts; /* from chain_launch: parts of a sum; one if it is not cut */
    bool team;       /* from chain_launch: a sum over the innermost dimension, by a GPU's teams */
    bool lined;      /* from chain_launch: a sum in parts of other dimensions, whose lines are whole vectors */
    uint32_t width;  /* elements of a work-item's vector in a map; 0 without vectors */
} chain;

static bool op_is_chain(uint32_t op)
{
    return op == YK_OP_MAP || op == YK_OP_MAP_SUM || op == YK_OP_SUM || op == YK_OP_RMAX || kit_emits(op);
}

static bool chain_of(const yk_graph *graph, uint32_t node, chain *c)
{
    return op_is_chain(graph->node[node].op) && kit_chain_of(graph, node, &c->nodes) && kit_space_of(&c->nodes, &c->space);
}

static void chain_emit(kit_text *text, const char *name, const void *what)
{
    const chain *c = what;
    if (c->width)
        kit_emit_wide(text, name, &c->nodes, &c->space, c->width);
    else if (c->team)
        kit_emit_team(text, name, &c->nodes, &c->space, c->parts.n > 1);
    else if (c->parts.n > 1)
        kit_emit_parts(text, name, &c->nodes, &c->space, c->lined);
    else if (c->nodes.reduce)
        kit_emit_reduce(text, name, &c->nodes, &c->space);
    else
        kit_emit_map(text, name, &c->nodes, &c->space);
}

static int64_t chain_block(const kit_target *target, const chain *c)
{
    const kit_space *s = &c->space;
    int64_t inner = s->dim[s->dims - 1], each = inner, block;
    if (!c->nodes.reduce)
        return target->cpu_shape ? BLOCK_CPU_SHAPE : BLOCK_GPU;
    if (!s->reduced[s->dims - 1])
        return target->cpu_shape ? COLUMNS_CPU : TEAM_GPU * kit_lane_elements(target);
    for (uint32_t d = 0; d + 1 < s->dims; d++)
        each *= s->reduced[d] ? s->dim[d] : 1;
    block = target->cpu_shape ? BLOCK_CPU_SHAPE / each : 1;
    return block < 1 ? 1 : block;
}

static uint32_t claim_chain(const kit_target *target, const yk_graph *graph, uint32_t node)
{
    chain c;
    (void)target;
    return chain_of(graph, node, &c) ? YK_CLAIM_RUN : 0;
}

/* Elements that are summed for one output. */
static int64_t chain_terms(const chain *c)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < c->space.dims; d++)
        n *= c->space.reduced[d] ? c->space.dim[d] : 1;
    return n;
}

/* Elements of an output. */
static int64_t chain_results(const chain *c)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < c->space.dims; d++)
        n *= c->space.reduced[d] ? 1 : c->space.dim[d];
    return n;
}

/* Columns of a group of a sum in parts. */
static int64_t part_columns(const kit_target *target)
{
    return KIT_PART_ACROSS * kit_lane_elements(target);
}

/* How a sum is cut; its team is decided already. */
static kit_parts chain_parts(const kit_target *target, const chain *c)
{
    const kit_space *s = &c->space;
    const int64_t rows = chain_terms(c), results = chain_results(c), inner = s->dim[s->dims - 1];
    int64_t outer = 0;
    bool cut = c->nodes.reduce != 0;
    for (uint32_t i = 0; i < c->nodes.n_out; i++)
        cut = cut && kit_is_float(c->nodes.graph->value[c->nodes.value[i]].dtype);
    for (uint32_t d = 0; d < s->dims && !outer; d++)
        outer = s->reduced[d] ? s->dim[d] : 0;
    if (cut && c->team)
        return (kit_parts){kit_parts_of_rows(target, results, rows), 0};
    if (!cut || s->reduced[s->dims - 1] || rows < 2)
        return (kit_parts){1, outer};
    return kit_parts_of(target, results / inner * kit_div_up(inner, part_columns(target)), outer, rows);
}

/* True if every leaf's lines are whole vectors of a work-item, at multiples of their size. scratch: leaf 0 is in scratch memory at `at`. */
static bool chain_is_lined(const kit_target *target, const chain *c, uint64_t at, bool scratch)
{
    const kit_space *s = &c->space;
    const int64_t each = kit_lane_elements(target);
    bool lined = target->four && s->dim[s->dims - 1] % each == 0;
    for (uint32_t i = 0; i < c->nodes.n_leaf && lined; i++) {
        const yk_value *v = &c->nodes.graph->value[c->nodes.leaf[i]];
        const uint64_t begin = scratch && !i ? at : v->offset;
        if (!s->stride[i][s->dims - 1])
            continue;
        lined = begin % ((uint64_t)each * yk_dtype_bytes(v->dtype)) == 0;
        for (uint32_t d = 0; d + 1 < s->dims; d++)
            lined = lined && s->stride[i][d] % each == 0;
    }
    return lined;
}

/* Leaf 0 lies in its slot, or in scratch memory, `scratch` bytes from `at` on. */
static void leaves_arg(kit_lowering *ctx, const kit_chain *nodes, uint64_t at, uint64_t scratch)
{
    for (uint32_t i = 0; i < nodes->n_leaf; i++)
        if (i || !scratch)
            kit_arg_value(ctx, nodes->leaf[i]);
        else
            kit_arg_scratch(ctx, at, scratch, yk_dtype_bytes(ctx->graph->value[nodes->leaf[0]].dtype));
}

/* The launches that make the outputs of their parts, in scratch memory from `at` on. */
static void chain_join(kit_lowering *ctx, const chain *c, uint64_t at, uint64_t bytes)
{
    const bool most = c->nodes.reduce == YK_OP_RMAX;
    if (!c->team)
        kit_parts_join(ctx, &c->parts, chain_results(c), most, at, c->nodes.n_out, c->nodes.out);
    for (uint32_t i = 0; i < c->nodes.n_out && c->team; i++)
        kit_parts_join_rows(ctx, c->parts.n, chain_results(c), most, at + i * bytes, c->nodes.out[i]);
}

/* Work-items of a group. */
static uint32_t chain_team(const kit_target *target, const chain *c)
{
    if (c->team && chain_terms(c) >= LONG)
        return kit_team(target, TEAM_LONG);
    return !c->team && c->parts.n > 1 ? KIT_PART_TEAM : kit_team(target, TEAM_GPU);
}

/* A map of a vector for each work-item; as leaves_arg. */
static void wide_launch(kit_lowering *ctx, chain *c, uint64_t at, uint64_t scratch)
{
    int64_t meta[KIT_META], groups, vectors;
    char macros[64];
    const uint32_t n = kit_meta_map(&c->nodes, &c->space, c->width, meta, &vectors);
    groups = kit_div_up(vectors, TEAM_WIDE);
    snprintf(macros, sizeof macros, "%s -DK_WIDTH=%u -DK_LINED", kit_row_macros(ctx->target), c->width);
    kit_launch_add_generated(ctx, kit_unit_generated(ctx, "w", macros, chain_emit, c), groups, 1, 1, kit_team(ctx->target, TEAM_WIDE));
    leaves_arg(ctx, &c->nodes, at, scratch);
    for (uint32_t i = 0; i < c->nodes.n_out; i++)
        kit_arg_value(ctx, c->nodes.out[i]);
    kit_arg_meta(ctx, meta, n);
    kit_arg_i32(ctx, vectors);
    kit_arg_i32(ctx, c->space.dim[c->space.dims - 1] / c->width);
}

/* As leaves_arg; parts of sums follow it in scratch memory. */
static void chain_launch(kit_lowering *ctx, chain *c, uint64_t at, uint64_t scratch)
{
    int64_t meta[KIT_META], groups;
    char macros[64];
    c->width = ctx->target->four ? kit_wide_of(&c->nodes, &c->space, scratch != 0) : 0;
    if (c->width) {
        wide_launch(ctx, c, at, scratch);
        return;
    }
    c->team = c->nodes.reduce && c->space.reduced[c->space.dims - 1] && !ctx->target->cpu_shape && !ctx->target->lanes &&
              chain_terms(c) <= TERMS_MOST;
    c->parts = chain_parts(ctx->target, c);
    const bool cut = c->parts.n > 1;
    c->lined = cut && !c->team && chain_is_lined(ctx->target, c, at, scratch != 0);
    const int64_t block = cut && !c->team ? part_columns(ctx->target) : chain_block(ctx->target, c);
    uint32_t n = c->nodes.reduce ? kit_meta_reduce(&c->nodes, &c->space, block, meta, &groups)
                                 : kit_meta_map(&c->nodes, &c->space, block, meta, &groups);
    const uint64_t bytes = kit_parts_stride((uint64_t)(c->parts.n * chain_results(c)) * 4);
    if (c->team || cut)
        meta[n++] = c->team ? c->parts.n : c->parts.rows;
    snprintf(macros, sizeof macros, "%s%s", kit_row_macros(ctx->target), c->lined ? " -DK_LINED" : "");
    const uint32_t unit = kit_unit_generated(ctx, "e", macros, chain_emit, c);
    kit_launch_add_generated(ctx, unit, groups, c->parts.n, 1, chain_team(ctx->target, c));
    leaves_arg(ctx, &c->nodes, at, scratch);
    const uint64_t parts_at = kit_round_bytes(at + scratch, KIT_PRODUCT_ALIGN);
    for (uint32_t i = 0; i < c->nodes.n_out; i++)
        if (cut)
            kit_arg_scratch(ctx, parts_at + i * bytes, bytes, 4);
        else
            kit_arg_value(ctx, c->nodes.out[i]);
    kit_arg_meta(ctx, meta, n);
    if (cut)
        chain_join(ctx, c, parts_at, bytes);
}

static void lower_chain(kit_lowering *ctx, const yk_node *node)
{
    chain c;
    (void)node;
    if (chain_of(ctx->graph, ctx->node, &c))
        chain_launch(ctx, &c, 0, 0);
    else
        kit_lower_fail(ctx, YK_E_UNSUPPORTED);
}

bool kit_chain_has_kernel(const kit_chain *nodes)
{
    kit_space space;
    return kit_space_of(nodes, &space);
}

void kit_chain_launch(kit_lowering *ctx, const kit_chain *nodes, uint64_t at, uint64_t bytes)
{
    chain c = {.nodes = *nodes};
    if (kit_space_of(nodes, &c.space))
        chain_launch(ctx, &c, at, bytes);
    else
        kit_lower_fail(ctx, YK_E_UNSUPPORTED);
}

const kit_rule kit_rule_chain = {op_is_chain, claim_chain, lower_chain};
