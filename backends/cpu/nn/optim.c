/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizer steps and gradient statistics on flat f32 arrays: one pass, each byte read and written once. A cast that follows
 * and keeps the new values in 16 bits is made in the same pass. */
#include <string.h>

#include "backends/cpu/cpu.h"

#define BLOCK 4096
#define CUT 65536 /* elements of one partial sum of grad_stats */

typedef struct optim_args {
    cpu_ref g, hyper, in[4], out[4]; /* p, m, v, vmax; or p, b */
    cpu_ref copy16;                  /* the first n_low values of p in 16 bits */
    int n_state, flags, copy16_dtype;
    bool adam;
    int64_t n, n_copy16;
} optim_args;

static struct cpu_adam read_hyper(const float *h, int flags)
{
    return (struct cpu_adam){h[YK_HYPER_LR], h[YK_HYPER_B1], h[YK_HYPER_B2], h[YK_HYPER_EPS], h[YK_HYPER_DECAY],
                             h[YK_HYPER_GRAD_SCALE], h[YK_HYPER_CLIP], h[YK_HYPER_C1], h[YK_HYPER_SQRT_C2],
                             h[YK_HYPER_FIRST], flags};
}

static void store_copy16(const optim_args *a, const cpu_ctx *c, const float *p, int64_t i, int64_t n)
{
    if (i < a->n_copy16)
        c->isa->from_f32((char *)cpu_at(c, a->copy16) + 2 * i, p, a->copy16_dtype, (size_t)(a->n_copy16 - i < n ? a->n_copy16 - i : n));
}

static void optim_step(const void *args, const cpu_ctx *c)
{
    const optim_args *a = args;
    struct cpu_adam h = read_hyper(cpu_at(c, a->hyper), a->flags);
    const float *g = cpu_at(c, a->g);
    int64_t lo, hi;
    cpu_part((a->n + BLOCK - 1) / BLOCK, c->tid, c->nt, &lo, &hi);
    for (int64_t i = lo * BLOCK; i < hi * BLOCK && i < a->n; i += BLOCK) {
        size_t n = (size_t)(a->n - i < BLOCK ? a->n - i : BLOCK);
        float *s[4] = {NULL, NULL, NULL, NULL};
        for (int k = 0; k < a->n_state; k++) {
            const float *from = (const float *)cpu_at(c, a->in[k]) + i;
            s[k] = (float *)cpu_at(c, a->out[k]) + i;
            if (from != s[k])
                memcpy(s[k], from, n * 4);
        }
        if (a->adam)
            c->isa->adam(&h, g + i, s[0], s[1], s[2], s[3], n);
        else
            c->isa->sgd(&h, g + i, s[0], s[1], n);
        store_copy16(a, c, s[0], i, (int64_t)n);
    }
}

typedef struct grad_args {
    cpu_ref g, scale, y;
    int64_t n, cuts;
} grad_args;

static void grad_stats_step(const void *args, const cpu_ctx *c)
{
    const grad_args *a = args;
    double *part = (double *)(void *)c->shared_ws;
    float scale = *(const float *)cpu_at(c, a->scale);
    int64_t lo, hi;
    cpu_part(a->cuts, c->tid, c->nt, &lo, &hi);
    for (int64_t k = lo; k < hi; k++) {
        size_t n = (size_t)(a->n - k * CUT < CUT ? a->n - k * CUT : CUT);
        part[2 * k] = part[2 * k + 1] = 0.0;
        c->isa->stats((const float *)cpu_at(c, a->g) + k * CUT, scale, n, &part[2 * k], &part[2 * k + 1]);
    }
}

static void grad_combine_step(const void *args, const cpu_ctx *c)
{
    const grad_args *a = args;
    const double *part = (const double *)(const void *)c->shared_ws;
    float *y = cpu_at(c, a->y);
    double s = 0.0, bad = 0.0;
    for (int64_t k = 0; k < a->cuts; k++) {
        s += part[2 * k];
        bad += part[2 * k + 1];
    }
    if (c->tid)
        return;
    y[0] = (float)s;
    y[1] = (float)bad;
}

static bool same_place(const yk_value *a, const yk_value *b)
{
    return a->slot == b->slot && a->offset == b->offset && a->dtype == b->dtype;
}

/* The node behind this one casts the new values, or the first of them, to 16 bits. */
static void fuse_cast(cpu_build *b, const yk_node *n, optim_args *a)
{
    const yk_node *next = n + 1;
    if (next == b->g->node + b->g->n_node || next->op != YK_OP_CAST)
        return;
    const yk_value *x = cpu_in(b, next, 0), *y = cpu_out(b, next, 0);
    if (!same_place(x, cpu_out(b, n, 0)) || (y->dtype != YK_BF16 && y->dtype != YK_F16) || !cpu_is_dense(x) ||
        !cpu_is_dense(y) || cpu_count(x) > a->n)
        return;
    a->copy16 = cpu_ref_of(y);
    a->copy16_dtype = y->dtype;
    a->n_copy16 = cpu_count(x);
    b->joined = 1;
}

void cpu_plan_optim(cpu_build *b, const yk_node *n)
{
    const yk_value *g = cpu_in(b, n, 0);
    if (n->op == YK_OP_GRAD_STATS) {
        grad_args *a = cpu_args(b, sizeof *a);
        if (!a)
            return;
        *a = (grad_args){cpu_ref_of(g), cpu_ref_of(cpu_in(b, n, 1)), cpu_ref_of(cpu_out(b, n, 0)), cpu_count(g), 0};
        a->cuts = (a->n + CUT - 1) / CUT;
        cpu_need_shared_ws(b, (size_t)a->cuts * 16);
        cpu_emit(b, grad_stats_step, a, (double)a->n * 0.1);
        cpu_emit(b, grad_combine_step, a, (double)a->cuts);
        return;
    }
    optim_args *a = cpu_args(b, sizeof *a);
    if (!a)
        return;
    a->adam = n->op == YK_OP_ADAM_STEP;
    a->flags = (int)cpu_attr(b, n, 0);
    a->n = cpu_count(g);
    a->g = cpu_ref_of(g);
    a->n_state = n->n_out;
    uint32_t hyper = a->adam ? 4 : n->n_in - 1u; /* adam: g p m v hyper [vmax]; sgd: g p [b] hyper */
    a->hyper = cpu_ref_of(cpu_in(b, n, hyper));
    for (uint32_t k = 0; k < n->n_out; k++) {
        a->in[k] = cpu_ref_of(cpu_in(b, n, k == 3 ? 5 : k + 1));
        a->out[k] = cpu_ref_of(cpu_out(b, n, k));
    }
    fuse_cast(b, n, a);
    cpu_emit(b, optim_step, a, (double)a->n * 0.45);
}
