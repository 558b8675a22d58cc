/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products whose operands 8 bits hold, on the fakes, whose cuBLASLt has an arithmetic of its own for them: the bits of the same product of
 * 16 bits, for all layouts, formats and hostile numbers; which products are not made so; two queues at once; calls that fail in turn.
 */
#include <math.h>
#include <pthread.h>

#include "tests/unit/cuda/case.h"

enum { E4M3 = YK_ROUND8_E4M3, E5M2 = YK_ROUND8_E5M2 };

typedef struct shape {
    int in, out, format[2];
    int64_t m, n, terms;
    bool turn_a, turn_b; /* lie in memory with their two dimensions swapped */
    bool add;            /* to what is there */
} shape;

/* x rounded, twice a product of that: marked, and not. */
typedef struct pair {
    kit *k;
    shape of;
    uint32_t x[2], c[2];
} pair;

static const uint16_t marks[2][2] = {{YK_NODE_A_E4M3, YK_NODE_A_E5M2}, {YK_NODE_B_E4M3, YK_NODE_B_E5M2}};

static uint32_t operand_new(kit *k, uint32_t *x, int dtype, int format, int64_t rows, int64_t cols, bool transposed)
{
    const int64_t dim[] = {rows, cols}, stride[] = {transposed ? 1 : cols, transposed ? rows : 1};
    *x = KIT(k, dtype, rows * cols);
    const uint32_t y = KIT(k, dtype, rows * cols);
    kit_random(k, *x, -1, 1);
    kit_node(k, YK_OP_ROUND8, KIT_IDS(*x), KIT_IDS(y), (int64_t[]){format}, 1);
    return kit_view(k, y, 2, dim, stride, 0);
}

static pair pair_new(shape of)
{
    pair p = {.k = kit_new(), .of = of};
    const uint32_t a = operand_new(p.k, &p.x[0], of.in, of.format[0], of.m, of.terms, of.turn_a);
    const uint32_t b = operand_new(p.k, &p.x[1], of.in, of.format[1], of.terms, of.n, of.turn_b);
    for (int i = 0; i < 2; i++) {
        p.c[i] = KIT(p.k, of.out, of.m, of.n);
        kit_random_int(p.k, p.c[i], 0, 0);
        yk_node *n = kit_node(p.k, YK_OP_DOT, KIT_IDS(a, b), KIT_IDS(p.c[i]), NULL, 0);
        n->flags = (uint16_t)((of.add ? YK_NODE_ACCUMULATE : 0) | (i ? 0 : marks[0][of.format[0]] | marks[1][of.format[1]]));
    }
    return p;
}

/* The same bits; a number that is not finite stays so. A NaN may stand for an infinity. */
static void pair_right(const pair *p)
{
    for (int64_t i = 0; i < p->of.m * p->of.n; i++) {
        const double eight = kit_get(p->k, p->c[0], i), plain = kit_get(p->k, p->c[1], i);
        ck_assert_msg(isfinite(plain) ? eight == plain : !isfinite(eight), "element %lld is %a, and should be %a", (long long)i,
                      eight, plain);
    }
}

/* eights: how many products of 8 bits that takes */
static void pair_works(pair *p, int runs, uint64_t eight)
{
    const uint64_t before = fake.eights(), products = fake.products();
    graph_works(p->k, runs);
    ck_assert_uint_eq(fake.eights() - before, eight);
    ck_assert_uint_eq(fake.products() - products, 2 * (uint64_t)runs);
    pair_right(p);
}

static void shape_works(shape of, uint64_t eight)
{
    pair p = pair_new(of);
    pair_works(&p, 2, 2 * eight);
    kit_free(p.k);
}

static const shape usual = {.in = YK_BF16, .out = YK_BF16, .m = 48, .n = 32, .terms = 80};

START_TEST(every_layout_and_format_has_the_bits_of_16)
{
    static const int formats[][2] = {{E4M3, E4M3}, {E5M2, E4M3}, {E4M3, E5M2}}, types[][2] = {{YK_BF16, YK_BF16}, {YK_BF16, YK_F32},
                                                                                              {YK_F32, YK_F32}};
    ck_assert_int_eq(device_start(), YK_OK);
    for (int i = 0; i < 36; i++) {
        const int *format = formats[i / 4 % 3], *type = types[i / 12];
        shape_works((shape){.in = type[0],
                            .out = type[1],
                            .format = {format[0], format[1]},
                            .m = 16 + 32 * (i & 1),
                            .n = 80 - 32 * (i & 1),
                            .terms = i & 2 ? 16 : 144,
                            .turn_a = i & 1,
                            .turn_b = i >> 1 & 1,
                            .add = type[1] == YK_F32},
                    1);
    }
    shape_works((shape){.in = YK_BF16, .out = YK_F32, .m = 256, .n = 192, .terms = 400, .turn_b = true}, 1); /* several blocks each */
    device_stop();
}
END_TEST

