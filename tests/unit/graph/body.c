/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every composite against its body, both evaluated in double: the composite by its own loops, the body by those of the
 * primitives. The two are written independently of each other.
 */
#include "core/graph/graph_internal.h"
#include "tests/support/graph_lab.h"
#include "tests/support/run.h"

static lab l;

static void lab_start(void)
{
    lab_begin(&l, 3);
}

static void lab_stop(void)
{
    lab_end(&l);
}

static void lab_again(void)
{
    uint64_t seed = l.seed;
    lab_end(&l);
    lab_begin(&l, seed);
}

/* a of the lab's graph and b of h hold the same. */
static void same_in(const yk__graph *h, yk__vid a, yk__vid b, const char *what, uint32_t output)
{
    const int64_t n = yk__value_count(&l.graph.value[a]);
    double *x = lab_value(&l, &l.graph, a), *y = lab_value(&l, h, b);
    ck_assert(yk__value_same_shape(&l.graph.value[a], &h->value[b]));
    ck_assert_uint_eq(l.graph.value[a].dtype, h->value[b].dtype);
    for (int64_t i = 0; i < n; i++) {
        bool good = (isnan(x[i]) && isnan(y[i])) || x[i] == y[i] || fabs(x[i] - y[i]) <= 1e-11 + 1e-11 * fabs(x[i]);
        ck_assert_msg(good, "%s, output %u, element %lld: %.17g by itself, %.17g by its body", what, output,
                      (long long)i, x[i], y[i]);
    }
    free(x);
    free(y);
}

static void same_value(yk__vid a, yk__vid b, const char *what, uint32_t output)
{
    same_in(&l.graph, a, b, what, output);
}

/* Node number `node` of the graph against its body; no output of the body may be a composite's. */
static void check_node(uint32_t node)
{
    const char *name = yk__op_info_of(l.graph.node[node].op)->name;
    yk_node n = l.graph.node[node];
    yk__vid in[YK_MAX_OPERANDS], out[YK_MAX_OUTPUTS], own[YK_MAX_OUTPUTS];
    yk_graph s;
    yk_error err = YK_ERROR_INIT;
    ck_assert_int_eq(yk__graph_seal(&l.graph, &s, &err), YK_OK);
    memcpy(in, s.index + n.in, n.n_in * sizeof *in);
    memcpy(own, s.index + n.out, n.n_out * sizeof *own);
    yk__body_append(&l.graph, &s, node, in, out, &err);
    ck_assert_msg(err.status == YK_OK, "%s: %s", name, err.text);
    ck_assert_uint_gt(l.graph.n_node, node + 1);
    for (uint32_t i = 0; i < n.n_out; i++)
        same_value(own[i], out[i], name, i);
}

static void op_check(yk_op op, uint32_t n, const yk__vid *in, uint32_t n_attr, const int64_t *attr, uint32_t dims, const int64_t *dim)
{
    yk__vid out[4];
    lab_one(&l, op, n, in, n_attr, attr, dims, dim, out);
    check_node((uint32_t)l.graph.n_node - 1);
    lab_again();
}

/* A node that overwrites its operands: the body goes to a graph without it. */
static void check_step(yk_op op, uint32_t n, const yk__vid *in, int64_t flags)
{
    yk__graph h;
    yk__vid own[4], out[4];
    yk_graph s;
    yk_error err = YK_ERROR_INIT;
    ck_assert_int_eq(yk__graph_copy(&l.graph, &h, &err), YK_OK);
    lab_one(&l, op, n, in, 1, &flags, 0, NULL, own);
    ck_assert_int_eq(yk__graph_seal(&l.graph, &s, &err), YK_OK);
    yk__body_append(&h, &s, s.n_node - 1, in, out, &err);
    ck_assert_msg(err.status == YK_OK, "%s", err.text);
    for (uint32_t i = 0; i < s.node[s.n_node - 1].n_out; i++)
        same_in(&h, own[i], out[i], yk__op_info_of(op)->name, i);
    yk__graph_free(&h);
    lab_again();
}

