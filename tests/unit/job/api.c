/* SPDX-License-Identifier: Apache-2.0 */
/* The user API on one device: handles, errors, values, counts, training, windows, logs. */
#include <check.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/job/opt.h"
#include "tests/support/run.h"
#include "tests/support/sanitize.h"

#undef YK_HERE
#define YK_HERE(call) (yk_here(__FILE__, __LINE__), call)

static yk_job *open_job(yk_config c)
{
    c.devices = "cpu";
    c.quiet = true;
    yk_job *job = yk_open(&c);
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    return job;
}

static yk_t make_input(yk_job *job, uint32_t dims, const int64_t *dim, const float *v)
{
    return yk_input(job, YK_F32, dims, dim, v);
}

#define CLOSE(job)                                                                                                     \
    do {                                                                                                               \
        ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));                                                           \
        ck_assert_int_eq(yk_close(job), 0);                                                                            \
    } while (0)

/* ---- Handles and errors ---- */

START_TEST(dead_handle)
{
    yk_job *job = open_job((yk_config){0});
    const int64_t n = 3;
    const float v[3] = {1, 2, 3};
    yk_t x = make_input(job, 1, &n, v), y = yk_add(x, x);
    yk_keep(y);
    yk_end(job);
    yk_t z = YK_HERE(yk_neg(x));
    int line = __LINE__ - 1;
    char where[64];
    snprintf(where, sizeof where, "job/api.c:%d", line);
    ck_assert(z.id == 0);
    ck_assert_int_eq(yk_error_status(job), YK_E_ARG);
    ck_assert_msg(strstr(yk_error_text(job), where) && strstr(yk_error_text(job), "yk_neg") &&
                      strstr(yk_error_text(job), "died"),
                  "%s", yk_error_text(job));
    char first[YK_ERROR_TEXT];
    strcpy(first, yk_error_text(job));
    ck_assert(yk_add(z, z).id == 0);
    yk_param(job, "late", 1, &n, (yk_init){0});
    yk_fail(job, YK_E_IO, "later");
    ck_assert_str_eq(yk_error_text(job), first); /* the first one stays */
    ck_assert_int_eq(yk_close(job), 2);
}
END_TEST

START_TEST(foreign_and_missing_operands)
{
    yk_job *a = open_job((yk_config){0}), *b = open_job((yk_config){0});
    const int64_t n = 2;
    const float v[2] = {1, 2};
    yk_t x = make_input(a, 1, &n, v), y = make_input(b, 1, &n, v);
    ck_assert(yk_mul(x, y).id == 0);
    ck_assert_ptr_nonnull(strstr(yk_error_text(a), "another job"));
    ck_assert(yk_ok(b));
    ck_assert(yk_mul(y, YK_NO).id == 0);
    ck_assert_ptr_nonnull(strstr(yk_error_text(b), "YK_NO"));
    ck_assert_int_eq(yk_close(a), 2);
    ck_assert_int_eq(yk_close(b), 2);
    ck_assert(yk_neg(x).id == 0); /* of a closed job: no effect */
    ck_assert_int_eq((int)yk_dim(x, 0), -1);
}
END_TEST

START_TEST(parameters_hold_their_first_values)
{
    yk_job *job = open_job((yk_config){.seed = 7});
    const int64_t dim[2] = {4, 5};
    yk_t w = yk_param(job, "w", 2, dim, (yk_init){YK_INIT_NORMAL, 0.5f, 2.0f});
    yk_t u = yk_param(job, "u", 2, dim, (yk_init){YK_INIT_UNIFORM, -1.0f, 1.0f});
    yk_t s = yk_state(job, "s", YK_I32, 0, NULL, 3.0f);
    float a[20], b[20], c = 0;
    yk_param_read(w, a, 20);
    yk_param_read(u, b, 20);
    yk_param_read(s, &c, 1);
    ck_assert_float_eq(c, 3.0f);
    float mean = 0;
    for (int i = 0; i < 20; i++) {
        mean += a[i] / 20;
        ck_assert(b[i] >= -1 && b[i] < 1 && b[i] != b[(i + 1) % 20]);
    }
    ck_assert(fabsf(mean - 0.5f) < 2.0f);
    ck_assert_uint_eq(yk_param_count(job), 3);
    ck_assert_str_eq(yk_param_name(job, 1), "u");
    ck_assert(yk_param_find(job, "w").id == w.id && yk_param_find(job, "x").id == 0 && yk_ok(job));
    ck_assert(yk_param_is_state(job, 2) && !yk_param_is_state(job, 0));
    yk_param(job, "w", 2, dim, (yk_init){0});
    ck_assert_ptr_nonnull(strstr(yk_error_text(job), "\"w\""));
    ck_assert_int_eq(yk_close(job), 2);
}
END_TEST

