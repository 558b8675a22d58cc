/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts, groups random and gradients: larger graphs, compared with the reference by its rounding error. main.c runs each group in a
 * child process with the device under test open; a graph that fails is made smaller (shrink.c) and printed.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/grad/grad.h"
#include "tools/cts/cts.h"

#define ROWS 12
#define COLS 20
#define POOL 64
#define STEPS 16      /* kinds of steps */
#define STEPS_WIDE 24 /* with --wide */

/* ---- random --------------------------------------------------------------------------------------------------------------- */

typedef struct maker {
    yk__graph *g;
    uint64_t state;
    int64_t dim[2];      /* rows, columns: ROWS and COLS, but with --wide */
    yk__vid value[POOL]; /* all f32 of that shape, of moderate size */
    uint32_t n;
    bool low; /* 16-bit detours are possible */
    yk_dtype low_type;
    bool wide;
} maker;

static yk__vid value_any(maker *m)
{
    return m->value[cts_below(&m->state, m->n)];
}

static yk__vid value_tame(maker *m, yk__vid v)
{
    return yk__un(m->g, YK_OP_TANH, v);
}

static yk__vid net_weight(maker *m)
{
    const int64_t dim[] = {m->dim[1], m->dim[1]};
    return cts_leaf(m->g, YK_F32, CTS_UNIT, 0, 2, dim);
}

static yk__vid apply_unary(maker *m, yk_op op, yk__vid x, uint32_t n_attr, int64_t attr)
{
    yk__vid out[4] = {YK_NONE, YK_NONE, YK_NONE, YK_NONE};
    yk__apply(m->g, op, 1, &x, n_attr, &attr, YK_DTYPE_COUNT, YK_NONE, NULL, out, 4);
    return out[0];
}

/* tanh(a) * b + a, as one map. */
static yk__vid map_body(maker *m)
{
    yk__vid in[2] = {value_any(m), value_any(m)}, out;
    size_t first = m->g->n_node;
    out = yk__bin(m->g, YK_OP_ADD, yk__bin(m->g, YK_OP_MUL, value_tame(m, in[0]), in[1]), in[0]);
    cts_make_body(m->g, YK_OP_MAP, first, 2, in, 1, &out);
    return out;
}

/* tanh(a w + b), as one dot_map. */
static yk__vid dot_body(maker *m)
{
    yk__vid in[3], out;
    size_t first;
    in[0] = value_any(m), in[1] = net_weight(m), in[2] = value_any(m);
    first = m->g->n_node;
    out = value_tame(m, yk__bin(m->g, YK_OP_ADD, yk__dot(m->g, in[0], in[1], false, false), in[2]));
    cts_make_body(m->g, YK_OP_DOT_MAP, first, 3, in, 1, &out);
    return out;
}

/* a + sum over one axis of a*b (as one map_sum), scaled. */
static yk__vid sum_body(maker *m)
{
    yk__vid in[2] = {value_any(m), value_any(m)}, out;
    size_t first = m->g->n_node;
    out = yk__sum(m->g, yk__bin(m->g, YK_OP_MUL, in[0], in[1]), 1 + cts_below(&m->state, 2));
    cts_make_body(m->g, YK_OP_MAP_SUM, first, 2, in, 1, &out);
    return yk__bin(m->g, YK_OP_ADD, in[0], yk__expand(m->g, value_tame(m, out), 2, m->dim));
}

static yk__vid value_transposed(maker *m)
{
    static const uint32_t turn[] = {1, 0};
    yk__vid x = yk__dense(m->g, yk__permute(m->g, value_any(m), turn)); /* [COLS, ROWS] */
    return yk__bin(m->g, YK_OP_ADD, yk__dense(m->g, yk__permute(m->g, x, turn)), value_any(m));
}

static yk__vid cut_and_joined(maker *m)
{
    int64_t at = 1 + cts_below(&m->state, (uint32_t)m->dim[1] - 2);
    yk__vid part[2];
    part[0] = yk__slice(m->g, value_any(m), 1, 0, at, 1);
    part[1] = yk__slice(m->g, value_any(m), 1, at, m->dim[1], 1);
    return yk__concat(m->g, 2, part, 1);
}

static yk__vid value_gathered(maker *m)
{
    return yk__gather(m->g, value_any(m), cts_leaf(m->g, YK_I32, CTS_INDEX, (uint32_t)m->dim[0], 1, m->dim));
}

