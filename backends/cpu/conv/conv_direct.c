/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution without packed panels, for many images whose rows are not too short. cpu_conv.c plans it while a program is compiled, in any
 * thread; its steps run on the workers, an image a piece.
 *
 * An image is copied once with zeros around it, its pixels sorted by their remainder modulo the stride. Then the grid points of the whole
 * image, counted along padded rows, see any tap at one constant distance. So a panel's row k is 2 vectors at base + off[k]. Columns that
 * fall between two rows are computed and dropped; there are none where a row of the grid is whole vectors (dense).
 */
#include <string.h>

#include "backends/cpu/conv/conv_shape.h"
#include "backends/cpu/isa/conv_kernels.h"
#include "backends/cpu/isa/pack_kernels.h"
#include "backends/cpu/isa/vec_kernels.h"
#include "plugins/kit/value.h"

#define PANELS 4 /* columns of a block of sums: PANELS * nr */
#define KC 512   /* words of k at a time */

/* a word of k in bf16: indices into a row of the weights, -1 for none */
typedef struct direct_pair {
    int32_t first, second;
} direct_pair;

typedef struct direct_args {
    conv_args conv;
    bool pairs;        /* bf16 pairs of channels; with an odd last one, pairs of a pixel and its neighbour */
    int64_t neighbour; /* source pixels from a tap to its neighbour in the line; 0 without one */
    const direct_pair *pair;
    int mr, nr;
    bool dense;     /* panels are whole lines of the grid, or whole parts of a line */
    int64_t second; /* words from a panel's first vector to the second one */
    conv_padding pad;
    int64_t planes, words; /* planes of an image (channels or pairs, times remainders); words of k */
    const int32_t *offset;
    size_t at_a, at_acc, at_tmp; /* in the scratch: the image, packed weights, sums, rows */
} direct_args;

/* ---- Running ---- */

/* w[m][c][t] as strips of words */
static void pack_pairs(const direct_args *direct, const uint16_t *w, uint32_t *to)
{
    int64_t m = direct->conv.gemm.m;
    for (int64_t s = 0; s < m; s += direct->mr) {
        int64_t rows = m - s < direct->mr ? m - s : direct->mr;
        for (int64_t k = 0; k < direct->words; k++)
            for (int64_t i = 0; i < rows; i++) {
                const uint16_t *row = w + (s + i) * direct->conv.gemm.k;
                *to++ = row[direct->pair[k].first] | (direct->pair[k].second < 0 ? 0 : (uint32_t)row[direct->pair[k].second] << 16);
            }
    }
}

static void pack_weights(const direct_args *direct, const cpu_ctx *ctx, int64_t group)
{
    const conv_args *conv = &direct->conv;
    const char *w = conv->ws_w >= 0 ? ctx->shared_ws + conv->ws_w : cpu_at(ctx, conv->w_ref);
    w += group * conv->w_stride * yk_dtype_bytes(conv->w_dtype);
    if (direct->pairs) {
        pack_pairs(direct, (const uint16_t *)(const void *)w, (uint32_t *)(void *)(ctx->thread_ws + direct->at_a));
        return;
    }
    cpu_src src = {.p = w, .ld = conv->gemm.k, .dtype = conv->w_dtype, .kcontig = 1};
    cpu_gemm_pack_rows(ctx->isa, &src, direct->mr, conv->gemm.m, conv->gemm.k, ctx->thread_ws + direct->at_a,
                       ctx->thread_ws + direct->at_tmp);
}

/* one padded plane, or a pair of them, of remainder (ry, rx) */
static void pad_plane(const direct_args *direct, const conv_view_at *at, int64_t c, int64_t ry, int64_t rx, char *tmp, char *to)
{
    const conv_view *view = &direct->conv.view;
    int64_t size = view->height * view->width * yk_dtype_bytes(view->dtype), cg = direct->conv.gemm.k / view->taps;
    const char *plane = at->data + c * size;
    for (int64_t y = 0; y < direct->pad.height; y++, to += direct->pad.width * 4) {
        int64_t sy = (y + direct->pad.min_y) * view->stride_y + ry, shift = direct->pad.min_x * view->stride_x + rx;
        if (!direct->pairs) {
            cpu_view_row(at, plane, sy, 0, direct->pad.width, shift, to, false);
            continue;
        }
        bool next = c + 1 < cg, two = next || direct->neighbour;
        char *second = tmp + kit_round_bytes((size_t)direct->pad.width * 2, 64);
        cpu_view_row(at, plane, sy, 0, direct->pad.width, shift, tmp, true);
        if (two)
            cpu_view_row(at, next ? plane + size : plane, sy, 0, direct->pad.width, next ? shift : shift + direct->neighbour,
                         second, true);
        at->isa->pack->strip_pairs((uint32_t *)(void *)to, (size_t)direct->pad.width, 0, (const uint16_t *)(const void *)tmp,
                                   two ? (const uint16_t *)(const void *)second : NULL, (size_t)direct->pad.width);
    }
}

