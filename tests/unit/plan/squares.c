/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random nets of square matrices, planned and compared with the unplanned graph. All shapes are alike, so that any value may meet any
 * other one: a product's operand may also be its neighbour in a sum. Nets of models have few such places.
 */
#include "config.h"

#include <check.h>

#include "tests/support/plan_lab.h"
#include "tests/support/run.h"
#include "tests/support/sanitize.h"

/* A sanitizer sees the planner's memory in the first nets; the numbers of all 600 are the plain build's. */
enum { SIDE = 4, NETS = TEST_UNDER_ASAN || TEST_UNDER_TSAN ? 120 : 600, MOST_VALUES = 16 };

static yk__vid flat_relu(yk__graph *g, yk__vid x)
{
    const int64_t flat = SIDE * SIDE, square[2] = {SIDE, SIDE};
    return yk__reshape(g, yk__un(g, YK_OP_RELU, yk__reshape(g, x, 1, &flat)), 2, square);
}

/* Rows of a, from a random one on, with a constant around them; with a step, each other row of the result. */
static yk__vid rows_padded(yk__graph *g, yk__vid a, uint32_t *seed)
{
    const int64_t square[2] = {SIDE, SIDE}, rows = 1 + number_draw(seed, SIDE / 2), step[2] = {1 + number_draw(seed, 2), 1};
    const int64_t begin[2] = {number_draw(seed, (uint32_t)(SIDE - (rows - 1) * step[0])), 0};
    return yk__pad(g, yk__slice(g, a, 0, 0, rows, 1), 2, square, begin, step, 0.5 * number_draw(seed, 3));
}

/* Rows or columns of a, then of b. */
static yk__vid rows_joined(yk__graph *g, yk__vid a, yk__vid b, uint32_t *seed)
{
    const uint32_t axis = number_draw(seed, 2), at = 1 + number_draw(seed, SIDE - 1);
    const yk__vid part[2] = {yk__slice(g, a, axis, 0, at, 1), yk__slice(g, b, axis, at, SIDE, 1)};
    return yk__concat(g, 2, part, axis);
}

static yk__vid rows_softmax(yk__graph *g, yk__vid a)
{
    const yk__vid x = yk__dense(g, a);
    const int64_t log = 0;
    yk__vid y = YK_NONE;
    yk__apply(g, YK_OP_SOFTMAX, 1, &x, 1, &log, YK_DTYPE_COUNT, 0, NULL, &y, 1);
    return y;
}

/* a and b, or one of them, under a random operation. Products are scaled, so that numbers stay near 1. */
static yk__vid random_value(net *n, yk__vid a, yk__vid b, uint32_t *seed)
{
    yk__graph *g = &n->g;
    switch (number_draw(seed, 13)) {
    case 0:
        return yk__un(g, YK_OP_RELU, a);
    case 1:
        return yk__un(g, YK_OP_TANH, a);
    case 2:
        return yk__bin(g, YK_OP_MUL, a, b);
    case 3:
        return yk__bin(g, YK_OP_SUB, a, b);
    case 4:
        return yk__permute(g, a, (const uint32_t[]){1, 0});
    case 5: /* minus its sums of rows or columns */
        return yk__bin(g, YK_OP_SUB, a, yk__scale(g, yk__sum(g, yk__dense(g, b), 1 + number_draw(seed, 2)), 0.25));
    case 6:
        return flat_relu(g, a);
    case 7:
    case 8:
        return yk__scale(g, yk__dot(g, a, b, number_draw(seed, 2), number_draw(seed, 2)), 0.5);
    case 9:
        return rows_padded(g, a, seed);
    case 10:
        return rows_joined(g, a, b, seed);
    case 11:
        return rows_softmax(g, a);
    default:
        return yk__bin(g, YK_OP_ADD, a, b);
    }
}

