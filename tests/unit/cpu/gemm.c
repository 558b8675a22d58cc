/* SPDX-License-Identifier: Apache-2.0 */
/* Blocked products: every instruction set of this machine and the AMX kernel on emulated tiles, odd shapes, both
 * operands plain and transposed, f32 and bf16, sums in place and in scratch; against double. */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/isa/conv_kernels.h"
#include "backends/cpu/isa/gemm_kernels.h"
#include "backends/cpu/isa/vec_kernels.h"
#include "tests/support/cpu_kit.h"
#include "tests/support/run.h"
#include "tests/support/sanitize.h"

typedef struct problem {
    int64_t m, n, k;
    int dtype, trans;
    float *a, *b; /* as doubles would see them */
    void *sa, *sb;
    float *c;
    double *want, *size; /* the products in double, and the sums of their terms' sizes */
} problem;

static void *operand_make(float *plain, int64_t n, int dtype)
{
    void *p = malloc((size_t)n * 4);
    for (int64_t i = 0; i < n; i++)
        plain[i] = (float)(2 * kit_random_unit() - 1);
    cpu_isa_portable.vec->from_f32(p, plain, dtype, (size_t)n);
    cpu_isa_portable.vec->to_f32(plain, p, dtype, (size_t)n);
    return p;
}

static void block_keep(void *arg, int64_t i, int64_t ni, int64_t j, int64_t nj, float *acc, int64_t ld)
{
    problem *p = arg;
    for (int64_t r = 0; r < ni; r++)
        memcpy(p->c + (i + r) * p->n + j, acc + r * ld, (size_t)nj * 4);
}

static void problem_multiply(problem *p, const cpu_isa *isa, bool scratch, int gm, int gn)
{
    cpu_gemm g;
    cpu_gemm_init(&g, isa, p->m, p->n, p->k, p->dtype, p->dtype, scratch);
    char *thread_ws = cpu_host->alloc(g.bytes, 64);
    memset(thread_ws, 0xff, g.bytes); /* NaN everywhere: nothing may leak in */
    cpu_src a = {p->sa, p->trans & 1 ? p->m : p->k, (uint8_t)p->dtype, !(p->trans & 1), NULL, NULL, NULL};
    cpu_src b = {p->sb, p->trans & 2 ? p->k : p->n, (uint8_t)p->dtype, !!(p->trans & 2), NULL, NULL, NULL};
    const cpu_ctx ctx = {.isa = isa, .thread_ws = thread_ws};
    cpu_sink sink = {scratch ? NULL : p->c, p->n, false, scratch ? block_keep : NULL, NULL, p};
    for (int r = 0; r < gm * gn; r++) {
        int64_t i0, i1, j0, j1;
        cpu_gemm_rect(&g, gm, gn, r, &i0, &i1, &j0, &j1);
        if (i0 < i1 && j0 < j1)
            cpu_gemm_run(&g, &ctx, &a, &b, i0, i1, j0, j1, &sink);
    }
    cpu_host->free(thread_ws);
}

/* the same as C^T = B^T A^T, if B's lines can be read in place; returns if they can */
static bool problem_multiply_transposed(problem *p, const cpu_isa *isa, int gm, int gn)
{
    cpu_gemm g;
    cpu_gemm_init_transposed(&g, isa, p->n, p->m, p->k, p->dtype, p->dtype);
    cpu_src a = {p->sb, p->trans & 2 ? p->k : p->n, (uint8_t)p->dtype, !!(p->trans & 2), NULL, NULL, NULL};
    cpu_src b = {p->sa, p->trans & 1 ? p->m : p->k, (uint8_t)p->dtype, !(p->trans & 1), NULL, NULL, NULL};
    if (!cpu_gemm_in_place(&g, &a, p->n, p->m, true))
        return false;
    char *thread_ws = cpu_host->alloc(g.bytes, 64);
    memset(thread_ws, 0xff, g.bytes);
    memset(p->c, 0xff, (size_t)(p->m * p->n) * 4);
    const cpu_ctx ctx = {.isa = isa, .thread_ws = thread_ws};
    cpu_sink sink = {NULL, 0, false, block_keep, NULL, p};
    for (int r = 0; r < gm * gn; r++) {
        int64_t i0, i1, j0, j1;
        cpu_gemm_rect(&g, gm, gn, r, &i0, &i1, &j0, &j1);
        if (i0 < i1 && j0 < j1)
            cpu_gemm_run(&g, &ctx, &a, &b, i0, i1, j0, j1, &sink);
    }
    cpu_host->free(thread_ws);
    return true;
}

