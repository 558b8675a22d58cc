/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of the two files of the operator vector test. */
#ifndef YOKE_TESTS_SUPPORT_GRAPH_VECTORS_H
#define YOKE_TESTS_SUPPORT_GRAPH_VECTORS_H

#include "tests/support/graph_file.h"

#define VEC_MOST 16

/* One case of ONNX's operator tests: its operands as leaves, its outputs as values; YK_NONE: not built. */
typedef struct vec {
    file_lab file;
    yk__graph *graph;
    const char *op;
    const yk__safetensor *tensor[VEC_MOST]; /* inputs; NULL: absent */
    yk__vid in[VEC_MOST];
    uint32_t n_in;
    yk__vid out[VEC_MOST];
} vec;

typedef struct vec_op {
    const char *name;
    void (*build)(vec *v);
} vec_op;

extern const vec_op vec_simple[], vec_layers[]; /* end with a NULL name */

static inline yk_value vec_shape(const vec *v, yk__vid x)
{
    return v->graph->value[x];
}

static inline yk__vid vec_number(vec *v, double x)
{
    return yk__const(v->graph, x, YK_F32);
}

static inline yk__vid vec_bin(vec *v, yk_op op, yk__vid a, yk__vid b)
{
    return yk__bin(v->graph, op, a, b);
}

/* Whole numbers that the host must know: axes, shapes. Their number; -1: the operand is absent. */
static inline int vec_ints(vec *v, uint32_t operand, int64_t *x, int most)
{
    double *d;
    int n;
    if (operand >= VEC_MOST || !v->tensor[operand])
        return -1;
    d = file_numbers(&v->file, v->tensor[operand]);
    n = d ? (int)v->tensor[operand]->elements : -1;
    for (int i = 0; i < n && i < most; i++)
        x[i] = (int64_t)d[i];
    free(d);
    return n;
}

static inline double vec_real(vec *v, uint32_t operand, double preset)
{
    double *d = operand < VEC_MOST && v->tensor[operand] ? file_numbers(&v->file, v->tensor[operand]) : NULL;
    double x = d && v->tensor[operand]->elements ? d[0] : preset;
    free(d);
    return x;
}

static inline uint32_t vec_axis(const vec *v, yk__vid x, int64_t axis)
{
    return (uint32_t)(axis < 0 ? axis + vec_shape(v, x).dims : axis);
}

static inline yk__vid vec_one(vec *v, yk_op op, uint32_t n, const yk__vid *x, uint32_t n_attr, const int64_t *attr)
{
    yk__vid out[4];
    for (uint32_t i = 0; i < n; i++)
        if (x[i] == YK_NONE)
            return YK_NONE;
    return yk__apply(v->graph, op, n, x, n_attr, attr, YK_DTYPE_COUNT, 0, NULL, out, 4) ? out[0] : YK_NONE;
}

/* x with axis `from` brought to place `to`. */
static inline yk__vid vec_move(vec *v, yk__vid x, uint32_t from, uint32_t to)
{
    uint32_t axis[YK_MAX_DIMS], n = 0;
    const uint32_t dims = vec_shape(v, x).dims;
    for (uint32_t i = 0; n < dims; i++) {
        if (n == to)
            axis[n++] = from;
        if (i != from && n < dims)
            axis[n++] = i;
    }
    return yk__permute(v->graph, x, axis);
}

#endif
