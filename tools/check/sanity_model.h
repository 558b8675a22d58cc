/* SPDX-License-Identifier: Apache-2.0 */
/* A small network on each device, its gradients beside those of the CPU plugin. */
#ifndef YOKE_TOOLS_CHECK_SANITY_MODEL_H
#define YOKE_TOOLS_CHECK_SANITY_MODEL_H

#include "tools/check/sanity_report.h"

void sanity_model(sanity *s);

#endif
