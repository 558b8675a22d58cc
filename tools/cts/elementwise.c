/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts's elementwise primitives: a table of shapes, equal and broadcast, in i32 and the float types that the device computes in.
 * cts_primitives.c calls it, in the group's child process; cts_check.c compares with the reference.
 */
#include <string.h>

#include "tools/cts/cts_ops.h"

typedef struct shape {
    const char *name;
    uint32_t dims;
    int64_t a[YK_MAX_DIMS], b[YK_MAX_DIMS]; /* b is broadcast to a, or a to b, by NumPy's rule */
    uint32_t b_dims;
} shape;

static const shape shapes[] = {
    {"both", 2, {9, 1}, {1, 20}, 2}, /* the first one is in --quick: both operands are broadcast */
    {"scalar", 0, {0}, {0}, 0},
    {"one", 1, {1}, {1}, 1},
    {"7", 1, {7}, {7}, 1},
    {"3x5", 2, {3, 5}, {3, 5}, 2},
    {"33x65", 2, {33, 65}, {33, 65}, 2},
    {"2x3x4x5x6", 5, {2, 3, 4, 5, 6}, {2, 3, 4, 5, 6}, 5},
    {"large", 1, {70001}, {70001}, 1},
    {"row", 2, {9, 20}, {20}, 1},
    {"column", 2, {9, 20}, {9, 1}, 2},
    {"middle", 3, {4, 5, 7}, {4, 1, 7}, 3},
    {"with_scalar", 2, {31, 17}, {0}, 0},
    {"channel", 4, {2, 6, 3, 3}, {1, 6, 1, 1}, 4},
    {"8d", 8, {2, 3, 2, 2, 3, 2, 2, 3}, {2, 1, 2, 1, 3, 1, 2, 1}, 8},
};
#define ALIKE 8 /* from this one on the operands differ in shape, and so they do in the first */
#define N_SHAPE (sizeof shapes / sizeof *shapes)

static cts_dist op_domain(uint32_t op)
{
    switch (op) {
    case YK_OP_LOG:
    case YK_OP_SQRT:
    case YK_OP_RSQRT:
        return CTS_POSITIVE;
    case YK_OP_RECIP:
        return CTS_NONZERO;
    default:
        return CTS_WIDE;
    }
}

static cts_tol op_tolerance(uint32_t op)
{
    switch (yk__op_info_of(op)->tol) {
    case YK_TOL_EXACT:
        return CTS_EXACT;
    case YK_TOL_ROUND:
        return CTS_ROUND;
    default:
        return CTS_ULP;
    }
}

static void test_unary(cts *c, uint32_t op, yk_dtype dtype, const shape *s)
{
    cts_check k;
    if (!cts_begin(c, "%s.%s.%s", yk__op_info_of(op)->name, yk__dtype_name(dtype), s->name))
        return;
    cts_check_init(&k, c);
    k.tol = op_tolerance(op);
    cts_want(&k, yk__un(&k.g, op, cts_leaf(&k.g, dtype, op_domain(op), 0, s->dims, s->a)));
    cts_check_run(c, &k);
    cts_check_free(&k);
}

/* An operand that is itself a broadcast view, of a unary op. */
static void unary_view(cts *c, uint32_t op, yk_dtype dtype)
{
    static const int64_t from[] = {5, 1, 6}, to[] = {5, 4, 6};
    cts_check k;
    if (!cts_begin(c, "%s.%s.view", yk__op_info_of(op)->name, yk__dtype_name(dtype)))
        return;
    cts_check_init(&k, c);
    k.tol = op_tolerance(op);
    cts_want(&k, yk__un(&k.g, op, yk__expand(&k.g, cts_leaf(&k.g, dtype, op_domain(op), 0, 3, from), 3, to)));
    cts_check_run(c, &k);
    cts_check_free(&k);
}

