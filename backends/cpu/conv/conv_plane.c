/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts between images of planes, [channel][pixel], and blocks of channels, [block][position][vector of words]. The algorithms on
 * blocks, Winograd's and the pools call it within their steps, on a worker, with that worker's memory.
 *
 * A word is a number in f32 or, for products of bf16 pairs, two neighbouring channels or two neighbouring images of one channel.
 */
#include <string.h>

#include "backends/cpu/conv/conv_plane.h"
#include "backends/cpu/isa/pack_kernels.h"
#include "backends/cpu/isa/vec_kernels.h"

void cpu_plane_in(const cpu_ctx *ctx, const cpu_planes *planes, int64_t image, int64_t block, int64_t first, int64_t lines, void *tmp,
                  float *to)
{
    int64_t size = planes->height * planes->width, pixels = lines * planes->width, lanes = ctx->isa->vw << planes->pairs;
    int64_t left = planes->channels - block * lanes, n = left < lanes ? left : lanes, at = planes->image_pairs ? 2 * image : image;
    size_t vw = (size_t)ctx->isa->vw;
    const char *plane = cpu_at(ctx, planes->at);
    plane += ((at * planes->channels + block * lanes) * size + first * planes->width) * yk_dtype_bytes(planes->dtype);
    const uint16_t *src16 = (const uint16_t *)(const void *)plane;
    if (planes->pairs) {
        ctx->isa->pack->transpose_pairs((uint32_t *)(void *)to, vw, src16, src16 + size, (size_t)(2 * size), (size_t)((n + 1) / 2),
                                        (size_t)(n / 2), (size_t)pixels);
    } else if (planes->image_pairs) {
        ctx->isa->pack->transpose_pairs((uint32_t *)(void *)to, vw, src16, src16 + planes->channels * size, (size_t)size, (size_t)n,
                                        (size_t)(at + 1 < planes->image_pairs ? n : 0), (size_t)pixels);
    } else if (planes->dtype == YK_BF16) {
        ctx->isa->pack->planes_in(to, src16, (size_t)size, (size_t)n, (size_t)pixels);
    } else if (planes->dtype == YK_F32) {
        ctx->isa->pack->transpose((uint32_t *)(void *)to, vw, plane, (size_t)size * 4, (size_t)n, (size_t)pixels);
    } else {
        for (int64_t i = 0; i < n; i++)
            ctx->isa->vec->to_f32((float *)tmp + i * pixels, plane + i * size * 2, planes->dtype, (size_t)pixels);
        ctx->isa->pack->transpose((uint32_t *)(void *)to, vw, tmp, (size_t)pixels * 4, (size_t)n, (size_t)pixels);
    }
}

void cpu_plane_out(const cpu_ctx *ctx, const float *from, int64_t pixels, int64_t channels, char *to, int dtype, int64_t size,
                   float *tmp)
{
    size_t vw = (size_t)ctx->isa->vw;
    if (dtype == YK_F32 && pixels >= ctx->isa->vw) {
        ctx->isa->pack->transpose((uint32_t *)(void *)to, (size_t)size, from, vw * 4, (size_t)pixels, (size_t)channels);
        return;
    }
    if (dtype == YK_BF16) {
        ctx->isa->vec->planes_out((uint16_t *)(void *)to, (size_t)size, from, (size_t)pixels, (size_t)channels);
        return;
    }
    ctx->isa->pack->transpose((uint32_t *)(void *)tmp, (size_t)pixels, from, vw * 4, (size_t)pixels, (size_t)channels);
    for (int64_t i = 0; i < channels; i++)
        ctx->isa->vec->from_f32(to + i * size * yk_dtype_bytes((yk_dtype)dtype), tmp + i * pixels, dtype, (size_t)pixels);
}

/* Writes a padded line of one remainder: pixels y, sx * x + rx of the image, zeros outside it. */
static void spread_line(const cpu_ctx *ctx, const cpu_grouped *group, const float *plane, const float *zero, int64_t y, int64_t rx,
                        float *to)
{
    int64_t vw = ctx->isa->vw, stride = group->images * vw, wp = group->pad.width, width = group->planes.width,
            first = group->pad.min_x * group->stride_x + rx;
    int64_t lo = first < 0 ? (-first + group->stride_x - 1) / group->stride_x : 0,
            hi = first >= width ? 0 : (width - 1 - first) / group->stride_x + 1;
    if (y < 0 || y >= group->planes.height)
        hi = lo = 0;
    lo = lo < wp ? lo : wp;
    hi = hi < lo ? lo : hi < wp ? hi : wp;
    ctx->isa->pack->spread(to, (size_t)stride, zero, 0, (size_t)lo);
    if (lo < hi)
        ctx->isa->pack->spread(to + lo * stride, (size_t)stride, plane + (y * width + first + lo * group->stride_x) * vw,
                               (size_t)(group->stride_x * vw), (size_t)(hi - lo));
    ctx->isa->pack->spread(to + hi * stride, (size_t)stride, zero, 0, (size_t)(wp - hi));
}

int64_t cpu_grouped_block(const cpu_grouped *group, int vw)
{
    return group->stride_y * group->stride_x * group->pad.height * group->pad.width * group->images * vw;
}

void cpu_grouped_in(const cpu_ctx *ctx, const cpu_grouped *group, int64_t image, int64_t n, int64_t b0, int64_t b1, float *plane,
                    void *tmp, float *to)
{
    const float zero[16] = {0};
    int64_t vw = ctx->isa->vw, line = group->pad.width * group->images * vw;
    for (int64_t b = b0; b < b1; b++, to += cpu_grouped_block(group, ctx->isa->vw))
        for (int64_t j = 0; j < group->images; j++) {
            float *at = to + j * vw;
            if (j < n)
                cpu_plane_in(ctx, &group->planes, image + j, b, 0, group->planes.height, tmp, plane);
            for (int64_t r = 0; r < group->stride_y * group->stride_x; r++)
                for (int64_t y = 0; y < group->pad.height; y++, at += line)
                    spread_line(ctx, group, plane, zero,
                                j < n ? (y + group->pad.min_y) * group->stride_y + r / group->stride_x : -1, r % group->stride_x,
                                at);
        }
}

void cpu_taps_out(const cpu_ctx *ctx, const float *taps, int64_t n_taps, int64_t nc, int64_t no, float *tmp, char *to,
                  int64_t stride, int dtype, bool accumulate)
{
    int64_t n = n_taps * nc, item = yk_dtype_bytes((yk_dtype)dtype);
    float old[64];
    ctx->isa->pack->transpose((uint32_t *)(void *)tmp, (size_t)n, taps, (size_t)ctx->isa->vw * 4, (size_t)n, (size_t)no);
    for (int64_t i = 0; i < no; i++, tmp += n, to += stride * item) {
        for (int64_t k = 0; accumulate && k < n; k += 64) {
            size_t m = (size_t)(n - k < 64 ? n - k : 64);
            ctx->isa->vec->to_f32(old, to + k * item, dtype, m);
            ctx->isa->vec->add(tmp + k, old, m);
        }
        ctx->isa->vec->from_f32(to, tmp, dtype, (size_t)n);
    }
}
