/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program under construction: adds units without repetition, launches, and their arguments. All rules of this folder build with it, in
 * the thread that makes the program.
 *
 * Additions after a failure are no-ops, so that the lowering of a node checks only once, at its end.
 */
#include <stdio.h>

#include "plugins/kit/lower/lower_internal.h"

void kit_lower_fail(kit_lowering *ctx, yk_status s)
{
    if (ctx->failed == YK_OK)
        ctx->failed = s;
}

/* Makes sure that the array has capacity for one more entry. */
static bool array_reserve(kit_lowering *ctx, void **array, size_t n, size_t *cap, size_t entry_bytes)
{
    const yk_host *host = ctx->target->host;
    if (ctx->failed != YK_OK)
        return false;
    if (n < *cap)
        return true;
    const size_t more = 2 * *cap + 32;
    void *bigger = host->alloc(more * entry_bytes, 64);
    if (!bigger) {
        host->fail(ctx->target->plugin, "out of memory: %zu bytes for a program's launches", more * entry_bytes);
        kit_lower_fail(ctx, YK_E_MEM);
        return false;
    }
    if (*array) {
        memcpy(bigger, *array, n * entry_bytes);
        host->free(*array);
    }
    *array = bigger;
    *cap = more;
    return true;
}

/* ---- Units ---- */

static uint32_t unit_add(kit_lowering *ctx, kit_unit unit)
{
    kit_program *program = ctx->program;
    if (!array_reserve(ctx, (void **)&program->unit, program->n_unit, &program->cap_unit, sizeof *program->unit))
        return YK_NONE;
    program->unit[program->n_unit] = unit;
    return (uint32_t)program->n_unit++;
}

static uint32_t unit_of_file(kit_lowering *ctx, const char *file, const char *macros)
{
    const kit_program *program = ctx->program;
    kit_unit unit = {.file = file};
    for (uint32_t i = 0; i < program->n_unit; i++)
        if (program->unit[i].file && !strcmp(program->unit[i].file, file) && !strcmp(program->unit[i].macros, macros))
            return i;
    const int n = snprintf(unit.macros, sizeof unit.macros, "%s", macros);
    if (n < 0 || (size_t)n >= sizeof unit.macros) {
        ctx->target->host->fail(ctx->target->plugin, "the macros of a unit of %s are too long: %s", file, macros);
        kit_lower_fail(ctx, YK_E_INTERNAL);
        return YK_NONE;
    }
    return unit_add(ctx, unit);
}

static bool text_good(kit_lowering *ctx, const kit_text *text)
{
    if (!text->bad && text->data)
        return true;
    ctx->target->host->fail(ctx->target->plugin, "node %u: generating its kernel: %s", ctx->node,
                            text->no_memory ? "out of memory" : "its operands make no text");
    kit_lower_fail(ctx, text->no_memory ? YK_E_MEM : YK_E_INTERNAL);
    return false;
}

/* The hash of the kernel's text under a name that is always the same. */
static bool text_key(kit_lowering *ctx, kit_emit_fn emit, const void *what, uint64_t *key)
{
    kit_text text;
    kit_text_init(&text, ctx->target->host);
    emit(&text, "k", what);
    const bool good = text_good(ctx, &text);
    if (good)
        *key = kit_hash(KIT_HASH_SEED, text.data, text.length);
    kit_text_free(&text);
    return good;
}

uint32_t kit_unit_generated(kit_lowering *ctx, const char *prefix, const char *macros, kit_emit_fn emit, const void *what)
{
    kit_program *program = ctx->program;
    kit_unit unit = {.begin = program->text.length};
    if (ctx->failed != YK_OK || !text_key(ctx, emit, what, &unit.key))
        return YK_NONE;
    for (uint32_t i = 0; i < program->n_unit; i++)
        if (!program->unit[i].file && program->unit[i].key == unit.key)
            return i;
    snprintf(unit.kernel, sizeof unit.kernel, "%s%016llx", prefix, (unsigned long long)unit.key);
    snprintf(unit.macros, sizeof unit.macros, "%s", macros);
    emit(&program->text, unit.kernel, what);
    unit.end = program->text.length;
    return text_good(ctx, &program->text) ? unit_add(ctx, unit) : YK_NONE;
}

/* ---- Tensor cores ---- */

bool kit_mma_takes(const kit_target *target, uint32_t dtype)
{
    return !target->cpu_shape && !target->lanes && ((target->mma == 16 && dtype == YK_BF16) || (target->mma >= 8 && dtype == YK_F16));
}

