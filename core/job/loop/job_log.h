/* SPDX-License-Identifier: Apache-2.0 */
/* The job's log: named values by step. */
#ifndef YOKE_CORE_JOB_LOOP_JOB_LOG_H
#define YOKE_CORE_JOB_LOOP_JOB_LOG_H

#include "core/job/job.h"

void yk__log_flush(yk_job *job, bool all); /* writes the entries of earlier steps, or all */
void yk__log_close(yk_job *job);

#endif