/* The table's words for each op: "none", or what it is called. */
static const struct {
    const char *infer, *body, *eval;
} parts[YK_OP_COUNT] = {
#define X(e, infer, body, eval, rule, layout, floats, map, cheap, linear, ranks, back) [YK_OP_##e] = {#infer, #body, #eval},
    YK_IMPL_TABLE(X)
#undef X
};

START_TEST(table_is_full)
{
    for (uint32_t op = 0; op < YK_OP_COUNT; op++) {
        const yk__op_info *info = yk__op_info_of(op);
        bool map = op == YK_OP_MAP || op == YK_OP_DOT_MAP || op == YK_OP_MAP_SUM;
        ck_assert_msg(parts[op].infer != NULL, "%s", info->name);
        ck_assert_msg((strcmp(parts[op].eval, "none") != 0) == !map, "%s", info->name);
        ck_assert_msg((strcmp(parts[op].body, "none") != 0) == (info->kind == YK_KIND_COMP && !map), "%s", info->name);
    }
}
END_TEST

START_TEST(bodies_of_activations)
{
    for (uint32_t op = 0; op < YK_OP_COUNT; op++) {
        if (yk__op_info_of(op)->kind != YK_KIND_COMP || !yk__op_is_map(op))
            continue;
        const bool two = yk__op_info_of(op)->in_min == 2;
        yk__vid in[2];
        double *x;
        in[0] = lab_float(&l, -4, 4, DIM(5, 7));
        x = l.data[l.n_slot - 1];
        x[0] = 0, x[1] = 40, x[2] = -40, x[3] = 1e-9, x[4] = -0.0, x[5] = 1e200, x[6] = -1e200;
        in[1] = lab_float(&l, -1, 1, DIM(5, 7));
        op_check((yk_op)op, two ? 2 : 1, in, 0, NULL, 0, NULL);
    }
}
END_TEST

/* dims of x, of w, and sh sw ph pw dh dw groups */
static const int64_t convs[][15] = {
    {2, 3, 6, 7, 4, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1}, {1, 4, 5, 5, 6, 2, 2, 3, 2, 1, 0, 2, 1, 2, 2},
    {2, 4, 9, 8, 4, 1, 3, 2, 3, 2, 2, 1, 2, 1, 4}, {1, 2, 4, 4, 3, 2, 4, 4, 1, 1, 0, 0, 1, 1, 1},
    {3, 2, 5, 5, 2, 2, 1, 1, 2, 2, 0, 0, 1, 1, 1}, {1, 1, 3, 3, 1, 1, 3, 3, 1, 1, 5, 4, 1, 1, 1},
};

START_TEST(bodies_of_convolutions)
{
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++) {
        const int64_t *x = convs[i], *w = x + 4, *a = x + 8;
        yk__vid in[2], out[4];
        yk_value y;
        in[0] = lab_float(&l, -1, 1, 4, x), in[1] = lab_float(&l, -1, 1, 4, w);
        lab_one(&l, YK_OP_CONV2D, 2, in, 7, a, 0, NULL, out);
        y = l.graph.value[out[0]];
        check_node((uint32_t)l.graph.n_node - 1);
        lab_again();
        in[0] = lab_float(&l, -1, 1, 4, y.dim), in[1] = lab_float(&l, -1, 1, 4, w);
        op_check(YK_OP_CONV2D_DX, 2, in, 7, a, 4, x);
        in[0] = lab_float(&l, -1, 1, 4, y.dim), in[1] = lab_float(&l, -1, 1, 4, x);
        op_check(YK_OP_CONV2D_DW, 2, in, 7, a, 4, w);
    }
}
END_TEST

