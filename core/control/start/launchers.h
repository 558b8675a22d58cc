/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that another launcher has started: mpirun, torchrun, srun, mpiexec, Kubernetes. origin.h has the order. */
#ifndef YOKE_CORE_CONTROL_START_LAUNCHERS_H
#define YOKE_CORE_CONTROL_START_LAUNCHERS_H

#include "core/control/start/origin_record.h"

/* Finds the first launcher that reports several processes; no-op if none does. *own_log: this process's output does not appear among the
 * other processes' output. */
yk_status yk__launcher_find(yk__origin *origin, bool *own_log, yk_error *err);

#endif
