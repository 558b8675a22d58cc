/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between images of planes, [channel][pixel], and blocks of channels, [block][position][vector of words]: a word is a
 * number in f32 or, for products of bf16 pairs, two neighbouring channels or those of two neighbouring images.
 */
#include <string.h>

#include "backends/cpu/conv/conv.h"

void cpu_plane_in(const cpu_ctx *c, const cpu_planes *s, int64_t image, int64_t block, int64_t first, int64_t lines, void *tmp,
                  float *to)
{
    int64_t size = s->height * s->width, pixels = lines * s->width, lanes = c->isa->vw << s->pairs;
    int64_t left = s->channels - block * lanes, n = left < lanes ? left : lanes, at = s->image_pairs ? 2 * image : image;
    size_t vw = (size_t)c->isa->vw;
    const char *plane = cpu_at(c, s->at);
    plane += ((at * s->channels + block * lanes) * size + first * s->width) * yk_dtype_bytes(s->dtype);
    const uint16_t *src16 = (const uint16_t *)(const void *)plane;
    if (s->pairs) {
        c->isa->transpose_pairs((uint32_t *)(void *)to, vw, src16, src16 + size, (size_t)(2 * size), (size_t)((n + 1) / 2),
                                (size_t)(n / 2), (size_t)pixels);
    } else if (s->image_pairs) {
        c->isa->transpose_pairs((uint32_t *)(void *)to, vw, src16, src16 + s->channels * size, (size_t)size, (size_t)n,
                                (size_t)(at + 1 < s->image_pairs ? n : 0), (size_t)pixels);
    } else if (s->dtype == YK_BF16) {
        c->isa->planes_in(to, src16, (size_t)size, (size_t)n, (size_t)pixels);
    } else if (s->dtype == YK_F32) {
        c->isa->transpose((uint32_t *)(void *)to, vw, plane, (size_t)size * 4, (size_t)n, (size_t)pixels);
    } else {
        for (int64_t i = 0; i < n; i++)
            c->isa->to_f32((float *)tmp + i * pixels, plane + i * size * 2, s->dtype, (size_t)pixels);
        c->isa->transpose((uint32_t *)(void *)to, vw, tmp, (size_t)pixels * 4, (size_t)n, (size_t)pixels);
    }
}

void cpu_plane_out(const cpu_ctx *c, const float *from, int64_t pixels, int64_t channels, char *to, int dtype, int64_t size,
                   float *tmp)
{
    size_t vw = (size_t)c->isa->vw;
    if (dtype == YK_F32 && pixels >= c->isa->vw) {
        c->isa->transpose((uint32_t *)(void *)to, (size_t)size, from, vw * 4, (size_t)pixels, (size_t)channels);
        return;
    }
    if (dtype == YK_BF16) {
        c->isa->planes_out((uint16_t *)(void *)to, (size_t)size, from, (size_t)pixels, (size_t)channels);
        return;
    }
    c->isa->transpose((uint32_t *)(void *)tmp, (size_t)pixels, from, vw * 4, (size_t)pixels, (size_t)channels);
    for (int64_t i = 0; i < channels; i++)
        c->isa->from_f32(to + i * size * yk_dtype_bytes((yk_dtype)dtype), tmp + i * pixels, dtype, (size_t)pixels);
}

/* A padded line of one remainder: pixels y, sx * x + rx of the image, zeros where there are none. */
static void spread_line(const cpu_ctx *c, const cpu_grouped *s, const float *plane, const float *zero, int64_t y, int64_t rx,
                        float *to)
{
    int64_t vw = c->isa->vw, stride = s->g * vw, wp = s->pad.wp, width = s->p.width, first = s->pad.minx * s->stride_x + rx;
    int64_t lo = first < 0 ? (-first + s->stride_x - 1) / s->stride_x : 0,
            hi = first >= width ? 0 : (width - 1 - first) / s->stride_x + 1;
    if (y < 0 || y >= s->p.height)
        hi = lo = 0;
    lo = lo < wp ? lo : wp;
    hi = hi < lo ? lo : hi < wp ? hi : wp;
    c->isa->spread(to, (size_t)stride, zero, 0, (size_t)lo);
    if (lo < hi)
        c->isa->spread(to + lo * stride, (size_t)stride, plane + (y * width + first + lo * s->stride_x) * vw,
                       (size_t)(s->stride_x * vw), (size_t)(hi - lo));
    c->isa->spread(to + hi * stride, (size_t)stride, zero, 0, (size_t)(wp - hi));
}

int64_t cpu_grouped_block(const cpu_grouped *s, int vw)
{
    return s->stride_y * s->stride_x * s->pad.hp * s->pad.wp * s->g * vw;
}

void cpu_grouped_in(const cpu_ctx *c, const cpu_grouped *s, int64_t image, int64_t n, int64_t b0, int64_t b1, float *plane,
                    void *tmp, float *to)
{
    const float zero[16] = {0};
    int64_t vw = c->isa->vw, line = s->pad.wp * s->g * vw;
    for (int64_t b = b0; b < b1; b++, to += cpu_grouped_block(s, c->isa->vw))
        for (int64_t j = 0; j < s->g; j++) {
            float *at = to + j * vw;
            if (j < n)
                cpu_plane_in(c, &s->p, image + j, b, 0, s->p.height, tmp, plane);
            for (int64_t r = 0; r < s->stride_y * s->stride_x; r++)
                for (int64_t y = 0; y < s->pad.hp; y++, at += line)
                    spread_line(c, s, plane, zero, j < n ? (y + s->pad.miny) * s->stride_y + r / s->stride_x : -1, r % s->stride_x, at);
        }
}

void cpu_taps_out(const cpu_ctx *c, const float *taps, int64_t n_taps, int64_t nc, int64_t no, float *tmp, char *to,
                  int64_t stride, int dtype, bool accumulate)
{
    int64_t n = n_taps * nc, item = yk_dtype_bytes((yk_dtype)dtype);
    float old[64];
    c->isa->transpose((uint32_t *)(void *)tmp, (size_t)n, taps, (size_t)c->isa->vw * 4, (size_t)n, (size_t)no);
    for (int64_t i = 0; i < no; i++, tmp += n, to += stride * item) {
        for (int64_t k = 0; accumulate && k < n; k += 64) {
            size_t m = (size_t)(n - k < 64 ? n - k : 64);
            c->isa->to_f32(old, to + k * item, dtype, m);
            c->isa->add(tmp + k, old, m);
        }
        c->isa->from_f32(to, tmp, dtype, (size_t)n);
    }
}
