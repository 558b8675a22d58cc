/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs lowered by plugins/kit with no device at all: units, launches, grids, arguments, scratch memory, refusals, and what
 * is left when memory runs out.
 */
#include <stdio.h>
#include <stdlib.h>

#include "plugins/kit/hlo/function.h"
#include "plugins/kit/kit_source.h"
#include "tests/unit/kit/case.h"

static kit *product_new(int64_t m, int64_t n, int64_t k)
{
    kit *g = kit_new();
    const uint32_t a = KIT(g, YK_F32, m, k), b = KIT(g, YK_F32, k, n), c = KIT(g, YK_F32, m, n);
    kit_node(g, YK_OP_DOT, KIT_IDS(a, b), KIT_IDS(c), NULL, 0);
    return g;
}

/* ---- A product in both shapes ---- */

START_TEST(test_product_of_a_gpu)
{
    kit *k = product_new(130, 65, 20);
    kit_program p;
    program_make(&gpu, k, &p);
    ck_assert_uint_eq(p.n_launch, 1);
    ck_assert_uint_eq(p.n_unit, 1);
    ck_assert_uint_eq(p.scratch_bytes, 0);
    groups_are(&p.launch[0], 2, 3, 1, 256);
    ck_assert_uint_eq(p.launch[0].n_arg, 3 + 10 + 3);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_int_eq(arg_at(&p, 0, i)->kind, KIT_ARG_SLOT);
        ck_assert_uint_eq(arg_at(&p, 0, i)->slot, i);
        ck_assert_uint_eq(arg_at(&p, 0, i)->element, 4);
    }
    ck_assert_int_eq(arg_at(&p, 0, 3)->kind, KIT_ARG_I64);
    ck_assert_int_eq(arg_at(&p, 0, 3)->value.i64, 130);
    ck_assert_int_eq(arg_at(&p, 0, 15)->kind, KIT_ARG_I32);
    ck_assert_str_eq(p.launch[0].kernel, p.unit[0].kernel);
    ck_assert_ptr_null(p.unit[0].file);
    ck_assert_ptr_nonnull(strstr(p.text.data, p.launch[0].kernel));
    kit_program_free(&p);
    ck_assert_int_eq(live, 0);
    kit_free(k);
}
END_TEST

/* No device need have more groups than 65535 in z. */
START_TEST(a_large_batch_is_several_launches)
{
    kit *k = kit_new();
    const uint32_t a = KIT(k, YK_F32, 70000, 1, 2), b = KIT(k, YK_F32, 1, 2, 3), c = KIT(k, YK_F32, 70000, 1, 3);
    kit_program p;
    kit_node(k, YK_OP_DOT, KIT_IDS(a, b), KIT_IDS(c), NULL, 0);
    program_make(&gpu, k, &p);
    ck_assert_uint_eq(p.n_launch, 2);
    groups_are(&p.launch[0], 1, 1, 65535, p.launch[0].local);
    groups_are(&p.launch[1], 1, 1, 70000 - 65535, p.launch[0].local);
    ck_assert_uint_eq(arg_at(&p, 1, 0)->value.offset - arg_at(&p, 0, 0)->value.offset, 65535u * 2 * sizeof(float));
    ck_assert_uint_eq(arg_at(&p, 1, 1)->value.offset, arg_at(&p, 0, 1)->value.offset);
    ck_assert_uint_eq(arg_at(&p, 1, 2)->value.offset - arg_at(&p, 0, 2)->value.offset, 65535u * 3 * sizeof(float));
    kit_program_free(&p);
    kit_free(k);
}
END_TEST

START_TEST(test_product_of_a_processor)
{
    kit *k = product_new(200, 100, 300);
    kit_program p;
    program_make(&processor, k, &p);
    ck_assert_uint_eq(p.n_launch, 3);
    ck_assert_uint_eq(p.n_unit, 2); /* both operands are packed by one */
    ck_assert_str_eq(p.launch[0].kernel, "gemm_panels");
    ck_assert_str_eq(p.launch[1].kernel, "gemm_panels");
    ck_assert_str_eq(p.unit[p.launch[0].unit].file, "gemm");
    groups_are(&p.launch[0], 4, 1, 1, 1);  /* 100 columns in panels of 32 */
    groups_are(&p.launch[1], 25, 1, 1, 1); /* 200 rows in panels of 8 */
    ck_assert_int_eq(arg_at(&p, 2, 0)->kind, KIT_ARG_SCRATCH);
    ck_assert_uint_eq(p.scratch_bytes, (200 + 128) * 300 * 4);
    kit_program_free(&p);
    kit_free(k);
}
END_TEST