/* Some numbers of the first operand: kind by kind what is at the edges of the formats. */
static void hostile_fill(kit *k, uint32_t x, int kind)
{
    const int64_t n = kit_stored(k, x);
    double *v = calloc((size_t)n, sizeof *v);
    for (int64_t i = 0; i < n && kind; i++) {
        const double u = 2 * kit_random_unit() - 1;
        v[i] = kind == 1   ? (i == n / 2 ? 3.3 : 0)
               : kind == 2 ? (i ? u : 4)
               : kind == 3 ? ldexp(u, -(int)(i % 30))
               : kind == 4 ? (i % 97 ? u * 1e4 : INFINITY)
               : kind == 5 ? (i % 97 ? u : NAN)
               : kind == 6 ? u * 0x1p-110
               : kind == 7 ? u * 0x1p100
               : kind == 8 ? (i ? u : 1.7499)
               : kind == 9 ? (i ? u : 1.7501)
                           : (i % 97 ? u : -INFINITY);
    }
    kit_set(k, x, v);
    free(v);
}

START_TEST(hostile_numbers_have_the_bits_of_16)
{
    ck_assert_int_eq(device_start(), YK_OK);
    for (int kind = 0; kind < 11; kind++)
        for (int i = 0; i < 4; i++) {
            shape of = usual;
            of.format[i & 1] = i & 2 ? E5M2 : E4M3;
            of.out = YK_F32;
            pair p = pair_new(of);
            hostile_fill(p.k, p.x[i & 1], kind);
            pair_works(&p, 1, 1);
            kit_free(p.k);
        }
    device_stop();
}
END_TEST

/* Nodes that stay in 16 bits */

START_TEST(other_sizes_and_both_in_e5m2_are_of_16)
{
    shape of = usual;
    ck_assert_int_eq(device_start(), YK_OK);
    for (int i = 0; i < 3; i++) {
        of = usual;
        *(i == 0 ? &of.m : i == 1 ? &of.n : &of.terms) = 40;
        shape_works(of, 0);
    }
    of = usual;
    of.format[0] = of.format[1] = E5M2;
    shape_works(of, 0);
    ck_assert_ptr_nonnull(strstr(plugin_host_text, "a product [1,48,80] x [80,32], e5m2 to bf16: not by cuBLASLt"));
    ck_assert_ptr_nonnull(strstr(plugin_host_text, "it is computed of 16 bits"));
    device_stop();
}
END_TEST

/* words: once in what is said */
static void device_computes_so(const char *words, uint64_t eight)
{
    *plugin_host_text = 0;
    ck_assert_int_eq(device_start(), YK_OK);
    shape_works(usual, eight);
    device_stop();
    const char *at = strstr(plugin_host_text, words);
    ck_assert_msg(at && !strstr(at + 1, words), "\"%s\" is not once in what is said:\n%s", words, plugin_host_text);
}

START_TEST(options_and_chips_are_said)
{
    device_computes_so("sm_90: a job of fp8 multiplies in 8 bits", 1);
    plugin_host_option("FP8", "0");
    device_computes_so("a job of fp8 multiplies in 16 bits (YOKE_CUDA_FP8=0)", 0);
    plugin_host_option("FP8", "yes");
    ck_assert_int_eq(plugin->init(&plugin_host), YK_E_ARG);
    plugin->fini();
    plugin_host_option("FP8", NULL);
    fake.set_capability(89);
    device_computes_so("sm_89: a job of fp8 multiplies in 8 bits", 1);
    fake.set_capability(86);
    device_computes_so("sm_86: a job of fp8 multiplies in 16 bits; products of 8 bits begin with sm_89", 0);
}
END_TEST

/* ---- Behind a product, and with others ---- */

