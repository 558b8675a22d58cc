/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd's algorithm: the common part of the result (conv_wino.c) and the gradient of the weights (conv_wino_dw.c). */
#ifndef YOKE_BACKENDS_CPU_CONV_CONV_WINO_H
#define YOKE_BACKENDS_CPU_CONV_CONV_WINO_H

#include "backends/cpu/conv/conv_plane.h"

#define WINO_ELEMENTS 36 /* elements of a transformed tile */

/* Rows of tiles, 4 x 4 pixels of the result each; images are stacked. */
typedef struct wino_grid {
    int64_t images, tiles_y, tiles_x; /* tiles of one image */
} wino_grid;

/* planes that are cut into tiles: the input with its padding, or the result's gradient */
typedef struct wino_source {
    cpu_planes planes;
    int64_t pad_y, pad_x;
    bool grad;
} wino_source;

/* The transformed tiles of a source: element e of channel block b, tile t is at e * stride + (b * tiles + t) * vw. */
typedef struct wino_place {
    float *v;
    size_t stride;
    int64_t tiles;
} wino_place;

/* a worker's scratch for the untransformed: offsets */
typedef struct wino_scratch {
    size_t plane, zero, stage, end;
    size_t zeros; /* bytes */
} wino_scratch;

/* Room for `rows` rows of tiles of lines of at most `width` pixels. */
wino_scratch cpu_wino_scratch(const cpu_isa *isa, size_t from, const wino_grid *grid, int64_t rows, int64_t width);
size_t cpu_wino_stride(const cpu_isa *isa, int64_t blocks, int64_t tiles);
/* Rows of tiles r0 .. r1 - 1, all channels, transformed; the scratch's zeros are set. */
void cpu_wino_in(const wino_source *s, const wino_grid *grid, const wino_scratch *scratch, const cpu_ctx *ctx, int64_t r0, int64_t r1,
                 const wino_place *to);

/* a part of a group of rows that lies in one image */
typedef struct wino_piece {
    int64_t image, from, to; /* rows of tiles */
    int64_t tile;            /* its first tile's place in the group */
} wino_piece;

/* the piece that starts at row r of r0 .. r1 - 1 */
wino_piece cpu_wino_piece(const wino_grid *grid, int64_t r0, int64_t r, int64_t r1);
/* Rows of tiles in a group: about `bytes` of transformed tiles, `least` tiles or more, a multiple of nt groups. */
int64_t cpu_wino_rows(const wino_grid *grid, int64_t tile_bytes, int64_t bytes, int64_t least, int64_t nt);
/* true if Winograd's algorithm suits a convolution of this shape */
bool cpu_wino_fits(const cpu_isa *isa, const conv_problem *problem);

#endif
