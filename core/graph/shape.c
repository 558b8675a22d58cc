/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shape inference: an operation's result shapes and types from its operands. This file has the part common to all operations.
 * shape_prim.c, shape_comp.c and round8.c have one function for each group of alike operations. The builder (graph_node.c) and the checker
 * (check.c) both call yk__infer. It writes its yk__shape alone: n_out, out, alias, and err after a failure. Any thread.
 */
#include "core/graph/graph_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool yk__shape_bad(yk__shape *s, const char *fmt, ...)
{
    char text[256], list[384], one[96];
    size_t at = 0;
    va_list ap;
    if (s->err->status)
        return false;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    list[0] = 0;
    for (uint32_t i = 0; i < s->n_in && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "",
                               yk__value_shape_text(s->x[i], one, sizeof one));
    yk__fail(s->err, YK_E_ARG, "%s(%s): %s", yk__op_info_of(s->op)->name, list, text);
    return false;
}

static yk__infer_fn *const infers[YK_OP_COUNT] = {
#define X(e, infer, body, eval, rule, layout, floats, map, cheap, linear, ranks, back) [YK_OP_##e] = yk__infer_##infer,
    YK_IMPL_TABLE(X)
#undef X
};

bool yk__infer(yk__shape *s)
{
    const yk__op_info *info = yk__op_info_of(s->op);
    if (s->n_in < info->in_min || s->n_in > info->in_max)
        return yk__shape_bad(s, "has %u operands; %u to %u are needed", s->n_in, info->in_min, info->in_max);
    if (s->n_attr != info->n_attr)
        return yk__shape_bad(s, "has %u attributes; %u are needed", s->n_attr, info->n_attr);
    s->n_out = info->n_out;
    for (uint32_t i = 0; i < YK_MAX_OUTPUTS; i++)
        s->alias[i] = YK_NONE;
    return infers[s->op](s);
}

void yk__shape_out(yk__shape *s, uint32_t i, uint32_t dtype, uint32_t dims, const int64_t *dim)
{
    s->out[i].dtype = (uint8_t)dtype;
    s->out[i].dims = (uint8_t)dims;
    memcpy(s->out[i].dim, dim, dims * sizeof *dim);
}

bool yk__shape_is(yk__shape *s, uint32_t operand, uint32_t dtype, uint32_t dims, const int64_t *dim)
{
    char want[160];
    yk_value v;
    const yk_value *x = s->x[operand];
    v.dtype = (uint8_t)dtype;
    v.dims = (uint8_t)dims;
    memcpy(v.dim, dim, dims * sizeof *dim);
    if (x->dtype == dtype && yk__value_same_shape(x, &v))
        return true;
    return yk__shape_bad(s, "operand %u has to be %s", operand, yk__value_shape_text(&v, want, sizeof want));
}

bool yk__shape_float(yk__shape *s, uint32_t operand)
{
    if (yk__dtype_is_float(s->x[operand]->dtype))
        return true;
    return yk__shape_bad(s, "operand %u has to be of a float type", operand);
}

/* The operand has to be a statistic: f32 [n], or f64 [n] beside values of f64. like: the values' type. */
bool yk__shape_stat(yk__shape *s, uint32_t operand, uint32_t like, int64_t n)
{
    uint32_t dtype = s->x[operand]->dtype == YK_F64 && like == YK_F64 ? YK_F64 : YK_F32;
    return yk__shape_is(s, operand, dtype, 1, &n);
}

uint32_t yk__shape_dtype(yk__shape *s, uint32_t own)
{
    return s->want_dtype == YK_F32 && yk__dtype_is_float(own) ? YK_F32 : own;
}

int64_t yk__window_out(int64_t in, int64_t k, int64_t stride, int64_t pad, int64_t dil)
{
    const int64_t most = 1 << 28; /* products of two results stay below 2^63 */
    int64_t span;
    if (k < 1 || stride < 1 || dil < 1 || pad < 0 || in < 0 || k > most || stride > most || dil > most || pad > most ||
        in > most)
        return -1;
    span = dil * (k - 1) + 1;
    return in + 2 * pad < span ? -1 : (in + 2 * pad - span) / stride + 1;
}
