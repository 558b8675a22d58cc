/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention by cuDNN, on the fakes (tests/fakes), whose cuDNN computes the graph that it is given: results and gradients against double,
 * dense and packed, graphs, bits that stay the same, work for the plugin's own kernels, refused libraries, calls that fail in turn, a
 * lost device.
 */
#include "tests/support/sanitize.h"
#include "tests/unit/cuda/case.h"

#include <math.h>

#define SCALE 0.35

/* ---- A case: attention, and its gradients by what it computed ---- */

typedef struct shape {
    int dtype;
    int64_t batch, heads, queries, keys, size;
    bool causal, packed; /* q, k, v and their gradients lie in [batch, queries, 3, heads, size], others in [batch, queries, heads, size] */
    int64_t flags, kv_heads, start; /* kv_heads 0: heads; start: elements before dense operands */
    int64_t lse_start;
    bool forward; /* no gradients */
} shape;

enum { Q, K, V, OUT, GOUT, GQ, GK, GV, HEADS };

typedef struct attention {
    kit *k;
    shape of;
    uint32_t v[HEADS], lse, bias, keep;
} attention;

static int64_t rows_of(const shape *s, int which)
{
    return which == K || which == V || which == GK || which == GV ? s->keys : s->queries;
}

static int64_t heads_of(const shape *s, int which)
{
    return s->kv_heads && (which == K || which == V) ? s->kv_heads : s->heads;
}

/* [batch, heads, rows, size]; packed: of rows of tokens, `many` of them beside each other in `base`, of which it is number `at`. */
static uint32_t heads_new(kit *k, const shape *s, int which, uint32_t base, int64_t many, int64_t at)
{
    const int64_t h = heads_of(s, which), rows = rows_of(s, which), size = s->size, line = many * h * size;
    const int64_t dim[] = {s->batch, h, rows, size}, packed[] = {rows * line, size, line, 1};
    const int64_t dense[] = {h * rows * size, rows * size, size, 1};
    if (!s->packed)
        base = KIT(k, s->dtype, s->start + s->batch * h * rows * size);
    else if (base == YK_NONE)
        base = KIT(k, s->dtype, s->batch * rows * line);
    if (which <= V || which == GOUT)
        kit_random(k, base, -1, 1);
    return kit_view(k, base, 4, dim, s->packed ? packed : dense, s->packed ? at * h * size : s->start);
}

static void operands_new(attention *a, int first)
{
    kit *k = a->k;
    const shape *s = &a->of;
    for (int i = 0; i < 3; i++)
        a->v[first + i] = heads_new(k, s, first + i, i ? k->value[a->v[first]].base : YK_NONE, 3, i);
}

static attention attention_new(shape of)
{
    attention a = {.k = kit_new(), .of = of, .bias = YK_NONE, .keep = YK_NONE};
    kit *k = a.k;
    const int64_t rows = of.batch * of.heads * of.queries, dim[] = {of.batch, of.heads, of.queries};
    const int64_t stride[] = {of.heads * of.queries, of.queries, 1};
    const int64_t attr[] = {of.causal, yk_attr_of_f64(SCALE), 0, 11, of.flags};
    uint32_t in[11] = {0}, n = 3;
    operands_new(&a, Q);
    a.v[OUT] = heads_new(k, &a.of, OUT, YK_NONE, 1, 0);
    a.lse = kit_view(k, KIT(k, YK_F32, of.lse_start + rows), 3, dim, stride, of.lse_start);
    if (of.flags & YK_ATT_KEEP)
        kit_random_int(k, in[n++] = a.keep = KIT(k, YK_F32, of.batch, of.keys), 0, 1);
    if (of.flags & YK_ATT_BIAS)
        kit_random(k, in[n++] = a.bias = KIT(k, YK_F32, of.batch, of.heads, of.queries, of.keys), -1, 1);
    if (of.flags & YK_ATT_DROP) { /* no effect: the rate is 0 */
        in[n++] = KIT(k, YK_I32, 4);
        in[n++] = KIT(k, YK_I32, of.batch);
    }
    memcpy(in, a.v, 3 * sizeof *in);
    in[n] = YK_NONE;
    kit_node(k, YK_OP_ATTENTION, in, KIT_IDS(a.v[OUT], a.lse), attr, 5);
    if (of.forward)
        return a;
    a.v[GOUT] = heads_new(k, &a.of, GOUT, YK_NONE, 1, 0);
    operands_new(&a, GQ);
    memmove(in + 3, in, (n + 1) * sizeof *in);
    in[0] = a.v[GOUT], in[1] = a.v[OUT], in[2] = a.lse;
    kit_node(k, YK_OP_ATTENTION_BWD, in, KIT_IDS(a.v[GQ], a.v[GK], a.v[GV]), attr, 5);
    return a;
}

