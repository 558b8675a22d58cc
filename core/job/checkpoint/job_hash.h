/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that all ranks have the same parameters. */
#ifndef YOKE_CORE_JOB_CHECKPOINT_JOB_HASH_H
#define YOKE_CORE_JOB_CHECKPOINT_JOB_HASH_H

#include "core/job/job.h"

/* Compares the members' hashes; collective over all ranks. turn: selects the part of a large model, equal on all ranks. */
void yk__job_compare(yk_job *job, uint64_t turn);
bool yk__job_catch_up(yk_job *job); /* collective: gives excluded ranks the current parameters and states */

#endif
