/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over members: in their order while they are few, and how far off they are, however many there are. */
#include "core/coll/reduce.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "tests/support/run.h"

enum { NUMBERS = 1500, MOST = 1000 }; /* a block and a part of one */

static float member[MOST][NUMBERS], out[NUMBERS];
static const void *part[MOST];

static void members_fill(bool alike)
{
    uint32_t x = 1;
    for (int r = 0; r < MOST; r++) {
        part[r] = member[r];
        for (int i = 0; i < NUMBERS; i++) {
            x = x * 1664525u + 1013904223u;
            member[r][i] = alike ? 0.1f + (float)i / NUMBERS : (float)((int32_t)x / 2147483648.0);
        }
    }
}

START_TEST(few_members_are_added_in_their_order)
{
    members_fill(false);
    for (uint32_t n = 1; n <= 32; n += n < 5 ? 1 : 9) {
        yk__reduce_slice(part, n, 0, NUMBERS, out, NULL);
        for (int i = 0; i < NUMBERS; i++) {
            float want = member[0][i];
            for (uint32_t r = 1; r < n; r++)
                want += member[r][i];
            ck_assert_msg(out[i] == want, "%u members, number %d", n, i);
        }
    }
}
END_TEST

START_TEST(many_members_that_are_alike_lose_little)
{
    members_fill(true);
    for (uint32_t n = 31; n <= MOST; n += 323) {
        yk__reduce_slice(part, n, 0, NUMBERS, out, NULL);
        for (int i = 0; i < NUMBERS; i++)
            ck_assert_msg(fabs((double)out[i] / ((double)member[0][i] * n) - 1) <= 2e-6, "%u members, number %d: %.9g of %.9g", n, i,
                          (double)out[i], (double)member[0][i]);
    }
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("reduce");
    tcase_add_test(t, few_members_are_added_in_their_order);
    tcase_add_test(t, many_members_that_are_alike_lose_little);
    return suite_run("coll_reduce", t);
}
