/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans a convolution: chooses its algorithm, the first of a table that fits. cpu_ops.c (backends/cpu) calls cpu_plan_conv for a node while
 * a program is compiled, in any thread.
 *
 * Winograd's and the one on blocks of channels take a node as it is. The other algorithms take products (conv_shape.h). Forward is one
 * product of all pixels. dx is one for each phase of the stride, as input pixels with one remainder modulo the stride see the same subset
 * of taps:
 *
 *   gx[c, (n,q)] = sum_(o,t) w'[c, (o,t)] gy[n, o, at'(q,t)].
 */
#include "backends/cpu/conv/cpu_conv.h"

#include <string.h>

#include "backends/cpu/conv/conv_shape.h"
#include "plugins/kit/value.h"

#define MOST_CUTS 64

/* ---- dx: w' of each phase ---- */

typedef struct filter_args {
    cpu_ref w;
    int64_t groups, out_channels, in_channels, taps, kernel_taps; /* channels of a group; taps of the phase; of the kernel */
    const int32_t *tap;                                           /* list of the phase's taps */
    int64_t ws_offset;
    uint8_t dtype;
} filter_args;

/* w'[g][c][o][t] = w[g][o][c][tap t] */
static void transpose_filter_step(const void *args, const cpu_ctx *ctx)
{
    const filter_args *filter = args;
    int64_t lo, hi, item = yk_dtype_bytes(filter->dtype);
    cpu_part(filter->groups * filter->in_channels, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t r = lo; r < hi; r++) {
        const char *w = (const char *)cpu_at(ctx, filter->w) +
                        (r / filter->in_channels * filter->out_channels * filter->in_channels + r % filter->in_channels) *
                            filter->kernel_taps * item;
        char *to = ctx->shared_ws + filter->ws_offset + r * filter->out_channels * filter->taps * item;
        for (int64_t o = 0; o < filter->out_channels; o++, w += filter->in_channels * filter->kernel_taps * item)
            for (int64_t t = 0; t < filter->taps; t++, to += item)
                memcpy(to, w + filter->tap[t] * item, (size_t)item);
    }
}

/* ---- Choosing ---- */

static void plan_first(cpu_build *build, const conv_problem *problem, const conv_algorithm *const *algorithm)
{
    while (!(*algorithm)->fits(build->isa, problem))
        algorithm++;
    build->algorithm = (*algorithm)->name;
    (*algorithm)->plan(build, problem);
}

static void plan_product(cpu_build *build, const conv_problem *problem)
{
    static const conv_algorithm *const table[] = {&cpu_conv_direct, &cpu_conv_gemm};
    plan_first(build, problem, table);
}

/* ---- The problem ---- */

static conv_shape shape_of(const yk_value *x, const yk_value *w, const yk_value *y, const int64_t *attr)
{
    return (conv_shape){.n = x->dim[0], .c = x->dim[1], .h = x->dim[2], .w = x->dim[3],
                        .o = y->dim[1], .oh = y->dim[2], .ow = y->dim[3], .kh = w->dim[2], .kw = w->dim[3],
                        .sh = attr[0], .sw = attr[1], .ph = attr[2], .pw = attr[3], .dil_h = attr[4], .dil_w = attr[5],
                        .groups = attr[6]};
}

static double work_of(const conv_shape *shape)
{
    return 2.0 * (double)(shape->n * shape->o * shape->oh * shape->ow * shape->kh * shape->kw) *
           (double)(shape->c / shape->groups) / 60.0;
}

static conv_problem problem_of(const cpu_build *build, const yk_node *node)
{
    const yk_value *in0 = cpu_in(build, node, 0), *in1 = cpu_in(build, node, 1), *out = cpu_out(build, node, 0);
    int64_t attr[7];
    for (uint32_t i = 0; i < 7; i++)
        attr[i] = cpu_attr(build, node, i);
    conv_problem problem = {.node = node, .x_dtype = in0->dtype, .w_dtype = in1->dtype};
    if (node->op == YK_OP_CONV2D) {
        problem.shape = shape_of(in0, in1, out, attr);
    } else if (node->op == YK_OP_CONV2D_DX) {
        problem.shape = shape_of(out, in1, in0, attr);
    } else {
        problem.shape = shape_of(in1, out, in0, attr);
        problem.gy_dtype = in0->dtype;
        problem.x_dtype = in1->dtype;
    }
    problem.work = work_of(&problem.shape);
    return problem;
}

