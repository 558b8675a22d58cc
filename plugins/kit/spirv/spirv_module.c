/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SPIR-V module under construction: words in their sections, unique types and constants, labels, and the final order that the format
 * demands. The readers of this folder write instructions with it; unit.c begins and ends it. One thread per translation.
 */
#include "plugins/kit/spirv/compile.h"

void spv_op(spv_compile *c, spv_words *words, uint32_t op, const uint32_t *operand, size_t n)
{
    const uint32_t first = (uint32_t)(n + 1) << 16 | op;
    spv_words_add(c, words, &first, 1);
    spv_words_add(c, words, operand, n);
}

/* An instruction with a text after its first n operands, and further operands after the text. */
static void op_text(spv_compile *c, spv_words *words, uint32_t op, const uint32_t *before, size_t n, const char *text,
                    const spv_words *after)
{
    uint32_t packed[16] = {0};
    const size_t n_text = strlen(text) / 4 + 1;
    const uint32_t first = (uint32_t)(1 + n + n_text + (after ? after->n : 0)) << 16 | op;
    for (size_t i = 0; text[i]; i++)
        packed[i / 4] |= (uint32_t)(unsigned char)text[i] << i % 4 * 8;
    spv_words_add(c, words, &first, 1);
    spv_words_add(c, words, before, n);
    spv_words_add(c, words, packed, n_text);
    if (after)
        spv_words_add(c, words, after->at, after->n);
}

uint32_t spv_id(spv_compile *c)
{
    return ++c->n_id;
}

/* ---- Types and constants ---- */

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

static void matrix_type(spv_compile *c, uint32_t type, uint32_t id)
{
    const bool brain = type >= SPV_LEFT_BF16;
    const kit_coop *size = &c->target->coop[brain ? KIT_COOP_BF16 : KIT_COOP_F16];
    const uint32_t use = spv_matrix_use(type);
    if (!size->rows)
        spv_fail(c, "there are no cooperative matrices of %s here", brain ? "bf16" : "f16");
    const uint32_t component = use == SPV_USE_SUM ? spv_type_id(c, SPV_F32) : half_id(c, brain),
                   scope = spv_constant_id(c, SPV_U32, ScopeSubgroup),
                   rows = spv_constant_id(c, SPV_U32, use == SPV_USE_RIGHT ? size->terms : size->rows),
                   cols = spv_constant_id(c, SPV_U32, use == SPV_USE_LEFT ? size->terms : size->cols),
                   own = spv_constant_id(c, SPV_U32, use);
    SPV_OP(c, &c->globals, OpTypeCooperativeMatrix, id, component, scope, rows, cols, own);
}

uint32_t spv_type_id(spv_compile *c, uint32_t type)
{
    uint32_t *id = &c->type_id[type];
    if (*id)
        return *id;
    *id = spv_id(c);
    if (type == SPV_VOID || type == SPV_BOOL)
        SPV_OP(c, &c->globals, type == SPV_VOID ? OpTypeVoid : OpTypeBool, *id);
    else if (type == SPV_F32)
        SPV_OP(c, &c->globals, OpTypeFloat, *id, 32);
    else if (spv_type_matrix(type))
        matrix_type(c, type, *id);
    else
        SPV_OP(c, &c->globals, OpTypeInt, *id, 8 * spv_type_bytes(type), type == SPV_I32 || type == SPV_I64);
    return *id;
}

static uint32_t class_of(uint32_t space)
{
    return space == SPV_GLOBAL ? ClassBuffer : space == SPV_LOCAL ? ClassWorkgroup : ClassFunction;
}

uint32_t spv_pointer_id(spv_compile *c, uint32_t space, uint32_t type)
{
    uint32_t *id = &c->pointer_id[space][type];
    const uint32_t to = spv_type_id(c, type);
    if (!*id) {
        *id = spv_id(c);
        SPV_OP(c, &c->globals, OpTypePointer, *id, class_of(space), to);
    }
    return *id;
}

