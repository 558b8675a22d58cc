/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lowering of convolutions for the GPU shape, in which groups have many work-items. It runs on a GPU, by its tensor cores for 16 bits,
 * and on lanes of a processor's vector. The kernels are kernels/conv_gpu.kc and conv_mma.kc.
 *
 * lower_conv.c asks it for each node while a program is made, in any thread. A vendor's library has the first choice (conv_library.c).
 */
#include <stdio.h>

#include "plugins/kit/lower/conv_gpu.h"
#include "plugins/kit/lower/conv_library.h"

#define TILE 64           /* columns, on a GPU; rows at most */
#define TILE_ROWS_LEAST 16
#define SUM_BLOCK 1024    /* numbers of a filter's gradient in a group, on lanes, */
#define SUM_TEAM 64
#define JOIN_BLOCK 32     /* and on a GPU */
#define JOIN_TEAM 128
#define DW_GROUPS 1024    /* that sums of a filter's gradient shall be together, on a GPU: chunks are as many as that takes, */
#define DW_CHUNKS_MOST 512
#define DW_PIXELS_LEAST 256 /* least pixels of a chunk, */
#define DW_PIXELS 32        /* which has a multiple of these */
#define LIBRARY_LINE 8    /* bytes that divide a plane, for a product by a library */
#define LANES_ROWS 16     /* rows of a work-item on lanes, about; with all taps of a filter half as many */
#define LANES_PIXELS 4    /* pixels of a row */
#define LANES_SPAN 16     /* columns of the source for those, at most: the translator unrolls loops over them */
#define LANES_TAPS 9      /* taps of a filter whose gradients are in registers, for one channel */
#define LANES_ROUNDS 60000 /* llvmpipe ends loops after 65535 rounds */

/* Tiles on lanes; tall and wide: taps of a filter's gradient, whose rows are cut if longer than LANES_TAPS. */
typedef struct lane_tile {
    int64_t lanes, rows, pixels, span, tall, wide;
} lane_tile;

static void taps_cut(const int64_t *m, lane_tile *t)
{
    t->wide = kit_div_up(m[G_KW], kit_div_up(m[G_KW], LANES_TAPS));
    while (t->tall > 1 && (t->tall * t->wide > LANES_TAPS || m[G_KH] % t->tall))
        t->tall--;
}

static lane_tile lane_tile_of(const kit_target *target, const kit_conv_plan *conv, bool dw)
{
    const int64_t *m = conv->meta;
    lane_tile t = {.lanes = target->lanes, .rows = LANES_ROWS, .pixels = LANES_PIXELS, .tall = m[G_KH], .wide = m[G_KW]};
    if (dw)
        taps_cut(m, &t);
    if (dw && t.tall * t.wide > LANES_TAPS / 2)
        t.rows /= 2;
    while (t.rows > t.lanes && t.rows / 2 >= m[G_M])
        t.rows /= 2;
    if (t.rows < t.lanes)
        t.rows = t.lanes;
    do {
        t.span = (t.pixels - 1) * m[G_SW] + (t.wide - 1) * m[G_DW] + 1;
    } while (t.span > LANES_SPAN && (t.pixels /= 2) > 0);
    return t;
}

/* Rows of a GPU's tile: at most the existing ones. */
static int64_t tile_rows(const kit_conv_plan *conv)
{
    int64_t rows = TILE;
    while (rows > TILE_ROWS_LEAST && rows / 2 >= conv->meta[G_M])
        rows /= 2;
    return rows;
}

/* Images of a chunk, on lanes. */
static int64_t chunk_of(const kit_conv_plan *conv)
{
    return kit_div_up(conv->meta[G_N], KIT_CONV_CHUNKS);
}

/* Pixels of a chunk, on a GPU. */
static int64_t chunk_pixels(const kit_conv_plan *conv)
{
    const int64_t *m = conv->meta, pixels = m[G_N] * m[G_OH] * m[G_OW];
    const int64_t tiles = m[G_GROUPS] * kit_div_up(m[G_M], tile_rows(conv)) * kit_div_up(m[G_C] * m[G_KH] * m[G_KW], TILE);
    const int64_t chunks = kit_min(kit_min(kit_div_up(DW_GROUPS, tiles), DW_CHUNKS_MOST), pixels / DW_PIXELS_LEAST);
    return kit_round_up(chunks > 1 ? kit_div_up(pixels, chunks) : pixels, DW_PIXELS);
}

