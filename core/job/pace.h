/* SPDX-License-Identifier: Apache-2.0 */
/* How fast the devices of a job's ranks are beside each other, before its own runs tell. */
#ifndef YOKE_CORE_JOB_PACE_H
#define YOKE_CORE_JOB_PACE_H

#include "core/job/job.h"

/* Collective: the start-up probe's times of all ranks, for the shares. */
yk_status yk__paces_measure(yk_job *job, yk_error *err);
/* Between windows, after the first shares: an excluded rank times that product by itself now and then, and shows by which factor it is
 * faster than it was (yk__group_show). That takes at most a third of the device's time, less and less, and one part in 200 beside members
 * on its cores. */
void yk__recovery_watch(yk_job *job);

#endif
