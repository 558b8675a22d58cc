/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies: the definition of each composite in primitives, for devices that do not run it. This file has the elementwise ones and
 * yk__body_append. claim.c (core/plan) and simple.c (core/device) replace composites that a device does not claim; grad.c (core/grad)
 * differentiates a node through its body. A body appends nodes to the caller's graph, in the caller's thread.
 */
#include "core/graph/body.h"

#include <math.h>
#include <string.h>

#include "core/base/mem.h"

yk__vid yk__body_widen(yk__inline *b, uint32_t i)
{
    return yk__cast(b->g, b->in[i], b->x[i]->dtype == YK_F64 ? YK_F64 : YK_F32);
}

yk_dtype yk__body_dtype(const yk__inline *b)
{
    for (uint32_t i = 0; i < b->n_in; i++)
        if (b->x[i]->dtype == YK_F64)
            return YK_F64;
    return YK_F32;
}

yk__vid yk__body_number(yk__inline *b, double value)
{
    return yk__const(b->g, value, yk__body_dtype(b));
}

void yk__body_output(yk__inline *b, uint32_t i, yk__vid v)
{
    b->out[i] = yk__cast(b->g, v, (yk_dtype)b->y[i]->dtype);
}

/* ---- Activations ---- */

void yk__body_relu(yk__inline *b)
{
    yk__body_output(b, 0, yk__bin(b->g, YK_OP_MAX, yk__body_widen(b, 0), yk__body_number(b, 0)));
}

void yk__body_relu_bwd(yk__inline *b)
{
    const yk__vid zero = yk__body_number(b, 0), pass = yk__bin(b->g, YK_OP_LT, zero, yk__body_widen(b, 0));
    yk__body_output(b, 0, yk__select(b->g, pass, yk__body_widen(b, 1), zero));
}

/* 1 + erf(x / sqrt 2) */
static yk__vid one_plus_erf(yk__inline *b, yk__vid x)
{
    return yk__bin(b->g, YK_OP_ADD, yk__un(b->g, YK_OP_ERF, yk__scale(b->g, x, M_SQRT1_2)), yk__body_number(b, 1));
}

/* tanh(k (x + 0.044715 x^3)), k = sqrt(2 / pi) */
static yk__vid tanh_of(yk__inline *b, yk__vid x)
{
    yk__vid cube = yk__bin(b->g, YK_OP_MUL, yk__bin(b->g, YK_OP_MUL, x, x), x);
    yk__vid u = yk__bin(b->g, YK_OP_ADD, x, yk__scale(b->g, cube, 0.044715));
    return yk__un(b->g, YK_OP_TANH, yk__scale(b->g, u, sqrt(2 / M_PI)));
}

void yk__body_gelu(yk__inline *b)
{
    const yk__vid x = yk__body_widen(b, 0);
    yk__body_output(b, 0, yk__bin(b->g, YK_OP_MUL, yk__scale(b->g, x, 0.5), one_plus_erf(b, x)));
}

/* d/dx x Phi(x) = Phi(x) + x phi(x), phi the normal density (Hendrycks, Gimpel 2016) */
void yk__body_gelu_bwd(yk__inline *b)
{
    yk__graph *g = b->g;
    const yk__vid x = yk__body_widen(b, 0), phi = yk__scale(g, one_plus_erf(b, x), 0.5);
    yk__vid density = yk__un(g, YK_OP_EXP, yk__scale(g, yk__bin(g, YK_OP_MUL, x, x), -0.5));
    density = yk__scale(g, yk__bin(g, YK_OP_MUL, x, density), 1 / sqrt(2 * M_PI));
    yk__body_output(b, 0, yk__bin(g, YK_OP_MUL, yk__body_widen(b, 1), yk__bin(g, YK_OP_ADD, phi, density)));
}

void yk__body_gelu_tanh(yk__inline *b)
{
    const yk__vid x = yk__body_widen(b, 0), t = yk__bin(b->g, YK_OP_ADD, tanh_of(b, x), yk__body_number(b, 1));
    yk__body_output(b, 0, yk__bin(b->g, YK_OP_MUL, yk__scale(b->g, x, 0.5), t));
}

