/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every rule against central differences in double: the derivative along a random direction of each differentiable
 * operand. The rules are right or wrong by 1e-2 and more; the differences are good to about 1e-8.
 */
#include "core/grad/grad.h"
#include "core/grad/grad_internal.h"
#include "tests/support/graph_lab.h"
#include "tests/support/run.h"

static lab l;

static void lab_start(void)
{
    lab_begin(&l, 7);
}

static void lab_stop(void)
{
    lab_end(&l);
}

static double vec_dot(const double *a, const double *b, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++)
        s += a[i] * b[i];
    return s;
}

/* (f(x + h d) - f(x - h d)) / 2h for leaf number k */
static double slope_along(const yk__graph *g, yk__vid loss, uint32_t k, const double *dir)
{
    const double h = 1e-5;
    const int64_t n = yk__value_count(&g->value[l.leaf[k]]);
    double f[2], *x = l.data[k];
    for (int s = 0; s < 2; s++) {
        double *y;
        for (int64_t i = 0; i < n; i++)
            x[i] += (s ? -2 : 1) * h * dir[i];
        y = lab_value(&l, g, loss);
        f[s] = y[0];
        free(y);
    }
    for (int64_t i = 0; i < n; i++)
        x[i] += h * dir[i];
    return (f[0] - f[1]) / (2 * h);
}

/* The loss is the sum of every output times random weights. `fixed`: leaves that are not differentiated, by mask. */
static void check_fixed(uint32_t n_out, const yk__vid *out, uint64_t fixed)
{
    const uint32_t n_leaf = l.n_slot;
    yk__vid loss = YK_NONE, seed, wrt[LAB_LEAVES], grad[LAB_LEAVES];
    uint32_t n_wrt = 0, at[LAB_LEAVES];
    yk__graph forward;
    yk_error err = YK_ERROR_INIT;
    for (uint32_t i = 0; i < n_out; i++) {
        yk_value v = l.graph.value[out[i]];
        yk__vid w = lab_float(&l, 0.5, 1.5, v.dims, v.dim), s;
        s = yk__sum(&l.graph, yk__bin(&l.graph, YK_OP_MUL, yk__cast(&l.graph, out[i], YK_F32), w), (1u << v.dims) - 1);
        s = yk__reshape(&l.graph, s, 0, NULL);
        loss = loss == YK_NONE ? s : yk__bin(&l.graph, YK_OP_ADD, loss, s);
    }
    ck_assert_msg(l.graph.error.status == YK_OK, "%s", l.graph.error.text);
    yk__graph_copy(&l.graph, &forward, &err);
    for (uint32_t k = 1; k < n_leaf; k++)
        if (l.graph.value[l.leaf[k]].dtype == YK_F32 && !(fixed >> k & 1))
            at[n_wrt] = k, wrt[n_wrt++] = l.leaf[k];
    seed = yk__const(&l.graph, 1, YK_F32);
    yk__grad(&l.graph, loss, seed, n_wrt, wrt, grad, NULL, NULL, &err);
    ck_assert_msg(err.status == YK_OK, "%s", err.text);
    for (uint32_t i = 0; i < n_wrt; i++) {
        const int64_t n = yk__value_count(&l.graph.value[wrt[i]]);
        double *dir = calloc((size_t)n, sizeof *dir), *got, want, have;
        ck_assert_msg(grad[i] != YK_NONE, "leaf %u got no gradient", at[i]);
        ck_assert(yk__value_same_shape(&l.graph.value[grad[i]], &l.graph.value[wrt[i]]));
        for (int64_t k = 0; k < n; k++)
            dir[k] = lab_random(&l) * 2 - 1;
        want = slope_along(&forward, loss, at[i], dir);
        got = lab_value(&l, &l.graph, grad[i]);
        have = vec_dot(got, dir, n);
        ck_assert_msg(fabs(want - have) <= 1e-6 + 1e-6 * fabs(want), "leaf %u: differences %.12g, rule %.12g", at[i],
                      want, have);
        free(got);
        free(dir);
    }
    yk__graph_free(&forward);
}

