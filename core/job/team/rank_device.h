/* SPDX-License-Identifier: Apache-2.0 */
/* The device of this process. */
#ifndef YOKE_CORE_JOB_TEAM_RANK_DEVICE_H
#define YOKE_CORE_JOB_TEAM_RANK_DEVICE_H

#include "core/job/job.h"

/* The device of yoke launch, else of the configuration, yk__place_ask or YOKE_DEVICES, else of auto. Collective if the job has its group
 * already: ranks of another launcher share out their host's devices, and one rank's error is every rank's. YK_E_ARG if the program and
 * yoke launch name different devices. Sets job->topology. */
yk_status yk__place_choose(yk_job *job, yk__placement *chosen, yk_error *err);
/* Sets the devices of this process's jobs whose configuration names none; copied; NULL for none. Thread rule: the thread that opens
 * jobs. */
void yk__place_ask(const char *devices);

#endif
