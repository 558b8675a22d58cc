/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The translator of kernels to SPIR-V alone: every kernel of the kit is translated, the same text gives the same words, and texts
 * outside the dialect are refused by name. tests/cts/vulkan.sh shows that the shaders compute; this test shows that they are valid, if
 * spirv-val is installed.
 */
#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "plugins/kit/kit_coop.h"
#include "plugins/kit/spirv/opcodes.h"
#include "plugins/kit/spirv/spirv.h"
#include "tests/support/run.h"

static char said[400];

static void *host_alloc(size_t bytes, size_t align)
{
    void *p = NULL;
    return posix_memalign(&p, align, bytes) ? NULL : p;
}

static void host_fail(const char *who, const char *fmt, ...)
{
    va_list ap;
    (void)who;
    va_start(ap, fmt);
    vsnprintf(said, sizeof said, fmt, ap);
    va_end(ap);
}

static const yk_host host = {.alloc = host_alloc, .free = free, .fail = host_fail};
static const kit_target target = {.host = &host, .plugin = "test", .units = 1, .max_local = 32u << 10};

static const char *const types[] = {"f32", "f16", "bf16"};

/* Each kernel of the GPU shape, and what its file is compiled with; %s: a type. */
static const struct {
    const char *file, *macros, *kernel;
} kernels[] = {
    {"nn", "-DT=%s", "layer_norm"}, {"nn", "-DT=%s", "layer_norm_bwd"}, {"nn", "-DT=%s", "layer_norm_params"},
    {"nn", "-DT=%s", "softmax_fwd"}, {"nn", "-DT=%s", "softmax_bwd"}, {"nn", "-DT=%s", "cross_entropy"},
    {"nn", "-DT=%s", "cross_entropy_bwd"}, {"nn", "-DT=%s", "bn_stats"}, {"pool", "-DT=%s", "max_pool"},
    {"pool", "-DT=%s", "max_pool_bwd"}, {"pool", "-DT=%s", "max_pool_places"}, {"pool", "-DT=%s", "max_pool_take"},
    {"nn", "-DT=%s", "bn_stats_part"}, {"nn", "-DT=%s", "bn_stats_join"},
    {"parts", "-DT=%s", "parts_join"}, {"parts", "-DT=%s", "parts_join_rows"},
    {"pool", "-DT=%s", "avg_pool"}, {"pool", "-DT=%s", "avg_pool_bwd"},
    {"data", "-DUNIT_FLOAT -DT=%s", "scatter_rows"}, {"data", "-DUNIT_FLOAT -DT=%s", "dropout_rows"},
    {"data", "-DUNIT_FLOAT -DT=%s", "narrow_f32"}, {"data", "-DUNIT_FLOAT -DT=%s", "argmax_line"},
    {"data", "-DUNIT_FLOAT -DT=%s", "unfold_image"}, {"data", "-DUNIT_FLOAT -DT=%s", "fold_image"},
    {"data", "-DUNIT_COPY -DE=uchar", "copy_any"}, {"data", "-DUNIT_COPY -DE=ulong", "gather_rows"},
    {"data", "-DUNIT_MAKE", "iota_i32"}, {"data", "-DUNIT_MAKE", "iota_f32"}, {"data", "-DUNIT_MAKE", "rng_rows"},
    {"data", "-DUNIT_MAKE", "zeros_f32"}, {"data", "-DUNIT_MAKE", "rows_sort"}, {"data", "-DUNIT_MAKE", "scatter_rest"},
    {"data", "-DUNIT_FLOAT -DT=%s", "scatter_runs"}, {"data", "-DUNIT_COPY -DE=ulong", "copy_near"},
    {"data", "-DUNIT_COPY -DE=ushort", "gather_near"}, {"data", "-DUNIT_COPY -DE=ushort", "copy_transposed"},
    {"data", "-DUNIT_COPY -DE=uchar", "copy_transposed"},
    {"conv_gpu", "-DGEMM_TEAM=256 -DGM=64 -DKH=3 -DKW=3 -DIH=1 -DTC=f32 -DT=%s", "conv_any"},
    {"conv_gpu", "-DGEMM_TEAM=128 -DGM=16 -DKH=3 -DKW=3 -DIH=0 -DTC=bf16 -DT=%s", "conv_any_dw"},
    {"conv_gpu", "-DGEMM_TEAM=128 -DGM=16 -DKH=3 -DKW=3 -DIH=0 -DTC=f16 -DT=%s", "conv_any_dw_join"},
    {"conv_gpu", "-DCONV_LANES=8 -DCONV_ROWS=16 -DCONV_LR=2 -DCONV_PX=4 -DCONV_SPAN=6 -DCONV_SW=1 -DCONV_DW=1 -DKH=3 -DKW=3 -DIH=0 "
     "-DCONV_IH=1 -DCONV_IW=1 -DCONV_TALL=3 -DCONV_WIDE=3 -DTC=f32 -DT=%s", "conv_any"},
    {"conv_gpu", "-DCONV_LANES=8 -DCONV_ROWS=16 -DCONV_LR=2 -DCONV_PX=4 -DCONV_SPAN=7 -DCONV_SW=1 -DCONV_DW=3 -DKH=3 -DKW=2 -DIH=1 "
     "-DCONV_IH=1 -DCONV_IW=2 -DCONV_TALL=3 -DCONV_WIDE=2 -DTC=f32 -DT=%s", "conv_any"},
    {"conv_gpu", "-DCONV_LANES=8 -DCONV_ROWS=8 -DCONV_LR=1 -DCONV_PX=4 -DCONV_SPAN=6 -DCONV_SW=1 -DCONV_DW=1 -DKH=3 -DKW=3 -DIH=0 "
     "-DCONV_IH=1 -DCONV_IW=1 -DCONV_TALL=3 -DCONV_WIDE=3 -DTC=f32 -DT=%s", "conv_any_dw"},
    {"conv_gpu", "-DCONV_LANES=8 -DCONV_ROWS=8 -DCONV_LR=1 -DCONV_PX=4 -DCONV_SPAN=13 -DCONV_SW=2 -DCONV_DW=1 -DKH=7 -DKW=10 -DIH=0 "
     "-DCONV_IH=1 -DCONV_IW=1 -DCONV_TALL=1 -DCONV_WIDE=5 -DTC=f32 -DT=%s", "conv_any_dw"},
    {"attn_gpu", "-DATT_FORWARD -DAD=20 -DATT_TEAM=64 -DQL=1 -DKT=32 -DT=%s", "attention_fwd"},
    {"attn_gpu", "-DATT_BACKWARD -DAD=20 -DATT_TEAM=64 -DQL=1 -DKT=32 -DT=%s", "attention_queries"},
    {"attn_gpu", "-DATT_BACKWARD -DAD=20 -DATT_TEAM=64 -DQL=1 -DKT=32 -DT=%s", "attention_keys"},
    {"attn_gpu", "-DATT_FORWARD -DAD=20 -DATT_TEAM=8 -DQL=2 -DATT_LANES=8 -DATT_KEPT=3 -DT=%s", "attention_fwd"},
    {"attn_gpu", "-DATT_BACKWARD -DAD=20 -DATT_TEAM=8 -DQL=1 -DATT_LANES=8 -DATT_KEPT=3 -DT=%s", "attention_queries"},
    {"attn_gpu", "-DATT_BACKWARD -DAD=20 -DATT_TEAM=8 -DQL=1 -DATT_LANES=8 -DATT_KEPT=3 -DT=%s", "attention_keys"},
    {"data", "-DUNIT_MAKE", "scatter_i32"}, {"data", "-DUNIT_ARGMAX_I", "argmax_i32"}, {"step", "-DT=f32", "adam_step"},
    {"step", "-DT=f32", "sgd_step"}, {"step", "-DT=f32", "grad_part"}, {"step", "-DT=f32", "grad_sum"},
    {"round8", "-DT=%s", "round8_size"}, {"round8", "-DT=%s", "round8_scale"}, {"round8", "-DT=%s", "round8"},
};
#define N_KERNELS ((int)(sizeof kernels / sizeof *kernels))

