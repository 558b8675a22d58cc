/* SPDX-License-Identifier: Apache-2.0 */
/* Running the current step, and its end. */
#ifndef YOKE_CORE_JOB_LOOP_FLUSH_H
#define YOKE_CORE_JOB_LOOP_FLUSH_H

#include "core/job/job.h"

/* Runs the traced part of the step. States take their new values if it trains or `ends` the step: values that are traced after a read of
 * the step still read the old ones. */
bool yk__step_flush(yk_job *job, bool ends);
void yk__step_end(yk_job *job);   /* frees the trace and its handles */

#endif
