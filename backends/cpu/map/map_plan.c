/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiling an elementwise program: first in registers that are written once each; then products are joined to the sums
 * they go into, operands that are one number for a whole chunk stay one number, and registers are shared by lifetime,
 * so that a block of all of them stays in the first-level cache.
 */
#include <math.h>
#include <string.h>

#include "backends/cpu/map/map_inner.h"

#define L1_BYTES (24 << 10) /* of the smallest first-level cache there is, 32 KiB */
#define LEAST_RUN 128       /* shorter planes are not worth calls of their own */
#define LONGEST_PERIOD 8192

typedef struct compiler {
    cpu_build *b;
    cpu_map *m;
    const yk_value *shape;
    uint32_t special, cap; /* room: instructions there is place for */
    uint32_t n_bind;
    struct {
        uint32_t value, reg;
    } bind[CPU_MAP_REGS];
    uint16_t uses[CPU_MAP_REGS];
    uint16_t filled[CPU_MAP_REGS]; /* the register that holds a block of this one's number */
    bool one[CPU_MAP_REGS];        /* holds one number for the chunk */
} compiler;

static bool is_int(int dtype)
{
    return dtype == YK_I32 || dtype == YK_BOOL || dtype == YK_U8;
}

/* ---- Operands ---- */

/* Strides of v over the shape's elements, neighbours joined; innermost first. */
static void axes_collapse(const yk_value *v, const yk_value *shape, cpu_map_in *in)
{
    in->dims = 0;
    for (int i = shape->dims - 1; i >= 0; i--) {
        int64_t len = shape->dim[i], stride = v->dims > i && v->dim[i] > 1 ? v->stride[i] : 0;
        if (len == 1)
            continue;
        int last = in->dims - 1;
        if (last >= 0 && stride == in->stride[last] * in->len[last]) {
            in->len[last] *= len;
            continue;
        }
        in->len[in->dims] = len;
        in->stride[in->dims++] = stride;
    }
}

/* What is repeated: all but the outermost dimension, if that one has stride 0. */
static bool has_period(cpu_map_in *in, int64_t count)
{
    in->period = 1;
    for (int i = 0; i + 1 < in->dims; i++)
        in->period *= in->len[i];
    bool direct = in->stride[0] == 1 && cpu_map_item(in->dtype) == 4 && in->len[0] >= 512; /* mostly read in place */
    return in->stride[in->dims - 1] == 0 && in->period <= LONGEST_PERIOD && !direct &&
           count >= 4 * (in->period + CPU_MAP_MAX_BLOCK);
}

static cpu_in_kind kind_of(compiler *c, cpu_map_in *in)
{
    if (!in->dims || (in->dims == 1 && in->stride[0] == 0))
        return CPU_IN_SCALAR;
    if (in->dims == 1 && in->stride[0] == 1)
        return CPU_IN_DENSE;
    if (in->stride[0] == 0 && in->len[0] >= LEAST_RUN && (!c->m->plane_run || c->m->plane_run == in->len[0])) {
        c->m->plane_run = in->len[0];
        c->m->n_plane++;
        return CPU_IN_PLANE;
    }
    return has_period(in, cpu_count(c->shape)) ? CPU_IN_PERIOD : CPU_IN_STRIDED;
}

static uint32_t reg_find(const compiler *c, uint32_t value)
{
    for (uint32_t i = c->n_bind; i-- > 0;)
        if (c->bind[i].value == value)
            return c->bind[i].reg;
    return YK_NONE;
}

static uint32_t reg_new(compiler *c)
{
    if (c->m->n_reg == CPU_MAP_REGS) {
        c->b->status = YK_E_UNSUPPORTED;
        return 0;
    }
    return c->m->n_reg++;
}

static uint32_t value_bind(compiler *c, uint32_t value, uint32_t reg)
{
    if (c->n_bind == CPU_MAP_REGS) {
        c->b->status = YK_E_UNSUPPORTED;
        return 0;
    }
    c->bind[c->n_bind].value = value;
    c->bind[c->n_bind++].reg = reg;
    return reg;
}

static uint32_t value_bind_new(compiler *c, uint32_t value)
{
    return value_bind(c, value, reg_new(c));
}

