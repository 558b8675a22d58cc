/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The weight gradient from padded images (see conv_direct.c): gw'[(c,t), o] = sum_q x[c, q + off(t)] gy[q, o]. cpu_conv.c plans it while a
 * program is compiled, in any thread; its steps run on the workers.
 *
 * The rows of the first operand are read in the image itself. If lines of gy fill vectors and results are few, gy is read in place too,
 * with positions in the lanes (kern_span.inc). It is widened a few planes at a time unless it has the kernel's type. Else it is transposed,
 * with zeros between its rows. Sums of a fixed share of the images are kept apart and added in order.
 */
#include <string.h>

#include "backends/cpu/conv/conv_plane.h"
#include "backends/cpu/isa/conv_kernels.h"
#include "backends/cpu/isa/gemm_kernels.h"
#include "backends/cpu/isa/pack_kernels.h"
#include "backends/cpu/isa/row_kernels.h"
#include "backends/cpu/isa/vec_kernels.h"
#include "plugins/kit/value.h"

#define MOST_CUTS 16
#define SPAN_ROWS 6            /* (c,t) at a time at most, positions in the lanes */
#define SPAN_OUTS 4            /* results at a time */
#define SPAN_BYTES (128 << 10) /* bytes of all sums, a vector each */
#define COLUMNS 64    /* results of partial sums at a time */
#define KC 256 /* words of k at a time, in whole lines: the panel of gy stays in the first cache */

typedef struct direct_dw {
    dw_args dw;
    conv_padding pad;
    bool pairs, spans;                          /* spans: positions in the lanes */
    int64_t images, cuts, rows, in_channels;    /* rows: (c,t) of a group */
    int64_t item, out_padded;                   /* bytes of an image's number; o rounded up to whole vectors */
    int64_t row_words, gap_words, rows_at_once; /* words of k in a padded line; in its padding; lines at a time */
    int mr;
    const int32_t *offset; /* [rows], in numbers */
    size_t at_gy, at_tmp;  /* in the scratch: the image, gy' or spans' sums, a line of gy' */
} direct_dw;

/* true if the kernels take gy's numbers as they are; else they are widened */
static bool reads_gy(const direct_dw *direct)
{
    return direct->pairs || direct->dw.grad_view.dtype == YK_F32;
}

static void pad_planes(const direct_dw *direct, const conv_view_at *at, char *to)
{
    const conv_view *view = &direct->dw.view;
    for (int64_t c = 0; c < direct->in_channels; c++)
        for (int64_t r = 0; r < view->stride_y * view->stride_x; r++)
            for (int64_t y = 0; y < direct->pad.height; y++, to += direct->pad.width * direct->item)
                cpu_view_row(at, at->data + c * view->height * view->width * yk_dtype_bytes(view->dtype),
                             (y + direct->pad.min_y) * view->stride_y + r / view->stride_x, 0, direct->pad.width,
                             direct->pad.min_x * view->stride_x + r % view->stride_x, to, direct->pairs);
    memset(to, 0, 256);
}

/* Packs line y of columns o0 .. o0 + n - 1 of gy', k-major, w words apart, with zeros for the image's padding. */
static void pack_line(const direct_dw *direct, const conv_view_at *at, const cpu_ctx *ctx, int64_t o0, int64_t n, int64_t w, int64_t y,
                      uint32_t *to)
{
    const conv_view *view = &direct->dw.grad_view;
    int64_t item = yk_dtype_bytes(view->dtype), size = view->height * view->width * item,
            words = direct->pairs ? view->grid_w / 2 : view->grid_w;
    const char *from = at->data + o0 * size + y * view->grid_w * item;
    int64_t ahead = direct->rows_at_once * view->grid_w * item +
                    (y + direct->rows_at_once < view->grid_h ? 0 : (view->channels - 1) * size); /* else in the next image */
    char *tmp = ctx->thread_ws + direct->at_tmp;
    for (int64_t i = 0; i < n; i++) /* planes lie pages apart, so no processor prefetches their lines itself */
        for (int64_t k = 0; k < view->grid_w * item; k += 64)
            __builtin_prefetch(from + i * size + ahead + k, 0, 2);
    if (reads_gy(direct)) {
        ctx->isa->pack->transpose(to, (size_t)w, from, (size_t)size, (size_t)n, (size_t)words);
    } else if (view->dtype == YK_BF16) {
        ctx->isa->pack->transpose_bf16(to, (size_t)w, from, (size_t)size, (size_t)n, (size_t)words);
    } else {
        for (int64_t i = 0; i < n; i++)
            ctx->isa->vec->to_f32((float *)(void *)tmp + i * words, from + i * size, view->dtype, (size_t)words);
        ctx->isa->pack->transpose(to, (size_t)w, tmp, (size_t)words * 4, (size_t)n, (size_t)words);
    }
    memset(to + words * w, 0, (size_t)((direct->row_words - words) * w) * 4);
    for (int64_t i = 0; direct->pairs && view->grid_w % 2 && i < n; i++)
        to[words * w + i] = ((const uint16_t *)(const void *)(from + i * size))[view->grid_w - 1];
}

