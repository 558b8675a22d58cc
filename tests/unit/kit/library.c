/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to a vendor's library, without a device: products with their epilogues, convolutions and their gradients. */
#include "tests/unit/kit/case.h"

/* ---- Products of a library ---- */

static kit_product asked;
static bool library_takes;

static bool library_product(yk_device *dev, const kit_product *product, uint64_t *scratch)
{
    ck_assert_ptr_null(dev);
    asked = *product;
    *scratch = 1000;
    return library_takes;
}

/* y = a b + bias, in which a lies turned, 24 bytes behind the beginning of its slot */
static kit *library_graph(void)
{
    kit *g = kit_new();
    const uint32_t base = KIT(g, YK_BF16, 12 + 3 * 4 * 5), b = KIT(g, YK_BF16, 1, 5, 6), t = KIT(g, YK_BF16, 3, 4, 6);
    const uint32_t bias = KITB(g, YK_BF16, 3, 3, 4, 6), y = KIT(g, YK_F32, 3, 4, 6), s = KIT(g, YK_BF16, 3, 4, 6);
    const uint32_t a = kit_view(g, base, 3, (const int64_t[]){3, 4, 5}, (const int64_t[]){20, 1, 4}, 12);
    kit_node(g, YK_OP_DOT, KIT_IDS(a, b), KIT_IDS(t), NULL, 0);
    kit_node(g, YK_OP_ADD, KIT_IDS(t, bias), KIT_IDS(s), NULL, 0);
    kit_node(g, YK_OP_CAST, KIT_IDS(s), KIT_IDS(y), NULL, 0);
    kit_wrap(g, YK_OP_DOT_MAP, 3, KIT_IDS(a, b, bias), KIT_IDS(y));
    return g;
}

START_TEST(a_library_is_asked_for_a_product_and_a_kernel_is_behind_it)
{
    kit_target target = gpu;
    kit *k = library_graph();
    kit_program p;
    target.product = library_product;
    library_takes = true;
    program_make(&target, k, &p);
    ck_assert_uint_eq(p.n_launch, 2);
    ck_assert_uint_eq(p.n_unit, 1);
    ck_assert_uint_eq(p.launch[0].unit, YK_NONE);
    ck_assert_uint_eq(p.launch[0].n_arg, 4);
    ck_assert_uint_eq(p.launch[1].product, YK_NONE);
    ck_assert_mem_eq(&p.product[p.launch[0].product], &asked, sizeof asked);
    const kit_product want = {.batch = 3, .rows = 4, .cols = 6, .terms = 5,
                              .a = {1, 4, 20, YK_BF16, 8}, .b = {6, 1, 0, YK_BF16, 256}, .c = {6, 1, 24, YK_BF16, 256}};
    ck_assert_mem_eq(&asked, &want, sizeof want);
    ck_assert_int_eq(arg_at(&p, 0, 2)->kind, KIT_ARG_SCRATCH); /* read there by the next kernel */
    ck_assert_uint_eq(arg_at(&p, 0, 2)->value.offset, 1024);
    ck_assert_uint_eq(arg_at(&p, 1, 0)->value.offset, 1024);
    ck_assert_uint_eq(arg_at(&p, 0, 3)->value.offset, 0);
    ck_assert_uint_eq(p.scratch_bytes, 1024 + 3 * 4 * 6 * 2);
    kit_program_free(&p);
    library_takes = false;
    program_make(&target, k, &p);
    ck_assert_uint_eq(p.n_launch, 1);
    ck_assert_uint_eq(p.n_product, 0);
    kit_program_free(&p);
    ck_assert_int_eq(live, 0);
    kit_free(k);
}
END_TEST

/* y = the product, as this type and back, + bias */
static kit *cast_graph(int between)
{
    kit *g = kit_new();
    const uint32_t a = KIT(g, YK_BF16, 1, 4, 8), b = KIT(g, YK_BF16, 1, 8, 8), t = KIT(g, YK_BF16, 1, 4, 8);
    const uint32_t cast = KIT(g, between, 1, 4, 8), back = KIT(g, YK_BF16, 1, 4, 8);
    const uint32_t bias = KITB(g, YK_BF16, 3, 1, 4, 8), y = KIT(g, YK_BF16, 1, 4, 8);
    kit_node(g, YK_OP_DOT, KIT_IDS(a, b), KIT_IDS(t), NULL, 0);
    kit_node(g, YK_OP_CAST, KIT_IDS(t), KIT_IDS(cast), NULL, 0);
    kit_node(g, YK_OP_CAST, KIT_IDS(cast), KIT_IDS(back), NULL, 0);
    kit_node(g, YK_OP_ADD, KIT_IDS(back, bias), KIT_IDS(y), NULL, 0);
    kit_wrap(g, YK_OP_DOT_MAP, 4, KIT_IDS(a, b, bias), KIT_IDS(y));
    return g;
}

