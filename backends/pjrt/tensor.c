/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of StableHLO; see tensor.h. */
#include "backends/pjrt/tensor.h"

#include <inttypes.h>
#include <stdio.h>

const char *pj_type_name(uint32_t type)
{
    static const char *const names[PJ_TYPES] = {[YK_F32] = "f32", [YK_F16] = "f16",   [YK_BF16] = "bf16", [YK_F64] = "f64",
                                                [YK_I32] = "i32", [YK_I64] = "i64",   [YK_U8] = "ui8",    [YK_BOOL] = "i1",
                                                [YK_I8] = "i8",   [PJ_U32] = "ui32", [PJ_U64] = "ui64"};
    return type < PJ_TYPES && names[type] ? names[type] : "?";
}

int64_t pj_count(const pj_tensor *t)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < t->dims; i++)
        n *= t->dim[i];
    return n;
}

pj_tensor pj_like(const pj_tensor *t, uint32_t type)
{
    pj_tensor r = *t;
    r.type = type;
    return r;
}

void pj_put_type(pj_text *p, const pj_tensor *t)
{
    kit_text_add(&p->text, "tensor<");
    for (uint32_t i = 0; i < t->dims; i++)
        kit_text_add(&p->text, "%" PRId64 "x", t->dim[i]);
    kit_text_add(&p->text, "%s>", pj_type_name(t->type));
}

static void put_list(pj_text *p, const char *name, uint32_t n, const int64_t *v)
{
    kit_text_add(&p->text, "%s[", name);
    for (uint32_t i = 0; i < n; i++)
        kit_text_add(&p->text, "%s%" PRId64, i ? ", " : "", v ? v[i] : 0);
    kit_text_add(&p->text, "]");
}

static void put_axes(pj_text *p, const char *name, uint32_t n, const uint32_t *v)
{
    int64_t wide[PJ_DIMS];
    for (uint32_t i = 0; i < n; i++)
        wide[i] = v[i];
    put_list(p, name, n, wide);
}

pj_tensor pj_begin(pj_text *p, const char *op, pj_tensor shape)
{
    shape.id = p->n++;
    if (shape.dims > PJ_DIMS)
        p->text.bad = true;
    kit_text_add(&p->text, "  %%%u = %s%s", shape.id, strchr(op, '.') ? "" : "stablehlo.", op);
    return shape;
}

static void put_end(pj_text *p)
{
    kit_text_add(&p->text, "\n");
}

/* " : (A) -> R" */
static void put_from_to(pj_text *p, const pj_tensor *a, const pj_tensor *r)
{
    kit_text_add(&p->text, " : (");
    pj_put_type(p, a);
    kit_text_add(&p->text, ") -> ");
    pj_put_type(p, r);
    put_end(p);
}

/* " : (A, B) -> R" */
static void put_two_to(pj_text *p, const pj_tensor *a, const pj_tensor *b, const pj_tensor *r)
{
    kit_text_add(&p->text, " : (");
    pj_put_type(p, a);
    kit_text_add(&p->text, ", ");
    pj_put_type(p, b);
    kit_text_add(&p->text, ") -> ");
    pj_put_type(p, r);
    put_end(p);
}

static pj_tensor put_constant(pj_text *p, pj_tensor shape, const char *value)
{
    const pj_tensor r = pj_begin(p, "constant", shape);
    kit_text_add(&p->text, " dense<%s> : ", value);
    pj_put_type(p, &r);
    put_end(p);
    return r;
}

pj_tensor pj_integer(pj_text *p, pj_tensor shape, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    return put_constant(p, shape, shape.type != YK_BOOL ? text : value ? "true" : "false");
}

pj_tensor pj_number(pj_text *p, pj_tensor shape, double value)
{
    const float f = (float)value;
    char text[32];
    uint32_t bits;
    if (shape.type != YK_F32 && shape.type != YK_F16 && shape.type != YK_BF16)
        return pj_integer(p, shape, (int64_t)value);
    if (shape.type != YK_F32)
        return pj_convert(p, pj_number(p, pj_like(&shape, YK_F32), value), shape.type);
    memcpy(&bits, &f, sizeof bits);
    snprintf(text, sizeof text, "0x%08" PRIX32, bits);
    return put_constant(p, shape, text);
}

