/* SPDX-License-Identifier: Apache-2.0 */
/* Batch norm's chains on every instruction set against float64, with planes of every kind, and the same bits for any workers. */
#include "config.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/cpu_kit.h"
#include "tests/support/run.h"

enum { FORWARD, FORWARD_RELU, FORWARD_ADD, FORWARD_ADD_RELU, BACKWARD, BACKWARD_RELU, SUMS, SUMS_RELU, KINDS };

static const int64_t none[1];

typedef struct chain {
    kit *k;
    uint32_t x, r, h, y, number[4], sum[2];
    int64_t dim[5];
    int kind;
} chain;

static uint32_t chain_add(chain *c, int op, const uint32_t *in)
{
    uint32_t v = kit_value(c->k, YK_F32, c->dim);
    kit_node(c->k, op, in, KIT_IDS(v), none, 0);
    return v;
}

static bool has_relu(const chain *c)
{
    return c->kind % 2 == 1;
}

static void chain_forward(chain *c, uint32_t d)
{
    bool plus = c->kind == FORWARD_ADD || c->kind == FORWARD_ADD_RELU;
    uint32_t t = chain_add(c, YK_OP_ADD, KIT_IDS(chain_add(c, YK_OP_MUL, KIT_IDS(c->number[1], d)), c->number[2]));
    if (plus)
        t = chain_add(c, YK_OP_ADD, KIT_IDS(c->r, t));
    kit_node(c->k, has_relu(c) ? YK_OP_RELU : YK_OP_CAST, KIT_IDS(t), KIT_IDS(c->y), none, 0);
    kit_wrap(c->k, YK_OP_MAP, plus ? 5 : 4, plus ? KIT_IDS(c->x, c->number[0], c->number[1], c->number[2], c->r)
                                                 : KIT_IDS(c->x, c->number[0], c->number[1], c->number[2]), KIT_IDS(c->y));
}

static void chain_backward(chain *c, uint32_t d)
{
    uint32_t g = has_relu(c) ? chain_add(c, YK_OP_RELU_BWD, KIT_IDS(c->h, c->r)) : c->r;
    uint32_t s = chain_add(c, YK_OP_MUL, KIT_IDS(g, c->number[1]));
    uint32_t t = chain_add(c, YK_OP_ADD, KIT_IDS(chain_add(c, YK_OP_MUL, KIT_IDS(d, c->number[2])), c->number[3]));
    kit_node(c->k, YK_OP_ADD, KIT_IDS(s, t), KIT_IDS(c->y), none, 0);
    kit_wrap(c->k, YK_OP_MAP, has_relu(c) ? 6 : 5,
             KIT_IDS(c->x, c->r, c->h, c->number[0], c->number[1], c->number[2], c->number[3]), KIT_IDS(c->y));
}

static void chain_sums(chain *c, uint32_t d)
{
    uint32_t g = has_relu(c) ? chain_add(c, YK_OP_RELU_BWD, KIT_IDS(c->h, c->r)) : c->r;
    uint32_t p = chain_add(c, YK_OP_MUL, KIT_IDS(g, d));
    kit_node(c->k, YK_OP_SUM, KIT_IDS(g), KIT_IDS(c->sum[0]), (int64_t[]){5}, 1);
    kit_node(c->k, YK_OP_SUM, KIT_IDS(p), KIT_IDS(c->sum[1]), (int64_t[]){5}, 1);
    kit_wrap(c->k, YK_OP_MAP_SUM, has_relu(c) ? 5 : 4, KIT_IDS(c->x, c->r, c->h, c->number[0]), KIT_IDS(c->sum[0], c->sum[1]));
}

