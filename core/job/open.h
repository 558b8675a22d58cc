/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a job in another way than the user does. */
#ifndef YOKE_CORE_JOB_OPEN_H
#define YOKE_CORE_JOB_OPEN_H

#include "core/job/job.h"

/* yk_open; but what its steps take is not kept below the memory limit. */
yk_job *yk__open_uncapped(const yk_config *config);

#endif
