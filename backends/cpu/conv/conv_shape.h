/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common parts of all algorithms of convolution: the shape, images seen through taps, padded planes; and the interface of an
 * algorithm. cpu_conv.c has the tables of algorithms and chooses.
 */
#ifndef YOKE_BACKENDS_CPU_CONV_CONV_SHAPE_H
#define YOKE_BACKENDS_CPU_CONV_CONV_SHAPE_H

#include "backends/cpu/exec/cpu.h"
#include "backends/cpu/gemm/gemm.h"

/* Shape of the forward convolution, for all three operations. */
typedef struct conv_shape {
    int64_t n, c, h, w, o, oh, ow, kh, kw, sh, sw, ph, pw, dil_h, dil_w, groups;
} conv_shape;

/* A batch of planes seen through taps: line (channel, tap), positions (image, grid point). */
typedef struct conv_view {
    int64_t channels, height, width; /* size of one image of the whole tensor */
    int64_t grid_h, grid_w;          /* points of the grid */
    int64_t stride_y, stride_x;      /* from one grid point to the next, source pixels */
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

/* One product: the whole of a forward convolution, or the pixels of dx of one remainder modulo the stride. */
typedef struct conv_args {
    conv_view view;
    cpu_gemm gemm;
    cpu_ref w_ref, x_ref, y_ref;
    int64_t groups, images;
    int64_t w_stride, x_planes;                   /* elements of w from one group to the next; planes of x from one group to the next */
    int64_t out_channels, oh, ow;                 /* shape of the result tensor */
    int64_t stride_y, stride_x, first_y, first_x; /* grid point q is pixel q * step + at of the result */
    uint8_t w_dtype, y_dtype;                     /* types of w and of the result */
    int grid_m, grid_n;                           /* rectangles that workers share */
    bool empty;   /* no tap reaches these pixels */
    int64_t ws_w; /* dx: byte offset of this phase's w' in the shared scratch; -1 for w itself */
} conv_args;

typedef struct conv_run {
    const conv_args *conv;
    const cpu_ctx *ctx;
    int64_t group;
} conv_run;

/* The gradient of the weights as a product over positions, cut into fixed parts that are added in order. */
typedef struct dw_args {
    conv_view view;      /* view of x */
    conv_view grad_view; /* view of gy: one tap */
    cpu_gemm gemm;
    cpu_ref gy_ref, x_ref, gw_ref;
    int64_t groups, positions, cut_positions; /* positions in all, and of one cut */
    int64_t cuts;
    int grid_m, grid_n;
    uint8_t dtype;
    bool accumulate, direct; /* direct: straight into gw */
} dw_args;

/* ---- Algorithms ---- */

/* A node, or a part of it, as the algorithms get it. */
typedef struct conv_problem {
    const yk_node *node;
    conv_shape shape;
    uint8_t x_dtype, w_dtype, gy_dtype; /* types. x: the tensor under the kernel, gy in dx; w: of forward and dx; gy: of dw */
    double work;                        /* as in cpu_emit */
    const conv_args *product;           /* one product of forward or dx, for an algorithm that runs them one by one; else NULL */
    const dw_args *dw;                  /* for the gradient of the weights; else NULL */
} conv_problem;

/* fits depends on the problem and the instruction set alone, never on the number of workers; plan adds the steps. */
typedef struct conv_algorithm {
    const char *name; /* as YOKE_CPU_PROFILE shows it; NULL: it divides the problem and asks again */
    bool (*fits)(const cpu_isa *isa, const conv_problem *problem);
    void (*plan)(cpu_build *build, const conv_problem *problem);
} conv_algorithm;

extern const conv_algorithm cpu_conv_wino, cpu_conv_wino_dw;     /* Winograd's: conv_wino.c, conv_wino_dw.c */
extern const conv_algorithm cpu_conv_block, cpu_conv_block_dw;   /* blocks of channels: conv_block.c, conv_block_dw.c */
extern const conv_algorithm cpu_conv_direct, cpu_conv_direct_dw; /* padded images: conv_direct.c, conv_direct_dw.c */
extern const conv_algorithm cpu_conv_gemm, cpu_conv_gemm_dw;     /* packed panels, any problem: conv_gemm.c */

/* ---- Images ---- */

/* n grid points of one row, stored as f32 or, for raw, as the 16-bit numbers; points outside are 0 */
void cpu_view_row(const conv_view_at *a, const char *plane, int64_t y, int64_t x0, int64_t n, int64_t shift, char *out, bool raw);
/* n numbers to one row of the result, from grid column x on */
void cpu_conv_put(const conv_run *r, char *row, int64_t x, const float *p, int64_t n);

/* Padded planes: pixels sorted by remainder modulo the step, zeros around, so that grid points counted along padded rows
 * see a tap at one distance. */
typedef struct conv_padding {
    int64_t min_y, min_x, height, width; /* first row and column; size of a plane */
    int64_t columns;                     /* grid points along padded rows */
} conv_padding;

conv_padding cpu_padding_of(const conv_view *view);
/* words from the first grid point of channel 0 to the word that tap t of channel c sees there */
int64_t cpu_padding_offset(const conv_view *view, const conv_padding *p, int64_t c, int64_t t);

/* True if panels of two vectors are lines of a grid of this size, or parts of one. */
bool cpu_grid_is_dense(const cpu_isa *isa, int64_t grid_h, int64_t grid_w);
/* Forward in bf16 pairs: channels are too few to fill a vector of a block, but lines fill vectors. */
bool cpu_conv_few_channels(const cpu_isa *isa, const conv_shape *shape);

/* a modulo m, at least 0 */
static inline int64_t cpu_floor_mod(int64_t a, int64_t m)
{
    return (a % m + m) % m;
}

#endif
