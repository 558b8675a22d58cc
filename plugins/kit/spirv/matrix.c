/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cooperative matrices (SPV_KHR_cooperative_matrix, SPV_KHR_bfloat16): a subgroup's work-items hold one between them. A kernel loads them
 * from local memory, adds products to a sum, and stores the sum there. A shader with them has the Vulkan memory model, in which what
 * work-items tell each other is marked at each access (value.c) and made available by barriers (expr.c).
 */
#include "plugins/kit/spirv/compile.h"

enum { USE_LEFT, USE_RIGHT, USE_SUM }; /* as SPIR-V numbers them, and as the types follow each other */

static uint32_t use_of(uint32_t type)
{
    return (type - SPV_LEFT_F16) % 3;
}

static uint32_t half_id(spv_compile *c, bool brain)
{
    uint32_t *id = &c->half_id[brain];
    if (*id)
        return *id;
    *id = spv_id(c);
    if (brain)
        SPV_OP(c, &c->globals, OpTypeFloat, *id, 16, EncodingBfloat16);
    else
        SPV_OP(c, &c->globals, OpTypeFloat, *id, 16);
    return *id;
}

void spv_matrix_type(spv_compile *c, uint32_t type, uint32_t id)
{
    const bool brain = type >= SPV_LEFT_BF16;
    const kit_coop *size = &c->target->coop[brain ? KIT_COOP_BF16 : KIT_COOP_F16];
    const uint32_t use = use_of(type);
    if (!size->rows)
        spv_fail(c, "there are no cooperative matrices of %s here", brain ? "bf16" : "f16");
    const uint32_t component = use == USE_SUM ? spv_type_id(c, SPV_F32) : half_id(c, brain),
                   scope = spv_constant_id(c, SPV_U32, ScopeSubgroup),
                   rows = spv_constant_id(c, SPV_U32, use == USE_RIGHT ? size->terms : size->rows),
                   cols = spv_constant_id(c, SPV_U32, use == USE_LEFT ? size->terms : size->cols),
                   own = spv_constant_id(c, SPV_U32, use);
    SPV_OP(c, &c->globals, OpTypeCooperativeMatrix, id, component, scope, rows, cols, own);
}

/* ---- What the kernel says ---- */

static spv_item matrix_expect(spv_compile *c)
{
    const spv_item m = spv_assignment(c);
    if (!spv_type_matrix(m.type) || (m.form != SPV_VARIABLE && m.form != SPV_ELEMENT))
        spv_fail(c, "a matrix is expected, a variable or an element of an array");
    return m;
}

/* ", array, index, words of a row": the place of the word, and the constant of the row. */
static uint32_t place_read(spv_compile *c, uint32_t *row)
{
    uint32_t type;
    spv_expect(c, ',');
    const spv_item array = spv_rvalue(c);
    spv_expect(c, ',');
    const spv_item at = spv_rvalue(c);
    spv_expect(c, ',');
    const spv_item words = spv_convert(c, spv_rvalue(c), SPV_U32);
    if (!array.array || array.array->space != SPV_LOCAL || array.array->n_dim != 1)
        spv_fail(c, "matrices are loaded from and stored to arrays of one dimension in local memory");
    if (c->failed)
        return 0;
    *row = spv_value_id(c, &words);
    const spv_item word = spv_element(c, array, at);
    return c->failed ? 0 : spv_place(c, &word, &type);
}

/* The right operand lies transposed: its columns are rows of memory, as the terms of both lie side by side. */
static void load_write(spv_compile *c)
{
    uint32_t row = 0;
    const spv_item to = matrix_expect(c);
    const uint32_t place = place_read(c, &row), id = spv_id(c);
    if (c->failed)
        return;
    SPV_CODE(c, OpCooperativeMatrixLoad, spv_type_id(c, to.type), id, place,
             spv_constant_id(c, SPV_U32, use_of(to.type) == USE_RIGHT ? LayoutColumns : LayoutRows), row, MemoryNonPrivate);
    spv_store(c, &to, spv_value(to.type, id));
}