/* (1 + t)/2 + x/2 (1 - t^2) k (1 + 3 * 0.044715 x^2) */
void yk__body_gelu_tanh_bwd(yk__inline *b)
{
    yk__graph *g = b->g;
    const yk__vid x = yk__body_widen(b, 0), t = tanh_of(b, x), one = yk__body_number(b, 1);
    /* slope is 0 long before x^2 overflows, and 0 times infinity is no number */
    const yk__vid square = yk__bin(g, YK_OP_MIN, yk__bin(g, YK_OP_MUL, x, x), yk__body_number(b, 1e36));
    yk__vid inner = yk__bin(g, YK_OP_ADD, yk__scale(g, square, 3 * 0.044715), one);
    yk__vid slope = yk__bin(g, YK_OP_SUB, one, yk__bin(g, YK_OP_MUL, t, t)), d;
    d = yk__bin(g, YK_OP_MUL, yk__bin(g, YK_OP_MUL, x, slope), yk__scale(g, inner, sqrt(2 / M_PI)));
    d = yk__scale(g, yk__bin(g, YK_OP_ADD, yk__bin(g, YK_OP_ADD, one, t), d), 0.5);
    yk__body_output(b, 0, yk__bin(g, YK_OP_MUL, yk__body_widen(b, 1), d));
}

/* tanh(x) cosh(x), which is as near around 0 as tanh is: e^x - e^-x cancels there. cosh(x) = h + 1/(4 h) with h = e^|x| / 2, which two
 * factors e^(|x|/2) give: e^|x| overflows before sinh does. */
void yk__body_sinh(yk__inline *b)
{
    yk__graph *g = b->g;
    const yk__vid x = yk__body_widen(b, 0), root = yk__un(g, YK_OP_EXP, yk__scale(g, yk__un(g, YK_OP_ABS, x), 0.5));
    const yk__vid h = yk__bin(g, YK_OP_MUL, yk__scale(g, root, 0.5), root);
    const yk__vid cosh = yk__bin(g, YK_OP_ADD, h, yk__bin(g, YK_OP_DIV, yk__body_number(b, 0.25), h));
    yk__body_output(b, 0, yk__bin(g, YK_OP_MUL, yk__un(g, YK_OP_TANH, x), cosh));
}

static yk__vid sigmoid_of(yk__inline *b, yk__vid x)
{
    const yk__vid e = yk__un(b->g, YK_OP_EXP, yk__un(b->g, YK_OP_NEG, x));
    return yk__un(b->g, YK_OP_RECIP, yk__bin(b->g, YK_OP_ADD, e, yk__body_number(b, 1)));
}

void yk__body_silu(yk__inline *b)
{
    const yk__vid x = yk__body_widen(b, 0);
    yk__body_output(b, 0, yk__bin(b->g, YK_OP_MUL, x, sigmoid_of(b, x)));
}

/* s (1 + x (1 - s)) */
void yk__body_silu_bwd(yk__inline *b)
{
    yk__graph *g = b->g;
    const yk__vid x = yk__body_widen(b, 0), s = sigmoid_of(b, x), one = yk__body_number(b, 1);
    yk__vid d = yk__bin(g, YK_OP_MUL, x, yk__bin(g, YK_OP_SUB, one, s));
    d = yk__bin(g, YK_OP_MUL, s, yk__bin(g, YK_OP_ADD, one, d));
    yk__body_output(b, 0, yk__bin(g, YK_OP_MUL, yk__body_widen(b, 1), d));
}

void yk__body_sigmoid(yk__inline *b)
{
    yk__body_output(b, 0, sigmoid_of(b, yk__body_widen(b, 0)));
}

/* y (1 - y) */
void yk__body_sigmoid_bwd(yk__inline *b)
{
    yk__graph *g = b->g;
    const yk__vid y = yk__body_widen(b, 0), d = yk__bin(g, YK_OP_SUB, yk__body_number(b, 1), y);
    yk__body_output(b, 0, yk__bin(g, YK_OP_MUL, yk__body_widen(b, 1), yk__bin(g, YK_OP_MUL, y, d)));
}

/* 1 - y^2 */
void yk__body_tanh_bwd(yk__inline *b)
{
    yk__graph *g = b->g;
    const yk__vid y = yk__body_widen(b, 0),
                  d = yk__bin(g, YK_OP_SUB, yk__body_number(b, 1), yk__bin(g, YK_OP_MUL, y, y));
    yk__body_output(b, 0, yk__bin(g, YK_OP_MUL, yk__body_widen(b, 1), d));
}

void yk__body_dropout(yk__inline *b)
{
    yk__graph *g = b->g;
    const double p = yk_attr_f64(b->attr[0]);
    const yk__vid x = yk__body_widen(b, 0);
    const yk__vid u = yk__cast(g, yk__rng(g, b->in[1], b->in[2], (uint32_t)b->attr[1], b->x[0]->dims, b->x[0]->dim),
                               yk__body_dtype(b));
    const yk__vid drop = yk__bin(g, YK_OP_LT, u, yk__body_number(b, p));
    const yk__vid kept = yk__bin(g, YK_OP_DIV, x, yk__body_number(b, 1 - p));
    yk__body_output(b, 0, yk__select(g, drop, yk__body_number(b, 0), kept));
}

/* ---- Replacing a node ---- */

