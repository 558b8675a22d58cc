/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tokens without padding: their places, gradients, dropout, and a model that uses them. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/job/job.h"
#include "models/model.h"
#include "tests/support/run.h"

enum { B = 3, T = 16, W = 5, N = B * T * W };

static yk_job *open_job(yk_config c)
{
    c.devices = "cpu";
    c.quiet = true;
    yk_job *job = yk_open(&c);
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    return job;
}

#define CLOSE(job)                                                                                                     \
    do {                                                                                                               \
        ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));                                                           \
        ck_assert_int_eq(yk_close(job), 0);                                                                            \
    } while (0)

/* Holes in the first row, a short second, an empty third: 22 tokens. */
static bool token_counts(int b, int t)
{
    return b == 0 ? t != 3 && t != 9 : b == 1 && t < 8;
}

enum { KEPT = 22 };

static yk_t keep_of(yk_job *job)
{
    int32_t keep[B * T];
    for (int i = 0; i < B * T; i++)
        keep[i] = token_counts(i / T, i % T);
    return yk_input(job, YK_I32, 2, (int64_t[]){B, T}, keep);
}

static yk_t input_numbers(yk_job *job, uint32_t dims, const int64_t *dim, float *v, int n)
{
    for (int i = 0; i < n; i++)
        v[i] = (float)(i * 37 % 101) / 50.0f - 1;
    return yk_input(job, YK_F32, dims, dim, v);
}

static yk_t input_tokens(yk_job *job, float *v)
{
    return input_numbers(job, 3, (int64_t[]){B, T, W}, v, N);
}

START_TEST(there_and_back)
{
    yk_job *job = open_job((yk_config){0});
    float v[N], packed[N], back[N];
    yk_t x = input_tokens(job, v), keep = keep_of(job);
    ck_assert_int_eq(yk_packed_count(keep), KEPT); /* a multiple of 48 / 32 */
    yk_t p = yk_pack_tokens(x, keep);
    ck_assert_int_eq(yk_dim(p, 0), KEPT);
    ck_assert_uint_eq(yk_dims(p), 2);
    yk_keep(p);
    yk_read(yk_unpack_tokens(p, keep), back, sizeof back);
    yk_read(p, packed, KEPT * W * sizeof *packed);
    int at = 0;
    for (int i = 0; i < B * T; i++)
        for (int w = 0; w < W; w++) {
            const bool here = token_counts(i / T, i % T);
            ck_assert(back[i * W + w] == (here ? v[i * W + w] : 0.0f));
            ck_assert(!here || packed[at++] == v[i * W + w]);
        }
    ck_assert_int_eq(at, KEPT * W);
    CLOSE(job);
}
END_TEST

/* 128 tokens come in fours; a batch in which none counts has one such part. */
START_TEST(rounded_up)
{
    static const int kept[] = {0, 1, 4, 5, 125, 128}, want[] = {4, 4, 4, 8, 128, 128};
    yk_job *job = open_job((yk_config){0});
    int32_t keep[128];
    float v[128], out[128];
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) {
        for (int i = 0; i < 128; i++)
            keep[i] = i >= 128 - kept[k];
        yk_t mask = yk_input(job, YK_I32, 2, (int64_t[]){2, 64}, keep);
        yk_t x = input_numbers(job, 2, (int64_t[]){2, 64}, v, 128);
        ck_assert_int_eq(yk_packed_count(mask), want[k]);
        yk_read(yk_pack_tokens(x, mask), out, (size_t)want[k] * sizeof *out);
        for (int i = 0; i < want[k]; i++)
            ck_assert(out[i] == (i < kept[k] ? v[128 - kept[k] + i] : 0.0f));
        yk_end(job);
    }
    CLOSE(job);
}
END_TEST

/* sum of tanh(x w) over the tokens that count, times c; by packing, or by a factor of 0 or 1. */
static yk_t loss_of(yk_job *job, yk_t w, bool pack)
{
    float v[N], c[N], one[B * T];
    yk_t keep = keep_of(job), h = yk_mul(input_tokens(job, v), w), factor = input_numbers(job, 3, (int64_t[]){B, T, W}, c, N);
    for (int i = 0; i < B * T; i++)
        one[i] = token_counts(i / T, i % T);
    yk_t mask = yk_input(job, YK_F32, 3, (int64_t[]){B, T, 1}, one);
    h = pack ? yk_unpack_tokens(yk_tanh(yk_pack_tokens(h, keep)), keep) : yk_mul(yk_tanh(h), mask);
    return yk_reshape(yk_sum(yk_mul(h, factor), 7, false), 0, NULL);
}

