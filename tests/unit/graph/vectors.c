/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX's operator vectors through the evaluator: each case is built of our ops as far as they reach. Here the simple
 * operators; vectors_layers.c has the layers. Prints how many cases were built.
 */
#include "tests/support/graph_vectors.h"
#include "tests/support/run.h"

#include <dirent.h>

#define IN (v->in)
#define OUT (v->out[0])

/* ---- Elementwise ---- */

static void op_unary(vec *v)
{
    static const struct {
        const char *name;
        yk_op op;
    } table[] = {{"Abs", YK_OP_ABS},   {"Neg", YK_OP_NEG},        {"Exp", YK_OP_EXP},   {"Log", YK_OP_LOG},
                 {"Sqrt", YK_OP_SQRT}, {"Erf", YK_OP_ERF},        {"Tanh", YK_OP_TANH}, {"Reciprocal", YK_OP_RECIP},
                 {"Relu", YK_OP_RELU}, {"Sigmoid", YK_OP_SIGMOID}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(v->op, table[i].name))
            OUT = yk__un(v->graph, table[i].op, IN[0]);
}

static bool is_arithmetic(const vec *v)
{
    yk_value x = vec_shape(v, IN[0]);
    return yk__dtype_is_float(x.dtype) || x.dtype == YK_I32;
}

static void op_binary(vec *v)
{
    static const struct {
        const char *name;
        yk_op op;
    } table[] = {{"Add", YK_OP_ADD},  {"Sub", YK_OP_SUB}, {"Mul", YK_OP_MUL}, {"Div", YK_OP_DIV}, {"Less", YK_OP_LT},
                 {"Equal", YK_OP_EQ}, {"Max", YK_OP_MAX}, {"Min", YK_OP_MIN}, {"Sum", YK_OP_ADD}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(v->op, table[i].name) || (!is_arithmetic(v) && table[i].op < YK_OP_LT))
            continue;
        OUT = IN[0];
        for (uint32_t k = 1; k < v->n_in; k++)
            OUT = vec_bin(v, table[i].op, OUT, IN[k]);
    }
}

static void op_greater(vec *v)
{
    OUT = vec_bin(v, YK_OP_LT, IN[1], IN[0]);
}

static void op_mean(vec *v)
{
    OUT = IN[0];
    for (uint32_t k = 1; k < v->n_in; k++)
        OUT = vec_bin(v, YK_OP_ADD, OUT, IN[k]);
    OUT = yk__scale(v->graph, OUT, 1.0 / v->n_in);
}

static void op_logic(vec *v)
{
    if (!strcmp(v->op, "And"))
        OUT = yk__select(v->graph, IN[0], IN[1], yk__const(v->graph, 0, YK_BOOL));
    else if (!strcmp(v->op, "Or"))
        OUT = yk__select(v->graph, IN[0], yk__const(v->graph, 1, YK_BOOL), IN[1]);
    else
        OUT = vec_bin(v, YK_OP_EQ, IN[0], yk__const(v->graph, 0, YK_BOOL));
}

static void op_where(vec *v)
{
    OUT = yk__select(v->graph, IN[0], IN[1], IN[2]);
}

static void op_identity(vec *v)
{
    OUT = IN[0];
}

static void op_clip(vec *v)
{
    if (!is_arithmetic(v))
        return;
    OUT = IN[0];
    if (v->tensor[1])
        OUT = vec_bin(v, YK_OP_MAX, OUT, IN[1]);
    if (v->tensor[2])
        OUT = vec_bin(v, YK_OP_MIN, OUT, IN[2]);
}

static void op_gelu(vec *v)
{
    OUT = yk__un(v->graph, strcmp(attr_text(&v->file, "approximate", "none"), "tanh") ? YK_OP_GELU : YK_OP_GELU_TANH, IN[0]);
}

static void op_swish(vec *v)
{
    if (attr_real(&v->file, "alpha", 1) == 1)
        OUT = yk__un(v->graph, YK_OP_SILU, IN[0]);
}