static void test_binary(cts *c, uint32_t op, yk_dtype dtype, const shape *s, bool swap)
{
    bool order = op == YK_OP_LT || op == YK_OP_EQ || op == YK_OP_MAX || op == YK_OP_MIN;
    cts_dist d = dtype == YK_I32 ? (op == YK_OP_DIV ? CTS_WHOLE : CTS_WHOLE) : order ? CTS_TIES : CTS_WIDE;
    cts_check k;
    yk__vid a, b;
    if (!cts_begin(c, "%s.%s.%s%s", yk__op_info_of(op)->name, yk__dtype_name(dtype), s->name, swap ? ".swapped" : ""))
        return;
    cts_check_init(&k, c);
    k.tol = dtype == YK_I32 ? CTS_EXACT : op_tolerance(op);
    a = cts_leaf(&k.g, dtype, d, 0, s->dims, s->a);
    b = cts_leaf(&k.g, dtype, op == YK_OP_DIV ? CTS_NONZERO : d, 0, s->b_dims, s->b);
    cts_want(&k, swap ? yk__bin(&k.g, op, b, a) : yk__bin(&k.g, op, a, b));
    cts_check_run(c, &k);
    cts_check_free(&k);
}

/* NaN, infinities and both zeros, for rules that define their results. */
static void test_special(cts *c, uint32_t op, yk_dtype dtype)
{
    static const int64_t dim[] = {257};
    cts_check k;
    yk__vid a, b;
    if (!cts_begin(c, "%s.%s.nan", yk__op_info_of(op)->name, yk__dtype_name(dtype)))
        return;
    cts_check_init(&k, c);
    k.any_zero = op == YK_OP_MAX || op == YK_OP_MIN;
    a = cts_leaf(&k.g, dtype, CTS_SPECIAL, 0, 1, dim);
    b = cts_leaf(&k.g, dtype, CTS_SPECIAL, 1, 1, dim);
    cts_want(&k, yk__op_info_of(op)->kind == YK_KIND_UN ? yk__un(&k.g, op, a) : yk__bin(&k.g, op, a, b));
    cts_check_run(c, &k);
    cts_check_free(&k);
}

/* The output is the memory of operand `which`. */
static void in_place(cts *c, uint32_t op, yk_dtype dtype, uint32_t which)
{
    static const int64_t dim[] = {13, 77};
    cts_check k;
    yk__vid x[2], y;
    if (!cts_begin(c, "%s.%s.in_place%u", yk__op_info_of(op)->name, yk__dtype_name(dtype), which))
        return;
    cts_check_init(&k, c);
    k.tol = op_tolerance(op);
    for (int i = 0; i < 2; i++)
        x[i] = cts_state(&k.g, dtype, CTS_WIDE, 0, 2, dim);
    y = yk__op_info_of(op)->kind == YK_KIND_UN ? yk__un(&k.g, op, x[0]) : yk__bin(&k.g, op, x[0], x[1]);
    if (y != YK_NONE) {
        k.g.value[y].slot = k.g.value[x[which]].slot;
        k.g.value[y].offset = k.g.value[x[which]].offset;
    }
    cts_want(&k, y);
    cts_check_run(c, &k);
    cts_check_free(&k);
}

static void select_case(cts *c, yk_dtype dtype, const shape *s)
{
    cts_check k;
    if (!cts_begin(c, "select.%s.%s", yk__dtype_name(dtype), s->name))
        return;
    cts_check_init(&k, c);
    cts_want(&k, yk__select(&k.g, cts_leaf(&k.g, YK_BOOL, CTS_MASK, 0, s->b_dims, s->b),
                            cts_leaf(&k.g, dtype, dtype == YK_I32 ? CTS_WHOLE : CTS_SPECIAL, 0, s->dims, s->a),
                            cts_leaf(&k.g, dtype, dtype == YK_I32 ? CTS_WHOLE : CTS_WIDE, 1, s->dims, s->a)));
    cts_check_run(c, &k);
    cts_check_free(&k);
}

/* Numbers of one kind, for what a function has of its own there: near zero, beyond its domain, or below the normal ones. */
static void unary_of(cts *c, uint32_t op, cts_dist dist, uint32_t n, const char *name)
{
    static const int64_t dim[] = {301};
    cts_check k;
    if (!cts_begin(c, "%s.f32.%s", yk__op_info_of(op)->name, name))
        return;
    cts_check_init(&k, c);
    k.tol = op_tolerance(op);
    cts_want(&k, yk__un(&k.g, op, cts_leaf(&k.g, YK_F32, dist, n, 1, dim)));
    cts_check_run(c, &k);
    cts_check_free(&k);
}