START_TEST(a_library_computes_no_cast_to_integers)
{
    static const int types[] = {YK_F32, YK_F16, YK_I32, YK_U8, YK_BOOL};
    kit_target target = gpu;
    target.product = library_product;
    library_takes = true;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        kit *k = cast_graph(types[i]);
        const bool rounds = i < 2; /* the library rounds once: it adds the bias, and a kernel has nothing to do */
        kit_program p;
        program_make(&target, k, &p);
        ck_assert_msg(asked.bias == rounds, "past a cast to type %d", types[i]);
        ck_assert_uint_eq(p.n_launch, rounds ? 1 : 2);
        kit_program_free(&p);
        kit_free(k);
    }
    ck_assert_int_eq(live, 0);
}
END_TEST

/* ---- Convolutions of a library ---- */

static kit_convolution asked_convolution;
static uint32_t n_asked;

static bool library_convolution(yk_device *dev, const kit_convolution *convolution, uint64_t *scratch)
{
    ck_assert_ptr_null(dev);
    asked_convolution = *convolution;
    n_asked++;
    *scratch = 1000;
    return library_takes;
}

/* y = x * w in so many images, or a gradient; x begins `start` elements behind the beginning of its slot. */
static kit *convolution_new(int op, int dtype, int result, int64_t images, int64_t start)
{
    kit *k = kit_new();
    const uint32_t base = KIT(k, op == YK_OP_CONV2D_DX ? result : dtype, start + images * 32 * 33 * 40);
    const uint32_t x = kit_view(k, base, 4, (const int64_t[]){images, 32, 33, 40}, (const int64_t[]){32 * 33 * 40, 33 * 40, 40, 1}, start);
    const uint32_t w = KIT(k, op == YK_OP_CONV2D_DW ? result : dtype, 64, 16, 3, 5);
    const uint32_t y = KIT(k, op == YK_OP_CONV2D ? result : dtype, images, 64, 17, 38);
    const uint32_t in0 = op == YK_OP_CONV2D ? x : y, in1 = op == YK_OP_CONV2D_DW ? x : w;
    kit_node(k, op, KIT_IDS(in0, in1), KIT_IDS(op == YK_OP_CONV2D ? y : op == YK_OP_CONV2D_DX ? x : w), KIT_ATTR(2, 1, 1, 3, 1, 2, 2));
    return k;
}

START_TEST(a_library_is_asked_for_large_convolutions)
{
    static const int ops[] = {YK_OP_CONV2D, YK_OP_CONV2D_DX, YK_OP_CONV2D_DW};
    kit_target target = gpu;
    target.convolution = library_convolution;
    library_takes = true;
    for (uint32_t i = 0; i < 3; i++) {
        kit *k = convolution_new(ops[i], YK_BF16, YK_BF16, 8, 0);
        kit_program p;
        program_make(&target, k, &p);
        const kit_convolution want = {.images = 8, .channels = 32, .height = 33, .width = 40, .filters = 64, .tall = 3, .wide = 5,
                                      .rows = 17, .cols = 38, .groups = 2, .stride = {2, 1}, .zeros = {1, 3}, .dilation = {1, 2},
                                      .kind = i, .dtype = YK_BF16};
        ck_assert_mem_eq(&asked_convolution, &want, sizeof want);
        ck_assert_uint_eq(p.n_launch, 1);
        ck_assert_uint_eq(p.n_unit, 0);
        ck_assert_uint_eq(p.launch[0].unit, YK_NONE);
        ck_assert_uint_eq(p.launch[0].product, YK_NONE);
        ck_assert_uint_eq(p.launch[0].n_arg, 4);
        ck_assert_mem_eq(&p.convolution[p.launch[0].convolution], &want, sizeof want);
        ck_assert_uint_eq(p.scratch_bytes, 1000);
        kit_program_free(&p);
        kit_free(k);
    }
    ck_assert_int_eq(live, 0);
}
END_TEST