uint32_t spv_constant_id(spv_compile *c, uint32_t type, uint64_t bits)
{
    const uint32_t type_id = spv_type_id(c, type);
    if (spv_type_bytes(type) < 8)
        bits &= UINT32_MAX;
    for (uint32_t i = 0; i < c->n_constant; i++)
        if (c->constant[i].type == type && c->constant[i].bits == bits)
            return c->constant[i].id;
    const uint32_t id = spv_id(c);
    if (c->n_constant < SPV_CONSTANTS) /* more are written again */
        c->constant[c->n_constant++] = (spv_constant){type, id, bits};
    if (spv_type_bytes(type) == 8)
        SPV_OP(c, &c->globals, OpConstant, type_id, id, (uint32_t)bits, (uint32_t)(bits >> 32));
    else
        SPV_OP(c, &c->globals, OpConstant, type_id, id, (uint32_t)bits);
    return id;
}

/* ---- Variables ---- */

uint32_t spv_variable_new(spv_compile *c, uint32_t type)
{
    const uint32_t pointer = spv_pointer_id(c, SPV_PRIVATE, type), id = spv_id(c);
    SPV_OP(c, &c->variables, OpVariable, pointer, id, ClassFunction);
    return id;
}

const spv_array *spv_array_new(spv_compile *c, uint32_t space, uint32_t type, uint32_t n_dim, const uint32_t *dim)
{
    spv_array *array = spv_take(c, sizeof *array);
    const uint32_t element = spv_type_id(c, space == SPV_LOCAL ? SPV_U32 : type), array_id = spv_id(c), pointer = spv_id(c);
    uint32_t count = 1;
    if (!array)
        return NULL;
    *array = (spv_array){.variable = spv_id(c), .n_dim = n_dim, .type = (uint8_t)type, .space = (uint8_t)space};
    for (uint32_t i = 0; i < n_dim; i++)
        count *= array->dim[i] = dim[i];
    SPV_OP(c, &c->globals, OpTypeArray, array_id, element, spv_constant_id(c, SPV_U32, count));
    SPV_OP(c, &c->globals, OpTypePointer, pointer, class_of(space), array_id);
    if (space == SPV_LOCAL) {
        c->local_bytes += 4 * count;
        SPV_OP(c, &c->globals, OpVariable, pointer, array->variable, ClassWorkgroup);
        spv_words_add(c, &c->interface, &array->variable, 1);
    } else {
        SPV_OP(c, &c->variables, OpVariable, pointer, array->variable, ClassFunction);
    }
    return array;
}

/* ---- Code ---- */

spv_words *spv_code(spv_compile *c)
{
    if (!c->open) {
        c->open = true;
        SPV_OP(c, &c->code, OpLabel, spv_id(c));
    }
    return &c->code;
}

void spv_branch(spv_compile *c, uint32_t label)
{
    SPV_CODE(c, OpBranch, label);
    c->open = false;
}

void spv_label(spv_compile *c, uint32_t label)
{
    if (c->open)
        spv_branch(c, label);
    SPV_OP(c, &c->code, OpLabel, label);
    c->open = true;
    c->effects++;
}

spv_words spv_code_cut(spv_compile *c, size_t from)
{
    spv_words cut = {0};
    spv_words_add(c, &cut, c->code.at + from, c->code.n - from);
    c->code.n = from;
    return cut;
}

/* ---- Loops that the driver ends ---- */

/* Called after a loop: records if its condition still holds. */
void spv_loop_left(spv_compile *c, uint32_t condition)
{
    const uint32_t type = spv_type_id(c, SPV_BOOL), before = spv_id(c), now = spv_id(c);
    SPV_CODE(c, OpLoad, type, before, c->stopped_variable);
    SPV_CODE(c, OpLogicalOr, type, now, before, condition);
    SPV_CODE(c, OpStore, c->stopped_variable, now);
}

static void stopped_begin(spv_compile *c)
{
    const uint32_t one = spv_constant_id(c, SPV_U32, 1), zero = spv_constant_id(c, SPV_U32, 0), no = spv_id(c);
    c->stopped_variable = spv_variable_new(c, SPV_BOOL);
    SPV_CODE(c, OpIEqual, spv_type_id(c, SPV_BOOL), no, one, zero);
    SPV_CODE(c, OpStore, c->stopped_variable, no);
}