START_TEST(bodies_of_pools)
{
    static const int64_t attrs[][8] = {{2, 2, 2, 2, 0, 0, 1, 1}, {3, 2, 1, 2, 1, 1, 1, 1}, {2, 3, 2, 1, 1, 0, 2, 2}};
    for (int i = 0; i < 3; i++) {
        yk__vid in[2], out[4];
        in[0] = lab_float(&l, -1, 1, DIM(2, 3, 7, 8));
        for (int k = 0; k < 60; k++) /* ties */
            ((double *)l.data[1])[k] = 0.25 * (int)(4 * lab_random(&l));
        lab_one(&l, YK_OP_MAX_POOL, 1, in, 8, attrs[i], 0, NULL, out);
        check_node((uint32_t)l.graph.n_node - 1);
        in[1] = lab_float(&l, -1, 1, 4, l.graph.value[out[0]].dim);
        op_check(YK_OP_MAX_POOL_BWD, 2, in, 8, attrs[i], 0, NULL);
    }
    for (int i = 0; i < 4; i++) {
        int64_t a[7];
        yk__vid in, out[4];
        memcpy(a, attrs[i / 2], 6 * sizeof *a);
        a[6] = i % 2;
        in = lab_float(&l, -1, 1, DIM(2, 3, 7, 8));
        lab_one(&l, YK_OP_AVG_POOL, 1, &in, 7, a, 0, NULL, out);
        check_node((uint32_t)l.graph.n_node - 1);
        in = lab_float(&l, -1, 1, 4, l.graph.value[out[0]].dim);
        op_check(YK_OP_AVG_POOL_BWD, 1, &in, 7, a, DIM(2, 3, 7, 8));
    }
}
END_TEST

START_TEST(bodies_of_norms)
{
    int64_t eps = yk_attr_of_f64(1e-5);
    for (uint32_t n = 1; n <= 3; n++) {
        yk__vid in[5];
        in[0] = lab_float(&l, -1, 3, DIM(5, 8));
        for (int i = 0; i < 8; i++)
            ((double *)l.data[1])[i] = 2; /* a row without variance */
        in[1] = lab_float(&l, 0, 2, DIM(8)), in[2] = lab_float(&l, -1, 1, DIM(8));
        op_check(YK_OP_LAYER_NORM, n, in, 1, &eps, 0, NULL);
        in[0] = lab_float(&l, -1, 1, DIM(5, 8)), in[1] = lab_float(&l, -1, 1, DIM(5, 8));
        in[2] = lab_float(&l, -1, 1, DIM(5)), in[3] = lab_float(&l, 0.5, 2, DIM(5)),
        in[4] = lab_float(&l, 0, 2, DIM(8));
        op_check(YK_OP_LAYER_NORM_BWD, n == 1 ? 4 : 5, in, 1, &eps, 0, NULL);
    }
    {
        yk__vid in[2] = {lab_float(&l, 99, 101, DIM(3, 4, 6)), lab_float(&l, 99, 101, DIM(4))};
        op_check(YK_OP_BN_STATS, 2, in, 0, NULL, 0, NULL);
    }
}
END_TEST

START_TEST(bodies_of_softmaxes)
{
    for (int64_t log = 0; log < 2; log++) {
        yk__vid in[2];
        in[0] = lab_float(&l, -3, 3, DIM(5, 8));
        ((double *)l.data[1])[3] = 800; /* overflows without the shift by the maximum */
        ((double *)l.data[1])[10] = -INFINITY;
        op_check(YK_OP_SOFTMAX, 1, in, 1, &log, 0, NULL);
        in[0] = lab_float(&l, -1, 1, DIM(5, 8)), in[1] = lab_float(&l, -2, 0, DIM(5, 8));
        op_check(YK_OP_SOFTMAX_BWD, 2, in, 1, &log, 0, NULL);
    }
}
END_TEST

static void attention_check(bool causal, int64_t flags, int64_t tq, int64_t tk, int64_t hk)
{
    int64_t attr[5] = {causal, yk_attr_of_f64(0.6), yk_attr_of_f64(0.3), 11, flags};
    yk__vid in[10], out[4];
    uint32_t n = 6;
    in[3] = lab_float(&l, -1, 1, DIM(2, 4, tq, 3));
    in[4] = lab_float(&l, -1, 1, DIM(2, hk, tk, 3));
    in[5] = lab_float(&l, -1, 1, DIM(2, hk, tk, 3));
    if (flags & YK_ATT_KEEP) {
        in[n++] = lab_float(&l, 1, 1, DIM(2, tk));
        for (int64_t i = 0; i < tk; i++) /* the second row has no key at all */
            ((double *)l.data[l.n_slot - 1])[tk + i] = 0;
        ((double *)l.data[l.n_slot - 1])[0] = 0;
    }
    if (flags & YK_ATT_BIAS)
        in[n++] = yk__expand(&l.graph, lab_float(&l, -1, 1, DIM(4, 1, tk)), DIM(2, 4, tq, tk));
    if (flags & YK_ATT_DROP) {
        in[n++] = lab_int(&l, -9999, 9999, DIM(4));
        in[n++] = lab_int(&l, 0, 50, DIM(2));
    }
    lab_one(&l, YK_OP_ATTENTION, n - 3, in + 3, 5, attr, 0, NULL, out);
    check_node((uint32_t)l.graph.n_node - 1);
    in[0] = lab_float(&l, -1, 1, DIM(2, 4, tq, 3)), in[1] = out[0], in[2] = out[1];
    if (flags & YK_ATT_BIAS)
        attr[4] |= YK_ATT_GBIAS;
    op_check(YK_OP_ATTENTION_BWD, n, in, 5, attr, 0, NULL);
}

