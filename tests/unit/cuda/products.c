/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products by cuBLASLt, on the fakes (tests/fakes), which refuse invalid calls: every layout and type against sums in double, unaligned
 * lines, epilogues, graphs, bits that stay the same, TF32 on request, refused shapes and libraries, calls that fail in turn, a lost
 * device.
 */
#include "tests/unit/cuda/case.h"

/* ---- Products ---- */

typedef struct shape {
    int in, out;
    int64_t batch, m, n, terms; /* batch 0: two dimensions */
    bool turn_a, turn_b; /* lie in memory with their last two dimensions swapped */
    bool one_b;          /* one matrix for the whole batch */
    bool add;            /* to what is there */
    int64_t start;       /* elements before A in its slot */
    int64_t a_more, c_more; /* elements behind each line of A, of C, that are no numbers */
} shape;

typedef struct product {
    kit *k;
    shape of;
    uint32_t a, b, c;
    double *before; /* C */
} product;

static uint32_t operand_new(kit *k, int dtype, int64_t batch, int64_t rows, int64_t cols, bool transposed, bool one, int64_t start,
                            int64_t more)
{
    const int64_t z = batch ? batch : 1, r = transposed ? cols : rows, c = (transposed ? rows : cols) + more;
    const int64_t stored = one ? r * c : z * r * c;
    const int64_t dim[] = {z, rows, cols}, stride[] = {one ? 0 : r * c, transposed ? 1 : c, transposed ? c : 1};
    const uint32_t base = KIT(k, dtype, start + stored), skip = batch ? 0 : 1;
    kit_random_int(k, base, -3, 3);
    return kit_view(k, base, 3 - skip, dim + skip, stride + skip, start);
}

static product product_new(shape of)
{
    const int64_t z = of.batch ? of.batch : 1, n = z * of.m * of.n;
    product p = {.k = kit_new(), .of = of, .before = calloc((size_t)n, sizeof(double))};
    p.a = operand_new(p.k, of.in, of.batch, of.m, of.terms, of.turn_a, false, of.start, of.a_more);
    p.b = operand_new(p.k, of.in, of.batch, of.terms, of.n, of.turn_b, of.one_b, 0, 0);
    p.c = of.batch ? KIT(p.k, of.out, of.batch, of.m, of.n) : KIT(p.k, of.out, of.m, of.n + of.c_more);
    kit_random_int(p.k, p.c, -9, 9);
    if (of.c_more)
        p.c = kit_view(p.k, p.c, 2, (const int64_t[]){of.m, of.n}, (const int64_t[]){of.n + of.c_more, 1}, 0);
    for (int64_t i = 0; i < n && of.add; i++)
        p.before[i] = kit_get(p.k, p.c, i);
    kit_node(p.k, YK_OP_DOT, KIT_IDS(p.a, p.b), KIT_IDS(p.c), NULL, 0)->flags = of.add ? YK_NODE_ACCUMULATE : 0;
    return p;
}

/* Whole numbers, which every type here holds. */
static double product_sum(const product *p, int64_t z, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t k = 0; k < p->of.terms; k++)
        sum += kit_at(p->k, p->a, (z * p->of.m + i) * p->of.terms + k) * kit_at(p->k, p->b, (z * p->of.terms + k) * p->of.n + j);
    return sum;
}

static void product_right(const product *p, int runs)
{
    for (int64_t z = 0; z < (p->of.batch ? p->of.batch : 1); z++)
        for (int64_t i = 0; i < p->of.m; i++)
            for (int64_t j = 0; j < p->of.n; j++) {
                const int64_t at = (z * p->of.m + i) * p->of.n + j;
                const double want = p->before[at] + (p->of.add ? runs : 1) * product_sum(p, z, i, j);
                ck_assert_msg(kit_get(p->k, p->c, at) == want, "[%lld,%lld,%lld] is %g, and should be %g", (long long)z, (long long)i,
                              (long long)j, kit_get(p->k, p->c, at), want);
            }
}

static void product_free(product *p)
{
    kit_free(p->k);
    free(p->before);
}

/* By the library, and rightly. */
static void shape_works(shape of)
{
    product p = product_new(of);
    const uint64_t before = fake.products();
    graph_works(p.k, 2);
    ck_assert_uint_eq(fake.products() - before, 2);
    product_right(&p, 2);
    product_free(&p);
}

