/* SPDX-License-Identifier: Apache-2.0 */
/* Text, DOT, the serial form, and the checker: its refusals, and that no mutation of a graph harms the reader. */
#include "tests/fuzz/graph_input.h"
#include "tests/support/graph_lab.h"
#include "tests/support/run.h"

static yk__graph g;

static void graph_begin(void)
{
    yk__graph_init(&g);
    graph_input_base(&g);
    ck_assert_msg(g.error.status == YK_OK, "%s", g.error.text);
}

static void graph_end(void)
{
    yk__graph_free(&g);
}

static yk_status graph_check(yk_error *err)
{
    yk_graph s;
    *err = (yk_error)YK_ERROR_INIT;
    ck_assert_int_eq(yk__graph_seal(&g, &s, err), YK_OK);
    return yk__graph_check(&s, err);
}

START_TEST(good_one)
{
    yk_error err;
    graph_check(&err);
    ck_assert_msg(err.status == YK_OK, "%s", err.text);
}
END_TEST

START_TEST(round_trip)
{
    yk__graph h;
    yk_graph s, t;
    yk_error err = YK_ERROR_INIT;
    void *data, *more;
    size_t bytes, n;
    ck_assert_int_eq(yk__graph_seal(&g, &s, &err), YK_OK);
    ck_assert_int_eq(graph_write(&s, &data, &bytes, &err), YK_OK);
    graph_read(data, bytes, &h, &err);
    ck_assert_msg(err.status == YK_OK, "%s", err.text);
    ck_assert_int_eq(yk__graph_seal(&h, &t, &err), YK_OK);
    ck_assert_uint_eq(s.hash, t.hash);
    ck_assert_int_eq(graph_write(&t, &more, &n, &err), YK_OK);
    ck_assert_uint_eq(n, bytes);
    ck_assert_int_eq(memcmp(data, more, n), 0);
    for (size_t i = 0; i < bytes; i += 7) { /* damage is seen, and so is a cut */
        yk__graph bad;
        ((unsigned char *)data)[i] ^= 0x40;
        ck_assert_int_eq(graph_read(data, bytes, &bad, &err), YK_E_FORMAT);
        ((unsigned char *)data)[i] ^= 0x40;
        ck_assert_int_eq(graph_read(data, i, &bad, &err), YK_E_FORMAT);
    }
    yk__free(data);
    yk__free(more);
    yk__graph_free(&h);
}
END_TEST

START_TEST(text_and_dot_are_readable)
{
    yk_graph s;
    yk_error err = YK_ERROR_INIT;
    char *text, *dot;
    ck_assert_int_eq(yk__graph_seal(&g, &s, &err), YK_OK);
    text = yk__graph_text(&s), dot = yk__graph_dot(&s);
    ck_assert_ptr_nonnull(strstr(text, "f32[6, 12] = dot(%0, %2)"));
    ck_assert_ptr_nonnull(strstr(text, "    %"));
    ck_assert_ptr_nonnull(strstr(text, "attention(") ? strstr(text, "{1 0.5 0 0 0}") : NULL);
    ck_assert_ptr_nonnull(strstr(dot, "digraph yoke {"));
    ck_assert_ptr_nonnull(strstr(dot, "label=\"conv2d"));
    yk__free(text);
    yk__free(dot);
}
END_TEST

static uint32_t node_find(yk_op op)
{
    for (uint32_t i = 0; i < g.n_node; i++)
        if (g.node[i].op == op)
            return i;
    ck_abort_msg("no such node");
    return 0;
}

enum { NODE_FAULTS = 15, FLAG_FAULTS = 4, FAULTS = 30 };