static void negative_side(vec *v)
{
    yk__vid zero = vec_number(v, 0), below = vec_bin(v, YK_OP_LT, IN[0], zero), low;
    double gamma = 1, alpha = attr_real(&v->file, "alpha", !strcmp(v->op, "LeakyRelu") ? 0.01 : 1);
    if (!strcmp(v->op, "LeakyRelu")) {
        low = yk__scale(v->graph, IN[0], alpha);
    } else if (!strcmp(v->op, "PRelu")) {
        low = vec_bin(v, YK_OP_MUL, IN[0], IN[1]);
    } else {
        if (!strcmp(v->op, "Selu")) {
            alpha = attr_real(&v->file, "alpha", 1.67326319217681884765625);
            gamma = attr_real(&v->file, "gamma", 1.05070102214813232421875);
        }
        low = yk__un(v->graph, YK_OP_EXP, yk__bin(v->graph, YK_OP_MIN, IN[0], zero));
        low = yk__scale(v->graph, vec_bin(v, YK_OP_SUB, low, vec_number(v, 1)), alpha);
    }
    OUT = yk__scale(v->graph, yk__select(v->graph, below, low, IN[0]), gamma);
}

static yk__vid hard_sigmoid_of(vec *v, yk__vid x, double alpha, double beta)
{
    x = vec_bin(v, YK_OP_ADD, yk__scale(v->graph, x, alpha), vec_number(v, beta));
    return vec_bin(v, YK_OP_MAX, vec_bin(v, YK_OP_MIN, x, vec_number(v, 1)), vec_number(v, 0));
}

static void op_hard(vec *v)
{
    if (!strcmp(v->op, "HardSigmoid"))
        OUT = hard_sigmoid_of(v, IN[0], attr_real(&v->file, "alpha", 0.2), attr_real(&v->file, "beta", 0.5));
    else
        OUT = vec_bin(v, YK_OP_MUL, IN[0], hard_sigmoid_of(v, IN[0], 1.0 / 6, 0.5));
}

static void op_soft(vec *v)
{
    yk__vid one = vec_number(v, 1), x = IN[0];
    if (!strcmp(v->op, "Softplus"))
        OUT = yk__un(v->graph, YK_OP_LOG, vec_bin(v, YK_OP_ADD, yk__un(v->graph, YK_OP_EXP, x), one));
    else
        OUT = vec_bin(v, YK_OP_DIV, x, vec_bin(v, YK_OP_ADD, yk__un(v->graph, YK_OP_ABS, x), one));
}

static void op_sign(vec *v)
{
    yk__vid zero = vec_number(v, 0), high = yk__cast(v->graph, vec_bin(v, YK_OP_LT, zero, IN[0]), YK_F32);
    OUT = vec_bin(v, YK_OP_SUB, high, yk__cast(v->graph, vec_bin(v, YK_OP_LT, IN[0], zero), YK_F32));
}

/* For positive bases: e^(y ln x). */
static void op_power(vec *v)
{
    yk__vid x = IN[0];
    if (!yk__dtype_is_float(vec_shape(v, x).dtype))
        return;
    OUT = yk__un(v->graph, YK_OP_EXP, vec_bin(v, YK_OP_MUL, yk__cast(v->graph, IN[1], YK_F32), yk__un(v->graph, YK_OP_LOG, x)));
}

static void not_a_number(vec *v)
{
    yk__vid x = IN[0], same = vec_bin(v, YK_OP_EQ, x, x), high, low, zero = yk__const(v->graph, 0, YK_BOOL);
    if (!strcmp(v->op, "IsNaN")) {
        OUT = vec_bin(v, YK_OP_EQ, same, zero);
        return;
    }
    high = attr_int(&v->file, "detect_positive", 1) ? vec_bin(v, YK_OP_EQ, x, vec_number(v, INFINITY)) : zero;
    low = attr_int(&v->file, "detect_negative", 1) ? vec_bin(v, YK_OP_EQ, x, vec_number(v, -INFINITY)) : zero;
    OUT = yk__select(v->graph, high, high, low);
}

/* ---- Shape ---- */

