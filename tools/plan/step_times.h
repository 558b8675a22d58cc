/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measured steps of candidates, for devices that are here. A measured candidate has its own time; short steps of few rows scale the
 * predictions of candidates whose own steps take too long.
 */
#ifndef YOKE_TOOLS_PLAN_STEP_TIMES_H
#define YOKE_TOOLS_PLAN_STEP_TIMES_H

#include "tools/plan/search.h"

/* Replaces predictions by measurements for about `seconds`, the fastest predicted candidates first, and says on standard error how many
 * were measured. A step that fails leaves its prediction. */
void steps_measure(search *s, double seconds);

#endif
