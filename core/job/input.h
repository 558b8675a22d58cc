/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory of a step: input slots and run-time scalars; and the limits of an input's or parameter's size. */
#ifndef YOKE_CORE_JOB_INPUT_H
#define YOKE_CORE_JOB_INPUT_H

#include "core/job/job.h"

/* *n: number of elements. False, with the job's error, if a length is below `least` or there are too many elements. A length of 0 does
 * not excuse other lengths. */
bool yk__dims_count(yk_job *job, const char *name, uint32_t dims, const int64_t *dim, int64_t least, uint64_t *n);
/* Makes an input of the step with memory for bytes; returns its number, or YK_NONE after a failure. dims UINT32_MAX: a slot without a
 * leaf. */
uint32_t yk__input_new(yk_job *job, yk_dtype dtype, uint32_t dims, const int64_t *dim, uint64_t bytes);
uint32_t yk__scalar_new(yk_job *job, double value, yk__vid *leaf);
void yk__scalar_set(yk_job *job, uint32_t scalar, double value);

#endif