/* A new operand of the map with a register of its own. */
static cpu_map_in *new_in(compiler *c, uint32_t value)
{
    static cpu_map_in none;
    if (c->m->n_in == CPU_MAP_IN) {
        c->b->status = YK_E_UNSUPPORTED;
        return &none;
    }
    cpu_map_in *in = &c->m->in[c->m->n_in++];
    in->dtype = c->b->g->value[value].dtype;
    in->reg = (uint16_t)value_bind_new(c, value);
    return in;
}

/* The same memory read before under another name: its register; 0: none. */
static uint32_t known_leaf(const cpu_map *m, const cpu_map_in *in)
{
    for (uint32_t i = 0; i + 1 < m->n_in; i++) {
        const cpu_map_in *o = &m->in[i];
        if (o->kind == in->kind && o->dtype == in->dtype && o->ref.slot == in->ref.slot && o->ref.offset == in->ref.offset &&
            o->bits == in->bits && o->stream == in->stream && o->least == in->least && o->row == in->row &&
            o->dims == in->dims && !memcmp(o->len, in->len, (size_t)in->dims * sizeof *in->len) &&
            !memcmp(o->stride, in->stride, (size_t)in->dims * sizeof *in->stride))
            return o->reg;
    }
    return 0;
}

/* Drops the latest input if there is one like it already. */
static uint32_t settle_leaf(compiler *c, cpu_map_in *in)
{
    uint32_t old = in->kind == CPU_IN_SPECIAL ? 0 : known_leaf(c->m, in);
    if (!old)
        return in->reg;
    c->m->n_plane -= in->kind == CPU_IN_PLANE;
    c->m->n_in--;
    memset(in, 0, sizeof *in);
    c->bind[c->n_bind - 1].reg = old;
    return old;
}

/* the register that holds an operand; the first use of a leaf adds an input */
static uint32_t operand_reg(compiler *c, uint32_t value)
{
    uint32_t reg = reg_find(c, value);
    if (reg != YK_NONE)
        return reg;
    const yk_value *v = &c->b->g->value[value];
    cpu_map_in *in = new_in(c, value);
    if (c->b->status != YK_OK)
        return 0;
    in->ref = cpu_ref_of(v);
    if (value != c->special) {
        axes_collapse(v, c->shape, in);
        in->kind = kind_of(c, in);
    }
    c->one[in->reg] = in->kind == CPU_IN_SCALAR || in->kind == CPU_IN_PLANE;
    return settle_leaf(c, in);
}

static void constant_new(compiler *c, const yk_node *n)
{
    double x = yk_attr_f64(cpu_attr(c->b, n, 0));
    float f = (float)x;
    cpu_map_in *in = new_in(c, c->b->g->index[n->out]);
    if (c->b->status != YK_OK)
        return;
    in->kind = CPU_IN_CONST;
    if (is_int(in->dtype))
        in->bits = in->dtype == YK_BOOL ? x != 0.0 : (uint32_t)(int32_t)x;
    else
        memcpy(&in->bits, &f, 4);
    c->one[in->reg] = true;
    settle_leaf(c, in);
}

/* ---- Instructions ---- */

static void add_ins(compiler *c, int op, uint32_t d, uint32_t a, uint32_t b, uint32_t e)
{
    if (c->m->n_ins == c->cap) {
        c->b->status = YK_E_UNSUPPORTED;
        return;
    }
    c->m->ins[c->m->n_ins++] =
        (cpu_map_ins){.op = (uint8_t)op, .d = (uint16_t)d, .a = (uint16_t)a, .b = (uint16_t)b, .c = (uint16_t)e};
}

/* A value made by an instruction; one that is made already is not made again. */
static void value_make(compiler *c, uint32_t value, int op, uint32_t a, uint32_t b, uint32_t e)
{
    for (uint32_t i = 0; i < c->m->n_ins; i++) {
        const cpu_map_ins *s = &c->m->ins[i];
        if (s->op == op && s->a == a && s->b == b && s->c == e) {
            value_bind(c, value, s->d);
            return;
        }
    }
    add_ins(c, op, value_bind_new(c, value), a, b, e);
}

