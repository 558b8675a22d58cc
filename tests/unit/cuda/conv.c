/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions by cuDNN, on the fakes (tests/fakes), whose cuDNN computes the graph that it is given: results and gradients of every
 * kind against double, sums into an output, TF32 on request alone, graphs, work for the plugin's own kernels, refused libraries, calls
 * that fail in turn, a lost device.
 */
#include "tests/support/sanitize.h"
#include "tests/unit/cuda/case.h"

#include <float.h>
#include <math.h>

/* ---- A case: a convolution, or one of its gradients ---- */

enum { X, W, Y, TENSORS };

typedef struct shape {
    int op, dtype;
    int64_t images, channels, height, width, filters, tall, wide;
    int64_t attr[7]; /* strides, zeros, dilations, groups */
    bool is_wide, adds; /* wide: the result is f32; adds: to what is there */
    int64_t start;      /* elements before the first operand */
} shape;

typedef struct conv {
    kit *k;
    shape of;
    uint32_t v[TENSORS];
    int out; /* which of them is the result */
    double *was; /* the earlier contents */
} conv;

static int64_t out_of(int64_t in, int64_t taps, int64_t step, int64_t zeros, int64_t dilation)
{
    return (in + 2 * zeros - dilation * (taps - 1) - 1) / step + 1;
}

static uint32_t tensor_new(kit *k, int dtype, int64_t start, const int64_t dim[4])
{
    const int64_t stride[] = {dim[1] * dim[2] * dim[3], dim[2] * dim[3], dim[3], 1};
    const uint32_t base = KIT(k, dtype, start + dim[0] * stride[0]);
    kit_random(k, base, -1, 1);
    return kit_view(k, base, 4, dim, stride, start);
}

static conv conv_new(shape of)
{
    conv c = {.k = kit_new(), .of = of, .out = of.op == YK_OP_CONV2D ? Y : of.op == YK_OP_CONV2D_DX ? X : W};
    const int64_t *a = of.attr;
    const int64_t dim[TENSORS][4] = {{of.images, of.channels, of.height, of.width},
                                     {of.filters, of.channels / a[6], of.tall, of.wide},
                                     {of.images, of.filters, out_of(of.height, of.tall, a[0], a[2], a[4]),
                                      out_of(of.width, of.wide, a[1], a[3], a[5])}};
    const int first = of.op == YK_OP_CONV2D ? X : Y, second = of.op == YK_OP_CONV2D_DW ? X : W;
    for (int i = 0; i < TENSORS; i++)
        c.v[i] = tensor_new(c.k, i == c.out && of.is_wide ? YK_F32 : of.dtype, i == first ? of.start : 0, dim[i]);
    const int64_t n = kit_count(c.k, c.v[c.out]);
    c.was = calloc((size_t)n, sizeof *c.was);
    for (int64_t i = 0; i < n && of.adds; i++)
        c.was[i] = kit_at(c.k, c.v[c.out], i);
    yk_node *node = kit_node(c.k, of.op, KIT_IDS(c.v[first], c.v[second]), KIT_IDS(c.v[c.out]), a, 7);
    node->flags |= of.adds ? YK_NODE_ACCUMULATE : 0u;
    return c;
}

static void conv_free(conv *c)
{
    free(c->was);
    kit_free(c->k);
}

/* ---- The same in double, and the sums of the terms' sizes, which rounding is measured by ---- */

typedef struct reference {
    double *t[TENSORS], *sizes;
} reference;

static double *numbers_of(const kit *k, uint32_t v)
{
    const int64_t n = kit_count(k, v);
    double *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = kit_at(k, v, i);
    return x;
}

/* A row of y with a tap, and the numbers of x that it meets: x is the first one of its row. */
TEST_LOOPS static void row_add(const conv *c, reference *r, int64_t x, int64_t w, int64_t y, int64_t cols, int64_t right)
{
    const int64_t step[TENSORS] = {c->of.attr[1], 0, 1}, first[TENSORS] = {x + right, w, y};
    const int one = c->out == X ? Y : X, other = c->out == W ? Y : W;
    const double *a = r->t[one], *b = r->t[other];
    double *restrict sum = r->t[c->out], *restrict size = r->sizes;
    int64_t from = 0, to = cols;
    while (from < cols && from * step[X] + right < 0)
        from++;
    while (to > from && (to - 1) * step[X] + right >= c->of.width)
        to--;
    for (int64_t j = from; j < to; j++) {
        const double term = a[first[one] + j * step[one]] * b[first[other] + j * step[other]];
        sum[first[c->out] + j * step[c->out]] += term;
        size[first[c->out] + j * step[c->out]] += fabs(term);
    }
}