START_TEST(test_panels_fit_an_allocation)
{
    kit *k = product_new(4000, 4000, 100);
    kit_target small = processor;
    kit_program whole, parts;
    small.max_alloc = 1 << 20;
    program_make(&processor, k, &whole);
    program_make(&small, k, &parts);
    ck_assert_uint_gt(whole.scratch_bytes, small.max_alloc);
    ck_assert_uint_le(parts.scratch_bytes, small.max_alloc);
    ck_assert_uint_gt(parts.n_launch, whole.n_launch);
    kit_program_free(&whole);
    kit_program_free(&parts);
    kit_free(k);
}
END_TEST

/* ---- Units ---- */

START_TEST(test_equal_kernels_are_one_unit)
{
    kit *k = kit_new();
    kit_program p;
    const uint32_t a = KIT(k, YK_F32, 10, 7), b = KIT(k, YK_F32, 10, 7), c = KIT(k, YK_F32, 33), d = KIT(k, YK_F32, 33);
    kit_node(k, YK_OP_NEG, KIT_IDS(a), KIT_IDS(b), NULL, 0);
    kit_node(k, YK_OP_NEG, KIT_IDS(c), KIT_IDS(d), NULL, 0);
    kit_node(k, YK_OP_ABS, KIT_IDS(c), KIT_IDS(d), NULL, 0);
    program_make(&gpu, k, &p);
    ck_assert_uint_eq(p.n_launch, 3);
    ck_assert_uint_eq(p.n_unit, 2);
    ck_assert_uint_eq(p.launch[0].unit, p.launch[1].unit);
    ck_assert_uint_ne(p.unit[0].key, p.unit[1].key);
    ck_assert_uint_eq(p.unit[0].end, p.unit[1].begin);
    ck_assert_uint_eq(p.unit[1].end, p.text.length);
    ck_assert_uint_eq(p.launch[2].node, 2);
    ck_assert_int_eq(arg_at(&p, 1, 2)->kind, KIT_ARG_META);
    ck_assert_uint_eq(arg_at(&p, 1, 2)->value.offset, arg_at(&p, 0, 2)->value.offset + 3 * 8);
    ck_assert_int_eq(p.meta[0], 70);
    kit_program_free(&p);
    kit_free(k);
}
END_TEST

START_TEST(test_sources)
{
    const char *part[KIT_PARTS];
    char macros[64];
    said[0] = 0;
    ck_assert(kit_unit_parts(&processor, "attn", NULL, part));
    ck_assert(kit_unit_parts(&gpu, NULL, "own text", part));
    ck_assert_str_eq(part[KIT_PARTS - 1], "own text");
    ck_assert(!kit_unit_parts(&gpu, "atn", NULL, part));
    ck_assert_ptr_nonnull(strstr(said, "no kernels named atn"));
    ck_assert(kit_unit_macros(&processor, "-DT=f32", macros, sizeof macros));
    ck_assert_str_eq(macros, "-DK_CPU_SHAPE -DT=f32");
    ck_assert(!kit_unit_macros(&processor, "-DT=f32", macros, 10));
}
END_TEST

/* ---- Arguments ---- */

START_TEST(test_elements)
{
    const kit_arg half = {.kind = KIT_ARG_SLOT, .element = 2, .value.offset = 6};
    uint64_t element;
    ck_assert(kit_arg_element(&half, 64, &element));
    ck_assert_uint_eq(element, 35);
    ck_assert(!kit_arg_element(&half, 63, &element));
    ck_assert(kit_arg_is_memory(&half));
    ck_assert(!kit_arg_is_memory(&(kit_arg){.kind = KIT_ARG_I64}));
}
END_TEST