/* Registers hold f32, so a cast between floats changes nothing there: what is stored is rounded then. */
static void compile_cast(compiler *c, const yk_node *n, uint32_t a)
{
    int from = cpu_in(c->b, n, 0)->dtype, to = cpu_out(c->b, n, 0)->dtype, op = CPU_M_MOVE;
    uint32_t value = c->b->g->index[n->out];
    if (is_int(from))
        op = !is_int(to) ? CPU_M_I2F : to == YK_BOOL ? CPU_M_I2B : to == YK_U8 ? CPU_M_I2U8 : CPU_M_MOVE;
    else if (is_int(to))
        op = to == YK_BOOL ? CPU_M_F2B : CPU_M_F2I;
    if (op == CPU_M_MOVE) {
        value_bind(c, value, a);
        return;
    }
    if (!is_int(from) && to == YK_U8) {
        uint32_t t = reg_new(c);
        add_ins(c, op, t, a, a, a);
        a = t;
        op = CPU_M_I2U8;
    }
    value_make(c, value, op, a, a, a);
}

static int map_op(int op, bool ints)
{
    static const int8_t table[][3] = {
        {YK_OP_NEG, CPU_M_NEG, CPU_M_INEG},   {YK_OP_ABS, CPU_M_ABS, CPU_M_IABS},   {YK_OP_EXP, CPU_M_EXP, -1},
        {YK_OP_LOG, CPU_M_LOG, -1},           {YK_OP_SQRT, CPU_M_SQRT, -1},         {YK_OP_RSQRT, CPU_M_RSQRT, -1},
        {YK_OP_RECIP, CPU_M_RECIP, -1},       {YK_OP_TANH, CPU_M_TANH, -1},         {YK_OP_ERF, CPU_M_ERF, -1},
        {YK_OP_ADD, CPU_M_ADD, CPU_M_IADD},   {YK_OP_SUB, CPU_M_SUB, CPU_M_ISUB},   {YK_OP_MUL, CPU_M_MUL, CPU_M_IMUL},
        {YK_OP_DIV, CPU_M_DIV, CPU_M_IDIV},   {YK_OP_MAX, CPU_M_MAX, CPU_M_IMAX},   {YK_OP_MIN, CPU_M_MIN, CPU_M_IMIN},
        {YK_OP_LT, CPU_M_LT, CPU_M_ILT},      {YK_OP_EQ, CPU_M_EQ, CPU_M_IEQ},
        {YK_OP_RELU, CPU_M_RELU, -1},         {YK_OP_RELU_BWD, CPU_M_RELU_BWD, -1}, {YK_OP_GELU, CPU_M_GELU, -1},
        {YK_OP_GELU_BWD, CPU_M_GELU_BWD, -1}, {YK_OP_GELU_TANH, CPU_M_GELU_TANH, -1},
        {YK_OP_GELU_TANH_BWD, CPU_M_GELU_TANH_BWD, -1},                             {YK_OP_SILU, CPU_M_SILU, -1},
        {YK_OP_SILU_BWD, CPU_M_SILU_BWD, -1}, {YK_OP_SIGMOID, CPU_M_SIGMOID, -1},
        {YK_OP_SIGMOID_BWD, CPU_M_SIGMOID_BWD, -1},                                 {YK_OP_TANH_BWD, CPU_M_TANH_BWD, -1},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i][0] == op)
            return table[i][ints ? 2 : 1];
    return -1;
}

/* x / (1 - p) under a mask. u >= p for u = w 2^-24 and p in f32 is w >= p 2^24, which is exact. */
static void compile_dropout(compiler *c, const yk_node *n)
{
    cpu_build *b = c->b;
    const uint32_t value = b->g->index[n->out], x = operand_reg(c, b->g->index[n->in]);
    const double p = yk_attr_f64(cpu_attr(b, n, 0));
    const float q = (float)(1.0 - p);
    cpu_map_in *in = new_in(c, value);
    in->kind = CPU_IN_CONST;
    in->dtype = YK_F32;
    memcpy(&in->bits, &q, 4);
    c->one[in->reg] = true;
    const uint32_t divisor = settle_leaf(c, in);
    value_make(c, value, CPU_M_DIV, x, divisor, x);
    const uint32_t scaled = reg_find(c, value);
    in = new_in(c, value);
    if (b->status != YK_OK)
        return;
    in->kind = CPU_IN_RANDOM;
    in->dtype = YK_I32;
    in->ref = cpu_ref_of(cpu_in(b, n, 1));
    in->rows = cpu_ref_of(cpu_in(b, n, 2));
    in->row = cpu_count(cpu_out(b, n, 0)) / cpu_count(cpu_in(b, n, 2));
    in->stream = (uint32_t)cpu_attr(b, n, 1);
    in->least = (int32_t)ceil((double)(float)p * 0x1p24);
    const uint32_t mask = settle_leaf(c, in);
    value_make(c, value, CPU_M_AND, scaled, mask, scaled);
}