START_TEST(a_filters_gradient_of_a_library_is_widened)
{
    kit_target target = gpu;
    kit *k = convolution_new(YK_OP_CONV2D_DW, YK_F16, YK_F32, 8, 0);
    kit_program p;
    target.convolution = library_convolution;
    library_takes = true;
    k->node[0].flags |= YK_NODE_ACCUMULATE;
    program_make(&target, k, &p);
    ck_assert_uint_eq(p.n_launch, 2);
    ck_assert_uint_eq(asked_convolution.accumulate, 0); /* the kernel adds */
    ck_assert_uint_eq(asked_convolution.dtype, YK_F16);
    ck_assert_str_eq(p.launch[1].kernel, "widen");
    ck_assert_int_eq(arg_at(&p, 0, 2)->kind, KIT_ARG_SCRATCH);
    ck_assert_uint_eq(arg_at(&p, 0, 2)->value.offset, 1024);
    ck_assert_uint_eq(arg_at(&p, 1, 0)->value.offset, 1024);
    ck_assert_int_eq(arg_at(&p, 1, 4)->value.i32, 1);
    ck_assert_uint_eq(p.scratch_bytes, 1024 + 64 * 16 * 3 * 5 * 2);
    kit_program_free(&p);
    kit_free(k);
    k = convolution_new(YK_OP_CONV2D_DW, YK_F32, YK_F32, 8, 0);
    k->node[0].flags |= YK_NODE_ACCUMULATE;
    program_make(&target, k, &p);
    ck_assert_uint_eq(p.n_launch, 1);
    ck_assert_uint_eq(asked_convolution.accumulate, 1); /* the library does */
    kit_program_free(&p);
    kit_free(k);
    ck_assert_int_eq(live, 0);
}
END_TEST

START_TEST(other_convolutions_are_the_kits)
{
    const struct {
        int op, result;
        int64_t images, start;
        bool takes, asks;
    } cases[] = {{YK_OP_CONV2D, YK_BF16, 8, 0, false, true},   /* it is refused */
                 {YK_OP_CONV2D, YK_BF16, 6, 0, true, false},   /* small */
                 {YK_OP_CONV2D, YK_F32, 8, 0, true, false},    /* sums that stay f32 */
                 {YK_OP_CONV2D_DX, YK_F32, 8, 0, true, false},
                 {YK_OP_CONV2D, YK_BF16, 8, 4, true, false}};  /* x at byte 8 */
    kit_target target = gpu;
    target.convolution = library_convolution;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kit *k = convolution_new(cases[i].op, YK_BF16, cases[i].result, cases[i].images, cases[i].start);
        kit_program p;
        n_asked = 0;
        library_takes = cases[i].takes;
        program_make(&target, k, &p);
        ck_assert_msg((n_asked > 0) == cases[i].asks, "case %zu was asked about %u times", i, n_asked);
        ck_assert_uint_eq(p.n_convolution, 0);
        for (size_t l = 0; l < p.n_launch; l++)
            ck_assert_uint_ne(p.launch[l].unit, YK_NONE);
        kit_program_free(&p);
        kit_free(k);
    }
    ck_assert_int_eq(live, 0);
}
END_TEST

START_TEST(it_fails_without_memory)
{
    kit_target target = gpu;
    kit *behind = library_graph(), *widened = convolution_new(YK_OP_CONV2D_DW, YK_F16, YK_F32, 8, 0);
    const uint32_t gw = 2, out = KIT(widened, YK_F32, 64, 16, 3, 5);
    kit_node(widened, YK_OP_EXP, KIT_IDS(gw), KIT_IDS(out), NULL, 0);
    target.product = library_product;
    target.convolution = library_convolution;
    library_takes = true;
    every_allocation_fails(&target, behind);
    every_allocation_fails(&target, widened);
    kit_free(behind);
    kit_free(widened);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("library");
    tcase_add_test(t, a_library_is_asked_for_a_product_and_a_kernel_is_behind_it);
    tcase_add_test(t, a_library_computes_no_cast_to_integers);
    tcase_add_test(t, a_library_is_asked_for_large_convolutions);
    tcase_add_test(t, a_filters_gradient_of_a_library_is_widened);
    tcase_add_test(t, other_convolutions_are_the_kits);
    tcase_add_test(t, it_fails_without_memory);
    return suite_run("kit_library", t);
}