/* y = (t + bias) t, recorded, with workspace, product and operands beside each other in the scratch memory. */
static yk_status mapped_run(uint64_t eight)
{
    shape of = usual;
    of.out = YK_F32;
    pair p = pair_new(of);
    kit *k = p.k;
    const uint32_t bias = KITB(k, YK_F32, 1, 48, 32);
    const yk_node dot[2] = {k->node[2], k->node[3]};
    uint32_t y[2];
    k->g.n_node = k->g.n_all_node = 2;
    kit_random(k, bias, -1, 1);
    for (int i = 1; i >= 0; i--) {
        const uint32_t a = k->index[dot[i].in], b = k->index[dot[i].in + 1], s = KIT(k, YK_F32, 48, 32);
        y[i] = KIT(k, YK_F32, 48, 32);
        kit_node(k, YK_OP_DOT, KIT_IDS(a, b), KIT_IDS(p.c[i]), NULL, 0)->flags = dot[i].flags;
        kit_node(k, YK_OP_ADD, KIT_IDS(p.c[i], bias), KIT_IDS(s), NULL, 0);
        kit_node(k, YK_OP_MUL, KIT_IDS(s, p.c[i]), KIT_IDS(y[i]), NULL, 0);
        if (!i)
            kit_wrap(k, YK_OP_DOT_MAP, 3, KIT_IDS(a, b, bias), KIT_IDS(p.c[i], y[i]));
    }
    const uint64_t eights = fake.eights();
    *plugin_host_text = 0;
    yk_status s = device_start();
    if (!s)
        s = graph_run(k, RUNS);
    if (!s) {
        const double most = strstr(plugin_host_text, "the plugin's own kernel") ? 1e-4 : 0; /* which adds up in another order */
        for (int64_t i = 0; i < 48 * 32; i++)
            ck_assert_double_le(fabs(kit_get(k, y[0], i) - kit_get(k, y[1], i)), most);
        ck_assert_uint_le(fake.eights() - eights, eight);
    }
    device_stop();
    kit_free(k);
    return s;
}

START_TEST(what_is_behind_a_product_is_recorded_with_it)
{
    const uint64_t graphs = fake.graphs(), eights = fake.eights();
    ck_assert_int_eq(mapped_run(2), YK_OK);
    ck_assert_uint_eq(fake.graphs() - graphs, RUNS - 1);
    ck_assert_uint_eq(fake.eights() - eights, 2); /* the first run, and its recording */
}
END_TEST

START_TEST(every_call_fails_in_turn)
{
    const uint64_t before = fake.calls();
    uint64_t failures = 0, others = 0;
    ck_assert_int_eq(mapped_run(2), YK_OK);
    const uint64_t calls = fake.calls() - before, abandoned = fake.abandoned();
    for (uint64_t n = 1; n <= calls; n++) {
        fake.fail_call(n);
        const yk_status s = mapped_run(2);
        fake.fail_call(0);
        ck_assert_msg(!s || strstr(plugin_host_text, "cuBLASLt"), "call %llu: status %d, and \"%s\"", (unsigned long long)n, s,
                      plugin_host_text);
        failures += s != YK_OK;
        others += !s && strstr(plugin_host_text, "it is computed of 16 bits");
        ck_assert_uint_eq(fake.abandoned(), abandoned);
    }
    ck_assert_uint_eq(failures, 8); /* two scales and enqueuing it, enqueuing the other; the same when they are recorded */
    ck_assert_uint_ge(others, 10);  /* planning the one of 8 bits */
    ck_assert_int_eq(mapped_run(2), YK_OK);
}
END_TEST

/* ---- Two queues ---- */

#define TOGETHER 40

static void *queue_uses(void *argument)
{
    pair *p = argument;
    for (int i = 0; i < TOGETHER; i++)
        if (graph_run(p->k, 1))
            return NULL;
    return p;
}

/* One plan, with numbers whose scales are far apart. */
START_TEST(queues_do_not_mix_their_scales)
{
    pair p[2] = {pair_new(usual), pair_new(usual)};
    pthread_t thread[2];
    kit_random(p[1].k, p[1].x[0], -1e6, 1e6);
    kit_random(p[1].k, p[1].x[1], -1e9, 1e9);
    ck_assert_int_eq(device_start(), YK_OK);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, queue_uses, &p[i]), 0);
    for (int i = 0; i < 2; i++) {
        void *done = NULL;
        pthread_join(thread[i], &done);
        ck_assert_ptr_nonnull(done);
        pair_right(&p[i]);
    }
    device_stop();
    for (int i = 0; i < 2; i++)
        kit_free(p[i].k);
}
END_TEST

int main(void)
{
    if (!fake_cuda_runs())
        return 0;
    TCase *t = tcase_create("eight");
    tcase_add_checked_fixture(t, case_start, case_stop);
    tcase_set_timeout(t, 240);
    tcase_add_test(t, every_layout_and_format_has_the_bits_of_16);
    tcase_add_test(t, hostile_numbers_have_the_bits_of_16);
    tcase_add_test(t, other_sizes_and_both_in_e5m2_are_of_16);
    tcase_add_test(t, options_and_chips_are_said);
    tcase_add_test(t, what_is_behind_a_product_is_recorded_with_it);
    tcase_add_test(t, every_call_fails_in_turn);
    tcase_add_test(t, queues_do_not_mix_their_scales);
    return suite_run("cuda eight", t);
}
