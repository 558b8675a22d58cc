/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts's test cases of map, dot_map and map_sum, whose bodies stand in the graph itself. cases.c lists them; the groups composite, body
 * and guard (groups.c) run each in their child process, and compare with the reference.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/plan/fuse_cluster.h"
#include "tools/cts/cts.h"

void cts_make_body(yk__graph *g, yk_op op, size_t first, uint32_t n_in, const yk__vid *in, uint32_t n_out, const yk__vid *out)
{
    size_t n = g->n_node - first, at = g->n_body;
    uint32_t node;
    if (g->error.status)
        return;
    if (yk__grow(&g->body, &g->cap_body, at + n, sizeof *g->body)) {
        yk__fail_mem(&g->error, n * sizeof *g->body, "the body of a node");
        return;
    }
    memcpy(g->body + at, g->node + first, n * sizeof *g->body);
    g->n_body += n;
    g->n_node = first;
    node = yk__node_new(g, op, 0, n_in, in, n_out, out, 0, NULL);
    if (node != YK_NONE) {
        g->node[node].body = (uint32_t)at;
        g->node[node].n_body = (uint32_t)n;
    }
}

/* Value y in the memory of x, which a node then both reads and writes. */
static void lies_on(yk__graph *g, yk__vid y, yk__vid x)
{
    if (g->error.status)
        return;
    g->value[y].slot = g->value[x].slot;
    g->value[y].offset = g->value[x].offset;
}

/* y = tanh(a * b + c) * 0.5, z = max(a, c) * b: every operand of the full shape, c broadcast from a row. in_place: one output is in the
 * memory of a or of b, which both outputs need: the first for 0 and 1, with a dense c, else the second. */
static void two_outputs(cts_check *k, yk_dtype dtype, const int64_t *dim, int in_place)
{
    yk__graph *g = &k->g;
    yk__vid in[3], out[2], t;
    size_t first;
    in[0] = cts_state(g, dtype, CTS_UNIT, 0, 2, dim);
    in[1] = cts_state(g, dtype, CTS_UNIT, 1, 2, dim);
    in[2] = in_place == 0 || in_place == 1 ? cts_leaf(g, dtype, CTS_UNIT, 2, 2, dim)
                                           : yk__expand(g, cts_leaf(g, dtype, CTS_UNIT, 2, 1, dim + 1), 2, dim);
    first = g->n_node;
    t = yk__bin(g, YK_OP_ADD, yk__bin(g, YK_OP_MUL, in[0], in[1]), in[2]);
    out[0] = yk__bin(g, YK_OP_MUL, yk__un(g, YK_OP_TANH, t), yk__fill(g, 0.5, dtype, 2, dim));
    out[1] = yk__bin(g, YK_OP_MUL, yk__bin(g, YK_OP_MAX, in[0], in[2]), in[1]);
    cts_make_body(g, YK_OP_MAP, first, 3, in, 2, out);
    if (in_place >= 0) {
        lies_on(g, out[in_place / 2], in[in_place % 2]);
        k->claims = YK_CLAIM_RUN; /* a body run node by node would read overwritten data */
    }
    cts_want(k, out[0]);
    cts_want(k, out[1]);
}

/* A chain through other types: f32 -> compare -> select -> cast. */
static void mixed_types(cts_check *k, yk_dtype dtype, const int64_t *dim)
{
    yk__graph *g = &k->g;
    yk__vid in[2], out, a, b;
    size_t first;
    in[0] = cts_leaf(g, dtype, CTS_WIDE, 0, 2, dim);
    in[1] = cts_leaf(g, YK_F32, CTS_WIDE, 1, 2, dim);
    first = g->n_node;
    a = yk__cast(g, in[0], YK_F32);
    b = yk__select(g, yk__bin(g, YK_OP_LT, a, in[1]), yk__un(g, YK_OP_EXP, in[1]), yk__un(g, YK_OP_NEG, a));
    out = yk__cast(g, yk__bin(g, YK_OP_DIV, b, yk__fill(g, 3, YK_F32, 2, dim)), dtype);
    cts_make_body(g, YK_OP_MAP, first, 2, in, 1, &out);
    cts_want(k, out);
}

/* Twenty-four inputs added up. */
static void many_inputs(cts_check *k, yk_dtype dtype, const int64_t *dim)
{
    yk__graph *g = &k->g;
    yk__vid in[24], sum;
    size_t first;
    for (uint32_t i = 0; i < 24; i++)
        in[i] = cts_leaf(g, dtype, CTS_UNIT, i, 2, dim);
    first = g->n_node;
    sum = in[0];
    for (uint32_t i = 1; i < 24; i++)
        sum = yk__bin(g, YK_OP_ADD, sum, in[i]);
    cts_make_body(g, YK_OP_MAP, first, 24, in, 1, &sum);
    cts_want(k, sum);
}