START_TEST(every_layout_and_type_is_computed_by_the_library)
{
    static const int types[][2] = {{YK_F32, YK_F32}, {YK_BF16, YK_BF16}, {YK_BF16, YK_F32}, {YK_F16, YK_F16}, {YK_F16, YK_F32}};
    ck_assert_int_eq(device_start(), YK_OK);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int turn = 0; turn < 4; turn++)
            for (int64_t batch = 0; batch < 4; batch++) /* 0: none; 1; 2; 3: with one B */
                shape_works((shape){.in = types[t][0],
                                    .out = types[t][1],
                                    .batch = batch,
                                    .m = 5 - turn,
                                    .n = 3 + turn,
                                    .terms = batch == 2 ? 49 : 7,
                                    .turn_a = turn & 1,
                                    .turn_b = turn >> 1,
                                    .one_b = batch == 3,
                                    .add = types[t][1] == YK_F32 && batch != 1});
    device_stop();
}
END_TEST

START_TEST(rows_columns_and_places_of_all_kinds_fit)
{
    ck_assert_int_eq(device_start(), YK_OK);
    for (int i = 0; i < 8; i++)
        shape_works((shape){.in = YK_F32,
                            .out = YK_F32,
                            .m = i & 1 ? 1 : 6,
                            .n = i & 2 ? 1 : 4,
                            .terms = i & 4 ? 1 : 5,
                            .turn_a = i > 3,
                            .turn_b = i & 1});
    shape_works((shape){.in = YK_BF16, .out = YK_BF16, .m = 4, .n = 4, .terms = 3, .start = 1}); /* A at byte 2 */
    shape_works((shape){.in = YK_BF16, .out = YK_BF16, .m = 4, .n = 4, .terms = 3, .start = 8});
    device_stop();
}
END_TEST

/* Unaligned lines: the library gets copies, if that pays */

/* Numbers so small that sums of a thousand are held by every type. */
static void numbers_small(const product *p)
{
    const uint32_t a = p->k->value[p->a].base;
    const int64_t length = p->of.turn_a ? p->of.m : p->of.terms, n = kit_stored(p->k, a);
    kit_random_int(p->k, a, -1, 1);
    kit_random_int(p->k, p->k->value[p->b].base, -1, 1);
    if (!p->of.a_more)
        return;
    double *all = malloc((size_t)n * sizeof *all);
    for (int64_t i = 0; i < n; i++)
        all[i] = i % (length + p->of.a_more) < length ? kit_get(p->k, a, i) : (double)NAN;
    kit_set(p->k, a, all);
    free(all);
}

static double element_want(const product *p, int64_t at)
{
    const int64_t each = p->of.m * p->of.n;
    return p->before[at] + product_sum(p, at / each, at % each / p->of.n, at % p->of.n);
}

/* A prime's multiples, and the first and last rows and columns. */
static void product_sampled(const product *p)
{
    const int64_t n = kit_count(p->k, p->c), row = p->of.n;
    for (int64_t i = 0; i < n; i += i < row || i + row > n ? 7 : 9973) {
        ck_assert_double_eq(kit_at(p->k, p->c, i), element_want(p, i));
        ck_assert_double_eq(kit_at(p->k, p->c, i / row * row), element_want(p, i / row * row));
        ck_assert_double_eq(kit_at(p->k, p->c, i / row * row + row - 1), element_want(p, i / row * row + row - 1));
    }
}

/* In so many products of the library, of which so many have aligned lines. */
static void lines_work(shape of, uint64_t products, uint64_t aligned)
{
    product p = product_new(of);
    const uint64_t before = fake.products(), aligned_before = fake.aligned();
    numbers_small(&p);
    graph_works(p.k, 1);
    ck_assert_uint_eq(fake.products() - before, products);
    ck_assert_uint_eq(fake.aligned() - aligned_before, aligned);
    product_sampled(&p);
    product_free(&p);
}

