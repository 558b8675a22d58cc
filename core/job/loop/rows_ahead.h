/* SPDX-License-Identifier: Apache-2.0 */
/* The program of a rank's next rows, made while the job waits with new shares (core/job/team/share_wait.c). */
#ifndef YOKE_CORE_JOB_LOOP_ROWS_AHEAD_H
#define YOKE_CORE_JOB_LOOP_ROWS_AHEAD_H

#include "core/job/job.h"

/* After a run of m, the step's trace, in training. Step thread. */
void yk__rows_prepare(yk_job *job, const yk__micro *m);

#endif