/* A copy's elements are as wide as the place of either end allows. */
START_TEST(test_views_begin_in_their_slots)
{
    static const struct {
        int64_t from, n;
        uint32_t element;
    } views[] = {{12, 4, 8}, {14, 4, 4}, {13, 4, 2}, {12, 6, 4}, {12, 3, 2}};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        kit *k = kit_new();
        kit_program p;
        const int64_t n = views[i].n;
        const uint32_t base = KIT(k, YK_BF16, 8, 4), y = KIT(k, YK_BF16, n);
        const uint32_t row = kit_view(k, base, 1, (const int64_t[]){n}, (const int64_t[]){1}, views[i].from);
        kit_node(k, YK_OP_COPY, KIT_IDS(row), KIT_IDS(y), NULL, 0);
        program_make(&gpu, k, &p);
        ck_assert_uint_eq(arg_at(&p, 0, 0)->value.offset, 2 * views[i].from);
        ck_assert_uint_eq(arg_at(&p, 0, 0)->element, views[i].element);
        ck_assert_uint_eq(arg_at(&p, 0, 1)->element, views[i].element);
        kit_program_free(&p);
        kit_free(k);
    }
}
END_TEST

/* The factors of a sum's order, on a small card and on a large one; the bfloat16 sums come before the data between groups. */
START_TEST(rows_are_added_in_the_same_groups_on_each_gpu)
{
    for (int narrow = 0; narrow < 2; narrow++)
        for (uint32_t units = 2; units < 200; units += 130) {
            kit *k = kit_new();
            kit_program p;
            kit_target target = gpu;
            target.units = units;
            const uint32_t x = KIT(k, YK_BF16, 8192, 768), index = KIT(k, YK_I32, 8192), y = KIT(k, narrow ? YK_BF16 : YK_F32, 2, 768);
            kit_node(k, YK_OP_SCATTER_ADD, KIT_IDS(x, index), KIT_IDS(y), NULL, 0);
            program_make(&target, k, &p);
            ck_assert_uint_eq(p.n_launch, narrow ? 5 : 4);
            ck_assert_str_eq(p.launch[1].kernel, "rows_sort");
            groups_are(&p.launch[1], 1024, 1, 1, 128);
            ck_assert_str_eq(p.launch[2].kernel, "scatter_runs");
            groups_are(&p.launch[2], 256, 6, 1, 128);
            ck_assert_str_eq(p.launch[3].kernel, "scatter_rest");
            groups_are(&p.launch[3], 255, 6, 1, 128);
            ck_assert_uint_eq(p.scratch_bytes, (narrow ? 2 * 768 * 4 : 0) + 8192 * 4 + 256 * 768 * 4);
            kit_program_free(&p);
            kit_free(k);
        }
}
END_TEST

/* A norm's rows are read once where they are lines of 16 bytes that a few warps hold; both its sums are then of one cut, which is of the
 * shape alone, and one launch joins them. */
START_TEST(rows_of_a_norm_lie_in_registers)
{
    static const struct {
        int64_t rows, columns;
        bool four;
        const char *kernel, *defines;
        uint64_t groups, each, launches;
    } norm[] = {
        {8192, 768, true, "norms_backward", " -DNV=3 -DNW=1 ", 256, 32, 2}, {16, 24, true, "norms_backward", " -DNV=1 -DNW=1 ", 2, 8, 2},
        {7, 6144, true, "norms_backward", " -DNV=3 -DNW=8 ", 7, 1, 2},      {1, 1600, true, "norms_backward", " -DNV=2 -DNW=4 ", 1, 2, 1},
        {8192, 6152, true, "layer_norm_bwd", "", 8192, 0, 3},               {8192, 772, true, "layer_norm_bwd", "", 8192, 0, 3},
        {8192, 768, false, "layer_norm_bwd", "", 8192, 0, 3},
    };
    for (size_t i = 0; i < sizeof norm / sizeof *norm; i++) {
        kit *k = kit_new();
        kit_program p;
        kit_target target = gpu;
        target.four = norm[i].four;
        const int64_t rows = norm[i].rows, columns = norm[i].columns;
        const uint32_t gy = KIT(k, YK_BF16, rows, columns), x = KIT(k, YK_BF16, rows, columns), mean = KIT(k, YK_F32, rows);
        const uint32_t rstd = KIT(k, YK_F32, rows), gamma = KIT(k, YK_F32, columns), gx = KIT(k, YK_BF16, rows, columns);
        const uint32_t ggamma = KIT(k, YK_F32, columns), gbeta = KIT(k, YK_F32, columns);
        kit_node(k, YK_OP_LAYER_NORM_BWD, KIT_IDS(gy, x, mean, rstd, gamma), KIT_IDS(gx, ggamma, gbeta), KIT_ATTR(0));
        program_make(&target, k, &p);
        ck_assert_uint_eq(p.n_launch, norm[i].launches);
        ck_assert_str_eq(p.launch[0].kernel, norm[i].kernel);
        ck_assert_ptr_nonnull(strstr(p.unit[0].macros, norm[i].defines));
        ck_assert_uint_eq(p.launch[0].groups[0], norm[i].groups);
        if (norm[i].each)
            ck_assert_int_eq(arg_at(&p, 0, 10)->value.i32, (int32_t)norm[i].each);
        const uint64_t across = norm[i].groups > 64 ? 8 : norm[i].groups > 4 ? 128 : 256; /* columns of a group that joins parts */
        if (norm[i].launches == 2)
            groups_are(&p.launch[1], ((uint64_t)columns + across - 1) / across, 2, 1, 256);
        kit_program_free(&p);
        kit_free(k);
    }
}
END_TEST

