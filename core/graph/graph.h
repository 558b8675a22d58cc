/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core's graph: the same flat arrays as the plugin ABI's yk_graph, growable, with a builder that infers shapes.
 *
 * Values are single assignment; nodes stand in execution order. A view (reshape, permute, slice, expand) is a value
 * with a base and no node. The builder's graphs are in bounds and of the right shape by construction. yk__graph_check checks
 * a graph from elsewhere, such as a wrapped plugin receives.
 *
 * Builder functions return a value number, or YK_NONE after a failure. g->error keeps the first failure with the operation
 * and the shapes. A YK_NONE operand gives YK_NONE, so a chain needs one check at its end. Lengths of 0 are legal here (a rank
 * without rows); such a graph is never sent to a plugin.
 *
 * Thread rule: one thread per graph.
 */
#ifndef YOKE_CORE_GRAPH_GRAPH_H
#define YOKE_CORE_GRAPH_GRAPH_H

#include <stdbool.h>

#include <yoke/plugin.h>

#include "core/base/error.h"

/* ---- Tables ---------------------------------------------------------------------------------------------------- */

typedef enum yk__op_kind { YK_KIND_UN, YK_KIND_BIN, YK_KIND_PRIM, YK_KIND_COMP, YK_KIND_CORE } yk__op_kind;
typedef enum yk__op_prec { YK_PREC_NONE, YK_PREC_LOWP, YK_PREC_FULL, YK_PREC_WIDE, YK_PREC_KEEP } yk__op_prec;
typedef enum yk__op_tol { YK_TOL_EXACT, YK_TOL_ROUND, YK_TOL_TRANS, YK_TOL_ACCUM } yk__op_tol;

typedef struct yk__op_info {
    const char *name;
    uint8_t kind, prec, tol;       /* the enums above */
    uint8_t in_min, in_max, n_out; /* n_out 0: varies */
    uint8_t n_attr;
} yk__op_info;

/* Traits that no plugin sees (op_table.h has the words). */
typedef struct yk__op_traits {
    uint16_t floats;                   /* bit mask of the attributes that hold a double */
    uint8_t map, cheap, linear, ranks; /* yk__op_map, yk__op_cheap, yk__op_linear, yk__op_ranks */
    uint16_t back;                     /* backward composite of x and gy for an activation of x; YK_OP_NONE if absent */
} yk__op_traits;

const yk__op_info *yk__op_info_of(uint32_t op); /* NULL for an unknown number */
int yk__op_find(const char *name);              /* -1 for an unknown name */
const yk__op_traits *yk__op_traits_of(uint32_t op); /* all 0 and YK_OP_NONE for an unknown number */
bool yk__op_is_map(uint32_t op);                /* elementwise, select, fill, activations */
bool yk__op_in_map(uint32_t op);                /* allowed in the body of a map: the above, and dropout */
bool yk__op_over_ranks(uint32_t op);            /* all ranks run it together */
const char *yk__dtype_name(uint32_t dtype);     /* "f32"; "?" for an unknown number */
bool yk__dtype_is_float(uint32_t dtype);

/* ---- The graph ------------------------------------------------------------------------------------------------- */

typedef uint32_t yk__vid; /* value number */

/* Two inputs, by the keys of their slots, that are inverses of each other. */
typedef struct yk__inverse {
    uint32_t input[2];
} yk__inverse;

typedef struct yk__graph {
    yk_value *value;
    yk_node *node; /* top nodes; bodies are in body[] until yk__graph_seal appends them */
    uint32_t *index;
    int64_t *attr;
    yk_slot *slot;
    yk_node *body;
    size_t n_value, n_node, n_index, n_attr, n_slot, n_body;
    size_t cap_value, cap_node, cap_index, cap_attr, cap_slot, cap_body;
    uint64_t hash;    /* rolling hash of all appended values and nodes */
    yk__inverse *inverse; /* pairs of yk__graph_mark_inverse */
    size_t n_inverse, cap_inverse;
    uint32_t stream;  /* yk_node.stream of nodes appended from now on */
    yk_error error;   /* first failure */
} yk__graph;

void yk__graph_init(yk__graph *g);
void yk__graph_free(yk__graph *g);
void yk__graph_clear(yk__graph *g); /* empty, keeps its memory and slot 0 */
uint64_t yk__graph_bytes(const yk__graph *g); /* bytes of memory it holds */
/* An ABI graph over g's arrays (bodies moved behind the nodes, hash computed). Valid until g changes. */
yk_status yk__graph_seal(yk__graph *g, yk_graph *out, yk_error *err);
/* A deep copy. */
yk_status yk__graph_copy(const yk__graph *g, yk__graph *out, yk_error *err);

/* Slots: slot 0 is the arena and always there. Returns the slot number, YK_NONE when memory is gone. */
uint32_t yk__slot_new(yk__graph *g, yk_slot_kind kind, uint64_t bytes, uint32_t key);