START_TEST(shape_errors_name_shapes)
{
    yk_job *job = open_job((yk_config){0});
    const int64_t a[2] = {3, 4}, b[2] = {5, 4};
    const float v[20] = {0};
    ck_assert(yk_matmul(make_input(job, 2, a, v), make_input(job, 2, b, v)).id == 0);
    ck_assert_msg(strstr(yk_error_text(job), "[3, 4]") && strstr(yk_error_text(job), "[5, 4]"), "%s", yk_error_text(job));
    yk_close(job);
}
END_TEST

/* ---- Values ---- */

/* The length that is wrong, or all where each is right; a length of 0 does not let others be of any length. */
START_TEST(size_errors_name_lengths)
{
    static const struct {
        bool param;
        uint32_t dims;
        int64_t dim[3];
        const char *text;
    } cases[] = {{true, 2, {2147483647, 784, 0}, "w: [2147483647, 784] is too large"},
                 {true, 2, {3, 0, 0}, "w: length 0 of dimension 1 is not possible: expected at least 1"},
                 {false, 2, {-3, 4, 0}, "yk_input: length -3 of dimension 0 is not possible: expected at least 0"},
                 {false, 3, {0, 1ll << 40, 1ll << 40}, "yk_input: [0, 1099511627776, 1099511627776] is too large"},
                 {false, 3, {2, 0, 3}, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        yk_job *job = open_job((yk_config){0});
        if (cases[i].param)
            yk_param(job, "w", cases[i].dims, cases[i].dim, (yk_init){0});
        else
            yk_input(job, YK_F32, cases[i].dims, cases[i].dim, NULL);
        ck_assert_msg(strstr(yk_error_text(job), cases[i].text) && yk_ok(job) == !cases[i].text[0], "'%s'", yk_error_text(job));
        yk_close(job);
    }
}
END_TEST

START_TEST(values_can_be_read)
{
    yk_job *job = open_job((yk_config){0});
    const int64_t dim[2] = {2, 3}, row = 3;
    const float v[6] = {1, 2, 3, 4, 5, 6}, r[3] = {10, 20, 30};
    yk_t x = make_input(job, 2, dim, v), y = yk_add(yk_scale(x, 2), make_input(job, 1, &row, r));
    float got[6];
    yk_read(y, got, sizeof got);
    for (int i = 0; i < 6; i++)
        ck_assert_float_eq(got[i], 2 * v[i] + r[i % 3]);
    ck_assert_double_eq(yk_item(yk_sum(x, 3, false)), 21.0);
    ck_assert_double_eq_tol(yk_item(yk_mean(x, 3, false)), 3.5, 1e-6);
    int32_t best[2];
    yk_read(yk_argmax(x, -1), best, sizeof best);
    ck_assert(best[0] == 2 && best[1] == 2);
    const uint32_t swap[2] = {1, 0};
    float prod[4];
    yk_read(yk_matmul(x, yk_permute(x, swap)), prod, sizeof prod);
    ck_assert(prod[0] == 14 && prod[1] == 32 && prod[2] == 32 && prod[3] == 77);
    ck_assert(yk_dims(y) == 2 && yk_dim(y, -1) == 3 && yk_dim(y, 0) == 2 && yk_dim(y, 2) == -1);
    CLOSE(job);
}
END_TEST

START_TEST(kept_values_live_one_step_more)
{
    yk_job *job = open_job((yk_config){0});
    const int64_t n = 2;
    const float v[2] = {1, 2};
    yk_t x = yk_keep(yk_neg(make_input(job, 1, &n, v)));
    yk_end(job);
    float got[2];
    yk_read(x, got, sizeof got);
    ck_assert(got[0] == -1 && got[1] == -2);
    yk_t y = yk_neg(make_input(job, 1, &n, v));
    ck_assert(y.id != 0);
    yk_end(job); /* the end of the next step */
    ck_assert(isnan(yk_item(x)));
    ck_assert_ptr_nonnull(strstr(yk_error_text(job), "died"));
    yk_close(job);
}
END_TEST

/* ---- Losses and their counts ---- */

static double log_sum_exp(const float *z, int n)
{
    double s = 0;
    for (int i = 0; i < n; i++)
        s += exp((double)z[i]);
    return log(s);
}

START_TEST(cross_entropy_counts)
{
    yk_job *job = open_job((yk_config){0});
    const int64_t zd[3] = {2, 3, 4}, yd[2] = {2, 4};
    float z[24];
    for (int i = 0; i < 24; i++)
        z[i] = (float)sin(i * 1.7) * 2;
    const int32_t y[8] = {9, 1, 2, -100, 9, 3, -100, 0};
    yk_t labels = yk_slice(yk_input(job, YK_I32, 2, yd, y), 1, 1, -1, 1); /* a strided view: the count must follow it */
    double want = 0, n = 0, item;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++)
            if (y[i * 4 + k + 1] >= 0) {
                const float *row = z + (i * 3 + k) * 4;
                want += log_sum_exp(row, 4) - (double)row[y[i * 4 + k + 1]];
                n++;
            }
    item = yk_item(yk_cross_entropy(yk_input(job, YK_F32, 3, zd, z), labels));
    ck_assert_double_eq(n, 4);
    ck_assert_double_eq_tol(item, want / n, 1e-6);
    CLOSE(job);
}
END_TEST