START_TEST(lines_that_are_not_aligned_are_copied)
{
    static const shape of[] = {
        {.in = YK_BF16, .out = YK_BF16, .m = 1024, .n = 1001, .terms = 1024, .turn_b = true}, /* logits */
        {.in = YK_BF16, .out = YK_BF16, .m = 1024, .n = 1024, .terms = 1001},                 /* their gradient, to the input */
        {.in = YK_BF16, .out = YK_F32, .m = 1001, .n = 1024, .terms = 1536, .turn_a = true, .add = true}, /* and to the weights */
        {.in = YK_F16, .out = YK_F32, .m = 1023, .n = 1001, .terms = 1027, .turn_b = true},
        {.in = YK_F16, .out = YK_F16, .m = 1021, .n = 1025, .terms = 1003, .turn_a = true},
        {.in = YK_BF16, .out = YK_F32, .batch = 2, .m = 907, .n = 909, .terms = 1201, .turn_a = true, .turn_b = true, .add = true},
        {.in = YK_BF16, .out = YK_BF16, .batch = 3, .m = 600, .n = 601, .terms = 999, .one_b = true},
        {.in = YK_BF16, .out = YK_BF16, .m = 1024, .n = 1024, .terms = 1024, .start = 1}, /* A at byte 2 */
    };
    ck_assert_int_eq(device_start(), YK_OK);
    lines_work(of[_i], 1, 1);
    device_stop();
}
END_TEST

/* Matrices with padded lines are not copied; a NaN in the padding does not reach the result. */
START_TEST(padded_lines_stay_where_they_are)
{
    static const struct {
        shape of;
        uint64_t products;
    } cases[] = {
        {{.in = YK_BF16, .out = YK_BF16, .m = 1024, .n = 1001, .terms = 1024, .turn_b = true, .c_more = 23}, 1},
        {{.in = YK_BF16, .out = YK_BF16, .m = 1024, .n = 1024, .terms = 1001, .a_more = 23}, 1},
        {{.in = YK_BF16, .out = YK_F32, .m = 1001, .n = 1024, .terms = 1536, .turn_a = true, .add = true, .a_more = 23}, 2},
        {{.in = YK_F16, .out = YK_F16, .m = 1001, .n = 1003, .terms = 1024, .turn_a = true, .a_more = 7, .c_more = 5}, 2},
        {{.in = YK_F16, .out = YK_F16, .m = 1024, .n = 1003, .terms = 1021, .a_more = 3, .c_more = 21}, 1},
    };
    ck_assert_int_eq(device_start(), YK_OK);
    lines_work(cases[_i].of, cases[_i].products, cases[_i].products);
    device_stop();
}
END_TEST

START_TEST(lines_are_left_where_copies_do_not_pay)
{
    ck_assert_int_eq(device_start(), YK_OK);
    lines_work((shape){.in = YK_BF16, .out = YK_BF16, .m = 256, .n = 257, .terms = 256}, 1, 0);
    lines_work((shape){.in = YK_BF16, .out = YK_BF16, .m = 2048, .n = 2049, .terms = 24}, 1, 0); /* the result is most of it */
    lines_work((shape){.in = YK_F32, .out = YK_F32, .m = 257, .n = 257, .terms = 256}, 1, 0);
    lines_work((shape){.in = YK_BF16, .out = YK_BF16, .m = 257, .n = 256, .terms = 256}, 1, 1); /* nothing is wrong with it */
    device_stop();
}
END_TEST

/* A 32nd of the memory: a single copy has 2 MiB, and leaves this for parts of the rest. */
START_TEST(copies_beyond_a_limit_are_made_in_parts)
{
    static const struct {
        const char *memory; /* MiB << 20 */
        shape of;
        uint64_t products, aligned;
    } cases[] = {
        {"134217728", {.in = YK_BF16, .out = YK_BF16, .m = 1024, .n = 1001, .terms = 1024, .turn_b = true}, 1, 1},
        {"100663296", {.in = YK_BF16, .out = YK_BF16, .m = 1024, .n = 1001, .terms = 1024, .turn_b = true}, 2, 2},
        {"100663296", {.in = YK_BF16, .out = YK_BF16, .m = 1000, .n = 1024, .terms = 1001, .add = true}, 2, 2},
        {"100663296", {.in = YK_BF16, .out = YK_F32, .m = 1001, .n = 1024, .terms = 1536, .turn_a = true, .add = true}, 3, 3},
        {"67108864", {.in = YK_BF16, .out = YK_BF16, .m = 1024, .n = 1001, .terms = 1024, .turn_b = true}, 1, 0},
        {"67108864", {.in = YK_BF16, .out = YK_BF16, .batch = 2, .m = 1024, .n = 1024, .terms = 1001}, 1, 0}, /* is not cut */
    };
    setenv("FAKE_CUDA_MEMORY", cases[_i].memory, 1);
    ck_assert_int_eq(device_start(), YK_OK);
    lines_work(cases[_i].of, cases[_i].products, cases[_i].aligned);
    device_stop();
    unsetenv("FAKE_CUDA_MEMORY");
}
END_TEST

/* Epilogues of a product */

