/* SPDX-License-Identifier: Apache-2.0 */
/* Whether all ranks have the same parameters. */
#ifndef YOKE_CORE_JOB_HASH_H
#define YOKE_CORE_JOB_HASH_H

#include "core/job/job.h"

/* Compares over the ranks that take part in steps; collective over all. turn: which part of a large model, the same on all. */
void yk__job_compare(yk_job *job, uint64_t turn);
bool yk__job_catch_up(yk_job *job); /* collective: excluded ranks get parameters and states as they are */

#endif
