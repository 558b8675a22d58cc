/* SPDX-License-Identifier: Apache-2.0 */
/* Running the current step, and its end. */
#ifndef YOKE_CORE_JOB_LOOP_FLUSH_H
#define YOKE_CORE_JOB_LOOP_FLUSH_H

#include "core/job/job.h"

bool yk__step_flush(yk_job *job); /* runs the traced part of the step */
void yk__step_end(yk_job *job);   /* frees the trace and its handles */

#endif