/* The ends of a domain: log(0) = -inf, sqrt(0) = 0, rsqrt(0) = recip(0) = inf, and the functions at infinity. */
static void at_zero(cts *c, uint32_t op, yk_dtype dtype)
{
    static const int64_t dim[] = {301};
    cts_check k;
    if (!cts_begin(c, "%s.%s.zero", yk__op_info_of(op)->name, yk__dtype_name(dtype)))
        return;
    cts_check_init(&k, c);
    k.tol = op_tolerance(op);
    cts_want(&k, yk__un(&k.g, op, cts_leaf(&k.g, dtype, CTS_ZERO, 0, 1, dim)));
    cts_check_run(c, &k);
    cts_check_free(&k);
}

/* More than a MiB in and out, and in 16 bits: a device may compute large values in another way. */
static void large_case(cts *c, uint32_t op, yk_dtype to)
{
    static const int64_t dim[] = {513, 1031};
    cts_check k;
    yk__vid y;
    if (!cts_begin(c, "%s.f32.%s513x1031", yk__op_info_of(op)->name, op != YK_OP_CAST ? "" : to == YK_BF16 ? "bf16." : "i32."))
        return;
    cts_check_init(&k, c);
    k.tol = op_tolerance(op);
    const yk__vid x = cts_leaf(&k.g, YK_F32, op_domain(op), 0, 2, dim);
    if (op == YK_OP_SELECT)
        y = yk__select(&k.g, cts_leaf(&k.g, YK_BOOL, CTS_MASK, 0, 2, dim), x, cts_leaf(&k.g, YK_F32, CTS_WIDE, 1, 2, dim));
    else if (op == YK_OP_CAST)
        y = yk__cast(&k.g, x, to);
    else if (yk__op_info_of(op)->kind == YK_KIND_UN)
        y = yk__un(&k.g, op, x);
    else
        y = yk__bin(&k.g, op, x, cts_leaf(&k.g, YK_F32, CTS_NONZERO, 1, 2, dim));
    cts_want(&k, y);
    cts_check_run(c, &k);
    cts_check_free(&k);
}

/* Both operands are one value. */
static void same_operand(cts *c, uint32_t op)
{
    static const int64_t dim[] = {33, 65};
    cts_check k;
    if (!cts_begin(c, "%s.f32.same", yk__op_info_of(op)->name))
        return;
    cts_check_init(&k, c);
    k.tol = op_tolerance(op);
    const yk__vid x = cts_leaf(&k.g, YK_F32, CTS_NONZERO, 0, 2, dim);
    cts_want(&k, yk__bin(&k.g, op, x, x));
    cts_check_run(c, &k);
    cts_check_free(&k);
}

/* A product below the normal numbers: zero or unchanged. */
static void tiny_products(cts *c)
{
    static const int64_t dim[] = {301};
    cts_check k;
    if (!cts_begin(c, "mul.f32.tiny"))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_ROUND;
    cts_want(&k, yk__bin(&k.g, YK_OP_MUL, cts_leaf(&k.g, YK_F32, CTS_TINY, 0, 1, dim), cts_leaf(&k.g, YK_F32, CTS_UNIT, 1, 1, dim)));
    cts_check_run(c, &k);
    cts_check_free(&k);
}

/* Integers of either sign, and divisors beyond -1..1: a quotient is cut off towards zero. */
static void divide_integers(cts *c)
{
    static const int64_t dim[] = {1003};
    cts_check k;
    if (!cts_begin(c, "div.i32.signs"))
        return;
    cts_check_init(&k, c);
    const yk__vid a = cts_leaf(&k.g, YK_I32, CTS_INTEGER, 0, 1, dim), b = cts_leaf(&k.g, YK_I32, CTS_WHOLE, 1, 1, dim);
    const yk__vid seven = yk__fill(&k.g, -7, YK_I32, 1, dim);
    const yk__vid small = yk__bin(&k.g, YK_OP_LT, yk__bin(&k.g, YK_OP_MUL, b, b), yk__fill(&k.g, 2, YK_I32, 1, dim));
    cts_want(&k, yk__bin(&k.g, YK_OP_DIV, a, yk__select(&k.g, small, seven, b))); /* -2^31 / -1 may be any number */
    cts_check_run(c, &k);
    cts_check_free(&k);
}

