/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients as int8: how far off they are, that what is rounded away comes later, and what is no number. */
#include "core/coll/wire.h"

#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "tests/support/run.h"

enum { NUMBERS = 1000 }; /* three blocks and a part of one */

static float input[NUMBERS], sent[NUMBERS];
static uint8_t wire[4 * NUMBERS];

/* Blocks of unlike magnitudes. */
static void fill_input(void)
{
    uint32_t x = 1;
    for (uint32_t i = 0; i < NUMBERS; i++) {
        x = x * 1664525u + 1013904223u;
        input[i] = (float)((int32_t)x / 2147483648.0 * pow(10, i / YK__WIRE_BLOCK));
    }
}

static double scale_of(uint32_t i)
{
    const uint32_t begin = i / YK__WIRE_BLOCK * YK__WIRE_BLOCK, end = begin + YK__WIRE_BLOCK;
    double largest = 0;
    for (uint32_t k = begin; k < end && k < NUMBERS; k++)
        largest = fmax(largest, fabs((double)input[k]));
    return largest / 127;
}

static void send_input(float *residual)
{
    memset(wire, 0xee, sizeof wire);
    yk__wire_write(YK__WIRE_INT8, input, NUMBERS, residual, wire);
    yk__wire_read(YK__WIRE_INT8, wire, NUMBERS, sent);
}

START_TEST(int8_is_off_by_half_a_step_of_its_block)
{
    fill_input();
    send_input(NULL);
    ck_assert_uint_eq(yk__wire_bytes(YK__WIRE_INT8, NUMBERS), NUMBERS + 4 * 4);
    ck_assert_uint_eq(wire[NUMBERS + 4 * 4], 0xee);
    for (uint32_t i = 0; i < NUMBERS; i++)
        ck_assert_msg(fabs((double)sent[i] - (double)input[i]) <= 0.5001 * scale_of(i), "number %u: %g sent as %g", i, (double)input[i],
                      (double)sent[i]);
}
END_TEST

/* Sent again and again, the mean comes to what is sent; without residuals it stays off. */
START_TEST(what_is_rounded_away_comes_later)
{
    enum { TURNS = 100 };
    static float residual[NUMBERS];
    static double sum[2][NUMBERS];
    double off[2] = {0, 0};
    fill_input();
    for (uint32_t turn = 0; turn < TURNS; turn++)
        for (uint32_t way = 0; way < 2; way++) {
            send_input(way ? NULL : residual);
            for (uint32_t i = 0; i < NUMBERS; i++)
                sum[way][i] += (double)sent[i] / TURNS;
        }
    for (uint32_t i = 0; i < NUMBERS; i++)
        for (uint32_t way = 0; way < 2; way++)
            off[way] = fmax(off[way], fabs(sum[way][i] - (double)input[i]) / scale_of(i));
    ck_assert_msg(off[0] < 1.0 / TURNS, "off by %g steps", off[0]);
    ck_assert_msg(off[1] > 0.4, "without residuals off by %g steps only", off[1]);
}
END_TEST

START_TEST(what_is_not_finite_marks_no_other)
{
    float residual[NUMBERS] = {0};
    fill_input();
    input[5] = NAN;
    input[300] = INFINITY;
    input[999] = -INFINITY;
    residual[300] = 0.25f;
    send_input(residual);
    for (uint32_t i = 0; i < NUMBERS; i++) {
        const bool marked = i == 5 || i == 300 || i == 999;
        ck_assert_msg(isnan(sent[i]) == marked, "number %u: %g sent as %g", i, (double)input[i], (double)sent[i]);
        ck_assert(isfinite(residual[i]));
    }
    ck_assert_float_eq(residual[300], 0.25f);
}
END_TEST

/* Below the least scale nothing is sent, and nothing is lost. */
START_TEST(little_waits_until_it_is_enough)
{
    float residual[NUMBERS] = {0}, all = 0;
    for (uint32_t i = 0; i < NUMBERS; i++)
        input[i] = 1e-37f;
    for (uint32_t turn = 0; turn < 1000; turn++) {
        send_input(residual);
        all += sent[999];
    }
    ck_assert_msg(fabsf(all - 1e-34f) < 2e-36f, "%g of 1e-34 came", (double)all);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("wire");
    tcase_add_test(t, int8_is_off_by_half_a_step_of_its_block);
    tcase_add_test(t, what_is_rounded_away_comes_later);
    tcase_add_test(t, what_is_not_finite_marks_no_other);
    tcase_add_test(t, little_waits_until_it_is_enough);
    return suite_run("wire", t);
}
