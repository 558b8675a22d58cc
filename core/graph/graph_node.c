/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Appends a node to a graph: copies operands whose strides the op rejects, infers output shapes, and updates the graph's running hash,
 * which names a trace in core/run/cache.c. It works in the caller's thread.
 *
 * The trace (core/job/trace, core/plan/trace.c), the bodies (body*.c), build.c, core/grad, core/device/probe.c, update_programs.c
 * (core/run) and yoke-cts call yk__apply, which infers. Passes, view.c, core/device/simple.c, core/run/values and a few tests of yoke-cts
 * know the outputs and call yk__node_new; fusion calls yk__body_new. After a graph's first error yk__apply appends nothing and returns 0.
 */
#include "core/graph/graph_internal.h"

#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"

/* Calls yk__grow only if the capacity is too small: a step's trace mostly fits in the arrays of the step before. */
static bool lists_reserve(yk__graph *g, uint32_t n_in, uint32_t n_out, uint32_t n_attr)
{
    const size_t index = g->n_index + n_in + n_out, attr = g->n_attr + n_attr;
    return index < YK_NONE && attr < YK_NONE &&
           (index <= g->cap_index || !yk__grow(&g->index, &g->cap_index, index, sizeof *g->index)) &&
           (attr <= g->cap_attr || !yk__grow(&g->attr, &g->cap_attr, attr, sizeof *g->attr));
}

static void hash_list(yk__graph *g, const uint32_t *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 2)
        g->hash = yk__hash_u64(g->hash, (uint64_t)v[i] << 32 | (i + 1 < n ? v[i + 1] : 0));
}

static void node_fill(yk__graph *g, yk_node *p, yk_op op, uint32_t flags, uint32_t n_in, const yk__vid *in,
                      uint32_t n_out, const yk__vid *out, uint32_t n_attr, const int64_t *attr)
{
    memset(p, 0, sizeof *p);
    p->op = (uint16_t)op, p->flags = (uint16_t)flags;
    p->n_in = (uint16_t)n_in, p->n_out = (uint16_t)n_out;
    p->in = (uint32_t)g->n_index;
    p->out = p->in + n_in;
    p->attr = (uint32_t)g->n_attr, p->n_attr = n_attr;
    p->stream = g->stream;
    if (n_in)
        memcpy(g->index + p->in, in, n_in * sizeof *in);
    if (n_out)
        memcpy(g->index + p->out, out, n_out * sizeof *out);
    if (n_attr)
        memcpy(g->attr + p->attr, attr, n_attr * sizeof *attr);
    g->n_index += n_in + n_out;
    g->n_attr += n_attr;
    g->hash = yk__hash_u64(g->hash, (uint64_t)n_out << 48 | (uint64_t)n_in << 32 | (uint64_t)flags << 16 | op);
    hash_list(g, in, n_in);
    hash_list(g, out, n_out);
    for (uint32_t i = 0; i < n_attr; i++)
        g->hash = yk__hash_u64(g->hash, (uint64_t)attr[i]);
}

uint32_t yk__node_new(yk__graph *g, yk_op op, uint32_t flags, uint32_t n_in, const yk__vid *in, uint32_t n_out,
                      const yk__vid *out, uint32_t n_attr, const int64_t *attr)
{
    if (!lists_reserve(g, n_in, n_out, n_attr) ||
        (g->n_node == g->cap_node && yk__grow(&g->node, &g->cap_node, g->n_node + 1, sizeof *g->node)))
        return yk__graph_fail(g, YK_E_MEM, "out of memory (node %zu of a graph)", g->n_node);
    node_fill(g, &g->node[g->n_node], op, flags, n_in, in, n_out, out, n_attr, attr);
    return (uint32_t)g->n_node++;
}

uint32_t yk__body_new(yk__graph *g, yk_op op, uint32_t n_in, const yk__vid *in, uint32_t n_out, const yk__vid *out,
                      uint32_t n_attr, const int64_t *attr)
{
    if (!lists_reserve(g, n_in, n_out, n_attr) || yk__grow(&g->body, &g->cap_body, g->n_body + 1, sizeof *g->body))
        return yk__graph_fail(g, YK_E_MEM, "out of memory (body node %zu of a graph)", g->n_body);
    node_fill(g, &g->body[g->n_body], op, 0, n_in, in, n_out, out, n_attr, attr);
    return (uint32_t)g->n_body++;
}

/* ---- Nodes by inference ---- */

yk__vid yk__dense(yk__graph *g, yk__vid x)
{
    yk__vid y;
    if (x == YK_NONE || yk__value_is_dense(&g->value[x]))
        return x;
    return yk__apply(g, YK_OP_COPY, 1, &x, 0, NULL, YK_DTYPE_COUNT, 0, NULL, &y, 1) ? y : YK_NONE;
}

/* Inserts copies of operands whose strides the op rejects. */
static bool operands_fit(yk__graph *g, yk_op op, const int64_t *attr, uint32_t n, yk__vid *x)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!yk__value_fits_layout(&g->value[x[i]], yk__operand_layout(op, i, attr)))
            x[i] = yk__dense(g, x[i]);
        if (x[i] == YK_NONE)
            return false;
    }
    return true;
}

static bool outputs_new(yk__graph *g, const yk__shape *s, const yk__vid *in, yk__vid *out)
{
    for (uint32_t i = 0; i < s->n_out; i++) {
        if (s->alias[i] == YK_NONE) {
            out[i] = yk__value_new(g, s->out[i].dtype, s->out[i].dims, s->out[i].dim);
        } else {
            yk_value v = g->value[in[s->alias[i]]];
            out[i] = yk__alias_new(g, in[s->alias[i]], &v);
        }
        if (out[i] == YK_NONE)
            return false;
    }
    return true;
}

uint32_t yk__apply(yk__graph *g, yk_op op, uint32_t n_in, const yk__vid *in, uint32_t n_attr, const int64_t *attr,
                   yk_dtype out_dtype, uint32_t dims, const int64_t *dim, yk__vid *out, uint32_t max_out)
{
    yk__vid x[YK_MAX_OPERANDS];
    yk__shape s;
    const yk__op_info *info = yk__op_info_of(op);
    if (g->error.status)
        return 0;
    if (!info || n_in > YK_MAX_OPERANDS) {
        yk__graph_fail(g, YK_E_ARG, "operation number %d with %u operands: expected a number of plugin.h, and at most %d operands", (int)op,
                       n_in, YK_MAX_OPERANDS);
        return 0;
    }
    for (uint32_t i = 0; i < n_in; i++) {
        if (in[i] >= g->n_value) {
            yk__graph_fail(g, YK_E_ARG, "%s: operand %u is no value of the graph", info->name, i);
            return 0;
        }
        x[i] = in[i];
    }
    if (n_attr == info->n_attr && !operands_fit(g, op, attr, n_in, x))
        return 0;
    s.op = op, s.n_in = n_in, s.n_attr = n_attr, s.attr = attr;
    s.want_dtype = out_dtype, s.dims = dims, s.dim = dim, s.err = &g->error;
    for (uint32_t i = 0; i < n_in; i++)
        s.x[i] = &g->value[x[i]];
    if (!yk__infer(&s))
        return 0;
    if (s.n_out > max_out) {
        yk__graph_fail(g, YK_E_ARG, "%s has %u outputs; %u were asked for", info->name, s.n_out, max_out);
        return 0;
    }
    if (!outputs_new(g, &s, x, out) || yk__node_new(g, op, 0, n_in, x, s.n_out, out, n_attr, attr) == YK_NONE)
        return 0;
    return s.n_out;
}