enum { BUCKET = 4096 };

static uint32_t view_of(kit *k, uint32_t base, int64_t from, int64_t n)
{
    return kit_view(k, base, 1, &n, (const int64_t[]){1}, from);
}

/* A step in place on elements from.. of the gradient, value and moments all[0..3]; its new value. */
static uint32_t step_of(kit *k, const uint32_t all[5], int64_t from, int64_t n, int64_t flags)
{
    uint32_t in[6] = {0}, out[4];
    for (int i = 0; i < 4; i++)
        in[i] = view_of(k, all[i], from, n);
    in[4] = all[4];
    in[5] = out[3] = YK_NONE;
    for (int i = 0; i < 3; i++)
        out[i] = view_of(k, all[i + 1], from, n);
    kit_node(k, YK_OP_ADAM_STEP, in, out, &flags, 1);
    return out[0];
}

/* Steps in the same slots, and copies in 16 bits of what they write, unless what one writes is another's, too. */
START_TEST(neighbouring_steps_are_one_launch)
{
    static const struct {
        int64_t second, flags; /* begin of the second step; its flags */
        bool other_slot, copy_is_gradient;
        size_t launches;
        const char *first;
        uint64_t groups;
    } how[] = {
        {1500, 0, false, false, 1, "adam_steps", 3},
        {1500, 1, false, false, 2, "adam_steps", 2}, /* with its copy */
        {1499, 0, false, false, 2, "adam_steps", 2}, /* one overlaps the other */
        {1500, 0, true, false, 2, "adam_steps", 2},
        {1500, 0, false, true, 3, "adam_step", 2}, /* the copy lies where the gradient was */
    };
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        kit *k = kit_new();
        kit_program p;
        uint32_t all[5], copy = KIT(k, YK_BF16, 1500);
        for (int j = 0; j < 4; j++)
            all[j] = KIT(k, YK_F32, BUCKET);
        all[4] = KIT(k, YK_F32, YK_HYPER_COUNT);
        if (how[i].copy_is_gradient)
            k->value[copy].slot = k->value[all[0]].slot;
        kit_node(k, YK_OP_CAST, KIT_IDS(step_of(k, all, 0, 1500, 0)), KIT_IDS(copy), NULL, 0);
        all[2] = how[i].other_slot ? KIT(k, YK_F32, BUCKET) : all[2];
        step_of(k, all, how[i].second, 300, how[i].flags);
        program_make(&gpu, k, &p);
        ck_assert_msg(p.n_launch == how[i].launches, "case %zu: %zu launches", i, p.n_launch);
        ck_assert_str_eq(p.launch[0].kernel, how[i].first);
        groups_are(&p.launch[0], how[i].groups, 1, 1, 128);
        kit_program_free(&p);
        kit_free(k);
    }
}
END_TEST

/* A tile of 16 rows by 64 columns of channels and taps for each chunk of images, and their sum. */
START_TEST(gradient_of_a_filter_on_a_gpu)
{
    kit *k = kit_new();
    kit_program p;
    const uint32_t x = KIT(k, YK_F32, 40, 8, 9, 9), w = KIT(k, YK_F32, 8, 8, 3, 3), gy = KIT(k, YK_F32, 40, 8, 9, 9);
    kit_node(k, YK_OP_CONV2D_DW, KIT_IDS(gy, x), KIT_IDS(w), KIT_ATTR(1, 1, 1, 1, 1, 1, 1));
    program_make(&gpu, k, &p);
    ck_assert_uint_eq(p.n_launch, 2);
    groups_are(&p.launch[0], 2, 1, 12, 256); /* 72 columns; 3240 pixels, 288 in a chunk */
    groups_are(&p.launch[1], 18, 1, 1, 128);
    ck_assert_uint_eq(p.scratch_bytes, 12 * 8 * 72 * 4);
    kit_program_free(&p);
    kit_free(k);
}
END_TEST

