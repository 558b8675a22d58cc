/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct convolution on blocks of channels, for steps above 1 and for small images: forward and dx. cpu_conv.c asks block_fits and
 * block_plan while a program is compiled, in any thread; the steps run on the workers.
 *
 * A group of images is laid out as [block of channels][remainder modulo the step][line][column][image][vector], with zeros around. So the
 * grid points of a line, of all images of the group, see a tap at one distance. They are rows of one register block (kern_block.inc): full
 * strips for images of any width. dx has a phase for each remainder of the result's pixels. The phases share the laid out gradient, and are
 * put together before the result is written, line by line.
 */
#include <string.h>

#include "backends/cpu/conv/conv_plane.h"
#include "backends/cpu/isa/conv_kernels.h"
#include "backends/cpu/isa/pack_kernels.h"
#include "backends/cpu/isa/vec_kernels.h"
#include "plugins/kit/value.h"

#define MOST_TAPS 49
#define PART_BYTES (54 << 10)  /* bytes of weights at a time: they stay in the second cache */
#define MOST_BYTES (3 << 20)   /* bytes of a group's layout */
#define LEAST_ROWS 12          /* grid points of a line of a group */
#define SHORT_LINE 8           /* grid points: ends of a line are strips of their own, rows of four images */
#define EDGE_ROWS 4
#define EDGE_BYTES (768 << 10) /* bytes of such a group */

/* Taps lo .. hi - 1 of a row or a column of the kernel. */
typedef struct block_taps {
    int32_t lo, hi;
} block_taps;

/* grid points of a line, all images, that are multiplied at once; the taps across that see pixels from some of them */
typedef struct block_strip {
    int64_t first, rows;
    block_taps across;
} block_strip;

/* result pixels of one remainder */
typedef struct block_phase {
    int64_t grid_h, grid_w, first_y, first_x;
    int64_t taps, across;             /* all taps, and those of one line */
    const int32_t *tap, *offset;      /* list of taps; words from a grid point to the word that (tap, block) sees */
    const int32_t *shift_y, *shift_x; /* shifts of each */
    block_taps *down;                 /* for each line: taps that see lines of the image */
    block_strip *strip;
    int64_t n_strip;
    size_t at_u, at_c; /* words: weights in the shared, sums in the worker's scratch */
} block_phase;

typedef struct block_args {
    cpu_grouped group;
    cpu_ref w_ref, y_ref;
    int64_t images, out_channels, oh, ow, out_blocks, stride_y, stride_x;
    int64_t kernel_taps, w_out_stride, w_in_stride; /* taps of the kernel; words of w between results, source channels */
    int64_t in_channels, words;                     /* source channels; words of a block that hold some */
    uint8_t w_dtype, y_dtype;
    bool widened; /* the weights, to fp32 beforehand */
    int n_phase;
    block_phase *phase;
    size_t at_w, at_u; /* in the shared scratch */
    size_t at_c, at_plane, at_tmp;
} block_args;

/* ---- Weights ---- */

static void widen_step(const void *args, const cpu_ctx *ctx)
{
    const block_args *conv = args;
    int64_t lo, hi;
    cpu_part(conv->in_channels * conv->out_channels, ctx->piece, ctx->pieces, &lo, &hi);
    ctx->isa->vec->to_f32((float *)(void *)(ctx->shared_ws + conv->at_w) + lo * conv->kernel_taps,
                          (const char *)cpu_at(ctx, conv->w_ref) + lo * conv->kernel_taps * 2, conv->w_dtype,
                          (size_t)((hi - lo) * conv->kernel_taps));
}

/* all taps of word k of a block of results, a vector each */
static void taps_of(const block_args *conv, const cpu_ctx *ctx, int64_t block, int64_t k, uint32_t *g)
{
    int64_t vw = ctx->isa->vw, n = kit_min(vw, conv->out_channels - block * vw), ch = conv->group.planes.pairs ? 2 * k : k;
    int64_t at = block * vw * conv->w_out_stride + ch * conv->w_in_stride;
    memset(g, 0, (size_t)(conv->kernel_taps * vw) * 4);
    if (ch >= conv->in_channels)
        return;
    if (conv->group.planes.pairs) {
        const uint16_t *w = (const uint16_t *)cpu_at(ctx, conv->w_ref) + at;
        bool two = ch + 1 < conv->in_channels;
        ctx->isa->pack->transpose_pairs(g, (size_t)vw, w, two ? w + conv->w_in_stride : w, (size_t)conv->w_out_stride, (size_t)n,
                                        two ? (size_t)n : 0, (size_t)conv->kernel_taps);
        return;
    }
    const float *w = conv->widened ? (const float *)(void *)(ctx->shared_ws + conv->at_w) : cpu_at(ctx, conv->w_ref);
    ctx->isa->pack->transpose(g, (size_t)vw, w + at, (size_t)conv->w_out_stride * 4, (size_t)n, (size_t)conv->kernel_taps);
}