START_TEST(labels_made_by_operations)
{
    yk_job *job = open_job((yk_config){0});
    const int64_t zd[2] = {4, 3}, yd = 4;
    const float z[12] = {0};
    const int32_t y[4] = {0, 1, 2, 0};
    yk_t l = yk_input(job, YK_I32, 1, &yd, y);
    int32_t none = -100, two = 2;
    yk_t masked = yk_where(yk_equal(l, yk_input(job, YK_I32, 0, NULL, &two)), yk_input(job, YK_I32, 0, NULL, &none), l);
    ck_assert_double_eq_tol(yk_item(yk_cross_entropy(yk_input(job, YK_F32, 2, zd, z), masked)), log(3.0), 1e-6);
    yk_t best = yk_argmax(yk_input(job, YK_F32, 2, zd, z), 1);
    ck_assert(yk_cross_entropy(yk_input(job, YK_F32, 2, zd, z), best).id == 0);
    ck_assert_ptr_nonnull(strstr(yk_error_text(job), "argmax"));
    yk_close(job);
}
END_TEST

/* ---- Training ---- */

typedef struct net {
    yk_t w1, b1, w2, b2;
} net;

static net make_net(yk_job *job)
{
    const int64_t a[2] = {16, 8}, b = 16, c[2] = {4, 16}, d = 4;
    return (net){yk_param(job, "fc1.weight", 2, a, (yk_init){YK_INIT_NORMAL, 0, 0.3f}),
                 yk_param(job, "fc1.bias", 1, &b, (yk_init){0}),
                 yk_param(job, "fc2.weight", 2, c, (yk_init){YK_INIT_NORMAL, 0, 0.3f}),
                 yk_param(job, "fc2.bias", 1, &d, (yk_init){0})};
}

/* Row r of an endless data set: a label and eight numbers that follow it. */
static void make_rows(int first, int n, float *x, int32_t *y)
{
    for (int i = 0; i < n; i++) {
        y[i] = (first + i) * 7 % 4;
        for (int k = 0; k < 8; k++)
            x[i * 8 + k] = (float)(sin((first + i) * 12.9898 + k * 78.233) * 0.3 + (k % 4 == y[i] ? 1 : 0));
    }
}

static yk_t net_loss(yk_job *job, net m, int first, int n)
{
    float x[64 * 8];
    int32_t y[64];
    const int64_t xd[2] = {n, 8}, yd = n;
    make_rows(first, n, x, y);
    yk_t h = yk_relu(yk_linear(make_input(job, 2, xd, x), m.w1, m.b1));
    return yk_cross_entropy(yk_linear(h, m.w2, m.b2), yk_input(job, YK_I32, 1, &yd, y));
}

START_TEST(training_goes_down_and_compiles_once)
{
    yk_job *job = open_job((yk_config){.seed = 1});
    net m = make_net(job);
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.02});
    double first = 0, last = 0;
    yk__engine_stats st;
    for (int i = 0; i < 40; i++) {
        yk_t loss = net_loss(job, m, i * 32, 32);
        yk_backward(loss);
        yk_clip_norm(job, 1);
        yk_step(opt);
        ck_assert_msg(yk_stepped(opt) && yk_ok(job), "%s", yk_error_text(job));
        last = yk_item(loss);
        ck_assert_double_eq_tol(last, yk_step_loss(opt), 1e-6);
        first = i ? first : last;
        if (i == 0)
            yk__engine_stats_get(job->engine, &st);
    }
    uint64_t compiles = st.compiles;
    yk__engine_stats_get(job->engine, &st);
    ck_assert_msg(last < 0.3 * first, "%g to %g", first, last);
    ck_assert_uint_eq(st.compiles, compiles);
    ck_assert_uint_eq(yk_steps(opt), 40);
    CLOSE(job);
}
END_TEST

