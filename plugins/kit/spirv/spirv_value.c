/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of a kernel in SPIR-V: loads and stores, C's conversions, operators. The readers of expressions and statements call it; one
 * thread per translation.
 *
 * Arithmetic of constants is done here, so that sizes of arrays are known. Floating-point results are never contracted or reordered:
 * elementary functions rest on roundings (kernels/math.kc).
 */
#include "plugins/kit/spirv/compile.h"

spv_item spv_value(uint32_t type, uint32_t id)
{
    return (spv_item){.form = SPV_VALUE, .type = (uint8_t)type, .id = id};
}

/* A constant of whole type, wrapped as the type does. */
spv_item spv_number(uint32_t type, int64_t number)
{
    spv_item v = {.form = SPV_VALUE, .type = (uint8_t)type, .constant = true, .number = number};
    if (type == SPV_I32)
        v.number = (int32_t)(uint32_t)number;
    else if (type == SPV_U32)
        v.number = (uint32_t)number;
    return v;
}

uint32_t spv_value_id(spv_compile *c, const spv_item *v)
{
    if (v->form != SPV_VALUE)
        spv_fail(c, "a value is expected here, not a pointer or a function without a result");
    return v->constant ? spv_constant_id(c, v->type, (uint64_t)v->number) : v->id;
}

static spv_item unary_op(spv_compile *c, uint32_t op, uint32_t type, uint32_t a)
{
    const uint32_t id = spv_id(c);
    SPV_CODE(c, op, spv_type_id(c, type), id, a);
    return spv_value(type, id);
}

static spv_item binary_op(spv_compile *c, uint32_t op, uint32_t type, uint32_t a, uint32_t b)
{
    const uint32_t id = spv_id(c);
    SPV_CODE(c, op, spv_type_id(c, type), id, a, b);
    if (type == SPV_F32)
        SPV_OP(c, &c->decorations, OpDecorate, id, DecorNoContraction);
    return spv_value(type, id);
}

/* ---- Conversions ---- */

static spv_item truth_of(spv_compile *c, const spv_item *v)
{
    if (v->type == SPV_F32)
        return binary_op(c, OpFUnordNotEqual, SPV_BOOL, v->id, spv_constant_id(c, SPV_F32, 0));
    return binary_op(c, OpINotEqual, SPV_BOOL, spv_value_id(c, v), spv_constant_id(c, v->type, 0));
}

static spv_item truth_number(spv_compile *c, const spv_item *v, uint32_t type)
{
    const uint64_t one = type == SPV_F32 ? 0x3f800000u : 1, id = spv_id(c);
    SPV_CODE(c, OpSelect, spv_type_id(c, type), (uint32_t)id, v->id, spv_constant_id(c, type, one), spv_constant_id(c, type, 0));
    return spv_value(type, (uint32_t)id);
}

/* Between 32 and 64 bits, or of one width. Unsigned widening and narrowing give unsigned types. */
static spv_item whole_convert(spv_compile *c, spv_item v, uint32_t type)
{
    const bool from64 = spv_type_bytes(v.type) == 8, to64 = spv_type_bytes(type) == 8;
    if (v.constant)
        return spv_number(type, v.number);
    if (from64 != to64 && to64 && v.type == SPV_I32)
        return unary_op(c, OpSConvert, type, v.id);
    if (from64 != to64)
        v = unary_op(c, OpUConvert, to64 ? SPV_U64 : SPV_U32, v.id);
    return v.type == type ? v : unary_op(c, OpBitcast, type, v.id);
}

static spv_item float_from(spv_compile *c, const spv_item *v)
{
    const float number = (float)v->number;
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    if (v->constant && !(v->type == SPV_U64 && v->number < 0))
        return spv_value(SPV_F32, spv_constant_id(c, SPV_F32, bits));
    return unary_op(c, v->type == SPV_I32 || v->type == SPV_I64 ? OpConvertSToF : OpConvertUToF, SPV_F32, spv_value_id(c, v));
}

