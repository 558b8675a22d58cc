/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes to launches: chains, reductions and the dispatch; lower_data.c, lower_dot.c and the rest do the others. */
#include "backends/opencl/ocl.h"

#include <stdio.h>

/* Elements of an elementwise group, outputs and columns of a reduction's group: enough work to hide a start. */
#define BLOCK_CPU_SHAPE 8192
#define BLOCK_GPU 1024
#define COLUMNS_CPU 64
#define TEAM_GPU 64

const yk_value *ocl_in(const yk_graph *g, const yk_node *n, uint32_t i)
{
    return &g->value[g->index[n->in + i]];
}

const yk_value *ocl_out(const yk_graph *g, const yk_node *n, uint32_t i)
{
    return &g->value[g->index[n->out + i]];
}

void ocl_arg_in(yk_program *p, const yk_node *n, uint32_t i)
{
    ocl_arg_value(p, p->g->index[n->in + (i < n->n_in ? i : 0)]);
}

void ocl_arg_out(yk_program *p, const yk_node *n, uint32_t i)
{
    ocl_arg_value(p, p->g->index[n->out + (i < n->n_out ? i : 0)]);
}

int64_t ocl_attr(const yk_program *p, const yk_node *n, uint32_t i)
{
    return p->g->attr[n->attr + i];
}

static bool lower_is_chain(uint32_t op)
{
    return op == YK_OP_MAP || op == YK_OP_MAP_SUM || op == YK_OP_SUM || op == YK_OP_RMAX || kit_emits(op);
}

static bool lower_is_dot(uint32_t op)
{
    return op == YK_OP_DOT || op == YK_OP_DOT_MAP;
}

static bool lower_is_conv(uint32_t op)
{
    return op == YK_OP_CONV2D || op == YK_OP_CONV2D_DX || op == YK_OP_CONV2D_DW;
}

/* The kernel's text without its name is its key; the name is made of the key. */
static bool chain_key(const kit_chain *c, const kit_space *s, uint64_t *key)
{
    kit_text t;
    kit_text_init(&t, ocl_host);
    if (c->reduce)
        kit_emit_reduce(&t, "k", c, s);
    else
        kit_emit_map(&t, "k", c, s);
    bool good = !t.bad && t.s;
    if (good)
        *key = kit_hash(KIT_HASH_SEED, t.s, t.n);
    kit_text_free(&t);
    return good;
}

static bool chain_prepare(const yk_graph *g, uint32_t node, kit_chain *c, kit_space *s, uint64_t *key, char name[32])
{
    if (!lower_is_chain(g->node[node].op) || !kit_chain_of(g, node, c) || !kit_space_of(c, s) || !chain_key(c, s, key))
        return false;
    snprintf(name, 32, "e%016llx", (unsigned long long)*key);
    return true;
}

bool ocl_generated_kernel(const yk_graph *g, uint32_t node, const yk_device *dev, kit_text *out, uint64_t *key)
{
    kit_chain c;
    kit_space s;
    char name[32];
    if (lower_is_dot(g->node[node].op))
        return ocl_dot_kernel(g, node, dev, out, key);
    if (!chain_prepare(g, node, &c, &s, key, name))
        return false;
    if (c.reduce)
        kit_emit_reduce(out, name, &c, &s);
    else
        kit_emit_map(out, name, &c, &s);
    return true;
}

static void lower_unsupported(yk_program *p, uint32_t op)
{
    ocl_host->fail(OCL_WHO, "node %u (%s): operands of a type or layout this plugin does not run", p->node,
                   kit_op_name(op));
    ocl_fail(p, YK_E_UNSUPPORTED);
}

static int64_t chain_block(const yk_device *dev, const kit_chain *c, const kit_space *s)
{
    int64_t inner = s->dim[s->dims - 1], each = inner, block;
    if (!c->reduce)
        return dev->cpu_shape ? BLOCK_CPU_SHAPE : BLOCK_GPU;
    if (!s->reduced[s->dims - 1])
        return dev->cpu_shape ? COLUMNS_CPU : TEAM_GPU;
    for (uint32_t d = 0; d + 1 < s->dims; d++)
        each *= s->reduced[d] ? s->dim[d] : 1;
    block = dev->cpu_shape ? BLOCK_CPU_SHAPE / each : 1;
    return block < 1 ? 1 : block;
}

static void lower_chain(yk_program *p, uint32_t node)
{
    kit_chain c;
    kit_space s;
    char name[32];
    uint64_t key;
    int64_t meta[KIT_META], groups;
    if (!chain_prepare(p->g, node, &c, &s, &key, name)) {
        lower_unsupported(p, p->g->node[node].op);
        return;
    }
    pthread_mutex_lock(&p->dev->lock);
    cl_program program = ocl_unit_find(p->dev, key);
    pthread_mutex_unlock(&p->dev->lock);
    int64_t block = chain_block(p->dev, &c, &s);
    uint32_t n = c.reduce ? kit_meta_reduce(&c, &s, block, meta, &groups) : kit_meta_map(&c, &s, block, meta, &groups);
    ocl_launch_from(p, program, name, groups, 1, 1, TEAM_GPU);
    for (uint32_t i = 0; i < c.n_leaf; i++)
        ocl_arg_value(p, c.leaf[i]);
    for (uint32_t i = 0; i < c.n_out; i++)
        ocl_arg_value(p, c.out[i]);
    ocl_arg_meta(p, meta, n);
}

void ocl_lower_node(yk_program *p, uint32_t node)
{
    const yk_node *n = &p->g->node[node];
    if (lower_is_dot(n->op))
        ocl_lower_dot(p, n);
    else if (lower_is_chain(n->op))
        lower_chain(p, node);
    else if (lower_is_conv(n->op))
        ocl_lower_conv(p, n);
    else if (n->op >= YK_OP_MAP)
        ocl_lower_nn(p, n);
    else
        ocl_lower_data(p, n);
    if (p->failed == YK_E_UNSUPPORTED)
        lower_unsupported(p, n->op);
}

uint32_t ocl_claims(yk_device *dev, const yk_graph *g, uint32_t node)
{
    kit_chain c;
    kit_space s;
    if (g->node[node].op == YK_OP_DOT_MAP)
        return ocl_claims_dot_map(g, &g->node[node]);
    if (lower_is_conv(g->node[node].op))
        return ocl_claims_conv(dev, g, &g->node[node]);
    if (!lower_is_chain(g->node[node].op))
        return ocl_claims_nn(dev, g, &g->node[node]);
    return kit_chain_of(g, node, &c) && kit_space_of(&c, &s) ? 1 : 0;
}
