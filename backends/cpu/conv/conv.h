/* SPDX-License-Identifier: Apache-2.0 */
/* What the two ways of convolution share: packed panels (conv.c) and padded images read in place (conv_direct.c). */
#ifndef YOKE_BACKENDS_CPU_CONV_CONV_H
#define YOKE_BACKENDS_CPU_CONV_CONV_H

#include "backends/cpu/gemm/gemm.h"

/* A batch of planes seen through taps: line (channel, tap), positions (image, grid point). */
typedef struct conv_view {
    int64_t channels, height, width; /* of one image of the whole tensor */
    int64_t grid_h, grid_w;          /* grid */
    int64_t stride_y, stride_x;      /* step of the grid in source pixels */
    int32_t taps;
    const int32_t *shift_y, *shift_x; /* shift of each tap */
    uint8_t dtype;
} conv_view;

typedef struct conv_view_at {
    const conv_view *view;
    const cpu_isa *isa;
    const char *data; /* the group's first plane of image 0 */
    int64_t base;     /* position that stands for 0 */
} conv_view_at;

typedef struct conv_args {
    conv_view view;
    cpu_gemm gemm;
    cpu_ref w_ref, x_ref, y_ref;
    int64_t groups, images;
    int64_t w_stride, x_planes;                   /* elements of w, planes of x from one group to the next */
    int64_t out_channels, oh, ow;                 /* of the result tensor */
    int64_t stride_y, stride_x, first_y, first_x; /* grid point q is pixel q * step + at of the result */
    uint8_t w_dtype, y_dtype;                     /* types of w and of the result */
    int grid_m, grid_n;
    bool empty;   /* no tap reaches these pixels */
    int64_t ws_w; /* dx: where this phase's w' lies in the shared scratch, bytes; -1: w itself */
} conv_args;

typedef struct conv_run {
    const conv_args *conv;
    const cpu_ctx *ctx;
    int64_t group;
} conv_run;

typedef struct dw_args {
    conv_view view;      /* of x */
    conv_view grad_view; /* of gy: one tap */
    cpu_gemm gemm;
    cpu_ref gy_ref, x_ref, gw_ref;
    int64_t groups, positions, cut_positions; /* positions in all, and of one cut */
    int64_t cuts;
    int grid_m, grid_n;
    uint8_t dtype;
    bool accumulate, direct; /* direct: straight into gw */
} dw_args;

typedef struct conv_shape {
    int64_t n, c, h, w, o, oh, ow, kh, kw, sh, sw, ph, pw, dil_h, dil_w, groups;
} conv_shape;

/* n grid points of one row, stored as f32 or, for raw, as the 16-bit numbers; those outside are 0 */
void cpu_view_row(const conv_view_at *a, const char *plane, int64_t y, int64_t x0, int64_t n, int64_t shift, char *out, bool raw);
/* n numbers to one row of the result, from grid column x on */
void cpu_conv_put(const conv_run *r, char *row, int64_t x, const float *p, int64_t n);
/* Padded planes: pixels sorted by remainder modulo the step, zeros around, so that grid points counted along padded rows
 * see a tap at one distance. */
typedef struct conv_padding {
    int64_t min_y, min_x, height, width; /* first row and column; size of a plane */
    int64_t columns;                     /* grid points along padded rows */
} conv_padding;

/* Images seen as blocks of channels: conv_plane.c. */
typedef struct cpu_planes {
    cpu_ref at;
    int64_t channels, height, width;
    int64_t blocks; /* a vector of words each */
    uint8_t dtype;
    bool pairs;          /* bf16: a word is two channels */
    int64_t image_pairs; /* bf16: a word is a channel of two images, of so many; "image" counts them by twos */
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
/* Blocks b0 .. b1 - 1 of n images from `image` on; the group's others are zeros; plane, tmp: room for a block of an image. */
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

/* all of it in so many times */
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

conv_padding cpu_padding_of(const conv_view *view);
/* words from the first grid point of channel 0 to what tap t of channel c sees at it */
int64_t cpu_padding_offset(const conv_view *view, const conv_padding *p, int64_t c, int64_t t);
/* Plans the padded form if it suits the shape; false: it does not. */
bool cpu_conv_direct(cpu_build *build, const conv_args *conv, double work);
/* Forward, bf16 pairs: few channels, whose words fill no vector of a block, and lines that do. */
bool cpu_conv_prefers_direct(const cpu_isa *isa, const conv_shape *shape);
bool cpu_conv_dw_direct(cpu_build *build, const dw_args *dw, int64_t images, double work);
/* The same on blocks of channels, for steps above 1: conv_block.c. */
bool cpu_conv_block(cpu_build *build, const yk_node *node, const conv_shape *shape);
bool cpu_conv_dw_block(cpu_build *build, const yk_node *node, const conv_shape *shape, const conv_view *view);
/* The same by Winograd's algorithm: conv_wino.c. */
bool cpu_conv_wino(cpu_build *build, const yk_node *node, const conv_shape *shape);
bool cpu_conv_dw_wino(cpu_build *build, const yk_node *node, const conv_shape *shape);

void cpu_plan_conv(cpu_build *build, const yk_node *node);
void cpu_plan_pool(cpu_build *build, const yk_node *node); /* unfold, fold, max_pool, avg_pool and backward */

#endif