static void grads_check(uint32_t n_out, const yk__vid *out)
{
    check_fixed(n_out, out, 0);
}

static void lab_again(void)
{
    uint64_t seed = l.seed;
    lab_end(&l);
    lab_begin(&l, seed);
}

START_TEST(grads_of_unary_ops)
{
    uint32_t n = 0;
    for (uint32_t op = 0; op < YK_OP_COUNT; op++) {
        bool positive = op == YK_OP_LOG || op == YK_OP_SQRT || op == YK_OP_RSQRT || op == YK_OP_RECIP;
        if (!yk__op_is_map(op) || yk__op_info_of(op)->in_max != 1 || op == YK_OP_CAST)
            continue;
        yk__vid x = lab_float(&l, positive ? 0.2 : -2, 2, DIM(3, 5)), y = yk__un(&l.graph, (yk_op)op, x);
        grads_check(1, &y);
        lab_again();
        n++;
    }
    ck_assert_uint_ge(n, 14);
}
END_TEST

START_TEST(grads_of_binary_ops)
{
    static const yk_op ops[] = {YK_OP_ADD, YK_OP_SUB, YK_OP_MUL, YK_OP_DIV, YK_OP_MAX, YK_OP_MIN};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        yk__vid a = lab_float(&l, 0.2, 2, DIM(4, 1, 5)), b = lab_float(&l, 0.2, 2, DIM(3, 1)), y;
        y = yk__bin(&l.graph, ops[i], a, b);
        grads_check(1, &y);
        lab_again();
        a = lab_float(&l, 0.2, 2, DIM(2, 3)); /* one value on both sides */
        y = yk__bin(&l.graph, ops[i], a, a);
        if (ops[i] != YK_OP_MAX && ops[i] != YK_OP_MIN)
            grads_check(1, &y);
        lab_again();
    }
}
END_TEST

START_TEST(grads_of_selects)
{
    yk__vid c = lab_bool(&l, DIM(4, 3)), a = lab_float(&l, -1, 1, DIM(4, 3)), b = lab_float(&l, -1, 1, DIM(3)), y;
    y = yk__select(&l.graph, c, a, b);
    grads_check(1, &y);
    lab_again();
    a = lab_float(&l, -1, 1, DIM(4, 3, 5));
    y = yk__rmax(&l.graph, a, 5);
    grads_check(1, &y);
    lab_again();
    a = lab_float(&l, -1, 1, DIM(4, 3));
    y = yk__cast(&l.graph, yk__cast(&l.graph, a, YK_F64), YK_F32);
    grads_check(1, &y);
}
END_TEST

START_TEST(sums_and_views)
{
    yk__vid x = lab_float(&l, -1, 1, DIM(4, 3, 6)), y[3], t;
    y[0] = yk__sum(&l.graph, x, 2);
    t = yk__permute(&l.graph, x, (uint32_t[]){2, 0, 1});
    y[1] = yk__un(&l.graph, YK_OP_TANH, yk__reshape(&l.graph, t, 2, (int64_t[]){6, 12}));
    y[2] = yk__un(&l.graph, YK_OP_EXP, yk__slice(&l.graph, t, 0, 1, 6, 2));
    grads_check(3, y);
    lab_again();
    x = lab_float(&l, -1, 1, DIM(3, 1));
    y[0] = yk__un(&l.graph, YK_OP_EXP, yk__expand(&l.graph, x, DIM(2, 3, 4)));
    y[1] = yk__pad(&l.graph, x, DIM(8, 3), (int64_t[]){1, 2}, (int64_t[]){3, 1}, 2);
    y[2] = yk__sum(&l.graph, yk__expand(&l.graph, x, DIM(3, 5)), 1);
    grads_check(3, y);
}
END_TEST

