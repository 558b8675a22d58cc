/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a graph against every rule of plugin.h that a plugin may rely on. The layer validate (core/device/validate.c) and yoke-cts call
 * it, in any thread; the error names the first broken rule.
 *
 * It uses no part of the graph before it has checked that part. So it accepts any contents, if the arrays have the lengths that the graph
 * states.
 */
#include "core/graph/graph_internal.h"

#include <string.h>

#include "core/base/mem.h"

typedef struct check {
    const yk_graph *g;
    uint8_t *written; /* by root: 0 not yet, 1 by a node, 2 in the current body, 3 operand of the current map */
    bool planned;     /* values have places in the arena */
    yk_error *err;
} check;

enum { NOT_YET, BY_NODE, IN_BODY, OPERAND };

#define MOST_BYTES ((int64_t)1 << 48) /* largest value: sums and products of sizes stay far from overflow */

/* ---- Slots and values ---- */

static bool slots_good(check *chk)
{
    const yk_graph *g = chk->g;
    if (!g->n_slot || g->slot[0].kind != YK_SLOT_ARENA) /* a rule of this host; the ABI leaves the slot open */
        return yk__fail(chk->err, YK_E_FORMAT, "graph: slot 0 has to be an arena"), false;
    for (uint32_t i = 0; i < g->n_slot; i++)
        if (g->slot[i].kind >= YK_SLOT_KIND_COUNT)
            return yk__fail(chk->err, YK_E_FORMAT, "graph: slot %u cannot be of kind %u", i, g->slot[i].kind), false;
    return true;
}

static bool lengths_good(const yk_value *v)
{
    int64_t n = (int64_t)yk_dtype_bytes(v->dtype);
    if (!n || v->dims > YK_MAX_DIMS)
        return false;
    for (uint32_t i = 0; i < v->dims; i++) {
        if (v->dim[i] < 1 || v->dim[i] > MOST_BYTES / n)
            return false;
        n *= v->dim[i];
    }
    return true;
}

static bool root_good(check *chk, uint32_t i)
{
    const yk_value *v = &chk->g->value[i];
    const uint64_t bytes = yk__value_bytes(v);
    const yk_slot *s;
    if (!yk__value_is_dense(v))
        return yk__fail(chk->err, YK_E_FORMAT, "graph: value %u is no view, so it has to be dense", i), false;
    if (v->slot == YK_NONE)
        return v->offset == 0 ||
               (yk__fail(chk->err, YK_E_FORMAT, "graph: value %u has an offset and no slot", i), false);
    if (v->slot >= chk->g->n_slot)
        return yk__fail(chk->err, YK_E_FORMAT, "graph: value %u lies in slot %u of %u", i, v->slot, chk->g->n_slot),
               false;
    s = &chk->g->slot[v->slot];
    if (v->offset % yk_dtype_bytes(v->dtype) || v->offset > (uint64_t)MOST_BYTES)
        return yk__fail(chk->err, YK_E_FORMAT, "graph: value %u lies at byte %llu", i, (unsigned long long)v->offset),
               false;
    if ((s->bytes || chk->planned) && (v->offset > s->bytes || bytes > s->bytes - v->offset))
        return yk__fail(chk->err, YK_E_FORMAT, "graph: value %u ends behind the %llu bytes of slot %u", i,
                        (unsigned long long)s->bytes, v->slot),
               false;
    return true;
}

static bool view_good(check *chk, uint32_t i)
{
    const yk_value *v = &chk->g->value[i], *b;
    if (v->base >= chk->g->n_value || chk->g->value[v->base].base != v->base)
        return yk__fail(chk->err, YK_E_FORMAT, "graph: value %u is a view of %u, which is no root", i, v->base), false;
    b = &chk->g->value[v->base];
    if (!lengths_good(b) || v->slot != b->slot || !yk__value_view_inside(v, b))
        return yk__fail(chk->err, YK_E_FORMAT, "graph: view %u does not lie inside value %u", i, v->base), false;
    return true;
}