static void net_random(net *n, uint32_t seed)
{
    yk__graph *g = &n->g;
    yk__vid value[MOST_VALUES];
    uint32_t made = 0;
    memset(n, 0, sizeof *n);
    yk__graph_init(g);
    n->seed = yk__leaf(g, yk__slot_new(g, YK_SLOT_INPUT, 4, 2), 0, YK_F32, 0, NULL);
    n->state = yk__slot_new(g, YK_SLOT_STATE, 4, 0);
    for (int i = 0; i < 2; i++)
        value[made++] = net_matrix(n, SIDE, SIDE);
    for (const uint32_t most = 5 + number_draw(&seed, MOST_VALUES - 5); made < most; made++) {
        const uint32_t late = made < 4 ? made : 4; /* mostly of the latest values */
        const yk__vid a = value[made - 1 - number_draw(&seed, late)];
        const yk__vid b = value[number_draw(&seed, 3) ? made - 1 - number_draw(&seed, late) : number_draw(&seed, made)];
        value[made] = random_value(n, a, b, &seed);
    }
    yk__vid y = yk__bin(g, YK_OP_MUL, value[made - 1], value[made - 1]);
    const int own = number_draw(&seed, 3) ? 2 : 0;
    for (int i = own; i < 2; i++) /* a part of each parameter's gradient is its own in a third of the nets */
        y = yk__bin(g, YK_OP_ADD, y, yk__bin(g, YK_OP_MUL, value[i], value[i]));
    n->loss = yk__reshape(g, yk__scale(g, yk__sum(g, yk__dense(g, y), 3), 0.01), 0, NULL);
    n->counted = yk__bin(g, YK_OP_ADD, yk__leaf(g, n->state, 0, YK_F32, 0, NULL), n->loss);
    ck_assert_msg(!g->error.status, "%s", g->error.text);
}

START_TEST(random_squares_equal_the_unplanned)
{
    ref.claim = _i;
    for (uint32_t seed = 1; seed <= NETS; seed++) {
        yk__plan_request r;
        net n;
        net_random(&n, seed * 2654435761u);
        net_request(&n, &r, &(yk__assign){0, n.counted});
        r.large = seed % 2;
        r.accumulate = seed % 3 == 0;
        yk__plan *p = plan_new(&r);
        net_compare(&n, p, r.accumulate, 1e-4);
        yk__plan_free(p);
        yk__graph_free(&n.g);
    }
}
END_TEST

START_TEST(random_squares_in_random_blocks)
{
    ref.claim = _i;
    for (uint32_t seed = 1; seed <= NETS; seed++) {
        uint32_t draw = seed * 40503u;
        yk__plan_request r;
        net n;
        net_random(&n, seed * 2654435761u);
        net_request(&n, &r, &(yk__assign){0, n.counted});
        r.large = 1;
        blocks_draw(&n, &draw);
        r.n_recompute = n.n_block, r.recompute = n.block;
        yk__plan *p = plan_new(&r);
        net_compare(&n, p, false, 1e-4);
        yk__plan_free(p);
        yk__graph_free(&n.g);
    }
}
END_TEST

/* Limits from a block to the whole arena: a plan that keeps the limit and computes the same, or one error that names the limit. A net
 * has dozens of limits: --long tries all nets, each other run a quarter of them. */
START_TEST(random_squares_under_limits)
{
    uint32_t refused = 0, smaller = 0;
    const uint32_t nets = getenv("YOKE_TEST_LONG") ? NETS : NETS / 4;
    ref.claim = _i;
    for (uint32_t seed = 1; seed <= nets; seed++) {
        yk__plan_request r;
        net n;
        net_random(&n, seed * 2654435761u);
        net_request(&n, &r, &(yk__assign){0, n.counted});
        r.large = 1;
        yk__plan *p = plan_new(&r), *l = NULL;
        const uint64_t whole = p->arena_bytes;
        yk__plan_free(p);
        for (r.arena_limit = 256; r.arena_limit < whole; r.arena_limit += 512) {
            yk_error err = YK_ERROR_INIT;
            if (yk__plan_new(&r, &l, &err)) {
                ck_assert_msg(err.status == YK_E_MEM && strstr(err.text, "memory limit"), "%s", err.text);
                refused++;
                continue;
            }
            ck_assert_uint_le(l->arena_bytes, r.arena_limit);
            net_compare(&n, l, false, 1e-4);
            yk__plan_free(l);
            smaller++;
        }
        yk__graph_free(&n.g);
    }
    ck_assert(refused && smaller);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("squares");
    tcase_add_loop_test(c, random_squares_equal_the_unplanned, REF_CLAIM_NONE, REF_CLAIM_ADD + 1);
    tcase_add_loop_test(c, random_squares_in_random_blocks, REF_CLAIM_NONE, REF_CLAIM_ADD + 1);
    tcase_add_loop_test(c, random_squares_under_limits, REF_CLAIM_NONE, REF_CLAIM_ADD + 1);
    return suite_run("squares", c);
}