static void op_reshape(vec *v)
{
    int64_t dim[YK_MAX_DIMS];
    int n = vec_ints(v, 1, dim, YK_MAX_DIMS);
    for (int i = 0; i < n; i++)
        if (dim[i] == 0 && !attr_int(&v->file, "allowzero", 0))
            dim[i] = vec_shape(v, IN[0]).dim[i];
    OUT = yk__reshape(v->graph, IN[0], (uint32_t)n, dim);
}

/* To the file's own shape: flatten, squeeze, unsqueeze. */
static void as_expected(vec *v)
{
    for (int64_t i = 0; i < yk__safetensors_count(v->file.tensors); i++) {
        const yk__safetensor *t = yk__safetensors_at(v->file.tensors, i);
        if (!strncmp(t->name, "out.0.", 6))
            OUT = yk__reshape(v->graph, IN[0], (uint32_t)t->rank, t->shape);
    }
}

static void op_transpose(vec *v)
{
    uint32_t axis[YK_MAX_DIMS], dims = vec_shape(v, IN[0]).dims;
    for (uint32_t i = 0; i < dims; i++)
        axis[i] = (uint32_t)attr_at(&v->file, "perm", i, dims - 1 - i);
    OUT = yk__permute(v->graph, IN[0], axis);
}

static void op_expand(vec *v)
{
    int64_t dim[YK_MAX_DIMS];
    int n = vec_ints(v, 1, dim, YK_MAX_DIMS);
    yk_value x = vec_shape(v, IN[0]);
    for (int i = 0; i < n; i++) /* both sides broadcast */
        if (dim[i] == 1 && i + x.dims >= n)
            dim[i] = x.dim[i + x.dims - n];
    OUT = yk__expand(v->graph, IN[0], (uint32_t)n, dim);
}

static void op_concat(vec *v)
{
    OUT = yk__concat(v->graph, v->n_in, IN, vec_axis(v, IN[0], attr_int(&v->file, "axis", 0)));
}

static int64_t index_limited(int64_t x, int64_t n)
{
    x = x < 0 ? x + n : x;
    return x < 0 ? 0 : x > n ? n : x;
}

static void op_slice(vec *v)
{
    int64_t begin[8], end[8], axis[8], step[8];
    int n = vec_ints(v, 1, begin, 8);
    bool has_axes = vec_ints(v, 3, axis, 8) >= 0, has_steps = vec_ints(v, 4, step, 8) >= 0;
    vec_ints(v, 2, end, 8);
    OUT = IN[0];
    for (int i = 0; i < n; i++) {
        uint32_t a = has_axes ? vec_axis(v, OUT, axis[i]) : (uint32_t)i;
        int64_t len = vec_shape(v, OUT).dim[a], b = index_limited(begin[i], len), e = index_limited(end[i], len);
        if (has_steps && step[i] < 1) {
            OUT = YK_NONE;
            return;
        }
        OUT = yk__slice(v->graph, OUT, a, b, e < b ? b : e, has_steps ? step[i] : 1);
    }
}

static void op_split(vec *v)
{
    const uint32_t axis = vec_axis(v, IN[0], attr_int(&v->file, "axis", 0));
    const int64_t len = vec_shape(v, IN[0]).dim[axis];
    int64_t part[VEC_MOST], at = 0;
    int n = vec_ints(v, 1, part, VEC_MOST);
    if (n < 0) {
        int outs = 0;
        for (int64_t i = 0; i < yk__safetensors_count(v->file.tensors); i++)
            outs += !strncmp(yk__safetensors_at(v->file.tensors, i)->name, "out.", 4);
        n = (int)attr_int(&v->file, "num_outputs", outs);
        for (int i = 0; i < n; i++)
            part[i] = i + 1 < n ? (len + n - 1) / n : len - (n - 1) * ((len + n - 1) / n);
    }
    for (int i = 0; i < n && i < VEC_MOST; at += part[i++])
        v->out[i] = yk__slice(v->graph, IN[0], axis, at, at + part[i], 1);
}

