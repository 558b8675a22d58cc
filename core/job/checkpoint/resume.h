/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the settings of a checkpoint with the job's. No difference passes silently. */
#ifndef YOKE_CORE_JOB_CHECKPOINT_RESUME_H
#define YOKE_CORE_JOB_CHECKPOINT_RESUME_H

#include <jansson.h>

#include "core/job/job.h"

/* Warns once on rank 0 and names each setting that differs: precision, loss scaling, accumulation, shares, optimizer, schedule. Call it
 * before the state is restored. */
void yk__resume_notes(const yk_job *job, const char *dir, const json_t *state);
/* True if the schedule moves the momentum, which is then state and no setting. */
bool yk__resume_momentum(const yk_opt *opt);
/* True if the checkpoint's optimizer was made with this one's rate. Only then does the rate it reached (by a schedule, by yk_set_lr)
 * carry over. */
bool yk__resume_same_rate(const yk_opt *opt, const json_t *optimizer);
/* The same for the schedule's settings; two optimizers without a schedule are equal. */
bool yk__resume_same_schedule(const yk_opt *opt, const json_t *optimizer);
/* "torch", "deepspeed", "megatron" or "fixed". */
const char *yk__resume_scaling(yk__scaler_rule rule);
/* The schedule's settings as a checkpoint has them. */
const char *yk__resume_schedule(const yk_opt *opt, char *buf, size_t n);

#endif
