/* SPDX-License-Identifier: Apache-2.0 */
/* Relative speeds of the devices of a job's ranks, before its own steps tell them. */
#ifndef YOKE_CORE_JOB_TEAM_RANK_PACE_H
#define YOKE_CORE_JOB_TEAM_RANK_PACE_H

#include "core/job/job.h"

/* Collective: exchanges the start-up probe's times for the shares. */
yk_status yk__paces_measure(yk_job *job, yk_error *err);
/* Called between windows, after the first shares. An excluded rank times that product now and then, and publishes the factor by which it
 * is faster than before (yk__group_show). It takes at most a third of the device's time, and ever less; with members on its cores one
 * part in 200. */
void yk__recovery_watch(yk_job *job);

#endif
