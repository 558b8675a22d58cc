/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads expressions of a kernel by precedence, and writes their instructions at once. stmt.c asks for each expression of a statement,
 * unit.c for arguments of calls; any thread, one per translation.
 *
 * For operators that evaluate one side only (?: && ||), both sides are written in order if they have no effect and touch no memory.
 * Otherwise branches are written: the second side is read first, and its code then placed after its label.
 */
#include "plugins/kit/spirv/compile.h"

#include <stdlib.h>

static spv_item unary_read(spv_compile *c);

/* ---- Numbers, names, calls ---- */

static spv_item real_read(spv_compile *c, const spv_token *t)
{
    const float value = strtof(t->text, NULL);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return spv_value(SPV_F32, spv_constant_id(c, SPV_F32, bits));
}

static spv_item number_read(spv_compile *c, const spv_token *t)
{
    const bool hex = t->length > 1 && (t->text[1] == 'x' || t->text[1] == 'X');
    bool wide = false, unsigned_ = false;
    if (!hex)
        for (uint32_t i = 0; i < t->length; i++)
            if (strchr(".eEfF", t->text[i]))
                return real_read(c, t);
    for (uint32_t i = t->length; i-- > 0 && strchr("uUlL", t->text[i]);) {
        wide |= t->text[i] == 'l' || t->text[i] == 'L';
        unsigned_ |= t->text[i] == 'u' || t->text[i] == 'U';
    }
    const uint64_t n = strtoull(t->text, NULL, hex ? 16 : 10);
    wide |= n > UINT32_MAX || (!hex && !unsigned_ && n > INT32_MAX);
    unsigned_ |= hex && (wide ? n > INT64_MAX : n > INT32_MAX);
    return spv_number(wide ? (unsigned_ ? SPV_U64 : SPV_I64) : (unsigned_ ? SPV_U32 : SPV_I32), (int64_t)n);
}

static spv_item as_read(spv_compile *c, uint32_t type)
{
    spv_item v = spv_rvalue(c);
    const uint32_t id = spv_id(c);
    if (v.type < SPV_I32)
        v = spv_convert(c, v, SPV_I32);
    if (spv_type_bytes(v.type) != 4)
        spv_fail(c, "the bits of a value of 8 bytes are asked for as 4");
    if (v.type == type)
        return v;
    if (v.constant)
        return type == SPV_F32 ? spv_value(type, spv_constant_id(c, type, (uint64_t)v.number)) : spv_number(type, v.number);
    SPV_CODE(c, OpBitcast, spv_type_id(c, type), id, v.id);
    return spv_value(type, id);
}

/* The upper half of a product, from one of 64 bits. */
static spv_item mulhi_read(spv_compile *c)
{
    spv_item a = spv_convert(c, spv_convert(c, spv_rvalue(c), SPV_U32), SPV_U64);
    spv_expect(c, ',');
    spv_item b = spv_convert(c, spv_convert(c, spv_rvalue(c), SPV_U32), SPV_U64);
    a = spv_binary(c, SPV_P2('>', '>'), spv_binary(c, '*', a, b), spv_number(SPV_I32, 32));
    return spv_convert(c, a, SPV_U32);
}

static spv_item glsl_read(spv_compile *c, uint32_t function, uint32_t n)
{
    const uint32_t f32 = spv_type_id(c, SPV_F32), id = spv_id(c);
    uint32_t a[3] = {0};
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            spv_expect(c, ',');
        spv_item v = spv_convert(c, spv_rvalue(c), SPV_F32);
        a[i] = spv_value_id(c, &v);
    }
    if (n == 1)
        SPV_CODE(c, OpExtInst, f32, id, c->import, function, a[0]);
    else
        SPV_CODE(c, OpExtInst, f32, id, c->import, function, a[0], a[1], a[2]);
    return spv_value(SPV_F32, id);
}

static spv_item group_read(spv_compile *c)
{
    const spv_item axis = spv_rvalue(c);
    if (!axis.constant || axis.number < 0 || axis.number > 2)
        spv_fail(c, "the number of a group is asked for in dimension 0, 1 or 2");
    return spv_value(SPV_U32, c->failed ? 0 : c->group_id[axis.number]);
}

static spv_item barrier_write(spv_compile *c)
{
    const uint32_t scope = spv_constant_id(c, SPV_U32, ScopeWorkgroup);
    const uint32_t semantics = c->uses_matrices ? SemanticsLocal | SemanticsAvailable : SemanticsLocal;
    SPV_CODE(c, OpControlBarrier, scope, scope, spv_constant_id(c, SPV_U32, semantics));
    c->effects++;
    return (spv_item){.form = SPV_NOTHING};
}