/* U[phase][panel of two vectors of results][tap, block][word][results] */
static void weights_step(const void *args, const cpu_ctx *ctx)
{
    const block_args *conv = args;
    int64_t lo, hi, vw = ctx->isa->vw, blocks = conv->group.planes.blocks, words = blocks * conv->words;
    uint32_t g[(MOST_TAPS + 1) * 16];
    cpu_part(conv->out_blocks * words, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t block = t / words, k = t % words, panel = block / 2, w2 = kit_min(2, conv->out_blocks - 2 * panel) * vw;
        taps_of(conv, ctx, block, k, g);
        for (int i = 0; i < conv->n_phase; i++) {
            const block_phase *phase = &conv->phase[i];
            uint32_t *u = (uint32_t *)(void *)(ctx->shared_ws + conv->at_u) + phase->at_u + panel * 2 * vw * words * phase->taps;
            u += k * w2 + block % 2 * vw;
            for (int64_t j = 0; j < phase->taps; j++)
                memcpy(u + j * words * w2, g + phase->tap[j] * vw, (size_t)vw * 4);
        }
    }
}

/* ---- Running ---- */

typedef struct block_prefetch {
    cpu_prefetch from, to; /* images of the next group, results of this one */
} block_prefetch;

/* Adds parts k0 .. k1 - 1 of a panel's sums of one strip, in runs of taps that see pixels. */
static void add_strip(const block_args *conv, const cpu_ctx *ctx, const block_phase *phase, int nv, const block_taps *down,
                      const block_strip *strip, const float *x, const float *u, float *sums, int64_t k0, int64_t k1)
{
    int64_t vw = ctx->isa->vw, blocks = conv->group.planes.blocks, row = phase->across * blocks, from = 0, to = 0;
    int64_t first = down->lo * row + strip->across.lo * blocks, area = phase->grid_h * phase->grid_w * conv->group.images;
    cpu_rows_kernel kernel = ctx->isa->conv[conv->group.planes.pairs]->rows[strip->rows][nv];
    for (int64_t y = down->lo; y <= down->hi; y++) {
        int64_t k = y * row + strip->across.lo * blocks, end = kit_min(y * row + strip->across.hi * blocks, k1);
        k = k > k0 ? k : k0;
        if (y < down->hi && k == to && k < end) {
            to = end;
            continue;
        }
        if (from < to)
            kernel((size_t)(to - from), (size_t)conv->words, x, phase->offset + from, u + from * conv->words * nv * vw, sums,
                   (size_t)(area * vw), from > first);
        from = k, to = end;
    }
}

/* all strips of a phase, some parts of the sums of a panel */
static void add_phase_strips(const block_args *conv, const cpu_ctx *ctx, const block_phase *phase, int64_t panel, int64_t k0,
                             int64_t k1, block_prefetch *prefetch)
{
    int64_t vw = ctx->isa->vw, row = phase->grid_w * conv->group.images;
    int nv = conv->out_blocks - 2 * panel < 2 ? 1 : 2;
    const float *x = (const float *)(const void *)ctx->thread_ws;
    const float *u = (const float *)(const void *)(ctx->shared_ws + conv->at_u) + phase->at_u;
    float *sums = (float *)(void *)(ctx->thread_ws + conv->at_c) + phase->at_c + 2 * panel * phase->grid_h * row * vw;
    u += 2 * panel * vw * phase->taps * conv->group.planes.blocks * conv->words;
    for (int64_t y = 0; y < phase->grid_h; y++, x += conv->group.pad.width * conv->group.images * vw, sums += row * vw) {
        cpu_prefetch_read(&prefetch->from);
        cpu_prefetch_write(&prefetch->to);
        for (int64_t s = 0; s < phase->n_strip; s++)
            add_strip(conv, ctx, phase, nv, &phase->down[y], &phase->strip[s], x + phase->strip[s].first * vw, u,
                      sums + phase->strip[s].first * vw, k0, k1);
    }
}

