/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a step, and the inputs of dropout. */
#ifndef YOKE_CORE_JOB_TRACE_STEP_FEED_H
#define YOKE_CORE_JOB_TRACE_STEP_FEED_H

#include "core/job/job.h"

void yk__rows_from(yk_job *job, int64_t local, int64_t first, int64_t global); /* yk_set_rows of first, first + 1, .. */
bool yk__dropout_inputs(yk_job *job, yk__vid x, yk__vid *key, yk__vid *rows); /* for dropout of x along its first axis */
bool yk__dropout_key(yk_job *job, yk__vid *key);

#endif
