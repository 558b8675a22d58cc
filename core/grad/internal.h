/* SPDX-License-Identifier: Apache-2.0 */
/* What the sweep (grad.c) and the rules (rules_*.c) share. */
#ifndef YOKE_CORE_GRAD_INTERNAL_H
#define YOKE_CORE_GRAD_INTERNAL_H

#include "core/grad/grad.h"

#define YK_RULE_IN 24
#define YK_RULE_OUT 4
#define YK_RULE_ATTR 16

struct yk__sweep;

/* One node being differentiated. Copies, because the rule appends to the graph. Shapes are g->value[in[i]]. */
typedef struct yk__rule {
    struct yk__sweep *sweep;
    yk__graph *g;
    uint32_t op, n_in, n_out, n_attr;
    yk__vid in[YK_RULE_IN], out[YK_RULE_OUT];
    yk__vid gy[YK_RULE_OUT]; /* gradient that arrived at each output; YK_NONE: none */
    bool need[YK_RULE_IN];   /* whether anyone wants the gradient of this operand */
    int64_t attr[YK_RULE_ATTR];
    bool by_body; /* set by a rule that leaves the node to its body */
} yk__rule;

typedef void yk__rule_fn(yk__rule *r);

/* The rule of an op; NULL where there is no gradient (see yk__grad_has_none). */
yk__rule_fn *yk__rule_of(uint32_t op);
/* Comparisons, index-valued and constant ops: nothing flows through them. */
bool yk__rule_is_none(uint32_t op);

/* Adds to the gradient of operand i; grad has the operand's shape. YK_NONE after a failure is passed on. */
void yk__grad_add(yk__rule *r, uint32_t i, yk__vid grad);

#endif