static bool lanes_fit(const kit_target *target, const kit_conv_plan *conv, bool dw)
{
    const int64_t *m = conv->meta;
    const lane_tile t = lane_tile_of(target, conv, dw);
    if (!t.pixels)
        return false;
    if (dw)
        return chunk_of(conv) * m[G_OH] * (kit_div_up(m[G_OW], t.pixels) + 1) <= LANES_ROUNDS;
    return m[G_KH] <= LANES_SPAN && m[G_KW] <= LANES_SPAN && m[G_C] <= LANES_ROUNDS;
}

/* A phase that no tap meets is a convolution of no channel: zeros. */
static kit_conv_plan phase_of(const yk_graph *graph, const yk_node *n, const kit_conv_plan *conv, int64_t row, int64_t column)
{
    kit_conv_plan part = *conv;
    kit_conv_phase(&part, &graph->attr[n->attr], row, column);
    if (part.meta[G_KH] * part.meta[G_KW] == 0) {
        part.meta[G_KH] = part.meta[G_KW] = 1;
        part.meta[G_C] = 0;
    }
    return part;
}

bool kit_conv_gpu_fits(const kit_target *target, const yk_graph *graph, const yk_node *n, const kit_conv_plan *conv)
{
    const int64_t most = INT32_MAX, *m = conv->meta, filter = m[G_GROUPS] * m[G_M] * m[G_C] * m[G_KH] * m[G_KW];
    const bool dw = n->op == YK_OP_CONV2D_DW;
    if (kit_value_count(conv->x) > most || kit_value_count(conv->y) > most || filter * KIT_CONV_CHUNKS > most)
        return false;
    if (!target->lanes)
        return true;
    if (!kit_conv_has_phases(graph, n))
        return lanes_fit(target, conv, dw);
    for (int64_t row = 0; row < graph->attr[n->attr]; row++)
        for (int64_t column = 0; column < graph->attr[n->attr + 1]; column++) {
            const kit_conv_plan part = phase_of(graph, n, conv, row, column);
            if (!lanes_fit(target, &part, dw))
                return false;
        }
    return true;
}

static void defines_write(const kit_target *target, const yk_graph *graph, const yk_node *n, const kit_conv_plan *conv, char *text,
                          size_t size)
{
    const int64_t *m = conv->meta;
    const lane_tile t = target->lanes ? lane_tile_of(target, conv, n->op == YK_OP_CONV2D_DW) : (lane_tile){0};
    int at = snprintf(text, size, "-DT=%s -DTC=%s -DKH=%d -DKW=%d -DIH=%d", kit_type(kit_node_in(graph, n, 0)->dtype),
                      kit_type(kit_node_out(graph, n, 0)->dtype), (int)m[G_KH], (int)m[G_KW], m[G_IH] * m[G_IW] > 1);
    if (target->lanes)
        snprintf(text + at, size - (size_t)at, " -DCONV_LANES=%d -DCONV_ROWS=%d -DCONV_LR=%d -DCONV_PX=%d -DCONV_SPAN=%d -DCONV_SW=%d "
                 "-DCONV_DW=%d -DCONV_IH=%d -DCONV_IW=%d -DCONV_TALL=%d -DCONV_WIDE=%d", (int)t.lanes, (int)t.rows,
                 (int)(t.rows / t.lanes), (int)t.pixels, (int)t.span, (int)m[G_SW], (int)m[G_DW], (int)m[G_IH], (int)m[G_IW],
                 (int)t.tall, (int)t.wide);
    else if (kit_mma_takes(target, kit_node_in(graph, n, 0)->dtype))
        snprintf(text + at, size - (size_t)at, " -DGM=%d -DMMA_TERMS=%u", (int)tile_rows(conv), target->mma);
    else
        snprintf(text + at, size - (size_t)at, " -DGEMM_TEAM=%u -DGM=%d", kit_gpu_team(target), (int)tile_rows(conv));
}

