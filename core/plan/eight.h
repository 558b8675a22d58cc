/* SPDX-License-Identifier: Apache-2.0 */
/* Products with operands rounded to 8 bits (eight.c); a part of autocast. */
#ifndef YOKE_CORE_PLAN_EIGHT_H
#define YOKE_CORE_PLAN_EIGHT_H

#include "core/plan/plan_internal.h"

enum { YK__EIGHT_NONE, YK__EIGHT_E4M3, YK__EIGHT_E5M2, YK__EIGHT_FORMATS };

typedef struct yk__eight {
    uint8_t format[2]; /* format of each operand of a product: YK__EIGHT_* */
} yk__eight;

/* Fills the table `of`, one entry per node of work->g, all 0 at first. */
yk_status yk__eight_choose(const yk__work *work, yk__eight *of, yk_error *err);

/* Flags of the product: YK_NODE_A_*, YK_NODE_B_*. */
static inline uint16_t yk__eight_flags(const yk__eight *eight)
{
    static const uint16_t a[] = {0, YK_NODE_A_E4M3, YK_NODE_A_E5M2}, b[] = {0, YK_NODE_B_E4M3, YK_NODE_B_E5M2};
    return (uint16_t)(a[eight->format[0]] | b[eight->format[1]]);
}

#endif
