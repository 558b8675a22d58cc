/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random nets of unlike shapes, operations, precisions and claims, planned and compared with float64 of the unplanned graph: results,
 * states and gradients. Values meet here as in no model that we know. No number decides between two ways by less than its rounding.
 */
#include "config.h"

#include <check.h>

#include "tests/support/plan_lab.h"
#include "tests/support/run.h"
#include "tests/support/sanitize.h"

enum {
    NETS = TEST_UNDER_ASAN || TEST_UNDER_TSAN ? 10 : 200, /* of a case: some meet each old fault of the planner */
    CASES = 40,
    LONG = 20, /* times as many, with YOKE_TEST_LONG */
    MOST_VALUES = 40,
    MOST_COUNT = 512, /* elements of a value */
    MOST_LENGTH = 8,
    MOST_RESULTS = 4,
    STATES = 2
};

typedef struct pool {
    net n;
    uint32_t seed;
    yk__vid value[MOST_VALUES];
    uint32_t made, inputs;
    int64_t length[3];
    yk__vid state[STATES];
    bool sharp; /* an operation may jump at a number: nothing is rounded to 16 bits */
    bool ranks;
    bool alike; /* most values are matrices of one shape, so that each may meet each */
    yk__vid result[MOST_RESULTS];
    yk__assign assign[STATES];
} pool;

static uint32_t pool_draw(pool *p, uint32_t below)
{
    return number_draw(&p->seed, below);
}

static yk_value shape_of(const pool *p, yk__vid v)
{
    return p->n.g.value[v];
}

static int64_t count_of(const pool *p, yk__vid v)
{
    return yk__value_count(&p->n.g.value[v]);
}

/* ---- Leaves ---- */

static uint32_t dims_draw(pool *p, uint32_t dims, int64_t *dim)
{
    dims = p->alike ? 2 : dims;
    for (uint32_t i = 0; i < dims; i++)
        dim[i] = p->length[pool_draw(p, 3)];
    while (dims > 2 && dim[0] * dim[1] * dim[2] * (dims > 3 ? dim[3] : 1) > MOST_COUNT)
        dims--;
    return dims;
}

static yk__vid input_new(pool *p, uint32_t key, yk_dtype dtype, uint32_t dims, const int64_t *dim)
{
    uint64_t bytes = 4;
    for (uint32_t i = 0; i < dims; i++)
        bytes *= (uint64_t)dim[i];
    return yk__leaf(&p->n.g, yk__slot_new(&p->n.g, YK_SLOT_INPUT, bytes, key), 0, dtype, dims, dim);
}

/* Rows of a table of so many, or labels of so many classes. */
static yk__vid index_new(pool *p, int64_t rows, uint32_t dims, const int64_t *dim)
{
    return input_new(p, NET_INDEX * ++p->inputs + (uint32_t)rows, YK_I32, dims, dim);
}

static void leaves_make(pool *p)
{
    yk__graph *g = &p->n.g;
    int64_t dim[4];
    uint32_t dims;
    p->n.seed = input_new(p, NET_SEED, YK_F32, 0, NULL);
    p->n.key = input_new(p, 3, YK_I32, 1, (const int64_t[]){4});
    p->n.rows = input_new(p, NET_ROWS, YK_I32, 1, (const int64_t[]){2});
    for (uint32_t i = 0, most = 1 + pool_draw(p, 4); i < most; i++) {
        dims = dims_draw(p, pool_draw(p, 5), dim);
        p->value[p->made++] = net_param(&p->n, dims, dim);
    }
    for (uint32_t i = 0; i < 2; i++) {
        dims = dims_draw(p, 1 + pool_draw(p, 3), dim);
        p->value[p->made++] = input_new(p, NET_FLOATS + i, YK_F32, dims, dim);
    }
    for (uint32_t i = 0; i < STATES; i++) {
        dims = dims_draw(p, pool_draw(p, 3), dim);
        const uint64_t bytes = (uint64_t)(dims > 0 ? dim[0] : 1) * (uint64_t)(dims > 1 ? dim[1] : 1) * 4;
        p->state[i] = yk__leaf(g, yk__slot_new(g, YK_SLOT_STATE, bytes, i), 0, YK_F32, dims, dim);
        p->value[p->made++] = p->state[i];
    }
}

