/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 3x3 convolutions of step 1, forward and dx, by Winograd's F(4x4, 3x3) (kern_wino.inc). cpu_conv.c plans it while a program is compiled,
 * in any thread; its steps run on the workers. conv_wino_dw.c shares the cut of the image into tiles. There are 36 products of matrices
 * M[e] = V[e] U[e], for each element e of the transformed tiles. V is [tile, channel], U [channel, result channel].
 *
 * All data is in blocks of one vector of channels (kern_block.inc), so that transforms work on whole vectors for any image size. A worker
 * takes a group of neighbouring rows of tiles with all channels. It transforms them, multiplies with the weights (transformed once for all
 * groups), and transforms back. V and M of a group live in its second cache.
 *
 * With more channels than tiles, the transformed weights, 36 words for nine, would pass through memory for each group. Then all tiles are
 * transformed first. A worker takes a panel of two blocks of results with all tiles: it transforms its weights, multiplies and transforms
 * back.
 */
#include <string.h>

#include "backends/cpu/conv/conv_wino.h"
#include "backends/cpu/isa/conv_kernels.h"
#include "backends/cpu/isa/pack_kernels.h"
#include "backends/cpu/isa/vec_kernels.h"
#include "plugins/kit/value.h"

#define GROUP_BYTES (1 << 20) /* V and M of a group of tiles */
#define LEAST_TILES 48        /* the transformed weights are read once for each group */
#define AHEAD 4                /* weights are prefetched so many lots of channels ahead */
#define LOT 3                 /* channels whose weights are transposed at once, at most */
#define PANEL_BYTES (1 << 20)  /* bytes of transformed weights that pass a panel at a time */

typedef struct wino_args {
    wino_source x; /* as the product sees it: dx swaps the roles */
    wino_grid grid;
    cpu_ref w_ref, y_ref;
    int64_t out_channels, oh, ow, out_blocks; /* result channels, size, blocks of channels */
    int64_t w_out_stride, w_in_stride;        /* words of w from one result (source) channel to the next */
    bool flip;                                /* taps in reverse order */
    uint8_t w_dtype, y_dtype;
    int64_t rows;              /* rows of tiles in a group */
    size_t v_stride, m_stride; /* words from one element to the next */
    size_t at_m;               /* in a worker's scratch; V at 0 */
    wino_scratch scratch;
    const int32_t *offset; /* [blocks of V]: offsets in whole groups, then in the last one */
    bool by_panel;         /* V of all tiles in the shared scratch, and U of a panel in a worker's; else U in the shared one */
    size_t u_stride;
    int64_t ranges; /* ranges of tiles; more than one keeps more workers busy */
} wino_args;

/* ---- Weights ---- */

/* Channels whose taps are transposed at once: in contiguous bf16 a vector of words holds three. */
static int64_t lot_of(const wino_args *wino)
{
    return wino->w_dtype == YK_BF16 && wino->w_in_stride == 9 ? LOT : 1;
}