/* One deliberate fault of a node, its operands or its body. */
static void node_spoil(int fault)
{
    yk_node *dot = &g.node[node_find(YK_OP_DOT)], *map = &g.node[node_find(YK_OP_MAP)], *conv = &g.node[node_find(YK_OP_CONV2D)];
    yk_node *sum = &g.node[node_find(YK_OP_MAP_SUM)];
    switch (fault) {
    case 0:
        dot->op = YK_OP_COUNT;
        break;
    case 1:
        dot->n_in = 25;
        break;
    case 2:
        dot->in = (uint32_t)g.n_index;
        break;
    case 3:
        g.index[dot->in] = (uint32_t)g.n_value;
        break;
    case 4:
        g.index[dot->in] = g.index[conv->out];
        break; /* not written yet */
    case 5:
        g.index[conv->out] = g.index[dot->out];
        break; /* written twice */
    case 6:
        dot->n_body = 1;
        break;
    case 7:
        map->n_body = 1;
        break; /* the output is not written */
    case 8:
        map->body = 1000;
        break;
    case 9:
        g.body[map->body].op = YK_OP_SUM;
        break;
    case 10:
        g.body[map->body].op = YK_OP_IOTA;
        break;
    case 11:
        sum->n_body = 1;
        break;
    case 12:
        g.attr[conv->attr + 6] = 0;
        break;
    case 13:
        g.attr[conv->attr] = INT64_MAX;
        break;
    default:
        conv->n_attr = 6;
        break;
    }
}

/* Flags that a product may not have, and any other node never. */
static void flags_spoil(int fault)
{
    static const uint16_t flags[] = {YK_NODE_A_E4M3 | YK_NODE_A_E5M2, YK_NODE_B_E4M3 | YK_NODE_B_E5M2, 2 * YK_NODE_B_E5M2, YK_NODE_A_E4M3};
    g.node[node_find(fault < 3 ? YK_OP_DOT : YK_OP_CONV2D)].flags = flags[fault];
}

/* One of a value or a slot. */
static void value_spoil(int fault)
{
    yk_value *y = &g.value[g.index[g.node[node_find(YK_OP_DOT)].out]];
    switch (fault) {
    case 0:
        y->dim[1] = 13, yk__value_count(y);
        break;
    case 1:
        y->dtype = YK_BF16;
        break;
    case 2:
        g.value[0].offset = 1000;
        break; /* behind the slot's end */
    case 3:
        g.value[0].slot = 99;
        break;
    case 4:
        g.value[2].offset = 2;
        break;
    case 5:
        g.value[2].stride[0] = 5;
        break;
    case 6:
        g.value[2].base = 2;
        break;
    case 7:
        g.slot[0].kind = YK_SLOT_PARAM;
        break;
    case 8:
        g.value[1].dim[0] = INT64_MAX;
        break;
    case 9:
        g.value[0].dims = 9;
        break;
    default:
        g.value[0].dim[0] = 0;
        break;
    }
}

/* One fault at a time; the checker names it. */
static void graph_spoil(int fault)
{
    if (fault < NODE_FAULTS)
        node_spoil(fault);
    else if (fault < NODE_FAULTS + FLAG_FAULTS)
        flags_spoil(fault - NODE_FAULTS);
    else
        value_spoil(fault - NODE_FAULTS - FLAG_FAULTS);
}

START_TEST(faults_are_named)
{
    yk_error err;
    graph_spoil(_i);
    ck_assert_msg(graph_check(&err) == YK_E_FORMAT, "fault %d was taken", _i);
    ck_assert_ptr_nonnull(strstr(err.text, "graph: "));
}
END_TEST

START_TEST(mutated_bytes_are_refused_or_sound)
{
    yk_graph s;
    yk_error err = YK_ERROR_INIT;
    void *data;
    size_t bytes;
    lab random = {.seed = 11};
    int taken = 0;
    ck_assert_int_eq(yk__graph_seal(&g, &s, &err), YK_OK);
    ck_assert_int_eq(graph_write(&s, &data, &bytes, &err), YK_OK);
    bytes -= 8;
    for (int i = 0; i < 6000; i++) {
        unsigned char *p = malloc(bytes);
        memcpy(p, data, bytes);
        for (int k = 0; k <= i % 4; k++) {
            static const unsigned char odd[] = {0, 1, 2, 3, 4, 7, 0x7f, 0x80, 0xff};
            size_t at = (size_t)(lab_random(&random) * (double)bytes);
            p[at] = lab_random(&random) < 0.5 ? odd[(int)(lab_random(&random) * 9)]
                                              : (unsigned char)(lab_random(&random) * 256);
        }
        taken += graph_input_read(p, i % 16 ? bytes : bytes - (size_t)(i / 16 % 64));
        free(p);
    }
    yk__free(data);
    ck_assert_int_gt(taken, 100); /* keys, attributes and numbers for messages may be anything */
    ck_assert_int_lt(taken, 3000);
}
END_TEST

