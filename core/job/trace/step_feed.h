/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a step, and the inputs of dropout. */
#ifndef YOKE_CORE_JOB_TRACE_STEP_FEED_H
#define YOKE_CORE_JOB_TRACE_STEP_FEED_H

#include "core/job/job.h"

/* yk_set_rows of first, first + 1, .., and so many rows of padding behind them, which are the last one again. */
void yk__rows_from(yk_job *job, int64_t local, int64_t padding, int64_t first, int64_t global);
/* yk_input of data without the step's padding: that is the last row again, or the number `fill`; NULL for the row. */
yk_t yk__input_padded(yk_job *job, yk_dtype dtype, uint32_t dims, const int64_t *dim, const void *data, const int32_t *fill);
bool yk__dropout_inputs(yk_job *job, yk__vid x, yk__vid *key, yk__vid *rows); /* for dropout of x along its first axis */
bool yk__dropout_key(yk_job *job, yk__vid *key);

#endif
