/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory of a step: input slots, and run-time scalars; and how large an input or a parameter may be. */
#ifndef YOKE_CORE_JOB_INPUT_H
#define YOKE_CORE_JOB_INPUT_H

#include "core/job/job.h"

/* *n: how many elements; false, with the job's error: a length is below `least`, or they are too many. A length of 0 does not let others be
 * of any length. */
bool yk__dims_count(yk_job *job, const char *name, uint32_t dims, const int64_t *dim, int64_t least, uint64_t *n);
/* Number of a new input of the step with memory for bytes; YK_NONE after a failure. dims UINT32_MAX: a slot without a leaf. */
uint32_t yk__input_new(yk_job *job, yk_dtype dtype, uint32_t dims, const int64_t *dim, uint64_t bytes);
uint32_t yk__scalar_new(yk_job *job, double value, yk__vid *leaf);
void yk__scalar_set(yk_job *job, uint32_t scalar, double value);

#endif
