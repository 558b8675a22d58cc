/* SPDX-License-Identifier: Apache-2.0 */
/* Operations over the rows of all ranks, as parts of this rank's trace (sharding.h defines rows). */
#ifndef YOKE_CORE_JOB_TRACE_ROW_OPS_H
#define YOKE_CORE_JOB_TRACE_ROW_OPS_H

#include "core/job/job.h"

yk__vid yk__row_max(yk_job *job, yk__vid v, uint32_t axes);      /* maximum over all ranks, axes kept */
yk__vid yk__row_softmax(yk_job *job, yk__vid v, bool logarithm); /* over the last axis and all ranks */
/* The global number, i32, of the first row with the largest entry, axis kept. Rows lie along the axis, one entry each. */
yk__vid yk__row_argmax(yk_job *job, yk__vid v, uint32_t axis);
/* NULL, or the reason why this rank's row numbers are unknown, or too large for a sum in f32. */
const char *yk__row_numbers_missing(const yk_job *job);

#endif
