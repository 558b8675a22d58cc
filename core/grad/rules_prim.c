/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The derivatives of primitives, a function each, which append nodes to the graph. grad.c calls them through the table of operations
 * (op_table.h), in its caller's thread.
 *
 * Notation: y = f(a, b), gy = dL/dy arrives, ga = dL/da is given. The formulas are those of any calculus text. At a kink the convention is
 * PyTorch's, stated beside the rule.
 */
#include "core/grad/grad_internal.h"

#include <math.h>
#include <string.h>

#define A (r->in[0])
#define B (r->in[1])
#define Y (r->out[0])
#define GY (r->gy[0])

static yk__vid constant_like(yk__rule *r, yk__vid like, double value)
{
    return yk__const(r->g, value, (yk_dtype)r->g->value[like].dtype);
}

static yk__vid product_of(yk__rule *r, yk__vid a, yk__vid b)
{
    return yk__bin(r->g, YK_OP_MUL, a, b);
}

void yk__rule_neg(yk__rule *r) /* y = -a: ga = -gy */
{
    yk__grad_add(r, 0, yk__un(r->g, YK_OP_NEG, GY));
}

void yk__rule_abs(yk__rule *r) /* y = |a|: ga = gy sign(a), 0 at a = 0 */
{
    yk__vid zero = constant_like(r, A, 0);
    yk__vid up = yk__select(r->g, yk__bin(r->g, YK_OP_LT, zero, A), GY, zero);
    yk__grad_add(r, 0, yk__select(r->g, yk__bin(r->g, YK_OP_LT, A, zero), yk__un(r->g, YK_OP_NEG, GY), up));
}

void yk__rule_exp(yk__rule *r) /* y = e^a: ga = gy y */
{
    yk__grad_add(r, 0, product_of(r, GY, Y));
}

void yk__rule_log(yk__rule *r) /* y = ln a: ga = gy / a */
{
    yk__grad_add(r, 0, yk__bin(r->g, YK_OP_DIV, GY, A));
}

void yk__rule_sqrt(yk__rule *r) /* y = sqrt a: ga = gy / (2 y) */
{
    yk__grad_add(r, 0, yk__bin(r->g, YK_OP_DIV, yk__scale(r->g, GY, 0.5), Y));
}

void yk__rule_rsqrt(yk__rule *r) /* y = a^(-1/2): ga = -gy y^3 / 2 */
{
    yk__grad_add(r, 0, product_of(r, yk__scale(r->g, GY, -0.5), product_of(r, Y, product_of(r, Y, Y))));
}

void yk__rule_recip(yk__rule *r) /* y = 1/a: ga = -gy y^2 */
{
    yk__grad_add(r, 0, yk__un(r->g, YK_OP_NEG, product_of(r, GY, product_of(r, Y, Y))));
}

void yk__rule_tanh(yk__rule *r) /* y = tanh a: ga = gy (1 - y^2) */
{
    yk__grad_add(r, 0, yk__bin(r->g, YK_OP_TANH_BWD, Y, GY));
}

void yk__rule_erf(yk__rule *r) /* y = erf a: ga = gy 2/sqrt(pi) e^(-a^2) */
{
    yk__vid e = yk__un(r->g, YK_OP_EXP, yk__un(r->g, YK_OP_NEG, product_of(r, A, A)));
    yk__grad_add(r, 0, product_of(r, yk__scale(r->g, GY, 2 / sqrt(acos(-1))), e));
}

void yk__rule_cast(yk__rule *r) /* y = (type) a: ga = (type of a) gy */
{
    yk__grad_add(r, 0, yk__cast(r->g, GY, (yk_dtype)r->g->value[A].dtype));
}

void yk__rule_add(yk__rule *r) /* ga = gb = gy */
{
    yk__grad_add(r, 0, GY);
    yk__grad_add(r, 1, GY);
}

void yk__rule_sub(yk__rule *r) /* ga = gy, gb = -gy */
{
    yk__grad_add(r, 0, GY);
    if (r->need[1])
        yk__grad_add(r, 1, yk__un(r->g, YK_OP_NEG, GY));
}