static void compile_node(compiler *c, const yk_node *n)
{
    cpu_build *b = c->b;
    if (n->op == YK_OP_DOT || n->op == YK_OP_SUM) /* what the elementwise part of dot_map, map_sum is joined to */
        return;
    if (n->op == YK_OP_FILL) {
        constant_new(c, n);
        return;
    }
    if (n->op == YK_OP_DROPOUT) {
        compile_dropout(c, n);
        return;
    }
    uint32_t r[3] = {0};
    for (uint32_t i = 0; i < n->n_in && i < 3; i++)
        r[i] = operand_reg(c, b->g->index[n->in + i]);
    if (n->op == YK_OP_CAST) {
        compile_cast(c, n, r[0]);
        return;
    }
    if (n->op == YK_OP_SELECT) {
        value_make(c, b->g->index[n->out], CPU_M_SELECT, r[0], r[1], r[2]);
        return;
    }
    int op = map_op(n->op, is_int(cpu_in(b, n, 0)->dtype));
    if (op < 0) {
        cpu_refuse(b, n, "not elementwise on this type");
        return;
    }
    value_make(c, b->g->index[n->out], op, r[0], n->n_in > 1 ? r[1] : r[0], r[0]);
}

static int op_arity(int op)
{
    switch (op) {
    case CPU_M_SELECT:
    case CPU_M_GELU_SLOPE:
    case CPU_M_FMA ... CPU_M_FMA_BC:
        return 3;
    case CPU_M_ADD ... CPU_M_AND:
    case CPU_M_IADD ... CPU_M_IEQ:
    case CPU_M_RELU_BWD:
    case CPU_M_GELU_BWD:
    case CPU_M_GELU_TANH_BWD:
    case CPU_M_SILU_BWD:
    case CPU_M_SIGMOID_BWD:
    case CPU_M_TANH_BWD:
    case CPU_M_CDF:
    case CPU_M_GELU_TANH_SLOPE:
    case CPU_M_ADD_S ... CPU_M_S_EQ:
        return 2;
    default:
        return 1;
    }
}

static uint32_t reg_of(const cpu_map_ins *s, int k)
{
    return k == 0 ? s->a : k == 1 ? s->b : s->c;
}

static void count_uses(compiler *c)
{
    const cpu_map *m = c->m;
    memset(c->uses, 0, sizeof c->uses);
    for (uint32_t k = 0; k < m->n_out; k++)
        c->uses[m->out[k].reg]++;
    for (uint32_t i = m->n_ins; i-- > 0;)
        for (int k = 0; k < op_arity(m->ins[i].op) && c->uses[m->ins[i].d]; k++)
            c->uses[reg_of(&m->ins[i], k)]++;
}

/* Removes what nothing reads; only products that went into a sum, or work for another part of a composite. */
static void ins_sweep(compiler *c)
{
    cpu_map *m = c->m;
    uint32_t n = 0;
    count_uses(c);
    for (uint32_t i = 0; i < m->n_ins; i++)
        if (c->uses[m->ins[i].d])
            m->ins[n++] = m->ins[i];
    m->n_ins = n;
}

/* a*b + c in one instruction where nothing else wants a*b */
static void join_products(compiler *c)
{
    cpu_map *m = c->m;
    count_uses(c);
    for (uint32_t i = 0; i < m->n_ins; i++) {
        cpu_map_ins *s = &m->ins[i];
        for (uint32_t j = i; j-- > 0 && s->op == CPU_M_ADD;) {
            const cpu_map_ins *p = &m->ins[j];
            if (p->op != CPU_M_MUL || c->uses[p->d] != 1 || (p->d != s->a && p->d != s->b))
                continue;
            uint32_t other = p->d == s->a ? s->b : s->a;
            *s = (cpu_map_ins){.op = CPU_M_FMA, .d = s->d, .a = p->a, .b = p->b, .c = (uint16_t)other};
        }
    }
    ins_sweep(c);
}

