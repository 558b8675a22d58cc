/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Appends lines of StableHLO to a text: each function writes one operation, and gives back its result, a tensor, by number, type and
 * shape.
 *
 * function.c and hlo_primitives.c call it, in the thread that makes the program. After a failure (memory, too many dimensions) the text is
 * bad for good, so callers check once, at the end.
 */
#include "plugins/kit/hlo/tensor.h"

#include <inttypes.h>
#include <stdio.h>

const char *hlo_type_name(uint32_t type)
{
    static const char *const names[HLO_TYPES] = {[YK_F32] = "f32", [YK_F16] = "f16",   [YK_BF16] = "bf16", [YK_F64] = "f64",
                                                [YK_I32] = "i32", [YK_I64] = "i64",   [YK_U8] = "ui8",    [YK_BOOL] = "i1",
                                                [YK_I8] = "i8",   [HLO_U32] = "ui32", [HLO_U64] = "ui64"};
    return type < HLO_TYPES && names[type] ? names[type] : "?";
}

int64_t hlo_count(const hlo_tensor *t)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < t->dims; i++)
        n *= t->dim[i];
    return n;
}

hlo_tensor hlo_like(const hlo_tensor *t, uint32_t type)
{
    hlo_tensor r = *t;
    r.type = type;
    return r;
}

void hlo_put_type(hlo_text *p, const hlo_tensor *t)
{
    kit_text_add(&p->text, "tensor<");
    for (uint32_t i = 0; i < t->dims; i++)
        kit_text_add(&p->text, "%" PRId64 "x", t->dim[i]);
    kit_text_add(&p->text, "%s>", hlo_type_name(t->type));
}

static void put_list(hlo_text *p, const char *name, uint32_t n, const int64_t *v)
{
    kit_text_add(&p->text, "%s[", name);
    for (uint32_t i = 0; i < n; i++)
        kit_text_add(&p->text, "%s%" PRId64, i ? ", " : "", v ? v[i] : 0);
    kit_text_add(&p->text, "]");
}

static void put_axes(hlo_text *p, const char *name, uint32_t n, const uint32_t *v)
{
    int64_t wide[HLO_DIMS];
    for (uint32_t i = 0; i < n; i++)
        wide[i] = v[i];
    put_list(p, name, n, wide);
}

hlo_tensor hlo_begin(hlo_text *p, const char *op, hlo_tensor shape)
{
    shape.id = p->n++;
    if (shape.dims > HLO_DIMS)
        p->text.bad = true;
    kit_text_add(&p->text, "  %%%u = %s%s", shape.id, strchr(op, '.') ? "" : "stablehlo.", op);
    return shape;
}

static void put_end(hlo_text *p)
{
    kit_text_add(&p->text, "\n");
}

/* " : (A) -> R" */
static void put_from_to(hlo_text *p, const hlo_tensor *a, const hlo_tensor *r)
{
    kit_text_add(&p->text, " : (");
    hlo_put_type(p, a);
    kit_text_add(&p->text, ") -> ");
    hlo_put_type(p, r);
    put_end(p);
}

/* " : (A, B) -> R" */
static void put_two_to(hlo_text *p, const hlo_tensor *a, const hlo_tensor *b, const hlo_tensor *r)
{
    kit_text_add(&p->text, " : (");
    hlo_put_type(p, a);
    kit_text_add(&p->text, ", ");
    hlo_put_type(p, b);
    kit_text_add(&p->text, ") -> ");
    hlo_put_type(p, r);
    put_end(p);
}

static hlo_tensor put_constant(hlo_text *p, hlo_tensor shape, const char *value)
{
    const hlo_tensor r = hlo_begin(p, "constant", shape);
    kit_text_add(&p->text, " dense<%s> : ", value);
    hlo_put_type(p, &r);
    put_end(p);
    return r;
}

hlo_tensor hlo_integer(hlo_text *p, hlo_tensor shape, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    return put_constant(p, shape, shape.type != YK_BOOL ? text : value ? "true" : "false");
}

hlo_tensor hlo_number(hlo_text *p, hlo_tensor shape, double value)
{
    const float f = (float)value;
    char text[32];
    uint32_t bits;
    if (shape.type != YK_F32 && shape.type != YK_F16 && shape.type != YK_BF16)
        return hlo_integer(p, shape, (int64_t)value);
    if (shape.type != YK_F32)
        return hlo_convert(p, hlo_number(p, hlo_like(&shape, YK_F32), value), shape.type);
    memcpy(&bits, &f, sizeof bits);
    snprintf(text, sizeof text, "0x%08" PRIX32, bits);
    return put_constant(p, shape, text);
}