static yk_status kernel_make(int i, const char *type, bool checks, kit_spirv *shader)
{
    char macros[KIT_MACROS];
    kit_spirv_source s = {.macros = macros, .kernel = kernels[i].kernel, .local = 64, .keeps_nan = true, .checks_loops = checks};
    const char *at = strstr(kernels[i].macros, "%s");
    const int before = at ? (int)(at - kernels[i].macros) : (int)strlen(kernels[i].macros);
    snprintf(macros, sizeof macros, "%.*s%s", before, kernels[i].macros, at ? type : "");
    ck_assert(kit_unit_parts(&target, kernels[i].file, NULL, s.part));
    return kit_spirv_make(&target, &s, shader);
}

static void shader_validate(const kit_spirv *shader, const char *kernel)
{
    char path[] = "/tmp/yoke-spirv-XXXXXX", command[120];
    const int fd = mkstemp(path);
    FILE *f = fdopen(fd, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(shader->word, sizeof *shader->word, shader->n_word, f), shader->n_word);
    fclose(f);
    snprintf(command, sizeof command, "! command -v spirv-val >/dev/null || spirv-val --target-env vulkan1.2 %s", path);
    ck_assert_msg(system(command) == 0, "%s is no valid shader", kernel);
    remove(path);
}

START_TEST(kernel_is_translated_and_valid)
{
    for (int type = 0; type < 3; type++) {
        kit_spirv a, b;
        ck_assert_msg(kernel_make(_i, types[type], type == 1, &a) == YK_OK, "%s: %s", kernels[_i].kernel, said);
        ck_assert_uint_eq(kernel_make(_i, types[type], type == 1, &b), YK_OK);
        ck_assert_uint_eq(a.n_word, b.n_word);
        ck_assert_mem_eq(a.word, b.word, a.n_word * sizeof *a.word);
        shader_validate(&a, kernels[_i].kernel);
        kit_spirv_free(&a);
        kit_spirv_free(&b);
    }
}
END_TEST