/* The largest nodes that fusion makes: the most members with a constant each, inputs and outputs. After the product, if any, x = 0.75 x
 * + in[i] repeats over all inputs; the outputs are its last values, or sums over rows of them. */
static void case_largest(cts_check *k, yk_op op, yk_dtype dtype, const int64_t *dim)
{
    static const int64_t depth = 19;
    const int64_t a[] = {dim[0], depth}, b[] = {depth, dim[1]};
    const uint32_t n_out = op == YK_OP_DOT_MAP ? YK__FUSE_OUT - 1 : YK__FUSE_OUT;
    const uint32_t members = YK__FUSE_NODES - (op == YK_OP_DOT_MAP) - (op == YK_OP_MAP_SUM ? n_out : 0), steps = members / 2;
    yk__graph *g = &k->g;
    yk__vid in[YK__FUSE_IN], out[YK__FUSE_OUT], x[YK__FUSE_NODES + 1];
    uint32_t from = 1;
    size_t first;
    for (uint32_t i = 0; i < YK__FUSE_IN; i++)
        in[i] = cts_leaf(g, dtype, CTS_UNIT, i, 2, op == YK_OP_DOT_MAP && i < 2 ? (i ? b : a) : dim);
    first = g->n_node;
    if (op == YK_OP_DOT_MAP)
        from = 2;
    x[0] = op == YK_OP_DOT_MAP ? yk__dot(g, in[0], in[1], false, false) : in[0];
    for (uint32_t i = 0; i < steps; i++)
        x[i + 1] = yk__bin(g, YK_OP_ADD, yk__bin(g, YK_OP_MUL, x[i], yk__fill(g, 0.75 + 0.001 * i, dtype, 2, dim)),
                           in[from + i % (YK__FUSE_IN - from)]);
    for (uint32_t i = 0; i < n_out; i++)
        out[i] = op == YK_OP_MAP_SUM ? yk__sum(g, x[steps - i], 2) : x[steps - i];
    cts_make_body(g, op, first, YK__FUSE_IN, in, n_out, out);
    for (uint32_t i = 0; i < n_out; i++)
        cts_want(k, out[i]);
}

/* y = a b + bias; z = y / (1 + exp(-y)) + residual; both are results where `both`. */
static void dot_epilogue(cts_check *k, yk_dtype dtype, const int64_t *dim, int64_t depth, bool both)
{
    yk__graph *g = &k->g;
    const int64_t a[] = {dim[0], depth}, b[] = {depth, dim[1]};
    yk__vid in[4], y, t, out[2];
    size_t first;
    in[0] = cts_leaf(g, dtype, CTS_UNIT, 0, 2, a);
    in[1] = cts_leaf(g, dtype, CTS_UNIT, 1, 2, b);
    in[2] = yk__expand(g, cts_leaf(g, dtype, CTS_UNIT, 2, 1, dim + 1), 2, dim);
    in[3] = cts_leaf(g, dtype, CTS_UNIT, 3, 2, dim);
    first = g->n_node;
    out[1] = yk__dot(g, in[0], in[1], false, false);
    y = yk__bin(g, YK_OP_ADD, out[1], in[2]);
    t = yk__bin(g, YK_OP_ADD, yk__un(g, YK_OP_EXP, yk__un(g, YK_OP_NEG, y)), yk__fill(g, 1, dtype, 2, dim));
    out[0] = yk__bin(g, YK_OP_ADD, yk__bin(g, YK_OP_DIV, y, t), in[3]);
    cts_make_body(g, YK_OP_DOT_MAP, first, 4, in, both ? 2 : 1, out);
    cts_want(k, out[0]);
    if (both)
        cts_want(k, out[1]);
}

/* Sums of a*b and of a over some axes. */
static void case_map_sum(cts_check *k, yk_dtype dtype, const int64_t *dim, uint32_t axes, bool two)
{
    yk__graph *g = &k->g;
    yk__vid in[2], out[2];
    size_t first;
    in[0] = cts_leaf(g, dtype, CTS_UNIT, 0, 2, dim);
    in[1] = cts_leaf(g, dtype, CTS_UNIT, 1, 2, dim);
    first = g->n_node;
    out[0] = yk__sum(g, yk__bin(g, YK_OP_MUL, in[0], in[1]), axes);
    out[1] = two ? yk__sum(g, in[0], axes) : YK_NONE;
    cts_make_body(g, YK_OP_MAP_SUM, first, 2, in, two ? 2 : 1, out);
    cts_want(k, out[0]);
    if (two)
        cts_want(k, out[1]);
}

