/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions for the CPU shape (kernels/conv.kc, wino.kc): geometry, blocks of rows that fit local memory, launches. */
#include "backends/opencl/ocl.h"

#include <stdio.h>

#define CONV_X 65536
#define CONV_SLACK 4096
#define CONV_G 49152
#define CONV_TAPS 8192
#define WINO_PIXELS 64 /* of a block of kernels/wino.kc */
#define WINO_CHANNELS 128
/* partial sums of a filter's gradient: fixed, so that results do not depend on the device */
#define CHUNKS 16
#define WINO_CHUNKS 8 /* they are 16 / 9 as large */

enum { /* positions in the kernels' meta */
    G_C, G_H, G_W, G_IH, G_IW, G_PY, G_PX, G_KH, G_KW, G_DH, G_DW, G_SH, G_SW, G_OH, G_OW, G_R, G_LEN, G_PHASE, G_ROWS,
    G_M, G_GROUPS, G_N, G_CHUNK, G_PAD, G_WM, G_WC, G_WG, G_W0, G_WY, G_WX, G_Y0, G_YS, G_XS, G_PLANE, G_COUNT
};

typedef struct conv {
    int64_t m[G_COUNT];
    const yk_value *x, *y, *w; /* input, output, filter of the convolution (or their gradients) */
    uint32_t seg, nv;
} conv;

static int64_t up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Source, zeros and strides of this node as a plain convolution. */
static void conv_geometry(const yk_graph *g, const yk_node *n, conv *c)
{
    const int64_t *a = &g->attr[n->attr];
    const yk_value *i0 = &g->value[g->index[n->in]], *i1 = &g->value[g->index[n->in + 1]];
    const yk_value *o = &g->value[g->index[n->out]];
    bool dx = n->op == YK_OP_CONV2D_DX, dw = n->op == YK_OP_CONV2D_DW;
    c->x = dx ? o : dw ? i1 : i0;
    c->y = n->op == YK_OP_CONV2D ? o : i0;
    c->w = dw ? o : i1;
    int64_t groups = a[6], O = c->w->dim[0] / groups, C = c->w->dim[1], kh = c->w->dim[2], kw = c->w->dim[3];
    const yk_value *src = dx ? c->y : c->x, *dst = dx ? c->x : c->y;
    int64_t *m = c->m;
    memset(m, 0, sizeof c->m);
    m[G_C] = dx ? O : C;
    m[G_M] = dx ? C : O;
    m[G_H] = src->dim[2];
    m[G_W] = src->dim[3];
    m[G_OH] = dst->dim[2];
    m[G_OW] = dst->dim[3];
    m[G_KH] = kh;
    m[G_KW] = kw;
    m[G_DH] = a[4];
    m[G_DW] = a[5];
    m[G_IH] = dx ? a[0] : 1;
    m[G_IW] = dx ? a[1] : 1;
    m[G_SH] = dx ? 1 : a[0];
    m[G_SW] = dx ? 1 : a[1];
    m[G_PY] = dx ? (kh - 1) * a[4] - a[2] : a[2];
    m[G_PX] = dx ? (kw - 1) * a[5] - a[3] : a[3];
    m[G_GROUPS] = groups;
    m[G_N] = c->x->dim[0];
    m[G_WM] = dx ? kh * kw : C * kh * kw;
    m[G_WC] = dx ? C * kh * kw : kh * kw;
    m[G_WG] = O * C * kh * kw;
    m[G_W0] = dx ? kh * kw - 1 : 0;
    m[G_WY] = dx ? -kw : kw;
    m[G_WX] = dx ? -1 : 1;
    m[G_YS] = m[G_OW];
    m[G_XS] = 1;
    m[G_PLANE] = m[G_OH] * m[G_OW];
}

/* One direction of a gradient by a step: the taps that meet the results `at`, at + step, ... */
typedef struct taps {
    int64_t n, last, before, results; /* taps, the last of them, zeros before the source, results */
} taps;

static taps taps_of(int64_t at, int64_t step, int64_t pad, int64_t taps_all, int64_t size)
{
    int64_t past = (taps_all - 1 - at - pad) % step, last = taps_all - 1 - (past < 0 ? past + step : past);
    return (taps){last < 0 ? 0 : last / step + 1, last, (last - at - pad) / step, up(size - at, step)};
}

