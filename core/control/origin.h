/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this process was started, as its environment tells: by yoke launch, by another launcher, or by nobody. Read anew at each
 * call. Thread rule: any thread, while nobody changes the environment.
 */
#ifndef YOKE_CORE_CONTROL_ORIGIN_H
#define YOKE_CORE_CONTROL_ORIGIN_H

#include <stdbool.h>

#include "core/base/error.h"

/* True in a process that yk__launch (core/launch/launch.h) started. */
bool yk__launched(void);
int yk__launch_fd(void); /* its descriptor; -1: none that works */
/* Refuses what would train alone though it is one of several processes: a rank of yk__launch that lost its descriptor, or a
 * process of another launcher (torchrun, mpirun, srun, an indexed job). YOKE_LAUNCHER=none overrules both: then the process is
 * a job of its own and yk__launched is false. */
yk_status yk__launch_check(yk_error *err);
/* Whether this process prints that error, so that it is seen once: the other launcher's rank 0 does. */
bool yk__launch_speaks(void);

#endif