/* One window of micro batches of the given sizes; the parameters after a plain step. */
static void window_train(yk_average average, int n, const int *rows, float *w, double *loss)
{
    yk_job *job = open_job((yk_config){.seed = 3, .accumulate = (uint32_t)n, .average = average});
    net m = make_net(job);
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.5});
    for (int i = 0, at = 0; i < n; at += rows[i++]) {
        yk_backward(net_loss(job, m, at, rows[i]));
        yk_step(opt);
        ck_assert(yk_stepped(opt) == (i + 1 == n));
    }
    *loss = yk_step_loss(opt);
    yk_param_read(m.w1, w, 128);
    CLOSE(job);
}

/* reduce_lr_on_plateau: steps leave the rate alone, each bad evaluation behind the patience lowers it. */
START_TEST(plateau_goes_by_evaluations)
{
    yk_job *job = open_job((yk_config){0});
    net m = make_net(job);
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.5});
    yk_sched *s = yk_schedule(opt, &(yk_sched_config){.name = "reduce_lr_on_plateau", .params = "patience=1,factor=0.1"});
    ck_assert(yk_sched_by_metric(s));
    for (int k = 0; k < 8; k++) { /* a loss that does not get better */
        yk_backward(yk_scale(net_loss(job, m, 0, 8), 0.0f));
        yk_step(opt);
        yk_sched_step(s);
        ck_assert(yk_lr(opt) == 0.5);
    }
    yk_sched_metric(s, 1.0);
    yk_sched_metric(s, 1.0);
    ck_assert(yk_lr(opt) == 0.5);
    yk_sched_metric(s, 1.0);
    ck_assert_double_eq_tol(yk_lr(opt), 0.05, 1e-12);
    CLOSE(job);
}
END_TEST

/* A label that is no class, and an input that is no number, are named with their row. */
START_TEST(labels_and_inputs_are_named_by_row)
{
    const int64_t xd[2] = {4, 8}, yd = 4;
    float x[32] = {0};
    yk_job *job = open_job((yk_config){0});
    net m = make_net(job);
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.5});
    x[2 * 8 + 5] = NAN;
    yk_t h = yk_linear(yk_relu(yk_linear(make_input(job, 2, xd, x), m.w1, m.b1)), m.w2, m.b2);
    yk_backward(yk_cross_entropy(h, yk_input(job, YK_I32, 1, &yd, (int32_t[]){0, 1, 0, 1})));
    yk_step(opt);
    ck_assert_int_eq(yk_error_status(job), YK_E_NUMERIC);
    ck_assert_msg(strstr(yk_error_text(job), "holds nan in row 2"), "%s", yk_error_text(job));
    yk_close(job);
    for (int reduction = 0; reduction < 3; reduction++) {
        job = open_job((yk_config){0});
        m = make_net(job);
        x[2 * 8 + 5] = 0;
        h = yk_linear(yk_relu(yk_linear(make_input(job, 2, xd, x), m.w1, m.b1)), m.w2, m.b2);
        const yk_t y = yk_input(job, YK_I32, 1, &yd, (int32_t[]){0, -100, 1, 77});
        yk_cross_entropy_with(h, y, &(yk_cross_entropy_config){.reduction = (yk_reduction)reduction});
        ck_assert_int_eq(yk_error_status(job), YK_E_ARG);
        ck_assert_msg(strstr(yk_error_text(job), "label 77 of row 3 is none of the logits'"), "%s", yk_error_text(job));
        yk_close(job);
    }
}
END_TEST

/* One axis of a pool with ceil_mode by PyTorch's definition: window i begins at i * stride - pad, the last one inside the image or
 * its left padding; an average counts pixels of the padding, but none behind it. */
static int64_t ceil_pool(bool max, const float *x, int64_t n, const yk_pool2d_config *c, double *y)
{
    const int64_t k = c->kernel[1], step = c->stride[1], pad = c->padding[1];
    int64_t out = (n + 2 * pad - k + step - 1) / step + 1;
    out -= (out - 1) * step >= n + pad;
    for (int64_t i = 0; i < out; i++) {
        const int64_t from = i * step - pad, to = from + k, end = to < n + pad ? to : n + pad;
        double sum = 0, most = -INFINITY, count = 0;
        for (int64_t p = from > 0 ? from : 0; p < to && p < n; p++)
            sum += x[p], most = fmax(most, x[p]), count++;
        y[i] = max ? most : sum / (c->exclude_padding ? count : (double)(end - from));
    }
    return out;
}

