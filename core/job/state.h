/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a checkpoint, which another person may have written: looked at whole before anything of it is used. */
#ifndef YOKE_CORE_JOB_STATE_H
#define YOKE_CORE_JOB_STATE_H

#include <jansson.h>

#include "core/job/job.h"

/* Every number is of its kind and in its range, names are the job's, shares add up, and the files that will be read are summed.
 * YK_E_FORMAT, with the path within the state, the value and what was expected. dir: for the message. */
yk_status yk__state_check(const yk_job *job, const char *dir, const json_t *state, yk_error *err);

/* Numbers as they are written: whole ones as decimal text, and what is not finite as "inf", "-inf" or "nan". */
bool yk__state_count(const json_t *v, uint64_t *out); /* false: neither such a text nor an integer from 0 */
bool yk__state_real(const json_t *v, double *out);
json_t *yk__state_of_count(uint64_t v);
json_t *yk__state_of_real(double v);

#endif