static const struct {
    const char *text, *says;
} wrong[] = {
    {"KERNEL void k(OUT(float, y)) { AT(float, y); y[0] = z; }", "z is not known"},
    {"KERNEL void k(OUT(float, y)) { AT(float, y); y[0] = 1.0f }", "where ; is expected"},
    {"KERNEL void k(OUT(float, y)) { AT(float, y); y[0] = (1 + 2; }", "where ) is expected"},
    {"KERNEL void k(OUT(float, y)) { AT(float, y); y[0] = 1.0f;", "has no end"},
    {"KERNEL void k(OUT(float, y)) { AT(float, y); break; }", "break is not known"},
    {"FN int f(int x) { return f(x); } KERNEL void k(OUT(int, y)) { AT(int, y); y[0] = f(1); }", "calls itself"},
    {"KERNEL void k(OUT(float, y)) { AT(float, y); continue; }", "continue outside a loop"},
    {"KERNEL void k(OUT(float, y)) { AT(float, y); float a[n]; }", "n is not known"},
    {"KERNEL void k(OUT(float, y)) { AT(float, y); 1 = 2; }", "cannot be assigned to"},
    {"KERNEL void other(OUT(float, y)) { }", "there is no such kernel"},
    {"#define M(a) a\nKERNEL void k(OUT(float, y)) { M(1", "have no end"},
    {"#include <x>\n", "#include is not of the dialect"},
    {"float x;", "outside a function"},
    {"#define N 2\n#if N == 2\n#endif\n", "not =="},
    {"#define N (2)\n#if N\n#endif\n", "a condition of the preprocessor"},
    {"#define N 1\n#if !N\n#else\nfloat x;\n#endif\n", "outside a function"},
    {"KERNEL void k(OUT(float, y)) { AT(float, y); y[0] = 1.0f << 2; }", "an operator"},
    {"KERNEL void k(OUT(float, y), int n) { AT(float, y); y[0] = OF_LANE(1.0f, n); }", "the lane of a constant number"},
    {"KERNEL void k(OUT(float, y)) { AT(float, y); COOP_SUM(f16) s; }", "no cooperative matrices of f16"},
};

