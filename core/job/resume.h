/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a checkpoint was made with the settings that the job has now. Nothing passes without a word. */
#ifndef YOKE_CORE_JOB_RESUME_H
#define YOKE_CORE_JOB_RESUME_H

#include <jansson.h>

#include "core/job/job.h"

/* One warning on rank 0 that names all settings that differ: precision, accumulation, shares, optimizer, schedule. Before the state is
 * restored. */
void yk__resume_notes(const yk_job *job, const char *dir, const json_t *state);
/* Whether the schedule moves the momentum, so that it is state and no setting. */
bool yk__resume_momentum(const yk_opt *opt);
/* Whether the checkpoint's optimizer was made with the rate that this one was made with: only then is the rate it had come to
 * (by a schedule, by yk_set_lr) state that goes on. */
bool yk__resume_same_rate(const yk_opt *opt, const json_t *optimizer);
/* The same of the schedule's settings; of both none is the same. */
bool yk__resume_same_schedule(const yk_opt *opt, const json_t *optimizer);
/* What a checkpoint keeps of the schedule's settings. */
const char *yk__resume_schedule(const yk_opt *opt, char *buf, size_t n);

#endif
