/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of a strided convolution's weights, directly. cpu_conv.c plans it while a program is compiled, in any thread; its steps run
 * on the workers.
 *
 * E[t, c, o] sums x[c, p(t)] gy[o, there] over all grid points, the pixels of gy of all images; p(t) is the pixel that tap t sees from
 * there. For one tap that is a product of two matrices, channels x grid points x results, whose rows need not be gathered. Input and
 * gradient are laid out in the thread's memory (cpu_grouped: blocks of as many channels as a vector has words, a group of images side by
 * side, x by remainder modulo the stride). There the grid points of a line are neighbours in both, one vector each, at the tap's distance.
 *
 * Three steps. part_step makes sums of images cut into fixed parts, so that bits do not depend on the workers. Panels (two blocks of
 * results) are cut in ranges if there are fewer than LEAST_TASKS parts, so that more workers have work. sum_step adds the parts in order.
 * finish_step turns E into gw[o][c][t]. With products of bf16 pairs a word holds a number of each of two images: half the words, half the
 * products.
 */
#include <string.h>

#include "backends/cpu/conv/conv_plane.h"
#include "backends/cpu/isa/conv_kernels.h"
#include "backends/cpu/isa/pack_kernels.h"
#include "plugins/kit/value.h"

#define MOST_TAPS 49
#define MOST_CUTS 16
#define LEAST_TASKS 32
#define SUMS_BYTES (20 << 20) /* bytes of all parts */
#define MOST_BYTES (3 << 20)  /* bytes of x's layout of a group */
#define LEAST_POSITIONS 256   /* grid points of a group, if they fit: the sums are read and written once for each group */
#define STRETCH 128           /* grid points at a time: one vector of x and two of gy for each stay in the first cache */

/* Lines, or columns, of grid points: first .. end - 1. */
typedef struct dw_span {
    int64_t first, end;
} dw_span;

typedef struct dw_tap {
    int64_t offset;       /* words from a grid point to the word that the tap sees */
    dw_span down, across; /* its parts that are no padding */
} dw_tap;

/* A part's sums lie as [block of channels][panel: two blocks of results][tap][channel][results]. */
typedef struct dw_block {
    cpu_grouped x_group, gy_group;
    cpu_ref gw_ref;
    int64_t images, in_channels, out_channels, taps; /* images: or pairs of images */
    int64_t cuts, ranges;                            /* cuts of images; ranges of blocks of results */
    size_t cut_stride;                               /* words of one part's sums */
    const dw_tap *tap;
    size_t at_gy, at_plane, at_tmp;
    uint8_t dtype;
    bool accumulate;
} dw_block;

/* Words from the beginning of a part's sums to those of a block of channels and a panel of results. */
static int64_t sums_at(const dw_block *dw, int64_t vw, int64_t block, int64_t panel)
{
    return (block * dw->gy_group.planes.blocks + 2 * panel) * dw->taps * vw * vw;
}

/* Data fetched while a group is summed: the images of the next group. */
typedef struct dw_prefetch {
    cpu_prefetch x, gy;
} dw_prefetch;

static cpu_prefetch images_prefetch(const cpu_ctx *ctx, const cpu_planes *p, int64_t image, int64_t end)
{
    int64_t bytes = p->channels * p->height * p->width * yk_dtype_bytes(p->dtype);
    const char *from = cpu_at(ctx, p->at);
    if (p->image_pairs)
        image = kit_min(2 * image, p->image_pairs), end = kit_min(2 * end, p->image_pairs);
    return (cpu_prefetch){from + image * bytes, from + end * bytes, 0};
}

/* Lines y0 .. y1 - 1 of a group: one block of channels, nv vectors of results, all taps. */
static void add_lines(const dw_block *dw, const cpu_ctx *ctx, int64_t nv, int64_t y0, int64_t y1, const float *x, const float *gy,
                      float *e, dw_prefetch *prefetch)
{
    int64_t vw = ctx->isa->vw, g = dw->x_group.images, x_row = dw->x_group.pad.width * g * vw, row = dw->gy_group.pad.width * g * vw;
    const cpu_outer_kernel *kernel = ctx->isa->conv[dw->x_group.planes.image_pairs > 0]->outer;
    for (int64_t t = 0; t < dw->taps; t++, e += vw * nv * vw) {
        const dw_tap *tap = &dw->tap[t];
        cpu_prefetch_read(&prefetch->x);
        cpu_prefetch_read(&prefetch->gy);
        int64_t lo = kit_max(y0, tap->down.first), hi = kit_min(y1, tap->down.end), at = tap->across.first * g * vw;
        if (lo < hi && tap->across.first < tap->across.end)
            kernel[nv]((size_t)(hi - lo), (size_t)((tap->across.end - tap->across.first) * g), x + tap->offset + lo * x_row + at,
                       (size_t)x_row, gy + lo * row + at, (size_t)row, (size_t)(dw->gy_group.pad.height * row), e,
                       (size_t)(nv * vw), 1);
    }
}