/* ---- Operations: each makes a value of a, and perhaps of b; YK_NONE if they do not suit ---- */

/* Mostly one of the latest. */
static yk__vid value_draw(pool *p)
{
    const uint32_t late = p->made < 6 ? p->made : 6;
    return p->value[pool_draw(p, 3) ? p->made - 1 - pool_draw(p, late) : pool_draw(p, p->made)];
}

static bool shapes_meet(const pool *p, yk__vid a, yk__vid b, uint32_t but)
{
    const yk_value x = shape_of(p, a), y = shape_of(p, b);
    int64_t count = 1;
    const uint32_t most = x.dims > y.dims ? x.dims : y.dims;
    for (uint32_t i = 1; i <= most; i++) {
        const int64_t l = i <= x.dims ? x.dim[x.dims - i] : 1, m = i <= y.dims ? y.dim[y.dims - i] : 1;
        if (l != m && l != 1 && m != 1 && i > but)
            return false;
        count *= l > m ? l : m;
    }
    return count <= MOST_COUNT;
}

/* b, or another value that meets a; a itself if none does. */
static yk__vid partner_draw(pool *p, yk__vid a, yk__vid b)
{
    for (uint32_t i = 0; i < 6; i++, b = value_draw(p))
        if (shapes_meet(p, a, b, 0))
            return b;
    return a;
}

/* Numbers that stay near 1, in half of the cases; a raw product meets more than its map does. */
static yk__vid value_tame(pool *p, yk__vid v)
{
    return pool_draw(p, 2) ? v : yk__un(&p->n.g, YK_OP_TANH, yk__scale(&p->n.g, v, 0.7));
}

static yk__vid make_sum(pool *p, yk__vid a, yk__vid b)
{
    return yk__bin(&p->n.g, pool_draw(p, 3) ? YK_OP_ADD : YK_OP_SUB, a, partner_draw(p, a, b));
}

static yk__vid make_product(pool *p, yk__vid a, yk__vid b)
{
    return value_tame(p, yk__bin(&p->n.g, YK_OP_MUL, a, partner_draw(p, a, b)));
}

static yk__vid make_quotient(pool *p, yk__vid a, yk__vid b)
{
    yk__graph *g = &p->n.g;
    b = partner_draw(p, a, b);
    return yk__bin(g, YK_OP_DIV, a, yk__bin(g, YK_OP_ADD, yk__bin(g, YK_OP_MUL, b, b), yk__const(g, 1, YK_F32)));
}

static yk__vid make_map(pool *p, yk__vid a, yk__vid b)
{
    static const yk_op op[] = {YK_OP_NEG, YK_OP_TANH, YK_OP_ERF, YK_OP_GELU, YK_OP_GELU_TANH, YK_OP_SILU, YK_OP_SIGMOID};
    (void)b;
    return yk__un(&p->n.g, op[pool_draw(p, sizeof op / sizeof *op)], a);
}

/* Its bend lies where values of equal operands do not meet. */
static yk__vid make_relu(pool *p, yk__vid a, yk__vid b)
{
    yk__graph *g = &p->n.g;
    (void)b;
    return p->sharp ? yk__un(g, YK_OP_RELU, yk__bin(g, YK_OP_ADD, a, yk__const(g, 0.137, YK_F32))) : YK_NONE;
}

static yk__vid make_scaled(pool *p, yk__vid a, yk__vid b)
{
    (void)b;
    return yk__scale(&p->n.g, a, pool_draw(p, 2) ? 0.5 : -1.5);
}

