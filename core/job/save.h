/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a checkpoint, for whoever writes one in another way than yk_save. */
#ifndef YOKE_CORE_JOB_SAVE_H
#define YOKE_CORE_JOB_SAVE_H

#include "core/io/checkpoint.h"
#include "core/job/job.h"

/* The numbers that a run needs to go on, as they are now, but for the shares of the ranks; the caller json_decref()s them. NULL: out of
 * memory. */
json_t *yk__save_state(yk_job *job);
/* What is saved from now on counts as newer than `saves` checkpoints; the same on all ranks. */
void yk__save_after(yk_job *job, uint64_t saves);
/* Parameters and moments of a step that was kept; not collective. */
yk_status yk__save_kept(yk__checkpoint *c, yk_job *job, const yk__kept_step *kept, yk_error *err);
/* What hangs on the job writes its files (yk_on_save). */
yk_status yk__save_companions(yk_job *job, const char *dir, yk_error *err);

#endif