TEST_LOOPS static void problem_solve(problem *p)
{
    const int64_t a_row = p->trans & 1 ? 1 : p->k, a_term = p->trans & 1 ? p->m : 1;
    double *b = malloc((size_t)(p->k * p->n) * sizeof *b); /* by term and column */
    for (int64_t k = 0; k < p->k; k++)
        for (int64_t j = 0; j < p->n; j++)
            b[k * p->n + j] = (double)p->b[p->trans & 2 ? j * p->k + k : k * p->n + j];
    for (int64_t i = 0; i < p->m; i++) {
        double *restrict want = p->want + i * p->n, *restrict size = p->size + i * p->n;
        memset(want, 0, (size_t)p->n * sizeof *want);
        memset(size, 0, (size_t)p->n * sizeof *size);
        for (int64_t k = 0; k < p->k; k++) {
            const double x = (double)p->a[i * a_row + k * a_term];
            for (int64_t j = 0; j < p->n; j++) {
                want[j] += x * b[k * p->n + j];
                size[j] += fabs(x * b[k * p->n + j]);
            }
        }
    }
    free(b);
}

static void problem_compare(const problem *p, const cpu_isa *isa)
{
    for (int64_t i = 0; i < p->m * p->n; i++) {
        const double e = fabs((double)p->c[i] - p->want[i]);
        if (!(e <= 4 * sqrt((double)p->k) * 6e-8 * p->size[i] + 1e-30))
            ck_abort_msg("%s %lldx%lldx%lld type %d trans %d: %g", isa->name, (long long)p->m, (long long)p->n, (long long)p->k, p->dtype,
                         p->trans, e);
    }
}

/* Instrumented, the large shapes take minutes; the smaller ones still cut every dimension in blocks. */
#if TEST_UNDER_ASAN || TEST_UNDER_TSAN
#define LARGE {40, 70, 801}, {70, 130, 330}
#else
#define LARGE {50, 300, 801}, {130, 257, 1537}
#endif

static void check_isa(const cpu_isa *isa)
{
    static const int64_t shapes[][3] = {{1, 1, 1},    {3, 5, 7},     {14, 32, 64},  {16, 144, 300}, {33, 65, 129},
                                        {2, 70, 50},  LARGE,         {64, 1, 64},   {7, 70, 2100}};
    static const int types[] = {YK_F32, YK_BF16, YK_F16};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int v = 0; v < 12; v++) {
            problem p = {.m = shapes[s][0], .n = shapes[s][1], .k = shapes[s][2], .dtype = types[v / 4], .trans = v % 4};
            p.a = malloc((size_t)(p.m * p.k) * 4);
            p.b = malloc((size_t)(p.n * p.k) * 4);
            p.sa = operand_make(p.a, p.m * p.k, p.dtype);
            p.sb = operand_make(p.b, p.n * p.k, p.dtype);
            p.c = calloc((size_t)(p.m * p.n), 4);
            float *first = calloc((size_t)(p.m * p.n), 4);
            p.want = malloc((size_t)(p.m * p.n) * sizeof *p.want);
            p.size = malloc((size_t)(p.m * p.n) * sizeof *p.size);
            problem_solve(&p);
            problem_multiply(&p, isa, false, 1, 1);
            problem_compare(&p, isa);
            memcpy(first, p.c, (size_t)(p.m * p.n) * 4);
            problem_multiply(&p, isa, true, 2, 3); /* other cuts, sums in scratch: the same bits */
            ck_assert(!memcmp(first, p.c, (size_t)(p.m * p.n) * 4) || p.k > 300);
            problem_compare(&p, isa);
            problem_multiply(&p, isa, false, 3, 2);
            ck_assert(!memcmp(first, p.c, (size_t)(p.m * p.n) * 4));
            if (problem_multiply_transposed(&p, isa, 2, 2)) {
                problem_compare(&p, isa);
                memcpy(first, p.c, (size_t)(p.m * p.n) * 4);
                ck_assert(problem_multiply_transposed(&p, isa, 3, 1) && !memcmp(first, p.c, (size_t)(p.m * p.n) * 4));
            }
            free(p.a), free(p.b), free(p.c), free(p.sa), free(p.sb), free(p.want), free(p.size), free(first);
        }
}