/* Cuts a phase's sums by parts of the weights: some taps with all blocks; with many blocks, some blocks of one tap. */
static int64_t phase_cuts(const block_args *conv, const block_phase *phase, int64_t most)
{
    int64_t blocks = conv->group.planes.blocks;
    return blocks > most ? phase->taps * ((blocks + most - 1) / most) : (phase->taps + most / blocks - 1) / (most / blocks);
}

static int64_t cut_begin(const block_args *conv, const block_phase *phase, int64_t most, int64_t k)
{
    int64_t blocks = conv->group.planes.blocks, pieces = (blocks + most - 1) / most;
    return blocks > most ? k / pieces * blocks + k % pieces * blocks / pieces
                         : phase->taps * k / phase_cuts(conv, phase, most) * blocks;
}

static void group_products(const block_args *conv, const cpu_ctx *ctx, block_prefetch *prefetch)
{
    int64_t most = PART_BYTES / (2 * ctx->isa->vw * conv->words * 4), calls = 0;
    for (int i = 0; i < conv->n_phase; i++)
        calls += phase_cuts(conv, &conv->phase[i], most) * conv->phase[i].grid_h * ((conv->out_blocks + 1) / 2);
    cpu_prefetch_over(&prefetch->from, calls);
    cpu_prefetch_over(&prefetch->to, calls);
    for (int i = 0; i < conv->n_phase; i++) {
        const block_phase *phase = &conv->phase[i];
        for (int64_t panel = 0; panel < (conv->out_blocks + 1) / 2 && !cpu_stops(ctx); panel++)
            for (int64_t k = 0, n = phase_cuts(conv, phase, most); k < n; k++)
                add_phase_strips(conv, ctx, phase, panel, cut_begin(conv, phase, most, k), cut_begin(conv, phase, most, k + 1),
                                 prefetch);
    }
}

/* a block of results of image j of the group, all phases */
static void image_out(const block_args *conv, const cpu_ctx *ctx, int64_t image, int64_t j, int64_t block)
{
    const float zero[16] = {0};
    int64_t vw = ctx->isa->vw, g = conv->group.images, size = conv->oh * conv->ow;
    float *plane = (float *)(void *)(ctx->thread_ws + conv->at_plane);
    for (int i = 0; i < conv->n_phase; i++) {
        const block_phase *phase = &conv->phase[i];
        const float *sums = (const float *)(void *)(ctx->thread_ws + conv->at_c) + phase->at_c +
                            (block * phase->grid_h * phase->grid_w * g + j) * vw;
        for (int64_t y = 0; y < phase->grid_h; y++)
            ctx->isa->pack->spread(plane + ((y * conv->stride_y + phase->first_y) * conv->ow + phase->first_x) * vw,
                                   (size_t)(conv->stride_x * vw), phase->taps ? sums + y * phase->grid_w * g * vw : zero,
                                   phase->taps ? (size_t)(g * vw) : 0, (size_t)phase->grid_w);
    }
    char *y = cpu_at(ctx, conv->y_ref);
    y += (image * conv->out_channels + block * vw) * size * yk_dtype_bytes(conv->y_dtype);
    cpu_plane_out(ctx, plane, size, kit_min(vw, conv->out_channels - block * vw), y, conv->y_dtype, size,
                  (float *)(void *)(ctx->thread_ws + conv->at_tmp));
}

static void block_step(const void *args, const cpu_ctx *ctx)
{
    const block_args *conv = args;
    int64_t lo, hi, g = conv->group.images;
    cpu_part((conv->images + g - 1) / g, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t t = lo; t < hi && !cpu_stops(ctx); t++) {
        int64_t n = kit_min(g, conv->images - t * g);
        cpu_grouped_in(ctx, &conv->group, t * g, n, 0, conv->group.planes.blocks,
                       (float *)(void *)(ctx->thread_ws + conv->at_plane), ctx->thread_ws + conv->at_tmp,
                       (float *)(void *)ctx->thread_ws);
        int64_t from =
            conv->in_channels * conv->group.planes.height * conv->group.planes.width * yk_dtype_bytes(conv->group.planes.dtype);
        int64_t to = conv->out_channels * conv->oh * conv->ow * yk_dtype_bytes(conv->y_dtype), next = t * g + n;
        int64_t end = t + 1 < hi ? kit_min(next + g, conv->images) : next;
        const char *x = cpu_at(ctx, conv->group.planes.at), *y = cpu_at(ctx, conv->y_ref);
        block_prefetch prefetch = {{x + next * from, x + end * from, 0}, {y + t * g * to, y + next * to, 0}};
        group_products(conv, ctx, &prefetch);
        for (int64_t b = 0; b < conv->out_blocks; b++)
            for (int64_t j = 0; j < n; j++)
                image_out(conv, ctx, t * g + j, j, b);
    }
}

