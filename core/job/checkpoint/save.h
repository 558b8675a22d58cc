/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a checkpoint, for writers other than yk_save. */
#ifndef YOKE_CORE_JOB_CHECKPOINT_SAVE_H
#define YOKE_CORE_JOB_CHECKPOINT_SAVE_H

#include "core/io/checkpoint.h"
#include "core/job/job.h"

/* The current numbers that a run needs to continue, without the ranks' shares; the caller json_decref()s them. NULL if memory is out. */
json_t *yk__save_state(yk_job *job);
/* Makes later checkpoints count as newer than `saves`; equal on all ranks. */
void yk__save_after(yk_job *job, uint64_t saves);
/* Saves parameters and moments of a kept step; not collective. */
yk_status yk__save_kept(yk__checkpoint *c, yk_job *job, const yk__kept_step *kept, yk_error *err);
/* Lets attached objects write their files (yk_on_save). */
yk_status yk__save_companions(yk_job *job, const char *dir, yk_error *err);

#endif