static void planes_add(const conv *c, reference *r, int64_t image, int64_t channel, int64_t filter)
{
    const int64_t *a = c->of.attr, *y = c->k->value[c->v[Y]].dim, of_group = c->of.channels / a[6];
    const int64_t x0 = (image * c->of.channels + channel) * c->of.height, y0 = (image * c->of.filters + filter) * y[2];
    for (int64_t tap = 0; tap < c->of.tall * c->of.wide; tap++)
        for (int64_t i = 0; i < y[2]; i++) {
            const int64_t row = i * a[0] + tap / c->of.wide * a[4] - a[2];
            if (row >= 0 && row < c->of.height)
                row_add(c, r, (x0 + row) * c->of.width, (filter * of_group + channel % of_group) * c->of.tall * c->of.wide + tap,
                        (y0 + i) * y[3], y[3], tap % c->of.wide * a[5] - a[3]);
        }
}

static reference reference_new(const conv *c)
{
    reference r = {.sizes = calloc((size_t)kit_count(c->k, c->v[c->out]), sizeof *r.sizes)};
    const int64_t of_group = c->of.channels / c->of.attr[6], filters = c->of.filters / c->of.attr[6];
    for (int i = 0; i < TENSORS; i++)
        r.t[i] = i == c->out ? calloc((size_t)kit_count(c->k, c->v[i]), sizeof *r.sizes) : numbers_of(c->k, c->v[i]);
    for (int64_t image = 0; image < c->of.images; image++)
        for (int64_t filter = 0; filter < c->of.filters; filter++)
            for (int64_t i = 0; i < of_group; i++)
                planes_add(c, &r, image, filter / filters * of_group + i, filter);
    return r;
}

/* The most that a result is off, as a share of the sizes of its terms, beside one rounding to its type and to the operands'. */
static double conv_error(const conv *c, bool rounds)
{
    static const double half[] = {[YK_F32] = FLT_EPSILON / 2, [YK_F16] = 0x1p-11, [YK_BF16] = 0x1p-8};
    const double unit = rounds ? half[c->of.dtype] : half[YK_F32];
    reference r = reference_new(c);
    double most = 0;
    for (int64_t i = 0, n = kit_count(c->k, c->v[c->out]); i < n; i++) {
        const double sum = r.t[c->out][i], want = sum + c->was[i], got = kit_at(c->k, c->v[c->out], i);
        const double may = 1.01 * unit * (fabs(sum) + fabs(want));
        most = fmax(most, (fabs(got - want) - may) / (r.sizes[i] + 1e-30));
        ck_assert_msg(isfinite(got), "%lld is %g", (long long)i, got);
    }
    for (int i = 0; i < TENSORS; i++)
        free(r.t[i]);
    free(r.sizes);
    return most;
}

/* Right, and so many launches of it by the library. */
static void shape_works(shape of, uint64_t by_library)
{
    conv c = conv_new(of);
    const uint64_t before = dnn.convolutions();
    ck_assert_msg(graph_run(c.k, 1) == YK_OK, "%s%s", plugin_host_text, dnn.wrong());
    ck_assert_msg(dnn.convolutions() - before == by_library, "%llu of %llu by cuDNN: %s%s",
                  (unsigned long long)(dnn.convolutions() - before), (unsigned long long)by_library, plugin_host_text, dnn.wrong());
    const double error = conv_error(&c, of.dtype != YK_F32);
    ck_assert_msg(error < 3e-6, "%g of the terms", error);
    conv_free(&c);
    *plugin_host_text = 0;
}

/* A little more than the 2^26 multiplications from which the library is asked. */
#define USUAL .images = 8, .channels = 32, .height = 32, .width = 32, .filters = 32, .tall = 3, .wide = 3, .attr = {1, 1, 1, 1, 1, 1, 1}