/* A leaf value that fills (part of) a slot from byte `offset`; dense. */
yk__vid yk__leaf(yk__graph *g, uint32_t slot, uint64_t offset, yk_dtype dtype, uint32_t dims, const int64_t *dim);

/* Marks two i32 vectors, leaves of inputs, as inverses: if a[i] is j >= 0, b[j] is i, and the reverse; -1 elsewhere. The planner
 * then replaces sums of rows by one of them with look-ups by the other. */
void yk__graph_mark_inverse(yk__graph *g, yk__vid a, yk__vid b);

/* A new value without a producer yet (dense, no slot), for bodies and passes that build nodes by hand. */
yk__vid yk__value_new(yk__graph *g, yk_dtype dtype, uint32_t dims, const int64_t *dim);

/* Appends a node over given values; the caller guarantees the shapes. All functions below use it.
 * Returns the node number, YK_NONE on failure. */
uint32_t yk__node_new(yk__graph *g, yk_op op, uint32_t flags, uint32_t n_in, const yk__vid *in, uint32_t n_out,
                      const yk__vid *out, uint32_t n_attr, const int64_t *attr);

/* Appends a node to body[], for map, dot_map and map_sum; returns its number there. The caller sets body and n_body of
 * the top node that owns it; yk__graph_seal moves body nodes to their place in the ABI's array. */
uint32_t yk__body_new(yk__graph *g, yk_op op, uint32_t n_in, const yk__vid *in, uint32_t n_out, const yk__vid *out,
                      uint32_t n_attr, const int64_t *attr);

/* Appends a node of any op; infers and creates its outputs (out[0..n]). Checks operand number, shapes, dtypes and
 * attributes against the op table, by the rules of plugin.h. For ops whose shape does not follow from the inputs (fill, iota,
 * rng, scatter_add, fold, *_dx, *_dw, *_bwd of pools) `dims`, `dim` give the output's shape; otherwise dim may be NULL.
 * out_dtype: YK_DTYPE_COUNT = the op's own rule. dot, sum, scatter_add, fold, conv2d* and attention* accept YK_F32 for
 * 16-bit operands; layer_norm accepts a 16-bit format for f32. Operands with strides that the op rejects are copied first;
 * the 4-D operands of attention keep any strides with a dense last dimension. Outputs of adam_step and sgd_step are views of
 * the operands they replace. Returns the number of outputs, 0 on failure. */
uint32_t yk__apply(yk__graph *g, yk_op op, uint32_t n_in, const yk__vid *in, uint32_t n_attr, const int64_t *attr,
                   yk_dtype out_dtype, uint32_t dims, const int64_t *dim, yk__vid *out, uint32_t max_out);

/* ---- Short forms over yk__apply. Elementwise forms broadcast their operands by NumPy's rule, with views. --------- */
yk__vid yk__un(yk__graph *g, yk_op op, yk__vid x);
yk__vid yk__bin(yk__graph *g, yk_op op, yk__vid a, yk__vid b);
yk__vid yk__all_reduce(yk__graph *g, yk__vid x); /* sum over ranks */
yk__vid yk__all_max(yk__graph *g, yk__vid x);    /* maximum over ranks; no gradient passes */
yk__vid yk__cast(yk__graph *g, yk__vid x, yk_dtype dtype);                   /* x itself if it has that type */
yk__vid yk__select(yk__graph *g, yk__vid c, yk__vid a, yk__vid b);
yk__vid yk__const(yk__graph *g, double value, yk_dtype dtype);               /* fill of one element, dims 0 */
yk__vid yk__fill(yk__graph *g, double value, yk_dtype dtype, uint32_t dims, const int64_t *dim);
yk__vid yk__iota(yk__graph *g, uint32_t axis, yk_dtype dtype, uint32_t dims, const int64_t *dim);
yk__vid yk__rng(yk__graph *g, yk__vid key, yk__vid rows, uint32_t stream, uint32_t dims, const int64_t *dim);
yk__vid yk__scale(yk__graph *g, yk__vid x, double factor);                   /* x * const */
yk__vid yk__sum(yk__graph *g, yk__vid x, uint32_t axes);                     /* keeps reduced axes as 1 */
yk__vid yk__rmax(yk__graph *g, yk__vid x, uint32_t axes);
yk__vid yk__argmax(yk__graph *g, yk__vid x, uint32_t axis);
yk__vid yk__dot(yk__graph *g, yk__vid a, yk__vid b, bool ta, bool tb);       /* ta: a is given as [.., K, M] */
yk__vid yk__gather(yk__graph *g, yk__vid table, yk__vid index); /* index of any shape: index.dims + table.dims[1..] */
yk__vid yk__scatter_add(yk__graph *g, yk__vid src, yk__vid index, int64_t rows);
/* Views. A view within the rules needs no node; for an op with dense operands yk__dense() then inserts a copy. A reshape that the strides
 * do not allow copies first. The base of a view is never a view, and its offset counts from the slot's start as the base's does. A view
 * that equals its operand is that operand. */