static void op_pad(vec *v)
{
    yk_value x = vec_shape(v, IN[0]);
    int64_t pads[16], axes[8], begin[8] = {0}, dim[8];
    int n, k;
    if (strcmp(attr_text(&v->file, "mode", "constant"), "constant") || (n = vec_ints(v, 1, pads, 16)) < 0)
        return;
    k = vec_ints(v, 3, axes, 8);
    memcpy(dim, x.dim, sizeof dim);
    for (int i = 0; i < n / 2; i++) {
        uint32_t a = k >= 0 ? vec_axis(v, IN[0], axes[i]) : (uint32_t)i;
        begin[a] = pads[i];
        dim[a] += pads[i] + pads[n / 2 + i];
    }
    OUT = yk__pad(v->graph, IN[0], x.dims, dim, begin, NULL, vec_real(v, 2, 0));
}

static void op_tile(vec *v)
{
    int64_t times[8];
    int n = vec_ints(v, 1, times, 8);
    OUT = IN[0];
    for (int i = 0; i < n; i++) {
        yk__vid many[8];
        for (int64_t k = 0; k < times[i] && k < 8; k++)
            many[k] = OUT;
        OUT = yk__concat(v->graph, (uint32_t)times[i], many, (uint32_t)i);
    }
}

/* Lower or upper triangle: column <, = or > row + k. */
static void op_trilu(vec *v)
{
    yk_value x = vec_shape(v, IN[0]);
    const int64_t k = (int64_t)vec_real(v, 1, 0), two[2] = {x.dim[x.dims - 2], x.dim[x.dims - 1]};
    yk__vid row, column, keep, zero = yk__const(v->graph, 0, (yk_dtype)x.dtype);
    row = vec_bin(v, YK_OP_ADD, yk__iota(v->graph, 0, YK_I32, 2, two), yk__const(v->graph, (double)k, YK_I32));
    column = yk__iota(v->graph, 1, YK_I32, 2, two);
    keep = attr_int(&v->file, "upper", 1) ? vec_bin(v, YK_OP_LT, column, row) : vec_bin(v, YK_OP_LT, row, column);
    OUT = yk__select(v->graph, keep, zero, IN[0]);
}

static void op_cumulative(vec *v)
{
    /* a product with a triangle of ones */
    yk_value x = vec_shape(v, IN[0]);
    const uint32_t axis = vec_axis(v, IN[0], (int64_t)vec_real(v, 1, 0));
    const int64_t n = x.dim[axis], two[2] = {n, n};
    const bool reverse = attr_int(&v->file, "reverse", 0), exclusive = attr_int(&v->file, "exclusive", 0);
    yk__vid i = yk__iota(v->graph, 0, YK_I32, 2, two), j = yk__iota(v->graph, 1, YK_I32, 2, two), m, y;
    m = reverse ? vec_bin(v, YK_OP_LT, j, i) : vec_bin(v, YK_OP_LT, i, j); /* source i counts for result j */
    if (!exclusive)
        m = yk__select(v->graph, vec_bin(v, YK_OP_EQ, i, j), yk__const(v->graph, 1, YK_BOOL), m);
    y = vec_move(v, yk__cast(v->graph, IN[0], YK_F32), axis, x.dims - 1u);
    y = yk__reshape(v->graph, y, 2, (int64_t[]){-1, n});
    y = yk__dot(v->graph, y, yk__cast(v->graph, m, YK_F32), false, false);
    y = yk__reshape(v->graph, y, x.dims, x.dims == 2 && axis == 0 ? (int64_t[]){x.dim[1], n} : x.dim);
    OUT = vec_move(v, y, x.dims - 1u, axis);
}

/* ---- Rows and reductions ---- */

static void op_gather(vec *v)
{
    const uint32_t axis = vec_axis(v, IN[0], attr_int(&v->file, "axis", 0));
    const double n = (double)vec_shape(v, IN[0]).dim[axis];
    yk__vid zero = yk__const(v->graph, 0, YK_I32), k = IN[1];
    k = yk__select(v->graph, vec_bin(v, YK_OP_LT, k, zero), vec_bin(v, YK_OP_ADD, k, yk__const(v->graph, n, YK_I32)), k);
    OUT = vec_move(v, yk__gather(v->graph, yk__dense(v->graph, vec_move(v, IN[0], axis, 0)), yk__dense(v->graph, k)), 0, axis);
}

