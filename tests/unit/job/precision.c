/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of f32 in a job of bf16 or fp16: a step that is one block has the bits of an f32 job, a part of one computes like it. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "core/job/job.h"
#include "tests/support/run.h"

enum { BATCH = 4, TOKENS = 6, WIDTH = 8, HEADS = 2, VOCAB = 11, PARAMS = 10, MOST = 4096 };

static const char *const name[PARAMS] = {"table", "gamma", "beta", "qkv.w", "qkv.b", "conv.w", "conv.b", "head.w", "head.b", "scale"};

static yk_job *open_job(yk_dtype precision)
{
    yk_job *job = (yk_open)(&(yk_config){.devices = "cpu", .quiet = true, .seed = 4, .precision = precision});
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    return job;
}

static void make_params(yk_job *job, yk_t *p)
{
    static const int64_t dim[PARAMS][4] = {{VOCAB, WIDTH}, {WIDTH}, {WIDTH}, {3 * WIDTH, WIDTH}, {3 * WIDTH}, {3, 1, 3, 3},
                                           {3}, {5, 3 * 3 * 5}, {5}, {WIDTH}};
    static const uint32_t dims[PARAMS] = {2, 1, 1, 2, 1, 4, 1, 2, 1, 1};
    for (int i = 0; i < PARAMS; i++)
        p[i] = yk_param(job, name[i], dims[i], dim[i], (yk_init){YK_INIT_NORMAL, i == 1 || i == 9 ? 1.0f : 0.0f, 0.2f});
}

static yk_t one_head(yk_t qkv, int which)
{
    const int64_t split[4] = {BATCH, TOKENS, HEADS, WIDTH / HEADS};
    const uint32_t axis[4] = {0, 2, 1, 3};
    return yk_permute(yk_reshape(yk_slice(qkv, 2, which * WIDTH, (which + 1) * WIDTH, 1), 4, split), axis);
}

/* Something of every class of operations: look-ups, norms, products, attention, views, copies, windows, maps, reductions. */
static yk_t loss_of(yk_job *job, const yk_t *p, int step)
{
    int32_t id[BATCH * TOKENS], label[BATCH];
    for (int i = 0; i < BATCH * TOKENS; i++)
        id[i] = (i * 5 + step) % VOCAB;
    for (int i = 0; i < BATCH; i++)
        label[i] = (i + step) % 5;
    yk_t ids = yk_input(job, YK_I32, 2, (int64_t[]){BATCH, TOKENS}, id);
    yk_t x = yk_layer_norm(yk_embedding(ids, p[0], -1), p[1], p[2], 1e-5f);
    yk_t qkv = yk_linear(x, p[3], p[4]);
    yk_t a = yk_attention(one_head(qkv, 0), one_head(qkv, 1), one_head(qkv, 2), &(yk_attention_config){.causal = true});
    a = yk_reshape(yk_permute(a, (uint32_t[]){0, 2, 1, 3}), 3, (int64_t[]){BATCH, TOKENS, WIDTH});
    x = yk_add(x, yk_mul(yk_gelu(a), p[9]));
    x = yk_concat((yk_t[]){yk_slice(x, 2, 0, 3, 1), yk_slice(x, 2, 3, WIDTH, 1)}, 2, 2);
    x = yk_pad(yk_reshape(x, 4, (int64_t[]){BATCH, 1, TOKENS, WIDTH}), 3, 1, 1, 0);
    yk_t y = yk_max_pool2d(yk_conv2d(x, p[5], p[6], &(yk_conv2d_config){.padding = {1, 1}}), &(yk_pool2d_config){.kernel = {2, 2}});
    y = yk_dropout(yk_sub(yk_flatten(y, 1), yk_mean(yk_flatten(y, 1), 2, true)), 0.1f);
    return yk_cross_entropy(yk_linear(y, p[7], p[8]), yk_input(job, YK_I32, 1, (int64_t[]){BATCH}, label));
}

