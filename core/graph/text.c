/* SPDX-License-Identifier: Apache-2.0 */
/* A graph for readers: as text, one line per node, and as DOT for Graphviz. */
#include "core/graph/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/number.h"

typedef struct text {
    char *p;
    size_t n, cap;
    bool gone; /* memory */
} text;

static void put(text *t, const char *fmt, ...) YK_PRINTF(2, 3);

static void put(text *t, const char *fmt, ...)
{
    va_list ap;
    int n;
    if (t->gone)
        return;
    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || yk__grow(&t->p, &t->cap, t->n + (size_t)n + 1, 1)) {
        t->gone = true;
        return;
    }
    va_start(ap, fmt);
    vsnprintf(t->p + t->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    t->n += (size_t)n;
}

static char *finish(text *t)
{
    if (t->gone) {
        yk__free(t->p);
        return NULL;
    }
    return t->p;
}

static const char *slot_kind(uint32_t kind)
{
    static const char *const names[] = {"arena", "input", "param", "state", "grad", "result"};
    return kind < YK_SLOT_KIND_COUNT ? names[kind] : "?";
}

static void put_place(text *t, const yk_value *v)
{
    if (v->slot != YK_NONE)
        put(t, " slot %u +%llu", v->slot, (unsigned long long)v->offset);
}

static void put_view(text *t, const yk_graph *g, uint32_t id)
{
    const yk_value *v = &g->value[id];
    char shape[160];
    put(t, "%%%u = view %%%u %s strides", id, v->base, yk__shape_text(v, shape, sizeof shape));
    for (uint32_t i = 0; i < v->dims; i++)
        put(t, "%s%lld", i ? "," : " ", (long long)v->stride[i]);
    put(t, " +%llu\n", (unsigned long long)(v->offset - g->value[v->base].offset));
}

static bool is_float_attr(uint32_t op, uint32_t i)
{
    switch (op) {
    case YK_OP_FILL:
    case YK_OP_LAYER_NORM:
    case YK_OP_LAYER_NORM_BWD:
    case YK_OP_DROPOUT:
        return i == 0;
    case YK_OP_UNFOLD:
        return i == 8;
    case YK_OP_ATTENTION:
    case YK_OP_ATTENTION_BWD:
        return i == 1 || i == 2;
    case YK_OP_CROSS_ENTROPY:
    case YK_OP_CROSS_ENTROPY_BWD:
        return i == 1;
    default:
        return false;
    }
}

static void put_attrs(text *t, const yk_graph *g, const yk_node *n)
{
    for (uint32_t i = 0; i < n->n_attr; i++) {
        int64_t a = g->attr[n->attr + i];
        put(t, "%s", i ? " " : " {");
        if (is_float_attr(n->op, i))
            put(t, "%s", yk__number_text(yk_attr_f64(a), 17).text);
        else
            put(t, "%lld", (long long)a);
    }
    if (n->n_attr)
        put(t, "}");
}

static void put_node(text *t, const yk_graph *g, const yk_node *n, const char *indent)
{
    const yk__op_info *info = yk__op_info_of(n->op);
    char shape[160];
    put(t, "%s", indent);
    for (uint32_t i = 0; i < n->n_out; i++) {
        uint32_t id = g->index[n->out + i];
        const yk_value *v = &g->value[id];
        put(t, "%s%%%u %s", i ? ", " : "", id, yk__shape_text(v, shape, sizeof shape));
        if (v->base != id)
            put(t, " in %%%u", v->base);
        put_place(t, v);
    }
    put(t, " = %s%s(", info ? info->name : "?", n->flags & YK_NODE_ACCUMULATE ? "+" : "");
    for (uint32_t i = 0; i < n->n_in; i++)
        put(t, "%s%%%u", i ? ", " : "", g->index[n->in + i]);
    put(t, ")");
    put_attrs(t, g, n);
    if (n->stream)
        put(t, " #%u", n->stream);
    put(t, "\n");
}

/* Values are named where they come to be: leaves and views up front, results at their node. */
char *yk__graph_text(const yk_graph *g)
{
    text t = {0};
    char shape[160];
    put(&t, "graph %016llx: %u values, %u nodes, %u slots\n", (unsigned long long)g->hash, g->n_value, g->n_node,
        g->n_slot);
    for (uint32_t i = 0; i < g->n_slot; i++)
        put(&t, "slot %u %s key %u, %llu bytes\n", i, slot_kind(g->slot[i].kind), g->slot[i].key,
            (unsigned long long)g->slot[i].bytes);
    for (uint32_t i = 0; i < g->n_value; i++) {
        const yk_value *v = &g->value[i];
        if (v->base != i) {
            put_view(&t, g, i);
        } else if (v->flags & YK_VALUE_INPUT) {
            put(&t, "%%%u = leaf %s", i, yk__shape_text(v, shape, sizeof shape));
            put_place(&t, v);
            put(&t, "\n");
        }
    }
    for (uint32_t i = 0; i < g->n_node; i++) {
        put_node(&t, g, &g->node[i], "");
        for (uint32_t k = 0; k < g->node[i].n_body; k++)
            put_node(&t, g, &g->node[g->node[i].body + k], "    ");
    }
    return finish(&t);
}

char *yk__graph_dot(const yk_graph *g)
{
    text t = {0};
    char shape[160];
    uint32_t *maker = yk__malloc(((size_t)g->n_value + 1) * sizeof *maker); /* last node that wrote a root */
    if (!maker)
        return NULL;
    memset(maker, 0xff, ((size_t)g->n_value + 1) * sizeof *maker);
    put(&t, "digraph yoke {\n    node [shape=box, fontname=monospace];\n");
    for (uint32_t i = 0; i < g->n_node; i++) {
        const yk_node *n = &g->node[i];
        const yk__op_info *info = yk__op_info_of(n->op);
        put(&t, "    n%u [label=\"%s", i, info ? info->name : "?");
        for (uint32_t k = 0; k < n->n_out; k++)
            put(&t, "\\n%%%u %s", g->index[n->out + k],
                yk__shape_text(&g->value[g->index[n->out + k]], shape, sizeof shape));
        put(&t, "\"];\n");
        for (uint32_t k = 0; k < n->n_in; k++) {
            uint32_t id = g->index[n->in + k], root = g->value[id].base;
            if (maker[root] == YK_NONE)
                put(&t, "    v%u [label=\"%%%u %s\", style=rounded];\n    v%u -> n%u;\n", root, root,
                    yk__shape_text(&g->value[root], shape, sizeof shape), root, i);
            else
                put(&t, "    n%u -> n%u [label=\"%%%u\"];\n", maker[root], i, id);
        }
        for (uint32_t k = 0; k < n->n_out; k++)
            maker[g->value[g->index[n->out + k]].base] = i;
    }
    put(&t, "}\n");
    yk__free(maker);
    return finish(&t);
}