/* The unit of the products has the sum of chunks, too. */
static const char *tiles_file(const kit_lowering *ctx, const yk_node *n)
{
    return kit_mma_takes(ctx->target, kit_node_in(ctx->graph, n, 0)->dtype) ? "conv_mma" : "conv_gpu";
}

static void launch_tiles(kit_lowering *ctx, const yk_node *n, const char *defines, const char *kernel, int64_t x, int64_t y, int64_t z)
{
    const uint32_t dtype = kit_node_in(ctx->graph, n, 0)->dtype;
    const bool mma = kit_mma_takes(ctx->target, dtype);
    kit_mma_note(ctx, dtype, mma);
    kit_launch_add(ctx, tiles_file(ctx, n), defines, kernel, x, y, z, mma ? KIT_MMA_TEAM : kit_gpu_team(ctx->target));
}

static void arg_sizes(kit_lowering *ctx, const int64_t *m, const uint8_t *which, size_t n)
{
    for (size_t i = 0; i < n; i++)
        kit_arg_i32(ctx, m[which[i]]);
}

/* As CONV_SIZES and CONV_FILTER. */
static const uint8_t sizes[] = {G_C, G_H, G_W, G_IH, G_IW, G_PY, G_PX, G_DH, G_DW, G_SH, G_SW, G_OH, G_OW, G_M, G_GROUPS, G_N};
static const uint8_t filter_sizes[] = {G_WM, G_WC, G_WG, G_W0, G_WY, G_WX, G_Y0, G_YS, G_XS, G_PLANE};

static void lower_any(kit_lowering *ctx, const yk_node *n, const kit_conv_plan *conv)
{
    char defines[KIT_MACROS];
    const int64_t *m = conv->meta, lanes = ctx->target->lanes;
    const lane_tile t = lane_tile_of(ctx->target, conv, false);
    const int64_t columns = lanes ? kit_div_up(m[G_N] * m[G_OH] * kit_div_up(m[G_OW], t.pixels), lanes)
                                  : kit_div_up(m[G_N] * m[G_OH] * m[G_OW], TILE);
    defines_write(ctx->target, ctx->graph, n, conv, defines, sizeof defines);
    launch_tiles(ctx, n, defines, "conv_any", columns, kit_div_up(m[G_M], lanes ? t.rows : tile_rows(conv)), m[G_GROUPS]);
    kit_arg_in(ctx, n, 0);
    kit_arg_in(ctx, n, 1);
    kit_arg_out(ctx, n, 0);
    arg_sizes(ctx, m, sizes, sizeof sizes);
    arg_sizes(ctx, m, filter_sizes, sizeof filter_sizes);
}

static void lower_phases(kit_lowering *ctx, const yk_node *n, const kit_conv_plan *conv)
{
    const int64_t *a = &ctx->graph->attr[n->attr];
    for (int64_t row = 0; row < a[0] && row < conv->meta[G_OH]; row++)
        for (int64_t column = 0; column < a[1] && column < conv->meta[G_OW]; column++) {
            const kit_conv_plan part = phase_of(ctx->graph, n, conv, row, column);
            lower_any(ctx, n, &part);
        }
}

/* The sum of the chunks, which lie in scratch memory. */
static void dw_sum(kit_lowering *ctx, const yk_node *n, const char *defines, int64_t size, int64_t chunks)
{
    const bool lanes = ctx->target->lanes;
    if (lanes)
        kit_launch_add(ctx, tiles_file(ctx, n), defines, "conv_any_dw_sum", kit_div_up(size, SUM_BLOCK), 1, 1, SUM_TEAM);
    else
        kit_launch_add(ctx, tiles_file(ctx, n), defines, "conv_any_dw_join", kit_div_up(size, JOIN_BLOCK), 1, 1, JOIN_TEAM);
    kit_arg_scratch(ctx, 0, (uint64_t)(chunks * size) * 4, 4);
    kit_arg_out(ctx, n, 0);
    kit_arg_i32(ctx, size);
    kit_arg_i32(ctx, chunks);
    if (lanes)
        kit_arg_i32(ctx, SUM_BLOCK);
    kit_arg_i32(ctx, n->flags & YK_NODE_ACCUMULATE ? 1 : 0);
}