/* Three steps; all parameters afterwards, one behind the other. */
static size_t net_train(yk_dtype precision, bool block, float *to)
{
    yk_t p[PARAMS];
    size_t n = 0;
    yk_job *job = open_job(precision);
    make_params(job, p);
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.25});
    for (int i = 0; i < 3; i++) {
        if (block)
            yk_full_precision_begin(job);
        yk_t loss = loss_of(job, p, i);
        if (block)
            yk_full_precision_end(job);
        yk_backward(loss);
        yk_step(opt);
    }
    for (int i = 0; i < PARAMS; i++) {
        size_t count = 1;
        for (uint32_t k = 0; k < yk_dims(p[i]); k++)
            count *= (size_t)yk_dim(p[i], (int32_t)k);
        ck_assert(n + count <= MOST);
        yk_param_read(p[i], to + n, count);
        n += count;
    }
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 0);
    return n;
}

START_TEST(a_step_in_a_block_has_the_bits_of_f32)
{
    static float full[MOST], low[MOST], block[MOST];
    const size_t n = net_train(YK_F32, false, full);
    for (int k = 0; k < 2; k++) {
        const yk_dtype precision = k ? YK_F16 : YK_BF16;
        net_train(precision, false, low);
        net_train(precision, true, block);
        ck_assert_mem_ne(low, full, n * sizeof *full);
        for (size_t i = 0; i < n; i++)
            ck_assert_msg(block[i] == full[i], "%s, number %zu of %zu: %.9g, in f32 %.9g", k ? "fp16" : "bf16", i, n, (double)block[i],
                          (double)full[i]);
    }
    net_train(YK_F32, true, block); /* nothing to change */
    ck_assert_mem_eq(block, full, n * sizeof *full);
}
END_TEST

static float rounded_to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &bits, 4);
    return x;
}

/* w x of this job; in a block x is not rounded, outside it is. The second form is another program of the same operations. */
START_TEST(a_block_is_wide_and_the_rest_is_not)
{
    const int64_t n = 64, wd[2] = {1, 64}, xd[2] = {1, 64};
    float w[64], x[64], y[2] = {0}, full = 0, low = 0;
    for (int i = 0; i < n; i++) {
        w[i] = 1.0f / 512 * (float)(i + 1); /* a bf16 each; x needs more bits than one has */
        x[i] = 1.0f + 1.0f / 1024 * (float)(i % 7 + 1);
        w[i] = rounded_to_bf16(w[i]);
        full += w[i] * x[i];
        low += w[i] * rounded_to_bf16(x[i]);
    }
    yk_job *job = open_job(YK_BF16);
    yk_t weight = yk_param(job, "w", 2, wd, (yk_init){0});
    yk_param_write(weight, w, 64);
    for (int k = 0; k < 2; k++) {
        if (k)
            yk_full_precision_begin(job);
        yk_t r = yk_linear(yk_input(job, YK_F32, 2, xd, x), weight, YK_NO);
        if (k)
            yk_full_precision_end(job);
        yk_read(r, &y[k], sizeof y[k]);
        yk_end(job);
    }
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    ck_assert_msg(fabsf(y[1] - full) < 1e-5f * full, "%.9g, not %.9g", (double)y[1], (double)full);
    ck_assert_msg(fabsf(y[0] - low) < 5e-3f * low && fabsf(y[0] - full) > 1e-4f * full, "%.9g, rounded %.9g, exact %.9g", (double)y[0],
                  (double)low, (double)full);
    ck_assert_int_eq(yk_close(job), 0);
}
END_TEST

static void check_refused(yk_job *job, const char *words)
{
    ck_assert_msg(strstr(yk_error_text(job), words), "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 2);
}

START_TEST(blocks_begin_and_end_in_pairs)
{
    const int64_t n = 2;
    yk_job *job = open_job(YK_BF16);
    yk_full_precision_begin(job);
    yk_full_precision_begin(job);
    check_refused(job, "blocks do not nest");
    job = open_job(YK_BF16);
    yk_full_precision_end(job);
    check_refused(job, "yk_full_precision_end without a yk_full_precision_begin in this step");
    job = open_job(YK_BF16);
    yk_full_precision_begin(job);
    (void)yk_item(yk_sum(yk_input(job, YK_F32, 1, &n, (float[]){1, 2}), 1, false));
    check_refused(job, "yk_full_precision_begin without its yk_full_precision_end");
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("precision");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, a_step_in_a_block_has_the_bits_of_f32);
    tcase_add_test(t, a_block_is_wide_and_the_rest_is_not);
    tcase_add_test(t, blocks_begin_and_end_in_pairs);
    return suite_run("job_precision", t);
}