static void one_hot(vec *v)
{
    yk_value k = vec_shape(v, IN[0]);
    int64_t dim[YK_MAX_DIMS], depth = (int64_t)vec_real(v, 1, 0), at = attr_int(&v->file, "axis", -1);
    const uint32_t axis = (uint32_t)(at < 0 ? at + k.dims + 1 : at);
    yk__vid n = yk__const(v->graph, (double)depth, YK_I32), id = yk__cast(v->graph, IN[0], YK_I32), hit;
    id = yk__select(v->graph, vec_bin(v, YK_OP_LT, id, yk__const(v->graph, 0, YK_I32)), vec_bin(v, YK_OP_ADD, id, n), id);
    for (uint32_t i = 0, j = 0; i <= k.dims; i++)
        dim[i] = i == axis ? 1 : k.dim[j++];
    id = yk__reshape(v->graph, id, k.dims + 1u, dim);
    dim[axis] = depth;
    hit = vec_bin(v, YK_OP_EQ, yk__iota(v->graph, axis, YK_I32, k.dims + 1u, dim), id);
    OUT = yk__select(v->graph, hit, yk__reshape(v->graph, yk__slice(v->graph, IN[2], 0, 1, 2, 1), 0, NULL),
                     yk__reshape(v->graph, yk__slice(v->graph, IN[2], 0, 0, 1, 1), 0, NULL));
}

static yk__vid kept_or_not(vec *v, yk__vid y, uint32_t axes)
{
    yk_value x = vec_shape(v, y);
    uint32_t n = 0;
    if (attr_int(&v->file, "keepdims", 1))
        return y;
    for (uint32_t i = 0; i < x.dims; i++)
        if (!(axes >> i & 1))
            x.dim[n++] = x.dim[i];
    return yk__reshape(v->graph, y, n, x.dim);
}

static void arg_max(vec *v)
{
    const uint32_t axis = vec_axis(v, IN[0], attr_int(&v->file, "axis", 0));
    if (!attr_int(&v->file, "select_last_index", 0))
        OUT = kept_or_not(v, yk__argmax(v->graph, IN[0], axis), 1u << axis);
}

static yk__vid values_reduced(vec *v, yk__vid x, uint32_t axes, double n)
{
    yk__graph *g = v->graph;
    const char *how = v->op + 6;
    if (!strcmp(how, "Max"))
        return yk__rmax(g, x, axes);
    if (!strcmp(how, "Min"))
        return yk__un(g, YK_OP_NEG, yk__rmax(g, yk__un(g, YK_OP_NEG, x), axes));
    if (!strcmp(how, "Mean"))
        return yk__scale(g, yk__sum(g, x, axes), 1 / n);
    if (!strcmp(how, "L1"))
        return yk__sum(g, yk__un(g, YK_OP_ABS, x), axes);
    if (!strcmp(how, "L2"))
        return yk__un(g, YK_OP_SQRT, yk__sum(g, vec_bin(v, YK_OP_MUL, x, x), axes));
    if (!strcmp(how, "SumSquare"))
        return yk__sum(g, vec_bin(v, YK_OP_MUL, x, x), axes);
    if (!strcmp(how, "LogSumExp"))
        return yk__un(g, YK_OP_LOG, yk__sum(g, yk__un(g, YK_OP_EXP, x), axes));
    return yk__sum(g, x, axes);
}

static void op_reduce(vec *v)
{
    yk_value x = vec_shape(v, IN[0]);
    int64_t axes[8];
    int n = vec_ints(v, 1, axes, 8);
    uint32_t mask = 0;
    double count = 1;
    if (!yk__dtype_is_float(x.dtype))
        return;
    for (int i = 0; i < n; i++)
        mask |= 1u << vec_axis(v, IN[0], axes[i]);
    if (n <= 0 && !attr_int(&v->file, "noop_with_empty_axes", 0))
        mask = (1u << x.dims) - 1;
    for (uint32_t i = 0; i < x.dims; i++)
        count *= mask >> i & 1 ? (double)x.dim[i] : 1;
    OUT = kept_or_not(v, values_reduced(v, IN[0], mask, count), mask);
}