/* t = a b; y = (t + bias) t, of which t is an output, too */
typedef struct mapped {
    product of;
    uint32_t bias, t, y;
} mapped;

static mapped mapped_of(shape of)
{
    mapped m = {.of = product_new(of)};
    const int dtype = of.out;
    kit *k = m.of.k;
    const uint32_t in[] = {m.of.a, m.of.b}, s = KIT(k, dtype, of.m, of.n);
    m.bias = KITB(k, dtype, 1, of.m, of.n);
    m.y = KIT(k, dtype, of.m, of.n);
    m.t = m.of.c;
    k->g.n_node = k->g.n_all_node = 0; /* the product, as the body of a map instead */
    kit_random_int(k, m.bias, -3, 3);
    kit_node(k, YK_OP_DOT, KIT_IDS(in[0], in[1]), KIT_IDS(m.t), NULL, 0);
    kit_node(k, YK_OP_ADD, KIT_IDS(m.t, m.bias), KIT_IDS(s), NULL, 0);
    kit_node(k, YK_OP_MUL, KIT_IDS(s, m.t), KIT_IDS(m.y), NULL, 0);
    kit_wrap(k, YK_OP_DOT_MAP, 3, KIT_IDS(in[0], in[1], m.bias), KIT_IDS(m.t, m.y));
    return m;
}

static mapped mapped_new(int dtype, int64_t terms)
{
    return mapped_of((shape){.in = dtype, .out = dtype, .m = 6, .n = 5, .terms = terms});
}

static void mapped_right(const mapped *m)
{
    for (int64_t i = 0; i < 30; i++) {
        const double t = product_sum(&m->of, 0, i / 5, i % 5);
        ck_assert_double_eq(kit_get(m->of.k, m->t, i), t);
        ck_assert_double_eq(kit_get(m->of.k, m->y, i), (t + kit_at(m->of.k, m->bias, i)) * t);
    }
}

/* Long sums, so that there are workspace and a product beside each other in the scratch memory. */
START_TEST(what_is_behind_a_product_and_workspace_are_recorded_with_it)
{
    mapped m = mapped_new(YK_F32, 60);
    const uint64_t graphs = fake.graphs(), products = fake.products();
    ck_assert_int_eq(device_start(), YK_OK);
    graph_works(m.of.k, RUNS);
    mapped_right(&m);
    ck_assert_uint_eq(fake.graphs() - graphs, RUNS - 1);
    ck_assert_uint_eq(fake.products() - products, 2); /* the first run, and its recording */
    device_stop();
    product_free(&m.of);
}
END_TEST

START_TEST(the_product_that_is_behind_has_the_type_of_its_value)
{
    mapped m = mapped_new(YK_F16, 3); /* results up to 30 * 27, which have 11 bits */
    ck_assert_int_eq(device_start(), YK_OK);
    graph_works(m.of.k, 1);
    mapped_right(&m);
    device_stop();
    product_free(&m.of);
}
END_TEST

/* The first element of each row and the last, from copies that two parts make. */
START_TEST(what_is_behind_a_product_finds_it_without_the_ends_of_lines)
{
    mapped m = mapped_of((shape){.in = YK_BF16, .out = YK_BF16, .m = 1024, .n = 1001, .terms = 1024, .turn_b = true});
    const uint64_t aligned = fake.aligned();
    setenv("FAKE_CUDA_MEMORY", "100663296", 1);
    numbers_small(&m.of);
    double *a = calloc(1024 * 1024, sizeof *a);
    for (int i = 0; i < 1024; i++) /* a row of A has one number, so that bf16 holds what is computed */
        a[i * 1024 + i] = 1 + i % 3;
    kit_set(m.of.k, m.of.k->value[m.of.a].base, a);
    free(a);
    ck_assert_int_eq(device_start(), YK_OK);
    graph_works(m.of.k, RUNS);
    ck_assert_uint_eq(fake.aligned() - aligned, 2 * 2);
    for (int64_t i = 0; i < 1024 * 1001; i += i % 1001 ? 1 : 1000) {
        const double t = product_sum(&m.of, 0, i / 1001, i % 1001);
        ck_assert_double_eq(kit_get(m.of.k, m.t, i), t);
        ck_assert_double_eq(kit_get(m.of.k, m.y, i), (t + kit_at(m.of.k, m.bias, i)) * t);
    }
    device_stop();
    unsetenv("FAKE_CUDA_MEMORY");
    product_free(&m.of);
}
END_TEST