/* Taps of a work-item on lanes: a row of 7 x 7, two rows of 4 x 4, parts of seven of 1 x 20. */
START_TEST(gradient_of_a_large_filter_on_lanes)
{
    static const struct {
        int64_t rows, columns, parts;
    } filter[] = {{7, 7, 7}, {4, 4, 2}, {1, 20, 3}, {3, 3, 1}, {5, 1, 1}};
    kit_target lanes = gpu;
    lanes.lanes = 8;
    for (size_t i = 0; i < sizeof filter / sizeof *filter; i++) {
        kit *k = kit_new();
        kit_program p;
        const int64_t h = 30 - filter[i].rows + 1, width = 30 - filter[i].columns + 1;
        const uint32_t x = KIT(k, YK_F32, 4, 20, 30, 30), w = KIT(k, YK_F32, 8, 20, filter[i].rows, filter[i].columns);
        const uint32_t gy = KIT(k, YK_F32, 4, 8, h, width);
        kit_node(k, YK_OP_CONV2D_DW, KIT_IDS(gy, x), KIT_IDS(w), KIT_ATTR(1, 1, 0, 0, 1, 1, 1));
        program_make(&lanes, k, &p);
        groups_are(&p.launch[0], (uint64_t)(3 * filter[i].parts), 1, 4, 8); /* 20 channels by 8 */
        kit_program_free(&p);
        kit_free(k);
    }
}
END_TEST

/* ---- Tensor cores ---- */

static void host_log(int level, const char *who, const char *fmt, ...)
{
    va_list args;
    char line[1000];
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    snprintf(said + strlen(said), sizeof said - strlen(said), "%d %s: %s\n", level, who, line);
}

static const yk_host logging = {.size = sizeof logging, .abi = YK_ABI, .alloc = host_alloc, .free = host_free, .fail = host_fail,
                                .log = host_log};

static kit_target target_with(uint32_t mma)
{
    kit_target target = gpu;
    target.host = &logging;
    target.mma = mma;
    return target;
}

/* Attention of 70 queries and keys; its queries lie `at` elements from the beginning of their slot, `row` from each other. */
static kit *attention_new(int dtype, int64_t head, int64_t at, int64_t row, bool back)
{
    kit *k = kit_new();
    const int64_t dim[] = {2, 3, 70, head}, stride[] = {3 * 70 * row, 70 * row, row, 1}, attr[] = {1, yk_attr_of_f64(0.1), 0, 0, 0};
    const uint32_t base = KIT(k, dtype, 2 * 3 * 70 * row + at), q = kit_view(k, base, 4, dim, stride, at);
    const uint32_t key = KIT(k, dtype, 2, 3, 70, head), v = KIT(k, dtype, 2, 3, 70, head), y = KIT(k, dtype, 2, 3, 70, head);
    const uint32_t lse = KIT(k, YK_F32, 2, 3, 70), gk = KIT(k, dtype, 2, 3, 70, head), gv = KIT(k, dtype, 2, 3, 70, head);
    if (back) {
        const uint32_t go = KIT(k, dtype, 2, 3, 70, head), gq = KIT(k, dtype, 2, 3, 70, head);
        kit_node(k, YK_OP_ATTENTION_BWD, KIT_IDS(go, y, lse, q, key, v), KIT_IDS(gq, gk, gv), attr, 5);
    } else {
        kit_node(k, YK_OP_ATTENTION, KIT_IDS(q, key, v), KIT_IDS(y, lse), attr, 5);
    }
    return k;
}