spv_item spv_convert(spv_compile *c, spv_item v, uint32_t type)
{
    if (v.form != SPV_VALUE)
        spv_value_id(c, &v);
    if (v.type == type || c->failed)
        return v;
    if (spv_type_matrix(v.type) || spv_type_matrix(type)) {
        spv_fail(c, "a matrix is no number, nor one of another kind");
        return v;
    }
    if (type == SPV_BOOL)
        return truth_of(c, &v);
    if (type == SPV_U8 || type == SPV_U16) { /* a cast: arithmetic then uses an int */
        v = spv_convert(c, v, SPV_I32);
        return spv_binary(c, '&', v, spv_number(SPV_I32, type == SPV_U8 ? 0xff : 0xffff));
    }
    if (v.type == SPV_BOOL)
        return truth_number(c, &v, type);
    if (type == SPV_F32)
        return float_from(c, &v);
    if (v.type == SPV_F32)
        return unary_op(c, type == SPV_I32 || type == SPV_I64 ? OpConvertFToS : OpConvertFToU, type, v.id);
    return whole_convert(c, v, type);
}

/* ---- Memory ---- */

uint32_t spv_place(spv_compile *c, const spv_item *e, uint32_t *type)
{
    const uint32_t space = e->array ? e->array->space : SPV_GLOBAL, id = spv_id(c);
    *type = space == SPV_LOCAL ? SPV_U32 : e->type;
    const uint32_t pointer = spv_pointer_id(c, space, *type);
    if (space == SPV_GLOBAL)
        SPV_CODE(c, OpConvertUToPtr, pointer, id, e->id);
    else
        SPV_CODE(c, OpAccessChain, pointer, id, e->array->variable, e->id ? e->id : spv_constant_id(c, SPV_I32, 0));
    return id;
}

static spv_item element_load(spv_compile *c, const spv_item *e)
{
    uint32_t type;
    const uint32_t place = spv_place(c, e, &type), id = spv_id(c);
    if (e->array && e->array->space == SPV_LOCAL && c->uses_matrices)
        SPV_CODE(c, OpLoad, spv_type_id(c, type), id, place, MemoryNonPrivate);
    else if (e->array)
        SPV_CODE(c, OpLoad, spv_type_id(c, type), id, place);
    else
        SPV_CODE(c, OpLoad, spv_type_id(c, type), id, place, MemoryAligned, spv_type_bytes(type));
    if (!e->array || e->array->space == SPV_LOCAL)
        c->effects++; /* there may be no such memory */
    if (type == SPV_U8 || type == SPV_U16)
        return spv_convert(c, unary_op(c, OpUConvert, SPV_U32, id), SPV_I32);
    return type == e->type ? spv_value(type, id) : unary_op(c, OpBitcast, e->type, id);
}

spv_item spv_load(spv_compile *c, spv_item item)
{
    const uint32_t id = item.form == SPV_VARIABLE || item.form == SPV_POINTER_VARIABLE ? spv_id(c) : 0;
    if (item.form == SPV_ELEMENT)
        return element_load(c, &item);
    if (item.form == SPV_VARIABLE) {
        SPV_CODE(c, OpLoad, spv_type_id(c, item.type), id, item.id);
        return spv_value(item.type, id);
    }
    if (item.form == SPV_POINTER_VARIABLE) {
        SPV_CODE(c, OpLoad, spv_type_id(c, SPV_U64), id, item.id);
        item.form = SPV_POINTER;
        item.id = id;
    }
    return item;
}

static void element_store(spv_compile *c, const spv_item *to, spv_item v)
{
    uint32_t type, value;
    const uint32_t place = spv_place(c, to, &type);
    if (to->type == SPV_U8 || to->type == SPV_U16) {
        v = spv_convert(c, v, SPV_U32);
        value = unary_op(c, OpUConvert, to->type, spv_value_id(c, &v)).id;
    } else {
        v = spv_convert(c, v, to->type);
        value = type == to->type ? spv_value_id(c, &v) : unary_op(c, OpBitcast, type, spv_value_id(c, &v)).id;
    }
    if (to->array && to->array->space == SPV_LOCAL && c->uses_matrices)
        SPV_CODE(c, OpStore, place, value, MemoryNonPrivate);
    else if (to->array)
        SPV_CODE(c, OpStore, place, value);
    else
        SPV_CODE(c, OpStore, place, value, MemoryAligned, spv_type_bytes(type));
}