/* ---- Products ---- */

static void op_matmul(vec *v)
{
    yk__vid a = IN[0], b = IN[1];
    yk_value x = vec_shape(v, a), y = vec_shape(v, b), z;
    if (x.dims == 1)
        a = yk__reshape(v->graph, a, 2, (int64_t[]){1, x.dim[0]});
    if (y.dims == 1)
        b = yk__reshape(v->graph, b, 2, (int64_t[]){y.dim[0], 1});
    OUT = yk__dot(v->graph, a, b, false, false);
    z = vec_shape(v, OUT);
    if (x.dims == 1) {
        z.dim[z.dims - 2] = z.dim[z.dims - 1];
        z.dims--;
    }
    if (y.dims == 1)
        z.dims--;
    OUT = yk__reshape(v->graph, OUT, z.dims, z.dim);
}

static void op_gemm(vec *v)
{
    OUT = yk__dot(v->graph, IN[0], IN[1], attr_int(&v->file, "transA", 0), attr_int(&v->file, "transB", 0));
    OUT = yk__scale(v->graph, OUT, attr_real(&v->file, "alpha", 1));
    if (v->tensor[2])
        OUT = vec_bin(v, YK_OP_ADD, OUT, yk__scale(v->graph, IN[2], attr_real(&v->file, "beta", 1)));
}

const vec_op vec_simple[] = {
    {"Abs", op_unary},
    {"Neg", op_unary},
    {"Exp", op_unary},
    {"Log", op_unary},
    {"Sqrt", op_unary},
    {"Erf", op_unary},
    {"Tanh", op_unary},
    {"Reciprocal", op_unary},
    {"Relu", op_unary},
    {"Sigmoid", op_unary},
    {"Add", op_binary},
    {"Sub", op_binary},
    {"Mul", op_binary},
    {"Div", op_binary},
    {"Less", op_binary},
    {"Equal", op_binary},
    {"Max", op_binary},
    {"Min", op_binary},
    {"Sum", op_binary},
    {"Greater", op_greater},
    {"Mean", op_mean},
    {"And", op_logic},
    {"Or", op_logic},
    {"Not", op_logic},
    {"Where", op_where},
    {"Identity", op_identity},
    {"Clip", op_clip},
    {"Gelu", op_gelu},
    {"Swish", op_swish},
    {"LeakyRelu", negative_side},
    {"PRelu", negative_side},
    {"Elu", negative_side},
    {"Selu", negative_side},
    {"HardSigmoid", op_hard},
    {"HardSwish", op_hard},
    {"Softplus", op_soft},
    {"Softsign", op_soft},
    {"Sign", op_sign},
    {"Pow", op_power},
    {"IsNaN", not_a_number},
    {"IsInf", not_a_number},
    {"Reshape", op_reshape},
    {"Flatten", as_expected},
    {"Squeeze", as_expected},
    {"Unsqueeze", as_expected},
    {"Transpose", op_transpose},
    {"Expand", op_expand},
    {"Concat", op_concat},
    {"Slice", op_slice},
    {"Split", op_split},
    {"Pad", op_pad},
    {"Tile", op_tile},
    {"Trilu", op_trilu},
    {"CumSum", op_cumulative},
    {"Gather", op_gather},
    {"OneHot", one_hot},
    {"ArgMax", arg_max},
    {"ReduceSum", op_reduce},
    {"ReduceMax", op_reduce},
    {"ReduceMin", op_reduce},
    {"ReduceMean", op_reduce},
    {"ReduceL1", op_reduce},
    {"ReduceL2", op_reduce},
    {"ReduceSumSquare", op_reduce},
    {"ReduceLogSumExp", op_reduce},
    {"MatMul", op_matmul},
    {"Gemm", op_gemm},
    {NULL, NULL},
};

/* ---- Running ---- */

static size_t n_run, n_left;