void yk__rule_mul(yk__rule *r) /* ga = gy b, gb = gy a */
{
    if (r->need[0])
        yk__grad_add(r, 0, product_of(r, GY, B));
    if (r->need[1])
        yk__grad_add(r, 1, product_of(r, GY, A));
}

void yk__rule_div(yk__rule *r) /* y = a/b: ga = gy/b, gb = -(gy/b) y */
{
    yk__vid ga = yk__bin(r->g, YK_OP_DIV, GY, B);
    yk__grad_add(r, 0, ga);
    if (r->need[1])
        yk__grad_add(r, 1, yk__un(r->g, YK_OP_NEG, product_of(r, ga, Y)));
}

/* y = max(a, b): gy goes to the larger; equal operands share it half and half (torch.maximum). */
void yk__rule_extreme(yk__rule *r)
{
    yk__vid shared_half =
        yk__select(r->g, yk__bin(r->g, YK_OP_EQ, A, B), yk__scale(r->g, GY, 0.5), constant_like(r, A, 0));
    bool max = r->op == YK_OP_MAX;
    for (uint32_t i = 0; i < 2; i++) {
        yk__vid own = r->in[i], other = r->in[1 - i];
        if (r->need[i])
            yk__grad_add(
                r, i, yk__select(r->g, yk__bin(r->g, YK_OP_LT, max ? other : own, max ? own : other), GY, shared_half));
    }
}

void yk__rule_select(yk__rule *r) /* y = c ? a : b */
{
    yk__vid zero = constant_like(r, GY, 0);
    if (r->need[1])
        yk__grad_add(r, 1, yk__select(r->g, A, GY, zero));
    if (r->need[2])
        yk__grad_add(r, 2, yk__select(r->g, A, zero, GY));
}

static yk__vid like_operand(yk__rule *r, yk__vid x)
{
    yk_value v = r->g->value[A];
    return yk__expand(r->g, yk__cast(r->g, x, (yk_dtype)v.dtype), v.dims, v.dim);
}

void yk__rule_sum(yk__rule *r) /* ga = gy, broadcast */
{
    yk__grad_add(r, 0, like_operand(r, GY));
}

/* y = max over axes: gy goes to the maxima, shared evenly among equal maxima (torch.amax). */
void yk__rule_rmax(yk__rule *r)
{
    yk__graph *g = r->g;
    yk__vid hit = yk__cast(g, yk__bin(g, YK_OP_EQ, A, like_operand(r, Y)), (yk_dtype)g->value[A].dtype);
    yk__vid n = yk__sum(g, hit, (uint32_t)r->attr[0]);
    yk__grad_add(r, 0, product_of(r, hit, like_operand(r, yk__bin(g, YK_OP_DIV, GY, n))));
}

void yk__rule_copy(yk__rule *r) /* without a base; the sweep handles a copy with one. Of round8: a straight-through estimator */
{
    yk__grad_add(r, 0, GY);
}

void yk__rule_gather(yk__rule *r) /* y[k] = a[index[k]]: ga = scatter_add(gy, index) */
{
    yk__grad_add(r, 0, yk__scatter_add(r->g, GY, B, r->g->value[A].dim[0]));
}

void yk__rule_scatter_add(yk__rule *r) /* the adjoint of gather is gather */
{
    yk__grad_add(r, 0, yk__cast(r->g, yk__gather(r->g, GY, B), (yk_dtype)r->g->value[A].dtype));
}

void yk__rule_unfold(yk__rule *r) /* linear: its adjoint is fold */
{
    yk_value x = r->g->value[A];
    yk__vid y = YK_NONE;
    yk__apply(r->g, YK_OP_FOLD, 1, &GY, 8, r->attr, YK_DTYPE_COUNT, x.dims, x.dim, &y, 1);
    yk__grad_add(r, 0, y);
}

void yk__rule_fold(yk__rule *r)
{
    yk__vid y = YK_NONE;
    r->attr[8] = yk_attr_of_f64(0);
    yk__apply(r->g, YK_OP_UNFOLD, 1, &GY, 9, r->attr, YK_DTYPE_COUNT, 0, NULL, &y, 1);
    yk__grad_add(r, 0, yk__cast(r->g, y, (yk_dtype)r->g->value[A].dtype));
}