/* Splits a pair of channels into lines of all remainders at a step of 2. Each line is read once, and even and odd pixels are separated. */
static void split_planes(const direct_args *direct, const conv_view_at *at, int64_t c, uint32_t *to)
{
    const conv_view *view = &direct->conv.view;
    int64_t size = view->height * view->width, wp = direct->pad.width, area = direct->pad.height * wp, left = -direct->pad.min_x;
    int64_t n = view->width < 2 * (wp - left) ? view->width : 2 * (wp - left);
    const uint16_t *plane = (const uint16_t *)(const void *)at->data + c * size;
    bool two = c + 1 < direct->conv.gemm.k / view->taps;
    for (int64_t r = 0; r < 2; r++)
        for (int64_t y = 0; y < direct->pad.height; y++) {
            int64_t sy = (y + direct->pad.min_y) * 2 + r;
            uint32_t *even = to + 2 * r * area + y * wp, *odd = even + area;
            memset(even, 0, (size_t)wp * 4);
            memset(odd, 0, (size_t)wp * 4);
            if (sy < 0 || sy >= view->height)
                continue;
            const uint16_t *row = plane + sy * view->width;
            at->isa->pack->split_pairs(even + left, odd + left, row, two ? row + size : NULL, (size_t)n);
        }
}

/* Lines of a pair of channels at a step of 1, with zeros around them. */
static void join_planes(const direct_args *direct, const conv_view_at *at, int64_t c, uint32_t *to)
{
    const conv_view *view = &direct->conv.view;
    int64_t size = view->height * view->width, wp = direct->pad.width, left = -direct->pad.min_x;
    int64_t n = view->width < wp - left ? view->width : wp - left;
    const uint16_t *plane = (const uint16_t *)(const void *)at->data + c * size;
    for (int64_t y = 0; y < direct->pad.height; y++, to += wp) {
        int64_t sy = y + direct->pad.min_y;
        if (sy < 0 || sy >= view->height) {
            memset(to, 0, (size_t)wp * 4);
            continue;
        }
        const uint16_t *row = plane + sy * view->width;
        memset(to, 0, (size_t)left * 4);
        memset(to + left + n, 0, (size_t)(wp - left - n) * 4);
        at->isa->pack->strip_pairs(to + left, (size_t)n, 0, row, c + 1 < direct->conv.gemm.k / view->taps ? row + size : NULL,
                                   (size_t)n);
    }
}

static void pad_image(const direct_args *direct, const conv_view_at *at, const cpu_ctx *ctx)
{
    const conv_view *view = &direct->conv.view;
    char *to = ctx->thread_ws;
    int64_t channel_step = direct->pairs ? 2 : 1, cg = direct->conv.gemm.k / view->taps, planes = 0;
    if (direct->pairs && !direct->neighbour && view->stride_y == 2 && view->stride_x == 2)
        planes = 4;
    else if (direct->pairs && !direct->neighbour && view->stride_y == 1 && view->stride_x == 1 && direct->pad.min_x <= 0 &&
             direct->pad.width + direct->pad.min_x > 0)
        planes = 1;
    for (int64_t ch = 0; planes && ch < cg; ch += 2, to += planes * direct->pad.height * direct->pad.width * 4)
        (planes == 4 ? split_planes : join_planes)(direct, at, ch, (uint32_t *)(void *)to);
    for (int64_t ch = 0; !planes && ch < cg; ch += channel_step)
        for (int64_t r = 0; r < view->stride_y * view->stride_x; r++, to += direct->pad.height * direct->pad.width * 4)
            pad_plane(direct, at, ch, r / view->stride_x, r % view->stride_x, ctx->thread_ws + direct->at_tmp, to);
}