/* ---- The same in double ---- */

static double *head_numbers(const attention *a, int which, int64_t head)
{
    const int64_t n = rows_of(&a->of, which) * a->of.size, h = heads_of(&a->of, which), b = head / a->of.heads;
    const int64_t at = b * h + head % a->of.heads * h / a->of.heads;
    double *x = calloc((size_t)n, sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = kit_at(a->k, a->v[which], at * n + i);
    return x;
}

/* Row i of P, and its log-sum-exp; all of `a` is of one head. */
static double row_fill(const attention *a, int64_t head, const double *q, const double *k, int64_t i, double *p)
{
    const shape *s = &a->of;
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < s->keys; j++) {
        p[j] = a->bias == YK_NONE ? 0 : kit_at(a->k, a->bias, (head * s->queries + i) * s->keys + j);
        for (int64_t d = 0; d < s->size; d++)
            p[j] += SCALE * q[i * s->size + d] * k[j * s->size + d];
        if ((s->causal && j > i + s->keys - s->queries) ||
            (a->keep != YK_NONE && kit_at(a->k, a->keep, head / s->heads * s->keys + j) == 0))
            p[j] = -INFINITY;
        most = fmax(most, p[j]);
    }
    for (int64_t j = 0; j < s->keys; j++)
        sum += p[j] = exp(p[j] - most);
    for (int64_t j = 0; j < s->keys; j++)
        p[j] /= sum;
    return most + log(sum);
}

/* Row i of out in double; then what it adds to the gradients. */
static void row_gradients(const shape *s, double *const x[HEADS], int64_t i, const double *p)
{
    double delta = 0, *out = x[OUT] + i * s->size;
    for (int64_t j = 0; j < s->keys; j++)
        for (int64_t d = 0; d < s->size; d++)
            out[d] += p[j] * x[V][j * s->size + d];
    if (s->forward)
        return;
    const double *gout = x[GOUT] + i * s->size;
    for (int64_t d = 0; d < s->size; d++)
        delta += gout[d] * out[d];
    for (int64_t j = 0; j < s->keys; j++) {
        double gp = 0;
        for (int64_t d = 0; d < s->size; d++) {
            gp += gout[d] * x[V][j * s->size + d];
            x[GV][j * s->size + d] += p[j] * gout[d];
        }
        for (int64_t d = 0; d < s->size; d++) {
            x[GQ][i * s->size + d] += SCALE * p[j] * (gp - delta) * x[K][j * s->size + d];
            x[GK][j * s->size + d] += SCALE * p[j] * (gp - delta) * x[Q][i * s->size + d];
        }
    }
}

/* Within so much of the largest. */
static void heads_near(const attention *a, int which, int64_t head, const double *want)
{
    static const char *const name[HEADS] = {"q", "k", "v", "out", "gout", "gq", "gk", "gv"};
    const int64_t n = rows_of(&a->of, which) * a->of.size;
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(want[i]));
    for (int64_t i = 0; i < n; i++) {
        const double got = kit_at(a->k, a->v[which], head * n + i);
        ck_assert_msg(fabs(got - want[i]) <= most * (a->of.dtype == YK_F16 ? 0.004 : 0.02), "%s: [%lld,%lld,%lld] is %g, and should be %g",
                      name[which], (long long)head, (long long)(i / a->of.size), (long long)(i % a->of.size), got, want[i]);
    }
}

static void head_right(const attention *a, int64_t head)
{
    const shape *s = &a->of;
    double *x[HEADS] = {NULL}, *p = calloc((size_t)s->keys, sizeof *p);
    for (int i = 0; i < (s->forward ? OUT + 1 : HEADS); i++)
        if (i <= V || i == GOUT)
            x[i] = head_numbers(a, i, head);
        else
            x[i] = calloc((size_t)(rows_of(s, i) * s->size), sizeof **x);
    for (int64_t i = 0; i < s->queries; i++) {
        const double want = row_fill(a, head, x[Q], x[K], i, p), got = kit_at(a->k, a->lse, head * s->queries + i);
        ck_assert_msg(fabs(got - want) < 1e-4, "lse [%lld,%lld] is %g, and should be %g", (long long)head, (long long)i, got, want);
        row_gradients(s, x, i, p);
    }
    heads_near(a, OUT, head, x[OUT]);
    for (int i = GQ; i < HEADS && !s->forward; i++)
        heads_near(a, i, head, x[i]);
    for (int i = 0; i < HEADS; i++)
        free(x[i]);
    free(p);
}