/* ---- By the library ---- */

START_TEST(every_kind_is_computed_by_the_library)
{
    static const int ops[] = {YK_OP_CONV2D, YK_OP_CONV2D_DX, YK_OP_CONV2D_DW}, types[] = {YK_BF16, YK_F16, YK_F32};
    ck_assert_int_eq(device_start(), YK_OK);
    for (int i = 0; i < 9; i++)
        shape_works((shape){USUAL, .op = ops[i / 3], .dtype = types[i % 3]}, 1);
    device_stop();
}
END_TEST

START_TEST(strides_zeros_dilations_and_groups_are_passed_on)
{
    static const shape of[] = {
        {.images = 9, .channels = 33, .height = 33, .width = 40, .filters = 70, .tall = 5, .wide = 3, .attr = {2, 1, 2, 1, 1, 1, 1}},
        {.images = 4, .channels = 48, .height = 40, .width = 31, .filters = 48, .tall = 3, .wide = 3, .attr = {1, 1, 0, 3, 2, 3, 1}},
        {.images = 64, .channels = 64, .height = 24, .width = 24, .filters = 128, .tall = 3, .wide = 3, .attr = {1, 1, 1, 1, 1, 1, 16}},
        {.images = 3, .channels = 3, .height = 112, .width = 97, .filters = 64, .tall = 7, .wide = 7, .attr = {1, 2, 3, 3, 1, 1, 1}},
        {.images = 16, .channels = 96, .height = 31, .width = 29, .filters = 192, .tall = 1, .wide = 1, .attr = {2, 1, 0, 0, 1, 1, 1}},
    };
    ck_assert_int_eq(device_start(), YK_OK);
    for (size_t i = 0; i < sizeof of / sizeof *of; i += TEST_UNDER_ASAN ? 2 : 1)
        for (int op = 0; op < 3; op++) {
            shape s = of[i];
            s.op = op == 0 ? YK_OP_CONV2D : op == 1 ? YK_OP_CONV2D_DX : YK_OP_CONV2D_DW;
            s.dtype = YK_BF16;
            shape_works(s, 1);
        }
    device_stop();
}
END_TEST

START_TEST(gradients_of_filters_are_widened_and_added)
{
    static const shape of[] = {
        {USUAL, .op = YK_OP_CONV2D_DW, .dtype = YK_BF16, .is_wide = true},
        {USUAL, .op = YK_OP_CONV2D_DW, .dtype = YK_F16, .is_wide = true, .adds = true},
        {USUAL, .op = YK_OP_CONV2D_DW, .dtype = YK_BF16, .adds = true},
        {USUAL, .op = YK_OP_CONV2D_DW, .dtype = YK_F32, .adds = true},
    };
    ck_assert_int_eq(device_start(), YK_OK);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        shape_works(of[i], 1);
    device_stop();
}
END_TEST

START_TEST(f32_is_rounded_to_tf32_on_request)
{
    const shape of = {USUAL, .op = YK_OP_CONV2D, .dtype = YK_F32};
    plugin_host_option("TF32", "1");
    conv c = conv_new(of);
    ck_assert_int_eq(device_start(), YK_OK);
    graph_works(c.k, 1);
    device_stop();
    plugin_host_option("TF32", NULL);
    const double error = conv_error(&c, false);
    ck_assert_msg(error > 1e-5 && error < 1e-3, "%g of the terms", error);
    conv_free(&c);
}
END_TEST

START_TEST(it_is_recorded_and_planned_once)
{
    conv c = conv_new((shape){USUAL, .op = YK_OP_CONV2D_DW, .dtype = YK_BF16, .is_wide = true});
    const uint64_t graphs = fake.graphs(), convolutions = dnn.convolutions();
    ck_assert_int_eq(device_start(), YK_OK);
    graph_works(c.k, RUNS);
    const double error = conv_error(&c, true);
    ck_assert_msg(error < 3e-6, "%g of the terms", error);
    ck_assert_uint_eq(fake.graphs() - graphs, RUNS - 1);
    ck_assert_uint_eq(dnn.convolutions() - convolutions, 2); /* the first run, and its recording */
    const uint64_t live = dnn.live();
    graph_works(c.k, 1); /* another program of the same shape */
    ck_assert_uint_eq(dnn.live(), live);
    device_stop();
    conv_free(&c);
}
END_TEST

