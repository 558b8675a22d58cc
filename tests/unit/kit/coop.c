/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The product by cooperative matrices (plugins/kit/kernels/gemm_coop.kc) compiled as plain C, for sizes and subgroups that no driver here
 * has: a group's work-items are threads, and each holds its subgroup's whole matrices. Numbers are such that sums are exact, so that
 * every size gives the same bits as plain loops; loads have to be aligned as Vulkan wants them.
 */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>

#include "plugins/kit/kit_coop.h"
#include "tests/support/f16.h"
#include "tests/support/run.h"
#include "tests/support/sanitize.h"

#include "plugins/kit/kernels/dialect.kc"

#define MOST 32 /* rows or columns of a matrix here */

typedef struct coop_operand {
    ushort at[MOST][MOST]; /* by row or column, and term */
} coop_operand;
typedef struct coop_left_any {
    coop_operand own;
} coop_left_any;
typedef struct coop_right_any {
    coop_operand own;
} coop_right_any;
typedef struct coop_sum_any {
    float at[MOST][MOST];
} coop_sum_any;

/* The running size, and its division; constants while threads run. */
static kit_coop size;
static kit_coop_share part;
static uint32_t lanes;
static bool brain;
static int steps;
static pthread_barrier_t barrier;
static _Thread_local int own_lane;
static _Thread_local long own_group[3];

static void operand_load(coop_operand *m, uint32_t n, const uint *tile, int at, int row)
{
    const int align = size.terms * 2 < 16 ? (int)size.terms * 2 : 16;
    ck_assert_int_eq(at * 4 % align, 0);
    ck_assert_int_eq(row * 4 % align, 0);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < size.terms; k++)
            m->at[i][k] = (ushort)(tile[at + (int)i * row + (int)k / 2] >> k % 2 * 16);
}

static void left_load(coop_left_any *m, const uint *tile, int at, int row)
{
    operand_load(&m->own, size.rows, tile, at, row);
}

static void right_load(coop_right_any *m, const uint *tile, int at, int row)
{
    operand_load(&m->own, size.cols, tile, at, row);
}

static float value_of(ushort h)
{
    return brain ? GET_bf16(h) : GET_f16(h);
}

static void values_of(float to[MOST][MOST], const coop_operand *m, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < size.terms; k++)
            to[i][k] = value_of(m->at[i][k]);
}

TEST_LOOPS static void sums_add(coop_sum_any *s, float left[MOST][MOST], float right[MOST][MOST])
{
    for (uint32_t i = 0; i < size.rows; i++)
        for (uint32_t j = 0; j < size.cols; j++)
            for (uint32_t k = 0; k < size.terms; k++)
                s->at[i][j] += left[i][k] * right[j][k];
}

static void sum_add(coop_sum_any *s, const coop_left_any *a, const coop_right_any *b)
{
    float left[MOST][MOST], right[MOST][MOST];
    values_of(left, &a->own, size.rows);
    values_of(right, &b->own, size.cols);
    sums_add(s, left, right);
}

/* One of the subgroup writes for all. */
static void sum_store(const coop_sum_any *s, uint *tile, int at, int row)
{
    for (uint32_t i = 0; i < size.rows && own_lane % (int)lanes == 0; i++)
        for (uint32_t j = 0; j < size.cols; j++)
            tile[at + (int)i * row + (int)j] = AS_U(s->at[i][j]);
}

#undef LOCAL
#undef GID
#undef LID
#undef LSIZE
#undef BARRIER
#define LOCAL static /* the threads of a group share it */
#define GID(d) own_group[d]
#define LID own_lane
#define LSIZE ((int)KIT_COOP_TEAM)
#define BARRIER() ((void)pthread_barrier_wait(&barrier))
#define COOP_LEFT(T) coop_left_any
#define COOP_RIGHT(T) coop_right_any
#define COOP_SUM(T) coop_sum_any
#define COOP_TEAM (own_lane / (int)lanes)
#define COOP_CLEAR(sum) memset(&(sum), 0, sizeof(sum))
#define COOP_LOAD(to, tile, at, row) _Generic((to), coop_left_any : left_load, coop_right_any : right_load)(&(to), tile, at, row)
#define COOP_ADD(sum, left, right) sum_add(&(sum), &(left), &(right))
#define COOP_STORE(sum, tile, at, row) sum_store(&(sum), tile, at, row)
#define GEMM_NAME gemm
#define TA f16 /* both types are numbers of 16 bits here */
#define TC f32
#define GEMM_M ((int)size.rows)
#define GEMM_N ((int)size.cols)
#define GEMM_K ((int)size.terms)
#define GEMM_R ((int)part.rows)
#define GEMM_C ((int)part.cols)
#define GEMM_ACROSS ((int)part.across)
#define GEMM_STEPS steps
#define EPI_ARGS
#define EPI_BIND
#define EPI(v, z, m, n, cnt) c[(z)*cbs + (m)*N + (n)] = v + (accumulate ? c[(z)*cbs + (m)*N + (n)] : 0)
#include "plugins/kit/kernels/gemm_coop.kc"