START_TEST(every_set)
{
    kit_host();
    for (int q = 0; kit_isa(q); q++)
        check_isa(kit_isa(q));
}
END_TEST

static cpu_isa amx_emulated(void)
{
    cpu_isa emu = *kit_isa(0);
    emu.name = "amx, emulated";
    emu.bf16 = CPU_BF16_TILES;
    emu.tiles = &cpu_amx_emulated_tiles;
    return emu;
}

START_TEST(emulated_tiles)
{
    kit_host();
    cpu_isa emu = amx_emulated();
    check_isa(&emu);
}
END_TEST

/* Large products of several workers have an operand packed for all of them and take the pieces in turn. The sets share that code: a
 * sanitized set, and the slow portable one, take every fifth case from `first_case` on. Numbers of two and three threads are the plain
 * build's. */
static void check_threads(const cpu_isa *isa, int first_case)
{
    const bool is_slow = TEST_UNDER_ASAN || TEST_UNDER_TSAN || isa == kit_isa(0);
    static const int64_t shapes[][3] = {{70, 1030, 401}, {1030, 70, 401}, {90, 1100, 802}, {96, 700, 401}}; /* the last is transposed */
    for (int v = is_slow ? first_case % 5 : 0; v < 32; v += is_slow ? 5 : 1) {
        const int64_t *s = shapes[v / 8];
        int type = v & 4 ? YK_BF16 : YK_F32;
        kit *k = kit_new();
        uint32_t a = KIT(k, type, s[0], s[2]), b = KIT(k, type, s[2], s[1]);
        uint32_t c = KIT(k, v & 4 && v / 8 ? YK_BF16 : YK_F32, s[0], s[1]);
        if (v & 1)
            k->value[a].stride[0] = 1, k->value[a].stride[1] = s[0];
        if (v & 2)
            k->value[b].stride[0] = 1, k->value[b].stride[1] = s[2];
        kit_random(k, a, -1, 1);
        kit_random(k, b, -1, 1);
        kit_node(k, YK_OP_DOT, KIT_IDS(a, b), KIT_IDS(c), NULL, 0);
        ck_assert_int_eq(kit_run(k, isa, 1), YK_OK);
        size_t bytes = (size_t)k->slot[c].bytes;
        char *first = malloc(bytes);
        memcpy(first, k->data[c], bytes);
        for (int nt = TEST_UNDER_ASAN || TEST_UNDER_TSAN ? 4 : 2; nt <= 4; nt++) {
            memset(k->data[c], 0xff, bytes);
            ck_assert_int_eq(kit_run(k, isa, nt), YK_OK);
            ck_assert_msg(!memcmp(first, k->data[c], bytes), "%s, case %d, %d threads", isa->name, v, nt);
        }
        free(first);
        kit_free(k);
    }
}

START_TEST(same_bits_of_all_threads)
{
    kit_host();
    cpu_isa emu = amx_emulated();
    int q = 0;
    for (; kit_isa(q); q++)
        check_threads(kit_isa(q), q);
    check_threads(&emu, q);
}
END_TEST

/* ---- Which products bf16 takes ---- */