/* Sums of a group of images: panels p0 .. p1 - 1 of results, which gy holds. */
static void group_sums(const dw_block *dw, const cpu_ctx *ctx, int64_t p0, int64_t p1, float *e, dw_prefetch *prefetch)
{
    int64_t vw = ctx->isa->vw, row = dw->gy_group.pad.width * dw->gy_group.images, lines = dw->gy_group.pad.height,
            stretch = kit_max(STRETCH / row, 1);
    const float *gy = (const float *)(const void *)(ctx->thread_ws + dw->at_gy), *x = (const float *)(const void *)ctx->thread_ws;
    int64_t calls = dw->x_group.planes.blocks * (p1 - p0) * ((lines + stretch - 1) / stretch) * dw->taps;
    cpu_prefetch_over(&prefetch->x, calls);
    cpu_prefetch_over(&prefetch->gy, calls);
    for (int64_t b = 0; b < dw->x_group.planes.blocks; b++, x += cpu_grouped_block(&dw->x_group, ctx->isa->vw))
        for (int64_t p = p0; p < p1 && !cpu_stops(ctx); p++)
            for (int64_t y = 0; y < lines; y += stretch)
                add_lines(dw, ctx, kit_min(2, dw->gy_group.planes.blocks - 2 * p), y, kit_min(y + stretch, lines), x,
                          gy + (p - p0) * 2 * lines * row * vw, e + sums_at(dw, vw, b, p), prefetch);
}

static void part_step(const void *args, const cpu_ctx *ctx)
{
    const dw_block *dw = args;
    int64_t lo, hi, n0, n1, p0, p1, vw = ctx->isa->vw, g = dw->x_group.images;
    float *plane = (float *)(void *)(ctx->thread_ws + dw->at_plane);
    cpu_part(dw->cuts * dw->ranges, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        float *e = (float *)(void *)ctx->shared_ws + (size_t)(t / dw->ranges) * dw->cut_stride;
        cpu_part((dw->images + g - 1) / g, (int)(t / dw->ranges), (int)dw->cuts, &n0, &n1);
        cpu_part((dw->gy_group.planes.blocks + 1) / 2, (int)(t % dw->ranges), (int)dw->ranges, &p0, &p1);
        int64_t o0 = 2 * p0, o1 = kit_min(2 * p1, dw->gy_group.planes.blocks);
        for (int64_t b = 0; b < dw->x_group.planes.blocks; b++)
            memset(e + sums_at(dw, vw, b, p0), 0, (size_t)((o1 - o0) * dw->taps * vw * vw) * 4);
        for (int64_t i = n0; i < n1 && !cpu_stops(ctx); i++) {
            int64_t n = kit_min(g, dw->images - i * g);
            cpu_grouped_in(ctx, &dw->x_group, i * g, n, 0, dw->x_group.planes.blocks, plane, ctx->thread_ws + dw->at_tmp,
                           (float *)(void *)ctx->thread_ws);
            cpu_grouped_in(ctx, &dw->gy_group, i * g, n, o0, o1, plane, ctx->thread_ws + dw->at_tmp,
                           (float *)(void *)(ctx->thread_ws + dw->at_gy));
            int64_t next = (i + 1) * g, end = i + 1 < n1 ? kit_min(next + g, dw->images) : next;
            dw_prefetch prefetch = {images_prefetch(ctx, &dw->x_group.planes, next, end),
                                    images_prefetch(ctx, &dw->gy_group.planes, next, end)};
            group_sums(dw, ctx, p0, p1, e, &prefetch);
        }
    }
}