/* ---- Planning ---- */

/* The taps that reach result pixels of remainder (py, px); shifts of each to d (dy, then dx from `all` on). */
static void set_phase(const conv_shape *shape, bool dx, int64_t py, int64_t px, block_phase *phase, int32_t *tap, int32_t *d)
{
    int64_t all = shape->kh * shape->kw;
    *phase = (block_phase){
        .grid_h = shape->oh, .grid_w = shape->ow, .first_y = py, .first_x = px, .tap = tap, .shift_y = d, .shift_x = d + all};
    if (dx)
        phase->grid_h = (shape->h - py + shape->sh - 1) / shape->sh, phase->grid_w = (shape->w - px + shape->sw - 1) / shape->sw;
    for (int64_t t = 0; t < all; t++) {
        int64_t ky = t / shape->kw * shape->dil_h, kx = t % shape->kw * shape->dil_w, ey = dx ? py + shape->ph - ky : ky - shape->ph;
        int64_t ex = dx ? px + shape->pw - kx : kx - shape->pw;
        if (dx && (cpu_floor_mod(ey, shape->sh) || cpu_floor_mod(ex, shape->sw)))
            continue;
        d[phase->taps] = (int32_t)(dx ? ey / shape->sh : ey);
        d[all + phase->taps] = (int32_t)(dx ? ex / shape->sw : ex);
        phase->across += d[phase->taps] == d[0];
        tap[phase->taps++] = (int32_t)t;
    }
}

/* Range of the n taps, d shifts `stride` entries apart, that see one of `size` pixels from grid point q; empty if none does. */
static block_taps seen_from(const int32_t *d, int64_t n, int64_t stride, int64_t at, int64_t size)
{
    block_taps t = {0, (int32_t)n};
    while (t.lo < n && (at + d[t.lo * stride] < 0 || at + d[t.lo * stride] >= size))
        t.lo++;
    while (t.hi > t.lo && (at + d[(t.hi - 1) * stride] < 0 || at + d[(t.hi - 1) * stride] >= size))
        t.hi--;
    return t.lo < t.hi ? t : (block_taps){0, (int32_t)n};
}

/* Columns x0 .. x1 - 1 of a line in strips. */
static void add_strips(cpu_build *build, const block_args *conv, block_phase *phase, int64_t x0, int64_t x1)
{
    int64_t rows = (x1 - x0) * conv->group.images, n = (rows + build->isa->mr - 1) / build->isa->mr;
    block_taps all = {(int32_t)phase->across, 0};
    for (int64_t x = x0; x < x1; x++) {
        block_taps t = seen_from(phase->shift_x, phase->across, 1, x * conv->group.stride_x, conv->group.planes.width);
        all.lo = t.lo < all.lo ? t.lo : all.lo;
        all.hi = t.hi > all.hi ? t.hi : all.hi;
    }
    for (int64_t s = 0; s < n; s++)
        phase->strip[phase->n_strip++] = (block_strip){x0 * conv->group.images + rows * s / n, rows * (s + 1) / n - rows * s / n, all};
}

/* Sets the taps seen by each line and by each strip of a line. Columns at the ends of short lines that see fewer taps are separate
 * strips. */
static void set_strips(cpu_build *build, const block_args *conv, block_phase *phase)
{
    int64_t across = phase->across ? phase->across : 1;
    phase->down = cpu_args(build, (size_t)phase->grid_h * sizeof *phase->down);
    phase->strip = cpu_args(build, (size_t)(phase->grid_w * conv->group.images) * sizeof *phase->strip);
    for (int64_t y = 0; build->status == YK_OK && y < phase->grid_h; y++)
        phase->down[y] = seen_from(phase->shift_y, phase->taps / across, across, y * conv->group.stride_y, conv->group.planes.height);
    for (int64_t x = 0, end; build->status == YK_OK && x < phase->grid_w; x = end) {
        block_taps first = seen_from(phase->shift_x, phase->across, 1, x * conv->group.stride_x, conv->group.planes.width);
        for (end = x + 1; end < phase->grid_w; end++) {
            block_taps t = seen_from(phase->shift_x, phase->across, 1, end * conv->group.stride_x, conv->group.planes.width);
            if (conv->group.images >= EDGE_ROWS && phase->grid_w <= SHORT_LINE && (t.lo != first.lo || t.hi != first.hi))
                break;
        }
        add_strips(build, conv, phase, x, end);
    }
}

