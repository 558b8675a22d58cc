/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the sweep (grad.c), its sums (sums.c) and the rules (rules_*.c). */
#ifndef YOKE_CORE_GRAD_GRAD_INTERNAL_H
#define YOKE_CORE_GRAD_GRAD_INTERNAL_H

#include "core/graph/graph.h"
#include "core/graph/op_table.h"

#define YK_RULE_IN 24
#define YK_RULE_OUT 4
#define YK_RULE_ATTR 16

/* A gradient of a part of a root, not yet added. */
typedef struct yk__grad_part {
    yk_value where; /* dims, dim, stride; offset from the root's first byte */
    yk__vid grad;
    uint32_t next; /* in the root's list; YK_NONE at the end */
} yk__grad_part;

typedef struct yk__sums {
    yk__graph *g;
    size_t n_value;  /* number of values that the arrays below cover */
    yk__vid *sum;    /* gradient of each root so far */
    uint32_t *first; /* first waiting part of each root */
    uint8_t *need, *reach;
    size_t cap_sum, cap_first, cap_need, cap_reach;
    yk__grad_part *part;
    size_t n_part, cap_part;
} yk__sums;

bool yk__sums_extend(yk__sums *s); /* extends the arrays to all values of the graph; false after a failure */
void yk__sums_free(yk__sums *s);
void yk__sums_add(yk__sums *s, yk__vid v, yk__vid grad); /* adds grad, of v's shape, to v's gradient; YK_NONE adds nothing */
yk__vid yk__sums_total(yk__sums *s, yk__vid root);       /* the whole gradient of a root; YK_NONE if it has none */
/* True if two parts of a root of n elements, seen as columns of a matrix, share no element. */
bool yk__parts_disjoint(const yk_value *a, const yk_value *b, int64_t n);

/* One node under differentiation. Members are copies, because the rule appends to the graph. Shapes are g->value[in[i]]. */
typedef struct yk__rule {
    yk__sums *sums;
    yk__graph *g;
    uint32_t op, n_in, n_out, n_attr;
    yk__vid in[YK_RULE_IN], out[YK_RULE_OUT];
    yk__vid gy[YK_RULE_OUT]; /* gradient of each output; YK_NONE if it has none */
    bool need[YK_RULE_IN];   /* true if the gradient of this operand is needed */
    int64_t attr[YK_RULE_ATTR];
    bool by_body; /* set by a rule that defers to the node's body */
} yk__rule;

typedef void yk__rule_fn(yk__rule *r);

/* The rules that rows name; several rows may name one. */
#define X(e, infer, body, eval, rule, layout, floats, map, cheap, linear, ranks, back) yk__rule_fn yk__rule_##rule;
YK_IMPL_TABLE(X)
#undef X

yk__rule_fn *yk__rule_of(uint32_t op); /* NULL for an unknown number */
/* True for comparisons, index-valued and constant ops: no gradient passes them. */
bool yk__rule_is_none(uint32_t op);

/* Adds to the gradient of operand i; grad has the operand's shape. Passes on YK_NONE, the mark of a failure. */
void yk__grad_add(yk__rule *r, uint32_t i, yk__vid grad);

#endif