START_TEST(ceil_mode_drops_a_window_that_begins_in_the_right_padding)
{
    float x[12], got[12];
    double want[12];
    int dropped = 0;
    for (int i = 0; i < 12; i++)
        x[i] = (float)sin(i * 2.3 + 1);
    for (int code = 0; code < 8 * 3 * 4 * 2 * 3; code++) {
        const int64_t n = 4 + code % 8;
        const int32_t kernel = 2 + code / 8 % 3, stride = 1 + code / 24 % 4, pad = code / 96 % 2, mode = code / 192;
        const yk_pool2d_config c = {.kernel = {1, kernel}, .stride = {1, stride}, .padding = {0, pad}, .ceil_mode = true,
                                    .exclude_padding = mode == 2};
        yk_job *job = open_job((yk_config){0});
        const yk_t in = make_input(job, 4, (int64_t[]){1, 1, 1, n}, x);
        const yk_t y = yk_keep(mode ? yk_avg_pool2d(in, &c) : yk_max_pool2d(in, &c));
        const int64_t out = ceil_pool(!mode, x, n, &c, want);
        dropped += out != (n + 2 * pad - kernel + stride - 1) / stride + 1;
        ck_assert_int_eq(yk_dim(y, 3), out);
        yk_read(y, got, (size_t)out * sizeof *got);
        for (int64_t i = 0; i < out; i++)
            ck_assert_msg(fabs((double)got[i] - want[i]) < 1e-6, "n %lld kernel %d stride %d padding %d mode %d: window %lld is %g, not %g",
                          (long long)n, kernel, stride, pad, mode, (long long)i, (double)got[i], want[i]);
        CLOSE(job);
    }
    ck_assert_int_gt(dropped, 20);
}
END_TEST

START_TEST(windows_average_as_asked)
{
    static const int whole[1] = {24}, parts[3] = {16, 6, 2};
    float a[128], b[128], c[128], d[128];
    double la, lb, lc, ld;
    window_train(YK_AVERAGE_MICRO, 1, whole, a, &la);
    window_train(YK_AVERAGE_ITEMS, 3, parts, b, &lb);
    window_train(YK_AVERAGE_ROWS, 3, parts, c, &lc);
    window_train(YK_AVERAGE_MICRO, 3, parts, d, &ld);
    ck_assert_double_eq_tol(la, lb, 1e-6);
    ck_assert_double_eq_tol(la, lc, 1e-6);
    ck_assert(fabs(la - ld) > 1e-3);
    float worst = 0;
    for (int i = 0; i < 128; i++) {
        ck_assert_float_eq_tol(a[i], b[i], 1e-6f);
        ck_assert_float_eq_tol(a[i], c[i], 1e-6f);
        worst = fmaxf(worst, fabsf(a[i] - d[i]));
    }
    ck_assert(worst > 1e-4f);
}
END_TEST

START_TEST(reading_before_the_step_changes_nothing)
{
    float w[2][128];
    for (int k = 0; k < 2; k++) {
        yk_job *job = open_job((yk_config){.seed = 5});
        net m = make_net(job);
        yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1, .momentum = 0.9});
        for (int i = 0; i < 3; i++) {
            yk_t loss = net_loss(job, m, i * 8, 8);
            double before = k ? yk_item(loss) : 0;
            yk_backward(loss);
            if (k)
                ck_assert_double_eq(yk_item(loss), before);
            yk_step(opt);
        }
        yk_param_read(m.w1, w[k], 128);
        CLOSE(job);
    }
    ck_assert_mem_eq(w[0], w[1], sizeof w[0]);
}
END_TEST

/* 0 is the default, YK_ZERO is 0, each member by itself. */
START_TEST(zero_that_is_meant)
{
    yk_job *job = open_job((yk_config){.seed = 5});
    yk_opt *opt = yk_adam(job, &(yk_adam_config){.lr = 1, .beta1 = YK_ZERO, .eps = YK_ZERO});
    ck_assert_double_eq(opt->rule.beta1, 0);
    ck_assert_double_eq(opt->rule.beta2, 0.999);
    ck_assert_double_eq(opt->rule.eps, 0);
    const float z[4] = {1, 2, 3, 5};
    const int32_t y[2] = {0, 1};
    const int64_t zd[2] = {2, 2}, n = 2;
    yk_t logits = make_input(job, 2, zd, z), labels = yk_input(job, YK_I32, 1, &n, y);
    const double both = yk_item(yk_cross_entropy_with(logits, labels, &(yk_cross_entropy_config){0}));
    const double second = yk_item(yk_cross_entropy_with(logits, labels, &(yk_cross_entropy_config){.ignore_index = YK_ZERO}));
    ck_assert_double_eq_tol(both, (log1p(exp(1)) + log1p(exp(-2))) / 2, 1e-6);
    ck_assert_double_eq_tol(second, log1p(exp(-2)), 1e-6);
    CLOSE(job);
}
END_TEST