/* The layout of a group of images, padded for the taps of all phases. */
static cpu_grouped group_of(const cpu_isa *isa, const conv_problem *problem, const cpu_planes *planes)
{
    const conv_shape *shape = &problem->shape;
    const bool dx = problem->node->op == YK_OP_CONV2D_DX;
    int32_t tap[MOST_TAPS], d[2 * MOST_TAPS], shift[2 * MOST_TAPS];
    cpu_grouped group = {.planes = *planes, .stride_y = dx ? 1 : shape->sh, .stride_x = dx ? 1 : shape->sw};
    conv_view view = {.stride_y = group.stride_y, .stride_x = group.stride_x, .shift_y = shift, .shift_x = shift + MOST_TAPS};
    for (int64_t i = 0; i < (dx ? shape->sh * shape->sw : 1); i++) {
        block_phase phase;
        set_phase(shape, dx, dx ? i / shape->sw : 0, dx ? i % shape->sw : 0, &phase, tap, d);
        memcpy(shift + view.taps, d, (size_t)phase.taps * 4);
        memcpy(shift + MOST_TAPS + view.taps, d + shape->kh * shape->kw, (size_t)phase.taps * 4);
        view.taps += (int32_t)phase.taps;
        view.grid_h = kit_max(view.grid_h, phase.grid_h);
        view.grid_w = kit_max(view.grid_w, phase.grid_w);
    }
    group.pad = cpu_padding_of(&view);
    group.images = kit_div_up(LEAST_ROWS, view.grid_w);
    int64_t image = group.stride_y * group.stride_x * group.pad.height * group.pad.width * planes->blocks * isa->vw * 4;
    if (view.grid_w <= SHORT_LINE && group.images < EDGE_ROWS && image * EDGE_ROWS <= EDGE_BYTES)
        group.images = EDGE_ROWS;
    return group;
}

static bool set_phases(cpu_build *build, block_args *conv, const conv_shape *shape, bool dx, int32_t *d)
{
    int64_t all = shape->kh * shape->kw, nx = dx ? shape->sw : 1;
    conv->n_phase = (int)(dx ? shape->sh * shape->sw : 1);
    conv->phase = cpu_args(build, (size_t)conv->n_phase * sizeof *conv->phase);
    int32_t *tap = cpu_args(build, (size_t)(conv->n_phase * all) * sizeof *tap);
    for (int i = 0; build->status == YK_OK && i < conv->n_phase; i++) {
        set_phase(shape, dx, i / nx, i % nx, &conv->phase[i], tap + i * all, d + 2 * i * all);
        set_strips(build, conv, &conv->phase[i]);
    }
    return build->status == YK_OK;
}

/* sets the offset of each part of each phase */
static void set_offsets(cpu_build *build, block_args *conv, int64_t all, const int32_t *d)
{
    int64_t vw = build->isa->vw, blocks = conv->group.planes.blocks;
    size_t u = 0, sums = 0;
    for (int i = 0; i < conv->n_phase; i++, d += 2 * all) {
        block_phase *phase = &conv->phase[i];
        int32_t *off = cpu_args(build, (size_t)(phase->taps * blocks + 1) * sizeof *off);
        conv_view view = {.stride_y = conv->group.stride_y, .stride_x = conv->group.stride_x, .shift_y = d, .shift_x = d + all};
        for (int64_t k = 0; off && k < phase->taps * blocks; k++)
            off[k] = (int32_t)(k % blocks * cpu_grouped_block(&conv->group, build->isa->vw) +
                               cpu_padding_offset(&view, &conv->group.pad, 0, k / blocks) * conv->group.images * vw);
        phase->offset = off;
        phase->at_u = u;
        phase->at_c = sums;
        u += (size_t)(phase->taps * blocks * conv->out_blocks * conv->words * vw);
        sums += (size_t)(phase->grid_h * phase->grid_w * conv->group.images * conv->out_blocks * vw);
    }
    int64_t pixels = conv->oh * conv->ow > conv->group.planes.height * conv->group.planes.width
                         ? conv->oh * conv->ow
                         : conv->group.planes.height * conv->group.planes.width;
    size_t plane = (size_t)((pixels + vw) * vw) * 4;
    conv->at_u = conv->widened ? kit_round_bytes((size_t)(conv->in_channels * conv->out_channels * all) * 4, 64) : 0;
    cpu_need_shared_ws(build, conv->at_u + u * 4);
    conv->at_c = kit_round_bytes((size_t)(cpu_grouped_block(&conv->group, build->isa->vw) * blocks) * 4, 4096) + 128;
    conv->at_plane = conv->at_c + kit_round_bytes(sums * 4, 4096) + 128;
    conv->at_tmp = conv->at_plane + kit_round_bytes(plane, 4096) + 128;
    cpu_need_thread_ws(build, conv->at_tmp + plane);
}

