/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles an elementwise program, the body of a map, to instructions on registers. First each register is written once. Then products are
 * joined to the sums they go into, and operands that are one number for a whole chunk stay one number. Registers are shared by lifetime, so
 * that a block of all of them stays in the first-level cache.
 *
 * Three planners call cpu_map_compile while a program is made, in any thread. map_node.c compiles a map, cpu_dot.c the elementwise part of
 * a product, whose sums are `special`. A sum's operand (cpu_reduce.c) stays in registers. map.c runs the result on the workers.
 *
 * A register holds a block: 4 bytes, f32 or i32, for each of map->block elements. A chunk is the part of a block with one number of each
 * PLANE operand.
 */
#include <math.h>
#include <string.h>

#include "backends/cpu/isa/map_kernels.h"
#include "backends/cpu/map/map.h"
#include "backends/cpu/map/map_internal.h"
#include "plugins/kit/value.h"

#define L1_BYTES (24 << 10) /* bytes of the smallest first-level cache in use, 32 KiB */
#define LEAST_RUN 128       /* shorter planes are not worth calls of their own */
#define LONGEST_PERIOD 8192

typedef struct map_compiler {
    cpu_build *build;
    cpu_map *map;
    const yk_value *shape;
    uint32_t special, cap; /* special: the value that cpu_map_eval is handed, or YK_NONE; cap: most instructions */
    uint32_t n_bind;
    struct {
        uint32_t value, reg;
    } bind[CPU_MAP_REGS];
    uint16_t uses[CPU_MAP_REGS];
    uint16_t filled[CPU_MAP_REGS]; /* the register that holds a block of this one's number */
    bool one[CPU_MAP_REGS];        /* holds one number for the chunk */
} map_compiler;

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

/* Describes the repeated part: all dimensions except the outermost, if that has stride 0. */
static bool has_period(cpu_map_in *in, int64_t count)
{
    in->period = 1;
    for (int i = 0; i + 1 < in->dims; i++)
        in->period *= in->len[i];
    bool direct = in->stride[0] == 1 && cpu_map_item(in->dtype) == 4 && in->len[0] >= 512; /* mostly read in place */
    return in->stride[in->dims - 1] == 0 && in->period <= LONGEST_PERIOD && !direct &&
           count >= 4 * (in->period + CPU_MAP_MAX_BLOCK);
}

static cpu_in_kind kind_of(map_compiler *comp, cpu_map_in *in)
{
    if (!in->dims || (in->dims == 1 && in->stride[0] == 0))
        return CPU_IN_SCALAR;
    if (in->dims == 1 && in->stride[0] == 1)
        return CPU_IN_DENSE;
    if (in->stride[0] == 0 && in->len[0] >= LEAST_RUN && (!comp->map->plane_run || comp->map->plane_run == in->len[0])) {
        comp->map->plane_run = in->len[0];
        comp->map->n_plane++;
        return CPU_IN_PLANE;
    }
    return has_period(in, kit_value_count(comp->shape)) ? CPU_IN_PERIOD : CPU_IN_STRIDED;
}

static uint32_t reg_find(const map_compiler *comp, uint32_t value)
{
    for (uint32_t i = comp->n_bind; i-- > 0;)
        if (comp->bind[i].value == value)
            return comp->bind[i].reg;
    return YK_NONE;
}

static uint32_t reg_new(map_compiler *comp)
{
    if (comp->map->n_reg == CPU_MAP_REGS) {
        comp->build->status = YK_E_UNSUPPORTED;
        return 0;
    }
    return comp->map->n_reg++;
}

static uint32_t value_bind(map_compiler *comp, uint32_t value, uint32_t reg)
{
    if (comp->n_bind == CPU_MAP_REGS) {
        comp->build->status = YK_E_UNSUPPORTED;
        return 0;
    }
    comp->bind[comp->n_bind].value = value;
    comp->bind[comp->n_bind++].reg = reg;
    return reg;
}