/* Whether the map has both gelu and its backward (or those with tanh) of the register. */
static bool has_both(const cpu_map *m, int op, uint32_t x)
{
    bool made = false, back = false;
    for (uint32_t i = 0; i < m->n_ins; i++) {
        made |= m->ins[i].op == op && m->ins[i].a == x;
        back |= m->ins[i].op == op + 1 && m->ins[i].a == x;
    }
    return made && back;
}

/* The register with op(a, b, e), which an instruction before may have made. */
static uint32_t ins_shared(compiler *c, int op, uint32_t a, uint32_t b, uint32_t e)
{
    for (uint32_t i = 0; i < c->m->n_ins; i++) {
        const cpu_map_ins *s = &c->m->ins[i];
        if (s->op == op && s->a == a && s->b == b && s->c == e)
            return s->d;
    }
    const uint32_t d = reg_new(c);
    add_ins(c, op, d, a, b, e);
    return d;
}

static void split_gelu(compiler *c, const cpu_map_ins *s)
{
    const uint32_t x = s->a;
    const bool tanh = s->op == CPU_M_GELU_TANH || s->op == CPU_M_GELU_TANH_BWD;
    const uint32_t bell = tanh ? 0 : ins_shared(c, CPU_M_BELL, x, x, x);
    const uint32_t gate = tanh ? ins_shared(c, CPU_M_GELU_GATE, x, x, x) : ins_shared(c, CPU_M_CDF, x, bell, x);
    if (s->op == CPU_M_GELU || s->op == CPU_M_GELU_TANH) {
        add_ins(c, CPU_M_MUL, s->d, x, gate, x);
        return;
    }
    const uint32_t slope =
        tanh ? ins_shared(c, CPU_M_GELU_TANH_SLOPE, x, gate, x) : ins_shared(c, CPU_M_GELU_SLOPE, x, bell, gate);
    add_ins(c, CPU_M_MUL, s->d, slope, s->b, slope);
}

/* gelu and its backward of the same x share all that is dear. */
static void share_gelu(compiler *c)
{
    cpu_map *m = c->m;
    const cpu_map_ins *list = m->ins;
    const uint32_t n = m->n_ins;
    bool any = false;
    for (uint32_t i = 0; i < n; i++)
        any |= (list[i].op == CPU_M_GELU || list[i].op == CPU_M_GELU_TANH) && has_both(m, list[i].op, list[i].a);
    if (!any)
        return;
    const cpu_map old = *m;
    m->ins = cpu_args(c->b, c->cap * sizeof *m->ins);
    m->n_ins = 0;
    for (uint32_t i = 0; i < n && m->ins; i++) {
        const int op = list[i].op, first = op == CPU_M_GELU_BWD || op == CPU_M_GELU_TANH_BWD ? op - 1 : op;
        if ((first == CPU_M_GELU || first == CPU_M_GELU_TANH) && has_both(&old, first, list[i].a))
            split_gelu(c, &list[i]);
        else
            m->ins[m->n_ins++] = list[i];
    }
}

/* ---- One number or a block of them ---- */

static cpu_map_in *leaf_of(cpu_map *m, uint32_t reg)
{
    for (uint32_t i = 0; i < m->n_in; i++)
        if (m->in[i].reg == reg)
            return &m->in[i];
    return NULL;
}

/* The register with a block of the number in `reg`: filled once a run for constants, else by an instruction. */
static uint32_t reg_filled(compiler *c, uint32_t reg)
{
    cpu_map_in *in = leaf_of(c->m, reg);
    if (!c->one[reg] || c->filled[reg])
        return c->one[reg] ? c->filled[reg] : reg;
    uint32_t w = reg_new(c);
    c->filled[reg] = (uint16_t)w;
    if (in && in->kind != CPU_IN_PLANE)
        in->filled = (uint16_t)w;
    else
        add_ins(c, CPU_M_SPREAD, w, reg, reg, reg);
    return w;
}

