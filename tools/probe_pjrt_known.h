/* SPDX-License-Identifier: Apache-2.0 */
/* A training with known results, run on a vendor's plugin before a job relies on it. */
#ifndef YOKE_TOOLS_PROBE_PJRT_KNOWN_H
#define YOKE_TOOLS_PROBE_PJRT_KNOWN_H

#include "backends/pjrt/client.h"

/* Trains a small network for some steps, its parameters donated from step to step, and compares losses and parameters with the same
 * training in double precision. False, with `why`, if they differ or a call failed. */
bool pj_known_training(const pj_client *c, char why[PJ_WHY]);

#endif
