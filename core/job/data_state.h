/* SPDX-License-Identifier: Apache-2.0 */
/* What a checkpoint keeps of a job's training data, in the order in which they were opened: the place in them, and what tells whether the
 * data that a job goes on with are the same. All ranks decide alike, as they have the same data. */
#ifndef YOKE_CORE_JOB_DATA_STATE_H
#define YOKE_CORE_JOB_DATA_STATE_H

#include <jansson.h>

#include "core/job/job.h"

/* A list; the caller json_decref()s it. NULL: out of memory. */
json_t *yk__data_state(yk_job *job);
/* YK_E_ARG: labels have other names, which would give the model's outputs other meanings, or the rest of an epoch would come in another
 * order. A checkpoint that keeps nothing of these passes. */
yk_status yk__data_state_check(const yk_job *job, const char *dir, const json_t *places, yk_error *err);
/* Takes up the places; a line on rank 0 where rows or batches are others. The job fails where a place is none of these batches. */
void yk__data_state_restore(yk_job *job, const char *dir, const json_t *places);

#endif
