/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Emergency checkpoints. With YOKE_EMERGENCY_CHECKPOINT=DIR the ranks keep the last whole step in memory that outlives each rank. When the
 * job fails, a surviving rank writes it to DIR. It is exactly the checkpoint that yk_save would have written at the end of that step
 * (docs/decisions/0027).
 */
#ifndef YOKE_CORE_JOB_CHECKPOINT_EMERGENCY_H
#define YOKE_CORE_JOB_CHECKPOINT_EMERGENCY_H

#include "core/job/job.h"

/* Reads the variable, checks that this job can keep steps, and tries the folder on rank 0. Call it once the engine exists. */
yk_status yk__emergency_open(yk_job *job, yk_error *err);
/* True if dir is the variable's folder, by name or as the system has it. */
bool yk__emergency_is(const yk_job *job, const char *dir);
void yk__emergency_stepped(yk_job *job); /* called at the end of a window */
/* Keeps the step if it is due, before any work of the next window. All ranks call it. False if the job has failed. */
bool yk__emergency_keep(yk_job *job);

#endif
