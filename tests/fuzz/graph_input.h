/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fuzzer's and the deterministic mutation test's use of bytes: they become a serial graph with a right checksum, which is read; an
 * accepted graph goes through every function that takes checked graphs.
 */
#ifndef YOKE_TESTS_FUZZ_GRAPH_INPUT_H
#define YOKE_TESTS_FUZZ_GRAPH_INPUT_H

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/graph/graph.h"
#include "tests/support/graph_serial.h"

static inline void graph_input_map(yk__graph *g, yk__vid x)
{
    int64_t dim[2] = {g->value[x].dim[0], g->value[x].dim[1]}, row[2] = {1, dim[1]};
    yk__vid y = yk__value_new(g, YK_F32, 2, dim), t = yk__value_new(g, YK_F32, 2, dim),
            s = yk__value_new(g, YK_F32, 2, row);
    yk__vid two[2] = {t, x};
    uint32_t n = yk__node_new(g, YK_OP_MAP, 0, 1, &x, 1, &y, 0, NULL);
    int64_t axes = 1;
    g->node[n].body = yk__body_new(g, YK_OP_EXP, 1, &x, 1, &t, 0, NULL);
    yk__body_new(g, YK_OP_ADD, 2, two, 1, &y, 0, NULL);
    g->node[n].n_body = 2;
    t = yk__value_new(g, YK_F32, 2, dim);
    n = yk__node_new(g, YK_OP_MAP_SUM, 0, 1, &y, 1, &s, 0, NULL);
    g->node[n].body = yk__body_new(g, YK_OP_NEG, 1, &y, 1, &t, 0, NULL);
    yk__body_new(g, YK_OP_SUM, 1, &t, 1, &s, 1, &axes);
    g->node[n].n_body = 2;
}

/* A graph with a bit of everything. */
static inline void graph_input_base(yk__graph *g)
{
    int64_t conv[7] = {1, 1, 1, 1, 1, 1, 2}, att[5] = {1, yk_attr_of_f64(0.5), 0, 0, 0}, ce[2] = {-100, 0}, flags = 1;
    yk__vid x, w, h, q[3], in[6], out[4];
    for (uint32_t i = 1; i < 8; i++)
        yk__slot_new(g, i % 2 ? YK_SLOT_PARAM : YK_SLOT_INPUT, 1024, i);
    x = yk__leaf(g, 1, 0, YK_F32, 2, (int64_t[]){6, 4}), w = yk__leaf(g, 2, 64, YK_F32, 2, (int64_t[]){12, 4});
    h = yk__dot(g, x, w, false, true);
    for (int64_t i = 0; i < 3; i++)
        q[i] = yk__permute(g, yk__reshape(g, yk__slice(g, h, 1, 4 * i, 4 * i + 4, 1), 4, (int64_t[]){2, 3, 2, 2}),
                           (uint32_t[]){0, 2, 1, 3});
    yk__apply(g, YK_OP_ATTENTION, 3, q, 5, att, YK_DTYPE_COUNT, 0, NULL, out, 4);
    h = yk__reshape(g, yk__permute(g, out[0], (uint32_t[]){0, 2, 1, 3}), 2, (int64_t[]){6, 4});
    h = yk__bin(g, YK_OP_ADD, yk__un(g, YK_OP_GELU, h), yk__leaf(g, 3, 0, YK_F32, 1, (int64_t[]){4}));
    graph_input_map(g, h);
    in[0] = h, in[1] = yk__leaf(g, 4, 0, YK_I32, 1, (int64_t[]){6});
    yk__apply(g, YK_OP_CROSS_ENTROPY, 2, in, 2, ce, YK_DTYPE_COUNT, 0, NULL, out, 4);
    in[0] = yk__leaf(g, 5, 0, YK_F32, 4, (int64_t[]){1, 4, 3, 3}),
    in[1] = yk__leaf(g, 6, 0, YK_F32, 4, (int64_t[]){2, 2, 3, 3});
    yk__apply(g, YK_OP_CONV2D, 2, in, 7, conv, YK_DTYPE_COUNT, 0, NULL, out, 4);
    in[0] = yk__reshape(g, out[0], 1, (int64_t[]){18});
    for (uint32_t i = 1; i < 4; i++)
        in[i] = yk__leaf(g, i + 2, 512, YK_F32, 1, (int64_t[]){18});
    in[4] = yk__leaf(g, 7, 0, YK_F32, 1, (int64_t[]){16});
    yk__apply(g, YK_OP_ADAM_STEP, 5, in, 1, &flags, YK_DTYPE_COUNT, 0, NULL, out, 4);
    in[0] = h, in[1] = x;
    yk__concat(g, 2, in, 0);
}

static inline void graph_input_use(yk__graph *g)
{
    yk_graph s;
    yk_error err = YK_ERROR_INIT;
    void *data, *leaf[64] = {0};
    size_t bytes;
    int64_t total = 0;
    if (yk__graph_seal(g, &s, &err))
        return;
    yk__free(yk__graph_text(&s));
    yk__free(yk__graph_dot(&s));
    if (graph_write(&s, &data, &bytes, &err) == YK_OK)
        yk__free(data);
    for (uint32_t i = 0; i < s.n_value && total < 4096; i++)
        total += yk__value_count(&s.value[i]) < 4096 ? yk__value_count(&s.value[i]) : 4096;
    if (total >= 4096 || s.n_slot > 64)
        return;
    yk__eval_graph(g, leaf, 0, NULL, NULL, &err);
    for (uint32_t i = 0, n_node = s.n_node; i < n_node && g->n_node < 5000; i++) {
        yk__vid in[24], out[4];
        if (yk__graph_seal(g, &s, &err))
            return;
        memcpy(in, s.index + s.node[i].in, s.node[i].n_in * sizeof *in);
        yk__body_append(g, &s, i, in, out, &err);
    }
}

/* Bytes without their checksum. 1: accepted. */
static inline int graph_input_read(const unsigned char *data, size_t bytes)
{
    unsigned char *p = malloc(bytes + 8);
    uint64_t sum = yk__hash_bytes(YK_HASH_SEED, data, bytes);
    yk_error err = YK_ERROR_INIT;
    yk__graph g;
    int good;
    if (!p)
        return 0;
    if (bytes)
        memcpy(p, data, bytes);
    for (int i = 0; i < 8; i++)
        p[bytes + (size_t)i] = (unsigned char)(sum >> (8 * i));
    good = graph_read(p, bytes + 8, &g, &err) == YK_OK;
    free(p);
    if (good) {
        graph_input_use(&g);
        yk__graph_free(&g);
    }
    return good;
}

#endif
