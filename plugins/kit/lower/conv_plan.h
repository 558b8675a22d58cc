/* SPDX-License-Identifier: Apache-2.0 */
/* A convolution or one of its gradients as a plain convolution: the common part of lower_conv.c and conv_gpu.c. No state. */
#ifndef YOKE_PLUGINS_KIT_LOWER_CONV_PLAN_H
#define YOKE_PLUGINS_KIT_LOWER_CONV_PLAN_H

#include "plugins/kit/lower/lower_internal.h"

/* Chunks of images in the sum of a filter's gradient: fixed, so that results do not depend on the device. */
#define KIT_CONV_CHUNKS 16

enum { /* positions in the kernels' meta (kernels/conv.kc) */
    G_C, G_H, G_W, G_IH, G_IW, G_PY, G_PX, G_KH, G_KW, G_DH, G_DW, G_SH, G_SW, G_OH, G_OW, G_R, G_LEN, G_PHASE, G_ROWS,
    G_M, G_GROUPS, G_N, G_CHUNK, G_PAD, G_WM, G_WC, G_WG, G_W0, G_WY, G_WX, G_Y0, G_YS, G_XS, G_PLANE, G_X, G_REST,
    G_COUNT
};

typedef struct kit_conv_plan {
    int64_t meta[G_COUNT];
    const yk_value *x, *y, *w; /* input, output, filter of the convolution (or their gradients) */
    uint32_t seg, nv;
} kit_conv_plan;

/* False: not for the kit's kernels, because of types or layouts. */
bool kit_conv_plan_make(const yk_graph *graph, const yk_node *n, kit_conv_plan *conv);

/* True if a gradient of the input is split: a plain convolution for each set of pixels with one remainder modulo the stride. */
bool kit_conv_has_phases(const yk_graph *graph, const yk_node *n);
/* The gradient of the input for the pixels (row, column) modulo the strides `a[0]`, `a[1]`: a plain convolution of gy. */
void kit_conv_phase(kit_conv_plan *conv, const int64_t *a, int64_t row, int64_t column);

#endif
