/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Emergency checkpoints: with YOKE_EMERGENCY_CHECKPOINT=DIR the ranks keep the last whole step in memory that outlives each of them, and
 * when the job fails one of those that are left writes it to DIR: exactly the checkpoint that yk_save would have written there when
 * that step had ended (docs/decisions/0027).
 */
#ifndef YOKE_CORE_JOB_EMERGENCY_H
#define YOKE_CORE_JOB_EMERGENCY_H

#include "core/job/job.h"

/* What the environment asks for. Once the engine is there. */
yk_status yk__emergency_open(yk_job *job, yk_error *err);
void yk__emergency_stepped(yk_job *job); /* a window has ended */
/* Before anything of the next window is done: keeps the step, if it is due. By all ranks. False: the job has failed. */
bool yk__emergency_keep(yk_job *job);

#endif