/* lines y0 .. y1 - 1 of columns o .. o + w - 1 */
static void add_lines(const direct_dw *direct, const cpu_ctx *ctx, const conv_view_at *gy, int64_t o, int64_t w, int64_t y0, int64_t y1,
                      float *sums)
{
    const cpu_unpacked_kernel(*kernel)[3] = ctx->isa->gemm[direct->pairs]->unpacked;
    uint32_t *pb = (uint32_t *)(void *)(ctx->thread_ws + direct->at_gy);
    int64_t n = direct->dw.gemm.m - o < w ? direct->dw.gemm.m - o : w, gap = y1 == direct->dw.grad_view.grid_h ? direct->gap_words : 0;
    for (int64_t y = y0; y < y1; y++)
        pack_line(direct, gy, ctx, o, n, w, y, pb + (y - y0) * direct->row_words * w);
    for (int64_t r = 0; r < direct->rows; r += direct->mr) {
        int64_t rows = direct->rows - r < direct->mr ? direct->rows - r : direct->mr;
        const char *x_row[CPU_UNPACKED_MR];
        for (int64_t i = 0; i < rows; i++)
            x_row[i] = ctx->thread_ws + direct->offset[r + i] * direct->item + y0 * direct->row_words * 4;
        kernel[rows][w / ctx->isa->vw]((size_t)((y1 - y0) * direct->row_words - gap), x_row, pb, sums + r * direct->out_padded + o,
                                       (size_t)direct->out_padded);
    }
}

/* n planes of gy from `o` on for the kernel, widened if it cannot read them in place */
static const char *span_planes(const direct_dw *direct, const cpu_ctx *ctx, const char *gy, int64_t o, int64_t n)
{
    const conv_view *view = &direct->dw.grad_view;
    int64_t size = view->height * view->width;
    gy += o * size * yk_dtype_bytes(view->dtype);
    if (reads_gy(direct))
        return gy;
    ctx->isa->vec->to_f32((float *)(void *)(ctx->thread_ws + direct->at_tmp), gy, view->dtype, (size_t)(n * size));
    return ctx->thread_ws + direct->at_tmp;
}

/* An image with positions in the lanes; sums[(c,t)][o] are vectors. */
static void add_spans(const direct_dw *direct, const cpu_ctx *ctx, const char *gy, cpu_prefetch *prefetch, float *sums)
{
    const conv_view *view = &direct->dw.grad_view;
    const cpu_spans_kernel(*kernel)[2] = ctx->isa->conv[direct->pairs]->spans;
    int64_t m = direct->dw.gemm.m, vw = ctx->isa->vw, span_rows = ctx->isa->conv[direct->pairs]->span_rows,
            strips = (direct->rows + span_rows - 1) / span_rows;
    size_t row_pitch = (size_t)(view->grid_w * direct->item), plane_pitch = row_pitch * (size_t)view->grid_h;
    cpu_spans s = {(size_t)view->grid_h, row_pitch / 4, (size_t)(direct->pad.width * direct->item), row_pitch, plane_pitch};
    cpu_prefetch_over(prefetch, strips * (m / SPAN_OUTS + m % SPAN_OUTS));
    for (int64_t o = 0, n; o < m; o += n) {
        n = m - o < SPAN_OUTS ? 1 : SPAN_OUTS;
        const char *planes = span_planes(direct, ctx, gy, o, n);
        for (int64_t i = 0; i < strips; i++) {
            int64_t r = direct->rows * i / strips, rows = direct->rows * (i + 1) / strips - r;
            const char *x[SPAN_ROWS];
            for (int64_t j = 0; j < rows; j++)
                x[j] = ctx->thread_ws + direct->offset[r + j] * direct->item;
            cpu_prefetch_read(prefetch);
            kernel[rows][n > 1](&s, x, planes, sums + (r * m + o) * vw, (size_t)(m * vw));
        }
    }
}