void spv_store(spv_compile *c, const spv_item *to, spv_item v)
{
    c->effects++;
    if (to->form == SPV_ELEMENT) {
        element_store(c, to, v);
    } else if (to->form == SPV_VARIABLE) {
        v = spv_convert(c, v, to->type);
        SPV_CODE(c, OpStore, to->id, spv_value_id(c, &v));
    } else if (to->form == SPV_POINTER_VARIABLE && v.form == SPV_POINTER && !v.array) {
        SPV_CODE(c, OpStore, to->id, v.id);
    } else {
        spv_fail(c, "the left side of an assignment cannot be assigned to");
    }
}

/* ---- Pointers ---- */

static spv_item global_moved(spv_compile *c, spv_item pointer, spv_item index)
{
    index = spv_convert(c, spv_convert(c, index, SPV_I64), SPV_U64);
    index = spv_binary(c, '*', index, spv_number(SPV_U64, spv_type_bytes(pointer.type)));
    if (!index.constant || index.number)
        pointer.id = binary_op(c, OpIAdd, SPV_U64, pointer.id, spv_value_id(c, &index)).id;
    return pointer;
}

/* One dimension further into an array. */
static spv_item array_moved(spv_compile *c, spv_item pointer, spv_item index)
{
    const spv_array *a = pointer.array;
    spv_item at = spv_convert(c, index, SPV_I32);
    if (pointer.id)
        at = spv_binary(c, '+', spv_binary(c, '*', spv_value(SPV_I32, pointer.id), spv_number(SPV_I32, a->dim[pointer.depth])), at);
    pointer.id = spv_value_id(c, &at);
    pointer.depth++;
    return pointer;
}

spv_item spv_element(spv_compile *c, spv_item pointer, spv_item index)
{
    if (pointer.form != SPV_POINTER || (!pointer.array && pointer.space != SPV_GLOBAL) || index.form != SPV_VALUE) {
        spv_fail(c, "only pointers and arrays are indexed, by whole numbers");
        return pointer;
    }
    if (!pointer.array)
        pointer = global_moved(c, pointer, index);
    else
        pointer = array_moved(c, pointer, index);
    if (!pointer.array || pointer.depth == pointer.array->n_dim)
        pointer.form = SPV_ELEMENT;
    return pointer;
}

spv_item spv_target(spv_compile *c, spv_item pointer)
{
    if (pointer.form == SPV_POINTER && !pointer.array && pointer.space == SPV_PRIVATE) {
        pointer.form = SPV_VARIABLE;
        return pointer;
    }
    return spv_element(c, pointer, spv_number(SPV_I32, 0));
}

/* ---- Operators ---- */

uint32_t spv_common_type(const spv_item *a, const spv_item *b)
{
    const uint32_t type = a->type > b->type ? a->type : b->type;
    return type < SPV_I32 ? SPV_I32 : type;
}

/* False: not of constants. */
static bool number_fold(uint32_t punct, uint32_t type, int64_t a, int64_t b, int64_t *out)
{
    const bool is_signed = type == SPV_I32 || type == SPV_I64;
    switch (punct) {
    case '+':
        *out = (int64_t)((uint64_t)a + (uint64_t)b);
        return true;
    case '-':
        *out = (int64_t)((uint64_t)a - (uint64_t)b);
        return true;
    case '*':
        *out = (int64_t)((uint64_t)a * (uint64_t)b);
        return true;
    case '/':
        *out = b > 0 && a >= 0 ? a / b : 0;
        return b > 0 && a >= 0;
    case '%':
        *out = b > 0 && a >= 0 ? a % b : 0;
        return b > 0 && a >= 0;
    case '&':
        *out = a & b;
        return true;
    case '|':
        *out = a | b;
        return true;
    case SPV_P2('<', '<'):
        *out = (int64_t)((uint64_t)a << (b & 63));
        return true;
    case SPV_P2('>', '>'):
        *out = is_signed ? a >> (b & 63) : (int64_t)((uint64_t)a >> (b & 63));
        return true;
    default:
        return false;
    }
}

