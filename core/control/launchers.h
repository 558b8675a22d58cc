/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that another launcher has started: mpirun, torchrun, srun, mpiexec, Kubernetes. origin.h has the order. */
#ifndef YOKE_CORE_CONTROL_LAUNCHERS_H
#define YOKE_CORE_CONTROL_LAUNCHERS_H

#include "core/control/origin_record.h"

/* By the first launcher that says that there are several processes; nothing where none does. *own_log: what this process prints
 * is not seen with what the others print. */
yk_status yk__launcher_find(yk__origin *origin, bool *own_log, yk_error *err);

#endif