START_TEST(parts_join)
{
    /* q, k, v of one projection: their gradients become one value by three copies, without an addition */
    yk__vid x = lab_float(&l, -1, 1, DIM(4, 9)), h = yk__un(&l.graph, YK_OP_TANH, x), y[3];
    size_t begin_node, adds = 0, fills = 0;
    for (int64_t i = 0; i < 3; i++)
        y[i] = yk__un(&l.graph, YK_OP_EXP, yk__permute(&l.graph, yk__slice(&l.graph, h, 1, 3 * i, 3 * i + 3, 1), (uint32_t[]){1, 0}));
    begin_node = l.graph.n_node;
    grads_check(3, y);
    for (size_t i = begin_node; i < l.graph.n_node; i++) {
        fills += l.graph.node[i].op == YK_OP_FILL && l.graph.value[l.graph.index[l.graph.node[i].out]].dims == 2;
        adds += l.graph.node[i].op == YK_OP_ADD && l.graph.value[l.graph.index[l.graph.node[i].out]].dims == 2;
    }
    ck_assert_uint_eq(adds, 0);
    ck_assert_uint_eq(fills, 1);
    lab_again();
    /* overlapping ones, and a whole use beside them */
    x = lab_float(&l, -1, 1, DIM(4, 9));
    h = yk__un(&l.graph, YK_OP_TANH, x);
    y[0] = yk__un(&l.graph, YK_OP_EXP, yk__slice(&l.graph, h, 1, 0, 5, 1));
    y[1] = yk__un(&l.graph, YK_OP_EXP, yk__slice(&l.graph, h, 1, 4, 9, 1));
    y[2] = yk__bin(&l.graph, YK_OP_MUL, h, h);
    grads_check(3, y);
}
END_TEST

START_TEST(grads_of_concat_and_slices)
{
    yk__vid a = lab_float(&l, -1, 1, DIM(2, 3)), b = lab_float(&l, -1, 1, DIM(2, 4)), in[3], c, y[2];
    in[0] = yk__un(&l.graph, YK_OP_EXP, a), in[1] = b, in[2] = a;
    c = yk__concat(&l.graph, 3, in, 1);
    y[0] = yk__un(&l.graph, YK_OP_TANH, c);
    y[1] = yk__un(&l.graph, YK_OP_EXP, yk__slice(&l.graph, c, 1, 2, 8, 1));
    grads_check(2, y);
}
END_TEST

START_TEST(grads_of_overwritten_parts)
{
    /* part of a computed value is overwritten by another: the first gets no gradient there */
    yk__vid a = lab_float(&l, -1, 1, DIM(3, 4)), b = lab_float(&l, -1, 1, DIM(3, 2)), base, y[1];
    yk_value v;
    base = yk__un(&l.graph, YK_OP_EXP, a);
    v = l.graph.value[base];
    v.dim[1] = 2, v.offset = 4;
    yk__copy_into(&l.graph, b, base, &v);
    v.offset = 8;
    yk__copy_into(&l.graph, yk__un(&l.graph, YK_OP_TANH, b), base, &v); /* over half of the first copy */
    y[0] = yk__un(&l.graph, YK_OP_TANH, base);
    grads_check(1, y);
}
END_TEST

