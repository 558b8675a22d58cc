/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statements of a chain, as text in the kernels' dialect, and the names and types of its values. A chain is a list of elementwise nodes in
 * which each reads earlier ones.
 *
 * emit_kernel.c and emit_wide.c put kernels around these statements, and lower/ asks if a chain fits one. All of it runs while a plugin
 * makes a program, in any thread, one thread per text. A chain's space is its index space, the axes of its operands after mergeable ones
 * are joined.
 */
#include "plugins/kit/emit.h"

#include <stdio.h>

const char *kit_type(uint32_t dtype)
{
    switch (dtype) {
    case YK_F32:
        return "f32";
    case YK_F16:
        return "f16";
    case YK_BF16:
        return "bf16";
    case YK_I32:
        return "i32";
    case YK_U8:
        return "u8";
    case YK_BOOL:
        return "bool";
    default:
        return NULL;
    }
}

bool kit_is_float(uint32_t dtype)
{
    return dtype == YK_F32 || dtype == YK_F16 || dtype == YK_BF16;
}

/* An op's text over floats and over integers; $a $b $c are its operands. */
typedef struct op_text {
    const char *on_float, *on_int;
} op_text;

static const op_text OPS[YK_OP_COUNT] = {
    [YK_OP_NEG] = {"-$a", "-$a"},
    [YK_OP_ABS] = {"V_ABS($a)", "VI_MAX($a, -$a)"},
    [YK_OP_EXP] = {"k_exp($a)", NULL},
    [YK_OP_LOG] = {"k_log($a)", NULL},
    [YK_OP_SQRT] = {"V_SQRT($a)", NULL},
    [YK_OP_RSQRT] = {"V_SPLAT(1.0f) / V_SQRT($a)", NULL},
    [YK_OP_RECIP] = {"V_SPLAT(1.0f) / $a", NULL},
    [YK_OP_TANH] = {"k_tanh($a)", NULL},
    [YK_OP_ERF] = {"k_erf($a)", NULL},
    [YK_OP_ADD] = {"$a + $b", "$a + $b"},
    [YK_OP_SUB] = {"$a - $b", "$a - $b"},
    [YK_OP_MUL] = {"$a * $b", "$a * $b"},
    [YK_OP_DIV] = {"$a / $b", "k_divi($a, $b)"},
    [YK_OP_MAX] = {"V_MAX($a, $b)", "VI_MAX($a, $b)"},
    [YK_OP_MIN] = {"V_MIN($a, $b)", "VI_MIN($a, $b)"},
    [YK_OP_LT] = {"V_LT($a, $b)", "V_LT($a, $b)"},
    [YK_OP_EQ] = {"V_EQ($a, $b)", "V_EQ($a, $b)"},
    [YK_OP_SELECT] = {"V_SEL($a, $b, $c)", "VI_SEL($a, $b, $c)"},
    [YK_OP_RELU] = {"V_MAX($a, V_SPLAT(0.0f))", NULL},
    [YK_OP_RELU_BWD] = {"V_SEL(V_LT(V_SPLAT(0.0f), $a), $b, V_SPLAT(0.0f))", NULL},
    [YK_OP_GELU] = {"k_gelu($a)", NULL},
    [YK_OP_GELU_BWD] = {"k_gelu_bwd($a, $b)", NULL},
    [YK_OP_GELU_TANH] = {"k_gelu_tanh($a)", NULL},
    [YK_OP_GELU_TANH_BWD] = {"k_gelu_tanh_bwd($a, $b)", NULL},
    [YK_OP_SILU] = {"$a * k_sigmoid($a)", NULL},
    [YK_OP_SILU_BWD] = {"k_silu_bwd($a, $b)", NULL},
    [YK_OP_SIGMOID] = {"k_sigmoid($a)", NULL},
    [YK_OP_SIGMOID_BWD] = {"$b * $a * (V_SPLAT(1.0f) - $a)", NULL},
    [YK_OP_TANH_BWD] = {"$b * (V_SPLAT(1.0f) - $a * $a)", NULL},
};

bool kit_emits(uint32_t op)
{
    return op == YK_OP_CAST || op == YK_OP_FILL || (op < YK_OP_COUNT && OPS[op].on_float);
}

/* ---- Names ---- */

bool kit_local_name(const kit_chain *chain, uint32_t value, char name[16])
{
    for (uint32_t i = 0; i < chain->n_leaf; i++)
        if (chain->leaf[i] == value)
            return snprintf(name, 16, "x%u", i) > 0;
    for (uint32_t i = 0; i < chain->n_node; i++)
        if (chain->graph->index[chain->node[i].out] == value)
            return snprintf(name, 16, "v%u", i) > 0;
    return false;
}