static void test_cast(cts *c, yk_dtype from, yk_dtype to, uint32_t shape_number)
{
    const shape *s = &shapes[shape_number];
    cts_dist d = from == YK_BOOL ? CTS_MASK : from == YK_U8 || to == YK_U8 ? CTS_BYTES : from == YK_I32 ? CTS_WHOLE : CTS_WIDE;
    cts_check k;
    if (!cts_begin(c, "cast.%s.%s.%s", yk__dtype_name(from), yk__dtype_name(to), s->name))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_ROUND;
    cts_want(&k, yk__cast(&k.g, cts_leaf(&k.g, from, d, 0, s->dims, s->a), to));
    cts_check_run(c, &k);
    cts_check_free(&k);
}

static void test_casts(cts *c)
{
    static const yk_dtype types[] = {YK_F32, YK_BF16, YK_F16, YK_I32, YK_U8, YK_BOOL};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            if (i != j && (c->dev->caps.store & 1u << types[i]) && (c->dev->caps.store & 1u << types[j])) {
                test_cast(c, types[i], types[j], 5);
                test_cast(c, types[i], types[j], i == 1 || j == 1 ? 6 : 3); /* 6: whole vectors, of any device */
            }
}

/* About halves between two numbers of the type, and just below powers of two. */
static void cast_edge(cts *c, yk_dtype to)
{
    static const int64_t dim[] = {4001};
    cts_check k;
    if (!cts_begin(c, "cast.f32.%s.edge", yk__dtype_name(to)))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_ROUND;
    cts_want(&k, yk__cast(&k.g, cts_leaf(&k.g, YK_F32, CTS_EDGE, to == YK_BF16 ? 7 : 10, 1, dim), to));
    cts_check_run(c, &k);
    cts_check_free(&k);
}

/* Finite operands of about 2^n with a result that may not fit: infinity. */
static void test_range(cts *c, uint32_t op, yk_dtype dtype, uint32_t n)
{
    static const int64_t dim[] = {513};
    cts_check k;
    yk__vid x, y;
    if (!cts_begin(c, "%s.%s.range%u", yk__op_info_of(op)->name, yk__dtype_name(dtype), n))
        return;
    cts_check_init(&k, c);
    k.tol = op_tolerance(op);
    x = cts_leaf(&k.g, dtype, CTS_HUGE, n, 1, dim);
    y = cts_leaf(&k.g, dtype, op == YK_OP_DIV ? CTS_UNIT : CTS_HUGE, n, 1, dim);
    cts_want(&k, yk__op_info_of(op)->kind == YK_KIND_UN ? yk__un(&k.g, op, x) : yk__bin(&k.g, op, x, y));
    cts_check_run(c, &k);
    cts_check_free(&k);
}

static void cast_range(cts *c, yk_dtype to, uint32_t n)
{
    static const int64_t dim[] = {513};
    cts_check k;
    if (!cts_begin(c, "cast.f32.%s.range%u", yk__dtype_name(to), n))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_ROUND;
    cts_want(&k, yk__cast(&k.g, cts_leaf(&k.g, YK_F32, CTS_HUGE, n, 1, dim), to));
    cts_check_run(c, &k);
    cts_check_free(&k);
}

static void test_ranges(cts *c, yk_dtype dtype)
{
    const bool half = dtype == YK_F16;
    const uint32_t last = half ? 15 : 127;
    test_range(c, YK_OP_ADD, dtype, last - 1);
    test_range(c, YK_OP_SUB, dtype, last - 1);
    test_range(c, YK_OP_MUL, dtype, half ? 7 : 63);
    test_range(c, YK_OP_DIV, dtype, last - 2);
    test_range(c, YK_OP_EXP, dtype, half ? 3 : 6);
    if (dtype != YK_F32) {
        cast_range(c, dtype, last);
        if (half)
            cast_range(c, dtype, last + 1);
        cast_edge(c, dtype);
    }
}

/* Every NaN is one in any float type. */
static void cast_nan(cts *c, yk_dtype to)
{
    static const int64_t dim[] = {301};
    cts_check k;
    if (!cts_begin(c, "cast.f32.%s.nan", yk__dtype_name(to)))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_ROUND;
    cts_want(&k, yk__cast(&k.g, cts_leaf(&k.g, YK_F32, CTS_NAN, 0, 1, dim), to));
    cts_check_run(c, &k);
    cts_check_free(&k);
}