/* The form of a two-operand operation with one number on one side; -1: there is none. */
static int one_sided(int op, bool first)
{
    static const uint8_t ops[] = {CPU_M_ADD, CPU_M_SUB, CPU_M_MUL, CPU_M_DIV, CPU_M_MAX, CPU_M_MIN, CPU_M_LT, CPU_M_EQ};
    for (int i = 0; i < (int)sizeof ops; i++)
        if (ops[i] == op)
            return (first ? CPU_M_S_ADD : CPU_M_ADD_S) + i;
    return -1;
}

static void choose_form(compiler *c, cpu_map_ins s)
{
    int n = op_arity(s.op);
    bool a = c->one[s.a], b = n > 1 && c->one[s.b], e = n > 2 && c->one[s.c];
    if (s.op == CPU_M_FMA && a) { /* the first factor is a block */
        uint16_t t = s.a;
        s.a = s.b, s.b = t;
        a = b;
        b = true;
    }
    if (a && (n < 2 || b) && (n < 3 || e)) {
        s.one = c->one[s.d] = true;
    } else if (s.op == CPU_M_FMA && !a) {
        s.op = (uint8_t)(CPU_M_FMA + (b ? 1 : 0) + (e ? 2 : 0));
    } else if (n == 2 && (a || b) && one_sided(s.op, a) >= 0) {
        s.op = (uint8_t)one_sided(s.op, a);
    } else {
        s.a = (uint16_t)reg_filled(c, s.a);
        s.b = (uint16_t)(n > 1 ? reg_filled(c, s.b) : s.a);
        s.c = (uint16_t)(n > 2 ? reg_filled(c, s.c) : s.a);
    }
    if (n < 3)
        s.c = s.a;
    if (n < 2)
        s.b = s.a;
    add_ins(c, s.op, s.d, s.a, s.b, s.c);
    if (c->b->status == YK_OK)
        c->m->ins[c->m->n_ins - 1].one = s.one;
}

static void choose_forms(compiler *c)
{
    cpu_map *m = c->m;
    const cpu_map_ins *list = m->ins;
    uint32_t n = m->n_ins;
    m->ins = cpu_args(c->b, (c->cap + 1) * sizeof *m->ins);
    m->n_ins = 0;
    for (uint32_t i = 0; i < n && m->ins; i++)
        choose_form(c, list[i]);
    for (uint32_t k = 0; k < m->n_out && m->ins; k++)
        m->out[k].reg = (uint16_t)reg_filled(c, m->out[k].reg);
}

static void ins_resolve(compiler *c)
{
    for (uint32_t i = 0; i < c->m->n_ins; i++) {
        cpu_map_ins *s = &c->m->ins[i];
        s->fn = c->b->isa->map[s->op];
        s->md = c->one[s->d] ? 0 : -1;
        s->ma = c->one[s->a] ? 0 : -1;
        s->mb = c->one[s->b] ? 0 : -1;
        s->mc = c->one[s->c] ? 0 : -1;
    }
}

/* the dense bf16 operand in register `reg`; n_in: there is none */
static uint32_t bf16_operand(const cpu_map *m, uint32_t reg)
{
    uint32_t i = 0;
    while (i < m->n_in && (m->in[i].reg != reg || m->in[i].kind != CPU_IN_DENSE || m->in[i].dtype != YK_BF16))
        i++;
    return i;
}

/* the operand whose random mask is in register `reg`; n_in: there is none */
static uint32_t mask_operand(const cpu_map *m, uint32_t reg)
{
    uint32_t i = 0;
    while (i < m->n_in && (m->in[i].reg != reg || m->in[i].kind != CPU_IN_RANDOM))
        i++;
    return i;
}

/* Dropout alone: a division and a mask. */
static void find_bf16_dropout(compiler *c)
{
    cpu_map *m = c->m;
    const cpu_map_ins *scale = m->ins, *mask = m->ins + 1;
    if (scale->op != CPU_M_DIV_S || mask->op != CPU_M_AND || mask->a != scale->d)
        return;
    m->bf16_a = bf16_operand(m, scale->a);
    m->bf16_b = mask_operand(m, mask->b);
    if (m->bf16_a < m->n_in && m->bf16_b < m->n_in)
        m->bf16_op = c->b->isa->map_bf16_dropout;
}

