/* SPDX-License-Identifier: Apache-2.0 */
/* Images as blocks of channels, and prefetched memory, for the algorithms on blocks and the pools. */
#ifndef YOKE_BACKENDS_CPU_CONV_CONV_PLANE_H
#define YOKE_BACKENDS_CPU_CONV_CONV_PLANE_H

#include "backends/cpu/conv/conv_shape.h"

/* Images seen as blocks of channels, a vector of words each. */
typedef struct cpu_planes {
    cpu_ref at;
    int64_t channels, height, width;
    int64_t blocks; /* a vector of words each */
    uint8_t dtype;
    bool pairs;          /* bf16: a word is two channels */
    int64_t image_pairs; /* bf16: number of images if a word is a channel of two images; "image" then counts pairs */
} cpu_planes;

/* A group of images laid out as [block][remainder modulo the step][padded line][padded column][image][vector]. */
typedef struct cpu_grouped {
    cpu_planes planes;
    int64_t stride_y, stride_x;
    conv_padding pad;
    int64_t images; /* images */
} cpu_grouped;

/* `lines` lines of a block from line `first` on, a vector a pixel; channels past the last are 0; tmp: room for as much */
void cpu_plane_in(const cpu_ctx *ctx, const cpu_planes *planes, int64_t image, int64_t block, int64_t first, int64_t lines, void *tmp,
                  float *to);
/* The way back: pixels of `channels` channels to planes of `size` pixels; tmp: room for as much and a vector. */
void cpu_plane_out(const cpu_ctx *ctx, const float *from, int64_t pixels, int64_t channels, char *to, int dtype, int64_t size,
                   float *tmp);
int64_t cpu_grouped_block(const cpu_grouped *group, int vw); /* words of a block */
/* Lays out blocks b0 .. b1 - 1 of n images from `image` on; the group's other images are zeros. plane, tmp: scratch for a block of an
 * image. */
void cpu_grouped_in(const cpu_ctx *ctx, const cpu_grouped *group, int64_t image, int64_t n, int64_t b0, int64_t b1, float *plane,
                    void *tmp, float *to);
/* Gradients of weights, [channel][tap][vector of results], to rows of one result each, `stride` numbers apart;
 * tmp: room for as much and a vector. */
void cpu_taps_out(const cpu_ctx *ctx, const float *taps, int64_t n_taps, int64_t nc, int64_t no, float *tmp, char *to,
                  int64_t stride, int dtype, bool accumulate);

/* Memory that will be wanted, fetched bit by bit while products are made. */
typedef struct cpu_prefetch {
    const char *at, *end;
    int64_t step; /* lines of the cache at a time */
} cpu_prefetch;

/* everything in so many calls */
static inline void cpu_prefetch_over(cpu_prefetch *prefetch, int64_t times)
{
    prefetch->step = times > 0 ? ((prefetch->end - prefetch->at) / 64 + times) / times : 0;
}

static inline void cpu_prefetch_read(cpu_prefetch *prefetch)
{
    for (int64_t i = 0; i < prefetch->step && prefetch->at < prefetch->end; i++, prefetch->at += 64)
        __builtin_prefetch(prefetch->at, 0, 2);
}

static inline void cpu_prefetch_write(cpu_prefetch *prefetch)
{
    for (int64_t i = 0; i < prefetch->step && prefetch->at < prefetch->end; i++, prefetch->at += 64)
        __builtin_prefetch(prefetch->at, 1, 2);
}

#endif