/* A missing rate is PyTorch's preset for each rule, with other settings or without. */
START_TEST(a_rate_that_nobody_gives)
{
    yk_opt *(*const adam[])(yk_job *, const yk_adam_config *, size_t) = {yk_adam, yk_adamw};
    const double given[] = {0, YK_ZERO, 0.5}, want[] = {1e-3, 0, 0.5};
    for (int rule = 0; rule < 3; rule++)
        for (int i = 0; i < 4; i++) {
            yk_job *job = open_job((yk_config){.seed = 5});
            const yk_sgd_config sgd = {.lr = given[i % 3]};
            const yk_adam_config moments = {.lr = given[i % 3]};
            yk_opt *opt = rule == 2 ? yk_sgd(job, i < 3 ? &sgd : NULL) : adam[rule](job, i < 3 ? &moments : NULL, sizeof moments);
            ck_assert_double_eq(yk_lr(opt), want[i % 3]);
            CLOSE(job);
        }
}
END_TEST

/* Rows that come first in an order by a seed. */
static uint64_t order_of(uint64_t job_seed, uint64_t data_seed)
{
    char spec[] = "text:/tmp/yoke-order-XXXXXX";
    const int fd = mkstemp(spec + 5);
    ck_assert_int_eq(write(fd, "abcdefghijklmnopqrstuvwxyz0123456789", 36), 36);
    close(fd);
    yk_job *job = open_job((yk_config){.seed = job_seed});
    yk_data *data = yk_data_open(job, spec, &(yk_data_config){.tokenizer = "bytes", .seq_len = 1, .global_batch = 8, .whole = true,
                                                              .seed = data_seed});
    yk_batch b;
    int32_t id[8];
    uint64_t order = 0;
    ck_assert(yk_data_next(data, &b));
    yk_read(b.input_ids, id, sizeof id);
    for (int i = 0; i < 8; i++)
        order = order << 8 | (uint64_t)id[i];
    CLOSE(job);
    unlink(spec + 5);
    return order;
}

START_TEST(seeds_of_the_order)
{
    ck_assert(order_of(5, 0) == order_of(7, 5));
    ck_assert(order_of(5, (uint64_t)YK_ZERO) == order_of(0, 0));
    ck_assert(order_of(5, (uint64_t)YK_ZERO) != order_of(5, 0));
}
END_TEST

START_TEST(frozen_and_groups)
{
    yk_job *job = open_job((yk_config){.seed = 5});
    net m = make_net(job);
    float before[64], after[64], g[16];
    yk_freeze(m.w2, true);
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1, .weight_decay = 0.1});
    yk_opt_move(opt, yk_opt_group(opt, 0.0, 0.0), m.b1);
    yk_param_read(m.w2, before, 64);
    yk_backward(net_loss(job, m, 0, 8));
    yk_step(opt);
    yk_param_read(m.w2, after, 64);
    ck_assert_mem_eq(before, after, sizeof before);
    yk_param_read(m.b1, after, 16);
    for (int i = 0; i < 16; i++)
        ck_assert_float_eq(after[i], 0);
    yk_grad_read(m.b1, g, 16);
    float sum = 0;
    for (int i = 0; i < 16; i++)
        sum += fabsf(g[i]);
    ck_assert(sum > 0);
    CLOSE(job);
}
END_TEST

START_TEST(dropout_follows_the_global_row)
{
    yk_job *job = open_job((yk_config){.seed = 5});
    const int64_t all[2] = {6, 50}, two[2] = {2, 50};
    float ones[300], whole[300], part[100];
    const int32_t row[2] = {1, 4};
    for (int i = 0; i < 300; i++)
        ones[i] = 1;
    yk_read(yk_dropout(make_input(job, 2, all, ones), 0.5f), whole, sizeof whole);
    yk_end(job);
    yk_set_rows(job, 2, row, 6);
    yk_read(yk_dropout(make_input(job, 2, two, ones), 0.5f), part, sizeof part);
    ck_assert_mem_eq(part, whole + 50, 200);
    ck_assert_mem_eq(part + 50, whole + 200, 200);
    int zeros = 0;
    for (int i = 0; i < 300; i++)
        zeros += whole[i] == 0;
    ck_assert(zeros > 100 && zeros < 200);
    CLOSE(job);
}
END_TEST