static void attention_right(const attention *a)
{
    for (int64_t head = 0; head < a->of.batch * a->of.heads; head++)
        head_right(a, head);
}

/* Right, and so many of it by the library. */
static void shape_works(shape of, uint64_t by_library)
{
    attention a = attention_new(of);
    const uint64_t before = dnn.attentions();
    ck_assert_msg(graph_run(a.k, 1) == YK_OK, "%s%s", plugin_host_text, dnn.wrong());
    attention_right(&a);
    ck_assert_msg(dnn.attentions() - before == by_library, "%llu of %llu by cuDNN: %s%s",
                  (unsigned long long)(dnn.attentions() - before), (unsigned long long)by_library, plugin_host_text, dnn.wrong());
    kit_free(a.k);
    *plugin_host_text = 0;
}

#define USUAL .dtype = YK_BF16, .batch = 2, .heads = 3, .queries = 64, .keys = 64, .size = 16

/* ---- By the library ---- */

START_TEST(every_type_mask_and_layout_is_computed_by_the_library)
{
    ck_assert_int_eq(device_start(), YK_OK);
    for (int i = 0; i < 8; i++)
        shape_works((shape){.dtype = i & 1 ? YK_F16 : YK_BF16,
                            .batch = 2,
                            .heads = 3,
                            .queries = 72 - i,
                            .keys = 72 - i,
                            .size = i & 1 ? 32 : 64,
                            .causal = i & 2,
                            .packed = i & 4},
                    2);
    device_stop();
}
END_TEST

START_TEST(sizes_of_all_kinds_fit)
{
    static const shape of[] = {
        {.dtype = YK_BF16, .batch = 2, .heads = 2, .queries = 40, .keys = 130, .size = 16},
        {.dtype = YK_F16, .batch = 1, .heads = 2, .queries = 130, .keys = 40, .size = 48},
        {.dtype = YK_BF16, .batch = 1, .heads = 1, .queries = 65, .keys = 65, .size = 128, .causal = true},
        {.dtype = YK_BF16, .batch = 1, .heads = 3, .queries = 64, .keys = 64, .size = 16, .causal = true, .packed = true},
        {.dtype = YK_BF16, .batch = 3, .heads = 1, .queries = 64, .keys = 64, .size = 16, .causal = true, .packed = true},
        {.dtype = YK_BF16, .batch = 2, .heads = 1, .queries = 1, .keys = 4096, .size = 16, .start = 8},
        {.dtype = YK_BF16, .batch = 2, .heads = 2, .queries = 4096, .keys = 1, .size = 16},
        {.dtype = YK_BF16, .batch = 1, .heads = 2, .queries = 64, .keys = 64, .size = 16, .lse_start = 4},
    };
    ck_assert_int_eq(device_start(), YK_OK);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        shape_works(of[i], 2);
    device_stop();
}
END_TEST

START_TEST(it_is_recorded_and_planned_once)
{
    attention a = attention_new((shape){USUAL, .causal = true});
    const uint64_t graphs = fake.graphs(), attentions = dnn.attentions();
    ck_assert_int_eq(device_start(), YK_OK);
    graph_works(a.k, RUNS);
    attention_right(&a);
    ck_assert_uint_eq(fake.graphs() - graphs, RUNS - 1);
    ck_assert_uint_eq(dnn.attentions() - attentions, 2 * 2); /* the first run, and its recording */
    const uint64_t live = dnn.live();
    graph_works(a.k, 1); /* another program of the same shapes */
    ck_assert_uint_eq(dnn.live(), live);
    device_stop();
    kit_free(a.k);
}
END_TEST

