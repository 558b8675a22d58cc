/* SPDX-License-Identifier: Apache-2.0 */
/* The composites the OpenCL plugin claims, against the float64 evaluator on the same stored numbers; what it asks of the driver. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <check.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/graph/graph.h"
#include "tests/support/opencl_kit.h"

static uint64_t driver_bytes; /* that the plugin asked the driver for */
static int arguments_set;     /* arguments of kernels that the plugin has set */
static bool events_fail;      /* no event is done, and those waited for have failed */
static bool handles_return;   /* a new buffer gets the handle of a freed one */
static cl_mem freed;

/* The functions below stand before the loader's: the plugin's calls come here. */
#define HERE __attribute__((visibility("default")))

static void *loader_find(const char *name)
{
    void *loader = dlopen("libOpenCL.so.1", RTLD_NOW);
    return loader ? dlsym(loader, name) : NULL;
}

HERE cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host, cl_int *rc)
{
    static cl_mem (*real)(cl_context, cl_mem_flags, size_t, void *, cl_int *);
    real = real ? real : (cl_mem(*)(cl_context, cl_mem_flags, size_t, void *, cl_int *))loader_find("clCreateBuffer");
    driver_bytes += bytes;
    if (!freed)
        return real(context, flags, bytes, host, rc);
    const cl_mem again = freed;
    freed = NULL;
    *rc = CL_SUCCESS;
    return again;
}

HERE cl_int clReleaseMemObject(cl_mem mem)
{
    static cl_int (*real)(cl_mem);
    real = real ? real : (cl_int(*)(cl_mem))loader_find("clReleaseMemObject");
    if (!handles_return)
        return real(mem);
    freed = mem;
    return CL_SUCCESS;
}

HERE cl_int clSetKernelArg(cl_kernel kernel, cl_uint at, size_t bytes, const void *value)
{
    static cl_int (*real)(cl_kernel, cl_uint, size_t, const void *);
    real = real ? real : (cl_int(*)(cl_kernel, cl_uint, size_t, const void *))loader_find("clSetKernelArg");
    arguments_set++;
    return real(kernel, at, bytes, value);
}

HERE cl_int clWaitForEvents(cl_uint n, const cl_event *event)
{
    static cl_int (*real)(cl_uint, const cl_event *);
    real = real ? real : (cl_int(*)(cl_uint, const cl_event *))loader_find("clWaitForEvents");
    const cl_int rc = real(n, event);
    return events_fail ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST : rc;
}

HERE cl_int clGetEventInfo(cl_event event, cl_event_info what, size_t size, void *value, size_t *need)
{
    static cl_int (*real)(cl_event, cl_event_info, size_t, void *, size_t *);
    real = real ? real : (cl_int(*)(cl_event, cl_event_info, size_t, void *, size_t *))loader_find("clGetEventInfo");
    const cl_int rc = real(event, what, size, value, need);
    if (events_fail && what == CL_EVENT_COMMAND_EXECUTION_STATUS)
        *(cl_int *)value = CL_RUNNING;
    return rc;
}

static uint32_t claimed_least = 1;

/* The evaluator's result of node 0 in copies of the slots. */
static void graph_expect(const kit *k, char **copy)
{
    yk_error err = {0};
    for (uint32_t i = 0; i < k->g.n_slot; i++) {
        copy[i] = malloc(k->slot[i].bytes + 64);
        memcpy(copy[i], k->data[i], k->slot[i].bytes);
    }
    ck_assert_msg(yk__eval_node(&k->g, 0, (void *const *)copy, &err) == YK_OK, "the evaluator: %s", err.text);
}

/* Runs node 0 and compares all outputs; tol is relative to the largest expected number of that output. */
static void graph_compare(kit *k, double tol, const char *what)
{
    char *copy[KIT_VALUES] = {0};
    uint32_t claims = ok_claims(k, 0);
    const yk_node *n = &k->node[0];
    if (claims == 0 && claimed_least == 0) {
        kit_free(k);
        return;
    }
    ck_assert_msg(claims >= 1, "%s is not claimed", what);
    graph_expect(k, copy);
    ck_assert_msg(ok_run(k) == YK_OK, "%s: failed to run", what);
    for (uint32_t o = 0; o < n->n_out; o++) {
        uint32_t v = k->index[n->out + o], slot = k->value[v].slot;
        double most = 0, worst = 0;
        char *got = k->data[slot];
        for (int64_t i = 0; i < kit_count(k, v); i++) {
            double a = kit_at(k, v, i), b;
            k->data[slot] = copy[slot];
            b = kit_at(k, v, i);
            k->data[slot] = got;
            most = isfinite(b) && fabs(b) > most ? fabs(b) : most;
            ck_assert_msg(isnan(a) == isnan(b) && (isfinite(a) == isfinite(b)) && (isfinite(a) || isnan(a) || a == b),
                          "%s, output %u, element %lld: got %g, expected %g", what, o, (long long)i, a, b);
            if (isfinite(a) && fabs(a - b) > worst)
                worst = fabs(a - b);
        }
        double eps = k->value[v].dtype == YK_BF16 ? 0x1p-8 : k->value[v].dtype == YK_F16 ? 0x1p-11 : 0;
        ck_assert_msg(worst <= (tol + eps) * most + 1e-30, "%s, output %u: worst error %g of %g", what, o, worst, most);
    }
    for (uint32_t i = 0; i < k->g.n_slot; i++)
        free(copy[i]);
    kit_free(k);
}