/* Is a descriptor open on the file that a program which is started now would inherit? -1: none is open on it. */
static int file_inherited(const char *path)
{
    struct stat want, have;
    int found = -1;
    ck_assert_int_eq(stat(path, &want), 0);
    for (int fd = 0; fd < 256 && found < 1; fd++)
        if (!fstat(fd, &have) && have.st_dev == want.st_dev && have.st_ino == want.st_ino)
            found = !(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    return found;
}

START_TEST(log_lines)
{
    char path[] = "/tmp/yoke-job-log-XXXXXX", line[256];
    int fd = mkstemp(path), n = 0;
    ck_assert_int_ge(fd, 0);
    close(fd);
    yk_job *job = open_job((yk_config){.seed = 1});
    net m = make_net(job);
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
    yk_track_open(job, path);
    ck_assert_int_eq(file_inherited(path), 0);
    double item[3];
    for (int i = 0; i < 3; i++) {
        yk_t loss = net_loss(job, m, i * 8, 8);
        yk_backward(loss);
        yk_step(opt);
        yk_track(job, "loss", loss);
        item[i] = yk_item(loss);
    }
    CLOSE(job);
    FILE *f = fopen(path, "r");
    while (fgets(line, sizeof line, f)) {
        double v = 0;
        int step = 0;
        ck_assert_int_eq(sscanf(line, "{\"step\": %d, \"loss\": %lf}", &step, &v), 2);
        ck_assert_int_eq(step, n + 1);
        ck_assert_double_eq_tol(v, item[n], 1e-6);
        n++;
    }
    fclose(f);
    unlink(path);
    ck_assert_int_eq(n, 3);
}
END_TEST

START_TEST(items_need_one_counted_term)
{
    yk_job *job = open_job((yk_config){.seed = 1, .average = YK_AVERAGE_ITEMS});
    net m = make_net(job);
    yk_backward(yk_add(net_loss(job, m, 0, 8), net_loss(job, m, 8, 8)));
    ck_assert_ptr_nonnull(strstr(yk_error_text(job), "several"));
    yk_close(job);
    job = open_job((yk_config){.seed = 1, .average = YK_AVERAGE_ITEMS});
    m = make_net(job);
    yk_t other = net_loss(job, m, 0, 8); /* traced, but no part of the loss */
    ck_assert(other.id != 0);
    yk_backward(yk_scale(net_loss(job, m, 8, 8), 2));
    CLOSE(job);
}
END_TEST

START_TEST(no_label_counts_nothing)
{
    yk_job *job = open_job((yk_config){.seed = 1});
    const int64_t wd[2] = {3, 2}, xd[2] = {2, 2}, yd = 2;
    const float x[4] = {1, 2, 3, 4};
    const int32_t y[2] = {-100, -100};
    float before[6], after[6];
    yk_t w = yk_param(job, "w", 2, wd, (yk_init){YK_INIT_NORMAL, 0, 1});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 1});
    yk_param_read(w, before, 6);
    yk_t loss = yk_cross_entropy(yk_linear(make_input(job, 2, xd, x), w, YK_NO), yk_input(job, YK_I32, 1, &yd, y));
    yk_backward(loss);
    yk_step(opt);
    ck_assert_double_eq(yk_item(loss), 0.0);
    ck_assert_double_eq(yk_step_loss(opt), 0.0);
    yk_param_read(w, after, 6);
    ck_assert_mem_eq(before, after, sizeof before);
    CLOSE(job);
}
END_TEST

START_TEST(recomputed_blocks_give_the_same_bits)
{
    float w[2][128];
    for (int k = 0; k < 2; k++) {
        yk_job *job = open_job((yk_config){.seed = 5});
        net m = make_net(job);
        yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
        for (int i = 0; i < 3; i++) {
            if (k)
                yk_recompute_begin(job);
            yk_t loss = net_loss(job, m, i * 8, 8);
            if (k)
                yk_recompute_end(job);
            yk_backward(loss);
            yk_step(opt);
        }
        yk_param_read(m.w1, w[k], 128);
        CLOSE(job);
    }
    ck_assert_mem_eq(w[0], w[1], sizeof w[0]);
}
END_TEST

/* The norm of gradients g at each of eight places, by its formula: their squares are no numbers of f32. */
START_TEST(norms_beyond_the_range_of_f32)
{
    static const double size[] = {1e-25, 1e-36, 1e-10, 1.0, 3e19, 1e25, 1e37};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        yk_job *job = open_job((yk_config){.seed = 1});
        const yk_t w = yk_param(job, "w", 1, (int64_t[]){8}, (yk_init){YK_INIT_ONES, 0, 0});
        yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
        yk_set_lr(opt, 0);
        yk_backward(yk_sum(yk_scale(w, (float)size[i]), 1, false));
        yk_step(opt);
        ck_assert_double_eq_tol(yk_grad_norm(opt) / ((double)(float)size[i] * sqrt(8)), 1, 1e-6);
        CLOSE(job);
    }
}
END_TEST