hlo_tensor hlo_unary(hlo_text *p, const char *op, hlo_tensor a)
{
    const hlo_tensor r = hlo_begin(p, op, a);
    kit_text_add(&p->text, " %%%u : ", a.id);
    hlo_put_type(p, &r);
    if (!strncmp(op, "chlo.", 5)) {
        kit_text_add(&p->text, " -> ");
        hlo_put_type(p, &r);
    }
    put_end(p);
    return r;
}

hlo_tensor hlo_binary(hlo_text *p, const char *op, hlo_tensor a, hlo_tensor b)
{
    const hlo_tensor r = hlo_begin(p, op, a);
    kit_text_add(&p->text, " %%%u, %%%u : ", a.id, b.id);
    hlo_put_type(p, &r);
    put_end(p);
    return r;
}

hlo_tensor hlo_compare(hlo_text *p, const char *how, hlo_tensor a, hlo_tensor b)
{
    const bool real = a.type == YK_F32 || a.type == YK_F16 || a.type == YK_BF16;
    const bool natural = a.type == YK_BOOL || a.type == YK_U8 || a.type >= HLO_U32;
    const hlo_tensor r = hlo_begin(p, "compare", hlo_like(&a, YK_BOOL));
    kit_text_add(&p->text, " %s, %%%u, %%%u, %s", how, a.id, b.id, real ? "FLOAT" : natural ? "UNSIGNED" : "SIGNED");
    put_two_to(p, &a, &b, &r);
    return r;
}

hlo_tensor hlo_select(hlo_text *p, hlo_tensor c, hlo_tensor a, hlo_tensor b)
{
    const hlo_tensor r = hlo_begin(p, "select", a);
    kit_text_add(&p->text, " %%%u, %%%u, %%%u : ", c.id, a.id, b.id);
    hlo_put_type(p, &c);
    kit_text_add(&p->text, ", ");
    hlo_put_type(p, &r);
    put_end(p);
    return r;
}

hlo_tensor hlo_convert(hlo_text *p, hlo_tensor a, uint32_t type)
{
    if (a.type == type)
        return a;
    const hlo_tensor r = hlo_begin(p, "convert", hlo_like(&a, type));
    kit_text_add(&p->text, " %%%u", a.id);
    put_from_to(p, &a, &r);
    return r;
}

hlo_tensor hlo_iota(hlo_text *p, hlo_tensor shape, uint32_t axis)
{
    const hlo_tensor r = hlo_begin(p, "iota", shape);
    kit_text_add(&p->text, " dim = %u : ", axis);
    hlo_put_type(p, &r);
    put_end(p);
    return r;
}

hlo_tensor hlo_reshape(hlo_text *p, hlo_tensor a, uint32_t dims, const int64_t *dim)
{
    hlo_tensor r = {.type = a.type, .dims = dims};
    bool same = dims == a.dims;
    for (uint32_t i = 0; i < dims && i < HLO_DIMS; i++) {
        r.dim[i] = dim[i];
        same = same && dim[i] == a.dim[i];
    }
    if (same)
        return a;
    r = hlo_begin(p, "reshape", r);
    kit_text_add(&p->text, " %%%u", a.id);
    put_from_to(p, &a, &r);
    return r;
}

hlo_tensor hlo_transpose(hlo_text *p, hlo_tensor a, const uint32_t *axis)
{
    hlo_tensor r = a;
    bool same = true;
    for (uint32_t i = 0; i < a.dims; i++) {
        r.dim[i] = a.dim[axis[i]];
        same = same && axis[i] == i;
    }
    if (same)
        return a;
    r = hlo_begin(p, "transpose", r);
    kit_text_add(&p->text, " %%%u", a.id);
    put_axes(p, ", dims = ", a.dims, axis);
    put_from_to(p, &a, &r);
    return r;
}

hlo_tensor hlo_broadcast(hlo_text *p, hlo_tensor a, const uint32_t *axis, uint32_t dims, const int64_t *dim)
{
    hlo_tensor r = {.type = a.type, .dims = dims};
    for (uint32_t i = 0; i < dims; i++)
        r.dim[i] = dim[i];
    r = hlo_begin(p, "broadcast_in_dim", r);
    kit_text_add(&p->text, " %%%u", a.id);
    put_axes(p, ", dims = ", a.dims, axis);
    put_from_to(p, &a, &r);
    return r;
}