static yk__vid make_row_sums(pool *p, yk__vid a, yk__vid b)
{
    const uint32_t dims = shape_of(p, a).dims;
    (void)b;
    return dims ? value_tame(p, yk__sum(&p->n.g, a, 1 + pool_draw(p, (1u << dims) - 1))) : YK_NONE;
}

/* Over one axis or two. The first element wins by far, so that rounded numbers have the same largest one. */
static yk__vid make_maximum(pool *p, yk__vid a, yk__vid b)
{
    yk__graph *g = &p->n.g;
    const yk_value v = shape_of(p, a);
    uint32_t axes = 0;
    yk__vid x = yk__scale(g, a, 0.1);
    (void)b;
    if (!v.dims)
        return YK_NONE;
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t axis = pool_draw(p, v.dims);
        if (!(axes >> axis & 1))
            x = yk__bin(g, YK_OP_SUB, x, yk__scale(g, yk__iota(g, axis, YK_F32, v.dims, v.dim), i ? 10 : 1));
        axes |= 1u << axis;
    }
    return yk__rmax(g, x, axes);
}

/* Two axes become one, or one becomes two. */
static yk__vid make_other_axes(pool *p, yk__vid a, yk__vid b)
{
    yk_value v = shape_of(p, a);
    (void)b;
    if (!v.dims)
        return YK_NONE;
    const uint32_t at = pool_draw(p, v.dims);
    if (pool_draw(p, 2) && at + 1 < v.dims) {
        v.dim[at] *= v.dim[at + 1];
        memmove(v.dim + at + 1, v.dim + at + 2, (v.dims-- - at - 2u) * sizeof *v.dim);
    } else if (v.dims < 4) {
        memmove(v.dim + at + 1, v.dim + at, (v.dims++ - at) * sizeof *v.dim);
        v.dim[at] = v.dim[at] % 2 == 0 ? 2 : 1;
        v.dim[at + 1] /= v.dim[at];
    }
    return yk__reshape(&p->n.g, a, v.dims, v.dim);
}

static yk__vid make_permuted(pool *p, yk__vid a, yk__vid b)
{
    uint32_t axis[4] = {0, 1, 2, 3};
    const uint32_t dims = shape_of(p, a).dims;
    (void)b;
    if (dims < 2)
        return YK_NONE;
    for (uint32_t i = dims - 1; i; i--) {
        const uint32_t k = pool_draw(p, i + 1), was = axis[i];
        axis[i] = axis[k], axis[k] = was;
    }
    return yk__permute(&p->n.g, a, axis);
}

static yk__vid make_slice(pool *p, yk__vid a, yk__vid b)
{
    const yk_value v = shape_of(p, a);
    (void)b;
    if (!v.dims)
        return YK_NONE;
    const uint32_t axis = pool_draw(p, v.dims), begin = pool_draw(p, (uint32_t)v.dim[axis]);
    const int64_t end = begin + 1 + pool_draw(p, (uint32_t)v.dim[axis] - begin);
    return yk__slice(&p->n.g, a, axis, begin, end, 1 + pool_draw(p, 2));
}

static yk__vid make_joined(pool *p, yk__vid a, yk__vid b)
{
    const yk_value v = shape_of(p, a), w = shape_of(p, b);
    const yk__vid part[3] = {a, yk__value_same_shape(&v, &w) ? b : a, a};
    return v.dims ? yk__concat(&p->n.g, 2 + pool_draw(p, 2), part, pool_draw(p, v.dims)) : YK_NONE;
}

static yk__vid make_padded(pool *p, yk__vid a, yk__vid b)
{
    int64_t begin[4] = {0}, step[4] = {1, 1, 1, 1};
    yk_value v = shape_of(p, a);
    (void)b;
    if (!v.dims)
        return YK_NONE;
    const uint32_t axis = pool_draw(p, v.dims);
    begin[axis] = pool_draw(p, 3);
    step[axis] = 1 + pool_draw(p, 2);
    v.dim[axis] = begin[axis] + (v.dim[axis] - 1) * step[axis] + 1 + pool_draw(p, 2);
    return yk__pad(&p->n.g, a, v.dims, v.dim, begin, step, 0.5 * pool_draw(p, 3));
}