static void put_expr(kit_text *text, const char *pattern, char (*arg)[24])
{
    for (const char *p = pattern; *p; p++)
        if (*p == '$') {
            p++;
            kit_text_add(text, "%s", arg[*p - 'a']);
        } else {
            kit_text_put(text, p, 1);
        }
}

/* ---- Statements ---- */

static void emit_to_float(kit_text *text, uint32_t to, const char *value)
{
    if (to == YK_F16)
        kit_text_add(text, "k_f16_value(k_f16_bits(%s))", value);
    else if (to == YK_BF16)
        kit_text_add(text, "k_bf16_value(k_bf16_bits(%s))", value);
    else
        kit_text_add(text, "%s", value);
}

static void emit_cast(kit_text *text, uint32_t from, uint32_t to, const char *a)
{
    char v[64];
    if (kit_is_float(from) && kit_is_float(to)) {
        emit_to_float(text, to, a);
    } else if (kit_is_float(to)) {
        snprintf(v, sizeof v, from == YK_BOOL ? "VI_TO_F(%s & 1)" : "VI_TO_F(%s)", a);
        emit_to_float(text, to, v);
    } else if (kit_is_float(from)) {
        kit_text_add(text,
                     to == YK_BOOL  ? "V_NE(%s, V_SPLAT(0.0f))"
                     : to == YK_U8 ? "k_f2i(%s) & 255"
                                    : "k_f2i(%s)",
                     a);
    } else if (to == YK_BOOL) {
        kit_text_add(text, "V_NE(%s, VI_SPLAT(0))", a);
    } else {
        kit_text_add(text, from == YK_BOOL ? "%s & 1" : to == YK_U8 ? "%s & 255" : "%s", a);
    }
}

static void emit_fill(kit_text *text, uint32_t dtype, double value)
{
    if (kit_is_float(dtype)) {
        float f = (float)value;
        uint32_t u;
        char v[48];
        memcpy(&u, &f, sizeof u);
        snprintf(v, sizeof v, "V_SPLAT(AS_F(0x%08xu))", u);
        emit_to_float(text, dtype, v);
    } else if (dtype == YK_BOOL) {
        kit_text_add(text, "VI_SPLAT(%d)", value != 0 ? -1 : 0);
    } else {
        kit_text_add(text, "VI_SPLAT(%lld)", (long long)value);
    }
}

static void emit_node(kit_text *text, const kit_chain *chain, const yk_node *n)
{
    const yk_graph *graph = chain->graph;
    uint32_t out = graph->index[n->out], to = graph->value[out].dtype, from = n->n_in ? graph->value[graph->index[n->in]].dtype : to;
    char arg[3][24] = {{0}}, name[16];
    for (uint32_t i = 0; i < n->n_in && i < 3; i++) {
        uint32_t v = graph->index[n->in + i];
        if (!kit_local_name(chain, v, arg[i]))
            text->bad = true;
        if ((n->op == YK_OP_LT || n->op == YK_OP_EQ) && from == YK_BOOL)
            snprintf(arg[i] + strlen(arg[i]), 24 - strlen(arg[i]), " & 1");
    }
    if (!kit_local_name(chain, out, name))
        text->bad = true;
    kit_text_add(text, "%s %s = ", kit_is_float(to) ? "V" : "VI", name);
    if (n->op == YK_OP_CAST)
        emit_cast(text, from, to, arg[0]);
    else if (n->op == YK_OP_FILL)
        emit_fill(text, to, yk_attr_f64(graph->attr[n->attr]));
    else {
        uint32_t kind = n->op == YK_OP_SELECT ? to : from;
        const char *pattern = kit_is_float(kind) ? OPS[n->op].on_float : OPS[n->op].on_int;
        if (pattern)
            put_expr(text, pattern, arg);
        else
            text->bad = true;
    }
    kit_text_add(text, ";\n");
}

void kit_emit_nodes(kit_text *text, const kit_chain *chain)
{
    for (uint32_t i = 0; i < chain->n_node; i++)
        emit_node(text, chain, &chain->node[i]);
}

/* ---- Chains ---- */

bool kit_chain_fits(const kit_chain *chain)
{
    const yk_graph *graph = chain->graph;
    for (uint32_t i = 0; i < chain->n_node; i++) {
        const yk_node *n = &chain->node[i];
        if (!kit_emits(n->op) || n->n_out != 1 || !kit_type(graph->value[graph->index[n->out]].dtype))
            return false;
        uint32_t kind = n->op == YK_OP_SELECT ? graph->value[graph->index[n->out]].dtype
                        : n->n_in             ? graph->value[graph->index[n->in]].dtype
                                              : YK_F32;
        if (!kit_type(kind) || (n->op != YK_OP_CAST && n->op != YK_OP_FILL && !kit_is_float(kind) && !OPS[n->op].on_int))
            return false;
    }
    for (uint32_t i = 0; i < chain->n_leaf; i++)
        if (!kit_type(graph->value[chain->leaf[i]].dtype))
            return false;
    return true;
}