/* The gradient of the input for the pixels (row, column) modulo the strides: a plain convolution of gy. */
static void conv_phase(conv *c, const int64_t *a, int64_t row, int64_t column)
{
    int64_t *m = c->m, line = m[G_OW];
    taps y = taps_of(row, a[0], a[2], m[G_KH], m[G_OH]), x = taps_of(column, a[1], a[3], m[G_KW], m[G_OW]);
    m[G_W0] = y.last * m[G_KW] + x.last;
    m[G_WY] = -a[0] * m[G_KW];
    m[G_WX] = -a[1];
    m[G_IH] = m[G_IW] = 1;
    m[G_KH] = y.n;
    m[G_KW] = x.n;
    m[G_PY] = y.before;
    m[G_PX] = x.before;
    m[G_OH] = y.results;
    m[G_OW] = x.results;
    m[G_Y0] = row * line + column;
    m[G_YS] = a[0] * line;
    m[G_XS] = a[1];
}

/* Layout of the local copy, rows of an item; false if not even one row fits. */
static bool conv_blocks(conv *c, bool dw)
{
    int64_t *m = c->m, width;
    c->seg = m[G_OW] > 8 ? 16 : m[G_OW] > 4 ? 8 : 4;
    width = up(m[G_OW], c->seg) * c->seg;
    c->nv = m[G_M] > 16 ? 2 : 1;
    m[G_PHASE] = width + ((m[G_KW] - 1) * m[G_DW]) / m[G_SW] + 1;
    m[G_LEN] = m[G_PHASE] * m[G_SW];
    m[G_PAD] = up(m[G_M], 16 * c->nv) * 16 * c->nv;
    if (m[G_C] * m[G_KH] * m[G_KW] > CONV_TAPS || 4 * m[G_SH] * m[G_LEN] + 32 > CONV_SLACK)
        return false;
    for (int64_t r = m[G_OH]; r > 0; r = r > 4 ? (r + 1) / 2 : r - 1) {
        m[G_R] = r;
        m[G_ROWS] = (r - 1) * m[G_SH] + (m[G_KH] - 1) * m[G_DH] + 1;
        if (m[G_C] * m[G_ROWS] * m[G_LEN] <= CONV_X && (!dw || r * m[G_OW] * m[G_PAD] <= CONV_G))
            return true;
    }
    return false;
}

static bool conv_plain(const yk_value *v)
{
    int64_t stride = 1;
    for (uint32_t d = v->dims; d-- > 0; stride *= v->dim[d])
        if (v->dim[d] != 1 && v->stride[d] != stride)
            return false;
    return v->dims == 4 && kit_is_float(v->dtype);
}

static bool conv_of(const yk_device *dev, const yk_graph *g, const yk_node *n, conv *c)
{
    conv_geometry(g, n, c);
    const yk_value *out = &g->value[g->index[n->out]];
    const yk_value *in = &g->value[g->index[n->in]], *in1 = &g->value[g->index[n->in + 1]];
    if (!dev->wide || !conv_plain(c->x) || !conv_plain(c->y) || !conv_plain(c->w) || in->dtype != in1->dtype)
        return false;
    if (out->dtype != in->dtype && out->dtype != YK_F32)
        return false;
    return conv_blocks(c, n->op == YK_OP_CONV2D_DW);
}

uint32_t ocl_claims_conv(yk_device *dev, const yk_graph *g, const yk_node *n)
{
    conv c;
    if (!conv_of(dev, g, n, &c))
        return 0;
    return n->op == YK_OP_CONV2D_DW ? 3 : 1;
}

static void conv_defines(const yk_graph *g, const yk_node *n, const conv *c, char *text, size_t size)
{
    bool dw = n->op == YK_OP_CONV2D_DW;
    snprintf(text, size, "-D%s -DT=%s -DTC=%s -DSEG=%u -DNV=%u%s", dw ? "CONV_DW" : "CONV_DIRECT",
             kit_type(g->value[g->index[n->in]].dtype), kit_type(g->value[g->index[n->out]].dtype), dw ? 16 : c->seg,
             dw ? c->nv : 1, c->m[G_YS] != c->m[G_OW] ? " -DAPART" : "");
}