START_TEST(text_outside_the_dialect_is_refused_by_name)
{
    kit_spirv shader;
    kit_spirv_source s = {.macros = "", .kernel = "k", .local = 1};
    ck_assert(kit_unit_parts(&target, NULL, wrong[_i].text, s.part));
    ck_assert_uint_eq(kit_spirv_make(&target, &s, &shader), YK_E_INTERNAL);
    ck_assert_msg(strstr(said, wrong[_i].says) != NULL, "it says: %s", said);
    ck_assert_ptr_null(shader.word);
}
END_TEST

START_TEST(product_over_lanes_is_translated_and_valid)
{
    static const char before[] = "#define GEMM_NAME k\n#define TA bf16\n#define TC f32\n#define GEMM_LANES 8\n#define GEMM_LR 2\n"
                                 "#define GEMM_LC 2\n#define EPI_ARGS\n#define EPI_BIND\n#define EPI(v, z, m, n, cnt) c[m * N + n] = v;\n";
    const char *kernel = kit_dot_source(&target, true, false);
    char text[8192];
    kit_spirv shader;
    kit_spirv_source s = {.macros = "", .kernel = "k", .local = 8, .checks_loops = true};
    ck_assert_int_lt(snprintf(text, sizeof text, "%s%s", before, kernel), (int)sizeof text);
    ck_assert(kit_unit_parts(&target, NULL, text, s.part));
    ck_assert_msg(kit_spirv_make(&target, &s, &shader) == YK_OK, "%s", said);
    shader_validate(&shader, "gemm_lanes");
    kit_spirv_free(&shader);
}
END_TEST

/* ---- Cooperative matrices ---- */

/* Sizes that devices have, and their subgroups. */
static const struct {
    kit_coop size;
    uint32_t lanes;
    kit_coop_share share; /* rows 0: it is refused */
} coops[] = {
    {{16, 16, 16}, 32, {2, 2, 2, 2}}, {{16, 16, 16}, 64, {1, 2, 4, 2}},  {{16, 8, 16}, 32, {2, 2, 2, 4}}, {{8, 8, 16}, 32, {2, 2, 4, 4}},
    {{8, 16, 16}, 16, {2, 4, 4, 1}},  {{8, 8, 8}, 8, {4, 4, 2, 2}},      {{8, 8, 32}, 16, {2, 4, 4, 2}},  {{16, 16, 16}, 128, {1, 1, 4, 4}},
    {{16, 16, 16}, 8, {4, 4, 1, 1}},  {{32, 32, 16}, 32, {2, 2, 1, 1}},  {{16, 16, 16}, 4, {0}},         {{32, 32, 16}, 16, {0}},
    {{0, 16, 16}, 32, {0}},           {{16, 0, 16}, 32, {0}},            {{16, 16, 0}, 32, {0}},         {{16, 16, 16}, 0, {0}},
    {{0, 0, 0}, 0, {0}},              {{1u << 31, 16, 16}, 32, {0}},     {{16, 16, 1u << 31}, 32, {0}},  {{~0u, ~0u, ~0u}, 32, {0}},
    {{128, 16, 16}, 32, {0}},         {{16, 16, 64}, 32, {0}},           {{12, 16, 16}, 32, {0}},        {{16, 16, 24}, 32, {0}},
    {{2, 16, 16}, 32, {0}},           {{16, 16, 2}, 32, {0}},            {{16, 16, 16}, 24, {0}},        {{16, 16, 16}, 256, {0}},
    {{16, 16, 16}, UINT32_MAX, {0}},
};
#define N_COOPS ((int)(sizeof coops / sizeof *coops))
#define N_COOPS_GOOD 10