static yk__vid make_expanded(pool *p, yk__vid a, yk__vid b)
{
    int64_t dim[4];
    const yk_value v = shape_of(p, a);
    const uint32_t more = pool_draw(p, v.dims < 4 ? 2 : 1), dims = v.dims + more;
    (void)b;
    dim[0] = 1 + pool_draw(p, 3);
    for (uint32_t i = 0; i < v.dims; i++)
        dim[more + i] = v.dim[i] == 1 ? 1 + pool_draw(p, 4) : v.dim[i];
    return yk__expand(&p->n.g, a, dims, dim);
}

/* True if the product of a and b, each perhaps transposed, has a meaning. */
static bool factors_meet(const pool *p, yk__vid a, yk__vid b, bool ta, bool tb)
{
    const yk_value x = shape_of(p, a), y = shape_of(p, b);
    if (x.dims < 2 || y.dims < 2 || x.dim[x.dims - (ta ? 2 : 1)] != y.dim[y.dims - (tb ? 1 : 2)])
        return false;
    if (x.dims == 3 && y.dims == 3 && x.dim[0] != y.dim[0])
        return false;
    return shapes_meet(p, a, b, 2);
}

static yk__vid make_dot(pool *p, yk__vid a, yk__vid b)
{
    yk__graph *g = &p->n.g;
    yk_value v = shape_of(p, a);
    if (v.dims == 1)
        a = yk__reshape(g, a, 2, (const int64_t[]){1, v.dim[0]});
    else if (!v.dims)
        return YK_NONE;
    const bool ta = !pool_draw(p, 4), tb = !pool_draw(p, 3);
    v = shape_of(p, a);
    for (uint32_t i = 0; i < 6; i++, b = value_draw(p))
        if (factors_meet(p, a, b, ta, tb))
            return value_tame(p, yk__dot(g, a, b, ta, tb));
    const int64_t k = v.dim[v.dims - (ta ? 2 : 1)], n = p->length[pool_draw(p, 3)];
    return value_tame(p, yk__dot(g, a, net_matrix(&p->n, tb ? n : k, tb ? k : n), ta, tb));
}

/* Rows of the last axis. */
static yk__vid rows_of(pool *p, yk__vid a)
{
    const yk_value v = shape_of(p, a);
    return yk__dense(&p->n.g, yk__reshape(&p->n.g, a, 2, (const int64_t[]){-1, v.dims ? v.dim[v.dims - 1] : 1}));
}

static yk__vid make_softmax(pool *p, yk__vid a, yk__vid b)
{
    const yk_value v = shape_of(p, a);
    const yk__vid x = rows_of(p, a);
    const int64_t log = pool_draw(p, 2);
    yk__vid y;
    (void)b;
    yk__apply(&p->n.g, YK_OP_SOFTMAX, 1, &x, 1, &log, YK_DTYPE_COUNT, 0, NULL, &y, 1);
    return yk__reshape(&p->n.g, log ? yk__scale(&p->n.g, y, 0.3) : y, v.dims, v.dim);
}

static yk__vid make_norm(pool *p, yk__vid a, yk__vid b)
{
    const yk_value v = shape_of(p, a);
    const int64_t eps = yk_attr_of_f64(0.1), c = v.dims ? v.dim[v.dims - 1] : 1;
    const uint32_t n_in = 1 + pool_draw(p, 3);
    yk__vid in[3] = {rows_of(p, a)}, out[3];
    (void)b;
    for (uint32_t i = 1; i < n_in; i++)
        in[i] = net_vector(&p->n, c);
    yk__apply(&p->n.g, YK_OP_LAYER_NORM, n_in, in, 1, &eps, YK_DTYPE_COUNT, 0, NULL, out, 3);
    return yk__reshape(&p->n.g, out[0], v.dims, v.dim);
}