static yk__vid value_detour(maker *m)
{
    yk__vid x = value_any(m);
    return m->low ? yk__cast(m->g, yk__cast(m->g, x, m->low_type), YK_F32) : yk__scale(m->g, x, 0.7);
}

/* ---- Steps of --wide ------------------------------------------------------------------------------------------------------- */

/* Heads of the columns, if they divide evenly; causal or not. */
static yk__vid value_attended(maker *m)
{
    static const uint32_t turn[] = {0, 2, 1, 3};
    const int64_t heads = m->dim[1] % 2 ? 1 : 2, dim[] = {1, m->dim[0], heads, m->dim[1] / heads};
    const int64_t attr[] = {cts_below(&m->state, 2), yk_attr_of_f64(0.35), 0, 0, 0};
    yk__vid in[3], out[4] = {YK_NONE, YK_NONE, YK_NONE, YK_NONE};
    for (int i = 0; i < 3; i++)
        in[i] = yk__dense(m->g, yk__permute(m->g, yk__reshape(m->g, value_tame(m, value_any(m)), 4, dim), turn));
    yk__apply(m->g, YK_OP_ATTENTION, 3, in, 5, attr, YK_DTYPE_COUNT, YK_NONE, NULL, out, 4);
    return yk__reshape(m->g, yk__dense(m->g, yk__permute(m->g, out[0], turn)), 2, m->dim);
}

/* A convolution that keeps the picture's size, or the gradient of one. */
static yk__vid value_convolved(maker *m)
{
    const int64_t side = 1 + 2 * cts_below(&m->state, 3), pad = side / 2, x[] = {1, 1, m->dim[0], m->dim[1]}, w[] = {1, 1, side, side};
    const int64_t attr[] = {1, 1, pad, pad, 1, 1, 1};
    const bool back = cts_below(&m->state, 2);
    const yk__vid in[2] = {yk__reshape(m->g, value_any(m), 4, x), cts_leaf(m->g, YK_F32, CTS_UNIT, 1, 4, w)};
    yk__vid out = YK_NONE;
    yk__apply(m->g, back ? YK_OP_CONV2D_DX : YK_OP_CONV2D, 2, in, 7, attr, YK_DTYPE_COUNT, back ? 4 : YK_NONE, back ? x : NULL, &out, 1);
    return value_tame(m, yk__reshape(m->g, out, 2, m->dim));
}

/* A filter's gradient of two pictures, plus a third: alone, its cancelling terms would leave more rounding error than its size tells. */
static yk__vid value_filtered(maker *m)
{
    const int64_t x[] = {1, 1, m->dim[0], m->dim[1]}, w[] = {1, 1, 3, 3}, one[] = {1, 1}, attr[] = {1, 1, 1, 1, 1, 1, 1};
    const yk__vid in[2] = {yk__reshape(m->g, value_tame(m, value_any(m)), 4, x), yk__reshape(m->g, value_any(m), 4, x)};
    yk__vid out = YK_NONE;
    yk__apply(m->g, YK_OP_CONV2D_DW, 2, in, 7, attr, YK_DTYPE_COUNT, 4, w, &out, 1);
    out = yk__scale(m->g, yk__sum(m->g, yk__reshape(m->g, out, 2, (int64_t[]){3, 3}), 3), 1.0 / (double)(m->dim[0] * m->dim[1]));
    return yk__bin(m->g, YK_OP_ADD, value_tame(m, value_any(m)), yk__expand(m->g, yk__reshape(m->g, out, 2, one), 2, m->dim));
}

/* a b' c, and (a' b) times c from the right: products of other shapes, with either operand transposed. */
static yk__vid value_products(maker *m)
{
    const yk__vid a = value_tame(m, value_any(m)), b = value_tame(m, value_any(m)), c = value_any(m);
    const bool left = cts_below(&m->state, 2);
    const double scale = 1.0 / (double)m->dim[!!left];
    const yk__vid middle = yk__scale(m->g, yk__dot(m->g, a, b, !left, left), scale);
    return value_tame(m, left ? yk__dot(m->g, middle, c, false, false) : yk__dot(m->g, c, middle, false, false));
}