/* The parts' sums in order; each task adds as many words as one tap of a block of channels has. */
static void sum_step(const void *args, const cpu_ctx *ctx)
{
    const dw_block *dw = args;
    int64_t lo, hi;
    size_t n = (size_t)(ctx->isa->vw * dw->gy_group.planes.blocks * ctx->isa->vw);
    cpu_part(dw->taps * dw->x_group.planes.blocks, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t t = lo; t < hi; t++)
        cpu_cuts_sum(ctx, (float *)(void *)ctx->shared_ws + (size_t)t * n, dw->cut_stride, dw->cuts, n);
}

/* gw[o][c][t] from the sums, a block of channels and of results at a time */
static void finish_step(const void *args, const cpu_ctx *ctx)
{
    const dw_block *dw = args;
    int64_t lo, hi, vw = ctx->isa->vw, ob = dw->gy_group.planes.blocks, cb = dw->x_group.planes.blocks;
    float *taps = (float *)(void *)ctx->thread_ws;
    cpu_part(cb * ob, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t i = lo; i < hi; i++) {
        int64_t b = i / ob, o = i % ob, nc = kit_min(vw, dw->in_channels - b * vw), panel_width = kit_min(2, ob - o / 2 * 2) * vw;
        const float *e = (const float *)(const void *)ctx->shared_ws + sums_at(dw, vw, b, o / 2) + o % 2 * vw;
        for (int64_t t = 0; t < dw->taps; t++, e += vw * panel_width)
            ctx->isa->pack->spread(taps + t * vw, (size_t)(dw->taps * vw), e, (size_t)panel_width, (size_t)nc);
        cpu_taps_out(ctx, taps, dw->taps, nc, kit_min(vw, dw->out_channels - o * vw), taps + dw->taps * vw * vw,
                     (char *)cpu_at(ctx, dw->gw_ref) + (o * vw * dw->in_channels + b * vw) * dw->taps * yk_dtype_bytes(dw->dtype),
                     dw->in_channels * dw->taps, dw->dtype, dw->accumulate);
    }
}

/* ---- Planning ---- */

static void set_scratch(cpu_build *build, dw_block *dw)
{
    int64_t vw = build->isa->vw, pixels = dw->x_group.planes.height * dw->x_group.planes.width,
            result = dw->gy_group.planes.height * dw->gy_group.planes.width;
    size_t plane = (size_t)(((pixels > result ? pixels : result) + vw) * vw) * 4;
    dw->cut_stride = (size_t)(dw->taps * dw->x_group.planes.blocks * dw->gy_group.planes.blocks * vw * vw);
    dw->cuts = kit_min(kit_min(MOST_CUTS, (dw->images + dw->x_group.images - 1) / dw->x_group.images),
                       SUMS_BYTES / (int64_t)(dw->cut_stride * 4));
    dw->cuts = dw->cuts < 1 ? 1 : dw->cuts;
    dw->ranges = kit_min((LEAST_TASKS + dw->cuts - 1) / dw->cuts, (dw->gy_group.planes.blocks + 3) / 4);
    dw->at_gy = kit_round_bytes((size_t)(cpu_grouped_block(&dw->x_group, build->isa->vw) * dw->x_group.planes.blocks) * 4, 4096) + 128;
    dw->at_plane = dw->at_gy +
                   kit_round_bytes((size_t)(cpu_grouped_block(&dw->gy_group, build->isa->vw) * dw->gy_group.planes.blocks) * 4, 4096) +
                   128;
    dw->at_tmp = dw->at_plane + kit_round_bytes(plane, 4096) + 128;
    size_t taps = (size_t)((2 * dw->taps * vw + 1) * vw) * 4;
    cpu_need_thread_ws(build, dw->at_tmp + plane > taps ? dw->at_tmp + plane : taps);
    cpu_need_shared_ws(build, (size_t)dw->cuts * dw->cut_stride * 4);
}

/* Which of n grid points, `stride` pixels apart, see one of `size` pixels at distance d. */
static dw_span seen_at(int64_t d, int64_t n, int64_t stride, int64_t size)
{
    dw_span s = {0, n};
    while (s.first < n && s.first * stride + d < 0)
        s.first++;
    while (s.end > s.first && (s.end - 1) * stride + d >= size)
        s.end--;
    return s;
}

/* Images of a group: enough grid points if they fit. */
static int64_t group_of(const conv_shape *shape, int64_t image)
{
    int64_t size = shape->oh * shape->ow, wanted = (LEAST_POSITIONS + size - 1) / size;
    return kit_max(kit_min(wanted, MOST_BYTES / image), 1);
}