/* sums of a block of columns go to their rows of the result; columns between rows are dropped */
static void put_block(const direct_args *direct, const conv_run *r, int64_t image, int64_t p0, int64_t n, const float *acc)
{
    const conv_args *conv = &direct->conv;
    int64_t item = yk_dtype_bytes(conv->y_dtype), plane = conv->oh * conv->ow * item, ld = PANELS * direct->nr;
    char *base = (char *)cpu_at(r->ctx, conv->y_ref) + (image * conv->out_channels + r->group * conv->gemm.m) * plane;
    void (*from_f32)(void *, const float *, int, size_t) = r->ctx->isa->vec->from_f32;
    for (int64_t m = 0; direct->dense && m < conv->gemm.m; m++)
        from_f32(base + m * plane + p0 * item, acc + m * ld, conv->y_dtype, (size_t)n);
    if (direct->dense)
        return;
    for (int64_t p = p0; p < p0 + n;) {
        int64_t y = p / direct->pad.width, x = p % direct->pad.width,
                left = direct->pad.width - x < p0 + n - p ? direct->pad.width - x : p0 + n - p;
        int64_t run = conv->view.grid_w - x < left ? conv->view.grid_w - x : left;
        char *row = base + (y * conv->stride_y + conv->first_y) * conv->ow * item;
        for (int64_t m = 0; run > 0 && m < conv->gemm.m; m++) {
            const float *from = acc + m * ld + p - p0;
            if (conv->stride_x == 1)
                from_f32(row + m * plane + (x + conv->first_x) * item, from, conv->y_dtype, (size_t)run);
            else
                cpu_conv_put(r, row + m * plane, x, from, run);
        }
        p += left;
    }
}

/* words from the image's start to the panel of columns p and on */
static int64_t panel_at(const direct_args *direct, int64_t p)
{
    return direct->dense ? p / direct->conv.view.grid_w * direct->pad.width + p % direct->conv.view.grid_w : p;
}

static void direct_image(const direct_args *direct, const conv_run *r, int64_t image)
{
    const cpu_ctx *ctx = r->ctx;
    const cpu_taps_kernel *kernel = ctx->isa->conv[direct->pairs]->taps;
    const uint32_t *pa = (const uint32_t *)(const void *)(ctx->thread_ws + direct->at_a);
    const uint32_t *img = (const uint32_t *)(const void *)ctx->thread_ws;
    float *acc = (float *)(void *)(ctx->thread_ws + direct->at_acc);
    int64_t width = PANELS * direct->nr, m = direct->conv.gemm.m,
            all = direct->dense ? direct->conv.view.grid_h * direct->conv.view.grid_w : direct->pad.columns;
    for (int64_t p = 0; p < all && !cpu_stops(ctx); p += width) {
        int64_t n = all - p < width ? all - p : width;
        for (int64_t k = 0; k < direct->words; k += KC) {
            size_t kc = (size_t)(direct->words - k < KC ? direct->words - k : KC);
            for (int64_t i = 0; i < m; i += direct->mr) {
                int64_t rows = m - i < direct->mr ? m - i : direct->mr;
                const uint32_t *a = pa + i * direct->words + k * rows;
                for (int64_t j = 0; j < n; j += direct->nr)
                    kernel[rows](kc, a, img + panel_at(direct, p + j), (size_t)direct->second, direct->offset + k, acc + i * width + j,
                                 (size_t)width, k > 0);
            }
        }
        put_block(direct, r, image, p, n, acc);
    }
}

static void direct_step(const void *args, const cpu_ctx *ctx)
{
    const direct_args *direct = args;
    const conv_args *conv = &direct->conv;
    int64_t lo, hi, packed = -1, size = conv->view.height * conv->view.width * yk_dtype_bytes(conv->view.dtype);
    cpu_part(conv->groups * conv->images, ctx->piece, ctx->pieces, &lo, &hi);
    for (int64_t t = lo; t < hi && !cpu_stops(ctx); t++) {
        int64_t group = t / conv->images, image = t % conv->images;
        conv_run r = {conv, ctx, group};
        conv_view_at at = {&conv->view, ctx->isa, (const char *)cpu_at(ctx, conv->x_ref), 0};
        at.data += (image * conv->view.channels + group * conv->x_planes) * size;
        if (group != packed)
            pack_weights(direct, ctx, packed = group);
        pad_image(direct, &at, ctx);
        direct_image(direct, &r, image);
    }
}

/* ---- Planning ---- */

/* Returns the number of words of k in bf16, and fills off and pair, or only counts if they are NULL. Taps of an odd last channel go by twos
 * if neighbours in a line are all equally far apart. */
