/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the trace that the host computes before the step runs. */
#ifndef YOKE_CORE_JOB_HOST_VALUE_H
#define YOKE_CORE_JOB_HOST_VALUE_H

#include "core/job/job.h"

/* All n elements of a value that follows from inputs; false after a failure, which the job has. */
bool yk__host_values(yk_job *job, yk__vid v, double *out, int64_t n);
/* The short way for labels that are an input as it came: how many are not `other_than`; *bad: the first of these that is none of
 * `classes`, or -1; false: not such a value. */
bool yk__host_labels(yk_job *job, yk__vid v, int64_t other_than, int64_t classes, double *n, int64_t *bad);

#endif