START_TEST(attention_takes_tensor_cores_by_what_the_chip_has)
{
    static const struct {
        int dtype, head, at;
        uint32_t chip;  /* kit_target.mma */
        bool takes;
    } cases[] = {{YK_BF16, 64, 0, 16, true},  {YK_F16, 128, 0, 16, true},  {YK_F32, 64, 0, 16, false}, {YK_BF16, 64, 0, 8, false},
                 {YK_F16, 64, 0, 8, true},    {YK_F16, 64, 0, 0, false},   {YK_BF16, 20, 0, 16, false}, {YK_BF16, 16, 0, 16, true},
                 {YK_BF16, 64, 1, 16, true},  {YK_BF16, 64, 8, 16, true}};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const bool back = i & 1;
        const kit_target target = target_with(cases[i / 2].chip);
        kit *k = attention_new(cases[i / 2].dtype, cases[i / 2].head, cases[i / 2].at, cases[i / 2].head, back);
        kit_program p;
        program_make(&target, k, &p);
        ck_assert_str_eq(p.unit[0].file, cases[i / 2].takes ? "attn_mma" : "attn_gpu");
        ck_assert_uint_eq(p.n_launch, back ? 2 : 1);
        for (size_t l = 0; l < p.n_launch; l++)
            groups_are(&p.launch[l], 2, 3, 2, cases[i / 2].takes ? 128 : 64);
        if (cases[i / 2].chip && cases[i / 2].dtype != YK_F32)
            ck_assert_ptr_nonnull(strstr(said, cases[i / 2].takes ? "3 none: node 0 (attention" : "computes in fp32"));
        kit_program_free(&p);
        kit_free(k);
    }
}
END_TEST

START_TEST(attention_of_views_is_for_tensor_cores)
{
    static const struct {
        int64_t row;
        uint32_t chip, claims;
    } cases[] = {{64, 16, YK_CLAIM_RUN | YK_CLAIM_STRIDED_OUT}, {72, 16, YK_CLAIM_RUN | YK_CLAIM_STRIDED_OUT}, {68, 16, 0},
                 {64, 0, YK_CLAIM_RUN}, {72, 0, 0}};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const kit_target target = target_with(cases[i / 2].chip);
        kit *k = attention_new(YK_BF16, 64, 0, cases[i / 2].row, i & 1);
        ck_assert_msg(kit_claims(&target, &k->g, 0) == cases[i / 2].claims, "rows of %d, chip %u", (int)cases[i / 2].row, target.mma);
        kit_free(k);
    }
}
END_TEST

START_TEST(convolutions_and_products_take_tensor_cores)
{
    const kit_target target = target_with(16);
    for (int i = 0; i < 2; i++) {
        const int dtype = i ? YK_BF16 : YK_F32;
        kit *k = kit_new();
        kit_program p;
        const uint32_t x = KIT(k, dtype, 40, 8, 9, 9), w = KIT(k, dtype, 8, 8, 3, 3), y = KIT(k, dtype, 40, 8, 9, 9);
        const uint32_t a = KIT(k, dtype, 100, 70), b = KIT(k, dtype, 70, 65), c = KIT(k, YK_F32, 100, 65);
        kit_node(k, YK_OP_CONV2D, KIT_IDS(x, w), KIT_IDS(y), KIT_ATTR(1, 1, 1, 1, 1, 1, 1));
        kit_node(k, YK_OP_CONV2D_DW, KIT_IDS(y, x), KIT_IDS(w), KIT_ATTR(1, 1, 1, 1, 1, 1, 1));
        kit_node(k, YK_OP_DOT, KIT_IDS(a, b), KIT_IDS(c), NULL, 0);
        program_make(&target, k, &p);
        ck_assert_uint_eq(p.n_launch, 4);
        ck_assert_uint_eq(p.n_unit, 2); /* one has both convolutions and the sum */
        ck_assert_str_eq(p.unit[0].file, i ? "conv_mma" : "conv_gpu");
        groups_are(&p.launch[0], 51, 1, 1, i ? 128 : 256);
        groups_are(&p.launch[1], 2, 1, 12, i ? 128 : 256);
        groups_are(&p.launch[3], 2, 2, 1, i ? 128 : 256);
        ck_assert_int_eq(strstr(p.text.data, "MMA_ADD") != NULL, i);
        kit_program_free(&p);
        kit_free(k);
    }
}
END_TEST

