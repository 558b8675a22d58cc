/* SPDX-License-Identifier: Apache-2.0 */
/* A plan of two segments and three actions becomes a list: waits stand before the segment that needs them, starts behind the one that makes
 * their input, and kinds without a column get no instruction. */
#include "config.h"

#include <check.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/run/exec.h"
#include "tests/support/run.h"

static yk_status action_ignore(yk__exec *exec, yk__prog *p, const yk__action *a, yk_error *err)
{
    (void)exec, (void)p, (void)a, (void)err;
    return YK_OK;
}

static const yk__action_row silent = {YK__ACTION_REDUCE_SCATTER, "silent", NULL, NULL};
static const yk__action_row whole = {YK__ACTION_REDUCE_SCATTER, "whole", action_ignore, action_ignore};

/* A gather that segment 0 needs, a sum from segment 0 to segment 1, and a bucket that is complete behind segment 1. */
static void make_list(const yk__action_row *first, yk__list *list, char *text, size_t size)
{
    yk__action action[] = {
        {.kind = YK__ACTION_ALL_REDUCE, .target = 3, .count = 6, .start_after = 0, .needed_by = 1},
        {.kind = YK__ACTION_REDUCE_SCATTER, .target = 0, .count = 64, .start_after = 1, .needed_by = 2},
        {.kind = YK__ACTION_ALL_GATHER, .target = 0, .count = 64, .start_after = YK_NONE, .needed_by = 0},
    };
    uint32_t before[] = {2, 0, 1};
    yk__segment segment[] = {
        {.graph.n_node = 5, .first_before = 0, .n_before = 1, .first_after = 0, .n_after = 1},
        {.graph.n_node = 0, .first_before = 1, .n_before = 1, .first_after = 1, .n_after = 1},
    };
    const yk__plan plan = {
        .segment = segment, .n_segment = 2, .action = action, .n_action = 3, .before = before, .first_at_end = 2};
    yk_error err = YK_ERROR_INIT;
    char *made;
    ck_assert_int_eq(yk__list_make(&plan, first, list, &err), YK_OK);
    made = yk__list_text(&plan, list);
    ck_assert(made && strlen(made) < size);
    strcpy(text, made);
    yk__free(made);
}

START_TEST(waits_stand_before_their_segment_and_starts_behind)
{
    yk__list list = {0};
    char text[1000];
    make_list(NULL, &list, text, sizeof text);
    ck_assert_str_eq(text, "wait  all_gather 0, 64 elements\n"
                           "bind  segment 0, 5 nodes\n"
                           "run   segment 0, 5 nodes\n"
                           "start all_reduce 3, 6 elements\n"
                           "wait  all_reduce 3, 6 elements\n"
                           "bind  segment 1, 0 nodes\n"
                           "start reduce_scatter 0, 64 elements\n");
    yk__list_free(&list);
    ck_assert_uint_eq(list.n, 0);
}
END_TEST

START_TEST(a_row_of_its_own_stands_before_the_table)
{
    yk__list list = {0};
    char text[1000];
    make_list(&silent, &list, text, sizeof text);
    ck_assert_ptr_null(strstr(text, "reduce_scatter"));
    ck_assert_ptr_null(strstr(text, "silent"));
    yk__list_free(&list);
    make_list(&whole, &list, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "start whole 0, 64 elements\nwait  whole 0, 64 elements\n"));
    yk__list_free(&list);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("list");
    tcase_add_test(t, waits_stand_before_their_segment_and_starts_behind);
    tcase_add_test(t, a_row_of_its_own_stands_before_the_table);
    return suite_run("list", t);
}