START_TEST(bits_are_the_same_each_time)
{
    attention a = attention_new((shape){USUAL, .packed = true});
    const uint32_t slot[] = {a.k->value[a.v[OUT]].slot, a.k->value[a.lse].slot, a.k->value[a.v[GQ]].slot};
    void *first[3];
    ck_assert_int_eq(device_start(), YK_OK);
    graph_works(a.k, 1);
    for (int i = 0; i < 3; i++)
        first[i] = memcpy(malloc(a.k->slot[slot[i]].bytes), a.k->data[slot[i]], a.k->slot[slot[i]].bytes);
    for (int run = 1; run < 4; run++) {
        graph_works(a.k, run);
        for (int i = 0; i < 3; i++)
            ck_assert_mem_eq(first[i], a.k->data[slot[i]], a.k->slot[slot[i]].bytes);
    }
    device_stop();
    for (int i = 0; i < 3; i++)
        free(first[i]);
    kit_free(a.k);
}
END_TEST

/* ---- By the plugin's kernels ---- */

START_TEST(what_the_library_is_not_asked_for_is_right_too)
{
    static const shape of[] = {
        {USUAL, .flags = YK_ATT_KEEP},
        {USUAL, .flags = YK_ATT_BIAS},
        {USUAL, .flags = YK_ATT_DROP, .causal = true},
        {USUAL, .start = 4}, /* operands at byte 8 */
        {USUAL, .lse_start = 1},
        {USUAL, .kv_heads = 1, .forward = true},
        {.dtype = YK_BF16, .batch = 2, .heads = 3, .queries = 63, .keys = 65, .size = 16},
        {.dtype = YK_BF16, .batch = 1, .heads = 2, .queries = 64, .keys = 70, .size = 16, .causal = true},
    };
    ck_assert_int_eq(device_start(), YK_OK);
    const uint64_t calls = dnn.calls();
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        shape_works(of[i], 0);
    ck_assert_uint_eq(dnn.calls(), calls);
    device_stop();
}
END_TEST

static uint32_t text_count(const char *words)
{
    uint32_t n = 0;
    for (const char *at = strstr(plugin_host_text, words); at; at = strstr(at + 1, words))
        n++;
    return n;
}

/* By kernels of the plugin, twice, and `words` once in what is said. */
static void kernels_compute(const char *words)
{
    const uint64_t before = dnn.attentions();
    *plugin_host_text = 0;
    ck_assert_int_eq(device_start(), YK_OK);
    for (int i = 0; i < 2; i++) {
        attention a = attention_new((shape){USUAL});
        graph_works(a.k, 1);
        attention_right(&a);
        kit_free(a.k);
    }
    device_stop();
    ck_assert_uint_eq(dnn.attentions(), before);
    ck_assert_msg(text_count(words) == 1, "\"%s\" is not once in what is said:\n%s", words, plugin_host_text);
}

/* One that is no library. */
static const char *file_new(void)
{
    static char path[sizeof cache + 8];
    snprintf(path, sizeof path, "%s/words", cache);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs("no library\n", f);
    ck_assert_int_eq(fclose(f), 0);
    return path;
}

START_TEST(chips_that_the_library_does_not_know_are_computed_by_kernels)
{
    fake.set_capability(75);
    ck_assert_int_eq(device_start(), YK_OK);
    shape_works((shape){.dtype = YK_F16, .batch = 1, .heads = 1, .queries = 64, .keys = 64, .size = 16, .forward = true}, 0);
    ck_assert_uint_gt(dnn.calls(), 0); /* it was asked */
    device_stop();
}
END_TEST

START_TEST(without_the_library_kernels_compute_it_and_that_is_said)
{
    dnn.refuse(1);
    kernels_compute("attention's gradients [2,3,64,16] of bf16: not by cuDNN (not supported, says the fake cuDNN)");
    dnn.refuse(0);
    setenv("FAKE_CUDNN_VERSION", "8907", 1);
    kernels_compute("cuDNN is not used: its version is 8907");
    unsetenv("FAKE_CUDNN_VERSION");
    plugin_host_option("CUDNN", "0");
    kernels_compute("cuDNN is not used (YOKE_CUDA_CUDNN=0)");
    plugin_host_option("CUDNN", fake_path("fake_cuda")); /* a library, but not this one */
    kernels_compute("cuDNN is not used: it lacks cudnnCreate");
    plugin_host_option("CUDNN", file_new());
    kernels_compute("no cuDNN (");
    plugin_host_option("CUDNN", "/nonexistent");
    ck_assert_int_eq(plugin->init(&plugin_host), YK_E_ARG);
    ck_assert_msg(strstr(plugin_host_text, "YOKE_CUDA_CUDNN=/nonexistent") != NULL, "%s", plugin_host_text);
    plugin->fini();
    plugin_host_option("CUDNN", fake_path("fake_cudnn"));
}
END_TEST