START_TEST(products_take_cooperative_matrices_by_type)
{
    kit_target target = target_with(0);
    target.coop[KIT_COOP_F16] = (kit_coop){16, 8, 16};
    target.coop_lanes = 32;
    for (int i = 0; i < 4; i++) {
        const int dtype = i == 0 ? YK_F32 : i == 1 ? YK_BF16 : YK_F16; /* no bf16 there; 3: on lanes, too */
        const bool takes = dtype == YK_F16;
        kit *k = kit_new();
        kit_program p;
        const uint32_t a = KIT(k, dtype, 3, 100, 70), b = KIT(k, dtype, 3, 70, 65), c = KIT(k, YK_F32, 3, 100, 65);
        kit_node(k, YK_OP_DOT, KIT_IDS(a, b), KIT_IDS(c), NULL, 0);
        target.lanes = i == 3 ? 8 : 0;
        program_make(&target, k, &p);
        ck_assert_uint_eq(p.n_launch, 1);
        groups_are(&p.launch[0], 2, 2, 3, takes ? 128 : 256);
        ck_assert_int_eq(strstr(p.text.data, "COOP_ADD") != NULL, takes);
        if (takes)
            ck_assert_ptr_nonnull(strstr(p.text.data, "#define GEMM_M 16\n#define GEMM_N 8\n#define GEMM_K 16\n#define GEMM_R 2\n"
                                                      "#define GEMM_C 4\n#define GEMM_ACROSS 2\n#define GEMM_STEPS 2\n"));
        if (dtype != YK_F32)
            ck_assert_ptr_nonnull(strstr(said, takes ? "(dot of f16) computes by cooperative matrices" : "(dot of bf16) computes in fp32"));
        kit_program_free(&p);
        kit_free(k);
    }
}
END_TEST

/* Refusals */

START_TEST(test_refusals)
{
    kit *k = kit_new();
    const uint32_t x = KIT(k, YK_U8, 4, 4), y = KIT(k, YK_I32, 4, 1);
    kit_node(k, YK_OP_ARGMAX, KIT_IDS(x), KIT_IDS(y), KIT_ATTR(1));
    program_refused(&gpu, k, YK_E_UNSUPPORTED, "node 0 (argmax)");
    kit_free(k);
    k = product_new(4, 4, 4);
    k->value[1].slot = YK_NONE;
    program_refused(&gpu, k, YK_E_ARG, "value 1 of node 0 has no slot");
    kit_free(k);
}
END_TEST

START_TEST(test_claims)
{
    kit *k = kit_new();
    const uint32_t x = KIT(k, YK_F32, 2, 4, 9, 9), w = KIT(k, YK_F32, 8, 4, 3, 3), gy = KIT(k, YK_F32, 2, 8, 9, 9);
    kit_node(k, YK_OP_CONV2D_DW, KIT_IDS(gy, x), KIT_IDS(w), KIT_ATTR(1, 1, 1, 1, 1, 1, 1));
    ck_assert_uint_eq(kit_claims(&processor, &k->g, 0), YK_CLAIM_RUN | YK_CLAIM_ACCUMULATE);
    ck_assert_uint_eq(kit_claims(&gpu, &k->g, 0), YK_CLAIM_RUN | YK_CLAIM_ACCUMULATE);
    kit_target little = processor, lanes = gpu;
    little.max_local = 1 << 10;
    ck_assert_uint_eq(kit_claims(&little, &k->g, 0), 0);
    lanes.lanes = 8;
    ck_assert_uint_eq(kit_claims(&lanes, &k->g, 0), YK_CLAIM_RUN | YK_CLAIM_ACCUMULATE);
    kit_free(k);
    k = kit_new();
    const uint32_t wide = KIT(k, YK_F32, 2, 4, 9, 9), five = KIT(k, YK_F32, 8, 4, 5, 5), of_five = KIT(k, YK_F32, 2, 8, 9, 9);
    kit_node(k, YK_OP_CONV2D_DW, KIT_IDS(of_five, wide), KIT_IDS(five), KIT_ATTR(1, 1, 2, 2, 1, 1, 1));
    ck_assert_uint_eq(kit_claims(&lanes, &k->g, 0), YK_CLAIM_RUN | YK_CLAIM_ACCUMULATE);
    ck_assert_uint_ne(kit_claims(&gpu, &k->g, 0), 0);
    kit_free(k);
    k = kit_new();
    const uint32_t far = KIT(k, YK_F32, 2, 4, 9, 40), two = KIT(k, YK_F32, 8, 4, 1, 3), of_two = KIT(k, YK_F32, 2, 8, 9, 8);
    kit_node(k, YK_OP_CONV2D_DW, KIT_IDS(of_two, far), KIT_IDS(two), KIT_ATTR(1, 1, 0, 0, 1, 16, 1));
    ck_assert_uint_eq(kit_claims(&lanes, &k->g, 0), 0); /* three taps lie 33 columns apart, more than are in registers */
    ck_assert_uint_ne(kit_claims(&gpu, &k->g, 0), 0);
    kit_free(k);
}
END_TEST