/* The gradients of attention on q, k, v of [2,3,4,8] as parts of rows [2,4,3,3,8], which are read then; the node's number. */
static uint32_t joint_gradients(yk_value part[3])
{
    const int64_t heads[] = {2, 3, 4, 8}, rows[] = {2, 4, 3, 3, 8}, attr[] = {0, yk_attr_of_f64(0.3), yk_attr_of_f64(0), 0, 0};
    yk__vid in[6], out[3], y[2], joint;
    uint32_t node;
    for (int i = 0; i < 4; i++)
        in[i ? i + 2 : 0] = yk__leaf(&g, yk__slot_new(&g, YK_SLOT_INPUT, 768, (uint32_t)i), 0, YK_F32, 4, heads);
    ck_assert_uint_eq(yk__apply(&g, YK_OP_ATTENTION, 3, in + 3, 5, attr, YK_DTYPE_COUNT, YK_NONE, NULL, y, 2), 2);
    in[1] = y[0], in[2] = y[1];
    node = (uint32_t)g.n_node;
    ck_assert_uint_eq(yk__apply(&g, YK_OP_ATTENTION_BWD, 6, in, 5, attr, YK_DTYPE_COUNT, YK_NONE, NULL, out, 3), 3);
    joint = yk__value_new(&g, YK_F32, 5, rows);
    for (uint32_t i = 0; i < 3; i++) {
        part[i] = g.value[out[0]];
        part[i].offset = i * 24 * 4;
        part[i].stride[0] = 288, part[i].stride[1] = 8, part[i].stride[2] = 72;
        g.index[g.node[node].out + i] = yk__alias_new(&g, joint, &part[i]);
    }
    yk__un(&g, YK_OP_NEG, joint);
    return node;
}

START_TEST(results_that_are_views)
{
    yk_error err;
    yk_value part[3], *v;
    const uint32_t node = joint_gradients(part);
    graph_check(&err);
    ck_assert_msg(err.status == YK_OK, "%s", err.text);
    v = &g.value[g.index[g.node[node].out + 2]];
    v->offset = 24 * 4; /* gk and gv over each other, and a third of it unwritten */
    ck_assert_int_eq(graph_check(&err), YK_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "may not be a view"));
    v->offset = 48 * 4;
    v->stride[1] = 0; /* all heads in one place */
    ck_assert_int_eq(graph_check(&err), YK_E_FORMAT);
    v->stride[1] = 8;
    ck_assert_int_eq(graph_check(&err), YK_OK);
    g.node[node - 1].out = g.node[node].out; /* attention writes a part alone */
    ck_assert_int_eq(graph_check(&err), YK_E_FORMAT);
}
END_TEST

START_TEST(memory_gone)
{
    yk_graph s;
    yk_error err = YK_ERROR_INIT;
    void *data;
    size_t bytes;
    yk__graph h;
    yk_status st = YK_E_MEM;
    ck_assert_int_eq(yk__graph_seal(&g, &s, &err), YK_OK);
    ck_assert_int_eq(graph_write(&s, &data, &bytes, &err), YK_OK);
    for (long n = 0; st != YK_OK; n++) {
        yk__mem_fail_after(n);
        st = graph_read(data, bytes, &h, &err);
        yk__mem_fail_after(-1);
        ck_assert(st == YK_OK || st == YK_E_MEM);
        ck_assert_int_lt(n, 100);
    }
    yk__graph_free(&h);
    yk__free(data);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("serial");
    tcase_add_checked_fixture(t, graph_begin, graph_end);
    tcase_add_test(t, good_one);
    tcase_add_test(t, round_trip);
    tcase_add_test(t, text_and_dot_are_readable);
    tcase_add_loop_test(t, faults_are_named, 0, FAULTS);
    tcase_add_test(t, mutated_bytes_are_refused_or_sound);
    tcase_add_test(t, results_that_are_views);
    tcase_add_test(t, memory_gone);
    return suite_run("graph_serial", t);
}
