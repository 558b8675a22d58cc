/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of graphs: a graph with leaves full of random numbers, and comparisons of evaluated values. */
#ifndef YOKE_TESTS_SUPPORT_GRAPH_LAB_H
#define YOKE_TESTS_SUPPORT_GRAPH_LAB_H

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/graph/graph.h"

#define LAB_LEAVES 64

typedef struct lab {
    yk__graph graph;
    void *data[LAB_LEAVES]; /* by slot; double, int32_t or uint8_t */
    yk__vid leaf[LAB_LEAVES];
    uint32_t n_slot;
    uint64_t seed;
} lab;

static inline void lab_begin(lab *l, uint64_t seed)
{
    memset(l, 0, sizeof *l);
    yk__graph_init(&l->graph);
    l->n_slot = 1;
    l->seed = seed;
}

static inline void lab_end(lab *l)
{
    yk__graph_free(&l->graph);
    for (uint32_t i = 0; i < l->n_slot; i++)
        free(l->data[i]);
}

static inline double lab_random(lab *l) /* 0..1, splitmix64 */
{
    uint64_t z = l->seed += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static inline yk__vid lab_leaf(lab *l, yk_dtype dtype, uint32_t dims, const int64_t *dim)
{
    uint32_t slot = yk__slot_new(&l->graph, YK_SLOT_INPUT, 0, l->n_slot);
    ck_assert_uint_eq(slot, l->n_slot);
    l->leaf[slot] = yk__leaf(&l->graph, slot, 0, dtype, dims, dim);
    ck_assert_msg(l->leaf[slot] != YK_NONE, "%s", l->graph.error.text);
    l->data[slot] = calloc((size_t)yk__value_count(&l->graph.value[l->leaf[slot]]) + 1, sizeof(double));
    l->n_slot++;
    return l->leaf[slot];
}

static inline yk__vid lab_float(lab *l, double low, double high, uint32_t dims, const int64_t *dim)
{
    yk__vid v = lab_leaf(l, YK_F32, dims, dim);
    double *x = l->data[l->n_slot - 1];
    for (int64_t i = 0; i < yk__value_count(&l->graph.value[v]); i++)
        x[i] = low + (high - low) * lab_random(l);
    return v;
}

/* low..high, both included */
static inline yk__vid lab_int(lab *l, int low, int high, uint32_t dims, const int64_t *dim)
{
    yk__vid v = lab_leaf(l, YK_I32, dims, dim);
    int32_t *x = l->data[l->n_slot - 1];
    for (int64_t i = 0; i < yk__value_count(&l->graph.value[v]); i++)
        x[i] = low + (int32_t)(lab_random(l) * (high - low + 1));
    return v;
}

static inline yk__vid lab_bool(lab *l, uint32_t dims, const int64_t *dim)
{
    yk__vid v = lab_leaf(l, YK_BOOL, dims, dim);
    uint8_t *x = l->data[l->n_slot - 1];
    for (int64_t i = 0; i < yk__value_count(&l->graph.value[v]); i++)
        x[i] = lab_random(l) < 0.5;
    return v;
}

#define DIM(...) (sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), ((int64_t[]){__VA_ARGS__})

/* The doubles of a value; to be freed. */
static inline double *lab_value(lab *l, const yk__graph *g, yk__vid v)
{
    yk_error err = YK_ERROR_INIT;
    double *x = calloc((size_t)yk__value_count(&g->value[v]) + 1, sizeof *x);
    yk__eval_graph(g, l->data, 1, &v, &x, &err);
    ck_assert_msg(err.status == YK_OK, "%s", err.text);
    return x;
}

static inline yk__vid lab_one(lab *l, yk_op op, uint32_t n, const yk__vid *in, uint32_t n_attr, const int64_t *attr,
                              uint32_t dims, const int64_t *dim, yk__vid *out)
{
    uint32_t k = yk__apply(&l->graph, op, n, in, n_attr, attr, YK_DTYPE_COUNT, dims, dim, out, 4);
    ck_assert_msg(k > 0, "%s", l->graph.error.text);
    for (; k < 4; k++)
        out[k] = YK_NONE;
    return out[0];
}

#endif