static cpu_grouped x_group(const cpu_isa *isa, const conv_problem *problem)
{
    const conv_shape *shape = &problem->shape;
    const bool pairs = isa->bf16 == CPU_BF16_PAIRS && problem->x_dtype == YK_BF16 && problem->gy_dtype == YK_BF16;
    return (cpu_grouped){.planes = {.channels = shape->c,
                                    .height = shape->h,
                                    .width = shape->w,
                                    .blocks = kit_div_up(shape->c, isa->vw),
                                    .dtype = problem->x_dtype,
                                    .image_pairs = pairs ? shape->n : 0},
                         .stride_y = shape->sh,
                         .stride_x = shape->sw,
                         .pad = cpu_padding_of(&problem->dw->view),
                         .images = 1};
}

static cpu_grouped gy_group(const cpu_isa *isa, const conv_problem *problem, int64_t image_pairs)
{
    const conv_shape *shape = &problem->shape;
    return (cpu_grouped){.planes = {.channels = shape->o, .height = shape->oh, .width = shape->ow,
                                    .blocks = kit_div_up(shape->o, isa->vw), .dtype = problem->gy_dtype, .image_pairs = image_pairs},
                         .stride_y = 1, .stride_x = 1, .pad = {0, 0, shape->oh, shape->ow, shape->oh * shape->ow}, .images = 1};
}

/* bytes of an image laid out */
static int64_t image_bytes(const cpu_isa *isa, const cpu_grouped *group)
{
    return cpu_grouped_block(group, isa->vw) * group->planes.blocks * 4;
}

static bool block_dw_fits(const cpu_isa *isa, const conv_problem *problem)
{
    const conv_shape *shape = &problem->shape;
    if (shape->groups != 1 || shape->n < 4 || shape->c < 8 || shape->o < 8 || shape->kh * shape->kw > MOST_TAPS ||
        (shape->sh == 1 && shape->sw == 1) || (isa->bf16 == CPU_BF16_TILES && problem->x_dtype == YK_BF16))
        return false;
    const cpu_grouped group = x_group(isa, problem);
    return image_bytes(isa, &group) <= MOST_BYTES;
}

static void block_dw_plan(cpu_build *build, const conv_problem *problem)
{
    const conv_shape *shape = &problem->shape;
    const yk_node *node = problem->node;
    const conv_view *view = &problem->dw->view;
    const yk_value *gw = cpu_out(build, node, 0);
    const int64_t vw = build->isa->vw;
    dw_block *dw = cpu_args(build, sizeof *dw);
    dw_tap *tap = cpu_args(build, (size_t)view->taps * sizeof *tap);
    if (!dw || !tap)
        return;
    cpu_grouped x = x_group(build->isa, problem), gy = gy_group(build->isa, problem, x.planes.image_pairs);
    x.planes.at = cpu_ref_of(cpu_in(build, node, 1));
    gy.planes.at = cpu_ref_of(cpu_in(build, node, 0));
    x.images = gy.images = group_of(shape, image_bytes(build->isa, &x));
    *dw = (dw_block){.x_group = x, .gy_group = gy, .gw_ref = cpu_ref_of(gw),
                     .images = x.planes.image_pairs ? (shape->n + 1) / 2 : shape->n, .in_channels = shape->c,
                     .out_channels = shape->o, .taps = view->taps, .tap = tap, .dtype = gw->dtype,
                     .accumulate = node->flags & YK_NODE_ACCUMULATE};
    for (int32_t t = 0; t < view->taps; t++)
        tap[t] = (dw_tap){cpu_padding_offset(view, &x.pad, 0, t) * x.images * vw,
                          seen_at(view->shift_y[t], shape->oh, shape->sh, shape->h),
                          seen_at(view->shift_x[t], shape->ow, shape->sw, shape->w)};
    set_scratch(build, dw);
    cpu_emit(build, part_step, dw, (double)(shape->n * shape->oh * shape->ow) * (double)(shape->c * shape->o * view->taps) * 2 / 80);
    if (dw->cuts > 1)
        cpu_emit(build, sum_step, dw, (double)((size_t)dw->cuts * dw->cut_stride) * 0.2);
    cpu_emit(build, finish_step, dw, (double)dw->cut_stride);
}

const conv_algorithm cpu_conv_block_dw = {"block", block_dw_fits, block_dw_plan};
