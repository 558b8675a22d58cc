/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables by which Accelerate and DeepSpeed tell a program what to do. Those that Yoke follows are rows of option.h's table. This
 * table has those that it cannot follow; one that asks for nothing is let pass. Names are of accelerate 1.15 (utils/launch.py,
 * utils/dataclasses.py, parallelism_config.py). Thread rule: as getenv.
 */
#ifndef YOKE_CORE_BASE_FOREIGN_VARIABLES_H
#define YOKE_CORE_BASE_FOREIGN_VARIABLES_H

#include "core/base/error.h"

/* YK_E_ARG where a variable asks for what is not there: the first one's reason, and the names of all. */
yk_status yk__foreign_check(yk_error *err);

#endif