void kit_mma_note(const kit_lowering *ctx, uint32_t dtype, bool used)
{
    const kit_target *target = ctx->target;
    const yk_node *n = &ctx->graph->node[ctx->node];
    if ((target->mma || target->coop_lanes) && dtype != YK_F32 && ctx->failed == YK_OK)
        target->host->log(3, target->plugin, "node %u (%s of %s) computes %s", n->stream, kit_op_name(n->op), kit_type(dtype),
                          !used ? "in fp32" : target->mma ? "by tensor cores" : "by cooperative matrices");
}

/* ---- Launches ---- */

uint32_t kit_team(const kit_target *target, uint32_t gpu)
{
    return target->cpu_shape ? 1 : target->lanes && target->lanes < gpu ? target->lanes : gpu;
}

int64_t kit_lane_elements(const kit_target *target)
{
    return target->four ? 4 : 1;
}

uint32_t kit_gpu_team(const kit_target *target)
{
    return target->max_group && target->max_group < KIT_GROUP_MOST ? KIT_GROUP_LEAST : KIT_GROUP_MOST;
}

static void launch_add(kit_lowering *ctx, uint32_t unit, const char *kernel, int64_t x, int64_t y, int64_t z, uint32_t local)
{
    kit_program *program = ctx->program;
    if (unit == YK_NONE ||
        !array_reserve(ctx, (void **)&program->launch, program->n_launch, &program->cap_launch, sizeof *program->launch))
        return;
    kit_launch *launch = &program->launch[program->n_launch++];
    *launch = (kit_launch){.unit = unit,
                           .product = YK_NONE,
                           .attention = YK_NONE,
                           .convolution = YK_NONE,
                           .node = ctx->node,
                           .groups = {(uint64_t)x, (uint64_t)y, (uint64_t)z},
                           .local = local,
                           .arg = (uint32_t)program->n_arg};
    snprintf(launch->kernel, sizeof launch->kernel, "%s", kernel);
}

void kit_launch_add(kit_lowering *ctx, const char *file, const char *macros, const char *kernel, int64_t x, int64_t y, int64_t z,
                    uint32_t local)
{
    if (ctx->failed == YK_OK)
        launch_add(ctx, unit_of_file(ctx, file, macros), kernel, x, y, z, kit_team(ctx->target, local));
}

void kit_launch_add_generated(kit_lowering *ctx, uint32_t unit, int64_t x, int64_t y, int64_t z, uint32_t local)
{
    if (ctx->failed == YK_OK)
        launch_add(ctx, unit, ctx->program->unit[unit].kernel, x, y, z, local);
}

/* A library's launch, without its kind; NULL after a failure. */
static kit_launch *library_add(kit_lowering *ctx, const char *name)
{
    kit_program *program = ctx->program;
    if (!array_reserve(ctx, (void **)&program->launch, program->n_launch, &program->cap_launch, sizeof *program->launch))
        return NULL;
    kit_launch *launch = &program->launch[program->n_launch++];
    *launch = (kit_launch){.unit = YK_NONE,
                           .product = YK_NONE,
                           .attention = YK_NONE,
                           .convolution = YK_NONE,
                           .node = ctx->node,
                           .groups = {1, 1, 1},
                           .local = 1,
                           .arg = (uint32_t)program->n_arg};
    snprintf(launch->kernel, sizeof launch->kernel, "%s", name);
    return launch;
}

void kit_launch_add_product(kit_lowering *ctx, const kit_product *product)
{
    kit_program *program = ctx->program;
    if (!array_reserve(ctx, (void **)&program->product, program->n_product, &program->cap_product, sizeof *program->product))
        return;
    program->product[program->n_product] = *product;
    kit_launch *launch = library_add(ctx, "product");
    if (launch)
        launch->product = (uint32_t)program->n_product++;
}

void kit_launch_add_attention(kit_lowering *ctx, const kit_attention *attention)
{
    kit_program *program = ctx->program;
    if (!array_reserve(ctx, (void **)&program->attention, program->n_attention, &program->cap_attention, sizeof *program->attention))
        return;
    program->attention[program->n_attention] = *attention;
    kit_launch *launch = library_add(ctx, "flash");
    if (launch)
        launch->attention = (uint32_t)program->n_attention++;
}