START_TEST(grads_of_products)
{
    static const int transposed[4][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
    for (int i = 0; i < 4; i++) {
        bool ta = transposed[i][0], tb = transposed[i][1];
        yk__vid a = lab_float(&l, -1, 1, 2, ta ? (int64_t[]){4, 3} : (int64_t[]){3, 4});
        yk__vid b = lab_float(&l, -1, 1, 2, tb ? (int64_t[]){5, 4} : (int64_t[]){4, 5}), y;
        size_t before, copies = 0;
        y = yk__dot(&l.graph, a, b, ta, tb);
        before = l.graph.n_node;
        grads_check(1, &y);
        for (size_t k = before; k < l.graph.n_node; k++)
            copies += l.graph.node[k].op == YK_OP_COPY;
        ck_assert_uint_eq(copies, 0);
        lab_again();
        a = lab_float(&l, -1, 1, 3, ta ? (int64_t[]){2, 4, 3} : (int64_t[]){2, 3, 4});
        b = lab_float(&l, -1, 1, 3, tb ? (int64_t[]){1, 5, 4} : (int64_t[]){1, 4, 5});
        y = yk__dot(&l.graph, a, yk__expand(&l.graph, b, 3, tb ? (int64_t[]){2, 5, 4} : (int64_t[]){2, 4, 5}), ta, tb);
        grads_check(1, &y);
        lab_again();
    }
}
END_TEST

START_TEST(grads_of_a_tied_table)
{
    /* one table read by rows and multiplied as a transposed matrix, as in GPT-2 */
    yk__vid w = lab_float(&l, -1, 1, DIM(7, 3)), ids = lab_int(&l, 0, 6, DIM(2, 4)), h, y;
    h = yk__reshape(&l.graph, yk__gather(&l.graph, w, ids), 2, (int64_t[]){8, 3});
    y = yk__dot(&l.graph, yk__un(&l.graph, YK_OP_TANH, h), w, false, true);
    grads_check(1, &y);
}
END_TEST

START_TEST(grads_of_gather_and_scatter)
{
    yk__vid x = lab_float(&l, -1, 1, DIM(6, 3)), ids = lab_int(&l, -1, 5, DIM(6)), y[2];
    y[0] = yk__gather(&l.graph, x, ids);
    y[1] = yk__scatter_add(&l.graph, x, ids, 5);
    grads_check(2, y);
}
END_TEST

START_TEST(grads_of_folds)
{
    int64_t attr[9] = {2, 3, 2, 1, 1, 0, 1, 2, yk_attr_of_f64(5)};
    yk__vid x = lab_float(&l, -1, 1, DIM(2, 3, 5, 7)), y[4];
    lab_one(&l, YK_OP_UNFOLD, 1, &x, 9, attr, 0, NULL, y);
    grads_check(1, y);
    lab_again();
    x = lab_float(&l, -1, 1, DIM(2, 18, 9));
    lab_one(&l, YK_OP_FOLD, 1, &x, 8, attr, DIM(2, 3, 5, 7), y);
    grads_check(1, y);
}
END_TEST

START_TEST(grads_of_convolutions)
{
    static const int64_t attrs[][7] = {{1, 1, 0, 0, 1, 1, 1}, {2, 1, 1, 2, 1, 2, 1}, {1, 2, 1, 0, 2, 1, 2}};
    for (size_t i = 0; i < 3; i++) {
        yk__vid in[2], y[4], gy;
        in[0] = lab_float(&l, -1, 1, DIM(2, 4, 6, 7));
        in[1] = lab_float(&l, -1, 1, DIM(4, 4 / attrs[i][6], 3, 2));
        lab_one(&l, YK_OP_CONV2D, 2, in, 7, attrs[i], 0, NULL, y);
        grads_check(1, y);
        gy = lab_float(&l, -1, 1, l.graph.value[y[0]].dims, l.graph.value[y[0]].dim);
        {
            yk_value x = l.graph.value[in[0]], w = l.graph.value[in[1]], v = l.graph.value[gy];
            lab_again();
            in[0] = lab_float(&l, -1, 1, v.dims, v.dim), in[1] = lab_float(&l, -1, 1, w.dims, w.dim);
            lab_one(&l, YK_OP_CONV2D_DX, 2, in, 7, attrs[i], x.dims, x.dim, y);
            grads_check(1, y);
            lab_again();
            in[0] = lab_float(&l, -1, 1, v.dims, v.dim), in[1] = lab_float(&l, -1, 1, x.dims, x.dim);
            lab_one(&l, YK_OP_CONV2D_DW, 2, in, 7, attrs[i], w.dims, w.dim, y);
            grads_check(1, y);
            lab_again();
        }
    }
}
END_TEST

START_TEST(grads_of_pools)
{
    int64_t max[8] = {3, 2, 2, 1, 1, 1, 1, 2}, avg[7] = {3, 2, 2, 1, 1, 1, 0};
    yk__vid x = lab_float(&l, -1, 1, DIM(2, 3, 6, 7)), y[4];
    lab_one(&l, YK_OP_MAX_POOL, 1, &x, 8, max, 0, NULL, y);
    grads_check(1, y);
    for (int i = 0; i < 2; i++) {
        yk_value v;
        avg[6] = i;
        lab_again();
        x = lab_float(&l, -1, 1, DIM(2, 3, 6, 7));
        lab_one(&l, YK_OP_AVG_POOL, 1, &x, 7, avg, 0, NULL, y);
        v = l.graph.value[y[0]];
        grads_check(1, y);
        lab_again();
        x = lab_float(&l, -1, 1, v.dims, v.dim);
        lab_one(&l, YK_OP_AVG_POOL_BWD, 1, &x, 7, avg, DIM(2, 3, 6, 7), y);
        grads_check(1, y);
    }
}
END_TEST

START_TEST(batch_statistics)
{
    yk__vid in[2], y[4];
    in[0] = lab_float(&l, -1, 1, DIM(3, 4, 5));
    in[1] = lab_float(&l, -1, 1, DIM(4));
    lab_one(&l, YK_OP_BN_STATS, 2, in, 0, NULL, 0, NULL, y);
    check_fixed(1, y, 1u << 2); /* no gradient to the shift: the statistics made of it do not depend on it */
}
END_TEST

START_TEST(grads_of_norms)
{
    int64_t eps = yk_attr_of_f64(1e-3), log;
    for (uint32_t n = 1; n <= 3; n++) {
        yk__vid in[3], y[4];
        in[0] = lab_float(&l, -1, 1, DIM(4, 6));
        in[1] = lab_float(&l, 0.5, 1.5, DIM(6));
        in[2] = lab_float(&l, -1, 1, DIM(6));
        lab_one(&l, YK_OP_LAYER_NORM, n, in, 1, &eps, 0, NULL, y);
        check_fixed(1, y, n == 1 ? 12 : n == 2 ? 8 : 0);
        lab_again();
    }
    for (log = 0; log < 2; log++) {
        yk__vid x = lab_float(&l, -3, 3, DIM(4, 6)), y[4];
        lab_one(&l, YK_OP_SOFTMAX, 1, &x, 1, &log, 0, NULL, y);
        grads_check(1, y);
        lab_again();
    }
}
END_TEST

static void attention_check(bool causal, int64_t flags, int64_t tq, int64_t tk, int64_t hk, uint32_t n_out)
{
    int64_t attr[5] = {causal, yk_attr_of_f64(0.6), yk_attr_of_f64(0.3), 11, flags};
    yk__vid in[7], y[4];
    uint64_t fixed = 0;
    uint32_t n = 3;
    in[0] = lab_float(&l, -1, 1, DIM(2, 4, tq, 3));
    in[1] = lab_float(&l, -1, 1, DIM(2, hk, tk, 3));
    in[2] = lab_float(&l, -1, 1, DIM(2, hk, tk, 3));
    if (flags & YK_ATT_KEEP) {
        in[n++] = lab_float(&l, 1, 1, DIM(2, tk));
        ((double *)l.data[l.n_slot - 1])[tk - 1] = 0;
        for (int64_t i = 0; i < tk; i++)
            ((double *)l.data[l.n_slot - 1])[tk + i] = 0; /* a batch row without any key */
        fixed |= 1ull << (l.n_slot - 1);
    }
    if (flags & YK_ATT_BIAS)
        in[n++] = yk__expand(&l.graph, lab_float(&l, -1, 1, DIM(1, 4, 1, tk)), DIM(2, 4, tq, tk));
    if (flags & YK_ATT_DROP) {
        in[n++] = lab_int(&l, 0, 9999, DIM(4));
        in[n++] = lab_int(&l, 0, 50, DIM(2));
    }
    lab_one(&l, YK_OP_ATTENTION, n, in, 5, attr, 0, NULL, y);
    check_fixed(n_out, y, fixed);
    lab_again();
}

START_TEST(grads_of_attention)
{
    attention_check(false, 0, 3, 5, 4, 1);
    attention_check(true, 0, 5, 5, 2, 1);
    attention_check(true, 0, 5, 3, 1, 1); /* the first queries see nothing */
    attention_check(true, YK_ATT_BIAS, 3, 5, 4, 1);
    attention_check(false, YK_ATT_KEEP | YK_ATT_DROP, 3, 5, 2, 1);
    attention_check(true, YK_ATT_KEEP | YK_ATT_BIAS | YK_ATT_DROP, 4, 4, 2, 1);
}
END_TEST

static void losses_check(double smoothing, bool weights)
{
    int64_t attr[2] = {-100, yk_attr_of_f64(smoothing)};
    yk__vid in[3], y[4];
    in[0] = lab_float(&l, -2, 2, DIM(6, 5));
    in[1] = lab_int(&l, 0, 4, DIM(6));
    ((int32_t *)l.data[2])[3] = -100;
    in[2] = weights ? lab_float(&l, 0.5, 2, DIM(5)) : YK_NONE;
    lab_one(&l, YK_OP_CROSS_ENTROPY, weights ? 3 : 2, in, 2, attr, 0, NULL, y);
    check_fixed(1, y, weights ? 8 : 0);
    lab_again();
}

START_TEST(cross_entropies)
{
    losses_check(0, false);
    losses_check(0.2, false);
    losses_check(0.1, true);
}
END_TEST

START_TEST(grads_of_dropout)
{
    int64_t attr[2] = {yk_attr_of_f64(0.4), 3};
    yk__vid in[3], y[4];
    in[0] = lab_float(&l, -1, 1, DIM(4, 6));
    in[1] = lab_int(&l, 0, 9999, DIM(4));
    in[2] = lab_int(&l, 0, 100, DIM(4));
    lab_one(&l, YK_OP_DROPOUT, 3, in, 2, attr, 0, NULL, y);
    grads_check(1, y);
}
END_TEST

START_TEST(summed_over_ranks)
{
    yk__vid x = lab_float(&l, -1, 1, DIM(4)), y = yk__all_reduce(&l.graph, yk__un(&l.graph, YK_OP_EXP, x));
    size_t n = l.graph.n_node, found = 0;
    grads_check(1, &y);
    for (; n < l.graph.n_node; n++)
        found += l.graph.node[n].op == YK_OP_ALL_REDUCE;
    ck_assert_uint_eq(found, 1);
}
END_TEST

/* Backward composites, and statistics that backward composites do not cover: through the body. */
START_TEST(through_bodies)
{
    for (uint32_t op = 0; op < YK_OP_COUNT; op++) {
        yk__vid in[2], y;
        if (yk__op_info_of(op)->kind != YK_KIND_COMP || !yk__op_is_map(op) || yk__op_info_of(op)->in_min != 2)
            continue;
        in[0] = lab_float(&l, -2, 2, DIM(3, 4)), in[1] = lab_float(&l, -1, 1, DIM(3, 4));
        y = yk__bin(&l.graph, (yk_op)op, in[0], in[1]);
        if (op == YK_OP_RELU_BWD)
            check_fixed(1, &y, 1u << 1); /* does not depend on x but for its sign: no gradient arrives */
        else
            grads_check(1, &y);
        lab_again();
    }
    for (int64_t log = 0; log < 2; log++) {
        yk__vid in[2] = {lab_float(&l, -1, 1, DIM(3, 4)), lab_float(&l, -1, 1, DIM(3, 4))}, y[4];
        lab_one(&l, YK_OP_SOFTMAX_BWD, 2, in, 1, &log, 0, NULL, y);
        grads_check(1, y);
        lab_again();
    }
}
END_TEST

START_TEST(saved_statistics)
{
    int64_t eps = yk_attr_of_f64(1e-3), att[5] = {1, yk_attr_of_f64(0.6), 0, 0, 0}, ce[2] = {-100, yk_attr_of_f64(0.1)};
    yk__vid in[5], y[4];
    for (int i = 0; i < 3; i++)
        in[i] = lab_float(&l, -1, 1, i ? 1 : 2, i ? (int64_t[]){6} : (int64_t[]){4, 6});
    lab_one(&l, YK_OP_LAYER_NORM, 3, in, 1, &eps, 0, NULL, y);
    grads_check(3, y);
    lab_again();
    for (int i = 0; i < 3; i++)
        in[i] = lab_float(&l, -1, 1, DIM(2, 2, 4, 3));
    lab_one(&l, YK_OP_ATTENTION, 3, in, 5, att, 0, NULL, y);
    grads_check(2, y);
    lab_again();
    in[0] = lab_float(&l, -1, 1, DIM(4, 5)), in[1] = lab_int(&l, 0, 4, DIM(4)), in[2] = lab_float(&l, 0.5, 2, DIM(5));
    lab_one(&l, YK_OP_CROSS_ENTROPY, 3, in, 2, ce, 0, NULL, y);
    grads_check(2, y);
    lab_again();
    in[0] = lab_float(&l, -1, 1, DIM(4, 6)), in[1] = lab_float(&l, -1, 1, DIM(4, 6));
    in[2] = lab_float(&l, -1, 1, DIM(4)), in[3] = lab_float(&l, 1, 2, DIM(4)), in[4] = lab_float(&l, 0.5, 1, DIM(6));
    lab_one(&l, YK_OP_LAYER_NORM_BWD, 5, in, 1, &eps, 0, NULL, y);
    grads_check(3, y);
}
END_TEST

/* The gradient of a gradient: d/dx of sum (d/dx sum f(x) w)^2, for a small network with attention. */
START_TEST(second_order)
{
    int64_t att[5] = {0, yk_attr_of_f64(0.6), 0, 0, 0};
    yk__vid x = lab_float(&l, -1, 1, DIM(1, 2, 3, 4)), in[3] = {x, yk__un(&l.graph, YK_OP_GELU, x), x}, y[4], grad, one;
    yk_error err = YK_ERROR_INIT;
    lab_one(&l, YK_OP_ATTENTION, 3, in, 5, att, 0, NULL, y);
    y[0] = yk__bin(&l.graph, YK_OP_MUL, y[0], y[0]);
    one = yk__const(&l.graph, 1, YK_F32);
    ck_assert_int_eq(yk__grad(&l.graph, yk__sum(&l.graph, y[0], 15), one, 1, &x, &grad, NULL, NULL, &err), YK_OK);
    y[0] = yk__bin(&l.graph, YK_OP_MUL, grad, grad);
    grads_check(1, y);
}
END_TEST

START_TEST(bodies_of_their_own)
{
    yk__vid x = lab_float(&l, -1, 1, DIM(3, 4)), w = lab_float(&l, -1, 1, DIM(4, 5)), y, z, in[2] = {x, w}, out[2];
    uint32_t n;
    y = yk__value_new(&l.graph, YK_F32, DIM(3, 5)), z = yk__value_new(&l.graph, YK_F32, DIM(3, 5));
    out[0] = y, out[1] = z;
    n = yk__node_new(&l.graph, YK_OP_DOT_MAP, 0, 2, in, 2, out, 0, NULL);
    l.graph.node[n].body = yk__body_new(&l.graph, YK_OP_DOT, 2, in, 1, &y, 0, NULL);
    yk__body_new(&l.graph, YK_OP_TANH, 1, &y, 1, &z, 0, NULL);
    l.graph.node[n].n_body = 2;
    grads_check(2, out);
}
END_TEST

/* A rank without rows: the same graph with lengths of 0 gives gradients of 0. */
START_TEST(no_rows)
{
    yk__vid x = lab_float(&l, -1, 1, DIM(0, 4)), w = lab_float(&l, -1, 1, DIM(3, 4)), b = lab_float(&l, -1, 1, DIM(3));
    yk__vid y, wrt[2] = {w, b}, grad[2], one;
    yk_error err = YK_ERROR_INIT;
    y = yk__un(&l.graph, YK_OP_TANH, yk__bin(&l.graph, YK_OP_ADD, yk__dot(&l.graph, x, w, false, true), b));
    one = yk__const(&l.graph, 1, YK_F32);
    yk__grad(&l.graph, yk__sum(&l.graph, y, 3), one, 2, wrt, grad, NULL, NULL, &err);
    ck_assert_msg(err.status == YK_OK, "%s", err.text);
    for (int i = 0; i < 2; i++) {
        double *v = lab_value(&l, &l.graph, grad[i]);
        for (int64_t k = 0; k < yk__value_count(&l.graph.value[wrt[i]]); k++)
            ck_assert(v[k] == 0);
        free(v);
    }
}
END_TEST

static void no_rule(yk_op op, uint32_t n, const yk__vid *in, const int64_t *attr, uint32_t n_attr)
{
    yk__vid y[4], grad, one, wrt = in[1];
    yk_error err = YK_ERROR_INIT;
    lab_one(&l, op, n, in, n_attr, attr, 0, NULL, y);
    one = yk__const(&l.graph, 1, YK_F32);
    yk__grad(&l.graph, yk__sum(&l.graph, y[0], 1), one, 1, &wrt, &grad, NULL, NULL, &err);
    ck_assert_int_eq(err.status, YK_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, yk__op_info_of(op)->name));
}