hlo_tensor hlo_slice(hlo_text *p, hlo_tensor a, const int64_t *begin, const int64_t *end, const int64_t *step)
{
    hlo_tensor r = a;
    bool same = true;
    for (uint32_t i = 0; i < a.dims; i++) {
        const int64_t by = step ? step[i] : 1;
        r.dim[i] = (end[i] - begin[i] + by - 1) / by;
        same = same && !begin[i] && end[i] == a.dim[i] && by == 1;
    }
    if (same)
        return a;
    r = hlo_begin(p, "slice", r);
    kit_text_add(&p->text, " %%%u [", a.id);
    for (uint32_t i = 0; i < a.dims; i++)
        kit_text_add(&p->text, "%s%" PRId64 ":%" PRId64 ":%" PRId64, i ? ", " : "", begin[i], end[i], step ? step[i] : 1);
    kit_text_add(&p->text, "]");
    put_from_to(p, &a, &r);
    return r;
}

hlo_tensor hlo_pad(hlo_text *p, hlo_tensor a, hlo_tensor value, const int64_t *low, const int64_t *high, const int64_t *inner)
{
    hlo_tensor r = a;
    bool same = true;
    for (uint32_t i = 0; i < a.dims; i++) {
        r.dim[i] = low[i] + a.dim[i] + (inner ? inner[i] * (a.dim[i] - 1) : 0) + high[i];
        same = same && !low[i] && !high[i] && (!inner || !inner[i]);
    }
    if (same)
        return a;
    r = hlo_begin(p, "pad", r);
    kit_text_add(&p->text, " %%%u, %%%u", a.id, value.id);
    put_list(p, ", low = ", a.dims, low);
    put_list(p, ", high = ", a.dims, high);
    put_list(p, ", interior = ", a.dims, inner);
    put_two_to(p, &a, &value, &r);
    return r;
}

hlo_tensor hlo_concat(hlo_text *p, uint32_t n, const hlo_tensor *a, uint32_t axis)
{
    hlo_tensor r = a[0];
    for (uint32_t i = 1; i < n; i++)
        r.dim[axis] += a[i].dim[axis];
    if (n == 1)
        return a[0];
    r = hlo_begin(p, "concatenate", r);
    for (uint32_t i = 0; i < n; i++)
        kit_text_add(&p->text, "%s%%%u", i ? ", " : " ", a[i].id);
    kit_text_add(&p->text, ", dim = %u : (", axis);
    for (uint32_t i = 0; i < n; i++) {
        kit_text_add(&p->text, "%s", i ? ", " : "");
        hlo_put_type(p, &a[i]);
    }
    kit_text_add(&p->text, ") -> ");
    hlo_put_type(p, &r);
    put_end(p);
    return r;
}

hlo_tensor hlo_reduce(hlo_text *p, const char *op, hlo_tensor a, hlo_tensor first, uint64_t mask)
{
    hlo_tensor r = {.type = a.type};
    int64_t axes[HLO_DIMS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < a.dims; i++)
        if (mask >> i & 1)
            axes[n++] = i;
        else
            r.dim[r.dims++] = a.dim[i];
    if (!n)
        return a;
    r = hlo_begin(p, "reduce", r);
    kit_text_add(&p->text, "(%%%u init: %%%u) applies stablehlo.%s across ", a.id, first.id, op);
    put_list(p, "dimensions = ", n, axes);
    put_two_to(p, &a, &first, &r);
    return r;
}

hlo_tensor hlo_dot(hlo_text *p, hlo_tensor a, hlo_tensor b, uint32_t batch, uint32_t ca, uint32_t cb, uint32_t type)
{
    hlo_tensor r = {.type = type};
    int64_t axes[HLO_DIMS];
    for (uint32_t i = 0; i < a.dims; i++)
        if (i != ca)
            r.dim[r.dims++] = a.dim[i];
    for (uint32_t i = batch; i < b.dims; i++)
        if (i != cb)
            r.dim[r.dims++] = b.dim[i];
    for (uint32_t i = 0; i < batch; i++)
        axes[i] = i;
    r = hlo_begin(p, "dot_general", r);
    kit_text_add(&p->text, " %%%u, %%%u", a.id, b.id);
    if (batch) {
        put_list(p, ", batching_dims = ", batch, axes);
        put_list(p, " x ", batch, axes);
    }
    kit_text_add(&p->text, ", contracting_dims = [%u] x [%u], precision = [HIGHEST, HIGHEST]", ca, cb);
    put_two_to(p, &a, &b, &r);
    return r;
}
