/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source emitter: elementwise chains of a graph as kernels in the dialect (kernels/dialect.kc, math.kc).
 *
 * Sizes and strides are run-time data (a `long` array called meta). So chains that differ only in shape give the same text, and are
 * compiled once. Thread rule: one thread per object; no state elsewhere.
 */
#ifndef YOKE_PLUGINS_KIT_EMIT_H
#define YOKE_PLUGINS_KIT_EMIT_H

#include "plugins/kit/kit_text.h"
#include "plugins/kit/value.h"

#define KIT_LEAVES 24
#define KIT_OUTS 4
#define KIT_OPERANDS (KIT_LEAVES + KIT_OUTS)
#define KIT_LOCALS 160

/* A chain: nodes over leaves, giving outputs. Value numbers are the graph's. */
typedef struct kit_chain {
    const yk_graph *graph;
    const yk_node *node;
    uint32_t n_node, n_leaf, n_out;
    uint32_t leaf[KIT_LEAVES], out[KIT_OUTS];
    uint32_t reduce; /* 0: map; otherwise YK_OP_SUM or YK_OP_RMAX of each output over `axes` */
    uint32_t axes;
    uint32_t value[KIT_OUTS]; /* values to store or reduce: the outputs themselves for a map */
} kit_chain;

/* The index space of a chain after dimensions were merged; innermost last. Operands: leaves, then outputs. */
typedef struct kit_space {
    uint32_t dims;
    int64_t dim[YK_MAX_DIMS];
    bool reduced[YK_MAX_DIMS];
    int64_t stride[KIT_OPERANDS][YK_MAX_DIMS];
} kit_space;

/* Makes a chain of a map, map_sum, sum, rmax, or single elementwise node. False for any other node, or a too large one. */
bool kit_chain_of(const yk_graph *graph, uint32_t node, kit_chain *chain);

/* True if every op and type in the chain can be emitted. */
bool kit_chain_fits(const kit_chain *chain);

/* False if an operand is neither dense nor broadcast. */
bool kit_space_of(const kit_chain *chain, kit_space *s);

/* The kernel's source: `KERNEL void NAME(leaf pairs, output pairs, meta pair)`. */
void kit_emit_map(kit_text *text, const char *name, const kit_chain *chain, const kit_space *s);
void kit_emit_reduce(kit_text *text, const char *name, const kit_chain *chain, const kit_space *s);
/* The same for a kept innermost dimension on a GPU, in parts of the outermost reduced dimension. Outputs are f32 [parts, outputs], and
 * meta has one more number: that dimension's length per part. Group: (block of outputs, part), of KIT_PART_TEAM work-items; a block is
 * KIT_PART_ACROSS vectors. lined: lines of every leaf are whole vectors at multiples of their size (K_LINED). */
#define KIT_PART_TEAM 128u
#define KIT_PART_ACROSS 32 /* K_ACROSS of dialect.kc */
void kit_emit_parts(kit_text *text, const char *name, const kit_chain *chain, const kit_space *s, bool lined);
/* The same of an innermost dimension that is reduced, of less than 2^31 elements an output, by a team for each output and part. The number
 * of parts follows meta. Parts are f32 [outputs, parts]; else there is one. Group: (output, part). */
void kit_emit_team(kit_text *text, const char *name, const kit_chain *chain, const kit_space *s, bool parts);

/*
 * A map by work-items with a vector of 16 bytes each (emit_wide.c). kit_wide_of returns the vector's elements, 4 or 8, the unit's K_WIDTH;
 * 0 if the operands' lines are not such vectors. scratch: leaf 0 is in scratch memory, at a multiple of 16 bytes, and not in its slot.
 * After kit_meta_map's meta the kernel has the number of vectors, and the number per line.
 */
uint32_t kit_wide_of(const kit_chain *chain, const kit_space *s, bool scratch);
void kit_emit_wide(kit_text *text, const char *name, const kit_chain *chain, const kit_space *s, uint32_t width);

/* Run-time data for these kernels; returns the number of longs (at most KIT_META). block: elements, or outputs, of a group. *groups: number
 * of groups to start. */
#define KIT_META (8 + YK_MAX_DIMS * (KIT_OPERANDS + 1))
uint32_t kit_meta_map(const kit_chain *chain, const kit_space *s, int64_t block, int64_t *meta, int64_t *groups);
uint32_t kit_meta_reduce(const kit_chain *chain, const kit_space *s, int64_t block, int64_t *meta, int64_t *groups);

/* The statements of a chain's nodes, between loads and stores the caller writes. Leaves are called x0, x1, ... */
void kit_emit_nodes(kit_text *text, const kit_chain *chain);
/* The name of a value in those statements ("x3", "v7"); false if it is unknown. */
bool kit_local_name(const kit_chain *chain, uint32_t value, char name[16]);
const char *kit_type(uint32_t dtype); /* "f32", ... as in LD_f32; NULL for a type without kernels */
bool kit_is_float(uint32_t dtype);
bool kit_emits(uint32_t op); /* may stand in a chain */

#endif
