/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Epilogues of cuBLASLt after a product, on the fakes: a bias in each type, gelu of it with and without its input, a sum with the
 * product of 16 bits, gelu's gradient; against double. A similar node that does not fit gets its own kernel.
 */
#include "tests/unit/cuda/case.h"

#include <math.h>

enum { ROWS = 24, COLS = 40, TERMS = 56 };
enum { BIAS = 1, GELU = 2, BEFORE = 4, SUM = 8, SLOPE = 16, AGAIN = 32, DOUBLED = 64, COLUMN = 128, ODD = 256 };

typedef struct behind {
    kit *k;
    int what, out_type;
    int64_t cols;
    uint32_t a, b, bias, addend, before, y, again;
    double *was; /* `before` as it was given */
} behind;

/* x as f32, or as `dtype`. */
static uint32_t cast_new(const behind *m, uint32_t x, int dtype)
{
    const uint32_t y = KIT(m->k, dtype, ROWS, m->cols);
    kit_node(m->k, YK_OP_CAST, KIT_IDS(x), KIT_IDS(y), NULL, 0);
    return y;
}

static void slope_wrap(behind *m, uint32_t t, int dtype)
{
    kit *k = m->k;
    m->y = KIT(k, dtype, ROWS, m->cols);
    m->again = KIT(k, dtype, ROWS, m->cols);
    if (m->what & AGAIN)
        kit_node(k, YK_OP_GELU_TANH, KIT_IDS(m->before), KIT_IDS(m->again), NULL, 0);
    kit_node(k, YK_OP_GELU_TANH_BWD, KIT_IDS(m->before, t), KIT_IDS(m->y), NULL, 0);
    if (m->what & AGAIN)
        kit_wrap(k, YK_OP_DOT_MAP, 3, KIT_IDS(m->a, m->b, m->before), KIT_IDS(m->again, m->y));
    else
        kit_wrap(k, YK_OP_DOT_MAP, 2, KIT_IDS(m->a, m->b, m->before), KIT_IDS(m->y));
}

/* Nodes behind the product t, in f32 as a job of 16 bits has them, then all of it as one node. */
static void bias_wrap(behind *m, uint32_t t, int dtype)
{
    kit *k = m->k;
    const uint32_t wide = dtype == YK_F32 ? t : cast_new(m, t, YK_F32), sum = KIT(k, YK_F32, ROWS, m->cols);
    uint32_t nodes = 2 + (wide != t), y = sum, in[] = {m->a, m->b, m->bias, YK_NONE, YK_NONE};
    kit_node(k, YK_OP_ADD, KIT_IDS(wide, m->bias), KIT_IDS(sum), NULL, 0);
    if (m->what & (SUM | DOUBLED)) {
        y = KIT(k, YK_F32, ROWS, m->cols), nodes++;
        kit_node(k, YK_OP_ADD, KIT_IDS(m->what & SUM ? m->addend : sum, sum), KIT_IDS(y), NULL, 0);
        in[3] = m->what & SUM ? m->addend : YK_NONE;
    }
    if (m->out_type != YK_F32)
        y = cast_new(m, y, m->out_type), nodes++;
    m->before = y;
    if (m->what & GELU) {
        y = KIT(k, m->out_type, ROWS, m->cols), nodes++;
        kit_node(k, YK_OP_GELU_TANH, KIT_IDS(m->before), KIT_IDS(y), NULL, 0);
    }
    m->y = y;
    kit_wrap(k, YK_OP_DOT_MAP, nodes, in, m->what & BEFORE ? KIT_IDS(m->before, y) : KIT_IDS(y));
}

static behind behind_new(int what, int dtype, int out_type)
{
    behind m = {.k = kit_new(), .what = what, .out_type = out_type, .cols = what & ODD ? COLS - 3 : COLS};
    kit *k = m.k;
    m.a = KIT(k, dtype, ROWS, TERMS);
    m.b = KIT(k, dtype, TERMS, m.cols);
    kit_random(k, m.a, -0.3, 0.3);
    kit_random(k, m.b, -0.5, 0.5);
    const uint32_t t = KIT(k, dtype, ROWS, m.cols);
    m.bias = KITB(k, YK_F32, what & COLUMN ? 2 : 1, ROWS, m.cols);
    m.addend = KIT(k, YK_F32, ROWS, m.cols);
    m.before = KIT(k, dtype, ROWS, m.cols);
    kit_random(k, m.bias, -1, 1);
    kit_random(k, m.addend, -2, 2);
    kit_random(k, m.before, -3, 3);
    m.was = calloc((size_t)(ROWS * m.cols), sizeof *m.was);
    for (int64_t i = 0; i < ROWS * m.cols; i++)
        m.was[i] = kit_get(k, m.before, i);
    kit_node(k, YK_OP_DOT, KIT_IDS(m.a, m.b), KIT_IDS(t), NULL, 0);
    (what & SLOPE ? slope_wrap : bias_wrap)(&m, t, dtype);
    return m;
}