static yk__vid value_low_product(maker *m)
{
    const yk_dtype low = m->low ? m->low_type : YK_F32;
    const yk__vid a = yk__cast(m->g, value_tame(m, value_any(m)), low), w = yk__cast(m->g, net_weight(m), low);
    return value_tame(m, yk__cast(m->g, yk__dot(m->g, a, w, false, cts_below(&m->state, 2)), YK_F32));
}

/* Largest elements taken off. */
static yk__vid value_below_max(maker *m)
{
    const yk__vid x = value_any(m);
    return yk__bin(m->g, YK_OP_SUB, x, yk__expand(m->g, yk__rmax(m->g, x, 1 + cts_below(&m->state, 2)), 2, m->dim));
}

/* Every second column, twice. */
static yk__vid value_spread(maker *m)
{
    const int64_t even = m->dim[1] / 2 * 2;
    yk__vid part[3], x = value_any(m);
    part[0] = yk__slice(m->g, x, 1, 0, even, 2);
    part[1] = yk__slice(m->g, value_any(m), 1, 1, even, 2);
    part[2] = yk__slice(m->g, x, 1, even, m->dim[1], 1);
    return yk__concat(m->g, m->dim[1] > even ? 3 : 2, part, 1);
}

static yk__vid value_selected(maker *m)
{
    const yk__vid a = value_any(m), b = value_any(m);
    return yk__select(m->g, yk__bin(m->g, YK_OP_LT, a, b), value_tame(m, a), yk__scale(m->g, b, -0.5));
}

static yk__vid wide_step(maker *m, uint32_t kind)
{
    static yk__vid (*const steps[STEPS_WIDE - STEPS])(maker *) = {value_attended,  value_convolved, value_filtered, value_products,
                                                                  value_low_product, value_below_max, value_spread, value_selected};
    return steps[kind - STEPS](m);
}

static yk__vid random_step(maker *m)
{
    const uint32_t kind = cts_below(&m->state, m->wide ? STEPS_WIDE : STEPS);
    switch (kind) {
    case 0:
        return value_tame(m, yk__bin(m->g, YK_OP_MUL, value_any(m), value_any(m)));
    case 1:
        return yk__bin(m->g, YK_OP_SUB, value_tame(m, value_any(m)), value_tame(m, value_any(m)));
    case 2:
        return yk__bin(m->g, YK_OP_MAX, value_any(m), value_any(m));
    case 3:
        return value_tame(m, yk__dot(m->g, value_any(m), net_weight(m), false, cts_below(&m->state, 2)));
    case 4:
        return yk__bin(m->g, YK_OP_ADD, value_tame(m, value_any(m)), yk__scale(m->g, value_tame(m, yk__sum(m->g, value_any(m), 2)), 0.3));
    case 5:
        return map_body(m);
    case 6:
        return dot_body(m);
    case 7:
        return sum_body(m);
    case 8:
        return value_transposed(m);
    case 9:
        return cut_and_joined(m);
    case 10:
        return value_gathered(m);
    case 11:
        return value_detour(m);
    case 12:
        return apply_unary(m, YK_OP_SOFTMAX, value_any(m), 1, 0);
    case 13:
        return apply_unary(m, YK_OP_LAYER_NORM, yk__bin(m->g, YK_OP_ADD, value_any(m), m->value[0]), 1, yk_attr_of_f64(1e-2));
    case 14:
        return apply_unary(m, YK_OP_GELU, value_any(m), 0, 0);
    case STEPS - 1:
        return apply_unary(m, YK_OP_RELU, value_any(m), 0, 0);
    default:
        return wide_step(m, kind);
    }
}