/* ---- By the plugin's kernels, or as a product ---- */

START_TEST(what_the_library_is_not_asked_for_is_right_too)
{
    static const shape of[] = {
        {.images = 7, .channels = 32, .height = 32, .width = 32, .filters = 32, .tall = 3, .wide = 3, .attr = {1, 1, 1, 1, 1, 1, 1},
         .op = YK_OP_CONV2D, .dtype = YK_BF16}, /* small */
        {USUAL, .op = YK_OP_CONV2D, .dtype = YK_BF16, .start = 4}, /* an operand at byte 8 */
        {.images = 16, .channels = 64, .height = 32, .width = 32, .filters = 64, .tall = 1, .wide = 1, .attr = {1, 1, 0, 0, 1, 1, 1},
         .op = YK_OP_CONV2D, .dtype = YK_BF16}, /* a product */
    };
    ck_assert_int_eq(device_start(), YK_OK);
    const uint64_t calls = dnn.calls();
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        shape_works(of[i], 0);
    conv c = conv_new((shape){USUAL, .op = YK_OP_CONV2D, .dtype = YK_BF16, .is_wide = true}); /* sums that stay f32 */
    graph_works(c.k, 1);
    const double error = conv_error(&c, false);
    ck_assert_msg(error < 3e-6, "%g of the terms", error);
    ck_assert_uint_eq(dnn.calls(), calls);
    device_stop();
    conv_free(&c);
}
END_TEST

static uint32_t text_count(const char *words)
{
    uint32_t n = 0;
    for (const char *at = strstr(plugin_host_text, words); at; at = strstr(at + 1, words))
        n++;
    return n;
}

START_TEST(without_the_library_kernels_compute_it_and_that_is_said)
{
    static const char *const said = "a convolution [8,32,32,32] x [32,32,3,3] of bf16, the gradient of its input: not by cuDNN (not "
                                    "supported";
    conv c = conv_new((shape){USUAL, .op = YK_OP_CONV2D_DX, .dtype = YK_BF16});
    const uint64_t before = dnn.convolutions();
    for (int i = 0; i < 2; i++) {
        *plugin_host_text = 0;
        dnn.refuse(i == 0);
        if (i)
            plugin_host_option("CUDNN", "0");
        ck_assert_int_eq(device_start(), YK_OK);
        graph_works(c.k, 1);
        graph_works(c.k, 1);
        device_stop();
        const double error = conv_error(&c, true);
        ck_assert_msg(error < 3e-6, "%g of the terms", error);
        const char *words = i ? "cuDNN is not used (YOKE_CUDA_CUDNN=0): attention and convolutions are" : said;
        ck_assert_msg(text_count(words) == 1, "\"%s\" is not once in what is said:\n%s", words, plugin_host_text);
    }
    ck_assert_uint_eq(dnn.convolutions(), before);
    plugin_host_option("CUDNN", fake_path("fake_cudnn"));
    conv_free(&c);
}
END_TEST

/* cuDNN as package managers install it, which ends the process at the first plan if its cuBLASLt is nowhere. */
START_TEST(a_library_without_its_cublaslt_is_not_used)
{
    conv c = conv_new((shape){USUAL, .op = YK_OP_CONV2D, .dtype = YK_BF16});
    char cudnn[100], command[1000];
    snprintf(cudnn, sizeof cudnn, "%s/cudnn/lib/libcudnn.so.9", cache);
    snprintf(command, sizeof command, "cd %s && mkdir -p cudnn/lib cublas/lib && cp -L %s cudnn/lib/libcudnn.so.9 && ln -s %s cudnn/lib",
             cache, fake_path("fake_cudnn"), fake_path("fake_cuda"));
    ck_assert_int_eq(system(command), 0);
    snprintf(command, sizeof command, "cp -L %s %s/cublas/lib/libcublasLt.so.99", fake_path("fake_cublaslt"), cache);
    setenv("FAKE_CUDNN_CUDA", "99000", 1);
    plugin_host_option("CUDNN", cudnn);
    for (int there = 0; there < 2; there++) {
        ck_assert_int_eq(there ? system(command) : 0, 0);
        *plugin_host_text = 0;
        ck_assert_int_eq(device_start(), YK_OK);
        graph_works(c.k, 2);
        device_stop();
        const double error = conv_error(&c, true);
        ck_assert_msg(error < 3e-6, "%g of the terms", error);
        const char *words = there ? ": by cuDNN, " : "cuDNN is not used: it was made with CUDA 99 and needs libcublasLt.so.99";
        ck_assert_msg(text_count(words) == 1, "\"%s\" is not once in what is said:\n%s", words, plugin_host_text);
    }
    unsetenv("FAKE_CUDNN_CUDA");
    plugin_host_option("CUDNN", fake_path("fake_cudnn"));
    conv_free(&c);
}
END_TEST

