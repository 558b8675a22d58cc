/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a graph as text, one line per node, and as DOT for Graphviz. core/plan/dump.c (YOKE_DUMP) and yoke-cts print graphs with it. Only
 * reads the graph, in any thread; the caller frees the text.
 */
#include "core/graph/graph_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/number.h"

typedef struct text {
    char *data;
    size_t length, cap;
    bool out_of_memory; /* an allocation failed */
} text;

static void text_put(text *out, const char *fmt, ...) YK_PRINTF(2, 3);

static void text_put(text *out, const char *fmt, ...)
{
    va_list ap;
    int n;
    if (out->out_of_memory)
        return;
    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || yk__grow(&out->data, &out->cap, out->length + (size_t)n + 1, 1)) {
        out->out_of_memory = true;
        return;
    }
    va_start(ap, fmt);
    vsnprintf(out->data + out->length, (size_t)n + 1, fmt, ap);
    va_end(ap);
    out->length += (size_t)n;
}

static char *text_finish(text *out)
{
    if (out->out_of_memory) {
        yk__free(out->data);
        return NULL;
    }
    return out->data;
}

static const char *slot_kind(uint32_t kind)
{
    static const char *const names[] = {"arena", "input", "param", "state", "grad", "result"};
    return kind < YK_SLOT_KIND_COUNT ? names[kind] : "?";
}

static void put_place(text *out, const yk_value *v)
{
    if (v->slot != YK_NONE)
        text_put(out, " slot %u +%llu", v->slot, (unsigned long long)v->offset);
}

static void put_view(text *out, const yk_graph *g, uint32_t id)
{
    const yk_value *v = &g->value[id];
    char shape[160];
    text_put(out, "%%%u = view %%%u %s strides", id, v->base, yk__value_shape_text(v, shape, sizeof shape));
    for (uint32_t i = 0; i < v->dims; i++)
        text_put(out, "%s%lld", i ? "," : " ", (long long)v->stride[i]);
    text_put(out, " +%llu\n", (unsigned long long)(v->offset - g->value[v->base].offset));
}

static void put_attrs(text *out, const yk_graph *g, const yk_node *n)
{
    for (uint32_t i = 0; i < n->n_attr; i++) {
        int64_t a = g->attr[n->attr + i];
        text_put(out, "%s", i ? " " : " {");
        if (yk__op_traits_of(n->op)->floats >> i & 1)
            text_put(out, "%s", yk__number_text(yk_attr_f64(a), 17).text);
        else
            text_put(out, "%lld", (long long)a);
    }
    if (n->n_attr)
        text_put(out, "}");
}

/* The 8-bit format of operand i of a product. */
static const char *eight_text(const yk_node *n, uint32_t i)
{
    const uint32_t flags = i > 1 ? 0 : i ? n->flags / (YK_NODE_B_E4M3 / YK_NODE_A_E4M3) : n->flags;
    return flags & YK_NODE_A_E4M3 ? ":e4m3" : flags & YK_NODE_A_E5M2 ? ":e5m2" : "";
}

static void put_node(text *out, const yk_graph *g, const yk_node *n, const char *indent)
{
    const yk__op_info *info = yk__op_info_of(n->op);
    char shape[160];
    text_put(out, "%s", indent);
    for (uint32_t i = 0; i < n->n_out; i++) {
        uint32_t id = g->index[n->out + i];
        const yk_value *v = &g->value[id];
        text_put(out, "%s%%%u %s", i ? ", " : "", id, yk__value_shape_text(v, shape, sizeof shape));
        if (v->base != id)
            text_put(out, " in %%%u", v->base);
        put_place(out, v);
    }
    text_put(out, " = %s%s(", info ? info->name : "?", n->flags & YK_NODE_ACCUMULATE ? "+" : "");
    for (uint32_t i = 0; i < n->n_in; i++)
        text_put(out, "%s%%%u%s", i ? ", " : "", g->index[n->in + i], eight_text(n, i));
    text_put(out, ")");
    put_attrs(out, g, n);
    if (n->stream)
        text_put(out, " #%u", n->stream);
    text_put(out, "\n");
}

/* Names values at their definition: leaves and views up front, results at their node. */
char *yk__graph_text(const yk_graph *g)
{
    text out = {0};
    char shape[160];
    text_put(&out, "graph %016llx: %u values, %u nodes, %u slots\n", (unsigned long long)g->hash, g->n_value, g->n_node,
             g->n_slot);
    for (uint32_t i = 0; i < g->n_slot; i++)
        text_put(&out, "slot %u %s key %u, %llu bytes\n", i, slot_kind(g->slot[i].kind), g->slot[i].key,
                 (unsigned long long)g->slot[i].bytes);
    for (uint32_t i = 0; i < g->n_value; i++) {
        const yk_value *v = &g->value[i];
        if (v->base != i) {
            put_view(&out, g, i);
        } else if (v->flags & YK_VALUE_INPUT) {
            text_put(&out, "%%%u = leaf %s", i, yk__value_shape_text(v, shape, sizeof shape));
            put_place(&out, v);
            text_put(&out, "\n");
        }
    }
    for (uint32_t i = 0; i < g->n_node; i++) {
        put_node(&out, g, &g->node[i], "");
        for (uint32_t k = 0; k < g->node[i].n_body; k++)
            put_node(&out, g, &g->node[g->node[i].body + k], "    ");
    }
    return text_finish(&out);
}

char *yk__graph_dot(const yk_graph *g)
{
    text out = {0};
    char shape[160];
    uint32_t *maker = yk__malloc(((size_t)g->n_value + 1) * sizeof *maker); /* last node that wrote a root */
    if (!maker)
        return NULL;
    memset(maker, 0xff, ((size_t)g->n_value + 1) * sizeof *maker);
    text_put(&out, "digraph yoke {\n    node [shape=box, fontname=monospace];\n");
    for (uint32_t i = 0; i < g->n_node; i++) {
        const yk_node *n = &g->node[i];
        const yk__op_info *info = yk__op_info_of(n->op);
        text_put(&out, "    n%u [label=\"%s", i, info ? info->name : "?");
        for (uint32_t k = 0; k < n->n_out; k++)
            text_put(&out, "\\n%%%u %s", g->index[n->out + k],
                     yk__value_shape_text(&g->value[g->index[n->out + k]], shape, sizeof shape));
        text_put(&out, "\"];\n");
        for (uint32_t k = 0; k < n->n_in; k++) {
            uint32_t id = g->index[n->in + k], root = g->value[id].base;
            if (maker[root] == YK_NONE)
                text_put(&out, "    v%u [label=\"%%%u %s\", style=rounded];\n    v%u -> n%u;\n", root, root,
                         yk__value_shape_text(&g->value[root], shape, sizeof shape), root, i);
            else
                text_put(&out, "    n%u -> n%u [label=\"%%%u\"];\n", maker[root], i, id);
        }
        for (uint32_t k = 0; k < n->n_out; k++)
            maker[g->value[g->index[n->out + k]].base] = i;
    }
    text_put(&out, "}\n");
    yk__free(maker);
    return text_finish(&out);
}