/* images n0 .. n1 - 1 of a group, lanes added up in the end */
static void span_images(const direct_dw *direct, const cpu_ctx *ctx, conv_view_at x, const char *gy, int64_t n0, int64_t n1, float *to)
{
    const dw_args *dw = &direct->dw;
    int64_t xp = dw->view.channels * dw->view.height * dw->view.width * yk_dtype_bytes(dw->view.dtype), vw = ctx->isa->vw,
            m = dw->gemm.m;
    int64_t plane = dw->grad_view.height * dw->grad_view.width * yk_dtype_bytes(dw->grad_view.dtype),
            gp = dw->grad_view.channels * plane;
    float *sums = (float *)(void *)(ctx->thread_ws + direct->at_gy);
    memset(sums, 0, (size_t)(direct->rows * m * vw) * 4);
    for (int64_t n = n0; n < n1 && !cpu_stops(ctx); n++, x.data += xp, gy += gp) {
        cpu_prefetch prefetch = {gy + gp, n + 1 < n1 ? gy + gp + m * plane : gy + gp, 0};
        pad_planes(direct, &x, ctx->thread_ws);
        add_spans(direct, ctx, gy, &prefetch, sums);
    }
    for (int64_t r = 0; r < direct->rows; r++)
        for (int64_t o = 0; o < m; o++, sums += vw)
            to[r * direct->out_padded + o] = cpu_rows_of(ctx->isa, YK_F32)->sum(sums, (size_t)vw);
}

static void one_image(const direct_dw *direct, const cpu_ctx *ctx, const conv_view_at *x, const conv_view_at *gy, float *sums)
{
    int64_t vw = ctx->isa->vw, gh = direct->dw.grad_view.grid_h;
    pad_planes(direct, x, ctx->thread_ws);
    for (int64_t o = 0, w; o < direct->out_padded && !cpu_stops(ctx); o += w) {
        w = direct->out_padded - o < 2 * vw ? vw : 2 * vw;
        for (int64_t y = 0; y < gh; y += direct->rows_at_once)
            add_lines(direct, ctx, gy, o, w, y, gh - y < direct->rows_at_once ? gh : y + direct->rows_at_once, sums);
    }
}

static void direct_dw_step(const void *args, const cpu_ctx *ctx)
{
    const direct_dw *direct = args;
    const dw_args *dw = &direct->dw;
    int64_t lo, hi, xp = dw->view.height * dw->view.width * yk_dtype_bytes(dw->view.dtype);
    int64_t gp = dw->grad_view.height * dw->grad_view.width * yk_dtype_bytes(dw->grad_view.dtype),
            size = direct->rows * direct->out_padded;
    cpu_part(dw->groups * direct->cuts, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        int64_t group = t / direct->cuts, n0, n1;
        float *sums = (float *)(void *)ctx->shared_ws + t * size;
        memset(sums, 0, (size_t)size * 4);
        cpu_part(direct->images, (int)(t % direct->cuts), (int)direct->cuts, &n0, &n1);
        conv_view_at x = {&dw->view, ctx->isa,
                          (const char *)cpu_at(ctx, dw->x_ref) + (n0 * dw->view.channels + group * direct->in_channels) * xp, 0};
        conv_view_at gy = {&dw->grad_view, ctx->isa,
                           (const char *)cpu_at(ctx, dw->gy_ref) + (n0 * dw->grad_view.channels + group * dw->gemm.m) * gp, 0};
        if (direct->spans)
            span_images(direct, ctx, x, gy.data, n0, n1, sums);
        for (int64_t n = n0; !direct->spans && n < n1; n++, x.data += dw->view.channels * xp, gy.data += dw->grad_view.channels * gp)
            one_image(direct, ctx, &x, &gy, sums);
    }
}

/* gw = sum, of one weight, and as much as it was with `accumulate` */
static void weight_store(const dw_args *dw, const cpu_ctx *ctx, char *to, double sum)
{
    float rounded = 0.0f;
    if (dw->dtype == YK_F32) {
        float *weight = (float *)(void *)to;
        *weight = (float)(sum + (double)(dw->accumulate ? *weight : 0.0f));
        return;
    }
    if (dw->accumulate)
        ctx->isa->vec->to_f32(&rounded, to, dw->dtype, 1);
    rounded = (float)(sum + (double)rounded);
    ctx->isa->vec->from_f32(to, &rounded, dw->dtype, 1);
}

/* gw[g][o][(c,t)] = the cuts' sums in order, of neighbouring results at a time, as they lie */
static void direct_dw_combine_step(const void *args, const cpu_ctx *ctx)
{
    const direct_dw *direct = args;
    const dw_args *dw = &direct->dw;
    float *part = (float *)(void *)ctx->shared_ws;
    int64_t lo, hi, item = yk_dtype_bytes(dw->dtype), m = dw->gemm.m, size = direct->rows * direct->out_padded;
    cpu_part(dw->groups * direct->rows, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t t = lo; t < hi; t++) {
        const int64_t group = t / direct->rows, r = t % direct->rows;
        float *p = part + group * direct->cuts * size + r * direct->out_padded;
        char *to = (char *)cpu_at(ctx, dw->gw_ref) + (group * m * direct->rows + r) * item;
        for (int64_t o = 0, n; o < m; o += n) {
            double sum[COLUMNS] = {0};
            n = kit_min(m - o, COLUMNS);
            for (int64_t cut = 0; cut < direct->cuts; cut++)
                ctx->isa->vec->drain(sum, p + cut * size + o, (size_t)n);
            for (int64_t i = 0; i < n; i++)
                weight_store(dw, ctx, to + (o + i) * direct->rows * item, sum[i]);
        }
    }
}

