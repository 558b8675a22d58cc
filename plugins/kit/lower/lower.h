/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the lowering: a program under construction, and one function per kind of node. launch.c builds, node.c chooses,
 * chain.c, dot.c, data.c, nn.c and conv.c know the kernels.
 */
#ifndef YOKE_PLUGINS_KIT_LOWER_LOWER_H
#define YOKE_PLUGINS_KIT_LOWER_LOWER_H

#include "plugins/kit/emit.h"
#include "plugins/kit/program.h"

typedef struct kit_lowering {
    const kit_target *target;
    const yk_graph *graph;
    kit_program *program;
    uint32_t node;    /* the top node that is lowered now */
    yk_status failed; /* after a failure nothing is added any more */
} kit_lowering;

/* ---- launch.c: a launch, then its arguments in the kernel's order ---- */

/* groups x, y, z; local: work-items of a group where there are any */
void kit_launch_add(kit_lowering *ctx, const char *file, const char *macros, const char *kernel, int64_t x, int64_t y, int64_t z,
                    uint32_t local);
/* Of a kernel that was generated; `unit` is kit_unit_generated's. */
void kit_launch_add_generated(kit_lowering *ctx, uint32_t unit, int64_t x, int64_t y, int64_t z, uint32_t local);
void kit_arg_value(kit_lowering *ctx, uint32_t value);
void kit_arg_value_at(kit_lowering *ctx, uint32_t value, int64_t element); /* from that element on */
void kit_arg_in(kit_lowering *ctx, const yk_node *n, uint32_t i); /* an absent operand is not read: the first stands in */
void kit_arg_out(kit_lowering *ctx, const yk_node *n, uint32_t i);
void kit_arg_scratch(kit_lowering *ctx, uint64_t offset, uint64_t bytes, uint32_t element);
void kit_arg_meta(kit_lowering *ctx, const int64_t *meta, uint32_t n);
void kit_arg_i64(kit_lowering *ctx, int64_t v);
void kit_arg_i32(kit_lowering *ctx, int64_t v);
void kit_arg_f32(kit_lowering *ctx, double v);
void kit_lower_fail(kit_lowering *ctx, yk_status s); /* the first one counts */

/*
 * The unit of a generated kernel, made if the program has none like it. emit writes the kernel under a name; what it writes
 * but for the name is what the kernel is known by. YK_NONE after a failure.
 */
typedef void (*kit_emit_fn)(kit_text *text, const char *name, const void *what);
uint32_t kit_unit_generated(kit_lowering *ctx, const char *prefix, kit_emit_fn emit, const void *what);

/* ---- Questions about nodes ---- */

static inline const yk_value *kit_node_in(const yk_graph *graph, const yk_node *n, uint32_t i)
{
    return &graph->value[graph->index[n->in + i]];
}

static inline const yk_value *kit_node_out(const yk_graph *graph, const yk_node *n, uint32_t i)
{
    return &graph->value[graph->index[n->out + i]];
}

static inline int64_t kit_node_attr(const yk_graph *graph, const yk_node *n, uint32_t i)
{
    return graph->attr[n->attr + i];
}

/* Floats that fit the memory of a group. */
static inline uint32_t kit_local_floats(const kit_target *target)
{
    return target->max_local / 4;
}

/* ---- One pair per kind of node ---- */
bool kit_op_is_chain(uint32_t op);
uint32_t kit_claims_chain(const yk_graph *graph, uint32_t node);
void kit_lower_chain(kit_lowering *ctx, uint32_t node);
uint32_t kit_claims_dot_map(const yk_graph *graph, const yk_node *n);
void kit_lower_dot(kit_lowering *ctx, const yk_node *n);
void kit_lower_data(kit_lowering *ctx, const yk_node *n);
uint32_t kit_claims_nn(const kit_target *target, const yk_graph *graph, const yk_node *n);
void kit_lower_nn(kit_lowering *ctx, const yk_node *n);
uint32_t kit_claims_conv(const kit_target *target, const yk_graph *graph, const yk_node *n);
void kit_lower_conv(kit_lowering *ctx, const yk_node *n);

void kit_lower_node(kit_lowering *ctx, uint32_t node);

#endif