static void load_inputs(vec *v)
{
    for (uint32_t i = 0; i < VEC_MOST; i++)
        v->in[i] = v->out[i] = YK_NONE;
    for (int64_t i = 0; i < yk__safetensors_count(v->file.tensors); i++) {
        const yk__safetensor *t = yk__safetensors_at(v->file.tensors, i);
        int k;
        if (sscanf(t->name, "in.%d.", &k) != 1 || k < 0 || k >= VEC_MOST)
            continue;
        v->tensor[k] = t;
        v->in[k] = file_leaf(&v->file, t, YK_F32);
        v->n_in = (uint32_t)k + 1 > v->n_in ? (uint32_t)k + 1 : v->n_in;
    }
}

static bool leaves_build(vec *v)
{
    for (int64_t i = 0; i < yk__safetensors_count(v->file.tensors); i++) {
        int k;
        if (sscanf(yk__safetensors_at(v->file.tensors, i)->name, "out.%d.", &k) == 1 && (k >= VEC_MOST || v->out[k] == YK_NONE))
            return false;
    }
    return true;
}

static void outputs_compare(vec *v, const char *path)
{
    for (int64_t i = 0; i < yk__safetensors_count(v->file.tensors); i++) {
        const yk__safetensor *t = yk__safetensors_at(v->file.tensors, i);
        double worst;
        int k;
        if (sscanf(t->name, "out.%d.", &k) != 1)
            continue;
        worst = file_worst(&v->file, v->out[k], t, 1e-6, t->dtype == YK_F16 ? 2e-3 : 1e-5);
        ck_assert_msg(worst <= 1, "%s, %s: error %.3g times the tolerance", path, t->name, worst);
        ck_assert_msg((int)v->graph->value[v->out[k]].dims == t->rank, "%s, %s: %d dimensions", path, t->name,
                      v->graph->value[v->out[k]].dims);
    }
}

static void case_build(vec *v)
{
    for (int list = 0; list < 2; list++)
        for (const vec_op *p = list ? vec_layers : vec_simple; p->name; p++)
            if (!strcmp(p->name, v->op))
                p->build(v);
}

static void run_file(const char *path)
{
    static vec zero;
    vec v = zero;
    ck_assert_msg(file_open(&v.file, path), "%s", path);
    v.graph = &v.file.lab.graph;
    v.op = yk__safetensors_meta(v.file.tensors, "op");
    v.file.attrs = json_loads(yk__safetensors_meta(v.file.tensors, "attrs"), 0, NULL);
    load_inputs(&v);
    case_build(&v);
    if (v.graph->error.status || !leaves_build(&v)) {
        if (getenv("YOKE_TEST_LEFT"))
            printf("# left: %s %s\n", strrchr(path, '/') + 1, v.graph->error.text);
        n_left++;
    } else {
        outputs_compare(&v, path);
        n_run++;
    }
    json_decref(v.file.attrs);
    file_close(&v.file);
}

static int entry_visible(const struct dirent *d)
{
    return d->d_name[0] != '.' && strcmp(d->d_name, "LICENSE.origin") && !strchr(d->d_name, '~');
}

static void run_folder(const char *dir, int depth)
{
    struct dirent **list = NULL;
    int n = scandir(dir, &list, entry_visible, alphasort);
    for (int i = 0; i < n; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", dir, list[i]->d_name);
        if (strstr(list[i]->d_name, ".safetensors"))
            run_file(path);
        else if (depth == 0 && !strchr(list[i]->d_name, '.'))
            run_folder(path, 1);
        free(list[i]);
    }
    free(list);
}

START_TEST(vectors_equal_their_files)
{
    char path[512];
    run_folder(test_data("onnx-op-vectors", path, sizeof path), 0);
    if (n_run + n_left == 0) {
        printf("# skipped: there is no %s\n", path);
        return;
    }
    printf("# operator vectors: %zu built of our ops and equal, %zu not built\n", n_run, n_left);
    fflush(stdout);
    ck_assert_uint_ge(n_run, 360);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("vectors");
    tcase_add_test(t, vectors_equal_their_files);
    return suite_run("graph_vectors", t);
}
