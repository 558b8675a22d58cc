/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds known chains in a compiled map, an elementwise program. They are batch norm's, for which kern_chain.inc has kernels without
 * intermediate blocks, and gelu at the end of a product (kern_gelu.inc). map_plan.c calls it at the end of compiling, in any thread.
 *
 * A chain is matched as a tree from its result; every instruction must belong to it. Otherwise the map stays as it is.
 */
#include "backends/cpu/isa/map_kernels.h"
#include "backends/cpu/map/map_internal.h"

typedef struct chain_match {
    const cpu_map *map;
    cpu_map_chain *chain;
    uint32_t used; /* instructions that belong to it */
    bool fails;
    int dtype; /* type of all dense operands; -1 before the first */
    cpu_in_kind numbers;
} chain_match;

static const cpu_map_in *match_leaf(const chain_match *match, uint32_t reg)
{
    for (uint32_t i = 0; i < match->map->n_in; i++)
        if (match->map->in[i].reg == reg)
            return &match->map->in[i];
    return NULL;
}

/* The instruction that makes reg, if it is `op`. */
static const cpu_map_ins *made_by(chain_match *match, uint32_t reg, int op)
{
    for (uint32_t i = 0; i < match->map->n_ins; i++)
        if (match->map->ins[i].dst == reg && match->map->ins[i].op == op) {
            match->used++;
            return &match->map->ins[i];
        }
    return NULL;
}

static bool is_number(const chain_match *match, uint32_t reg)
{
    const cpu_map_in *in = match_leaf(match, reg);
    return in && (in->kind == CPU_IN_PLANE || in->kind == CPU_IN_PERIOD);
}

static void match_number(chain_match *match, int k, uint32_t reg)
{
    const cpu_map_in *in = match_leaf(match, reg);
    if (!is_number(match, reg) || (match->numbers != CPU_IN_SPECIAL && match->numbers != in->kind)) {
        match->fails = true;
        return;
    }
    match->numbers = in->kind;
    match->chain->number[k] = (uint8_t)(in - match->map->in);
    match->chain->n_number = (uint8_t)(k + 1 > match->chain->n_number ? k + 1 : match->chain->n_number);
}

static void match_dense(chain_match *match, uint8_t *to, uint32_t reg)
{
    const cpu_map_in *in = match_leaf(match, reg);
    bool known = in && in->kind == CPU_IN_DENSE && (in->dtype == YK_F32 || in->dtype == YK_BF16);
    if (!known || (match->dtype >= 0 && match->dtype != in->dtype)) {
        match->fails = true;
        return;
    }
    match->dtype = in->dtype;
    *to = (uint8_t)(in - match->map->in);
}

/* x - m */
static void match_shifted(chain_match *match, uint32_t reg)
{
    const cpu_map_ins *sub = made_by(match, reg, CPU_M_SUB);
    if (!sub) {
        match->fails = true;
        return;
    }
    match_dense(match, &match->chain->x, sub->a);
    match_number(match, 0, sub->b);
}

/* a*b + c with one number as a factor: the index of the other factor */
static uint32_t other_factor(const chain_match *match, const cpu_map_ins *fma, uint32_t *factor)
{
    bool first = is_number(match, fma->a);
    *factor = first ? fma->a : fma->b;
    return first ? fma->b : fma->a;
}

/* Matches g, or relu's backward of it. */
static void match_gradient(chain_match *match, uint32_t reg)
{
    const cpu_map_ins *relu = made_by(match, reg, CPU_M_RELU_BWD);
    if (relu) {
        match_dense(match, &match->chain->h, relu->a);
        match->chain->form |= CPU_CHAIN_RELU;
    }
    match_dense(match, &match->chain->r, relu ? relu->b : reg);
}

static void match_forward(chain_match *match, uint32_t reg)
{
    const cpu_map_ins *relu = made_by(match, reg, CPU_M_RELU), *add, *fma;
    uint32_t factor;
    reg = relu ? relu->a : reg;
    add = made_by(match, reg, CPU_M_ADD);
    if (add) {
        bool first = match_leaf(match, add->a) != NULL;
        match_dense(match, &match->chain->r, first ? add->a : add->b);
        reg = first ? add->b : add->a;
    }
    match->chain->form = (uint8_t)((relu ? CPU_CHAIN_RELU : 0) | (add ? CPU_CHAIN_ADD : 0));
    fma = made_by(match, reg, CPU_M_FMA);
    if (!fma) {
        match->fails = true;
        return;
    }
    match_shifted(match, other_factor(match, fma, &factor));
    match_number(match, 1, factor);
    match_number(match, 2, fma->c);
}

static void match_backward(chain_match *match, uint32_t reg)
{
    const cpu_map_ins *outer = made_by(match, reg, CPU_M_FMA), *inner = outer ? made_by(match, outer->c, CPU_M_FMA) : NULL;
    uint32_t factor;
    if (!inner) {
        match->fails = true;
        return;
    }
    match_gradient(match, other_factor(match, outer, &factor));
    match_number(match, 1, factor);
    match_shifted(match, other_factor(match, inner, &factor));
    match_number(match, 2, factor);
    match_number(match, 3, inner->c);
}

/* g and g (x - m), in either order */
static void match_sums(chain_match *match, uint32_t a, uint32_t b)
{
    const cpu_map_ins *mul = made_by(match, b, CPU_M_MUL);
    match->chain->swapped = !mul;
    if (!mul) {
        uint32_t t = a;
        a = b, b = t;
        mul = made_by(match, b, CPU_M_MUL);
    }
    if (!mul || (mul->a != a && mul->b != a)) {
        match->fails = true;
        return;
    }
    match_gradient(match, a);
    match_shifted(match, mul->a == a ? mul->b : mul->a);
}