static bool values_good(check *chk)
{
    const yk_graph *g = chk->g;
    for (uint32_t i = 0; i < g->n_value; i++)
        if (g->value[i].slot == 0)
            chk->planned = true;
    for (uint32_t i = 0; i < g->n_value; i++) {
        if (!lengths_good(&g->value[i]))
            return yk__fail(chk->err, YK_E_FORMAT, "graph: value %u has no legal type and shape", i), false;
        if (!(g->value[i].base == i ? root_good(chk, i) : view_good(chk, i)))
            return false;
    }
    return true;
}

/* ---- Nodes ---- */

#define A_EIGHTS (YK_NODE_A_E4M3 | YK_NODE_A_E5M2)
#define B_EIGHTS (YK_NODE_B_E4M3 | YK_NODE_B_E5M2)

/* The operands of a product have at most one 8-bit format each. */
static bool flags_good(const yk_node *n)
{
    return !(n->flags & ~(YK_NODE_ACCUMULATE | (n->op == YK_OP_DOT ? A_EIGHTS | B_EIGHTS : 0))) && (n->flags & A_EIGHTS) != A_EIGHTS &&
           (n->flags & B_EIGHTS) != B_EIGHTS;
}

static bool ranges_good(check *chk, uint32_t i)
{
    const yk_graph *g = chk->g;
    const yk_node *n = &g->node[i];
    const uint64_t in = (uint64_t)n->in + n->n_in, out = (uint64_t)n->out + n->n_out;
    if (n->op >= YK_OP_COUNT || n->n_in > YK_MAX_OPERANDS || n->n_out < 1 || n->n_out > YK_MAX_OUTPUTS ||
        in > g->n_index || out > g->n_index || (uint64_t)n->attr + n->n_attr > g->n_attr ||
        !flags_good(n))
        return yk__fail(chk->err, YK_E_FORMAT, "graph: node %u (op %u) has impossible numbers", i, n->op), false;
    for (uint32_t k = 0; k < n->n_in; k++)
        if (g->index[n->in + k] >= g->n_value)
            return yk__fail(chk->err, YK_E_FORMAT, "graph: operand %u of node %u is no value", k, i), false;
    for (uint32_t k = 0; k < n->n_out; k++)
        if (g->index[n->out + k] >= g->n_value)
            return yk__fail(chk->err, YK_E_FORMAT, "graph: output %u of node %u is no value", k, i), false;
    return true;
}

static bool layouts_good(check *chk, uint32_t i)
{
    const yk_graph *g = chk->g;
    const yk_node *n = &g->node[i];
    for (uint32_t k = 0; k < n->n_in; k++) {
        const yk_value *v = &g->value[g->index[n->in + k]];
        const bool padded = (yk__takes_padded_rows(n->op, k, false, false) && yk__value_is_padded(v, false)) ||
                            (yk__takes_padded_rows(n->op, k, false, true) && yk__value_is_padded(v, true));
        if (!padded && !yk__value_fits_layout(v, yk__operand_layout(n->op, k, g->attr + n->attr)))
            return yk__fail(chk->err, YK_E_FORMAT, "graph: node %u, %s: operand %u has strides that it does not take",
                            i, yk__op_info_of(n->op)->name, k),
                   false;
    }
    return true;
}

static bool output_is(const yk__shape *s, uint32_t k, const yk_value *v)
{
    return v->dtype == s->out[k].dtype && yk__value_same_shape(v, &s->out[k]);
}

/* True if v is all of x except the padding behind its rows. */
static bool is_rows_of(const yk_value *v, const yk_value *x)
{
    return yk__value_is_padded(v, false) && x->dims == 2 && x->dtype == v->dtype && x->offset == v->offset && x->dim[0] == v->dim[0] &&
           x->dim[1] == v->stride[0];
}

