/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The geometry of a convolution or a gradient of one, as numbers for kernels: the source pixels that meet each tap of the filter.
 *
 * lower_conv.c and conv_gpu.c ask while a program is made, in any thread. The input's gradient is a plain convolution of the result's
 * gradient by the turned filter. With a stride it has a phase for each remainder of a pixel modulo the stride, as those pixels meet the
 * same taps. Pure.
 */
#include "plugins/kit/lower/conv_plan.h"

/* Source, zeros and strides of this node as a plain convolution. */
static void conv_geometry(const yk_graph *graph, const yk_node *n, kit_conv_plan *conv)
{
    const int64_t *a = &graph->attr[n->attr];
    const yk_value *i0 = &graph->value[graph->index[n->in]], *i1 = &graph->value[graph->index[n->in + 1]];
    const yk_value *o = &graph->value[graph->index[n->out]];
    bool dx = n->op == YK_OP_CONV2D_DX, dw = n->op == YK_OP_CONV2D_DW;
    conv->x = dx ? o : dw ? i1 : i0;
    conv->y = n->op == YK_OP_CONV2D ? o : i0;
    conv->w = dw ? o : i1;
    int64_t groups = a[6], O = conv->w->dim[0] / groups, C = conv->w->dim[1], kh = conv->w->dim[2], kw = conv->w->dim[3];
    const yk_value *src = dx ? conv->y : conv->x, *dst = dx ? conv->x : conv->y;
    int64_t *m = conv->meta;
    memset(m, 0, sizeof conv->meta);
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
    m[G_N] = conv->x->dim[0];
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
    return (taps){last < 0 ? 0 : last / step + 1, last, (last - at - pad) / step, kit_div_up(size - at, step)};
}

void kit_conv_phase(kit_conv_plan *conv, const int64_t *a, int64_t row, int64_t column)
{
    int64_t *m = conv->meta, line = m[G_OW];
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

static bool conv_plain(const yk_value *v)
{
    return v->dims == 4 && kit_is_float(v->dtype) && kit_value_dense(v);
}

bool kit_conv_plan_make(const yk_graph *graph, const yk_node *n, kit_conv_plan *conv)
{
    const yk_value *out = kit_node_out(graph, n, 0), *in = kit_node_in(graph, n, 0), *in1 = kit_node_in(graph, n, 1);
    conv_geometry(graph, n, conv);
    return conv_plain(conv->x) && conv_plain(conv->y) && conv_plain(conv->w) && in->dtype == in1->dtype &&
           (out->dtype == in->dtype || out->dtype == YK_F32);
}

bool kit_conv_has_phases(const yk_graph *graph, const yk_node *n)
{
    const int64_t *a = &graph->attr[n->attr];
    return n->op == YK_OP_CONV2D_DX && a[0] * a[1] > 1 && a[4] == 1 && a[5] == 1;
}