/* A core of which `slow_from` to `slow_to` of the tries take three times as long, and a pair `cost` f32 products. */
static struct {
    double cost;
    int tries, slow_from, slow_to;
} core;

static double on_core(const cpu_isa *isa, bool pairs)
{
    const int n = core.tries++;
    (void)isa;
    return (pairs ? core.cost : 1.0) * (n >= core.slow_from && n < core.slow_to ? 3.0 : 1.0);
}

static bool pairs_pay(double cost, int slow_from, int slow_to)
{
    core.cost = cost;
    core.tries = 0;
    core.slow_from = slow_from;
    core.slow_to = slow_to;
    return cpu_pairs_pay(kit_isa(0), on_core);
}

/* Pairs do twice the work. Whatever part of the tries noise slows, the answer is that of a quiet core. */
START_TEST(pairs_pay_on_a_noisy_core)
{
    kit_host();
    for (int from = 0; from < 48; from++)
        for (int to = from; to < 48 - 4; to++) {
            ck_assert(pairs_pay(1.0, from, to));
            ck_assert(!pairs_pay(4.0, from, to));
        }
    ck_assert(pairs_pay(1.0, 0, 1000) && !pairs_pay(4.0, 0, 1000)); /* slow all the time, but both */
    ck_assert_int_eq(core.tries, 48);
    ck_assert(pairs_pay(1.9, 0, 0) && core.tries > 48); /* near the border: more of them */
    ck_assert(!pairs_pay(2.1, 0, 0) && core.tries > 48);
}
END_TEST

#if TEST_UNDER_ASAN
/* Kernels check whole ranges instead of each load: an operand that is one word too short ends the process with a report. */
enum { SHORT_A, SHORT_B, SHORT_C, SHORT_ROW, SHORT_PANEL, SHORT_TAP, SHORT_SUM, N_SHORT };
enum { SHORT_K = 70 };

static float *operand_new(size_t n, bool is_short)
{
    float *p = calloc(n - is_short, sizeof *p);
    ck_assert(p != NULL);
    return p;
}

START_TEST(short_operands_are_reported)
{
    kit_host();
    int n_sets = 0;
    while (kit_isa(n_sets))
        n_sets++;
    const cpu_isa *isa = kit_isa(_i / N_SHORT % n_sets);
    const int fault = _i % N_SHORT;
    const size_t width = 2 * (size_t)isa->vw;
    const int32_t off[SHORT_K] = {[SHORT_K - 1] = (int32_t)width};
    float *a = operand_new(3 * SHORT_K, fault == SHORT_A), *b = operand_new(SHORT_K * width, fault == SHORT_B || fault == SHORT_PANEL);
    float *c = operand_new(3 * width, fault == SHORT_C || fault == SHORT_SUM), *image = operand_new(2 * width, fault == SHORT_TAP);
    float *last = operand_new(SHORT_K, fault == SHORT_ROW);
    const char *rows[] = {(char *)a, (char *)(a + SHORT_K), (char *)last};
    if (fault <= SHORT_C)
        isa->gemm[0]->packed[3][2](SHORT_K, a, b, width, c, width, width, 1, NULL, 0);
    else if (fault <= SHORT_PANEL)
        isa->gemm[0]->unpacked[3][2](SHORT_K, rows, b, c, width);
    else
        isa->conv[0]->taps[3](SHORT_K, a, image, (size_t)isa->vw, off, c, width, 0);
}
END_TEST
#endif

int main(void)
{
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 600); /* under TSan, on a busy machine */
    if (!TEST_UNDER_TSAN) { /* each of these is of one thread */
        tcase_add_test(t, every_set);
        tcase_add_test(t, emulated_tiles);
    }
    tcase_add_test(t, same_bits_of_all_threads);
    tcase_add_test(t, pairs_pay_on_a_noisy_core);
#if TEST_UNDER_ASAN
    tcase_add_loop_exit_test(t, short_operands_are_reported, 1, 0, 4 * N_SHORT);
#endif
    return suite_run("cpu_gemm all", t);
}
