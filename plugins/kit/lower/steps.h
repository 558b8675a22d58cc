/* SPDX-License-Identifier: Apache-2.0 */
/* Neighbouring steps of an optimizer as one launch (steps.c). */
#ifndef YOKE_PLUGINS_KIT_LOWER_STEPS_H
#define YOKE_PLUGINS_KIT_LOWER_STEPS_H

#include "plugins/kit/lower/lower_internal.h"

/* The launch of node ctx->node, a step of Adam, and of later steps that join it; macros: of the unit of step.kc. Returns the number of
 * nodes; 0 if no other joins, and the step needs its own launch. */
uint32_t kit_steps_lower(kit_lowering *ctx, const char *macros);

#endif
