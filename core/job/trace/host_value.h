/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the trace that the host computes before the step runs. */
#ifndef YOKE_CORE_JOB_TRACE_HOST_VALUE_H
#define YOKE_CORE_JOB_TRACE_HOST_VALUE_H

#include "core/job/job.h"

/* Computes all n elements of a value that depends only on inputs; false after a failure, which the job has. */
bool yk__host_values(yk_job *job, yk__vid v, double *out, int64_t n);
/* A fast path for labels that are a direct input: *n counts the labels other than `other_than`; *bad is the first of them outside
 * `classes`, or -1. False for any other value. */
bool yk__host_labels(yk_job *job, yk__vid v, int64_t other_than, int64_t classes, double *n, int64_t *bad);

#endif
