/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimizer steps (SGD, Adam) and gradient statistics on flat f32 arrays: one pass, each byte read and written once. The same pass makes a
 * following cast that keeps the new values in 16 bits.
 *
 * cpu_ops.c calls cpu_plan_optim for a node while a program is compiled; the emitted steps run on the workers, each on a range of elements.
 */
#include <string.h>

#include "backends/cpu/isa/optim_kernels.h"
#include "backends/cpu/isa/vec_kernels.h"
#include "backends/cpu/nn/nn.h"
#include "plugins/kit/value.h"

#define BLOCK 4096
#define CUT 65536 /* elements of one partial sum of grad_stats */

typedef struct optim_args {
    cpu_ref g_ref, hyper, in[4], out[4]; /* p, m, v, vmax; or p, b */
    cpu_ref copy16;                      /* the first n_copy16 values of p in 16 bits */
    int n_state, flags, copy16_dtype;
    bool adam;
    int64_t count, n_copy16;
} optim_args;

static cpu_hyper read_hyper(const float *h, int flags)
{
    return (cpu_hyper){h[YK_HYPER_LR], h[YK_HYPER_B1], h[YK_HYPER_B2], h[YK_HYPER_EPS], h[YK_HYPER_DECAY],
                             h[YK_HYPER_GRAD_SCALE], h[YK_HYPER_CLIP], h[YK_HYPER_C1], h[YK_HYPER_SQRT_C2],
                             h[YK_HYPER_FIRST], flags};
}

static void store_copy16(const optim_args *opt, const cpu_ctx *ctx, const float *p, int64_t i, int64_t n)
{
    if (i < opt->n_copy16)
        ctx->isa->vec->from_f32((char *)cpu_at(ctx, opt->copy16) + 2 * i, p, opt->copy16_dtype,
                                (size_t)(opt->n_copy16 - i < n ? opt->n_copy16 - i : n));
}

static void optim_step(const void *args, const cpu_ctx *ctx)
{
    const optim_args *opt = args;
    cpu_hyper h = read_hyper(cpu_at(ctx, opt->hyper), opt->flags);
    const float *g = cpu_at(ctx, opt->g_ref);
    int64_t lo, hi;
    cpu_part((opt->count + BLOCK - 1) / BLOCK, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t i = lo * BLOCK; i < hi * BLOCK && i < opt->count; i += BLOCK) {
        size_t n = (size_t)(opt->count - i < BLOCK ? opt->count - i : BLOCK);
        float *s[4] = {NULL, NULL, NULL, NULL};
        for (int k = 0; k < opt->n_state; k++) {
            const float *from = (const float *)cpu_at(ctx, opt->in[k]) + i;
            s[k] = (float *)cpu_at(ctx, opt->out[k]) + i;
            if (from != s[k])
                memcpy(s[k], from, n * 4);
        }
        if (opt->adam)
            ctx->isa->optim->adam(&h, g + i, s[0], s[1], s[2], s[3], n);
        else
            ctx->isa->optim->sgd(&h, g + i, s[0], s[1], n);
        store_copy16(opt, ctx, s[0], i, (int64_t)n);
    }
}

typedef struct grad_args {
    cpu_ref g_ref, scale, y_ref;
    int64_t count, cuts;
} grad_args;

static void grad_stats_step(const void *args, const cpu_ctx *ctx)
{
    const grad_args *grad = args;
    double *part = (double *)(void *)ctx->shared_ws;
    float scale = *(const float *)cpu_at(ctx, grad->scale);
    int64_t lo, hi;
    cpu_part(grad->cuts, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t k = lo; k < hi; k++) {
        size_t n = (size_t)(grad->count - k * CUT < CUT ? grad->count - k * CUT : CUT);
        part[2 * k] = part[2 * k + 1] = 0.0;
        ctx->isa->optim->stats((const float *)cpu_at(ctx, grad->g_ref) + k * CUT, scale, n, &part[2 * k], &part[2 * k + 1]);
    }
}

