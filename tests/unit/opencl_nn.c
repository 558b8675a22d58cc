/* SPDX-License-Identifier: Apache-2.0 */
/* The composites the OpenCL plugin claims, against the float64 evaluator on the same stored numbers. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/graph/graph.h"
#include "opencl_kit.h"

static uint32_t claimed_least = 1;

/* What the evaluator makes of node 0 in copies of the slots. */
static void expect(const ok_graph *k, char **copy)
{
    yk_error err = {0};
    for (uint32_t i = 0; i < k->g.n_slot; i++) {
        copy[i] = malloc(k->slot[i].bytes + 64);
        memcpy(copy[i], k->data[i], k->slot[i].bytes);
    }
    ck_assert_msg(yk__eval_node(&k->g, 0, (void *const *)copy, &err) == YK_OK, "the evaluator: %s", err.text);
}

/* Runs node 0 and compares all outputs; tol is relative to the largest expected number of that output. */
static void compare(ok_graph *k, double tol, const char *what)
{
    char *copy[OK_VALUES] = {0};
    uint32_t claims = ok_claims(k, 0);
    const yk_node *n = &k->node[0];
    if (claims == 0 && claimed_least == 0) {
        ok_free(k);
        return;
    }
    ck_assert_msg(claims >= 1, "%s is not claimed", what);
    expect(k, copy);
    ck_assert_msg(ok_run(k) == YK_OK, "%s: failed to run", what);
    for (uint32_t o = 0; o < n->n_out; o++) {
        uint32_t v = k->index[n->out + o], slot = k->value[v].slot;
        double most = 0, worst = 0;
        char *got = k->data[slot];
        for (int64_t i = 0; i < ok_count(k, v); i++) {
            double a = ok_at(k, v, i), b;
            k->data[slot] = copy[slot];
            b = ok_at(k, v, i);
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
    ok_free(k);
}

/* ---- Convolution ---- */

typedef struct shape {
    int64_t N, C, H, W, O, kh, kw, sh, sw, ph, pw, dh, dw, groups;
} shape;

static void conv(const shape *s, int dtype)
{
    for (int op = YK_OP_CONV2D; op <= YK_OP_CONV2D_DW; op++) {
        ok_graph *k = ok_new();
        int64_t OH = (s->H + 2 * s->ph - s->dh * (s->kh - 1) - 1) / s->sh + 1;
        int64_t OW = (s->W + 2 * s->pw - s->dw * (s->kw - 1) - 1) / s->sw + 1;
        uint32_t x = OK(k, dtype, s->N, s->C, s->H, s->W), w = OK(k, dtype, s->O, s->C / s->groups, s->kh, s->kw);
        uint32_t y = OK(k, dtype, s->N, s->O, OH, OW);
        char what[160];
        snprintf(what, sizeof what, "conv %d of %ldx%ldx%ldx%ld, %ld filters %ldx%ld stride %ld,%ld groups %ld", op,
                 (long)s->N, (long)s->C, (long)s->H, (long)s->W, (long)s->O, (long)s->kh, (long)s->kw, (long)s->sh,
                 (long)s->sw, (long)s->groups);
        ok_random(k, x, -1, 1);
        ok_random(k, w, -1, 1);
        ok_random(k, y, -1, 1);
        const uint32_t *in = op == YK_OP_CONV2D      ? OK_IDS(x, w)
                             : op == YK_OP_CONV2D_DX ? OK_IDS(y, w)
                                                     : OK_IDS(y, x);
        const uint32_t *out = op == YK_OP_CONV2D ? OK_IDS(y) : op == YK_OP_CONV2D_DX ? OK_IDS(x) : OK_IDS(w);
        yk_node *n = ok_node(k, op, in, out, OK_ATTR(s->sh, s->sw, s->ph, s->pw, s->dh, s->dw, s->groups));
        if (op == YK_OP_CONV2D_DW && s->C == 16)
            n->flags = YK_NODE_ACCUMULATE;
        compare(k, 1e-5, what);
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
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        conv(&list[i], YK_F32);
    conv(&list[0], YK_BF16);
    conv(&list[1], YK_F16);
}
END_TEST

/* ---- Rows ---- */

static void rows(int dtype, int64_t R, int64_t C)
{
    for (int params = 0; params < 3; params++) {
        ok_graph *k = ok_new();
        uint32_t x = OK(k, dtype, R, C), ga = OK(k, YK_F32, C), be = OK(k, YK_F32, C), y = OK(k, dtype, R, C);
        uint32_t m = OK(k, YK_F32, R), s = OK(k, YK_F32, R);
        ok_random(k, x, -1, 3);
        ok_random(k, ga, 0.5, 2);
        ok_random(k, be, -1, 1);
        ok_node(k, YK_OP_LAYER_NORM, params == 2 ? OK_IDS(x, ga, be) : params ? OK_IDS(x, ga) : OK_IDS(x),
                OK_IDS(y, m, s), OK_ATTR(yk_attr_of_f64(1e-5)));
        compare(k, 1e-5, "layer_norm");
    }
    for (int params = 0; params < 2; params++) {
        ok_graph *k = ok_new();
        uint32_t gy = OK(k, dtype, R, C), x = OK(k, dtype, R, C), m = OK(k, YK_F32, R), s = OK(k, YK_F32, R);
        uint32_t ga = OK(k, YK_F32, C), gx = OK(k, dtype, R, C), gg = OK(k, YK_F32, C), gb = OK(k, YK_F32, C);
        ok_random(k, gy, -1, 1);
        ok_random(k, x, -1, 1);
        ok_random(k, m, -0.1, 0.1);
        ok_random(k, s, 1, 2);
        ok_random(k, ga, 0.5, 2);
        ok_node(k, YK_OP_LAYER_NORM_BWD, params ? OK_IDS(gy, x, m, s, ga) : OK_IDS(gy, x, m, s),
                params ? OK_IDS(gx, gg, gb) : OK_IDS(gx), OK_ATTR(0));
        compare(k, 1e-5, "layer_norm_bwd");
    }
    for (int logs = 0; logs < 2; logs++) {
        ok_graph *k = ok_new();
        uint32_t x = OK(k, dtype, R, C), y = OK(k, dtype, R, C);
        ok_random(k, x, -5, 5);
        ok_node(k, YK_OP_SOFTMAX, OK_IDS(x), OK_IDS(y), OK_ATTR(logs));
        compare(k, 1e-5, "softmax");
        k = ok_new();
        x = OK(k, dtype, R, C), y = OK(k, dtype, R, C);
        uint32_t g = OK(k, dtype, R, C);
        ok_random(k, x, -1, 1);
        ok_random(k, y, logs ? -5 : 0, logs ? 0 : 1);
        ok_node(k, YK_OP_SOFTMAX_BWD, OK_IDS(x, y), OK_IDS(g), OK_ATTR(logs));
        compare(k, 1e-5, "softmax_bwd");
    }
}

START_TEST(test_rows)
{
    rows(YK_F32, 5, 70);
    rows(YK_F32, 300, 33);
    rows(YK_BF16, 4, 128);
    rows(YK_F16, 3, 10);
}
END_TEST

START_TEST(test_cross_entropy)
{
    for (int c = 0; c < 8; c++) {
        ok_graph *k = ok_new();
        const int dtype = c & 4 ? YK_BF16 : YK_F32;
        const int64_t R = 9, C = 37;
        uint32_t z = OK(k, dtype, R, C), y = OK(k, YK_I32, R), w = OK(k, YK_F32, C), loss = OK(k, YK_F32, R);
        uint32_t lse = OK(k, YK_F32, R), gl = OK(k, YK_F32, R), gz = OK(k, dtype, R, C);
        const int64_t attr[] = {5, yk_attr_of_f64(c & 1 ? 0.1 : 0)};
        ok_random(k, z, -4, 4);
        ok_random(k, w, 0.5, 2);
        ok_random(k, gl, -1, 1);
        ok_set(k, y, (double[]){0, 36, 5, 7, 20, 5, 3, c & 1 ? 40 : 2, 11});
        ok_node(k, YK_OP_CROSS_ENTROPY, c & 2 ? OK_IDS(z, y, w) : OK_IDS(z, y), OK_IDS(loss, lse), attr, 2);
        compare(k, 1e-5, "cross_entropy");
        k = ok_new();
        z = OK(k, dtype, R, C), y = OK(k, YK_I32, R), w = OK(k, YK_F32, C), lse = OK(k, YK_F32, R);
        gl = OK(k, YK_F32, R), gz = OK(k, dtype, R, C);
        ok_random(k, z, -4, 4);
        ok_random(k, w, 0.5, 2);
        ok_random(k, gl, -1, 1);
        ok_random(k, lse, 4, 6);
        ok_set(k, y, (double[]){0, 36, 5, 7, 20, 5, 3, 2, 11});
        ok_node(k, YK_OP_CROSS_ENTROPY_BWD, c & 2 ? OK_IDS(gl, z, y, lse, w) : OK_IDS(gl, z, y, lse), OK_IDS(gz), attr, 2);
        compare(k, 1e-5, "cross_entropy_bwd");
    }
}
END_TEST

START_TEST(test_bn_dropout)
{
    ok_graph *k = ok_new();
    uint32_t x = OK(k, YK_F32, 4, 6, 49), s = OK(k, YK_F32, 6), y = OK(k, YK_F32, 3, 6);
    ok_random(k, x, -1, 2);
    ok_random(k, s, -1, 1);
    ok_node(k, YK_OP_BN_STATS, OK_IDS(x, s), OK_IDS(y), NULL, 0);
    compare(k, 1e-5, "bn_stats");
    for (int dtype = YK_F32; dtype <= YK_BF16; dtype++) {
        k = ok_new();
        x = OK(k, dtype, 5, 7, 31);
        uint32_t key = OK(k, YK_I32, 4), r = OK(k, YK_I32, 5), d = OK(k, dtype, 5, 7, 31);
        ok_random(k, x, 1, 2);
        ok_set(k, key, (double[]){77, 1, 3, 0});
        ok_set(k, r, (double[]){3, 99, 0, 2147483647, 1});
        ok_node(k, YK_OP_DROPOUT, OK_IDS(x, key, r), OK_IDS(d), OK_ATTR(yk_attr_of_f64(0.3), 9));
        compare(k, 1e-6, "dropout");
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
            ok_graph *k = ok_new();
            uint32_t x = OK(k, YK_F32, 2, 3, H, W), y = OK(k, YK_F32, 2, 3, OH, OW), g = OK(k, YK_F32, 2, 3, H, W);
            const int64_t avg[] = {a[0], a[1], a[2], a[3], a[4], a[5], (int64_t)(c & 1)};
            ok_random_int(k, x, -5, 5);
            ok_random(k, y, -1, 1);
            if (max)
                ok_node(k, op, op == YK_OP_MAX_POOL ? OK_IDS(x) : OK_IDS(x, y), op == YK_OP_MAX_POOL ? OK_IDS(y) : OK_IDS(g),
                        a, 8);
            else
                ok_node(k, op, op == YK_OP_AVG_POOL ? OK_IDS(x) : OK_IDS(y), op == YK_OP_AVG_POOL ? OK_IDS(y) : OK_IDS(g),
                        avg, 7);
            compare(k, 1e-6, "pool");
        }
    }
}
END_TEST

/* ---- Steps ---- */

static void set_hyper(ok_graph *k, uint32_t h, double first)
{
    double v[16] = {1e-2, 0.9, 0.99, 1e-8, 0.1, 0.5, 0.4, 0.271, 0.3, first};
    ok_set(k, h, v);
}

START_TEST(test_steps)
{
    const int64_t n = 20001;
    for (int flags = 0; flags < 16; flags++) {
        ok_graph *k = ok_new();
        uint32_t g = OK(k, YK_F32, n), p = OK(k, YK_F32, n), m = OK(k, YK_F32, n), v = OK(k, YK_F32, n);
        uint32_t h = OK(k, YK_F32, 16), t = OK(k, YK_F32, n);
        ok_random(k, g, -1, 1);
        ok_random(k, p, -1, 1);
        ok_random(k, m, -1, 1);
        ok_random(k, v, 0.1, 1);
        ok_random(k, t, 0, 1);
        set_hyper(k, h, 0);
        if (flags & YK_OPT_AMSGRAD)
            ok_node(k, YK_OP_ADAM_STEP, OK_IDS(g, p, m, v, h, t), OK_IDS(p, m, v, t), OK_ATTR(flags));
        else
            ok_node(k, YK_OP_ADAM_STEP, OK_IDS(g, p, m, v, h), OK_IDS(p, m, v), OK_ATTR(flags));
        compare(k, 1e-5, "adam_step");
        k = ok_new();
        g = OK(k, YK_F32, n), p = OK(k, YK_F32, n), m = OK(k, YK_F32, n), h = OK(k, YK_F32, 16);
        ok_random(k, g, -1, 1);
        ok_random(k, p, -1, 1);
        ok_random(k, m, -1, 1);
        set_hyper(k, h, flags & 1);
        if (flags & 2)
            ok_node(k, YK_OP_SGD_STEP, OK_IDS(g, p, m, h), OK_IDS(p, m), OK_ATTR(flags & 12));
        else
            ok_node(k, YK_OP_SGD_STEP, OK_IDS(g, p, h), OK_IDS(p), OK_ATTR(flags & 12));
        compare(k, 1e-5, "sgd_step");
    }
    ok_graph *k = ok_new();
    uint32_t g = OK(k, YK_F32, 200000), s = OK(k, YK_F32, 1), y = OK(k, YK_F32, 2);
    ok_random(k, g, -1, 1);
    ok_random(k, s, 0.5, 0.6);
    ok_node(k, YK_OP_GRAD_STATS, OK_IDS(g, s), OK_IDS(y), NULL, 0);
    compare(k, 1e-5, "grad_stats");
}
END_TEST

/* ---- Attention ---- */

typedef struct att_case {
    int64_t B, H, Hk, Tq, Tk, D;
    int causal, flags, dtype;
} att_case;

static void attention(const att_case *c, bool back)
{
    ok_graph *k = ok_new();
    uint32_t in[12], out[5], n = 0, m = 0;
    uint32_t q = OK(k, c->dtype, c->B, c->H, c->Tq, c->D), kk = OK(k, c->dtype, c->B, c->Hk, c->Tk, c->D);
    uint32_t v = OK(k, c->dtype, c->B, c->Hk, c->Tk, c->D), o = OK(k, c->dtype, c->B, c->H, c->Tq, c->D);
    uint32_t lse = OK(k, YK_F32, c->B, c->H, c->Tq), go = OK(k, c->dtype, c->B, c->H, c->Tq, c->D);
    uint32_t keep = OK(k, YK_F32, c->B, c->Tk), bias = OKB(k, YK_F32, 1, c->B, c->H, c->Tq, c->Tk), key = OK(k, YK_I32, 4);
    uint32_t rowid = OK(k, YK_I32, c->B), gq = OK(k, c->dtype, c->B, c->H, c->Tq, c->D);
    uint32_t gk = OK(k, c->dtype, c->B, c->Hk, c->Tk, c->D), gv = OK(k, c->dtype, c->B, c->Hk, c->Tk, c->D);
    uint32_t gb = OK(k, YK_F32, c->B, c->H, c->Tq, c->Tk);
    const int64_t attr[] = {c->causal, yk_attr_of_f64(0.3), yk_attr_of_f64(c->flags & YK_ATT_DROP ? 0.2 : 0), 4, c->flags};
    const uint32_t all[] = {q, kk, v, o, go, bias, keep, gq, gk, gv};
    for (size_t i = 0; i < 6; i++)
        ok_random(k, all[i], -1, 1);
    ok_random_int(k, keep, 0, 1);
    ok_set(k, key, (double[]){5, 6, 7, 0});
    ok_random_int(k, rowid, 0, 1000);
    ok_random(k, lse, 3, 5);
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
    ok_node(k, back ? YK_OP_ATTENTION_BWD : YK_OP_ATTENTION, in, out, attr, 5);
    compare(k, 2e-5, back ? "attention_bwd" : "attention");
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
        attention(&list[i], false);
        if (list[i].H == list[i].Hk)
            attention(&list[i], true);
    }
}
END_TEST

START_TEST(test_dot_map)
{
    for (int c = 0; c < 4; c++) {
        ok_graph *k = ok_new();
        const int dtype = c == 3 ? YK_BF16 : YK_F32;
        const int64_t B = c == 1 ? 3 : 1, M = 37, N = 85, K = 300;
        uint32_t a = OK(k, dtype, B, M, K), b = OK(k, dtype, B, K, N), bias = OKB(k, YK_F32, 3, B, M, N);
        uint32_t res = OKB(k, dtype, c == 2 ? 4 : 0, B, M, N), d = OK(k, YK_F32, B, M, N), t = OK(k, YK_F32, B, M, N);
        uint32_t u = OK(k, YK_F32, B, M, N), r = OK(k, YK_F32, B, M, N), y = OK(k, YK_F32, B, M, N);
        ok_random(k, a, -1, 1);
        ok_random(k, b, -1, 1);
        ok_random(k, bias, -1, 1);
        ok_random(k, res, -1, 1);
        ok_node(k, YK_OP_DOT, OK_IDS(a, b), OK_IDS(d), NULL, 0);
        ok_node(k, YK_OP_ADD, OK_IDS(d, bias), OK_IDS(t), NULL, 0);
        ok_node(k, YK_OP_GELU, OK_IDS(t), OK_IDS(u), NULL, 0);
        ok_node(k, YK_OP_CAST, OK_IDS(res), OK_IDS(r), NULL, 0);
        ok_node(k, YK_OP_ADD, OK_IDS(u, r), OK_IDS(y), NULL, 0);
        ok_wrap(k, YK_OP_DOT_MAP, 5, OK_IDS(a, b, bias, res), c & 1 ? OK_IDS(y, d) : OK_IDS(y));
        compare(k, 1e-5, "dot_map");
    }
}
END_TEST

static void start(void)
{
    const char *family = getenv("YOKE_TEST_FAMILY");
    if (family) {
        ok_option_key[0] = "FAMILY";
        ok_option_value[0] = family;
        claimed_least = 0;
    }
    ok_cache_dir = getenv("YOKE_CACHE_DIR");
    ck_assert_int_ge(ok_start(0), 1);
}

int main(void)
{
    Suite *s = suite_create("opencl_nn");
    TCase *t = tcase_create("composites");
    tcase_add_unchecked_fixture(t, start, ok_stop);
    tcase_set_timeout(t, 300);
    tcase_add_test(t, test_conv);
    tcase_add_test(t, test_rows);
    tcase_add_test(t, test_cross_entropy);
    tcase_add_test(t, test_bn_dropout);
    tcase_add_test(t, test_pool);
    tcase_add_test(t, test_steps);
    tcase_add_test(t, test_attention);
    tcase_add_test(t, test_dot_map);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_set_fork_status(r, CK_NOFORK);
    srunner_set_tap(r, "-");
    srunner_run_all(r, CK_SILENT);
    srunner_free(r);
    return 0;
}