pj_tensor pj_unary(pj_text *p, const char *op, pj_tensor a)
{
    const pj_tensor r = pj_begin(p, op, a);
    kit_text_add(&p->text, " %%%u : ", a.id);
    pj_put_type(p, &r);
    if (!strncmp(op, "chlo.", 5)) {
        kit_text_add(&p->text, " -> ");
        pj_put_type(p, &r);
    }
    put_end(p);
    return r;
}

pj_tensor pj_binary(pj_text *p, const char *op, pj_tensor a, pj_tensor b)
{
    const pj_tensor r = pj_begin(p, op, a);
    kit_text_add(&p->text, " %%%u, %%%u : ", a.id, b.id);
    pj_put_type(p, &r);
    put_end(p);
    return r;
}

pj_tensor pj_compare(pj_text *p, const char *how, pj_tensor a, pj_tensor b)
{
    const bool real = a.type == YK_F32 || a.type == YK_F16 || a.type == YK_BF16;
    const bool natural = a.type == YK_BOOL || a.type == YK_U8 || a.type >= PJ_U32;
    const pj_tensor r = pj_begin(p, "compare", pj_like(&a, YK_BOOL));
    kit_text_add(&p->text, " %s, %%%u, %%%u, %s", how, a.id, b.id, real ? "FLOAT" : natural ? "UNSIGNED" : "SIGNED");
    put_two_to(p, &a, &b, &r);
    return r;
}

pj_tensor pj_select(pj_text *p, pj_tensor c, pj_tensor a, pj_tensor b)
{
    const pj_tensor r = pj_begin(p, "select", a);
    kit_text_add(&p->text, " %%%u, %%%u, %%%u : ", c.id, a.id, b.id);
    pj_put_type(p, &c);
    kit_text_add(&p->text, ", ");
    pj_put_type(p, &r);
    put_end(p);
    return r;
}

pj_tensor pj_convert(pj_text *p, pj_tensor a, uint32_t type)
{
    if (a.type == type)
        return a;
    const pj_tensor r = pj_begin(p, "convert", pj_like(&a, type));
    kit_text_add(&p->text, " %%%u", a.id);
    put_from_to(p, &a, &r);
    return r;
}

pj_tensor pj_iota(pj_text *p, pj_tensor shape, uint32_t axis)
{
    const pj_tensor r = pj_begin(p, "iota", shape);
    kit_text_add(&p->text, " dim = %u : ", axis);
    pj_put_type(p, &r);
    put_end(p);
    return r;
}

pj_tensor pj_reshape(pj_text *p, pj_tensor a, uint32_t dims, const int64_t *dim)
{
    pj_tensor r = {.type = a.type, .dims = dims};
    bool same = dims == a.dims;
    for (uint32_t i = 0; i < dims && i < PJ_DIMS; i++) {
        r.dim[i] = dim[i];
        same = same && dim[i] == a.dim[i];
    }
    if (same)
        return a;
    r = pj_begin(p, "reshape", r);
    kit_text_add(&p->text, " %%%u", a.id);
    put_from_to(p, &a, &r);
    return r;
}

pj_tensor pj_transpose(pj_text *p, pj_tensor a, const uint32_t *axis)
{
    pj_tensor r = a;
    bool same = true;
    for (uint32_t i = 0; i < a.dims; i++) {
        r.dim[i] = a.dim[axis[i]];
        same = same && axis[i] == i;
    }
    if (same)
        return a;
    r = pj_begin(p, "transpose", r);
    kit_text_add(&p->text, " %%%u", a.id);
    put_axes(p, ", dims = ", a.dims, axis);
    put_from_to(p, &a, &r);
    return r;
}

pj_tensor pj_broadcast(pj_text *p, pj_tensor a, const uint32_t *axis, uint32_t dims, const int64_t *dim)
{
    pj_tensor r = {.type = a.type, .dims = dims};
    for (uint32_t i = 0; i < dims; i++)
        r.dim[i] = dim[i];
    r = pj_begin(p, "broadcast_in_dim", r);
    kit_text_add(&p->text, " %%%u", a.id);
    put_axes(p, ", dims = ", a.dims, axis);
    put_from_to(p, &a, &r);
    return r;
}