static void lower_direct(yk_program *p, const yk_node *n, const conv *c)
{
    char defines[96];
    const int64_t *m = c->m;
    conv_defines(p->g, n, c, defines, sizeof defines);
    int64_t K = m[G_C] * m[G_KH] * m[G_KW], tiles = up(m[G_M], 8);
    uint64_t bytes = (uint64_t)(m[G_GROUPS] * tiles * K * 8) * 4;
    ocl_launch_begin(p, "conv", defines, "conv_filter", tiles, m[G_GROUPS], 1, 1);
    ocl_arg_value(p, p->g->index[n->in + 1]);
    ocl_arg_scratch(p, 0, bytes, 4);
    ocl_arg_meta(p, m, G_COUNT);
    ocl_launch_begin(p, "conv", defines, "conv_direct", up(m[G_OH], m[G_R]), m[G_N], m[G_GROUPS], 1);
    ocl_arg_value(p, p->g->index[n->in]);
    ocl_arg_scratch(p, 0, bytes, 4);
    ocl_arg_value(p, p->g->index[n->out]);
    ocl_arg_meta(p, m, G_COUNT);
}

/* Vectors of outputs in a gradient's sums */
static int wino_vectors(const conv *c)
{
    return c->m[G_M] > 16 ? 2 : 1;
}

/* What kernels/wino.kc takes; fewer channels do not pay for the transforms, more do not fit local memory. */
static bool wino_suits(const yk_graph *g, const yk_node *n, const conv *c)
{
    const int64_t *a = &g->attr[n->attr], *m = c->m;
    bool three = m[G_KH] == 3 && m[G_KW] == 3 && a[0] == 1 && a[1] == 1 && a[4] == 1 && a[5] == 1;
    bool same = a[2] == 1 && a[3] == 1 && m[G_GROUPS] == 1;
    bool plane = (m[G_OW] == 8 || m[G_OW] == 16 || m[G_OW] == 32) && m[G_OH] * m[G_OW] % WINO_PIXELS == 0;
    bool dw = n->op == YK_OP_CONV2D_DW;
    return three && same && plane && m[G_C] >= 16 && m[G_C] <= WINO_CHANNELS && m[G_C] % (dw ? 16 / wino_vectors(c) : 2) == 0 &&
           m[G_M] >= 16 && (!dw || m[G_M] <= WINO_CHANNELS);
}

static void wino_defines(const yk_graph *g, const yk_node *n, const conv *c, char *text, size_t size)
{
    const bool dw = n->op == YK_OP_CONV2D_DW;
    snprintf(text, size, "-D%s -DT=%s -DTC=%s -DTX=%d -DWINO_NV=%d", dw ? "WINO_DW" : "WINO_CONV",
             kit_type(g->value[g->index[n->in]].dtype), kit_type(g->value[g->index[n->out]].dtype), (int)c->m[G_OW] / 2,
             dw ? wino_vectors(c) : 2);
}

static void lower_wino(yk_program *p, const yk_node *n, const conv *c)
{
    const int64_t *m = c->m;
    int64_t tiles = up(m[G_M], 8), of_image = m[G_OH] * m[G_OW] / WINO_PIXELS, blocks = m[G_N] * of_image;
    uint64_t bytes = (uint64_t)(16 * tiles * m[G_C] * 8) * 4;
    char defines[80];
    wino_defines(p->g, n, c, defines, sizeof defines);
    ocl_launch_begin(p, "wino", defines, "wino_filter", tiles, 1, 1, 1);
    ocl_arg_value(p, p->g->index[n->in + 1]);
    ocl_arg_scratch(p, 0, bytes, 4);
    ocl_arg_long(p, m[G_C]);
    ocl_arg_long(p, m[G_M]);
    ocl_arg_int(p, n->op == YK_OP_CONV2D_DX);
    ocl_launch_begin(p, "wino", defines, "wino_conv", up(blocks, 2), 1, 1, 1);
    ocl_arg_value(p, p->g->index[n->in]);
    ocl_arg_scratch(p, 0, bytes, 4);
    ocl_arg_value(p, p->g->index[n->out]);
    ocl_arg_long(p, m[G_C]);
    ocl_arg_long(p, m[G_M]);
    ocl_arg_long(p, blocks);
    ocl_arg_long(p, of_image);
}

