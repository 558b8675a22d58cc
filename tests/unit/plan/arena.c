/* SPDX-License-Identifier: Apache-2.0 */
/* The arena of a device whose largest buffer is too small for it: in parts, with the same results; and a value that fits none. */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/plan_lab.h"
#include "tests/support/run.h"

enum { WIDE = 3000 };

/* Parts of the arena: none is larger than the device's largest buffer, together they are the arena, and results are the same. */
static void expect_parts(const net *n, yk__plan_request *r, uint32_t least)
{
    yk__plan *whole = plan_new(r), *parts;
    yk_device_caps caps = ref_caps;
    uint64_t sum = 0;
    uint32_t many = 0;
    ck_assert_uint_eq(whole->n_arena, 1);
    ck_assert_uint_eq(whole->graph.slot[0].bytes, whole->arena_bytes);
    caps.max_alloc = whole->arena_bytes / least + 100; /* no multiple of anything */
    r->caps = &caps;
    parts = plan_new(r);
    for (size_t i = 0; i < parts->graph.n_slot; i++) {
        const yk_slot *s = &parts->graph.slot[i];
        if (s->kind != YK_SLOT_ARENA)
            continue;
        ck_assert_uint_eq(s->key, many);
        ck_assert_uint_eq(yk__arena_slot(parts->arena_slot, many++), i);
        ck_assert_uint_gt(s->bytes, 0);
        ck_assert_uint_le(s->bytes, caps.max_alloc);
        sum += s->bytes;
    }
    ck_assert_uint_eq(many, parts->n_arena);
    ck_assert_uint_ge(many, least);
    ck_assert_uint_eq(sum, parts->arena_bytes);
    ck_assert_uint_eq(parts->kept_bytes, whole->kept_bytes);
    net_compare(n, parts, false, 2e-6);
    yk__plan_free(parts);
    yk__plan_free(whole);
}

/* Large vectors that ranks add up lie there too: loss = sum(w s s) / WIDE, s the sum over ranks of x x. */
static void build_sums(net *n)
{
    yk__graph *g = &n->g;
    memset(n, 0, sizeof *n);
    yk__graph_init(g);
    n->seed = yk__leaf(g, yk__slot_new(g, YK_SLOT_INPUT, 4, 2), 0, YK_F32, 0, NULL);
    n->state = yk__slot_new(g, YK_SLOT_STATE, 4, 0);
    const yk__vid x = net_vector(n, WIDE), w = net_vector(n, WIDE);
    yk__vid y = yk__all_reduce(g, yk__bin(g, YK_OP_MUL, x, x));
    y = yk__all_reduce(g, yk__bin(g, YK_OP_MUL, y, y));
    n->loss = yk__reshape(g, yk__scale(g, yk__sum(g, yk__bin(g, YK_OP_MUL, w, y), 1), 1.0 / WIDE), 0, NULL);
    n->counted = yk__bin(g, YK_OP_ADD, yk__leaf(g, n->state, 0, YK_F32, 0, NULL), n->loss);
    ck_assert_msg(!g->error.status, "%s", g->error.text);
}

START_TEST(arena_in_parts)
{
    yk__plan_request r;
    net n;
    ref.claim = _i;
    for (uint32_t least = 2; least <= 5; least++) {
        net_build(&n, 4, C);
        net_request(&n, &r, &(yk__assign){0, n.counted});
        expect_parts(&n, &r, least);
        yk__graph_free(&n.g);
    }
    build_sums(&n);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    r.single_rank = false;
    expect_parts(&n, &r, 2);
    yk__graph_free(&n.g);
}
END_TEST

/* A value that no buffer of the device can hold: what makes it, its shape, and both sizes. */
START_TEST(value_larger_than_a_buffer)
{
    yk_device_caps caps = ref_caps;
    yk__plan_request r;
    yk__plan *p = NULL;
    yk_error err = YK_ERROR_INIT;
    net n;
    ref.claim = _i;
    net_build(&n, 1, C);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    caps.max_alloc = 300;
    r.caps = &caps;
    ck_assert(yk__plan_new(&r, &p, &err) == YK_E_MEM);
    ck_assert_ptr_null(p);
    ck_assert_msg(strstr(err.text, "reference: a result of ") && strstr(err.text, "f32[") &&
                      strstr(err.text, "the device's largest buffer has 300"), "%s", err.text);
    yk__graph_free(&n.g);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("arena");
    tcase_add_loop_test(c, arena_in_parts, REF_CLAIM_NONE, REF_CLAIM_ADD + 1);
    tcase_add_loop_test(c, value_larger_than_a_buffer, REF_CLAIM_NONE, REF_CLAIM_ADD + 1);
    return suite_run("plan", c);
}
