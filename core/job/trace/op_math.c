/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public elementwise operations, reductions and products (yk_add, yk_sum, yk_matmul). Each checks its operands, appends nodes to the
 * step's graph, and says how its result lies over the ranks.
 *
 * Models and the user's program call them in the step thread; nothing is computed until the step runs. Shapes broadcast as in NumPy.
 */
#include "core/job/input.h"
#include "core/job/operand.h"
#include "core/job/trace/op.h"
#include "core/job/trace/row_ops.h"
#include "core/job/trace/sharding.h"

/* Brings two operands to one type: the float one if there is one, else i32. */
static void unite_types(yk_job *job, yk__vid *a, yk__vid *b)
{
    yk__graph *g = &job->step.trace;
    if (*a == YK_NONE || *b == YK_NONE || g->value[*a].dtype == g->value[*b].dtype)
        return;
    bool f = yk__dtype_is_float(g->value[*a].dtype) || yk__dtype_is_float(g->value[*b].dtype);
    *a = yk__result_like(job, *a, yk__cast(g, *a, f ? YK_F32 : YK_I32));
    *b = yk__result_like(job, *b, yk__cast(g, *b, f ? YK_F32 : YK_I32));
}

/* Casts u8 and bool to i32, as arithmetic has only f32 and i32. */
static void widen_bytes(yk_job *job, yk__vid *v)
{
    yk__graph *g = &job->step.trace;
    if (*v != YK_NONE && (g->value[*v].dtype == YK_U8 || g->value[*v].dtype == YK_BOOL))
        *v = yk__result_like(job, *v, yk__cast(g, *v, YK_I32));
}

static bool enter_binary(const char *name, yk_t a, yk_t b, yk_job **job, yk__vid *va, yk__vid *vb)
{
    const yk_t x[2] = {a, b};
    *job = yk__op_enter(name, 2, x);
    if (!*job)
        return false;
    *va = yk__step_value(*job, name, a);
    *vb = yk__step_value(*job, name, b);
    widen_bytes(*job, va);
    widen_bytes(*job, vb);
    unite_types(*job, va, vb);
    return *va != YK_NONE && *vb != YK_NONE;
}

static yk__shard_kind shard_kind_of(const yk_job *job, yk__vid v)
{
    return (yk__shard_kind)yk__sharding_of(job, v).kind;
}

static yk_t map_result(yk_job *job, yk_op op, yk__vid a, yk__vid b)
{
    const yk__vid in[2] = {a, b};
    const yk__sharding s = yk__shard_map(job, 2, in);
    return yk__result(job, yk__bin(&job->step.trace, op, a, b), s);
}

static yk_t apply_binary(yk_op op, const char *name, yk_t a, yk_t b)
{
    yk_job *job;
    yk__vid va, vb;
    if (!enter_binary(name, a, b, &job, &va, &vb))
        return YK__POISON;
    return map_result(job, op, yk__sum_of_ranks(job, va), yk__sum_of_ranks(job, vb));
}

/* The result of an operation that is linear in x, for a PARTIAL x; its other operand is equal on all ranks. */
static yk_t give_linear(yk_job *job, yk__vid x, yk__vid other, yk__vid out)
{
    yk__sharding s = yk__sharding_of(job, x);
    const yk__vid in[2] = {other, other};
    const yk__sharding rest = yk__shard_map(job, other == YK_NONE ? 0 : 2, in);
    s.exchanged = s.exchanged || rest.exchanged;
    return yk__result(job, out, s);
}

/* Adds or subtracts. Terms of sums over the ranks add up as they are; to a term each rank adds its share of a REPLICATED operand. */
static yk_t add_values(yk_op op, const char *name, yk_t a, yk_t b)
{
    yk_job *job;
    yk__vid va, vb;
    if (!enter_binary(name, a, b, &job, &va, &vb))
        return YK__POISON;
    const yk__shard_kind sa = shard_kind_of(job, va), sb = shard_kind_of(job, vb);
    const bool terms = (sa == YK__PARTIAL && (sb == YK__PARTIAL || sb == YK__REPLICATED)) ||
                       (sb == YK__PARTIAL && sa == YK__REPLICATED);
    if (!terms)
        return map_result(job, op, yk__sum_of_ranks(job, va), yk__sum_of_ranks(job, vb));
    va = yk__rank_term(job, va);
    vb = yk__rank_term(job, vb);
    yk__sharding s = yk__sharding_of(job, va);
    s.exchanged = s.exchanged || yk__sharding_of(job, vb).exchanged;
    return yk__result(job, yk__bin(&job->step.trace, op, va, vb), s);
}