yk__vid yk__reshape(yk__graph *g, yk__vid x, uint32_t dims, const int64_t *dim); /* one length may be -1 */
yk__vid yk__permute(yk__graph *g, yk__vid x, const uint32_t *axis);
yk__vid yk__expand(yk__graph *g, yk__vid x, uint32_t dims, const int64_t *dim);  /* broadcast to a shape */
yk__vid yk__slice(yk__graph *g, yk__vid x, uint32_t axis, int64_t begin, int64_t end, int64_t step);
yk__vid yk__dense(yk__graph *g, yk__vid x);
/* Primitives under the views. yk__alias_new: a new value over the memory of `of`, never folded; v gives dims, dim, stride, and
 * offset (counted from the root of `of`). yk__copy_into: a copy node from x into such a view of base, which was completely
 * written before; returns the node's output. x has v's shape and any strides. */
yk__vid yk__alias_new(yk__graph *g, yk__vid of, const yk_value *v);
yk__vid yk__copy_into(yk__graph *g, yk__vid x, yk__vid base, const yk_value *v);
/* out = value everywhere, with x copied to begin[], begin[]+step[]*i (step NULL = 1): the adjoint of slice, and pad. */
yk__vid yk__pad(yk__graph *g, yk__vid x, uint32_t dims, const int64_t *dim, const int64_t *begin, const int64_t *step,
                double value);
yk__vid yk__concat(yk__graph *g, uint32_t n, const yk__vid *x, uint32_t axis);

/* ---- Queries --------------------------------------------------------------------------------------------------- */
int64_t yk__value_count(const yk_value *v);  /* elements */
uint64_t yk__value_bytes(const yk_value *v); /* bytes of the dense value */
bool yk__value_is_dense(const yk_value *v);
uint32_t yk__strided_results(uint32_t op); /* number of leading results that YK_CLAIM_STRIDED_OUT lets be views */
/* True if YK_CLAIM_STRIDED_OUT lets matrices of 16 bits have padded rows: dot, cross_entropy and its gradient. */
bool yk__has_padded_rows(uint32_t op);
/* True if that holds for operand or result i, as it is or transposed. */
bool yk__takes_padded_rows(uint32_t op, uint32_t i, bool result, bool transposed);
/* True if the views v[0..n), of one shape and side by side, cover the dense value x, each element once. */
bool yk__value_tiles(const yk_value *const *v, uint32_t n, const yk_value *x);
bool yk__value_is_broadcast(const yk_value *v); /* dense or stride 0, as elementwise operands may be */
bool yk__value_same_shape(const yk_value *a, const yk_value *b);
const char *yk__value_shape_text(const yk_value *v, char *buf, size_t n); /* "f32[128, 784]" */

/* ---- Bodies ---------------------------------------------------------------------------------------------------- */
/* Appends to g the primitives and simpler composites that define a composite node of `src` (may be g itself). `in` are g's
 * values for the node's operands; `out` gets g's values for its outputs. For adam_step and sgd_step these are the new values:
 * the caller copies them over the old ones. YK_E_UNSUPPORTED for a primitive. */
yk_status yk__body_append(yk__graph *g, const yk_graph *src, uint32_t node, const yk__vid *in, yk__vid *out,
                          yk_error *err);

/* ---- Text, DOT, the rules ---------------------------------------------------------------------------------------- */
/* Allocated strings (yk__free); NULL when memory is gone. */
char *yk__graph_text(const yk_graph *g);
char *yk__graph_dot(const yk_graph *g);
/* Checks all rules that a plugin may rely on (operand kinds, shapes, order of nodes, in-bounds offsets when planned). */
yk_status yk__graph_check(const yk_graph *g, yk_error *err);

/* ---- Reference evaluation ---------------------------------------------------------------------------------------- */
/* Runs one node in double precision on host memory, and stores in the values' types (f64 slots are legal here). It is the reference of all
 * tests. slot[i]: address of slot i. Composites run by their own float64 code instead of their bodies. */
yk_status yk__eval_node(const yk_graph *g, uint32_t node, void *const *slot, yk_error *err);
/* The same, with operands of dot that are not of 16 bits rounded to so many bits; 0: not rounded. */
yk_status yk__eval_node_rounded(const yk_graph *g, uint32_t node, void *const *slot, uint32_t product_bits, yk_error *err);
/* Plans and runs a whole unplanned graph with every float value held in double. `leaf` has the buffers of the leaves' slots
 * by slot number, arrays of double / int32_t / uint8_t; out[i] gets the doubles of value want[i]. */
yk_status yk__eval_graph(const yk__graph *g, void *const *leaf, uint32_t n_want, const yk__vid *want,
                         double *const *out, yk_error *err);

#endif
