/* SPDX-License-Identifier: Apache-2.0 */
#include "map.h"

#include <string.h>

#define MAX_IN 32
#define MAX_OUT 4

typedef enum in_kind { IN_SPECIAL, IN_DENSE, IN_SCALAR, IN_STRIDED, IN_CONST } in_kind;

typedef struct map_in {
    in_kind kind;
    uint8_t dtype;
    uint16_t reg;
    cpu_ref ref;
    uint32_t bits; /* IN_CONST: the 32 bits of the constant */
    int dims;      /* IN_STRIDED: collapsed, innermost first */
    int64_t len[YK_MAX_DIMS], stride[YK_MAX_DIMS];
} map_in;

typedef struct map_ins {
    cpu_map_kernel fn;
    uint16_t d, a, b, c;
} map_ins;

typedef struct map_out {
    cpu_ref ref;
    uint8_t dtype;
    uint16_t reg;
    bool store;  /* copied out after the block */
    int32_t direct; /* the instruction that writes straight to memory, or -1 */
} map_out;

struct cpu_map {
    uint32_t n_in, n_ins, n_out, n_reg;
    int64_t block;
    map_in in[MAX_IN];
    map_out out[MAX_OUT];
    map_ins ins[];
};

/* ---- Compiling ---- */

typedef struct compiler {
    cpu_build *b;
    cpu_map *m;
    const yk_value *shape;
    uint32_t special;
    uint32_t n_bind;
    struct {
        uint32_t value, reg;
    } bind[512];
} compiler;

static uint32_t item_bytes(int dtype)
{
    return yk_dtype_bytes((uint32_t)dtype);
}

static bool is_int(int dtype)
{
    return dtype == YK_I32 || dtype == YK_BOOL || dtype == YK_U8;
}

/* Strides of v over the shape's elements, neighbours joined; innermost first. */
static void collapse(const yk_value *v, const yk_value *shape, map_in *in)
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
    if (!in->dims)
        in->kind = IN_SCALAR;
    else if (in->dims == 1)
        in->kind = in->stride[0] == 0 ? IN_SCALAR : in->stride[0] == 1 ? IN_DENSE : IN_STRIDED;
    else
        in->kind = IN_STRIDED;
}

static uint32_t find(const compiler *c, uint32_t value)
{
    for (uint32_t i = c->n_bind; i-- > 0;)
        if (c->bind[i].value == value)
            return c->bind[i].reg;
    return YK_NONE;
}

static uint32_t bind(compiler *c, uint32_t value)
{
    if (c->n_bind == sizeof c->bind / sizeof *c->bind) {
        c->b->status = YK_E_UNSUPPORTED;
        return 0;
    }
    c->bind[c->n_bind].value = value;
    c->bind[c->n_bind].reg = c->m->n_reg;
    c->n_bind++;
    return c->m->n_reg++;
}

static void add_ins(compiler *c, cpu_mapop op, uint32_t d, uint32_t a, uint32_t b, uint32_t e)
{
    map_ins *i = &c->m->ins[c->m->n_ins++];
    *i = (map_ins){c->b->isa->map[op], (uint16_t)d, (uint16_t)a, (uint16_t)b, (uint16_t)e};
}

/* the register that holds an operand; the first use of a leaf adds an input */
static uint32_t operand(compiler *c, uint32_t value)
{
    uint32_t reg = find(c, value);
    if (reg != YK_NONE)
        return reg;
    if (c->m->n_in == MAX_IN) {
        c->b->status = YK_E_UNSUPPORTED;
        return 0;
    }
    const yk_value *v = &c->b->g->value[value];
    map_in *in = &c->m->in[c->m->n_in++];
    in->dtype = v->dtype;
    in->ref = cpu_ref_of(v);
    if (value == c->special)
        in->kind = IN_SPECIAL;
    else
        collapse(v, c->shape, in);
    in->reg = (uint16_t)bind(c, value);
    return in->reg;
}

static uint32_t constant(compiler *c, const yk_node *n)
{
    uint32_t value = c->b->g->index[n->out];
    const yk_value *v = &c->b->g->value[value];
    map_in *in = &c->m->in[c->m->n_in++];
    double x = yk_attr_f64(cpu_attr(c->b, n, 0));
    float f = (float)x;
    in->kind = IN_CONST;
    in->dtype = v->dtype;
    if (is_int(v->dtype))
        in->bits = v->dtype == YK_BOOL ? x != 0.0 : (uint32_t)(int32_t)x;
    else
        memcpy(&in->bits, &f, 4);
    in->reg = (uint16_t)bind(c, value);
    return in->reg;
}