START_TEST(matrices_that_make_no_tile_are_refused)
{
    kit_coop_share share;
    const bool good = _i < N_COOPS_GOOD;
    ck_assert_int_eq(kit_coop_shared(&coops[_i].size, coops[_i].lanes, &share), good);
    ck_assert_mem_eq(&share, &coops[_i].share, sizeof share);
    if (good) {
        ck_assert_uint_eq(share.down * share.across * coops[_i].lanes, KIT_COOP_TEAM);
        ck_assert_uint_eq(share.down * share.rows * coops[_i].size.rows, KIT_COOP_TILE);
        ck_assert_uint_eq(share.across * share.cols * coops[_i].size.cols, KIT_COOP_TILE);
    }
}
END_TEST

START_TEST(the_largest_matrices_are_chosen)
{
    static const kit_coop listed[] = {{16, 8, 8}, {16, 8, 16}, {16, 16, 16}, {0, 0, 0}, {64, 64, 64}, {16, 32, 8}},
                          bad[] = {{0, 0, 0}, {UINT32_MAX, 1, 7}};
    char why[KIT_COOP_WHY];
    kit_coop best = kit_coop_choose(listed, 6, 32, why);
    ck_assert_mem_eq(&best, &listed[2], sizeof best);
    best = kit_coop_choose(listed, 2, 32, why);
    ck_assert_mem_eq(&best, &listed[1], sizeof best);
    ck_assert_uint_eq(kit_coop_choose(bad, 2, 32, why).rows, 0);
    ck_assert_str_eq(why, "2 listed, the first 0x0x0: no tile of 64x64 by subgroups of 32");
    ck_assert_uint_eq(kit_coop_choose(NULL, 0, 32, why).rows, 0);
    ck_assert_str_eq(why, "it lists none of subgroups with sums in fp32");
}
END_TEST

static kit_target target_with(int i)
{
    kit_target own = target;
    own.coop[KIT_COOP_F16] = own.coop[KIT_COOP_BF16] = coops[i].size;
    own.coop_lanes = coops[i].lanes;
    return own;
}

/* The constant an id stands for. */
static uint32_t constant_of(const kit_spirv *s, uint32_t id)
{
    for (size_t at = 5; at < s->n_word; at += s->word[at] >> 16)
        if ((s->word[at] & 0xffff) == OpConstant && s->word[at + 2] == id)
            return s->word[at + 3];
    ck_abort_msg("%u is no constant", id);
}

static int instructions_of(const kit_spirv *s, uint32_t op, size_t n_operand, uint32_t operand)
{
    int n = 0;
    for (size_t at = 5; at < s->n_word; at += s->word[at] >> 16) {
        ck_assert_uint_gt(s->word[at] >> 16, 0);
        ck_assert_uint_le(at + (s->word[at] >> 16), s->n_word);
        if ((s->word[at] & 0xffff) == op)
            n += !n_operand || ((s->word[at] >> 16) > n_operand && s->word[at + n_operand] == operand);
    }
    return n;
}

/* The three types, by their use, as the size has them. */
static void types_are(const kit_spirv *s, const kit_coop *size)
{
    const uint32_t rows[] = {size->rows, size->terms, size->rows}, cols[] = {size->terms, size->cols, size->cols};
    uint32_t seen = 0;
    for (size_t at = 5; at < s->n_word; at += s->word[at] >> 16)
        if ((s->word[at] & 0xffff) == OpTypeCooperativeMatrix) {
            const uint32_t use = constant_of(s, s->word[at + 6]);
            ck_assert_uint_lt(use, 3);
            ck_assert_uint_eq(constant_of(s, s->word[at + 3]), ScopeSubgroup);
            ck_assert_uint_eq(constant_of(s, s->word[at + 4]), rows[use]);
            ck_assert_uint_eq(constant_of(s, s->word[at + 5]), cols[use]);
            seen |= 1u << use;
        }
    ck_assert_uint_eq(seen, 7);
}

