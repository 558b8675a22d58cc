/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the lowering: a program under construction, and a rule for each kind of node. lower.c chooses among the rules of attn.c, chain.c,
 * lower_dot.c, lower_data.c, lower_eight.c, nn.c and lower_conv.c. The rules know the kernels, and build with lower_launch.c.
 */
#ifndef YOKE_PLUGINS_KIT_LOWER_LOWER_INTERNAL_H
#define YOKE_PLUGINS_KIT_LOWER_LOWER_INTERNAL_H

#include "plugins/kit/emit.h"
#include "plugins/kit/kit_program.h"

typedef struct kit_lowering {
    const kit_target *target;
    const yk_graph *graph;
    kit_program *program;
    uint32_t node;    /* the top node that is lowered now */
    uint32_t further; /* later nodes that the launches include; a rule sets it */
    yk_status failed; /* after a failure every addition is a no-op */
} kit_lowering;

/* ---- lower_launch.c: tensor cores ---- */

#define KIT_MMA_TEAM 128u /* work-items of a group of their kernels */
/* True if kernels of this type use tensor cores. */
bool kit_mma_takes(const kit_target *target, uint32_t dtype);
/* Logs at debug level if the node uses tensor cores, for devices with them and operands of 16 bits. */
void kit_mma_note(const kit_lowering *ctx, uint32_t dtype, bool used);

/* ---- lower_launch.c: a launch, then its arguments in the kernel's order ---- */

/* Work-items of a group: 1 in the CPU shape; on lanes one subgroup, for which a barrier costs little; `gpu` of them on a GPU. */
uint32_t kit_team(const kit_target *target, uint32_t gpu);
uint32_t kit_gpu_team(const kit_target *target); /* work-items of a group that makes a tile of 64 x 64: 256, or 128 if groups are smaller */
int64_t kit_lane_elements(const kit_target *target); /* elements of a row that a GPU's work-item computes at once: VW */
/* groups x, y, z; local: work-items of a group on a GPU, as kit_team makes them */
void kit_launch_add(kit_lowering *ctx, const char *file, const char *macros, const char *kernel, int64_t x, int64_t y, int64_t z,
                    uint32_t local);
/* The launch of a generated kernel; `unit` is kit_unit_generated's; local is used as it is. */
void kit_launch_add_generated(kit_lowering *ctx, uint32_t unit, int64_t x, int64_t y, int64_t z, uint32_t local);
void kit_launch_add_product(kit_lowering *ctx, const kit_product *product); /* the library's; arguments A, B, C, scratch */
void kit_launch_add_attention(kit_lowering *ctx, const kit_attention *attention); /* the library's; arguments as kit_launch has them */
void kit_launch_add_convolution(kit_lowering *ctx, const kit_convolution *convolution); /* the same */
void kit_launch_add_elsewhere(kit_lowering *ctx, const yk_node *n, uint32_t place); /* with its arguments; place: KIT_PLACE_* */
void kit_arg_value(kit_lowering *ctx, uint32_t value);
void kit_arg_value_at(kit_lowering *ctx, uint32_t value, int64_t element); /* from that element on */
void kit_arg_wide(kit_lowering *ctx, uint32_t value, uint32_t bytes); /* as elements of so many bytes; its place is a multiple of them */
void kit_arg_in(kit_lowering *ctx, const yk_node *n, uint32_t i); /* an absent operand is not read: the first stands in */
void kit_arg_out(kit_lowering *ctx, const yk_node *n, uint32_t i);
void kit_arg_scratch(kit_lowering *ctx, uint64_t offset, uint64_t bytes, uint32_t element);
void kit_arg_meta(kit_lowering *ctx, const int64_t *meta, uint32_t n);
void kit_arg_i64(kit_lowering *ctx, int64_t v);
void kit_arg_i32(kit_lowering *ctx, int64_t v);
void kit_arg_f32(kit_lowering *ctx, double v);
void kit_lower_fail(kit_lowering *ctx, yk_status s); /* the first one counts */

/*
 * The unit of a generated kernel, made unless the program has an equal one. emit writes the kernel under a name; the text apart from the
 * name identifies the kernel. macros must depend on that text only. YK_NONE after a failure.
 */
typedef void (*kit_emit_fn)(kit_text *text, const char *name, const void *what);
uint32_t kit_unit_generated(kit_lowering *ctx, const char *prefix, const char *macros, kit_emit_fn emit, const void *what);

/* ---- chain.c ---- */

/* True if the chain, over leaves in memory, has a kernel without a product too. */
bool kit_chain_has_kernel(const kit_chain *chain);
/* Its launch; leaf 0 is in scratch memory, `bytes` from `at` on. */
void kit_chain_launch(kit_lowering *ctx, const kit_chain *chain, uint64_t at, uint64_t bytes);

/* ---- behind.c: work that a library does while it stores a product ---- */

