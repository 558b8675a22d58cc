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

static bool dot_fits(const yk_value *a, const yk_value *b, const yk_value *c)
{
    return kit_is_float(a->dtype) && a->dtype == b->dtype && kit_is_float(c->dtype) && a->dims >= 2 && b->dims >= 2;
}

/* The launch up to its last common argument; `program` NULL: the plain kernel. */
static void dot_launch(yk_program *p, const yk_node *n, uint32_t out, cl_program program, bool accumulate)
{
    const yk_graph *g = p->g;
    const yk_value *av = &g->value[g->index[n->in]], *bv = &g->value[g->index[n->in + 1]], *cv = &g->value[out];
    char defines[64];
    int64_t mc, nc;
    matrix a = matrix_of(av), b = matrix_of(bv), c = matrix_of(cv);
    snprintf(defines, sizeof defines, "-DTA=%s -DTC=%s", kit_type(av->dtype), kit_type(cv->dtype));
    dot_blocks(p->dev, c.rows, c.cols, c.batch, &mc, &nc);
    int64_t x = (c.cols + nc - 1) / nc, y = (c.rows + mc - 1) / mc;
    if (program)
        ocl_launch_from(p, program, "gemm", x, y, c.batch, 256);
    else
        ocl_launch_begin(p, "gemm", defines, "gemm", x, y, c.batch, 256);
    ocl_arg_value(p, g->index[n->in]);
    ocl_arg_value(p, g->index[n->in + 1]);
    ocl_arg_value(p, out);
    const int64_t size[] = {c.rows, c.cols, a.cols, a.rs, a.cs, a.bs, b.rs, b.cs, b.bs, c.rows * c.cols};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        ocl_arg_long(p, size[i]);
    ocl_arg_int(p, mc);
    ocl_arg_int(p, nc);
    ocl_arg_int(p, accumulate);
}

void ocl_lower_dot(yk_program *p, const yk_node *n)
{
    const yk_graph *g = p->g;
    uint32_t out = g->index[n->out];
    if (!dot_fits(&g->value[g->index[n->in]], &g->value[g->index[n->in + 1]], &g->value[out])) {
        ocl_fail(p, YK_E_UNSUPPORTED);
        return;
    }
    dot_launch(p, n, out, NULL, n->flags & YK_NODE_ACCUMULATE);
}

/* ---- dot_map: the chain on the product is the epilogue of the kernel ---- */

static bool epilogue_strides(const yk_value *v, int64_t s[3])
{
    uint32_t d = v->dims;
    s[0] = d == 3 && v->dim[0] > 1 ? v->stride[0] : 0;
    s[1] = v->dim[d - 2] > 1 ? v->stride[d - 2] : 0;
    s[2] = v->dim[d - 1] > 1 ? v->stride[d - 1] : 0;
    return s[2] == 0 || s[2] == 1;
}

/* The chain behind the dot: its result is leaf 0, the node's further inputs are the other leaves. */
static bool epilogue_of(const yk_graph *g, const yk_node *n, kit_chain *c)
{
    const yk_node *body = &g->node[n->body];
    int64_t s[3];
    char name[16];
    *c = (kit_chain){.g = g, .node = body + 1, .n_node = n->n_body - 1, .n_leaf = n->n_in - 1u, .n_out = n->n_out};
    if (!n->n_body || body->op != YK_OP_DOT || n->n_out > 3 || c->n_leaf > KIT_LEAVES || c->n_node > KIT_LOCALS)
        return false;
    for (uint32_t i = 0; i < 2; i++)
        if (g->index[body->in + i] != g->index[n->in + i])
            return false;
    c->leaf[0] = g->index[body->out];
    for (uint32_t i = 1; i < c->n_leaf; i++) {
        c->leaf[i] = g->index[n->in + 1 + i];
        if (!epilogue_strides(&g->value[c->leaf[i]], s))
            return false;
    }
    for (uint32_t i = 0; i < c->n_out; i++) {
        c->out[i] = c->value[i] = g->index[n->out + i];
        if (!kit_local_name(c, c->out[i], name))
            return false;
    }
    return kit_chain_fits(c) && dot_fits(&g->value[g->index[n->in]], &g->value[g->index[n->in + 1]], &g->value[c->leaf[0]]);
}

