/* SPDX-License-Identifier: Apache-2.0 */
/* A job's data sets, as checkpoints see them. */
#ifndef YOKE_CORE_JOB_DATA_H
#define YOKE_CORE_JOB_DATA_H

#include "core/job/job.h"

bool yk__data_trains(const yk_data *d);
int64_t yk__data_batch(const yk_data *d); /* rows of a batch over all ranks */
/* Where this rank's row of the step under way stands in its file; false: the step was not made of a data set's batch. */
bool yk__data_where(const yk_job *job, int64_t row, char *buf, size_t n);

/* ---- blame.c ---- */
/* "row 3 (t.csv: line 9)", or "row 3". */
void yk__row_text(const yk_job *job, int64_t row, char *buf, size_t n);
/* "; input 0 of the step holds nan in row 3 (..)", or which rows the step was made of, or "". Returns buf. */
const char *yk__nonfinite_text(const yk_job *job, char *buf, size_t n);

#endif
