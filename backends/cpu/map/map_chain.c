/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds batch norm's chains in a compiled map; kern_chain.inc has them as kernels without intermediate blocks. A chain is
 * matched as a tree from its result; every instruction must belong to it. So it is with gelu at the end of a product
 * (kern_gelu.inc).
 */
#include "backends/cpu/map/map_inner.h"

typedef struct match {
    const cpu_map *m;
    cpu_map_chain *c;
    uint32_t used;  /* instructions that belong to it */
    bool fails;
    int dtype;      /* of all dense operands; -1: none yet */
    cpu_in_kind numbers;
} match;

static const cpu_map_in *match_leaf(const match *s, uint32_t reg)
{
    for (uint32_t i = 0; i < s->m->n_in; i++)
        if (s->m->in[i].reg == reg)
            return &s->m->in[i];
    return NULL;
}

/* The instruction that makes reg, if it is `op`. */
static const cpu_map_ins *made_by(match *s, uint32_t reg, int op)
{
    for (uint32_t i = 0; i < s->m->n_ins; i++)
        if (s->m->ins[i].d == reg && s->m->ins[i].op == op) {
            s->used++;
            return &s->m->ins[i];
        }
    return NULL;
}

static bool is_number(const match *s, uint32_t reg)
{
    const cpu_map_in *in = match_leaf(s, reg);
    return in && (in->kind == CPU_IN_PLANE || in->kind == CPU_IN_PERIOD);
}

static void match_number(match *s, int k, uint32_t reg)
{
    const cpu_map_in *in = match_leaf(s, reg);
    if (!is_number(s, reg) || (s->numbers != CPU_IN_SPECIAL && s->numbers != in->kind)) {
        s->fails = true;
        return;
    }
    s->numbers = in->kind;
    s->c->number[k] = (uint8_t)(in - s->m->in);
    s->c->n_number = (uint8_t)(k + 1 > s->c->n_number ? k + 1 : s->c->n_number);
}

static void match_dense(match *s, uint8_t *to, uint32_t reg)
{
    const cpu_map_in *in = match_leaf(s, reg);
    bool known = in && in->kind == CPU_IN_DENSE && (in->dtype == YK_F32 || in->dtype == YK_BF16);
    if (!known || (s->dtype >= 0 && s->dtype != in->dtype)) {
        s->fails = true;
        return;
    }
    s->dtype = in->dtype;
    *to = (uint8_t)(in - s->m->in);
}

/* x - m */
static void match_shifted(match *s, uint32_t reg)
{
    const cpu_map_ins *sub = made_by(s, reg, CPU_M_SUB);
    if (!sub) {
        s->fails = true;
        return;
    }
    match_dense(s, &s->c->x, sub->a);
    match_number(s, 0, sub->b);
}

/* a*b + c with one factor a number: which operand is the other one */
static uint32_t other_factor(const match *s, const cpu_map_ins *fma, uint32_t *factor)
{
    bool first = is_number(s, fma->a);
    *factor = first ? fma->a : fma->b;
    return first ? fma->b : fma->a;
}

/* g, or relu's backward of it */
static void match_gradient(match *s, uint32_t reg)
{
    const cpu_map_ins *relu = made_by(s, reg, CPU_M_RELU_BWD);
    if (relu) {
        match_dense(s, &s->c->h, relu->a);
        s->c->form |= CPU_CHAIN_RELU;
    }
    match_dense(s, &s->c->r, relu ? relu->b : reg);
}

static void match_forward(match *s, uint32_t reg)
{
    const cpu_map_ins *relu = made_by(s, reg, CPU_M_RELU), *add, *fma;
    uint32_t factor;
    reg = relu ? relu->a : reg;
    add = made_by(s, reg, CPU_M_ADD);
    if (add) {
        bool first = match_leaf(s, add->a) != NULL;
        match_dense(s, &s->c->r, first ? add->a : add->b);
        reg = first ? add->b : add->a;
    }
    s->c->form = (uint8_t)((relu ? CPU_CHAIN_RELU : 0) | (add ? CPU_CHAIN_ADD : 0));
    fma = made_by(s, reg, CPU_M_FMA);
    if (!fma) {
        s->fails = true;
        return;
    }
    match_shifted(s, other_factor(s, fma, &factor));
    match_number(s, 1, factor);
    match_number(s, 2, fma->c);
}

static void match_backward(match *s, uint32_t reg)
{
    const cpu_map_ins *outer = made_by(s, reg, CPU_M_FMA), *inner = outer ? made_by(s, outer->c, CPU_M_FMA) : NULL;
    uint32_t factor;
    if (!inner) {
        s->fails = true;
        return;
    }
    match_gradient(s, other_factor(s, outer, &factor));
    match_number(s, 1, factor);
    match_shifted(s, other_factor(s, inner, &factor));
    match_number(s, 2, factor);
    match_number(s, 3, inner->c);
}

/* g and g (x - m), in either order */
static void match_sums(match *s, uint32_t a, uint32_t b)
{
    const cpu_map_ins *mul = made_by(s, b, CPU_M_MUL);
    s->c->swapped = !mul;
    if (!mul) {
        uint32_t t = a;
        a = b, b = t;
        mul = made_by(s, b, CPU_M_MUL);
    }
    if (!mul || (mul->a != a && mul->b != a)) {
        s->fails = true;
        return;
    }
    match_gradient(s, a);
    match_shifted(s, mul->a == a ? mul->b : mul->a);
}

