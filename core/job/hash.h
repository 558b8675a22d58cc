/* SPDX-License-Identifier: Apache-2.0 */
/* Whether all ranks have the same parameters. */
#ifndef YOKE_CORE_JOB_HASH_H
#define YOKE_CORE_JOB_HASH_H

#include "core/job/job.h"

/* Compares over ranks: all, or those that take part in steps. Collective over them. */
bool yk__job_hash(yk_job *job, bool all, uint64_t *hash);
bool yk__job_catch_up(yk_job *job); /* collective: excluded ranks get parameters and states as they are */

#endif