/* Tokens of the axis before the last, heads of the last one. */
static yk__vid heads_of(pool *p, yk__vid a, int64_t heads)
{
    const yk_value v = shape_of(p, a);
    const int64_t c = v.dim[v.dims - 1] / heads, t = v.dims > 1 ? v.dim[v.dims - 2] : 1;
    const yk__vid x = yk__reshape(&p->n.g, a, 4, (const int64_t[]){-1, t, heads, c});
    return yk__permute(&p->n.g, x, (const uint32_t[]){0, 2, 1, 3});
}

static yk__vid make_attention(pool *p, yk__vid a, yk__vid b)
{
    yk__graph *g = &p->n.g;
    const yk_value v = shape_of(p, a), w = shape_of(p, b);
    const int64_t attr[5] = {pool_draw(p, 2), yk_attr_of_f64(0.5), yk_attr_of_f64(0), 0, 0};
    yk__vid in[3], out[2];
    if (!v.dims)
        return YK_NONE;
    const int64_t heads = v.dim[v.dims - 1] % 2 == 0 && pool_draw(p, 2) ? 2 : 1;
    const bool same = yk__value_same_shape(&v, &w);
    in[0] = heads_of(p, a, heads);
    in[1] = same && pool_draw(p, 2) ? heads_of(p, b, heads) : in[0];
    in[2] = same && pool_draw(p, 2) ? heads_of(p, b, heads) : in[1];
    yk__apply(g, YK_OP_ATTENTION, 3, in, 5, attr, YK_DTYPE_COUNT, 0, NULL, out, 2);
    if (pool_draw(p, 3))
        return yk__reshape(g, yk__permute(g, out[0], (const uint32_t[]){0, 2, 1, 3}), v.dims, v.dim);
    return make_permuted(p, out[0], b);
}

static yk__vid make_gathered(pool *p, yk__vid a, yk__vid b)
{
    const yk_value v = shape_of(p, a);
    const int64_t dim[2] = {1 + pool_draw(p, 3), 1 + pool_draw(p, MOST_LENGTH / 2)};
    (void)b;
    if (!v.dims || v.dims > 3 || v.dim[0] >= NET_INDEX || count_of(p, a) / v.dim[0] * dim[0] * dim[1] > MOST_COUNT)
        return YK_NONE;
    if (p->alike)
        return yk__gather(&p->n.g, a, index_new(p, v.dim[0], 1, v.dim));
    const uint32_t dims = v.dims < 3 && pool_draw(p, 2) ? 2 : 1;
    return yk__gather(&p->n.g, a, index_new(p, v.dim[0], dims, dim + 2 - dims));
}

/* The sum of logits' losses. */
static yk__vid make_loss(pool *p, yk__vid a, yk__vid b)
{
    yk__graph *g = &p->n.g;
    const int64_t attr[2] = {-1, yk_attr_of_f64(pool_draw(p, 2) * 0.1)};
    yk__vid in[2] = {rows_of(p, a)}, out[2];
    const yk_value v = shape_of(p, in[0]);
    (void)b;
    in[1] = index_new(p, v.dim[1], 1, v.dim);
    yk__apply(g, YK_OP_CROSS_ENTROPY, 2, in, 2, attr, YK_DTYPE_COUNT, 0, NULL, out, 2);
    return value_tame(p, pool_draw(p, 2) ? yk__sum(g, out[0], 1) : out[0]);
}

static yk__vid make_dropout(pool *p, yk__vid a, yk__vid b)
{
    (void)b;
    return count_of(p, a) % 2 ? YK_NONE : net_dropout(&p->n, yk__dense(&p->n.g, a));
}