/* ---- Failures ---- */

/* From opening the device to closing it, the second run recorded; results are right where nothing failed. */
static yk_status scenario_run(conv *c)
{
    *plugin_host_text = 0;
    yk_status s = device_start();
    if (!s)
        s = graph_run(c->k, 2);
    device_stop();
    return s;
}

/* Calls that enqueue it, each twice, fail the run; others cost an engine, or the plan. */
START_TEST(every_call_fails_in_turn)
{
    conv c = conv_new((shape){USUAL, .op = YK_OP_CONV2D, .dtype = YK_BF16});
    const uint64_t step = TEST_UNDER_ASAN ? 29 : 7, before = dnn.calls(), abandoned = fake.abandoned();
    uint64_t failures = 0, kernels = 0;
    ck_assert_int_eq(scenario_run(&c), YK_OK);
    for (uint64_t n = 1, calls = dnn.calls() - before; n <= calls; n += step) {
        dnn.fail_call(n);
        const yk_status s = scenario_run(&c);
        dnn.fail_call(0);
        ck_assert_msg(!s || strstr(plugin_host_text, "a convolution: cuDNN"), "call %llu: status %d, and \"%s\"", (unsigned long long)n, s,
                      plugin_host_text);
        failures += s != YK_OK;
        kernels += !s && strstr(plugin_host_text, "the plugin's own kernel");
        ck_assert_uint_eq(fake.abandoned(), abandoned);
        if (n % 5 == 1 && !s) {
            const double error = conv_error(&c, true);
            ck_assert_msg(error < 3e-6, "%g of the terms", error);
        }
    }
    ck_assert_uint_gt(failures, 0);
    ck_assert_uint_gt(kernels, 0);
    conv_free(&c);
}
END_TEST

START_TEST(a_device_that_is_lost_is_said_in_the_drivers_words)
{
    conv c = conv_new((shape){USUAL, .op = YK_OP_CONV2D, .dtype = YK_BF16});
    ck_assert_int_eq(device_start(), YK_OK);
    fake.lose(1);
    ck_assert_int_eq(graph_run(c.k, 2), YK_E_DEVICE_LOST);
    ck_assert_msg(strstr(plugin_host_text, "CUDA_ERROR_ILLEGAL_ADDRESS") != NULL, "%s", plugin_host_text);
    device_stop();
    conv_free(&c);
}
END_TEST

int main(void)
{
    if (!fake_cuda_runs())
        return 0;
    TCase *t = tcase_create("conv");
    tcase_add_checked_fixture(t, case_start, case_stop);
    tcase_set_timeout(t, 240);
    tcase_add_test(t, every_kind_is_computed_by_the_library);
    tcase_add_test(t, strides_zeros_dilations_and_groups_are_passed_on);
    tcase_add_test(t, gradients_of_filters_are_widened_and_added);
    tcase_add_test(t, f32_is_rounded_to_tf32_on_request);
    tcase_add_test(t, it_is_recorded_and_planned_once);
    tcase_add_test(t, what_the_library_is_not_asked_for_is_right_too);
    tcase_add_test(t, without_the_library_kernels_compute_it_and_that_is_said);
    tcase_add_test(t, a_library_without_its_cublaslt_is_not_used);
    tcase_add_test(t, every_call_fails_in_turn);
    tcase_add_test(t, a_device_that_is_lost_is_said_in_the_drivers_words);
    return suite_run("cuda conv", t);
}
