/* SPDX-License-Identifier: Apache-2.0 */
/* The counts of work that a plan's times are predicted from: bytes that the nodes of a graph read and write. */
#include "config.h"

#include <check.h>

#include "tests/support/run.h"
#include "tools/plan/work_count.h"

enum { ROWS = 64, COLUMNS = 32, VALUE = ROWS * COLUMNS * 4 };

static const int64_t whole[2] = {ROWS, COLUMNS}, one_row[2] = {1, COLUMNS}, one_column[2] = {ROWS, 1}, none[2] = {0, COLUMNS};

/* The bytes that the sum of two values of f32 moves, the second one broadcast from a shape to the first one's. */
static double moved_by_sum(const int64_t *shape, const int64_t *from)
{
    yk__graph g;
    yk_graph sealed;
    yk_error err = YK_ERROR_INIT;
    work counted = {0};
    yk__graph_init(&g);
    const uint32_t a = yk__slot_new(&g, YK_SLOT_INPUT, 4 * VALUE, 0), b = yk__slot_new(&g, YK_SLOT_INPUT, 4 * VALUE, 0);
    const yk__vid second = yk__expand(&g, yk__leaf(&g, b, 0, YK_F32, 2, from), 2, shape);
    yk__bin(&g, YK_OP_ADD, yk__leaf(&g, a, 0, YK_F32, 2, shape), second);
    ck_assert_int_eq(yk__graph_seal(&g, &sealed, &err), YK_OK);
    ck_assert_uint_eq(sealed.n_node, 1);
    work_add(&counted, &sealed);
    yk__graph_free(&g);
    return counted.moved;
}

START_TEST(a_dense_sum_moves_three_values)
{
    ck_assert_double_eq(moved_by_sum(whole, whole), 3 * VALUE);
}
END_TEST

START_TEST(a_broadcast_operand_is_read_once)
{
    ck_assert_double_eq(moved_by_sum(whole, one_row), 2 * VALUE + COLUMNS * 4);
    ck_assert_double_eq(moved_by_sum(whole, one_column), 2 * VALUE + ROWS * 4);
}
END_TEST

START_TEST(no_elements_move_no_bytes)
{
    ck_assert_double_eq(moved_by_sum(none, one_row), 0);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("work");
    tcase_add_test(c, a_dense_sum_moves_three_values);
    tcase_add_test(c, a_broadcast_operand_is_read_once);
    tcase_add_test(c, no_elements_move_no_bytes);
    return suite_run("work", c);
}
