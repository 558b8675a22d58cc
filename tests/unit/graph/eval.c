/* SPDX-License-Identifier: Apache-2.0 */
/* yk__eval_node on memory in the values' own types: rounding, strides, views, accumulation, random numbers. */
#include "core/base/philox.h"
#include "core/graph/graph_internal.h"
#include "tests/support/graph_lab.h"
#include "tests/support/run.h"

static yk__graph g;
static void *slot[8];

static void graph_begin(void)
{
    yk__graph_init(&g);
    memset(slot, 0, sizeof slot);
}

static void graph_end(void)
{
    yk__graph_free(&g);
}

/* A leaf over the given memory. */
static yk__vid leaf_over(void *p, yk_dtype dtype, uint32_t dims, const int64_t *dim)
{
    uint32_t s = yk__slot_new(&g, YK_SLOT_INPUT, 1 << 16, 1);
    slot[s] = p;
    return yk__leaf(&g, s, 0, dtype, dims, dim);
}

/* Lets a value be written to the given memory. */
static void value_into(yk__vid v, void *p)
{
    uint32_t s = yk__slot_new(&g, YK_SLOT_RESULT, 1 << 16, 1);
    slot[s] = p;
    g.value[v].slot = s;
}

static void graph_run(void)
{
    yk_graph s;
    yk_error err = YK_ERROR_INIT;
    ck_assert_int_eq(yk__graph_seal(&g, &s, &err), YK_OK);
    for (uint32_t i = 0; i < s.n_node; i++)
        ck_assert_msg(yk__eval_node(&s, i, slot, &err) == YK_OK, "%s", err.text);
}

START_TEST(rounds_to_even)
{
    /* halves between two neighbours, overflow, subnormals, NaN: bits by IEEE 754 and by the definition of bf16 */
    double x[] = {1 + 0x1p-11, 1 + 3 * 0x1p-11, 65519.99, 65520, -0x1p-24, 0x1p-25, 0x1.8p-25, NAN, -0.0};
    uint16_t want16[] = {0x3c00, 0x3c02, 0x7bff, 0x7c00, 0x8001, 0x0000, 0x0001, 0x7e00, 0x8000};
    double b[] = {1 + 0x1p-8, 1 + 3 * 0x1p-8, 0x1.ffp127, -INFINITY, 0x1p-133, NAN};
    uint16_t wantb[] = {0x3f80, 0x3f82, 0x7f80, 0xff80, 0x0001, 0x7fc0};
    uint16_t h;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        yk__eval_store(YK_F16, &h, x[i]);
        ck_assert_msg(h == want16[i], "f16 of %a is %04x, not %04x", x[i], want16[i], h);
    }
    for (size_t i = 0; i < sizeof b / sizeof *b; i++) {
        yk__eval_store(YK_BF16, &h, b[i]);
        ck_assert_msg(h == wantb[i], "bf16 of %a is %04x, not %04x", b[i], wantb[i], h);
    }
}
END_TEST

/* yk__eval_node_rounded: operands of dot that are not of 16 bits, to the nearest number of so many bits; nothing else. */
START_TEST(operands_of_products_are_rounded)
{
    static const int64_t one[] = {1, 1};
    const uint32_t bits[] = {0, 24, 11, 8};
    const float want[] = {1 + 0x1.8p-11f, 1 + 0x1.8p-11f, 1 + 0x1p-10f, 1};
    float x = want[0], w = 1, y = 0, sum = 0;
    uint16_t half = 0x3c01, half_y = 0; /* 1 + 2^-10 */
    uint16_t half_one = 0x3c00;
    yk_graph sealed;
    yk_error err = YK_ERROR_INIT;
    const yk__vid a = leaf_over(&x, YK_F32, 2, one), b = leaf_over(&w, YK_F32, 2, one);
    value_into(yk__dot(&g, a, b, false, false), &y);
    value_into(yk__bin(&g, YK_OP_ADD, a, a), &sum);
    value_into(yk__dot(&g, leaf_over(&half, YK_F16, 2, one), leaf_over(&half_one, YK_F16, 2, one), false, false), &half_y);
    ck_assert_int_eq(yk__graph_seal(&g, &sealed, &err), YK_OK);
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        for (uint32_t n = 0; n < sealed.n_node; n++)
            ck_assert_msg(yk__eval_node_rounded(&sealed, n, slot, bits[i], &err) == YK_OK, "%s", err.text);
        ck_assert_msg(y == want[i], "%u bits: %a, not %a", bits[i], (double)y, (double)want[i]);
        ck_assert_float_eq(sum, 2 * want[0]);
        ck_assert_uint_eq(half_y, half);
        ck_assert_float_eq(x, want[0]); /* in its place it stays */
    }
}
END_TEST

START_TEST(all_halves_round_trip)
{
    for (uint32_t dtype = YK_F16; dtype <= YK_BF16; dtype++)
        for (uint32_t v = 0; v < 65536; v++) {
            uint16_t from = (uint16_t)v, to;
            double x = yk__eval_load(dtype, &from);
            yk__eval_store(dtype, &to, x);
            ck_assert_msg(from == to || isnan(x), "%s %04x came back as %04x", yk__dtype_name(dtype), from, to);
        }
    for (uint32_t dtype = YK_F8E4M3; dtype <= YK_F8E5M2; dtype++)
        for (uint32_t v = 0; v < 256; v++) {
            uint8_t from = (uint8_t)v, to;
            double x = yk__eval_load(dtype, &from);
            yk__eval_store(dtype, &to, x);
            ck_assert_msg(from == to || !isfinite(x), "%s %02x came back as %02x", yk__dtype_name(dtype), from, to);
        }
}
END_TEST

