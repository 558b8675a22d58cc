/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a checkpoint, which another person may have written: checked as a whole before any use. */
#ifndef YOKE_CORE_JOB_CHECKPOINT_SAVED_STATE_H
#define YOKE_CORE_JOB_CHECKPOINT_SAVED_STATE_H

#include <jansson.h>

#include "core/job/job.h"

/* Checks that every number has its kind and range, names are the job's, shares add up, and the files to be read have checksums.
 * YK_E_FORMAT with the path within the state, the value and the expectation. dir: for the message. */
yk_status yk__state_check(const yk_job *job, const char *dir, const json_t *state, yk_error *err);

/* Numbers as they are written: integers as decimal text, numbers that are not finite as "inf", "-inf" or "nan". */
bool yk__state_count(const json_t *v, uint64_t *out); /* false unless it is such a text or an integer >= 0 */
bool yk__state_real(const json_t *v, double *out);
json_t *yk__state_of_count(uint64_t v);
json_t *yk__state_of_real(double v);

#endif