/* ---- Numbers ---- */

START_TEST(bits_are_the_same_each_time)
{
    const shape of = {.in = YK_F32, .out = YK_F32, .m = 7, .n = 9, .terms = 500};
    product p = product_new(of);
    const size_t bytes = (size_t)(of.m * of.n) * sizeof(float);
    float *first = malloc(bytes);
    kit_random(p.k, p.k->value[p.a].base, -1, 1);
    kit_random(p.k, p.k->value[p.b].base, -1, 1);
    ck_assert_int_eq(device_start(), YK_OK);
    graph_works(p.k, 1);
    memcpy(first, p.k->data[p.k->value[p.c].slot], bytes);
    for (int run = 1; run < 4; run++) {
        graph_works(p.k, run);
        ck_assert_mem_eq(first, p.k->data[p.k->value[p.c].slot], bytes);
    }
    device_stop();
    free(first);
    product_free(&p);
}
END_TEST

#define SIDE 1024

/* 1 + 2^-12 has more bits than TF32. */
static double product_of_fine_numbers(const char *tf32, int64_t side)
{
    product p = product_new((shape){.in = YK_F32, .out = YK_F32, .m = side, .n = side, .terms = 1});
    double a[SIDE], b[SIDE];
    for (int64_t i = 0; i < side; i++)
        a[i] = 1 + 0x1p-12, b[i] = 1;
    kit_set(p.k, p.k->value[p.a].base, a);
    kit_set(p.k, p.k->value[p.b].base, b);
    plugin_host_option("TF32", tf32);
    ck_assert_int_eq(device_start(), YK_OK);
    graph_works(p.k, 1);
    device_stop();
    plugin_host_option("TF32", NULL);
    const double c = kit_get(p.k, p.c, 0);
    product_free(&p);
    return c;
}

/* What the card says that its products keep of f32. */
static uint64_t bits_said(const char *tf32)
{
    yk_device_caps caps = {.size = sizeof caps};
    plugin_host_option("TF32", tf32);
    ck_assert_int_eq(device_start(), YK_OK);
    ck_assert_int_eq(plugin->device_caps(0, &caps), YK_OK);
    device_stop();
    plugin_host_option("TF32", NULL);
    return caps.product_bits;
}

START_TEST(operands_are_rounded_to_tf32_on_request_only)
{
    ck_assert_uint_eq(bits_said(NULL), 0);
    ck_assert_uint_eq(bits_said("0"), 0);
    ck_assert_uint_eq(bits_said("1"), 11);
    ck_assert_double_eq(product_of_fine_numbers(NULL, SIDE), 1 + 0x1p-12);
    ck_assert_double_eq(product_of_fine_numbers("0", SIDE), 1 + 0x1p-12);
    ck_assert_double_eq(product_of_fine_numbers("1", SIDE), 1);
    ck_assert_double_eq(product_of_fine_numbers("1", SIDE - 1), 1 + 0x1p-12); /* too small to be worth it */
    plugin_host_option("TF32", "yes");
    ck_assert_int_eq(plugin->init(&plugin_host), YK_E_ARG);
    plugin_host_option("TF32", NULL);
    plugin->fini();
}
END_TEST

/* ---- Without the library ---- */

static uint32_t text_count(const char *words)
{
    uint32_t n = 0;
    for (const char *at = strstr(plugin_host_text, words); at; at = strstr(at + 1, words))
        n++;
    return n;
}

/* By kernels of the plugin, twice, and `words` once in what is said. */
static void kernels_compute(const char *words)
{
    const uint64_t before = fake.products();
    *plugin_host_text = 0;
    ck_assert_int_eq(device_start(), YK_OK);
    for (int i = 0; i < 2; i++) {
        product p = product_new((shape){.in = YK_F32, .out = YK_F32, .m = 5, .n = 3, .terms = 7});
        graph_works(p.k, 1);
        product_right(&p, 1);
        product_free(&p);
    }
    device_stop();
    ck_assert_uint_eq(fake.products(), before);
    ck_assert_msg(text_count(words) == 1, "\"%s\" is not once in what is said:\n%s", words, plugin_host_text);
}