static void stopped_tell(spv_compile *c)
{
    const uint32_t stopped = spv_id(c), tell = spv_id(c), merge = spv_id(c), place = spv_id(c);
    SPV_CODE(c, OpLoad, spv_type_id(c, SPV_BOOL), stopped, c->stopped_variable);
    SPV_CODE(c, OpSelectionMerge, merge, 0);
    SPV_CODE(c, OpBranchConditional, stopped, tell, merge);
    c->open = false;
    spv_label(c, tell);
    SPV_CODE(c, OpConvertUToPtr, spv_pointer_id(c, SPV_GLOBAL, SPV_U32), place, c->stopped_id);
    SPV_CODE(c, OpStore, place, c->launch_id, MemoryAligned, 4);
    spv_label(c, merge);
}

void spv_kernel_return(spv_compile *c)
{
    spv_code(c);
    if (c->source->checks_loops)
        stopped_tell(c);
    spv_op(c, &c->code, OpReturn, NULL, 0);
    c->open = false;
}

/* ---- The whole ---- */

/* As kit_spirv_push. */
static void push_type(spv_compile *c)
{
    static const uint32_t offset[] = {0, 8, 16, 20, 24, 28};
    const uint32_t u64 = spv_type_id(c, SPV_U64), u32 = spv_type_id(c, SPV_U32), block = spv_id(c), pointer = spv_id(c), push = spv_id(c);
    SPV_OP(c, &c->globals, OpTypeStruct, block, u64, u64, u32, u32, u32, u32);
    SPV_OP(c, &c->globals, OpTypePointer, pointer, ClassPushConstant, block);
    SPV_OP(c, &c->globals, OpVariable, pointer, push, ClassPushConstant);
    SPV_OP(c, &c->decorations, OpDecorate, block, DecorBlock);
    for (uint32_t i = 0; i < sizeof offset / sizeof *offset; i++)
        SPV_OP(c, &c->decorations, OpMemberDecorate, block, i, DecorOffset, offset[i]);
    spv_words_add(c, &c->interface, &push, 1);
    c->group_id[0] = push; /* until the kernel's first block has read it */
}

uint32_t spv_builtin_new(spv_compile *c, uint32_t builtin, uint32_t pointer)
{
    const uint32_t id = spv_id(c);
    SPV_OP(c, &c->globals, OpVariable, pointer, id, ClassInput);
    SPV_OP(c, &c->decorations, OpDecorate, id, DecorBuiltIn, builtin);
    spv_words_add(c, &c->interface, &id, 1);
    return id;
}

static uint32_t push_member(spv_compile *c, uint32_t push, uint32_t pointer, uint32_t type, uint32_t member)
{
    const uint32_t place = spv_id(c), value = spv_id(c);
    SPV_CODE(c, OpAccessChain, pointer, place, push, spv_constant_id(c, SPV_U32, member));
    SPV_CODE(c, OpLoad, spv_type_id(c, type), value, place);
    return value;
}

/* Reads this work-item's place, and the address of its arguments, into `group_id`, `lane_id` and `result_variable`. */
static void places_read(spv_compile *c, uint32_t vector, uint32_t group, uint32_t lane)
{
    const uint32_t push = c->group_id[0], u32 = spv_type_id(c, SPV_U32), p32 = spv_id(c), p64 = spv_id(c);
    const uint32_t groups = spv_id(c), lanes = spv_id(c);
    SPV_OP(c, &c->globals, OpTypePointer, p32, ClassPushConstant, u32);
    SPV_OP(c, &c->globals, OpTypePointer, p64, ClassPushConstant, spv_type_id(c, SPV_U64));
    SPV_CODE(c, OpLoad, vector, groups, group);
    SPV_CODE(c, OpLoad, vector, lanes, lane);
    c->result_variable = push_member(c, push, p64, SPV_U64, 0);
    c->stopped_id = push_member(c, push, p64, SPV_U64, 1);
    c->launch_id = push_member(c, push, p32, SPV_U32, 5);
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t own = spv_id(c), from = push_member(c, push, p32, SPV_U32, i + 2);
        c->group_id[i] = spv_id(c);
        SPV_CODE(c, OpCompositeExtract, u32, own, groups, i);
        SPV_CODE(c, OpIAdd, u32, c->group_id[i], own, from);
    }
    const uint32_t bits = spv_id(c);
    c->lane_id = spv_id(c);
    SPV_CODE(c, OpCompositeExtract, u32, bits, lanes, 0);
    SPV_CODE(c, OpBitcast, spv_type_id(c, SPV_I32), c->lane_id, bits);
}