uint32_t ocl_claims_dot_map(const yk_graph *g, const yk_node *n)
{
    kit_chain c;
    return epilogue_of(g, n, &c) && kit_is_float(g->value[c.out[0]].dtype);
}

static void epilogue_loads(kit_text *t, const kit_chain *c)
{
    int64_t s[3];
    for (uint32_t i = 1; i < c->n_leaf; i++) {
        uint32_t dtype = c->g->value[c->leaf[i]].dtype;
        const char *name = kit_type(dtype), *v = kit_is_float(dtype) ? "V" : "VI";
        epilogue_strides(&c->g->value[c->leaf[i]], s);
        if (s[2])
            kit_text_add(t, "%s x%u = LD_%s(i%u + (z)*z%u + (m)*m%u + (n), cnt); ", v, i, name, i, i, i);
        else if (kit_is_float(dtype))
            kit_text_add(t, "V x%u = V_SPLAT(GET_%s(i%u[(z)*z%u + (m)*m%u])); ", i, name, i, i, i);
        else
            kit_text_add(t, "VI x%u = VI_SPLAT(i%u[(z)*z%u + (m)*m%u]%s); ", i, i, i, i, dtype == YK_BOOL ? " ? -1 : 0" : "");
    }
}

/* The macros gemm.kc asks for. */
static void epilogue_emit(kit_text *t, const kit_chain *c)
{
    char name[16];
    kit_text_add(t, "#define EPI_ARGS ");
    for (uint32_t i = 1; i < c->n_leaf; i++)
        kit_text_add(t, ", IN(t_%s, i%u), long z%u, long m%u", kit_type(c->g->value[c->leaf[i]].dtype), i, i, i);
    for (uint32_t i = 0; i < c->n_out; i++)
        kit_text_add(t, ", OUT(t_%s, y%u)", kit_type(c->g->value[c->out[i]].dtype), i);
    kit_text_add(t, "\n#define EPI_BIND ");
    for (uint32_t i = 1; i < c->n_leaf; i++)
        kit_text_add(t, "ATC(t_%s, i%u); ", kit_type(c->g->value[c->leaf[i]].dtype), i);
    for (uint32_t i = 0; i < c->n_out; i++)
        kit_text_add(t, "AT(t_%s, y%u); ", kit_type(c->g->value[c->out[i]].dtype), i);
    kit_text_add(t, "\n#define EPI(v, z, m, n, cnt) do { V x0 = v; ");
    epilogue_loads(t, c);
    size_t from = t->n;
    kit_emit_nodes(t, c);
    for (size_t i = from; t->s && i < t->n; i++)
        if (t->s[i] == '\n')
            t->s[i] = ' ';
    for (uint32_t i = 0; i < c->n_out; i++) {
        kit_local_name(c, c->out[i], name);
        kit_text_add(t, "ST_%s(y%u + (z)*cbs + (m)*N + (n), %s, cnt); ", kit_type(c->g->value[c->out[i]].dtype), i, name);
    }
    kit_text_add(t, "} while (0)\n");
}

void ocl_lower_dot_map(yk_program *p, const yk_node *n)
{
    kit_chain c;
    kit_text text;
    char defines[64];
    cl_program program = NULL;
    const yk_graph *g = p->g;
    if (!epilogue_of(g, n, &c)) {
        ocl_fail(p, YK_E_UNSUPPORTED);
        return;
    }
    kit_text_init(&text, ocl_host);
    epilogue_emit(&text, &c);
    snprintf(defines, sizeof defines, "-DTA=%s -DTC=%s", kit_type(g->value[g->index[n->in]].dtype),
             kit_type(g->value[c.out[0]].dtype));
    ocl_fail(p, ocl_unit_epilogue(p->dev, &text, defines, &program));
    kit_text_free(&text);
    dot_launch(p, n, c.out[0], program, false);
    for (uint32_t i = 1; i < c.n_leaf; i++) {
        int64_t s[3];
        epilogue_strides(&g->value[c.leaf[i]], s);
        ocl_arg_value(p, c.leaf[i]);
        ocl_arg_long(p, s[0]);
        ocl_arg_long(p, s[1]);
    }
    for (uint32_t i = 0; i < c.n_out; i++)
        ocl_arg_value(p, c.out[i]);
}