static const struct {
    uint32_t punct;
    uint16_t real, with_sign, without; /* instructions; 0 for none */
    bool compares;
} operators[] = {
    {'+', OpFAdd, OpIAdd, OpIAdd, false},
    {'-', OpFSub, OpISub, OpISub, false},
    {'*', OpFMul, OpIMul, OpIMul, false},
    {'/', OpFDiv, OpSDiv, OpUDiv, false},
    {'%', 0, OpSRem, OpUMod, false},
    {'&', 0, OpBitwiseAnd, OpBitwiseAnd, false},
    {'|', 0, OpBitwiseOr, OpBitwiseOr, false},
    {'^', 0, OpBitwiseXor, OpBitwiseXor, false},
    {SPV_P2('<', '<'), 0, OpShiftLeftLogical, OpShiftLeftLogical, false},
    {SPV_P2('>', '>'), 0, OpShiftRightArithmetic, OpShiftRightLogical, false},
    {'<', OpFOrdLessThan, OpSLessThan, OpULessThan, true},
    {'>', OpFOrdGreaterThan, OpSGreaterThan, OpUGreaterThan, true},
    {SPV_P2('<', '='), OpFOrdLessThanEqual, OpSLessThanEqual, OpULessThanEqual, true},
    {SPV_P2('>', '='), OpFOrdGreaterThanEqual, OpSGreaterThanEqual, OpUGreaterThanEqual, true},
    {SPV_P2('=', '='), OpFOrdEqual, OpIEqual, OpIEqual, true},
    {SPV_P2('!', '='), OpFUnordNotEqual, OpINotEqual, OpINotEqual, true},
};

static spv_item operator_write(spv_compile *c, uint32_t punct, uint32_t type, const spv_item *a, const spv_item *b)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (operators[i].punct == punct) {
            const uint32_t op = type == SPV_F32                         ? operators[i].real
                                : type == SPV_I32 || type == SPV_I64 ? operators[i].with_sign
                                                                       : operators[i].without;
            if (op)
                return binary_op(c, op, operators[i].compares ? SPV_BOOL : type, spv_value_id(c, a), spv_value_id(c, b));
        }
    spv_fail(c, "an operator (%#x) that its operands do not have", punct);
    return *a;
}

static spv_item pointer_moved(spv_compile *c, uint32_t punct, spv_item pointer, spv_item by)
{
    if (pointer.array || pointer.space != SPV_GLOBAL || (punct != '+' && punct != '-')) {
        spv_fail(c, "only pointers into global memory are computed with, by + and -");
        return pointer;
    }
    return global_moved(c, pointer, punct == '-' ? spv_negative(c, spv_convert(c, by, SPV_I64)) : by);
}

spv_item spv_binary(spv_compile *c, uint32_t punct, spv_item a, spv_item b)
{
    const bool shifts = punct == SPV_P2('<', '<') || punct == SPV_P2('>', '>');
    int64_t number;
    if (a.form == SPV_POINTER)
        return pointer_moved(c, punct, a, b);
    const uint32_t type = shifts ? (a.type < SPV_I32 ? (uint32_t)SPV_I32 : a.type) : spv_common_type(&a, &b);
    if (spv_type_matrix(type)) {
        spv_fail(c, "matrices have no operators");
        return a;
    }
    a = spv_convert(c, a, type);
    b = spv_convert(c, b, shifts && b.type >= SPV_I32 ? b.type : type);
    if (a.constant && b.constant && number_fold(punct, type, a.number, b.number, &number))
        return spv_number(type, number);
    return operator_write(c, punct, type, &a, &b);
}

spv_item spv_negative(spv_compile *c, spv_item v)
{
    if (v.type < SPV_I32)
        v = spv_convert(c, v, SPV_I32);
    if (v.constant)
        return spv_number(v.type, (int64_t)(0 - (uint64_t)v.number));
    return unary_op(c, v.type == SPV_F32 ? OpFNegate : OpSNegate, v.type, spv_value_id(c, &v));
}

spv_item spv_select(spv_compile *c, spv_item condition, spv_item a, spv_item b)
{
    const uint32_t type = spv_common_type(&a, &b), id = spv_id(c);
    a = spv_convert(c, a, type);
    b = spv_convert(c, b, type);
    SPV_CODE(c, OpSelect, spv_type_id(c, type), id, condition.id, spv_value_id(c, &a), spv_value_id(c, &b));
    return spv_value(type, id);
}