/* `taps` numbers from w on, the n results of a block in the lanes */
static void transpose_taps(const wino_args *wino, const cpu_ctx *ctx, const char *w, int64_t n, size_t taps, float *g)
{
    float widened[9 * 16];
    uint32_t *to = (uint32_t *)(void *)g;
    const size_t vw = (size_t)ctx->isa->vw, pitch = (size_t)(wino->w_out_stride * yk_dtype_bytes(wino->w_dtype));
    if (wino->w_dtype == YK_BF16) {
        ctx->isa->pack->transpose_bf16(to, vw, w, pitch, (size_t)n, taps);
        return;
    }
    if (wino->w_dtype == YK_F32) {
        ctx->isa->pack->transpose(to, vw, w, pitch, (size_t)n, taps);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        ctx->isa->vec->to_f32(widened + i * 9, w + i * (int64_t)pitch, wino->w_dtype, 9);
    ctx->isa->pack->transpose(to, vw, widened, 9 * 4, (size_t)n, 9);
}

/* the 36 vectors of a block of results for each of `lot` channels: vectors `stride` words apart, channels `channel_stride` */
static void taps_in(const wino_args *wino, const cpu_ctx *ctx, int64_t block, int64_t ch, int64_t lot, float *u, size_t stride,
                    int64_t channel_stride)
{
    float g[LOT * 9 * 16 + 16];
    int64_t vw = ctx->isa->vw, n = kit_min(vw, wino->out_channels - block * vw), item = yk_dtype_bytes(wino->w_dtype);
    int64_t there = ch < wino->x.planes.channels ? kit_min(lot, wino->x.planes.channels - ch) : 0;
    const char *w = (const char *)cpu_at(ctx, wino->w_ref) + (block * vw * wino->w_out_stride + ch * wino->w_in_stride) * item;
    for (int64_t i = 0; i < n; i++)
        __builtin_prefetch(w + (i * wino->w_out_stride + lot * AHEAD * wino->w_in_stride) * item);
    if (there)
        transpose_taps(wino, ctx, w, n, (size_t)there * 9, g);
    memset(g + there * 9 * vw, 0, (size_t)((lot - there) * 9 * vw) * 4);
    for (int64_t i = 0; i < lot; i++)
        ctx->isa->wino->taps(u + i * channel_stride, stride, g + i * 9 * vw, wino->flip);
}

/* U[e][panel of two vectors of results][channel][results] */
static void weights_step(const void *args, const cpu_ctx *ctx)
{
    const wino_args *wino = args;
    int64_t lo, hi, vw = ctx->isa->vw, padded = wino->x.planes.blocks * vw;
    float *u = (float *)(void *)ctx->shared_ws;
    cpu_part(wino->out_blocks * padded, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t t = lo, lot; t < hi; t += lot) {
        int64_t block = t / padded, ch = t % padded, panel = block / 2, w2 = kit_min(2, wino->out_blocks - 2 * panel) * vw;
        lot = kit_min(kit_min(lot_of(wino), hi - t), padded - ch);
        taps_in(wino, ctx, block, ch, lot, u + panel * 2 * vw * padded + ch * w2 + block % 2 * vw, wino->u_stride, w2);
    }
}

/* ---- Input ---- */

static void piece_in(const wino_source *s, const wino_grid *grid, const wino_scratch *scratch, const cpu_ctx *ctx,
                     const wino_piece *piece, int64_t block, float *v, size_t stride)
{
    int64_t vw = ctx->isa->vw, lines = s->grad ? 4 : 6;
    int64_t y0 = 4 * piece->from - s->pad_y, y1 = kit_min(4 * (piece->to - 1) + lines - s->pad_y, s->planes.height),
            first = y0 < 0 ? 0 : y0;
    float *plane = (float *)(void *)(ctx->thread_ws + scratch->plane), *zero = (float *)(void *)(ctx->thread_ws + scratch->zero);
    if (y1 > first)
        cpu_plane_in(ctx, &s->planes, piece->image, block, first, y1 - first, ctx->thread_ws + scratch->stage, plane);
    for (int64_t r = piece->from; r < piece->to; r++, v += grid->tiles_x * vw) {
        const float *row[6];
        for (int64_t i = 0; i < lines; i++) {
            int64_t y = 4 * r - s->pad_y + i;
            row[i] = y < 0 || y >= s->planes.height ? zero : plane + (y - first) * s->planes.width * vw;
        }
        (s->grad ? ctx->isa->wino->grad : ctx->isa->wino->in)(v, stride, row, -s->pad_x, s->planes.width, (size_t)grid->tiles_x);
    }
}

wino_piece cpu_wino_piece(const wino_grid *grid, int64_t r0, int64_t r, int64_t r1)
{
    return (wino_piece){r / grid->tiles_y, r % grid->tiles_y, kit_min(grid->tiles_y, r % grid->tiles_y + r1 - r),
                        (r - r0) * grid->tiles_x};
}

void cpu_wino_in(const wino_source *s, const wino_grid *grid, const wino_scratch *scratch, const cpu_ctx *ctx, int64_t r0, int64_t r1,
                 const wino_place *to)
{
    memset(ctx->thread_ws + scratch->zero, 0, scratch->zeros);
    for (int64_t b = 0; b < s->planes.blocks; b++)
        for (int64_t r = r0; r < r1;) {
            wino_piece piece = cpu_wino_piece(grid, r0, r, r1);
            piece_in(s, grid, scratch, ctx, &piece, b, to->v + (b * to->tiles + piece.tile) * ctx->isa->vw, to->stride);
            r += piece.to - piece.from;
        }
}

/* ---- Products ---- */

/* The product of one element and panel: M[block][tile] from V, with blocks at off, and U[channel][results]. */
static void panel_product(const wino_args *wino, const cpu_ctx *ctx, const float *v, const int32_t *off, const float *u, float *m,
                          int64_t tiles, int nv)
{
    int64_t vw = ctx->isa->vw, strips = (tiles + ctx->isa->mr - 1) / ctx->isa->mr;
    for (int64_t s = 0; s < strips; s++) {
        int64_t i = tiles * s / strips, n = tiles * (s + 1) / strips - i;
        ctx->isa->conv[CPU_WORDS_F32]->rows[n][nv]((size_t)wino->x.planes.blocks, (size_t)vw, v + i * vw, off, u, m + i * vw,
                                                   (size_t)(tiles * vw), 0);
    }
}

static void group_products(const wino_args *wino, const cpu_ctx *ctx, int64_t tiles, const int32_t *off)
{
    int64_t vw = ctx->isa->vw, words = wino->x.planes.blocks * vw;
    const float *u = (const float *)(void *)ctx->shared_ws, *v = (const float *)(void *)ctx->thread_ws;
    float *m = (float *)(void *)(ctx->thread_ws + wino->at_m);
    for (int64_t e = 0; e < WINO_ELEMENTS; e++, v += wino->v_stride, u += wino->u_stride, m += wino->m_stride)
        for (int64_t o = 0; o < wino->out_blocks; o += 2)
            panel_product(wino, ctx, v, off, u + o * vw * words, m + o * tiles * vw, tiles, wino->out_blocks - o < 2 ? 1 : 2);
}

/* ---- Result ---- */

/* copies pixels of whole tiles to those of the image, in place */
static void plane_crop(float *y, int64_t lines, int64_t from, int64_t to)
{
    for (int64_t i = 1; i < lines; i++)
        memmove(y + i * to, y + i * from, (size_t)to * 4);
}

/* m: the block's products */
static void piece_out(const wino_args *wino, const cpu_ctx *ctx, const wino_piece *piece, const float *m, int64_t block)
{
    int64_t vw = ctx->isa->vw, size = wino->oh * wino->ow, line = wino->grid.tiles_x * 4 * vw, y0 = 4 * piece->from;
    int64_t lines = kit_min(4 * piece->to, wino->oh) - y0;
    float *plane = (float *)(void *)(ctx->thread_ws + wino->scratch.plane);
    m += piece->tile * vw;
    for (int64_t t = piece->from; t < piece->to; t++, m += wino->grid.tiles_x * vw)
        ctx->isa->wino->out(plane + (t - piece->from) * 4 * line, (size_t)line, m, wino->m_stride, (size_t)wino->grid.tiles_x);
    if (wino->grid.tiles_x * 4 != wino->ow)
        plane_crop(plane, lines, line, wino->ow * vw);
    char *y = cpu_at(ctx, wino->y_ref);
    y += ((piece->image * wino->out_channels + block * vw) * size + y0 * wino->ow) * yk_dtype_bytes(wino->y_dtype);
    cpu_plane_out(ctx, plane, lines * wino->ow, kit_min(vw, wino->out_channels - block * vw), y, wino->y_dtype, size,
                  (float *)(void *)(ctx->thread_ws + wino->scratch.stage));
}

/* blocks b0 .. b1 - 1 of results, rows r0 .. r1 - 1 of tiles */
static void blocks_out(const wino_args *wino, const cpu_ctx *ctx, int64_t b0, int64_t b1, int64_t r0, int64_t r1)
{
    const float *m = (const float *)(void *)(ctx->thread_ws + wino->at_m);
    for (int64_t b = b0; b < b1; b++, m += (r1 - r0) * wino->grid.tiles_x * ctx->isa->vw)
        for (int64_t r = r0; r < r1;) {
            wino_piece piece = cpu_wino_piece(&wino->grid, r0, r, r1);
            piece_out(wino, ctx, &piece, m, b);
            r += piece.to - piece.from;
        }
}

static void wino_step(const void *args, const cpu_ctx *ctx)
{
    const wino_args *wino = args;
    int64_t lo, hi, all = wino->grid.images * wino->grid.tiles_y;
    cpu_part((all + wino->rows - 1) / wino->rows, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t g = lo; g < hi && !cpu_stops(ctx); g++) {
        int64_t r0 = g * wino->rows, r1 = kit_min(all, r0 + wino->rows), tiles = (r1 - r0) * wino->grid.tiles_x;
        wino_place v = {(float *)(void *)ctx->thread_ws, wino->v_stride, tiles};
        cpu_wino_in(&wino->x, &wino->grid, &wino->scratch, ctx, r0, r1, &v);
        group_products(wino, ctx, tiles, wino->offset + (r1 - r0 < wino->rows ? wino->x.planes.blocks : 0));
        blocks_out(wino, ctx, 0, wino->out_blocks, r0, r1);
    }
}

/* ---- More channels than tiles ---- */

static void tiles_in_step(const void *args, const cpu_ctx *ctx)
{
    const wino_args *wino = args;
    int64_t lo, hi, all = wino->grid.images * wino->grid.tiles_y;
    cpu_part(all, ctx->piece, ctx->pieces, &lo, &hi);
    wino_place v = {(float *)(void *)ctx->shared_ws + lo * wino->grid.tiles_x * ctx->isa->vw, wino->v_stride, all * wino->grid.tiles_x};
    cpu_wino_in(&wino->x, &wino->grid, &wino->scratch, ctx, lo, hi, &v);
}

/* U of a panel: [e][channel][results] */
static void panel_weights(const wino_args *wino, const cpu_ctx *ctx, int64_t panel, int nv)
{
    int64_t vw = ctx->isa->vw, padded = wino->x.planes.blocks * vw;
    for (int i = 0; i < nv; i++)
        for (int64_t ch = 0, lot; ch < padded; ch += lot) {
            lot = kit_min(lot_of(wino), padded - ch);
            taps_in(wino, ctx, 2 * panel + i, ch, lot, (float *)(void *)ctx->thread_ws + (ch * nv + i) * vw, wino->u_stride, nv * vw);
        }
}

static void panel_step(const void *args, const cpu_ctx *ctx)
{
    const wino_args *wino = args;
    int64_t lo, hi, made = -1, vw = ctx->isa->vw;
    cpu_part((wino->out_blocks + 1) / 2 * wino->ranges, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t t = lo; t < hi && !cpu_stops(ctx); t++) {
        int64_t r0, r1, panel = t / wino->ranges;
        int nv = wino->out_blocks - 2 * panel < 2 ? 1 : 2;
        cpu_part(wino->grid.images * wino->grid.tiles_y, (int)(t % wino->ranges), (int)wino->ranges, &r0, &r1);
        if (panel != made)
            panel_weights(wino, ctx, made = panel, nv);
        const float *v = (const float *)(void *)ctx->shared_ws + r0 * wino->grid.tiles_x * vw,
                    *u = (const float *)(void *)ctx->thread_ws;
        float *m = (float *)(void *)(ctx->thread_ws + wino->at_m);
        for (int64_t e = 0; e < WINO_ELEMENTS && !cpu_stops(ctx); e++, v += wino->v_stride, u += wino->u_stride, m += wino->m_stride)
            panel_product(wino, ctx, v, wino->offset, u, m, (r1 - r0) * wino->grid.tiles_x, nv);
        blocks_out(wino, ctx, 2 * panel, 2 * panel + nv, r0, r1);
    }
}

/* ---- Planning ---- */

/* Depends on the shape and the instruction set alone. Tiles over the edge must not eat the gain; AMX multiplies bf16
 * many times faster than f32. */
bool cpu_wino_fits(const cpu_isa *isa, const conv_problem *problem)
{
    const conv_shape *shape = &problem->shape;
    int64_t tiles = (shape->oh + 3) / 4 * ((shape->ow + 3) / 4), back = (shape->h + 3) / 4 * ((shape->w + 3) / 4);
    bool form = shape->kh == 3 && shape->kw == 3 && shape->sh == 1 && shape->sw == 1 && shape->dil_h == 1 && shape->dil_w == 1 &&
                shape->groups == 1 && shape->ph <= 2 && shape->pw <= 2;
    return form && !(isa->bf16 == CPU_BF16_TILES && problem->x_dtype == YK_BF16) && shape->n >= 4 && shape->c >= 8 && shape->o >= 8 &&
           shape->n * tiles >= 64 && tiles * 16 <= 2 * shape->oh * shape->ow && back * 16 <= 2 * shape->h * shape->w &&
           shape->oh * shape->ow >= isa->vw && shape->h * shape->w >= isa->vw;
}

int64_t cpu_wino_rows(const wino_grid *grid, int64_t tile_bytes, int64_t bytes, int64_t least, int64_t nt)
{
    int64_t all = grid->images * grid->tiles_y, most = bytes / tile_bytes < least ? least : bytes / tile_bytes;
    int64_t rows = most / grid->tiles_x < 1 ? 1 : kit_min(most / grid->tiles_x, all), groups = (all + rows - 1) / rows;
    groups = (groups + nt - 1) / nt * nt;
    return (all + groups - 1) / groups;
}

size_t cpu_wino_stride(const cpu_isa *isa, int64_t blocks, int64_t tiles)
{
    return (size_t)((blocks * tiles + 1) * isa->vw); /* one line more: elements do not meet in one set of the cache */
}

wino_scratch cpu_wino_scratch(const cpu_isa *isa, size_t from, const wino_grid *grid, int64_t rows, int64_t width)
{
    size_t vw = (size_t)isa->vw, in = (size_t)((kit_min(rows, grid->tiles_y) * 4 + 2) * width);
    size_t out = (size_t)(kit_min(rows, grid->tiles_y) * grid->tiles_x * 16), bytes = ((in > out ? in : out) + vw) * vw * 4;
    wino_scratch scratch = {.plane = kit_round_bytes(from, 4096) + 128, .zeros = (size_t)width * vw * 4};
    scratch.zero = scratch.plane + kit_round_bytes(bytes, 4096) + 128;
    scratch.stage = scratch.zero + kit_round_bytes(scratch.zeros, 4096) + 128;
    scratch.end = scratch.stage + bytes;
    return scratch;
}

static void set_groups(cpu_build *build, wino_args *wino)
{
    int64_t vw = build->isa->vw, all = wino->grid.images * wino->grid.tiles_y;
    wino->rows = cpu_wino_rows(&wino->grid, WINO_ELEMENTS * 4 * (wino->x.planes.blocks + wino->out_blocks) * vw, GROUP_BYTES,
                               LEAST_TILES, build->workers);
    int32_t *off = cpu_args(build, (size_t)(2 * wino->x.planes.blocks) * sizeof *off);
    for (int64_t i = 0; off && i < 2 * wino->x.planes.blocks; i++) {
        int64_t last = all % wino->rows ? all % wino->rows : wino->rows;
        off[i] = (int32_t)(i % wino->x.planes.blocks * (i < wino->x.planes.blocks ? wino->rows : last) * wino->grid.tiles_x * vw);
    }
    wino->offset = off;
    wino->u_stride = (size_t)(wino->x.planes.blocks * wino->out_blocks * vw * vw);
    wino->v_stride = cpu_wino_stride(build->isa, wino->x.planes.blocks, wino->rows * wino->grid.tiles_x);
    wino->m_stride = cpu_wino_stride(build->isa, wino->out_blocks, wino->rows * wino->grid.tiles_x);
    wino->at_m = kit_round_bytes(WINO_ELEMENTS * wino->v_stride * 4, 4096) + 128;
    wino->scratch = cpu_wino_scratch(build->isa, wino->at_m + WINO_ELEMENTS * wino->m_stride * 4, &wino->grid, wino->rows,
                                     wino->x.planes.width);
    cpu_need_thread_ws(build, wino->scratch.end);
    cpu_need_shared_ws(build, (size_t)(WINO_ELEMENTS * wino->x.planes.blocks * wino->out_blocks * vw * vw) * 4);
}

/* Depends on the shape; only the number of ranges on the workers. */
static bool set_by_panel(cpu_build *build, wino_args *wino)
{
    int64_t vw = build->isa->vw, all = wino->grid.images * wino->grid.tiles_y, tiles = all * wino->grid.tiles_x,
            panels = (wino->out_blocks + 1) / 2;
    if (tiles > wino->out_channels || WINO_ELEMENTS * 4 * wino->x.planes.blocks * wino->out_blocks * vw * vw <= PANEL_BYTES)
        return false;
    int32_t *off = cpu_args(build, (size_t)wino->x.planes.blocks * sizeof *off);
    for (int64_t i = 0; off && i < wino->x.planes.blocks; i++)
        off[i] = (int32_t)(i * tiles * vw);
    wino->offset = off;
    wino->by_panel = true;
    wino->ranges = kit_min((build->workers + panels - 1) / panels, all);
    wino->rows = (all + wino->ranges - 1) / wino->ranges;
    wino->u_stride = (size_t)((2 * vw * wino->x.planes.blocks + 1) * vw); /* an odd number of lines, like cpu_wino_stride */
    wino->v_stride = cpu_wino_stride(build->isa, wino->x.planes.blocks, tiles);
    wino->m_stride = cpu_wino_stride(build->isa, 2, wino->rows * wino->grid.tiles_x);
    wino->at_m = kit_round_bytes(WINO_ELEMENTS * wino->u_stride * 4, 4096) + 128;
    wino->scratch =
        cpu_wino_scratch(build->isa, wino->at_m + WINO_ELEMENTS * wino->m_stride * 4, &wino->grid, all, wino->x.planes.width);
    cpu_need_thread_ws(build, wino->scratch.end);
    cpu_need_shared_ws(build, WINO_ELEMENTS * wino->v_stride * 4);
    return true;
}

static void wino_plan(cpu_build *build, const conv_problem *problem)
{
    const yk_node *node = problem->node;
    const conv_shape *shape = &problem->shape;
    bool dx = node->op == YK_OP_CONV2D_DX;
    const yk_value *x = cpu_in(build, node, 0), *w = cpu_in(build, node, 1), *y = cpu_out(build, node, 0);
    int64_t vw = build->isa->vw;
    wino_args *wino = cpu_args(build, sizeof *wino);
    if (!wino)
        return;
    *wino = (wino_args){.x = {{cpu_ref_of(x), x->dim[1], x->dim[2], x->dim[3], (x->dim[1] + vw - 1) / vw, x->dtype, false, 0},
                              dx ? 2 - shape->ph : shape->ph,
                              dx ? 2 - shape->pw : shape->pw,
                              false},
                        .grid = {shape->n, (y->dim[2] + 3) / 4, (y->dim[3] + 3) / 4},
                        .w_ref = cpu_ref_of(w),
                        .y_ref = cpu_ref_of(y),
                        .out_channels = y->dim[1],
                        .oh = y->dim[2],
                        .ow = y->dim[3],
                        .out_blocks = (y->dim[1] + vw - 1) / vw,
                        .w_out_stride = dx ? 9 : 9 * shape->c,
                        .w_in_stride = dx ? 9 * shape->c : 9,
                        .flip = dx,
                        .w_dtype = w->dtype,
                        .y_dtype = y->dtype};
    if (!set_by_panel(build, wino))
        set_groups(build, wino);
    double weights = (double)(shape->c * shape->o);
    cpu_emit(build, wino->by_panel ? tiles_in_step : weights_step, wino, weights * 10);
    cpu_emit(build, wino->by_panel ? panel_step : wino_step, wino, (double)(shape->n * wino->oh * wino->ow) * weights * 18 / 180);
}

const conv_algorithm cpu_conv_wino = {"winograd", cpu_wino_fits, wino_plan};