/* True if result k is a view and, with the node's other views of the same root, covers that root. */
static bool is_part(const yk_graph *g, const yk_node *n, uint32_t k)
{
    const uint32_t *out = g->index + n->out, many = yk__strided_results(n->op);
    const yk_value *view[3];
    uint32_t parts = 0;
    if (k >= many || n->n_out < many)
        return false;
    if (yk__takes_padded_rows(n->op, k, true, false))
        return !(n->flags & YK_NODE_ACCUMULATE) && is_rows_of(&g->value[out[k]], &g->value[g->value[out[k]].base]);
    for (uint32_t i = 0; i < many; i++)
        if (g->value[out[i]].base == g->value[out[k]].base)
            view[parts++] = &g->value[out[i]];
    return yk__value_fits_layout(&g->value[out[k]], YK_LAYOUT_ATTENTION) &&
           yk__value_tiles(view, parts, &g->value[g->value[out[k]].base]);
}

/* True for the first of the node's results in the root of result k. */
static bool is_first_part(const yk_graph *g, const yk_node *n, uint32_t k)
{
    const uint32_t *out = g->index + n->out;
    for (uint32_t i = 0; i < k; i++)
        if (g->value[out[i]].base == g->value[out[k]].base)
            return false;
    return true;
}

/* The outputs have the shapes that the builder's inference gives for the operands. */
static bool shapes_good(check *chk, uint32_t i)
{
    const yk_graph *g = chk->g;
    const yk_node *n = &g->node[i];
    const yk_value *first = &g->value[g->index[n->out]];
    const char *name = yk__op_info_of(n->op)->name;
    yk__shape s = {
        .op = n->op, .n_in = n->n_in, .n_attr = n->n_attr, .attr = g->attr + n->attr, .want_dtype = first->dtype};
    s.dims = first->dims, s.dim = first->dim, s.err = chk->err;
    for (uint32_t k = 0; k < n->n_in; k++)
        s.x[k] = &g->value[g->index[n->in + k]];
    if (!yk__infer(&s))
        return yk__fail_in(chk->err, "graph: node %u", i), chk->err->status = YK_E_FORMAT, false;
    if (s.n_out != n->n_out)
        return yk__fail(chk->err, YK_E_FORMAT, "graph: node %u, %s: %u outputs, %u are right", i, name, n->n_out,
                        s.n_out),
               false;
    for (uint32_t k = 0; k < n->n_out; k++) {
        uint32_t id = g->index[n->out + k], base = g->value[id].base;
        if (!output_is(&s, k, &g->value[id]))
            return yk__fail(chk->err, YK_E_FORMAT, "graph: node %u, %s: output %u has the wrong type or shape", i, name,
                            k),
                   false;
        if (s.alias[k] == YK_NONE ? base != id && !is_part(g, n, k) : base != g->value[g->index[n->in + s.alias[k]]].base)
            return yk__fail(chk->err, YK_E_FORMAT, "graph: node %u, %s: output %u may not be a view there", i, name, k),
                   false;
    }
    return true;
}

static bool operands_written(check *chk, uint32_t i)
{
    const yk_node *n = &chk->g->node[i];
    for (uint32_t k = 0; k < n->n_in; k++) {
        uint32_t root = chk->g->value[chk->g->index[n->in + k]].base;
        if (!chk->written[root] && chk->g->value[root].slot == YK_NONE)
            return yk__fail(chk->err, YK_E_FORMAT, "graph: node %u, %s: operand %u is not written before", i,
                            yk__op_info_of(n->op)->name, k),
                   false;
    }
    return true;
}

static bool mark_outputs(check *chk, uint32_t i, uint8_t how)
{
    const yk_node *n = &chk->g->node[i];
    for (uint32_t k = 0; k < n->n_out; k++) {
        uint32_t id = chk->g->index[n->out + k], root = chk->g->value[id].base;
        const bool all = id == root || (is_part(chk->g, n, k) && is_first_part(chk->g, n, k));
        if (all && chk->written[root] != NOT_YET && !(n->flags & YK_NODE_ACCUMULATE))
            return yk__fail(chk->err, YK_E_FORMAT, "graph: node %u writes value %u, which was written before", i, id),
                   false;
        if (all)
            chk->written[root] = how;
    }
    return true;
}