static chain chain_make(int kind, int dtype, int64_t n, int64_t channels, int64_t inner)
{
    chain c = {.k = kit_new(), .dim = {n, channels, inner, -1}, .kind = kind};
    c.x = kit_value(c.k, dtype, c.dim);
    c.r = kit_value(c.k, dtype, c.dim);
    c.h = kit_value(c.k, dtype, c.dim);
    c.y = kit_value(c.k, dtype, c.dim);
    for (int i = 0; i < 4; i++) {
        c.number[i] = kit_broadcast(c.k, YK_F32, c.dim, 5);
        kit_random(c.k, c.number[i], -1, 1);
    }
    for (int i = 0; i < 2; i++)
        c.sum[i] = KIT(c.k, YK_F32, 1, channels, 1);
    kit_random(c.k, c.x, -2, 2);
    kit_random(c.k, c.r, -2, 2);
    kit_random(c.k, c.h, -1, 1);
    uint32_t d = chain_add(&c, YK_OP_SUB, KIT_IDS(c.x, c.number[0]));
    (kind < BACKWARD ? chain_forward : kind < SUMS ? chain_backward : chain_sums)(&c, d);
    return c;
}

static double chain_expected(const chain *c, int64_t i)
{
    double v[4], d, g = kit_at(c->k, c->r, i);
    for (int k = 0; k < 4; k++)
        v[k] = kit_at(c->k, c->number[k], i);
    d = kit_at(c->k, c->x, i) - v[0];
    if (c->kind < BACKWARD) {
        double y = d * v[1] + v[2] + (c->kind >= FORWARD_ADD ? g : 0);
        return has_relu(c) && y < 0 ? 0 : y;
    }
    g = has_relu(c) && kit_at(c->k, c->h, i) <= 0 ? 0 : g;
    return g * v[1] + d * v[2] + v[3];
}

static void check_sums(const chain *c)
{
    int64_t channels = c->dim[1], inner = c->dim[2], n = c->dim[0];
    for (int64_t ch = 0; ch < channels; ch++) {
        double s1 = 0, s2 = 0, size = 0;
        for (int64_t e = 0; e < n * inner; e++) {
            int64_t i = (e / inner * channels + ch) * inner + e % inner;
            double g = has_relu(c) && kit_at(c->k, c->h, i) <= 0 ? 0 : kit_at(c->k, c->r, i);
            double p = g * (kit_at(c->k, c->x, i) - kit_at(c->k, c->number[0], i));
            s1 += g, s2 += p, size += fabs(g) + fabs(p);
        }
        ck_assert_double_eq_tol(kit_get(c->k, c->sum[0], ch), s1, 1e-6 * size + 1e-6);
        ck_assert_double_eq_tol(kit_get(c->k, c->sum[1], ch), s2, 1e-6 * size + 1e-6);
    }
}

static void chain_check(const chain *c, int dtype)
{
    if (c->kind >= SUMS) {
        check_sums(c);
        return;
    }
    for (int64_t i = 0; i < c->dim[0] * c->dim[1] * c->dim[2]; i++) {
        double want = chain_expected(c, i);
        ck_assert_double_eq_tol(kit_get(c->k, c->y, i), want, (dtype == YK_F32 ? 1e-6 : 5e-3) * (fabs(want) + 1));
    }
}

START_TEST(chains_are_near_and_equal)
{
    /* one number for a plane; planes that are repeated; a plane below any vector; one row; many planes of 256 */
    static const int64_t shape[][3] = {{3, 5, 700}, {40, 24, 36}, {33, 3, 5}, {1, 7, 129}, {9, 70, 256}};
    for (int q = 0; kit_isa(q); q++)
        for (size_t s = 0; s < sizeof shape / sizeof *shape; s++)
            for (int t = 0; t < 2; t++) {
                const int dtype = t ? YK_BF16 : YK_F32;
                chain c = chain_make(_i, dtype, shape[s][0], shape[s][1], shape[s][2]);
                const uint32_t out = _i < SUMS ? c.y : c.sum[1];
                const size_t bytes = (size_t)c.k->slot[out].bytes;
                ck_assert_int_eq(kit_run(c.k, kit_isa(q), 3), YK_OK);
                chain_check(&c, dtype);
                char *first = malloc(bytes);
                memcpy(first, c.k->data[out], bytes);
                ck_assert_int_eq(kit_run(c.k, kit_isa(q), 1), YK_OK);
                ck_assert(!memcmp(first, c.k->data[out], bytes));
                free(first);
                kit_free(c.k);
            }
}
END_TEST