/* The input in blocks; of bf16 pairs if the set has products of them. */
static cpu_planes planes_of(const cpu_isa *isa, const conv_problem *problem)
{
    const conv_shape *shape = &problem->shape;
    const bool dx = problem->node->op == YK_OP_CONV2D_DX;
    const bool pairs = isa->bf16 == CPU_BF16_PAIRS && problem->x_dtype == YK_BF16 && problem->w_dtype == YK_BF16;
    const int64_t channels = dx ? shape->o : shape->c;
    return (cpu_planes){.channels = channels, .height = dx ? shape->oh : shape->h, .width = dx ? shape->ow : shape->w,
                        .blocks = kit_div_up(channels, isa->vw << pairs), .dtype = problem->x_dtype, .pairs = pairs};
}

/* A block of channels is multiplied whole. */
static bool block_fits(const cpu_isa *isa, const conv_problem *problem)
{
    const conv_shape *shape = &problem->shape;
    if (shape->groups != 1 || shape->n < 4 || shape->c < 8 || shape->o < 8 || shape->kh * shape->kw > MOST_TAPS ||
        (shape->sh == 1 && shape->sw == 1) || (isa->bf16 == CPU_BF16_TILES && problem->x_dtype == YK_BF16))
        return false;
    const cpu_planes planes = planes_of(isa, problem);
    if (planes.pairs && problem->node->op == YK_OP_CONV2D && cpu_conv_few_channels(isa, shape))
        return false;
    const cpu_grouped group = group_of(isa, problem, &planes);
    return cpu_grouped_block(&group, isa->vw) * planes.blocks * 4 <= MOST_BYTES;
}

static void block_plan(cpu_build *build, const conv_problem *problem)
{
    const conv_shape *shape = &problem->shape;
    const yk_node *node = problem->node;
    const bool dx = node->op == YK_OP_CONV2D_DX;
    const yk_value *w = cpu_in(build, node, 1), *y = cpu_out(build, node, 0);
    const int64_t vw = build->isa->vw, all = shape->kh * shape->kw;
    cpu_planes planes = planes_of(build->isa, problem);
    block_args *conv = cpu_args(build, sizeof *conv);
    int32_t *d = cpu_args(build, (size_t)(2 * all * shape->sh * shape->sw) * sizeof *d);
    if (!conv || !d)
        return;
    planes.at = cpu_ref_of(cpu_in(build, node, 0));
    *conv = (block_args){.group = group_of(build->isa, problem, &planes), .w_ref = cpu_ref_of(w), .y_ref = cpu_ref_of(y),
                         .images = shape->n, .out_channels = y->dim[1], .oh = y->dim[2], .ow = y->dim[3],
                         .out_blocks = kit_div_up(y->dim[1], vw), .stride_y = dx ? shape->sh : 1, .stride_x = dx ? shape->sw : 1,
                         .kernel_taps = all, .w_out_stride = dx ? all : all * shape->c, .w_in_stride = dx ? all * shape->c : all,
                         .in_channels = planes.channels, .w_dtype = w->dtype, .y_dtype = y->dtype,
                         .widened = !planes.pairs && w->dtype != YK_F32};
    conv->words = planes.blocks > 1 ? vw : planes.pairs ? (conv->in_channels + 1) / 2 : conv->in_channels;
    if (!set_phases(build, conv, shape, dx, d))
        return;
    set_offsets(build, conv, all, d);
    double weights = (double)(shape->c * shape->o * all);
    if (conv->widened)
        cpu_emit(build, widen_step, conv, weights * 0.2);
    cpu_emit(build, weights_step, conv, weights);
    cpu_emit(build, block_step, conv, (double)(shape->n * shape->oh * shape->ow) * weights * 2 / 80);
}

const conv_algorithm cpu_conv_block = {"block", block_fits, block_plan};
