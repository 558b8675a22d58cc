/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of the weights by Winograd's F(3x3, 4x4): E[e] = sum over tiles of X[e, tile, c] G[e, tile, o], X and G the transformed
 * tiles of the input and of the result's gradient. Then each E[., c, o] goes back to nine taps. cpu_conv.c plans it while a program is
 * compiled, in any thread; its steps run on the workers.
 *
 * Few channels: the images are cut into fixed parts, a worker keeps a part's E; the parts are added in order. Many channels: all tiles are
 * transformed first, then workers take squares of E, all elements, and finish them.
 */
#include <string.h>

#include "backends/cpu/conv/conv_wino.h"
#include "backends/cpu/isa/conv_kernels.h"
#include "plugins/kit/value.h"

#define GROUP_BYTES (768 << 10) /* X and G of a group of tiles */
#define LEAST_TILES 48          /* E is read and written once for each group */
#define MOST_CUTS 16
#define CUT_TILES 64 /* at least: E of a part is written and added as a whole */
#define SUMS_BYTES (20 << 20)   /* bytes of E of all parts */
#define FEW (128 * 128)         /* channels times results that are few */
#define ALL_BYTES (96 << 20)    /* bytes of X and G of all tiles */
#define SQUARE_C 2              /* blocks of a square of E */
#define SQUARE_O 4
#define KC 128 /* tiles at a time: a block of X and two of G in the first cache */

typedef struct dw_wino {
    wino_source x, gy;
    wino_grid grid;
    wino_scratch scratch;
    cpu_ref gw_ref;
    int64_t in_channels, out_channels, in_blocks, out_blocks;
    int64_t cuts, rows;            /* parts of the images; rows of tiles in a group */
    size_t e_stride, e_cut_stride; /* words from one element, one part to the next */
    size_t at_g;                   /* offset of G after X, in the worker's or the shared scratch */
    size_t at_taps;                /* in the worker's scratch */
    uint8_t dtype;
    bool accumulate;
} dw_wino;

/* ---- E back to taps ---- */

/* channels c0 .. c0 + nc - 1 (a block at most) of result block `block`; e: their first vector, rows ld apart */
static void sums_finish(const dw_wino *wino, const cpu_ctx *ctx, const float *e, size_t stride, int64_t ld, int64_t c0, int64_t nc,
                        int64_t block)
{
    int64_t vw = ctx->isa->vw;
    float *taps = (float *)(void *)(ctx->thread_ws + wino->at_taps);
    for (int64_t i = 0; i < nc; i++)
        ctx->isa->wino->sums(taps + i * 9 * vw, e + i * ld, stride);
    cpu_taps_out(ctx, taps, 9, nc, kit_min(vw, wino->out_channels - block * vw), taps + 9 * vw * vw,
                 (char *)cpu_at(ctx, wino->gw_ref) + (block * vw * wino->in_channels + c0) * 9 * yk_dtype_bytes(wino->dtype),
                 wino->in_channels * 9, wino->dtype, wino->accumulate);
}

/* ---- Few channels ---- */

static void add_products(const dw_wino *wino, const cpu_ctx *ctx, const float *x, const float *gy, int64_t tiles, float *e, bool add)
{
    int64_t vw = ctx->isa->vw;
    size_t xs = cpu_wino_stride(ctx->isa, wino->in_blocks, tiles), gs = cpu_wino_stride(ctx->isa, wino->out_blocks, tiles);
    for (int64_t i = 0; i < WINO_ELEMENTS; i++, x += xs, gy += gs, e += wino->e_stride)
        for (int64_t b = 0; b < wino->in_blocks; b++)
            for (int64_t o = 0; o < wino->out_blocks; o += 2)
                ctx->isa->conv[CPU_WORDS_F32]->outer[kit_min(2, wino->out_blocks - o)](
                    1, (size_t)tiles, x + b * tiles * vw, 0, gy + o * tiles * vw, 0, (size_t)(tiles * vw),
                    e + (b * vw * wino->out_blocks + o) * vw, (size_t)(wino->out_blocks * vw), add);
}

