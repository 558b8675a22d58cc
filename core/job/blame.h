/* SPDX-License-Identifier: Apache-2.0 */
/* Where numbers that are not finite came from. */
#ifndef YOKE_CORE_JOB_BLAME_H
#define YOKE_CORE_JOB_BLAME_H

#include "core/job/job.h"

/* "row 3 (t.csv: line 9)", or "row 3". */
void yk__row_text(const yk_job *job, int64_t row, char *buf, size_t n);
#define YK__NONFINITE_TEXT 520

/* "; input 0 of the step holds nan in row 3 (..)", or which operation made the first such value, on what device and where it was
 * called, and which rows the step was made of, or "". Returns buf. Collective: of several ranks the one that knows most is told, and which
 * it is. For a step that has failed: its trace is changed. */
const char *yk__nonfinite_text(yk_job *job, char buf[YK__NONFINITE_TEXT]);

#endif