START_TEST(bodies_of_attention)
{
    attention_check(false, 0, 3, 5, 4);
    attention_check(true, 0, 4, 4, 4);
    attention_check(true, 0, 3, 5, 2);
    attention_check(true, 0, 5, 3, 1); /* the first two queries see nothing */
    attention_check(false, YK_ATT_KEEP, 3, 5, 2);
    attention_check(true, YK_ATT_KEEP | YK_ATT_BIAS, 4, 5, 4);
    attention_check(true, YK_ATT_KEEP | YK_ATT_BIAS | YK_ATT_DROP, 4, 4, 2);
    attention_check(false, YK_ATT_DROP, 1, 6, 1);
}
END_TEST

START_TEST(cross_entropies)
{
    for (int i = 0; i < 6; i++) {
        int64_t attr[2] = {i < 3 ? -100 : 2, yk_attr_of_f64(i % 3 * 0.1)};
        yk__vid in[5];
        const uint32_t weight = i % 2;
        in[1] = lab_float(&l, -3, 3, DIM(7, 5)), in[2] = lab_int(&l, 0, 4, DIM(7));
        ((int32_t *)l.data[2])[1] = (int32_t)attr[0];
        ((int32_t *)l.data[2])[2] = 5; /* no class: NaN */
        ((int32_t *)l.data[2])[3] = -1;
        ((double *)l.data[1])[0] = 700;
        in[3] = lab_float(&l, 0, 2, DIM(5));
        op_check(YK_OP_CROSS_ENTROPY, 2 + weight, in + 1, 2, attr, 0, NULL);
        in[0] = lab_float(&l, -1, 1, DIM(7));
        in[1] = lab_float(&l, -3, 3, DIM(7, 5)), in[2] = lab_int(&l, -1, 5, DIM(7));
        in[3] = lab_float(&l, 3, 4, DIM(7)), in[4] = lab_float(&l, 0, 2, DIM(5));
        op_check(YK_OP_CROSS_ENTROPY_BWD, 4 + weight, in, 2, attr, 0, NULL);
    }
}
END_TEST

START_TEST(bodies_of_dropout)
{
    for (int i = 0; i < 3; i++) {
        int64_t attr[2] = {yk_attr_of_f64(i * 0.5), 77};
        yk__vid in[3];
        in[0] = lab_float(&l, -1, 1, DIM(6, 10)), in[1] = lab_int(&l, -9999, 9999, DIM(4));
        in[2] = lab_int(&l, 0, 1000000000, DIM(3));
        op_check(YK_OP_DROPOUT, 3, in, 2, attr, 0, NULL);
    }
}
END_TEST

static yk__vid hyper_leaf(double first, double clip)
{
    yk__vid v = lab_float(&l, 0, 0, DIM(YK_HYPER_COUNT));
    double *h = l.data[l.n_slot - 1];
    h[YK_HYPER_LR] = 0.1, h[YK_HYPER_B1] = 0.9, h[YK_HYPER_B2] = 0.8, h[YK_HYPER_EPS] = 1e-8, h[YK_HYPER_DECAY] = 0.05;
    h[YK_HYPER_GRAD_SCALE] = 0.5, h[YK_HYPER_CLIP] = clip, h[YK_HYPER_C1] = 0.19, h[YK_HYPER_SQRT_C2] = 0.6;
    h[YK_HYPER_FIRST] = first;
    return v;
}