static bool plans_have(const char *dir, const char *what)
{
    char cmd[256];
    snprintf(cmd, sizeof cmd, "grep -qw '%s' %s/plan-*.txt", what, dir);
    return system(cmd) == 0;
}

/* The gradient through both ways is that of a factor, and the plan adds no rows up: it looks them up. */
START_TEST(gradients_are_look_ups)
{
    char dir[] = "/tmp/yoke-pack-XXXXXX", cmd[64];
    float g[2][W], loss[2];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    setenv("YOKE_DUMP", dir, 1);
    for (int pack = 0; pack < 2; pack++) {
        yk_job *job = open_job((yk_config){.seed = 3});
        yk_t w = yk_param(job, "w", 1, (int64_t[]){W}, (yk_init){YK_INIT_NORMAL, 0, 1});
        yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
        yk_t l = loss_of(job, w, pack);
        yk_backward(l);
        loss[pack] = (float)yk_item(l);
        yk_step(opt);
        yk_grad_read(w, g[pack], W);
        CLOSE(job);
    }
    unsetenv("YOKE_DUMP");
    ck_assert(fabsf(loss[0] - loss[1]) < 1e-5f);
    for (int i = 0; i < W; i++)
        ck_assert_msg(fabsf(g[0][i] - g[1][i]) < 1e-5f && g[0][i] != 0, "%g, expected %g", (double)g[1][i], (double)g[0][i]);
    ck_assert(plans_have(dir, "gather"));
    ck_assert(!plans_have(dir, "scatter_add"));
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}
END_TEST

/* The same elements are dropped, whichever rows of the global batch these are. */
START_TEST(dropout_is_that_of_the_whole)
{
    static const int32_t row[B] = {7, 0, 4};
    yk_job *job = open_job((yk_config){.seed = 5});
    float v[N], whole[N], packed[N];
    for (int way = 0; way < 2; way++) {
        yk_set_rows(job, B, row, 9);
        yk_t x = input_tokens(job, v), keep = keep_of(job);
        yk_read(way ? yk_dropout_packed(yk_pack_tokens(x, keep), 0.5f, keep)
                    : yk_pack_tokens(yk_dropout(x, 0.5f), keep),
                way ? packed : whole, KEPT * W * sizeof *v);
        yk_end(job);
    }
    ck_assert_mem_eq(packed, whole, KEPT * W * sizeof *whole);
    int zeros = 0;
    for (int i = 0; i < KEPT * W; i++)
        zeros += packed[i] == 0;
    ck_assert(zeros > KEPT * W / 4 && zeros < KEPT * W * 3 / 4);
    CLOSE(job);
}
END_TEST

