/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions for the CPU shape (kernels/conv.kc, wino.kc): geometry, blocks of rows that fit local memory, launches. */
#include "backends/opencl/ocl.h"

#include <stdio.h>

#define CONV_X 65536
#define CONV_SLACK 4096
#define CONV_G 49152
#define CONV_TAPS 8192
#define WINO_PIXELS 64 /* of a block of kernels/wino.kc */
#define CHUNKS 16 /* partial sums of a filter's gradient: fixed, so that results do not depend on the device */

enum { /* positions in the kernels' meta */
    G_C, G_H, G_W, G_IH, G_IW, G_PY, G_PX, G_KH, G_KW, G_DH, G_DW, G_SH, G_SW, G_OH, G_OW, G_R, G_LEN, G_PHASE, G_ROWS,
    G_M, G_GROUPS, G_N, G_CHUNK, G_PAD, G_COUNT
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
    snprintf(text, size, "-D%s -DT=%s -DTC=%s -DSEG=%u -DNV=%u", dw ? "CONV_DW" : "CONV_DIRECT",
             kit_type(g->value[g->index[n->in]].dtype), kit_type(g->value[g->index[n->out]].dtype), dw ? 16 : c->seg,
             dw ? c->nv : 1);
}

static void lower_direct(yk_program *p, const yk_node *n, const conv *c, const char *defines)
{
    const int64_t *m = c->m;
    int64_t K = m[G_C] * m[G_KH] * m[G_KW], tiles = up(m[G_M], 8);
    uint64_t bytes = (uint64_t)(m[G_GROUPS] * tiles * K * 8) * 4;
    ocl_launch_begin(p, "conv", defines, "conv_filter", tiles, m[G_GROUPS], 1, 1);
    ocl_arg_value(p, p->g->index[n->in + 1]);
    ocl_arg_scratch(p, 0, bytes, 4);
    ocl_arg_long(p, m[G_M]);
    ocl_arg_long(p, K);
    ocl_arg_long(p, m[G_KH] * m[G_KW]);
    ocl_arg_int(p, n->op == YK_OP_CONV2D_DX);
    ocl_launch_begin(p, "conv", defines, "conv_direct", up(m[G_OH], m[G_R]), m[G_N], m[G_GROUPS], 1);
    ocl_arg_value(p, p->g->index[n->in]);
    ocl_arg_scratch(p, 0, bytes, 4);
    ocl_arg_value(p, p->g->index[n->out]);
    ocl_arg_meta(p, m, G_COUNT);
}

/* What kernels/wino.kc takes; fewer channels do not pay for the transforms, more do not fit local memory. */
static bool wino_suits(const yk_graph *g, const yk_node *n, const conv *c)
{
    const int64_t *a = &g->attr[n->attr], *m = c->m;
    bool taps = m[G_KH] == 3 && m[G_KW] == 3 && a[0] == 1 && a[1] == 1 && a[4] == 1 && a[5] == 1;
    bool same = a[2] == 1 && a[3] == 1 && m[G_GROUPS] == 1;
    bool plane = (m[G_OW] == 8 || m[G_OW] == 16 || m[G_OW] == 32) && m[G_OH] * m[G_OW] % WINO_PIXELS == 0;
    return n->op != YK_OP_CONV2D_DW && taps && same && plane && m[G_C] >= 16 && m[G_C] <= 128 && m[G_C] % 2 == 0 &&
           m[G_M] >= 16;
}

static void lower_wino(yk_program *p, const yk_node *n, const conv *c)
{
    const int64_t *m = c->m;
    int64_t tiles = up(m[G_M], 8), of_image = m[G_OH] * m[G_OW] / WINO_PIXELS, blocks = m[G_N] * of_image;
    uint64_t bytes = (uint64_t)(16 * tiles * m[G_C] * 8) * 4;
    char defines[64];
    snprintf(defines, sizeof defines, "-DT=%s -DTC=%s -DTX=%d", kit_type(p->g->value[p->g->index[n->in]].dtype),
             kit_type(p->g->value[p->g->index[n->out]].dtype), (int)m[G_OW] / 2);
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

static void lower_dw(yk_program *p, const yk_node *n, conv *c, const char *defines)
{
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
    char defines[96];
    if (!conv_of(p->dev, p->g, n, &c)) {
        ocl_fail(p, YK_E_UNSUPPORTED);
        return;
    }
    conv_defines(p->g, n, &c, defines, sizeof defines);
    if (n->op == YK_OP_CONV2D_DW)
        lower_dw(p, n, &c, defines);
    else if (wino_suits(p->g, n, &c))
        lower_wino(p, n, &c);
    else
        lower_direct(p, n, &c, defines);
}
