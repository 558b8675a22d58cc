/* SPDX-License-Identifier: Apache-2.0 */
/* The builder: shapes, views, copies where strides need them, sticky errors, hashes, sealing. */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/graph/graph.h"
#include "tests/support/run.h"

static yk__graph g;

static void graph_begin(void)
{
    yk__graph_init(&g);
}

static void graph_end(void)
{
    yk__graph_free(&g);
}

static yk__vid leaf_new(uint32_t dims, int64_t a, int64_t b, int64_t c, int64_t d)
{
    uint32_t slot = yk__slot_new(&g, YK_SLOT_INPUT, 0, (uint32_t)g.n_slot);
    return yk__leaf(&g, slot, 0, YK_F32, dims, (int64_t[]){a, b, c, d});
}

static void expect_shape(yk__vid x, const char *shape)
{
    char text[160];
    ck_assert_msg(x != YK_NONE, "%s", g.error.text);
    ck_assert_str_eq(yk__value_shape_text(&g.value[x], text, sizeof text), shape);
}

START_TEST(op_tables_are_whole)
{
    ck_assert_int_eq(yk__op_find("dot"), YK_OP_DOT);
    ck_assert_int_eq(yk__op_find("nothing"), -1);
    ck_assert_ptr_null(yk__op_info_of(YK_OP_COUNT));
    ck_assert_str_eq(yk__dtype_name(99), "?");
    ck_assert(yk__op_is_map(YK_OP_SELECT) && yk__op_is_map(YK_OP_FILL) && yk__op_is_map(YK_OP_GELU));
    ck_assert(!yk__op_is_map(YK_OP_IOTA) && !yk__op_is_map(YK_OP_DROPOUT) && !yk__op_is_map(YK_OP_ADAM_STEP));
    for (uint32_t i = 0; i < YK_OP_COUNT; i++)
        ck_assert_int_eq(yk__op_find(yk__op_info_of(i)->name), i);
}
END_TEST

START_TEST(linear_layer)
{
    yk__vid x = leaf_new(2, 128, 784, 0, 0), w = leaf_new(2, 10, 784, 0, 0), b = leaf_new(1, 10, 0, 0, 0);
    yk__vid y = yk__bin(&g, YK_OP_ADD, yk__dot(&g, x, w, false, true), b);
    const yk_value *wt;
    expect_shape(y, "f32[128, 10]");
    ck_assert_uint_eq(g.n_node, 2); /* the transposed weight and the broadcast bias are views */
    wt = &g.value[g.index[g.node[0].in + 1]];
    ck_assert_uint_eq(wt->base, w);
    ck_assert_int_eq(wt->stride[0], 1);
    ck_assert_int_eq(wt->stride[1], 784);
}
END_TEST

START_TEST(views_fold)
{
    yk__vid x = leaf_new(2, 6, 4, 0, 0);
    yk__vid p = yk__permute(&g, x, (uint32_t[]){1, 0});
    expect_shape(p, "f32[4, 6]");
    ck_assert_uint_eq(yk__permute(&g, p, (uint32_t[]){1, 0}), x);
    ck_assert_uint_eq(yk__reshape(&g, x, 2, (int64_t[]){6, 4}), x);
    ck_assert_uint_eq(yk__slice(&g, x, 0, 0, 6, 1), x);
    expect_shape(yk__reshape(&g, x, 3, (int64_t[]){2, -1, 4}), "f32[2, 3, 4]");
    ck_assert_uint_eq(g.n_node, 0);
    expect_shape(yk__reshape(&g, p, 1, (int64_t[]){24}), "f32[24]"); /* cannot be a view */
    ck_assert_uint_eq(g.n_node, 1);
    ck_assert_uint_eq(g.node[0].op, YK_OP_COPY);
}
END_TEST

