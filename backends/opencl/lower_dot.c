/* SPDX-License-Identifier: Apache-2.0 */
/* dot: which strides, which types, how large the blocks. */
#include "backends/opencl/ocl.h"

#include <stdio.h>

#define GEMM_MC 128
#define GEMM_NC 256
#define GEMM_GPU 64

/* A matrix operand: length and stride of its batch, rows and columns. */
typedef struct matrix {
    int64_t batch, rows, cols, bs, rs, cs;
} matrix;

static matrix matrix_of(const yk_value *v)
{
    uint32_t d = v->dims;
    matrix m = {1, v->dim[d - 2], v->dim[d - 1], 0, v->stride[d - 2], v->stride[d - 1]};
    if (d == 3) {
        m.batch = v->dim[0];
        m.bs = v->dim[0] == 1 ? 0 : v->stride[0];
    }
    if (m.rows == 1)
        m.rs = m.cols; /* any: pick the plain layout */
    if (m.cols == 1)
        m.cs = 1;
    return m;
}

/* Blocks small enough that there is work for every unit. The order of sums does not depend on them. */
static void dot_blocks(const yk_device *dev, int64_t M, int64_t N, int64_t batch, int64_t *mc, int64_t *nc)
{
    *mc = *nc = GEMM_GPU;
    if (!dev->wide)
        return;
    *mc = GEMM_MC;
    *nc = GEMM_NC;
    int64_t want = 2 * (int64_t)dev->units;
    while (*mc > 16 && batch * ((M + *mc - 1) / *mc) * ((N + *nc - 1) / *nc) < want)
        if (*nc > 64)
            *nc /= 2;
        else
            *mc /= 2;
}

void ocl_lower_dot(yk_program *p, const yk_node *n)
{
    const yk_graph *g = p->g;
    const yk_value *av = &g->value[g->index[n->in]], *bv = &g->value[g->index[n->in + 1]];
    const yk_value *cv = &g->value[g->index[n->out]];
    char defines[64];
    int64_t mc, nc;
    if (!kit_is_float(av->dtype) || av->dtype != bv->dtype || !kit_is_float(cv->dtype) || av->dims < 2 || bv->dims < 2) {
        ocl_fail(p, YK_E_UNSUPPORTED);
        return;
    }
    matrix a = matrix_of(av), b = matrix_of(bv), c = matrix_of(cv);
    snprintf(defines, sizeof defines, "-DTA=%s -DTC=%s", kit_type(av->dtype), kit_type(cv->dtype));
    dot_blocks(p->dev, c.rows, c.cols, c.batch, &mc, &nc);
    ocl_launch_begin(p, "gemm", defines, "gemm", (c.cols + nc - 1) / nc, (c.rows + mc - 1) / mc, c.batch, 256);
    ocl_arg_value(p, g->index[n->in]);
    ocl_arg_value(p, g->index[n->in + 1]);
    ocl_arg_value(p, g->index[n->out]);
    const int64_t size[] = {c.rows, c.cols, a.cols, a.rs, a.cs, a.bs, b.rs, b.cs, b.bs, c.rows * c.cols};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        ocl_arg_long(p, size[i]);
    ocl_arg_int(p, mc);
    ocl_arg_int(p, nc);
    ocl_arg_int(p, n->flags & YK_NODE_ACCUMULATE ? 1 : 0);
}