/* A work-item's value, as the work-item of a constant number in the subgroup has it. */
static spv_item of_lane_read(spv_compile *c)
{
    spv_item v = spv_convert(c, spv_rvalue(c), SPV_F32);
    spv_expect(c, ',');
    const spv_item lane = spv_rvalue(c);
    const uint32_t id = spv_id(c);
    if (!lane.constant || lane.number < 0 || lane.number > 127)
        spv_fail(c, "a value is asked of the lane of a constant number");
    c->uses_subgroups = true;
    c->effects++;
    SPV_CODE(c, OpGroupNonUniformBroadcast, spv_type_id(c, SPV_F32), id, spv_constant_id(c, SPV_U32, ScopeSubgroup),
             spv_value_id(c, &v), spv_constant_id(c, SPV_U32, (uint64_t)lane.number));
    return spv_value(SPV_F32, id);
}

/* Functions of matrices: an output argument is not loaded. */
static spv_item matrix_read(spv_compile *c, uint32_t word)
{
    spv_item argument[SPV_MATRIX_ARGUMENTS] = {{0}};
    uint32_t n = 0;
    while (n < SPV_MATRIX_ARGUMENTS && !c->failed && !spv_token_is(spv_next(c), ')')) {
        if (n)
            spv_expect(c, ',');
        argument[n++] = spv_assignment(c);
    }
    return spv_matrix_write(c, word, argument, n);
}

/* The dialect's own functions. */
static spv_item builtin_read(spv_compile *c, uint32_t word)
{
    spv_item v = {.form = SPV_NOTHING};
    spv_expect(c, '(');
    if (word == SPV_GROUP)
        v = group_read(c);
    else if (word == SPV_LANE)
        v = spv_value(SPV_I32, c->lane_id);
    else if (word == SPV_LANES)
        v = spv_number(SPV_I32, c->source->local);
    else if (word == SPV_BARRIER)
        v = barrier_write(c);
    else if (word == SPV_MULHI)
        v = mulhi_read(c);
    else if (word == SPV_OF_LANE)
        v = of_lane_read(c);
    else if (word >= SPV_COOP_TEAM)
        v = matrix_read(c, word);
    else if (word == SPV_SQRT || word == SPV_FMA)
        v = glsl_read(c, word == SPV_SQRT ? GlslSqrt : GlslFma, word == SPV_SQRT ? 1 : 3);
    else
        v = as_read(c, word == SPV_AS_FLOAT ? SPV_F32 : word == SPV_AS_INT ? SPV_I32 : SPV_U32);
    spv_expect(c, ')');
    return v;
}

static spv_item name_read(spv_compile *c, const spv_token *t)
{
    const spv_symbol *s = t->symbol;
    if (s->word >= SPV_GROUP)
        return builtin_read(c, s->word);
    if (s->bound)
        return *s->bound;
    if (s->function && !s->function->kernel)
        return c->call(c, s->function);
    spv_fail(c, "%.*s is not known", (int)t->length, t->text);
    return spv_number(SPV_I32, 0);
}

static spv_item cast_read(spv_compile *c)
{
    const spv_declared to = spv_type_read(c);
    spv_expect(c, ')');
    spv_item v = spv_load(c, unary_read(c));
    if (to.type == SPV_VOID)
        return (spv_item){.form = SPV_NOTHING};
    if (to.pointer && v.form == SPV_POINTER) {
        v.type = to.type;
        return v;
    }
    if (v.form == SPV_POINTER && v.space == SPV_GLOBAL)
        v = spv_value(SPV_U64, v.id); /* an address */
    return spv_convert(c, v, to.type);
}

static spv_item primary_read(spv_compile *c)
{
    const spv_token *t = spv_next(c);
    c->at += t->kind != SPV_END;
    if (t->kind == SPV_NUMBER)
        return number_read(c, t);
    if (t->kind == SPV_NAME)
        return name_read(c, t);
    if (t->kind == SPV_PUNCT && t->punct == '(') {
        if (spv_starts_type(spv_next(c)))
            return cast_read(c);
        const spv_item v = spv_expression(c);
        spv_expect(c, ')');
        return v;
    }
    spv_fail(c, "an expression does not begin with %.*s", (int)t->length, t->text);
    return spv_number(SPV_I32, 0);
}

static void step_by(spv_compile *c, const spv_item *v, uint32_t punct)
{
    spv_store(c, v, spv_binary(c, punct, spv_load(c, *v), spv_number(SPV_I32, 1)));
}