START_TEST(bodies_of_optimizer_steps)
{
    for (int64_t flags = 0; flags < 16; flags++) {
        const bool amsgrad = flags & YK_OPT_AMSGRAD;
        yk__vid in[6];
        for (int i = 0; i < 6; i++)
            in[i] = lab_float(&l, i < 2 ? -1 : 0, 1, DIM(9));
        in[4] = hyper_leaf(0, flags & 1 ? 0.2 : INFINITY);
        check_step(YK_OP_ADAM_STEP, amsgrad ? 6 : 5, in, flags);
        for (int i = 0; i < 3; i++)
            in[i] = lab_float(&l, -1, 1, DIM(9));
        in[2 + flags % 2] = hyper_leaf(flags & 2, flags & 4 ? 0.2 : INFINITY);
        check_step(YK_OP_SGD_STEP, flags % 2 ? 4 : 3, in, flags);
    }
    {
        yk__vid in[2] = {lab_float(&l, -1, 1, DIM(9)), lab_float(&l, 3, 3, DIM(1))};
        op_check(YK_OP_GRAD_STATS, 2, in, 0, NULL, 0, NULL);
        in[0] = lab_float(&l, -1, 1, DIM(9)), in[1] = lab_float(&l, 3, 3, DIM(1));
        ((double *)l.data[1])[2] = NAN, ((double *)l.data[1])[5] = INFINITY;
        op_check(YK_OP_GRAD_STATS, 2, in, 0, NULL, 0, NULL);
    }
}
END_TEST

START_TEST(body_of_round8)
{
    for (int64_t format = 0; format < 2; format++)
        for (int i = 0; i < 12; i++) {
            yk__vid x = i == 11 ? lab_float(&l, -3, 3, 0, NULL) : lab_float(&l, -ldexp(1, 12 * i - 80), ldexp(1, 12 * i - 80), DIM(9, 11));
            double *v = l.data[l.n_slot - 1];
            if (i == 10)
                v[3] = i % 2 ? NAN : -INFINITY;
            for (int k = 5; i < 10 && k < 40; k++) /* ties, and what lies below the normal numbers */
                v[k] = ldexp(k % 7 * 0.0625 + 1, 12 * i - 84 - k);
            op_check(YK_OP_ROUND8, 1, &x, 1, &format, 0, NULL);
        }
}
END_TEST

/* Every number of 16 bits, scaled by 1 as some are not finite, and then by the largest number's factor. */
START_TEST(round8_is_the_nearest_number)
{
    for (int64_t format = 0; format < 2; format++) {
        const double most = format ? 57344 : 448;
        for (int exponent = -1; exponent < 100; exponent += 50) { /* exponents of all elements; -1 for every number */
            yk__vid x = lab_leaf(&l, YK_F32, DIM(65536)), y[4];
            double *v = l.data[l.n_slot - 1], largest = 0, *got;
            for (uint32_t i = 0; i < 65536; i++) {
                uint32_t bits = (exponent < 0 ? i : (i & 0x807f) | (200 - (uint32_t)exponent - (i >> 7 & 31)) << 7) << 16;
                float f;
                memcpy(&f, &bits, 4);
                v[i] = (double)f;
                largest = fmax(largest, fabs(v[i]));
            }
            double scale = exponent < 0 ? 1 : 0x1p-120;
            while (exponent >= 0 && largest * scale * 2 <= most)
                scale *= 2;
            lab_one(&l, YK_OP_ROUND8, 1, &x, 1, &format, 0, NULL, y);
            got = lab_value(&l, &l.graph, y[0]);
            for (uint32_t i = 0; i < 65536; i++) { /* no number of the format is nearer, and of two the even one */
                double best = NAN;
                bool even = false;
                const double cut = fmin(fmax(v[i], -most / scale), most / scale);
                for (uint32_t code = 0; code < (format ? 0x7c : 0x7f) && isfinite(v[i]); code++) {
                    const uint8_t byte = (uint8_t)code;
                    const double c = copysign(yk__eval_load(format ? YK_F8E5M2 : YK_F8E4M3, &byte) / scale, v[i]);
                    const double near = fabs(c - cut), was = fabs(best - cut);
                    if (isnan(best) || near < was || (near == was && !even && !(code & 1)))
                        best = c, even = !(code & 1);
                }
                ck_assert_msg(isfinite(v[i]) ? got[i] == best : (isnan(v[i]) ? isnan(got[i]) : got[i] == v[i]),
                              "%s of %.9g, scale %g: %.9g, expected %.9g", format ? "e5m2" : "e4m3", v[i], scale, got[i], best);
            }
            free(got);
            lab_again();
        }
    }
}
END_TEST