static uint32_t value_bind_new(map_compiler *comp, uint32_t value)
{
    return value_bind(comp, value, reg_new(comp));
}

/* A new operand of the map with its own register. */
static cpu_map_in *new_in(map_compiler *comp, uint32_t value)
{
    static cpu_map_in none;
    if (comp->map->n_in == CPU_MAP_IN) {
        comp->build->status = YK_E_UNSUPPORTED;
        return &none;
    }
    cpu_map_in *in = &comp->map->in[comp->map->n_in++];
    in->dtype = comp->build->graph->value[value].dtype;
    in->reg = (uint16_t)value_bind_new(comp, value);
    return in;
}

/* The register of an operand with the same memory under another name; 0 if there is none. */
static uint32_t known_leaf(const cpu_map *map, const cpu_map_in *in)
{
    for (uint32_t i = 0; i + 1 < map->n_in; i++) {
        const cpu_map_in *o = &map->in[i];
        if (o->kind == in->kind && o->dtype == in->dtype && o->ref.slot == in->ref.slot && o->ref.offset == in->ref.offset &&
            o->bits == in->bits && o->stream == in->stream && o->least == in->least && o->row == in->row &&
            o->dims == in->dims && !memcmp(o->len, in->len, (size_t)in->dims * sizeof *in->len) &&
            !memcmp(o->stride, in->stride, (size_t)in->dims * sizeof *in->stride))
            return o->reg;
    }
    return 0;
}

/* Drops the latest input if there is one like it already. */
static uint32_t settle_leaf(map_compiler *comp, cpu_map_in *in)
{
    uint32_t old = in->kind == CPU_IN_SPECIAL ? 0 : known_leaf(comp->map, in);
    if (!old)
        return in->reg;
    comp->map->n_plane -= in->kind == CPU_IN_PLANE;
    comp->map->n_in--;
    memset(in, 0, sizeof *in);
    comp->bind[comp->n_bind - 1].reg = old;
    return old;
}

/* the register that holds an operand; the first use of a leaf adds an input */
static uint32_t operand_reg(map_compiler *comp, uint32_t value)
{
    uint32_t reg = reg_find(comp, value);
    if (reg != YK_NONE)
        return reg;
    const yk_value *v = &comp->build->graph->value[value];
    cpu_map_in *in = new_in(comp, value);
    if (comp->build->status != YK_OK)
        return 0;
    in->ref = cpu_ref_of(v);
    if (value != comp->special) {
        axes_collapse(v, comp->shape, in);
        in->kind = kind_of(comp, in);
    }
    comp->one[in->reg] = in->kind == CPU_IN_SCALAR || in->kind == CPU_IN_PLANE;
    return settle_leaf(comp, in);
}

static void constant_new(map_compiler *comp, const yk_node *node)
{
    double x = yk_attr_f64(cpu_attr(comp->build, node, 0));
    float f = (float)x;
    cpu_map_in *in = new_in(comp, comp->build->graph->index[node->out]);
    if (comp->build->status != YK_OK)
        return;
    in->kind = CPU_IN_CONST;
    if (is_int(in->dtype))
        in->bits = in->dtype == YK_BOOL ? x != 0.0 : (uint32_t)(int32_t)x;
    else
        memcpy(&in->bits, &f, 4);
    comp->one[in->reg] = true;
    settle_leaf(comp, in);
}

/* ---- Instructions ---- */

static void add_ins(map_compiler *comp, int op, uint32_t d, uint32_t a, uint32_t b, uint32_t e)
{
    if (comp->map->n_ins == comp->cap) {
        comp->build->status = YK_E_UNSUPPORTED;
        return;
    }
    comp->map->ins[comp->map->n_ins++] =
        (cpu_map_ins){.op = (uint8_t)op, .dst = (uint16_t)d, .a = (uint16_t)a, .b = (uint16_t)b, .c = (uint16_t)e};
}