/* ---- Convolution ---- */

typedef struct shape {
    int64_t N, C, H, W, O, kh, kw, sh, sw, ph, pw, dh, dw, groups;
} shape;

static void conv_check(const shape *s, int dtype)
{
    for (int op = YK_OP_CONV2D; op <= YK_OP_CONV2D_DW; op++) {
        kit *k = kit_new();
        int64_t OH = (s->H + 2 * s->ph - s->dh * (s->kh - 1) - 1) / s->sh + 1;
        int64_t OW = (s->W + 2 * s->pw - s->dw * (s->kw - 1) - 1) / s->sw + 1;
        uint32_t x = KIT(k, dtype, s->N, s->C, s->H, s->W), w = KIT(k, dtype, s->O, s->C / s->groups, s->kh, s->kw);
        uint32_t y = KIT(k, dtype, s->N, s->O, OH, OW);
        char what[160];
        snprintf(what, sizeof what, "conv %d of %ldx%ldx%ldx%ld, %ld filters %ldx%ld stride %ld,%ld groups %ld", op,
                 (long)s->N, (long)s->C, (long)s->H, (long)s->W, (long)s->O, (long)s->kh, (long)s->kw, (long)s->sh,
                 (long)s->sw, (long)s->groups);
        kit_random(k, x, -1, 1);
        kit_random(k, w, -1, 1);
        kit_random(k, y, -1, 1);
        const uint32_t *in = op == YK_OP_CONV2D      ? KIT_IDS(x, w)
                             : op == YK_OP_CONV2D_DX ? KIT_IDS(y, w)
                                                     : KIT_IDS(y, x);
        const uint32_t *out = op == YK_OP_CONV2D ? KIT_IDS(y) : op == YK_OP_CONV2D_DX ? KIT_IDS(x) : KIT_IDS(w);
        yk_node *n = kit_node(k, op, in, out, KIT_ATTR(s->sh, s->sw, s->ph, s->pw, s->dh, s->dw, s->groups));
        if (op == YK_OP_CONV2D_DW && s->C % 16 == 0)
            n->flags = YK_NODE_ACCUMULATE;
        graph_compare(k, 1e-5, what);
    }
}

