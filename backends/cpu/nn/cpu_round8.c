/* SPDX-License-Identifier: Apache-2.0 */
/*
 * round8: rounds a value to 8 bits, scaled by the largest power of two that keeps its largest element in the format. cpu_ops.c calls
 * cpu_plan_round8 for a node while a program is compiled; the emitted steps run on the workers.
 *
 * One step finds that element, by integers; one rounds. The second step also makes a following cast of the whole result from f32 to bf16.
 */
#include <string.h>

#include "backends/cpu/isa/row_kernels.h"
#include "backends/cpu/isa/vec_kernels.h"
#include "backends/cpu/nn/nn.h"
#include "plugins/kit/value.h"

#define BLOCK 4096
#define CUT 65536           /* elements per partial maximum */
#define INFINITE 0x7f800000 /* bits of infinity in f32 */
#define LEAST_SCALED (-90)  /* least exponent of the largest element for the scale */

static const struct {
    int mantissa, least, most; /* mantissa bits; exponents of the least normal and of the largest number */
} formats[] = {[YK_ROUND8_E4M3] = {3, -6, 8}, [YK_ROUND8_E5M2] = {2, -14, 15}};

typedef struct round8_args {
    cpu_ref x, y, copy16; /* copy16: y in bf16, if wanted */
    int64_t count, cuts;
    uint8_t dtype, format;
} round8_args;

static float power_of_two(int e)
{
    const uint32_t bits = (uint32_t)(e + 127) << 23;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The exponent of the factor, from the bits of the largest magnitude. */
static int scale_of(int32_t size, int most)
{
    const int e = (size >> 23) - 127;
    if (size >= INFINITE)
        return 0;
    return most - (e < LEAST_SCALED ? LEAST_SCALED : e + ((size & 0x7fffff) > 0x600000)); /* above 1.75 2^e it would overflow the format */
}

static cpu_round8 factors_of(const round8_args *round, const cpu_ctx *ctx)
{
    const int32_t *part = (const int32_t *)(const void *)ctx->shared_ws;
    const int most = formats[round->format].most;
    int32_t size = 0;
    for (int64_t k = 0; k < round->cuts; k++)
        size = part[k] > size ? part[k] : size;
    const int scale = scale_of(size, most);
    return (cpu_round8){power_of_two(scale), power_of_two(-scale), 1.75f * power_of_two(most),
                        power_of_two(formats[round->format].least), power_of_two(23 - formats[round->format].mantissa)};
}

static const char *elements_of(const round8_args *round, const cpu_ctx *ctx, cpu_ref r, int64_t i)
{
    return (const char *)cpu_at(ctx, r) + i * yk_dtype_bytes(round->dtype);
}

static void size_step(const void *args, const cpu_ctx *ctx)
{
    const round8_args *round = args;
    int32_t *part = (int32_t *)(void *)ctx->shared_ws;
    int64_t lo, hi;
    cpu_part(round->cuts, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t k = lo; k < hi; k++) {
        const int64_t left = round->count - k * CUT;
        part[k] = cpu_rows_of(ctx->isa, round->dtype)->size(elements_of(round, ctx, round->x, k * CUT), (size_t)(left < CUT ? left : CUT));
    }
}

static void round_step(const void *args, const cpu_ctx *ctx)
{
    const round8_args *round = args;
    const cpu_round8 to = factors_of(round, ctx);
    int64_t lo, hi;
    cpu_part((round->count + BLOCK - 1) / BLOCK, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t i = lo * BLOCK; i < hi * BLOCK && i < round->count; i += BLOCK) {
        const size_t n = (size_t)(round->count - i < BLOCK ? round->count - i : BLOCK);
        char *y = (char *)cpu_at(ctx, round->y) + i * yk_dtype_bytes(round->dtype);
        cpu_rows_of(ctx->isa, round->dtype)->round8(y, elements_of(round, ctx, round->x, i), &to, n);
        if (round->copy16.slot != YK_NONE)
            ctx->isa->vec->from_f32((char *)cpu_at(ctx, round->copy16) + 2 * i, (const float *)(const void *)y, YK_BF16, n);
    }
}

/* True if y, the next node's result, overlaps x: it may, as x is dead there. */
static bool memory_shared(const yk_value *x, const yk_value *y, int64_t n)
{
    return x->slot == y->slot && x->offset < y->offset + (uint64_t)n * yk_dtype_bytes(y->dtype) &&
           y->offset < x->offset + (uint64_t)n * yk_dtype_bytes(x->dtype);
}

/* Merges the next node if it casts the whole result to bf16. */
static void fuse_cast(cpu_build *build, const yk_node *node, round8_args *round)
{
    const yk_node *next = node + 1;
    if (next == build->graph->node + build->graph->n_node || next->op != YK_OP_CAST)
        return;
    const yk_value *x = cpu_in(build, next, 0), *y = cpu_out(build, next, 0), *own = cpu_out(build, node, 0);
    if (own->dtype != YK_F32 || x->dtype != YK_F32 || y->dtype != YK_BF16 || x->slot != own->slot || x->offset != own->offset ||
        !kit_value_dense(x) || !kit_value_dense(y) || kit_value_count(x) != round->count ||
        memory_shared(cpu_in(build, node, 0), y, round->count))
        return;
    round->copy16 = cpu_ref_of(y);
    build->joined = 1;
}

void cpu_plan_round8(cpu_build *build, const yk_node *node)
{
    const yk_value *x = cpu_in(build, node, 0);
    round8_args *round = cpu_args(build, sizeof *round);
    if (!round)
        return;
    *round = (round8_args){.x = cpu_ref_of(x),
                           .y = cpu_ref_of(cpu_out(build, node, 0)),
                           .copy16 = {YK_NONE, 0},
                           .count = kit_value_count(x),
                           .dtype = x->dtype,
                           .format = (uint8_t)cpu_attr(build, node, 0)};
    round->cuts = (round->count + CUT - 1) / CUT;
    fuse_cast(build, node, round);
    cpu_need_shared_ws(build, (size_t)round->cuts * sizeof(int32_t));
    cpu_emit(build, size_step, round, (double)round->count * 0.05);
    cpu_emit(build, round_step, round, (double)round->count * 0.15);
}
