/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a job: in another way than the user does; and what its ranks find out together first. */
#ifndef YOKE_CORE_JOB_OPEN_H
#define YOKE_CORE_JOB_OPEN_H

#include "core/job/job.h"

/* yk_open; but what its steps take is not kept below the memory limit. */
yk_job *yk__open_uncapped(const yk_config *config);

/* Collective: the start-up probe's times of all ranks, for the shares. */
yk_status yk__paces_measure(yk_job *job, yk_error *err);

#endif
