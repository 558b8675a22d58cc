/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a checkpoint about a job's training data, in the order of their opening. It has the place, and facts that tell if a resumed
 * job has the same data. All ranks decide alike, as they have the same data. */
#ifndef YOKE_CORE_JOB_CHECKPOINT_DATA_STATE_H
#define YOKE_CORE_JOB_CHECKPOINT_DATA_STATE_H

#include <jansson.h>

#include "core/job/job.h"

/* A list that the caller json_decref()s; NULL if memory is out. */
json_t *yk__data_state(yk_job *job);
/* YK_E_ARG if labels have other names, as the model's outputs would change their meaning. Also if the rest of an epoch would come in
 * another order. A checkpoint without these facts passes. */
yk_status yk__data_state_check(const yk_job *job, const char *dir, const json_t *places, yk_error *err);
/* Restores the places; rank 0 logs a line if rows or batches differ. Fails the job if a place falls between this job's batches. */
void yk__data_state_restore(yk_job *job, const char *dir, const json_t *places);

#endif