static void expect_refused(void (*call)(yk_job *job), const char *words)
{
    yk_job *job = open_job((yk_config){0});
    call(job);
    ck_assert_int_eq(yk_error_status(job), YK_E_ARG);
    ck_assert_msg(strstr(yk_error_text(job), words) != NULL, "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 2);
}

static void by_a_parameter(yk_job *job)
{
    yk_packed_count(yk_param(job, "keep", 2, (int64_t[]){B, T}, (yk_init){0}));
}

static void by_a_vector(yk_job *job)
{
    float v[N];
    yk_packed_count(input_numbers(job, 1, (int64_t[]){B}, v, B));
}

static void another_shape(yk_job *job)
{
    float v[N];
    yk_pack_tokens(input_numbers(job, 2, (int64_t[]){T, B}, v, T * B), keep_of(job));
}

static void not_packed(yk_job *job)
{
    float v[N];
    yk_unpack_tokens(input_tokens(job, v), keep_of(job));
}

static void not_packed_drop(yk_job *job)
{
    float v[N];
    yk_dropout_packed(input_tokens(job, v), 0.5f, keep_of(job));
}

static void all_of_it(yk_job *job)
{
    float v[N];
    yk_dropout_packed(yk_pack_tokens(input_tokens(job, v), keep_of(job)), 1.0f, keep_of(job));
}

static void rows_too_late(yk_job *job)
{
    yk_packed_count(keep_of(job));
    yk_set_rows(job, B, (int32_t[]){0, 1, 2}, B);
}

START_TEST(what_is_refused)
{
    expect_refused(by_a_parameter, "a parameter");
    expect_refused(by_a_vector, "f32[3]");
    expect_refused(another_shape, "f32[16, 3]");
    expect_refused(not_packed, "f32[3, 16, 5]");
    expect_refused(not_packed_drop, "f32[3, 16, 5]");
    expect_refused(all_of_it, "probability 1");
    expect_refused(rows_too_late, "yk_set_rows");
}
END_TEST

enum { ROWS = 8, WIDTH = 32, CLASSES = 2 };

/* Lengths from half to three quarters; the padding behind the tokens, or before them. */
static int length_of(int row)
{
    return WIDTH / 2 + row % (WIDTH / 4);
}

static yk_t logits_of(yk_job *job, yk_model *m, const int32_t *ids, const int32_t *keep, int64_t rows, int64_t width)
{
    const int64_t dim[2] = {rows, width};
    const yk_batch b = {.input_ids = yk_input(job, YK_I32, 2, dim, ids),
                        .attention_mask = keep ? yk_input(job, YK_I32, 2, dim, keep) : YK_NO,
                        .rows = rows,
                        .global_rows = rows,
                        .width = width};
    return yk_forward(m, &b);
}

/* A row's logits in a packed batch are those of the row alone, without padding. */
START_TEST(bert_without_padding)
{
    yk_job *job = open_job((yk_config){.seed = 4});
    yk_model *m = yk_model_new(job, "bert",
                               "vocab_size=50,hidden_size=16,num_hidden_layers=3,num_attention_heads=2,"
                               "intermediate_size=32,max_position_embeddings=32,initializer_range=0.3",
                               NULL);
    int32_t ids[ROWS * WIDTH], keep[ROWS * WIDTH];
    float all[ROWS * CLASSES], one[CLASSES];
    yk_train(job, false);
    for (int i = 0; i < ROWS * WIDTH; i++) {
        ids[i] = 1 + i * 37 % 49;
        keep[i] = i % WIDTH < length_of(i / WIDTH);
    }
    yk_read(logits_of(job, m, ids, keep, ROWS, WIDTH), all, sizeof all);
    ck_assert_uint_gt(job->step.n_packing, 0);
    yk_end(job);
    for (int r = 0; r < ROWS; r++) {
        yk_read(logits_of(job, m, ids + r * WIDTH, NULL, 1, length_of(r)), one, sizeof one);
        yk_end(job);
        for (int c = 0; c < CLASSES; c++)
            ck_assert_msg(fabsf(one[c] - all[r * CLASSES + c]) < 1e-5f, "row %d: %g, expected %g", r,
                          (double)all[r * CLASSES + c], (double)one[c]);
    }
    CLOSE(job);
}
END_TEST

/* The first token of a row is wanted though it is padding itself: the same whether it is packed or all tokens are kept. */
START_TEST(bert_with_padding_first)
{
    yk_job *job = open_job((yk_config){.seed = 4});
    yk_model *m = yk_model_new(job, "bert",
                               "vocab_size=50,hidden_size=16,num_hidden_layers=3,num_attention_heads=2,"
                               "intermediate_size=32,max_position_embeddings=32,initializer_range=0.3",
                               NULL);
    int32_t ids[ROWS * WIDTH], keep[ROWS * WIDTH];
    float all[ROWS * CLASSES], few[CLASSES * ROWS];
    yk_train(job, false);
    for (int i = 0; i < ROWS * WIDTH; i++) {
        ids[i] = 1 + i * 37 % 49;
        keep[i] = i / WIDTH > 0 || i % WIDTH >= WIDTH / 2;
    }
    yk_read(logits_of(job, m, ids, keep, ROWS, WIDTH), all, sizeof all); /* little to save: not packed */
    yk_end(job);
    yk_read(logits_of(job, m, ids, keep, 1, WIDTH), few, CLASSES * sizeof *few);
    ck_assert_uint_gt(job->step.n_packing, 0);
    yk_end(job);
    for (int c = 0; c < CLASSES; c++)
        ck_assert_msg(fabsf(few[c] - all[c]) < 1e-5f, "%g, expected %g", (double)few[c], (double)all[c]);
    CLOSE(job);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("pack");
    tcase_add_test(t, there_and_back);
    tcase_add_test(t, rounded_up);
    tcase_add_test(t, gradients_are_look_ups);
    tcase_add_test(t, dropout_is_that_of_the_whole);
    tcase_add_test(t, what_is_refused);
    tcase_add_test(t, bert_without_padding);
    tcase_add_test(t, bert_with_padding_first);
    return suite_run("job_pack", t);
}
