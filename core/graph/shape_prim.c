/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shape inference of the primitives, of dropout, and of elementwise composites: relu, gelu, gelu_tanh, silu and sigmoid with their
 * gradients, tanh_bwd, and other functions of one operand. One function serves each group, named by its rows in op_table.h.
 * yk__infer (shape.c) calls it after the number of operands and attributes was checked, for the builder (yk__apply) and for the checker.
 * shapes_good (check.c) passes the node's own first result as the requested type and shape.
 *
 * A function trusts no attribute, as tests and yoke-cts also give the checker graphs that the builder did not make. Lengths count elements.
 * A function writes s->out, and yk__infer_copy also s->alias; a failure sets s->err. Any thread.
 */
#include "core/graph/graph_internal.h"

#include <string.h>

/* Checks that all operands have one shape. */
static bool same_shapes(yk__shape *s)
{
    for (uint32_t i = 1; i < s->n_in; i++)
        if (!yk__value_same_shape(s->x[0], s->x[i]))
            return yk__shape_bad(s, "the operands have to have one shape");
    return true;
}

static bool same_types(yk__shape *s, uint32_t a, uint32_t b)
{
    if (s->x[a]->dtype == s->x[b]->dtype)
        return true;
    return yk__shape_bad(s, "operands %u and %u have to be of one type (a cast is needed)", a, b);
}

static bool out_like(yk__shape *s, uint32_t operand, uint32_t dtype)
{
    yk__shape_out(s, 0, dtype, s->x[operand]->dims, s->x[operand]->dim);
    return true;
}

bool yk__infer_unary(yk__shape *s)
{
    return yk__shape_float(s, 0) && out_like(s, 0, s->x[0]->dtype);
}

static bool dtype_castable(uint32_t dtype)
{
    return yk__dtype_is_float(dtype) || dtype == YK_I32 || dtype == YK_U8 || dtype == YK_BOOL;
}

bool yk__infer_cast(yk__shape *s)
{
    if (!dtype_castable(s->x[0]->dtype) || !dtype_castable(s->want_dtype))
        return yk__shape_bad(s, "cannot become %s: float, i32, u8 and bool can be cast", yk__dtype_name(s->want_dtype));
    return out_like(s, 0, s->want_dtype);
}

bool yk__infer_binary(yk__shape *s)
{
    if (!yk__dtype_is_float(s->x[0]->dtype) && s->x[0]->dtype != YK_I32)
        return yk__shape_bad(s, "the operands have to be float or i32");
    return same_types(s, 0, 1) && same_shapes(s) && out_like(s, 0, s->x[0]->dtype);
}

bool yk__infer_float2(yk__shape *s)
{
    return yk__shape_float(s, 0) && same_types(s, 0, 1) && same_shapes(s) && out_like(s, 0, s->x[0]->dtype);
}

bool yk__infer_compare(yk__shape *s)
{
    return same_types(s, 0, 1) && same_shapes(s) && out_like(s, 0, YK_BOOL);
}

bool yk__infer_select(yk__shape *s)
{
    if (s->x[0]->dtype != YK_BOOL)
        return yk__shape_bad(s, "operand 0, the condition, has to be bool");
    return same_types(s, 1, 2) && same_shapes(s) && out_like(s, 1, s->x[1]->dtype);
}

/* Takes the shape that the caller requested. */
static bool output_asked(yk__shape *s, uint32_t dtype)
{
    if (!s->dim || s->dims > YK_MAX_DIMS)
        return yk__shape_bad(s, "needs the shape of its output, at most %d dimensions", YK_MAX_DIMS);
    for (uint32_t i = 0; i < s->dims; i++)
        if (s->dim[i] < 0)
            return yk__shape_bad(s, "its output cannot have the length %lld", (long long)s->dim[i]);
    yk__shape_out(s, 0, dtype, s->dims, s->dim);
    return true;
}

bool yk__infer_fill(yk__shape *s)
{
    return output_asked(s, s->want_dtype < YK_DTYPE_COUNT ? s->want_dtype : YK_F32);
}

bool yk__infer_iota(yk__shape *s)
{
    uint32_t dtype = s->want_dtype < YK_DTYPE_COUNT ? s->want_dtype : YK_I32;
    if (dtype != YK_I32 && dtype != YK_F32)
        return yk__shape_bad(s, "gives i32 or f32, not %s", yk__dtype_name(dtype));
    if (!output_asked(s, dtype))
        return false;
    if (s->attr[0] < 0 || s->attr[0] >= s->dims)
        return yk__shape_bad(s, "axis %lld is not one of its %u", (long long)s->attr[0], s->dims);
    return true;
}