/* Appends the own nodes of map, dot_map, map_sum over g's values. src differs from g here. */
static yk_status append_body(yk__graph *g, const yk_graph *src, const yk_node *n, const yk__vid *in, yk__vid *out,
                             yk_error *err)
{
    yk__vid *map = yk__malloc((src->n_value + 1) * sizeof *map), made[YK_MAX_OUTPUTS], args[YK_MAX_OPERANDS];
    if (!map)
        return yk__fail_mem(err, src->n_value * sizeof *map, "a body");
    for (uint32_t i = 0; i < src->n_value; i++)
        map[i] = YK_NONE;
    for (uint32_t i = 0; i < n->n_in; i++)
        map[src->index[n->in + i]] = in[i];
    for (uint32_t k = 0; k < n->n_body && !g->error.status; k++) {
        const yk_node *p = &src->node[n->body + k];
        const yk_value *v = &src->value[src->index[p->out]];
        for (uint32_t i = 0; i < p->n_in; i++)
            args[i] = map[src->index[p->in + i]];
        if (yk__apply(g, (yk_op)p->op, p->n_in, args, p->n_attr, src->attr + p->attr, (yk_dtype)v->dtype, v->dims,
                      v->dim, made, YK_MAX_OUTPUTS))
            for (uint32_t i = 0; i < p->n_out; i++)
                map[src->index[p->out + i]] = made[i];
    }
    for (uint32_t i = 0; i < n->n_out; i++)
        out[i] = map[src->index[n->out + i]];
    yk__free(map);
    if (g->error.status)
        *err = g->error;
    return g->error.status;
}

/* The source may be g itself, whose arrays move when nodes are appended. So the body is read from a copy. */
static yk_status append_copied_body(yk__graph *g, const yk_graph *src, const yk_node *n, const yk__vid *in,
                                    yk__vid *out, yk_error *err)
{
    const size_t nodes = src->n_all_node * sizeof *src->node, values = src->n_value * sizeof *src->value;
    const size_t attrs = src->n_attr * sizeof *src->attr, index = src->n_index * sizeof *src->index;
    char *copy = yk__malloc(nodes + values + attrs + index);
    yk_graph own = *src;
    yk_node top = *n;
    yk_status st;
    if (!copy)
        return yk__fail_mem(err, nodes + values + attrs + index, "a body");
    own.value = memcpy(copy, src->value, values);
    own.node = memcpy(copy + values, src->node, nodes);
    own.attr = (const int64_t *)(copy + values + nodes);
    if (attrs)
        memcpy(copy + values + nodes, src->attr, attrs);
    own.index = memcpy(copy + values + nodes + attrs, src->index, index);
    st = append_body(g, &own, &top, in, out, err);
    yk__free(copy);
    return st;
}

#define yk__body_none NULL
static yk__body_fn *const bodies[YK_OP_COUNT] = {
#define X(e, infer, body, eval, rule, layout, floats, map, cheap, linear, ranks, back) [YK_OP_##e] = yk__body_##body,
    YK_IMPL_TABLE(X)
#undef X
};

yk_status yk__body_append(yk__graph *g, const yk_graph *src, uint32_t node, const yk__vid *in, yk__vid *out,
                          yk_error *err)
{
    const yk_node *n = &src->node[node];
    const yk__op_info *info = yk__op_info_of(n->op);
    yk_value x[YK_MAX_OPERANDS], y[YK_MAX_OUTPUTS]; /* copies: g may be src's own graph, whose arrays move */
    int64_t attr[16];
    yk__inline b = {
        .g = g, .op = n->op, .n_in = n->n_in, .n_out = n->n_out, .n_attr = n->n_attr, .in = in, .attr = attr};
    if (n->n_body)
        return append_copied_body(g, src, n, in, out, err);
    if (!info || !bodies[n->op] || n->n_in > YK_MAX_OPERANDS || n->n_out > YK_MAX_OUTPUTS || n->n_attr > 16)
        return yk__fail(err, YK_E_UNSUPPORTED, "op %s has no body", info ? info->name : "?");
    if (n->n_attr)
        memcpy(attr, src->attr + n->attr, n->n_attr * sizeof *attr);
    for (uint32_t i = 0; i < n->n_in; i++) {
        x[i] = src->value[src->index[n->in + i]];
        b.x[i] = &x[i];
    }
    for (uint32_t i = 0; i < n->n_out; i++) {
        y[i] = src->value[src->index[n->out + i]];
        b.y[i] = &y[i];
        b.out[i] = YK_NONE;
    }
    bodies[n->op](&b);
    if (g->error.status) {
        *err = g->error;
        return err->status;
    }
    memcpy(out, b.out, b.n_out * sizeof *out); /* n may be gone: g may be the source */
    return YK_OK;
}