START_TEST(steps_have_none)
{
    yk__vid in[5];
    int64_t flags = 0;
    for (int i = 0; i < 4; i++)
        in[i] = lab_float(&l, 0, 1, DIM(3));
    in[4] = lab_float(&l, 0, 1, DIM(16));
    no_rule(YK_OP_ADAM_STEP, 5, in, &flags, 1);
}
END_TEST

static uint32_t order[8], n_order;
static size_t nodes_at[8];

static void order_note(void *arg, uint32_t i, yk__vid grad)
{
    yk__graph *g = arg;
    ck_assert_uint_lt(grad, g->n_value);
    nodes_at[n_order] = g->n_node;
    order[n_order++] = i;
}

START_TEST(late_layers_first)
{
    yk__vid x = lab_float(&l, -1, 1, DIM(4, 3)), w[4], grad[4], one;
    yk_error err = YK_ERROR_INIT;
    for (int i = 0; i < 3; i++) {
        w[i] = lab_float(&l, -1, 1, DIM(3, 3));
        x = yk__un(&l.graph, YK_OP_TANH, yk__dot(&l.graph, x, w[i], false, true));
    }
    w[3] = lab_float(&l, -1, 1, DIM(2)); /* not used */
    one = yk__const(&l.graph, 1, YK_F32);
    n_order = 0;
    ck_assert_int_eq(yk__grad(&l.graph, yk__sum(&l.graph, x, 3), one, 4, w, grad, order_note, &l.graph, &err), YK_OK);
    ck_assert_uint_eq(n_order, 3);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_uint_eq(order[i], 2 - i);
    ck_assert(nodes_at[0] < nodes_at[1] && nodes_at[1] < nodes_at[2]);
    ck_assert_uint_eq(grad[3], YK_NONE);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {grads_of_unary_ops,
                                  grads_of_binary_ops,
                                  grads_of_selects,
                                  sums_and_views,
                                  parts_join,
                                  grads_of_concat_and_slices,
                                  grads_of_overwritten_parts,
                                  grads_of_products,
                                  grads_of_a_tied_table,
                                  grads_of_gather_and_scatter,
                                  grads_of_folds,
                                  grads_of_convolutions,
                                  grads_of_pools,
                                  batch_statistics,
                                  grads_of_norms,
                                  grads_of_attention,
                                  cross_entropies,
                                  grads_of_dropout,
                                  summed_over_ranks,
                                  steps_have_none,
                                  through_bodies,
                                  saved_statistics,
                                  second_order,
                                  bodies_of_their_own,
                                  no_rows,
                                  late_layers_first};
    return suite_run_all("grad_rules", tests, sizeof tests / sizeof *tests, lab_start, lab_stop);
}