/* Checks key i32[4], rows i32[R] from operand `first` on, for n numbers. */
static bool rng_operands(yk__shape *s, uint32_t first, int64_t n)
{
    const yk_value *rows = s->x[first + 1];
    if (!yk__shape_is(s, first, YK_I32, 1, (int64_t[]){4}))
        return false;
    if (rows->dtype != YK_I32 || rows->dims != 1 || (rows->dim[0] ? n % rows->dim[0] != 0 : n != 0))
        return yk__shape_bad(s, "operand %u has to be i32 [R], the rows of the batch, where R divides %lld elements",
                             first + 1, (long long)n);
    return true;
}

bool yk__infer_rng(yk__shape *s)
{
    return output_asked(s, YK_F32) && rng_operands(s, 0, yk__value_count(&s->out[0]));
}

bool yk__infer_dropout(yk__shape *s)
{
    double p = yk_attr_f64(s->attr[0]);
    if (!(p >= 0 && p <= 1))
        return yk__shape_bad(s, "the probability %g is not in 0..1", p);
    return yk__shape_float(s, 0) && rng_operands(s, 1, yk__value_count(s->x[0])) && out_like(s, 0, s->x[0]->dtype);
}

/* yk__infer_reduce gives a sum of floats in f32 if the caller requests it; a maximum keeps the operand's type. */
bool yk__infer_reduce(yk__shape *s)
{
    const yk_value *x = s->x[0];
    if (!yk__shape_float(s, 0))
        return false;
    if (s->attr[0] < 0 || s->attr[0] >> x->dims)
        return yk__shape_bad(s, "axes 0x%llx are not all among its %d", (unsigned long long)s->attr[0], x->dims);
    out_like(s, 0, s->op == YK_OP_SUM ? yk__shape_dtype(s, x->dtype) : x->dtype);
    for (uint32_t i = 0; i < x->dims; i++) {
        if (!(s->attr[0] >> i & 1))
            continue;
        if (s->op == YK_OP_RMAX && x->dim[i] == 0)
            return yk__shape_bad(s, "there is no maximum over no element (axis %u)", i);
        s->out[0].dim[i] = 1;
    }
    return true;
}

bool yk__infer_argmax(yk__shape *s)
{
    if (!yk__shape_float(s, 0))
        return false;
    if (s->attr[0] < 0 || s->attr[0] >= s->x[0]->dims || s->x[0]->dim[s->attr[0]] == 0)
        return yk__shape_bad(s, "axis %lld is not one of its %d, or empty", (long long)s->attr[0], s->x[0]->dims);
    out_like(s, 0, YK_I32);
    s->out[0].dim[s->attr[0]] = 1;
    return true;
}

/* A copy with a base has a view of it as its output, which yk__copy_into, claim.c and simple.c make themselves. The checker alone infers
 * that copy here; alias[0] = 1 says that the output lies in operand 1. */
bool yk__infer_copy(yk__shape *s)
{
    if (s->n_in == 2) {
        if (!same_types(s, 0, 1))
            return false;
        s->alias[0] = 1;
    }
    return out_like(s, 0, s->x[0]->dtype);
}

static bool is_index(yk__shape *s, uint32_t operand)
{
    if (s->x[operand]->dtype == YK_I32 && s->x[operand]->dims == 1)
        return true;
    return yk__shape_bad(s, "operand %u, the index, has to be i32 [n]", operand);
}

bool yk__infer_gather(yk__shape *s)
{
    if (s->x[0]->dims < 1)
        return yk__shape_bad(s, "operand 0, the table, needs a dimension");
    if (!is_index(s, 1))
        return false;
    out_like(s, 0, s->x[0]->dtype);
    s->out[0].dim[0] = s->x[1]->dim[0];
    return true;
}