/* Subnormal numbers: zero or unchanged, but in f16 unchanged. */
static void tiny_numbers(cts *c, yk_dtype dtype)
{
    static const int64_t dim[] = {301};
    cts_check k;
    yk__vid x;
    if (!cts_begin(c, "cast.%s.tiny", yk__dtype_name(dtype)))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_ROUND;
    x = cts_leaf(&k.g, dtype, CTS_TINY, 0, 1, dim);
    cts_want(&k, dtype == YK_F32 ? yk__un(&k.g, YK_OP_NEG, x) : yk__cast(&k.g, x, YK_F32));
    if (dtype != YK_F32)
        cts_want(&k, yk__cast(&k.g, yk__un(&k.g, YK_OP_NEG, yk__cast(&k.g, x, YK_F32)), dtype));
    cts_check_run(c, &k);
    cts_check_free(&k);
}

/* Integers that f32 does not hold, and sums and products that wrap around. */
static void any_integers(cts *c, uint32_t op, uint32_t which)
{
    static const int64_t dim[] = {1003};
    cts_check k;
    if (!cts_begin(c, "%s.i32.%s", yk__op_info_of(op)->name, which ? "neighbours" : "any"))
        return;
    cts_check_init(&k, c);
    const yk__vid a = cts_leaf(&k.g, YK_I32, CTS_INTEGER, which, 1, dim), b = cts_leaf(&k.g, YK_I32, CTS_INTEGER, which + 2, 1, dim);
    cts_want(&k, op == YK_OP_CAST ? yk__cast(&k.g, a, YK_F32) : yk__bin(&k.g, op, a, b));
    cts_check_run(c, &k);
    cts_check_free(&k);
}

/* To bool: NaN and infinities are true, -0 is false. */
static void cast_special(cts *c, yk_dtype dtype)
{
    static const int64_t dim[] = {301};
    cts_check k;
    if (!cts_begin(c, "cast.%s.bool.special", yk__dtype_name(dtype)))
        return;
    cts_check_init(&k, c);
    cts_want(&k, yk__cast(&k.g, cts_leaf(&k.g, dtype, CTS_SPECIAL, 0, 1, dim), YK_BOOL));
    cts_check_run(c, &k);
    cts_check_free(&k);
}

/* A division by zero may give any number; the elements next to it are right, and there is no trap. */
static void divide_by_zero(cts *c)
{
    static const int64_t dim[] = {64};
    cts_check k;
    yk__vid a, b, zero;
    if (!cts_begin(c, "div.i32.by_zero"))
        return;
    cts_check_init(&k, c);
    a = cts_leaf(&k.g, YK_I32, CTS_WHOLE, 0, 1, dim);
    b = cts_leaf(&k.g, YK_I32, CTS_MASK, 1, 1, dim);
    zero = yk__fill(&k.g, 0, YK_I32, 1, dim);
    cts_want(&k, yk__select(&k.g, yk__bin(&k.g, YK_OP_EQ, b, zero), a, yk__bin(&k.g, YK_OP_DIV, a, b)));
    cts_check_run(c, &k);
    cts_check_free(&k);
}

/* More rows, and more columns, than 16 bits count. */
static void many_rows(cts *c, yk_dtype dtype, bool columns)
{
    const int64_t dim[] = {columns ? 2 : 70001, columns ? 70001 : 2}, part[] = {columns ? 1 : 70001, columns ? 70001 : 1};
    cts_check k;
    if (!cts_begin(c, "add.%s.70001_%s", yk__dtype_name(dtype), columns ? "columns" : "rows"))
        return;
    cts_check_init(&k, c);
    k.tol = CTS_ROUND;
    cts_want(&k, yk__bin(&k.g, YK_OP_ADD, cts_leaf(&k.g, dtype, CTS_UNIT, 0, 2, dim), cts_leaf(&k.g, dtype, CTS_UNIT, 1, 2, part)));
    cts_check_run(c, &k);
    cts_check_free(&k);
}

/* More elements than f32 has consecutive integers. Of the longest result only the first and last rows are checked, so that the reference
 * takes seconds. */
static void most_elements(cts *c)
{
    static const int64_t dim[] = {4097, 4097};
    const uint64_t most = c->dev->caps.max_bind ? c->dev->caps.max_bind : c->dev->caps.max_alloc;
    cts_check k;
    yk__vid y;
    if (c->quick || !cts_begin(c, "neg.f32.4097x4097"))
        return;
    if (most && most < 160u << 20) {
        cts_unsupported(c, "larger than a slot of this device");
        return;
    }
    cts_check_init(&k, c);
    y = yk__un(&k.g, YK_OP_NEG, yk__iota(&k.g, 0, YK_F32, 2, dim));
    cts_want(&k, yk__dense(&k.g, yk__slice(&k.g, y, 0, 0, 2, 1)));
    cts_want(&k, yk__dense(&k.g, yk__slice(&k.g, y, 0, 4090, 4097, 1)));
    cts_check_run(c, &k);
    cts_check_free(&k);
}