static bool match_kind(cpu_map *m, int kind)
{
    cpu_map_chain c = {.kind = (uint8_t)kind};
    match s = {.m = m, .c = &c, .dtype = -1, .numbers = CPU_IN_SPECIAL};
    if (kind == CPU_CHAIN_FORWARD)
        match_forward(&s, m->out[0].reg);
    else if (kind == CPU_CHAIN_BACKWARD)
        match_backward(&s, m->out[0].reg);
    else
        match_sums(&s, m->out[0].reg, m->out[1].reg);
    if (s.fails || s.used != m->n_ins || (kind != CPU_CHAIN_SUMS && m->out[0].dtype != s.dtype))
        return false;
    if (kind == CPU_CHAIN_FORWARD && !(c.form & CPU_CHAIN_ADD))
        c.r = c.x; /* not read */
    if (kind == CPU_CHAIN_FORWARD || !(c.form & CPU_CHAIN_RELU))
        c.h = c.x;
    c.bf16 = s.dtype == YK_BF16;
    c.rows = s.numbers == CPU_IN_PERIOD;
    c.found = true;
    m->chain = c;
    return true;
}

void cpu_map_find_chain(cpu_map *m)
{
    bool store = m->n_out && m->out[0].store;
    if (m->n_out == 1 && store && !match_kind(m, CPU_CHAIN_FORWARD))
        match_kind(m, CPU_CHAIN_BACKWARD);
    if (m->n_out == 2 && !store)
        match_kind(m, CPU_CHAIN_SUMS);
}

/* ---- gelu at the end of a product ---- */

static bool is_gelu(int op)
{
    return op == CPU_M_GELU || op == CPU_M_GELU_TANH;
}

/* The operand other_operand the product, if it is of the wanted kind. */
static bool other_operand(const cpu_map *m, uint32_t reg, cpu_map_gelu *g)
{
    for (uint32_t i = 0; i < m->n_in; i++) {
        const cpu_map_in *in = &m->in[i];
        if (in->reg != reg)
            continue;
        const bool row =
            in->kind == CPU_IN_PERIOD || (in->kind == CPU_IN_STRIDED && in->dims == 2 && in->stride[0] == 1 && !in->stride[1]);
        g->x = (uint8_t)i;
        return g->back ? in->kind == CPU_IN_DENSE && in->dtype == m->out[0].dtype : row && in->dtype == YK_F32;
    }
    return false;
}

static bool is_product(const cpu_map *m, uint32_t reg)
{
    for (uint32_t i = 0; i < m->n_in; i++)
        if (m->in[i].reg == reg)
            return m->in[i].kind == CPU_IN_SPECIAL;
    return false;
}

/* Which result a register is; -1: none. */
static int8_t result_of(const cpu_map *m, uint32_t reg)
{
    for (uint32_t k = 0; k < m->n_out; k++)
        if (m->out[k].reg == reg)
            return (int8_t)k;
    return -1;
}

/* v + bias, then gelu of it */
static bool gelu_forward(const cpu_map *m, cpu_map_gelu *g)
{
    const cpu_map_ins *add = m->ins, *gelu = add + 1;
    if (m->n_ins != 2 || add->op != CPU_M_ADD || !is_gelu(gelu->op) || gelu->a != add->d)
        return false;
    g->tanh = gelu->op == CPU_M_GELU_TANH;
    g->out[0] = result_of(m, add->d);
    g->out[1] = result_of(m, gelu->d);
    const bool first = is_product(m, add->a);
    return (first || is_product(m, add->b)) && other_operand(m, first ? add->b : add->a, g) && g->out[1] >= 0;
}

/* gelu's backward with v, and gelu again, in either order */
static bool gelu_backward(const cpu_map *m, cpu_map_gelu *g)
{
    const cpu_map_ins *back = NULL, *again = NULL;
    for (uint32_t i = 0; i < m->n_ins; i++)
        *(is_gelu(m->ins[i].op) ? &again : &back) = &m->ins[i];
    if (!back || !is_gelu(back->op - 1) || m->n_ins != 1u + (again != NULL) ||
        (again && (again->op != back->op - 1 || again->a != back->a)))
        return false;
    g->back = true;
    g->tanh = back->op == CPU_M_GELU_TANH_BWD;
    g->out[0] = result_of(m, back->d);
    g->out[1] = again ? result_of(m, again->d) : -1;
    return is_product(m, back->b) && other_operand(m, back->a, g) && g->out[0] >= 0;
}

void cpu_map_find_gelu(cpu_map *m)
{
    cpu_map_gelu f = {.out = {-1, -1}}, b = f;
    const int dtype = m->n_out ? m->out[0].dtype : YK_I32;
    for (uint32_t k = 0; k < m->n_out; k++)
        if (!m->out[k].store || m->out[k].dtype != dtype)
            return;
    cpu_map_gelu *g = gelu_forward(m, &f) ? &f : gelu_backward(m, &b) ? &b : NULL;
    if (!g || (dtype != YK_F32 && dtype != YK_BF16) || m->n_out != (g->out[0] >= 0) + (uint32_t)(g->out[1] >= 0))
        return;
    g->bf16 = dtype == YK_BF16;
    g->found = true;
    m->gelu = *g;
}