static spv_item postfix_read(spv_compile *c)
{
    spv_item v = primary_read(c);
    for (;;) {
        if (spv_accept(c, '[')) {
            const spv_item pointer = spv_load(c, v), index = spv_load(c, spv_expression(c));
            spv_expect(c, ']');
            v = spv_element(c, pointer, index);
        } else if (spv_accept(c, SPV_P2('+', '+')) || spv_accept(c, SPV_P2('-', '-'))) {
            const uint32_t punct = c->token.at[c->at - 1].punct & 0xff;
            const spv_item old = spv_load(c, v);
            step_by(c, &v, punct);
            v = old;
        } else {
            return v;
        }
    }
}

static spv_item address_of(spv_compile *c, spv_item v)
{
    if (v.form == SPV_VARIABLE)
        v = (spv_item){.form = SPV_POINTER, .type = v.type, .space = SPV_PRIVATE, .id = v.id};
    else
        spv_fail(c, "& is of variables only");
    return v;
}

static spv_item complement_of(spv_compile *c, spv_item v)
{
    const uint32_t id = spv_id(c);
    if (v.type < SPV_I32)
        v = spv_convert(c, v, SPV_I32);
    if (v.constant)
        return spv_number(v.type, ~v.number);
    SPV_CODE(c, OpNot, spv_type_id(c, v.type), id, spv_value_id(c, &v));
    return spv_value(v.type, id);
}

static spv_item truth_not(spv_compile *c, spv_item v)
{
    const uint32_t id = spv_id(c);
    v = spv_convert(c, v, SPV_BOOL);
    SPV_CODE(c, OpLogicalNot, spv_type_id(c, SPV_BOOL), id, v.id);
    return spv_value(SPV_BOOL, id);
}

static spv_item unary_read(spv_compile *c)
{
    if (spv_accept(c, '-'))
        return spv_negative(c, spv_load(c, unary_read(c)));
    if (spv_accept(c, '+'))
        return spv_load(c, unary_read(c));
    if (spv_accept(c, '~'))
        return complement_of(c, spv_load(c, unary_read(c)));
    if (spv_accept(c, '!'))
        return truth_not(c, spv_load(c, unary_read(c)));
    if (spv_accept(c, '*'))
        return spv_target(c, spv_load(c, unary_read(c)));
    if (spv_accept(c, '&'))
        return address_of(c, unary_read(c));
    if (spv_accept(c, SPV_P2('+', '+')) || spv_accept(c, SPV_P2('-', '-'))) {
        const uint32_t punct = c->token.at[c->at - 1].punct & 0xff;
        const spv_item v = unary_read(c);
        step_by(c, &v, punct);
        return v;
    }
    return postfix_read(c);
}

/* ---- Operators of two operands ---- */

static uint32_t precedence_of(const spv_token *t)
{
    if (t->kind != SPV_PUNCT)
        return 0;
    switch (t->punct) {
    case '*':
    case '/':
    case '%':
        return 10;
    case '+':
    case '-':
        return 9;
    case SPV_P2('<', '<'):
    case SPV_P2('>', '>'):
        return 8;
    case '<':
    case '>':
    case SPV_P2('<', '='):
    case SPV_P2('>', '='):
        return 7;
    case SPV_P2('=', '='):
    case SPV_P2('!', '='):
        return 6;
    case '&':
        return 5;
    case '^':
        return 4;
    case '|':
        return 3;
    case SPV_P2('&', '&'):
        return 2;
    case SPV_P2('|', '|'):
        return 1;
    default:
        return 0;
    }
}

static spv_item operands_read(spv_compile *c, uint32_t least);

static void variable_set(spv_compile *c, uint32_t variable, uint32_t value)
{
    SPV_CODE(c, OpStore, variable, value);
}

static spv_item variable_get(spv_compile *c, uint32_t variable, uint32_t type)
{
    return spv_load(c, (spv_item){.form = SPV_VARIABLE, .type = (uint8_t)type, .id = variable});
}

/* Branches to label a if the condition holds, else to b; both end at `merge`. */
static void branch_two(spv_compile *c, uint32_t condition, uint32_t a, uint32_t b, uint32_t merge)
{
    SPV_CODE(c, OpSelectionMerge, merge, 0);
    SPV_CODE(c, OpBranchConditional, condition, a, b);
    c->open = false;
    c->effects++;
}