static void lower_dw(kit_lowering *ctx, const yk_node *n, const kit_conv_plan *conv)
{
    char defines[KIT_MACROS];
    const int64_t *m = conv->meta, lanes = ctx->target->lanes, taps = m[G_KH] * m[G_KW], size = m[G_GROUPS] * m[G_M] * m[G_C] * taps;
    const int64_t chunk = lanes ? chunk_of(conv) : chunk_pixels(conv);
    const int64_t chunks = kit_div_up(lanes ? m[G_N] : m[G_N] * m[G_OH] * m[G_OW], chunk);
    const lane_tile t = lane_tile_of(ctx->target, conv, true);
    const int64_t columns = lanes ? kit_div_up(m[G_C], lanes) * (m[G_KH] / t.tall) * kit_div_up(m[G_KW], t.wide)
                                  : kit_div_up(m[G_C] * taps, TILE);
    defines_write(ctx->target, ctx->graph, n, conv, defines, sizeof defines);
    launch_tiles(ctx, n, defines, "conv_any_dw", columns, kit_div_up(m[G_M], lanes ? t.rows : tile_rows(conv)), chunks * m[G_GROUPS]);
    kit_arg_in(ctx, n, 1);
    kit_arg_in(ctx, n, 0);
    kit_arg_scratch(ctx, 0, (uint64_t)(chunks * size) * 4, 4);
    arg_sizes(ctx, m, sizes, sizeof sizes);
    kit_arg_i32(ctx, chunk);
    dw_sum(ctx, n, defines, size, chunks);
}

static uint32_t value_align(const yk_value *v)
{
    const uint64_t bits = v->offset | KIT_PRODUCT_ALIGN;
    return (uint32_t)(bits & (~bits + 1));
}

/* A single tap without a stride is a product for each image, [M, C] x [C, pixels]. True if the vendor's library computes it. Planes with
 * rows at odd places are not worth asking for. */
static bool product_by_library(kit_lowering *ctx, const yk_node *n, const kit_conv_plan *conv)
{
    const int64_t *m = conv->meta, *a = &ctx->graph->attr[n->attr], pixels = m[G_OH] * m[G_OW];
    const yk_value *x = kit_node_in(ctx->graph, n, 0), *w = kit_node_in(ctx->graph, n, 1), *y = kit_node_out(ctx->graph, n, 0);
    uint64_t scratch = 0;
    if (!ctx->target->product || m[G_KH] * m[G_KW] * a[0] * a[1] != 1 || a[2] || a[3] || m[G_GROUPS] != 1 ||
        pixels * yk_dtype_bytes(x->dtype) % LIBRARY_LINE)
        return false;
    const kit_product product = {.batch = m[G_N],
                                 .rows = m[G_M],
                                 .cols = pixels,
                                 .terms = m[G_C],
                                 .a = {m[G_WM], m[G_WC], 0, w->dtype, value_align(w)},
                                 .b = {pixels, 1, m[G_C] * pixels, x->dtype, value_align(x)},
                                 .c = {pixels, 1, m[G_M] * pixels, y->dtype, value_align(y)}};
    if (!ctx->target->product(ctx->target->dev, &product, &scratch))
        return false;
    kit_launch_add_product(ctx, &product);
    kit_arg_in(ctx, n, 1);
    kit_arg_in(ctx, n, 0);
    kit_arg_out(ctx, n, 0);
    kit_arg_scratch(ctx, 0, scratch, 1);
    return true;
}

void kit_conv_gpu_lower(kit_lowering *ctx, const yk_node *n, const kit_conv_plan *conv)
{
    const bool dw = n->op == YK_OP_CONV2D_DW;
    if ((!dw && product_by_library(ctx, n, conv)) || kit_conv_by_library(ctx, n, conv))
        return;
    if (dw)
        lower_dw(ctx, n, conv);
    else if (kit_conv_has_phases(ctx->graph, n))
        lower_phases(ctx, n, conv);
    else
        lower_any(ctx, n, conv);
}