yk_t yk_add(yk_t a, yk_t b)
{
    return add_values(YK_OP_ADD, "yk_add", a, b);
}

yk_t yk_sub(yk_t a, yk_t b)
{
    return add_values(YK_OP_SUB, "yk_sub", a, b);
}

/* True if a product or quotient stays a term of a sum over the ranks in its operand x. */
static bool is_term(const yk_job *job, yk__vid x, yk__vid other)
{
    return shard_kind_of(job, x) == YK__PARTIAL && shard_kind_of(job, other) == YK__REPLICATED;
}

yk_t yk_mul(yk_t a, yk_t b)
{
    yk_job *job;
    yk__vid va, vb;
    if (!enter_binary("yk_mul", a, b, &job, &va, &vb))
        return YK__POISON;
    if (shard_kind_of(job, va) == YK__PARTIAL && shard_kind_of(job, vb) == YK__PARTIAL)
        vb = yk__sum_of_ranks(job, vb);
    if (is_term(job, va, vb))
        return give_linear(job, va, vb, yk__bin(&job->step.trace, YK_OP_MUL, va, vb));
    if (is_term(job, vb, va))
        return give_linear(job, vb, va, yk__bin(&job->step.trace, YK_OP_MUL, va, vb));
    return map_result(job, YK_OP_MUL, yk__sum_of_ranks(job, va), yk__sum_of_ranks(job, vb));
}

yk_t yk_div(yk_t a, yk_t b)
{
    yk_job *job;
    yk__vid va, vb;
    if (!enter_binary("yk_div", a, b, &job, &va, &vb))
        return YK__POISON;
    va = yk__as_float(job, va);
    vb = yk__sum_of_ranks(job, yk__as_float(job, vb));
    if (is_term(job, va, vb))
        return give_linear(job, va, vb, yk__bin(&job->step.trace, YK_OP_DIV, va, vb));
    return map_result(job, YK_OP_DIV, yk__sum_of_ranks(job, va), vb);
}

yk_t yk_maximum(yk_t a, yk_t b)
{
    return apply_binary(YK_OP_MAX, "yk_maximum", a, b);
}

yk_t yk_minimum(yk_t a, yk_t b)
{
    return apply_binary(YK_OP_MIN, "yk_minimum", a, b);
}

yk_t yk_less(yk_t a, yk_t b)
{
    return apply_binary(YK_OP_LT, "yk_less", a, b);
}

yk_t yk_equal(yk_t a, yk_t b)
{
    return apply_binary(YK_OP_EQ, "yk_equal", a, b);
}

yk_t yk_where(yk_t c, yk_t a, yk_t b)
{
    const yk_t x[3] = {c, a, b};
    yk_job *job = yk__op_enter("yk_where", 3, x);
    if (!job)
        return YK__POISON;
    yk__vid v[3];
    for (int i = 0; i < 3; i++)
        v[i] = yk__operand(job, "yk_where", x[i]);
    unite_types(job, &v[1], &v[2]);
    if (v[0] == YK_NONE || v[1] == YK_NONE || v[2] == YK_NONE)
        return YK__POISON;
    const yk__sharding s = yk__shard_map(job, 3, v);
    return yk__result(job, yk__select(&job->step.trace, yk__cast(&job->step.trace, v[0], YK_BOOL), v[1], v[2]), s);
}

/* Enters an operation of one operand. */
static yk__vid enter_unary(const char *name, yk_t x, yk_job **job)
{
    *job = yk__op_enter(name, 1, &x);
    return *job ? yk__step_value(*job, name, x) : YK_NONE;
}