static void all_of_unary(cts *c, uint32_t op, yk_dtype dtype)
{
    for (size_t i = 0; i < ALIKE; i++)
        test_unary(c, op, dtype, &shapes[i]);
    unary_view(c, op, dtype);
    in_place(c, op, dtype, 0);
    if (op == YK_OP_NEG || op == YK_OP_ABS)
        test_special(c, op, dtype);
}

static void all_of_binary(cts *c, uint32_t op, yk_dtype dtype)
{
    for (size_t i = 0; i < N_SHAPE; i++)
        test_binary(c, op, dtype, &shapes[i], false);
    for (size_t i = ALIKE; i < N_SHAPE; i++)
        test_binary(c, op, dtype, &shapes[i], true);
    test_binary(c, op, dtype, &shapes[0], true);
    if (op == YK_OP_MAX || op == YK_OP_MIN || op == YK_OP_LT || op == YK_OP_EQ)
        test_special(c, op, dtype);
    else
        for (uint32_t i = 0; i < 2; i++)
            in_place(c, op, dtype, i);
}

/* Numbers and sizes that the shapes above do not have; in f32, but for the ends of a domain. */
static void test_kinds(cts *c, uint32_t n, const yk_dtype *types)
{
    for (uint32_t op = 0; op < YK_OP_COUNT; op++) {
        const uint32_t kind = yk__op_info_of(op)->kind;
        const bool root = op == YK_OP_LOG || op == YK_OP_SQRT || op == YK_OP_RSQRT || op == YK_OP_RECIP;
        if (op == YK_OP_CAST || op == YK_OP_SELECT || kind == YK_KIND_UN || kind == YK_KIND_BIN)
            large_case(c, op, YK_I32);
        if (kind == YK_KIND_BIN)
            same_operand(c, op);
        if (kind != YK_KIND_UN || op == YK_OP_CAST || op_tolerance(op) == CTS_EXACT)
            continue;
        unary_of(c, op, CTS_NAN, 0, "nan");
        if (!root)
            unary_of(c, op, CTS_SMALL, 20, "small");
        for (uint32_t t = 0; root && t < n; t++)
            at_zero(c, op, types[t]);
    }
    if (c->dev->caps.store & 1u << YK_BF16)
        large_case(c, YK_OP_CAST, YK_BF16);
    tiny_products(c);
    divide_integers(c);
}

void cts_ops_elementwise(cts *c)
{
    yk_dtype types[4];
    uint32_t n = cts_float_types(c, types);
    for (uint32_t op = 0; op < YK_OP_COUNT; op++) {
        uint32_t kind = yk__op_info_of(op)->kind;
        for (uint32_t t = 0; t < n; t++)
            if (kind == YK_KIND_UN && op != YK_OP_CAST)
                all_of_unary(c, op, types[t]);
            else if (kind == YK_KIND_BIN)
                all_of_binary(c, op, types[t]);
        if (kind == YK_KIND_BIN && op != YK_OP_DIV)
            for (size_t i = 0; i < N_SHAPE; i++)
                test_binary(c, op, YK_I32, &shapes[i], false);
    }
    for (size_t i = 0; i < N_SHAPE; i++) {
        for (uint32_t t = 0; t < n; t++)
            select_case(c, types[t], &shapes[i]);
        select_case(c, YK_I32, &shapes[i]);
    }
    test_casts(c);
    divide_by_zero(c);
    for (uint32_t op = YK_OP_CAST; op <= YK_OP_EQ; op++)
        for (uint32_t which = 0; which < 2 && op != YK_OP_DIV; which++)
            any_integers(c, op, which);
    for (uint32_t t = 0; t < n; t++) {
        cast_special(c, types[t]);
        if (types[t] != YK_F32)
            cast_nan(c, types[t]);
        tiny_numbers(c, types[t]);
        test_ranges(c, types[t]);
        many_rows(c, types[t], false);
        many_rows(c, types[t], true);
    }
    test_kinds(c, n, types);
    most_elements(c);
}