START_TEST(heads_are_views)
{
    /* q of a joint projection [B*T, 3C] as [B, H, T, D] needs no copy, and the slice keeps its offset */
    yk__vid x = leaf_new(2, 2 * 5, 3 * 8, 0, 0);
    yk__vid k = yk__slice(&g, x, 1, 8, 16, 1);
    yk__vid h = yk__permute(&g, yk__reshape(&g, k, 4, (int64_t[]){2, 5, 4, 2}), (uint32_t[]){0, 2, 1, 3});
    expect_shape(h, "f32[2, 4, 5, 2]");
    ck_assert_uint_eq(g.n_node, 0);
    ck_assert_uint_eq(g.value[h].base, x);
    ck_assert_uint_eq(g.value[h].offset, 8 * 4);
    ck_assert_int_eq(g.value[h].stride[0], 5 * 24);
    ck_assert_int_eq(g.value[h].stride[1], 2);
    ck_assert_int_eq(g.value[h].stride[2], 24);
    /* a relu on it needs one copy, attention none */
    expect_shape(yk__un(&g, YK_OP_RELU, h), "f32[2, 4, 5, 2]");
    ck_assert_uint_eq(g.n_node, 2);
    {
        yk__vid in[3] = {h, h, h}, out[2];
        int64_t attr[5] = {1, yk_attr_of_f64(0.5), 0, 0, 0};
        ck_assert_uint_eq(yk__apply(&g, YK_OP_ATTENTION, 3, in, 5, attr, YK_DTYPE_COUNT, 0, NULL, out, 2), 2);
        expect_shape(out[0], "f32[2, 4, 5, 2]");
        expect_shape(out[1], "f32[2, 4, 5]");
        ck_assert_uint_eq(g.n_node, 3);
    }
}
END_TEST

START_TEST(shapes_are_broadcast)
{
    yk__vid a = leaf_new(3, 4, 1, 5, 0), b = leaf_new(2, 3, 1, 0, 0);
    expect_shape(yk__bin(&g, YK_OP_MUL, a, b), "f32[4, 3, 5]");
    expect_shape(yk__bin(&g, YK_OP_LT, a, yk__const(&g, 0, YK_F32)), "bool[4, 1, 5]");
    expect_shape(yk__dot(&g, leaf_new(4, 2, 1, 3, 4), leaf_new(3, 7, 4, 6, 0), false, false), "f32[2, 7, 3, 6]");
    expect_shape(yk__dot(&g, leaf_new(3, 2, 3, 4, 0), leaf_new(2, 4, 6, 0, 0), false, false), "f32[2, 3, 6]");
    ck_assert_uint_eq(yk__bin(&g, YK_OP_ADD, a, leaf_new(1, 6, 0, 0, 0)), YK_NONE);
    ck_assert_int_eq(g.error.status, YK_E_ARG);
    ck_assert_ptr_nonnull(strstr(g.error.text, "add"));
    ck_assert_ptr_nonnull(strstr(g.error.text, "f32[4, 1, 5]"));
    ck_assert_uint_eq(yk__un(&g, YK_OP_EXP, a), YK_NONE); /* the first failure stays */
}
END_TEST

START_TEST(pads_and_joins)
{
    yk__vid a = leaf_new(2, 2, 3, 0, 0), b = leaf_new(2, 2, 5, 0, 0), in[2] = {a, b}, c;
    c = yk__concat(&g, 2, in, 1);
    expect_shape(c, "f32[2, 8]");
    ck_assert_uint_eq(g.n_node, 3);
    expect_shape(yk__pad(&g, a, 2, (int64_t[]){4, 7}, (int64_t[]){1, 0}, (int64_t[]){2, 3}, -1), "f32[4, 7]");
    ck_assert_uint_eq(yk__pad(&g, a, 2, (int64_t[]){4, 6}, (int64_t[]){1, 0}, (int64_t[]){2, 3}, -1), YK_NONE);
}
END_TEST

START_TEST(shapes_of_composites)
{
    yk__vid x = leaf_new(4, 2, 6, 9, 7), w = leaf_new(4, 4, 3, 3, 3), in[2] = {x, w}, y;
    int64_t attr[8] = {2, 1, 1, 0, 1, 2, 2};
    ck_assert_uint_eq(yk__apply(&g, YK_OP_CONV2D, 2, in, 7, attr, YK_DTYPE_COUNT, 0, NULL, &y, 1), 1);
    expect_shape(y, "f32[2, 4, 5, 3]");
    in[0] = y;
    ck_assert_uint_eq(
        yk__apply(&g, YK_OP_CONV2D_DX, 2, in, 7, attr, YK_DTYPE_COUNT, 4, (int64_t[]){2, 6, 10, 7}, &y, 1), 1);
    expect_shape(y, "f32[2, 6, 10, 7]"); /* two inputs lengths give one output length: the caller says which */
    ck_assert_uint_eq(
        yk__apply(&g, YK_OP_CONV2D_DX, 2, in, 7, attr, YK_DTYPE_COUNT, 4, (int64_t[]){2, 6, 11, 7}, &y, 1), 0);
    ck_assert_ptr_nonnull(strstr(g.error.text, "conv2d_dx"));
}
END_TEST