/* Makes graph `number` of the seed. */
static void random_make(const cts *c, cts_check *k, uint32_t number)
{
    yk_dtype types[4];
    const uint32_t n_type = cts_float_types(c, types);
    maker m = {.g = &k->g, .state = c->seed * 7919 + number, .low = n_type > 1, .dim = {ROWS, COLS}, .wide = c->wide};
    uint32_t nodes;
    cts_check_init(k, c);
    k->tol = CTS_NOISE;
    k->body_noise = true; /* a layer norm's error of the mean is in all its elements, so their sum, near zero, has it many times */
    k->share = number % 2 == 1;
    k->arenas = number % 3 == 2;
    m.low_type = n_type > 1 ? types[1 + number % (n_type - 1)] : YK_F32;
    nodes = 5 + cts_below(&m.state, 36);
    if (m.wide) {
        m.dim[0] = 2 + cts_below(&m.state, 1 + cts_below(&m.state, 150));
        m.dim[1] = 3 + cts_below(&m.state, 1 + cts_below(&m.state, 140));
    }
    while (m.n < 3)
        m.value[m.n] = cts_leaf(m.g, YK_F32, CTS_UNIT, m.n, 2, m.dim), m.n++;
    while (m.n < POOL && k->g.n_node < nodes && !k->g.error.status)
        m.value[m.n++] = random_step(&m);
    for (uint32_t i = 0; i < 4 && i + 4 < m.n; i++)
        cts_want(k, yk__bin(&k->g, YK_OP_ADD, m.value[m.n - 1 - i], m.value[3 + i % (m.n - 3)]));
    if (!k->n_want)
        cts_want(k, m.value[m.n - 1]);
}

static void random_graph(cts *c, uint32_t number)
{
    cts_check k;
    random_make(c, &k, number);
    if (cts_check_run(c, &k) && c->failed_now)
        cts_shrink(c, &k, number);
    cts_check_free(&k);
}

void cts_group_random(cts *c)
{
    /* --quick runs every tenth: without each eleventh number these are 0, 11, 22 and so on, so that random_make's kinds are among them */
    for (uint32_t i = 0; i < c->count; i++)
        if ((!c->quick || i % 11 != 10) && cts_begin(c, "graph.%u%s", i, i % 2 ? ".shared" : ""))
            random_graph(c, i);
}

/* ---- gradients ------------------------------------------------------------------------------------------------------------ */

typedef struct net {
    cts_check k;
    yk_dtype type; /* type of the computation; parameters are f32 */
    yk__vid wrt[8];
    uint32_t n_wrt;
} net;

static yk__vid net_input(net *t, cts_dist dist, uint32_t n, yk_dtype dtype, uint32_t dims, const int64_t *dim)
{
    return cts_leaf(&t->k.g, dtype, dist, n, dims, dim);
}

static yk__vid net_param(net *t, uint32_t dims, const int64_t *dim)
{
    yk__vid v = net_input(t, CTS_UNIT, 0, YK_F32, dims, dim);
    t->wrt[t->n_wrt++] = v;
    return v;
}

/* A parameter in the type of the computation. */
static yk__vid net_weights(net *t, uint32_t dims, const int64_t *dim)
{
    yk__vid v = net_param(t, dims, dim);
    return t->type == YK_F32 ? v : yk__cast(&t->k.g, v, t->type);
}

static yk__vid net_linear(net *t, yk__vid x, int64_t in, int64_t out)
{
    const int64_t w[] = {in, out};
    yk__vid y = yk__scale(&t->k.g, yk__dot(&t->k.g, x, net_weights(t, 2, w), false, false), 0.3);
    return yk__bin(&t->k.g, YK_OP_ADD, y, net_weights(t, 1, w + 1));
}

static yk__vid net_op(net *t, yk_op op, uint32_t n_in, const yk__vid *in, uint32_t n_attr, const int64_t *attr)
{
    yk__vid out[4] = {YK_NONE, YK_NONE, YK_NONE, YK_NONE};
    yk__apply(&t->k.g, op, n_in, in, n_attr, attr, YK_DTYPE_COUNT, YK_NONE, NULL, out, 4);
    return out[0];
}

static yk__vid net_classify(net *t, yk__vid logits, int64_t rows, uint32_t classes)
{
    int64_t attr[] = {-100, yk_attr_of_f64(0.1)};
    yk__vid in[2] = {logits, net_input(t, CTS_LABEL, classes, YK_I32, 1, &rows)};
    return yk__sum(&t->k.g, net_op(t, YK_OP_CROSS_ENTROPY, 2, in, 2, attr), 1);
}

static yk__vid net_mlp(net *t)
{
    static const int64_t dim[] = {9, 14};
    yk__vid x = net_input(t, CTS_UNIT, 0, t->type, 2, dim), h = net_linear(t, x, 14, 17);
    h = net_op(t, YK_OP_GELU, 1, &h, 0, NULL);
    return net_classify(t, net_linear(t, h, 17, 5), 9, 5);
}