static void part_step(const void *args, const cpu_ctx *ctx)
{
    const dw_wino *wino = args;
    int64_t lo, hi, r0, r1;
    float *x = (float *)(void *)ctx->thread_ws, *gy = (float *)(void *)(ctx->thread_ws + wino->at_g);
    cpu_part(wino->cuts, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t p = lo; p < hi; p++) {
        cpu_part(wino->grid.images * wino->grid.tiles_y, (int)p, (int)wino->cuts, &r0, &r1);
        for (int64_t r = r0; r < r1 && !cpu_stops(ctx); r += wino->rows) {
            int64_t to = kit_min(r1, r + wino->rows), tiles = (to - r) * wino->grid.tiles_x;
            wino_place px = {x, cpu_wino_stride(ctx->isa, wino->in_blocks, tiles), tiles};
            wino_place pg = {gy, cpu_wino_stride(ctx->isa, wino->out_blocks, tiles), tiles};
            cpu_wino_in(&wino->x, &wino->grid, &wino->scratch, ctx, r, to, &px);
            cpu_wino_in(&wino->gy, &wino->grid, &wino->scratch, ctx, r, to, &pg);
            add_products(wino, ctx, x, gy, tiles, (float *)(void *)ctx->shared_ws + (size_t)p * wino->e_cut_stride, r > r0);
        }
    }
}

/* the parts' sums in order, a row of blocks of one element at a time */
static void sum_step(const void *args, const cpu_ctx *ctx)
{
    const dw_wino *wino = args;
    int64_t lo, hi, vw = ctx->isa->vw;
    size_t n = (size_t)(vw * vw * wino->out_blocks);
    cpu_part(WINO_ELEMENTS * wino->in_blocks, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        float *e = (float *)(void *)ctx->shared_ws + (size_t)(t / wino->in_blocks) * wino->e_stride + (size_t)(t % wino->in_blocks) * n;
        cpu_cuts_sum(ctx, e, wino->e_cut_stride, wino->cuts, n);
    }
}

static void finish_step(const void *args, const cpu_ctx *ctx)
{
    const dw_wino *wino = args;
    int64_t lo, hi, vw = ctx->isa->vw;
    cpu_part(wino->in_blocks * wino->out_blocks, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t b = t / wino->out_blocks, o = t % wino->out_blocks;
        const float *e = (const float *)(const void *)ctx->shared_ws + (b * vw * wino->out_blocks + o) * vw;
        sums_finish(wino, ctx, e, wino->e_stride, wino->out_blocks * vw, b * vw, kit_min(vw, wino->in_channels - b * vw), o);
    }
}

/* ---- Many channels ---- */

static void transform_step(const void *args, const cpu_ctx *ctx)
{
    const dw_wino *wino = args;
    int64_t lo, hi, all = wino->grid.images * wino->grid.tiles_y, vw = ctx->isa->vw;
    cpu_part((all + wino->rows - 1) / wino->rows, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t i = lo; i < hi && !cpu_stops(ctx); i++) {
        int64_t r = i * wino->rows, to = kit_min(all, r + wino->rows), tiles = all * wino->grid.tiles_x;
        float *x = (float *)(void *)ctx->shared_ws + r * wino->grid.tiles_x * vw;
        float *gy = (float *)(void *)(ctx->shared_ws + wino->at_g) + r * wino->grid.tiles_x * vw;
        wino_place px = {x, cpu_wino_stride(ctx->isa, wino->in_blocks, tiles), tiles};
        wino_place pg = {gy, cpu_wino_stride(ctx->isa, wino->out_blocks, tiles), tiles};
        cpu_wino_in(&wino->x, &wino->grid, &wino->scratch, ctx, r, to, &px);
        cpu_wino_in(&wino->gy, &wino->grid, &wino->scratch, ctx, r, to, &pg);
    }
}