void kit_launch_add_convolution(kit_lowering *ctx, const kit_convolution *convolution)
{
    kit_program *program = ctx->program;
    if (!array_reserve(ctx, (void **)&program->convolution, program->n_convolution, &program->cap_convolution,
                       sizeof *program->convolution))
        return;
    program->convolution[program->n_convolution] = *convolution;
    kit_launch *launch = library_add(ctx, "convolution");
    if (launch)
        launch->convolution = (uint32_t)program->n_convolution++;
}

/* ---- Arguments ---- */

static void arg_add(kit_lowering *ctx, kit_arg arg)
{
    kit_program *program = ctx->program;
    if (!array_reserve(ctx, (void **)&program->arg, program->n_arg, &program->cap_arg, sizeof *program->arg))
        return;
    program->arg[program->n_arg++] = arg;
    program->launch[program->n_launch - 1].n_arg++;
}

void kit_arg_value(kit_lowering *ctx, uint32_t value)
{
    kit_arg_value_at(ctx, value, 0);
}

void kit_arg_value_at(kit_lowering *ctx, uint32_t value, int64_t element)
{
    const yk_value *v = &ctx->graph->value[value];
    const uint32_t bytes = yk_dtype_bytes(v->dtype);
    if (ctx->failed == YK_OK && v->slot >= ctx->graph->n_slot) {
        ctx->target->host->fail(ctx->target->plugin, "value %u of node %u has no slot", value, ctx->node);
        kit_lower_fail(ctx, YK_E_ARG);
    }
    arg_add(ctx, (kit_arg){.kind = KIT_ARG_SLOT,
                           .element = (uint8_t)bytes,
                           .slot = v->slot,
                           .value.offset = v->offset + (uint64_t)element * bytes});
}

void kit_arg_wide(kit_lowering *ctx, uint32_t value, uint32_t bytes)
{
    kit_program *program = ctx->program;
    kit_arg_value(ctx, value);
    if (ctx->failed == YK_OK)
        program->arg[program->n_arg - 1].element = (uint8_t)bytes;
}

void kit_launch_add_elsewhere(kit_lowering *ctx, const yk_node *n, uint32_t place)
{
    kit_launch *launch = library_add(ctx, place == KIT_PLACE_HOST ? "host" : "library");
    if (launch)
        launch->place = place;
    for (uint32_t i = 0; i < (uint32_t)n->n_in + n->n_out; i++)
        kit_arg_wide(ctx, ctx->graph->index[i < n->n_in ? n->in + i : n->out + i - n->n_in], 1);
}

void kit_arg_in(kit_lowering *ctx, const yk_node *n, uint32_t i)
{
    kit_arg_value(ctx, ctx->graph->index[n->in + (i < n->n_in ? i : 0)]);
}

void kit_arg_out(kit_lowering *ctx, const yk_node *n, uint32_t i)
{
    kit_arg_value(ctx, ctx->graph->index[n->out + (i < n->n_out ? i : 0)]);
}

void kit_arg_scratch(kit_lowering *ctx, uint64_t offset, uint64_t bytes, uint32_t element)
{
    if (ctx->program->scratch_bytes < offset + bytes)
        ctx->program->scratch_bytes = offset + bytes;
    arg_add(ctx, (kit_arg){.kind = KIT_ARG_SCRATCH, .element = (uint8_t)element, .value.offset = offset});
}

void kit_arg_meta(kit_lowering *ctx, const int64_t *meta, uint32_t n)
{
    kit_program *program = ctx->program;
    const uint64_t at = program->n_meta * sizeof *meta;
    for (uint32_t i = 0; i < n; i++)
        if (array_reserve(ctx, (void **)&program->meta, program->n_meta, &program->cap_meta, sizeof *program->meta))
            program->meta[program->n_meta++] = meta[i];
    arg_add(ctx, (kit_arg){.kind = KIT_ARG_META, .element = sizeof *meta, .value.offset = at});
}

void kit_arg_i64(kit_lowering *ctx, int64_t v)
{
    arg_add(ctx, (kit_arg){.kind = KIT_ARG_I64, .value.i64 = v});
}

void kit_arg_i32(kit_lowering *ctx, int64_t v)
{
    arg_add(ctx, (kit_arg){.kind = KIT_ARG_I32, .value.i32 = (int32_t)v});
}

void kit_arg_f32(kit_lowering *ctx, double v)
{
    arg_add(ctx, (kit_arg){.kind = KIT_ARG_F32, .value.f32 = (float)v});
}