static void chain_leaf(kit_chain *chain, uint32_t v)
{
    for (uint32_t i = 0; i < chain->n_leaf; i++)
        if (chain->leaf[i] == v)
            return;
    chain->leaf[chain->n_leaf++] = v;
}

static bool chain_sums(kit_chain *chain, const yk_node *n)
{
    chain->reduce = YK_OP_SUM;
    const yk_node *body = &chain->graph->node[n->body];
    if (n->n_out > n->n_body)
        return false;
    chain->n_node = n->n_body - n->n_out;
    for (uint32_t i = 0; i < n->n_out; i++) {
        const yk_node *sum = NULL;
        for (uint32_t k = chain->n_node; k < n->n_body; k++)
            if (chain->graph->index[body[k].out] == chain->out[i])
                sum = &body[k];
        if (!sum || sum->op != YK_OP_SUM)
            return false;
        chain->value[i] = chain->graph->index[sum->in];
        chain->axes = (uint32_t)chain->graph->attr[sum->attr];
    }
    return true;
}

bool kit_chain_of(const yk_graph *graph, uint32_t node, kit_chain *chain)
{
    const yk_node *n = &graph->node[node];
    *chain = (kit_chain){.graph = graph, .node = n, .n_node = 1, .n_out = n->n_out};
    if (n->n_in > KIT_LEAVES || n->n_out > KIT_OUTS || n->n_out == 0)
        return false;
    for (uint32_t i = 0; i < n->n_in; i++)
        chain_leaf(chain, graph->index[n->in + i]);
    for (uint32_t i = 0; i < n->n_out; i++)
        chain->out[i] = chain->value[i] = graph->index[n->out + i];
    if (n->op == YK_OP_SUM || n->op == YK_OP_RMAX) {
        chain->reduce = n->op;
        chain->n_node = 0;
        chain->value[0] = chain->leaf[0];
        chain->axes = (uint32_t)graph->attr[n->attr];
    } else if (n->op == YK_OP_MAP || n->op == YK_OP_MAP_SUM) {
        chain->node = &graph->node[n->body];
        chain->n_node = n->n_body;
        if (n->op == YK_OP_MAP_SUM && !chain_sums(chain, n))
            return false;
    }
    return chain->n_node <= KIT_LOCALS && kit_chain_fits(chain);
}

/* ---- Index space ---- */

static uint32_t chain_operand(const kit_chain *chain, uint32_t i)
{
    return i < chain->n_leaf ? chain->leaf[i] : chain->out[i - chain->n_leaf];
}

/* Appends a dimension, merged into the last one where all strides allow it. */
static void space_push(kit_space *s, uint32_t n, int64_t len, bool reduced, const int64_t *stride)
{
    bool merge = s->dims && s->reduced[s->dims - 1] == reduced;
    for (uint32_t k = 0; k < n && merge; k++)
        merge = s->stride[k][s->dims - 1] == stride[k] * len;
    if (!merge) {
        s->dims++;
        s->dim[s->dims - 1] = 1;
    }
    uint32_t d = s->dims - 1;
    s->dim[d] *= len;
    s->reduced[d] = reduced;
    for (uint32_t k = 0; k < n; k++)
        s->stride[k][d] = stride[k];
}

/* The common shape of all leaves: a leaf's, or the output's in a map without leaves. */
static const yk_value *chain_shape(const kit_chain *chain)
{
    return &chain->graph->value[chain->reduce && chain->n_leaf ? chain->leaf[0] : chain->out[0]];
}

bool kit_space_of(const kit_chain *chain, kit_space *s)
{
    const yk_value *shape = chain_shape(chain);
    uint32_t n = chain->n_leaf + chain->n_out;
    memset(s, 0, sizeof *s);
    for (uint32_t d = 0; d < shape->dims; d++) {
        bool reduced = chain->reduce && (chain->axes >> d & 1);
        int64_t stride[KIT_OPERANDS];
        if (shape->dim[d] == 1)
            continue;
        for (uint32_t k = 0; k < n; k++) {
            const yk_value *v = &chain->graph->value[chain_operand(chain, k)];
            if (v->dims != shape->dims)
                return false;
            stride[k] = v->dim[d] == 1 ? 0 : v->stride[d];
        }
        space_push(s, n, shape->dim[d], reduced, stride);
    }
    if (!s->dims) {
        int64_t zero[KIT_OPERANDS] = {0};
        space_push(s, n, 1, false, zero);
        for (uint32_t k = chain->n_leaf; k < n; k++)
            s->stride[k][0] = 1;
    }
    for (uint32_t k = 0; k < n; k++)
        if (s->stride[k][s->dims - 1] != 0 && s->stride[k][s->dims - 1] != 1)
            return false;
    return true;
}