/* A loss that overflows fp16: steps are skipped, the scale falls, at its floor the job ends and names the tensor. */
START_TEST(the_floor_of_the_loss_scale)
{
    yk_job *job = open_job((yk_config){
        .seed = 1, .precision = YK_F16, .scale = {.rule = YK_SCALE_DEEPSPEED, .init = 4, .hysteresis = 1}});
    net m = make_net(job);
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
    float before[128], after[128];
    yk_param_read(m.w1, before, 128);
    for (int i = 0; i < 3; i++) {
        ck_assert(yk_loss_scale(opt) == 4.0 / (1 << (i > 2 ? 2 : i)));
        ck_assert(i == 0 || isinf(yk_grad_norm(opt)));
        yk_backward(yk_scale(net_loss(job, m, 0, 8), 1e38f));
        yk_step(opt);
        ck_assert(!yk_stepped(opt));
    }
    ck_assert_msg(strstr(yk_error_text(job), "floor") && strstr(yk_error_text(job), "fc"), "%s", yk_error_text(job));
    ck_assert_uint_eq(yk_steps(opt), 0);
    yk_close(job);
    job = open_job((yk_config){.seed = 1, .precision = YK_F16});
    m = make_net(job);
    opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
    yk_backward(net_loss(job, m, 0, 8));
    yk_step(opt);
    ck_assert(yk_stepped(opt) && yk_loss_scale(opt) == 65536.0);
    yk_param_read(m.w1, after, 128);
    ck_assert(memcmp(before, after, sizeof before) != 0);
    CLOSE(job);
}
END_TEST

/* Whatever the rule, gradients that no scale makes finite end the job: torch has no floor, a fixed scale does not fall. */
START_TEST(gradients_that_stay_infinite)
{
    static const yk_scale_config rule[] = {{.rule = YK_SCALE_TORCH}, {.rule = YK_SCALE_MEGATRON}, {.fixed = 8}};
    for (int k = 0; k < 3; k++) {
        yk_job *job = open_job((yk_config){.seed = 1, .precision = YK_F16, .scale = rule[k]});
        net m = make_net(job);
        yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
        int steps = 0;
        for (; steps < 200 && yk_ok(job); steps++) {
            yk_backward(yk_scale(net_loss(job, m, 0, 8), (float)NAN));
            yk_step(opt);
        }
        ck_assert_int_eq(steps, k ? 100 : 41);
        ck_assert_int_eq(yk_error_status(job), YK_E_NUMERIC);
        ck_assert_msg(strstr(yk_error_text(job), "in a row") && strstr(yk_error_text(job), "fc"), "%s", yk_error_text(job));
        ck_assert_int_eq(yk_close(job), 1);
    }
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("job");
    tcase_add_test(t, dead_handle);
    tcase_add_test(t, plateau_goes_by_evaluations);
    if (!TEST_UNDER_TSAN) /* 576 jobs, of one thread */
        tcase_add_test(t, ceil_mode_drops_a_window_that_begins_in_the_right_padding);
    tcase_add_test(t, labels_and_inputs_are_named_by_row);
    tcase_add_test(t, foreign_and_missing_operands);
    tcase_add_test(t, parameters_hold_their_first_values);
    tcase_add_test(t, shape_errors_name_shapes);
    tcase_add_test(t, size_errors_name_lengths);
    tcase_add_test(t, values_can_be_read);
    tcase_add_test(t, kept_values_live_one_step_more);
    tcase_add_test(t, cross_entropy_counts);
    tcase_add_test(t, labels_made_by_operations);
    tcase_add_test(t, training_goes_down_and_compiles_once);
    tcase_add_test(t, windows_average_as_asked);
    tcase_add_test(t, reading_before_the_step_changes_nothing);
    tcase_add_test(t, zero_that_is_meant);
    tcase_add_test(t, a_rate_that_nobody_gives);
    tcase_add_test(t, seeds_of_the_order);
    tcase_add_test(t, frozen_and_groups);
    tcase_add_test(t, dropout_follows_the_global_row);
    tcase_add_test(t, log_lines);
    tcase_add_test(t, items_need_one_counted_term);
    tcase_add_test(t, no_label_counts_nothing);
    tcase_add_test(t, recomputed_blocks_give_the_same_bits);
    tcase_add_test(t, norms_beyond_the_range_of_f32);
    tcase_add_test(t, the_floor_of_the_loss_scale);
    tcase_add_test(t, gradients_that_stay_infinite);
    return suite_run("job_api", t);
}