static void lower_wino_dw(yk_program *p, const yk_node *n, const conv *c)
{
    const int64_t *m = c->m;
    int64_t of_image = m[G_OH] * m[G_OW] / WINO_PIXELS, blocks = m[G_N] * of_image;
    int64_t chunk = up(blocks, 2 * WINO_CHUNKS) * 2, chunks = up(blocks, chunk);
    int64_t pad = 16 * wino_vectors(c);
    uint64_t bytes = (uint64_t)(chunks * 16 * m[G_C] * up(m[G_M], pad) * pad) * 4;
    char defines[80];
    wino_defines(p->g, n, c, defines, sizeof defines);
    ocl_launch_begin(p, "wino", defines, "wino_dw", chunks, 1, 1, 1);
    ocl_arg_value(p, p->g->index[n->in + 1]);
    ocl_arg_value(p, p->g->index[n->in]);
    ocl_arg_scratch(p, 0, bytes, 4);
    ocl_arg_long(p, m[G_C]);
    ocl_arg_long(p, m[G_M]);
    ocl_arg_long(p, blocks);
    ocl_arg_long(p, of_image);
    ocl_arg_long(p, chunk);
    ocl_launch_begin(p, "wino", defines, "wino_dw_sum", m[G_C], 1, 1, 1);
    ocl_arg_scratch(p, 0, bytes, 4);
    ocl_arg_value(p, p->g->index[n->out]);
    ocl_arg_long(p, m[G_C]);
    ocl_arg_long(p, m[G_M]);
    ocl_arg_long(p, chunks);
    ocl_arg_int(p, n->flags & YK_NODE_ACCUMULATE ? 1 : 0);
}

/* A gradient by steps, taken apart. */
static void lower_phases(yk_program *p, const yk_node *n, const conv *c)
{
    const int64_t *a = &p->g->attr[n->attr];
    for (int64_t row = 0; row < a[0] && row < c->m[G_OH]; row++)
        for (int64_t column = 0; column < a[1] && column < c->m[G_OW]; column++) {
            conv part = *c;
            conv_phase(&part, a, row, column);
            if (conv_blocks(&part, false)) /* smaller than the whole, which fits */
                lower_direct(p, n, &part);
            else
                ocl_fail(p, YK_E_INTERNAL);
        }
}

static void lower_dw(yk_program *p, const yk_node *n, conv *c)
{
    char defines[96];
    conv_defines(p->g, n, c, defines, sizeof defines);
    int64_t *m = c->m, K = m[G_C] * m[G_KH] * m[G_KW];
    m[G_CHUNK] = up(m[G_N], CHUNKS);
    int64_t chunks = up(m[G_N], m[G_CHUNK]);
    uint64_t bytes = (uint64_t)(chunks * m[G_GROUPS] * K * m[G_PAD]) * 4;
    ocl_launch_begin(p, "conv", defines, "conv_dw", chunks, m[G_GROUPS], 1, 1);
    ocl_arg_value(p, p->g->index[n->in + 1]);
    ocl_arg_value(p, p->g->index[n->in]);
    ocl_arg_scratch(p, 0, bytes, 4);
    ocl_arg_meta(p, m, G_COUNT);
    ocl_launch_begin(p, "conv", defines, "conv_dw_sum", K, m[G_GROUPS], 1, 1);
    ocl_arg_scratch(p, 0, bytes, 4);
    ocl_arg_value(p, p->g->index[n->out]);
    ocl_arg_long(p, m[G_M]);
    ocl_arg_long(p, K);
    ocl_arg_long(p, m[G_PAD]);
    ocl_arg_long(p, chunks);
    ocl_arg_long(p, m[G_GROUPS]);
    ocl_arg_int(p, n->flags & YK_NODE_ACCUMULATE ? 1 : 0);
}

void ocl_lower_conv(yk_program *p, const yk_node *n)
{
    conv c;
    if (!conv_of(p->dev, p->g, n, &c)) {
        ocl_fail(p, YK_E_UNSUPPORTED);
        return;
    }
    const int64_t *a = &p->g->attr[n->attr];
    bool wino = wino_suits(p->g, n, &c);
    if (n->op == YK_OP_CONV2D_DW && wino)
        lower_wino_dw(p, n, &c);
    else if (n->op == YK_OP_CONV2D_DW)
        lower_dw(p, n, &c);
    else if (n->op == YK_OP_CONV2D_DX && a[0] * a[1] > 1 && a[4] == 1 && a[5] == 1)
        lower_phases(p, n, &c);
    else if (wino)
        lower_wino(p, n, &c);
    else
        lower_direct(p, n, &c);
}
