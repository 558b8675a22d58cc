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
    yk_job *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true, .seed = 4, .precision = precision});
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

/* ---- fp8 ---- */

/* The number of the format that is nearest to x, of two the one with an even code; scale: a power of two. */
static double rounded_to_8(double x, bool e5m2, double scale)
{
    const int mantissa = e5m2 ? 2 : 3, bias = e5m2 ? 15 : 7, codes = e5m2 ? 0x7c : 0x7f;
    double best = 0;
    int chosen = 0;
    for (int code = 1; code < codes; code++) {
        const int e = code >> mantissa, m = code & ((1 << mantissa) - 1);
        const double y = (e ? ldexp(m + (1 << mantissa), e - bias - mantissa) : ldexp(m, 1 - bias - mantissa)) / scale;
        const double now = fabs(y - fabs(x)), was = fabs(best - fabs(x));
        if (now < was || (now == was && chosen & 1))
            best = y, chosen = code;
    }
    return copysign(best, x);
}

static void round_all(const float *x, int n, bool e5m2, double *y)
{
    double largest = 0, scale = 0x1p-60;
    for (int i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)x[i]));
    while (largest * scale * 2 <= (e5m2 ? 57344 : 448))
        scale *= 2;
    for (int i = 0; i < n; i++)
        y[i] = rounded_to_8((double)x[i], e5m2, scale);
}

enum { EIGHT_ROWS = 32, EIGHT_IN = 48, EIGHT_OUT = 16 };

/* sum_r a[r][i] b[r][j] of all i and j against what was found; the largest error as a part of the largest number. */
static double products_error(const double *a, int ai, int ar, const double *b, int bj, int br, int terms, int rows, int cols,
                             const float *got)
{
    double worst = 0, most = 0;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) {
            double want = 0;
            for (int r = 0; r < terms; r++)
                want += a[i * ai + r * ar] * b[j * bj + r * br];
            worst = fmax(worst, fabs(want - (double)got[i * cols + j]));
            most = fmax(most, fabs(want));
        }
    return worst / most;
}

/* y = relu(x) w' with loss mean(y c): both gradients are products of what 8 bits hold of w, x and c / count. A second layer of its own
 * is the last. */
START_TEST(gradients_of_fp8)
{
    static float x[EIGHT_ROWS * EIGHT_IN], w[EIGHT_OUT * EIGHT_IN], c[EIGHT_ROWS * EIGHT_OUT];
    static float gx[EIGHT_ROWS * EIGHT_IN], gw[EIGHT_OUT * EIGHT_IN];
    static double x8[EIGHT_ROWS * EIGHT_IN], w8[EIGHT_OUT * EIGHT_IN], g8[EIGHT_ROWS * EIGHT_OUT], exact[EIGHT_ROWS * EIGHT_IN];
    const int64_t xd[2] = {EIGHT_ROWS, EIGHT_IN}, wd[2] = {EIGHT_OUT, EIGHT_IN}, cd[2] = {EIGHT_ROWS, EIGHT_OUT};
    for (int i = 0; i < EIGHT_ROWS * EIGHT_IN; i++)
        x[i] = (float)(exp(sin(i * 1.7) * 3) * 0.1);
    for (int i = 0; i < EIGHT_OUT * EIGHT_IN; i++)
        w[i] = (float)(sin(i * 0.77) * exp(cos(i * 2.3)) * 0.02);
    for (int i = 0; i < EIGHT_ROWS * EIGHT_OUT; i++)
        c[i] = rounded_to_bf16((float)(sin(i * 0.31) * exp(4 * cos(i * 1.1))));
    yk_job *job = open_job(YK_F8E4M3);
    const yk_init none = {0};
    yk_t p = yk_param(job, "x", 2, xd, none), q = yk_param(job, "w", 2, wd, none), last = yk_param(job, "last", 2, wd, none);
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.01});
    yk_param_write(p, x, EIGHT_ROWS * EIGHT_IN);
    yk_param_write(q, w, EIGHT_OUT * EIGHT_IN);
    yk_t y = yk_linear(yk_relu(p), q, YK_NO), z = yk_linear(yk_input(job, YK_F32, 2, xd, x), last, YK_NO);
    yk_backward(yk_add(yk_mean(yk_mul(y, yk_input(job, YK_F32, 2, cd, c)), 3, false), yk_mean(z, 3, false)));
    yk_step(opt);
    yk_grad_read(p, gx, EIGHT_ROWS * EIGHT_IN);
    yk_grad_read(q, gw, EIGHT_OUT * EIGHT_IN);
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    for (int i = 0; i < EIGHT_ROWS * EIGHT_OUT; i++)
        c[i] /= EIGHT_ROWS * EIGHT_OUT;
    round_all(x, EIGHT_ROWS * EIGHT_IN, false, x8);
    round_all(w, EIGHT_OUT * EIGHT_IN, false, w8);
    round_all(c, EIGHT_ROWS * EIGHT_OUT, true, g8);
    for (int i = 0; i < EIGHT_ROWS * EIGHT_IN; i++)
        exact[i] = (double)rounded_to_bf16(x[i]);
    const double error_w = products_error(g8, 1, EIGHT_OUT, x8, 1, EIGHT_IN, EIGHT_ROWS, EIGHT_OUT, EIGHT_IN, gw);
    const double error_x = products_error(g8, EIGHT_OUT, 1, w8, 1, EIGHT_IN, EIGHT_OUT, EIGHT_ROWS, EIGHT_IN, gx);
    const double other = products_error(g8, 1, EIGHT_OUT, exact, 1, EIGHT_IN, EIGHT_ROWS, EIGHT_OUT, EIGHT_IN, gw);
    ck_assert_msg(error_w < 1e-6, "gradient of w: error %g of the largest", error_w);
    ck_assert_msg(error_x < 0x1p-8, "gradient of x: error %g of the largest", error_x); /* it leaves the layer as bf16 */
    ck_assert_msg(other > 1e-3, "of x as it is in bf16: %g", other);
    ck_assert_int_eq(yk_close(job), 0);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("precision");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, a_step_in_a_block_has_the_bits_of_f32);
    tcase_add_test(t, a_block_is_wide_and_the_rest_is_not);
    tcase_add_test(t, gradients_of_fp8);
    tcase_add_test(t, blocks_begin_and_end_in_pairs);
    return suite_run("job_precision", t);
}