/* all taps of the kernel over x, one grid point for each result pixel */
static conv_view input_view(cpu_build *build, const conv_shape *shape, int dtype)
{
    const int64_t taps = shape->kh * shape->kw;
    int32_t *shift = cpu_args(build, (size_t)(2 * taps) * sizeof *shift);
    for (int64_t t = 0; shift && t < taps; t++) {
        shift[t] = (int32_t)(t / shape->kw * shape->dil_h - shape->ph);
        shift[taps + t] = (int32_t)(t % shape->kw * shape->dil_w - shape->pw);
    }
    return (conv_view){.channels = shape->c, .height = shape->h, .width = shape->w, .grid_h = shape->oh, .grid_w = shape->ow,
                       .stride_y = shape->sh, .stride_x = shape->sw, .taps = (int32_t)taps, .shift_y = shift,
                       .shift_x = shift ? shift + taps : NULL, .dtype = (uint8_t)dtype};
}

/* ---- Forward ---- */

static void plan_forward(cpu_build *build, const conv_problem *problem)
{
    const conv_shape *shape = &problem->shape;
    const yk_value *x = cpu_in(build, problem->node, 0), *w = cpu_in(build, problem->node, 1), *y = cpu_out(build, problem->node, 0);
    int64_t in_channels = shape->c / shape->groups, results = shape->o / shape->groups, k = in_channels * shape->kh * shape->kw;
    conv_args conv = {.view = input_view(build, shape, x->dtype), .w_ref = cpu_ref_of(w), .x_ref = cpu_ref_of(x),
                      .y_ref = cpu_ref_of(y), .groups = shape->groups, .images = shape->n, .w_stride = results * k,
                      .x_planes = in_channels, .out_channels = shape->o, .oh = shape->oh, .ow = shape->ow, .stride_y = 1,
                      .stride_x = 1, .w_dtype = w->dtype, .y_dtype = y->dtype, .ws_w = -1};
    conv_problem product = *problem;
    if (build->status != YK_OK)
        return;
    cpu_gemm_init(&conv.gemm, build->isa, results, shape->n * shape->oh * shape->ow, k, w->dtype, x->dtype, true);
    product.product = &conv;
    plan_product(build, &product);
}

/* ---- dx ---- */

/* Lists the taps that reach pixels of remainder (py, px), with (py + ph - ky*dil_h) divisible by sh. shift: shifts in y, shifts in x,
 * tap numbers. */
static int32_t phase_taps(const conv_shape *shape, int64_t py, int64_t px, int32_t *shift)
{
    const int64_t all = shape->kh * shape->kw;
    int32_t taps = 0;
    for (int64_t t = 0; t < all; t++) {
        int64_t ey = py + shape->ph - t / shape->kw * shape->dil_h, ex = px + shape->pw - t % shape->kw * shape->dil_w;
        if (cpu_floor_mod(ey, shape->sh) || cpu_floor_mod(ex, shape->sw))
            continue;
        shift[taps] = (int32_t)(ey / shape->sh);
        shift[all + taps] = (int32_t)(ex / shape->sw);
        shift[2 * all + taps++] = (int32_t)t;
    }
    return taps;
}

/* Adds the step that makes w' of a phase, after those of earlier phases; *ws_bytes: end of their scratch. */
static void emit_filter(cpu_build *build, const conv_problem *problem, int32_t taps, const int32_t *tap, int64_t *ws_bytes)
{
    const conv_shape *shape = &problem->shape;
    const yk_value *w = cpu_in(build, problem->node, 1);
    const int64_t in_channels = shape->c / shape->groups, results = shape->o / shape->groups;
    filter_args *filter = cpu_args(build, sizeof *filter);
    if (!filter)
        return;
    *filter = (filter_args){cpu_ref_of(w), shape->groups, results, in_channels, taps, shape->kh * shape->kw, tap, *ws_bytes, w->dtype};
    const int64_t count = shape->groups * results * in_channels * taps;
    *ws_bytes += (int64_t)kit_round_bytes((size_t)(count * yk_dtype_bytes(w->dtype)), 64);
    cpu_need_shared_ws(build, (size_t)*ws_bytes);
    cpu_emit(build, transpose_filter_step, filter, (double)count * 1.5);
}