/* A value made by an instruction; one that is made already is not made again. */
static void value_make(map_compiler *comp, uint32_t value, int op, uint32_t a, uint32_t b, uint32_t e)
{
    for (uint32_t i = 0; i < comp->map->n_ins; i++) {
        const cpu_map_ins *ins = &comp->map->ins[i];
        if (ins->op == op && ins->a == a && ins->b == b && ins->c == e) {
            value_bind(comp, value, ins->dst);
            return;
        }
    }
    add_ins(comp, op, value_bind_new(comp, value), a, b, e);
}

/* Registers hold f32, so a cast between floats changes no register; the store rounds. */
static void compile_cast(map_compiler *comp, const yk_node *node, uint32_t a)
{
    int from = cpu_in(comp->build, node, 0)->dtype, to = cpu_out(comp->build, node, 0)->dtype, op = CPU_M_MOVE;
    uint32_t value = comp->build->graph->index[node->out];
    if (is_int(from))
        op = !is_int(to) ? CPU_M_I2F : to == YK_BOOL ? CPU_M_I2B : to == YK_U8 ? CPU_M_I2U8 : CPU_M_MOVE;
    else if (is_int(to))
        op = to == YK_BOOL ? CPU_M_F2B : CPU_M_F2I;
    if (op == CPU_M_MOVE) {
        value_bind(comp, value, a);
        return;
    }
    if (!is_int(from) && to == YK_U8) {
        uint32_t t = reg_new(comp);
        add_ins(comp, op, t, a, a, a);
        a = t;
        op = CPU_M_I2U8;
    }
    value_make(comp, value, op, a, a, a);
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
static void compile_dropout(map_compiler *comp, const yk_node *node)
{
    cpu_build *build = comp->build;
    const uint32_t value = build->graph->index[node->out], x = operand_reg(comp, build->graph->index[node->in]);
    const double p = yk_attr_f64(cpu_attr(build, node, 0));
    const float q = (float)(1.0 - p);
    cpu_map_in *in = new_in(comp, value);
    if (build->status != YK_OK)
        return;
    in->kind = CPU_IN_CONST;
    in->dtype = YK_F32;
    memcpy(&in->bits, &q, 4);
    comp->one[in->reg] = true;
    const uint32_t divisor = settle_leaf(comp, in);
    value_make(comp, value, CPU_M_DIV, x, divisor, x);
    const uint32_t scaled = reg_find(comp, value);
    in = new_in(comp, value);
    if (build->status != YK_OK)
        return;
    in->kind = CPU_IN_RANDOM;
    in->dtype = YK_I32;
    in->ref = cpu_ref_of(cpu_in(build, node, 1));
    in->rows = cpu_ref_of(cpu_in(build, node, 2));
    in->row = kit_value_count(cpu_out(build, node, 0)) / kit_value_count(cpu_in(build, node, 2));
    in->stream = (uint32_t)cpu_attr(build, node, 1);
    in->least = (int32_t)ceil((double)(float)p * 0x1p24);
    const uint32_t mask = settle_leaf(comp, in);
    value_make(comp, value, CPU_M_AND, scaled, mask, scaled);
}

static void compile_node(map_compiler *comp, const yk_node *node)
{
    cpu_build *build = comp->build;
    if (node->op == YK_OP_DOT || node->op == YK_OP_SUM) /* its elementwise part is joined to dot_map, map_sum */
        return;
    if (node->op == YK_OP_FILL) {
        constant_new(comp, node);
        return;
    }
    if (node->op == YK_OP_DROPOUT) {
        compile_dropout(comp, node);
        return;
    }
    uint32_t r[3] = {0};
    for (uint32_t i = 0; i < node->n_in && i < 3; i++)
        r[i] = operand_reg(comp, build->graph->index[node->in + i]);
    if (node->op == YK_OP_CAST) {
        compile_cast(comp, node, r[0]);
        return;
    }
    if (node->op == YK_OP_SELECT) {
        value_make(comp, build->graph->index[node->out], CPU_M_SELECT, r[0], r[1], r[2]);
        return;
    }
    int op = map_op(node->op, is_int(cpu_in(build, node, 0)->dtype));
    if (op < 0) {
        cpu_refuse(build, node, "not elementwise on this type");
        return;
    }
    value_make(comp, build->graph->index[node->out], op, r[0], node->n_in > 1 ? r[1] : r[0], r[0]);
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

static uint32_t reg_of(const cpu_map_ins *ins, int k)
{
    return k == 0 ? ins->a : k == 1 ? ins->b : ins->c;
}

static void count_uses(map_compiler *comp)
{
    const cpu_map *map = comp->map;
    memset(comp->uses, 0, sizeof comp->uses);
    for (uint32_t k = 0; k < map->n_out; k++)
        comp->uses[map->out[k].reg]++;
    for (uint32_t i = map->n_ins; i-- > 0;)
        for (int k = 0; k < op_arity(map->ins[i].op) && comp->uses[map->ins[i].dst]; k++)
            comp->uses[reg_of(&map->ins[i], k)]++;
}

/* Removes instructions that no other one reads: products that went into a sum, or work for another part of a composite. */
static void ins_sweep(map_compiler *comp)
{
    cpu_map *map = comp->map;
    uint32_t n = 0;
    count_uses(comp);
    for (uint32_t i = 0; i < map->n_ins; i++)
        if (comp->uses[map->ins[i].dst])
            map->ins[n++] = map->ins[i];
    map->n_ins = n;
}

/* Makes one instruction of a*b + c if nothing else reads a*b. */
static void join_products(map_compiler *comp)
{
    cpu_map *map = comp->map;
    count_uses(comp);
    for (uint32_t i = 0; i < map->n_ins; i++) {
        cpu_map_ins *ins = &map->ins[i];
        for (uint32_t j = i; j-- > 0 && ins->op == CPU_M_ADD;) {
            const cpu_map_ins *p = &map->ins[j];
            if (p->op != CPU_M_MUL || comp->uses[p->dst] != 1 || (p->dst != ins->a && p->dst != ins->b))
                continue;
            uint32_t other = p->dst == ins->a ? ins->b : ins->a;
            *ins = (cpu_map_ins){.op = CPU_M_FMA, .dst = ins->dst, .a = p->a, .b = p->b, .c = (uint16_t)other};
        }
    }
    ins_sweep(comp);
}

/* True if the map has both gelu and its backward (or the tanh forms) of the register. */
static bool has_both(const cpu_map *map, int op, uint32_t x)
{
    bool made = false, back = false;
    for (uint32_t i = 0; i < map->n_ins; i++) {
        made |= map->ins[i].op == op && map->ins[i].a == x;
        back |= map->ins[i].op == op + 1 && map->ins[i].a == x;
    }
    return made && back;
}

/* The register with op(a, b, e), which an instruction before may have made. */
static uint32_t ins_shared(map_compiler *comp, int op, uint32_t a, uint32_t b, uint32_t e)
{
    for (uint32_t i = 0; i < comp->map->n_ins; i++) {
        const cpu_map_ins *ins = &comp->map->ins[i];
        if (ins->op == op && ins->a == a && ins->b == b && ins->c == e)
            return ins->dst;
    }
    const uint32_t d = reg_new(comp);
    add_ins(comp, op, d, a, b, e);
    return d;
}

static void split_gelu(map_compiler *comp, const cpu_map_ins *ins)
{
    const uint32_t x = ins->a;
    const bool tanh = ins->op == CPU_M_GELU_TANH || ins->op == CPU_M_GELU_TANH_BWD;
    const uint32_t bell = tanh ? 0 : ins_shared(comp, CPU_M_BELL, x, x, x);
    const uint32_t gate = tanh ? ins_shared(comp, CPU_M_GELU_GATE, x, x, x) : ins_shared(comp, CPU_M_CDF, x, bell, x);
    if (ins->op == CPU_M_GELU || ins->op == CPU_M_GELU_TANH) {
        add_ins(comp, CPU_M_MUL, ins->dst, x, gate, x);
        return;
    }
    const uint32_t slope =
        tanh ? ins_shared(comp, CPU_M_GELU_TANH_SLOPE, x, gate, x) : ins_shared(comp, CPU_M_GELU_SLOPE, x, bell, gate);
    add_ins(comp, CPU_M_MUL, ins->dst, slope, ins->b, slope);
}

/* gelu and its backward of the same x share all that is dear. */
static void share_gelu(map_compiler *comp)
{
    cpu_map *map = comp->map;
    const cpu_map_ins *list = map->ins;
    const uint32_t n = map->n_ins;
    bool any = false;
    for (uint32_t i = 0; i < n; i++)
        any |= (list[i].op == CPU_M_GELU || list[i].op == CPU_M_GELU_TANH) && has_both(map, list[i].op, list[i].a);
    if (!any)
        return;
    const cpu_map old = *map;
    map->ins = cpu_args(comp->build, comp->cap * sizeof *map->ins);
    map->n_ins = 0;
    for (uint32_t i = 0; i < n && map->ins; i++) {
        const int op = list[i].op, first = op == CPU_M_GELU_BWD || op == CPU_M_GELU_TANH_BWD ? op - 1 : op;
        if ((first == CPU_M_GELU || first == CPU_M_GELU_TANH) && has_both(&old, first, list[i].a))
            split_gelu(comp, &list[i]);
        else
            map->ins[map->n_ins++] = list[i];
    }
}

/* ---- One number or a block of them ---- */

static cpu_map_in *leaf_of(cpu_map *map, uint32_t reg)
{
    for (uint32_t i = 0; i < map->n_in; i++)
        if (map->in[i].reg == reg)
            return &map->in[i];
    return NULL;
}

/* The register with a block of the number in `reg`: filled once a run for constants, else by an instruction. */
static uint32_t reg_filled(map_compiler *comp, uint32_t reg)
{
    cpu_map_in *in = leaf_of(comp->map, reg);
    if (!comp->one[reg] || comp->filled[reg])
        return comp->one[reg] ? comp->filled[reg] : reg;
    uint32_t w = reg_new(comp);
    comp->filled[reg] = (uint16_t)w;
    if (in && in->kind != CPU_IN_PLANE)
        in->filled = (uint16_t)w;
    else
        add_ins(comp, CPU_M_SPREAD, w, reg, reg, reg);
    return w;
}

/* The form of a two-operand operation with a number on one side; -1 if there is none. */
static int one_sided(int op, bool first)
{
    static const uint8_t ops[] = {CPU_M_ADD, CPU_M_SUB, CPU_M_MUL, CPU_M_DIV, CPU_M_MAX, CPU_M_MIN, CPU_M_LT, CPU_M_EQ};
    for (int i = 0; i < (int)sizeof ops; i++)
        if (ops[i] == op)
            return (first ? CPU_M_S_ADD : CPU_M_ADD_S) + i;
    return -1;
}

static void choose_form(map_compiler *comp, cpu_map_ins ins)
{
    int n = op_arity(ins.op);
    bool a = comp->one[ins.a], b = n > 1 && comp->one[ins.b], e = n > 2 && comp->one[ins.c];
    if (ins.op == CPU_M_FMA && a) { /* the first factor is a block */
        uint16_t t = ins.a;
        ins.a = ins.b, ins.b = t;
        a = b;
        b = true;
    }
    if (a && (n < 2 || b) && (n < 3 || e)) {
        ins.one = comp->one[ins.dst] = true;
    } else if (ins.op == CPU_M_FMA && !a) {
        ins.op = (uint8_t)(CPU_M_FMA + (b ? 1 : 0) + (e ? 2 : 0));
    } else if (n == 2 && (a || b) && one_sided(ins.op, a) >= 0) {
        ins.op = (uint8_t)one_sided(ins.op, a);
    } else {
        ins.a = (uint16_t)reg_filled(comp, ins.a);
        ins.b = (uint16_t)(n > 1 ? reg_filled(comp, ins.b) : ins.a);
        ins.c = (uint16_t)(n > 2 ? reg_filled(comp, ins.c) : ins.a);
    }
    if (n < 3)
        ins.c = ins.a;
    if (n < 2)
        ins.b = ins.a;
    add_ins(comp, ins.op, ins.dst, ins.a, ins.b, ins.c);
    if (comp->build->status == YK_OK)
        comp->map->ins[comp->map->n_ins - 1].one = ins.one;
}

static void choose_forms(map_compiler *comp)
{
    cpu_map *map = comp->map;
    const cpu_map_ins *list = map->ins;
    uint32_t n = map->n_ins;
    map->ins = cpu_args(comp->build, (comp->cap + 1) * sizeof *map->ins);
    map->n_ins = 0;
    for (uint32_t i = 0; i < n && map->ins; i++)
        choose_form(comp, list[i]);
    for (uint32_t k = 0; k < map->n_out && map->ins; k++)
        map->out[k].reg = (uint16_t)reg_filled(comp, map->out[k].reg);
}

static void ins_resolve(map_compiler *comp)
{
    for (uint32_t i = 0; i < comp->map->n_ins; i++) {
        cpu_map_ins *ins = &comp->map->ins[i];
        ins->fn = comp->build->isa->map->f32[ins->op];
        ins->dst_mask = comp->one[ins->dst] ? 0 : -1;
        ins->a_mask = comp->one[ins->a] ? 0 : -1;
        ins->b_mask = comp->one[ins->b] ? 0 : -1;
        ins->c_mask = comp->one[ins->c] ? 0 : -1;
    }
}

/* the dense bf16 operand in register `reg`; n_in if none */
static uint32_t bf16_operand(const cpu_map *map, uint32_t reg)
{
    uint32_t i = 0;
    while (i < map->n_in && (map->in[i].reg != reg || map->in[i].kind != CPU_IN_DENSE || map->in[i].dtype != YK_BF16))
        i++;
    return i;
}

/* the operand whose random mask is in register `reg`; n_in if none */
static uint32_t mask_operand(const cpu_map *map, uint32_t reg)
{
    uint32_t i = 0;
    while (i < map->n_in && (map->in[i].reg != reg || map->in[i].kind != CPU_IN_RANDOM))
        i++;
    return i;
}

/* Dropout alone: a division and a mask. */
static void find_bf16_dropout(map_compiler *comp)
{
    cpu_map *map = comp->map;
    const cpu_map_ins *scale = map->ins, *mask = map->ins + 1;
    if (scale->op != CPU_M_DIV_S || mask->op != CPU_M_AND || mask->a != scale->dst)
        return;
    map->bf16_a = bf16_operand(map, scale->a);
    map->bf16_b = mask_operand(map, mask->b);
    if (map->bf16_a < map->n_in && map->bf16_b < map->n_in)
        map->bf16_op = comp->build->isa->map->bf16_dropout;
}

/* A map of one operation on bf16 needs no registers in memory, but for dropout's mask. */
static void find_bf16(map_compiler *comp)
{
    cpu_map *map = comp->map;
    const uint32_t n = map->n_ins;
    if (map->chain.found || n < 1 || n > 2 || map->n_out != 1 || !map->out[0].store || map->out[0].dtype != YK_BF16 ||
        map->out[0].reg != map->ins[n - 1].dst)
        return;
    if (n == 2) {
        find_bf16_dropout(comp);
        return;
    }
    map->bf16_a = bf16_operand(map, map->ins[0].a);
    map->bf16_b = bf16_operand(map, map->ins[0].b);
    if (map->bf16_a < map->n_in && map->bf16_b < map->n_in)
        map->bf16_op = comp->build->isa->map->bf16[map->ins[0].op];
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

static bool in_overlaps(const cpu_map *map, cpu_ref ref, uint64_t bytes)
{
    for (uint32_t i = 0; i < map->n_in; i++) {
        const cpu_map_in *in = &map->in[i];
        if (in->kind != CPU_IN_CONST && in->kind != CPU_IN_SPECIAL && in->ref.slot == ref.slot &&
            in->ref.offset < ref.offset + bytes && ref.offset < in->ref.offset + in_reach(in))
            return true;
    }
    return false;
}

/* Lets the last instruction of a result write to memory at once, if nothing can still read that memory. Then the result is the only one, or
 * overlaps no operand. */
static void place_outs(map_compiler *comp)
{
    cpu_map *map = comp->map;
    for (uint32_t k = 0; k < map->n_out; k++) {
        cpu_map_out *o = &map->out[k];
        if (!o->store || cpu_map_item(o->dtype) != 4)
            continue;
        for (uint32_t i = map->n_ins; i-- > 0;)
            if (map->ins[i].dst == o->reg) {
                if ((map->n_out == 1 && i + 1 == map->n_ins) || !in_overlaps(map, o->ref, (uint64_t)kit_value_count(comp->shape) * 4))
                    o->direct = (int32_t)i;
                break;
            }
        for (uint32_t e = 0; e < k; e++)
            if (map->out[e].reg == o->reg)
                o->direct = -1;
        o->store = o->direct < 0;
    }
}

/* ---- Registers in memory ---- */

typedef struct reg_places {
    int32_t last[CPU_MAP_REGS]; /* the last instruction that reads a register */
    uint16_t at[CPU_MAP_REGS];  /* place + 1; 0 if none */
    uint16_t free[CPU_MAP_REGS];
    uint32_t n_free, n_place;
} reg_places;

static void find_last(const cpu_map *map, reg_places *places)
{
    memset(places->last, 0xff, sizeof places->last);
    for (uint32_t i = 0; i < map->n_ins; i++)
        for (int k = 0; k < 3; k++)
            places->last[reg_of(&map->ins[i], k)] = (int32_t)i;
    for (uint32_t k = 0; k < map->n_out; k++)
        places->last[map->out[k].reg] = INT32_MAX;
}

static void place_alloc(reg_places *places, uint32_t reg)
{
    places->at[reg] = (uint16_t)((places->n_free ? places->free[--places->n_free] : places->n_place++) + 1u);
}

static bool is_direct(const cpu_map *map, uint32_t reg)
{
    for (uint32_t k = 0; k < map->n_out; k++)
        if (map->out[k].direct >= 0 && map->out[k].reg == reg)
            return true;
    return false;
}

/* Gives each register a block of the scratch. Single numbers, and operands and results in place, have none. */
static void share_places(const map_compiler *comp, reg_places *places)
{
    const cpu_map *map = comp->map;
    find_last(map, places);
    for (uint32_t i = 0; i < map->n_in; i++) {
        const cpu_map_in *in = &map->in[i];
        if (in->filled) {
            place_alloc(places, in->filled);
            places->last[in->filled] = INT32_MAX; /* filled once a run */
        }
        if (in->kind == CPU_IN_STRIDED || in->kind == CPU_IN_RANDOM || (in->kind == CPU_IN_DENSE && cpu_map_item(in->dtype) != 4))
            place_alloc(places, in->reg);
    }
    for (uint32_t i = 0; i < map->n_ins; i++) {
        const cpu_map_ins *ins = &map->ins[i];
        for (int k = 0; k < 3; k++) {
            uint32_t r = reg_of(ins, k);
            if (places->last[r] == (int32_t)i && places->at[r]) {
                places->free[places->n_free++] = (uint16_t)(places->at[r] - 1);
                places->last[r] = -1; /* a second mention does not free it again */
            }
        }
        if (ins->dst_mask && !is_direct(map, ins->dst))
            place_alloc(places, ins->dst);
    }
}

/* Blocks such that all that is touched for one of them stays in the first-level cache. */
static int64_t block_of(const cpu_map *map, const reg_places *places)
{
    int64_t streams = places->n_place + 1;
    for (uint32_t i = 0; i < map->n_in; i++)
        streams += map->in[i].kind == CPU_IN_DENSE || map->in[i].kind == CPU_IN_PERIOD || map->in[i].kind == CPU_IN_SPECIAL;
    for (uint32_t k = 0; k < map->n_out; k++)
        streams += map->out[k].direct >= 0;
    int64_t block = L1_BYTES / (4 * streams) / 64 * 64;
    return block < 256 ? 256 : block > CPU_MAP_MAX_BLOCK ? CPU_MAP_MAX_BLOCK : block;
}

static void lay_out(map_compiler *comp)
{
    cpu_map *map = comp->map;
    reg_places places = {.n_place = 0};
    map->store = cpu_args(comp->build, map->n_reg * sizeof *map->store + 64);
    if (!map->store)
        return;
    share_places(comp, &places);
    map->block = block_of(map, &places);
    size_t each = (size_t)map->block * 4 + 64, at = kit_round_bytes(map->n_reg * sizeof(void *), 64), ones = at + places.n_place * each;
    for (uint32_t r = 0; r < map->n_reg; r++) {
        map->store[r] = places.at[r] ? at + (places.at[r] - 1u) * each : ones;
        ones += comp->one[r] ? 16 : 0;
    }
    ones = kit_round_bytes(ones, 64);
    for (uint32_t i = 0; i < map->n_in; i++)
        if (map->in[i].kind == CPU_IN_PERIOD) {
            map->in[i].store = ones;
            ones += kit_round_bytes((size_t)(map->in[i].period + map->block) * 4 + 64, 64);
        }
    map->bytes = ones + 64;
}

static void compile_outs(map_compiler *comp, const uint32_t *out, uint32_t n_out, bool store)
{
    for (uint32_t k = 0; k < n_out; k++) {
        const yk_value *v = &comp->build->graph->value[out[k]];
        uint32_t reg = operand_reg(comp, out[k]);
        comp->map->out[comp->map->n_out++] = (cpu_map_out){cpu_ref_of(v), v->dtype, (uint16_t)reg, store, -1};
    }
}

cpu_map *cpu_map_compile(cpu_build *build, uint32_t first, uint32_t count, const yk_value *shape, uint32_t special,
                         const uint32_t *out, uint32_t n_out, bool store)
{
    cpu_map *map = cpu_args(build, sizeof *map);
    map_compiler comp = {.build = build, .map = map, .shape = shape, .special = special, .cap = 4 * count + CPU_MAP_OUT + 8};
    if (!map)
        return NULL;
    map->n_reg = 1; /* register 0 means none */
    map->ins = cpu_args(build, comp.cap * sizeof *map->ins);
    for (uint32_t i = 0; i < count && build->status == YK_OK; i++)
        compile_node(&comp, &build->graph->node[first + i]);
    if (build->status == YK_OK)
        compile_outs(&comp, out, n_out, store);
    if (build->status == YK_OK) {
        ins_sweep(&comp);
        join_products(&comp);
        cpu_map_find_gelu(map);
        share_gelu(&comp);
        cpu_map_find_chain(map);
        choose_forms(&comp);
    }
    if (build->status == YK_OK) {
        ins_resolve(&comp);
        find_bf16(&comp);
        place_outs(&comp);
        lay_out(&comp);
    }
    return build->status == YK_OK ? map : NULL;
}