/* A map of one operation on bf16 needs no registers in memory, but for dropout's mask. */
static void find_bf16(compiler *c)
{
    cpu_map *m = c->m;
    const uint32_t n = m->n_ins;
    if (m->chain.found || n < 1 || n > 2 || m->n_out != 1 || !m->out[0].store || m->out[0].dtype != YK_BF16 ||
        m->out[0].reg != m->ins[n - 1].d)
        return;
    if (n == 2) {
        find_bf16_dropout(c);
        return;
    }
    m->bf16_a = bf16_operand(m, m->ins[0].a);
    m->bf16_b = bf16_operand(m, m->ins[0].b);
    if (m->bf16_a < m->n_in && m->bf16_b < m->n_in)
        m->bf16_op = c->b->isa->map_bf16[m->ins[0].op];
}

/* ---- Results ---- */

/* Bytes that an operand reaches over. */
static uint64_t in_reach(const cpu_map_in *in)
{
    int64_t last = 0;
    for (int i = 0; i < in->dims; i++)
        last += (in->len[i] - 1) * (in->stride[i] < 0 ? -in->stride[i] : in->stride[i]);
    return (uint64_t)(last + 1) * cpu_map_item(in->dtype);
}

static bool in_overlaps(const cpu_map *m, cpu_ref ref, uint64_t bytes)
{
    for (uint32_t i = 0; i < m->n_in; i++) {
        const cpu_map_in *in = &m->in[i];
        if (in->kind != CPU_IN_CONST && in->kind != CPU_IN_SPECIAL && in->ref.slot == ref.slot &&
            in->ref.offset < ref.offset + bytes && ref.offset < in->ref.offset + in_reach(in))
            return true;
    }
    return false;
}

/* The last instruction that writes a result may write it to memory: at once if nothing else may still read what lies
 * there, that is, if it is the only result or lies apart from every operand. */
static void place_outs(compiler *c)
{
    cpu_map *m = c->m;
    for (uint32_t k = 0; k < m->n_out; k++) {
        cpu_map_out *o = &m->out[k];
        if (!o->store || cpu_map_item(o->dtype) != 4)
            continue;
        for (uint32_t i = m->n_ins; i-- > 0;)
            if (m->ins[i].d == o->reg) {
                if ((m->n_out == 1 && i + 1 == m->n_ins) || !in_overlaps(m, o->ref, (uint64_t)cpu_count(c->shape) * 4))
                    o->direct = (int32_t)i;
                break;
            }
        for (uint32_t e = 0; e < k; e++)
            if (m->out[e].reg == o->reg)
                o->direct = -1;
        o->store = o->direct < 0;
    }
}

/* ---- Registers in memory ---- */

typedef struct places {
    int32_t last[CPU_MAP_REGS];  /* the last instruction that reads a register */
    uint16_t at[CPU_MAP_REGS];   /* place + 1; 0: none */
    uint16_t free[CPU_MAP_REGS];
    uint32_t n_free, n;
} places;

static void find_last(const cpu_map *m, places *p)
{
    memset(p->last, 0xff, sizeof p->last);
    for (uint32_t i = 0; i < m->n_ins; i++)
        for (int k = 0; k < 3; k++)
            p->last[reg_of(&m->ins[i], k)] = (int32_t)i;
    for (uint32_t k = 0; k < m->n_out; k++)
        p->last[m->out[k].reg] = INT32_MAX;
}

static void place_alloc(places *p, uint32_t reg)
{
    p->at[reg] = (uint16_t)((p->n_free ? p->free[--p->n_free] : p->n++) + 1u);
}

static bool is_direct(const cpu_map *m, uint32_t reg)
{
    for (uint32_t k = 0; k < m->n_out; k++)
        if (m->out[k].direct >= 0 && m->out[k].reg == reg)
            return true;
    return false;
}