static void compile_cast(compiler *c, const yk_node *n, uint32_t a)
{
    int from = cpu_in(c->b, n, 0)->dtype, to = cpu_out(c->b, n, 0)->dtype;
    uint32_t d = bind(c, c->b->g->index[n->out]);
    cpu_mapop op = CPU_M_MOVE;
    if (is_int(from))
        op = !is_int(to) ? CPU_M_I2F : to == YK_BOOL ? CPU_M_I2B : to == YK_U8 ? CPU_M_I2U8 : CPU_M_MOVE;
    else if (is_int(to))
        op = to == YK_BOOL ? CPU_M_F2B : CPU_M_F2I;
    else if (to != from)
        op = to == YK_BF16 ? CPU_M_ROUND_BF16 : to == YK_F16 ? CPU_M_ROUND_F16 : CPU_M_MOVE;
    add_ins(c, op, d, a, a, a);
    if (!is_int(from) && to == YK_U8)
        add_ins(c, CPU_M_I2U8, d, d, d, d);
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

static void compile_node(compiler *c, const yk_node *n)
{
    cpu_build *b = c->b;
    if (n->op == YK_OP_DOT || n->op == YK_OP_SUM) /* what the elementwise part of dot_map, map_sum is joined to */
        return;
    if (n->op == YK_OP_FILL) {
        if (c->m->n_in < MAX_IN)
            constant(c, n);
        else
            cpu_refuse(b, n, "too many operands in one map");
        return;
    }
    uint32_t r[3] = {0};
    for (uint32_t i = 0; i < n->n_in && i < 3; i++)
        r[i] = operand(c, b->g->index[n->in + i]);
    if (n->op == YK_OP_CAST) {
        compile_cast(c, n, r[0]);
        return;
    }
    if (n->op == YK_OP_SELECT) {
        add_ins(c, CPU_M_SELECT, bind(c, b->g->index[n->out]), r[0], r[1], r[2]);
        return;
    }
    int op = map_op(n->op, is_int(cpu_in(b, n, 0)->dtype));
    if (op < 0) {
        cpu_refuse(b, n, "not elementwise on this type");
        return;
    }
    add_ins(c, (cpu_mapop)op, bind(c, b->g->index[n->out]), r[0], n->n_in > 1 ? r[1] : r[0], r[0]);
}

static bool overlaps(const cpu_map *m, cpu_ref ref)
{
    for (uint32_t i = 0; i < m->n_in; i++)
        if (m->in[i].kind != IN_CONST && m->in[i].kind != IN_SPECIAL && m->in[i].ref.slot == ref.slot)
            return true;
    return false;
}

/* The last instruction that writes a result may write it to memory: at once if nothing else may still read what lies
 * there, that is, if it is the only result or shares its slot with no operand. */
static void compile_out(compiler *c, const uint32_t *out, uint32_t n_out, bool store)
{
    cpu_map *m = c->m;
    for (uint32_t k = 0; k < n_out; k++) {
        const yk_value *v = &c->b->g->value[out[k]];
        map_out *o = &m->out[m->n_out++];
        *o = (map_out){cpu_ref_of(v), v->dtype, (uint16_t)operand(c, out[k]), store, -1};
        if (!store || item_bytes(v->dtype) != 4)
            continue;
        for (uint32_t i = m->n_ins; i-- > 0;)
            if (m->ins[i].d == o->reg) {
                if ((n_out == 1 && i + 1 == m->n_ins) || !overlaps(m, o->ref))
                    o->direct = (int32_t)i;
                break;
            }
        for (uint32_t e = 0; e < k; e++)
            if (m->out[e].reg == o->reg)
                o->direct = -1;
        o->store = o->direct < 0;
    }
}

cpu_map *cpu_map_compile(cpu_build *b, uint32_t first, uint32_t count, const yk_value *shape, uint32_t special,
                         const uint32_t *out, uint32_t n_out, bool store)
{
    cpu_map *m = cpu_args(b, sizeof *m + (2 * (size_t)count + MAX_OUT) * sizeof *m->ins);
    if (!m)
        return NULL;
    compiler c = {.b = b, .m = m, .shape = shape, .special = special};
    for (uint32_t i = 0; i < count && b->status == YK_OK; i++)
        compile_node(&c, &b->g->node[first + i]);
    if (b->status == YK_OK)
        compile_out(&c, out, n_out, store);
    m->block = (32 << 10) / (4 * (int64_t)(m->n_reg + 1)) / 64 * 64;
    m->block = m->block < 256 ? 256 : m->block > CPU_MAP_MAX_BLOCK ? CPU_MAP_MAX_BLOCK : m->block;
    return b->status == YK_OK ? m : NULL;
}

size_t cpu_map_scratch(const cpu_map *m)
{
    return cpu_round(m->n_reg * (sizeof(void *) + (size_t)m->block * 4 + 64) + 128, 64);
}

int64_t cpu_map_block(const cpu_map *m)
{
    return m->block;
}

double cpu_map_cost(const cpu_map *m)
{
    return 0.1 * m->n_ins + 0.1 * (m->n_in + m->n_out);
}

/* ---- Running ---- */

static void *reg_at(const cpu_map_run *r, uint32_t reg)
{
    return r->regs + (size_t)reg * ((size_t)r->map->block * 4 + 64);
}

/* n elements from p to 32-bit registers */
static void widen(const cpu_isa *isa, void *d, const void *p, int dtype, size_t n)
{
    if (dtype == YK_BOOL || dtype == YK_U8) {
        const uint8_t *s = p;
        int32_t *t = d;
        for (size_t i = 0; i < n; i++)
            t[i] = s[i];
    } else if (dtype == YK_I32) {
        memcpy(d, p, n * 4);
    } else {
        isa->to_f32(d, p, dtype, n);
    }
}

static void narrow(const cpu_isa *isa, void *d, const void *p, int dtype, size_t n)
{
    if (dtype == YK_BOOL || dtype == YK_U8) {
        const int32_t *s = p;
        uint8_t *t = d;
        for (size_t i = 0; i < n; i++)
            t[i] = (uint8_t)s[i];
    } else if (dtype == YK_I32) {
        memmove(d, p, n * 4);
    } else {
        isa->from_f32(d, p, dtype, n);
    }
}

static void fill_with(const cpu_isa *isa, void *d, const void *p, int dtype, size_t n)
{
    uint32_t bits[1];
    widen(isa, bits, p, dtype, 1);
    isa->fill32(d, bits[0], n);
}

void cpu_map_begin(cpu_map_run *r, const cpu_map *m, const cpu_ctx *c, void *scratch)
{
    *r = (cpu_map_run){m, c, scratch, NULL};
    r->at = (const void **)(void *)(r->regs + m->n_reg * ((size_t)m->block * 4 + 64));
    for (uint32_t i = 0; i < m->n_reg; i++)
        r->at[i] = reg_at(r, i);
    for (uint32_t i = 0; i < m->n_in; i++) {
        const map_in *in = &m->in[i];
        if (in->kind == IN_CONST)
            c->isa->fill32(reg_at(r, in->reg), in->bits, (size_t)m->block);
        if (in->kind == IN_SCALAR)
            fill_with(c->isa, reg_at(r, in->reg), cpu_at(c, in->ref), in->dtype, (size_t)m->block);
    }
}

/* A broadcast operand: runs along its innermost dimension. */
static void load_strided(cpu_map_run *r, const map_in *in, int64_t pos, size_t n)
{
    const cpu_isa *isa = r->ctx->isa;
    const char *base = cpu_at(r->ctx, in->ref);
    uint32_t item = item_bytes(in->dtype);
    char *d = reg_at(r, in->reg);
    int64_t at[YK_MAX_DIMS], off = 0;
    for (int i = 0; i < in->dims; i++) {
        at[i] = pos % in->len[i];
        pos /= in->len[i];
        off += at[i] * in->stride[i];
    }
    if (in->stride[0] == 1 && item == 4 && (int64_t)n <= in->len[0] - at[0]) {
        r->at[in->reg] = base + off * 4;
        return;
    }
    r->at[in->reg] = d;
    while (n) {
        size_t run = (size_t)(in->len[0] - at[0]) < n ? (size_t)(in->len[0] - at[0]) : n;
        const char *p = base + off * item;
        if (in->stride[0] == 0)
            fill_with(isa, d, p, in->dtype, run);
        else if (in->stride[0] == 1)
            widen(isa, d, p, in->dtype, run);
        else
            for (size_t i = 0; i < run; i++)
                widen(isa, d + i * 4, p + (int64_t)i * in->stride[0] * item, in->dtype, 1);
        d += run * 4;
        n -= run;
        off += (int64_t)run * in->stride[0];
        at[0] += (int64_t)run;
        for (int i = 0; i + 1 < in->dims && at[i] == in->len[i]; i++) {
            off += in->stride[i + 1] - in->len[i] * in->stride[i];
            at[i] = 0;
            at[i + 1]++;
        }
    }
}

static void load_all(cpu_map_run *r, int64_t pos, size_t n, const float *special)
{
    const cpu_map *m = r->map;
    for (uint32_t i = 0; i < m->n_in; i++) {
        const map_in *in = &m->in[i];
        if (in->kind == IN_SPECIAL) {
            r->at[in->reg] = special;
        } else if (in->kind == IN_DENSE) {
            const char *p = (const char *)cpu_at(r->ctx, in->ref) + pos * item_bytes(in->dtype);
            if (item_bytes(in->dtype) == 4)
                r->at[in->reg] = p;
            else
                widen(r->ctx->isa, reg_at(r, in->reg), p, in->dtype, n);
        } else if (in->kind == IN_STRIDED) {
            load_strided(r, in, pos, n);
        }
    }
}

void cpu_map_eval(cpu_map_run *r, int64_t pos, size_t n, const float *special)
{
    const cpu_map *m = r->map;
    load_all(r, pos, n, special);
    for (uint32_t k = 0; k < m->n_out; k++)
        if (m->out[k].direct >= 0)
            r->at[m->out[k].reg] = (char *)cpu_at(r->ctx, m->out[k].ref) + pos * 4;
    for (uint32_t i = 0; i < m->n_ins; i++) {
        const map_ins *s = &m->ins[i];
        s->fn((void *)r->at[s->d], r->at[s->a], r->at[s->b], r->at[s->c], n);
    }
    for (uint32_t k = 0; k < m->n_out; k++) {
        const map_out *o = &m->out[k];
        if (o->store)
            narrow(r->ctx->isa, (char *)cpu_at(r->ctx, o->ref) + pos * item_bytes(o->dtype), r->at[o->reg], o->dtype, n);
    }
}

const float *cpu_map_result(const cpu_map_run *r, uint32_t k)
{
    return r->at[r->map->out[k].reg];
}

/* ---- The node ---- */

typedef struct map_args {
    const cpu_map *map;
    int64_t n, block;
} map_args;

static void map_step(const void *args, const cpu_ctx *c)
{
    const map_args *a = args;
    int64_t lo, hi;
    cpu_part((a->n + a->block - 1) / a->block, c->tid, c->nt, &lo, &hi);
    cpu_map_run r;
    cpu_map_begin(&r, a->map, c, c->mine);
    for (int64_t pos = lo * a->block; pos < hi * a->block && pos < a->n; pos += a->block)
        cpu_map_eval(&r, pos, (size_t)(a->n - pos < a->block ? a->n - pos : a->block), NULL);
}

void cpu_plan_map(cpu_build *b, const yk_node *n)
{
    uint32_t first = (uint32_t)(n - b->g->node), count = 1;
    if (n->op == YK_OP_MAP) {
        first = n->body;
        count = n->n_body;
    }
    const yk_value *shape = cpu_out(b, n, 0);
    map_args *a = cpu_args(b, sizeof *a);
    if (!a || n->n_out > MAX_OUT) {
        cpu_refuse(b, n, "too many results of one map");
        return;
    }
    cpu_map *m = cpu_map_compile(b, first, count, shape, YK_NONE, &b->g->index[n->out], n->n_out, true);
    if (!m)
        return;
    a->map = m;
    a->n = cpu_count(shape);
    a->block = m->block;
    cpu_need_mine(b, cpu_map_scratch(m));
    cpu_emit(b, map_step, a, (double)a->n * cpu_map_cost(m));
}
