/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a job for the library's own use. */
#ifndef YOKE_CORE_JOB_SESSION_OPEN_H
#define YOKE_CORE_JOB_SESSION_OPEN_H

#include "core/job/job.h"

/* yk_open for yk_find_batch_size, which errors name: the memory that its steps take is not kept below the limit. */
yk_job *yk__open_uncapped(const yk_config *config, size_t size);

#endif