static yk__vid conv_net(net *t)
{
    static const int64_t dim[] = {2, 3, 8, 8}, w[] = {4, 3, 3, 3}, conv[] = {1, 1, 1, 1, 1, 1, 1};
    static const int64_t pool[] = {2, 2, 2, 2, 0, 0, 1, 1}, flat[] = {2, 4 * 4 * 4};
    yk__vid in[2], h;
    in[0] = net_input(t, CTS_UNIT, 0, t->type, 4, dim);
    in[1] = net_weights(t, 4, w);
    h = net_op(t, YK_OP_CONV2D, 2, in, 7, conv);
    h = net_op(t, YK_OP_SILU, 1, &h, 0, NULL);
    h = net_op(t, YK_OP_MAX_POOL, 1, &h, 8, pool);
    return net_classify(t, net_linear(t, yk__reshape(&t->k.g, h, 2, flat), 64, 3), 2, 3);
}

/* [rows, heads*width] -> [1, heads, rows, width] */
static yk__vid net_heads(net *t, yk__vid x)
{
    static const int64_t split[] = {1, 6, 2, 8};
    static const uint32_t turn[] = {0, 2, 1, 3};
    return yk__dense(&t->k.g, yk__permute(&t->k.g, yk__reshape(&t->k.g, x, 4, split), turn));
}

static yk__vid net_transformer(net *t)
{
    static const int64_t dim[] = {6, 16};
    static const uint32_t turn[] = {0, 2, 1, 3};
    int64_t eps = yk_attr_of_f64(1e-5), attr[] = {1, yk_attr_of_f64(0.35), 0, 3, 0};
    yk__vid x = net_input(t, CTS_UNIT, 0, t->type, 2, dim), in[3], norm[3], h;
    norm[0] = x, norm[1] = net_param(t, 1, dim + 1), norm[2] = net_param(t, 1, dim + 1);
    h = net_op(t, YK_OP_LAYER_NORM, 3, norm, 1, &eps);
    in[0] = net_heads(t, net_linear(t, h, 16, 16));
    in[1] = net_heads(t, h);
    in[2] = net_heads(t, net_linear(t, h, 16, 16));
    h = yk__permute(&t->k.g, net_op(t, YK_OP_ATTENTION, 3, in, 5, attr), turn);
    h = yk__bin(&t->k.g, YK_OP_ADD, yk__reshape(&t->k.g, h, 2, dim), x);
    return net_classify(t, h, 6, 16);
}

static yk__vid net_embedding(net *t)
{
    static const int64_t table[] = {11, 6}, n[] = {20};
    yk__vid i = net_input(t, CTS_INDEX, 11, YK_I32, 1, n), e = yk__gather(&t->k.g, net_weights(t, 2, table), i);
    e = yk__un(&t->k.g, YK_OP_TANH, net_linear(t, e, 6, 7));
    return net_classify(t, e, 20, 7);
}

static void test_gradients(cts *c, const char *name, yk_dtype type, yk__vid (*build)(net *t))
{
    net t = {.type = type};
    yk_error err = YK_ERROR_INIT;
    yk__vid grad[8], loss;
    if (type == YK_F32 ? !cts_begin(c, "%s", name) : !cts_begin(c, "%s.%s", name, yk__dtype_name(type)))
        return;
    cts_check_init(&t.k, c);
    t.k.tol = CTS_NOISE;
    loss = build(&t);
    if (t.k.g.error.status)
        err = t.k.g.error;
    else
        yk__grad(&t.k.g, loss, yk__const(&t.k.g, 1, YK_F32), t.n_wrt, t.wrt, grad, NULL, NULL, &err);
    if (cts_error(c, &err)) {
        cts_want(&t.k, loss);
        for (uint32_t i = 0; i < t.n_wrt; i++)
            if (grad[i] != YK_NONE)
                cts_want(&t.k, yk__dense(&t.k.g, grad[i]));
        cts_check_run(c, &t.k);
    }
    cts_check_free(&t.k);
}

void cts_group_gradients(cts *c)
{
    yk_dtype types[4];
    uint32_t n = cts_float_types(c, types);
    for (uint32_t i = 0; i < n; i++) {
        test_gradients(c, "mlp", types[i], net_mlp);
        test_gradients(c, "convolution", types[i], conv_net);
        test_gradients(c, "transformer", types[i], net_transformer);
        test_gradients(c, "embedding", types[i], net_embedding);
    }
}
