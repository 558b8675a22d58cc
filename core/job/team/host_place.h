/* SPDX-License-Identifier: Apache-2.0 */
/* The setting yk_config.offload, and the host's device that updates for a rank with memory of its own. The step thread. */
#ifndef YOKE_CORE_JOB_TEAM_HOST_PLACE_H
#define YOKE_CORE_JOB_TEAM_HOST_PLACE_H

#include "core/job/job.h"
#include "core/run/stage.h"

yk__offload yk__job_offload(const yk_job *job);
/* YK_E_ARG for a place that is not built, and for a setting that updates otherwise. */
yk_status yk__offload_check(const yk_job *job, yk_error *err);
/* The processor, on this rank's cores, if this rank offloads; the rank's device is open. */
yk_status yk__offload_place(const yk_job *job, yk__placement *host, yk_error *err);

#endif