/* y = dropout(a * 2) + b, or dropout of a product: a random number by global row belongs to every element. */
static void map_dropout(cts_check *k, yk_dtype dtype, const int64_t *dim, int64_t depth)
{
    yk__graph *g = &k->g;
    const int64_t a[] = {dim[0], depth ? depth : dim[1]}, b[] = {depth, dim[1]}, four[] = {4};
    const int64_t attr[] = {yk_attr_of_f64(0.3), 9};
    yk__vid in[5], x[3], y = YK_NONE, out;
    uint32_t n = 0;
    size_t first;
    in[n++] = cts_leaf(g, dtype, CTS_UNIT, 0, 2, a);
    if (depth)
        in[n++] = cts_leaf(g, dtype, CTS_UNIT, 1, 2, b);
    in[n++] = cts_leaf(g, dtype, CTS_UNIT, 2, 2, dim);
    x[1] = in[n++] = cts_leaf(g, YK_I32, CTS_KEY, 0, 1, four);
    x[2] = in[n++] = cts_leaf(g, YK_I32, CTS_ROWS, 0, 1, dim);
    first = g->n_node;
    x[0] = depth ? yk__dot(g, in[0], in[1], false, false) : yk__bin(g, YK_OP_MUL, in[0], yk__fill(g, 2, dtype, 2, dim));
    yk__apply(g, YK_OP_DROPOUT, 3, x, 2, attr, YK_DTYPE_COUNT, 0, NULL, &y, 1);
    out = yk__bin(g, YK_OP_ADD, y, in[n - 3]);
    cts_make_body(g, depth ? YK_OP_DOT_MAP : YK_OP_MAP, first, n, in, 1, &out);
    cts_want(k, out);
}

/* y = x / sqrt(x * x + eps), as norms are whose variance is less than eps. */
static void small_scaled(cts_check *k, yk_dtype dtype, const int64_t *dim)
{
    yk__graph *g = &k->g;
    yk__vid x = cts_leaf(g, dtype, CTS_SMALL, 10, 2, dim), y;
    const size_t first = g->n_node;
    y = yk__bin(g, YK_OP_ADD, yk__bin(g, YK_OP_MUL, x, x), yk__fill(g, 1e-5, dtype, 2, dim));
    y = yk__bin(g, YK_OP_MUL, x, yk__un(g, YK_OP_RSQRT, y));
    cts_make_body(g, YK_OP_MAP, first, 1, &x, 1, &y);
    cts_want(k, y);
}

bool cts_case_map(cts_check *k, uint32_t number, yk_dtype dtype, char *name, size_t n)
{
    static const int64_t dims[3][2] = {{33, 65}, {2, 7}, {128, 257}};
    const int64_t *dim = dims[number % 3];
    uint32_t which = number / 3;
    static const char *const names[] = {"map.two_outputs", "map.types",        "map.24_inputs", "dot_map.one",
                                        "dot_map.two",     "map_sum.rows",     "map_sum.cols.two", "map_sum.all",
                                        "map.dropout",     "dot_map.dropout",
                                        "map.two_outputs.first_on_a",  "map.two_outputs.first_on_b",
                                        "map.two_outputs.second_on_a", "map.two_outputs.second_on_b",
                                        "map.largest",     "dot_map.largest",  "map_sum.largest", "map.small"};
    if (which >= sizeof names / sizeof *names)
        return false;
    snprintf(name, n, "%s.%lldx%lld", names[which], (long long)dim[0], (long long)dim[1]);
    k->tol = CTS_NOISE;
    k->in_type = dtype;
    switch (which) {
    case 0:
        two_outputs(k, dtype, dim, -1);
        break;
    case 1:
        mixed_types(k, dtype, dim);
        break;
    case 2:
        many_inputs(k, dtype, dim);
        break;
    case 3:
    case 4:
        dot_epilogue(k, dtype, dim, number % 3 == 2 ? 96 : 19, which == 4);
        break;
    case 8:
    case 9:
        map_dropout(k, dtype, dim, which == 8 ? 0 : number % 3 == 2 ? 96 : 19);
        break;
    case 10:
    case 11:
    case 12:
    case 13:
        two_outputs(k, dtype, dim, (int)which - 10);
        break;
    case 14:
    case 15:
    case 16:
        case_largest(k, YK_OP_MAP + (which - 14), dtype, dim);
        break;
    case 17:
        small_scaled(k, dtype, dim);
        break;
    default:
        case_map_sum(k, dtype, dim, which == 5 ? 2 : which == 6 ? 1 : 3, which == 6);
    }
    return true;
}