pj_tensor pj_slice(pj_text *p, pj_tensor a, const int64_t *begin, const int64_t *end, const int64_t *step)
{
    pj_tensor r = a;
    bool same = true;
    for (uint32_t i = 0; i < a.dims; i++) {
        const int64_t by = step ? step[i] : 1;
        r.dim[i] = (end[i] - begin[i] + by - 1) / by;
        same = same && !begin[i] && end[i] == a.dim[i] && by == 1;
    }
    if (same)
        return a;
    r = pj_begin(p, "slice", r);
    kit_text_add(&p->text, " %%%u [", a.id);
    for (uint32_t i = 0; i < a.dims; i++)
        kit_text_add(&p->text, "%s%" PRId64 ":%" PRId64 ":%" PRId64, i ? ", " : "", begin[i], end[i], step ? step[i] : 1);
    kit_text_add(&p->text, "]");
    put_from_to(p, &a, &r);
    return r;
}

pj_tensor pj_pad(pj_text *p, pj_tensor a, pj_tensor value, const int64_t *low, const int64_t *high, const int64_t *inner)
{
    pj_tensor r = a;
    bool same = true;
    for (uint32_t i = 0; i < a.dims; i++) {
        r.dim[i] = low[i] + a.dim[i] + (inner ? inner[i] * (a.dim[i] - 1) : 0) + high[i];
        same = same && !low[i] && !high[i] && (!inner || !inner[i]);
    }
    if (same)
        return a;
    r = pj_begin(p, "pad", r);
    kit_text_add(&p->text, " %%%u, %%%u", a.id, value.id);
    put_list(p, ", low = ", a.dims, low);
    put_list(p, ", high = ", a.dims, high);
    put_list(p, ", interior = ", a.dims, inner);
    put_two_to(p, &a, &value, &r);
    return r;
}

pj_tensor pj_concat(pj_text *p, uint32_t n, const pj_tensor *a, uint32_t axis)
{
    pj_tensor r = a[0];
    for (uint32_t i = 1; i < n; i++)
        r.dim[axis] += a[i].dim[axis];
    if (n == 1)
        return a[0];
    r = pj_begin(p, "concatenate", r);
    for (uint32_t i = 0; i < n; i++)
        kit_text_add(&p->text, "%s%%%u", i ? ", " : " ", a[i].id);
    kit_text_add(&p->text, ", dim = %u : (", axis);
    for (uint32_t i = 0; i < n; i++) {
        kit_text_add(&p->text, "%s", i ? ", " : "");
        pj_put_type(p, &a[i]);
    }
    kit_text_add(&p->text, ") -> ");
    pj_put_type(p, &r);
    put_end(p);
    return r;
}

pj_tensor pj_reduce(pj_text *p, const char *op, pj_tensor a, pj_tensor first, uint64_t mask)
{
    pj_tensor r = {.type = a.type};
    int64_t axes[PJ_DIMS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < a.dims; i++)
        if (mask >> i & 1)
            axes[n++] = i;
        else
            r.dim[r.dims++] = a.dim[i];
    if (!n)
        return a;
    r = pj_begin(p, "reduce", r);
    kit_text_add(&p->text, "(%%%u init: %%%u) applies stablehlo.%s across ", a.id, first.id, op);
    put_list(p, "dimensions = ", n, axes);
    put_two_to(p, &a, &first, &r);
    return r;
}

pj_tensor pj_dot(pj_text *p, pj_tensor a, pj_tensor b, uint32_t batch, uint32_t ca, uint32_t cb, uint32_t type)
{
    pj_tensor r = {.type = type};
    int64_t axes[PJ_DIMS];
    for (uint32_t i = 0; i < a.dims; i++)
        if (i != ca)
            r.dim[r.dims++] = a.dim[i];
    for (uint32_t i = batch; i < b.dims; i++)
        if (i != cb)
            r.dim[r.dims++] = b.dim[i];
    for (uint32_t i = 0; i < batch; i++)
        axes[i] = i;
    r = pj_begin(p, "dot_general", r);
    kit_text_add(&p->text, " %%%u, %%%u", a.id, b.id);
    if (batch) {
        put_list(p, ", batching_dims = ", batch, axes);
        put_list(p, " x ", batch, axes);
    }
    kit_text_add(&p->text, ", contracting_dims = [%u] x [%u], precision = [HIGHEST, HIGHEST]", ca, cb);
    put_two_to(p, &a, &b, &r);
    return r;
}