/* spirv-val of Debian 12 is older than the extensions: it says which capability it does not know. */
static void matrices_validate(const kit_spirv *shader)
{
    char path[] = "/tmp/yoke-spirv-XXXXXX", command[200];
    const int fd = mkstemp(path);
    FILE *f = fdopen(fd, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(shader->word, sizeof *shader->word, shader->n_word, f), shader->n_word);
    fclose(f);
    snprintf(command, sizeof command,
             "! command -v spirv-val >/dev/null || spirv-val --target-env vulkan1.2 %s 2>&1 | "
             "{ if grep -v 'Invalid capability operand: \\(6022\\|511[68]\\)'; then exit 1; fi; }", path);
    ck_assert_msg(system(command) == 0, "gemm_coop is no valid shader");
    remove(path);
}

static void product_translate(const kit_target *own, int i, const char *type, kit_spirv *shader)
{
    const kit_coop *size = &coops[i].size;
    const kit_coop_share *share = &coops[i].share;
    char text[8192];
    kit_spirv_source s = {.macros = "", .kernel = "k", .local = KIT_COOP_TEAM, .keeps_nan = true, .checks_loops = true};
    const int n = snprintf(text, sizeof text,
                           "#define GEMM_NAME k\n#define TA %s\n#define TC f32\n#define GEMM_M %u\n#define GEMM_N %u\n#define GEMM_K %u\n"
                           "#define GEMM_R %u\n#define GEMM_C %u\n#define GEMM_ACROSS %u\n#define GEMM_STEPS %u\n#define EPI_ARGS\n"
                           "#define EPI_BIND\n#define EPI(v, z, m, n, cnt) c[m * N + n] = v;\n%s",
                           type, size->rows, size->cols, size->terms, share->rows, share->cols, share->across,
                           KIT_COOP_TERMS / size->terms, kit_dot_source(own, false, true));
    ck_assert_int_lt(n, (int)sizeof text);
    ck_assert(kit_unit_parts(own, NULL, text, s.part));
    ck_assert_msg(kit_spirv_make(own, &s, shader) == YK_OK, "%s", said);
}

START_TEST(product_by_cooperative_matrices_is_translated_and_valid)
{
    const kit_target own = target_with(_i);
    const int steps = (int)(KIT_COOP_TERMS / coops[_i].size.terms), rows = (int)coops[_i].share.rows, cols = (int)coops[_i].share.cols;
    for (int brain = 0; brain < 2; brain++) {
        kit_spirv s;
        product_translate(&own, _i, brain ? "bf16" : "f16", &s);
        ck_assert(s.matrices);
        ck_assert_uint_eq(s.local_bytes, 16384);
        types_are(&s, &coops[_i].size);
        ck_assert_int_eq(instructions_of(&s, OpCooperativeMatrixMulAdd, 0, 0), steps * rows * cols);
        ck_assert_int_eq(instructions_of(&s, OpCooperativeMatrixLoad, 6, MemoryNonPrivate), steps * (rows + cols));
        ck_assert_int_eq(instructions_of(&s, OpCooperativeMatrixStore, 5, MemoryNonPrivate), rows * cols);
        ck_assert_int_eq(instructions_of(&s, OpMemoryModel, 2, ModelVulkan), 1);
        ck_assert_int_eq(instructions_of(&s, OpCapability, 1, CapFloat16), !brain);
        ck_assert_int_eq(instructions_of(&s, OpCapability, 1, CapBfloat16Matrix), brain);
        ck_assert_int_eq(instructions_of(&s, OpExtension, 0, 0), 1 + brain);
        matrices_validate(&s);
        kit_spirv_free(&s);
    }
}
END_TEST