static bool plain_good(check *chk, uint32_t i)
{
    if (chk->g->node[i].n_body)
        return yk__fail(chk->err, YK_E_FORMAT, "graph: node %u, %s, cannot have a body", i,
                        yk__op_info_of(chk->g->node[i].op)->name),
               false;
    /* shapes_good checks the number of attributes, which layouts_good reads */
    return shapes_good(chk, i) && layouts_good(chk, i);
}

/* ---- Bodies ---- */

static bool body_fail(check *chk, uint32_t i, const char *what)
{
    yk__fail(chk->err, YK_E_FORMAT, "graph: body of node %u, %s: %s", i, yk__op_info_of(chk->g->node[i].op)->name,
             what);
    return false;
}

/* True if op may be node number `at` of the body. */
static bool stands_there(const yk_node *top, uint32_t at, uint32_t op)
{
    if (top->op == YK_OP_DOT_MAP && at == 0)
        return op == YK_OP_DOT;
    if (top->op == YK_OP_MAP_SUM && at >= top->n_body - top->n_out)
        return op == YK_OP_SUM;
    return yk__op_in_map(op);
}

static bool body_node_good(check *chk, uint32_t i, uint32_t at, const yk_value *shape)
{
    const yk_graph *g = chk->g;
    const yk_node *top = &g->node[i], *n;
    const uint32_t id = top->body + at;
    n = &g->node[id];
    if (n->n_body || n->flags & YK_NODE_ACCUMULATE || !stands_there(top, at, n->op))
        return body_fail(chk, i, "has an op that may not stand there");
    if (!shapes_good(chk, id) || !layouts_good(chk, id))
        return false;
    for (uint32_t k = 0; k < n->n_in; k++) {
        uint8_t how = chk->written[g->value[g->index[n->in + k]].base];
        if (how != IN_BODY && how != OPERAND)
            return body_fail(chk, i, "reads a value that is neither an operand nor its own");
    }
    if (n->op != YK_OP_SUM && !yk__value_same_shape(&g->value[g->index[n->out]], shape))
        return body_fail(chk, i, "has a value of another shape");
    return mark_outputs(chk, id, IN_BODY);
}

static bool sums_agree(const yk_graph *g, const yk_node *top)
{
    const yk_node *last = &g->node[top->body + top->n_body - 1];
    for (uint32_t k = 0; k < top->n_out; k++)
        if (g->attr[(last - k)->attr] != g->attr[last->attr])
            return false;
    return true;
}

/* True for key and rows of a dropout in the body, which are not read element by element. */
static bool is_random(const yk_graph *g, const yk_node *top, uint32_t v)
{
    for (uint32_t k = 0; k < top->n_body; k++) {
        const yk_node *n = &g->node[top->body + k];
        for (uint32_t i = 1; n->op == YK_OP_DROPOUT && i < n->n_in; i++)
            if (g->index[n->in + i] == v)
                return true;
    }
    return false;
}

/* The shape of a body's elements: that of the operands, or for dot_map of the outputs. */
static bool body_shape(check *chk, uint32_t i, const yk_value **shape)
{
    const yk_graph *g = chk->g;
    const yk_node *n = &g->node[i];
    const uint32_t first = n->op == YK_OP_DOT_MAP ? 2 : 0;
    *shape = &g->value[g->index[n->op == YK_OP_MAP_SUM ? n->in : n->out]];
    for (uint32_t k = first; k < n->n_in; k++)
        if (!yk__value_same_shape(&g->value[g->index[n->in + k]], *shape) && !is_random(g, n, g->index[n->in + k]))
            return body_fail(chk, i, "its operands differ in shape");
    for (uint32_t k = 0; k < n->n_out && n->op != YK_OP_MAP_SUM; k++)
        if (!yk__value_same_shape(&g->value[g->index[n->out + k]], *shape))
            return body_fail(chk, i, "its outputs differ in shape");
    return true;
}