START_TEST(bodies_of_maps)
{
    /* dot_map: y = a b, z = tanh(y + c); map_sum: sum over rows of z z */
    yk__vid a = lab_float(&l, -1, 1, DIM(3, 4)), b = lab_float(&l, -1, 1, DIM(4, 5)), c = lab_float(&l, -1, 1, DIM(5));
    yk__vid wide = yk__expand(&l.graph, c, DIM(3, 5)), y = yk__value_new(&l.graph, YK_F32, DIM(3, 5)), z, t, q, s, in[3], out[2];
    yk__vid plain = yk__un(&l.graph, YK_OP_TANH, yk__bin(&l.graph, YK_OP_ADD, yk__dot(&l.graph, a, b, false, false), c));
    uint32_t n;
    z = yk__value_new(&l.graph, YK_F32, DIM(3, 5)), t = yk__value_new(&l.graph, YK_F32, DIM(3, 5));
    in[0] = a, in[1] = b, in[2] = wide, out[0] = z, out[1] = y;
    n = yk__node_new(&l.graph, YK_OP_DOT_MAP, 0, 3, in, 2, out, 0, NULL);
    l.graph.node[n].body = yk__body_new(&l.graph, YK_OP_DOT, 2, in, 1, &y, 0, NULL);
    in[0] = y, in[1] = wide;
    yk__body_new(&l.graph, YK_OP_ADD, 2, in, 1, &t, 0, NULL);
    yk__body_new(&l.graph, YK_OP_TANH, 1, &t, 1, &z, 0, NULL);
    l.graph.node[n].n_body = 3;
    same_value(z, plain, "dot_map", 0);
    check_node(n);
    q = yk__value_new(&l.graph, YK_F32, DIM(3, 5)), s = yk__value_new(&l.graph, YK_F32, DIM(1, 5));
    n = yk__node_new(&l.graph, YK_OP_MAP_SUM, 0, 1, &z, 1, &s, 0, NULL);
    in[0] = in[1] = z;
    l.graph.node[n].body = yk__body_new(&l.graph, YK_OP_MUL, 2, in, 1, &q, 0, NULL);
    yk__body_new(&l.graph, YK_OP_SUM, 1, &q, 1, &s, 1, (int64_t[]){1});
    l.graph.node[n].n_body = 2;
    same_value(s, yk__sum(&l.graph, yk__bin(&l.graph, YK_OP_MUL, plain, plain), 1), "map_sum", 0);
    check_node(n);
}
END_TEST

START_TEST(primitives_have_none)
{
    yk__vid x = lab_float(&l, -1, 1, DIM(3)), y = yk__un(&l.graph, YK_OP_EXP, x), out[4];
    yk_graph s;
    yk_error err = YK_ERROR_INIT;
    (void)y;
    ck_assert_int_eq(yk__graph_seal(&l.graph, &s, &err), YK_OK);
    ck_assert_int_eq(yk__body_append(&l.graph, &s, 0, &x, out, &err), YK_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "exp"));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {table_is_full,     bodies_of_activations,     bodies_of_convolutions, bodies_of_pools,
                                  bodies_of_norms,   bodies_of_softmaxes,       bodies_of_attention,    cross_entropies,
                                  bodies_of_dropout, bodies_of_optimizer_steps, bodies_of_maps,         primitives_have_none,
                                  body_of_round8,    round8_is_the_nearest_number};
    return suite_run_all("graph_body", tests, sizeof tests / sizeof *tests, lab_start, lab_stop);
}