/* ---- A product ---- */

typedef struct product {
    long M, N, K, batch;
    bool ta, tb, accumulate;
    ushort *a, *b;
    float *c;
} product;

static void *item_run(void *arg)
{
    const product *p = ((void **)arg)[0];
    own_lane = (int)(intptr_t)((void **)arg)[1];
    for (own_group[2] = 0; own_group[2] < p->batch; own_group[2]++)
        for (own_group[1] = 0; own_group[1] * GT < p->M; own_group[1]++)
            for (own_group[0] = 0; own_group[0] * GT < p->N; own_group[0]++) {
                gemm(p->a, 0, p->b, 0, p->c, 0, p->M, p->N, p->K, p->ta ? 1 : p->K, p->ta ? p->M : 1, p->M * p->K, p->tb ? 1 : p->N,
                     p->tb ? p->K : 1, p->K * p->N, p->M * p->N, GT, GT, p->accumulate);
                BARRIER();
            }
    return NULL;
}

/* Quarters from -1 to 1, whose products and sums are exact. */
static ushort *operand_new(long n, uint32_t seed)
{
    ushort *x = malloc((size_t)n * sizeof *x);
    for (long i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        const float v = (float)(int)(seed >> 24) / 32 - 4, quarter = (float)(int)v / 4;
        x[i] = brain ? PUT_bf16(quarter) : PUT_f16(quarter);
    }
    return x;
}

static void product_check(const product *p)
{
    for (long z = 0; z < p->batch; z++)
        for (long m = 0; m < p->M; m++)
            for (long n = 0; n < p->N; n++) {
                float sum = p->accumulate ? 0.5f : 0;
                for (long k = 0; k < p->K; k++)
                    sum += value_of(p->a[z * p->M * p->K + (p->ta ? k * p->M + m : m * p->K + k)]) *
                           value_of(p->b[z * p->K * p->N + (p->tb ? n * p->K + k : k * p->N + n)]);
                ck_assert_msg(p->c[(z * p->M + m) * p->N + n] == sum, "%ld %ld %ld of %ldx%ldx%ld: %g, not %g", z, m, n, p->M, p->N, p->K,
                              (double)p->c[(z * p->M + m) * p->N + n], (double)sum);
            }
}

static void product_run(product *p)
{
    pthread_t thread[KIT_COOP_TEAM];
    void *arg[KIT_COOP_TEAM][2];
    p->a = operand_new(p->batch * p->M * p->K, 1);
    p->b = operand_new(p->batch * p->K * p->N, 2);
    p->c = malloc((size_t)(p->batch * p->M * p->N) * sizeof *p->c);
    for (long i = 0; i < p->batch * p->M * p->N; i++)
        p->c[i] = p->accumulate ? 0.5f : -1;
    pthread_barrier_init(&barrier, NULL, KIT_COOP_TEAM);
    for (size_t i = 0; i < KIT_COOP_TEAM; i++) {
        arg[i][0] = p;
        arg[i][1] = (void *)i;
        ck_assert_int_eq(pthread_create(&thread[i], NULL, item_run, arg[i]), 0);
    }
    for (size_t i = 0; i < KIT_COOP_TEAM; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&barrier);
    product_check(p);
    free(p->a);
    free(p->b);
    free(p->c);
}

static const struct {
    kit_coop size;
    uint32_t lanes;
} devices[] = {{{16, 16, 16}, 32}, {{16, 16, 16}, 64}, {{16, 8, 16}, 32}, {{8, 8, 16}, 32}, {{8, 16, 16}, 16}, {{8, 8, 8}, 8},
               {{8, 8, 32}, 16},   {{4, 4, 4}, 32},    {{32, 32, 16}, 32}, {{16, 16, 8}, 128}};

START_TEST(products_are_those_of_plain_loops)
{
    size = devices[_i].size;
    lanes = devices[_i].lanes;
    steps = (int)(KIT_COOP_TERMS / size.terms);
    ck_assert(kit_coop_shared(&size, lanes, &part));
    for (int i = 0; i < 4; i++) {
        product edges = {.M = 70, .N = 65, .K = 37, .batch = 1, .ta = i & 1, .tb = i & 2, .accumulate = i == 2};
        product one = {.M = 1, .N = 3, .K = 1 + i, .batch = 2, .ta = i & 1, .tb = i & 2};
        brain = i == 1 || i == 2;
        product_run(&edges);
        product_run(&one);
    }
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("products");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, products_are_those_of_plain_loops, 0, (int)(sizeof devices / sizeof *devices));
    return suite_run("coop", t);
}