/* Marks the operands' roots; kept gets the old marks, to restore them. */
static void open_body(check *chk, const yk_node *n, uint8_t *kept)
{
    for (uint32_t k = 0; k < n->n_in; k++) {
        uint32_t root = chk->g->value[chk->g->index[n->in + k]].base;
        kept[k] = chk->written[root];
    }
    for (uint32_t k = 0; k < n->n_in; k++)
        chk->written[chk->g->value[chk->g->index[n->in + k]].base] = OPERAND;
}

static void close_body(check *chk, const yk_node *n, const uint8_t *kept)
{
    for (uint32_t k = 0; k < n->n_in; k++)
        chk->written[chk->g->value[chk->g->index[n->in + k]].base] = kept[k];
}

static bool map_good(check *chk, uint32_t i)
{
    const yk_graph *g = chk->g;
    const yk_node *n = &g->node[i];
    const yk__op_info *info = yk__op_info_of(n->op);
    uint8_t kept[YK_MAX_OPERANDS];
    const yk_value *shape;
    bool good = true;
    if (n->n_in < info->in_min || n->n_attr || n->n_body < (n->op == YK_OP_MAP_SUM ? n->n_out : 1u) ||
        n->body < g->n_node || (uint64_t)n->body + n->n_body > g->n_all_node)
        return body_fail(chk, i, "it has impossible numbers");
    if (!layouts_good(chk, i) || !body_shape(chk, i, &shape))
        return false;
    for (uint32_t k = 0; k < n->n_out; k++)
        if (g->value[g->index[n->out + k]].base != g->index[n->out + k] || chk->written[g->index[n->out + k]])
            return body_fail(chk, i, "an output is a view or was written before");
    open_body(chk, n, kept);
    for (uint32_t k = 0; good && k < n->n_body; k++)
        good = body_node_good(chk, i, k, shape);
    if (good && n->op == YK_OP_MAP_SUM && !sums_agree(g, n))
        good = body_fail(chk, i, "its sums go over different axes");
    for (uint32_t k = 0; good && k < n->n_out; k++)
        if (chk->written[g->index[n->out + k]] != IN_BODY)
            good = body_fail(chk, i, "does not write every output");
    close_body(chk, n, kept);
    return good;
}

static bool node_good(check *chk, uint32_t i)
{
    const uint16_t op = chk->g->node[i].op;
    if (!operands_written(chk, i))
        return false;
    if (op == YK_OP_MAP || op == YK_OP_DOT_MAP || op == YK_OP_MAP_SUM)
        return map_good(chk, i); /* marks its own outputs as written in a body, which counts as written */
    return plain_good(chk, i) && mark_outputs(chk, i, BY_NODE);
}

yk_status yk__graph_check(const yk_graph *g, yk_error *err)
{
    check chk = {.g = g, .err = err};
    bool good;
    if (g->n_all_node < g->n_node)
        return yk__fail(err, YK_E_FORMAT, "graph: n_all_node is %u: expected at least n_node, %u", g->n_all_node, g->n_node);
    chk.written = yk__calloc((size_t)g->n_value + 1, 1);
    if (!chk.written)
        return yk__fail_mem(err, g->n_value, "checking a graph");
    good = slots_good(&chk) && values_good(&chk);
    for (uint32_t i = 0; good && i < g->n_all_node; i++)
        good = ranges_good(&chk, i); /* body nodes too, also unowned ones */
    for (uint32_t i = 0; good && i < g->n_node; i++)
        good = node_good(&chk, i);
    yk__free(chk.written);
    return good ? YK_OK : err->status;
}
