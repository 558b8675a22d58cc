/* SPDX-License-Identifier: Apache-2.0 */
/* Running the step under way, and its end. */
#ifndef YOKE_CORE_JOB_FLUSH_H
#define YOKE_CORE_JOB_FLUSH_H

#include "core/job/job.h"

bool yk__step_flush(yk_job *job); /* runs what the step has so far */
void yk__step_end(yk_job *job);   /* the trace and its handles die */

#endif