/* ---- Failures ---- */

/* From opening the device to closing it, the second run recorded; results are right where nothing failed. */
static yk_status scenario_run(bool forward)
{
    attention a = attention_new((shape){.dtype = YK_BF16, .batch = 1, .heads = 1, .queries = 64, .keys = 64, .size = 16, .causal = true,
                                        .forward = forward});
    *plugin_host_text = 0;
    yk_status s = device_start();
    if (!s)
        s = graph_run(a.k, 2);
    if (!s)
        attention_right(&a);
    device_stop();
    kit_free(a.k);
    return s;
}

typedef struct outcomes {
    uint64_t failures, kernels; /* runs that fail, and runs that the plugin's kernels compute */
} outcomes;

/* Fails every `step`th of so many calls. */
static outcomes calls_fail(bool forward, uint64_t calls, uint64_t step)
{
    const uint64_t abandoned = fake.abandoned();
    outcomes o = {0, 0};
    for (uint64_t n = 1; n <= calls; n += step) {
        dnn.fail_call(n);
        const yk_status s = scenario_run(forward);
        dnn.fail_call(0);
        ck_assert_msg(!s || strstr(plugin_host_text, "an attention: cuDNN"), "call %llu: status %d, and \"%s\"", (unsigned long long)n, s,
                      plugin_host_text);
        o.failures += s != YK_OK;
        o.kernels += !s && strstr(plugin_host_text, "the plugin's own kernels");
        ck_assert_uint_eq(fake.abandoned(), abandoned);
    }
    return o;
}

static uint64_t calls_count(bool forward)
{
    const uint64_t before = dnn.calls();
    ck_assert_int_eq(scenario_run(forward), YK_OK);
    ck_assert_ptr_null(strstr(plugin_host_text, "the plugin's own kernels"));
    return dnn.calls() - before;
}

/* Others than those that enqueue it, each twice, free, or are about the first engine are of its plan. */
START_TEST(every_call_fails_in_turn)
{
    const uint64_t forward = calls_count(true), both = calls_count(false), step = TEST_UNDER_ASAN ? 5 : 1; /* it is slow there */
    outcomes o = calls_fail(true, forward, step);
    ck_assert(step > 1 ? o.failures > 0 : o.failures == 2 * 7);
    ck_assert_uint_gt(o.kernels, forward / step / 2);
    o = calls_fail(false, both, 13);
    ck_assert_uint_gt(o.failures, 0);
    ck_assert_uint_gt(o.kernels, both / 13 / 2);
    ck_assert_int_eq(scenario_run(false), YK_OK);
}
END_TEST

START_TEST(a_device_that_is_lost_is_said_in_the_drivers_words)
{
    attention a = attention_new((shape){USUAL});
    ck_assert_int_eq(device_start(), YK_OK);
    fake.lose(1); /* by the forward pass, so that gradients cannot be enqueued */
    ck_assert_int_eq(graph_run(a.k, 2), YK_E_DEVICE_LOST);
    ck_assert_msg(strstr(plugin_host_text, "node 1, an attention: CUDA_ERROR_ILLEGAL_ADDRESS") != NULL, "%s", plugin_host_text);
    device_stop();
    kit_free(a.k);
}
END_TEST

int main(void)
{
    if (!fake_cuda_runs())
        return 0;
    TCase *t = tcase_create("flash");
    tcase_add_checked_fixture(t, case_start, case_stop);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, every_type_mask_and_layout_is_computed_by_the_library);
    tcase_add_test(t, sizes_of_all_kinds_fit);
    tcase_add_test(t, it_is_recorded_and_planned_once);
    tcase_add_test(t, bits_are_the_same_each_time);
    tcase_add_test(t, what_the_library_is_not_asked_for_is_right_too);
    tcase_add_test(t, chips_that_the_library_does_not_know_are_computed_by_kernels);
    tcase_add_test(t, without_the_library_kernels_compute_it_and_that_is_said);
    tcase_add_test(t, every_call_fails_in_turn);
    tcase_add_test(t, a_device_that_is_lost_is_said_in_the_drivers_words);
    return suite_run("cuda flash", t);
}