START_TEST(matrices_are_loaded_stored_and_multiplied_only)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"COOP_SUM(f16) s; s = s + s;", "no operators"},
        {"COOP_SUM(f16) s; y[0] = s;", "no number"},
        {"COOP_SUM(f16) s; COOP_LEFT(f16) a; s = a;", "no number"},
        {"COOP_SUM(f16) s; COOP_RIGHT(f16) b; COOP_ADD(s, b, b);", "of its own type"},
        {"COOP_SUM(f16) s; COOP_LEFT(bf16) a; COOP_RIGHT(f16) b; COOP_ADD(s, a, b);", "of its own type"},
        {"COOP_LEFT(f16) a; COOP_RIGHT(f16) b; COOP_ADD(a, a, b);", "of its own type"},
        {"COOP_CLEAR(1.0f);", "a matrix is expected"},
        {"COOP_SUM(f16) s; COOP_LOAD(s, y, 0, 8);", "local memory"},
        {"COOP_SUM(f16) s; COOP_STORE(s, y, 0, 8);", "local memory"},
        {"LOCAL uint m[8][8]; COOP_SUM(f16) s; COOP_LOAD(s, m, 0, 8);", "one dimension"},
    };
    const kit_target own = target_with(0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[400];
        kit_spirv shader;
        kit_spirv_source s = {.macros = "", .kernel = "k", .local = 1};
        snprintf(text, sizeof text, "KERNEL void k(OUT(float, y)) { AT(float, y); %s }", cases[i].text);
        ck_assert(kit_unit_parts(&own, NULL, text, s.part));
        ck_assert_msg(kit_spirv_make(&own, &s, &shader) == YK_E_INTERNAL, "%s", cases[i].text);
        ck_assert_msg(strstr(said, cases[i].says) != NULL, "%s says: %s", cases[i].text, said);
    }
}
END_TEST

/* Cut anywhere, a kernel's text is refused or translated, and never read past its end. */
START_TEST(text_that_is_cut_does_no_harm)
{
    static const char whole[] = "#define F(a, b) K_CAT(a, b)\nFN float f(float v) { if (v > 1.0f) return v; return F(v, ) * 2; }\n"
                                "KERNEL void k(IN(float, x), OUT(float, y), long n)\n{ ATC(float, x); AT(float, y); LOCAL float s[4];\n"
                                "for (long i = LANE; i < n; i += TEAM) { if (i == 3) continue; y[i] = f(x[i]) + (i ? s[0] : 0x1fu); }\n"
                                "while (n < 0 && x[0] > 1) { } BARRIER(); }\n";
    for (size_t n = 0; n < sizeof whole; n++) {
        char *text = strndup(whole, n);
        kit_spirv shader;
        kit_spirv_source s = {.macros = "", .kernel = "k", .local = 1};
        ck_assert(kit_unit_parts(&target, NULL, text, s.part));
        if (kit_spirv_make(&target, &s, &shader) == YK_OK)
            kit_spirv_free(&shader);
        else
            ck_assert_uint_lt(n, sizeof whole - 2);
        free(text);
    }
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("kernels");
    tcase_add_loop_test(c, kernel_is_translated_and_valid, 0, N_KERNELS);
    tcase_add_loop_test(c, text_outside_the_dialect_is_refused_by_name, 0, (int)(sizeof wrong / sizeof *wrong));
    tcase_add_test(c, product_over_lanes_is_translated_and_valid);
    tcase_add_loop_test(c, matrices_that_make_no_tile_are_refused, 0, N_COOPS);
    tcase_add_test(c, the_largest_matrices_are_chosen);
    tcase_add_loop_test(c, product_by_cooperative_matrices_is_translated_and_valid, 0, N_COOPS_GOOD);
    tcase_add_test(c, matrices_are_loaded_stored_and_multiplied_only);
    tcase_add_test(c, text_that_is_cut_does_no_harm);
    return suite_run("spirv kernels", c);
}