/* True if lines of gy nearly fill vectors, and all sums fit the scratch. */
static bool suits_spans(const cpu_isa *isa, const direct_dw *direct)
{
    int64_t bytes = direct->dw.grad_view.grid_w * direct->item, vector = isa->vw * 4, whole = (bytes + vector - 1) / vector * vector;
    return bytes % 4 == 0 && whole * 10 <= bytes * 12 && direct->rows * direct->dw.gemm.m * vector <= SPAN_BYTES;
}

/* numbers of a padded image of a group */
static int64_t image_pixels(const direct_dw *direct)
{
    const conv_view *view = &direct->dw.view;
    return direct->in_channels * view->stride_y * view->stride_x * direct->pad.height * direct->pad.width;
}

/* The members that need no memory. */
static direct_dw direct_of(const cpu_isa *isa, const conv_problem *problem)
{
    const dw_args *dw = problem->dw;
    const int64_t images = problem->shape.n;
    direct_dw direct = {.dw = *dw, .pad = cpu_padding_of(&dw->view), .pairs = dw->gemm.mode == CPU_GEMM_PAIR, .images = images,
                        .cuts = kit_min(images, MOST_CUTS), .in_channels = dw->gemm.n / dw->view.taps, .rows = dw->gemm.n};
    direct.item = direct.pairs ? 2 : 4;
    direct.pad.width += direct.pairs && direct.pad.width % 2; /* every line begins with a word */
    direct.row_words = direct.pad.width * direct.item / 4;
    direct.gap_words = direct.row_words - (dw->grad_view.grid_w * direct.item + 3) / 4;
    direct.rows_at_once = direct.row_words < KC ? KC / direct.row_words : 1;
    direct.out_padded = kit_round_up(dw->gemm.m, isa->vw);
    int64_t most = isa->vw == 16 ? CPU_UNPACKED_MR : 6, strips = kit_div_up(direct.rows, most);
    direct.mr = (int)kit_div_up(direct.rows, strips);
    return direct;
}

static bool direct_dw_fits(const cpu_isa *isa, const conv_problem *problem)
{
    const dw_args *dw = problem->dw;
    const direct_dw direct = direct_of(isa, problem);
    return direct.images >= 4 && dw->gemm.mode != CPU_GEMM_TILE && direct.rows * direct.out_padded * dw->groups <= 160 << 10 &&
           image_pixels(&direct) <= 512 << 10 && direct.pad.columns * 10 <= dw->view.grid_h * dw->view.grid_w * 17;
}

static void direct_dw_plan(cpu_build *build, const conv_problem *problem)
{
    const dw_args *dw = problem->dw;
    const conv_view *view = &dw->view;
    direct_dw *direct = cpu_args(build, sizeof *direct);
    if (!direct)
        return;
    *direct = direct_of(build->isa, problem);
    int32_t *offset = cpu_args(build, (size_t)direct->rows * sizeof *offset);
    if (!offset)
        return;
    for (int64_t r = 0; r < direct->rows; r++)
        offset[r] = (int32_t)cpu_padding_offset(view, &direct->pad, r / view->taps, r % view->taps);
    direct->offset = offset;
    direct->at_gy = kit_round_bytes((size_t)(image_pixels(direct) * direct->item) + 512, 4096) + 128;
    direct->spans = suits_spans(build->isa, direct);
    int64_t vectors = direct->spans ? direct->rows * dw->gemm.m : direct->rows_at_once * direct->row_words * 2;
    direct->at_tmp = direct->at_gy + kit_round_bytes((size_t)(vectors * build->isa->vw) * 4 + 256, 4096) + 128;
    int64_t widened = reads_gy(direct) ? 0
                      : direct->spans  ? dw->grad_view.height * dw->grad_view.width * SPAN_OUTS
                                       : view->grid_w * 2 * build->isa->vw;
    int64_t sums = direct->cuts * dw->groups * direct->rows * direct->out_padded;
    cpu_need_thread_ws(build, direct->at_tmp + (size_t)widened * 4 + 256);
    cpu_need_shared_ws(build, (size_t)sums * 4);
    cpu_emit(build, direct_dw_step, direct, problem->work);
    cpu_emit(build, direct_dw_combine_step, direct, (double)sums * 1.5);
}

const conv_algorithm cpu_conv_direct_dw = {"direct", direct_dw_fits, direct_dw_plan};