/* blocks c0 .. c0 + nc - 1 of channels, o0 .. o0 + no - 1 of results, all elements */
static void square_products(const dw_wino *wino, const cpu_ctx *ctx, int64_t c0, int64_t nc, int64_t o0, int64_t no)
{
    int64_t vw = ctx->isa->vw, tiles = wino->grid.images * wino->grid.tiles_y * wino->grid.tiles_x;
    size_t xs = cpu_wino_stride(ctx->isa, wino->in_blocks, tiles), gs = cpu_wino_stride(ctx->isa, wino->out_blocks, tiles);
    float *e = (float *)(void *)ctx->thread_ws;
    const float *x = (const float *)(const void *)ctx->shared_ws + c0 * tiles * vw;
    const float *gy = (const float *)(const void *)(ctx->shared_ws + wino->at_g) + o0 * tiles * vw;
    for (int64_t i = 0; i < WINO_ELEMENTS && !cpu_stops(ctx); i++, x += xs, gy += gs, e += wino->e_stride)
        for (int64_t k = 0; k < tiles; k += KC)
            for (int64_t b = 0; b < nc; b++)
                for (int64_t o = 0; o < no; o += 2)
                    ctx->isa->conv[CPU_WORDS_F32]->outer[kit_min(2, no - o)](
                        1, (size_t)kit_min(KC, tiles - k), x + (b * tiles + k) * vw, 0, gy + (o * tiles + k) * vw, 0,
                        (size_t)(tiles * vw), e + (b * vw * no + o) * vw, (size_t)(no * vw), k > 0);
    e = (float *)(void *)ctx->thread_ws;
    for (int64_t b = 0; b < nc; b++)
        for (int64_t o = 0; o < no; o++)
            sums_finish(wino, ctx, e + (b * vw * no + o) * vw, wino->e_stride, no * vw, (c0 + b) * vw,
                        kit_min(vw, wino->in_channels - (c0 + b) * vw), o0 + o);
}

static void square_step(const void *args, const cpu_ctx *ctx)
{
    const dw_wino *wino = args;
    int64_t lo, hi, across = (wino->out_blocks + SQUARE_O - 1) / SQUARE_O, down = (wino->in_blocks + SQUARE_C - 1) / SQUARE_C;
    cpu_part(across * down, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t t = lo; t < hi && !cpu_stops(ctx); t++) {
        int64_t c0 = t / across * SQUARE_C, o0 = t % across * SQUARE_O;
        square_products(wino, ctx, c0, kit_min(SQUARE_C, wino->in_blocks - c0), o0, kit_min(SQUARE_O, wino->out_blocks - o0));
    }
}

/* ---- Planning ---- */

static void plan_few(cpu_build *build, dw_wino *wino, double work)
{
    int64_t vw = build->isa->vw, all = wino->grid.images * wino->grid.tiles_y;
    wino->e_stride = (size_t)(wino->in_blocks * wino->out_blocks * vw * vw);
    wino->e_cut_stride = WINO_ELEMENTS * wino->e_stride;
    wino->cuts = MOST_CUTS; /* halved, so that two workers, or four, have equal parts */
    while (wino->cuts > 1 && (wino->cuts > all || all * wino->grid.tiles_x < wino->cuts * CUT_TILES ||
                              wino->cuts * (int64_t)(wino->e_cut_stride * 4) > SUMS_BYTES))
        wino->cuts /= 2;
    wino_grid part = {1, (all + wino->cuts - 1) / wino->cuts, wino->grid.tiles_x};
    wino->rows = cpu_wino_rows(&part, WINO_ELEMENTS * 4 * (wino->in_blocks + wino->out_blocks) * vw, GROUP_BYTES, LEAST_TILES, 1);
    int64_t tiles = wino->rows * wino->grid.tiles_x;
    wino->at_g = kit_round_bytes(WINO_ELEMENTS * cpu_wino_stride(build->isa, wino->in_blocks, tiles) * 4, 4096) + 128;
    wino->scratch =
        cpu_wino_scratch(build->isa, wino->at_g + WINO_ELEMENTS * cpu_wino_stride(build->isa, wino->out_blocks, tiles) * 4,
                         &wino->grid, wino->rows, wino->x.planes.width + 4);
    wino->at_taps = wino->scratch.plane;
    cpu_need_thread_ws(build, wino->scratch.end + (size_t)(20 * vw * vw) * 4);
    cpu_need_shared_ws(build, (size_t)wino->cuts * wino->e_cut_stride * 4);
    cpu_emit(build, part_step, wino, work);
    if (wino->cuts > 1)
        cpu_emit(build, sum_step, wino, (double)((size_t)wino->cuts * wino->e_cut_stride) * 0.2);
    cpu_emit(build, finish_step, wino, (double)wino->e_cut_stride);
}