bool yk__infer_scatter_add(yk__shape *s)
{
    const yk_value *x = s->x[0];
    if (!yk__shape_float(s, 0) || !is_index(s, 1))
        return false;
    if (x->dims < 1 || x->dim[0] != s->x[1]->dim[0])
        return yk__shape_bad(s, "the source needs one row per index");
    if (!s->dim || s->dims != x->dims || s->dim[0] < 0 ||
        memcmp(s->dim + 1, x->dim + 1, (x->dims - 1u) * sizeof *s->dim))
        return yk__shape_bad(s, "its output has to be [V, ...] with the source's rows");
    yk__shape_out(s, 0, yk__shape_dtype(s, x->dtype), s->dims, s->dim);
    return true;
}

/* window_counts computes OH and OW over [.., H, W]; a: kh kw sh sw ph pw dh dw. */
static bool window_counts(yk__shape *s, const int64_t *a, int64_t h, int64_t w, int64_t out[2])
{
    out[0] = yk__window_out(h, a[0], a[2], a[4], a[6]);
    out[1] = yk__window_out(w, a[1], a[3], a[5], a[7]);
    if (out[0] < 0 || out[1] < 0)
        return yk__shape_bad(
            s, "a window of %lldx%lld, stride %lldx%lld, padding %lldx%lld, dilation %lldx%lld does not fit",
            (long long)a[0], (long long)a[1], (long long)a[2], (long long)a[3], (long long)a[4], (long long)a[5],
            (long long)a[6], (long long)a[7]);
    return true;
}

bool yk__infer_unfold(yk__shape *s)
{
    const yk_value *x = s->x[0];
    const int64_t *a = s->attr;
    int64_t out[2], rows;
    if (x->dims != 4)
        return yk__shape_bad(s, "needs [N, C, H, W]");
    if (!window_counts(s, a, x->dim[2], x->dim[3], out))
        return false;
    if (__builtin_mul_overflow(x->dim[1], a[0] * a[1], &rows))
        return yk__shape_bad(s, "is too large");
    yk__shape_out(s, 0, x->dtype, 3, (int64_t[]){x->dim[0], rows, out[0] * out[1]});
    return true;
}

bool yk__infer_fold(yk__shape *s)
{
    const yk_value *x = s->x[0];
    const int64_t *a = s->attr;
    int64_t out[2];
    if (!yk__shape_float(s, 0))
        return false;
    if (!s->dim || s->dims != 4 || s->dim[1] < 0 || s->dim[1] > INT32_MAX)
        return yk__shape_bad(s, "needs the shape [N, C, H, W] of its output");
    if (!window_counts(s, a, s->dim[2], s->dim[3], out))
        return false;
    if (x->dims != 3 || x->dim[0] != s->dim[0] || x->dim[2] != out[0] * out[1] ||
        x->dim[1] / a[0] / a[1] != s->dim[1] || x->dim[1] % (a[0] * a[1]))
        return yk__shape_bad(s, "needs [N, C*kh*kw, OH*OW] = [%lld, %lld*%lld*%lld, %lld*%lld]", (long long)s->dim[0],
                             (long long)s->dim[1], (long long)a[0], (long long)a[1], (long long)out[0],
                             (long long)out[1]);
    yk__shape_out(s, 0, yk__shape_dtype(s, x->dtype), 4, s->dim);
    return true;
}

bool yk__infer_dot(yk__shape *s)
{
    const yk_value *a = s->x[0], *b = s->x[1];
    const uint32_t r = a->dims;
    int64_t dim[3];
    if (!yk__shape_float(s, 0) || !same_types(s, 0, 1))
        return false;
    if (r < 2 || r > 3 || b->dims != r)
        return yk__shape_bad(s, "needs two matrices or two batches of them");
    if (a->dim[r - 1] != b->dim[r - 2])
        return yk__shape_bad(s, "the inner lengths %lld and %lld differ", (long long)a->dim[r - 1],
                             (long long)b->dim[r - 2]);
    if (r == 3 && a->dim[0] != b->dim[0])
        return yk__shape_bad(s, "the batches %lld and %lld differ", (long long)a->dim[0], (long long)b->dim[0]);
    dim[0] = a->dim[0];
    dim[r - 2] = a->dim[r - 2];
    dim[r - 1] = b->dim[r - 1];
    yk__shape_out(s, 0, yk__shape_dtype(s, a->dtype), r, dim);
    return true;
}

/* Refuses every call: yk__node_new builds maps, and map_good (check.c) checks them. */
bool yk__infer_map(yk__shape *s)
{
    return yk__shape_bad(s, "has a body, so it is built by node and checked with it");
}
