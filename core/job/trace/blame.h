/* SPDX-License-Identifier: Apache-2.0 */
/* The source of numbers that are not finite. */
#ifndef YOKE_CORE_JOB_TRACE_BLAME_H
#define YOKE_CORE_JOB_TRACE_BLAME_H

#include "core/job/job.h"

/* "row 3 (t.csv: line 9)", or "row 3". */
void yk__row_text(const yk_job *job, int64_t row, char *buf, size_t n);
#define YK__NONFINITE_TEXT 520

/*
 * Writes "; input 0 of the step holds nan in row 3 (..)", or the operation that made the first such value, with its device and call, and
 * the rows of the step; or "". Returns buf. Collective. With several ranks: the finding of the lowest rank that knows a cause, and that
 * rank; else this rank's own rows. For a failed step only, as it changes the trace.
 */
const char *yk__nonfinite_text(yk_job *job, char buf[YK__NONFINITE_TEXT]);

#endif