static yk_t apply_unary(yk_op op, const char *name, yk_t x)
{
    yk_job *job;
    yk__vid v = enter_unary(name, x, &job);
    if (v == YK_NONE)
        return YK__POISON;
    v = yk__as_float(job, v);
    if (op == YK_OP_NEG && shard_kind_of(job, v) == YK__PARTIAL)
        return give_linear(job, v, YK_NONE, yk__un(&job->step.trace, op, v));
    v = yk__sum_of_ranks(job, v);
    const yk__sharding s = yk__shard_map(job, 1, &v);
    return yk__result(job, yk__un(&job->step.trace, op, v), s);
}

#define YK__UNARY(name, op)                                                                                            \
    yk_t name(yk_t x)                                                                                                  \
    {                                                                                                                  \
        return apply_unary(op, #name, x);                                                                                    \
    }
YK__UNARY(yk_neg, YK_OP_NEG)
YK__UNARY(yk_abs, YK_OP_ABS)
YK__UNARY(yk_exp, YK_OP_EXP)
YK__UNARY(yk_log, YK_OP_LOG)
YK__UNARY(yk_sqrt, YK_OP_SQRT)
YK__UNARY(yk_rsqrt, YK_OP_RSQRT)
YK__UNARY(yk_relu, YK_OP_RELU)
YK__UNARY(yk_gelu, YK_OP_GELU)
YK__UNARY(yk_gelu_tanh, YK_OP_GELU_TANH)
YK__UNARY(yk_silu, YK_OP_SILU)
YK__UNARY(yk_tanh, YK_OP_TANH)
YK__UNARY(yk_sigmoid, YK_OP_SIGMOID)
YK__UNARY(yk_erf, YK_OP_ERF)
YK__UNARY(yk_sinh, YK_OP_SINH)

static yk_t with_scalar(yk_op op, const char *name, yk_t x, float number)
{
    yk_job *job;
    yk__vid s, v = enter_unary(name, x, &job);
    v = yk__as_float(job, v);
    if (v == YK_NONE)
        return YK__POISON;
    yk__op_setting(job, op == YK_OP_MUL ? "factor" : "addend", (double)number);
    yk__scalar_new(job, (double)number, &s);
    if (shard_kind_of(job, v) != YK__PARTIAL)
        return map_result(job, op, v, s);
    const yk__vid term = op == YK_OP_ADD ? yk__rank_term(job, s) : s;
    return give_linear(job, v, s, yk__bin(&job->step.trace, op, v, term));
}

yk_t yk_scale(yk_t x, float factor)
{
    return with_scalar(YK_OP_MUL, "yk_scale", x, factor);
}

yk_t yk_shift(yk_t x, float addend)
{
    return with_scalar(YK_OP_ADD, "yk_shift", x, addend);
}

yk_t yk_cast(yk_t x, yk_dtype dtype)
{
    yk_job *job;
    yk__vid v = enter_unary("yk_cast", x, &job);
    if (v == YK_NONE)
        return YK__POISON;
    if (dtype != YK_F32 && dtype != YK_I32 && dtype != YK_U8 && dtype != YK_BOOL) {
        yk__job_failf(job, YK_E_ARG, "yk_cast to %s: expected f32, i32, u8 or bool (the 16-bit formats are chosen by the "
                                     "job's precision)",
                      yk__dtype_name(dtype));
        return YK__POISON;
    }
    v = dtype == YK_F32 ? v : yk__sum_of_ranks(job, v);
    yk__op_setting(job, "type", dtype);
    const yk__sharding s = yk__sharding_of(job, v);
    return yk__result(job, yk__cast(&job->step.trace, v, dtype), s);
}

/* ---- Reductions ---- */

/* v without the axes of length 1 in the mask. */
static yk__vid drop_axes(yk_job *job, yk__vid v, uint32_t axes)
{
    int64_t dim[YK_MAX_DIMS];
    uint32_t n = 0;
    if (v == YK_NONE)
        return v;
    const yk_value *x = &job->step.trace.value[v];
    for (uint32_t i = 0; i < x->dims; i++)
        if (!(axes >> i & 1))
            dim[n++] = x->dim[i];
    return yk__reshape_to(&job->step.trace, v, n, dim);
}

static yk__vid enter_reduction(const char *name, yk_t x, uint32_t axes, yk_job **job)
{
    yk__vid v = enter_unary(name, x, job);
    v = yk__as_float(*job, v);
    if (v != YK_NONE && axes >> (*job)->step.trace.value[v].dims) {
        char text[96];
        yk__job_failf(*job, YK_E_ARG, "%s: axes 0x%x of %s", name, axes,
                      yk__value_shape_text(&(*job)->step.trace.value[v], text, sizeof text));
        return YK_NONE;
    }
    if (v != YK_NONE)
        yk__op_setting(*job, "axes", yk__axes_from_last(axes, (*job)->step.trace.value[v].dims));
    return v;
}

yk_t yk_sum(yk_t x, uint32_t axes, bool keep)
{
    yk_job *job;
    yk__vid v = enter_reduction("yk_sum", x, axes, &job);
    if (v == YK_NONE)
        return YK__POISON;
    yk__op_setting(job, "keep", keep);
    const yk__sharding to = yk__shard_sum(job, v, axes, keep);
    yk__vid s = yk__sum(&job->step.trace, v, axes);
    return yk__result(job, keep ? s : drop_axes(job, s, axes), to);
}

yk_t yk_mean(yk_t x, uint32_t axes, bool keep)
{
    yk_job *job;
    yk__vid v = enter_reduction("yk_mean", x, axes, &job);
    if (v == YK_NONE)
        return YK__POISON;
    double n = 1.0;
    yk__op_setting(job, "keep", keep);
    for (uint32_t i = 0; i < job->step.trace.value[v].dims; i++)
        n *= axes >> i & 1 ? (double)job->step.trace.value[v].dim[i] : 1.0;
    const yk__sharding to = yk__shard_sum(job, v, axes, keep);
    yk__vid s = yk__sum(&job->step.trace, v, axes);
    if (yk__over_rows(job, v, axes))
        s = yk__bin(&job->step.trace, YK_OP_MUL, s, yk__row_mean_of(job, v, axes));
    else
        s = yk__scale(&job->step.trace, s, n > 0.0 ? 1.0 / n : 0.0);
    return yk__result(job, keep ? s : drop_axes(job, s, axes), to);
}

yk_t yk_max(yk_t x, uint32_t axes, bool keep)
{
    yk_job *job;
    yk__vid v = enter_reduction("yk_max", x, axes, &job);
    if (v == YK_NONE)
        return YK__POISON;
    yk__op_setting(job, "keep", keep);
    v = yk__sum_of_ranks(job, v);
    const yk__sharding to = yk__shard_max(job, v, axes, keep);
    const bool all = yk__over_rows(job, v, axes) && to.kind == YK__REPLICATED;
    yk__vid s = all ? yk__row_max(job, v, axes) : yk__rmax(&job->step.trace, v, axes);
    return yk__result(job, keep ? s : drop_axes(job, s, axes), to);
}

/* The global number of a row, over all ranks. */
static yk_t argmax_of_rows(yk_job *job, yk__vid v, uint32_t axis)
{
    const yk__sharding to = {.kind = YK__REPLICATED, .exchanged = true};
    return yk__result(job, drop_axes(job, yk__row_argmax(job, v, axis), 1u << axis), to);
}

yk_t yk_argmax(yk_t x, int32_t axis)
{
    yk_job *job;
    yk__vid v = enter_reduction("yk_argmax", x, 0, &job);
    if (v == YK_NONE)
        return YK__POISON;
    int32_t dims = job->step.trace.value[v].dims, at = axis < 0 ? axis + dims : axis;
    if (at < 0 || at >= dims) {
        yk__job_failf(job, YK_E_ARG, "yk_argmax: axis %d of a value with %d dimensions", axis, dims);
        return YK__POISON;
    }
    yk__op_setting(job, "axis", yk__axis_from_last(at, (uint32_t)dims));
    v = yk__sum_of_ranks(job, v);
    yk__sharding to = yk__shard_drop(job, v, 1u << at, false);
    if (yk__over_rows(job, v, 1u << at)) {
        const char *why = yk__sharding_of(job, v).inner == 1 ? yk__row_numbers_missing(job) : "some entries along the axis are of one row";
        if (!why)
            return argmax_of_rows(job, v, (uint32_t)at);
        to = yk__shard_local(job, v, why);
    }
    return yk__result(job, drop_axes(job, yk__argmax(&job->step.trace, v, (uint32_t)at), 1u << at), to);
}

/* ---- Products ---- */

/* Strips a swap of the last two dimensions from an operand of dot: returns the dense value behind it, and sets *swapped. */
static yk__vid strip_transpose(yk_job *job, yk__vid v, bool *swapped)
{
    yk__graph *g = &job->step.trace;
    uint32_t axis[YK_MAX_DIMS];
    const yk_value *x = &g->value[v];
    *swapped = false;
    if (yk__value_is_dense(x) || x->dims < 2)
        return v;
    for (uint32_t i = 0; i < x->dims; i++)
        axis[i] = i;
    axis[x->dims - 1] = x->dims - 2u;
    axis[x->dims - 2] = x->dims - 1u;
    yk__vid t = yk__permute(g, v, axis);
    if (t != YK_NONE && yk__value_is_dense(&g->value[t])) {
        *swapped = true;
        return t;
    }
    return v;
}

/* [.., a, b] -> [rest, a, b] after broadcasting the leading dimensions to lead[]. */
static yk__vid flatten_batch(yk_job *job, yk__vid v, uint32_t n, const int64_t *lead)
{
    yk__graph *g = &job->step.trace;
    int64_t dim[YK_MAX_DIMS], flat = 1;
    const yk_value *x = &g->value[v];
    for (uint32_t i = 0; i < n; i++) {
        dim[i] = lead[i];
        flat *= lead[i];
    }
    dim[n] = x->dim[x->dims - 2];
    dim[n + 1] = x->dim[x->dims - 1];
    const int64_t three[3] = {flat, dim[n], dim[n + 1]};
    return yk__reshape_to(g, yk__expand(g, v, n + 2, dim), 3, three);
}

/* The common leading dimensions of a and b; false if they do not broadcast. */
static bool broadcast_leading(const yk_value *a, const yk_value *b, uint32_t *n, int64_t *lead)
{
    uint32_t na = a->dims - 2u, nb = b->dims - 2u;
    *n = na > nb ? na : nb;
    for (uint32_t i = 0; i < *n; i++) {
        int64_t da = i + na >= *n ? a->dim[i + na - *n] : 1, db = i + nb >= *n ? b->dim[i + nb - *n] : 1;
        if (da != db && da != 1 && db != 1)
            return false;
        lead[i] = da == 1 ? db : da;
    }
    return true;
}

/* A product is linear in one operand, which may stay a term of a sum over the ranks if the other operand is REPLICATED. */
static void whole_factors(yk_job *job, yk__vid *a, yk__vid *b)
{
    if (shard_kind_of(job, *b) == YK__PARTIAL && shard_kind_of(job, *a) != YK__REPLICATED)
        *b = yk__sum_of_ranks(job, *b);
    if (shard_kind_of(job, *a) == YK__PARTIAL && shard_kind_of(job, *b) != YK__REPLICATED)
        *a = yk__sum_of_ranks(job, *a);
}

yk_t yk_matmul(yk_t a, yk_t b)
{
    yk_job *job;
    yk__vid va, vb;
    bool ta, tb;
    uint32_t n;
    int64_t dim[YK_MAX_DIMS];
    char s[2][96];
    if (!enter_binary("yk_matmul", a, b, &job, &va, &vb))
        return YK__POISON;
    const yk_value xa = job->step.trace.value[va], xb = job->step.trace.value[vb];
    if (xa.dims < 2 || xb.dims < 2 || xa.dim[xa.dims - 1] != xb.dim[xb.dims - 2] || !broadcast_leading(&xa, &xb, &n, dim)) {
        yk__job_failf(job, YK_E_ARG, "yk_matmul: %s times %s does not fit", yk__value_shape_text(&xa, s[0], sizeof s[0]),
                      yk__value_shape_text(&xb, s[1], sizeof s[1]));
        return YK__POISON;
    }
    whole_factors(job, &va, &vb);
    const yk__sharding to = yk__shard_matmul(job, va, vb);
    yk__vid out;
    if (xb.dims == 2 && xa.dims > 2) {
        int64_t rows = 1;
        for (uint32_t i = 0; i + 1 < xa.dims; i++)
            rows *= xa.dim[i];
        const int64_t flat[2] = {rows, xa.dim[xa.dims - 1]};
        vb = strip_transpose(job, vb, &tb);
        out = yk__dot(&job->step.trace, yk__reshape_to(&job->step.trace, va, 2, flat), vb, false, tb);
    } else {
        va = strip_transpose(job, va, &ta);
        vb = strip_transpose(job, vb, &tb);
        out = n == 0 ? yk__dot(&job->step.trace, va, vb, ta, tb)
                     : yk__dot(&job->step.trace, flatten_batch(job, va, n, dim), flatten_batch(job, vb, n, dim), ta, tb);
    }
    dim[n] = xa.dim[xa.dims - 2];
    dim[n + 1] = xb.dim[xb.dims - 1];
    return yk__result(job, yk__reshape_to(&job->step.trace, out, n + 2, dim), to);
}

static yk_t apply_linear(const char *name, yk_t x, yk_t weight, yk_t bias, bool out_first)
{
    const yk_t all[3] = {x, weight, bias};
    yk_job *job = yk__op_enter(name, 3, all);
    if (!job)
        return YK__POISON;
    yk__vid v = yk__as_float(job, yk__operand(job, name, x)), w = yk__operand(job, name, weight);
    yk__vid b = yk__is_none(bias) ? YK_NONE : yk__operand(job, name, bias);
    if (v == YK_NONE || w == YK_NONE || (b == YK_NONE && !yk__is_none(bias)))
        return YK__POISON;
    const yk_value xv = job->step.trace.value[v], wv = job->step.trace.value[w];
    int64_t in = wv.dims == 2 ? wv.dim[out_first ? 1 : 0] : 0, out = wv.dims == 2 ? wv.dim[out_first ? 0 : 1] : 0;
    if (wv.dims != 2 || xv.dims < 1 || xv.dim[xv.dims - 1] != in) {
        char s[2][96];
        yk__job_failf(job, YK_E_ARG, "%s: x is %s, the weight %s; x's last length must be the weight's %s", name,
                      yk__value_shape_text(&xv, s[0], sizeof s[0]), yk__value_shape_text(&wv, s[1], sizeof s[1]),
                      out_first ? "second" : "first");
        return YK__POISON;
    }
    int64_t rows = 1, dim[YK_MAX_DIMS];
    for (uint32_t i = 0; i + 1 < xv.dims; i++)
        rows *= dim[i] = xv.dim[i];
    dim[xv.dims - 1] = out;
    const int64_t flat[2] = {rows, in};
    const yk__vid rest[2] = {w, b};
    const yk__sharding to = yk__shard_rowwise(job, v, 1u << (xv.dims - 1), b == YK_NONE ? 1 : 2, rest);
    yk__vid y = yk__dot(&job->step.trace, yk__reshape_to(&job->step.trace, v, 2, flat), w, false, out_first);
    if (b != YK_NONE)
        y = yk__bin(&job->step.trace, YK_OP_ADD, y, b);
    return yk__result(job, yk__reshape_to(&job->step.trace, y, xv.dims, dim), to);
}

yk_t yk_linear(yk_t x, yk_t weight, yk_t bias)
{
    return apply_linear("yk_linear", x, weight, bias, true);
}

yk_t yk_linear_io(yk_t x, yk_t weight, yk_t bias)
{
    return apply_linear("yk_linear_io", x, weight, bias, false);
}