/* Elements of a before the middle of an axis, of b behind it; of sharp nets the larger ones. */
static yk__vid make_choice(pool *p, yk__vid a, yk__vid b)
{
    yk__graph *g = &p->n.g;
    yk__vid left;
    b = partner_draw(p, a, b);
    const yk_value v = shape_of(p, a);
    if (p->sharp && pool_draw(p, 2))
        left = yk__bin(g, YK_OP_LT, a, yk__bin(g, YK_OP_ADD, b, yk__const(g, 0.0713, YK_F32)));
    else if (v.dims)
        left = yk__bin(g, YK_OP_LT, yk__iota(g, pool_draw(p, v.dims), YK_F32, v.dims, v.dim), yk__const(g, 1.5, YK_F32));
    else
        return YK_NONE;
    return yk__select(g, left, a, b);
}

static yk__vid make_cast(pool *p, yk__vid a, yk__vid b)
{
    yk__graph *g = &p->n.g;
    yk__vid x;
    (void)b;
    if (p->sharp)
        return YK_NONE;
    x = yk__cast(g, a, pool_draw(p, 2) ? YK_BF16 : YK_F16);
    return yk__cast(g, pool_draw(p, 2) ? yk__un(g, YK_OP_TANH, x) : x, YK_F32);
}

static yk__vid make_rank_sum(pool *p, yk__vid a, yk__vid b)
{
    (void)b;
    return p->ranks ? yk__all_reduce(&p->n.g, yk__dense(&p->n.g, a)) : YK_NONE;
}

typedef yk__vid maker(pool *p, yk__vid a, yk__vid b);

/* Matrices that are alike have those before MAKE_OTHERS, but for each eighth operation. */
static maker *const make[] = {
    make_sum, make_sum, make_sum, make_dot, make_dot, make_dot, make_product, make_map, make_relu, make_softmax, make_permuted,
    make_gathered, make_norm, make_attention, make_dropout, make_choice, make_maximum, make_quotient,
    make_scaled, make_row_sums, make_row_sums, make_other_axes, make_slice, make_joined, make_padded, make_expanded, make_loss, make_cast,
    make_rank_sum};
enum { MAKE_ALL = sizeof make / sizeof *make, MAKE_OTHERS = 18 };

/* ---- Nets ---- */

static yk__vid sum_of_all(pool *p, yk__vid v)
{
    const uint32_t dims = shape_of(p, v).dims;
    return dims ? yk__reshape(&p->n.g, yk__sum(&p->n.g, v, (1u << dims) - 1), 0, NULL) : v;
}

/* Sums of up to three values or their squares, and of the first parameter's squares, so that there is a gradient. */
static void loss_make(pool *p)
{
    yk__graph *g = &p->n.g;
    p->n.loss = yk__scale(g, sum_of_all(p, yk__bin(g, YK_OP_MUL, p->value[0], p->value[0])), 0.1);
    for (uint32_t i = 0, most = 1 + pool_draw(p, 3); i < most; i++) {
        yk__vid v = i ? value_draw(p) : p->value[p->made - 1];
        if (pool_draw(p, 2))
            v = yk__bin(g, YK_OP_MUL, v, v);
        p->n.loss = yk__bin(g, YK_OP_ADD, p->n.loss, sum_of_all(p, v));
    }
}

/* A value of the state's shape, or the state's own tanh. */
static void states_make(pool *p)
{
    for (uint32_t i = 0; i < STATES; i++) {
        const yk_value s = shape_of(p, p->state[i]);
        yk__vid next = yk__un(&p->n.g, YK_OP_TANH, p->state[i]);
        for (uint32_t k = 0; k < 12; k++) {
            const yk__vid v = value_draw(p);
            const yk_value w = shape_of(p, v);
            if (v != p->state[i] && yk__value_same_shape(&w, &s))
                next = v;
        }
        p->assign[i] = (yk__assign){i, yk__dense(&p->n.g, next)};
    }
}