START_TEST(test_conv)
{
    static const shape list[] = {
        {3, 16, 32, 32, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1}, {2, 5, 8, 8, 20, 3, 3, 1, 1, 1, 1, 1, 1, 1},
        {2, 5, 4, 4, 9, 3, 3, 1, 1, 1, 1, 1, 1, 1},     {2, 4, 7, 7, 8, 3, 3, 1, 1, 1, 1, 1, 1, 1},
        {2, 4, 3, 3, 8, 3, 3, 1, 1, 1, 1, 1, 1, 1},     {2, 4, 20, 18, 40, 3, 3, 2, 2, 1, 1, 1, 1, 1},
        {2, 4, 16, 16, 8, 1, 1, 2, 2, 0, 0, 1, 1, 1},   {1, 3, 33, 21, 8, 5, 3, 2, 3, 2, 0, 1, 2, 1},
        {2, 6, 9, 12, 4, 3, 2, 1, 2, 0, 1, 2, 1, 2},    {2, 8, 14, 14, 8, 3, 3, 1, 1, 1, 1, 1, 1, 8},
        {1, 64, 56, 56, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1}, {18, 16, 6, 6, 33, 1, 1, 1, 1, 0, 0, 1, 1, 1},
        {1, 2, 5, 5, 3, 3, 3, 1, 1, 3, 4, 1, 1, 1},     {1, 2, 1, 1, 3, 1, 1, 1, 1, 0, 0, 1, 1, 1},
        {2, 6, 17, 20, 4, 5, 3, 2, 3, 2, 0, 1, 1, 2},   {1, 3, 6, 5, 6, 3, 3, 2, 1, 1, 0, 1, 1, 3},
        /* Winograd: an odd number of blocks, several blocks in an image, outputs in two parts, all three widths */
        {3, 64, 8, 8, 72, 3, 3, 1, 1, 1, 1, 1, 1, 1},   {1, 34, 24, 8, 35, 3, 3, 1, 1, 1, 1, 1, 1, 1},
        {3, 32, 12, 16, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1}, {1, 128, 6, 32, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1},
        {19, 40, 8, 8, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        conv_check(&list[i], YK_F32);
    conv_check(&list[0], YK_BF16);
    conv_check(&list[1], YK_F16);
    conv_check(&list[16], YK_BF16);
    conv_check(&list[18], YK_F16);
}
END_TEST

/* ---- Rows ---- */

static void rows_check(int dtype, int64_t R, int64_t C)
{
    for (int params = 0; params < 3; params++) {
        kit *k = kit_new();
        uint32_t x = KIT(k, dtype, R, C), ga = KIT(k, YK_F32, C), be = KIT(k, YK_F32, C), y = KIT(k, dtype, R, C);
        uint32_t m = KIT(k, YK_F32, R), s = KIT(k, YK_F32, R);
        kit_random(k, x, -1, 3);
        kit_random(k, ga, 0.5, 2);
        kit_random(k, be, -1, 1);
        kit_node(k, YK_OP_LAYER_NORM, params == 2 ? KIT_IDS(x, ga, be) : params ? KIT_IDS(x, ga) : KIT_IDS(x),
                 KIT_IDS(y, m, s), KIT_ATTR(yk_attr_of_f64(1e-5)));
        graph_compare(k, 1e-5, "layer_norm");
    }
    for (int params = 0; params < 2; params++) {
        kit *k = kit_new();
        uint32_t gy = KIT(k, dtype, R, C), x = KIT(k, dtype, R, C), m = KIT(k, YK_F32, R), s = KIT(k, YK_F32, R);
        uint32_t ga = KIT(k, YK_F32, C), gx = KIT(k, dtype, R, C), gg = KIT(k, YK_F32, C), gb = KIT(k, YK_F32, C);
        kit_random(k, gy, -1, 1);
        kit_random(k, x, -1, 1);
        kit_random(k, m, -0.1, 0.1);
        kit_random(k, s, 1, 2);
        kit_random(k, ga, 0.5, 2);
        kit_node(k, YK_OP_LAYER_NORM_BWD, params ? KIT_IDS(gy, x, m, s, ga) : KIT_IDS(gy, x, m, s),
                 params ? KIT_IDS(gx, gg, gb) : KIT_IDS(gx), KIT_ATTR(0));
        graph_compare(k, 1e-5, "layer_norm_bwd");
    }
    for (int logs = 0; logs < 2; logs++) {
        kit *k = kit_new();
        uint32_t x = KIT(k, dtype, R, C), y = KIT(k, dtype, R, C);
        kit_random(k, x, -5, 5);
        kit_node(k, YK_OP_SOFTMAX, KIT_IDS(x), KIT_IDS(y), KIT_ATTR(logs));
        graph_compare(k, 1e-5, "softmax");
        k = kit_new();
        x = KIT(k, dtype, R, C), y = KIT(k, dtype, R, C);
        uint32_t g = KIT(k, dtype, R, C);
        kit_random(k, x, -1, 1);
        kit_random(k, y, logs ? -5 : 0, logs ? 0 : 1);
        kit_node(k, YK_OP_SOFTMAX_BWD, KIT_IDS(x, y), KIT_IDS(g), KIT_ATTR(logs));
        graph_compare(k, 1e-5, "softmax_bwd");
    }
}

START_TEST(test_rows)
{
    rows_check(YK_F32, 5, 70);
    rows_check(YK_F32, 300, 33);
    rows_check(YK_BF16, 4, 128);
    rows_check(YK_F16, 3, 10);
}
END_TEST

START_TEST(test_cross_entropy)
{
    for (int c = 0; c < 8; c++) {
        kit *k = kit_new();
        const int dtype = c & 4 ? YK_BF16 : YK_F32;
        const int64_t R = 9, C = 37;
        uint32_t z = KIT(k, dtype, R, C), y = KIT(k, YK_I32, R), w = KIT(k, YK_F32, C), loss = KIT(k, YK_F32, R);
        uint32_t lse = KIT(k, YK_F32, R), gl = KIT(k, YK_F32, R), gz = KIT(k, dtype, R, C);
        const int64_t attr[] = {5, yk_attr_of_f64(c & 1 ? 0.1 : 0)};
        kit_random(k, z, -4, 4);
        kit_random(k, w, 0.5, 2);
        kit_random(k, gl, -1, 1);
        kit_set(k, y, (double[]){0, 36, 5, 7, 20, 5, 3, c & 1 ? 40 : 2, 11});
        kit_node(k, YK_OP_CROSS_ENTROPY, c & 2 ? KIT_IDS(z, y, w) : KIT_IDS(z, y), KIT_IDS(loss, lse), attr, 2);
        graph_compare(k, 1e-5, "cross_entropy");
        k = kit_new();
        z = KIT(k, dtype, R, C), y = KIT(k, YK_I32, R), w = KIT(k, YK_F32, C), lse = KIT(k, YK_F32, R);
        gl = KIT(k, YK_F32, R), gz = KIT(k, dtype, R, C);
        kit_random(k, z, -4, 4);
        kit_random(k, w, 0.5, 2);
        kit_random(k, gl, -1, 1);
        kit_random(k, lse, 4, 6);
        kit_set(k, y, (double[]){0, 36, 5, 7, 20, 5, 3, 2, 11});
        kit_node(k, YK_OP_CROSS_ENTROPY_BWD, c & 2 ? KIT_IDS(gl, z, y, lse, w) : KIT_IDS(gl, z, y, lse), KIT_IDS(gz), attr, 2);
        graph_compare(k, 1e-5, "cross_entropy_bwd");
    }
}
END_TEST

START_TEST(test_bn_dropout)
{
    kit *k = kit_new();
    uint32_t x = KIT(k, YK_F32, 4, 6, 49), s = KIT(k, YK_F32, 6), y = KIT(k, YK_F32, 3, 6);
    kit_random(k, x, -1, 2);
    kit_random(k, s, -1, 1);
    kit_node(k, YK_OP_BN_STATS, KIT_IDS(x, s), KIT_IDS(y), NULL, 0);
    graph_compare(k, 1e-5, "bn_stats");
    for (int dtype = YK_F32; dtype <= YK_BF16; dtype++) {
        k = kit_new();
        x = KIT(k, dtype, 5, 7, 31);
        uint32_t key = KIT(k, YK_I32, 4), r = KIT(k, YK_I32, 5), d = KIT(k, dtype, 5, 7, 31);
        kit_random(k, x, 1, 2);
        kit_set(k, key, (double[]){77, 1, 3, 0});
        kit_set(k, r, (double[]){3, 99, 0, 2147483647, 1});
        kit_node(k, YK_OP_DROPOUT, KIT_IDS(x, key, r), KIT_IDS(d), KIT_ATTR(yk_attr_of_f64(0.3), 9));
        graph_compare(k, 1e-6, "dropout");
    }
}
END_TEST

/* ---- Pools ---- */

START_TEST(test_pool)
{
    static const int64_t list[][8] = {
        {2, 2, 2, 2, 0, 0, 1, 1}, {3, 3, 2, 2, 1, 1, 1, 1}, {3, 2, 1, 2, 1, 0, 2, 1}, {4, 4, 4, 4, 0, 0, 1, 1}};
    for (size_t c = 0; c < 4; c++) {
        const int64_t *a = list[c], H = 12, W = 10;
        int64_t OH = (H + 2 * a[4] - a[6] * (a[0] - 1) - 1) / a[2] + 1, OW = (W + 2 * a[5] - a[7] * (a[1] - 1) - 1) / a[3] + 1;
        for (int op = YK_OP_MAX_POOL; op <= YK_OP_AVG_POOL_BWD; op++) {
            bool max = op <= YK_OP_MAX_POOL_BWD;
            if (!max && (a[6] > 1 || a[7] > 1))
                continue;
            kit *k = kit_new();
            uint32_t x = KIT(k, YK_F32, 2, 3, H, W), y = KIT(k, YK_F32, 2, 3, OH, OW), g = KIT(k, YK_F32, 2, 3, H, W);
            const int64_t avg[] = {a[0], a[1], a[2], a[3], a[4], a[5], (int64_t)(c & 1)};
            kit_random_int(k, x, -5, 5);
            kit_random(k, y, -1, 1);
            if (max)
                kit_node(k, op, op == YK_OP_MAX_POOL ? KIT_IDS(x) : KIT_IDS(x, y), op == YK_OP_MAX_POOL ? KIT_IDS(y) : KIT_IDS(g),
                         a, 8);
            else
                kit_node(k, op, op == YK_OP_AVG_POOL ? KIT_IDS(x) : KIT_IDS(y), op == YK_OP_AVG_POOL ? KIT_IDS(y) : KIT_IDS(g),
                         avg, 7);
            graph_compare(k, 1e-6, "pool");
        }
    }
}
END_TEST

/* 1024 windows of ones have their maximum at one pixel: its gradient is added up in f32, as bf16 stays at 256, and f16 at 2048. */
START_TEST(test_pool_of_16_bits)
{
    for (int dtype = YK_F16; dtype <= YK_BF16; dtype++) {
        const int64_t side = dtype == YK_F16 ? 46 : 32, most = side * side;
        kit *k = kit_new();
        const uint32_t x = KIT(k, dtype, 1, 1, 2 * side, 2 * side), gy = KIT(k, dtype, 1, 1, side + 1, side + 1);
        const uint32_t gx = KIT(k, dtype, 1, 1, 2 * side, 2 * side);
        double *image = calloc((size_t)(4 * most), sizeof *image);
        image[side * 2 * side + side] = 2;
        kit_set(k, x, image);
        kit_random_int(k, gy, 1, 1);
        kit_node(k, YK_OP_MAX_POOL_BWD, KIT_IDS(x, gy), KIT_IDS(gx), KIT_ATTR(side, side, 1, 1, 0, 0, 1, 1));
        if (ok_claims(k, 0) || claimed_least) {
            ck_assert_msg(ok_run(k) == YK_OK, "failed to run");
            ck_assert_double_eq(kit_at(k, gx, side * 2 * side + side), (double)most);
        }
        free(image);
        kit_free(k);
    }
}
END_TEST

/* ---- Steps ---- */

static void set_hyper(kit *k, uint32_t h, double first)
{
    double v[16] = {1e-2, 0.9, 0.99, 1e-8, 0.1, 0.5, 0.4, 0.271, 0.3, first};
    kit_set(k, h, v);
}

START_TEST(test_steps)
{
    const int64_t n = 20001;
    for (int flags = 0; flags < 16; flags++) {
        kit *k = kit_new();
        uint32_t g = KIT(k, YK_F32, n), p = KIT(k, YK_F32, n), m = KIT(k, YK_F32, n), v = KIT(k, YK_F32, n);
        uint32_t h = KIT(k, YK_F32, 16), t = KIT(k, YK_F32, n);
        kit_random(k, g, -1, 1);
        kit_random(k, p, -1, 1);
        kit_random(k, m, -1, 1);
        kit_random(k, v, 0.1, 1);
        kit_random(k, t, 0, 1);
        set_hyper(k, h, 0);
        if (flags & YK_OPT_AMSGRAD)
            kit_node(k, YK_OP_ADAM_STEP, KIT_IDS(g, p, m, v, h, t), KIT_IDS(p, m, v, t), KIT_ATTR(flags));
        else
            kit_node(k, YK_OP_ADAM_STEP, KIT_IDS(g, p, m, v, h), KIT_IDS(p, m, v), KIT_ATTR(flags));
        graph_compare(k, 1e-5, "adam_step");
        k = kit_new();
        g = KIT(k, YK_F32, n), p = KIT(k, YK_F32, n), m = KIT(k, YK_F32, n), h = KIT(k, YK_F32, 16);
        kit_random(k, g, -1, 1);
        kit_random(k, p, -1, 1);
        kit_random(k, m, -1, 1);
        set_hyper(k, h, flags & 1);
        if (flags & 2)
            kit_node(k, YK_OP_SGD_STEP, KIT_IDS(g, p, m, h), KIT_IDS(p, m), KIT_ATTR(flags & 12));
        else
            kit_node(k, YK_OP_SGD_STEP, KIT_IDS(g, p, h), KIT_IDS(p), KIT_ATTR(flags & 12));
        graph_compare(k, 1e-5, "sgd_step");
    }
    kit *k = kit_new();
    uint32_t g = KIT(k, YK_F32, 200000), s = KIT(k, YK_F32, 1), y = KIT(k, YK_F32, 2);
    kit_random(k, g, -1, 1);
    kit_random(k, s, 0.5, 0.6);
    kit_node(k, YK_OP_GRAD_STATS, KIT_IDS(g, s), KIT_IDS(y), NULL, 0);
    graph_compare(k, 1e-5, "grad_stats");
}
END_TEST

/* ---- Attention ---- */

typedef struct att_case {
    int64_t B, H, Hk, Tq, Tk, D;
    int causal, flags, dtype;
} att_case;

static void attention_check(const att_case *c, bool back)
{
    kit *k = kit_new();
    uint32_t in[12], out[5], n = 0, m = 0;
    uint32_t q = KIT(k, c->dtype, c->B, c->H, c->Tq, c->D), kk = KIT(k, c->dtype, c->B, c->Hk, c->Tk, c->D);
    uint32_t v = KIT(k, c->dtype, c->B, c->Hk, c->Tk, c->D), o = KIT(k, c->dtype, c->B, c->H, c->Tq, c->D);
    uint32_t lse = KIT(k, YK_F32, c->B, c->H, c->Tq), go = KIT(k, c->dtype, c->B, c->H, c->Tq, c->D);
    uint32_t keep = KIT(k, YK_F32, c->B, c->Tk), bias = KITB(k, YK_F32, 1, c->B, c->H, c->Tq, c->Tk), key = KIT(k, YK_I32, 4);
    uint32_t rowid = KIT(k, YK_I32, c->B), gq = KIT(k, c->dtype, c->B, c->H, c->Tq, c->D);
    uint32_t gk = KIT(k, c->dtype, c->B, c->Hk, c->Tk, c->D), gv = KIT(k, c->dtype, c->B, c->Hk, c->Tk, c->D);
    uint32_t gb = KIT(k, YK_F32, c->B, c->H, c->Tq, c->Tk);
    const int64_t attr[] = {c->causal, yk_attr_of_f64(0.3), yk_attr_of_f64(c->flags & YK_ATT_DROP ? 0.2 : 0), 4, c->flags};
    const uint32_t all[] = {q, kk, v, o, go, bias, keep, gq, gk, gv};
    for (size_t i = 0; i < 6; i++)
        kit_random(k, all[i], -1, 1);
    kit_random_int(k, keep, 0, 1);
    kit_set(k, key, (double[]){5, 6, 7, 0});
    kit_random_int(k, rowid, 0, 1000);
    kit_random(k, lse, 3, 5);
    if (back)
        in[n++] = go, in[n++] = o, in[n++] = lse;
    in[n++] = q, in[n++] = kk, in[n++] = v;
    if (c->flags & YK_ATT_KEEP)
        in[n++] = keep;
    if (c->flags & YK_ATT_BIAS)
        in[n++] = bias;
    if (c->flags & YK_ATT_DROP)
        in[n++] = key, in[n++] = rowid;
    in[n] = YK_NONE;
    if (back)
        out[m++] = gq, out[m++] = gk, out[m++] = gv;
    else
        out[m++] = o, out[m++] = lse;
    if (back && c->flags & YK_ATT_GBIAS)
        out[m++] = gb;
    out[m] = YK_NONE;
    kit_node(k, back ? YK_OP_ATTENTION_BWD : YK_OP_ATTENTION, in, out, attr, 5);
    graph_compare(k, 2e-5, back ? "attention_bwd" : "attention");
}

START_TEST(test_attention)
{
    static const att_case list[] = {
        {2, 3, 3, 40, 40, 32, 1, 0, YK_F32},
        {1, 2, 2, 150, 150, 64, 1, 0, YK_F32},
        {2, 2, 2, 70, 300, 20, 0, YK_ATT_KEEP, YK_F32},
        {2, 2, 2, 20, 30, 128, 1, YK_ATT_BIAS | YK_ATT_GBIAS, YK_F32},
        {2, 2, 2, 30, 20, 8, 1, YK_ATT_KEEP | YK_ATT_DROP, YK_F32},
        {1, 2, 2, 33, 65, 16, 0, YK_ATT_BIAS | YK_ATT_KEEP | YK_ATT_DROP | YK_ATT_GBIAS, YK_F32},
        {1, 2, 2, 64, 64, 64, 1, 0, YK_BF16},
        {1, 4, 2, 40, 40, 16, 1, 0, YK_F32},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        attention_check(&list[i], false);
        if (list[i].H == list[i].Hk)
            attention_check(&list[i], true);
    }
}
END_TEST

START_TEST(test_dot_map)
{
    for (int c = 0; c < 4; c++) {
        kit *k = kit_new();
        const int dtype = c == 3 ? YK_BF16 : YK_F32;
        const int64_t B = c == 1 ? 3 : 1, M = 37, N = 85, K = 300;
        uint32_t a = KIT(k, dtype, B, M, K), b = KIT(k, dtype, B, K, N), bias = KITB(k, YK_F32, 3, B, M, N);
        uint32_t res = KITB(k, dtype, c == 2 ? 4 : 0, B, M, N), d = KIT(k, YK_F32, B, M, N), t = KIT(k, YK_F32, B, M, N);
        uint32_t u = KIT(k, YK_F32, B, M, N), r = KIT(k, YK_F32, B, M, N), y = KIT(k, YK_F32, B, M, N);
        kit_random(k, a, -1, 1);
        kit_random(k, b, -1, 1);
        kit_random(k, bias, -1, 1);
        kit_random(k, res, -1, 1);
        kit_node(k, YK_OP_DOT, KIT_IDS(a, b), KIT_IDS(d), NULL, 0);
        kit_node(k, YK_OP_ADD, KIT_IDS(d, bias), KIT_IDS(t), NULL, 0);
        kit_node(k, YK_OP_GELU, KIT_IDS(t), KIT_IDS(u), NULL, 0);
        kit_node(k, YK_OP_CAST, KIT_IDS(res), KIT_IDS(r), NULL, 0);
        kit_node(k, YK_OP_ADD, KIT_IDS(u, r), KIT_IDS(y), NULL, 0);
        kit_wrap(k, YK_OP_DOT_MAP, 5, KIT_IDS(a, b, bias, res), c & 1 ? KIT_IDS(y, d) : KIT_IDS(y));
        graph_compare(k, 1e-5, "dot_map");
    }
}
END_TEST

/* graph_scratch reports exactly the first run's request to the driver; the second run requests nothing. */
START_TEST(test_scratch_is_reported)
{
    const int64_t attr[] = {1, 1, 1, 1, 1, 1, 1};
    kit *k = kit_new();
    uint32_t g = KIT(k, YK_F32, 8, 16, 12, 12), x = KIT(k, YK_F32, 8, 16, 12, 12), w = KIT(k, YK_F32, 16, 16, 3, 3);
    uint64_t reported = 0, point = 0, zero[3] = {0};
    yk_buffer *buf[3];
    yk_program *p;
    yk_queue *q;
    kit_random(k, g, -1, 1);
    kit_random(k, x, -1, 1);
    kit_node(k, YK_OP_CONV2D_DW, KIT_IDS(g, x), KIT_IDS(w), attr, 7);
    if (ok_claims(k, 0) == 0 && claimed_least == 0) {
        kit_free(k);
        return;
    }
    ck_assert_int_eq(ok_plugin->graph_scratch(ok_device, &k->g, &reported), YK_OK);
    ck_assert_uint_gt(reported, 0);
    ck_assert_int_eq(ok_plugin->program_new(ok_device, &k->g, &p), YK_OK);
    ck_assert_int_eq(ok_plugin->queue_new(ok_device, KIT_QUEUE, &q), YK_OK);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(ok_plugin->buffer_new(ok_device, KIT_BYTES(k->slot[i].bytes), &buf[i]), YK_OK);
    driver_bytes = 0;
    for (int i = 0; i < 2; i++) {
        const yk_submit s = {.size = sizeof s, .n_slot = 3, .program = p, .slot = buf, .slot_offset = zero, .slot_version = zero};
        ck_assert_int_eq(ok_plugin->queue_run(q, &s, &point), YK_OK);
        ck_assert_int_eq(ok_plugin->queue_wait(q, point, UINT64_MAX), YK_OK);
        ck_assert_uint_eq(driver_bytes, reported);
    }
    ok_plugin->queue_free(q);
    ok_plugin->program_free(p);
    for (int i = 0; i < 3; i++)
        ok_plugin->buffer_free(buf[i]);
    kit_free(k);
}
END_TEST

/* Data in local memory, under a driver that has little (YOKE_TEST_LOCAL=1; tests/cts/opencl_machines.sh) */

START_TEST(test_local_conv)
{
    static const shape list[] = {
        {2, 32, 16, 16, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1},  /* Winograd's where there is room, channels and outputs in parts */
        {2, 128, 8, 8, 128, 3, 3, 1, 1, 1, 1, 1, 1, 1},
        {1, 16, 20, 20, 24, 5, 5, 2, 2, 2, 2, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        conv_check(&list[i], YK_F32);
}
END_TEST

START_TEST(test_local_attention)
{
    static const att_case list[] = {
        {1, 2, 2, 70, 70, 64, 1, YK_ATT_DROP, YK_F32},
        {1, 1, 1, 40, 150, 64, 0, YK_ATT_KEEP, YK_F32},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        attention_check(&list[i], false);
        attention_check(&list[i], true);
    }
}
END_TEST

/* ---- The driver ---- */

/* A copy on the first device waits for one on another that fails meanwhile. */
START_TEST(test_wait_for_a_failed_copy)
{
    static char bytes[64];
    yk_device *dev[2] = {ok_device, NULL};
    yk_queue *q[2];
    yk_buffer *buffer[2];
    yk_wait first;
    yk_status s[2];
    ck_assert_int_eq(ok_plugin->device_open(0, &dev[1]), YK_OK);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(ok_plugin->queue_new(dev[i], KIT_QUEUE, &q[i]), YK_OK);
        ck_assert_int_eq(ok_plugin->buffer_new(dev[i], KIT_BYTES(64), &buffer[i]), YK_OK);
    }
    for (int i = 1; i >= 0; i--) {
        uint64_t point;
        const yk_copy c = {.size = sizeof c, .n_wait = !i, .wait = &first, .src_host = bytes, .dst = buffer[i], .bytes = 64};
        events_fail = true;
        s[i] = ok_plugin->queue_copy(q[i], &c, &point);
        first = (yk_wait){q[i], point};
    }
    events_fail = false;
    for (int i = 0; i < 2; i++) {
        ok_plugin->queue_free(q[i]);
        ok_plugin->buffer_free(buffer[i]);
    }
    ok_plugin->device_close(dev[1]);
    ck_assert_int_eq(s[1], YK_OK);
    ck_assert_int_eq(s[0], YK_E_CANCELLED);
}
END_TEST

/* A kernel's arguments are set anew for a new buffer, though the driver gives it the handle of a freed one. */
START_TEST(test_arguments_of_new_buffers)
{
    static _Alignas(4096) float page[1024];
    kit *k = kit_new();
    const uint32_t x = KIT(k, YK_F32, 100), y = KIT(k, YK_F32, 100);
    const uint64_t zero[2] = {0, 0};
    yk_program *p;
    yk_queue *q;
    yk_buffer *buffer[2];
    kit_node(k, YK_OP_ADD, KIT_IDS(x, x), KIT_IDS(y), NULL, 0);
    ck_assert_int_eq(ok_plugin->program_new(ok_device, &k->g, &p), YK_OK);
    ck_assert_int_eq(ok_plugin->queue_new(ok_device, KIT_QUEUE, &q), YK_OK);
    ck_assert_int_eq(ok_plugin->buffer_new(ok_device, KIT_BYTES(400), &buffer[0]), YK_OK);
    for (int i = 0; i < 4; i++) {
        const yk_submit s = {.size = sizeof s, .n_slot = 2, .program = p, .slot = buffer, .slot_offset = zero, .slot_version = zero};
        uint64_t point;
        if (ok_plugin->buffer_wrap(ok_device, page, sizeof page, &buffer[1]) != YK_OK)
            ck_assert_int_eq(ok_plugin->buffer_new(ok_device, KIT_BYTES(sizeof page), &buffer[1]), YK_OK);
        for (int again = 0; again < 2; again++) {
            arguments_set = 0;
            ck_assert_int_eq(ok_plugin->queue_run(q, &s, &point), YK_OK);
            ck_assert_int_eq(ok_plugin->queue_wait(q, point, UINT64_MAX), YK_OK);
            ck_assert_msg((arguments_set > 0) == !again, "run %d with buffer %d: %d arguments are set", again, i, arguments_set);
        }
        handles_return = i < 3;
        ok_plugin->buffer_free(buffer[1]);
        handles_return = false;
    }
    ok_plugin->buffer_free(buffer[0]);
    ok_plugin->program_free(p);
    ok_plugin->queue_free(q);
    kit_free(k);
}
END_TEST

static void case_start(void)
{
    const char *family = getenv("YOKE_TEST_FAMILY");
    if (family) {
        plugin_host_option("FAMILY", family);
        claimed_least = getenv("YOKE_TEST_LOCAL") ? 1 : 0;
    }
    plugin_host_cache = getenv("YOKE_CACHE_DIR");
    ck_assert_int_ge(ok_start(0), 1);
}

static void add_local(Suite *s)
{
    TCase *t = tcase_create("local");
    tcase_add_unchecked_fixture(t, case_start, ok_stop);
    tcase_set_timeout(t, 300);
    tcase_add_test(t, test_local_conv);
    tcase_add_test(t, test_local_attention);
    suite_add_tcase(s, t);
}

static void add_all(Suite *s)
{
    TCase *t = tcase_create("composites");
    tcase_add_unchecked_fixture(t, case_start, ok_stop);
    tcase_set_timeout(t, 300);
    tcase_add_test(t, test_conv);
    tcase_add_test(t, test_rows);
    tcase_add_test(t, test_cross_entropy);
    tcase_add_test(t, test_bn_dropout);
    tcase_add_test(t, test_pool);
    tcase_add_test(t, test_pool_of_16_bits);
    tcase_add_test(t, test_steps);
    tcase_add_test(t, test_attention);
    tcase_add_test(t, test_dot_map);
    tcase_add_test(t, test_scratch_is_reported);
    tcase_add_test(t, test_wait_for_a_failed_copy);
    tcase_add_test(t, test_arguments_of_new_buffers);
    suite_add_tcase(s, t);
}

int main(void)
{
    Suite *s = suite_create("opencl_nn");
    if (getenv("YOKE_TEST_LOCAL"))
        add_local(s);
    else
        add_all(s);
    SRunner *r = srunner_create(s);
    srunner_set_fork_status(r, CK_NOFORK);
    srunner_set_tap(r, "-");
    srunner_run_all(r, CK_SILENT);
    srunner_free(r);
    return 0;
}
