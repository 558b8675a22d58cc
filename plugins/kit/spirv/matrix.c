/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes operations on cooperative matrices (SPV_KHR_cooperative_matrix, SPV_KHR_bfloat16): a subgroup's work-items together hold one.
 * expr.c calls it for a kernel's matrix functions, and unit.c asks if a kernel has any; any thread, one per translation.
 *
 * A kernel loads them from local memory, adds products to a sum, and stores the sum there. A shader with them has the Vulkan memory model.
 * There each access to shared data is marked (spirv_value.c), and barriers make data available (expr.c).
 */
#include "plugins/kit/spirv/compile.h"

static bool matrix_good(spv_compile *c, const spv_item *m)
{
    if (!spv_type_matrix(m->type) || (m->form != SPV_VARIABLE && m->form != SPV_ELEMENT))
        spv_fail(c, "a matrix is expected, a variable or an element of an array");
    return !c->failed;
}

/* From an array, an index and the words of a row: the matrix's begin, and the row's constant. 0 after a failure. */
static uint32_t place_of(spv_compile *c, const spv_item argument[3], uint32_t *row)
{
    uint32_t type;
    const spv_item array = spv_load(c, argument[0]), at = spv_load(c, argument[1]);
    if (!array.array || array.array->space != SPV_LOCAL || array.array->n_dim != 1)
        spv_fail(c, "matrices are loaded from and stored to arrays of one dimension in local memory");
    const spv_item words = spv_convert(c, spv_load(c, argument[2]), SPV_U32);
    if (c->failed)
        return 0;
    *row = spv_value_id(c, &words);
    const spv_item word = spv_element(c, array, at);
    return c->failed ? 0 : spv_place(c, &word, &type);
}

/* The right operand is transposed: its columns are rows of memory, as both operands have contiguous terms. */
static void load_write(spv_compile *c, const spv_item argument[4])
{
    uint32_t row = 0;
    const spv_item *to = &argument[0];
    const uint32_t place = matrix_good(c, to) ? place_of(c, argument + 1, &row) : 0, id = spv_id(c);
    if (!place)
        return;
    SPV_CODE(c, OpCooperativeMatrixLoad, spv_type_id(c, to->type), id, place,
             spv_constant_id(c, SPV_U32, spv_matrix_use(to->type) == SPV_USE_RIGHT ? LayoutColumns : LayoutRows), row, MemoryNonPrivate);
    spv_store(c, to, spv_value(to->type, id));
}

static void store_write(spv_compile *c, const spv_item argument[4])
{
    uint32_t row = 0;
    const uint32_t place = matrix_good(c, &argument[0]) ? place_of(c, argument + 1, &row) : 0;
    if (!place)
        return;
    const spv_item value = spv_load(c, argument[0]);
    SPV_CODE(c, OpCooperativeMatrixStore, place, value.id, spv_constant_id(c, SPV_U32, LayoutRows), row, MemoryNonPrivate);
    c->effects++;
}

static void add_write(spv_compile *c, const spv_item argument[3])
{
    const spv_item *sum = &argument[0], *left = &argument[1], *right = &argument[2];
    if (!matrix_good(c, sum) || !matrix_good(c, left) || !matrix_good(c, right))
        return;
    if (spv_matrix_use(sum->type) != SPV_USE_SUM || left->type != sum->type - SPV_USE_SUM || right->type != left->type + SPV_USE_RIGHT) {
        spv_fail(c, "a sum gets the product of a left and a right operand of its own type");
        return;
    }
    const spv_item a = spv_load(c, *left), b = spv_load(c, *right), old = spv_load(c, *sum);
    const uint32_t id = spv_id(c);
    SPV_CODE(c, OpCooperativeMatrixMulAdd, spv_type_id(c, sum->type), id, a.id, b.id, old.id);
    spv_store(c, sum, spv_value(sum->type, id));
}

static void clear_write(spv_compile *c, const spv_item *to)
{
    if (!matrix_good(c, to))
        return;
    const uint32_t type = spv_type_id(c, to->type), id = spv_id(c);
    SPV_OP(c, &c->globals, OpConstantNull, type, id);
    spv_store(c, to, spv_value(to->type, id));
}

/* The number of this work-item's subgroup in the group. */
static spv_item team_write(spv_compile *c)
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

spv_item spv_matrix_write(spv_compile *c, uint32_t word, const spv_item argument[SPV_MATRIX_ARGUMENTS], uint32_t n)
{
    const uint32_t wanted = word == SPV_COOP_TEAM ? 0 : word == SPV_COOP_CLEAR ? 1 : word == SPV_COOP_ADD ? 3 : 4;
    if (n != wanted)
        spv_fail(c, "a function of matrices takes %u arguments, not %u", wanted, n);
    else if (word == SPV_COOP_TEAM)
        return team_write(c);
    else if (word == SPV_COOP_LOAD)
        load_write(c, argument);
    else if (word == SPV_COOP_STORE)
        store_write(c, argument);
    else if (word == SPV_COOP_ADD)
        add_write(c, argument);
    else
        clear_write(c, argument);
    return (spv_item){.form = SPV_NOTHING};
}

bool spv_matrix_wanted(const spv_compile *c)
{
    for (size_t i = 0; i < c->token.n; i++)
        if (c->token.at[i].kind == SPV_NAME && c->token.at[i].symbol->type < SPV_TYPES && spv_type_matrix(c->token.at[i].symbol->type))
            return true;
    return false;
}
