/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a job in another way than the user does. */
#ifndef YOKE_CORE_JOB_OPEN_H
#define YOKE_CORE_JOB_OPEN_H

#include "core/job/job.h"

/* yk_open; but what its steps take is not kept below the memory limit. */
yk_job *yk__open_uncapped(const yk_config *config);
/* Whether this process has opened some job, and so may have loaded drivers. Thread rule: any thread. */
bool yk__job_opened(void);
/* Leaves the job's other ranks, as the end of a process does; for one that runs no exit handlers. */
void yk__job_leave(void);

#endif