static bool is_swapped(const yk_value *v)
{
    const uint32_t n = v->dims - 2u;
    return v->stride[n] == 1 && v->stride[n + 1] != 1 && v->dim[n] > 1;
}

static yk__vid swap_last(yk__graph *g, yk__vid x)
{
    static const uint32_t two[] = {1, 0}, three[] = {0, 2, 1};
    return x == YK_NONE ? x : yk__permute(g, x, g->value[x].dims == 2 ? two : three);
}

/* y = a b: ga = gy b', gb = a' gy (' swaps the last two axes; see Giles, "Collected matrix derivative results", 2008).
 * An operand that is a swapped view gets the transposed product, swapped back. So the gradient of a weight kept as [N, K]
 * comes out as gy' x, in the weight's own layout, without a copy. A broadcast batch is summed with the view. */
void yk__rule_dot(yk__rule *r)
{
    yk__graph *g = r->g;
    yk__vid gy = yk__cast(g, GY, (yk_dtype)g->value[A].dtype);
    if (r->need[0]) {
        bool swapped = is_swapped(&g->value[A]);
        yk__grad_add(r, 0, swapped ? swap_last(g, yk__dot(g, B, gy, false, true)) : yk__dot(g, gy, B, false, true));
    }
    if (r->need[1]) {
        bool swapped = is_swapped(&g->value[B]);
        yk__grad_add(r, 1, swapped ? swap_last(g, yk__dot(g, gy, A, true, false)) : yk__dot(g, A, gy, true, false));
    }
}

/* ---- Composites of one formula ---- */

void yk__rule_activation(yk__rule *r) /* y = f(a): the backward composite takes a and gy */
{
    yk__grad_add(r, 0, yk__bin(r->g, (yk_op)yk__op_traits_of(r->op)->back, A, GY));
}

void yk__rule_sigmoid(yk__rule *r) /* y = 1/(1 + e^-a): ga = gy y (1 - y) */
{
    yk__grad_add(r, 0, yk__bin(r->g, YK_OP_SIGMOID_BWD, Y, GY));
}

void yk__rule_sinh(yk__rule *r) /* y = sinh a: ga = gy cosh a, and cosh a = 1 + 2 sinh(a/2)^2, which overflows where cosh does */
{
    const yk__vid s = yk__un(r->g, YK_OP_SINH, yk__scale(r->g, A, 0.5)), square = yk__scale(r->g, product_of(r, s, s), 2);
    yk__grad_add(r, 0, product_of(r, GY, yk__bin(r->g, YK_OP_ADD, square, constant_like(r, A, 1))));
}

/* Every rank's sum depends on every rank's operand: ga = sum over ranks of gy. No gradient passes a maximum: its user adds
 * nodes that give the tied elements their gradient. Moments are preceded by all_stats while gradients are needed. */
void yk__rule_all_reduce(yk__rule *r)
{
    if (r->attr[0] == YK_REDUCE_SUM)
        yk__grad_add(r, 0, yk__all_reduce(r->g, GY));
    else if (r->attr[0] == YK_REDUCE_MOMENTS)
        yk__fail(&r->g->error, YK_E_INTERNAL, "the gradient of moments over ranks: take that of all_stats");
}

void yk__rule_body(yk__rule *r)
{
    r->by_body = true;
}

void yk__rule_none(yk__rule *r)
{
    (void)r; /* the sweep passes by */
}

void yk__rule_in_place(yk__rule *r)
{
    yk__fail(&r->g->error, YK_E_UNSUPPORTED, "%s has no derivative: it overwrites its operands", yk__op_info_of(r->op)->name);
}

static yk__rule_fn *const rules[YK_OP_COUNT] = {
#define X(e, infer, body, eval, rule, layout, floats, map, cheap, linear, ranks, back) [YK_OP_##e] = yk__rule_##rule,
    YK_IMPL_TABLE(X)
#undef X
};

yk__rule_fn *yk__rule_of(uint32_t op)
{
    return op < YK_OP_COUNT ? rules[op] : NULL;
}

bool yk__rule_is_none(uint32_t op)
{
    return yk__rule_of(op) == yk__rule_none;
}
