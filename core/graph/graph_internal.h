/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of core/graph: for each op its inference, body, evaluation and layout, and the helpers under the
 * builder.
 */
#ifndef YOKE_CORE_GRAPH_GRAPH_INTERNAL_H
#define YOKE_CORE_GRAPH_GRAPH_INTERNAL_H

#include "core/graph/graph.h"
#include "core/graph/op_table.h"

#define YK_MAX_OPERANDS 24
#define YK_MAX_OUTPUTS 4

/* One call of a shape inference: operands and attributes in, outputs or an error out. Only dtype, dims and dim of out[]
 * are filled. alias[i]: the operand whose memory output i uses, or YK_NONE. */
typedef struct yk__shape {
    uint32_t op, n_in, n_attr, n_out;
    const yk_value *x[YK_MAX_OPERANDS];
    const int64_t *attr;
    uint32_t want_dtype; /* requested dtype; YK_DTYPE_COUNT: the op's own rule */
    uint32_t dims; /* requested shape, for an op whose operands do not determine it; dim NULL: none given */
    const int64_t *dim;
    yk_value out[YK_MAX_OUTPUTS];
    uint32_t alias[YK_MAX_OUTPUTS];
    yk_error *err;
} yk__shape;

typedef bool yk__infer_fn(yk__shape *s);

/* The composite to replace: operands in `in` (values of g), outputs to `out`. x and y hold copies of their shapes.
 */
typedef struct yk__inline {
    yk__graph *g;
    uint32_t op, n_in, n_out, n_attr;
    const yk__vid *in;
    yk__vid out[YK_MAX_OUTPUTS];
    const int64_t *attr;
    const yk_value *x[YK_MAX_OPERANDS], *y[YK_MAX_OUTPUTS]; /* shapes in the source graph */
} yk__inline;

typedef void yk__body_fn(yk__inline *b); /* failures stay in g->error */

/* One node in double precision: all operands dense row-major in x[], results into y[]. */
typedef struct yk__eval {
    uint32_t op, n_in, n_out;
    const yk_value *x_value[YK_MAX_OPERANDS], *y_value[YK_MAX_OUTPUTS]; /* dims and dtypes; strides mean nothing here */
    double *x[YK_MAX_OPERANDS], *y[YK_MAX_OUTPUTS];
    const int64_t *attr;
    yk_error *err;
} yk__eval;

typedef yk_status yk__eval_fn(yk__eval *e);

/* The parts that rows name; several rows may name one. */
#define X(e, infer, body, eval, rule, layout, floats, map, cheap, linear, ranks, back) \
    yk__infer_fn yk__infer_##infer;                                                    \
    yk__body_fn yk__body_##body;                                                       \
    yk__eval_fn yk__eval_##eval;
YK_IMPL_TABLE(X)
#undef X

/* ---- Values (value.c) */
void yk__value_dense_strides(yk_value *v);
bool yk__value_is_dot_operand(const yk_value *v);
/* The layout (yk__layout) that operand i of an op must have. */
uint32_t yk__operand_layout(uint32_t op, uint32_t i, const int64_t *attr);
bool yk__value_fits_layout(const yk_value *v, uint32_t layout);
/* True if v is a matrix of 16 bits whose rows (columns if transposed) are dense, side by side or further apart. */
bool yk__value_is_padded(const yk_value *v, bool transposed);
/* True if every offset of a dim/stride pair lies inside the dense value `base` of the same type. */
bool yk__value_view_inside(const yk_value *v, const yk_value *base);
/* Stores the first failure of a builder call; returns YK_NONE. */
yk__vid yk__graph_fail(yk__graph *g, yk_status status, const char *fmt, ...) YK_PRINTF(3, 4);

/* ---- Inference (shape_*.c) */
bool yk__shape_bad(yk__shape *s, const char *fmt, ...) YK_PRINTF(2, 3); /* always false */
/* Runs the table's checks and the op's inference. */
bool yk__infer(yk__shape *s);

/* ---- Evaluation (eval_*.c) */
/* Random number e of n, spread over `rows`, of a stream (rng in plugin.h). */
double yk__eval_uniform(const double *key, const double *rows, int64_t n_rows, int64_t n, uint32_t stream, int64_t e);
/* Reads and writes one element of a type in memory. */
double yk__eval_load(uint32_t dtype, const void *p);
void yk__eval_store(uint32_t dtype, void *p, double x);

/* Helpers of the inferences. */
bool yk__shape_is(yk__shape *s, uint32_t operand, uint32_t dtype, uint32_t dims, const int64_t *dim);
bool yk__shape_float(yk__shape *s, uint32_t operand);
bool yk__shape_stat(yk__shape *s, uint32_t operand, uint32_t like, int64_t n); /* f32 [n]; f64 beside f64 */
void yk__shape_out(yk__shape *s, uint32_t i, uint32_t dtype, uint32_t dims, const int64_t *dim);
uint32_t yk__shape_dtype(yk__shape *s, uint32_t own); /* own, or f32 if requested */
/* Length of an output of a window op; -1 if the window does not fit. */
int64_t yk__window_out(int64_t in, int64_t k, int64_t stride, int64_t pad, int64_t dil);

#endif