static int64_t set_pairs(direct_args *direct, int32_t *off, direct_pair *pair)
{
    const conv_view *view = &direct->conv.view;
    int64_t cg = direct->conv.gemm.k / view->taps, n = 0;
    direct->neighbour = 0;
    for (int64_t c = 0; c < cg; c += 2)
        for (int32_t t = 0, used; t < view->taps; t += used, n++) {
            int64_t tap_distance =
                t + 1 < view->taps && view->shift_y[t] == view->shift_y[t + 1] ? view->shift_x[t + 1] - view->shift_x[t] : 0;
            bool two = c + 1 == cg && tap_distance && (!direct->neighbour || direct->neighbour == tap_distance);
            if (two)
                direct->neighbour = tap_distance;
            used = two ? 2 : 1;
            if (!off)
                continue;
            off[n] = (int32_t)cpu_padding_offset(view, &direct->pad, c / 2, t);
            pair[n].first = (int32_t)(c * view->taps + t);
            pair[n].second = c + 1 < cg ? pair[n].first + view->taps : two ? pair[n].first + 1 : -1;
        }
    return n;
}

static void set_geometry(direct_args *direct)
{
    const conv_view *view = &direct->conv.view;
    int64_t cg = direct->conv.gemm.k / view->taps, channels = direct->pairs ? (cg + 1) / 2 : cg;
    direct->pad = cpu_padding_of(view);
    direct->planes = channels * view->stride_y * view->stride_x;
    direct->words = direct->pairs ? set_pairs(direct, NULL, NULL) : channels * view->taps;
}

/* The members that need no memory. */
static direct_args direct_of(const cpu_isa *isa, const conv_args *conv)
{
    direct_args direct = {.conv = *conv, .pairs = conv->gemm.mode == CPU_GEMM_PAIR, .mr = conv->gemm.mr, .nr = 2 * isa->vw};
    set_geometry(&direct);
    direct.dense = conv->stride_y == 1 && conv->stride_x == 1 && conv->oh == conv->view.grid_h && conv->ow == conv->view.grid_w &&
                   cpu_grid_is_dense(isa, conv->oh, conv->ow);
    direct.second = direct.dense && conv->ow == isa->vw ? direct.pad.width : isa->vw;
    return direct;
}

/* True if it pays. */
static bool direct_fits(const cpu_isa *isa, const conv_problem *problem)
{
    const conv_args *conv = problem->product;
    if (conv->empty)
        return false;
    const direct_args direct = direct_of(isa, conv);
    int64_t wanted = conv->view.grid_h * conv->view.grid_w;
    int64_t computed = direct.dense ? wanted : kit_round_up(direct.pad.columns, direct.nr);
    return conv->images >= 4 && computed * 10 <= wanted * 17 && direct.planes * direct.pad.height * direct.pad.width <= 512 << 10 &&
           conv->gemm.m * direct.words <= 256 << 10 && conv->gemm.mode != CPU_GEMM_TILE;
}

static void direct_plan(cpu_build *build, const conv_problem *problem)
{
    const conv_args *conv = problem->product;
    direct_args *direct = cpu_args(build, sizeof *direct);
    if (!direct)
        return;
    *direct = direct_of(build->isa, conv);
    int32_t *offset = cpu_args(build, (size_t)direct->words * sizeof *offset);
    direct_pair *pair = cpu_args(build, (size_t)direct->words * sizeof *pair);
    if (!offset || !pair)
        return;
    direct->pair = pair;
    if (direct->pairs)
        set_pairs(direct, offset, pair);
    for (int64_t k = 0; !direct->pairs && k < direct->words; k++)
        offset[k] = (int32_t)cpu_padding_offset(&conv->view, &direct->pad, k / conv->view.taps, k % conv->view.taps);
    direct->offset = offset;
    size_t line = kit_round_bytes((size_t)direct->pad.width * 4, 64) * 2, strip = (size_t)(direct->mr * direct->words) * 4 + 16384;
    direct->at_a = kit_round_bytes((size_t)(direct->planes * direct->pad.height * direct->pad.width + 64) * 4, 4096) + 128;
    direct->at_acc = direct->at_a + kit_round_bytes((size_t)(conv->gemm.m * direct->words) * 4 + 256, 4096) + 128;
    direct->at_tmp = direct->at_acc + kit_round_bytes((size_t)(conv->gemm.m * PANELS * direct->nr) * 4, 4096) + 128;
    cpu_need_thread_ws(build, direct->at_tmp + (line > strip ? line : strip) + 128);
    cpu_emit(build, direct_step, direct, problem->work);
}

const conv_algorithm cpu_conv_direct = {"direct", direct_fits, direct_plan};