static void grad_combine_step(const void *args, const cpu_ctx *ctx)
{
    const grad_args *grad = args;
    const double *part = (const double *)(const void *)ctx->shared_ws;
    float *y = cpu_at(ctx, grad->y_ref);
    double s = 0.0, bad = 0.0;
    for (int64_t k = 0; k < grad->cuts; k++) {
        s += part[2 * k];
        bad += part[2 * k + 1];
    }
    if (ctx->piece)
        return;
    y[0] = (float)s;
    y[1] = (float)bad;
}

static bool same_place(const yk_value *a, const yk_value *b)
{
    return a->slot == b->slot && a->offset == b->offset && a->dtype == b->dtype;
}

/* True if y, the next node's result, lies over an operand, which is dead there: other workers may still read it in the merged step. */
static bool meets_operand(const cpu_build *build, const yk_node *node, const yk_value *y)
{
    const uint64_t end = y->offset + (uint64_t)kit_value_count(y) * yk_dtype_bytes(y->dtype);
    for (uint32_t i = 0; i < node->n_in; i++) {
        const yk_value *x = cpu_in(build, node, i);
        if (x->slot == y->slot && x->offset < end && y->offset < x->offset + (uint64_t)kit_value_count(x) * yk_dtype_bytes(x->dtype))
            return true;
    }
    return false;
}

/* Merges the next node if it casts the new values, or the first of them, to 16 bits. */
static void fuse_cast(cpu_build *build, const yk_node *node, optim_args *opt)
{
    const yk_node *next = node + 1;
    if (next == build->graph->node + build->graph->n_node || next->op != YK_OP_CAST)
        return;
    const yk_value *x = cpu_in(build, next, 0), *y = cpu_out(build, next, 0);
    if (!same_place(x, cpu_out(build, node, 0)) || (y->dtype != YK_BF16 && y->dtype != YK_F16) || !kit_value_dense(x) ||
        !kit_value_dense(y) || kit_value_count(x) > opt->count || meets_operand(build, node, y))
        return;
    opt->copy16 = cpu_ref_of(y);
    opt->copy16_dtype = y->dtype;
    opt->n_copy16 = kit_value_count(x);
    build->joined = 1;
}

void cpu_plan_optim(cpu_build *build, const yk_node *node)
{
    const yk_value *g = cpu_in(build, node, 0);
    if (node->op == YK_OP_GRAD_STATS) {
        grad_args *grad = cpu_args(build, sizeof *grad);
        if (!grad)
            return;
        *grad = (grad_args){cpu_ref_of(g), cpu_ref_of(cpu_in(build, node, 1)), cpu_ref_of(cpu_out(build, node, 0)),
                            kit_value_count(g), 0};
        grad->cuts = (grad->count + CUT - 1) / CUT;
        cpu_need_shared_ws(build, (size_t)grad->cuts * 16);
        cpu_emit(build, grad_stats_step, grad, (double)grad->count * 0.1);
        cpu_emit(build, grad_combine_step, grad, (double)grad->cuts);
        return;
    }
    optim_args *opt = cpu_args(build, sizeof *opt);
    if (!opt)
        return;
    opt->adam = node->op == YK_OP_ADAM_STEP;
    opt->flags = (int)cpu_attr(build, node, 0);
    opt->count = kit_value_count(g);
    opt->g_ref = cpu_ref_of(g);
    opt->n_state = node->n_out;
    uint32_t hyper = opt->adam ? 4 : node->n_in - 1u; /* adam: g p m v hyper [vmax]; sgd: g p [b] hyper */
    opt->hyper = cpu_ref_of(cpu_in(build, node, hyper));
    for (uint32_t k = 0; k < node->n_out; k++) {
        opt->in[k] = cpu_ref_of(cpu_in(build, node, k == 3 ? 5 : k + 1));
        opt->out[k] = cpu_ref_of(cpu_out(build, node, k));
    }
    fuse_cast(build, node, opt);
    cpu_emit(build, optim_step, opt, (double)opt->count * 0.45);
}
