/* SPDX-License-Identifier: Apache-2.0 */
/* The user's own state in a checkpoint: a file of named bytes beside the parameters, and who is called when it was read. */
#ifndef YOKE_CORE_JOB_REGISTERED_H
#define YOKE_CORE_JOB_REGISTERED_H

#include "core/io/checkpoint.h"
#include "core/job/job.h"

uint64_t yk__registered_bytes(const yk_job *job);
void yk__registered_pack(const yk_job *job, char *to); /* all of them, one behind the other */
/* Writes all registered bytes, where there are some; packed: as they were packed, NULL: as they are now. */
yk_status yk__registered_save(yk__checkpoint *ckpt, const yk_job *job, const char *packed, yk_error *err);
/* Fills them; an error names those that the checkpoint of `state` has not, or has and the job has not. */
yk_status yk__registered_load(yk_job *job, const char *dir, const json_t *state, yk_error *err);
void yk__registered_read(yk_job *job, const char *dir); /* calls those of yk_on_load */

#endif