/* Each allocation fails in turn. */
START_TEST(test_without_memory)
{
    kit *k = product_new(64, 64, 64);
    const uint32_t c = 2, d = KIT(k, YK_F32, 64, 64);
    kit_node(k, YK_OP_EXP, KIT_IDS(c), KIT_IDS(d), NULL, 0);
    every_allocation_fails(&processor, k);
    kit_free(k);
}
END_TEST

/* ---- A whole program as text ---- */

/* y = op(a) + b, with each value `shift` bytes behind the beginning of its slot, and the slots in the other order if reversed. */
static kit *sum_new(int op, uint64_t shift, bool reversed)
{
    kit *g = kit_new();
    const uint32_t a = KIT(g, YK_F32, 4, 6), b = KIT(g, YK_F32, 4, 6), t = KIT(g, YK_F32, 4, 6), y = KIT(g, YK_F32, 4, 6);
    kit_node(g, op, KIT_IDS(a), KIT_IDS(t), NULL, 0);
    kit_node(g, YK_OP_ADD, KIT_IDS(t, b), KIT_IDS(y), NULL, 0);
    g->value[a].flags = g->value[b].flags = YK_VALUE_INPUT;
    g->value[y].flags = YK_VALUE_OUTPUT;
    for (uint32_t v = 0; v < g->g.n_value; v++) {
        g->value[v].offset += shift;
        g->slot[v].bytes += shift;
        if (reversed)
            g->value[v].slot = g->g.n_slot - 1 - g->value[v].slot;
    }
    return g;
}

/* Equal pieces of a network are compiled once (backends/pjrt): their text does not say where values lie. */
START_TEST(text_has_neither_slots_nor_offsets)
{
    static const struct { int op; uint64_t shift; bool reversed, equal; } cases[] = {
        {YK_OP_EXP, 0, false, true}, {YK_OP_EXP, 256, false, true}, {YK_OP_EXP, 64, true, true}, {YK_OP_TANH, 0, false, false}};
    kit *k = sum_new(YK_OP_EXP, 0, false);
    hlo_lowered want, got;
    ck_assert_int_eq(hlo_lower(&host, "none", &k->g, false, &want), YK_OK);
    ck_assert(want.n_in == 2 && want.n_out == 1 && want.function.text.length > 100);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kit *other = sum_new(cases[i].op, cases[i].shift, cases[i].reversed);
        ck_assert_int_eq(hlo_lower(&host, "none", &other->g, false, &got), YK_OK);
        ck_assert_uint_eq(got.out[0].offset, cases[i].shift); /* the ends say it */
        ck_assert_uint_eq(got.out[0].slot, cases[i].reversed ? 0 : 3);
        const bool equal = got.function.text.length == want.function.text.length &&
                           !memcmp(got.function.text.data, want.function.text.data, want.function.text.length);
        ck_assert_msg(equal == cases[i].equal, "case %zu", i);
        hlo_lowered_free(&host, &got);
        kit_free(other);
    }
    hlo_lowered_free(&host, &want);
    kit_free(k);
    ck_assert_int_eq(live, 0);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("lowering");
    tcase_add_test(t, test_product_of_a_gpu);
    tcase_add_test(t, a_large_batch_is_several_launches);
    tcase_add_test(t, test_product_of_a_processor);
    tcase_add_test(t, test_panels_fit_an_allocation);
    tcase_add_test(t, test_equal_kernels_are_one_unit);
    tcase_add_test(t, test_sources);
    tcase_add_test(t, text_has_neither_slots_nor_offsets);
    tcase_add_test(t, test_elements);
    tcase_add_test(t, test_views_begin_in_their_slots);
    tcase_add_test(t, rows_are_added_in_the_same_groups_on_each_gpu);
    tcase_add_test(t, rows_of_a_norm_lie_in_registers);
    tcase_add_test(t, neighbouring_steps_are_one_launch);
    tcase_add_test(t, test_refusals);
    tcase_add_test(t, gradient_of_a_filter_on_a_gpu);
    tcase_add_test(t, gradient_of_a_large_filter_on_lanes);
    tcase_add_test(t, attention_takes_tensor_cores_by_what_the_chip_has);
    tcase_add_test(t, attention_of_views_is_for_tensor_cores);
    tcase_add_test(t, convolutions_and_products_take_tensor_cores);
    tcase_add_test(t, products_take_cooperative_matrices_by_type);
    tcase_add_test(t, test_claims);
    tcase_add_test(t, test_without_memory);
    return suite_run("kit_lower", t);
}