/* In nets of matrices that are alike, few values of another shape. */
static bool is_wanted(pool *p, yk__vid v)
{
    const yk_value x = shape_of(p, v), y = shape_of(p, p->value[0]);
    return x.dims <= 4 && count_of(p, v) <= MOST_COUNT && (!p->alike || yk__value_same_shape(&x, &y) || !pool_draw(p, 4));
}

static void pool_fill(pool *p, uint32_t seed)
{
    yk__graph *g = &p->n.g;
    const uint32_t operations = 3 + number_draw(&seed, 24);
    memset(p, 0, sizeof *p);
    yk__graph_init(g);
    p->seed = seed;
    p->sharp = pool_draw(p, 2);
    p->ranks = !pool_draw(p, 4);
    p->alike = pool_draw(p, 2);
    for (uint32_t i = 0; i < 3; i++)
        p->length[i] = i && (p->alike || !pool_draw(p, 4)) ? p->length[0] : 1 + pool_draw(p, MOST_LENGTH);
    leaves_make(p);
    for (uint32_t i = 0; i < operations && p->made < MOST_VALUES; i++) {
        const yk__vid a = value_draw(p), b = value_draw(p);
        g->stream = i + 1;
        const yk__vid v = make[pool_draw(p, p->alike && pool_draw(p, 8) ? MAKE_OTHERS : MAKE_ALL)](p, a, b);
        ck_assert_msg(!g->error.status, "%s", g->error.text);
        if (v != YK_NONE && is_wanted(p, v))
            p->value[p->made++] = v;
    }
    g->stream = operations + 1;
    loss_make(p);
    states_make(p);
    ck_assert_msg(!g->error.status, "%s", g->error.text);
}

/* ---- Plans ---- */

/* A device that claims each kind of node or not, by chance: *arg. */
static uint32_t claims_drawn(void *arg, const yk_graph *g, uint32_t node)
{
    const yk_node *n = &g->node[node];
    uint32_t seed = *(const uint32_t *)arg + n->op * 40503u + (n->n_body > 3) * 977u;
    check_reserved(g->value, g->n_value, g->node, g->n_all_node);
    number_draw(&seed, 2);
    if (!number_draw(&seed, 4))
        return 0;
    return YK_CLAIM_RUN | (number_draw(&seed, 2) ? (uint32_t)YK_CLAIM_ACCUMULATE : 0) |
           (number_draw(&seed, 2) ? (uint32_t)YK_CLAIM_STRIDED_OUT : 0) | (number_draw(&seed, 2) ? (uint32_t)YK_CLAIM_NARROW_OUT : 0);
}

static void request_draw(pool *p, yk__plan_request *r, yk_device_caps *caps, uint32_t *claims)
{
    static const yk_dtype precision[] = {YK_F32, YK_BF16, YK_F16};
    *caps = ref_caps;
    if (pool_draw(p, 2))
        caps->flags &= ~(uint32_t)YK_CAP_LONG_SUMS;
    net_request(&p->n, r, p->assign);
    r->caps = caps;
    ref.claim = (int)pool_draw(p, 3);
    ref.strided = (int)pool_draw(p, 2);
    *claims = p->seed;
    if (pool_draw(p, 2))
        r->claims = claims_drawn, r->claims_arg = claims;
    r->precision = p->sharp ? YK_F32 : precision[pool_draw(p, 3)];
    r->single_rank = !p->ranks;
    r->accumulate = !pool_draw(p, 4);
    r->stores = !pool_draw(p, 6);
    r->keep_cheap = pool_draw(p, 2);
    r->large = pool_draw(p, 2);
    r->n_assign = pool_draw(p, STATES + 1);
    r->n_result = 1 + pool_draw(p, MOST_RESULTS);
    r->result = p->result;
    p->result[0] = p->n.loss;
    for (uint32_t i = 1; i < r->n_result; i++)
        p->result[i] = value_draw(p);
    if (!pool_draw(p, 3)) {
        blocks_draw(&p->n, &p->seed);
        r->n_recompute = p->n.n_block, r->recompute = p->n.block;
    }
}