void spv_module_begin(spv_compile *c)
{
    const uint32_t u32 = spv_type_id(c, SPV_U32), vector = spv_id(c), input = spv_id(c);
    c->import = spv_id(c);
    c->void_function = spv_id(c);
    SPV_OP(c, &c->globals, OpTypeFunction, c->void_function, spv_type_id(c, SPV_VOID));
    SPV_OP(c, &c->globals, OpTypeVector, vector, u32, 3);
    SPV_OP(c, &c->globals, OpTypePointer, input, ClassInput, vector);
    push_type(c);
    const uint32_t group = spv_builtin_new(c, BuiltInWorkgroupId, input), lane = spv_builtin_new(c, BuiltInLocalInvocationId, input);
    places_read(c, vector, group, lane);
    if (c->source->checks_loops)
        stopped_begin(c);
}

static void matrix_capabilities(spv_compile *c, spv_words *out)
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

static void head_write(spv_compile *c, uint32_t main, spv_words *out)
{
    static const uint32_t capability[] = {CapShader, CapInt64, CapStorageBuffer16, CapStorageBuffer8, CapAddresses, CapKeepNan};
    const uint32_t head[] = {SPV_MAGIC, SPV_VERSION, 0, c->n_id + 1, 0};
    const bool nan = c->source->keeps_nan;
    spv_words_add(c, out, head, 5);
    for (size_t i = 0; i < sizeof capability / sizeof *capability - !nan; i++)
        SPV_OP(c, out, OpCapability, capability[i]);
    if (c->uses_subgroups) {
        SPV_OP(c, out, OpCapability, CapSubgroup);
        SPV_OP(c, out, OpCapability, CapSubgroupBallot);
    }
    if (c->uses_matrices)
        matrix_capabilities(c, out);
    if (c->uses_matrices)
        op_text(c, out, OpExtension, NULL, 0, "SPV_KHR_cooperative_matrix", NULL);
    if (c->half_id[1])
        op_text(c, out, OpExtension, NULL, 0, "SPV_KHR_bfloat16", NULL);
    op_text(c, out, OpExtInstImport, &c->import, 1, "GLSL.std.450", NULL);
    SPV_OP(c, out, OpMemoryModel, ModelAddresses64, c->uses_matrices ? ModelVulkan : ModelGlsl450);
    op_text(c, out, OpEntryPoint, (const uint32_t[]){ModelCompute, main}, 2, "main", &c->interface);
    SPV_OP(c, out, OpExecutionMode, main, ModeLocalSize, c->source->local, 1, 1);
    if (nan)
        SPV_OP(c, out, OpExecutionMode, main, ModeKeepNan, 32);
}

void spv_module_end(spv_compile *c, spv_words *out)
{
    const uint32_t main = spv_id(c);
    if (c->open)
        spv_kernel_return(c);
    const uint32_t first = c->code.n > 1 ? c->code.at[1] : 0; /* label of the first block, which begins with the variables */
    head_write(c, main, out);
    spv_words_add(c, out, c->decorations.at, c->decorations.n);
    spv_words_add(c, out, c->globals.at, c->globals.n);
    SPV_OP(c, out, OpFunction, spv_type_id(c, SPV_VOID), main, 0, c->void_function);
    SPV_OP(c, out, OpLabel, first);
    spv_words_add(c, out, c->variables.at, c->variables.n);
    if (c->code.n > 2)
        spv_words_add(c, out, c->code.at + 2, c->code.n - 2);
    spv_op(c, out, OpFunctionEnd, NULL, 0);
}