/* One phase: pixels iy = qy*sh + py, ix = qx*sw + px. */
static void plan_phase(cpu_build *build, const conv_problem *problem, int64_t py, int64_t px, int64_t *ws_bytes)
{
    const conv_shape *shape = &problem->shape;
    const yk_value *gy = cpu_in(build, problem->node, 0), *w = cpu_in(build, problem->node, 1), *gx = cpu_out(build, problem->node, 0);
    int64_t in_channels = shape->c / shape->groups, results = shape->o / shape->groups, all = shape->kh * shape->kw;
    int64_t grid_h = (shape->h - py + shape->sh - 1) / shape->sh, grid_w = (shape->w - px + shape->sw - 1) / shape->sw;
    int32_t *shift = cpu_args(build, (size_t)(3 * all) * sizeof *shift);
    if (!shift || grid_h <= 0 || grid_w <= 0)
        return;
    const int32_t taps = phase_taps(shape, py, px, shift);
    conv_args conv = {.view = {.channels = shape->o, .height = shape->oh, .width = shape->ow, .grid_h = grid_h, .grid_w = grid_w,
                               .stride_y = 1, .stride_x = 1, .taps = taps, .shift_y = shift, .shift_x = shift + all,
                               .dtype = gy->dtype},
                      .w_ref = cpu_ref_of(w), .x_ref = cpu_ref_of(gy), .y_ref = cpu_ref_of(gx), .groups = shape->groups,
                      .images = shape->n, .w_stride = results * in_channels * taps, .x_planes = results, .out_channels = shape->c,
                      .oh = shape->h, .ow = shape->w, .stride_y = shape->sh, .stride_x = shape->sw, .first_y = py, .first_x = px,
                      .w_dtype = w->dtype, .y_dtype = gx->dtype, .empty = taps == 0, .ws_w = *ws_bytes};
    conv.gemm.m = in_channels;
    if (taps) {
        emit_filter(build, problem, taps, shift + 2 * all, ws_bytes);
        cpu_gemm_init(&conv.gemm, build->isa, in_channels, shape->n * grid_h * grid_w, results * taps, w->dtype, gy->dtype, true);
    }
    conv_problem product = *problem;
    product.product = &conv;
    product.work = problem->work / (double)(shape->sh * shape->sw);
    if (build->status == YK_OK)
        plan_product(build, &product);
}

static bool products_fit(const cpu_isa *isa, const conv_problem *problem)
{
    (void)isa, (void)problem;
    return true;
}

static void plan_products(cpu_build *build, const conv_problem *problem)
{
    const conv_shape *shape = &problem->shape;
    int64_t ws_bytes = 0;
    if (problem->node->op == YK_OP_CONV2D) {
        plan_forward(build, problem);
        return;
    }
    for (int64_t p = 0; p < shape->sh * shape->sw && build->status == YK_OK; p++)
        plan_phase(build, problem, p / shape->sw, p % shape->sw, &ws_bytes);
}

/* ---- The gradient of the weights ---- */

static void choose_cuts(dw_args *dw)
{
    int64_t tiles = dw->groups * ((dw->gemm.m + dw->gemm.mr - 1) / dw->gemm.mr) * ((dw->gemm.n + dw->gemm.nr - 1) / dw->gemm.nr);
    int64_t want = tiles >= 256 ? 1 : (256 + tiles - 1) / tiles, fit = dw->positions / 1024;
    int64_t most = (4 << 20) / (dw->groups * dw->gemm.m * dw->gemm.n);
    want = want > MOST_CUTS ? MOST_CUTS : want;
    want = want > fit ? fit : want;
    want = want > most ? most : want;
    want = want < 1 ? 1 : want;
    dw->cut_positions = (int64_t)kit_round_bytes((size_t)((dw->positions + want - 1) / want), 64);
    dw->cuts = (dw->positions + dw->cut_positions - 1) / dw->cut_positions;
}

static void plan_dw(cpu_build *build, const conv_problem *problem)
{
    static const conv_algorithm *const table[] = {&cpu_conv_wino_dw, &cpu_conv_block_dw, &cpu_conv_direct_dw, &cpu_conv_gemm_dw};
    static const int32_t none[1];
    const conv_shape *shape = &problem->shape;
    const yk_value *gy = cpu_in(build, problem->node, 0), *x = cpu_in(build, problem->node, 1), *gw = cpu_out(build, problem->node, 0);
    dw_args dw = {.view = input_view(build, shape, x->dtype),
                  .grad_view = {shape->o, shape->oh, shape->ow, shape->oh, shape->ow, 1, 1, 1, none, none, gy->dtype},
                  .gy_ref = cpu_ref_of(gy), .x_ref = cpu_ref_of(x), .gw_ref = cpu_ref_of(gw), .groups = shape->groups,
                  .positions = shape->n * shape->oh * shape->ow, .dtype = gw->dtype,
                  .accumulate = problem->node->flags & YK_NODE_ACCUMULATE};
    conv_problem whole = *problem;
    int64_t m = shape->o / shape->groups, n = shape->c / shape->groups * shape->kh * shape->kw;
    if (build->status != YK_OK)
        return;
    cpu_gemm_init(&dw.gemm, build->isa, m, n, dw.positions, gy->dtype, x->dtype, false);
    choose_cuts(&dw);
    cpu_gemm_init(&dw.gemm, build->isa, m, n, dw.cut_positions, gy->dtype, x->dtype, false);
    whole.dw = &dw;
    plan_first(build, &whole, table);
}

void cpu_plan_conv(cpu_build *build, const yk_node *node)
{
    static const conv_algorithm products = {NULL, products_fit, plan_products};
    static const conv_algorithm *const table[] = {&cpu_conv_wino, &cpu_conv_block, &products};
    const conv_problem problem = problem_of(build, node);
    if (node->op == YK_OP_CONV2D_DW)
        plan_dw(build, &problem);
    else
        plan_first(build, &problem, table);
}