static bool match_kind(cpu_map *map, int kind)
{
    cpu_map_chain chain = {.kind = (uint8_t)kind};
    chain_match match = {.map = map, .chain = &chain, .dtype = -1, .numbers = CPU_IN_SPECIAL};
    if (kind == CPU_CHAIN_FORWARD)
        match_forward(&match, map->out[0].reg);
    else if (kind == CPU_CHAIN_BACKWARD)
        match_backward(&match, map->out[0].reg);
    else
        match_sums(&match, map->out[0].reg, map->out[1].reg);
    if (match.fails || match.used != map->n_ins || (kind != CPU_CHAIN_SUMS && map->out[0].dtype != match.dtype))
        return false;
    if (kind == CPU_CHAIN_FORWARD && !(chain.form & CPU_CHAIN_ADD))
        chain.r = chain.x; /* not read */
    if (kind == CPU_CHAIN_FORWARD || !(chain.form & CPU_CHAIN_RELU))
        chain.h = chain.x;
    chain.bf16 = match.dtype == YK_BF16;
    chain.rows = match.numbers == CPU_IN_PERIOD;
    chain.found = true;
    map->chain = chain;
    return true;
}

void cpu_map_find_chain(cpu_map *map)
{
    bool store = map->n_out && map->out[0].store;
    if (map->n_out == 1 && store && !match_kind(map, CPU_CHAIN_FORWARD))
        match_kind(map, CPU_CHAIN_BACKWARD);
    if (map->n_out == 2 && !store)
        match_kind(map, CPU_CHAIN_SUMS);
}

/* ---- gelu at the end of a product ---- */

static bool is_gelu(int op)
{
    return op == CPU_M_GELU || op == CPU_M_GELU_TANH;
}

/* The operand other_operand the product, if it is of the wanted kind. */
static bool other_operand(const cpu_map *map, uint32_t reg, cpu_map_gelu *fused)
{
    for (uint32_t i = 0; i < map->n_in; i++) {
        const cpu_map_in *in = &map->in[i];
        if (in->reg != reg)
            continue;
        const bool row =
            in->kind == CPU_IN_PERIOD || (in->kind == CPU_IN_STRIDED && in->dims == 2 && in->stride[0] == 1 && !in->stride[1]);
        fused->x = (uint8_t)i;
        return fused->back ? in->kind == CPU_IN_DENSE && in->dtype == map->out[0].dtype : row && in->dtype == YK_F32;
    }
    return false;
}

static bool is_product(const cpu_map *map, uint32_t reg)
{
    for (uint32_t i = 0; i < map->n_in; i++)
        if (map->in[i].reg == reg)
            return map->in[i].kind == CPU_IN_SPECIAL;
    return false;
}

/* Index of the result in a register; -1 if none. */
static int8_t result_of(const cpu_map *map, uint32_t reg)
{
    for (uint32_t k = 0; k < map->n_out; k++)
        if (map->out[k].reg == reg)
            return (int8_t)k;
    return -1;
}

/* Matches v + bias, then gelu of the sum. */
static bool gelu_forward(const cpu_map *map, cpu_map_gelu *fused)
{
    const cpu_map_ins *add = map->ins, *gelu = add + 1;
    if (map->n_ins != 2 || add->op != CPU_M_ADD || !is_gelu(gelu->op) || gelu->a != add->dst)
        return false;
    fused->tanh = gelu->op == CPU_M_GELU_TANH;
    fused->out[0] = result_of(map, add->dst);
    fused->out[1] = result_of(map, gelu->dst);
    const bool first = is_product(map, add->a);
    return (first || is_product(map, add->b)) && other_operand(map, first ? add->b : add->a, fused) && fused->out[1] >= 0;
}

/* gelu's backward with v, and gelu again, in either order */
static bool gelu_backward(const cpu_map *map, cpu_map_gelu *fused)
{
    const cpu_map_ins *back = NULL, *again = NULL;
    for (uint32_t i = 0; i < map->n_ins; i++)
        *(is_gelu(map->ins[i].op) ? &again : &back) = &map->ins[i];
    if (!back || !is_gelu(back->op - 1) || map->n_ins != 1u + (again != NULL) ||
        (again && (again->op != back->op - 1 || again->a != back->a)))
        return false;
    fused->back = true;
    fused->tanh = back->op == CPU_M_GELU_TANH_BWD;
    fused->out[0] = result_of(map, back->dst);
    fused->out[1] = again ? result_of(map, again->dst) : -1;
    return is_product(map, back->b) && other_operand(map, back->a, fused) && fused->out[0] >= 0;
}

void cpu_map_find_gelu(cpu_map *map)
{
    cpu_map_gelu f = {.out = {-1, -1}}, b = f;
    const int dtype = map->n_out ? map->out[0].dtype : YK_I32;
    for (uint32_t k = 0; k < map->n_out; k++)
        if (!map->out[k].store || map->out[k].dtype != dtype)
            return;
    cpu_map_gelu *fused = gelu_forward(map, &f) ? &f : gelu_backward(map, &b) ? &b : NULL;
    if (!fused || (dtype != YK_F32 && dtype != YK_BF16) || map->n_out != (fused->out[0] >= 0) + (uint32_t)(fused->out[1] >= 0))
        return;
    fused->bf16 = dtype == YK_BF16;
    fused->found = true;
    map->gelu = *fused;
}
