/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program under construction: units without repetition, launches, their arguments. What is added after a failure is
 * left out, so that the lowering of a node needs to ask once, at its end.
 */
#include <stdio.h>

#include "plugins/kit/lower/lower.h"

void kit_lower_fail(kit_lowering *ctx, yk_status s)
{
    if (ctx->failed == YK_OK)
        ctx->failed = s;
}

/* Makes sure that there is a place behind the n entries of an array. */
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
    kit_program *p = ctx->program;
    if (!array_reserve(ctx, (void **)&p->unit, p->n_unit, &p->cap_unit, sizeof *p->unit))
        return YK_NONE;
    p->unit[p->n_unit] = unit;
    return (uint32_t)p->n_unit++;
}

static uint32_t unit_of_file(kit_lowering *ctx, const char *file, const char *macros)
{
    const kit_program *p = ctx->program;
    kit_unit unit = {.file = file};
    for (uint32_t i = 0; i < p->n_unit; i++)
        if (p->unit[i].file && !strcmp(p->unit[i].file, file) && !strcmp(p->unit[i].macros, macros))
            return i;
    const int n = snprintf(unit.macros, sizeof unit.macros, "%s", macros);
    if (n < 0 || (size_t)n >= sizeof unit.macros) {
        ctx->target->host->fail(ctx->target->plugin, "the macros of a unit of %s are too long: %s", file, macros);
        kit_lower_fail(ctx, YK_E_INTERNAL);
        return YK_NONE;
    }
    return unit_add(ctx, unit);
}

static bool text_good(kit_lowering *ctx, const kit_text *t)
{
    if (!t->bad && t->s)
        return true;
    ctx->target->host->fail(ctx->target->plugin, "node %u: generating its kernel: %s", ctx->node,
                            t->no_memory ? "out of memory" : "its operands make no text");
    kit_lower_fail(ctx, t->no_memory ? YK_E_MEM : YK_E_INTERNAL);
    return false;
}

/* The hash of the kernel's text under a name that is always the same. */
static bool text_key(kit_lowering *ctx, kit_emit_fn emit, const void *what, uint64_t *key)
{
    kit_text t;
    kit_text_init(&t, ctx->target->host);
    emit(&t, "k", what);
    const bool good = text_good(ctx, &t);
    if (good)
        *key = kit_hash(KIT_HASH_SEED, t.s, t.n);
    kit_text_free(&t);
    return good;
}

uint32_t kit_unit_generated(kit_lowering *ctx, const char *prefix, kit_emit_fn emit, const void *what)
{
    kit_program *p = ctx->program;
    kit_unit unit = {.begin = p->text.n};
    if (ctx->failed != YK_OK || !text_key(ctx, emit, what, &unit.key))
        return YK_NONE;
    for (uint32_t i = 0; i < p->n_unit; i++)
        if (!p->unit[i].file && p->unit[i].key == unit.key)
            return i;
    snprintf(unit.kernel, sizeof unit.kernel, "%s%016llx", prefix, (unsigned long long)unit.key);
    emit(&p->text, unit.kernel, what);
    unit.end = p->text.n;
    return text_good(ctx, &p->text) ? unit_add(ctx, unit) : YK_NONE;
}

/* ---- Launches ---- */

static void launch_add(kit_lowering *ctx, uint32_t unit, const char *kernel, int64_t x, int64_t y, int64_t z, uint32_t local)
{
    kit_program *p = ctx->program;
    if (unit == YK_NONE || !array_reserve(ctx, (void **)&p->launch, p->n_launch, &p->cap_launch, sizeof *p->launch))
        return;
    kit_launch *launch = &p->launch[p->n_launch++];
    *launch = (kit_launch){.unit = unit,
                           .node = ctx->node,
                           .groups = {(uint64_t)x, (uint64_t)y, (uint64_t)z},
                           .local = ctx->target->cpu_shape ? 1 : local,
                           .arg = (uint32_t)p->n_arg};
    snprintf(launch->kernel, sizeof launch->kernel, "%s", kernel);
}

void kit_launch_add(kit_lowering *ctx, const char *file, const char *macros, const char *kernel, int64_t x, int64_t y, int64_t z,
                    uint32_t local)
{
    if (ctx->failed == YK_OK)
        launch_add(ctx, unit_of_file(ctx, file, macros), kernel, x, y, z, local);
}

void kit_launch_add_generated(kit_lowering *ctx, uint32_t unit, int64_t x, int64_t y, int64_t z, uint32_t local)
{
    if (ctx->failed == YK_OK)
        launch_add(ctx, unit, ctx->program->unit[unit].kernel, x, y, z, local);
}

/* ---- Arguments ---- */

static void arg_add(kit_lowering *ctx, kit_arg arg)
{
    kit_program *p = ctx->program;
    if (!array_reserve(ctx, (void **)&p->arg, p->n_arg, &p->cap_arg, sizeof *p->arg))
        return;
    p->arg[p->n_arg++] = arg;
    p->launch[p->n_launch - 1].n_arg++;
}

void kit_arg_value(kit_lowering *ctx, uint32_t value)
{
    kit_arg_value_at(ctx, value, 0);
}

void kit_arg_value_at(kit_lowering *ctx, uint32_t value, int64_t element)
{
    const yk_value *v = &ctx->g->value[value];
    const uint32_t bytes = yk_dtype_bytes(v->dtype);
    if (ctx->failed == YK_OK && v->slot >= ctx->g->n_slot) {
        ctx->target->host->fail(ctx->target->plugin, "value %u of node %u has no slot", value, ctx->node);
        kit_lower_fail(ctx, YK_E_ARG);
    }
    arg_add(ctx, (kit_arg){.kind = KIT_ARG_SLOT,
                           .element = (uint8_t)bytes,
                           .slot = v->slot,
                           .value.offset = v->offset + (uint64_t)element * bytes});
}

void kit_arg_in(kit_lowering *ctx, const yk_node *n, uint32_t i)
{
    kit_arg_value(ctx, ctx->g->index[n->in + (i < n->n_in ? i : 0)]);
}

void kit_arg_out(kit_lowering *ctx, const yk_node *n, uint32_t i)
{
    kit_arg_value(ctx, ctx->g->index[n->out + (i < n->n_out ? i : 0)]);
}

void kit_arg_scratch(kit_lowering *ctx, uint64_t offset, uint64_t bytes, uint32_t element)
{
    if (ctx->program->scratch_bytes < offset + bytes)
        ctx->program->scratch_bytes = offset + bytes;
    arg_add(ctx, (kit_arg){.kind = KIT_ARG_SCRATCH, .element = (uint8_t)element, .value.offset = offset});
}

void kit_arg_meta(kit_lowering *ctx, const int64_t *meta, uint32_t n)
{
    kit_program *p = ctx->program;
    const uint64_t at = p->n_meta * sizeof *meta;
    for (uint32_t i = 0; i < n; i++)
        if (array_reserve(ctx, (void **)&p->meta, p->n_meta, &p->cap_meta, sizeof *p->meta))
            p->meta[p->n_meta++] = meta[i];
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