static void behind_free(behind *m)
{
    kit_free(m->k);
    free(m->was);
}

static double gelu_value(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
    const double h = 1e-5;
    return (gelu_value(x + h) - gelu_value(x - h)) / (2 * h);
}

static void number_near(const behind *m, uint32_t v, int64_t i, double want)
{
    const double got = kit_get(m->k, v, i), most = m->out_type == YK_F32 ? 2e-2 : 3e-2;
    ck_assert_msg(fabs(got - want) <= most * (fabs(want) + 0.3), "form %d, element %lld: %g, and should be %g", m->what, (long long)i,
                  got, want);
}

static void behind_right(const behind *m)
{
    for (int64_t i = 0; i < ROWS * m->cols; i++) {
        const int64_t row = i / m->cols, col = i % m->cols;
        double x = 0;
        for (int64_t k = 0; k < TERMS; k++)
            x += kit_get(m->k, m->a, row * TERMS + k) * kit_get(m->k, m->b, k * m->cols + col);
        if (m->what & SLOPE) {
            number_near(m, m->y, i, x * gelu_slope(m->was[i]));
            if (m->what & AGAIN)
                number_near(m, m->again, i, gelu_value(m->was[i]));
            continue;
        }
        x += kit_at(m->k, m->bias, i);
        x = m->what & DOUBLED ? 2 * x : m->what & SUM ? x + kit_get(m->k, m->addend, i) : x;
        if (m->what & BEFORE)
            number_near(m, m->before, i, x);
        number_near(m, m->y, i, m->what & GELU ? gelu_value(x) : x);
    }
}

/* by_library: the epilogue is cuBLASLt's. */
static void behind_works(int what, int dtype, int out_type, bool by_library)
{
    behind m = behind_new(what, dtype, out_type);
    const uint64_t before = fake.behinds(), products = fake.products();
    graph_works(m.k, RUNS);
    behind_right(&m);
    ck_assert_msg(fake.behinds() - before == (by_library ? fake.products() - products : 0), "form %d of %d to %d", what, dtype, out_type);
    behind_free(&m);
}

START_TEST(biases_gelu_sums_and_slopes_are_the_librarys)
{
    ck_assert_int_eq(device_start(), YK_OK);
    behind_works(BIAS, YK_BF16, YK_BF16, true);
    behind_works(BIAS, YK_F16, YK_F16, true);
    behind_works(BIAS, YK_F32, YK_F32, true);
    behind_works(BIAS, YK_BF16, YK_F32, true);
    behind_works(BIAS | SUM, YK_BF16, YK_F32, true);
    behind_works(BIAS | SUM, YK_F32, YK_F32, true);
    behind_works(BIAS | GELU, YK_BF16, YK_BF16, true);
    behind_works(BIAS | GELU | BEFORE, YK_F16, YK_F16, true);
    behind_works(BIAS | GELU | BEFORE, YK_BF16, YK_BF16, true);
    behind_works(SLOPE, YK_BF16, YK_BF16, true);
    behind_works(SLOPE | AGAIN, YK_BF16, YK_BF16, true);
    device_stop();
}
END_TEST

START_TEST(what_is_only_like_them_is_a_kernel)
{
    ck_assert_int_eq(device_start(), YK_OK);
    behind_works(BIAS | DOUBLED, YK_BF16, YK_BF16, false); /* the sum twice */
    behind_works(BIAS | COLUMN, YK_BF16, YK_BF16, false);  /* a number for each row */
    behind_works(BIAS | ODD, YK_BF16, YK_BF16, false);     /* lines that are not aligned */
    behind_works(BIAS | SUM, YK_BF16, YK_BF16, false);     /* f32 is added, 16 bits are stored */
    behind_works(BIAS | GELU | BEFORE, YK_F32, YK_F32, false);
    device_stop();
}
END_TEST

START_TEST(one_that_is_refused_is_a_kernel)
{
    behind m = behind_new(BIAS | GELU, YK_BF16, YK_BF16);
    ck_assert_int_eq(device_start(), YK_OK);
    fake.refuse(1);
    graph_works(m.k, RUNS);
    fake.refuse(0);
    behind_right(&m);
    device_stop();
    behind_free(&m);
}
END_TEST

int main(void)
{
    if (!fake_cuda_runs())
        return 0;
    TCase *t = tcase_create("behind");
    tcase_add_checked_fixture(t, case_start, case_stop);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, biases_gelu_sums_and_slopes_are_the_librarys);
    tcase_add_test(t, what_is_only_like_them_is_a_kernel);
    tcase_add_test(t, one_that_is_refused_is_a_kernel);
    return suite_run("cuda behind", t);
}
