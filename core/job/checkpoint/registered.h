/* SPDX-License-Identifier: Apache-2.0 */
/* The user's own state in a checkpoint: a file of named bytes next to the parameters, and the functions to call after a load. */
#ifndef YOKE_CORE_JOB_CHECKPOINT_REGISTERED_H
#define YOKE_CORE_JOB_CHECKPOINT_REGISTERED_H

#include "core/io/checkpoint.h"
#include "core/job/job.h"

uint64_t yk__registered_bytes(const yk_job *job);
void yk__registered_pack(const yk_job *job, char *to); /* packs all bytes in order */
/* Writes all registered bytes, if any; packed: their packed copy, NULL for the present bytes. */
yk_status yk__registered_save(yk__checkpoint *ckpt, const yk_job *job, const char *packed, yk_error *err);
/* Restores them; an error names the blocks that only the checkpoint of `state` or only the job has. */
yk_status yk__registered_load(yk_job *job, const char *dir, const json_t *state, yk_error *err);
void yk__registered_read(yk_job *job, const char *dir); /* calls the functions of yk_on_load */

#endif