/*
 * The result `out` is the product plus a row `bias`. Then `addend` is added, or `out` is gelu (tanh) of the sum, and `before` gets the sum.
 * Or it is the product times gelu's slope at `before`, and a separate launch gives `again` gelu of `before`. The members are values;
 * YK_NONE if absent.
 */
typedef struct kit_behind {
    uint32_t out, bias, before, addend, again;
    uint32_t gelu; /* as in kit_product */
} kit_behind;

bool kit_behind_of(const kit_chain *chain, kit_behind *behind); /* false: the chain is another */
void kit_behind_again(kit_lowering *ctx, const kit_chain *chain, const kit_behind *behind); /* the launch that makes `again` */

/* ---- lines.c: products of a library whose matrices get aligned lines ---- */

/*
 * Adds the launches of a library's product over operands whose lines get padding, if the copies pay. value: values of A, B and C. behind: C
 * goes to scratch memory, dense, at *at, for a launch after it. False if the product should be computed as it is.
 */
bool kit_lines_product(kit_lowering *ctx, const kit_product *product, const uint32_t value[3], bool behind, uint64_t *at);
/* The launch that copies a dense matrix like `value`, of 16 bits, from scratch memory, `bytes` from `at` on, to where it lies. */
void kit_lines_spread(kit_lowering *ctx, uint64_t at, uint64_t bytes, uint32_t value);
/* True if v is a matrix of 16 bits with rows further apart than their length (YK_CLAIM_STRIDED_OUT of dot, cross_entropy). */
static inline bool kit_value_is_padded(const yk_value *v)
{
    return v->dims == 2 && (v->dtype == YK_BF16 || v->dtype == YK_F16) && v->stride[1] == 1 && v->dim[0] > 1 &&
           v->stride[0] > v->dim[1];
}

/* ---- parts.c: sums in parts ---- */

typedef struct kit_parts {
    int64_t n, rows; /* how many; rows of each, of the outermost dimension that is summed. One: it is not cut */
} kit_parts;

/* Parts of a sum over `rows` rows, `outer` of them in the outermost dimension, that has `groups` groups without a cut. */
kit_parts kit_parts_of(const kit_target *target, int64_t groups, int64_t outer, int64_t rows);
/* The launches that make n values of their parts [parts, count] of f32, in scratch memory from `at` on. Each value's parts follow the
 * previous ones at kit_parts_stride(bytes of one value's). most: takes maxima instead of sums. */
void kit_parts_join(kit_lowering *ctx, const kit_parts *parts, int64_t count, bool most, uint64_t at, uint32_t n, const uint32_t *value);
uint64_t kit_parts_stride(uint64_t bytes);

/* Parts of each of `rows` sums of `terms` neighbours; and the launch that makes `value` of them, f32 [count, parts]. */
int64_t kit_parts_of_rows(const kit_target *target, int64_t rows, int64_t terms);
void kit_parts_join_rows(kit_lowering *ctx, int64_t parts, int64_t count, bool most, uint64_t at, uint32_t value);

/* ---- norms.c: layer norms with rows in registers ---- */

/* False if nothing was launched, as the rows do not fit. type: of x. */
bool kit_norms_forward(kit_lowering *ctx, const yk_node *n, uint32_t type);
bool kit_norms_backward(kit_lowering *ctx, const yk_node *n, uint32_t type);

/* ---- lower_data.c ---- */

/* Elements of a group of 64 work-items that moves or makes `total` of them. */
int64_t kit_move_block(const kit_target *target, int64_t total);

/* ---- lower_eight.c: an operand of a product in 8 bits ---- */

/* An operand of round8, as a dense matrix of `rows` x `terms` in scratch memory. */
typedef struct kit_eight {
    uint32_t value, format; /* YK_ROUND8_* */
    int64_t rows, terms;    /* terms: a multiple of 16 */
    bool transposed;            /* the value lies in memory with its terms apart */
    uint64_t at, scale_at;  /* kit_eight_place's: the matrix; the scale of its numbers' reciprocal, f32, and that itself,
                               KIT_EIGHT_INVERSE bytes on */
} kit_eight;

#define KIT_EIGHT_INVERSE 16u /* K_INVERSE of round8.kc; libraries refuse a scale whose address is not a multiple of 16 */
uint64_t kit_eight_place(kit_eight *e, uint64_t from); /* places it in scratch memory from `from` on; returns its end */
void kit_eight_make(kit_lowering *ctx, const kit_eight *e);

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

/* ---- One rule for each kind of node ---- */

typedef struct kit_rule {
    bool (*covers)(uint32_t op);
    uint32_t (*claims)(const kit_target *target, const yk_graph *graph, uint32_t node); /* as kit_claims; NULL: 0 always */
    void (*lower)(kit_lowering *ctx, const yk_node *n); /* adds node ctx->node; kit_lower_fail(YK_E_UNSUPPORTED) for an impossible one */
} kit_rule;

extern const kit_rule kit_rule_attention, kit_rule_chain, kit_rule_conv, kit_rule_data, kit_rule_dot, kit_rule_nn, kit_rule_round8;

#endif