START_TEST(strides_and_views)
{
    float x[6] = {1, 2, 3, 4, 5, 6}, t[6] = {0}, base[12];
    yk__vid v = leaf_over(x, YK_F32, DIM(2, 3)), b = leaf_over(base, YK_F32, DIM(3, 4)), y;
    yk_value place = g.value[b];
    for (int i = 0; i < 12; i++)
        base[i] = -1;
    y = yk__dense(&g, yk__permute(&g, v, (uint32_t[]){1, 0}));
    value_into(y, t);
    place.dim[0] = 2, place.dim[1] = 3, place.offset += 5 * sizeof(float);
    yk__copy_into(&g, v, b, &place);
    graph_run();
    ck_assert(t[0] == 1 && t[1] == 4 && t[2] == 2 && t[5] == 6);
    ck_assert(base[4] == -1 && base[5] == 1 && base[7] == 3 && base[8] == -1 && base[9] == 4 && base[11] == 6);
}
END_TEST

START_TEST(dot_accumulates_where_asked)
{
    float a[4] = {1, 2, 3, 4}, y[4] = {10, 20, 30, 40};
    yk__vid x = leaf_over(a, YK_F32, DIM(2, 2));
    value_into(yk__dot(&g, x, x, false, true), y);
    g.node[0].flags = YK_NODE_ACCUMULATE;
    graph_run();
    ck_assert(y[0] == 15 && y[1] == 31 && y[2] == 41 && y[3] == 65);
}
END_TEST

START_TEST(whole_numbers)
{
    int32_t a[4] = {INT32_MAX, -7, 7, 5}, b[4] = {1, 2, -2, 0}, sum[4], quotient[4], cut[4];
    float f[4] = {-1.9f, 3e9f, -3e9f, NAN};
    uint8_t truth[4];
    yk__vid x = leaf_over(a, YK_I32, DIM(4)), y = leaf_over(b, YK_I32, DIM(4)), z = leaf_over(f, YK_F32, DIM(4));
    value_into(yk__bin(&g, YK_OP_ADD, x, y), sum);
    value_into(yk__bin(&g, YK_OP_DIV, x, y), quotient);
    value_into(yk__cast(&g, z, YK_I32), cut);
    value_into(yk__cast(&g, y, YK_BOOL), truth);
    graph_run();
    ck_assert_int_eq(sum[0], INT32_MIN);
    ck_assert(quotient[1] == -3 && quotient[2] == -3 && quotient[3] == 0);
    ck_assert(cut[0] == -1 && cut[1] == INT32_MAX && cut[2] == INT32_MIN && cut[3] == 0);
    ck_assert(truth[0] == 1 && truth[3] == 0);
}
END_TEST

/* The formula of plugin.h, written out once more. */
START_TEST(random_numbers)
{
    int32_t key[4] = {-5, 77, 12, 0}, rows[3] = {4, 0, 2000000000}, one[1] = {2000000000};
    float u[30], v[10];
    yk__vid k = leaf_over(key, YK_I32, DIM(4)), r = leaf_over(rows, YK_I32, DIM(3)), s = leaf_over(one, YK_I32, DIM(1));
    value_into(yk__rng(&g, k, r, 9, DIM(3, 10)), u);
    value_into(yk__rng(&g, k, s, 9, DIM(1, 10)), v);
    graph_run();
    for (int e = 0; e < 30; e++) {
        uint64_t c = (uint64_t)rows[e / 10] * 10 + (uint64_t)(e % 10);
        uint32_t counter[4] = {(uint32_t)(c / 4), (uint32_t)((c / 4) >> 32), 9, 12}, w[4];
        uint32_t seed[2] = {(uint32_t)-5, 77};
        yk__philox(counter, seed, w);
        ck_assert(u[e] == (float)(w[c % 4] >> 8) / 16777216.0f);
    }
    ck_assert(!memcmp(u + 20, v, sizeof v)); /* a row's numbers do not depend on its place */
}
END_TEST

START_TEST(missing_memory)
{
    float x[2] = {1, 2};
    yk_graph s;
    yk_error err = YK_ERROR_INIT;
    yk__un(&g, YK_OP_EXP, leaf_over(x, YK_F32, DIM(2)));
    ck_assert_int_eq(yk__graph_seal(&g, &s, &err), YK_OK);
    ck_assert_int_eq(yk__eval_node(&s, 0, slot, &err), YK_E_ARG);
    ck_assert_int_eq(yk__eval_node(&s, 1, slot, &err), YK_E_ARG);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {rounds_to_even, all_halves_round_trip, strides_and_views, dot_accumulates_where_asked,
                                  whole_numbers,  random_numbers,        missing_memory,    operands_of_products_are_rounded};
    return suite_run_all("graph_eval", tests, sizeof tests / sizeof *tests, graph_begin, graph_end);
}