/* g and g (x - m) summed over `axes`; m repeats along `along`. Whatever differs in the two leaves the chain's plane. */
static void check_sums_over(const cpu_isa *isa, const int64_t *dim, unsigned along, unsigned axes)
{
    chain c = {.k = kit_new(), .dim = {dim[0], dim[1], dim[2], -1}, .kind = SUMS};
    int64_t kept[4] = {-1, -1, -1, -1}, n = 1;
    for (int i = 0; i < 3; i++) {
        kept[i] = axes >> i & 1 ? 1 : dim[i];
        n *= kept[i];
    }
    c.x = kit_value(c.k, YK_F32, c.dim);
    c.r = kit_value(c.k, YK_F32, c.dim);
    c.number[0] = kit_broadcast(c.k, YK_F32, c.dim, along);
    c.sum[0] = kit_value(c.k, YK_F32, kept);
    c.sum[1] = kit_value(c.k, YK_F32, kept);
    kit_random(c.k, c.x, -2, 2);
    kit_random(c.k, c.r, -2, 2);
    kit_random(c.k, c.number[0], -1, 1);
    const uint32_t p = chain_add(&c, YK_OP_MUL, KIT_IDS(c.r, chain_add(&c, YK_OP_SUB, KIT_IDS(c.x, c.number[0]))));
    kit_node(c.k, YK_OP_SUM, KIT_IDS(c.r), KIT_IDS(c.sum[0]), (int64_t[]){axes}, 1);
    kit_node(c.k, YK_OP_SUM, KIT_IDS(p), KIT_IDS(c.sum[1]), (int64_t[]){axes}, 1);
    kit_wrap(c.k, YK_OP_MAP_SUM, 4, KIT_IDS(c.x, c.r, c.number[0]), KIT_IDS(c.sum[0], c.sum[1]));
    ck_assert_int_eq(kit_run(c.k, isa, 2), YK_OK);
    double *want = calloc((size_t)n, 3 * sizeof *want);
    for (int64_t i = 0; i < dim[0] * dim[1] * dim[2]; i++) {
        const int64_t at[3] = {i / dim[2] / dim[1], i / dim[2] % dim[1], i % dim[2]};
        const double g = kit_at(c.k, c.r, i), t = g * (kit_at(c.k, c.x, i) - kit_at(c.k, c.number[0], i));
        int64_t o = 0;
        for (int k = 0; k < 3; k++)
            o = o * kept[k] + (axes >> k & 1 ? 0 : at[k]);
        want[3 * o] += g;
        want[3 * o + 1] += t;
        want[3 * o + 2] += fabs(g) + fabs(t);
    }
    for (int64_t o = 0; o < n; o++)
        for (int k = 0; k < 2; k++)
            ck_assert_msg(fabs(kit_get(c.k, c.sum[k], o) - want[3 * o + k]) <= 1e-6 * want[3 * o + 2] + 1e-6,
                          "[%d,%d,%d], mean along %u, sum over %u: sum %d of %d is %g, expected %g", (int)dim[0], (int)dim[1], (int)dim[2],
                          along, axes, k, (int)o, kit_get(c.k, c.sum[k], o), want[3 * o + k]);
    free(want);
    kit_free(c.k);
}

START_TEST(sums_are_over_any_axes)
{
    static const int64_t dim[][3] = {{8, 4, 256}, {6, 64, 128}, {3, 5, 33}};
    for (int q = 0; kit_isa(q); q++)
        for (size_t s = 0; s < sizeof dim / sizeof *dim; s++)
            for (unsigned along = 0; along < 8; along++)
                for (unsigned axes = 1; axes < 8; axes++)
                    check_sums_over(kit_isa(q), dim[s], along, axes);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("all");
    kit_host();
    tcase_add_loop_test(t, chains_are_near_and_equal, 0, KINDS);
    tcase_add_test(t, sums_are_over_any_axes);
    return suite_run("cpu_chain all", t);
}