static void store_write(spv_compile *c)
{
    uint32_t row = 0;
    const spv_item from = matrix_expect(c);
    const uint32_t place = place_read(c, &row);
    if (c->failed)
        return;
    const spv_item value = spv_load(c, from);
    SPV_CODE(c, OpCooperativeMatrixStore, place, value.id, spv_constant_id(c, SPV_U32, LayoutRows), row, MemoryNonPrivate);
    c->effects++;
}

static void add_write(spv_compile *c)
{
    const spv_item sum = matrix_expect(c);
    spv_expect(c, ',');
    const spv_item left = matrix_expect(c);
    spv_expect(c, ',');
    const spv_item right = matrix_expect(c);
    const uint32_t id = spv_id(c);
    if (!c->failed && (use_of(sum.type) != USE_SUM || left.type != sum.type - USE_SUM || right.type != left.type + USE_RIGHT))
        spv_fail(c, "a sum gets the product of a left and a right operand of its own type");
    if (c->failed)
        return;
    const spv_item a = spv_load(c, left), b = spv_load(c, right), old = spv_load(c, sum);
    SPV_CODE(c, OpCooperativeMatrixMulAdd, spv_type_id(c, sum.type), id, a.id, b.id, old.id);
    spv_store(c, &sum, spv_value(sum.type, id));
}

static void clear_write(spv_compile *c)
{
    const spv_item to = matrix_expect(c);
    const uint32_t type = c->failed ? 0 : spv_type_id(c, to.type), id = spv_id(c);
    if (c->failed)
        return;
    SPV_OP(c, &c->globals, OpConstantNull, type, id);
    spv_store(c, &to, spv_value(to.type, id));
}

/* The number of this work-item's subgroup in the group. */
static spv_item team_read(spv_compile *c)
{
    const uint32_t u32 = spv_type_id(c, SPV_U32), own = spv_id(c), id = spv_id(c);
    if (!c->team_variable) {
        const uint32_t pointer = spv_id(c);
        SPV_OP(c, &c->globals, OpTypePointer, pointer, ClassInput, u32);
        c->team_variable = spv_builtin_new(c, BuiltInSubgroupId, pointer);
    }
    SPV_CODE(c, OpLoad, u32, own, c->team_variable);
    SPV_CODE(c, OpBitcast, spv_type_id(c, SPV_I32), id, own);
    return spv_value(SPV_I32, id);
}

spv_item spv_matrix_read(spv_compile *c, uint32_t word)
{
    if (word == SPV_COOP_TEAM)
        return team_read(c);
    if (word == SPV_COOP_LOAD)
        load_write(c);
    else if (word == SPV_COOP_STORE)
        store_write(c);
    else if (word == SPV_COOP_ADD)
        add_write(c);
    else
        clear_write(c);
    return (spv_item){.form = SPV_NOTHING};
}

/* ---- The module's head ---- */

bool spv_matrix_wanted(const spv_compile *c)
{
    for (size_t i = 0; i < c->token.n; i++)
        if (c->token.at[i].kind == SPV_NAME && c->token.at[i].symbol->type < SPV_TYPES && spv_type_matrix(c->token.at[i].symbol->type))
            return true;
    return false;
}

void spv_matrix_capabilities(spv_compile *c, spv_words *out)
{
    static const uint32_t all[] = {CapSubgroup, CapVulkanMemory, CapCooperativeMatrix};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        SPV_OP(c, out, OpCapability, all[i]);
    if (c->half_id[0])
        SPV_OP(c, out, OpCapability, CapFloat16);
    if (c->half_id[1]) {
        SPV_OP(c, out, OpCapability, CapBfloat16);
        SPV_OP(c, out, OpCapability, CapBfloat16Matrix);
    }
}