/* Numbers as near as the format and the largest of them allow. */
static void assert_near(const char *name, uint32_t number, const float *is, const float *old, const double *want, int64_t n, double tol)
{
    double most = 1;
    for (int64_t i = 0; i < n; i++)
        most = fabs(want[i]) > most ? fabs(want[i]) : most;
    for (int64_t i = 0; i < n; i++) {
        const double all = want[i] + (old ? (double)old[i] : 0);
        ck_assert_msg(fabs((double)is[i] - all) <= tol * most, "%s %u[%d]: %g, expected %g", name, number, (int)i, (double)is[i], all);
    }
}

static void gradients_compare(const pool *p, const yk__plan_request *r, const char *is, const char *old, const double *grad, double tol)
{
    double most = 1;
    for (uint64_t i = 0; i < p->n.bucket_bytes[0] / 4; i++)
        most = fabs(grad[i]) > most ? fabs(grad[i]) : most;
    for (uint32_t i = 0; i < p->n.n_param; i++) {
        const uint64_t at = p->n.param[i].grad_offset;
        assert_near("gradient", i, (const float *)(is + at), r->accumulate ? (const float *)(old + at) : NULL, grad + at / 4,
                    p->n.param[i].n, tol * most);
    }
}

static void pool_compare(const pool *p, const yk__plan_request *r, const yk__plan *plan)
{
    memory m, before;
    yk__vid want[MOST_RESULTS + STATES];
    double *out[MOST_RESULTS + STATES], *grad = calloc(p->n.bucket_bytes[0] / 4 + 1, sizeof *grad);
    const double tol = p->sharp ? 1e-4 : r->precision == YK_F16 ? 0.05 : 0.25; /* a net that is not sharp may cast to BF16 by itself */
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n_result; i++)
        want[n++] = r->result[i];
    for (uint32_t i = 0; i < r->n_assign; i++)
        want[n++] = r->assign[i].value;
    for (uint32_t i = 0; i < n; i++)
        out[i] = calloc((size_t)count_of(p, want[i]), sizeof *out[i]);
    memory_new(&before, &plan->graph);
    plan_run(plan, &m);
    net_truth(&p->n, &before, n, want, out, grad);
    for (uint32_t i = 0; i < n; i++) {
        const bool state = i >= r->n_result;
        const uint32_t number = state ? i - r->n_result : i;
        const char *at = state ? m.slot[p->n.g.value[p->state[number]].slot] : (char *)m.slot[plan->result_slot] + plan->result_offset[i];
        assert_near(state ? "state" : "result", number, (const float *)at, NULL, out[i], count_of(p, want[i]), tol);
        free(out[i]);
    }
    gradients_compare(p, r, m.slot[plan->bucket_slot], before.slot[plan->bucket_slot], grad, tol);
    free(grad);
    memory_free(&before);
    memory_free(&m);
}

static void net_try(uint32_t seed)
{
    yk__plan_request r;
    yk_device_caps caps;
    uint32_t claims;
    pool p;
    pool_fill(&p, seed * 2654435761u);
    request_draw(&p, &r, &caps, &claims);
    yk__plan *plan = plan_new(&r);
    pool_compare(&p, &r, plan);
    yk__plan_free(plan);
    yk__graph_free(&p.n.g);
}

START_TEST(random_nets_equal_the_unplanned)
{
    const uint32_t nets = getenv("YOKE_TEST_LONG") ? NETS * LONG : NETS;
    for (uint32_t i = 0; i < nets; i++)
        net_try((uint32_t)_i * nets + i + 1);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("nets");
    tcase_add_loop_test(c, random_nets_equal_the_unplanned, 0, CASES);
    return suite_run("nets", c);
}