static void plan_many(cpu_build *build, dw_wino *wino, double work)
{
    int64_t vw = build->isa->vw, tiles = wino->grid.images * wino->grid.tiles_y * wino->grid.tiles_x;
    size_t x = WINO_ELEMENTS * cpu_wino_stride(build->isa, wino->in_blocks, tiles) * 4,
           gy = WINO_ELEMENTS * cpu_wino_stride(build->isa, wino->out_blocks, tiles) * 4;
    wino->e_stride = (size_t)(SQUARE_C * SQUARE_O * vw * vw + vw);
    wino->at_g = kit_round_bytes(x, 4096) + 128;
    wino->rows =
        cpu_wino_rows(&wino->grid, WINO_ELEMENTS * 4 * (wino->in_blocks + wino->out_blocks) * vw, GROUP_BYTES, 1, build->workers);
    wino->scratch = cpu_wino_scratch(build->isa, WINO_ELEMENTS * wino->e_stride * 4, &wino->grid, wino->rows, wino->x.planes.width + 4);
    wino->at_taps = wino->scratch.plane;
    cpu_need_thread_ws(build, wino->scratch.end + (size_t)(20 * vw * vw) * 4);
    cpu_need_shared_ws(build, wino->at_g + gy);
    cpu_emit(build, transform_step, wino, work / 4);
    cpu_emit(build, square_step, wino, work);
}

static void wino_dw_plan(cpu_build *build, const conv_problem *problem)
{
    const yk_node *node = problem->node;
    const conv_shape *shape = &problem->shape;
    const yk_value *gy = cpu_in(build, node, 0), *x = cpu_in(build, node, 1), *gw = cpu_out(build, node, 0);
    int64_t vw = build->isa->vw;
    dw_wino *wino = cpu_args(build, sizeof *wino);
    if (!wino)
        return;
    *wino = (dw_wino){.in_channels = shape->c,
                      .out_channels = shape->o,
                      .in_blocks = (shape->c + vw - 1) / vw,
                      .out_blocks = (shape->o + vw - 1) / vw,
                      .gw_ref = cpu_ref_of(gw),
                      .grid = {shape->n, (shape->oh + 3) / 4, (shape->ow + 3) / 4},
                      .dtype = gw->dtype,
                      .accumulate = node->flags & YK_NODE_ACCUMULATE};
    wino->x = (wino_source){
        {cpu_ref_of(x), shape->c, shape->h, shape->w, wino->in_blocks, x->dtype, false, 0}, shape->ph, shape->pw, false};
    wino->gy = (wino_source){{cpu_ref_of(gy), shape->o, shape->oh, shape->ow, wino->out_blocks, gy->dtype, false, 0}, 0, 0, true};
    int64_t all =
        wino->grid.images * wino->grid.tiles_y * wino->grid.tiles_x * WINO_ELEMENTS * (wino->in_blocks + wino->out_blocks) * vw * 4;
    double work = (double)(shape->n * shape->oh * shape->ow) * (double)(shape->c * shape->o) * 18 / 180;
    if (wino->in_blocks * wino->out_blocks * vw * vw <= FEW || all > ALL_BYTES)
        plan_few(build, wino, work);
    else
        plan_many(build, wino, work);
}

const conv_algorithm cpu_conv_wino_dw = {"winograd", cpu_wino_fits, wino_dw_plan};