/* Which block of the scratch a register is. One number, and what is read or written in place elsewhere, has none. */
static void share_places(const compiler *c, places *p)
{
    const cpu_map *m = c->m;
    find_last(m, p);
    for (uint32_t i = 0; i < m->n_in; i++) {
        const cpu_map_in *in = &m->in[i];
        if (in->filled) {
            place_alloc(p, in->filled);
            p->last[in->filled] = INT32_MAX; /* filled once a run */
        }
        if (in->kind == CPU_IN_STRIDED || in->kind == CPU_IN_RANDOM || (in->kind == CPU_IN_DENSE && cpu_map_item(in->dtype) != 4))
            place_alloc(p, in->reg);
    }
    for (uint32_t i = 0; i < m->n_ins; i++) {
        const cpu_map_ins *s = &m->ins[i];
        for (int k = 0; k < 3; k++) {
            uint32_t r = reg_of(s, k);
            if (p->last[r] == (int32_t)i && p->at[r]) {
                p->free[p->n_free++] = (uint16_t)(p->at[r] - 1);
                p->last[r] = -1; /* a second mention of it is none */
            }
        }
        if (s->md && !is_direct(m, s->d))
            place_alloc(p, s->d);
    }
}

/* Blocks such that all that is touched for one of them stays in the first-level cache. */
static int64_t block_of(const cpu_map *m, const places *p)
{
    int64_t streams = p->n + 1;
    for (uint32_t i = 0; i < m->n_in; i++)
        streams += m->in[i].kind == CPU_IN_DENSE || m->in[i].kind == CPU_IN_PERIOD || m->in[i].kind == CPU_IN_SPECIAL;
    for (uint32_t k = 0; k < m->n_out; k++)
        streams += m->out[k].direct >= 0;
    int64_t block = L1_BYTES / (4 * streams) / 64 * 64;
    return block < 256 ? 256 : block > CPU_MAP_MAX_BLOCK ? CPU_MAP_MAX_BLOCK : block;
}

static void lay_out(compiler *c)
{
    cpu_map *m = c->m;
    places p = {.n = 0};
    m->store = cpu_args(c->b, m->n_reg * sizeof *m->store + 64);
    if (!m->store)
        return;
    share_places(c, &p);
    m->block = block_of(m, &p);
    size_t each = (size_t)m->block * 4 + 64, at = cpu_round(m->n_reg * sizeof(void *), 64), ones = at + p.n * each;
    for (uint32_t r = 0; r < m->n_reg; r++) {
        m->store[r] = p.at[r] ? at + (p.at[r] - 1u) * each : ones;
        ones += c->one[r] ? 16 : 0;
    }
    ones = cpu_round(ones, 64);
    for (uint32_t i = 0; i < m->n_in; i++)
        if (m->in[i].kind == CPU_IN_PERIOD) {
            m->in[i].store = ones;
            ones += cpu_round((size_t)(m->in[i].period + m->block) * 4 + 64, 64);
        }
    m->bytes = ones + 64;
}

static void compile_outs(compiler *c, const uint32_t *out, uint32_t n_out, bool store)
{
    for (uint32_t k = 0; k < n_out; k++) {
        const yk_value *v = &c->b->g->value[out[k]];
        uint32_t reg = operand_reg(c, out[k]);
        c->m->out[c->m->n_out++] = (cpu_map_out){cpu_ref_of(v), v->dtype, (uint16_t)reg, store, -1};
    }
}

cpu_map *cpu_map_compile(cpu_build *b, uint32_t first, uint32_t count, const yk_value *shape, uint32_t special,
                         const uint32_t *out, uint32_t n_out, bool store)
{
    cpu_map *m = cpu_args(b, sizeof *m);
    compiler c = {.b = b, .m = m, .shape = shape, .special = special, .cap = 4 * count + CPU_MAP_OUT + 8};
    if (!m)
        return NULL;
    m->n_reg = 1; /* 0 stands for none */
    m->ins = cpu_args(b, c.cap * sizeof *m->ins);
    for (uint32_t i = 0; i < count && b->status == YK_OK; i++)
        compile_node(&c, &b->g->node[first + i]);
    if (b->status == YK_OK)
        compile_outs(&c, out, n_out, store);
    if (b->status == YK_OK) {
        ins_sweep(&c);
        join_products(&c);
        cpu_map_find_gelu(m);
        share_gelu(&c);
        cpu_map_find_chain(m);
        choose_forms(&c);
    }
    if (b->status == YK_OK) {
        ins_resolve(&c);
        find_bf16(&c);
        place_outs(&c);
        lay_out(&c);
    }
    return b->status == YK_OK ? m : NULL;
}