static uint64_t trace_hash(int64_t rows, double factor, uint32_t stream)
{
    yk__graph_clear(&g);
    g.stream = stream;
    yk__scale(&g, yk__un(&g, YK_OP_TANH, leaf_new(2, rows, 3, 0, 0)), factor);
    return g.hash;
}

START_TEST(hash_follows_shapes_not_factors)
{
    uint64_t h = trace_hash(4, 2, 0);
    ck_assert_uint_eq(h, trace_hash(4, 2, 0));
    ck_assert_uint_eq(h, trace_hash(4, 2, 7)); /* the user's line is no part of it */
    ck_assert_uint_ne(h, trace_hash(5, 2, 0));
    ck_assert_uint_ne(h, trace_hash(4, 3, 0));
}
END_TEST

START_TEST(sealed_graph_is_consistent)
{
    yk__vid x = leaf_new(1, 5, 0, 0, 0), y = yk__value_new(&g, YK_F32, 1, (int64_t[]){5});
    yk_graph s;
    yk_error err = YK_ERROR_INIT;
    uint32_t n = yk__node_new(&g, YK_OP_MAP, 0, 1, &x, 1, &y, 0, NULL);
    g.node[n].body = yk__body_new(&g, YK_OP_NEG, 1, &x, 1, &y, 0, NULL);
    g.node[n].n_body = 1;
    yk__un(&g, YK_OP_EXP, y);
    ck_assert_int_eq(yk__graph_seal(&g, &s, &err), YK_OK);
    ck_assert_uint_eq(s.n_node, 2);
    ck_assert_uint_eq(s.n_all_node, 3);
    ck_assert_uint_eq(s.node[0].body, 2);
    ck_assert_uint_eq(s.node[2].op, YK_OP_NEG);
    ck_assert_uint_eq(g.node[0].body, 0);
    {
        uint64_t h = s.hash;
        ck_assert_int_eq(yk__graph_seal(&g, &s, &err), YK_OK);
        ck_assert_uint_eq(s.hash, h);
        g.body[0].op = YK_OP_ABS;
        ck_assert_int_eq(yk__graph_seal(&g, &s, &err), YK_OK);
        ck_assert_uint_ne(s.hash, h);
    }
}
END_TEST

START_TEST(copy_equals_its_graph)
{
    yk__graph c;
    yk_error err = YK_ERROR_INIT;
    yk__vid x = leaf_new(2, 3, 4, 0, 0);
    yk__un(&g, YK_OP_EXP, x);
    ck_assert_int_eq(yk__graph_copy(&g, &c, &err), YK_OK);
    ck_assert_uint_eq(c.hash, g.hash);
    yk__un(&c, YK_OP_EXP, x);
    yk__un(&g, YK_OP_EXP, x);
    ck_assert_uint_eq(c.hash, g.hash);
    ck_assert_uint_eq(c.n_node, 2);
    yk__graph_free(&c);
}
END_TEST

START_TEST(memory_gone)
{
    for (long n = 0; n < 12; n++) {
        graph_end();
        yk__mem_fail_after(n);
        graph_begin();
        for (int i = 0; i < 40 && !g.error.status; i++)
            yk__scale(&g, leaf_new(2, 3, 4, 0, 0), i + 2);
        yk__mem_fail_after(-1);
        ck_assert_int_eq(g.error.status, YK_E_MEM);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {op_tables_are_whole,        linear_layer,          views_fold,           heads_are_views,
                                  shapes_are_broadcast,       pads_and_joins,        shapes_of_composites, hash_follows_shapes_not_factors,
                                  sealed_graph_is_consistent, copy_equals_its_graph, memory_gone};
    return suite_run_all("graph_build", tests, sizeof tests / sizeof *tests, graph_begin, graph_end);
}