/* left && right, left || right: the right side only if the left one does not decide. */
static spv_item logical_read(spv_compile *c, bool is_and, spv_item left)
{
    left = spv_convert(c, left, SPV_BOOL);
    const size_t from = spv_code(c)->n;
    const uint32_t effects = c->effects, id = spv_id(c);
    const spv_item right = spv_convert(c, spv_load(c, operands_read(c, is_and ? 3 : 2)), SPV_BOOL);
    if (effects == c->effects) {
        SPV_CODE(c, is_and ? OpLogicalAnd : OpLogicalOr, spv_type_id(c, SPV_BOOL), id, left.id, right.id);
        return spv_value(SPV_BOOL, id);
    }
    const spv_words code = spv_code_cut(c, from);
    const uint32_t result = spv_variable_new(c, SPV_BOOL), other = spv_id(c), merge = spv_id(c);
    variable_set(c, result, left.id);
    branch_two(c, left.id, is_and ? other : merge, is_and ? merge : other, merge);
    spv_label(c, other);
    spv_words_add(c, &c->code, code.at, code.n);
    variable_set(c, result, right.id);
    spv_label(c, merge);
    return variable_get(c, result, SPV_BOOL);
}

/* Operators that bind at least so tightly. */
static spv_item operands_read(spv_compile *c, uint32_t least)
{
    spv_item a = unary_read(c);
    for (uint32_t p; (p = precedence_of(spv_next(c))) >= least && p;) {
        const uint32_t punct = spv_next(c)->punct;
        c->at++;
        a = spv_load(c, a);
        if (p <= 2) {
            a = logical_read(c, p == 2, a);
        } else {
            const spv_item b = spv_load(c, operands_read(c, p + 1));
            a = spv_binary(c, punct, a, b);
        }
    }
    return a;
}

/* ---- condition ? a : b ---- */

static void side_write(spv_compile *c, const spv_words *code, spv_item value, uint32_t type, uint32_t result)
{
    spv_words_add(c, &c->code, code->at, code->n);
    value = spv_convert(c, value, type);
    variable_set(c, result, spv_value_id(c, &value));
}

static spv_item sides_branch(spv_compile *c, const spv_item *condition, size_t from, size_t second, const spv_item *a, const spv_item *b)
{
    const spv_words code_b = spv_code_cut(c, second), code_a = spv_code_cut(c, from);
    const uint32_t type = spv_common_type(a, b), result = spv_variable_new(c, type), yes = spv_id(c), no = spv_id(c), merge = spv_id(c);
    branch_two(c, condition->id, yes, no, merge);
    spv_label(c, yes);
    side_write(c, &code_a, *a, type, result);
    spv_branch(c, merge);
    spv_label(c, no);
    side_write(c, &code_b, *b, type, result);
    spv_label(c, merge);
    return variable_get(c, result, type);
}

static spv_item conditional_read(spv_compile *c)
{
    spv_item condition = operands_read(c, 1);
    if (!spv_accept(c, '?'))
        return condition;
    condition = spv_convert(c, spv_load(c, condition), SPV_BOOL);
    const size_t from = spv_code(c)->n;
    const uint32_t effects = c->effects;
    const spv_item a = spv_load(c, spv_expression(c));
    spv_expect(c, ':');
    const size_t second = c->code.n;
    const spv_item b = spv_load(c, conditional_read(c));
    if (effects == c->effects)
        return spv_select(c, condition, a, b);
    return sides_branch(c, &condition, from, second, &a, &b);
}

/* ---- Assignments ---- */

spv_item spv_assignment(spv_compile *c)
{
    const spv_item to = conditional_read(c);
    const spv_token *t = spv_next(c);
    if (spv_accept(c, '=')) {
        spv_store(c, &to, spv_rvalue(c));
        return to;
    }
    const uint32_t last = t->length == 3 ? t->punct >> 16 : t->punct >> 8, first = t->length == 3 ? t->punct & 0xffff : t->punct & 0xff;
    if (t->kind != SPV_PUNCT || t->length < 2 || last != '=' || precedence_of(t))
        return to;
    c->at++;
    const spv_item by = spv_rvalue(c);
    spv_store(c, &to, spv_binary(c, first, spv_load(c, to), by));
    return to;
}

spv_item spv_rvalue(spv_compile *c)
{
    return spv_load(c, spv_assignment(c));
}

spv_item spv_expression(spv_compile *c)
{
    spv_item v = spv_assignment(c);
    while (spv_accept(c, ','))
        v = spv_assignment(c);
    return v;
}

uint32_t spv_condition(spv_compile *c, spv_item *item)
{
    *item = spv_load(c, spv_expression(c));
    const spv_item truth = spv_convert(c, *item, SPV_BOOL);
    return truth.id;
}