START_TEST(a_shape_that_is_refused_is_computed_by_kernels_and_said)
{
    fake.refuse(1);
    kernels_compute("a product [1,5,7] x [7,3], f32 to f32: not by cuBLASLt (not supported");
    fake.refuse(0);
    plugin_host_option("CUBLASLT", "0");
    kernels_compute("cuBLASLt is not used (YOKE_CUDA_CUBLASLT=0)");
    plugin_host_option("CUBLASLT", fake_path("fake_cuda")); /* a library, but not this one */
    kernels_compute("cuBLASLt is not used: it lacks cublasLt");
    plugin_host_option("CUBLASLT", "/nonexistent");
    ck_assert_int_eq(plugin->init(&plugin_host), YK_E_ARG);
    ck_assert_msg(strstr(plugin_host_text, "YOKE_CUDA_CUBLASLT=/nonexistent") != NULL, "%s", plugin_host_text);
    plugin->fini();
}
END_TEST

/* ---- Failures ---- */

/* From opening the device to closing it; results are right where nothing failed. */
static yk_status scenario_run(void)
{
    mapped m = mapped_new(YK_F32, 60);
    *plugin_host_text = 0;
    yk_status s = device_start();
    if (!s)
        s = graph_run(m.of.k, RUNS);
    if (!s)
        mapped_right(&m);
    device_stop();
    product_free(&m.of);
    return s;
}

START_TEST(every_call_fails_in_turn)
{
    const uint64_t before = fake.calls();
    uint64_t kernels = 0, failures = 0;
    ck_assert_int_eq(scenario_run(), YK_OK);
    const uint64_t calls = fake.calls() - before, abandoned = fake.abandoned();
    ck_assert_uint_ge(calls, 20);
    for (uint64_t n = 1; n <= calls; n++) {
        fake.fail_call(n);
        const yk_status s = scenario_run();
        fake.fail_call(0);
        ck_assert_msg(!s || strstr(plugin_host_text, "cuBLASLt"), "call %llu: status %d, and \"%s\"", (unsigned long long)n, s,
                      plugin_host_text);
        kernels += !s && strstr(plugin_host_text, "the plugin's own kernel");
        failures += s != YK_OK;
        ck_assert_uint_eq(fake.abandoned(), abandoned);
    }
    ck_assert_uint_eq(failures, 2); /* enqueuing it, and recording it */
    ck_assert_uint_eq(kernels, calls - failures - 6); /* not of the calls that free */
    ck_assert_int_eq(scenario_run(), YK_OK);
}
END_TEST

START_TEST(a_device_that_is_lost_is_said_in_the_drivers_words)
{
    product p = product_new((shape){.in = YK_F32, .out = YK_F32, .m = 5, .n = 3, .terms = 7});
    kit_node(p.k, YK_OP_DOT, KIT_IDS(p.a, p.b), KIT_IDS(KIT(p.k, YK_F32, 5, 3)), NULL, 0);
    ck_assert_int_eq(device_start(), YK_OK);
    fake.lose(1); /* by the first product, so that the second cannot be enqueued */
    ck_assert_int_eq(graph_run(p.k, 2), YK_E_DEVICE_LOST);
    ck_assert_msg(strstr(plugin_host_text, "node 1, a product: CUDA_ERROR_ILLEGAL_ADDRESS") != NULL, "%s", plugin_host_text);
    device_stop();
    product_free(&p);
}
END_TEST

int main(void)
{
    if (!fake_cuda_runs())
        return 0;
    TCase *t = tcase_create("products");
    tcase_add_checked_fixture(t, case_start, case_stop);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, every_layout_and_type_is_computed_by_the_library);
    tcase_add_test(t, rows_columns_and_places_of_all_kinds_fit);
    tcase_add_loop_test(t, lines_that_are_not_aligned_are_copied, 0, 8);
    tcase_add_loop_test(t, padded_lines_stay_where_they_are, 0, 5);
    tcase_add_test(t, lines_are_left_where_copies_do_not_pay);
    tcase_add_loop_test(t, copies_beyond_a_limit_are_made_in_parts, 0, 6);
    tcase_add_test(t, what_is_behind_a_product_and_workspace_are_recorded_with_it);
    tcase_add_test(t, the_product_that_is_behind_has_the_type_of_its_value);
    tcase_add_test(t, what_is_behind_a_product_finds_it_without_the_ends_of_lines);
    tcase_add_test(t, bits_are_the_same_each_time);
    tcase_add_test(t, operands_are_rounded_to_tf32_on_request_only);
    tcase_add_test(t, a_shape_that_is_refused_is_computed_by_kernels_and_said);
    tcase_add_test(t, every_call_fails_in_turn);
    tcase_add_test(t, a_device_that_is_lost_is_said_in_the_drivers_words);
    return suite_run("cuda products", t);
}
